"""Rows that a model gives no chance: they are answered like any other, and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray, Marks
from unrelu.errors import ImpossibleRowsWarning
from unrelu.validation import label_columns, row_labels, warn

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian
    from unrelu.posterior.cells import Cells
    from unrelu.posterior.row_scores import Values

NO_CHANCE = 1e3  # standard deviations from its mean: a density of e^-500,000
SMALLEST_LOG_DENSITY = -1e300  # of rows that are further away than numbers reach


@dataclass(frozen=True, eq=False)
class GrossCells:
    """The rows with a cell more than ``NO_CHANCE`` standard deviations away, and the columns of such cells."""

    rows: NDArray[np.int64]
    columns: BoolArray

    def merge(self, other: Self) -> Self:
        return type(self)(np.concatenate([self.rows, other.rows]), self.columns | other.columns)

    def warn(self, names: Sequence[str] | None) -> None:
        """Name them, if there are any."""
        if len(self.rows) == 0:
            return
        many = len(self.rows) > 1
        label = row_labels(np.sort(self.rows).tolist())
        warn(
            f"{label[0].upper()}{label[1:]} {'have' if many else 'has'} no chance under the model: more than"
            f" {NO_CHANCE:,.0f} standard deviations away in {label_columns(self.columns, names)}. Log densities and"
            f" what is filled in there are finite, and mean little. Is it the unit, or a slip? Correct such values, or"
            f" mark them as missing with NaN.",
            ImpossibleRowsWarning,
            rows=np.sort(self.rows).tolist(),
        )


@dataclass(frozen=True, eq=False)
class GrossQuestion:
    """Which cells of latent rows have no chance under any of some laws: their means and standard deviations (k x d)."""

    bias: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, laws: Iterable[RectifiedGaussian]) -> Self:
        """By laws of latent values."""
        both = [(law.bias, law.row_norms) for law in laws]
        return cls(np.array([bias for bias, _ in both]), np.array([scale for _, scale in both]))

    def __call__(self, values: Values, beyond: Marks | None = None, first_row: int = 0) -> GrossCells:
        """The rows are numbered from ``first_row``. Columns without variance have their own words."""
        gross = np.ones(values.shape, dtype=bool)
        with np.errstate(over="ignore"):
            for bias, scale in zip(self.bias, self.scale, strict=True):
                off = values - bias
                if beyond is not None:  # "at most" is off where it is too low, "at least" where it is too high
                    off = np.where(beyond == 0, off, np.maximum(off * beyond, 0.0))
                gross &= (np.abs(off) > NO_CHANCE * scale) & (scale > 0.0)
        return GrossCells(first_row + np.flatnonzero(gross.any(axis=1)), np.asarray(gross.any(axis=0)))


def warn_of_gross(model: RectifiedGaussian, cells: Cells) -> None:
    """Name the rows of a whole table that the model gives no chance."""
    GrossQuestion.of([model.latent])(cells.latent, cells.beyond).warn(model.feature_names)


def naming_gross(model: RectifiedGaussian, parts: Iterable[Cells]) -> Iterator[Cells]:
    """The same of a table whose rows come in parts: they are named when the last has passed."""
    question, found, first = GrossQuestion.of([model.latent]), None, 0
    for cells in parts:
        own = question(cells.latent, cells.beyond, first)
        found, first = own if found is None else found.merge(own), first + len(cells.given)
        yield cells
    if found is not None:
        found.warn(model.feature_names)
