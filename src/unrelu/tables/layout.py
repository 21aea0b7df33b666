"""How a table as a laboratory delivers it is laid out: which columns hold values, flags, limits, units and samples.

A table of text is a :class:`Grid`. :func:`layout_of` looks at names and at the first rows; it returns None for a plain
table, whose columns are all values.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from unrelu.errors import InvalidParameterError
from unrelu.tables.cells import decimal_vote, read_cell
from unrelu.tables.table_file import row_and_line
from unrelu.tables.vocabulary import (
    KEYS,
    LONG,
    MEANINGS,
    NHANES,
    NWIS,
    PREFIXES,
    ROLES,
    SURE_LIMITS,
    VALUE_WORDS,
    is_yes_or_no,
    key_of,
    meaning,
    words_of,
)
from unrelu.validation import check_choice, row_label

HEAD_ROWS = 200
FEW = 3  # cells that show a habit
_FLAGS = ("flag", "censored", "detected", "sandre", "nhanes")
_TEXT_FLAGS = frozenset(("<", ">", "u", "uj", "nd", "bdl"))


class Refused(ValueError):
    """A table contradicts itself, or needs an option; the text is the message."""


@dataclass(frozen=True)
class Delivery:
    """What a user says of a delivered table: see :func:`unrelu.read_table`.

    ``keep``: columns that the user names, which are no flags then. ``labels``: columns of text are labels in plain
    tables as well.
    """

    flags: Mapping[str, str] = field(default_factory=dict)
    duplicates: str | None = None
    sample: tuple[str, ...] = ()
    keep: frozenset[str] = frozenset()
    labels: bool = False

    def __post_init__(self) -> None:
        for word in self.flags.values():
            check_choice("flags", word, tuple(MEANINGS))


@dataclass
class Grid:
    """A table of text: names, and the cells of every column.

    ``lines``: those of the file that the rows end in. ``skipped``: what is said of lines that are no rows. ``named``:
    the names are of the file.
    """

    names: list[str]
    columns: list[list[str]]
    lines: list[int] | None = None
    decimal: str = "."
    skipped: list[str] = field(default_factory=list)
    named: bool = True

    @property
    def n_rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def head(self) -> Grid:
        """The first rows."""
        return replace(self, columns=[column[:HEAD_ROWS] for column in self.columns])

    def row(self, row: int) -> str:
        """How messages call a row that is counted from 0: with its line in a file; of a frame it is counted from 0."""
        return row_label(row) if self.lines is None else row_and_line(row + 1, self.lines[row])

    def place(self, row: int, position: int) -> str:
        """How messages call a cell."""
        return f"{self.row(row)}, column {self.names[position]!r}"

    def kind(self, text: str) -> str | None:
        """The kind of a cell, as :func:`unrelu.tables.cells.read_cell` has it."""
        cell = read_cell(text, self.decimal)
        return None if cell is None else cell[0]

    def number(self, text: str) -> float | None:
        """The number that a cell holds; None where it holds none."""
        cell = read_cell(text, self.decimal)
        return float(cell[1]) if cell is not None and cell[0] in ("number", "grouped", "estimated") else None

    def is_text(self, position: int) -> bool:
        """Does a column hold names, dates or other text?"""
        kinds = Counter(self.kind(cell) for cell in self.columns[position])
        return kinds[None] > sum(kinds.values()) - kinds[None] - kinds["missing"]

    def is_numeric(self, position: int) -> bool:
        """Does a column hold numbers, limits and words for what was not detected?"""
        kinds = Counter(self.kind(cell) for cell in self.columns[position])
        return sum(kinds.values()) - kinds["missing"] > 2 * kinds[None]


@dataclass(frozen=True)
class Partners:
    """The columns that speak of a column of values, by position: flags with their roles, limits, and a unit."""

    flags: tuple[tuple[int, str], ...] = ()
    detection: tuple[int, ...] = ()
    quantitation: tuple[int, ...] = ()
    unit: int | None = None
    limit_unit: int | None = None

    @property
    def all(self) -> list[int]:
        units = [each for each in (self.unit, self.limit_unit) if each is not None]
        return [*(position for position, _ in self.flags), *self.detection, *self.quantitation, *units]


@dataclass
class Layout:
    """What the columns of a table are: ``values`` with their partners, ``pairs`` of ends of intervals by name, labels.

    Of a long table, ``analyte`` names what is measured, ``fraction`` a part of it, and ``keys`` the sample of a row.
    """

    values: dict[int, Partners] = field(default_factory=dict)
    pairs: dict[str, tuple[int, int]] = field(default_factory=dict)
    labels: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    analyte: int | None = None
    fraction: int | None = None


def decimal_mark_of(columns: Sequence[Sequence[str]], separator: str) -> str:
    """The decimal mark that the cells of a table show: a comma where some show one, and none shows a point.

    It is a comma as well where cells could show one between semicolons, such as "1,234" or "0,5 U".
    """
    cells = [cell for column in columns for cell in column[:HEAD_ROWS]]
    if not any("," in cell for cell in cells):
        return "."
    votes = {decimal_vote(cell) for cell in cells if "," in cell or "." in cell}
    if votes & {".", ","}:
        return "," if "." not in votes else "."
    return "," if separator == ";" and any("," in cell and read_cell(cell, ",") is not None for cell in cells) else "."


def layout_of(grid: Grid, delivery: Delivery) -> Layout | None:
    """What the columns of a table are; None where all are values, or names that the reader of plain tables refuses."""
    head = grid.head()
    if len(set(head.names)) == len(head.names) and (long := _long_layout(head, delivery)):
        return long
    values, used = _partners(head, delivery)
    pairs = _pairs(head, delivery)
    used |= {position for pair in pairs.values() for position in pair}
    _refuse_orphans(head, delivery, used)
    hidden = any(_own_halves(head, position) for position in range(len(head.names)) if position not in used)
    if not (values or pairs or hidden or head.skipped):
        return None
    others = plain_layout(grid, delivery, used | values.keys())
    return Layout(dict(sorted({**values, **others.values}.items())), pairs, others.labels)


def plain_layout(grid: Grid, delivery: Delivery, used: Collection[int] = ()) -> Layout:
    """Columns as values and labels, but for those that are used otherwise."""
    head = grid.head()
    others = [position for position in range(len(head.names)) if position not in used]
    labels = tuple(at for at in others if is_label(head, at) and head.names[at] not in delivery.keep)
    return Layout({position: Partners() for position in others if position not in labels}, labels=labels)


def is_label(head: Grid, position: int) -> bool:
    """Does a column say which sample a row is of, rather than what was measured?"""
    return key_of(head.names[position]) in KEYS or head.is_text(position)


# --- a column for each analyte ------------------------------------------------------------------------


def _partners(head: Grid, delivery: Delivery) -> tuple[dict[int, Partners], set[int]]:
    """Columns of values that others speak of, and those others."""
    words = [words_of(name) for name in head.names]
    places: dict[str, int] = {}
    for position, each in enumerate(words):
        places.setdefault("".join(each), position)
    for position, each in enumerate(words):
        if len(each) > 1 and each[-1] in VALUE_WORDS:
            places.setdefault("".join(each[:-1]), position)
    found: dict[int, list[tuple[int, str]]] = {}  # by column of values: who speaks of it, and in which role
    for position, name in enumerate(head.names):
        of, role = (None, "") if name in delivery.keep else _spoken_of(name, words[position], places)
        if of is not None and of != position:
            found.setdefault(of, []).append((position, role))
    for of, position in _neighbours(head, words, delivery):
        found.setdefault(of, []).append((position, "flag"))
    values: dict[int, Partners] = {}
    for of, by in found.items():
        partners = _checked(head, of, by, delivery)
        if partners.all and head.is_numeric(of):
            values[of] = partners
    return values, {position for partners in values.values() for position in partners.all}


def _spoken_of(name: str, words: Sequence[str], places: Mapping[str, int]) -> tuple[int | None, str]:
    """The column that a column's name speaks of, and what it says; (None, "") where it speaks of none."""
    if (match := NHANES.fullmatch(name)) and (key := key_of(f"{match[1]}X{match[2]}")) in places:
        return places[key], "nhanes"
    if (match := NWIS.fullmatch(name)) and f"p{match[1]}" in places:
        return places[f"p{match[1]}"], "flag"
    for n in range(min(4, len(words) - 1), 0, -1):
        for roles, marker, rest in ((ROLES, words[-n:], words[:-n]), (PREFIXES, words[:n], words[n:])):
            role, base = roles.get("".join(marker)), "".join(rest)
            if role not in (None, "lower", "upper") and base in places:
                return places[base], str(role)
    return None, ""


def _neighbours(head: Grid, words: Sequence[Sequence[str]], delivery: Delivery) -> list[tuple[int, int]]:
    """Columns called no more than "Q" or "Flag", with the columns of values beside them: (value, flag).

    They stand behind their values, or before them where the first does.
    """
    bare = [re.sub(r"\d+$", "", "".join(each)) for each in words]
    marks = [
        position
        for position, key in enumerate(bare)
        if ROLES.get(key) in ("flag", "censored")
        and head.names[position] not in delivery.keep
        and _are_flags(head, position, "flag", delivery)
        and any(cell.strip() and not is_yes_or_no(cell) for cell in head.columns[position])
    ]
    numeric = [at for at in range(len(words)) if at not in marks and head.is_numeric(at) and not is_label(head, at)]
    if not marks or not numeric or (len(marks) == 1 < len(numeric)):
        return []
    step = 1 if marks[0] < numeric[0] else -1
    return [(position + step, position) for position in marks if position + step in numeric]


def _checked(head: Grid, of: int, found: Sequence[tuple[int, str]], delivery: Delivery) -> Partners:
    """Those of the columns that speak of a column of values by their cells as well."""
    flags = tuple(each for each in found if each[1] in _FLAGS and _are_flags(head, each[0], each[1], delivery, of))
    limits = {
        role: tuple(at for at, each in found if each == role and head.is_numeric(at))
        for role in ("detection", "quantitation")
    }
    sure = any(
        set(words_of(head.names[at])) & SURE_LIMITS or _ending(head.names[at]) for at in sum(limits.values(), ())
    )
    if not flags and not sure and not any(_matter(head, of, at) for at in sum(limits.values(), ())):
        limits = {}
    units = [at for at, role in found if role == "unit" and head.is_text(at)]
    unit = units[0] if units and (flags or any(limits.values()) or head.is_numeric(of)) else None
    return Partners(flags, limits.get("detection", ()), limits.get("quantitation", ()), unit)


def _ending(name: str) -> bool:
    words = words_of(name)
    return any("".join(part) in SURE_LIMITS for n in range(2, 5) for part in (words[-n:], words[:n]))


def _are_flags(head: Grid, position: int, role: str, delivery: Delivery, of: int | None = None) -> bool:
    """Are the cells of a column flags?

    Plain numbers 0 and 1 are, unless the column's name says so, only where the values that they mark repeat and are
    low, as limits do.
    """
    codes = {cell.strip() for cell in head.columns[position]} - {""}
    meanings = {code: meaning(code, role, delivery.flags, is_not_detected(head)) for code in codes}
    if role == "detected" and not all(each in ("seen", "left", "blank") for each in meanings.values()):
        return False
    if role not in ("sandre", "nhanes") and any(
        head.number(code) is not None and not is_yes_or_no(code) and code not in delivery.flags for code in codes
    ):
        return False  # measurements, of neodymium (Nd) perhaps
    if role == "flag" and codes and all(map(is_yes_or_no, codes)):
        return of is not None and _look_censored(head, of, position)
    known = [each for each in meanings.values() if each is not None]
    return not codes or (2 * len(known) >= len(codes) and any(each != "blank" for each in known))


def is_not_detected(grid: Grid) -> Callable[[str], bool]:
    """Whether a word stands for what was not detected, in the cells of a table."""
    return lambda word: grid.kind(word) == "nondetect"


def _look_censored(head: Grid, of: int, position: int) -> bool:
    pairs = zip(head.columns[of], head.columns[position], strict=True)
    marked: list[float] = []
    others: list[float] = []
    for cell, code in pairs:
        number = head.number(cell)
        if number is not None:
            (marked if meaning(code, "flag", {}, lambda _: False) == "left" else others).append(number)
    counts = Counter(marked)
    tied = sum(count for count in counts.values() if count > 1)
    return bool(marked and others) and 2 * tied >= len(marked) and median(marked) <= median(others)


def _matter(head: Grid, of: int, position: int) -> bool:
    """Do limits beside values say something of these: words for what was not detected, empty cells, halves of them?"""
    values, limits = head.columns[of], head.columns[position]
    kinds = [head.kind(cell) for cell in values]
    if "nondetect" in kinds or fills_gaps(kinds, [head.number(cell) for cell in limits]):
        return True
    both = zip(values, limits, strict=True)
    return sum(is_half(cell, head.number(cell), head.number(limit)) for cell, limit in both) >= FEW


def fills_gaps(kinds: Sequence[str | None], limits: Sequence[float | None]) -> bool:
    """Is a limit there exactly where a value is not?"""
    gaps = [kind == "missing" for kind in kinds]
    return any(gaps) and not all(gaps) and gaps == [limit is not None for limit in limits]


def is_half(text: str, number: float | None, limit: float | None) -> bool:
    """Is a value half of a limit, or the limit by the root of 2, but for the rounding of its last digit?"""
    if number is None or limit is None or not 0.0 < number < limit:
        return False
    digits = len(re.split(r"[.,]", text.strip())[-1]) if re.search(r"[.,]", text) else 0
    rounding = min(0.5001 * 10.0**-digits, 0.03 * number) + 1e-9 * number
    return min(abs(number - limit / 2.0), abs(number - limit / math.sqrt(2.0))) <= rounding


def _own_halves(head: Grid, position: int) -> dict[str, float]:
    return own_halves(head, head.columns[position])


def own_halves(grid: Grid, cells: Sequence[str]) -> dict[str, float]:
    """Values that occur often, each with the limit that other cells of the column name and that it is half of.

    A value is taken for that where it occurs three times at least, and three times as often as any other number.
    """
    limits = {
        cell[1] for text in cells if "<" in text and (cell := read_cell(text, grid.decimal)) and cell[0] == "below"
    }
    if not limits:
        return {}
    counts = Counter(text.strip() for text in cells if grid.number(text) is not None)
    half = {text: level for text in counts for level in sorted(limits) if is_half(text, grid.number(text), level)}
    most = max((count for text, count in counts.items() if text not in half), default=0)
    return {text: level for text, level in half.items() if counts[text] >= max(FEW, 3 * most)}


def _pairs(head: Grid, delivery: Delivery) -> dict[str, tuple[int, int]]:
    """Columns that are the ends of intervals, by what they are called together."""
    ends: dict[str, dict[str, int]] = {}
    keys = [key_of(name) for name in head.names]
    for position, name in enumerate(head.names):
        words = words_of(name)
        for roles, marker, rest in ((ROLES, words[-1:], words[:-1]), (ROLES, words[:1], words[1:])):
            role = roles.get("".join(marker))
            if role in ("lower", "upper") and name not in delivery.keep and "".join(rest) not in keys:
                ends.setdefault("".join(rest), {}).setdefault(role, position)
                break
    found = {}
    for both in ends.values():
        if len(both) == 2 and _are_ends(head, both["lower"], both["upper"]):
            shared = _shared(head.names[both["lower"]], head.names[both["upper"]])
            found[shared.strip(" _.-") or "value"] = (both["lower"], both["upper"])
    return found


def _shared(first: str, second: str) -> str:
    """What two names begin or end with together, whichever is longer."""
    begin, end = (
        next((n for n, (a, b) in enumerate(zip(*names, strict=False)) if a != b), min(map(len, names)))
        for names in ((first, second), (first[::-1], second[::-1]))
    )
    return first[:begin] if begin >= end else first[len(first) - end :]


def _are_ends(head: Grid, lower: int, upper: int) -> bool:
    """Are columns ends of intervals? One row in five at least is a single number, or has one end alone."""
    if not (head.is_numeric(lower) and head.is_numeric(upper)):
        return False
    equal = open_ended = 0
    for low, high in zip(map(head.number, head.columns[lower]), map(head.number, head.columns[upper]), strict=True):
        low, high = (None if end is None or math.isinf(end) else end for end in (low, high))
        equal += low is not None and low == high
        open_ended += (low is None) != (high is None)
    return 5 * max(equal, open_ended) >= head.n_rows > 0


def _refuse_orphans(head: Grid, delivery: Delivery, used: set[int]) -> None:
    """Raise Refused for a column of flags whose values are not there."""
    for position, name in enumerate(head.names):
        words = words_of(name)
        ends = (
            ROLES.get("".join(part)) for n in range(1, min(4, len(words) - 1) + 1) for part in (words[-n:], words[:n])
        )
        if position in used or name in delivery.keep or not any(role in _FLAGS for role in ends):
            continue
        codes = sorted({cell.strip() for cell in head.columns[position]} - {""})
        if {code.casefold() for code in codes} & _TEXT_FLAGS and _are_flags(head, position, "flag", delivery):
            raise Refused(
                f"column {name!r} holds flags ({', '.join(codes[:4])}), but no column is called as the values that they"
                f" mark: name it so, or leave the flags out with drop={name!r}."
            )


# --- a row for each value -----------------------------------------------------------------------------


def _long_layout(head: Grid, delivery: Delivery) -> Layout | None:
    keys = [key_of(name) for name in head.names]
    places = {key: position for position, key in enumerate(keys)}
    at = {role: [places[name] for name in names if name in places] for role, names in LONG.items()}
    for role in LONG.keys() - {"sample", "site", "date", "time", "depth"}:
        at[role] = [position for position in at[role] if head.names[position] not in delivery.keep]
    values = [position for position in at["value"] if head.is_numeric(position)]
    analytes = [each for each in at["analyte"] if each not in values and (head.is_text(each) or keys[each] in _CODES)]
    if not values or not analytes:
        return None
    value, analyte = values[0], analytes[0]
    taken = {value, analyte}
    flags = []
    for role in ("detected", "censored", "sandre", "flag"):
        for position in at[role]:
            if position not in taken and _are_flags(head, position, role, delivery, value):
                flags.append((position, role))
                taken.add(position)
    limits = {
        role: tuple(each for each in at[role] if each not in taken and head.is_numeric(each))
        for role in ("detection", "quantitation")
    }
    unit, limit_unit, fraction = (next(iter(at[role]), None) for role in ("unit", "limit unit", "fraction"))
    partners = Partners(tuple(flags), limits["detection"], limits["quantitation"], unit, limit_unit)
    taken |= {*partners.all, *(each for each in (fraction,) if each is not None)}
    return Layout({value: partners}, keys=_sample_keys(head, delivery, at, taken), analyte=analyte, fraction=fraction)


_CODES = ("parmcd", "cdparametre", "cas", "casrn", "casnumber")  # names of analytes that are numbers


def _sample_keys(head: Grid, delivery: Delivery, at: Mapping[str, Sequence[int]], taken: set[int]) -> tuple[int, ...]:
    """The columns that tell samples apart: as said, or one of samples, or site, date, time and depth."""
    if unknown := [name for name in delivery.sample if name not in head.names]:
        raise InvalidParameterError(f"sample: the table has no column {unknown[0]!r}.", parameter="sample")
    if delivery.sample:
        return tuple(map(head.names.index, delivery.sample))
    if own := [position for position in at["sample"] if position not in taken]:
        return (own[0],)
    parts = [[each for each in at[role] if each not in taken] for role in ("site", "date", "time", "depth")]
    keys = tuple(each[0] for each in parts if each)
    if not keys:
        others = [repr(name) for position, name in enumerate(head.names) if position not in taken]
        named = f"({', '.join(others[:6])} are left)" if others else "(no column is left that could)"
        analyte = head.names[next(iter(set(at["analyte"]) & taken))]
        raise Refused(
            f"column {analyte!r} names analytes, a row for each value, but no column says which sample a row is of"
            f" {named}: read it by unrelu.read_table (unrelu read), which sample= tells."
        )
    return keys


def may_speak(names: Sequence[str]) -> bool:
    """Could some columns speak of others, by their names alone? That separates most tables of numbers from others."""
    keys = set()
    for name in names:
        if name.isascii() and name.isalnum() and not _CAPITAL.search(name):
            words: tuple[str, ...] = (name.casefold(),)
        else:
            words = words_of(name)
        keys.add("".join(words))
        if name[:1] in "LUSr" and (NHANES.fullmatch(name) or NWIS.fullmatch(name)):
            return True
        for n in range(1, min(4, len(words)) + 1):
            if "".join(words[-n:]) in PREFIXES or "".join(words[:n]) in PREFIXES:
                return True
    return bool(keys & set(LONG["analyte"]) and keys & set(LONG["value"]))


_CAPITAL = re.compile(r"[a-z0-9][A-Z]")
