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
from unrelu.kernels.compiling import contracted_helper, helper
from unrelu.kernels.normal import cut_share, log_probability_and_hazard

_LOG_2PI = math.log(2.0 * math.pi)
_SMALLEST_VARIANCE = 1e-12  # what rounding leaves of a variance that is nothing
_MANY = 24  # floored cells, from which columns of V are better left until their turn
_LARGE, _SMALL = 1e100, 1e-100  # between them a product takes one factor more
FAR = 1e6  # standard deviations: what is hidden is not expected further away for a seen value that is
FARTHEST = 1e120  # standard deviations: squares of sums of such numbers are numbers

# Rows of the work spaces of a row of d cells, one of numbers and one of columns: every array that a kernel is given
# takes time to compile.
U, MEAN, C, SCALE, LIMIT, N_VECTORS = 0, 1, 2, 3, 4, 5  # seen values; means of hidden cells; a column; 1/scale; limits
SEEN, ORDER, N_INDICES = 0, 1, 2  # the columns that are seen, and those that are hidden

Index = NDArray[np.int64]


@helper
def bounded(u: float) -> float:
    """A number of standard deviations whose squares are numbers; NaN stays NaN."""
    if u > FARTHEST:
        return FARTHEST
    return -FARTHEST if u < -FARTHEST else u


@helper
def draw_near(n_seen: int, work: FloatArray) -> bool:
    """Bring values further than ``FAR`` to it; whether there was one."""
    found = False
    for i in range(n_seen):
        if abs(work[U, i]) > FAR:
            work[U, i] = FAR if work[U, i] > 0.0 else -FAR
            found = True
    return found


# No views of rows inside: each costs about as much as the arithmetic on a row of a narrow table.
@helper
def _split(values: Any, row: int, floor: Any, bias: FloatArray, work: FloatArray, index: Index) -> tuple[int, int, int]:
    """The row's seen columns with their values in standard units; its floored and then its missing columns in order.

    Returns how many are seen, floored, and hidden: floored or missing.
    """
    d = values.shape[1]
    n_seen = floored = missing = 0
    for j in range(d):
        x = values[row, j]
        if x > floor[j]:
            index[SEEN, n_seen] = j
            work[U, n_seen] = bounded((x - bias[j]) * work[SCALE, j])
            n_seen += 1
        elif x <= floor[j]:
            index[ORDER, floored] = j
            floored += 1
        else:
            missing += 1
            index[ORDER, d - missing] = j  # those that are floored end before
    for k in range(missing):
        index[ORDER, floored + k] = index[ORDER, d - missing + k]
    return n_seen, floored, floored + missing


@helper
def sweep_row(
    n_seen: int, hidden: int, precision: FloatArray, widest: float, work: FloatArray, index: Index, v: FloatArray
) -> tuple[float, float]:
    """-V of the hidden cells below the diagonal of ``v``, and their mean, given the seen ones.

    Returns u_o' (R_oo)^-1 u_o, for which no eigenvalue of R is above ``widest``, and log det Q_hh.
    """
    square = least = 0.0
    for i in range(n_seen):
        at, u = index[SEEN, i], work[U, i]
        total = 0.0
        for j in range(i):
            total += work[U, j] * precision[at, index[SEEN, j]]
        square += u * (2.0 * total + u * precision[at, at])
        least += u * u
    log_det = 0.0
    for again in range(2):
        gather_hidden(n_seen, hidden, precision, work, index, v)
        explained, pivots = sweep_hidden(hidden, work, v)
        if again == 0:
            square, log_det = max(square - explained, least / widest), pivots
            if not draw_near(n_seen, work):
                break
    return square, log_det


@helper
def gather_hidden(
    n_seen: int, hidden: int, precision: FloatArray, work: FloatArray, index: Index, v: FloatArray
) -> None:
    """Q_hh in the lower triangle of ``v``, and -g_h in the place of the mean."""
    for i in range(hidden):
        at = index[ORDER, i]
        for j in range(i + 1):
            v[i, j] = precision[at, index[ORDER, j]]
        total = 0.0
        for k in range(n_seen):
            total += work[U, k] * precision[at, index[SEEN, k]]
        work[MEAN, i] = -total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_four(x: Any, r0: Any, r1: Any, r2: Any, r3: Any, f0: float, f1: float, f2: float, f3: float) -> None:
    """x += f0 r0 + ... + f3 r3. Of whole contiguous vectors: such a loop is compiled to wide steps."""
    for j in range(x.shape[0]):
        x[j] += f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j]


@contracted_helper
def sweep_hidden(hidden: int, work: FloatArray, v: FloatArray) -> tuple[float, float]:
    """From Q_hh and -g_h: leave -V in ``v`` (lower triangle) and the mean.

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
            work[C, j] = v[k, j]
        for i in range(k + 1, hidden):
            work[C, i] = v[i, k]
        mean = work[MEAN, k] * inverse
        quadratic += mean * mean * pivot
        for i in range(hidden):
            if i == k:
                continue
            work[MEAN, i] -= work[C, i] * mean
            factor = work[C, i] * inverse
            for j in range(i + 1):
                v[i, j] -= factor * work[C, j]
        work[MEAN, k] = mean
        for j in range(k):
            v[k, j] = work[C, j] * inverse
        for i in range(k + 1, hidden):
            v[i, k] = work[C, i] * inverse
        v[k, k] = -inverse
    return quadratic, log_det + math.log(pivots)


@contracted_helper
def _filter(floored: int, last: int, work: FloatArray, order: Index, v: FloatArray) -> float:
    """Take the cells order[:floored] in turn; sum of their log probabilities. Cells up to ``last`` are updated."""
    if floored >= _MANY:
        return _filter_many(floored, last, work, order, v)
    total = 0.0
    for k in range(floored):
        variance = max(-v[k, k], _SMALLEST_VARIANCE)
        deviation = math.sqrt(variance)
        a = (work[LIMIT, order[k]] - work[MEAN, k]) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = hazard / deviation, cut_share(a, hazard) / variance
        for i in range(k + 1, last):
            work[C, i] = v[i, k]
        for i in range(k + 1, last):
            work[MEAN, i] += work[C, i] * shift  # v holds -V, so this is m -= (column of V) lambda / sqrt(v)
            factor = work[C, i] * shrink
            for j in range(k + 1, i + 1):
                v[i, j] += factor * work[C, j]
    return total


@contracted_helper
def _filter_many(floored: int, last: int, work: FloatArray, order: Index, v: FloatArray) -> float:
    """:func:`_filter` with each column of V brought up to date when its turn comes; of later cells, variances alone.

    What cell t takes off is kept as a product, s s', with s in row t above the diagonal of ``v``.
    """
    total = 0.0
    c = work[C]
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
        a = (work[LIMIT, order[k]] - work[MEAN, k]) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = hazard / deviation, math.sqrt(max(cut_share(a, hazard), 0.0)) / deviation
        for i in range(k + 1, last):
            work[MEAN, i] += c[i] * shift
            v[k, i] = c[i] * shrink
    return total


@njit(cache=True, nogil=True)
def log_densities(
    values: Any, floor: Any, bias: FloatArray, scale: FloatArray, precision: FloatArray, log_det: float, out: FloatArray
) -> None:
    """``out[i]``: log density of row i, per unit of ``scale``; ``log_det`` = log det R."""
    n, d = values.shape
    work, index, v = np.empty((N_VECTORS, d)), np.empty((N_INDICES, d), dtype=np.int64), np.empty((d, d))
    for j in range(d):
        work[SCALE, j] = 1.0 / scale[j]
        work[LIMIT, j] = (floor[j] - bias[j]) * work[SCALE, j]
    order = index[ORDER]
    for row in range(n):
        n_seen, floored, hidden = _split(values, row, floor, bias, work, index)
        square, hidden_log_det = sweep_row(n_seen, hidden, precision, 2.0 * max(d, 1), work, index, v)
        normal = -0.5 * (square + n_seen * _LOG_2PI + log_det + hidden_log_det)
        out[row] = normal + _filter(floored, floored, work, order, v)


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
    work, index, v = np.empty((N_VECTORS, d)), np.empty((N_INDICES, d), dtype=np.int64), np.empty((d, d))
    swept, mean, w, others = np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d, dtype=np.int64)
    for j in range(d):
        work[SCALE, j] = 1.0 / scale[j]
        work[LIMIT, j] = (floor[j] - bias[j]) * work[SCALE, j]
    order = index[ORDER]
    for row in range(n):
        n_seen, floored, hidden = _split(values, row, floor, bias, work, index)
        draw_near(n_seen, work)
        gather_hidden(n_seen, hidden, precision, work, index, swept)
        sweep_hidden(hidden, work, swept)
        for i in range(hidden):
            mean[i] = work[MEAN, i]
        for i in range(floored, hidden):
            out[row, order[i]] = np.nan
        for cell in range(floored):
            last = floored - 1
            _move_last(cell, floored, order, swept, mean, others, v, work)
            _filter(last, floored, work, others, v)
            deviation = math.sqrt(max(-v[last, last], _SMALLEST_VARIANCE))
            out[row, order[cell]] = (work[LIMIT, order[cell]] - work[MEAN, last]) / deviation
        for cell in range(n_seen):
            _hide(cell, floored, hidden, n_seen, index, precision, swept, mean, w, v, work)
            _filter(floored, floored + 1, work, order, v)
            deviation = math.sqrt(max(-v[floored, floored], _SMALLEST_VARIANCE))
            out[row, index[SEEN, cell]] = (work[U, cell] - work[MEAN, floored]) / deviation


@helper
def _move_last(
    cell: int, floored: int, order: Index, swept: Any, mean: Any, others: Index, v: Any, work: FloatArray
) -> None:
    """The floored cells with one of them at the end: ``others``, -V and the mean in that order."""
    for i in range(floored):
        a = cell if i == floored - 1 else i + (i >= cell)
        others[i] = order[a]
        work[MEAN, i] = mean[a]
        for j in range(i + 1):
            b = cell if j == floored - 1 else j + (j >= cell)
            v[i, j] = swept[max(a, b), min(a, b)]


@helper
def _hide(
    cell: int,
    floored: int,
    hidden: int,
    n_seen: int,
    index: Index,
    precision: FloatArray,
    swept: FloatArray,
    mean: FloatArray,
    w: FloatArray,
    v: FloatArray,
    work: FloatArray,
) -> None:
    """-V and the mean of the floored cells and, last, of a seen cell k that is hidden with them.

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
            dot -= swept[i, j] * precision[k, index[ORDER, j]]
        for j in range(i + 1, hidden):
            dot -= swept[j, i] * precision[k, index[ORDER, j]]
        w[i] = dot
        q = precision[k, index[ORDER, i]]
        qw += q * dot
        total += q * mean[i]
    variance = 1.0 / (precision[k, k] - qw)
    work[MEAN, floored] = -(total + work[U, cell] * qw) * variance
    surprise = work[U, cell] - work[MEAN, floored]
    for i in range(floored):
        work[MEAN, i] = mean[i] + w[i] * surprise
        factor = w[i] * variance
        v[floored, i] = factor
        for j in range(i + 1):
            v[i, j] = swept[i, j] - factor * w[j]
    v[floored, floored] = -variance
