"""Which values above the floor make a batch: how many batches or how large, and whether neighbours stay together.

Bulusu et al. 2022 gives neither the number of batches nor what is in one. Its text splits at random ("induces
randomization"): that is *scattered*. But its median is taken "either from all the true samples or outliers", and its
propositions need p Psi > 1/2, a batch without outliers with probability p and not p^m: that is *consecutive* batches of
rows whose outliers sit together. Both are offered; the second only helps where the order of the rows is known, which
:func:`warn_of_order` looks into.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError, RowOrderWarning
from unrelu.marginals.columns import require_positives
from unrelu.statistics.column_tally import ColumnTally
from unrelu.validation import check_choice, check_count, column_label, label_columns, listed, warn

ORDERS = ("scattered", "consecutive")
_FEWEST_BATCHES = 20  # with which the spread of their means is known to a third
_APART = 4.0  # standard errors by which that spread must exceed the one of shuffled rows
_DRIFT = 3.0  # times the spread of shuffled rows, in the half of the batches that agree best

Names = tuple[str, ...] | None


@dataclass(frozen=True)
class Batching:
    """``number`` of batches, or their ``size`` (None: ``default_size`` where a column has so many values)."""

    number: int | None = None
    size: int | None = None
    order: str = "scattered"
    default_size: int = 10

    def __post_init__(self) -> None:
        check_choice("order", self.order, ORDERS)
        for name, value in (("batches", self.number), ("batch_size", self.size)):
            if value is not None:
                check_count(name, value)
        if self.number is not None and self.size is not None:
            raise InvalidParameterError(
                f"batches={self.number} and batch_size={self.size} both say how large a batch is: give one of them."
            )

    @property
    def scattered(self) -> bool:
        return self.order == "scattered"

    def numbers(self, tally: ColumnTally, fitted: BoolArray, names: Names) -> NDArray[np.int64]:
        """The number of batches of every column, none of them empty."""
        if self.number is not None:
            require_positives(tally, fitted, self.number, names)
            return np.full_like(tally.above, self.number)
        if self.size is None:
            return np.maximum(tally.above // self.default_size, 1)
        if (short := fitted & (tally.above < self.size)).any():
            where = listed(f"{column_label(int(j), names)} ({tally.above[j]})" for j in np.flatnonzero(short))
            raise InvalidDataError(
                f"Fewer values above the floor than one batch of batch_size={self.size} in {where}. Take smaller"
                " batches or add rows."
            )
        return np.maximum(tally.above // self.size, 1)


def warn_of_order(sums: FloatArray, batches: NDArray[np.int64], fitted: BoolArray, names: Names) -> None:
    """Say where the order of the rows does not bear consecutive batches out (``sums`` as in ``BatchMeans``).

    The variance of the batches' means is compared with what shuffled rows would give, the variance within batches over
    their size. Consecutive batches are for a majority that agrees and a few that stand apart. Where none stands apart
    the order says nothing of outliers; where even the half that agrees best disagrees the rows are sorted or drift, and
    the median of the batches is no estimate of a mean.
    """
    apart, drifting, judged = False, np.zeros_like(fitted), False
    for j in np.flatnonzero(fitted & (batches >= _FEWEST_BATCHES)):
        count, total, half_square = sums[j, : batches[j]].T
        if count.min() < 2:
            continue
        judged = True
        mean = total / count
        within = np.maximum(2.0 * half_square / count - mean**2, 0.0) / (count - 1.0)  # of a mean, batch by batch
        apart |= bool(mean.var(ddof=1) > (1.0 + _APART * np.sqrt(2.0 / batches[j])) * within.mean())
        mean.sort()
        half = len(mean) // 2
        shortest = (mean[half:] - mean[: len(mean) - half]).min()  # of a normal: 1.349 standard deviations
        drifting[j] = shortest / 1.349 > _DRIFT * np.sqrt(np.median(within))
    if drifting.any():
        warn(
            f"Consecutive batches do not agree in {label_columns(drifting, names)}: the rows are sorted or drift, and"
            " the filtered batches are no estimate of a mean. Use order='scattered', or put the rows into the order in"
            " which they came.",
            RowOrderWarning,
        )
    elif judged and not apart:
        warn(
            "Consecutive batches resist outliers that sit together, and nothing in the order of these rows says that"
            " some do: batches differ no more than those of shuffled rows. If the order is not known, use"
            " order='scattered'.",
            RowOrderWarning,
        )
