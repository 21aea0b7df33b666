"""What is above the floor, column by column: how often, mean and spread, and how many before each block.

The papers' methods ask this first: Wu et al. 2019 rescales by mean and deviation (7), and batches of values above the
floor need every value's rank among them, whatever the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.kernels.row_block import LARGEST
from unrelu.statistics.screening import Screening, survey
from unrelu.statistics.tiles import least_allowed, seen_above, tiles

Ranks = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ColumnTally:
    """Rows; per column: values observed, values above the floor, their mean and sum of squared deviations.

    ``above_by_block`` maps the first row of every block to its number of values above the floor.
    """

    n_rows: int
    observed: Ranks
    above: Ranks
    mean: FloatArray
    deviation: FloatArray
    above_by_block: dict[int, Ranks]
    screening: Screening

    @property
    def variance(self) -> FloatArray:
        return self.deviation / np.maximum(self.above, 1)

    def merge(self, other: Self) -> Self:
        above = self.above + other.above
        share = other.above / np.maximum(above, 1)
        gap = other.mean - self.mean
        return type(self)(
            n_rows=self.n_rows + other.n_rows,
            observed=self.observed + other.observed,
            above=above,
            mean=self.mean + share * gap,
            deviation=self.deviation + other.deviation + gap**2 * share * self.above,
            above_by_block={**self.above_by_block, **other.above_by_block},
            screening=self.screening.merge(other.screening),
        )

    def above_before(self) -> dict[int, Ranks]:
        """First row of every block -> values above the floor in all blocks before it."""
        running = np.zeros_like(self.above)
        before = {}
        for first_row in sorted(self.above_by_block):
            before[first_row] = running
            running = running + self.above_by_block[first_row]
        return before


@dataclass(frozen=True)
class ColumnTallyQuestion:
    """Ask a block for its :class:`ColumnTally`."""

    floor: tuple[float, ...]
    lowest: tuple[float, ...]

    @classmethod
    def under(cls, assumptions: Assumptions) -> Self:
        return cls(assumptions.censoring, assumptions.lowest)

    def __call__(self, block: Block) -> ColumnTally:
        if block.weights is not None:
            raise InvalidParameterError("This method has no row weights: leave out sample_weight or use 'one_pass'.")
        floor, lowest = np.array(self.floor), np.array(self.lowest)
        parts = [_tally(tile, floor, lowest) for tile in tiles(block)]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.merge(part)
        return replace(whole, above_by_block={block.first_row: whole.above})


def _tally(tile: Block, floor: FloatArray, lowest: FloatArray) -> ColumnTally:
    values = tile.values
    floor, lowest = seen_above(floor, values), least_allowed(lowest, values)
    seen = (values > floor) & (values <= np.float64(LARGEST))
    above = np.count_nonzero(seen, axis=0)
    mean = np.where(seen, values, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(above, 1)
    deviation = np.where(seen, values - mean, 0.0)
    return ColumnTally(
        n_rows=len(values),
        observed=np.count_nonzero(~np.isnan(values), axis=0),
        above=above,
        mean=mean,
        deviation=np.einsum("ij,ij->j", deviation, deviation),
        above_by_block={tile.first_row: above},
        screening=survey(tile, lowest).screening,
    )
