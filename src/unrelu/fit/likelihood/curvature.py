"""How the likelihood lies around its maximum: outer products of the rows' scores, and differences of scores.

Scores at laws near by, a coordinate theta_j away from the maximum, give the information that the rows have, -d score/
dtheta_j, and the derivative of what corrects expectation propagation. That takes a pass for every coordinate: on a part
of the rows that is large enough, where parameters are few and rows are several for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from unrelu.contracts import Block, Evidence, FloatArray
from unrelu.fit.likelihood.cells import Cells, Fold
from unrelu.fit.likelihood.climbing import Prior
from unrelu.fit.likelihood.scores import Law
from unrelu.passes.engine import map_in_threads

_MOST_COORDINATES = 500
_WORK = 5e5  # rows times coordinates
_FEWEST_ROWS = 1000
ROWS_A_PARAMETER = 3.0
_DIFFERENCE = 0.005  # of a coordinate


@dataclass(frozen=True, eq=False)
class Nearby:
    """Sums over rows at a law and at its neighbours, one a coordinate: corrections and scores; and the rows' weight."""

    corrections: FloatArray
    scores: FloatArray
    weight: float

    def merge(self, other: Self) -> Self:
        return type(self)(self.corrections + other.corrections, self.scores + other.scores, self.weight + other.weight)


@dataclass(frozen=True, eq=False)
class NearbyQuestion:
    """Ask a block for corrections and scores under ``law`` and its neighbours."""

    cells: Cells
    law: Law

    @cached_property
    def laws(self) -> list[Law]:
        return [self.law, *(self.law.moved(step)[0] for step in _DIFFERENCE * np.eye(self.law.n_coordinates))]

    def __call__(self, block: Block) -> Nearby:
        u, beyond, weights = self.cells.of(block)

        def summed(law: Law) -> tuple[float, FloatArray]:
            _, corrections, scores = law.scores(u, beyond, True)
            return float(weights @ corrections), weights @ scores

        corrections, scores = zip(*map_in_threads(summed, self.laws), strict=True)
        return Nearby(np.array(corrections), np.array(scores), float(weights.sum()))


@dataclass(frozen=True, eq=False)
class Curvature:
    """Around a maximum, in theta: the information, the outer products of the rows' scores, the slope of corrections."""

    information: FloatArray
    outer: FloatArray
    slope: FloatArray


def curvature(
    evidence: Evidence, cells: Cells, law: Law, prior: Prior, rows: tuple[float, float], outer: FloatArray
) -> Curvature:
    """That of a law at its maximum, with the prior. ``outer``: of the scores there, in the law's own coordinates."""
    p = law.n_coordinates
    number = max(1, int(rows[1] / max(_WORK / p, _FEWEST_ROWS)))
    part = replace(cells, rows=None if number == 1 else Fold(0, number, True))
    question = NearbyQuestion(part, law)
    nearby = evidence.collect(question, remember=False)
    share = rows[0] / nearby.weight if nearby.weight > 0.0 else 0.0
    scores = np.array(
        [prior.add(each, 0.0, share * score)[1] for each, score in zip(question.laws, nearby.scores, strict=True)]
    )
    bend = (scores[0] - scores[1:]) / _DIFFERENCE @ law.jacobian
    slope = share * (nearby.corrections[1:] - nearby.corrections[0]) / _DIFFERENCE
    return Curvature(0.5 * (bend + bend.T), law.metric(outer), slope)


def is_small(law: Law, rows: tuple[float, float]) -> bool:
    """Whether a pass for every coordinate is worth it, and rows are enough for the outer products of scores."""
    return 0 < law.n_coordinates <= _MOST_COORDINATES and rows[1] > ROWS_A_PARAMETER * law.n_free
