"""Tables on disk: paths and globs turned into one run of rows, read block by block."""

from __future__ import annotations

import glob
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, CellLimits, Engine
from unrelu.errors import InputFileError, InvalidParameterError
from unrelu.samples.arrays import checked_block_rows
from unrelu.samples.arrow_files import FeatherTable, ParquetTable
from unrelu.samples.blocks import regroup, rows_per_block
from unrelu.samples.columns import ColumnChoice, ColumnKeys, match_columns, match_ids, names_or_numbers
from unrelu.samples.csv_diagnosis import row_and_line
from unrelu.samples.csv_file import CsvFile, standard_input
from unrelu.samples.excel_file import excel_file
from unrelu.samples.limits import cut, own_limits, put_own, resolved, told, warn_of_nondetects
from unrelu.samples.numpy_files import NpyTable, NpzTable, holds_sparse_table
from unrelu.samples.packed import PACKINGS
from unrelu.samples.parts import Ask, Part
from unrelu.samples.reading import Reading
from unrelu.samples.table_file import PathLike, TableFile, extension_of, unknown_kind
from unrelu.samples.text_columns import Seen, split_marks

if TYPE_CHECKING:
    from unrelu.samples.sparse import SparseSamples

KINDS: dict[str, Callable[[str, Reading], TableFile]] = {
    **{f".csv{end}": partial(CsvFile, packing=packing) for end, packing in PACKINGS.items()},
    **{f".tsv{end}": partial(CsvFile, delimiter="\t", packing=packing) for end, packing in PACKINGS.items()},
    ".zip": partial(CsvFile, packing="zip"),
    ".xlsx": excel_file,
    ".parquet": ParquetTable,
    ".feather": FeatherTable,
    ".arrow": FeatherTable,
    ".npy": lambda path, _: NpyTable(path),
    ".npz": lambda path, _: NpzTable(path),
}


Nondetect = str | float | Mapping[str, float]


class FileSamples:
    """Rows of one or several files with the same columns, one file after the other.

    ``engine``: who reads them, if not this process.
    """

    engine: Callable[..., Engine] | None = None

    def __init__(
        self,
        tables: Sequence[TableFile],
        choice: ColumnChoice,
        block_rows: int | None = None,
        reading: Reading = Reading(),  # noqa: B008 - frozen
    ) -> None:
        self._tables, self._choice, self._asked_rows = tuple(tables), choice, block_rows
        self._wanted = match_columns(tables, choice)
        self._ids = match_ids(tables, choice)
        self._reading = reading
        types = [table.check(wanted) for table, wanted in zip(tables, self._wanted, strict=True)]
        self._dtype = np.result_type(*types)
        self._limits = resolved(self.seen(), self.feature_names, reading)
        self._own_limits = own_limits(self.seen(), self.feature_names, reading)
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

    def split_column(self, name: str | int) -> tuple[FileSamples, NDArray[Any]]:
        """The rows without a column, and the cells of that column as they stand, which need not be numbers."""
        if name in self._choice.keep:
            raise InputFileError(
                f"{self._tables[0].name}: column {name!r} is asked for as a feature and as groups=. Leave it out of"
                " columns=."
            )
        places = match_columns(self._tables, ColumnChoice((name,)))
        others = replace(self._choice, drop=(*self._choice.drop, name))
        rest = FileSamples(self._tables, others, self._asked_rows, self._reading)
        rest.engine = self.engine
        pieces = [piece for table, (at,) in zip(self._tables, places, strict=True) for piece in table.texts(at)]
        return rest, np.array(list(chain.from_iterable(pieces)), dtype=object)

    @property
    def limits(self) -> CellLimits | None:
        """The limits that cells state, "<0.25" or ">100"; None where none does."""
        return self._limits

    @property
    def limits_by_cell(self) -> tuple[int, ...]:
        """With limits="cell", the columns with cells such as "<0.25": ``Block.beyond`` marks these cells."""
        return tuple(self._own_limits)

    @property
    def notes(self) -> list[str]:
        """What cells that are no plain numbers were read as, one line a column; complete once all rows were read."""
        names = names_or_numbers(self.feature_names, self.n_features)
        return told(self.seen(), names, self._limits, self._reading, self._own_limits)

    @property
    def id_names(self) -> tuple[str, ...]:
        """What the columns are called that are kept as text."""
        return tuple(self._ids[0])

    def ids(self) -> dict[str, list[str]]:
        """The columns that are kept as text, of all rows, by name."""
        every = zip(self._tables, self._ids, strict=True)
        parts = [(table, places) for table, places in every]
        return {
            name: list(chain.from_iterable(chain.from_iterable(t.texts(places[name]) for t, places in parts)))
            for name in self.id_names
        }

    def row_label(self, row: int) -> str:
        """How messages call a row that is counted from 0: counted from 1, with its line and file if it has any."""
        before = row
        for table in self._tables:
            line, count = table.line_of(before)
            if line is not None:
                place = row_and_line(row + 1, line)
                return place if len(self._tables) == 1 else f"{place[:-1]} of {table.name})"
            if count > before:
                break
            before -= count
        return f"row {row + 1:,}"

    def seen(self) -> dict[int, Seen]:
        """Cells that are no plain numbers, by column, of all files."""
        found: dict[int, Seen] = {}
        for table, wanted in zip(self._tables, self._wanted, strict=True):
            for position, cells in table.seen().items():
                if position in wanted and cells:
                    at = wanted.index(position)
                    found[at] = found.get(at, Seen()).merge(cells)
        return found

    def blocks(self) -> Iterator[Block]:
        first_row = 0
        for values in regroup(self._pieces(), self._block_rows):
            beyond = None
            if self._own_limits:
                values, beyond = split_marks(values)
                put_own(values, beyond, self._own_limits)
                values = values.astype(self._dtype, copy=False)
            yield Block(values, first_row, beyond=beyond)
            first_row += len(values)

    def parts(self, ask: Ask) -> list[Part] | None:
        """Files, and shares of long ones, for others to read; None where one is here alone, as standard input is."""
        shares = [table.shares() for table in self._tables]
        if not all(shares):
            return None
        unknown = [k for k, table in enumerate(self._tables) if table.n_rows is None]
        if unknown:
            tables = list(self._tables)
            for k, table in zip(
                unknown, ask(_read_through, [(shares[k][0], self._wanted[k]) for k in unknown]), strict=True
            ):
                tables[k], shares[k] = table, [table]
            self._tables = tuple(tables)
        every = [(share, at) for of_file, at in zip(shares, self._wanted, strict=True) for share in of_file]
        return [Part(self._only(share, at).blocks_elsewhere, share.n_rows or 0) for share, at in every]

    def _only(self, table: TableFile, wanted: Sequence[int]) -> FileSamples:
        """The rows of one table among these."""
        other = copy(self)
        other._tables, other._wanted, other.engine = (table,), [list(wanted)], None
        return other

    def blocks_elsewhere(self) -> Iterator[Block]:
        """The blocks, for a process that may not see the files."""
        with _absence_explained():
            yield from self.blocks()

    def _pieces(self) -> Iterator[NDArray[Any]]:
        for table, wanted in zip(self._tables, self._wanted, strict=True):
            for piece in table.pieces(wanted, self._block_rows):
                values = piece if np.iscomplexobj(piece) else piece.astype(self._dtype, copy=False)
                cut(values, self._limits)
                yield values


@contextmanager
def _absence_explained() -> Iterator[None]:
    try:
        yield
    except InputFileError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise InputFileError(
            f"{error} So says the worker on {platform.node()}: workers read the files themselves, so put them where all"
            " of these see them under the same name."
        ) from error


def _read_through(share: tuple[TableFile, Sequence[int]]) -> TableFile:
    with _absence_explained():
        return share[0].read_through(share[1])


def open_samples(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: ColumnKeys = None,
    drop: ColumnKeys = None,
    id: ColumnKeys = None,
    header: bool | None = None,
    decimal: str | None = None,
    limits: str | None = None,
    nondetect: Nondetect | None = None,
    sheet: str | int | None = None,
    block_rows: int | None = None,
    scheduler: Any = None,
) -> FileSamples | SparseSamples:
    """Open table files as samples that are read block by block; they need not fit in memory.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, globs of files (read in sorted order), or ``"-"`` for csv on standard input. The kind
        follows from the extension: csv, tsv (also packed: gz, bz2, zst, zip), xlsx, parquet, feather,
        arrow, npy, npz (also that of ``scipy.sparse.save_npz``).
    columns : names or numbers of columns, optional
        The columns to keep, in this order; all of the first file's by default. Numbers count from 0.
    drop : names or numbers of columns, optional
        Columns to leave out.
    id : names or numbers of columns, optional
        Columns to keep as text, such as names and dates: no features, but :meth:`FileSamples.ids` gives them.
    header : bool, optional
        Whether the first line of a text table names the columns. By default that is told from the file; a first
        line of numbers is a header only if it is unlike the rows below it, and a warning says so.
    decimal : "." or ",", optional
        The decimal mark of text; told from the file by default.
    limits : "one", "highest", "missing" or "cell", optional
        What becomes of cells such as "<0.25" or ">100". By default they hold their limit, which must be the only one
        of the column, with no number beyond it: the column's floor (or ceiling) in ``FileSamples.limits``. "highest"
        cuts a column at its highest limit (the lowest of ceilings), "missing" reads such cells as missing. "cell"
        keeps every cell's own limit, for ``method="full_likelihood"``: other numbers of the column may be beyond it.
        "one" is the default, but has packed files looked through before they are used.
    nondetect : "missing", "floor", a number, or numbers by column, optional
        What cells such as "ND", "n.d.", "BDL" and "<LOD" are: missing (the default, with a warning), or floored, at
        the column's limit (the smallest of several) or else at its smallest number, or at the value given here.
    sheet : name or number of a sheet, optional
        Of an Excel file; the first by default. Numbers count from 0.
    block_rows : int, optional
        Rows per block; chosen by :func:`rows_per_block` by default.
    scheduler : address of a Dask scheduler, or a distributed.Client, optional
        The cluster whose workers read the rows; they must see the files under the same names.

    Returns
    -------
    FileSamples, or SparseSamples for sparse tables, which are read whole
        The rows of all files, one after the other. ``n_rows`` is None if a file is text. FileSamples
        also tells ``n_bytes``, the size on disk, ``limits``, and ``notes``: which words were read as what.

    Notes
    -----
    Several files must have the same columns; another order is matched by name. Columns without a name or with
    the same name are refused. In text, the separator is told from the file (commas, semicolons, tabs, bars), also
    its encoding where it starts with a byte-order mark; an empty cell, NA, NaN, null, N/A, "-" and the like mean
    missing, blank lines are skipped, and numbers may have thousands separators.

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
    >>> _ = (folder / "soil.csv").write_text("site;As\\nA;0,5\\nB;<0,25\\n")
    >>> samples = open_samples(folder / "soil.csv", id="site")
    >>> samples.limits, samples.ids()
    (CellLimits(floor=((0, 0.25),), ceiling=()), {'site': ['A', 'B']})
    """
    names, choice = files_of(paths), ColumnChoice.of(columns, drop, id)
    reading = Reading(header, decimal, limits, nondetect, sheet)
    if _are_sparse(names):
        from unrelu.samples.sparse import read_sparse

        if scheduler is not None:
            raise InvalidParameterError(
                f"{names[0]}: sparse tables are read whole, in this process: leave scheduler= out."
            )
        return read_sparse(names, choice)
    samples = FileSamples([_open(name, reading) for name in names], choice, block_rows, reading)
    warn_of_nondetects(samples.seen(), names_or_numbers(samples.feature_names, samples.n_features), reading)
    if scheduler is not None:
        from unrelu.engines.dask_engine import DaskEngine, connected

        samples.engine = partial(DaskEngine, connected(scheduler))
    return samples


def column_names(paths: PathLike | Sequence[PathLike], header: bool | None = None) -> tuple[str, ...] | None:
    """What the columns of the first file are called, without reading its cells; None where they have no names."""
    first = files_of(paths)[0]
    return None if _are_sparse([first]) else _open(first, Reading(header)).column_names


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


def _open(path: str, reading: Reading) -> TableFile:
    if path == "-":
        return standard_input(reading)
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
    return KINDS[extension](path, reading)
