"""Counts of values in equal bins of a bracket, column by column: a few passes narrow it down to a quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.statistics.tiles import tiles

BINS = 1024


@dataclass(frozen=True, eq=False)
class Histogram:
    """``counts`` is d x (BINS + 2): below the bracket, in its bins, above it."""

    counts: NDArray[np.int64]

    def merge(self, other: Self) -> Self:
        return type(self)(self.counts + other.counts)


@dataclass(frozen=True, eq=False)
class HistogramQuestion:
    """Ask a block for its :class:`Histogram` between ``low`` and ``high``, one bracket per column."""

    low: FloatArray
    high: FloatArray

    def __call__(self, block: Block) -> Histogram:
        d = len(self.low)
        counts = np.zeros((d, BINS + 2), dtype=np.int64)
        width = np.where(self.high > self.low, (self.high - self.low) / BINS, 1.0)
        for tile in tiles(block):
            seen = ~np.isnan(tile.values)
            place = np.floor((np.where(seen, tile.values, 0.0) - self.low) / width) + 1.0
            bins = np.clip(place, 0, BINS + 1).astype(np.int64)
            for j in range(d):
                counts[j] += np.bincount(bins[seen[:, j], j], minlength=BINS + 2)
        return Histogram(counts)
