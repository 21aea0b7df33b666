"""One column of rows given the others: what the table would show there, or what is hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from unrelu.contracts import FloatArray
from unrelu.posterior.cells import Cells
from unrelu.posterior.hidden import HiddenCells
from unrelu.posterior.marginal_values import CutNormals, Limits, finite
from unrelu.shapes import Normal

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian


@dataclass(frozen=True, eq=False)
class Prediction:
    """One column given the others, a number per row; ``quantiles`` has a column for each of the ``levels``.

    ``probability_floored``: to be at its floor (or ceiling); 0 for a column without one.
    """

    mean: FloatArray
    std: FloatArray
    levels: tuple[float, ...]
    quantiles: FloatArray
    probability_floored: FloatArray


def predicted(
    model: RectifiedGaussian, cells: Cells, j: int, levels: tuple[float, ...], hidden: bool = False
) -> Prediction:
    """Column ``j``, whose cells are missing; with ``hidden`` not cut off at its limit."""
    rows = HiddenCells.of(model)
    parts = [rows.marginals(part.latent, part.beyond) for _, part in cells.parts()]
    centre, width = (np.concatenate([getattr(part, name)[:, j] for part in parts]) for name in ("mean", "std"))
    f = finite((Normal() if model.shapes is None else model.shapes[j]).from_latent)
    quantiles = f(centre[:, None] + width[:, None] * ndtri(levels))
    limits = Limits.of(model, j)
    spread = np.maximum(width, 1e-300)
    chance = ndtr((limits.low - centre) / spread) + ndtr((centre - limits.high) / spread)
    law = CutNormals(centre, width, centre, np.zeros(len(centre), dtype=np.int8))
    if hidden:
        return Prediction(*law.moments(f), levels, quantiles, chance)
    quantiles = np.clip(quantiles, limits.floor, limits.ceiling)
    return Prediction(*law.shown_moments(f, limits), levels, quantiles, chance)
