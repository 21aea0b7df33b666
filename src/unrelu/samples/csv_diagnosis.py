"""Which cell or row of a csv file is at fault, in one clear line.

Fast csv readers say that a file cannot be converted, but not reliably where. Only once they
have failed, the file is read again here, slowly, up to the first fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unrelu.samples.columns import column_phrase, without

MISSING = ("", "NA", "NaN", "nan", "null", "N/A")
# The fast reader compares whole cells with this list, for every column anew: up to two spaces on
# either side are listed too, more would make tables of many thousand columns slow to open.
PADDED_MISSING = tuple(
    dict.fromkeys(padded for word in MISSING for n in range(3) for padded in (" " * n + word, word + " " * n))
)
_MISSING_SET = frozenset(PADDED_MISSING)
_NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)\s*", re.IGNORECASE | re.ASCII)
_BELOW_LIMIT = re.compile(r"\s*<\s*[\d.]")


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number.

    >>> is_number(" -1.5e3"), is_number("1,000"), is_number("abc"), is_number("")
    (True, False, False, False)
    """
    return _NUMBER.fullmatch(cell) is not None


def is_missing(cell: str) -> bool:
    return cell in _MISSING_SET


def first_fault(
    rows: Iterable[Sequence[str]], names: Sequence[str] | None, n_columns: int, wanted: Sequence[int]
) -> str | None:
    """Describe the first ragged row, or the first wanted cell that is no number; None if there is none.

    >>> first_fault([["1", "2"], ["3", "abc"]], ["Pb", "As"], 2, [0, 1])
    "row 2, column 'As': 'abc' is not a number. Fix the cell, or leave the column out with drop='As'."
    """
    for number, row in enumerate(rows, start=1):
        if len(row) != n_columns:
            return _ragged(number, len(row), names, n_columns)
        for position in sorted(wanted):
            cell = row[position]
            if not (is_number(cell) or is_missing(cell)):
                where = f"row {number}, {column_phrase(names, position)}"
                return f"{where}: {_not_a_number(cell, names, position)}"
    return None


def _ragged(number: int, n_cells: int, names: Sequence[str] | None, n_columns: int) -> str:
    other = "the first row" if names is None else "the header"
    cells = "1 cell" if n_cells == 1 else f"{n_cells} cells"
    return f"row {number} has {cells}, but {other} has {n_columns}. Give all rows as many cells."


def _not_a_number(cell: str, names: Sequence[str] | None, position: int) -> str:
    text = repr(cell if len(cell) <= 60 else cell[:57] + "...")
    if _BELOW_LIMIT.match(cell):
        return f"{text} is not a number: replace it by the limit itself and pass that limit as the floor."
    advice = without(names, position)
    return f"{text} is not a number. Fix the cell, or leave the column out with {advice}."
