"""Running sums over tiles of rows for pairs of columns: what :mod:`unrelu.passes.pair_moments` keeps of them.

Every thread sums runs of tiles of its own, with matrix products on one thread each, and the runs' sums are added in
their order: neither other work on the machine nor the number of threads changes a digit. Where columns are so many
that sums of its own for every thread would take much memory, threads share a tile's products by panels of columns.

Tables in single precision stay so in the products, over few enough rows for their rounding to be far below what
sampling leaves open; sums over these are in double precision.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.kernels.row_block import (
    FEW_CELLS,
    LARGEST,
    add_sparse_rows,
    add_stack,
    add_upper_counts,
    centre_block,
    out_of_place,
    pack_rows,
)
from unrelu.passes.columns import ColumnMargins, window
from unrelu.passes.engine import map_in_threads
from unrelu.passes.limit_sums import LimitSums
from unrelu.passes.rows import SparseBlock
from unrelu.passes.tiles import Screening, least_allowed, seen_above, survey, tiles

Floats = NDArray[np.floating[Any]]

_WIDE, _PANEL = 512, 256  # columns from which threads share a tile; columns to a panel
_WIDE_SPARSE = 1500  # columns from which sparse rows have one set of sums
_SHORT_ROWS = 256  # of a sum in single precision: like terms round alike, by up to 2^-24 each
FIRST_ROWS = 1024  # that give origins and units of the columns
_LEAST_ROWS, _TILE_ROWS, _TILE_CELLS = 512, 16_384, 2**17  # of a tile: rows at least and at most, cells beyond that
_RUN_ROWS, _RUN_CELLS = 8192, 2**19  # the larger: adding up the sums of a run must cost little beside the run
_BAD_CELL = 0.5  # weight below which a cell does not count for its column's margin
_LEAST_SQUARE, _LARGEST_SQUARE = 1e-24, 1e24  # mean squares of a column that single precision holds with room to spare


def tile_height(d: int) -> int:
    """Rows whose working copies stay in cache."""
    return max(min(_TILE_CELLS // d, _TILE_ROWS) // _LEAST_ROWS, 1) * _LEAST_ROWS


def runs(n: int, d: int) -> list[slice]:
    """The rows in runs, each for one thread; one run for all of them where threads share every tile."""
    height = tile_height(d)
    length = n if d > _WIDE else max(_RUN_ROWS, _RUN_CELLS // d) // height * height
    # A block of a file is shorter, and threads want several runs of it.
    length = min(length, max(-(-n // (8 * height)), 1) * height) if d <= _WIDE else length
    return [slice(start, min(start + length, n)) for start in range(0, n, length)]


class Frame:
    """What the tiles of a block share, from the first of them: levels, an origin near the bulk of each column."""

    def __init__(self, tile: Block, floor: FloatArray, lowest: FloatArray, margins: bool) -> None:
        kind = tile.values.dtype
        self.floor, self.lowest = seen_above(floor, tile.values), least_allowed(lowest, tile.values)
        # Comparing with these is comparing with those: what is stored is above both or above neither.
        self.short_floor, self.short_lowest = rounded_down(self.floor, kind), -rounded_down(-self.lowest, kind)
        self.most: Any = kind.type(min(LARGEST, float(np.finfo(kind).max)))
        rows = slice(0, FIRST_ROWS)
        values, weights = tile.values[rows], None if tile.weights is None else tile.weights[rows]
        # Any origin near the bulk of the data does: it only has to keep the sums from cancelling. It is the (weighted)
        # mean of what lies above the floor, the floor where nothing does.
        above = (values > self.floor) & (values <= np.float64(LARGEST))
        counted = above if weights is None else above * weights[:, None]
        total = counted.sum(axis=0, dtype=np.float64)
        sums = np.einsum("ij,ij->j", counted.astype(np.float64), np.where(above, values, 0.0))
        nothing = np.where(np.isfinite(self.floor), self.floor, 0.0)
        origin = np.divide(sums, total, out=nothing, where=total > 0.0)
        self.origin = np.asarray(origin.astype(kind).astype(np.float64))
        self.short = kind == np.float32 and weights is None
        self.margins: ColumnMargins | None = None
        if self.short:  # where the first rows can be summed so
            first = PairSums(self, np.float32)
            first.add(Block(values))
            self.short = first.fits()
        if margins:
            self.margins = ColumnMargins.of_first(values, self.floor, self.origin)

    def summed(self, block: Block, rows: slice) -> PairSums:
        """The sums of some of a block's rows, in single precision if it holds them."""
        for kind in (np.float32, np.float64) if self.short else (np.float64,):
            sums = PairSums(self, kind)
            for tile in tiles(block, tile_height(len(self.origin)), rows):
                sums.add(tile)
            if sums.fits():
                break
        return sums

    def sparse_sums(self, block: SparseBlock) -> SparseSums:
        """The sums of a sparse block."""
        sums = SparseSums(self)
        sums.add(block)
        return sums


class PairSums:
    """Running sums of tiles; nothing here grows with the rows.

    ``count`` N, ``cross`` C and ``powers`` (A, Q) are those of the record; ``observed`` is None while nothing is
    missing, else O'O, its squared weights, and (T, T*T, P)'O. Of N, C and O'O only what lies on and above the
    diagonal is kept until :meth:`finished`.
    """

    def __init__(self, frame: Frame, kind: Any) -> None:
        d = len(frame.origin)
        self._frame, self._kind = frame, np.dtype(kind)
        self._origin = frame.origin.astype(kind)
        self._scratch: tuple[Floats, NDArray[np.uint64]] | None = None
        self._product_room: Floats | None = None
        self.count, self.cross, self.powers = np.zeros((1, d, d)), np.zeros((1, d, d)), np.zeros((2, d, d))
        self.weight = self.squared_weight = 0.0
        self.observed: tuple[FloatArray, FloatArray, FloatArray] | None = None
        self.screening = Screening.clean(frame.lowest)
        self.margins = frame.margins
        self.limits: LimitSums | None = None  # of rows in which cells are marked as censored

    def add(self, tile: Block) -> None:
        frame, weights = self._frame, tile.weights
        if out_of_place(tile.values, frame.short_lowest, frame.most):
            screening, any_missing = survey(tile, frame.lowest)
            self.screening = self.screening.merge(screening)
            if any_missing and self.observed is None:
                self.observed = self._as_if_observed()
        # Scratch for t, t^2 and 1{above}, and for words of bits. Rows up to a whole number of sums are 0.
        n = len(tile.values)
        height = n if self._kind == np.float64 or n < _SHORT_ROWS else -(-n // _SHORT_ROWS) * _SHORT_ROWS
        if self._scratch is None or self._scratch[0].shape[1] < height:
            d = len(self._origin)
            self._scratch = np.empty((3, height, d), self._kind), np.empty(((height + 63) // 64, d), np.uint64)
        stack, words = self._scratch[0][:, :height], self._scratch[1][: (n + 63) // 64]
        stack[:, n:] = 0.0
        powers, above = stack[:2], stack[2]
        shown = tile.values
        if tile.censoring is not None:  # cells that were seen alone
            shown = np.where(tile.censoring == 0, shown, shown.dtype.type(np.nan))
        centre_block(shown, frame.short_floor, self._origin, frame.most, powers, above)
        counted = weighted(above, weights)
        self._add_ones(above, counted, words, self.count)
        self._add(powers[:1], weighted(powers[0], weights), self.cross, symmetric=True)
        self._add(powers, counted, self.powers)
        self.weight += n if weights is None else float(weights.sum())
        self.squared_weight += n if weights is None else float(weights @ weights)
        if self.observed is not None:
            both, squared_weight, sums = self.observed
            seen = np.zeros_like(above)
            seen[:n] = ~np.isnan(tile.values)
            counted = weighted(seen, weights)
            self._add_ones(seen, counted, words, both)
            if weights is None:
                self._add_ones(seen, seen, words, squared_weight)
            else:
                self._add(counted[None], counted, squared_weight, symmetric=True)
            self._add(stack, counted, sums)
        if tile.censoring is not None:
            before = LimitSums.none(tile.values.shape[1]) if self.limits is None else self.limits
            self.limits = before.of_rows(tile, self._frame.origin, above[:n] > 0.0)
        if self.margins is not None:
            self.margins = self.margins.with_rows(tile, frame.floor)

    def join(self, other: Self) -> None:
        """Add the sums of other tiles of the same frame."""
        if self.observed is not None or other.observed is not None:
            mine, others = self.observed or self._as_if_observed(), other.observed or other._as_if_observed()
            self.observed = mine[0] + others[0], mine[1] + others[1], mine[2] + others[2]
        for into, more in ((self.count, other.count), (self.cross, other.cross), (self.powers, other.powers)):
            into += more
        self.weight += other.weight
        self.squared_weight += other.squared_weight
        self.screening = self.screening.merge(other.screening)
        if self.margins is not None and other.margins is not None:
            self.margins = self.margins.merge(other.margins)
        if self.limits is not None and other.limits is not None:
            self.limits = self.limits.merge(other.limits)

    def finished(self) -> Self:
        """With what lies below the diagonal; no tile can be added any more."""
        for sums in (self.count, self.cross, *([] if self.observed is None else self.observed[:2])):
            below = np.tril_indices(sums.shape[-1], -1)
            sums[0][below] = sums[0].T[below]
        return self

    def fits(self) -> bool:
        """Whether the precision held every column's squares: none that overflowed, none that was too small."""
        if self._kind == np.float64:
            return True
        count, square = self.count[0].diagonal(), self.powers[1].diagonal()
        return bool(np.all((count == 0.0) | (square >= _LEAST_SQUARE * count) & (square <= _LARGEST_SQUARE * count)))

    def _add(self, left: Floats, right: Floats, into: FloatArray, symmetric: bool = False) -> None:
        """into[k] += left[k]'right, at least on and above the diagonal where the result is ``symmetric``."""
        (n, d), k = right.shape, len(left)
        rows = min(n, _SHORT_ROWS) if self._kind == np.float32 else n

        def panel(at: slice) -> None:
            upper = at.stop if symmetric else d
            several = left[..., :upper].reshape(k, -1, rows, upper).swapaxes(2, 3)
            with np.errstate(over="ignore", invalid="ignore"):  # single precision: what did not fit is summed again
                products = np.matmul(several, right[:, at].reshape(-1, rows, at.stop - at.start), out=room)
            add_stack(products, into[:, :upper, at])

        # Memory that is asked for anew costs more than a small product.
        room, size = None, k * (n // rows) * d**2
        if d <= _WIDE:
            if self._product_room is None or self._product_room.size < size:
                self._product_room = np.empty(size, self._kind)
            room = self._product_room[:size].reshape(k, -1, d, d)
        map_in_threads(panel, _panels(d))

    def _add_ones(self, ones: Floats, counted: Floats, words: NDArray[np.uint64], into: FloatArray) -> None:
        """into += ones'counted on and above the diagonal, exactly where what is counted are the ones themselves."""
        if counted is not ones:
            self._add(ones[None], counted, into, symmetric=True)
        elif ones.size <= FEW_CELLS:
            into[0] += ones.T @ ones
        else:
            pack_rows(ones[: 64 * len(words)], words)
            map_in_threads(lambda at: add_upper_counts(words, at.start, at.stop, into[0]), _panels(ones.shape[1]))

    def _as_if_observed(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        sums = self.count[0], *self.powers
        both, squared_weight, above, total, square = as_if_observed(np, self.weight, self.squared_weight, *sums)
        return both[None], squared_weight[None], np.stack([total, square, above])


class SparseSums(PairSums):
    """The same sums of rows that are sparse, at a cost of the cells above their floors, squared, in every row."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame, np.float64)
        self._sums = np.zeros((len(frame.origin),) * 2 + (4,))

    @staticmethod
    def can_add(block: SparseBlock, floor: FloatArray, lowest: FloatArray) -> bool:
        """Whether cells that are not stored are floored ones, and nothing is out of place or missing."""
        if block.matrix is None:
            return False
        stored = block.matrix.data
        in_place = np.all((stored >= lowest[block.matrix.indices]) & (stored <= LARGEST))
        present = block.weights is None or block.weights.all()
        return bool(np.all(floor >= 0.0) and in_place and present)

    def add(self, tile: Block) -> None:
        assert isinstance(tile, SparseBlock)
        rows, n = tile.matrix, tile.matrix.shape[0]
        weights = np.ones(n) if tile.weights is None else tile.weights
        cells = rows.indptr, rows.indices, rows.data.astype(np.float64)
        add_sparse_rows(*cells, self._frame.floor, self._origin, weights, self._sums)
        self.weight += float(weights.sum())
        self.squared_weight += float(weights @ weights)
        if self.margins is None:
            return
        for start in range(0, n, FIRST_ROWS):
            some = window(tile.first_row + start, min(FIRST_ROWS, n - start))
            at = slice(start + some.start, start + some.stop)
            if some.start < some.stop:
                self.margins = self.margins.with_rows(dense_rows(tile, at), self._frame.floor)

    def join(self, other: Self) -> None:
        super().join(other)
        self._sums += other._sums

    def finished(self) -> Self:
        self.count, self.cross = self._sums[..., 0].copy()[None], self._sums[..., 3].copy()[None]
        self.powers = np.stack([self._sums[..., 1], self._sums[..., 2]])
        return self


class CellSums(PairSums):
    """The same sums with a weight for every cell: its probability to be an inlier; ``observed`` is always kept.

    A pair counts in a row as far as both of its cells are inliers, w_i w_j; a column by itself as far as its own cell:

        sum over rows of  w_i w_j s(x_i, x_j)    for pairs,        w_i s(x_i)    for columns, on the diagonals.

    Where badness strikes cells whatever their values, these are the sums over inlier cells, in expectation, and the
    learners of :mod:`unrelu.fit.one_pass` read them as those of a table whose bad cells are missing.
    """

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame, np.float64)
        self._columns = np.zeros((5, len(frame.origin)))  # of t, t^2, 1{above}, 1{observed}, its squared weights
        self.observed = self._as_if_observed()

    def add_weighted(self, tile: Block, cells: FloatArray) -> None:
        """``cells``: their weights, 0 where missing. The tile's own weights multiply them."""
        frame = self._frame
        if out_of_place(tile.values, frame.short_lowest, frame.most):
            self.screening = self.screening.merge(survey(tile, frame.lowest)[0])
        stack = np.empty((3, *tile.values.shape))
        centre_block(tile.values, frame.short_floor, self._origin, frame.most, stack[:2], stack[2])
        rows = np.ones(len(tile.values)) if tile.weights is None else tile.weights
        single = rows[:, None] * cells
        self._columns[:3] += np.einsum("nd,knd->kd", single, stack)
        self._columns[3] += single.sum(axis=0)
        self._columns[4] += np.einsum("nd,nd->d", single, single)
        root = np.sqrt(rows)[:, None] * cells
        stack *= root
        assert self.observed is not None
        both, squared_weight, sums = self.observed
        self._add(stack[2:], stack[2], self.count, symmetric=True)
        self._add(stack[:1], stack[0], self.cross, symmetric=True)
        self._add(stack[:2], stack[2], self.powers)
        self._add(root[None], root, both, symmetric=True)
        self._add(root[None] ** 2, root**2, squared_weight, symmetric=True)
        self._add(stack, root, sums)
        self.weight += float(rows.sum())
        self.squared_weight += float(rows @ rows)
        if self.margins is not None:
            seen = np.where(cells >= _BAD_CELL, tile.values, tile.values.dtype.type(np.nan))
            self.margins = self.margins.with_rows(Block(seen, tile.first_row, tile.weights), frame.floor)

    def join(self, other: Self) -> None:
        super().join(other)
        self._columns += other._columns

    def finished(self) -> Self:
        super().finished()
        assert self.observed is not None
        total, square, above, observed, squared = self._columns
        at = np.arange(len(total))
        on_diagonal = (
            (self.count[0], above), (self.cross[0], square), (self.powers[0], total), (self.powers[1], square),
            (self.observed[0][0], observed), (self.observed[1][0], squared),
            (self.observed[2][0], total), (self.observed[2][1], square), (self.observed[2][2], above),
        )  # fmt: skip
        for matrix, column in on_diagonal:
            matrix[at, at] = column
        return self


def as_if_observed(xp: Any, weight: float, squared_weight: float, count: Any, total: Any, square: Any) -> list[Any]:
    """What would be kept against O = 1{observed} if it had been kept while no value was missing, of arrays of NumPy or
    of a device: O'O, its squared weights and (P, T, T*T)'O, from N, A and Q."""
    ones = xp.ones_like(count)
    own = (xp.linalg.diagonal(each)[:, None] * ones for each in (count, total, square))
    return [weight * ones, squared_weight * ones, *own]


def dense_rows(block: SparseBlock, rows: slice) -> Block:
    """Some neighbouring rows of a sparse block."""
    weights = None if block.weights is None else block.weights[rows]
    return Block(block.matrix[rows].toarray().astype(np.float64), block.first_row + rows.start, weights)


def sparse_runs(block: SparseBlock) -> list[SparseBlock]:
    """The block in parts, each for one thread; one part where sums for every thread would take much memory."""
    n, d = block.matrix.shape
    length = n if d > _WIDE_SPARSE else max(-(-n // 8), _RUN_ROWS)
    parts = [slice(start, start + length) for start in range(0, n, length)]
    return [
        SparseBlock(
            matrix=block.matrix[rows],
            first_row=block.first_row + rows.start,
            weights=None if block.weights is None else block.weights[rows],
        )
        for rows in parts
    ]


def _panels(d: int) -> list[slice]:
    width = d if d <= _WIDE else _PANEL
    return [slice(start, min(start + width, d)) for start in range(0, d, width)]


def weighted(rows: Floats, weights: FloatArray | None) -> Floats:
    """The rows times their weights, if they have any."""
    return rows if weights is None else weights[:, None] * rows


def rounded_down(levels: FloatArray, kind: np.dtype[Any]) -> Floats:
    """The largest numbers of this type that are not above the levels."""
    near = levels.astype(kind)
    return np.where(near > levels, np.nextafter(near, kind.type(-np.inf)), near)
