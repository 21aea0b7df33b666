"""What the stages of networks hand on, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray

Graphs = BoolArray
"""p x d x d: one symmetric matrix for each of p penalties, True where there is an edge."""


class Edge(NamedTuple):
    """Two columns that are tied directly, by name (by position where columns have none).

    ``stability``: the share of random halves of the rows in which they are; ``q_value``: the least false discovery rate
    at which they are. NaN where that was not asked.
    """

    first: str | int
    second: str | int
    partial_correlation: float
    stderr: float
    stability: float
    q_value: float


EDGE_COLUMNS = tuple(Edge.__annotations__)


@dataclass(frozen=True, eq=False)
class NetworkPath:
    """Graphs from sparse to dense: penalty, number of edges and, where asked, what the choice looked at.

    ``instability``: 2 t (1 - t) of a pair that is tied in the share t of StARS's subsets, averaged over all pairs,
    and its largest value so far. ``criterion``: the EBIC of the refits, NaN where it was clear before. ``chosen`` is
    the position of the graph that was taken or, with "likely", started from.
    """

    penalties: FloatArray
    n_edges: NDArray[np.int64]
    chosen: int
    instability: FloatArray | None = None
    criterion: FloatArray | None = None

    @property
    def penalty(self) -> float:
        return float(self.penalties[self.chosen])


@dataclass(frozen=True, eq=False)
class Network:
    """A graph with the partial correlations on it; matrices are d x d.

    ``precision`` and ``partial_correlation`` are the most likely ones with zeros where there is no edge, or, where
    edges are chosen by their false discovery rate, those of all pairs. ``stderr`` is NaN where nothing was estimated;
    ``degrees`` of freedom of these errors, inf for the model's own. ``effective_rows``: how many rows without floors
    would know the correlations as well. ``path`` is None where there was no penalty.

    ``rule``: how the edges were found, "likely", "ebic", "stars", "fdr" or "penalty". It was asked for the graphs of
    ``n_subsets`` random halves of the rows: ``stability`` is the share of them that tie a pair, ``agreement`` the share
    of a half's edges that the half without its rows has, too. ``n_left_out``: edges of the rule that fewer than half of
    the halves have, left out because most of its edges are such.
    """

    adjacency: BoolArray
    precision: FloatArray
    partial_correlation: FloatArray
    stderr: FloatArray
    degrees: float
    stability: FloatArray
    q_value: FloatArray
    effective_rows: float
    n_subsets: int
    path: NetworkPath | None
    rule: str = ""
    agreement: float = float("nan")
    n_left_out: int = 0

    @property
    def n_edges(self) -> int:
        return int(np.count_nonzero(self.adjacency)) // 2

    def reflected(self, sign: FloatArray) -> Self:
        """The network of columns of which some, with sign -1, are turned upside down."""
        both = np.outer(sign, sign)
        return replace(self, precision=self.precision * both, partial_correlation=self.partial_correlation * both)

    def edges(self, names: tuple[str, ...] | None) -> tuple[Edge, ...]:
        """The edges, the strongest first."""
        first, second = np.nonzero(np.triu(self.adjacency, 1))
        order = np.argsort(-np.abs(self.partial_correlation[first, second]), kind="stable")
        found = []
        for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True):
            told: Any = [
                float(each[i, j]) for each in (self.partial_correlation, self.stderr, self.stability, self.q_value)
            ]
            found.append(Edge(i if names is None else names[i], j if names is None else names[j], *told))
        return tuple(found)
