"""The whole method on one screen.

A Gaussian y ~ N(b, S) cut off at a floor is learned in three steps (papers 000 and 001, Algorithm 1): bias and
norm of every coordinate by itself, the angle of every pair, and one semidefinite matrix from both.
"""

from __future__ import annotations

from dataclasses import dataclass

from unrelu.contracts import (
    Assembly,
    Assumptions,
    CorrelationEstimator,
    Evidence,
    LearningReport,
    MarginalEstimator,
    PairCorrelations,
    RowParameters,
)
from unrelu.covariance import assemble
from unrelu.distribution import RectifiedGaussian


@dataclass(frozen=True, eq=False)
class Learned:
    """A learned model with its stages; ``report`` is what a user reads first."""

    distribution: RectifiedGaussian
    rows: RowParameters
    pairs: PairCorrelations
    report: LearningReport


def learn(
    evidence: Evidence,
    assumptions: Assumptions,
    marginals: MarginalEstimator,
    correlations: CorrelationEstimator,
) -> tuple[RectifiedGaussian, RowParameters, PairCorrelations, Assembly]:
    """Learn a rectified Gaussian: marginals, then correlations given them, then the covariance."""
    rows = marginals.estimate(evidence)
    pairs = correlations.estimate(evidence, rows)
    covariance, assembly = assemble(rows.scale, pairs, assumptions.n_components)
    distribution = RectifiedGaussian(rows.bias, covariance, assumptions.floor, evidence.feature_names)
    return distribution, rows, pairs, assembly
