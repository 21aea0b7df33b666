"""The standard normal density phi, distribution Phi and hazard phi/Phi, for use inside other kernels.

Numbers stay numbers however far out: what is beyond 1e150 counts as that far.
"""

from __future__ import annotations

import math

from unrelu.kernels.compiling import kernel

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_INV_SQRT_2PI = 1.0 / _SQRT_2PI
_LOG_2PI = math.log(2.0 * math.pi)
_DEEP = -35.0  # below it Phi underflows soon, and its asymptotic series is exact to rounding
_DEEPER = -1e3  # below it lambda + a has lost its digits, and the first term of its series has them
_DEEPEST = -1e150  # its square is a number


@kernel
def density(x: float) -> float:
    """phi(x)."""
    return _INV_SQRT_2PI * math.exp(-0.5 * x * x)


@kernel
def distribution(x: float) -> float:
    """Phi(x), accurate in the lower tail."""
    return 0.5 * math.erfc(-x * _SQRT_HALF)


@kernel
def log_probability_and_hazard(a: float) -> tuple[float, float]:
    """(log Phi(a), lambda = phi(a)/Phi(a))."""
    if a > _DEEP:
        probability = distribution(a)
        return math.log(probability), math.exp(-0.5 * a * a) / (_SQRT_2PI * probability)
    a = max(a, _DEEPEST)
    square = 1.0 / (a * a)
    series = 1.0 - square * (1.0 - 3.0 * square * (1.0 - 5.0 * square * (1.0 - 7.0 * square)))
    return -0.5 * (a * a + _LOG_2PI) - math.log(-a) + math.log(series), -a / series


@kernel
def cut_share(a: float, hazard: float) -> float:
    """lambda (lambda + a): the share of its variance that a standard normal loses where it is cut off above a."""
    return hazard * (hazard + a) if a > _DEEPER else 1.0 - 1.0 / max(a, _DEEPEST) ** 2


@kernel
def cut_normal(alpha: float) -> tuple[float, float, float]:
    """(log Phi, lambda, variance) of a standard normal below alpha; the variance without cancellation in the tail."""
    log_probability, hazard = log_probability_and_hazard(alpha)
    left = 1.0 - hazard * (hazard + alpha) if alpha > _DEEP else 1.0 / (alpha * alpha)
    return log_probability, hazard, max(left, 1e-14)
