"""Moments of two floored unit normals, and how they move with the correlation and the marginals.

Setting: u1, u2 standard normal with correlation r; coordinate i is seen where u_i > -a_i (a_i = (b_i - floor_i)/s_i).
Moments are taken about a centre c_i, v_i = u_i - c_i, with the floor at l_i = -a_i - c_i:

    M_pq = E[v1^p v2^q 1{v1 > l1, v2 > l2}],   p + q <= 4.

The centre is free (it does not change what the statistics span): we take the floor itself (c = -a) when the
coordinate is mostly floored and the mean (c = 0) when it is mostly seen, which keeps the statistics far from
collinear in both regimes. Stein's lemma E[u1 F] = E[dF/du1] + r E[dF/du2] gives the recursion

    M_pq = -c1 M_{p-1,q} + (p-1) M_{p-2,q} + l1^{p-1} D1_q + r ( q M_{p-1,q-1} + l2^q D2_{p-1} ),   p >= 1,

with boundary terms D1_q = phi(a1) E[v2^q 1{v2 > l2} | u1 = -a1] and D2_p with the coordinates exchanged.

All that belongs to one pair lies in one array of rows of 12, its work space; the names of the rows are below.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfc

from unrelu.kernels.compiling import kernel
from unrelu.kernels.normal import bivariate_density, density, distribution, upper_orthant

# The twelve statistics of a pair: three of each coordinate alone, six of both. Exponents (p, q).
N_STATISTICS = 12
N_MARGINAL = 6
LARGEST_A = 40.0  # a floor this far below the mean is as good as none: its density and tail are 0 in double precision
NEARLY_ONE = 1.0 - 1e-6  # correlations beyond it are taken as this one, where a division needs it
JOINT_P = np.array([0, 1, 1, 0, 2, 0])
JOINT_Q = np.array([0, 1, 0, 1, 0, 2])

# Rows of the work space: one array, as every array that a kernel is given takes time to compile.
EDGES = 0  # two: the boundary terms D of each coordinate
OWN = 2  # two: E[v^p 1{v > l}] of each coordinate
M = 4  # five: M_pq
MEAN = 9  # of the twelve statistics
GRADIENT = 10  # d/dr of the mean
SLOPES = 11  # two: its derivatives in bias and scale of one coordinate
V = 13  # twelve: covariance of the statistics, lower triangle
MODEL_ROWS = 25


@kernel
def centre_of(a: float) -> float:
    """c: the floor for a mostly floored coordinate, the mean for a mostly seen one."""
    return max(-a, 0.0)


def moments_of_columns(a: np.ndarray) -> np.ndarray:
    """d x 5: E[v^p 1{v > l}], p = 0..4, of every column.

    >>> moments_of_columns(np.zeros(1)).round(4)
    array([[0.5   , 0.3989, 0.5   , 0.7979, 1.5   ]])
    """
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


@kernel
def _boundary_terms(a1: float, a2: float, r: float, side: int, work: np.ndarray) -> None:
    """D1_q = phi(a1) E[v2^q 1{v2 > l2} | u1 = -a1], q = 0..3, in row EDGES + ``side``; u2 | u1 is N(-r a1, 1 - r^2)."""
    gap2 = (1.0 - r) * (1.0 + r)
    gap = math.sqrt(gap2)
    c = centre_of(a2)
    floor = -a2 - c
    mean = -r * a1 - c
    z = (a2 - r * a1) / gap
    weight = density(a1)
    edge = weight * gap * density(z)
    before = 0.0
    last = weight * distribution(z)
    work[EDGES + side, 0] = last
    for q in range(1, 4):
        before, last = last, mean * last + (q - 1) * gap2 * before + edge
        work[EDGES + side, q] = last
        edge *= floor


@kernel
def joint_moments(a1: float, a2: float, r: float, work: np.ndarray) -> None:
    """Fill M_pq for p + q <= 4, and the boundary terms."""
    for side in range(2):
        _boundary_terms(a1 if side == 0 else a2, a2 if side == 0 else a1, r, side, work)
    c1 = centre_of(a1)
    c2 = centre_of(a2)
    l1 = -a1 - c1
    l2 = -a2 - c2
    work[M, 0] = upper_orthant(-a1, -a2, r)
    power = 1.0  # l2^(q-1)
    for q in range(1, 5):
        value = -c2 * work[M, q - 1] + power * work[EDGES + 1, 0] + r * work[EDGES, q - 1]
        if q >= 2:
            value += (q - 1) * work[M, q - 2]
        work[M, q] = value
        power *= l2
    edge1 = 1.0  # l1^(p-1)
    for p in range(1, 5):
        edge2 = 1.0  # l2^q
        for q in range(5 - p):
            value = -c1 * work[M + p - 1, q] + edge1 * work[EDGES, q] + r * edge2 * work[EDGES + 1, p - 1]
            if p >= 2:
                value += (p - 1) * work[M + p - 2, q]
            if q >= 1:
                value += r * q * work[M + p - 1, q - 1]
            work[M + p, q] = value
            edge2 *= l2
        edge1 *= l1


@kernel
def statistics_moments(work: np.ndarray) -> None:
    """The twelve expectations, E[v1^0..2 1{}], E[v2^0..2 1{}], then M_pq of the joint exponents, and their covariance.

    Products of statistics are moments again. Of the covariance, the lower triangle.
    """
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
            work[V + k, j] -= work[MEAN, k] * work[MEAN, j]


@kernel
def correlation_gradient(a1: float, a2: float, r: float, work: np.ndarray) -> None:
    """d/dr of the twelve expectations, by Price's theorem d/dr E[f(u1) g(u2)] = E[f'(u1) g'(u2)].

    f = v^p 1{v > l} has f' = p v^{p-1} 1{v > l} + l^p delta(v - l).
    """
    l1 = -a1 - centre_of(a1)
    l2 = -a2 - centre_of(a2)
    phi2 = bivariate_density(a1, a2, r)
    d1, d2 = work[EDGES, 0], work[EDGES + 1, 0]
    for k in range(N_MARGINAL):
        work[GRADIENT, k] = 0.0
    work[GRADIENT, 6] = phi2
    work[GRADIENT, 7] = work[M, 0] + l1 * d1 + l2 * d2 + l1 * l2 * phi2
    work[GRADIENT, 8] = d2 + l1 * phi2
    work[GRADIENT, 9] = d1 + l2 * phi2
    work[GRADIENT, 10] = 2.0 * work[EDGES + 1, 1] + l1 * l1 * phi2
    work[GRADIENT, 11] = 2.0 * work[EDGES, 1] + l2 * l2 * phi2


@kernel
def marginal_gradient(a: float, side: int, work: np.ndarray) -> None:
    """d/d(bias, scale) of the twelve expectations in the rows SLOPES: of coordinate ``side``, in units of its scale.

    For y = bias + scale u and f = v^p 1{v > l}: d/dbias E[f g] = E[f' g], d/dscale E[f g] = E[u f' g], and
    u = v + c; at the floor u = -a.
    """
    c = centre_of(a)
    floor = -a - c
    at_floor = density(a)
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
        bias = at_floor if k < N_MARGINAL else work[EDGES + side, q]
        for _ in range(p):
            bias *= floor
        scale = -a * bias
        if p > 0:
            if k < N_MARGINAL:
                below, same = work[OWN + side, p - 1], work[OWN + side, p]
            elif side == 1:
                below, same = work[M + q, p - 1], work[M + q, p]
            else:
                below, same = work[M + p - 1, q], work[M + p, q]
            bias += p * below
            scale += p * (same + c * below)
        work[SLOPES, k] = bias
        work[SLOPES + 1, k] = scale


@kernel
def upper_parts(thresholds: np.ndarray, correlation: np.ndarray, share: np.ndarray, within: np.ndarray) -> None:
    """Two unit normals above thresholds, for every pair of columns.

    ``share[k, i, j]``: P(u_i > t_ki, u_j > t_kj), for each row k of ``thresholds``; ``within[i, j]``: the correlation
    of u_i and u_j where both are above the thresholds of the first row, NaN where that hardly happens.
    """
    work = np.zeros((MODEL_ROWS, N_STATISTICS))
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
