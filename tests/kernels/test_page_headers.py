"""Headers are written here by hand, as Thrift's compact protocol says."""

import numpy as np
import pytest

from unrelu.kernels.page_headers import (
    CHECKSUM,
    ENCODING,
    KIND,
    LEVELS,
    N_VALUES,
    PACKED_SIZE,
    REPETITIONS,
    SIZE,
    behind_levels,
    find_pages,
    read_page_header,
)


def varint(number: int) -> bytes:
    low = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(byte | 128 for byte in low[:-1]), low[-1]])


def integer(step: int, value: int) -> bytes:
    return bytes([step << 4 | 5]) + varint(2 * value if value >= 0 else -2 * value - 1)


def header(kind=0, size=80_008, packed=500, n=20_000, encoding=0, checksum=None) -> bytes:
    statistics = bytes([0x18, 3]) + b"abc" + bytes([0x26, 0, 0x21, 0x13, 9, 0x17]) + bytes(8) + b"\0"
    page = integer(1, n) + integer(1, encoding) + integer(1, 3) + integer(1, 3) + b"\x1c" + statistics + b"\0"
    own = b"" if checksum is None else integer(1, checksum)
    field = b"\x2c" if checksum is None else b"\x0c" + varint(10)  # a step, or the field's number
    return integer(1, kind) + integer(1, size) + integer(1, packed) + own + field + page + b"\0"


def as_bytes(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8)


@pytest.mark.parametrize("checksum", [None, -5])
def test_fields(checksum):
    found, content = np.empty(8, np.int64), header(checksum=checksum)
    assert read_page_header(as_bytes(b"\xff" + content + b"rest"), 1, found) == 1 + len(content)
    order = [KIND, SIZE, PACKED_SIZE, N_VALUES, ENCODING, LEVELS, REPETITIONS, CHECKSUM]
    assert found[order].tolist() == [0, 80_008, 500, 20_000, 0, 3, 3, -1 if checksum is None else 1]


def test_headers_cut_short_or_of_other_kinds():
    content, found = header(), np.empty(8, np.int64)
    for end in range(len(content)):
        assert read_page_header(as_bytes(content[:end]), 0, found) == -1
    for other in (b"\x19\x15\0", b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x15" + b"\xff" * 20, b"\x1c" * 20):
        assert read_page_header(as_bytes(other + bytes(30)), 0, found) == -1


def test_whole_plain_pages():
    pages, content = np.zeros((9, 3), np.int64), header(size=5, packed=5) + b"12345"
    start = len(content) - 5
    two = content + header(size=5, packed=5, n=7) + b"12345"
    assert find_pages(as_bytes(two), pages) == (2, len(two))
    assert pages[0].tolist() == [start, start + 5, 20_000]
    assert pages[1, 2] == 7
    assert find_pages(as_bytes(two[:-1]), pages) == (1, len(content))
    assert find_pages(as_bytes(two), pages[:1]) == (1, len(content))
    for other in ({"kind": 2}, {"encoding": 8}, {"checksum": 1}, {"size": 6}, {"size": -5, "packed": -5}, {"n": -1}):
        page = header(**{"size": 5, "packed": 5, **other})
        assert find_pages(as_bytes(content + page + bytes(500)), pages) == (1, len(content))


def test_levels():
    for n in (1, 63, 64, 20_000):
        run = varint(2 * n) + b"\1"
        levels = len(run).to_bytes(4, "little") + run
        assert behind_levels(as_bytes(levels + b"values"), n) == len(levels)
        assert behind_levels(as_bytes(levels), n + 1) == -1
        for other in (levels[:-1] + b"\0", levels[:-1], levels[:3], b"\xff" + levels[1:]):
            assert behind_levels(as_bytes(other), n) == -1
