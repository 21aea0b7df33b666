"""A check of a model in plain numbers, tables and a picture of what fits worst."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from unrelu.checks.fit_check import FitCheck
from unrelu.contracts import FloatArray
from unrelu.report.model_picture import ColumnQuantiles, draw_quantiles
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, diagonal, new_figure, short_name, tidy
from unrelu.report.tables import rows
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

_MOST = 10  # columns and pairs in a table for people
_MOST_PAIRS = 100  # in JSON
_MOST_COLUMNS, _MOST_NAMED = 6, 4  # in the picture
_COLOURS = (NAIVE, "#009E73", "#CC79A7", "#E69F00")
_LEGEND = (
    "Off by: the largest difference of the shares of rows below a value. High: above the model's median of what is seen"
    " of the column; higher: above its 80 % quantile. Adjusted: p-values that allow for the number of columns or pairs."
)


def check_facts(check: FitCheck) -> dict[str, Any]:
    """All of it, for JSON; of the pairs those that fit worst."""
    numbers, why = _numbers(check), dict(check.left_out)
    alone = ("fits", "verdict", "level", "p_value", "columns_p_value", "pairs_p_value")
    counts = ("n_rows", "n_looked_at", "n_outlier_rows", "n_simulations", "refitted")
    return {
        **{name: getattr(check, name) for name in (*alone, *counts)},
        "columns": [
            {"name": name, "shape": check.shapes[j], "left_out": why.get(j), **{k: v[j] for k, v in numbers.items()}}
            for j, name in enumerate(check.names)
        ],
        "worst_pairs": [
            {
                "first": check.names[i],
                "second": check.names[j],
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


def check_columns(check: FitCheck) -> dict[str, Any]:
    """One line per column, for a table."""
    return {"column": list(check.names), "shape": list(check.shapes), **_numbers(check)}


def _numbers(check: FitCheck) -> dict[str, FloatArray]:
    return {
        "statistic": check.column_statistic,
        "p_value": check.column_p_value,
        "adjusted_p_value": check.column_adjusted,
        "largest_difference": check.column_distance,
        "share_at_limit": check.share_at_limit,
        "expected_share_at_limit": check.expected_share_at_limit,
    }


def check_shown(check: FitCheck, seconds: float, words: Callable[[str], str]) -> list[str | Table]:
    """All of it, for the terminal; ``words`` turns parameters into options."""
    whole = "" if check.n_looked_at + check.n_outlier_rows == check.n_rows else f" of {check.n_rows:,}"
    taken = "" if check.refitted else " The model is taken as given: nothing was fitted."
    outliers = f" {counted(check.n_outlier_rows, 'outlier row')} left out." if check.n_outlier_rows else ""
    free = [name for name, shape in zip(check.names, check.shapes, strict=True) if shape == "free"]
    shown: list[str | Table] = [
        f"Checked {check.n_looked_at:,}{whole} rows of {counted(len(check.names), 'column')} against"
        f" {counted(check.n_simulations, 'simulated table')} in {seconds:.2f} s.{taken}{outliers}",
        words(check.verdict),
    ]
    if free:
        shown.append(f"Free shapes fit their columns always: {listed(free, 8)}.")
    if check.left_out:
        shown.append(f"Left out: {listed(f'{check.names[j]} ({why})' for j, why in check.left_out)}.")
    lines = []
    for j in check.worst_columns(_MOST):
        shares = (check.share_at_limit[j], check.expected_share_at_limit[j], check.column_distance[j])
        p_values = (check.column_p_value[j], check.column_adjusted[j])
        numbers = [*(f"{share:.1%}" for share in shares), *(f"{p:.3g}" for p in p_values)]
        lines.append((check.names[j], check.shapes[j], *numbers))
    if lines:
        heads = ("worst columns", "shape", ">at limit", ">expected", ">off by", ">p-value", ">adjusted")
        shown += [_LEGEND, rows(heads, lines)]
    pairs = []
    for i, j in check.worst_pairs(_MOST):
        seen, expected = (each[:, 1, 1, i, j] for each in (check.observed, check.expected))
        counts = [text for k in (0, 1) for text in (f"{seen[k]:,.0f}", f"{expected[k]:,.1f}")]
        p_values = (check.pair_p_value[i, j], check.pair_adjusted[i, j])
        pairs.append((f"{check.names[i]} – {check.names[j]}", *counts, *(f"{p:.3g}" for p in p_values)))
    if pairs:
        heads = ("worst pairs", ">both high", ">expected", ">higher", ">expected", ">p-value", ">adjusted")
        shown.append(rows(heads, pairs))
    return shown


# --- the picture ----------------------------------------------------------------------------------


def check_picture(check: FitCheck) -> Figure:
    """Quantile plots, worst column first; observed against expected counts in the quadrants of all pairs."""
    columns, pairs = check.worst_columns(_MOST_COLUMNS), check.worst_pairs(1)
    panels = len(columns) + 2 * bool(pairs)
    wide = min(max(panels, 1), 4)
    rows = max(-(-panels // wide), 1)
    figure = new_figure((4.1 * wide, 4.0 * rows + 0.8))
    figure.suptitle(textwrap.fill(check.verdict.replace("$", r"\$"), 38 * wide), fontsize=11, color=INK)
    axes = list(figure.subplots(rows, wide, squeeze=False).ravel())
    for spare in axes[panels:]:
        spare.set_axis_off()
    for j in columns:
        note = f"{check.shapes[j]}; p = {check.column_p_value[j]:.3g}, adjusted {check.column_adjusted[j]:.3g}"
        points = check.quantiles[:, :, j]
        seen, fitted, low, high = points[:, ~np.isnan(points[0])]
        shown = ColumnQuantiles(check.names[j], seen, fitted, low, high, None, None, np.nan)
        draw_quantiles(axes.pop(0), shown, legend=j == columns[0], note=note)
    if pairs:
        counts, residuals = axes[:2]
        # Square roots of counts have the same scatter everywhere.
        _scatter(counts, check, lambda seen, expected: (np.sqrt(expected), np.sqrt(seen)))
        diagonal(counts, [np.sqrt(each[~np.isnan(each)]) for each in (check.observed, check.expected)])
        tidy(counts, "Rows in quadrants of pairs\n(square roots of counts)", "√expected", "√observed")
        counts.legend(frameon=False, fontsize=8, loc="upper left")
        _scatter(residuals, check, lambda seen, expected: (np.sqrt(expected), (seen - expected) / np.sqrt(expected)))
        residuals.axhspan(-2.0, 2.0, color=HIDDEN, alpha=0.5, linewidth=0.0, zorder=0)
        tidy(residuals, "The same: how far off", "√expected", "(observed − expected) / √expected")
    return figure


def _scatter(axes: Axes, check: FitCheck, point: Point) -> None:
    """Every quadrant of every pair; those that fit worst in colours."""
    first, second = np.triu_indices(len(check.names), 1)
    expected = np.maximum(check.expected[..., first, second], 1e-9)
    x, y = (each.ravel() for each in point(check.observed[..., first, second], expected))
    axes.plot(x, y, ".", color=LEARNED, markersize=3, alpha=0.5, label="all pairs")
    for colour, (i, j) in zip(_COLOURS, check.worst_pairs(_MOST_NAMED), strict=False):
        x, y = point(check.observed[..., i, j], np.maximum(check.expected[..., i, j], 1e-9))
        name = (
            f"{short_name(check.names[i], 12)} – {short_name(check.names[j], 12)}, p = {check.pair_p_value[i, j]:.3g}"
        )
        axes.plot(x.ravel(), y.ravel(), "o", color=colour, markersize=5, label=name)
