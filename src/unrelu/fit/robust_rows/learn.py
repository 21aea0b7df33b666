"""The robust method on one screen: a sample of the rows, starts, growth, all rows, the cut.

The cut: rows that no component explains lose their weight, and the model does not change by the loss. Under the model a
given number of inlier rows scores below any level. Where the table has significantly more, the level with the largest
excess is a cut, and rows below it get weight 0. The cut takes inlier rows with it; so the record of the weighted rows
is completed by what the model itself puts below the cut,

    sum_i gamma_i 1{score > cut} T(x_i)  +  N E_model[ T(x) 1{score <= cut} ],

simulated with common random numbers from the current model, until model and record agree. T are the statistics of
the one-pass learner, N the number of inlier rows. On a clean table there is no excess, no cut and no simulation
noise: the fit is the one-pass fit.

Are rows taken for outliers, or only the tails of a table that is heavier than a normal one? Rows of a multivariate t
distribution are those of a normal one, each widened by a factor c of its own, with 1/c^2 ~ Gamma(nu/2, nu/2): there is
every factor between the usual and the rarest, and no row is of another kind. So three distributions of the rows are
compared, all about the inlier rows' own means and correlations,

    t            c of a t distribution with nu degrees of freedom, in units a
    two widths   c is one of two numbers: most rows as they are, and others wider
    the groups   that were found

and the tails are heavy where the first has a lower BIC than the groups and is not clearly less likely than the second.
The log density of a row at any c is a spline through those at a few.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Self

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import gamma, poisson

from unrelu.checks.findings import diagnostics_of
from unrelu.checks.misfit import sample_rows
from unrelu.contracts import (
    Assumptions,
    Block,
    BoolArray,
    ColumnCounts,
    Diagnostic,
    Evidence,
    FloatArray,
    Progress,
    RobustReport,
    Step,
    no_progress,
)
from unrelu.errors import InvalidDataError, UnreluWarning
from unrelu.fit.one_pass import Learned, Stages, fit_record, learn_record
from unrelu.fit.robust_rows.growth import CHOOSING, SampledRows, choose_mixture
from unrelu.fit.robust_rows.mixture import (
    ColumnIndex,
    Mixture,
    Setting,
    normalized,
    run_em_on_all,
    selected,
    weighted_rows,
)
from unrelu.fit.robust_rows.table import (
    check_table,
    concentrated_starts,
    find_repeated_rows,
    prior_record,
    sampled_table,
)
from unrelu.passes.engine import one_blas_thread
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.posterior.cells import Values
from unrelu.posterior.density import ScoreTail, rows_from_normals, seen_sum

REWEIGHTING = "Reweighting rows"

_INLIER = 0.5  # weight from which on a row counts for the model
_START_ROWS, _ROWS_PER_COLUMN = 1500, 5  # at least, to begin on
_ALIKE = 0.8  # halves that share less lead to other rows
_MAJORITY, _CLEAR_MAJORITY = 0.45, 0.6
# of the cut
_WIDEST_TAIL = 0.05  # the share of inlier rows a cut may take
_SIGNIFICANT = 1e-4  # probability of such an excess on a clean table, at any one level
_SIMULATED, _MOST_SIMULATED = 20_000, 60_000
_MOST_ROUNDS = 10
_AGREED = 0.02  # standard errors
_SWEEP_ERROR = 0.1  # log density a column that a sweep may be off: twice what it is at correlations of .9
# of tails
_WIDTHS = np.linspace(np.log(0.25), np.log(16.0), 15)  # logarithms of c, at which densities are computed
_FINE = np.linspace(_WIDTHS[0], _WIDTHS[-1], 141)
_DEGREES = np.array([2.2, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0])
_UNITS = np.geomspace(0.4, 2.0, 41)  # a, where the inlier rows' spread is 1
_SHARES = np.array([0.003, 0.006, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.27, 0.35, 0.45])
_LITTLE = 0.02  # of a standard deviation, too small for a word
_CLEARLY = 6.0  # log-likelihood by which two widths would have to be likelier


@dataclass(frozen=True, eq=False)
class RobustLearned(Learned):
    """The model of the inlier rows, and the mixture that separates them from others.

    ``row_weights``: one per row of the table, 0 for outliers, without the table's own weights. The mixture is of
    the columns ``columns``, those that separate rows.
    """

    row_weights: Annotated[FloatArray, "floats n"]
    mixture: Mixture
    columns: Annotated[ColumnIndex, "ints c"]

    def __post_init__(self) -> None:
        self.mixture.check_columns(self.columns, self.distribution.n_features)


def learn_robustly(
    evidence: Evidence, assumptions: Assumptions, max_groups: int, seed: int, progress: Progress = no_progress
) -> RobustLearned:
    """The model of the inlier rows."""
    sample, names, rng = sampled_table(evidence, assumptions, seed), evidence.feature_names, np.random.default_rng(seed)
    columns = check_table(sample, assumptions, names)
    values = np.ascontiguousarray(sample.values[:, columns])
    # Rows are compared with what fits them best; a rank or signs that the user assumes are for the result.
    free = replace(assumptions, n_components=None, nonnegative_mean=False)
    inner = replace(free, floor=tuple(assumptions.floor[j] for j in columns), negated=(), margins=())
    repeats, values_once = find_repeated_rows(values, inner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of fits on the way, not of the result
        progress(Step(CHOOSING, words="choosing starts"))
        # Many small products and factorizations: BLAS threads would cost more than they give, and on a busy machine
        # wait for each other. Scoring rows has threads of its own.
        with one_blas_thread():
            setting = Setting(inner, prior_record(values_once, inner, rng))
            some = rng.permutation(len(values_once))[: max(_START_ROWS, _ROWS_PER_COLUMN * len(columns))]
            starts = concentrated_starts(values_once[np.sort(some)], setting, rng)
            rows = SampledRows.of(values, sample.effective_weights, progress)
            state = choose_mixture(rows, starts, repeats, setting, max_groups, rng)
        mixture, rounds = run_em_on_all(evidence, state, sample, columns, progress)
        refit = Refit(evidence, mixture, free, columns, rng, np.isnan(sample.values), progress)
        record, weights, downweighted, cut_p_value, more_rounds = refit.reweight()
        tails = heavy_tails(mixture, values, sample.effective_weights) if downweighted > 0.0 else None
    own = _two_groups(float(mixture.shares[mixture.main]), sample.n_present)
    try:
        stages = learn_record(record, assumptions, names)
    except InvalidDataError as error:
        raise InvalidDataError(f"Among the rows that the robust method keeps: {error}") from error
    if tails is not None:
        own.append(_own_tails(*tails, stages.rows.std[columns], evidence, assumptions, columns))
    shown = sample_rows(evidence, assumptions)
    if shown is not None:
        shown = shown.trimmed(weights[shown.rows] > _INLIER)
    diagnostics = diagnostics_of(record, stages.rows, assumptions, stages.pairs, stages.nearest, shown)
    report = RobustReport.of(
        "robust",
        sample.n_rows,
        record.effective_rows,
        ColumnCounts(sample.n_present, sample.observed, sample.above, record.count < 0.5),
        stages.nearest,
        rounds=rounds + more_rounds,
        share_downweighted=downweighted,
        groups=mixture.groups,
        cut_p_value=cut_p_value,
        starts_disagreed=any(start.overlap(starts[0]) < _ALIKE for start in starts[1:]),
        diagnostics=(*own, *diagnostics),
        **assumptions.limits,
    )
    more = {"row_weights": weights, "mixture": mixture.finished(), "columns": columns}
    return RobustLearned.of(stages, report, assumptions.n_components, record.weight, **more)


def _two_groups(share: float, n_rows: int) -> list[Diagnostic]:
    """What to say where the inlier rows are not clearly the larger group."""
    if share >= _CLEAR_MAJORITY:
        return []
    inlier, others = round(n_rows * share), round(n_rows * (1.0 - share))
    if share >= _MAJORITY:
        found = f"the rows fall in groups of about {inlier:,} and {others:,} that explain the table about equally well."
    else:
        found = (
            f"no single model fits most rows: the largest part that fits one is about {inlier:,}, the rest {others:,}."
        )
    words = f"{found} The {inlier:,} were taken for the inliers, which the table does not decide."
    remedy = "Look at the weights of the rows, or split the table; where columns are skewed, give them margins='auto'."
    return [Diagnostic("ambiguous-majority", (), words, remedy)]


# --- the cut --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowScores:
    """Per row, in table order: probability of being an inlier, score under the model of the inliers, weight in the
    table."""

    parts: tuple[tuple[int, FloatArray], ...]

    def merge(self, other: Self) -> Self:
        return type(self)(self.parts + other.parts)

    @property
    def table(self) -> FloatArray:
        """n x 3."""
        return np.concatenate([part for _, part in sorted(self.parts, key=lambda pair: pair[0])])


def row_scores_of(mixture: Mixture, columns: ColumnIndex, block: Block) -> RowScores:
    """A question: the probability of every row to be an inlier, by the density that users see."""
    values = selected(block.values, columns)
    weights = np.ones(len(values)) if block.weights is None else block.weights
    joint = mixture.joint(values, converged=True)
    inlier = normalized(joint)[0][:, mixture.main]
    score = joint[:, mixture.main] - np.log(mixture.shares[mixture.main])
    distribution = mixture.main_component
    score += seen_sum(values, distribution.setting.floor, distribution.density.log_cell_unit)
    return RowScores(((block.first_row, np.stack([inlier, score, weights], axis=1)),))


def reweighted_moments(question: PairMomentsQuestion, weights: FloatArray, block: Block) -> PairMoments:
    """The one-pass record with other weights: ``weights[i]`` is that of row i of the table."""
    weights = weights[block.first_row : block.first_row + len(block.values)]
    weights = weights if block.weights is None else weights * block.weights
    return question(weighted_rows(block.values, weights, block.first_row))


def excess_cut(scores: FloatArray, weights: FloatArray, tail: ScoreTail) -> float:
    """The score below which there are significantly more rows than the model has, -inf where there are not.

    ``weights`` are probabilities of being inliers, so their sum is the number of rows of the model.
    """
    low = np.flatnonzero(scores < tail.quantile(_WIDEST_TAIL))
    low = low[np.argsort(scores[low])]
    found = np.cumsum(weights[low])
    significant = poisson.sf(np.round(found) - 1.0, weights.sum() * tail.highest_p_value(scores[low])) < _SIGNIFICANT
    if not significant.any():
        return -np.inf
    expected = weights.sum() * tail.p_value(scores[low])
    excess = np.where(significant, found - expected, -np.inf)
    return float(scores[low[np.argmax(excess)]])


@dataclass(frozen=True, eq=False)
class Refit:
    """The model of the mixture's main component, from all rows.

    The mixture only weighs and scores the rows. The expected scores are those of the model that all rows
    give, since a mixture chosen on a sample finds other rows a little less likely than its own. Simulated rows have the
    holes of some rows of the table, ``missing``.
    """

    evidence: Evidence
    mixture: Mixture
    assumptions: Assumptions
    columns: ColumnIndex
    rng: np.random.Generator
    missing: BoolArray
    progress: Progress = no_progress

    def reweight(self) -> tuple[PairMoments, FloatArray, float, float, int]:
        """(record of the inlier rows, weights of all without those of the table, share of the rows that count less than
        half, p-value of the cut, rounds); rows of weight 0 in the table are no part of the share."""
        self.progress(Step(REWEIGHTING, words="scoring all rows"))
        scored = self.evidence.collect(partial(row_scores_of, self.mixture, self.columns), remember=False).table
        inlier, scores, given = scored.T
        data, density = self._record(inlier), self.mixture.main_component.density
        simulated = self._simulated(self._solve(data), self.rng.standard_normal((_SIMULATED, len(self.columns))))
        tail = ScoreTail.of(density.score(selected(simulated, self.columns)))
        cut = excess_cut(scores, inlier * given, tail)
        weights, rounds = inlier, 0
        if cut > -np.inf:
            weights = np.where(scores > cut, inlier, 0.0)
            words = f"{np.count_nonzero(scores <= cut):,} rows that no group explains lose their weight"
            self.progress(Step(REWEIGHTING, words=words))
            size = int(np.clip(len(scores), _SIMULATED, _MOST_SIMULATED))
            data, rounds = self.complete(
                self._record(weights), self.rng.standard_normal((size, len(self.columns))), cut
            )
        downweighted = float(np.mean(weights[given > 0.0] < 0.5))
        return data, weights, downweighted, float(tail.p_value(np.array([cut]))[0]), rounds

    def complete(self, data: PairMoments, normals: FloatArray, cut: float) -> tuple[PairMoments, int]:
        """The record that agrees with the rows above the cut and with its own model below it, and the rounds taken."""
        record, stages, density = data, self._solve(data), self.mixture.main_component.density
        for rounds in range(1, _MOST_ROUNDS + 1):
            self.progress(Step(REWEIGHTING, rounds, _MOST_ROUNDS, "completing the record below the cut"))
            rows = self._simulated(stages, normals)
            values = selected(rows, self.columns)
            # A sweep finds most of the rows that do not score below the cut.
            below = density.score(values, converged=False) <= cut + _SWEEP_ERROR * values.shape[1]
            below[below] = density.score(values[below]) <= cut
            if not below.any():
                return record, rounds
            share = float(below.mean())
            simulated = PairMomentsQuestion.under(self.assumptions)(Block(rows[below]))
            record = join_simulated(data, simulated, data.weight * share / (1.0 - share))
            before, stages = stages.rows, self._solve(record)
            mean = np.abs(before.mean - stages.rows.mean)[self.columns] / stages.rows.mean_stderr[self.columns]
            std = np.abs(before.std - stages.rows.std)[self.columns] / stages.rows.std_stderr[self.columns]
            if max(np.nanmax(mean), np.nanmax(std)) < _AGREED:
                return record, rounds
        return record, _MOST_ROUNDS

    def _record(self, weights: FloatArray) -> PairMoments:
        question = partial(reweighted_moments, PairMomentsQuestion.under(self.assumptions), weights)
        return self.evidence.collect(question, remember=False)

    def _solve(self, record: PairMoments) -> Stages:
        return learn_record(record, self.assumptions, self.evidence.feature_names)

    def _simulated(self, stages: Stages, normals: FloatArray) -> FloatArray:
        """Rows of the model from rows of independent normals; columns that do not vary hold their constant."""
        rows = np.tile(np.maximum(stages.rows.mean, self.assumptions.floor), (len(normals), 1))
        model = stages.distribution.marginal(self.columns.tolist())
        rows[:, self.columns] = rows_from_normals(normals, model.mean, model.std, model.correlation, model.floor)
        if self.missing.any():
            rows[self.missing[np.arange(len(rows)) % len(self.missing)]] = np.nan
        return rows


def join_simulated(data: PairMoments, simulated: PairMoments, weight: float) -> PairMoments:
    """Both records, the simulated one at the given weight. Errors stay those of the data: simulation adds no rows."""
    both = data.merge(simulated.scaled(weight / simulated.weight))
    observed = both.observed
    if observed is not None and data.observed is not None:
        rows = data.observed.count**2 / np.maximum(data.observed.squared_weight, 1e-300)
        squared = np.divide(observed.count**2, rows, out=np.zeros_like(rows), where=rows > 0.0)
        observed = replace(observed, squared_weight=squared)
    squared_weight = both.weight**2 / data.effective_rows
    return replace(both, n_rows=data.n_rows, squared_weight=squared_weight, observed=observed)


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

    def likelihoods(distributions: FloatArray) -> FloatArray:
        return np.asarray(level + weights @ np.log(np.maximum(density @ distributions, 1e-300)))

    given = [(nu, a) for nu in _DEGREES for a in _UNITS]
    of_t = likelihoods(np.stack([_widths_of_t(nu, a) for nu, a in given], axis=1))
    best = int(np.argmax(of_t))
    pairs = []
    for one in np.flatnonzero(np.abs(_FINE) < np.log(1.3))[::2]:
        for other in range(int(one) + 4, len(_FINE), 3):
            distribution = np.zeros((len(_FINE), len(_SHARES)))
            distribution[one], distribution[other] = 1.0 - _SHARES, _SHARES
            pairs.append(distribution)
    of_two = likelihoods(np.concatenate(pairs, axis=1))
    of_groups = float(weights @ mixture.posterior(values)[1])
    bic_t = -2.0 * of_t[best] + (main.n_parameters + 1) * np.log(n)
    bic_groups = -2.0 * of_groups + mixture.n_parameters * np.log(n)
    if bic_t >= bic_groups or of_t[best] < of_two.max() - _CLEARLY:
        return None
    nu, a = given[best]
    return float(nu), main.std * a * np.sqrt(nu / (nu - 2.0))


def _widths_of_t(nu: float, a: float) -> FloatArray:
    """Probabilities of the fine widths."""
    half = 0.5 * (_FINE[1] - _FINE[0])
    edges = np.exp(-2.0 * np.append(_FINE - half, _FINE[-1] + half)) * a * a  # 1/c^2 has the distribution of a^-2 Gamma
    edges[0], edges[-1] = np.inf, 0.0
    return np.asarray(-np.diff(gamma.cdf(edges, 0.5 * nu, scale=2.0 / nu)))


def _own_tails(
    degrees: float,
    spread: FloatArray,
    robust: FloatArray,
    evidence: Evidence,
    assumptions: Assumptions,
    columns: ColumnIndex,
) -> Diagnostic:
    """What is off in the spreads of columns: of the robust fit, and of a one-pass fit with no row left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of a fit for comparison, not of the result
        record = evidence.collect(PairMomentsQuestion.under(assumptions, margins=False), remember=False)
        everything = fit_record(record, assumptions)[0].std[columns]
    off, other = (1.0 - float(np.median(given / spread)) for given in (robust, everything))
    if off < _LITTLE:
        remedy = "Row standard deviations hardly suffer from it here; far rows are likelier than the model says."
    elif abs(other) < 0.5 * off:
        remedy = (
            f"Row standard deviations are then about {off:.0%} too small. method='one_pass' was tried: it takes all"
            f" rows for inliers, and its standard deviations are off by {abs(other):.0%}; far rows are likelier"
            " than either model says."
        )
    else:
        remedy = (
            f"Row standard deviations are then about {off:.0%} too small. method='one_pass' was tried, too: its"
            f" standard deviations are off by {abs(other):.0%}."
        )
    words = (
        "rows that were taken for outliers continue the tails of the others, and no gap parts them: a t distribution"
        f" with about {degrees:.2g} degrees of freedom explains the table better than a normal one with outliers does."
    )
    return Diagnostic("tails-not-outliers", (), words, remedy)
