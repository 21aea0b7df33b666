"""Rows of an array in memory (or a memory map), handed out as views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrelu.contracts import Block, CellLimits, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.blocks import as_floats, holds_numbers, rows_per_block


class ArraySamples:
    """The rows of a two-dimensional array of numbers, block by block, without copying the array.

    Blocks of a float32 or float64 array are views, in C or Fortran order, also of a read-only
    memory map; other numbers are converted block by block.

    Parameters
    ----------
    values : array of shape (n_rows, n_features)
        Floats, integers or booleans; NaN where missing.
    weights : array of shape (n_rows,), optional
        One weight per row.
    feature_names : sequence of str, optional
        One name per column.
    block_rows : int, optional
        Rows per block; chosen by :func:`rows_per_block` by default.
    limits : CellLimits, optional
        Limits that cells stated where the array comes from.

    Examples
    --------
    >>> samples = ArraySamples(np.arange(10).reshape(5, 2), block_rows=2)
    >>> samples.n_rows, samples.n_features
    (5, 2)
    >>> [(block.first_row, block.values.shape, str(block.values.dtype)) for block in samples.blocks()]
    [(0, (2, 2), 'float64'), (2, (2, 2), 'float64'), (4, (1, 2), 'float64')]
    """

    in_memory = True  # reading ahead would gain nothing

    def __init__(
        self,
        values: ArrayLike,
        weights: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        block_rows: int | None = None,
        limits: CellLimits | None = None,
    ) -> None:
        self.limits = limits
        self._values = _table(values)
        self._weights = None if weights is None else one_per_row(weights, len(self._values))
        self._names = None if feature_names is None else _one_per_column(feature_names, self.n_features)
        self._block_rows = checked_block_rows(block_rows) or rows_per_block(self.n_rows, self.n_features)

    @property
    def n_features(self) -> int:
        return int(self._values.shape[1])

    @property
    def n_rows(self) -> int:
        return int(self._values.shape[0])

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return self._names

    def weighted(self, weights: ArrayLike) -> ArraySamples:
        """The same rows with a weight each, if they have none yet."""
        if self._weights is not None:
            raise InvalidParameterError("The rows have weights of their own: leave sample_weight out.")
        return ArraySamples(self._values, weights, self._names, self._block_rows, self.limits)

    def blocks(self) -> Iterator[Block]:
        for first in range(0, self.n_rows, self._block_rows):
            rows = slice(first, first + self._block_rows)
            weights = None if self._weights is None else self._weights[rows]
            yield Block(as_floats(self._values[rows]), first, weights)


def checked_block_rows(block_rows: int | None) -> int | None:
    if block_rows is not None and block_rows < 1:
        raise InvalidParameterError(f"block_rows is {block_rows}: a block needs at least 1 row.")
    return block_rows


def _table(values: ArrayLike) -> NDArray[Any]:
    table = np.asarray(values)  # also turns a memory map into a plain view of it
    if table.ndim != 2:
        raise InvalidDataError(f"Expected rows and columns (2 dimensions), got shape {table.shape}.")
    if not holds_numbers(table.dtype):
        raise InvalidDataError(f"Expected numbers, got an array of {table.dtype}.")
    return table


def one_per_row(weights: ArrayLike, n_rows: int) -> FloatArray:
    """Weights as numbers, if there is one for every row.

    >>> one_per_row([1, 2], 2)
    array([1., 2.])
    """
    column = np.asarray(weights, dtype=np.float64)
    if column.shape != (n_rows,):
        raise InvalidParameterError(
            f"weights has shape {column.shape}, the table {n_rows} rows: give one weight per row."
        )
    return column


def _one_per_column(names: Sequence[str], n_features: int) -> tuple[str, ...]:
    if len(names) != n_features:
        raise InvalidParameterError(f"{len(names)} feature names for {n_features} columns: give one name per column.")
    return tuple(str(name) for name in names)
