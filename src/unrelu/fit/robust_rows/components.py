"""What a row of a contaminated table may be: genuine or an outlier of some kind.

Each component has a log density for rows, a record by which it learns from weighted rows, and a way to become
another one of its kind from that record. Densities are those of the values above the floor times the probability of
the others to be at it, in the units of the table, so that components can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, FloatArray, PairCorrelations, RowParameters
from unrelu.errors import InvalidDataError
from unrelu.fit.nearest import assemble
from unrelu.fit.one_pass import fit_record
from unrelu.fit.shrinkage import error_share, factor_target, shrunken
from unrelu.kernels.cell_shares import add_bin_counts, histogram_log_densities
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.posterior.cells import Values
from unrelu.posterior.density import Density, plain, seen_sum

_NARROWEST = 1e-290  # bin of a histogram
_NOWHERE = -1e300  # log density where a component has none


@dataclass(frozen=True, eq=False)
class Setting:
    """What the components of one fit share.

    ``prior`` is a record worth one row, which keeps every fit possible; None once there are no more fits to come.
    ``factors``: how many explain the correlations of the genuine rows, where that is known and makes densities cheap.
    ``assembled``: the Gaussians are a result, not a means: weights are numbers of rows, correlations are assembled.
    """

    assumptions: Assumptions
    prior: PairMoments | None
    factors: int | None = None
    assembled: bool = False

    @property
    def floor(self) -> FloatArray:
        return np.array(self.assumptions.censoring)

    @property
    def question(self) -> PairMomentsQuestion:
        return PairMomentsQuestion.under(self.assumptions, shapes=False)

    def with_prior(self, record: PairMoments) -> PairMoments:
        return record if self.prior is None else record.merge(self.prior)


@dataclass(frozen=True, eq=False)
class GaussianComponent:
    """A rectified Gaussian, with shrunken correlations, which few rows cannot overfit.

    ``loadings``: those of the factors where the correlations are factors and noise.
    """

    setting: Setting
    bias: Annotated[FloatArray, "floats c"]
    scale: Annotated[FloatArray, "floats c"]
    correlation: Annotated[FloatArray, "floats c c"]
    kind: str = "gaussian"
    loadings: Annotated[FloatArray, "floats c k"] | None = None

    def __post_init__(self) -> None:
        if len(self.setting.assumptions.floor) != len(self.bias):
            raise InvalidDataError("a component is not of the columns whose floors it states")

    @property
    def n_columns(self) -> int:
        return len(self.bias)

    @property
    def n_parameters(self) -> int:
        """Those of all correlations, also where factors stand for them: they do so to save time, not groups."""
        d = len(self.bias)
        return d + d * (d + 1) // 2

    @cached_property
    def density(self) -> Density:
        return Density(self.bias, self.scale, self.correlation, self.setting.floor, self.loadings)

    def log_density(self, values: Values, converged: bool = False) -> FloatArray:
        return self.density.log_density(values, None, converged)

    def record(self, block: Block) -> PairMoments:
        return self.setting.question(block)

    def refitted(self, record: PairMoments) -> GaussianComponent:
        return gaussian_from(record, self.setting)

    def widened(self, factor: float) -> GaussianComponent:
        return replace(self, scale=self.scale * factor)


def gaussian_from(record: PairMoments, setting: Setting) -> GaussianComponent:
    """The one-pass fit to a record, with one row's worth of the prior."""
    record = record if setting.prior is None else record.merge(setting.prior)
    if setting.assembled:
        rows, pairs = fit_record(_as_counts(record), setting.assumptions)
        covariance, _ = assemble(rows.scale, pairs)
        correlation = covariance / np.outer(rows.scale, rows.scale)
    else:
        rows, pairs = free_fit(record, setting)
        if setting.factors is not None:
            target = factor_target(pairs, record.effective_rows, setting.factors)
            return GaussianComponent(setting, rows.bias, rows.scale, target.matrix, loadings=target.loadings)
        correlation = np.nan_to_num(pairs.correlation)
    keep = 1.0 - error_share(pairs.correlation, pairs.stderr)
    return GaussianComponent(setting, rows.bias, rows.scale, shrunken(correlation, keep))


def free_fit(record: PairMoments, setting: Setting) -> tuple[RowParameters, PairCorrelations]:
    """Columns and pairs, whatever signs or rank the user assumes: those are for the result."""
    return fit_record(record, replace(setting.assumptions, nonnegative_bias=False, n_components=None))


def _as_counts(record: PairMoments) -> PairMoments:
    """The record of rows whose weights are numbers of rows (half of a row is a row to Kish); never fewer than two."""
    o = record.observed
    observed = None if o is None else replace(o, squared_weight=np.minimum(o.count, o.count**2 / 2.0))
    return replace(record, squared_weight=min(record.weight, record.weight**2 / 2.0), observed=observed)


@dataclass(frozen=True, eq=False)
class BinCounts:
    """Weight of the rows in each bin of each column; no columns where a component has nothing to learn."""

    counts: tuple[FloatArray, ...]

    def merge(self, other: Self) -> Self:
        return type(self)(tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))


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
            if not (np.isfinite(edge).all() and np.isfinite(mass).all()):
                raise InvalidDataError("edges or log_mass hold values that are not finite")

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

    def record(self, block: Block) -> BinCounts:
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        edges = np.concatenate(self.edges).astype(block.values.dtype)
        counts = np.zeros(len(edges) + self.n_columns)
        add_bin_counts(plain(block.values), weights, edges, self._starts, counts)
        return BinCounts(tuple(np.split(counts, self._starts[1:-1] + np.arange(1, self.n_columns))))

    def refitted(self, record: BinCounts) -> IndependentComponent:
        log_mass = []
        for edge, counts in zip(self.edges, record.counts, strict=True):
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

    def record(self, block: Block) -> BinCounts:  # noqa: ARG002 - the protocol's
        return BinCounts(())

    def refitted(self, record: BinCounts) -> RepeatedRowComponent:  # noqa: ARG002 - the protocol's
        return self


@dataclass(frozen=True, eq=False)
class NoiseComponent:
    """Whatever no component explains: an improper density, ``level`` in cell units of the genuine rows.

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

    def record(self, block: Block) -> BinCounts:  # noqa: ARG002 - the protocol's
        return BinCounts(())

    def refitted(self, record: BinCounts) -> NoiseComponent:  # noqa: ARG002 - the protocol's
        return self


Component: TypeAlias = GaussianComponent | IndependentComponent | RepeatedRowComponent | NoiseComponent
"""One kind of row: its log density, what it learns from rows (``record``), and itself learned anew (``refitted``)."""
