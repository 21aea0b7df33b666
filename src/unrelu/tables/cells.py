"""Cells of text: numbers, limits and words in them, columns of them as numbers, and the limits that they state.

A cell "<0.25" passes four hands: its file makes the column numbers with marks (:func:`read_distinct`, by what
:func:`read_cell` says), ``FileSamples`` puts the cell where :func:`stated_limits` says (:func:`at_limits`),
``PreparedRows`` makes of it what learners take, and the question sums it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import CellLimits
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.rows import Floats
from unrelu.tables.vocabulary import interval_cell, is_not_detected, qualified_cell
from unrelu.validation import check_choice, counted, listed, warn

# --- one cell ---------------------------------------------------------------------------------------


# Read as missing by the fast reader, without a note.
PLAIN_MISSING = ("", "NA", "NaN", "nan", "null", "N/A")
# Words in any case; a note names those that are not plain.
_MISSING = frozenset({*map(str.casefold, PLAIN_MISSING), "none", "-", "--", "–", "—", ".", "#n/a", "n.a.", "n.a"})
_NOT_DETECTED = frozenset(
    (
        *("nd", "n.d.", "n.d", "not detected", "non-detect", "nondetect", "non detect", "undetected"),
        *("bdl", "b.d.l.", "bld", "bql", "blq", "bloq", "lod", "loq", "below lod", "below loq"),
        *("below detection limit", "<lod", "<loq", "<dl", "<mdl", "<ld", "<lq", "<ql", "<rl", "<mrl"),
        *("<pql", "<lloq", "<nd", "<bdl"),
    )
)
_SIGN = {"<": "below", "≤": "below", "<=": "below", ">": "above", "≥": "above", ">=": "above"}
_LIMIT = re.compile(r"(<=|>=|[<>≤≥])\s*(.+)")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_OTHER = {".": ",", ",": "."}


def plain_number(decimal: str) -> str:
    """The pattern of numbers without thousands separators, for re and for Arrow's RE2 alike."""
    mark = re.escape(decimal)
    return rf"[+-]?([0-9]+({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?"


_PLAIN = {mark: re.compile(plain_number(mark)) for mark in _OTHER}
# Groups of three, all with the same separator, after a first group that is not 0.
_GROUPED = {
    mark: re.compile(
        rf"[+-]?[1-9][0-9]{{0,2}}(?:([{re.escape(other)}' \u00a0\u2009\u202f’])[0-9]{{3}})(?:\1[0-9]{{3}})*"
        rf"({re.escape(mark)}[0-9]+)?"
    )
    for mark, other in _OTHER.items()
}


Cell = tuple[str, float]
"""Its kind: "number", "grouped" (a number with thousands separators), "estimated" (a number with a code such as J),
"missing", "nondetect", "below", "above", "between" (of two numbers, here the lower one); and its number, or NaN."""


def read_cell(text: str, decimal: str = ".") -> Cell | None:
    """The content of a cell; None where it cannot be read.

    >>> read_cell("< 0,25", decimal=","), read_cell("1,234.5")
    (('below', 0.25), ('grouped', 1234.5))
    >>> read_cell("n.d."), read_cell("NA"), read_cell("abc")
    (('nondetect', nan), ('missing', nan), None)
    """
    text = text.strip()
    number = _number(text, decimal)
    if number is not None:
        return number
    word = re.sub(r"\s+", " ", text.casefold()).replace("< ", "<")
    if word in _MISSING:
        return "missing", np.nan
    if word in _NOT_DETECTED or is_not_detected(word):
        return "nondetect", np.nan
    limit = _LIMIT.fullmatch(text)
    number = None if limit is None else _number(limit[2], decimal)
    if limit is None or number is None:
        return _laboratory_cell(text, decimal)
    return None if np.isinf(number[1]) else (_SIGN[limit[1]], number[1])


def _laboratory_cell(text: str, decimal: str) -> Cell | None:
    """A cell such as "0.5 U", "ND(0.5)" or "[0.1, 0.5]"."""

    def number(digits: str) -> float | None:
        cell = _number(digits, decimal)
        return None if cell is None else cell[1]

    if qualified := qualified_cell(text, number):
        return qualified
    ends = interval_cell(text, number)
    return None if ends is None else ("between", ends[0])


def _number(text: str, decimal: str) -> Cell | None:
    if _PLAIN[decimal].fullmatch(text):
        return "number", float(text.replace(decimal, "."))
    if _INFINITE.fullmatch(text):
        return "number", float(text)
    grouped = _GROUPED[decimal].fullmatch(text)
    return None if grouped is None else ("grouped", float(text.replace(grouped[1], "").replace(decimal, ".")))


def plain_float(text: str | float) -> float | None:
    """The number that Python reads in a text; None where there is none."""
    try:
        return float(text)
    except ValueError:
        return None


def decimal_vote(text: str) -> str | None:
    """The decimal mark that a cell shows, "." or ","; None where it shows none, or could show either."""
    text = text.strip().lstrip("<>≤≥= ")
    possible = [mark for mark in ".," if _number(text, mark) is not None]
    return possible[0] if len(possible) == 1 else None


# --- options for reading ------------------------------------------------------------------------------


LIMITS, NONDETECT = ("one", "highest", "missing", "cell"), ("missing", "floor")
ColumnKey = str | int
"""A column's name, or its number counted from 0 (also as text, where columns have no names)."""


@dataclass(frozen=True)
class Reading:
    """The options of :func:`unrelu.tables.open_samples`; see there.

    ``columns``: all by default, in the given order, less those to ``drop`` or to keep as text, ``ids``.
    """

    columns: tuple[ColumnKey, ...] = ()
    drop: tuple[ColumnKey, ...] = ()
    ids: tuple[ColumnKey, ...] = ()
    header: bool | None = None
    decimal: str | None = None
    limits: str | None = None
    nondetect: Any = None
    sheet: str | int | None = None
    where: str | None = None
    delivery: Any = None  # what is said of a table as delivered: see unrelu.tables.layout.Delivery

    def __post_init__(self) -> None:
        check_choice("decimal", self.decimal or ".", (".", ","))
        check_choice("limits", self.limits or "one", LIMITS)
        if isinstance(self.nondetect, str):
            check_choice("nondetect", self.nondetect, NONDETECT)
        elif not isinstance(self.nondetect, Real | Mapping | None):
            raise InvalidParameterError(
                f"nondetect must be 'missing', 'floor', a number, or numbers by column; got {self.nondetect!r}.",
                parameter="nondetect",
            )

    @property
    def floors_nondetects(self) -> bool:
        return not (self.nondetect is None or (isinstance(self.nondetect, str) and self.nondetect == "missing"))


# --- columns of cells ---------------------------------------------------------------------------------


_SIDE = {"below": -1.0, "nondetect": -1.0, "above": 1.0}


class UnreadableCell(ValueError):
    """A cell is no number, no limit, and no word of the lists above; its text is the message."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The cells of a column that are not plain: how often each limit, and each word, by its kind and as written.

    ``smallest`` and ``largest`` are those of the numbers (infinite where there are none).
    """

    below: Counter[float] = field(default_factory=Counter)
    above: Counter[float] = field(default_factory=Counter)
    words: Counter[tuple[str, str]] = field(default_factory=Counter)
    smallest: float = np.inf
    largest: float = -np.inf

    def merge(self, other: Seen) -> Seen:
        return Seen(
            self.below + other.below,
            self.above + other.above,
            self.words + other.words,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
        )

    @property
    def n_not_detected(self) -> int:
        return sum(count for (kind, _), count in self.words.items() if kind == "nondetect")

    def __bool__(self) -> bool:
        return bool(self.below or self.above or self.words)


def read_distinct(texts: Sequence[str], codes: NDArray[np.integer[Any]], decimal: str) -> tuple[NDArray[Any], Seen]:
    """A column of text (cell i is ``texts[codes[i]]``) as numbers, and its cells that are not plain.

    The numbers are complex where a cell states a limit or was not detected: the imaginary part is -1 where a cell is
    at most its number (NaN where it was not detected), 1 where it is at least. Readers and blocks pass such numbers on
    until :func:`at_limits` makes limits of them. Raises UnreadableCell.
    """
    values: list[float | complex] = []
    seen = Seen()
    numbers: list[float] = []
    for text, count in zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True):
        cell = read_cell(text, decimal)
        if cell is None or cell[0] == "between":  # marks of two ends would begin here
            raise UnreadableCell(text)
        kind, value = cell
        if kind in ("number", "grouped", "estimated"):
            numbers.append(value)
        if kind in ("below", "above"):
            (seen.below if kind == "below" else seen.above)[value] += count
        elif kind != "number" and text.strip() not in PLAIN_MISSING:
            seen.words[kind, text.strip()] += count
        values.append(complex(value, _SIDE[kind]) if kind in _SIDE else value)
    extremes = min(numbers, default=np.inf), max(numbers, default=-np.inf)
    return np.array(values)[codes], Seen(seen.below, seen.above, seen.words, *extremes)


# --- limits -------------------------------------------------------------------------------------------


def column_phrase(names: Sequence[str] | None, position: int) -> str:
    """A column of a file in messages: its name, or its number."""
    return f"column number {position} (the first is 0)" if names is None else f"column {names[position]!r}"


def stated_limits(
    seen: Mapping[int, Seen], names: Sequence[str] | None, reading: Reading
) -> tuple[CellLimits | None, dict[int, float]]:
    """One floor and one ceiling a column, None where no cell states any; or columns whose cells have their own.

    With limits="highest" a column's floor is its highest limit, and its ceiling its lowest one. With nondetect="floor"
    cells that were not detected are at the value given for them, or the column's limit (the smallest of several), or
    else at its smallest number. Cells have limits of their own with limits="cell", and by default where a column has no
    single limit: such columns come with the level of their cells that were not detected. Raises InvalidDataError with
    limits="one" where a column has several.
    """
    floor: dict[int, float] = {}
    ceiling: dict[int, float] = {}
    own: dict[int, float] = {}
    by_cell = reading.limits == "cell"
    for position, cells in sorted(seen.items()):
        stated = reading.limits != "missing"
        low, high = (set(cells.below), set(cells.above)) if stated else (set(), set())
        level = _nondetect_level(cells, names, position, bool(low), reading)
        if low or high or level is not None:
            own[position] = min(low, default=np.nan) if level is None else level
        low |= set() if level is None else {level}
        floor |= {position: max(low)} if low else {}
        ceiling |= {position: min(high)} if high else {}
        several = ""
        if len(low) > 1 or (low and cells.smallest < max(low)):
            several = _several_limits("<", low, max(low), cells.smallest)
        elif len(high) > 1 or (high and cells.largest > min(high)):
            several = _several_limits(">", high, min(high), cells.largest)
        where = column_phrase(names, position)
        if several and reading.limits in ("one", "missing"):
            raise InvalidDataError(f"{where}: {several}")
        by_cell |= bool(several) and reading.limits is None
        if not by_cell and low and high and max(low) >= min(high):
            raise InvalidDataError(
                f"{where}: its limits <{max(low):g} and >{min(high):g} contradict each other. Correct the cells, or"
                " read them as missing with limits='missing'."
            )
    if by_cell:
        return None, own
    return CellLimits(tuple(floor.items()), tuple(ceiling.items())) if own else None, {}


def _nondetect_level(
    cells: Seen, names: Sequence[str] | None, position: int, has_limit: bool, reading: Reading
) -> float | None:
    """The level of cells that were not detected; None where there are none, or others state their limit."""
    if not (reading.floors_nondetects and cells.n_not_detected):
        return None
    given = reading.nondetect
    if isinstance(given, Mapping):
        given = given.get(None if names is None else names[position], given.get(position))
        if given is not None:
            return float(given)
    if has_limit:  # one number for all is for columns without a limit
        return None
    if isinstance(given, Real):
        return float(given)
    if not np.isfinite(cells.smallest):
        raise InvalidDataError(
            f"{column_phrase(names, position)}: not detected anywhere, and no number says where its floor is. Give it,"
            " as nondetect=, or leave the column out."
        )
    return cells.smallest


def _several_limits(sign: str, stated: set[float], chosen: float, extreme: float) -> str:
    one, side, limit = ("floor", "below", "highest") if sign == "<" else ("ceiling", "above", "lowest")
    shown = listed(f"{sign}{value:g}" for value in sorted(stated))
    what = f"{len(stated)} different limits, {shown}" if len(stated) > 1 else f"{shown} beside {extreme:g}"
    return (
        f"{what}, but limits='one' means one {one} a column. limits='cell' keeps every cell's own limit;"
        f" limits='highest' cuts the column at its {limit} limit: every value {side} {chosen:g} becomes {chosen:g};"
        " limits='missing' reads such cells as missing."
    )


def at_limits(
    values: NDArray[Any], limits: CellLimits | None, own: Mapping[int, float], reading: Reading
) -> tuple[Floats, NDArray[np.int8] | None]:
    """Rows of :func:`read_distinct` as numbers, censored at their column's limit.

    ``limits`` and ``own`` are those of :func:`stated_limits`. Where cells have limits of their own, also -1 or 1 where
    a number is only a limit, 0 elsewhere.
    """
    if limits is None and not own and not np.iscomplexobj(values):
        return values, None
    censoring, values = values.imag.astype(np.int8), np.array(values.real)
    not_detected = np.isnan(values) & (censoring != 0)
    if reading.limits == "missing":
        values[censoring != 0] = np.nan
    floor, ceiling = (limits.floor, limits.ceiling) if limits else ((), ())
    if reading.floors_nondetects:
        for position, level in (*floor, *own.items()):
            values[not_detected[:, position], position] = level
    else:
        censoring[not_detected] = 0
    for position, limit in floor:
        np.maximum(values[:, position], limit, out=values[:, position])
    for position, limit in ceiling:
        np.minimum(values[:, position], limit, out=values[:, position])
    return values, censoring if own else None


def text_cell_notes(
    seen: Mapping[int, Seen],
    names: Sequence[str],
    limits: CellLimits | None,
    reading: Reading,
    own: Mapping[int, float],
) -> list[str]:
    """The reading of text cells, one line a column; ``limits`` and ``own`` are :func:`stated_limits`."""
    floor, ceiling = (dict(limits.floor), dict(limits.ceiling)) if limits else ({}, {})
    lines = []
    for position, cells in sorted(seen.items()):
        became = dict.fromkeys(("below", "above", "missing", "nondetect"), "read as missing")
        became["grouped"] = "read with thousands separators"
        became["estimated"] = "read as numbers that were estimated"
        if position in floor:
            became["below"] = f"censored at the floor {floor[position]:g}"
        if position in ceiling:
            became["above"] = f"censored at the ceiling {ceiling[position]:g}"
        if position in own:
            became["below"] = became["above"] = "censored, each at its own limit"
        if reading.floors_nondetects and position in own:
            became["nondetect"] = f"censored at {own[position]:g}"
        elif reading.floors_nondetects and position in floor:
            became["nondetect"] = became["below"]
        written = [("below", f"<{value:g}", count) for value, count in sorted(cells.below.items())]
        written += [("above", f">{value:g}", count) for value, count in sorted(cells.above.items())]
        written += [(kind, repr(text), count) for (kind, text), count in sorted(cells.words.items())]
        notes = []
        for kind, group in groupby(written, key=lambda each: each[0]):
            each = list(group)
            number, texts = sum(count for *_, count in each), listed((text for _, text, _ in each), most=3)
            notes.append(f"{counted(number, 'cell')} {texts} {became[kind]}")
        if notes:
            lines.append(f"{names[position]}: {', '.join(notes)}")
    return lines


def warn_of_nondetects(seen: Mapping[int, Seen], names: Sequence[str], reading: Reading) -> None:
    """Warn of low values that are read as missing by default."""
    columns = [f"{names[j]!r} ({cells.n_not_detected:,})" for j, cells in sorted(seen.items()) if cells.n_not_detected]
    if columns and reading.nondetect is None:
        warn(
            f"Cells that were not detected are low, but were read as missing: column {listed(columns)}."
            " nondetect='floor' puts them at the floor; nondetect='missing' keeps them missing, without this warning.",
            "nondetect",
        )
