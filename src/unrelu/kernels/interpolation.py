"""Lines between knots, at many values: what np.interp gives, bit by bit, in a fraction of its time.

A grid of even cells tells which knots are in a value's cell, and the search goes on among these. Which cell a number is
in is computed in one way for values and knots, so that rounding cannot part them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_CELLS = 2048


@njit(cache=True, nogil=True)
def interpolate(x: np.ndarray, values: np.ndarray, scores: np.ndarray, slopes: np.ndarray, y: np.ndarray) -> None:
    """y at every x; before the first and after the last of the rising ``values`` it is constant, NaN stays NaN."""
    last = len(values) - 1
    start, end = values[0], values[last]
    scale = _CELLS / (end - start)
    before = np.zeros(_CELLS + 2, dtype=np.int32)  # the last knot in an earlier cell
    for j in range(1, last + 1):
        before[min(int((values[j] - start) * scale), _CELLS) + 1] = j
    for k in range(1, len(before)):
        before[k] = max(before[k], before[k - 1])
    for i in range(len(x)):
        v = x[i]
        if v <= start:
            y[i] = scores[0]
        elif v < end:
            cell = min(int((v - start) * scale), _CELLS)
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
