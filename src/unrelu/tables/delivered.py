"""Tables as laboratories deliver them, made plain: "<0.5" for what a flag, a limit, a word or a half-limit says.

:func:`made_plain` turns a table of text, whose columns :mod:`unrelu.tables.layout` has recognized, into one with a row
for each sample, a column for each analyte, and cells that :func:`unrelu.tables.cells.read_cell` reads. What contradicts
itself is refused, with row and column; nothing is left out in silence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from unrelu.tables.cells import read_cell
from unrelu.tables.layout import (
    FEW,
    Delivery,
    Grid,
    Layout,
    Partners,
    Refused,
    fills_gaps,
    is_half,
    is_not_detected,
    own_halves,
)
from unrelu.tables.vocabulary import interval, meaning, unit_of
from unrelu.validation import counted, listed

_SENTINELS = (-999.0, -9999.0, -99999.0)  # for a missing number, in files of fixed columns
_SLACK = 1e-6  # by which a value and its limit may differ and be the same
_SUSPICIOUS = {  # what is counted, and how it is said
    "half of its limit": ("value", "half of a limit (or the limit by the root of 2), put below it"),
    "below its limit": ("value", "below the limit beside it, put below that limit"),
    "rejected": ("value", "flagged as rejected, read as missing"),
    "sentinel": ("value", "such as -999, read as missing"),
    "empty beside a limit": ("cell", "without a value beside a limit, read as missing"),
    "duplicate": ("repeated value", "of a sample and analyte, {} taken"),
    "code": ("code", "beside other flags not known, passed over"),
}
Level = tuple[float, str, int, str]
"""A limit: its number, as it is written, its column, and "detection" or "quantitation"."""


@dataclass
class PlainTable:
    """A table of text with a column for each analyte, whose cells the readers of text understand.

    ``labels``: columns that say which sample a row is of. ``changed``: columns that are not as they were delivered.
    ``notes`` say how the table was understood, ``suspicious`` what a user should look at.
    """

    names: list[str]
    columns: list[list[str]]  # with decimal points
    labels: frozenset[str]
    changed: frozenset[str]
    notes: tuple[str, ...]
    suspicious: str
    lines: list[int] | None = None
    named: bool = True


def made_plain(grid: Grid, layout: Layout, delivery: Delivery) -> PlainTable:
    """The table, made plain. Raises Refused where it contradicts itself."""
    cleaner = _Cleaner(grid, delivery)
    plain = _pivoted(cleaner, layout) if layout.analyte is not None else _cleaned(cleaner, layout)
    for at, name in enumerate(plain.names):
        if name not in plain.labels:
            written = {text: _written(text, grid.decimal) for text in set(plain.columns[at])}
            plain.columns[at] = [written[text] for text in plain.columns[at]]
    return plain


def _written(text: str, decimal: str) -> str:
    """A cell as clean tables have it: with a decimal point, without separators of thousands and codes."""
    kind, number = read_cell(text, decimal) or ("", math.nan)
    if kind in ("below", "above"):
        return f"{'<' if kind == 'below' else '>'}{float(number)!r}".removesuffix(".0")
    if kind in ("grouped", "estimated"):
        return repr(float(number)).removesuffix(".0")
    return text.strip().replace(decimal, ".") if kind in ("number", "between") else text.strip()


class _Cleaner:
    """Cells of values made plain by what stands beside them; it counts what it meets."""

    def __init__(self, grid: Grid, delivery: Delivery) -> None:
        self.grid, self.delivery = grid, delivery
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.levels: set[float] = set()
        self._word = is_not_detected(grid)

    def column(self, rows: Sequence[int], value: int, partners: Partners) -> list[str]:
        """The cells of a column, in these rows, made plain."""
        self._check_units(rows, partners)
        texts = [self.grid.columns[value][row].strip() for row in rows]
        cells = [self._read(text, row, value) for text, row in zip(texts, rows, strict=True)]
        flags = [self._flag(row, value, partners) for row in rows]
        levels = [self._levels(row, partners) for row in rows]
        kinds = [kind for kind, _ in cells]
        if not partners.flags and fills_gaps(kinds, [each[0][0] if each else None for each in levels]):
            flags = ["left" if kind == "missing" else flag for kind, flag in zip(kinds, flags, strict=True)]
        below = [
            is_half(text, number, each[0][0])
            for text, (kind, number), each, flag in zip(texts, cells, levels, flags, strict=True)
            if each
            and kind in ("number", "grouped")
            and flag in ("blank", "seen")
            and number < each[0][0] * (1 - _SLACK)
        ]
        halves = len(below) >= FEW and all(below)
        fills = self._nhanes_limits(texts, cells, flags) if ("nhanes" in dict(partners.flags).values()) else {}
        plain = []
        for row, text, cell, flag, each in zip(rows, texts, cells, flags, levels, strict=True):
            if flag == "left" and text in fills:
                plain.append(f"<{fills[text]}")
            else:
                plain.append(self._cell(row, value, text, cell, flag, each, bool(partners.flags), halves))
        return self._without_halves(plain)

    def _read(self, text: str, row: int, value: int) -> tuple[str, float]:
        cell = read_cell(text, self.grid.decimal)
        if cell is None:
            raise Refused(
                f"{self.grid.place(row, value)}: {text!r} is no number, no limit and no word for what was not detected."
                " Correct the cell, or empty it if its value is missing."
            )
        if cell[0] == "number" and cell[1] in _SENTINELS:
            self.counts["sentinel"] += 1
            return "missing", math.nan
        return cell[0], float(cell[1])

    def _flag(self, row: int, value: int, partners: Partners) -> str:
        """What the flags of a cell say together."""
        found: dict[str, int] = {}
        for position, role in partners.flags:
            code = self.grid.columns[position][row].strip()
            said = meaning(code, role, self.delivery.flags, self._word)
            if said is None and len(partners.flags) > 1:
                self.counts["code"] += 1  # another column says what counts
                continue
            if said is None:
                raise Refused(
                    f"{self.grid.place(row, position)}: what the flag {code!r} says is not known. Say it"
                    f" to unrelu.read_table as flags={{{code!r}: 'censored'}} (or 'above', 'seen', 'missing'), or to"
                    f" unrelu read as --flags {code}=censored."
                )
            found.setdefault(said, position)
        if "seen" in found and found.keys() & {"left", "quantitation", "right"}:
            other = next(each for each in ("left", "quantitation", "right") if each in found)
            raise Refused(
                f"{self.grid.place(row, value)}: column {self.grid.names[found['seen']]!r} says that it was detected,"
                f" and column {self.grid.names[found[other]]!r} that it was not. Correct one of them."
            )
        order = ("missing", "right", "quantitation", "left", "estimated", "seen", "blank")
        return next((each for each in order if each in found), "blank")

    def _levels(self, row: int, partners: Partners) -> list[Level]:
        """The limits of a cell, the lowest first."""
        found: list[Level] = []
        for kind, positions in (("detection", partners.detection), ("quantitation", partners.quantitation)):
            for position in positions:
                text = self.grid.columns[position][row].strip()
                cell = read_cell(text, self.grid.decimal)
                if cell is None or cell[0] in ("above", "between", "nondetect"):
                    raise Refused(f"{self.grid.place(row, position)}: the limit {text!r} is no number. Correct it.")
                if cell[0] != "missing" and cell[1] not in _SENTINELS:
                    found.append((float(cell[1]), text.lstrip("<≤= "), position, kind))
        return sorted(found)

    def _cell(
        self,
        row: int,
        value: int,
        text: str,
        cell: tuple[str, float],
        flag: str,
        levels: Sequence[Level],
        has_flags: bool,
        halves: bool,
    ) -> str:
        kind, number = cell
        place = self.grid.place(row, value)
        hidden = flag in ("left", "quantitation")
        if flag == "missing":
            self.counts["rejected"] += kind != "missing"
            return ""
        if kind in ("below", "nondetect", "above"):
            if flag == "seen" or flag == ("right" if kind != "above" else "left"):
                raise Refused(f"{place}: {text!r} contradicts its flag. Correct the cell or the flag.")
            return self._at_limit(row, levels, flag) if kind == "nondetect" and levels else text
        if kind == "missing":
            if flag == "right" and levels:
                return f">{levels[-1][1]}"
            if (hidden and not levels) or flag == "right":
                raise Refused(
                    f"{place}: flagged as {'above its limit' if flag == 'right' else 'a non-detect'}, but neither a"
                    " value nor a limit says at what level. Give the limit as the value or in a column of limits, or"
                    " clear the flag."
                )
            self.counts["empty beside a limit"] += bool(levels and not hidden)
            return self._at_limit(row, levels, flag) if hidden else ""
        if kind == "between" or flag == "right":
            return text if kind == "between" else f">{text}"
        if hidden:
            return self._non_detect(row, place, text, number, levels, flag)
        estimated = "estimated" in (flag, kind)
        self.counts["estimated"] += estimated
        if levels and number < levels[0][0] * (1.0 - _SLACK) and not estimated:
            if has_flags and not halves:
                raise Refused(
                    f"{place}: not flagged as a non-detect, but {text} is below its limit {levels[0][1]} (column"
                    f" {self.grid.names[levels[0][2]]!r}). Correct the value, the flag or the limit."
                )
            self.counts["half of its limit" if halves else "below its limit"] += 1
            return self._at_limit(row, levels, flag)
        return text

    def _non_detect(self, row: int, place: str, text: str, number: float, levels: Sequence[Level], flag: str) -> str:
        """A number that is flagged as a non-detect: the limit, or something below it."""
        if levels and number > levels[-1][0] * (1.0 + _SLACK):
            raise Refused(
                f"{place}: flagged as a non-detect, but {text} is above its limit {levels[-1][1]} (column"
                f" {self.grid.names[levels[-1][2]]!r}). Correct the value, the flag or the limit."
            )
        if levels and number < levels[0][0] * (1.0 - _SLACK):
            self.counts["half of its limit"] += is_half(text, number, levels[0][0])
            return self._at_limit(row, levels, flag)
        if number <= 0.0:
            raise Refused(
                f"{place}: flagged as a non-detect, but its limit {text} is not above 0. Give the limit as the"
                " value or in a column of limits, or clear the flag."
            )
        return f"<{text}"

    def _at_limit(self, row: int, levels: Sequence[Level], flag: str) -> str:
        """A cell below one of its limits: that of quantitation where the flag speaks of it, the lowest elsewhere."""
        own = [each for each in levels if each[3] == "quantitation"] if flag == "quantitation" else []
        number, text, position, _ = own[-1] if own else levels[0]
        if number <= 0.0:
            raise Refused(
                f"{self.grid.place(row, position)}: the limit {text} of a non-detect is not above 0. Correct it."
            )
        return f"<{text}"

    def _nhanes_limits(
        self, texts: Sequence[str], cells: Sequence[tuple[str, float]], flags: Sequence[str]
    ) -> dict[str, str]:
        """Limits of values that are limits by the root of 2, by these values as they are written.

        The smallest number that was seen is the limit where rounding allows that.
        """
        seen = [
            number for (kind, number), flag in zip(cells, flags, strict=True) if kind == "number" and flag == "seen"
        ]
        least = min(seen, default=math.nan)
        found = {}
        for text, (kind, number), flag in zip(texts, cells, flags, strict=True):
            if flag == "left" and kind == "number" and number > 0.0:
                is_least = is_half(text, number, least) and number > 0.6 * least
                found[text] = f"{least if is_least else number * math.sqrt(2.0):.4g}".replace(".", self.grid.decimal)
                self.counts["half of its limit"] += 1
        return found

    def _without_halves(self, plain: list[str]) -> list[str]:
        """Cells that pose as values and are halves of limits that the column itself names, put below these."""
        halves = own_halves(self.grid, plain)
        for at, text in enumerate(plain):
            if text.strip() in halves:
                plain[at] = f"<{halves[text.strip()]:g}".replace(".", self.grid.decimal)
                self.counts["half of its limit"] += 1
        self.count(plain)
        return plain

    def count(self, texts: Sequence[str]) -> None:
        """Count plain cells by their kinds, and keep their limits."""
        for text, count in Counter(texts).items():
            kind, number = read_cell(text, self.grid.decimal) or ("", math.nan)
            self.kinds[kind] += count
            if kind == "below":
                self.levels.add(float(number))

    def _check_units(self, rows: Sequence[int], partners: Partners) -> None:
        """Raise Refused where values, or their limits, are in different units."""
        first: tuple[str, int, int] | None = None
        for row in rows:
            for position in (partners.unit, partners.limit_unit):
                text = "" if position is None else self.grid.columns[position][row].strip()
                if position is None or self.grid.kind(text) == "missing":
                    continue
                if first is None:
                    first = unit_of(text), row, position
                elif unit_of(text) != first[0]:
                    raise Refused(
                        f"{self.grid.place(row, position)}: the unit {text!r}, but"
                        f" {self.grid.columns[first[2]][first[1]].strip()!r} in {self.grid.place(*first[1:])}, of the"
                        " same analyte. Convert one of them."
                    )

    # --- what is said of it -----------------------------------------------------------------------------

    def notes(self, how: str) -> tuple[tuple[str, ...], str]:
        """At most three lines on a table: its layout, its limits, what is suspicious; and the last one by itself."""
        of = self.counts
        kinds, cells = self.kinds, counted(self.kinds.total(), "cell")
        levels = listed((f"{level:g}" for level in sorted(self.levels)), most=6)
        said = [f"{kinds['below']:,} of {cells} below a limit ({levels})" if kinds["below"] else ""]
        said += [f"{kinds['above']:,} above one" if kinds["above"] else ""]
        said += [f"{kinds['nondetect']:,} not detected, without a limit" if kinds["nondetect"] else ""]
        said += [f"{of['estimated']:,} estimated (seen)" if of["estimated"] else ""]
        said += [f"{kinds['missing']:,} missing" if kinds["missing"] else ""]
        suspicious = "; ".join(
            f"{counted(of[name], noun)} {words.format(self.delivery.duplicates)}"
            for name, (noun, words) in _SUSPICIOUS.items()
            if of[name]
        )
        lines = (how, "; ".join(filter(None, said)), suspicious and f"Suspicious: {suspicious}")
        return tuple(line for line in lines if line), suspicious


def _cleaned(cleaner: _Cleaner, layout: Layout) -> PlainTable:
    """A table with a column for each analyte, its values made plain."""
    grid = cleaner.grid
    rows = range(grid.n_rows)
    made: dict[int, tuple[str, list[str]]] = {at: (grid.names[at], grid.columns[at]) for at in layout.labels}
    changed = set()
    for value, partners in layout.values.items():
        name, cells = grid.names[value], grid.columns[value]
        if partners.all or own_halves(grid, cells):
            cells = cleaner.column(rows, value, partners)
            changed.add(name)
        else:  # the reader of text refuses what is wrong with it
            cleaner.count(cells)
        made[value] = name, cells
    for name, (lower, upper) in layout.pairs.items():
        made[lower] = name, [_joined(cleaner, row, lower, upper) for row in rows]
        changed.add(name)
    names = [made[at][0] for at in sorted(made)]
    beside = [(grid.names[value], each.all) for value, each in layout.values.items() if each.all]
    beside += [(name, list(pair)) for name, pair in layout.pairs.items()]
    how = [*grid.skipped]
    if beside:
        each = (f"{name} ({', '.join(grid.names[at] for at in by)})" for name, by in beside)
        how.append(f"read with what stands beside them: {listed(each, most=6)}")
    if layout.labels:
        how.append(f"no measurements: {listed((grid.names[at] for at in layout.labels), most=6)}")
    notes, suspicious = cleaner.notes("; ".join(how))
    labels = frozenset(grid.names[at] for at in layout.labels)
    columns = [made[at][1] for at in sorted(made)]
    return PlainTable(names, columns, labels, frozenset(changed), notes, suspicious, grid.lines, grid.named)


def _joined(cleaner: _Cleaner, row: int, lower: int, upper: int) -> str:
    """The cell that two ends of an interval say."""
    grid = cleaner.grid
    texts = [grid.columns[position][row].strip() for position in (lower, upper)]
    numbers: list[float | None] = []
    for text, position in zip(texts, (lower, upper), strict=True):
        cell = read_cell(text, grid.decimal)
        if cell is None or cell[0] not in ("number", "grouped", "missing"):
            raise Refused(f"{grid.place(row, position)}: the end {text!r} of an interval is no number. Correct it.")
        numbers.append(None if cell[0] == "missing" or math.isinf(cell[1]) else float(cell[1]))
    low, high = numbers
    if low is not None and high is not None and low > high:
        raise Refused(
            f"{grid.place(row, lower)}: the lower end {texts[0]} is above the upper end {texts[1]} (column"
            f" {grid.names[upper]!r}). Exchange or correct them."
        )
    if low == high:
        said = texts[0] if low is not None else ""
    elif high is None:
        said = f">{texts[0]}"
    else:
        said = f"<{texts[1]}" if low is None or low == 0.0 else interval(*texts)
    cleaner.count([said])
    return said


def _pivoted(cleaner: _Cleaner, layout: Layout) -> PlainTable:
    """A table with a row for each value as one with a row for each sample and a column for each analyte."""
    grid, delivery = cleaner.grid, cleaner.delivery
    ((value, partners),) = layout.values.items()
    assert layout.analyte is not None, "a long table"
    keys = list(layout.keys)
    if delivery.duplicates not in (None, "mean", "first"):
        if delivery.duplicates not in grid.names:
            raise Refused(
                f"duplicates={delivery.duplicates!r} is neither 'mean' nor 'first', nor a column of the table."
            )
        keys.append(grid.names.index(delivery.duplicates))
    samples: dict[tuple[str, ...], list[int]] = {}
    analytes: dict[str, list[int]] = {}
    for row, name in enumerate(_analyte_names(grid, layout)):
        if not any(column[row] for column in grid.columns):
            continue  # nothing but separators
        key = tuple(grid.columns[position][row].strip() for position in keys)
        if not name or not any(key):
            what, position = ("sample", keys[0]) if name else ("analyte", layout.analyte)
            raise Refused(f"{grid.place(row, position)}: no {what} is named. Name it, or leave the row out.")
        samples.setdefault(key, []).append(row)
        analytes.setdefault(name, []).append(row)
    of_row = {row: at for at, rows in enumerate(samples.values()) for row in rows}
    columns = []
    for name, rows in analytes.items():
        cells, first = [""] * len(samples), dict[int, int]()
        for row, text in zip(rows, cleaner.column(rows, value, partners), strict=True):
            at = of_row[row]
            if at in first:
                sample = ", ".join(list(samples)[at])
                text = _one_of_two(
                    cleaner, (first[at], cells[at]), (row, text), value, f"{name!r} in sample {sample!r}"
                )
            first.setdefault(at, row)
            cells[at] = text
        cleaner.kinds["missing"] += len(samples) - len(first)
        columns.append(_averaged(cells, grid.decimal))
    beside = [position for position in range(len(grid.names)) if position not in (value, layout.analyte, *keys)]
    beside = [position for position in beside if position not in (*partners.all, layout.fraction)]
    constant = [
        each for each in beside if all(len({grid.columns[each][row] for row in rows}) == 1 for rows in samples.values())
    ]
    labels = sorted([*keys, *constant])
    texts = [[grid.columns[position][rows[0]] for rows in samples.values()] for position in labels]
    by = f" with {listed((grid.names[at] for at in partners.all), most=6)}" if partners.all else ""
    how = [*grid.skipped, f"a row for each value: samples by {listed((grid.names[at] for at in keys), 5)}, analytes by"]
    how[-1] += f" {grid.names[layout.analyte]}, values in {grid.names[value]}{by}"
    if left_out := [grid.names[each] for each in beside if each not in constant]:
        how.append(f"left out, as they differ within samples: {listed(left_out, most=6)}")
    notes, suspicious = cleaner.notes("; ".join(how))
    names = [*(grid.names[at] for at in labels), *analytes]
    if repeated := [name for name in analytes if name in {grid.names[at] for at in labels}]:
        raise Refused(f"{repeated[0]!r} is an analyte and the name of a column. Rename one of them.")
    own = frozenset(grid.names[at] for at in labels)
    return PlainTable(names, texts + columns, own, frozenset(names), notes, suspicious)


def _analyte_names(grid: Grid, layout: Layout) -> list[str]:
    """What is measured in every row: the analyte, with its fraction where it has several."""
    assert layout.analyte is not None, "a long table"
    names = [cell.strip() for cell in grid.columns[layout.analyte]]
    if layout.fraction is None:
        return names
    fractions = [cell.strip() for cell in grid.columns[layout.fraction]]
    several: dict[str, set[str]] = {}
    for name, fraction in zip(names, fractions, strict=True):
        several.setdefault(name, set()).add(fraction)
    both = zip(names, fractions, strict=True)
    return [f"{name} ({part})" if len(several[name]) > 1 and name and part else name for name, part in both]


_BETWEEN = "\x00"  # parts the values of a cell that are to be averaged


def _one_of_two(cleaner: _Cleaner, first: tuple[int, str], second: tuple[int, str], value: int, what: str) -> str:
    """The cell of two values of one sample and analyte, as the user says. Raises Refused where nothing was said."""
    grid, delivery = cleaner.grid, cleaner.delivery
    if delivery.duplicates not in ("mean", "first"):
        raise Refused(
            f"{grid.place(second[0], value)}: a second value of {what}; the first is in {grid.row(first[0])}. Read"
            " it by unrelu.read_table (unrelu read) with duplicates='mean', duplicates='first', or the name of the"
            " column that tells replicates apart."
        )
    cleaner.counts["duplicate"] += 1
    if delivery.duplicates == "first":
        return first[1]
    kinds = {grid.kind(text) for text in (*first[1].split(_BETWEEN), second[1])}
    if not (kinds <= {"number", "grouped", "estimated"} or kinds == {"below"}):
        raise Refused(
            f"{grid.place(second[0], value)}: a second value of {what}, and no number is the mean of"
            f" {first[1].split(_BETWEEN)[0]!r} and {second[1]!r}. Say duplicates='first'."
        )
    return f"{first[1]}{_BETWEEN}{second[1]}"


def _averaged(cells: Sequence[str], decimal: str) -> list[str]:
    """Cells with the mean of several values; that of limits is below the mean of the limits."""
    made = []
    for text in cells:
        parts = text.split(_BETWEEN)
        if len(parts) > 1:
            read = [cell for part in parts if (cell := read_cell(part, decimal)) is not None]
            mean = repr(math.fsum(number for _, number in read) / len(read)).replace(".", decimal)
            text = f"<{mean}" if read[0][0] == "below" else mean
        made.append(text)
    return made
