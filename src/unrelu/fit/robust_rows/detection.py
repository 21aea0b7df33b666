"""Which rows are outliers, how surely, and which of their cells; a table judged block by block, wherever its rows live.

The score of a row is log f(x) + log P(genuine | x): how likely the genuine model finds it, and, where the table had
groups of outliers, whether it is rather one of those. p-values compare it with rows simulated from the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Self

import numpy as np

from unrelu.contracts import Assumptions, Block, BoolArray, FloatArray, Samples, Watch, unwatched
from unrelu.errors import InvalidDataError
from unrelu.fit.one_pass import Learned
from unrelu.fit.robust_rows.learn import RobustLearned
from unrelu.fit.robust_rows.mixture import ColumnIndex, Mixture, RowIndex, normalized, selected
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import engine_for
from unrelu.posterior.cells import Values
from unrelu.posterior.density import Density
from unrelu.posterior.scores import ScoreTail, rows_from_normals, scored_rows

_SIMULATED_CELLS, _FEWEST_SIMULATED, _MOST_SIMULATED = 2_000_000, 5_000, 100_000
_MOST_DRIVERS = 3
_NOTABLE = 2.0  # standard deviations from which a cell is named beside a stranger one

Driver = tuple[int, float]  # a column, and how strange its cell is in signed standard deviations


@dataclass(frozen=True, eq=False)
class OutlierScores:
    """A model, its groups of outliers if it knows any, and the scores its own rows have."""

    scores: Density
    mixture: Mixture | None
    columns: Annotated[ColumnIndex, "ints c"]
    tail: ScoreTail

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together, as a damaged file may hold them."""
        if self.scores.floor is None or not len(self.tail.scores):
            raise InvalidDataError("it lacks the floor that its scores are cut off at, or the scores of simulated rows")
        if self.mixture is not None:
            self.mixture.check_columns(self.columns, len(self.scores.bias))

    @classmethod
    def of(cls, learned: Learned, floor_tolerance: float = 0.0, seed: int = 0) -> Self:
        """From a fit; a robust one also knows groups of outliers."""
        if not isinstance(learned, RobustLearned):
            return cls.of_model(learned.distribution, floor_tolerance, seed)
        return cls._calibrated(learned.distribution, learned.mixture, learned.columns, (floor_tolerance, seed))

    @classmethod
    def of_model(cls, model: RectifiedGaussian, floor_tolerance: float = 0.0, seed: int = 0) -> Self:
        """From a model alone."""
        return cls._calibrated(model, None, np.arange(model.n_features), (floor_tolerance, seed))

    @classmethod
    def _calibrated(
        cls, model: RectifiedGaussian, mixture: Mixture | None, columns: ColumnIndex, how: tuple[float, int]
    ) -> Self:
        tolerance, seed = how
        scores = Density.of(model, tolerance)
        scores.warn_if_singular()
        uncalibrated = cls(scores, mixture, columns, ScoreTail(np.zeros(1)))
        size = int(np.clip(_SIMULATED_CELLS // model.n_features, _FEWEST_SIMULATED, _MOST_SIMULATED))
        normals = np.random.default_rng(seed).standard_normal((size, model.n_features))
        by = model.scoring
        rows = rows_from_normals(normals, by.bias, by.row_norms, by.correlation, by.floor)
        return cls(scores, mixture, columns, ScoreTail.of(uncalibrated.score(rows)))

    def score(self, values: Values) -> FloatArray:
        """One number per row, lower for stranger rows."""
        score = self.scores.score(values)
        if self.mixture is None or len(self.mixture.components) == 1:
            return score
        joint = self.mixture.joint(selected(values, self.columns), converged=True)
        return np.asarray(score + joint[:, self.mixture.main] - normalized(joint)[1])

    def p_value(self, score: FloatArray) -> FloatArray:
        """The share of the model's own rows that score as low."""
        return self.tail.p_value(score)

    def residuals(self, values: Values) -> FloatArray:
        """Per cell, its distance from what the row's other cells predict, in standard deviations."""
        return self.scores.cell_residuals(values)


# --- a whole table ----------------------------------------------------------------------------------


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
class StrangeCells:
    """The strangest cells of some rows, and all cells of a few, ``whole``.

    ``parts`` are (rows, columns, sizes): for each row a few columns, strangest first, and the signed standard
    deviations of their cells, NaN for those not worth naming.
    """

    parts: tuple[tuple[RowIndex, ColumnIndex, FloatArray], ...]
    whole: dict[int, FloatArray]

    def merge(self, other: Self) -> Self:
        return type(self)(self.parts + other.parts, {**self.whole, **other.whole})

    @cached_property
    def _joined(self) -> tuple[RowIndex, ColumnIndex, FloatArray]:
        if not self.parts:
            return np.empty(0, np.intp), np.empty((0, 0), np.intp), np.empty((0, 0))
        rows, columns, sizes = (np.concatenate(kind) for kind in zip(*self.parts, strict=True))
        order = np.argsort(rows)
        return rows[order], columns[order], sizes[order]

    def drivers(self, row: int) -> list[Driver]:
        """Why a row is strange, if it was asked for: at most three cells."""
        rows, columns, sizes = self._joined
        at = int(np.searchsorted(rows, row))
        if at == len(rows) or rows[at] != row:
            raise LookupError(f"The cells of row {row:,} were not looked at: only those of the rows asked for are.")
        cells = zip(columns[at].tolist(), sizes[at].tolist(), strict=True)
        return [(column, size) for column, size in cells if not np.isnan(size)]


@dataclass(frozen=True, eq=False)
class StrangeCellsQuestion:
    """Ask some rows, given in order, which of their cells are strange. This costs d times a score."""

    scorer: OutlierScores
    rows: RowIndex
    whole: frozenset[int]
    mirrored: tuple[bool, ...] = ()

    def __call__(self, block: Block) -> StrangeCells:
        start, end = np.searchsorted(self.rows, [block.first_row, block.first_row + len(block.values)])
        rows = self.rows[start:end]
        cells = strangeness(self.scorer, block.values[rows - block.first_row])
        if self.mirrored:
            cells[:, list(self.mirrored)] *= -1.0
        kept = {row: cells[i] for i, row in enumerate(rows.tolist()) if row in self.whole}
        return StrangeCells(((rows, *_strongest(cells)),), kept)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is said of every row of a table.

    ``scores`` and ``p_values``: one per row; rows that score below ``threshold`` are ``flagged``. ``top``: the rows
    that score lowest, from the lowest up. ``cells``: those of the top rows, and of all flagged rows where these were
    asked for. ``model_scores``: what rows of the model itself score, sorted.
    """

    scores: FloatArray
    p_values: FloatArray
    threshold: float
    top: RowIndex
    cells: StrangeCells
    model_scores: FloatArray

    @property
    def flagged(self) -> BoolArray:
        return np.asarray(self.scores < self.threshold)

    def drivers(self, row: int) -> list[Driver]:
        """Why a row is strange, if its cells were looked at: at most three cells."""
        return self.cells.drivers(row)


def judge_rows(
    samples: Samples,
    scorer: OutlierScores,
    assumptions: Assumptions,
    threshold: float,
    top: int = 10,
    every_flagged: bool = False,
    watch: Watch = unwatched,
) -> Verdict:
    """Score every row, and look at the cells of the ``top`` strangest, or also of all that score below the threshold.

    ``samples`` show columns as the assumptions have them; drivers are signed as the table is.
    """
    scores = scored_rows(samples, scorer.score, assumptions, watch)
    strangest = np.argsort(scores, kind="stable")[:top]
    wanted = np.union1d(strangest, np.flatnonzero(scores < threshold)) if every_flagged else np.sort(strangest)
    cells = StrangeCells((), {})
    if len(wanted):
        engine = engine_for(samples, watch, "Looking at the cells of the strangest rows")
        whole = frozenset(strangest.tolist())
        cells = engine.collect(samples, StrangeCellsQuestion(scorer, wanted, whole, assumptions.mirrored))
    return Verdict(scores, scorer.p_value(scores), threshold, strangest, cells, scorer.tail.scores)


def strangeness(scorer: OutlierScores, values: Values) -> FloatArray:
    """Residuals of cells as far as they are strange."""
    return scorer.scores.strange(values, scorer.residuals(values)) if len(values) > 0 else np.empty(values.shape)


def _strongest(cells: FloatArray) -> tuple[ColumnIndex, FloatArray]:
    """(columns, sizes) of each row's strangest cell and of up to two more that are notable by themselves."""
    size = np.where(np.isnan(cells), 0.0, np.abs(cells))
    columns = np.argsort(-size, axis=1, kind="stable")[:, :_MOST_DRIVERS]
    chosen = np.take_along_axis(cells, columns, axis=1)
    least = np.where(np.arange(columns.shape[1]) == 0, 0.0, _NOTABLE)
    return columns, np.where(np.take_along_axis(size, columns, axis=1) > least, chosen, np.nan)
