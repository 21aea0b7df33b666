"""Are rows like draws of the fitted normal? A sample of the rows, and score tests of groups of columns.

Every test is the mean over rows of a number g that a row has under the fit, such as how far out it lies. What the
scores s of the group's means and covariances explain of it among rows simulated from the fit is taken off,

    h = g - a - B s,

so that the mean of h is 0 for rows of the model, and hardly moves with the errors of whatever fitted it (Neyman's
C(alpha) test). Its spread and skewness are those of the simulated rows. If g is the score of some parameter, that
parameter is about mean(h) / E[h g], and leaving it out moves the means and covariances by B times it. The numbers, for
a row whose cells have posterior means e and second moments E[u u'] in standard units, with Q the inverse of their
correlations:

    far       log(1 + E[u'Qu] / 5): falls where all columns together have the tails of a t distribution
    tails     log(1 + E[u_j^2] / 5), of a column, and the sum over columns
    axis      log(1 + E[w^2] / 5), of a principal component w of the columns
    lopsided  w^3 of it
    bent      (Qe)_j (E[u_i^2] - 1): column j bends with column i
    zeros     1/p - 1 of a cell that is cut off and had the probability p to be so given the rest of its row, -1 of one
              that is seen: the score of a share of cells that are cut off for another reason; and the sum over columns
    skewed    u^3 - 3 u of a column's cells, its mean beyond the limit where cut off; and the sum over columns

Findings come from the strongest down, and what one explains of the others is left out.

Rows are kept in runs of neighbours; a long table keeps the runs of the smallest keys
(:mod:`unrelu.passes.tiles`), so that the same rows are kept however it is cut into blocks.

Under independent rows the sum over columns of mean(e_t e_(t+1)) / mean(e_t^2), e the posterior means of the cells, has
mean 0 and variance sum_ij r_ij^2 / m over m pairs of rows. With r_k, a column's correlation at distance k, errors of
its mean are too small by sqrt(1 + 2 (r_1 + r_2 + ...)), as far as the r_k stay positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from unrelu.contracts import Assumptions, Block, BoolArray, Censoring, Evidence, FloatArray, RowParameters
from unrelu.kernels.likelihood_scores import covariance_scores
from unrelu.passes.engine import map_in_threads, one_blas_thread
from unrelu.passes.tiles import censoring_of, row_keys

_ALARM = 0.0015  # chance of a finding of one kind among rows of the model
_FEWEST_ROWS = 30
_SLACK = 6.0  # over the number of values seen: errors of second order, by simulation
_WEAK = 0.5  # of the strongest finding's z: what is weaker once that is taken off may be its doing
_OWN = 0.25  # of a test's variance that others must leave it
_HARM = 0.5  # standard errors of a mean
_EFFECT = 0.1
_MOST = 0.8  # of the tests that an allowance for dependent rows is enough for: one for all keeps their order
_CLEARLY = 1.4  # times as strong as its columns' tests that one of all together must be
_BESIDE = 2.0
_DEPENDENT = 1.1  # times too small that standard errors must be
_COLUMNS, _MOST_GROUPS = 6, 12  # of a group, and groups
_MOST_ROWS = 4096  # of all groups together
_FEWEST_SEEN = 8  # values of a column
_FEWEST_SIMULATED, _IN_ALL, _SIMULATED = 1000, 4000, 2  # rows of a group, of all, and for every row of the sample
_BOTH_SEEN, _MOST_SIMULATED = 100, 8000  # simulated rows that see both of two columns, and rows for that at most
_FEW_BOTH = 30.0  # rows that see both
_IMAGES = 0.98  # correlation from which on columns repeat each other
_LEAST_EIGENVALUE = 0.02
_FARTHEST, _LEAST = 4.0, 0.1  # standard deviations, and the least probability that counts as itself
_GROSS = 50.0  # standard deviations: whatever lies farther out is as far
_HEAVY_DEGREES = 5.0  # degrees of freedom of a t distribution

_RUN = 32
_PER_ROW = ("rows", "values", "censoring", "weights")
_MOST_KEPT = 4096
_MOST_LAGS = 15
_FEWEST_PAIRS = 20
_SORTED = 0.95  # of the steps to the next row that go one way

Index = NDArray[np.int64]


# --- a sample of the rows ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowSample:
    """``values`` (m x d) of the rows numbered ``rows``, in the table's order, with marks of cells that are cut off.
    Cells at a limit hold it. ``weights`` are those of the rows. ``cut``: rows or cells that lie far out were taken
    away, so that tails that are too short say nothing."""

    rows: NDArray[np.int64]
    values: FloatArray
    censoring: Censoring
    weights: FloatArray
    cut: bool = False

    def merge(self, other: Self) -> Self:
        both: dict[str, Any] = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _PER_ROW}
        return replace(self, **both).of_rows(_kept(both["rows"] // _RUN))

    def of_rows(self, chosen: Any) -> Self:
        """Some of the rows."""
        own: dict[str, Any] = {name: getattr(self, name)[chosen] for name in _PER_ROW}
        return replace(self, **own)

    def trimmed(self, inlier: BoolArray, cells: bool = False) -> Self:
        """The inlier rows alone; ``cells``: some of theirs were taken away as well."""
        return replace(self.of_rows(inlier), cut=cells or not inlier.all())

    def thinned(self, k: int) -> Self:
        """Every k-th run of rows."""
        _, number = np.unique(self.rows // _RUN, return_inverse=True)
        return self if k <= 1 else self.of_rows(number % k == 0)

    def without_cells(self, missing: BoolArray) -> Self:
        """The same with some cells missing."""
        hidden = np.where(missing, np.int8(0), self.censoring)
        return replace(self, values=np.where(missing, np.nan, self.values), censoring=hidden)


@dataclass(frozen=True)
class RowSampleQuestion:
    """Ask for some rows; ``floor``: at or below it a cell is cut off."""

    floor: tuple[float, ...]

    def __call__(self, block: Block) -> RowSample:
        rows = np.arange(block.first_row, block.first_row + block.n_rows, dtype=np.int64)
        kept = _kept(rows // _RUN)
        weights = np.ones(len(rows)) if block.weights is None else block.weights
        kept = kept[weights[kept] > 0.0]
        own = None if block.censoring is None else block.censoring[kept]
        values, censoring = censoring_of(block.some_rows(kept), own, np.array(self.floor))
        return RowSample(rows[kept], values, censoring, np.asarray(weights[kept], dtype=np.float64))


def sample_rows(evidence: Evidence, assumptions: Assumptions) -> RowSample | None:
    """Some of the rows behind the evidence; None where only a record is."""
    try:
        return evidence.collect(RowSampleQuestion(assumptions.censored_at))
    except LookupError:
        return None


def _kept(runs: NDArray[np.int64]) -> NDArray[np.intp]:
    """Positions of the rows whose runs have the smallest keys, in order."""
    order = np.argsort(runs, kind="stable") if np.any(np.diff(runs) < 0) else np.arange(len(runs))
    there = np.unique(runs)
    most = _MOST_KEPT // _RUN
    if len(there) <= most:
        return order
    chosen = there[np.argpartition(row_keys(0, there), most)[:most]]
    return order[np.isin(runs[order], chosen)]


def neighbours_of(rows: NDArray[np.int64], means: FloatArray) -> tuple[float, float, float]:
    """(z, standard normal for independent rows; correlation of neighbours; factor of standard errors), from the
    ``means`` (n x d) of the cells of the rows, in standard units."""
    e = np.clip(means, -_FARTHEST, _FARTHEST)
    e = e - e.mean(axis=0)
    e = e / np.maximum(np.sqrt((e**2).mean(axis=0)), 1e-12)
    pairs = np.flatnonzero(np.diff(rows) == 1)
    if len(pairs) < _FEWEST_PAIRS:
        return 0.0, 0.0, 1.0
    products = (e[pairs] * e[pairs + 1]).mean(axis=0)
    spread = np.sqrt(((e.T @ e / len(e)) ** 2).sum() / len(pairs))
    factor = float(np.sqrt(inflation(rows, e).mean()))
    return float(products.sum() / spread), float(products.mean()), factor


def inflation(rows: NDArray[np.int64], numbers: FloatArray) -> FloatArray:
    """1 + 2 (r_1 + r_2 + ...) of every column of the rows' numbers; at least 1."""
    x = numbers - numbers.mean(axis=0)
    square = np.maximum((x**2).mean(axis=0), 1e-300)
    total = np.ones(x.shape[1])
    going = np.ones_like(total, dtype=np.bool_)
    for k in range(1, min(_MOST_LAGS, len(x) // 4) + 1):
        at = np.flatnonzero(rows[k:] - rows[:-k] == k)
        if len(at) < _FEWEST_PAIRS:
            break
        r = (x[at] * x[at + k]).mean(axis=0) / square
        going &= r > 0.0
        total += 2.0 * np.where(going, r, 0.0)
    return total


def is_sorted(sample: RowSample) -> bool:
    """Whether some column goes up, or down, from row to row: sorting a table makes neighbours alike."""
    steps = np.diff(sample.values, axis=0)[np.diff(sample.rows) == 1]
    up, down = np.count_nonzero(steps > 0.0, axis=0), np.count_nonzero(steps < 0.0, axis=0)
    return bool(np.any((up + down >= _FEWEST_PAIRS) & (np.maximum(up, down) > _SORTED * (up + down))))


# --- tests of all groups ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tests:
    """Of one group of columns: K tests, their ``kinds``, the ``columns`` of each, and which are of the ``whole`` group.

    ``z``: standard normal for rows of the model. ``size`` and ``error``: the parameter that the test is the score of.
    ``shift`` (K x columns of the group): how far the means are then off, in standard deviations. ``together``: the
    correlations of the tests. ``h``: the rows' numbers; ``means``: of their cells; ``seen``: values of the column that
    has the fewest.
    """

    group: Index
    kinds: NDArray[np.str_]
    columns: tuple[tuple[int, ...], ...]
    whole: BoolArray
    z: FloatArray
    size: FloatArray
    error: FloatArray
    shift: FloatArray
    together: FloatArray
    h: FloatArray
    means: FloatArray
    seen: int

    @property
    def shows(self) -> NDArray[np.str_]:
        """What every test is a sign of, where it is significant."""
        far, long = np.isin(self.kinds, ["far", "axis"]), self.z < 0.0
        margins = (self.kinds == "skewed") | ((self.kinds == "tails") & long)
        groups = far | np.isin(self.kinds, ["tails", "lopsided"])
        return np.select([margins, far & long, groups], ["margins", "heavy", "groups"], self.kinds)


@dataclass(frozen=True, eq=False)
class Misfit:
    """``found``: kinds of findings with the z of their strongest test, from the strongest down. "heavy", "groups",
    "bent", "zeros" and "margins"; ``tests`` are of every group, ``significant`` says which of them are."""

    tests: tuple[Tests, ...]
    significant: tuple[BoolArray, ...]
    found: tuple[tuple[str, float], ...]
    neighbours: tuple[float, float, float]
    dependent: bool

    def chosen(self, *kinds: str) -> list[tuple[Tests, int]]:
        """The significant tests of some kinds, the strongest first."""
        pairs = zip(self.tests, self.significant, strict=True)
        every = [(test, int(k)) for test, significant in pairs for k in np.flatnonzero(significant)]
        some = [(test, k) for test, k in every if str(test.kinds[k]) in kinds]
        return sorted(some, key=lambda each: -abs(each[0].z[each[1]]))

    def by_margins(self, d: int) -> BoolArray:
        """Which of d columns are in a group whose margins show more than its columns together, or that shows nothing.
        Columns with long tails make rows lie far out as well, but less clearly; of a t distribution it is the
        reverse."""
        which = np.ones(d, dtype=np.bool_)
        for test, significant in zip(self.tests, self.significant, strict=True):
            shows = test.shows
            own, size = shows == "margins", np.abs(test.z) * significant / np.where(shows == "heavy", _CLEARLY, 1.0)
            which[test.group] = size[~own].max() <= size[own].max()
        return which

    def columns_of(self, kind: str, d: int) -> FloatArray:
        """The z of the tests of single columns of a kind, 0 where they are not significant. Where all columns of a
        group together are, those count that are so at 5 % by themselves."""
        z = np.zeros(d)
        for test, significant in zip(self.tests, self.significant, strict=True):
            which = test.kinds == kind
            together = test.whole & which
            single = which & ~together
            counted = significant[single] | (significant[together].any() & (np.abs(test.z[single]) > _BESIDE))
            z[test.group] = test.z[single] * counted
        return z

    def skewness(self, d: int) -> Skewness:
        """Of every column, from these rows."""
        found = np.zeros((3, d))
        for test in self.tests:
            own = np.flatnonzero((test.kinds == "skewed") & ~test.whole)
            found[:, test.group] = test.z[own], 6.0 * test.size[own], np.diagonal(test.shift[own])
        return Skewness(*found)


def misfit_of(
    sample: RowSample, rows: RowParameters, correlation: FloatArray, left_out: BoolArray, monotone: BoolArray
) -> Misfit:
    """The tests of all columns but those ``left_out``; the tails of ``monotone`` margins are not tested."""
    seen = np.count_nonzero((sample.censoring == 0) & ~np.isnan(sample.values), axis=0)
    usable = (rows.std > 0.0) & (seen >= _FEWEST_SEEN)
    groups = groups_of(np.nan_to_num(correlation), usable & ~left_out)
    # So many of the rows, by whole runs of neighbours, as tests of that many groups may take.
    sample = sample.thinned(-(-len(sample.rows) * len(groups) // _MOST_ROWS))
    if not groups or len(sample.rows) < _FEWEST_ROWS:
        return Misfit((), (), (), (0.0, 0.0, 1.0), False)
    with one_blas_thread():
        tests = tuple(map_in_threads(partial(group_tests, sample, rows, correlation, n_groups=len(groups)), groups))
    neighbours = neighbours_of(sample.rows, np.column_stack([test.means for test in tests]))
    alike = neighbours[0] > float(-ndtri(_ALARM))
    dependent = alike and neighbours[2] > _DEPENDENT and not is_sorted(sample)
    if alike:
        tests = tuple(replace(t, z=t.z / np.sqrt(np.quantile(inflation(sample.rows, t.h), _MOST))) for t in tests)
    levels = _levels(tests)
    significant = tuple(
        _significant(test, level, rows, monotone, sample.cut) for test, level in zip(tests, levels, strict=True)
    )
    return Misfit(tests, significant, _strongest(tests, significant, levels), neighbours, dependent)


def _levels(tests: Sequence[Tests]) -> list[FloatArray]:
    """|z| from which on a test is significant: every kind has its share of alarms, among all groups together. Half of a
    share is for the sums over columns, where a kind has them."""
    levels = [np.empty(len(test.z)) for test in tests]
    for kind in np.unique(tests[0].kinds):
        for whole in (False, True):
            which = [(test.kinds == kind) & (test.whole == whole) for test in tests]
            number = sum(int(np.count_nonzero(each)) for each in which)
            both = kind in ("tails", "zeros", "skewed") and len(tests[0].group) > 1
            sides = 1.0 if kind == "zeros" else 2.0
            level = -ndtri(_ALARM / sides * (0.5 if both else 1.0) / max(number, 1))
            for each, at, test in zip(levels, which, tests, strict=True):
                each[at] = level * (1.0 + _SLACK / test.seen)
    return levels


def _significant(test: Tests, level: FloatArray, rows: RowParameters, monotone: BoolArray, cut: bool) -> BoolArray:
    """Tests that are significant, could show something, and matter."""
    # A monotone margin is normal by construction, fewer cut-off cells are no finding, and tails that were cut are
    # short. Columns with short tails, such as a margin may leave, are no groups of rows.
    short = (test.z > 0.0) & (np.isin(test.kinds, ["far", "tails"]) | (cut & (test.kinds == "axis")))
    of_monotone = np.array([bool(monotone[list(columns)].any()) for columns in test.columns])
    zeros, margin = test.kinds == "zeros", np.isin(test.kinds, ["tails", "skewed"])
    open_tests = ~short & ~(margin & of_monotone) & ~(zeros & (test.z < 0.0))
    # What moves means must move one by half its standard error; the others, which harm intervals and predictions, must
    # be no smaller than a tenth of a standard deviation of what rows have.
    error = rows.mean_stderr[test.group] / rows.std[test.group]
    with np.errstate(invalid="ignore"):
        moved = np.any(~(np.abs(test.shift) < _HARM * error), axis=1)
    matters = (np.abs(test.z) / np.sqrt(len(test.h)) > _EFFECT) | (test.shows == "margins")
    return np.asarray(open_tests & (np.abs(test.z) > level) & np.where(zeros, moved, matters))


def _strongest(
    tests: Sequence[Tests], significant: Sequence[BoolArray], levels: Sequence[FloatArray]
) -> tuple[tuple[str, float], ...]:
    """Kinds of findings, from the strongest down; each is what is left when those before it are taken off."""
    z = [test.z * each for test, each in zip(tests, significant, strict=True)]
    found: list[tuple[str, float]] = []
    over: set[str] = set()
    taken = [np.zeros(len(test.z), dtype=bool) for test in tests]
    while True:
        best = max((float(np.abs(left).max()), i, int(np.abs(left).argmax())) for i, left in enumerate(z))
        if best[0] == 0.0 or (found and best[0] < _WEAK * found[0][1]):
            return tuple(found)
        kind = str(tests[best[1]].shows[best[2]])
        found.append((kind, best[0]))
        # Tails are long or short, and each finding comes once.
        over |= {"heavy", "groups"} if kind in ("heavy", "groups") else {kind}
        for i, test in enumerate(tests):
            taken[i] |= significant[i] & (test.shows == kind)
            left = test.z
            if taken[i].any():  # the z of all tests when what those taken explain is taken off
                among = test.together[np.ix_(taken[i], taken[i])] + 1e-3 * np.eye(int(taken[i].sum()))
                along = np.linalg.solve(among, test.together[taken[i]])
                own = 1.0 - (along * test.together[taken[i]]).sum(axis=0)
                left = (left - left[taken[i]] @ along) / np.sqrt(np.maximum(own, _OWN))
                left = np.clip(left, -np.abs(test.z), np.abs(test.z)) * (own > _OWN)
            left = left * significant[i] * ~np.isin(test.shows, list(over))
            z[i] = left * (np.abs(left) > levels[i])


# --- the tests of one group --------------------------------------------------------------------------


def groups_of(correlation: FloatArray, usable: BoolArray) -> list[Index]:
    """Columns that predict each other best, a few together; one that repeats another is left out."""
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


def group_tests(
    sample: RowSample, rows: RowParameters, correlation: FloatArray, group: Index, n_groups: int = 1
) -> Tests:
    """The tests of one group, of so many."""
    mean, std, d = rows.mean[group], rows.std[group], len(group)
    u = np.clip((sample.values[:, group] - mean) / std, -_GROSS, _GROSS, order="C")
    marks = np.ascontiguousarray(sample.censoring[:, group])
    values, vectors = np.linalg.eigh(np.nan_to_num(correlation[np.ix_(group, group)]))
    lifted = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T  # of pairs learned one by one: to invert it
    unit = np.sqrt(np.diagonal(lifted))
    r = np.asarray(lifted / np.outer(unit, unit))
    n = len(u)
    # And so many that every two columns are often enough both seen: what is rare explains too much of itself.
    shown = ((marks == 0) & ~np.isnan(u)).astype(np.float64)
    seldom = max(float((shown.T @ shown).min()) / n, 1.0 / n)
    many = max(_FEWEST_SIMULATED, _IN_ALL // n_groups, _SIMULATED * n, int(min(_BOTH_SEEN / seldom, _MOST_SIMULATED)))
    rng = np.random.default_rng(0)
    g, scores, _ = numbers_of(*_simulated(u, marks, (rows.floor[group] - mean) / std, r, many, rng), r)
    design = np.column_stack([np.ones(many), scores])
    explained, *_ = np.linalg.lstsq(design, g, rcond=1e-10)
    h = g - design @ explained
    own, scores, means = numbers_of(u, marks, r)
    mine = own - np.column_stack([np.ones(n), scores]) @ explained
    variance = np.maximum(_variance_elsewhere(design, g), 1e-12)
    weights = sample.weights / sample.weights.mean()
    squares, expected = float(weights @ weights), weights @ mine / n
    if seldom * n < _FEW_BOTH:  # some numbers are as rarely large as that: the rows' own spread says how large they are
        variance = np.maximum(variance, weights @ (mine - expected) ** 2 / n)
    skewness = (h * h * h).mean(axis=0) / variance**1.5
    spread = np.sqrt(variance * (squares / n**2 + 1.0 / many))
    along = (h * g).mean(axis=0)
    along = np.where(along > 1e-9, along, np.inf)
    kinds, columns = _list_of(d)
    size = expected / along
    return Tests(
        group=group,
        kinds=kinds,
        columns=tuple(tuple(group[list(each)].tolist()) for each in columns),
        whole=np.isin(kinds, ["tails", "zeros", "skewed"]) & np.array([len(each) > 1 for each in columns]),
        z=normalized(expected / spread, skewness * np.sqrt(squares) / n),
        size=size,
        error=spread / along,
        shift=size[:, None] * explained[1 : 1 + d].T,
        together=(h / np.sqrt(variance)).T @ (h / np.sqrt(variance)) / many,
        h=mine,
        means=means,
        seen=int(np.count_nonzero((marks == 0) & ~np.isnan(u), axis=0).min()),
    )


def _variance_elsewhere(design: FloatArray, g: FloatArray) -> FloatArray:
    """The variance of what a half of the rows leaves unexplained of the other half.

    Where a number is rarely large, such as one of two columns that are both seldom seen, too little of it is left in
    the rows that explain it.
    """
    found = np.zeros(g.shape[1])
    for half in range(2):
        mine, other = slice(half, None, 2), slice(1 - half, None, 2)
        explained, *_ = np.linalg.lstsq(design[mine], g[mine], rcond=1e-10)
        found += ((g[other] - design[other] @ explained) ** 2).sum(axis=0) / len(g)
    return found


def _simulated(
    u: FloatArray, marks: Censoring, floor: FloatArray, r: FloatArray, many: int, rng: Generator
) -> tuple[FloatArray, Censoring]:
    """Rows of the model, cut off and missing as those of the sample. Where cells have limits of their own, only those
    of cut-off cells are in the table: one at l stands for 1/P(u < l) cells."""
    y = rng.standard_normal((many, len(r))) @ np.linalg.cholesky(r).T
    like = rng.permutation(many) % len(u)
    censoring = np.zeros(y.shape, dtype=np.int8)
    for j in range(len(r)):
        limits = {-1: np.full(many, floor[j]), 1: np.full(many, np.inf)}
        observed = np.count_nonzero(~np.isnan(u[:, j]))
        for side in (-1, 1) if np.isneginf(floor[j]) else ():
            at = u[marks[:, j] == side, j]
            if len(at) > 0:
                share = 1.0 / np.maximum(ndtr(-side * at), 0.03) / observed
                drawn = np.searchsorted(np.cumsum(share / max(1.0, share.sum())), rng.random(many))
                limits[side] = np.where(drawn < len(at), at[np.minimum(drawn, len(at) - 1)], side * np.inf)
        low, high = limits[-1], limits[1]
        censoring[:, j] = (y[:, j] >= high).astype(np.int8) - (y[:, j] <= low)
        y[:, j] = np.clip(y[:, j], low, high)
    missing = np.isnan(u[like])
    censoring[missing] = 0
    y[missing] = np.nan
    return y, censoring


def _list_of(d: int) -> tuple[NDArray[np.str_], list[tuple[int, ...]]]:
    """Kinds and columns of the tests of d columns, in the order of :func:`numbers_of`."""
    every = tuple(range(d))
    single: list[tuple[int, ...]] = [(j,) for j in range(d)]
    and_sum = [*single, every] if d > 1 else single
    parts: list[tuple[str, list[tuple[int, ...]]]] = [
        ("far", [every]),
        ("tails", and_sum),
        ("axis", [every] * d),
        ("lopsided", [every] * d),
        ("bent", list(permutations(range(d), 2))),
        ("zeros", and_sum),
        ("skewed", and_sum),
    ]
    kinds = np.array([kind for kind, which in parts for _ in which])
    return kinds, [columns for _, which in parts for columns in which]


def numbers_of(u: FloatArray, censoring: Censoring, r: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(numbers g, n x K, scores, means of the cells) of rows in standard units."""
    n, d = u.shape
    q = np.ascontiguousarray(np.linalg.inv(r))
    scores, cavities = np.empty((n, d + d * (d + 1) // 2)), np.ones((2, n, d))
    rest = np.empty(n), np.empty(n), scores, cavities
    covariance_scores(u, censoring, np.zeros(d), q, 0.0, *rest)
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
    tails, w = np.log1p(own / _HEAVY_DEGREES), np.clip(e @ axes, -_FARTHEST, _FARTHEST)
    first, second = np.nonzero(~np.eye(d, dtype=bool))
    unexplained = np.clip(residual / np.sqrt(np.diagonal(q)), -_FARTHEST, _FARTHEST)
    # Of every cell, 0 where it is missing.
    cut, side, observed = censoring != 0, censoring.astype(np.float64), ~np.isnan(u)
    x = np.where(observed, u, 0.0)
    p = ndtr(np.where(cut, side * (cavities[0] - x), 0.0) / np.sqrt(np.maximum(cavities[1], 1e-12)))
    zeros = np.where(cut, 1.0 / np.maximum(p, _LEAST) - 1.0, -1.0) * observed
    near = np.clip(x, -_FARTHEST, _FARTHEST)
    edge = np.exp(-0.5 * near**2) / np.sqrt(2.0 * np.pi) / np.maximum(ndtr(-side * near), 1e-6)
    skewed = np.where(cut, side * edge * (near**2 - 1.0), near * (near * near - 3.0)) * observed
    if d > 1:  # and their sums over the columns
        tails, zeros, skewed = (np.column_stack([each, each.sum(axis=1)]) for each in (tails, zeros, skewed))
    g = [
        np.log1p(along.sum(axis=1) / _HEAVY_DEGREES)[:, None],
        tails,
        np.log1p(along / _HEAVY_DEGREES),
        w * w * w,
        unexplained[:, second] * (np.minimum(own, 9.0) - 1.0)[:, first],
        zeros,
        skewed,
    ]
    return np.column_stack(g), scores, e


# --- skewness of a column -----------------------------------------------------------------


class Skewness(NamedTuple):
    """Per column: ``z``, standard normal if the column is what the model says; the ``skewness`` of the latent normal
    that would explain it, and by how much the latent mean is then off, in latent standard deviations (first order)."""

    z: FloatArray
    skewness: FloatArray
    shift: FloatArray


def normalized(z: FloatArray, skewness: FloatArray) -> FloatArray:
    """A standardized number with that skewness as a standard normal one (Anscombe and Glynn 1983)."""
    sign = np.where(skewness < 0.0, -1.0, 1.0)
    size = np.maximum(np.abs(skewness), 1e-6)
    a = 6.0 + 8.0 / size * (2.0 / size + np.sqrt(1.0 + 4.0 / size**2))
    distance = np.maximum(1.0 + sign * z * np.sqrt(2.0 / (a - 4.0)), 1e-9)
    moved = (1.0 - 2.0 / (9.0 * a) - np.cbrt((1.0 - 2.0 / a) / distance)) / np.sqrt(2.0 / (9.0 * a))
    return np.asarray(sign * moved)
