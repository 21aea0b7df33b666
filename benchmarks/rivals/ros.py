"""Regression on order statistics: a column's hidden cells from the line through the values seen (Helsel and Cohn 1988).

Seen values against normal quantiles of their plotting positions, which Hirsch and Stedinger's recursion gives for any
number of limits: the chance to be above limit j is that of limit j + 1 and, below it, the share seen among the values
known to be below it,

    p_j = p_(j+1) + (1 - p_(j+1)) A_j / (A_j + B_j),

A_j: seen from limit j up to the next, B_j: seen or hidden below limit j. The line goes on below the limits.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from unrelu.contracts import BoolArray, FloatArray


def positions(values: FloatArray, hidden: BoolArray) -> FloatArray:
    """Plotting position of every value; a hidden one holds its limit."""
    limits = np.unique(values[hidden])
    edges = np.concatenate([[-np.inf], limits, [np.inf]])
    place, above_next = np.empty(len(values)), 0.0
    for j in range(len(limits), -1, -1):
        seen = np.flatnonzero(~hidden & (values >= edges[j]) & (values < edges[j + 1]))
        below = np.count_nonzero((values < edges[j]) | (hidden & (values <= edges[j])))
        share = len(seen) / (len(seen) + below) if len(seen) + below else 0.0
        above = above_next + (1.0 - above_next) * share
        ranks = np.argsort(np.argsort(values[seen], kind="stable")) + 1.0
        place[seen] = 1.0 - above + (above - above_next) * ranks / (len(seen) + 1)
        at = np.flatnonzero(hidden & (values == edges[j]))
        place[at] = (1.0 - above) * np.arange(1, len(at) + 1) / (len(at) + 1)
        above_next = above
    return place


def fill(values: FloatArray, hidden: BoolArray) -> FloatArray:
    """A column with its hidden cells filled in; among cells of one limit by the order of the rows."""
    if not hidden.any() or np.count_nonzero(~hidden) < 2:
        return values
    z = ndtri(positions(values, hidden))
    slope, level = np.polyfit(z[~hidden], values[~hidden], 1)
    return np.where(hidden, np.minimum(level + slope * z, values), values)
