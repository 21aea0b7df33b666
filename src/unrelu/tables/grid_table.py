"""Tables as laboratories deliver them among the others: files and frames that are made plain in memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InputFileError, InvalidDataError
from unrelu.tables.cells import Reading, UnreadableCell, read_distinct
from unrelu.tables.delivered import PlainTable, made_plain
from unrelu.tables.layout import HEAD_ROWS, Delivery, Grid, Refused, layout_of, may_speak, plain_layout
from unrelu.tables.raw_text import text_grid
from unrelu.tables.table_file import Faults, Piece, TableFile, first_line, row_and_line
from unrelu.validation import warn

_HEAD_BYTES = 2**17


class GridTable(TableFile):
    """A table of text in memory, as a file among others: one that was made plain."""

    def __init__(self, plain: PlainTable, name: str, n_bytes: int = 0) -> None:
        self.name, self.n_bytes, self.seen = name, n_bytes, {}
        self._plain, self._numbers = plain, dict[int, NDArray[Any]]()
        self.column_names = tuple(plain.names) if plain.named else None
        self.n_columns, self.n_rows = len(plain.names), len(plain.columns[0])
        self.is_empty = self.n_rows == 0
        self.labels, self.notes, self.suspicious = plain.labels, plain.notes, plain.suspicious

    def check(self, wanted: Sequence[int], thorough: bool = False) -> np.dtype[Any]:  # noqa: ARG002 - it always is
        faults = Faults(self.column_names)
        for position in (at for at in wanted if at not in self._numbers):
            texts = self._plain.columns[position]
            places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
            codes = np.array([places[text] for text in texts], np.intp)
            try:
                self._numbers[position], cells = read_distinct(list(places), codes, ".")
            except UnreadableCell:
                for row, text in enumerate(texts):
                    faults.add(row_and_line(row + 1, self.line_of(row)[0]), position, text)
                continue
            if cells:
                self.seen[position] = cells
        if faults:
            raise InputFileError(f"{self.name}: {faults.describe({}, self.n_columns)}")
        return np.dtype(np.float64)

    def pieces(self, wanted: Sequence[int], rows: int, texts: Sequence[int] = ()) -> Iterator[Piece]:
        self.check(wanted)
        rows = rows or max(self.n_rows or 0, 1)
        for first in range(0, self.n_rows or 0, rows):
            some = slice(first, first + rows)
            numbers = [self._numbers[position][some] for position in wanted]
            length = len(self._plain.columns[0][some])
            table = np.column_stack(numbers) if numbers else np.empty((length, 0))
            yield table, [self._plain.columns[position][some] for position in texts]

    def shares(self) -> list[TableFile]:
        return [self]

    def line_of(self, row: int) -> tuple[int | None, int]:
        lines = self._plain.lines
        return (None if lines is None or row >= len(lines) else lines[row]), self.n_rows or 0


def delivered(table: TableFile, reading: Reading) -> TableFile:
    """A table as it is to be read: itself where it is plain, or made plain. Raises InputFileError."""
    delivery = _delivery(reading)
    try:
        grid = _grid_of(table, reading, head=True)
        if grid is None or (layout_of(grid, delivery) is None and not delivery.labels):
            return table
        whole = _grid_of(table, reading)
        plain = None if whole is None else plain_table(whole, delivery)
        return table if plain is None else GridTable(plain, table.name, table.n_bytes)
    except Refused as refused:
        raise InputFileError(f"{table.name}: {refused}") from refused
    except csv.Error as error:
        reason = f"cannot be read as csv ({first_line(error)}). Is a quotation mark not closed?"
        raise InputFileError(f"{table.name}: {reason}") from error


def plain_table(grid: Grid, delivery: Delivery) -> PlainTable | None:
    """A table of text made plain; None where it is so, unless its columns of text are to be labels. Raises Refused."""
    layout = layout_of(grid, delivery)
    if layout is None and delivery.labels:
        layout = plain_layout(grid, delivery)
    return None if layout is None else made_plain(grid, layout, delivery)


def _delivery(reading: Reading) -> Delivery:
    own: Delivery = reading.delivery or Delivery()
    named = (*reading.columns, *reading.ids, *reading.drop)
    return replace(own, keep=frozenset(name for name in named if isinstance(name, str)))


def _grid_of(table: TableFile, reading: Reading, head: bool = False) -> Grid | None:
    """A file as a table of text, or its first rows; None where it can be no other than a plain one."""
    raw = table.raw(_HEAD_BYTES if head else -1)
    if raw is not None:
        name = table.name.lower()
        usual = "\t" if ".tsv" in name[-8:] else ","
        cut = head and len(raw) == _HEAD_BYTES
        return text_grid(raw, reading, usual, head=head, cut=cut, spaces=name.endswith(".txt"))
    names = table.column_names
    if names is None or not (_delivery(reading).labels or may_speak(names)):
        return None
    columns: list[list[str]] = [[] for _ in names]
    with suppress(*((InputFileError,) if head else ())):  # columns that have no text are another reader's to refuse
        for _, cells in table.pieces((), HEAD_ROWS if head else 2**16, range(len(names))):
            for column, more in zip(columns, cells, strict=True):
                column += more
            if head:
                break
    if not columns[0]:
        return None
    return Grid(list(names), columns, decimal=reading.decimal or ".")


def warn_of_habits(suspicious: Sequence[str]) -> None:
    """Warn of what is suspicious in tables that were made plain."""
    for line in filter(None, dict.fromkeys(suspicious)):
        warn(
            f"The table was read as laboratories deliver them, and something in it is suspicious: {line}.",
            "as-delivered",
        )


# --- frames -------------------------------------------------------------------------------------------


def frame_grid(frame: Any, decimal: str = ".") -> Grid:
    """A frame of pandas or polars as a table of text."""
    names = [str(name) for name in frame.columns]
    columns = [[_text(cell, decimal) for cell in frame[name].to_list()] for name in frame.columns]
    return Grid(names, columns, decimal=decimal)


def plain_frame(frame: Any, holds_text: bool, decimal: str = ".") -> Any:
    """A frame whose columns are all values: itself, or one made plain, of the same library, with decimal points.

    Raises InvalidDataError.
    """
    names = [str(name) for name in frame.columns]
    if not names or len(set(names)) < len(names) or not (holds_text or may_speak(names)):
        return frame
    delivery = Delivery()
    try:
        head = frame_grid(frame[:HEAD_ROWS], decimal)
        if layout_of(head, delivery) is None:
            return frame
        plain = plain_table(frame_grid(frame, decimal), delivery)
    except Refused as refused:
        said = str(refused)
        raise InvalidDataError(said[0].upper() + said[1:]) from refused
    if plain is None:
        return frame
    left_out = f"{', '.join(sorted(plain.labels))} left out, as no measurements" if plain.labels else ""
    warn_of_habits(["; ".join(filter(None, (left_out, plain.suspicious)))])
    own = dict(zip(names, frame.columns, strict=True))
    columns = {}
    for name, cells in zip(plain.names, plain.columns, strict=True):
        if name not in plain.labels:
            given = None if name in plain.changed else frame[own[name]].to_list()
            columns[name] = cells if given is None or any(isinstance(cell, str) for cell in given) else given
    return type(frame)(columns)


def _text(cell: Any, decimal: str) -> str:
    """A cell of a frame as text; an empty one is missing."""
    if isinstance(cell, str):
        return cell
    if cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell))
    if isinstance(cell, int | float | np.number):
        return repr(cell.item() if isinstance(cell, np.number) else cell).replace(".", decimal)
    return str(cell)
