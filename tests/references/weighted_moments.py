"""The pair estimator by dense algebra and a generic root finder, from the rows themselves."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from tests.references import bivariate


def pair_rows(x1, x2, mean, scale, floor=(0.0, 0.0)):
    """n x 12: the statistics of every row, about the floor or the mean, whichever is larger."""
    columns = []
    for x, b, s, f in zip((x1, x2), mean, scale, floor, strict=True):
        p = (x > f).astype(float)
        columns.append((p, p * (x - max(b, f)) / s))
    (p1, v1), (p2, v2) = columns
    joint = [p1 * p2, v1 * v2, v1 * p2, p1 * v2, v1**2 * p2, p1 * v2**2]
    return np.stack([p1, v1, v1**2, p2, v2, v2**2, *joint], axis=1)


def expectations(a1, a2, r):
    """Mean, covariance and r-derivative of the twelve statistics, by quadrature."""
    c1, c2 = max(-a1, 0.0), max(-a2, 0.0)
    gap2 = 1.0 - r * r
    mean, second, gradient = np.zeros(12), np.zeros((12, 12)), np.zeros(12)
    for s1 in (1, -1):
        for s2 in (1, -1):
            x1, x2, weight = bivariate.grid(s1 * a1, s2 * a2, s1 * s2 * r)
            u1, u2, w = (s1 * x1).ravel(), (s2 * x2).ravel(), weight.ravel()
            p1, p2 = float(s1 > 0), float(s2 > 0)
            v1, v2, one = p1 * (u1 - c1), p2 * (u2 - c2), np.ones_like(u1)
            joint = [p1 * p2 * one, v1 * v2, v1 * p2, p1 * v2, v1**2 * p2, p1 * v2**2]
            rows = np.stack([p1 * one, v1, v1**2, p2 * one, v2, v2**2, *joint], axis=1)
            e1, e2 = (u1 - r * u2) / gap2, (u2 - r * u1) / gap2
            mean += w @ rows
            second += rows.T @ (w[:, None] * rows)
            gradient += (w * (r / gap2 + e1 * e2)) @ rows
    return mean, second - np.outer(mean, mean), gradient


def estimate(mhat: np.ndarray, n: float, a1: float, a2: float, near: float) -> tuple[float, float]:
    """(r, information per row): the root of the penalized quasi-score near a value."""

    def score(r: float) -> float:
        mean, v, g = expectations(a1, a2, r)
        return n * float(g @ np.linalg.solve(v, mhat - mean)) - r / (1.0 - r * r)

    width = 0.15 * (1.0 - near * near)  # eight standard errors at n = 3000; beyond .95 the statistics are dependent
    r = brentq(score, near - width, near + width, xtol=1e-12)
    _, v, g = expectations(a1, a2, r)
    return r, float(g @ np.linalg.solve(v, g))
