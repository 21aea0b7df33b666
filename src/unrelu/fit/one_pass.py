"""The whole method on one screen.

A Gaussian y ~ N(b, S) cut off at a floor is learned in three steps (Wu et al. 2019 and Bulusu et al. 2022,
Algorithm 1): bias and norm of every coordinate by itself, the angle of every pair, and one semidefinite matrix from
both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from unrelu.contracts import Assembly, Assumptions, Census, LearningReport, PairCorrelations, RowParameters
from unrelu.errors import MoreColumnsThanRowsWarning, PerfectCorrelationWarning
from unrelu.fit.columns import fit_columns
from unrelu.fit.nearest import assemble
from unrelu.fit.pairs import fit_pairs
from unrelu.fit.shrinkage import scoring_correlation
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import blas_threads_for
from unrelu.passes.pair_moments import PairMoments
from unrelu.validation import column_label, listed, warn

Names = tuple[str, ...] | None
Report = TypeVar("Report", bound=LearningReport)


@dataclass(frozen=True, eq=False)
class Stages:
    """A learned model with the stages that led to it."""

    distribution: RectifiedGaussian
    rows: RowParameters
    pairs: PairCorrelations
    assembly: Assembly


@dataclass(frozen=True, eq=False)
class Learned(Stages):
    """The same with a report, which is what a user reads first."""

    report: LearningReport

    @classmethod
    def of(cls, stages: Stages, report: LearningReport, rank: int | None, weight: float, place: Any = None) -> Self:
        """With correlations that rows, of so much weight in all, can be scored by."""
        model, told = with_inverse(stages, report, rank, weight, place)
        return cls(model, stages.rows, stages.pairs, stages.assembly, told)


def learn_record(record: PairMoments, assumptions: Assumptions, names: Names = None, place: Any = None) -> Stages:
    """The one-pass fit to a record, with warnings of what is doubtful in it; ``place``: a device to use."""
    rows, pairs = fit_record(record, assumptions, names, place=place)
    covariance, assembly = assemble(rows.scale, pairs, assumptions.n_components, place)
    distribution = RectifiedGaussian(rows.bias, covariance, assumptions.floor, names)
    if pairs.perfect_pairs:
        shown = listed(
            f"{column_label(i, names)} and {column_label(j, names)} ({pairs.correlation[i, j]:+.0f})"
            for i, j in pairs.perfect_pairs
        )
        warn(
            f"Exact linear images of each other: {shown}. Their latent correlation is +1 or -1 and the covariance is"
            " singular; drop one column of each pair if that is not meant.",
            PerfectCorrelationWarning,
        )
    if record.n_features > record.n_rows:
        warn(
            f"{record.n_features:,} columns but only {record.n_rows:,} rows: pairs are learned one by one and then"
            " made semidefinite; consider n_components= to learn a factor model.",
            MoreColumnsThanRowsWarning,
        )
    return Stages(distribution, rows, pairs, assembly)


def fit_record(
    record: PairMoments,
    assumptions: Assumptions,
    names: Names = None,
    near: PairCorrelations | None = None,
    place: Any = None,
) -> tuple[RowParameters, PairCorrelations]:
    """The first two steps of that fit: marginals, and correlations that may not fit together. Correlations ``near``
    those of the record save time where their standard errors are not wanted."""
    rows = fit_columns(record, assumptions, names)
    return rows, fit_pairs(record, rows, None if near is None else near.correlation, place)


def with_inverse(
    stages: Stages, report: Report, rank: int | None, weight: float, place: Any = None
) -> tuple[RectifiedGaussian, Report]:
    """The model with a covariance that can be inverted, where its own cannot be trusted; the report says so. Errors are
    taken as of ``weight`` rows, so that weights and repeated rows give the same scores."""
    model, at = stages.distribution, np.flatnonzero(stages.rows.scale > 0.0)
    if len(at) == 0:
        return model, report
    square: Any = np.ix_(at, at) if len(at) < model.n_features else np.s_[:]  # all of thousands: not copied
    n = max(weight, report.effective_rows)
    stderr = stages.pairs.stderr[square] * np.sqrt(report.effective_rows / n)
    pairs = PairCorrelations(stages.pairs.correlation[square], stderr)
    with blas_threads_for(len(at)):
        correlation, shrinkage = scoring_correlation(pairs, model.correlation[square], n, rank, place)
    told = replace(report, shrinkage=shrinkage)
    if shrinkage.amount == 0.0:
        return model, told
    covariance = np.zeros_like(model.covariance)
    covariance[square] = correlation * np.outer(stages.rows.scale[at], stages.rows.scale[at])
    given = (model.bias, model.covariance, model.floor, model.feature_names, model.ceiling)
    return RectifiedGaussian(*given, covariance), told


def census_of(record: PairMoments) -> Census:
    """The cells of the rows that a record is of, by weight."""
    return Census(record.weight, record.column_weight, record.count.diagonal(), record.count == 0.0)
