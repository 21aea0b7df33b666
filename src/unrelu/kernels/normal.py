"""The standard normal density phi and distribution Phi, for use inside other kernels."""

from __future__ import annotations

import math

from numba import njit

_SQRT_HALF = math.sqrt(0.5)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


@njit(cache=True, nogil=True, inline="always")
def density(x: float) -> float:
    """phi(x)."""
    return _INV_SQRT_2PI * math.exp(-0.5 * x * x)


@njit(cache=True, nogil=True, inline="always")
def distribution(x: float) -> float:
    """Phi(x), accurate in the lower tail."""
    return 0.5 * math.erfc(-x * _SQRT_HALF)
