"""Graphs, precisions with their edges, and tables of the latent rows with and without a floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from unrelu.contracts import BoolArray, FloatArray

KINDS = ("chain", "hub", "random", "scale-free")
_HUB, _EDGES = 10, 1.35  # columns of a hub; edges a column of a random graph
_WEAKEST, _STRONGEST, _LEAST_EIGENVALUE = 0.25, 0.45, 0.15
_UNEVEN = 0.15  # of the share floored


class Cell(NamedTuple):
    """One kind of table."""

    kind: str
    d: int
    n: int
    floored: float

    def __str__(self) -> str:
        return f"{self.kind}, d={self.d}, n={self.n:,}, {self.floored:.0%} floored"


@dataclass(frozen=True, eq=False)
class Table:
    """Latent rows, the same at their floor 0, and the truth."""

    latent: FloatArray
    floored: FloatArray
    edges: BoolArray
    partial: FloatArray

    @property
    def strength(self) -> float:
        return float(np.abs(self.partial[self.edges]).mean())


def table(cell: Cell, seed: int) -> Table:
    rng = np.random.default_rng([KINDS.index(cell.kind), cell.d, cell.n, round(100 * cell.floored), seed])
    edges = graph(cell.kind, cell.d, rng)
    precision = precision_on(edges, rng)
    covariance = np.linalg.inv(precision)
    scale = np.sqrt(np.diagonal(covariance))
    root = np.linalg.cholesky(covariance / np.outer(scale, scale))
    shares = cell.floored + rng.uniform(-_UNEVEN, _UNEVEN, cell.d)
    latent = rng.standard_normal((cell.n, cell.d)) @ root.T - ndtri(shares)
    return Table(latent, np.maximum(latent, 0.0), edges, -precision + 2.0 * np.eye(cell.d))


def graph(kind: str, d: int, rng: np.random.Generator) -> BoolArray:
    upper = np.zeros((d, d), dtype=bool)
    if kind == "chain":
        upper[np.arange(d - 1), np.arange(1, d)] = True
    elif kind == "hub":
        for hub in range(0, d, _HUB):
            upper[hub, hub + 1 : hub + _HUB] = True
    elif kind == "random":
        first, second = np.triu_indices(d, 1)
        at = rng.choice(len(first), round(_EDGES * d), replace=False)
        upper[first[at], second[at]] = True
    else:  # each new column is tied to one before it, by its degree
        degree = np.zeros(d)
        upper[0, 1], degree[:2] = True, 1.0
        for new in range(2, d):
            old = rng.choice(new, p=degree[:new] / degree[:new].sum())
            upper[old, new] = True
            degree[[old, new]] += 1.0
    return upper | upper.T


def precision_on(edges: BoolArray, rng: np.random.Generator) -> FloatArray:
    """Unit diagonal; off it minus the partial correlations."""
    d = len(edges)
    size = rng.uniform(_WEAKEST, _STRONGEST, (d, d)) * rng.choice([-1.0, 1.0], (d, d))
    off = np.triu(size, 1)
    off = (off + off.T) * edges
    lowest = np.linalg.eigvalsh(off)[0]
    return np.asarray(np.eye(d) + min(1.0, (1.0 - _LEAST_EIGENVALUE) / -lowest) * off)


def f1(found: BoolArray, edges: BoolArray) -> float:
    """The harmonic mean of precision and recall of the edges."""
    return float(2.0 * np.sum(found & edges) / max(np.sum(found) + np.sum(edges), 1))
