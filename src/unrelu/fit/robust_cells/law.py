"""The law of a table with bad cells and outlier rows, and what it says of rows and cells.

A row is an outlier with probability ``row_share``; its cells are then independent of each other, with the masses
``row_mass`` of the background's bins. In every other row a cell is bad, and lies in bin k of its column, with
probability ``bad_share[k]``, whatever the others are. Those that are not are the cells of a rectified Gaussian row.
The background says where bad cells lie: bins of every column, an atom at its floor, tails that fall as 1/x^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.cell_patterns import judge_cells
from unrelu.kernels.cell_shares import find_bins
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import map_in_threads
from unrelu.passes.tiles import seen_above
from unrelu.posterior.cells import Values
from unrelu.posterior.density import Density, plain, row_shares

_NEVER = -1e5  # log odds of what cannot be
_NOTHING = 1e-8  # weight below which a cell has none: a far one would be felt even at 1e-12
_LEAST_NOISE = 1e-4  # of a column's variance, whatever the others say
LEAST_GAIN = 4.0  # of log-likelihood, by which a share of bad cells is more than chance
MOST_BAD = 0.5  # of a column's cells, and of all rows
_ASSUMED_SHARE = 0.01  # of bad cells, where a model tells nothing of them
# Of a normal column, in standard deviations: a bin is as wide as the column's own spread, lest it follows every value.
_EDGES = np.array([-15.0, -10.0, -7.5, *range(-6, 7), 7.5, 10.0, 15.0])
_NARROWEST = 0.3
_FAR = 3.99

Bins = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Background:
    """``edges`` of every column, the first at its floor. A column of e edges has e + 2 bins: at the floor, between
    neighbouring edges, above the last, below the first. Bins of all columns are counted through."""

    edges: tuple[Annotated[FloatArray, "floats e"], ...]

    def __post_init__(self) -> None:
        for edge in self.edges:
            if edge.ndim != 1 or len(edge) < 2 or not (np.isfinite(edge).all() and (np.diff(edge) > 0.0).all()):
                raise InvalidDataError("the edges of a column's background do not rise")

    @classmethod
    def about(cls, middle: FloatArray, spread: FloatArray, floor: FloatArray) -> Self:
        """Bins of columns with that middle and spread."""
        edges = []
        for centre, unit, low in zip(middle, spread, floor, strict=True):
            start = (low - centre) / unit
            inner = _EDGES[start + _NARROWEST < _EDGES] if np.isfinite(low) else _EDGES
            edges.append(centre + unit * (np.concatenate([[start], inner]) if np.isfinite(low) else inner))
        return cls(tuple(np.unique(edge) for edge in edges))

    @cached_property
    def starts(self) -> Bins:
        """Where each column's edges begin in all columns' edges."""
        return np.cumsum([0, *(len(edge) for edge in self.edges)])

    @cached_property
    def columns(self) -> Bins:
        """The column of every bin."""
        return np.repeat(np.arange(len(self.edges)), [len(edge) + 2 for edge in self.edges])

    @cached_property
    def first_bins(self) -> Bins:
        """The bin at the floor, of every column."""
        return self.starts[:-1] + 2 * np.arange(len(self.edges))

    @property
    def n_bins(self) -> int:
        return len(self.columns)

    def places(self, values: Values, floor: FloatArray) -> tuple[Bins, FloatArray]:
        """Per cell: its bin, -1 where missing, and its log density in a bin of mass 1."""
        bins, log_density = np.empty(values.shape, np.int64), np.empty(values.shape)
        find_bins(plain(values), seen_above(floor, values), np.concatenate(self.edges), self.starts, bins, log_density)
        return bins, log_density

    def in_column(self, per_bin: FloatArray) -> FloatArray:
        """Sums over the bins of every column."""
        return np.asarray(np.bincount(self.columns, weights=per_bin, minlength=len(self.edges)), dtype=np.float64)

    def far_bins(self, middle: FloatArray, spread: FloatArray) -> BoolArray:
        """Bins beyond four standard deviations, where no cell is genuine."""
        parts = []
        for centre, unit, edge in zip(middle, spread, self.edges, strict=True):
            z = (edge - centre) / unit
            far = (z[:-1] >= _FAR) | (z[1:] <= -_FAR)
            parts.append(np.concatenate([[False], far, [z[-1] >= _FAR, z[0] <= -_FAR]]))
        return np.concatenate(parts).astype(np.bool_)


@dataclass(frozen=True, eq=False)
class Look:
    """What a law sees in rows: the bins of their cells (-1: missing), log densities of the cells in bins of mass 1 and
    as genuine ones (given the rest of their row), and of the rows with and without being outliers."""

    bins: Bins
    log_bin: FloatArray
    log_genuine: FloatArray
    predicted: FloatArray
    log_row: FloatArray
    log_outlier: FloatArray


@dataclass(frozen=True, eq=False)
class Judged:
    """``cells`` (n x d): probability of being genuine in a genuine row, 0 where missing, and its ``log_odds``;
    ``rows``: probability of being genuine, of every row; ``left``: columns whose cells are taken as they are."""

    cells: FloatArray
    log_odds: FloatArray
    rows: FloatArray
    left: tuple[int, ...] = ()

    @property
    def genuine(self) -> FloatArray:
        """Of every cell: probability of being genuine."""
        found = self.cells * self.rows[:, None]
        found[:, self.left] = self.cells[:, self.left]
        return found


@dataclass(frozen=True, eq=False)
class CellLaw:
    """See the module's text. ``floor``: at or below it a cell only says "not above". ``left``: columns of which so much
    would be bad that the column is in doubt, not its cells: these are taken as they are."""

    normal: Density
    floor: Annotated[FloatArray, "unbounded floats c"]
    background: Background
    bad_share: Annotated[FloatArray, "floats b"]
    row_share: float
    row_mass: Annotated[FloatArray, "floats b"]
    left: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sizes = (self.background.n_bins,) * 2
        if (len(self.bad_share), len(self.row_mass)) != sizes or len(self.background.edges) != len(self.floor):
            raise InvalidDataError("the bins of a law of bad cells are not those of its columns")
        if not ((self.bad_share >= 0.0).all() and (self.row_mass > 0.0).all() and 0.0 <= self.row_share < 1.0):
            raise InvalidDataError("the shares of a law of bad cells are no probabilities")

    @classmethod
    def of_model(cls, model: RectifiedGaussian, floor_tolerance: float = 0.0) -> Self:
        """Of a model that knows nothing of bad cells: one in a hundred, anywhere."""
        by = model.scoring
        floor = by.floor + floor_tolerance
        spread = np.where(by.row_norms > 0.0, by.row_norms, 1.0)
        return cls.starting(Density(by.bias, by.row_norms, by.correlation), spread, floor, _ASSUMED_SHARE)

    @classmethod
    def starting(cls, normal: Density, spread: FloatArray, floor: FloatArray, share: float) -> Self:
        """Bad cells spread evenly over the bins, no outlier rows."""
        background = Background.about(normal.bias, spread, floor)
        even = 1.0 / background.in_column(np.ones(background.n_bins))[background.columns]
        return cls(normal, floor, background, share * even, 0.0, even)

    @cached_property
    def bad_by_column(self) -> FloatArray:
        """The probability of a bad cell, of every column."""
        return self.background.in_column(self.bad_share)

    @cached_property
    def _log_odds(self) -> FloatArray:
        """Of every bin, that a cell of its column is bad and in it."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.bad_share) - np.log1p(-self.bad_by_column)[self.background.columns])

    @cached_property
    def _law(self) -> tuple[FloatArray, float]:
        """(Q, log det Q) of all columns; one that does not vary is apart from the others."""
        d, at = len(self.floor), np.flatnonzero(self.normal.varying)
        r = np.eye(d)
        r[np.ix_(at, at)] = self.normal.correlation[np.ix_(at, at)]
        values, vectors = np.linalg.eigh(r)
        values = np.maximum(values, _LEAST_NOISE)
        return np.ascontiguousarray((vectors / values) @ vectors.T), -float(np.log(values).sum())

    def look(self, values: Values, predicting: bool = True, converged: bool = False) -> Look:
        """What is to be seen in rows; ``predicting``: with what the rest of a row says of each cell.

        ``converged``: as users see it, where rounds make do with one sweep over the floored cells.
        """
        bins, log_bin = self.background.places(values, self.floor)
        scale = np.where(self.normal.varying, self.normal.scale, 1.0)
        per_unit = np.log(scale) * (values > seen_above(self.floor, values))  # densities are per unit of scale
        log_bad = np.maximum(self._log_odds[bins] + log_bin + per_unit, _NEVER)
        log_bad[(bins < 0) | ~self.normal.varying] = _NEVER
        ratios, log_row = np.empty(values.shape), np.empty(len(values))
        predicted = np.empty((2 if predicting else 0, *values.shape))
        (q, log_det), floor = self._law, seen_above(self.floor, values)

        def judge(rows: slice) -> None:
            given = (plain(values[rows]), (floor, self.normal.bias, scale, q), log_det, log_bad[rows], converged)
            judge_cells(*given, ratios[rows], predicted[:, rows], log_row[rows])

        map_in_threads(judge, row_shares(len(values)))
        seen = bins >= 0
        log_row += np.where(seen, np.log1p(-self.bad_by_column) - per_unit, 0.0).sum(axis=1)
        log_outlier = np.where(seen, np.log(self.row_mass)[bins] + log_bin, 0.0).sum(axis=1)
        return Look(bins, log_bin, ratios + log_bad - per_unit, predicted, log_row, log_outlier)

    def weigh(self, look: Look) -> Judged:
        """Probabilities by this law's shares; the densities are those of whoever looked."""
        missing, constant = look.bins < 0, ~self.normal.varying
        log_odds = np.maximum(self._log_odds[look.bins] + look.log_bin, _NEVER)
        ratio = np.where(missing, 0.0, look.log_genuine - log_odds)
        ratio[:, constant] = np.where(missing, 0.0, -_NEVER)[:, constant]
        cells, rows = expit(ratio), 1.0 - self.outlier_probability(look)
        cells[:, self.left], ratio[:, self.left] = 1.0, -_NEVER
        cells[(cells < _NOTHING) | missing] = 0.0
        rows[rows < _NOTHING] = 0.0
        return Judged(cells, ratio, rows, self.left)

    def outlier_probability(self, look: Look) -> FloatArray:
        """Per row."""
        if self.row_share <= 0.0:
            return np.zeros(len(look.log_row))
        odds = np.log(self.row_share) - np.log1p(-self.row_share) + look.log_outlier - look.log_row
        return np.asarray(expit(odds))

    def log_likelihood(self, look: Look, weights: FloatArray) -> float:
        """Of rows that this law has looked at."""
        return float(weights @ self.log_densities(look))

    def log_densities(self, look: Look) -> FloatArray:
        """Of every row, whether it is an outlier or not."""
        with np.errstate(divide="ignore"):
            outlier = np.log(self.row_share) + look.log_outlier
        return np.asarray(np.logaddexp(np.log1p(-self.row_share) + look.log_row, outlier))

    def judge(self, values: Values, converged: bool = False) -> Judged:
        """Rows and cells, by this law alone."""
        return self.weigh(self.look(values, predicting=False, converged=converged))


def bad_probability(law: CellLaw, scores: Density, values: Values) -> FloatArray:
    """Per cell: probability of being bad, those of outlier rows included; NaN where missing.

    A cell off the constant of a column that never varies is bad for certain.
    """
    bad = 1.0 - law.judge(values, converged=True).genuine
    bad[np.isinf(scores.strange(values, np.zeros(values.shape)))] = 1.0
    return np.where(np.isnan(values), np.nan, bad)
