"""One pass that gives every row its numbers: scores, densities, probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from unrelu.contracts import Assumptions, Block, FloatArray, Samples, Watch, unwatched
from unrelu.passes.engine import engine_for
from unrelu.passes.tiles import Screening, ScreeningQuestion, reachable
from unrelu.posterior.gross import GrossCells, GrossQuestion
from unrelu.posterior.row_scores import Values


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Numbers by first row of the block, and what was out of place: check that before using them.

    ``gross``: rows without a chance, where these were asked for.
    """

    parts: tuple[tuple[int, FloatArray], ...]
    screening: Screening
    gross: GrossCells | None = None

    @property
    def scores(self) -> FloatArray:
        """One number or row of numbers per row, in table order."""
        return np.concatenate([part for _, part in sorted(self.parts, key=lambda pair: pair[0])])

    def merge(self, other: Self) -> Self:
        gross = self.gross.merge(other.gross) if self.gross and other.gross else self.gross or other.gross
        return type(self)(self.parts + other.parts, self.screening.merge(other.screening), gross)


@dataclass(frozen=True, eq=False)
class ScoreQuestion:
    """Ask every row for its numbers; a block with cells that cannot be used has none.

    Rows of weight 0 are as good as absent: they are scored as if all of their cells were missing. Where cells have
    limits of their own, their marks are a second argument of ``score``.
    """

    score: Callable[..., FloatArray]
    lowest: tuple[float, ...]
    gross: GrossQuestion | None = None

    def __call__(self, block: Block) -> ScoredRows:
        screening = ScreeningQuestion(self.lowest)(block)
        if screening.large_count.any():
            block = replace(block, values=reachable(block.values))
            screening = ScreeningQuestion(self.lowest)(block)
        unusable = screening.below_count.any() or screening.large_count.any()
        if unusable:
            return ScoredRows(((block.first_row, np.full(len(block.values), np.nan)),), screening)
        given = (_present(block),) if block.beyond is None else (block.values, block.beyond)
        scores = self.score(*given)
        gross = None if self.gross is None else self.gross(given[0], block.beyond, block.first_row)
        return ScoredRows(((block.first_row, scores),), screening, gross)


def _present(block: Block) -> Values:
    if block.weights is None or block.weights.all():
        return block.values
    return np.where(block.weights[:, None] > 0.0, block.values, np.nan)


def scored_rows(
    samples: Samples,
    score: Callable[..., FloatArray],
    assumptions: Assumptions,
    watch: Watch = unwatched,
    gross: GrossQuestion | None = None,
) -> FloatArray:
    """``score`` of all rows, in table order, after clear words about cells that cannot be used.

    Rows that have no chance by ``gross`` are named.

    >>> from unrelu.tables import ArraySamples
    >>> scored_rows(ArraySamples([[1.0, 2.0], [3.0, 4.0]]), lambda values: values.sum(axis=1), Assumptions((0.0, 0.0)))
    array([3., 7.])
    """
    found = engine_for(samples, watch, "Scoring rows").collect(samples, ScoreQuestion(score, assumptions.lowest, gross))
    found.screening.check(assumptions, samples.feature_names)
    if found.gross is not None:
        found.gross.warn(samples.feature_names)
    return found.scores
