"""Excel sheets, put aside as csv, so that their cells are read as those of any text table."""

from __future__ import annotations

import csv
import datetime
import os
import tempfile
from typing import Any

from unrelu.errors import InputFileError, MissingDependencyError
from unrelu.tables.csv_file import CsvFile, kept_aside
from unrelu.tables.reading import Reading
from unrelu.tables.table_file import first_line
from unrelu.validation import suggestion


def excel_file(path: str, reading: Reading) -> CsvFile:
    """One sheet of an Excel file: the first by default. Its rows keep their numbers, as lines."""
    try:
        import python_calamine as calamine
    except ImportError as error:
        raise MissingDependencyError(
            f'{path}: Excel files need python-calamine: pip install "unrelu[xlsx]".'
        ) from error
    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            name = _sheet_name(path, book.sheet_names, reading.sheet)
            rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except (calamine.CalamineError, OSError) as error:
        raise InputFileError(f"{path}: not a whole Excel file ({first_line(error)}).") from error
    if not any(any(cell != "" for cell in row) for row in rows):
        raise InputFileError(f"{path}: there is nothing in the sheet {name!r}. Name another one with sheet=.")
    handle, aside = tempfile.mkstemp(prefix="unrelu-", suffix=".csv")
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as spool:
        writer = csv.writer(spool, lineterminator="\n")
        for row in rows:
            cells = [_text(cell) for cell in row]
            writer.writerow(cells if any(cells) else [])
    return kept_aside(aside, path, reading)


def _sheet_name(path: str, names: list[str], asked: str | int | None) -> str:
    if asked is None or isinstance(asked, int):
        if 0 <= (asked or 0) < len(names):
            return names[asked or 0]
        raise InputFileError(f"{path}: no sheet number {asked}; it has {len(names)}, counted from 0.")
    if asked not in names:
        raise InputFileError(f"{path}: no sheet {asked!r}. {suggestion(asked, names, 'Its sheets are')}")
    return asked


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))  # Excel knows no whole numbers, but names and years are
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return " ".join(cell.split("\n")) if isinstance(cell, str) else str(cell)  # one line for each row of the sheet
