"""All facets of a cloud of points y = B h (+ o), h >= 0 with many zeros: the rows of B's inverse.

A facet q has q'y >= 0 for every point and q'y = 0 for many. From a start, a row y_j that is off the facet and another
row whose neighbours may be on it, minimize

    sum_i rho(q'y_i)   over q'y_j = 1,      rho(r) = log(1 + r^2/d^2) above 0, and many times that below

by reweighting (p equations a round) while d falls to the noise. A linear program with the same constraint, min sum_i
q'y_i over q'y >= 0, finds the facet that row j is most extreme in; the logarithm counts zeros instead of summing
distances, and also finds facets that no row is extreme in, in a sixth of the time (docs/research/017).

Rows y_j are chosen where the units found so far are low, so that new facets are found rather than the same ones. What
counts as a facet: many more points on it than p, more than the density just above explains, hardly any below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray, Step, Watch, unwatched
from unrelu.engines.local import map_in_threads, one_blas_thread
from unrelu.recovery.layers.clock import TimeIsUp
from unrelu.recovery.layers.facet_fit import Facet, Support, misfit, most_likely, nearest_facet, pencil, support

_TARGETS = 30  # rows that a start chooses from
_TOGETHER = 8  # starts between two looks at what was found
_STARTS = 30  # per unit, before the search gives up
_SEARCHED, _SEARCHED_PER_UNIT = 3000, 60  # rows a search uses
_ROUNDS, _NARROWING, _STILL = 60, 0.7, 1e-9
_STEEP = (200.0, 1000.0)
_NEAR = (0.1, 0.3)
_FAR = 0.01  # first weight of rows that are not near the second row
_ALIKE, _SAME = 1e-4, 0.14  # of a height, what others must leave of it: without noise, and with most noise
_LEVELS = (0.0, 0.03, 0.1)  # share of the rows that may lie below a facet, first and later on
_CHANCE = 0.002  # share that may in any case
_STRAY = 2  # rows that may lie below in any case
_CLEAN = 5  # times as many points on a facet as below it
_LOW = 6.0  # standard deviations below a facet from where on a row is an outlier
_NEAR_IT, _FAR_FROM_IT = 4.0, 12.0  # standard deviations: on a facet, and clearly not
_FEW, _SHARE = 3.0, 0.02  # rows in which one unit is off and another on: a number, and a share of the latter's
MISFIT = 1.3  # Kolmogorov distance, times the root of the rows, from where on a unit is doubtful
_PATIENCE = 0.67  # share of the starts before doubtful facets may end the search
_EVER_ON = 5  # rows clearly above a facet: less than that is no unit
_SPIKE = 2.0  # points on a facet against those within one standard deviation just above it


@dataclass(frozen=True)
class Cloud:
    """Points y (n x p), the standard deviation of noise in each coordinate, and whether facets may miss the origin.

    ``gaussian`` says that units are known to be rectified Gaussians: those that do not look so are doubtful. ``off``
    counts rows with every unit off that are not among the points.
    """

    points: FloatArray
    noise: float
    lifted: bool
    gaussian: bool = False
    off: int = 0


@dataclass(frozen=True)
class Candidate:
    """A facet, its support, and how unlike those of a unit its heights are (0 where that is not known)."""

    facet: Facet
    support: Support
    misfit: float

    @property
    def doubtful(self) -> bool:
        """Whether this is hardly a unit."""
        return self.misfit > MISFIT


@dataclass(frozen=True)
class FoundFacets:
    """Facets, the rows that lie below none of them, and how many starts it took."""

    candidates: tuple[Candidate, ...]
    genuine: BoolArray
    starts: int

    @property
    def facets(self) -> tuple[Facet, ...]:
        """The facets alone."""
        return tuple(candidate.facet for candidate in self.candidates)


def find_facets(cloud: Cloud, count: int, rng: np.random.Generator, watch: Watch = unwatched) -> FoundFacets:
    """Up to ``count`` facets; ``watch`` hears how many were found so far.

    What was found when time is up is given. Without success, facets may have rows below them that are outliers; once
    one is found, these rows are left out and the search begins again. Doubtful facets do not end the search before most
    of its starts are used.
    """
    genuine = np.ones(len(cloud.points), dtype=bool)
    if cloud.points.shape[1] == 1:
        ends = [end for end in [_end_of_line(cloud)] if end.support.on + cloud.off >= _FEW]
        watch(_step(len(ends), count))
        return FoundFacets(tuple(ends), genuine & ~_outside(ends, cloud.points, genuine), 0)
    found: list[Candidate] = []
    starts, since, limit = 0, 0, _STARTS * max(count, 10)
    search = _Search.of(cloud, count, rng)
    with one_blas_thread():
        while since < limit:
            # Outliers would lie below most facets: where some were found without, there are none to allow for.
            level = 0.0 if genuine.all() and 4 * len(found) >= count else _LEVELS[len(_LEVELS) * since // limit]
            known = [candidate.facet for candidate in found]
            tasks = [search.start(starts + i, known, level, rng) for i in range(_TOGETHER)]
            starts, since = starts + _TOGETHER, since + _TOGETHER
            for candidates in map_in_threads(search.facets, tasks):
                for candidate in candidates:
                    _admit(candidate, found, search.cloud, max(level, _CHANCE))
            found = _extreme(found, search.cloud, certain=bool(genuine.all()))
            below = _outside(found, cloud.points, genuine)
            if level > 0.0 and below.any():
                genuine = genuine & ~below
                search = _Search.of(replace(cloud, points=cloud.points[genuine]), count, rng)
                found, since = [], 0
            try:
                watch(_step(len(found), count))
            except TimeIsUp:
                break
            if len(found) >= count and (since >= _PATIENCE * limit or not any(each.doubtful for each in found)):
                break
    best = found[:count]
    return FoundFacets(tuple(best), genuine & ~_outside(best, cloud.points, genuine), starts)


def _end_of_line(cloud: Cloud) -> Candidate:
    """The facet of points on a line: the origin, or where lifted the place where most points are."""
    line = cloud.points[:, 0]
    place = 0.0
    if cloud.lifted:
        ordered = np.sort(line)
        together = np.searchsorted(ordered, ordered + _NEAR_IT * cloud.noise, side="right") - np.arange(len(ordered))
        most = int(together.argmax())
        place = float(ordered[most : most + together[most]].mean())
    sign = 1.0 if (line - place).sum() > 0.0 else -1.0
    facet = Facet(np.array([sign]), -sign * place, cloud.noise)
    seen = support(facet, cloud.points)
    unlike = misfit(facet.height(cloud.points), _NEAR_IT * cloud.noise, cloud.off) if cloud.gaussian else 0.0
    return Candidate(facet, seen, unlike)


@dataclass(frozen=True)
class _Start:
    """Row that is off the facet, first weights of all rows, how much worse it is to lie below than above, and the share
    of rows that may lie below for nothing."""

    reference: FloatArray
    weights: FloatArray
    steep: float
    spared: float


@dataclass(frozen=True)
class _Search:
    """Rows to search in, and the ``scale`` that gives each of them one length where the cloud is made round.

    A facet needs ``least`` points on it.
    """

    cloud: Cloud
    rows: FloatArray  # lifted ones have the constant as their last column
    points: FloatArray
    scale: FloatArray
    least: int

    @classmethod
    def of(cls, cloud: Cloud, count: int, rng: np.random.Generator) -> _Search:
        points, p = cloud.points, cloud.points.shape[1]
        most = max(_SEARCHED, _SEARCHED_PER_UNIT * count)
        if len(points) > most:
            points = points[rng.choice(len(points), most, replace=False)]
        size = math.sqrt(float((points**2).mean()))
        rows = np.column_stack([points, np.full(len(points), size)]) if cloud.lifted else points
        root = np.linalg.cholesky(rows.T @ rows / len(rows) + 1e-14 * size**2 * np.eye(rows.shape[1]))
        lengths = np.linalg.norm(np.linalg.solve(root, rows.T), axis=0)
        return cls(cloud, rows, points, 1.0 / np.maximum(lengths, 1e-3), 3 * p)

    def start(self, number: int, found: list[Facet], spared: float, rng: np.random.Generator) -> _Start:
        """The next start: three of four aim at rows where what was found is low."""
        rows = rng.choice(len(self.rows), _TARGETS)
        chosen = rows[self._fresh(found, rows).argmax()] if found and number % 4 else rows[0]
        second = rng.integers(len(self.rows))
        alike = (self.rows @ self.rows[second]) * self.scale
        near = alike >= np.quantile(alike, 1.0 - _NEAR[number // 2 % 2])
        reference = self.rows[chosen] * self.scale[chosen]
        return _Start(reference, np.where(near, 1.0, _FAR), _STEEP[number % 2], spared)

    def _fresh(self, found: list[Facet], rows: NDArray[np.int64]) -> FloatArray:
        """How much rows have of what the facets found do not explain, against the highest of the units found."""
        heights = np.stack([np.maximum(facet.height(self.points), 0.0) for facet in found], axis=1)
        known = np.column_stack([heights, np.ones(len(heights))]) if self.cloud.lifted else heights
        left = self.points - known @ np.linalg.lstsq(known, self.points)[0]
        amount = np.linalg.norm(left, axis=1)
        high = (heights / heights.mean(axis=0)).max(axis=1)
        fresh: FloatArray = (amount / (amount.mean() + 1e-300) / (0.1 + high))[rows]
        return fresh

    def facets(self, start: _Start) -> list[Candidate]:
        """The facets that a start leads to: none, one, or two whose intersection it found."""
        cloud = self.cloud
        facet = nearest_facet(self._as_facet(self._descend(start)), self.points, cloud.lifted)
        if facet is None or not self._many(support(facet, self.points), slack=2.0):
            return []
        wary = start.spared > 0.0
        sides = pencil(facet, cloud.points, cloud.lifted, wary)
        found = []
        for side in (facet,) if sides is None else sides:
            near = nearest_facet(side, cloud.points, cloud.lifted)
            if near is None or pencil(near, cloud.points, cloud.lifted, wary) is not None:
                continue
            best = most_likely(near, cloud.points, cloud.lifted)
            seen = support(best, cloud.points)
            if self._many(seen):
                found.append(Candidate(best, seen, self._misfit(best)))
        return found

    def _misfit(self, facet: Facet) -> float:
        cloud = self.cloud
        if not cloud.gaussian:
            return 0.0
        return misfit(facet.height(cloud.points), _NEAR_IT * facet.noise, cloud.off)

    def _descend(self, start: _Start) -> FloatArray:
        rows, scale, weights, reference = self.rows, self.scale, start.weights, start.reference
        coordinates = self.points.shape[1]
        squares = scale**2
        width = math.nan
        q = reference
        for _ in range(_ROUNDS):
            gram = (rows * (weights * squares)[:, None]).T @ rows
            gram[np.diag_indices(len(gram))] += 1e-12 * np.trace(gram)
            before, q = q, np.asarray(np.linalg.solve(gram, reference), dtype=np.float64)
            q = q / (q @ reference)
            if np.abs(q - before).max() <= _STILL * np.abs(q).max():
                break
            height = (rows @ q) * scale
            size = np.abs(height)
            width = float(np.median(size)) if math.isnan(width) else max(_NARROWING * width, 1e-9)
            widths: FloatArray = np.maximum(
                width, 2.0 * self.cloud.noise * float(np.linalg.norm(q[:coordinates])) * scale
            )
            weights = np.asarray(np.where(height < -widths, start.steep, 1.0) / (size**2 + widths**2), np.float64)
            if start.spared > 0.0:
                weights[height < min(float(np.quantile(height, start.spared)), 0.0)] = 0.0
        return q

    def _as_facet(self, q: FloatArray) -> Facet:
        p = self.points.shape[1]
        length = float(np.linalg.norm(q[:p]))
        offset = float(q[p]) * self.rows[0, p] if self.cloud.lifted else 0.0
        return Facet(q[:p] / length, offset / length, self.cloud.noise)

    def _many(self, seen: Support, slack: float = 1.0) -> bool:
        """Whether more points lie there than on a plane through some p of them, or than the density above explains."""
        enough = slack * seen.on >= self.least and slack * seen.on > _SPIKE * seen.density
        return enough and seen.above >= _EVER_ON


def _step(found: int, count: int) -> Step:
    found = min(found, count)
    return Step("Finding units", found, count, f"{found} of {count} units found")


def _admit(candidate: Candidate, found: list[Candidate], cloud: Cloud, allowed: float) -> None:
    """Add a facet. Where it depends on others, it takes the place of a doubtful one or one with fewer points on it.

    Of facets that depend on each other not all are facets of the cone: it has p, and their normals are a basis. The
    true ones have the most points.
    """
    seen = candidate.support
    if seen.below > max(allowed * len(cloud.points), _STRAY) or _CLEAN * seen.below > seen.on:
        return
    ranked = sorted([*found, candidate], key=lambda entry: (entry.doubtful, -entry.support.on))
    heights = _heights(ranked, cloud.points)
    if cloud.lifted:
        heights = heights - heights.mean(axis=0)
    sizes = np.sqrt((heights**2).mean(axis=0))
    left = np.abs(np.diag(np.linalg.qr(heights / sizes, mode="r"))) / math.sqrt(len(heights))
    coarse = math.sqrt(50.0 * heights.shape[1]) * cloud.noise / sizes
    new = left > np.clip(coarse, _ALIKE, _SAME)
    found[:] = [entry for entry, is_new in zip(ranked, new, strict=True) if is_new]


def _extreme(found: list[Candidate], cloud: Cloud, certain: bool) -> list[Candidate]:
    """Without sums of two facets: such a one is off in no row in which one of its parts is on.

    A row to the contrary is proof where rows are ``certain``; a few outliers are not.
    """
    heights = _heights(found, cloud.points)
    off, on = heights < _NEAR_IT * cloud.noise, heights > _FAR_FROM_IT * cloud.noise
    apart = off.astype(float).T @ on.astype(float)  # rows where one is off and another on
    needed = 1.0 if certain else np.maximum(_FEW, _SHARE * on.sum(axis=0))
    sums = (apart < needed) & ~np.eye(len(found), dtype=bool)
    return [entry for entry, is_sum in zip(found, sums.any(axis=1), strict=True) if not is_sum]


def _outside(found: list[Candidate], points: FloatArray, among: BoolArray) -> BoolArray:
    """Points, of some, that lie below a facet by more than noise explains."""
    lowest = np.array([-_LOW * candidate.facet.noise for candidate in found])
    below: BoolArray = among & (_heights(found, points) < lowest).any(axis=1)
    return below


def _heights(found: list[Candidate], points: FloatArray) -> FloatArray:
    """Of points above facets, n x m."""
    columns = [candidate.facet.height(points) for candidate in found]
    return np.stack(columns, axis=1) if columns else np.zeros((len(points), 0))
