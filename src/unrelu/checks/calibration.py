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
    """Statistics of one kind: ``p_values`` one by one, ``adjusted`` for there being many, ``largest`` of every table.

    The largest are in standard deviations; NaN where there are none.
    """

    p_values: FloatArray
    adjusted: FloatArray
    largest: FloatArray

    @property
    def p_value(self) -> float:
        """Of the largest of them."""
        return overall(self)


def family_of(statistics: FloatArray) -> Family:
    """From (B + 1) x K statistics, large where a table does not fit; NaN counts as nothing seen.

    >>> numbers = np.array([[9.0, 2.0], [1.0, 1.0], [2.0, 3.0], [3.0, 4.0]])
    >>> family_of(numbers).p_values, family_of(numbers).p_value
    (array([0.25, 0.75]), 0.25)
    """
    known = ~np.isnan(statistics)
    size = standardized(np.log(np.maximum(statistics, 1e-12)))  # log: their right tails are long
    largest = np.where(known, size, -np.inf).max(axis=1, initial=-np.inf)
    p_values, adjusted = (
        (np.count_nonzero(others >= own, axis=0) + 1.0) / len(statistics)
        for others, own in ((np.where(known, statistics, -np.inf)[1:], statistics[0]), (largest[1:, None], size[0]))
    )
    nothing = ~known[0]
    p_values[nothing] = adjusted[nothing] = np.nan
    return Family(p_values, adjusted, np.full(len(statistics), np.nan) if nothing.all() else largest)


def overall(*families: Family) -> float:
    """One p-value of all families that say something: of the largest number of any, each family in its own units."""
    told = [family.largest for family in families if not np.isnan(family.largest).any()]
    if not told:
        return float("nan")
    largest = standardized(np.stack(told, axis=1)).max(axis=1)
    return float(np.mean(largest >= largest[0]))


def standardized(numbers: FloatArray) -> FloatArray:
    """Every column about its mean, in its standard deviation; NaN stays."""
    known = ~np.isnan(numbers)
    count = np.maximum(known.sum(axis=0), 1)
    centred = numbers - np.where(known, numbers, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, centred**2, 0.0).sum(axis=0) / count)
    return np.asarray(centred / np.where(spread > 0.0, spread, 1.0))
