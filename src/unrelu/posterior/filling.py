"""Which hidden cells are filled in, and what a value beyond a limit is filled in with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.posterior.cells import Cells
from unrelu.validation import check_choice

if TYPE_CHECKING:
    from unrelu.distribution import RectifiedGaussian

FILL, BELOW = ("both", "hidden", "missing"), ("latent", "floor")


@dataclass(frozen=True)
class Filling:
    """``fill``: "hidden" cells, those at a limit, "missing" ones, or both. ``below``: "latent", f(y) wherever it is, or
    "floor", what the table would show, max(f(y), floor); cells at a limit then stay there.

    ``tolerance``: by so much a cell's limit is beyond the model's own.

    >>> Filling("missing").filled(Cells(np.array([[0.0, np.nan]]), np.array([[0.0, np.nan]]), np.array([[-1, 0]])))
    array([[False,  True]])
    """

    fill: str = "both"
    below: str = "latent"
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        check_choice("fill", self.fill, FILL)
        check_choice("below", self.below, BELOW)
        if self.fill == "hidden" and self.below == "floor":
            raise InvalidParameterError(
                "fill='hidden' and below='floor' leave every cell as it is: use below='latent' for values beyond the"
                " limits, or fill='missing' to fill in the others."
            )

    @property
    def cuts(self) -> bool:
        """Whether values are cut off as those of the table are."""
        return self.below == "floor"

    def filled(self, cells: Cells) -> BoolArray:
        """The cells that are filled in."""
        if self.fill == "missing" or self.cuts:
            return np.isnan(cells.given)
        return cells.hidden if self.fill == "both" else np.asarray(cells.beyond != 0)

    def start(self, model: RectifiedGaussian, cells: Cells) -> FloatArray:
        """The rows before anything is filled in: what is at a limit of the model holds that limit."""
        limited = np.isfinite(np.where(cells.beyond < 0, model.floor, model.ceiling)) & (cells.beyond != 0)
        return np.where(limited, cells.given + cells.beyond * self.tolerance, cells.given)


EVERYTHING = Filling()
