"""A row's cells in standard units: the hidden ones given the seen ones, and the cheap sweep over those cut off.

A row is ``values`` and ``beyond``: -1 where a cell only says "at most the number in it", 1 for "at least", 0 where the
number is the value (NaN: missing). In units where y has mean 0 and unit variances, let Q be the inverse of its
correlation matrix R, o the seen cells and h the hidden ones. With u_o the seen values (0 elsewhere) and g = Q u,

    u_o' (R_oo)^-1 u_o = u_o' g_o - g_h' (Q_hh)^-1 g_h        det R_oo = det R det Q_hh
    y_h | x_o ~ N(m, V),   V = (Q_hh)^-1,   m = -V g_h                                          all exact.

One symmetric sweep of Q_hh gives the three. "At least" is turned upside down, so that all cut-off cells ask y_k <= a_k.
The cheap density takes them in turn (assumed-density filtering), a = (a_k - m_k)/sqrt(V_kk), lambda = phi(a)/Phi(a):
each adds log Phi(a) and leaves the rest normal, with c its column of V and v = V_kk,

    m -= c lambda / sqrt(v)        V -= c c' lambda (lambda + a) / v

which replaces a truncated normal by the normal of its mean and variance (Mendell and Elston 1974): exact for one such
cell and for independent ones, and .05 a cell off at correlations of .9. :mod:`unrelu.kernels.hidden_cells` goes on from
there until nothing moves. Missing cells are hidden, but take no turn. About 2/3 h^3 multiplications.

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
from unrelu.kernels.compiling import contracted_helper, helper, kernel
from unrelu.kernels.normal import cut_share, log_probability_and_hazard

_LOG_2PI = math.log(2.0 * math.pi)
_SMALLEST_VARIANCE = 1e-12  # what rounding leaves of a variance that is nothing
_MANY = 24  # floored cells, from which columns of V are better left until their turn
_LARGE, _SMALL = 1e100, 1e-100  # between them a product takes one factor more
FAR = 1e6  # standard deviations: what is hidden is not expected further away for a seen value that is
FARTHEST = 1e120  # standard deviations: squares of sums of such numbers are numbers

# Rows of the work spaces of a row of d cells, one of numbers and one of columns: every array that a kernel is given
# takes time to compile. Seen values; means of hidden cells; a column; 1/scale; limits, and signs that make them upper.
U, MEAN, C, SCALE, LIMIT, TURN, N_VECTORS = range(7)
SEEN, ORDER, N_INDICES = range(3)  # the columns that are seen, and those that are hidden

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
def split(values: Any, beyond: Any, row: int, bias: FloatArray, work: FloatArray, index: Index) -> tuple[int, int, int]:
    """How many cells are seen, cut off, and hidden: cut off or, after these, missing.

    LIMIT and TURN are of the hidden cells in their order: y_k turn_k <= limit_k.
    """
    d = values.shape[1]
    n_seen = cut = missing = 0
    for j in range(d):
        x = bounded((values[row, j] - bias[j]) * work[SCALE, j])
        mark = beyond[row, j]
        if mark != 0:
            index[ORDER, cut] = j
            work[TURN, cut] = -mark
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
        work[TURN, cut + k] = 1.0
    return n_seen, cut, cut + missing


@helper
def hide(
    values: Any,
    beyond: Any,
    row: int,
    bias: FloatArray,
    precision: FloatArray,
    widest: float,
    work: FloatArray,
    index: Index,
    v: FloatArray,
) -> tuple[int, int, int, float]:
    """Hidden cells of a row given its seen ones: (seen, cut off, hidden, log density of the seen + log det R / 2).

    ``widest``: what no eigenvalue of R is above; infinity where that is not known. 1/scale is in the work space.
    """
    n_seen, cut, hidden = split(values, beyond, row, bias, work, index)
    square, log_det = sweep_row(n_seen, hidden, precision, widest, work, index, v)
    return n_seen, cut, hidden, -0.5 * (square + n_seen * _LOG_2PI + log_det)


@helper
def turn(cut: int, hidden: int, work: FloatArray, v: FloatArray) -> None:
    """Turn mean and -V so that all cut-off cells ask "at most"."""
    for i in range(cut):
        for j in range(i + 1):
            v[i, j] *= work[TURN, i] * work[TURN, j]
        work[MEAN, i] *= work[TURN, i]
    for i in range(cut, hidden):
        for j in range(cut):
            v[i, j] *= work[TURN, j]


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
def _filter(cut: int, last: int, work: FloatArray, v: FloatArray) -> float:
    """Take the first ``cut`` cells in turn; sum of their log probabilities. Cells up to ``last`` are updated."""
    if cut >= _MANY:
        return _filter_many(cut, last, work, v)
    total = 0.0
    for k in range(cut):
        variance = max(-v[k, k], _SMALLEST_VARIANCE)
        deviation = math.sqrt(variance)
        a = (work[LIMIT, k] - work[MEAN, k]) / deviation
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
def _filter_many(cut: int, last: int, work: FloatArray, v: FloatArray) -> float:
    """:func:`_filter` with each column of V brought up to date when its turn comes; of later cells, variances alone.

    What cell t takes off is kept as a product, s s', with s in row t above the diagonal of ``v``.
    """
    total = 0.0
    c = work[C]
    for k in range(last):
        for i in range(k, last):
            c[i] = v[i, k]
        done = min(k, cut)
        for t in range(0, done - 3, 4):
            r0, r1, r2, r3 = v[t, k:last], v[t + 1, k:last], v[t + 2, k:last], v[t + 3, k:last]
            _add_four(c[k:last], r0, r1, r2, r3, r0[0], r1[0], r2[0], r3[0])
        for t in range(done - done % 4, done):
            factor, row, column = v[t, k], v[t, k:last], c[k:last]
            for i in range(row.shape[0]):
                column[i] += factor * row[i]
        v[k, k] = c[k]
        if k >= cut:
            continue
        variance = max(-c[k], _SMALLEST_VARIANCE)
        deviation = math.sqrt(variance)
        a = (work[LIMIT, k] - work[MEAN, k]) / deviation
        log_probability, hazard = log_probability_and_hazard(a)
        total += log_probability
        shift, shrink = hazard / deviation, math.sqrt(max(cut_share(a, hazard), 0.0)) / deviation
        for i in range(k + 1, last):
            work[MEAN, i] += c[i] * shift
            v[k, i] = c[i] * shrink
    return total


@kernel
def swept_log_densities(
    values: Any, beyond: Any, bias: FloatArray, scale: FloatArray, precision: FloatArray, out: FloatArray
) -> None:
    """``out[i]``: log density of row i by the cheap sweep, per unit of ``scale``, + log det R / 2."""
    n, d = values.shape
    work, index, v = np.empty((N_VECTORS, d)), np.empty((N_INDICES, d), dtype=np.int64), np.empty((d, d))
    for j in range(d):
        work[SCALE, j] = 1.0 / scale[j]
    for row in range(n):
        _, cut, _, normal = hide(values, beyond, row, bias, precision, 2.0 * max(d, 1), work, index, v)
        turn(cut, cut, work, v)
        out[row] = normal + _filter(cut, cut, work, v)


@kernel
def cell_residuals(
    values: Any, beyond: Any, bias: FloatArray, scale: FloatArray, precision: FloatArray, out: FloatArray
) -> None:
    """``out[i, j]``: how far cell j lies from what the row's other cells predict, in standard deviations.

    For a cell that is "at most" a limit: the limit's distance, which says how unlikely so low a value was; NaN for a
    missing one. Hidden cells are swept once a row; then each cell in turn is the last that the filter comes to. Values
    beyond ``FAR`` count as that far away.
    """
    n, d = values.shape
    work, index, v = np.empty((N_VECTORS, d)), np.empty((N_INDICES, d), dtype=np.int64), np.empty((d, d))
    swept, mean, w, limit = np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d)
    for j in range(d):
        work[SCALE, j] = 1.0 / scale[j]
    for row in range(n):
        n_seen, floored, hidden = split(values, beyond, row, bias, work, index)
        draw_near(n_seen, work)
        gather_hidden(n_seen, hidden, precision, work, index, swept)
        sweep_hidden(hidden, work, swept)
        for i in range(hidden):
            mean[i], limit[i] = work[MEAN, i], work[LIMIT, i]
        for i in range(floored, hidden):
            out[row, index[ORDER, i]] = np.nan
        for cell in range(n_seen):
            _hide_seen(cell, floored, hidden, n_seen, index, precision, swept, mean, w, v, work)
            _filter(floored, floored + 1, work, v)
            deviation = math.sqrt(max(-v[floored, floored], _SMALLEST_VARIANCE))
            out[row, index[SEEN, cell]] = (work[U, cell] - work[MEAN, floored]) / deviation
        for cell in range(floored):
            last = floored - 1
            for i in range(floored):  # with this cell at the end
                a = cell if i == last else i + (i >= cell)
                work[MEAN, i], work[LIMIT, i] = mean[a], limit[a]
                for j in range(i + 1):
                    b = cell if j == last else j + (j >= cell)
                    v[i, j] = swept[max(a, b), min(a, b)]
            _filter(last, floored, work, v)
            deviation = math.sqrt(max(-v[last, last], _SMALLEST_VARIANCE))
            out[row, index[ORDER, cell]] = (limit[cell] - work[MEAN, last]) / deviation


@helper
def _hide_seen(
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
