"""Hidden cells of rows under y ~ N(bias, covariance): log densities, and posterior moments.

The mathematics is in :mod:`unrelu.kernels.hidden_cells`, and so is what ``beyond`` says of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from unrelu.contracts import FloatArray, Marks
from unrelu.kernels.hidden_cells import hidden_rows
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import map_in_threads
from unrelu.posterior.prepared import IMPOSSIBLE, PreparedNormal, row_shares


@dataclass(frozen=True, eq=False)
class Marginals:
    """Of every cell, n x d: posterior mean and standard deviation, and its marginal.

    That is a normal of mean ``centre`` and standard deviation ``width``, cut off at the cell's limit. A seen cell has
    its value and 0.
    """

    mean: FloatArray
    std: FloatArray
    centre: FloatArray
    width: FloatArray


class HiddenCells(PreparedNormal):
    """A model of latent values, prepared for rows with cells that are cut off or missing.

    >>> model = HiddenCells(np.zeros(2), np.ones(2), np.array([[1.0, 0.6], [0.6, 1.0]]))
    >>> rows, beyond = np.array([[0.0, 1.0], [0.0, np.nan]]), np.array([[-1, 0], [-1, 0]], dtype=np.int8)
    >>> model.log_density(rows, beyond).round(4)  # log phi(1) Phi(-.6/.8), and log 1/2
    array([-2.9034, -0.6931])
    >>> model.marginals(rows, beyond).mean.round(4)
    array([[-0.463 ,  1.    ],
           [-0.7979, -0.4787]])
    """

    @classmethod
    def of(cls, model: RectifiedGaussian) -> Self:
        """The latent part of a model, by its scoring covariance."""
        by = model.latent.scoring
        return cls(by.bias, by.row_norms, by.correlation)

    def log_density(self, values: FloatArray, beyond: Marks) -> FloatArray:
        """Of each row, in the units of ``values``: density of what is seen, probability of what is cut off."""
        out = np.empty(len(values))
        map_in_threads(lambda rows: self._rows(values, beyond, rows, out, None), row_shares(len(values)))
        return self._in_units(values, beyond, out)

    def marginals(self, values: FloatArray, beyond: Marks) -> Marginals:
        """The posterior of every cell."""
        out, moments = np.empty(len(values)), np.empty((4, *values.shape))
        moments[0::2], moments[1::2] = self.bias, 0.0
        map_in_threads(lambda rows: self._rows(values, beyond, rows, out, moments), row_shares(len(values)))
        mean, variance, centre, width = moments
        return Marginals(mean, np.sqrt(variance), centre, np.sqrt(width))

    def _rows(
        self, values: FloatArray, beyond: Marks, rows: slice, out: FloatArray, moments: FloatArray | None
    ) -> None:
        at, d = self.varying, int(self.varying.sum())
        part = self.part(values[rows], beyond[rows])
        found = np.empty((4, 0 if moments is None else len(part[0]), d))
        hidden_rows(*part, self.inverse[0], out[rows], found, np.empty((0, 0)))
        if moments is not None:
            part_of = moments[:, rows]
            part_of[:, :, at] = found * self.scale[at]
            part_of[0::2, :, at] += self.bias[at]
            part_of[1::2, :, at] *= self.scale[at]

    def joint(self, values: FloatArray, beyond: Marks) -> tuple[FloatArray, FloatArray]:
        """Posterior mean (d) and covariance (d x d) of the cells of one row (1 x d)."""
        at, d = self.varying, int(self.varying.sum())
        moments, spread = np.empty((4, 1, d)), np.zeros((d, d))
        hidden_rows(*self.part(values, beyond), self.inverse[0], np.empty(1), moments, spread)
        mean, covariance = self.bias.copy(), np.zeros((len(at), len(at)))
        mean[at] += self.scale[at] * moments[0, 0]
        covariance[np.ix_(at, at)] = spread * np.outer(self.scale[at], self.scale[at])
        return mean, covariance

    def part(self, values: FloatArray, beyond: Marks) -> tuple[FloatArray, Marks, FloatArray, FloatArray]:
        """(values, beyond, bias, scale) of the columns that vary, in C order."""
        at = self.varying
        if not at.all():
            values, beyond = values[:, at], beyond[:, at]
        kind: Any = ("C", "W")
        x, marks = np.require(values, np.float64, kind), np.require(beyond, np.int8, kind)
        return x, marks, self.bias[at], self.scale[at]

    def _in_units(self, values: FloatArray, beyond: Marks, out: FloatArray) -> FloatArray:
        """Log densities per unit of scale as those of the table; constant columns are met or not."""
        seen = (beyond == 0) & ~np.isnan(values)
        found: FloatArray = out - 0.5 * self.inverse[1] - seen @ self.log_scale
        if self.varying.all():
            return found
        at = ~self.varying
        off, constant = values[:, at] - self.bias[at], np.abs(self.bias[at])
        mark = beyond[:, at]
        wrong = np.where(mark == 0, np.abs(off), np.maximum(mark * off, 0.0)) > 1e-6 * np.maximum(constant, 1e-300)
        return np.asarray(found + IMPOSSIBLE * wrong.sum(axis=1))
