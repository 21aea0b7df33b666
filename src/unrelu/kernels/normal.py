"""The standard normal density phi, distribution Phi and hazard phi/Phi, and the bivariate normal, for other kernels.

Numbers stay numbers however far out: what is beyond 1e150 counts as that far. The bivariate distribution is right to
1e-15 absolute: Drezner & Wesolowsky (1990) as refined by Genz, "Numerical computation of rectangular bivariate and
trivariate normal and t probabilities", Statistics and Computing 14 (2004). With Q(h, k; r) = P(X > h, Y > k):

    dQ/dr = phi2(h, k; r)   (Plackett),   Q(h, k; 0) = Phi(-h) Phi(-k).

Moderate |r|: integrate Plackett's identity from 0 to r after r = sin(t). Large |r|: integrate from r to 1, where the
integrand is singular; its leading part is integrated in closed form and only the smooth remainder by quadrature.
"""

from __future__ import annotations

import math

import numpy as np

from unrelu.kernels.compiling import helper, kernel

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_INV_SQRT_2PI = 1.0 / _SQRT_2PI
_LOG_2PI = math.log(2.0 * math.pi)
_DEEP = -35.0  # below it Phi underflows soon, and its asymptotic series is exact to rounding
_DEEPER = -1e3  # below it lambda + a has lost its digits, and the first term of its series has them
_DEEPEST = -1e150  # its square is a number
_TWO_PI = 2.0 * math.pi
_LARGE = 0.925  # beyond this |r| the expansion around |r| = 1 is the accurate one

# Gauss-Legendre rules, one after the other: the larger |r|, the more the integrand bends.
_RULES = [np.polynomial.legendre.leggauss(n) for n in (6, 12, 20)]
_END_6, _END_12, _END_20 = 6, 18, 38
_NODES, _WEIGHTS = (np.concatenate([rule[part] for rule in _RULES]) for part in range(2))


@helper
def density(x: float) -> float:
    """phi(x)."""
    return _INV_SQRT_2PI * math.exp(-0.5 * x * x)


@helper
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


@helper
def cut_share(a: float, hazard: float) -> float:
    """lambda (lambda + a): the share of its variance that a standard normal loses where it is cut off above a."""
    return hazard * (hazard + a) if a > _DEEPER else 1.0 - 1.0 / max(a, _DEEPEST) ** 2


@helper
def cut_normal(alpha: float) -> tuple[float, float, float]:
    """(log Phi, lambda, variance) of a standard normal below alpha; the variance without cancellation in the tail."""
    log_probability, hazard = log_probability_and_hazard(alpha)
    left = 1.0 - hazard * (hazard + alpha) if alpha > _DEEP else 1.0 / (alpha * alpha)
    return log_probability, hazard, max(left, 1e-14)


@helper
def _plackett_integral(h: float, k: float, r: float, first: int, last: int) -> float:
    """Integral of phi2(h, k; s) ds from 0 to r, with s = sin(t)."""
    half_square = 0.5 * (h * h + k * k)
    product = h * k
    half_angle = 0.5 * math.asin(r)
    total = 0.0
    for i in range(first, last):
        s = math.sin(half_angle * (1.0 + _NODES[i]))
        total += _WEIGHTS[i] * math.exp((s * product - half_square) / (1.0 - s * s))
    return total * half_angle / _TWO_PI


@helper
def _integral_to_one(h: float, k: float, r: float) -> float:
    """Integral of phi2(h, k; s) ds from r to 1, for r close to 1 (k already negated if r was negative)."""
    product = h * k
    gap2 = (1.0 - r) * (1.0 + r)
    gap = math.sqrt(gap2)
    distance2 = (h - k) * (h - k)
    c = (4.0 - product) / 8.0
    d = (12.0 - product) / 16.0
    total = 0.0
    exponent = -0.5 * (distance2 / gap2 + product)
    if exponent > -100.0:
        total = (
            gap
            * math.exp(exponent)
            * (1.0 - c * (distance2 - gap2) * (1.0 - d * distance2 / 5.0) / 3.0 + c * d * gap2 * gap2 / 5.0)
        )
    if product > -100.0:
        distance = math.sqrt(distance2)
        tail = math.sqrt(_TWO_PI) * distribution(-distance / gap)
        total -= math.exp(-0.5 * product) * tail * distance * (1.0 - c * distance2 * (1.0 - d * distance2 / 5.0) / 3.0)
    half = 0.5 * gap
    for i in range(_END_12, _END_20):
        x = half * (1.0 + _NODES[i])
        x2 = x * x
        exponent = -0.5 * (distance2 / x2 + product)
        if exponent > -100.0:
            root = math.sqrt(1.0 - x2)
            series = 1.0 + c * x2 * (1.0 + d * x2)
            exact = math.exp(-product * x2 / (2.0 * (1.0 + root) * (1.0 + root))) / root
            total += half * _WEIGHTS[i] * math.exp(exponent) * (exact - series)
    return total / _TWO_PI


@kernel
def upper_orthant(h: float, k: float, r: float) -> float:
    """P(X > h, Y > k) for standard normals with correlation r, -1 <= r <= 1."""
    size = abs(r)
    if size < _LARGE:
        first, last = _END_12, _END_20
        if size < 0.3:
            first, last = 0, _END_6
        elif size < 0.75:
            first, last = _END_6, _END_12
        p = distribution(-h) * distribution(-k) + _plackett_integral(h, k, r, first, last)
    else:
        # Negate Y where r < 0: P(X > h, Y > k; r) = P(X > h) - P(X > h, -Y > -k; -r).
        p = 0.0 if size >= 1.0 else _integral_to_one(h, math.copysign(1.0, r) * k, size)
        if r > 0.0:
            p = distribution(-max(h, k)) - p
        elif h < -k:
            low, high = (h, k) if h < 0.0 else (k, h)
            p += distribution(-high) - distribution(low)
    return min(max(p, 0.0), 1.0)


@kernel
def bivariate_density(h: float, k: float, r: float) -> float:
    """phi2(h, k; r)."""
    gap2 = (1.0 - r) * (1.0 + r)
    gap = math.sqrt(gap2)
    return density(h) * density((k - r * h) / gap) / gap
