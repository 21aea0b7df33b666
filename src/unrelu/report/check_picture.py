"""The picture of a check: quantiles of the columns that fit worst, and counts of pairs against what is expected."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from unrelu.checks.result import FitCheck
from unrelu.contracts import FloatArray
from unrelu.report.model_picture import draw_quantiles
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, diagonal, new_figure, short_name, tidy
from unrelu.report.quantiles import ColumnQuantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

_MOST_COLUMNS, _MOST_NAMED = 6, 4
_COLOURS = (NAIVE, "#009E73", "#CC79A7", "#E69F00")


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
        draw_quantiles(axes.pop(0), _quantiles(check, j), legend=j == columns[0], note=note)
    if pairs:
        _draw_counts(axes.pop(0), check)
        _draw_residuals(axes.pop(0), check)
    return figure


def _quantiles(check: FitCheck, column: int) -> ColumnQuantiles:
    points = check.quantiles[:, :, column]
    seen, fitted, low, high = points[:, ~np.isnan(points[0])]
    return ColumnQuantiles(check.names[column], seen, fitted, low, high, None, None, np.nan)


def _draw_counts(axes: Axes, check: FitCheck) -> None:
    """Square roots of counts: the same scatter everywhere."""
    _scatter(axes, check, lambda observed, expected: (np.sqrt(expected), np.sqrt(observed)))
    shown = np.sqrt(np.concatenate([each[~np.isnan(each)] for each in (check.observed, check.expected)]))
    diagonal(axes, [shown])
    tidy(axes, "Rows in quadrants of pairs\n(square roots of counts)", "√expected", "√observed")
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _draw_residuals(axes: Axes, check: FitCheck) -> None:
    _scatter(axes, check, lambda seen, expected: (np.sqrt(expected), (seen - expected) / np.sqrt(expected)))
    axes.axhspan(-2.0, 2.0, color=HIDDEN, alpha=0.5, linewidth=0.0, zorder=0)
    tidy(axes, "The same: how far off", "√expected", "(observed − expected) / √expected")


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
