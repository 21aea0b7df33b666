"""Margins of columns from the counts of their values: Box-Cox by the censored likelihood, monotone from normal scores.

An exponent e has the profile log-likelihood, over the n+ values above the floor and the n0 at it,

    l(e) = max_{b, s} [ -n+ log s - sum (y - b)^2 / (2 s^2) + n0 log Phi((y0 - b)/s) ] + (e - 1) sum log t,

whose inner maximum is that of :mod:`unrelu.fit.columns`; the last sum is the Jacobian's. A monotone margin has the
scores b + s Phi^-1(F(x)), F at the middle of its jump, and the share floored at the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import boxcox, log_ndtr, ndtr, ndtri

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.fit.columns import maximize_censored, refuse_tiny
from unrelu.margins import BoxCox, Log, Margin, Margins, Monotone, Normal, Seen, refuse_outside
from unrelu.passes.columns import ColumnValues, ValueCounts
from unrelu.passes.tiles import seen_above
from unrelu.tables.prepared import Columns
from unrelu.validation import column_label

_FEWEST = 20  # values above the floor, for an exponent
_EXPONENTS = (0.0, 2.0)  # of margins="boxcox": below 0 there is no mean
_TRIED = (-1.0, 3.0)  # as rivals of a margin
_GRID, _NARROWINGS = 9, 8  # exponents tried at first, and golden sections after
_PARABOLAS = (0.01, 0.002)  # steps beside the exponent, through which parabolas are laid at last
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_CURVATURE_STEP = 0.05
_REACH = (1e-100, 1e45)  # of t: cubes of these have squares
_CLEARLY = 10.8  # twice the log-likelihood that an exponent gains over what fits: its chance is one in a thousand
_PROMISING = 4.0  # the same, as parabolas beside what fits promise it, from which on exponents are tried
_BESIDE = 0.3  # exponents through whose levels such a parabola is laid
_FARTHEST = 1.3  # sqrt(n) times the largest distance of distributions, beyond which a distribution does not fit
_EXTREME = 0.06  # share of the rows at an open end without which a column must still support the choice
_SUPPORTED, _STILL_FAR = 2.7, 0.9  # twice the log-likelihood and sqrt(n) times the distance that say so: one in ten
EXTREME_WITH_OUTLIERS = 0.12  # the same for exponents, before outliers are known
_LARGE = 0.12  # distance of distributions, as a share of what is seen, from which a floor of 0 is taken for physical
_STEEP = 0.9  # spread over mean of the values above 0, from which on these are no upper part of a normal distribution
_GAP, _LIKELIER = 8.0, 2.0  # values expected beside 0, and log density of all values above it, that say so as well
_WIDE = 0.05  # spreads that such a gap is wide, at least
_FEW_ZEROS = 0.15  # of the rows
_FARTHEST_MEAN = 20.0  # standard deviations below 0: what is above it is exponential
_LEAST_UNIT, _MOST_UNIT = 1e-9, 1e100  # spreads, beside the mean and in all, that latent values can have
_KNOTS = 512
_MOST_ROUNDS, _CONVERGED = 400, 1e-9  # of the empirical distribution of cells with limits of their own


def chosen_kinds(
    requests: Sequence[str | Margin],
    column_values: ColumnValues,
    limits: Columns,
    tested: bool = True,
    bent: bool = False,
) -> list[str | Margin]:
    """The requests with a kind for every "auto": log for positive columns and normal for others, unless the column
    clearly rejects it. Without being ``tested`` no column rejects anything. ``bent``: Box-Cox, of which log is a case,
    takes the place of log. A method that finds outliers would take the longer tail even of a column that is slightly
    skewed for them."""
    kinds = list(requests)
    columns = {j: Column.of(column_values, j, limits) for j, request in enumerate(requests) if request == "auto"}
    for j, column in columns.items():
        varies = len(column.low) > 1 or column.has_own_limits
        kinds[j] = "log" if column.is_positive and varies else "normal"
    bearing = {j: column for j, column in columns.items() if column.has_enough}
    if tested and bearing:
        for j, kind in zip(bearing, _tested_kinds(list(bearing.values())), strict=True):
            kinds[j] = kind
    if bent:
        for j in bearing:
            kinds[j] = "boxcox" if kinds[j] == "log" else kinds[j]
    return kinds


def fit_margins(
    requests: Sequence[str | Margin],
    column_values: ColumnValues,
    limits: Columns,
    names: Sequence[str] | None,
    extreme: float = 0.0,
    standard: bool = False,
) -> Margins:
    """The margin of every column, as requested; an error names the column that cannot have it. ``extreme``: the share
    of the rows at an open end whose values do not count for exponents. ``standard``: latent values of monotone columns
    have mean 0 and spread 1."""
    requests = chosen_kinds(requests, column_values, limits)
    columns = [Column.of(column_values, j, limits) for j in range(len(requests))]
    _refuse(requests, columns, names)
    wanted = [j for j, request in enumerate(requests) if request == "boxcox"]
    bounded = [columns[j].without_extremes(extreme) if extreme else columns[j] for j in wanted]
    fitted = dict(zip(wanted, fit_exponents(bounded), strict=True))
    found: list[Margin] = []
    for j, (request, column) in enumerate(zip(requests, columns, strict=True)):
        if not isinstance(request, str):
            found.append(request)
        elif request == "monotone":
            found.append(monotone_margin(column, standard))
        else:
            found.append(Log(column.seen) if request == "log" else fitted.get(j, Normal(column.seen)))
    return tuple(found)


def unreached_floors(column_values: ColumnValues, limits: Columns) -> BoolArray:
    """Columns whose values are all above 0, and their floor is not: no value ever reaches it."""
    kinds = zip(column_values.columns, column_values.at_most, column_values.at_least, strict=True)
    smallest = np.array([min(counted.ends[0] for counted in column) for column in kinds])
    return np.asarray((limits.floor <= 0.0) & np.isfinite(limits.floor) & (smallest > 0.0) & np.isfinite(smallest))


def refuse_tiny_values(column_values: ColumnValues, names: tuple[str, ...] | None) -> None:
    """Raise where squares underflow: whatever the margins, limits and steps are taken from these numbers."""
    largest = np.array([np.abs(counted.ends).max() for counted in column_values.columns])
    refuse_tiny(largest > 0.0, largest, np.zeros(len(largest)), names)


def _refuse(requests: Sequence[str | Margin], columns: list[Column], names: Sequence[str] | None) -> None:
    for j, (request, column) in enumerate(zip(requests, columns, strict=True)):
        label = column_label(j, names)
        if request == "log" or not isinstance(request, str):
            smallest = float(column.low[column.above].min(initial=np.inf))
            given = Log() if isinstance(request, str) else request
            refuse_outside(given, (column.floor, column.ceiling, *column.at_most[0][:1]), smallest, label)
        if request == "boxcox" and not column.has_enough:
            raise InvalidDataError(
                f"margins='boxcox' of {label}: {column.distinct} different values in about {column.rows_above:.0f} rows"
                f" above the floor are too few to learn an exponent from ({_FEWEST} at least). Use margins='log',"
                " 'normal' or 'monotone' for it."
            )
        if request == "monotone" and column.distinct < 2:
            raise InvalidDataError(
                f"margins='monotone' of {label}: {column.distinct} different values above its floor, two at least"
                " are needed. Use margins='normal' for it, or leave it out."
            )


def _tested_kinds(columns: Sequence[Column]) -> list[str]:
    """What a column does not clearly reject: log for a positive column, or Box-Cox where an exponent is much likelier;
    normal for others; monotone where another exponent is much likelier still, or the distribution is far from the
    empirical one, or has many values between a floor of 0 and the smallest one seen.

    Exponents are near 0 where the choice between log and Box-Cox is; the step to monotone is longer, and only taken
    where half of the rows would take it as well. No step is taken that the column without its farthest cells does not
    support: a unit that was mistaken, or one cell in twenty that is bad, would make every column monotone, which hides
    them.
    """
    positive = np.array([column.is_positive for column in columns])
    simple = Profile(columns)(np.where(positive, 0.0, 1.0))
    far = np.array([simple.distance(k) for k in range(len(columns))])
    kinds = np.where(positive, "log", "normal").astype(object)
    for k, column in enumerate(columns):
        if not positive[k] and _has_gap(column, simple, k):  # zeros that mean "less than the smallest value"
            kinds[k] = "monotone"
    rejecting = np.flatnonzero((simple.promised() > _PROMISING) | (far > _FARTHEST)).tolist()
    if not rejecting:
        return list(kinds)
    profile = Profile([columns[k] for k in rejecting])
    power, other = (profile(profile.likeliest(between)) for between in (_EXPONENTS, _TRIED))
    middle = Profile([columns[k].without_extremes(_EXTREME) for k in rejecting])
    start = middle(np.where(positive[rejecting], 0.0, 1.0))
    gains = [2.0 * (middle(fits.exponents).level - start.level) for fits in (power, other)]
    for k, at in enumerate(rejecting):
        level = float(simple.level[at])
        if positive[at] and 2.0 * (power.level[k] - level) > _CLEARLY and gains[0][k] > _SUPPORTED:
            kinds[at], level, far[at] = "boxcox", float(power.level[k]), power.distance(k)
        rejected = other.level[k] - level > _CLEARLY or far[at] > np.sqrt(2.0) * _FARTHEST
        supported = gains[1][k] > _SUPPORTED or start.distance(k) > _STILL_FAR
        if rejected and supported:
            kinds[at] = "monotone"
    return list(kinds)


# --- monotone --------------------------------------------------------------------------------------


def monotone_margin(column: Column, standard: bool = False) -> Monotone:
    """Normal scores at the column's values, no more than _KNOTS of them, as even as can be in the scores."""
    total, exact = column.total, column.has_single_values
    half = max(min(0.5 / column.rows, 0.5 * float(column.w.min() / total)), 1e-15)
    x, u = column.high[column.above], np.clip(column.levels, half, 1.0 - half)
    at_floor = float(column.weights[column.high < x[0]].sum()) if len(x) else 0.0
    floor = max(column.floor, column.unreached)  # one that is given is below all values
    if np.isfinite(floor):
        x, u = np.append(floor, x), np.append(max(at_floor / total, 0.5 * half), u)
    elif not exact:
        x, u = np.append(column.low[column.above][0], x), np.append(0.5 * min(half, u[0]), u)
    if column.is_negated:
        edge = 1.0 - max(float(column.weights[column.low > x[-1]].sum()) / total, 0.5 * half)
        x, u = np.append(x[u < edge], column.ceiling), np.append(u[u < edge], edge)  # the last run may reach up to it
    y = ndtri(u)
    rising = np.append(True, (np.diff(np.maximum.accumulate(y)) > 0.0) & (np.diff(x) > 0.0))
    x, y = x[rising], y[rising]
    if len(x) > _KNOTS:
        even = np.searchsorted(y, np.linspace(y[0], y[-1], _KNOTS))
        chosen = np.unique(np.concatenate([[0], even, [len(x) - 1]]))
        x, y = x[chosen], y[chosen]
    # Mean and spread of the column's own censored normal fit, of its logarithms where it is positive: the units of
    # latent values, in which the margin goes on beyond a limit. (0, 1) where the numbers allow none.
    positive = x[0] > 0.0

    def latent(values: FloatArray) -> FloatArray:
        return np.asarray(np.log(np.maximum(values, 1e-300))) if positive else values

    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread, _ = (float(each[0]) for each in censored_fits([column], [latent(column.x)], [latent]))
    if not (np.isfinite(mean) and _LEAST_UNIT * max(abs(mean), 1.0 / _MOST_UNIT) < spread < _MOST_UNIT):
        mean, spread = 0.0, 1.0
    cut_off = column.is_cut and not (x[0] == 0.0 and _has_true_zeros(column))
    cut_above = column.is_negated or bool(column.at_least.size)
    if standard:
        return Monotone(x, y, column.seen, spread * cut_off, spread * cut_above)
    return Monotone(x, mean + spread * y, column.seen, float(cut_off), float(cut_above))


def _has_true_zeros(column: Column) -> bool:
    """Whether zeros are those of rain, spend, counts or concentrations, with nothing below. No value is between them
    and the smallest one, where a normal distribution has many; or that distribution is surely off, and values are whole
    numbers, or few are zeros, or a lognormal distribution is likelier of the values above 0 than the upper part of a
    normal one; or it is far off, and they are nearly as spread as an exponential distribution."""
    fit = Profile([column])(np.ones(1))
    if _has_gap(column, fit, 0):
        return True
    distance = fit.distance(0)
    if distance < _FARTHEST * np.sqrt(column.rows_above / column.rows):  # it is shorter where less is seen
        return False
    if column.seen.step >= 1.0 or column.rows_above > (1.0 - _FEW_ZEROS) * column.rows:
        return True
    x, share = column.x, column.w / column.w.sum()
    mean = float(share @ x)
    spread = np.sqrt(float(share @ (x - mean) ** 2))
    far = distance > _LARGE * column.rows_above / np.sqrt(column.rows)
    if far and spread > _STEEP * mean:
        return True
    logs = np.log(x / spread)  # in units of the spread: the table's unit does not count
    lognormal = -0.5 * np.log(max(float(share @ logs**2) - float(share @ logs) ** 2, 1e-300)) - 0.5 - share @ logs

    def level(parameters: FloatArray) -> float:
        """Minus the mean log density of a normal distribution cut off at 0, of b / s and log s."""
        t, s = float(np.clip(parameters[0], -_FARTHEST_MEAN, _FARTHEST_MEAN)), np.exp(parameters[1])
        return float(parameters[1] + 0.5 * (s**-2.0 + (mean / spread / s - t) ** 2) + log_ndtr(t))

    first = [[mean / spread, 0.0], [mean / spread - 1.0, 0.0], [mean / spread, 0.3]]
    cut = minimize(level, first[0], method="Nelder-Mead", options={"initial_simplex": first})
    return bool(column.rows_above * (lognormal + cut.fun) > _LIKELIER)


def _has_gap(column: Column, fits: NormalFits, k: int) -> bool:
    """Whether no value is between a floor of 0 and the smallest one, where a normal distribution (fit k) has many
    (Poisson)."""
    if column.floor != 0.0 or not column.distinct or column.x[0] <= 1.5 * column.seen.step:
        return False
    if column.x[0] < _WIDE * fits.std[k]:
        return False
    between = np.diff(ndtr((np.array([0.0, column.x[0]]) - fits.mean[k]) / fits.std[k]))
    return bool(column.rows * between[0] > _GAP)


# --- exponents ---------------------------------------------------------------------------------------


def fit_exponents(columns: Sequence[Column]) -> list[BoxCox]:
    """The likeliest exponent of each column between 0 and 2, with its standard error."""
    if not columns:
        return []
    profile = Profile(columns)
    exponent = profile.likeliest(_EXPONENTS)
    found = profile(exponent)
    beside = [profile(exponent + step).level for step in (-_CURVATURE_STEP, _CURVATURE_STEP)]
    curvature = (2.0 * found.level - beside[0] - beside[1]) / _CURVATURE_STEP**2
    with np.errstate(divide="ignore"):
        stderr = np.where(curvature > 0.0, 1.0 / np.sqrt(np.maximum(curvature, 1e-300)), np.inf)
    return [replace(found.margin(k), exponent_stderr=float(error)) for k, error in enumerate(stderr)]


@dataclass(frozen=True, eq=False)
class NormalFits:
    """Columns under given exponents: the log-likelihood ``level``, latent ``mean`` and ``std``."""

    profile: Profile
    exponents: FloatArray
    level: FloatArray
    mean: FloatArray
    std: FloatArray

    def promised(self) -> FloatArray:
        """Twice the log-likelihood that the likeliest exponents would gain, by parabolas about these."""
        at = self.exponents
        left, right = (self.profile(at + side * _BESIDE).level for side in (-1.0, 1.0))
        slope, bend = 0.5 * (right - left), np.maximum(2.0 * self.level - left - right, 1e-9)
        return np.asarray(np.maximum(slope**2 / bend, 2.0 * (np.maximum(left, right) - self.level)))

    def margin(self, k: int) -> BoxCox:
        origin, unit = self.profile.places[k].tolist()
        return BoxCox(float(self.exponents[k]), origin, unit, seen=self.profile.columns[k].seen)

    def distance(self, k: int) -> float:
        """sqrt(n) max |F(x) - empirical F(x)| over the values above the floor."""
        column = self.profile.columns[k]
        x = column.x if column.has_single_values else column.high[column.above]
        fitted = ndtr((self.margin(k).to_latent(x) - self.mean[k]) / self.std[k])
        return float(np.sqrt(column.rows) * np.abs(fitted - column.levels).max())


class Profile:
    """The profile log-likelihood of exponents, one for each column.

    ``places``: (origin, unit) of columns. t = 1 at the median of what is seen, and 0 at 0 where all values are positive
    by nature. Else, with a floor of 0 or values on both sides of it, t = 1 at the lowest value that there may be."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns, self.places = columns, np.empty((len(columns), 2))
        self._seen, self._logs = list[FloatArray](), np.empty(len(columns))
        for k, c in enumerate(columns):
            half = (0.5 - 1e-9) * c.w.sum()  # where half of the rows end between two values, rounding must not choose
            origin, unit = 0.0, float(c.x[np.searchsorted(np.cumsum(c.w), half)])
            if not c.is_positive:
                lowest = min(c.lowest, *c.at_most[0], np.inf)
                unit = max(unit - lowest, 1e-9 * max(abs(lowest), float(c.x[-1] - c.x[0])))
                origin = lowest - unit
            self.places[k] = origin, unit
            self._seen.append(np.log(np.clip((c.x - origin) / unit, *_REACH)))
            self._logs[k] = float(c.w @ self._seen[k]) * c.rows / c.total

    def __call__(self, exponents: FloatArray) -> NormalFits:
        y = [
            np.expm1(e * logs) / e if e else logs  # boxcox, whose logarithms are at hand
            for e, logs in zip(exponents, self._seen, strict=True)
        ]

        def latent(k: int, x: FloatArray) -> FloatArray:
            return np.asarray(boxcox(np.clip((x - self.places[k, 0]) / self.places[k, 1], *_REACH), exponents[k]))

        mean, std, level = censored_fits(self.columns, y, [partial(latent, k) for k in range(len(y))])
        level += (exponents - 1.0) * self._logs
        origin, unit = self.places.T
        return NormalFits(self, exponents, level, origin + unit * (1.0 + mean), unit * std)

    def likeliest(self, between: tuple[float, float]) -> FloatArray:
        """The exponents: a grid, then golden sections, all columns at a time."""
        grid, n = np.linspace(*between, _GRID), len(self.columns)
        best = np.argmax([self(np.full(n, e)).level for e in grid], axis=0)
        low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, _GRID - 1)]
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = self(left).level, self(right).level
        for _ in range(_NARROWINGS):
            lower = at_left > at_right
            low, high = np.where(lower, low, left), np.where(lower, right, high)
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            fresh = self(np.where(lower, left, right)).level
            at_left, at_right = np.where(lower, fresh, at_right), np.where(lower, at_left, fresh)
        exponent = 0.5 * (low + high)
        for step in _PARABOLAS:
            # Where parabolas through the levels at and beside the exponents are highest, no farther than they hold.
            before, here, after = (self(exponent + side * step).level for side in (-1.0, 0.0, 1.0))
            bend = 2.0 * here - before - after
            move = np.where(bend > 0.0, 0.5 * (after - before) / np.where(bend > 0.0, bend, 1.0), 0.0)
            exponent = np.clip(exponent + step * np.clip(move, -2.0, 2.0), *between)
        return np.asarray(exponent)


# --- censored normal fits of columns --------------------------------------------------------------


def censored_fits(
    columns: Sequence[Column], seen: Sequence[FloatArray], latent: Sequence[Callable[[FloatArray], FloatArray]]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(mean, std, log-likelihood) of normal fits to latent values ``seen`` and cut-off cells; ``latent``: functions
    that make limits latent."""
    d = len(columns)
    weight, mean, spread = np.empty(d), np.empty(d), np.empty(d)
    limits: list[list[tuple[FloatArray, FloatArray]]] = []
    for k, (column, y, to_latent) in enumerate(zip(columns, seen, latent, strict=True)):
        w = column.w * (column.rows / column.total)
        weight[k] = w.sum()
        mean[k] = w @ y / weight[k]
        spread[k] = np.sqrt(max(w @ (y - mean[k]) ** 2 / weight[k], 1e-300))
        limits.append(
            [((to_latent(z) - mean[k]) / spread[k], own * (column.rows / column.total)) for z, own in column.limits]
        )
    sides = []  # of columns as two matrices, limits and weights; what is not there has no weight
    for side in zip(*limits, strict=True):
        padded = np.zeros((2, d, max(len(z) for z, _ in side)))
        for k, both in enumerate(side):
            padded[:, k, : len(both[0])] = both
        sides += [*padded]
    g, t, level = maximize_censored(weight, *sides)
    return mean + spread * g / t, spread / t, level - weight * np.log(spread)


# --- one column, for the choice of its margin -------------------------------------------------------


@dataclass(eq=False)
class Column:
    """A column's different values (or runs of them), their weights, and which of them are above floor, below ceiling.
    ``rows``: the effective number of all cells, cut-off ones included. ``at_most`` and ``at_least``: limits of cells
    that have limits of their own, and their weights (2 x number). ``unreached``: a floor that no value is at."""

    low: FloatArray
    high: FloatArray
    weights: FloatArray
    above: BoolArray
    floor: float
    ceiling: float
    rows: float
    seen: Seen
    at_most: FloatArray = field(default_factory=lambda: np.empty((2, 0)))
    at_least: FloatArray = field(default_factory=lambda: np.empty((2, 0)))
    unreached: float = -np.inf

    def __post_init__(self) -> None:
        self.x = np.asarray(0.5 * (self.low + self.high)[self.above])  # the middle of each run above the floor
        self.w = self.weights[self.above]
        self.total = float(self.weights.sum() + self.at_most[1].sum() + self.at_least[1].sum())
        self.rows_above = self.rows * float(self.w.sum() / self.total) if len(self.weights) else 0.0
        self.distinct = int(np.count_nonzero(self.above))
        self.has_single_values = bool((self.low == self.high).all())
        self.has_own_limits = bool(self.at_most.size or self.at_least.size)
        self.is_cut, self.is_negated = bool(np.isfinite(self.floor) or self.at_most.size), self.ceiling < np.inf
        # The floor, or the smallest value where there is none; is all of it above 0, limits included?
        self.lowest = self.floor if np.isfinite(self.floor) else float(self.low[self.above].min(initial=np.inf))
        self.is_positive = bool(min(self.lowest, np.inf, *self.at_most[0], *self.at_least[0]) > 0.0)
        self.has_enough = self.distinct >= 5 and self.rows_above >= _FEWEST
        # Limits of the cut-off cells, and their weights: at most, at least.
        weight = self.weights.sum() - self.w.sum()
        self.limits = [(*self.at_most,), (*self.at_least,)]
        if self.is_negated and weight > 0.0:
            self.limits[1] = np.array([self.ceiling]), np.array([weight])
        elif np.isfinite(self.floor) and weight > 0.0:
            self.limits[0] = np.array([self.floor]), np.array([weight])

    @classmethod
    def of(cls, column_values: ColumnValues, j: int, limits: Columns) -> Column:
        floor, ceiling = float(limits.floor[j]), float(limits.ceiling[j])
        counted, like = column_values.columns[j], np.empty(0, dtype=column_values.stored_as)
        low, high = counted.runs
        lowest, edge = seen_above(np.array([floor]), like)[0], -seen_above(np.array([-ceiling]), like)[0]
        unreached = -np.inf
        if counted.ends[0] > lowest:
            # A floor that no value reaches is no floor; one at 0 or below, of positive values, not even a limit.
            floor, unreached = -np.inf, -np.inf if floor <= 0.0 < counted.ends[0] else floor
        at_most, at_least = (
            np.stack([0.5 * np.add(*each.runs), each.weights])
            for each in (column_values.at_most[j], column_values.at_least[j])
        )
        seen = (
            Seen() if len(low) == 0 else Seen(*counted.ends, _step_of(counted, np.finfo(column_values.stored_as).eps))
        )
        if at_most.size or at_least.size:  # what was cut off may lie anywhere below, or above
            seen = Seen(-np.inf if at_most.size else seen.low, max([seen.high, *at_least[0]]), seen.step)
        above = (low > lowest) & (high < edge)
        given = low, high, counted.weights, above, floor, ceiling, float(column_values.rows[j]), seen, at_most, at_least
        return cls(*given, unreached)

    @cached_property
    def levels(self) -> FloatArray:
        """The empirical distribution function at the values above the floor, at the middle of each jump; of runs of
        values, at their upper ends."""
        jump = 0.5 if self.has_single_values else 1.0
        x = self.x
        outside = bool(len(x) and (self.at_most[0] <= x[0]).all() and (self.at_least[0] >= x[-1]).all())
        if not self.has_own_limits or outside:  # no limit of single cells is among the values seen
            up = self.at_most[1].sum() + np.cumsum(self.weights) - (1.0 - jump) * self.weights
            return np.asarray(up[self.above] / self.total)
        before, mass = empirical_distribution(self)
        return np.asarray(before + jump * mass)

    def without_extremes(self, share: float) -> Column:
        """The same with the largest values, and the smallest unless they are cut off already, cut off where that share
        of the rows is: how far out they lie then does not count."""
        if self.has_own_limits or len(self.low) < 2:
            return self
        up = np.cumsum(self.weights) / self.total
        first = 0 if self.is_cut else int(np.searchsorted(up, share))
        last = len(up) - 1 if self.is_negated else int(np.searchsorted(up, 1.0 - share))
        if first >= last or not self.above[first : last + 1].any():
            return self
        kept = slice(first, last + 1)
        below, above = self.weights[:first].sum(), self.weights[last + 1 :].sum()
        trimmed = replace(
            self,
            low=self.low[kept],
            high=self.high[kept],
            weights=self.weights[kept],
            above=self.above[kept],
            at_most=np.array([[self.low[first]], [below]]) if below > 0.0 else self.at_most,
            at_least=np.array([[self.high[last]], [above]]) if above > 0.0 else self.at_least,
        )
        trimmed.is_positive, trimmed.is_cut = self.is_positive, self.is_cut  # as all of its values have it
        return trimmed


def empirical_distribution(column: Column) -> tuple[FloatArray, FloatArray]:
    """(mass below, mass at) each value seen, where cells have limits of their own: Turnbull's (1976) estimate. The most
    likely masses by self-consistency: a cell "at most l" counts for the values up to l, and for what is below all of
    them, as the masses say."""
    x, w, n = column.x, column.w, column.total
    places = [np.searchsorted(x, column.at_most[0], side="right"), np.searchsorted(x, column.at_least[0], side="left")]
    mass = np.full(len(x) + 2, 1.0 / (len(x) + 2))  # below all values, at each, above all
    mass[0] *= float(column.at_most.size > 0)
    mass[-1] *= float(column.at_least.size > 0)
    for _ in range(_MOST_ROUNDS):
        up = np.cumsum(mass)
        counted = np.concatenate([[0.0], w, [0.0]])
        if column.at_most.size:
            each = np.bincount(places[0], column.at_most[1] / np.maximum(up[places[0]], 1e-300), len(mass))
            counted += mass * np.cumsum(each[::-1])[::-1]
        if column.at_least.size:
            left = np.maximum(up[-1] - np.concatenate([[0.0], up])[places[1] + 1], 1e-300)
            counted += mass * np.cumsum(np.bincount(places[1] + 1, column.at_least[1] / left, len(mass)))
        counted /= n
        moved, mass = float(np.abs(counted - mass).max()), counted
        if moved < _CONVERGED:
            break
    return np.cumsum(mass)[:-2], mass[1:-1]


def _step_of(counted: ValueCounts, precision: Any) -> float:
    """What all values are multiples of, up to their precision: the least step between them where that is whole,
    or one over a whole number; or 1, or a power of ten down to 1e-4. 0 where there is none."""
    if counted.shift == 0:
        values, sizes = counted.runs[0], np.abs(counted.runs[0])
        tried = [1.0, 0.1, 0.01, 1e-3, 1e-4]
        least = float(np.diff(values).min()) if len(values) > 1 else 0.0
        if least > 0.0:
            whole, parts = float(np.rint(least)), float(np.rint(1.0 / least))
            if whole >= 1.0 and abs(least - whole) < 1e-6 * whole:
                tried.insert(0, whole)
            elif parts >= 1.0 and abs(1.0 / least - parts) < 1e-6 * parts:
                tried.insert(0, 1.0 / parts)
        for step in tried:
            resolved = step > 100.0 * precision * sizes.max()  # what is finer, the numbers do not resolve
            if resolved and (np.abs(values - np.rint(values / step) * step) <= 2.0 * precision * sizes).all():
                return step
    return 1.0 if counted.whole else 0.0
