"""What the papers' learners ask of the rows: tallies, batch sums, joint counts and histograms, all of which merge.

:class:`ColumnTally` comes first: Wu et al. 2019 rescales by mean and deviation (7), and batches of values above the
floor need every value's rank among them, whatever the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.kernels.row_block import LARGEST, add_joint_counts
from unrelu.papers.kernels import add_batch_sums
from unrelu.passes.tiles import Screening, as_stored, least_allowed, seen_above, survey, tiles

BINS = 1024
_GOLDEN = 0.6180339887498949

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ColumnTally:
    """Rows; per column: values observed, values above the floor, their mean and sum of squared deviations.

    ``above_by_block`` maps the first row of every block to its number of values above the floor.
    """

    n_rows: int
    observed: Counts
    above: Counts
    mean: FloatArray
    deviation: FloatArray
    above_by_block: dict[int, Counts]
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
        whole: ColumnTally | None = None
        for tile in tiles(block):
            values = tile.values
            seen = (values > seen_above(np.array(self.floor), values)) & (values <= np.float64(LARGEST))
            above = np.count_nonzero(seen, axis=0)
            mean = np.where(seen, values, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(above, 1)
            deviation = np.where(seen, values - mean, 0.0)
            part = ColumnTally(
                n_rows=len(values),
                observed=np.count_nonzero(~np.isnan(values), axis=0),
                above=above,
                mean=mean,
                deviation=np.einsum("ij,ij->j", deviation, deviation),
                above_by_block={},
                screening=survey(tile, least_allowed(np.array(self.lowest), values))[0],
            )
            whole = part if whole is None else whole.merge(part)
        assert whole is not None, "a block has at least one row"
        return replace(whole, above_by_block={block.first_row: whole.above})


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts or sums of the rows, laid out as the question says."""

    values: NDArray[Any]

    def merge(self, other: Self) -> Self:
        return type(self)(self.values + other.values)


@dataclass(frozen=True, eq=False)
class BatchSumsQuestion:
    """Ask for (count, sum t, sum t^2/2), t = (x - centre)/scale, of ``batches[j]`` equal batches: d x n_b x 3.

    Bulusu et al. 2022, (7): the values above the floor of a column are split into n_b batches. Wu et al. 2019 takes
    mini-batches in the order of the rows. A value's batch depends on its rank among the column's values above the
    floor, never on the blocks, so that sums add. ``scattered`` spreads neighbouring rows over all batches, by a fixed
    permutation drawn from ``seed``; else batches follow the order of the rows. ``chosen`` (d x m, rising along each
    row) asks for some batches only: a step that takes one value must not keep a sum for every value there is.
    """

    floor: FloatArray
    centre: FloatArray
    scale: FloatArray
    tally: ColumnTally
    batches: Counts
    scattered: bool = False
    seed: int = 0
    chosen: Counts = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))

    def __call__(self, block: Block) -> Sums:
        sums = np.zeros((len(self.floor), self.chosen.shape[1] or int(self.batches.max()), 3))
        earlier = [above for first_row, above in self.tally.above_by_block.items() if first_row < block.first_row]
        rank = np.sum([np.zeros_like(self.tally.above), *earlier], axis=0)
        total = np.maximum(self.tally.above, 1)
        permutation = self._permutation(total)
        for tile in tiles(block):
            floor = seen_above(self.floor, tile.values)
            place = (rank, total, self.batches, *permutation, self.chosen)
            add_batch_sums(tile.values, floor, self.centre, self.scale, *place, sums)
        return Sums(sums)

    def _permutation(self, total: Counts) -> tuple[Counts, Counts]:
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


@dataclass(frozen=True)
class ExceedancesQuestion:
    """Ask how often two columns exceed their ``thresholds`` together, and are both observed: 2 x d x d exact counts."""

    thresholds: tuple[float, ...]

    def __call__(self, block: Block) -> Sums:
        d = len(self.thresholds)
        thresholds = np.array(self.thresholds)
        both, seen = np.zeros((d, d)), np.zeros((d, d))
        for tile in tiles(block):
            words = np.empty(((len(tile.values) + 63) // 64, d), dtype=np.uint64)  # 64 rows to a machine word
            add_joint_counts(tile.values > as_stored(thresholds, tile.values), words, both)
            observed = ~np.isnan(tile.values)
            if observed.all():
                seen += len(tile.values)
            else:
                add_joint_counts(observed, words, seen)
        return Sums(np.stack([both, seen]))


@dataclass(frozen=True, eq=False)
class HistogramQuestion:
    """Ask for counts below ``low``, in BINS equal bins up to ``high``, and above, column by column: d x (BINS + 2)."""

    low: FloatArray
    high: FloatArray

    def __call__(self, block: Block) -> Sums:
        d = len(self.low)
        counts = np.zeros((d, BINS + 2), dtype=np.int64)
        width = np.where(self.high > self.low, (self.high - self.low) / BINS, 1.0)
        for tile in tiles(block):
            seen = ~np.isnan(tile.values)
            place = np.floor((np.where(seen, tile.values, 0.0) - self.low) / width) + 1.0
            bins = np.clip(place, 0, BINS + 1).astype(np.int64)
            for j in range(d):
                counts[j] += np.bincount(bins[seen[:, j], j], minlength=BINS + 2)
        return Sums(counts)
