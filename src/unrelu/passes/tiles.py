"""Blocks cut into tiles; cells that no learner can use, counted on the way; and a random sample of the rows.

A block may be a whole array in memory, a tile's working copies stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, Censoring, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.row_block import LARGEST, scan_block
from unrelu.validation import column_label, listed, row_label

Counts = NDArray[np.int64]
Keys = NDArray[np.uint64]

_TILE_ROWS, _TILE_CELLS = 1024, 2**19  # at most
_NARROW_ROWS, _NARROW_CELLS = 4096, 2**14  # of a narrow table, whose tiles would hold little for what a tile costs
ROUNDINGS = 4  # units in the last place between two ways to compute the same number
NOISE = 1e-12  # relative: the same where one of the steps had a larger number, as a logarithm near 0 has
_TYPED = 1e-3  # relative: a floor that was typed with a few digits


def tiles(block: Block, height: int | None = None, of: slice | None = None) -> Iterator[Block]:
    """The block's rows (``of`` them) a tile at a time, in C order and writeable: what the kernels are compiled for.

    Rows of weight 0 are as good as absent: their values are shown as missing.
    """
    n, d = block.values.shape
    if height is None:
        height = int(np.clip(_TILE_CELLS // max(d, 1), 64, _TILE_ROWS))
        height = max(height, min(_NARROW_CELLS // max(d, 1), _NARROW_ROWS))
    begin, end, _ = (of or slice(0, n)).indices(n)
    for start in range(begin, end, height):
        rows = slice(start, min(start + height, end))
        weights = None if block.weights is None else block.weights[rows]
        censoring = None if block.censoring is None else block.censoring[rows]
        upper = None if block.upper is None else block.upper[rows]
        values = block.values[rows]
        if not (values.flags.c_contiguous and values.flags.writeable):
            values = np.array(values, order="C")
        yield Block(without_absent(values, weights), block.first_row + start, weights, censoring=censoring, upper=upper)


def without_absent(values: NDArray[np.floating[Any]], weights: FloatArray | None) -> NDArray[np.floating[Any]]:
    """Rows of weight 0 are as good as absent: their values are shown as missing."""
    return values if weights is None or weights.all() else np.where(weights[:, None] > 0.0, values, np.nan)


def as_stored(levels: FloatArray, values: NDArray[np.floating[Any]]) -> FloatArray:
    """Floors as the table's own float type holds them: 0.1 in a float32 table is not 0.1."""
    return levels.astype(values.dtype).astype(np.float64)


def seen_above(levels: FloatArray, values: NDArray[np.floating[Any]]) -> FloatArray:
    """Values above this are above the level: a level, or a value, computed in another way may be off by rounding."""
    stored = np.where(np.isfinite(levels), levels, 0.0).astype(values.dtype)
    last_digits = ROUNDINGS * np.abs(np.spacing(stored)).astype(np.float64)
    return as_stored(levels, values) + np.maximum(last_digits, NOISE * np.abs(stored))


def least_allowed(levels: FloatArray, values: NDArray[np.floating[Any]]) -> FloatArray:
    """Values below this are below the level, for the same reason."""
    return -seen_above(-levels, values)


def censoring_of(
    values: NDArray[np.floating[Any]], censoring: Censoring | None, floor: FloatArray
) -> tuple[FloatArray, Censoring]:
    """(float64 values, marks) of a block's rows: its own marks, and those of cells at a column's ``floor`` or below."""
    low = values <= seen_above(floor, values)
    x = np.where(low, floor, values).astype(np.float64)
    return x, -low.astype(np.int8) if censoring is None else np.where(low, np.int8(-1), censoring)


# --- cells that no learner can use ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Screening:
    """Per column: cells below the floor (and the smallest of them), and cells infinite or too large to square.

    First rows are -1 where there is none.
    """

    below_count: Annotated[Counts, "ints d"]
    below_first_row: Annotated[Counts, "ints d"]
    below_smallest: Annotated[FloatArray, "unbounded floats d"]
    large_count: Annotated[Counts, "ints d"]
    large_first_row: Annotated[Counts, "ints d"]

    @classmethod
    def clean(cls, lowest: FloatArray) -> Self:
        """Of cells that are all in place."""
        none = np.zeros(len(lowest), dtype=np.int64)
        return cls(none, none - 1, lowest, none, none - 1)

    def merge(self, other: Self) -> Self:
        return type(self)(
            below_count=self.below_count + other.below_count,
            below_first_row=_earlier(self.below_first_row, other.below_first_row),
            below_smallest=np.minimum(self.below_smallest, other.below_smallest),
            large_count=self.large_count + other.large_count,
            large_first_row=_earlier(self.large_first_row, other.large_first_row),
        )

    def numbered(self, rows: NDArray[np.integer[Any]]) -> Self:
        """The same, where what was counted as row i is row ``rows[i]`` of the table."""
        below, large = (np.where(first < 0, -1, rows[first]) for first in (self.below_first_row, self.large_first_row))
        return replace(self, below_first_row=below, large_first_row=large)

    def check(self, assumptions: Assumptions, feature_names: Sequence[str] | None) -> None:
        """Raise InvalidDataError if any cell is infinite, too large to square, below its floor or above its ceiling."""
        if self.large_count.any():
            amount, places = _amount_and_places(self.large_count, self.large_first_row, feature_names)
            raise InvalidDataError(
                f"{amount} infinite or beyond {LARGEST:g}, in {places}. Replace infinite values or mark them as missing"
                " with NaN; divide a column of huge numbers by a constant.",
                rows=self.large_first_row[self.large_count > 0].tolist(),
            )
        if not self.below_count.any():
            return
        negated = assumptions.sign < 0.0
        self._check_limit(np.where(negated, 0, self.below_count), assumptions, feature_names, -1.0)
        self._check_limit(np.where(negated, self.below_count, 0), assumptions, feature_names, 1.0)

    def _check_limit(self, counts: Counts, assumptions: Assumptions, names: Sequence[str] | None, sign: float) -> None:
        """Raise for cells beyond a floor (``sign`` -1) or beyond a ceiling, whose columns are negated (1)."""
        if not counts.any():
            return
        what, side, extreme, word = (
            ("floor", "below", "smallest", "min") if sign < 0.0 else ("ceiling", "above", "largest", "max")
        )
        columns = np.flatnonzero(counts)
        farthest = -sign * float(self.below_smallest[columns].min())
        levels = np.unique(-sign * np.array(assumptions.lowest)[columns])
        level = f"the {what} {levels[0]:g}" if len(levels) == 1 else f"their column's {what}"
        kind = "Negative values in data" if farthest < 0.0 and sign < 0.0 else f"Values {side} the {what}"
        amount, places = _amount_and_places(counts, self.below_first_row, names)
        found = f"{kind}: {amount} {side} {level}"
        distance = np.abs(np.array(assumptions.lowest)[columns] - self.below_smallest[columns])
        if (distance <= _TYPED * np.abs(self.below_smallest[columns])).all():
            words = (
                f"{found} by no more than rounding, in {places}. The {extreme} is {farthest!r}. Give the {what} as the"
                f" table has it, or {what}={word!r}, or a floor_tolerance."
            )
        else:
            words = (
                f"{found}, in {places}. The {extreme} is {farthest!r}. If these columns have another {what}, say which"
                f" with {what}=, or take {what}={word!r}: each column's {extreme} value where it repeats. A column"
                f" without a {what} has {what}=None. Otherwise correct these values or mark them as missing with NaN."
            )
        raise InvalidDataError(words, parameter=what, rows=self.below_first_row[columns].tolist())


def reachable(values: NDArray[Any]) -> NDArray[Any]:
    """Huge numbers as large as can be squared: rows that are only scored may have them. Infinite ones stay."""
    return np.where(np.isinf(values), values, np.clip(values, -LARGEST, LARGEST))


def screening_of(block: Block, lowest: Sequence[float]) -> Screening:
    """A question: which cells of a block are infinite, too large, or below ``lowest``."""
    levels = np.array(lowest)
    return reduce(Screening.merge, (survey(tile, least_allowed(levels, tile.values))[0] for tile in tiles(block)))


def survey(tile: Block, lowest: FloatArray) -> tuple[Screening, bool]:
    """What is out of place in a tile, and whether a value is missing: one scan of its cells."""
    d = tile.values.shape[1]
    below = np.empty(d)
    counts, first = np.zeros((3, d), dtype=np.int64), np.empty((2, d), dtype=np.int64)
    scan_block(tile.values, lowest, counts, first, below)
    first = np.where(first >= 0, first + tile.first_row, -1)
    return Screening(counts[1], first[0], below, counts[2], first[1]), bool(counts[0].any())


def _amount_and_places(counts: Counts, first_row: Counts, names: Sequence[str] | None) -> tuple[str, str]:
    total = int(counts.sum())
    places = (
        f"{column_label(int(j), names)} ({counts[j]:,}, first in {row_label(int(first_row[j]))})"
        for j in np.flatnonzero(counts)
    )
    return f"{total:,} value is" if total == 1 else f"{total:,} values are", listed(places)


def _earlier(first: Counts, second: Counts) -> Counts:
    return np.where((first < 0) | (second < 0), np.maximum(first, second), np.minimum(first, second))


# --- a random sample of the rows ------------------------------------------------------------------
# Row i gets the key hash(seed, i); the sample is the rows of the smallest keys. So samples merge, and are the same
# however the table is cut: the smallest keys of two parts are among the smallest keys of each.


@dataclass(frozen=True, eq=False)
class Subsample:
    """``values`` (m x d) and ``weights`` of the sampled rows in table order, and what all rows were like.

    Rows of weight 0 are not sampled and count only in ``n_rows``, not in ``n_present``, ``above`` and ``observed``: per
    column, the rows above the floor and the rows not missing.
    """

    size: int
    keys: Keys
    rows: NDArray[np.int64]
    values: NDArray[np.floating[Any]]
    weights: FloatArray
    n_rows: int
    n_present: int
    above: NDArray[np.int64]
    observed: NDArray[np.int64]
    screening: Screening

    @property
    def effective_weights(self) -> FloatArray:
        """The weights, scaled so that their sum is Kish's effective number of rows."""
        return np.asarray(self.weights * (self.weights.sum() / np.sum(self.weights**2)))

    def merge(self, other: Self) -> Self:
        keys = np.concatenate([self.keys, other.keys])
        rows = np.concatenate([self.rows, other.rows])
        chosen = smallest(keys, rows, self.size)
        return type(self)(
            size=self.size,
            keys=keys[chosen],
            rows=rows[chosen],
            values=np.concatenate([self.values, other.values])[chosen],
            weights=np.concatenate([self.weights, other.weights])[chosen],
            n_rows=self.n_rows + other.n_rows,
            n_present=self.n_present + other.n_present,
            above=self.above + other.above,
            observed=self.observed + other.observed,
            screening=self.screening.merge(other.screening),
        )


@dataclass(frozen=True)
class SubsampleQuestion:
    """Ask for ``size`` rows (all, if there are no more), chosen by ``seed``."""

    size: int
    seed: int
    floor: tuple[float, ...]
    lowest: tuple[float, ...]

    @classmethod
    def under(cls, assumptions: Assumptions, size: int, seed: int) -> Self:
        return cls(size, seed, assumptions.censored_at, assumptions.lowest)

    def __call__(self, block: Block) -> Subsample:
        n, d = block.values.shape
        weights = np.ones(n) if block.weights is None else block.weights
        rows = np.arange(block.first_row, block.first_row + n, dtype=np.int64)
        keys = row_keys(self.seed, rows)
        present = np.flatnonzero(weights > 0.0)
        chosen = present[smallest(keys[present], rows[present], self.size)]
        above, observed, floor = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.int64), np.array(self.floor)
        for tile in tiles(block):
            above += np.count_nonzero(tile.values > seen_above(floor, tile.values), axis=0)
            observed += np.count_nonzero(~np.isnan(tile.values), axis=0)
        # Cells that are at their floor but for rounding are put exactly there.
        sampled = np.array(block.values[chosen], order="C")
        stored = as_stored(floor, sampled)
        near = (sampled > stored) & (sampled <= seen_above(floor, sampled))
        return Subsample(
            size=self.size,
            keys=keys[chosen],
            rows=rows[chosen],
            values=np.where(near, stored.astype(sampled.dtype), sampled),
            weights=weights[chosen],
            n_rows=n,
            n_present=len(present),
            above=above,
            observed=observed,
            screening=screening_of(block, self.lowest),
        )


def smallest(keys: Keys, rows: NDArray[np.int64], size: int) -> NDArray[np.intp]:
    """Positions of the ``size`` smallest keys, in the order of their rows."""
    chosen = np.argpartition(keys, size)[:size] if len(keys) > size else np.arange(len(keys))
    return chosen[np.argsort(rows[chosen])]


def row_keys(seed: int, rows: NDArray[np.int64]) -> Keys:
    """A uniform 64-bit key per row: the finalizer of SplitMix64 (Steele, Lea and Flood 2014) on seed and row."""
    with np.errstate(over="ignore"):
        step = np.uint64(0x9E3779B97F4A7C15)
        key = (rows.astype(np.uint64) + np.uint64(1)) * step + np.uint64(seed % 2**63) * np.uint64(0xD1342543DE82EF95)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(key ^ (key >> np.uint64(31)))
