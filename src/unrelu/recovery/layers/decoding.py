"""The space of x = A h (+ a), and from facets of the rows in it to an output layer, read backwards as h = Q x + o.

Rows far from a p-dimensional space that the others lie in are outliers. Where plain principal components leave some,
the search is for the space of least trimmed squares: from a few random rows to the rows nearest to their space, again
and again (the concentration steps of Rousseeuw and Van Driessen). Then rows that noise explains are added again.

With y = B'(x - m) the coordinates of x in its subspace and r = N y + o the heights above the p facets:

    x = m + B y = m - B N^-1 o + B N^-1 r;     A is B N^-1 with columns scaled to length 1

Separable non-negative factorization by successive projection, as Wu et al. 2019 suggests for two layers, is the other
way: if for every hidden unit some row has that unit on and all others off, these rows are the columns of A, up to
scale, and the extreme ones among rows scaled to sum 1. Successive projection (Araujo et al. 2001; Gillis and Vavasis
2014) takes the longest row, projects it out of all rows, and so on. With p units such rows have a probability of about
2^-p: this is for few units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from unrelu.contracts import BoolArray, FloatArray, Progress, no_progress
from unrelu.notebook import Shown
from unrelu.passes import one_blas_thread
from unrelu.recovery.layers.facets import MISFIT, Cloud, Facet, find_facets
from unrelu.recovery.layers.inputs import InnerLayer

ROUNDING = 1e-9  # of the rows' root mean square

_ROUNDS = 30
_STARTS = 30
_KEPT = 0.75  # share of the rows that the trimmed search tries to fit
_SEARCHED = 2000  # rows that this search uses
_ABOVE_NOISE = 3.0  # times the noise's singular values: a direction that rows vary in
_DIRECTIONS = 50  # rows outside whose directions are tried
_REACH = 2.0  # root mean squares of noise that a row may have across such a direction
_RARE = 1e-5  # chance that an inlier row is taken for an outlier, before it is divided by their number

_OFF = 4.0  # standard deviations of noise below which a hidden unit is taken to be off
_SOME = 0.1  # share of them that makes a layer thin
_THIN_ROWS = 51  # rows whose neighbours decide whether a layer is thin
_BELOW = 6.0  # standard deviations of noise below 0 from where on a row is an outlier
_THIN_MISFIT = 1.0  # a doubtful unit's distance where coincidences are to be feared
_TINY = 10.0  # rows of so many standard deviations in length have every unit off


# --- the space of the rows ------------------------------------------------------------------------


@dataclass(frozen=True)
class Subspace:
    """``basis`` (d x p) has orthonormal columns; ``noise`` is the standard deviation of noise in every coordinate."""

    center: FloatArray
    basis: FloatArray
    noise: float
    inlier: BoolArray  # rows that lie in it


def find_subspace(
    X: FloatArray, p: int, centered: bool, rng: np.random.Generator, rounding: float = ROUNDING
) -> Subspace:
    """The p-dimensional space (affine where ``centered``) that most rows lie in.

    Noise below ``rounding``, relative to the rows' size, counts as rounding.
    """
    n, d = X.shape
    size = float(np.sqrt(np.median((X**2).sum(axis=1)) / d)) or float(np.sqrt((X**2).mean()))
    least = rounding * size
    inlier = np.ones(n, dtype=bool)
    center, basis = _principal(X, p, centered)
    if p == d:
        return Subspace(center, basis, least, inlier)
    if not _inside(X, center, basis, least).all():
        with one_blas_thread():
            center, basis = _fit_trimmed(X, p, centered, least, rng)
    for _ in range(_ROUNDS):
        before, inlier = inlier, _inside(X, center, basis, least)
        center, basis = _principal(X[inlier], p, centered)
        if (inlier == before).all():
            break
    left = _distances(X[inlier], center, basis)
    noise = float(np.sqrt((left**2).sum() / max((len(left) - p) * (d - p), 1)))
    return Subspace(center, basis, max(noise, least), inlier)


def rank_of(X: FloatArray) -> int:
    """The number of dimensions, about the rows' mean, before the largest fall of the variance from one to the next."""
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    values = np.maximum(values, 1e-24 * values[0])
    return 1 + int(np.argmax(values[:-1] / values[1:])) if len(values) > 1 else 1


def _principal(X: FloatArray, p: int, centered: bool) -> tuple[FloatArray, FloatArray]:
    """(center, orthonormal basis) of principal components."""
    center = X.mean(axis=0) if centered else np.zeros(X.shape[1])
    return center, np.linalg.svd(X - center, full_matrices=False)[2][:p].T


def _distances(X: FloatArray, center: FloatArray, basis: FloatArray) -> FloatArray:
    moved = X - center
    return np.asarray(np.linalg.norm(moved - (moved @ basis) @ basis.T, axis=1))


def _inside(X: FloatArray, center: FloatArray, basis: FloatArray, least: float) -> BoolArray:
    """Rows as near to a space as noise explains, whose scale is that of the nearer half."""
    free = X.shape[1] - basis.shape[1]
    distance = _distances(X, center, basis)
    scale = max(float(np.sqrt(np.median(distance**2) / chi2.ppf(0.5, free))), least)
    return distance <= scale * float(np.sqrt(chi2.isf(_RARE / len(X), free)))


def _fit_trimmed(
    X: FloatArray, p: int, centered: bool, least: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The space of least trimmed squares: from few random rows, then again and again from the rows nearest to it.

    Rows that nearly all have a unit off leave its direction open: the result is the space with the most rows in it,
    completed by the directions in which most of the rows outside lie.
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
            distance = _distances(X, *_principal(X[rows], p, centered))
            rows = np.argpartition(distance, kept - 1)[:kept]
            before, value = value, float((distance[rows] ** 2).sum())
            if value > 0.999 * before:
                break
        space = _complete_space(X, X[rows], p, centered, least, rng)
        inside = int(np.count_nonzero(_inside(X, *space, least)))
        if inside > most:
            best, most = space, inside
    return best


def _complete_space(
    X: FloatArray, core: FloatArray, p: int, centered: bool, least: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The p-dimensional space of core rows; directions that these leave to noise are taken from the rows outside."""
    center = core.mean(axis=0) if centered else np.zeros(X.shape[1])
    _, values, directions = np.linalg.svd(core - center, full_matrices=False)
    noise = max(float(np.sqrt((values[p:] ** 2).mean())), least * np.sqrt(len(core)))
    reach = _REACH * noise / np.sqrt(len(core)) * np.sqrt(X.shape[1])
    basis = directions[: int(np.count_nonzero(values[:p] > _ABOVE_NOISE * noise))].T
    while basis.shape[1] < p:
        outside = np.flatnonzero(~_inside(X, center, basis, least))
        if len(outside) == 0:
            return center, directions[:p].T
        left = ((X - center) - ((X - center) @ basis) @ basis.T)[outside]
        units = left / np.linalg.norm(left, axis=1, keepdims=True)
        tried = units[rng.choice(len(units), min(_DIRECTIONS, len(units)), replace=False)]
        across = np.sqrt(np.maximum((left**2).sum(axis=1) - (tried @ left.T) ** 2, 0.0))
        together = left[across[(across < reach).sum(axis=1).argmax()] < reach]
        new = np.linalg.svd(together, full_matrices=False)[2][:1].T
        basis = np.column_stack([basis, new - basis @ (basis.T @ new)])
        basis[:, -1] /= np.linalg.norm(basis[:, -1])
    return center, basis


# --- the layer ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputLayer:
    """x = A h + a: ``weights`` A (d x p, columns of length 1), ``bias`` a, and h = ``encoder`` x + ``offset``.

    ``noise`` is the standard deviation of noise in each hidden unit. Where facets are missing, the rows of the
    encoder are the hidden units found, in arbitrary scale, and the weights are not determined (NaN).
    """

    weights: Annotated[FloatArray, "unbounded floats d p"]
    bias: Annotated[FloatArray, "unbounded floats d"]
    encoder: Annotated[FloatArray, "floats m d"]
    offset: Annotated[FloatArray, "floats m"]
    noise: Annotated[FloatArray, "floats m"]

    @property
    def threshold(self) -> FloatArray:
        """The height below which noise may explain a unit's value: it counts as off."""
        return _OFF * self.noise

    def heights(self, X: FloatArray) -> FloatArray:
        """Heights of rows above the facets; those of inlier rows are units and noise."""
        return X @ self.encoder.T + self.offset

    def hidden(self, X: FloatArray) -> FloatArray:
        """Hidden units of rows, 0 where a unit is off."""
        heights = self.heights(X)
        return np.where(heights > self.threshold, heights, 0.0)

    def output(self, hidden: FloatArray) -> FloatArray:
        """Rows of hidden units."""
        return hidden @ self.weights.T + self.bias


@dataclass(frozen=True)
class LayerReport(Shown):
    """The outcome of the search for a layer.

    ``units_found`` of ``n_hidden``; ``rows_off`` counts the rows in which each unit found is off; ``noise`` is the
    standard deviation of noise in x; ``residual`` the part of x that the layer leaves, relative; ``n_outlier_rows``
    were left out; ``doubtful_units`` do not look like rectified Gaussians, and may not be units; ``thin`` layers have
    fewer inputs than units, so that planes can hold many rows by coincidence; ``starts`` is how many searches for
    facets it took; ``ended`` says why the search was ended before it was over, if it was.
    """

    method: str
    n_rows: int
    n_features: int
    n_hidden: int
    units_found: int
    rows_off: tuple[int, ...]
    noise: float
    residual: float
    n_outlier_rows: int
    doubtful_units: tuple[int, ...]
    thin: bool
    starts: int
    ended: str | None = None

    @property
    def converged(self) -> bool:
        """Whether every unit was found."""
        return self.units_found == self.n_hidden


@dataclass(frozen=True, eq=False)
class FoundLayer:
    """An output layer, its report, the rows that it describes, and the layer of the inputs behind it.

    ``inner`` is that layer, where ``n_inputs`` was given and every unit was found, and ``choice`` are pairs of a number
    of inputs tried and the relative residual that it leaves of the units found until then. ``fault`` says what is wrong
    with the number of inputs.
    """

    layer: OutputLayer
    report: LayerReport
    inlier: BoolArray
    inner: InnerLayer | None = None
    choice: tuple[tuple[int, float], ...] = ()
    fault: str | None = None


def decode_by_facets(
    X: FloatArray,
    space: Subspace,
    lifted: bool,
    gaussian: bool,
    rng: np.random.Generator,
    progress: Progress = no_progress,
) -> FoundLayer:
    """The layer whose facets rows of X show; incomplete where fewer than p are found."""
    cloud, used = cloud_of(X, space, lifted, gaussian)
    n, p = cloud.points.shape
    facets, starts = ([], 0) if n < p else find_facets(cloud, p, rng, progress)
    layer = _layer_of(facets, space)
    thin = _is_thin(cloud.points, layer.heights(X[used]) > layer.threshold, space.noise)
    return nearest_one(X, space, facets, "facets", _THIN_MISFIT if thin else MISFIT, thin, starts)[0]


def cloud_of(X: FloatArray, space: Subspace, lifted: bool, gaussian: bool) -> tuple[Cloud, BoolArray]:
    """The different rows of X in their space, without those with every unit off, and a mask of them."""
    points = (X - space.center) @ space.basis
    all_off = (not lifted) & (np.linalg.norm(points, axis=1) <= _TINY * space.noise)
    used = space.inlier & ~all_off
    if points.shape[1] > 1:  # one of each group of equal rows: copies lie on any facet through one and prove nothing
        distinct = np.zeros(len(points), dtype=bool)
        distinct[np.unique(np.round(points / (_TINY * space.noise)), axis=0, return_index=True)[1]] = True
        used &= distinct
    off = int(np.count_nonzero(space.inlier & all_off))
    return Cloud(points[used], space.noise, lifted, gaussian, off), used


def nearest_one(
    X: FloatArray, space: Subspace, facets: list[Facet], method: str, misfit: float, thin: bool, starts: int
) -> tuple[FoundLayer, NDArray[np.int64]]:
    """The layer of facets, units by falling variance, and their order; a larger ``misfit`` makes a unit doubtful."""
    layer, p = _layer_of(facets, space), space.basis.shape[1]
    order = np.argsort(-layer.hidden(X[space.inlier]).var(axis=0), kind="stable")
    weights = layer.weights[:, order] if len(order) == p else layer.weights
    layer = OutputLayer(weights, layer.bias, layer.encoder[order], layer.offset[order], layer.noise[order])
    inlier = space.inlier & ~(layer.heights(X) < -_BELOW * layer.noise).any(axis=1)
    doubtful = tuple(i for i, unit in enumerate(order) if facets[unit].misfit > misfit)
    return _describe(X, inlier, layer, method, space.noise, doubtful, thin, starts), order


def _describe(
    X: FloatArray,
    inlier: BoolArray,
    layer: OutputLayer,
    method: str,
    noise: float,
    doubtful: tuple[int, ...] = (),
    thin: bool = False,
    starts: int = 0,
) -> FoundLayer:
    """A layer with its report; it describes the ``inlier`` rows."""
    rows, (d, p), residual = X[inlier], layer.weights.shape, math.nan
    hidden = layer.hidden(rows)
    found, off = hidden.shape[1], tuple((hidden == 0.0).sum(axis=0).tolist())
    if found == p:  # the root mean square of what the layer leaves of rows, relative to theirs
        size = float(np.sqrt((rows**2).mean())) if rows.size else 0.0
        residual = float(np.sqrt(((rows - layer.output(hidden)) ** 2).mean())) / size if size > 0.0 else 0.0
    lost = int(np.count_nonzero(~inlier))
    report = LayerReport(method, len(X), d, p, found, off, float(noise), residual, lost, doubtful, thin, starts)
    return FoundLayer(layer, report, inlier)


def _layer_of(facets: list[Facet], space: Subspace) -> OutputLayer:
    (d, p), m = space.basis.shape, len(facets)
    normals = np.stack([facet.normal for facet in facets]) if m else np.zeros((0, p))
    offsets = np.array([facet.offset for facet in facets])
    encoder = normals @ space.basis.T
    offset = offsets - encoder @ space.center
    if m < p:
        return OutputLayer(np.full((d, p), np.nan), np.full(d, np.nan), encoder, offset, np.full(m, space.noise))
    raw = space.basis @ np.linalg.inv(normals)
    lengths = np.linalg.norm(raw, axis=0)
    bias = space.center - raw @ offsets
    return OutputLayer(raw / lengths, bias, encoder * lengths[:, None], offset * lengths, space.noise * lengths)


def _is_thin(points: FloatArray, on: BoolArray, noise: float) -> bool:
    """Whether rows vary, near more than a few rows, in fewer dimensions than units are on there.

    Then there are fewer inputs than units, whole regions lie in one plane, and planes hold many rows by coincidence.
    """
    n, p = points.shape
    near, fewer = min(p + 4, n), []
    for i in np.linspace(0, n - 1, min(_THIN_ROWS, n)).astype(int):
        distance = ((points - points[i]) ** 2).sum(axis=1)
        around = points[np.argpartition(distance, near - 1)[:near]]
        values = np.linalg.svd(around - around.mean(axis=0), compute_uv=False)
        floor = max(3.0 * noise * math.sqrt(near), 1e-7 * float(values[0]))
        fewer.append(np.count_nonzero(values > floor) < np.count_nonzero(on[i]))
    return bool(np.mean(fewer) > _SOME) if fewer else False


# --- by separable factorization -------------------------------------------------------------------


def decode_separably(X: FloatArray, space: Subspace) -> FoundLayer:
    """The layer whose columns are the rows with one unit on; h = A^+ x."""
    p = space.basis.shape[1]
    weights = X[pure_rows(X, p)].T
    weights = weights / np.linalg.norm(weights, axis=0)
    encoder = np.linalg.pinv(weights)
    noise = space.noise * np.linalg.norm(encoder, axis=1)
    layer = OutputLayer(weights, np.zeros(X.shape[1]), encoder, np.zeros(p), noise)
    return _describe(X, np.ones(len(X), dtype=bool), layer, "separable", space.noise)


def pure_rows(X: FloatArray, p: int) -> list[int]:
    """Indices of p rows that successive projection takes for pure."""
    sums = X.sum(axis=1)
    rows = np.flatnonzero(sums > 1e-9 * sums.max(initial=0.0))
    left = X[rows] / sums[rows, None]
    chosen: list[int] = []
    for _ in range(p):
        lengths = (left**2).sum(axis=1)
        longest = int(lengths.argmax())
        chosen.append(int(rows[longest]))
        direction = left[longest] / np.sqrt(max(float(lengths[longest]), 1e-300))
        left = left - np.outer(left @ direction, direction)
    return chosen
