"""A normal within walls, by Hamiltonian trajectories that are known in closed form (Pakman and Paninski 2014).

For y ~ N(m, V) with y_k <= limit_k, and a velocity s ~ N(0, V), the deviation c = y - m moves on

    c cos t + s sin t                        which leaves the law as it is, and for t = pi/2 forgets c,

until a wall: A cos(t - angle) = c_k cos t + s_k sin t rises to gap_k = limit_k - m_k first at t = angle - acos(gap_k/A).
There s is reflected, s -= 2 (s_k / V_kk) V_k, which turns s_k around and keeps the density of s. Nothing is inverted: a
singular V is as good as any, and directions without variance stay so.
"""

from __future__ import annotations

import math

from numba import njit

from unrelu.contracts import FloatArray

_QUARTER, _TURN = 0.5 * math.pi, 2.0 * math.pi
_MOST_BOUNCES = 200  # a cell


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


@njit(cache=True, nogil=True)
def bounce(n: int, v: FloatArray, gap: FloatArray, c: FloatArray, s: FloatArray, end: FloatArray) -> bool:
    """Move ``c`` for a quarter of a turn with velocity ``s``, within the walls ``gap`` of its first n entries.

    ``end`` is room for n numbers. False where there were too many bounces: then c stays where it was, which is as
    right, as the way back would have had as many.
    """
    for i in range(n):
        end[i] = c[i]
    left = _QUARTER
    for _ in range(_MOST_BOUNCES * n + 1):
        t, wall = left, -1
        for k in range(n):
            hit = _hit(end[k], s[k], gap[k])
            if hit < t:
                t, wall = hit, k
        cosine, sine = math.cos(t), math.sin(t)
        for i in range(n):
            end[i], s[i] = end[i] * cosine + s[i] * sine, s[i] * cosine - end[i] * sine
        if wall < 0:
            for i in range(n):
                c[i] = end[i]
            return True
        end[wall] = gap[wall]
        push = 2.0 * s[wall] / v[wall, wall]
        for i in range(n):
            s[i] -= push * v[i, wall]
        left -= t
    return False
