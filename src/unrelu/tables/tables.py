"""Write rows to a table file, block by block: whole, or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import IO, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InvalidParameterError, OutputError
from unrelu.passes.rows import Floats, as_floats, regroup
from unrelu.storage import atomic_write
from unrelu.tables.columns import names_or_numbers
from unrelu.tables.table_file import PathLike, extension_of, unknown_kind

CELLS_PER_CHUNK = 2**20  # rows go to the file about 8 MiB at a time


def write_table(
    path: PathLike,
    values: NDArray[Any] | Iterable[NDArray[Any]],
    feature_names: Sequence[str] | None = None,
) -> None:
    """Write rows to csv, tsv (also gzipped), parquet, feather, arrow, npy or npz, by extension.

    Parameters
    ----------
    path : path
        The file to write, or ``"-"`` for csv on standard output. An existing file is replaced
        once all rows are written; after an error it is as it was.
    values : array of shape (n_rows, n_features), or iterable of such arrays
        The rows, or blocks of them. Blocks are written as they come, so that they need not fit in
        memory together (except as npy and npz, where they are collected first).
    feature_names : sequence of str, optional
        One name per column; ``x0, x1, ...`` by default. (An npy file holds no names.)

    Notes
    -----
    Numbers in csv have the fewest digits that read back as the same number; a missing number is an
    empty cell (``nan`` in a table of one column, where an empty line would be no row).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> write_table(target, np.array([[0.1, 0.0], [np.nan, 2.5]]), ["As", "Pb"])
    >>> print(target.read_text())
    As,Pb
    0.1,0
    ,2.5
    <BLANKLINE>
    """
    name = os.fspath(path)
    if name == "-":
        _write_csv(_binary_output(), _Rows.of(values, feature_names))
        return
    _write(name, WRITERS, lambda: _Rows.of(values, feature_names))


def write_columns(path: PathLike, parts: Iterable[Mapping[str, Any]]) -> None:
    """Write columns of any kind, numbers and text, to csv, tsv (also gzipped), parquet, feather or arrow, by extension.

    ``parts`` are runs of rows, one or more, as they come: arrays, or lists of text and None, by the columns' names.

    >>> import pathlib, tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> write_columns(target, [{"row": np.array([0, 1]), "why": ["Pb", None]}])
    >>> print(target.read_text())
    row,why
    0,"Pb"
    1,
    <BLANKLINE>
    """
    _write(os.fspath(path), COLUMN_WRITERS, lambda: _Columns.of(parts))


def check_table(path: PathLike, *, columns: bool = False) -> None:
    """Raise OutputError unless :func:`write_table` (or :func:`write_columns`) knows that kind of file."""
    writers: Mapping[str, Any] = COLUMN_WRITERS if columns else WRITERS
    if extension_of(os.fspath(path), writers) is None:
        raise OutputError(f"{path}: {unknown_kind(os.fspath(path), writers)}")


def _write(name: str, writers: Mapping[str, Writer], content: Callable[[], Any]) -> None:
    check_table(name, columns=writers is COLUMN_WRITERS)
    given = content()
    with atomic_write(name) as stream:
        writers[extension_of(name, writers) or ""](stream, given)


# --- what is written ------------------------------------------------------------------------------


class Sheet(Protocol):
    """Named columns, in batches that are read once."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def schema(self) -> Any: ...

    def batches(self, *, nan_is_null: bool = True) -> Iterator[Any]: ...


@dataclass(frozen=True, eq=False)
class _Columns:
    """Columns of any kind; the first batch says which."""

    names: tuple[str, ...]
    first: Any
    others: Iterator[Any]

    @classmethod
    def of(cls, parts: Iterable[Mapping[str, Any]]) -> _Columns:
        import pyarrow as pa

        batches = (pa.RecordBatch.from_pydict(dict(part)) for part in parts)
        first = next(batches)
        return cls(tuple(first.schema.names), first, batches)

    def schema(self) -> Any:
        import pyarrow as pa

        # A text column without a text in the first part is one nevertheless.
        return pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in self.first.schema])

    def batches(self, *, nan_is_null: bool = True) -> Iterator[Any]:  # noqa: ARG002 - a score of NaN is one
        for batch in chain([self.first], self.others):
            yield batch.cast(self.schema())


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows to write: float blocks of one type and of a handy size, to be read once."""

    names: tuple[str, ...]
    named: bool  # False: the names are made up
    dtype: np.dtype[Any]
    blocks: Iterator[Floats]

    @classmethod
    def of(cls, values: NDArray[Any] | Iterable[NDArray[Any]], feature_names: Sequence[str] | None) -> _Rows:
        given = iter([values]) if isinstance(values, np.ndarray) else iter(values)
        first = next(given, None)
        if first is None:
            first = np.empty((0, len(feature_names or ())))
        if first.ndim != 2 or first.shape[1] == 0:
            raise InvalidParameterError(f"Expected rows and columns to write, got shape {first.shape}.")
        width = first.shape[1]
        names = names_or_numbers(feature_names, width)
        if len(names) != width:
            raise InvalidParameterError(f"{len(names)} feature names for {width} columns: give one per column.")
        dtype = as_floats(first[:0]).dtype
        blocks = _of_one_shape(chain([first], given), width, dtype)
        chunks = regroup(blocks, max(1, CELLS_PER_CHUNK // width))
        return cls(names, feature_names is not None, dtype, chunks)

    def schema(self) -> Any:
        import pyarrow as pa

        return pa.schema([(name, pa.from_numpy_dtype(self.dtype)) for name in self.names])

    def batches(self, *, nan_is_null: bool = True) -> Iterator[Any]:
        import pyarrow as pa

        schema = self.schema()
        for block in self.blocks:
            columns = [pa.array(np.ascontiguousarray(column), from_pandas=nan_is_null) for column in block.T]
            yield pa.record_batch(columns, schema=schema)

    def collected(self) -> Floats:
        return np.concatenate([np.empty((0, len(self.names)), self.dtype), *self.blocks])


def _of_one_shape(blocks: Iterable[NDArray[Any]], width: int, dtype: np.dtype[Any]) -> Iterator[Floats]:
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != width:
            raise InvalidParameterError(f"A block has shape {block.shape}; all must have {width} columns.")
        yield block.astype(dtype, copy=False)


def _write_csv(stream: IO[bytes], rows: Sheet, *, delimiter: str = ",") -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    header = io.StringIO()
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(rows.names)
    stream.write(header.getvalue().encode())
    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
    for batch in rows.batches(nan_is_null=len(rows.names) > 1):
        text = pa.BufferOutputStream()
        arrow_csv.write_csv(batch, text, options)
        stream.write(text.getvalue())
    stream.flush()


def _write_csv_gz(stream: IO[bytes], rows: Sheet, *, delimiter: str = ",") -> None:
    # no time and no name inside: the same rows give the same bytes
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream, mtime=0) as packed:
        _write_csv(cast(IO[bytes], packed), rows, delimiter=delimiter)


def _write_parquet(stream: IO[bytes], rows: Sheet) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(stream, rows.schema(), write_page_checksum=True) as writer:
        for batch in rows.batches():
            writer.write_batch(batch)


def _write_arrow(stream: IO[bytes], rows: Sheet) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(stream, rows.schema()) as writer:
        for batch in rows.batches():
            writer.write_batch(batch)


def _write_npy(stream: IO[bytes], rows: _Rows) -> None:
    np.save(stream, rows.collected(), allow_pickle=False)


def _write_npz(stream: IO[bytes], rows: _Rows) -> None:
    if rows.named:
        np.savez(stream, X=rows.collected(), feature_names=np.array(rows.names, dtype=np.str_))
    else:
        np.savez(stream, X=rows.collected())


Writer = Callable[[IO[bytes], Any], None]

COLUMN_WRITERS: dict[str, Writer] = {
    ".csv": _write_csv,
    ".csv.gz": _write_csv_gz,
    ".tsv": partial(_write_csv, delimiter="\t"),
    ".tsv.gz": partial(_write_csv_gz, delimiter="\t"),
    ".parquet": _write_parquet,
    ".feather": _write_arrow,
    ".arrow": _write_arrow,
}
WRITERS: dict[str, Writer] = {**COLUMN_WRITERS, ".npy": _write_npy, ".npz": _write_npz}


def _binary_output() -> IO[bytes]:
    sys.stdout.flush()  # what was written as text comes first
    return cast(IO[bytes], sys.stdout.buffer)
