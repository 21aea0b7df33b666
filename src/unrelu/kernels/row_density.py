"""Density of a row under x = max(y, floor), and of each cell given the others: assumed-density filtering.

The density of a row is that of its values above the floor times the probability that the others stay below it. In
units where y has mean 0 and unit variances, let Q be the inverse of its correlation matrix R, o the cells above the
floor and h the hidden ones. With u_o the seen values (0 elsewhere) and g = Q u,

    u_o' (R_oo)^-1 u_o = u_o' g_o - g_h' (Q_hh)^-1 g_h        det R_oo = det R det Q_hh
    y_h | x_o ~ N(m, V),   V = (Q_hh)^-1,   m = -V g_h                                          all exact.

One symmetric sweep of Q_hh gives the three. Floored cells are then taken in turn, a = (limit - m_k)/sqrt(V_kk) and
lambda = phi(a)/Phi(a): each adds log Phi(a) and leaves the rest normal, with c its column of V and v = V_kk,

    m -= c lambda / sqrt(v)        V -= c c' lambda (lambda + a) / v

which replaces a truncated normal by the normal of its mean and variance (Mendell and Elston 1974): exact for one
floored cell and for independent ones. Missing cells are hidden, but take no turn. About 2/3 h^3 multiplications.

Rows may be of any size. The density of the seen values is that of the values; what they say of the hidden ones is said
by values of at most ``FAR`` standard deviations, beyond which a difference to a limit would be rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.kernels.normal import cut_share, log_probability_and_hazard

_LOG_2PI = math.log(2.0 * math.pi)
_SMALLEST_VARIANCE = 1e-12  # what rounding leaves of a variance that is nothing
_MANY = 24  # floored cells, from which columns of V are better left until their turn
_LARGE, _SMALL = 1e100, 1e-100  # between them a product takes one factor more
FAR = 1e6  # standard deviations: what is hidden is not expected further away for a seen value that is
FARTHEST = 1e120  # standard deviations: squares of sums of such numbers are numbers

Index = NDArray[np.int64]


@njit(cache=True, nogil=True, inline="always")
def bounded(u: float) -> float:
    """A number of standard deviations whose squares are numbers; NaN stays NaN."""
    if u > FARTHEST:
        return FARTHEST
    return -FARTHEST if u < -FARTHEST else u


@njit(cache=True, nogil=True, inline="always")
def draw_near(n_seen: int, u: FloatArray) -> bool:
    """Bring values further than ``FAR`` to it; whether there was one."""
    found = False
    for i in range(n_seen):
        if abs(u[i]) > FAR:
            u[i] = FAR if u[i] > 0.0 else -FAR
            found = True
    return found


# No views of rows inside: each costs about as much as the arithmetic on a row of a narrow table.
@njit(cache=True, nogil=True, inline="always")
def _split(
    values: Any, row: int, floor: Any, bias: FloatArray, per_scale: FloatArray, seen: Index, u: FloatArray, order: Index
) -> tuple[int, int, int]:
    """The row's seen columns with their values in standard units; its floored and then its missing columns in order.

    Returns how many are seen, floored, and hidden: floored or missing.
    """
    d = values.shape[1]
    n_seen = floored = missing = 0
    for j in range(d):
        x = values[row, j]
        if x > floor[j]:
            seen[n_seen] = j
            u[n_seen] = bounded((x - bias[j]) * per_scale[j])
            n_seen += 1
        elif x <= floor[j]:
            order[floored] = j
            floored += 1
        else:
            missing += 1
            order[d - missing] = j  # those that are floored end before
    for k in range(missing):
        order[floored + k] = order[d - missing + k]
    return n_seen, floored, floored + missing


@njit(cache=True, nogil=True, inline="always")
def seen_square(n_seen: int, seen: Index, u: FloatArray, precision: FloatArray) -> float:
    """u_o' Q_oo u_o."""
    square = 0.0
    for i in range(n_seen):
        at = seen[i]
        total = 0.0
        for j in range(i):
            total += u[j] * precision[at, seen[j]]
        square += u[i] * (2.0 * total + u[i] * precision[at, at])
    return square


@njit(cache=True, nogil=True, inline="always")
def least_square(n_seen: int, u: FloatArray, widest: float) -> float:
    """What u_o' (R_oo)^-1 u_o is at least, where no eigenvalue of R is above ``widest``."""
    square = 0.0
    for i in range(n_seen):
        square += u[i] * u[i]
    return square / widest


@njit(cache=True, nogil=True, inline="always")
def gather_hidden(
    hidden: int, order: Index, n_seen: int, seen: Index, u: FloatArray, precision: FloatArray, v: Any, m: Any
) -> None:
    """Q_hh in the lower triangle of ``v``, and -g_h in ``m``."""
    for i in range(hidden):
        at = order[i]
        for j in range(i + 1):
            v[i, j] = precision[at, order[j]]
        total = 0.0
        for k in range(n_seen):
            total += u[k] * precision[at, seen[k]]
        m[i] = -total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_four(x: Any, r0: Any, r1: Any, r2: Any, r3: Any, f0: float, f1: float, f2: float, f3: float) -> None:
    """x += f0 r0 + ... + f3 r3. Of whole contiguous vectors: such a loop is compiled to wide steps."""
    for j in range(x.shape[0]):
        x[j] += f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j]


@njit(cache=True, nogil=True, fastmath={"contract"})
def sweep_hidden(hidden: int, v: FloatArray, m: FloatArray, c: FloatArray) -> tuple[float, float]:
    """From Q_hh and -g_h: leave -V in ``v`` (lower triangle) and the mean in ``m``.

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
            c[j] = v[k, j]
        for i in range(k + 1, hidden):
            c[i] = v[i, k]
        mean = m[k] * inverse
        quadratic += mean * mean * pivot
        for i in range(hidden):
            if i == k:
                continue
            m[i] -= c[i] * mean
            factor = c[i] * inverse
            for j in range(i + 1):
                v[i, j] -= factor * c[j]
        m[k] = mean
        for j in range(k):
            v[k, j] = c[j] * inverse
        for i in range(k + 1, hidden):
            v[i, k] = c[i] * inverse
        v[k, k] = -inverse
    return quadratic, log_det + math.log(pivots)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _filter(
    floored: int, last: int, order: Index, limit: FloatArray, v: FloatArray, m: FloatArray, c: FloatArray
) -> float:
    """Take the cells order[:floored] in turn; sum of their log probabilities. Cells up to ``last`` are updated."""
    if floored >= _MANY:
        return _filter_many(floored, last, order, limit, v, m, c)
    total = 0.0
    for k in range(floored):
        variance = max(-v[k, k], _SMALLEST_VARIANCE)
        deviation = math.sqrt(variance)
        a = (limit[order[k]] - m[k]) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = hazard / deviation, cut_share(a, hazard) / variance
        for i in range(k + 1, last):
            c[i] = v[i, k]
        for i in range(k + 1, last):
            m[i] += c[i] * shift  # v holds -V, so this is m -= (column of V) lambda / sqrt(v)
            factor = c[i] * shrink
            for j in range(k + 1, i + 1):
                v[i, j] += factor * c[j]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _filter_many(
    floored: int, last: int, order: Index, limit: FloatArray, v: FloatArray, m: FloatArray, c: FloatArray
) -> float:
    """:func:`_filter` with each column of V brought up to date when its turn comes; of later cells, variances alone.

    What cell t takes off is kept as a product, s s', with s in row t above the diagonal of ``v``.
    """
    total = 0.0
    for k in range(last):
        for i in range(k, last):
            c[i] = v[i, k]
        done = min(k, floored)
        for t in range(0, done - 3, 4):
            r0, r1, r2, r3 = v[t, k:last], v[t + 1, k:last], v[t + 2, k:last], v[t + 3, k:last]
            _add_four(c[k:last], r0, r1, r2, r3, r0[0], r1[0], r2[0], r3[0])
        for t in range(done - done % 4, done):
            factor, row, column = v[t, k], v[t, k:last], c[k:last]
            for i in range(row.shape[0]):
                column[i] += factor * row[i]
        v[k, k] = c[k]
        if k >= floored:
            continue
        variance = max(-c[k], _SMALLEST_VARIANCE)
        deviation = math.sqrt(variance)
        a = (limit[order[k]] - m[k]) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = hazard / deviation, math.sqrt(max(cut_share(a, hazard), 0.0)) / deviation
        for i in range(k + 1, last):
            m[i] += c[i] * shift
            v[k, i] = c[i] * shrink
    return total


@njit(cache=True, nogil=True)
def log_densities(
    values: Any, floor: Any, bias: FloatArray, scale: FloatArray, precision: FloatArray, log_det: float, out: FloatArray
) -> None:
    """``out[i]``: log density of row i, per unit of ``scale``; ``log_det`` = log det R."""
    n, d = values.shape
    order, seen = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    v, m, c, u = np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d)
    per_scale = 1.0 / scale
    limit = (floor - bias) * per_scale
    for row in range(n):
        n_seen, floored, hidden = _split(values, row, floor, bias, per_scale, seen, u, order)
        square = seen_square(n_seen, seen, u, precision)
        gather_hidden(hidden, order, n_seen, seen, u, precision, v, m)
        explained, hidden_log_det = sweep_hidden(hidden, v, m, c)
        square = max(square - explained, least_square(n_seen, u, 2.0 * max(d, 1)))  # against rounding
        normal = -0.5 * (square + n_seen * _LOG_2PI + log_det + hidden_log_det)
        if draw_near(n_seen, u):
            gather_hidden(hidden, order, n_seen, seen, u, precision, v, m)
            sweep_hidden(hidden, v, m, c)
        out[row] = normal + _filter(floored, floored, order, limit, v, m, c)


@njit(cache=True, nogil=True)
def seen_totals(values: Any, floor: Any, terms: FloatArray, out: FloatArray) -> None:
    """``out[i]``: sum of ``terms`` over the cells of row i above their floor."""
    n, d = values.shape
    for row in range(n):
        total = 0.0
        for j in range(d):
            if values[row, j] > floor[j]:
                total += terms[j]
        out[row] = total


@njit(cache=True, nogil=True)
def cell_residuals(
    values: Any, floor: Any, bias: FloatArray, scale: FloatArray, precision: FloatArray, out: FloatArray
) -> None:
    """``out[i, j]``: how far cell j lies from what the row's other cells predict, in standard deviations.

    For a floored cell: its limit's distance, which says how unlikely so low a value was; NaN for a missing one. Hidden
    cells are swept once a row; then each cell in turn is the last that the filter comes to. Values beyond ``FAR`` count
    as that far away.
    """
    n, d = values.shape
    order, others, seen = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64)
    swept, mean, w = np.empty((d, d)), np.empty(d), np.empty(d)
    v, m, c, u = np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d)
    per_scale = 1.0 / scale
    limit = (floor - bias) * per_scale
    for row in range(n):
        n_seen, floored, hidden = _split(values, row, floor, bias, per_scale, seen, u, order)
        draw_near(n_seen, u)
        gather_hidden(hidden, order, n_seen, seen, u, precision, swept, mean)
        sweep_hidden(hidden, swept, mean, c)
        for i in range(floored, hidden):
            out[row, order[i]] = np.nan
        for cell in range(floored):
            last = floored - 1
            _move_last(cell, floored, order, swept, mean, others, v, m)
            _filter(last, floored, others, limit, v, m, c)
            deviation = math.sqrt(max(-v[last, last], _SMALLEST_VARIANCE))
            out[row, order[cell]] = (limit[order[cell]] - m[last]) / deviation
        for cell in range(n_seen):
            _hide(cell, floored, hidden, order, n_seen, seen, u, precision, swept, mean, w, v, m)
            _filter(floored, floored + 1, order, limit, v, m, c)
            deviation = math.sqrt(max(-v[floored, floored], _SMALLEST_VARIANCE))
            out[row, seen[cell]] = (u[cell] - m[floored]) / deviation


@njit(cache=True, nogil=True, inline="always")
def _move_last(cell: int, floored: int, order: Index, swept: Any, mean: Any, others: Index, v: Any, m: Any) -> None:
    """The floored cells with one of them at the end: ``others``, -V and the mean in that order."""
    for i in range(floored):
        a = cell if i == floored - 1 else i + (i >= cell)
        others[i] = order[a]
        m[i] = mean[a]
        for j in range(i + 1):
            b = cell if j == floored - 1 else j + (j >= cell)
            v[i, j] = swept[max(a, b), min(a, b)]


@njit(cache=True, nogil=True, inline="always")
def _hide(
    cell: int,
    floored: int,
    hidden: int,
    order: Index,
    n_seen: int,
    seen: Index,
    u: FloatArray,
    precision: FloatArray,
    swept: FloatArray,
    mean: FloatArray,
    w: FloatArray,
    v: FloatArray,
    m: FloatArray,
) -> None:
    """-V and the mean of the floored cells and, last, of a seen cell k that is hidden with them.

    With q = Q_hk, w = V q, s = Q_kk - q'w, and g_k over the other seen cells,

        m_k = -(g_k + q'm + u_k q'w)/s      m_h + w (u_k - m_k)      V_hh + w w'/s      V_hk = -w/s      V_kk = 1/s.
    """
    k = seen[cell]
    total = 0.0
    for i in range(n_seen):
        if i != cell:
            total += u[i] * precision[k, seen[i]]
    qw = 0.0
    for i in range(hidden):
        dot = 0.0
        for j in range(i + 1):
            dot -= swept[i, j] * precision[k, order[j]]
        for j in range(i + 1, hidden):
            dot -= swept[j, i] * precision[k, order[j]]
        w[i] = dot
        q = precision[k, order[i]]
        qw += q * dot
        total += q * mean[i]
    variance = 1.0 / (precision[k, k] - qw)
    m[floored] = -(total + u[cell] * qw) * variance
    surprise = u[cell] - m[floored]
    for i in range(floored):
        m[i] = mean[i] + w[i] * surprise
        factor = w[i] * variance
        v[floored, i] = factor
        for j in range(i + 1):
            v[i, j] = swept[i, j] - factor * w[j]
    v[floored, floored] = -variance
