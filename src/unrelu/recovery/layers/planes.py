"""Units of a layer with fewer inputs than units: some as planes of the rows, all others by means of the inputs.

Many rows lie on such a plane, and no row lies below it. H are rows in whitened coordinates, with a constant where
planes may miss the origin. A unit is a direction w with H w >= 0 and many zeros. From a start, minimize

    sum_i c_i |h_i'w|, with a quadratic price 10/eps^2 on what is below 0,   over w' S'(I - P_K) S w = 1

by reweighting while eps falls. Absolute values alone attract to units that are off in more than half of the rows; a
true unit is never negative, so that the price costs it nothing. P_K projects on the units found so far: their
directions and all mixtures of them have length 0 in this norm, so each start leads to a new plane. c_i = 1 near a
random row and less elsewhere attracts to units that are off around it, be they mostly on.

A plane is fitted to the rows on it (:mod:`unrelu.recovery.layers.facets`) and counts if it holds many rows, no row lies
below, the rows on it span it, and do so without any single one of them: a plane can always be tilted until it meets
another row. Where inputs are few, a mixture of units can pass all of this, being 0 in several whole regions; only the
inputs show that (:mod:`unrelu.recovery.layers.widening`).

Given the inputs z, units are directions a with ReLU([z 1] a) in the column space of rows H.
With P_H the projection on that space and P_K that on the units found so far and the constant, minimize

    |(I - P_H) r|^2 / |(I - P_K) r|^2,    r = ReLU([z 1] a)

by Levenberg and Marquardt's steps. Units are isolated exact zeros. Those found before are 0/0 and attract nothing, so
that nearly every start leads to another unit. A solution counts if it holds in all rows, and rows are on both sides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import linprog

from unrelu.contracts import FloatArray
from unrelu.passes import map_in_threads, one_blas_thread
from unrelu.recovery.layers.facets import Cloud, Facet, count_points, heights_above, most_likely, nearest_facet

_SEARCHED = 40  # rows a unit that a search uses
_LEVERAGE = 4  # of these, rows a dimension that reach farthest
_WIDTH, _NARROWING, _NARROW = 0.3, 0.85, 1e-6  # of the heights' root mean square
_PRICE = 10.0
_NEAR, _FAR = (1.0, 0.3, 0.1), 0.01  # share of the rows that count in full, and what the others count
_SHARE = 0.01  # of the rows that a plane must hold
_STRAY, _CHANCE = 2, 1e-3  # rows that may lie below: a number, and a share
_CLEAR = 4.0  # standard deviations of noise
_FLAT = 1e-7  # of the largest singular value of the rows on a plane
_ALONE = 1.0 - 1e-6  # leverage of a row without which the others do not span the plane

_KINK_ROWS = 16  # a unknown that a search uses
_ROUNDS, _TRIES = 60, 8
_DAMPING = 1e-2
_DONE = 1e-20
_NEW, _LINEAR = 1e-6, 1e-8  # shares of a line outside the span of the units found, and that is rounding
_ABOVE = 0.1  # standard deviations that a unit that is never off is above 0
_STUCK, _FAR_OFF = 1e-6, 1e-6  # gain of a round that is none, for ratios that are far from 0


class PlaneSearch:
    """A search for planes of a cloud among some of its rows, those that reach farthest included."""

    def __init__(self, cloud: Cloud, rng: np.random.Generator) -> None:
        self._cloud, self._rng = cloud, rng
        n, r = cloud.white.shape
        chosen = np.arange(n)
        if n > _SEARCHED * r:
            far = np.argsort(-((cloud.white**2).sum(axis=1)), kind="stable")
            most = _LEVERAGE * r
            chosen = np.concatenate([far[:most], rng.choice(far[most:], _SEARCHED * r - most, replace=False)])
        self._rows = cloud.white[chosen]
        self._points = cloud.points[chosen]
        self._starts = 0

    def planes(self, found: list[Facet], starts: int) -> list[Facet]:
        """New planes from ``starts`` starts, beside those ``found``; several may be the same one."""
        return [facet for facet in self.all_planes(found, starts) if not facet.doubtful]

    def all_planes(self, found: list[Facet], starts: int) -> list[Facet]:
        """New planes, with those that lean on a single row, which are doubtful."""
        left = self._rows  # (I - P_K) S
        if found:
            heights = np.maximum(heights_above(found, self._points), 0.0)
            basis = np.linalg.qr(heights / np.sqrt((heights**2).mean(axis=0)))[0]
            left = left - basis @ (basis.T @ left)
        begun = [(self._weights(), aim) for aim in self._aims(left, starts)]
        with one_blas_thread():
            return [each for each in map_in_threads(lambda start: self._plane(*start), begun) if each is not None]

    def _aims(self, left: FloatArray, starts: int) -> list[FloatArray]:
        """S'(I - P_K) S of each start."""
        return [left.T @ left / len(left)] * starts

    def _weights(self) -> FloatArray:
        """First weights of the rows: random ones, and less for rows far from a random one."""
        share = _NEAR[self._starts % len(_NEAR)]
        self._starts += 1
        weights = self._rng.exponential(size=len(self._rows))
        if share < 1.0:
            row = self._rows[self._rng.integers(len(self._rows))]
            alike = (self._rows @ row) / np.linalg.norm(self._rows, axis=1)
            weights *= np.where(alike >= np.quantile(alike, 1.0 - share), 1.0, _FAR)
        return weights

    def _plane(self, weights: FloatArray, aim: FloatArray) -> Facet | None:
        w = self._descend(weights, aim)
        if w is None:
            return None
        cloud = self._cloud
        facet = nearest_facet(cloud.facet(w), cloud.points, cloud.lifted)
        if facet is None or not self._holds(facet):
            return None
        best = most_likely(facet, cloud.points, cloud.lifted)
        if not self._holds(best):
            return None
        # A plane leans on a row if the other rows on it do not span it.
        rows = cloud.white[np.abs(best.height(cloud.points)) < _CLEAR * best.noise]
        left = np.linalg.svd(rows, full_matrices=False)[0][:, : rows.shape[1] - 1]
        leans = bool(((left**2).sum(axis=1) >= _ALONE).any())
        return replace(count_points(best, cloud.points), misfit=np.inf if leans else 0.0)

    def _descend(self, weights: FloatArray, aim: FloatArray) -> FloatArray | None:
        rows, width = self._rows, _WIDTH
        w = self._longest(aim, (rows * weights[:, None]).T @ rows)
        while w is not None and width > _NARROW:
            w = w / np.sqrt(max(self._size(w, aim), 1e-300))
            heights = rows @ w
            if heights.sum() < 0.0:
                w, heights = -w, -heights
            least = max(width, 2.0 * self._cloud.noise * self._cloud.slope(w))
            price = np.where(heights < -0.5 * least, _PRICE / least**2, weights / np.maximum(np.abs(heights), least))
            w = self._longest(aim, (rows * price[:, None]).T @ rows, w)
            if least > width:
                break
            width *= _NARROWING
        return w

    def _size(self, w: FloatArray, aim: FloatArray) -> float:
        return float(w @ aim @ w)

    def _longest(self, aim: FloatArray, gram: FloatArray, before: FloatArray | None = None) -> FloatArray | None:
        """The direction of the largest w' aim w / w' gram w, on the side of the one before."""
        last = len(gram) - 1
        try:
            w: FloatArray = scipy.linalg.eigh(aim, add_ridge(gram), subset_by_index=[last, last])[1][:, 0]
        except np.linalg.LinAlgError:
            return None
        return w if before is None or w @ aim @ before >= 0.0 else -w

    def _holds(self, facet: Facet) -> bool:
        """Whether a plane holds many rows that span it, and no row lies below."""
        points, s = self._cloud.points, facet.noise
        heights = facet.height(points)
        on = np.abs(heights) < _CLEAR * s
        below = (heights < -_CLEAR * s).sum()
        if np.count_nonzero(on) < _SHARE * len(points) or below > max(_STRAY, _CHANCE * len(points)):
            return False
        values = np.linalg.svd(self._cloud.white[on], compute_uv=False)
        return bool(values[-2] > _FLAT * values[0])


def add_ridge(gram: FloatArray) -> FloatArray:
    """Add a little to a Gram's diagonal, in place."""
    gram[np.diag_indices(len(gram))] += 1e-13 * np.trace(gram)
    return gram


# --- units of given inputs -------------------------------------------------------------------------


class Kinked(NamedTuple):
    """A unit h = ReLU(Z a), the direction w of the rows with H w = h, and its residual over all rows.

    ``size`` is the root mean square of Z a where the unit is on, or where it is off if that is smaller: a function that
    is linear but for a few rows is not a unit, however small |H w - h| is against |h|.
    """

    direction: FloatArray
    functional: FloatArray
    residual: float  # root mean square of H w - h
    size: float
    on: int
    off: int


class KinkSearch:
    """A search for units among rows Z = [z 1] and H."""

    def __init__(self, inputs: FloatArray, rows: FloatArray, rng: np.random.Generator) -> None:
        self._mean = inputs.mean(axis=0)
        _, values, turn = np.linalg.svd(inputs - self._mean, full_matrices=False)
        self._root = turn.T / (values / np.sqrt(len(inputs)))
        self._Z = np.column_stack([(inputs - self._mean) @ self._root, np.ones(len(inputs))])
        self._H, self._rng = rows, rng
        self._basis, self._triangle = np.linalg.qr(rows)
        most = _KINK_ROWS * (rows.shape[1] + self._Z.shape[1])
        self._part = rng.choice(len(rows), most, replace=False) if len(rows) > most else np.arange(len(rows))
        self._part_basis = np.linalg.qr(rows[self._part])[0]

    def unit(self, found: FloatArray) -> Kinked:
        """The end of a random start; ``found`` has a column for each unit that was found before."""
        found = np.column_stack([np.ones(len(found)), found])
        part, slope = self._part, self._rng.standard_normal(self._Z.shape[1] - 1)
        a = np.append(slope, -float(self._Z[self._rng.choice(part), :-1] @ slope))  # through a random row
        a, _ = descend(self._Z[part], self._part_basis, np.linalg.qr(found[part])[0], a / np.linalg.norm(a), _ROUNDS)
        if len(part) < len(self._Z):
            a, _ = descend(self._Z, self._basis, np.linalg.qr(found)[0], a, _TRIES)
        return self._measure(a)

    def of_heights(self, heights: FloatArray, functional: FloatArray | None = None) -> Kinked:
        """The unit of these heights, if they are a unit's; ``functional`` is w of a plane that has these heights.

        The rows in which it is on may leave its direction open: then any direction will do that is off in all others. A
        plane's unit may be off in none of these rows.
        """
        on = heights > 0.0
        a, _, rank, _ = np.linalg.lstsq(self._Z[on], heights[on], rcond=_FLAT)
        if rank < len(a):  # the t for which others are as far below 0 as may be, none above it by much
            free = np.linalg.svd(self._Z[on])[2][rank:].T
            lines, k = self._Z[~on] @ free, len(a) - rank
            limits = [(None, None)] * k + [(None, 0.1 * float(np.linalg.norm(a)))]
            bounds = np.column_stack([lines, np.ones(len(lines))])
            best = linprog(np.append(np.zeros(k), -1.0), bounds, -(self._Z[~on] @ a), bounds=limits)
            a = a + free @ (np.zeros(k) if best.x is None else best.x[:k])
        unit = self._measure(a)
        if functional is None or not on.all():
            return unit
        residual, size = (float(np.sqrt((part**2).mean())) for part in (self._Z @ a - heights, heights))
        return Kinked(unit.direction, functional, residual, size, unit.on, unit.off)

    def _measure(self, a: FloatArray) -> Kinked:
        line = self._Z @ a
        heights = np.maximum(line, 0.0)
        size = float(np.sqrt(min((heights**2).mean(), (np.minimum(line, 0.0) ** 2).mean())))
        return self._kink(a, heights, size)

    def linear(self, found: FloatArray, bound: float, rows: FloatArray) -> list[Kinked]:
        """Units that are never off: linear functions of the inputs in the column space, outside the span of ``found``.

        The table does not separate their bias from that of the outputs, nor several of them from each other: any that
        are positive in all ``rows`` do, also in rows without inputs.
        """
        Z = self._Z[:, :-1]
        old = np.linalg.qr(np.column_stack([np.ones(len(found)), found]))[0]
        new = Z - old @ (old.T @ Z)
        values, directions = np.linalg.eigh(new.T @ new / len(Z))
        directions = directions[:, values > _NEW]
        left = Z @ directions
        left = left - self._basis @ (self._basis.T @ left)
        values, inner = np.linalg.eigh(left.T @ left / len(Z))
        units = []
        for v in (directions @ inner[:, values < max(bound, _LINEAR) ** 2]).T:
            line = Z @ v
            a = np.append(v, _ABOVE * float(line.std()) - float((rows @ self._solve(line)).min()))
            units.append(self._kink(a, self._Z @ a, float(line.std())))
        return units

    def _kink(self, a: FloatArray, heights: FloatArray, size: float) -> Kinked:
        functional = self._solve(heights)
        residual = float(np.sqrt(((self._H @ functional - heights) ** 2).mean()))
        weights = self._root @ a[:-1]  # of the inputs as they were given
        direction, on = np.append(weights, a[-1] - float(self._mean @ weights)), int(np.count_nonzero(heights))
        return Kinked(direction, functional, residual, size, on, len(heights) - on)

    def _solve(self, heights: FloatArray) -> FloatArray:
        return np.asarray(scipy.linalg.solve_triangular(self._triangle, self._basis.T @ heights), dtype=np.float64)


def descend(
    Z: FloatArray, basis: FloatArray, found: FloatArray, a: FloatArray, rounds: int
) -> tuple[FloatArray, float]:
    """Levenberg and Marquardt's steps for a on the unit sphere; (a, the ratio)."""

    def ratio(a: FloatArray) -> float:
        r = np.maximum(Z @ a, 0.0)
        size = float(r @ r)
        left, new = r - basis @ (basis.T @ r), r - found @ (found.T @ r)
        return float(left @ left) / (float(new @ new) + 1e-14 * size) if size > 0.0 else 1.0

    value, damping = ratio(a), _DAMPING
    for _ in range(rounds):
        on = Z * (Z @ a > 0.0)[:, None]
        squares = on.T @ on
        inside, old = basis.T @ on, found.T @ on
        curvature = squares - inside.T @ inside
        slope = curvature @ a - value * (squares @ a - old.T @ (old @ a))
        size = float(np.trace(curvature)) / len(a) + 1e-300
        for _ in range(_TRIES):
            damped = curvature + (damping + 1e-14) * size * np.eye(len(a))
            moved = a - np.linalg.lstsq(damped, slope)[0]
            moved = moved / np.linalg.norm(moved)
            tried = ratio(moved)
            if tried < value:
                break
            damping *= 4.0
        else:
            break
        before, a, value, damping = value, moved, tried, max(0.2 * damping, 1e-12)
        if value < _DONE or (value > (1.0 - _STUCK) * before and value > _FAR_OFF):
            break
    return a, value
