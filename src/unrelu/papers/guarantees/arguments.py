"""Arguments of the theorems: numbers within their domains, and distributions of a bias.

A distribution is a frozen distribution of scipy.stats. Extremes of a density over an interval come from Chebyshev
interpolants, halved until resolved, where kinks, jumps, poles and regions without density end pieces of their own;
expectations come from quadrature between quantiles.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev, chebpts2, chebvander
from scipy import integrate, stats

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.validation import listed

Density = Any  # a frozen continuous distribution of scipy.stats
Mean = Callable[..., float]  # E[f(b)] of f; ``cuts`` are where f bends, ``small`` is an error that does not matter

_BELOW_0 = math.nextafter(0.0, -1.0)

NODES = chebpts2(25)
_TO_COEFFICIENTS = np.linalg.inv(chebvander(NODES, 24))
_TO_HALF = np.linalg.inv(chebvander(NODES[::2], 12))
_HALVINGS = 20
_MOST_PIECES = 3000
_MOST_TO_LOCATE = 400  # for places where a function is computed once more
_RESOLVED = 2e-14  # of the scale: the last coefficients of a piece that needs no further halving
_AGREED = 1e-8  # or slopes that interpolants of degrees 24 and 12 agree on so well: all to be had if p has noise
_JUMP = 1e-3  # in log p, within a millionth of the piece we began with
_EPSILON = float(np.finfo(np.float64).eps)
_Function = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

_LEVELS = (1e-3, 0.05, 0.25, 0.5)  # quantiles that cut the range of a bias, from both ends
_MOST_POINTS = 2_000_000
_ACCURACY, _SMALL = 1e-6, 1e-13
_BIASES = "Give a number, an array of biases, or a frozen distribution of scipy.stats, such as scipy.stats.norm(1, 2)."
_CONTINUOUS = "Give a frozen continuous distribution of scipy.stats, such as scipy.stats.norm(2.0, 1.0)."


def number(name: str, value: Any, domain: str, *, above: float, below: float = math.inf, closed: bool = False) -> float:
    """``value`` as a float if above < value < below (value <= below if ``closed``); ``domain`` is that in words."""
    try:
        real = float(value)
    except (TypeError, ValueError):
        raise InvalidParameterError(f"{name} must be {domain}, got {value!r}.") from None
    if not (above < real < below or (closed and real == below)):
        raise InvalidParameterError(f"{name} must be {domain}, got {value!r}.")
    return real


def between_0_and_1(name: str, value: Any) -> float:
    return number(name, value, "above 0 and below 1", above=0.0, below=1.0)


def positive(name: str, value: Any) -> float:
    return number(name, value, "above 0 and finite", above=0.0)


def not_negative(name: str, value: Any, domain: str = "at least 0 and finite", below: float = math.inf) -> float:
    return number(name, value, domain, above=_BELOW_0, below=below, closed=math.isfinite(below))


def whole(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise InvalidParameterError(f"{name} must be an integer of {least} or more, got {value!r}.")
    return int(value)


def samples(count: float) -> int:
    """A number of samples, rounded up; rounding error alone must not add one."""
    if not math.isfinite(count):
        raise InvalidParameterError("The number of samples is beyond double precision (1.8e308): no table has so many.")
    nearest = round(count)
    return max(nearest if abs(count - nearest) <= 1e-12 * count else math.ceil(count), 1)


# --- distributions of a bias -----------------------------------------------------------------------------


def _support(p: Any, what: str, example: str) -> tuple[float, float]:
    """The ends of one frozen distribution, all its parameters given and valid."""
    families = stats.rv_continuous | stats.rv_discrete
    if isinstance(p, families):
        raise InvalidParameterError(f"p is the family {p.name!r} without parameters. {example}")
    if not isinstance(getattr(p, "dist", None), families):
        raise InvalidParameterError(f"p must be a distribution {what}, got {type(p).__name__}. {example}")
    ends = np.asarray(p.support(), dtype=np.float64)
    if ends.shape != (2,):
        raise InvalidParameterError(f"p stands for {ends[0].size} distributions; take one of them. {example}")
    one_point = isinstance(p.dist, stats.rv_discrete) and ends[0] == ends[1]
    if not (ends[0] < ends[1] or one_point):
        words = listed([f"{value!r}" for value in p.args] + [f"{name}={value!r}" for name, value in p.kwds.items()])
        raise InvalidParameterError(f"p, {p.dist.name}({words}), has parameters outside their domain. {example}")
    return float(ends[0]), float(ends[1])


def density_of(p: Any) -> Density:
    """``p`` if it is one distribution with a density."""
    if isinstance(getattr(p, "dist", None), stats.rv_discrete):
        raise InvalidParameterError(f"p is discrete ({p.dist.name}) and has no density. {_CONTINUOUS}")
    _support(p, "with a density", _CONTINUOUS)
    return p


# --- a density on an interval, piece by piece ---------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A function on [start, stop]: its values at Chebyshev's points, and where it is smooth its interpolant."""

    start: float
    stop: float
    values: FloatArray
    interpolant: Chebyshev | None = None
    slope_noise: float = math.inf

    def places(self, t: FloatArray) -> FloatArray:
        """x of t in [-1, 1]; the ends exactly."""
        x = 0.5 * (self.start + self.stop) + 0.5 * (self.stop - self.start) * t
        return np.where(t == -1.0, self.start, np.where(t == 1.0, self.stop, x))

    def slopes(self, t: FloatArray) -> FloatArray:
        """Derivatives in x; none of a piece that is not smooth."""
        if self.interpolant is None:
            return np.empty(0)
        return np.asarray(self.interpolant.deriv()(t) * (2.0 / (self.stop - self.start)), dtype=np.float64)

    def candidates(self, *functions: Callable[[Chebyshev], Chebyshev]) -> FloatArray:
        """The nodes, and where functions of the interpolant are 0 near [-1, 1]; of complex zeros the real part."""
        found = [NODES]
        for function in functions:
            if self.interpolant is None:
                break
            polynomial = function(self.interpolant)
            if np.any(polynomial.coef):
                zeros = np.real(polynomial.trim(_EPSILON * float(np.max(np.abs(polynomial.coef)))).roots())
                found.append(zeros[np.abs(zeros) < 1.0])
        return np.unique(np.concatenate(found))

    @property
    def jumps(self) -> bool:
        """A jump, a pole or a zero of p; not a kink, nor the seam of two formulas for p."""
        return self.interpolant is None and not np.ptp(self.values) <= _JUMP


def _pieces(function: _Function, breaks: FloatArray, most: int) -> list[Piece]:
    """``function`` between the breaks, halved until polynomials of degree 24 follow it to rounding.

    Beside its values the function gives the sizes of the numbers whose differences they are: rounding grows with these.
    At a kink, jump or pole halving ends with a piece that is not smooth, as it does everywhere once there are ``most``
    pieces. Values of -inf are not looked into.
    """
    done: list[Piece] = []
    width, reach = float(breaks[-1] - breaks[0]), max(abs(float(breaks[0])), abs(float(breaks[-1])))
    todo = deque((float(a), float(b), 0) for a, b in pairwise(breaks))
    while todo:
        start, stop, halvings = todo.popleft()
        places = Piece(start, stop, NODES).places(NODES)
        with np.errstate(all="ignore"):
            values, sizes = function(places)
            # the values' rounding, and that of x where they are steep
            scale = float(np.max(sizes) + reach * np.max(np.abs(np.diff(values) / np.diff(places))))
        if np.isnan(values).any():
            x = places[np.isnan(values)][0]
            raise InvalidParameterError(f"The density of p is not a number at x = {x:g}: check p's parameters.")
        piece = Piece(start, stop, values)
        if np.isfinite(values).all():
            coefficients, per_x = _TO_COEFFICIENTS @ values, 2.0 / (stop - start)
            tail = float(np.max(np.abs(coefficients[-4:])))
            noise = tail + 8.0 * _EPSILON * scale
            full, half = Chebyshev(coefficients).trim(0.5 * noise), Chebyshev(_TO_HALF @ values[::2])
            slopes = full.deriv()(NODES) * per_x
            difference = float(np.max(np.abs(slopes - half.deriv()(NODES) * per_x)))
            if tail <= _RESOLVED * scale:
                piece = Piece(start, stop, values, full, (full.degree() ** 2 + 1) * noise * per_x)
            elif difference <= _AGREED * (float(np.max(np.abs(slopes))) + scale / width):
                piece = Piece(start, stop, values, full, difference)
        last = np.isneginf(values).any() or halvings == _HALVINGS or len(done) + len(todo) > most
        if piece.interpolant is not None or last:
            done.append(piece)
        else:
            middle = 0.5 * (start + stop)
            todo += [(start, middle, halvings + 1), (middle, stop, halvings + 1)]
    return sorted(done, key=lambda piece: piece.start)


def extremes(function: _Function, breaks: FloatArray) -> FloatArray:
    """Where ``function`` may be largest or smallest."""
    pieces = _pieces(function, breaks, most=_MOST_TO_LOCATE)
    return np.concatenate([breaks, *(piece.places(piece.candidates(lambda f: f.deriv())) for piece in pieces)])


def breaks_of(p: Density, start: float, stop: float, shift: float = 0.0) -> FloatArray:
    """From ``start`` to ``stop`` in steps that grow away from p's median (also shifted), not too near each other."""
    with np.errstate(all="ignore"):
        lower, median, upper = (float(quantile) for quantile in p.ppf([0.25, 0.5, 0.75]))
    spread, width = upper - lower, stop - start
    if width <= 0.0 or not 0.0 < spread < math.inf:
        return np.unique([start, stop])
    steps = spread * 4.0 ** np.arange(-1.0, max(math.log(width / spread, 4.0), 0.0) + 1.0)
    candidates = np.concatenate([median - steps, [median], median + steps])
    apart = 1e-3 * min(width, spread)
    kept = [start]
    for x in np.unique(np.concatenate([candidates, candidates - shift])):
        if kept[-1] + apart < x < stop - apart:
            kept.append(float(x))
    return np.array([*kept, stop])


def log_density(p: Density, gamma: float) -> list[Piece]:
    """log p on [-gamma, gamma]; all but a thousandth of it must be smooth, or 0."""

    def logarithm(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = np.asarray(p.logpdf(x), dtype=np.float64)
        return values, 1.0 + np.abs(values)

    pieces = _pieces(logarithm, breaks_of(p, -gamma, gamma), most=_MOST_PIECES)
    if any(np.isneginf(piece.values).any() for piece in pieces):
        return pieces
    if sum(piece.stop - piece.start for piece in pieces if piece.interpolant is None) > 2e-3 * gamma:
        raise InvalidParameterError(
            f"The density of p has kinks or noise throughout [{-gamma:g}, {gamma:g}] and no derivative to speak of:"
            " Theorem 3 needs one. Give a smooth density near p."
        )
    return pieces


# --- expectations over the bias -----------------------------------------------------------------


def expectation(p: Any) -> tuple[Mean, bool]:
    """E[f(b)] under the distribution of ``p``, and whether E[ReLU(b)^2] is finite.

    ``p`` may be the biases themselves, each as likely as the others.
    """
    integrable = True
    if hasattr(p, "dist") or isinstance(p, stats.rv_continuous | stats.rv_discrete):
        start, stop = _support(p, "of one number", _BIASES)
        with np.errstate(all="ignore"):
            integrable = stop < math.inf or math.isfinite(float(p.var()))
            if isinstance(p.dist, stats.rv_continuous):
                return _mean_over_density(p, start, stop), integrable
            values = _points(p, start, stop)
            weights = np.asarray(p.pmf(values), dtype=np.float64)
            whole_mass = abs(weights.sum() - 1.0) <= _ACCURACY
            second = float(p.var()) + float(p.mean()) ** 2 if integrable else 0.0
            if not whole_mass or (integrable and abs(weights @ values**2 - second) > _ACCURACY * (1.0 + second)):
                raise InvalidParameterError(
                    f"p, {p.dist.name}, spreads over too many points to be summed. Give an array of biases drawn from"
                    " it."
                )
            weights /= weights.sum()
    else:
        try:
            values = np.asarray(p, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            raise InvalidParameterError(
                f"p cannot be read as biases: it is of type {type(p).__name__}. {_BIASES}"
            ) from None
        if not values.size or not np.isfinite(values).all():
            what = "empty" if not values.size else f"not finite at position {int(np.argmin(np.isfinite(values)))}"
            raise InvalidParameterError(f"p, an array of biases, is {what}. {_BIASES}")
        weights = np.full(values.size, 1.0 / values.size)
    return lambda f, cuts, small=_SMALL: float(weights @ f(values)), integrable  # noqa: ARG005


def _points(p: Any, start: float, stop: float) -> FloatArray:
    """The points of a discrete distribution, up to tails that do not matter."""
    if hasattr(p.dist, "xk"):  # given by a table
        values = np.asarray(p.dist.xk, dtype=np.float64).ravel()
        return np.asarray(values + (start - values.min()))
    first = start if start > -math.inf else float(p.ppf(1e-15))
    last = first + _MOST_POINTS
    if stop < math.inf:
        last = min(stop, last)
    elif not p.sf(last) > 1e-12:  # scipy may search long for a quantile that is farther out than that
        last = min(float(p.isf(1e-15)), last)
    return np.arange(first, last + 1.0)


def _mean_over_density(p: Any, start: float, stop: float) -> Mean:
    """A density, integrated between quantiles and cuts; beyond the outermost in log-distances, for poles and tails."""
    levels = {float(x) for level in _LEVELS for x in (p.ppf(level), p.isf(level))}
    bins = np.asarray(getattr(p.dist, "_hbins", ()), dtype=np.float64)  # a histogram jumps at its bins' ends
    if bins.size:
        levels |= {float(x) for x in start + (bins - bins[0]) * ((stop - start) / (bins[-1] - bins[0]))}
    quantiles = sorted(x for x in levels if start < x < stop and math.isfinite(x))
    if not quantiles:
        raise InvalidParameterError(f"p, {p.dist.name}, has no quantiles that can be computed. {_BIASES}")
    first, last = quantiles[0], quantiles[-1]
    width = (last - first) or 1.0

    def mean(f: Callable[[FloatArray], FloatArray], cuts: Iterable[float], small: float = _SMALL) -> float:
        # Between quantiles and cuts within the support, and on the way to far cuts in steps that grow.
        near = [x for x in cuts if abs(x - first) < 1e12 * width]
        far = max([first - x for x in near] + [x - last for x in near], default=0.0)
        steps = [width * 4.0**j for j in range(math.ceil(math.log(max(far / width, 1.0), 4.0)))]
        ladder = [first - step for step in steps] + [last + step for step in steps]
        inner = sorted({x for x in (*quantiles, *near, *ladder) if start < x < stop})

        def value(x: float) -> float:
            return float(f(np.float64(x)))  # type: ignore[arg-type]

        def weighted(x: float, dx: float = 1.0, less: float = 0.0) -> float:
            density = float(p.pdf(x)) * dx if dx > 0.0 else 0.0
            return (value(x) - less) * density if 0.0 < density < math.inf else 0.0

        def tail(edge: float, end: float) -> Callable[[float], float]:
            if math.isinf(end):
                length = math.copysign(width, end - edge)
                return lambda y: weighted(edge + length * math.expm1(min(y, 600.0)), width * math.exp(min(y, 600.0)))
            less, length = value(end), edge - end
            return lambda y: weighted(end + length * math.exp(-y), abs(length) * math.exp(-y), less)

        # a pole at an end may hold more probability than double precision resolves: f(end) P + E[f - f(end)]
        atoms = [value(start) * float(p.cdf(inner[0]))] if start > -math.inf else []
        atoms += [value(stop) * float(p.sf(inner[-1]))] if stop < math.inf else []
        pieces: list[tuple[Callable[[float], float], float, float]]
        pieces = [(weighted, left, right) for left, right in pairwise(inner)]
        pieces += [(tail(inner[0], start), 0.0, math.inf), (tail(inner[-1], stop), 0.0, math.inf)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # the errors are added up below
            parts = [integrate.quad(*piece, epsabs=small, epsrel=1e-9, limit=200)[:2] for piece in pieces]
        total, error = math.fsum([*atoms, *(part[0] for part in parts)]), math.fsum(part[1] for part in parts)
        if not error <= max(_ACCURACY * abs(total), 1e3 * small):
            raise InvalidParameterError(
                f"An expectation over the bias could not be computed: quadrature over the density of {p.dist.name}"
                " does not converge. Give an array of biases drawn from it instead."
            )
        return total

    mass = mean(np.ones_like, ())
    if abs(mass - 1.0) > _ACCURACY:
        raise InvalidParameterError(
            f"The density of p, {p.dist.name}, integrates to {mass:g} instead of 1. Check its parameters, or give an"
            " array of biases drawn from it."
        )
    return mean
