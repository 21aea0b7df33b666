"""One step from the maximum as expectation propagation has it towards that of the corrected likelihood.

Moments of expectation propagation are slightly off where few cut-off cells are strongly correlated: at correlations of
.9 the maximum is .7 standard errors off. The leading correction kappa of a row's log density (:mod:`hidden_cells
<unrelu.kernels.hidden_cells>`) mends densities; its derivative comes from differences, a coordinate at a time, on a
part of the rows that is large enough. With M the sum of the scores' outer products,

    theta = M^-1 sum dkappa/dtheta

is where the corrected likelihood has its maximum, to first order in the correction. The step is taken as far as the
corrected likelihood rises by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import solve

from unrelu.contracts import Block, Evidence, FloatArray
from unrelu.engines.local import map_in_threads
from unrelu.likelihood.cells import Cells, Fold
from unrelu.likelihood.climbing import Climbed, Prior
from unrelu.likelihood.scores import Law, ScoreQuestion

_MOST_COORDINATES = 500  # beyond, rows have so many cells that expectation propagation is close by itself
_WORK = 5e5  # rows times coordinates
_FEWEST_ROWS = 1000
_DIFFERENCE = 0.02  # of a coordinate
_ROWS_A_PARAMETER = 3.0  # as standard errors need them
_RIDGE = 0.003  # of complete rows, for what rows leave open
_LONGEST = 0.25  # change of a coordinate: a longer step says that first order is not enough
_LENGTHS, _ENOUGH = (1.0, 0.5, 0.25), 0.25  # of the step, and the share of the slope's promise that it must keep


@dataclass(frozen=True, eq=False)
class Slope:
    """A sum over rows of derivatives, and their weight."""

    total: FloatArray
    weight: float

    def merge(self, other: Self) -> Self:
        return type(self)(self.total + other.total, self.weight + other.weight)


@dataclass(frozen=True, eq=False)
class CorrectionQuestion:
    """Ask a block for the derivative of its corrections in theta around ``law``."""

    cells: Cells
    law: Law

    @cached_property
    def _near(self) -> list[Law]:
        return [self.law.moved(step)[0] for step in _DIFFERENCE * np.eye(self.law.n_coordinates)]

    def __call__(self, block: Block) -> Slope:
        u, beyond, weights = self.cells.of(block)
        if len(u) == 0:
            return Slope(np.zeros(self.law.n_coordinates), 0.0)
        here = float(weights @ self.law.corrections(u, beyond))
        there = map_in_threads(lambda law: float(weights @ law.corrections(u, beyond)), self._near)
        return Slope((np.array(there) - here) / _DIFFERENCE, float(weights.sum()))


def corrected(evidence: Evidence, cells: Cells, climbed: Climbed, prior: Prior, rows: tuple[float, float]) -> Climbed:
    """The same climb a step further, with the corrected log-likelihood."""
    law, p = climbed.law, climbed.law.n_coordinates
    small = 0 < p <= _MOST_COORDINATES and rows[1] > _ROWS_A_PARAMETER * p
    record = evidence.collect(ScoreQuestion(cells, law, outer=small, corrected=True), remember=False)
    here = replace(climbed, log_likelihood=record.log_likelihood)
    if not small:
        return here
    number = max(1, int(rows[1] / max(_WORK / p, _FEWEST_ROWS)))
    part = replace(cells, fold=None if number == 1 else Fold(0, number, True))
    slope = evidence.collect(CorrectionQuestion(part, law), remember=False)
    if slope.weight == 0.0 or not slope.total.any():
        return here
    assert record.outer is not None, "it was asked for"
    metric = law.metric(record.outer) + np.diag(_RIDGE * rows[0] * law.complete_metric())
    gradient = slope.total * (rows[0] / slope.weight)
    step = solve(metric, gradient, assume_a="pos")
    step *= min(1.0, _LONGEST / float(np.max(np.abs(step))))
    for length in _LENGTHS:
        moved = law.moved(length * step)[0]
        level = evidence.collect(ScoreQuestion(cells, moved, corrected=True), remember=False).log_likelihood
        gain = level + prior.level(moved) - record.log_likelihood - prior.level(law)
        if gain > _ENOUGH * length * float(gradient @ step):
            return replace(climbed, law=moved, log_likelihood=level)
    return here
