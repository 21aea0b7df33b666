"""What the text of one cell says: a number, a limit ("<0.25"), a word for missing, or one for not detected."""

from __future__ import annotations

import re
from typing import NamedTuple

# What the fast reader takes for missing, said to nobody.
PLAIN_MISSING = ("", "NA", "NaN", "nan", "null", "N/A")
# Words in any case; those that are not plain are told.
_MISSING = frozenset({*map(str.casefold, PLAIN_MISSING), "none", "-", "--", "–", "—", ".", "#n/a", "n.a.", "n.a"})
_NOT_DETECTED = frozenset(
    {
        *("nd", "n.d.", "n.d", "not detected", "non-detect", "nondetect", "non detect", "undetected"),
        *(
            "bdl",
            "b.d.l.",
            "bld",
            "bql",
            "blq",
            "bloq",
            "lod",
            "loq",
            "below detection limit",
            "below lod",
            "below loq",
        ),
        *("<lod", "<loq", "<dl", "<mdl", "<ld", "<lq", "<ql", "<rl", "<mrl", "<pql", "<lloq", "<nd", "<bdl"),
    }
)
_SIGN = {"<": "below", "≤": "below", "<=": "below", ">": "above", "≥": "above", ">=": "above"}
_LIMIT = re.compile(r"(<=|>=|[<>≤≥])\s*(.+)")
_OTHER = {".": ",", ",": "."}


class Cell(NamedTuple):
    """``kind``: "number", "grouped" (a number with thousands separators), "missing", "nondetect", "below", "above"."""

    kind: str
    value: float = float("nan")


def read_cell(text: str, decimal: str = ".") -> Cell | None:
    """What a cell says; None where that cannot be told.

    >>> read_cell("< 0,25", decimal=","), read_cell("1,234.5")
    (Cell(kind='below', value=0.25), Cell(kind='grouped', value=1234.5))
    >>> read_cell("n.d.").kind, read_cell("NA").kind, read_cell("abc")
    ('nondetect', 'missing', None)
    """
    text = text.strip()
    word = re.sub(r"\s+", " ", text.casefold()).replace("< ", "<")
    if word in _MISSING:
        return Cell("missing")
    if word in _NOT_DETECTED:
        return Cell("nondetect")
    limit = _LIMIT.fullmatch(text)
    if limit is not None:
        number = _number(limit[2], decimal)
        return (
            None
            if number is None or number.value in (float("inf"), -float("inf"))
            else Cell(_SIGN[limit[1]], number.value)
        )
    return _number(text, decimal)


def plain_number(decimal: str) -> str:
    """The pattern of numbers without thousands separators, for re and for Arrow's RE2 alike."""
    mark = re.escape(decimal)
    return rf"[+-]?([0-9]+({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?"


def decimal_vote(text: str) -> str | None:
    """The decimal mark that a cell shows, "." or ","; None where it shows none, or could show either.

    >>> decimal_vote("0,25"), decimal_vote("1.234,5"), decimal_vote("1,234.5"), decimal_vote("1,234"), decimal_vote("7")
    (',', ',', '.', None, None)
    """
    text = text.strip().lstrip("<>≤≥= ")
    possible = [mark for mark in ".," if _number(text, mark) is not None]
    return possible[0] if len(possible) == 1 else None


_PLAIN = {mark: re.compile(plain_number(mark)) for mark in _OTHER}
# Groups of three, all with the same separator, after a first group that is not 0.
_GROUPED = {
    mark: re.compile(
        rf"[+-]?[1-9][0-9]{{0,2}}(?:([{re.escape(other)}' \u00a0\u2009\u202f’])[0-9]{{3}})(?:\1[0-9]{{3}})*"
        rf"({re.escape(mark)}[0-9]+)?"
    )
    for mark, other in _OTHER.items()
}
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)


def _number(text: str, decimal: str) -> Cell | None:
    if _PLAIN[decimal].fullmatch(text):
        return Cell("number", float(text.replace(decimal, ".")))
    if _INFINITE.fullmatch(text):
        return Cell("number", float(text))
    grouped = _GROUPED[decimal].fullmatch(text)
    if grouped is None:
        return None
    return Cell("grouped", float(text.replace(grouped[1], "").replace(decimal, ".")))
