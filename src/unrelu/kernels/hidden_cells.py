"""What a row's cells say about those that are hidden: expectation propagation, cell by cell.

A row is ``values`` and ``beyond``: -1 where a cell only says "at most the number in it", 1 for "at least", 0 where the
number is the value (NaN: missing). In units where y has mean 0 and unit variances, the hidden cells given the seen
ones are N(m, V) (:mod:`unrelu.kernels.row_density`); "at least" is turned upside down, so that all cut-off cells ask
y_k <= a_k. Each such factor is replaced by a normal site exp(nu_k y - tau_k y^2 / 2), and

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
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.bivariate_normal import bivariate_density, upper_orthant
from unrelu.kernels.normal import cut_normal, density, distribution, log_probability_and_hazard
from unrelu.kernels.row_density import Index, bounded, draw_near, gather_hidden, least_square, seen_square, sweep_hidden

_LOG_2PI = math.log(2.0 * math.pi)
_MOST_SWEEPS = 60
_STILL = 1e-5  # of a posterior standard deviation, or of its square: sites that move less are settled
_DEEP = -35.0
_LEAST_EXACT = 1e-9  # probability of a pair from which on the exact formula has digits to spare
_SMALLEST_VARIANCE = 1e-12
_SHARPEST = 1e-6  # of its cavity's variance that a site leaves: the cavity is then told from the posterior to 4 digits
_NO_CHANCE = -5e5  # log probability of a cell, a thousand standard deviations from its limit


@njit(cache=True, nogil=True, inline="always")
def _split(
    values: Any,
    beyond: Any,
    row: int,
    bias: FloatArray,
    per_scale: FloatArray,
    seen: Index,
    u: FloatArray,
    order: Index,
    limit: FloatArray,
    turn: FloatArray,
) -> tuple[int, int, int]:
    """As in row_density, with marks: how many cells are seen, cut off, and hidden: cut off or missing.

    ``limit`` and ``turn`` are of the hidden cells in their order: y_k turn_k <= limit_k.
    """
    d = values.shape[1]
    n_seen = cut = missing = 0
    for j in range(d):
        x = bounded((values[row, j] - bias[j]) * per_scale[j])
        mark = beyond[row, j]
        if mark != 0:
            order[cut] = j
            turn[cut] = -mark
            limit[cut] = -mark * x
            cut += 1
        elif x == x:
            seen[n_seen] = j
            u[n_seen] = x
            n_seen += 1
        else:
            missing += 1
            order[d - missing] = j
    for k in range(missing):
        order[cut + k] = order[d - missing + k]
        turn[cut + k] = 1.0
    return n_seen, cut, cut + missing


@njit(cache=True, nogil=True, inline="always")
def cut_skewness(alpha: float, hazard: float, left: float) -> float:
    """The skewness of that standard normal."""
    third = -hazard * ((alpha + hazard) * (alpha + 2.0 * hazard) - 1.0)
    return third / (left * math.sqrt(left)) if alpha > _DEEP else -2.0


@njit(cache=True, nogil=True, inline="always")
def _cavity(k: int, s: Any, mu: Any, tau: Any, nu: Any, v: Any) -> tuple[float, float, float]:
    """(posterior variance of a cell, variance and mean of its cavity). A cavity is never wider than the prior, -v."""
    variance = max(s[k, k], _SMALLEST_VARIANCE)
    inverse, prior = 1.0 / variance, max(-v[k, k], _SMALLEST_VARIANCE)
    left = inverse - tau[k]
    w = 1.0 / left if left * prior > 1.0 else prior
    return variance, w, (mu[k] * inverse - nu[k]) * w


@njit(cache=True, nogil=True, fastmath={"contract"})
def _propagate(
    cut: int, limit: FloatArray, s: FloatArray, mu: FloatArray, tau: FloatArray, nu: FloatArray, c: FloatArray, v: Any
) -> float:
    """Sites of the cells that are cut off at ``limit``, from the prior N(0, S), which becomes the posterior.

    Returns log E[all sites] under the prior. ``v``: minus the prior's covariance, below its diagonal.
    """
    log_det = 0.0
    for k in range(cut):
        tau[k] = nu[k] = 0.0
    for _ in range(_MOST_SWEEPS):
        moved = 0.0
        for k in range(cut):
            variance, w, centre = _cavity(k, s, mu, tau, nu, v)
            deviation = math.sqrt(w)
            _, hazard, left = cut_normal((limit[k] - centre) / deviation)
            left = max(left, _SHARPEST)
            more = (1.0 - left) / (left * w) - tau[k]
            push = (centre - deviation * hazard) / (w * left) - centre / w - nu[k]
            shrink = 1.0 / (1.0 + more * variance)
            log_det -= math.log(shrink)
            gain = (push - more * mu[k]) * shrink
            factor = more * shrink
            moved = max(moved, abs(gain) * math.sqrt(variance), abs(more) * variance)
            tau[k] += more
            nu[k] += push
            for i in range(cut):
                c[i] = s[i, k]
            for i in range(cut):
                mu[i] += gain * c[i]
                lead = factor * c[i]
                for j in range(cut):
                    s[i, j] -= lead * c[j]
        if moved < _STILL:
            break
    total = -0.5 * log_det
    for k in range(cut):
        total += 0.5 * nu[k] * mu[k]
    return total


@njit(cache=True, nogil=True)
def _log_probability(
    cut: int,
    limit: FloatArray,
    s: FloatArray,
    mu: FloatArray,
    tau: FloatArray,
    nu: FloatArray,
    skew: FloatArray,
    sites: float,
    cavity: Any,
    v: Any,
) -> tuple[float, float]:
    """The log probability of the module's text, and its last line; ``cavity`` (2 x cut) becomes the cavities."""
    total, correction = sites, 0.0
    for k in range(cut):
        variance, w, centre = _cavity(k, s, mu, tau, nu, v)
        alpha = (limit[k] - centre) / math.sqrt(w)
        log_probability, hazard, left = cut_normal(alpha)
        spread = 1.0 + tau[k] * w
        square = nu[k] * nu[k] * w + 2.0 * nu[k] * centre - tau[k] * centre * centre
        total += log_probability + 0.5 * math.log(spread) - square / (2.0 * spread)
        skew[k] = cut_skewness(alpha, hazard, left) / (variance * math.sqrt(variance))
        cavity[0, k] = centre
        cavity[1, k] = w
        for j in range(k):
            covariance = s[j, k]
            correction += skew[j] * skew[k] * covariance * covariance * covariance / 6.0
    return total, correction


@njit(cache=True, nogil=True)
def _one_by_one(cut: int, limit: FloatArray, v: Any, s: FloatArray, mu: FloatArray, cavity: Any) -> float:
    """Cells of covariance -``v``, mean 0, each by itself: exact for one. The sum of their log probabilities."""
    total = 0.0
    for k in range(cut):
        w = max(-v[k, k], _SMALLEST_VARIANCE)
        deviation = math.sqrt(w)
        log_probability, hazard, left = cut_normal(limit[k] / deviation)
        total += log_probability
        mu[k], cavity[0, k], cavity[1, k] = -deviation * hazard, 0.0, w
        for j in range(k):
            s[k, j] = s[j, k] = 0.0
        s[k, k] = w * left
    return total


@njit(cache=True, nogil=True)
def _least_likely(cut: int, limit: FloatArray, v: Any) -> float:
    """The least log probability of one of the cells: all together are not more likely."""
    lowest = math.inf
    for k in range(cut):
        lowest = min(lowest, limit[k] / math.sqrt(max(-v[k, k], _SMALLEST_VARIANCE)))
    return float(log_probability_and_hazard(lowest)[0])


@njit(cache=True, nogil=True)
def _all_numbers(cut: int, s: FloatArray, mu: FloatArray, cavity: Any) -> bool:
    """Whether posterior and cavities are numbers."""
    for k in range(cut):
        total = abs(mu[k]) + abs(cavity[0, k]) + abs(cavity[1, k])
        for j in range(cut):
            total += abs(s[k, j])
        if not total < math.inf:
            return False
    return True


@njit(cache=True, nogil=True)
def _exact_pair(limit: FloatArray, v: Any, s: FloatArray, mu: FloatArray) -> float:
    """Two cells of covariance -``v``, mean 0: posterior in ``s`` and ``mu``; log probability, or 1 if too small."""
    first, second = math.sqrt(max(-v[0, 0], _SMALLEST_VARIANCE)), math.sqrt(max(-v[1, 1], _SMALLEST_VARIANCE))
    a, b, r = limit[0] / first, limit[1] / second, -v[1, 0] / (first * second)
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
    mu[0], mu[1] = first * x, second * y
    s[0, 0] = first * first * (1.0 - a * at_a - r * r * b * at_b + r * both - x * x)
    s[1, 1] = second * second * (1.0 - r * r * a * at_a - b * at_b + r * both - y * y)
    s[0, 1] = s[1, 0] = first * second * (r - r * (a * at_a + b * at_b) + both - x * y)
    return math.log(probability)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _carry_on(cut: int, hidden: int, m: FloatArray, v: Any, s: FloatArray, mu: FloatArray, g: FloatArray) -> None:
    """The posterior of cells cut: (the missing ones) from that of the cut-off ones: normal given these.

    With B = V_mc V_cc^-1: mu_m = m_m + B mu_c, S_mc = B S_cc, S_mm = V_mm + B (S_cc - V_cc) B'. ``v`` holds -V below
    its diagonal.
    """
    b = np.empty((hidden - cut, cut))
    if cut > 0:
        among = np.empty((cut, cut))
        for i in range(cut):
            for j in range(cut):
                among[i, j] = v[max(i, j), min(i, j)]
        b = np.linalg.solve(among, v[cut:hidden, :cut].T.copy()).T
    for i in range(cut, hidden):
        mu[i] = 0.0
        for k in range(cut):
            mu[i] += b[i - cut, k] * mu[k]
        for j in range(cut):
            total = 0.0
            for k in range(cut):
                total += b[i - cut, k] * s[k, j]
            s[i, j] = s[j, i] = total
        for k in range(cut):  # B (S_cc - V_cc), a row of it
            g[k] = s[i, k] + v[i, k]
        for j in range(cut, i + 1):
            total = -v[i, j]
            for k in range(cut):
                total += g[k] * b[j - cut, k]
            s[i, j] = s[j, i] = total
    for i in range(cut, hidden):
        mu[i] += m[i]


@njit(cache=True, nogil=True)
def settle(
    cut: int, hidden: int, m: FloatArray, v: Any, limit: FloatArray, turn: FloatArray, work: Any, cavity: Any
) -> tuple[float, float]:
    """From N(m, V) (-V below the diagonal of ``v``) to the posterior of the hidden cells.

    Returns the log probability of the cut, whose derivatives have these moments, and what corrects it. Leaves mean and
    covariance in the first two arrays of ``work``, the cavities (in units of y, not turned) in ``cavity``. What it was
    given is turned, so that all cells ask "at most", and ``limit`` counts from m.
    """
    mu, s, tau, nu, c, skew = work
    for i in range(cut):
        for j in range(i + 1):
            v[i, j] *= turn[i] * turn[j]
            s[i, j] = s[j, i] = -v[i, j]
        m[i] *= turn[i]
        mu[i] = 0.0
        limit[i] -= m[i]
    for i in range(cut, hidden):
        for j in range(cut):
            v[i, j] *= turn[j]
    log_probability = correction = 0.0
    if cut == 1:
        log_probability = _one_by_one(cut, limit, v, s, mu, cavity)
    elif cut > 1:
        sites = _propagate(cut, limit, s, mu, tau, nu, c, v)
        log_probability, correction = _log_probability(cut, limit, s, mu, tau, nu, skew, sites, cavity, v)
        if cut == 2:
            exact = _exact_pair(limit, v, s, mu)
            if exact <= 0.0:
                log_probability, correction = exact, 0.0
        least = _least_likely(cut, limit, v)
        if not (_all_numbers(cut, s, mu, cavity) and abs(log_probability + correction) < math.inf):
            log_probability, correction = _one_by_one(cut, limit, v, s, mu, cavity), 0.0
        elif least < _NO_CHANCE:
            log_probability, correction = min(log_probability, least), 0.0
    if hidden > cut:
        _carry_on(cut, hidden, m, v, s, mu, c)
    for i in range(cut):
        mu[i] = turn[i] * (m[i] + mu[i])
        cavity[0, i] = turn[i] * (m[i] + cavity[0, i])
        for j in range(hidden):
            if j != i:
                s[i, j] *= turn[i]
                s[j, i] *= turn[i]
    return log_probability, correction


@njit(cache=True, nogil=True)
def hide(
    values: Any,
    beyond: Any,
    row: int,
    bias: FloatArray,
    per_scale: FloatArray,
    precision: FloatArray,
    widest: float,
    work: Any,
) -> tuple[int, int, int, float]:
    """Hidden cells of a row given its seen ones: (seen, cut off, hidden, log density of the seen + log det R / 2).

    ``widest``: what no eigenvalue of R is above; infinity where that is not known.
    """
    seen, u, order, limit, turn, m, v, c = work
    n_seen, cut, hidden = _split(values, beyond, row, bias, per_scale, seen, u, order, limit, turn)
    square = seen_square(n_seen, seen, u, precision)
    gather_hidden(hidden, order, n_seen, seen, u, precision, v, m)
    explained, log_det = sweep_hidden(hidden, v, m, c)
    square = max(square - explained, least_square(n_seen, u, widest))
    if draw_near(n_seen, u):
        gather_hidden(hidden, order, n_seen, seen, u, precision, v, m)
        sweep_hidden(hidden, v, m, c)
    return n_seen, cut, hidden, -0.5 * (square + n_seen * _LOG_2PI + log_det)


@njit(cache=True, nogil=True)
def workspaces(d: int) -> Any:
    """(for :func:`hide`, for :func:`settle`): room for a row of d cells."""
    index, vector = np.empty((2, d), dtype=np.int64), np.empty((9, d))
    split = (index[0], vector[0], index[1], vector[1], vector[2], vector[3], np.empty((d, d)), vector[4])
    return split, (vector[5], np.empty((d, d)), vector[6], vector[7], vector[4], vector[8])


@njit(cache=True, nogil=True)
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
    split, posterior = workspaces(d)
    seen, u, order, limit, turn, m, v, _ = split
    mu, s = posterior[0], posterior[1]
    cavity, per_scale = np.empty((2, d)), 1.0 / scale
    for row in range(n):
        n_seen, cut, hidden, normal = hide(values, beyond, row, bias, per_scale, precision, 2.0 * max(d, 1), split)
        probability, correction = settle(cut, hidden, m, v, limit, turn, posterior, cavity)
        log_density[row] = normal + probability + correction
        if moments.shape[1] == 0:
            continue
        for i in range(n_seen):
            moments[0, row, seen[i]] = moments[2, row, seen[i]] = u[i]
            moments[1, row, seen[i]] = moments[3, row, seen[i]] = 0.0
        for i in range(hidden):
            at = order[i]
            moments[0, row, at] = mu[i]
            moments[1, row, at] = max(s[i, i], 0.0)
            moments[2, row, at] = cavity[0, i] if i < cut else mu[i]
            moments[3, row, at] = cavity[1, i] if i < cut else max(s[i, i], 0.0)
            for j in range(hidden if len(spread) > 0 else 0):
                spread[at, order[j]] += s[i, j]
