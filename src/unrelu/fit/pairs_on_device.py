"""Latent correlations of all pairs on a device: the equations of :mod:`unrelu.kernels.pair_solver`, many at once.

One array of pairs stands where the kernels have one number, in the Python array API standard: the equations of the
model are the kernels' own, and run here as Python; what searches and factorizes, which chooses number by number there,
stands here again. Matrices are lists of rows of such arrays; None stands for 0. Every round takes one step of all pairs
that have not converged; those that have are left out of the next. Tests compare both to 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray, PairCorrelations, RowParameters
from unrelu.kernels import pair_solver as kernels
from unrelu.kernels.pair_solver import moments_of_columns, on_a_line, pairs_between, sample_statistics
from unrelu.passes.device import Place
from unrelu.passes.pair_moments import PairMoments

_PAIRS_AT_ONCE = 2**20  # some two GiB of working arrays
_LARGE = 0.925  # beyond this |r| the expansion around |r| = 1 is the accurate one
_NODES, _WEIGHTS = (part.tolist() for part in np.polynomial.legendre.leggauss(20))
_TWO_PI = 2.0 * math.pi
_ALL = range(kernels.N_STATISTICS)
_JOINT = range(kernels.N_MARGINAL, kernels.N_STATISTICS)  # the statistics of both coordinates

Row = list[Any]
Work = dict[tuple[int, int], Any]  # what the kernels have as one array of numbers


def _source_of(kernel: Any) -> Callable[..., None]:
    """The Python function that was compiled: its equations hold for arrays as for numbers."""
    source: Callable[..., None] = kernel.py_func
    return source


_boundary_terms, _moments_up_to_four = _source_of(kernels.boundary_terms), _source_of(kernels.moments_up_to_four)
_statistics_moments = _source_of(kernels.statistics_moments)
_slopes_in_correlation = _source_of(kernels.slopes_in_correlation)
_slopes_in_marginal = _source_of(kernels.slopes_in_marginal)


def solve_all(
    record: PairMoments, rows: RowParameters, place: Place, near: FloatArray | None = None
) -> PairCorrelations:
    """All pairs of a record; ``near`` are correlations to start from, when standard errors are not wanted."""
    xp = place.xp
    varying = np.flatnonzero(rows.std > 0.0)
    table = _Table(record, rows, place)
    correlations, errors = [], []
    perfect: list[tuple[int, int]] = []
    for start in range(0, len(varying) * (len(varying) - 1) // 2, _PAIRS_AT_ONCE):
        i, j = (varying[k] for k in pairs_between(start, start + _PAIRS_AT_ONCE, len(varying)))
        r, se = table.solved(place.array(i), place.array(j), None if near is None else place.array(near[i, j]))
        correlations.append(r)
        errors.append(se)
        if bool(xp.any(xp.abs(r) == 1.0)):
            line = np.abs(place.host(r)) == 1.0
            perfect += zip(i[line].tolist(), j[line].tolist(), strict=True)
    del table
    correlation, stderr = (
        _whole(place, each, varying, record.n_features, diagonal)
        for each, diagonal in ((correlations, 1.0), (errors, 0.0))
    )
    if len(varying) < record.n_features:
        constant = rows.std == 0.0
        correlation[constant], correlation[:, constant] = 0.0, 0.0
        correlation[constant, constant] = 1.0
    return PairCorrelations(correlation, stderr, tuple(perfect))


def _whole(place: Place, parts: list[Any], varying: NDArray[np.int64], d: int, diagonal: float) -> FloatArray:
    """The symmetric matrix of what was found for pairs in the order of ``np.triu_indices``, NaN in other columns."""
    xp, k = place.xp, len(varying)
    matrix = np.full((k, k), diagonal)
    if parts:
        flat = xp.concat(parts)
        at = xp.arange(k, device=place.device)
        low, high = xp.minimum(at[:, None], at), xp.maximum(at[:, None], at)
        pair = low * (2 * k - 1 - low) // 2 + high - low - 1
        same = low == high
        pair = xp.where(same, xp.zeros_like(pair), pair)
        found = xp.reshape(xp.take(flat, xp.reshape(pair, (-1,))), (k, k))
        matrix = place.host(xp.where(same, xp.full_like(found, diagonal), found))
    if k == d:
        return matrix
    whole = np.full((d, d), np.nan)
    whole[np.ix_(varying, varying)] = matrix
    return whole


class _Table:
    """A record's sums on the device, flat, and the parameters of its columns."""

    def __init__(self, record: PairMoments, rows: RowParameters, place: Place) -> None:
        varying, o = rows.std > 0.0, record.observed
        std = np.where(varying, rows.std, 1.0)
        a = np.minimum(np.where(varying, (rows.mean - rows.floor) / std, 0.0), kernels.LARGEST_A)
        self._place, self._d = place, record.n_features
        self._sums = [place.array(each) for each in record.flat_sums()]
        self._seen = [] if o is None else [place.array(each.ravel()) for each in (o.count, o.squared_weight)]
        self._units = [place.array(np.maximum(rows.floor, rows.mean) - record.origin), place.array(std)]
        self._a = place.array(a)
        self._moments = [place.array(column) for column in moments_of_columns(a).T]
        self._influence = [[place.array(rows.influence[:, k, p]) for p in range(3)] for k in range(2)]
        self._rows = place.array(record.column_rows)
        self._weight, self._effective = record.weight, record.effective_rows

    def solved(self, first: Any, second: Any, near: Any | None) -> tuple[Any, Any]:
        """Correlations and standard errors of pairs of columns; the errors are NaN where there are starts ``near``
        them."""
        place, xp, take = self._place, self._place.xp, self._place.xp.take
        if self._seen:
            at = first * self._d + second
            weight, squared = take(self._seen[0], at), take(self._seen[1], at)
            safe = xp.where(squared > 0.0, squared, xp.ones_like(squared))
            rows = xp.where(squared > 0.0, weight * weight / safe, xp.zeros_like(weight))
        else:
            weight, rows = (
                xp.full(first.shape, each, dtype=xp.float64, device=place.device)
                for each in (self._weight, self._effective)
            )
        mhat = sample_statistics(xp, (first, second), self._sums, self._units, weight)
        n = xp.maximum(weight, rows)  # integer weights then act exactly as repeated rows
        own1, own2 = ([take(column, at) for column in self._moments] for at in (first, second))
        model = PairModel(place, (take(self._a, first), take(self._a, second)), (own1, own2))
        line = on_a_line(xp, mhat, n)
        r, last = _roots(model, mhat, n, near)
        seen, zero, one = n > 0.0, xp.zeros_like(r), xp.ones_like(r)
        answer = xp.where(seen, xp.where(line == 0.0, r, line), zero)
        if near is not None:
            return answer, xp.full_like(answer, np.nan)
        se = self._errors(Solved(model, mhat, last), n, rows, (first, second))
        return answer, xp.where(seen, xp.where(line == 0.0, xp.clip(se, None, 1.0), zero), one)

    def _errors(self, solved: Solved, n: Any, rows: Any, pairs: tuple[Any, Any]) -> Any:
        """Standard errors, from the model at r, a step from the estimates at most."""
        xp, r = self._place.xp, solved.r
        gap2 = (1.0 - r) * (1.0 + r)
        curvature = n * solved.information + (1.0 + r * r) / (gap2 * gap2)
        share = n * solved.information / curvature
        informed = solved.information > 0.0
        information = xp.where(informed, solved.information, xp.ones_like(r))
        direct = [each / information for each in solved.weights()]
        through = [self._through(solved.marginal_gradient(side), direct, at, side) for side, at in enumerate(pairs)]
        rows1, rows2 = (xp.take(self._rows, at) for at in pairs)
        rows = xp.where(rows > 0.0, rows, xp.ones_like(rows))
        v = solved.covariance
        variance = (
            quadratic(v, direct, direct) / rows
            + 2.0 * quadratic(v, direct, through[0]) / rows1
            + 2.0 * quadratic(v, direct, through[1]) / rows2
            + quadratic(v, through[0], through[0]) / rows1
            + quadratic(v, through[1], through[1]) / rows2
            + 2.0 * quadratic(v, through[0], through[1]) * rows / (rows1 * rows2)
        )
        variance = xp.where(informed, xp.clip(variance, 0.0, None), xp.zeros_like(r))
        return xp.sqrt(xp.clip((1.0 - share) / curvature + share * share * variance, 0.0, None))

    def _through(self, slopes: list[tuple[Any, Any]], weights: Row, at: Any, side: int) -> Row:
        """-w' G_i H_i: how a statistic of one coordinate alone moves r through its mean and std."""
        take = self._place.xp.take
        mean = sum(w * slope[0] for w, slope in zip(weights, slopes, strict=True))
        std = sum(w * slope[1] for w, slope in zip(weights, slopes, strict=True))
        out: Row = [None] * kernels.N_STATISTICS
        for k in range(3):
            out[3 * side + k] = -mean * take(self._influence[0][k], at) - std * take(self._influence[1][k], at)
        return out


# --- the root of the quasi-score equation, pair by pair --------------------------------------------


def _roots(model: PairModel, mhat: Row, n: Any, near: Any | None) -> tuple[Any, Any]:
    """(r, the last r that the model was evaluated at)."""
    xp = model.place.xp
    start = _start_by_cross_moment(model, mhat)
    if near is not None:
        start = xp.where(xp.abs(near) < kernels.LARGEST_START, near, start)
    z = xp.atanh(start)
    # Where each search stands: its point, its bracket with scores at both ends, the point before and its score.
    state = [
        z,
        xp.full_like(z, -kernels.LARGEST_Z),
        xp.full_like(z, kernels.LARGEST_Z),
        *[xp.zeros_like(z)] * 2,
        z,
        xp.zeros_like(z),
    ]
    left = xp.arange(int(z.shape[0]), device=model.place.device)
    answer, last, order = [], [], []
    for done in range(kernels.MOST_ROUNDS):
        evaluated = xp.tanh(state[0])
        state, r, done_now = _step(model, mhat, n, state, done)
        done_now = done_now | (done == kernels.MOST_ROUNDS - 1)
        ended, going = xp.nonzero(done_now)[0], xp.nonzero(~done_now)[0]
        answer.append(xp.take(r, ended))
        last.append(xp.take(evaluated, ended))
        order.append(xp.take(left, ended))
        if int(going.shape[0]) == 0:
            break
        if int(ended.shape[0]) > 0:
            model, n, left = model.some(going), xp.take(n, going), xp.take(left, going)
            mhat, state = ([xp.take(each, going) for each in some] for some in (mhat, state))
    back = xp.argsort(xp.concat(order))
    return xp.take(xp.concat(answer), back), xp.take(xp.concat(last), back)


def _start_by_cross_moment(model: PairModel, mhat: Row) -> Any:
    """A few safe Newton steps on E[v1 v2] = its sample mean, from the linearisation at r = 0."""
    xp = model.place.xp
    value, slope = (model.own[0][p] * model.own[1][p] for p in (1, 0))
    r = xp.zeros_like(value)
    going = slope == slope
    for _ in range(3):
        going = going & (slope > 1e-12)
        step = (mhat[7] - value) / xp.where(slope > 1e-12, slope, xp.ones_like(slope))
        low = xp.where(r < 0.9, 0.5 * (r - 1.0), xp.full_like(r, -0.9))
        high = xp.where(r > -0.9, 0.5 * (r + 1.0), xp.full_like(r, 0.9))
        moved = xp.clip(xp.minimum(xp.maximum(r + step, low), high), -kernels.LARGEST_START, kernels.LARGEST_START)
        r = xp.where(going, moved, r)
        going = going & (xp.abs(step) >= 0.02)
        value, slope = model.cross_moment(r)
    return r


def _step(model: PairModel, mhat: Row, n: Any, state: Row, done: int) -> tuple[Row, Any, Any]:
    """(the next state, r where this one ends, whether it does)."""
    xp = model.place.xp
    z, low, high, score_low, score_high, z_before, score_before = state
    r = xp.tanh(z)
    solved = Solved(model, mhat, r)
    gap2 = (1.0 - r) * (1.0 + r)
    score = (n * solved.score - r / gap2) * gap2  # d/dz = (1 - r^2) d/dr
    slope = (n * solved.information + (1.0 + r * r) / (gap2 * gap2)) * gap2 * gap2
    trusted = slope != slope
    if done > 0:  # the slope seen between the last two points, unless it is absurd
        secant = (score_before - score) / (z - z_before)
        trusted = (0.02 * slope < secant) & (secant < 50.0 * slope)
        slope = xp.where(trusted, secant, slope)
    step = score / slope
    ended = (xp.abs(step) < kernels.TOLERANCE) | (high - low < kernels.TOLERANCE)
    last = ~ended & trusted & (xp.abs(step * (z - z_before)) < kernels.LAST_STEP)
    r = xp.where(last, xp.tanh(z + step), r)
    # A scoring step inside the bracket; after some rounds false position (the end that stays counts half).
    up = score > 0.0
    low, high = xp.where(up, z, low), xp.where(up, high, z)
    score_low, score_high = xp.where(up, score, 0.5 * score_low), xp.where(up, 0.5 * score_high, score)
    new = z + xp.clip(step, -kernels.LARGEST_STEP, kernels.LARGEST_STEP)
    if done >= kernels.SCORING_ROUNDS:
        both = (score_low > 0.0) & (score_high < 0.0)
        width = xp.where(both, score_high - score_low, xp.ones_like(z))
        stride = z + xp.where(up, xp.full_like(z, kernels.STRIDE), xp.full_like(z, -kernels.STRIDE))
        new = xp.where(both, (low * score_high - high * score_low) / width, stride)
    new = xp.where((new <= low) | (new >= high), 0.5 * (low + high), new)
    return [new, low, high, score_low, score_high, z, score], r, ended | last


# --- the model of pairs ----------------------------------------------------------------------------


def _density(xp: Any, x: Any) -> Any:
    return xp.exp(-0.5 * x * x) * (1.0 / math.sqrt(_TWO_PI))


def _distribution(place: Place, x: Any) -> Any:
    return 0.5 * place.erfc(x * -math.sqrt(0.5))


def upper_orthant(place: Place, h: Any, k: Any, r: Any) -> Any:
    """P(X > h, Y > k) for standard normals with correlation r (:mod:`unrelu.kernels.normal`)."""
    xp = place.xp
    large = xp.abs(r) >= _LARGE
    near = xp.where(large, xp.zeros_like(r), r)
    half_square, product, half_angle = 0.5 * (h * h + k * k), h * k, 0.5 * xp.asin(near)
    total = xp.zeros_like(r)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):  # Plackett's integral
        s = xp.sin(half_angle * (1.0 + node))
        total = total + weight * xp.exp((s * product - half_square) / (1.0 - s * s))
    p = _distribution(place, -h) * _distribution(place, -k) + total * half_angle / _TWO_PI
    if bool(xp.any(large)):
        p = xp.where(large, _beside_one(place, h, k, xp.where(large, r, xp.full_like(r, 0.95))), p)
    return xp.clip(p, 0.0, 1.0)


def _beside_one(place: Place, h: Any, k: Any, r: Any) -> Any:
    xp = place.xp
    sign = xp.sign(r)
    integral = _integral_to_one(place, h, sign * k, xp.abs(r))
    positive = _distribution(place, -xp.maximum(h, k)) - integral
    falling = xp.where(
        h < 0.0, _distribution(place, -k) - _distribution(place, h), _distribution(place, -h) - _distribution(place, k)
    )
    negative = xp.where(h >= -k, xp.zeros_like(h), falling) + integral
    return xp.where(r > 0.0, positive, negative)


def _integral_to_one(place: Place, h: Any, k: Any, r: Any) -> Any:
    """Integral of phi2(h, k; s) ds from r to 1."""
    xp = place.xp
    product, gap2 = h * k, (1.0 - r) * (1.0 + r)
    gap, distance2 = xp.sqrt(gap2), (h - k) * (h - k)
    c, d = (4.0 - product) / 8.0, (12.0 - product) / 16.0
    zero = xp.zeros_like(h)
    exponent = -0.5 * (distance2 / gap2 + product)
    series = 1.0 - c * (distance2 - gap2) * (1.0 - d * distance2 / 5.0) / 3.0 + c * d * gap2 * gap2 / 5.0
    total = xp.where(exponent > -100.0, gap * xp.exp(exponent) * series, zero)
    distance = xp.sqrt(distance2)
    tail = math.sqrt(_TWO_PI) * _distribution(place, -distance / gap)
    leading = tail * distance * (1.0 - c * distance2 * (1.0 - d * distance2 / 5.0) / 3.0)
    total = total - xp.where(product > -100.0, xp.exp(-0.5 * product) * leading, zero)
    half = 0.5 * gap
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        x2 = (half * (1.0 + node)) ** 2
        exponent = -0.5 * (distance2 / x2 + product)
        root = xp.sqrt(1.0 - x2)
        exact = xp.exp(-product * x2 / (2.0 * (1.0 + root) * (1.0 + root))) / root
        term = half * weight * xp.exp(exponent) * (exact - (1.0 + c * x2 * (1.0 + d * x2)))
        total = total + xp.where(exponent > -100.0, term, zero)
    return total / _TWO_PI


class PairModel:
    """Pairs of columns with a1, a2 and their own moments (five each), all arrays of one length. ``c`` are the points
    that statistics are measured from, ``floors`` the floors from there."""

    def __init__(self, place: Place, a: tuple[Any, Any], own: tuple[Row, Row]) -> None:
        self.place, self.a, self.own = place, a, own
        self.c = tuple(place.xp.clip(-each, 0.0, None) for each in a)
        self.floors = tuple(-each - c for each, c in zip(a, self.c, strict=True))

    def some(self, at: Any) -> PairModel:
        """Some of the pairs."""
        take = self.place.xp.take
        first, second = ([take(each, at) for each in own] for own in self.own)
        return PairModel(self.place, (take(self.a[0], at), take(self.a[1], at)), (first, second))

    def cross_moment(self, r: Any) -> tuple[Any, Any]:
        """M_11 and its derivative in r, without the other moments."""
        place, xp = self.place, self.place.xp
        (a1, a2), (c1, c2), (l1, l2) = self.a, self.c, self.floors
        gap = xp.sqrt((1.0 - r) * (1.0 + r))
        z2, z1 = (a2 - r * a1) / gap, (a1 - r * a2) / gap
        edge = _density(xp, a1) * _density(xp, z2)
        d1_0, d2_0 = _density(xp, a1) * _distribution(place, z2), _density(xp, a2) * _distribution(place, z1)
        d1_1 = (-r * a1 - c2) * d1_0 + gap * edge
        m00 = upper_orthant(place, -a1, -a2, r)
        m01 = -c2 * m00 + d2_0 + r * d1_0
        return -c1 * m01 + d1_1 + r * (m00 + l2 * d2_0), m00 + l1 * d1_0 + l2 * d2_0 + l1 * l2 * edge / gap

    def moments(self, r: Any) -> Work:
        """Boundary terms, moments, mean and covariance of the statistics, and their slopes in r, as the kernels have
        them in their work space."""
        place, xp, (a1, a2) = self.place, self.place.xp, self.a
        gap2 = (1.0 - r) * (1.0 + r)
        gap = xp.sqrt(gap2)
        work: Work = {(kernels.OWN + side, p): own[p] for side, own in enumerate(self.own) for p in range(5)}
        for side, other in ((0, 1), (1, 0)):
            a, weight = self.a[side], _density(xp, self.a[side])
            z = (self.a[other] - r * a) / gap
            tail, edge = weight * _distribution(place, z), weight * gap * _density(xp, z)
            _boundary_terms(side, -r * a - self.c[other], gap2, tail, edge, self.floors[other], work)
        work[kernels.M, 0] = upper_orthant(place, -a1, -a2, r)
        _moments_up_to_four(*self.c, *self.floors, r, work)
        _statistics_moments(work)
        phi2 = _density(xp, a1) * _density(xp, (a2 - r * a1) / gap) / gap
        _slopes_in_correlation(*self.floors, phi2, work)
        return work


class Solved:
    """The model at r: mean and covariance of the twelve statistics, their slope in r, and V factorized. ``chol``:
    Cholesky's factor of V in unit diagonal, 1/pivots on its own."""

    def __init__(self, model: PairModel, mhat: Row, r: Any) -> None:
        self._model, self.r = model, r
        self._work = work = model.moments(r)
        mean = [work[kernels.MEAN, k] for k in _ALL]
        self.covariance = [[work[kernels.V + k, j] for j in range(k + 1)] for k in _ALL]
        self._size, self._chol = _factorized(model.place.xp, self.covariance, mean)
        residual = [seen - expected for seen, expected in zip(mhat, mean, strict=True)]
        gradient = [work.get((kernels.GRADIENT, k)) for k in _ALL]
        self._half_gradient = half = _forward(self._chol, self._size, gradient)
        half_residual = _forward(self._chol, self._size, residual)
        self.score: Any = sum(half[k] * half_residual[k] for k in _JOINT)
        self.information: Any = sum(half[k] * half[k] for k in _JOINT)

    def weights(self) -> Row:
        """V^-1 G: scaled L^-T (L^-1 G)."""
        vector, chol = self._half_gradient, self._chol
        out: Row = [None] * len(vector)
        for k in range(len(vector) - 1, -1, -1):
            total = 0.0 if vector[k] is None else vector[k]
            for i in range(k + 1, len(vector)):
                total = total - chol[i][k] * out[i]
            out[k] = total * chol[k][k]
        return [each * size for each, size in zip(out, self._size, strict=True)]

    def marginal_gradient(self, side: int) -> list[tuple[Any, Any]]:
        """d/d(mean, std) of the twelve expectations, for one coordinate in units of its std."""
        a, c, work = self._model.a[side], self._model.c[side], self._work
        _slopes_in_marginal(a, c, _density(self._model.place.xp, a), side, work)
        return [(work[kernels.SLOPES, k], work[kernels.SLOPES + 1, k]) for k in _ALL]


def _factorized(xp: Any, v: list[Row], mean: Row) -> tuple[Row, list[Row]]:
    """(1/size, L) of V scaled to unit diagonal; L[k][k] holds 1/pivot, 0 for a statistic left out."""
    size: Row = []
    chol: list[Row] = []
    for k, row in enumerate(v):
        keep = row[k] > kernels.SMALLEST_VARIANCE * (row[k] + mean[k] * mean[k])
        size.append(xp.where(keep, 1.0 / xp.sqrt(xp.where(keep, row[k], xp.ones_like(row[k]))), xp.zeros_like(row[k])))
    for k, row in enumerate(v):
        scale = size[k]
        lower: Row = []
        pivot = xp.astype(scale > 0.0, scale.dtype)
        for j in range(k):
            total = row[j] * scale * size[j]
            for i in range(j):
                total = total - lower[i] * chol[j][i]
            lower.append(total * chol[j][j])
            pivot = pivot - lower[j] * lower[j]
        kept = pivot > kernels.SMALLEST_PIVOT
        lower.append(xp.where(kept, 1.0 / xp.sqrt(xp.where(kept, pivot, xp.ones_like(pivot))), xp.zeros_like(pivot)))
        chol.append(lower)
    return size, chol


def _forward(chol: list[Row], size: Row, vector: Row) -> Row:
    """L^-1 of the scaled vector; entries that are None are 0, as are those that follow from them alone."""
    out: Row = []
    for k, entry in enumerate(vector):
        if entry is None:
            out.append(None)
            continue
        total = entry * size[k]
        for i in range(k):
            total = total if out[i] is None else total - chol[k][i] * out[i]
        out.append(total * chol[k][k])
    return out


def quadratic(v: list[Row], x: Row, y: Row) -> Any:
    """x' V y from the lower triangle of V; entries that are None are 0."""
    total: Any = 0.0
    for k, row in enumerate(v):
        for j in range(k + 1):
            for one, other in ((k, j), (j, k)) if j < k else ((k, k),):
                if x[one] is not None and y[other] is not None:
                    total = total + row[j] * x[one] * y[other]
    return total
