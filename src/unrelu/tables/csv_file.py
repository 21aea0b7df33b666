"""csv and tsv files, plain or packed, and csv on standard input."""

from __future__ import annotations

import csv
import io
import mmap
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import GuessedHeaderWarning, InputFileError
from unrelu.tables import csv_dialect
from unrelu.tables.arrow_files import columns_to_array
from unrelu.tables.diagnosis import PADDED_MISSING, first_fault, first_limit
from unrelu.tables.packed import table_in, unpacked
from unrelu.tables.reading import Reading
from unrelu.tables.table_file import Shared, TableFile, damage_reported, first_line, refuse_no_rows
from unrelu.tables.text_columns import Seen, UnreadableCell, read_texts
from unrelu.validation import listed, warn

STANDARD_INPUT = "standard input"
_HEAD_ROWS, _HEAD_CELLS = 200, 20_000


class CsvFile(Shared):
    """A text table. Its separator, decimal mark and header are told from its first rows.

    Cells are read as numbers by Arrow. Only where a cell is none, columns are read as text, by ``text_columns``.
    """

    def __init__(
        self,
        path: str,
        reading: Reading = Reading(),  # noqa: B008 - frozen
        *,
        name: str | None = None,
        delimiter: str = ",",
        packing: str | None = None,
    ) -> None:
        self.name, self._put_aside = name or path, name is not None
        self.n_bytes = os.path.getsize(path)
        self.n_rows: int | None = None  # only a full read can tell
        self._path = path
        self._packing = packing
        self._reading = reading
        self._rows_before_data = 0
        self._texts: dict[int, Seen] = {}
        with self._faults_reported():
            if packing == "zip" and table_in(path).lower().endswith(".tsv"):
                delimiter = "\t"
            with unpacked(path, packing) as stream:
                self._encoding = "utf-16" if stream.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
            self._delimiter, head = csv_dialect.separator(self._head, delimiter)
            self._read_head(head)

    def _head(self, delimiter: str) -> list[list[str]]:
        """The first rows that are not blank, cut by a mark."""
        head: list[list[str]] = []
        with self._rows(delimiter) as rows:
            for number, row in ((n, row) for n, row in enumerate(rows) if row):
                if not head:
                    self._rows_before_data = number
                head.append(row)
                if len(head) == _HEAD_ROWS or (
                    len(head) > csv_dialect.FEWEST_ROWS and len(head) * len(row) > _HEAD_CELLS
                ):
                    break
        return head

    def _read_head(self, head: list[list[str]]) -> None:
        if not head:
            raise InputFileError(f"{self.name}: there is nothing in it, it is empty.")
        first = head[0]
        self.n_columns = len(first)
        self._unnamed: frozenset[int] = frozenset()
        self.decimal = self._reading.decimal or csv_dialect.decimal_mark(head, self._delimiter)
        named = self._has_header(head)
        self.column_names = self._header(first) if named else None
        self._rows_before_data += named
        refuse_no_rows(self.name, len(head) - named)

    def _has_header(self, head: list[list[str]]) -> bool:
        if self._reading.header is not None:
            return self._reading.header
        if not csv_dialect.is_data(head[0], self.decimal):
            return True
        guess = csv_dialect.numeric_header(head, self.decimal)
        shown = listed(map(str.strip, head[0]), most=4)
        said = {
            True: "was taken for column names: whole numbers above columns of other numbers. Say header=False if it is"
            " data, header=True if it is not.",
            None: "was read as data, though it rises by a constant step. Say header=True if it names the columns,"
            " header=False if it does not.",
        }
        if guess in said:
            warn(f"{self.name}: the first line ({shown}) {said[guess]}", GuessedHeaderWarning)
        return bool(guess)

    def _header(self, cells: list[str]) -> tuple[str, ...]:
        try:
            "".join(cells).encode()
        except UnicodeEncodeError as error:  # bytes that are not UTF-8 were smuggled in as surrogates
            raise InputFileError(f"{self.name}: the header is not UTF-8 text. Save it as UTF-8.") from error
        self._unnamed = frozenset(i for i, cell in enumerate(cells) if not cell.strip())
        return tuple(cell.strip() or f"column {i + 1}" for i, cell in enumerate(cells))

    def check(self, wanted: Sequence[int]) -> np.dtype[Any]:
        unnamed = [position for position in wanted if position in self._unnamed]
        if unnamed:
            with self._data() as rows:
                fault = first_fault(rows, self.column_names, self.n_columns, wanted, self.decimal, unnamed)
            raise InputFileError(f"{self.name}: {fault}")
        if not self._is_plain(wanted):
            self._look_through(wanted)
        return np.dtype(np.float64)

    def shares(self) -> list[TableFile]:
        return [] if self._put_aside else super().shares()  # what was put aside is here alone

    def read_through(self, wanted: Sequence[int]) -> TableFile:
        self.n_rows = sum(len(piece) for piece in self.pieces(wanted, 0))
        return self

    # --- cells --------------------------------------------------------------------------------------

    def seen(self) -> dict[int, Seen]:
        """Cells that are not plain numbers, by column, as far as they were met."""
        return self._texts

    def _is_plain(self, wanted: Sequence[int]) -> bool:
        """Whether the first megabyte holds numbers only, and what can be searched at once no limit."""
        import pyarrow as pa

        if self._reading.thorough or self._encoding == "utf-16":
            return False
        with self._faults_reported():
            with unpacked(self._path, self._packing) as stream:
                head = stream.read(self._block_size)
                if stream.read(1):
                    head = head[: head.rfind(b"\n") + 1]
            try:
                with self._open_arrow(wanted, source=pa.BufferReader(head)) as reader:
                    for _ in reader:
                        pass
            except pa.ArrowInvalid:
                return False
            if self._packing is not None:
                return True
            with open(self._path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                body = content.find(b"\n")
                return content.find(b"<", body) < 0 and content.find(b">", body) < 0

    def _look_through(self, wanted: Sequence[int]) -> None:
        """Read all cells as text, and keep what was seen."""
        from pyarrow import ArrowInvalid

        seen = {position: Seen() for position in wanted}
        with self._faults_reported():
            try:
                with self._open_arrow(wanted, wanted) as reader:
                    for batch in reader:
                        for position, column in zip(wanted, batch.columns, strict=True):
                            seen[position] = seen[position].merge(self._read_texts(column)[1])
            except (ArrowInvalid, UnreadableCell) as error:
                raise InputFileError(f"{self.name}: {self._fault(wanted, error)}") from error
        self._texts |= {position: cells for position, cells in seen.items() if cells}

    def _read_texts(self, column: Any) -> tuple[NDArray[Any], Seen]:
        return read_texts(column, self.decimal, self._reading)

    def pieces(self, wanted: Sequence[int], rows: int) -> Iterator[NDArray[Any]]:  # noqa: ARG002
        # pyarrow cuts csv by bytes, not by rows
        from pyarrow import ArrowInvalid

        done = 0
        with self._faults_reported():
            try:
                for piece in self._numbers(wanted):
                    done += len(piece)
                    yield piece
                return
            except ArrowInvalid:
                self._look_through(wanted)
            self._refuse_late_limits(wanted)
            for piece in self._numbers(wanted):
                if done < len(piece):
                    yield piece[done:]
                done = max(done - len(piece), 0)

    def _numbers(self, wanted: Sequence[int]) -> Iterator[NDArray[Any]]:
        texts = [position for position in wanted if position in self._texts]
        with self._open_arrow(wanted, texts) as reader:
            for batch in reader:
                columns = [
                    self._read_texts(column)[0] if position in self._texts else column
                    for position, column in zip(wanted, batch.columns, strict=True)
                ]
                yield columns_to_array(columns, np.dtype(np.float64))

    def _refuse_late_limits(self, wanted: Sequence[int]) -> None:
        """Rows that were handed out already may have been taken for what they are not."""
        if any(self._texts[j].below or self._texts[j].above for j in wanted if j in self._texts):
            with self._data() as rows:
                where = first_limit(rows, self.column_names, wanted, self.decimal)
            raise InputFileError(
                f"{self.name}: {where}, far down in a packed file. Say limits='one' to have all of it looked through"
                " before it is used."
            )

    @contextmanager
    def _open_arrow(
        self, wanted: Sequence[int], texts: Collection[int] = (), source: Any = None
    ) -> Iterator[Iterator[Any]]:
        """Batches of the wanted columns, as numbers or as text; of the file, or of another source."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        labels = [str(position) for position in range(self.n_columns)]
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.float64()) | {labels[each]: pa.string() for each in texts},
            include_columns=[labels[position] for position in wanted],
            null_values=list(PADDED_MISSING),
            strings_can_be_null=True,
            decimal_point=self.decimal,
            check_utf8=False,
        )
        with self._opened(convert, labels, source) as reader:
            yield reader

    @property
    def _block_size(self) -> int:
        return max(2**20, 256 * self.n_columns)  # a block must hold at least one row

    @contextmanager
    def _opened(self, convert: Any, labels: list[str], source: Any = None) -> Iterator[Iterator[Any]]:
        from pyarrow import csv as arrow_csv

        read = arrow_csv.ReadOptions(
            column_names=labels,
            skip_rows_after_names=self._rows_before_data,
            block_size=self._block_size,
            encoding="utf8" if self._encoding == "utf-8-sig" else self._encoding,
        )
        parse = arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        with (
            nullcontext(source) if source is not None else unpacked(self._path, self._packing) as stream,
            arrow_csv.open_csv(stream, read, parse, convert) as reader,
        ):
            yield reader

    def texts(self, position: int) -> Iterator[list[str]]:
        """A column as it is written."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        labels = [str(column) for column in range(self.n_columns)]
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.binary()), include_columns=[labels[position]], null_values=[]
        )
        with self._faults_reported(), self._opened(convert, labels) as reader:
            for batch in reader:
                yield [_decoded(cell) for cell in batch.column(0).to_pylist()]

    # --- places and faults --------------------------------------------------------------------------

    def line_of(self, row: int) -> tuple[int | None, int]:
        """The line that a row ends in, both counted from 1 and 0; None, and how many rows there are, if it has none."""
        count = 0
        with self._faults_reported(), self._data() as rows:
            for count, (line, _) in enumerate(rows):
                if count == row:
                    return line, count
        return None, count + 1

    def _fault(self, wanted: Sequence[int], error: Exception) -> str:
        with self._data() as rows:
            fault = first_fault(rows, self.column_names, self.n_columns, wanted, self.decimal)
        return fault or f"cannot be read as csv ({first_line(error)})."

    @contextmanager
    def _data(self) -> Iterator[Iterator[tuple[int, list[str]]]]:
        """Rows below the header that are not blank, and the lines in which they end."""
        with self._rows() as rows:
            numbered = ((rows.line_num, row) for row in rows)
            yield ((line, row) for line, row in islice(numbered, self._rows_before_data, None) if row)

    @contextmanager
    def _rows(self, delimiter: str | None = None) -> Iterator[Any]:
        """All rows as text, blank lines as empty lists."""
        with unpacked(self._path, self._packing) as binary:
            # surrogateescape: a text column that is left out may be in any encoding
            escape = "surrogateescape" if self._encoding == "utf-8-sig" else "strict"
            text = io.TextIOWrapper(cast(IO[bytes], binary), encoding=self._encoding, errors=escape, newline="")
            yield csv.reader(text, delimiter=delimiter or self._delimiter)

    @contextmanager
    def _faults_reported(self) -> Iterator[None]:
        with damage_reported(self.name, {None: "csv", "gzip": "gzipped csv"}.get(self._packing, "packed csv")):
            try:
                yield
            except csv.Error as error:
                reason = f"cannot be read as csv ({first_line(error)}). Is a quotation mark not closed?"
                raise InputFileError(f"{self.name}: {reason}") from error


def standard_input(reading: Reading = Reading()) -> CsvFile:  # noqa: B008 - frozen
    """csv on standard input, put aside in a temporary file so that it can be read more than once."""
    return kept_aside(_put_aside(_binary_input()), STANDARD_INPUT, reading)


def kept_aside(path: str, name: str, reading: Reading) -> CsvFile:
    """A temporary csv file, which goes when the table is no longer used, at the latest when the interpreter ends."""
    try:
        table = CsvFile(path, reading, name=name)
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


def _decoded(cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return cell.decode("latin-1")
