"""What a mixture of rectified Gaussians is, once fitted: its components, columns that tell nothing apart, densities."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from unrelu.contracts import Block, FloatArray, MixtureReport
from unrelu.errors import InvalidDataError
from unrelu.fit.nearest import assemble
from unrelu.fit.one_pass import fit_record
from unrelu.fit.robust_rows.components import GaussianComponent, Setting
from unrelu.fit.robust_rows.mixture import Mixture, MixtureMoments
from unrelu.fit.robust_rows.selection import ColumnIndex, selected
from unrelu.fit.shrinkage import error_share
from unrelu.model import RectifiedGaussian
from unrelu.passes.pair_moments import PairMoments
from unrelu.posterior.row_scores import Values

_SAME, _IMPOSSIBLE = 1e-6, -1e4  # relative distance from a constant that is none, and log density beyond it


@dataclass(frozen=True, eq=False)
class ClusterComponent(GaussianComponent):
    """A Gaussian that is a result, not a means: its weights are numbers of rows, its correlations are assembled."""

    def refitted(self, record: PairMoments) -> ClusterComponent:
        return cluster_from(record, self.setting)


def cluster_from(record: PairMoments, setting: Setting) -> ClusterComponent:
    """The one-pass fit to a record, with one row's worth of the prior."""
    rows, pairs = fit_record(as_counts(setting.with_prior(record)), setting.assumptions)
    covariance, _ = assemble(rows.scale, pairs)
    correlation = covariance / np.outer(rows.scale, rows.scale)
    keep = 1.0 - error_share(pairs.correlation, pairs.stderr)
    shrunken = keep * correlation + (1.0 - keep) * np.eye(len(correlation))
    return ClusterComponent(setting, rows.bias, rows.scale, shrunken)


def as_counts(record: PairMoments) -> PairMoments:
    """The record of rows whose weights are numbers of rows (half of a row is a row to Kish); never fewer than two."""
    o = record.observed
    observed = None if o is None else replace(o, squared_weight=np.minimum(o.count, o.count**2 / 2.0))
    return replace(record, squared_weight=min(record.weight, record.weight**2 / 2.0), observed=observed)


@dataclass(frozen=True, eq=False)
class SharedColumns:
    """ColumnIndex too constant to tell components apart: independent, and the same in all components."""

    columns: ColumnIndex
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
class ColumnMixture:
    """Gaussians by falling share, over ``columns``, and the fits of the other columns."""

    mixture: Mixture
    columns: ColumnIndex
    shared: SharedColumns

    def __post_init__(self) -> None:
        n_features = len(self.columns) + len(self.shared.columns)
        self.mixture.check_columns(self.columns, n_features)
        if not np.array_equal(np.union1d(self.columns, self.shared.columns), np.arange(n_features)):
            raise InvalidDataError(f"columns and shared columns are not the {n_features} columns of a table")

    @property
    def n_parameters(self) -> int:
        return self.mixture.n_parameters + 2 * int(np.count_nonzero(self.shared.scale))

    def posterior(self, values: Values) -> tuple[FloatArray, FloatArray]:
        """(probabilities of the components n x K, log density of each row)."""
        share, density = self.mixture.posterior(selected(values, self.columns))
        return share, np.asarray(density + self.shared.log_density(values))

    def probabilities(self, values: Values) -> FloatArray:
        return self.posterior(values)[0]

    def log_density(self, values: Values) -> FloatArray:
        return self.posterior(values)[1]

    def distributions(self, floor: tuple[float, ...], names: tuple[str, ...] | None) -> tuple[RectifiedGaussian, ...]:
        """The components as models of all columns."""
        models = []
        for component in self.mixture.components:
            assert isinstance(component, GaussianComponent)
            bias, covariance = np.empty(len(floor)), np.zeros((len(floor), len(floor)))
            bias[self.columns], bias[self.shared.columns] = component.bias, self.shared.bias
            scales = np.outer(component.scale, component.scale)
            covariance[np.ix_(self.columns, self.columns)] = scales * component.correlation
            covariance[self.shared.columns, self.shared.columns] = self.shared.scale**2
            models.append(RectifiedGaussian(bias, covariance, floor, names))
        return tuple(models)


@dataclass(frozen=True, eq=False)
class FittedMixture(ColumnMixture):
    """The same with a report, which is what a user reads first."""

    report: MixtureReport


@dataclass(frozen=True, eq=False)
class LikelihoodQuestion:
    """Ask how likely the rows of a block are, and no more."""

    fitted: ColumnMixture

    def __call__(self, block: Block) -> MixtureMoments:
        weights = np.ones(len(block.values)) if block.weights is None else block.weights
        total = float(weights @ self.fitted.log_density(block.values))
        return MixtureMoments(records=(), totals=np.empty(0), weight=float(weights.sum()), log_likelihood=total)
