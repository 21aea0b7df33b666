"""Bias and norm from the values above the floor alone, by stochastic gradients: Wu et al. 2019, Algorithms 2 and 3.

The values above the floor of a column with b >= floor follow a normal truncated at the floor, of which at least half is
seen. Shifted and rescaled by their own mean and deviation (7), they are fitted in v = (1/sigma^2, mu/sigma^2) by
projected stochastic gradients (6) on the domain D_r (8); the iterates are averaged, and the result is transformed back.
With B batches, Algorithm 2 keeps the one nearest to all others (step 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import Assumptions, Evidence, FloatArray, RowParameters
from unrelu.engines.local import map_in_threads
from unrelu.kernels.truncated_gradient import sampled_descent
from unrelu.marginals.columns import checked_tally, require_positives, without_errors
from unrelu.statistics.batch_means import BatchMeansQuestion
from unrelu.validation import check_count, check_positive


@dataclass(frozen=True)
class TruncatedLikelihoodSGD:
    """Wu et al. 2019's NormBiasEst: ``step`` is lambda, ``radius`` is r, ``batches`` is B.

    ``minibatch`` values make a step, 10 in the authors' code. (6) draws one z a value, which doubles the variance of
    the truncated likelihood; ``draws`` takes the mean of several.
    """

    assumptions: Assumptions
    radius: float = 3.0
    step: float = 0.1
    batches: int = 1
    minibatch: int = 10
    draws: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("radius", self.radius, least=1.0)
        check_positive("step", self.step)
        check_count("batches", self.batches)
        check_count("minibatch", self.minibatch)
        check_count("draws", self.draws)

    def estimate(self, evidence: Evidence) -> RowParameters:
        tally = checked_tally(evidence, self.assumptions)
        fitted = tally.variance > 0.0
        require_positives(tally, fitted, self.batches, evidence.feature_names)
        mean, deviation = tally.mean, np.sqrt(np.where(fitted, tally.variance, 1.0))
        floor = np.array(self.assumptions.censoring)
        minibatches = np.maximum(tally.above // self.minibatch, self.batches)
        question = BatchMeansQuestion(floor, mean, deviation, tally, minibatches)
        sums = evidence.collect(question).sums
        low = (floor - mean) / deviation

        def norm_bias(column: int) -> FloatArray:
            return self._select(sums[column, : minibatches[column]], low[column], column)

        v = np.array(map_in_threads(norm_bias, range(len(mean)))).reshape(-1, 2)
        bias = np.where(fitted, mean + deviation * v[:, 1] / v[:, 0], mean)
        scale = np.where(fitted, deviation / np.sqrt(v[:, 0]), 0.0)
        return without_errors(np.maximum(bias, self.assumptions.floor), scale, floor)

    def _select(self, sums: FloatArray, low: float, column: int) -> FloatArray:
        """Algorithm 2, steps 2 to 5: one run a batch, and the run with the least sum of distances to all."""
        runs = np.empty((self.batches, 2))
        for run, part in enumerate(np.array_split(sums, self.batches)):
            rng = np.random.default_rng([self.seed, column, run])
            sampled_descent(np.ascontiguousarray(part), low, self.step, self.radius, self.draws, rng, runs[run])
        distances = np.linalg.norm(runs[:, None, :] - runs[None, :, :], axis=2).sum(axis=1)
        return np.asarray(runs[np.argmin(distances)])
