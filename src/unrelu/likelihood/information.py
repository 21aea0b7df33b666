"""Standard errors from the rows' scores: their outer products sum to the observed information, up to chance.

That takes several rows a parameter, and a matrix as large as the parameters squared. Where rows are too few or
parameters too many, each column is taken by itself: mean and spread with the information of the column's own cells, as
if the others said nothing of it, and correlations with that of as many complete rows as the two columns amount to,

    stderr(r_ij) = (1 - r_ij^2) / sqrt(n e_i e_j),     e_i = mean of (score of the mean)^2 s_i^2,

which is 1 for a column without cut-off or missing cells. Both are rather too wide than too narrow
(docs/decisions/026).
"""

from __future__ import annotations

import numpy as np

from unrelu.contracts import Evidence, FloatArray
from unrelu.likelihood.cells import Cells
from unrelu.likelihood.climbing import MOST_OUTER
from unrelu.likelihood.factor_law import FactorLaw
from unrelu.likelihood.scores import Law, ScoreQuestion, Scores

_ROWS_A_PARAMETER = 3.0


def standard_errors(
    evidence: Evidence, cells: Cells, law: Law, rows: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """(covariance d x 2 x 2 of mean and scale, standard errors d x d of correlations), in standard units.

    ``rows``: their weight and their effective number.
    """
    weight, effective = rows
    per_weight = weight / effective
    with np.errstate(invalid="ignore"):
        if law.n_coordinates <= MOST_OUTER and effective > _ROWS_A_PARAMETER * law.n_free:
            outer = evidence.collect(ScoreQuestion(cells, law, outer=True), remember=False).outer
            assert outer is not None, "it was asked for"
            # The inverse of a sum of n outer products is too large by n / (n - p - 1).
            per_weight *= 1.0 - (law.n_free + 1.0) / effective
            try:
                both, variance = law.errors(outer / per_weight)
                return both, np.minimum(np.sqrt(variance), 1.0)
            except np.linalg.LinAlgError:  # rows leave something open altogether
                per_weight = weight / effective
        return _one_by_one(evidence, cells, law, weight, per_weight)


def _one_by_one(
    evidence: Evidence, cells: Cells, law: Law, weight: float, per_weight: float
) -> tuple[FloatArray, FloatArray]:
    variance = np.diagonal(law.covariance).copy()
    scale = np.sqrt(variance)
    outer = independent_scores(evidence, cells, law.mean, variance).outer
    assert outer is not None, "it was asked for"
    d = len(scale)
    own = np.arange(d)
    information = np.empty((d, 2, 2))
    information[:, 0, 0] = outer[own, own]
    information[:, 0, 1] = information[:, 1, 0] = outer[own, d + own] * 2.0 / scale  # of the scale, not log variance
    information[:, 1, 1] = outer[d + own, d + own] * 4.0 / variance
    both = np.asarray(np.linalg.inv(information) * per_weight, dtype=np.float64)
    share = outer[own, own] * variance / weight
    r = law.covariance / np.outer(scale, scale)
    stderr = (1.0 - r**2) / np.sqrt(weight * np.outer(share, share) / per_weight)
    return both, np.asarray(np.minimum(stderr, 1.0))


def independent_scores(evidence: Evidence, cells: Cells, mean: FloatArray, variance: FloatArray) -> Scores:
    """Scores of means and log variances, with outer products, as if columns were independent."""
    law = FactorLaw(mean, np.empty((len(mean), 0)), variance)
    return evidence.collect(ScoreQuestion(cells, law, outer=True), remember=False)
