"""Mixtures of components and their EM: responsibilities from densities, each component refitted to its share.

    E   gamma_ik = p_k f_k(x_i) / sum_l p_l f_l(x_i)          M   p_k = mean gamma_ik,   f_k from rows weighted gamma_ik

One round is one pass over the rows whose record merges, so EM runs wherever the rows live.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, Evidence, FloatArray, RowGroup, Step, Watch, unwatched
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_rows.components import Component, GaussianComponent
from unrelu.passes.tiles import Subsample
from unrelu.posterior.cells import Values

_SMALLEST_WEIGHT = 1e-8  # of a row in a component
SETTLED = 1e-2  # log-likelihood still to be gained: moves no estimate by more than .15 standard errors
_SLOWEST = 0.99  # rate of convergence beyond which it is not believed
_ROUNDS_AT_A_TIME, _MOST_ROUNDS = 10, 150
_MOST_FULL_ROUNDS = 30
_CLOSE, _CLOSE_PER_RATIO = 0.5, 0.05  # standard errors of all rows, in the one direction that settles slowest


ColumnIndex = NDArray[np.intp]  # positions of columns in the table
RowIndex = NDArray[np.intp]  # positions of rows


def selected(values: Values, columns: ColumnIndex | None) -> Values:
    """Some of the columns; the table itself, not a copy, where they are all."""
    return values if columns is None or len(columns) == values.shape[1] else values[:, columns]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Components and their shares of the rows."""

    components: tuple[Component, ...]
    shares: Annotated[FloatArray, "floats k"]

    def __post_init__(self) -> None:
        if self.shares.shape != (len(self.components),):
            raise InvalidDataError(f"shares has shape {self.shares.shape} for {len(self.components)} components")
        if len({component.n_columns for component in self.components}) > 1:
            raise InvalidDataError("the components of a mixture speak of different numbers of columns")

    def check_columns(self, columns: ColumnIndex, n_features: int) -> None:
        """Raise InvalidDataError unless the mixture can speak of these columns of a table."""
        inside = np.all((columns >= 0) & (columns < n_features)) and len(np.unique(columns)) == len(columns)
        if not inside or len(columns) != self.components[0].n_columns:
            raise InvalidDataError(
                f"columns holds {columns.tolist()}: not {self.components[0].n_columns} of the {n_features} columns"
            )

    @property
    def n_parameters(self) -> int:
        return sum(component.n_parameters for component in self.components) + len(self.components) - 1

    @property
    def gaussians(self) -> dict[int, GaussianComponent]:
        """The Gaussian components by their places."""
        return {k: part for k, part in enumerate(self.components) if isinstance(part, GaussianComponent)}

    @property
    def main(self) -> int:
        """The largest of the Gaussian components."""
        return max(self.gaussians, key=lambda k: float(self.shares[k]))

    @property
    def main_component(self) -> GaussianComponent:
        return self.gaussians[self.main]

    def joint(self, values: Values, converged: bool = False) -> FloatArray:
        """n x K: log p_k + log f_k(x_i). ``converged``: what users see, where rounds of EM make do with a sweep."""
        joint = np.empty((len(values), len(self.components)))
        for k, component in enumerate(self.components):
            np.add(component.log_density(values, converged), np.log(self.shares[k]), out=joint[:, k])
        return joint

    def posterior(self, values: Values, converged: bool = False) -> tuple[FloatArray, FloatArray]:
        """(responsibilities n x K, log density of each row)."""
        return normalized(self.joint(values, converged))

    @property
    def groups(self) -> tuple[RowGroup, ...]:
        """The components and their shares in plain words, the main one first."""
        order = [self.main, *(k for k in np.argsort(-self.shares).tolist() if k != self.main)]
        return tuple(RowGroup(self.components[k].kind, float(self.shares[k])) for k in order)

    def finished(self) -> Mixture:
        """The same without the prior, which only further rounds would need: what is kept and written to files."""
        parts = list(self.components)
        for k, gaussian in self.gaussians.items():
            parts[k] = replace(gaussian, setting=replace(gaussian.setting, prior=None))
        return Mixture(tuple(parts), self.shares)

    def with_component(self, component: Component, share: float) -> Mixture:
        return Mixture((*self.components, component), np.append(self.shares * (1.0 - share), share))

    def without(self, k: int) -> Mixture:
        kept = [i for i in range(len(self.components)) if i != k]
        shares = self.shares[kept]
        return Mixture(tuple(self.components[i] for i in kept), shares / shares.sum())

    def refitted(self, moments: MixtureMoments) -> Mixture:
        parts = zip(self.components, moments.records, strict=True)
        components = tuple(component.refitted(record) for component, record in parts)
        shares = (moments.totals + 1.0 / len(components)) / (moments.weight + 1.0)  # one row, spread evenly
        return Mixture(components, shares)


def normalized(joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(each row's exp(joint) as shares of 1, log of its sum), without overflow."""
    highest = joint.max(axis=1, keepdims=True)
    shares = np.exp(joint - highest)
    total = shares.sum(axis=1, keepdims=True)
    return shares / total, (highest + np.log(total))[:, 0]


@dataclass(frozen=True, eq=False)
class MixtureMoments:
    """One round's record: what each component learns, its weight, and the log-likelihood."""

    records: tuple[Any, ...]
    totals: FloatArray
    weight: float
    log_likelihood: float

    def merge(self, other: Self) -> Self:
        return type(self)(
            tuple(a.merge(b) for a, b in zip(self.records, other.records, strict=True)),
            self.totals + other.totals,
            self.weight + other.weight,
            self.log_likelihood + other.log_likelihood,
        )


@dataclass(frozen=True, eq=False)
class MixtureQuestion:
    """Ask a block, or some of its columns, for the moments of one round of EM."""

    mixture: Mixture
    columns: ColumnIndex | None = None
    converged: bool = False

    def __call__(self, block: Block) -> MixtureMoments:
        values = selected(block.values, self.columns)
        weights = np.ones(len(values)) if block.weights is None else block.weights
        share, density = self.mixture.posterior(values, self.converged)
        share *= weights[:, None]
        records = tuple(
            component.record(weighted_rows(values, share[:, k], block.first_row))
            for k, component in enumerate(self.mixture.components)
        )
        return MixtureMoments(records, share.sum(axis=0), float(weights.sum()), float(weights @ density))


def weighted_rows(values: Values, weights: FloatArray, first_row: int = 0) -> Block:
    """The rows that matter: a far one would be felt even at a weight of 1e-12. Where none does, an absent row."""
    kept = weights > _SMALLEST_WEIGHT
    if kept.all():
        return Block(values, first_row, np.ascontiguousarray(weights))
    if not kept.any():
        return Block(values[:1], first_row, np.zeros(1))
    return Block(values[kept], first_row, weights[kept])


@dataclass(frozen=True, eq=False)
class Settled:
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

    def run_on(self, evidence: Evidence, watch: Watch = unwatched) -> Settled:
        """A few rounds more."""
        further = settle(evidence, self.mixture, _ROUNDS_AT_A_TIME, watch)
        return replace(further, rounds=self.rounds + further.rounds)


def settle(
    evidence: Evidence,
    mixture: Mixture,
    most_rounds: int,
    watch: Watch = unwatched,
    columns: ColumnIndex | None = None,
    converged: bool = False,
) -> Settled:
    """EM until the log-likelihood has no more than SETTLED to gain, or for ``most_rounds``.

    ``columns``: those of the table that the mixture speaks of. ``converged``: by the density that users see.
    """
    levels: list[float] = []
    rate, to_gain, unrest = _SLOWEST, np.inf, np.inf
    moments: MixtureMoments | None = None
    for _ in range(most_rounds):
        moments = evidence.collect(MixtureQuestion(mixture, columns, converged), remember=False)
        mixture = mixture.refitted(moments)
        levels.append(moments.log_likelihood)
        words = f"round {len(levels)}, log-likelihood {levels[-1]:,.1f}"
        watch(Step("Reading all rows", len(levels), most_rounds, words))
        if len(levels) > 2:
            # The fits to pairs are not exactly maximum likelihood, so that a round may also lose a little.
            last, before = abs(levels[-1] - levels[-2]), abs(levels[-2] - levels[-3])
            rate = min(last / before, _SLOWEST) if before > 0.0 else 0.0
            to_gain = last / (1.0 - rate)
            unrest = max(last, before) / (1.0 - rate)
            if unrest < SETTLED:
                break
    assert moments is not None, "at least one round"
    return Settled(mixture, levels[-1], moments.weight, len(levels), rate, to_gain, unrest)


def settle_on_all(
    evidence: Evidence, settled: Settled, subsample: Subsample, columns: ColumnIndex, watch: Watch = unwatched
) -> tuple[Mixture, int]:
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
    full = settle(evidence, mixture, needed, watch, columns)
    return full.mixture, settled.rounds + full.rounds
