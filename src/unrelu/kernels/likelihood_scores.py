"""Rows of y ~ N(mean, S) with cells cut off or missing: log density, and its derivative in mean and S.

By Fisher's identity the derivative is that of complete rows, averaged over what is hidden: with Q = S^-1, e = E[y] -
mean and C the posterior covariance of the cells (:mod:`unrelu.kernels.hidden_cells`; 0 for seen ones),

    d/dmean = Q e        d/dS = ( Q e e' Q + Q C Q - Q )/2.

The log density is without the correction of expectation propagation, whose derivative this would not be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import contracted_kernel
from unrelu.kernels.hidden_cells import CENTRE, MU, ORDER, PER_STD, SEEN, WIDTH, U, condition_on_cuts, hide, workspaces

_E, _QE, _QC = 0, 1, 2  # rows of a work space: e, Q e, and the d rows of Q C


@contracted_kernel
def covariance_scores(
    values: Any,
    censoring: Any,
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
    work, index, v, s = workspaces(d)
    more = np.empty((_QC + d, d))
    for j in range(d):
        work[PER_STD, j] = 1.0
    for row in range(n):
        n_seen, cut, hidden, normal = hide(values, censoring, row, mean, precision, np.inf, work, index, v)
        probability, corrections[row] = condition_on_cuts(cut, hidden, work, v, s)
        densities[row] = normal - 0.5 * log_det + probability
        for i in range(n_seen):
            more[_E, index[SEEN, i]] = work[U, i]
        for i in range(hidden):
            more[_E, index[ORDER, i]] = work[MU, i]
        for i in range(cut if cavities.shape[1] > 0 else 0):
            at = index[ORDER, i]
            cavities[0, row, at] = mean[at] + work[CENTRE, i]
            cavities[1, row, at] = work[WIDTH, i]
        for i in range(d):
            total = 0.0
            for j in range(d):
                total += precision[i, j] * more[_E, j]
            more[_QE, i] = total
            for a in range(hidden):
                more[_QC + i, a] = 0.0
            for b in range(hidden):
                factor = precision[i, index[ORDER, b]]
                for a in range(hidden):
                    more[_QC + i, a] += factor * s[b, a]
        at = d
        for i in range(d):
            scores[row, i] = more[_QE, i]
            for j in range(i + 1):
                total = more[_QE, i] * more[_QE, j] - precision[i, j]
                for a in range(hidden):
                    total += more[_QC + i, a] * precision[j, index[ORDER, a]]
                scores[row, at] = 0.5 * total if i == j else total
                at += 1
