"""Do rows look like draws of the fitted normal? Score tests on groups of a few columns, calibrated by simulated rows.

Every test is the mean over rows of a number g that a row has under the fit, such as how far out it lies. What the
scores s of the group's means and covariances explain of it among rows simulated from the fit is taken off,

    h = g - a - B s,

so that the mean of h is 0 for rows of the model, and hardly moves with the errors of whatever fitted it (Neyman's
C(alpha) test). Its spread and skewness are those of the simulated rows. If g is the score of some parameter, that
parameter is about mean(h) / E[h g], and leaving it out moves the means and covariances by B times it. The numbers, for
a row whose cells have posterior means e and second moments E[u u'] in standard units, with Q the inverse of their
correlations:

    far       log(1 + E[u'Qu] / 5): falls where all columns together have the tails of a t law
    tails     log(1 + E[u_j^2] / 5), of a column, and the sum over columns
    axis      log(1 + E[w^2] / 5), of a principal component w of the columns
    lopsided  w^3 of it
    bent      (Qe)_j (E[u_i^2] - 1): column j bends with column i
    zeros     1/p - 1 of a cell that is cut off and had the probability p to be so given the rest of its row, -1 of one
              that is seen: the score of a share of cells that are cut off for another reason; and the sum over columns
    skewed    u^3 - 3 u of a column's cells, its mean beyond the limit where cut off; and the sum over columns
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr

from unrelu.checks.rows import Look
from unrelu.checks.skewness import normalized
from unrelu.contracts import BoolArray, FloatArray, Marks, RowParameters
from unrelu.kernels.covariance_scores import covariance_scores

_COLUMNS, _MOST_GROUPS = 6, 12  # of a group, and groups
_MOST_ROWS = 4096  # of all groups together
_FEWEST_SEEN = 8  # values of a column
_FEWEST_SIMULATED, _IN_ALL, _SIMULATED = 1000, 4000, 2  # rows of a group, of all, and for every row looked at
_IMAGES = 0.98  # correlation from which on columns repeat each other
_LEAST_EIGENVALUE = 0.02
_FARTHEST, _LEAST = 4.0, 0.1  # standard deviations, and the least probability that is told from less
_GROSS = 50.0  # standard deviations: whatever lies farther out is as far
_HEAVY = 5.0  # degrees of freedom of a t law

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Numbers:
    """Of the rows of a group: ``g`` (n x K), ``scores``, and ``means`` of the cells."""

    g: FloatArray
    scores: FloatArray
    means: FloatArray


@dataclass(frozen=True, eq=False)
class Tests:
    """Of one group of columns: K tests with their ``kinds`` and the ``columns`` that each is about.

    ``z``: standard normal for rows of the model. ``size`` and ``error``: the parameter that the test is the score of.
    ``shift`` (K x columns of the group): how far the means are then off, in standard deviations. ``together``: the
    correlations of the tests. ``h``: the rows' numbers; ``means``: of their cells; ``seen``: values of the column that
    has the fewest.
    """

    group: Index
    kinds: NDArray[np.str_]
    columns: tuple[tuple[int, ...], ...]
    z: FloatArray
    size: FloatArray
    error: FloatArray
    shift: FloatArray
    together: FloatArray
    h: FloatArray
    means: FloatArray
    seen: int


def rows_for(look: Look, n_groups: int) -> Look:
    """So many of the rows, by whole runs of neighbours, as tests of that many groups may take."""
    return look.thinned(-(-len(look.rows) * n_groups // _MOST_ROWS))


def groups_of(correlation: FloatArray, usable: BoolArray) -> list[Index]:
    """Columns that say most of each other, a few together; one that repeats another is left out."""
    left = np.flatnonzero(usable)
    number = -(-len(left) // _COLUMNS)
    if number > _MOST_GROUPS:
        number = _MOST_GROUPS
        left = left[np.linspace(0, len(left) - 1, number * _COLUMNS).astype(int)]
    size = -(-len(left) // max(number, 1))
    found, open_ = [], np.isin(np.arange(len(correlation)), left)
    strength = np.abs(correlation)
    while open_.any():
        group = [int(open_.argmax())]
        open_[group] = False
        while open_.any() and len(group) < size:
            near = np.where(open_, strength[:, group].max(axis=1), -1.0)
            best = int(near.argmax())
            open_[best] = False
            if near[best] < _IMAGES:
                group.append(best)
        found.append(np.array(sorted(group)))
    return found


def usable_columns(look: Look, rows: RowParameters) -> BoolArray:
    """Columns that vary, with some values seen."""
    seen = np.count_nonzero((look.beyond == 0) & ~np.isnan(look.values), axis=0)
    return np.asarray((rows.scale > 0.0) & (seen >= _FEWEST_SEEN))


def group_tests(look: Look, rows: RowParameters, correlation: FloatArray, group: Index, n_groups: int = 1) -> Tests:
    """The tests of one group, of so many."""
    bias, scale, d = rows.bias[group], rows.scale[group], len(group)
    u = np.clip((look.values[:, group] - bias) / scale, -_GROSS, _GROSS, order="C")
    marks = np.ascontiguousarray(look.beyond[:, group])
    r = _definite(correlation[np.ix_(group, group)])
    n = len(u)
    many = max(_FEWEST_SIMULATED, _IN_ALL // n_groups, _SIMULATED * n)
    rng = np.random.default_rng(0)
    drawn = numbers_of(*_simulated(u, marks, (rows.floor[group] - bias) / scale, r, many, rng), r)
    design = np.column_stack([np.ones(many), drawn.scores])
    explained, *_ = np.linalg.lstsq(design, drawn.g, rcond=1e-10)
    h = drawn.g - design @ explained
    own = numbers_of(u, marks, r)
    mine = own.g - np.column_stack([np.ones(n), own.scores]) @ explained
    variance = np.maximum((h * h).sum(axis=0) / (many - design.shape[1]), 1e-12)
    skewness = (h * h * h).mean(axis=0) / variance**1.5
    weights = look.weights / look.weights.mean()
    squares = float(weights @ weights)
    mean, spread = weights @ mine / n, np.sqrt(variance * (squares / n**2 + 1.0 / many))
    along = (h * drawn.g).mean(axis=0)
    along = np.where(along > 1e-9, along, np.inf)
    kinds, columns = _list_of(d)
    size = mean / along
    return Tests(
        group=group,
        kinds=kinds,
        columns=tuple(tuple(group[list(each)].tolist()) for each in columns),
        z=normalized(mean / spread, skewness * np.sqrt(squares) / n),
        size=size,
        error=spread / along,
        shift=size[:, None] * explained[1 : 1 + d].T,
        together=(h / np.sqrt(variance)).T @ (h / np.sqrt(variance)) / many,
        h=mine,
        means=own.means,
        seen=int(np.count_nonzero((marks == 0) & ~np.isnan(u), axis=0).min()),
    )


def _definite(r: FloatArray) -> FloatArray:
    """Correlations of pairs learned one by one, with an inverse."""
    values, vectors = np.linalg.eigh(np.nan_to_num(r))
    lifted = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    unit = np.sqrt(np.diagonal(lifted))
    return np.asarray(lifted / np.outer(unit, unit))


# --- simulated rows -------------------------------------------------------------------------------


def _simulated(
    u: FloatArray, marks: Marks, floor: FloatArray, r: FloatArray, many: int, rng: Generator
) -> tuple[FloatArray, Marks]:
    """Rows of the model, cut off and missing as those looked at."""
    y = rng.standard_normal((many, len(r))) @ np.linalg.cholesky(r).T
    like = rng.permutation(many) % len(u)
    beyond = np.zeros(y.shape, dtype=np.int8)
    for j in range(len(r)):
        low, high = _limits(u[:, j], marks[:, j], float(floor[j]), many, rng)
        beyond[:, j] = (y[:, j] >= high).astype(np.int8) - (y[:, j] <= low)
        y[:, j] = np.clip(y[:, j], low, high)
    missing = np.isnan(u[like])
    beyond[missing] = 0
    y[missing] = np.nan
    return y, beyond


def _limits(u: FloatArray, marks: Marks, floor: float, many: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """A lower and an upper limit for every simulated cell of a column.

    Where cells have limits of their own, only those of cut-off cells are known: one at l stands for 1/P(u < l) cells.
    """
    limits = {-1: np.full(many, floor), 1: np.full(many, np.inf)}
    known = np.count_nonzero(~np.isnan(u))
    for side in (-1, 1) if np.isneginf(floor) else ():
        at = u[marks == side]
        if len(at) == 0:
            continue
        share = 1.0 / np.maximum(ndtr(-side * at), 0.03) / known
        drawn = np.searchsorted(np.cumsum(share / max(1.0, share.sum())), rng.random(many))
        limits[side] = np.where(drawn < len(at), at[np.minimum(drawn, len(at) - 1)], side * np.inf)
    return limits[-1], limits[1]


# --- the numbers ----------------------------------------------------------------------------------


def _list_of(d: int) -> tuple[NDArray[np.str_], list[tuple[int, ...]]]:
    """Kinds and columns of the tests of d columns, in the order of :func:`numbers_of`."""
    every = tuple(range(d))
    single: list[tuple[int, ...]] = [(j,) for j in range(d)]
    pairs = [(i, j) for i in range(d) for j in range(d) if i != j]
    and_sum = [*single, every] if d > 1 else single
    parts: list[tuple[str, list[tuple[int, ...]]]] = [
        ("far", [every]),
        ("tails", and_sum),
        ("axis", [every] * d),
        ("lopsided", [every] * d),
        ("bent", [*pairs]),
        ("zeros", and_sum),
        ("skewed", and_sum),
    ]
    kinds = np.array([kind for kind, which in parts for _ in which])
    return kinds, [columns for _, which in parts for columns in which]


def numbers_of(u: FloatArray, beyond: Marks, r: FloatArray) -> Numbers:
    """The numbers g and scores of rows in standard units."""
    n, d = u.shape
    q = np.ascontiguousarray(np.linalg.inv(r))
    scores, cavities = np.empty((n, d + d * (d + 1) // 2)), np.ones((2, n, d))
    rest = np.empty(n), np.empty(n), scores, cavities
    covariance_scores(u, beyond, np.zeros(d), q, 0.0, *rest)
    residual = scores[:, :d]
    e = residual @ r
    i, j = np.tril_indices(d)
    # d/dS_ij is of Q E[uu'] Q - Q, halved on the diagonal: what a' E[uu'] a is for some a is linear in it.
    among = scores[:, d:]

    def squares(a: FloatArray) -> FloatArray:
        """a' E[u u'] a, for the columns of ``a``."""
        b = r @ a
        return np.asarray(np.maximum(2.0 * (among @ (b[i] * b[j])) + (b * a).sum(axis=0), 0.0))

    values, vectors = np.linalg.eigh(r)
    axes = vectors / np.sqrt(values)
    own, along = squares(np.eye(d)), squares(axes)
    tails, w = np.log1p(own / _HEAVY), np.clip(e @ axes, -_FARTHEST, _FARTHEST)
    first, second = np.nonzero(~np.eye(d, dtype=bool))
    unexplained = np.clip(residual / np.sqrt(np.diagonal(q)), -_FARTHEST, _FARTHEST)
    zeros, skewed = _of_cells(u, beyond, cavities)
    g = [
        np.log1p(along.sum(axis=1) / _HEAVY)[:, None],
        _and_sum(tails),
        np.log1p(along / _HEAVY),
        w * w * w,
        unexplained[:, second] * (np.minimum(own, 9.0) - 1.0)[:, first],
        _and_sum(zeros),
        _and_sum(skewed),
    ]
    return Numbers(np.column_stack(g), scores, e)


def _of_cells(u: FloatArray, beyond: Marks, cavities: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The numbers "zeros" and "skewed" of every cell; 0 where it is missing."""
    cut, side, known = beyond != 0, beyond.astype(np.float64), ~np.isnan(u)
    x = np.where(known, u, 0.0)
    centre, variance = cavities
    p = ndtr(np.where(cut, side * (centre - x), 0.0) / np.sqrt(np.maximum(variance, 1e-12)))
    zeros = np.where(cut, 1.0 / np.maximum(p, _LEAST) - 1.0, -1.0)
    near = np.clip(x, -_FARTHEST, _FARTHEST)
    edge = np.exp(-0.5 * near**2) / np.sqrt(2.0 * np.pi) / np.maximum(ndtr(-side * near), 1e-6)
    skewed = np.where(cut, side * edge * (near**2 - 1.0), near * (near * near - 3.0))
    return zeros * known, skewed * known


def _and_sum(columns: FloatArray) -> FloatArray:
    """The columns, and their sum where there are several."""
    return columns if columns.shape[1] == 1 else np.column_stack([columns, columns.sum(axis=1)])
