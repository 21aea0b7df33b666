"""Some rows of a table, as a method saw them: runs of neighbours, drawn from all over it.

Rows are kept in runs of neighbours, so that it shows whether neighbours are alike; a long table keeps the runs of the
smallest keys (:mod:`unrelu.passes.subsample`), so that the same rows are kept however it is cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, BoolArray, Evidence, FloatArray, Marks
from unrelu.passes.rows import rows_in, some_rows
from unrelu.passes.subsample import row_keys
from unrelu.posterior.cells import marks_of

_RUN = 32
_MOST_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Look:
    """``values`` (m x d) of the rows numbered ``rows``, in the table's order, with marks of cells that are cut off.

    Cells at a limit hold it. ``weights`` are those of the rows. ``cut``: rows or cells that lie far out were taken
    away, so that tails that are too short say nothing.
    """

    rows: NDArray[np.int64]
    values: FloatArray
    beyond: Marks
    weights: FloatArray
    cut: bool = False

    def merge(self, other: Self) -> Self:
        both = type(self)(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.values, other.values]),
            np.concatenate([self.beyond, other.beyond]),
            np.concatenate([self.weights, other.weights]),
        )
        return both.of_rows(_kept(both.rows // _RUN))

    def of_rows(self, chosen: Any) -> Self:
        """Some of the rows."""
        return type(self)(
            self.rows[chosen], self.values[chosen], self.beyond[chosen], self.weights[chosen], cut=self.cut
        )

    def trimmed(self, genuine: BoolArray, cells: bool = False) -> Self:
        """The genuine rows alone; ``cells``: some of theirs were taken away as well."""
        return replace(self.of_rows(genuine), cut=cells or not genuine.all())

    def thinned(self, k: int) -> Self:
        """Every k-th run of rows."""
        _, number = np.unique(self.rows // _RUN, return_inverse=True)
        return self if k <= 1 else self.of_rows(number % k == 0)

    def without_cells(self, unknown: BoolArray) -> Self:
        """The same with nothing known of some cells."""
        hidden = np.where(unknown, np.int8(0), self.beyond)
        return replace(self, values=np.where(unknown, np.nan, self.values), beyond=hidden)


@dataclass(frozen=True)
class LookQuestion:
    """Ask for some rows; ``floor``: at or below it a cell is cut off."""

    floor: tuple[float, ...]

    @classmethod
    def under(cls, assumptions: Assumptions) -> Self:
        return cls(assumptions.censoring)

    def __call__(self, block: Block) -> Look:
        rows = np.arange(block.first_row, block.first_row + rows_in(block), dtype=np.int64)
        kept = _kept(rows // _RUN)
        weights = np.ones(len(rows)) if block.weights is None else block.weights
        kept = kept[weights[kept] > 0.0]
        own = None if block.beyond is None else block.beyond[kept]
        values, beyond = marks_of(some_rows(block, kept), own, np.array(self.floor))
        return Look(rows[kept], values, beyond, np.asarray(weights[kept], dtype=np.float64))


def look_at(evidence: Evidence, assumptions: Assumptions) -> Look | None:
    """Some of the rows behind the evidence; None where only a record is."""
    try:
        return evidence.collect(LookQuestion.under(assumptions))
    except LookupError:
        return None


def _kept(runs: NDArray[np.int64]) -> NDArray[np.intp]:
    """Positions of the rows whose runs have the smallest keys, in order."""
    order = np.argsort(runs, kind="stable") if np.any(np.diff(runs) < 0) else np.arange(len(runs))
    there = np.unique(runs)
    most = _MOST_ROWS // _RUN
    if len(there) <= most:
        return order
    chosen = there[np.argpartition(row_keys(0, there), most)[:most]]
    return order[np.isin(runs[order], chosen)]
