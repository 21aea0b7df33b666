"""
Who is tied to whom, behind zeros
=================================

A known network of 30 species, found with and without the floor in mind.
``python examples/graph_behind_a_floor.py [PICTURE]`` draws 500 samples of 30 skewed columns in three communities,
about 55 % of the cells zero, and finds the graph of partial correlations three ways: unrelu's network with
margins="monotone", np.corrcoef with the same selection, and np.corrcoef of log(1 + x), which is what many do.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import matplotlib.pyplot as plt
import networkx
import numpy as np

import unrelu
from unrelu.graph.learning import correlations_of_rows, learn_graph
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE

SPECIES, COMMUNITIES, ROWS = 30, 3, 500
OURS, PLAIN, LOGS = "unrelu, margins='monotone'", "np.corrcoef", "np.corrcoef of log(1 + x)"


@dataclass(frozen=True, eq=False)
class Found:
    """The true graph, the table, and the graphs found in it."""

    edges: np.ndarray
    table: np.ndarray
    graphs: dict[str, np.ndarray]

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """(right, wrong, missed) edges, by way."""
        pairs = {
            name: (graph & self.edges, graph & ~self.edges, ~graph & self.edges) for name, graph in self.graphs.items()
        }
        return {name: tuple(int(each.sum()) // 2 for each in three) for name, three in pairs.items()}  # type: ignore[misc]

    def f1(self) -> dict[str, float]:
        return {
            name: 2 * right / (2 * right + wrong + missed) for name, (right, wrong, missed) in self.counts().items()
        }


def compare(seed: int = 0, rows: int = ROWS) -> Found:
    """A table of a random network, and what is found in it."""
    rng = np.random.default_rng(seed)
    edges, latent = _latent(rng, rows)
    floors = rng.uniform(-0.3, 0.5, SPECIES)
    table = np.where(latent > floors, np.expm1(1.2 * (latent - floors)), 0.0)
    graphs = {
        OURS: unrelu.RectifiedGaussianGraph(margins="monotone").fit(table).adjacency_,
        PLAIN: _plain(table),
        LOGS: _plain(np.log1p(table)),
    }
    return Found(edges, table, graphs)


def _latent(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Trees in communities and a few ties between these; unit variances."""
    weights = np.zeros((SPECIES, SPECIES))
    for new in range(COMMUNITIES, SPECIES):
        old = rng.choice(np.arange(new % COMMUNITIES, new, COMMUNITIES))
        weights[old, new] = rng.uniform(0.3, 0.4)
    weights[[0, 1], [1, 2]] = -0.35
    weights += weights.T
    lowest = np.linalg.eigvalsh(-weights)[0]
    covariance = np.linalg.inv(np.eye(SPECIES) - weights * min(1.0, 0.85 / -lowest))
    scale = np.sqrt(np.diagonal(covariance))
    return weights != 0.0, rng.multivariate_normal(np.zeros(SPECIES), covariance / np.outer(scale, scale), size=rows)


def _plain(table: np.ndarray) -> np.ndarray:
    return learn_graph(correlations_of_rows(np.corrcoef(table, rowvar=False), len(table)), "likely").adjacency


def draw(found: Found, path: str | None = None) -> None:
    """The graphs side by side, columns in the same places: edges that are right, wrong and missed."""
    figure = plt.figure(figsize=(13.0, 4.8), layout="constrained")
    places = networkx.kamada_kawai_layout(networkx.Graph(np.argwhere(np.triu(found.edges)).tolist()))
    for axes, (name, graph) in zip(figure.subplots(1, len(found.graphs)), found.graphs.items(), strict=True):
        axes.set_axis_off()
        right, wrong, missed = found.counts()[name]
        axes.set_title(f"{name}: F1 {found.f1()[name]:.2f}\n{right} right, {wrong} wrong, {missed} missed", fontsize=10)
        for pairs, colour, style in (
            (graph & found.edges, LEARNED, "-"),
            (~graph & found.edges, HIDDEN, "--"),
            (graph & ~found.edges, NAIVE, "-"),
        ):
            for i, j in np.argwhere(np.triu(pairs)):
                axes.plot(*np.transpose([places[i], places[j]]), style, color=colour, linewidth=1.8, zorder=1)
        x, y = np.transpose([places[j] for j in range(SPECIES)])
        axes.scatter(x, y, s=45.0, color="white", edgecolors=INK, zorder=2)
    if path:
        figure.savefig(path, dpi=110)


def main(arguments: list[str]) -> Found:
    found = compare()
    print(f"{ROWS} rows of {SPECIES} columns, {np.mean(found.table == 0.0):.0%} zeros, {found.edges.sum() // 2} edges")
    for name, (right, wrong, missed) in found.counts().items():
        print(f"  {name:27} F1 {found.f1()[name]:.3f}: {right} right, {wrong} wrong, {missed} missed")
    draw(found, *arguments[:1])
    return found


# %%
# The figures as printed, and the picture, which a file's name on the command line keeps:

if __name__ == "__main__":
    main(sys.argv[1:])
