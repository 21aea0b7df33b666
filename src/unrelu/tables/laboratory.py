"""``unrelu.read_table``: how a table was understood, its cells, and its rows for every estimator."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrelu.errors import InputFileError, InvalidDataError, InvalidParameterError, MissingDependencyError
from unrelu.notebook import Table
from unrelu.tables.cells import ColumnKey, Reading, warn_of_nondetects
from unrelu.tables.files import FileSamples, files_of, open_table
from unrelu.tables.frames import collected
from unrelu.tables.grid_table import GridTable, frame_grid, plain_table
from unrelu.tables.layout import Delivery, Refused
from unrelu.tables.numpy_files import are_sparse
from unrelu.tables.table_file import PathLike, TableFile
from unrelu.tables.write import names_or_numbers, write_columns

_AT_A_TIME = 2**16


@dataclass(frozen=True)
class ColumnFacts:
    """A column of a table: how many cells it has, how many are missing, and how many are limits, by these."""

    name: str
    n_rows: int
    n_missing: int
    below: Mapping[float, int]
    above: Mapping[float, int]
    n_without_limit: int = 0

    @property
    def share_censored(self) -> float:
        """The share of cells with something in them that are limits, or were not detected."""
        censored = sum(self.below.values()) + sum(self.above.values()) + self.n_without_limit
        return censored / max(self.n_rows - self.n_missing, 1)

    @property
    def limits(self) -> str:
        """The limits in words, each with how often it occurs."""
        words = [f"<{level:g} ({count})" for level, count in sorted(self.below.items())]
        words += [f">{level:g} ({count})" for level, count in sorted(self.above.items())]
        return ", ".join(words + [f"none ({self.n_without_limit})"] * bool(self.n_without_limit))


class ReadTable(FileSamples):
    """A table as :func:`unrelu.read_table` has understood it: its rows, for every estimator, and its cells.

    ``notes`` say in words how it was understood, and ``limits`` which limit a column has, where cells state one;
    ``facts`` has the numbers. ``labels`` are the columns that say which sample a row is of: ``cells()`` and
    ``to_frame()`` have them, and estimators do not see them.

    Examples
    --------
    >>> import pandas as pd
    >>> table = read_table(pd.DataFrame({"site": ["A", "B", "C"], "As": [0.5, 0.7, 0.5], "As_q": ["U", "", "U"]}))
    >>> table
    3 rows, 1 column: As (labels: site)
      As: limits <0.5 (2), 67 % censored
    read with what stands beside them: As (As_q); no measurements: site
    2 of 3 cells below a limit (0.5)
    >>> table.to_frame()["As"].tolist()
    ['<0.5', '0.7', '<0.5']
    """

    def __init__(self, tables: Sequence[TableFile], reading: Reading) -> None:
        super().__init__(tables, reading)
        self._parts, self._read = tuple(tables), reading
        first = tables[0].column_names or ()
        self.labels = tuple(
            name for name in first if name in tables[0].labels and name not in (self.feature_names or ())
        )

    @property
    def notes(self) -> list[str]:
        """How the table was understood, in at most three lines; of a plain one, what its text was read as."""
        return list(dict.fromkeys(note for table in self._parts for note in table.notes)) or super().notes

    def cells(self) -> dict[str, list[str]]:
        """Every column as text, labels first: "<0.5" for a limit, empty where a value is missing."""
        names = names_or_numbers(self.feature_names, self.n_features)
        wanted = dict(zip(names, self._places(), strict=True))
        found: dict[str, list[str]] = {name: [] for name in [*self.labels, *names]}
        for k, table in enumerate(self._parts):
            own = list(table.column_names or ())
            at = [own.index(name) for name in self.labels] + [wanted[name][k] for name in names]
            for _, columns in table.pieces((), _AT_A_TIME, at):
                for name, cells in zip(found, columns, strict=True):
                    found[name] += cells
        return found

    def _places(self) -> list[list[int]]:
        """Where every feature is in every file."""
        names = self.feature_names
        of = [list(table.column_names or map(str, range(table.n_columns))) for table in self._parts]
        keys = [str(at) for at in range(self.n_features)] if names is None else list(names)
        return [[each.index(key) for each in of] for key in keys]

    def to_frame(self) -> Any:
        """A pandas frame of the cells: numbers where a column holds nothing else, text such as "<0.5" elsewhere."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingDependencyError("to_frame() needs pandas: pip install pandas.") from error
        return pd.DataFrame(self._columns())

    @property
    def frame(self) -> Any:
        """The same as :meth:`to_frame`."""
        return self.to_frame()

    def write(self, path: PathLike) -> None:
        """Write the cells, by extension: csv, tsv (also gzipped), parquet, feather or arrow."""
        write_columns(path, [self._columns()])

    def _columns(self) -> dict[str, Any]:
        seen, names = self.seen(), names_or_numbers(self.feature_names, self.n_features)
        columns: dict[str, Any] = dict(self.cells())
        numbers = np.concatenate([block.values for block in self.blocks()])
        for at, name in enumerate(names):
            if at not in seen:
                columns[name] = numbers[:, at]
        return columns

    @property
    def facts(self) -> list[ColumnFacts]:
        """Of every column: rows, missing cells, limits and how often each occurs."""
        seen, names = self.seen(), names_or_numbers(self.feature_names, self.n_features)
        missing, rows = np.zeros(self.n_features, int), 0
        places = np.array(self._places()).T.tolist()
        for table, at in zip(self._parts, places, strict=True):
            for values, _ in table.pieces(at, _AT_A_TIME):
                missing += (np.isnan(values.real) & (values.imag == 0.0)).sum(axis=0)
                rows += len(values)
        found = []
        for at, name in enumerate(names):
            cells = seen.get(at)
            below, above = ({}, {}) if cells is None else (dict(cells.below), dict(cells.above))
            found.append(ColumnFacts(name, rows, int(missing[at]), below, above, cells.n_not_detected if cells else 0))
        return found

    def table(self) -> Table:
        """The facts as a table for a terminal or a notebook."""
        lines = [[each.name, each.limits, f"{each.share_censored:.0%}", f"{each.n_missing:,}"] for each in self.facts]
        return Table(("<column", "limits (cells)", ">censored", ">missing"), lines, most=40)

    def headline(self, n_rows: int) -> str:
        """How many rows and columns there are."""
        from unrelu.validation import counted, listed

        names = listed(names_or_numbers(self.feature_names, self.n_features), most=8)
        labels = f" (labels: {listed(self.labels, most=8)})" if self.labels else ""
        return f"{counted(n_rows, 'row')}, {counted(self.n_features, 'column')}: {names}{labels}"

    def __repr__(self) -> str:
        facts = self.facts
        censored = [each for each in facts if each.limits]
        lines = [f"  {each.name}: limits {each.limits}, {each.share_censored:.0%} censored" for each in censored[:12]]
        lines = [line.replace("%", " %") for line in lines]
        lines += [f"  ... and {len(censored) - 12} more"] * (len(censored) > 12)
        return "\n".join([self.headline(facts[0].n_rows), *lines, *self.notes])

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + "".join(f"<p>{note}</p>" for note in self.notes)


def read_table(
    source: Any,
    *,
    flags: Mapping[str, str] | None = None,
    duplicates: str | None = None,
    sample: str | Sequence[str] | None = None,
    columns: ColumnKey | Sequence[ColumnKey] | None = None,
    drop: ColumnKey | Sequence[ColumnKey] | None = None,
    header: bool | None = None,
    decimal: str | None = None,
    limits: str | None = None,
    nondetect: str | float | Mapping[str, float] | None = None,
    sheet: str | int | None = None,
) -> ReadTable:
    """Read a table as a laboratory delivers it, say how it was understood, and give its rows to any estimator.

    Flags beside the values (U, ND, <, TRUE), columns of limits, ends of intervals, a row for each value, units below
    the header, titles above it, half-limits that pose as values: what is recognized without an option is listed in
    docs/tables.md. ``open_samples``, estimators that are given a frame, and the command line read by the same rules.

    Parameters
    ----------
    source : path, sequence of paths, or frame of pandas or polars
        Files as :func:`unrelu.tables.open_samples` takes them.
    flags : dict of str to str, optional
        What codes of flags mean that are not known, or mean something else here: "censored" (the value is a limit),
        "above" (it is an upper limit), "seen" or "missing", as in ``flags={"K": "censored"}``.
    duplicates : "mean", "first" or the name of a column, optional
        What becomes of two values of one sample and analyte in a table with a row for each value; an error by default.
        A column keeps them apart as rows of their own.
    sample : name of a column, or several, optional
        Which columns of such a table tell samples apart, where their names do not say so.
    columns : names or numbers of columns, optional
        The columns to keep, in this order, of the table as it was understood. A column that is named here, or in
        ``drop``, is no flag and no limit of another one.
    drop : names or numbers of columns, optional
        Columns to leave out.
    header : bool, optional
        Whether the first line of a text names the columns; found by the file itself by default.
    decimal : "." or ",", optional
        The decimal mark of text; found by the file itself by default.
    limits : "one", "highest", "missing" or "cell", optional
        What becomes of cells such as "<0.25", as for :func:`unrelu.tables.open_samples`.
    nondetect : "missing", "floor", a number, or numbers by column, optional
        What cells such as "ND" without a limit are, likewise.
    sheet : name or number of a sheet, optional
        Of an Excel file.

    Returns
    -------
    ReadTable
        The rows. Printed, it tells columns, limits and shares of censored cells; ``to_frame()`` has the cells,
        ``notes`` say what was understood, and ``write()`` writes a clean table.

    Raises
    ------
    InputFileError, InvalidDataError
        Where a file or a frame contradicts itself: a flag without a value, a non-detect above its limit, a limit below
        0, an interval whose lower end is above the upper one, two values of a sample and analyte, several units of an
        analyte. The message names row and column.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.csv"
    >>> _ = path.write_text('''Sample;Parameter;Result;Unit;LOQ
    ... S1;As;0,7;mg/l;0,5
    ... S1;Pb;<0,1;mg/l;0,1
    ... S2;As;ND;mg/l;0,5
    ... S2;Pb;0,3;mg/l;0,1
    ... ''')
    >>> table = read_table(path)
    >>> table.cells()
    {'Sample': ['S1', 'S2'], 'As': ['0.7', '<0.5'], 'Pb': ['<0.1', '0.3']}
    >>> table.limits
    CellLimits(floor=((0, 0.5), (1, 0.1)), ceiling=())
    >>> print(table.notes[1])
    2 of 4 cells below a limit (0.1, 0.5)
    """
    if isinstance(flags, str):
        raise InvalidParameterError("flags must be a dict such as {'K': 'censored'}.", parameter="flags")
    keys = (sample,) if isinstance(sample, str) else tuple(sample or ())
    keep, out = ((each,) if isinstance(each, str | int) else tuple(each or ()) for each in (columns, drop))
    named = frozenset(each for each in (*keep, *out) if isinstance(each, str))
    delivery = Delivery(dict(flags or {}), duplicates, keys, named, labels=True)
    reading = Reading(keep, out, (), header, decimal, limits, nondetect, sheet, delivery=delivery)
    tables = list(_tables(source, reading))
    table = ReadTable(tables, reading)
    warn_of_nondetects(table.seen(), names_or_numbers(table.feature_names, table.n_features), reading)
    return table


def _tables(source: Any, reading: Reading) -> Iterable[TableFile]:
    if hasattr(source, "columns") or type(source).__name__ == "LazyFrame":
        yield _frame_table(collected(source), reading)
        return
    if not isinstance(source, str | os.PathLike | Sequence):
        raise InvalidParameterError(
            f"source must be paths or a frame, got {type(source).__name__}.", parameter="source"
        )
    names = files_of(source)
    if are_sparse(names):
        raise InputFileError(f"{names[0]}: a sparse table is no laboratory's: open_samples reads it.")
    opened = [open_table(name, reading) for name in names]
    if all(table.is_empty for table in opened):
        raise InputFileError(f"{opened[0].name}: has columns but no rows. Add rows, or leave the file out.")
    yield from (table for table in opened if not table.is_empty)


def _frame_table(frame: Any, reading: Reading) -> GridTable:
    """A frame as a table of text that was made plain."""
    delivery: Delivery = reading.delivery
    grid = frame_grid(frame, reading.decimal or ".")
    if not grid.columns or not grid.n_rows:
        raise InvalidDataError("The frame has no rows or no columns.")
    try:
        plain = plain_table(grid, delivery)
    except Refused as refused:
        said = str(refused)
        raise InvalidDataError(said[0].upper() + said[1:]) from refused
    assert plain is not None, "labels make every table one"
    return GridTable(plain, "the frame")
