"""Batches of the values above the floor, and filters over them: Bulusu et al. 2022, section 3.

The paper gives neither the number of batches nor what is in one. Its text splits at random ("induces randomization"):
that is *scattered*. But its median is taken "either from all the true samples or outliers", and its propositions need
p Psi > 1/2, a batch without outliers with probability p and not p^m: that is *consecutive* batches of rows whose
outliers sit together. Both are offered; the second only helps where the order of the rows is known, which
:func:`warn_of_order` looks into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError, RowOrderWarning
from unrelu.papers.questions import ColumnTally, Counts
from unrelu.validation import check_choice, column_label, label_columns, listed, warn

ORDERS = ("scattered", "consecutive")
_FEWEST_BATCHES = 20  # with which the spread of their means is known to a third
_APART = 4.0  # standard errors by which that spread must exceed the one of shuffled rows
_DRIFT = 3.0  # times the spread of shuffled rows, in the half of the batches that agree best

Names = tuple[str, ...] | None
Filter: TypeAlias = Callable[[FloatArray], FloatArray]
"""One robust mean of many vectors, coordinate by coordinate: shape (..., n, 2) becomes (..., 2)."""


def filter_named(name: str | None, trim: float) -> Filter:
    """None is the plain mean; "median" stays among the genuine batches as long as they are the majority.

    "trimmed_mean" is the mean without the share ``trim`` of largest and of smallest values.

    >>> filter_named("trimmed_mean", 0.25)(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [99.0, 1.0]]))
    array([1.5, 1. ])
    """
    if name is None:
        return lambda vectors: np.asarray(vectors.mean(axis=-2))
    check_choice("filter", name, ("median", "trimmed_mean"))
    if name == "median":
        return lambda vectors: np.asarray(np.median(vectors, axis=-2))
    if not 0.0 <= trim < 0.5:
        raise InvalidParameterError(f"trim must be in [0, 0.5), the share cut off at each end; got {trim!r}.")

    def trimmed_mean(vectors: FloatArray) -> FloatArray:
        n = vectors.shape[-2]
        cut = int(trim * n)
        return np.asarray(np.sort(vectors, axis=-2)[..., cut : n - cut, :].mean(axis=-2))

    return trimmed_mean


def batch_means(sums: FloatArray) -> FloatArray:
    """(7): the mean of (x^2/2, -x) of every batch, n x 2, from (count, sum x, sum x^2/2)."""
    count, total, half_square = sums.T
    return np.stack([half_square / count, -total / count], axis=1)


def require_positives(
    tally: ColumnTally, fitted: BoolArray, names: Names, batches: int | None = None, batch_size: int = 1
) -> None:
    """Every fitted column needs a value above the floor in each of its batches, or one whole batch."""
    short = fitted & (tally.above < (batches or batch_size))
    if short.any():
        where = listed(f"{column_label(int(j), names)} ({tally.above[j]})" for j in np.flatnonzero(short))
        if batches is not None:
            what, fewer = f"the {batches} batches", "fewer"
        else:
            what, fewer = f"one batch of batch_size={batch_size}", "smaller"
        raise InvalidDataError(
            f"Fewer values above the floor than {what} in {where}. Take {fewer} batches or add rows."
        )


def warn_of_order(sums: FloatArray, batches: Counts, fitted: BoolArray, names: Names) -> None:
    """Say where the order of the rows does not bear consecutive batches out (``sums`` as of ``BatchSumsQuestion``).

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
