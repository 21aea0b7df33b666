"""Some rows of a table, as a method saw them: runs of neighbours, drawn from all over it; and are neighbours alike?

Rows are kept in runs of neighbours; a long table keeps the runs of the smallest keys
(:mod:`unrelu.passes.tiles`), so that the same rows are kept however it is cut into blocks.

Under independent rows the sum over columns of mean(e_t e_(t+1)) / mean(e_t^2), e the posterior means of the cells, has
mean 0 and variance sum_ij r_ij^2 / m over m pairs of rows. With r_k, a column's correlation at distance k, errors of
its mean are too small by sqrt(1 + 2 (r_1 + r_2 + ...)), as far as the r_k stay positive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, BoolArray, Evidence, FloatArray, Marks
from unrelu.passes.tiles import row_keys
from unrelu.posterior.cells import marks_of

_RUN = 32
_PER_ROW = ("rows", "values", "beyond", "weights")
_MOST_ROWS = 4096
_FARTHEST = 4.0
_MOST_LAGS = 15
_FEWEST_PAIRS = 20
_SORTED = 0.95  # of the steps to the next row that go one way


@dataclass(frozen=True, eq=False)
class Look:
    """``values`` (m x d) of the rows numbered ``rows``, in the table's order, with marks of cells that are cut off.
    Cells at a limit hold it. ``weights`` are those of the rows. ``cut``: rows or cells that lie far out were taken
    away, so that tails that are too short say nothing."""

    rows: NDArray[np.int64]
    values: FloatArray
    beyond: Marks
    weights: FloatArray
    cut: bool = False

    def merge(self, other: Self) -> Self:
        both: dict[str, Any] = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _PER_ROW}
        return replace(self, **both).of_rows(_kept(both["rows"] // _RUN))

    def of_rows(self, chosen: Any) -> Self:
        """Some of the rows."""
        own: dict[str, Any] = {name: getattr(self, name)[chosen] for name in _PER_ROW}
        return replace(self, **own)

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

    def __call__(self, block: Block) -> Look:
        rows = np.arange(block.first_row, block.first_row + block.n_rows, dtype=np.int64)
        kept = _kept(rows // _RUN)
        weights = np.ones(len(rows)) if block.weights is None else block.weights
        kept = kept[weights[kept] > 0.0]
        own = None if block.beyond is None else block.beyond[kept]
        values, beyond = marks_of(block.some_rows(kept), own, np.array(self.floor))
        return Look(rows[kept], values, beyond, np.asarray(weights[kept], dtype=np.float64))


def look_at(evidence: Evidence, assumptions: Assumptions) -> Look | None:
    """Some of the rows behind the evidence; None where only a record is."""
    try:
        return evidence.collect(LookQuestion(assumptions.censoring))
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


class Neighbours(NamedTuple):
    """``z``: standard normal for independent rows. ``correlation``: of neighbours; ``factor``: of standard errors."""

    z: float
    correlation: float
    factor: float


def neighbours_of(rows: NDArray[np.int64], means: FloatArray) -> Neighbours:
    """``means`` (n x d) of the cells of the rows, in standard units."""
    e = np.clip(means, -_FARTHEST, _FARTHEST)
    e = e - e.mean(axis=0)
    e = e / np.maximum(np.sqrt((e**2).mean(axis=0)), 1e-12)
    pairs = np.flatnonzero(np.diff(rows) == 1)
    if len(pairs) < _FEWEST_PAIRS:
        return Neighbours(0.0, 0.0, 1.0)
    products = (e[pairs] * e[pairs + 1]).mean(axis=0)
    spread = np.sqrt(((e.T @ e / len(e)) ** 2).sum() / len(pairs))
    factor = float(np.sqrt(inflation(rows, e).mean()))
    return Neighbours(float(products.sum() / spread), float(products.mean()), factor)


def inflation(rows: NDArray[np.int64], numbers: FloatArray) -> FloatArray:
    """1 + 2 (r_1 + r_2 + ...) of every column of the rows' numbers; at least 1."""
    x = numbers - numbers.mean(axis=0)
    square = np.maximum((x**2).mean(axis=0), 1e-300)
    total = np.ones(x.shape[1])
    going = np.ones_like(total, dtype=np.bool_)
    for k in range(1, min(_MOST_LAGS, len(x) // 4) + 1):
        at = np.flatnonzero(rows[k:] - rows[:-k] == k)
        if len(at) < _FEWEST_PAIRS:
            break
        r = (x[at] * x[at + k]).mean(axis=0) / square
        going &= r > 0.0
        total += 2.0 * np.where(going, r, 0.0)
    return total


def is_sorted(look: Look) -> bool:
    """Whether some column goes up, or down, from row to row: whoever sorted a table made neighbours alike."""
    steps = np.diff(look.values, axis=0)[np.diff(look.rows) == 1]
    up, down = np.count_nonzero(steps > 0.0, axis=0), np.count_nonzero(steps < 0.0, axis=0)
    return bool(np.any((up + down >= _FEWEST_PAIRS) & (np.maximum(up, down) > _SORTED * (up + down))))
