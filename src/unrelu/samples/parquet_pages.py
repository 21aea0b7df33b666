"""Parquet columns of plain floats that are not packed, used where they lie in the file's pages.

pyarrow makes columns anew, with an eye to missing cells, which takes half as long as the pass over a narrow table.
Whatever is not quite plain (packed or encoded values, a missing cell, a checksum, damage) is left to it. So are packed
pages: its codecs do not tell how much they unpacked, and a damaged page may give too little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from io import FileIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_COLUMNS = 512  # each holds a page; the pass over more columns takes far longer than reading them
_AHEAD, _AHEAD_IN_ALL, _MOST_PAGES = 2**20, 2**24, 256  # bytes read at a time, of one column and of all; pages
_KINDS: dict[str, np.dtype[Any]] = {"FLOAT": np.dtype(np.float32), "DOUBLE": np.dtype(np.float64)}


class NotPlainError(Exception):
    """These rows are to be read by pyarrow."""


def plain_batches(file: FileIO, opened: Any, group: int, names: Sequence[str]) -> Iterator[list[NDArray[Any]]]:
    """All rows of a row group, some at a time, as one array a column; NotPlainError from where that cannot be done on.

    ``file`` is the file that pyarrow has ``opened``. The arrays are those of the next batch as well: copy them first.
    """
    metadata = opened.metadata.row_group(group)
    places = {opened.schema.column(k).path: k for k in range(metadata.num_columns)}
    if len(names) > _MOST_COLUMNS or not set(names) <= set(places):
        raise NotPlainError
    chunks = [metadata.column(places[name]) for name in names]
    if {(chunk.physical_type, chunk.num_values) for chunk in chunks} != {(chunks[0].physical_type, metadata.num_rows)}:
        raise NotPlainError
    ahead = min(_AHEAD, _AHEAD_IN_ALL // len(names))
    described = [opened.schema.column(places[name]) for name in names]
    columns = [_Column(file, *both, ahead) for both in zip(chunks, described, strict=True)]
    left = metadata.num_rows
    while left > 0:
        n = min(left, *(column.ready() for column in columns))
        yield [column.take(n) for column in columns]
        left -= n


class _Column:
    """The values of one column of a row group, as they are asked for."""

    def __init__(self, file: FileIO, chunk: Any, described: Any, ahead: int) -> None:
        plain = set(chunk.encodings) <= {"PLAIN", "RLE", "BIT_PACKED"} and not chunk.has_dictionary_page
        whole = described.max_repetition_level == 0 and described.max_definition_level <= 1
        if not (plain and whole and chunk.physical_type in _KINDS and chunk.compression == "UNCOMPRESSED"):
            raise NotPlainError
        self._kind, self._may_miss = _KINDS[chunk.physical_type], described.max_definition_level == 1
        self._file, self._place, self._end = file, chunk.data_page_offset, chunk.data_page_offset
        self._end += chunk.total_compressed_size
        self._ahead = ahead
        self._room: NDArray[np.uint8] = np.empty(0, np.uint8)  # memory that is asked for anew costs more than reading
        self._pages: deque[list[int]] = deque()  # of what was read
        self._values: NDArray[Any] = np.empty(0, self._kind)  # of a page, those that were not taken

    def ready(self) -> int:
        """How many values can be taken, at least one."""
        while len(self._values) == 0:
            if not self._pages:
                self._read_on(self._ahead)
            self._values = self._floats(*self._pages.popleft())
        return len(self._values)

    def take(self, n: int) -> NDArray[Any]:
        taken, self._values = self._values[:n], self._values[n:]
        return taken

    def _read_on(self, size: int) -> None:
        """At least one more page, of the next ``size`` bytes or more."""
        from unrelu.kernels.page_headers import find_pages

        size = min(size, self._end - self._place)
        if len(self._room) < size:
            self._room = np.empty(size, np.uint8)
        self._file.seek(self._place)
        read = self._file.readinto(self._room[:size].data)
        found = np.empty((_MOST_PAGES, 3), np.int64)
        n, behind = find_pages(self._room[:read], found)
        if n > 0:
            self._place += behind
            self._pages.extend(found[:n].tolist())
        elif 0 < size < self._end - self._place:
            self._read_on(4 * size)
        else:
            raise NotPlainError

    def _floats(self, start: int, end: int, n: int) -> NDArray[Any]:
        """The n values of a page, if none is missing."""
        from unrelu.kernels.page_headers import behind_levels

        page = self._room[start:end]
        before = behind_levels(page, n) if self._may_miss else 0
        if before < 0 or len(page) - before != n * self._kind.itemsize:
            raise NotPlainError
        return page[before:].view(self._kind)
