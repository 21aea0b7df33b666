"""Bins of cells and their bad shares: where a cell lies in its column's background, and EM for the bins' shares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray


@njit(cache=True, nogil=True)
def find_bins(values: Any, floor: Any, edges: FloatArray, starts: Any, bins: Any, log_tail: FloatArray) -> None:
    """``bins[i, j]``: the bin of a cell among those of all columns, -1 where missing; ``log_tail``: log density there.

    Column j has the edges starts[j] to starts[j + 1], e of them, and e + 2 bins: the floor; between neighbouring edges;
    above the last edge; below the first. Densities are those of a bin of mass 1; beyond the edges they fall as 1/x^2.
    """
    n, d = values.shape
    for j in range(d):
        first, last = starts[j], starts[j + 1]
        count, offset = last - first, starts[j] + 2 * j
        low, high = edges[first], edges[last - 1]
        for i in range(n):
            x = values[i, j]
            log_tail[i, j] = 0.0
            if math.isnan(x):
                bins[i, j] = -1
            elif x <= floor[j]:
                bins[i, j] = offset
            elif x > high:
                bins[i, j] = offset + count
                log_tail[i, j] = math.log(high - low) - 2.0 * math.log(x - low)
            elif x <= low:
                bins[i, j] = offset + count + 1
                log_tail[i, j] = math.log(high - low) - 2.0 * math.log(high - x)
            else:
                k = np.searchsorted(edges[first:last], x, side="left")
                bins[i, j] = offset + k
                log_tail[i, j] = -math.log(edges[first + k] - edges[first + k - 1])


@njit(cache=True, nogil=True)
def bin_posteriors(
    bins: Any, genuine: FloatArray, bad: FloatArray, weights: FloatArray, shares: FloatArray, sums: FloatArray
) -> None:
    """sums[0, k] += bad cells expected in bin k; sums[1, k] += log-likelihood gained there, where there is room for it.

    ``genuine`` and ``bad``: densities of the cells, ``bad`` per unit of the share of their bin; ``shares[0]`` those of
    the bins, ``shares[1]`` what is left to the genuine cells of the bin's column.
    """
    n, d = bins.shape
    for i in range(n):
        w = weights[i]
        if w == 0.0:
            continue
        for j in range(d):
            k = bins[i, j]
            if k >= 0 and shares[0, k] > 0.0:
                odds = shares[0, k] * bad[i, j] / (shares[1, k] * genuine[i, j])
                sums[0, k] += w * odds / (1.0 + odds)
                if sums.shape[0] > 1:
                    sums[1, k] += w * math.log1p(odds)
