"""Posterior marginals in the user's units: moments and quantiles of f(y), cells filled in, columns predicted.

The y of a hidden cell is a normal cut off at its limit,

    E f(y) = integral of f(centre + width z) phi(z) dz / Phi(alpha)    over z <= alpha = (limit - centre)/width,

for a left-censored cell; a right-censored one is negated. By Gauss and Legendre where the density is: below alpha, down
to -sqrt(min(alpha, 0)^2 + 70), where it has fallen by e^-35. A missing cell as a table would show it, max(f(y), floor),
is the floor with the probability below it, and f(y) above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from unrelu.contracts import BoolArray, Censoring, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.margins import Normal, cut_from_latent
from unrelu.posterior.cells import EVERYTHING, Cells, Filling, Model
from unrelu.posterior.density import Density

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_REACH = 70.0
_NO_WIDTH = 1e-300
_LARGEST = 1e300  # f is cut off there, where a row is so far off that f would be infinite
_POINTS = 10_000  # of a column, to sum it up
_QUARTILES = (0.25, 0.5, 0.75)

Limits = tuple[float, float, float, float]  # a column's floor and ceiling of x, and those of y


def finite(f: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    """f with finite values everywhere."""

    def numbers(y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.clip(f(y), -_LARGEST, _LARGEST)

    return numbers


def column_limits(model: Model, j: int) -> Limits:
    """Floor and ceiling of column j, and the same on y's scale."""
    latent = model.latent
    return float(model.floor[j]), float(model.ceiling[j]), float(latent.floor[j]), float(latent.ceiling[j])


@dataclass(frozen=True, eq=False)
class CutNormals:
    """One normal per cell, cut off at ``limit`` as ``censoring`` says; where that is 0 the normal is whole."""

    centre: FloatArray
    width: FloatArray
    limit: FloatArray
    censoring: Censoring

    @classmethod
    def whole(cls, centre: FloatArray, width: FloatArray) -> CutNormals:
        return cls(centre, width, centre, np.zeros(len(centre), dtype=np.int8))

    def _sign_and_alpha(self) -> tuple[FloatArray, FloatArray]:
        sign = np.where(self.censoring > 0, -1.0, 1.0)
        alpha = sign * (self.limit - self.centre) / np.maximum(self.width, _NO_WIDTH)
        return sign, np.where(self.censoring == 0, np.inf, np.clip(alpha, -1e150, 1e150))

    def moments(self, f: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of f(y)."""
        sign, alpha = self._sign_and_alpha()
        low = -np.sqrt(np.minimum(alpha, 0.0) ** 2 + _REACH)
        high = np.minimum(alpha, np.sqrt(_REACH))
        z = 0.5 * (high - low)[:, None] * _NODES + 0.5 * (high + low)[:, None]
        weight = _WEIGHTS * np.exp(0.5 * (np.minimum(alpha, 0.0)[:, None] ** 2 - z * z))
        weight /= weight.sum(axis=1, keepdims=True)
        return _weighted(weight, finite(f)(self.centre[:, None] + (sign * self.width)[:, None] * z))

    def shown_moments(self, f: Callable[[FloatArray], FloatArray], limits: Limits) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of f(y) cut off at the column's limits, of normals that are whole."""
        width, reach = np.maximum(self.width, _NO_WIDTH), np.sqrt(_REACH)
        low, high = ((edge - self.centre) / width for edge in limits[2:])
        chances = ndtr(low), ndtr(-high)
        ends = np.clip(low, -reach, reach), np.clip(high, -reach, reach)
        z = 0.5 * (ends[1] - ends[0])[:, None] * _NODES + 0.5 * (ends[1] + ends[0])[:, None]
        # The largest weight is 1, so that they sum to something wherever the middle is.
        weight = _WEIGHTS * np.exp(0.5 * (np.min(np.abs(z), axis=1, keepdims=True) ** 2 - z * z))
        weight *= np.maximum(1.0 - chances[0] - chances[1], 0.0)[:, None] / weight.sum(axis=1, keepdims=True)
        x = np.clip(finite(f)(self.centre[:, None] + self.width[:, None] * z), *limits[:2])
        at_limits = [np.full(len(x), limit if np.isfinite(limit) else 0.0) for limit in limits[:2]]
        return _weighted(np.column_stack([weight, *chances]), np.column_stack([x, *at_limits]))

    def quantile(self, p: float) -> FloatArray:
        """The p-quantile of y."""
        sign, alpha = self._sign_and_alpha()
        share = np.where(sign > 0.0, p, 1.0 - p)
        with np.errstate(divide="ignore"):
            z = ndtri_exp(np.log(share) + log_ndtr(alpha))
        return np.asarray(self.centre + sign * self.width * z)


def _weighted(weight: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations along rows, whose weights sum to 1, in units in which squares do not overflow."""
    unit = np.maximum(np.max(np.abs(x), axis=1, keepdims=True), _NO_WIDTH)
    x = x / unit
    mean = np.sum(weight * x, axis=1)
    std = np.sqrt(np.sum(weight * (x - mean[:, None]) ** 2, axis=1))
    return mean * unit[:, 0], std * unit[:, 0]


# --- cells filled in ----------------------------------------------------------------------------------------------


def imputed(
    model: Model, cells: Cells, levels: Sequence[float] = (), filling: Filling = EVERYTHING
) -> tuple[FloatArray, ...]:
    """Rows with cells filled in by their mean; standard deviations, 0 for other cells; rows filled in by quantiles, one
    array for each of the ``levels``."""
    if not all(0.0 < level < 1.0 for level in levels):
        raise InvalidParameterError(f"quantile must be between 0 and 1, got {', '.join(map(repr, levels))}.")
    density, std = Density.of(model), np.zeros(cells.given.shape)
    mean, *filled = (filling.start(model, cells) for _ in range(1 + len(levels)))
    for rows, part in cells.parts():
        means, stds, centres, widths = density.marginals(part.latent, part.censoring)
        for j, at, cut in filling.groups(model, part):
            distribution = CutNormals(centres[at, j], widths[at, j], part.latent[at, j], part.censoring[at, j])
            f = None if model.margins is None else finite(model.margins[j].from_latent)
            if cut:
                value, spread = distribution.shown_moments(f or np.positive, column_limits(model, j))
            else:
                value, spread = (means[at, j], stds[at, j]) if f is None else distribution.moments(f)
            mean[rows][at, j], std[rows][at, j] = within(value, part, at, j), spread
            for level, each in zip(levels, filled, strict=True):
                y = distribution.quantile(level)
                x = within(y if f is None else f(y), part, at, j)
                each[rows][at, j] = np.clip(x, model.floor[j], model.ceiling[j]) if cut else x
    return mean, std, *filled


def within(x: FloatArray, cells: Cells, at: BoolArray, j: int) -> FloatArray:
    """Values of column j's cells ``at``, which rounding must not move across their limit."""
    censoring, limit = cells.censoring[at, j], cells.given[at, j]
    return np.where(censoring < 0, np.minimum(x, limit), np.where(censoring > 0, np.maximum(x, limit), x))


# --- a column given the others ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prediction:
    """One column given the others, a number per row; ``quantiles`` has a column for each of the ``levels``.

    ``probability_floored``: that the cell is at its floor (or ceiling); 0 for a column without one.
    """

    mean: FloatArray
    std: FloatArray
    levels: tuple[float, ...]
    quantiles: FloatArray
    probability_floored: FloatArray


def predicted(model: Model, cells: Cells, j: int, levels: tuple[float, ...], hidden: bool = False) -> Prediction:
    """Column ``j``, whose cells are missing; with ``hidden`` not cut off at its limit."""
    density = Density.of(model)
    parts = [density.marginals(part.latent, part.censoring)[:2, :, j] for _, part in cells.parts()]
    centre, width = np.concatenate(parts, axis=1)
    f = finite((Normal() if model.margins is None else model.margins[j]).from_latent)
    quantiles = f(centre[:, None] + width[:, None] * ndtri(levels))
    limits = floor, ceiling, low, high = column_limits(model, j)
    spread = np.maximum(width, _NO_WIDTH)
    chance = ndtr((low - centre) / spread) + ndtr((centre - high) / spread)
    distribution = CutNormals.whole(centre, width)
    if hidden:
        return Prediction(*distribution.moments(f), levels, quantiles, chance)
    return Prediction(*distribution.shown_moments(f, limits), levels, np.clip(quantiles, floor, ceiling), chance)


# --- columns one by one -------------------------------------------------------------------------------------------


def column_distributions(model: Model, below: str = "auto") -> list[dict[str, Any]]:
    """Mean, standard deviation and quartiles of every column, and the distribution that they describe."""
    found = []
    for j, as_seen in enumerate(Filling(below=below).as_seen(model).tolist()):
        one = model if model.n_features == 1 else model.marginal(j)
        mean, scale, latent, margins = one.mean, one.std, one.latent, one.margins
        if as_seen:  # of evenly spread samples
            y = mean + scale * ndtri((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
            x = np.clip(y, latent.floor, latent.ceiling)
            if margins is not None:
                x = cut_from_latent(margins, x, one.floor, one.ceiling, True)
            share, expected, std = np.mean((x <= one.floor) | (x >= one.ceiling)), x.mean(), x.std()
            quartiles = np.quantile(x, _QUARTILES)
        else:  # f(y), not cut off
            spread, quartiles = np.maximum(scale, _NO_WIDTH), mean + scale * ndtri(_QUARTILES)
            share = (ndtr((latent.floor - mean) / spread) + ndtr((mean - latent.ceiling) / spread))[0]
            expected, std = mean[0], scale[0]
            if margins is not None and margins[0].kind != "normal":
                f = finite(margins[0].from_latent)
                (expected,), (std,) = CutNormals.whole(mean, scale).moments(f)
                quartiles = f(quartiles)
        found.append(
            {
                "column": str(j) if model.feature_names is None else model.feature_names[j],
                "margin": "normal" if model.margins is None else model.margins[j].kind,
                "distribution": "as seen" if as_seen else "before the floor",
                "share_floored": float(share),
                "mean": float(expected),
                "std": float(std),
                **dict(zip(("lower_quartile", "median", "upper_quartile"), quartiles.tolist(), strict=True)),
            }
        )
    return found
