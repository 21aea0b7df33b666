"""Cells that no learner can use, counted while reading so that the message can say how many and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.row_block import LARGEST, scan_block
from unrelu.statistics.tiles import as_stored, tiles
from unrelu.validation import column_label, listed, row_label

Counts = NDArray[np.int64]


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

    def check(self, lowest: Sequence[float], feature_names: Sequence[str] | None) -> None:
        """Raise InvalidDataError if any cell is infinite, too large to square, or below the lowest allowed value."""
        if self.large_count.any():
            raise InvalidDataError(
                f"{_amount(self.large_count)} infinite or beyond {LARGEST:g}, in"
                f" {_places(self.large_count, self.large_first_row, feature_names)}. Replace infinite values or mark"
                " them as missing with NaN; divide a column of huge numbers by a constant."
            )
        if self.below_count.any():
            columns = np.flatnonzero(self.below_count)
            smallest = float(self.below_smallest[columns].min())
            floors = np.unique(np.array(lowest)[columns])
            level = f"the floor {floors[0]:g}" if len(floors) == 1 else "their column's floor"
            kind = "Negative values in data" if smallest < 0.0 else "Values below the floor"
            raise InvalidDataError(
                f"{kind}: {_amount(self.below_count)} below {level}, in"
                f" {_places(self.below_count, self.below_first_row, feature_names)}. The smallest is {smallest!r}. If"
                f" the data's floor is lower, pass it as floor= (say floor={smallest!r}); otherwise correct these"
                " values or mark them as missing with NaN."
            )


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
            part = survey(tile, as_stored(np.array(self.lowest), tile.values)).screening
            whole = part if whole is None else whole.merge(part)
        assert whole is not None, "a block has at least one row"
        return whole
