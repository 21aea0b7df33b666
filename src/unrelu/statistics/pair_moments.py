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

from unrelu.contracts import Assumptions, Block, BoolArray, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.kernels.row_block import LARGEST, add_joint_counts, centre_block
from unrelu.statistics.column_shapes import ColumnShapes, ShapeSums
from unrelu.statistics.screening import Screening, survey
from unrelu.statistics.tiles import least_allowed, seen_above, tiles


@dataclass(frozen=True, eq=False)
class ObservedMoments:
    """Sums over the rows that observe column j: of 1 (``count``), and of P, t, t^2 of column i.

    ``squared_weight`` is the sum of w^2 over rows that observe both.
    """

    count: FloatArray
    squared_weight: FloatArray
    above: FloatArray
    total: FloatArray
    square: FloatArray


@dataclass(frozen=True, eq=False)
class PairMoments:
    """See the module's text. ``weight`` and ``squared_weight`` are the sums of w and w^2 over rows.

    ``shapes`` tell whether floors and normal laws are in doubt; None in records of files that did not keep them.
    """

    floor: FloatArray
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
    shapes: ColumnShapes | None = None

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def effective_rows(self) -> float:
        """Kish's number of rows, (sum w)^2 / sum w^2; all of them without weights."""
        return self.weight**2 / self.squared_weight if self.squared_weight > 0.0 else 0.0

    @property
    def column_weight(self) -> FloatArray:
        """Total weight of the rows that observe each column."""
        if self.observed is None:
            return np.full(self.n_features, self.weight)
        return self.observed.count.diagonal().copy()

    @property
    def column_rows(self) -> FloatArray:
        """Effective number of the rows that observe each column."""
        if self.observed is None:
            return np.full(self.n_features, self.effective_rows)
        squared = self.observed.squared_weight.diagonal()
        return np.divide(self.column_weight**2, squared, out=np.zeros(self.n_features), where=squared > 0.0)

    def positive_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Per column, over values above the floor: total weight, mean, variance (0 where there are none)."""
        count = self.count.diagonal().copy()
        safe = np.where(count > 0.0, count, 1.0)
        shift = self.masked_sum.diagonal() / safe
        spread = np.maximum(self.masked_square.diagonal() / safe - shift**2, 0.0)
        return count, self.origin + shift, spread

    def merge(self, other: Self) -> Self:
        """The record of both sets of rows."""
        if not np.array_equal(self.floor, other.floor):
            raise InvalidParameterError(
                "Rows learned with different floors cannot be joined: learn all of them with the same floor."
            )
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
                o1.count + o2.count,
                o1.squared_weight + o2.squared_weight,
                o1.above + o2.above,
                o1.total + o2.total,
                o1.square + o2.square,
            )
        return type(self)(
            floor=self.floor,
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
            shapes=None if self.shapes is None or other.shapes is None else self.shapes.merge(other.shapes),
        )

    def scaled(self, factor: float) -> Self:
        """The record with every weight multiplied."""
        o = self.observed
        if o is not None:
            o = ObservedMoments(
                factor * o.count, factor**2 * o.squared_weight, factor * o.above, factor * o.total, factor * o.square
            )
        return replace(
            self,
            weight=factor * self.weight,
            squared_weight=factor**2 * self.squared_weight,
            count=factor * self.count,
            cross=factor * self.cross,
            masked_sum=factor * self.masked_sum,
            masked_square=factor * self.masked_square,
            observed=o,
            shapes=None if self.shapes is None else self.shapes.scaled(factor),
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
        return ObservedMoments(np.full(shape, self.weight), np.full(shape, self.squared_weight), above, total, square)


@dataclass(frozen=True)
class PairMomentsQuestion:
    """Ask a block of rows for its :class:`PairMoments`.

    ``floor``: values above it are taken for what they are; ``lowest``: values below it are out of place. One number per
    column each. ``shapes``: whether to look at the columns' shapes as well, for whoever may doubt them.
    """

    floor: tuple[float, ...]
    lowest: tuple[float, ...]
    shapes: bool = True

    @classmethod
    def under(cls, assumptions: Assumptions, shapes: bool = True) -> Self:
        return cls(assumptions.censoring, assumptions.lowest, shapes)

    def __call__(self, block: Block) -> PairMoments:
        sums = _Sums(len(block.values), np.array(self.floor), np.array(self.lowest), self.shapes)
        for tile in tiles(block):
            sums.add(tile)
        return sums.record()


class _Sums:
    """Running sums of a block, tile by tile; nothing here grows with the rows."""

    def __init__(self, n_rows: int, floor: FloatArray, lowest: FloatArray, shapes: bool) -> None:
        d = len(floor)
        self._wants_shapes = shapes
        self._n_rows, self._floor, self._lowest = n_rows, floor, lowest
        self._levels: tuple[FloatArray, FloatArray] | None = None
        self._origin = floor
        self._count, self._cross, self._powers = np.zeros((d, d)), np.zeros((d, d)), np.zeros((2 * d, d))
        self._weight = self._squared_weight = 0.0
        self._observed: ObservedMoments | None = None
        self._screening: Screening | None = None
        self._scratch: tuple[FloatArray, FloatArray, NDArray[np.uint64]] | None = None
        self._shapes: ShapeSums | None = None

    def add(self, tile: Block) -> None:
        values, weights = tile.values, tile.weights
        n, d = values.shape
        if self._levels is None:
            self._levels = seen_above(self._floor, values), least_allowed(self._lowest, values)
        floor, lowest = self._levels
        seen_first = survey(tile, lowest)
        if self._screening is None or self._scratch is None:
            # Any origin near the bulk of the data does: it only has to keep the sums from cancelling.
            self._origin, self._screening = _mean_above(values, floor, weights), seen_first.screening
            self._scratch = np.empty((n, 2 * d)), np.empty((n, d)), np.empty(((n + 63) // 64, d), dtype=np.uint64)
            self._shapes = ShapeSums(tile, floor, self._origin) if self._wants_shapes else None
        else:
            self._screening = self._screening.merge(seen_first.screening)
        powers, above, words = self._scratch[0][:n], self._scratch[1][:n], self._scratch[2]
        centre_block(values, floor, self._origin, powers, above)
        if seen_first.any_missing and self._observed is None:
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
        if self._shapes is not None:
            self._shapes.add(tile)
        if self._observed is not None:
            self._add_observed(~np.isnan(values), weights, powers, above)

    def _add_observed(
        self, observed: BoolArray, weights: FloatArray | None, powers: FloatArray, above: FloatArray
    ) -> None:
        assert self._observed is not None
        o, d = self._observed, observed.shape[1]
        seen = observed.astype(np.float64)
        weighted = seen if weights is None else weights[:, None] * seen
        sums = powers.T @ weighted
        self._observed = ObservedMoments(
            o.count + seen.T @ weighted,
            o.squared_weight + weighted.T @ weighted,
            o.above + above.T @ weighted,
            o.total + sums[:d],
            o.square + sums[d:],
        )

    def record(self) -> PairMoments:
        assert self._screening is not None, "a block has at least one row"
        d = len(self._floor)
        return PairMoments(
            floor=self._floor,
            n_rows=self._n_rows,
            weight=self._weight,
            squared_weight=self._squared_weight,
            origin=self._origin,
            count=self._count,
            cross=self._cross,
            masked_sum=self._powers[:d],
            masked_square=self._powers[d:],
            observed=self._observed,
            screening=self._screening,
            shapes=None if self._shapes is None else self._shapes.record(),
        )


def _mean_above(values: NDArray[np.floating[Any]], floor: FloatArray, weights: FloatArray | None) -> FloatArray:
    """The (weighted) mean of what lies above the floor, the floor where nothing does."""
    seen = (values > floor) & (values <= np.float64(LARGEST))
    w = seen if weights is None else seen * weights[:, None]
    total = w.sum(axis=0, dtype=np.float64)
    sums = np.einsum("ij,ij->j", w.astype(np.float64), np.where(seen, values, 0.0))
    nothing = np.where(np.isfinite(floor), floor, 0.0)
    return np.asarray(np.divide(sums, total, out=nothing, where=total > 0.0))
