"""A second fit of a table that was fitted without options, where the first fit has diagnostics.

Bad cells and outlier rows are searched for where a diagnostic may come from them, or where a value lies far beyond what
the middle of its column allows. Then ``method="robust_cells"`` learns the table as well, and is taken if all rows are
likelier by _GAIN_IN_ALL, and by _GAIN_EACH for every row and every further cell that it leaves out: each is a parameter
of the model in which an outlier has a mean of its own. Log densities gained for each on tables of four columns
(benchmarks/defaults): outlier rows 3 to 13, bad cells 4 to 17; heavy tails and curves mostly below 3, or they leave
other diagnostics. Cells at their limit for another reason take one parameter together, their share.

Columns that are skewed, or have long tails, get monotone margins, and all columns do where rows come from groups. Below
its floor a monotone margin continues a distribution that the column has rejected; a diagnostic says so.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from unrelu.checks.misfit import RowSample, sample_rows
from unrelu.contracts import Assumptions, Diagnostic, Evidence, FloatArray, LearningReport, Progress
from unrelu.errors import UnreluError
from unrelu.margins import Margins
from unrelu.methods import Auto
from unrelu.passes.tiles import censoring_of
from unrelu.validation import counted, noting_warnings, warn_of_noted

_GAIN_IN_ALL, _GAIN_EACH = 6.0, 2.5
_MONOTONE = 10.8  # log density by which a column must be likelier to be monotone (fit/margins.py)
_OF_OUTLIERS = {"skewed", "heavy-tails", "groups", "bent", "excess-zeros", "gross-value", "empty-gap"}
_OF_ROWS = {"heavy-tails", "groups", "bent"}  # no bad cell explains what is left of these
_OF_MARGINS = ("skewed", "heavy-tails")
_LIMITS = ("repeated-minimum", "repeated-maximum", "near-the-floor", "empty-gap", "gross-value")  # bend columns, too
_MUCH = 0.15  # the share of a column that is hidden, from which on its distribution there matters
_FEWEST_SEEN = 6
_UPPER, _LOWER = 0.88, 0.25  # levels of the quantiles that determine the middle of a column
_FAR = 4.5  # standard deviations of that middle
_BAD = 0.5  # weight below which a row or cell is left out
_AND_WERE = ", and were left out (values: the share of a column's cells)."


Better: TypeAlias = tuple[Any, tuple[Diagnostic, ...], str]
"""A better learner of the same rows, diagnostics to be added to its own, and the reason why its method was chosen."""


def better_fit(
    learner: Any,
    report: LearningReport,
    X: Any,
    sample_weight: Any,
    evidence: Evidence,
    assumptions: Assumptions,
    progress: Progress,
) -> Better | None:
    """A better fit by the remedies of the diagnostics; None where there are no remedies, or none is better."""
    if not Auto().looks_twice(evidence.samples, assumptions):
        return None

    def fitted(**options: Any) -> Any:
        """The same learner with other options; None where it cannot learn this table."""
        other: Any = clone(learner).set_params(**options).with_progress(progress)
        try:
            return other.fit(X, sample_weight=sample_weight)
        except UnreluError:
            return None

    def gain(robust: Any) -> float:
        """The log density of all rows that is gained over a fit with the same margins that leaves nothing out.

        Columns that are monotone because of outliers follow these wherever they are. The first fit must be less likely
        even so, but for the price of a monotone column.
        """
        densities, plain = robust.densities_with_outliers(X), learner
        both = (assumptions.margins, robust.margins_)
        monotone = [sum(margin.kind == "monotone" for margin in each or ()) for each in both]
        if monotone[0] > monotone[1]:
            if _total(densities - plain.score_samples(X), sample_weight) < -_MONOTONE * (monotone[0] - monotone[1]):
                return -np.inf
            alike = fitted(method=report.method, margins=list(robust.margins_ or ()) or "normal")
            plain = learner if alike is None else alike
        return _total(densities - plain.score_samples(X), sample_weight)

    def without_bad_cells() -> Better | None:
        kinds, look = {each.kind for each in report.diagnostics}, sample_rows(evidence, assumptions)
        if "ties" in kinds or not (kinds & _OF_OUTLIERS or (look is not None and has_far_values(look))):
            return None
        with noting_warnings() as noted:
            other = fitted(method="robust_cells")
            if other is None or {each.kind for each in other.report_.diagnostics} & _OF_ROWS:
                return None
            diagnostic, price = _left_out(other, evidence, assumptions)
            if diagnostic is None or not gain(other) > price:
                return None
        warn_of_noted(noted, but="AssumptionWarning")
        return other, (diagnostic,), diagnostic.words.removesuffix(_AND_WERE)

    def with_monotone_columns() -> Better | None:
        margins: list[Any] = list(assumptions.margins or ["normal"] * len(assumptions.floor))
        groups = [each for each in report.diagnostics if each.kind == "groups"]
        bent = {j for each in report.diagnostics if each.kind in _OF_MARGINS for j in each.columns}
        wanted = range(len(margins)) if groups else bent
        bent = {j for j in wanted if getattr(margins[j], "kind", "normal") != "monotone"}
        if not bent:
            return None
        margins = ["monotone" if j in bent else margin for j, margin in enumerate(margins)]
        with noting_warnings() as noted:
            other = fitted(method=report.method, margins=margins)
        if other is None:
            return None
        warn_of_noted(noted, but="AssumptionWarning")
        still = {each.kind for each in other.report_.diagnostics}
        kept = tuple(each for each in groups if each.kind not in still)
        return other, kept, report.chosen_because

    return without_bad_cells() or with_monotone_columns()


def _total(of_rows: FloatArray, sample_weight: Any) -> float:
    """The weighted sum over all rows, scaled to their number."""
    if sample_weight is None:
        return float(of_rows.sum())
    weights = np.asarray(sample_weight, dtype=np.float64)
    return float(weights @ of_rows) * len(of_rows) / float(weights.sum())


def _left_out(robust: Any, evidence: Evidence, assumptions: Assumptions) -> tuple[Diagnostic | None, float]:
    """The diagnostic of rows and cells that count less than half, if there are some, and the log density that leaving
    them out must gain."""
    floor = np.array(assumptions.censored_at)
    marks = [censoring_of(b.some_rows(np.arange(b.n_rows)), b.censoring, floor)[1] for b in evidence.samples.blocks()]
    cut_off, bad = np.concatenate(marks) != 0, robust.cell_weights_ < _BAD
    rows = (robust.row_weights_ < _BAD) | (bad.mean(axis=1) > 0.5)
    cells, share = bad & ~rows[:, None], (bad | rows[:, None]).mean(axis=0)
    n_rows, n_cells, n_at_limit = int(rows.sum()), int((cells & ~cut_off).sum()), int((cells & cut_off).sum())
    if n_rows + n_cells + n_at_limit == 0:
        return None, np.inf
    numbers = ((n_rows, "row", ""), (n_cells, "single cell", ""), (n_at_limit, "cell", " at a limit"))
    what = ", ".join(f"{counted(number, noun)}{where}" for number, noun, where in numbers if number)
    columns = tuple(np.flatnonzero(share > 0.0).tolist())
    diagnostic = Diagnostic(
        "left-out",
        columns,
        f"{what} do not follow the model of the others{_AND_WERE}",
        "cell_weights_ below .5, or unrelu score --cells, show which. To have them counted give a method,"
        " 'full_likelihood' or 'one_pass'.",
        tuple(share[list(columns)].tolist()),
    )
    return diagnostic, _GAIN_IN_ALL + _GAIN_EACH * (n_rows + n_cells)


def continued(report: LearningReport, margins: Margins | None) -> tuple[Diagnostic, ...]:
    """The diagnostic of columns of which much is hidden, and continued by a distribution that the seen part rejects."""
    hidden = np.array(report.share_floored_by_column)
    explained = {j for diagnostic in report.diagnostics if diagnostic.kind in _LIMITS for j in diagnostic.columns}
    beyond = [getattr(each, "below", 0.0) + getattr(each, "above", 0.0) for each in margins or ()]
    columns = tuple(j for j, rate in enumerate(beyond) if rate > 0.0 and hidden[j] > _MUCH and j not in explained)
    if not columns:
        return ()
    diagnostic = Diagnostic(
        "skewed",
        columns,
        "seen values reject a normal distribution (of positive columns a lognormal one); below the floor that"
        " distribution continues them all the same, and means, correlations and filled cells rest on it (values: the"
        " share that is hidden).",
        "The table holds no more about hidden values. Take these numbers for rough, or lower the limits.",
        tuple(hidden[list(columns)].tolist()),
    )
    return (diagnostic,)


def has_far_values(look: RowSample) -> bool:
    """Whether a value lies farther out than a normal distribution with the middle of its column allows.

    Two quantiles determine that distribution: the upper one, and that of the censored share, or the lower one.
    """
    for values, censoring in zip(look.values.T, look.censoring.T, strict=True):
        there = ~np.isnan(values)
        seen, n = np.sort(values[there & (censoring == 0)]), np.count_nonzero(there)
        below = np.count_nonzero(censoring[there] < 0)
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
