"""Draws of what a row hides: y ~ N(m, V), its first cells known to lie below their limits, the others unlimited.

V = L L' by Cholesky with pivots, so that y = m + L z, z ~ N(0, I). Cells with a limit come first, the least likely next
(Gibson, Glasbey and Elston 1994); a cell without variance of its own gets no pivot, so what is degenerate stays so. With
d_j = L_jj and gap = limit - m a pivot's limit is z_j <= u_j(z) = (gap_j - sum_{i<j} L_ji z_i) / d_j. Propose one after the
other z_j ~ N(mu_j, 1) below u_j: the target over the proposal is exp(psi), and psi is concave in z,

    psi(z, mu) = sum_j [mu_j^2/2 - mu_j z_j + log Phi(u_j - mu_j)].

A proposal is kept with probability exp(psi - max_z psi): draws are independent and exact. The mu of the lowest maximum
is that of the saddle point (Botev 2017), whose 2r equations are r: with hazard = phi/Phi, w_j = u_j - mu_j and
S_ij = V_ij / (d_i d_j) they say lambda = hazard(w), mu_i = -sum_{j>i} lambda_j L_ji/d_j, z = mu - lambda, and so

    w = gap/d + (S - I) lambda,

the stationary point of a function that is convex in lambda; Newton steps on it are of a positive definite matrix.

Cells with a limit but without a pivot are checked after the others. Where too few proposals are kept (hundreds of
strongly dependent cells, or such checks) the row goes on with a walk between walls (bouncing.py), thinned until its
draws are practically independent.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.kernels.bouncing import bounce
from unrelu.kernels.normal import log_probability_and_hazard
from unrelu.kernels.random_numbers import Stream, normal, normal_below, uniform

_NO_VARIANCE = 1e-10  # of a cell's own: what is left of it given other cells is rounding
_SLACK = 1e-9  # standard deviations that a cell without pivot may lie above its limit, before it is put there
_NEWTON_STEPS, _HALVINGS, _SOLVED = 60, 30, 1e-14
_MOST_PROPOSALS = 400  # for one draw; then the row walks
_BURN_IN, _THINNING = 50, 5  # trajectories

Index = NDArray[np.int64]
Workspace = tuple[FloatArray, FloatArray, FloatArray, Index]


@njit(cache=True, nogil=True)
def draw_workspace(h: int) -> Workspace:
    """Room for the draws of rows with at most ``h`` hidden cells."""
    return np.empty((h, h)), np.empty((h, h)), np.empty((12, h)), np.empty(h, dtype=np.int64)


@njit(cache=True, nogil=True)
def _next_pivot(h: int, limited: bool, v: Any, gap: Any, left: Any, ahead: Any) -> int:
    """The cell with variance of its own left that is least likely below its limit, or that has most left; -1: none."""
    best, found = math.inf, -1
    for i in range(h):
        if left[i] > _NO_VARIANCE * v[i, i]:
            if limited:
                if gap[i] == math.inf:
                    continue
                score = ahead[i] / math.sqrt(left[i])
            else:
                score = -left[i] / v[i, i]
            if score < best:
                best, found = score, i
    return found


@njit(cache=True, nogil=True)
def _factor(v: Any, gap: Any, root: Any, order: Index, left: Any, ahead: Any) -> tuple[int, int]:
    """``root``: L, a row per cell, a column per pivot; ``order``: the pivots. Returns those with a limit, and all."""
    h = len(gap)
    for i in range(h):
        left[i], ahead[i] = v[i, i], gap[i]
    tight, limited = 0, True
    for step in range(h):
        pivot = _next_pivot(h, limited, v, gap, left, ahead)
        if pivot < 0 and limited:
            limited = False
            pivot = _next_pivot(h, limited, v, gap, left, ahead)
        if pivot < 0:
            return tight, step
        if limited:
            tight += 1
        own = math.sqrt(left[pivot])
        _, hazard = log_probability_and_hazard(ahead[pivot] / own)
        order[step] = pivot
        for i in range(h):
            entry = 0.0
            if i == pivot:
                entry = own
            elif left[i] > _NO_VARIANCE * v[i, i]:
                entry = v[i, pivot]
                for k in range(step):
                    entry -= root[i, k] * root[pivot, k]
                entry /= own
            root[i, step] = entry
            left[i] -= entry * entry
            ahead[i] += entry * hazard  # as if z were its mean, -hazard
        left[pivot] = 0.0
    return tight, h


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


@njit(cache=True, nogil=True, inline="always")
def _residual(n: int, order: Index, v: Any, gap: Any, root: Any, w: Any, hazard: Any, g: Any) -> float:
    """hazard(w), g = w - gap/d - (S - I) hazard(w), and the function whose derivative by w_i is delta_i g_i."""
    total = 0.0
    for i in range(n):
        log_probability, hazard[i] = log_probability_and_hazard(w[i])
        total += log_probability
    for i in range(n):
        at, own = order[i], root[order[i], i]
        others = -hazard[i]
        for j in range(n):
            others += v[at, order[j]] / (own * root[order[j], j]) * hazard[j]
        g[i] = w[i] - gap[at] / own - others
        total += hazard[i] * (gap[at] / own - w[i] + 0.5 * others)
    return total


@njit(cache=True, nogil=True)
def _tilt(n: int, order: Index, v: Any, gap: Any, root: Any, square: Any, rooms: Any, mu: Any) -> float:
    """The saddle point's ``mu``, and the maximum of psi there; NaN where it was not found."""
    w, hazard, g, x, trial = rooms[0], rooms[1], rooms[2], rooms[3], rooms[4]
    for i in range(n):
        w[i] = gap[order[i]] / root[order[i], i]
    value = _residual(n, order, v, gap, root, w, hazard, g)
    solved = n < 2
    for _ in range(_NEWTON_STEPS):
        if solved:
            break
        # With D = diag(hazard (hazard + w)): (I + (S - I) D) dw = -g, solved as (I - D + sqrt(D) S sqrt(D)) q = -sqrt(D) g.
        for i in range(n):
            delta = min(max(hazard[i] * (hazard[i] + w[i]), 0.0), 1.0)
            mu[i] = math.sqrt(delta)
            x[i] = -mu[i] * g[i]
            for j in range(i):
                square[i, j] = mu[i] * mu[j] * v[order[i], order[j]] / (root[order[i], i] * root[order[j], j])
            square[i, i] = 1.0 - delta + delta * v[order[i], order[i]] / root[order[i], i] ** 2
        _solve(n, square, x)
        decrease = 0.0
        for i in range(n):
            x[i] *= mu[i]
            decrease -= x[i] * g[i]
        solved = decrease < _SOLVED
        for i in range(n):
            trial[i] = w[i]
        value = _step(n, order, v, gap, root, x, decrease, value, rooms)
    if not solved:
        return math.nan
    bound = 0.0
    for i in range(n):
        mu[i] = 0.0
        for j in range(i + 1, n):
            mu[i] -= hazard[j] * root[order[j], i] / root[order[j], j]
        log_probability, _ = log_probability_and_hazard(w[i])
        bound += log_probability + mu[i] * (hazard[i] - 0.5 * mu[i])
    return bound


@njit(cache=True, nogil=True)
def _step(
    n: int, order: Index, v: Any, gap: Any, root: Any, x: Any, decrease: float, value: float, rooms: Any
) -> float:
    """Go along dw = -g - (S - I) x, as far as the function gets lower."""
    w, hazard, g, start, along = rooms[0], rooms[1], rooms[2], rooms[4], rooms[5]
    for i in range(n):
        along[i] = x[i] - g[i]
        for j in range(n):
            along[i] -= v[order[i], order[j]] / (root[order[i], i] * root[order[j], j]) * x[j]
    length, lower = 1.0, value
    for _ in range(_HALVINGS):
        for i in range(n):
            w[i] = start[i] + length * along[i]
        lower = _residual(n, order, v, gap, root, w, hazard, g)
        if lower <= value - 1e-4 * length * decrease + 1e-12 * (1.0 + abs(value)):
            break
        length *= 0.5
    return lower


@njit(cache=True, nogil=True)
def _propose(n: int, order: Index, gap: Any, root: Any, mu: Any, z: Any, stream: Stream) -> float:
    """A proposal in ``z``; its psi."""
    psi = 0.0
    for j in range(n):
        at = order[j]
        room = gap[at]
        for i in range(j):
            room -= root[at, i] * z[i]
        w = room / root[at, j] - mu[j]
        z[j] = mu[j] + normal_below(w, stream)
        log_probability, _ = log_probability_and_hazard(w)
        psi += log_probability + mu[j] * (0.5 * mu[j] - z[j])
    return psi


@njit(cache=True, nogil=True, inline="always")
def _stays_below(n: int, floored: int, v: Any, gap: Any, root: Any, z: Any) -> bool:
    """Whether cells that follow from the n pivots keep their limits, too."""
    for k in range(floored):
        total = -_SLACK * math.sqrt(max(v[k, k], 0.0))
        for i in range(n):
            total += root[k, i] * z[i]
        if total > gap[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _keep(
    tight: int, floored: int, order: Index, v: Any, gap: Any, root: Any, mu: Any, bound: float, z: Any, stream: Stream
) -> bool:
    """Propose until a proposal is kept, in ``z``; False where none of many was."""
    for _ in range(_MOST_PROPOSALS):
        psi = _propose(tight, order, gap, root, mu, z, stream)
        if math.log(uniform(stream)) <= psi - bound and _stays_below(tight, floored, v, gap, root, z):
            return True
    return False


@njit(cache=True, nogil=True)
def _walk(
    turns: int, tight: int, floored: int, order: Index, v: Any, gap: Any, root: Any, rooms: Any, z: Any, stream: Stream
) -> None:
    """Move ``z`` by so many trajectories of the cells with a limit."""
    c, s, end = rooms[0], rooms[1], rooms[2]
    for i in range(floored):
        c[i] = 0.0
        for k in range(tight):
            c[i] += root[i, k] * z[k]
    for _ in range(turns):
        for k in range(tight):
            z[k] = normal(stream)
        for i in range(floored):
            s[i] = 0.0
            for k in range(tight):
                s[i] += root[i, k] * z[k]
        bounce(floored, v, gap, c, s, end)
    _solve_root(tight, order, root, c, z)


@njit(cache=True, nogil=True)
def _solve_root(n: int, order: Index, root: Any, c: Any, z: Any) -> None:
    """The z of which the pivots' deviations are ``c``."""
    for j in range(n):
        total = c[order[j]]
        for i in range(j):
            total -= root[order[j], i] * z[i]
        z[j] = total / root[order[j], j]


@njit(cache=True, nogil=True)
def draw_hidden(
    m: FloatArray,
    v: FloatArray,
    limit: FloatArray,
    floored: int,
    start: FloatArray,
    stream: Stream,
    work: Workspace,
    out: FloatArray,
) -> int:
    """Fill the rows of ``out`` (draws x h) with draws of y ~ N(m, v) whose first ``floored`` cells are below ``limit``.

    ``start`` is a point within the limits, the posterior mean for example; only a walk begins there. ``work`` is of
    ``draw_workspace``. Returns how many of the draws, the last ones, come from a walk: others are independent.
    """
    h = len(m)
    root, square, rooms, order = work
    gap, mu, z = rooms[6, :h], rooms[7], rooms[8]
    for i in range(h):
        gap[i] = limit[i] - m[i] if i < floored else math.inf
    tight, rank = _factor(v, gap, root, order, rooms[0], rooms[1])
    bound = _tilt(tight, order, v, gap, root, square, rooms, mu)
    walked = 0
    for draw in range(len(out)):
        if walked > 0 or not _keep(tight, floored, order, v, gap, root, mu, bound, z, stream):
            turns = _THINNING
            if draw == 0:
                turns = _BURN_IN
                for i in range(h):
                    rooms[0, i] = start[i] - m[i]
                _solve_root(tight, order, root, rooms[0], z)
            elif walked == 0:  # from the last draw that was kept
                _solve_root(tight, order, root, out[draw - 1] - m, z)
            _walk(turns, tight, floored, order, v, gap, root, rooms, z, stream)
            walked += 1
        for k in range(tight, rank):
            z[k] = normal(stream)
        for i in range(h):
            total = m[i]
            for k in range(rank):
                total += root[i, k] * z[k]
            out[draw, i] = min(total, limit[i]) if i < floored else total
    return walked
