"""The question asked of rows: log density under a law, its derivative, and the outer products of the rows' scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from unrelu.contracts import Block, FloatArray, Marks
from unrelu.fit.likelihood.cells import Cells
from unrelu.passes.engine import map_in_threads

_CHUNK, _AT_A_TIME = 256, 16  # rows whose scores are held by a thread, and chunks whose sums wait to be merged


class Law(Protocol):
    """A model of the cells in standard units, and how to move from it.

    ``scores`` are derivatives in the law's own coordinates, ``n_coordinates`` of them. Steps are taken in coordinates
    theta around it, in which complete rows would give (nearly) independent estimates.
    """

    @property
    def n_coordinates(self) -> int: ...

    @property
    def n_free(self) -> int:
        """Parameters that the rows can tell apart."""
        ...

    @property
    def n_components(self) -> int | None:
        """Factors; None for any covariance."""
        ...

    @property
    def mean(self) -> FloatArray: ...

    @property
    def covariance(self) -> FloatArray: ...

    def scores(
        self, u: FloatArray, beyond: Marks, corrected: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of rows: (log densities as expectation propagation has them, what brings these closer, scores n x
        n_coordinates); the second need only be there if ``corrected``."""
        ...

    def moved(self, theta: FloatArray) -> tuple[Self, Callable[[FloatArray], FloatArray]]:
        """(the law at theta, what turns its score into the derivative in theta)."""
        ...

    @property
    def jacobian(self) -> FloatArray:
        """Of the law's own coordinates in theta, at this law."""
        ...

    def metric(self, outer: FloatArray) -> FloatArray:
        """Outer products of scores at this law, in theta."""
        ...

    def complete_metric(self) -> FloatArray:
        """The information of a complete row in theta: its diagonal."""
        ...

    def from_covariance(self, derivative: FloatArray) -> FloatArray:
        """The score of something that depends on the covariance alone, from its derivative there (symmetric d x d)."""
        ...

    def inverse(self, information: FloatArray) -> FloatArray:
        """Of an information, without what the rows cannot tell; LinAlgError where it is not definite."""
        ...

    def errors(self, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(covariance d x 2 x 2 of mean and standard deviation, variance d x d of the correlations) from the covariance
        of the estimated coordinates."""
        ...


@dataclass(frozen=True, eq=False)
class Scores:
    """Sums over rows: weighted log density and score, and outer products where they were asked for."""

    log_likelihood: float
    score: FloatArray
    outer: FloatArray | None
    weight: float

    def merge(self, other: Self) -> Self:
        outer = None if self.outer is None or other.outer is None else self.outer + other.outer
        return type(self)(
            self.log_likelihood + other.log_likelihood, self.score + other.score, outer, self.weight + other.weight
        )


@dataclass(frozen=True, eq=False)
class ScoreQuestion:
    """Ask a block for its scores under ``law``, with outer products if ``outer``, and ``corrected`` densities."""

    cells: Cells
    law: Law
    outer: bool = False
    corrected: bool = False

    def __call__(self, block: Block) -> Scores:
        u, beyond, weights = self.cells.of(block)
        p = self.law.n_coordinates
        whole = Scores(0.0, np.zeros(p), np.zeros((p, p)) if self.outer else None, 0.0)

        def part(rows: slice) -> Scores:
            w = weights[rows]
            densities, corrections, scores = self.law.scores(u[rows], beyond[rows], self.corrected)
            if self.corrected:
                densities = densities + corrections
            outer = scores.T @ (w[:, None] * scores) if self.outer else None
            return Scores(float(w @ densities), w @ scores, outer, float(w.sum()))

        rows = [slice(start, start + _CHUNK) for start in range(0, len(u), _CHUNK)]
        for start in range(0, len(rows), _AT_A_TIME):
            whole = reduce(Scores.merge, map_in_threads(part, rows[start : start + _AT_A_TIME]), whole)
        return whole


def definite_inverse(matrix: FloatArray) -> FloatArray:
    """That of a definite matrix; any other is a LinAlgError."""
    return np.asarray(cho_solve(cho_factor(matrix, check_finite=False), np.eye(len(matrix))))
