"""Log densities of rows and residuals of cells under y ~ N(bias, covariance) cut off at a floor.

The mathematics is in :mod:`unrelu.kernels.row_density`, and for correlations of factors and noise in
:mod:`unrelu.kernels.factor_density`. Densities are per unit of each column's own scale, so that
they do not depend on the units of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.kernels.factor_density import factor_log_densities
from unrelu.kernels.row_density import cell_residuals, log_densities, seen_totals
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import map_in_threads
from unrelu.passes.tiles import seen_above
from unrelu.posterior.prepared import IMPOSSIBLE, RIDGE, PreparedNormal, row_shares

_LOG_2PI_E = float(np.log(2.0 * np.pi) + 1.0)

Values = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class RowScores(PreparedNormal):
    """A model, prepared for scoring rows. ``floor``: at or below it a cell only says "not above".

    ``loadings`` L may be given where the correlations are L L' and noise: densities are the same, and far cheaper.
    """

    floor: FloatArray
    loadings: FloatArray | None = None

    @classmethod
    def of(cls, model: RectifiedGaussian, floor_tolerance: float = 0.0) -> Self:
        """By the model's scoring covariance; values up to the tolerance above its floor count as floored."""
        by = model.scoring
        scores = cls(by.bias, by.row_norms, by.correlation, by.floor + floor_tolerance)
        scores.warn_if_singular()
        return scores

    @cached_property
    def log_cell_unit(self) -> FloatArray:
        """Per column: log of sqrt(2 pi e) times the spread it has given all others, in its own scale; 0 if constant.

        The entropy of a normal of that spread, so that a seen cell adds about 0 to a score whatever the correlations.
        """
        unit = np.zeros(len(self.scale))
        unit[self.varying] = 0.5 * (_LOG_2PI_E - np.log(np.diagonal(self.inverse[0])))
        return unit

    def score(self, values: Values) -> FloatArray:
        """Log density per cell unit: rows are compared whatever the number of their cells above the floor."""
        return self.log_density(values) + seen_sum(values, self.floor, self.log_cell_unit)

    def log_density(self, values: Values) -> FloatArray:
        """Per unit of scale, one number per row of ``values``; missing cells are integrated over."""
        out = np.empty(len(values))
        kernel: Any = log_densities
        normal: tuple[Any, ...] = self.inverse if self.loadings is None else ()
        if self.loadings is not None:
            loadings = np.ascontiguousarray(self.loadings[self.varying])
            kernel, normal = factor_log_densities, (loadings, 1.0 - np.sum(loadings * loadings, axis=1) + RIDGE)
        map_in_threads(
            lambda rows: kernel(*self._varying_part(values[rows]), *normal, out[rows]), row_shares(len(values))
        )
        return out if self.varying.all() else out + IMPOSSIBLE * self._off_constants(values)

    def table_log_density(self, values: Values) -> FloatArray:
        """The same in the units of the table, so that densities under different models compare.

        >>> model = RowScores(np.zeros(1), np.array([2.0]), np.eye(1), np.zeros(1))
        >>> model.table_log_density(np.array([[0.0], [2.0]]))  # log 1/2, and log N(2; 0, 4)
        array([-0.69314718, -2.11208571])
        """
        return self.log_density(values) - seen_sum(values, self.floor, self.log_scale)

    def cell_residuals(self, values: Values) -> FloatArray:
        """Per cell: distance from what the row's other cells predict, in standard deviations.

        For a floored cell the distance of the floor, so -5 says that so low a value was as unlikely as 5 standard
        deviations, and a positive number that it was to be expected. NaN where missing or in a constant column.
        """
        precision, _ = self.inverse
        varying = np.empty((len(values), len(precision)))
        map_in_threads(
            lambda rows: cell_residuals(*self._varying_part(values[rows]), precision, varying[rows]),
            row_shares(len(values)),
        )
        out = np.full(values.shape, np.nan)
        out[:, self.varying] = varying
        return out

    def strange(self, values: Values, residuals: FloatArray) -> FloatArray:
        """Residuals of cells as far as they are strange, in place.

        A floored cell that was to be expected there counts 0, a cell off its column's constant counts infinitely.
        """
        residuals[(values <= seen_above(self.floor, values)) & (residuals > 0.0)] = 0.0
        at = np.flatnonzero(~self.varying)
        constant = np.maximum(self.bias, self.floor)[at]
        gap = np.maximum(values[:, at], self.floor[at]) - constant
        off = np.abs(gap) > 1e-6 * np.abs(constant)
        residuals[:, at] = np.where(off, np.copysign(np.inf, gap), residuals[:, at])
        return residuals

    def _varying_part(self, values: Values) -> tuple[Values, FloatArray, FloatArray, FloatArray]:
        """(values, floor, bias, scale) of the columns that vary."""
        at = self.varying
        floor = seen_above(self.floor, values)[at]
        return plain(values if at.all() else values[:, at]), floor, self.bias[at], self.scale[at]

    def _off_constants(self, values: Values) -> FloatArray:
        """Per row, the number of cells that differ from their column's constant."""
        at = ~self.varying
        if not at.any():
            return np.zeros(len(values))
        constant = np.maximum(self.bias, self.floor)[at].astype(values.dtype)
        x = np.maximum(values[:, at], self.floor[at].astype(values.dtype))
        off = np.abs(x - constant) > 1e-6 * np.abs(constant)
        return np.asarray(np.sum(off, axis=1, dtype=np.float64))


def seen_sum(values: Values, floor: FloatArray, terms: FloatArray) -> FloatArray:
    """Per row, the sum of ``terms`` over the cells above their floor.

    >>> seen_sum(np.array([[0.0, 2.0], [1.0, 3.0]]), np.zeros(2), np.array([1.0, 10.0]))
    array([10., 11.])
    """
    out, stored = np.empty(len(values)), seen_above(floor, values)
    map_in_threads(lambda rows: seen_totals(plain(values[rows]), stored, terms, out[rows]), row_shares(len(values)))
    return out


def plain(values: Values) -> Values:
    """In C order and writeable: the kernels are compiled for that kind alone."""
    return values if values.flags.c_contiguous and values.flags.writeable else np.array(values, order="C")
