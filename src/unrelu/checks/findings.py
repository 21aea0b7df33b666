"""Diagnostics of a fit, from its record and a sample of its rows, with what to do about them.

Every rule compares what was counted with what the fitted model expects, so that a table that fits is left alone: the
chance of a finding on such a table is about one in a hundred, whatever the number of its columns. First come limits
without a floor or ceiling, as they bend everything else; then, the strongest first, what columns and rows show
(:mod:`unrelu.checks.misfit`); then what the matrix lacks.

Is a column above its floor the upper part of a normal? A test from four sums: with P = 1{x > floor}, the mean of u^3 P
over all rows is compared with what the fitted cut-off normal has. What the constant and the two scores of (b, s)
explain is taken off first,

    h = u^3 P - projection on 1, score_b, score_s:    a cubic in u above the floor, a constant below it,

so that the mean of h over n rows, of which n_h were summed, has variance E[h^2]/n_h whatever the errors of (b, s). Its
tail is not normal where few values are above the floor; E[h^3] has a closed form as well, and the transformation that
Anscombe and Glynn (1983) gave for kurtosis, which needs no more than the skewness, makes it so. The same statistic of
u^4 would see heavy tails, but its own tail is too heavy to be calibrated from sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from unrelu.checks.misfit import Misfit, RowSample, Skewness, misfit_of, normalized
from unrelu.contracts import (
    Assumptions,
    Block,
    BoolArray,
    Diagnostic,
    FloatArray,
    NearestCovariance,
    PairCorrelations,
    RowParameters,
)
from unrelu.kernels.pair_solver import LARGEST_A
from unrelu.passes.columns import ColumnMargins
from unrelu.passes.pair_moments import PairMoments
from unrelu.validation import column_label, listed, warn_together

_ALARM = 0.002  # chance of a finding of one kind on a table that fits
_REPEATED_SHARE, _REPEATED_COUNT = 0.005, 3.0  # of the rows, and of equal values, from which an end repeats
_BY_ROUNDING = 5.0  # times what a step of the table's numbers would explain
_NEXT = 3  # values beside an end that it is compared with
_NEAR = 1e-3  # of the size of a floor, or of a spread: rounding of a floor that was typed
_TIED_SHARE, _COARSE = 0.5, 0.1  # values that are copies, and their step in standard deviations
_SKEWED, _SHIFTED = 0.3, 0.05  # skewness and shift of the mean (in standard deviations) that matter
_HARM = 0.5  # standard errors that a mean must be off
_SYMMETRIC = 0.3  # of the z of long tails: skewness that may come from them
_SINGULAR = 1e-6  # smallest eigenvalue of the correlations
_MOVED = 1.0  # standard errors by which correlations had to be moved to fit together: more than their errors explain
_ROWS_A_COLUMN = 5.0
_NEXT_SHARE = 0.05  # of a monotone column's rows that are beyond a gap, within its width
_GROSS, _FAR_APART = 100.0, 20.0  # spreads of the others, and what they span, beyond which a value is gross
_FEW_OTHERS, _FEW_GROSS = 8, 0.02  # other values that must be there, and the share of these that may be gross alike
_HIGHEST = 9  # of the powers of u whose moments are needed, those of h^3 below

_LOW = ("repeated-minimum", "smallest", "floor", "min")
_HIGH = ("repeated-maximum", "largest", "ceiling", "max")


class _Table:
    """A fit, column by column. Numbers are those of the rows in windows, as the learner has them: latent, some columns
    negated; :meth:`in_table_units` gives the values of the table."""

    def __init__(self, margins: ColumnMargins, rows: RowParameters, assumptions: Assumptions) -> None:
        self.margins, self.rows, self.assumptions, self.sign = margins, rows, assumptions, assumptions.sign
        self.varying = np.asarray(rows.std > 0.0)
        # Columns that were learned as latent values.
        self.curved = [j for j, margin in enumerate(assumptions.margins) if margin.kind != "normal"]
        # Between two values of the user's table; 0 where there is none.
        self.step = np.where(np.isfinite(margins.step), margins.step, 0.0)
        for j in self.curved:
            self.step[j] = assumptions.margins[j].seen.step
        # The smallest and largest values as the user's table has them.
        self.ends = [self.in_table_units(end) for end in margins.ends]

    def probability(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Of a value between the two, under the fitted model; 0 where they are not in order."""
        std = np.where(self.varying, self.rows.std, 1.0)
        below, above = ((level - self.rows.mean) / std for level in (low, high))
        # From the nearer tail, where the difference of two numbers near 1 would lose all digits.
        upper = below > 0.0
        difference = np.where(upper, ndtr(-below) - ndtr(-above), ndtr(above) - ndtr(below))
        return np.asarray(self.varying * np.maximum(difference, 0.0))

    def in_table_units(self, learned: FloatArray) -> FloatArray:
        """Learned values as the user's table has them."""
        x = self.sign * learned
        for j in self.curved:
            x[j] = self.assumptions.margins[j].from_latent(x[j])
        return x

    def cell_of(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Learned values half a step below and above those of the user's table, in order."""
        ends = x - 0.5 * self.step, x + 0.5 * self.step
        for j in self.curved:
            for end in ends:
                end[j] = self.assumptions.margins[j].to_latent(end[j])
        below, above = self.sign * ends[0], self.sign * ends[1]
        return np.minimum(below, above), np.maximum(below, above)


def diagnostics_of(
    record: PairMoments | None,
    rows: RowParameters,
    assumptions: Assumptions,
    pairs: PairCorrelations,
    nearest: NearestCovariance,
    sample: RowSample | None = None,
) -> tuple[Diagnostic, ...]:
    """All diagnostics of a fit; limits of single cells leave no record, and a fit to a record has no rows."""
    d = len(rows.std)
    kinds = np.array([margin.kind for margin in assumptions.margins] or ["normal"] * d)
    sign = assumptions.sign
    limits: list[Diagnostic] = []
    tied: list[Diagnostic] = []
    skewness: Skewness | None = None
    if record is not None and record.margins is not None:
        table = _Table(record.margins, rows, assumptions)
        limits, tied = [*_limits(table, sample), *_gross(table)], _tied(table)
        skewness = skewness_of(record.margins, rows)
    elif sample is not None:  # limits of single cells: the values that were seen, without a floor
        seen, none = np.where(sample.censoring == 0, sample.values, np.nan), np.full(d, -np.inf)
        counts = ColumnMargins.of_first(seen, none, rows.mean).with_rows(Block(seen, weights=sample.weights), none)
        limits = _gross(_Table(counts, rows, assumptions))
    explained = np.zeros(d, dtype=np.bool_)
    explained[[j for diagnostic in limits if diagnostic.kind != "nothing-floored" for j in diagnostic.columns]] = True
    left_out = explained.copy()
    left_out[[j for diagnostic in tied for j in diagnostic.columns]] = True
    if sample is None:
        shown = _margins(kinds, sign, rows, skewness, None, explained)
    else:
        misfit = misfit_of(sample, rows, pairs.correlation, left_out, kinds == "monotone")
        shown = _margins(kinds, sign, rows, skewness, misfit, explained)
        if shown:
            # Columns that are not normal show other findings, too; the others must show these without them.
            left_out[[j for _, diagnostic in shown for j in diagnostic.columns]] = True
            others = misfit_of(sample, rows, pairs.correlation, left_out, kinds == "monotone")
            misfit = replace(others, neighbours=misfit.neighbours, dependent=misfit.dependent)
        shown += _of_rows(misfit)
    shown.sort(key=lambda each: -each[0])
    found = [*limits, *(diagnostic for _, diagnostic in shown), *tied]
    if record is not None:
        found += _matrix(record, int(np.count_nonzero(rows.std > 0.0)), assumptions, pairs, nearest)
    return tuple(found)


def warn_of(diagnostics: Iterable[Diagnostic], names: tuple[str, ...] | None) -> None:
    """One warning, a line for each diagnostic."""
    lines = []
    for diagnostic in diagnostics:
        labels = [column_label(j, names) for j in diagnostic.columns]
        if diagnostic.values:
            digits = ".12g" if diagnostic.kind == "near-the-floor" else ".4g"  # of a number that is to be typed in
            labels = [f"{label}: {value:{digits}}" for label, value in zip(labels, diagnostic.values, strict=True)]
        where = f" In {listed(labels, most=6)}." if labels else ""
        lines.append(
            (f"{diagnostic.words[0].upper()}{diagnostic.words[1:]}{where} {diagnostic.remedy}", diagnostic.kind)
        )
    if lines:
        warn_together(lines)


def _diagnostic(
    kind: str, which: BoolArray, words: str, remedy: str, values: FloatArray | None = None
) -> list[Diagnostic]:
    columns = tuple(np.flatnonzero(which).tolist())
    if not columns:
        return []
    return [Diagnostic(kind, columns, words, remedy, () if values is None else tuple(values[list(columns)].tolist()))]


# --- single columns -------------------------------------------------------------------------------


def _limits(table: _Table, sample: RowSample | None) -> list[Diagnostic]:
    """Ends that repeat, of which the one at the floor may be the floor itself but for rounding; then gaps above the
    floor, and floors that no value is at."""
    margins, floor = table.margins, np.array(table.assumptions.floor)
    repeated, largest = (_repeated_end(table, end, sample) for end in (0, 1))
    size = np.maximum(np.abs(np.where(np.isfinite(floor), floor, 0.0)), table.rows.std)
    beyond = margins.ends[0] - floor
    if table.curved:  # how near they are is a matter of the user's units
        level, one_std = (table.in_table_units(y) for y in (floor, table.rows.mean + table.rows.std))
        spread = one_std - table.in_table_units(table.rows.mean)
        with np.errstate(invalid="ignore"):
            beyond[table.curved] = np.abs(table.ends[0] - level)[table.curved]
            size[table.curved] = np.maximum(np.abs(level), np.abs(spread))[table.curved]
    near = repeated & np.isfinite(floor) & (beyond <= _NEAR * size)
    found = _diagnostic(
        "near-the-floor", near,
        "many values lie within rounding of the floor, and none of them counts as floored.",
        "Give the floor as the table has it, or floor='min' (ceiling='max'), or a floor_tolerance.",
        table.ends[0],
    )  # fmt: skip
    for end, columns in ((0, repeated & ~near), (1, largest)):
        for sign in (1.0, -1.0):
            kind, extreme, limit, word = _LOW if (end == 0) == (sign > 0.0) else _HIGH
            found += _diagnostic(
                kind, columns & (table.sign == sign),
                f"the {extreme} value repeats as a {limit} does, but is not named as one.",
                f"If it stands for all values beyond it, pass it as {limit}=, or say {limit}={word!r}.",
                table.ends[end],
            )  # fmt: skip
    floor, surely = table.rows.floor, -np.log(_ALARM / len(floor))  # so many must be expected where none is (Poisson)
    at_floor = margins.observed - margins.sums[0] > 0.5
    expected = margins.observed * table.probability(floor, margins.ends[0])
    for j in table.curved:
        if table.assumptions.margins[j].kind == "monotone" and table.sign[j] > 0.0:
            # No value is expected in a monotone column's gap; as many as in the next stretch of that width would be
            # no wonder.
            margin, low, x = (
                table.assumptions.margins[j],
                float(table.in_table_units(floor)[j]),
                float(table.ends[0][j]),
            )
            if np.isfinite([low, x]).all():
                y = (margin.to_latent([x, 2.0 * x - low]) - table.rows.mean[j]) / max(table.rows.std[j], 1e-300)
                share = float(np.diff(ndtr(y))[0])
                expected[j] = margins.observed[j] * share if share > _NEXT_SHARE else 0.0
    # A gap that is a step of the table's own numbers is no gap.
    with np.errstate(invalid="ignore"):
        wide = np.abs(table.ends[0] - table.in_table_units(floor)) > 1.5 * table.step
    found += _diagnostic(
        "empty-gap", wide & at_floor & ~repeated & (expected > surely) & np.isfinite(floor),
        "no value between the floor and the smallest one above it, where the model expects many: what is at the floor"
        " may mean \"less than that value\".",
        "If so, write that value into these cells, and pass it as floor= (ceiling=).",
        table.ends[0],
    )  # fmt: skip
    expected = margins.observed * table.probability(np.full_like(floor, -np.inf), floor)
    return found + _diagnostic(
        "nothing-floored", ~at_floor & np.isfinite(floor) & ~repeated & (expected > surely),
        "no value is at the floor, where a normal distribution with the column's mean and spread would have many.",
        "If the column has no floor there, say floor=None or name its own; if it is skewed, give it"
        " margins='monotone'."
    )  # fmt: skip


def _repeated_end(table: _Table, end: int, sample: RowSample | None) -> BoolArray:
    """Columns whose smallest (0) or largest (1) value above the floor occurs too often for rounding to explain. Values
    of a coarse scale repeat as well, and so do their neighbours: rain of .1 and .2 mm is no limit."""
    margins = table.margins
    weight = margins.end_weights[end]
    with np.errstate(invalid="ignore"):  # levels of columns without values
        by_rounding = margins.observed * table.probability(*table.cell_of(table.ends[end]))
    often = weight >= np.maximum(_REPEATED_COUNT, _REPEATED_SHARE * margins.observed)
    found = np.asarray(often & (weight > _BY_ROUNDING * by_rounding + 2.0) & table.varying)
    if sample is not None:
        for j in np.flatnonzero(found).tolist():
            values = sample.values[sample.censoring[:, j] == 0, j]
            _, counts = np.unique(values[~np.isnan(values)], return_counts=True)
            counts = counts[:: 1 if end == 0 else -1][: 1 + _NEXT]
            found[j] = len(counts) < 2 or counts[0] > _BY_ROUNDING * counts[1:].max()
    return found


def _gross(table: _Table) -> list[Diagnostic]:
    """Largest values that are beyond all others by more than any distribution has it: by _GROSS spreads of the others,
    or, of monotone columns, whose latent values are normal whatever they are, by _FAR_APART times all that the others
    span."""
    margins = table.margins
    weight, end = margins.end_weights[1], (margins.ends[1] - margins.origin) / margins.unit
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        others = margins.sums[0] - weight
        mean = (margins.sums[1] - weight * end) / others
        variance = (margins.sums[2] - weight * end**2) / others - mean**2
        # What rounding leaves of the squares of a huge value may be anything, but it is small beside them.
        far = end - mean > _GROSS * np.sqrt(np.maximum(variance, 0.0))
    gross = far & (others > _FEW_OTHERS) & (weight <= _FEW_GROSS * others) & table.varying
    for j in table.curved:
        values = getattr(table.assumptions.margins[j], "values", None)
        if values is not None:
            low, before, last = values[0], values[-2], values[-1]
            gross[j] = len(values) > _FEW_OTHERS and last - before > _FAR_APART * (before - low)
    return _diagnostic(
        "gross-value", gross,
        "the largest value is farther from all others than these are from each other, many times over: a unit or a"
        " decimal point that was mistaken, or a code for something else.",
        "Correct it, or mark it as missing with NaN.",
        table.ends[1],
    )  # fmt: skip


def _margins(
    kinds: NDArray[np.str_],
    sign: FloatArray,
    rows: RowParameters,
    record: Skewness | None,
    misfit: Misfit | None,
    explained: BoolArray,
) -> list[tuple[float, Diagnostic]]:
    """(z, finding): values above the floor that are not the upper part of a normal, so far that it matters. A limit
    without a floor bends a column as well: where one was found it is the explanation, and so is what the rows show
    more clearly. Monotone margins are not tested: their latent values are normal by construction."""
    d, open_columns = len(kinds), ~explained & (kinds != "monotone")
    found: list[tuple[float, Diagnostic]] = []
    test, sure = record, np.zeros(d, dtype=np.bool_)
    if record is not None:
        sure = np.abs(record.z) > -ndtri(0.5 * _ALARM / d)
    if misfit is not None:
        open_columns &= misfit.by_margins(d)
        tails, skewed = (misfit.columns_of(kind, d) for kind in ("tails", "skewed"))
        long = open_columns & (tails < 0.0) & (np.abs(skewed) < _SYMMETRIC * np.abs(tails))
        diagnostics = _diagnostic(
            "heavy-tails", long,
            "values lie farther out, and nearer to the middle, than a normal distribution's: standard errors are too"
            " small, and intervals of filled cells are off.",
            "Give these columns margins='monotone', and take errors with stderr='jackknife'."
        )  # fmt: skip
        found = [(float(np.abs(tails[long]).max()), diagnostic) for diagnostic in diagnostics]
        test, sure = misfit.skewness(d) if record is None else record, sure | (skewed != 0.0)
        open_columns &= ~long
    if test is None:
        return []
    z, skewness, shift = test.z, test.skewness, test.shift
    with np.errstate(invalid="ignore"):
        moved = np.abs(shift) * rows.std > np.maximum(_SHIFTED * rows.std, _HARM * rows.mean_stderr)
    sure = sure & open_columns & (moved | (np.abs(skewness) > _SKEWED))
    for which, beyond in (
        (kinds == "normal", "beyond what a normal distribution allows"),
        (~np.isin(kinds, ["normal", "monotone"]), "even after their margin"),
    ):
        for right, side in ((True, "to the right"), (False, "to the left")):
            at = sure & ((sign * skewness > 0.0) == right) & which
            for off, words, values in (
                (
                    moved,
                    "latent means, standard deviations and correlations are off by more than their standard errors"
                    " (values: how far latent means are off, roughly, in standard deviations)",
                    sign * shift,
                ),
                (
                    ~moved,
                    "standard deviations, quantiles and intervals are off (values: the skewness)",
                    sign * skewness,
                ),
            ):
                diagnostics = _diagnostic(
                    "skewed",
                    at & off,
                    f"skewed {side} {beyond}: {words}.",
                    "Give these columns margins='monotone'.",
                    values,
                )
                found += [(float(np.abs(z[list(diagnostic.columns)]).max()), diagnostic) for diagnostic in diagnostics]
    return found


def skewness_of(margins: ColumnMargins, rows: RowParameters) -> Skewness:
    """The test for every column; z is 0 where there is no test (constant columns, fewer than 8 values)."""
    can = (rows.std > 0.0) & (margins.sums[0] >= 8.0)
    std = np.where(can, rows.std, 1.0)
    a = np.where(can, np.minimum((rows.mean - rows.floor) / std, LARGEST_A), 0.0)
    moments = truncated_moments(a, _HIGHEST)
    hidden, power = ndtr(-a), np.arange(4)
    second, third = (moments[power[:, None] + power], moments[power[:, None, None] + power[:, None] + power])

    def mean(one: FloatArray, other: FloatArray) -> FloatArray:
        """Of the product of two functions of a cell, 5 x d: a cubic of u above the floor, and the value at it."""
        above = np.einsum("id,jd,ijd->d", one[:4], other[:4], second)
        return np.asarray(above + one[4] * other[4] * hidden)

    zero, one = np.zeros_like(a), np.ones_like(a)
    hazard = moments[1] / np.maximum(hidden, 1e-300) * (hidden > 0.0)
    score_b = np.stack([zero, one, zero, zero, -hazard])
    score_s = np.stack([-one, zero, one, zero, a * hazard])
    basis = [np.stack([one, zero, zero, zero, one])]
    for function in (score_b, score_s, np.stack([zero, zero, zero, one, zero])):
        for other in basis:
            function = function - mean(function, other) / mean(other, other) * other
        basis.append(function)
    _, b_part, s_part, h = basis
    variance = np.maximum(mean(h, h), 1e-300)

    u = margins.about(np.where(can, rows.mean, margins.origin), np.where(can, std, margins.unit)).sums
    total = np.maximum(margins.observed, 1e-300)
    observed = ((h[:4] * u).sum(axis=0) + h[4] * (margins.observed - margins.sums[0])) / total
    z = observed * np.sqrt(total / variance)
    cubed = np.einsum("id,jd,kd,ijkd->d", h[:4], h[:4], h[:4], third) + h[4] ** 3 * hidden
    skew = cubed / variance**1.5 / np.sqrt(total)

    # Density phi(u) (1 + g He3(u) / 6) to first order in the skewness g: E[h He3] g / 6 is what was observed. At the
    # floor He3 has the mean that E[He3] = 0 leaves it.
    hermite = np.stack([zero, -3.0 * one, zero, one, zero])
    hermite[4] = -(hermite[:4] * moments[:4]).sum(axis=0) / np.maximum(hidden, 1e-300) * (hidden > 0.0)
    along = mean(h, hermite)
    latent = 6.0 * observed / np.where(np.abs(along) > 1e-12, along, np.copysign(1e-12, along))
    cross = mean(score_s, score_b) / mean(b_part, b_part)
    s_shift = latent / 6.0 * mean(s_part, hermite) / mean(s_part, s_part)
    b_shift = latent / 6.0 * mean(b_part, hermite) / mean(b_part, b_part) - cross * s_shift
    return Skewness(np.where(can, normalized(z, skew), 0.0), np.where(can, latent, 0.0), np.where(can, b_shift, 0.0))


def truncated_moments(a: FloatArray, highest: int) -> FloatArray:
    """E[u^k 1{u > -a}] for k = 0..highest: m_k = (k - 1) m_{k-2} + (-a)^{k-1} phi(a)."""
    edge = np.exp(-0.5 * a**2) / np.sqrt(2.0 * np.pi)
    moments = [ndtr(a), edge]
    for k in range(2, highest + 1):
        moments.append((k - 1) * moments[k - 2] + (-a) ** (k - 1) * edge)
    return np.stack(moments)


def _tied(table: _Table) -> list[Diagnostic]:
    """Few different values, far apart: counts, or numbers rounded coarsely."""
    size = table.margins.step.copy()  # of a step, where most values are
    if table.curved:
        low, high = table.cell_of(table.in_table_units(np.maximum(table.rows.mean, table.margins.ends[0])))
        size[table.curved] = (high - low)[table.curved]
    coarse = size > _COARSE * table.rows.std
    ties = table.margins.different < (1.0 - _TIED_SHARE) * table.margins.compared
    return _diagnostic(
        "ties", ties & coarse & table.varying,
        "few different values (counts, or rounded coarsely), which the model takes for continuous ones (values: the"
        " step between them).",
        "Errors are then too small and densities mean little; use more digits, or a model for counts.",
        np.where(table.step > 0.0, table.step, table.margins.step),
    )  # fmt: skip


# --- what rows show --------------------------------------------------------------------------------


def _of_rows(misfit: Misfit) -> list[tuple[float, Diagnostic]]:
    """(z, finding) of everything but margins."""
    found = []
    for kind, z in misfit.found:
        if kind == "zeros":
            found.append((z, _zeros(misfit)))
        elif kind == "bent":
            columns = tuple(sorted({column for test, k in misfit.chosen("bent") for column in test.columns[k]}))
            words = (
                "some columns follow others along a curve, not a straight line: correlations measure the straight part"
                " only, and filled cells and predictions are off where the curve is far from it."
            )
            remedy = "Look at these columns in pairs, and leave out of predictions and filling what is bent."
            found.append((z, Diagnostic("bent", columns, words, remedy)))
        elif kind == "groups":
            words = (
                "rows do not gather about one centre as a normal distribution's do: they may come from two or"
                " more groups."
            )
            remedy = (
                "Means, correlations and filled cells then describe a mixture of them. Fit each group by itself, or"
                " learn them with unrelu.RectifiedGaussianMixture."
            )
            found.append((z, Diagnostic("groups", (), words, remedy)))
        elif kind == "heavy":
            words = (
                "rows lie farther out in all columns together than a normal distribution's: standard errors are too"
                " small, and intervals of filled cells and predictions are too narrow in such rows."
            )
            remedy = "Take errors with stderr='jackknife', and do not rely on intervals of single cells."
            if misfit.chosen("skewed"):
                remedy = (
                    f"Give the columns margins='monotone'; if this diagnostic stays, {remedy[0].lower()}{remedy[1:]}"
                )
            found.append((z, Diagnostic("heavy-tails", (), words, remedy)))
    if misfit.dependent:
        z, correlation, factor = misfit.neighbours
        words = (
            f"neighbouring rows are alike (correlation {correlation:.2f}): if they are of one day, site or series,"
            f" standard errors are too small by a factor of about {factor:.1f}."
        )
        remedy = (
            "Take errors with stderr='jackknife' and groups= of the days, sites or stretches of time that rows belong"
            " to."
        )
        found.append((z, Diagnostic("dependent-rows", (), words, remedy)))
    return found


def _zeros(misfit: Misfit) -> Diagnostic:
    tests = misfit.chosen("zeros")
    single = sorted((test.columns[k][0], float(test.size[k])) for test, k in tests if len(test.columns[k]) == 1)
    strongest, at = next((each for each in tests if len(each[0].columns[each[1]]) > 1), tests[0])
    share, error = 100.0 * strongest.size[at], 100.0 * strongest.error[at]
    return Diagnostic(
        "excess-zeros",
        tuple(column for column, _ in single) or tuple(strongest.columns[at]),
        f"more cells are at their limit than the rest of their rows and the other cells allow: roughly {share:.0f} %"
        f" +- {error:.0f} % of the cells are there for another reason, and means come out too low.",
        "If they are failures or true absences that you can identify, mark them as missing (NaN).",
        tuple(size for _, size in single),
    )


# --- the matrix -----------------------------------------------------------------------------------


def _matrix(
    record: PairMoments, varying: int, assumptions: Assumptions, pairs: PairCorrelations, nearest: NearestCovariance
) -> list[Diagnostic]:
    """Correlations without an inverse, by more than their errors or exactly; too few rows for that many columns."""
    found = []
    noise = np.sqrt(np.nanmean(pairs.stderr[np.triu_indices(len(pairs.stderr), 1)] ** 2)) if varying > 1 else 0.0
    lowest = nearest.smallest_eigenvalue
    singular = abs(lowest) < _SINGULAR or (lowest < 0.0 and nearest.shift_rms > _MOVED * noise)
    if varying > 1 and singular and assumptions.n_components is None and not pairs.perfect_pairs:
        words = "the correlations have no inverse: some combination of the columns has no spread left."
        remedy = (
            "Scores and recovered values rest on shrunken correlations. Add rows, leave out columns that others"
            " determine, or give n_components."
        )
        found.append(Diagnostic("singular", (), words, remedy))
    if varying <= record.n_rows and record.effective_rows < _ROWS_A_COLUMN * varying:
        words = (
            f"only {record.effective_rows / varying:.1f} rows a column: each correlation is learned by itself, and all"
            " of them together are less certain than each."
        )
        remedy = (
            "Add rows, or drop columns."
            if assumptions.n_components
            else "Add rows, drop columns, or give n_components."
        )
        found.append(Diagnostic("few-rows", (), words, remedy))
    return found
