"""Rows of y ~ N(mean, S) with cells cut off or missing: log density, and its derivative in mean and S.

By Fisher's identity the derivative is that of complete rows, averaged over what is hidden: with Q = S^-1,
e = E[y] - mean and C the posterior covariance of the cells (:mod:`unrelu.kernels.hidden_cells`; 0 for seen ones),

    d/dmean = Q e        d/dS = ( Q e e' Q + Q C Q - Q )/2.

The log density is without the correction of expectation propagation, whose derivative this would not be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.hidden_cells import hide, settle, workspaces


@njit(cache=True, nogil=True, fastmath={"contract"})
def covariance_scores(
    values: Any,
    beyond: Any,
    mean: FloatArray,
    precision: FloatArray,
    log_det: float,
    densities: FloatArray,
    corrections: FloatArray,
    scores: Any,
    cavities: Any,
) -> None:
    """``densities[i]``: log density of row i, ``corrections[i]``: what expectation propagation leaves out of it, and
    ``scores[i]``: its derivative in the mean and in S_ij = S_ji, by rows of the lower triangle. ``log_det``: of S.
    ``cavities`` (2 x n x d, or 2 x 0 x d where they are not wanted): mean and variance of a cut-off cell given the rest
    of its row; those of other cells are left as they are."""
    n, d = values.shape
    split, posterior = workspaces(d)
    seen, u, order, limit, turn, m, v, _ = split
    mu, s = posterior[0], posterior[1]
    cavity, one, e, qe, qc = np.empty((2, d)), np.ones(d), np.empty(d), np.empty(d), np.empty((d, d))
    for row in range(n):
        n_seen, cut, hidden, normal = hide(values, beyond, row, mean, one, precision, np.inf, split)
        probability, corrections[row] = settle(cut, hidden, m, v, limit, turn, posterior, cavity)
        densities[row] = normal - 0.5 * log_det + probability
        for i in range(n_seen):
            e[seen[i]] = u[i]
        for i in range(hidden):
            e[order[i]] = mu[i]
        for i in range(cut if cavities.shape[1] > 0 else 0):
            cavities[0, row, order[i]] = mean[order[i]] + cavity[0, i]
            cavities[1, row, order[i]] = cavity[1, i]
        for i in range(d):
            total = 0.0
            for j in range(d):
                total += precision[i, j] * e[j]
            qe[i] = total
            for a in range(hidden):
                qc[i, a] = 0.0
            for b in range(hidden):
                factor = precision[i, order[b]]
                for a in range(hidden):
                    qc[i, a] += factor * s[b, a]
        at = d
        for i in range(d):
            scores[row, i] = qe[i]
            for j in range(i + 1):
                total = qe[i] * qe[j] - precision[i, j]
                for a in range(hidden):
                    total += qc[i, a] * precision[j, order[a]]
                scores[row, at] = 0.5 * total if i == j else total
                at += 1
