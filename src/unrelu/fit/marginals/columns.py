"""What the fits of single columns share: doubts about columns in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import ConstantColumnWarning, InvalidDataError
from unrelu.validation import label_columns, warn

if TYPE_CHECKING:
    from unrelu.passes.columns import Margins

_SMALLEST_SQUARE = 1e-280  # below it squares of the scale underflow


def warn_of_constants(constant: BoolArray, names: tuple[str, ...] | None) -> None:
    """A zero row of W (Wu et al. 2019, footnote 3): always the same value, the bias itself."""
    if constant.any():
        warn(
            f"Constant: {label_columns(constant, names)}. The learned row norm is 0 and the correlations with other"
            " columns are set to 0.",
            ConstantColumnWarning,
        )


def refuse_tiny(seen: BoolArray, distance: FloatArray, variance: FloatArray, names: tuple[str, ...] | None) -> None:
    """Raise for columns so near to the floor that squares underflow: whether they vary could not be told."""
    tiny = seen & (distance**2 + variance < _SMALLEST_SQUARE)
    if tiny.any():
        raise InvalidDataError(
            f"Values too small to square in double precision in {label_columns(tiny, names)}. Multiply such a column by"
            " a constant."
        )


def refuse_tiny_values(margins: Margins, names: tuple[str, ...] | None) -> None:
    """The same before shapes are learned: whatever these make of numbers, limits and steps are told from them."""
    largest = np.array([np.abs(margin.ends).max() for margin in margins.columns])
    refuse_tiny(largest > 0.0, largest, np.zeros(len(largest)), names)
