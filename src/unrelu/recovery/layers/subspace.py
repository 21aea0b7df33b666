"""The space that x = A h (+ a) varies in, its dimension, the noise around it, and the rows that are not from it.

Rows far from a p-dimensional space that the others lie in are outliers. Where plain principal components leave some,
the space of least trimmed squares is searched for: from a few random rows to the rows nearest to their space, and so
on (the concentration steps of Rousseeuw and Van Driessen). Then rows that noise explains are taken back in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from unrelu.contracts import BoolArray, FloatArray
from unrelu.engines.local import one_blas_thread

_ROUNDS = 30
_STARTS = 30
_KEPT = 0.75  # share of the rows that the trimmed search tries to fit
_SEARCHED = 2000  # rows it looks at
_ABOVE_NOISE = 3.0  # times the noise's singular values: a direction that rows vary in
_DIRECTIONS = 50  # rows outside whose directions are tried
_REACH = 2.0  # root mean squares of noise that a row may have across such a direction
_RARE = 1e-5  # chance that a genuine row is taken for an outlier, before it is divided by their number
ROUNDING = 1e-9  # of the rows' root mean square


@dataclass(frozen=True)
class Subspace:
    """``basis`` (d x p) has orthonormal columns; ``noise`` is the standard deviation of noise in every coordinate."""

    center: FloatArray
    basis: FloatArray
    noise: float
    genuine: BoolArray  # rows that lie in it

    def coordinates(self, X: FloatArray) -> FloatArray:
        """Of rows, n x p."""
        inside: FloatArray = (X - self.center) @ self.basis
        return inside


def find_subspace(
    X: FloatArray, p: int, centered: bool, rng: np.random.Generator, rounding: float = ROUNDING
) -> Subspace:
    """The p-dimensional space (affine where ``centered``) that most rows lie in.

    Noise below ``rounding``, relative to the rows' size, is not told from none.
    """
    n, d = X.shape
    size = float(np.sqrt(np.median((X**2).sum(axis=1)) / d)) or float(np.sqrt((X**2).mean()))
    least = rounding * size
    genuine = np.ones(n, dtype=bool)
    center, basis = _principal(X, p, centered)
    if p == d:
        return Subspace(center, basis, least, genuine)
    if not _inside(X, center, basis, least).all():
        with one_blas_thread():
            center, basis = _trimmed(X, p, centered, least, rng)
    for _ in range(_ROUNDS):
        before, genuine = genuine, _inside(X, center, basis, least)
        center, basis = _principal(X[genuine], p, centered)
        if (genuine == before).all():
            break
    left = _distances(X[genuine], center, basis)
    noise = float(np.sqrt((left**2).sum() / max((len(left) - p) * (d - p), 1)))
    return Subspace(center, basis, max(noise, least), genuine)


def rank_of(X: FloatArray) -> int:
    """The number of dimensions, about the rows' mean, before the largest fall of the variance from one to the next."""
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    values = np.maximum(values, 1e-24 * values[0])
    return 1 + int(np.argmax(values[:-1] / values[1:])) if len(values) > 1 else 1


def _inside(X: FloatArray, center: FloatArray, basis: FloatArray, least: float) -> BoolArray:
    """Rows as near to a space as noise explains, whose scale is that of the nearer half."""
    free = X.shape[1] - basis.shape[1]
    distance = _distances(X, center, basis)
    scale = max(float(np.sqrt(np.median(distance**2) / chi2.ppf(0.5, free))), least)
    inside: BoolArray = distance <= scale * float(np.sqrt(chi2.isf(_RARE / len(X), free)))
    return inside


def _trimmed(
    X: FloatArray, p: int, centered: bool, least: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The space of least trimmed squares: from few random rows, then again and again from the rows nearest to it.

    Rows that nearly all have a unit off leave its direction open: of what is found, the space with the most rows in it
    counts, completed by the directions in which most of the rows outside lie.
    """
    X = np.unique(X, axis=0)  # copies of one outlier are no direction that many rows share
    if len(X) > _SEARCHED:
        X = X[rng.choice(len(X), _SEARCHED, replace=False)]
    kept = int(_KEPT * len(X))
    best, most = _principal(X, p, centered), -1
    if kept <= p:  # too few to leave any out
        return best
    for _ in range(_STARTS):
        rows = rng.choice(len(X), min(p + 2, len(X)), replace=False)
        value = np.inf
        for _ in range(_ROUNDS):
            space = _principal(X[rows], p, centered)
            distance = _distances(X, *space)
            rows = np.argpartition(distance, kept - 1)[:kept]
            before, value = value, float((distance[rows] ** 2).sum())
            if value > 0.999 * before:
                break
        space = _completed(X, X[rows], p, centered, least, rng)
        inside = int(np.count_nonzero(_inside(X, *space, least)))
        if inside > most:
            best, most = space, inside
    return best


def _completed(
    X: FloatArray, core: FloatArray, p: int, centered: bool, least: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The p-dimensional space of core rows; directions that these leave to noise are taken from the rows outside."""
    center = core.mean(axis=0) if centered else np.zeros(X.shape[1])
    _, values, directions = np.linalg.svd(core - center, full_matrices=False)
    noise = max(float(np.sqrt((values[p:] ** 2).mean())), least * np.sqrt(len(core)))
    basis = directions[: int(np.count_nonzero(values[:p] > _ABOVE_NOISE * noise))].T
    while basis.shape[1] < p:
        left = (X - center) - ((X - center) @ basis) @ basis.T
        outside = np.flatnonzero(~_inside(X, center, basis, least))
        if len(outside) == 0:
            return center, directions[:p].T
        left = left[outside]
        units = left / np.linalg.norm(left, axis=1, keepdims=True)
        tried = units[rng.choice(len(units), min(_DIRECTIONS, len(units)), replace=False)]
        across = np.sqrt(np.maximum((left**2).sum(axis=1) - (tried @ left.T) ** 2, 0.0))
        reach = _REACH * noise / np.sqrt(len(core)) * np.sqrt(X.shape[1])
        together = left[across[(across < reach).sum(axis=1).argmax()] < reach]
        new = np.linalg.svd(together, full_matrices=False)[2][:1].T
        basis = np.column_stack([basis, new - basis @ (basis.T @ new)])
        basis[:, -1] /= np.linalg.norm(basis[:, -1])
    return center, basis


def _principal(X: FloatArray, p: int, centered: bool) -> tuple[FloatArray, FloatArray]:
    """(center, orthonormal basis) of principal components."""
    center = X.mean(axis=0) if centered else np.zeros(X.shape[1])
    _, _, directions = np.linalg.svd(X - center, full_matrices=False)
    return center, directions[:p].T


def _distances(X: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray:
    moved = X - center
    distances: FloatArray = np.linalg.norm(moved - (moved @ basis) @ basis.T, axis=1)
    return distances
