"""Pages of a parquet file: their headers, structs in Thrift's compact protocol, and what precedes their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

KIND, SIZE, PACKED_SIZE, CHECKSUM, N_VALUES, ENCODING, LEVELS, REPETITIONS = range(8)
_OF_DATA_PAGE, _DEPTH = 5, 8  # the field that holds a data page's own struct; structs within structs, at most
_DATA_PAGE, _PLAIN, _RUNS = 0, 0, 3  # numbers of the format: a kind of page, encodings of values and of levels
_FIELD_BITS = 0x0F
_TRUE, _FALSE, _BYTE, _SHORT, _INTEGER, _LONG, _DOUBLE, _TEXT, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 12


@njit(cache=True, nogil=True)
def _varint(data: np.ndarray, at: int) -> tuple[Any, int]:
    """A number of 7 bits a byte, the lowest first, and the place behind it; -1 for a place where there is none."""
    value = np.int64(0)
    for shift in range(0, 63, 7):
        if at >= len(data):
            return np.int64(0), -1
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return np.int64(0), -1


@njit(cache=True, nogil=True)
def read_page_header(data: np.ndarray, at: int, found: np.ndarray) -> int:
    """The place behind the header that starts at ``at``, or -1 where there is none that is understood.

    found[KIND], ... are its fields, -1 where they are absent; found[CHECKSUM] says only whether there is one.
    """
    found[:] = -1
    fields, depth = np.zeros(_DEPTH, np.int64), 0
    while 0 <= at < len(data):
        byte = np.int64(data[at])
        at += 1
        if byte == 0:  # the end of a struct
            depth -= 1
            if depth < 0:
                return at
            continue
        kind, step, value = byte & _FIELD_BITS, byte >> 4, 0
        if step == 0:
            number, at = _varint(data, at)
            fields[depth] = number >> 1
            if at < 0:
                return -1
        fields[depth] += step
        if kind in (_SHORT, _INTEGER, _LONG):
            number, at = _varint(data, at)
            value = (number >> 1) ^ -(number & 1)
        elif kind == _TEXT:
            size, at = _varint(data, at)
            at = at + size if at >= 0 and size <= len(data) - at else -1
        elif kind in (_BYTE, _DOUBLE):
            at += 1 if kind == _BYTE else 8
        elif kind == _STRUCT and depth + 1 < _DEPTH:
            depth += 1
            fields[depth] = 0
        elif kind not in (_TRUE, _FALSE):
            return -1
        if kind == _INTEGER and depth == 0 and 1 <= fields[0] <= CHECKSUM + 1:
            found[fields[0] - 1] = 1 if fields[0] == CHECKSUM + 1 else value
        elif kind == _INTEGER and depth == 1 and fields[0] == _OF_DATA_PAGE and 1 <= fields[1] <= 4:
            found[CHECKSUM + fields[1]] = value
    return -1


@njit(cache=True, nogil=True)
def find_pages(data: np.ndarray, pages: np.ndarray) -> tuple[int, int]:
    """Whole data pages of plain values, not packed, from the first byte on: how many, and the place behind them.

    pages[k] = where the k-th one's content starts and ends, its values. Ends at other pages.
    """
    found, at = np.empty(8, np.int64), 0
    for k in range(len(pages)):
        start = read_page_header(data, at, found)
        plain = found[KIND] == _DATA_PAGE and found[ENCODING] == _PLAIN and found[SIZE] == found[PACKED_SIZE]
        usual = found[LEVELS] == _RUNS and found[REPETITIONS] >= 0 and found[CHECKSUM] < 0 and found[N_VALUES] >= 0
        if start < 0 or not (plain and usual) or not 0 <= found[SIZE] <= len(data) - start:
            return k, at
        at = start + found[SIZE]
        pages[k, 0], pages[k, 1], pages[k, 2] = start, at, found[N_VALUES]
    return len(pages), at


@njit(cache=True, nogil=True)
def behind_levels(page: np.ndarray, n: int) -> int:
    """The place behind the levels that say that none of n values is missing, -1 where they do not.

    The bytes of one run in 4 bytes, the lowest first; the run: twice its length as a varint, and the level 1.
    """
    if len(page) < 4:
        return -1
    size = np.int64(page[0]) | np.int64(page[1]) << 8 | np.int64(page[2]) << 16 | np.int64(page[3]) << 24
    length, behind = _varint(page, 4)
    one_run = behind > 0 and length == 2 * n and size == behind + 1 - 4 and behind < len(page) and page[behind] == 1
    return behind + 1 if one_run else -1
