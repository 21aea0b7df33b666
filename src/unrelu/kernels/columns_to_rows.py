"""Columns that lie anywhere in memory, written as rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

_LINE = 16  # numbers of single precision


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
