"""Hidden units of new rows of a layer that was peeled: x = max(A h + b, floor), read backwards."""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray, Watch, unwatched
from unrelu.errors import AmbiguousOptimumWarning, WeakRowsWarning
from unrelu.recovery.latent.methods import Layer, NonnegativePrior, RobustLatent
from unrelu.recovery.latent.recover import recover_rows
from unrelu.recovery.layers.peeled import Outputs, PeeledLayer
from unrelu.validation import row_label, row_labels, warn

_OFF = 4.0  # standard errors below which a unit is taken to be off


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
