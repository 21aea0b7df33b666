"""Which files paths, globs and folders stand for, and how they are opened; bad ones left out on request."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from functools import partial

from unrelu.errors import InputFileError, SkippedFilesWarning
from unrelu.tables.arrow_files import FeatherTable, ParquetTable
from unrelu.tables.chosen_rows import chosen_tables
from unrelu.tables.columns import ColumnChoice, match_columns
from unrelu.tables.csv_file import CsvFile, standard_input
from unrelu.tables.excel_file import excel_file
from unrelu.tables.numpy_files import NpyTable, NpzTable, holds_sparse_table
from unrelu.tables.packed import PACKINGS
from unrelu.tables.reading import Reading
from unrelu.tables.table_file import NoRowsError, PathLike, TableFile, extension_of, unknown_kind
from unrelu.validation import counted, listed, warn

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
_AT_A_TIME = 2**16  # rows of a file that is only looked through

Bad = dict[str, str]
"""Files that are left out, and why."""


def files_of(paths: PathLike | Sequence[PathLike]) -> list[str]:
    """The files that paths, globs and folders stand for, in sorted order each; "-" is standard input."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InputFileError("No file given. Name at least one, or - for csv on standard input.")
    return [name for path in given for name in _matching(os.fspath(path))]


def _matching(path: str) -> list[str]:
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        return _tables_in(path)
    if path == "-" or os.path.exists(path):  # a file whose name has brackets is no glob
        return [path]
    if not glob.has_magic(path):
        raise InputFileError(f"{path}: no such file.")
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise InputFileError(f"{path}: no file matches.")
    return found


def _tables_in(folder: str) -> list[str]:
    """All tables in a folder and the folders in it; names that start with . or _ are not for readers."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(place, name) for name in names if not name.startswith((".", "_"))]
    kinds = {path: extension_of(path, KINDS) for path in sorted(found)}
    tables = [path for path, kind in kinds.items() if kind is not None]
    if not tables:
        raise InputFileError(f"{folder}: is a folder without tables. Known are files that end in {', '.join(KINDS)}.")
    different = sorted({str(kinds[path]) for path in tables})
    if len(different) > 1:
        raise InputFileError(
            f"{folder}: is a folder with tables of several kinds ({', '.join(different)}). Name those to read, such as"
            f" {folder}/**/*{different[-1]}."
        )
    return tables


def open_table(path: str, reading: Reading) -> TableFile:
    """One file, by its extension; nothing but its head is read."""
    if path == "-":
        return standard_input(reading)
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


def open_tables(names: Sequence[str], reading: Reading, skip_bad: bool = False) -> tuple[list[TableFile], Bad]:
    """The files, less those of several that have columns but no rows; and, if asked for, less those that are bad."""
    tables: list[TableFile] = []
    without_rows: list[NoRowsError] = []
    bad: Bad = {}
    for name in names:
        try:
            tables.append(open_table(name, reading))
        except NoRowsError as error:
            without_rows.append(error)
        except InputFileError as error:
            if not skip_bad:
                raise
            bad[name] = str(error)
    if not tables:
        raise without_rows[0] if without_rows else _all_bad(bad)
    return chosen_tables(tables, reading.where), bad


def sound_tables(tables: Sequence[TableFile], choice: ColumnChoice, bad: Bad) -> list[TableFile]:
    """The tables that can be read from end to end; the others join the ``bad``, of which a warning tells.

    Every file is read once for that: a row of one that turns out to be bad must never have counted.
    """
    sound: list[TableFile] = []
    for table, wanted in zip(tables, match_columns(tables, choice), strict=True):
        try:
            table.check(wanted)
            for _ in table.pieces(wanted, _AT_A_TIME):
                pass
            sound.append(table)
        except InputFileError as error:
            bad[table.name] = str(error)
    if not sound:
        raise _all_bad(bad)
    if bad:
        warn(f"{counted(len(bad), 'bad file')} left out. {listed(bad.values(), most=8)}", SkippedFilesWarning)
    return sound


def _all_bad(bad: Bad) -> InputFileError:
    return InputFileError(f"No file can be read: all {len(bad)} are bad. {next(iter(bad.values()))}")


def are_sparse(names: Sequence[str]) -> bool:
    """Whether the files hold sparse tables; an error if only some do."""
    sparse = [name for name in names if name.lower().endswith(".npz") and holds_sparse_table(name)]
    for other in [name for name in names if sparse and name not in sparse]:
        raise InputFileError(f"{sparse[0]} holds a sparse table and {other} does not: give files of one kind.")
    return bool(sparse)
