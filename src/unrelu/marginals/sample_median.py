"""Bias by the median of the samples, zeros included: the alternative of Wu et al. 2019, footnote 4.

For b >= floor the floor cuts off at most half of y, so the median of x is the median of y, which is b. Given b, half of
the rows lie above it and E[(x - b)^2 1{x > b}] = s^2/2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import Assumptions, Evidence, FloatArray, RowParameters
from unrelu.marginals.columns import checked_tally, without_errors
from unrelu.statistics.column_tally import ColumnTally, ColumnTallyQuestion
from unrelu.statistics.histogram import BINS, HistogramQuestion

_PASSES = 3  # each narrows the bracket by the number of bins


@dataclass(frozen=True)
class SampleMedian:
    """Five passes over the rows: a tally, three to narrow down the median, one for the spread above it."""

    assumptions: Assumptions

    def estimate(self, evidence: Evidence) -> RowParameters:
        tally = checked_tally(evidence, self.assumptions)
        bias = np.maximum(self._median(evidence, tally), self.assumptions.floor)
        upper = evidence.collect(ColumnTallyQuestion(tuple(bias.tolist()), self.assumptions.lowest))
        square = upper.variance + np.where(upper.above > 0, upper.mean - bias, 0.0) ** 2
        scale = np.sqrt(2.0 * square * upper.above / tally.observed)
        return without_errors(bias, scale, np.array(self.assumptions.censoring))

    def _median(self, evidence: Evidence, tally: ColumnTally) -> FloatArray:
        """The median lies within one standard deviation of the mean; histograms narrow that bracket down."""
        floor = np.array(self.assumptions.censoring)
        share = tally.above / tally.observed
        step = np.where(tally.above > 0, tally.mean - floor, 0.0)
        mean = floor + share * step
        deviation = np.sqrt(share * tally.variance + share * (1.0 - share) * step**2)
        low, high = mean - deviation, mean + deviation
        middle = 0.5 * tally.observed
        for _ in range(_PASSES):
            counts = evidence.collect(HistogramQuestion(low, high)).counts
            reached = np.cumsum(counts, axis=1) >= middle[:, None]
            bin_ = np.clip(np.argmax(reached, axis=1) - 1, 0, BINS - 1)
            width = (high - low) / BINS
            low, high = low + bin_ * width, low + (bin_ + 1) * width
        return np.asarray(0.5 * (low + high))
