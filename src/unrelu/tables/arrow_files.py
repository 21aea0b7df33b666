"""Files read through pyarrow: parquet, feather and arrow, batch by batch; csv shares what reads their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet, types

from unrelu.errors import InputFileError
from unrelu.tables.cells import Reading, Seen, UnreadableCell, plain_number, read_distinct
from unrelu.tables.table_file import (
    SHARE_CELLS,
    Faults,
    TableFile,
    all_faults,
    damage_reported,
    leave_out,
    refuse_no_rows,
    row_and_line,
)

_ROWS, _IN_CACHE = 2**16, 2048
_FEW_CELLS = 2**15  # that are copied before a kernel is loaded


class ColumnsOfArrow(TableFile):
    """A table of which Arrow gives columns; those of text are read as numbers, limits and words for missing."""

    def __init__(self, path: str, reading: Reading, name: str | None = None) -> None:
        super().__init__(path, name)
        self._reading, self.decimal = reading, reading.decimal or "."
        self._texts: dict[int, Seen] = {}  # columns of text, and what was seen in them

    def seen(self) -> dict[int, Seen]:
        return self._texts

    def _read_texts(self, column: Any) -> tuple[NDArray[Any], Seen]:
        return read_texts(column.cast(pa.string()), self.decimal, self._reading)

    def _rows(self, wanted: Sequence[int], columns: Sequence[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Rows of the wanted columns; NaN for null."""
        numbers = [
            self._read_texts(column)[0] if position in self._texts else _as_numbers(column)
            for position, column in zip(wanted, columns, strict=True)
        ]
        marked = [column.dtype for column in numbers if np.iscomplexobj(column)]
        table = np.empty((len(columns[0]), len(columns)), np.result_type(dtype, *marked))
        _put(numbers, table)
        return table


def read_texts(column: Any, decimal: str, reading: Reading) -> tuple[NDArray[Any], Seen]:
    """An Arrow array of text as numbers, and what was seen: plain numbers at once, others one by one.

    See :func:`unrelu.tables.cells.read_distinct`.
    """
    text = compute.ascii_trim_whitespace(column)
    plain = compute.fill_null(compute.match_substring_regex(text, f"^{plain_number(decimal)}$"), False)
    numbers = compute.if_else(plain, text, None)
    if decimal == ",":
        numbers = compute.replace_substring(numbers, ",", ".")
    values = np.array(numbers.cast(pa.float64()).to_numpy(zero_copy_only=False))
    known = values[~np.isnan(values)]
    seen = Seen(smallest=float(known.min()), largest=float(known.max())) if len(known) else Seen()
    odd = compute.and_(compute.is_valid(text), compute.invert(plain))
    if compute.any(odd).as_py():
        coded = text.filter(odd).dictionary_encode()
        texts = [bytes(each.as_py()).decode(errors="replace") for each in coded.dictionary.cast(pa.binary())]
        read, others = read_distinct(texts, np.asarray(coded.indices), decimal, reading)
        values = values.astype(read.dtype)
        values[np.flatnonzero(odd)] = read
        seen = seen.merge(others)
    return values, seen


class _StoredColumns(ColumnsOfArrow):
    """What the kinds share that have a schema, which tells names and types before any row is read."""

    kind: str
    n_rows: int
    column_names: tuple[str, ...]
    _pieces_read: tuple[int, ...] | None = None  # of those that the file is stored in: row groups, record batches

    def __init__(self, path: str, reading: Reading) -> None:
        super().__init__(path, reading)
        with damage_reported(self.name, self.kind):
            schema, self.n_rows = self._open_schema()
            # A frame's index is stored as a column, but says which row this is, not what was measured.
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            fields = [each for each in enumerate(schema) if each[1].name not in index]
        self._places, self._types = [place for place, _ in fields], [field.type for _, field in fields]
        self.column_names = tuple(field.name for _, field in fields)
        self.n_columns = len(fields)
        refuse_no_rows(self.name, self.n_rows)

    def _open_schema(self) -> tuple[Any, int]:
        raise NotImplementedError

    def _batches(self, wanted: Sequence[int], rows: int) -> Iterator[Any]:
        raise NotImplementedError

    def _stored_rows(self) -> list[int]:
        """The rows of every piece that can be read without those before it; none where there is no such piece."""
        raise NotImplementedError

    def _columns(self, wanted: Sequence[int], rows: int = _ROWS) -> Iterator[list[Any]]:
        """The wanted columns in their order, some rows at a time."""
        names = [self.column_names[position] for position in wanted]
        for batch in self._batches(wanted, rows):
            yield batch.select(names).columns

    def check(self, wanted: Sequence[int]) -> np.dtype[Any]:
        others = {position: _other_kind(self._types[position]) for position in wanted}
        held = {position: (kind, "") for position, kind in others.items() if kind not in (None, "text")}
        texts = [position for position, kind in others.items() if kind == "text"]
        seen = {position: Seen() for position in texts if position not in self._texts}
        unreadable = False
        try:
            with damage_reported(self.name, self.kind):
                for position in seen:
                    for (column,) in self._columns([position]):
                        seen[position] = seen[position].merge(self._read_texts(column)[1])
        except InputFileError as error:
            if not isinstance(error.__cause__, UnreadableCell):
                raise
            unreadable = True
        if held or unreadable:
            faults = Faults(self.decimal)
            for position in texts if unreadable else ():
                for row, cell in enumerate(chain.from_iterable(self.texts(position)), start=1):
                    faults.look(row_and_line(row, None), position, cell)
            names = self.column_names
            fault = all_faults(faults, held, names, self.n_columns, lambda them: leave_out(names, them))
            raise InputFileError(f"{self.name}: {fault}")
        self._texts |= seen
        single = all(types.is_float32(self._types[at]) or types.is_float16(self._types[at]) for at in wanted)
        return np.dtype(np.float32 if single else np.float64)

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
        dtype = self.check(wanted)
        with damage_reported(self.name, self.kind):
            if any(position in self._texts for position in wanted):
                for columns in self._columns(wanted, rows):
                    yield self._rows(wanted, columns, dtype)
                return
            numbers = ([_as_numbers(column) for column in columns] for columns in self._columns(wanted, rows))
            yield from _tables(numbers, min(rows, self.n_rows), dtype)

    def texts(self, position: int) -> Iterator[list[str]]:
        with damage_reported(self.name, self.kind):
            for (column,) in self._columns([position]):
                yield ["" if cell is None else cell for cell in column.cast(pa.string()).to_pylist()]

    def shares(self) -> list[TableFile]:
        """The pieces that the file is stored in, small ones together."""
        with damage_reported(self.name, self.kind):
            rows = self._stored_rows()
        shares: list[TableFile] = []
        held: list[int] = []
        for piece in range(len(rows)):
            held.append(piece)
            n = sum(rows[k] for k in held)
            if n and (n * self.n_columns >= SHARE_CELLS or piece == len(rows) - 1):
                shares.append(self._elsewhere(_pieces_read=tuple(held), n_rows=n))
                held = []
        return shares or super().shares()


class ParquetTable(_StoredColumns):
    kind = "parquet"

    def _opened(self) -> Any:
        return parquet.ParquetFile(self._path, page_checksum_verification=True)

    def _stored_rows(self) -> list[int]:
        with self._opened() as opened:
            return [opened.metadata.row_group(k).num_rows for k in range(opened.metadata.num_row_groups)]

    def _open_schema(self) -> tuple[Any, int]:
        with self._opened() as opened:
            return opened.schema_arrow, opened.metadata.num_rows

    def _batches(self, wanted: Sequence[int], rows: int) -> Iterator[Any]:
        names = [self.column_names[position] for position in wanted]
        with self._opened() as opened:
            every = range(opened.metadata.num_row_groups) if self._pieces_read is None else self._pieces_read
            for group in every:
                with damage_reported(f"{self.name}, row group {group}", self.kind):
                    left = opened.metadata.row_group(group).num_rows
                    for batch in opened.iter_batches(batch_size=rows, columns=names, row_groups=[group]):
                        left -= batch.num_rows
                        yield batch
                    if left:  # pyarrow may take a damaged page for the end
                        raise ValueError(f"it lacks {left:,} rows")


class FeatherTable(_StoredColumns):
    """Arrow's own format, as a file (also called feather) or as a stream."""

    kind = "feather"

    @contextmanager
    def _opened(self, fields: list[int]) -> Iterator[tuple[Any, Iterator[Any]]]:
        """The reader and its batches, only ``fields`` decoded (all if empty)."""
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        with pa.memory_map(self._path) as memory:
            if memory.read(4) == b"\xff\xff\xff\xff":  # a stream starts so, a file with its magic word
                memory.seek(0)
                with pa.ipc.open_stream(memory, options=options) as stream:
                    yield stream, iter(stream)
            else:
                with pa.ipc.open_file(memory, options=options) as file:
                    every = range(file.num_record_batches) if self._pieces_read is None else self._pieces_read
                    yield file, map(file.get_batch, every)

    def _stored_rows(self) -> list[int]:
        """None of a stream: where a batch starts only those before it can tell."""
        with self._opened([0]) as (reader, batches):
            return [batch.num_rows for batch in batches] if isinstance(reader, pa.ipc.RecordBatchFileReader) else []

    def _open_schema(self) -> tuple[Any, int]:
        with self._opened([]) as (reader, _):
            schema = reader.schema
        with self._opened([0]) as (_, batches):  # one column is enough to count rows
            return schema, sum(batch.num_rows for batch in batches)

    def _batches(self, wanted: Sequence[int], rows: int) -> Iterator[Any]:
        with self._opened(sorted(self._places[position] for position in wanted)) as (_, batches):
            for batch in batches:
                batch.validate()
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows)


def _other_kind(kind: Any) -> str | None:
    """What columns of an Arrow type hold, in words; None for numbers. All-empty columns have the type null."""
    numbers = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    if any(test(kind) for test in numbers):
        return None
    if "string" in str(kind):  # also large strings, string views and dictionaries of strings
        return "text"
    return "dates or times" if types.is_temporal(kind) else f"values of type {kind}"


def _as_numbers(column: Any) -> NDArray[Any]:
    number = column if types.is_floating(column.type) else column.cast(pa.float64(), safe=False)
    return np.asarray(number.to_numpy(zero_copy_only=False))


def _tables(batches: Iterable[list[NDArray[Any]]], rows: int, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Batches of columns of any size as tables of so many rows, the last of fewer."""
    table, filled = np.empty((0, 0), dtype), 0
    for columns in batches:
        start = 0
        while start < len(columns[0]):
            if filled == 0:
                table = np.empty((rows, len(columns)), dtype)
            n = min(rows - filled, len(columns[0]) - start)
            _put([column[start : start + n] for column in columns], table[filled : filled + n])
            start, filled = start + n, filled + n
            if filled == rows:
                yield table
                filled = 0
    if filled:
        yield table[:filled]


def _put(columns: Sequence[NDArray[Any]], table: NDArray[Any]) -> None:
    """Columns into the rows of a table."""
    item = table.dtype.itemsize
    plain = all(each.dtype == table.dtype and each.strides == (item,) for each in columns)
    if plain and table.dtype.kind == "f" and table.size > _FEW_CELLS:
        from unrelu.kernels.columns import copy_columns

        copy_columns(np.array([each.__array_interface__["data"][0] for each in columns], np.uintp), table)
        return
    for first in range(0, len(table), _IN_CACHE):  # a few rows at a time: the rows written to stay in cache
        rows = slice(first, first + _IN_CACHE)
        for position, column in enumerate(columns):
            table[rows, position] = column[rows]
