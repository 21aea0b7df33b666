"""Rows of a Dask array or data frame: each chunk is computed when it is read, here or by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from unrelu.contracts import Ask, Block, Part, Samples
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.rows import MOST_CELLS, as_floats, float_type, holds_numbers, one_per_row, runs
from unrelu.validation import listed

_AT_A_TIME = 2  # chunks that are computed before the first of them is used
_BLOCK_CELLS = MOST_CELLS // 4


class DaskSamples(Samples):
    """The rows of a Dask array or data frame of numbers.

    A cluster reads them where a Dask client is active, else this process, chunk by chunk. Every pass computes the
    chunks again, unless ``table.persist()`` has kept them. Chunks may be empty; unknown lengths are counted first,
    which computes the table once.
    """

    def __init__(self, table: Any) -> None:
        if not _is_dask(table) or getattr(table, "ndim", None) != 2:
            shape = getattr(table, "shape", "none")
            raise InvalidDataError(f"Expected rows and columns (2 dimensions) of Dask, got shape {shape}.")
        columns = getattr(table, "columns", None)
        if columns is not None:
            self.feature_names, self._dtype = tuple(map(str, columns)), _type_of_columns(table)
            self.n_features = len(columns)
        elif holds_numbers(table.dtype):
            self._dtype, self.n_features = float_type(table.dtype), int(table.shape[1])
            table = table.rechunk({1: -1}) if table.numblocks[1] > 1 else table
        else:
            raise InvalidDataError(f"Expected numbers, got a Dask array of {table.dtype}.")
        self.stored_as = getattr(table, "dtype", None)
        self._chunks, self._weights = _chunks_of(table), list[Any]()
        self._lengths = getattr(table, "chunks", ((np.nan,),))[0]
        if np.isnan(self._lengths).any():
            from unrelu.passes.dask_engine import computed_values, lazily

            self._lengths = computed_values([lazily(len, chunk) for chunk in self._chunks])
        from unrelu.passes.dask_engine import active_engine

        self.engine = active_engine  # the workers of the active client, or this process

    @property
    def n_rows(self) -> int:
        return int(sum(self._lengths))

    def weighted(self, weights: Any) -> DaskSamples:
        """The same rows with a weight each: an array, or a Dask array or series in the same chunks."""
        if self._weights:
            raise InvalidParameterError("The rows have weights of their own: leave sample_weight out.")
        other = copy(self)
        if _is_dask(weights):
            chunks = getattr(weights, "chunks", None)
            if chunks is not None and not np.isnan(chunks[0]).any() and sum(chunks[0]) == self.n_rows:
                weights = weights.rechunk((tuple(self._lengths),))
            other._weights = _chunks_of(weights)
        else:
            ends = accumulate(self._lengths)
            other._weights = [weights[end - n : end] for end, n in zip(ends, self._lengths, strict=True)]
        if len(other._weights) != len(self._chunks):
            raise InvalidParameterError(
                f"sample_weight has {len(other._weights)} chunks, the table {len(self._chunks)}: give one weight per"
                " row, in the same chunks."
            )
        return other

    def parts(self, ask: Ask) -> list[Part]:  # noqa: ARG002 - nothing is left to find out
        read = partial(_blocks, names=self.feature_names, dtype=self._dtype)
        needs = zip(self._chunks, self._weights, strict=True) if self._weights else ((each,) for each in self._chunks)
        return [Part(read, n, tuple(each)) for n, each in zip(self._lengths, needs, strict=True)]

    def blocks(self) -> Iterator[Block]:
        from unrelu.passes.dask_engine import computed_values

        parts, first = [part for part in self.parts(lambda *_: []) if part.n_rows], 0
        for start in range(0, len(parts), _AT_A_TIME):
            some = parts[start : start + _AT_A_TIME]
            for part, needs in zip(some, computed_values([part.needs for part in some]), strict=True):
                for block in part.read(*needs):
                    yield Block(block.values, first + block.first_row, block.weights)
                first += part.n_rows


def _is_dask(table: Any) -> bool:
    """Recognized without importing Dask."""
    return hasattr(table, "__dask_graph__") and hasattr(table, "to_delayed")


def _chunks_of(table: Any) -> list[Any]:
    return list(np.asarray(table.to_delayed(), dtype=object).ravel())


def _type_of_columns(table: Any) -> np.dtype[Any]:
    from pandas.api.types import is_numeric_dtype

    kinds = dict(zip(map(str, table.columns), table.dtypes, strict=True))
    if len(kinds) < len(table.columns):
        raise InvalidDataError(f"Columns of the same name: {listed(map(str, table.columns))}. Rename them.")
    others = [
        f"{name!r} ({kind})"
        for name, kind in kinds.items()
        if not is_numeric_dtype(kind) or getattr(kind, "kind", "f") == "c"
    ]
    if others:
        raise InvalidDataError(
            f"Not numbers: column {listed(others)}. Leave it out, or turn it into numbers: table.drop(columns=...),"
            " table.astype(...). Text such as '<0.25' is read from files and from frames in memory."
        )
    plain = [kind if isinstance(kind, np.dtype) else np.dtype(np.float64) for kind in kinds.values()]
    return np.result_type(*map(float_type, plain))


def _blocks(chunk: Any, weights: Any = None, *, names: tuple[str, ...] | None, dtype: np.dtype[Any]) -> Iterator[Block]:
    if names is None:
        values = as_floats(np.asarray(chunk))
    elif tuple(map(str, chunk.columns)) == names:
        values = chunk.to_numpy(dtype=dtype, na_value=np.nan)
    else:
        found = listed(map(str, chunk.columns))
        raise InvalidDataError(f"A partition of the frame has the columns {found}, not {listed(names)}.")
    column = None if weights is None else one_per_row(weights, len(values))
    for rows, some in runs(len(values), max(_BLOCK_CELLS // values.shape[1], 1), column):
        yield Block(values[rows], rows.start, some)


def weight_range(weights: Any) -> tuple[float, float, float]:
    """(smallest, largest, smallest above 0) of lazy weights, NaN where one is missing; 0 rows have (0, 0, inf)."""
    from unrelu.passes.dask_engine import computed_values, lazily

    low, high, above = np.array(computed_values([lazily(_range, chunk) for chunk in _chunks_of(weights)])).T
    return float(low.min()), float(high.max()), float(above.min())


def _range(weights: Any) -> tuple[float, float, float]:
    column = np.asarray(weights, dtype=np.float64)
    above = float(np.min(column, where=column > 0.0, initial=np.inf))
    return float(column.min(initial=0.0)), float(column.max(initial=0.0)), above
