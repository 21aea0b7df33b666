"""Parquet, feather and arrow files, read batch by batch through pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InputFileError
from unrelu.tables.diagnosis import NO_COLUMN, Faults, Held, not_numbers, row_and_line, sentences, without_columns
from unrelu.tables.reading import Reading
from unrelu.tables.table_file import SHARE_CELLS, TableFile, WithoutLines, damage_reported, refuse_no_rows
from unrelu.tables.text_columns import Seen, UnreadableCell, read_texts

_ROWS, _IN_CACHE = 2**16, 2048
_FEW_CELLS = 2**15  # that are copied before a kernel is loaded


class _ArrowTable(WithoutLines):
    """What the two kinds share: a schema that tells names and types before any row is read."""

    kind: str
    _pieces_read: tuple[int, ...] | None = None  # of those that the file is stored in: row groups, record batches

    def __init__(self, path: str, reading: Reading = Reading()) -> None:  # noqa: B008 - frozen
        self.name = path
        self._reading = reading
        self._texts: dict[int, Seen] = {}
        self.n_bytes = os.path.getsize(path)
        self._path = path
        with damage_reported(self.name, self.kind):
            schema, self.n_rows = self._open_schema()
            self._fields = _fields(schema)
        self.column_names = tuple(name for _, name, _ in self._fields)
        self.n_columns = len(self._fields)
        refuse_no_rows(self.name, self.n_rows)

    def _open_schema(self) -> tuple[Any, int]:
        raise NotImplementedError

    def _batches(self, wanted: Sequence[int], rows: int) -> Iterator[Any]:
        raise NotImplementedError

    def check(self, wanted: Sequence[int]) -> np.dtype[Any]:
        types = [self._fields[position][2] for position in wanted]
        texts = [position for position, kind in zip(wanted, types, strict=True) if _in_words(kind) == "text"]
        held = {
            position: Held(_in_words(kind))
            for position, kind in zip(wanted, types, strict=True)
            if not (_is_number(kind) or position in texts)
        }
        try:
            new = {position: self._look_through(position) for position in texts if position not in self._texts}
        except UnreadableCell as error:
            raise InputFileError(f"{self.name}: {self._fault(texts, held)}") from error
        if held:
            raise InputFileError(f"{self.name}: {self._fault([], held)}")
        self._texts |= new
        return np.dtype(np.float32 if all(map(_is_single, types)) else np.float64)

    def seen(self) -> dict[int, Seen]:
        return self._texts

    def _look_through(self, position: int) -> Seen:
        """A column of text may hold numbers, limits and words for missing."""
        seen = Seen()
        try:
            with damage_reported(self.name, self.kind):
                for batch in self._batches([position], _ROWS):
                    seen = seen.merge(self._read_texts(batch.column(self.column_names[position]))[1])
        except InputFileError as error:
            if isinstance(error.__cause__, UnreadableCell):
                raise error.__cause__ from None
            raise
        return seen

    def _fault(self, texts: Sequence[int], held: Mapping[int, Held]) -> str | None:
        """All columns that are not numbers, and the first bad cell of the others."""
        faults = Faults(self._reading.decimal or ".")
        for position in texts:
            for row, cell in enumerate(chain.from_iterable(self.texts(position)), start=1):
                faults.look(row_and_line(row, None), position, cell)
        every = dict(sorted({**held, **faults.texts()}.items()))
        remedy = without_columns(every, self.column_names) if len(every) < self.n_columns else NO_COLUMN
        columns = not_numbers(every, self.column_names, remedy) if every else None
        return sentences(columns, faults.first_cell(self.column_names))

    def _read_texts(self, column: Any) -> tuple[NDArray[Any], Seen]:
        import pyarrow as pa

        return read_texts(column.cast(pa.string()), self._reading.decimal or ".", self._reading)

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
        dtype = self.check(wanted)
        with damage_reported(self.name, self.kind):
            if not any(position in self._texts for position in wanted):
                yield from _tables(self._numbers(wanted, rows), min(rows, self.n_rows), dtype)
                return
            for batch in self._batches(wanted, rows):
                chosen = batch.select([self.column_names[position] for position in wanted])
                columns = [
                    self._read_texts(column)[0] if position in self._texts else column
                    for position, column in zip(wanted, chosen.columns, strict=True)
                ]
                yield columns_to_array(columns, dtype)

    def _numbers(self, wanted: Sequence[int], rows: int) -> Iterator[list[NDArray[Any]]]:
        """Some rows at a time, as one array a column."""
        names = [self.column_names[position] for position in wanted]
        for batch in self._batches(wanted, rows):
            yield [_as_numbers(column) for column in batch.select(names).columns]

    def texts(self, position: int) -> Iterator[list[str]]:
        """A column as text."""
        import pyarrow as pa

        with damage_reported(self.name, self.kind):
            for batch in self._batches([position], _ROWS):
                cells = batch.column(self.column_names[position]).cast(pa.string()).to_pylist()
                yield ["" if cell is None else cell for cell in cells]

    def _stored_rows(self) -> list[int]:
        """The rows of every piece that can be read without those before it; none where there is no such piece."""
        raise NotImplementedError

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


class ParquetTable(_ArrowTable):
    kind = "parquet"

    def _stored_rows(self) -> list[int]:
        with self._opened() as opened:
            return [opened.metadata.row_group(k).num_rows for k in range(opened.metadata.num_row_groups)]

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        from pyarrow import parquet

        with parquet.ParquetFile(self._path, page_checksum_verification=True) as opened:
            yield opened

    def _open_schema(self) -> tuple[Any, int]:
        with self._opened() as opened:
            return opened.schema_arrow, opened.metadata.num_rows

    def _batches(self, wanted: Sequence[int], rows: int) -> Iterator[Any]:
        names = [self.column_names[position] for position in wanted]
        with self._opened() as opened:
            for group in self._every_group(opened):
                yield from self._group(opened, group, names, rows)

    def _group(self, opened: Any, group: int, names: list[str], rows: int) -> Iterator[Any]:
        with damage_reported(f"{self.name}, row group {group}", self.kind):
            left = opened.metadata.row_group(group).num_rows
            for batch in opened.iter_batches(batch_size=rows, columns=names, row_groups=[group]):
                left -= batch.num_rows
                yield batch
            if left:  # pyarrow may take a damaged page for the end
                raise ValueError(f"it lacks {left:,} rows")

    def _every_group(self, opened: Any) -> Sequence[int]:
        return range(opened.metadata.num_row_groups) if self._pieces_read is None else self._pieces_read


class FeatherTable(_ArrowTable):
    """Arrow's own format, as a file (also called feather) or as a stream."""

    kind = "feather"

    @contextmanager
    def _opened(self, fields: list[int]) -> Iterator[tuple[Any, Iterator[Any]]]:
        """The reader and its batches, only ``fields`` decoded (all if empty)."""
        import pyarrow as pa

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
        import pyarrow as pa

        with self._opened([0]) as (reader, batches):
            return [batch.num_rows for batch in batches] if isinstance(reader, pa.ipc.RecordBatchFileReader) else []

    def _open_schema(self) -> tuple[Any, int]:
        with self._opened([]) as (reader, _):
            schema = reader.schema
        with self._opened([0]) as (_, batches):  # one column is enough to count rows
            return schema, sum(batch.num_rows for batch in batches)

    def _batches(self, wanted: Sequence[int], rows: int) -> Iterator[Any]:
        with self._opened(sorted(self._fields[position][0] for position in wanted)) as (_, batches):
            for batch in batches:
                batch.validate()
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows)


def columns_to_array(columns: Sequence[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Rows of columns of numbers, Arrow's or (of text that was read) NumPy's; NaN for null."""
    marked = [column.dtype for column in columns if np.iscomplexobj(column)]
    table = np.empty((len(columns[0]), len(columns)), np.result_type(dtype, *marked))
    _put([column if isinstance(column, np.ndarray) else _as_numbers(column) for column in columns], table)
    return table


def _as_numbers(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    number = column if pa.types.is_floating(column.type) else column.cast(pa.float64(), safe=False)
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


def _fields(schema: Any) -> list[tuple[int, str, Any]]:
    """Position in the file, name and type of every column but a frame's index.

    The index is stored as a column, but says which row this is, not what was measured.
    """
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    fields = ((position, field.name, field.type) for position, field in enumerate(schema))
    return [field for field in fields if field[1] not in index]


def _is_number(arrow_type: Any) -> bool:
    from pyarrow import types

    # An all-empty column has the type null: every cell is missing.
    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(arrow_type) for test in tests)


def _is_single(arrow_type: Any) -> bool:
    from pyarrow import types

    return bool(types.is_float32(arrow_type) or types.is_float16(arrow_type))


def _in_words(arrow_type: Any) -> str:
    from pyarrow import types

    if "string" in str(arrow_type):  # also large strings, string views and dictionaries of strings
        return "text"
    return "dates or times" if types.is_temporal(arrow_type) else f"values of type {arrow_type}"
