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

from unrelu.contracts import Assumptions, Block, BoolArray, Evidence, FloatArray, Step, Watch, unwatched
from unrelu.fit.one_pass import Stages, learn_record
from unrelu.fit.robust_rows.mixture import ColumnIndex, Mixture, normalized, selected, weighted_rows
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.posterior.cells import Values
from unrelu.posterior.density import seen_sum
from unrelu.posterior.scores import ScoreTail, rows_from_normals

_WIDEST_TAIL = 0.05  # the share of genuine rows a cut may take
_SIGNIFICANT = 1e-4  # probability of such an excess on a clean table, at any one level
_SIMULATED, _MOST_SIMULATED = 20_000, 60_000
_MOST_ROUNDS = 10
_AGREED = 0.02  # standard errors
_SWEEP_ERROR = 0.1  # log density a column that a sweep may be off: twice what it is at correlations of .9

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
    """Ask every row whether it is genuine, by the density that users see."""

    mixture: Mixture
    columns: ColumnIndex

    def __call__(self, block: Block) -> RowVerdicts:
        values = selected(block.values, self.columns)
        weights = np.ones(len(values)) if block.weights is None else block.weights
        joint = self.mixture.joint(values, converged=True)
        main, law = self.mixture.main, self.mixture.main_component.density
        genuine = normalized(joint)[0][:, main]
        score = joint[:, main] - np.log(self.mixture.shares[main])
        score += seen_sum(values, self.mixture.main_component.setting.floor, law.log_cell_unit)
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
class Reweighted:
    """The record of the genuine rows, the weights of all (without those of the table), and where the cut fell.

    ``share_downweighted``: of the rows, those of weight 0 in the table aside, that count less than half.
    """

    record: PairMoments
    weights: FloatArray
    share_downweighted: float
    cut: float
    cut_p_value: float
    rounds: int


@dataclass(frozen=True, eq=False)
class Refit:
    """The model of the mixture's main component, from all rows.

    The mixture only weighs and scores the rows. What scores are to be expected is asked of the model that all rows
    give, since a mixture chosen on a sample finds other rows a little less likely than its own. Simulated rows have the
    holes of some rows of the table, ``missing``.
    """

    evidence: Evidence
    mixture: Mixture
    assumptions: Assumptions
    columns: ColumnIndex
    rng: np.random.Generator
    missing: BoolArray
    watch: Watch = unwatched

    def reweighted(self) -> Reweighted:
        self.watch(Step(REWEIGHTING, words="scoring all rows"))
        verdicts = self.evidence.collect(VerdictQuestion(self.mixture, self.columns), remember=False).table
        genuine, scores, given = verdicts.T
        data = self._record(genuine)
        density, d = self.mixture.main_component.density, len(self.columns)
        simulated = self._simulated(self._solve(data), self.rng.standard_normal((_SIMULATED, d)))
        tail = ScoreTail.of(density.score(selected(simulated, self.columns)))
        cut = excess_cut(scores, genuine * given, tail)
        weights, rounds = genuine, 0
        if cut > -np.inf:
            weights = np.where(scores > cut, genuine, 0.0)
            words = f"{np.count_nonzero(scores <= cut):,} rows that no group explains lose their weight"
            self.watch(Step(REWEIGHTING, words=words))
            size = int(np.clip(len(scores), _SIMULATED, _MOST_SIMULATED))
            data, rounds = self.complete(self._record(weights), self.rng.standard_normal((size, d)), cut)
        downweighted = float(np.mean(weights[given > 0.0] < 0.5))
        return Reweighted(data, weights, downweighted, cut, float(tail.p_value(np.array([cut]))[0]), rounds)

    def complete(self, data: PairMoments, normals: FloatArray, cut: float) -> tuple[PairMoments, int]:
        """The record that agrees with the rows above the cut and with its own model below it, and the rounds taken."""
        record, stages = data, self._solve(data)
        for rounds in range(1, _MOST_ROUNDS + 1):
            self.watch(Step(REWEIGHTING, rounds, _MOST_ROUNDS, "completing the record below the cut"))
            rows = self._simulated(stages, normals)
            below = self._below(selected(rows, self.columns), cut)
            if not below.any():
                return record, rounds
            share = float(below.mean())
            genuine_below = data.weight * share / (1.0 - share)
            question = PairMomentsQuestion.under(self._free)
            record = completed(data, question(Block(rows[below])), genuine_below)
            before, stages = stages.rows, self._solve(record)
            bias = np.abs(before.bias - stages.rows.bias)[self.columns] / stages.rows.bias_stderr[self.columns]
            scale = np.abs(before.scale - stages.rows.scale)[self.columns] / stages.rows.scale_stderr[self.columns]
            if max(np.nanmax(bias), np.nanmax(scale)) < _AGREED:
                return record, rounds
        return record, _MOST_ROUNDS

    def _below(self, values: Values, cut: float) -> BoolArray:
        """Which rows score at the cut or below; a sweep tells most of those that do not."""
        density = self.mixture.main_component.density
        below = density.score(values, converged=False) <= cut + _SWEEP_ERROR * values.shape[1]
        below[below] = density.score(values[below]) <= cut
        return np.asarray(below)

    @property
    def _free(self) -> Assumptions:
        """Rows are judged by what fits them best; a rank or signs that the user assumes are for the result."""
        return replace(self.assumptions, n_components=None, nonnegative_bias=False)

    def _record(self, weights: FloatArray) -> PairMoments:
        question = ReweightedQuestion(PairMomentsQuestion.under(self._free), weights)
        return self.evidence.collect(question, remember=False)

    def _solve(self, record: PairMoments) -> Stages:
        return learn_record(record, self._free, self.evidence.feature_names)

    def _simulated(self, stages: Stages, normals: FloatArray) -> FloatArray:
        """Rows of the model from rows of independent normals; columns that do not vary hold their constant."""
        rows = np.tile(np.maximum(stages.rows.bias, self.assumptions.floor), (len(normals), 1))
        model = stages.distribution.marginal(self.columns.tolist())
        rows[:, self.columns] = rows_from_normals(normals, model.bias, model.row_norms, model.correlation, model.floor)
        if self.missing.any():
            rows[self.missing[np.arange(len(rows)) % len(self.missing)]] = np.nan
        return rows


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
