"""Exact likelihoods of censored columns and pairs of columns, maximized by general-purpose optimizers."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(300)


def marginal_log_likelihood(x: np.ndarray, mean: float, scale: float, floor: float = 0.0) -> float:
    """Sum over rows: density above the floor, probability at it."""
    seen = x > floor
    return float(norm.logpdf(x[seen], mean, scale).sum() + np.count_nonzero(~seen) * norm.logcdf(floor, mean, scale))


def fit_marginal(x: np.ndarray, floor: float = 0.0) -> tuple[float, float]:
    """(mean, scale) of one column by Nelder-Mead on (mean, log scale)."""

    def loss(theta: np.ndarray) -> float:
        return -marginal_log_likelihood(x, theta[0], np.exp(theta[1]), floor)

    start = np.array([x.mean(), np.log(x.std() + 1e-3)])
    options = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 5000, "maxfev": 5000}
    result = minimize(loss, start, method="Nelder-Mead", options=options)
    result = minimize(loss, result.x, method="Nelder-Mead", options=options)
    return float(result.x[0]), float(np.exp(result.x[1]))


def lower_orthant(h: float, k: float, r: float) -> float:
    """P(X < h, Y < k), by Gauss-Legendre in X on both sides of the bend; 1e-10 for |r| <= .999."""
    gap = np.sqrt((1.0 - r) * (1.0 + r))
    bend = np.clip(k / r if r != 0.0 else 0.0, -9.0, h) if h > -9.0 else h
    total = 0.0
    for low, high in ((-9.0, bend), (bend, h)):
        if high > low:
            x = 0.5 * (high - low) * _NODES + 0.5 * (high + low)
            total += float(0.5 * (high - low) * np.sum(_WEIGHTS * norm.pdf(x) * ndtr((k - r * x) / gap)))
    return max(total, 1e-300)


class PairLikelihood:
    """Log-likelihood of the correlation of two columns whose means and scales are given."""

    def __init__(self, x1: np.ndarray, x2: np.ndarray, mean: tuple[float, float], scale: tuple[float, float]) -> None:
        u1, u2 = (x1 - mean[0]) / scale[0], (x2 - mean[1]) / scale[1]
        self.l1, self.l2 = -mean[0] / scale[0], -mean[1] / scale[1]
        p1, p2 = x1 > 0, x2 > 0
        both = p1 & p2
        self.n_both = np.count_nonzero(both)
        self.squares = float(np.sum(u1[both] ** 2 + u2[both] ** 2))
        self.product = float(np.sum(u1[both] * u2[both]))
        self.only1, self.only2 = u1[p1 & ~p2], u2[p2 & ~p1]
        self.n_none = np.count_nonzero(~p1 & ~p2)

    def __call__(self, r: float) -> float:
        gap2 = (1.0 - r) * (1.0 + r)
        gap = np.sqrt(gap2)
        value = -0.5 * self.n_both * np.log(gap2) - (self.squares - 2.0 * r * self.product) / (2.0 * gap2)
        value += log_ndtr((self.l2 - r * self.only1) / gap).sum()
        value += log_ndtr((self.l1 - r * self.only2) / gap).sum()
        if self.n_none:
            value += self.n_none * np.log(lower_orthant(self.l1, self.l2, r))
        return float(value)

    def maximize(self) -> float:
        result = minimize_scalar(
            lambda z: -self(np.tanh(z)), bounds=(-3.8, 3.8), method="bounded", options={"xatol": 1e-7}
        )
        return float(np.tanh(result.x))


def pairwise_correlations(x: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The exact pairwise likelihood estimate of every correlation, marginals plugged in."""
    d = x.shape[1]
    r = np.eye(d)
    for i in range(d):
        for j in range(i + 1, d):
            pair = PairLikelihood(x[:, i], x[:, j], (mean[i], mean[j]), (scale[i], scale[j]))
            r[i, j] = r[j, i] = pair.maximize()
    return r
