"""The record of the one-pass learner: for every pair of columns, sums over the rows above both floors.

With P = 1{x > floor} and t = x - origin above the floor, 0 elsewhere, the record keeps four d x d sums:

    count  N = P'P      cross  C = T'T      masked_sum  A = T'P      masked_square  Q = (T*T)'P

so A_ij is the sum of t_i over rows with x_j above its floor. ``origin`` is bookkeeping per column: it keeps the
sums accurate for columns far from zero. Merging re-expresses both records about their common mean, which is
exact algebra, so any split of the rows gives the same record up to rounding.

Row weights multiply one factor of each product. Where values are missing the four products are also kept
against O = 1{observed}, so that each pair can use the rows that observe both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.kernels.row_block import add_joint_counts, centre_block, scan_block
from unrelu.statistics.screening import Screening

_TILE_ROWS = 1024  # rows laid out at a time


@dataclass(frozen=True, eq=False)
class ObservedMoments:
    """Sums over the rows that observe column j: of 1 (``count``), and of P, t, t^2 of column i."""

    count: FloatArray
    above: FloatArray
    total: FloatArray
    square: FloatArray


@dataclass(frozen=True, eq=False)
class PairMoments:
    """See the module's text. ``weight`` and ``squared_weight`` are the sums of w and w^2 over rows."""

    n_rows: int
    weight: float
    squared_weight: float
    origin: FloatArray
    count: FloatArray
    cross: FloatArray
    masked_sum: FloatArray
    masked_square: FloatArray
    observed: ObservedMoments | None
    screening: Screening

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def rows_per_weight(self) -> float:
        """Kish's effective number of rows per unit of weight; 1 without weights."""
        return self.weight / self.squared_weight if self.squared_weight > 0.0 else 0.0

    @property
    def column_weight(self) -> FloatArray:
        """Total weight of the rows that observe each column."""
        if self.observed is None:
            return np.full(self.n_features, self.weight)
        return self.observed.count.diagonal().copy()

    def positive_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Per column, over values above the floor: total weight, mean, variance (0 where there are none)."""
        count = self.count.diagonal().copy()
        safe = np.where(count > 0.0, count, 1.0)
        shift = self.masked_sum.diagonal() / safe
        spread = np.maximum(self.masked_square.diagonal() / safe - shift**2, 0.0)
        return count, self.origin + shift, spread

    def merge(self, other: Self) -> Self:
        """The record of both sets of rows."""
        count1, mean1, _ = self.positive_moments()
        count2, mean2, _ = other.positive_moments()
        total = count1 + count2
        share = np.divide(count2, total, out=np.zeros_like(total), where=total > 0.0)
        origin = mean1 + share * (mean2 - mean1)
        first = self._about(origin)
        second = other._about(origin)
        observed = None
        if first.observed is not None or second.observed is not None:
            o1, o2 = first._observed_or_complete(), second._observed_or_complete()
            observed = ObservedMoments(
                o1.count + o2.count, o1.above + o2.above, o1.total + o2.total, o1.square + o2.square
            )
        return type(self)(
            n_rows=self.n_rows + other.n_rows,
            weight=self.weight + other.weight,
            squared_weight=self.squared_weight + other.squared_weight,
            origin=origin,
            count=first.count + second.count,
            cross=first.cross + second.cross,
            masked_sum=first.masked_sum + second.masked_sum,
            masked_square=first.masked_square + second.masked_square,
            observed=observed,
            screening=self.screening.merge(other.screening),
        )

    def _about(self, origin: FloatArray) -> Self:
        """The same sums about another origin: t' = t - shift."""
        shift = (origin - self.origin)[:, None]
        n, a, q = self.count, self.masked_sum, self.masked_square
        observed = self.observed
        if observed is not None:
            above, total = observed.above, observed.total
            square = observed.square - 2.0 * shift * total + shift**2 * above
            observed = replace(observed, total=total - shift * above, square=square)
        return replace(
            self,
            origin=origin,
            cross=self.cross - shift * a.T - shift.T * a + shift * shift.T * n,
            masked_sum=a - shift * n,
            masked_square=q - 2.0 * shift * a + shift**2 * n,
            observed=observed,
        )

    def _observed_or_complete(self) -> ObservedMoments:
        """What ``observed`` would hold if it had been kept while no value was missing."""
        if self.observed is not None:
            return self.observed
        shape = (self.n_features, self.n_features)
        columns = (self.count.diagonal(), self.masked_sum.diagonal(), self.masked_square.diagonal())
        above, total, square = (np.broadcast_to(c[:, None], shape).copy() for c in columns)
        return ObservedMoments(np.full(shape, self.weight), above, total, square)


@dataclass(frozen=True)
class PairMomentsQuestion:
    """Ask a block of rows for its :class:`PairMoments`. ``floor`` holds one number per column."""

    floor: tuple[float, ...]

    def __call__(self, block: Block) -> PairMoments:
        n, d = block.values.shape
        floor = np.array(self.floor)
        origin, screening, any_missing = _survey(block.values, floor, block.first_row)
        sums = _Sums(d, any_missing)
        for start in range(0, n, _TILE_ROWS):
            rows = slice(start, start + _TILE_ROWS)
            sums.add(block.values[rows], None if block.weights is None else block.weights[rows], floor, origin)
        weights = np.ones(n) if block.weights is None else block.weights
        return PairMoments(
            n_rows=n,
            weight=float(weights.sum()),
            squared_weight=float(weights @ weights),
            origin=origin,
            count=sums.count,
            cross=sums.cross,
            masked_sum=sums.powers[:d],
            masked_square=sums.powers[d:],
            observed=sums.observed_moments(),
            screening=screening,
        )


class _Sums:
    """Running sums of a block, tile by tile: a tile's working arrays stay in cache and are reused."""

    def __init__(self, d: int, any_missing: bool) -> None:
        self._powers = np.empty((_TILE_ROWS, 2 * d))
        self._above = np.empty((_TILE_ROWS, d))
        self._words = np.empty((_TILE_ROWS // 64, d), dtype=np.uint64)
        self.count, self.cross, self.powers = np.zeros((d, d)), np.zeros((d, d)), np.zeros((2 * d, d))
        self.any_missing = any_missing
        if any_missing:
            self.seen, self.seen_above, self.seen_powers = (np.zeros((k * d, d)) for k in (1, 1, 2))

    def add(
        self,
        values: NDArray[np.floating[Any]],
        weights: FloatArray | None,
        floor: FloatArray,
        origin: FloatArray,
    ) -> None:
        n, d = values.shape
        powers, above = self._powers[:n], self._above[:n]
        centre_block(values, floor, origin, powers, above)
        centred = powers[:, :d]
        if weights is None:
            add_joint_counts(above, self._words, self.count)
            self.cross += centred.T @ centred
            self.powers += powers.T @ above
        else:
            weighted = weights[:, None] * above
            self.count += above.T @ weighted
            self.cross += centred.T @ (weights[:, None] * centred)
            self.powers += powers.T @ weighted
        if self.any_missing:
            seen = (~np.isnan(values)).astype(np.float64)
            weighted = seen if weights is None else weights[:, None] * seen
            self.seen += seen.T @ weighted
            self.seen_above += above.T @ weighted
            self.seen_powers += powers.T @ weighted

    def observed_moments(self) -> ObservedMoments | None:
        if not self.any_missing:
            return None
        d = len(self.seen)
        return ObservedMoments(self.seen, self.seen_above, self.seen_powers[:d], self.seen_powers[d:])


def _survey(values: NDArray[np.floating[Any]], floor: FloatArray, first_row: int) -> tuple[FloatArray, Screening, bool]:
    """An origin for this block, what is out of place in it, and whether anything is missing."""
    n, d = values.shape
    lowest, highest, below = np.empty(d), np.empty(d), np.empty(d)
    counts = np.zeros((3, d), dtype=np.int64)
    first = np.empty((2, d), dtype=np.int64)
    scan_block(values, floor, lowest, highest, counts, first, below)
    empty = highest < lowest
    lowest, highest = np.where(empty, floor, lowest), np.where(empty, floor, highest)
    origin = 0.5 * lowest + 0.5 * highest
    first = np.where(first >= 0, first + first_row, -1)
    screening = Screening(n, counts[1], first[0], below, counts[2], first[1])
    return origin, screening, bool(counts[0].any())
