"""Latent correlations of all pairs: optimally weighted moments, solved pair by pair.

For one pair let mhat be the twelve sample statistics, m(r) their expectations, V(r) their covariance and
G(r) = dm/dr. The estimate solves the quasi-score equation

    n G' V^-1 (mhat - m(r)) - r / (1 - r^2) = 0,

by scoring steps on atanh(r) (Newton with expected curvature) kept inside a bracket, and where they are slow by false
position in it (the Illinois rule). The last term is the
score of the prior density sqrt(1 - r^2): worth one row or less against n, it only matters for pairs that are
almost never above their floors together, where the likelihood has its maximum at the useless value -1.

The standard error accounts for the estimated marginals. With w = V^-1 G / (G' V^-1 G), a row moves r by
w'(m_row - m) and, through its influence on (bias, scale) of coordinate i, by -w' G_i H_i (m_row - m), where
H_i is that influence, linear in the three statistics of coordinate i alone. Both parts are linear in the
twelve statistics, so the variance is a quadratic form in V.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from unrelu.kernels.pair_model import (
    N_MARGINAL,
    N_STATISTICS,
    correlation_gradient,
    cross_moment,
    expected_statistics,
    joint_moments,
    marginal_gradient,
    statistics_covariance,
)

_LARGEST_Z = 12.0  # atanh of the largest correlation considered, 1 - 1e-10
_LARGEST_STEP = 1.0
_TOLERANCE = 1e-10  # on atanh(r)
_MOST_ROUNDS = 60
_SCORING_ROUNDS = 8  # scoring converges linearly where the model fits badly: then on by false position
_SMALLEST_PIVOT = 1e-12  # a statistic explained to this share by the others adds only rounding
_SMALLEST_VARIANCE = 1e-12  # relative: a statistic that hardly varies (never floored) likewise
_ROUNDING = 1e-12  # a variance below this share of the mean square may be rounding alone
_LINE = 1e-11  # joint positives whose correlation is this close to 1 lie on a line


@njit(cache=True, nogil=True)
def factorize(v: np.ndarray, mean: np.ndarray, size: np.ndarray, chol: np.ndarray) -> None:
    """Cholesky of V scaled to unit diagonal; ``chol[k, k]`` holds 1/pivot, 0 for a statistic left out."""
    n = v.shape[0]
    for k in range(n):
        variance = v[k, k]
        keep = variance > _SMALLEST_VARIANCE * (variance + mean[k] * mean[k])
        size[k] = 1.0 / math.sqrt(variance) if keep else 0.0
    for k in range(n):
        scale = size[k]
        for j in range(k):
            total = v[k, j] * scale * size[j]
            for i in range(j):
                total -= chol[k, i] * chol[j, i]
            chol[k, j] = total * chol[j, j]
        pivot = 1.0 if scale > 0.0 else 0.0
        for i in range(k):
            pivot -= chol[k, i] * chol[k, i]
        chol[k, k] = 1.0 / math.sqrt(pivot) if pivot > _SMALLEST_PIVOT else 0.0


@njit(cache=True, nogil=True)
def forward_solve(chol: np.ndarray, size: np.ndarray, vector: np.ndarray, first: int, out: np.ndarray) -> None:
    """out = L^-1 (scaled vector); entries of the vector before ``first`` are known to be 0."""
    for k in range(first):
        out[k] = 0.0
    for k in range(first, vector.shape[0]):
        total = vector[k] * size[k]
        for i in range(first, k):
            total -= chol[k, i] * out[i]
        out[k] = total * chol[k, k]


@njit(cache=True, nogil=True)
def back_solve(chol: np.ndarray, size: np.ndarray, vector: np.ndarray, out: np.ndarray) -> None:
    """out = scaled L^-T vector, so that forward then back gives V^-1."""
    for k in range(vector.shape[0] - 1, -1, -1):
        total = vector[k]
        for i in range(k + 1, vector.shape[0]):
            total -= chol[i, k] * out[i]
        out[k] = total * chol[k, k]
    for k in range(vector.shape[0]):
        out[k] *= size[k]


@njit(cache=True, nogil=True)
def quadratic(v: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """x' V y from the lower triangle of V."""
    total = 0.0
    for k in range(v.shape[0]):
        total += v[k, k] * x[k] * y[k]
        for j in range(k):
            total += v[k, j] * (x[k] * y[j] + x[j] * y[k])
    return total


@njit(cache=True, nogil=True)
def start_by_cross_moment(a1: float, a2: float, m1: np.ndarray, m2: np.ndarray, target: float) -> float:
    """A few safe Newton steps on E[v1 v2] = target, from the linearisation at r = 0."""
    r = 0.0
    value = m1[1] * m2[1]
    slope = m1[0] * m2[0]
    for _ in range(3):
        if slope <= 1e-12:
            break
        step = (target - value) / slope
        r = min(max(r + step, 0.5 * (r - 1.0) if r < 0.9 else -0.9), 0.5 * (r + 1.0) if r > -0.9 else 0.9)
        r = min(max(r, -0.98), 0.98)
        if abs(step) < 0.02:
            break
        value, slope = cross_moment(a1, a2, r)
    return r


@njit(cache=True, nogil=True)
def on_a_line(mhat: np.ndarray, n: float) -> int:
    """+1 or -1 when values and floors agree exactly with correlation +1 or -1, else 0.

    The rows above both floors must lie on a line, and (in units of scale) on the model's: slope +1 or -1 within the
    error of the scales. With correlation 1 the coordinate that is rarer above its floor implies the other; with -1 no
    row has both at the floor.
    """
    joint = mhat[6]
    if joint * n < 5.5:
        return 0
    var1 = mhat[10] - mhat[8] * mhat[8] / joint
    var2 = mhat[11] - mhat[9] * mhat[9] / joint
    cov = mhat[7] - mhat[8] * mhat[9] / joint
    if var1 <= _ROUNDING * mhat[10] or var2 <= _ROUNDING * mhat[11] or cov * cov < (1.0 - _LINE) * var1 * var2:
        return 0
    if abs(math.sqrt(var2 / var1) - 1.0) > min(10.0 / math.sqrt(joint * n), 0.5):
        return 0
    if cov > 0.0:
        return 1 if abs(joint - min(mhat[0], mhat[3])) < 1e-9 else 0
    return -1 if abs(joint - (mhat[0] + mhat[3] - 1.0)) < 1e-9 else 0


@njit(cache=True, nogil=True)
def effect_through_marginal(
    weights: np.ndarray, slopes: np.ndarray, influence: np.ndarray, first: int, out: np.ndarray
) -> None:
    """out[first + k] = -w' G_i H_i: how a statistic of coordinate i alone moves r through (bias, scale)."""
    bias = 0.0
    scale = 0.0
    for k in range(N_STATISTICS):
        bias += weights[k] * slopes[k, 0]
        scale += weights[k] * slopes[k, 1]
    for k in range(3):
        out[first + k] = -bias * influence[0, k] - scale * influence[1, k]


@njit(cache=True, nogil=True)
def sampling_variance(
    v: np.ndarray,
    direct: np.ndarray,
    through1: np.ndarray,
    through2: np.ndarray,
    n: float,
    n1: float,
    n2: float,
) -> float:
    """Variance of direct'(mean over the pair's n rows) + through_i'(mean over the n_i rows that see column i).

    The pair's rows are among those of each column, so the means are over nested sets of rows.
    """
    return (
        quadratic(v, direct, direct) / n
        + 2.0 * quadratic(v, direct, through1) / n1
        + 2.0 * quadratic(v, direct, through2) / n2
        + quadratic(v, through1, through1) / n1
        + quadratic(v, through2, through2) / n2
        + 2.0 * quadratic(v, through1, through2) * n / (n1 * n2)
    )


@njit(cache=True, nogil=True)
def solve_pairs(
    first_column: np.ndarray,
    second_column: np.ndarray,
    statistics: np.ndarray,
    pair_weight: np.ndarray,
    pair_rows: np.ndarray,
    a: np.ndarray,
    moments: np.ndarray,
    influence: np.ndarray,
    column_rows: np.ndarray,
    correlation: np.ndarray,
    stderr: np.ndarray,
) -> None:
    """Estimate a batch of pairs; results go to ``correlation`` and ``stderr``, one entry a pair.

    ``statistics`` (pairs x 12) are the sample means mhat over the rows that see both columns, of total weight
    ``pair_weight``, effectively ``pair_rows`` many. ``a``,
    ``moments`` (d x 5), ``influence`` (d x 2 x 3: of the three own statistics on bias and scale, in units of scale)
    and ``column_rows`` (effective rows that see the column) describe the columns.
    """
    d1 = np.empty(4)
    d2 = np.empty(4)
    m = np.zeros((5, 5))
    mean = np.empty(N_STATISTICS)
    v = np.empty((N_STATISTICS, N_STATISTICS))
    chol = np.empty((N_STATISTICS, N_STATISTICS))
    size = np.empty(N_STATISTICS)
    gradient = np.empty(N_STATISTICS)
    residual = np.empty(N_STATISTICS)
    half_gradient = np.empty(N_STATISTICS)
    half_residual = np.empty(N_STATISTICS)
    weights = np.empty(N_STATISTICS)
    through1 = np.zeros(N_STATISTICS)
    through2 = np.zeros(N_STATISTICS)
    slopes = np.empty((N_STATISTICS, 2))
    for pair in range(first_column.shape[0]):
        i = first_column[pair]
        j = second_column[pair]
        mhat = statistics[pair]
        n = max(pair_weight[pair], pair_rows[pair])  # integer weights then act exactly as repeated rows
        if n <= 0.0:  # never seen together: nothing is known
            correlation[pair] = 0.0
            stderr[pair] = 1.0
            continue
        a1 = a[i]
        a2 = a[j]
        moments1 = moments[i]
        moments2 = moments[j]
        line = on_a_line(mhat, n)
        if line != 0:
            correlation[pair] = line
            stderr[pair] = 0.0
            continue
        z = math.atanh(start_by_cross_moment(a1, a2, moments1, moments2, mhat[7]))
        low = -_LARGEST_Z
        high = _LARGEST_Z
        score_low = 0.0  # not yet evaluated
        score_high = 0.0
        for done in range(_MOST_ROUNDS):
            r = math.tanh(z)
            joint_moments(a1, a2, r, d1, d2, m)
            expected_statistics(moments1, moments2, m, mean)
            statistics_covariance(moments1, moments2, m, mean, v)
            correlation_gradient(a1, a2, r, d1, d2, m, gradient)
            factorize(v, mean, size, chol)
            for k in range(N_STATISTICS):
                residual[k] = mhat[k] - mean[k]
            forward_solve(chol, size, gradient, N_MARGINAL, half_gradient)
            forward_solve(chol, size, residual, 0, half_residual)
            information = 0.0
            score = 0.0
            for k in range(N_MARGINAL, N_STATISTICS):
                information += half_gradient[k] * half_gradient[k]
                score += half_gradient[k] * half_residual[k]
            gap2 = (1.0 - r) * (1.0 + r)
            curvature = n * information + (1.0 + r * r) / (gap2 * gap2)
            score = n * score - r / gap2
            step = score / (curvature * gap2)  # dz = dr / (1 - r^2)
            if abs(step) < _TOLERANCE or high - low < _TOLERANCE:
                break
            # In units of z; Illinois: the end that stays counts half.
            if score > 0.0:
                low = z
                score_low = score * gap2
                score_high *= 0.5
            else:
                high = z
                score_high = score * gap2
                score_low *= 0.5
            z += min(max(step, -_LARGEST_STEP), _LARGEST_STEP)
            if done >= _SCORING_ROUNDS and score_low > 0.0 and score_high < 0.0:
                z = (low * score_high - high * score_low) / (score_high - score_low)
            if z <= low or z >= high:
                z = 0.5 * (low + high)
        correlation[pair] = r

        share = n * information / curvature
        variance = (1.0 - share) / curvature
        if information > 0.0:
            back_solve(chol, size, half_gradient, weights)
            for k in range(N_STATISTICS):
                weights[k] /= information
            marginal_gradient(a1, moments1, d1, m, False, slopes)
            effect_through_marginal(weights, slopes, influence[i], 0, through1)
            marginal_gradient(a2, moments2, d2, m, True, slopes)
            effect_through_marginal(weights, slopes, influence[j], 3, through2)
            rows = pair_rows[pair]
            sampling = sampling_variance(v, weights, through1, through2, rows, column_rows[i], column_rows[j])
            variance += share * share * max(sampling, 0.0)
        stderr[pair] = min(math.sqrt(variance), 1.0)
