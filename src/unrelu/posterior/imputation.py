"""Hidden cells filled in: by means, quantiles or standard deviations of their posterior, in the user's units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.posterior.cells import Cells
from unrelu.posterior.hidden import HiddenCells
from unrelu.posterior.marginal_values import CutNormals
from unrelu.shapes import uncut, warn_of_unknown

if TYPE_CHECKING:
    from unrelu.distribution import RectifiedGaussian


def imputed(model: RectifiedGaussian, cells: Cells, quantile: float | None = None) -> tuple[FloatArray, FloatArray]:
    """(rows with hidden cells filled in by their mean, or a quantile; standard deviations, 0 for seen cells)."""
    warn_of_unknown(model.shapes or (), cells.beyond < 0, model.feature_names)
    hidden, filled, std = HiddenCells.of(model), cells.given.copy(), np.zeros(cells.given.shape)
    for rows, part in cells.parts():
        marginals = hidden.marginals(part.latent, part.beyond)
        for j in np.flatnonzero(part.hidden.any(axis=0)).tolist():
            at = part.hidden[:, j]
            law = CutNormals(marginals.centre[at, j], marginals.width[at, j], part.latent[at, j], part.beyond[at, j])
            if model.shapes is None:
                value, spread = marginals.mean[at, j], marginals.std[at, j]
            else:
                value, spread = law.moments(uncut(model.shapes[j]))
            if quantile is not None:
                value = law.quantile(quantile)
                value = value if model.shapes is None else uncut(model.shapes[j])(value)
            filled[rows][at, j] = within(value, part, at, j)
            std[rows][at, j] = spread
    return filled, std


def within(x: FloatArray, cells: Cells, at: BoolArray, j: int) -> FloatArray:
    """Values of column j's cells ``at`` on their side of the limit, whatever rounding did."""
    mark, limit = cells.beyond[at, j], cells.given[at, j]
    return np.where(mark < 0, np.minimum(x, limit), np.where(mark > 0, np.maximum(x, limit), x))
