"""Standard errors that do not trust the model: A^-1 B A^-1, with A the information and B the sum of the outer products
of the rows' scores, both from the rows themselves (:mod:`unrelu.fit.likelihood.curvature`).

Under the model A = B, up to chance; with heavier tails B is larger, and the errors are those of a bootstrap of the
rows. In small tables they would be too small: B has fourth powers of what is seen, of which the largest are seldom
there. With n cells of which m are seen, variances grow by 8/n, and those of means by 1/n, and both by 13 (1/m - 1/n)
(docs/research/026).

That takes several rows a parameter, and a pass for every parameter. Where rows are too few or parameters too many,
each column is taken by itself: mean and spread with A and B of the column's own cells, as if the others said nothing of
it, and correlations with the information of as many complete rows as the two columns amount to,

    stderr(r_ij) = (1 - r_ij^2) / sqrt(n e_i e_j),     e_i = mean of (score of the mean)^2 s_i^2,

which is 1 for a column without cut-off or missing cells, times what tails add to it. Both are rather too wide than too
narrow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import Evidence, FloatArray
from unrelu.fit.likelihood.cells import Cells, CellTally
from unrelu.fit.likelihood.climbing import MOST_OUTER
from unrelu.fit.likelihood.curvature import ROWS_A_PARAMETER, Curvature
from unrelu.fit.likelihood.factor_law import FactorLaw
from unrelu.fit.likelihood.scores import Law, ScoreQuestion, Scores

_OF_MEAN, _OF_SCALE, _OF_HIDDEN = 1.0, 8.0, 13.0  # shares by which variances grow, over the number of cells
_DIFFERENCE = 0.005

Errors = tuple[FloatArray, FloatArray]


def standard_errors(evidence: Evidence, cells: Cells, law: Law, tally: CellTally, around: Curvature | None) -> Errors:
    """(covariance d x 2 x 2 of mean and scale, standard errors d x d of correlations), in standard units."""
    with np.errstate(invalid="ignore", divide="ignore"):
        both, variance = (
            _sandwich(law, around, tally)
            or _from_scores(evidence, cells, law, tally)
            or _one_by_one(_columns(evidence, cells, law, tally), law, tally)
        )
        mean, scale = _growth(tally, cells)
        root = np.sqrt(np.stack([mean, scale], axis=1))
        variance = variance * (0.5 * (scale[:, None] + scale))
        return both * root[:, :, None] * root[:, None], np.minimum(np.sqrt(variance), 1.0)


def _growth(tally: CellTally, cells: Cells) -> tuple[FloatArray, FloatArray]:
    """By which variances of means and of scales are too small in tables of few cells."""
    per_row = tally.effective_rows / tally.weight
    seen, known = (np.maximum(per_row * each[cells.columns], 1.0) for each in (tally.seen, tally.observed))
    hidden = _OF_HIDDEN * (1.0 / seen - 1.0 / known)
    return 1.0 + _OF_MEAN / known + hidden, 1.0 + _OF_SCALE / known + hidden


def _sandwich(law: Law, around: Curvature | None, tally: CellTally) -> Errors | None:
    """None where there is no information, or the rows leave something open altogether."""
    if around is None:
        return None
    try:
        inverse = law.inverse(around.information)
    except np.linalg.LinAlgError:
        return None
    spread = inverse @ around.outer @ inverse * (tally.weight / tally.effective_rows)
    return law.errors(law.jacobian @ spread @ law.jacobian.T)


def _from_scores(evidence: Evidence, cells: Cells, law: Law, tally: CellTally) -> Errors | None:
    """From B alone, which stands for A, times what the tails of single columns add to that; None as above."""
    n = tally.effective_rows
    if law.n_coordinates > MOST_OUTER or n <= ROWS_A_PARAMETER * law.n_free:
        return None
    outer = evidence.collect(ScoreQuestion(cells, law, outer=True), remember=False).outer
    assert outer is not None, "it was asked for"
    # The inverse of a sum of n outer products is too large by n / (n - p - 1).
    per_weight = tally.weight / n * (1.0 - (law.n_free + 1.0) / n)
    try:
        both, variance = law.errors(law.inverse(outer) * per_weight)
    except np.linalg.LinAlgError:
        return None
    columns = _columns(evidence, cells, law, tally)
    trusting = np.diagonal(np.linalg.inv(columns.outer), axis1=1, axis2=2) * (tally.weight / n)
    root = np.sqrt(np.diagonal(columns.spread, axis1=1, axis2=2) / trusting)
    return both * root[:, :, None] * root[:, None], variance * columns.pair_tails


@dataclass(frozen=True, eq=False)
class _Columns:
    """Of every column by itself, in mean and scale: outer products of scores, covariance of the estimates.

    ``tails``: by how much the variance of the scale is larger than the information says.
    """

    outer: FloatArray
    spread: FloatArray
    tails: FloatArray

    @property
    def pair_tails(self) -> FloatArray:
        """The same for correlations, where rows as a whole have such tails: 1 + kappa, as 1 + 3 kappa/2 for scales."""
        return np.maximum(1.0 + (self.tails[:, None] + self.tails - 2.0) / 3.0, 1.0)


def _columns(evidence: Evidence, cells: Cells, law: Law, tally: CellTally) -> _Columns:
    variance = np.diagonal(law.covariance).copy()
    scale, d = np.sqrt(variance), len(variance)
    here = independent_scores(evidence, cells, law.mean, variance, outer=True)
    assert here.outer is not None, "it was asked for"
    # From means and log variances to means and scales.
    unit = np.stack([np.ones(d), 2.0 / scale], axis=1)
    moves = [
        independent_scores(evidence, cells, law.mean + _DIFFERENCE * scale, variance),
        independent_scores(evidence, cells, law.mean, variance * np.exp(2.0 * _DIFFERENCE)),
    ]
    bend = np.stack([(here.score - each.score).reshape(2, d).T for each in moves], axis=1)
    bend = bend * unit[:, None] / (_DIFFERENCE * scale)[:, None, None]
    at = np.arange(d)
    ends = np.stack([at, d + at], axis=1)
    outer = here.outer[ends[:, :, None], ends[:, None]] * unit[:, :, None] * unit[:, None]
    information = 0.5 * (bend + bend.transpose(0, 2, 1))
    definite = (information[:, 0, 0] > 0.0) & (np.linalg.det(information) > 0.0)
    information[~definite] = outer[~definite]
    inverse = np.linalg.inv(information)
    spread = inverse @ outer @ inverse
    spread[~(np.diagonal(spread, axis1=1, axis2=2) > 0.0).all(axis=1)] = np.nan  # too few cells to say
    return _Columns(outer, spread * (tally.weight / tally.effective_rows), spread[:, 1, 1] / inverse[:, 1, 1])


def _one_by_one(columns: _Columns, law: Law, tally: CellTally) -> Errors:
    variance = np.diagonal(law.covariance)
    share = columns.outer[:, 0, 0] * variance / tally.weight
    r = law.covariance / np.sqrt(np.outer(variance, variance))
    squared = (1.0 - r**2) ** 2 / (tally.effective_rows * np.outer(share, share))
    return columns.spread, squared * columns.pair_tails


def independent_scores(
    evidence: Evidence, cells: Cells, mean: FloatArray, variance: FloatArray, outer: bool = False
) -> Scores:
    """Scores of means and log variances, with outer products if ``outer``, as if columns were independent."""
    law = FactorLaw(mean, np.empty((len(mean), 0)), variance)
    return evidence.collect(ScoreQuestion(cells, law, outer), remember=False)
