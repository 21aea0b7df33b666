"""Rows whose correlations are factors and noise: density, cheap or converged, and score.

Rows and marks are those of :mod:`unrelu.kernels.hidden_cells`. In units where y has unit variances (or any others) let
y_j = b_j + l_j'f + e_j, f ~ N(0, I_k), e_j ~ N(0, psi_j). Given f the cells are independent, so that f alone has a
distribution to be kept. The seen cells u = y - b give

    f | x_o ~ N(S g, S),     S^-1 = P = I + sum_o l_j l_j'/psi_j,     g = sum_o l_j u_j/psi_j,
    u' (R_oo)^-1 u = sum_o u_j^2/psi_j - g'S g,     log det R_oo = sum_o log psi_j + log det P            all exact.

Every cut-off cell is a probit site on t = l_j'f, to which expectation propagation gives the form exp(nu t - tau t^2 /
2) that matches mean and variance of t under its cavity N(m, v) times the true site. Negated where needed, so that y is
at most the limit,

    a = (limit - m)/sqrt(v + psi)      lambda = phi(a)/Phi(a)      q = lambda (lambda + a)/(v + psi)
    mean of t = m - v lambda/sqrt(v + psi)                           variance of t = v (1 - v q).

The cheap mode ends with the first sweep, of d k^2 multiplications, and adds up log Phi(a). The converged density goes
on and corrects what is left as :mod:`unrelu.kernels.hidden_cells` does: given f the cells are independent, so that the
covariances of the y_j are (c_j/t_j)(c_k/t_k) l_j'S l_k with c = Cov(y, t) and t = l'S l. Both are those of the kernels
for any correlations, which take d^3.

At the fixed point the log density is stationary in the sites, so that its derivative is what Fisher's identity gives
from the moments of the sites' own cells, r = y - b - l'f:

    d/db = E[r]/psi        d/dl = E[r f]/psi        d/dlog psi = (E[r^2]/psi - 1)/2.

Of a cut-off cell y is the cavity's N(b + m, v + psi) restricted to its side; with rho = psi/(v + psi), r is
rho (y - b - m) plus noise independent of y, of variance v rho. The score is without the correction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import helper, kernel
from unrelu.kernels.hidden_cells import FAR, FARTHEST, cut_skewness
from unrelu.kernels.normal import cut_normal, cut_share, log_probability_and_hazard

_LOG_2PI = math.log(2.0 * math.pi)
_MOST_SWEEPS = 60
_STILL, _STILL_FOR_SCORES = 1e-5, 1e-6  # of a posterior standard deviation, or of its square: sites that move less
_LARGEST_SHRINK = 1.0 - 1e-10
_LARGE, _SMALL = 1e100, 1e-100  # between them a product takes one factor more
_NO_CHANCE = -5e5  # log probability of what is cut off, below which the first sweep has all digits there are
# Rows of a work space of k numbers: mean of f given the seen cells, how far the cut-off ones move it, a column of S
_G, _M, _C = range(3)
_PER_STD, _LOG_NOISE, _SIDE, _LIMIT, _TAU, _NU, _SKEW, _N_CELLS = range(8)  # of one of d


@helper
def _seen_cells(
    values: Any,
    censoring: Any,
    row: int,
    mean: FloatArray,
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
        u = (values[row, cell] - mean[cell]) * cells[_PER_STD, cell]
        cells[_SIDE, cell] = -censoring[row, cell]
        if censoring[row, cell] != 0 or u != u:
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
def _factors_given_seen(p: FloatArray, g: FloatArray, s: FloatArray) -> tuple[float, float]:
    """From P, which is used up, and g: S in ``s``, S g in the place of g. Returns g'S g and log det P."""
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
    for i in range(k):  # entries before i are not needed again
        g[i] *= s[i, i]
        for l in range(i + 1, k):  # noqa: E741
            g[i] += s[l, i] * g[l]
    for i in range(k):  # C'^-1 C^-1, row by row from above: those below are still needed
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
def _along(cell: int, loadings: FloatArray, s: FloatArray, vectors: FloatArray) -> tuple[float, float]:
    """c = S l; returns (l'S l, l'm)."""
    k = loadings.shape[1]
    mean = variance = 0.0
    for i in range(k):
        total = 0.0
        for j in range(k):
            total += s[i, j] * loadings[cell, j]
        vectors[_C, i] = total
        mean += loadings[cell, i] * vectors[_M, i]
        variance += loadings[cell, i] * total
    return variance, mean


@helper
def _sweep_once(
    loadings: FloatArray, noise: FloatArray, cells: FloatArray, s: FloatArray, vectors: FloatArray
) -> float:
    """The cheap mode: the sum of log probabilities in the first sweep, which needs no sites."""
    d, k = loadings.shape
    total = 0.0
    for i in range(k):
        vectors[_M, i] = vectors[_G, i]
    for cell in range(d):
        side = cells[_SIDE, cell]
        if side == 0.0:
            continue
        variance, mean = _along(cell, loadings, s, vectors)
        variance += noise[cell]
        deviation = math.sqrt(variance)
        a = (cells[_LIMIT, cell] - side * mean) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = side * hazard / deviation, cut_share(a, hazard) / variance
        for i in range(k):
            vectors[_M, i] -= vectors[_C, i] * shift
            factor = vectors[_C, i] * shrink
            for j in range(k):
                s[i, j] -= factor * vectors[_C, j]
    return total


@helper
def _propagate(
    loadings: FloatArray, noise: FloatArray, cells: FloatArray, s: FloatArray, vectors: FloatArray, still: float
) -> tuple[float, float]:
    """Sites of the cut-off cells under f ~ N(G, S), until they move less than ``still``.

    Limits are then counted from what G says. Returns the sum of log probabilities of the first sweep, and by how much
    log det S has fallen.
    """
    d, k = loadings.shape
    for i in range(k):
        vectors[_M, i] = 0.0
    for cell in range(d):
        cells[_TAU, cell] = cells[_NU, cell] = 0.0
        for i in range(k):
            cells[_LIMIT, cell] -= cells[_SIDE, cell] * loadings[cell, i] * vectors[_G, i]
    swept = fallen = 0.0
    grown = 1.0  # one logarithm of many
    for sweep in range(_MOST_SWEEPS):
        moved = 0.0
        for cell in range(d):
            side, tau, nu = cells[_SIDE, cell], cells[_TAU, cell], cells[_NU, cell]
            if side == 0.0:
                continue
            t, mean = _along(cell, loadings, s, vectors)
            wider = 1.0 / (1.0 - t * tau)
            v, centre = t * wider, (side * mean - t * nu) * wider
            deviation = math.sqrt(v + noise[cell])
            log_probability, hazard, left = cut_normal((cells[_LIMIT, cell] - centre) / deviation)
            swept += log_probability if sweep == 0 else 0.0
            q = (1.0 - left) / (v + noise[cell])
            room = 1.0 / (1.0 - min(v * q, _LARGEST_SHRINK))
            change, push = q * room - tau, (centre * q - hazard / deviation) * room - nu
            cells[_TAU, cell], cells[_NU, cell] = tau + change, nu + push
            growth = 1.0 + change * t
            gain, factor = side * (push - change * side * mean) / growth, change / growth
            grown *= growth
            if grown > _LARGE or grown < _SMALL:
                fallen += math.log(grown)
                grown = 1.0
            for i in range(k):
                vectors[_M, i] += gain * vectors[_C, i]
                for j in range(k):
                    s[i, j] -= factor * vectors[_C, i] * vectors[_C, j]
            moved = max(moved, abs(gain) * math.sqrt(t), abs(change) * t)
        if not moved >= still:
            break
    return swept, fallen + math.log(grown)


@helper
def _log_probability(
    fallen: float, loadings: FloatArray, noise: FloatArray, cells: FloatArray, s: FloatArray, vectors: FloatArray
) -> tuple[float, float]:
    """That of the cut-off cells by their sites, and what corrects it, to leading order."""
    d, k = loadings.shape
    total, correction = -0.5 * fallen, 0.0
    for cell in range(d):
        side, tau, nu = cells[_SIDE, cell], cells[_TAU, cell], cells[_NU, cell]
        if side == 0.0:
            continue
        t, mean = _along(cell, loadings, s, vectors)
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
                    covariance += vectors[_C, i] * loadings[other, i]
                correction += cells[_SKEW, other] * cells[_SKEW, cell] * covariance * covariance * covariance / 6.0
    return total, correction


@kernel
def factor_log_densities(
    values: Any,
    censoring: Any,
    mean: FloatArray,
    std: FloatArray,
    loadings: FloatArray,
    noise: FloatArray,
    converged: bool,
    out: FloatArray,
) -> None:
    """``out[i]``: log density of row i, per unit of ``std``; ``noise``: the psi_j."""
    d, k = loadings.shape
    p, s, vectors, cells = np.empty((k, k)), np.empty((k, k)), np.empty((3, k)), np.empty((_N_CELLS, d))
    g = vectors[_G]
    for cell in range(d):
        cells[_PER_STD, cell], cells[_LOG_NOISE, cell] = 1.0 / std[cell], math.log(noise[cell])
    for row in range(len(values)):
        square, rest, size = _seen_cells(values, censoring, row, mean, loadings, noise, cells, p, g, FARTHEST)
        explained, log_det = _factors_given_seen(p, g, s)
        square = max(square - explained, 0.5 * size / max(d, 1))  # against rounding: no eigenvalue is above d
        if size > FAR * FAR:
            _seen_cells(values, censoring, row, mean, loadings, noise, cells, p, g, FAR)
            _factors_given_seen(p, g, s)
        if converged:
            probability, fallen = _propagate(loadings, noise, cells, s, vectors, _STILL)
            converged_to, correction = _log_probability(fallen, loadings, noise, cells, s, vectors)
            if probability > _NO_CHANCE and abs(converged_to + correction) < math.inf:
                probability = converged_to + correction
        else:
            probability = _sweep_once(loadings, noise, cells, s, vectors)
        out[row] = -0.5 * (square + rest + log_det) + probability


@kernel
def factor_scores(
    u: Any,
    censoring: Any,
    mean: FloatArray,
    loadings: FloatArray,
    noise: FloatArray,
    densities: FloatArray,
    corrections: FloatArray,
    scores: Any,
) -> None:
    """``densities[i]``: log density of row i; ``scores[i]``: its derivative in mean, loadings (by rows), log noise.

    ``corrections[i]``: what is left out of the density; an empty array where it is not wanted.
    """
    d, k = loadings.shape
    p, s, vectors, cells = np.empty((k, k)), np.empty((k, k)), np.empty((3, k)), np.empty((_N_CELLS, d))
    g = vectors[_G]
    for cell in range(d):
        cells[_PER_STD, cell], cells[_LOG_NOISE, cell] = 1.0, math.log(noise[cell])
    for row in range(len(u)):
        square, rest, _ = _seen_cells(u, censoring, row, mean, loadings, noise, cells, p, g, FARTHEST)
        explained, log_det = _factors_given_seen(p, g, s)
        _, fallen = _propagate(loadings, noise, cells, s, vectors, _STILL_FOR_SCORES)
        probability, correction = _log_probability(fallen, loadings, noise, cells, s, vectors)
        densities[row] = probability - 0.5 * (square - explained + rest + log_det)
        if len(corrections) > 0:
            corrections[row] = correction
        for j in range(d):
            at, psi, side = d + j * k, noise[j], cells[_SIDE, j]
            if side == 0.0 and u[row, j] != u[row, j]:
                scores[row, j] = scores[row, d + d * k + j] = 0.0
                for i in range(k):
                    scores[row, at + i] = 0.0
                continue
            t, expected = _along(j, loadings, s, vectors)
            if side == 0.0:
                r, square, slope = u[row, j] - mean[j] - expected, t, -1.0
                for i in range(k):
                    r -= loadings[j, i] * g[i]
            else:
                tau = cells[_TAU, j]
                v, centre = t / (1.0 - t * tau), (side * expected - t * cells[_NU, j]) / (1.0 - t * tau)
                spread = v + psi
                _, hazard, left = cut_normal((cells[_LIMIT, j] - centre) / math.sqrt(spread))
                rho = psi / spread
                r = -rho * side * hazard * math.sqrt(spread)
                square = rho * rho * spread * left + v * rho
                # Cov(r, t) = rho (1 - rho) var(y) - v rho, and f follows t by c/t.
                slope = (rho * (1.0 - rho) * spread * left - v * rho) / max(t, 1e-300)
            scores[row, j] = r / psi
            for i in range(k):
                scores[row, at + i] = (r * (g[i] + vectors[_M, i]) + slope * vectors[_C, i]) / psi
            scores[row, d + d * k + j] = 0.5 * ((square + r * r) / psi - 1.0)
