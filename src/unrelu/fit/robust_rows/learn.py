"""The robust method on one screen: a sample of the rows, starts, growth, all rows, the last look.

Are rows taken for outliers, or only the tails of a table that is heavier than a normal one?

Rows of a multivariate t distribution are those of a normal one, each widened by a factor c of its own, with
1/c^2 ~ Gamma(nu/2, nu/2): there is every factor between the usual and the rarest, and no row is of another kind. So
three laws of the rows are compared, all about the genuine rows' own means and correlations,

    t            c of a t distribution with nu degrees of freedom, in units a
    two widths   c is one of two numbers: most rows as they are, and others wider
    the groups   that were found

and the tails are heavy where the first has a lower BIC than the groups and is not clearly less likely than the second.
The log density of a row at any c is a spline through those at a few.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import gamma

from unrelu.checks.findings import doubts_of, warn_of
from unrelu.checks.rows import look_at
from unrelu.contracts import (
    Assumptions,
    Census,
    Evidence,
    FloatArray,
    RobustReport,
    RowParameters,
    Step,
    Watch,
    unwatched,
)
from unrelu.errors import HeavyTailsWarning, InvalidDataError, UnreluWarning
from unrelu.fit.one_pass import Learned, fit_record, learn_record, with_inverse
from unrelu.fit.robust_rows.components import Setting
from unrelu.fit.robust_rows.growth import CHOOSING, SampledRows, choose_mixture, warn_of_two_groups
from unrelu.fit.robust_rows.mixture import ColumnIndex, Mixture, settle_on_all
from unrelu.fit.robust_rows.reweighting import Refit
from unrelu.fit.robust_rows.table import (
    check_table,
    concentrated_starts,
    disagree,
    find_repeated_rows,
    prior_record,
    rows_to_start_on,
    sampled_table,
)
from unrelu.passes.engine import one_blas_thread
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.posterior.cells import Values
from unrelu.validation import warn

_GENUINE = 0.5  # weight from which on a row says something of the model
_WIDTHS = np.linspace(np.log(0.25), np.log(16.0), 15)  # logarithms of c, at which densities are computed
_FINE = np.linspace(_WIDTHS[0], _WIDTHS[-1], 141)
_DEGREES = np.array([2.2, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0])
_UNITS = np.geomspace(0.4, 2.0, 41)  # a, where the genuine rows' spread is 1
_SHARES = np.array([0.003, 0.006, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.27, 0.35, 0.45])
_LITTLE = 0.02  # of a row norm, which nobody needs to hear of
_CLEARLY = 6.0  # log-likelihood by which two widths would have to be likelier


@dataclass(frozen=True, eq=False)
class RobustLearned(Learned):
    """The model of the genuine rows, and the mixture that tells them from others.

    ``row_weights``: one per row of the table, 0 for outliers, without the table's own weights. The mixture speaks of
    the columns ``columns``, those by which rows can be judged.
    """

    row_weights: Annotated[FloatArray, "floats n"]
    mixture: Mixture
    columns: Annotated[ColumnIndex, "ints c"]

    def __post_init__(self) -> None:
        self.mixture.check_columns(self.columns, self.distribution.n_features)


def learn_robustly(
    evidence: Evidence, assumptions: Assumptions, max_groups: int, seed: int, watch: Watch = unwatched
) -> RobustLearned:
    """The model of the genuine rows."""
    sample, names, rng = sampled_table(evidence, assumptions, seed), evidence.feature_names, np.random.default_rng(seed)
    columns = check_table(sample, assumptions, names)
    values = np.ascontiguousarray(sample.values[:, columns])
    floors = tuple(assumptions.floor[j] for j in columns)
    inner = replace(assumptions, floor=floors, n_components=None, mirrored=(), shapes=())
    repeats, values_once = find_repeated_rows(values, inner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of fits on the way, not of the result
        watch(Step(CHOOSING, words="looking for places to start"))
        # Many small products and factorizations: BLAS threads would cost more than they give, and on a busy machine
        # wait for each other. Scoring rows has threads of its own.
        with one_blas_thread():
            setting = Setting(inner, prior_record(values_once, inner, rng))
            starts = concentrated_starts(rows_to_start_on(values_once, rng), setting, rng)
            rows = SampledRows.of(values, sample.effective_weights, watch)
            settled = choose_mixture(rows, starts, repeats, setting, max_groups, rng, watch)
        mixture, rounds = settle_on_all(evidence, settled, sample, columns, watch)
        refit = Refit(evidence, mixture, assumptions, columns, rng, np.isnan(sample.values), watch)
        reweighted = refit.reweighted()
        tails = heavy_tails(mixture, values, sample.effective_weights) if reweighted.share_downweighted > 0.0 else None
    warn_of_two_groups(mixture, sample.n_present)
    try:
        stages = learn_record(reweighted.record, assumptions, names)
    except InvalidDataError as error:
        raise InvalidDataError(f"Among the rows that the robust method keeps: {error}") from error
    if tails is not None:
        warn_of_tails(*tails, stages.rows.scale[columns], columns_of_all(evidence, assumptions).scale[columns])
    look = look_at(evidence, assumptions)
    if look is not None:
        look = look.trimmed(reweighted.weights[look.rows] > _GENUINE)
    doubts = doubts_of(reweighted.record, stages.rows, assumptions, stages.pairs, stages.assembly, look)
    warn_of(doubts, names)
    census = Census(sample.n_present, sample.observed, sample.above, reweighted.record.count < 0.5)
    report = RobustReport.of(
        "robust",
        sample.n_rows,
        reweighted.record.effective_rows,
        census,
        stages.assembly,
        rounds=rounds + reweighted.rounds,
        share_downweighted=reweighted.share_downweighted,
        groups=mixture.groups,
        cut_p_value=reweighted.cut_p_value,
        starts_disagreed=disagree(starts),
        doubts=doubts,
        **assumptions.limits,
    )
    model, report = with_inverse(stages, report, assumptions.n_components, reweighted.record.weight)
    given = (model, stages.rows, stages.pairs, stages.assembly, report)
    return RobustLearned(*given, reweighted.weights, mixture.finished(), columns)


# --- outliers, or tails -------------------------------------------------------------------------


def heavy_tails(mixture: Mixture, values: Values, weights: FloatArray) -> tuple[float, FloatArray] | None:
    """The t distribution that explains rows better than groups of outliers do, None where none does.

    Its degrees of freedom, and the standard deviations of columns.
    """
    main, n = mixture.main_component, float(weights.sum())
    at = np.stack([main.widened(float(np.exp(width))).log_density(values) for width in _WIDTHS], axis=1)
    fine = CubicSpline(_WIDTHS, at, axis=1)(_FINE)
    highest = fine.max(axis=1, keepdims=True)
    density = np.exp(fine - highest)
    level = float(weights @ highest[:, 0])

    def likelihoods(laws: FloatArray) -> FloatArray:
        return np.asarray(level + weights @ np.log(np.maximum(density @ laws, 1e-300)))

    given = [(nu, a) for nu in _DEGREES for a in _UNITS]
    of_t = likelihoods(np.stack([_widths_of_t(nu, a) for nu, a in given], axis=1))
    best = int(np.argmax(of_t))
    of_two = likelihoods(_two_widths())
    of_groups = float(weights @ mixture.posterior(values)[1])
    bic_t = -2.0 * of_t[best] + (main.n_parameters + 1) * np.log(n)
    bic_groups = -2.0 * of_groups + mixture.n_parameters * np.log(n)
    if bic_t >= bic_groups or of_t[best] < of_two.max() - _CLEARLY:
        return None
    nu, a = given[best]
    return float(nu), main.scale * a * np.sqrt(nu / (nu - 2.0))


def _widths_of_t(nu: float, a: float) -> FloatArray:
    """Probabilities of the fine widths."""
    half = 0.5 * (_FINE[1] - _FINE[0])
    edges = np.exp(-2.0 * np.append(_FINE - half, _FINE[-1] + half)) * a * a  # 1/c^2 has the law of a^-2 Gamma
    edges[0], edges[-1] = np.inf, 0.0
    return np.asarray(-np.diff(gamma.cdf(edges, 0.5 * nu, scale=2.0 / nu)))


def _two_widths() -> FloatArray:
    """Widths x laws."""
    first = np.flatnonzero(np.abs(_FINE) < np.log(1.3))[::2]
    laws = []
    for one in first:
        for other in range(int(one) + 4, len(_FINE), 3):
            law = np.zeros((len(_FINE), len(_SHARES)))
            law[one], law[other] = 1.0 - _SHARES, _SHARES
            laws.append(law)
    return np.concatenate(laws, axis=1)


def columns_of_all(evidence: Evidence, assumptions: Assumptions) -> RowParameters:
    """What the one-pass fit says of the columns, with no row left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # it is looked at, and not the result
        record = evidence.collect(PairMomentsQuestion.under(assumptions, shapes=False), remember=False)
        return fit_record(record, assumptions)[0]


def warn_of_tails(degrees: float, spread: FloatArray, robust: FloatArray, everything: FloatArray) -> None:
    """Say what is off in the spreads of columns: of the robust fit, and of a fit to ``everything``."""
    off, other = (1.0 - float(np.median(given / spread)) for given in (robust, everything))
    if off < _LITTLE:
        said = "Row norms hardly suffer from it here; far rows are likelier than the model says."
    elif abs(other) < 0.5 * off:
        said = (
            f"Row norms are then about {off:.0%} too small. method='one_pass' was tried: it takes all rows for genuine,"
            f" and its row norms are off by {abs(other):.0%}; far rows are likelier than either model says."
        )
    else:
        said = (
            f"Row norms are then about {off:.0%} too small. method='one_pass' was tried, too: its row norms"
            f" are off by {abs(other):.0%}."
        )
    warn(
        "Rows that were taken for outliers continue the tails of the others, and no gap parts them: a t distribution"
        f" with about {degrees:.2g} degrees of freedom explains the table better than a normal one with outliers"
        f" does. {said}",
        HeavyTailsWarning,
    )
