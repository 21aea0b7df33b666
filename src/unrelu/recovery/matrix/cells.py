"""The table as tiles of rows, each a small dense array, whatever holds it; NaN marks a cell that was not observed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.row_block import LARGEST
from unrelu.passes.engine import map_in_threads
from unrelu.passes.tiles import row_keys

U = TypeVar("U")
_LEAST_CELLS, _MOST_CELLS = 1 << 14, 1 << 18  # per tile: worth a call, and small enough for a core's cache
_FEWEST_TILES = 4


@dataclass(frozen=True)
class Cells(ABC):
    """Values above the floor as their height over it, 0 at the floor, NaN where nothing was observed."""

    values: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    @abstractmethod
    def rows(self, start: int, stop: int) -> FloatArray:
        """Rows ``start`` to ``stop`` as a dense array, which the caller does not write to."""

    @abstractmethod
    def part(self, rows: BoolArray, columns: BoolArray) -> Cells:
        """The table of the rows and columns marked True."""

    def scaled(self, factor: float) -> Self:
        """The table with every value multiplied by ``factor``."""
        return replace(self, values=self.values * factor)


class DenseCells(Cells):
    """An array in memory."""

    def rows(self, start: int, stop: int) -> FloatArray:
        dense: FloatArray = self.values[start:stop]
        return dense

    def part(self, rows: BoolArray, columns: BoolArray) -> DenseCells:
        return DenseCells(self.values[np.ix_(rows, columns)])


class SparseCells(Cells):
    """A scipy matrix in CSR form: what is not stored is at the floor."""

    def rows(self, start: int, stop: int) -> FloatArray:
        dense: FloatArray = self.values[start:stop].toarray()
        return dense

    def part(self, rows: BoolArray, columns: BoolArray) -> SparseCells:
        return SparseCells(self.values[np.flatnonzero(rows)][:, np.flatnonzero(columns)])


@dataclass(frozen=True)
class HeldOut(Cells):
    """Another table with a share of its observed cells hidden, chosen by a hash of their positions and the seed."""

    share: float
    seed: int

    def rows(self, start: int, stop: int) -> FloatArray:
        return np.where(self.hidden(start, stop), np.nan, self.values.rows(start, stop))

    def hidden(self, start: int, stop: int) -> BoolArray:
        """Which cells of rows ``start`` to ``stop`` are hidden."""
        width = self.shape[1]
        keys = row_keys(self.seed, np.arange(start * width, stop * width)).reshape(stop - start, width)
        chosen: BoolArray = keys < np.uint64(self.share * float(2**63)) * np.uint64(2)
        return chosen

    def part(self, rows: BoolArray, columns: BoolArray) -> DenseCells:
        return DenseCells(self.rows(0, self.shape[0])[np.ix_(rows, columns)])

    def scaled(self, factor: float) -> Self:
        return replace(self, values=self.values.scaled(factor))


def tiles(shape: tuple[int, int]) -> list[slice]:
    """Row ranges, which depend on the table's shape alone: a few even for a small table, so that cores share them.

    >>> tiles((1000, 300))
    [slice(0, 250, None), slice(250, 500, None), slice(500, 750, None), slice(750, 1000, None)]
    """
    n_rows, n_columns = shape
    cells = min(max(n_rows * n_columns // _FEWEST_TILES, _LEAST_CELLS), _MOST_CELLS)
    height = max(1, cells // max(n_columns, 1))
    count = -(-n_rows // height)
    height = -(-n_rows // max(count, 1))
    return [slice(start, min(start + height, n_rows)) for start in range(0, n_rows, height)]


def tile_by_tile(cells: Cells, work: Callable[[FloatArray, slice], U]) -> list[U]:
    """What ``work`` makes of each tile, its values and its rows, on all cores and in order."""
    return map_in_threads(lambda rows: work(cells.rows(rows.start, rows.stop), rows), tiles(cells.shape))


def observed(cells: Cells) -> float:
    """Number of cells that are not missing."""
    return sum(tile_by_tile(cells, lambda values, _: float(np.count_nonzero(~np.isnan(values)))))


def column_norms(cells: Cells) -> FloatArray:
    """|X_j| of every column."""
    squares = tile_by_tile(cells, lambda values, _: np.nansum(values * values, axis=0))
    norms: FloatArray = np.sqrt(np.add.reduce(squares))
    return norms


def check_stored(table: Any, tolerance: float) -> None:
    """Raise InvalidDataError where a stored value of a sparse table is infinite or below the floor of 0."""
    data: FloatArray = table.data
    for wrong, what, advice in (
        (
            np.abs(data) > LARGEST,
            f"infinite or beyond {LARGEST:g},",
            "Replace infinite values or mark them as missing with NaN; divide huge numbers by a constant",
        ),
        (data < -tolerance, "negative, below the floor of 0,", "Set them to 0 if they are noise around it"),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            row = int(np.searchsorted(table.indptr, at, side="right")) - 1
            raise InvalidDataError(
                f"Stored values of the sparse table ({int(wrong.sum()):,}) are {what} the first {data[at]:g} in row"
                f" {row}, column {table.indices[at]}. {advice}."
            )
