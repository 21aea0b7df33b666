"""A normal within walls, by Hamiltonian trajectories that are known in closed form (Pakman and Paninski 2014).

For y ~ N(m, V) with y_k <= limit_k, and a velocity s ~ N(0, V), the deviation c = y - m moves on

    c cos t + s sin t                        which leaves the law as it is, and for t = pi/2 forgets c,

until a wall: A cos(t - angle) = c_k cos t + s_k sin t first rises to gap_k = limit_k - m_k at angle - acos(gap_k / A).
There s is reflected, s -= 2 (s_k / V_kk) V_k, which turns s_k around and keeps the density of s. Nothing is inverted: a
singular V is as good as any, and directions without variance stay so.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from unrelu.contracts import FloatArray

_TURN = 2.0 * math.pi
_MOST_BOUNCES = 50  # a cell


@njit(cache=True, nogil=True, inline="always")
def _hit(c: float, s: float, gap: float) -> float:
    """When c cos t + s sin t next rises to ``gap``; infinity: never. Beyond the wall by rounding counts as at it."""
    if c >= gap and s > 0.0:
        return 0.0
    size = math.sqrt(c * c + s * s)
    if size <= abs(gap):
        return math.inf
    t = math.atan2(s, c) - math.acos(gap / size)
    return t if t >= 0.0 else t + _TURN


@njit(cache=True, nogil=True, inline="always")
def _first_hit(n: int, gap: Any, c: Any, s: Any, latest: float) -> tuple[float, int]:
    """The first wall that is hit before ``latest``, and when; -1: none."""
    t, wall = latest, -1
    cosine, sine = math.cos(t), math.sin(t)
    for k in range(n):
        # Up to t, at most a quarter of a turn, cell k does not rise above this: most walls need no angles.
        if (c[k] if c[k] > 0.0 else c[k] * cosine) + max(s[k], 0.0) * sine >= gap[k]:
            hit = _hit(c[k], s[k], gap[k])
            if hit < t:
                t, wall = hit, k
                cosine, sine = math.cos(t), math.sin(t)
    return t, wall


@njit(cache=True, nogil=True)
def bounce(n: int, v: FloatArray, gap: FloatArray, time: float, c: FloatArray, s: FloatArray, end: FloatArray) -> bool:
    """Move ``c`` for a time of at most pi/2 with velocity ``s``, within the walls ``gap`` of its first n entries.

    ``end`` is room for n numbers. False where there were too many bounces: then c stays where it was, which is as
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
