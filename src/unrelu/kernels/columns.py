"""Columns: those that lie anywhere in memory written as rows, and lines between knots at many values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

_LINE = 16  # numbers of single precision
_CELLS = 2048


def _number(_context: Any, address: Any, table: Any) -> Any:
    """The number of the table's type at an address, which need not be a multiple of its size."""
    kind = table.dtype

    def load(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = context.get_value_type(types.CPointer(kind))  # type: ignore[no-untyped-call]
        number = builder.load(builder.inttoptr(arguments[0], pointer))
        number.align = 1
        return number

    return kind(address, table), load


_number_at: Any = intrinsic(_number)


@njit(cache=True, nogil=True)
def copy_columns(addresses: np.ndarray, table: np.ndarray) -> None:
    """table[i, j] = the i-th number from addresses[j] on; numbers lie side by side and have the table's type."""
    n, d = table.shape
    size = np.uintp(table.itemsize)
    # A line of cache of a column at once: columns often start at like addresses, and then only few fit the cache.
    whole = n // _LINE * _LINE
    for first in range(0, whole, _LINE):
        for j in range(d):
            start = addresses[j] + np.uintp(first) * size
            for i in range(_LINE):
                table[first + i, j] = _number_at(start + np.uintp(i) * size, table)
    for i in range(whole, n):
        for j in range(d):
            table[i, j] = _number_at(addresses[j] + np.uintp(i) * size, table)


@njit(cache=True, nogil=True, inline="always")
def _cell(distance: float, scale: float) -> int:
    """The cell of a value so far above the first knot, from 0 to _CELLS whatever the numbers are."""
    place = distance * scale
    if place >= _CELLS:
        return _CELLS
    return int(place) if place > 0.0 else 0  # 0 for NaN, too: 0 times infinity


@njit(cache=True, nogil=True)
def interpolate(x: np.ndarray, values: np.ndarray, scores: np.ndarray, slopes: np.ndarray, y: np.ndarray) -> None:
    """y at every x; before the first and after the last of the rising ``values`` it is constant, NaN stays NaN.

    What np.interp gives, bit by bit, in a fraction of its time. A grid of even cells says which knots are in a value's
    cell, and the search goes on among these. Which cell a number is in is computed in one way for values and knots, so
    that rounding cannot part them. Where a spread is too small or too large to be divided by, all are in the first
    cell: slow, and right.
    """
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
