"""p-values from simulated tables: where the table itself stands among tables of the model.

Row 0 of an array of statistics is the table's, the others are of B simulated tables. If the model holds, all B + 1
come from one law (up to the error of the fit, which refitting repeats), so that the table's rank is uniform: so is that
of any number computed from all rows alike, such as the largest of many statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import FloatArray


@dataclass(frozen=True, eq=False)
class Family:
    """Statistics of one kind: ``p_values`` one by one, ``adjusted`` for there being many, ``ranks`` of every table."""

    p_values: FloatArray
    adjusted: FloatArray
    ranks: FloatArray

    @property
    def p_value(self) -> float:
        """Of the largest of them; NaN where there are none."""
        return float(self.ranks[0])


def family_of(statistics: FloatArray) -> Family:
    """From (B + 1) x K statistics, large where a table does not fit; NaN counts as nothing seen.

    >>> numbers = np.array([[9.0, 2.0], [1.0, 1.0], [2.0, 3.0], [3.0, 4.0]])
    >>> family_of(numbers).p_values, family_of(numbers).p_value
    (array([0.25, 0.75]), 0.25)
    """
    known = ~np.isnan(statistics)
    p_values = np.where(known[0], rank_shares(np.where(known, statistics, -np.inf))[0], np.nan)
    size = standardized(np.log(np.maximum(statistics, 1e-12)))  # log: their right tails are long
    largest = np.where(known, size, -np.inf).max(axis=1, initial=-np.inf)
    adjusted = (largest[1:, None] >= size[0]).sum(axis=0) + 1.0
    nothing = np.full(len(statistics), np.nan)
    ranks = rank_shares(largest[:, None])[:, 0] if known[0].any() else nothing
    return Family(p_values, np.where(known[0], adjusted / len(statistics), np.nan), ranks)


def overall(first: Family, second: Family) -> float:
    """One p-value of two families: of the smaller of their p-values, the larger breaking ties."""
    told = [family.ranks for family in (first, second) if not np.isnan(family.ranks).any()]
    if not told:
        return float("nan")
    ranks = np.sort(np.stack(told), axis=0)
    lower = ranks[0] + ranks[-1] * 1e-6
    return float(np.mean(lower <= lower[0]))


def standardized(numbers: FloatArray) -> FloatArray:
    """Every column about its mean, in its standard deviation; NaN stays."""
    known = ~np.isnan(numbers)
    count = np.maximum(known.sum(axis=0), 1)
    centred = numbers - np.where(known, numbers, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, centred**2, 0.0).sum(axis=0) / count)
    return np.asarray(centred / np.where(spread > 0.0, spread, 1.0))


def rank_shares(statistics: FloatArray) -> FloatArray:
    """Of every number, the share of its column's that are as large."""
    order = np.sort(statistics, axis=0)
    n = len(statistics)
    columns = [n - np.searchsorted(order[:, k], statistics[:, k], side="left") for k in range(statistics.shape[1])]
    return np.stack(columns, axis=1) / n if columns else np.ones((n, 0))
