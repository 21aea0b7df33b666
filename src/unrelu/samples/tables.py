"""Write rows to a table file, block by block: whole, or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InvalidParameterError, OutputError
from unrelu.samples.blocks import Floats, as_floats, regroup
from unrelu.samples.table_file import PathLike
from unrelu.storage import atomic_write

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
    write = _writer_for(name)
    rows = _Rows.of(values, feature_names)
    with atomic_write(name) as stream:
        write(stream, rows)


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
        names = tuple(f"x{i}" for i in range(width)) if feature_names is None else tuple(map(str, feature_names))
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


def _write_csv(stream: IO[bytes], rows: _Rows, *, delimiter: str = ",") -> None:
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


def _write_csv_gz(stream: IO[bytes], rows: _Rows, *, delimiter: str = ",") -> None:
    # no time and no name inside: the same rows give the same bytes
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream, mtime=0) as packed:
        _write_csv(cast(IO[bytes], packed), rows, delimiter=delimiter)


def _write_parquet(stream: IO[bytes], rows: _Rows) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(stream, rows.schema(), write_page_checksum=True) as writer:
        for batch in rows.batches():
            writer.write_batch(batch)


def _write_arrow(stream: IO[bytes], rows: _Rows) -> None:
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


WRITERS: dict[str, Callable[[IO[bytes], _Rows], None]] = {
    ".csv": _write_csv,
    ".csv.gz": _write_csv_gz,
    ".tsv": partial(_write_csv, delimiter="\t"),
    ".tsv.gz": partial(_write_csv_gz, delimiter="\t"),
    ".parquet": _write_parquet,
    ".feather": _write_arrow,
    ".arrow": _write_arrow,
    ".npy": _write_npy,
    ".npz": _write_npz,
}


def _writer_for(name: str) -> Callable[[IO[bytes], _Rows], None]:
    extension = max((known for known in WRITERS if name.lower().endswith(known)), key=len, default=None)
    if extension is None:
        raise OutputError(f"{name}: unknown kind of file. Known are {', '.join(WRITERS)}, and - for csv.")
    return WRITERS[extension]


def _binary_output() -> IO[bytes]:
    sys.stdout.flush()  # what was written as text comes first
    return cast(IO[bytes], sys.stdout.buffer)
