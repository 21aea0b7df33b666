"""What one table file must answer, whatever its kind, and how its damage is reported."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InputFileError
from unrelu.tables.text_columns import Seen
from unrelu.validation import suggestion

PathLike = str | os.PathLike[str]
SHARE_CELLS = 2**22  # of a file that others read at a time


class TableFile(Protocol):
    """A table on disk: opened cheaply, read in pieces, as often as asked."""

    @property
    def name(self) -> str:
        """What messages call the file."""
        ...

    @property
    def column_names(self) -> tuple[str, ...] | None: ...

    @property
    def n_columns(self) -> int: ...

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or None where only a full read can tell."""
        ...

    @property
    def n_bytes(self) -> int: ...

    def check(self, wanted: Sequence[int]) -> np.dtype[Any]:
        """Refuse columns known not to be numbers; return the float type that holds the others."""
        ...

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
        """All rows in order, the wanted columns in the wanted order, in pieces of about ``rows`` rows."""
        ...

    def seen(self) -> dict[int, Seen]:
        """Cells of columns that were checked or read and are not plain numbers, by column."""
        ...

    def texts(self, position: int) -> Iterator[list[str]]:
        """A column as text, in pieces."""
        ...

    def shares(self) -> list[TableFile]:
        """Tables of neighbouring rows that together are this one, for others to read; none where they cannot."""
        ...

    def read_through(self, wanted: Sequence[int]) -> TableFile:
        """The same table, with its number of rows and all cells seen that are no plain numbers."""
        ...

    def line_of(self, row: int) -> tuple[int | None, int]:
        """The line (from 1) of a row (from 0), or None; and, where the file has no such row, how many it has."""
        ...


class Shared:
    """A file that other processes can open as well."""

    _path: str

    def shares(self) -> list[TableFile]:
        return [self._elsewhere()]

    def _elsewhere(self, **other: Any) -> Any:
        """The same file for a process in another folder, or a share of it that differs in some attributes."""
        table = copy(self)
        table.__dict__.update(_path=os.path.abspath(self._path), **other)
        return table


class WithoutLines(Shared):
    """What files that are no text have in common: rows are counted, cells are numbers."""

    n_rows: int

    def read_through(self, wanted: Sequence[int]) -> Any:  # noqa: ARG002 - rows are counted
        return self

    def seen(self) -> dict[int, Seen]:
        return {}

    def line_of(self, row: int) -> tuple[int | None, int]:  # noqa: ARG002 - there are no lines
        return None, self.n_rows


class NoRowsError(InputFileError):
    """A file has columns but no rows: as one of several it does no harm."""


# What NumPy, zipfile and pyarrow raise on a file that is not what its name says.
DAMAGE = (OSError, EOFError, ValueError, RuntimeError, zlib.error, zipfile.BadZipFile)


@contextmanager
def damage_reported(name: str, kind: str) -> Iterator[None]:
    """Turn whatever a reader raises on a damaged file into one clear line."""
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


def extension_of(path: str, known: Iterable[str]) -> str | None:
    """The longest of the known extensions that a name has.

    >>> extension_of("Lakes.CSV.gz", [".csv", ".csv.gz", ".gz"])
    '.csv.gz'
    """
    return max((extension for extension in known if path.lower().endswith(extension)), key=len, default=None)


def unknown_kind(path: str, known: Iterable[str], kind: str = "file") -> str:
    """What to say of a name with none of the known extensions.

    >>> unknown_kind("lakes.cvs", [".csv", ".npy"])
    "unknown kind of file. Did you mean '.csv'? Known are .csv, .npy."
    """
    return f"unknown kind of {kind}. {suggestion(os.path.splitext(path)[1], known, 'Known are')}"


def refuse_no_rows(name: str, n_rows: int) -> None:
    if n_rows < 1:
        raise NoRowsError(f"{name}: has columns but no rows. Add rows, or leave the file out.")
