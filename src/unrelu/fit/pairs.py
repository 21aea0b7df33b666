"""Latent correlations of all pairs by optimally weighted moments: twelve statistics a pair, weighted by the inverse of
their covariance.

Keeps .95 to 1.00 of the pair's Fisher information in r, at a cost that does not depend on the number of rows;
the mathematics is in :mod:`unrelu.kernels.pair_solver`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrelu.contracts import FloatArray, PairCorrelations, RowParameters
from unrelu.kernels.pair_solver import (
    LARGEST_A,
    Columns,
    moments_of_columns,
    pairs_between,
    sample_statistics,
    solve_pairs,
)
from unrelu.passes.engine import map_in_threads
from unrelu.passes.pair_moments import PairMoments

_PAIRS_PER_TASK = 4096  # large enough to hide the call, small enough to share evenly and to stay in cache
_WORTH_A_DEVICE = 100  # columns: fewer pairs are solved here before a device has begun


def fit_pairs(
    record: PairMoments, rows: RowParameters, near: FloatArray | None = None, place: Any = None
) -> PairCorrelations:
    """All pairs; ``near`` are correlations to start from, when standard errors are not wanted (they are NaN).
    ``place``: a device to use."""
    d = record.n_features
    if place is not None and d >= _WORTH_A_DEVICE:
        from unrelu.fit.pairs_on_device import solve_all  # only here, for the sake of a fast start

        return solve_all(record, rows, place, near)
    constant = rows.scale == 0.0
    correlation, stderr = np.eye(d), np.zeros((d, d)) if near is None else np.full((d, d), np.nan)
    stderr[constant] = stderr[:, constant] = np.nan
    varying = np.flatnonzero(~constant)
    scale = np.where(constant, 1.0, rows.scale)
    a = np.minimum(np.where(constant, 0.0, (rows.bias - rows.floor) / scale), LARGEST_A)
    centre = np.maximum(rows.floor, rows.bias) - record.origin
    o = record.observed
    sums = [record.count, record.cross, record.masked_sum, record.masked_square]
    sums = [each.ravel() for each in (sums if o is None else [*sums, o.above, o.total, o.square])]
    columns = Columns(a, moments_of_columns(a), rows.influence, record.column_rows)

    def solve(start: int) -> list[tuple[int, int]]:
        i, j = (varying[k] for k in pairs_between(start, start + _PAIRS_PER_TASK, len(varying)))
        if o is None:
            weight, seen_by = np.full(len(i), record.weight), np.full(len(i), record.effective_rows)
        else:
            weight, squared = o.count[i, j], o.squared_weight[i, j]
            seen_by = np.divide(weight**2, squared, out=np.zeros_like(weight), where=squared > 0.0)
        statistics = np.stack(sample_statistics(np, (i, j), sums, [centre, scale], weight), axis=1)
        r, se = (np.empty(len(i)), np.empty(len(i))) if near is None else (near[i, j], np.empty(0))
        solve_pairs((i, j), statistics, weight, seen_by, columns, r, se)
        correlation[i, j] = correlation[j, i] = r
        stderr[i, j] = stderr[j, i] = se if near is None else np.nan
        perfect = np.abs(r) == 1.0
        return list(zip(i[perfect].tolist(), j[perfect].tolist(), strict=True))

    n_pairs = len(varying) * (len(varying) - 1) // 2
    perfect = [pair for some in map_in_threads(solve, range(0, n_pairs, _PAIRS_PER_TASK)) for pair in some]
    return PairCorrelations(correlation, stderr, tuple(perfect))
