"""The smallest and the largest value of every column, and how often each occurs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from unrelu.contracts import Block, FloatArray
from unrelu.statistics.tiles import tiles


@dataclass(frozen=True, eq=False)
class Extremes:
    """Per column; inf, -inf and 0 of a column without values. Infinite cells are left out."""

    smallest: FloatArray
    smallest_count: FloatArray
    largest: FloatArray
    largest_count: FloatArray

    def merge(self, other: Self) -> Self:
        low, high = np.minimum(self.smallest, other.smallest), np.maximum(self.largest, other.largest)
        return type(self)(
            low,
            (self.smallest == low) * self.smallest_count + (other.smallest == low) * other.smallest_count,
            high,
            (self.largest == high) * self.largest_count + (other.largest == high) * other.largest_count,
        )


@dataclass(frozen=True)
class ExtremesQuestion:
    """Ask a block for its :class:`Extremes`.

    >>> found = ExtremesQuestion()(Block(np.array([[0.25], [0.25], [3.0], [np.nan]])))
    >>> found.smallest, found.smallest_count, found.largest, found.largest_count
    (array([0.25]), array([2.]), array([3.]), array([1.]))
    """

    def __call__(self, block: Block) -> Extremes:
        whole: Extremes | None = None
        for tile in tiles(block):
            seen = np.isfinite(tile.values)
            low = np.where(seen, tile.values, np.inf).min(axis=0).astype(np.float64)
            high = np.where(seen, tile.values, -np.inf).max(axis=0).astype(np.float64)
            part = Extremes(low, _count(tile.values == low), high, _count(tile.values == high))
            whole = part if whole is None else whole.merge(part)
        assert whole is not None, "a block has at least one row"
        return whole


def _count(cells: np.ndarray) -> FloatArray:
    return np.asarray(np.count_nonzero(cells, axis=0), dtype=np.float64)
