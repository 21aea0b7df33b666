"""Two layers by the book: cones by enumeration, SciPy's hulls, and an oracle that has the units that are on."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial import ConvexHull
from scipy.special import ndtr


def draw(rng, d=12, p=4, n=800, *, k=None, bias=0.3, noise=0.0, nonnegative=False, output_bias=False):
    """(X, A, h, a): x = A h + a + noise, h = ReLU(W z + bias), A and W standard normal (A's absolute values)."""
    A, W = rng.standard_normal((d, p)), rng.standard_normal((p, k or p))
    A = np.abs(A) if nonnegative else A
    h = np.maximum(rng.standard_normal((n, k or p)) @ W.T + bias, 0.0)
    a = rng.standard_normal(d) if output_bias else np.zeros(d)
    return h @ A.T + a + noise * rng.standard_normal((n, d)), A, h, a


def cone(rng, p, n, lifted=False):
    """(points, normals, offsets): y = B h + o with h rectified; normals of length 1 are rows of B's inverse."""
    B = rng.standard_normal((p, p))
    h = np.maximum(rng.standard_normal((n, p)) + 0.2, 0.0)
    apex = rng.standard_normal(p) if lifted else np.zeros(p)
    normals = np.linalg.inv(B)
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    points = h @ B.T + apex
    # A row with every unit off carries no information on a cone whose apex is given.
    return points if lifted else points[(h > 0.0).any(axis=1)], normals, -normals @ apex


def unit_columns(A):
    return A / np.linalg.norm(A, axis=0)


def matched(found, truth):
    """Order of ``found``'s columns that fits ``truth``'s columns best, both of length 1."""
    return linear_sum_assignment(-(unit_columns(truth).T @ unit_columns(found)))[1]


def column_error(found, truth):
    """Largest distance between columns of length 1, best order."""
    return float(np.linalg.norm(unit_columns(found)[:, matched(found, truth)] - unit_columns(truth), axis=0).max())


def facets_by_enumeration(points, least, slack=1e-9):
    """Normals of all hyperplanes through 0 and p - 1 points, with none below and ``least`` or more on them."""
    p = points.shape[1]
    scaled = points / np.linalg.norm(points, axis=1)[:, None]
    chosen = np.array(list(combinations(range(len(points)), p - 1)))
    _, values, vectors = np.linalg.svd(scaled[chosen])
    normals = vectors[:, -1][values[:, -1] > 1e-6]
    normals = np.concatenate([normals, -normals])
    heights = normals @ scaled.T
    good = (heights.min(axis=1) > -slack) & ((np.abs(heights) < slack).sum(axis=1) >= least)
    return distinct(normals[good])


def facets_by_hull(points, least, slack=1e-9):
    """(normals, offsets) of the faces of the convex hull with at least ``least`` points on them, inward."""
    faces = -ConvexHull(points).equations
    faces = faces[(np.abs(points @ faces[:, :-1].T + faces[:, -1]) < slack).sum(axis=0) >= least]
    faces = distinct(faces, 1e-7)
    return faces[:, :-1], faces[:, -1]


def distinct(rows, apart=1e-6):
    """Rows of which no two are alike."""
    kept = []
    for row in rows:
        if all(np.abs(row - other).max() > apart for other in kept):
            kept.append(row)
    return np.array(kept)


def is_extreme(normal, points):
    """Whether a supporting normal is no sum of two others: a linear program over q'y >= 0 with q = 0 where it is.

    If q'y = 0 on all points where normal'y = 0, q must be a multiple of the normal.
    """
    heights = points @ normal
    on = np.abs(heights) < 1e-9 * np.abs(heights).max()
    rng = np.random.default_rng(0)
    lengths = points.sum(axis=0)
    for _ in range(3):
        program = linprog(
            rng.standard_normal(len(normal)),
            A_ub=-points[~on],
            b_ub=np.zeros(np.count_nonzero(~on)),
            A_eq=np.vstack([points[on], lengths]),
            b_eq=np.r_[np.zeros(np.count_nonzero(on)), lengths @ normal],
            bounds=[(None, None)] * len(normal),
        )
        if program.status != 0 or np.abs(program.x - normal).max() > 1e-6:
            return False
    return True


def log_likelihood(normal, offset, points, noise, share, slope, lost=1e-4):
    """Of heights above a facet, point by point."""
    total = 0.0
    for y in points:
        t = (float(y @ normal) + offset) / noise
        total += np.log(share * np.exp(-t * t / 2) / np.sqrt(2 * np.pi) + slope * ndtr(t) + lost)
    return float(total)


def oracle(X, A, h, rounds=300):
    """A by alternating least squares from the truth, given which units are on in which row."""
    on = h > 0.0
    patterns, which = np.unique(on, axis=0, return_inverse=True)
    A = A.copy()
    for _ in range(rounds):
        units = np.zeros(h.shape)
        for number, pattern in enumerate(patterns):
            rows = which == number
            if pattern.any():
                units[np.ix_(rows, pattern)] = X[rows] @ np.linalg.pinv(A[:, pattern]).T
        A = np.linalg.lstsq(units, X)[0].T
    return A


def network(rng, widths, n=1000, shift=0.2, bias=0.5, lift=0.0):
    """(X, layers, innermost): widths from the innermost units outwards, layers (A, b) from the outermost inwards."""
    h = np.maximum(rng.standard_normal((n, widths[0])) @ rng.standard_normal((widths[0], widths[0])).T + shift, 0.0)
    innermost, layers = h, []
    for inner, outer in pairwise(widths):
        A, b = rng.standard_normal((outer, inner)), lift + bias * rng.standard_normal(outer)
        h = np.maximum(h @ A.T + b, 0.0)
        layers.insert(0, (A, b))
    return h, layers, innermost
