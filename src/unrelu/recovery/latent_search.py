"""One corrupted output of a known layer, v = ReLU(A c + b) + e + w: starts for c, and descent from each of them.

With r_i = v_i - ReLU(a_i'c + b_i), s the noise's scale and m = 4.685 (Tukey's biweight), the objective is

    J(c) = sum_i rho(r_i / s) + ridge/2 |c|^2 + sparsity |c|_1        (c >= 0 for a nonnegative prior)
    rho(u) = m^2/6 (1 - (1 - (u/m)^2)^3) for |u| < m, else m^2/6      (u^2/2 near 0; an outlier costs m^2/6, no more)

J is not convex. Descent from a start reweights, w_i = (1 - (r_i/(m s))^2)^2 on the entries that the layer has switched
on, and solves the k equations; a step that does not lower J is halved. The scale is annealed from 8 s down to s.

Starts: least absolute deviations, one-sided where v is at the floor (min sum_{v > tau} |v - b - A c| + sum_{|v| <= tau}
(A c + b)_+, which is convex; entries below -tau can only be outliers), on all entries and on random parts of them: a
part often leaves out the outliers that mislead the whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.random_numbers import STEP, mixed

CUT = 4.685
_LAD_ROUNDS = 15
_COORDINATE_ROUNDS, _SUPPORT_EVERY = 5000, 25
_TOGETHER = 12  # starts of one round
_MAJORITY, _SECOND_LOOK = 0.7, 7
_SAME = 1e-3  # relative difference of objectives that belong to one optimum


@njit(cache=True, nogil=True)
def _solve(gram: FloatArray, right: FloatArray, solution: FloatArray) -> bool:
    """Solve a positive definite system by Cholesky, in place; False where it is singular."""
    k = len(right)
    for i in range(k):
        pivot = gram[i, i]
        for h in range(i):
            pivot -= gram[i, h] * gram[i, h]
        if not pivot > 1e-13 * gram[i, i]:
            return False
        gram[i, i] = math.sqrt(pivot)
        for j in range(i + 1, k):
            entry = gram[j, i]
            for h in range(i):
                entry -= gram[j, h] * gram[i, h]
            gram[j, i] = entry / gram[i, i]
    for i in range(k):
        entry = right[i]
        for h in range(i):
            entry -= gram[i, h] * solution[h]
        solution[i] = entry / gram[i, i]
    for back in range(k):
        i = k - 1 - back
        entry = solution[i]
        for h in range(i + 1, k):
            entry -= gram[h, i] * solution[h]
        solution[i] = entry / gram[i, i]
    return True


@njit(cache=True, nogil=True)
def penalized_minimum(
    gram: FloatArray, right: FloatArray, sparsity: float, nonnegative: bool, solution: FloatArray
) -> None:
    """Minimize x'G x/2 - g'x + sparsity |x|_1 (x >= 0 if ``nonnegative``) by coordinate descent from ``solution``.

    Coordinate descent soon finds which entries are 0, but may need very long for the others where columns are nearly
    dependent: now and then these others are solved for, as far as signs allow.
    """
    k = len(right)
    for turn in range(_COORDINATE_ROUNDS):
        moved, size = 0.0, 0.0
        for i in range(k):
            if not gram[i, i] > 0.0:  # nothing determines it: 0 where that is cheapest
                if sparsity > 0.0:
                    solution[i] = 0.0
                continue
            rest = right[i]
            for j in range(k):
                if j != i:
                    rest -= (gram[i, j] if j < i else gram[j, i]) * solution[j]
            entry = 0.0
            if rest > sparsity:
                entry = (rest - sparsity) / gram[i, i]
            elif rest < -sparsity and not nonnegative:
                entry = (rest + sparsity) / gram[i, i]
            moved = max(moved, abs(entry - solution[i]))
            size = max(size, abs(entry))
            solution[i] = entry
        if moved <= 1e-12 * size:
            return
        if turn % _SUPPORT_EVERY == _SUPPORT_EVERY - 1:
            for _ in range(k):
                if _solve_support(gram, right, sparsity, nonnegative, solution):
                    break


@njit(cache=True, nogil=True)
def _solve_support(
    gram: FloatArray, right: FloatArray, sparsity: float, nonnegative: bool, solution: FloatArray
) -> bool:
    """Move the entries that are not 0 to their minimum, the others held; False where one turned 0 on the way."""
    k = len(right)
    support, count = np.empty(k, np.int64), 0
    for i in range(k):
        if solution[i] != 0.0 and gram[i, i] > 0.0:
            support[count] = i
            count += 1
    part, aim, wanted = np.empty((count, count)), np.empty(count), np.empty(count)
    for p in range(count):
        aim[p] = right[support[p]] - math.copysign(sparsity, solution[support[p]])
        for q in range(p + 1):
            part[p, q] = gram[support[p], support[q]]
    if not _solve(part, aim, wanted):
        return True
    share, first = 1.0, -1
    if sparsity > 0.0 or nonnegative:
        for p in range(count):
            now = solution[support[p]]
            if wanted[p] * now < 0.0 and now / (now - wanted[p]) < share:
                share, first = now / (now - wanted[p]), support[p]
    for p in range(count):
        solution[support[p]] += share * (wanted[p] - solution[support[p]])
    if first >= 0:
        solution[first] = 0.0
    return first < 0


@njit(cache=True, nogil=True)
def objective(A: FloatArray, b: FloatArray, v: FloatArray, c: FloatArray, scale: float, penalty: FloatArray) -> float:
    """J(c); ``penalty`` is (ridge, sparsity, 1 if nonnegative)."""
    total = 0.0
    for i in range(len(v)):
        t = b[i]
        for j in range(len(c)):
            t += A[i, j] * c[j]
        u = (v[i] - max(t, 0.0)) / (CUT * scale)
        rest = 1.0 - u * u
        total += 1.0 if rest <= 0.0 else 1.0 - rest * rest * rest
    total *= CUT * CUT / 6.0
    for j in range(len(c)):
        total += 0.5 * penalty[0] * c[j] * c[j] + penalty[1] * abs(c[j])
    return total


@njit(cache=True, nogil=True)
def _add_equations(
    A: FloatArray, b: FloatArray, v: FloatArray, c: FloatArray, scale: float, gram: FloatArray, right: FloatArray
) -> None:
    """Add the weighted normal equations of the entries that are on and agree with c."""
    d, k = A.shape
    for i in range(d):
        t = b[i]
        for j in range(k):
            t += A[i, j] * c[j]
        u = (v[i] - t) / (CUT * scale)
        rest = 1.0 - u * u
        if t <= 0.0 or rest <= 0.0:
            continue
        w = rest * rest / (scale * scale)
        target = w * (v[i] - b[i])
        for j in range(k):
            right[j] += A[i, j] * target
            for h in range(j + 1):
                gram[j, h] += w * A[i, j] * A[i, h]


@njit(cache=True, nogil=True)
def descend(
    A: FloatArray, b: FloatArray, v: FloatArray, c: FloatArray, scale: float, penalty: FloatArray, rounds: int
) -> float:
    """Lower J from c, in place; J at the end."""
    k = A.shape[1]
    gram, right, step, tried = np.empty((k, k)), np.empty(k), np.empty(k), np.empty(k)
    last = objective(A, b, v, c, scale, penalty)
    plain = penalty[1] == 0.0 and penalty[2] == 0.0
    for _ in range(rounds):
        gram[:] = 0.0
        right[:] = 0.0
        _add_equations(A, b, v, c, scale, gram, right)
        for j in range(k):
            gram[j, j] += penalty[0]
        if plain:
            for j in range(k):
                gram[j, j] *= 1.0 + 1e-12
            if not _solve(gram, right, tried):
                return last
        else:
            tried[:] = c
            penalized_minimum(gram, right, penalty[1], penalty[2] > 0.0, tried)
        step[:] = tried - c
        share, now = 1.0, last
        for _ in range(8):
            tried[:] = c + share * step
            now = objective(A, b, v, tried, scale, penalty)
            if now <= last:
                break
            share *= 0.5
        if now > last:
            return last
        c[:] = tried
        gained, last = last - now, now
        if gained <= 1e-12 * last:
            break
    return last


@njit(cache=True, nogil=True)
def least_deviations(
    A: FloatArray, b: FloatArray, v: FloatArray, c: FloatArray, tau: float, part: Any, ridge: float, typical: float
) -> None:
    """One-sided least absolute deviations on the entries of ``part``, by reweighting from c, in place."""
    d, k = A.shape
    gram, right, step = np.empty((k, k)), np.empty(k), np.empty(k)
    smooth = typical
    for _ in range(_LAD_ROUNDS):
        gram[:] = 0.0
        right[:] = 0.0
        for i in range(d):
            if v[i] < -tau or not part[i]:
                continue
            t = b[i]
            for j in range(k):
                t += A[i, j] * c[j]
            r = v[i] - t
            if v[i] <= tau:
                if t <= 0.0:
                    continue
                r = -t
            w = 1.0 / max(abs(r), smooth)
            for j in range(k):
                right[j] += w * r * A[i, j]
                for h in range(j + 1):
                    gram[j, h] += w * A[i, j] * A[i, h]
        for j in range(k):
            right[j] -= ridge * c[j]
            gram[j, j] = gram[j, j] * (1.0 + 1e-9) + ridge + 1e-9 / typical
        if not _solve(gram, right, step):
            return
        c += step
        smooth = max(0.7 * smooth, 1e-4 * typical)


@njit(cache=True, nogil=True)
def _uniform(state: Any) -> float:
    """The next number in [0, 1) of SplitMix64 (Steele, Lea and Flood 2014)."""
    state[0] += STEP
    return float(mixed(state[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def half_normal_scale(sizes: FloatArray, start: float, least: float, top: float) -> float:
    """Scale of the half-normal part of sizes |x|, which are noise or else spread evenly up to ``top`` (EM)."""
    if sizes.max() <= least:
        return least
    scale, share, n = max(start, least), 0.5, len(sizes)
    for _ in range(100):
        weights, squares = 0.0, 0.0
        for size in sizes:
            u = size / scale
            noise = share * 0.7978845608028654 * math.exp(-0.5 * u * u) / scale if u < 38.0 else 0.0
            w = noise / (noise + (1.0 - share) / top)
            weights += w
            squares += w * size * size
        new = math.sqrt(squares / max(weights, 1e-300))
        share = min(max(weights / n, 0.02), 0.98)
        if new <= least:
            return least
        if abs(new / scale - 1.0) < 1e-6:
            return new
        scale = new
    return scale


@njit(cache=True, nogil=True)
def residual_sizes(A: FloatArray, b: FloatArray, v: FloatArray, c: FloatArray) -> FloatArray:
    """|v - ReLU(A c + b)|."""
    sizes = np.empty(len(v))
    for i in range(len(v)):
        t = b[i]
        for j in range(len(c)):
            t += A[i, j] * c[j]
        sizes[i] = abs(v[i] - max(t, 0.0))
    return sizes


@njit(cache=True, nogil=True)
def _inlier_share(A: FloatArray, b: FloatArray, v: FloatArray, c: FloatArray, scale: float) -> float:
    """The share of entries that agree, of those that are on in v or by c."""
    agree, on = 0, 0
    for i in range(len(v)):
        t = b[i]
        for j in range(len(c)):
            t += A[i, j] * c[j]
        if t > 0.0 or v[i] > 3.0 * scale:
            on += 1
            agree += abs(v[i] - max(t, 0.0)) < CUT * scale
    return agree / max(on, 1)


@njit(cache=True, nogil=True)
def _near(one: FloatArray, other: FloatArray) -> bool:
    distance, size = 0.0, 0.0
    for j in range(len(one)):
        distance += (one[j] - other[j]) ** 2
        size += other[j] ** 2
    return distance <= 1e-4 * size


@njit(cache=True, nogil=True)
def search(
    A: FloatArray, b: FloatArray, v: FloatArray, scale: float, penalty: FloatArray, rounds: int, agreed: int, seed: int
) -> tuple[FloatArray, float, FloatArray, float, int]:
    """The lowest optimum of J found, and the lowest one that is another: (c, J, other c, its J, rounds).

    Rounds of starts go on until ``agreed`` of them have led to the lowest optimum, and for a while longer where fewer
    than 70 % of the entries that are on fit it.
    """
    d, k = A.shape
    state = np.array([seed], np.uint64)
    tau, typical = 3.0 * scale, np.median(np.abs(v[v != 0.0])) if np.any(v != 0.0) else 1.0
    part, c = np.ones(d, np.bool_), np.empty(k)
    best, other = np.zeros(k), np.zeros(k)
    lowest, next_lowest, hits, used = math.inf, math.inf, 0, 0
    for turn in range(rounds):
        used += 1
        for a in range(_TOGETHER):
            c[:] = 0.0
            if turn > 0 or a > 1:
                share = 0.35 + 0.4 * _uniform(state) if a % 3 else min(3.0 * k / d, 0.75)
                for i in range(d):
                    part[i] = _uniform(state) < share
            if turn > 0 or a != 1:  # the second start is 0 itself
                least_deviations(A, b, v, c, tau, part, penalty[0] * scale, typical)
            if penalty[2] > 0.0:
                for j in range(k):
                    c[j] = max(c[j], 0.0)
            wide = max(8.0, 2.0 * typical / scale) if turn == 0 and a < 2 else max(8.0, 0.1 * typical / scale)
            while wide > 1.0:
                descend(A, b, v, c, wide * scale, penalty, 4)
                wide *= 0.5
            value = descend(A, b, v, c, scale, penalty, 30)
            if abs(value - lowest) <= _SAME * abs(lowest) and _near(c, best):
                hits += 1
                if value < lowest:
                    lowest = value
                    best[:] = c
            elif value < lowest:
                next_lowest, lowest, hits = lowest, value, 1
                other[:] = best
                best[:] = c
            elif value < next_lowest:
                next_lowest = value
                other[:] = c
        # Few inliers may follow another c than the true one: then a second look is cheap against being wrong.
        if hits >= agreed and (turn >= _SECOND_LOOK or _inlier_share(A, b, v, best, scale) >= _MAJORITY):
            break
    return best, lowest, other, next_lowest, used
