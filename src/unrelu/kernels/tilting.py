"""Exact draws of z ~ N(0, I) below limits that come one after the other: L z <= base, L lower triangular, L_jj = 1.

Propose z_j ~ N(mu_j, 1) below u_j(z) = base_j - sum_{i<j} L_ji z_i, for j = 1, 2, ... The target's density over that
of the proposal is, up to a constant, exp(psi), where psi is concave in z:

    psi(z, mu) = sum_j [mu_j^2/2 - mu_j z_j + log Phi(u_j - mu_j)].

A proposal kept with probability exp(psi - max_z psi) is an exact draw. The mu with the lowest maximum is that of the
saddle point (Botev 2017). Its 2n equations are n here. With w_j = u_j - mu_j, lambda = phi/Phi and S = L L' they say

    mu = (I - L)' lambda(w)        z = mu - lambda(w)        and so        g = w - base - (S - I) lambda(w) = 0,

where delta_j g_j, delta = lambda (lambda + w), is the derivative by w_j of

    F = sum_j [log Phi(w_j) + lambda_j (base_j - w_j)] + lambda'(S - I) lambda / 2,

which is convex as a function of lambda. Newton's dw = -g - (S - I) x, x = delta dw, comes from

    (I - D + sqrt(D) S sqrt(D)) q = -sqrt(D) g        x = sqrt(D) q        D = diag(delta), 0 < delta < 1,

a positive definite matrix; F falls along dw at the rate -g'x, and steps that do not lower it are halved.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.normal import cut_share, log_probability_and_hazard
from unrelu.kernels.random_numbers import Stream, normal_below

_MOST_STEPS, _MOST_HALVINGS = 60, 30
_SOLVED = 1e-14  # rate of F's fall: what the maximum of psi may be wrong by


@njit(cache=True, nogil=True)
def _solve(n: int, a: Any, x: Any) -> None:
    """x = a^-1 x for a positive definite ``a`` (lower triangle, overwritten)."""
    for i in range(n):
        for j in range(i + 1):
            entry = a[i, j]
            for k in range(j):
                entry -= a[i, k] * a[j, k]
            a[i, j] = math.sqrt(max(entry, 1e-300)) if i == j else entry / a[j, j]
        entry = x[i]
        for k in range(i):
            entry -= a[i, k] * x[k]
        x[i] = entry / a[i, i]
    for i in range(n - 1, -1, -1):
        entry = x[i]
        for k in range(i + 1, n):
            entry -= a[k, i] * x[k]
        x[i] = entry / a[i, i]


@njit(cache=True, nogil=True)
def _function(n: int, s: Any, base: Any, w: Any, hazard: Any, g: Any) -> float:
    """F, with lambda and g."""
    total = 0.0
    for i in range(n):
        log_probability, hazard[i] = log_probability_and_hazard(w[i])
        total += log_probability
    for i in range(n):
        others = -hazard[i]
        for j in range(n):
            others += s[i, j] * hazard[j]
        g[i] = w[i] - base[i] - others
        total += hazard[i] * (base[i] - w[i] + 0.5 * others)
    return total


@njit(cache=True, nogil=True)
def _direction(n: int, s: Any, square: Any, w: Any, hazard: Any, g: Any, x: Any, along: Any) -> float:
    """Newton's step ``along``, and the rate of F's fall on it."""
    for i in range(n):
        delta = min(max(cut_share(w[i], hazard[i]), 0.0), 1.0)
        along[i] = math.sqrt(delta)
        x[i] = -along[i] * g[i]
        for j in range(i):
            square[i, j] = along[i] * along[j] * s[i, j]
        square[i, i] = 1.0 - delta + delta * s[i, i]
    _solve(n, square, x)
    rate = 0.0
    for i in range(n):
        x[i] *= along[i]
        rate -= x[i] * g[i]
    for i in range(n):
        along[i] = x[i] - g[i]
        for j in range(n):
            along[i] -= s[i, j] * x[j]
    return rate


@njit(cache=True, nogil=True)
def tilt(n: int, low: FloatArray, base: FloatArray, squares: FloatArray, rooms: FloatArray, mu: FloatArray) -> float:
    """The saddle point's ``mu`` for limits low z <= base, and the maximum of psi; NaN where it was not found.

    ``squares`` (2 x n x n) and ``rooms`` (6 x n) are room to work in.
    """
    s, square = squares[0], squares[1]
    w, hazard, g, x, along, trial = rooms[0], rooms[1], rooms[2], rooms[3], rooms[4], rooms[5]
    for i in range(n):
        w[i] = base[i]
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += low[i, k] * low[j, k]
            s[i, j] = s[j, i] = total
    value, rate = _function(n, s, base, w, hazard, g), math.inf
    for _ in range(_MOST_STEPS):
        rate = _direction(n, s, square, w, hazard, g, x, along)
        length, before = 1.0, value
        for _ in range(_MOST_HALVINGS):
            for i in range(n):
                trial[i] = w[i] + length * along[i]
            value = _function(n, s, base, trial, hazard, g)
            if value <= before - 1e-4 * length * rate + 1e-12 * (1.0 + abs(before)):
                break
            length *= 0.5
        w[:n] = trial[:n]
        if rate < _SOLVED:
            break
    bound = 0.0 if rate < _SOLVED else math.nan
    for i in range(n):
        mu[i] = 0.0
        for j in range(i + 1, n):
            mu[i] -= low[j, i] * hazard[j]
        log_probability, _ = log_probability_and_hazard(w[i])
        bound += log_probability + mu[i] * (hazard[i] - 0.5 * mu[i])
    return bound


@njit(cache=True, nogil=True)
def propose(n: int, low: FloatArray, base: FloatArray, mu: FloatArray, z: FloatArray, stream: Stream) -> float:
    """A proposal in ``z``, below its limits; its psi."""
    psi = 0.0
    for j in range(n):
        w = base[j] - mu[j]
        for i in range(j):
            w -= low[j, i] * z[i]
        z[j] = mu[j] + normal_below(w, stream)
        log_probability, _ = log_probability_and_hazard(w)
        psi += log_probability + mu[j] * (0.5 * mu[j] - z[j])
    return psi
