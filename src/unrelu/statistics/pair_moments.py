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

_TILE_ROWS, _TILE_CELLS = 1024, 2**19  # laid out at a time, at most


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
        sums = _Sums(np.array(self.floor), block)
        height = int(np.clip(_TILE_CELLS // max(len(self.floor), 1), 64, _TILE_ROWS))
        for start in range(0, len(block.values), height):
            sums.add(start, start + height)
        return sums.record()


class _Sums:
    """Running sums of a block, tile by tile: a tile's working arrays stay in cache and are used again.

    The block itself may be a whole array in memory: nothing here grows with its rows.
    """

    def __init__(self, floor: FloatArray, block: Block) -> None:
        d = len(floor)
        self._floor, self._block = floor, block
        self._origin: FloatArray | None = None
        self._count, self._cross, self._powers = np.zeros((d, d)), np.zeros((d, d)), np.zeros((2 * d, d))
        self._weight = self._squared_weight = 0.0
        self._observed: ObservedMoments | None = None
        self._screening: Screening | None = None
        self._scratch: tuple[FloatArray, FloatArray, NDArray[np.uint64]] | None = None

    def add(self, start: int, stop: int) -> None:
        values = _plain(self._block.values[start:stop])
        weights = None if self._block.weights is None else self._block.weights[start:stop]
        n, d = values.shape
        any_missing = self._survey(values, self._block.first_row + start)
        assert self._origin is not None
        if self._scratch is None:
            self._scratch = np.empty((n, 2 * d)), np.empty((n, d)), np.empty(((n + 63) // 64, d), dtype=np.uint64)
        powers, above, words = (array[:n] for array in self._scratch)
        centre_block(values, self._floor, self._origin, powers, above)
        if any_missing and self._observed is None:
            self._observed = self.record()._observed_or_complete()
        centred = powers[:, :d]
        if weights is None:
            add_joint_counts(above, words, self._count)
            self._cross += centred.T @ centred
            self._powers += powers.T @ above
            self._weight += n
            self._squared_weight += n
        else:
            weighted = weights[:, None] * above
            self._count += above.T @ weighted
            self._cross += centred.T @ (weights[:, None] * centred)
            self._powers += powers.T @ weighted
            self._weight += float(weights.sum())
            self._squared_weight += float(weights @ weights)
        if self._observed is not None:
            seen = (~np.isnan(values)).astype(np.float64)
            weighted = seen if weights is None else weights[:, None] * seen
            sums = powers.T @ weighted
            o = self._observed
            self._observed = ObservedMoments(
                o.count + seen.T @ weighted, o.above + above.T @ weighted, o.total + sums[:d], o.square + sums[d:]
            )

    def _survey(self, values: NDArray[np.floating[Any]], first_row: int) -> bool:
        """Screen a tile; take the origin from the first one. True if a value is missing.

        Any origin within the data's range does: it only has to keep the sums from cancelling.
        """
        n, d = values.shape
        lowest, highest, below = np.empty(d), np.empty(d), np.empty(d)
        counts, first = np.zeros((3, d), dtype=np.int64), np.empty((2, d), dtype=np.int64)
        scan_block(values, self._floor, lowest, highest, counts, first, below)
        if self._origin is None:
            empty = highest < lowest
            lowest[empty] = highest[empty] = self._floor[empty]
            self._origin = 0.5 * lowest + 0.5 * highest
        first = np.where(first >= 0, first + first_row, -1)
        screening = Screening(n, counts[1], first[0], below, counts[2], first[1])
        self._screening = screening if self._screening is None else self._screening.merge(screening)
        return bool(counts[0].any())

    def record(self) -> PairMoments:
        assert self._origin is not None
        assert self._screening is not None
        d = len(self._floor)
        return PairMoments(
            n_rows=len(self._block.values),
            weight=self._weight,
            squared_weight=self._squared_weight,
            origin=self._origin,
            count=self._count,
            cross=self._cross,
            masked_sum=self._powers[:d],
            masked_square=self._powers[d:],
            observed=self._observed,
            screening=self._screening,
        )


def _plain(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """C order and writeable, by a copy of the tile where it is not: the kernels are compiled for that kind alone."""
    plain = values.flags.c_contiguous and values.flags.writeable
    return values if plain else np.array(values, order="C")
