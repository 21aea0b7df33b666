"""Fits that are made again: of a table about which something is doubtful, and of what robust methods keep.

A table that was fitted without options, and about which something is doubtful: what can be done is done.

Bad cells and outlier rows: are they there, and is it better without them? That is asked where something about the fit
is doubtful, or a value lies far beyond what the middle of its column allows. Then ``method="robust_cells"`` learns the
table as well, and is taken if all rows are likelier by _GAIN_IN_ALL, and by _GAIN_EACH for every row and every further
cell that it leaves out: each is a parameter of the model in which an outlier has a mean of its own. Log densities
gained for each on tables of four columns (benchmarks/defaults): outlier rows 3 to 13, bad cells 4 to 17; heavy tails
and curves mostly below 3, or they leave other doubts. Cells that are at their limit for another reason are no parameter
each: one share is enough for them.

Columns that are told to be skewed, or to have long tails, become free, and all of them where rows come from groups.
What is below the floor of a free column goes on as a law has it that the column has rejected, which is told.

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
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from unrelu.checks.misfit import Look, look_at
from unrelu.contracts import Assumptions, BoolArray, Doubt, Evidence, FloatArray, LearningReport, Samples, Watch
from unrelu.errors import AssumptionWarning, InvalidDataError, UnreluError
from unrelu.fit.robust_rows.learn import RobustLearned
from unrelu.methods import Auto
from unrelu.passes.engine import engine_for
from unrelu.passes.rows import ArraySamples, all_values
from unrelu.passes.tiles import SubsampleQuestion, marks_of
from unrelu.shapes import Normal, Power, Shapes, same_shapes
from unrelu.tables.groups import LabelledRows
from unrelu.tables.prepared import Columns, prepared
from unrelu.validation import counted

_GAIN_IN_ALL, _GAIN_EACH = 6.0, 2.5
_FREE = 10.8  # log density by which a column must be likelier to be free (fit/marginals/shape_fitting.py)
_ODD = {"skewed", "heavy-tails", "groups", "bent", "excess-zeros", "gross-value", "empty-gap"}
_REMAINING = {"heavy-tails", "groups", "bent"}  # that no cell explains: what is left is not the model's either
_FREED = ("skewed", "heavy-tails")
_LIMITS = ("repeated-minimum", "repeated-maximum", "near-the-floor", "empty-gap", "gross-value")  # bend columns, too
_MUCH = 0.15  # of a column that is hidden, from which on it matters what it is like
_TIES = "ties"
_FEWEST_SEEN = 6
_UPPER, _LOWER = 0.88, 0.25  # levels of the quantiles from which the middle of a column is judged
_FAR = 4.5  # standard deviations of that middle
_BAD = 0.5  # weight below which a row or cell is left out
_AND_WERE = ", and were left out (values: the share of a column's cells)."
_KEPT = 0.5  # weight from which a row counts as genuine
_MOVED, _MOST_SHAPINGS = 0.005, 3  # share of the rows told otherwise that calls for other shapes, and how often
_IN_DOUBT = 0.01  # share of the rows left out, from which on exponents are
_MOST_ROWS, _MOST_STARTS = 2000, 4  # on which other starts are tried, and how many
_FEWEST_IN_GROUP = 0.01  # share of the rows in a group that may be genuine
_PRICE = 0.5  # nats that a row left out must gain
_MOST_NUMBERS = 33  # of a shape: as many as the slope of a free one has


Better: TypeAlias = tuple[Any, tuple[Doubt, ...], str]
"""A learner of the same rows that is better, what is doubtful about it besides its own doubts, and why it is."""


def better_fit(
    learner: Any,
    report: LearningReport,
    X: Any,
    sample_weight: Any,
    evidence: Evidence,
    assumptions: Assumptions,
    watch: Watch,
) -> Better | None:
    """What the doubts about a fitted learner ask for, done; None where they ask for nothing, or it is no better."""
    if not Auto().looks_twice(evidence.samples, assumptions):
        return None

    def fitted(**options: Any) -> Any:
        """The same learner with other options; None where it takes no such table, or too little of it."""
        other: Any = clone(learner).set_params(**options).watched_by(watch)
        try:
            return other.fit(X, sample_weight=sample_weight)
        except UnreluError:
            return None

    def gain(robust: Any) -> float:
        """The log density of all rows that is gained over the same columns with everything counted.

        Columns that only outliers make free follow them wherever they are. A fit that has them must be less likely all
        the same, but for the price of a free column.
        """
        densities, plain = robust.densities_with_outliers(X), learner
        free = [sum(shape.kind == "free" for shape in each or ()) for each in (assumptions.shapes, robust.shapes_)]
        if free[0] > free[1]:
            if _total(densities - plain.score_samples(X), sample_weight) < -_FREE * (free[0] - free[1]):
                return -np.inf
            alike = fitted(method=report.method, shape=list(robust.shapes_ or ()) or "normal")
            plain = learner if alike is None else alike
        return _total(densities - plain.score_samples(X), sample_weight)

    def without_bad_cells() -> Better | None:
        kinds, look = {doubt.kind for doubt in report.doubts}, look_at(evidence, assumptions)
        if _TIES in kinds or not (kinds & _ODD or (look is not None and has_far_values(look))):
            return None
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            other = fitted(method="robust_cells")
            if other is None or {doubt.kind for doubt in other.report_.doubts} & _REMAINING:
                return None
            doubt, price = _left_out(other, evidence, assumptions)
            if doubt is None or not gain(other) > price:
                return None
        warn_again(noted)
        return other, (doubt,), doubt.words.removesuffix(_AND_WERE)

    def with_free_columns() -> Better | None:
        shapes: list[Any] = list(assumptions.shapes or ["normal"] * len(assumptions.floor))
        groups = [doubt for doubt in report.doubts if doubt.kind == "groups"]
        bent = {j for doubt in report.doubts if doubt.kind in _FREED for j in doubt.columns}
        bent = {j for j in (range(len(shapes)) if groups else bent) if getattr(shapes[j], "kind", "normal") != "free"}
        if not bent:
            return None
        shapes = ["free" if j in bent else shape for j, shape in enumerate(shapes)]
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            other = fitted(method=report.method, shape=shapes)
        if other is None:
            return None
        warn_again(noted)
        kept = tuple(doubt for doubt in groups if doubt.kind not in {each.kind for each in other.report_.doubts})
        return other, kept, report.chosen_because

    return without_bad_cells() or with_free_columns()


def _total(of_rows: FloatArray, sample_weight: Any) -> float:
    """Of all rows, weighted as they are."""
    if sample_weight is None:
        return float(of_rows.sum())
    weights = np.asarray(sample_weight, dtype=np.float64)
    return float(weights @ of_rows) * len(of_rows) / float(weights.sum())


def _left_out(robust: Any, evidence: Evidence, assumptions: Assumptions) -> tuple[Doubt | None, float]:
    """What counts less than half, in words, None for nothing; and the log density that leaving it out must gain."""
    floor = np.array(assumptions.censoring)
    marks = [marks_of(b.some_rows(np.arange(b.n_rows)), b.beyond, floor)[1] for b in evidence.samples.blocks()]
    cut_off, bad = np.concatenate(marks) != 0, robust.cell_weights_ < _BAD
    rows = (robust.row_weights_ < _BAD) | (bad.mean(axis=1) > 0.5)
    cells, share = bad & ~rows[:, None], (bad | rows[:, None]).mean(axis=0)
    n_rows, n_cells, n_at_limit = int(rows.sum()), int((cells & ~cut_off).sum()), int((cells & cut_off).sum())
    if n_rows + n_cells + n_at_limit == 0:
        return None, np.inf
    numbers = ((n_rows, "row", ""), (n_cells, "single cell", ""), (n_at_limit, "cell", " at a limit"))
    what = ", ".join(f"{counted(number, noun)}{where}" for number, noun, where in numbers if number)
    columns = tuple(np.flatnonzero(share > 0.0).tolist())
    doubt = Doubt(
        "left-out",
        columns,
        f"{what} do not belong to what the others are like{_AND_WERE}",
        "Look at them: cell_weights_ below .5, or unrelu score --cells. To have them counted name a method,"
        " 'full_likelihood' or 'one_pass'.",
        tuple(share[list(columns)].tolist()),
    )
    return doubt, _GAIN_IN_ALL + _GAIN_EACH * (n_rows + n_cells)


def continued(report: LearningReport, shapes: Shapes | None) -> tuple[Doubt, ...]:
    """Of which columns much is hidden, and goes on as a law has it that the rest of the column rejects."""
    hidden = np.array(report.share_floored_by_column)
    explained = {j for doubt in report.doubts if doubt.kind in _LIMITS for j in doubt.columns}
    goes_on = [
        j for j, each in enumerate(shapes or ()) if getattr(each, "below", 0.0) + getattr(each, "above", 0.0) > 0.0
    ]
    columns = tuple(j for j in goes_on if hidden[j] > _MUCH and j not in explained)
    if not columns:
        return ()
    doubt = Doubt(
        "skewed",
        columns,
        "what is seen rejects a normal law (of positive columns a lognormal one) and has a curve of its own; what"
        " is hidden goes on as that law has it, and means, correlations and filled cells rest on it (values: the"
        " share that is hidden).",
        "Nothing in the table tells more of it. Take these numbers for rough, or lower the limits.",
        tuple(hidden[list(columns)].tolist()),
    )
    return (doubt,)


def has_far_values(look: Look) -> bool:
    """Whether a value lies farther out than a normal law allows that has the middle of its column.

    Of that law two quantiles are known: the upper one, and that of the share which is cut off, or the lower one.
    """
    for values, marks in zip(look.values.T, look.beyond.T, strict=True):
        known = ~np.isnan(values)
        seen, n = np.sort(values[known & (marks == 0)]), np.count_nonzero(known)
        below = np.count_nonzero(marks[known] < 0)
        if len(seen) < _FEWEST_SEEN:
            continue
        levels = (below + np.arange(len(seen)) + 0.5) / n
        low = max(_LOWER, float(levels[0]))
        high = max(_UPPER, float(np.quantile(levels, 0.6)))
        first, second = np.interp([low, high], levels, seen)
        width = float(ndtri(high) - ndtri(low))
        spread = (second - first) / width if width > 0.0 else 0.0
        if spread <= 0.0:
            continue
        centre = second - spread * ndtri(high)
        if seen[-1] - centre > _FAR * spread or (below == 0 and centre - seen[0] > _FAR * spread):
            return True
    return False


# --- shapes of what robust methods keep ------------------------------------------------------------


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
    """Give warnings that were noted, but for doubts: those of the fit that is taken are told at its end, once."""
    for each in noted:
        if not issubclass(each.category, AssumptionWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
