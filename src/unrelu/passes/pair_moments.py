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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.passes.column_groups import Columns
from unrelu.passes.column_shapes import ColumnShapes
from unrelu.passes.local import joined_in_threads, one_blas_thread
from unrelu.passes.pair_sums import Frame, PairSums, SparseSums, runs, sparse_runs, tile_height
from unrelu.passes.rows import SparseBlock
from unrelu.passes.screening import Screening
from unrelu.passes.tiles import tiles

_BYTES_A_PAIR = 300  # while two records merge, where cells are missing; 145 where none is
P = TypeVar("P")


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

    @classmethod
    def of_sums(cls, floor: FloatArray, n_rows: int, frame: Frame, sums: PairSums) -> Self:
        """From finished sums over so many rows."""
        observed = None
        if sums.observed is not None:
            (count,), (squared_weight,), (total, square, above) = sums.observed
            observed = ObservedMoments(count, squared_weight, above, total, square)
        return cls(
            floor=floor,
            n_rows=n_rows,
            weight=sums.weight,
            squared_weight=sums.squared_weight,
            origin=frame.origin,
            count=sums.count[0],
            cross=sums.cross[0],
            masked_sum=sums.powers[0],
            masked_square=sums.powers[1],
            observed=observed,
            screening=sums.screening,
            shapes=None if sums.shapes is None else sums.shapes.record(),
        )

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

    def rounded(self, least: int) -> Self:
        """The record for others to see: counts below ``least`` are 0, and so are the sums over those rows.

        A sum over one row is that row's value. What tells of columns' shapes is left out: it has extreme values.
        """
        own = self._about(self.positive_moments()[1])
        rare, observed = own.count < least, own.observed
        if observed is not None:
            few = observed.count < least
            rare, scarce = rare | few, few | (observed.above < least)
            observed = ObservedMoments(
                np.where(few, 0.0, observed.count),
                np.where(few, 0.0, observed.squared_weight),
                *(np.where(scarce, 0.0, sums) for sums in (observed.above, observed.total, observed.square)),
            )
        sums = (own.count, own.cross, own.masked_sum, own.masked_square)
        count, cross, masked_sum, masked_square = (np.where(rare, 0.0, each) for each in sums)
        return replace(
            own,
            origin=np.where(rare.diagonal(), 0.0, own.origin),
            count=count,
            cross=cross,
            masked_sum=masked_sum,
            masked_square=masked_square,
            observed=observed,
            shapes=None,
        )

    def of_columns(self, at: NDArray[np.int64]) -> Self:
        """The record of some of the columns."""
        square, o = np.ix_(at, at), self.observed
        matrices = ("count", "cross", "masked_sum", "masked_square")
        return replace(
            self,
            floor=self.floor[at],
            origin=self.origin[at],
            **{name: getattr(self, name)[square] for name in matrices},
            observed=None if o is None else replace(o, **{name: each[square] for name, each in vars(o).items()}),
            screening=_columns_of(self.screening, at),
            shapes=None if self.shapes is None else _columns_of(self.shapes, at),
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


def _columns_of(part: P, at: NDArray[np.int64]) -> P:
    """Of a record whose arrays all end with the columns."""
    return replace(part, **{name: each[..., at] for name, each in vars(part).items()})  # type: ignore[type-var]


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

    def of_columns(self, columns: Columns) -> Self:
        floor, lowest = (tuple(levels[j] for j in columns) for levels in (self.floor, self.lowest))
        return replace(self, floor=floor, lowest=lowest)

    def put_together(self, groups: Iterable[tuple[Columns, PairMoments]]) -> PairMoments:
        return joined_columns(groups, len(self.floor))

    def bytes_held(self, n_features: int) -> int:
        return _BYTES_A_PAIR * n_features**2

    def __call__(self, block: Block) -> PairMoments:
        floor, lowest = np.array(self.floor), np.array(self.lowest)
        with one_blas_thread():
            if isinstance(block, SparseBlock) and block.matrix is not None and SparseSums.can_add(block, floor, lowest):
                n, (frame, sums) = block.matrix.shape[0], self._sparse(block)
            else:
                n, (frame, sums) = len(block.values), self._dense(block)
        return PairMoments.of_sums(floor, n, frame, sums)

    def _dense(self, block: Block) -> tuple[Frame, PairSums]:
        n, d = block.values.shape
        height = tile_height(d)
        frame = self._frame(next(tiles(block, height)))

        def summed(rows: slice) -> PairSums:
            return frame.summed(lambda: tiles(block, height, rows))

        return frame, joined_in_threads(summed, runs(n, d), PairSums.join).finished()

    def _sparse(self, block: SparseBlock) -> tuple[Frame, PairSums]:
        first = slice(0, tile_height(block.matrix.shape[1]))
        weights = None if block.weights is None else block.weights[first]
        frame = self._frame(Block(block.matrix[first].toarray().astype(np.float64), block.first_row, weights))

        def summed(part: SparseBlock) -> SparseSums:
            sums = SparseSums(frame)
            sums.add(part)
            return sums

        return frame, joined_in_threads(summed, sparse_runs(block), SparseSums.join).finished()

    def _frame(self, first: Block) -> Frame:
        return Frame(first, np.array(self.floor), np.array(self.lowest), self.shapes)


def joined_columns(groups: Iterable[tuple[Columns, PairMoments]], d: int) -> PairMoments:
    """The record of all d columns, from those of groups of them that have every two columns together in one."""
    sums: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    floor, origin, incomplete = np.empty(d), np.full(d, np.nan), np.zeros((d, d), dtype=np.bool_)
    by_column: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for columns, record in groups:
        known = origin[columns]
        own = record._about(np.where(np.isnan(known), record.origin, known))
        floor[columns], origin[columns] = own.floor, own.origin
        four = {name: getattr(own, name) for name in ("count", "cross", "masked_sum", "masked_square")}
        _put(sums, four, columns, d, 2)
        if own.observed is not None:
            incomplete[np.ix_(columns, columns)] = True
            _put(seen, vars(own.observed), columns, d, 2)
        for into, part in zip(by_column, (own.screening, own.shapes), strict=True):
            _put(into, {} if part is None else vars(part), columns, d, 1)
    shapes = ColumnShapes(**by_column[1]) if by_column[1] else None
    whole = replace(
        own, floor=floor, origin=origin, **sums, observed=None, screening=Screening(**by_column[0]), shapes=shapes
    )
    if not seen:
        return whole
    for name, complete in vars(whole._observed_or_complete()).items():
        np.copyto(seen[name], complete, where=~incomplete)
    return replace(whole, observed=ObservedMoments(**seen))


def _put(into: dict[str, Any], arrays: Mapping[str, Any], columns: Columns, d: int, axes: int) -> None:
    """Put arrays whose last ``axes`` are some columns where these belong among all d."""
    at = (..., columns) if axes == 1 else np.ix_(columns, columns)
    for name, part in arrays.items():
        into.setdefault(name, np.empty(part.shape[:-axes] + (d,) * axes, part.dtype))[at] = part
