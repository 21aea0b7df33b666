"""Which hidden cells are filled in, and what a value beyond a limit is filled in with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.posterior.cells import Cells
from unrelu.validation import check_choice

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian

FILL, BELOW = ("both", "hidden", "missing"), ("auto", "latent", "floor")


@dataclass(frozen=True)
class Filling:
    """``fill``: "hidden" cells, those at a limit, "missing" ones, or both. ``below``: "latent", f(y) wherever it is, or
    "floor", what the table would show, max(f(y), floor); cells at a limit then stay there. "auto": latent, but what the
    table would show in missing cells of columns whose floor is 0, as of rain; other floors are detection limits.

    ``tolerance``: by so much a cell's limit is beyond the model's own. ``limited``: columns whose floor in these rows
    is not the model's, but one of detection.

    >>> Filling("missing").filled(Cells(np.array([[0.0, np.nan]]), np.array([[0.0, np.nan]]), np.array([[-1, 0]])))
    array([[False,  True]])
    """

    fill: str = "both"
    below: str = "auto"
    tolerance: float = 0.0
    limited: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_choice("fill", self.fill, FILL)
        check_choice("below", self.below, BELOW)
        if self.fill == "hidden" and self.below == "floor":
            raise InvalidParameterError(
                "fill='hidden' and below='floor' leave every cell as it is: use below='latent' for values beyond the"
                " limits, or fill='missing' to fill in the others."
            )

    def as_seen(self, model: RectifiedGaussian) -> BoolArray:
        """The columns whose missing cells are cut off as those of the table are.

        >>> from unrelu.model import RectifiedGaussian
        >>> Filling().as_seen(RectifiedGaussian(np.zeros(3), np.eye(3), floor=[0.0, 0.5, -np.inf]))
        array([ True, False, False])
        """
        if self.below != "auto":
            return np.full(model.n_features, self.below == "floor")
        return np.asarray((model.floor == 0.0) & ~np.isin(np.arange(model.n_features), self.limited))

    def filled(self, cells: Cells) -> BoolArray:
        """The cells that are filled in."""
        if self.fill == "missing" or self.below == "floor":
            return np.isnan(cells.given)
        return cells.hidden if self.fill == "both" else np.asarray(cells.beyond != 0)

    def groups(self, model: RectifiedGaussian, cells: Cells) -> Iterator[tuple[int, BoolArray, bool]]:
        """Cells that are filled in alike: their column, which of its rows, and whether their values are cut off."""
        filled, as_seen = self.filled(cells), self.as_seen(model)
        for j in np.flatnonzero(filled.any(axis=0)).tolist():
            shown = filled[:, j] & np.isnan(cells.given[:, j]) & as_seen[j]
            for at, cut in ((shown, True), (filled[:, j] & ~shown, False)):
                if at.any():
                    yield j, at, cut

    def start(self, model: RectifiedGaussian, cells: Cells) -> FloatArray:
        """The rows before anything is filled in: what is at a limit of the model holds that limit."""
        limited = np.isfinite(np.where(cells.beyond < 0, model.floor, model.ceiling)) & (cells.beyond != 0)
        return np.where(limited, cells.given + cells.beyond * self.tolerance, cells.given)


EVERYTHING = Filling()
