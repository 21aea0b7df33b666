"""Text tables: csv and tsv files, plain or packed, csv on standard input, and Excel's sheets.

Separator, decimal mark and header follow from the first rows. Arrow reads cells as numbers; a column is read as text
only if a cell of it is no number. The place of a bad cell is found by reading once more, row by row.
"""

from __future__ import annotations

import csv
import datetime
import io
import mmap
import os
import re
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice, pairwise
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from unrelu.errors import InputFileError, MissingDependencyError
from unrelu.tables.arrow_files import number_rows, seen_in
from unrelu.tables.cells import PLAIN_MISSING, Reading, UnreadableCell, column_phrase, decimal_vote, read_cell
from unrelu.tables.raw_text import decoded, encoding_of
from unrelu.tables.table_file import Faults, Piece, TableFile, damage_reported, first_line, row_and_line, without
from unrelu.validation import counted, listed, suggestion, warn

STANDARD_INPUT = "standard input"
_HEAD_ROWS, _HEAD_CELLS = 200, 20_000
_MORE_CELLS, _MORE_ROWS = 2**18, 20  # that are read after the first bad cell; rows at least
# The fast reader compares whole cells with this list, for every column anew: more than two spaces on either side would
# make tables of many thousand columns slow to open.
_PADDED_MISSING = list(
    dict.fromkeys(padded for word in PLAIN_MISSING for n in range(3) for padded in (" " * n + word, word + " " * n))
)


class CsvFile(TableFile):
    """A text table. ``name`` is that of a temporary copy, which only this process has; ``delimiter``: the usual one."""

    def __init__(
        self, path: str, reading: Reading, *, name: str | None = None, delimiter: str = ",", packing: str | None = None
    ) -> None:
        super().__init__(path, name)
        self._is_copy, self._packing, self._read_as_text = name is not None, packing, frozenset[int]()
        self._rows_before_data = 0
        with self._faults_reported():
            if packing == "zip" and _table_in(path).lower().endswith(".tsv"):
                delimiter = "\t"
            encoding = encoding_of(self.raw(2**12))
            self._encoding = encoding if encoding.startswith("utf-16") else "utf-8-sig"
            self._delimiter, head = _separator(self._head, delimiter)
        if not head:
            raise InputFileError(f"{self.name}: there is nothing in it, it is empty.")
        self.n_columns = len(head[0])
        self._unnamed: frozenset[int] = frozenset()
        self._decimal = reading.decimal or _decimal_mark(head, self._delimiter)
        if named := self._has_header(head) if reading.header is None else reading.header:
            # Bytes that are not UTF-8 are here as surrogates.
            head[0] = [decoded(cell.encode("utf-8", "surrogateescape")) for cell in head[0]]
            self._unnamed = frozenset(i for i, cell in enumerate(head[0]) if not cell.strip())
            self.column_names = tuple(cell.strip() or f"column {i + 1}" for i, cell in enumerate(head[0]))
        self._rows_before_data += named
        self.is_empty = len(head) == named

    def _head(self, delimiter: str) -> list[list[str]]:
        """The first rows that are not blank, cut by a mark."""
        head: list[list[str]] = []
        for number, (_, row) in enumerate(self._lines(delimiter)):
            if not row:
                continue
            if not head:
                self._rows_before_data = number
            head.append(row)
            if len(head) == _HEAD_ROWS or (len(head) > FEWEST_ROWS and len(head) * len(row) > _HEAD_CELLS):
                break
        return head

    def _has_header(self, head: list[list[str]]) -> bool:
        first = [read_cell(cell, self._decimal) for cell in head[0]]
        kinds = {None if cell is None else cell[0] for cell in first}
        if None in kinds or not kinds & {"number", "grouped", "below", "above"}:
            return True  # no cells of a table, or none that is a number or a limit
        guess = _numeric_header(head, self._decimal)
        guesses = {
            True: "was read as column names: whole numbers above columns of other numbers. Give header=False if it is"
            " data, header=True if it is not.",
            None: "was read as data, though it rises by a constant step. Give header=True if it names the columns,"
            " header=False if it does not.",
        }
        if guess in guesses:
            shown = listed(map(str.strip, head[0]), most=4)
            warn(f"{self.name}: the first line ({shown}) {guesses[guess]}", "guessed-header")
        return bool(guess)

    def check(self, wanted: Sequence[int], thorough: bool = False) -> np.dtype[Any]:
        unnamed = [position for position in wanted if position in self._unnamed]
        if unnamed:
            raise InputFileError(f"{self.name}: {self._fault(wanted, unnamed)}")
        if not self._read_as_text.issuperset(wanted) and (thorough or not self._is_plain(wanted)):
            self._read_texts(wanted)
        return np.dtype(np.float64)

    def _fault(self, wanted: Sequence[int], unnamed: Sequence[int] = ()) -> str | None:
        """Describe the first ragged row, or all wanted columns that hold text and the first other bad cell.

        The fast reader reports that a cell is no number, but not reliably where: rows are read again, slowly, until
        some after the first bad cell, to recognize columns of text. ``unnamed`` are wanted columns without a name.
        """
        names, faults = self.column_names, Faults(self.column_names, self._decimal)
        named = sorted(set(wanted) - set(unnamed))
        left = max(_MORE_ROWS, _MORE_CELLS // max(len(named), 1))
        for number, (line, row) in enumerate(self._data(), start=1):
            where = row_and_line(number, line)
            if len(row) != self.n_columns:
                if faults or unnamed:
                    break
                has = f"{where} has {counted(len(row), 'cell')}, but {'the header' if names else 'the first row'}"
                return f"{has} has {self.n_columns}. Give all rows as many cells."
            for position in named:
                faults.add(where, position, row[position])
            left -= bool(faults or unnamed)
            if not left:
                break
        if len(unnamed) == 1 and not faults.texts():
            return faults.with_first_cell(
                f"column {unnamed[0] + 1} from the left has no name (is it a row index?). Name it, leave it out with"
                f" {without(names, unnamed)}, or keep it as text with {without(names, unnamed, 'id')}."
            )
        return faults.describe(dict.fromkeys(unnamed, ("no name, is it a row index?", "")), self.n_columns)

    def shares(self) -> list[TableFile]:
        return [] if self._is_copy else super().shares()

    def read_through(self, wanted: Sequence[int]) -> TableFile:
        self.n_rows = sum(len(numbers) for numbers, _ in self.pieces(wanted, 0))
        return self

    # --- cells --------------------------------------------------------------------------------------

    def _is_plain(self, wanted: Sequence[int]) -> bool:
        """Whether the first megabyte holds numbers only, and text that can be searched at once no limit."""
        if self._encoding.startswith("utf-16"):
            return False
        with self._faults_reported():
            with _unpacked(self._path, self._packing) as stream:
                head = stream.read(self._block_size)
                if stream.read(1):
                    head = head[: head.rfind(b"\n") + 1]
            try:
                for _ in self._batches(wanted, source=pa.BufferReader(head)):
                    pass
            except pa.ArrowInvalid:
                return False
            if self._packing is not None:
                return True
            with open(self._path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                body = content.find(b"\n")
                return content.find(b"<", body) < 0 and content.find(b">", body) < 0

    def _read_texts(self, wanted: Sequence[int]) -> None:
        """Read all cells as text, and keep those that are no plain numbers."""
        with self._faults_reported():
            try:
                batches = self._batches(wanted, wanted)
                seen = seen_in((each for batch in batches for each in zip(wanted, batch, strict=True)), self._decimal)
            except (pa.ArrowInvalid, UnreadableCell) as error:
                fault = self._fault(wanted) or f"cannot be read as csv ({first_line(error)})."
                raise InputFileError(f"{self.name}: {fault}") from error
        self.seen |= {position: cells for position, cells in seen.items() if cells}
        self._read_as_text |= {*wanted}

    def pieces(self, wanted: Sequence[int], rows: int, texts: Sequence[int] = ()) -> Iterator[Piece]:  # noqa: ARG002
        # pyarrow cuts csv by bytes, not by rows
        positions, done = list(dict.fromkeys([*wanted, *texts])), 0
        for again in (False, True):
            as_text, read = [at for at in positions if at in self.seen or at in texts], 0
            with self._faults_reported(), suppress(*(() if again else (pa.ArrowInvalid, UnreadableCell))):
                for batch in self._batches(positions, as_text):
                    columns = dict(zip(positions, batch, strict=True))
                    numbers = number_rows(wanted, [columns[at] for at in wanted], as_text, self._decimal)
                    cells = [[decoded(cell) for cell in columns[at].cast(pa.binary()).to_pylist()] for at in texts]
                    new, read = slice(max(done - read, 0), None), read + len(batch[0])
                    if read > done:
                        done = read
                        yield numbers[new], [column[new] for column in cells]
                return
            self._read_texts(wanted)
            self._refuse_late_limits(wanted)

    def _refuse_late_limits(self, wanted: Sequence[int]) -> None:
        """Raise for a limit in a packed file after rows that were read without it."""
        limited = [j for j in wanted if j in self.seen and (self.seen[j].below or self.seen[j].above)]
        for number, (line, row) in enumerate(self._data() if limited else (), start=1):
            for position in sorted(wanted):
                cell = read_cell(row[position], self._decimal)
                if cell is not None and cell[0] in ("below", "above"):
                    place = f"{row_and_line(number, line)}, {column_phrase(self.column_names, position)}"
                    raise InputFileError(
                        f"{self.name}: {place}: the first limit {row[position]!r}, far down in a packed file. Give"
                        " limits='one' to read all of it for limits before it is used."
                    )

    @property
    def _block_size(self) -> int:
        return max(2**20, 256 * self.n_columns)  # a block must hold at least one row

    def _batches(self, wanted: Sequence[int], texts: Collection[int] = (), source: Any = None) -> Iterator[list[Any]]:
        """The wanted columns, some rows at a time, as numbers or as ``texts``; of the file, or of another source."""
        labels = [str(position) for position in range(self.n_columns)]
        convert = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.float64()) | {labels[each]: pa.string() for each in texts},
            include_columns=[labels[position] for position in wanted],
            null_values=_PADDED_MISSING,
            strings_can_be_null=False,
            decimal_point=self._decimal,
            check_utf8=False,
        )
        read = arrow_csv.ReadOptions(
            column_names=labels,
            skip_rows_after_names=self._rows_before_data,
            block_size=self._block_size,
            encoding="utf8" if self._encoding == "utf-8-sig" else self._encoding,
        )
        parse = arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True)
        with (
            nullcontext(source) if source is not None else _unpacked(self._path, self._packing) as stream,
            arrow_csv.open_csv(stream, read, parse, convert) as reader,
        ):
            for batch in reader:
                yield batch.columns

    # --- rows as they are written -------------------------------------------------------------------

    def raw(self, limit: int = -1) -> bytes:
        with self._faults_reported(), _unpacked(self._path, self._packing) as stream:
            return bytes(stream.read(None if limit < 0 else limit))

    def line_of(self, row: int) -> tuple[int | None, int]:
        """The line that a row ends in, both counted from 1 and 0; None, and how many rows there are, if it has none."""
        count = 0
        with self._faults_reported():
            for count, (line, _) in enumerate(self._data()):
                if count == row:
                    return line, count
        return None, count + 1

    def _data(self) -> Iterator[tuple[int, list[str]]]:
        """Rows below the header that are not blank, and the lines in which they end."""
        return ((line, row) for line, row in islice(self._lines(), self._rows_before_data, None) if row)

    def _lines(self, delimiter: str | None = None) -> Iterator[tuple[int, list[str]]]:
        """All rows as text, blank lines as empty lists, and the lines in which they end."""
        with _unpacked(self._path, self._packing) as binary:
            # surrogateescape: a text column that is left out may be in any encoding
            escape = "surrogateescape" if self._encoding == "utf-8-sig" else "strict"
            text = io.TextIOWrapper(cast(IO[bytes], binary), encoding=self._encoding, errors=escape, newline="")
            rows = csv.reader(text, delimiter=delimiter or self._delimiter)
            for row in rows:
                yield rows.line_num, row

    @contextmanager
    def _faults_reported(self) -> Iterator[None]:
        with damage_reported(self.name, {None: "csv", "gzip": "gzipped csv"}.get(self._packing, "packed csv")):
            try:
                yield
            except csv.Error as error:
                reason = f"cannot be read as csv ({first_line(error)}). Is a quotation mark not closed?"
                raise InputFileError(f"{self.name}: {reason}") from error


@contextmanager
def _unpacked(path: str, packing: str | None) -> Iterator[Any]:
    """The bytes of a file as an Arrow stream, unpacked while they are read."""
    if packing != "zip":
        with pa.input_stream(path, compression=packing) as stream:
            yield stream
        return
    with zipfile.ZipFile(path) as archive, archive.open(_table_in(path)) as member, pa.input_stream(member) as stream:
        yield stream


def _table_in(path: str) -> str:
    with zipfile.ZipFile(path) as archive:
        # what a Mac adds to its archives is no table
        names = [name for name in archive.namelist() if not name.startswith("__MACOSX/") and not name.endswith("/")]
    tables = [name for name in names if name.lower().endswith((".csv", ".tsv"))]
    if len(tables) != 1:
        held = f"{len(tables)} tables ({', '.join(tables[:5])})" if tables else "no csv or tsv file"
        raise InputFileError(f"{path}: holds {held}, but one is needed. Unpack it, and name the files to read.")
    return tables[0]


# --- separator, decimal mark and header, from the first rows ------------------------------------------


_SEPARATORS = ",;\t|"
_WHOLE = re.compile(r"\s*\d+\s*", re.ASCII)
FEWEST_ROWS = 5  # below the first, to compare it with
_NEARLY_ALL, _UNLIKE = 0.8, 0.5  # share of columns that are unlike the first row: of such a chance at most to be alike
_BY_CHANCE, _BY_CHANCE_RISING = 0.01, 0.1  # that a row of data consists of whole numbers; of such that rise by ones
_MANY_ROWS = 10  # that show whether whole numbers come together, as large ones do
_RISING = 0.05  # share of rows that rise by a constant step, from which on the first one is not special
Rows = list[list[str]]


def _separator(rows_by: Callable[[str], Rows], usual: str) -> tuple[str, Rows]:
    """The separator of cells: the usual mark, unless another one cuts the rows evenly and that does not.

    ``rows_by`` gives the first rows, cut by a mark; they are returned as well.
    """
    rows = rows_by(usual)
    first = "".join("".join(row) for row in rows[:1])
    others = [mark for mark in _SEPARATORS if mark != usual and mark in first]
    best = (_evenness(rows), usual, rows) if others else ((True, 1.0), usual, rows)
    for mark in others:
        with suppress(csv.Error):
            cut = rows_by(mark)
            if _evenness(cut) > best[0]:
                best = (_evenness(cut), mark, cut)
    return best[1:]


def _evenness(rows: Rows) -> tuple[bool, float]:
    """Whether all rows have the same number of cells, two or more; and the share of cells that can be read."""
    widths = {len(row) for row in rows}
    body = [cell for row in rows[1:] or rows for cell in row]
    readable = sum(read_cell(cell) is not None or read_cell(cell, ",") is not None for cell in body)
    return len(widths) == 1 and widths != {1}, readable / max(len(body), 1)


def _decimal_mark(rows: Rows, separator: str) -> str:
    """The decimal mark: a comma where cells show one and none shows a point, or could do so between semicolons."""
    if not any("," in cell for row in rows for cell in row):
        return "."
    cells = [cell for row in rows for cell in row if "," in cell or "." in cell]
    votes = {decimal_vote(cell) for cell in cells}
    if votes & {".", ","}:
        return "," if "," in votes and "." not in votes else "."
    commas = any("," in cell and read_cell(cell, ",") is not None for cell in cells)
    return "," if commas and separator == ";" else "."


def _numeric_header(rows: Rows, decimal: str) -> bool | None:
    """Whether the first row, though numbers, names the columns; None where it may, and data is the better guess.

    It names them if it consists of different whole numbers above columns of which nearly all have fractions or are of
    quite another magnitude, as no row below does. It may name them if it rises by a constant step.
    """
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if not _different_wholes(first) or len(body) < FEWEST_ROWS:
        return False
    numbers = np.array([float(cell) for cell in first])
    cells = [[read_cell(cell, decimal) for cell in row] for row in body]
    values = np.array([[np.nan if cell is None else cell[1] for cell in row] for row in cells])
    finite = np.isfinite(values)
    low = np.min(values, axis=0, where=finite, initial=np.inf)
    high = np.max(values, axis=0, where=finite, initial=-np.inf)
    whole, count = finite & (values == np.floor(values)), finite.sum(axis=0)
    # Where numbers rise from row to row, the first is outside as well, but not by so much.
    far = (count > 0) & ~((2 * low - high <= numbers) & (numbers <= 2 * high - low))
    if far.all():
        return True
    # The chance that a cell is a whole number as the one in the first row is. Numbers at the bottom of a column, such
    # as zeros, do not count, unless the first one is there as well.
    alike = (whole & ((values != low) | (numbers == low))).sum(axis=0)
    chances = np.where(count > 0, (np.where(far, 0.0, alike) + 0.5) / (count + 1.0), 1.0)
    fractional = int((whole < finite).any(axis=0).sum())
    if _step(first) == 1 and 2 * fractional >= len(first) and chances.prod() < _BY_CHANCE_RISING:
        return True
    unlike = (chances <= _UNLIKE).sum() >= _NEARLY_ALL * len(first)
    if unlike and chances.prod() < _BY_CHANCE and len(body) >= _MANY_ROWS and not any(map(_different_wholes, body)):
        return True
    rising = sum(_step(row) is not None for row in body)
    return None if len(first) > 2 and _step(first) is not None and rising <= _RISING * len(body) else False


def _different_wholes(row: Sequence[str]) -> bool:
    """Whether a row consists of different whole numbers, two or more."""
    return len(row) > 1 and all(map(_WHOLE.fullmatch, row)) and len({int(cell) for cell in row}) == len(row)


def _step(row: Sequence[str]) -> int | None:
    """The step by which a row of whole numbers rises; None where it does not, or by several."""
    if not _different_wholes(row):
        return None
    steps = {int(b) - int(a) for a, b in pairwise(row)}
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else None


# --- tables with a temporary copy as csv: standard input, and Excel's sheets ---------------------------


def _copied(content: Iterable[bytes], name: str, reading: Reading) -> CsvFile:
    """A temporary csv file, which is removed when the table is no longer used, or the interpreter ends."""
    handle, path = tempfile.mkstemp(prefix="unrelu-", suffix=".csv")
    try:
        with os.fdopen(handle, "wb") as spool:
            spool.writelines(content)
        table = CsvFile(path, reading, name=name)
    except BaseException:
        _remove(path)
        raise
    weakref.finalize(table, _remove, path)
    return table


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def standard_input(reading: Reading) -> CsvFile:
    """csv on standard input, copied to a file so that it can be read more than once."""
    try:
        source = getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode() if sys.stdin else b"")
        return _copied(iter(lambda: source.read(2**20), b""), STANDARD_INPUT, reading)
    except OSError as error:
        raise InputFileError(f"{STANDARD_INPUT}: cannot be copied to a file ({first_line(error)}).") from error


def excel_file(path: str, reading: Reading) -> CsvFile:
    """One sheet of an Excel file: the first by default. A row's number in the sheet is its line."""
    try:
        import python_calamine as calamine
    except ImportError as error:
        raise MissingDependencyError(
            f'{path}: Excel files need python-calamine: pip install "unrelu[xlsx]".'
        ) from error
    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            names, wanted = book.sheet_names, 0 if reading.sheet is None else reading.sheet
            if isinstance(wanted, int) and not 0 <= wanted < len(names):
                raise InputFileError(f"{path}: no sheet number {wanted}; it has {len(names)}, counted from 0.")
            name = names[wanted] if isinstance(wanted, int) else wanted
            if name not in names:
                raise InputFileError(f"{path}: no sheet {name!r}. {suggestion(name, names, 'Its sheets are')}")
            rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except (calamine.CalamineError, OSError) as error:
        raise InputFileError(f"{path}: not a whole Excel file ({first_line(error)}).") from error
    if not any(any(cell != "" for cell in row) for row in rows):
        raise InputFileError(f"{path}: there is nothing in the sheet {name!r}. Name another one with sheet=.")
    spool = io.StringIO(newline="")
    writer = csv.writer(spool, lineterminator="\n")
    for row in rows:
        cells = [_excel_text(cell) for cell in row]
        writer.writerow(cells if any(cells) else [])
    return _copied([spool.getvalue().encode()], path, reading)


def _excel_text(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))  # Excel has no whole numbers, but names and years are
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return " ".join(cell.split("\n")) if isinstance(cell, str) else str(cell)  # one line for each row of the sheet
