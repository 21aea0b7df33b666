"""Two floored unit normals: their moments, and the correlation that fits those of rows.

Setting: u1, u2 standard normal with correlation r; coordinate i is seen where u_i > -a_i (a_i = (b_i - floor_i)/s_i).
Moments are taken about a centre c_i, v_i = u_i - c_i, with the floor at l_i = -a_i - c_i:

    M_pq = E[v1^p v2^q 1{v1 > l1, v2 > l2}],   p + q <= 4.

The centre is free (it does not change what the statistics span): we take the floor itself (c = -a) when the
coordinate is mostly floored and the mean (c = 0) when it is mostly seen, which keeps the statistics far from
collinear in both regimes. Stein's lemma E[u1 F] = E[dF/du1] + r E[dF/du2] gives the recursion

    M_pq = -c1 M_{p-1,q} + (p-1) M_{p-2,q} + l1^{p-1} D1_q + r ( q M_{p-1,q-1} + l2^q D2_{p-1} ),   p >= 1,

with boundary terms D1_q = phi(a1) E[v2^q 1{v2 > l2} | u1 = -a1] and D2_p with the coordinates exchanged.

Latent correlations of all pairs are then optimally weighted moments, solved pair by pair. For one pair let mhat be the
twelve sample statistics, m(r) their expectations, V(r) their covariance and G(r) = dm/dr. The estimate solves the
quasi-score equation

    n G' V^-1 (mhat - m(r)) - r / (1 - r^2) = 0,

by scoring steps on atanh(r) (Newton with expected curvature, then with the secant's) kept inside a bracket, and where
they are slow by false position in it (the Illinois rule). The last term is the score of the prior density
sqrt(1 - r^2): worth one row or less against n, it only matters for pairs that are almost never above their floors
together, where the likelihood has its maximum at the useless value -1.

The standard error accounts for the estimated marginals. With w = V^-1 G / (G' V^-1 G), a row moves r by
w'(m_row - m) and, through its influence on (mean, std) of coordinate i, by -w' G_i H_i (m_row - m), where
H_i is that influence, linear in the three statistics of coordinate i alone. Both parts are linear in the
twelve statistics, so the variance is a quadratic form in V.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfc

from unrelu.kernels.compiling import helper, kernel
from unrelu.kernels.normal import bivariate_density, density, distribution, upper_orthant

# The twelve statistics of a pair: three of each coordinate alone, six of both. Exponents (p, q).
N_STATISTICS = 12
N_MARGINAL = 6
LARGEST_A = 40.0  # a floor this far below the mean is as good as none: its density and tail are 0 in double precision
NEARLY_ONE = 1.0 - 1e-6  # correlations beyond it are taken as this one, where a division needs it
JOINT_P = (0, 1, 1, 0, 2, 0)
JOINT_Q = (0, 1, 0, 1, 0, 2)

LARGEST_Z = 12.0  # atanh of the largest correlation considered, 1 - 1e-10
LARGEST_START = 0.98
LARGEST_STEP = 1.0
STRIDE = 0.5
TOLERANCE = 1e-10  # on atanh(r)
LAST_STEP = 1e-11  # a secant step leaves an error of about its size times that of the step before
MOST_ROUNDS = 60
SCORING_ROUNDS = 8  # scoring converges linearly where the model fits badly: then on by false position
SMALLEST_PIVOT = 1e-12  # a statistic explained to this share by the others adds only rounding
SMALLEST_VARIANCE = 1e-12  # relative: a statistic that hardly varies (never floored) likewise
_ROUNDING = 1e-12  # a variance below this share of the mean square may be rounding alone
_LINE = 1e-11  # joint positives whose correlation is this close to 1 lie on a line

# Rows of a pair's work space: one array, as every array that a kernel is given takes time to compile.
EDGES = 0  # two: the boundary terms D of each coordinate
OWN = 2  # two: E[v^p 1{v > l}] of each coordinate
M = 4  # five: M_pq
MEAN = 9  # of the twelve statistics
GRADIENT = 10  # d/dr of the mean
SLOPES = 11  # two: its derivatives in mean and std of one coordinate
V = 13  # twelve: covariance of the statistics, lower triangle
_SIZE = 25  # one over the standard deviation of each statistic
_MHAT = 26  # sample means of the statistics
_HALF_GRADIENT = 27
_HALF_RESIDUAL = 28
_INFLUENCE = 29  # two: of each coordinate, on its mean and then on its std
WEIGHTS = 31
THROUGH = 32  # two
_CHOL = 34  # twelve
WORK_ROWS = 46


class Columns(NamedTuple):
    """What pairs need of every column. ``a`` = (b - floor)/s, ``moments`` (d x 5) of :func:`moments_of_columns`,
    ``influence`` (d x 2 x 3) of the three own statistics on mean and std in units of std, ``rows`` the effective
    number of rows that see the column."""

    a: np.ndarray
    moments: np.ndarray
    influence: np.ndarray
    rows: np.ndarray


def workspace(pair: tuple[int, int], columns: Columns, mhat: np.ndarray) -> np.ndarray:
    """The work space of one pair, with the numbers of its columns and its sample statistics."""
    work = np.zeros((WORK_ROWS, N_STATISTICS))
    work[_MHAT] = mhat
    for side, column in enumerate(pair):
        work[OWN + side, :5] = columns.moments[column]
        work[_INFLUENCE + side, :6] = columns.influence[column].ravel()
    return work


@kernel
def centre_of(a: float) -> float:
    """c: the floor for a mostly floored coordinate, the mean for a mostly seen one."""
    return max(-a, 0.0)


def moments_of_columns(a: np.ndarray) -> np.ndarray:
    """d x 5: E[v^p 1{v > l}], p = 0..4, of every column."""
    c = np.maximum(-a, 0.0)
    floor = -a - c
    edge = np.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi)
    out = np.empty((len(a), 5))
    out[:, 0] = 0.5 * erfc(-a * math.sqrt(0.5))
    out[:, 1] = -c * out[:, 0] + edge
    for p in range(2, 5):
        edge = edge * floor
        out[:, p] = -c * out[:, p - 1] + (p - 1) * out[:, p - 2] + edge
    return out


# --- the equations of the model --------------------------------------------------------------------
# Kernels read them for one pair, whose work space is an array of numbers; fit/pairs_on_device.py runs their Python text
# for many pairs at once, with an array of pairs wherever a number stands. So numbers are never changed in place.


@helper
def boundary_terms(
    side: int, mean: float, gap2: float, tail: float, edge: float, floor: float, work: np.ndarray
) -> None:
    """D_q of one coordinate, q = 0..3, from D_0 = ``tail``: there v of the other one is N(mean, gap2)."""
    before, last = 0.0, tail
    work[EDGES + side, 0] = last
    for q in range(1, 4):
        before, last = last, mean * last + (q - 1) * gap2 * before + edge
        work[EDGES + side, q] = last
        edge = edge * floor


@helper
def moments_up_to_four(c1: float, c2: float, l1: float, l2: float, r: float, work: np.ndarray) -> None:
    """M_pq for p + q <= 4, from M_00 and the boundary terms."""
    power = 1.0  # l2^(q-1)
    for q in range(1, 5):
        value = -c2 * work[M, q - 1] + power * work[EDGES + 1, 0] + r * work[EDGES, q - 1]
        if q >= 2:
            value = value + (q - 1) * work[M, q - 2]
        work[M, q] = value
        power = power * l2
    edge1 = 1.0  # l1^(p-1)
    for p in range(1, 5):
        edge2 = 1.0  # l2^q
        for q in range(5 - p):
            value = -c1 * work[M + p - 1, q] + edge1 * work[EDGES, q] + r * edge2 * work[EDGES + 1, p - 1]
            if p >= 2:
                value = value + (p - 1) * work[M + p - 2, q]
            if q >= 1:
                value = value + r * q * work[M + p - 1, q - 1]
            work[M + p, q] = value
            edge2 = edge2 * l2
        edge1 = edge1 * l1


@kernel
def statistics_moments(work: np.ndarray) -> None:
    """The twelve expectations, E[v1^0..2 1{}], E[v2^0..2 1{}], then M_pq of the joint exponents, and their covariance.
    Products of statistics are moments again. Of the covariance, the lower triangle."""
    for p in range(3):
        work[MEAN, p] = work[OWN, p]
        work[MEAN, 3 + p] = work[OWN + 1, p]
    for k in range(N_STATISTICS - N_MARGINAL):
        work[MEAN, N_MARGINAL + k] = work[M + JOINT_P[k], JOINT_Q[k]]
    for p in range(3):
        for q in range(3):
            work[V + 3 + q, p] = work[M + p, q]
            work[V + p, q] = work[OWN, p + q]
            work[V + 3 + p, 3 + q] = work[OWN + 1, p + q]
    for k in range(N_STATISTICS - N_MARGINAL):
        pk = JOINT_P[k]
        qk = JOINT_Q[k]
        row = V + N_MARGINAL + k
        for p in range(3):
            work[row, p] = work[M + pk + p, qk]
            work[row, 3 + p] = work[M + pk, qk + p]
        for j in range(k + 1):
            work[row, N_MARGINAL + j] = work[M + pk + JOINT_P[j], qk + JOINT_Q[j]]
    for k in range(N_STATISTICS):
        for j in range(k + 1):
            work[V + k, j] = work[V + k, j] - work[MEAN, k] * work[MEAN, j]


@helper
def slopes_in_correlation(l1: float, l2: float, phi2: float, work: np.ndarray) -> None:
    """d/dr of the six joint expectations, by Price's theorem d/dr E[f(u1) g(u2)] = E[f'(u1) g'(u2)]. f = v^p 1{v > l}
    has f' = p v^{p-1} 1{v > l} + l^p delta(v - l)."""
    d1, d2 = work[EDGES, 0], work[EDGES + 1, 0]
    work[GRADIENT, 6] = phi2
    work[GRADIENT, 7] = work[M, 0] + l1 * d1 + l2 * d2 + l1 * l2 * phi2
    work[GRADIENT, 8] = d2 + l1 * phi2
    work[GRADIENT, 9] = d1 + l2 * phi2
    work[GRADIENT, 10] = 2.0 * work[EDGES + 1, 1] + l1 * l1 * phi2
    work[GRADIENT, 11] = 2.0 * work[EDGES, 1] + l2 * l2 * phi2


@helper
def slopes_in_marginal(a: float, c: float, at_floor: float, side: int, work: np.ndarray) -> None:
    """d/d(mean, std) of the twelve expectations in the rows SLOPES: of coordinate ``side``, in units of its std. For
    y = mean + std u and f = v^p 1{v > l}: d/dmean E[f g] = E[f' g], d/dstd E[f g] = E[u f' g], and u = v + c;
    at the floor u = -a, of density ``at_floor``."""
    floor = -a - c
    for k in range(N_STATISTICS):
        p = q = 0
        if k >= N_MARGINAL:
            p, q = JOINT_P[k - N_MARGINAL], JOINT_Q[k - N_MARGINAL]
            if side == 1:
                p, q = q, p
        elif k // 3 == side:
            p = k % 3
        else:
            work[SLOPES, k] = work[SLOPES + 1, k] = 0.0
            continue
        mean = at_floor if k < N_MARGINAL else work[EDGES + side, q]
        for _ in range(p):
            mean = mean * floor
        std = -a * mean
        if p > 0:
            if k < N_MARGINAL:
                below, same = work[OWN + side, p - 1], work[OWN + side, p]
            elif side == 1:
                below, same = work[M + q, p - 1], work[M + q, p]
            else:
                below, same = work[M + p - 1, q], work[M + p, q]
            mean = mean + p * below
            std = std + p * (same + c * below)
        work[SLOPES, k] = mean
        work[SLOPES + 1, k] = std


@kernel
def joint_moments(a1: float, a2: float, r: float, work: np.ndarray) -> None:
    """Fill M_pq for p + q <= 4, and the boundary terms D1_q = phi(a1) E[v2^q 1{v2 > l2} | u1 = -a1] and D2_p."""
    c1, c2 = centre_of(a1), centre_of(a2)
    l1, l2 = -a1 - c1, -a2 - c2
    gap2 = (1.0 - r) * (1.0 + r)
    gap = math.sqrt(gap2)
    for side in range(2):  # of the other coordinate, which is N(-r a, 1 - r^2) where this one is at its floor
        a, other, c, floor = (a1, a2, c2, l2) if side == 0 else (a2, a1, c1, l1)
        z, weight = (other - r * a) / gap, density(a)
        boundary_terms(side, -r * a - c, gap2, weight * distribution(z), weight * gap * density(z), floor, work)
    work[M, 0] = upper_orthant(-a1, -a2, r)
    moments_up_to_four(c1, c2, l1, l2, r, work)


@kernel
def correlation_gradient(a1: float, a2: float, r: float, work: np.ndarray) -> None:
    """d/dr of the twelve expectations; those of one coordinate alone do not depend on r."""
    for k in range(N_MARGINAL):
        work[GRADIENT, k] = 0.0
    slopes_in_correlation(-a1 - centre_of(a1), -a2 - centre_of(a2), bivariate_density(a1, a2, r), work)


@kernel
def marginal_gradient(a: float, side: int, work: np.ndarray) -> None:
    """d/d(mean, std) of the twelve expectations, of coordinate ``side``."""
    slopes_in_marginal(a, centre_of(a), density(a), side, work)


# --- pairs of numbers -------------------------------------------------------------------------------


@kernel
def upper_parts(thresholds: np.ndarray, correlation: np.ndarray, share: np.ndarray, within: np.ndarray) -> None:
    """Two unit normals above thresholds, for every pair of columns. ``share[k, i, j]``: P(u_i > t_ki, u_j > t_kj), for
    each row k of ``thresholds``; ``within[i, j]``: the correlation of u_i and u_j where both are above the thresholds
    of the first row, NaN where that hardly happens."""
    work = np.zeros((WORK_ROWS, N_STATISTICS))
    for i in range(correlation.shape[0]):
        for j in range(i):
            r = min(max(correlation[i, j], -NEARLY_ONE), NEARLY_ONE)
            for k in range(thresholds.shape[0]):
                share[k, i, j] = share[k, j, i] = upper_orthant(thresholds[k, i], thresholds[k, j], r)
            within[i, j] = within[j, i] = np.nan
            joint_moments(-thresholds[0, i], -thresholds[0, j], r, work)
            both = work[M, 0]
            if both < 1e-9:
                continue
            mean1, mean2 = work[M + 1, 0] / both, work[M, 1] / both
            var1, var2 = work[M + 2, 0] / both - mean1 * mean1, work[M, 2] / both - mean2 * mean2
            if var1 > 0.0 and var2 > 0.0:
                within[i, j] = within[j, i] = (work[M + 1, 1] / both - mean1 * mean2) / math.sqrt(var1 * var2)


@helper
def _quadratic(first: int, second: int, work: np.ndarray) -> float:
    """x' V y for two rows of the work space."""
    total = 0.0
    for k in range(N_STATISTICS):
        x, y = work[first, k], work[second, k]
        total += work[V + k, k] * x * y
        for j in range(k):
            total += work[V + k, j] * (x * work[second, j] + work[first, j] * y)
    return total


@helper
def _start_by_cross_moment(a1: float, a2: float, work: np.ndarray) -> float:
    """A few safe Newton steps on E[v1 v2] = its sample mean, from the linearisation at r = 0."""
    r = 0.0
    value = work[OWN, 1] * work[OWN + 1, 1]
    slope = work[OWN, 0] * work[OWN + 1, 0]
    for _ in range(3):
        if slope <= 1e-12:
            break
        step = (work[_MHAT, 7] - value) / slope
        r = min(max(r + step, 0.5 * (r - 1.0) if r < 0.9 else -0.9), 0.5 * (r + 1.0) if r > -0.9 else 0.9)
        r = min(max(r, -LARGEST_START), LARGEST_START)
        if abs(step) < 0.02:
            break
        joint_moments(a1, a2, r, work)
        correlation_gradient(a1, a2, r, work)
        value, slope = work[M + 1, 1], work[GRADIENT, N_MARGINAL + 1]
    return r


@kernel
def evaluate(a1: float, a2: float, r: float, work: np.ndarray) -> tuple[float, float]:
    """Quasi-score G' V^-1 (mhat - m) and information G' V^-1 G, per row; all that led to them stays in ``work``."""
    joint_moments(a1, a2, r, work)
    statistics_moments(work)
    correlation_gradient(a1, a2, r, work)
    score = 0.0
    information = 0.0
    for k in range(N_STATISTICS):
        # Cholesky of V scaled to unit diagonal; its own diagonal holds 1/pivot, 0 for a statistic left out.
        variance = work[V + k, k]
        keep = variance > SMALLEST_VARIANCE * (variance + work[MEAN, k] * work[MEAN, k])
        scale = 1.0 / math.sqrt(variance) if keep else 0.0
        work[_SIZE, k] = scale
        for j in range(k):
            total = work[V + k, j] * scale * work[_SIZE, j]
            for i in range(j):
                total -= work[_CHOL + k, i] * work[_CHOL + j, i]
            work[_CHOL + k, j] = total * work[_CHOL + j, j]
        left = 1.0 if scale > 0.0 else 0.0
        for i in range(k):
            left -= work[_CHOL + k, i] * work[_CHOL + k, i]
        pivot = 1.0 / math.sqrt(left) if left > SMALLEST_PIVOT else 0.0
        work[_CHOL + k, k] = pivot
        # L^-1 G and L^-1 (mhat - m), both scaled
        gradient, residual = work[GRADIENT, k] * scale, (work[_MHAT, k] - work[MEAN, k]) * scale
        for i in range(k):
            gradient -= work[_CHOL + k, i] * work[_HALF_GRADIENT, i]
            residual -= work[_CHOL + k, i] * work[_HALF_RESIDUAL, i]
        work[_HALF_GRADIENT, k] = gradient * pivot
        work[_HALF_RESIDUAL, k] = residual * pivot
        score += gradient * pivot * (residual * pivot)
        information += gradient * pivot * (gradient * pivot)
    return score, information


@kernel
def find_root(a1: float, a2: float, n: float, start: float, work: np.ndarray) -> tuple[float, float, float]:
    """(r, information per row, curvature of the penalized quasi-likelihood) at the root of the equation above.
    ``start`` is an r nearby, NaN where there is none."""
    is_near = abs(start) < LARGEST_START
    z = math.atanh(start if is_near else _start_by_cross_moment(a1, a2, work))
    low = -LARGEST_Z
    high = LARGEST_Z
    score_low = 0.0  # not yet evaluated
    score_high = 0.0
    z_before = z
    score_before = 0.0
    for done in range(MOST_ROUNDS):
        r = math.tanh(z)
        score, information = evaluate(a1, a2, r, work)
        gap2 = (1.0 - r) * (1.0 + r)
        curvature = n * information + (1.0 + r * r) / (gap2 * gap2)
        score_z = (n * score - r / gap2) * gap2  # d/dz = (1 - r^2) d/dr
        slope = curvature * gap2 * gap2
        trusted = False
        if done > 0:  # the slope seen between the last two points, unless it is absurd
            secant = (score_before - score_z) / (z - z_before)
            trusted = 0.02 * slope < secant < 50.0 * slope
            slope = secant if trusted else slope
        step = score_z / slope
        if abs(step) < TOLERANCE or high - low < TOLERANCE:
            break
        if trusted and abs(step * (z - z_before)) < LAST_STEP:  # the secant's error, as far as the points are apart
            r = math.tanh(z + step)
            break
        if score_z > 0.0:  # Illinois: the end that stays counts half
            low = z
            score_low = score_z
            score_high *= 0.5
        else:
            high = z
            score_high = score_z
            score_low *= 0.5
        z_before = z
        score_before = score_z
        z += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        if done >= SCORING_ROUNDS:
            if score_low > 0.0 and score_high < 0.0:
                z = (low * score_high - high * score_low) / (score_high - score_low)
            else:  # the score's other sign has not been met yet: search for it in strides
                z = z_before + math.copysign(STRIDE, score_z)
        if z <= low or z >= high:
            z = 0.5 * (low + high)
    return r, information, curvature


@kernel
def sampling_variance(
    a1: float, a2: float, rows: float, rows1: float, rows2: float, information: float, work: np.ndarray
) -> float:
    """Variance of r: of w'(mean over the pair's rows) plus the effect of both marginals (means over their own rows).
    The pair's rows are among those of each column, so the means are over nested sets of rows. ``work`` holds what
    :func:`evaluate` left at the estimate, and holds the linear forms w (row WEIGHTS) and, through the marginals, -w'
    G_i H_i (two rows THROUGH) afterwards."""
    for back in range(N_STATISTICS):  # V^-1 G = scaled L^-T (L^-1 G)
        k = N_STATISTICS - 1 - back
        total = work[_HALF_GRADIENT, k]
        for i in range(k + 1, N_STATISTICS):
            total -= work[_CHOL + i, k] * work[WEIGHTS, i]
        work[WEIGHTS, k] = total * work[_CHOL + k, k]
    for k in range(N_STATISTICS):
        work[WEIGHTS, k] *= work[_SIZE, k]
        work[WEIGHTS, k] /= information
    for side in range(2):
        marginal_gradient(a1 if side == 0 else a2, side, work)
        mean = 0.0
        std = 0.0
        for k in range(N_STATISTICS):
            mean += work[WEIGHTS, k] * work[SLOPES, k]
            std += work[WEIGHTS, k] * work[SLOPES + 1, k]
            work[THROUGH + side, k] = 0.0
        for k in range(3):
            effect = mean * work[_INFLUENCE + side, k] + std * work[_INFLUENCE + side, 3 + k]
            work[THROUGH + side, 3 * side + k] = -effect
    variance = 0.0
    for first in range(3):
        for second in range(first, 3):
            both = _quadratic(WEIGHTS + first, WEIGHTS + second, work)
            if first != second:
                both *= 2.0
            of_first = rows if first == 0 else rows1
            of_second = rows if second == 0 else rows1 if second == 1 else rows2
            variance += both / of_second if first == 0 or first == second else both * rows / (of_first * of_second)
    return max(variance, 0.0)


@kernel
def _solve_pairs(
    first: np.ndarray, second: np.ndarray, statistics: np.ndarray, columns: np.ndarray, wanted: bool, found: np.ndarray
) -> None:
    """As :func:`solve_pairs`, of arrays with rows for pairs and columns: mhat, n, rows; a, rows, moments, influence.
    ``found``: correlations, which hold starts, and standard errors if they are ``wanted``. Pairs with n = 0 are left as
    they are."""
    work = np.empty((WORK_ROWS, N_STATISTICS))
    for pair in range(statistics.shape[0]):
        n = statistics[pair, N_STATISTICS]
        if n <= 0.0:
            continue
        i, j = first[pair], second[pair]
        for k in range(N_STATISTICS):
            work[_MHAT, k] = statistics[pair, k]
        for side in range(2):
            column = j if side == 1 else i
            for p in range(5):
                work[OWN + side, p] = columns[column, 2 + p]
            for k in range(6):
                work[_INFLUENCE + side, k] = columns[column, 7 + k]
        a1, a2 = columns[i, 0], columns[j, 0]
        r, information, curvature = find_root(a1, a2, n, found[0, pair], work)
        found[0, pair] = r
        if wanted:
            share = n * information / curvature
            variance = (1.0 - share) / curvature
            if information > 0.0:
                rows = statistics[pair, N_STATISTICS + 1]
                effect = sampling_variance(a1, a2, rows, columns[i, 1], columns[j, 1], information, work)
                variance += share * share * effect
            found[1, pair] = min(math.sqrt(variance), 1.0)


def solve_pairs(
    pairs: tuple[np.ndarray, np.ndarray],
    statistics: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    columns: Columns,
    correlation: np.ndarray,
    stderr: np.ndarray,
) -> None:
    """Estimate a batch of ``pairs`` (first and second columns); results go to ``correlation`` and ``stderr``.
    ``statistics`` (pairs x 12) are the sample means mhat over the rows that see both columns, of total ``weight``,
    effectively ``rows`` many. With an empty ``stderr`` no errors are wanted and ``correlation`` holds starts, NaN where
    there is none."""
    n = np.maximum(weight, rows)  # integer weights then act exactly as repeated rows
    line = on_a_line(np, list(statistics.T), n)
    sought = (n > 0.0) & (line == 0.0)
    wanted = len(stderr) > 0
    found = np.full((2, len(n)), np.nan)
    if not wanted:
        found[0] = correlation
    of_pairs = np.column_stack([statistics, np.where(sought, n, 0.0), rows])
    influence = columns.influence.reshape(-1, 6)
    of_columns = np.column_stack([columns.a, columns.rows, columns.moments, influence])
    _solve_pairs(pairs[0], pairs[1], of_pairs, of_columns, wanted, found)
    correlation[:] = np.where(sought, found[0], line)
    if wanted:
        stderr[:] = np.where(
            sought, found[1], np.where(n > 0.0, 0.0, 1.0)
        )  # never seen together: any correlation is possible


def pairs_between(start: int, stop: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Some of the pairs of ``np.triu_indices(d, 1)``: all of them would take more memory than their correlations.

    >>> pairs_between(1, 4, 4)
    (array([0, 0, 1]), array([2, 3, 2]))
    """
    before = np.arange(d) * (2 * d - 1 - np.arange(d)) // 2  # pairs whose first column is an earlier one
    bounds = np.clip(before, start, min(stop, d * (d - 1) // 2))
    first = np.repeat(np.arange(d - 1), np.diff(bounds))
    return first, np.arange(bounds[0], bounds[-1]) - before[first] + first + 1


def sample_statistics(xp: Any, pairs: tuple[Any, Any], sums: list[Any], columns: list[Any], n: Any) -> list[Any]:
    """Twelve arrays of pairs: means of (p, v, v^2) of each column and of the six joint products, v = (t - centre)/std
    above the floor, over the rows of weight ``n`` that see both columns; 0 where there are none.

    ``sums`` are d x d, flat: count, cross product, sum and square where both are above their floors, and of each column
    over the rows that see the other, number, sum and square above its floor. Where nothing is missing these are the
    diagonals of the first ones. ``columns`` are centre, measured from where t is, and std of every column.
    """
    (i, j), (centre, std), take = pairs, columns, xp.take
    d = centre.shape[0]
    at, transposed, complete = i * d + j, j * d + i, len(sums) == 4
    positive = n > 0.0
    n = xp.where(positive, n, xp.ones_like(n))
    out: list[Any] = [None] * N_STATISTICS
    count = take(sums[0], at)
    for side, (own, place, diagonal) in enumerate(((i, at, i * (d + 1)), (j, transposed, j * (d + 1)))):
        c, s = take(centre, own), take(std, own)
        alone = [take(sums[k], diagonal) for k in (0, 2, 3)] if complete else [take(each, place) for each in sums[4:]]
        both = [count, take(sums[2], place), take(sums[3], place)]
        for (s0, s1, s2), into in ((alone, range(3 * side, 3 * side + 3)), (both, (6, 8 + side, 10 + side))):
            out[into[0]] = s0 / n
            out[into[1]] = (s1 - c * s0) / (s * n)
            out[into[2]] = (s2 - 2.0 * c * s1 + c * c * s0) / (s * s * n)
    c1, c2 = take(centre, i), take(centre, j)
    product = take(sums[1], at) - c1 * take(sums[2], transposed) - c2 * take(sums[2], at) + c1 * c2 * count
    out[7] = product / (take(std, i) * take(std, j) * n)
    return [xp.where(positive, each, xp.zeros_like(each)) for each in out]


def on_a_line(xp: Any, mhat: list[Any], n: Any) -> Any:
    """+1 or -1 where values and floors agree exactly with correlation +1 or -1, else 0; of arrays of pairs. The rows
    above both floors must lie on a line, and (in units of std) on the model's: slope +1 or -1 within the error of the
    standard deviations. With correlation 1 the coordinate that is rarer above its floor implies the other; with -1 no
    row has both at the floor."""
    joint = mhat[6]
    safe = xp.where(joint > 0.0, joint, xp.ones_like(joint))
    var1, var2 = mhat[10] - mhat[8] * mhat[8] / safe, mhat[11] - mhat[9] * mhat[9] / safe
    cov = mhat[7] - mhat[8] * mhat[9] / safe
    spread = (var1 > _ROUNDING * mhat[10]) & (var2 > _ROUNDING * mhat[11])
    straight = spread & (joint * n >= 5.5) & (cov * cov >= (1.0 - _LINE) * var1 * var2)
    one = xp.ones_like(joint)
    slope = xp.sqrt(xp.where(straight, var2, one) / xp.where(straight, var1, one))
    most = xp.clip(10.0 / xp.sqrt(xp.where(straight, joint * n, one)), None, 0.5)
    straight = straight & (xp.abs(slope - 1.0) <= most)
    rising = straight & (cov > 0.0) & (xp.abs(joint - xp.minimum(mhat[0], mhat[3])) < 1e-9)
    falling = straight & (cov <= 0.0) & (xp.abs(joint - (mhat[0] + mhat[3] - 1.0)) < 1e-9)
    return xp.where(rising, one, xp.where(falling, -one, 0.0 * one))
