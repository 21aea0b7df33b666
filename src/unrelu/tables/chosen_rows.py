"""Tables with fewer rows than their file, those that meet a condition, or more columns: keys in folders' names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InputFileError, InvalidDataError
from unrelu.tables.cells import PLAIN_MISSING
from unrelu.tables.conditions import Condition
from unrelu.tables.table_file import TableFile
from unrelu.tables.text_columns import Seen
from unrelu.validation import suggestion

_ROWS = 2**16
_KEY = re.compile(r"([^=]+)=(.*)")
_NO_KEY = "__HIVE_DEFAULT_PARTITION__"


def keys_of(path: str) -> dict[str, str]:
    """What the folders of a partitioned data set say of a file; an empty text is missing.

    >>> keys_of("data/site=A/year=2024/0.parquet")
    {'site': 'A', 'year': '2024'}
    """
    found = [_KEY.fullmatch(part) for part in os.path.dirname(path).split(os.sep)]
    keys = {match[1]: unquote(match[2]) for match in found if match}
    return {key: "" if value == _NO_KEY else value for key, value in keys.items()}


def chosen_tables(tables: Sequence[TableFile], where: str | None) -> list[TableFile]:
    """The tables with the keys of their folders as columns; with ``where`` only rows that meet it."""
    keyed = [_with_keys(table) for table in tables]
    if where is None:
        return keyed
    condition = Condition(where)
    some: list[TableFile] = [FilteredTable(table, condition) for table in keyed if _may_hold(table, condition)]
    if not some:
        raise no_row(where)
    return some


def no_row(where: str) -> InvalidDataError:
    """The error where a condition leaves nothing."""
    return InvalidDataError(f"No row meets where={where!r}: say it in another way, or leave it out.")


def _with_keys(table: TableFile) -> TableFile:
    keys = {key: text for key, text in keys_of(table.name).items() if key not in (table.column_names or ())}
    return KeyedTable(table, keys) if keys and table.column_names is not None else table


def _may_hold(table: TableFile, condition: Condition) -> bool:
    """False where the keys alone say that no row of a file meets a condition: it is not read then."""
    known = table.keys if isinstance(table, KeyedTable) else {}
    cells = {(name, text): _as_cells([known.get(name, "")], text) for name, text in condition.columns}
    return bool(condition.holds(cells).to_pylist() != [False])


class _OfTable:
    """What another table says of itself."""

    labels: frozenset[str] = frozenset()

    def __init__(self, table: TableFile) -> None:
        self._table, self.name, self.n_bytes = table, table.name, table.n_bytes
        self.column_names, self.n_columns = table.column_names, table.n_columns
        self.n_rows: int | None = table.n_rows
        self.labels = getattr(table, "labels", frozenset())

    def check(self, wanted: Sequence[int]) -> np.dtype[Any]:
        return self._table.check(wanted)

    def seen(self) -> dict[int, Seen]:
        return self._table.seen()

    def shares(self) -> list[TableFile]:
        return [self._over(share) for share in self._table.shares()]

    def _over(self, table: TableFile) -> Any:
        other = copy(self)
        other._table, other.n_rows = table, table.n_rows
        return other


class KeyedTable(_OfTable):
    """A table with columns that are the same in all rows. They are no features unless they are asked for."""

    def __init__(self, table: TableFile, keys: Mapping[str, str]) -> None:
        super().__init__(table)
        self.keys, self._own = dict(keys), table.n_columns
        self.column_names = (*(table.column_names or ()), *keys)
        self.n_columns, self.labels = self._own + len(keys), frozenset(keys)

    def check(self, wanted: Sequence[int]) -> np.dtype[Any]:
        for position in (at for at in wanted if at >= self._own):
            self._number(position)
        own = [at for at in wanted if at < self._own]
        return self._table.check(own) if own else np.dtype(np.float64)

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
        own = [at for at in wanted if at < self._own]
        held = {at: self._number(at) for at in wanted if at >= self._own}
        sizes: Iterator[Any] = self._table.pieces(own, rows) if own else self._table.texts(0)
        for piece in sizes:
            columns = [np.full(len(piece), held[at]) if at in held else piece[:, own.index(at)] for at in wanted]
            yield np.column_stack(columns) if held else piece

    def texts(self, position: int) -> Iterator[list[str]]:
        if position < self._own:
            yield from self._table.texts(position)
            return
        for piece in self._table.texts(0):
            yield [self._text(position)] * len(piece)

    def read_through(self, wanted: Sequence[int]) -> TableFile:
        return self._over(self._table.read_through([at for at in wanted if at < self._own]))  # type: ignore[no-any-return]

    def line_of(self, row: int) -> tuple[int | None, int]:
        return self._table.line_of(row)

    def _text(self, position: int) -> str:
        return list(self.keys.values())[position - self._own]

    def _number(self, position: int) -> float:
        text = self._text(position)
        try:
            return float(text) if text else np.nan
        except ValueError as error:
            name = (self.column_names or ())[position]
            raise InputFileError(
                f"{self.name}: column {name!r}, of the folders' names, holds the text {text!r}, not numbers. Keep it as"
                f" text with id={name!r}."
            ) from error


class FilteredTable(_OfTable):
    """The rows of a table that meet a condition; how many there are only a full read can tell."""

    def __init__(self, table: TableFile, condition: Condition) -> None:
        super().__init__(table)
        names = table.column_names or tuple(map(str, range(table.n_columns)))
        self._condition, self._places, self.n_rows = condition, {name: at for at, name in enumerate(names)}, None
        for name, _ in sorted(condition.columns):
            if name not in self._places:
                said = suggestion(name, names, "Its columns are", most=8)
                raise InputFileError(f"{self.name}: no column {name!r}, which where= asks for. {said}")

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
        for piece, mask in together(self._table.pieces(wanted, rows), self._masks()):
            if mask.any():
                yield piece if mask.all() else piece[mask]

    def texts(self, position: int) -> Iterator[list[str]]:
        for piece, mask in together(self._table.texts(position), self._masks()):
            yield [text for text, kept in zip(piece, mask.tolist(), strict=True) if kept]

    def read_through(self, wanted: Sequence[int]) -> TableFile:
        other: FilteredTable = self._over(self._table.read_through(wanted))
        other.n_rows = sum(int(mask.sum()) for mask in other._masks())
        return other

    def line_of(self, row: int) -> tuple[int | None, int]:
        kept = before = 0
        for mask in self._masks():
            found = int(mask.sum())
            if kept + found > row:
                return self._table.line_of(before + int(np.flatnonzero(mask)[row - kept]))
            kept, before = kept + found, before + len(mask)
        return None, kept

    def _over(self, table: TableFile) -> Any:
        other = super()._over(table)
        other.n_rows = None
        return other

    def _masks(self) -> Iterator[NDArray[np.bool_]]:
        """Whether rows meet the condition, some at a time."""
        columns = sorted(self._condition.columns)
        for cells in together(*(self._cells(self._places[name], text) for name, text in columns)):
            arrays = [_as_cells(each, text) for each, (_, text) in zip(cells, columns, strict=True)]
            held = self._condition.holds(dict(zip(columns, arrays, strict=True)))
            yield np.asarray(held.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)

    def _cells(self, position: int, text: bool) -> Iterator[Any]:
        if text:
            yield from self._table.texts(position)
            return
        self._table.check([position])
        for piece in self._table.pieces([position], _ROWS):
            yield piece[:, 0].real


def _as_cells(cells: Any, text: bool) -> Any:
    """An Arrow array, null where a cell is missing."""
    import pyarrow as pa

    if text:
        stripped = (cell.strip() for cell in cells)
        return pa.array([None if cell in PLAIN_MISSING else cell for cell in stripped], pa.string())
    if isinstance(cells, list):
        cells = np.array([_number_or_nan(cell) for cell in cells])
    return pa.array(np.asarray(cells, dtype=np.float64), from_pandas=True)


def _number_or_nan(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def together(*streams: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
    """Sequences of the same rows, in pieces of any size each, in equal pieces.

    >>> list(together(iter([[1, 2, 3]]), iter(["a", "bc"])))
    [([1], 'a'), ([2, 3], 'bc')]
    """
    held: list[Any] = [() for _ in streams]
    while True:
        for k, stream in enumerate(streams):
            while len(held[k]) == 0:
                piece = next(stream, None)
                if piece is None:
                    return
                held[k] = piece
        rows = min(map(len, held))
        yield tuple(each[:rows] for each in held)
        held = [each[rows:] for each in held]
