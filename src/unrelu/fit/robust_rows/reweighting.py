"""The last step: rows that no component explains lose their weight, and the model does not notice the loss.

Under the model a known number of genuine rows scores below any level. Where the table has significantly more, the
level with the largest excess is a cut, and rows below it get weight 0. The cut takes genuine rows with it; so the
record of the weighted rows is completed by what the model itself puts below the cut,

    sum_i gamma_i 1{score > cut} T(x_i)  +  N E_model[ T(x) 1{score <= cut} ],

simulated with common random numbers from the current model, until model and record agree. T are the statistics of
the one-pass learner, N the number of genuine rows. On a clean table there is no excess, no cut and no simulation
noise: the fit is the one-pass fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.stats import poisson

from unrelu.contracts import (
    Assumptions,
    Block,
    BoolArray,
    Evidence,
    FloatArray,
    RowParameters,
    Step,
    Watch,
    unwatched,
)
from unrelu.errors import InvalidDataError
from unrelu.fit.one_pass import Names, Stages, learn_record
from unrelu.fit.robust_rows.mixture import Mixture, normalized, weighted_rows
from unrelu.fit.robust_rows.selection import ColumnIndex, selected
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.posterior.calibration import ScoreTail, rows_from_normals
from unrelu.posterior.row_scores import RowScores, seen_sum

_WIDEST_TAIL = 0.05  # the share of genuine rows a cut may take
_SIGNIFICANT = 1e-4  # probability of such an excess on a clean table, at any one level
_SIMULATED, _MOST_SIMULATED = 20_000, 60_000
_MOST_ROUNDS = 10
_AGREED = 0.02  # standard errors

REWEIGHTING = "Reweighting rows"


@dataclass(frozen=True, eq=False)
class RowVerdicts:
    """Per row, in table order: probability of being genuine, score under the genuine model, weight in the table."""

    parts: tuple[tuple[int, FloatArray], ...]

    def merge(self, other: Self) -> Self:
        return type(self)(self.parts + other.parts)

    @property
    def table(self) -> FloatArray:
        """n x 3."""
        return np.concatenate([part for _, part in sorted(self.parts, key=lambda pair: pair[0])])


@dataclass(frozen=True, eq=False)
class VerdictQuestion:
    """Ask every row whether it is genuine."""

    mixture: Mixture
    columns: ColumnIndex

    def __call__(self, block: Block) -> RowVerdicts:
        values = selected(block.values, self.columns)
        weights = np.ones(len(values)) if block.weights is None else block.weights
        joint = self.mixture.joint(values)
        main, component = self.mixture.main, self.mixture.main_component
        genuine = normalized(joint)[0][:, main]
        score = joint[:, main] - np.log(self.mixture.shares[main])
        score += seen_sum(values, component.setting.floor, component.log_unit)
        return RowVerdicts(((block.first_row, np.stack([genuine, score, weights], axis=1)),))


@dataclass(frozen=True, eq=False)
class ReweightedQuestion:
    """The one-pass record with other weights: ``weights[i]`` is that of row i of the table."""

    question: PairMomentsQuestion
    weights: FloatArray

    def __call__(self, block: Block) -> PairMoments:
        weights = self.weights[block.first_row : block.first_row + len(block.values)]
        weights = weights if block.weights is None else weights * block.weights
        return self.question(weighted_rows(block.values, weights, block.first_row))


@dataclass(frozen=True, eq=False)
class Reweighted:
    """The record of the genuine rows, the weights of all (without those of the table), and where the cut fell."""

    record: PairMoments
    weights: FloatArray
    share_downweighted: float
    cut: float
    tail: ScoreTail
    rounds: int

    @property
    def cut_p_value(self) -> float:
        return float(self.tail.p_value(np.array([self.cut]))[0])


def excess_cut(scores: FloatArray, weights: FloatArray, tail: ScoreTail) -> float:
    """The score below which there are significantly more rows than the model has, -inf where there are not.

    ``weights`` are probabilities of being genuine, so their sum is the number of rows the model speaks of.
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
class Imitation:
    """How rows of a model are made to look like the table's: ``missing`` holds which cells of some rows are missing."""

    rng: np.random.Generator
    missing: BoolArray

    def normals(self, size: int, n_columns: int) -> FloatArray:
        return self.rng.standard_normal((size, n_columns))

    def with_holes(self, rows: FloatArray) -> FloatArray:
        if self.missing.any():
            rows[self.missing[np.arange(len(rows)) % len(self.missing)]] = np.nan
        return rows


def reweight(
    evidence: Evidence,
    mixture: Mixture,
    assumptions: Assumptions,
    columns: ColumnIndex,
    imitation: Imitation,
    watch: Watch = unwatched,
) -> Reweighted:
    """The model of the mixture's main component, from all rows.

    The mixture only weighs and scores the rows. What scores are to be expected is asked of the model that all rows
    give, since a mixture chosen on a sample finds other rows a little less likely than its own.
    """
    watch(Step(REWEIGHTING, words="scoring all rows"))
    verdicts = evidence.collect(VerdictQuestion(mixture, columns), remember=False).table
    genuine, scores, given = verdicts.T
    # Rows are judged by what fits them best; a rank or signs that the user assumes are for the result.
    free = replace(assumptions, n_components=None, nonnegative_bias=False)
    fit = Refit(evidence, free, mixture.main_component.scores, columns, imitation, watch)
    data = fit.record(genuine)
    stages = fit.solve(data)
    normals = imitation.normals(_SIMULATED, len(columns))
    tail = ScoreTail.of(fit.simulated_scores(stages, normals))
    cut = excess_cut(scores, genuine * given, tail)
    if cut == -np.inf:
        return Reweighted(data, genuine, downweighted(genuine, given), cut, tail, 0)
    weights = np.where(scores > cut, genuine, 0.0)
    watch(Step(REWEIGHTING, words=f"{np.count_nonzero(scores <= cut):,} rows that no group explains lose their weight"))
    data = fit.record(weights)
    normals = imitation.normals(int(np.clip(len(scores), _SIMULATED, _MOST_SIMULATED)), len(columns))
    record, rounds = fit.complete(data, normals, cut)
    return Reweighted(record, weights, downweighted(weights, given), cut, tail, rounds)


def downweighted(weights: FloatArray, given: FloatArray) -> float:
    """The share of the rows, those of weight 0 in the table aside, that count less than half."""
    return float(np.mean(weights[given > 0.0] < 0.5))


def learn_kept(record: PairMoments, assumptions: Assumptions, names: Names) -> Stages:
    """The one-pass fit to the rows that were kept, with its own warnings."""
    try:
        return learn_record(record, assumptions, names)
    except InvalidDataError as error:
        raise InvalidDataError(f"Among the rows that the robust method keeps: {error}") from error


@dataclass(frozen=True)
class Refit:
    """The one-pass fit to reweighted rows, and to what the model adds below the cut."""

    evidence: Evidence
    assumptions: Assumptions
    scores: RowScores
    columns: ColumnIndex
    imitation: Imitation
    watch: Watch = unwatched

    @property
    def question(self) -> PairMomentsQuestion:
        return PairMomentsQuestion.under(self.assumptions)

    def record(self, weights: FloatArray) -> PairMoments:
        return self.evidence.collect(ReweightedQuestion(self.question, weights), remember=False)

    def solve(self, record: PairMoments) -> Stages:
        return learn_record(record, self.assumptions, self.evidence.feature_names)

    def simulated_scores(self, stages: Stages, normals: FloatArray) -> FloatArray:
        return self.scores.score(selected(self._simulated(stages, normals), self.columns))

    def complete(self, data: PairMoments, normals: FloatArray, cut: float) -> tuple[PairMoments, int]:
        """The record that agrees with the rows above the cut and with its own model below it, and the rounds taken."""
        record, stages = data, self.solve(data)
        for rounds in range(1, _MOST_ROUNDS + 1):
            self.watch(Step(REWEIGHTING, rounds, _MOST_ROUNDS, "completing the record below the cut"))
            rows = self._simulated(stages, normals)
            below = self.scores.score(selected(rows, self.columns)) <= cut
            if not below.any():
                return record, rounds
            share = float(below.mean())
            genuine_below = data.weight * share / (1.0 - share)
            record = completed(data, self.question(Block(rows[below])), genuine_below)
            before, stages = stages, self.solve(record)
            if self._distance(before.rows, stages.rows) < _AGREED:
                return record, rounds
        return record, _MOST_ROUNDS

    def _distance(self, one: RowParameters, other: RowParameters) -> float:
        """The largest change of a bias or norm, in standard errors."""
        bias = np.abs(one.bias - other.bias)[self.columns] / other.bias_stderr[self.columns]
        scale = np.abs(one.scale - other.scale)[self.columns] / other.scale_stderr[self.columns]
        return float(max(np.nanmax(bias), np.nanmax(scale)))

    def _simulated(self, stages: Stages, normals: FloatArray) -> FloatArray:
        """Rows of the model from rows of independent normals; columns that do not vary hold their constant."""
        rows = np.tile(np.maximum(stages.rows.bias, self.assumptions.floor), (len(normals), 1))
        model = stages.distribution.marginal(self.columns.tolist())
        rows[:, self.columns] = rows_from_normals(normals, model.bias, model.row_norms, model.correlation, model.floor)
        return self.imitation.with_holes(rows)


def completed(data: PairMoments, simulated: PairMoments, weight: float) -> PairMoments:
    """Both records, the simulated one at the given weight. Errors stay those of the data: simulation adds no rows."""
    both = data.merge(simulated.scaled(weight / simulated.weight))
    observed = both.observed
    if observed is not None and data.observed is not None:
        rows = data.observed.count**2 / np.maximum(data.observed.squared_weight, 1e-300)
        squared = np.divide(observed.count**2, rows, out=np.zeros_like(rows), where=rows > 0.0)
        observed = replace(observed, squared_weight=squared)
    squared_weight = both.weight**2 / data.effective_rows
    return replace(both, n_rows=data.n_rows, squared_weight=squared_weight, observed=observed)
