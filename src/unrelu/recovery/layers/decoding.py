"""From facets to an output layer: x = A h + a, read backwards as h = Q x + o.

With y = B'(x - m) the coordinates of x in its subspace and r = N y + o the heights above the p facets:

    x = m + B y = m - B N^-1 o + B N^-1 r;     A is B N^-1 with columns scaled to length 1
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.recovery.layers.facets import Cloud, FoundFacets, Told, find_facets
from unrelu.recovery.layers.separable import pure_rows
from unrelu.recovery.layers.subspace import Subspace

_OFF = 4.0  # standard deviations of noise below which a hidden unit is taken to be off
_LOOKED_AT = 51  # rows whose neighbours are looked at
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
class LayerReport:
    """How a layer was found.

    ``units_found`` of ``n_hidden``; ``rows_off`` counts the rows in which each unit found is off; ``noise`` is the
    standard deviation of noise in x; ``residual`` the part of x that the layer leaves, relative; ``outlier_rows`` were
    left out; ``doubtful_units`` do not look like rectified Gaussians, so may not be units; ``local_dimension`` is that
    of a row's neighbourhood: where it is below p, planes can hold many rows by coincidence; ``starts`` is how many
    searches for facets it took.
    """

    method: str
    n_rows: int
    n_features: int
    n_hidden: int
    units_found: int
    rows_off: tuple[int, ...]
    noise: float
    residual: float
    outlier_rows: int
    doubtful_units: tuple[int, ...]
    local_dimension: int
    starts: int

    @property
    def complete(self) -> bool:
        """Whether every unit was found."""
        return self.units_found == self.n_hidden

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Self:
        """From a file's header."""
        values = {field.name: facts[field.name] for field in fields(cls)}
        counts = {name: tuple(int(count) for count in values[name]) for name in ("rows_off", "doubtful_units")}
        return cls(**values | counts)


@dataclass(frozen=True)
class DecodedLayer:
    """An output layer, its report, and the rows that it describes."""

    layer: OutputLayer
    report: LayerReport
    genuine: BoolArray


def decode_by_facets(
    X: FloatArray, space: Subspace, lifted: bool, gaussian: bool, rng: np.random.Generator, told: Told | None = None
) -> DecodedLayer:
    """The layer whose facets rows of X show; incomplete where fewer than p are found."""
    p = space.basis.shape[1]
    points = space.coordinates(X)
    used = space.genuine & _distinct(points, space.noise)
    if not lifted:
        used &= np.linalg.norm(points, axis=1) > _TINY * space.noise
    found = find_facets(Cloud(points[used], space.noise, lifted, gaussian), p, rng, told)
    layer = _layer_of(found, space)
    genuine = space.genuine.copy()
    genuine[used] &= found.genuine
    hidden = layer.hidden(X[genuine])
    order = np.argsort(-hidden.var(axis=0), kind="stable")
    complete = len(order) == p
    layer = OutputLayer(
        layer.weights[:, order] if complete else layer.weights,
        layer.bias,
        layer.encoder[order],
        layer.offset[order],
        layer.noise[order],
    )
    hidden = hidden[:, order]
    return DecodedLayer(
        layer,
        LayerReport(
            "facets",
            len(X),
            X.shape[1],
            p,
            len(order),
            tuple(int(count) for count in (hidden == 0.0).sum(axis=0)),
            float(space.noise),
            _residual(X[genuine], layer, hidden) if complete else float("nan"),
            int(np.count_nonzero(~genuine)),
            tuple(int(i) for i in np.flatnonzero([found.candidates[i].doubtful for i in order])),
            _local_dimension(points[used], space.noise),
            found.starts,
        ),
        genuine,
    )


def decode_separably(X: FloatArray, space: Subspace) -> DecodedLayer:
    """Paper 001's way: rows with one unit on are the columns of A; h = A^+ x."""
    p = space.basis.shape[1]
    weights = X[pure_rows(X, p)].T
    weights = weights / np.linalg.norm(weights, axis=0)
    encoder = np.linalg.pinv(weights)
    noise = space.noise * np.linalg.norm(encoder, axis=1)
    layer = OutputLayer(weights, np.zeros(X.shape[1]), encoder, np.zeros(p), noise)
    hidden = layer.hidden(X)
    off = tuple(int(count) for count in (hidden == 0.0).sum(axis=0))
    residual = _residual(X, layer, hidden)
    report = LayerReport("separable", len(X), X.shape[1], p, p, off, float(space.noise), residual, 0, (), p, 0)
    return DecodedLayer(layer, report, np.ones(len(X), dtype=bool))


def _distinct(points: FloatArray, noise: float) -> BoolArray:
    """One of each group of equal rows: copies lie on any facet through one of them and prove nothing."""
    first = np.unique(np.round(points / (_TINY * noise)), axis=0, return_index=True)[1]
    distinct = np.zeros(len(points), dtype=bool)
    distinct[first] = True
    return distinct


def _local_dimension(points: FloatArray, noise: float) -> int:
    """Dimensions that a row's nearest rows vary in, by the median over some rows."""
    n, p = points.shape
    near = min(p + 4, n)
    ranks = []
    for i in np.linspace(0, n - 1, min(_LOOKED_AT, n)).astype(int):
        distance = ((points - points[i]) ** 2).sum(axis=1)
        around = points[np.argpartition(distance, near - 1)[:near]]
        values = np.linalg.svd(around - around.mean(axis=0), compute_uv=False)
        floor = max(3.0 * noise * math.sqrt(near), 1e-7 * float(values[0]))
        ranks.append(int(np.count_nonzero(values > floor)))
    return int(np.median(ranks)) if ranks else 0


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


def _residual(X: FloatArray, layer: OutputLayer, hidden: FloatArray) -> float:
    size = float(np.sqrt((X**2).mean())) if X.size else 0.0
    return float(np.sqrt(((X - layer.output(hidden)) ** 2).mean())) / size if size > 0.0 else 0.0
