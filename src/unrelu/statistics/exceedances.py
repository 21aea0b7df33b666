"""How often two columns exceed their thresholds together: exact counts, 64 rows to a machine word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from unrelu.contracts import Block, FloatArray
from unrelu.kernels.row_block import add_joint_counts
from unrelu.statistics.tiles import as_stored, tiles


@dataclass(frozen=True, eq=False)
class Exceedances:
    """``both``[i, j] = rows with x_i and x_j above their thresholds; ``seen``[i, j] = rows that observe both."""

    both: FloatArray
    seen: FloatArray

    def merge(self, other: Self) -> Self:
        return type(self)(self.both + other.both, self.seen + other.seen)


@dataclass(frozen=True)
class ExceedancesQuestion:
    """Ask a block for its :class:`Exceedances`; one threshold per column."""

    thresholds: tuple[float, ...]

    def __call__(self, block: Block) -> Exceedances:
        d = len(self.thresholds)
        thresholds = np.array(self.thresholds)
        both, seen = np.zeros((d, d)), np.zeros((d, d))
        complete_rows = 0
        for tile in tiles(block):
            words = np.empty(((len(tile.values) + 63) // 64, d), dtype=np.uint64)
            add_joint_counts(tile.values > as_stored(thresholds, tile.values), words, both)
            observed = ~np.isnan(tile.values)
            if observed.all():
                complete_rows += len(tile.values)
            else:
                add_joint_counts(observed, words, seen)
        return Exceedances(both, seen + complete_rows)
