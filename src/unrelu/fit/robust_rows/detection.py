"""Which rows are outliers, how surely, and which of their cells.

The score of a row is log f(x) + log P(genuine | x): how likely the genuine model finds it, and, where the table had
groups of outliers, whether it is rather one of those. p-values compare it with rows simulated from the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.fit.one_pass import Learned
from unrelu.fit.robust_rows.learning import RobustLearned
from unrelu.fit.robust_rows.mixture import Mixture, normalized
from unrelu.fit.robust_rows.selection import ColumnIndex, selected
from unrelu.model import RectifiedGaussian
from unrelu.posterior.calibration import ScoreTail, rows_from_normals
from unrelu.posterior.row_scores import RowScores, Values

_SIMULATED_CELLS, _FEWEST_SIMULATED, _MOST_SIMULATED = 2_000_000, 5_000, 100_000


@dataclass(frozen=True, eq=False)
class OutlierScores:
    """A model, its groups of outliers if it knows any, and the scores its own rows have."""

    scores: RowScores
    mixture: Mixture | None
    columns: ColumnIndex
    tail: ScoreTail

    def __post_init__(self) -> None:
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
        scores = RowScores.of(model, tolerance)
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
        joint = self.mixture.joint(selected(values, self.columns))
        return np.asarray(score + joint[:, self.mixture.main] - normalized(joint)[1])

    def p_value(self, score: FloatArray) -> FloatArray:
        """The share of the model's own rows that score as low."""
        return self.tail.p_value(score)

    def residuals(self, values: Values) -> FloatArray:
        """Per cell, its distance from what the row's other cells predict, in standard deviations."""
        return self.scores.cell_residuals(values)
