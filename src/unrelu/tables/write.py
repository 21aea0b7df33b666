"""Write rows to a table file, block by block: whole, or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InvalidParameterError, OutputError
from unrelu.passes.rows import Floats, as_floats, one_per_column, regroup
from unrelu.storage import atomic_write
from unrelu.tables.table_file import PathLike, extension_of, require_pyarrow, unknown_kind

CELLS_PER_CHUNK = 2**20  # rows go to the file about 8 MiB at a time
COLUMN_KINDS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".feather", ".arrow")
KINDS = (*COLUMN_KINDS, ".npy", ".npz")


def write_table(
    path: PathLike, values: NDArray[Any] | Iterable[NDArray[Any]], feature_names: Sequence[str] | None = None
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
    kind = ".csv" if name == "-" else check_table(name)
    given = iter([values]) if isinstance(values, np.ndarray) else iter(values)
    first = next(given, np.empty((0, len(feature_names or ()))))
    if first.ndim != 2 or first.shape[1] == 0:
        raise InvalidParameterError(f"Expected rows and columns to write, got shape {first.shape}.")
    width, dtype = first.shape[1], as_floats(first[:0]).dtype
    names = names_or_numbers(one_per_column(feature_names, width), width)

    def checked() -> Iterator[Floats]:
        for block in chain([first], given):
            if block.ndim != 2 or block.shape[1] != width:
                raise InvalidParameterError(f"A block has shape {block.shape}; all must have {width} columns.")
            yield block.astype(dtype, copy=False)

    if name == "-":
        require_pyarrow("standard output")
        sys.stdout.flush()  # what was written as text comes first
    with nullcontext(sys.stdout.buffer) if name == "-" else atomic_write(name) as stream:
        blocks = regroup(checked(), max(1, CELLS_PER_CHUNK // width))
        if kind not in (".npy", ".npz"):
            import pyarrow as pa

            schema = pa.schema([(each, pa.from_numpy_dtype(dtype)) for each in names])
            nan_is_null = width > 1 or not kind.startswith((".csv", ".tsv"))
            columns = ([np.ascontiguousarray(column) for column in block.T] for block in blocks)
            batches = (
                pa.record_batch([pa.array(column, from_pandas=nan_is_null) for column in some], schema)
                for some in columns
            )
            _write_arrow(stream, kind, schema, batches)
            return
        table = np.concatenate([np.empty((0, width), dtype), *blocks])
        if kind == ".npy":
            np.save(stream, table, allow_pickle=False)
        elif feature_names is None:
            np.savez(stream, X=table)
        else:
            np.savez(stream, X=table, feature_names=np.array(names, dtype=np.str_))


def write_columns(path: PathLike, parts: Iterable[Mapping[str, Any]]) -> None:
    """Write columns of any kind, numbers and text, to csv, tsv (also gzipped), parquet, feather or arrow, by extension.

    ``parts`` are runs of rows, one or more, as they come: arrays, or lists of text and None, by the columns' names.
    """
    kind = check_table(path, columns=True)
    import pyarrow as pa

    batches = (pa.RecordBatch.from_pydict(dict(part)) for part in parts)
    first = next(batches)
    # A column that is empty in the first part is text.
    schema = pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in first.schema])
    with atomic_write(path) as stream:
        _write_arrow(stream, kind, schema, (batch.cast(schema) for batch in chain([first], batches)))


def check_table(path: PathLike, *, columns: bool = False) -> str:
    """The kind of file; OutputError unless :func:`write_table` (or :func:`write_columns`) can write it."""
    name, kinds = os.fspath(path), COLUMN_KINDS if columns else KINDS
    kind = extension_of(name, kinds)
    if kind is None:
        raise OutputError(f"{path}: {unknown_kind(name, kinds)}")
    if kind in COLUMN_KINDS:
        require_pyarrow(name)
    return kind


def names_or_numbers(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...]:
    """The columns' names in tables that are shown or written: x0, x1, ... where they have none."""
    return tuple(f"x{index}" for index in range(n_columns)) if names is None else tuple(map(str, names))


def _write_arrow(stream: IO[bytes], kind: str, schema: Any, batches: Iterator[Any]) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    if not kind.startswith((".csv", ".tsv")):
        opened = parquet.ParquetWriter if kind == ".parquet" else pa.ipc.new_file
        options = {"write_page_checksum": True} if kind == ".parquet" else {}
        with opened(stream, schema, **options) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return
    delimiter = "\t" if kind.startswith(".tsv") else ","
    header = io.StringIO()
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
    opening: Any = nullcontext(stream)
    if kind.endswith(".gz"):  # no time and no name inside: the same rows give the same bytes
        opening = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream, mtime=0)
    with opening as target:
        target.write(header.getvalue().encode())
        for batch in batches:
            text = pa.BufferOutputStream()
            arrow_csv.write_csv(batch, text, arrow_csv.WriteOptions(include_header=False, delimiter=delimiter))
            target.write(text.getvalue())
        target.flush()
