"""Probabilities of bad cells by summing over all patterns: slow, and exact where no cell is floored."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.stats import multivariate_normal


def exact_bad_probabilities(x, mean, covariance, bad_share, bad_density):
    """Per cell of one row, and the row's density.

    A cell is bad with probability ``bad_share[j]``, and then of density ``bad_density[j]``.
    """
    d = len(x)
    total, bad = 0.0, np.zeros(d)
    for pattern in product([False, True], repeat=d):
        at = np.array(pattern)
        weight = np.prod(np.where(at, bad_share * bad_density, 1.0 - bad_share))
        good = np.flatnonzero(~at)
        if len(good):
            weight *= multivariate_normal(mean[good], covariance[np.ix_(good, good)]).pdf(x[good])
        total += weight
        bad += weight * at
    return bad / total, total
