"""The distribution of a table with bad cells and outlier rows, what it says of rows and cells, and how its shares are
learned.

A row is an outlier with probability ``row_share``; its cells are then independent of each other, with the masses
``row_mass`` of the background's bins. In every other row a cell is bad, and lies in bin k of its column, with
probability ``bad_share[k]``, whatever the others are. Those that are not are the cells of a rectified Gaussian row.
The background says where bad cells lie: bins of every column, an atom at its floor, tails that fall as 1/x^2.

How many cells are bad, bin by bin, and how many rows are outliers, is learned by EM while the densities stand. A bin is
kept where it gains enough: a share of p_k gains sum log(1 + odds) - n p_k of log-likelihood over n rows, and bins
that gain less than ``_LEAST_GAIN`` are taken for chance. What is left of them is so little that only a cell no normal
column ever has counts as bad: a clean table is learned as if no cell could be bad.

Cells that are bad and at their floor are zeros that stand for a failure, not for a low value. By itself a column hardly
separates them from low values: with more zeros its mean is lower, and explains them. So the share p_j of a column is
estimated together with its mean and standard deviation, in the likelihood of its cells given the others of their rows,

    sum_i w_i log m_ij,     m = (1 - p_j - others) P(y_j <= floor | rest of row i) + p_j                  at the floor,

and one share for all columns. Near its top the log-likelihood of column j is t_j p - S_j p^2/2 once mean and standard
deviation have followed (sums of scores and of their products; S_j is what p_j keeps of its information), so that

    p = sum t_j / sum S_j     gains     (sum t_j)^2 / (2 sum S_j),

and a column leaves the others where a share of its own gains much more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.cell_patterns import cell_log_odds
from unrelu.kernels.cell_shares import bin_posteriors, find_bins, floor_scores
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import map_in_threads
from unrelu.passes.tiles import seen_above
from unrelu.posterior.cells import Values
from unrelu.posterior.density import Density, plain, row_shares

_NEVER = -1e5  # log odds of what cannot be
_NOTHING = 1e-8  # weight below which a cell has none: a far one would be felt even at 1e-12
_LEAST_NOISE = 1e-4  # of a column's variance, whatever the others say
_LEAST_GAIN = 4.0  # of log-likelihood, by which a share of bad cells is more than chance
_MOST_BAD = 0.5  # of a column's cells, and of all rows
_ASSUMED_SHARE = 0.01  # of bad cells, where a model has none
# Of a normal column, in standard deviations: a bin is as wide as the column's own spread, lest it follows every value.
_EDGES = np.array([-15.0, -10.0, -7.5, *range(-6, 7), 7.5, 10.0, 15.0])
_NARROWEST = 0.3
_FAR = 3.99
# Of shares
_OPEN_ROUNDS, _ROUNDS, _TRIES, _ROW_ROUNDS = 10, 20, 3, 10
_SEED = 0.05  # bad cells of a column to start from
_HALF_A_CELL = 0.5  # less of each bin: a bin that explains no cell vanishes (Figueiredo and Jain 2002)
_LEFT = 1e-4  # cells, of a bin that is not believed
# Of cells at the floor
_START = 0.005  # of the cells, to begin with: at none at all, few cells would speak for all
_LEAST = 1e-4  # where scores are taken: at 0 one cell that cannot be an inlier has no finite one
_STEPS = 4
_LEAST_OWN_GAIN = 10.0
_FARTHEST = 0.3  # standard deviations that a mean moves in a step, and the log of a standard deviation
_LITTLE = 1e-9
MOST_OF_A_COLUMN = 1.0 / 3.0  # that may be bad: beyond, the column is not normal, rather than its cells bad

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

    @cached_property
    def sizes(self) -> FloatArray:
        """Of every bin, how many its column has."""
        return self.in_column(np.ones(self.n_bins))[self.columns]

    def counted(self, bins: Bins, weights: FloatArray) -> FloatArray:
        """Weight of the cells in every bin, from weights of rows."""
        seen = bins >= 0
        each = np.broadcast_to(weights[:, None], seen.shape)[seen]
        return np.asarray(np.bincount(bins[seen], weights=each, minlength=self.n_bins), dtype=np.float64)

    def masses(self, in_bin: FloatArray) -> FloatArray:
        """Shares of a column's bins, with half a row spread evenly over them."""
        mass = in_bin + 0.5 / self.sizes
        return np.asarray(mass / self.in_column(mass)[self.columns])

    def far_bins(self, middle: FloatArray, spread: FloatArray) -> BoolArray:
        """Bins beyond four standard deviations, where no cell is an inlier."""
        parts = []
        for centre, unit, edge in zip(middle, spread, self.edges, strict=True):
            z = (edge - centre) / unit
            far = (z[:-1] >= _FAR) | (z[1:] <= -_FAR)
            parts.append(np.concatenate([[False], far, [z[-1] >= _FAR, z[0] <= -_FAR]]))
        return np.concatenate(parts).astype(np.bool_)


@dataclass(frozen=True, eq=False)
class CellDensities:
    """Of rows, under a distribution: the bins of their cells (-1: missing), log densities of the cells in bins of mass
    1 and as inliers (given the rest of their row), and of the rows with and without being outliers."""

    bins: Bins
    log_bin: FloatArray
    log_inlier: FloatArray
    predicted: FloatArray
    log_row: FloatArray
    log_outlier: FloatArray


@dataclass(frozen=True, eq=False)
class CellProbabilities:
    """``cells`` (n x d): probability of being an inlier in an inlier row, 0 where missing, and its ``log_odds``;
    ``rows``: probability of being an inlier, of every row; ``inlier``: of every cell, its row considered."""

    cells: FloatArray
    log_odds: FloatArray
    rows: FloatArray
    inlier: FloatArray


@dataclass(frozen=True, eq=False)
class CellModel:
    """See the module's text. ``floor``: at or below it a cell only says "not above". ``left``: columns of which so much
    would be bad that the column is not normal, rather than its cells bad: these are taken as they are."""

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
            raise InvalidDataError("the bins of a distribution of bad cells are not those of its columns")
        if not ((self.bad_share >= 0.0).all() and (self.row_mass > 0.0).all() and 0.0 <= self.row_share < 1.0):
            raise InvalidDataError("the shares of a distribution of bad cells are no probabilities")

    @classmethod
    def of_model(cls, model: RectifiedGaussian, floor_tolerance: float = 0.0) -> Self:
        """Of a model without bad cells: one in a hundred, anywhere."""
        by = model.scoring
        floor = by.floor + floor_tolerance
        spread = np.where(by.std > 0.0, by.std, 1.0)
        return cls.starting(Density(by.mean, by.std, by.correlation), spread, floor, _ASSUMED_SHARE)

    @classmethod
    def starting(cls, normal: Density, spread: FloatArray, floor: FloatArray, share: float) -> Self:
        """Bad cells spread evenly over the bins, no outlier rows."""
        background = Background.about(normal.mean, spread, floor)
        even = 1.0 / background.sizes
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
    def _distribution(self) -> tuple[FloatArray, float]:
        """(Q, log det Q) of all columns; one that does not vary is apart from the others."""
        d, at = len(self.floor), np.flatnonzero(self.normal.varying)
        r = np.eye(d)
        r[np.ix_(at, at)] = self.normal.correlation[np.ix_(at, at)]
        values, vectors = np.linalg.eigh(r)
        values = np.maximum(values, _LEAST_NOISE)
        return np.ascontiguousarray((vectors / values) @ vectors.T), -float(np.log(values).sum())

    def densities(self, values: Values, predicting: bool = True, converged: bool = False) -> CellDensities:
        """Bins and log densities of rows; ``predicting``: with what the rest of a row says of each cell.

        ``converged``: as users see it, where rounds make do with one sweep over the floored cells.
        """
        bins, log_bin = self.background.places(values, self.floor)
        std = np.where(self.normal.varying, self.normal.scale, 1.0)
        per_unit = np.log(std) * (values > seen_above(self.floor, values))  # densities are per standard deviation
        log_bad = np.maximum(self._log_odds[bins] + log_bin + per_unit, _NEVER)
        log_bad[(bins < 0) | ~self.normal.varying] = _NEVER
        ratios, log_row = np.empty(values.shape), np.empty(len(values))
        predicted = np.empty((2 if predicting else 0, *values.shape))
        (q, log_det), floor = self._distribution, seen_above(self.floor, values)

        def score(rows: slice) -> None:
            given = (plain(values[rows]), (floor, self.normal.mean, std, q), log_det, log_bad[rows], converged)
            cell_log_odds(*given, ratios[rows], predicted[:, rows], log_row[rows])

        map_in_threads(score, row_shares(len(values)))
        seen = bins >= 0
        log_row += np.where(seen, np.log1p(-self.bad_by_column) - per_unit, 0.0).sum(axis=1)
        log_outlier = np.where(seen, np.log(self.row_mass)[bins] + log_bin, 0.0).sum(axis=1)
        return CellDensities(bins, log_bin, ratios + log_bad - per_unit, predicted, log_row, log_outlier)

    def probabilities_of(self, densities: CellDensities) -> CellProbabilities:
        """Probabilities by this distribution's shares, from densities that another one with the same bins may have
        given."""
        missing, constant = densities.bins < 0, ~self.normal.varying
        log_odds = np.maximum(self._log_odds[densities.bins] + densities.log_bin, _NEVER)
        ratio = np.where(missing, 0.0, densities.log_inlier - log_odds)
        ratio[:, constant] = np.where(missing, 0.0, -_NEVER)[:, constant]
        cells, rows = expit(ratio), 1.0 - self.outlier_probability(densities)
        cells[:, self.left], ratio[:, self.left] = 1.0, -_NEVER
        cells[(cells < _NOTHING) | missing] = 0.0
        rows[rows < _NOTHING] = 0.0
        inlier = cells * rows[:, None]
        inlier[:, self.left] = cells[:, self.left]
        return CellProbabilities(cells, ratio, rows, inlier)

    def outlier_probability(self, densities: CellDensities) -> FloatArray:
        """Per row."""
        if self.row_share <= 0.0:
            return np.zeros(len(densities.log_row))
        odds = np.log(self.row_share) - np.log1p(-self.row_share) + densities.log_outlier - densities.log_row
        return np.asarray(expit(odds))

    def log_densities(self, densities: CellDensities) -> FloatArray:
        """Of every row, whether it is an outlier or not."""
        with np.errstate(divide="ignore"):
            outlier = np.log(self.row_share) + densities.log_outlier
        return np.asarray(np.logaddexp(np.log1p(-self.row_share) + densities.log_row, outlier))

    def probabilities(self, values: Values, converged: bool = False) -> CellProbabilities:
        """Of rows and cells, by this distribution alone."""
        return self.probabilities_of(self.densities(values, predicting=False, converged=converged))


def bad_probability(model: CellModel, scores: Density, values: Values) -> FloatArray:
    """Per cell: probability of being bad, those of outlier rows included; NaN where missing.

    A cell off the constant of a column that never varies is bad for certain.
    """
    bad = 1.0 - model.probabilities(values, converged=True).inlier
    bad[scores.off_constants(values)] = 1.0
    return np.where(np.isnan(values), np.nan, bad)


# --- shares ---------------------------------------------------------------------------------------


def update_shares(
    model: CellModel,
    densities: CellDensities,
    values: Values,
    weights: FloatArray,
    bins: BoolArray,
    rows: bool = True,
    choosing: bool = True,
) -> CellModel:
    """The distribution with the shares that fit the ``densities`` of ``values``.

    ``bins`` in which cells may be bad, and whether ``rows`` may; ``choosing``: only bins and rows that gain enough.
    """
    outliers, share, mass = _outlier_rows(model, densities, weights, rows, choosing)
    weights, at_floor, allowed = weights * (1.0 - outliers), model.background.first_bins, bins.copy()
    if choosing:
        allowed[at_floor] = False
    bad = _bad_cells(model, densities, weights, allowed, choosing)
    if choosing:
        floored = floor_shares(model, densities, values, weights, bad, bins[at_floor])
        bad[at_floor] = np.maximum(bad[at_floor], floored)
    return replace(model, bad_share=bad, row_share=share, row_mass=mass)


def _bad_cells(
    model: CellModel, densities: CellDensities, weights: FloatArray, allowed: BoolArray, choosing: bool
) -> FloatArray:
    """Shares of the bins that are ``allowed``; ``choosing``: of those that gain enough."""
    background, columns = model.background, model.background.columns
    inlier = np.exp(np.clip(densities.log_inlier - densities.log_bin, -700.0, 700.0))
    n = np.maximum(background.in_column(background.counted(densities.bins, weights)), 1.0)[columns]

    def bounded(shares: FloatArray) -> FloatArray:
        total = background.in_column(shares)
        return np.asarray(shares * np.minimum(1.0, _MOST_BAD / np.maximum(total, 1e-300))[columns])

    shares = _SEED / background.sizes * allowed
    for _ in range(_TRIES if choosing else 1):
        for left_to_do in range(_ROUNDS if choosing else _OPEN_ROUNDS, 0, -1):
            shares = bounded(shares)
            sums = np.zeros((2 if left_to_do == 1 else 1, background.n_bins))
            left = 1.0 - background.in_column(shares)[columns]
            bin_posteriors(densities.bins, inlier, weights, np.stack([shares, left]), sums)
            shares = np.maximum(sums[0] - _HALF_A_CELL, 0.0) / n * allowed
        if not choosing or not (poor := (shares > 0.0) & (sums[1] - n * shares < _LEAST_GAIN)).any():
            break
        allowed = allowed & ~poor
        shares = shares * allowed
    return np.maximum(bounded(shares), _LEFT / n)


def with_outlier_rows(model: CellModel, values: Values, weights: FloatArray, outliers: BoolArray) -> CellModel:
    """The distribution that takes these rows for outliers."""
    background = model.background
    mass = background.masses(background.counted(background.places(values, model.floor)[0], weights * outliers))
    share = float(weights @ outliers / weights.sum())
    return replace(model, row_share=min(max(model.row_share, share), _MOST_BAD), row_mass=mass)


def _outlier_rows(
    model: CellModel, densities: CellDensities, weights: FloatArray, allowed: bool, choosing: bool
) -> tuple[FloatArray, float, FloatArray]:
    """(probability of every row to be an outlier, their share, masses of their cells)."""
    n, none = float(weights.sum()), np.zeros(len(weights))
    share = model.row_share
    if share <= 0.0 or not allowed:
        return none, 0.0, model.row_mass
    for _ in range(_ROW_ROUNDS):
        outliers = replace(model, row_share=share).outlier_probability(densities)
        share = min((float(weights @ outliers) - 1.0) / n, _MOST_BAD)
        if share <= 0.0:
            return none, 0.0, model.row_mass
    in_bin = model.background.counted(densities.bins, weights * outliers)
    mass = model.background.masses(in_bin)
    if choosing:
        gain = float(
            weights @ np.logaddexp(np.log1p(-share), np.log(share) + densities.log_outlier - densities.log_row)
        )
        # As many numbers as there are bins in use, but no more than half of the outliers' cells.
        numbers = min(float(np.count_nonzero(in_bin > 1.0)), 0.5 * share * n * len(model.floor))
        if gain < 0.5 * np.log(n) * numbers:
            return none, 0.0, mass
    return outliers, share, mass


def too_many(bad: NDArray[Any], there: NDArray[Any]) -> BoolArray:
    """Columns of which more than a third would be bad: of all cells, or of those off their limit.

    Counts are 2 x d, of all cells that are not missing and of those off their limit.
    """
    return np.asarray((bad > MOST_OF_A_COLUMN * there).any(axis=0))


# --- cells at the floor ----------------------------------------------------------------------------


def floor_shares(
    model: CellModel,
    densities: CellDensities,
    values: Values,
    weights: FloatArray,
    others: FloatArray,
    open_columns: BoolArray,
) -> FloatArray:
    """Of every column the share of its cells that are bad and at the floor, 0 unless in ``open_columns``.

    ``others``: shares of all bins, of which those of floors do not count.
    """
    at_floor = model.background.first_bins
    normal = np.stack([model.normal.mean, np.where(model.normal.varying, model.normal.scale, 1.0)])
    at = np.flatnonzero(open_columns & model.normal.varying & np.isfinite(model.floor))
    found = np.zeros(len(model.floor))
    if len(at) == 0:
        return found
    shares = others.copy()
    shares[at_floor] = 0.0
    room = np.maximum(_MOST_BAD - model.background.in_column(shares)[at], 0.0)
    found[at] = np.minimum(np.maximum(model.bad_share[at_floor[at]], _START), room)
    for _ in range(_STEPS):
        found[at] = np.maximum(found[at], _LEAST)
        shares[at_floor] = found
        gradient, information = np.zeros((len(found), 3)), np.zeros((len(found), 3, 3))
        floor_scores(
            plain(values), seen_above(model.floor, values), densities.bins, densities.log_bin, densities.predicted,
            weights, normal, shares, 1.0 - model.background.in_column(shares), gradient, information,
        )  # fmt: skip
        gradient, information = gradient[at], information[at]
        both = information[:, :2, :2] + _LITTLE * np.eye(2)
        follow = np.linalg.solve(both, np.stack([information[:, :2, 2], gradient[:, :2]], axis=2))
        s = np.maximum(information[:, 2, 2] - np.einsum("jk,jk->j", information[:, 2, :2], follow[:, :, 0]), _LITTLE)
        t = gradient[:, 2] - np.einsum("jk,jk->j", information[:, 2, :2], follow[:, :, 1]) + s * found[at]
        new = np.minimum(_together(s, t), room)
        step = follow[:, :, 1] - follow[:, :, 0] * (new - found[at])[:, None]
        by_mean, by_std = np.clip(step, -_FARTHEST, _FARTHEST).T
        normal[:, at] = normal[0, at] + normal[1, at] * by_mean, normal[1, at] * np.exp(by_std)
        found[at] = new
    return found


def _together(s: FloatArray, t: FloatArray) -> FloatArray:
    """One share for all columns, and for those that gain by it one of their own; t p - s p^2/2 is what p gains.

    What is little more than chance is drawn towards 0, and is 0 where it gains no more than ``_LEAST_GAIN``.
    """
    own = np.zeros(len(s), dtype=np.bool_)
    while True:
        share = 0.0
        if not own.all():
            total, pull = float(s[~own].sum()), float(t[~own].sum())
            gained = 0.5 * pull**2 / total
            if pull > 0.0 and gained > _LEAST_GAIN:
                share = pull / total * (1.0 - _LEAST_GAIN / gained)
        alone = np.maximum(t / s, 0.0)
        gain = np.where(own, 0.0, 0.5 * s * ((share - t / s) ** 2 - (alone - t / s) ** 2))
        if gain.max() < _LEAST_OWN_GAIN:
            return np.where(own, alone, share)
        own[int(np.argmax(gain))] = True
