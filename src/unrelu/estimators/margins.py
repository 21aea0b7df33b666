"""Shapes of columns, for every estimator: learned from one look at the rows, and again of what robust methods keep.

Shapes are learned before outliers are known, and outliers bend them. A bent exponent can confirm itself: under it the
genuine rows' own tail is a group of outliers, and the others, without their tail, have that exponent. So where rows are
left out of a table with exponents, the fit starts again from those that the kept rows have together with one of the
groups that were left out. The start is taken under which

    sum_i log f(x_i) - log(n) (numbers learned)/2 - PRICE (rows left out),

f the density of a row, outlier or not, in the user's units, is highest, on 2,000 of the rows. The last term keeps
groups from buying genuine rows: some hundredths of a nat each are what a mixture of bent rows gains by them, and some
nats what one of outliers does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unrelu.contracts import BoolArray, Engine, Samples, Watch
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.fit.robust_rows.learn import RobustLearned
from unrelu.limits import Limits
from unrelu.passes.columns import Margins, MarginsQuestion
from unrelu.passes.engine import engine_for
from unrelu.passes.rows import ArraySamples, all_values
from unrelu.passes.tiles import ScreeningQuestion, SubsampleQuestion
from unrelu.shapes import Log, Normal, Power, Shape, same_shapes, shape_requests
from unrelu.tables.groups import LabelledRows
from unrelu.tables.prepared import Columns, PreparedRows, prepared

_FEWEST = 20  # cells of a first part that tell whether a column is positive
_LARGE = 2**24  # cells of a sparse matrix, zeros included, beyond which its columns are taken for normal
_KEPT = 0.5  # weight from which a row counts as genuine
_MOVED, _MOST_SHAPINGS = 0.005, 3  # share of the rows told otherwise that calls for other shapes, and how often
_IN_DOUBT = 0.01  # share of the rows left out, from which on exponents are
_MOST_ROWS, _MOST_STARTS = 2000, 4  # on which other starts are tried, and how many
_FEWEST_IN_GROUP = 0.01  # share of the rows in a group that may be genuine
_PRICE = 0.5  # nats that a row left out must gain
_MOST_NUMBERS = 33  # of a shape: as many as the slope of a free one has


# --- one look ---------------------------------------------------------------------------------------


def learn_shapes(
    shape: Any,
    samples: Samples,
    columns: Columns,
    watch: Watch,
    *,
    by_parts: bool = False,
    tested: bool = True,
    outliers: str = "none",
    standard: bool = False,
) -> Columns:
    """The columns with their shapes as asked for; a floor of 0 that no value of a column reaches is then none.

    ``by_parts``: the rows are the first of those to be learned from; they tell which columns are positive, no more.
    ``tested``: columns may reject the law that "auto" takes first. ``outliers``: "none" are expected, some rows may be
    but it is "unknown" which, or these are left "out". ``standard``: free columns all have a spread of 1.
    """
    columns, names = replace(columns, shapes=None), samples.feature_names
    requests = shape_requests(shape, samples.n_features, names)
    if all(request == "normal" for request in requests):
        return columns
    left_open = all(isinstance(request, str) and request in ("normal", "auto") for request in requests)
    source = samples.source
    large = source.matrix is not None and (source.n_rows or 0) * source.n_features > _LARGE
    if left_open and (large or samples.read_once):
        return columns
    if columns.tolerance:
        if left_open:
            return columns  # noise after the floor is of normal columns
        raise InvalidParameterError(
            "floor_tolerance goes with shape='normal' alone: set values within it of the floor to the floor."
        )
    # Fits of normal columns need not wait for it.
    from unrelu.fit.margins import EXTREME_WITH_OUTLIERS, chosen_kinds, fit_shapes, refuse_tiny_values, unreached_floors

    engine = engine_for(samples, watch, "Looking at the columns' shapes")
    rows = PreparedRows(samples, columns, "upright")
    margins = _looked_at(rows, columns, engine)
    refuse_tiny_values(margins, names)
    normal = np.array([request == "normal" for request in requests])
    none = np.zeros_like(normal)  # of the limits are the table's own, or were given one by one
    without = unreached_floors(margins, Limits(columns.floor, columns.ceiling, none, none, none)) & ~normal
    if by_parts:  # what comes later may be at a floor that few rows have not reached
        few = without & (margins.rows < _FEWEST)
        requests = ["normal" if r == "auto" and some else r for r, some in zip(requests, few, strict=True)]
        without &= ~few
    limits = Limits(np.where(without, -np.inf, columns.floor), columns.ceiling, none, none, none)
    unknown = outliers == "unknown"
    if unknown:  # what bends is learned again without them
        requests = ["auto" if isinstance(each, str) and each in ("power", "free") else each for each in requests]
    tested = tested and not by_parts and not unknown
    kinds = chosen_kinds(requests, margins, limits, tested, bent=outliers != "none")
    without &= np.array([kind != "normal" for kind in kinds])  # what is constant so far may reach its floor yet
    columns = replace(columns, floor=np.where(without, -np.inf, columns.floor))
    if all(kind == "normal" for kind in kinds):
        return columns
    if by_parts:
        fixed: dict[str, Shape] = {"normal": Normal(), "log": Log()}
        return replace(columns, shapes=tuple(fixed[kind] if isinstance(kind, str) else kind for kind in kinds))
    if not margins.whole and any(kind in ("free", "power") for kind in kinds):
        margins = engine.collect(rows, MarginsQuestion())
    extreme = EXTREME_WITH_OUTLIERS if unknown else 0.0
    return replace(columns, shapes=fit_shapes(kinds, margins, limits, names, extreme, standard))


def _looked_at(rows: PreparedRows, columns: Columns, engine: Engine) -> Margins:
    """The margins of a part of the rows. The first block that has bad cells ends the pass: those of all are told."""
    try:
        return engine.collect(rows, MarginsQuestion(in_part=True))
    except InvalidDataError as error:
        fault = error
    engine.collect(rows.turned, ScreeningQuestion(columns.plain.lowest)).check(columns.plain, rows.feature_names)
    raise fault


# --- of what robust methods keep --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fit:
    """What was learned of rows by their columns' shapes, and what was warned of meanwhile."""

    learned: Any
    columns: Columns
    noted: list[warnings.WarningMessage]

    @property
    def kept(self) -> BoolArray | None:
        """Which cells, or rows, are genuine; None where the method leaves none out."""
        weights: Any = getattr(self.learned, "cell_weights", getattr(self.learned, "row_weights", None))
        return None if weights is None else weights >= _KEPT

    @property
    def is_in_doubt(self) -> bool:
        """Whether rows that were left out may have other shapes to thank for it."""
        learned, shapes = self.learned, self.columns.shapes or ()
        if not isinstance(learned, RobustLearned) or not any(isinstance(shape, Power) for shape in shapes):
            return False
        return bool(len(learned.columns) == len(shapes) and np.mean(learned.row_weights < _KEPT) > _IN_DOUBT)


@dataclass(frozen=True)
class Reshaping:
    """How rows as the user has them are learned: ``learn`` from those of such columns, ``reshape`` columns by rows."""

    learn: Callable[[Samples, Columns], Any]
    reshape: Callable[[Samples, Columns], Columns]
    watch: Watch

    def learned(self, samples: Samples, columns: Columns) -> tuple[Any, Columns]:
        """What is learned, and by which shapes, with the warnings of the last fit alone."""
        fit = self._settled(samples, columns)
        if fit.is_in_doubt:
            fit = self._likelier(samples, fit)
        warn_again(fit.noted)
        return fit.learned, fit.columns

    def _fit(self, samples: Samples, columns: Columns) -> Fit:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            learned = self.learn(samples, columns)
        return Fit(learned, columns, noted)

    def _settled(self, samples: Samples, columns: Columns) -> Fit:
        """The fit whose shapes are those of the rows that it keeps. A column that the fit doubts keeps its shape: of
        what is bad in it, too, it would be made another one that hides it."""
        before: BoolArray | None = None
        for _ in range(_MOST_SHAPINGS):
            fit = self._fit(samples, columns)
            kept = fit.kept
            if kept is None or (before is not None and np.mean(kept != before) < _MOVED):
                return fit
            before = kept
            found = self.reshape(samples if kept.all() else LabelledRows(samples, kept=kept), columns)
            found = keeping(found, columns, getattr(fit.learned, "doubtful", ()))
            if same_shapes(columns.shapes, found.shapes):
                return replace(fit, columns=found)
            columns = found
        return self._fit(samples, columns)

    def _likelier(self, samples: Samples, fit: Fit) -> Fit:
        """The likeliest fit from this and other starts."""
        rows, whole = samples, len(fit.learned.row_weights) <= _MOST_ROWS
        if not whole:
            none = (-np.inf,) * samples.n_features
            some = engine_for(samples, self.watch).collect(samples, SubsampleQuestion(_MOST_ROWS, 0, none, none))
            rows = ArraySamples(some.values, some.weights, samples.feature_names, limits=samples.limits)
        first = best = fit if whole else self._settled(rows, fit.columns)
        level, starts = self._level(rows, best), self._starts(rows, best)
        for _ in range(_MOST_STARTS):
            start = next(starts, None) if best.is_in_doubt else None
            if start is None:
                break
            with suppress(InvalidDataError):  # of rows that cannot be learned from under such shapes
                if self._level(rows, self._fit(rows, start)) <= level:
                    continue
                other = self._settled(rows, start)
                if (found := self._level(rows, other)) > level and not _is_freer(other.columns, best.columns):
                    best, level, starts = other, found, self._starts(rows, other)
        if best is first:
            return fit
        return best if whole else self._settled(samples, best.columns)

    def _level(self, samples: Samples, fit: Fit) -> float:
        """How likely the rows are, outliers included, less what was paid for it; -inf where that cannot be said."""
        learned = fit.learned
        if len(learned.columns) < samples.n_features:
            return -np.inf
        rows = prepared(samples, fit.columns, screened=True)
        weights = np.concatenate([np.ones(len(b.values)) if b.weights is None else b.weights for b in samples.blocks()])
        weights = weights * (weights.sum() / np.sum(weights**2))  # Kish's effective number of rows is their sum
        densities = learned.mixture.posterior(all_values(rows))[1] + rows.log_slopes()
        of_shapes = sum(min(shape.n_parameters, _MOST_NUMBERS) for shape in fit.columns.shapes or ())
        numbers = learned.mixture.n_parameters + of_shapes
        paid = 0.5 * np.log(weights.sum()) * numbers + _PRICE * float(weights @ (learned.row_weights < _KEPT))
        return float(weights @ densities - paid)

    def _starts(self, samples: Samples, fit: Fit) -> Iterator[Columns]:
        """Shapes of the kept rows and one group more, unless no power makes such columns normal."""
        mixture, kept = fit.learned.mixture, fit.kept
        assert kept is not None, "a robust fit says it"
        group = np.argmax(mixture.joint(all_values(prepared(samples, fit.columns, screened=True))), axis=1)
        for k in np.argsort(-mixture.shares).tolist():
            more = (group == k) & ~kept
            if more.mean() > _FEWEST_IN_GROUP and not (more | kept).all():
                found = self.reshape(LabelledRows(samples, kept=more | kept), fit.columns)
                if not _is_freer(found, fit.columns):
                    yield found


def keeping(found: Columns, before: Columns, at: tuple[int, ...]) -> Columns:
    """The columns as they were found, but for those ``at`` these positions, which stay as they were before."""
    if not at or found.shapes is None is before.shapes:
        return found
    normal = (Normal(),) * len(found.floor)
    mine, old, floor = list(found.shapes or normal), before.shapes or normal, found.floor.copy()
    for j in at:
        mine[j], floor[j] = old[j], before.floor[j]
    shapes = None if all(shape.kind == "normal" for shape in mine) else tuple(mine)
    return replace(found, shapes=shapes, floor=floor)


def _is_freer(found: Columns, before: Columns) -> bool:
    pairs = zip(found.shapes or (), before.shapes or (), strict=False)
    return any(new.kind == "free" != old.kind for new, old in pairs)


def warn_again(noted: list[warnings.WarningMessage]) -> None:
    """Give warnings that were noted."""
    for each in noted:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
