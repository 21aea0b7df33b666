"""Which rows are outliers, how surely, and which of their cells; a table scored block by block, wherever its rows live.

The score of a row is log f(x) + log P(inlier | x): its log density under the model of the inliers, and, where the table
had groups of outliers, the probability that it is of none of those. p-values compare it with rows simulated from the
model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Self

import numpy as np

from unrelu.contracts import Assumptions, Block, BoolArray, FloatArray, Progress, Samples, no_progress
from unrelu.errors import InvalidDataError
from unrelu.fit.one_pass import Learned
from unrelu.fit.robust_rows.learn import RobustLearned
from unrelu.fit.robust_rows.mixture import ColumnIndex, Mixture, RowIndex, normalized, selected
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import engine_for
from unrelu.posterior.cells import Values
from unrelu.posterior.density import Density, ScoreTail, rows_from_normals, scored_rows

_SIMULATED_CELLS, _FEWEST_SIMULATED, _MOST_SIMULATED = 2_000_000, 5_000, 100_000
_MOST_DRIVERS = 3
_NOTABLE = 2.0  # standard deviations from which a cell is named beside a more outlying one

Driver = tuple[int, float]  # a column, and how outlying its cell is in signed standard deviations


@dataclass(frozen=True, eq=False)
class OutlierScores:
    """A model, its groups of outliers if there are any, and the scores its own rows have."""

    scores: Density
    mixture: Mixture | None
    columns: Annotated[ColumnIndex, "ints c"]
    tail: ScoreTail

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together, as a damaged file may hold them."""
        if self.scores.floor is None or not len(self.tail.scores):
            raise InvalidDataError("it lacks the floor that its scores are cut off at, or the scores of simulated rows")
        if self.mixture is not None:
            self.mixture.check_columns(self.columns, len(self.scores.mean))

    @classmethod
    def of(cls, learned: Learned, floor_tolerance: float = 0.0, seed: int = 0) -> Self:
        """From a fit; a robust one also has groups of outliers."""
        if not isinstance(learned, RobustLearned):
            return cls.of_model(learned.distribution, floor_tolerance, seed)
        return cls.of_model(learned.distribution, floor_tolerance, seed, learned.mixture, learned.columns)

    @classmethod
    def of_model(
        cls,
        model: RectifiedGaussian,
        floor_tolerance: float = 0.0,
        seed: int = 0,
        mixture: Mixture | None = None,
        columns: ColumnIndex | None = None,
    ) -> Self:
        """From a model alone, or with groups of outliers."""
        scores = Density.of(model, floor_tolerance)
        scores.warn_if_singular()
        given = scores, mixture, np.arange(model.n_features) if columns is None else columns
        size = int(np.clip(_SIMULATED_CELLS // model.n_features, _FEWEST_SIMULATED, _MOST_SIMULATED))
        normals = np.random.default_rng(seed).standard_normal((size, model.n_features))
        by = model.scoring
        rows = rows_from_normals(normals, by.mean, by.std, by.correlation, by.floor)
        return cls(*given, ScoreTail.of(cls(*given, ScoreTail(np.zeros(1))).score(rows)))

    def score(self, values: Values) -> FloatArray:
        """One number per row, lower for more outlying rows."""
        score = self.scores.score(values)
        if self.mixture is None or len(self.mixture.components) == 1:
            return score
        joint = self.mixture.joint(selected(values, self.columns), converged=True)
        return np.asarray(score + joint[:, self.mixture.main] - normalized(joint)[1])


# --- a whole table ----------------------------------------------------------------------------------


def score_threshold(scores: OutlierScores, false_alarm_rate: float) -> float:
    """The lowest score that is no outlier: ``score < threshold`` holds exactly where ``p_value < rate`` does.

    Found by bisection down to neighbouring floats, since p-values step and a formula would round to the other side.
    """

    def is_outlier(score: float) -> bool:
        return bool(scores.tail.p_value(np.array([score]))[0] < false_alarm_rate)

    inlier = float(scores.tail.scores[-1])  # no row of the model scores higher, so its p-value is 1
    step = 1.0
    while not is_outlier(inlier - step):
        step *= 2.0
    outlier = inlier - step
    while outlier < (middle := 0.5 * (outlier + inlier)) < inlier:
        if is_outlier(middle):
            outlier = middle
        else:
            inlier = middle
    return inlier


@dataclass(frozen=True, eq=False)
class OutlierCells:
    """By row, why it is outlying (at most three cells, the most outlying first), and all cells of a few rows."""

    drivers: dict[int, list[Driver]]
    whole: dict[int, FloatArray]

    def merge(self, other: Self) -> Self:
        return type(self)({**self.drivers, **other.drivers}, {**self.whole, **other.whole})


def outlying_cells(
    scorer: OutlierScores, rows: RowIndex, whole: frozenset[int], negated: tuple[bool, ...], block: Block
) -> OutlierCells:
    """A question, of some rows, given in order: which of their cells are outlying? This costs d times a score. All
    cells of the rows ``whole`` are returned."""
    start, end = np.searchsorted(rows, [block.first_row, block.first_row + len(block.values)])
    some = rows[start:end]
    cells = scorer.scores.cell_outlier_score(block.values[some - block.first_row])
    if negated:
        cells[:, list(negated)] *= -1.0
    size = np.where(np.isnan(cells), 0.0, np.abs(cells))
    order = np.argsort(-size, axis=1, kind="stable")[:, :_MOST_DRIVERS]
    found = OutlierCells({}, {})
    for i, row in enumerate(some.tolist()):
        # The most outlying cell of a row, unless it is not outlying at all, and up to two more that are by themselves.
        least = [0.0] + [_NOTABLE] * (_MOST_DRIVERS - 1)
        named = [j for j, low in zip(order[i].tolist(), least, strict=False) if size[i, j] > low]
        found.drivers[row] = [(j, float(cells[i, j])) for j in named]
        if row in whole:
            found.whole[row] = cells[i]
    return found


@dataclass(frozen=True, eq=False)
class Verdict:
    """Scores of every row of a table, and of the cells of some.

    ``scores`` and ``p_values``: one per row; rows that score below ``threshold`` are ``flagged``. ``top``: the rows
    that score lowest, from the lowest up. ``cells``: those of the top rows, and of all flagged rows where these are
    wanted. ``model_scores``: what rows of the model itself score, sorted.
    """

    scores: FloatArray
    p_values: FloatArray
    threshold: float
    top: RowIndex
    cells: OutlierCells
    model_scores: FloatArray

    @property
    def flagged(self) -> BoolArray:
        return np.asarray(self.scores < self.threshold)

    def drivers(self, row: int) -> list[Driver]:
        """Why a row is outlying, if its cells were scored: at most three cells."""
        if row not in self.cells.drivers:
            raise LookupError(
                f"The cells of row {row:,} have no scores: those of the top rows have, and with cells_of='flagged'"
                " those of all flagged rows."
            )
        return self.cells.drivers[row]


def judge_rows(
    samples: Samples,
    scorer: OutlierScores,
    assumptions: Assumptions,
    threshold: float,
    top: int = 10,
    every_flagged: bool = False,
    progress: Progress = no_progress,
) -> Verdict:
    """Score every row, and the cells of the ``top`` most outlying, or also of all that score below the
    threshold.

    ``samples`` show columns as the assumptions have them; drivers are signed as the table is.
    """
    scores = scored_rows(samples, scorer.score, assumptions, progress)
    most_outlying = np.argsort(scores, kind="stable")[:top]
    wanted = np.union1d(most_outlying, np.flatnonzero(scores < threshold)) if every_flagged else np.sort(most_outlying)
    cells = OutlierCells({}, {})
    if len(wanted):
        engine = engine_for(samples, progress, "Scoring the cells of the most outlying rows")
        whole = frozenset(most_outlying.tolist())
        cells = engine.collect(samples, partial(outlying_cells, scorer, wanted, whole, assumptions.negated))
    return Verdict(scores, scorer.tail.p_value(scores), threshold, most_outlying, cells, scorer.tail.scores)
