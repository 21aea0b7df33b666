"""Pair sums with a weight for every cell: how surely it is genuine.

A pair counts in a row as far as both of its cells are genuine, w_i w_j; a column by itself as far as its own cell is:

    sum over rows of  w_i w_j s(x_i, x_j)    for pairs,        w_i s(x_i)    for columns, on the diagonals.

Where badness strikes cells whatever their values, these are the sums over genuine cells, in expectation, and the
learners of :mod:`unrelu.fit.one_pass` read them as those of a table whose bad cells are missing.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.kernels.row_block import centre_block, out_of_place
from unrelu.passes.pair_sums import Frame, PairSums
from unrelu.passes.screening import survey

_BAD = 0.5  # weight below which a cell tells nothing of its column's shape


class CellSums(PairSums):
    """:class:`PairSums` of tiles whose cells have weights; ``observed`` is always kept."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame, np.float64)
        self._columns = np.zeros((5, len(frame.origin)))  # of t, t^2, 1{above}, 1{observed}, its squared weights
        self.observed = self._as_if_observed()

    def add_weighted(self, tile: Block, cells: FloatArray) -> None:
        """``cells``: their weights, 0 where missing. The tile's own weights multiply them."""
        frame = self._frame
        if out_of_place(tile.values, frame.short_lowest, frame.most):
            self.screening = self.screening.merge(survey(tile, frame.lowest).screening)
        stack = np.empty((3, *tile.values.shape))
        centre_block(tile.values, frame.short_floor, self._origin, frame.most, stack[:2], stack[2])
        rows = np.ones(len(tile.values)) if tile.weights is None else tile.weights
        single = rows[:, None] * cells
        self._columns[:3] += np.einsum("nd,knd->kd", single, stack)
        self._columns[3] += single.sum(axis=0)
        self._columns[4] += np.einsum("nd,nd->d", single, single)
        root = np.sqrt(rows)[:, None] * cells
        stack *= root
        self._add_pairs(stack, root)
        self.weight += float(rows.sum())
        self.squared_weight += float(rows @ rows)
        if self.shapes is not None:
            seen = np.where(cells >= _BAD, tile.values, tile.values.dtype.type(np.nan))
            self.shapes.add(Block(seen, tile.first_row, tile.weights))

    def _add_pairs(self, stack: NDArray[np.floating[Any]], root: FloatArray) -> None:
        assert self.observed is not None
        both, squared_weight, sums = self.observed
        self._add(stack[2:], stack[2], self.count, symmetric=True)
        self._add(stack[:1], stack[0], self.cross, symmetric=True)
        self._add(stack[:2], stack[2], self.powers)
        self._add(root[None], root, both, symmetric=True)
        self._add(root[None] ** 2, root**2, squared_weight, symmetric=True)
        self._add(stack, root, sums)

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
