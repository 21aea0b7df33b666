"""Some units of a layer with fewer inputs than units: planes that many rows lie on and no row lies below.

H are rows in whitened coordinates, with a constant where planes may miss the origin. A unit is a direction w with
H w >= 0 and many zeros. From a start, minimize

    sum_i c_i |h_i'w|, with a quadratic price 10/eps^2 on what is below 0,   over w' S'(I - P_K) S w = 1

by reweighting while eps falls. Absolute values alone attract to units that are off in more than half of the rows; a
true unit is never negative, so that the price costs it nothing. P_K projects on the units known so far: their
directions and all mixtures of them have length 0 in this norm, so each start leads to something new. c_i = 1 near a
random row and less elsewhere attracts to units that are off around it, be they mostly on. Where inputs are rectified
themselves most rows lie in pieces of few dimensions, and the longest direction is the same again and again: half of the
starts then have the constraint v'w = 1 instead, v a random mixture of the columns of (I - P_K) S.

What is found is fitted to the rows on it (:mod:`unrelu.recovery.layers.facet_fit`) and counts if it holds many rows, no
row lies below, the rows on it span it, and none of them does so alone: a plane can always be tilted until it meets
another row. Where inputs are few, a mixture of units can pass all of this, being 0 in several whole regions; only the
inputs tell (:mod:`unrelu.recovery.layers.widening`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from unrelu.contracts import FloatArray
from unrelu.engines.local import map_in_threads, one_blas_thread
from unrelu.recovery.layers.facet_fit import Facet, most_likely, nearest_facet, support
from unrelu.recovery.layers.facets import Candidate, Cloud

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


@dataclass(frozen=True)
class Whitened:
    """Rows h = [(y - mean) root, 1], the constant only where lifted; a direction w of them is a facet of the points."""

    rows: FloatArray
    mean: FloatArray
    root: FloatArray
    lifted: bool

    @classmethod
    def of(cls, points: FloatArray, lifted: bool) -> Whitened:
        mean = points.mean(axis=0) if lifted else np.zeros(points.shape[1])
        moved = points - mean
        _, values, directions = np.linalg.svd(moved, full_matrices=False)
        root = directions.T / (values / np.sqrt(len(points)))
        white = cls(np.zeros((0, 0)), mean, root, lifted)
        return cls(white.of_points(points), mean, root, lifted)

    def of_points(self, points: FloatArray) -> FloatArray:
        rows = (points - self.mean) @ self.root
        return np.column_stack([rows, np.ones(len(rows))]) if self.lifted else rows

    def slope(self, w: FloatArray) -> float:
        """By how much h'w grows with a step of length 1 among the points."""
        return float(np.linalg.norm(self.root @ w[: len(self.mean)]))

    def direction(self, facet: Facet) -> FloatArray:
        """The w whose plane {h'w = 0} is a facet of the points."""
        w: FloatArray = np.asarray(np.linalg.solve(self.root, facet.normal), dtype=np.float64)
        return np.append(w, facet.offset + float(self.mean @ facet.normal)) if self.lifted else w

    def facet(self, w: FloatArray, noise: float) -> Facet:
        """{h'w = 0} as a facet of the points."""
        p = len(self.mean)
        normal = self.root @ w[:p]
        offset = (float(w[p]) if self.lifted else 0.0) - float(self.mean @ normal)
        length = float(np.linalg.norm(normal))
        return Facet(normal / length, offset / length, noise)


class PlaneSearch:
    """Looks for planes of a cloud among some of its rows, those that reach farthest included."""

    def __init__(self, cloud: Cloud, white: Whitened, rng: np.random.Generator, mixed: bool = False) -> None:
        self._cloud, self._white, self._rng, self._mixed = cloud, white, rng, mixed
        n, r = white.rows.shape
        chosen = np.arange(n)
        if n > _SEARCHED * r:
            far = np.argsort(-((white.rows**2).sum(axis=1)), kind="stable")
            most = _LEVERAGE * r
            chosen = np.concatenate([far[:most], rng.choice(far[most:], _SEARCHED * r - most, replace=False)])
        self._rows = white.rows[chosen]
        self._points = cloud.points[chosen]
        self._starts = 0
        self.leaning: list[Candidate] = []  # planes of the last starts that some rows hold alone

    def planes(self, known: list[Candidate], starts: int) -> list[Candidate]:
        """New planes, from so many starts; they may be the same one."""
        left = self._left(known)
        norm = left.T @ left / len(left)
        lines = self._rng.standard_normal((starts // 2 if self._mixed else 0, len(left))) @ left
        begun = [(self._weights(), aim) for aim in [*lines, *[norm] * (starts - len(lines))]]
        with one_blas_thread():
            found = map_in_threads(lambda start: self._plane(*start), begun)
        self.leaning = [candidate for candidate in found if candidate is not None and candidate.doubtful]
        return [candidate for candidate in found if candidate is not None and not candidate.doubtful]

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

    def _left(self, known: list[Candidate]) -> FloatArray:
        """(I - P_K) S."""
        left = self._rows
        if known:
            heights = np.stack([np.maximum(entry.facet.height(self._points), 0.0) for entry in known], axis=1)
            basis = np.linalg.qr(heights / np.sqrt((heights**2).mean(axis=0)))[0]
            left = left - basis @ (basis.T @ left)
        return left

    def _plane(self, weights: FloatArray, aim: FloatArray) -> Candidate | None:
        w = self._descend(weights, aim)
        if w is None:
            return None
        cloud = self._cloud
        facet = nearest_facet(self._white.facet(w, cloud.noise), cloud.points, cloud.lifted)
        if facet is None or not self._holds(facet):
            return None
        best = most_likely(facet, cloud.points, cloud.lifted)
        if not self._holds(best):
            return None
        return Candidate(best, support(best, cloud.points), np.inf if self._leans(best) else 0.0)

    def _descend(self, weights: FloatArray, aim: FloatArray) -> FloatArray | None:
        rows, width = self._rows, _WIDTH
        w = _longest(aim, (rows * weights[:, None]).T @ rows)
        while w is not None and width > _NARROW:
            size = float(((rows @ w) ** 2).mean() if aim.ndim == 1 else w @ aim @ w)
            w = w / np.sqrt(max(size, 1e-300))
            heights = rows @ w
            if heights.sum() < 0.0:
                w, heights = -w, -heights
            least = max(width, 2.0 * self._cloud.noise * self._white.slope(w))
            price = np.where(heights < -0.5 * least, _PRICE / least**2, weights / np.maximum(np.abs(heights), least))
            before, w = w, _longest(aim, (rows * price[:, None]).T @ rows)
            if w is not None and aim.ndim == 2 and w @ aim @ before < 0.0:
                w = -w
            if least > width:
                break
            width *= _NARROWING
        return w

    def _holds(self, facet: Facet) -> bool:
        """Whether a plane holds many rows that span it, and no row lies below."""
        points, s = self._cloud.points, facet.noise
        heights = facet.height(points)
        on = np.abs(heights) < _CLEAR * s
        if np.count_nonzero(on) < _SHARE * len(points) or (heights < -_CLEAR * s).sum() > max(
            _STRAY, _CHANCE * len(points)
        ):
            return False
        values = np.linalg.svd(self._white.rows[on], compute_uv=False)
        return bool(values[-2] > _FLAT * values[0])

    def _leans(self, facet: Facet) -> bool:
        """Whether a plane leans on a row without which the others on it do not span it."""
        rows = self._white.rows[np.abs(facet.height(self._cloud.points)) < _CLEAR * facet.noise]
        left = np.linalg.svd(rows, full_matrices=False)[0][:, : rows.shape[1] - 1]
        return bool(((left**2).sum(axis=1) >= _ALONE).any())


def _longest(aim: FloatArray, gram: FloatArray) -> FloatArray | None:
    """The direction of the largest w' aim w / w' gram w, or (aim'w)^2 / w' gram w."""
    gram[np.diag_indices(len(gram))] += 1e-13 * np.trace(gram)
    last = len(gram) - 1
    try:
        if aim.ndim == 1:
            return np.asarray(scipy.linalg.solve(gram, aim, assume_a="pos"), dtype=np.float64)
        w: FloatArray = scipy.linalg.eigh(aim, gram, subset_by_index=[last, last])[1][:, 0]
    except np.linalg.LinAlgError:
        return None
    return w
