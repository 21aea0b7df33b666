"""Density of a row where the correlations are factors and noise: the sweep, and expectation propagation on factors.

Rows and marks are those of :mod:`unrelu.kernels.row_density`. In units where y has unit variances let
y_j = l_j'f + e_j, f ~ N(0, I_k), e_j ~ N(0, psi_j). Given f the cells are independent, so that f alone has a law to be
kept. The seen cells u give

    f | x_o ~ N(S g, S),     S^-1 = P = I + sum_o l_j l_j'/psi_j,     g = sum_o l_j u_j/psi_j,
    u' (R_oo)^-1 u = sum_o u_j^2/psi_j - g'S g,     log det R_oo = sum_o log psi_j + log det P            all exact.

The sweep takes cut-off cells in turn: with c = S l_j, v = l_j'c + psi_j, a = (limit - l_j'm)/sqrt(v) and
lambda = phi(a)/Phi(a) each adds log Phi(a) and leaves

    m -= c lambda / sqrt(v)        S -= c c' lambda (lambda + a) / v.

The converged density goes on from there, with a normal site exp(nu t - tau t^2 / 2) on t = l_j'f for each cut-off cell,
and corrects what is left as :mod:`unrelu.kernels.hidden_cells` does. Both are those of the kernels for any
correlations, here in d k^2 multiplications a row and a sweep where the others take d^3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import helper, kernel
from unrelu.kernels.hidden_cells import cut_skewness
from unrelu.kernels.normal import cut_normal, cut_share, log_probability_and_hazard
from unrelu.kernels.row_density import FAR, FARTHEST

_LOG_2PI = math.log(2.0 * math.pi)
_MOST_SWEEPS = 60
_STILL = 1e-5  # of a posterior standard deviation, or of its square: sites that move less are settled
_LARGEST_SHRINK = 1.0 - 1e-10
_NO_CHANCE = -5e5  # log probability of what is cut off, below which the sweep has all digits there are
# Rows of a work space of k numbers, and of one of d
_G, _M, _C, _ZERO = range(4)
_PER_SCALE, _LOG_NOISE, _SIDE, _LIMIT, _TAU, _NU, _SKEW, _N_CELLS = range(8)


@helper
def _seen_cells(
    values: Any,
    beyond: Any,
    row: int,
    bias: FloatArray,
    loadings: FloatArray,
    noise: FloatArray,
    cells: FloatArray,
    p: FloatArray,
    g: FloatArray,
    most: float,
) -> tuple[float, float, float]:
    """P (lower triangle) and g, of values brought to ``most`` where they are further; sides and limits of the others.

    Returns -2 log density of the seen cells given f = 0, its square and the rest, and the sum of u^2.
    """
    d, k = loadings.shape
    for i in range(k):
        g[i] = 0.0
        for j in range(i):
            p[i, j] = 0.0
        p[i, i] = 1.0
    square = rest = size = 0.0
    for cell in range(d):
        u = (values[row, cell] - bias[cell]) * cells[_PER_SCALE, cell]
        cells[_SIDE, cell] = -beyond[row, cell]
        if beyond[row, cell] != 0 or u != u:
            cells[_LIMIT, cell] = u * cells[_SIDE, cell]
            continue
        if abs(u) > most:
            u = most if u > 0.0 else -most
        precision = 1.0 / noise[cell]
        square += u * u * precision
        size += u * u
        rest += cells[_LOG_NOISE, cell] + _LOG_2PI
        for i in range(k):
            weighted = loadings[cell, i] * precision
            g[i] += weighted * u
            for j in range(i + 1):
                p[i, j] += weighted * loadings[cell, j]
    return square, rest, size


@helper
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


@helper
def _along(cell: int, loadings: FloatArray, s: FloatArray, m: FloatArray, c: FloatArray) -> tuple[float, float]:
    """c = S l; returns (l'S l, l'm)."""
    k = len(m)
    mean = variance = 0.0
    for i in range(k):
        total = 0.0
        for j in range(k):
            total += s[i, j] * loadings[cell, j]
        c[i] = total
        mean += loadings[cell, i] * m[i]
        variance += loadings[cell, i] * total
    return variance, mean


@helper
def _sweep(loadings: FloatArray, noise: FloatArray, cells: FloatArray, s: FloatArray, m: Any, c: Any) -> float:
    """Take the row's cut-off cells in turn; sum of their log probabilities."""
    d, k = loadings.shape
    total = 0.0
    for cell in range(d):
        side = cells[_SIDE, cell]
        if side == 0.0:
            continue
        variance, mean = _along(cell, loadings, s, m, c)
        variance += noise[cell]
        deviation = math.sqrt(variance)
        a = (cells[_LIMIT, cell] - side * mean) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = side * hazard / deviation, cut_share(a, hazard) / variance
        for i in range(k):
            m[i] -= c[i] * shift
            factor = c[i] * shrink
            for j in range(k):
                s[i, j] -= factor * c[j]
    return total


@helper
def _propagate(loadings: FloatArray, noise: FloatArray, cells: FloatArray, s: FloatArray, m: Any, c: Any) -> float:
    """Sites of the cut-off cells under f ~ N(0, S), until they are still; log probability with its correction."""
    d, k = loadings.shape
    for cell in range(d):
        cells[_TAU, cell] = cells[_NU, cell] = 0.0
    log_det = 0.0
    for _ in range(_MOST_SWEEPS):
        moved = 0.0
        for cell in range(d):
            side, tau, nu = cells[_SIDE, cell], cells[_TAU, cell], cells[_NU, cell]
            if side == 0.0:
                continue
            t, mean = _along(cell, loadings, s, m, c)
            v = t / (1.0 - t * tau)
            centre = (side * mean - t * nu) / (1.0 - t * tau)
            deviation = math.sqrt(v + noise[cell])
            _, hazard, left = cut_normal((cells[_LIMIT, cell] - centre) / deviation)
            q = (1.0 - left) / (v + noise[cell])
            room = 1.0 - min(v * q, _LARGEST_SHRINK)
            change, push = q / room - tau, (centre * q - hazard / deviation) / room - nu
            cells[_TAU, cell], cells[_NU, cell] = tau + change, nu + push
            scale = 1.0 / (1.0 + change * t)
            gain, factor = side * (push - change * side * mean) * scale, change * scale
            log_det -= math.log(scale)
            for i in range(k):
                m[i] += gain * c[i]
                for j in range(k):
                    s[i, j] -= factor * c[i] * c[j]
            moved = max(moved, abs(gain) * math.sqrt(t), abs(change) * t)
        if moved < _STILL:
            break
    total = -0.5 * log_det
    for cell in range(d):
        side, tau, nu = cells[_SIDE, cell], cells[_TAU, cell], cells[_NU, cell]
        if side == 0.0:
            continue
        t, mean = _along(cell, loadings, s, m, c)
        v, centre = t / (1.0 - t * tau), (side * mean - t * nu) / (1.0 - t * tau)
        a = (cells[_LIMIT, cell] - centre) / math.sqrt(v + noise[cell])
        log_probability, hazard, left = cut_normal(a)
        spread = 1.0 + tau * v
        square = nu * nu * v + 2.0 * nu * centre - tau * centre * centre
        total += log_probability + 0.5 * (math.log(spread) + nu * side * mean - square / spread)
        # Skewness of y over that of its part along l'f: cubes of correlations are those of l'S l, so scaled.
        share = side * v / (v + noise[cell]) * math.sqrt((v + noise[cell]) * left) / max(t, 1e-300)
        cells[_SKEW, cell] = cut_skewness(a, hazard, left) * share * share * share
        for other in range(cell):
            if cells[_SIDE, other] != 0.0:
                covariance = 0.0
                for i in range(k):
                    covariance += c[i] * loadings[other, i]
                total += cells[_SKEW, other] * cells[_SKEW, cell] * covariance * covariance * covariance / 6.0
    return total


@kernel
def factor_log_densities(
    values: Any,
    beyond: Any,
    bias: FloatArray,
    scale: FloatArray,
    loadings: FloatArray,
    noise: FloatArray,
    converged: bool,
    out: FloatArray,
) -> None:
    """``out[i]``: log density of row i, per unit of ``scale``; ``noise``: the psi_j."""
    d, k = loadings.shape
    p, s, start = np.empty((k, k)), np.empty((k, k)), np.empty((k, k))
    vectors, cells = np.zeros((4, k)), np.empty((_N_CELLS, d))
    g, m, c, zero = vectors[_G], vectors[_M], vectors[_C], vectors[_ZERO]
    for cell in range(d):
        cells[_PER_SCALE, cell], cells[_LOG_NOISE, cell] = 1.0 / scale[cell], math.log(noise[cell])
    for row in range(len(values)):
        square, rest, size = _seen_cells(values, beyond, row, bias, loadings, noise, cells, p, g, FARTHEST)
        explained, log_det = _factors_given_seen(p, g, s, m)
        square = max(square - explained, 0.5 * size / max(d, 1))  # against rounding: no eigenvalue is above d
        if size > FAR * FAR:
            _seen_cells(values, beyond, row, bias, loadings, noise, cells, p, g, FAR)
            _factors_given_seen(p, g, s, m)
        for i in range(k if converged else 0):
            g[i], zero[i] = m[i], 0.0
            for j in range(k):
                start[i, j] = s[i, j]
        probability = _sweep(loadings, noise, cells, s, m, c)
        if converged and probability > _NO_CHANCE:
            for cell in range(d):
                for i in range(k):
                    cells[_LIMIT, cell] -= cells[_SIDE, cell] * loadings[cell, i] * g[i]
            settled = _propagate(loadings, noise, cells, start, zero, c)
            if abs(settled) < math.inf:
                probability = settled
        out[row] = -0.5 * (square + rest + log_det) + probability
