"""What is asked of rows: a block's cells in standard units, how many of each kind there are, and their scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, BoolArray, Census, FloatArray, Marks
from unrelu.fit.likelihood.laws import Law
from unrelu.passes.engine import map_in_threads
from unrelu.passes.pair_moments import AllButGroup
from unrelu.posterior.cells import marks_of

_FOLD_STEP = 2_654_435_769  # 2^32 over the golden ratio: consecutive rows get folds that look drawn
_CHUNK, _AT_A_TIME = 256, 16  # rows whose scores are held by a thread, and chunks whose sums wait to be merged


@dataclass(frozen=True)
class Fold:
    """Rows held out, one of ``number`` folds, or the others: dealt by their place in the table alone."""

    index: int
    number: int
    held_out: bool

    def of(self, block: Block) -> BoolArray:
        rows = np.arange(block.first_row, block.first_row + len(block.values), dtype=np.uint64)
        dealt = (rows * np.uint64(_FOLD_STEP) % np.uint64(2**32)) * np.uint64(self.number) // np.uint64(2**32)
        return np.asarray((dealt == self.index) == self.held_out)


@dataclass(frozen=True, eq=False)
class Cells:
    """How cells are read: the columns that vary, u = (x - origin)/unit, and the level at which cells are cut off.
    ``rows``: only these are looked at."""

    columns: NDArray[np.int64]
    origin: FloatArray
    unit: FloatArray
    floor: FloatArray
    rows: Fold | AllButGroup | None = None

    def of(self, block: Block) -> tuple[FloatArray, Marks, FloatArray]:
        """(u, marks, weights) of the rows that count."""
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        kept = weights > 0.0
        if self.rows is not None:
            kept = kept & self.rows.of(block)
        rows = slice(None) if kept.all() else kept
        own = None if block.beyond is None else block.beyond[rows][:, self.columns]
        values, marks = marks_of(block.values[rows][:, self.columns], own, self.floor)
        return np.ascontiguousarray((values - self.origin) / self.unit), np.ascontiguousarray(marks), weights[rows]


@dataclass(frozen=True, eq=False)
class CellTally:
    """Per column the weight of the cells seen, at most and at least a limit; mean and spread of those seen. ``marked``:
    whether cells state their own limits. ``ends``: smallest and largest number, seen or a limit."""

    n_rows: int
    weight: float
    squared_weight: float
    seen: FloatArray
    below: FloatArray
    above: FloatArray
    mean: FloatArray
    square: FloatArray
    ends: FloatArray
    marked: bool

    @property
    def effective_rows(self) -> float:
        """Kish's number of rows, (sum w)^2 / sum w^2."""
        return self.weight**2 / self.squared_weight if self.squared_weight > 0.0 else 0.0

    @property
    def observed(self) -> FloatArray:
        return np.asarray(self.seen + self.below + self.above)

    @property
    def census(self) -> Census:
        return Census(self.weight, self.observed, self.seen)

    def merge(self, other: Self) -> Self:
        seen = self.seen + other.seen
        share = np.divide(other.seen, seen, out=np.zeros_like(seen), where=seen > 0.0)
        gap = other.mean - self.mean
        return type(self)(
            n_rows=self.n_rows + other.n_rows,
            weight=self.weight + other.weight,
            squared_weight=self.squared_weight + other.squared_weight,
            seen=seen,
            below=self.below + other.below,
            above=self.above + other.above,
            mean=self.mean + share * gap,
            square=self.square + other.square + self.seen * share * gap**2,
            ends=np.stack([np.minimum(self.ends[0], other.ends[0]), np.maximum(self.ends[1], other.ends[1])]),
            marked=self.marked or other.marked,
        )


@dataclass(frozen=True)
class CellTallyQuestion:
    """Ask how many cells are seen, cut off and missing; ``floor``: at or below it a cell is cut off. ``rows``: only
    these count."""

    floor: tuple[float, ...]
    rows: AllButGroup | None = None

    def __call__(self, block: Block) -> CellTally:
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        if self.rows is not None:
            weights = weights * self.rows.of(block)
        values = np.where(weights[:, None] > 0.0, block.values, np.nan)
        values, marks = marks_of(values, block.beyond, np.array(self.floor))
        known = ~np.isnan(values)
        shown = known & (marks == 0)
        seen, below, above = (np.asarray(weights @ which) for which in (shown, marks == -1, marks == 1))
        mean = np.divide(weights @ np.where(shown, values, 0.0), seen, out=np.zeros_like(seen), where=seen > 0.0)
        square = weights @ np.where(shown, (values - mean) ** 2, 0.0)
        ends = np.where(known, values, np.inf).min(axis=0), np.where(known, values, -np.inf).max(axis=0)
        return CellTally(
            n_rows=len(values),
            weight=float(weights.sum()),
            squared_weight=float(weights @ weights),
            seen=seen,
            below=below,
            above=above,
            mean=mean,
            square=square,
            ends=np.stack(ends).astype(np.float64),
            marked=block.beyond is not None and bool(np.any(block.beyond)),
        )


@dataclass(frozen=True, eq=False)
class Scores:
    """Sums over rows: weighted log density and score (or one of each for several laws), outer products if asked for."""

    log_likelihood: Any
    score: FloatArray
    outer: FloatArray | None
    weight: float

    def merge(self, other: Self) -> Self:
        outer = None if self.outer is None or other.outer is None else self.outer + other.outer
        return type(self)(
            self.log_likelihood + other.log_likelihood, self.score + other.score, outer, self.weight + other.weight
        )


@dataclass(frozen=True, eq=False)
class ScoreQuestion:
    """Ask a block for its scores under ``law``, with outer products if ``outer``, and ``corrected`` densities."""

    cells: Cells
    law: Law
    outer: bool = False
    corrected: bool = False

    def __call__(self, block: Block) -> Scores:
        u, beyond, weights = self.cells.of(block)
        p = self.law.n_coordinates
        whole = Scores(0.0, np.zeros(p), np.zeros((p, p)) if self.outer else None, 0.0)

        def part(rows: slice) -> Scores:
            w = weights[rows]
            densities, corrections, scores = self.law.scores(u[rows], beyond[rows], self.corrected)
            if self.corrected:
                densities = densities + corrections
            outer = scores.T @ (w[:, None] * scores) if self.outer else None
            return Scores(float(w @ densities), w @ scores, outer, float(w.sum()))

        rows = [slice(start, start + _CHUNK) for start in range(0, len(u), _CHUNK)]
        for start in range(0, len(rows), _AT_A_TIME):
            whole = reduce(Scores.merge, map_in_threads(part, rows[start : start + _AT_A_TIME]), whole)
        return whole
