"""Questions by which rows are scored block by block, wherever they live, and the score from which a row is genuine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.robust.detection import OutlierScores
from unrelu.statistics.screening import Screening, ScreeningQuestion
from unrelu.statistics.tiles import as_stored

_MOST_DRIVERS = 3
_NOTABLE = 2.0  # standard deviations from which a cell is named beside a stranger one

Rows = NDArray[np.int64]
Driver = tuple[int, float]  # a column, and how strange its cell is in signed standard deviations


def score_threshold(scores: OutlierScores, false_alarm_rate: float) -> float:
    """The lowest score that is no outlier: ``score < threshold`` says exactly what ``p_value < rate`` says.

    Found by bisection down to neighbouring floats, since p-values step and a formula would round to the other side.
    """

    def is_outlier(score: float) -> bool:
        return bool(scores.p_value(np.array([score]))[0] < false_alarm_rate)

    genuine = float(scores.tail.scores[-1])  # no row of the model scores higher, so its p-value is 1
    step = 1.0
    while not is_outlier(genuine - step):
        step *= 2.0
    outlier = genuine - step
    while outlier < (middle := 0.5 * (outlier + genuine)) < genuine:
        if is_outlier(middle):
            outlier = middle
        else:
            genuine = middle
    return genuine


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Scores by first row of the block, and what was out of place: check that before using them."""

    parts: tuple[tuple[int, FloatArray], ...]
    screening: Screening

    @property
    def scores(self) -> FloatArray:
        """One per row, in table order."""
        return np.concatenate([part for _, part in sorted(self.parts, key=lambda pair: pair[0])])

    def merge(self, other: Self) -> Self:
        return type(self)(self.parts + other.parts, self.screening.merge(other.screening))


@dataclass(frozen=True, eq=False)
class ScoreQuestion:
    """Ask every row for its score; a block with cells that cannot be scored has none."""

    scorer: OutlierScores
    lowest: tuple[float, ...]

    def __call__(self, block: Block) -> ScoredRows:
        screening = ScreeningQuestion(self.lowest)(block)
        unusable = screening.below_count.any() or screening.large_count.any()
        scores = np.full(len(block.values), np.nan) if unusable else self.scorer.score(block.values)
        return ScoredRows(((block.first_row, scores),), screening)


@dataclass(frozen=True, eq=False)
class StrangeCells:
    """The strangest cells of some rows, and all cells of a few, ``whole``.

    ``parts`` are (rows, columns, sizes): for each row a few columns, strangest first, and the signed standard
    deviations of their cells, NaN for those not worth naming.
    """

    parts: tuple[tuple[Rows, NDArray[np.intp], FloatArray], ...]
    whole: dict[int, FloatArray]

    def merge(self, other: Self) -> Self:
        return type(self)(self.parts + other.parts, {**self.whole, **other.whole})

    @cached_property
    def _joined(self) -> tuple[Rows, NDArray[np.intp], FloatArray]:
        rows, columns, sizes = (np.concatenate(kind) for kind in zip(*self.parts, strict=True))
        order = np.argsort(rows)
        return rows[order], columns[order], sizes[order]

    def drivers(self, row: int) -> list[Driver]:
        """Why a row that was asked for is strange: at most three cells."""
        rows, columns, sizes = self._joined
        at = int(np.searchsorted(rows, row))
        cells = zip(columns[at].tolist(), sizes[at].tolist(), strict=True)
        return [(column, size) for column, size in cells if not np.isnan(size)]


@dataclass(frozen=True, eq=False)
class StrangeCellsQuestion:
    """Ask some rows, given in order, which of their cells are strange. This costs d times a score."""

    scorer: OutlierScores
    law: RectifiedGaussian
    rows: Rows
    whole: frozenset[int]

    def __call__(self, block: Block) -> StrangeCells:
        start, end = np.searchsorted(self.rows, [block.first_row, block.first_row + len(block.values)])
        rows = self.rows[start:end]
        cells = strangeness(self.scorer, self.law, block.values[rows - block.first_row])
        kept = {row: cells[i] for i, row in enumerate(rows.tolist()) if row in self.whole}
        return StrangeCells(((rows, *_strongest(cells)),), kept)


def strangeness(scorer: OutlierScores, law: RectifiedGaussian, values: NDArray[np.floating[Any]]) -> FloatArray:
    """Residuals of cells as far as they are strange.

    A floored cell that was to be expected there counts 0, a cell off its column's constant counts infinitely.
    """
    if len(values) == 0:
        return np.empty(values.shape)
    sizes = scorer.residuals(values)
    sizes[(values <= as_stored(scorer.scores.floor, values)) & (sizes > 0.0)] = 0.0
    at = np.flatnonzero(law.row_norms == 0.0)
    constant = np.maximum(law.bias, law.floor)[at]
    gap = np.maximum(values[:, at], law.floor[at]) - constant
    sizes[:, at] = np.where(np.abs(gap) > 1e-6 * np.abs(constant), np.copysign(np.inf, gap), sizes[:, at])
    return sizes


def _strongest(cells: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """(columns, sizes) of each row's strangest cell and of up to two more that are notable by themselves."""
    size = np.where(np.isnan(cells), 0.0, np.abs(cells))
    columns = np.argsort(-size, axis=1, kind="stable")[:, :_MOST_DRIVERS]
    chosen = np.take_along_axis(cells, columns, axis=1)
    least = np.where(np.arange(columns.shape[1]) == 0, 0.0, _NOTABLE)
    return columns, np.where(np.take_along_axis(size, columns, axis=1) > least, chosen, np.nan)
