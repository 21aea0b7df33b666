"""Optimally weighted moments: twelve statistics a pair, weighted by the inverse of their covariance.

Keeps .95 to 1.00 of the pair's Fisher information in r, at a cost that does not depend on the number of rows;
the mathematics is in :mod:`unrelu.kernels.pair_model` and :mod:`unrelu.kernels.pair_solver`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Evidence, FloatArray, PairCorrelations, RowParameters
from unrelu.kernels.pair_model import LARGEST_A, moments_of_columns
from unrelu.kernels.pair_solver import Columns, solve_pairs
from unrelu.passes.engine import map_in_threads
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion

_PAIRS_PER_TASK = 4096  # large enough to hide the call, small enough to share evenly and to stay in cache
_WORTH_A_DEVICE = 100  # columns: fewer pairs are solved here before a device has begun


@dataclass(frozen=True)
class WeightedMoments:
    """The default correlation estimator."""

    assumptions: Assumptions

    def estimate(self, evidence: Evidence, rows: RowParameters, near: FloatArray | None = None) -> PairCorrelations:
        """All pairs; ``near`` are correlations to start from, when standard errors are not wanted (they are NaN)."""
        record = evidence.collect(PairMomentsQuestion.under(self.assumptions))
        d = record.n_features
        place = evidence.place
        if place is not None and d >= _WORTH_A_DEVICE:
            from unrelu.fit.correlations.pairs_at_once import solve_all  # only here, for the sake of a fast start

            return solve_all(record, rows, place, near)
        correlation, stderr = np.eye(d), np.zeros((d, d)) if near is None else np.full((d, d), np.nan)
        varying = np.flatnonzero(rows.scale > 0.0)
        stderr[rows.scale == 0.0] = stderr[:, rows.scale == 0.0] = np.nan
        solver = _PairSolver.of(record, rows)

        def solve(start: int) -> list[tuple[int, int]]:
            i, j = (varying[k] for k in pairs_between(start, start + _PAIRS_PER_TASK, len(varying)))
            r, se = solver.solve(i, j, None if near is None else near[i, j])
            correlation[i, j] = correlation[j, i] = r
            stderr[i, j] = stderr[j, i] = se
            perfect = np.abs(r) == 1.0
            return list(zip(i[perfect].tolist(), j[perfect].tolist(), strict=True))

        n_pairs = len(varying) * (len(varying) - 1) // 2
        perfect = map_in_threads(solve, range(0, n_pairs, _PAIRS_PER_TASK))
        return PairCorrelations(correlation, stderr, tuple(chain.from_iterable(perfect)))


def pairs_between(start: int, stop: int, d: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Some of the pairs of ``np.triu_indices(d, 1)``: all of them would take more memory than their correlations.

    >>> pairs_between(1, 4, 4)
    (array([0, 0, 1]), array([2, 3, 2]))
    """
    before = np.arange(d) * (2 * d - 1 - np.arange(d)) // 2  # pairs whose first column is an earlier one
    bounds = np.clip(before, start, min(stop, d * (d - 1) // 2))
    first = np.repeat(np.arange(d - 1), np.diff(bounds))
    return first, np.arange(bounds[0], bounds[-1]) - before[first] + first + 1


@dataclass(frozen=True, eq=False)
class _PairSolver:
    """A record, and what its columns look like to the kernels; ``centre`` is measured from the record's origin."""

    record: PairMoments
    centre: FloatArray
    scale: FloatArray
    columns: Columns

    @classmethod
    def of(cls, record: PairMoments, rows: RowParameters) -> _PairSolver:
        safe_scale = np.where(rows.scale > 0.0, rows.scale, 1.0)
        a = np.where(rows.scale > 0.0, (rows.bias - rows.floor) / safe_scale, 0.0)
        a = np.minimum(a, LARGEST_A)
        columns = Columns(a, moments_of_columns(a), rows.influence, record.column_rows)
        return cls(record, np.maximum(rows.floor, rows.bias) - record.origin, safe_scale, columns)

    def solve(
        self, i: NDArray[Any], j: NDArray[Any], near: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | float]:
        """Correlations and standard errors of the pairs (i, j); with starts ``near`` them, no errors."""
        record, o = self.record, self.record.observed
        if o is None:
            weight, rows = np.full(len(i), record.weight), np.full(len(i), record.effective_rows)
        else:
            weight, squared = o.count[i, j], o.squared_weight[i, j]
            rows = np.divide(weight**2, squared, out=np.zeros_like(weight), where=squared > 0.0)
        r, se = (np.empty(len(i)), np.empty(len(i))) if near is None else (near.copy(), np.empty(0))
        solve_pairs((i, j), self._statistics(i, j, weight), weight, rows, self.columns, r, se)
        return r, se if near is None else np.nan

    def _statistics(self, i: NDArray[Any], j: NDArray[Any], weight: FloatArray) -> FloatArray:
        """pairs x 12: means of (p, v, v^2) of each column and of the six joint products, v = (t - centre)/scale above
        the floor, over the rows of ``weight`` that see both columns; 0 where there are none.
        """
        record, o = self.record, self.record.observed
        n = np.where(weight > 0.0, weight, np.inf)
        out = np.empty((len(i), 12))
        both = record.count[i, j]
        for side, (own, other) in enumerate(((i, j), (j, i))):
            c, s = self.centre[own], self.scale[own]
            # Of the column over the rows that see the other: where nothing is missing, the diagonals.
            alone = (
                (record.count[own, own], record.masked_sum[own, own], record.masked_square[own, own])
                if o is None
                else (o.above[own, other], o.total[own, other], o.square[own, other])
            )
            joint = both, record.masked_sum[own, other], record.masked_square[own, other]
            for (s0, s1, s2), at in (
                (alone, (3 * side, 3 * side + 1, 3 * side + 2)),
                (joint, (6, 8 + side, 10 + side)),
            ):
                out[:, at[0]] = s0 / n
                out[:, at[1]] = (s1 - c * s0) / (s * n)
                out[:, at[2]] = (s2 - 2.0 * c * s1 + c * c * s0) / (s * s * n)
        c1, c2 = self.centre[i], self.centre[j]
        product = record.cross[i, j] - c1 * record.masked_sum[j, i] - c2 * record.masked_sum[i, j] + c1 * c2 * both
        out[:, 7] = product / (self.scale[i] * self.scale[j] * n)
        return out
