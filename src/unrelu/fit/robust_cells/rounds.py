"""What one pass over the rows brings: the weighted record, and, where it is the last, what became of every cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.fit.robust_cells.law import CellLaw
from unrelu.passes.engine import one_blas_thread
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.passes.pair_sums import CellSums, Frame, tile_height
from unrelu.passes.tiles import seen_above, tiles
from unrelu.posterior.cells import Values

STRANGEST = 10
GENUINE = 0.5  # from which weight on a cell is
_MOST_ROWS = 4096  # judged at a time


@dataclass(frozen=True, eq=False)
class CellRound:
    """One pass: the record of the genuine cells; and, where it was the last, what became of every cell.

    ``parts``, by first row: probabilities of being genuine, of a row's cells (single precision) and of itself;
    ``strangest``: the cells with the lowest log odds, as (row, column, log odds); ``n_bad``: numbers of cells that
    count less than half (2 x d: of all, of those above their floor).
    """

    record: PairMoments
    parts: tuple[tuple[int, NDArray[np.float32], FloatArray], ...]
    strangest: tuple[tuple[int, int, float], ...]
    n_bad: NDArray[np.int64]

    def merge(self, other: Self) -> Self:
        joined = _strangest(self.strangest + other.strangest)
        return type(self)(self.record.merge(other.record), self.parts + other.parts, joined, self.n_bad + other.n_bad)

    @property
    def tables(self) -> tuple[NDArray[np.float32], FloatArray]:
        """(n x d, n), in table order."""
        parts = sorted(self.parts, key=lambda part: part[0])
        return np.concatenate([cells for _, cells, _ in parts]), np.concatenate([rows for _, _, rows in parts])


def _strangest(cells: tuple[tuple[int, int, float], ...]) -> tuple[tuple[int, int, float], ...]:
    return tuple(sorted(cells, key=lambda cell: (cell[2], cell[0], cell[1]))[:STRANGEST])


@dataclass(frozen=True, eq=False)
class CellRoundQuestion:
    """Judge the cells of a block, and sum what is genuine; ``telling``: as users see it, and tell of every cell."""

    law: CellLaw
    question: PairMomentsQuestion
    telling: bool = False

    def __call__(self, block: Block) -> CellRound:
        d = block.values.shape[1]
        parts: list[tuple[int, NDArray[np.float32], FloatArray]] = []
        strangest: list[tuple[int, int, float]] = []
        n_bad = np.zeros((2, d), dtype=np.int64)

        def judged() -> Iterator[tuple[Block, FloatArray]]:
            for tile in tiles(block, min(tile_height(d), _MOST_ROWS)):
                verdict = self.law.judge(tile.values, self.telling)
                if self.telling:
                    cells = np.where(np.isnan(tile.values), 1.0, verdict.genuine).astype(np.float32)
                    parts.append((tile.first_row, cells, verdict.rows))
                    rows, columns = np.nonzero(verdict.log_odds < 0.0)
                    odds = verdict.log_odds[rows, columns]
                    first = np.argsort(odds, kind="stable")[:STRANGEST]
                    at = (rows[first] + tile.first_row).tolist(), columns[first].tolist(), odds[first].tolist()
                    strangest.extend(zip(*at, strict=True))
                    n_bad[:] += bad_counts(tile.values, cells, self.law.floor)
                weights = verdict.rows if tile.weights is None else verdict.rows * tile.weights
                yield Block(tile.values, tile.first_row, weights), verdict.cells

        record = weighted_record(judged(), self.question, len(block.values))
        return CellRound(record, tuple(parts), _strangest(tuple(strangest)), n_bad)


def bad_counts(values: Values, genuine: NDArray[Any], floor: FloatArray) -> NDArray[np.int64]:
    """Numbers of cells that count less than half, 2 x d: of all, of those above their floor."""
    bad = (genuine < GENUINE) & ~np.isnan(values)
    above = bad & (values > seen_above(floor, values))
    return np.stack([np.count_nonzero(bad, axis=0), np.count_nonzero(above, axis=0)])


def weighted_record(
    weighted: Iterator[tuple[Block, FloatArray]], question: PairMomentsQuestion, n_rows: int
) -> PairMoments:
    """The record of tiles whose cells have weights."""
    floor, lowest = np.array(question.floor), np.array(question.lowest)
    sums: CellSums | None = None
    with one_blas_thread():
        for tile, cells in weighted:
            if sums is None:
                bulk = np.where(cells > 0.0, tile.values, tile.values.dtype.type(np.nan))
                frame = Frame(Block(bulk, tile.first_row, tile.weights), floor, lowest, question.shapes)
                sums = CellSums(frame)
            sums.add_weighted(tile, cells)
    assert sums is not None, "a block has at least one row"
    return PairMoments.of_sums(floor, n_rows, frame, sums.finished())
