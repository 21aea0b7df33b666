"""Columns of text that hold numbers nevertheless: read cell by cell where a cell is not plain, and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.tables.cells import PLAIN_MISSING, Cell, plain_number, read_cell
from unrelu.tables.reading import Reading

NOT_DETECTED = -np.inf
"""Stands for a cell that was not detected and is to be floored, until its column's limit is known."""

_SIDE = {"below": -1.0, "nondetect": -1.0, "above": 1.0}


class UnreadableCell(ValueError):
    """A cell is no number, no limit, and no known word; its text is the message."""


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


def read_texts(column: Any, decimal: str, reading: Reading) -> tuple[NDArray[Any], Seen]:
    """An Arrow array of text as numbers, and what was seen. Raises UnreadableCell.

    A limit becomes its number (NaN with limits="missing"), what is missing NaN, and what was not detected NaN, or
    ``NOT_DETECTED`` where that is to be floored. With limits="cell" the numbers are complex where a cell states a
    limit: the imaginary part is -1 where a cell is at most its number, 1 where it is at least, so that readers and
    blocks can pass cells on without knowing; :func:`split_marks` ends that.

    >>> import pyarrow as pa
    >>> values, seen = read_texts(pa.array(["0.5", "<0.25", "ND", None]), ".", Reading())
    >>> values, dict(seen.below)
    (array([0.5 , 0.25,  nan,  nan]), {0.25: 1})
    """
    import pyarrow as pa
    from pyarrow import compute

    text = compute.ascii_trim_whitespace(column)
    plain = compute.fill_null(compute.match_substring_regex(text, f"^{plain_number(decimal)}$"), False)
    numbers = compute.if_else(plain, text, None)
    if decimal == ",":
        numbers = compute.replace_substring(numbers, ",", ".")
    values = np.array(numbers.cast(pa.float64()).to_numpy(zero_copy_only=False))
    odd = compute.and_(compute.is_valid(text), compute.invert(plain))
    seen = Seen()
    is_number = ~np.isnan(values)
    if compute.any(odd).as_py():
        coded = text.filter(odd).dictionary_encode()
        texts = [_text(each) for each in coded.dictionary.cast(pa.binary())]
        cells = [_cell(each, decimal) for each in texts]
        at, codes = np.flatnonzero(odd), np.asarray(coded.indices)
        read = np.array([_value(cell, reading) for cell in cells])[codes]
        values = values.astype(read.dtype)
        values[at] = read
        is_number[at] = np.array([cell.kind in ("number", "grouped") for cell in cells])[codes]
        for cell, each, count in zip(cells, texts, np.bincount(codes, minlength=len(cells)).tolist(), strict=True):
            _note(seen, cell, each, count)
    if not is_number.any():
        return values, seen
    kept = values[is_number].real
    return values, Seen(seen.below, seen.above, seen.words, float(kept.min()), float(kept.max()))


def split_marks(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """The numbers, and -1 or 1 where one is only a limit; see :func:`read_texts`.

    >>> split_marks(np.array([0.5, 0.25 - 1j]))
    (array([0.5 , 0.25]), array([ 0, -1], dtype=int8))
    """
    return np.array(values.real), values.imag.astype(np.int8)


def _text(cell: Any) -> str:
    return bytes(cell.as_py()).decode(errors="replace")


def _cell(text: str, decimal: str) -> Cell:
    cell = read_cell(text, decimal)
    if cell is None:
        raise UnreadableCell(text)
    return cell


def _value(cell: Cell, reading: Reading) -> float | complex:
    value = cell.value
    if cell.kind == "nondetect" and reading.floors_nondetects:
        value = NOT_DETECTED
    if cell.kind in ("below", "above") and reading.limits == "missing":
        value = float("nan")
    marked = reading.limits == "cell" and cell.kind in _SIDE and value == value
    return complex(value, _SIDE[cell.kind]) if marked else value


def _note(seen: Seen, cell: Cell, text: str, count: int) -> None:
    if cell.kind == "below":
        seen.below[cell.value] += count
    elif cell.kind == "above":
        seen.above[cell.value] += count
    elif cell.kind != "number" and text.strip() not in PLAIN_MISSING:
        seen.words[cell.kind, text.strip()] += count
