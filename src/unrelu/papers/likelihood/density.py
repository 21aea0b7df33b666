"""The density p of a column's bias: its mode on an interval, its slope, and the term of (33) that each column adds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidParameterError

_GRID, _ZOOMS = 33, 9  # each zoom narrows an interval 16 times
_TAIL = 1e-9  # quantile beyond which the search for a mode does not begin
_STEP = 6e-6  # of the spread: the third root of the rounding unit
_UNDERFLOW = -745.0


class FrozenDistribution(Protocol):
    """What is asked of a density: ``scipy.stats.norm(0, 1)`` and every other frozen continuous distribution has it."""

    def logpdf(self, x: ArrayLike, /) -> Any: ...

    def logcdf(self, x: ArrayLike, /) -> Any: ...

    def support(self) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class BiasDensity:
    """p, checked once.

    >>> from scipy.stats import norm
    >>> p = BiasDensity.checked(norm(0.5, 2.0))
    >>> p.argmax(np.array([-1.0, 2.0, -np.inf]), np.array([1.0, np.inf, -3.0])).round(6)
    array([ 0.5,  2. , -3. ])
    """

    distribution: Any
    lowest: float
    highest: float
    centre: float
    spread: float

    @classmethod
    def checked(cls, distribution: object) -> BiasDensity:
        """p of a frozen continuous distribution, or an error that says what is missing."""
        quantile = getattr(distribution, "ppf", None) or getattr(distribution, "icdf", None)
        try:
            with np.errstate(all="ignore"):
                levels = np.asarray(quantile(np.array([0.5, 0.25, 0.75])), dtype=np.float64)  # type: ignore[misc]
                lowest, highest = (float(end) for end in distribution.support())  # type: ignore[attr-defined]
                discrete = hasattr(distribution, "pmf") and bool(np.max(distribution.pmf(levels[0])) > 0.0)
                if not discrete:
                    _ = distribution.logpdf(levels), distribution.logcdf(levels)  # type: ignore[attr-defined]
        except (TypeError, ValueError, AttributeError, NotImplementedError):
            raise InvalidParameterError(
                "bias_density must be a frozen continuous distribution with scalar parameters, such as"
                f" scipy.stats.norm(0, 1), got {distribution!r}."
            ) from None
        if discrete:
            raise InvalidParameterError(
                "bias_density is discrete and has no density p(b), which program (34) maximises: give a continuous"
                " one, such as scipy.stats.norm(0, 1)."
            )
        spread = (levels[2] - levels[1]) / 1.349
        if not (np.isfinite(levels).all() and spread > 0.0):
            raise InvalidParameterError(
                "bias_density has invalid parameters: its quartiles are"
                f" {levels[1]:g}, {levels[0]:g}, {levels[2]:g}. Check its location, scale and shape."
            )
        return cls(distribution, lowest, highest, float(levels[0]), float(spread))

    def log(self, b: FloatArray) -> FloatArray:
        """log p(b), -inf outside the support."""
        with np.errstate(all="ignore"):
            value = np.asarray(self.distribution.logpdf(b), dtype=np.float64)
        return np.where(np.isnan(value), -np.inf, value)

    def term(self, b: FloatArray, never: BoolArray) -> FloatArray:
        """A column's term of (33): log p(b_j), or log P(B <= b_j) for a column that is never positive.

        Where that is -inf in floating point a parabola below every finite value stands in, so that searches which
        stray there are led back.
        """
        value = self.log(b)
        if never.any():
            with np.errstate(all="ignore"):
                value = np.where(never, np.asarray(self.distribution.logcdf(b), dtype=np.float64), value)
        return np.where(np.isfinite(value), value, _UNDERFLOW - ((b - self.centre) / self.spread) ** 2)

    def derivatives(self, b: FloatArray, never: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Slope of the term, and minus its curvature where that is positive, else 0: differences inside the support."""
        step = _STEP * np.maximum(self.spread, np.abs(b - self.centre))
        left, right = np.maximum(b - step, self.lowest), np.minimum(b + step, self.highest)
        before, at, after = self.term(np.stack([left, b, right]), never)
        tiny = np.finfo(float).tiny
        rise = (after - at) / np.maximum(right - b, tiny) - (at - before) / np.maximum(b - left, tiny)
        bend = np.where((left < b) & (b < right), -2.0 * rise / (right - left), 0.0)
        return (after - before) / (right - left), np.maximum(bend, 0.0)

    def argmax(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Where p is largest on each interval: the clipped mode, or better points of a fine grid, zoomed into."""
        low, high = np.maximum(low, self.lowest), np.minimum(high, self.highest)
        clipped = np.clip(self.mode, low, high)
        bottom, top = self._bulk
        left = np.where(np.isfinite(low), low, np.minimum(bottom, clipped - self.spread))
        right = np.where(np.isfinite(high), high, np.maximum(top, clipped + self.spread))
        found = self._zoomed(left, np.maximum(left, right))
        return np.where(self.log(found) > self.log(clipped) + 1e-12, found, clipped)

    @cached_property
    def mode(self) -> float:
        """The most likely bias; of several equally likely ones, that next to the median."""
        bottom, top = self._bulk
        grid = np.unique(
            np.concatenate([np.linspace(bottom, top, 2001), self._quantile(np.linspace(1e-3, 0.999, 999))])
        )
        value = self.log(grid)
        ties = np.flatnonzero(value >= value.max() - 1e-12)
        at = int(ties[np.abs(grid[ties] - self.centre).argmin()])
        around = grid[[max(at - 1, 0)]], grid[[min(at + 1, len(grid) - 1)]]
        found = self._zoomed(*around)[0]
        better = self.log(found) > value[at] + 1e-14
        return float(found if better else grid[at])

    @property
    def _bulk(self) -> tuple[float, float]:
        bottom, top = self._quantile(np.array([_TAIL, 1.0 - _TAIL]))
        bottom = self.lowest if np.isfinite(self.lowest) else bottom
        return float(bottom), float(self.highest if np.isfinite(self.highest) else top)

    def _quantile(self, level: FloatArray) -> FloatArray:
        quantile = getattr(self.distribution, "ppf", None) or self.distribution.icdf
        return np.asarray(quantile(level), dtype=np.float64)

    def _zoomed(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """The best point of a grid on each interval, then of a grid between its neighbours, and so on."""
        every = np.arange(len(low))
        share = np.linspace(0.0, 1.0, 8 * (_GRID - 1) + 1)
        for _ in range(_ZOOMS):
            grid = low[:, None] + (high - low)[:, None] * share
            grid[:, -1] = high
            at = self.log(grid).argmax(axis=1)
            low, high = grid[every, np.maximum(at - 1, 0)], grid[every, np.minimum(at + 1, len(share) - 1)]
            share = np.linspace(0.0, 1.0, _GRID)
        best: FloatArray = grid[every, at]
        return best
