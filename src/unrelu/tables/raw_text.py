"""Text as it is stored, as a table of text: encodings, separators, and lines around the header that are no rows."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from unrelu.tables.cells import Reading, read_cell
from unrelu.tables.layout import Grid, Refused, decimal_mark_of, may_speak
from unrelu.tables.table_file import row_and_line
from unrelu.tables.vocabulary import is_unit
from unrelu.validation import counted, listed

_MARKS = ",;\t|"
_HEAD_CELLS = 20_000
_MOST = 0.7  # of the rows have as many cells as the table has columns
Lines = list[tuple[int, list[str]]]
"""Rows of cells with the lines that they end in."""


def encoding_of(head: bytes) -> str:
    """The encoding that the first bytes of a text show: by a byte-order mark, by zeros in every other place, or UTF-8;
    cp1252, that of Windows and nearly Latin-1, where they are no UTF-8.

    >>> [encoding_of(text) for text in ("µ".encode(), "µ".encode("cp1252"), "As;Pb".encode("utf-16-le"))]
    ['utf-8-sig', 'cp1252', 'utf-16-le']
    """
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    pairs = len(head) // 2
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[0::2])):
        if pairs > 1 and zeros.count(0) > 0.6 * pairs:
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def decoded(raw: bytes) -> str:
    """A text in whichever of these encodings it is.

    >>> decoded("Größe".encode("latin-1"))
    'Größe'
    """
    encoding = encoding_of(raw)
    if encoding.startswith("utf-16"):
        return raw.decode(encoding, "replace")
    for encoding in ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            return raw.decode(encoding)
    return raw.decode("latin-1")  # with one of the five bytes that cp1252 has no character for


def text_grid(raw: bytes, reading: Reading, usual: str, *, head: bool, cut: bool, spaces: bool) -> Grid | None:
    """The table of text in these bytes, of its first rows alone where only the ``head`` is looked at.

    ``cut``: the bytes end somewhere in a row. ``usual`` is the usual separator; ``spaces`` may be one. None where there
    is no table with names, or where the head is of nothing but values, so that the plain reader has the word. Raises
    Refused for rows of other lengths.
    """
    if cut and raw.rfind(b"\n") > 0:
        raw = raw[: raw.rfind(b"\n") + 1]
        raw += b"\0" if raw[:2] == codecs.BOM_UTF16_LE or encoding_of(raw) == "utf-16-le" else b""
    text = decoded(raw)
    mark, lines = _cut(text, usual, head, spaces)
    if not lines:
        return None
    width = _width(lines)[0]
    above, lines = _without_titles(lines, width)
    names, named = [cell.strip() for cell in lines[0][1]], reading.header
    if named is None:
        named = _may_name(names)
    if not named:
        if mark != " ":
            return None
        names = [str(position) for position in range(width)]
    body = lines[named:]
    skipped = [f"skipped above the header: {listed(above, most=3)}"] if above else []
    skipped += ["columns parted by spaces"] if mark == " " else []
    if named and len(body) > 1 and _is_unit_row(body[0][1], [row for _, row in body[1:]]):
        skipped.append(f"skipped below it: the units {', '.join(filter(None, map(str.strip, body[0][1])))}")
        body = body[1:]
    if head and not (skipped or "<" in text or may_speak(names) or (reading.delivery and reading.delivery.labels)):
        return None
    rows = list(_even(body, len(names), lenient=head))
    if not rows or len(names) < width:
        return None
    used = [at for at, name in enumerate(names) if name or any(row[at].strip() for _, row in rows)]
    columns = [[row[at].strip() for _, row in rows] for at in used]
    decimal = reading.decimal or decimal_mark_of(columns, mark)
    found = [names[at] or f"column {at + 1}" for at in used]
    return Grid(found, columns, [line for line, _ in rows], decimal, skipped, named)


def _cut(text: str, usual: str, head: bool, spaces: bool) -> tuple[str, Lines]:
    """The separator, and the rows that it makes: of the same width most often, with most cells that can be read."""
    best: tuple[tuple[bool, float], str, Lines] = ((False, -1.0), usual, [])
    possible = [mark for mark in dict.fromkeys([usual, *_MARKS]) if mark in text[:2000]] or [usual]
    for mark in possible:
        with suppress(csv.Error):
            lines = list(_rows(text, mark, first=True))
            width, share = _width(lines)
            body = [cell for _, row in lines[1:] if len(row) == width for cell in row] if len(possible) > 1 else []
            readable = sum(read_cell(cell) is not None or read_cell(cell, ",") is not None for cell in body)
            score = (width > 1 and share >= _MOST, readable / max(len(body), 1))
            if score > best[0]:
                best = score, mark, lines
    mark, lines = best[1:]
    if spaces and not best[0][0] and _width(list(_rows(text, " ", first=True)))[0] > 1:
        mark, lines = " ", list(_rows(text, " ", first=head))
        width = _width(lines)[0]
        return " ", [(line, row[:width] if not any(row[width:]) else row) for line, row in lines]
    return mark, lines if head else list(_rows(text, mark, first=False))


def _rows(text: str, mark: str, first: bool) -> Iterator[tuple[int, list[str]]]:
    """Rows of lines that are not blank, or only the ``first`` of them."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=mark == " ")
    n = 0
    for row in reader:
        if row:
            yield reader.line_num, row
            n += 1
            if first and (n == 250 or (n > 20 and n * len(row) > _HEAD_CELLS)):
                return


def _width(lines: Lines) -> tuple[int, float]:
    """How many cells most rows have, and the share of rows that have as many."""
    widths = Counter(len(row) for _, row in lines)
    if not widths:
        return 0, 0.0
    width, count = max(widths.items(), key=lambda each: (each[1], each[0]))
    return width, count / len(lines)


def _is_number(cell: str) -> bool:
    if cell[:1].isalpha():  # nearly all names, which are many
        return False
    read = read_cell(cell) or read_cell(cell, ",")
    return read is not None and read[0] not in ("missing", "nondetect")


def _may_name(row: Sequence[str]) -> bool:
    """Could a row name columns? It holds text, and no more numbers than that: codes may be names, as years are."""
    cells = [cell for cell in row if cell.strip()]
    return bool(cells) and 2 * sum(map(_is_number, cells)) <= len(cells)


def _without_titles(lines: Lines, width: int) -> tuple[list[str], Lines]:
    """What is said of lines above the header, and the others.

    A title is a line of far fewer cells than the table has, and of text; so is one that starts with a sharp sign.
    """
    first = 0
    while first < len(lines) and (_is_title(lines[first][1], width) or lines[first][1][0].startswith("#")):
        first += 1
    left = lines[first][1] if first < len(lines) else []
    if not first or sum(bool(cell.strip()) for cell in left) < 2 or not _may_name(left):
        return [], lines
    titles = [" ".join(filter(None, map(str.strip, row))) for _, row in lines[:first]]
    both = zip(lines[:first], titles, strict=True)
    return [f"line {line} ({title[:40]})" for (line, _), title in both if title], lines[first:]


def _is_title(row: Sequence[str], width: int) -> bool:
    cells = [cell for cell in row if cell.strip()]
    return len(cells) <= max(1, width // 2) < width and not any(map(_is_number, cells))


def _is_unit_row(row: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Is the first row one of units: above columns of numbers no number, but a unit of the usual ones?"""
    units = [is_unit(cell) for cell in row]
    found = False
    for at, cell in enumerate(row if any(units) else ()):
        below = [each[at] for each in body[:50] if at < len(each) and each[at].strip()]
        if sum(read_cell(each) is not None or read_cell(each, ",") is not None for each in below) > 0.7 * len(below):
            found |= units[at]
            if not units[at] and _is_number(cell):
                return False
    return found


def _even(body: Lines, width: int, lenient: bool) -> Iterator[tuple[int, list[str]]]:
    """Rows of the same width; empty cells too many are cut off. Raises Refused for others, or leaves them out."""
    for number, (line, row) in enumerate(body, start=1):
        if len(row) < width or any(cell.strip() for cell in row[width:]):
            if lenient:
                continue
            raise Refused(
                f"{row_and_line(number, line)} has {counted(len(row), 'cell')}, but the header has {width}. Give all"
                " rows as many cells."
            )
        yield line, row[:width]
