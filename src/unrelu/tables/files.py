"""Tables on disk: paths and globs turned into one run of rows, read block by block."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block
from unrelu.errors import InputFileError, InvalidParameterError
from unrelu.passes.rows import Ask, Part, Rows, checked_block_rows, regroup, rows_per_block
from unrelu.tables.chosen_rows import no_row
from unrelu.tables.columns import ColumnChoice, ColumnKeys, match_columns, match_ids, names_or_numbers
from unrelu.tables.diagnosis import row_and_line
from unrelu.tables.finding import are_sparse, files_of, open_table, open_tables, sound_tables
from unrelu.tables.limits import SeveralLimits, cut, own_limits, put_own, resolved, told, warn_of_nondetects
from unrelu.tables.reading import Reading
from unrelu.tables.table_file import PathLike, TableFile
from unrelu.tables.text_columns import Seen, split_marks

if TYPE_CHECKING:
    from unrelu.tables.sparse import SparseSamples

Nondetect = str | float | Mapping[str, float]


class FileSamples(Rows):
    """Rows of one or several files with the same columns, one file after the other.

    ``engine``: who reads them, if not this process. ``skipped_files``: those that were bad and are left out, and why.
    """

    def __init__(
        self,
        tables: Sequence[TableFile],
        choice: ColumnChoice,
        block_rows: int | None = None,
        reading: Reading = Reading(),  # noqa: B008 - frozen
    ) -> None:
        self._tables, self._choice, self._asked_rows = tuple(tables), choice, block_rows
        self._wanted = match_columns(tables, choice)
        names = tables[0].column_names
        self.n_features = len(self._wanted[0])
        self.feature_names = None if names is None else tuple(names[position] for position in self._wanted[0])
        self._ids = match_ids(tables, choice)
        self._reading = reading
        types = [table.check(wanted) for table, wanted in zip(tables, self._wanted, strict=True)]
        self._dtype = np.result_type(*types)
        self.limits = resolved(self.seen(), self.feature_names, reading)
        self._own_limits = own_limits(self.seen(), self.feature_names, reading)
        self.limits_by_cell = tuple(
            self._own_limits
        )  # with limits="cell": ``Block.beyond`` marks cells such as "<0.25"
        self._block_rows = checked_block_rows(block_rows) or rows_per_block(self.n_rows, self.n_features)

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
        rest.engine, rest.skipped_files = self.engine, self.skipped_files
        pieces = [piece for table, (at,) in zip(self._tables, places, strict=True) for piece in table.texts(at)]
        return rest, np.array(list(chain.from_iterable(pieces)), dtype=object)

    @property
    def notes(self) -> list[str]:
        """What cells that are no plain numbers were read as, one line a column; complete once all rows were read."""
        names = names_or_numbers(self.feature_names, self.n_features)
        return told(self.seen(), names, self.limits, self._reading, self._own_limits)

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
        return self.blocks_from(0)

    def blocks_from(self, row: int) -> Iterator[Block]:
        """The blocks of the rows from this one on, counted from 0: of the same rows each, if a block starts there."""
        first_row = 0
        for values in regroup(self._pieces(row), self._block_rows):
            beyond = None
            if self._own_limits:
                values, beyond = split_marks(values)
                put_own(values, beyond, self._own_limits)
                values = values.astype(self._dtype, copy=False)
            yield Block(values, first_row, beyond=beyond)
            first_row += len(values)
        if self._reading.where is not None and row + first_row == 0:
            raise no_row(self._reading.where)

    def parts(self, ask: Ask) -> list[Part] | None:
        """Files, and shares of long ones, for others to read; None where one is here alone, as standard input is."""
        shares = [table.shares() for table in self._tables]
        if not all(shares):
            return None
        flat = [(share, at) for of_file, at in zip(shares, self._wanted, strict=True) for share in of_file]
        unknown = [k for k, (share, _) in enumerate(flat) if share.n_rows is None]
        if unknown:
            read = dict(zip(unknown, ask(_read_through, [flat[k] for k in unknown]), strict=True))
            flat = [(read.get(k, share), at) for k, (share, at) in enumerate(flat)]
            every = iter(flat)
            counted = [[next(every)[0] for _ in of_file] for of_file in shares]
            # Files that are read as one have now been counted, and their words seen, once and for all.
            both = zip(self._tables, counted, strict=True)
            self._tables = tuple(own[0] if len(own) == 1 else table for table, own in both)
        return [Part(self._only(share, at).blocks_elsewhere, share.n_rows or 0) for share, at in flat]

    def _only(self, table: TableFile, wanted: Sequence[int]) -> FileSamples:
        """The rows of one table among these."""
        other = copy(self)
        other._tables, other._wanted, other.engine = (table,), [list(wanted)], None
        return other

    def blocks_elsewhere(self) -> Iterator[Block]:
        """The blocks, for a process that may not see the files."""
        with _absence_explained():
            yield from self.blocks()

    def provenance(self) -> dict[str, Any]:
        """Which files these are (names, sizes, times of change), their columns, and how they are read."""
        names = [os.path.abspath(table.name) for table in self._tables]
        files = [[name, os.stat(name).st_size, os.stat(name).st_mtime_ns] for name in names]
        columns = list(self.feature_names or map(str, self._wanted[0]))
        return {"files": files, "columns": columns, "settings": (self._choice, self._reading, self._block_rows)}

    def _pieces(self, skipped: int = 0) -> Iterator[NDArray[Any]]:
        """All rows but the first ones, which are not even read where a file knows its parts."""
        every = zip(self._tables, self._wanted, strict=True)
        parts = [(part, at) for table, at in every for part in ((table.shares() or [table]) if skipped else [table])]
        for part, wanted in parts:
            if skipped and part.n_rows is not None and part.n_rows <= skipped:
                skipped -= part.n_rows
                continue
            for piece in part.pieces(wanted, self._block_rows):
                left_out = min(skipped, len(piece))
                skipped, piece = skipped - left_out, piece[left_out:]
                values = piece if np.iscomplexobj(piece) else piece.astype(self._dtype, copy=False)
                cut(values, self.limits)
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
        packed: gz, bz2, zst, zip), xlsx, parquet, feather, arrow, npy, npz (also that of
        ``scipy.sparse.save_npz``).
    columns : names or numbers of columns, optional
        The columns to keep, in this order; all of the first file's by default. Numbers count from 0.
    drop : names or numbers of columns, optional
        Columns to leave out.
    id : names or numbers of columns, optional
        Columns to keep as text, such as names and dates: no features, but ``ids()`` of what is opened gives
        them.
    header : bool, optional
        Whether the first line of a text table names the columns. By default that is told from the file; a first
        line of numbers is a header only if it is unlike the rows below it, and a warning says so.
    decimal : "." or ",", optional
        The decimal mark of text; told from the file by default.
    limits : "one", "highest", "missing" or "cell", optional
        What becomes of cells such as "<0.25" or ">100". "one": they hold their limit, which must be the only one of
        the column, with no number beyond it: the column's floor (or ceiling) in ``FileSamples.limits``. "cell" keeps
        every cell's own limit, for ``method="auto"`` and "full_likelihood": other numbers of the column may be beyond
        it. By default it is "one" where that can be, and "cell" elsewhere. "highest" cuts a column at its highest limit
        (the lowest of ceilings), "missing" reads such cells as missing. Packed files are looked through before they are
        used where one of these is said.
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
        A file in which ``fit`` and ``partial_fit`` of method="one_pass" keep what they have counted, every ten seconds
        and when they are interrupted: the same fit then goes on from there, with the same result to the last digit. It
        stays afterwards; one of other files, columns or settings is refused.
    scheduler : address of a Dask scheduler, or a distributed.Client, optional
        The cluster whose workers read the rows; they must see the files under the same names.

    Returns
    -------
    FileSamples, or SparseSamples for sparse tables, which are read whole
        The rows of all files, one after the other. ``n_rows`` is None if a file is text. FileSamples
        also tells ``n_bytes``, the size on disk, ``limits``, and ``notes``: which words were read as what.

    Notes
    -----
    Several files must have the same columns; another order is matched by name. One without rows does no harm.
    Folders such as ``site=A/year=2024`` (partitioned data sets) give files the columns ``site`` and ``year``, for
    ``where``, ``id``, ``groups`` and ``columns``; they are no features unless ``columns`` names them. Columns
    without a name or with the same name are refused. In text, the separator is told from the file (commas, semicolons,
    tabs, bars), also its encoding where it starts with a byte-order mark; an empty cell, NA, NaN, null, N/A, "-" and
    the like mean missing, blank lines are skipped, and numbers may have thousands separators.

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
    reading = Reading(header, decimal, limits, nondetect, sheet, where)
    if checkpoint is not None and (scheduler is not None or "-" in names or are_sparse(names)):
        raise InvalidParameterError(
            "checkpoint= is for files that this process reads in blocks: leave it out with a cluster, standard input or"
            " sparse tables."
        )
    if are_sparse(names):
        from unrelu.tables.sparse import read_sparse

        if scheduler is not None or where is not None:
            raise InvalidParameterError(
                f"{names[0]}: sparse tables are read whole, in this process: leave scheduler= and where= out."
            )
        return read_sparse(names, choice)
    try:
        samples = _files(names, choice, block_rows, reading, skip_bad_files)
    except SeveralLimits:
        if limits is not None or "-" in names:
            raise
        reading = replace(reading, limits="cell")
        samples = _files(names, choice, block_rows, reading, skip_bad_files)
    warn_of_nondetects(samples.seen(), names_or_numbers(samples.feature_names, samples.n_features), reading)
    if checkpoint is not None:
        from unrelu.passes.checkpoints import CheckpointedEngine

        samples.engine = partial(CheckpointedEngine, checkpoint)
    if scheduler is not None:
        from unrelu.passes.dask_engine import DaskEngine, connected

        samples.engine = partial(DaskEngine, connected(scheduler))
    return samples


def _files(
    names: Sequence[str], choice: ColumnChoice, block_rows: int | None, reading: Reading, skip_bad_files: bool
) -> FileSamples:
    tables, bad = open_tables(names, reading, skip_bad_files)
    samples = FileSamples(sound_tables(tables, choice, bad) if skip_bad_files else tables, choice, block_rows, reading)
    samples.skipped_files = bad
    return samples


def column_names(paths: PathLike | Sequence[PathLike], header: bool | None = None) -> tuple[str, ...] | None:
    """What the columns of the first file are called, without reading its cells; None where they have no names."""
    first = files_of(paths)[0]
    return None if are_sparse([first]) else open_table(first, Reading(header)).column_names
