"""Tables on disk: the files of paths, globs and folders as one run of rows, read block by block."""

from __future__ import annotations

import glob
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from unrelu.contracts import Ask, Block, Part, Samples
from unrelu.errors import InputFileError, InvalidParameterError
from unrelu.passes.rows import checked_block_rows, regroup, rows_per_block
from unrelu.tables.cells import ColumnKey, Reading, Seen, at_limits, stated_limits, text_cell_notes, warn_of_nondetects
from unrelu.tables.choose import chosen_tables, match_columns, no_row
from unrelu.tables.grid_table import delivered, warn_of_habits
from unrelu.tables.numpy_files import NpyTable, NpzTable, SparseSamples, are_sparse, sparse_matrix
from unrelu.tables.table_file import PathLike, TableFile, extension_of, require_pyarrow, row_and_line, unknown_kind
from unrelu.tables.write import names_or_numbers
from unrelu.validation import counted, listed, warn


class FileSamples(Samples):
    """Rows of one or several files with the same columns, one file after the other.

    ``limits`` are those that cells state, "<0.25" or ">100"; None where none does. ``engine`` reads the rows, if not
    this process. ``skipped_files``: bad files that are left out, each with the reason.
    """

    def __init__(self, tables: Sequence[TableFile], reading: Reading, block_rows: int | None = None) -> None:
        self._tables, self._reading, self._rows_wanted = tuple(tables), reading, block_rows
        self._wanted, self._ids = match_columns(tables, reading)
        names, self.n_features = tables[0].column_names, len(self._wanted[0])
        self.feature_names = None if names is None else tuple(names[position] for position in self._wanted[0])
        all_cells = reading.limits is not None or reading.floors_nondetects
        for thorough in (all_cells, True):
            types = [table.check(at, thorough) for table, at in zip(tables, self._wanted, strict=True)]
            self.limits, self._own_limits = stated_limits(self.seen(), self.feature_names, reading)
            if all_cells or not self._own_limits:  # else there may be more limits far down in a packed file
                break
        self._dtype = np.result_type(*types)
        self.limits_by_cell = tuple(self._own_limits)
        self._block_rows = checked_block_rows(block_rows) or rows_per_block(self.n_rows, self.n_features)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None with csv, where it takes a full read."""
        counts = [table.n_rows for table in self._tables]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def n_bytes(self) -> int:
        """Size of all files on disk."""
        return sum(table.n_bytes for table in self._tables)

    @property
    def notes(self) -> list[str]:
        """The reading of cells that are no plain numbers, one line a column; complete once all rows were read."""
        names = names_or_numbers(self.feature_names, self.n_features)
        layouts = dict.fromkeys(note for table in self._tables for note in table.notes)
        return [*layouts, *text_cell_notes(self.seen(), names, self.limits, self._reading, self._own_limits)]

    def seen(self) -> dict[int, Seen]:
        """Cells that are no plain numbers, by column, of all files."""
        found: dict[int, Seen] = {}
        for table, wanted in zip(self._tables, self._wanted, strict=True):
            for at, position in enumerate(wanted):
                if cells := table.seen.get(position):
                    found[at] = found.get(at, Seen()).merge(cells)
        return found

    def ids(self) -> dict[str, list[str]]:
        """The columns that are kept as text, of all rows, by name."""
        return self._texts(self._ids)

    def _texts(self, places: Sequence[Mapping[str, int]]) -> dict[str, list[str]]:
        """Columns as text, of all rows; ``places``: where each is in every file."""
        found: dict[str, list[str]] = {name: [] for name in places[0]}
        for table, at in zip(self._tables, places, strict=True):
            for _, columns in table.pieces((), _AT_A_TIME, list(at.values())) if at else ():
                for name, cells in zip(at, columns, strict=True):
                    found[name] += cells
        return found

    def split_column(self, name: str | int) -> tuple[FileSamples, NDArray[Any]]:
        """The rows without a column, and the cells of that column, which need not be numbers, as text."""
        if name in self._reading.columns:
            raise InputFileError(
                f"{self._tables[0].name}: column {name!r} is among columns= and groups=: leave it out of columns=."
            )
        places, _ = match_columns(self._tables, Reading(columns=(name,)))
        others = replace(self._reading, drop=(*self._reading.drop, name))
        rest = FileSamples(self._tables, others, self._rows_wanted)
        rest.engine, rest.skipped_files = self.engine, self.skipped_files
        return rest, np.array(self._texts([{"": at} for (at,) in places])[""], dtype=object)

    def row_label(self, row: int) -> str:
        """A row (from 0) in messages: counted from 1, with its line and file if it has any."""
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

    def blocks(self) -> Iterator[Block]:
        return self.blocks_from(0)

    def blocks_from(self, row: int) -> Iterator[Block]:
        """The blocks of the rows from this one on, counted from 0: the same blocks as of all, if one starts there."""
        every = zip(self._tables, self._wanted, strict=True)
        # The first rows are skipped unread in a file with parts of its own.
        parts = [(part, at) for table, at in every for part in ((table.shares() or [table]) if row else [table])]

        def numbers(skipped: int) -> Iterator[NDArray[Any]]:
            for part, wanted in parts:
                if skipped and part.n_rows is not None and part.n_rows <= skipped:
                    skipped -= part.n_rows
                    continue
                for values, _ in part.pieces(wanted, self._block_rows):
                    left_out = min(skipped, len(values))
                    skipped, values = skipped - left_out, values[left_out:]
                    yield values if np.iscomplexobj(values) else values.astype(self._dtype, copy=False)

        first_row = 0
        for values in regroup(numbers(row), self._block_rows):
            values, censoring = at_limits(values, self.limits, self._own_limits, self._reading)
            yield Block(values.astype(self._dtype, copy=False), first_row, censoring=censoring)
            first_row += len(values)
        if self._reading.where is not None and row + first_row == 0:
            raise no_row(self._reading.where)

    def parts(self, ask: Ask) -> list[Part] | None:
        """Files, and shares of long ones, for workers to read; None with standard input, which they cannot."""
        shares = [table.shares() for table in self._tables]
        if not all(shares):
            return None
        flat = [(share, at) for of_file, at in zip(shares, self._wanted, strict=True) for share in of_file]
        unknown = [k for k, (share, _) in enumerate(flat) if share.n_rows is None]
        if unknown:
            read = dict(zip(unknown, ask(_read_through, [flat[k] for k in unknown]), strict=True))
            flat = [(read.get(k, share), at) for k, (share, at) in enumerate(flat)]
            every = iter(flat)
            counted_rows = [[next(every)[0] for _ in of_file] for of_file in shares]
            # Files that are read as one now have their number of rows and their words.
            both = zip(self._tables, counted_rows, strict=True)
            self._tables = tuple(own[0] if len(own) == 1 else table for table, own in both)
        parts = []
        for share, at in flat:
            rows = copy(self)
            rows._tables, rows._wanted, rows.engine = (share,), [list(at)], None
            parts.append(Part(rows.blocks_elsewhere, share.n_rows or 0))
        return parts

    def blocks_elsewhere(self) -> Iterator[Block]:
        """The blocks, in a worker that may not see the files."""
        with _absence_explained():
            yield from self.blocks()

    def provenance(self) -> dict[str, Any]:
        """The files (names, sizes, times of change), their columns, and the options of reading."""
        names = [os.path.abspath(table.name) for table in self._tables]
        files = [[name, os.stat(name).st_size, os.stat(name).st_mtime_ns] for name in names]
        columns = list(self.feature_names or map(str, self._wanted[0]))
        return {"files": files, "columns": columns, "settings": (self._reading, self._block_rows)}


@contextmanager
def _absence_explained() -> Iterator[None]:
    try:
        yield
    except InputFileError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise InputFileError(
            f"{error} The worker on {platform.node()} does not see it: put the files where all workers see them under"
            " the same name."
        ) from error


def _read_through(share: tuple[TableFile, Sequence[int]]) -> TableFile:
    with _absence_explained():
        return share[0].read_through(share[1])


def open_samples(
    paths: PathLike | Sequence[PathLike],
    *,
    columns: ColumnKey | Sequence[ColumnKey] | None = None,
    drop: ColumnKey | Sequence[ColumnKey] | None = None,
    id: ColumnKey | Sequence[ColumnKey] | None = None,
    header: bool | None = None,
    decimal: str | None = None,
    limits: str | None = None,
    nondetect: str | float | Mapping[str, float] | None = None,
    sheet: str | int | None = None,
    where: str | None = None,
    skip_bad_files: bool = False,
    block_rows: int | None = None,
    checkpoint: PathLike | None = None,
    scheduler: Any = None,
) -> FileSamples | SparseSamples:
    """Open table files as samples that are read block by block; they need not fit in memory.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, globs of files (read in sorted order), folders (all tables in them and below, of one
        kind), or ``"-"`` for csv on standard input. The kind follows from the extension: csv, tsv (also
        packed: gz, bz2, zst, zip), txt (separated by spaces as well), xlsx, parquet, feather, arrow, npy, npz (also
        that of ``scipy.sparse.save_npz``).
    columns : names or numbers of columns, optional
        The columns to keep, in this order; all of the first file's by default. Numbers count from 0.
    drop : names or numbers of columns, optional
        Columns to leave out.
    id : names or numbers of columns, optional
        Columns to keep as text, such as names and dates: no features; ``ids()`` of the opened samples has them.
    header : bool, optional
        Whether the first line of a text table names the columns; detected by default. A first line of numbers is a
        header only if it is unlike the rows below it, and a warning says so.
    decimal : "." or ",", optional
        The decimal mark of text; detected by default.
    limits : "one", "highest", "missing" or "cell", optional
        The reading of cells such as "<0.25" or ">100". "one": they hold their limit, which must be the only one of the
        column, with no number below it (above a ceiling): the column's floor (or ceiling) in ``FileSamples.limits``.
        "cell" keeps every cell's own limit, for ``method="auto"`` and "full_likelihood". By default it is "one" where
        that is possible, and "cell" elsewhere. "highest" censors a column at its highest limit (the lowest of
        ceilings), "missing" reads such cells as missing. With one of these, packed files are read once before use.
    nondetect : "missing", "floor", a number, or numbers by column, optional
        What cells such as "ND", "n.d.", "BDL" and "<LOD" are: missing (the default, with a warning), or floored, at
        the column's limit (the smallest of several) or else at its smallest number, or at the value given here.
    sheet : name or number of a sheet, optional
        Of an Excel file; the first by default. Numbers count from 0.
    where : str, optional
        Which rows to read: comparisons of columns (==, !=, <, <=, >, >=, in) with numbers, texts in quotes or each
        other, joined by and, or, not, such as "site == 'A' and dose > 3". A missing cell meets none. Limits such as
        "<0.25" are still those of all rows.
    skip_bad_files : bool, default=False
        Leave out files that are damaged, empty or not numbers, each of them wholly, with a warning and their names in
        ``FileSamples.skipped_files``; by default the first such file is an error. Every file is then read once more,
        before any row counts. Files that lack a column, or have one more, are an error all the same.
    block_rows : int, optional
        Rows per block; chosen by :func:`rows_per_block` by default.
    checkpoint : path, optional
        A file in which ``fit`` and ``partial_fit`` of method="one_pass" keep their sums, every ten seconds and when
        they are interrupted: the same fit then goes on from there, with the same result to the last digit. It stays
        afterwards; one of other files, columns or settings is refused.
    scheduler : address of a Dask scheduler, or a distributed.Client, optional
        The cluster whose workers read the rows; they must see the files under the same names.

    Returns
    -------
    FileSamples, or SparseSamples for sparse tables, which are read whole
        The rows of all files, one after the other. ``n_rows`` is None if a file is text. FileSamples also has
        ``n_bytes``, the size on disk, ``limits``, and ``notes`` on the reading of cells of text.

    Notes
    -----
    Several files must have the same columns; another order is matched by name. Files may be without rows.
    Folders such as ``site=A/year=2024`` (partitioned data sets) give files the columns ``site`` and ``year``, for
    ``where``, ``id``, ``groups`` and ``columns``; they are no features unless ``columns`` names them. Columns
    without a name or with the same name are refused. In text, the separator is detected (comma, semicolon, tab or bar),
    and the encoding (UTF-8, UTF-16, cp1252); an empty cell, NA, NaN, null, N/A, "-" and the like mean missing, blank
    lines are skipped, and numbers may have thousands separators.

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
    names = files_of(paths)
    keep, out, ids = ((keys,) if isinstance(keys, str | int) else tuple(keys or ()) for keys in (columns, drop, id))
    reading = Reading(keep, out, ids, header, decimal, limits, nondetect, sheet, where)
    sparse = are_sparse(names)
    if checkpoint is not None and (scheduler is not None or "-" in names or sparse):
        raise InvalidParameterError(
            "checkpoint= is for files that this process reads in blocks: leave it out with a cluster, standard input or"
            " sparse tables."
        )
    if sparse:
        if scheduler is not None or where is not None:
            raise InvalidParameterError(
                f"{names[0]}: sparse tables are read whole, in this process: leave scheduler= and where= out."
            )
        if reading.ids:
            raise InputFileError(
                f"{names[0]}: a sparse table holds numbers only, and no column to keep as text: leave id= out."
            )
        matrices = [sparse_matrix(name) for name in names]
        tables = [TableFile(name) for name in names]
        for table, matrix in zip(tables, matrices, strict=True):
            table.n_columns = int(matrix.shape[1])
        matched, _ = match_columns(tables, reading)
        parts: list[Any] = [matrix[:, at] for matrix, at in zip(matrices, matched, strict=True)]
        return SparseSamples(parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr"))
    samples = _file_samples(names, reading, block_rows, skip_bad_files)
    warn_of_nondetects(samples.seen(), names_or_numbers(samples.feature_names, samples.n_features), reading)
    if checkpoint is not None:
        from unrelu.passes.checkpoints import CheckpointedEngine

        samples.engine = partial(CheckpointedEngine, checkpoint)
    if scheduler is not None:
        from unrelu.passes.dask_engine import DaskEngine, connected

        samples.engine = partial(DaskEngine, connected(scheduler))
    return samples


def _file_samples(names: Sequence[str], reading: Reading, block_rows: int | None, skip_bad_files: bool) -> FileSamples:
    """The rows of all files that have any; with ``skip_bad_files`` without those of bad files.

    Every file is then read once before: no row of a bad file may count.
    """
    opened: list[TableFile] = []
    bad: dict[str, str] = {}
    for name in names:
        try:
            opened.append(open_table(name, reading))
        except InputFileError as error:
            if not skip_bad_files:
                raise
            bad[name] = str(error)
    tables = [table for table in opened if not table.is_empty]
    if opened and not tables:
        raise InputFileError(f"{opened[0].name}: has columns but no rows. Add rows, or leave the file out.")
    if tables:
        tables = chosen_tables(tables, reading)
    if skip_bad_files and tables:
        for table, wanted in zip(list(tables), match_columns(tables, reading)[0], strict=True):
            try:
                table.check(wanted)
                for _ in table.pieces(wanted, _AT_A_TIME):
                    pass
            except InputFileError as error:
                bad[table.name] = str(error)
                tables.remove(table)
    if not tables:
        raise InputFileError(f"No file can be read: all {len(bad)} are bad. {next(iter(bad.values()))}")
    if bad:
        warn(f"{counted(len(bad), 'bad file')} left out. {listed(bad.values(), most=8)}", "skipped-files")
    samples = FileSamples(tables, reading, block_rows)
    samples.skipped_files = bad
    warn_of_habits([table.suspicious for table in tables])
    return samples


# --- which files there are, and how they are opened -----------------------------------------------------


PACKINGS = {"": None, ".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zip": "zip"}
KINDS = (
    *(f".csv{end}" for end in PACKINGS),
    *(f".tsv{end}" for end in PACKINGS),
    *(".txt", ".zip", ".xlsx", ".parquet", ".feather", ".arrow", ".npy", ".npz"),
)
_AT_A_TIME = 2**16  # rows of a file that is read for its texts or faults alone


def files_of(paths: PathLike | Sequence[PathLike]) -> list[str]:
    """The files of paths, globs and folders, in sorted order each; "-" is standard input."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InputFileError("No file given. Name at least one, or - for csv on standard input.")
    names: list[str] = []
    for path in (os.path.expanduser(os.fspath(each)) for each in given):
        if os.path.isdir(path):
            names += _tables_in(path)
        elif path == "-" or os.path.exists(path):  # a file whose name has brackets is no glob
            names.append(path)
        elif not glob.has_magic(path):
            raise InputFileError(f"{path}: no such file.")
        else:
            found = sorted(glob.glob(path, recursive=True))
            if not found:
                raise InputFileError(f"{path}: no file matches.")
            names += found
    return names


def _tables_in(folder: str) -> list[str]:
    """All tables in a folder and the folders in it; names that start with . or _ are left out."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(place, name) for name in names if not name.startswith((".", "_"))]
    # What ends in .txt says something of the tables as often as it is one: it must be named.
    known = [kind for kind in KINDS if kind != ".txt"]
    kinds = {path: extension_of(path, known) for path in sorted(found)}
    tables = [path for path, kind in kinds.items() if kind is not None]
    if not tables:
        raise InputFileError(f"{folder}: is a folder without tables. Known are files that end in {', '.join(known)}.")
    different = sorted({str(kinds[path]) for path in tables})
    if len(different) > 1:
        raise InputFileError(
            f"{folder}: is a folder with tables of several kinds ({', '.join(different)}). Name those to read, such as"
            f" {folder}/**/*{different[-1]}."
        )
    return tables


def column_names(paths: PathLike | Sequence[PathLike], header: bool | None = None) -> tuple[str, ...] | None:
    """The names of the first file's columns, without reading its cells; None where they have none."""
    first = files_of(paths)[0]
    return None if are_sparse([first]) else open_table(first, Reading(header=header)).column_names


def open_table(path: str, reading: Reading) -> TableFile:
    """One file, by its extension; only its head is read, unless it must be made plain."""
    return delivered(_opened(path, reading), reading)


def _opened(path: str, reading: Reading) -> TableFile:
    """One file as it is."""
    kind = ".csv" if path == "-" else extension_of(path, KINDS)
    if kind is None:
        raise InputFileError(f"{path}: {unknown_kind(path, KINDS)}")
    try:
        size = 1 if path == "-" else os.path.getsize(path)
    except OSError as error:  # a link to nowhere, say
        raise InputFileError(f"{path}: cannot be read ({error.strerror}).") from error
    if size == 0:
        raise InputFileError(f"{path}: the file is empty.")
    if kind in (".npy", ".npz"):
        return NpyTable(path) if kind == ".npy" else NpzTable(path)
    require_pyarrow(path)
    from unrelu.tables.arrow_files import FeatherTable, ParquetTable
    from unrelu.tables.csv_file import CsvFile, excel_file, standard_input

    if path == "-":
        return standard_input(reading)
    if kind == ".xlsx":
        return excel_file(path, reading)
    if kind in (".parquet", ".feather", ".arrow"):
        return ParquetTable(path, reading) if kind == ".parquet" else FeatherTable(path, reading)
    packing = PACKINGS[kind.removeprefix(".csv").removeprefix(".tsv").removeprefix(".txt")]
    return CsvFile(path, reading, delimiter="\t" if kind.startswith(".tsv") else ",", packing=packing)
