"""Draws of what a row hides: y ~ N(m, V), its first cells below their limits, the others unlimited.

V = L L' by Cholesky with pivots, so that y = m + L z, z ~ N(0, I). Cells with a limit come first, the least likely next
(Gibson, Glasbey and Elston 1994); a cell without variance of its own gets no pivot, so what is degenerate stays so. The
pivots' limits are then limits of one z after the other, L z <= base with L_jj = 1, and z is drawn exactly. Cells with a
limit but without a pivot are compared with it when the others are drawn: where one is above its limit, all are drawn
again.

*Exact draws.* Propose z_j ~ N(mu_j, 1) below u_j(z) = base_j - sum_{i<j} L_ji z_i, for j = 1, 2, ... The target's
density over that of the proposal is, up to a constant, exp(psi), where psi is concave in z:

    psi(z, mu) = sum_j [mu_j^2/2 - mu_j z_j + log Phi(u_j - mu_j)].

A proposal kept with probability exp(psi - max_z psi) is an exact draw. The mu with the lowest maximum is that of the
saddle point (Botev 2017). Its 2n equations are n here. With w_j = u_j - mu_j, lambda = phi/Phi and S = L L' they say

    mu = (I - L)' lambda(w)        z = mu - lambda(w)        and so        g = w - base - (S - I) lambda(w) = 0,

where delta_j g_j, delta = lambda (lambda + w), is the derivative by w_j of

    F = sum_j [log Phi(w_j) + lambda_j (base_j - w_j)] + lambda'(S - I) lambda / 2,

which is convex as a function of lambda. Newton's dw = -g - (S - I) x, x = delta dw, comes from

    (I - D + sqrt(D) S sqrt(D)) q = -sqrt(D) g        x = sqrt(D) q        D = diag(delta), 0 < delta < 1,

a positive definite matrix; F falls along dw at the rate -g'x, and steps that do not lower it are halved.

*A walk* goes on where too few draws are kept (a hundred cells that pull in different directions; a narrow gap that two
cells leave each other): Hamiltonian trajectories between the walls, which have a closed form (Pakman and Paninski
2014), of which the row takes every few one. For y ~ N(m, V) with y_k <= limit_k, and a velocity s ~ N(0, V), the
deviation c = y - m moves on

    c cos t + s sin t                        which leaves the distribution as it is, and for t = pi/2 forgets c,

until a wall: A cos(t - angle) = c_k cos t + s_k sin t first rises to gap_k = limit_k - m_k at angle - acos(gap_k / A).
There s is reflected, s -= 2 (s_k / V_kk) V_k, which reverses s_k and keeps the density of s. Nothing is inverted: a
singular V is as good as any, and directions without variance stay so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import helper, kernel
from unrelu.kernels.hidden_cells import LIMIT, MEAN, MU, ORDER, PER_STD, SIGN, condition_on_cuts, hide, workspaces
from unrelu.kernels.normal import cut_share, log_probability_and_hazard
from unrelu.kernels.random_numbers import Stream, normal, normal_below, seed_stream, uniform

_MUCH, _LITTLE = 1e-2, 1e-9  # shares of a cell's variance: its own given other cells; less is taken for rounding
_SLACK = 1e-9  # standard deviations that a cell without pivot may lie above its limit, before it is put there
_MOST_PROPOSALS = 400  # for one draw; then the row walks
_BURN_IN, _THINNING = 50, 5  # trajectories: to begin with, and for one draw

_MOST_STEPS, _MOST_HALVINGS = 60, 30
_SOLVED = 1e-14  # rate of F's fall: what the maximum of psi may be wrong by
_FULL_CIRCLE = 2.0 * math.pi
_MOST_BOUNCES = 50  # a cell

Index = NDArray[np.int64]
Workspace = tuple[FloatArray, FloatArray, Index]


# --- exact draws -----------------------------------------------------------------------------------------------------


@helper
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


@helper
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


@helper
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


@kernel
def tilt(n: int, low: FloatArray, base: FloatArray, squares: FloatArray, vectors: FloatArray, mu: FloatArray) -> float:
    """The saddle point's ``mu`` for limits low z <= base, and the maximum of psi; NaN where it was not found.

    ``squares`` (2 x n x n) and ``vectors`` (6 x n) are work space.
    """
    s, square = squares[0], squares[1]
    w, hazard, g, x, along, trial = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], vectors[5]
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


@kernel
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


# --- the walk --------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, inline="always")
def _hit(c: float, s: float, gap: float) -> float:
    """When c cos t + s sin t next rises to ``gap``; infinity: never. Beyond the wall by rounding counts as at it."""
    if c >= gap and s > 0.0:
        return 0.0
    size = math.sqrt(c * c + s * s)
    if size <= abs(gap):
        return math.inf
    t = math.atan2(s, c) - math.acos(gap / size)
    return t if t >= 0.0 else t + _FULL_CIRCLE


@njit(cache=True, nogil=True, inline="always")
def _first_hit(n: int, gap: Any, c: Any, s: Any, latest: float) -> tuple[float, int]:
    """The first wall that is hit before ``latest``, and when; -1: none."""
    t, wall = latest, -1
    cosine, sine = math.cos(t), math.sin(t)
    for k in range(n):
        # Up to t, at most a quarter of a circle, cell k does not rise above this: most walls need no angles.
        if (c[k] if c[k] > 0.0 else c[k] * cosine) + max(s[k], 0.0) * sine >= gap[k]:
            hit = _hit(c[k], s[k], gap[k])
            if hit < t:
                t, wall = hit, k
                cosine, sine = math.cos(t), math.sin(t)
    return t, wall


@kernel
def bounce(n: int, v: FloatArray, gap: FloatArray, time: float, c: FloatArray, s: FloatArray, end: FloatArray) -> bool:
    """Move ``c`` for a time of at most pi/2 with velocity ``s``, within the walls ``gap`` of its first n entries.

    ``end`` is work space of n numbers. False where there were too many bounces: then c stays where it was, which is as
    right, as the way back would have had as many.
    """
    for i in range(n):
        end[i] = c[i]
    for _ in range(_MOST_BOUNCES * n + 1):
        t, wall = _first_hit(n, gap, end, s, time)
        cosine, sine = math.cos(t), math.sin(t)
        for i in range(n):
            end[i], s[i] = end[i] * cosine + s[i] * sine, s[i] * cosine - end[i] * sine
        if wall < 0:
            for i in range(n):
                c[i] = end[i]
            return True
        push = 2.0 * s[wall] / v[wall, wall]
        for i in range(n):
            s[i] -= push * v[i, wall]
        time -= t
    return False


# --- draws of a row, and of many -------------------------------------------------------------------------------------


@kernel
def draw_workspace(h: int) -> Workspace:
    """Room for the draws of rows with at most ``h`` hidden cells."""
    return np.empty((4, h, h)), np.empty((11, h)), np.empty(h, dtype=np.int64)


@helper
def _next_pivot(stage: int, v: Any, gap: Any, left: Any, ahead: Any) -> int:
    """The least likely cell with a limit that has much variance of its own (stage 0); -1: none.

    Then, as pivots are divided by, that with most of its own left, among cells with a limit (1) and all others (2).
    """
    best, found = math.inf, -1
    enough = _MUCH if stage == 0 else _LITTLE
    for i in range(len(gap)):
        if left[i] > enough * v[i, i] and (stage == 2 or gap[i] < math.inf):
            score = ahead[i] / math.sqrt(left[i]) if stage == 0 else -left[i] / v[i, i]
            if score < best:
                best, found = score, i
    return found


@helper
def _factor(v: Any, gap: Any, root: Any, order: Index, left: Any, ahead: Any) -> tuple[int, int]:
    """``root``: L, a row per cell, a column per pivot; ``order``: the pivots. Returns those with a limit, and all."""
    h = len(gap)
    for i in range(h):
        left[i], ahead[i] = v[i, i], gap[i]
    tight = stage = 0
    for step in range(h):
        pivot = _next_pivot(stage, v, gap, left, ahead)
        while pivot < 0 and stage < 2:
            stage += 1
            pivot = _next_pivot(stage, v, gap, left, ahead)
        if pivot < 0:
            return tight, step
        tight += stage < 2
        own = math.sqrt(left[pivot])
        hazard = log_probability_and_hazard(ahead[pivot] / own)[1] if stage < 2 else 0.0
        order[step] = pivot
        for i in range(h):
            entry = own if i == pivot else 0.0
            if i != pivot and left[i] > -math.inf:
                entry = v[i, pivot]
                for k in range(step):
                    entry -= root[i, k] * root[pivot, k]
                entry /= own
            root[i, step] = entry
            left[i] -= entry * entry
            ahead[i] += entry * hazard  # as if z were its mean, -hazard
        left[pivot] = -math.inf
    return tight, h


@helper
def _all_below(cells: int, tight: int, v: Any, gap: Any, root: Any, z: Any) -> bool:
    """Whether the cells, those without pivot among them, keep their limits."""
    for k in range(cells):
        total = -_SLACK * math.sqrt(max(v[k, k], 0.0))
        for i in range(tight):
            total += root[k, i] * z[i]
        if total > gap[k]:
            return False
    return True


@helper
def _unmix(tight: int, order: Index, root: Any, y: Any, m: Any, z: Any) -> None:
    """The z of the pivots' values in y."""
    for j in range(tight):
        at = order[j]
        total = y[at] - m[at]
        for i in range(j):
            total -= root[at, i] * z[i]
        z[j] = total / root[at, j]


@helper
def _mix(cells: int, n: int, root: Any, z: Any, out: Any) -> None:
    """out = L z."""
    for i in range(cells):
        total = 0.0
        for k in range(n):
            total += root[i, k] * z[k]
        out[i] = total


@helper
def _walk(cells: int, tight: int, v: Any, gap: Any, root: Any, time: float, vectors: Any, stream: Stream) -> bool:
    """One trajectory of the deviations vectors[0] of the first cells; False where it had too many bounces."""
    velocity, normals = vectors[1], vectors[3]
    for k in range(tight):
        normals[k] = normal(stream)
    _mix(cells, tight, root, normals, velocity)
    return bool(bounce(cells, v, gap, time, vectors[0], velocity, vectors[2]))


@kernel
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

    ``start`` is a point within the limits, the posterior mean for example: a walk may begin there. ``work`` is of
    ``draw_workspace``. Returns how many draws, the last ones, come from a walk; the others are independent and exact.
    """
    h = len(m)
    squares, vectors, order = work
    root, low = squares[0], squares[1]
    gap, base, mu, z, nowhere = vectors[6, :h], vectors[7], vectors[8], vectors[9], vectors[10]
    for i in range(h):
        gap[i], nowhere[i] = limit[i] - m[i] if i < floored else math.inf, 0.0
    tight, rank = _factor(v, gap, root, order, vectors[0], vectors[1])
    for j in range(tight):  # the pivots' limits as low z <= base
        own = root[order[j], j]
        base[j] = gap[order[j]] / own
        for i in range(j + 1):
            low[j, i] = root[order[j], i] / own
    bound = tilt(tight, low, base, squares[2:], vectors, mu)
    walked, time = 0, 0.0
    for draw in range(len(out)):
        kept = False
        if walked == 0:
            for _ in range(_MOST_PROPOSALS):
                psi = propose(tight, low, base, mu, z, stream)
                kept = math.log(uniform(stream)) <= psi - bound
                if kept and tight < floored:
                    kept = _all_below(floored, tight, v, gap, root, z)
                if kept:
                    break
        if not kept:
            if walked == 0:  # from the last draw that was kept, if there is one
                _unmix(tight, order, root, out[draw - 1] if draw > 0 else start, m, z)
                _mix(floored, tight, root, z, vectors[0])
                time = 0.5 * math.pi
                for _ in range(_BURN_IN):
                    if not _walk(floored, tight, v, gap, root, time, vectors, stream):
                        time *= 0.5  # shorter, where walls are close
            for _ in range(_THINNING):
                _walk(floored, tight, v, gap, root, time, vectors, stream)
            _unmix(tight, order, root, vectors[0], nowhere, z)
            walked += 1
        for k in range(tight, rank):
            z[k] = normal(stream)
        _mix(h, rank, root, z, out[draw])
        for i in range(h):
            out[draw, i] = min(out[draw, i] + m[i], limit[i]) if i < floored else out[draw, i] + m[i]
    return walked


@kernel
def draw_rows(
    values: Any,
    censoring: Any,
    mean: FloatArray,
    std: FloatArray,
    precision: FloatArray,
    rounding: float,
    seed: int,
    first_row: int,
    out: FloatArray,
) -> int:
    """``out`` (n x draws x d): the rows with their hidden cells drawn, in the units of ``values``.

    ``rounding`` is taken off the variances in standard units: what the inverse of a singular matrix has added to them.
    Returns how many draws come from a walk.
    """
    n, d = values.shape
    n_draws = out.shape[1]
    cells, index, v, s = workspaces(d)
    m, limit = cells[MEAN], cells[LIMIT]
    for j in range(d):
        cells[PER_STD, j] = 1.0 / std[j]
    work, stream, start = draw_workspace(d), np.empty(4, dtype=np.uint64), np.empty(d)
    walked = 0
    for row in range(n):
        _, cut, hidden, _ = hide(values, censoring, row, mean, precision, 2.0 * max(d, 1), cells, index, v)
        for draw in range(n_draws):
            for j in range(d):
                out[row, draw, j] = values[row, j]
        if hidden == 0:
            continue
        condition_on_cuts(cut, hidden, cells, v, s)
        covariance, drawn = np.empty((hidden, hidden)), np.empty((n_draws, hidden))
        for i in range(hidden):
            start[i] = cells[MU, i] * cells[SIGN, i]
            limit[i] = limit[i] + m[i] if i < cut else np.inf
            for j in range(i + 1):
                covariance[i, j] = covariance[j, i] = -v[i, j]
            covariance[i, i] = max(covariance[i, i] - rounding, 0.0)
        seed_stream(seed, first_row + row, stream)
        walked += draw_hidden(m[:hidden], covariance, limit[:hidden], cut, start[:hidden], stream, work, drawn)
        for draw in range(n_draws):
            for i in range(hidden):
                at = index[ORDER, i]
                y = drawn[draw, i] if np.isfinite(drawn[draw, i]) else start[i]  # the mean of what cannot be drawn
                out[row, draw, at] = mean[at] + std[at] * cells[SIGN, i] * y
    return walked
