"""Files read through pyarrow: parquet, feather and arrow, batch by batch; csv shares what reads their columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet, types

from unrelu.errors import InputFileError
from unrelu.tables.cells import Reading, Seen, UnreadableCell, plain_number, read_distinct
from unrelu.tables.raw_text import decoded
from unrelu.tables.table_file import SHARE_CELLS, Faults, Piece, TableFile, damage_reported, row_and_line

_ROWS, _IN_CACHE = 2**16, 2048
_FEW_CELLS = 2**15  # that are copied before a kernel is loaded


def read_texts(column: Any, decimal: str) -> tuple[NDArray[Any], Seen]:
    """The numbers of an Arrow column of text, and its other cells: plain numbers are read at once, others singly.

    See :func:`unrelu.tables.cells.read_distinct`.
    """
    text = compute.ascii_trim_whitespace(column.cast(pa.string()))
    plain = compute.fill_null(compute.match_substring_regex(text, f"^{plain_number(decimal)}$"), False)
    numbers = compute.if_else(plain, text, None)
    if decimal == ",":
        numbers = compute.replace_substring(numbers, ",", ".")
    values = np.array(numbers.cast(pa.float64()).to_numpy(zero_copy_only=False))
    there = values[~np.isnan(values)]
    seen = Seen(smallest=float(there.min()), largest=float(there.max())) if len(there) else Seen()
    not_plain = compute.and_(compute.is_valid(text), compute.invert(plain))
    if compute.any(not_plain).as_py():
        coded = text.filter(not_plain).dictionary_encode()
        texts = [decoded(each.as_py()) for each in coded.dictionary.cast(pa.binary())]
        read, others = read_distinct(texts, np.asarray(coded.indices), decimal)
        values = values.astype(read.dtype)
        values[np.flatnonzero(not_plain)] = read
        seen = seen.merge(others)
    return values, seen


def seen_in(columns: Iterable[tuple[int, Any]], decimal: str) -> dict[int, Seen]:
    """The cells of Arrow's columns that are no plain numbers, by column. Raises UnreadableCell."""
    seen: dict[int, Seen] = {}
    for position, column in columns:
        seen[position] = seen.get(position, Seen()).merge(read_texts(column, decimal)[1])
    return seen


def number_rows(
    wanted: Sequence[int], columns: Sequence[Any], texts: Collection[int], decimal: str, dtype: Any = np.float64
) -> NDArray[Any]:
    """Arrow's columns as rows of numbers, NaN for null; those among ``texts`` are read as text."""
    numbers = [
        read_texts(column, decimal)[0] if position in texts else _numbers(column)
        for position, column in zip(wanted, columns, strict=True)
    ]
    marked = [column.dtype for column in numbers if np.iscomplexobj(column)]
    table = np.empty((len(columns[0]) if columns else 0, len(columns)), np.result_type(dtype, *marked))
    item = table.dtype.itemsize
    plain = all(each.dtype == table.dtype and each.strides == (item,) for each in numbers)
    if plain and table.dtype.kind == "f" and table.size > _FEW_CELLS:
        from unrelu.kernels.columns import copy_columns

        copy_columns(np.array([each.__array_interface__["data"][0] for each in numbers], np.uintp), table)
        return table
    for first in range(0, len(table), _IN_CACHE):  # a few rows at a time: the rows written to stay in cache
        rows = slice(first, first + _IN_CACHE)
        for position, column in enumerate(numbers):
            table[rows, position] = column[rows]
    return table


def _numbers(column: Any) -> NDArray[Any]:
    number = column if types.is_floating(column.type) else column.cast(pa.float64(), safe=False)
    return np.asarray(number.to_numpy(zero_copy_only=False))


class _StoredColumns(TableFile):
    """A file with a schema, which has names and types before any row is read."""

    kind: str
    n_rows: int
    column_names: tuple[str, ...]
    _pieces_read: tuple[int, ...] | None = None  # of those that the file is stored in: row groups, record batches

    def __init__(self, path: str, reading: Reading) -> None:
        super().__init__(path)
        self._decimal = reading.decimal or "."
        with damage_reported(self.name, self.kind):
            schema, self.n_rows = self._open_schema()
            # A frame's index is stored as a column, but numbers the rows: it is no measurement.
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            fields = [each for each in enumerate(schema) if each[1].name not in index]
        self._places, self._types = [place for place, _ in fields], [field.type for _, field in fields]
        self.column_names = tuple(field.name for _, field in fields)
        self.n_columns, self.is_empty = len(fields), self.n_rows < 1

    def _open_schema(self) -> tuple[Any, int]:
        raise NotImplementedError

    def _batches(self, wanted: Sequence[int], rows: int) -> Iterator[Any]:
        """Batches of so many rows at most that have the wanted columns, in any order."""
        raise NotImplementedError

    def _stored_rows(self) -> list[int]:
        """The numbers of rows of the pieces that can be read on their own; none where there is no such piece."""
        raise NotImplementedError

    def _columns(self, wanted: Sequence[int], rows: int = _ROWS) -> Iterator[list[Any]]:
        """The wanted columns in their order, so many rows at a time at most."""
        names = [self.column_names[position] for position in wanted]
        with damage_reported(self.name, self.kind):
            for batch in self._batches(wanted, rows):
                columns = batch.select(names).columns
                for first in range(0, len(batch), rows):
                    yield [column.slice(first, rows) for column in columns]

    def check(self, wanted: Sequence[int], thorough: bool = False) -> np.dtype[Any]:  # noqa: ARG002 - it always is
        others = {position: _other_kind(self._types[position]) for position in wanted}
        held = {position: (kind, "") for position, kind in others.items() if kind not in (None, "text")}
        texts = [position for position, kind in others.items() if kind == "text"]
        new = [position for position in texts if position not in self.seen]
        faults = Faults(self.column_names, self._decimal)
        try:
            seen = seen_in(((at, column) for at in new for (column,) in self._columns([at])), self._decimal)
            self.seen |= {position: seen.get(position, Seen()) for position in new}
        except UnreadableCell:
            for position in texts:
                cells = chain.from_iterable(_cells(column) for (column,) in self._columns([position]))
                for row, cell in enumerate(cells, start=1):
                    faults.add(row_and_line(row, None), position, cell)
        if held or faults:
            raise InputFileError(f"{self.name}: {faults.describe(held, self.n_columns)}")
        single = all(types.is_float32(self._types[at]) or types.is_float16(self._types[at]) for at in wanted)
        return np.dtype(np.float32 if single else np.float64)

    def pieces(self, wanted: Sequence[int], rows: int, texts: Sequence[int] = ()) -> Iterator[Piece]:
        dtype, n = self.check(wanted), len(wanted)
        with damage_reported(self.name, self.kind):
            for columns in self._columns([*wanted, *texts], rows):
                numbers = number_rows(wanted, columns[:n], self.seen, self._decimal, dtype)
                yield numbers, [_cells(column) for column in columns[n:]]

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
        names = [self.column_names[position] for position in dict.fromkeys(wanted)]
        with self._opened() as opened:
            every = range(opened.metadata.num_row_groups) if self._pieces_read is None else self._pieces_read
            for group in every:
                with damage_reported(f"{self.name}, row group {group}", self.kind):
                    left = opened.metadata.row_group(group).num_rows
                    for batch in opened.iter_batches(batch_size=rows, columns=names, row_groups=[group]):
                        left -= batch.num_rows
                        yield batch
                    if left:  # pyarrow may read a damaged page as the end
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
        """No piece of a stream: the start of a batch follows from those before it."""
        with self._opened([0]) as (reader, batches):
            return [batch.num_rows for batch in batches] if isinstance(reader, pa.ipc.RecordBatchFileReader) else []

    def _open_schema(self) -> tuple[Any, int]:
        with self._opened([]) as (reader, _):
            schema = reader.schema
        with self._opened([0]) as (_, batches):  # one column is enough to count rows
            return schema, sum(batch.num_rows for batch in batches)

    def _batches(self, wanted: Sequence[int], rows: int) -> Iterator[Any]:  # noqa: ARG002 - they are as stored
        with self._opened(sorted({self._places[position] for position in wanted})) as (_, batches):
            for batch in batches:
                batch.validate()
                yield batch


def _other_kind(kind: Any) -> str | None:
    """The content of a column of an Arrow type, in words; None for numbers. Empty columns have the type null."""
    numbers = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    if any(test(kind) for test in numbers):
        return None
    if "string" in str(kind):  # also large strings, string views and dictionaries of strings
        return "text"
    return "dates or times" if types.is_temporal(kind) else f"values of type {kind}"


def _cells(column: Any) -> list[str]:
    return ["" if cell is None else cell for cell in column.cast(pa.string()).to_pylist()]
