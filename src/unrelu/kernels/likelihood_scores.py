"""Rows of y ~ N(mean, S) with cells cut off or missing: log density, and its derivative in mean and S.

By Fisher's identity the derivative is that of complete rows, averaged over what is hidden: with Q = S^-1,
e = E[y] - mean and C the posterior covariance of the cells (:mod:`unrelu.kernels.hidden_cells`; 0 for seen ones),

    d/dmean = Q e        d/dS = ( Q e e' Q + Q C Q - Q )/2.

The log density is without the correction of expectation propagation, whose derivative this would not be.

Rows of y = b + W z + e, z ~ N(0, I_k), e_j ~ N(0, psi_j), with cells cut off or missing: log density and score.

Given z the cells are independent, so that only z has a posterior to be found: normal, but for the cut-off cells, each a
probit site on t = w_j'z. Expectation propagation gives site j the form exp(nu t - tau t^2 / 2) that matches mean and
variance of t under its cavity N(m, v) times the true site. With sign s = -1 for "at most l" and 1 for "at least l",

    a = s (b + m - l)/sqrt(v + psi)      lambda = phi(a)/Phi(a)      q = lambda (lambda + a)/(v + psi)
    mean of t = m + s v lambda/sqrt(v + psi)                         variance of t = v (1 - v q).

A sweep over h cut-off cells costs about 3 h k^2 multiplications. A seen cell is the site tau = 1/psi, nu = (y - b)/psi,
once and for all; a missing one is none. At the fixed point the log density is stationary in the sites, so that its
derivative is what Fisher's identity gives from the moments of the sites' own cells, r = y - b - w'z:

    d/db = E[r]/psi        d/dw = E[r z]/psi        d/dlog psi = (E[r^2]/psi - 1)/2.

Of a cut-off cell y is the cavity's N(b + m, v + psi) restricted to its side; with rho = psi/(v + psi), r is
rho (y - b - m) plus noise that y does not tell, of variance v rho. The correction of the log density is that of
:mod:`unrelu.kernels.hidden_cells`: given z the cells are independent, so that the covariances of the y_j are
(c_j/t_j)(c_k/t_k) w_j'S w_k with c = Cov(y, t) and t = w'S w.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import contracted_kernel
from unrelu.kernels.hidden_cells import CENTRE, MU, WIDTH, cut_skewness, settle, workspaces
from unrelu.kernels.normal import cut_normal
from unrelu.kernels.row_density import ORDER, SCALE, SEEN, U, hide

_E, _QE, _QC = 0, 1, 2  # rows of a work space: e, Q e, and the d rows of Q C


@contracted_kernel
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
    work, index, squares = workspaces(d)
    v, s, more = squares[0], squares[1], np.empty((_QC + d, d))
    for j in range(d):
        work[SCALE, j] = 1.0
    for row in range(n):
        n_seen, cut, hidden, normal = hide(values, beyond, row, mean, precision, np.inf, work, index, v)
        probability, corrections[row] = settle(cut, hidden, work, v, s)
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


_LOG_2PI = math.log(2.0 * math.pi)
_MOST_SWEEPS = 60
_SETTLED = 1e-6  # change of a site, in posterior standard deviations of its t
_LARGEST_SHRINK = 1.0 - 1e-10


@njit(cache=True, nogil=True, inline="always")
def _site(limit: float, side: float, m: float, v: float, psi: float) -> tuple[float, float, float, float]:
    """(log probability, lambda, a, 1 - q (v + psi)) of a cut-off cell under its cavity; ``limit`` is l - b."""
    a = side * (m - limit) / math.sqrt(v + psi)
    log_probability, hazard, left = cut_normal(a)
    return log_probability, hazard, a, left


@njit(cache=True, nogil=True)
def _absorb(k: int, s: FloatArray, m: FloatArray, c: FloatArray, t: float, change: float, shift: float) -> float:
    """Add ``change`` to a site's tau and ``shift`` to its nu: c = S w, t = w'S w. Returns log(1 + change t)."""
    scale = 1.0 / (1.0 + change * t)
    mean = 0.0
    for i in range(k):
        mean += m[k + i] * m[i]  # w is kept behind m
    gain, factor = (shift - change * mean) * scale, change * scale
    for i in range(k):
        m[i] += gain * c[i]
        for j in range(k):
            s[i, j] -= factor * c[i] * c[j]
    return -math.log(scale)


@njit(cache=True, nogil=True)
def _along(k: int, j: int, weights: FloatArray, s: FloatArray, m: FloatArray, c: FloatArray) -> tuple[float, float]:
    """Put w_j behind m and S w_j into c; returns (w'S w, w'm)."""
    variance = mean = 0.0
    for i in range(k):
        m[k + i] = weights[j, i]
    for i in range(k):
        total = 0.0
        for l in range(k):  # noqa: E741
            total += s[i, l] * m[k + l]
        c[i] = total
        variance += total * m[k + i]
        mean += m[k + i] * m[i]
    return variance, mean


@njit(cache=True, nogil=True)
def _propagate(
    row: int, u: Any, beyond: Any, bias: FloatArray, weights: FloatArray, noise: FloatArray,
    s: FloatArray, m: FloatArray, c: FloatArray, tau: FloatArray, nu: FloatArray,
) -> float:  # fmt: skip
    """The posterior N(m, s) of z and the sites of the cut-off cells; returns the row's log density."""
    d, k = weights.shape
    m[:] = 0.0
    s[:] = np.eye(k)
    total = log_det = linear = 0.0
    for j in range(d):
        tau[j] = nu[j] = 0.0
        if beyond[row, j] == 0 and u[row, j] == u[row, j]:
            variance, _ = _along(k, j, weights, s, m, c)
            x = u[row, j] - bias[j]
            tau[j], nu[j] = 1.0 / noise[j], x / noise[j]
            log_det += _absorb(k, s, m, c, variance, tau[j], nu[j])
            total -= 0.5 * (_LOG_2PI + math.log(noise[j]) + x * x / noise[j])
    for _ in range(_MOST_SWEEPS):
        moved = 0.0
        for j in range(d):
            if beyond[row, j] == 0:
                continue
            t, mean = _along(k, j, weights, s, m, c)
            v = t / (1.0 - t * tau[j])
            centre = (mean - t * nu[j]) / (1.0 - t * tau[j])
            _, hazard, _, left = _site(u[row, j] - bias[j], float(beyond[row, j]), centre, v, noise[j])
            q = (1.0 - left) / (v + noise[j])
            shrink = min(v * q, _LARGEST_SHRINK)
            new = q / (1.0 - shrink)
            slope = float(beyond[row, j]) * hazard / math.sqrt(v + noise[j])
            shift = (slope + centre * q) / (1.0 - shrink)
            change, push = new - tau[j], shift - nu[j]
            tau[j], nu[j] = new, shift
            log_det += _absorb(k, s, m, c, t, change, push)
            moved = max(moved, abs(change) * t, abs(push - change * mean) * math.sqrt(t))
        if moved < _SETTLED:
            break
    for j in range(d):
        if u[row, j] != u[row, j]:
            continue
        t, mean = _along(k, j, weights, s, m, c)
        linear += nu[j] * mean
        if beyond[row, j] != 0:
            v, centre = t / (1.0 - t * tau[j]), (mean - t * nu[j]) / (1.0 - t * tau[j])
            log_probability, _, _, _ = _site(u[row, j] - bias[j], float(beyond[row, j]), centre, v, noise[j])
            w = 1.0 + tau[j] * v
            square = centre * nu[j] + 0.5 * nu[j] * nu[j] * v - 0.5 * tau[j] * centre * centre
            total += log_probability + 0.5 * math.log(w) - square / w
    return total - 0.5 * log_det + 0.5 * linear


@njit(cache=True, nogil=True)
def _correction(
    row: int, u: Any, beyond: Any, bias: FloatArray, weights: FloatArray, noise: FloatArray,
    s: FloatArray, m: FloatArray, c: FloatArray, tau: FloatArray, nu: FloatArray, skew: FloatArray, along: FloatArray,
) -> float:  # fmt: skip
    """What expectation propagation leaves out of the row's log density, to leading order."""
    d, k = weights.shape
    total = 0.0
    for j in range(d):
        if beyond[row, j] == 0:
            continue
        t, mean = _along(k, j, weights, s, m, c)
        v, centre = t / (1.0 - t * tau[j]), (mean - t * nu[j]) / (1.0 - t * tau[j])
        sign = float(beyond[row, j])
        _, hazard, a, left = _site(u[row, j] - bias[j], sign, centre, v, noise[j])
        # Cov(y, t)/t over the standard deviation of y, for each w'S w_k of a correlation.
        share = v / (v + noise[j]) * math.sqrt((v + noise[j]) * left) / max(t, 1e-300)
        skew[j] = -sign * cut_skewness(a, hazard, left)
        for i in range(k):
            along[j, i] = share * c[i]
        for l in range(j):  # noqa: E741
            if beyond[row, l] != 0:
                correlation = 0.0
                for i in range(k):
                    correlation += along[l, i] * weights[j, i]
                correlation *= share
                total += skew[j] * skew[l] * correlation * correlation * correlation / 6.0
    return total


@njit(cache=True, nogil=True)
def factor_scores(
    u: Any, beyond: Any, bias: FloatArray, weights: FloatArray, noise: FloatArray,
    densities: FloatArray, corrections: FloatArray, scores: Any,
) -> None:  # fmt: skip
    """``densities[i]``: log density of row i; ``scores[i]``: its derivative in bias, weights (by rows), log noise.
    ``corrections[i]``: what is left out of the density; an empty array where it is not wanted."""
    n = len(u)
    d, k = weights.shape
    s, m, c = np.empty((k, k)), np.empty(2 * k), np.empty(k)
    tau, nu, skew, along = np.empty(d), np.empty(d), np.empty(d), np.empty((d, k))
    for row in range(n):
        densities[row] = _propagate(row, u, beyond, bias, weights, noise, s, m, c, tau, nu)
        if len(corrections) > 0:
            corrections[row] = _correction(row, u, beyond, bias, weights, noise, s, m, c, tau, nu, skew, along)
        for j in range(d):
            at = d + j * k
            if u[row, j] != u[row, j]:
                scores[row, j] = scores[row, d + d * k + j] = 0.0
                for i in range(k):
                    scores[row, at + i] = 0.0
                continue
            t, mean = _along(k, j, weights, s, m, c)
            psi = noise[j]
            if beyond[row, j] == 0:
                r, square, slope = u[row, j] - bias[j] - mean, t, -1.0
            else:
                v, centre = t / (1.0 - t * tau[j]), (mean - t * nu[j]) / (1.0 - t * tau[j])
                sign = float(beyond[row, j])
                _, hazard, _, left = _site(u[row, j] - bias[j], sign, centre, v, psi)
                spread = v + psi
                rho = psi / spread
                r = rho * sign * hazard * math.sqrt(spread)
                square = rho * rho * spread * left + v * rho
                # Cov(r, t) = rho (1 - rho) var(y) - v rho, and z follows t by c/t.
                slope = (rho * (1.0 - rho) * spread * left - v * rho) / max(t, 1e-300)
            scores[row, j] = r / psi
            for i in range(k):
                scores[row, at + i] = (r * m[i] + slope * c[i]) / psi
            scores[row, d + d * k + j] = 0.5 * ((square + r * r) / psi - 1.0)
