"""The size of a block, sparse blocks, the float type of a table, and pieces of any size regrouped into blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unrelu.contracts import Block, FloatArray

Floats = NDArray[np.floating[Any]]

FEWEST_ROWS, MOST_ROWS = 512, 4096
NARROW_CELLS = 2**22  # of a block of few columns: a block costs some milliseconds, however few its rows
MOST_CELLS = 2**24  # 128 MiB of float64


class SparseBlock(Block):
    """A run of rows of which only the cells other than 0 are stored: ``matrix``, of scipy in the format csr.

    ``values`` are made when someone asks for them. One that is given values, as by dataclasses.replace, has no matrix.
    """

    matrix: Any

    def __init__(self, values: Any = None, matrix: Any = None, **others: Any) -> None:
        given = {} if values is None else {"values": values}
        self.__dict__.update({"first_row": 0, "weights": None, "groups": None, "beyond": None} | others)
        self.__dict__.update(matrix=matrix, **given)

    @property
    def n_rows(self) -> int:
        return len(self.values) if self.matrix is None else int(self.matrix.shape[0])

    @cached_property
    def values(self) -> FloatArray:
        return np.asarray(self.matrix.toarray(), dtype=np.float64)


def rows_in(block: Block) -> int:
    """The number of a block's rows, without making sparse ones dense or bringing those of a device here."""
    n_rows: int | None = getattr(block, "n_rows", None)
    return len(block.values) if n_rows is None else n_rows


def some_rows(block: Block, chosen: NDArray[np.intp]) -> Floats:
    """Rows of a block, in order; of sparse ones and those of a device no others are made dense or brought here."""
    matrix, array = getattr(block, "matrix", None), getattr(block, "array", None)
    if matrix is not None:
        return np.asarray(matrix[chosen].toarray(), dtype=np.float64)
    if array is None or len(chosen) == 0:
        return block.values[chosen]
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)
    brought = [type(block)(array=array[run[0] : run[-1] + 1, ...], place=block.place) for run in runs]  # type: ignore[call-arg, attr-defined]
    return np.concatenate([each.values for each in brought])


def rows_per_block(n_rows: int | None, n_features: int) -> int:
    """Rows to read at a time: a 24th of the table, between 512 and 4096, or 2^22 cells where that is more rows.

    Working copies of a block then stay well under a quarter of the table, and a block is still
    tall enough for fast matrix products. Beyond 4096 columns the blocks get shorter, so that one
    block holds at most 2^24 cells (but never fewer than 512 rows). ``n_rows`` is None where only a
    full read can tell; the table is then taken to be long.

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

    >>> [block.ravel().tolist() for block in regroup([np.ones((1, 1)), np.zeros((4, 1))], 2)]
    [[1.0, 0.0], [0.0, 0.0], [0.0]]
    """
    held: list[NDArray[Any]] = []
    missing = rows
    for piece in pieces:
        start = 0
        while len(piece) - start >= missing:
            held.append(piece[start : start + missing])
            start += missing
            yield _joined(held)
            held, missing = [], rows
        if start < len(piece):
            held.append(piece[start:])
            missing -= len(piece) - start
    if held:
        yield _joined(held)


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
