"""Moments of two floored unit normals, and how they move with the correlation and the marginals.

Setting: u1, u2 standard normal with correlation r; coordinate i is seen where u_i > -a_i (a_i = (b_i - floor_i)/s_i).
Moments are taken about a centre c_i, v_i = u_i - c_i, with the floor at l_i = -a_i - c_i:

    M_pq = E[v1^p v2^q 1{v1 > l1, v2 > l2}],   p + q <= 4.

The centre is free (it does not change what the statistics span): we take the floor itself (c = -a) when the
coordinate is mostly floored and the mean (c = 0) when it is mostly seen, which keeps the statistics far from
collinear in both regimes. Stein's lemma E[u1 F] = E[dF/du1] + r E[dF/du2] gives the recursion

    M_pq = -c1 M_{p-1,q} + (p-1) M_{p-2,q} + l1^{p-1} D1_q + r ( q M_{p-1,q-1} + l2^q D2_{p-1} ),   p >= 1,

with boundary terms D1_q = phi(a1) E[v2^q 1{v2 > l2} | u1 = -a1] and D2_p with the coordinates exchanged.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from unrelu.kernels.bivariate_normal import bivariate_density, upper_orthant
from unrelu.kernels.normal import density, distribution

# The twelve statistics of a pair: three of each coordinate alone, six of both. Exponents (p, q).
N_STATISTICS = 12
N_MARGINAL = 6
LARGEST_A = 40.0  # a floor this far below the mean is as good as none: its density and tail are 0 in double precision
NEARLY_ONE = 1.0 - 1e-6  # correlations beyond it are taken as this one, where a division needs it
JOINT_P = np.array([0, 1, 1, 0, 2, 0])
JOINT_Q = np.array([0, 1, 0, 1, 0, 2])


@njit(cache=True, nogil=True)
def centre_of(a: float) -> float:
    """c: the floor for a mostly floored coordinate, the mean for a mostly seen one."""
    return max(-a, 0.0)


@njit(cache=True, nogil=True)
def marginal_moments(a: float, out: np.ndarray) -> None:
    """out[p] = E[v^p 1{v > l}], p = 0..4, for one coordinate."""
    c = centre_of(a)
    floor = -a - c
    edge = density(a)
    out[0] = distribution(a)
    out[1] = -c * out[0] + edge
    for p in range(2, 5):
        edge *= floor
        out[p] = -c * out[p - 1] + (p - 1) * out[p - 2] + edge


@njit(cache=True, nogil=True)
def moments_of_columns(a: np.ndarray) -> np.ndarray:
    """d x 5: :func:`marginal_moments` of every column."""
    out = np.empty((a.shape[0], 5))
    for column in range(a.shape[0]):
        marginal_moments(a[column], out[column])
    return out


@njit(cache=True, nogil=True)
def boundary_terms(a1: float, a2: float, r: float, out: np.ndarray) -> None:
    """out[q] = D1_q = phi(a1) E[v2^q 1{v2 > l2} | u1 = -a1], q = 0..3; u2 | u1 is N(-r a1, 1 - r^2)."""
    gap2 = (1.0 - r) * (1.0 + r)
    gap = math.sqrt(gap2)
    c = centre_of(a2)
    floor = -a2 - c
    mean = -r * a1 - c
    z = (a2 - r * a1) / gap
    weight = density(a1)
    edge = weight * gap * density(z)
    out[0] = weight * distribution(z)
    out[1] = mean * out[0] + edge
    for q in range(2, 4):
        edge *= floor
        out[q] = mean * out[q - 1] + (q - 1) * gap2 * out[q - 2] + edge


@njit(cache=True, nogil=True)
def joint_moments(a1: float, a2: float, r: float, d1: np.ndarray, d2: np.ndarray, m: np.ndarray) -> None:
    """Fill m[p, q] = M_pq for p + q <= 4, and the boundary terms d1, d2."""
    boundary_terms(a1, a2, r, d1)
    boundary_terms(a2, a1, r, d2)
    c1 = centre_of(a1)
    c2 = centre_of(a2)
    l1 = -a1 - c1
    l2 = -a2 - c2
    m[0, 0] = upper_orthant(-a1, -a2, r)
    power = 1.0  # l2^(q-1)
    for q in range(1, 5):
        m[0, q] = -c2 * m[0, q - 1] + power * d2[0] + r * d1[q - 1]
        if q >= 2:
            m[0, q] += (q - 1) * m[0, q - 2]
        power *= l2
    edge1 = 1.0  # l1^(p-1)
    for p in range(1, 5):
        edge2 = 1.0  # l2^q
        for q in range(5 - p):
            value = -c1 * m[p - 1, q] + edge1 * d1[q] + r * edge2 * d2[p - 1]
            if p >= 2:
                value += (p - 1) * m[p - 2, q]
            if q >= 1:
                value += r * q * m[p - 1, q - 1]
            m[p, q] = value
            edge2 *= l2
        edge1 *= l1


@njit(cache=True, nogil=True)
def cross_moment(a1: float, a2: float, r: float) -> tuple[float, float]:
    """M_11 and its derivative in r (see :func:`correlation_gradient`), without the other moments."""
    gap = math.sqrt((1.0 - r) * (1.0 + r))
    c1 = centre_of(a1)
    c2 = centre_of(a2)
    l1 = -a1 - c1
    l2 = -a2 - c2
    z2 = (a2 - r * a1) / gap
    z1 = (a1 - r * a2) / gap
    edge = density(a1) * density(z2)
    d1_0 = density(a1) * distribution(z2)
    d2_0 = density(a2) * distribution(z1)
    d1_1 = (-r * a1 - c2) * d1_0 + gap * edge
    m00 = upper_orthant(-a1, -a2, r)
    m01 = -c2 * m00 + d2_0 + r * d1_0
    m11 = -c1 * m01 + d1_1 + r * (m00 + l2 * d2_0)
    return m11, m00 + l1 * d1_0 + l2 * d2_0 + l1 * l2 * edge / gap


@njit(cache=True, nogil=True)
def expected_statistics(moments1: np.ndarray, moments2: np.ndarray, m: np.ndarray, out: np.ndarray) -> None:
    """The twelve expectations: E[v1^0..2 1{}], E[v2^0..2 1{}], then M_pq of the joint exponents."""
    for p in range(3):
        out[p] = moments1[p]
        out[3 + p] = moments2[p]
    for k in range(N_STATISTICS - N_MARGINAL):
        out[N_MARGINAL + k] = m[JOINT_P[k], JOINT_Q[k]]


@njit(cache=True, nogil=True)
def statistics_covariance(
    moments1: np.ndarray, moments2: np.ndarray, m: np.ndarray, mean: np.ndarray, out: np.ndarray
) -> None:
    """Lower triangle of the 12 x 12 covariance: products of statistics are moments again."""
    for p in range(3):
        for q in range(3):
            out[3 + q, p] = m[p, q] - mean[3 + q] * mean[p]
            if q <= p:
                out[p, q] = moments1[p + q] - mean[p] * mean[q]
                out[3 + p, 3 + q] = moments2[p + q] - mean[3 + p] * mean[3 + q]
    for k in range(N_STATISTICS - N_MARGINAL):
        pk = JOINT_P[k]
        qk = JOINT_Q[k]
        row = N_MARGINAL + k
        for p in range(3):
            out[row, p] = m[pk + p, qk] - mean[row] * mean[p]
            out[row, 3 + p] = m[pk, qk + p] - mean[row] * mean[3 + p]
        for j in range(k + 1):
            out[row, N_MARGINAL + j] = m[pk + JOINT_P[j], qk + JOINT_Q[j]] - mean[row] * mean[N_MARGINAL + j]


@njit(cache=True, nogil=True)
def correlation_gradient(
    a1: float, a2: float, r: float, d1: np.ndarray, d2: np.ndarray, m: np.ndarray, out: np.ndarray
) -> None:
    """d/dr of the twelve expectations, by Price's theorem d/dr E[f(u1) g(u2)] = E[f'(u1) g'(u2)].

    f = v^p 1{v > l} has f' = p v^{p-1} 1{v > l} + l^p delta(v - l).
    """
    l1 = -a1 - centre_of(a1)
    l2 = -a2 - centre_of(a2)
    phi2 = bivariate_density(a1, a2, r)
    for k in range(N_MARGINAL):
        out[k] = 0.0
    out[6] = phi2
    out[7] = m[0, 0] + l1 * d1[0] + l2 * d2[0] + l1 * l2 * phi2
    out[8] = d2[0] + l1 * phi2
    out[9] = d1[0] + l2 * phi2
    out[10] = 2.0 * d2[1] + l1 * l1 * phi2
    out[11] = 2.0 * d1[1] + l2 * l2 * phi2


@njit(cache=True, nogil=True)
def marginal_gradient(
    a: float, moments: np.ndarray, edge: np.ndarray, m: np.ndarray, transposed: bool, out: np.ndarray
) -> None:
    """out[k, 0..1] = d/d(bias, scale) of the twelve expectations, for one coordinate in units of its scale.

    For y = bias + scale u and f = v^p 1{v > l}: d/dbias E[f g] = E[f' g], d/dscale E[f g] = E[u f' g], and
    u = v + c; at the floor u = -a. ``edge`` are the boundary terms D of this coordinate; ``transposed`` says
    that it is the second coordinate of m.
    """
    c = centre_of(a)
    floor = -a - c
    at_floor = density(a)
    out[:, :] = 0.0
    own = 3 if transposed else 0
    power = 1.0
    for p in range(3):
        out[own + p, 0] = power * at_floor
        out[own + p, 1] = -a * power * at_floor
        if p > 0:
            out[own + p, 0] += p * moments[p - 1]
            out[own + p, 1] += p * (moments[p] + c * moments[p - 1])
        power *= floor
    for k in range(N_STATISTICS - N_MARGINAL):
        p = JOINT_Q[k] if transposed else JOINT_P[k]
        q = JOINT_P[k] if transposed else JOINT_Q[k]
        boundary = edge[q] * floor**p
        bias = boundary
        scale = -a * boundary
        if p > 0:
            below = m[q, p - 1] if transposed else m[p - 1, q]
            same = m[q, p] if transposed else m[p, q]
            bias += p * below
            scale += p * (same + c * below)
        out[N_MARGINAL + k, 0] = bias
        out[N_MARGINAL + k, 1] = scale


@njit(cache=True, nogil=True)
def upper_parts(thresholds: np.ndarray, correlation: np.ndarray, share: np.ndarray, within: np.ndarray) -> None:
    """Two unit normals above thresholds, for every pair of columns.

    ``share[k, i, j]``: P(u_i > t_ki, u_j > t_kj), for each row k of ``thresholds``; ``within[i, j]``: the correlation
    of u_i and u_j where both are above the thresholds of the first row, NaN where that hardly happens.
    """
    m, d1, d2 = np.zeros((5, 5)), np.zeros(4), np.zeros(4)
    for i in range(correlation.shape[0]):
        for j in range(i):
            r = min(max(correlation[i, j], -NEARLY_ONE), NEARLY_ONE)
            for k in range(thresholds.shape[0]):
                share[k, i, j] = share[k, j, i] = upper_orthant(thresholds[k, i], thresholds[k, j], r)
            within[i, j] = within[j, i] = np.nan
            joint_moments(-thresholds[0, i], -thresholds[0, j], r, d1, d2, m)
            if m[0, 0] < 1e-9:
                continue
            mean1, mean2 = m[1, 0] / m[0, 0], m[0, 1] / m[0, 0]
            var1, var2 = m[2, 0] / m[0, 0] - mean1 * mean1, m[0, 2] / m[0, 0] - mean2 * mean2
            if var1 > 0.0 and var2 > 0.0:
                within[i, j] = within[j, i] = (m[1, 1] / m[0, 0] - mean1 * mean2) / math.sqrt(var1 * var2)
