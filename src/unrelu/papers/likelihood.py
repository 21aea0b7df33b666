"""The likelihood of a matrix behind a rectifier, given the biases' density p: Mazumdar and Rawat 2018, section 3.1.

The paper's matrices are d x n and ours n x d, so that its rows are our columns: X = ReLU(M + 1 b'), (23), with biases
b_j drawn independently from p. Where column j has positive cells they give b_j = X_ij - M_ij, (27); where it has none,
b_j <= -max_i M_ij, (28). The log-likelihood (33) of M is therefore

    L(M) = sum over columns with positive cells of log p(b_j) + sum over the others of log P(B <= -max_i M_ij),

and program (34) maximises it over the set (29): |M|_inf <= gamma; X_ij - M_ij the same on all positive cells of a
column; the smallest of those M_ij at least nu above the largest M_ij at the floor. Here are p, (29), (33), and (34) as
printed, in closed form; :mod:`unrelu.papers.program` has (34) with a rank or a nuclear norm. In the words of the core,
with normal rows of the latent vectors, b is the mean of T = M + 1 b'.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.recovery.matrix import Cells, Factors, tile_by_tile
from unrelu.validation import column_label, label_columns

_GRID, _ZOOMS = 33, 9  # each zoom narrows an interval 16 times
_TAIL = 1e-9  # quantile beyond which the search for a mode does not begin
_STEP = 6e-6  # of the spread: the third root of the rounding unit
_UNDERFLOW = -745.0
_ROUNDING = 1e-12


FrozenDistribution = Any  # a frozen continuous distribution of scipy.stats, such as ``scipy.stats.norm(0, 1)``


# --- p -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BiasDensity:
    """The density p of the biases, after the checks of :meth:`of`."""

    distribution: Any
    lowest: float
    highest: float
    centre: float
    spread: float

    @classmethod
    def of(cls, distribution: Any) -> BiasDensity:
        """p of a frozen continuous distribution; InvalidParameterError for anything else."""
        try:
            with np.errstate(all="ignore"):
                levels = _quantiles(distribution, [0.5, 0.25, 0.75])
                lowest, highest = (float(end) for end in distribution.support())
                discrete = hasattr(distribution, "pmf") and bool(np.max(distribution.pmf(levels[0])) > 0.0)
                if not discrete:
                    _ = distribution.logpdf(levels), distribution.logcdf(levels)
        except (TypeError, ValueError, AttributeError, NotImplementedError):
            raise InvalidParameterError(
                "bias_density must be a frozen continuous distribution with scalar parameters, such as"
                f" scipy.stats.norm(0, 1), got {distribution!r}."
            ) from None
        if discrete:
            raise InvalidParameterError(
                "bias_density is discrete and has no density p(b), which program (34) maximises: give a continuous"
                " one, such as scipy.stats.norm(0, 1)."
            )
        spread = (levels[2] - levels[1]) / 1.349
        if not (np.isfinite(levels).all() and spread > 0.0):
            raise InvalidParameterError(
                "bias_density has invalid parameters: its quartiles are"
                f" {levels[1]:g}, {levels[0]:g}, {levels[2]:g}. Check its location, scale and shape."
            )
        return cls(distribution, lowest, highest, float(levels[0]), float(spread))

    def log(self, b: FloatArray) -> FloatArray:
        """log p(b), -inf outside the support."""
        with np.errstate(all="ignore"):
            value = np.asarray(self.distribution.logpdf(b), dtype=np.float64)
        return np.where(np.isnan(value), -np.inf, value)

    def term(self, b: FloatArray, never: BoolArray) -> FloatArray:
        """A column's term of (33): log p(b_j), or log P(B <= b_j) for a column that is never positive.

        Where that is -inf in floating point a parabola below every finite value stands in, so that searches
        return from there.
        """
        value = self.log(b)
        if never.any():
            with np.errstate(all="ignore"):
                value = np.where(never, np.asarray(self.distribution.logcdf(b), dtype=np.float64), value)
        return np.where(np.isfinite(value), value, _UNDERFLOW - ((b - self.centre) / self.spread) ** 2)

    def derivatives(self, b: FloatArray, never: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Slope of the term, and minus its curvature where that is positive, else 0: differences inside the support."""
        step = _STEP * np.maximum(self.spread, np.abs(b - self.centre))
        left, right = np.maximum(b - step, self.lowest), np.minimum(b + step, self.highest)
        before, at, after = self.term(np.stack([left, b, right]), never)
        tiny = np.finfo(float).tiny
        rise = (after - at) / np.maximum(right - b, tiny) - (at - before) / np.maximum(b - left, tiny)
        bend = np.where((left < b) & (b < right), -2.0 * rise / (right - left), 0.0)
        return (after - before) / (right - left), np.maximum(bend, 0.0)

    def argmax(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Where p is largest on each interval: the clipped mode, or better points of a fine grid, zoomed into."""
        low, high = np.maximum(low, self.lowest), np.minimum(high, self.highest)
        clipped = np.clip(self.mode, low, high)
        bottom, top = self._bulk
        left = np.where(np.isfinite(low), low, np.minimum(bottom, clipped - self.spread))
        right = np.where(np.isfinite(high), high, np.maximum(top, clipped + self.spread))
        found = self._zoom(left, np.maximum(left, right))
        return np.where(self.log(found) > self.log(clipped) + 1e-12, found, clipped)

    @cached_property
    def mode(self) -> float:
        """The most likely bias; of several equally likely ones, that next to the median."""
        bottom, top = self._bulk
        between = _quantiles(self.distribution, np.linspace(1e-3, 0.999, 999))
        grid = np.unique(np.concatenate([np.linspace(bottom, top, 2001), between]))
        value = self.log(grid)
        ties = np.flatnonzero(value >= value.max() - 1e-12)
        at = int(ties[np.abs(grid[ties] - self.centre).argmin()])
        found = self._zoom(grid[[max(at - 1, 0)]], grid[[min(at + 1, len(grid) - 1)]])[0]
        return float(found if self.log(found) > value[at] + 1e-14 else grid[at])

    @property
    def _bulk(self) -> tuple[float, float]:
        """Where the search for a mode goes: the support, or all but its tails."""
        bottom, top = _quantiles(self.distribution, [_TAIL, 1.0 - _TAIL])
        bottom = self.lowest if np.isfinite(self.lowest) else bottom
        return float(bottom), float(self.highest if np.isfinite(self.highest) else top)

    def _zoom(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """The best point of a grid on each interval, then of a grid between its neighbours, and so on."""
        every = np.arange(len(low))
        share = np.linspace(0.0, 1.0, 8 * (_GRID - 1) + 1)
        for _ in range(_ZOOMS):
            grid = low[:, None] + (high - low)[:, None] * share
            grid[:, -1] = high
            at = self.log(grid).argmax(axis=1)
            low, high = grid[every, np.maximum(at - 1, 0)], grid[every, np.minimum(at + 1, len(share) - 1)]
            share = np.linspace(0.0, 1.0, _GRID)
        best: FloatArray = grid[every, at]
        return best


def _quantiles(distribution: Any, levels: ArrayLike) -> FloatArray:
    """Quantiles of one of scipy's older distributions, or of its newer ones."""
    quantile = getattr(distribution, "ppf", None) or distribution.icdf
    return np.asarray(quantile(np.array(levels)), dtype=np.float64)


# --- (33) ----------------------------------------------------------------------------------------


def normalized_log_likelihood(X: ArrayLike, matrix: ArrayLike, bias_density: FrozenDistribution) -> float:
    """(33): log P(X | M) - log P(X | 0) of a table X = ReLU(M + 1 b'), its biases drawn from ``bias_density``.

    A column with s positive cells adds log p( X_(s) - M_(s) ) - log p( X_(s) ), where _(s) is the s-th largest entry of
    the column: for M in the set (29) every positive cell gives the same bias. A column without any adds
    log P(B <= -max M) - log P(B <= 0). Rows are samples here, columns in the paper. -inf where M asks for a bias that
    p does not allow. This is what program (34), :class:`unrelu.papers.Likelihood`, maximises.

    >>> from scipy.stats import norm
    >>> M = [[1.0, -2.0], [0.5, -3.0]]
    >>> X = [[1.5, 0.0], [1.0, 0.0]]  # biases .5, and below 2
    >>> expected = norm.logpdf(0.5) - norm.logpdf(1.0) + norm.logcdf(2.0) - norm.logcdf(0.0)
    >>> round(normalized_log_likelihood(X, M, norm(0, 1)), 9) == round(float(expected), 9)
    True
    """
    values, latent = np.asarray(X, dtype=np.float64), np.asarray(matrix, dtype=np.float64)
    for name, given in (("X", values), ("matrix", latent)):
        if given.ndim != 2 or given.size == 0 or not np.isfinite(given).all():
            raise InvalidParameterError(f"{name} must be a matrix of finite numbers, got shape {given.shape}.")
    if values.shape != latent.shape:
        raise InvalidParameterError(f"X is {values.shape} and matrix {latent.shape}: they must be of the same shape.")
    if (values < 0.0).any():
        raise InvalidDataError("X has negative cells, and ReLU(M + 1 b') has none.")
    density = BiasDensity.of(bias_density)
    count = np.count_nonzero(values > 0.0, axis=0)
    seen, place = count > 0, np.maximum(count - 1, 0)[None, :]
    at = np.take_along_axis(-np.sort(-values, axis=0), place, axis=0)[0]
    below = np.take_along_axis(-np.sort(-latent, axis=0), place, axis=0)[0]  # the largest, where none is positive
    with np.errstate(all="ignore"):
        under = np.where(seen, density.log(at - below), density.distribution.logcdf(-below))
        without = np.where(seen, density.log(at), density.distribution.logcdf(np.zeros_like(at)))
    if (impossible := ~np.isfinite(without)).any():
        raise InvalidParameterError(
            f"bias_density does not allow M = 0 in {label_columns(impossible, None)}, from which (33) is measured: give"
            " a density with a wider support."
        )
    return float(np.sum(under - without))


# --- (29), and (34) as printed -------------------------------------------------------------------


@dataclass(frozen=True)
class FeasibleSet:
    """X_{Y, nu, gamma} of (29): |M|_inf <= gamma; X - M constant over a column's positive cells; its zeros nu below.

    The constant is b_j. With it, column j's positive cells are M_ij = X_ij - b_j, its cells at the floor lie in
    [-gamma, cap_j - b_j] with cap_j = min_P X_ij - nu, and b_j itself in [low_j, high_j]:

        low_j = max_P X_ij - gamma,    high_j = min_P X_ij + gamma - nu (without nu where no cell is at the floor).

    A column that is never positive has no such constant. There b_j stands for -max_i M_ij, the largest bias that keeps
    the column at its floor (28): cap_j = 0, and b_j is in [-gamma, gamma].

    (29) does not ask for (26), M_ij + b_j <= 0 at the floor: where nu < min_P X_ij it lets T reach cap_j there.
    """

    positives: FloatArray  # per column, how many cells are positive
    zeros: FloatArray  # and how many at the floor
    smallest: FloatArray  # of the positive ones; inf where there is none
    largest: FloatArray  # -inf there
    gamma: float
    nu: float

    @classmethod
    def of(cls, cells: Cells, gamma: float, nu: float) -> FeasibleSet:
        def part(values: FloatArray, _: slice) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
            positive = values > 0.0
            return (
                positive.sum(axis=0).astype(np.float64),
                (values <= 0.0).sum(axis=0).astype(np.float64),
                np.where(positive, values, np.inf).min(axis=0, initial=np.inf),
                np.where(positive, values, -np.inf).max(axis=0, initial=-np.inf),
            )

        positives, zeros, smallest, largest = zip(*tile_by_tile(cells, part), strict=True)
        return cls(sum(positives), sum(zeros), np.min(smallest, axis=0), np.max(largest, axis=0), gamma, nu)

    @property
    def seen(self) -> BoolArray:
        return self.positives > 0

    @property
    def never(self) -> BoolArray:
        """Observed, and never positive."""
        return np.asarray((self.positives == 0) & (self.zeros > 0))

    @property
    def caps(self) -> FloatArray:
        return np.where(self.seen, self.smallest, self.nu) - self.nu

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        low = np.where(self.seen, self.largest, 0.0) - self.gamma
        return low, np.where(self.zeros > 0, self.caps, np.where(self.seen, self.smallest, 0.0)) + self.gamma

    def check(self, density: BiasDensity) -> None:
        """Raise where no M with |M|_inf <= gamma spans a column's positive cells, or no bias that p allows does."""
        low, high = self.bounds
        bad = self.seen & (low > high + _ROUNDING * self.gamma)
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            span = float(self.largest[j] - self.smallest[j])
            margin = self.nu if self.zeros[j] > 0 else 0.0
            raise InvalidParameterError(
                f"gamma={self.gamma:g} is too small for {label_columns(bad, None)}: the positive cells of"
                f" {column_label(j, None)} span {span:.6g}, and |M|_inf <= gamma leaves room for 2 gamma"
                f"{' - nu' if margin else ''} = {2.0 * self.gamma - margin:.6g}. Raise gamma to at least"
                f" {0.5 * (span + margin):.6g}{' or lower nu' if margin else ''}."
            )
        bad = np.where(self.never, high <= density.lowest, (low > density.highest) | (high < density.lowest))
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise InvalidParameterError(
                f"bias_density allows biases in [{density.lowest:g}, {density.highest:g}] only, and"
                f" gamma={self.gamma:g} asks for one in [{low[j]:.6g}, {high[j]:.6g}] in {column_label(j, None)}"
                f" ({int(bad.sum())} such columns). Raise gamma or give a density with a wider support."
            )


def literal_program(values: FloatArray, feasible: FeasibleSet, density: BiasDensity) -> tuple[FloatArray, FloatArray]:
    """(M, b) of program (34) without a constraint on the rank: its columns have nothing in common.

    b_j is where p is largest on [low_j, high_j]. The cells at the floor do not appear in the likelihood: every value
    in [-gamma, cap_j - b_j] is a solution, and what is returned is the one next to 0 that also has M_ij + b_j <= 0,
    (26), wherever gamma lets it (for nu < min_P X_ij the set (29) alone allows more). A missing cell is 0. A column
    that is never positive is best at M_ij = -gamma, or at any value below the support of -B: again the one next to 0.
    """
    never = feasible.never
    low, high = feasible.bounds
    depth = max(-feasible.gamma, min(0.0, -density.highest))
    if never.any() and not np.isfinite(depth):
        raise InvalidParameterError(
            f"Program (34) has no maximum without gamma: {label_columns(never, None)} never rises above its floor, and"
            " every lower M makes that likelier. Give gamma, or drop such columns."
        )
    bias = density.argmax(np.where(never, -np.inf, low), np.where(never, -depth, high))
    ceiling = np.minimum(0.0, np.minimum(feasible.caps, 0.0) - bias)
    at_floor = np.where(never, depth, np.maximum(-feasible.gamma, ceiling))
    matrix = np.where(values > 0.0, values - bias, np.where(np.isnan(values), 0.0, at_floor))
    return matrix, bias


def leading_factors(u: FloatArray, singular: FloatArray, vt: FloatArray, rank: int, bias: FloatArray) -> Factors:
    """The leading ``rank`` terms of U S V', shared evenly between C and A; zeros where there are fewer."""
    root = np.sqrt(singular[:rank])
    missing = ((0, 0), (0, rank - len(root)))
    return Factors(np.pad(u[:, :rank] * root, missing), np.pad(vt[:rank].T * root, missing), bias)


def relative_residual(values: FloatArray, factors: Factors) -> float:
    """|R| / |X|: how far T is from X where X > 0, and above the floor where X = 0."""
    fitted = factors.matrix()
    residual = np.where(values > 0.0, values - fitted, np.where(values <= 0.0, np.maximum(fitted, 0.0), 0.0))
    return float(np.linalg.norm(residual)) / (float(np.sqrt(np.nansum(values * values))) or 1.0)
