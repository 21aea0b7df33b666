"""A table that was fitted without options, and about which something is doubtful: what can be done is done.

Bad cells and outlier rows: are they there, and is it better without them? That is asked where something about the fit
is doubtful, or a value lies far beyond what the middle of its column allows. Then ``method="robust_cells"`` learns the
table as well, and is taken if all rows are likelier by _GAIN_IN_ALL, and by _GAIN_EACH for every row and every further
cell that it leaves out: each is a parameter of the model in which an outlier has a mean of its own. Log densities
gained for each on tables of four columns (benchmarks/defaults): outlier rows 3 to 13, bad cells 4 to 17; heavy tails
and curves mostly below 3, or they leave other doubts. Cells that are at their limit for another reason are no parameter
each: one share is enough for them.

Columns that are told to be skewed, or to have long tails, become free, and all of them where rows come from groups.
What is below the floor of a free column goes on as a law has it that the column has rejected, which is told.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from unrelu.contracts import Assumptions, BoolArray, Doubt, FloatArray
from unrelu.doubts.findings import warn_of
from unrelu.doubts.rows import Look, look_at
from unrelu.errors import UnreluError
from unrelu.evidence import SampleEvidence
from unrelu.posterior.cells import marks_of
from unrelu.samples.blocks import rows_in, some_rows
from unrelu.validation import counted

if TYPE_CHECKING:
    from unrelu.estimators.learner import RectifiedGaussianLearner

_GAIN_IN_ALL, _GAIN_EACH = 6.0, 2.5
_FREE = 10.8  # log density by which a column must be likelier to be free (marginals/shape_fitting.py)
_ODD = {"skewed", "heavy tails", "groups", "bent", "zeros for another reason", "gross value", "empty gap"}
_REMAINING = {"heavy tails", "groups", "bent"}  # that no cell explains: what is left is not the model's either
_FREED = ("skewed", "heavy tails")
_LIMITS = ("repeated minimum", "repeated maximum", "near the floor", "empty gap", "gross value")  # bend columns, too
_MUCH = 0.15  # of a column that is hidden, from which on it matters what it is like
_TIES = "ties"
_FEWEST_SEEN = 6
_UPPER, _LOWER = 0.88, 0.25  # levels of the quantiles from which the middle of a column is judged
_FAR = 4.5  # standard deviations of that middle
_BAD = 0.5  # weight below which a row or cell is left out


def better_without(
    learner: RectifiedGaussianLearner, X: Any, sample_weight: Any, evidence: SampleEvidence, assumptions: Assumptions
) -> RectifiedGaussianLearner | None:
    """A learner of the same rows that leaves some cells out, where that is clearly better; None elsewhere."""
    doubts, look = {doubt.kind for doubt in learner._result().report.doubts}, look_at(evidence, assumptions)
    if _TIES in doubts or not (doubts & _ODD or (look is not None and has_far_values(look))):
        return None
    other: RectifiedGaussianLearner = clone(learner).set_params(method="robust_cells").watched_by(learner._watch)
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            other.fit(X, sample_weight=sample_weight)
            remaining = {doubt.kind for doubt in other._result().report.doubts}
            without = LeftOut.of(other, at_limits(evidence, assumptions))
            if remaining & _REMAINING or not without.is_worth(_gain(learner, other, X, sample_weight)):
                return None
    except UnreluError:  # it leaves too little, or takes no such table
        return None
    for each in noted:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    without.tell(other)
    return other


def with_free_columns(learner: RectifiedGaussianLearner, X: Any, sample_weight: Any) -> RectifiedGaussianLearner | None:
    """A learner of the same rows whose columns are free where the doubts ask for it; None where none do."""
    if not (isinstance(learner.shape, str) and learner.shape == "auto"):
        return None
    doubts = learner._result().report.doubts
    shapes: list[Any] = list(learner.shapes_ or ["normal"] * learner.n_features_in_)
    groups = [doubt for doubt in doubts if doubt.kind == "groups"]
    bent = {j for doubt in doubts if doubt.kind in _FREED for j in doubt.columns}
    bent = {j for j in (range(len(shapes)) if groups else bent) if getattr(shapes[j], "kind", "normal") != "free"}
    if not bent:
        return None
    shapes = ["free" if j in bent else shape for j, shape in enumerate(shapes)]
    other: RectifiedGaussianLearner = clone(learner).set_params(method=learner._result().report.method, shape=shapes)
    other.watched_by(learner._watch)
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            other.fit(X, sample_weight=sample_weight)
    except UnreluError:  # a column has too few values to be free
        return None
    for each in noted:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    kept = [doubt for doubt in groups if doubt.kind not in {each.kind for each in other._result().report.doubts}]
    _add(other, kept, learner._result().report.chosen_because)
    return other


def tell_continued(learner: RectifiedGaussianLearner) -> None:
    """Say of which columns much is hidden, and goes on as a law has it that the rest of the column rejects."""
    report, shapes = learner._result().report, learner.shapes_ or ()
    hidden = np.array(report.share_floored_by_column)
    explained = {j for doubt in report.doubts if doubt.kind in _LIMITS for j in doubt.columns}
    goes_on = [j for j, shape in enumerate(shapes) if getattr(shape, "below", 0.0) + getattr(shape, "above", 0.0) > 0.0]
    columns = tuple(j for j in goes_on if hidden[j] > _MUCH and j not in explained)
    if columns:
        doubt = Doubt(
            "skewed",
            columns,
            "what is seen rejects a normal law (of positive columns a lognormal one) and has a curve of its own; what"
            " is hidden goes on as that law has it, and means, correlations and filled cells rest on it (values: the"
            " share that is hidden).",
            "Nothing in the table tells more of it. Take these numbers for rough, or lower the limits.",
            tuple(hidden[list(columns)].tolist()),
        )
        _add(learner, [doubt], report.chosen_because)


def _add(learner: RectifiedGaussianLearner, doubts: list[Doubt], because: str) -> None:
    """Put doubts before the others, and warn of them."""
    warn_of(doubts, learner._names())
    learned = learner._result()
    report = replace(learned.report, doubts=(*doubts, *learned.report.doubts), chosen_because=because)
    learner._learned = replace(learned, report=report)


def has_far_values(look: Look) -> bool:
    """Whether a value lies farther out than a normal law allows that has the middle of its column.

    Of that law two quantiles are known: the upper one, and that of the share which is cut off, or the lower one.

    >>> rng = np.random.default_rng(0)
    >>> values = rng.standard_normal((100, 2))
    >>> rows, marks, weights = np.arange(100), np.zeros((100, 2), dtype=np.int8), np.ones(100)
    >>> has_far_values(Look(rows, values, marks, weights))
    False
    >>> values[7, 1] = 9.0
    >>> has_far_values(Look(rows, values, marks, weights))
    True
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


def _gain(plain: RectifiedGaussianLearner, robust: RectifiedGaussianLearner, X: Any, sample_weight: Any) -> float:
    """The log density of all rows that is gained; columns that only outliers make free have a price."""
    gains = robust.densities_with_outliers(X) - plain.score_samples(X)
    weights = np.ones(len(gains)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    free = [sum(shape.kind == "free" for shape in each.shapes_ or ()) for each in (plain, robust)]
    return float(weights @ gains) * len(gains) / float(weights.sum()) + _FREE * (free[0] - free[1])


def at_limits(evidence: SampleEvidence, assumptions: Assumptions) -> BoolArray:
    """Which cells are cut off."""
    floor = np.array(assumptions.censoring)
    marks = [marks_of(some_rows(b, np.arange(rows_in(b))), b.beyond, floor)[1] for b in evidence.samples.blocks()]
    return np.asarray(np.concatenate(marks) != 0)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """How many rows, cells of other rows, and cells at a limit count less than half, and the share of every column."""

    rows: int
    cells: int
    at_limit: int
    share: FloatArray

    @classmethod
    def of(cls, robust: RectifiedGaussianLearner, cut_off: BoolArray) -> LeftOut:
        bad = robust.cell_weights_ < _BAD
        rows = (robust.row_weights_ < _BAD) | (bad.mean(axis=1) > 0.5)
        cells, share = bad & ~rows[:, None], (bad | rows[:, None]).mean(axis=0)
        return cls(int(rows.sum()), int((cells & ~cut_off).sum()), int((cells & cut_off).sum()), share)

    def is_worth(self, gain: float) -> bool:
        """Whether the rows are so much likelier without it that each of it is worth a parameter."""
        some = self.rows + self.cells + self.at_limit > 0
        return some and gain > _GAIN_IN_ALL + _GAIN_EACH * (self.rows + self.cells)

    @property
    def words(self) -> str:
        numbers = ((self.rows, "row", ""), (self.cells, "single cell", ""), (self.at_limit, "cell", " at a limit"))
        return ", ".join(f"{counted(number, noun)}{where}" for number, noun, where in numbers if number)

    def tell(self, robust: RectifiedGaussianLearner) -> None:
        """Put it first among the doubts, and warn of it."""
        columns = tuple(np.flatnonzero(self.share > 0.0).tolist())
        what = f"{self.words} do not belong to what the others are like"
        doubt = Doubt(
            "left out",
            columns,
            f"{what}, and were left out (values: the share of a column's cells).",
            "Look at them: cell_weights_ below .5, or unrelu score --cells. To have them counted name a method,"
            " 'full_likelihood' or 'one_pass'.",
            tuple(self.share[list(columns)].tolist()),
        )
        _add(robust, [doubt], what)
