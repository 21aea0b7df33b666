"""One column of rows given the others: what the table would show there, or what is hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from unrelu.contracts import FloatArray
from unrelu.posterior.cells import Cells
from unrelu.posterior.hidden import HiddenCells
from unrelu.posterior.marginal_values import CutNormals, finite
from unrelu.shapes import Normal, uncut

if TYPE_CHECKING:
    from unrelu.distribution import RectifiedGaussian


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
    law = HiddenCells.of(model)
    parts = [law.marginals(part.latent, part.beyond) for _, part in cells.parts()]
    centre, width = (np.concatenate([getattr(part, name)[:, j] for part in parts]) for name in ("mean", "std"))
    f = finite(uncut(Normal() if model.shapes is None else model.shapes[j]))
    quantiles = f(centre[:, None] + width[:, None] * ndtri(levels))
    below = float(model.floor[j]) > -np.inf
    limit, edge = (model.floor[j], model.latent.floor[j]) if below else (model.ceiling[j], model.latent.ceiling[j])
    side = 1 if below else -1  # of the limit on which values are seen
    chance = ndtr(side * (edge - centre) / np.maximum(width, 1e-300))
    mark = np.zeros(len(centre), dtype=np.int8) if hidden or not np.isfinite(edge) else np.full_like(centre, side, "i1")
    mean, std = CutNormals(centre, width, np.full(len(centre), edge), mark).moments(f)
    if mark.any():
        quantiles = np.clip(quantiles, model.floor[j], model.ceiling[j])
        whole = chance * limit + (1.0 - chance) * mean
        within = np.sqrt(1.0 - chance) * np.hypot(std, mean - whole)
        mean, std = whole, np.hypot(np.sqrt(chance) * (limit - whole), within)
    return Prediction(mean, std, levels, quantiles, chance)
