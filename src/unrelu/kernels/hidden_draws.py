"""Draws of what a row hides: y ~ N(m, V), its first cells known to lie below their limits, the others unlimited.

V = L L' by Cholesky with pivots, so that y = m + L z, z ~ N(0, I). Cells with a limit come first, the least likely next
(Gibson, Glasbey and Elston 1994); a cell without variance of its own gets no pivot, so what is degenerate stays so. The
pivots' limits are then limits of one z after the other, of which ``tilting`` makes independent, exact draws. Cells
with a limit but without a pivot are looked at when the others are drawn: where one is above its limit, all are drawn
again. Other z are free.

Where too few draws are kept (a hundred cells that pull in different directions; a narrow gap that two cells leave each
other) the row goes on with a walk between walls (``bouncing``), of which it takes every few trajectories one.
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
from unrelu.kernels.random_numbers import Stream, normal, uniform
from unrelu.kernels.tilting import propose, tilt

_MUCH, _LITTLE = 1e-2, 1e-9  # shares of a cell's variance: its own given other cells; less is taken for rounding
_SLACK = 1e-9  # standard deviations that a cell without pivot may lie above its limit, before it is put there
_MOST_PROPOSALS = 400  # for one draw; then the row walks
_BURN_IN, _THINNING = 50, 5  # trajectories: to begin with, and for one draw

Index = NDArray[np.int64]
Workspace = tuple[FloatArray, FloatArray, Index]


@njit(cache=True, nogil=True)
def draw_workspace(h: int) -> Workspace:
    """Room for the draws of rows with at most ``h`` hidden cells."""
    return np.empty((4, h, h)), np.empty((11, h)), np.empty(h, dtype=np.int64)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _scale(tight: int, order: Index, root: Any, gap: Any, low: Any, base: Any) -> None:
    """The pivots' limits as low z <= base."""
    for j in range(tight):
        own = root[order[j], j]
        base[j] = gap[order[j]] / own
        for i in range(j + 1):
            low[j, i] = root[order[j], i] / own


@njit(cache=True, nogil=True)
def _all_below(cells: int, tight: int, v: Any, gap: Any, root: Any, z: Any) -> bool:
    """Whether the cells, those without pivot among them, keep their limits."""
    for k in range(cells):
        total = -_SLACK * math.sqrt(max(v[k, k], 0.0))
        for i in range(tight):
            total += root[k, i] * z[i]
        if total > gap[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _unmix(tight: int, order: Index, root: Any, y: Any, m: Any, z: Any) -> None:
    """The z of the pivots' values in y."""
    for j in range(tight):
        at = order[j]
        total = y[at] - m[at]
        for i in range(j):
            total -= root[at, i] * z[i]
        z[j] = total / root[at, j]


@njit(cache=True, nogil=True)
def _mix(cells: int, n: int, root: Any, z: Any, out: Any) -> None:
    """out = L z."""
    for i in range(cells):
        total = 0.0
        for k in range(n):
            total += root[i, k] * z[k]
        out[i] = total


@njit(cache=True, nogil=True)
def _walk(cells: int, tight: int, v: Any, gap: Any, root: Any, time: float, rooms: Any, stream: Stream) -> bool:
    """One trajectory of the deviations rooms[0] of the first cells; False where it had too many bounces."""
    velocity, normals = rooms[1], rooms[3]
    for k in range(tight):
        normals[k] = normal(stream)
    _mix(cells, tight, root, normals, velocity)
    return bool(bounce(cells, v, gap, time, rooms[0], velocity, rooms[2]))


@njit(cache=True, nogil=True)
def _begin(cells: int, tight: int, v: Any, gap: Any, root: Any, rooms: Any, z: Any, stream: Stream) -> float:
    """Walk from z until that is forgotten. Returns the time of a trajectory: shorter, where walls are close."""
    _mix(cells, tight, root, z, rooms[0])
    time = 0.5 * math.pi
    for _ in range(_BURN_IN):
        if not _walk(cells, tight, v, gap, root, time, rooms, stream):
            time *= 0.5
    return time


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

    ``start`` is a point within the limits, the posterior mean for example: a walk may begin there. ``work`` is of
    ``draw_workspace``. Returns how many draws, the last ones, come from a walk; the others are independent and exact.
    """
    h = len(m)
    squares, rooms, order = work
    root, low = squares[0], squares[1]
    gap, base, mu, z, nowhere = rooms[6, :h], rooms[7], rooms[8], rooms[9], rooms[10]
    for i in range(h):
        gap[i], nowhere[i] = limit[i] - m[i] if i < floored else math.inf, 0.0
    tight, rank = _factor(v, gap, root, order, rooms[0], rooms[1])
    _scale(tight, order, root, gap, low, base)
    bound = tilt(tight, low, base, squares[2:], rooms, mu)
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
                time = _begin(floored, tight, v, gap, root, rooms, z, stream)
            for _ in range(_THINNING):
                _walk(floored, tight, v, gap, root, time, rooms, stream)
            _unmix(tight, order, root, rooms[0], nowhere, z)
            walked += 1
        for k in range(tight, rank):
            z[k] = normal(stream)
        _mix(h, rank, root, z, out[draw])
        for i in range(h):
            out[draw, i] = min(out[draw, i] + m[i], limit[i]) if i < floored else out[draw, i] + m[i]
    return walked
