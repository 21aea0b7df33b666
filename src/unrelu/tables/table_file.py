"""One table file: what every kind provides, and the messages about damage, columns and bad cells."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InputFileError, MissingDependencyError
from unrelu.tables.cells import Seen, column_phrase, plain_float, read_cell
from unrelu.tables.vocabulary import interval_cell
from unrelu.validation import counted, listed, suggestion

PathLike = str | os.PathLike[str]
SHARE_CELLS = 2**22  # of a file that others read at a time
Piece = tuple[NDArray[Any], list[list[str]]]
"""Neighbouring rows: a table of numbers, and columns of text."""


class TableFile:
    """A table on disk: opened cheaply, read in pieces, any number of times."""

    column_names: tuple[str, ...] | None = None
    n_columns: int
    n_rows: int | None = None  # None where it takes a full read
    is_empty = False  # columns without rows, which do no harm in one of several files
    labels: frozenset[str] = frozenset()
    """Columns of labels, such as the keys of folders: no features unless columns= names them."""
    notes: tuple[str, ...] = ()
    """How a laboratory's table was understood, in at most three lines."""
    suspicious = ""
    """What is suspicious in it."""

    def __init__(self, path: str, name: str | None = None) -> None:
        self._path, self.name = path, name or path
        self.n_bytes = os.path.getsize(path)
        self.seen: dict[int, Seen] = {}
        """Columns of text among those that were checked or read, and their cells that are not plain numbers."""

    def check(self, wanted: Sequence[int], thorough: bool = False) -> np.dtype[Any]:
        """Refuse columns that are not numbers; return the float type that holds the others.

        ``thorough``: read all of a file for cells of text.
        """
        raise NotImplementedError

    def pieces(self, wanted: Sequence[int], rows: int, texts: Sequence[int] = ()) -> Iterator[Piece]:
        """All rows in order, about so many at a time: the ``wanted`` columns as numbers, ``texts`` as text."""
        raise NotImplementedError

    def shares(self) -> list[TableFile]:
        """Tables of neighbouring rows that together are this one, for workers to read; none where they cannot."""
        return [self._elsewhere()]

    def _elsewhere(self, **other: Any) -> Any:
        """The same file for a process in another folder, or a share of it that differs in some attributes."""
        table = copy(self)
        table.__dict__.update(_path=os.path.abspath(self._path), **other)
        return table

    def read_through(self, wanted: Sequence[int]) -> TableFile:  # noqa: ARG002 - most have counted their rows
        """The same table, with its number of rows and its cells that are no plain numbers, after a full read."""
        return self

    def raw(self, limit: int = -1) -> bytes | None:  # noqa: ARG002 - only text has some
        """The first so many bytes of a text, all of them by default; None of what is no text."""
        return None

    def line_of(self, row: int) -> tuple[int | None, int]:  # noqa: ARG002 - only text has lines
        """The line (from 1) of a row (from 0), or None; and, where the file has no such row, how many it has."""
        return None, self.n_rows or 0


def require_pyarrow(path: str) -> None:
    """Raise MissingDependencyError where pyarrow is not installed, which reads and writes all but NumPy's files."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f'{path}: table files other than npy and npz need pyarrow: pip install "unrelu[files]".'
        ) from error


# --- damage -----------------------------------------------------------------------------------------


# What NumPy, zipfile and pyarrow raise on a file that is not what its name says.
DAMAGE = (OSError, EOFError, ValueError, RuntimeError, zlib.error, zipfile.BadZipFile)


@contextmanager
def damage_reported(name: str, kind: str) -> Iterator[None]:
    """Turn any error of a reader on a damaged file into one clear line."""
    try:
        yield
    except InputFileError:
        raise
    except PermissionError as error:
        raise InputFileError(f"{name}: no permission to read it.") from error
    except FileNotFoundError as error:
        raise InputFileError(f"{name}: no such file, or not any more.") from error
    except MemoryError as error:  # a damaged file may well claim to hold a billion columns
        raise InputFileError(f"{name}: damaged, or too large for memory ({first_line(error)}).") from error
    except DAMAGE as error:
        reason = first_line(error)
        raise InputFileError(
            f"{name}: not a whole {kind} file, it is damaged, cut short, or of another kind ({reason})."
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of what ``error`` says, at most 160 characters."""
    lines = str(error).splitlines() or [type(error).__name__]
    return " ".join(lines[0].split())[:160].rstrip(". ")


def extension_of(path: str, extensions: Iterable[str]) -> str | None:
    """The longest of the extensions that a name has."""
    return max((each for each in extensions if path.lower().endswith(each)), key=len, default=None)


def unknown_kind(path: str, extensions: Iterable[str], kind: str = "file") -> str:
    """The message for a name with none of the extensions.

    >>> unknown_kind("lakes.cvs", [".csv", ".npy"])
    "unknown kind of file. Did you mean '.csv'? Known are .csv, .npy."
    """
    return f"unknown kind of {kind}. {suggestion(os.path.splitext(path)[1], extensions, 'Known are')}"


# --- cells that are no numbers ------------------------------------------------------------------------


Held = tuple[str, str]
"""The content of a column that is no numbers, and a cell that shows it (or nothing)."""
Remedy = Callable[[list[int]], str]
"""The line that leaves columns out of a table in memory."""


def row_and_line(row: int, line: int | None) -> str:
    """A row in messages about files: rows are counted from 1, below the header; lines include it."""
    return f"row {row:,}" if line is None else f"row {row:,} (line {line:,})"


def without(names: Sequence[str] | None, positions: Iterable[int], parameter: str = "drop") -> str:
    """The parameter of open_samples that leaves columns out (or another one that names columns)."""
    keys: list[Any] = [position if names is None else names[position] for position in positions]
    return f"{parameter}={(keys[0] if len(keys) == 1 else keys)!r}"


def _is_interval(text: str) -> bool:
    """Does a cell name two ends, between which its value is?"""

    def number(digits: str) -> float | None:
        return plain_float(digits.replace(",", "."))

    return any(interval_cell(text, number, dashed) is not None for dashed in (False, True))


class Faults:
    """Cells that are no numbers: those in columns of text, and single bad cells among numbers.

    ``emptied``: the remedy for a cell without a value.
    """

    def __init__(self, names: Sequence[str] | None, decimal: str = ".", emptied: str = "empty {}") -> None:
        self._names, self._emptied = names, emptied
        self._decimal, self._other = decimal, "." if decimal == "," else ","
        self._numbers: Counter[int] = Counter()
        self._bad: Counter[int] = Counter()  # but for those with the other decimal mark
        self._first: dict[int, tuple[str, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._first)

    def add(self, where: str, position: int, text: str) -> None:
        """Count a cell."""
        cell = read_cell(text, self._decimal)
        if cell is not None and cell[0] == "between":
            self.add_numbers(position, 1)  # as many as bad cells: a column of them is no text
            self.add_bad(where, position, text)
        elif cell is None:
            self.add_bad(where, position, text, int(read_cell(text, self._other) is None))
        else:
            self.add_numbers(position, int(cell[0] != "missing"))

    def add_numbers(self, position: int, count: int) -> None:
        """Count cells that are numbers."""
        self._numbers[position] += count

    def add_bad(self, where: str, position: int, text: str, count: int = 1) -> None:
        """Count a cell that is no number."""
        self._bad[position] += count
        self._first.setdefault(position, (where, text if len(text) <= 60 else text[:57] + "..."))

    def texts(self) -> dict[int, Held]:
        """The columns that hold text rather than numbers."""
        columns = [position for position in sorted(self._first) if self._bad[position] > self._numbers[position]]
        return {each: ("text", "{}: {!r}".format(*self._first[each])) for each in columns}

    def with_first_cell(self, of_columns: str = "") -> str | None:
        """A message about columns, and the first bad cell of others; where columns have no names it may be a name."""
        texts = self.texts()
        cells = {position: first for position, first in self._first.items() if position not in texts}
        if not cells:
            return of_columns or None
        position, (where, text) = next(iter(cells.items()))
        place = f"{where}, {column_phrase(self._names, position)}: {text!r}"
        place = f"{of_columns} {place[0].upper()}{place[1:]}" if of_columns else place
        if _is_interval(text):
            return (
                f"{place} says that a value is between two numbers, which no estimator can use yet. Write the upper one"
                " as '<0.5' or the lower one as '>0.1', or empty the cell."
            )
        if read_cell(text, self._other) is not None:
            return (
                f"{place} is not a number with the decimal mark {self._decimal!r}. If it is {self._other!r}, give"
                f" decimal={self._other!r}."
            )
        more = sum(self._bad[each] for each in cells) - 1
        among = f"columns {listed((self._called(each) for each in sorted(cells)), most=8)}"
        verb, those = ("is" if more == 1 else "are"), ("it" if len(cells) == 1 else among)
        others = f", nor {verb} {counted(more, 'more cell')} in {those}" if more else ""
        cell, them, whose = ("cells", "those", "whose") if more else ("cell", "it", "if its")
        remedy = f"orrect the {cell}, or {self._emptied.format(them)} {whose} value is missing."
        may_be_header = self._names is None and where.startswith("row 1 (")
        header = "If the first line names the columns, give header=True; if not, c" if may_be_header else "C"
        return f"{place} is not a number{others}. {header}{remedy}"

    def describe(self, held: Mapping[int, Held], n_columns: int, remedy: Remedy | None = None) -> str | None:
        """All columns that hold no numbers, with a remedy, and the first bad cell of the others; None without any.

        The remedy is by default the parameters of open_samples that leave columns out, or keep them as text.
        """
        held = dict(sorted({**held, **self.texts()}.items()))
        if not held:
            return self.with_first_cell()
        them = "it" if len(held) == 1 else "them"
        if len(held) == n_columns:
            advice = "No column of numbers is left: choose another table, or other columns."
        elif remedy is not None:
            advice = f"Leave {them} out: {remedy(list(held))}."
        else:
            as_text = not any("values" in kind for kind, _ in held.values())
            keep = f", or keep {them} as text with {without(self._names, held, 'id')}" if as_text else ""
            advice = f"Leave {them} out with {without(self._names, held)}{keep}."
        if len(held) == 1:
            ((position, (kind, shown)),) = held.items()
            example = f" ({shown})" if shown else ""
            columns = f"{column_phrase(self._names, position)} holds {kind}{example}, not numbers."
        else:
            each = [f"{self._called(j)} ({', '.join(filter(None, what))})" for j, what in held.items()]
            counted_from = " (the first is 0)" if self._names is None and "the first is 0" not in each[0] else ""
            columns = f"columns {listed(each, most=12)}{counted_from} hold no numbers."
        return self.with_first_cell(f"{columns} {advice}")

    def _called(self, position: int) -> str:
        return f"number {position}" if self._names is None else f"{self._names[position]!r}"
