"""How a text table is written, told from its first rows: separator, decimal mark, and whether it has a header."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise

from unrelu.samples.cells import decimal_vote, read_cell

_SEPARATORS = ",;\t|"
Rows = list[list[str]]
_WHOLE = re.compile(r"\s*\d+\s*", re.ASCII)
_FRACTION = re.compile(r"\s*[<>]?\s*[+-]?\d*[.,]\d*[1-9]\d*(e.*)?\s*", re.ASCII | re.IGNORECASE)
_FEWEST_ROWS = 5  # below the first, to judge it by


def separator(rows_by: Callable[[str], Rows], usual: str) -> tuple[str, Rows]:
    """What separates cells: the usual mark, unless another one cuts the rows evenly where that does not.

    ``rows_by`` gives the first rows, cut by a mark; they are given back as well.
    """
    rows = rows_by(usual)
    first = "".join("".join(row) for row in rows[:1])
    others = [mark for mark in _SEPARATORS if mark != usual and mark in first]
    best = (_evenness(rows), usual, rows) if others else ((True, 1.0), usual, rows)
    for mark in others:
        with suppress(csv.Error):
            cut = rows_by(mark)
            if _evenness(cut) > best[0]:
                best = (_evenness(cut), mark, cut)
    return best[1:]


def _evenness(rows: Rows) -> tuple[bool, float]:
    """Whether all rows have the same number of cells, two or more; and the share of cells that can be read."""
    widths = {len(row) for row in rows}
    body = [cell for row in rows[1:] or rows for cell in row]
    readable = sum(read_cell(cell) is not None or read_cell(cell, ",") is not None for cell in body)
    return len(widths) == 1 and widths != {1}, readable / max(len(body), 1)


def decimal_mark(rows: Rows, mark: str) -> str:
    """The decimal mark: a comma where cells show one and none shows a point, or could do so between semicolons.

    >>> decimal_mark([["a", "b"], ["0,25", "<1,5"]], ";"), decimal_mark([["1,234", "0.5"]], ",")
    (',', '.')
    """
    if not any("," in cell for row in rows for cell in row):
        return "."
    cells = [cell for row in rows for cell in row if "," in cell or "." in cell]
    votes = {decimal_vote(cell) for cell in cells}
    if votes & {".", ","}:
        return "," if "," in votes and "." not in votes else "."
    commas = any("," in cell and read_cell(cell, ",") is not None for cell in cells)
    return "," if commas and mark == ";" else "."


def is_data(row: Sequence[str], decimal: str) -> bool:
    """Whether a first row holds cells of a table, and one of them a number or a limit: not what columns are called."""
    cells = [read_cell(cell, decimal) for cell in row]
    kinds = {None if cell is None else cell.kind for cell in cells}
    return None not in kinds and bool(kinds & {"number", "grouped", "below", "above"})


def numeric_header(rows: Rows, decimal: str) -> bool | None:
    """Whether the first row, though numbers, names the columns; None where that is open, and data the better guess.

    It names them if it consists of different whole numbers and either runs up by ones above columns of which half
    have fractions, or lies far outside the range of every column.

    >>> below = [["0.5", "7.5"], ["0.25", "8"], ["0", "9.5"], ["1.5", "7"], ["1", "8.5"]]
    >>> numeric_header([["1", "2"], *below], "."), numeric_header([["2010", "2030"], *below], ".")
    (True, True)
    >>> numeric_header([["0.5", "2"], *below], ".")
    False
    """
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if len(first) < 2 or len(set(first)) < len(first) or not all(map(_WHOLE.fullmatch, first)):
        return False
    numbers = [int(cell) for cell in first]
    runs = all(b - a == 1 for a, b in pairwise(numbers))
    if len(body) < _FEWEST_ROWS:
        return False
    columns = list(zip(*body, strict=True))
    fractions = sum(any(map(_FRACTION.fullmatch, column)) for column in columns)
    if runs and 2 * fractions >= len(first):
        return True
    if all(_far_outside(number, column, decimal) for number, column in zip(numbers, columns, strict=True)):
        return True
    return None if runs and len(first) > 2 and numbers[0] <= 1 else False


def _far_outside(number: int, column: Sequence[str], decimal: str) -> bool:
    """By more than the range itself: where numbers rise from row to row, the first is outside as well."""
    cells = [read_cell(cell, decimal) for cell in column]
    values = [cell.value for cell in cells if cell is not None and cell.value == cell.value]
    if not values:
        return False
    low, high = min(values), max(values)
    return not 2 * low - high <= number <= 2 * high - low
