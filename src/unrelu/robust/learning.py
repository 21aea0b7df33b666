"""The robust method on one screen: a sample of the rows, starts, growth, all rows, the last look."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import (
    Assumptions,
    Block,
    BoolArray,
    Evidence,
    FloatArray,
    Question,
    R,
    RobustReport,
    RowGroup,
    Watch,
    unwatched,
)
from unrelu.correlations.weighted_moments import WeightedMoments
from unrelu.engines.local import LocalEngine, one_blas_thread
from unrelu.errors import AmbiguousMajorityWarning, InvalidDataError, UnreluWarning
from unrelu.evidence import RecordedEvidence, SampleEvidence
from unrelu.learning import Learned, Stages, learn, warn_of_doubts
from unrelu.marginals.censored_likelihood import CensoredLikelihood
from unrelu.robust.components import Atom, Gaussian, Noise, Setting
from unrelu.robust.growth import Rows, grow, run_on
from unrelu.robust.mixture import Mixture, Settled, settle
from unrelu.robust.reweighting import Columns, Imitation, chosen, reweight
from unrelu.robust.starts import Start, concentrated_starts
from unrelu.robust.table import check_table, find_atoms, prior_record
from unrelu.samples import ArraySamples
from unrelu.statistics.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.statistics.subsample import Subsample, SubsampleQuestion
from unrelu.validation import warn

_START_ROWS = 1500  # and at least _ROWS_PER_COLUMN a column
_ROWS_PER_COLUMN = 5
_FEWEST_ROWS, _MOST_ROWS, _CELLS = 4_000, 20_000, 200_000  # of the sample on which components are chosen
_CALIBRATION_ROWS = 4000
_ROUNDS_OF_ONE = 10
_MOST_FULL_ROUNDS = 30
_CLOSE, _CLOSE_PER_RATIO = 0.5, 0.05  # standard errors of all rows, in the one direction that settles slowest
_MAJORITY, _CLEAR_MAJORITY = 0.45, 0.6
_SAME_START = 0.8  # of the rows in common
_SAME_ROWS = 0.95  # judged alike


@dataclass(frozen=True, eq=False)
class RobustLearned(Learned):
    """The model of the genuine rows, and the mixture that tells them from others.

    ``row_weights``: one per row of the table, 0 for outliers, without the table's own weights. The mixture speaks of
    the columns ``columns``, those by which rows can be judged.
    """

    row_weights: FloatArray
    mixture: Mixture
    columns: Columns


def learn_robustly(
    evidence: Evidence, assumptions: Assumptions, most_components: int, seed: int, watch: Watch = unwatched  # noqa: ARG001
) -> RobustLearned:
    """The model of the genuine rows."""
    size = int(np.clip(_CELLS // len(assumptions.floor), _FEWEST_ROWS, _MOST_ROWS))
    subsample = evidence.collect(SubsampleQuestion.under(assumptions, size, seed))
    rng = np.random.default_rng(seed)
    columns = check_table(subsample, assumptions, evidence.feature_names)
    values = np.ascontiguousarray(subsample.values[:, columns])
    inner = replace(assumptions, floor=tuple(assumptions.floor[j] for j in columns), n_components=None)
    atoms, values_once = find_atoms(values, inner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of fits on the way, not of the result
        # Many small products and factorizations: BLAS threads would cost more than they give, and on a busy machine
        # wait for each other. Scoring rows has threads of its own.
        with one_blas_thread():
            setting = Setting(inner, prior_record(values_once, inner, rng))
            weights = subsample.weights * (subsample.weights.sum() / np.sum(subsample.weights**2))  # sum: Kish's rows
            rows = Rows(values, weights, _evidence_of(values, weights))
            some = rng.permutation(len(values_once))[: _start_rows(len(columns))]  # rows come in table order
            starts = concentrated_starts(values_once[np.sort(some)], setting, rng)
            settled = choose_mixture(rows, starts, atoms, setting, most_components, rng)
        mixture, rounds = settle_on_all(ColumnEvidence(evidence, columns), settled, subsample)
        imitation = Imitation(rng, np.isnan(subsample.values))
        reweighted = reweight(evidence, mixture, assumptions, columns, imitation)
    warn_of_two_groups(mixture, subsample.n_present)
    stages = solve_kept(reweighted.record, assumptions, evidence.feature_names)
    record = reweighted.record
    n_cells = subsample.n_present * record.n_features
    report = RobustReport(
        method="robust",
        n_rows=subsample.n_rows,
        n_features=record.n_features,
        effective_rows=record.effective_rows,
        share_floored=1.0 - float(subsample.above.sum() / subsample.observed.sum()),
        share_floored_by_column=tuple((1.0 - subsample.above / subsample.observed).tolist()),
        share_missing=1.0 - float(subsample.observed.sum()) / n_cells,
        pairs_never_above_together=int(np.count_nonzero(np.triu(record.count < 0.5, 1))),
        assembly=stages.assembly,
        rounds=rounds + reweighted.rounds,
        share_downweighted=reweighted.share_downweighted,
        groups=groups_of(mixture),
        cut_p_value=float(reweighted.tail.p_value(np.array([reweighted.cut]))[0]),
        starts_disagreed=any(start.overlap(starts[0]) < _SAME_START for start in starts[1:]),
    )
    given = (stages.distribution, stages.rows, stages.pairs, stages.assembly, report)
    return RobustLearned(*given, reweighted.weights, mixture, columns)


def solve_kept(record: PairMoments, assumptions: Assumptions, names: tuple[str, ...] | None) -> Stages:
    """The one-pass fit to the rows that were kept, with its own warnings."""
    evidence = RecordedEvidence(PairMomentsQuestion.under(assumptions), record, names)
    try:
        stages = learn(evidence, assumptions, CensoredLikelihood(assumptions), WeightedMoments(assumptions))
    except InvalidDataError as error:
        raise InvalidDataError(f"Among the rows that the robust method keeps: {error}") from error
    warn_of_doubts(record, stages.pairs, names)
    return stages


def groups_of(mixture: Mixture) -> tuple[RowGroup, ...]:
    order = [mixture.main, *(k for k in np.argsort(-mixture.shares).tolist() if k != mixture.main)]
    return tuple(RowGroup(mixture.components[k].kind, float(mixture.shares[k])) for k in order)


def _start_rows(d: int) -> int:
    return max(_START_ROWS, _ROWS_PER_COLUMN * d)


def _evidence_of(values: NDArray[Any], weights: FloatArray) -> SampleEvidence:
    samples = ArraySamples(values, weights=weights, block_rows=max(len(values), 1))
    return SampleEvidence(samples, LocalEngine())


# --- the mixture ----------------------------------------------------------------------------------


def choose_mixture(
    rows: Rows, starts: list[Start], atoms: list[Atom], setting: Setting, most: int, rng: np.random.Generator
) -> Settled:
    """The mixture of lowest BIC, from the best start and any other that leads to other rows."""
    normals = rng.standard_normal((_CALIBRATION_ROWS, rows.values.shape[1]))
    noise = noise_below(starts[0].component, normals)
    found: list[Settled] = []
    kept_by: list[BoolArray] = []
    for start in starts:
        one = settle(rows.evidence, _with_side_components(start.component, [*atoms, noise]), _ROUNDS_OF_ONE)
        if not found:  # the level of the first goes for all, so that their likelihoods compare
            noise = noise_below(one.mixture.main_component, normals)
        one = settle(rows.evidence, _replace_noise(one.mixture, noise), _ROUNDS_OF_ONE)
        kept = one.mixture.posterior(rows.values)[0][:, one.mixture.main] > 0.5
        if any(np.mean(kept == other) > _SAME_ROWS for other in kept_by):
            continue
        kept_by.append(kept)
        one, base = drop_needless_atoms(rows, one, _with_side_components(start.component, [*atoms, noise]))
        found.append(grow(rows, run_on(rows.evidence, one), base, setting, most, scattered=True))
    return min(found, key=lambda settled: settled.bic)


def noise_below(component: Gaussian, normals: FloatArray) -> Noise:
    """Density of the unexplained: that of the genuine rows twice as far out as their lowest percent."""
    scores = component.scores.score(component.simulate(normals))
    level = 2.0 * float(np.quantile(scores, 0.01)) - float(np.median(scores))
    return Noise(level, component.log_unit, component.setting.floor)


def _with_side_components(component: Gaussian, others: list[Any]) -> Mixture:
    shares = np.array([1.0] + [0.05] * len(others))
    return Mixture((component, *others), shares / shares.sum())


def _replace_noise(mixture: Mixture, noise: Noise) -> Mixture:
    parts = tuple(noise if isinstance(component, Noise) else component for component in mixture.components)
    return Mixture(parts, mixture.shares)


def drop_needless_atoms(rows: Rows, settled: Settled, base: Mixture) -> tuple[Settled, Mixture]:
    """Keep the repeated rows that the model does not explain: those that lower the BIC."""
    for atom in [c for c in settled.mixture.components if isinstance(c, Atom)]:
        fewer = settle(rows.evidence, settled.mixture.without(settled.mixture.components.index(atom)), _ROUNDS_OF_ONE)
        if fewer.hoped_bic <= settled.hoped_bic:
            settled, base = fewer, base.without(base.components.index(atom))
    return settled, base


def settle_on_all(evidence: Evidence, settled: Settled, subsample: Subsample) -> tuple[Mixture, int]:
    """EM on all rows, as far as the sample's estimate is from theirs.

    The sample's error is sqrt(n/m) standard errors of all rows, and a round, of which reweighting is one, shrinks what
    is due to the components' overlap by the square root of the log-likelihood's rate.
    """
    mixture = settled.mixture
    if subsample.n_present <= len(subsample.rows):
        return mixture, settled.rounds
    distance = float(np.sqrt(subsample.n_present / len(subsample.rows)))
    rate = float(np.sqrt(settled.rate))
    close = min(_CLOSE, _CLOSE_PER_RATIO * distance**2)  # the fewer rows beyond the sample, the cheaper a round
    needed = int(np.ceil(np.log(close / distance) / np.log(rate))) - 1 if 0.0 < rate < 1.0 else 0
    needed = int(np.clip(needed, 0, _MOST_FULL_ROUNDS))
    if needed == 0 or len(mixture.components) == 1:
        return mixture, settled.rounds
    full = settle(evidence, mixture, needed)
    return full.mixture, settled.rounds + full.rounds


@dataclass(frozen=True, eq=False)
class SelectedQuestion:
    """A question about some of the columns."""

    question: Any
    columns: Columns

    def __call__(self, block: Block) -> Any:
        return self.question(Block(chosen(block.values, self.columns), block.first_row, block.weights))


class ColumnEvidence:
    """Evidence on some of the columns."""

    def __init__(self, evidence: Evidence, columns: Columns) -> None:
        self._evidence, self._columns = evidence, columns

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        names = self._evidence.feature_names
        return None if names is None else tuple(names[j] for j in self._columns)

    def collect(self, question: Question[R], remember: bool = True) -> R:
        record: R = self._evidence.collect(SelectedQuestion(question, self._columns), remember)
        return record


def warn_of_two_groups(mixture: Mixture, n_rows: int) -> None:
    """Say so where the genuine rows are not clearly the larger group."""
    share = float(mixture.shares[mixture.main])
    if share >= _CLEAR_MAJORITY:
        return
    genuine, others = round(n_rows * share), round(n_rows * (1.0 - share))
    if share >= _MAJORITY:
        found = (
            f"The rows fall in groups of about {genuine:,} and {others:,} that explain the table about equally well."
        )
    else:
        found = (
            f"No single model fits most rows: the largest part that fits one is about {genuine:,}, the rest {others:,}."
        )
    warn(
        f"{found} The {genuine:,} were taken as genuine, but the table cannot say so. Look at the weights of the rows,"
        " or split the table; where columns are skewed, transform them first (logarithm, cube root).",
        AmbiguousMajorityWarning,
    )
