"""Moments and quantiles of f(y) for a column's hidden cells, whose y is a normal cut off at a limit.

    E f(y) = integral of f(centre + width z) phi(z) dz / Phi(alpha)    over z <= alpha = (limit - centre)/width,

for "at most"; "at least" is turned upside down. By Gauss and Legendre where the density is: below
alpha, down to -sqrt(min(alpha, 0)^2 + 70), where it has fallen by e^-35. What a table would show of a missing cell,
max(f(y), floor), is the floor with the probability below it, and f(y) above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from unrelu.contracts import FloatArray, Marks

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_REACH = 70.0
_NO_WIDTH = 1e-300
_LARGEST = 1e300  # what no f is above, where a row is so far off that it would be infinite


def finite(f: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    """f, whose values are numbers wherever it is asked.

    >>> finite(np.exp)(np.array([0.0, 1e6]))
    array([1.e+000, 1.e+300])
    """

    def numbers(y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.clip(f(y), -_LARGEST, _LARGEST)

    return numbers


@dataclass(frozen=True)
class Limits:
    """Of one column: the floor and the ceiling of x, and where they are on y's scale."""

    floor: float
    ceiling: float
    low: float
    high: float

    @classmethod
    def of(cls, model: RectifiedGaussian, j: int) -> Self:
        latent = model.latent
        return cls(*(float(limit[j]) for limit in (model.floor, model.ceiling, latent.floor, latent.ceiling)))


@dataclass(frozen=True, eq=False)
class CutNormals:
    """One normal per cell, cut off at ``limit`` as its mark says; a mark of 0 leaves it whole."""

    centre: FloatArray
    width: FloatArray
    limit: FloatArray
    mark: Marks

    @property
    def _turn(self) -> FloatArray:
        return np.where(self.mark > 0, -1.0, 1.0)

    @property
    def _alpha(self) -> FloatArray:
        alpha = self._turn * (self.limit - self.centre) / np.maximum(self.width, _NO_WIDTH)
        return np.where(self.mark == 0, np.inf, np.clip(alpha, -1e150, 1e150))

    def moments(self, f: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of f(y).

        >>> one = CutNormals(np.zeros(1), np.ones(1), np.zeros(1), np.array([-1], dtype=np.int8))
        >>> one.moments(np.positive)[0].round(6), one.moments(np.exp)[0].round(6)  # -sqrt(2/pi), 2 sqrt(e) Phi(-1)
        (array([-0.797885]), array([0.523157]))
        """
        alpha = self._alpha
        low = -np.sqrt(np.minimum(alpha, 0.0) ** 2 + _REACH)
        high = np.minimum(alpha, np.sqrt(_REACH))
        z = 0.5 * (high - low)[:, None] * _NODES + 0.5 * (high + low)[:, None]
        weight = _WEIGHTS * np.exp(0.5 * (np.minimum(alpha, 0.0)[:, None] ** 2 - z * z))
        weight /= weight.sum(axis=1, keepdims=True)
        return _weighted(weight, finite(f)(self.centre[:, None] + (self._turn * self.width)[:, None] * z))

    def shown_moments(self, f: Callable[[FloatArray], FloatArray], limits: Limits) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of f(y) cut off at the column's limits, of normals that are whole.

        >>> one = CutNormals(np.zeros(1), np.ones(1), np.zeros(1), np.zeros(1, dtype=np.int8))
        >>> one.shown_moments(np.positive, Limits(0.0, np.inf, 0.0, np.inf))[0].round(6)  # 1 / sqrt(2 pi)
        array([0.398942])
        """
        width, reach = np.maximum(self.width, _NO_WIDTH), np.sqrt(_REACH)
        low, high = ((edge - self.centre) / width for edge in (limits.low, limits.high))
        chances = ndtr(low), ndtr(-high)
        ends = np.clip(low, -reach, reach), np.clip(high, -reach, reach)
        z = 0.5 * (ends[1] - ends[0])[:, None] * _NODES + 0.5 * (ends[1] + ends[0])[:, None]
        # The largest weight is 1, so that they sum to something wherever the middle is.
        weight = _WEIGHTS * np.exp(0.5 * (np.min(np.abs(z), axis=1, keepdims=True) ** 2 - z * z))
        weight *= np.maximum(1.0 - chances[0] - chances[1], 0.0)[:, None] / weight.sum(axis=1, keepdims=True)
        x = np.clip(finite(f)(self.centre[:, None] + self.width[:, None] * z), limits.floor, limits.ceiling)
        at_limits = [np.full(len(x), limit if np.isfinite(limit) else 0.0) for limit in (limits.floor, limits.ceiling)]
        return _weighted(np.column_stack([weight, *chances]), np.column_stack([x, *at_limits]))

    def quantile(self, p: float) -> FloatArray:
        """The p-quantile of y.

        >>> whole = CutNormals(np.zeros(1), np.ones(1), np.zeros(1), np.array([0], dtype=np.int8))
        >>> whole.quantile(0.975).round(2)
        array([1.96])
        """
        share = np.where(self._turn > 0.0, p, 1.0 - p)
        with np.errstate(divide="ignore"):
            z = ndtri_exp(np.log(share) + log_ndtr(self._alpha))
        return np.asarray(self.centre + self._turn * self.width * z)


def _weighted(weight: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations along rows, whose weights sum to 1, in units in which squares do not overflow."""
    unit = np.maximum(np.max(np.abs(x), axis=1, keepdims=True), _NO_WIDTH)
    x = x / unit
    mean = np.sum(weight * x, axis=1)
    std = np.sqrt(np.sum(weight * (x - mean[:, None]) ** 2, axis=1))
    return mean * unit[:, 0], std * unit[:, 0]
