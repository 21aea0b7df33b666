"""Cells that no learner can use, counted while reading so that the message can say how many and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.row_block import LARGEST, scan_block
from unrelu.passes.tiles import least_allowed, tiles
from unrelu.validation import column_label, listed, row_label

Counts = NDArray[np.int64]

_ROUNDING = 1e-3  # relative: a floor that was typed with a few digits


@dataclass(frozen=True, eq=False)
class Screening:
    """Per column: cells below the floor (and the smallest of them), and cells infinite or too large to square.

    First rows are -1 where there is none.
    """

    below_count: Counts
    below_first_row: Counts
    below_smallest: FloatArray
    large_count: Counts
    large_first_row: Counts

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
            raise InvalidDataError(
                f"{_amount(self.large_count)} infinite or beyond {LARGEST:g}, in"
                f" {_places(self.large_count, self.large_first_row, feature_names)}. Replace infinite values or mark"
                " them as missing with NaN; divide a column of huge numbers by a constant.",
                rows=self.large_first_row[self.large_count > 0].tolist(),
            )
        mirrored = np.array(assumptions.mirrored or (False,) * len(self.below_count))
        self._check_limit(np.where(mirrored, 0, self.below_count), assumptions, feature_names, -1.0)
        self._check_limit(np.where(mirrored, self.below_count, 0), assumptions, feature_names, 1.0)

    def _check_limit(self, counts: Counts, assumptions: Assumptions, names: Sequence[str] | None, sign: float) -> None:
        """Raise for cells beyond a floor (``sign`` -1) or beyond a ceiling, whose columns are upside down (1)."""
        if not counts.any():
            return
        what, side, extreme, word = (
            ("floor", "below", "smallest", "min") if sign < 0.0 else ("ceiling", "above", "largest", "max")
        )
        columns = np.flatnonzero(counts)
        rows = self.below_first_row[columns].tolist()
        farthest = -sign * float(self.below_smallest[columns].min())
        levels = np.unique(-sign * np.array(assumptions.lowest)[columns])
        level = f"the {what} {levels[0]:g}" if len(levels) == 1 else f"their column's {what}"
        kind = "Negative values in data" if farthest < 0.0 and sign < 0.0 else f"Values {side} the {what}"
        distance = np.abs(np.array(assumptions.lowest)[columns] - self.below_smallest[columns])
        if (distance <= _ROUNDING * np.abs(self.below_smallest[columns])).all():
            raise InvalidDataError(
                f"{kind}: {_amount(counts)} {side} {level} by no more than rounding, in"
                f" {_places(counts, self.below_first_row, names)}. The {extreme} is {farthest!r}. Give the {what} as"
                f" the table has it, or {what}={word!r}, or a floor_tolerance.",
                rows=rows,
            )
        raise InvalidDataError(
            f"{kind}: {_amount(counts)} {side} {level}, in {_places(counts, self.below_first_row, names)}. The"
            f" {extreme} is {farthest!r}. If these columns have another {what}, say which with {what}=, or take"
            f" {what}={word!r}: each column's {extreme} value where it repeats. A column without a {what} has"
            f" {what}=None. Otherwise correct these values or mark them as missing with NaN.",
            rows=rows,
        )


def reachable(values: NDArray[Any]) -> NDArray[Any]:
    """Huge numbers as large as can be squared: rows that are only judged may have them. Infinite ones stay.

    >>> reachable(np.array([[-1e300, np.inf, 2.0]]))
    array([[-1.e+140,      inf,  2.e+000]])
    """
    return np.where(np.isinf(values), values, np.clip(values, -LARGEST, LARGEST))


@dataclass(frozen=True, eq=False)
class Survey:
    """A tile at first sight: what is out of place, and whether a value is missing."""

    screening: Screening
    any_missing: bool


def survey(tile: Block, lowest: FloatArray) -> Survey:
    """Look at every cell of a tile once."""
    d = tile.values.shape[1]
    below = np.empty(d)
    counts, first = np.zeros((3, d), dtype=np.int64), np.empty((2, d), dtype=np.int64)
    scan_block(tile.values, lowest, counts, first, below)
    first = np.where(first >= 0, first + tile.first_row, -1)
    screening = Screening(counts[1], first[0], below, counts[2], first[1])
    return Survey(screening, bool(counts[0].any()))


def _amount(counts: Counts) -> str:
    total = int(counts.sum())
    return f"{total:,} value is" if total == 1 else f"{total:,} values are"


def _places(counts: Counts, first_row: Counts, feature_names: Sequence[str] | None) -> str:
    return listed(
        f"{column_label(int(j), feature_names)} ({counts[j]:,}, first in {row_label(int(first_row[j]))})"
        for j in np.flatnonzero(counts)
    )


def _earlier(first: Counts, second: Counts) -> Counts:
    none = np.iinfo(np.int64).max
    found = np.minimum(np.where(first < 0, none, first), np.where(second < 0, none, second))
    return np.where(found == none, -1, found)


@dataclass(frozen=True)
class ScreeningQuestion:
    """Ask which cells are infinite, too large, or below ``lowest``."""

    lowest: tuple[float, ...]

    def __call__(self, block: Block) -> Screening:
        whole: Screening | None = None
        for tile in tiles(block):
            part = survey(tile, least_allowed(np.array(self.lowest), tile.values)).screening
            whole = part if whole is None else whole.merge(part)
        assert whole is not None, "a block has at least one row"
        return whole
