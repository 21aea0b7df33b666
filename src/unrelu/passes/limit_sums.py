"""Sums over the rows in which a cell is censored at one of its column's limits: tables whose limits differ by cell.

A *limit* is a column and the interval that its censored cells lie in: (-inf, .25] for "<0.25", [100, inf) for ">100",
[1, 2] for a cell between two numbers. Few of them occur in a column, for laboratories, plates and dilutions are few.
With Z = 1{cell censored at the limit} and t = x - origin where a value was seen, 0 elsewhere, the sums are

    powers[a, p] = Z_a' T^p,   p = 0..3        joint = Z' Z

beside those of :mod:`unrelu.passes.pair_moments` over the rows that see both columns. They are what the likelihood of a
pair of columns asks of the rows (:mod:`unrelu.kernels.limit_pairs`); it needs no limit for the cells that were seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.limit_rows import MOST_LIMITS, N_POWERS, add_limit_rows, find_limits
from unrelu.validation import column_label

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LimitSums:
    """Of every limit a column, an interval and the sums; ``total`` is the weight of the cells censored there."""

    column: Annotated[Places, "ints l"]
    lower: Annotated[FloatArray, "unbounded floats l"]
    upper: Annotated[FloatArray, "unbounded floats l"]
    total: Annotated[FloatArray, "floats l"]
    powers: Annotated[FloatArray, "floats l 6 d"]
    joint: Annotated[FloatArray, "floats l l"]

    @classmethod
    def none(cls, d: int) -> Self:
        """Of no rows."""
        ends = np.empty(0)
        return cls(np.empty(0, np.int64), ends, ends, ends, np.empty((0, N_POWERS, d)), np.empty((0, 0)))

    @property
    def intervals(self) -> list[tuple[int, float, float]]:
        return list(zip(self.column.tolist(), self.lower.tolist(), self.upper.tolist(), strict=True))

    def of_rows(self, tile: Block, origin: FloatArray, seen: NDArray[np.bool_]) -> Self:
        """With the rows of a tile added: ``seen`` cells count as their values, those that are marked as censored."""
        assert tile.censoring is not None, "rows without marks have one floor a column"
        marks, values = np.ascontiguousarray(tile.censoring), np.ascontiguousarray(tile.values, dtype=np.float64)
        upper = values if tile.upper is None else np.ascontiguousarray(tile.upper, dtype=np.float64)
        d = values.shape[1]
        ends, counts = np.zeros((d, MOST_LIMITS, 2)), np.zeros(d, np.int64)
        for j, low, high in self.intervals:
            ends[j, counts[j]] = low, high
            counts[j] += 1
        place = np.empty(values.shape, np.int64)
        find_limits(values, upper, marks, ends, counts, place)
        _refuse_many(counts)
        first = np.concatenate([[0], np.cumsum(counts)])
        column = np.repeat(np.arange(d), counts)
        flat = np.concatenate([ends[j, : counts[j]] for j in range(d)])
        grown = self._spread(column, flat[:, 0].copy(), flat[:, 1].copy())
        weights = np.ones(len(values)) if tile.weights is None else np.ascontiguousarray(tile.weights)
        place += np.where(place >= 0, first[:-1], 0)
        lower = np.zeros_like(grown.joint)
        add_limit_rows(values, seen, place, origin, weights, grown.total, grown.powers.reshape(len(column), -1), lower)
        return replace(grown, joint=grown.joint + lower + np.tril(lower, -1).T)

    def _spread(self, column: Places, lower: FloatArray, upper: FloatArray) -> Self:
        """The same sums as copies among these limits, which hold all of this record's."""
        d, n = self.powers.shape[2], len(column)
        among = {key: k for k, key in enumerate(zip(column.tolist(), lower.tolist(), upper.tolist(), strict=True))}
        at = np.array([among[key] for key in self.intervals], dtype=np.int64)
        total, powers, joint = np.zeros(n), np.zeros((n, N_POWERS, d)), np.zeros((n, n))
        total[at], powers[at], joint[np.ix_(at, at)] = self.total, self.powers, self.joint
        return type(self)(column, lower, upper, total, powers, joint)

    def merge(self, other: Self) -> Self:
        """The record of both sets of rows, about the same origin."""
        every = sorted({*self.intervals, *other.intervals})
        counts = np.bincount([j for j, _, _ in every], minlength=1)
        _refuse_many(counts)
        ends = np.array(every, dtype=np.float64).reshape(-1, 3)
        column, lower, upper = ends[:, 0].astype(np.int64), ends[:, 1].copy(), ends[:, 2].copy()
        first, second = self._spread(column, lower, upper), other._spread(column, lower, upper)
        return replace(
            first,
            total=first.total + second.total,
            powers=first.powers + second.powers,
            joint=first.joint + second.joint,
        )

    def moved(self, shift: FloatArray) -> Self:
        """The same sums about another origin: t' = t - shift, of every column."""
        powers = self.powers.copy()
        for first in range(1, N_POWERS):  # the binomial theorem, one factor at a time
            for p in range(N_POWERS - 1, first - 1, -1):
                powers[:, p] -= shift * powers[:, p - 1]
        return replace(self, powers=powers)

    def scaled(self, factor: float) -> Self:
        """The record with every weight multiplied."""
        return replace(self, total=factor * self.total, powers=factor * self.powers, joint=factor * self.joint)

    def rounded(self, least: int) -> Self:
        """The record for others to see: sums over fewer rows than that are 0."""
        few = self.powers[:, :1] < least
        return replace(
            self,
            total=np.where(self.total < least, 0.0, self.total),
            powers=np.where(few, 0.0, self.powers),
            joint=np.where(self.joint < least, 0.0, self.joint),
        )

    def of_columns(self, at: Places) -> Self:
        """The record of some of the columns."""
        place = np.full(self.powers.shape[2], -1)
        place[at] = np.arange(len(at))
        kept = np.flatnonzero(place[self.column] >= 0)
        kept = kept[np.argsort(place[self.column[kept]], kind="stable")]
        return replace(
            self,
            column=place[self.column[kept]],
            lower=self.lower[kept],
            upper=self.upper[kept],
            total=self.total[kept],
            powers=self.powers[kept][:, :, at],
            joint=self.joint[np.ix_(kept, kept)],
        )


def _refuse_many(counts: Places) -> None:
    if counts.max() > MOST_LIMITS:
        raise InvalidDataError(
            f"{column_label(int(counts.argmax()), None)} has more than {MOST_LIMITS} different limits, which one pass"
            " does not keep apart: take method='full_likelihood', or cut the column at its highest limit"
            " (limits='highest')."
        )
