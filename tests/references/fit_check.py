"""The check of a fit as its definition has it: loops, SciPy's distributions, quadrature."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import multivariate_normal, norm


def anderson_darling(values: np.ndarray, low: float, high: float, mean: float, scale: float) -> float:
    """Of values off the limits of N(mean, scale^2), plus the squared difference of the numbers at a limit."""
    distribution = norm(mean, scale)
    observed = [x for x in values if not math.isnan(x)]
    seen = sorted(x for x in observed if low < x < high)
    share = distribution.cdf(high) - distribution.cdf(low)
    n, total = len(seen), 0.0
    for i, x in enumerate(seen, start=1):
        mirror = seen[n - i]
        below = (distribution.cdf(x) - distribution.cdf(low)) / share
        above = 1.0 - (distribution.cdf(mirror) - distribution.cdf(low)) / share
        total += (2 * i - 1) * (math.log(below) + math.log(above))
    off = 0.0 if share == 1.0 else (n - len(observed) * share) ** 2 / (len(observed) * share * (1.0 - share))
    return -n - total / n + off


def threshold(level: float, low: float, high: float) -> float:
    """The quantile of a standard normal that is seen between two limits."""
    return float(norm.ppf(norm.cdf(low) + level * (norm.cdf(high) - norm.cdf(low))))


def joint_share(t1: float, t2: float, r: float) -> float:
    """P(u1 > t1, u2 > t2)."""
    return float(multivariate_normal([0.0, 0.0], [[1.0, r], [r, 1.0]]).cdf([-t1, -t2]))


def correlation_above(t1: float, t2: float, r: float) -> float:
    """The correlation of u1 and u2 given that both are above: moments of u2 given u1, by quadrature over u1."""
    gap = math.sqrt(1.0 - r * r)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    u, w = t1 + 6.0 * (nodes + 1.0), 6.0 * weights  # up to 12 above
    a = (t2 - r * u) / gap
    tail, edge, mean = norm.sf(a), norm.pdf(a), r * u
    second = [tail, mean * tail + gap * edge, (mean**2 + gap**2) * tail + gap * (mean + t2) * edge]

    def moment(p: int, q: int) -> float:
        return float(np.sum(w * u**p * norm.pdf(u) * second[q]))

    n = moment(0, 0)
    m1, m2 = moment(1, 0) / n, moment(0, 1) / n
    v1, v2 = moment(2, 0) / n - m1**2, moment(0, 2) / n - m2**2
    return (moment(1, 1) / n - m1 * m2) / math.sqrt(v1 * v2)


def pair_numbers(u: np.ndarray, t: list[tuple[float, float]], r: float) -> tuple[float, float, float]:
    """The three numbers of two columns of scores, NaN where missing."""
    observed = [(a, b) for a, b in u if not (math.isnan(a) or math.isnan(b))]
    found = []
    for t1, t2 in t:
        p1, p2 = norm.sf(t1), norm.sf(t2)
        products = [((a > t1) - p1) * ((b > t2) - p2) for a, b in observed]
        found.append(sum(products) / len(observed) - (joint_share(t1, t2, r) - p1 * p2))
    both = np.array([(a, b) for a, b in observed if a > t[0][0] and b > t[0][1]])
    z = np.arctanh(np.corrcoef(both.T)[0, 1]) - np.arctanh(correlation_above(*t[0], r))
    return (*found, float(z))
