"""Bias and norm by gradient descent on filtered batch means: Bulusu et al. 2022, Algorithm 2 and equations (4) to (10).

The values above the floor are split into n_b batches; each gives the mean of (x^2/2, -x) (7). A filter over the batches
stands for the expectation under the genuine rows (8); the other half of the gradient is known in closed form (5), (6).
No rescaling, as the paper says.

Algorithm 2 makes batches and filters them once, before its loop; section 3 does so "in the t-th iteration"
(``every_step``). The stochastic version takes one value a step, as the paper says twice. A filter needs several to
choose from, and the paper does not say how many: ten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Evidence, FloatArray, RowParameters
from unrelu.engines.local import map_in_threads
from unrelu.errors import InvalidParameterError
from unrelu.kernels.truncated_gradient import closed_descent
from unrelu.marginals.batching import Batching, warn_of_order
from unrelu.marginals.columns import checked_tally, without_errors
from unrelu.marginals.filters import Filter, Median, NoFilter
from unrelu.statistics.batch_means import BatchMeansQuestion
from unrelu.statistics.column_tally import ColumnTally
from unrelu.validation import check_count, check_positive

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Sampling:
    """What a step of the stochastic version sees: ``drawn`` batches, with replacement (None: 1, or 10 to filter)."""

    drawn: int | None = None

    def number(self, filter: Filter) -> int:
        """Of batches a step."""
        unfiltered = isinstance(filter, NoFilter)
        if self.drawn is None:
            return 1 if unfiltered else 10
        check_count("drawn", self.drawn)
        if self.drawn == 1 and not unfiltered:
            raise InvalidParameterError(
                "drawn=1 leaves a filter nothing to choose from: take filter=None, which is the same, or draw more."
            )
        return self.drawn


@dataclass(frozen=True)
class FilteredGradientDescent:
    """ProjGD of Bulusu et al. 2022. ``step`` 0.1 is gamma_t = 1/(0.1 t); ``steps`` None is T = positives/100.

    ``sampling`` makes it stochastic; without it all batches are filtered, once or at ``every_step`` anew.
    """

    assumptions: Assumptions
    filter: Filter = Median()  # noqa: RUF009 - frozen
    batching: Batching = Batching()  # noqa: RUF009 - frozen
    sampling: Sampling | None = None
    every_step: bool = False
    steps: int | None = None
    radius: float = 3.0
    step: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("radius", self.radius, least=1.0)
        check_positive("step", self.step)
        if self.steps is not None:
            check_count("steps", self.steps)
        if self.sampling is not None:
            self.sampling.number(self.filter)
            if self.every_step:
                raise InvalidParameterError(
                    "every_step=True has no effect with stochastic=True, which draws its batches at every step: leave"
                    " one of them out."
                )

    def estimate(self, evidence: Evidence) -> RowParameters:
        tally = checked_tally(evidence, self.assumptions)
        fitted = tally.variance > 0.0
        floor = np.array(self.assumptions.censoring)
        batches = self.batching.numbers(tally, fitted, evidence.feature_names)
        steps = np.maximum(tally.above // 100, 1) if self.steps is None else np.full_like(tally.above, self.steps)
        gradients = self._gradients(evidence, tally, batches, steps)

        def descend(column: int) -> FloatArray:
            v = np.array([1.0, 0.0])
            if fitted[column]:
                closed_descent(gradients[column], int(steps[column]), self.step, self.radius, v)
            return v

        v = np.array(map_in_threads(descend, range(len(floor)))).reshape(-1, 2)
        bias = np.where(fitted, floor + v[:, 1] / v[:, 0], tally.mean)
        scale = np.where(fitted, 1.0 / np.sqrt(v[:, 0]), 0.0)
        return without_errors(np.maximum(bias, self.assumptions.floor), scale, floor)

    def _gradients(self, evidence: Evidence, tally: ColumnTally, batches: Counts, steps: Counts) -> list[FloatArray]:
        """The data's half of the gradient of every column: one row for all steps, or one a step."""
        if self.sampling is not None:
            return self._drawn(evidence, tally, batches, steps, self.sampling.number(self.filter))
        rounds = [self._filtered(evidence, tally, batches, 0)]
        if self.every_step:
            rounds += [self._filtered(evidence, tally, batches, t) for t in range(1, int(steps.max()))]
        return list(np.stack(rounds, axis=1))

    def _filtered(self, evidence: Evidence, tally: ColumnTally, batches: Counts, t: int) -> FloatArray:
        """Split, and filter: d x 2. The split of step ``t`` is drawn anew where batches are scattered."""
        sums = evidence.collect(self._question(tally, batches, self.seed + t), remember=False).sums
        fitted = tally.variance > 0.0
        if t == 0 and not self.batching.scattered:
            warn_of_order(sums, batches, fitted, evidence.feature_names)
        return np.array(
            [self.filter(_means(sums[j, : batches[j]])) if fitted[j] else np.zeros(2) for j in range(len(batches))]
        )

    def _drawn(
        self, evidence: Evidence, tally: ColumnTally, batches: Counts, steps: Counts, number: int
    ) -> list[FloatArray]:
        """Batches drawn for every step, of which no others are summed."""
        streams = (np.random.default_rng([self.seed, j]) for j in range(len(batches)))
        drawn = [rng.integers(0, b, (t, number)) for rng, b, t in zip(streams, batches, steps, strict=True)]
        kept = [np.unique(of_column) for of_column in drawn]
        chosen = np.full((len(kept), max(map(len, kept))), np.iinfo(np.int64).max)
        for row, of_column in zip(chosen, kept, strict=True):
            row[: len(of_column)] = of_column
        sums = evidence.collect(self._question(tally, batches, self.seed, chosen), remember=False).sums
        fitted = tally.variance > 0.0

        def gradients(j: int) -> FloatArray:
            if not fitted[j]:
                return np.zeros((1, 2))
            return self.filter(_means(sums[j, : len(kept[j])])[np.searchsorted(kept[j], drawn[j])])

        return [gradients(j) for j in range(len(batches))]

    def _question(
        self, tally: ColumnTally, batches: Counts, seed: int, chosen: Counts | None = None
    ) -> BatchMeansQuestion:
        floor = np.array(self.assumptions.censoring)
        given = {} if chosen is None else {"chosen": chosen}
        ones = np.ones_like(floor)
        return BatchMeansQuestion(floor, floor, ones, tally, batches, self.batching.scattered, seed, **given)


def _means(sums: FloatArray) -> FloatArray:
    """(7): the mean of (x^2/2, -x) of every batch, n x 2."""
    count, total, half_square = sums.T
    return np.stack([half_square / count, -total / count], axis=1)
