"""A fitted model beside its table, and the check of it: numbers, tables, and pictures of both."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from scipy.special import ndtr, ndtri
from scipy.stats import beta

from unrelu.checks.findings import skewness_of
from unrelu.checks.fit_check import FitCheck
from unrelu.contracts import Block, FloatArray, RowParameters, Samples
from unrelu.estimators import RectifiedGaussianLearner
from unrelu.model import RectifiedGaussian
from unrelu.passes.columns import ColumnMargins
from unrelu.passes.engine import engine_for
from unrelu.passes.tiles import SubsampleQuestion, seen_above
from unrelu.report.model import likelihood_words, model_tables
from unrelu.report.pictures import (
    HIDDEN,
    INK,
    LEARNED,
    NAIVE,
    Numbers,
    diagonal,
    draw_signed,
    name_columns,
    new_figure,
    panels_of,
    parts_of,
    short_name,
    tidy,
)
from unrelu.report.tables import Facts, Rows, facts, labels, margin_words, rows, table_of
from unrelu.tables.prepared import Columns, prepared
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_NAMES, _MOST_LARGE_NAMES = 60, 30
_MOST_NUMBERS = 12  # columns whose correlations are written out
_FAR = 30.0  # times the smallest: the largest value from which on axes of columns with a margin are logarithmic
_ROWS = 4096  # of the sample
_POINTS = 100  # evenly spaced in standard deviations, so that tails are seen
_BAND = 0.99  # of the tables that the model fits have a given quantile within the band
_MOST_ORDERED = 500  # columns up to which the order of the leaves is optimal
_MOST = 10  # columns and pairs in a table for people
_MOST_PAIRS = 100  # in JSON
_MOST_DRAWN, _MOST_COLOURED = 6, 4  # columns and pairs in the picture
_COLOURS = (NAIVE, "#009E73", "#CC79A7", "#E69F00")
_LATER = "For log-likelihood, AIC and BIC, which take another pass: unrelu info {} --table TABLE."
_LEGEND = (
    "Off by: the largest difference between the shares of rows below a value, in the table and in the model. High:"
    " above the model's median of the column's seen values; higher: above their 80 % quantile. Adjusted: p-values that"
    " allow for the number of columns or pairs."
)


@facts.register
def _(learner: RectifiedGaussianLearner, likelihood: Facts | None) -> Facts:
    errors = learner.mean_stderr_, learner.std_stderr_, learner.correlation_stderr_
    distribution = facts(learner.distribution_, learner.report_.share_floored_by_column, *errors)
    return {"report": asdict(learner.report_), **distribution, "likelihood": likelihood}


@rows.register
def _(learner: RectifiedGaussianLearner, took: str, likelihood: Facts | None, file: Path) -> Rows:
    """``file`` is that of the model."""
    report: Any = learner.report_
    entries, names = facts(learner, likelihood), labels(learner.distribution_)
    missing = f", {report.share_missing:.1%} of the cells missing" if report.share_missing else ""
    because = f", as {report.chosen_because}" if report.chosen_because else ""
    shown: Rows = [
        f"Learned {counted(report.n_features, 'column')} from {report.n_rows:,} rows in {took}"
        f" ({report.share_floored:.1%} of the values at the floor{missing}) by {report.method}{because}.",
    ]
    down = getattr(report, "share_downweighted", 0.0)
    if hasattr(report, "share_bad"):
        by_column = zip(report.share_bad_by_column, names, strict=True)
        most = [f"{name} {share:.1%}" for share, name in sorted(by_column, key=lambda each: -each[0]) if share > 0.0]
        worst = f", most of them in {', '.join(most[:5])}" if most else ""
        outliers = f"; {down:.1%} of the rows" if down else ""
        shown.append(f"Bad cells: {report.share_bad:.2%} of the cells{worst}{outliers} count less than half.")
    elif hasattr(report, "groups"):
        others = [f"{group.share:.1%} {group.kind}" for group in report.groups[1:] if group.share >= 0.001]
        found = f"; other groups of rows: {', '.join(others)}" if others else ""
        shown.append(f"Outliers: {down:.1%} of the rows count less than half{found}.")
    if report.stderr_degrees is not None:
        shown.append(f"Standard errors: by a {report.stderr} over {report.stderr_degrees + 1} groups of rows.")
    shown += model_tables(entries)
    return [*shown, f"Log-likelihood: {likelihood_words(likelihood)}." if likelihood else _LATER.format(file)]


# --- the check ------------------------------------------------------------------------------------


def check_columns(check: FitCheck) -> Facts:
    """One line per column, for a table."""
    return {
        "column": list(check.names),
        "margins": list(check.margins),
        "statistic": check.column_statistic,
        "p_value": check.column_p_value,
        "adjusted_p_value": check.column_adjusted,
        "largest_difference": check.column_distance,
        "share_at_limit": check.share_at_limit,
        "expected_share_at_limit": check.expected_share_at_limit,
    }


@facts.register
def _(check: FitCheck) -> Facts:
    why, entries = dict(check.left_out), check_columns(check)
    names, margins = entries.pop("column"), entries.pop("margins")
    alone = ("fits", "verdict", "level", "p_value", "columns_p_value", "pairs_p_value")
    counts = ("n_rows", "n_looked_at", "n_outlier_rows", "n_simulations", "refitted")
    return {
        **{name: getattr(check, name) for name in (*alone, *counts)},
        "columns": [
            {"name": name, "margin": margin, "left_out": why.get(j), **{key: each[j] for key, each in entries.items()}}
            for j, (name, margin) in enumerate(zip(names, margins, strict=True))
        ],
        "worst_pairs": [
            {
                "first": names[i],
                "second": names[j],
                "statistic": check.pair_statistic[i, j],
                "p_value": check.pair_p_value[i, j],
                "adjusted_p_value": check.pair_adjusted[i, j],
                "observed": check.observed[..., i, j],
                "expected": check.expected[..., i, j],
            }
            for i, j in check.worst_pairs(_MOST_PAIRS)
        ],
        "tried": [asdict(remedy) for remedy in check.tried],
    }


@rows.register
def _(check: FitCheck, took: str, words: Callable[[str], str]) -> Rows:
    """``words`` turns parameters into options."""
    entries = facts(check)
    whole = "" if check.n_looked_at + check.n_outlier_rows == check.n_rows else f" of {check.n_rows:,}"
    taken = "" if check.refitted else " The model is taken as given: nothing was fitted."
    outliers = f" {counted(check.n_outlier_rows, 'outlier row')} left out." if check.n_outlier_rows else ""
    monotone = [name for name, margin in zip(check.names, check.margins, strict=True) if margin == "monotone"]
    shown: Rows = [
        f"Checked {check.n_looked_at:,}{whole} rows of {counted(len(check.names), 'column')} against"
        f" {counted(check.n_simulations, 'simulated table')} in {took}.{taken}{outliers}",
        words(check.verdict),
    ]
    if monotone:
        shown.append(f"Monotone margins always fit their columns: {listed(monotone, 8)}.")
    if check.left_out:
        shown.append(f"Left out: {listed(f'{check.names[j]} ({why})' for j, why in check.left_out)}.")
    p_values = (">p-value", "{p_value:.3g}"), (">adjusted", "{adjusted_p_value:.3g}")
    if worst := [entries["columns"][j] for j in check.worst_columns(_MOST)]:
        limits = (">at limit", "{share_at_limit:.1%}"), (">expected", "{expected_share_at_limit:.1%}")
        off = (">off by", "{largest_difference:.1%}")
        shown += [
            _LEGEND,
            table_of(worst, ("worst columns", "{name}"), ("margin", "{margin}"), *limits, off, *p_values),
        ]
    if pairs := entries["worst_pairs"][:_MOST]:
        high = (">both high", "{observed[0][1][1]:,.0f}"), (">expected", "{expected[0][1][1]:,.1f}")
        higher = (">higher", "{observed[1][1][1]:,.0f}"), (">expected", "{expected[1][1][1]:,.1f}")
        shown.append(table_of(pairs, ("worst pairs", "{first} – {second}"), *high, *higher, *p_values))
    return shown


# --- quantiles of columns ------------------------------------------------------------------------


def worst_columns(learner: RectifiedGaussianLearner, samples: Samples, most: int = 5) -> list[dict[str, Any]]:
    """The columns with the largest test statistics for skewness, largest first, for :func:`draw_quantiles`.

    It takes another pass over the rows of the fit. Rows that a robust fit gave weights below half are left out.
    """
    model = learner.distribution_
    negated = model.ceiling < np.inf
    sign = np.where(negated, -1.0, 1.0)
    distribution = model.latent.negated(negated)  # only floors
    limit = np.where(negated, -model.ceiling, model.floor) + learner.floor_tolerance
    question = SubsampleQuestion(_ROWS, 0, tuple(limit.tolist()), (-np.inf,) * len(limit))
    sample = engine_for(samples).collect(prepared(samples, Columns(model.floor, model.ceiling)), question)
    x, above = sample.values.astype(np.float64), seen_above(limit, sample.values)
    weights = getattr(learner, "row_weights_", None)
    if weights is not None:
        x = x[weights[sample.rows] >= 0.5]
    values, floor = (x, limit) if model.margins is None else (sign * model.to_latent(sign * x), distribution.floor)
    values = np.where(x <= above, np.minimum(values, floor), values)
    unknown = np.full((len(floor), 2, 3), np.nan)
    rows = RowParameters(distribution.mean, distribution.std, floor, unknown[:, :, :2], unknown)
    margins = ColumnMargins.of_first(values, rows.floor, rows.mean).with_rows(Block(values), rows.floor)
    test = skewness_of(margins, rows)
    own = samples.limits_by_cell  # these have no order statistics
    ordered = [j for j in np.argsort(-np.abs(test.z), kind="stable").tolist() if j not in own]
    found = []
    for j in [j for j in ordered[:most] if test.z[j] != 0.0]:
        shown, margin = _points(values[:, j], distribution.mean[j], distribution.std[j], floor[j]), "normal"
        if negated[j]:
            shown = -shown[[0, 1, 3, 2], ::-1]
        if model.margins is not None:
            shown, margin = model.margins[j].from_latent(shown), margin_words(model.margins[j])
        seen, fitted, low, high = shown
        numbers = {"seen": seen, "fitted": fitted, "low": low, "high": high, "z": float(sign[j] * test.z[j])}
        limits = {"floor": model.floor[j], "ceiling": model.ceiling[j]}
        ends = {name: None if np.isinf(level) else float(level) for name, level in limits.items()}
        found.append({"name": labels(model)[j], **numbers, **ends, "margin": margin})
    return found


def _points(values: FloatArray, mean: float, std: float, floor: float) -> FloatArray:
    """Seen, fitted, low, high (4 x points): order statistics above the floor, and the model's bounds for them.

    The i-th smallest of n values is the model's quantile at a probability that has the distribution Beta(i, n - i + 1).
    """
    ordered = np.sort(values[~np.isnan(values)])
    n = len(ordered)
    edge = -ndtri(0.5 / n)
    wanted = np.linspace(-edge, edge, _POINTS)
    rank = np.unique(np.clip(np.floor(n * ndtr(wanted)).astype(int), 0, n - 1))
    rank = rank[ordered[rank] > floor]
    tail = 0.5 * (1.0 - _BAND)
    probabilities = np.stack([(rank + 0.5) / n, *(beta.ppf(p, rank + 1, n - rank) for p in (tail, 1.0 - tail))])
    return np.vstack([ordered[rank], np.maximum(mean + std * ndtri(probabilities), floor)])


# --- the picture of a model ----------------------------------------------------------------------


def model_picture(
    model: RectifiedGaussian, shares: Sequence[float] | FloatArray, worst: Sequence[dict[str, Any]] = ()
) -> Figure:
    """The learned correlations, and two checks of single columns: the share at the floor, and quantiles above it.

    ``shares``: of values at the limit, seen in the table. ``worst``: the columns whose quantiles are drawn.
    """
    limited = np.isfinite(model.floor) | np.isfinite(model.ceiling)
    panels = int(limited.any()) + len(worst)
    wide = (panels + 1) // 2
    d = model.n_features
    height = float(np.clip(1.4 + 0.115 * min(d, _MOST_NAMES), 6.4, 8.3))
    widths = [height + 0.6] * (d > 1 or not panels) + [max(3.5 * wide, 4.5)] * (panels > 0)
    figure = new_figure((sum(widths), height), f"Learned model of {counted(d, 'column')}")
    parts = parts_of(figure, widths=widths)
    if d > 1 or not panels:
        _draw_correlations(parts[0], parts[0].subplots(), model)
    if not panels:
        return figure
    axes = panels_of(parts[-1], min(panels, 2), wide, panels)
    if limited.any():
        _draw_shares(axes.pop(0), model, np.asarray(shares, dtype=np.float64), limited)
    for panel, column in zip(axes, worst, strict=False):
        draw_quantiles(panel, **column, legend=column is worst[0])
    if worst and d > len(worst):
        parts[-1].suptitle("Checks of single columns, and those that the model fits least", fontsize=11, color=INK)
    return figure


def column_order(correlation: FloatArray, most_ordered: int = _MOST_ORDERED) -> Numbers:
    """Columns by average-linkage clustering on 1 - |r|; the leaves' order is optimal up to ``most_ordered`` columns."""
    d = len(correlation)
    if d < 3:
        return np.arange(d)
    distance = np.maximum(1.0 - np.abs(correlation), 0.0)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=d <= most_ordered)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def _draw_correlations(figure: Figure | SubFigure, axes: Axes, model: RectifiedGaussian) -> None:
    order = column_order(model.correlation)
    shown = model.correlation[np.ix_(order, order)]
    image = draw_signed(axes, shown, 1.0)
    d, names = len(order), [labels(model)[j] for j in order]
    tidy(axes, "Latent correlations" + (", columns ordered by clustering" if d > 2 else ""), "", "", frame=False)
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.set_yticks([])
    if d <= _MOST_NAMES:
        size = 8.0 if d <= _MOST_LARGE_NAMES else 6.0
        name_columns(axes, names, _MOST_NAMES, 16, 50, size)
        axes.set_yticks(range(d), [short_name(name) for name in names], fontsize=size)
    if d <= _MOST_NUMBERS:
        for (i, j), r in np.ndenumerate(shown):
            colour = "white" if abs(r) > 0.6 else INK
            axes.text(j, i, f"{r:.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    figure.colorbar(image, ax=axes, shrink=0.8)


def _draw_shares(axes: Axes, model: RectifiedGaussian, shares: FloatArray, limited: NDArray[np.bool_]) -> None:
    shown = (model.std > 0.0) & limited
    room = np.minimum(model.mean - model.latent.floor, model.latent.ceiling - model.mean)
    implied = ndtr(-room[shown] / model.std[shown])
    axes.scatter(shares[shown], implied, color=LEARNED, s=22, alpha=0.8, edgecolors="none", zorder=2)
    diagonal(axes, [np.array([0.0, 1.0])])
    limit = " or ".join(
        word for word, levels in (("floor", model.floor), ("ceiling", model.ceiling)) if np.isfinite(levels).any()
    )
    tidy(axes, f"Values at the {limit}\n(off the line: does not fit)", "share in the table", "share the model implies")


def draw_quantiles(
    axes: Axes, name: str, seen: FloatArray, fitted: FloatArray, low: FloatArray, high: FloatArray, *, legend: bool,
    floor: float | None = None, ceiling: float | None = None, z: float = np.nan, margin: str = "normal", note: str = "",
) -> None:  # fmt: skip
    """Quantiles of a column between its limits against those of the model, the smallest first, in the table's units.

    ``low`` and ``high``: where the table's would be 99 times out of 100 if the model were true. ``z`` is the test of
    skewness of latent values, standard normal then. ``margin``: its name, and its exponent. ``note`` replaces ``z``.
    """
    axes.fill_between(fitted, low, high, color=HIDDEN, linewidth=0.0, label="99 % if the model holds")
    ends: Any = (fitted[0], fitted[-1])
    axes.plot(ends, ends, color=INK, linewidth=0.8)
    axes.plot(fitted, seen, ".", color=LEARNED, markersize=5, label="the table")
    lowest, highest = min(seen[0], fitted[0]), max(seen[-1], fitted[-1])
    logarithmic = margin != "normal" and highest > _FAR * lowest > 0.0
    for word, level in (("floor", floor), ("ceiling", ceiling)):
        if level is not None and (level > 0.0 or not logarithmic):
            axes.axhline(level, color=NAIVE, linestyle="--", linewidth=1.0)
            # Values leave the floor at the left, and meet the ceiling at the right: the other side is free.
            x, side, over = (0.98, "right", "bottom") if word == "floor" else (0.02, "left", "top")
            axes.text(
                x, level, f"{word} {level:.4g}", transform=axes.get_yaxis_transform(), ha=side, va=over, fontsize=8,
                color=NAIVE,
            )  # fmt: skip
    axes.margins(0.06)
    if logarithmic:
        axes.set(xscale="log", yscale="log", ylim=(lowest / 1.5, highest * 1.5))
    form = "" if margin == "normal" else f": {margin}"
    test = "normal by construction" if margin == "monotone" else f"test of skewness: z = {z:+.1f}"
    title = f"{short_name(name, 26 - len(form))}{form}\n({note or test})"
    tidy(axes, title, "quantiles of the model", "quantiles of the table")
    if legend:
        axes.legend(frameon=False, fontsize=8, loc="upper left" if ceiling is None else "lower right")


# --- the picture of a check ----------------------------------------------------------------------


def check_picture(check: FitCheck) -> Figure:
    """Quantile plots, worst column first; observed against expected counts in the quadrants of all pairs."""
    columns, pairs = check.worst_columns(_MOST_DRAWN), check.worst_pairs(1)
    panels = len(columns) + 2 * bool(pairs)
    wide = min(max(panels, 1), 4)
    high = max(-(-panels // wide), 1)
    title = textwrap.fill(check.verdict.replace("$", r"\$"), 38 * wide)
    figure = new_figure((4.1 * wide, 4.0 * high + 0.8), title, 11.0)
    axes = panels_of(figure, high, wide, panels)
    for j in columns:
        note = f"{check.margins[j]}; p = {check.column_p_value[j]:.3g}, adjusted {check.column_adjusted[j]:.3g}"
        points = check.quantiles[:, :, j]
        draw_quantiles(axes.pop(0), check.names[j], *points[:, ~np.isnan(points[0])], legend=j == columns[0], note=note)
    if pairs:
        counts, residuals = axes[:2]
        # Square roots of counts have the same scatter everywhere.
        _scatter(counts, check, lambda seen, expected: (np.sqrt(expected), np.sqrt(seen)))
        diagonal(counts, [np.sqrt(each[~np.isnan(each)]) for each in (check.observed, check.expected)])
        tidy(counts, "Rows in quadrants of pairs\n(square roots of counts)", "√expected", "√observed")
        counts.legend(frameon=False, fontsize=8, loc="upper left")
        _scatter(residuals, check, lambda seen, expected: (np.sqrt(expected), (seen - expected) / np.sqrt(expected)))
        residuals.axhspan(-2.0, 2.0, color=HIDDEN, alpha=0.5, linewidth=0.0, zorder=0)
        tidy(residuals, "The same: observed minus expected", "√expected", "(observed − expected) / √expected")
    return figure


def _scatter(
    axes: Axes, check: FitCheck, point: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
) -> None:
    first, second = np.triu_indices(len(check.names), 1)
    expected = np.maximum(check.expected[..., first, second], 1e-9)
    x, y = (each.ravel() for each in point(check.observed[..., first, second], expected))
    axes.plot(x, y, ".", color=LEARNED, markersize=3, alpha=0.5, label="all pairs")
    for colour, (i, j) in zip(_COLOURS, check.worst_pairs(_MOST_COLOURED), strict=False):
        x, y = point(check.observed[..., i, j], np.maximum(check.expected[..., i, j], 1e-9))
        name = (
            f"{short_name(check.names[i], 12)} – {short_name(check.names[j], 12)}, p = {check.pair_p_value[i, j]:.3g}"
        )
        axes.plot(x.ravel(), y.ravel(), "o", color=colour, markersize=5, label=name)
