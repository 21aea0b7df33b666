"""Hidden units, and inputs, of new rows of a layer that was peeled: x = max(A h + b, floor), read backwards."""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray, Watch, unwatched
from unrelu.engines.local import map_in_threads, one_blas_thread
from unrelu.errors import AmbiguousOptimumWarning, WeakRowsWarning
from unrelu.recovery.latent.contracts import Layer
from unrelu.recovery.latent.methods import RobustLatent
from unrelu.recovery.latent.priors import NonnegativePrior
from unrelu.recovery.latent.recover import recover_rows
from unrelu.recovery.layers.inputs import InnerLayer, inputs_of
from unrelu.recovery.layers.peeled import Outputs, PeeledLayer
from unrelu.validation import row_label, row_labels, warn

_OFF = 4.0  # standard errors below which a unit is taken to be off
_ROUNDING = 1e-6  # of a unit's root mean square, likewise
_STEPS, _DAMPING = 4, 1e-10
_TILE = 256


def units_of(layer: PeeledLayer, outputs: Outputs, seed: int = 0, watch: Watch = unwatched) -> FloatArray:
    """h >= 0 of each row, from the outputs that are identified.

    Up to nearly half of a row's outputs may be outliers. A row whose outputs do not determine its units gets NaN.
    """
    known = layer.column_identifiable
    behind = Layer(np.ascontiguousarray(layer.weights[known]), (layer.bias - outputs.level)[known])
    rows = np.ascontiguousarray(outputs.heights[:, known])
    found = recover_rows(behind, rows, RobustLatent(NonnegativePrior()), seed, watch, skip_bad_rows=True)
    if found.faults:
        row, why = found.faults[0]
        warn(
            f"{len(found.faults):,} of {len(rows):,} rows do not determine their hidden units, which are NaN there."
            f" {row_label(row).capitalize()} {why}",
            WeakRowsWarning,
        )
    if found.ambiguous.any():
        warn(
            f"Other hidden units explain {row_labels(np.flatnonzero(found.ambiguous).tolist())} about equally well.",
            AmbiguousOptimumWarning,
        )
    errors = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    units: FloatArray = np.where(found.latent <= _OFF * errors, 0.0, found.latent)
    return units


def inputs_behind(layer: PeeledLayer, inner: InnerLayer, heights: FloatArray) -> FloatArray:
    """z of rows x = ReLU(A2 ReLU(A1 z + b1) + b2), as heights above the floor; NaN where a row does not determine it.

    Units by least squares over the outputs that are on, inputs by least squares over the units that are on, then Gauss
    and Newton's steps for z on the outputs.
    """
    known = layer.column_identifiable
    A, b = np.ascontiguousarray(layer.weights[known]), (layer.bias - layer.floor)[known]
    rows = np.ascontiguousarray(heights[:, known])
    units, amplified = inputs_of(rows, A, b)
    off = np.maximum(_OFF * layer.report.noise, _ROUNDING * np.sqrt((units**2).mean(axis=0, where=np.isfinite(units))))
    z, steady = inputs_of(np.where(units > off, units, 0.0), inner.weights, inner.bias)
    sure = np.isfinite(amplified) & np.isfinite(steady)
    z[sure] = polished_inputs(z[sure], rows[sure], A, b, inner)
    z[~sure] = np.nan
    return z


def polished_inputs(z: FloatArray, rows: FloatArray, A: FloatArray, b: FloatArray, inner: InnerLayer) -> FloatArray:
    """Inputs that rows x = ReLU(A ReLU(A1 z + b1) + b) are nearest to, by steps from ``z`` that lower the distance."""
    products = (A[:, :, None] * A[:, None, :]).reshape(len(A), -1)

    def left_of(z: FloatArray, seen: FloatArray) -> FloatArray:
        T = inner.units(z) @ A.T + b
        return np.where(seen > 0.0, seen - T, -np.maximum(T, 0.0))

    def at(part: slice) -> FloatArray:
        here, seen = z[part], rows[part]
        on = (seen > 0.0).astype(np.float64)
        gram = (on @ products).reshape(len(seen), A.shape[1], A.shape[1])
        left = left_of(here, seen)
        for _ in range(_STEPS):
            slope = (here @ inner.weights.T + inner.bias > 0.0)[:, :, None] * inner.weights
            matrix = np.einsum("npi,npk->nik", slope, gram @ slope)
            matrix[:, range(here.shape[1]), range(here.shape[1])] *= 1.0 + _DAMPING
            aim = np.einsum("npi,np->ni", slope, (on * left) @ A)
            moved = here + np.einsum("nij,nj->ni", np.linalg.pinv(matrix, hermitian=True), aim)
            tried = left_of(moved, seen)
            better = (tried**2).sum(axis=1) < (left**2).sum(axis=1)
            here, left = np.where(better[:, None], moved, here), np.where(better[:, None], tried, left)
        return here

    parts = [slice(start, start + _TILE) for start in range(0, len(z), _TILE)]
    with one_blas_thread():
        return np.concatenate(map_in_threads(at, parts)) if parts else z
