"""The law of a table with bad cells and outlier rows, and what it says of rows and cells.

A row is an outlier with probability ``row_share``; its cells are then independent of each other, with the masses
``row_mass`` of the background's bins. In every other row a cell is bad, and lies in bin k of its column, with
probability ``bad_share[k]``, whatever the others are. Those that are not are the cells of a rectified Gaussian row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import expit

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_cells.background import Background, Bins
from unrelu.kernels.cell_patterns import judge_cells
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import map_in_threads
from unrelu.passes.tiles import seen_above
from unrelu.posterior.prepared import PreparedNormal, row_shares
from unrelu.posterior.row_scores import Values, plain

_NEVER = -1e5  # log odds of what cannot be
_NOTHING = 1e-8  # weight below which a cell has none: a far one would be felt even at 1e-12
_LEAST_NOISE = 1e-4  # of a column's variance, whatever the others say
LEAST_GAIN = 4.0  # of log-likelihood, by which a share of bad cells is more than chance
MOST_BAD = 0.5  # of a column's cells, and of all rows
_ASSUMED_SHARE = 0.01  # of bad cells, where a model tells nothing of them


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

    @property
    def missing(self) -> BoolArray:
        return self.bins < 0

    def of_bins(self, per_bin: FloatArray) -> FloatArray:
        """A number per bin for every cell; the last bin's where it is missing."""
        return per_bin[self.bins]


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

    normal: PreparedNormal
    floor: FloatArray
    background: Background
    bad_share: FloatArray
    row_share: float
    row_mass: FloatArray
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
        return cls.starting(PreparedNormal(by.bias, by.row_norms, by.correlation), spread, floor, _ASSUMED_SHARE)

    @classmethod
    def starting(cls, normal: PreparedNormal, spread: FloatArray, floor: FloatArray, share: float) -> Self:
        """Bad cells spread evenly over the bins, no outlier rows."""
        background = Background.about(normal.bias, spread, floor)
        even = 1.0 / background.in_column(np.ones(background.n_bins))[background.columns]
        return cls(normal, floor, background, share * even, 0.0, even)

    def with_normal(self, bias: FloatArray, scale: FloatArray, correlation: FloatArray) -> Self:
        return replace(self, normal=PreparedNormal(bias, scale, correlation))

    @cached_property
    def bad_by_column(self) -> FloatArray:
        """The probability of a bad cell, of every column."""
        return self.background.in_column(self.bad_share)

    @cached_property
    def _law(self) -> tuple[FloatArray, float]:
        """(Q, log det Q) of all columns; one that does not vary is apart from the others."""
        d, at = len(self.floor), np.flatnonzero(self.normal.varying)
        r = np.eye(d)
        r[np.ix_(at, at)] = self.normal.correlation[np.ix_(at, at)]
        values, vectors = np.linalg.eigh(r)
        values = np.maximum(values, _LEAST_NOISE)
        return np.ascontiguousarray((vectors / values) @ vectors.T), -float(np.log(values).sum())

    def look(self, values: Values, predicting: bool = True) -> Look:
        """What is to be seen in rows; ``predicting``: with what the rest of a row says of each cell."""
        bins, log_bin = self.background.places(values, self.floor)
        scale = np.where(self.normal.varying, self.normal.scale, 1.0)
        per_unit = np.log(scale) * (values > seen_above(self.floor, values))  # densities are per unit of scale
        columns = self.background.columns
        with np.errstate(divide="ignore"):
            log_odds = np.log(self.bad_share) - np.log1p(-self.bad_by_column)[columns]
        log_bad = np.maximum(log_odds[bins] + log_bin + per_unit, _NEVER)
        log_bad[(bins < 0) | ~self.normal.varying] = _NEVER
        ratios, log_row = np.empty(values.shape), np.empty(len(values))
        predicted = np.empty((2 if predicting else 0, *values.shape))
        law = (seen_above(self.floor, values), self.normal.bias, scale, self._law[0])
        map_in_threads(
            lambda rows: judge_cells(
                plain(values[rows]), law, self._law[1], log_bad[rows], ratios[rows], predicted[:, rows], log_row[rows]
            ),
            row_shares(len(values)),
        )
        seen = bins >= 0
        log_row += np.where(seen, np.log1p(-self.bad_by_column) - per_unit, 0.0).sum(axis=1)
        log_outlier = np.where(seen, np.log(self.row_mass)[bins] + log_bin, 0.0).sum(axis=1)
        return Look(bins, log_bin, ratios + log_bad - per_unit, predicted, log_row, log_outlier)

    def weigh(self, look: Look) -> Judged:
        """Probabilities by this law's shares; the densities are those of whoever looked."""
        columns = self.background.columns
        with np.errstate(divide="ignore"):
            log_odds = np.log(self.bad_share) - np.log1p(-self.bad_by_column)[columns]
        ratio = np.where(look.missing, 0.0, look.log_genuine - np.maximum(log_odds[look.bins] + look.log_bin, _NEVER))
        ratio[:, ~self.normal.varying] = np.where(look.missing, 0.0, -_NEVER)[:, ~self.normal.varying]
        cells, rows = expit(ratio), 1.0 - self.outlier_probability(look)
        cells[:, self.left], ratio[:, self.left] = 1.0, -_NEVER
        cells[(cells < _NOTHING) | look.missing] = 0.0
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

    def judge(self, values: Values) -> Judged:
        """Rows and cells, by this law alone."""
        return self.weigh(self.look(values, predicting=False))
