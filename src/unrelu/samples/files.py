"""Tables on disk: paths and globs turned into one run of rows, read block by block."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block
from unrelu.errors import InputFileError
from unrelu.samples.arrays import checked_block_rows
from unrelu.samples.arrow_files import FeatherTable, ParquetTable
from unrelu.samples.blocks import regroup, rows_per_block
from unrelu.samples.columns import ColumnChoice, ColumnKey, match_columns
from unrelu.samples.csv_file import CsvFile, standard_input
from unrelu.samples.numpy_files import NpyTable, NpzTable, holds_sparse_table
from unrelu.samples.table_file import PathLike, TableFile, extension_of, unknown_kind

if TYPE_CHECKING:
    from unrelu.samples.sparse import SparseSamples

KINDS: dict[str, Callable[[str], TableFile]] = {
    ".csv": CsvFile,
    ".csv.gz": partial(CsvFile, gzipped=True),
    ".tsv": partial(CsvFile, delimiter="\t"),
    ".tsv.gz": partial(CsvFile, delimiter="\t", gzipped=True),
    ".parquet": ParquetTable,
    ".feather": FeatherTable,
    ".arrow": FeatherTable,
    ".npy": NpyTable,
    ".npz": NpzTable,
}


class FileSamples:
    """Rows of one or several files with the same columns, one file after the other."""

    def __init__(self, tables: Sequence[TableFile], choice: ColumnChoice, block_rows: int | None = None) -> None:
        self._tables, self._choice, self._asked_rows = tuple(tables), choice, block_rows
        self._wanted = match_columns(tables, choice)
        types = [table.check(wanted) for table, wanted in zip(tables, self._wanted, strict=True)]
        self._dtype = np.result_type(*types)
        self._block_rows = checked_block_rows(block_rows) or rows_per_block(self.n_rows, self.n_features)

    @property
    def n_features(self) -> int:
        return len(self._wanted[0])

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None with csv, where only a full read can tell."""
        counts = [table.n_rows for table in self._tables]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def n_bytes(self) -> int:
        """Size of all files on disk."""
        return sum(table.n_bytes for table in self._tables)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        names = self._tables[0].column_names
        return None if names is None else tuple(names[position] for position in self._wanted[0])

    def split_column(self, name: ColumnKey) -> tuple[FileSamples, NDArray[Any]]:
        """The rows without a column, and the cells of that column as they stand, which need not be numbers."""
        if name in self._choice.keep:
            raise InputFileError(
                f"{self._tables[0].name}: column {name!r} is asked for as a feature and as groups=. Leave it out of"
                " columns=."
            )
        places = match_columns(self._tables, ColumnChoice((name,)))
        rest = FileSamples(self._tables, replace(self._choice, drop=(*self._choice.drop, name)), self._asked_rows)
        pieces = [piece for table, (at,) in zip(self._tables, places, strict=True) for piece in table.cells(at)]
        return rest, np.concatenate(pieces) if pieces else np.empty(0)

    def blocks(self) -> Iterator[Block]:
        first_row = 0
        for values in regroup(self._pieces(), self._block_rows):
            yield Block(values, first_row)
            first_row += len(values)

    def _pieces(self) -> Iterator[NDArray[Any]]:
        for table, wanted in zip(self._tables, self._wanted, strict=True):
            for piece in table.pieces(wanted, self._block_rows):
                yield piece.astype(self._dtype, copy=False)


def open_samples(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: ColumnKey | Sequence[ColumnKey] | None = None,
    drop: ColumnKey | Sequence[ColumnKey] | None = None,
    block_rows: int | None = None,
) -> FileSamples | SparseSamples:
    """Open table files as samples that are read block by block; they need not fit in memory.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, globs of files (read in sorted order), or ``"-"`` for csv on standard input. The kind
        follows from the extension: csv, tsv (also gzipped), parquet, feather, arrow, npy, npz (also
        that of ``scipy.sparse.save_npz``).
    columns : names or numbers of columns, optional
        The columns to keep, in this order; all of the first file's by default. Numbers count from 0.
    drop : names or numbers of columns, optional
        Columns to leave out.
    block_rows : int, optional
        Rows per block; chosen by :func:`rows_per_block` by default.

    Returns
    -------
    FileSamples, or SparseSamples for sparse tables, which are read whole
        The rows of all files, one after the other. ``n_rows`` is None if a file is csv. FileSamples
        also tells ``n_bytes``, the size on disk.

    Notes
    -----
    Several files must have the same columns; another order is matched by name. In csv, an empty cell,
    NA, NaN, nan, null and N/A mean missing, blank lines are skipped, and a first line of numbers
    only is data: the columns then have no names.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "lakes.csv").write_text("site,As,Pb\\nA,0.5,0\\nB,,1.25\\n")
    >>> samples = open_samples(folder / "*.csv", drop="site")
    >>> samples.feature_names
    ('As', 'Pb')
    >>> [block.values.tolist() for block in samples.blocks()]
    [[[0.5, 0.0], [nan, 1.25]]]
    """
    names, choice = files_of(paths), ColumnChoice.of(columns, drop)
    if _are_sparse(names):
        from unrelu.samples.sparse import read_sparse

        return read_sparse(names, choice)
    return FileSamples([_open(name) for name in names], choice, block_rows)


def _are_sparse(names: Sequence[str]) -> bool:
    sparse = [name for name in names if name.lower().endswith(".npz") and holds_sparse_table(name)]
    for other in [name for name in names if sparse and name not in sparse]:
        raise InputFileError(f"{sparse[0]} holds a sparse table and {other} does not: give files of one kind.")
    return bool(sparse)


def files_of(paths: PathLike | Sequence[PathLike]) -> list[str]:
    """The files that paths and globs stand for, those of a glob in sorted order; "-" is standard input."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InputFileError("No file given. Name at least one, or - for csv on standard input.")
    return [name for path in given for name in _matching(os.fspath(path))]


def _matching(path: str) -> list[str]:
    path = os.path.expanduser(path)
    if path == "-" or os.path.exists(path):  # a file whose name has brackets is no glob
        return [path]
    if not glob.has_magic(path):
        raise InputFileError(f"{path}: no such file.")
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise InputFileError(f"{path}: no file matches.")
    return found


def _open(path: str) -> TableFile:
    if path == "-":
        return standard_input()
    if os.path.isdir(path):
        raise InputFileError(f"{path}: is a folder. Name the files in it, such as {path}/*.parquet.")
    extension = extension_of(path, KINDS)
    if extension is None:
        raise InputFileError(f"{path}: {unknown_kind(path, KINDS)}")
    try:
        size = os.path.getsize(path)
    except OSError as error:  # a link to nowhere, say
        raise InputFileError(f"{path}: cannot be read ({error.strerror}).") from error
    if size == 0:
        raise InputFileError(f"{path}: the file is empty.")
    return KINDS[extension](path)
