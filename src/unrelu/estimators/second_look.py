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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from unrelu.checks.rows import Look, look_at
from unrelu.contracts import Assumptions, BoolArray, Doubt, FloatArray, LearningReport, Watch
from unrelu.errors import UnreluError
from unrelu.passes.blocks import rows_in, some_rows
from unrelu.passes.evidence import SampleEvidence
from unrelu.posterior.cells import marks_of
from unrelu.shapes import Shapes
from unrelu.validation import counted

if TYPE_CHECKING:
    from unrelu.estimators.learner import RectifiedGaussianLearner

_GAIN_IN_ALL, _GAIN_EACH = 6.0, 2.5
_FREE = 10.8  # log density by which a column must be likelier to be free (fit/marginals/shape_fitting.py)
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


@dataclass(frozen=True, eq=False)
class Advice:
    """A learner of the same rows that is better, what is doubtful about it besides its own doubts, and why it is."""

    learner: RectifiedGaussianLearner
    doubts: tuple[Doubt, ...]
    because: str


@dataclass(frozen=True, eq=False)
class SecondLook:
    """A fitted learner, its report, and the rows that it was fitted to."""

    learner: RectifiedGaussianLearner
    report: LearningReport
    X: Any
    sample_weight: Any
    evidence: SampleEvidence
    assumptions: Assumptions
    watch: Watch

    def advice(self) -> Advice | None:
        """What the doubts ask for, done; None where they ask for nothing, or it is no better."""
        return self._without_bad_cells() or self._with_free_columns()

    def _without_bad_cells(self) -> Advice | None:
        kinds, look = {doubt.kind for doubt in self.report.doubts}, look_at(self.evidence, self.assumptions)
        if _TIES in kinds or not (kinds & _ODD or (look is not None and has_far_values(look))):
            return None
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            other = self._fitted(method="robust_cells")
            if other is None or {doubt.kind for doubt in other.report_.doubts} & _REMAINING:
                return None
            without = LeftOut.of(other, self._at_limits())
            if not without.is_worth(self._gain(other)):
                return None
        warn_again(noted)
        return Advice(other, (without.doubt,), without.words)

    def _with_free_columns(self) -> Advice | None:
        shapes: list[Any] = list(self.learner.shapes_ or ["normal"] * self.learner.n_features_in_)
        groups = [doubt for doubt in self.report.doubts if doubt.kind == "groups"]
        bent = {j for doubt in self.report.doubts if doubt.kind in _FREED for j in doubt.columns}
        bent = {j for j in (range(len(shapes)) if groups else bent) if getattr(shapes[j], "kind", "normal") != "free"}
        if not bent:
            return None
        shapes = ["free" if j in bent else shape for j, shape in enumerate(shapes)]
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            other = self._fitted(method=self.report.method, shape=shapes)
        if other is None:
            return None
        warn_again(noted)
        kept = tuple(doubt for doubt in groups if doubt.kind not in {each.kind for each in other.report_.doubts})
        return Advice(other, kept, self.report.chosen_because)

    def _fitted(self, **options: Any) -> RectifiedGaussianLearner | None:
        """The same learner with other options; None where it takes no such table, or too little of it."""
        other: RectifiedGaussianLearner = clone(self.learner).set_params(**options).watched_by(self.watch)
        try:
            return other.fit(self.X, sample_weight=self.sample_weight)
        except UnreluError:
            return None

    def _gain(self, robust: RectifiedGaussianLearner) -> float:
        """The log density of all rows that is gained over the same columns with everything counted.

        Columns that only outliers make free follow them wherever they are. A fit that has them must be less likely all
        the same, but for the price of a free column.
        """
        densities, plain = robust.densities_with_outliers(self.X), self.learner
        free = [sum(shape.kind == "free" for shape in each.shapes_ or ()) for each in (self.learner, robust)]
        if free[0] > free[1]:
            if self._total(densities - plain.score_samples(self.X)) < -_FREE * (free[0] - free[1]):
                return -np.inf
            alike = self._fitted(method=self.report.method, shape=list(robust.shapes_ or ()) or "normal")
            plain = self.learner if alike is None else alike
        return self._total(densities - plain.score_samples(self.X))

    def _total(self, of_rows: FloatArray) -> float:
        """Of all rows, weighted as they are."""
        if self.sample_weight is None:
            return float(of_rows.sum())
        weights = np.asarray(self.sample_weight, dtype=np.float64)
        return float(weights @ of_rows) * len(of_rows) / float(weights.sum())

    def _at_limits(self) -> BoolArray:
        """Which cells are cut off."""
        floor, blocks = np.array(self.assumptions.censoring), self.evidence.samples.blocks()
        marks = [marks_of(some_rows(b, np.arange(rows_in(b))), b.beyond, floor)[1] for b in blocks]
        return np.asarray(np.concatenate(marks) != 0)


def warn_again(noted: list[warnings.WarningMessage]) -> None:
    """Give warnings that were noted."""
    for each in noted:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


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
        what = ", ".join(f"{counted(number, noun)}{where}" for number, noun, where in numbers if number)
        return f"{what} do not belong to what the others are like"

    @property
    def doubt(self) -> Doubt:
        columns = tuple(np.flatnonzero(self.share > 0.0).tolist())
        return Doubt(
            "left out",
            columns,
            f"{self.words}, and were left out (values: the share of a column's cells).",
            "Look at them: cell_weights_ below .5, or unrelu score --cells. To have them counted name a method,"
            " 'full_likelihood' or 'one_pass'.",
            tuple(self.share[list(columns)].tolist()),
        )
