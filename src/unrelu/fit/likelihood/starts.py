"""Where a climb starts: the one-pass fit, or the columns' own fits where cells state their limits.

Columns by themselves are factors plus noise without factors. One step from there, in each correlation alone,

    r_ij = n sum s_i s_j / ( sum s_i^2  sum s_j^2 ),     s the rows' scores of the means in standard units,

is the likelihood's own first guess: for complete rows the sample correlation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unrelu.contracts import Assumptions, BoolArray, Evidence, FloatArray, PairCorrelations, Watch, unwatched
from unrelu.errors import FewPositivesWarning, InvalidDataError
from unrelu.fit.likelihood.cells import Cells, CellTally
from unrelu.fit.likelihood.climbing import Prior, climb
from unrelu.fit.likelihood.covariance_law import CovarianceLaw
from unrelu.fit.likelihood.factor_law import FactorLaw
from unrelu.fit.likelihood.information import independent_scores
from unrelu.fit.likelihood.scores import Law
from unrelu.fit.marginals.columns import warn_of_constants
from unrelu.fit.one_pass import Names, Stages, learn_record
from unrelu.fit.shrinkage import factor_loadings, scoring_correlation, shrunken
from unrelu.passes.pair_moments import PairMoments
from unrelu.validation import label_columns, warn

_FEW, _MOSTLY = 5, 0.99  # values seen, and share of cells cut off, from which a column is barely determined
_LARGEST_START = 0.9
_KEPT = 0.95  # of the first correlations
_LEAST_NOISE = 0.05  # of a column's variance, in a start
_RIDGE = 0.01  # of the prior's second moment that is noise: the least variance is this over the number of rows
_PRIOR_ROWS, _PRIOR_SHARE = 1.0, 0.01  # at most


@dataclass(frozen=True, eq=False)
class Start:
    """Cells in units in which the start has mean 0 and variances 1, and its correlations, which can be inverted.

    ``bias`` and ``scale``: of all columns, also of those that are constant. A column that is an exact linear image of
    an earlier one takes no part; ``one_pass`` knows of them.
    """

    cells: Cells
    bias: FloatArray
    scale: FloatArray
    correlation: FloatArray
    one_pass: Stages | None = None

    @property
    def images(self) -> dict[int, int]:
        """For every column that is an exact linear image, the first that it is one of."""
        return _images(self.one_pass)

    def correlation_of(self, i: int, j: int) -> float:
        """As one pass has it."""
        assert self.one_pass is not None, "columns that are images are found by it"
        return float(self.one_pass.pairs.correlation[i, j])

    @property
    def perfect_pairs(self) -> tuple[tuple[int, int], ...]:
        return () if self.one_pass is None else self.one_pass.pairs.perfect_pairs

    def law(self, k: int | None) -> Law:
        """With any covariance (None), or with k factors."""
        mean = np.zeros(len(self.correlation))
        if k is None or k >= len(mean):
            return CovarianceLaw(mean, self.correlation)
        loadings = factor_loadings(self.correlation, k, np.full(len(mean), _LEAST_NOISE))
        return FactorLaw(mean, loadings, np.maximum(1.0 - np.sum(loadings**2, axis=1), _LEAST_NOISE))

    def prior(self, weight: float) -> Prior:
        target = (1.0 - _RIDGE) * self.correlation + _RIDGE * np.eye(len(self.correlation))
        return Prior(min(_PRIOR_ROWS, _PRIOR_SHARE * weight), target)


def start_from_record(record: PairMoments, assumptions: Assumptions, names: Names) -> Start:
    """From the one-pass fit, with its warnings."""
    stages = learn_record(record, replace(assumptions, n_components=None), names)
    rows, images = stages.rows, _images(stages)
    at = np.array([j for j in np.flatnonzero(rows.scale > 0.0) if j not in images], dtype=np.int64)
    square = np.ix_(at, at)
    pairs = PairCorrelations(stages.pairs.correlation[square], stages.pairs.stderr[square])
    correlation = stages.distribution.correlation[square]
    if len(at) > 0:
        correlation, _ = scoring_correlation(pairs, correlation, record.effective_rows)
    cells = Cells(at, rows.bias[at], rows.scale[at], rows.floor[at])
    return Start(cells, rows.bias, rows.scale, correlation, stages)


def _images(stages: Stages | None) -> dict[int, int]:
    found: dict[int, int] = {}
    for i, j in sorted(() if stages is None else stages.pairs.perfect_pairs):
        if i not in found:
            found.setdefault(j, i)
    return found


def start_from_columns(
    evidence: Evidence, tally: CellTally, assumptions: Assumptions, watch: Watch = unwatched
) -> Start:
    """From every column's own fit, where cells state their own limits."""
    constant = check_columns(tally, evidence.feature_names)
    at = np.flatnonzero(~constant)
    spread = np.where(tally.variance > 0.0, np.sqrt(tally.variance), 0.25 * (tally.ends[1] - tally.ends[0]))
    cells = Cells(at, tally.mean[at], spread[at], np.array(assumptions.censoring)[at])
    d = len(at)
    law = FactorLaw(np.zeros(d), np.empty((d, 0)), np.ones(d))
    prior = Prior(min(_PRIOR_ROWS, _PRIOR_SHARE * tally.weight), np.eye(d))
    alone = climb(evidence, cells, law, prior, (tally.weight, tally.effective_rows), watch).law
    scale = np.sqrt(np.diagonal(alone.covariance))
    cells = replace(cells, origin=cells.origin + cells.unit * alone.mean, unit=cells.unit * scale)
    outer = independent_scores(evidence, cells, np.zeros(d), np.ones(d), outer=True).outer
    assert outer is not None, "it was asked for"
    information = np.diagonal(outer)[:d]
    r = np.clip(tally.weight * outer[:d, :d] / np.outer(information, information), -_LARGEST_START, _LARGEST_START)
    np.fill_diagonal(r, 1.0)
    bias, scale = tally.mean.copy(), np.zeros(len(constant))
    bias[at], scale[at] = cells.origin, cells.unit
    return Start(cells, bias, scale, shrunken(r, _KEPT))


def check_columns(tally: CellTally, names: Names) -> BoolArray:
    """Raise for columns that cannot be learned; True where a column is constant."""
    if (unseen := tally.observed == 0.0).any():
        raise InvalidDataError(
            f"No value at all in {label_columns(unseen, names)}: every row is missing (NaN) or has weight 0. Drop it."
        )
    cut = tally.observed - tally.seen > 1e-12 * tally.observed
    if (never := tally.seen == 0.0).any():
        raise InvalidDataError(
            f"Every cell is only known to lie beyond a limit in {label_columns(never, names)}. Its norm and bias cannot"
            " be learned. Drop it or add rows."
        )
    constant = np.asarray(~cut & (tally.ends[0] == tally.ends[1]))
    warn_of_constants(constant, names)
    return constant


def warn_of_rare_values(tally: CellTally, names: Names) -> None:
    """Say which columns are hardly ever seen."""
    share = 1.0 - tally.seen / tally.observed
    seen = tally.seen / tally.weight * tally.effective_rows
    if (rare := (share > 0.0) & ((share >= _MOSTLY) | (seen < _FEW - 0.5))).any():
        warn(
            f"At most one cell in a hundred, or fewer than {_FEW}, is within its limits in"
            f" {label_columns(rare, names)}: bias, norm and correlations are barely determined; look at their standard"
            " errors.",
            FewPositivesWarning,
        )
