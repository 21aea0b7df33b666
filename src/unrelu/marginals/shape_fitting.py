"""Shapes of columns from their margins: powers by the censored likelihood, free ones from normal scores.

A power has the profile log-likelihood, over the n+ values above the floor and the n0 at it,

    l(e) = max_{b, s} [ -n+ log s - sum (y - b)^2 / (2 s^2) + n0 log Phi((y0 - b)/s) ] + (e - 1) sum log t,

whose inner maximum is that of :mod:`unrelu.marginals.censored_likelihood`; the last sum is the Jacobian's. A free shape
has the scores Phi^-1(F(x)), F at the middle of its jump, and Phi^-1(share floored) at the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import boxcox, log_ndtr, ndtr, ndtri

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.limits import Limits
from unrelu.marginals.censored_likelihood import maximize
from unrelu.shapes import Free, Log, Normal, Power, Seen, Shape, Shapes, refuse_outside
from unrelu.statistics.margins import ColumnMargin, Margins
from unrelu.statistics.tiles import seen_above
from unrelu.validation import column_label

_FEWEST = 20  # values above the floor, for a power
_EXPONENTS = (-1.0, 3.0)
_GRID, _NARROWINGS = 9, 8  # exponents tried at first, and golden sections after
_PARABOLAS = (0.01, 0.002)  # steps beside the exponent, through which parabolas are laid at last
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_CURVATURE_STEP = 0.05
_REACH = (1e-100, 1e45)  # of t: cubes of these have squares
_CLEARLY = 10.8  # twice the log-likelihood that a power must gain over a normal: its chance is one in a thousand
_FARTHEST = 1.3  # sqrt(n) times the largest distance of distributions, beyond which neither law fits
_KNOTS = 512


@dataclass(frozen=True, eq=False)
class Column:
    """A column's different values (or runs of them), their weights, and which of them are above floor, below ceiling.

    ``before``: the weight of all lower ones. ``rows``: the effective number of them all.
    """

    low: FloatArray
    high: FloatArray
    weights: FloatArray
    above: BoolArray
    floor: float
    ceiling: float
    rows: float
    seen: Seen

    @classmethod
    def of(cls, margin: ColumnMargin, floor: float, ceiling: float, rows: float, stored_as: str) -> Column:
        low, high = margin.runs
        like = np.empty(0, dtype=stored_as)
        edge = -seen_above(np.array([-ceiling]), like)[0]
        above = (low > seen_above(np.array([floor]), like)[0]) & (high < edge)
        return cls(low, high, margin.weights, above, floor, ceiling, rows, _seen(margin, np.finfo(stored_as).eps))

    @property
    def before(self) -> FloatArray:
        return np.cumsum(self.weights) - self.weights

    @property
    def x(self) -> FloatArray:
        """The middle of each run above the floor."""
        return np.asarray(0.5 * (self.low + self.high)[self.above])

    @property
    def w(self) -> FloatArray:
        return self.weights[self.above]

    @property
    def is_mirrored(self) -> bool:
        return self.ceiling < np.inf

    @property
    def distinct(self) -> int:
        return int(np.count_nonzero(self.above))

    @property
    def rows_above(self) -> float:
        return self.rows * float(self.w.sum() / self.weights.sum()) if len(self.weights) else 0.0


def _seen(margin: ColumnMargin, precision: Any) -> Seen:
    """Range and step: 1, or the power of ten down to 1e-4 that all values are multiples of, up to their precision."""
    values, sizes = margin.runs[0], np.abs(margin.runs[0])
    if len(values) == 0:
        return Seen()
    step = 1.0 if margin.whole else 0.0
    if margin.shift == 0:
        least = float(np.diff(values).min()) if len(values) > 1 else 0.0
        for tried in (_rounded(least), 1.0, 0.1, 0.01, 1e-3, 1e-4):
            if tried <= 100.0 * precision * sizes.max():  # finer than what the numbers resolve
                continue
            if (np.abs(values - np.rint(values / tried) * tried) <= 2.0 * precision * sizes).all():
                step = tried
                break
    return Seen(*margin.ends, step)


def _rounded(step: float) -> float:
    """The step as a whole number, or one over a whole number, where it is either up to rounding; 0 elsewhere.

    >>> _rounded(0.30000000000000004 - 0.2), _rounded(0.25), _rounded(0.3)
    (0.1, 0.25, 0.0)
    """
    for value, turned in ((step, False), (1.0 / step if step > 0.0 else 0.0, True)):
        whole = np.rint(value)
        if whole >= 1.0 and abs(value - whole) < 1e-6 * whole:
            return float(1.0 / whole if turned else whole)
    return 0.0


def fit_shapes(
    requests: Sequence[str | Shape], margins: Margins, limits: Limits, names: Sequence[str] | None
) -> Shapes:
    """The shape of every column, as asked for; an error names the column that cannot have it."""
    columns = [
        Column.of(margin, float(low), float(high), float(rows), margins.stored_as)
        for margin, low, high, rows in zip(margins.columns, limits.floor, limits.ceiling, margins.rows, strict=True)
    ]
    _refuse(requests, columns, names)
    wanted = [
        j for j, request in enumerate(requests) if request == "power" or (request == "auto" and _has_power(columns[j]))
    ]
    powers = dict(zip(wanted, fit_powers([columns[j] for j in wanted]), strict=True))
    return tuple(
        request if not isinstance(request, str) else _fitted(request, column, powers.get(j))
        for j, (request, column) in enumerate(zip(requests, columns, strict=True))
    )


def _refuse(requests: Sequence[str | Shape], columns: list[Column], names: Sequence[str] | None) -> None:
    for j, (request, column) in enumerate(zip(requests, columns, strict=True)):
        label = column_label(j, names)
        if request == "log" or not isinstance(request, str):
            smallest = float(column.low[column.above].min(initial=np.inf))
            given = Log() if isinstance(request, str) else request
            refuse_outside(given, (column.floor, column.ceiling), smallest, label)
        if request == "power" and not _has_power(column):
            raise InvalidDataError(
                f"shape='power' of {label}: {column.distinct} different values in about {column.rows_above:.0f} rows"
                f" above the floor are too few to learn an exponent from ({_FEWEST} at least). Use shape='log',"
                " 'normal' or 'free' for it."
            )
        if request == "free" and column.distinct < 2:
            raise InvalidDataError(
                f"shape='free' of {label}: {column.distinct} different values above its floor, two at least are needed."
                " Use shape='normal' for it, or leave it out."
            )


def _has_power(column: Column) -> bool:
    return column.distinct >= 5 and column.rows_above >= _FEWEST


def _fitted(request: str, column: Column, power: PowerFit | None) -> Shape:
    if request == "normal":
        return Normal(column.seen)
    if request == "log":
        return Log(column.seen)
    if request == "free":
        return free_shape(column)
    if power is None:
        return Normal(column.seen)
    if request == "power":
        return power.shape
    if power.gain < _CLEARLY:
        return Normal(column.seen) if power.normal_distance < _FARTHEST else free_shape(column)
    return power.shape if power.distance < _FARTHEST else free_shape(column)


# --- free -----------------------------------------------------------------------------------------


def free_shape(column: Column) -> Free:
    """Normal scores at the column's values, no more than _KNOTS of them, as even as can be in the scores."""
    total, before = column.weights.sum(), column.before
    half = max(min(0.5 / column.rows, 0.5 * float(column.w.min() / total)), 1e-15)
    exact = bool((column.low == column.high).all())
    level = before + (0.5 * column.weights if exact else column.weights)
    x, u = column.high[column.above], np.clip(level[column.above] / total, half, 1.0 - half)
    at_floor = float(column.weights[column.high < x[0]].sum()) if len(x) else 0.0
    if np.isfinite(column.floor):
        x, u = np.append(column.floor, x), np.append(max(at_floor / total, 0.5 * half), u)
    elif not exact:
        x, u = np.append(column.low[column.above][0], x), np.append(0.5 * half, u)
    if column.is_mirrored:
        edge = 1.0 - max(float(column.weights[column.low > x[-1]].sum()) / total, 0.5 * half)
        x, u = np.append(x[u < edge], column.ceiling), np.append(u[u < edge], edge)  # the last run may reach up to it
    y = ndtri(u)
    rising = np.append(True, (np.diff(np.maximum.accumulate(y)) > 0.0) & (np.diff(x) > 0.0))
    x, y = x[rising], y[rising]
    if len(x) > _KNOTS:
        even = np.searchsorted(y, np.linspace(y[0], y[-1], _KNOTS))
        chosen = np.unique(np.concatenate([[0], even, [len(x) - 1]]))
        x, y = x[chosen], y[chosen]
    return Free(x, y, column.seen)


# --- powers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PowerFit:
    """``gain``: twice the log-likelihood beyond the normal's. Distances: sqrt(n) times that of the distributions."""

    shape: Power
    gain: float
    distance: float
    normal_distance: float


def fit_powers(columns: Sequence[Column]) -> list[PowerFit]:
    """The likeliest exponent of each column: a grid, then golden sections, all columns at a time."""
    if not columns:
        return []
    profile = Profile(columns)
    grid = np.linspace(*_EXPONENTS, _GRID)
    values = np.array([profile(np.full(len(columns), e)).level for e in grid])
    best = np.argmax(values, axis=0)
    low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, _GRID - 1)]
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = profile(left).level, profile(right).level
    for _ in range(_NARROWINGS):
        lower = at_left > at_right
        low, high = np.where(lower, low, left), np.where(lower, right, high)
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        fresh = profile(np.where(lower, left, right)).level
        at_left, at_right = np.where(lower, fresh, at_right), np.where(lower, at_left, fresh)
    exponent = 0.5 * (low + high)
    for step in _PARABOLAS:
        exponent = _highest(profile, exponent, step)
    found, normal = profile(exponent), profile(np.ones(len(columns)))
    beside = [profile(exponent + step).level for step in (-_CURVATURE_STEP, _CURVATURE_STEP)]
    curvature = (2.0 * found.level - beside[0] - beside[1]) / _CURVATURE_STEP**2
    with np.errstate(divide="ignore"):
        stderr = np.where(curvature > 0.0, 1.0 / np.sqrt(np.maximum(curvature, 1e-300)), np.inf)
    return [
        PowerFit(
            replace(found.shapes[k], exponent_stderr=float(stderr[k])),
            2.0 * float(found.level[k] - normal.level[k]),
            found.distance(k),
            normal.distance(k),
        )
        for k in range(len(columns))
    ]


def _highest(profile: Profile, at: FloatArray, step: float) -> FloatArray:
    """Where parabolas through the levels at and beside the exponents are highest, no farther than they tell."""
    left, here, right = (profile(at + side * step).level for side in (-1.0, 0.0, 1.0))
    bend = 2.0 * here - left - right
    move = np.where(bend > 0.0, 0.5 * (right - left) / np.where(bend > 0.0, bend, 1.0), 0.0)
    return np.clip(at + step * np.clip(move, -2.0, 2.0), *_EXPONENTS)


@dataclass(frozen=True, eq=False)
class NormalFits:
    """Columns under given exponents: the log-likelihood ``level``, latent ``bias`` and ``scale``."""

    columns: Sequence[Column]
    shapes: list[Power]
    level: FloatArray
    bias: FloatArray
    scale: FloatArray

    def distance(self, k: int) -> float:
        """sqrt(n) max |F(x) - empirical F(x)| over the values above the floor, at the middle of each jump."""
        column = self.columns[k]
        level = (column.before + 0.5 * column.weights)[column.above] / column.weights.sum()
        fitted = ndtr((self.shapes[k].to_latent(column.x) - self.bias[k]) / self.scale[k])
        return float(np.sqrt(column.rows) * np.abs(fitted - level).max())


class Profile:
    """The profile log-likelihood of exponents, one for each column."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._places = [_place(column) for column in columns]
        self._seen = [
            (np.log(np.clip((c.x - origin) / unit, *_REACH)), c.w)
            for c, (origin, unit) in zip(columns, self._places, strict=True)
        ]
        self._weight = np.array([w.sum() for _, w in self._seen])
        self._logs = np.array([float(w @ logs) for logs, w in self._seen])

    def shapes(self, exponents: FloatArray) -> list[Power]:
        return [
            Power(float(e), *place, seen=column.seen)
            for e, place, column in zip(exponents, self._places, self._columns, strict=True)
        ]

    def __call__(self, exponents: FloatArray) -> NormalFits:
        rows = [self._moments(k, float(e)) for k, e in enumerate(exponents)]
        share, mean, variance, edge, sign, rows_above, total = np.array(rows).T
        distance = sign * (mean - edge)
        cut = share < 1.0
        size = np.where(cut, np.sqrt(distance**2 + variance), np.sqrt(variance))
        g, t = np.zeros(len(share)), np.ones(len(share))
        if cut.any():
            g[cut], t[cut] = maximize(share[cut], distance[cut] / size[cut])
        scale = size / t
        bias = np.where(cut, edge + sign * scale * g, mean)
        squares = rows_above * (variance + (mean - bias) ** 2)
        level = -rows_above * np.log(scale) - 0.5 * squares / scale**2
        level += np.where(cut, (total - rows_above) * log_ndtr(-g), 0.0)
        level += (exponents - 1.0) * self._logs * (rows_above / self._weight)
        origin, unit = np.array(self._places).T
        return NormalFits(self._columns, self.shapes(exponents), level, origin + unit * (1.0 + bias), unit * scale)

    def _moments(self, k: int, exponent: float) -> tuple[Any, ...]:
        """(share above, mean and variance of (t^e - 1)/e, that of the limit, direction, rows above, rows)."""
        column, (origin, unit) = self._columns[k], self._places[k]
        (logs, w), limit = self._seen[k], column.ceiling if column.is_mirrored else column.floor
        y = np.expm1(exponent * logs) / exponent if exponent else logs  # boxcox, whose logarithms are at hand
        weight = self._weight[k]
        mean = float(w @ y / weight)
        variance = float(w @ (y - mean) ** 2 / weight)
        edge = mean
        if np.isfinite(limit):
            edge = float(boxcox(np.clip((limit - origin) / unit, *_REACH), exponent))
        share = weight / column.weights.sum() if np.isfinite(limit) else 1.0
        sign = -1.0 if column.is_mirrored else 1.0
        return share, mean, variance, edge, sign, share * column.rows, column.rows


def _place(column: Column) -> tuple[float, float]:
    """(origin, unit): t = 1 at the median of what is seen, and 0 at 0 where all values are positive by nature.

    Else, with a floor of 0 or values on both sides of it, t = 1 at the lowest value that there may be.
    """
    x, w = column.x, column.w
    half = (0.5 - 1e-9) * w.sum()  # where half of the rows end between two values, rounding must not choose
    middle = float(x[np.searchsorted(np.cumsum(w), half)])
    lowest = column.floor if np.isfinite(column.floor) else float(column.low[column.above][0])
    if lowest > 0.0:
        return 0.0, middle
    unit = max(middle - lowest, 1e-9 * max(abs(lowest), float(x[-1] - x[0])))
    return lowest - unit, unit
