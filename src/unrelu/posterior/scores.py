"""Scores of rows: one pass that gives every row its numbers, rows without a chance, and what scores are to be expected.

Rows that a model gives no chance are answered like any other, and named. How unusual a score is under the model itself
comes from simulated rows: p-values down to about 1 in their number; beyond, the tail is continued by the exponential
that fits its last part, as the tails of log densities of Gaussian rows fall (a chi-square's, halved).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, BoolArray, FloatArray, Marks, Samples, Watch, unwatched
from unrelu.errors import ImpossibleRowsWarning
from unrelu.passes.engine import engine_for
from unrelu.passes.tiles import Screening, ScreeningQuestion, reachable, without_absent
from unrelu.posterior.cells import Cells, Model, Values
from unrelu.validation import label_columns, row_labels, warn

NO_CHANCE = 1e3  # standard deviations from its mean: a density of e^-500,000
SMALLEST_LOG_DENSITY = -1e300  # of rows that are further away than numbers reach
_TAIL_SHARE = 0.01
_FEWEST = 20  # scores that make a tail

Gross = tuple[NDArray[np.int64], BoolArray]  # rows with a cell more than NO_CHANCE standard deviations off, and columns


# --- one pass -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Numbers by first row of the block, and what was out of place: check that before using them.

    ``gross``: of every block the rows without a chance, where these were asked for.
    """

    parts: tuple[tuple[int, FloatArray], ...]
    screening: Screening
    gross: tuple[Gross, ...] = ()

    @property
    def scores(self) -> FloatArray:
        """One number or row of numbers per row, in table order."""
        return np.concatenate([part for _, part in sorted(self.parts, key=lambda pair: pair[0])])

    def merge(self, other: Self) -> Self:
        screening = self.screening.merge(other.screening)
        return type(self)(self.parts + other.parts, screening, self.gross + other.gross)


@dataclass(frozen=True, eq=False)
class ScoreQuestion:
    """Ask every row for its numbers; a block with cells that cannot be used has none.

    Rows of weight 0 are as good as absent: they are scored as if all of their cells were missing. Where cells have
    limits of their own, their marks are a second argument of ``score``.
    """

    score: Callable[..., FloatArray]
    lowest: tuple[float, ...]
    laws: tuple[Model, ...] = ()

    def __call__(self, block: Block) -> ScoredRows:
        screening = ScreeningQuestion(self.lowest)(block)
        if screening.large_count.any():
            block = replace(block, values=reachable(block.values))
            screening = ScreeningQuestion(self.lowest)(block)
        unusable = screening.below_count.any() or screening.large_count.any()
        if unusable:
            return ScoredRows(((block.first_row, np.full(len(block.values), np.nan)),), screening)
        present = without_absent(block.values, block.weights) if block.beyond is None else block.values
        scores = self.score(present) if block.beyond is None else self.score(present, block.beyond)
        gross = (gross_cells(self.laws, present, block.beyond, block.first_row),) if self.laws else ()
        return ScoredRows(((block.first_row, scores),), screening, gross)


def scored_rows(
    samples: Samples,
    score: Callable[..., FloatArray],
    assumptions: Assumptions,
    watch: Watch = unwatched,
    laws: Sequence[Model] = (),
) -> FloatArray:
    """``score`` of all rows, in table order, after clear words about cells that cannot be used.

    Rows that have no chance under any of the ``laws``, of latent values, are named.
    """
    question = ScoreQuestion(score, assumptions.lowest, tuple(laws))
    found = engine_for(samples, watch, "Scoring rows").collect(samples, question)
    found.screening.check(assumptions, samples.feature_names)
    name_gross(found.gross, samples.feature_names)
    return found.scores


# --- rows without a chance ----------------------------------------------------------------------------------------


def gross_cells(laws: Iterable[Model], values: Values, beyond: Marks | None = None, first_row: int = 0) -> Gross:
    """(rows, columns): the rows of latent values, numbered from ``first_row``, with a cell that has no chance under any
    of some laws, and which columns have such cells. Columns without variance have their own words."""
    gross = np.ones(values.shape, dtype=bool)
    with np.errstate(over="ignore"):
        for law in laws:
            off = values - law.bias
            if beyond is not None:  # "at most" is off where it is too low, "at least" where it is too high
                off = np.where(beyond == 0, off, np.maximum(off * beyond, 0.0))
            gross &= (np.abs(off) > NO_CHANCE * law.row_norms) & (law.row_norms > 0.0)
    return first_row + np.flatnonzero(gross.any(axis=1)), np.asarray(gross.any(axis=0))


def name_gross(parts: Sequence[Gross], names: Sequence[str] | None) -> None:
    """A warning that names them, if there are any."""
    rows = sorted(row for part, _ in parts for row in part.tolist())
    if rows:
        label, columns = row_labels(rows), np.any([columns for _, columns in parts], axis=0)
        warn(
            f"{label[0].upper()}{label[1:]} {'have' if len(rows) > 1 else 'has'} no chance under the model: more than"
            f" {NO_CHANCE:,.0f} standard deviations away in {label_columns(columns, names)}. Log densities and"
            f" what is filled in there are finite, and mean little. Is it the unit, or a slip? Correct such values, or"
            f" mark them as missing with NaN.",
            ImpossibleRowsWarning,
            rows=rows,
        )


def warn_of_gross(model: Model, cells: Cells) -> None:
    """Name the rows of a whole table that the model gives no chance."""
    name_gross([gross_cells([model.latent], cells.latent, cells.beyond)], model.feature_names)


def naming_gross(model: Model, parts: Iterable[Cells]) -> Iterator[Cells]:
    """The same of a table whose rows come in parts: they are named when the last has passed."""
    laws, found, first = [model.latent], list[Gross](), 0
    for cells in parts:
        found.append(gross_cells(laws, cells.latent, cells.beyond, first))
        first += len(cells.given)
        yield cells
    name_gross(found, model.feature_names)


# --- what scores are to be expected -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreTail:
    """The scores of rows simulated from a model, sorted; low scores are the unusual ones."""

    scores: Annotated[FloatArray, "floats s"]

    @classmethod
    def of(cls, scores: FloatArray) -> Self:
        return cls(np.sort(scores))

    def quantile(self, share: float) -> float:
        """The score below which a share of the model's rows lies."""
        start, excess, beyond = self._tail()
        if share < beyond:
            return start + excess * float(np.log(share / beyond))
        return float(np.quantile(self.scores, share))

    def p_value(self, scores: FloatArray) -> FloatArray:
        """The share of the model's rows with a score as low."""
        start, excess, beyond = self._tail()
        within = np.searchsorted(self.scores, scores, side="right") / len(self.scores)
        continued = beyond * np.exp(np.minimum(scores - start, 0.0) / excess)
        return np.where(scores < start, continued, np.maximum(within, beyond))

    def highest_p_value(self, scores: FloatArray, errors: float = 3.0) -> FloatArray:
        """The p-values as large as they may be, so many standard errors of the simulation above.

        The share beyond the start of the tail, and its mean excess, are known to 1 / sqrt(number of scores beyond).
        """
        start, excess, beyond = self._tail()
        p = self.p_value(scores)
        slack = 1.0 + errors / np.sqrt(beyond * len(self.scores))
        within = p + errors * np.sqrt(p * (1.0 - p) / len(self.scores))
        continued = beyond * slack * np.exp(np.minimum(scores - start, 0.0) / (excess * slack))
        return np.where(scores < start, continued, within)

    def _tail(self) -> tuple[float, float, float]:
        """(where the continued tail starts, its mean excess, the share beyond its start)."""
        count = min(max(_FEWEST, round(_TAIL_SHARE * len(self.scores))), len(self.scores) - 1)
        start = float(self.scores[count])
        excess = float(np.mean(start - self.scores[:count]))
        return start, max(excess, 1e-12), count / len(self.scores)


def rows_from_normals(
    normals: FloatArray, bias: FloatArray, scale: FloatArray, correlation: FloatArray, floor: FloatArray
) -> FloatArray:
    """Rows of max(y, floor), y ~ N(bias, covariance), from rows of independent normals.

    By the symmetric root of the correlations: the same normals give nearby rows for nearby models, singular or not.
    """
    values, vectors = np.linalg.eigh(correlation)
    y = normals @ ((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    y *= scale
    y += bias
    return np.asarray(np.maximum(y, floor, out=y))
