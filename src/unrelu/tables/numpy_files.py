"""Tables of NumPy and SciPy: npy and npz files, read in pieces, and sparse matrices, in memory or from files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from tokenize import TokenError
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse
from numpy.lib import format as npy
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray, Samples
from unrelu.errors import InputFileError, InvalidDataError
from unrelu.passes.rows import (
    MOST_CELLS,
    SparseBlock,
    as_floats,
    float_type,
    holds_numbers,
    one_per_column,
    rows_per_block,
    runs,
)
from unrelu.tables.table_file import SHARE_CELLS, Piece, TableFile, damage_reported

TABLE_KEY, NAMES_KEY = "X", "feature_names"
_HEAD_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
Head = tuple[tuple[int, ...], bool, np.dtype[Any], int]
"""The head of an npy file: shape, whether columns are stored one after the other, type; its length."""


def _head(stream: IO[bytes]) -> Head:
    version = npy.read_magic(stream)
    if version not in _HEAD_READERS:
        raise ValueError(f"npy version {version}")
    try:
        shape, by_columns, dtype = _HEAD_READERS[version](stream)
    except (TypeError, LookupError, TokenError) as error:  # NumPy parses the head as Python text
        raise ValueError("its head cannot be parsed") from error
    return shape, by_columns, dtype, stream.tell()


class NpyTable(TableFile):
    """One array in a file, read through a memory map: its columns have no names."""

    n_rows: int
    kind = "npy"
    _first = 0

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with damage_reported(path, self.kind):
            shape, self._by_columns, self._dtype, self._offset = self._open()
            if len(shape) != 2:
                advice = " Reshape a single column with X.reshape(-1, 1)." if len(shape) == 1 else ""
                raise InputFileError(f"{path}: the array has shape {shape}, but rows and columns are needed.{advice}")
            if not holds_numbers(self._dtype):
                held = "Python objects" if self._dtype.hasobject else f"values of type {self._dtype}"
                raise InputFileError(f"{path}: the array holds {held}, not numbers. Save it as floats.")
            self._shape = self.n_rows, self.n_columns = shape
            self.is_empty = self.n_rows < 1
            self._complete()

    def _open(self) -> Head:
        with open(self._path, "rb") as stream:
            return _head(stream)

    def _complete(self) -> None:
        expected = self._offset + self.n_rows * self.n_columns * self._dtype.itemsize
        if self.n_bytes < expected:
            raise ValueError(f"{self.n_bytes} of {expected} bytes")

    def check(self, wanted: Sequence[int], thorough: bool = False) -> np.dtype[Any]:  # noqa: ARG002 - numbers only
        return float_type(self._dtype)

    def pieces(self, wanted: Sequence[int], rows: int, texts: Sequence[int] = ()) -> Iterator[Piece]:
        whole, as_whole = list(wanted) == list(range(self.n_columns)), self._dtype.kind in "iub"
        for table in self._tables(rows):
            words = [as_floats(table[:, position]).tolist() for position in texts]
            yield (
                as_floats(table if whole else table[:, wanted]),
                [[str(int(value) if as_whole else value) for value in column] for column in words],
            )

    def _tables(self, rows: int) -> Iterator[NDArray[Any]]:
        order: Literal["F", "C"] = "F" if self._by_columns else "C"
        with damage_reported(self.name, self.kind):
            mapped = np.memmap(self._path, self._dtype, "r", self._offset, self._shape, order)
        yield from _cut(np.asarray(mapped)[self._first : self._first + self.n_rows], rows)

    def shares(self) -> list[TableFile]:
        size = max(SHARE_CELLS // self.n_columns, 1)
        return [
            self._elsewhere(_first=first, n_rows=min(size, self.n_rows - first))
            for first in range(0, self.n_rows, size)
        ]


class NpzTable(NpyTable):
    """An archive with one table, or with the table under the key ``X``; names under ``feature_names``."""

    kind = "npz"

    def _open(self) -> Head:
        heads: dict[str, Head] = {}
        with zipfile.ZipFile(self._path) as archive:
            for member in archive.namelist():
                if member.endswith(".npy") and member != f"{NAMES_KEY}.npy":
                    with archive.open(member) as stream:
                        heads[member] = _head(stream)
        if not heads:
            raise InputFileError(f"{self.name}: holds no array.")
        tables = [member for member, (shape, *_) in heads.items() if len(shape) == 2]
        if f"{TABLE_KEY}.npy" in heads:
            tables = [f"{TABLE_KEY}.npy"]
        elif (header := heads.get("header.npy")) and len(header[0]) == 1 and header[2] == np.uint8:
            raise InputFileError(
                f"{self.name}: is no table but a model, or another file of unrelu's own: see `unrelu info`."
            )
        elif len(tables) > 1:
            keys = ", ".join(member.removesuffix(".npy") for member in tables)
            raise InputFileError(f"{self.name}: holds several tables ({keys}). Save the one to read as X.")
        self._member = tables[0] if tables else next(iter(heads))
        return heads[self._member]

    def _complete(self) -> None:
        with zipfile.ZipFile(self._path) as archive:
            if f"{NAMES_KEY}.npy" not in archive.namelist():
                return
            with archive.open(f"{NAMES_KEY}.npy") as stream:
                names = npy.read_array(stream, allow_pickle=False)
        if names.dtype.kind != "U" or names.shape != (self.n_columns,):
            raise InputFileError(f"{self.name}: feature_names is not one text per column of the table.")
        self.column_names = tuple(names.tolist())

    def _tables(self, rows: int) -> Iterator[NDArray[Any]]:
        with (
            damage_reported(self.name, self.kind),
            zipfile.ZipFile(self._path) as archive,
            archive.open(self._member) as stream,
        ):
            if self._by_columns:  # no row is whole before the end
                yield from _cut(npy.read_array(stream, allow_pickle=False), rows)
                return
            stream.read(self._offset)
            row_bytes = self.n_columns * self._dtype.itemsize
            for first in range(0, self.n_rows, rows):
                n = min(rows, self.n_rows - first)
                raw = stream.read(n * row_bytes)
                if len(raw) < n * row_bytes:
                    raise EOFError("rows are missing at the end")
                yield np.frombuffer(raw, self._dtype).reshape(n, self.n_columns)

    def shares(self) -> list[TableFile]:
        return [self._elsewhere()]


def _cut(table: NDArray[Any], rows: int) -> Iterator[NDArray[Any]]:
    return (table[first : first + rows] for first in range(0, len(table), rows))


# --- sparse matrices --------------------------------------------------------------------------------


class SparseSamples(Samples):
    """The rows of a scipy sparse matrix; ``matrix`` of the samples, or of a block, is sparse.

    >>> import scipy.sparse
    >>> samples = SparseSamples(scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]), ["a", "b"])
    >>> samples.n_rows, samples.feature_names, next(samples.blocks()).values.tolist()
    (2, ('a', 'b'), [[0.0, 2.0], [1.0, 0.0]])
    """

    in_memory = True

    def __init__(
        self, matrix: Any, feature_names: Sequence[str] | None = None, weights: FloatArray | None = None
    ) -> None:
        is_sparse: bool = scipy.sparse.issparse(matrix)
        if not is_sparse or len(matrix.shape) != 2:
            raise InvalidDataError(f"Expected rows and columns of a scipy sparse matrix, got {type(matrix).__name__}.")
        self.matrix = matrix.tocsr()
        if not self.matrix.has_canonical_format:  # several numbers for one cell
            self.matrix = self.matrix.copy()
            self.matrix.sum_duplicates()
        self._weights = weights
        self.n_features = int(matrix.shape[1])
        self.feature_names = one_per_column(feature_names, self.n_features)

    @property
    def n_rows(self) -> int:
        return int(self.matrix.shape[0])

    def weighted(self, weights: FloatArray) -> SparseSamples:
        """The same rows with a weight each."""
        return SparseSamples(self.matrix, self.feature_names, weights)

    def blocks(self) -> Iterator[Block]:
        size = max(rows_per_block(self.n_rows, self.n_features), MOST_CELLS // self.n_features)
        for rows, weights in runs(self.n_rows, size, self._weights):
            yield SparseBlock(matrix=self.matrix[rows], first_row=rows.start, weights=weights)


def sparse_matrix(path: str) -> Any:
    """The matrix in a file of scipy.sparse.save_npz, read whole."""
    try:
        given: Any = scipy.sparse.load_npz(path)
        matrix: Any = scipy.sparse.csr_array(given)
    except MemoryError:
        raise
    except Exception as error:  # the zip and array readers meet foreign bytes with a dozen exception types
        raise InputFileError(f"{path}: is not a whole file of scipy.sparse.save_npz. Save it again.") from error
    if not holds_numbers(matrix.dtype):
        raise InputFileError(f"{path}: the sparse table holds values of type {matrix.dtype}, not numbers.")
    if len(matrix.shape) != 2 or 0 in matrix.shape:
        raise InputFileError(f"{path}: the sparse table has shape {matrix.shape}, but rows and columns are needed.")
    matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    return matrix


def are_sparse(names: Sequence[str]) -> bool:
    """Whether the files were written by scipy.sparse.save_npz; an error if only some were."""
    sparse: list[str] = []
    for name in [name for name in names if name.lower().endswith(".npz")]:
        with suppress(OSError, ValueError, zipfile.BadZipFile), zipfile.ZipFile(name) as archive:
            members = set(archive.namelist())
            if {"format.npy", "shape.npy", "data.npy"} <= members and f"{TABLE_KEY}.npy" not in members:
                sparse.append(name)
    for other in [name for name in names if sparse and name not in sparse]:
        raise InputFileError(f"{sparse[0]} holds a sparse table and {other} does not: give files of one kind.")
    return bool(sparse)
