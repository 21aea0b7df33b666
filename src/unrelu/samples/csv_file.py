"""csv and tsv files, plain or gzipped, and csv on standard input."""

from __future__ import annotations

import csv
import gzip
import io
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InputFileError
from unrelu.samples.arrow_files import batch_to_array, cells_of
from unrelu.samples.csv_diagnosis import PADDED_MISSING, first_fault, is_missing, is_number
from unrelu.samples.table_file import damage_reported, first_line, refuse_no_rows

STANDARD_INPUT = "standard input"


class CsvFile:
    """A text table. A first line of numbers only is data: the columns then have no names."""

    def __init__(self, path: str, *, name: str | None = None, delimiter: str = ",", gzipped: bool = False) -> None:
        self.name = name or path
        self.n_bytes = os.path.getsize(path)
        self.n_rows = None  # only a full read can tell
        self._path = path
        self._delimiter = delimiter
        self._gzipped = gzipped
        with self._faults_reported(), self._rows() as rows:
            self._read_head(rows)

    def _read_head(self, rows: Iterator[list[str]]) -> None:
        skipped, first = next(((n, row) for n, row in enumerate(rows) if row), (0, None))
        if first is None:
            raise InputFileError(f"{self.name}: there is nothing in it, it is empty.")
        self.n_columns = len(first)
        self._unnamed: frozenset[int] = frozenset()
        if _all_numbers(first):
            self.column_names = None
            self._rows_before_data = skipped
            return
        self.column_names = self._header(first)
        self._rows_before_data = skipped + 1
        refuse_no_rows(self.name, 0 if next(filter(None, rows), None) is None else 1)

    def _header(self, cells: list[str]) -> tuple[str, ...]:
        try:
            "".join(cells).encode()
        except UnicodeEncodeError as error:  # bytes that are not UTF-8 were smuggled in as surrogates
            raise InputFileError(f"{self.name}: the header is not UTF-8 text. Save it as UTF-8.") from error
        self._unnamed = frozenset(i for i, cell in enumerate(cells) if not cell.strip())
        return tuple(cell.strip() or f"column {i + 1}" for i, cell in enumerate(cells))

    def check(self, wanted: Sequence[int]) -> np.dtype[Any]:
        for position in wanted:
            if position in self._unnamed:
                raise InputFileError(
                    f"{self.name}: column {position + 1} from the left has no name (is it a row index?). "
                    f"Name it, or leave it out with drop='column {position + 1}'."
                )
        return np.dtype(np.float64)

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:  # noqa: ARG002
        # pyarrow cuts csv by bytes, not by rows
        for batch in self._batches(wanted, text=False):
            yield batch_to_array(batch, np.dtype(np.float64))

    def cells(self, position: int) -> Iterator[NDArray[Any]]:
        for batch in self._batches([position], text=True):
            yield cells_of(batch.column(0))

    def _batches(self, wanted: Sequence[int], *, text: bool) -> Iterator[Any]:
        from pyarrow import ArrowInvalid

        with self._faults_reported():
            try:
                with self._open_arrow(wanted, text) as reader:
                    yield from reader
            except ArrowInvalid as error:
                fault = self._fault([] if text else wanted, error)
                raise InputFileError(f"{self.name}: {fault}") from error

    @contextmanager
    def _open_arrow(self, wanted: Sequence[int], text: bool) -> Iterator[Iterator[Any]]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        labels = [str(position) for position in range(self.n_columns)]
        read = arrow_csv.ReadOptions(
            column_names=labels,
            skip_rows_after_names=self._rows_before_data,
            block_size=max(2**20, 256 * self.n_columns),  # a block must hold at least one row
        )
        parse = arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.string() if text else pa.float64()),
            strings_can_be_null=True,
            include_columns=[labels[position] for position in wanted],
            null_values=list(PADDED_MISSING),
            check_utf8=False,
        )
        compression = "gzip" if self._gzipped else None
        with (
            pa.input_stream(self._path, compression=compression) as stream,
            arrow_csv.open_csv(stream, read, parse, convert) as reader,
        ):
            yield reader

    def _fault(self, wanted: Sequence[int], error: Exception) -> str:
        with self._rows() as rows:
            for _ in range(self._rows_before_data):
                next(rows)
            fault = first_fault(filter(None, rows), self.column_names, self.n_columns, wanted)
        return (fault or f"cannot be read as csv ({first_line(error)}).") + self._other_separator()

    def _other_separator(self) -> str:
        """A hint where the whole header came out as one cell."""
        if self.n_columns == 1 and self.column_names is not None:
            for mark, word in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
                if mark in self.column_names[0]:
                    expected = "tabs" if self._delimiter == "\t" else "commas"
                    return f" The cells seem to be separated by {word}: save the file with {expected}."
        return ""

    @contextmanager
    def _rows(self) -> Iterator[Iterator[list[str]]]:
        """All rows as text, blank lines as empty lists."""
        opener: Any = gzip.open if self._gzipped else open
        with opener(self._path, "rb") as binary:
            # surrogateescape: a text column that is left out may be in any encoding
            text = io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape", newline="")
            yield csv.reader(text, delimiter=self._delimiter)

    @contextmanager
    def _faults_reported(self) -> Iterator[None]:
        with damage_reported(self.name, "gzipped csv" if self._gzipped else "csv"):
            try:
                yield
            except csv.Error as error:
                reason = f"cannot be read as csv ({first_line(error)}). Is a quotation mark not closed?"
                raise InputFileError(f"{self.name}: {reason}") from error


def standard_input() -> CsvFile:
    """csv on standard input, put aside in a temporary file so that it can be read more than once.

    The file goes when the table is no longer used, at the latest when the interpreter ends.
    """
    path = _put_aside(_binary_input())
    try:
        table = CsvFile(path, name=STANDARD_INPUT)
    except BaseException:
        _remove(path)
        raise
    weakref.finalize(table, _remove, path)
    return table


def _put_aside(source: IO[bytes]) -> str:
    try:
        handle, path = tempfile.mkstemp(prefix="unrelu-", suffix=".csv")
        try:
            with os.fdopen(handle, "wb") as spool:
                shutil.copyfileobj(source, spool)
        except BaseException:
            _remove(path)
            raise
    except OSError as error:
        raise InputFileError(f"{STANDARD_INPUT}: cannot be put aside ({first_line(error)}).") from error
    return path


def _binary_input() -> IO[bytes]:
    buffer = getattr(sys.stdin, "buffer", None)
    if buffer is not None:
        return cast(IO[bytes], buffer)
    return io.BytesIO(sys.stdin.read().encode() if sys.stdin else b"")


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _all_numbers(cells: list[str]) -> bool:
    return any(map(is_number, cells)) and all(is_number(cell) or is_missing(cell) for cell in cells)
