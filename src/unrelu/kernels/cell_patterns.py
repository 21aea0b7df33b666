"""Which cells of a row are inliers, each given the other inliers.

In units where y has mean 0 and correlations R every cell k is an observation of y_k with noise of variance N_k: 0 for a
seen cell that is kept, huge for one that is missing or set aside, and for a floored cell the variance nu of the normal
that replaces its truncation (expectation propagation, Minka 2001). With B = (R + N)^-1, observations v and g = B v, the
others predict

    y_k ~ N(v_k - g_k/B_kk,  1/B_kk - N_k)                                                    for all k at once,

and a change of one noise is B -= f B_k B_k', f = c/(1 + c B_kk): d^2 multiplications for every cell that changes sides.
A cell changes sides where the log ratio of its density among inliers, given the kept ones, to that among bad cells
says so; the one with the most to gain goes first, and the pattern's probability rises until nothing is to be gained.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import helper, kernel
from unrelu.kernels.normal import cut_share, log_probability_and_hazard

_ASIDE = 1e6  # noise of a cell that says nothing, in variances of its column
_LEAST_VARIANCE = 1e-9
_FARTHEST, _FARTHEST_HELD = 1e6, 100.0  # standard deviations: values farther out count as that far, where held as less
_LEAST_CUT, _MOST_CUT = 1e-6, 1.0 - 1e-9  # share of its variance that a truncation takes
_CERTAIN = 20.0  # log odds beyond which the other side adds nothing
_MOST_SWEEPS, _STILL = 60, 1e-4  # of sites, by their spread
_RULED_OUT = -5.0  # log odds by which a cell is bad whatever the others are
_LOG_2PI = math.log(2.0 * math.pi)
MISSING, FLOORED, SEEN = 0, 1, 2


@njit(cache=True, nogil=True, fastmath={"contract"})
def _move_noise(b: FloatArray, g: FloatArray, column: FloatArray, k: int, change: float) -> float:
    """Noise of cell k, by so much more; what log det B gains. Only the lower triangle of B is kept."""
    c = 1.0 + change * b[k, k]
    f = change / c
    d = len(g)
    held = f * g[k]
    for i in range(k + 1):
        column[i] = b[k, i]
    for i in range(k + 1, d):
        column[i] = b[i, k]
    for i in range(d):
        factor = f * column[i]
        row = b[i]
        for j in range(i + 1):
            row[j] -= factor * column[j]
        g[i] -= held * column[i]
    return -math.log(abs(c))


@njit(cache=True, nogil=True, inline="always")
def _log_inlier(
    k: int, b: FloatArray, g: FloatArray, noise: FloatArray, held: FloatArray, u: FloatArray, kind: Any
) -> float:
    """Log density of cell k given the kept others; log probability where it is floored."""
    variance: float = max(1.0 / b[k, k] - noise[k], _LEAST_VARIANCE)
    z: float = (u[k] - held[k] + g[k] / b[k, k]) / math.sqrt(variance)
    if kind[k] == SEEN:
        return -0.5 * (z * z + _LOG_2PI + math.log(variance))
    log_probability: float = log_probability_and_hazard(z)[0]
    return log_probability


@njit(cache=True, nogil=True, inline="always")
def _site(limit: float, mean: float, deviation: float) -> tuple[float, float]:
    """(noise, place) of the observation that makes of N(mean, deviation^2) the moments that it has below the limit."""
    a = (limit - mean) / deviation
    _, hazard = log_probability_and_hazard(a)
    cut = min(max(cut_share(a, hazard), _LEAST_CUT), _MOST_CUT)
    noise = min(deviation * deviation * (1.0 - cut) / cut, _ASIDE)
    place = mean - hazard * deviation / cut if noise < _ASIDE else mean
    return noise, min(max(place, -_FARTHEST_HELD), _FARTHEST_HELD)


@helper
def _truncate(k: int, state: Any) -> float:
    """The normal that stands for "at most u_k", by the moments of the truncated one; what log det B gains."""
    b, g, column, noise, held, u, _, _, _ = state
    variance = max(1.0 / b[k, k] - noise[k], _LEAST_VARIANCE)
    mean, deviation = held[k] - g[k] / b[k, k], math.sqrt(variance)
    new, place = _site(u[k], mean, deviation)
    gained = _move_noise(b, g, column, k, new - noise[k])
    change = place - held[k]
    for i in range(k):
        g[i] += change * b[k, i]
    for i in range(k, len(g)):
        g[i] += change * b[i, k]
    held[k] = place
    noise[k] = new
    return gained


@helper
def _begin(values: Any, row: int, distribution: Any, log_bad: Any, state: Any) -> float:
    """Cells that are rather bad by their column alone start aside, floored ones as in their column alone.

    What log det B gains.
    """
    b, g, column, noise, held, u, kind, kept, _ = state
    floor, mean, std, precision = distribution
    d, gained = len(g), 0.0
    for j in range(d):
        x = values[row, j]
        kind[j] = SEEN if x > floor[j] else FLOORED if x <= floor[j] else MISSING
        u[j] = ((x if kind[j] == SEEN else floor[j]) - mean[j]) / std[j]
        u[j] = min(max(u[j], -_FARTHEST), _FARTHEST)
        noise[j], held[j], kept[j] = _ASIDE, 0.0, False
        if kind[j] == SEEN:
            held[j] = min(max(u[j], -_FARTHEST_HELD), _FARTHEST_HELD)
            kept[j] = -0.5 * (u[j] * u[j] + _LOG_2PI) >= log_bad[row, j]
            noise[j] = 0.0 if kept[j] else _ASIDE
        elif kind[j] == FLOORED:
            kept[j] = log_probability_and_hazard(u[j])[0] >= log_bad[row, j]
            if kept[j]:
                noise[j], held[j] = _site(u[j], 0.0, 1.0)
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += precision[i, j] * held[j]
        g[i] = total
        for j in range(i + 1):
            b[i, j] = precision[i, j]
    for j in range(d):
        if noise[j] > 0.0:
            gained += _move_noise(b, g, column, j, noise[j])
    return gained


@helper
def _change_sides(row: int, log_bad: Any, state: Any) -> float:
    """Cells change sides until nothing is to be gained by it; what log det B gains. Leaves the log ratios."""
    b, g, column, noise, held, u, kind, kept, ratio = state
    d, gained = len(g), 0.0
    for _ in range(4 * d):
        most, at = 0.0, -1
        for k in range(d):
            if kind[k] == MISSING:
                continue
            ratio[k] = _log_inlier(k, b, g, noise, held, u, kind) - log_bad[row, k]
            gain = -ratio[k] if kept[k] else ratio[k]
            if gain > most:
                most, at = gain, k
        if at < 0:
            break
        if kept[at]:
            gained += _move_noise(b, g, column, at, _ASIDE - noise[at])
            noise[at], kept[at] = _ASIDE, False
            continue
        kept[at] = True
        if kind[at] == FLOORED:
            gained += _truncate(at, state)
        else:
            gained += _move_noise(b, g, column, at, -noise[at])
            noise[at] = 0.0
    return gained


@helper
def _refine(most: int, state: Any) -> float:
    """Renew the sites of the kept floored cells until they are still, ``most`` times; what log det B gains."""
    _, g, _, noise, held, _, kind, kept, _ = state
    gained = 0.0
    for _ in range(most):
        moved = 0.0
        for k in range(len(g)):
            if kind[k] == FLOORED and kept[k]:
                before, place = noise[k], held[k]
                gained += _truncate(k, state)
                moved = max(moved, abs(noise[k] - before) / noise[k], abs(held[k] - place) / math.sqrt(noise[k]))
        if moved < _STILL:
            break
    return gained


@helper
def _compare_rivals(row: int, log_bad: Any, state: Any) -> None:
    """A kept cell j may be bad in place of one set aside, k: the odds are exp(ratio_k - ratio_j), ratio_j with k kept.

    Where a row has two cells and no more, either may be the bad one: both are named. A cell that its column
    alone rules out has no rivals.
    """
    b, g, column, noise, held, u, kind, kept, ratio = state
    two = len(g) - np.count_nonzero(kind == MISSING) == 2
    for k in range(len(g)):
        if kept[k] or kind[k] == MISSING:
            continue
        alone = -0.5 * (u[k] * u[k] + _LOG_2PI) if kind[k] == SEEN else log_probability_and_hazard(u[k])[0]
        if alone - log_bad[row, k] < _RULED_OUT:
            continue
        if kind[k] == FLOORED:
            _truncate(k, state)
        else:
            _move_noise(b, g, column, k, -noise[k])
            noise[k] = 0.0
        aside = ratio[k]
        for j in range(len(g)):
            if not kept[j]:
                continue
            with_k = _log_inlier(j, b, g, noise, held, u, kind) - log_bad[row, j]
            odds = aside - with_k
            if two and with_k < 0.0:
                ratio[j] = min(ratio[j], aside)
            elif not two:
                ratio[j], ratio[k] = min(ratio[j], -odds), max(ratio[k], min(odds, 0.0))
        _move_noise(b, g, column, k, _ASIDE - noise[k])
        noise[k] = _ASIDE


@njit(cache=True, nogil=True, inline="always")
def _log_row(row: int, log_det: float, log_bad: Any, state: Any) -> float:
    """Log density of the row: that of its pattern, and of what one cell on the other side would add."""
    b, g, _, noise, held, u, kind, kept, ratio = state
    total = 0.5 * log_det
    for k in range(len(g)):
        total -= 0.5 * (held[k] * g[k] + _LOG_2PI)
        if kind[k] != MISSING and abs(ratio[k]) < _CERTAIN:
            total += math.log1p(math.exp(-abs(ratio[k])))
        if not kept[k]:  # the density of what is held of it is taken out again
            total += 0.5 * (_LOG_2PI + math.log(_ASIDE) + held[k] * held[k] / _ASIDE)
            total += log_bad[row, k] if kind[k] != MISSING else 0.0
        elif kind[k] == FLOORED:
            # Rounding may take a variance below 0 where others nearly determine the cell.
            spread, off = max(1.0 / b[k, k], noise[k] + _LEAST_VARIANCE), g[k] / b[k, k]
            total += 0.5 * (_LOG_2PI + math.log(spread) + off * off / spread)
            total += _log_inlier(k, b, g, noise, held, u, kind)
    return total


@kernel
def cell_log_odds(
    values: Any,
    distribution: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    log_det: float,
    log_bad: FloatArray,
    converged: bool,
    ratios: FloatArray,
    predicted: FloatArray,
    log_rows: FloatArray,
) -> None:
    """``ratios[i, j]``: log odds that cell j of row i is an inlier, 0 where missing; ``predicted[:, i, j]``: mean and
    standard deviation of y_j by the other cells that are kept, unless it is empty; ``log_rows``: log density of every
    row.

    ``distribution``: (floor, mean, std, Q = R^-1), and ``log_det`` of Q. ``log_bad``: log of a cell's density among bad
    cells, per standard deviation, times the odds of being bad. ``converged``: sites of floored cells are renewed until
    they are still, not once.
    """
    n, d = values.shape
    state = (
        np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d),
        np.empty(d, np.int64), np.empty(d, np.bool_), np.empty(d),
    )  # fmt: skip
    b, g, _, noise, held, _, _, _, ratio = state
    for row in range(n):
        ratio[:] = 0.0
        total = log_det + _begin(values, row, distribution, log_bad, state)
        total += _change_sides(row, log_bad, state)
        for _ in range(2 if converged else 1):
            total += _refine(_MOST_SWEEPS if converged else 1, state)
            total += _change_sides(row, log_bad, state)
        log_rows[row] = _log_row(row, total, log_bad, state)
        if len(predicted) > 0:
            for k in range(d):
                predicted[0, row, k] = held[k] - g[k] / b[k, k]
                predicted[1, row, k] = math.sqrt(max(1.0 / b[k, k] - noise[k], _LEAST_VARIANCE))
        _compare_rivals(row, log_bad, state)
        ratios[row] = ratio
