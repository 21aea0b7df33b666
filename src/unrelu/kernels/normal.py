"""The standard normal density phi, distribution Phi and hazard phi/Phi, for use inside other kernels."""

from __future__ import annotations

import math

from numba import njit

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_INV_SQRT_2PI = 1.0 / _SQRT_2PI
_LOG_2PI = math.log(2.0 * math.pi)
_DEEP = -35.0  # below it Phi underflows soon, and its asymptotic series is exact to rounding


@njit(cache=True, nogil=True, inline="always")
def density(x: float) -> float:
    """phi(x)."""
    return _INV_SQRT_2PI * math.exp(-0.5 * x * x)


@njit(cache=True, nogil=True, inline="always")
def distribution(x: float) -> float:
    """Phi(x), accurate in the lower tail."""
    return 0.5 * math.erfc(-x * _SQRT_HALF)


@njit(cache=True, nogil=True, inline="always")
def log_probability_and_hazard(a: float) -> tuple[float, float]:
    """(log Phi(a), lambda = phi(a)/Phi(a))."""
    if a > _DEEP:
        probability = distribution(a)
        return math.log(probability), math.exp(-0.5 * a * a) / (_SQRT_2PI * probability)
    square = 1.0 / (a * a)
    series = 1.0 - square * (1.0 - 3.0 * square * (1.0 - 5.0 * square * (1.0 - 7.0 * square)))
    return -0.5 * (a * a + _LOG_2PI) - math.log(-a) + math.log(series), -a / series
