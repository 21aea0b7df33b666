"""The one density of rows under y ~ N(mean, covariance), cells cut off or missing; what it says of cells; and scores.

It has two modes (:mod:`unrelu.kernels.hidden_cells`). The converged one is what users see: expectation propagation,
within .002 a cut-off cell. The cheap one is its first sweep, for rounds of EM.
Where correlations are known as factors and noise both are far cheaper (:mod:`unrelu.kernels.factor_density`).

Scores of rows: one pass that gives every row its numbers, rows without a chance, and what scores are to be expected.

Rows that a model gives no chance are answered like any other, and named. How unusual a score is under the model itself
comes from simulated rows: p-values down to about 1 in their number; beyond, the tail is continued by the exponential
that fits its last part, as the tails of log densities of Gaussian rows fall (a chi-square's, halved).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh
from scipy.linalg.lapack import dpotrf, dpotri

from unrelu.contracts import Assumptions, Block, BoolArray, Censoring, FloatArray, Progress, Samples, no_progress
from unrelu.kernels.factor_density import factor_log_densities
from unrelu.kernels.hidden_cells import cell_residuals, hidden_rows
from unrelu.passes.engine import available_cores, engine_for, map_in_threads
from unrelu.passes.tiles import Screening, censoring_of, reachable, screening_of, seen_above, without_absent
from unrelu.posterior.cells import Cells, Model, Values
from unrelu.validation import label_columns, row_labels, warn

RIDGE = 1e-8  # on the correlation scale: a singular matrix gets an inverse, a regular one does not notice
_IMPOSSIBLE = -1e4  # log density of a cell that differs from a column without variance
_OFF = 1e-6  # of a constant: a cell further away differs from it
_FEWEST_SHARED, _MOST_SHARED = 256, 16_384  # rows worth a thread, and rows worth a copy in C order
_LOG_2PI_E = float(np.log(2.0 * np.pi) + 1.0)
NO_CHANCE = 1e3  # standard deviations from its mean: a density of e^-500,000
SMALLEST_LOG_DENSITY = -1e300  # of rows that are further away than numbers reach
_TAIL_SHARE = 0.01
_FEWEST_IN_TAIL = 20  # scores that make a tail

Gross = tuple[NDArray[np.int64], BoolArray]  # rows with a cell more than NO_CHANCE standard deviations off, and columns


@dataclass(frozen=True, eq=False)
class Density:
    """y ~ N(mean, diag(scale) correlation diag(scale)), prepared for many rows; a column of scale 0 is constant.

    Rows come with marks, ``censoring`` as in :class:`unrelu.contracts.Block`, or without where cells at ``floor``
    or below are the cut-off ones. ``loadings`` L may be given where the correlations are L L' and noise.
    """

    mean: Annotated[FloatArray, "floats c"]
    scale: Annotated[FloatArray, "floats c"]
    correlation: Annotated[FloatArray, "floats c c"]
    floor: Annotated[FloatArray, "unbounded floats c"] | None = None
    loadings: Annotated[FloatArray, "floats c k"] | None = None

    @classmethod
    def of(cls, model: Model, floor_tolerance: float = 0.0) -> Self:
        """The latent part of a model, by its scoring covariance; values so little above its floor count as floored."""
        by = model.latent.scoring
        return cls(by.mean, by.std, by.correlation, by.floor + floor_tolerance)

    # --- what is prepared ---------------------------------------------------------------------------------------------

    @cached_property
    def varying(self) -> BoolArray:
        return self.scale > 0.0

    @cached_property
    def inverse(self) -> tuple[FloatArray, float]:
        """(Q, log det R) of the columns that vary."""
        at = np.flatnonzero(self.varying)
        if len(at) == 0:
            return np.empty((0, 0)), 0.0
        r = self.correlation[np.ix_(at, at)] + RIDGE * np.eye(len(at))
        root, failed = dpotrf(r, lower=True)
        if failed:  # indefinite by more than the ridge: pairs estimated one by one
            values, vectors = np.linalg.eigh(r)
            values = np.maximum(values, RIDGE)
            return np.ascontiguousarray((vectors / values) @ vectors.T), float(np.log(values).sum())
        lower, _ = dpotri(root, lower=True)
        precision = np.tril(lower) + np.tril(lower, -1).T
        return precision, 2.0 * float(np.log(np.diagonal(root)).sum())

    @property
    def precision(self) -> FloatArray:
        """Q as the kernels are compiled for: writeable, also where the model lies in a file."""
        return np.require(self.inverse[0], requirements=_KIND)

    @property
    def is_singular(self) -> bool:
        """Whether columns determine each other up to rounding; the determinant says quickly that they do not."""
        at = np.flatnonzero(self.varying)
        if len(at) == 0 or self.inverse[1] > np.log(10.0 * RIDGE):
            return False
        return bool(eigvalsh(self.correlation[np.ix_(at, at)], subset_by_index=[0, 0])[0] < 10.0 * RIDGE)

    def warn_if_singular(self) -> None:
        """Densities of a singular model are those of one with a little noise: say so."""
        if self.is_singular:
            warn(
                "The model's covariance has no inverse: rows are scored as if every column had noise of its own, of"
                f" {RIDGE**0.5:g} of its standard deviation, and whatever strays further from the others is flagged."
                " A fit to rows brings an inverse with it; a model made by hand may be given more noise.",
                "singular",
            )

    @cached_property
    def log_scale(self) -> FloatArray:
        """Per column; 0 for a constant, which has a probability and no density."""
        return np.log(np.where(self.varying, self.scale, 1.0))

    @cached_property
    def log_cell_unit(self) -> FloatArray:
        """Per column: log of sqrt(2 pi e) times the spread it has given all others, in table units; 0 if constant.

        The entropy of a normal of that spread, so that a seen cell adds about 0 to a score whatever the correlations.
        """
        unit = self.log_scale.copy()
        unit[self.varying] += 0.5 * (_LOG_2PI_E - np.log(np.diagonal(self.inverse[0])))
        return unit

    # --- rows ---------------------------------------------------------------------------------------------------------

    def log_density(self, values: Values, censoring: Censoring | None = None, converged: bool = True) -> FloatArray:
        """Of each row, in the units of ``values``: density of what is seen, probability of what is cut off.

        Missing cells are integrated over.
        """
        out = np.empty(len(values))

        def fill(rows: slice) -> None:
            x, marks = self._marked(values[rows], None if censoring is None else censoring[rows])
            given = self.part(x, marks)
            if self.loadings is not None:
                loadings = np.ascontiguousarray(self.loadings[self.varying])
                noise = 1.0 - np.sum(loadings * loadings, axis=1) + RIDGE
                factor_log_densities(*given, loadings, noise, converged, out[rows])
            else:
                no_moments = np.empty((4, 0, given[0].shape[1]))
                hidden_rows(*given, self.precision, converged, out[rows], no_moments, _NO_SPREAD)
                out[rows] -= 0.5 * self.inverse[1]
            out[rows] -= np.where((marks == 0) & ~np.isnan(x), self.log_scale, 0.0).sum(axis=1)
            if not self.varying.all():
                out[rows] += _IMPOSSIBLE * np.count_nonzero(self._off_constants(x, marks), axis=1)

        map_in_threads(fill, row_shares(len(values)))
        return out

    def score(self, values: Values, converged: bool = True) -> FloatArray:
        """Log density per cell unit: rows are compared whatever the number of their cells above the floor."""
        assert self.floor is not None, "scores are of rows without marks"
        return self.log_density(values, None, converged) + seen_sum(values, self.floor, self.log_cell_unit)

    def marginals(self, values: FloatArray, censoring: Censoring) -> FloatArray:
        """Of every cell, 4 x n x d: posterior mean and standard deviation, and of its marginal centre and width.

        That is a normal of mean centre and standard deviation width, cut off at the cell's limit. A seen cell has its
        value and 0.
        """
        moments, at = np.empty((4, *values.shape)), self.varying
        moments[0::2], moments[1::2] = self.mean, 0.0

        def fill(rows: slice) -> None:
            given = self.part(values[rows], censoring[rows])
            found = np.empty((4, *given[0].shape))
            hidden_rows(*given, self.precision, True, np.empty(len(given[0])), found, _NO_SPREAD)
            found[1::2] = np.sqrt(found[1::2])
            found *= self.scale[at]
            found[0::2] += self.mean[at]
            moments[:, rows, at] = found

        map_in_threads(fill, row_shares(len(values)))
        return moments

    def joint(self, values: FloatArray, censoring: Censoring) -> tuple[FloatArray, FloatArray]:
        """Posterior mean (d) and covariance (d x d) of the cells of one row (1 x d)."""
        at, d = self.varying, int(self.varying.sum())
        moments, spread = np.empty((4, 1, d)), np.zeros((d, d))
        hidden_rows(*self.part(values, censoring), self.precision, True, np.empty(1), moments, spread)
        mean, covariance = self.mean.copy(), np.zeros((len(at), len(at)))
        mean[at] += self.scale[at] * moments[0, 0]
        covariance[np.ix_(at, at)] = spread * np.outer(self.scale[at], self.scale[at])
        return mean, covariance

    # --- cells --------------------------------------------------------------------------------------------------------

    def cell_residuals(self, values: Values) -> FloatArray:
        """Per cell: distance from what the row's other cells predict, in standard deviations.

        For a floored cell the distance of the floor, so -5 says that so low a value was as unlikely as 5 standard
        deviations, and a positive number that it was to be expected. NaN where missing or in a constant column.
        """
        out = np.full(values.shape, np.nan)

        def fill(rows: slice) -> None:
            given = self.part(*self._marked(values[rows], None))
            found = np.empty(given[0].shape)
            cell_residuals(*given, self.precision, found)
            out[rows, self.varying] = found

        map_in_threads(fill, row_shares(len(values)))
        return out

    def outlier_score(self, values: Values) -> FloatArray:
        """Residuals as far as cells are outlying: 0 for a floored one that was due, infinite off a constant."""
        (x, marks), residuals = self._marked(values, None), self.cell_residuals(values)
        residuals[(marks != 0) & (residuals > 0.0)] = 0.0
        return np.where(self.off_constants(values), np.copysign(np.inf, x - self.mean), residuals)

    def off_constants(self, values: Values) -> BoolArray:
        """The cells that differ from their column's constant."""
        off = np.zeros(values.shape, dtype=np.bool_)
        off[:, ~self.varying] = self._off_constants(*self._marked(values, None))
        return off

    # --- in parts -----------------------------------------------------------------------------------------------------

    def part(self, values: FloatArray, censoring: Censoring) -> tuple[FloatArray, Censoring, FloatArray, FloatArray]:
        """(values, beyond, mean, scale) of the columns that vary, in C order."""
        at = self.varying
        if not at.all():
            values, censoring = values[:, at], censoring[:, at]
        x, marks = np.require(values, np.float64, _KIND), np.require(censoring, np.int8, _KIND)
        return x, marks, self.mean[at], self.scale[at]

    def _marked(self, values: Values, censoring: Censoring | None) -> tuple[FloatArray, Censoring]:
        if censoring is not None:
            return np.asarray(values, dtype=np.float64), censoring
        assert self.floor is not None, "rows without marks have a floor"
        return censoring_of(values, None, self.floor)

    def _off_constants(self, x: FloatArray, marks: Censoring) -> BoolArray:
        """Of the constant columns, the cells that differ: other values, and limits that the constant is beyond."""
        at = ~self.varying
        off, mark = x[:, at] - self.mean[at], marks[:, at]
        far = np.where(mark == 0, np.abs(off), np.maximum(mark * off, 0.0))
        return np.asarray(far > _OFF * np.maximum(np.abs(self.mean[at]), 1e-300))


_NO_SPREAD = np.empty((0, 0))
_KIND: Any = ("C", "W")  # of arrays, that kernels are compiled for


def row_shares(n: int) -> list[slice]:
    """The rows in parts of equal size, at least two per core where that is worth it."""
    parts = max(1, min(2 * available_cores(), n // _FEWEST_SHARED), n // _MOST_SHARED)
    edges = np.linspace(0, n, parts + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(edges.tolist())]


def seen_sum(values: Values, floor: FloatArray, terms: FloatArray) -> FloatArray:
    """Per row, the sum of ``terms`` over the cells above their floor."""
    return np.asarray(np.where(values > seen_above(floor, values), terms, 0.0).sum(axis=1))


def plain(values: Values) -> Values:
    """In C order and writeable: the kernels are compiled for that kind alone."""
    return values if values.flags.c_contiguous and values.flags.writeable else np.array(values, order="C")


# --- scores of rows: one pass --------------------------------------------------------------------------------------


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
    distributions: tuple[Model, ...] = ()

    def __call__(self, block: Block) -> ScoredRows:
        screening = screening_of(block, self.lowest)
        if screening.large_count.any():
            block = replace(block, values=reachable(block.values))
            screening = screening_of(block, self.lowest)
        unusable = screening.below_count.any() or screening.large_count.any()
        if unusable:
            return ScoredRows(((block.first_row, np.full(len(block.values), np.nan)),), screening)
        present = without_absent(block.values, block.weights) if block.censoring is None else block.values
        scores = self.score(present) if block.censoring is None else self.score(present, block.censoring)
        gross = (
            (gross_cells(self.distributions, present, block.censoring, block.first_row),) if self.distributions else ()
        )
        return ScoredRows(((block.first_row, scores),), screening, gross)


def scored_rows(
    samples: Samples,
    score: Callable[..., FloatArray],
    assumptions: Assumptions,
    progress: Progress = no_progress,
    distributions: Sequence[Model] = (),
) -> FloatArray:
    """``score`` of all rows, in table order, after clear words about cells that cannot be used.

    Rows that have no chance under any of the ``distributions``, of latent values, are named.
    """
    question = ScoreQuestion(score, assumptions.lowest, tuple(distributions))
    found = engine_for(samples, progress, "Scoring rows").collect(samples, question)
    found.screening.check(assumptions, samples.feature_names)
    name_gross(found.gross, samples.feature_names)
    return found.scores


# --- rows without a chance ----------------------------------------------------------------------------------------


def gross_cells(
    distributions: Iterable[Model], values: Values, censoring: Censoring | None = None, first_row: int = 0
) -> Gross:
    """(rows, columns): the rows of latent values, numbered from ``first_row``, with a cell that has no chance under any
    of some distributions, and which columns have such cells. Columns without variance have their own words."""
    gross = np.ones(values.shape, dtype=bool)
    with np.errstate(over="ignore"):
        for distribution in distributions:
            off = values - distribution.mean
            if censoring is not None:  # "at most" is off where it is too low, "at least" where it is too high
                off = np.where(censoring == 0, off, np.maximum(off * censoring, 0.0))
            gross &= (np.abs(off) > NO_CHANCE * distribution.std) & (distribution.std > 0.0)
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
            "impossible-rows",
            rows=rows,
        )


def warn_of_gross(model: Model, cells: Cells) -> None:
    """Name the rows of a whole table that the model gives no chance."""
    name_gross([gross_cells([model.latent], cells.latent, cells.censoring)], model.feature_names)


def naming_gross(model: Model, parts: Iterable[Cells]) -> Iterator[Cells]:
    """The same of a table whose rows come in parts: they are named when the last has passed."""
    distributions, found, first = [model.latent], list[Gross](), 0
    for cells in parts:
        found.append(gross_cells(distributions, cells.latent, cells.censoring, first))
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
        start, excess, censoring = self._tail()
        if share < censoring:
            return start + excess * float(np.log(share / censoring))
        return float(np.quantile(self.scores, share))

    def p_value(self, scores: FloatArray) -> FloatArray:
        """The share of the model's rows with a score as low."""
        start, excess, censoring = self._tail()
        within = np.searchsorted(self.scores, scores, side="right") / len(self.scores)
        continued = censoring * np.exp(np.minimum(scores - start, 0.0) / excess)
        return np.where(scores < start, continued, np.maximum(within, censoring))

    def highest_p_value(self, scores: FloatArray, errors: float = 3.0) -> FloatArray:
        """The p-values as large as they may be, so many standard errors of the simulation above.

        The share beyond the start of the tail, and its mean excess, are known to 1 / sqrt(number of scores beyond).
        """
        start, excess, censoring = self._tail()
        p = self.p_value(scores)
        slack = 1.0 + errors / np.sqrt(censoring * len(self.scores))
        within = p + errors * np.sqrt(p * (1.0 - p) / len(self.scores))
        continued = censoring * slack * np.exp(np.minimum(scores - start, 0.0) / (excess * slack))
        return np.where(scores < start, continued, within)

    def _tail(self) -> tuple[float, float, float]:
        """(where the continued tail starts, its mean excess, the share beyond its start)."""
        count = min(max(_FEWEST_IN_TAIL, round(_TAIL_SHARE * len(self.scores))), len(self.scores) - 1)
        start = float(self.scores[count])
        excess = float(np.mean(start - self.scores[:count]))
        return start, max(excess, 1e-12), count / len(self.scores)


def rows_from_normals(
    normals: FloatArray, mean: FloatArray, scale: FloatArray, correlation: FloatArray, floor: FloatArray
) -> FloatArray:
    """Rows of max(y, floor), y ~ N(mean, covariance), from rows of independent normals.

    By the symmetric root of the correlations: the same normals give nearby rows for nearby models, singular or not.
    """
    values, vectors = np.linalg.eigh(correlation)
    y = normals @ ((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    y *= scale
    y += mean
    return np.asarray(np.maximum(y, floor, out=y))
