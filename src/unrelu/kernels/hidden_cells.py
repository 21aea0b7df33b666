"""What a row's cells say about those that are hidden: the density of rows, cell by cell, cheap or converged.

A row is ``values`` and ``censoring``: -1 where a cell only says "at most the number in it", 1 for "at least", 0 where
the number is the value (NaN: missing). In units where y has mean 0 and unit variances, let Q be the inverse of its
correlation matrix R, o the seen cells and h the hidden ones. With u_o the seen values (0 elsewhere) and g = Q u,

    u_o' (R_oo)^-1 u_o = u_o' g_o - g_h' (Q_hh)^-1 g_h        det R_oo = det R det Q_hh
    y_h | x_o ~ N(m, V),   V = (Q_hh)^-1,   m = -V g_h                                          all exact.

One symmetric sweep of Q_hh gives the three. "At least" is negated, so that y_k <= a_k for all cut-off cells.
Each such factor is replaced by a normal site exp(nu_k y - tau_k y^2 / 2), and

    S = (V^-1 + diag tau)^-1        mu = S (V^-1 m + nu)

is the posterior. A site is renewed from its cavity, the posterior without it, N(c, w) with 1/w = 1/S_kk - tau_k: the
cut-off cavity has, for alpha = (a_k - c)/sqrt(w) and lambda = phi(alpha)/Phi(alpha), the mean c - sqrt(w) lambda and
the variance w (1 - lambda (lambda + alpha)), and the site is what gives the posterior the same (Cunningham, Hennig and
Lacoste-Julien 2011). The marginals are these cut-off cavities. The log probability is

    sum log Phi(alpha_k) - sum log E_cavity[site_k] + log E_N(m,V)[all sites]
        + sum over pairs of skew_j skew_k (S_jk / sqrt(S_jj S_kk))^3 / 6,

the last the leading correction of Opper, Paquet and Winther (2013), by the skewness of the marginals: it takes errors
of up to .016 a cut-off cell (correlations of .9) to below .002. One and two cells are done exactly (Rosenbaum 1961).

The cheap mode ends with the first sweep: it takes each truncated normal for the normal of its mean and variance, one
after the other, and adds up log Phi(alpha_k) (assumed-density filtering, Mendell and Elston 1974). That is exact for
one cut-off cell and for independent ones, and .05 a cell off at correlations of .9. The expectation of a cell given
three that are cut off has a standard deviation 1 % too small at correlations of .6 and 7 % at .9 in the converged mode,
3 % and 11 % in the cheap one.

Rows may be of any size: the density of the seen values is that of the values; the hidden ones are predicted from values
of at most ``FAR`` standard deviations, beyond which a difference to a limit would be rounding. Where a limit is a
thousand standard deviations below what the others predict, sites are as sharp as rounding separates them from the
prior; the log probability is at most that of any cell alone; and where expectation propagation ends in nothing, cells
are taken one by one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import contracted_helper, helper, kernel
from unrelu.kernels.normal import (
    bivariate_density,
    cut_normal,
    cut_share,
    density,
    distribution,
    log_probability_and_hazard,
    upper_orthant,
)

_LOG_2PI = math.log(2.0 * math.pi)
_MOST_SWEEPS = 60
_STILL = 1e-5  # of a posterior standard deviation, or of its square: sites that move less have converged
_DEEP = -35.0
_LEAST_EXACT = 1e-9  # probability of a pair from which on the exact formula has digits to spare
_SMALLEST_VARIANCE = 1e-12  # what rounding leaves of a variance that is nothing
_SHARPEST = 1e-6  # of its cavity's variance that a site leaves: cavity and posterior then differ in 4 digits
_NO_CHANCE = -5e5  # log probability of a cell, a thousand standard deviations from its limit
_LARGE, _SMALL = 1e100, 1e-100  # between them a product takes one factor more
FAR = 1e6  # standard deviations: what is hidden is not expected further away for a seen value that is
FARTHEST = 1e120  # standard deviations: squares of sums of such numbers are numbers

# Rows of the work spaces of a row of d cells, one of numbers and one of columns: every array that a kernel is given
# takes time to compile. Seen values; means of hidden cells; a column; 1/std; limits, and signs that make them upper;
# posterior means, sites, skewness, cavities.
U, MEAN, _C, PER_STD, LIMIT, SIGN, MU, _TAU, _NU, _SKEW, CENTRE, WIDTH, _N_VECTORS = range(13)
SEEN, ORDER = range(2)  # the columns that are seen, and those that are hidden

Index = NDArray[np.int64]


@helper
def workspaces(d: int) -> tuple[FloatArray, Index, FloatArray, FloatArray]:
    """Room for a row of d cells: vectors, columns, and two matrices, V and the posterior covariance."""
    return np.empty((_N_VECTORS, d)), np.empty((2, d), dtype=np.int64), np.empty((d, d)), np.empty((d, d))


# No views of rows inside: each costs about as much as the arithmetic on a row of a narrow table.
@helper
def hide(
    values: Any,
    censoring: Any,
    row: int,
    mean: FloatArray,
    precision: FloatArray,
    widest: float,
    work: FloatArray,
    index: Index,
    v: FloatArray,
) -> tuple[int, int, int, float]:
    """Hidden cells of a row given its seen ones: (seen, cut off, hidden, log density of the seen + log det R / 2).

    Those that are missing come after those that are cut off; LIMIT and SIGN are in that order, y_k sign_k <= limit_k.
    Leaves -V below the diagonal of ``v``, and the mean. ``widest``: what no eigenvalue of R is above; infinity where
    there is no such bound. 1/std is in the work space.
    """
    d = values.shape[1]
    n_seen = cut = missing = 0
    for j in range(d):
        x, mark = (values[row, j] - mean[j]) * work[PER_STD, j], censoring[row, j]
        if abs(x) > FARTHEST:
            x = FARTHEST if x > 0.0 else -FARTHEST
        if mark != 0:
            index[ORDER, cut] = j
            work[SIGN, cut] = -mark
            work[LIMIT, cut] = -mark * x
            cut += 1
        elif x == x:
            index[SEEN, n_seen] = j
            work[U, n_seen] = x
            n_seen += 1
        else:
            missing += 1
            index[ORDER, d - missing] = j  # those that are cut off end before
    for k in range(missing):
        index[ORDER, cut + k] = index[ORDER, d - missing + k]
        work[SIGN, cut + k] = 1.0
    square = least = farthest = 0.0
    for i in range(n_seen):
        at, u = index[SEEN, i], work[U, i]
        total = 0.0
        for j in range(i):
            total += work[U, j] * precision[at, index[SEEN, j]]
        square += u * (2.0 * total + u * precision[at, at])
        least += u * u
        farthest = max(farthest, abs(u))
    hidden, normal = cut + missing, 0.0
    for again in range(2):
        for i in range(hidden):
            at = index[ORDER, i]
            for j in range(i + 1):
                v[i, j] = precision[at, index[ORDER, j]]
            total = 0.0
            for k in range(n_seen):
                total += work[U, k] * precision[at, index[SEEN, k]]
            work[MEAN, i] = -total
        explained, log_det = _sweep_hidden(hidden, work, v)
        if again == 0:
            normal = -0.5 * (max(square - explained, least / widest) + n_seen * _LOG_2PI + log_det)
        if farthest <= FAR:
            break
        for i in range(n_seen):
            work[U, i] = min(max(work[U, i], -FAR), FAR)
    return n_seen, cut, hidden, normal


@contracted_helper
def _sweep_hidden(hidden: int, work: FloatArray, v: FloatArray) -> tuple[float, float]:
    """From Q_hh (lower triangle of ``v``) and -g_h in the place of the mean: leave -V and the mean.

    Returns g_h' V g_h and log det Q_hh.
    """
    quadratic = log_det = 0.0
    pivots = 1.0  # one logarithm of many
    for k in range(hidden):
        pivot = v[k, k]
        inverse = 1.0 / pivot
        pivots *= pivot
        if pivots > _LARGE or pivots < _SMALL:
            log_det += math.log(pivots)
            pivots = 1.0
        for j in range(k):
            work[_C, j] = v[k, j]
        for i in range(k + 1, hidden):
            work[_C, i] = v[i, k]
        mean = work[MEAN, k] * inverse
        quadratic += mean * mean * pivot
        for i in range(hidden):
            if i == k:
                continue
            work[MEAN, i] -= work[_C, i] * mean
            factor = work[_C, i] * inverse
            for j in range(i + 1):
                v[i, j] -= factor * work[_C, j]
        work[MEAN, k] = mean
        for j in range(k):
            v[k, j] = work[_C, j] * inverse
        for i in range(k + 1, hidden):
            v[i, k] = work[_C, i] * inverse
        v[k, k] = -inverse
    return quadratic, log_det + math.log(pivots)


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
def _sweep_once(cut: int, work: FloatArray, v: FloatArray, s: FloatArray) -> float:
    """The cheap mode: cells that are cut off in turn, each left behind; the sum of their log probabilities."""
    for i in range(cut):
        for j in range(i + 1):
            s[i, j] = -v[i, j] * work[SIGN, i] * work[SIGN, j]
        work[LIMIT, i] -= work[MEAN, i] * work[SIGN, i]
        work[MU, i] = 0.0
    total = 0.0
    for k in range(cut):
        variance = max(s[k, k], _SMALLEST_VARIANCE)
        deviation = math.sqrt(variance)
        a = (work[LIMIT, k] - work[MU, k]) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = hazard / deviation, cut_share(a, hazard) / variance
        for i in range(k + 1, cut):
            work[_C, i] = s[i, k]
        for i in range(k + 1, cut):
            work[MU, i] -= work[_C, i] * shift
            factor = work[_C, i] * shrink
            for j in range(k + 1, i + 1):
                s[i, j] -= factor * work[_C, j]
    return total


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
                work[_C, i] = s[i, k]
            for i in range(cut):
                work[MU, i] += gain * work[_C, i]
                lead = factor * work[_C, i]
                for j in range(cut):
                    s[i, j] -= lead * work[_C, j]
        if moved < _STILL:
            break
    total = -0.5 * log_det
    for k in range(cut):
        total += 0.5 * work[_NU, k] * work[MU, k]
    return total


@helper
def _log_probability(cut: int, sites: float, work: FloatArray, v: FloatArray, s: FloatArray) -> tuple[float, float]:
    """The log probability of the module's text, and its last line; leaves the cavities. Infinite where these, or the
    posterior, are no numbers."""
    total, correction, sizes = sites, 0.0, 0.0
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
        sizes += abs(work[MU, k]) + abs(s[k, k]) + abs(centre) + abs(w)
        for j in range(k):
            covariance = s[j, k]
            correction += work[_SKEW, j] * work[_SKEW, k] * covariance * covariance * covariance / 6.0
    return (total, correction) if sizes < math.inf else (math.inf, 0.0)


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
    for j in range(cut):  # V_cc = L L': L' above the diagonal of v, and L^-1 V_cm; 1/L_jj in _C
        for i in range(j, hidden):
            total = -v[i, j]
            for k in range(j):
                total -= v[k, i] * v[k, j]
            if i > j:
                v[j, i] = total * work[_C, j]
            else:
                work[_C, j] = 1.0 / math.sqrt(total) if total > 0.0 else 0.0
    for back in range(cut):  # B' = L'^-1 L^-1 V_cm: v[k, i] = B_ik
        k = cut - 1 - back
        for i in range(cut, hidden):
            total = v[k, i]
            for j in range(k + 1, cut):
                total -= v[k, j] * v[j, i]
            v[k, i] = total * work[_C, k]
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
            work[_C, k] = s[i, k] + v[i, k]
        for j in range(cut, i + 1):
            total = -v[i, j]
            for k in range(cut):
                total += work[_C, k] * v[k, j]
            s[i, j] = s[j, i] = total


@helper
def condition_on_cuts(cut: int, hidden: int, work: FloatArray, v: FloatArray, s: FloatArray) -> tuple[float, float]:
    """From N(m, V) (-V below the diagonal of ``v``) to the posterior of the hidden cells.

    Returns the log probability of the cut, whose derivatives have these moments, and what corrects it. Leaves the
    mean in MU and the covariance in ``s``, the cavities (in units of y, not negated) in CENTRE and WIDTH. It
    negates "at least" in its arguments, so that all cells are at most their limits, and LIMIT counts from m.
    """
    lowest = math.inf
    for i in range(hidden):
        for j in range(i + 1):
            v[i, j] *= work[SIGN, i] * work[SIGN, j]
            s[i, j] = s[j, i] = -v[i, j]
        work[MEAN, i] *= work[SIGN, i]
        work[MU, i] = 0.0
        if i < cut:
            work[LIMIT, i] -= work[MEAN, i]
            lowest = min(lowest, work[LIMIT, i] / math.sqrt(max(-v[i, i], _SMALLEST_VARIANCE)))
    log_probability = correction = 0.0
    if cut == 1:
        log_probability = _one_by_one(cut, work, v, s)
    elif cut > 1:
        sites = _propagate(cut, work, v, s)
        log_probability, correction = _log_probability(cut, sites, work, v, s)
        least = log_probability_and_hazard(lowest)[0]  # all together are not more likely than the least likely
        if not abs(log_probability + correction) < math.inf:
            log_probability, correction = _one_by_one(cut, work, v, s), 0.0
        elif cut == 2:
            exact = _exact_pair(work, v, s)
            if exact <= 0.0:
                log_probability, correction = exact, 0.0
        if least < _NO_CHANCE:
            log_probability, correction = min(log_probability, least), 0.0
    if hidden > cut:
        _carry_on(cut, hidden, work, v, s)
    for i in range(cut):
        work[MU, i] = work[SIGN, i] * (work[MEAN, i] + work[MU, i])
        work[CENTRE, i] = work[SIGN, i] * (work[MEAN, i] + work[CENTRE, i])
        for j in range(hidden):
            if j != i:
                s[i, j] *= work[SIGN, i]
                s[j, i] *= work[SIGN, i]
    return log_probability, correction


@kernel
def hidden_rows(
    values: Any,
    censoring: Any,
    mean: FloatArray,
    std: FloatArray,
    precision: FloatArray,
    converged: bool,
    log_density: FloatArray,
    moments: FloatArray,
    spread: FloatArray,
) -> None:
    """Per row its log density (per standard deviation, + log det R / 2), and of its cells four numbers in standard
    units.

    ``moments`` (4 x n x d, or 4 x 0 x d where they are not wanted): posterior mean and variance; mean and variance of
    the normal that, cut off at the cell's limit, is its marginal. Seen cells have their value and 0. ``spread`` (d x d,
    or 0 x 0) is added to by the posterior covariances. Only the converged mode has moments.
    """
    n, d = values.shape
    work, index, v, s = workspaces(d)
    for j in range(d):
        work[PER_STD, j] = 1.0 / std[j]
    for row in range(n):
        n_seen, cut, hidden, normal = hide(values, censoring, row, mean, precision, 2.0 * max(d, 1), work, index, v)
        if not converged:
            log_density[row] = normal + _sweep_once(cut, work, v, s)
            continue
        probability, correction = condition_on_cuts(cut, hidden, work, v, s)
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


@kernel
def cell_residuals(
    values: Any, censoring: Any, mean: FloatArray, std: FloatArray, precision: FloatArray, out: FloatArray
) -> None:
    """``out[i, j]``: how far cell j lies from what the row's other cells predict, in standard deviations.

    For a cell that is cut off at a limit the limit's distance, which says how unlikely that was; NaN for a
    missing one. Mean and deviation are those of the converged mode where the cell is missing, so that every cell takes
    a posterior of its own; what the seen cells say of the hidden ones is found once a row. Values beyond ``FAR`` count
    as that far away.
    """
    n, d = values.shape
    work, index, v, s = workspaces(d)
    of_row, prior, w = np.empty((3, d)), np.empty((d, d)), np.empty(d)
    for j in range(d):
        work[PER_STD, j] = 1.0 / std[j]
    for row in range(n):
        n_seen, cut, hidden, _ = hide(values, censoring, row, mean, precision, np.inf, work, index, v)
        for i in range(hidden):
            of_row[0, i], of_row[1, i], of_row[2, i] = work[MEAN, i], work[LIMIT, i], work[SIGN, i]
        for i in range(cut, hidden):
            out[row, index[ORDER, i]] = np.nan
        for cell in range(n_seen + cut):
            at = cell - n_seen
            if at < 0:
                last, value, column = cut, work[U, cell], index[SEEN, cell]
                _hide_seen(cell, cut, hidden, n_seen, index, precision, of_row, w, work, v, prior)
            else:
                last, value, column = cut - 1, of_row[1, at] * of_row[2, at], index[ORDER, at]
                for i in range(cut):  # with this cell at the end
                    a = at if i == last else i + (i >= at)
                    work[MEAN, i], work[LIMIT, i], work[SIGN, i] = of_row[0, a], of_row[1, a], of_row[2, a]
                    for j in range(i + 1):
                        b = at if j == last else j + (j >= at)
                        prior[i, j] = v[max(a, b), min(a, b)]
            work[SIGN, last] = 1.0
            condition_on_cuts(last, last + 1, work, prior, s)
            out[row, column] = (value - work[MU, last]) / math.sqrt(max(s[last, last], _SMALLEST_VARIANCE))


@helper
def _hide_seen(
    cell: int,
    cut: int,
    hidden: int,
    n_seen: int,
    index: Index,
    precision: FloatArray,
    of_row: FloatArray,
    w: FloatArray,
    work: FloatArray,
    v: FloatArray,
    prior: FloatArray,
) -> None:
    """Mean and minus the covariance of the cut-off cells and, last, of a seen cell k that is hidden with them.

    With q = Q_hk, w = V q, s = Q_kk - q'w, and g_k over the other seen cells,

        m_k = -(g_k + q'm + u_k q'w)/s      m_h + w (u_k - m_k)      V_hh + w w'/s      V_hk = -w/s      V_kk = 1/s.
    """
    k = index[SEEN, cell]
    total = 0.0
    for i in range(n_seen):
        if i != cell:
            total += work[U, i] * precision[k, index[SEEN, i]]
    qw = 0.0
    for i in range(hidden):
        dot = 0.0
        for j in range(i + 1):
            dot -= v[i, j] * precision[k, index[ORDER, j]]
        for j in range(i + 1, hidden):
            dot -= v[j, i] * precision[k, index[ORDER, j]]
        w[i] = dot
        q = precision[k, index[ORDER, i]]
        qw += q * dot
        total += q * of_row[0, i]
    variance = 1.0 / (precision[k, k] - qw)
    work[MEAN, cut] = -(total + work[U, cell] * qw) * variance
    surprise = work[U, cell] - work[MEAN, cut]
    for i in range(cut):
        work[MEAN, i], work[LIMIT, i], work[SIGN, i] = of_row[0, i] + w[i] * surprise, of_row[1, i], of_row[2, i]
        factor = w[i] * variance
        prior[cut, i] = factor
        for j in range(i + 1):
            prior[i, j] = v[i, j] - factor * w[j]
    prior[cut, cut] = -variance
