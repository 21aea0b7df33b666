"""Many densities of a row: their shares of the sum, and histograms of independent columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.contracts import FloatArray

Starts = NDArray[np.int64]

_NOTHING = -745.0  # its exponential is 0


@njit(cache=True, nogil=True)
def share_rows(joint: FloatArray, shares: FloatArray, log_sums: FloatArray) -> None:
    """shares[i] = exp(joint[i]) / sum, log_sums[i] = the sum's logarithm, without overflow."""
    n, k = joint.shape
    for i in range(n):
        highest = joint[i, 0]
        for c in range(1, k):
            highest = max(highest, joint[i, c])
        total = 0.0
        for c in range(k):
            behind = joint[i, c] - highest
            relative = math.exp(behind) if behind > _NOTHING else 0.0
            shares[i, c] = relative
            total += relative
        inverse = 1.0 / total
        for c in range(k):
            shares[i, c] *= inverse
        log_sums[i] = highest + math.log(total)


@njit(cache=True, nogil=True, inline="always")
def _edges_below(x: Any, edges: Any, first: int, last: int) -> int:
    """How many of edges[first:last] lie below x. Counted, not searched for: a dozen comparisons without a branch."""
    below = 0
    for e in range(first, last):
        below += 1 if edges[e] < x else 0
    return below


@njit(cache=True, nogil=True)
def histogram_log_densities(values: Any, edges: Any, starts: Starts, log_mass: FloatArray, out: FloatArray) -> None:
    """``out[i]``: log density of row i. Column j has edges[starts[j]:starts[j + 1]] and one log mass more than edges.

    Mass t beyond the last edge e has density t e / x^2, x and e measured from the first.
    """
    n, d = values.shape
    for i in range(n):
        total = 0.0
        for j in range(d):
            x = values[i, j]
            if not math.isnan(x):
                first, last = starts[j], starts[j + 1]
                at = _edges_below(x, edges, first, last)
                total += log_mass[first + j + at]
                if at == last - first:
                    total -= 2.0 * math.log(np.float64(x) - np.float64(edges[first]))
        out[i] = total


@njit(cache=True, nogil=True)
def add_bin_counts(values: Any, weights: FloatArray, edges: Any, starts: Starts, counts: FloatArray) -> None:
    """Add each row's weight to the bin of each of its cells; counts are laid out as log masses are."""
    n, d = values.shape
    for i in range(n):
        for j in range(d):
            x = values[i, j]
            if not math.isnan(x):
                first = starts[j]
                counts[first + j + _edges_below(x, edges, first, starts[j + 1])] += weights[i]
