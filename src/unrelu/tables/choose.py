"""Which columns and which rows of table files are read: by name, by the keys of their folders, by a condition.

Conditions are not pyarrow's, so that they hold of every kind of file: NumPy's files are read where pyarrow is not
installed, and a cell such as "<0.25" is compared as its number.
"""

from __future__ import annotations

import ast
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import compress
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InputFileError, InvalidDataError, InvalidParameterError
from unrelu.tables.cells import PLAIN_MISSING, ColumnKey, Reading, at_limits, column_phrase, plain_float
from unrelu.tables.table_file import Piece, TableFile, without
from unrelu.validation import suggestion

# --- columns ----------------------------------------------------------------------------------------


def match_columns(tables: Sequence[TableFile], reading: Reading) -> tuple[list[list[int]], list[dict[str, int]]]:
    """Positions, in every file, of the columns of numbers, and by name of the columns of text.

    The first file determines the columns and their order; the others are matched by name.
    """
    first = tables[0]
    places = [_places(table) for table in tables]
    keep = [_label(first, key, places[0]) for key in reading.columns]
    ids = list(dict.fromkeys(_label(first, key, places[0]) for key in reading.ids))
    for label in [label for label in keep if label in ids]:
        raise InputFileError(
            f"{first.name}: {column_phrase(first.column_names, places[0][label])} is among columns= and id=: leave it"
            " out of one of them."
        )
    drop = {_label(first, key, set().union(*places)) for key in reading.drop} | {*ids}
    features = keep or [label for label in places[0] if label not in first.labels]
    wanted = [label for label in dict.fromkeys(features) if label not in drop]
    if not wanted:
        raise InputFileError(f"{first.name}: no column is left to read. Drop fewer columns.")
    for table, place in zip(tables[1:], places[1:], strict=True):
        accounted = places[0].keys() | drop | table.labels
        extra = [] if keep else [label for label in place if label not in accounted]
        _refuse_other_columns(first, table, [label for label in [*wanted, *ids] if label not in place], extra)
    prefix = "id" if first.column_names is None else ""
    return (
        [[place[label] for label in wanted] for place in places],
        [{f"{prefix}{label}": place[label] for label in ids} for place in places],
    )


def _places(table: TableFile) -> dict[str, int]:
    """Label -> position, where columns without names are labelled by their number."""
    if table.column_names is None:
        return {str(position): position for position in range(table.n_columns)}
    places: dict[str, int] = {}
    for position, name in enumerate(table.column_names):
        if places.setdefault(name, position) != position:
            raise InputFileError(
                f"{table.name}: the column name {name!r} occurs twice "
                f"(columns {places[name] + 1} and {position + 1} from the left). Rename one of them."
            )
    return places


def _label(table: TableFile, key: ColumnKey, labels: Iterable[str]) -> str:
    """The label that ``key`` stands for; a number means that column of the first file."""
    names = table.column_names
    if isinstance(key, str) and key in labels:
        return key
    if isinstance(key, int) and 0 <= key < table.n_columns:
        return str(key) if names is None else names[key]
    if isinstance(key, int) or names is None:
        raise InputFileError(f"{table.name}: no column number {key}; it has {table.n_columns}, counted from 0.")
    raise InputFileError(f"{table.name}: no column {key!r}. {suggestion(key, names, 'Its columns are', most=8)}")


def _refuse_other_columns(first: TableFile, table: TableFile, absent: list[str], extra: list[str]) -> None:
    if (table.column_names is None) != (first.column_names is None):
        bare, named = (table, first) if table.column_names is None else (first, table)
        raise InputFileError(
            f"{bare.name}: has no column names, but {named.name} has. Give all files the same columns."
        )
    if absent:
        names, position = first.column_names, _places(first)[absent[0]]
        raise InputFileError(
            f"{table.name}: has no {column_phrase(names, position)}, but {first.name} has. Add it, or leave it out"
            f" everywhere with {without(names, [position])}."
        )
    if extra:
        names, position = table.column_names, _places(table)[extra[0]]
        raise InputFileError(
            f"{table.name}: has {column_phrase(names, position)}, but {first.name} has not. Leave it out with"
            f" {without(names, [position])}."
        )


# --- conditions of rows ---------------------------------------------------------------------------------


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: operator.eq,
    ast.NotIn: operator.eq,
}
_EXAMPLE = "site == 'A' and (dose > 3 or year in [2023, 2024]); a name with spaces stands in `backquotes`"

Column = tuple[str, bool]
"""A column's name, and whether it is compared as text."""
Cells = tuple[NDArray[Any], NDArray[np.bool_]]
"""The cells of a column, and which of them are not missing."""
Answer = Callable[[Mapping[Column, Cells]], NDArray[np.floating[Any]]]
"""Cells of rows -> 1 for rows that meet a condition, 0 for those that do not, 0.5 where a missing cell decides."""


class Condition:
    """Comparisons of a row's cells, joined by and, or, not.

    The text is parsed as a Python expression and never run: anything but comparisons is refused. A column is compared
    as text with a text, as numbers with a number. A missing cell meets no comparison, and no negation of one, as in SQL
    (Kleene's logic).
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: set[Column] = set()
        # What stands in backquotes, by a name that Python can parse.
        self._quoted = {f"__{k}__": name for k, name in enumerate(dict.fromkeys(re.findall(r"`([^`]+)`", text)))}
        for name, quoted in self._quoted.items():
            text = text.replace(f"`{quoted}`", name)
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise self._refusal("cannot be read") from error
        self.holds: Answer = self._read(tree)

    def __reduce__(self) -> tuple[Any, ...]:
        return Condition, (self.text,)

    def _refusal(self, why: str) -> InvalidParameterError:
        return InvalidParameterError(f"where={self.text!r} {why}. Write comparisons such as {_EXAMPLE}.")

    def _read(self, node: ast.expr) -> Answer:
        join: Any = np.minimum
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._read(operand)
                return lambda cells: 1.0 - inner(cells)
            case ast.BoolOp(op=op, values=values):
                parts = [self._read(each) for each in values]
                join = np.minimum if isinstance(op, ast.And) else np.maximum
            case ast.Compare(left=left, ops=ops, comparators=others):
                parts = [self._compared(*pair) for pair in zip([left, *others], ops, others, strict=False)]
            case _:
                raise self._refusal("has a part that is no comparison")
        return lambda cells: join.reduce([part(cells) for part in parts])

    def _compared(self, left: ast.expr, by: ast.cmpop, right: ast.expr) -> Answer:
        if type(by) not in _COMPARED:
            raise self._refusal("has a part that is no comparison")
        compare, several = _COMPARED[type(by)], isinstance(by, ast.In | ast.NotIn)
        ends = (left, right)
        names = [self._quoted.get(end.id, end.id) if isinstance(end, ast.Name) else None for end in ends]
        constants = [self._constants(end, several) for end in ends if not isinstance(end, ast.Name)]
        if not any(names) or (several and (names[0] is None or names[1] is not None)):
            raise self._refusal("compares no column")
        as_text = {isinstance(item, str) for each in constants for item in each}
        if len(as_text) > 1:
            raise self._refusal("compares a column with text and numbers at once")
        text = as_text == {True}
        self.columns |= {(name, text) for name in names if name}

        def answer(cells: Mapping[Column, Cells]) -> NDArray[np.floating[Any]]:
            sides = [cells[name, text] if name else None for name in names]
            there = np.logical_and.reduce([side[1] for side in sides if side is not None])
            first, second = (constants[0] if side is None else [side[0]] for side in sides)
            met = np.any([compare(one, other) for one in first for other in second], axis=0)
            return np.where(there, met != isinstance(by, ast.NotIn), 0.5)

        return answer

    def _constants(self, node: ast.expr, several: bool) -> list[str | float]:
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items) if several and items:
                return [constant for each in items for constant in self._constants(each, False)]
            case ast.Constant(value=str() as text) if not several:
                return [text]
            case ast.Constant(value=int() | float() as number) if not several:
                return [float(number)]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if not several:
                return [-float(number)]
        raise self._refusal("compares a column with something else than a number, a text or a list of them")


def compared_cells(cells: Sequence[str] | NDArray[Any], as_text: bool) -> Cells:
    """Cells to compare, and which of them are not missing; among numbers a text that is no number is missing."""
    if as_text:
        texts = [str(cell).strip() for cell in cells]
        return np.array(texts, dtype=object), np.array([text not in PLAIN_MISSING for text in texts], dtype=bool)
    if isinstance(cells, list):
        cells = np.array([plain_float(cell) for cell in cells], dtype=np.float64)  # None is NaN
    numbers = np.asarray(cells)
    return numbers, ~np.isnan(numbers)


# --- tables with fewer rows or more columns than their file -----------------------------------------------


_ROWS = 2**16
_KEY = re.compile(r"([^=]+)=(.*)")
_NO_KEY = "__HIVE_DEFAULT_PARTITION__"


def chosen_tables(tables: Sequence[TableFile], reading: Reading) -> list[TableFile]:
    """The tables with the keys of their folders (site=A/year=2024) as columns, and only rows that meet where=.

    A file whose keys alone rule out all of its rows is not read.
    """
    condition = None if reading.where is None else Condition(reading.where)
    chosen: list[TableFile] = []
    for table in tables:
        names = table.column_names
        found = [_KEY.fullmatch(part) for part in os.path.dirname(table.name).split(os.sep)]
        values = {match[1]: "" if match[2] == _NO_KEY else unquote(match[2]) for match in found if match}
        keys = {} if names is None else {name: text for name, text in values.items() if name not in names}
        if condition is not None:
            by_keys = {(name, text): compared_cells([keys.get(name, "")], text) for name, text in condition.columns}
            if condition.holds(by_keys)[0] == 0.0:
                continue
        chosen.append(ChosenTable(table, keys, condition, reading) if keys or condition is not None else table)
    if reading.where is not None and not chosen:
        raise no_row(reading.where)
    return chosen


def no_row(where: str) -> InvalidDataError:
    """The error where a condition leaves nothing."""
    return InvalidDataError(f"No row meets where={where!r}: change the condition, or leave it out.")


class ChosenTable(TableFile):
    """A table with the keys of its folders as columns, the same in all rows, and only the rows that meet a condition.

    Keys are no features unless columns= names them. The number of rows that meet a condition takes a full read.
    """

    def __init__(
        self, table: TableFile, keys: Mapping[str, str], condition: Condition | None, reading: Reading
    ) -> None:
        self.name, self.n_bytes, self.seen = table.name, table.n_bytes, table.seen
        self._table, self._own, self._keys = table, table.n_columns, list(keys.values())
        self._condition, self._reading = condition, reading
        self.n_columns, self.labels = table.n_columns + len(keys), table.labels | frozenset(keys)
        self.notes, self.suspicious = table.notes, table.suspicious
        self.column_names = None if table.column_names is None else (*table.column_names, *keys)
        self.n_rows = table.n_rows if condition is None else None
        names = self.column_names or tuple(map(str, range(self.n_columns)))
        self._compared: dict[Column, int] = {}  # the positions of the condition's columns
        for name, as_text in sorted(() if condition is None else condition.columns):
            if name not in names:
                columns = suggestion(name, names, "Its columns are", most=8)
                raise InputFileError(f"{self.name}: no column {name!r}, which where= compares. {columns}")
            self._compared[name, as_text] = names.index(name)

    def _over(self, table: TableFile) -> Any:
        """The same choice from another table, such as a share of this one."""
        other = copy(self)
        other._table, other.seen, other.n_rows = table, table.seen, table.n_rows if self._condition is None else None
        return other

    def check(self, wanted: Sequence[int], thorough: bool = False) -> np.dtype[Any]:
        types = []
        for columns in ([at for (_, as_text), at in self._compared.items() if not as_text], wanted):
            for position in (at for at in columns if at >= self._own):
                self._number(position)
            own = [at for at in columns if at < self._own]
            types.append(self._table.check(own, thorough) if own else np.dtype(np.float64))
        return types[-1]

    def shares(self) -> list[TableFile]:
        return [self._over(share) for share in self._table.shares()]

    def read_through(self, wanted: Sequence[int]) -> TableFile:
        other: ChosenTable = self._over(self._table.read_through([at for at in wanted if at < self._own]))
        if self._condition is not None:
            other.n_rows = sum(int(meets.sum()) for _, meets in other._all_rows((), _ROWS, ()))
        return other

    def pieces(self, wanted: Sequence[int], rows: int, texts: Sequence[int] = ()) -> Iterator[Piece]:
        for (numbers, cells), meets in self._all_rows(wanted, rows, texts):
            if meets.any():
                yield numbers[meets], [list(compress(column, meets)) for column in cells]

    def line_of(self, row: int) -> tuple[int | None, int]:
        kept = before = 0
        for _, meets in self._all_rows((), _ROWS, ()):
            found = int(meets.sum())
            if kept + found > row:
                return self._table.line_of(before + int(np.flatnonzero(meets)[row - kept]))
            kept, before = kept + found, before + len(meets)
        return None, kept

    def _number(self, position: int) -> float:
        text = self._keys[position - self._own]
        number = plain_float(text) if text else np.nan
        if number is None:
            name = (self.column_names or ())[position]
            raise InputFileError(
                f"{self.name}: column {name!r}, of the folders' names, holds the text {text!r}, not numbers. Keep it as"
                f" text with id={name!r}."
            )
        return number

    def _all_rows(
        self, wanted: Sequence[int], rows: int, texts: Sequence[int]
    ) -> Iterator[tuple[Piece, NDArray[np.bool_]]]:
        """All rows, with keys among their columns, and which of them meet the condition."""
        numbers = dict.fromkeys([*wanted, *(at for (_, as_text), at in self._compared.items() if not as_text)])
        words = dict.fromkeys([*texts, *(at for (_, as_text), at in self._compared.items() if as_text)])
        own, own_words = ([at for at in each if at < self._own] for each in (numbers, words))
        if not own:
            own_words = own_words or [0]  # any column, to count the rows
        for values, cells in self._table.pieces(own, rows, own_words):
            n = len(values) if own else len(cells[0])
            columns = dict(zip(own, values.T, strict=True))
            columns |= {at: np.full(n, self._number(at)) for at in numbers if at >= self._own}
            by_text = dict(zip(own_words, cells, strict=True))
            by_text |= {at: [self._keys[at - self._own]] * n for at in words if at >= self._own}
            given: dict[Column, Cells] = {}
            for column, at in self._compared.items():
                if column[1]:
                    given[column] = compared_cells(by_text[at], True)
                else:  # with nondetect="floor" a cell that was not detected is below everything
                    compared, _ = at_limits(columns[at][:, np.newaxis], None, {0: -np.inf}, self._reading)
                    given[column] = compared_cells(compared[:, 0], False)
            meets = np.ones(n, dtype=bool) if self._condition is None else self._condition.holds(given) == 1.0
            if own != list(wanted) or not own:
                values = np.column_stack([np.empty((n, 0)), *(columns[at] for at in wanted)])
            yield (values, [by_text[at] for at in texts]), meets
