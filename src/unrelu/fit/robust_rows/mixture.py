"""Mixtures of what a row of a contaminated table may be, an inlier or an outlier of some kind; and their EM.

    E   gamma_ik = p_k f_k(x_i) / sum_l p_l f_l(x_i)          M   p_k = mean gamma_ik,   f_k from rows weighted gamma_ik

One round is one pass over the rows whose record merges, so EM runs wherever the rows live. Densities f_k are those of
the values above the floor times the probability of the others to be at it, in the units of the table, so that
components can be compared. A component with parameters has a record by which it learns from weighted rows, and becomes
another one of its kind from that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import (
    Assumptions,
    Block,
    Evidence,
    FloatArray,
    PairCorrelations,
    Progress,
    RowGroup,
    RowParameters,
    Step,
    no_progress,
)
from unrelu.errors import InvalidDataError
from unrelu.fit.nearest import nearest_covariance
from unrelu.fit.one_pass import fit_record
from unrelu.fit.shrinkage import error_share, factor_target, shrunken
from unrelu.kernels.cell_shares import add_bin_counts, histogram_log_densities
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.passes.tiles import Subsample
from unrelu.posterior.cells import Values
from unrelu.posterior.density import Density, plain, seen_sum

_NARROWEST = 1e-290  # bin of a histogram
_NOWHERE = -1e300  # log density where a component has none
_SMALLEST_WEIGHT = 1e-8  # of a row in a component
TO_GAIN = 1e-2  # log-likelihood still to be gained: moves no estimate by more than .15 standard errors
_SLOWEST = 0.99  # rate of convergence beyond which it is not believed
_ROUNDS_AT_A_TIME, _MOST_ROUNDS = 10, 150
_MOST_FULL_ROUNDS = 30
_CLOSE, _CLOSE_PER_RATIO = 0.5, 0.05  # standard errors of all rows, in the one direction that converges slowest

ColumnIndex = NDArray[np.intp]  # positions of columns in the table
RowIndex = NDArray[np.intp]  # positions of rows


# --- components -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Setting:
    """What the components of one fit share.

    ``prior`` is a record worth one row, which keeps every fit possible; None once there are no more fits to come.
    ``factors``: how many explain the correlations of the inlier rows, where they make densities cheap. ``nearest_one``:
    the Gaussians are a result, not a means: weights are numbers of rows, correlations are one semidefinite matrix.
    """

    assumptions: Assumptions
    prior: PairMoments | None
    factors: int | None = None
    nearest_one: bool = False

    @property
    def floor(self) -> FloatArray:
        return np.array(self.assumptions.censored_at)

    @property
    def question(self) -> PairMomentsQuestion:
        return PairMomentsQuestion.under(self.assumptions, margins=False)

    def fit(self, record: PairMoments) -> tuple[RowParameters, PairCorrelations, float]:
        """Columns and pairs of the record with the prior, whatever signs or rank the user assumes: those are for the
        result. And of how many rows they are."""
        record = record if self.prior is None else record.merge(self.prior)
        if self.nearest_one:  # weights are numbers of rows (half of a row is a row to Kish); never fewer than two
            o = record.observed
            observed = None if o is None else replace(o, squared_weight=np.minimum(o.count, o.count**2 / 2.0))
            squared_weight = min(record.weight, record.weight**2 / 2.0)
            record = replace(record, squared_weight=squared_weight, observed=observed)
        rows, pairs = fit_record(record, replace(self.assumptions, nonnegative_mean=False, n_components=None))
        return rows, pairs, record.effective_rows


@dataclass(frozen=True, eq=False)
class GaussianComponent:
    """A rectified Gaussian, with shrunken correlations, which few rows cannot overfit.

    ``loadings``: those of the factors where the correlations are factors and noise.
    """

    setting: Setting
    mean: Annotated[FloatArray, "floats c"]
    std: Annotated[FloatArray, "floats c"]
    correlation: Annotated[FloatArray, "floats c c"]
    kind: str = "gaussian"
    loadings: Annotated[FloatArray, "floats c k"] | None = None

    def __post_init__(self) -> None:
        if len(self.setting.assumptions.floor) != len(self.mean):
            raise InvalidDataError("a component is not of the columns whose floors it states")

    @property
    def n_columns(self) -> int:
        return len(self.mean)

    @property
    def n_parameters(self) -> int:
        """Those of all correlations, also where factors stand for them: they do so to save time, not groups."""
        d = len(self.mean)
        return d + d * (d + 1) // 2

    @cached_property
    def density(self) -> Density:
        return Density(self.mean, self.std, self.correlation, self.setting.floor, self.loadings)

    def log_density(self, values: Values, converged: bool = False) -> FloatArray:
        return self.density.log_density(values, None, converged)

    def record(self, block: Block) -> PairMoments:
        return self.setting.question(block)

    def refitted(self, record: PairMoments) -> GaussianComponent:
        return gaussian_from(record, self.setting)

    def widened(self, factor: float) -> GaussianComponent:
        return replace(self, std=self.std * factor)


def gaussian_from(record: PairMoments, setting: Setting) -> GaussianComponent:
    """The one-pass fit to a record, with one row's worth of the prior."""
    rows, pairs, n = setting.fit(record)
    if setting.factors is not None:
        target = factor_target(pairs, n, setting.factors)
        return GaussianComponent(setting, rows.mean, rows.std, target.matrix, loadings=target.loadings)
    correlation = np.nan_to_num(pairs.correlation)
    if setting.nearest_one:
        correlation = nearest_covariance(rows.std, pairs)[0] / np.outer(rows.std, rows.std)
    keep = 1.0 - error_share(pairs.correlation, pairs.stderr)
    return GaussianComponent(setting, rows.mean, rows.std, shrunken(correlation, keep))


@dataclass(frozen=True, eq=False)
class IndependentComponent:
    """Columns independent of each other, of any distribution: a histogram above the floor and a tail like 1/x^2.

    A background for scattered outliers, whatever they are. ``edges`` of a column start at its floor. Bin 0 holds the
    cells at the floor, the last bin those beyond the last edge, in units of ``edges[-1] - edges[0]`` from the floor.
    """

    edges: tuple[Annotated[FloatArray, "floats e"], ...]
    log_mass: tuple[Annotated[FloatArray, "floats m"], ...]
    kind: str = "independent"

    def __post_init__(self) -> None:
        for edge, mass in zip(self.edges, self.log_mass, strict=True):
            if edge.ndim != 1 or len(edge) == 0 or mass.shape != (len(edge) + 1,):
                raise InvalidDataError(f"log_mass has shape {mass.shape} for edges of shape {edge.shape}")

    @property
    def n_columns(self) -> int:
        return len(self.edges)

    @property
    def n_parameters(self) -> int:
        return sum(len(mass) - 1 for mass in self.log_mass)

    @classmethod
    def flat(cls, edges: tuple[FloatArray, ...]) -> Self:
        """To begin with: :meth:`record` asks for nothing but the edges."""
        return cls(edges, tuple(np.zeros(len(edge) + 1) for edge in edges))

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where each column's edges begin in all columns' edges."""
        return np.cumsum([0, *(len(edge) for edge in self.edges)])

    def log_density(self, values: Values, converged: bool = False) -> FloatArray:  # noqa: ARG002 - the protocol's
        out, edges = np.empty(len(values)), np.concatenate(self.edges).astype(values.dtype)
        histogram_log_densities(plain(values), edges, self._starts, np.concatenate(self.log_mass), out)
        return out

    def record(self, block: Block) -> FloatArray:
        """Weight of the rows in each bin, column after column."""
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        edges = np.concatenate(self.edges).astype(block.values.dtype)
        counts = np.zeros(len(edges) + self.n_columns)
        add_bin_counts(plain(block.values), weights, edges, self._starts, counts)
        return counts

    def refitted(self, record: FloatArray) -> IndependentComponent:
        log_mass, by_column = [], np.split(record, self._starts[1:-1] + np.arange(1, self.n_columns))
        for edge, counts in zip(self.edges, by_column, strict=True):
            mass = counts + 0.5 / len(edge)  # half a row, spread evenly
            width = np.concatenate([[1.0], np.diff(edge), [1.0 / (edge[-1] - edge[0])]])
            log_mass.append(np.log(mass / mass.sum() / width))
        return IndependentComponent(self.edges, tuple(log_mass))


def column_edges(values: Values, floor: FloatArray, most: int = 12) -> tuple[FloatArray, ...]:
    """The floor (below every value where there is none), and quantiles of the values above, finer in the upper tail."""
    levels = np.concatenate([np.arange(1, most) / most, 1.0 - 0.5 ** np.arange(4, 7)])
    edges = []
    for j in range(values.shape[1]):
        x = values[values[:, j] > floor[j], j].astype(np.float64)
        lowest = x.min(initial=0.0)  # a bin beside 0 must have a width that can be divided by
        start = floor[j] if np.isfinite(floor[j]) else min(np.nextafter(lowest, -np.inf), lowest - _NARROWEST)
        inner = np.unique(np.quantile(x, np.sort(levels))) if len(x) else np.array([start + 1.0])
        edges.append(np.concatenate([[start], inner[inner > start]]))
    return tuple(edges)


@dataclass(frozen=True, eq=False)
class RepeatedRowComponent:
    """One row, again and again. ``log_mass``: its density where its cells above the floor have a resolution."""

    row: Annotated[FloatArray, "floats c"]
    floor: Annotated[FloatArray, "unbounded floats c"]
    log_mass: float
    kind: str = "repeated row"
    n_parameters: int = 0

    @property
    def n_columns(self) -> int:
        return len(self.row)

    def log_density(self, values: Values, converged: bool = False) -> FloatArray:  # noqa: ARG002 - the protocol's
        same = np.maximum(values, self.floor.astype(values.dtype)) == self.row.astype(values.dtype)
        return np.where(np.all(same, axis=1), self.log_mass, _NOWHERE)


@dataclass(frozen=True, eq=False)
class NoiseComponent:
    """Whatever no component explains: an improper density, ``level`` in cell units of the inlier rows.

    With it one far row cannot take a component with it (Coretto and Hennig 2016).
    """

    level: float
    log_unit: Annotated[FloatArray, "floats c"]
    floor: Annotated[FloatArray, "unbounded floats c"]
    kind: str = "unexplained"
    n_parameters: int = 0

    @property
    def n_columns(self) -> int:
        return len(self.floor)

    def log_density(self, values: Values, converged: bool = False) -> FloatArray:  # noqa: ARG002 - the protocol's
        return self.level - seen_sum(values, self.floor, self.log_unit)


Component: TypeAlias = GaussianComponent | IndependentComponent | RepeatedRowComponent | NoiseComponent


# --- mixtures -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mixture:
    """Components and their shares of the rows."""

    components: tuple[Component, ...]
    shares: Annotated[FloatArray, "floats k"]

    def check_columns(self, columns: ColumnIndex, n_features: int) -> None:
        """Raise InvalidDataError unless the mixture is sound, and is of these columns of a table."""
        if self.shares.shape != (len(self.components),):
            raise InvalidDataError(f"shares has shape {self.shares.shape} for {len(self.components)} components")
        if len({component.n_columns for component in self.components}) > 1:
            raise InvalidDataError("the components of a mixture are of different numbers of columns")
        inside = np.all((columns >= 0) & (columns < n_features)) and len(np.unique(columns)) == len(columns)
        if not inside or len(columns) != self.components[0].n_columns:
            raise InvalidDataError(
                f"columns holds {columns.tolist()}: not {self.components[0].n_columns} of the {n_features} columns"
            )

    @property
    def n_parameters(self) -> int:
        return sum(component.n_parameters for component in self.components) + len(self.components) - 1

    @property
    def main(self) -> int:
        """The largest of the Gaussian components."""
        gaussian = [k for k, part in enumerate(self.components) if isinstance(part, GaussianComponent)]
        return gaussian[int(np.argmax(self.shares[gaussian]))]

    @property
    def main_component(self) -> GaussianComponent:
        component = self.components[self.main]
        assert isinstance(component, GaussianComponent), "as main is"
        return component

    @property
    def groups(self) -> tuple[RowGroup, ...]:
        """The components and their shares in plain words, the main one first."""
        order = [self.main, *(k for k in np.argsort(-self.shares).tolist() if k != self.main)]
        return tuple(RowGroup(self.components[k].kind, float(self.shares[k])) for k in order)

    def joint(self, values: Values, converged: bool = False) -> FloatArray:
        """n x K: log p_k + log f_k(x_i). ``converged``: what users see, where rounds of EM make do with a sweep."""
        joint = np.empty((len(values), len(self.components)))
        for k, component in enumerate(self.components):
            np.add(component.log_density(values, converged), np.log(self.shares[k]), out=joint[:, k])
        return joint

    def posterior(self, values: Values, converged: bool = False) -> tuple[FloatArray, FloatArray]:
        """(responsibilities n x K, log density of each row)."""
        return normalized(self.joint(values, converged))

    def finished(self) -> Mixture:
        """The same without the prior, which only further rounds would need: what is kept and written to files."""
        parts = [
            replace(part, setting=replace(part.setting, prior=None)) if isinstance(part, GaussianComponent) else part
            for part in self.components
        ]
        return Mixture(tuple(parts), self.shares)

    def with_component(self, component: Component, share: float) -> Mixture:
        return Mixture((*self.components, component), np.append(self.shares * (1.0 - share), share))

    def without(self, k: int) -> Mixture:
        shares = np.delete(self.shares, k)
        return Mixture((*self.components[:k], *self.components[k + 1 :]), shares / shares.sum())

    def refitted(self, moments: MixtureMoments) -> Mixture:
        """From one round's record; what has no parameters stays as it is."""
        parts: list[Any] = list(self.components)
        for k, record in enumerate(moments.records):
            if record is not None:
                parts[k] = parts[k].refitted(record)
        shares = (moments.totals + 1.0 / len(parts)) / (moments.weight + 1.0)  # one row, spread evenly
        return Mixture(tuple(parts), shares)


def normalized(joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(each row's exp(joint) as shares of 1, log of its sum), without overflow."""
    highest = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - highest)
    total = shares.sum(axis=1, keepdims=True)
    return shares / total, (highest + np.log(total))[:, 0]


# --- EM -------------------------------------------------------------------------------------------


def selected(values: Values, columns: ColumnIndex | None) -> Values:
    """Some of the columns; the table itself, not a copy, where they are all."""
    return values if columns is None or len(columns) == values.shape[1] else values[:, columns]


def weighted_rows(values: Values, weights: FloatArray, first_row: int = 0) -> Block:
    """The rows that matter: a far one would be felt even at a weight of 1e-12. Where none does, an absent row."""
    kept = weights > _SMALLEST_WEIGHT
    if kept.all():
        return Block(values, first_row, np.ascontiguousarray(weights))
    if not kept.any():
        return Block(values[:1], first_row, np.zeros(1))
    return Block(values[kept], first_row, weights[kept])


@dataclass(frozen=True, eq=False)
class MixtureMoments:
    """One round's record: what each component learns (None where it has no parameters), its weight, and the
    log-likelihood."""

    records: tuple[Any, ...]
    totals: FloatArray
    weight: float
    log_likelihood: float

    def merge(self, other: Self) -> Self:
        records: list[Any] = []
        for mine, its in zip(self.records, other.records, strict=True):
            if isinstance(mine, PairMoments):
                records.append(mine.merge(its))
            else:
                records.append(None if mine is None else mine + its)
        level = self.log_likelihood + other.log_likelihood
        return type(self)(tuple(records), self.totals + other.totals, self.weight + other.weight, level)


def moments_of(
    mixture: Mixture, block: Block, columns: ColumnIndex | None = None, converged: bool = False
) -> MixtureMoments:
    """A question to a block, or some of its columns: the moments of one round of EM."""
    values = selected(block.values, columns)
    weights = np.ones(len(values)) if block.weights is None else block.weights
    share, density = mixture.posterior(values, converged)
    share *= weights[:, None]
    records: list[Any] = [None] * len(mixture.components)
    for k, component in enumerate(mixture.components):
        if isinstance(component, GaussianComponent | IndependentComponent):
            records[k] = component.record(weighted_rows(values, share[:, k], block.first_row))
    return MixtureMoments(tuple(records), share.sum(axis=0), float(weights.sum()), float(weights @ density))


@dataclass(frozen=True, eq=False)
class EMState:
    """Where EM stands. ``rate``: by how much a round shrank the log-likelihood still to be gained, ``to_gain``;
    ``unrest``: the same by the larger gain of two rounds, as one alone may be near 0 only for changing its sign."""

    mixture: Mixture
    log_likelihood: float
    weight: float
    rounds: int
    rate: float
    to_gain: float
    unrest: float

    def is_within(self, gain: float) -> bool:
        """Whether no more log-likelihood than this is to be gained, or no more rounds are worth it."""
        return self.unrest < gain or self.rounds >= _MOST_ROUNDS

    @property
    def bic(self) -> float:
        return -2.0 * self.log_likelihood + self.mixture.n_parameters * float(np.log(self.weight))

    @property
    def hoped_bic(self) -> float:
        """What the BIC would be if EM were run on, by its rate."""
        return self.bic - 2.0 * self.to_gain

    def run_on(self, evidence: Evidence, progress: Progress = no_progress) -> EMState:
        """A few rounds more."""
        further = run_em(evidence, self.mixture, _ROUNDS_AT_A_TIME, progress)
        return replace(further, rounds=self.rounds + further.rounds)


def run_em(
    evidence: Evidence,
    mixture: Mixture,
    most_rounds: int,
    progress: Progress = no_progress,
    columns: ColumnIndex | None = None,
    converged: bool = False,
) -> EMState:
    """EM until the log-likelihood has no more than TO_GAIN to gain, or for ``most_rounds``.

    ``columns``: those of the table that the mixture is of. ``converged``: by the density that users see.
    """
    levels: list[float] = []
    rate, to_gain, unrest, weight = _SLOWEST, np.inf, np.inf, 0.0
    while len(levels) < most_rounds and unrest >= TO_GAIN:
        question = partial(moments_of, mixture, columns=columns, converged=converged)
        moments = evidence.collect(question, remember=False)
        mixture, weight = mixture.refitted(moments), moments.weight
        levels.append(moments.log_likelihood)
        words = f"round {len(levels)}, log-likelihood {levels[-1]:,.1f}"
        progress(Step("Reading all rows", len(levels), most_rounds, words))
        if len(levels) > 2:
            # The fits to pairs are not exactly maximum likelihood, so that a round may also lose a little.
            last, before = abs(levels[-1] - levels[-2]), abs(levels[-2] - levels[-3])
            rate = min(last / before, _SLOWEST) if before > 0.0 else 0.0
            to_gain = last / (1.0 - rate)
            unrest = max(last, before) / (1.0 - rate)
    return EMState(mixture, levels[-1], weight, len(levels), rate, to_gain, unrest)


def run_em_on_all(
    evidence: Evidence, state: EMState, subsample: Subsample, columns: ColumnIndex, progress: Progress = no_progress
) -> tuple[Mixture, int]:
    """EM on all rows, as far as the sample's estimate is from theirs.

    The sample's error is sqrt(n/m) standard errors of all rows, and a round, of which reweighting is one, shrinks what
    is due to the components' overlap by the square root of the log-likelihood's rate.
    """
    mixture = state.mixture
    if subsample.n_present <= len(subsample.rows):
        return mixture, state.rounds
    distance = float(np.sqrt(subsample.n_present / len(subsample.rows)))
    rate = float(np.sqrt(state.rate))
    close = min(_CLOSE, _CLOSE_PER_RATIO * distance**2)  # the fewer rows beyond the sample, the cheaper a round
    needed = int(np.ceil(np.log(close / distance) / np.log(rate))) - 1 if 0.0 < rate < 1.0 else 0
    needed = int(np.clip(needed, 0, _MOST_FULL_ROUNDS))
    if needed == 0 or len(mixture.components) == 1:
        return mixture, state.rounds
    full = run_em(evidence, mixture, needed, progress, columns)
    return full.mixture, state.rounds + full.rounds
