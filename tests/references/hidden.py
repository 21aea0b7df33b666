"""Hidden cells of one row, by the textbook's conditional normal, scipy's integral and plain rejection."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from tests.references.row_density import conditional


def hidden_normal(row, censoring, mean, covariance):
    """(hidden cells, log density of the seen cells, mean and covariance of the hidden ones given these)."""
    seen = (censoring == 0) & ~np.isnan(row)
    if not seen.any():
        return ~seen, 0.0, mean, covariance
    density = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen])
    return ~seen, float(density), *conditional(mean, covariance, seen, row)


def exact_log_density(row, censoring, mean, covariance):
    """Density of the seen cells times the probability of the cut-off ones; missing cells are left out."""
    hidden, density, expected, rest = hidden_normal(row, censoring, mean, covariance)
    cut = censoring[hidden] != 0
    if not cut.any():
        return density
    turn = -censoring[hidden][cut].astype(float)
    limit, expected = turn * row[hidden][cut], turn * expected[cut]
    covariance = np.outer(turn, turn) * rest[np.ix_(cut, cut)]
    probability = multivariate_normal.cdf(limit, expected, covariance, abseps=1e-8, releps=1e-6, maxpts=10**6, rng=0)
    return density + float(np.log(probability))


def rejection_draws(row, censoring, mean, covariance, n, seed=0):
    """(hidden cells, draws of them): those of n draws given the seen cells that respect all limits."""
    hidden, _, expected, rest = hidden_normal(row, censoring, mean, covariance)
    y = np.random.default_rng(seed).multivariate_normal(expected, rest, size=n, method="eigh")
    mark, limit = censoring[hidden], row[hidden]
    kept = np.all((mark == 0) | ((y - limit) * mark >= 0.0), axis=1)
    return hidden, y[kept]
