"""npy files, read through a memory map, and npz archives, read as a stream where possible."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tokenize import TokenError
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from unrelu.errors import InputFileError
from unrelu.passes.rows import as_floats, float_type, holds_numbers
from unrelu.tables.table_file import SHARE_CELLS, TableFile, WithoutLines, damage_reported, refuse_no_rows

TABLE_KEY, NAMES_KEY = "X", "feature_names"


@dataclass(frozen=True)
class Layout:
    """What the head of an npy file says, and where its numbers start."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @classmethod
    def read(cls, stream: IO[bytes]) -> Layout:
        version = npy.read_magic(stream)
        if version not in _HEAD_READERS:
            raise ValueError(f"npy version {version}")
        try:
            shape, fortran, dtype = _HEAD_READERS[version](stream)
        except (TypeError, LookupError, TokenError) as error:  # NumPy parses the head as Python text
            raise ValueError("its head cannot be parsed") from error
        return cls(shape, fortran, dtype, stream.tell())

    @property
    def row_bytes(self) -> int:
        return self.shape[1] * self.dtype.itemsize

    def checked(self, name: str) -> Layout:
        """Itself, if it is a table of numbers."""
        if len(self.shape) != 2:
            advice = " Reshape a single column with X.reshape(-1, 1)." if len(self.shape) == 1 else ""
            raise InputFileError(f"{name}: the array has shape {self.shape}, but rows and columns are needed.{advice}")
        if not holds_numbers(self.dtype):
            held = "Python objects" if self.dtype.hasobject else f"values of type {self.dtype}"
            raise InputFileError(f"{name}: the array holds {held}, not numbers. Save it as floats.")
        refuse_no_rows(name, self.shape[0])
        return self


_HEAD_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class _NumpyTable(WithoutLines):
    """What the two kinds share."""

    _layout: Layout

    def check(self, wanted: Sequence[int]) -> np.dtype[Any]:  # noqa: ARG002 - one type for all columns
        return float_type(self._layout.dtype)

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
        raise NotImplementedError

    def texts(self, position: int) -> Iterator[list[str]]:
        for piece in self.pieces([position], 2**16):
            whole = self._layout.dtype.kind in "iub"
            yield [str(int(value) if whole else value) for value in piece[:, 0].tolist()]


class NpyTable(_NumpyTable):
    """One array in a file: its columns have no names."""

    column_names = None
    _first = 0

    def __init__(self, path: str) -> None:
        self.name = path
        self.n_bytes = os.path.getsize(path)
        self._path = path
        with damage_reported(path, "npy"), open(path, "rb") as stream:
            self._layout = Layout.read(stream).checked(path)
            self._refuse_cut_short()
        self.n_rows, self.n_columns = self._layout.shape

    def _refuse_cut_short(self) -> None:
        expected = self._layout.offset + self._layout.shape[0] * self._layout.row_bytes
        if self.n_bytes < expected:
            raise ValueError(f"{self.n_bytes} of {expected} bytes")

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
        layout = self._layout
        with damage_reported(self.name, "npy"):
            order: Literal["F", "C"] = "F" if layout.fortran else "C"
            mapped = np.memmap(self._path, layout.dtype, "r", layout.offset, layout.shape, order)
        yield from _pieces_of(np.asarray(mapped)[self._first : self._first + self.n_rows], wanted, rows)

    def shares(self) -> list[TableFile]:
        size = max(SHARE_CELLS // self.n_columns, 1)
        return [
            self._elsewhere(_first=first, n_rows=min(size, self.n_rows - first))
            for first in range(0, self.n_rows, size)
        ]


class NpzTable(_NumpyTable):
    """An archive with one table, or with the table under the key ``X``; names under ``feature_names``."""

    def __init__(self, path: str) -> None:
        self.name = path
        self.n_bytes = os.path.getsize(path)
        self._path = path
        with damage_reported(path, "npz"), zipfile.ZipFile(path) as archive:
            self._member, self._layout = self._find_table(archive)
            self.n_rows, self.n_columns = self._layout.shape
            self.column_names = self._read_names(archive)

    def _find_table(self, archive: zipfile.ZipFile) -> tuple[str, Layout]:
        layouts: dict[str, Layout] = {}
        for member in archive.namelist():
            if member.endswith(".npy") and member != f"{NAMES_KEY}.npy":
                with archive.open(member) as stream:
                    layouts[member] = Layout.read(stream)
        if not layouts:
            raise InputFileError(f"{self.name}: holds no array.")
        tables = [member for member, layout in layouts.items() if len(layout.shape) == 2]
        if f"{TABLE_KEY}.npy" in layouts:
            tables = [f"{TABLE_KEY}.npy"]
        elif (header := layouts.get("header.npy")) and len(header.shape) == 1 and header.dtype == np.uint8:
            raise InputFileError(
                f"{self.name}: is no table but a model, or another file of unrelu's own: see `unrelu info`."
            )
        elif len(tables) > 1:
            keys = ", ".join(member.removesuffix(".npy") for member in tables)
            raise InputFileError(f"{self.name}: holds several tables ({keys}). Save the one to read as X.")
        member = tables[0] if tables else next(iter(layouts))
        return member, layouts[member].checked(self.name)

    def _read_names(self, archive: zipfile.ZipFile) -> tuple[str, ...] | None:
        if f"{NAMES_KEY}.npy" not in archive.namelist():
            return None
        with archive.open(f"{NAMES_KEY}.npy") as stream:
            names = npy.read_array(stream, allow_pickle=False)
        if names.dtype.kind != "U" or names.shape != (self.n_columns,):
            raise InputFileError(f"{self.name}: feature_names is not one text per column of the table.")
        return tuple(names.tolist())

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
        with (
            damage_reported(self.name, "npz"),
            zipfile.ZipFile(self._path) as archive,
            archive.open(self._member) as stream,
        ):
            if self._layout.fortran:  # columns one after the other: no row is whole before the end
                yield from _pieces_of(npy.read_array(stream, allow_pickle=False), wanted, rows)
                return
            stream.read(self._layout.offset)
            for first in range(0, self.n_rows, rows):
                table = self._next_rows(stream, min(rows, self.n_rows - first))
                yield from _pieces_of(table, wanted, rows)

    def _next_rows(self, stream: IO[bytes], rows: int) -> NDArray[Any]:
        raw = stream.read(rows * self._layout.row_bytes)
        if len(raw) < rows * self._layout.row_bytes:
            raise EOFError("rows are missing at the end")
        return np.frombuffer(raw, self._layout.dtype).reshape(rows, self.n_columns)


def holds_sparse_table(path: str) -> bool:
    """Whether an archive was written by scipy.sparse.save_npz; False for what is no archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile):
        return False
    return {"format.npy", "shape.npy", "data.npy"} <= members and f"{TABLE_KEY}.npy" not in members


def _pieces_of(table: NDArray[Any], wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:
    whole = list(wanted) == list(range(table.shape[1]))
    for first in range(0, len(table), rows):
        piece = table[first : first + rows]
        yield as_floats(piece if whole else piece[:, wanted])
