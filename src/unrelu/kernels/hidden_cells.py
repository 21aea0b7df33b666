"""What a row's cells say about those that are hidden: expectation propagation, cell by cell.

Rows, units, and the normal N(m, V) of the hidden cells given the seen ones are those of
:mod:`unrelu.kernels.row_density`, and all cut-off cells ask y_k <= a_k. Each such factor is replaced by a normal site
exp(nu_k y - tau_k y^2 / 2), and

    S = (V^-1 + diag tau)^-1        mu = S (V^-1 m + nu)

is the posterior. A site is renewed from its cavity, the posterior without it, N(c, w) with 1/w = 1/S_kk - tau_k: the
cut-off cavity has, for alpha = (a_k - c)/sqrt(w) and lambda = phi(alpha)/Phi(alpha), the mean c - sqrt(w) lambda and
the variance w (1 - lambda (lambda + alpha)), and the site is what gives the posterior the same (Cunningham, Hennig and
Lacoste-Julien 2011). The marginals are these cut-off cavities. The log probability is

    sum log Phi(alpha_k) - sum log E_cavity[site_k] + log E_N(m,V)[all sites]
        + sum over pairs of skew_j skew_k (S_jk / sqrt(S_jj S_kk))^3 / 6,

the last the leading correction of Opper, Paquet and Winther (2013), by the skewness of the marginals: it takes errors
of up to .016 a cut-off cell (correlations of .9) to below .002. One and two cells are done exactly (Rosenbaum 1961).

Rows may be of any size: a seen value further than ``FAR`` standard deviations tells the hidden cells what one there
would. Where a limit is a thousand standard deviations below what the others say, sites are as sharp as rounding lets
them be told from the prior; the log probability is at most that of any cell alone; and where expectation propagation
ends in nothing, cells are taken one by one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import contracted_helper, helper, kernel
from unrelu.kernels.normal import (
    bivariate_density,
    cut_normal,
    density,
    distribution,
    log_probability_and_hazard,
    upper_orthant,
)
from unrelu.kernels.row_density import (
    LIMIT,
    MEAN,
    N_INDICES,
    N_VECTORS,
    ORDER,
    SCALE,
    SEEN,
    TURN,
    C,
    Index,
    U,
    hide,
    turn,
)

_MOST_SWEEPS = 60
_STILL = 1e-5  # of a posterior standard deviation, or of its square: sites that move less are settled
_DEEP = -35.0
_LEAST_EXACT = 1e-9  # probability of a pair from which on the exact formula has digits to spare
_SMALLEST_VARIANCE = 1e-12
_SHARPEST = 1e-6  # of its cavity's variance that a site leaves: the cavity is then told from the posterior to 4 digits
# More rows of the work space: posterior means, sites, skewness, cavities.
MU, _TAU, _NU, _SKEW, CENTRE, WIDTH = range(N_VECTORS, N_VECTORS + 6)
_NO_CHANCE = -5e5  # log probability of a cell, a thousand standard deviations from its limit


@helper
def cut_skewness(alpha: float, hazard: float, left: float) -> float:
    """The skewness of that standard normal."""
    third = -hazard * ((alpha + hazard) * (alpha + 2.0 * hazard) - 1.0)
    return third / (left * math.sqrt(left)) if alpha > _DEEP else -2.0


@helper
def _cavity(k: int, work: FloatArray, v: FloatArray, s: FloatArray) -> tuple[float, float, float]:
    """(posterior variance of a cell, variance and mean of its cavity). A cavity is never wider than the prior, -v."""
    variance = max(s[k, k], _SMALLEST_VARIANCE)
    inverse, prior = 1.0 / variance, max(-v[k, k], _SMALLEST_VARIANCE)
    left = inverse - work[_TAU, k]
    w = 1.0 / left if left * prior > 1.0 else prior
    return variance, w, (work[MU, k] * inverse - work[_NU, k]) * w


@contracted_helper
def _propagate(cut: int, work: FloatArray, v: FloatArray, s: FloatArray) -> float:
    """Sites of the cells that are cut off at their limits, from the prior N(0, S), which becomes the posterior.

    Returns log E[all sites] under the prior. ``v``: minus the prior's covariance, below its diagonal.
    """
    log_det = 0.0
    for k in range(cut):
        work[_TAU, k] = work[_NU, k] = 0.0
    for _ in range(_MOST_SWEEPS):
        moved = 0.0
        for k in range(cut):
            variance, w, centre = _cavity(k, work, v, s)
            deviation = math.sqrt(w)
            _, hazard, left = cut_normal((work[LIMIT, k] - centre) / deviation)
            left = max(left, _SHARPEST)
            more = (1.0 - left) / (left * w) - work[_TAU, k]
            push = (centre - deviation * hazard) / (w * left) - centre / w - work[_NU, k]
            shrink = 1.0 / (1.0 + more * variance)
            log_det -= math.log(shrink)
            gain = (push - more * work[MU, k]) * shrink
            factor = more * shrink
            moved = max(moved, abs(gain) * math.sqrt(variance), abs(more) * variance)
            work[_TAU, k] += more
            work[_NU, k] += push
            for i in range(cut):
                work[C, i] = s[i, k]
            for i in range(cut):
                work[MU, i] += gain * work[C, i]
                lead = factor * work[C, i]
                for j in range(cut):
                    s[i, j] -= lead * work[C, j]
        if moved < _STILL:
            break
    total = -0.5 * log_det
    for k in range(cut):
        total += 0.5 * work[_NU, k] * work[MU, k]
    return total


@helper
def _log_probability(cut: int, sites: float, work: FloatArray, v: FloatArray, s: FloatArray) -> tuple[float, float]:
    """The log probability of the module's text, and its last line; leaves the cavities."""
    total, correction = sites, 0.0
    for k in range(cut):
        variance, w, centre = _cavity(k, work, v, s)
        alpha = (work[LIMIT, k] - centre) / math.sqrt(w)
        log_probability, hazard, left = cut_normal(alpha)
        spread = 1.0 + work[_TAU, k] * w
        square = work[_NU, k] * work[_NU, k] * w + 2.0 * work[_NU, k] * centre - work[_TAU, k] * centre * centre
        total += log_probability + 0.5 * math.log(spread) - square / (2.0 * spread)
        work[_SKEW, k] = cut_skewness(alpha, hazard, left) / (variance * math.sqrt(variance))
        work[CENTRE, k] = centre
        work[WIDTH, k] = w
        for j in range(k):
            covariance = s[j, k]
            correction += work[_SKEW, j] * work[_SKEW, k] * covariance * covariance * covariance / 6.0
    return total, correction


@helper
def _one_by_one(cut: int, work: FloatArray, v: FloatArray, s: FloatArray) -> float:
    """Cells of covariance -``v``, mean 0, each by itself: exact for one. The sum of their log probabilities."""
    total = 0.0
    for k in range(cut):
        w = max(-v[k, k], _SMALLEST_VARIANCE)
        deviation = math.sqrt(w)
        log_probability, hazard, left = cut_normal(work[LIMIT, k] / deviation)
        total += log_probability
        work[MU, k], work[CENTRE, k], work[WIDTH, k] = -deviation * hazard, 0.0, w
        for j in range(k):
            s[k, j] = s[j, k] = 0.0
        s[k, k] = w * left
    return total


@helper
def _least_likely(cut: int, work: FloatArray, v: FloatArray) -> float:
    """The least log probability of one of the cells: all together are not more likely."""
    lowest = math.inf
    for k in range(cut):
        lowest = min(lowest, work[LIMIT, k] / math.sqrt(max(-v[k, k], _SMALLEST_VARIANCE)))
    return float(log_probability_and_hazard(lowest)[0])


@helper
def _all_numbers(cut: int, work: FloatArray, s: FloatArray) -> bool:
    """Whether posterior and cavities are numbers."""
    for k in range(cut):
        total = abs(work[MU, k]) + abs(work[CENTRE, k]) + abs(work[WIDTH, k])
        for j in range(cut):
            total += abs(s[k, j])
        if not total < math.inf:
            return False
    return True


@helper
def _exact_pair(work: FloatArray, v: FloatArray, s: FloatArray) -> float:
    """Two cells of covariance -``v``, mean 0: posterior in ``s`` and MU; log probability, or 1 if too small."""
    first, second = math.sqrt(max(-v[0, 0], _SMALLEST_VARIANCE)), math.sqrt(max(-v[1, 1], _SMALLEST_VARIANCE))
    a, b, r = work[LIMIT, 0] / first, work[LIMIT, 1] / second, -v[1, 0] / (first * second)
    if abs(r) > 0.9999:
        return 1.0
    probability = upper_orthant(-a, -b, r)
    if probability < _LEAST_EXACT:
        return 1.0
    rest = (1.0 - r) * (1.0 + r)
    gap = math.sqrt(rest)
    at_a = density(a) * distribution((b - r * a) / gap) / probability
    at_b = density(b) * distribution((a - r * b) / gap) / probability
    both = rest * bivariate_density(a, b, r) / probability
    x, y = -(at_a + r * at_b), -(r * at_a + at_b)
    work[MU, 0], work[MU, 1] = first * x, second * y
    s[0, 0] = first * first * (1.0 - a * at_a - r * r * b * at_b + r * both - x * x)
    s[1, 1] = second * second * (1.0 - r * r * a * at_a - b * at_b + r * both - y * y)
    s[0, 1] = s[1, 0] = first * second * (r - r * (a * at_a + b * at_b) + both - x * y)
    return math.log(probability)


@contracted_helper
def _carry_on(cut: int, hidden: int, work: FloatArray, v: FloatArray, s: FloatArray) -> None:
    """The posterior of cells cut: (the missing ones) from that of the cut-off ones: normal given these.

    With B = V_mc V_cc^-1: mu_m = m_m + B mu_c, S_mc = B S_cc, S_mm = V_mm + B (S_cc - V_cc) B'. ``v`` holds -V below
    its diagonal.
    """
    for j in range(cut):  # V_cc = L L': L' above the diagonal of v, and L^-1 V_cm; 1/L_jj in C
        for i in range(j, hidden):
            total = -v[i, j]
            for k in range(j):
                total -= v[k, i] * v[k, j]
            if i > j:
                v[j, i] = total * work[C, j]
            else:
                work[C, j] = 1.0 / math.sqrt(total) if total > 0.0 else 0.0
    for back in range(cut):  # B' = L'^-1 L^-1 V_cm: v[k, i] = B_ik
        k = cut - 1 - back
        for i in range(cut, hidden):
            total = v[k, i]
            for j in range(k + 1, cut):
                total -= v[k, j] * v[j, i]
            v[k, i] = total * work[C, k]
    for i in range(cut, hidden):
        mean = work[MEAN, i]
        for k in range(cut):
            mean += v[k, i] * work[MU, k]
        work[MU, i] = mean
        for j in range(cut):
            total = 0.0
            for k in range(cut):
                total += v[k, i] * s[k, j]
            s[i, j] = s[j, i] = total
        for k in range(cut):  # B (S_cc - V_cc), a row of it
            work[C, k] = s[i, k] + v[i, k]
        for j in range(cut, i + 1):
            total = -v[i, j]
            for k in range(cut):
                total += work[C, k] * v[k, j]
            s[i, j] = s[j, i] = total


@helper
def settle(cut: int, hidden: int, work: FloatArray, v: FloatArray, s: FloatArray) -> tuple[float, float]:
    """From N(m, V) (-V below the diagonal of ``v``) to the posterior of the hidden cells.

    Returns the log probability of the cut, whose derivatives have these moments, and what corrects it. Leaves the
    mean in MU and the covariance in ``s``, the cavities (in units of y, not turned) in CENTRE and WIDTH. What it was
    given is turned, so that all cells ask "at most", and LIMIT counts from m.
    """
    turn(cut, hidden, work, v)
    for i in range(cut):
        for j in range(i + 1):
            s[i, j] = s[j, i] = -v[i, j]
        work[MU, i] = 0.0
        work[LIMIT, i] -= work[MEAN, i]
    log_probability = correction = 0.0
    if cut == 1:
        log_probability = _one_by_one(cut, work, v, s)
    elif cut > 1:
        sites = _propagate(cut, work, v, s)
        log_probability, correction = _log_probability(cut, sites, work, v, s)
        if cut == 2:
            exact = _exact_pair(work, v, s)
            if exact <= 0.0:
                log_probability, correction = exact, 0.0
        least = _least_likely(cut, work, v)
        if not (_all_numbers(cut, work, s) and abs(log_probability + correction) < math.inf):
            log_probability, correction = _one_by_one(cut, work, v, s), 0.0
        elif least < _NO_CHANCE:
            log_probability, correction = min(log_probability, least), 0.0
    if hidden > cut:
        _carry_on(cut, hidden, work, v, s)
    for i in range(cut):
        work[MU, i] = work[TURN, i] * (work[MEAN, i] + work[MU, i])
        work[CENTRE, i] = work[TURN, i] * (work[MEAN, i] + work[CENTRE, i])
        for j in range(hidden):
            if j != i:
                s[i, j] *= work[TURN, i]
                s[j, i] *= work[TURN, i]
    return log_probability, correction


@helper
def workspaces(d: int) -> tuple[FloatArray, Index, FloatArray]:
    """Room for a row of d cells: vectors, columns, and two matrices, V and the posterior covariance."""
    return np.empty((WIDTH + 1, d)), np.empty((N_INDICES, d), dtype=np.int64), np.empty((2, d, d))


@kernel
def hidden_rows(
    values: Any,
    beyond: Any,
    bias: FloatArray,
    scale: FloatArray,
    precision: FloatArray,
    log_density: FloatArray,
    moments: FloatArray,
    spread: FloatArray,
) -> None:
    """Per row its log density (per unit of scale, + log det R / 2), and of its cells four numbers in standard units.

    ``moments`` (4 x n x d, or 4 x 0 x d where they are not wanted): posterior mean and variance; mean and variance of
    the normal that, cut off at the cell's limit, is its marginal. Seen cells have their value and 0. ``spread`` (d x d,
    or 0 x 0) is added to by the posterior covariances.
    """
    n, d = values.shape
    work, index, squares = workspaces(d)
    v, s = squares[0], squares[1]
    for j in range(d):
        work[SCALE, j] = 1.0 / scale[j]
    for row in range(n):
        n_seen, cut, hidden, normal = hide(values, beyond, row, bias, precision, 2.0 * max(d, 1), work, index, v)
        probability, correction = settle(cut, hidden, work, v, s)
        log_density[row] = normal + probability + correction
        if moments.shape[1] == 0:
            continue
        for i in range(n_seen):
            at = index[SEEN, i]
            moments[0, row, at] = moments[2, row, at] = work[U, i]
            moments[1, row, at] = moments[3, row, at] = 0.0
        for i in range(hidden):
            at = index[ORDER, i]
            moments[0, row, at] = work[MU, i]
            moments[1, row, at] = max(s[i, i], 0.0)
            moments[2, row, at] = work[CENTRE, i] if i < cut else work[MU, i]
            moments[3, row, at] = work[WIDTH, i] if i < cut else max(s[i, i], 0.0)
            for j in range(hidden if len(spread) > 0 else 0):
                spread[at, index[ORDER, j]] += s[i, j]
