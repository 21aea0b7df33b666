"""What one pass sees of each column beside its mean and spread: enough to doubt a floor, or a normal law.

Sums of t^p, p = 0..3, of the values above the floor, t = (x - origin)/unit, their smallest and largest value and how
often these occur, and how many of them are different. A long table is looked at in windows of rows, so that the pass
hardly notices.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.kernels.row_block import LARGEST, add_powers

_ALL_ROWS = 4096  # from the first on; beyond, one window in so many rows
_WINDOW, _PERIOD = 512, 32_768
LOOKED_AT = 512  # rows whose different values are counted


@dataclass(frozen=True, eq=False)
class ColumnShapes:
    """Per column, over the rows looked at: weight ``observed``, ``sums`` (4 x d) of w t^p above the floor, about
    ``origin`` in ``unit``; ``ends`` (2 x d) and ``end_weights``: smallest and largest value above the floor and their
    weights.

    ``compared`` values above the floor have ``different`` ones among them, at least ``step`` apart.
    """

    observed: FloatArray
    origin: FloatArray
    unit: FloatArray
    sums: FloatArray
    ends: FloatArray
    end_weights: FloatArray
    compared: FloatArray
    different: FloatArray
    step: FloatArray

    def merge(self, other: Self) -> Self:
        ends, weights = _joined_ends(self.ends, self.end_weights, other.ends, other.end_weights)
        mine = self.sums[0] > 0.0
        place = np.where(mine, self.origin, other.origin), np.where(mine, self.unit, other.unit)
        more = other.compared > self.compared  # more values say more of ties; both together are not at hand
        return type(self)(
            self.observed + other.observed,
            *place,
            self.about(*place).sums + other.about(*place).sums,
            ends,
            weights,
            np.where(more, other.compared, self.compared),
            np.where(more, other.different, self.different),
            np.minimum(self.step, other.step),
        )

    def about(self, origin: FloatArray, unit: FloatArray) -> Self:
        """The same sums about another origin in another unit: (t - h)^p = sum_q C(p, q) (-h)^(p - q) t^q."""
        shift = (origin - self.origin) / self.unit
        moved = [sum(comb(p, q) * (-shift) ** (p - q) * self.sums[q] for q in range(p + 1)) for p in range(4)]
        sums = np.stack([np.where(shift == 0.0, self.sums[p], moved[p]) * (self.unit / unit) ** p for p in range(4)])
        return replace(self, origin=origin, unit=unit, sums=sums)

    def scaled(self, factor: float) -> Self:
        """The record with every weight multiplied."""
        return replace(
            self, observed=factor * self.observed, sums=factor * self.sums, end_weights=factor * self.end_weights
        )


class ShapeSums:
    """Running sums of a block, tile by tile, about one origin."""

    def __init__(self, tile: Block, floor: FloatArray, origin: FloatArray) -> None:
        """From the block's first tile, whose values are also compared with each other."""
        d = len(origin)
        self._floor, self._origin, self._sums = floor, origin, np.zeros((5, d))
        self._unit = _spread(tile.values, floor, origin)
        self._ends, self._weights = _no_ends(d), np.zeros((2, d))
        self._ties = ties(tile.values[:LOOKED_AT], floor)

    def again(self) -> Self:
        """The same without sums, for other rows of the block."""
        other = copy(self)
        other._sums, other._ends, other._weights = (
            np.zeros_like(self._sums),
            _no_ends(self._sums.shape[1]),
            0.0 * self._weights,
        )
        return other

    def join(self, other: Self) -> None:
        """Add the sums of other rows of the block."""
        self._sums += other._sums
        self._ends, self._weights = _joined_ends(self._ends, self._weights, other._ends, other._weights)

    def add(self, tile: Block) -> None:
        rows = window(tile.first_row, len(tile.values))
        values = tile.values[rows]
        if len(values) == 0:
            return
        weights = np.ones(len(values)) if tile.weights is None else tile.weights[rows]
        found = np.empty((4, values.shape[1]))
        add_powers(values, self._floor, self._origin, self._unit, weights, self._sums, found)
        self._ends, self._weights = _joined_ends(self._ends, self._weights, found[::2], found[1::2])

    def record(self) -> ColumnShapes:
        place = self._origin, self._unit
        return ColumnShapes(self._sums[4], *place, self._sums[:4], self._ends, self._weights, *self._ties)


def _spread(values: NDArray[Any], floor: FloatArray, origin: FloatArray) -> FloatArray:
    """A size near that of the deviations from the origin, a power of 2: any does, as it only keeps cubes in range."""
    seen = (values > floor) & (np.abs(values) <= np.float64(LARGEST))
    size = np.max(np.where(seen, np.abs(values - origin), 0.0), axis=0).astype(np.float64)
    return np.asarray(np.exp2(np.round(np.log2(np.where(size > 0.0, size, 1.0)))))


def _no_ends(d: int) -> FloatArray:
    return np.stack([np.full(d, np.inf), np.full(d, -np.inf)])


def _joined_ends(
    ends: FloatArray, weights: FloatArray, others: FloatArray, other_weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    both = np.stack([np.minimum(ends[0], others[0]), np.maximum(ends[1], others[1])])
    return both, (ends == both) * weights + (others == both) * other_weights


def ties(values: NDArray[Any], floor: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(values above the floor, how many of them are different, the least distance between two of these), per column.

    >>> ties(np.array([[0.0], [1.0], [1.0], [3.0]]), np.zeros(1))
    (array([3.]), array([2.]), array([2.]))
    """
    ordered = np.sort(np.where(values > floor, values, np.inf).astype(np.float64), axis=0)
    compared = np.count_nonzero(ordered < np.inf, axis=0)
    with np.errstate(invalid="ignore"):  # inf - inf, beyond the last value
        gaps = np.diff(ordered, axis=0)
    apart = (gaps > 0.0) & (ordered[1:] < np.inf)
    different = np.count_nonzero(apart, axis=0) + (compared > 0)
    step = np.where(apart, gaps, np.inf).min(axis=0, initial=np.inf)
    return compared.astype(np.float64), different.astype(np.float64), step


def window(first_row: int, n: int) -> slice:
    """Which of n rows from ``first_row`` on are looked at: the same rows of a table however it is cut."""
    if first_row + n <= _ALL_ROWS:
        return slice(0, n)
    start = first_row if first_row < _ALL_ROWS else first_row + -first_row % _PERIOD
    if first_row >= _ALL_ROWS and first_row % _PERIOD < _WINDOW:
        start = first_row
    end = _ALL_ROWS if start < _ALL_ROWS else start - start % _PERIOD + _WINDOW
    return slice(min(start - first_row, n), min(end - first_row, n))
