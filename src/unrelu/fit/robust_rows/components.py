"""What a row of a contaminated table may be: genuine or an outlier of some kind.

Each component has a log density for rows, a record by which it learns from weighted rows, and a way to become
another one of its kind from that record. Densities are those of the values above the floor times the probability of
the others to be at it, in the units of the table, so that components can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, FloatArray, PairCorrelations, Record, RowParameters
from unrelu.errors import InvalidDataError
from unrelu.fit.one_pass import fit_record
from unrelu.fit.shrinkage import error_share, factor_target, shrunken
from unrelu.kernels.mixing import add_bin_counts, histogram_log_densities
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.posterior.calibration import rows_from_normals
from unrelu.posterior.row_scores import RowScores, Values, plain, seen_sum

_NARROWEST = 1e-290  # bin of a histogram
_NOWHERE = -1e300  # log density where a component has none


class Component(Protocol):
    """One kind of row."""

    @property
    def kind(self) -> str: ...

    @property
    def n_columns(self) -> int: ...

    @property
    def n_parameters(self) -> int: ...

    def log_density(self, values: Values) -> FloatArray: ...

    def record(self, block: Block) -> Record:
        """What it learns from the rows of a block, weighted by the probability that they are its own."""
        ...

    def refitted(self, record: Any) -> Component: ...


@dataclass(frozen=True, eq=False)
class Setting:
    """What the components of one fit share.

    ``prior`` is a record worth one row, which keeps every fit possible; None once there are no more fits to come.
    ``factors``: how many explain the correlations of the genuine rows, where that is known and makes densities cheap.
    """

    assumptions: Assumptions
    prior: PairMoments | None
    factors: int | None = None

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
    bias: FloatArray
    scale: FloatArray
    correlation: FloatArray
    kind: str = "gaussian"
    loadings: FloatArray | None = None

    @property
    def n_columns(self) -> int:
        return len(self.bias)

    @property
    def n_parameters(self) -> int:
        """Those of all correlations, also where factors stand for them: they do so to save time, not groups."""
        d = len(self.bias)
        return d + d * (d + 1) // 2

    @cached_property
    def scores(self) -> RowScores:
        return RowScores(self.bias, self.scale, self.correlation, self.setting.floor, self.loadings)

    @property
    def log_unit(self) -> FloatArray:
        """Of a seen cell, in the units of the table: density times it adds about 0 to a score."""
        return self.scores.log_scale + self.scores.log_cell_unit

    def log_density(self, values: Values) -> FloatArray:
        return self.scores.table_log_density(values)

    def record(self, block: Block) -> PairMoments:
        return self.setting.question(block)

    def refitted(self, record: PairMoments) -> GaussianComponent:
        return gaussian_from(record, self.setting)

    def widened(self, factor: float) -> GaussianComponent:
        return replace(self, scale=self.scale * factor)

    def finished(self) -> Self:
        """Without the prior, which only fits need: what is kept and written to files."""
        return replace(self, setting=replace(self.setting, prior=None))

    def loosened(self) -> GaussianComponent:
        """The same columns, but independent."""
        d = len(self.bias)
        return replace(self, correlation=np.eye(d), loadings=None if self.loadings is None else np.zeros((d, 0)))

    def simulate(self, normals: FloatArray) -> FloatArray:
        """Rows of the model from rows of independent normals: common random numbers for models that move."""
        floor = np.array(self.setting.assumptions.floor)
        return rows_from_normals(normals, self.bias, self.scale, self.correlation, floor)


def gaussian_from(record: PairMoments, setting: Setting) -> GaussianComponent:
    """The one-pass fit to a record, with one row's worth of the prior."""
    record = setting.with_prior(record)
    rows, pairs = free_fit(record, setting)
    if setting.factors is not None:
        target = factor_target(pairs, record.effective_rows, setting.factors)
        return GaussianComponent(setting, rows.bias, rows.scale, target.matrix, loadings=target.loadings)
    keep = 1.0 - error_share(pairs.correlation, pairs.stderr)
    return GaussianComponent(setting, rows.bias, rows.scale, shrunken(np.nan_to_num(pairs.correlation), keep))


def free_fit(record: PairMoments, setting: Setting) -> tuple[RowParameters, PairCorrelations]:
    """Columns and pairs, whatever signs or rank the user assumes: those are for the result."""
    return fit_record(record, replace(setting.assumptions, nonnegative_bias=False, n_components=None))


@dataclass(frozen=True, eq=False)
class BinCounts:
    """Weight of the rows in each bin of each column."""

    counts: tuple[FloatArray, ...]

    def merge(self, other: Self) -> Self:
        return type(self)(tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))


@dataclass(frozen=True, eq=False)
class IndependentComponent:
    """Columns independent of each other, of any distribution: a histogram above the floor and a tail like 1/x^2.

    A background for scattered outliers, whatever they are. ``edges`` of a column start at its floor. Bin 0 holds the
    cells at the floor, the last bin those beyond the last edge, in units of ``edges[-1] - edges[0]`` from the floor.
    """

    edges: tuple[FloatArray, ...]
    log_mass: tuple[FloatArray, ...]
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
    def from_counts(cls, edges: tuple[FloatArray, ...], record: BinCounts) -> Self:
        log_mass = []
        for edge, counts in zip(edges, record.counts, strict=True):
            mass = counts + 0.5 / len(edge)  # half a row, spread evenly
            width = np.concatenate([[1.0], np.diff(edge), [1.0 / (edge[-1] - edge[0])]])
            log_mass.append(np.log(mass / mass.sum() / width))
        return cls(edges, tuple(log_mass))

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where each column's edges begin in all columns' edges."""
        return np.cumsum([0, *(len(edge) for edge in self.edges)])

    def log_density(self, values: Values) -> FloatArray:
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
        return self.from_counts(self.edges, record)


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


@dataclass(frozen=True)
class Nothing:
    """The record of a component that has nothing to learn."""

    def merge(self, other: Self) -> Self:  # noqa: ARG002 - the protocol's
        return self


@dataclass(frozen=True, eq=False)
class RepeatedRowComponent:
    """One row, again and again. ``log_mass``: its density where its cells above the floor have a resolution."""

    row: FloatArray
    floor: FloatArray
    log_mass: float
    kind: str = "repeated row"
    n_parameters: int = 0

    @property
    def n_columns(self) -> int:
        return len(self.row)

    def matches(self, values: Values) -> NDArray[np.bool_]:
        target = self.row.astype(values.dtype)
        same = np.maximum(values, self.floor.astype(values.dtype)) == target
        return np.asarray(np.all(same, axis=1))

    def log_density(self, values: Values) -> FloatArray:
        return np.where(self.matches(values), self.log_mass, _NOWHERE)

    def record(self, block: Block) -> Nothing:  # noqa: ARG002 - the protocol's
        return Nothing()

    def refitted(self, record: Nothing) -> RepeatedRowComponent:  # noqa: ARG002 - the protocol's
        return self


@dataclass(frozen=True, eq=False)
class NoiseComponent:
    """Whatever no component explains: an improper density, ``level`` in cell units of the genuine rows.

    With it one far row cannot take a component with it (Coretto and Hennig 2016).
    """

    level: float
    log_unit: FloatArray
    floor: FloatArray
    kind: str = "unexplained"
    n_parameters: int = 0

    @property
    def n_columns(self) -> int:
        return len(self.floor)

    def log_density(self, values: Values) -> FloatArray:
        return self.level - seen_sum(values, self.floor, self.log_unit)

    def record(self, block: Block) -> Nothing:  # noqa: ARG002 - the protocol's
        return Nothing()

    def refitted(self, record: Nothing) -> NoiseComponent:  # noqa: ARG002 - the protocol's
        return self
