"""Which cells, columns or rows of a table are at fault, in one message, with what to do about all of them.

Fast csv readers say that a file cannot be converted, but not reliably where. Only once they have failed, the file is
read again here, slowly, from the first row to some rows beyond the first fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from unrelu.tables.cells import PLAIN_MISSING, read_cell
from unrelu.tables.columns import column_phrase, without
from unrelu.validation import counted, listed

# The fast reader compares whole cells with this list, for every column anew: up to two spaces on
# either side are listed too, more would make tables of many thousand columns slow to open.
PADDED_MISSING = tuple(
    dict.fromkeys(padded for word in PLAIN_MISSING for n in range(3) for padded in (" " * n + word, word + " " * n))
)
Lines = Iterable[tuple[int | None, Sequence[str]]]
"""Rows, and the lines in which they end, if they have any."""

NO_COLUMN = "No column of numbers is left: choose another table, or other columns."
_MORE_CELLS, _MORE_ROWS = 2**18, 20  # that are looked at once there is a fault; rows at least


def row_and_line(row: int, line: int | None) -> str:
    """How messages about files call a row: rows are counted from 1, below the header; lines include it.

    >>> row_and_line(17, 18), row_and_line(17, None)
    ('row 17 (line 18)', 'row 17')
    """
    return f"row {row:,}" if line is None else f"row {row:,} (line {line:,})"


class Held(NamedTuple):
    """What a column holds that is not numbers, and a cell that shows it."""

    kind: str
    shown: str = ""


class Faults:
    """Cells that are no numbers, told apart: columns of text, and single bad cells among numbers.

    >>> faults = Faults()
    >>> for row, (site, lead) in enumerate([("a", "1"), ("b", "x"), ("c", "2")], start=1):
    ...     faults.look(f"row {row}", 0, site)
    ...     faults.look(f"row {row}", 1, lead)
    >>> faults.texts()
    {0: Held(kind='text', shown="row 1: 'a'")}
    >>> print(faults.first_cell(["site", "Pb"]))
    row 2, column 'Pb': 'x' is not a number. Correct the cell, or empty it if its value is missing.
    """

    def __init__(self, decimal: str = ".", emptied: str = "empty {}") -> None:
        self._emptied = emptied  # what is done with a cell without a value
        self._decimal, self._other = decimal, "." if decimal == "," else ","
        self._numbers: Counter[int] = Counter()
        self._bad: Counter[int] = Counter()  # but for those with the other decimal mark
        self._first: dict[int, tuple[str, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._first)

    def look(self, where: str, position: int, text: str) -> None:
        """Count a cell."""
        cell = read_cell(text, self._decimal)
        if cell is None:
            self.add_bad(where, position, text, int(read_cell(text, self._other) is None))
        else:
            self.add_numbers(position, int(cell.kind != "missing"))

    def add_numbers(self, position: int, count: int) -> None:
        """Count cells that are numbers."""
        self._numbers[position] += count

    def add_bad(self, where: str, position: int, text: str, count: int = 1) -> None:
        """Count a cell that is none."""
        self._bad[position] += count
        self._first.setdefault(position, (where, text))

    def texts(self) -> dict[int, Held]:
        """The columns that hold text rather than numbers."""
        columns = [position for position in sorted(self._first) if self._bad[position] > self._numbers[position]]
        return {each: Held("text", f"{self._first[each][0]}: {_quoted(self._first[each][1])}") for each in columns}

    def first_cell(self, names: Sequence[str] | None) -> str | None:
        """The first bad cell of the other columns; in the first row of a table without names it may be one."""
        texts = self.texts()
        cells = {position: first for position, first in self._first.items() if position not in texts}
        if not cells:
            return None
        position, (where, text) = next(iter(cells.items()))
        place = f"{where}, {column_phrase(names, position)}: {_quoted(text)}"
        if read_cell(text, self._other) is not None:
            return (
                f"{place} is not a number with the decimal mark {self._decimal!r}. If it is {self._other!r}, say"
                f" decimal={self._other!r}."
            )
        more = sum(self._bad[each] for each in cells) - 1
        others = f", nor {'is' if more == 1 else 'are'} {counted(more, 'more cell')} in {_columns(cells, names)}"
        cell, those, whose = ("cells", "those", "whose") if more else ("cell", "it", "if its")
        correct = f"orrect the {cell}, or {self._emptied.format(those)} {whose} value"
        header = names is None and where.startswith("row 1 (")
        remedy = (
            f"If the first line names the columns, say header=True; if not, c{correct}" if header else f"C{correct}"
        )
        return f"{place} is not a number{others if more else ''}. {remedy} is missing."


def not_numbers(held: Mapping[int, Held], names: Sequence[str] | None, remedy: str) -> str:
    """Columns that are not numbers, all in one sentence, and the remedy.

    >>> not_numbers({0: Held("text", "row 1: 'a'"), 2: Held("dates or times")}, ["site", "As", "day"], "Drop them.")
    "columns 'site' (text, row 1: 'a'), 'day' (dates or times) hold no numbers. Drop them."
    """
    if len(held) == 1:
        ((position, what),) = held.items()
        shown = f" ({what.shown})" if what.shown else ""
        return f"{column_phrase(names, position)} holds {what.kind}{shown}, not numbers. {remedy}"
    each = [f"{_called(names, j)} ({', '.join(filter(None, what))})" for j, what in held.items()]
    counted_from = " (the first is 0)" if names is None and "the first is 0" not in each[0] else ""
    return f"columns {listed(each, most=12)}{counted_from} hold no numbers. {remedy}"


def without_columns(held: Mapping[int, Held], names: Sequence[str] | None) -> str:
    """The parameters of open_samples that leave columns of a file out, or keep them as text.

    >>> without_columns({0: Held("text"), 1: Held("dates or times")}, ["site", "day"])
    "Leave them out with drop=['site', 'day'], or keep them as text with id=['site', 'day']."
    """
    them = "it" if len(held) == 1 else "them"
    as_text = not any("values" in what.kind for what in held.values())
    keep = f", or keep {them} as text with {without(names, held, 'id')}" if as_text else ""
    return f"Leave {them} out with {without(names, held)}{keep}."


def first_fault(
    rows: Lines,
    names: Sequence[str] | None,
    n_columns: int,
    wanted: Sequence[int],
    decimal: str = ".",
    unnamed: Sequence[int] = (),
) -> str | None:
    """Describe the first ragged row, or all wanted columns that hold text and the first other bad cell; None if none.

    Columns of text are told by some rows beyond the first fault. ``unnamed`` are wanted columns without a name.

    >>> print(first_fault([(2, ["1", "2"]), (3, ["3", "abc"])], ["Pb", "As"], 2, [0, 1]))
    row 2 (line 3), column 'As': 'abc' is not a number. Correct the cell, or empty it if its value is missing.
    >>> print(first_fault([(2, ["a", "2"]), (3, ["b", "3"])], ["site", "As"], 2, [0, 1]))
    column 'site' holds text (row 1 (line 2): 'a'), not numbers. Leave it out with drop='site', or keep it as text with\
 id='site'.
    """
    faults = Faults(decimal)
    looked_at = sorted(set(wanted) - set(unnamed))
    left = max(_MORE_ROWS, _MORE_CELLS // max(len(looked_at), 1))
    for number, (line, row) in enumerate(rows, start=1):
        where = row_and_line(number, line)
        if len(row) != n_columns:
            if faults or unnamed:
                break
            return f"{where} {_ragged(len(row), names, n_columns)}"
        for position in looked_at:
            faults.look(where, position, row[position])
        left -= bool(faults or unnamed)
        if not left:
            break
    return sentences(_columns_at_fault(faults.texts(), unnamed, names, n_columns), faults.first_cell(names))


def _columns_at_fault(
    texts: Mapping[int, Held], unnamed: Sequence[int], names: Sequence[str] | None, n_columns: int
) -> str | None:
    if unnamed and not texts and len(unnamed) == 1:
        (position,) = unnamed
        return (
            f"column {position + 1} from the left has no name (is it a row index?). Name it, leave it out with"
            f" {without(names, unnamed)}, or keep it as text with {without(names, unnamed, 'id')}."
        )
    held = {position: Held("no name, is it a row index?") for position in unnamed} | dict(texts)
    if not held:
        return None
    if len(held) == n_columns:
        return not_numbers(held, names, NO_COLUMN)
    return not_numbers(held, names, without_columns(held, names))


def sentences(columns: str | None, cell: str | None) -> str | None:
    """What is said of columns and of a cell, one after the other."""
    return f"{columns} {cell[0].upper()}{cell[1:]}" if columns and cell else columns or cell


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


def _called(names: Sequence[str] | None, position: int) -> str:
    return f"number {position}" if names is None else f"{names[position]!r}"


def _columns(positions: Iterable[int], names: Sequence[str] | None) -> str:
    every = sorted(positions)
    if len(every) == 1:
        return "it"
    return f"columns {listed((_called(names, each) for each in every), most=8)}"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
