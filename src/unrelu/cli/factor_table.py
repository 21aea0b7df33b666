"""The whole table in memory for ``unrelu factor``: the files other commands read, and scipy's sparse npz files."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from unrelu.errors import InputFileError, InvalidDataError
from unrelu.samples import ArraySamples, open_samples
from unrelu.samples.numpy_files import holds_sparse_table

if TYPE_CHECKING:
    from unrelu.cli.progress import Meter
    from unrelu.contracts import FloatArray
    from unrelu.recovery.matrix.cells import Cells


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and columns, as an array or as scipy's CSR, and the columns' names where they have any."""

    values: Any
    names: tuple[str, ...] | None

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    @property
    def is_sparse(self) -> bool:
        return not isinstance(self.values, np.ndarray)

    def cells(self) -> Cells:
        """The values as they are, tile by tile."""
        from unrelu.recovery.matrix.cells import DenseCells, SparseCells

        return SparseCells(self.values) if self.is_sparse else DenseCells(self.values)

    def part(self, rows: Any, columns: Any) -> FloatArray:
        """Some rows and columns as a dense array."""
        part = self.values[rows][:, columns]
        return cast("FloatArray", np.asarray(part.toarray() if self.is_sparse else part, dtype=np.float64))

    def check(self, lowest: Sequence[float]) -> None:
        """Raise InvalidDataError for what cannot be used, with the columns' names; sparse tables have none."""
        from unrelu.engines.local import LocalEngine
        from unrelu.statistics.screening import ScreeningQuestion

        if self.shape[0] < 2:
            raise InvalidDataError("The table has one row: at least two are needed.")
        if self.is_sparse:
            return
        samples = ArraySamples(self.values, feature_names=self.names)
        LocalEngine().collect(samples, ScreeningQuestion(tuple(lowest))).check(lowest, self.names)


def read_table(paths: Sequence[str], columns: list[str], drop: list[str], shown: Meter) -> Table:
    """All rows of all files, with the columns wanted."""
    sparse = [path for path in _files(paths) if path.lower().endswith(".npz") and holds_sparse_table(path)]
    if sparse:
        return _sparse_table(sparse, _files(paths), columns, drop)
    samples = open_samples(list(paths), columns=columns or None, drop=drop or None)
    shown.stage("Reading rows", samples.n_rows)
    blocks = []
    for block in samples.blocks():
        blocks.append(block.values)
        shown.advance(len(block.values))
    return Table(np.concatenate(blocks), samples.feature_names)


def _files(paths: Sequence[str]) -> list[str]:
    """The files that paths and globs stand for; what is none is left to open_samples, which says why."""
    found: list[str] = []
    for path in map(os.path.expanduser, paths):
        found += [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True)) or [path]
    return found


def _sparse_table(sparse: list[str], files: list[str], columns: list[str], drop: list[str]) -> Table:
    import scipy.sparse

    others = [path for path in files if path not in sparse]
    if others:
        raise InputFileError(f"{sparse[0]} holds a sparse table and {others[0]} does not: give files of one kind.")
    parts = [_load(path) for path in sparse]
    for path, part in zip(sparse, parts, strict=True):
        if part.shape[1] != parts[0].shape[1]:
            raise InputFileError(
                f"{path}: has {part.shape[1]:,} columns, but {sparse[0]} has {parts[0].shape[1]:,}. Give files with"
                " the same columns."
            )
    whole = scipy.sparse.csr_array(parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr"))
    if columns or drop:
        whole = whole[:, _numbers(columns, drop, whole.shape[1], sparse[0])]
    return Table(whole, None)


def _load(path: str) -> Any:
    import scipy.sparse

    try:
        loaded = scipy.sparse.csr_array(scipy.sparse.load_npz(path))
    except MemoryError:
        raise
    except Exception as error:  # the zip and array readers meet foreign bytes with a dozen exception types
        raise InputFileError(f"{path}: is not a whole file of scipy.sparse.save_npz. Save it again.") from error
    if loaded.dtype.kind not in "fiub":
        raise InputFileError(f"{path}: the sparse table holds values of type {loaded.dtype}, not numbers.")
    if len(loaded.shape) != 2 or 0 in loaded.shape:
        raise InputFileError(f"{path}: the sparse table has shape {loaded.shape}, but rows and columns are needed.")
    loaded = loaded.astype(np.float64)
    loaded.sum_duplicates()
    return loaded


def _numbers(columns: list[str], drop: list[str], width: int, path: str) -> list[int]:
    """Positions of the columns wanted: those of a sparse table have no names."""

    def position(text: str) -> int:
        if text.isdecimal() and int(text) < width:
            return int(text)
        raise InputFileError(f"{path}: no column number {text}; it has {width}, counted from 0, and no names.")

    left_out = {position(text) for text in drop}
    wanted = [position(text) for text in columns] or list(range(width))
    kept = [column for column in dict.fromkeys(wanted) if column not in left_out]
    if not kept:
        raise InputFileError(f"{path}: no column is left to read. Drop fewer columns.")
    return kept
