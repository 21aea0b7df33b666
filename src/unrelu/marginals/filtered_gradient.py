"""Bias and norm by gradient descent on filtered batch means: Bulusu et al. 2022, Algorithm 2 and equations (4) to (10).

The values above the floor are split at random into n_b batches; each gives the mean of (x^2/2, -x) (7). A filter over
the batches stands for the expectation under the genuine rows (8); the other half of the gradient is known in closed
form (5), (6). No rescaling, as the paper says. The stochastic version filters a few randomly chosen batches at every
step; the paper says only that it uses less data a step, so their number (``drawn``) is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import Assumptions, Evidence, FloatArray, RowParameters
from unrelu.engines.local import map_in_threads
from unrelu.kernels.truncated_gradient import closed_descent
from unrelu.marginals.columns import checked_tally, require_positives, without_errors
from unrelu.marginals.filters import Filter, Median
from unrelu.statistics.batch_means import BatchMeansQuestion
from unrelu.validation import check_count, check_positive

_VALUES_PER_BATCH = 10  # where the number of batches is not given: the paper does not say


@dataclass(frozen=True)
class FilteredGradientDescent:
    """ProjGD of Bulusu et al. 2022. ``step`` 0.1 is gamma_t = 1/(0.1 t); ``steps`` None is T = positives/100."""

    assumptions: Assumptions
    filter: Filter = Median()  # noqa: RUF009 - frozen
    stochastic: bool = False
    batches: int | None = None
    steps: int | None = None
    radius: float = 3.0
    step: float = 0.1
    drawn: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("radius", self.radius, least=1.0)
        check_positive("step", self.step)
        check_count("drawn", self.drawn)
        for name in ("batches", "steps"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    def estimate(self, evidence: Evidence) -> RowParameters:
        tally = checked_tally(evidence, self.assumptions)
        fitted = tally.variance > 0.0
        floor = np.array(self.assumptions.censoring)
        if self.batches is None:
            batches = np.maximum(tally.above // _VALUES_PER_BATCH, 1)
        else:
            require_positives(tally, fitted, self.batches, evidence.feature_names)
            batches = np.full_like(tally.above, self.batches)
        question = BatchMeansQuestion(floor, floor, np.ones_like(floor), tally, batches, scattered=True, seed=self.seed)
        sums = evidence.collect(question).sums

        def descend(column: int) -> FloatArray:
            v = np.array([1.0, 0.0])
            if fitted[column]:
                count, total, half_square = sums[column, : batches[column]].T
                steps = max(int(tally.above[column]) // 100, 1) if self.steps is None else self.steps
                vectors = np.stack([half_square / count, -total / count], axis=1)
                closed_descent(self._filtered(vectors, steps, column), steps, self.step, self.radius, v)
            return v

        v = np.array(map_in_threads(descend, range(len(floor)))).reshape(-1, 2)
        bias = np.where(fitted, floor + v[:, 1] / v[:, 0], tally.mean)
        scale = np.where(fitted, 1.0 / np.sqrt(v[:, 0]), 0.0)
        return without_errors(np.maximum(bias, self.assumptions.floor), scale, floor)

    def _filtered(self, vectors: FloatArray, steps: int, column: int) -> FloatArray:
        """The data's half of the gradient: one row for all steps, or one a step."""
        if not self.stochastic:
            return self.filter(vectors)[None, :]
        rng = np.random.default_rng([self.seed, column])
        return self.filter(vectors[rng.integers(0, len(vectors), size=(steps, self.drawn))])
