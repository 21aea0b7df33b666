"""Two floored unit normals by two-dimensional quadrature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(120)


def upper_orthant(h: float, k: float, r: float) -> float:
    """P(X > h, Y > k) by adaptive integration of the conditional probability, split where it bends."""
    if abs(r) == 1.0:
        return float(norm.sf(max(h, k))) if r > 0 else float(max(0.0, norm.cdf(-k) - norm.cdf(h)))
    gap = np.sqrt((1.0 - r) * (1.0 + r))

    def integrand(x: float) -> float:
        return norm.pdf(x) * norm.cdf((r * x - k) / gap)

    low, high = max(h, -13.0), max(h, 0.0) + 13.0
    bend = k / r if r != 0.0 else 0.0
    width = 9.0 * gap / max(abs(r), 0.1)
    points = sorted({p for p in (bend - width, bend, bend + width, 0.0) if low < p < high})
    edges = [low, *points, high]
    return sum(quad(integrand, a, b, epsabs=1e-16, epsrel=1e-13, limit=400)[0] for a, b in pairwise(edges))


def grid(a1: float, a2: float, r: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (u1, u2) with u1 > -a1, u2 > -a2 and weights of the density phi2: Gauss-Legendre, u2 given u1."""
    low, high = -a1, max(-a1, 0.0) + 10.0
    x1 = 0.5 * (high - low) * _NODES + 0.5 * (high + low)
    w1 = 0.5 * (high - low) * _WEIGHTS * norm.pdf(x1)
    gap = np.sqrt(1.0 - r * r)
    low2 = np.maximum(-a2, r * x1 - 10.0 * gap)
    high2 = np.maximum(low2, r * x1 + 10.0 * gap)
    half = 0.5 * (high2 - low2)[:, None]
    x2 = half * _NODES[None, :] + 0.5 * (high2 + low2)[:, None]
    w2 = half * _WEIGHTS[None, :] * norm.pdf((x2 - r * x1[:, None]) / gap) / gap
    return np.broadcast_to(x1[:, None], x2.shape), x2, w1[:, None] * w2


def joint_moment(a1: float, a2: float, r: float, p: int, q: int, c1: float = 0.0, c2: float = 0.0) -> float:
    """E[(u1 - c1)^p (u2 - c2)^q 1{u1 > -a1, u2 > -a2}]."""
    x1, x2, weight = grid(a1, a2, r)
    return float(np.sum(weight * (x1 - c1) ** p * (x2 - c2) ** q))


def marginal_moment(a: float, p: int, c: float = 0.0) -> float:
    """E[(u - c)^p 1{u > -a}]."""
    value, _ = quad(
        lambda u: (u - c) ** p * norm.pdf(u), -a, max(-a, 0.0) + 14.0, epsabs=1e-14, epsrel=1e-12, limit=200
    )
    return float(value)
