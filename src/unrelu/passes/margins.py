"""The distribution of every column: weights of its values, of runs of neighbouring values where they are many.

Records merge exactly: which values are told apart depends on the set of all values alone
(:mod:`unrelu.kernels.row_block`), so that any split of the rows gives the same record. A long table may be looked at
in a part of its rows, which are chosen by their place in it; its smallest and largest values are always those of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.kernels.row_block import EMPTY, count_values
from unrelu.passes.local import map_in_threads

MOST_KEYS = 2048
_TABLE = 4 * MOST_KEYS
_COLUMNS, _ROWS = 8, 2**16  # of a table that are copied at a time: a cache line of doubles, a core's cache
_FIRST_ROWS, _ONE_IN = 8192, 32  # of a part: all rows at first, then one in so many
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: neighbouring rows fall far apart
_BEHIND_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)

Keys = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ColumnMargin:
    """Sorted ``keys`` of values, all but their last ``shift`` bits, and the weight of each; ``whole``: no fractions.

    ``ends``: the smallest and the largest value.
    """

    shift: int
    keys: Keys
    weights: FloatArray
    whole: bool
    ends: tuple[float, float]

    def merge(self, other: Self) -> Self:
        shift = max(self.shift, other.shift)
        mine, theirs = self.keys >> (shift - self.shift), other.keys >> (shift - other.shift)
        keys, weights = _summed(np.concatenate([mine, theirs]), np.concatenate([self.weights, other.weights]))
        while len(keys) > MOST_KEYS:
            shift += 1
            keys, weights = _summed(keys >> 1, weights)
        ends = (min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1]))
        return type(self)(shift, keys, weights, self.whole and other.whole, ends)

    @property
    def runs(self) -> tuple[FloatArray, FloatArray]:
        """(lowest, highest) double that each key stands for; the same where values are told apart one by one."""
        first = self.keys << self.shift
        low, high = _doubles(first), _doubles(first + (1 << self.shift) - 1)
        return np.maximum(low, self.ends[0]), np.minimum(high, self.ends[1])


@dataclass(frozen=True, eq=False)
class Margins:
    """The columns, and the sum and sum of squares of the rows' weights in each. ``stored_as``: the floats' type.

    ``columns`` are of the cells whose number was seen; ``at_most`` and ``at_least`` of the limits of the others, where
    cells have limits of their own. ``whole``: whether all rows were looked at.
    """

    columns: tuple[ColumnMargin, ...]
    at_most: tuple[ColumnMargin, ...]
    at_least: tuple[ColumnMargin, ...]
    weight: FloatArray
    squared_weight: FloatArray
    stored_as: str
    whole: bool

    def merge(self, other: Self) -> Self:
        return type(self)(
            _merged(self.columns, other.columns),
            _merged(self.at_most, other.at_most),
            _merged(self.at_least, other.at_least),
            self.weight + other.weight,
            self.squared_weight + other.squared_weight,
            self.stored_as if self.stored_as == other.stored_as else "float64",
            self.whole and other.whole,
        )

    @property
    def rows(self) -> FloatArray:
        """Kish's effective number of rows, per column."""
        total = np.maximum(self.squared_weight, 1e-300)
        return np.asarray(self.weight**2 / total)


def _merged(mine: tuple[ColumnMargin, ...], theirs: tuple[ColumnMargin, ...]) -> tuple[ColumnMargin, ...]:
    return tuple(a.merge(b) for a, b in zip(mine, theirs, strict=True))


@dataclass(frozen=True)
class MarginsQuestion:
    """Ask a block for its :class:`Margins`, those of a part of the rows where ``in_part``.

    >>> found = MarginsQuestion()(Block(np.array([[0.0], [2.5], [0.0], [np.nan]]))).columns[0]
    >>> found.runs[0], found.weights, found.whole
    (array([0. , 2.5]), array([2., 1.]), False)
    """

    in_part: bool = False

    def __call__(self, block: Block) -> Margins:
        d, kept = block.values.shape[1], _part(block) if self.in_part else None
        parts = map_in_threads(lambda start: _margins(block, start, kept), range(0, d, _COLUMNS))
        columns, at_most, at_least, sums = zip(*(column for part in parts for column in part), strict=True)
        weight, squared = np.array(sums).T
        return Margins(columns, at_most, at_least, weight, squared, block.values.dtype.name, kept is None)


def _part(block: Block) -> NDArray[np.bool_] | None:
    """Which rows are looked at; None for all of them."""
    n = len(block.values)
    if block.first_row + n <= _FIRST_ROWS:
        return None
    rows = np.arange(block.first_row, block.first_row + n, dtype=np.uint64)
    return np.asarray((rows < _FIRST_ROWS) | (rows * _GOLDEN < np.uint64(2**64 // _ONE_IN)))


def _margins(
    block: Block, start: int, kept: NDArray[np.bool_] | None
) -> list[tuple[ColumnMargin, ColumnMargin, ColumnMargin, tuple[float, float]]]:
    """Of some neighbouring columns, with the sum and sum of squares of their cells' weights."""
    n, stop = len(block.values), min(start + _COLUMNS, block.values.shape[1])
    tallies = [[_Tally() for _ in range(3)] for _ in range(start, stop)]
    for first in range(0, n, _ROWS):
        rows = slice(first, first + _ROWS)
        values = np.ascontiguousarray(block.values[rows, start:stop].T, dtype=np.float64) + 0.0  # no -0.0
        weights = np.ones(values.shape[1]) if block.weights is None else block.weights[rows]
        some = None if kept is None else kept[rows]
        for j, (column, kinds) in enumerate(zip(values, tallies, strict=True)):
            if block.beyond is None:
                kinds[0].add(column, weights, some)
                continue
            marks = block.beyond[rows, start + j]
            for tally, mark in zip(kinds, (0, -1, 1), strict=True):
                tally.add(column, weights * (marks == mark), some)
    found = []
    for kinds in tallies:
        seen, at_most, at_least = (tally.margin() for tally in kinds)
        sums = sum(tally.weight for tally in kinds), sum(tally.squared_weight for tally in kinds)
        found.append((seen, at_most, at_least, sums))
    return found


class _Tally:
    """A column's running counts."""

    def __init__(self) -> None:
        self._keys, self._weights = np.full(_TABLE, EMPTY), np.zeros(_TABLE)
        self._state, self._whole = np.zeros(2, dtype=np.int64), True
        self._low, self._high = np.inf, -np.inf
        self.weight = self.squared_weight = 0.0

    def add(self, column: FloatArray, weights: FloatArray, some: NDArray[np.bool_] | None) -> None:
        """Count ``some`` of the cells; the ends are those of all."""
        known = ~np.isnan(column) & (weights > 0.0)
        if not known.all():
            column, weights, some = column[known], weights[known], None if some is None else some[known]
        self._low = float(column.min(initial=self._low))
        self._high = float(column.max(initial=self._high))
        if some is not None:
            column, weights = column[some], weights[some]
        count_values(column.view(np.int64), weights, MOST_KEYS, self._keys, self._weights, self._state)
        self._whole = self._whole and bool((column == np.rint(column)).all())
        self.weight += float(weights.sum())
        self.squared_weight += float(weights @ weights)

    def margin(self) -> ColumnMargin:
        held = self._keys != EMPTY
        keys, weights = self._keys[held], self._weights[held]
        order = np.argsort(keys)
        ends = (self._low, self._high)
        return ColumnMargin(int(self._state[0]), keys[order], weights[order], self._whole, ends)


def _summed(keys: Keys, weights: FloatArray) -> tuple[Keys, FloatArray]:
    unique, where = np.unique(keys, return_inverse=True)
    sums: FloatArray = np.bincount(where, weights, len(unique)).astype(np.float64)
    return unique, sums


def _doubles(keys: Keys) -> FloatArray:
    bits: NDArray[Any] = np.where(keys >= 0, keys, keys ^ _BEHIND_SIGN)
    return np.asarray(bits.view(np.float64))
