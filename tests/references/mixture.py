"""The density of a mixture of rectified Gaussians, dense and slow: scipy's normal densities and orthant probabilities.

For a few columns only: scipy integrates orthants of up to three columns to 1e-5 or better.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal


def log_density(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """log f(x) of each row: density of the values above the floor, times P(the others below it | those)."""
    out = np.empty(len(x))
    for i, row in enumerate(x):
        seen, hidden = np.flatnonzero(row > floor), np.flatnonzero(row <= floor)
        expected, spread, total = mean[hidden], covariance[np.ix_(hidden, hidden)], 0.0
        if len(seen):
            inner = covariance[np.ix_(seen, seen)]
            total += multivariate_normal.logpdf(row[seen], mean[seen], inner)
            slope = np.linalg.solve(inner, covariance[np.ix_(seen, hidden)]).T
            expected = expected + slope @ (row[seen] - mean[seen])
            spread = spread - slope @ covariance[np.ix_(seen, hidden)]
        if len(hidden):
            probability = multivariate_normal.cdf(np.full(len(hidden), floor), expected, spread)
            total += np.log(max(probability, 1e-300))
        out[i] = total
    return out


def mixture_log_density(
    x: np.ndarray, shares: np.ndarray, biases: np.ndarray, covariances: np.ndarray, floor: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """(log density of each row, posterior probabilities n x K)."""
    joint = np.stack([log_density(x, b, s, floor) for b, s in zip(biases, covariances, strict=True)], axis=1)
    joint += np.log(shares)
    total = logsumexp(joint, axis=1)
    return total, np.exp(joint - total[:, None])
