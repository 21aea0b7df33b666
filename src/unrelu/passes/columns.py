"""What a pass keeps of single columns: sums and ends for diagnostics, smallest and largest values, distributions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from math import comb
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, BoolArray, FloatArray
from unrelu.kernels.row_block import EMPTY, LARGEST, add_powers, count_values
from unrelu.passes.engine import map_in_threads
from unrelu.passes.tiles import as_stored, tiles, without_absent

Keys = NDArray[np.int64]
Typed = tuple[int, float, float]  # a column, its floor as it was given, and as the data have it


# --- beside means and spreads: enough to test a floor, or a normal distribution ----------------------
# Sums of t^p, p = 0..3, of the values above the floor, t = (x - origin)/unit, their smallest and largest value and how
# often these occur, and how many of them are different. Of a long table windows of rows are taken, so that the pass
# takes hardly longer.

_ALL_ROWS = 4096  # from the first on; beyond, one window in so many rows
_WINDOW, _PERIOD = 512, 32_768
TIED_ROWS = 512  # rows whose different values are counted


@dataclass(frozen=True, eq=False)
class ColumnMargins:
    """Per column, over the rows in windows: weight ``observed``, ``sums`` (4 x d) of w t^p above the floor, about
    ``origin`` in ``unit``; ``ends`` (2 x d) and ``end_weights``: smallest and largest value above the floor and their
    weights.

    ``compared`` values above the floor have ``different`` ones among them, at least ``step`` apart.
    """

    observed: Annotated[FloatArray, "floats d"]
    origin: Annotated[FloatArray, "floats d"]
    unit: Annotated[FloatArray, "floats d"]
    sums: Annotated[FloatArray, "floats 4 d"]
    ends: Annotated[FloatArray, "unbounded floats 2 d"]
    end_weights: Annotated[FloatArray, "floats 2 d"]
    compared: Annotated[FloatArray, "floats d"]
    different: Annotated[FloatArray, "floats d"]
    step: Annotated[FloatArray, "unbounded floats d"]

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

    @classmethod
    def begun(cls, origin: FloatArray, size: FloatArray, ties: Sequence[FloatArray]) -> Self:
        """Without any rows yet. ``size``: the largest deviations from the origin, and ``ties``, in the first rows."""
        # A power of 2: any does, as it only keeps cubes in range.
        unit = np.exp2(np.round(np.log2(np.where(size > 0.0, size, 1.0))))
        nothing = np.zeros((4, len(origin)))
        ends = np.full((2, len(origin)), [[np.inf], [-np.inf]])
        return cls(nothing[0], origin, unit, nothing, ends, nothing[:2], *ties)

    @classmethod
    def of_first(cls, values: NDArray[np.floating[Any]], floor: FloatArray, origin: FloatArray) -> Self:
        """Without any rows yet; the first of them give the unit and are compared with each other."""
        seen = (values > floor) & (np.abs(values) <= np.float64(LARGEST))
        size = np.max(np.where(seen, np.abs(values - origin), 0.0), axis=0).astype(np.float64)
        few = slice(0, TIED_ROWS)
        return cls.begun(origin, size, ties(np, values[few].astype(np.float64), seen[few]))

    def with_rows(self, tile: Block, floor: FloatArray) -> Self:
        """With those rows of a tile added that are in windows."""
        rows = window(tile.first_row, len(tile.values))
        values = tile.values[rows]
        if len(values) == 0:
            return self
        weights = np.ones(len(values)) if tile.weights is None else tile.weights[rows]
        sums, found = np.vstack([self.sums, self.observed]), np.empty((4, values.shape[1]))
        add_powers(values, floor, self.origin, self.unit, weights, sums, found)
        ends, end_weights = _joined_ends(self.ends, self.end_weights, found[::2], found[1::2])
        return replace(self, observed=sums[4], sums=sums[:4], ends=ends, end_weights=end_weights)

    def scaled(self, factor: float) -> Self:
        """The record with every weight multiplied."""
        return replace(
            self, observed=factor * self.observed, sums=factor * self.sums, end_weights=factor * self.end_weights
        )


def _joined_ends(
    ends: FloatArray, weights: FloatArray, others: FloatArray, other_weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    both = np.stack([np.minimum(ends[0], others[0]), np.maximum(ends[1], others[1])])
    return both, (ends == both) * weights + (others == both) * other_weights


def ties(xp: Any, x: Any, seen: Any) -> tuple[Any, Any, Any]:
    """(values seen, how many of them are different, the least distance between two of these), per column of doubles of
    NumPy or of a device."""
    endless = xp.full_like(x, np.inf)
    ordered = xp.sort(xp.where(seen, x, endless), axis=0)
    compared = xp.sum(xp.astype(seen, x.dtype), axis=0)
    if int(x.shape[0]) == 1:
        return compared, compared, endless[0, ...]
    values = xp.where(ordered < np.inf, ordered, xp.zeros_like(x))
    gaps = values[1:, ...] - values[:-1, ...]
    apart = (gaps > 0.0) & (ordered[1:, ...] < np.inf)
    different = xp.sum(xp.astype(apart, x.dtype), axis=0) + xp.astype(compared > 0.0, x.dtype)
    return compared, different, xp.min(xp.where(apart, gaps, endless[1:, ...]), axis=0)


def window(first_row: int, n: int) -> slice:
    """Which of n rows from ``first_row`` on are in a window: the same rows of a table however it is cut."""
    if first_row + n <= _ALL_ROWS:
        return slice(0, n)
    start = first_row if first_row < _ALL_ROWS else first_row + -first_row % _PERIOD
    if first_row >= _ALL_ROWS and first_row % _PERIOD < _WINDOW:
        start = first_row
    end = _ALL_ROWS if start < _ALL_ROWS else start - start % _PERIOD + _WINDOW
    return slice(min(start - first_row, n), min(end - first_row, n))


# --- smallest and largest values, and the floors that they are -----------------------------------

_FIRST_CELLS = 2**22  # from which the floors of the data are taken
_NOISE, _ROUNDINGS = 1e-9, 4.0  # relative, and in units of the last place: one number, computed in two ways
_FEWEST_DIGITS, _TRUNCATED = 3, 4  # of a floor that was typed, and of one that may have been cut off, not rounded
_SHARE, _ALONE = 0.005, 3.0  # of the values that are at a floor, and how many times those just above it


@dataclass(frozen=True, eq=False)
class Extremes:
    """Per column ``ends`` (2 x d), the smallest and the largest value, and how often these occur.

    Of a column without values inf, -inf and 0. Infinite cells are left out.
    """

    ends: FloatArray
    counts: FloatArray

    def merge(self, other: Self) -> Self:
        return type(self)(*_joined_ends(self.ends, self.counts, other.ends, other.counts))


def extremes(block: Block) -> Extremes:
    """A question: the :class:`Extremes` of a block.

    >>> found = extremes(Block(np.array([[0.25], [0.25], [3.0], [np.nan]])))
    >>> found.ends.ravel(), found.counts.ravel()
    (array([0.25, 3.  ]), array([2., 1.]))
    """
    parts = []
    for tile in tiles(block):
        seen = np.isfinite(tile.values)
        low, high = np.where(seen, tile.values, np.inf).min(axis=0), np.where(seen, tile.values, -np.inf).max(axis=0)
        ends = np.stack([low, high]).astype(np.float64)
        parts.append(Extremes(ends, np.stack([1.0 * np.count_nonzero(tile.values == end, axis=0) for end in ends])))
    return reduce(Extremes.merge, parts)


def first_values(blocks: Iterable[Block], n_features: int) -> NDArray[np.floating[Any]]:
    """Some million cells, as many as the floors of the columns take."""
    most, held, rows = max(_FIRST_CELLS // max(n_features, 1), 1), [], 0
    for block in blocks:
        part = slice(most - rows)
        weights = None if block.weights is None else block.weights[part]
        held.append(without_absent(block.values[part], weights))
        rows += len(held[-1])
        if rows >= most:
            break
    return held[0] if len(held) == 1 else np.concatenate(held)


def floors_of_data(
    values: NDArray[np.floating[Any]], floor: FloatArray, fewest: int = 2
) -> tuple[FloatArray, BoolArray]:
    """The floors of the columns of ``values``, where a given one is that of the data but for rounding.

    Also which of them were typed: given with a few digits of the number in the data.

    The smallest value of a column takes the place of the floor if it repeats (occurs ``fewest`` times) and is the same
    but for the rounding of a computation, or rounds to the floor as that was typed, with three digits or more, and
    repeats as no value just above it does. A floor of 0 is exact.

    >>> values = np.maximum(np.random.default_rng(0).normal(size=(500, 1)), np.log(0.5))
    >>> found, typed = floors_of_data(values, np.array([-0.6931]))
    >>> found == np.log(0.5), typed
    (array([ True]), array([ True]))
    """
    new, typed = floor.copy(), np.zeros(len(floor), dtype=bool)
    finite = np.isfinite(floor) & (floor != 0.0)
    if not (finite.any() and len(values)):
        return new, typed
    smallest = np.fmin.reduce(values, axis=0).astype(np.float64)
    near = _is_near(smallest, floor, as_stored(floor, values)) & finite
    noise = _noise(values)
    for j in np.flatnonzero(near).tolist():
        column, low = values[:, j], float(smallest[j])
        count, gap = int(np.count_nonzero(column == low)), abs(low - float(floor[j]))
        if count < fewest:
            continue
        if gap <= noise * abs(low):
            new[j] = low
            continue
        _, figures, exponent = Decimal(repr(float(floor[j]))).normalize().as_tuple()
        assert isinstance(exponent, int), "a floor is finite"
        digits, unit = len(figures), float(Decimal(1).scaleb(exponent))  # -0.6931: 4, of 0.0001 each
        above = np.count_nonzero(column <= low + unit) - count
        often = count >= max(2.0, _SHARE * np.count_nonzero(~np.isnan(column)), _ALONE * above)
        if often and digits >= _FEWEST_DIGITS and gap <= unit * (1.0 if digits >= _TRUNCATED else 0.5) * (1.0 + _NOISE):
            new[j], typed[j] = low, True
    return new, typed


def cell_floors_of_data(values: NDArray[np.floating[Any]], floor: FloatArray) -> tuple[FloatArray, list[Typed]]:
    """The same of cells with floors of their own (n x d; ``values`` are of the first rows), and which were typed.

    Cells of a column that have one floor are treated as a column that has it.
    """
    new, typed = floor, []
    for j in range(floor.shape[1]):
        column, own = values[:, j], floor[: len(values), j]
        rows = np.flatnonzero(np.isfinite(own) & (own != 0.0) & ~np.isnan(column))
        if not len(rows):
            continue
        rows = rows[np.argsort(own[rows], kind="stable")]
        levels, starts = np.unique(own[rows], return_index=True)
        smallest = np.minimum.reduceat(column[rows], starts).astype(np.float64)
        near = _is_near(smallest, levels, as_stored(levels, values))
        same = near & (np.abs(smallest - levels) <= _noise(values) * np.abs(smallest))
        taken, groups = np.where(same, smallest, levels), np.split(column[rows], starts[1:])
        for k in np.flatnonzero(near & ~same).tolist():
            found, was_typed = floors_of_data(groups[k][:, None], levels[k : k + 1])
            if was_typed[0]:
                taken[k] = found[0]
                typed.append((j, float(levels[k]), float(taken[k])))
        if (taken == levels).all():
            continue
        new = floor.copy() if new is floor else new
        place = np.minimum(np.searchsorted(levels, floor[:, j]), len(levels) - 1)
        new[:, j] = np.where(levels[place] == floor[:, j], taken[place], floor[:, j])
    return new, typed


def _noise(values: NDArray[np.floating[Any]]) -> float:
    """By how much, relatively, two ways to compute a number may differ."""
    return max(_NOISE, _ROUNDINGS * float(np.finfo(values.dtype).eps))


def _is_near(smallest: FloatArray, floor: FloatArray, stored: FloatArray) -> BoolArray:
    """Whether smallest values are no floors, but may be these with other digits."""
    with np.errstate(invalid="ignore"):
        near = np.abs(smallest - stored) <= 0.5 * 10.0 ** (1 - _FEWEST_DIGITS) * np.abs(floor)
    return np.asarray(near & (smallest != stored))


# --- distributions --------------------------------------------------------------------------------
# Records merge exactly: which values have keys of their own depends on the set of all values alone
# (kernels/row_block.py), so that any split of the rows gives the same record. Of a long table a part of the rows
# may do, which are chosen by their place in it; its smallest and largest values are always those of all.

MOST_KEYS = 2048
_TABLE = 4 * MOST_KEYS
_COLUMNS, _ROWS = 8, 2**16  # of a table that are copied at a time: a cache line of doubles, a core's cache
_FIRST_ROWS, _ONE_IN = 8192, 32  # of a part: all rows at first, then one in so many
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: neighbouring rows fall far apart
_BEHIND_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@dataclass(frozen=True, eq=False)
class ValueCounts:
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
        """(lowest, highest) double that each key stands for; the same where every value has a key."""
        first = self.keys << self.shift
        bits = np.stack([first, first + (1 << self.shift) - 1])
        low, high = np.where(bits >= 0, bits, bits ^ _BEHIND_SIGN).view(np.float64)
        return np.maximum(low, self.ends[0]), np.minimum(high, self.ends[1])


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The columns, and the sum and sum of squares of the rows' weights in each. ``stored_as``: the floats' type.

    ``columns`` are of the cells whose number was seen; ``at_most`` and ``at_least`` of the limits of the others, where
    cells have limits of their own. ``whole``: whether all rows were counted.
    """

    columns: tuple[ValueCounts, ...]
    at_most: tuple[ValueCounts, ...]
    at_least: tuple[ValueCounts, ...]
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


def _merged(mine: tuple[ValueCounts, ...], theirs: tuple[ValueCounts, ...]) -> tuple[ValueCounts, ...]:
    return tuple(a.merge(b) for a, b in zip(mine, theirs, strict=True))


def margins_of(block: Block, in_part: bool = False) -> ColumnValues:
    """A question: the margins of a block, those of a part of its rows where ``in_part``."""
    n, d = block.values.shape
    kept = None  # which rows are counted: all of them
    if in_part and block.first_row + n > _FIRST_ROWS:
        rows = np.arange(block.first_row, block.first_row + n, dtype=np.uint64)
        kept = np.asarray((rows < _FIRST_ROWS) | (rows * _GOLDEN < np.uint64(2**64 // _ONE_IN)))
    parts = map_in_threads(partial(_margins, block, kept), range(0, d, _COLUMNS))
    columns, at_most, at_least, sums = zip(*(column for part in parts for column in part), strict=True)
    weight, squared = np.array(sums).T
    return ColumnValues(columns, at_most, at_least, weight, squared, block.values.dtype.name, kept is None)


def _margins(
    block: Block, kept: NDArray[np.bool_] | None, start: int
) -> list[tuple[ValueCounts, ValueCounts, ValueCounts, tuple[float, float]]]:
    """Of some neighbouring columns, with the sum and sum of squares of their cells' weights."""
    n, stop = len(block.values), min(start + _COLUMNS, block.values.shape[1])
    counts = [[_Counts() for _ in range(3)] for _ in range(start, stop)]
    for first in range(0, n, _ROWS):
        rows = slice(first, first + _ROWS)
        values = np.ascontiguousarray(block.values[rows, start:stop].T, dtype=np.float64) + 0.0  # no -0.0
        weights = np.ones(values.shape[1]) if block.weights is None else block.weights[rows]
        some = None if kept is None else kept[rows]
        for j, (column, kinds) in enumerate(zip(values, counts, strict=True)):
            if block.censoring is None:
                kinds[0].add(column, weights, some)
                continue
            marks = block.censoring[rows, start + j]
            for kind, mark in zip(kinds, (0, -1, 1), strict=True):
                kind.add(column, weights * (marks == mark), some)
    found = []
    for kinds in counts:
        seen, at_most, at_least = (kind.margin() for kind in kinds)
        sums = sum(kind.weight for kind in kinds), sum(kind.squared_weight for kind in kinds)
        found.append((seen, at_most, at_least, sums))
    return found


class _Counts:
    """A column's running counts."""

    def __init__(self) -> None:
        self._keys, self._weights = np.full(_TABLE, EMPTY), np.zeros(_TABLE)
        self._state, self._whole = np.zeros(2, dtype=np.int64), True
        self._low, self._high = np.inf, -np.inf
        self.weight = self.squared_weight = 0.0

    def add(self, column: FloatArray, weights: FloatArray, some: NDArray[np.bool_] | None) -> None:
        """Count ``some`` of the cells; the ends are those of all."""
        seen = ~np.isnan(column) & (weights > 0.0)
        if not seen.all():
            column, weights, some = column[seen], weights[seen], None if some is None else some[seen]
        self._low = float(column.min(initial=self._low))
        self._high = float(column.max(initial=self._high))
        if some is not None:
            column, weights = column[some], weights[some]
        count_values(column.view(np.int64), weights, MOST_KEYS, self._keys, self._weights, self._state)
        self._whole = self._whole and bool((column == np.rint(column)).all())
        self.weight += float(weights.sum())
        self.squared_weight += float(weights @ weights)

    def margin(self) -> ValueCounts:
        held = self._keys != EMPTY
        keys, weights = self._keys[held], self._weights[held]
        order = np.argsort(keys)
        ends = (self._low, self._high)
        return ValueCounts(int(self._state[0]), keys[order], weights[order], self._whole, ends)


def _summed(keys: Keys, weights: FloatArray) -> tuple[Keys, FloatArray]:
    unique, where = np.unique(keys, return_inverse=True)
    sums: FloatArray = np.bincount(where, weights, len(unique)).astype(np.float64)
    return unique, sums
