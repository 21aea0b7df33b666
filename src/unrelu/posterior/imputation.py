"""Hidden cells filled in: by means, quantiles or standard deviations of their posterior, in the user's units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.posterior.cells import Cells
from unrelu.posterior.filling import EVERYTHING, Filling
from unrelu.posterior.hidden import HiddenCells
from unrelu.posterior.marginal_values import CutNormals, Limits, finite

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian


def imputed(
    model: RectifiedGaussian, cells: Cells, levels: Sequence[float] = (), filling: Filling = EVERYTHING
) -> tuple[FloatArray, ...]:
    """Rows with cells filled in by their mean; standard deviations, 0 for other cells; rows filled by quantiles.

    One more array for each of the ``levels``.
    """
    if not all(0.0 < level < 1.0 for level in levels):
        raise InvalidParameterError(f"quantile must be between 0 and 1, got {', '.join(map(repr, levels))}.")
    hidden, std = HiddenCells.of(model), np.zeros(cells.given.shape)
    mean, *filled = (filling.start(model, cells) for _ in range(1 + len(levels)))
    for rows, part in cells.parts():
        marginals = hidden.marginals(part.latent, part.beyond)
        for j, at, cut in filling.groups(model, part):
            law = CutNormals(marginals.centre[at, j], marginals.width[at, j], part.latent[at, j], part.beyond[at, j])
            f = None if model.shapes is None else finite(model.shapes[j].from_latent)
            if cut:
                value, spread = law.shown_moments(f or np.positive, Limits.of(model, j))
            else:
                value, spread = (marginals.mean[at, j], marginals.std[at, j]) if f is None else law.moments(f)
            mean[rows][at, j], std[rows][at, j] = within(value, part, at, j), spread
            for level, each in zip(levels, filled, strict=True):
                y = law.quantile(level)
                x = within(y if f is None else f(y), part, at, j)
                each[rows][at, j] = np.clip(x, model.floor[j], model.ceiling[j]) if cut else x
    return mean, std, *filled


def within(x: FloatArray, cells: Cells, at: BoolArray, j: int) -> FloatArray:
    """Values of column j's cells ``at`` on their side of the limit, whatever rounding did."""
    mark, limit = cells.beyond[at, j], cells.given[at, j]
    return np.where(mark < 0, np.minimum(x, limit), np.where(mark > 0, np.maximum(x, limit), x))
