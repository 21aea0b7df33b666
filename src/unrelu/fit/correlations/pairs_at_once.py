"""Latent correlations of all pairs on a device: the equations of :mod:`unrelu.kernels.pair_solver`, many at once.

Every round takes one step of all pairs that have not settled; those that have are left out of the next. The kernels
define the truth: tests compare both to 1e-8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray, PairCorrelations, RowParameters
from unrelu.fit.correlations.pair_algebra import Solved, quadratic
from unrelu.fit.correlations.pair_arrays import Normal, PairModel, Row
from unrelu.kernels.pair_model import LARGEST_A, moments_of_columns
from unrelu.kernels.pair_solver import on_a_line
from unrelu.passes.device import Place
from unrelu.passes.pair_moments import PairMoments

_PAIRS_AT_ONCE = 2**20  # some two GiB of working arrays
_LARGEST_Z, _LARGEST_START, _LARGEST_STEP, _STRIDE = 12.0, 0.98, 1.0, 0.5
_TOLERANCE, _LAST_STEP = 1e-10, 1e-11
_MOST_ROUNDS, _SCORING_ROUNDS = 60, 8


def solve_all(
    record: PairMoments, rows: RowParameters, place: Place, near: FloatArray | None = None
) -> PairCorrelations:
    """All pairs of a record; ``near`` are correlations to start from, when standard errors are not wanted."""
    from unrelu.fit.correlations.weighted_moments import pairs_between

    xp = place.xp
    varying = np.flatnonzero(rows.scale > 0.0)
    table = _Table.of(record, rows, place)
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
        constant = rows.scale == 0.0
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


@dataclass(frozen=True, eq=False)
class _Table:
    """A record's sums on the device, flat, and what its columns look like."""

    place: Place
    d: int
    sums: Row
    observed: Row
    centre: Any
    scale: Any
    a: Any
    moments: Row
    influence: list[Row]
    rows: Any
    weight: float
    effective: float

    @classmethod
    def of(cls, record: PairMoments, rows: RowParameters, place: Place) -> _Table:
        scale = np.where(rows.scale > 0.0, rows.scale, 1.0)
        a = np.minimum(np.where(rows.scale > 0.0, (rows.bias - rows.floor) / scale, 0.0), LARGEST_A)
        o = record.observed
        sums = (record.count, record.cross, record.masked_sum, record.masked_square)
        observed = () if o is None else (o.count, o.squared_weight, o.above, o.total, o.square)
        return cls(
            place,
            record.n_features,
            [place.array(each.ravel()) for each in sums],
            [place.array(each.ravel()) for each in observed],
            place.array(np.maximum(rows.floor, rows.bias) - record.origin),
            place.array(scale),
            place.array(a),
            [place.array(column) for column in moments_of_columns(a).T],
            [[place.array(rows.influence[:, k, p]) for p in range(3)] for k in range(2)],
            place.array(record.column_rows),
            record.weight,
            record.effective_rows,
        )

    def solved(self, first: Any, second: Any, near: Any | None) -> tuple[Any, Any]:
        """Correlations and standard errors of pairs of columns, NaN where starts ``near`` them ask for none."""
        xp = self.place.xp
        mhat, weight, rows = self._statistics(first, second)
        n = xp.maximum(weight, rows)  # integer weights then act exactly as repeated rows
        model = self._model(first, second)
        line = on_a_line(xp, mhat, n)
        r, last = _Root(model, mhat, n).found(near)
        known = n > 0.0
        one = xp.ones_like(r)
        answer = xp.where(known, xp.where(line == 0.0, r, line), 0.0 * one)
        if near is not None:
            return answer, xp.full_like(answer, np.nan)
        se = self._errors(model, mhat, n, rows, last, (first, second))
        se = xp.where(known, xp.where(line == 0.0, xp.clip(se, None, 1.0), 0.0 * one), one)
        return answer, se

    def _model(self, i: Any, j: Any) -> PairModel:
        take = self.place.xp.take
        moments = ([take(column, at) for column in self.moments] for at in (i, j))
        return PairModel(Normal(self.place), take(self.a, i), take(self.a, j), *moments)

    def _statistics(self, i: Any, j: Any) -> tuple[Row, Any, Any]:
        """The twelve sample means, weight and effective rows of every pair, as one by one."""
        take, xp, d = self.place.xp.take, self.place.xp, self.d
        at, turned = i * d + j, j * d + i
        n: Any
        if self.observed:
            n, squared = take(self.observed[0], at), take(self.observed[1], at)
            rows = xp.where(squared > 0.0, n * n / xp.where(squared > 0.0, squared, 1.0 + 0.0 * n), 0.0 * n)
        else:
            n = xp.full(i.shape, self.weight, dtype=xp.float64, device=self.place.device)
            rows = xp.full(i.shape, self.effective, dtype=xp.float64, device=self.place.device)
        safe = xp.where(n > 0.0, n, xp.ones_like(n))
        out: Row = [None] * 12
        count = take(self.sums[0], at)
        for side, (own, place, diagonal) in enumerate(((i, at, i * (d + 1)), (j, turned, j * (d + 1)))):
            c, s = take(self.centre, own), take(self.scale, own)
            alone = (
                [take(each, place) for each in self.observed[2:]]
                if self.observed
                else [take(self.sums[k], diagonal) for k in (0, 2, 3)]
            )
            both = [count, take(self.sums[2], place), take(self.sums[3], place)]
            for (s0, s1, s2), into in (
                (alone, (3 * side, 3 * side + 1, 3 * side + 2)),
                (both, (6, 8 + side, 10 + side)),
            ):
                out[into[0]] = s0 / safe
                out[into[1]] = (s1 - c * s0) / (s * safe)
                out[into[2]] = (s2 - 2.0 * c * s1 + c * c * s0) / (s * s * safe)
        c1, c2 = take(self.centre, i), take(self.centre, j)
        product = take(self.sums[1], at) - c1 * take(self.sums[2], turned) - c2 * take(self.sums[2], at)
        out[7] = (product + c1 * c2 * count) / (take(self.scale, i) * take(self.scale, j) * safe)
        return [xp.where(n > 0.0, each, xp.zeros_like(each)) for each in out], n, rows

    def _errors(self, model: PairModel, mhat: Row, n: Any, rows: Any, r: Any, pairs: tuple[Any, Any]) -> Any:
        """Standard errors, from the model at r, a step from the estimates at most."""
        xp = self.place.xp
        solved = Solved.at(model, mhat, r)
        gap2 = (1.0 - r) * (1.0 + r)
        curvature = n * solved.information + (1.0 + r * r) / (gap2 * gap2)
        share = n * solved.information / curvature
        informed = solved.information > 0.0
        information = xp.where(informed, solved.information, xp.ones_like(r))
        direct = [each / information for each in solved.back(solved.half_gradient)]
        through = [
            self._through(model.marginal_gradient(solved.moments, bool(second)), direct, at, bool(second))
            for second, at in enumerate(pairs)
        ]
        rows1, rows2 = (xp.take(self.rows, at) for at in pairs)
        rows = xp.where(rows > 0.0, rows, xp.ones_like(rows))
        v = solved.moments.covariance
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

    def _through(self, slopes: list[tuple[Any, Any]], weights: Row, at: Any, second: bool) -> Row:
        """-w' G_i H_i: how a statistic of one coordinate alone moves r through its bias and scale."""
        take = self.place.xp.take
        bias = sum(w * slope[0] for w, slope in zip(weights, slopes, strict=True))
        scale = sum(w * slope[1] for w, slope in zip(weights, slopes, strict=True))
        own = [-bias * take(self.influence[0][k], at) - scale * take(self.influence[1][k], at) for k in range(3)]
        none = [None] * 3
        return [*none, *own, *([None] * 6)] if second else [*own, *none, *([None] * 6)]


@dataclass(frozen=True, eq=False)
class _Root:
    """The root of the quasi-score equation, pair by pair."""

    model: PairModel
    mhat: Row
    n: Any

    def found(self, near: Any | None) -> tuple[Any, Any]:
        """(r, the last r that the model was evaluated at)."""
        xp = self.model.normal.place.xp
        start = self._start()
        if near is not None:
            start = xp.where(xp.abs(near) < _LARGEST_START, near, start)
        state = _Search.begun(xp, xp.atanh(start))
        work, left = self, xp.arange(int(start.shape[0]), device=self.model.normal.place.device)
        answer, last, order = [], [], []
        for done in range(_MOST_ROUNDS):
            evaluated = xp.tanh(state.z)
            state, r, settled = work._step(state, done)
            settled = settled | (done == _MOST_ROUNDS - 1)
            ended, going = xp.nonzero(settled)[0], xp.nonzero(~settled)[0]
            answer.append(xp.take(r, ended))
            last.append(xp.take(evaluated, ended))
            order.append(xp.take(left, ended))
            if int(going.shape[0]) == 0:
                break
            if int(ended.shape[0]) > 0:
                work, state, left = work._of(going), state.of(xp, going), xp.take(left, going)
        back = xp.argsort(xp.concat(order))
        return xp.take(xp.concat(answer), back), xp.take(xp.concat(last), back)

    def _of(self, at: Any) -> _Root:
        take = self.model.normal.place.xp.take
        return _Root(self.model.of(at), [take(each, at) for each in self.mhat], take(self.n, at))

    def _start(self) -> Any:
        """A few safe Newton steps on E[v1 v2] = target, from the linearisation at r = 0."""
        model, xp = self.model, self.model.normal.place.xp
        value, slope = model.moments1[1] * model.moments2[1], model.moments1[0] * model.moments2[0]
        r = xp.zeros_like(value)
        going = slope == slope
        for _ in range(3):
            going = going & (slope > 1e-12)
            step = (self.mhat[7] - value) / xp.where(slope > 1e-12, slope, xp.ones_like(slope))
            low = xp.where(r < 0.9, 0.5 * (r - 1.0), xp.full_like(r, -0.9))
            high = xp.where(r > -0.9, 0.5 * (r + 1.0), xp.full_like(r, 0.9))
            moved = xp.clip(xp.minimum(xp.maximum(r + step, low), high), -_LARGEST_START, _LARGEST_START)
            r = xp.where(going, moved, r)
            going = going & (xp.abs(step) >= 0.02)
            value, slope = model.cross_moment(r)
        return r

    def _step(self, state: _Search, done: int) -> tuple[_Search, Any, Any]:
        """(the next state, r where this one ends, whether it does)."""
        xp, z = self.model.normal.place.xp, state.z
        r = xp.tanh(z)
        solved = Solved.at(self.model, self.mhat, r)
        gap2 = (1.0 - r) * (1.0 + r)
        score = (self.n * solved.score - r / gap2) * gap2  # d/dz = (1 - r^2) d/dr
        slope = (self.n * solved.information + (1.0 + r * r) / (gap2 * gap2)) * gap2 * gap2
        trusted = slope != slope
        if done > 0:  # the slope seen between the last two points, unless it is absurd
            secant = (state.score_before - score) / (z - state.z_before)
            trusted = (0.02 * slope < secant) & (secant < 50.0 * slope)
            slope = xp.where(trusted, secant, slope)
        step = score / slope
        ended = (xp.abs(step) < _TOLERANCE) | (state.high - state.low < _TOLERANCE)
        last = ~ended & trusted & (xp.abs(step * (z - state.z_before)) < _LAST_STEP)
        r = xp.where(last, xp.tanh(z + step), r)
        return state.after(xp, score, step, done), r, ended | last


@dataclass(frozen=True, eq=False)
class _Search:
    """Where each search stands: its point, its bracket with scores at both ends, and the point before."""

    z: Any
    low: Any
    high: Any
    score_low: Any
    score_high: Any
    z_before: Any
    score_before: Any

    @classmethod
    def begun(cls, xp: Any, z: Any) -> _Search:
        zero = xp.zeros_like(z)
        return cls(z, xp.full_like(z, -_LARGEST_Z), xp.full_like(z, _LARGEST_Z), zero, zero, z, zero)

    def of(self, xp: Any, at: Any) -> _Search:
        return replace(self, **{name: xp.take(value, at) for name, value in vars(self).items()})

    def after(self, xp: Any, score: Any, step: Any, done: int) -> _Search:
        """A scoring step inside the bracket; after some rounds false position (the end that stays counts half)."""
        z, up = self.z, score > 0.0
        low, high = xp.where(up, z, self.low), xp.where(up, self.high, z)
        score_low = xp.where(up, score, 0.5 * self.score_low)
        score_high = xp.where(up, 0.5 * self.score_high, score)
        new = z + xp.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        if done >= _SCORING_ROUNDS:
            both = (score_low > 0.0) & (score_high < 0.0)
            width = xp.where(both, score_high - score_low, xp.ones_like(z))
            stride = z + xp.where(up, xp.full_like(z, _STRIDE), xp.full_like(z, -_STRIDE))
            new = xp.where(both, (low * score_high - high * score_low) / width, stride)
        new = xp.where((new <= low) | (new >= high), 0.5 * (low + high), new)
        return _Search(new, low, high, score_low, score_high, z, score)
