"""From facets to an output layer: x = A h + a, read backwards as h = Q x + o.

With y = B'(x - m) the coordinates of x in its subspace and r = N y + o the heights above the p facets:

    x = m + B y = m - B N^-1 o + B N^-1 r;     A is B N^-1 with columns scaled to length 1
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray, Watch, unwatched
from unrelu.notebook import Shown
from unrelu.recovery.layers.facets import MISFIT, Cloud, FoundFacets, find_facets
from unrelu.recovery.layers.inputs import InnerLayer
from unrelu.recovery.layers.subspace import Subspace

_OFF = 4.0  # standard deviations of noise below which a hidden unit is taken to be off
_SOME = 0.1  # share of them that makes a layer thin
_LOOKED_AT = 51  # rows whose neighbours are looked at
_BELOW = 6.0  # standard deviations of noise below 0 from where on a row is an outlier
_THIN_MISFIT = 1.0  # a doubtful unit's distance where coincidences are to be feared
_TINY = 10.0  # rows of so many standard deviations in length have every unit off


@dataclass(frozen=True)
class OutputLayer:
    """x = A h + a: ``weights`` A (d x p, columns of length 1), ``bias`` a, and h = ``encoder`` x + ``offset``.

    ``noise`` is the standard deviation of noise in each hidden unit. Where facets are missing, hidden units found are
    the rows of the encoder, in units of their own, and the weights are not determined (NaN).
    """

    weights: FloatArray
    bias: FloatArray
    encoder: FloatArray
    offset: FloatArray
    noise: FloatArray

    @property
    def threshold(self) -> FloatArray:
        """Below it a unit is off, for all that noise allows to say."""
        threshold: FloatArray = _OFF * self.noise
        return threshold

    def hidden(self, X: FloatArray) -> FloatArray:
        """Hidden units of rows, 0 where a unit is off."""
        heights = X @ self.encoder.T + self.offset
        units: FloatArray = np.where(heights > self.threshold, heights, 0.0)
        return units

    def output(self, hidden: FloatArray) -> FloatArray:
        """Rows of hidden units."""
        rows: FloatArray = hidden @ self.weights.T + self.bias
        return rows


@dataclass(frozen=True)
class LayerReport(Shown):
    """How a layer was found.

    ``units_found`` of ``n_hidden``; ``rows_off`` counts the rows in which each unit found is off; ``noise`` is the
    standard deviation of noise in x; ``residual`` the part of x that the layer leaves, relative; ``n_outlier_rows``
    were left out; ``doubtful_units`` do not look like rectified Gaussians, so may not be units; ``thin`` layers have
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

    @property
    def needs_inputs(self) -> bool:
        """Whether there are fewer inputs than units and facets alone do not tell all of these."""
        return self.thin and (not self.converged or bool(self.doubtful_units))


@dataclass(frozen=True)
class DecodedLayer:
    """An output layer, its report, and the rows that it describes."""

    layer: OutputLayer
    report: LayerReport
    genuine: BoolArray


@dataclass(frozen=True, eq=False)
class FoundLayer:
    """An output layer, and the layer of its inputs, where these were asked for and every unit was found.

    ``below`` is the layer below that one, with the report of its units, where the inputs are rectified themselves.
    ``ended`` is why the search was ended, if it was, ``verdict`` what is wrong with the number of inputs.

    ``choice`` are pairs of a number of inputs tried and the relative residual that it leaves of the units known then.
    """

    decoded: DecodedLayer
    inner: InnerLayer | None = None
    choice: tuple[tuple[int, float], ...] = ()
    ended: str | None = None
    verdict: str | None = None
    below: InnerLayer | None = None
    below_report: LayerReport | None = None


def decode_by_facets(
    X: FloatArray, space: Subspace, lifted: bool, gaussian: bool, rng: np.random.Generator, watch: Watch = unwatched
) -> DecodedLayer:
    """The layer whose facets rows of X show; incomplete where fewer than p are found."""
    cloud, used = cloud_of(X, space, lifted, gaussian)
    found = _facets(cloud, rng, watch)
    layer = _layer_of(found, space)
    thin = _is_thin(cloud.points, X[used] @ layer.encoder.T + layer.offset > layer.threshold, space.noise)
    return assembled(X, space, found, "facets", _THIN_MISFIT if thin else MISFIT, thin)[0]


def cloud_of(X: FloatArray, space: Subspace, lifted: bool, gaussian: bool) -> tuple[Cloud, BoolArray]:
    """The different rows of X in their space, without those with every unit off, and which rows these are."""
    points = space.coordinates(X)
    all_off = (not lifted) & (np.linalg.norm(points, axis=1) <= _TINY * space.noise)
    used = space.genuine & ~all_off
    if points.shape[1] > 1:
        used &= _distinct(points, space.noise)
    off = int(np.count_nonzero(space.genuine & all_off))
    return Cloud(points[used], space.noise, lifted, gaussian, off), used


def assembled(
    X: FloatArray, space: Subspace, found: FoundFacets, method: str, misfit: float, thin: bool
) -> tuple[DecodedLayer, NDArray[np.int64]]:
    """The layer of facets, units by falling variance, and their order; a larger ``misfit`` makes a unit doubtful."""
    layer, order = _in_order(_layer_of(found, space), X[space.genuine])
    heights = X @ layer.encoder.T + layer.offset
    genuine = space.genuine & ~(heights < -_BELOW * layer.noise).any(axis=1)
    doubtful = tuple(i for i, unit in enumerate(order) if found.candidates[unit].misfit > misfit)
    report = replace(_report(X, layer, genuine, space, doubtful, thin, found.starts), method=method)
    return DecodedLayer(layer, report, genuine), order


def _facets(cloud: Cloud, rng: np.random.Generator, watch: Watch) -> FoundFacets:
    n, p = cloud.points.shape
    if n < p:
        return FoundFacets((), np.ones(n, dtype=bool), 0)
    return find_facets(cloud, p, rng, watch)


def _in_order(layer: OutputLayer, rows: FloatArray) -> tuple[OutputLayer, NDArray[np.int64]]:
    """Units by falling variance, and their order."""
    order = np.argsort(-layer.hidden(rows).var(axis=0), kind="stable")
    complete = len(order) == layer.weights.shape[1]
    weights = layer.weights[:, order] if complete else layer.weights
    moved = OutputLayer(weights, layer.bias, layer.encoder[order], layer.offset[order], layer.noise[order])
    return moved, order


def _report(
    X: FloatArray,
    layer: OutputLayer,
    genuine: BoolArray,
    space: Subspace,
    doubtful: tuple[int, ...],
    thin: bool,
    starts: int,
) -> LayerReport:
    hidden, p = layer.hidden(X[genuine]), space.basis.shape[1]
    return LayerReport(
        method="facets",
        n_rows=len(X),
        n_features=X.shape[1],
        n_hidden=p,
        units_found=hidden.shape[1],
        rows_off=tuple(int(count) for count in (hidden == 0.0).sum(axis=0)),
        noise=float(space.noise),
        residual=residual_of(X[genuine], layer, hidden) if hidden.shape[1] == p else math.nan,
        n_outlier_rows=int(np.count_nonzero(~genuine)),
        doubtful_units=doubtful,
        thin=thin,
        starts=starts,
    )


def _distinct(points: FloatArray, noise: float) -> BoolArray:
    """One of each group of equal rows: copies lie on any facet through one of them and prove nothing."""
    first = np.unique(np.round(points / (_TINY * noise)), axis=0, return_index=True)[1]
    distinct = np.zeros(len(points), dtype=bool)
    distinct[first] = True
    return distinct


def _is_thin(points: FloatArray, on: BoolArray, noise: float) -> bool:
    """Whether rows vary, near more than a few rows, in fewer dimensions than units are on there.

    Then there are fewer inputs than units, whole regions lie in one plane, and planes hold many rows by coincidence.
    """
    n, p = points.shape
    near, fewer = min(p + 4, n), []
    for i in np.linspace(0, n - 1, min(_LOOKED_AT, n)).astype(int):
        distance = ((points - points[i]) ** 2).sum(axis=1)
        around = points[np.argpartition(distance, near - 1)[:near]]
        values = np.linalg.svd(around - around.mean(axis=0), compute_uv=False)
        floor = max(3.0 * noise * math.sqrt(near), 1e-7 * float(values[0]))
        fewer.append(np.count_nonzero(values > floor) < np.count_nonzero(on[i]))
    return bool(np.mean(fewer) > _SOME) if fewer else False


def _layer_of(found: FoundFacets, space: Subspace) -> OutputLayer:
    d, p = space.basis.shape
    m = len(found.facets)
    normals = np.stack([facet.normal for facet in found.facets]) if m else np.zeros((0, p))
    offsets = np.array([facet.offset for facet in found.facets])
    encoder = normals @ space.basis.T
    offset = offsets - encoder @ space.center
    if m < p:
        return OutputLayer(np.full((d, p), np.nan), np.full(d, np.nan), encoder, offset, np.full(m, space.noise))
    raw = space.basis @ np.linalg.inv(normals)
    lengths = np.linalg.norm(raw, axis=0)
    bias = space.center - raw @ offsets
    return OutputLayer(raw / lengths, bias, encoder * lengths[:, None], offset * lengths, space.noise * lengths)


def residual_of(X: FloatArray, layer: OutputLayer, hidden: FloatArray) -> float:
    """Root mean square of what a layer leaves of rows, relative to theirs."""
    size = float(np.sqrt((X**2).mean())) if X.size else 0.0
    return float(np.sqrt(((X - layer.output(hidden)) ** 2).mean())) / size if size > 0.0 else 0.0
