"""Hidden units of new rows of a layer that was peeled: x = max(A h + b, floor), read backwards."""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.engines.local import map_in_threads, one_blas_thread
from unrelu.errors import InvalidDataError, WeakRowsWarning
from unrelu.recovery.latent.priors import Nonnegative
from unrelu.recovery.latent.recover import Layer, RobustLatent
from unrelu.recovery.layers.peeled import Outputs, PeeledLayer
from unrelu.validation import warn

_OFF = 4.0  # standard errors below which a unit is taken to be off


def units_of(layer: PeeledLayer, outputs: Outputs, seed: int) -> FloatArray:
    """h >= 0 of each row, from the outputs that are identified.

    Up to nearly half of a row's outputs may be outliers. A row whose outputs do not determine its units gets NaN.
    """
    known = layer.column_identifiable
    behind = Layer(np.ascontiguousarray(layer.weights[known]), (layer.bias - outputs.level)[known])
    method, rows = RobustLatent(Nonnegative()), outputs.heights[:, known]
    open_row = np.full(layer.weights.shape[1], np.nan)

    def at(i: int) -> FloatArray:
        if not rows[i].any():
            return open_row
        try:
            found = method.recover(behind, rows[i], seed)
        except InvalidDataError:
            return open_row
        return np.where(found.latent > _OFF * np.sqrt(np.diag(found.covariance)), found.latent, 0.0)

    with one_blas_thread():
        units = np.stack(map_in_threads(at, range(len(rows))))
    open_rows = int(np.isnan(units).any(axis=1).sum())
    if open_rows:
        warn(
            f"{open_rows:,} of {len(units):,} rows have too few outputs above the floor to determine their hidden"
            " units, which are NaN there.",
            WeakRowsWarning,
        )
    return units
