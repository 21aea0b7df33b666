"""Density of a row under x = max(y, floor) where the correlations are factors and noise: the filter of row_density.

In units where y has unit variances let y_j = l_j'f + e_j, f ~ N(0, I_k), e_j ~ N(0, psi_j). Given f the cells are
independent, so that f alone has a law to be kept. The seen cells u give

    f | x_o ~ N(S g, S),     S^-1 = P = I + sum_o l_j l_j'/psi_j,     g = sum_o l_j u_j/psi_j,
    u' (R_oo)^-1 u = sum_o u_j^2/psi_j - g'S g,     log det R_oo = sum_o log psi_j + log det P            all exact.

Floored cells are taken in turn as in :mod:`unrelu.kernels.row_density`: with c = S l_j, v = l_j'c + psi_j,
a = (limit - l_j'm)/sqrt(v) and lambda = phi(a)/Phi(a) each adds log Phi(a) and leaves

    m -= c lambda / sqrt(v)        S -= c c' lambda (lambda + a) / v.

The two kernels take the same steps, here in d k^2 multiplications a row where the other takes d^3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.normal import cut_share, log_probability_and_hazard
from unrelu.kernels.row_density import FAR, FARTHEST

_LOG_2PI = math.log(2.0 * math.pi)


@njit(cache=True, nogil=True)
def _seen_cells(
    values: Any,
    row: int,
    floor: Any,
    line: tuple[FloatArray, FloatArray],
    loadings: FloatArray,
    noise: FloatArray,
    log_noise: FloatArray,
    p: FloatArray,
    g: FloatArray,
    most: float,
) -> tuple[float, float, float]:
    """P (lower triangle) and g, of values brought to ``most`` where they are further. ``line``: bias, 1/scale.

    Returns -2 log density of the seen cells given f = 0, its square and the rest, and the sum of u^2.
    """
    d, k = loadings.shape
    bias, per_scale = line
    for i in range(k):
        g[i] = 0.0
        for j in range(i):
            p[i, j] = 0.0
        p[i, i] = 1.0
    square = rest = size = 0.0
    for cell in range(d):
        x = values[row, cell]
        if not x > floor[cell]:
            continue
        u = (x - bias[cell]) * per_scale[cell]
        if abs(u) > most:
            u = most if u > 0.0 else -most
        precision = 1.0 / noise[cell]
        square += u * u * precision
        size += u * u
        rest += log_noise[cell] + _LOG_2PI
        for i in range(k):
            weighted = loadings[cell, i] * precision
            g[i] += weighted * u
            for j in range(i + 1):
                p[i, j] += weighted * loadings[cell, j]
    return square, rest, size


@njit(cache=True, nogil=True)
def _factors_given_seen(p: FloatArray, g: FloatArray, s: FloatArray, m: FloatArray) -> tuple[float, float]:
    """From P and g, which are used up: S in ``s``, S g in ``m``. Returns g'S g and log det P."""
    k = len(g)
    log_det = quadratic = 0.0
    for j in range(k):  # P = C C'; C^-1 in s, C^-1 g in g
        for i in range(j):
            p[j, j] -= p[j, i] * p[j, i]
        root = math.sqrt(p[j, j])
        p[j, j] = root
        log_det += 2.0 * math.log(root)
        for i in range(j + 1, k):
            for l in range(j):  # noqa: E741
                p[i, j] -= p[i, l] * p[j, l]
            p[i, j] /= root
    for i in range(k):
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for l in range(j, i):  # noqa: E741
                total -= p[i, l] * s[l, j]
            s[i, j] = total / p[i, i]
        for j in range(i):
            g[i] -= p[i, j] * g[j]
        g[i] /= p[i, i]
        quadratic += g[i] * g[i]
    for i in range(k):
        m[i] = 0.0
        for l in range(i, k):  # noqa: E741
            m[i] += s[l, i] * g[l]
    for i in range(k):  # C'^-1 C^-1, row by row from above: those below are still wanted
        for j in range(i + 1):
            total = 0.0
            for l in range(i, k):  # noqa: E741
                total += s[l, i] * s[l, j]
            p[i, j] = total
    for i in range(k):
        for j in range(i + 1):
            s[i, j] = s[j, i] = p[i, j]
    return quadratic, log_det


@njit(cache=True, nogil=True)
def _filter(
    values: Any,
    row: int,
    floor: Any,
    limit: FloatArray,
    loadings: FloatArray,
    noise: FloatArray,
    s: FloatArray,
    m: FloatArray,
    c: FloatArray,
) -> float:
    """Take the row's floored cells in turn; sum of their log probabilities."""
    d, k = loadings.shape
    total = 0.0
    for cell in range(d):
        if not values[row, cell] <= floor[cell]:
            continue
        mean, variance = 0.0, noise[cell]
        for i in range(k):
            dot = 0.0
            for j in range(k):
                dot += s[i, j] * loadings[cell, j]
            c[i] = dot
            mean += loadings[cell, i] * m[i]
            variance += loadings[cell, i] * dot
        deviation = math.sqrt(variance)
        a = (limit[cell] - mean) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = hazard / deviation, cut_share(a, hazard) / variance
        for i in range(k):
            m[i] -= c[i] * shift
            factor = c[i] * shrink
            for j in range(k):
                s[i, j] -= factor * c[j]
    return total


@njit(cache=True, nogil=True)
def factor_log_densities(
    values: Any,
    floor: Any,
    bias: FloatArray,
    scale: FloatArray,
    loadings: FloatArray,
    noise: FloatArray,
    out: FloatArray,
) -> None:
    """``out[i]``: log density of row i, per unit of ``scale``; ``noise``: the psi_j."""
    d, k = loadings.shape
    p, s, g, m, c = np.empty((k, k)), np.empty((k, k)), np.empty(k), np.empty(k), np.empty(k)
    per_scale, log_noise = 1.0 / scale, np.log(noise)
    limit = (floor - bias) * per_scale
    for row in range(len(values)):
        line = (bias, per_scale)
        square, rest, size = _seen_cells(values, row, floor, line, loadings, noise, log_noise, p, g, FARTHEST)
        explained, log_det = _factors_given_seen(p, g, s, m)
        square = max(square - explained, 0.5 * size / max(d, 1))  # against rounding: no eigenvalue is above d
        if size > FAR * FAR:
            _seen_cells(values, row, floor, line, loadings, noise, log_noise, p, g, FAR)
            _factors_given_seen(p, g, s, m)
        normal = -0.5 * (square + rest + log_det)
        out[row] = normal + _filter(values, row, floor, limit, loadings, noise, s, m, c)
