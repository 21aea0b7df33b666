"""The one density of rows under y ~ N(mean, covariance) with censored and missing cells, and scores of rows by it.

The density has two modes (:mod:`unrelu.kernels.hidden_cells`). Users get the converged one: expectation propagation,
within .002 for each censored cell. The cheap mode is its first sweep, for rounds of EM. Where correlations are given as
factors and noise both modes are far cheaper (:mod:`unrelu.kernels.factor_density`).

Scores of rows take one pass. Rows that a model gives no chance have scores like others, and a warning names them. The
p-value of a score comes from simulated rows of the model, down to about 1 in their number; beyond, the exponential that
fits the last part of the tail continues it, as the tails of log densities of Gaussian rows fall (a chi-square's,
halved).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh
from scipy.linalg.lapack import dpotrf, dpotri

from unrelu.contracts import Assumptions, Block, BoolArray, Censoring, FloatArray, Progress, Samples, no_progress
from unrelu.kernels.factor_density import factor_log_densities
from unrelu.kernels.hidden_cells import FARTHEST, cell_residuals, hidden_rows
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

    Rows come with their ``censoring``, as :class:`unrelu.contracts.Block` has it, or without, where cells at ``floor``
    or below are the censored ones. ``loadings`` L may be given where the correlations are L L' and noise. ``ridge`` is
    added to the correlations before they are inverted.
    """

    mean: Annotated[FloatArray, "floats c"]
    scale: Annotated[FloatArray, "floats c"]
    correlation: Annotated[FloatArray, "floats c c"]
    floor: Annotated[FloatArray, "unbounded floats c"] | None = None
    loadings: Annotated[FloatArray, "floats c k"] | None = None
    ridge: float = field(default=RIDGE, metadata={"in files": False})

    @classmethod
    def of(cls, model: Model, floor_tolerance: float = 0.0) -> Self:
        """The latent part of a model, by its scoring covariance; values so little above its floor count as floored."""
        by = model.latent.scoring
        return cls(by.mean, by.std, by.correlation, by.floor + floor_tolerance)

    @classmethod
    def by_covariance(cls, model: Model) -> Self:
        """The latent part of a model by its own covariance, to which nothing is added that would invert it."""
        by = model.latent
        return cls(by.mean, by.std, by.correlation, by.floor, ridge=0.0)

    @classmethod
    def for_distances(cls, model: Model) -> Self:
        """By the model's own covariance, or, where that has no inverse, by the one that scores rows."""
        density = cls.by_covariance(model)
        if density.is_singular:
            density = cls.of(model)
            density.warn_if_singular()
        return density

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
        r = self.correlation[np.ix_(at, at)] + self.ridge * np.eye(len(at))
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
        """Q as the kernels are compiled for: writeable, also where the model is mapped from a file."""
        return np.require(self.inverse[0], requirements=_KIND)

    @property
    def inverse_covariance(self) -> FloatArray:
        """Of all columns, in their units; 0 for those that do not vary."""
        found, at = np.zeros(self.correlation.shape), np.flatnonzero(self.varying)
        found[np.ix_(at, at)] = self.inverse[0] / np.outer(self.scale[at], self.scale[at])
        return found

    @property
    def is_singular(self) -> bool:
        """Whether columns determine each other up to rounding; a large determinant shows quickly that they do not."""
        at = np.flatnonzero(self.varying)
        if len(at) == 0 or self.inverse[1] > np.log(10.0 * RIDGE):
            return False
        return bool(eigvalsh(self.correlation[np.ix_(at, at)], subset_by_index=[0, 0])[0] < 10.0 * RIDGE)

    def warn_if_singular(self) -> None:
        """Warn that densities of a singular model are those of a model with a little noise."""
        if self.is_singular:
            warn(
                "The model's covariance has no inverse: rows are scored as if every column had noise of its own, of"
                f" {RIDGE**0.5:g} of its standard deviation, and any row that strays further is flagged. A model"
                " fitted to rows has an inverse; give a model made by hand more noise.",
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
        """Of each row, in the units of ``values``: density of seen cells, times the probability of censored cells.

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
        """Log density per cell unit: it compares rows whatever the number of their cells above the floor."""
        assert self.floor is not None, "scores are of rows without censoring"
        return self.log_density(values, None, converged) + seen_sum(values, self.floor, self.log_cell_unit)

    def marginals(self, values: FloatArray, censoring: Censoring) -> FloatArray:
        """Of every cell, 4 x n x d: posterior mean and standard deviation, and centre and width of its marginal.

        The marginal is a normal of mean centre and standard deviation width, cut off at the cell's limit. A seen cell
        has its value and 0.
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

    def mahalanobis(self, values: FloatArray, censoring: Censoring) -> FloatArray:
        """Of each row, the expected squared distance of y from the mean, given what the row shows.

        With Q the inverse of the covariance, e the posterior mean of y, v the posterior variance of a hidden cell and w
        the variance of its marginal before its limit, the trace of Q times the posterior covariance is the sum below:

            E (y - m)' Q (y - m) = (e - m)' Q (e - m) + sum over hidden cells of v / w.
        """
        found, at = np.zeros(len(values)), self.varying
        for rows in row_shares(len(values)):
            mean, std, _, width = self.marginals(values[rows], censoring[rows])[:, :, at]
            with np.errstate(over="ignore"):
                off = np.clip((mean - self.mean[at]) / self.scale[at], -FARTHEST, FARTHEST)
            hidden = ((censoring[rows] != 0) | np.isnan(values[rows]))[:, at]
            found[rows] = np.sum(off * (off @ self.inverse[0]), axis=1)
            found[rows] += np.sum((std / np.where(hidden, width, np.inf)) ** 2, axis=1)
        return found

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
        """Per cell: distance from the prediction of the row's other cells, in standard deviations.

        For a floored cell it is the distance of the floor: with -5 so low a value was as unlikely as 5 standard
        deviations, with a positive number it was to be expected. NaN where missing or in a constant column.
        """
        out = np.full(values.shape, np.nan)

        def fill(rows: slice) -> None:
            given = self.part(*self._marked(values[rows], None))
            found = np.empty(given[0].shape)
            cell_residuals(*given, self.precision, found)
            out[rows, self.varying] = found

        map_in_threads(fill, row_shares(len(values)))
        return out

    def cell_outlier_score(self, values: Values) -> FloatArray:
        """Residuals as far as cells are outlying, negative for cells that are too low.

        0 for a floored cell that was to be expected, infinite off a constant.
        """
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
        """(values, censoring, mean, scale) of the columns that vary, in C order."""
        at = self.varying
        if not at.all():
            values, censoring = values[:, at], censoring[:, at]
        x, marks = np.require(values, np.float64, _KIND), np.require(censoring, np.int8, _KIND)
        return x, marks, self.mean[at], self.scale[at]

    def _marked(self, values: Values, censoring: Censoring | None) -> tuple[FloatArray, Censoring]:
        if censoring is not None:
            return np.asarray(values, dtype=np.float64), censoring
        assert self.floor is not None, "rows without censoring have a floor"
        return censoring_of(values, None, self.floor)

    def _off_constants(self, x: FloatArray, marks: Censoring) -> BoolArray:
        """Of the constant columns, the cells that differ: other values, and limits beyond which the constant lies."""
        at = ~self.varying
        off, mark = x[:, at] - self.mean[at], marks[:, at]
        far = np.where(mark == 0, np.abs(off), np.maximum(mark * off, 0.0))
        return np.asarray(far > _OFF * np.maximum(np.abs(self.mean[at]), 1e-300))


_NO_SPREAD = np.empty((0, 0))
_KIND: Any = ("C", "W")  # of the arrays that kernels are compiled for


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
    """Numbers by first row of the block, and cells that cannot be used: check these before using the numbers.

    ``gross``: of every block the rows without a chance, where the question has distributions.
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


def block_scores(
    score: Callable[..., FloatArray], lowest: tuple[float, ...], distributions: tuple[Model, ...], block: Block
) -> ScoredRows:
    """A question: the numbers of every row; a block with cells that cannot be used has none.

    Rows of weight 0 are as good as absent: they are scored as if all of their cells were missing. Where cells have
    limits of their own, their censoring is a second argument of ``score``.
    """
    screening = screening_of(block, lowest)
    if screening.large_count.any():
        block = replace(block, values=reachable(block.values))
        screening = screening_of(block, lowest)
    if screening.below_count.any() or screening.large_count.any():
        return ScoredRows(((block.first_row, np.full(len(block.values), np.nan)),), screening)
    present = without_absent(block.values, block.weights) if block.censoring is None else block.values
    scores = score(present) if block.censoring is None else score(present, block.censoring)
    gross = (gross_cells(distributions, present, block.censoring, block.first_row),) if distributions else ()
    return ScoredRows(((block.first_row, scores),), screening, gross)


def scored_rows(
    samples: Samples,
    score: Callable[..., FloatArray],
    assumptions: Assumptions,
    progress: Progress = no_progress,
    distributions: Sequence[Model] = (),
) -> FloatArray:
    """``score`` of all rows, in table order; InvalidDataError names cells that cannot be used.

    A warning names rows that have no chance under any of the ``distributions`` of latent values.
    """
    question = partial(block_scores, score, assumptions.lowest, tuple(distributions))
    found = engine_for(samples, progress, "Scoring rows").collect(samples, question)
    found.screening.check(assumptions, samples.feature_names)
    name_gross(found.gross, samples.feature_names)
    return found.scores


# --- rows without a chance ----------------------------------------------------------------------------------------


def gross_cells(
    distributions: Iterable[Model], values: Values, censoring: Censoring | None = None, first_row: int = 0
) -> Gross:
    """(rows, columns): the rows of latent values, numbered from ``first_row``, with a cell that has no chance under any
    of the distributions, and which columns have such cells. Columns without variance are left out."""
    gross = np.ones(values.shape, dtype=bool)
    with np.errstate(over="ignore"):
        for distribution in distributions:
            off = values - distribution.mean
            if censoring is not None:  # a left-censored cell is off where its limit is too low, and the reverse
                off = np.where(censoring == 0, off, np.maximum(off * censoring, 0.0))
            gross &= (np.abs(off) > NO_CHANCE * distribution.std) & (distribution.std > 0.0)
    return first_row + np.flatnonzero(gross.any(axis=1)), np.asarray(gross.any(axis=0))


def name_gross(parts: Sequence[Gross], names: Sequence[str] | None) -> None:
    """Warn of rows without a chance, if there are any, by name."""
    rows = sorted(row for part, _ in parts for row in part.tolist())
    if rows:
        label, columns = row_labels(rows), np.any([columns for _, columns in parts], axis=0)
        warn(
            f"{label[0].upper()}{label[1:]} {'have' if len(rows) > 1 else 'has'} no chance under the model: more than"
            f" {NO_CHANCE:,.0f} standard deviations away in {label_columns(columns, names)}. Their log densities and"
            f" filled cells are finite, and mean little. Is it the unit, or a slip? Correct such values, or mark them"
            f" as missing with NaN.",
            "impossible-rows",
            rows=rows,
        )


def warn_of_gross(model: Model, cells: Cells) -> None:
    """Name the rows of a whole table that the model gives no chance."""
    name_gross([gross_cells([model.latent], cells.latent, cells.censoring)], model.feature_names)


def naming_gross(model: Model, parts: Iterable[Cells]) -> Iterator[Cells]:
    """The same for a table whose rows come in parts: the warning comes after the last part."""
    distributions, found, first = [model.latent], list[Gross](), 0
    for cells in parts:
        found.append(gross_cells(distributions, cells.latent, cells.censoring, first))
        first += len(cells.given)
        yield cells
    name_gross(found, model.feature_names)


# --- p-values of scores --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreTail:
    """The scores of rows simulated from a model, sorted; low scores are unusual."""

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
        """Upper bounds of the p-values, by so many standard errors of the simulation.

        The share beyond the start of the tail, and its mean excess, have relative errors of 1 / sqrt(number of scores
        beyond).
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
