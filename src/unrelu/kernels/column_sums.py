"""Sums of powers, and extreme values, of what lies above the floor in each column."""

from __future__ import annotations

import numpy as np
from numba import njit

from unrelu.kernels.row_block import LARGEST


@njit(cache=True, nogil=True)
def add_powers(
    values: np.ndarray, floor: np.ndarray, origin: np.ndarray, weights: np.ndarray, sums: np.ndarray, ends: np.ndarray
) -> None:
    """sums[p] += sum of w t^p, t = x - origin, p = 0..4, and sums[5] += the weight of the cells that are not missing.

    ends[0..3] = smallest value, its weight, largest value, its weight. All but sums[5] are over x above the floor.
    """
    n, d = values.shape
    # Column by column: all sums of a column stay in registers, which is worth more than reading row by row.
    for j in range(d):
        count = first = second = third = fourth = observed = 0.0
        smallest, at_smallest, largest, at_largest = np.inf, 0.0, -np.inf, 0.0
        low, middle = floor[j], origin[j]
        for i in range(n):
            x = np.float64(values[i, j])
            w = weights[i]
            if low < x <= LARGEST:
                t = x - middle
                wt = w * t
                square = t * t
                observed += w
                count += w
                first += wt
                second += wt * t
                third += wt * square
                fourth += wt * square * t
                if x <= smallest:
                    at_smallest = w if x < smallest else at_smallest + w
                    smallest = x
                if x >= largest:
                    at_largest = w if x > largest else at_largest + w
                    largest = x
            elif x <= low:
                observed += w
        for p, total in enumerate((count, first, second, third, fourth, observed)):
            sums[p, j] += total
        for p, end in enumerate((smallest, at_smallest, largest, at_largest)):
            ends[p, j] = end
