"""Means over batches of the values above the floor: what the papers' gradient methods know of the data.

Bulusu et al. 2022, (7): the values above the floor of a column are split into n_b batches S_j, and each batch gives the
vector x_j = mean of (x^2/2, -x). Wu et al. 2019 takes mini-batches in the order of the rows. A value's batch depends on
its rank among the column's values above the floor, never on the blocks, so records add.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.kernels.batch_sums import add_batch_sums
from unrelu.statistics.column_tally import ColumnTally
from unrelu.statistics.tiles import seen_above, tiles

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class BatchMeans:
    """``sums`` is d x n_b x 3: (count, sum t, sum t^2/2) of every (chosen) batch, t = (x - centre)/scale."""

    sums: FloatArray

    def merge(self, other: Self) -> Self:
        return type(self)(self.sums + other.sums)


@dataclass(frozen=True, eq=False)
class BatchMeansQuestion:
    """Ask a block for its :class:`BatchMeans`: ``batches[j]`` equal batches of column j.

    ``scattered`` spreads neighbouring rows over all batches, by a fixed permutation drawn from ``seed``; else batches
    follow the order of the rows. ``chosen`` (d x m, rising along each row) asks for some batches only: a step that
    takes one value must not keep a sum for every value there is.
    """

    floor: FloatArray
    centre: FloatArray
    scale: FloatArray
    tally: ColumnTally
    batches: NDArray[np.int64]
    scattered: bool = False
    seed: int = 0
    chosen: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))

    def __call__(self, block: Block) -> BatchMeans:
        d = len(self.floor)
        sums = np.zeros((d, self.chosen.shape[1] or int(self.batches.max()), 3))
        rank = self.tally.above_before()[block.first_row].copy()
        total = np.maximum(self.tally.above, 1)
        multiplier, shift = self._permutation(total)
        for tile in tiles(block):
            add_batch_sums(
                tile.values,
                seen_above(self.floor, tile.values),
                self.centre,
                self.scale,
                rank,
                total,
                self.batches,
                multiplier,
                shift,
                self.chosen,
                sums,
            )
        return BatchMeans(sums)

    def _permutation(self, total: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Multiplier and shift of k -> (multiplier k + shift) mod total, one to one since they share no factor."""
        if not self.scattered:
            return np.ones_like(total), np.zeros_like(total)
        rng = np.random.default_rng(self.seed)
        multipliers, shifts = [], []
        for n in total.tolist():
            multiplier = max(int(n * _GOLDEN) + int(rng.integers(0, max(n // 8, 1))), 1)
            while gcd(multiplier, n) != 1:
                multiplier += 1
            multipliers.append(multiplier)
            shifts.append(int(rng.integers(0, n)))
        return np.array(multipliers), np.array(shifts)
