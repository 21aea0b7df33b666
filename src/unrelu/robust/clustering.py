"""A given number of rectified Gaussians, fitted to all rows: the mixture that the robust method grows, without noise.

    sample of the rows --> starts (growth, and seeds far apart) --> the best two settle --> EM on all rows

EM finds the nearest maximum only, so it is started in several ways on a sample, a few rounds each (Biernacki, Celeux
and Govaert 2003). Starts in which a component has no rows, or rests on the copies of one row, whose likelihood knows
no bound but the prior's, are passed over.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from unrelu.contracts import Assumptions, Block, BoolArray, Evidence, FloatArray
from unrelu.correlations.weighted_moments import WeightedMoments
from unrelu.covariance import assemble
from unrelu.distribution import RectifiedGaussian
from unrelu.engines.local import LocalEngine, one_blas_thread
from unrelu.errors import DuplicatedRowsWarning, InvalidDataError, UnreluWarning
from unrelu.evidence import RecordedEvidence, SampleEvidence
from unrelu.marginals.censored_likelihood import CensoredLikelihood
from unrelu.posterior.row_scores import Values
from unrelu.robust.components import Component, Gaussian, Setting, shrinkage
from unrelu.robust.growth import Rows, candidates
from unrelu.robust.learning import ColumnEvidence
from unrelu.robust.mixture import Mixture, MixtureMoments, Settled, settle, weighted_rows
from unrelu.robust.reweighting import Columns, chosen
from unrelu.robust.starts import standardized
from unrelu.samples import ArraySamples
from unrelu.statistics.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.statistics.subsample import Subsample, SubsampleQuestion
from unrelu.validation import warn

_CELLS, _FEWEST_ROWS, _MOST_ROWS = 40_000, 2_000, 4_000  # of the sample on which starts are compared
_ROWS_PER_COMPONENT = 500  # of the sample, whatever its cells
_FIRST_ROUNDS, _GROWTH_ROUNDS = 10, 5  # after which most starts show what they are worth
_FINALISTS, _SAMPLE_ROUNDS = 2, 100
_SEEDINGS_PER_START = 3  # before a degenerate start is put up with
_MEANS_ROUNDS = 5
_FAR = 10.0  # spreads, beyond which a seed is no farther: lest seeds are outliers only
_ONE_ROW = 0.9  # of a component's weight on the copies of one row: it has collapsed
_EMPTY = 1.0  # rows
_RARELY = 0.01  # of the rows differ
_SAME, _IMPOSSIBLE = 1e-6, -1e4  # relative distance from a constant that is none, and log density beyond it
_PRIOR_DRAWS = 256


@dataclass(frozen=True, eq=False)
class Cluster(Gaussian):
    """A Gaussian that is a result, not a means: its weights are numbers of rows, its correlations are assembled."""

    def refitted(self, record: PairMoments) -> Cluster:
        return cluster_from(record, self.setting)


def cluster_from(record: PairMoments, setting: Setting) -> Cluster:
    """The one-pass fit to a record, with one row's worth of the prior."""
    evidence = RecordedEvidence(setting.question, as_counts(record.merge(setting.prior)))
    rows = CensoredLikelihood(setting.assumptions).estimate(evidence)
    pairs = WeightedMoments(setting.assumptions).estimate(evidence, rows)
    covariance, _ = assemble(rows.scale, pairs)
    correlation = covariance / np.outer(rows.scale, rows.scale)
    keep = 1.0 - shrinkage(pairs.correlation, pairs.stderr)
    shrunken = keep * correlation + (1.0 - keep) * np.eye(len(correlation))
    return Cluster(setting, rows.bias, rows.scale, shrunken)


def as_counts(record: PairMoments) -> PairMoments:
    """The record of rows whose weights are numbers of rows (half of a row is a row to Kish); never fewer than two."""
    o = record.observed
    observed = None if o is None else replace(o, squared_weight=np.minimum(o.count, o.count**2 / 2.0))
    return replace(record, squared_weight=min(record.weight, record.weight**2 / 2.0), observed=observed)


@dataclass(frozen=True, eq=False)
class SharedColumns:
    """Columns too constant to tell components apart: independent, and the same in all components."""

    columns: Columns
    bias: FloatArray
    scale: FloatArray
    floor: FloatArray

    def log_density(self, values: Values) -> FloatArray:
        """Per row. A constant (scale 0) has a probability, no density."""
        total = np.zeros(len(values))
        for j, bias, scale, floor in zip(self.columns, self.bias, self.scale, self.floor, strict=True):
            x = values[:, j].astype(np.float64)
            if scale == 0.0:  # a constant above the floor: one at the floor is an error
                total += np.where(np.abs(x - bias) > _SAME * np.abs(bias), _IMPOSSIBLE, 0.0)
                continue
            seen = values[:, j] > floor.astype(values.dtype)
            density = np.where(seen, norm.logpdf(x, bias, scale), norm.logcdf(floor, bias, scale))
            total += np.where(np.isnan(x), 0.0, density)
        return total


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """Gaussians by falling share, over ``columns``, and the fits of the other columns.

    ``log_likelihood`` is that of all rows, ``weight`` their number, weighted, and ``rounds`` those of EM that led here
    from the start of it.
    """

    mixture: Mixture
    columns: Columns
    shared: SharedColumns
    rounds: int
    converged: bool
    log_likelihood: float = np.nan
    weight: float = np.nan

    @property
    def n_parameters(self) -> int:
        return self.mixture.n_parameters + 2 * int(np.count_nonzero(self.shared.scale))

    def posterior(self, values: Values) -> tuple[FloatArray, FloatArray]:
        """(probabilities of the components n x K, log density of each row)."""
        share, density = self.mixture.posterior(chosen(values, self.columns))
        return share, np.asarray(density + self.shared.log_density(values))

    def distributions(self, floor: tuple[float, ...], names: tuple[str, ...] | None) -> tuple[RectifiedGaussian, ...]:
        """The components as models of all columns."""
        models = []
        for component in self.mixture.components:
            assert isinstance(component, Gaussian)
            bias, covariance = np.empty(len(floor)), np.zeros((len(floor), len(floor)))
            bias[self.columns], bias[self.shared.columns] = component.bias, self.shared.bias
            scales = np.outer(component.scale, component.scale)
            covariance[np.ix_(self.columns, self.columns)] = scales * component.correlation
            covariance[self.shared.columns, self.shared.columns] = self.shared.scale**2
            models.append(RectifiedGaussian(bias, covariance, floor, names))
        return tuple(models)


def fit_mixture(
    evidence: Evidence, assumptions: Assumptions, n_components: int, n_init: int, seed: int, most_rounds: int = 300
) -> FittedMixture:
    """The mixture of ``n_components`` rectified Gaussians of highest likelihood, as far as the starts lead there.

    ``n_init``: starts from random seeds, beside the one by growth. ``most_rounds``: passes of EM over all rows. Weights
    of rows should have a mean of 1 or more, the prior being worth a row of weight 1; a row of weight 0 holds only NaN.
    """
    assumptions = replace(assumptions, nonnegative_bias=False, n_components=None)
    size = int(np.clip(_CELLS // len(assumptions.floor), _FEWEST_ROWS, _MOST_ROWS))
    question = SubsampleQuestion.under(assumptions, max(size, _ROWS_PER_COMPONENT * n_components), seed)
    subsample = evidence.collect(question, remember=False)
    columns = varying_columns(subsample, assumptions, n_components, evidence.feature_names)
    shared = fit_shared(evidence, assumptions, columns)
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of fits on the way, not of the result
        trial = Trial.of(subsample, columns, assumptions, rng)
        with one_blas_thread():  # for many small products threads cost more than they give
            start = trial.best_start(n_components, n_init, rng)
        settled = settle(ColumnEvidence(evidence, columns), start.mixture, most_rounds)
    warn_of_collapse(trial, settled.mixture)
    order = np.argsort(-settled.mixture.shares, kind="stable")
    mixture = Mixture(tuple(settled.mixture.components[k] for k in order), settled.mixture.shares[order])
    rounds, converged = start.rounds + settled.rounds, settled.rounds < most_rounds
    fitted = FittedMixture(mixture, columns, shared, rounds, converged)
    final = evidence.collect(LikelihoodQuestion(fitted), remember=False)
    return replace(fitted, log_likelihood=final.log_likelihood, weight=final.weight)


def warn_of_collapse(trial: Trial, mixture: Mixture) -> None:
    if trial.collapsed(mixture).any():
        what = "A component rests on one row, or on the copies of one: its norms say little."
        warn(f"{what} Drop these rows if they are an artefact, or take fewer components.", DuplicatedRowsWarning)


@dataclass(frozen=True, eq=False)
class LikelihoodQuestion:
    """Ask how likely the rows of a block are, and no more."""

    fitted: FittedMixture

    def __call__(self, block: Block) -> MixtureMoments:
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        total = float(weights @ self.fitted.posterior(block.values)[1])
        return MixtureMoments(records=(), totals=np.empty(0), weight=float(weights.sum()), log_likelihood=total)


# --- the table ------------------------------------------------------------------------------------


def varying_columns(
    subsample: Subsample, assumptions: Assumptions, n_components: int, names: tuple[str, ...] | None
) -> Columns:
    """The columns that vary in the sample, after clear words about a table that cannot be learned from."""
    subsample.screening.check(assumptions.lowest, names)
    n = len(subsample.rows)  # all rows of positive weight, where they are few
    if n < 2 * n_components:
        raise InvalidDataError(
            f"Only {n:,} rows (samples) for n_components={n_components}: a component takes at least two rows. Add rows"
            " or lower n_components."
        )
    floor = np.array(assumptions.censoring).astype(subsample.values.dtype)
    x = np.maximum(subsample.values, floor)
    columns = [j for j in range(x.shape[1]) if _varies(x[:, j], floor[j])]
    if not columns:
        raise InvalidDataError("All rows are identical, or nearly all: there is nothing to tell apart.")
    return np.array(columns)


def _varies(x: Values, floor: float) -> bool:
    """Not if there is one value, nor if hardly any differ from one above the floor: such rows say little about the
    others, but a component of them alone would have the highest likelihood."""
    known = x[~np.isnan(x)]
    if len(known) == 0 or known.min() == known.max():
        return False
    middle = np.median(known)
    return bool(middle <= floor or np.mean(known != middle) > _RARELY)


def fit_shared(evidence: Evidence, assumptions: Assumptions, columns: Columns) -> SharedColumns:
    """The fits of the other columns by themselves: constant in the whole table (scale 0), or so rarely different that
    the sample did not see it. All columns are looked at, so that doubts about any of them are told, once."""
    others = np.setdiff1d(np.arange(len(assumptions.floor)), columns)
    rows = CensoredLikelihood(assumptions).estimate(evidence)
    return SharedColumns(others, rows.bias[others], rows.scale[others], rows.floor[others])


def shuffled_prior(values: Values, assumptions: Assumptions, rng: np.random.Generator) -> PairMoments:
    """A record worth one row: columns shuffled against each other, without their outer percents.

    Of every column it holds a low and a high value, so that a component always has values above the floor, and spread.
    """
    drawn = np.empty((_PRIOR_DRAWS, values.shape[1]))
    for j in range(values.shape[1]):
        x = values[~np.isnan(values[:, j]), j].astype(np.float64)
        low, high = np.quantile(x, [0.01, 0.99])
        if low == high:
            low, high = x.min(), x.max()
        drawn[:, j] = np.clip(rng.choice(x, _PRIOR_DRAWS), low, high)
        drawn[:2, j] = low, high
    return PairMomentsQuestion.under(assumptions)(Block(drawn)).scaled(1.0 / _PRIOR_DRAWS)


# --- starts ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trial:
    """The sampled rows on which starts are compared, copies joined to one row of their weight.

    They are in the order of their values, so that repeated rows and weights lead to the same starts. ``seen``: which
    rows have a value above the floor, ``z``: rows in the spreads of their columns.
    """

    rows: Rows
    setting: Setting
    seen: BoolArray
    z: FloatArray

    @classmethod
    def of(cls, subsample: Subsample, columns: Columns, assumptions: Assumptions, rng: np.random.Generator) -> Self:
        inner = replace(assumptions, floor=tuple(assumptions.floor[j] for j in columns))
        floor = np.array(inner.censoring).astype(subsample.values.dtype)
        x = np.ascontiguousarray(np.maximum(subsample.values[:, columns], floor))
        keys = np.where(np.isnan(x), -np.inf, x)  # NaN differs from itself
        _, first, copy_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        values = x[first]
        weights = np.asarray(np.bincount(copy_of.ravel(), weights=subsample.weights), dtype=np.float64)
        samples = ArraySamples(values, weights=weights, block_rows=len(values))
        setting = Setting(inner, shuffled_prior(values, inner, rng))
        z = np.clip(standardized(values, setting.floor), -_FAR, _FAR)
        rows = Rows(values, weights, SampleEvidence(samples, LocalEngine()))
        return cls(rows, setting, np.any(values > floor, axis=1), z)

    def best_start(self, n_components: int, n_init: int, rng: np.random.Generator) -> Settled:
        """The most likely of the starts that are sound, settled on the sample."""
        if n_components == 1:
            return self.settled(self.one())
        starts = [self.seeded(n_components, rng) for _ in range(n_init)]
        if (grown := self.grown(n_components)) is not None:
            starts.append(grown)
        starts = [start for start in starts if self.is_sound(start.mixture)] or starts
        starts.sort(key=lambda start: -start.log_likelihood)
        finalists = [self.settled(start.mixture, _SAMPLE_ROUNDS) for start in starts[:_FINALISTS]]
        finalists = [start for start in finalists if self.is_sound(start.mixture)] or finalists
        return max(finalists, key=lambda start: start.log_likelihood)

    def seeded(self, n_components: int, rng: np.random.Generator) -> Settled:
        """A start from rows far apart, each with the rows nearest to it; from other rows if that is not sound."""
        for _ in range(_SEEDINGS_PER_START):
            nearest = k_means(self.z, n_components, rng)
            parts = [nearest == k for k in range(n_components)]
            totals = np.array([self.rows.weights[part].sum() for part in parts]) + 1.0 / n_components
            start = self.settled(Mixture(tuple(self.cluster(part) for part in parts), totals / totals.sum()))
            if self.is_sound(start.mixture):
                break
        return start

    def grown(self, n_components: int) -> Settled | None:
        """A start from one Gaussian, with one more at a time where that is most likely; None if it finds no place."""
        settled = self.settled(self.one())
        once = replace(self.rows, weights=np.ones(len(self.z)))  # copies make no better place for a component
        for k in range(2, n_components + 1):
            mixture = settled.mixture
            more = [
                self.settled(mixture.with_component(_as_cluster(component), 1.0 / k), _GROWTH_ROUNDS)
                for component in candidates(once, mixture, self.setting, scattered=False)
            ]
            more = [start for start in more if self.is_sound(start.mixture)]
            if not more:
                return None
            settled = max(more, key=lambda start: start.log_likelihood)
        return settled

    def settled(self, mixture: Mixture, most_rounds: int = _FIRST_ROUNDS) -> Settled:
        return settle(self.rows.evidence, mixture, most_rounds)

    def cluster(self, part: BoolArray) -> Cluster:
        rows = weighted_rows(self.rows.values, self.rows.weights * part)
        return cluster_from(self.setting.question(rows), self.setting)

    def one(self) -> Mixture:
        return Mixture((self.cluster(np.ones(len(self.z), dtype=bool)),), np.ones(1))

    def is_sound(self, mixture: Mixture) -> bool:
        """Every component has rows, and not only copies of one."""
        return bool(np.all(self._held(mixture).sum(axis=0) >= _EMPTY)) and not self.collapsed(mixture).any()

    def collapsed(self, mixture: Mixture) -> BoolArray:
        """The components that rest on the copies of one row. A row with no value above the floor is no such row: its
        probability is at most 1, and components of hardly anything else there may well be."""
        held = self._held(mixture)
        total, most = held.sum(axis=0), held.max(axis=0)
        return np.asarray(self.seen[held.argmax(axis=0)] & (most > _ONE_ROW * total) & (total >= _EMPTY))

    def _held(self, mixture: Mixture) -> FloatArray:
        """n x K: the part of each row's weight that is each component's."""
        return np.asarray(mixture.posterior(self.rows.values)[0] * self.rows.weights[:, None])


def _as_cluster(component: Component) -> Cluster:
    assert isinstance(component, Gaussian)
    return Cluster(component.setting, component.bias, component.scale, component.correlation)


def k_means(z: FloatArray, k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The nearest of k centres for each row: rows drawn far from each other (Arthur and Vassilvitskii 2007), and a few
    rounds of means."""
    centres = z[rng.integers(len(z), size=1)]
    squares = np.sum((z - centres[0]) ** 2, axis=1)
    while len(centres) < k:
        odds = squares if squares.sum() > 0.0 else np.ones(len(z))  # where rows run out, any will do
        row = rng.choice(len(z), p=odds / odds.sum())
        centres = np.vstack([centres, z[row]])
        squares = np.minimum(squares, np.sum((z - z[row]) ** 2, axis=1))
    for _ in range(_MEANS_ROUNDS):
        nearest = np.argmin([np.sum((z - centre) ** 2, axis=1) for centre in centres], axis=0)
        for j in np.unique(nearest):
            centres[j] = z[nearest == j].mean(axis=0)
    return np.asarray(nearest)
