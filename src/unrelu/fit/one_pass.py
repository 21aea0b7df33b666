"""One pass on one screen: every column, every pair, one semidefinite covariance.

A Gaussian y ~ N(b, S) cut off at a floor is learned in three steps (Wu et al. 2019 and Bulusu et al. 2022,
Algorithm 1): mean and standard deviation of every coordinate by itself, the angle of every pair, and one
semidefinite matrix from both.

Latent correlations are learned by optimally weighted moments: twelve statistics a pair, weighted by the inverse of
their covariance. They keep .95 to 1.00 of the pair's Fisher information in r, at a cost that does not depend on the
number of rows; the mathematics is in :mod:`unrelu.kernels.pair_solver`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from unrelu.contracts import (
    Assumptions,
    ColumnCounts,
    FloatArray,
    LearningReport,
    NearestCovariance,
    PairCorrelations,
    RowParameters,
)
from unrelu.fit.columns import fit_columns, limited_columns
from unrelu.fit.nearest import nearest_covariance
from unrelu.fit.shrinkage import scoring_correlation
from unrelu.kernels.pair_solver import (
    LARGEST_A,
    Columns,
    moments_of_columns,
    pairs_between,
    sample_statistics,
    solve_pairs,
)
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import blas_threads_for, map_in_threads
from unrelu.passes.pair_moments import PairMoments
from unrelu.validation import column_label, listed, warn

Names = tuple[str, ...] | None

_PAIRS_PER_TASK = 4096  # large enough to hide the call, small enough to share evenly and to stay in cache
_WORTH_A_DEVICE = 100  # columns: fewer pairs are solved here before a device has begun


@dataclass(frozen=True, eq=False)
class Stages:
    """A learned model with the stages that led to it."""

    distribution: RectifiedGaussian
    rows: RowParameters
    pairs: PairCorrelations
    nearest: NearestCovariance


@dataclass(frozen=True, eq=False)
class Learned(Stages):
    """The same with a report, which is what a user reads first."""

    report: LearningReport

    @classmethod
    def of(
        cls, stages: Stages, report: LearningReport, rank: int | None, weight: float, place: Any = None, **more: Any
    ) -> Self:
        """With a covariance that can be inverted, where the model's own cannot; the report says so. Errors are taken as
        of ``weight`` rows, so that weights and repeated rows give the same scores. ``more``: the fields that a subclass
        adds."""
        model, varying = stages.distribution, np.flatnonzero(stages.rows.std > 0.0)
        if len(varying) > 0:
            # All of thousands of columns are not copied.
            square: Any = np.ix_(varying, varying) if len(varying) < model.n_features else np.s_[:]
            n = max(weight, report.effective_rows)
            stderr = stages.pairs.stderr[square] * np.sqrt(report.effective_rows / n)
            pairs = PairCorrelations(stages.pairs.correlation[square], stderr)
            with blas_threads_for(len(varying)):
                correlation, shrinkage = scoring_correlation(pairs, model.correlation[square], n, rank, place)
            report = replace(report, shrinkage=shrinkage)
            if shrinkage.amount > 0.0:
                covariance, std = np.zeros_like(model.covariance), stages.rows.std[varying]
                covariance[square] = correlation * np.outer(std, std)
                given = (model.mean, model.covariance, model.floor, model.feature_names, model.ceiling)
                model = RectifiedGaussian(*given, covariance)
        return cls(model, stages.rows, stages.pairs, stages.nearest, report, **more)


def learn_record(record: PairMoments, assumptions: Assumptions, names: Names = None, place: Any = None) -> Stages:
    """The one-pass fit to a record, with its warnings; ``place``: a device to use."""
    rows = fit_columns(record, assumptions, names)
    pairs = fit_pairs(record, rows, place=place)
    covariance, nearest = nearest_covariance(rows.std, pairs, assumptions.n_components, place)
    distribution = RectifiedGaussian(rows.mean, covariance, assumptions.floor, names)
    if pairs.perfect_pairs:
        shown = listed(
            f"{column_label(i, names)} and {column_label(j, names)} ({pairs.correlation[i, j]:+.0f})"
            for i, j in pairs.perfect_pairs
        )
        warn(
            f"Exact linear images of each other: {shown}. Their latent correlation is +1 or -1 and the covariance is"
            " singular; drop one column of each pair if that is not meant.",
            "perfect-correlation",
        )
    if record.n_features > record.n_rows:
        warn(
            f"{record.n_features:,} columns but only {record.n_rows:,} rows: pairs are learned one by one and then"
            " made semidefinite; consider n_components= to learn a factor model.",
            "more-columns-than-rows",
        )
    return Stages(distribution, rows, pairs, nearest)


def fit_record(
    record: PairMoments, assumptions: Assumptions, names: Names = None, near: PairCorrelations | None = None
) -> tuple[RowParameters, PairCorrelations]:
    """The first two steps of that fit: marginals, and correlations that may not fit together. Correlations ``near``
    those of the record save time where their standard errors are not wanted."""
    rows = fit_columns(record, assumptions, names)
    return rows, fit_pairs(record, rows, None if near is None else near.correlation)


def fit_pairs(
    record: PairMoments, rows: RowParameters, near: FloatArray | None = None, place: Any = None
) -> PairCorrelations:
    """All pairs; ``near`` are correlations to start from, when standard errors are not wanted (they are NaN).
    ``place``: a device to use."""
    d = record.n_features
    if place is not None and d >= _WORTH_A_DEVICE and record.limits is None:
        from unrelu.fit.pairs_on_device import solve_all  # only here, for the sake of a fast start

        return solve_all(record, rows, place, near)
    constant, limited = rows.std == 0.0, limited_columns(record)
    correlation, stderr = np.eye(d), np.zeros((d, d)) if near is None else np.full((d, d), np.nan)
    stderr[constant] = stderr[:, constant] = np.nan
    varying = np.flatnonzero(~constant)
    std = np.where(constant, 1.0, rows.std)
    a = np.minimum(np.where(constant, 0.0, (rows.mean - rows.floor) / std), LARGEST_A)
    centre = np.maximum(rows.floor, rows.mean) - record.origin
    o = record.observed
    sums = record.flat_sums()
    columns = Columns(a, moments_of_columns(a), rows.influence, record.column_rows)

    def solve(start: int) -> list[tuple[int, int]]:
        i, j = (varying[k] for k in pairs_between(start, start + _PAIRS_PER_TASK, len(varying)))
        if limited.any():
            from unrelu.fit.limit_likelihood import solve_limited_pairs  # most tables do without

            several = limited[i] | limited[j]
            at = i[several], j[several]
            correlation[at], stderr[at] = solve_limited_pairs(at, record, rows, near)
            correlation[at[::-1]], stderr[at[::-1]] = correlation[at], stderr[at]
            i, j = i[~several], j[~several]
        if o is None:
            weight, seen_by = np.full(len(i), record.weight), np.full(len(i), record.effective_rows)
        else:
            weight, squared = o.count[i, j], o.squared_weight[i, j]
            seen_by = np.divide(weight**2, squared, out=np.zeros_like(weight), where=squared > 0.0)
        statistics = np.stack(sample_statistics(np, (i, j), sums, [centre, std], weight), axis=1)
        r, se = (np.empty(len(i)), np.empty(len(i))) if near is None else (near[i, j], np.empty(0))
        solve_pairs((i, j), statistics, weight, seen_by, columns, r, se)
        correlation[i, j] = correlation[j, i] = r
        stderr[i, j] = stderr[j, i] = se if near is None else np.nan
        perfect = np.abs(r) == 1.0
        return list(zip(i[perfect].tolist(), j[perfect].tolist(), strict=True))

    n_pairs = len(varying) * (len(varying) - 1) // 2
    perfect = [pair for some in map_in_threads(solve, range(0, n_pairs, _PAIRS_PER_TASK)) for pair in some]
    return PairCorrelations(correlation, stderr, tuple(perfect))


def counts_of(record: PairMoments) -> ColumnCounts:
    """The cells of the rows that a record is of, by weight."""
    return ColumnCounts(record.weight, record.column_weight, record.count.diagonal(), record.count == 0.0)
