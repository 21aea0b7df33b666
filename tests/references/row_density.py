"""The density of a row under x = max(y, floor), y ~ N(mean, covariance): exactly, and by moment matching.

Densities are per unit of each column's scale. Covariances throughout, one row at a time: the kernel works with the
precision matrix instead.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm


def conditional(mean, covariance, given, values):
    """(mean, covariance) of the cells that are not ``given``, by the textbook formula."""
    rest = ~given
    gain = np.linalg.solve(covariance[np.ix_(given, given)], covariance[np.ix_(given, rest)]).T
    expected = mean[rest] + gain @ (values[given] - mean[given])
    return expected, covariance[np.ix_(rest, rest)] - gain @ covariance[np.ix_(given, rest)]


def split(row, mean, scale, correlation, floor):
    """(log density of the seen cells, limits, mean and covariance of the floored ones given these)."""
    observed = ~np.isnan(row)
    row, mean, scale, floor = row[observed], mean[observed], scale[observed], floor[observed]
    covariance = correlation[np.ix_(observed, observed)] * np.outer(scale, scale)
    seen = row > floor
    total = 0.0
    if seen.any():
        density = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)], allow_singular=True)
        total = float(density.logpdf(row[seen])) + float(np.log(scale[seen]).sum())
    expected, rest = conditional(mean, covariance, seen, row) if seen.any() else (mean, covariance)
    return total, floor[~seen], expected, rest


def exact_log_density(row, mean, scale, correlation, floor):
    """Density of the seen cells times the probability of the others; scipy's integral is good to 1e-4."""
    total, limit, expected, covariance = split(row, mean, scale, correlation, floor)
    if len(limit) == 0:
        return total
    if len(limit) == 1:
        return total + float(log_ndtr((limit[0] - expected[0]) / np.sqrt(covariance[0, 0])))
    probability = multivariate_normal.cdf(limit, expected, covariance, abseps=1e-6, releps=1e-5)
    return total + float(np.log(probability))


def matched_log_density(row, mean, scale, correlation, floor):
    """Mendell and Elston (1974): floored cells one after the other, in column order, each leaving the rest normal."""
    total, limit, expected, covariance = split(row, mean, scale, correlation, floor)
    for k in range(len(limit)):
        deviation = np.sqrt(covariance[k, k])
        a = (limit[k] - expected[k]) / deviation
        total += float(log_ndtr(a))
        slope = covariance[:, k] / covariance[k, k]
        below_mean, below_variance = truncated_moments(a)
        expected = expected + slope * deviation * below_mean
        covariance = covariance - np.outer(slope, slope) * covariance[k, k] * (1.0 - below_variance)
    return total


def truncated_moments(a):
    """Mean and variance of a unit normal that lies below ``a``."""
    hazard = np.exp(norm.logpdf(a) - log_ndtr(a))
    return -hazard, 1.0 - hazard * (hazard + a)


def cell_residual(row, cell, mean, scale, correlation, floor):
    """Distance of a seen cell, or of a floored one's floor, from what the row's other cells predict.

    Other floored cells are taken in turn as above: exact where there is one, by the distribution of total variance.
    """
    observed = ~np.isnan(row)
    covariance = correlation * np.outer(scale, scale)
    seen = observed & (row > floor)
    seen[cell] = False
    given = np.flatnonzero(seen)
    rest = np.flatnonzero(~seen)
    expected, spread = conditional(mean, covariance, seen, row) if len(given) else (mean, covariance)
    at = int(np.flatnonzero(rest == cell)[0])
    floored = [i for i, j in enumerate(rest) if observed[j] and j != cell]
    for k in floored:
        deviation, slope = np.sqrt(spread[k, k]), spread[:, k] / spread[k, k]
        below_mean, below_variance = truncated_moments((floor[rest[k]] - expected[k]) / deviation)
        expected = expected + slope * deviation * below_mean
        spread = spread - np.outer(slope, slope) * deviation**2 * (1.0 - below_variance)
    value = max(row[cell], floor[cell])
    return (value - expected[at]) / np.sqrt(spread[at, at])
