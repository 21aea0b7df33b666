"""A given number of rectified Gaussians, fitted to all rows: the mixture that the robust method grows, without noise.

    sample of the rows --> starts (growth, and seeds far apart) --> the best two converge --> EM on all rows
        --> a few rounds by the converged density, which is the one that users see

EM finds the nearest maximum only, so it is started in several ways on a sample, a few rounds each (Biernacki, Celeux
and Govaert 2003). Starts in which a component has no rows, or rests on the copies of one row, whose likelihood has
no bound but the prior's, are passed over.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Self

import numpy as np

from unrelu.contracts import (
    Assumptions,
    Block,
    BoolArray,
    ColumnCounts,
    Evidence,
    FloatArray,
    MixtureReport,
    PairCorrelations,
    Progress,
    Step,
    no_progress,
)
from unrelu.errors import InvalidDataError, UnreluWarning
from unrelu.fit.columns import fit_columns
from unrelu.fit.robust_rows.growth import SampledRows, candidates
from unrelu.fit.robust_rows.mixture import (
    ColumnIndex,
    Component,
    EMState,
    GaussianComponent,
    Mixture,
    MixtureMoments,
    RowIndex,
    Setting,
    run_em,
    selected,
)
from unrelu.fit.robust_rows.table import prior_record, standardized, varying_columns
from unrelu.fit.shrinkage import scoring_correlation
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import one_blas_thread
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.passes.tiles import Subsample, SubsampleQuestion
from unrelu.posterior.cells import Values
from unrelu.posterior.density import Density
from unrelu.validation import warn

STARTS = "Comparing starts"

_CELLS, _FEWEST_ROWS, _MOST_ROWS = 40_000, 2_000, 4_000  # of the sample on which starts are compared
_ROWS_PER_COMPONENT = 500  # of the sample, whatever its cells
_FIRST_ROUNDS, _GROWTH_ROUNDS = 10, 5  # after which most starts show what they are worth
_FINALISTS, _SAMPLE_ROUNDS = 2, 100
_SEEDINGS_PER_START = 3  # before a degenerate start is put up with
_MEANS_ROUNDS = 5
_FAR = 10.0  # spreads, beyond which a seed is no farther: lest seeds are outliers only
_ONE_ROW = 0.9  # of a component's weight on the copies of one row: it has collapsed
_EMPTY = 1.0  # rows
_CONVERGED_ROUNDS = 2


def fit_mixture(
    evidence: Evidence,
    assumptions: Assumptions,
    n_components: int,
    n_init: int,
    seed: int,
    most_rounds: int = 300,
    progress: Progress = no_progress,
) -> tuple[FittedMixture, tuple[RectifiedGaussian, ...]]:
    """The mixture of ``n_components`` rectified Gaussians of highest likelihood, as far as the starts lead there, and
    its components as models of all columns.

    ``n_init``: starts from random seeds, beside the one by growth. ``most_rounds``: passes of EM over all rows. Weights
    of rows should have a mean of 1 or more, the prior being worth a row of weight 1; a row of weight 0 holds only NaN.
    """
    assumptions = replace(assumptions, nonnegative_mean=False, n_components=None)
    size = int(np.clip(_CELLS // len(assumptions.floor), _FEWEST_ROWS, _MOST_ROWS))
    question = SubsampleQuestion.under(assumptions, max(size, _ROWS_PER_COMPONENT * n_components), seed)
    subsample = evidence.collect(question, remember=False)
    columns = varying_columns(subsample, assumptions, n_components, evidence.feature_names)
    # The other columns are constant in the whole table, or so rarely different that the sample did not see it. All
    # columns are fitted, so that every warning about one of them is given, once.
    others = np.setdiff1d(np.arange(len(assumptions.floor)), columns)
    alone = fit_columns(evidence.collect(PairMomentsQuestion.under(assumptions)), assumptions, evidence.feature_names)
    shared = SharedColumns(others, alone.mean[others], alone.std[others], alone.floor[others])
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)  # of fits on the way, not of the result
        trial = Trial.of(subsample, columns, assumptions, rng)
        with one_blas_thread():  # for many small products threads cost more than they give
            start = trial.best_start(n_components, n_init, rng, progress)
        state = run_em(evidence, start.mixture, most_rounds, progress, columns)
        rounds, converged = state.rounds, state.rounds < most_rounds
        if n_components > 1:  # one component has all rows, however dense they are
            state = run_em(evidence, state.mixture, _CONVERGED_ROUNDS, progress, columns, converged=True)
            rounds += state.rounds
    if trial.collapsed(state.mixture).any():
        what = "A component rests on one row, or on the copies of one: its standard deviations mean little."
        warn(f"{what} Drop these rows if they are an artefact, or take fewer components.", "duplicated-rows")
    found = state.mixture.finished()
    order = np.argsort(-found.shares, kind="stable")
    mixture = Mixture(tuple(found.components[k] for k in order), found.shares[order])
    final = evidence.collect(partial(_likelihood, mixture, columns, shared), remember=False)
    report = MixtureReport(
        n_rows=subsample.n_rows,
        **ColumnCounts(subsample.n_present, subsample.observed, subsample.above).facts,
        shares=tuple(mixture.shares.tolist()),
        rounds=start.rounds + rounds,
        converged=converged,
        weight=final.weight,
        log_likelihood=final.log_likelihood,
        **assumptions.limits,
    )
    by = tuple(
        _for_scores(part, share * final.weight) for part, share in zip(mixture.components, mixture.shares, strict=True)
    )
    fitted = FittedMixture(Mixture(by, mixture.shares), columns, shared, report)
    names = evidence.feature_names
    models = [fitted.model_of(*each, assumptions.floor, names) for each in zip(mixture.components, by, strict=True)]
    return fitted, tuple(models)


def _for_scores(component: Component, n_rows: float) -> GaussianComponent:
    """A component with the correlations that rows are scored by, shrunken as those of the full likelihood are: here too
    all correlations were learned together, so that their errors fit together."""
    assert isinstance(component, GaussianComponent), "clusters are"
    r, n = component.correlation, max(n_rows, 1.0)
    return replace(component, correlation=scoring_correlation(PairCorrelations(r, (1.0 - r * r) / np.sqrt(n)), r, n)[0])


# --- what comes out ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SharedColumns:
    """Columns too constant to separate components: independent, and the same in all components."""

    columns: Annotated[ColumnIndex, "ints s"]
    mean: Annotated[FloatArray, "floats s"]
    std: Annotated[FloatArray, "floats s"]
    floor: Annotated[FloatArray, "unbounded floats s"]

    @cached_property
    def _density(self) -> Density:
        return Density(self.mean, self.std, np.eye(len(self.mean)), self.floor)

    def log_density(self, values: Values) -> FloatArray:
        """Per row."""
        return self._density.log_density(values[:, self.columns]) if len(self.columns) else np.zeros(len(values))


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """Gaussians by falling share, as rows are scored by them, over ``columns``, the fits of the other columns, and the
    report."""

    mixture: Mixture
    columns: Annotated[ColumnIndex, "ints c"]
    shared: SharedColumns
    report: MixtureReport

    def __post_init__(self) -> None:
        n_features = len(self.columns) + len(self.shared.columns)
        self.mixture.check_columns(self.columns, n_features)
        if not np.array_equal(np.union1d(self.columns, self.shared.columns), np.arange(n_features)):
            raise InvalidDataError(f"columns and shared columns are not the {n_features} columns of a table")

    @property
    def n_parameters(self) -> int:
        return self.mixture.n_parameters + 2 * int(np.count_nonzero(self.shared.std))

    def probabilities(self, values: Values) -> FloatArray:
        """Of the components, n x K."""
        return self.mixture.posterior(selected(values, self.columns), converged=True)[0]

    def log_density(self, values: Values) -> FloatArray:
        """Of each row."""
        density = self.mixture.posterior(selected(values, self.columns), converged=True)[1]
        return np.asarray(density + self.shared.log_density(values))

    def model_of(
        self, component: Component, by: GaussianComponent, floor: tuple[float, ...], names: tuple[str, ...] | None
    ) -> RectifiedGaussian:
        """A component as a model of all columns; ``by``: the one that rows are scored by."""
        assert isinstance(component, GaussianComponent), "clusters are"

        def of_all(correlation: FloatArray) -> FloatArray:
            covariance = np.zeros((len(floor), len(floor)))
            stds = np.outer(component.std, component.std)
            covariance[np.ix_(self.columns, self.columns)] = stds * correlation
            covariance[self.shared.columns, self.shared.columns] = self.shared.std**2
            return covariance

        mean = np.empty(len(floor))
        mean[self.columns], mean[self.shared.columns] = component.mean, self.shared.mean
        same = by.correlation is component.correlation
        scoring = None if same else of_all(by.correlation)
        return RectifiedGaussian(mean, of_all(component.correlation), floor, names, scoring_covariance=scoring)


def _likelihood(mixture: Mixture, columns: ColumnIndex, shared: SharedColumns, block: Block) -> MixtureMoments:
    """A question: the log-likelihood of the rows of a block, and no more."""
    weights = np.ones(len(block.values)) if block.weights is None else block.weights
    density = mixture.posterior(selected(block.values, columns), converged=True)[1]
    level = float(weights @ (density + shared.log_density(block.values)))
    return MixtureMoments(records=(), totals=np.empty(0), weight=float(weights.sum()), log_likelihood=level)


# --- starts ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trial:
    """The sampled rows on which starts are compared, copies joined to one row of their weight.

    They are in the order of their values, so that repeated rows and weights lead to the same starts. ``seen``: which
    rows have a value above the floor, ``z``: rows in the spreads of their columns.
    """

    rows: SampledRows
    setting: Setting
    seen: BoolArray
    z: FloatArray

    @classmethod
    def of(cls, subsample: Subsample, columns: ColumnIndex, assumptions: Assumptions, rng: np.random.Generator) -> Self:
        floors = tuple(assumptions.floor[j] for j in columns)
        inner = replace(assumptions, floor=floors, negated=(), margins=())
        floor = np.array(inner.censored_at).astype(subsample.values.dtype)
        x = np.ascontiguousarray(np.maximum(subsample.values[:, columns], floor))
        keys = np.where(np.isnan(x), -np.inf, x)  # NaN differs from itself
        _, first, copy_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        values = x[first]
        weights = np.asarray(np.bincount(copy_of.ravel(), weights=subsample.weights), dtype=np.float64)
        setting = Setting(inner, prior_record(values, inner, rng, outliers=False), nearest_one=True)
        z = np.clip(standardized(values, setting.floor), -_FAR, _FAR)
        return cls(SampledRows.of(values, weights), setting, np.any(values > floor, axis=1), z)

    def best_start(
        self, n_components: int, n_init: int, rng: np.random.Generator, progress: Progress = no_progress
    ) -> EMState:
        """The most likely of the starts that are sound, after EM on the sample."""
        if n_components == 1:  # whose rows are all rows: one round is all
            return self.run_em(self.one(), 1)
        starts = []
        for k in range(n_init):
            progress(Step(STARTS, k, n_init + 1, "rows far apart"))
            starts.append(self.seeded(n_components, rng))
        progress(Step(STARTS, n_init, n_init + 1, "one group more at a time"))
        if (grown := self.grown(n_components)) is not None:
            starts.append(grown)
        starts = [start for start in starts if self.is_sound(start.mixture)] or starts
        starts.sort(key=lambda start: -start.log_likelihood)
        finalists = [self.run_em(start.mixture, _SAMPLE_ROUNDS) for start in starts[:_FINALISTS]]
        finalists = [start for start in finalists if self.is_sound(start.mixture)] or finalists
        return max(finalists, key=lambda start: start.log_likelihood)

    def seeded(self, n_components: int, rng: np.random.Generator) -> EMState:
        """A start from rows far apart, each with the rows nearest to it; from other rows if that is not sound."""
        for _ in range(_SEEDINGS_PER_START):
            nearest = k_means(self.z, n_components, rng)
            parts = [nearest == k for k in range(n_components)]
            totals = np.array([self.rows.weights[part].sum() for part in parts]) + 1.0 / n_components
            start = self.run_em(Mixture(tuple(self.cluster(part) for part in parts), totals / totals.sum()))
            if self.is_sound(start.mixture):
                break
        return start

    def grown(self, n_components: int) -> EMState | None:
        """A start from one Gaussian, with one more at a time where that is most likely; None if it finds no place."""
        state = self.run_em(self.one())
        once = replace(self.rows, weights=np.ones(len(self.z)))  # copies make no better place for a component
        trying = replace(self.setting, nearest_one=False)
        for k in range(2, n_components + 1):
            mixture = state.mixture
            more = [
                self.run_em(mixture.with_component(replace(component, setting=self.setting), 1.0 / k), _GROWTH_ROUNDS)
                for component in candidates(once, mixture, trying)
            ]
            more = [start for start in more if self.is_sound(start.mixture)]
            if not more:
                return None
            state = max(more, key=lambda start: start.log_likelihood)
        return state

    def run_em(self, mixture: Mixture, most_rounds: int = _FIRST_ROUNDS) -> EMState:
        return run_em(self.rows.evidence, mixture, most_rounds)

    def cluster(self, part: BoolArray) -> GaussianComponent:
        return self.rows.gaussian_on(part, self.setting)

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


def k_means(z: FloatArray, k: int, rng: np.random.Generator) -> RowIndex:
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
