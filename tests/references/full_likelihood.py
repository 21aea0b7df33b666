"""The exact likelihood of rows with cut-off and missing cells, with scipy's integrals, and its maximum by BFGS."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal


def parameters(mean, covariance):
    """(mean, log scales, Fisher's z of the correlations), one vector."""
    scale = np.sqrt(np.diagonal(covariance))
    r = (covariance / np.outer(scale, scale))[np.triu_indices(len(mean), 1)]
    return np.concatenate([mean, np.log(scale), np.arctanh(r)])


def model(theta, d):
    """(mean, covariance) of such a vector."""
    r = np.zeros((d, d))
    r[np.triu_indices(d, 1)] = np.tanh(theta[2 * d :])
    r = r + r.T + np.eye(d)
    scale = np.exp(theta[d : 2 * d])
    return theta[:d], r * np.outer(scale, scale)


def log_likelihood(theta, values, censoring):
    """Rows with the same cells hidden together: density of the seen cells, probability of the others given these."""
    mean, covariance = model(theta, values.shape[1])
    if np.linalg.eigvalsh(covariance)[0] < 1e-9:
        return -np.inf
    kinds = np.where(np.isnan(values), 2, censoring)
    total = 0.0
    for kind in np.unique(kinds, axis=0):
        x = values[np.all(kinds == kind, axis=1)]
        seen, cut = kind == 0, np.abs(kind) == 1
        s_cc, expected = covariance[np.ix_(cut, cut)], np.tile(mean[cut], (len(x), 1))
        if seen.any():
            s_oo, gap = covariance[np.ix_(seen, seen)], x[:, seen] - mean[seen]
            total += np.sum(multivariate_normal.logpdf(gap, cov=s_oo))
            gain = np.linalg.solve(s_oo, covariance[np.ix_(seen, cut)])
            expected, s_cc = expected + gap @ gain, s_cc - covariance[np.ix_(cut, seen)] @ gain
        if cut.any():
            turn = -kind[cut].astype(float)
            a, signed = turn * (x[:, cut] - expected), s_cc * np.outer(turn, turn)
            if cut.sum() == 1:
                total += np.sum(log_ndtr(a / np.sqrt(signed[0, 0])))
            else:
                rows, counts = np.unique(a.round(12), axis=0, return_counts=True)
                total += counts @ np.log(np.atleast_1d(multivariate_normal.cdf(rows, cov=signed, abseps=1e-9, rng=0)))
    return float(total)


def maximum(values, censoring, start):
    """The vector of most likely parameters, and the inverse Hessian of the negative log-likelihood there."""
    d = values.shape[1]
    found = minimize(lambda t: -log_likelihood(t, values, censoring), start, method="BFGS", options={"gtol": 1e-3})
    steps = 1e-3 * np.eye(2 * d + d * (d - 1) // 2)
    hessian = np.array(
        [
            [
                sum(
                    a * b * -log_likelihood(found.x + a * e + b * f, values, censoring)
                    for a in (1, -1)
                    for b in (1, -1)
                )
                for f in steps
            ]
            for e in steps
        ]
    )
    return found.x, np.linalg.inv(hessian / 4e-6)


def sandwich(values, censoring, best, inverse):
    """A^-1 B A^-1 for the inverse Hessian of :func:`maximum`, with every row's score by differences."""
    steps = 1e-3 * np.eye(len(best))
    scores = np.array(
        [
            [
                (log_likelihood(best + e, x[None], m[None]) - log_likelihood(best - e, x[None], m[None])) / 2e-3
                for e in steps
            ]
            for x, m in zip(values, censoring, strict=True)
        ]
    )
    return inverse @ (scores.T @ scores) @ inverse
