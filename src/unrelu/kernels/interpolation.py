"""Lines between knots, at many values: what np.interp gives, bit by bit, in a fraction of its time.

A grid of even cells tells which knots are in a value's cell, and the search goes on among these. Which cell a number is
in is computed in one way for values and knots, so that rounding cannot part them. Where a spread is too small or too
large to be divided by, all are in the first cell: slow, and right.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_CELLS = 2048


@njit(cache=True, nogil=True, inline="always")
def _cell(distance: float, scale: float) -> int:
    """The cell of a value so far above the first knot, from 0 to _CELLS whatever the numbers are."""
    place = distance * scale
    if place >= _CELLS:
        return _CELLS
    return int(place) if place > 0.0 else 0  # 0 for NaN, too: 0 times infinity


@njit(cache=True, nogil=True)
def interpolate(x: np.ndarray, values: np.ndarray, scores: np.ndarray, slopes: np.ndarray, y: np.ndarray) -> None:
    """y at every x; before the first and after the last of the rising ``values`` it is constant, NaN stays NaN."""
    last = len(values) - 1
    start, end = values[0], values[last]
    scale = _CELLS / (end - start)
    if not scale < np.inf:
        scale = 0.0
    before = np.zeros(_CELLS + 2, dtype=np.int32)  # the last knot in an earlier cell
    for j in range(1, last + 1):
        before[_cell(values[j] - start, scale) + 1] = j
    for k in range(1, len(before)):
        before[k] = max(before[k], before[k - 1])
    for i in range(len(x)):
        v = x[i]
        if v <= start:
            y[i] = scores[0]
        elif v < end:
            cell = _cell(v - start, scale)
            at, most = before[cell], before[cell + 1]
            while at < most:
                middle = (at + most + 1) >> 1
                if values[middle] <= v:
                    at = middle
                else:
                    most = middle - 1
            y[i] = slopes[at] * (v - values[at]) + scores[at]
        else:
            y[i] = scores[last] if v >= end else v
