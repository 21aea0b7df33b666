"""The check of a fit on one screen: rows of the table, a model of them, tables of the model with models of their own,
p-values; and what it gives.

A table of n rows is fitted and compared with its fit. So is each of B tables that the fitted model gives, with the same
number of rows, the same cells missing, and rounded as the table is: whatever a fit does to the statistics, it does to
all of them alike, and the table's rank among them is its p-value (a parametric bootstrap). How tables are fitted is the
caller's: a function of values and columns, or a model that is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from unrelu.checks.statistics import (
    Standardized,
    column_statistics,
    overall,
    p_values_of,
    pair_statistics,
    quadrants,
    standardized,
)
from unrelu.contracts import Assumptions, BoolArray, FloatArray, Progress, Samples, Step
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.model import RectifiedGaussian
from unrelu.notebook import Shown, facts_html, plain_fields
from unrelu.passes.engine import available_cores, engine_for, map_in_threads, one_blas_thread
from unrelu.passes.tiles import SubsampleQuestion, seen_above
from unrelu.tables.write import names_or_numbers
from unrelu.validation import counted, listed

MOST_ROWS = 5000
_FEWEST_ROWS, _FEWEST_SEEN, _FEWEST_DIFFERENT, _FEWEST_SIMULATIONS = 20, 10, 3, 19
_COPIES = 0.01  # of the values seen, from which a column is taken for rounded
_COARSE = 50  # different values or fewer: counts, perhaps
_MOST_PAIRS = 20_000  # that are tested: those of the strongest correlations
_ATTEMPTS = 20  # at a simulated table that can be learned
_POINTS, _BAND = 60, 0.99
_OF_PAIRS = ("pair_statistic", "pair_p_value", "pair_adjusted", "observed", "expected")

Columns = NDArray[np.intp]


Fit: TypeAlias = Callable[[FloatArray, Columns], RectifiedGaussian]
"""How values of some columns, given by their positions, are fitted."""


@dataclass(frozen=True)
class Remedy:
    """Something that was tried where a model does not fit.

    ``gain``: by how much the log density of rows that the fit has not seen is larger, on average, than by the model in
    force. ``helps``: that is more than chance, and less fails, or the model then ``fits``; ``note``: what is better, or
    why the remedy is none.
    """

    name: str
    gain: float
    helps: bool = False
    fits: bool = False
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class FitCheck(Shown):
    """Does the model fit? All arrays are plain; those of columns have d numbers, those of pairs d x d (NaN diagonal).

    ``p_value``: of the whole table, right however many columns there are; ``columns_p_value`` and ``pairs_p_value`` of
    all columns and of all pairs together. ``column_p_value`` and ``pair_p_value`` are of each by itself, the
    ``adjusted`` ones allow for there being many. NaN where nothing can be tested: columns ``left_out`` (with the
    reason), and columns with a monotone margin, whose margin fits always. ``coarse`` columns have few different values.

    ``column_distance``: the largest difference of the distribution functions of table and model, a share of the rows.
    ``quantiles``: 4 x points x d, in the table's units: of the table, of the model, and where the table's would be 99
    times out of 100. ``observed`` and ``expected``: counts of rows, 2 x 2 x 2 x d x d: at two thresholds (the model's
    median and 80 % quantile of what is seen of a column), first column above it, second column above it.

    ``n_looked_at`` of ``n_rows`` rows were tested; ``n_outlier_rows`` more were left out by the robust method.
    ``refitted``: the model was fitted to them, and so were the simulated tables; else it was taken as given.
    ``tried``: remedies that were tried because it does not fit, those that help first.
    """

    names: tuple[str, ...]
    margins: tuple[str, ...]
    left_out: tuple[tuple[int, str], ...]
    coarse: tuple[bool, ...]
    n_rows: int
    n_looked_at: int
    n_outlier_rows: int
    n_simulations: int
    refitted: bool
    n_components: int | None
    level: float
    p_value: float
    columns_p_value: float
    pairs_p_value: float
    column_statistic: FloatArray
    column_p_value: FloatArray
    column_adjusted: FloatArray
    column_distance: FloatArray
    share_at_limit: FloatArray
    expected_share_at_limit: FloatArray
    pair_statistic: FloatArray
    pair_p_value: FloatArray
    pair_adjusted: FloatArray
    observed: FloatArray
    expected: FloatArray
    quantiles: FloatArray
    tried: tuple[Remedy, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the table is no more outlying than tables of the model: its p-value is above the level."""
        return not self.p_value <= self.level

    def worst_columns(self, most: int = 10) -> list[int]:
        """Columns that were tested, those that fit worst first."""
        order = np.lexsort((-self.column_statistic, self.column_p_value, self.column_adjusted))
        return [int(j) for j in order if not np.isnan(self.column_p_value[j])][:most]

    def worst_pairs(self, most: int = 10) -> list[tuple[int, int]]:
        """Pairs of columns that were tested, those that fit worst first."""
        first, second = np.triu_indices(len(self.names), 1)
        keys = (-self.pair_statistic, self.pair_p_value, self.pair_adjusted)
        order = np.lexsort([key[first, second] for key in keys])
        pairs = [(int(first[k]), int(second[k])) for k in order]
        return [pair for pair in pairs if not np.isnan(self.pair_p_value[pair])][:most]

    @property
    def misfits(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Columns and pairs that do not fit, allowing for their number; none where the model fits. A column that does
        not fit spoils its pairs, which are then not named."""
        if self.fits:
            return [], []
        columns = [j for j in self.worst_columns(len(self.names)) if self.column_adjusted[j] <= self.level]
        pairs = [pair for pair in self.worst_pairs(len(self.names) ** 2) if self.pair_adjusted[pair] <= self.level]
        return columns, [pair for pair in pairs if not {*pair} & {*columns}]

    @property
    def verdict(self) -> str:
        """One sentence: fits or not, which columns, what to do."""
        who = "The model" if self.refitted else "The given model"
        rows = f"{counted(self.n_looked_at, 'row')}, {counted(self.n_simulations, 'simulated table')}"
        seen = f"p = {self.p_value:.3g}; {rows}"
        if self.fits:
            return f"{who} fits: nothing in the table is further from it than chance has it ({seen})."
        columns, pairs = self.misfits
        parts = []
        if columns:
            margins = listed(sorted({self.margins[j] for j in columns}))
            counts = ", of few different values" if any(self.coarse[j] for j in columns) else ""
            parts.append(f"not {margins}{counts}: {listed(self.names[j] for j in columns)}")
        if pairs:
            named = listed(f"{self.names[i]} and {self.names[j]}" for i, j in pairs)
            parts.append(f"not related as in the model: {named}")
        what = "; ".join(parts) or "no single column or pair is to blame"
        if not self.refitted:
            return f"{who} does not fit ({seen}): {what}; fit a model to this table, and check that one."
        return f"{who} does not fit ({seen}): {what}. {self.advice}".rstrip()

    @property
    def advice(self) -> str:
        """What helps of all that was tried, and by how much; nothing where the model fits."""
        if not self.tried:
            return ""
        best = self.tried[0]
        if best.helps:
            likelier = f" (log density of rows held out: {best.gain:+.2g} each)" if best.gain > 0.0 else ""
            return f"{best.name} was tried and helps: {best.note}{likelier}."
        names = listed((remedy.name for remedy in self.tried), len(self.tried))
        whys = "; ".join(dict.fromkeys(remedy.note for remedy in self.tried if remedy.note))
        return f"Nothing that was tried helps ({names}){f': {whys}' if whys else ''}."

    def _repr_html_(self) -> str:
        return facts_html("FitCheck", {"verdict": self.verdict, **plain_fields(self)})

    def __repr__(self) -> str:
        return f"FitCheck({self.verdict})"


@dataclass(frozen=True)
class Simulations:
    """How many simulated tables, by what seed, and at which ``level`` a p-value says that the model does not fit."""

    number: int = 199
    seed: int = 0
    level: float = 0.05

    def __post_init__(self) -> None:
        if not (isinstance(self.number, int | np.integer) and self.number >= _FEWEST_SIMULATIONS):
            raise InvalidParameterError(
                f"n_simulations must be a whole number of at least {_FEWEST_SIMULATIONS}, got {self.number!r}."
            )
        if not 1.0 / (self.number + 1) <= self.level < 1.0:
            raise InvalidParameterError(
                f"level must be below 1 and at least 1/(n_simulations + 1) = {1.0 / (self.number + 1):.3g}, the least"
                f" p-value; got {self.level!r}."
            )


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table in the user's units, what is at a limit exactly there; ``n_rows``: of the whole table."""

    values: FloatArray
    n_rows: int
    assumptions: Assumptions
    names: tuple[str, ...]
    n_outliers: int = 0

    @property
    def seen(self) -> BoolArray:
        """Cells that are off their limit."""
        return np.asarray(self.values * self.assumptions.sign > np.array(self.assumptions.censored_at))


def sampled_rows(samples: Samples, assumptions: Assumptions, seed: int, progress: Progress) -> Rows:
    """A random sample of the rows, all of a short table; columns with ceilings are negated in ``samples``."""
    question = SubsampleQuestion.under(assumptions, MOST_ROWS, seed)
    sample = engine_for(samples, progress).collect(samples, question)
    sample.screening.check(assumptions, samples.feature_names)
    if len(np.unique(sample.weights)) > 1:
        raise InvalidParameterError(
            "A check counts every row once, and these have different sample weights: check a table without weights."
        )
    if len(sample.values) < _FEWEST_ROWS:
        raise InvalidDataError(
            f"The table has {counted(len(sample.values), 'row')}: a check needs at least {_FEWEST_ROWS}."
        )
    at_limit = sample.values <= seen_above(np.array(assumptions.censored_at), sample.values)
    values = np.where(at_limit, assumptions.floor, sample.values.astype(np.float64))
    names = names_or_numbers(samples.feature_names, samples.n_features)
    return Rows(values * assumptions.sign, sample.n_rows, assumptions, names)


def check_fit(rows: Rows, given: RectifiedGaussian | Fit, simulations: Simulations, progress: Progress) -> FitCheck:
    """The check of a model that is given, or of what ``given`` fits to values of some of the columns."""
    left_out = _left_out(rows, given)
    kept = np.array([j for j in range(len(rows.names)) if j not in left_out], dtype=np.intp)
    if not len(kept):
        why = listed(f"{rows.names[j]} ({reason})" for j, reason in left_out.items())
        raise InvalidDataError(f"No column can be checked: {why}. Add rows, or give other floors.")
    values, refitted = rows.values[:, kept], not isinstance(given, RectifiedGaussian)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table's fit gave its diagnostics
        model = given.marginal(kept.tolist()) if isinstance(given, RectifiedGaussian) else given(values, kept)
        grids = _grids(values, rows.seen[:, kept])
        tolerance = rows.assumptions.floor_tolerance
        # Pairs that are tested, by their places among all: those of the strongest correlations.
        strength = np.abs(model.correlation[np.triu_indices(model.n_features, 1)])
        pairs = np.sort(np.argsort(-strength, kind="stable")[:_MOST_PAIRS])

        def numbers(values: FloatArray, fitted: RectifiedGaussian) -> tuple[FloatArray, FloatArray]:
            table = Standardized.of(values, fitted, tolerance)
            return column_statistics(table), pair_statistics(table)[:, pairs]

        def simulated(number: int) -> tuple[FloatArray, FloatArray]:
            """The numbers of a simulated table, fitted like the table itself."""
            for attempt in range(_ATTEMPTS):
                rng = np.random.default_rng([simulations.seed, number, attempt])
                drawn = _rounded(model.sample(len(values), rng, as_seen=False), grids, model, tolerance)
                drawn[np.isnan(values)] = np.nan
                try:
                    return numbers(drawn, model if isinstance(given, RectifiedGaussian) else given(drawn, kept))
                except InvalidDataError:  # a column that is never above its floor in this one
                    continue
            raise InvalidDataError("Tables that the fitted model gives cannot be learned: add rows, or drop columns.")

        every = [numbers(values, model)]
        while len(every) <= simulations.number:
            progress(Step("Simulating tables", len(every) - 1, simulations.number))
            batch = range(len(every), min(len(every) + available_cores(), simulations.number + 1))
            every += map_in_threads(simulated, batch)
    kinds = ["normal"] * len(kept) if model.margins is None else [margin.kind for margin in model.margins]
    d, margins, coarse = len(rows.names), ["left out"] * len(rows.names), [False] * len(rows.names)
    for j, kind, grid in zip(kept, kinds, grids, strict=True):
        margins[j], coarse[j] = kind, grid is not None and len(grid) <= _COARSE
    table = Standardized.of(values, model, tolerance)
    columns, parts = np.stack([each for each, _ in every]), np.stack([each for _, each in every])
    columns[:, [kind == "monotone" for kind in kinds]] = np.nan
    found = {**_p_values(columns, parts, pairs), **_described(table), "quantiles": _quantiles(values, model, table)}
    return FitCheck(
        names=rows.names,
        margins=tuple(margins),
        left_out=tuple(left_out.items()),
        coarse=tuple(coarse),
        n_rows=rows.n_rows,
        n_looked_at=len(values),
        n_outlier_rows=rows.n_outliers,
        n_simulations=simulations.number,
        refitted=refitted,
        n_components=rows.assumptions.n_components,
        level=simulations.level,
        **{name: _among_all(each, d, kept, name in _OF_PAIRS) for name, each in found.items()},
    )


def _left_out(rows: Rows, given: RectifiedGaussian | Fit) -> dict[int, str]:
    """Columns that cannot be tested, and why."""
    found = {}
    for j, seen in enumerate(rows.seen.T):
        there = rows.values[~np.isnan(rows.values[:, j]), j]
        different = len(np.unique(rows.values[seen, j]))
        if not len(there):
            found[j] = "no value at all"
        elif there.min() == there.max() and seen.any():
            found[j] = "constant"
        elif isinstance(given, RectifiedGaussian) and given.std[j] == 0.0:
            found[j] = "constant in the model"
        elif np.count_nonzero(seen) < _FEWEST_SEEN:
            found[j] = f"{np.count_nonzero(seen)} values off its limit, {_FEWEST_SEEN} are needed"
        elif different < _FEWEST_DIFFERENT:
            found[j] = f"{different} different values off its limit, {_FEWEST_DIFFERENT} are needed"
    return found


def _grids(values: FloatArray, seen: BoolArray) -> list[FloatArray | None]:
    """The values that a column has, where so many of them are copies that it must be rounded; None elsewhere."""
    found: list[FloatArray | None] = []
    for column, off in zip(values.T, seen.T, strict=True):
        different = np.unique(column[off])
        found.append(different if len(different) <= (1.0 - _COPIES) * np.count_nonzero(off) else None)
    return found


def _rounded(
    values: FloatArray, grids: list[FloatArray | None], model: RectifiedGaussian, tolerance: float
) -> FloatArray:
    """Every value off its limit at the nearest one that its column has; those beyond an open end as they are. Ties
    alone would make a column fail: a test for continuous distributions takes a rounded normal for no normal. Rounding
    the simulated tables likewise asks the question that matters, whether the distribution behind the rounded numbers is
    the model's."""
    low, high = model.floor + tolerance, model.ceiling - tolerance
    for j, grid in enumerate(grids):
        if grid is not None:
            x = values[:, j]
            off = (x > low[j]) & (x < high[j])
            off &= (x >= grid[0]) | np.isfinite(low[j])
            off &= (x <= grid[-1]) | np.isfinite(high[j])
            values[off, j] = grid[np.searchsorted(0.5 * (grid[1:] + grid[:-1]), x[off])]
    return values


def _p_values(columns: FloatArray, parts: FloatArray, pairs: Columns) -> dict[str, Any]:
    """Of the whole table, and of columns and pairs, from the numbers of the table (first) and of simulated ones."""
    size = np.stack([standardized(part) for part in parts.transpose(1, 0, 2)])
    squares = np.where(np.isnan(size).all(axis=0), np.nan, np.nansum(size**2, axis=0))
    (column_p, column_adjusted, column_largest), (pair_p, pair_adjusted, pair_largest) = map(
        p_values_of, (columns, squares)
    )
    first, second = (each[pairs] for each in np.triu_indices(columns.shape[1], 1))

    def matrix(numbers: FloatArray) -> FloatArray:
        whole = np.full((columns.shape[1], columns.shape[1]), np.nan)
        whole[first, second] = whole[second, first] = numbers
        return whole

    return {
        "p_value": overall(column_largest, pair_largest),
        "columns_p_value": overall(column_largest),
        "pairs_p_value": overall(pair_largest),
        "column_statistic": columns[0],
        "column_p_value": column_p,
        "column_adjusted": column_adjusted,
        "pair_statistic": matrix(squares[0]),
        "pair_p_value": matrix(pair_p),
        "pair_adjusted": matrix(pair_adjusted),
    }


def _described(table: Standardized) -> dict[str, FloatArray]:
    """What tables show beside the p-values."""
    distances = []  # the largest difference of the distribution functions over what is seen
    for u, seen in zip(table.u.T, table.seen.T, strict=True):
        ordered = np.sort(u[~np.isnan(u)])
        steps = np.searchsorted(ordered, u[seen], side="right"), np.searchsorted(ordered, u[seen], side="left")
        distances.append(max(float(np.abs(step / len(ordered) - ndtr(u[seen])).max()) for step in steps))
    observed, expected = quadrants(table)
    observed_cells = np.count_nonzero(~np.isnan(table.u), axis=0)
    return {
        "share_at_limit": 1.0 - np.count_nonzero(table.seen, axis=0) / observed_cells,
        "expected_share_at_limit": 1.0 - table.share_seen,
        "column_distance": np.array(distances),
        "observed": observed,
        "expected": expected,
    }


def _among_all(numbers: Any, d: int, kept: Columns, of_pairs: bool) -> Any:
    """Numbers of the columns that were kept, or of their pairs, among all, NaN for the others; one number as it is."""
    if isinstance(numbers, float):
        return numbers
    whole = np.full((*numbers.shape[:-2], d, d) if of_pairs else (*numbers.shape[:-1], d), np.nan)
    if of_pairs:
        whole[..., kept[:, None], kept] = numbers
    else:
        whole[..., kept] = numbers
    return whole


def _quantiles(values: FloatArray, model: RectifiedGaussian, table: Standardized) -> FloatArray:
    """4 x points x columns: of the table, of the model, low and high; NaN where there are fewer. The i-th smallest of n
    values is the model's quantile at a probability that has the distribution Beta(i, n - i + 1)."""
    latent, margins, tail = model.latent, model.margins, 0.5 * (1.0 - _BAND)
    found = np.full((4, _POINTS, values.shape[1]), np.nan)
    for j, seen in enumerate(table.seen.T):
        ordered = np.sort(values[~np.isnan(values[:, j]), j])
        n, edge = len(ordered), -ndtri(0.5 / len(ordered))
        inside = np.sort(values[seen, j])
        rank = np.unique(np.clip((n * ndtr(np.linspace(-edge, edge, _POINTS))).astype(int), 0, n - 1))
        rank = rank[(ordered[rank] >= inside[0]) & (ordered[rank] <= inside[-1])]
        p = np.stack([(rank + 0.5) / n, *(betaincinv(rank + 1, n - rank, q) for q in (tail, 1.0 - tail))])
        y = np.clip(latent.mean[j] + latent.std[j] * ndtri(p), latent.floor[j], latent.ceiling[j])
        found[:, : len(rank), j] = ordered[rank], *(y if margins is None else margins[j].from_latent(y))
    return found
