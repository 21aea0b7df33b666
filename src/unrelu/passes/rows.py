"""Rows of an array, rows converted block by block, and blocks; :class:`unrelu.contracts.Samples` is their base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from unrelu.contracts import Block, CellLimits, FloatArray, Samples
from unrelu.errors import InvalidDataError, InvalidParameterError

Floats = NDArray[np.floating[Any]]

FEWEST_ROWS, MOST_ROWS = 512, 4096
NARROW_CELLS = 2**22  # of a block of few columns: a block costs some milliseconds, however few its rows
MOST_CELLS = 2**24  # 128 MiB of float64


class GivenRows(Samples):
    """Rows of a class of the user's: its own attributes where it has them, the plain ones elsewhere."""

    def __init__(self, given: Any) -> None:
        self._given = given
        for name in Samples.__annotations__:
            if hasattr(given, name):
                setattr(self, name, getattr(given, name))

    @property
    def n_rows(self) -> int | None:
        return cast("int | None", self._given.n_rows)

    def blocks(self) -> Iterator[Block]:
        return cast("Iterator[Block]", self._given.blocks())

    def weighted(self, weights: Any) -> Samples:
        if not hasattr(self._given, "weighted"):
            return super().weighted(weights)
        return GivenRows(self._given.weighted(weights))


def as_rows(table: Any) -> Any:
    """Rows that are read in blocks with all that :class:`Samples` has, of any class; any other table as it is."""
    essential = ("n_features", "n_rows", "feature_names", "blocks")
    if isinstance(table, Samples) or not all(hasattr(table, name) for name in essential):
        return table
    return GivenRows(table)


class RowsOf(Samples):
    """The rows of other samples, read in another way: a subclass says how, by ``_convert``.

    ``_beside``: of how many rows something stands beside them, if anything does.
    """

    _beside: int | None = None
    _counted = False

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self.n_features, self.feature_names = samples.n_features, samples.feature_names
        self.limits, self.limits_by_cell = samples.limits, samples.limits_by_cell
        self.read_once, self.stored_as = samples.read_once, samples.stored_as

    @property
    def n_rows(self) -> int | None:
        return self._samples.n_rows

    @property
    def source(self) -> Samples:
        return self._samples.source

    def over(self, source: Samples) -> Self:
        """Other rows with the same columns, or some of these, read in the same way."""
        other = copy(self)
        other._samples = self._samples.over(source)
        other._check(source.n_rows)
        return other

    def blocks(self) -> Iterator[Block]:
        last = 0
        for block in self._blocks():
            last = block.first_row + block.n_rows
            if self._beside is not None and last > self._beside:
                break
            yield self._convert(block)
        if not self._counted:
            self._check(last)

    def _blocks(self) -> Iterator[Block]:
        return self._samples.blocks()

    def _convert(self, block: Block) -> Block:
        raise NotImplementedError

    def _check(self, n_rows: int | None) -> None:
        """Raise where what stands beside the rows is of another number of them, as early as possible."""
        if n_rows is not None and self._beside is not None:
            if n_rows != self._beside:
                more = "at least " if self.n_rows is None and n_rows > self._beside else ""
                raise self._other_number(more, n_rows)
            self._counted = True

    def _other_number(self, more: str, n_rows: int) -> Exception:
        raise NotImplementedError


class SomeColumns(RowsOf):
    """The rows of ``samples``, of the ``columns`` at these positions alone."""

    def __init__(self, samples: Samples, columns: NDArray[np.intp]) -> None:
        super().__init__(samples)
        names, own = samples.feature_names, samples.limits_by_cell
        self._columns, self.n_features = columns, len(columns)
        self.feature_names = None if names is None else tuple(names[j] for j in columns)
        self.limits_by_cell = tuple(place for place, j in enumerate(columns) if j in own)

    def _convert(self, block: Block) -> Block:
        censoring = None if block.censoring is None else np.take(block.censoring, self._columns, axis=1)
        return replace(block, values=np.take(block.values, self._columns, axis=1), censoring=censoring)


class PartRows(Samples):
    """Blocks as rows of the table that they are part of, from ``first_row`` on; ``n_rows`` is the table's."""

    def __init__(self, of: Samples, n_rows: int | None, first_row: int = 0, held: Iterable[Block] = ()) -> None:
        self.n_features, self.feature_names, self.limits_by_cell = of.n_features, of.feature_names, of.limits_by_cell
        self._n_rows, self._first_row, self._held = n_rows, first_row, held

    @property
    def n_rows(self) -> int | None:
        return self._n_rows

    def blocks(self) -> Iterator[Block]:
        for block in self._held:
            yield replace(block, first_row=self._first_row + block.first_row)


class ArraySamples(Samples):
    """The rows of a two-dimensional array of numbers, block by block, without copying the array.

    Blocks of a float32 or float64 array are views, in C or Fortran order, also of a read-only memory map; other
    numbers are converted block by block.

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
        self._values = table = np.asarray(values)  # also turns a memory map into a plain view of it
        if table.ndim != 2:
            raise InvalidDataError(f"Expected rows and columns (2 dimensions), got shape {table.shape}.")
        if not holds_numbers(table.dtype):
            raise InvalidDataError(f"Expected numbers, got an array of {table.dtype}.")
        self.n_features = int(table.shape[1])
        self._weights = None if weights is None else one_per_row(weights, self.n_rows)
        self.feature_names = one_per_column(feature_names, self.n_features)
        self._block_rows = checked_block_rows(block_rows) or rows_per_block(self.n_rows, self.n_features)

    @property
    def n_rows(self) -> int:
        return int(self._values.shape[0])

    def weighted(self, weights: ArrayLike) -> ArraySamples:
        """The same rows with a weight each, if they have none yet."""
        if self._weights is not None:
            raise InvalidParameterError("The rows have weights of their own: leave sample_weight out.")
        return ArraySamples(self._values, weights, self.feature_names, self._block_rows, self.limits)

    def blocks(self) -> Iterator[Block]:
        for rows, weights in runs(self.n_rows, self._block_rows, self._weights):
            yield Block(as_floats(self._values[rows]), rows.start, weights)


def checked_block_rows(block_rows: int | None) -> int | None:
    if block_rows is not None and block_rows < 1:
        raise InvalidParameterError(f"block_rows is {block_rows}: a block needs at least 1 row.")
    return block_rows


def one_per_column(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...] | None:
    """Names as texts, if there is one for every column."""
    if names is not None and len(names) != n_columns:
        raise InvalidParameterError(f"{len(names)} feature names for {n_columns} columns: give one name per column.")
    return None if names is None else tuple(map(str, names))


def one_per_row(weights: ArrayLike, n_rows: int) -> FloatArray:
    """Weights as numbers, if there is one for every row."""
    column = np.asarray(weights, dtype=np.float64)
    if column.shape != (n_rows,):
        raise InvalidParameterError(
            f"weights has shape {column.shape}, the table {n_rows} rows: give one weight per row."
        )
    return column


# --- blocks ---------------------------------------------------------------------------------------


class LazyBlock(Block):
    """A run of rows that are stored in another way: ``values`` are made on first access.

    One that is given values, as by dataclasses.replace, has nothing stored.
    """

    def __init__(self, values: Any = None, **others: Any) -> None:
        given = {} if values is None else {"values": values}
        self.__dict__.update({"first_row": 0, "weights": None, "groups": None, "censoring": None} | others | given)


class SparseBlock(LazyBlock):
    """A run of rows of which only the cells other than 0 are stored: ``matrix``, of scipy in the format csr."""

    matrix: Any = None

    @property
    def n_rows(self) -> int:
        return len(self.values) if self.matrix is None else int(self.matrix.shape[0])

    @cached_property
    def values(self) -> FloatArray:
        return np.asarray(self.matrix.toarray(), dtype=np.float64)

    def some_rows(self, chosen: NDArray[np.intp]) -> Floats:
        """Values of some rows, in order."""
        if self.matrix is None:
            return self.values[chosen]
        return np.asarray(self.matrix[chosen].toarray(), dtype=np.float64)


def all_values(samples: Samples) -> Floats:
    """All rows as one array, which is no copy where they are one block."""
    values = [block.values for block in samples.blocks()]
    return values[0] if len(values) == 1 else np.concatenate(values)


def runs(n_rows: int, size: int, weights: FloatArray | None) -> Iterator[tuple[slice, FloatArray | None]]:
    """All rows, so many at a time, and their weights if they have any."""
    for first in range(0, n_rows, size):
        rows = slice(first, min(first + size, n_rows))
        yield rows, None if weights is None else weights[rows]


def rows_per_block(n_rows: int | None, n_features: int) -> int:
    """Rows to read at a time: a 24th of the table, between 512 and 4096, or 2^22 cells where that is more rows.

    Working copies of a block then stay well under a quarter of the table, and a block is still tall enough for fast
    matrix products. Beyond 4096 columns the blocks get shorter, so that one block holds at most 2^24 cells (but never
    fewer than 512 rows). ``n_rows`` is None where only a full read can give it; the table is then taken to be long.

    >>> rows_per_block(48_000, 10), rows_per_block(100, 10)
    (2000, 512)
    >>> rows_per_block(10**7, 10), rows_per_block(None, 1000), rows_per_block(None, 10_000)
    (416666, 4194, 1677)
    """
    width = max(n_features, 1)
    most = min(max(MOST_ROWS, NARROW_CELLS // width), MOST_CELLS // width)
    return max(FEWEST_ROWS, most if n_rows is None else min(n_rows // 24, most))


def holds_numbers(dtype: np.dtype[Any]) -> bool:
    """Floats (ml_dtypes' bfloat16 as well), integers and booleans count as numbers."""
    return dtype.kind in "fiub" or dtype.name == "bfloat16"


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """float32 for half and single floats; float64 for all other numbers."""
    dtype = np.dtype(dtype)
    short = dtype.name == "bfloat16" or (dtype.kind == "f" and dtype.itemsize <= 4)
    return np.dtype(np.float32 if short else np.float64)


def as_floats(values: NDArray[Any]) -> Floats:
    """``values`` itself where it is float32 or float64 in native byte order, else a converted copy."""
    return values.astype(float_type(values.dtype), copy=False)


def regroup(pieces: Iterable[NDArray[Any]], rows: int) -> Iterator[NDArray[Any]]:
    """Cut and join row pieces of any size into blocks of exactly ``rows`` rows (the last may be shorter).

    The blocks depend on the rows alone, not on how the files or their readers happen to cut them.
    """
    held: list[NDArray[Any]] = []
    missing = rows
    for piece in pieces:
        start = 0
        while len(piece) - start >= missing:
            held.append(piece[start : start + missing])
            start += missing
            yield held[0] if len(held) == 1 else np.concatenate(held)
            held, missing = [], rows
        if start < len(piece):
            held.append(piece[start:])
            missing -= len(piece) - start
    if held:
        yield held[0] if len(held) == 1 else np.concatenate(held)
