"""How a text table is written, told from its first rows: separator, decimal mark, and whether it has a header."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, prod

from unrelu.tables.cells import decimal_vote, read_cell

_SEPARATORS = ",;\t|"
Rows = list[list[str]]
_WHOLE = re.compile(r"\s*\d+\s*", re.ASCII)
FEWEST_ROWS = 5  # below the first, to judge it by
_NEARLY_ALL, _UNLIKE = 0.8, 0.5  # columns that are unlike the first row: of such a chance at most to be like it
_BY_CHANCE, _BY_CHANCE_RISING = 0.01, 0.1  # that a row of data consists of whole numbers; of such that rise by ones
_MANY_ROWS = 10  # that show whether whole numbers come together, as large ones do
_RISING = 0.05  # of the rows of a table, where one that rises by a constant step is nothing special


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

    It names them if it consists of different whole numbers above columns of which nearly all have fractions or are of
    quite another magnitude, as no row below does. It may name them if it rises by a constant step.

    >>> below = [["0.5", "7.5"], ["0.25", "8"], ["0", "9.5"], ["1.5", "7"], ["1", "8.5"]]
    >>> numeric_header([["1", "2"], *below], "."), numeric_header([["2010", "2030"], *below], ".")
    (True, True)
    >>> numeric_header([["0.5", "2"], *below], ".")
    False
    """
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if not _different_wholes(first) or len(body) < FEWEST_ROWS:
        return False
    numbers = [int(cell) for cell in first]
    columns = [
        _Column.of(cells, number, decimal) for number, cells in zip(numbers, zip(*body, strict=True), strict=True)
    ]
    if all(column.far for column in columns):
        return True
    chance = prod(column.chance for column in columns)  # that a row of data is like this one
    fractional = sum(column.has_fractions for column in columns)
    if _step(first) == 1 and 2 * fractional >= len(first) and chance < _BY_CHANCE_RISING:
        return True
    unlike = sum(column.chance <= _UNLIKE for column in columns) >= _NEARLY_ALL * len(columns)
    if unlike and chance < _BY_CHANCE and len(body) >= _MANY_ROWS and not any(map(_different_wholes, body)):
        return True
    rising = sum(_step(row) is not None for row in body)
    return None if len(first) > 2 and _step(first) is not None and rising <= _RISING * len(body) else False


def _different_wholes(row: Sequence[str]) -> bool:
    """Whether a row consists of different whole numbers, two or more."""
    return len(row) > 1 and all(map(_WHOLE.fullmatch, row)) and len({int(cell) for cell in row}) == len(row)


def _step(row: Sequence[str]) -> int | None:
    """The step by which a row of whole numbers rises; None where it does not, or by several.

    >>> _step(["1990", "1995", "2000"]), _step(["1", "2", "4"]), _step(["3", "2", "1"])
    (5, None, None)
    """
    if not _different_wholes(row):
        return None
    steps = {int(b) - int(a) for a, b in pairwise(row)}
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else None


@dataclass(frozen=True)
class _Column:
    """The cells below a number of the first row: how likely one of them is a whole number as that one is.

    ``far``: the number lies outside of their range by more than the range. Numbers at the bottom of a column, such as
    zeros, do not count, unless the first one is there as well.
    """

    chance: float
    far: bool
    has_fractions: bool

    @classmethod
    def of(cls, cells: Sequence[str], number: int, decimal: str) -> _Column:
        read = [cell if cell is None else cell.value for cell in (read_cell(cell, decimal) for cell in cells)]
        values = [value for value in read if value is not None and isfinite(value)]
        if not values:
            return cls(1.0, False, False)
        low, high = min(values), max(values)
        # Where numbers rise from row to row, the first is outside as well, but not by so much.
        far = not 2 * low - high <= number <= 2 * high - low
        whole = sum(value.is_integer() and (value != low or number == low) for value in values)
        chance = 0.0 if far else whole
        return cls((chance + 0.5) / (len(values) + 1.0), far, not all(map(float.is_integer, values)))
