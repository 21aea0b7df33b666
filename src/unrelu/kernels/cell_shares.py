"""Bins of cells: where a cell lies in its column's background, bad cells' shares, histograms of independent columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.compiling import kernel
from unrelu.kernels.normal import log_probability_and_hazard

_LOG_2PI = math.log(2.0 * math.pi)
_FARTHEST = 30.0  # standard deviations: densities beyond are no numbers


@kernel
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


@kernel
def bin_posteriors(bins: Any, inlier: FloatArray, weights: FloatArray, shares: FloatArray, sums: FloatArray) -> None:
    """sums[0, k] += bad cells expected in bin k; sums[1, k] += log-likelihood gained there, where there is room for it.

    ``inlier``: densities of the cells, in units of those of their bin, which no unit of the column changes;
    ``shares[0]`` those of the bins, ``shares[1]`` what is left to the inlier cells of the bin's column.
    """
    n, d = bins.shape
    for i in range(n):
        w = weights[i]
        if w == 0.0:
            continue
        for j in range(d):
            k = bins[i, j]
            if k >= 0 and shares[0, k] > 0.0:
                odds = shares[0, k] / (shares[1, k] * inlier[i, j])
                sums[0, k] += w * odds / (1.0 + odds)
                if sums.shape[0] > 1:
                    sums[1, k] += w * math.log1p(odds)


@kernel
def floor_scores(
    values: Any,
    floor: Any,
    bins: Any,
    log_bin: FloatArray,
    predicted: FloatArray,
    weights: FloatArray,
    model: FloatArray,
    shares: FloatArray,
    left: FloatArray,
    gradient: FloatArray,
    information: FloatArray,
) -> None:
    """How the log-likelihood of every column, its cells given the others of their rows, moves with its mean (by
    standard deviations), the log of its standard deviation and the share of its cells that are bad and at the floor:
    sums of scores, and of their products.

    A cell has the density m = left g + shares_k b, with g that of N(mean + std m, (std s)^2), m and s predicted, or the
    probability of being at the floor, and b that of its bin k; ``predicted``: (mean, deviation) of every cell;
    ``model``: (mean, standard deviation) of every column. The first bin of a column is its floor.
    """
    n, d = values.shape
    score = np.empty(3)
    for j in range(d):
        mean, std = model[0, j], model[1, j]
        for i in range(n):
            k = bins[i, j]
            if k < 0 or weights[i] == 0.0:
                continue
            above = values[i, j] > floor[j]
            u = ((values[i, j] if above else floor[j]) - mean) / std
            deviation = predicted[1, i, j]
            z = min(max((u - predicted[0, i, j]) / deviation, -_FARTHEST), _FARTHEST)
            if above:
                log_inlier, slope = -0.5 * (z * z + _LOG_2PI) - math.log(deviation * std), z
            else:
                log_inlier, slope = log_probability_and_hazard(z)
                slope = -slope
            inlier = math.exp(log_inlier - log_bin[i, j])  # in units of b, which is 1 at the floor
            total = left[j] * inlier + shares[k]
            trust = left[j] * inlier / total
            score[0] = trust * slope / deviation
            score[1] = trust * (slope * u / deviation - (1.0 if above else 0.0))
            score[2] = ((0.0 if above else 1.0) - inlier) / total
            for a in range(3):
                gradient[j, a] += weights[i] * score[a]
                for b in range(a + 1):
                    information[j, a, b] += weights[i] * score[a] * score[b]
        for a in range(3):
            for b in range(a):
                information[j, b, a] = information[j, a, b]


@njit(cache=True, nogil=True, inline="always")
def _edges_below(x: Any, edges: Any, first: int, last: int) -> int:
    """How many of edges[first:last] lie below x. Counted, not searched for: a dozen comparisons without a branch."""
    below = 0
    for e in range(first, last):
        below += 1 if edges[e] < x else 0
    return below


@kernel
def histogram_log_densities(values: Any, edges: Any, starts: Any, log_mass: FloatArray, out: FloatArray) -> None:
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


@kernel
def add_bin_counts(values: Any, weights: FloatArray, edges: Any, starts: Any, counts: FloatArray) -> None:
    """Add each row's weight to the bin of each of its cells; counts are laid out as log masses are."""
    n, d = values.shape
    for i in range(n):
        for j in range(d):
            x = values[i, j]
            if not math.isnan(x):
                first = starts[j]
                counts[first + j + _edges_below(x, edges, first, starts[j + 1])] += weights[i]
