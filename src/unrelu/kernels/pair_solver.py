"""Latent correlations of all pairs: optimally weighted moments, solved pair by pair.

For one pair let mhat be the twelve sample statistics, m(r) their expectations, V(r) their covariance and
G(r) = dm/dr. The estimate solves the quasi-score equation

    n G' V^-1 (mhat - m(r)) - r / (1 - r^2) = 0,

by scoring steps on atanh(r) (Newton with expected curvature, then with the secant's) kept inside a bracket, and where
they are slow by false position in it (the Illinois rule). The last term is the
score of the prior density sqrt(1 - r^2): worth one row or less against n, it only matters for pairs that are
almost never above their floors together, where the likelihood has its maximum at the useless value -1.

The standard error accounts for the estimated marginals. With w = V^-1 G / (G' V^-1 G), a row moves r by
w'(m_row - m) and, through its influence on (bias, scale) of coordinate i, by -w' G_i H_i (m_row - m), where
H_i is that influence, linear in the three statistics of coordinate i alone. Both parts are linear in the
twelve statistics, so the variance is a quadratic form in V.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
_LARGEST_START = 0.98
_LARGEST_STEP = 1.0
_STRIDE = 0.5
_TOLERANCE = 1e-10  # on atanh(r)
_LAST_STEP = 1e-11  # a secant step leaves an error of about its size times that of the step before
_MOST_ROUNDS = 60
_SCORING_ROUNDS = 8  # scoring converges linearly where the model fits badly: then on by false position
_SMALLEST_PIVOT = 1e-12  # a statistic explained to this share by the others adds only rounding
_SMALLEST_VARIANCE = 1e-12  # relative: a statistic that hardly varies (never floored) likewise
_ROUNDING = 1e-12  # a variance below this share of the mean square may be rounding alone
_LINE = 1e-11  # joint positives whose correlation is this close to 1 lie on a line


class Columns(NamedTuple):
    """What is known of every column.

    ``a`` = (b - floor)/s, ``moments`` (d x 5) of :func:`marginal_moments`, ``influence`` (d x 2 x 3) of the three own
    statistics on bias and scale in units of scale, ``rows`` the effective number of rows that see the column.
    """

    a: np.ndarray
    moments: np.ndarray
    influence: np.ndarray
    rows: np.ndarray


class Work(NamedTuple):
    """Scratch arrays of one pair, allocated once a batch; named as in the text above."""

    d1: np.ndarray
    d2: np.ndarray
    m: np.ndarray
    mean: np.ndarray
    v: np.ndarray
    chol: np.ndarray
    size: np.ndarray
    gradient: np.ndarray
    residual: np.ndarray
    half_gradient: np.ndarray
    half_residual: np.ndarray
    weights: np.ndarray
    through1: np.ndarray
    through2: np.ndarray
    slopes: np.ndarray


@njit(cache=True, nogil=True)
def workspace() -> Work:
    k = N_STATISTICS
    return Work(
        np.empty(4),
        np.empty(4),
        np.zeros((5, 5)),
        np.empty(k),
        np.empty((k, k)),
        np.empty((k, k)),
        np.empty(k),
        np.empty(k),
        np.empty(k),
        np.empty(k),
        np.empty(k),
        np.empty(k),
        np.zeros(k),
        np.zeros(k),
        np.empty((k, 2)),
    )


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
        r = min(max(r, -_LARGEST_START), _LARGEST_START)
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
def evaluate(
    a1: float,
    a2: float,
    r: float,
    moments1: np.ndarray,
    moments2: np.ndarray,
    mhat: np.ndarray,
    work: Work,
) -> tuple[float, float]:
    """Quasi-score G' V^-1 (mhat - m) and information G' V^-1 G, per row; all that led to them stays in ``work``."""
    joint_moments(a1, a2, r, work.d1, work.d2, work.m)
    expected_statistics(moments1, moments2, work.m, work.mean)
    statistics_covariance(moments1, moments2, work.m, work.mean, work.v)
    correlation_gradient(a1, a2, r, work.d1, work.d2, work.m, work.gradient)
    factorize(work.v, work.mean, work.size, work.chol)
    residual, mean = work.residual, work.mean
    for k in range(N_STATISTICS):
        residual[k] = mhat[k] - mean[k]
    half_gradient, half_residual = work.half_gradient, work.half_residual
    forward_solve(work.chol, work.size, work.gradient, N_MARGINAL, half_gradient)
    forward_solve(work.chol, work.size, residual, 0, half_residual)
    score = 0.0
    information = 0.0
    for k in range(N_MARGINAL, N_STATISTICS):
        score += half_gradient[k] * half_residual[k]
        information += half_gradient[k] * half_gradient[k]
    return score, information


@njit(cache=True, nogil=True)
def find_root(
    a1: float,
    a2: float,
    moments1: np.ndarray,
    moments2: np.ndarray,
    mhat: np.ndarray,
    n: float,
    start: float,
    work: Work,
) -> tuple[float, float, float]:
    """(r, information per row, curvature of the penalized quasi-likelihood) at the root of the equation above.

    ``start`` is an r nearby, NaN where none is known.
    """
    known = abs(start) < _LARGEST_START
    z = math.atanh(start if known else start_by_cross_moment(a1, a2, moments1, moments2, mhat[7]))
    low = -_LARGEST_Z
    high = _LARGEST_Z
    score_low = 0.0  # not yet evaluated
    score_high = 0.0
    z_before = z
    score_before = 0.0
    for done in range(_MOST_ROUNDS):
        r = math.tanh(z)
        score, information = evaluate(a1, a2, r, moments1, moments2, mhat, work)
        gap2 = (1.0 - r) * (1.0 + r)
        curvature = n * information + (1.0 + r * r) / (gap2 * gap2)
        score_z = (n * score - r / gap2) * gap2  # d/dz = (1 - r^2) d/dr
        slope = curvature * gap2 * gap2
        trusted = False
        if done > 0:  # the slope seen between the last two points, unless it is absurd
            secant = (score_before - score_z) / (z - z_before)
            trusted = 0.02 * slope < secant < 50.0 * slope
            slope = secant if trusted else slope
        step = score_z / slope
        if abs(step) < _TOLERANCE or high - low < _TOLERANCE:
            break
        if trusted and abs(step * (z - z_before)) < _LAST_STEP:  # the secant's error, as far as the points are apart
            r = math.tanh(z + step)
            break
        if score_z > 0.0:  # Illinois: the end that stays counts half
            low = z
            score_low = score_z
            score_high *= 0.5
        else:
            high = z
            score_high = score_z
            score_low *= 0.5
        z_before = z
        score_before = score_z
        z += min(max(step, -_LARGEST_STEP), _LARGEST_STEP)
        if done >= _SCORING_ROUNDS:
            if score_low > 0.0 and score_high < 0.0:
                z = (low * score_high - high * score_low) / (score_high - score_low)
            else:  # the score's other sign has not been met yet: look for it in strides
                z = z_before + math.copysign(_STRIDE, score_z)
        if z <= low or z >= high:
            z = 0.5 * (low + high)
    return r, information, curvature


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
def sampling_variance(i: int, j: int, rows: float, information: float, columns: Columns, work: Work) -> float:
    """Variance of r: of w'(mean over the pair's rows) plus the effect of both marginals (means over their own rows).

    The pair's rows are among those of each column, so the means are over nested sets of rows. ``work`` holds what
    :func:`evaluate` left at the estimate, and holds the linear forms w (``weights``), ``through1`` and ``through2``
    afterwards.
    """
    direct, through1, through2, v = work.weights, work.through1, work.through2, work.v
    back_solve(work.chol, work.size, work.half_gradient, direct)
    for k in range(N_STATISTICS):
        direct[k] /= information
    marginal_gradient(columns.a[i], columns.moments[i], work.d1, work.m, False, work.slopes)
    effect_through_marginal(direct, work.slopes, columns.influence[i], 0, through1)
    marginal_gradient(columns.a[j], columns.moments[j], work.d2, work.m, True, work.slopes)
    effect_through_marginal(direct, work.slopes, columns.influence[j], 3, through2)
    rows1 = columns.rows[i]
    rows2 = columns.rows[j]
    variance = (
        quadratic(v, direct, direct) / rows
        + 2.0 * quadratic(v, direct, through1) / rows1
        + 2.0 * quadratic(v, direct, through2) / rows2
        + quadratic(v, through1, through1) / rows1
        + quadratic(v, through2, through2) / rows2
        + 2.0 * quadratic(v, through1, through2) * rows / (rows1 * rows2)
    )
    return max(float(variance), 0.0)


@njit(cache=True, nogil=True)
def solve_pairs(
    pairs: tuple[np.ndarray, np.ndarray],
    statistics: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    columns: Columns,
    correlation: np.ndarray,
    stderr: np.ndarray,
) -> None:
    """Estimate a batch of ``pairs`` (first and second columns); results go to ``correlation`` and ``stderr``.

    ``statistics`` (pairs x 12) are the sample means mhat over the rows that see both columns, of total ``weight``,
    effectively ``rows`` many. With an empty ``stderr`` no errors are wanted and ``correlation`` holds starts, NaN where
    there is none.
    """
    wanted = stderr.shape[0] > 0
    work = workspace()
    for pair in range(statistics.shape[0]):
        i = pairs[0][pair]
        j = pairs[1][pair]
        mhat = statistics[pair]
        n = max(weight[pair], rows[pair])  # integer weights then act exactly as repeated rows
        if n <= 0.0:  # never seen together: nothing is known
            correlation[pair] = 0.0
            if wanted:
                stderr[pair] = 1.0
            continue
        line = on_a_line(mhat, n)
        if line != 0:
            correlation[pair] = line
            if wanted:
                stderr[pair] = 0.0
            continue
        moments1 = columns.moments[i]
        moments2 = columns.moments[j]
        start = math.nan if wanted else correlation[pair]
        r, information, curvature = find_root(columns.a[i], columns.a[j], moments1, moments2, mhat, n, start, work)
        correlation[pair] = r
        if not wanted:
            continue
        share = n * information / curvature
        variance = (1.0 - share) / curvature
        if information > 0.0:
            variance += share * share * sampling_variance(i, j, rows[pair], information, columns, work)
        stderr[pair] = min(math.sqrt(variance), 1.0)
