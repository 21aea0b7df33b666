"""One facet of a cloud of points, fitted by likelihood: a hyperplane that many points lie on and none lies below.

With r = u'y + o, |u| = 1, and noise of standard deviation s in every coordinate of y, r is s g (g standard normal)
where the unit is off, and spread evenly, at this scale, above 0 where it is on:

    density of r/s at t:  share phi(t) + slope Phi(t) + lost

phi and Phi are the normal density and distribution function; ``lost`` stands for rows that belong nowhere. Its maximum
over u and o is found by Newton's steps on the sphere |u| = 1. Noise in y turns least squares into total least squares;
the sphere is what does that. Points just above the facet, which a plain fit would take for points on it, are in the
second term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from unrelu.contracts import FloatArray

_REACH = 12.0  # standard deviations from the facet that the fit looks at
_CLEAR = 4.0  # standard deviations above it from where on a point is on no account on it
_ROUNDS = 15
_REFITS = 3
_LOST = 1e-4
_FIT_FROM = 20  # heights above 0 that it takes to judge a unit's law
_BAND = 2.5  # standard deviations from a facet within which a point is taken to be on it
_LONE, _WARY = (0.34, 3), (0.2, 10)  # share of a direction's variance that one point may make up; points left out
_ROUNDING = 1e-13  # of the largest of some eigenvalues
_ROOT = 2.5066282746310002  # sqrt(2 pi)


@dataclass(frozen=True)
class Facet:
    """u'y + o >= 0 with |u| = 1; ``noise`` is the standard deviation of u'y + o on the facet."""

    normal: FloatArray
    offset: float
    noise: float

    def height(self, points: FloatArray) -> FloatArray:
        """u'y + o of every point."""
        heights: FloatArray = points @ self.normal + self.offset
        return heights


@dataclass(frozen=True)
class Support:
    """What points say of a facet: how many lie on it, how dense they are just above (per s), how many lie below, and
    how many clearly above."""

    on: float
    density: float
    below: int
    above: int


def support(facet: Facet, points: FloatArray) -> Support:
    """Counts of points on, just above and below."""
    t = facet.height(points) / facet.noise
    density = np.count_nonzero((t > _CLEAR) & (t < _REACH)) / (_REACH - _CLEAR)
    on = (np.count_nonzero(np.abs(t) < 2.0) - 2.0 * density) / 0.9545
    return Support(on, density, int(np.count_nonzero(t < -_CLEAR)), int(np.count_nonzero(t > _REACH)))


def through(points: FloatArray, lifted: bool) -> tuple[FloatArray, float]:
    """(u, o) of the hyperplane nearest to points, in total least squares; through the origin unless lifted."""
    center = points.mean(axis=0) if lifted else np.zeros(points.shape[1])
    moved = points - center
    _, vectors = np.linalg.eigh(moved.T @ moved)
    normal = vectors[:, 0]
    return normal, -float(center @ normal)


def nearest_facet(start: Facet, points: FloatArray, lifted: bool) -> Facet | None:
    """The hyperplane through the points around one, in narrowing bands; None where too few are left."""
    facet, inside = start, np.zeros(len(points), dtype=bool)
    for width in (6.0, 4.0, 3.0, _BAND, _BAND, _BAND, _BAND, _BAND):
        height = facet.height(points)
        before, inside = inside, np.abs(height) < width * facet.noise
        if np.count_nonzero(inside) < points.shape[1]:
            return None
        if (inside == before).all():
            break
        normal, offset = through(points[inside], lifted)
        if normal @ facet.normal < 0.0:
            normal, offset = -normal, -offset
        facet = Facet(normal, offset, facet.noise)
    return facet


def most_likely(facet: Facet, points: FloatArray, lifted: bool) -> Facet:
    """The facet of highest likelihood near one."""
    for _ in range(_REFITS):
        near = points[np.abs(facet.height(points)) < _REACH * facet.noise]
        seen = support(facet, near)
        density = max(seen.density, 0.5)
        total = max(seen.on, 1.0) + density * _REACH
        moved = _ascend(facet, near, max(seen.on, 1.0) / total, density / total, lifted)
        change = np.abs(moved.normal - facet.normal).max()
        facet = moved
        if change < 1e-10:
            break
    return facet


def _ascend(facet: Facet, points: FloatArray, share: float, slope: float, lifted: bool) -> Facet:
    """Newton's steps for u and o, shares fixed; curvatures are those of EM, which point upwards always."""
    s = facet.noise
    normal, offset = facet.normal, facet.offset
    value = _log_likelihood((points @ normal + offset) / s, share, slope)
    for _ in range(_ROUNDS):
        t = (points @ normal + offset) / s
        gradient, curvature = _derivatives(t, share, slope)
        tangent = _complement(normal)
        design = points @ tangent
        if lifted:
            design = np.column_stack([design, np.ones(len(points))])
        slope_at = design.T @ gradient / s
        # Along the sphere the normal turns away from its own direction too, by u'(gradient).
        bend = np.full(design.shape[1], float((points @ normal) @ gradient) / s)
        bend[tangent.shape[1] :] = 0.0
        matrix = (design * curvature[:, None]).T @ design / s**2
        turned = matrix + np.diag(bend)
        smallest = np.linalg.eigvalsh(turned)[0]
        if not smallest > 1e-12 * np.trace(matrix):
            turned = matrix + 1e-12 * np.trace(matrix) * np.eye(len(matrix))
        step = np.linalg.lstsq(turned, slope_at)[0]  # directions without points on the facet stay as they are
        moved, shifted, tried = normal, offset, value
        for _ in range(12):
            moved = normal + tangent @ step[: tangent.shape[1]]
            length = np.linalg.norm(moved)
            moved, shifted = moved / length, offset + (step[-1] if lifted else 0.0)
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
    """Of the log density: its derivative, and EM's curvature (an upper bound of minus the second one)."""
    bell = np.exp(-0.5 * t * t) / _ROOT
    on, above = share * bell, slope * ndtr(t)
    density = on + above + _LOST
    ratio = np.exp(-0.5 * t * t - log_ndtr(t)) / _ROOT  # phi/Phi
    gradient = (slope * bell - on * t) / density
    curvature = (on + above * ratio * (t + ratio)) / density
    return gradient, curvature


def _complement(normal: FloatArray) -> FloatArray:
    """Orthonormal columns orthogonal to a unit vector (the other columns of a Householder reflection)."""
    p = len(normal)
    pivot = int(np.abs(normal).argmax())
    v = normal.copy()
    v[pivot] += np.sign(normal[pivot])
    reflection = np.eye(p) - 2.0 / (v @ v) * np.outer(v, v)
    others: FloatArray = np.delete(reflection, pivot, axis=1)
    return others


def _shape(points: FloatArray, lifted: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(center, variances, directions) of points, variances ascending."""
    center = points.mean(axis=0) if lifted and len(points) else np.zeros(points.shape[1])
    moved = points - center
    values, vectors = np.linalg.eigh(moved.T @ moved / max(len(points), 1))
    return center, values, vectors


def pencil(facet: Facet, points: FloatArray, lifted: bool, wary: bool = False) -> tuple[Facet, Facet] | None:
    """The two facets whose intersection the points on ``facet`` lie in; None where they span a facet of their own.

    u'y >= 0 holds for the sum of two facets as well, with equality where both units are off. There, the points vary in
    no more than p - 2 directions; in the plane of the two others all points form a wedge, whose sides are the facets.
    A plane can always be tilted until it meets a point or two more, so no direction may rest on so few of them, or on a
    few more where one is ``wary`` of outliers.
    """
    s = facet.noise
    on = points[np.abs(facet.height(points)) < _BAND * s]
    center, values, vectors = _shape(on, lifted)
    lone, most = _WARY if wary else _LONE
    for _ in range(most if points.shape[1] > 1 else 0):
        shares = ((on - center) @ vectors[:, 1]) ** 2
        if not shares.max(initial=0.0) > lone * shares.sum():
            break
        on = np.delete(on, shares.argmax(), axis=0)
        center, values, vectors = _shape(on, lifted)
    flat_below = max(s**2 * (1.2 + 4.0 * np.sqrt(2.0 / max(len(on), 1))), _ROUNDING * values[-1])
    if points.shape[1] < 2 or values[1] > flat_below:
        return None
    plane = vectors[:, :2]
    flat = (points - center) @ plane
    flat = flat[np.linalg.norm(flat, axis=1) > _REACH * s]
    if len(flat) < 2:
        return None
    ahead = np.arctan2(*flat.sum(axis=0)[::-1])
    angles = (np.arctan2(flat[:, 1], flat[:, 0]) - ahead + np.pi) % (2.0 * np.pi) - np.pi
    low, high = ahead + angles.min(), ahead + angles.max()
    normals = (
        plane @ np.array([-np.sin(low), np.cos(low)]),
        plane @ np.array([np.sin(high), -np.cos(high)]),
    )
    one, other = (Facet(normal, -float(center @ normal) if lifted else 0.0, s) for normal in normals)
    return one, other


def misfit(heights: FloatArray, threshold: float = 0.0, off: int = 0) -> float:
    """How little heights above a facet look like a unit max(0, b + s g), g standard normal: Kolmogorov's distance.

    Times the root of their number; b and s are fitted to the quantiles above ``threshold``. ``off`` counts further
    heights of 0. Units stay below 1, sums of units soon do not.

    >>> g = np.random.default_rng(0).standard_normal(1000)
    >>> misfit(np.maximum(g, 0.0)) < 1.0 < misfit(np.maximum(g, 0.0) ** 2)
    True
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
