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
from numpy.typing import NDArray
from scipy.stats import poisson

from unrelu.contracts import Assumptions, Block, Evidence, FloatArray, RowParameters
from unrelu.correlations.weighted_moments import WeightedMoments
from unrelu.evidence import RecordedEvidence
from unrelu.inference.calibration import ScoreTail, rows_from_normals
from unrelu.inference.row_scores import RowScores, Values, seen_sum
from unrelu.learning import Stages, learn
from unrelu.marginals.censored_likelihood import CensoredLikelihood
from unrelu.robust.mixture import Mixture, present
from unrelu.statistics.pair_moments import PairMoments, PairMomentsQuestion

_WIDEST_TAIL = 0.05  # the share of genuine rows a cut may take
_SIGNIFICANT = 1e-4  # probability of such an excess on a clean table, at any one level
_SIMULATED, _MOST_SIMULATED = 20_000, 60_000
_MOST_ROUNDS = 10
_AGREED = 0.02  # standard errors

Columns = NDArray[np.intp]


def chosen(values: Values, columns: Columns) -> Values:
    """Some of the columns; the table itself, not a copy, where they are all."""
    return values if len(columns) == values.shape[1] else values[:, columns]


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
    columns: Columns

    def __call__(self, block: Block) -> RowVerdicts:
        values = chosen(block.values, self.columns)
        weights = np.ones(len(values)) if block.weights is None else block.weights
        joint = self.mixture.joint(values)
        main, component = self.mixture.main, self.mixture.main_component
        highest = joint.max(axis=1, keepdims=True)
        relative = np.exp(joint - highest)
        genuine = relative[:, main] / relative.sum(axis=1)
        score = joint[:, main] - np.log(self.mixture.shares[main])
        score += seen_sum(values, component.setting.floor, component.log_scale)
        return RowVerdicts(((block.first_row, np.stack([genuine, score, weights], axis=1)),))


@dataclass(frozen=True, eq=False)
class ReweightedQuestion:
    """The one-pass record with other weights: ``weights[i]`` is that of row i of the table."""

    question: PairMomentsQuestion
    weights: FloatArray

    def __call__(self, block: Block) -> PairMoments:
        weights = self.weights[block.first_row : block.first_row + len(block.values)]
        given = np.ones(len(weights)) if block.weights is None else block.weights
        return self.question(Block(block.values, block.first_row, present(weights * given, given)))


@dataclass(frozen=True, eq=False)
class Reweighted:
    """The record of the genuine rows, the weights of all (without those of the table), and where the cut fell."""

    record: PairMoments
    weights: FloatArray
    cut: float
    tail: ScoreTail
    rounds: int


def excess_cut(scores: FloatArray, weights: FloatArray, tail: ScoreTail) -> float:
    """The score below which there are significantly more rows than the model has, -inf where there are not.

    ``weights`` are probabilities of being genuine, so their sum is the number of rows the model speaks of.
    """
    low = np.flatnonzero(scores < tail.quantile(_WIDEST_TAIL))
    low = low[np.argsort(scores[low])]
    found = np.cumsum(weights[low])
    expected = weights.sum() * tail.p_value(scores[low])
    significant = poisson.sf(np.round(found) - 1.0, expected) < _SIGNIFICANT
    if not significant.any():
        return -np.inf
    excess = np.where(significant, found - expected, -np.inf)
    return float(scores[low[np.argmax(excess)]])


def reweight(
    evidence: Evidence, mixture: Mixture, assumptions: Assumptions, columns: Columns, rng: np.random.Generator
) -> Reweighted:
    """The model of the mixture's main component, from all rows.

    The mixture only weighs and scores the rows. What scores are to be expected is asked of the model that all rows
    give, since a mixture chosen on a sample finds other rows a little less likely than its own.
    """
    verdicts = evidence.collect(VerdictQuestion(mixture, columns), remember=False).table
    genuine, scores, given = verdicts.T
    fit = _Refit(evidence, assumptions, mixture.main_component.scores, columns)
    data = fit.record(genuine)
    stages = fit.solve(data)
    normals = rng.standard_normal((_SIMULATED, len(columns)))
    tail = ScoreTail.of(fit.simulated_scores(stages, normals))
    cut = excess_cut(scores, genuine * given, tail)
    if cut == -np.inf:
        return Reweighted(data, genuine, cut, tail, 0)
    weights = np.where(scores > cut, genuine, 0.0)
    data = fit.record(weights)
    normals = rng.standard_normal((int(np.clip(len(scores), _SIMULATED, _MOST_SIMULATED)), len(columns)))
    record, rounds = fit.complete(data, normals, cut)
    return Reweighted(record, weights, cut, tail, rounds)


@dataclass(frozen=True)
class _Refit:
    """The one-pass fit to reweighted rows, and to what the model adds below the cut."""

    evidence: Evidence
    assumptions: Assumptions
    scores: RowScores
    columns: Columns

    @property
    def question(self) -> PairMomentsQuestion:
        return PairMomentsQuestion.under(self.assumptions)

    def record(self, weights: FloatArray) -> PairMoments:
        return self.evidence.collect(ReweightedQuestion(self.question, weights), remember=False)

    def solve(self, record: PairMoments) -> Stages:
        evidence = RecordedEvidence(self.question, record, self.evidence.feature_names)
        marginals, correlations = CensoredLikelihood(self.assumptions), WeightedMoments(self.assumptions)
        return learn(evidence, self.assumptions, marginals, correlations)

    def simulated_scores(self, stages: Stages, normals: FloatArray) -> FloatArray:
        return self.scores.log_density(chosen(self._simulated(stages, normals), self.columns))

    def complete(self, data: PairMoments, normals: FloatArray, cut: float) -> tuple[PairMoments, int]:
        """The record that agrees with the rows above the cut and with its own model below it, and the rounds taken."""
        record, stages = data, self.solve(data)
        for rounds in range(1, _MOST_ROUNDS + 1):
            rows = self._simulated(stages, normals)
            below = self.scores.log_density(chosen(rows, self.columns)) <= cut
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
        return rows


def completed(data: PairMoments, simulated: PairMoments, weight: float) -> PairMoments:
    """Both records, the simulated one at the given weight. Errors stay those of the data: simulation adds no rows."""
    both = data.merge(simulated.scaled(weight / simulated.weight))
    return replace(both, n_rows=data.n_rows, squared_weight=both.weight**2 / data.effective_rows)
