"""The full likelihood on one screen: a look at the cells, a start, the climb, errors from the rows' scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigvalsh

from unrelu.checks.findings import doubts_of, warn_of
from unrelu.checks.rows import look_at
from unrelu.contracts import (
    Assembly,
    Assumptions,
    Doubt,
    Evidence,
    FloatArray,
    LearningReport,
    PairCorrelations,
    RowParameters,
    Shrinkage,
    Step,
    Watch,
    unwatched,
)
from unrelu.errors import InvalidParameterError, NotConvergedWarning
from unrelu.fit.likelihood.cells import CellTally, CellTallyQuestion
from unrelu.fit.likelihood.climbing import CLIMBING, Climbed, climb
from unrelu.fit.likelihood.correction import corrected
from unrelu.fit.likelihood.information import standard_errors
from unrelu.fit.likelihood.leaving_out import laws_without_a_group
from unrelu.fit.likelihood.rank import choose_components
from unrelu.fit.likelihood.scores import Law
from unrelu.fit.likelihood.starts import Start, start_from_columns, start_from_record, warn_of_rare_values
from unrelu.fit.one_pass import Learned, Names, Stages, census_of, with_inverse
from unrelu.fit.standard_errors import Fit, check_groups, with_scatter_of
from unrelu.model import RectifiedGaussian
from unrelu.passes.grouped_moments import GroupedMoments, GroupedMomentsQuestion
from unrelu.passes.local import one_blas_thread
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.passes.screening import ScreeningQuestion
from unrelu.validation import warn


@dataclass(frozen=True)
class LikelihoodReport(LearningReport):
    """The same, and what the likelihood was.

    ``log_likelihood``: of all rows, weighted as they are, in the units of the table. ``n_parameters``: those that rows
    can tell apart, so that AIC is 2 n_parameters - 2 log_likelihood. ``n_components``: factors, None for any
    covariance. ``rounds``: passes over the rows; ``settled``: whether the last ones found nothing more to gain.
    """

    rounds: int
    log_likelihood: float
    n_parameters: int
    n_components: int | None
    settled: bool

    @property
    def converged(self) -> bool:
        """Whether the likelihood reached its maximum as closely as asked for."""
        return self.settled


def learn_by_likelihood(
    evidence: Evidence, assumptions: Assumptions, most_rounds: int, watch: Watch = unwatched, jackknife: bool = False
) -> Learned:
    """The most likely model of the rows behind the evidence; with the errors of a jackknife over their groups."""
    if assumptions.nonnegative_bias:
        raise InvalidParameterError(
            "method='full_likelihood' finds biases of either sign: leave out nonnegative_bias, or use 'one_pass'."
        )
    names = evidence.feature_names
    evidence.collect(ScreeningQuestion(assumptions.lowest)).check(assumptions, names)
    tally = evidence.collect(CellTallyQuestion(assumptions.censoring))
    watch(Step(CLIMBING, words="starting"))
    record, groups = _records(evidence, assumptions, tally.marked, jackknife)
    rows = tally.weight, tally.effective_rows
    with one_blas_thread():  # many small products; the rows are shared out among threads
        if record is None:
            start = start_from_columns(evidence, tally, assumptions, watch)
        else:
            start = start_from_record(record, assumptions, names)
        k = assumptions.n_components
        if assumptions.auto_components:
            k = choose_components(evidence, start, rows, watch)
        cells, prior = start.cells, start.prior(tally.weight)
        climbed = climb(evidence, cells, start.law(k), prior, rows, watch, most_rounds)
        most_likely = climbed.law
        climbed, step, around = corrected(evidence, cells, climbed, prior, rows)
        errors = standard_errors(evidence, cells, climbed.law, tally, around)
        others: list[Fit] = []
        for law in laws_without_a_group(evidence, start, most_likely, groups, assumptions, watch) if groups else ():
            without = _stages(start, law.moved(step)[0], errors, assumptions, names)
            others.append((without.rows, without.pairs))
    _warn(climbed, tally, names)
    stages = _stages(start, climbed.law, errors, assumptions, names)
    level = climbed.log_likelihood - float(tally.seen[start.cells.columns] @ np.log(start.cells.unit))
    # Whether pairs fit together is asked of those that were learned one by one.
    pairs = stages if start.one_pass is None else start.one_pass
    look = look_at(evidence, assumptions)
    doubts = doubts_of(record, stages.rows, assumptions, pairs.pairs, pairs.assembly, look)
    warn_of(doubts, names)
    learned = _learned(stages, replace(climbed, log_likelihood=level), tally, record, doubts, assumptions)
    return learned if groups is None else with_scatter_of(learned, groups, others)


def _records(
    evidence: Evidence, assumptions: Assumptions, marked: bool, jackknife: bool
) -> tuple[PairMoments | None, GroupedMoments | None]:
    """(what one pass keeps of the rows, unless cells have limits of their own; the same by groups for a jackknife)."""
    question = PairMomentsQuestion.under(assumptions)
    if not jackknife:
        return None if marked else evidence.collect(question), None
    groups = evidence.collect(GroupedMomentsQuestion(question))
    check_groups(groups)
    return None if marked else groups.whole, groups


def _warn(climbed: Climbed, tally: CellTally, names: Names) -> None:
    if not climbed.converged:
        warn(
            f"The likelihood was still rising after {climbed.rounds} rounds: the model is near the most likely one, but"
            " not at it. Give methods.FullLikelihood(max_rounds=...) more rounds, or drop columns hardly seen.",
            NotConvergedWarning,
        )
    warn_of_rare_values(tally, names)


def _stages(
    start: Start, law: Law, errors: tuple[FloatArray, FloatArray], assumptions: Assumptions, names: Names
) -> Stages:
    """The model of all columns in the units of the table; one that is constant has no spread and no errors."""
    d, at, unit = len(assumptions.floor), start.cells.columns, start.cells.unit
    square = np.ix_(at, at)
    bias, covariance, both = start.bias.copy(), np.zeros((d, d)), np.zeros((d, 2, 2))
    bias[at] = start.cells.origin + unit * law.mean
    covariance[square] = law.covariance * np.outer(unit, unit)
    both[at] = errors[0] * (unit**2)[:, None, None]
    stderr = np.full((d, d), np.nan)
    stderr[square] = errors[1]
    for j, i in start.images.items():  # y_j = start's b_j + slope (y_i - start's b_i)
        slope = start.scale[j] / start.scale[i] * np.sign(start.correlation_of(i, j))
        bias[j] = start.bias[j] + slope * (bias[i] - start.bias[i])
        covariance[j] = slope * covariance[i]
        covariance[:, j] = slope * covariance[:, i]
        both[j] = both[i] * slope * np.array([[slope, abs(slope)], [abs(slope), slope]])
        stderr[j], stderr[:, j] = stderr[i], stderr[:, i]
        stderr[i, j] = stderr[j, i] = 0.0
    np.fill_diagonal(stderr, 0.0)
    model = RectifiedGaussian(bias, covariance, assumptions.floor, names)
    floor = np.array(assumptions.censoring)
    rows = RowParameters(bias, model.row_norms, floor, both, np.zeros((d, 2, 3)))
    vary = np.flatnonzero(model.row_norms)
    smallest = float(eigvalsh(model.correlation[np.ix_(vary, vary)])[0]) if len(vary) > 0 else 1.0
    pairs = PairCorrelations(model.correlation, stderr, start.perfect_pairs)
    return Stages(model, rows, pairs, Assembly(smallest))


def _learned(
    stages: Stages,
    climbed: Climbed,
    tally: CellTally,
    record: PairMoments | None,
    doubts: tuple[Doubt, ...],
    assumptions: Assumptions,
) -> Learned:
    """The same with a report and, unless factors and noise can be inverted anyway, a covariance for scores."""
    k = climbed.law.n_components
    report = LikelihoodReport.of(
        "full_likelihood",
        tally.n_rows,
        tally.effective_rows,
        tally.census if record is None else census_of(record),
        stages.assembly,
        rounds=climbed.rounds,
        log_likelihood=climbed.log_likelihood,
        n_parameters=climbed.law.n_free,
        n_components=k,
        settled=climbed.converged,
        doubts=doubts,
        **assumptions.limits,
    )
    if k is None or stages.pairs.perfect_pairs:
        # All were learned together: their errors fit together, whatever floors and gaps add to them.
        r = stages.pairs.correlation
        together = PairCorrelations(r, (1.0 - r * r) / np.sqrt(tally.effective_rows), stages.pairs.perfect_pairs)
        model, told = with_inverse(replace(stages, pairs=together), report, None, tally.weight)
        return Learned(model, stages.rows, stages.pairs, stages.assembly, told)
    told = replace(report, shrinkage=Shrinkage(0.0, k, stages.assembly.smallest_eigenvalue))
    return Learned(stages.distribution, stages.rows, stages.pairs, stages.assembly, told)
