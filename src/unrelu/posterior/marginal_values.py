"""Moments and quantiles of f(y) for a column's hidden cells, whose y is a normal cut off at a limit.

    E f(y) = integral of f(centre + width z) phi(z) dz / Phi(alpha)    over z <= alpha = (limit - centre)/width,

for "at most"; "at least" is turned upside down. By Gauss and Legendre where the density is: below
alpha, down to -sqrt(min(alpha, 0)^2 + 70), where it has fallen by e^-35.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from unrelu.contracts import FloatArray, Marks

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
        y = self.centre[:, None] + (self._turn * self.width)[:, None] * z
        x = f(y)
        mean = np.sum(weight * x, axis=1)
        # Squares of huge or tiny numbers are none; a power of 2 takes no digit from others.
        unit = np.ldexp(1.0, np.frexp(np.abs(x).max(axis=1, initial=0.0))[1] - 1)
        return mean, unit * np.sqrt(np.sum(weight * ((x - mean[:, None]) / unit[:, None]) ** 2, axis=1))

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
