"""The full likelihood on one screen: counts of cells, a start, the maximum, errors from the rows' scores.

The start is the one-pass fit or, where cells state their limits, the columns' own fits. Columns by themselves are
factors plus noise without factors. One step from there, in each correlation alone,

    r_ij = n sum s_i s_j / ( sum s_i^2  sum s_j^2 ),     s the rows' scores of the means in standard units,

is the likelihood's own first guess: for complete rows the sample correlation.

Errors that hold without the model: A^-1 B A^-1, with A the information and B the sum of the outer products of the rows'
scores, both from the rows themselves. Under the model A = B, up to chance; with heavier tails B is larger, and the
errors are those of a bootstrap of the rows. In small tables they would be too small: B has fourth powers of what is
seen, of which the largest are seldom there. With n cells of which m are seen, variances grow by 8/n, and those of means
by 1/n, and both by 13 (1/m - 1/n) (docs/research/026). That takes several rows a parameter. Where rows are too few or
parameters too many, each column is taken by itself: mean and spread with A and B of the column's own cells, as if the
others were independent of it, and correlations with the information of as many complete rows as the two columns amount
to,

    stderr(r_ij) = (1 - r_ij^2) / sqrt(n e_i e_j),     e_i = mean of (score of the mean)^2 s_i^2,

which is 1 for a column without cut-off or missing cells, times what tails add to it. Both are rather too wide than too
narrow.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.linalg import eigvalsh

from unrelu.checks.findings import diagnostics_of
from unrelu.checks.misfit import sample_rows
from unrelu.contracts import (
    Assumptions,
    Block,
    BoolArray,
    ColumnCounts,
    Evidence,
    FloatArray,
    LearningReport,
    NearestCovariance,
    PairCorrelations,
    Progress,
    RowParameters,
    Shrinkage,
    Step,
    no_progress,
)
from unrelu.errors import InvalidDataError, InvalidParameterError, UnreluWarning
from unrelu.fit.columns import warn_of_constants
from unrelu.fit.jackknife import LEAVING_OUT, Fit, check_groups, not_without, with_scatter_of
from unrelu.fit.likelihood.maximizing import (
    DIFFERENCE,
    MAXIMIZING,
    MOST_OUTER,
    ROWS_A_PARAMETER,
    Cells,
    CovarianceModel,
    Curvature,
    FactorModel,
    Fold,
    Maximum,
    Model,
    Prior,
    Scores,
    correct,
    maximize,
    scores_of,
)
from unrelu.fit.one_pass import Learned, Names, Stages, counts_of, learn_record
from unrelu.fit.shrinkage import factor_loadings, scoring_correlation, shrunken
from unrelu.kernels.row_block import LARGEST
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import one_blas_thread
from unrelu.passes.pair_moments import (
    AllButGroup,
    GroupedMoments,
    GroupedMomentsQuestion,
    PairMoments,
    PairMomentsQuestion,
)
from unrelu.passes.tiles import Screening, censoring_of, screening_of
from unrelu.validation import label_columns, warn

_FEW, _MOSTLY = 5, 0.99  # values seen, and share of cells cut off, from which a column is barely determined
_LARGEST_START = 0.9
_KEPT = 0.95  # of the first correlations
_LEAST_NOISE = 0.05  # of a column's variance, in a start
_RIDGE = 0.01  # of the prior's second moment that is noise: the least variance is this over the number of rows
_PRIOR_ROWS, _PRIOR_SHARE = 1.0, 0.01  # at most
_OF_MEAN, _OF_STD, _OF_HIDDEN = 1.0, 8.0, 13.0  # shares by which variances grow, over the number of cells
CHOOSING = "Choosing the number of factors"
_FOLDS = 3
_TO_GAIN_BY_FOLD = 1e-3  # a parameter: little beside what a factor too many costs, half a unit each
_PATIENCE = 2  # numbers of factors in a row that are worse than the best
_TO_GAIN_BY_GROUP = 5e-6  # a parameter: 19 times the way that is left is little beside what 20 groups scatter

Errors = tuple[FloatArray, FloatArray]
"""Covariance d x 2 x 2 of mean and std, standard errors d x d of correlations."""


@dataclass(frozen=True)
class LikelihoodReport(LearningReport):
    """The same, and what the likelihood was.

    ``log_likelihood``: of all rows, weighted as they are, in the units of the table. ``n_parameters``: those that rows
    can identify, so that AIC is 2 n_parameters - 2 log_likelihood. ``n_components``: factors, None for any
    covariance. ``rounds``: passes over the rows; ``settled``: whether the last ones found nothing more to gain.
    """

    rounds: int
    log_likelihood: float
    n_parameters: int
    n_components: int | None
    settled: bool

    @property
    def converged(self) -> bool:
        """Whether the likelihood reached its maximum to its tolerance."""
        return self.settled


def learn_by_likelihood(
    evidence: Evidence,
    assumptions: Assumptions,
    most_rounds: int,
    progress: Progress = no_progress,
    jackknife: bool = False,
) -> Learned:
    """The most likely model of the rows behind the evidence; with the errors of a jackknife over their groups."""
    if assumptions.nonnegative_mean:
        raise InvalidParameterError(
            "method='full_likelihood' finds means of either sign: leave out nonnegative_mean, or use 'one_pass'."
        )
    names = evidence.feature_names
    counts = evidence.collect(CellCountsQuestion(assumptions.censored_at, assumptions.lowest))
    counts.screening.check(assumptions, names)
    progress(Step(MAXIMIZING, words="starting"))
    # What one pass keeps of the rows, unless cells have limits of their own; the same by groups for a jackknife.
    question, groups = PairMomentsQuestion.under(assumptions), None
    if jackknife:
        groups = evidence.collect(GroupedMomentsQuestion(question))
        check_groups(groups)
    record = None if counts.marked else evidence.collect(question) if groups is None else groups.whole
    rows = counts.weight, counts.effective_rows
    with one_blas_thread():  # many small products; the rows are shared out among threads
        if record is None:
            start = start_from_columns(evidence, counts, assumptions, progress)
        else:
            start = start_from_record(record, assumptions, names)
        k = assumptions.n_components
        if assumptions.auto_components:
            k = choose_components(evidence, start, rows, progress)
        cells, prior = start.cells, start.prior(counts.weight)
        maximum = maximize(evidence, cells, start.model(k), prior, rows, progress, most_rounds)
        most_likely = maximum.model
        maximum, step, around = correct(evidence, cells, maximum, prior, rows)
        errors = standard_errors(evidence, cells, maximum.model, counts, around)
        others: list[Fit] = []
        for model in (
            models_without_a_group(evidence, start, most_likely, groups, assumptions, progress) if groups else ()
        ):
            without = _stages(start, model.moved(step)[0], errors, assumptions, names)
            others.append((without.rows, without.pairs))
    _warn(maximum, counts, names)
    stages = _stages(start, maximum.model, errors, assumptions, names)
    level = maximum.log_likelihood - float(counts.seen[start.cells.columns] @ np.log(start.cells.unit))
    # Whether pairs fit together is tested on those that were learned one by one.
    pairs = stages if start.one_pass is None else start.one_pass
    look = sample_rows(evidence, assumptions)
    diagnostics = diagnostics_of(record, stages.rows, assumptions, pairs.pairs, pairs.nearest, look)
    report = LikelihoodReport.of(
        "full_likelihood",
        counts.n_rows,
        counts.effective_rows,
        ColumnCounts(counts.weight, counts.observed, counts.seen) if record is None else counts_of(record),
        stages.nearest,
        rounds=maximum.rounds,
        log_likelihood=level,
        n_parameters=maximum.model.n_free,
        n_components=maximum.model.n_components,
        settled=maximum.converged,
        diagnostics=diagnostics,
        **assumptions.limits,
    )
    learned = _with_inverse(stages, report, counts)
    return learned if groups is None else with_scatter_of(learned, groups, others)


def _stages(start: Start, model: Model, errors: Errors, assumptions: Assumptions, names: Names) -> Stages:
    """The model of all columns in the units of the table; one that is constant has no spread and no errors."""
    d, at, unit = len(assumptions.floor), start.cells.columns, start.cells.unit
    square = np.ix_(at, at)
    mean, covariance, both = start.mean.copy(), np.zeros((d, d)), np.zeros((d, 2, 2))
    mean[at] = start.cells.origin + unit * model.mean
    covariance[square] = model.covariance * np.outer(unit, unit)
    both[at] = errors[0] * (unit**2)[:, None, None]
    stderr = np.full((d, d), np.nan)
    stderr[square] = errors[1]
    for j, i in start.images.items():  # y_j = start's b_j + slope (y_i - start's b_i)
        assert start.one_pass is not None, "columns that are images are found by it"
        slope = start.std[j] / start.std[i] * np.sign(start.one_pass.pairs.correlation[i, j])
        mean[j] = start.mean[j] + slope * (mean[i] - start.mean[i])
        covariance[j] = slope * covariance[i]
        covariance[:, j] = slope * covariance[:, i]
        both[j] = both[i] * slope * np.array([[slope, abs(slope)], [abs(slope), slope]])
        stderr[j], stderr[:, j] = stderr[i], stderr[:, i]
        stderr[i, j] = stderr[j, i] = 0.0
    np.fill_diagonal(stderr, 0.0)
    fitted = RectifiedGaussian(mean, covariance, assumptions.floor, names)
    floor = np.array(assumptions.censored_at)
    rows = RowParameters(mean, fitted.std, floor, both, np.zeros((d, 2, 3)))
    vary = np.flatnonzero(fitted.std)
    smallest = float(eigvalsh(fitted.correlation[np.ix_(vary, vary)])[0]) if len(vary) > 0 else 1.0
    perfect = () if start.one_pass is None else start.one_pass.pairs.perfect_pairs
    pairs = PairCorrelations(fitted.correlation, stderr, perfect)
    return Stages(fitted, rows, pairs, NearestCovariance(smallest))


def _with_inverse(stages: Stages, report: LikelihoodReport, counts: CellCounts) -> Learned:
    """The same with a report and, unless factors and noise can be inverted anyway, a covariance for scores."""
    k = report.n_components
    if k is None or stages.pairs.perfect_pairs:
        # All were learned together: their errors fit together, whatever floors and gaps add to them.
        r = stages.pairs.correlation
        together = PairCorrelations(r, (1.0 - r * r) / np.sqrt(counts.effective_rows), stages.pairs.perfect_pairs)
        learned = Learned.of(replace(stages, pairs=together), report, None, counts.weight)
        return replace(learned, pairs=stages.pairs)
    report = replace(report, shrinkage=Shrinkage(0.0, k, stages.nearest.smallest_eigenvalue))
    return Learned(stages.distribution, stages.rows, stages.pairs, stages.nearest, report)


# --- errors -----------------------------------------------------------------------------------------


def standard_errors(
    evidence: Evidence, cells: Cells, model: Model, counts: CellCounts, around: Curvature | None
) -> Errors:
    """(covariance d x 2 x 2 of mean and std, standard errors d x d of correlations), in standard units."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = None
        if around is not None:
            with suppress(np.linalg.LinAlgError):  # the rows leave some parameter open
                inverse = model.inverse(around[0])
                spread = inverse @ around[1] @ inverse * (counts.weight / counts.effective_rows)
                found = model.errors(model.jacobian @ spread @ model.jacobian.T)
        both, variance = found or _without_information(evidence, cells, model, counts)
        # By which variances of means and of standard deviations are too small in tables of few cells.
        per_row = counts.effective_rows / counts.weight
        seen, observed = (np.maximum(per_row * each[cells.columns], 1.0) for each in (counts.seen, counts.observed))
        hidden = _OF_HIDDEN * (1.0 / seen - 1.0 / observed)
        mean, std = 1.0 + _OF_MEAN / observed + hidden, 1.0 + _OF_STD / observed + hidden
        root = np.sqrt(np.stack([mean, std], axis=1))
        variance = variance * (0.5 * (std[:, None] + std))
        return both * root[:, :, None] * root[:, None], np.minimum(np.sqrt(variance), 1.0)


def _without_information(evidence: Evidence, cells: Cells, model: Model, counts: CellCounts) -> Errors:
    """From B alone, which stands for A, times what the tails of single columns add to that; or column by column."""
    n = counts.effective_rows
    alone, spread, pair_tails = _columns(evidence, cells, model, counts)
    if model.n_coordinates <= MOST_OUTER and n > ROWS_A_PARAMETER * model.n_free:
        outer = scores_of(evidence, cells, model, outer=True).outer
        assert outer is not None, "outer=True"
        # The inverse of a sum of n outer products is too large by n / (n - p - 1).
        per_weight = counts.weight / n * (1.0 - (model.n_free + 1.0) / n)
        with suppress(np.linalg.LinAlgError):
            both, variance = model.errors(model.inverse(outer) * per_weight)
            by_model = np.diagonal(np.linalg.inv(alone), axis1=1, axis2=2) * (counts.weight / n)
            root = np.sqrt(np.diagonal(spread, axis1=1, axis2=2) / by_model)
            return both * root[:, :, None] * root[:, None], variance * pair_tails
    variance = np.diagonal(model.covariance)
    share = alone[:, 0, 0] * variance / counts.weight
    r = model.covariance / np.sqrt(np.outer(variance, variance))
    squared = (1.0 - r**2) ** 2 / (n * np.outer(share, share))
    return spread, squared * pair_tails


def _columns(
    evidence: Evidence, cells: Cells, model: Model, counts: CellCounts
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of every column by itself, in mean and std: outer products of scores, covariance of the estimates; and by how
    much tails make the variances of correlations larger, where rows as a whole have such tails."""
    variance = np.diagonal(model.covariance).copy()
    std, d = np.sqrt(variance), len(variance)
    here = independent_scores(evidence, cells, model.mean, variance, outer=True)
    assert here.outer is not None, "outer=True"
    # From means and log variances to means and standard deviations.
    unit = np.stack([np.ones(d), 2.0 / std], axis=1)
    moves = [
        independent_scores(evidence, cells, model.mean + DIFFERENCE * std, variance),
        independent_scores(evidence, cells, model.mean, variance * np.exp(2.0 * DIFFERENCE)),
    ]
    bend = np.stack([(here.score - each.score).reshape(2, d).T for each in moves], axis=1)
    bend = bend * unit[:, None] / (DIFFERENCE * std)[:, None, None]
    at = np.arange(d)
    ends = np.stack([at, d + at], axis=1)
    outer = here.outer[ends[:, :, None], ends[:, None]] * unit[:, :, None] * unit[:, None]
    information = 0.5 * (bend + bend.transpose(0, 2, 1))
    definite = (information[:, 0, 0] > 0.0) & (np.linalg.det(information) > 0.0)
    information[~definite] = outer[~definite]
    inverse = np.linalg.inv(information)
    spread = inverse @ outer @ inverse
    spread[~(np.diagonal(spread, axis1=1, axis2=2) > 0.0).all(axis=1)] = np.nan  # too few cells
    tails = spread[:, 1, 1] / inverse[:, 1, 1]  # 1 + 3 kappa/2, for standard deviations; 1 + kappa for correlations
    pair_tails = np.maximum(1.0 + (tails[:, None] + tails - 2.0) / 3.0, 1.0)
    return outer, spread * (counts.weight / counts.effective_rows), pair_tails


def independent_scores(
    evidence: Evidence, cells: Cells, mean: FloatArray, variance: FloatArray, outer: bool = False
) -> Scores:
    """Scores of means and log variances, with outer products if ``outer``, as if columns were independent."""
    model = FactorModel(mean, np.empty((len(mean), 0)), variance)
    return scores_of(evidence, cells, model, outer)


# --- where to start ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Per column the weight of the cells seen, at most and at least a limit; mean and spread of those seen. ``marked``:
    whether cells state their own limits. ``ends``: smallest and largest number, seen or a limit."""

    n_rows: int
    weight: float
    squared_weight: float
    seen: FloatArray
    below: FloatArray
    above: FloatArray
    mean: FloatArray
    square: FloatArray
    ends: FloatArray
    marked: bool
    screening: Screening

    @property
    def effective_rows(self) -> float:
        """Kish's number of rows, (sum w)^2 / sum w^2."""
        return self.weight**2 / self.squared_weight if self.squared_weight > 0.0 else 0.0

    @property
    def observed(self) -> FloatArray:
        return np.asarray(self.seen + self.below + self.above)

    def merge(self, other: Self) -> Self:
        seen = self.seen + other.seen
        share = np.divide(other.seen, seen, out=np.zeros_like(seen), where=seen > 0.0)
        gap = other.mean - self.mean
        return type(self)(
            n_rows=self.n_rows + other.n_rows,
            weight=self.weight + other.weight,
            squared_weight=self.squared_weight + other.squared_weight,
            seen=seen,
            below=self.below + other.below,
            above=self.above + other.above,
            mean=self.mean + share * gap,
            square=self.square + other.square + self.seen * share * gap**2,
            ends=np.stack([np.minimum(self.ends[0], other.ends[0]), np.maximum(self.ends[1], other.ends[1])]),
            marked=self.marked or other.marked,
            screening=self.screening.merge(other.screening),
        )


@dataclass(frozen=True)
class CellCountsQuestion:
    """Ask how many cells are seen, cut off and missing, and which cannot be used; ``floor``: at or below it a cell is
    cut off. ``lowest``: the least value a cell may have. ``rows``: only these count."""

    floor: tuple[float, ...]
    lowest: tuple[float, ...]
    rows: AllButGroup | None = None

    def __call__(self, block: Block) -> CellCounts:
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        if self.rows is not None:
            weights = weights * self.rows.of(block)
        usable = (weights[:, None] > 0.0) & (np.abs(block.values) <= np.float64(LARGEST))
        values, marks = censoring_of(np.where(usable, block.values, np.nan), block.censoring, np.array(self.floor))
        observed = ~np.isnan(values)
        shown = observed & (marks == 0)
        seen, below, above = (np.asarray(weights @ which) for which in (shown, marks == -1, marks == 1))
        mean = np.divide(weights @ np.where(shown, values, 0.0), seen, out=np.zeros_like(seen), where=seen > 0.0)
        square = weights @ np.where(shown, (values - mean) ** 2, 0.0)
        ends = np.where(observed, values, np.inf).min(axis=0), np.where(observed, values, -np.inf).max(axis=0)
        return CellCounts(
            n_rows=len(values),
            weight=float(weights.sum()),
            squared_weight=float(weights @ weights),
            seen=seen,
            below=below,
            above=above,
            mean=mean,
            square=square,
            ends=np.stack(ends).astype(np.float64),
            marked=block.censoring is not None and bool(np.any(block.censoring)),
            screening=screening_of(block, self.lowest),
        )


@dataclass(frozen=True, eq=False)
class Start:
    """Cells in units in which the start has mean 0 and variances 1, and its correlations, which can be inverted.
    ``mean`` and ``std``: of all columns, also of those that are constant. A column that is an exact linear image of
    an earlier one takes no part: ``images`` has the first that it is one of, by ``one_pass``."""

    cells: Cells
    mean: FloatArray
    std: FloatArray
    correlation: FloatArray
    one_pass: Stages | None = None
    images: dict[int, int] = field(default_factory=dict)

    def model(self, k: int | None) -> Model:
        """With any covariance (None), or with k factors."""
        mean = np.zeros(len(self.correlation))
        if k is None or k >= len(mean):
            return CovarianceModel(mean, self.correlation)
        loadings = factor_loadings(self.correlation, k, np.full(len(mean), _LEAST_NOISE))
        return FactorModel(mean, loadings, np.maximum(1.0 - np.sum(loadings**2, axis=1), _LEAST_NOISE))

    def prior(self, weight: float) -> Prior:
        target = (1.0 - _RIDGE) * self.correlation + _RIDGE * np.eye(len(self.correlation))
        return Prior(min(_PRIOR_ROWS, _PRIOR_SHARE * weight), target)


def start_from_record(record: PairMoments, assumptions: Assumptions, names: Names) -> Start:
    """From the one-pass fit, with its warnings."""
    stages = learn_record(record, replace(assumptions, n_components=None), names)
    rows, images = stages.rows, dict[int, int]()
    for i, j in sorted(stages.pairs.perfect_pairs):
        if i not in images:
            images.setdefault(j, i)
    at = np.array([j for j in np.flatnonzero(rows.std > 0.0) if j not in images], dtype=np.int64)
    square = np.ix_(at, at)
    pairs = PairCorrelations(stages.pairs.correlation[square], stages.pairs.stderr[square])
    correlation = stages.distribution.correlation[square]
    if len(at) > 0:
        correlation, _ = scoring_correlation(pairs, correlation, record.effective_rows)
    cells = Cells(at, rows.mean[at], rows.std[at], rows.floor[at])
    return Start(cells, rows.mean, rows.std, correlation, stages, images)


def start_from_columns(
    evidence: Evidence, counts: CellCounts, assumptions: Assumptions, progress: Progress = no_progress
) -> Start:
    """From every column's own fit, where cells state their own limits."""
    constant = _check_columns(counts, evidence.feature_names)
    at = np.flatnonzero(~constant)
    variance = counts.square / np.maximum(counts.seen, 1e-300)
    spread = np.where(variance > 0.0, np.sqrt(variance), 0.25 * (counts.ends[1] - counts.ends[0]))
    cells = Cells(at, counts.mean[at], spread[at], np.array(assumptions.censored_at)[at])
    d = len(at)
    model = FactorModel(np.zeros(d), np.empty((d, 0)), np.ones(d))
    prior = Prior(min(_PRIOR_ROWS, _PRIOR_SHARE * counts.weight), np.eye(d))
    alone = maximize(evidence, cells, model, prior, (counts.weight, counts.effective_rows), progress).model
    std = np.sqrt(np.diagonal(alone.covariance))
    cells = replace(cells, origin=cells.origin + cells.unit * alone.mean, unit=cells.unit * std)
    outer = independent_scores(evidence, cells, np.zeros(d), np.ones(d), outer=True).outer
    assert outer is not None, "outer=True"
    information = np.diagonal(outer)[:d]
    r = np.clip(counts.weight * outer[:d, :d] / np.outer(information, information), -_LARGEST_START, _LARGEST_START)
    np.fill_diagonal(r, 1.0)
    mean, std = counts.mean.copy(), np.zeros(len(constant))
    mean[at], std[at] = cells.origin, cells.unit
    return Start(cells, mean, std, shrunken(r, _KEPT))


def _check_columns(counts: CellCounts, names: Names) -> BoolArray:
    """Raise for columns that cannot be learned; True where a column is constant."""
    if (unseen := counts.observed == 0.0).any():
        raise InvalidDataError(
            f"No value at all in {label_columns(unseen, names)}: every row is missing (NaN) or has weight 0. Drop it."
        )
    cut = counts.observed - counts.seen > 1e-12 * counts.observed
    if (never := counts.seen == 0.0).any():
        raise InvalidDataError(
            f"Every cell is cut off at a limit in {label_columns(never, names)}. Its mean and standard deviation"
            " cannot be learned. Drop it or add rows."
        )
    constant = np.asarray(~cut & (counts.ends[0] == counts.ends[1]))
    warn_of_constants(constant, names)
    return constant


def _warn(maximum: Maximum, counts: CellCounts, names: Names) -> None:
    """Warn where the maximum was not reached, and of columns that are hardly ever seen."""
    if not maximum.converged:
        warn(
            f"The likelihood was still rising after {maximum.rounds} rounds: the model is near the most likely one, but"
            " not at it. Give methods.FullLikelihood(max_rounds=...) more rounds, or drop columns hardly seen.",
            "not-converged",
        )
    share = 1.0 - counts.seen / counts.observed
    seen = counts.seen / counts.weight * counts.effective_rows
    if (rare := (share > 0.0) & ((share >= _MOSTLY) | (seen < _FEW - 0.5))).any():
        warn(
            f"At most one cell in a hundred, or fewer than {_FEW}, is within its limits in"
            f" {label_columns(rare, names)}: mean, standard deviation and correlations are barely determined; look"
            " at their standard errors.",
            "few-positives",
        )


# --- the maximum on some of the rows -------------------------------------------------------------------


def choose_components(
    evidence: Evidence, start: Start, rows: tuple[float, float], progress: Progress = no_progress
) -> int:
    """The best number of factors, from one up to where the held-out likelihood falls."""
    most = max(1, len(start.correlation) // 2)
    best, best_level = 1, -np.inf
    for k in range(1, most + 1):
        model, level = start.model(k), 0.0
        for index in range(_FOLDS):
            fold, kept = Fold(index, _FOLDS, True), (1.0 - 1.0 / _FOLDS) * np.array(rows)
            others = replace(start.cells, rows=replace(fold, held_out=False))
            prior = start.prior(float(kept[0]))
            model = maximize(evidence, others, model, prior, (kept[0], kept[1]), to_gain=_TO_GAIN_BY_FOLD).model
            level += scores_of(evidence, replace(start.cells, rows=fold), model).log_likelihood
        progress(Step(CHOOSING, k, most, f"{k} factors: held-out log-likelihood {level:,.1f}"))
        if level > best_level:
            best, best_level = k, level
        elif k - best >= _PATIENCE:
            break
    return best


def models_without_a_group(
    evidence: Evidence,
    start: Start,
    model: Model,
    record: GroupedMoments,
    assumptions: Assumptions,
    progress: Progress = no_progress,
) -> Iterator[Model]:
    """The most likely model without each group of the record; ``model`` is that of all rows."""
    prior = start.prior(record.whole.weight)
    for at, label in enumerate(record.labels):
        progress(Step(LEAVING_OUT, at, len(record.labels)))
        others = AllButGroup(label, record.n_groups)
        counts = evidence.collect(
            CellCountsQuestion(assumptions.censored_at, assumptions.lowest, others), remember=False
        )
        # Diagnostics of all rows were given; without a group they would come once more for every group.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreluWarning)
            try:
                constant = _check_columns(counts, evidence.feature_names)
                if constant[start.cells.columns].any():
                    names = label_columns(constant & (start.std > 0.0), evidence.feature_names)
                    raise InvalidDataError(f"Constant: {names}.")
            except InvalidDataError as error:
                raise not_without(record, at, error) from error
        cells, rows = replace(start.cells, rows=others), (counts.weight, counts.effective_rows)
        yield maximize(evidence, cells, model, prior, rows, to_gain=_TO_GAIN_BY_GROUP).model
