"""What the fits of single columns share: doubts about columns in words, and results without standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import Assumptions, BoolArray, Evidence, FloatArray, RowParameters
from unrelu.errors import ConstantColumnWarning, InvalidDataError
from unrelu.validation import column_label, label_columns, listed, warn

if TYPE_CHECKING:
    from unrelu.statistics.column_tally import ColumnTally
    from unrelu.statistics.margins import Margins

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


def checked_tally(evidence: Evidence, assumptions: Assumptions) -> ColumnTally:
    """The tally of a table whose every column can be learned from, or a clear error."""
    from unrelu.statistics.column_tally import ColumnTallyQuestion  # the default method asks for no tally

    tally = evidence.collect(ColumnTallyQuestion.under(assumptions))
    tally.screening.check(assumptions, evidence.feature_names)
    names = evidence.feature_names
    if (unseen := tally.observed == 0).any():
        raise InvalidDataError(
            f"No value at all in {label_columns(unseen, names)}: every row is missing (NaN). Drop it."
        )
    if (once := tally.observed < 2).any():
        raise InvalidDataError(f"Only 1 sample (row) with a value in {label_columns(once, names)}: two are needed.")
    refuse_tiny(tally.above > 0, tally.mean - np.array(assumptions.censoring), tally.variance, names)
    constant = tally.variance == 0.0
    if (equal := (tally.above > 0) & constant & (tally.above < tally.observed)).any():
        raise InvalidDataError(
            f"All values above the floor are equal in {label_columns(equal, names)}: a truncated fit needs spread. Use"
            " 'one_pass'."
        )
    warn_of_constants(constant, names)
    return tally


def require_positives(tally: ColumnTally, fitted: BoolArray, batches: int, names: tuple[str, ...] | None) -> None:
    """Every batch of every fitted column needs a value above the floor."""
    short = fitted & (tally.above < batches)
    if short.any():
        where = listed(f"{column_label(int(j), names)} ({tally.above[j]})" for j in np.flatnonzero(short))
        raise InvalidDataError(
            f"Fewer values above the floor than the {batches} batches in {where}. Take fewer batches or add rows."
        )


def without_errors(bias: FloatArray, scale: FloatArray, floor: FloatArray) -> RowParameters:
    """Row parameters of a method that gives no standard errors."""
    d = len(bias)
    return RowParameters(bias, scale, floor, np.full((d, 2, 2), np.nan), np.zeros((d, 2, 3)))
