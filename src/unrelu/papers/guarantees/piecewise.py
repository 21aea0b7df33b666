"""Densities on an interval, piece by piece: extremes of smooth functions from Chebyshev interpolants.

Halved until resolved; kinks, jumps, poles and regions without density end pieces of their own.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev, chebpts2, chebvander
from scipy import integrate

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError

_DEGREE = 24
_NODES = chebpts2(_DEGREE + 1)
_TO_COEFFICIENTS = np.linalg.inv(chebvander(_NODES, _DEGREE))
_TO_HALF = np.linalg.inv(chebvander(_NODES[::2], _DEGREE // 2))
_HALVINGS = 20
_MOST_PIECES = 3000
_MOST_TO_LOCATE = 400  # for places where a function is computed once more
_RESOLVED = 2e-14  # of the scale: the last coefficients of a piece that needs no further halving
_AGREED = 1e-8  # or slopes that interpolants of degrees 24 and 12 agree on so well: all to be had if p has noise
_JUMP = 1e-3  # in log p, within a millionth of the piece we began with
_EPSILON = float(np.finfo(np.float64).eps)
_Function: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Density(Protocol):
    """What we ask of a frozen continuous distribution of scipy.stats."""

    def pdf(self, x: Any, /) -> Any: ...
    def logpdf(self, x: Any, /) -> Any: ...
    def cdf(self, x: Any, /) -> Any: ...
    def logcdf(self, x: Any, /) -> Any: ...
    def sf(self, x: Any, /) -> Any: ...
    def ppf(self, q: Any, /) -> Any: ...
    def support(self) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class _Piece:
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

    @property
    def jumps(self) -> bool:
        """A jump, a pole or a zero of p; not a kink, nor the seam of two formulas for p."""
        return self.interpolant is None and not np.ptp(self.values) <= _JUMP

    def extremes(self, order: int) -> FloatArray:
        """The nodes and the zeros of the order-th derivative: where the one before it may be largest or smallest."""
        return self._with_zeros(None if self.interpolant is None else self.interpolant.deriv(order))

    def flat_candidates(self) -> FloatArray:
        """Where exp(f) f'^2 may be smallest: f' = 0 or f'^2 + 2 f'' = 0, and where f' itself turns."""
        if self.interpolant is None:
            return _NODES
        first, second = self.interpolant.deriv(), self.interpolant.deriv(2)
        zeros = [self._with_zeros(first), self._with_zeros(second), self._with_zeros(first * first + 2.0 * second)]
        return np.unique(np.concatenate(zeros))

    @staticmethod
    def _with_zeros(polynomial: Chebyshev | None) -> FloatArray:
        """The nodes and the zeros near [-1, 1]; of complex ones the real part, a place as good as any."""
        if polynomial is None or not np.any(polynomial.coef):
            return _NODES
        trimmed = polynomial.trim(_EPSILON * float(np.max(np.abs(polynomial.coef))))
        zeros = np.real(trimmed.roots())
        return np.unique(np.concatenate([_NODES, zeros[np.abs(zeros) < 1.0]]))


def _pieces(function: _Function, breaks: FloatArray, most: int) -> list[_Piece]:
    """``function`` between the breaks, halved until polynomials of degree 24 follow it to rounding.

    The function also says how large the numbers are that its values are a difference of: its rounding goes with them.
    At a kink, jump or pole halving ends with a piece that is not smooth, as it does everywhere once there are ``most``
    pieces. Values of -inf are not looked into.
    """
    done: list[_Piece] = []
    reach = max(abs(float(breaks[0])), abs(float(breaks[-1])))
    todo = deque((float(a), float(b), 0) for a, b in pairwise(breaks))
    while todo:
        start, stop, halvings = todo.popleft()
        places = _Piece(start, stop, _NODES).places(_NODES)
        with np.errstate(all="ignore"):
            values, sizes = function(places)
        if np.isnan(values).any():
            x = places[np.isnan(values)][0]
            raise InvalidParameterError(f"The density of p is not a number at x = {x:g}: check p's parameters.")
        with np.errstate(all="ignore"):  # the values' rounding, and that of x where they are steep
            scale = float(np.max(sizes) + reach * np.max(np.abs(np.diff(values) / np.diff(places))))
        piece = _interpolated(start, stop, values, scale, float(breaks[-1] - breaks[0]))
        last = np.isneginf(values).any() or halvings == _HALVINGS or len(done) + len(todo) > most
        if piece.interpolant is not None or last:
            done.append(piece)
        else:
            middle = 0.5 * (start + stop)
            todo += [(start, middle, halvings + 1), (middle, stop, halvings + 1)]
    return sorted(done, key=lambda piece: piece.start)


def _interpolated(start: float, stop: float, values: FloatArray, scale: float, width: float) -> _Piece:
    """The piece with its interpolant, if that can be trusted: see _RESOLVED and _AGREED."""
    if not np.isfinite(values).all():
        return _Piece(start, stop, values)
    coefficients = _TO_COEFFICIENTS @ values
    tail = float(np.max(np.abs(coefficients[-4:])))
    noise = tail + 8.0 * _EPSILON * scale
    full, half = Chebyshev(coefficients).trim(0.5 * noise), Chebyshev(_TO_HALF @ values[::2])
    per_x = 2.0 / (stop - start)
    if tail <= _RESOLVED * scale:
        return _Piece(start, stop, values, full, (full.degree() ** 2 + 1) * noise * per_x)
    slopes = full.deriv()(_NODES) * per_x
    difference = float(np.max(np.abs(slopes - half.deriv()(_NODES) * per_x)))
    agreed = difference <= _AGREED * (float(np.max(np.abs(slopes))) + scale / width)
    return _Piece(start, stop, values, full, difference) if agreed else _Piece(start, stop, values)


def extremes(function: _Function, breaks: FloatArray) -> FloatArray:
    """Where ``function`` may be largest or smallest."""
    pieces = _pieces(function, breaks, most=_MOST_TO_LOCATE)
    return np.concatenate([breaks, *(piece.places(piece.extremes(order=1)) for piece in pieces)])


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


# --- the density, piece by piece ----------------------------------------------------------------


def log_density(p: Density, gamma: float) -> list[_Piece]:
    """log p on [-gamma, gamma]; all but a thousandth of it must be smooth, or 0."""

    def log_density(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = np.asarray(p.logpdf(x), dtype=np.float64)
        return values, 1.0 + np.abs(values)

    pieces = _pieces(log_density, breaks_of(p, -gamma, gamma), most=_MOST_PIECES)
    if any(np.isneginf(piece.values).any() for piece in pieces):
        return pieces
    if sum(piece.stop - piece.start for piece in pieces if piece.interpolant is None) > 2e-3 * gamma:
        raise InvalidParameterError(
            f"The density of p has kinks or noise throughout [{-gamma:g}, {gamma:g}] and no derivative to speak of:"
            " Theorem 3 needs one. Give a smooth density near p."
        )
    return pieces


@dataclass(frozen=True)
class Flattest:
    """beta, and in words where and why it is 0."""

    value: float
    why: str = ""


def flattest_place(p: Density, gamma: float) -> Flattest:
    low, high = (float(end) for end in p.support())
    if low > -gamma or high < gamma:
        return Flattest(0.0, f"the density is 0 {f'below x = {low:.4g}' if low > -gamma else f'above x = {high:.4g}'}")
    where, slope, log_value = [], [], []
    for piece in log_density(p, gamma):
        if np.isneginf(piece.values).any():
            x = piece.places(_NODES)[np.isneginf(piece.values)][0]
            return Flattest(0.0, f"the density is 0 at x = {x:.4g}")
        if piece.interpolant is None:
            if piece.jumps:  # only up or down counts
                where.append(np.array([0.5 * (piece.start + piece.stop)]))
                slope.append(piece.values[-1:] - piece.values[:1])
                log_value.append(np.array([math.inf]))
            continue
        t = piece.flat_candidates()
        slopes = piece.slopes(t)
        where.append(piece.places(t))
        slope.append(np.where(np.abs(slopes) <= piece.slope_noise, 0.0, slopes))
        with np.errstate(divide="ignore"):
            log_value.append(piece.interpolant(t) + 2.0 * np.log(np.abs(slopes) / 2.0))
    x, turn = np.concatenate(where), _first_turn(np.concatenate(where), np.concatenate(slope))
    if turn is not None:
        return Flattest(0.0, f"the density is flat or turns at x = {0.0 if abs(turn) < 1e-9 * gamma else turn:.4g}")
    log_values = np.concatenate(log_value)
    with np.errstate(over="ignore"):
        least = float(np.exp(np.min(log_values)))
    return Flattest(least, f"the density all but vanishes at x = {x[np.argmin(log_values)]:.4g}")


def _first_turn(x: FloatArray, slope: FloatArray) -> float | None:
    """Where the slope is 0 or first changes its sign, if anywhere."""
    if (slope == 0.0).any():
        return float(x[slope == 0.0][0])
    order = np.argsort(x, kind="stable")
    signs = np.sign(slope[order])
    changes = np.flatnonzero(signs[1:] != signs[:-1])
    return None if changes.size == 0 else float(0.5 * (x[order][changes[0]] + x[order][changes[0] + 1]))


def interval_probability(p: Density, start: float, length: float) -> float:
    """P(start <= B <= start + length), from the nearer tail, or where that would lose digits by quadrature."""
    with np.errstate(all="ignore"):
        stop = start + length
        below, above = float(p.cdf(stop)), float(p.sf(start))
        probability = below - float(p.cdf(start)) if below < above else above - float(p.sf(stop))
        if probability < 1e-4 * min(below, above):
            probability = float(integrate.quad(lambda x: p.pdf(start + x), 0.0, length, epsabs=0.0, epsrel=1e-11)[0])
    return min(max(probability, 0.0), 1.0)
