"""Shapes of columns: x = f(y) above its floor, with f increasing and y normal. Frozen, compared by value.

A shape turns values in the user's units into latent ones and back. Both work cell by cell; NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import boxcox, inv_boxcox

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.limits import per_column
from unrelu.validation import column_label, suggestion

_SMALLEST = 1e-300  # what a logarithm is taken of, at least
_FARTHEST = 1e12  # units from the origin that a power reaches, at most
_SLOPES = 33  # knots between which the slope of a free shape changes: more would follow the noise


@dataclass(frozen=True)
class Seen:
    """Where the values of a column were seen, and the step that all of them are multiples of (0: none)."""

    low: float = -np.inf
    high: float = np.inf
    step: float = 0.0

    def fitted(self, x: FloatArray) -> FloatArray:
        """Values rounded to the step, within the range.

        >>> Seen(0.0, 5.0, 1.0).fitted(np.array([2.4, 9.0]))
        array([2., 5.])
        """
        rounded = np.round(x / self.step) * self.step if self.step > 0.0 else x
        return np.clip(rounded, self.low, self.high)


class Shape(Protocol):
    """One column's f."""

    @property
    def kind(self) -> str: ...

    @property
    def n_parameters(self) -> int: ...

    @property
    def seen(self) -> Seen: ...

    def to_latent(self, x: ArrayLike) -> FloatArray: ...

    def from_latent(self, y: ArrayLike) -> FloatArray: ...

    def log_slope(self, x: ArrayLike) -> FloatArray:
        """log dy/dx: what a density in latent units gains in the user's."""
        ...


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
        return np.zeros(np.shape(x))


@dataclass(frozen=True)
class Log:
    """x = exp(y), for columns of positive values with a floor above 0, or none.

    >>> Log().from_latent(Log().to_latent([1.0, 10.0]))
    array([ 1., 10.])
    """

    seen: Seen = Seen()

    kind = "log"
    n_parameters = 0

    def to_latent(self, x: ArrayLike) -> FloatArray:
        return np.asarray(np.log(np.maximum(np.asarray(x, dtype=np.float64), _SMALLEST)))

    def from_latent(self, y: ArrayLike) -> FloatArray:
        return np.asarray(np.exp(np.asarray(y, dtype=np.float64)))

    def log_slope(self, x: ArrayLike) -> FloatArray:
        return -self.to_latent(x)


@dataclass(frozen=True)
class Power:
    """y = origin + unit (1 + (t^exponent - 1)/exponent), t = (x - origin)/unit, with log t for an exponent of 0.

    The power transform of Box and Cox (1964) in units in which it leaves values near origin + unit as they are: y has
    the user's units, and an exponent of 1 is the normal shape. ``exponent_stderr``: NaN where the exponent was given.

    >>> Power(0.5, 0.0, 2.0).to_latent([2.0, 8.0])
    array([2., 6.])
    """

    exponent: float
    origin: float = 0.0
    unit: float = 1.0
    exponent_stderr: float = np.nan
    seen: Seen = Seen()

    kind = "power"
    n_parameters = 1

    def __post_init__(self) -> None:
        if not all(np.isfinite(v) for v in (self.exponent, self.origin, self.unit)) or self.unit <= 0.0:
            raise InvalidParameterError(
                f"A power shape needs a finite exponent and origin and a positive unit, got exponent={self.exponent!r},"
                f" origin={self.origin!r}, unit={self.unit!r}."
            )

    def _distance(self, x: ArrayLike) -> FloatArray:
        return np.asarray(np.maximum((np.asarray(x, dtype=np.float64) - self.origin) / self.unit, _SMALLEST))

    def to_latent(self, x: ArrayLike) -> FloatArray:
        return np.asarray(self.origin + self.unit * (1.0 + boxcox(self._distance(x), self.exponent)), dtype=np.float64)

    def from_latent(self, y: ArrayLike) -> FloatArray:
        y = (np.asarray(y, dtype=np.float64) - self.origin) / self.unit - 1.0
        edge = boxcox(_FARTHEST if self.exponent < 0.0 else _SMALLEST, self.exponent)
        inside = np.minimum(y, edge) if self.exponent < 0.0 else np.maximum(y, edge)
        return np.asarray(self.origin + self.unit * inv_boxcox(inside, self.exponent), dtype=np.float64)

    def log_slope(self, x: ArrayLike) -> FloatArray:
        return (self.exponent - 1.0) * np.log(self._distance(x))


@dataclass(frozen=True, eq=False)
class Free:
    """Any increasing f: y is standard normal, and ``scores`` are its values at ``values``, lines between them.

    Beyond the last value, and below the first, f stays where it is.

    >>> shape = Free(np.array([0.0, 1.0, 10.0]), np.array([-0.5, 0.0, 2.0]))
    >>> shape.to_latent([0.5, 5.5]), shape.from_latent([1.0])
    (array([-0.25,  1.  ]), array([5.5]))
    """

    values: FloatArray
    scores: FloatArray
    seen: Seen = field(default_factory=Seen)

    kind = "free"

    def __post_init__(self) -> None:
        rising = self.values.shape == self.scores.shape and len(self.values) > 1
        rising = rising and bool((np.diff(self.values) > 0.0).all() and (np.diff(self.scores) > 0.0).all())
        if not rising or not (np.isfinite(self.values).all() and np.isfinite(self.scores).all()):
            raise InvalidDataError("A free shape needs at least two values and scores, finite and rising.")

    @property
    def n_parameters(self) -> int:
        return len(self.values)

    def to_latent(self, x: ArrayLike) -> FloatArray:
        return np.asarray(np.interp(np.asarray(x, dtype=np.float64), self.values, self.scores))

    def from_latent(self, y: ArrayLike) -> FloatArray:
        return np.asarray(np.interp(np.asarray(y, dtype=np.float64), self.scores, self.values))

    def log_slope(self, x: ArrayLike) -> FloatArray:
        from scipy.interpolate import PchipInterpolator

        grid = np.linspace(self.scores[0], self.scores[-1], _SLOPES)
        at, first = np.unique(self.from_latent(grid), return_index=True)
        if len(at) < 2:
            return np.zeros(np.shape(x))
        inside = np.clip(np.asarray(x, dtype=np.float64), at[0], at[-1])
        slope = PchipInterpolator(at, grid[first]).derivative()(inside)
        return np.asarray(np.log(np.maximum(slope, _SMALLEST)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Free):
            return NotImplemented
        same = np.array_equal(self.values, other.values) and np.array_equal(self.scores, other.scores)
        return same and self.seen == other.seen

    def __hash__(self) -> int:
        return hash((self.seen, float(self.values[-1]), float(self.scores[0]), len(self.values)))


Shapes: TypeAlias = tuple[Shape, ...]
WORDS = ("normal", "log", "power", "free", "auto")


def shape_requests(given: Any, n_features: int, names: Sequence[str] | None = None) -> list[str | Shape]:
    """What is asked for each column, a word or a shape; as floors are given: one for all, a list, a dict by name.

    >>> shape_requests({"As": "log"}, 2, ["As", "Pb"])
    ['log', 'normal']
    """
    items, _ = per_column("shape", given, n_features, names, "normal")
    for column, item in enumerate(items):
        if isinstance(item, str) and item in WORDS:
            continue
        if isinstance(item, str):
            raise InvalidParameterError(
                f"shape of {column_label(column, names)}: unknown shape {item!r}. {suggestion(item, WORDS)}"
            )
        if not all(hasattr(item, needed) for needed in ("to_latent", "from_latent", "log_slope", "kind")):
            raise InvalidParameterError(
                f"shape of {column_label(column, names)} must be one of {', '.join(WORDS)} or an object of"
                f" unrelu.shapes, got {item!r}."
            )
    return items


def latent_limits(shapes: Shapes, floor: FloatArray, ceiling: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Floors and ceilings of y, infinite where x has none."""
    low, high = floor.copy(), ceiling.copy()
    for j, shape in enumerate(shapes):
        low[j] = float(shape.to_latent(floor[j])) if np.isfinite(floor[j]) else -np.inf
        high[j] = float(shape.to_latent(ceiling[j])) if np.isfinite(ceiling[j]) else np.inf
    return low, high


def to_latent(shapes: Shapes, x: FloatArray, floor: FloatArray, ceiling: FloatArray) -> FloatArray:
    """Rows of x as rows of y. What is at a limit or beyond holds exactly the latent limit."""
    low, high = latent_limits(shapes, floor, ceiling)
    y = np.empty(x.shape)
    for j, shape in enumerate(shapes):
        y[:, j] = np.clip(shape.to_latent(x[:, j]), low[j], high[j])
    return y
