"""All facets of a cloud of points y = B h (+ o), h >= 0 with many zeros: the rows of B's inverse.

A facet q has q'y >= 0 for every point and q'y = 0 for many. From a start, a row y_j that is off the facet and another
row whose neighbours may be on it, minimize

    sum_i rho(q'y_i)   over q'y_j = 1,      rho(r) = log(1 + r^2/d^2) above 0, and many times that below

by reweighting (p equations a round) while d falls to the noise. A linear program with the same constraint, min sum_i
q'y_i over q'y >= 0, finds the facet that row j is most extreme in; the logarithm counts zeros instead of summing
distances, and finds also facets that no row is extreme in, in a sixth of the time (docs/research/017).

Rows y_j are chosen where the units found so far are low, so that new facets are found rather than the same ones. A
facet has many more points on it than p, more than the density just above explains, and hardly any below.

What is found is fitted by likelihood. With r = u'y + o, |u| = 1, and noise of standard deviation s in every coordinate
of y, r is s g (g standard normal) where the unit is off, and spread evenly, at this scale, above 0 where it is on:

    density of r/s at t:  share phi(t) + slope Phi(t) + lost

phi and Phi are the normal density and distribution function; ``lost`` is the density of rows that fit neither. Its
maximum over u and o is found by Newton's steps on the sphere |u| = 1. Noise in y turns least squares into total least
squares; the sphere does that. Points just above the facet, which a plain fit would take for points on it, are in the
second term.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from unrelu.contracts import BoolArray, FloatArray, Progress, Step, no_progress
from unrelu.passes import map_in_threads, one_blas_thread

TIME_WAS_UP, INTERRUPTED = "The time was up", "The search was interrupted"  # how a search ended early
MISFIT = 1.3  # Kolmogorov distance, times the root of the rows, from where on a unit is doubtful

_REACH = 12.0  # standard deviations from the facet that the fit looks at
_CLEAR = 4.0  # standard deviations above it from where on a point is on no account on it
_NEWTON_ROUNDS, _REFITS = 15, 3
_LOST = 1e-4
_FIT_FROM = 20  # heights above 0 that a fit of a unit's distribution needs
_BAND = 2.5  # standard deviations from a facet within which a point is taken to be on it
_LONE, _WARY = (0.34, 3), (0.2, 10)  # share of a direction's variance that one point may make up; points left out
_ROUNDING = 1e-13  # of the largest of some eigenvalues
_ROOT = 2.5066282746310002  # sqrt(2 pi)

_TARGETS = 30  # rows that a start chooses from
_TOGETHER = 8  # starts of one round
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
_PATIENCE = 0.67  # share of the starts before doubtful facets may end the search
_EVER_ON = 5  # rows clearly above a facet: less than that is no unit
_SPIKE = 2.0  # points on a facet against those within one standard deviation just above it


# --- time for a search ----------------------------------------------------------------------------


class TimeIsUp(Exception):
    """The seconds of a :class:`Clock` are over."""


@dataclass(frozen=True)
class Clock:
    """A progress callback that calls ``progress``, and raises :class:`TimeIsUp` at the first step after ``seconds``.

    Where ``stage`` is given, steps of other work become steps of that stage, without their states.
    """

    seconds: float | None = None
    progress: Progress = no_progress
    stage: str | None = None
    started: float = field(default_factory=time.monotonic)

    def __call__(self, step: Step) -> None:
        self.progress(step if self.stage is None else replace(step, stage=self.stage, state=None))
        if self.is_up:
            raise TimeIsUp(step.stage)

    @property
    def is_up(self) -> bool:
        """Whether the seconds are over."""
        return self.seconds is not None and time.monotonic() - self.started > self.seconds

    def run(self, search: Callable[[], None]) -> str | None:
        """Search until the end, the time or an interrupt; the reason where it ended early. What was found is kept."""
        try:
            search()
        except TimeIsUp:
            return TIME_WAS_UP
        except KeyboardInterrupt:
            return INTERRUPTED
        return None


# --- one facet ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Facet:
    """u'y + o >= 0 with |u| = 1; ``noise`` is the standard deviation of u'y + o on the facet.

    :func:`count_points` sets how many points lie ``on`` it, how dense they are just above (per standard deviation), how
    many lie ``below``, and how many clearly ``above``. ``misfit`` is the distance of its heights from those of a
    rectified Gaussian, 0 where it was not computed.
    """

    normal: FloatArray
    offset: float
    noise: float
    on: float = 0.0
    density: float = 0.0
    below: int = 0
    above: int = 0
    misfit: float = 0.0

    @property
    def doubtful(self) -> bool:
        """Whether this is hardly a unit."""
        return self.misfit > MISFIT

    def height(self, points: FloatArray) -> FloatArray:
        """u'y + o of every point."""
        return points @ self.normal + self.offset


@dataclass(frozen=True)
class Cloud:
    """Points y (n x p), the standard deviation of noise in each coordinate, and whether facets may miss the origin.

    ``gaussian`` says that units are rectified Gaussians: those that do not look so are doubtful. ``off``
    counts rows with every unit off that are not among the points.
    """

    points: FloatArray
    noise: float
    lifted: bool
    gaussian: bool = False
    off: int = 0

    # In whitened coordinates, h = [(y - mean) root, 1], the constant only where lifted, a direction w is a facet.

    @cached_property
    def mean(self) -> FloatArray:
        return self.points.mean(axis=0) if self.lifted else np.zeros(self.points.shape[1])

    @cached_property
    def root(self) -> FloatArray:
        _, values, directions = np.linalg.svd(self.points - self.mean, full_matrices=False)
        root: FloatArray = directions.T / (values / np.sqrt(len(self.points)))
        return root

    @cached_property
    def white(self) -> FloatArray:
        """The rows h."""
        rows: FloatArray = (self.points - self.mean) @ self.root
        return np.column_stack([rows, np.ones(len(rows))]) if self.lifted else rows

    def slope(self, w: FloatArray) -> float:
        """By how much h'w grows with a step of length 1 among the points."""
        return float(np.linalg.norm(self.root @ w[: len(self.mean)]))

    def direction(self, facet: Facet) -> FloatArray:
        """The w whose plane {h'w = 0} is a facet of the points."""
        w: FloatArray = np.asarray(np.linalg.solve(self.root, facet.normal), dtype=np.float64)
        return np.append(w, facet.offset + float(self.mean @ facet.normal)) if self.lifted else w

    def facet(self, w: FloatArray) -> Facet:
        """{h'w = 0} as a facet of the points."""
        p = len(self.mean)
        normal = self.root @ w[:p]
        offset = (float(w[p]) if self.lifted else 0.0) - float(self.mean @ normal)
        length = float(np.linalg.norm(normal))
        return Facet(normal / length, offset / length, self.noise)


def count_points(facet: Facet, points: FloatArray) -> Facet:
    """A facet with the numbers of these points on, below and above it."""
    t = facet.height(points) / facet.noise
    density = np.count_nonzero((t > _CLEAR) & (t < _REACH)) / (_REACH - _CLEAR)
    on = (np.count_nonzero(np.abs(t) < 2.0) - 2.0 * density) / 0.9545
    below, above = int(np.count_nonzero(t < -_CLEAR)), int(np.count_nonzero(t > _REACH))
    return replace(facet, on=on, density=density, below=below, above=above)


def nearest_facet(start: Facet, points: FloatArray, lifted: bool) -> Facet | None:
    """The hyperplane through the points around one, in narrowing bands; None where too few are left.

    In total least squares, and through the origin unless lifted.
    """
    facet, inside = start, np.zeros(len(points), dtype=bool)
    for width in (6.0, 4.0, 3.0, _BAND, _BAND, _BAND, _BAND, _BAND):
        before, inside = inside, np.abs(facet.height(points)) < width * facet.noise
        if np.count_nonzero(inside) < points.shape[1]:
            return None
        if (inside == before).all():
            break
        center = points[inside].mean(axis=0) if lifted else np.zeros(points.shape[1])
        moved = points[inside] - center
        normal = np.linalg.eigh(moved.T @ moved)[1][:, 0]
        offset = -float(center @ normal)
        if normal @ facet.normal < 0.0:
            normal, offset = -normal, -offset
        facet = Facet(normal, offset, facet.noise)
    return facet


def most_likely(facet: Facet, points: FloatArray, lifted: bool) -> Facet:
    """The facet of highest likelihood near one."""
    for _ in range(_REFITS):
        near = points[np.abs(facet.height(points)) < _REACH * facet.noise]
        seen = count_points(facet, near)
        density = max(seen.density, 0.5)
        total = max(seen.on, 1.0) + density * _REACH
        before, facet = facet, _ascend(facet, near, max(seen.on, 1.0) / total, density / total, lifted)
        if np.abs(facet.normal - before.normal).max() < 1e-10:
            break
    return facet


def _ascend(facet: Facet, points: FloatArray, share: float, slope: float, lifted: bool) -> Facet:
    """Newton's steps for u and o, shares fixed; curvatures are those of EM, which point upwards always."""
    s = facet.noise
    normal, offset = facet.normal, facet.offset
    value = _log_likelihood((points @ normal + offset) / s, share, slope)
    for _ in range(_NEWTON_ROUNDS):
        gradient, curvature = _derivatives((points @ normal + offset) / s, share, slope)
        tangent = _complement(normal)
        design = points @ tangent
        if lifted:
            design = np.column_stack([design, np.ones(len(points))])
        slope_at = design.T @ gradient / s
        # A step along the sphere also bends the normal, by u'(gradient).
        bend = np.full(design.shape[1], float((points @ normal) @ gradient) / s)
        bend[tangent.shape[1] :] = 0.0
        matrix = (design * curvature[:, None]).T @ design / s**2
        curvature_here = matrix + np.diag(bend)
        if not np.linalg.eigvalsh(curvature_here)[0] > 1e-12 * np.trace(matrix):
            curvature_here = matrix + 1e-12 * np.trace(matrix) * np.eye(len(matrix))
        step = np.linalg.lstsq(curvature_here, slope_at)[0]  # directions without points on the facet stay as they are
        moved, shifted, tried = normal, offset, value
        for _ in range(12):
            moved = normal + tangent @ step[: tangent.shape[1]]
            moved, shifted = moved / np.linalg.norm(moved), offset + (step[-1] if lifted else 0.0)
            tried = _log_likelihood((points @ moved + shifted) / s, share, slope)
            if tried >= value:
                break
            step = 0.5 * step
        if not tried > value + 1e-10 * abs(value):
            break
        normal, offset, value = moved, float(shifted), tried
    return Facet(normal, offset, s)


def _log_likelihood(t: FloatArray, share: float, slope: float) -> float:
    return float(np.log(share * np.exp(-0.5 * t * t) / _ROOT + slope * ndtr(t) + _LOST).sum())


def _derivatives(t: FloatArray, share: float, slope: float) -> tuple[FloatArray, FloatArray]:
    """The derivative of the log density, and EM's curvature (an upper bound of minus the second derivative)."""
    bell = np.exp(-0.5 * t * t) / _ROOT
    on, above = share * bell, slope * ndtr(t)
    density = on + above + _LOST
    ratio = np.exp(-0.5 * t * t - log_ndtr(t)) / _ROOT  # phi/Phi
    return (slope * bell - on * t) / density, (on + above * ratio * (t + ratio)) / density


def _complement(normal: FloatArray) -> FloatArray:
    """Orthonormal columns orthogonal to a unit vector (the other columns of a Householder reflection)."""
    pivot = int(np.abs(normal).argmax())
    v = normal.copy()
    v[pivot] += np.sign(normal[pivot])
    reflection = np.eye(len(normal)) - 2.0 / (v @ v) * np.outer(v, v)
    return np.delete(reflection, pivot, axis=1)


def pencil(facet: Facet, points: FloatArray, lifted: bool, wary: bool = False) -> tuple[Facet, Facet] | None:
    """The two facets whose intersection the points on ``facet`` lie in; None where they span a facet of their own.

    u'y >= 0 holds for the sum of two facets as well, with equality where both units are off. There, the points vary in
    no more than p - 2 directions; in the plane of the two others all points form a wedge, whose sides are the facets.
    A plane can always be tilted until it meets a point or two more, so no direction may rest on so few of them, or on a
    few more where one is ``wary`` of outliers.
    """
    if points.shape[1] < 2:
        return None
    s = facet.noise
    on = points[np.abs(facet.height(points)) < _BAND * s]
    lone, most = _WARY if wary else _LONE
    for left_out in range(most + 1):
        center = on.mean(axis=0) if lifted and len(on) else np.zeros(points.shape[1])
        moved = on - center
        values, vectors = np.linalg.eigh(moved.T @ moved / max(len(on), 1))  # variances ascending, directions
        shares = (moved @ vectors[:, 1]) ** 2
        if left_out == most or not shares.max(initial=0.0) > lone * shares.sum():
            break
        on = np.delete(on, shares.argmax(), axis=0)
    if values[1] > max(s**2 * (1.2 + 4.0 * np.sqrt(2.0 / max(len(on), 1))), _ROUNDING * values[-1]):
        return None
    plane = vectors[:, :2]
    flat = (points - center) @ plane
    flat = flat[np.linalg.norm(flat, axis=1) > _REACH * s]
    if len(flat) < 2:
        return None
    ahead = np.arctan2(*flat.sum(axis=0)[::-1])
    angles = (np.arctan2(flat[:, 1], flat[:, 0]) - ahead + np.pi) % (2.0 * np.pi) - np.pi
    low, high = ahead + angles.min(), ahead + angles.max()
    sides = np.array([-np.sin(low), np.cos(low)]), np.array([np.sin(high), -np.cos(high)])
    one, other = (
        Facet(normal, -float(center @ normal) if lifted else 0.0, s) for normal in (plane @ side for side in sides)
    )
    return one, other


def misfit(heights: FloatArray, threshold: float = 0.0, off: int = 0) -> float:
    """Kolmogorov's distance of heights above a facet from a unit max(0, b + s g), g standard normal.

    It is multiplied by the root of their number; b and s are fitted to the quantiles above ``threshold``. ``off``
    counts further heights of 0. Units stay below 1, sums of units soon exceed it.
    """
    n = len(heights) + off
    ordered = np.sort(heights)
    above = ordered > max(threshold, 1e-6 * float(ordered[-1]))
    if np.count_nonzero(above) < _FIT_FROM:
        return 0.0
    shares = (off + np.flatnonzero(above) + 0.5) / n
    h = ordered[above]
    scale, bias = np.polyfit(ndtri(shares), h, 1)
    if not scale > 0.0:
        return float(np.sqrt(n))
    apart = np.abs(ndtr((h - bias) / scale) - shares).max()
    atom = abs(float(ndtr((threshold - bias) / scale)) - (n - len(h)) / n)
    return float(np.sqrt(n) * max(apart, atom))


# --- all of them ----------------------------------------------------------------------------------


def find_facets(
    cloud: Cloud, count: int, rng: np.random.Generator, progress: Progress = no_progress
) -> tuple[list[Facet], int]:
    """Up to ``count`` facets, and the number of starts; each call of ``progress`` has the number found so far.

    When time is up, the facets found until then are returned. Without success, facets may have rows below them that are
    outliers; once one is found, these rows are left out and the search begins again. Doubtful facets do not end the
    search before most of its starts are used.
    """
    if cloud.points.shape[1] == 1:
        end = _end_of_line(cloud)
        found = [end] if end.on + cloud.off >= _FEW else []
        progress(Step("Finding units", len(found), count, f"{len(found)} of {count} units found"))
        return found, 0
    found, starts, since, limit = [], 0, 0, _STARTS * max(count, 10)
    inlier = np.ones(len(cloud.points), dtype=bool)
    search = _Search(cloud, count, rng)
    with one_blas_thread():
        while since < limit:
            # Outliers would lie below most facets: where some were found without, there are none to allow for.
            level = 0.0 if inlier.all() and 4 * len(found) >= count else _LEVELS[len(_LEVELS) * since // limit]
            tasks = [search.start(starts + i, found, level) for i in range(_TOGETHER)]
            starts, since = starts + _TOGETHER, since + _TOGETHER
            for facets in map_in_threads(search.facets, tasks):
                for facet in facets:
                    _admit(facet, found, search.cloud, max(level, _CHANCE))
            found = _extreme(found, search.cloud, certain=bool(inlier.all()))
            # Points that lie below a facet by more than noise explains.
            lowest = np.array([-_LOW * facet.noise for facet in found])
            below: BoolArray = inlier & (heights_above(found, cloud.points) < lowest).any(axis=1)
            if level > 0.0 and below.any():
                inlier = inlier & ~below
                search = _Search(replace(cloud, points=cloud.points[inlier]), count, rng)
                found, since = [], 0
            number = min(len(found), count)
            try:
                progress(Step("Finding units", number, count, f"{number} of {count} units found"))
            except TimeIsUp:
                break
            if len(found) >= count and (since >= _PATIENCE * limit or not any(each.doubtful for each in found)):
                break
    return found[:count], starts


def _measure(facet: Facet, cloud: Cloud) -> Facet:
    """A facet with the counts and the misfit of the cloud."""
    unlike = misfit(facet.height(cloud.points), _NEAR_IT * facet.noise, cloud.off) if cloud.gaussian else 0.0
    return replace(count_points(facet, cloud.points), misfit=unlike)


def _end_of_line(cloud: Cloud) -> Facet:
    """The facet of points on a line: the origin, or where lifted the place where most points are."""
    line = cloud.points[:, 0]
    place = 0.0
    if cloud.lifted:
        ordered = np.sort(line)
        together = np.searchsorted(ordered, ordered + _NEAR_IT * cloud.noise, side="right") - np.arange(len(ordered))
        most = int(together.argmax())
        place = float(ordered[most : most + together[most]].mean())
    sign = 1.0 if (line - place).sum() > 0.0 else -1.0
    return _measure(Facet(np.array([sign]), -sign * place, cloud.noise), cloud)


class _Search:
    """Rows to search in, and the scale that gives each of them one length where the cloud is made round."""

    def __init__(self, cloud: Cloud, count: int, rng: np.random.Generator) -> None:
        points, most = cloud.points, max(_SEARCHED, _SEARCHED_PER_UNIT * count)
        if len(points) > most:
            points = points[rng.choice(len(points), most, replace=False)]
        size = math.sqrt(float((points**2).mean()))
        rows = np.column_stack([points, np.full(len(points), size)]) if cloud.lifted else points
        root = np.linalg.cholesky(rows.T @ rows / len(rows) + 1e-14 * size**2 * np.eye(rows.shape[1]))
        lengths = np.linalg.norm(np.linalg.solve(root, rows.T), axis=0)
        self.cloud, self._rng, self._points, self._rows = cloud, rng, points, rows
        self._scale = 1.0 / np.maximum(lengths, 1e-3)

    def start(
        self, number: int, found: list[Facet], allowed_below: float
    ) -> tuple[FloatArray, FloatArray, float, float]:
        """The next start; three of four aim at rows where the facets found are low.

        It is a row off the facet, first weights of all rows, the price of lying below over that of lying above, and the
        share of rows that may lie below without any price.
        """
        rows = self._rng.choice(len(self._rows), _TARGETS)
        chosen = rows[0]
        if found and number % 4:  # rows that the facets found explain least, relative to their highest unit
            heights = np.maximum(heights_above(found, self._points), 0.0)
            design = np.column_stack([heights, np.ones(len(heights))]) if self.cloud.lifted else heights
            left = self._points - design @ np.linalg.lstsq(design, self._points)[0]
            amount = np.linalg.norm(left, axis=1)
            high = (heights / heights.mean(axis=0)).max(axis=1)
            chosen = rows[(amount / (amount.mean() + 1e-300) / (0.1 + high))[rows].argmax()]
        second = self._rng.integers(len(self._rows))
        alike = (self._rows @ self._rows[second]) * self._scale
        near = alike >= np.quantile(alike, 1.0 - _NEAR[number // 2 % 2])
        reference = self._rows[chosen] * self._scale[chosen]
        return reference, np.where(near, 1.0, _FAR), _STEEP[number % 2], allowed_below

    def facets(self, start: tuple[FloatArray, FloatArray, float, float]) -> list[Facet]:
        """The facets that a start leads to: none, one, or two whose intersection it found."""
        cloud, wary = self.cloud, start[-1] > 0.0
        facet = nearest_facet(self._descend(*start), self._points, cloud.lifted)
        if facet is None or not self._many(count_points(facet, self._points), slack=2.0):
            return []
        sides = pencil(facet, cloud.points, cloud.lifted, wary)
        found = []
        for side in (facet,) if sides is None else sides:
            near = nearest_facet(side, cloud.points, cloud.lifted)
            if near is None or pencil(near, cloud.points, cloud.lifted, wary) is not None:
                continue
            best = _measure(most_likely(near, cloud.points, cloud.lifted), cloud)
            if self._many(best):
                found.append(best)
        return found

    def _descend(self, reference: FloatArray, weights: FloatArray, steep: float, allowed_below: float) -> Facet:
        rows, scale, p = self._rows, self._scale, self._points.shape[1]
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
            widths: FloatArray = np.maximum(width, 2.0 * self.cloud.noise * float(np.linalg.norm(q[:p])) * scale)
            weights = np.asarray(np.where(height < -widths, steep, 1.0) / (size**2 + widths**2), np.float64)
            if allowed_below > 0.0:
                weights[height < min(float(np.quantile(height, allowed_below)), 0.0)] = 0.0
        length = float(np.linalg.norm(q[:p]))
        offset = float(q[p]) * rows[0, p] if self.cloud.lifted else 0.0
        return Facet(q[:p] / length, offset / length, self.cloud.noise)

    def _many(self, facet: Facet, slack: float = 1.0) -> bool:
        """Whether a facet holds more points than a plane through p of them, and than the density above explains."""
        least = 3 * self.cloud.points.shape[1]
        enough = slack * facet.on >= least and slack * facet.on > _SPIKE * facet.density
        return enough and facet.above >= _EVER_ON


def _admit(facet: Facet, found: list[Facet], cloud: Cloud, allowed: float) -> None:
    """Add a facet. Where it depends on others, it takes the place of a doubtful one or one with fewer points on it.

    Of facets that depend on each other not all are facets of the cone: it has p, and their normals are a basis. The
    true ones have the most points.
    """
    if facet.below > max(allowed * len(cloud.points), _STRAY) or _CLEAN * facet.below > facet.on:
        return
    ranked = sorted([*found, facet], key=lambda entry: (entry.doubtful, -entry.on))
    heights = heights_above(ranked, cloud.points)
    if cloud.lifted:
        heights = heights - heights.mean(axis=0)
    sizes = np.sqrt((heights**2).mean(axis=0))
    left = np.abs(np.diag(np.linalg.qr(heights / sizes, mode="r"))) / math.sqrt(len(heights))
    coarse = math.sqrt(50.0 * heights.shape[1]) * cloud.noise / sizes
    new = left > np.clip(coarse, _ALIKE, _SAME)
    found[:] = [entry for entry, is_new in zip(ranked, new, strict=True) if is_new]


def _extreme(found: list[Facet], cloud: Cloud, certain: bool) -> list[Facet]:
    """The facets that are no sum of two others: a sum is off in no row in which one of its parts is on.

    Where rows are ``certain`` one row to the contrary is proof; else a few outliers are not.
    """
    heights = heights_above(found, cloud.points)
    off, on = heights < _NEAR_IT * cloud.noise, heights > _FAR_FROM_IT * cloud.noise
    apart = off.astype(float).T @ on.astype(float)  # rows where one is off and another on
    needed = 1.0 if certain else np.maximum(_FEW, _SHARE * on.sum(axis=0))
    sums = (apart < needed) & ~np.eye(len(found), dtype=bool)
    return [entry for entry, is_sum in zip(found, sums.any(axis=1), strict=True) if not is_sum]


def heights_above(found: Sequence[Facet], points: FloatArray) -> FloatArray:
    """Heights of points above facets, n x m."""
    columns = [facet.height(points) for facet in found]
    return np.stack(columns, axis=1) if columns else np.zeros((len(points), 0))
