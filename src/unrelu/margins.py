"""Margins of columns: x = f(y) above its floor, with f increasing and y normal. Frozen, compared by value.

A margin turns values in the user's units into latent ones and back. Both work cell by cell; NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Annotated, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import boxcox, inv_boxcox

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.limits import per_column
from unrelu.validation import column_label, suggestion

__all__ = ["BoxCox", "Log", "Margin", "Monotone", "Normal", "Seen"]

_SMALLEST = 1e-300  # what a logarithm is taken of, at least
_LARGEST = 1e300  # what an exponential is, at most
_NEAREST, _FARTHEST = 1e-9, 1e12  # units from the origin between which a Box-Cox margin has values
_IMPOSSIBLE = -1e4  # log slope where a Box-Cox margin is not defined: no density
_MOST = 10.0  # times the largest value seen: no mean or draw of a positive column is above it
_SLOPES = 33  # knots between which the slope of a monotone margin changes: more would follow the noise


@dataclass(frozen=True)
class Seen:
    """The range in which a column's values were seen, and the step that all of them are multiples of (0: none).

    >>> Seen(0.0, 5.0, 1.0).fitted(np.array([2.4, 9.0])), Seen(0.0, 5.0, 0.1).fitted(np.array([0.31]))
    (array([2., 5.]), array([0.3]))
    >>> Seen(0.0, 5.0, 1.0).fitted(np.array([0.2, 1.2]), floor=0.0)
    array([1., 1.])
    """

    low: float = -np.inf
    high: float = np.inf
    step: Annotated[float, "finite"] = 0.0

    @property
    def most(self) -> float:
        """The largest value that a mean or a draw of a positive column may have."""
        return _MOST * self.high if self.high > 0.0 else np.inf

    def fitted(self, x: FloatArray, floor: float = -np.inf, ceiling: float = np.inf) -> FloatArray:
        """Values rounded to the step, within the range; values off the limits are not rounded onto them."""
        if self.step > 0.0:
            steps = np.round(x / self.step)
            steps = np.where((steps * self.step <= floor) & (x > floor), steps + 1.0, steps)
            steps = np.where((steps * self.step >= ceiling) & (x < ceiling), steps - 1.0, steps)
            # Divided by a whole number: 3 / 10 is the double 0.3, and 3 x 0.1 is not.
            x = steps * self.step if self.step >= 1.0 else steps / np.round(1.0 / self.step)
        return np.clip(x, self.low, self.high) + 0.0  # no -0.0

    def merge(self, other: Seen) -> Seen:
        """The range of both, and the finer step; 0 where one has none."""
        return Seen(min(self.low, other.low), max(self.high, other.high), min(self.step, other.step))


class Margin(Protocol):
    """One column's f: ``from_latent(y)`` is f, ``to_latent(x)`` its inverse; ``kind``, ``n_parameters``, ``seen``.

    >>> Log().kind, Log().to_latent([1.0]), Log().from_latent([0.0])
    ('log', array([0.]), array([1.]))
    """

    @property
    def kind(self) -> str: ...

    @property
    def n_parameters(self) -> int: ...

    @property
    def seen(self) -> Seen: ...

    def to_latent(self, x: ArrayLike) -> FloatArray: ...

    def from_latent(self, y: ArrayLike) -> FloatArray: ...

    def log_slope(self, x: ArrayLike) -> FloatArray:
        """log dy/dx: what a log density of y gains as one of x."""


@dataclass(frozen=True)
class Normal:
    """x = y.

    >>> Normal().to_latent([1.0, 2.0])
    array([1., 2.])
    """

    seen: Seen = Seen()

    kind = "normal"
    n_parameters = 0

    def to_latent(self, x: ArrayLike) -> FloatArray:
        return np.array(x, dtype=np.float64)

    def from_latent(self, y: ArrayLike) -> FloatArray:
        return np.array(y, dtype=np.float64)

    def log_slope(self, x: ArrayLike) -> FloatArray:
        return np.where(np.isnan(np.asarray(x, dtype=np.float64)), np.nan, 0.0)


@dataclass(frozen=True)
class Log:
    """x = exp(y), for columns of positive values with a floor above 0, or none; at most ten times the largest seen.

    >>> Log().from_latent(Log().to_latent([1.0, 10.0]))
    array([ 1., 10.])
    """

    seen: Seen = Seen()

    kind = "log"
    n_parameters = 0

    def to_latent(self, x: ArrayLike) -> FloatArray:
        return np.asarray(np.log(np.maximum(np.asarray(x, dtype=np.float64), _SMALLEST)))

    def from_latent(self, y: ArrayLike) -> FloatArray:
        highest = np.log(min(self.seen.most, _LARGEST))
        return np.asarray(np.exp(np.clip(np.asarray(y, dtype=np.float64), np.log(_SMALLEST), highest)))

    def log_slope(self, x: ArrayLike) -> FloatArray:
        return -self.to_latent(x)


@dataclass(frozen=True)
class BoxCox:
    """y = origin + unit (1 + (t^exponent - 1)/exponent), t = (x - origin)/unit, with log t for an exponent of 0.

    The power transform of Box and Cox (1964) in units in which it leaves values near origin + unit as they are: y has
    the user's units, and an exponent of 1 is the normal margin. ``exponent_stderr``: NaN where the exponent was given.

    >>> BoxCox(0.5, 0.0, 2.0).to_latent([2.0, 8.0])
    array([2., 6.])
    """

    exponent: Annotated[float, "finite"]
    origin: Annotated[float, "finite"] = 0.0
    unit: Annotated[float, "finite"] = 1.0
    exponent_stderr: float = field(default=np.nan, compare=False)
    seen: Seen = Seen()

    kind = "boxcox"
    n_parameters = 1

    def __post_init__(self) -> None:
        if not all(np.isfinite(v) for v in (self.exponent, self.origin, self.unit)) or self.unit <= 0.0:
            raise InvalidParameterError(
                f"A Box-Cox margin needs a finite exponent and origin and a positive unit, got"
                f" exponent={self.exponent!r}, origin={self.origin!r}, unit={self.unit!r}."
            )

    def _distance(self, x: ArrayLike) -> FloatArray:
        return np.asarray(np.maximum((np.asarray(x, dtype=np.float64) - self.origin) / self.unit, _SMALLEST))

    def to_latent(self, x: ArrayLike) -> FloatArray:
        return np.asarray(self.origin + self.unit * (1.0 + boxcox(self._distance(x), self.exponent)), dtype=np.float64)

    def from_latent(self, y: ArrayLike) -> FloatArray:
        y = (np.asarray(y, dtype=np.float64) - self.origin) / self.unit - 1.0
        farthest = min((self.seen.most - self.origin) / self.unit, _FARTHEST)
        inside = np.clip(y, boxcox(_NEAREST, self.exponent), boxcox(farthest, self.exponent))
        distance = np.maximum(inv_boxcox(inside, self.exponent), _NEAREST)  # which rounding may make 0
        return np.asarray(self.origin + self.unit * distance, dtype=np.float64)

    def log_slope(self, x: ArrayLike) -> FloatArray:
        slope = (self.exponent - 1.0) * np.log(self._distance(x))
        return np.asarray(np.where(np.asarray(x) <= self.origin, _IMPOSSIBLE, slope))


@dataclass(frozen=True, eq=False)
class Monotone:
    """Any increasing f: ``scores`` are the y of ``values``, with straight lines between them.

    A margin that was learned has the mean and spread of the column's own normal fit (of logarithms where the column is
    positive), so that y has the units of the column, or of its logarithm. Beyond the first and last value f is
    constant, unless values are cut off there: f then falls by ``below``, or rises by ``above``, for each unit of y, on
    a log scale where the first value is positive, so that positive columns stay positive.

    >>> values, scores = np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 2.0])
    >>> margin = Monotone(values, scores, below=float(np.log(2.0)))
    >>> margin.to_latent([1.5, 0.5]), margin.from_latent([-1.0, 0.5, 9.0])
    (array([ 0.5, -1. ]), array([0.5, 1.5, 4. ]))
    """

    values: Annotated[FloatArray, "floats n"]
    scores: Annotated[FloatArray, "floats n"]
    seen: Seen = field(default_factory=Seen)
    below: Annotated[float, "finite"] = 0.0
    above: Annotated[float, "finite"] = 0.0

    kind = "monotone"

    def __post_init__(self) -> None:
        rising = self.values.shape == self.scores.shape and len(self.values) > 1
        rising = rising and bool((np.diff(self.values) > 0.0).all() and (np.diff(self.scores) > 0.0).all())
        if not rising or not (np.isfinite(self.values).all() and np.isfinite(self.scores).all()):
            raise InvalidDataError("A monotone margin needs at least two values and scores, finite and rising.")
        if not (0.0 <= self.below < np.inf and 0.0 <= self.above < np.inf):
            raise InvalidDataError(
                "A monotone margin continues beyond its first and last value by finite numbers of 0 or more."
            )

    @property
    def n_parameters(self) -> int:
        return len(self.values)

    def to_latent(self, x: ArrayLike) -> FloatArray:
        x = np.asarray(x, dtype=np.float64)
        return self.continued(x, np.asarray(np.interp(x, self.values, self.scores)))

    def continued(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The latent values ``y`` of x, continued beyond the first and the last value."""
        for end, rate, outside in ((0, self.below, x < self.values[0]), (-1, self.above, x > self.values[-1])):
            if rate > 0.0 and outside.any():
                value = self.values[end]
                positive = self.values[0] > 0.0
                distance = np.log(np.maximum(x, _SMALLEST) / value) if positive else x - value
                y = np.where(outside, self.scores[end] + distance / rate, y)
        return np.asarray(y)

    def from_latent(self, y: ArrayLike) -> FloatArray:
        y = np.asarray(y, dtype=np.float64)
        x = np.interp(y, self.scores, self.values)
        if self.below == 0.0 == self.above:  # f is constant there
            return np.asarray(x)
        distance = np.zeros_like(y)
        if self.below > 0.0:
            distance += self.below * np.minimum(y - self.scores[0], 0.0)
        if self.above > 0.0:
            distance += self.above * np.maximum(y - self.scores[-1], 0.0)
        if self.values[0] > 0.0:
            most = min(max(self.seen.most, float(self.values[-1])), _LARGEST)
            near = np.minimum(distance, np.log(most) - np.log(self.values[0]))
            return np.asarray(np.clip(x * np.exp(near), min(_SMALLEST, self.values[0]), most))
        return np.asarray(x + distance)

    def log_slope(self, x: ArrayLike) -> FloatArray:
        grid = np.linspace(self.scores[0], self.scores[-1], _SLOPES)
        at, first = np.unique(self.from_latent(grid), return_index=True)
        slope = np.log(np.diff(grid[first])) - np.log(np.diff(at))  # its logarithm between two knots is that midway
        middle = 0.5 * (grid[first][1:] + grid[first][:-1])
        return np.asarray(np.interp(self.to_latent(x), middle, slope))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Monotone):
            return NotImplemented
        same = np.array_equal(self.values, other.values) and np.array_equal(self.scores, other.scores)
        return same and (self.seen, self.below, self.above) == (other.seen, other.below, other.above)

    def __hash__(self) -> int:
        return hash((self.seen, float(self.values[-1]), float(self.scores[0]), len(self.values)))


Margins: TypeAlias = tuple[Margin, ...]
WORDS = ("normal", "log", "boxcox", "monotone", "auto")
KINDS: dict[str, type[Any]] = {each.kind: each for each in (Normal, Log, BoxCox, Monotone)}  # that files can hold


# --- margins= as given ----------------------------------------------------------------------------


def margin_requests(given: Any, n_features: int, names: Sequence[str] | None = None) -> list[str | Margin]:
    """A word or a margin for each column, from one for all, a list or a dict by name, as floors are given."""
    items, _ = per_column("margins", given, n_features, names, "auto")
    for column, item in enumerate(items):
        if isinstance(item, str) and item in WORDS:
            continue
        if isinstance(item, str):
            raise InvalidParameterError(
                f"margins of {column_label(column, names)}: unknown margin {item!r}. {suggestion(item, WORDS)}",
                parameter="margins",
            )
        if not is_margin(item):
            raise InvalidParameterError(
                f"margins of {column_label(column, names)} must be one of {', '.join(WORDS)} or an object of"
                f" unrelu.margins, got {item!r}."
            )
    return items


def is_margin(item: object) -> bool:
    """Whether it is an object of this module, or has the same methods."""
    needed = ("to_latent", "from_latent", "log_slope", "kind")
    made = not isinstance(item, type) and isinstance(getattr(item, "seen", None), Seen)
    return made and all(hasattr(item, name) for name in needed)


def refuse_outside(
    margin: Margin, limits: Sequence[float], smallest: float, label: str, by_parts: bool = False
) -> None:
    """Raise InvalidDataError where a limit, or the smallest value between limits, is outside a margin's domain.

    A Box-Cox margin reaches its origin only with an exponent above 0, and only a limit can be there. ``by_parts``:
    "auto" chose the margin by the first rows, and no longer helps.
    """
    edge = 0.0 if margin.kind == "log" else getattr(margin, "origin", -np.inf)
    what = "has no logarithm" if margin.kind == "log" else f"is not above the margin's origin {edge:g}"
    other = "learn all parts with margins='normal' for it" if by_parts else "use margins='auto' for it"
    advice = other if margin.kind == "log" else "give it another margin"
    for limit in limits:
        if np.isfinite(limit) and (limit < edge or (limit == edge and getattr(margin, "exponent", 0.0) <= 0.0)):
            raise InvalidDataError(
                f"margins={margin.kind!r} of {label}: its limit {limit:g} {what}. Give the floor that its lowest values"
                f" stand for, or {advice}."
            )
    if smallest <= edge:
        raise InvalidDataError(
            f"margins={margin.kind!r} of {label}: a value of {smallest:g} {what}. Correct it or mark it as missing with"
            f" NaN, or {advice}."
        )


def same_margins(first: Margins | None, second: Margins | None) -> bool:
    """Whether they are the same but for the range that was seen."""
    if first is None or second is None:
        return first is second
    return [replace(margin, seen=Seen()) for margin in first] == [replace(margin, seen=Seen()) for margin in second]  # type: ignore[type-var]


def seen_by_all(parts: Sequence[Margins | None]) -> Margins | None:
    """Margins that differ in the range that was seen at most, with the range of all of them."""
    columns = zip(*(part for part in parts if part is not None), strict=True)
    merged = [replace(each[0], seen=reduce(Seen.merge, (margin.seen for margin in each))) for each in columns]
    return tuple(merged) or None


def latent_limits(margins: Margins, floor: FloatArray, ceiling: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Floors and ceilings of y, infinite where x has none."""
    low, high = floor.copy(), ceiling.copy()
    for j, margin in enumerate(margins):
        low[j] = float(margin.to_latent(floor[j])) if np.isfinite(floor[j]) else -np.inf
        high[j] = float(margin.to_latent(ceiling[j])) if np.isfinite(ceiling[j]) else np.inf
    return low, high


def from_latent(margins: Margins, y: FloatArray) -> FloatArray:
    """Rows of y as rows of f(y), not cut off."""
    return np.column_stack([margin.from_latent(y[:, j]) for j, margin in enumerate(margins)])


def to_latent(margins: Margins, x: FloatArray, floor: FloatArray, ceiling: FloatArray) -> FloatArray:
    """Rows of x as rows of y. A cell at its limit or beyond holds exactly the latent limit."""
    low, high = latent_limits(margins, floor, ceiling)
    y = np.empty(x.shape)
    for j, margin in enumerate(margins):
        y[:, j] = np.clip(margin.to_latent(x[:, j]), low[j], high[j])
    return y


def cut_from_latent(
    margins: Margins, y: FloatArray, floor: FloatArray, ceiling: FloatArray, as_seen: bool
) -> FloatArray:
    """Rows of y, cut off, as rows of x, in place. A cell at its latent limit holds exactly its limit.

    ``as_seen``: values are within the range that was seen, and multiples of its step; values above the floor are not
    rounded to it, and no cell is at a limit at which none was seen.
    """
    low, high = latent_limits(margins, floor, ceiling)
    for j, margin in enumerate(margins):
        floored, full = y[:, j] <= low[j], y[:, j] >= high[j]
        seen = margin.seen if as_seen else Seen()
        limits = float(floor[j]), float(ceiling[j])
        y[:, j] = np.clip(seen.fitted(margin.from_latent(y[:, j]), *limits), *limits)
        if seen.low <= floor[j] or np.isclose(seen.low, floor[j], rtol=1e-6, atol=0.0):
            y[floored, j] = floor[j]
        if seen.high >= ceiling[j] or np.isclose(seen.high, ceiling[j], rtol=1e-6, atol=0.0):
            y[full, j] = ceiling[j]
    return y
