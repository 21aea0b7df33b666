"""Which cell or row of a csv file is at fault, in one clear line.

Fast csv readers say that a file cannot be converted, but not reliably where. Only once they
have failed, the file is read again here, slowly, up to the first fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unrelu.samples.cells import PLAIN_MISSING, read_cell
from unrelu.samples.columns import column_phrase, without

# The fast reader compares whole cells with this list, for every column anew: up to two spaces on
# either side are listed too, more would make tables of many thousand columns slow to open.
PADDED_MISSING = tuple(
    dict.fromkeys(padded for word in PLAIN_MISSING for n in range(3) for padded in (" " * n + word, word + " " * n))
)
Lines = Iterable[tuple[int, Sequence[str]]]
"""Rows, and the lines in which they end."""


def row_and_line(row: int, line: int) -> str:
    """How messages about files call a row: rows are counted from 1, below the header; lines include it.

    >>> row_and_line(17, 18)
    'row 17 (line 18)'
    """
    return f"row {row:,} (line {line:,})"


def first_fault(
    rows: Lines, names: Sequence[str] | None, n_columns: int, wanted: Sequence[int], decimal: str = "."
) -> str | None:
    """Describe the first ragged row, or the first wanted cell that cannot be read; None if there is none.

    >>> print(first_fault([(2, ["1", "2"]), (3, ["3", "abc"])], ["Pb", "As"], 2, [0, 1]))
    row 2 (line 3), column 'As': 'abc' is not a number. Fix it, leave the column out with drop='As', or keep it as text\
 with id='As'.
    """
    for number, (line, row) in enumerate(rows, start=1):
        where = row_and_line(number, line)
        if len(row) != n_columns:
            return f"{where} {_ragged(len(row), names, n_columns)}"
        for position in sorted(wanted):
            if read_cell(row[position], decimal) is None:
                return f"{where}, {column_phrase(names, position)}: {_unreadable(row, names, position, decimal)}"
    return None


def first_limit(rows: Lines, names: Sequence[str] | None, wanted: Sequence[int], decimal: str) -> str:
    """The first cell that states a limit."""
    for number, (line, row) in enumerate(rows, start=1):
        for position in sorted(wanted):
            cell = read_cell(row[position], decimal)
            if cell is not None and cell.kind in ("below", "above"):
                return (
                    f"{row_and_line(number, line)}, {column_phrase(names, position)}: the first limit {row[position]!r}"
                )
    raise LookupError("no limit")


def _ragged(n_cells: int, names: Sequence[str] | None, n_columns: int) -> str:
    other = "the first row" if names is None else "the header"
    cells = "1 cell" if n_cells == 1 else f"{n_cells} cells"
    return f"has {cells}, but {other} has {n_columns}. Give all rows as many cells."


def _unreadable(row: Sequence[str], names: Sequence[str] | None, position: int, decimal: str) -> str:
    cell = row[position]
    text = repr(cell if len(cell) <= 60 else cell[:57] + "...")
    other = "." if decimal == "," else ","
    if read_cell(cell, other) is not None:
        return f"{text} is not a number with the decimal mark {decimal!r}. If it is {other!r}, say decimal={other!r}."
    return (
        f"{text} is not a number. Fix it, leave the column out with {without(names, position)}, or keep it as text with"
        f" {without(names, position, 'id')}."
    )
