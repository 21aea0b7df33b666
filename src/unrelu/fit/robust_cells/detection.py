"""Which cells of any table are bad, by a law that was learned with them or by a model alone."""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.fit.robust_cells.law import CellLaw
from unrelu.posterior.row_scores import RowScores, Values


def bad_probability(law: CellLaw, scores: RowScores, values: Values) -> FloatArray:
    """Per cell: probability of being bad, those of outlier rows included; NaN where missing.

    A cell off the constant of a column that never varies is bad for certain.

    >>> from unrelu import RectifiedGaussian
    >>> model = RectifiedGaussian([1.0, 1.0, 1.0], np.full((3, 3), 0.8) + 0.2 * np.eye(3))
    >>> bad_probability(CellLaw.of_model(model), RowScores.of(model), np.array([[1.2, 0.9, 7.0]])).round(2)
    array([[0., 0., 1.]])
    """
    bad = 1.0 - law.judge(values).genuine
    bad[np.isinf(scores.strange(values, np.zeros(values.shape)))] = 1.0
    return np.where(np.isnan(values), np.nan, bad)
