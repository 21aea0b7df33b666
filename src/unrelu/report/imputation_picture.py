"""The picture of a completed table: the columns with most hidden cells, what is seen of them and what was filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.posterior.cells import Cells
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, SEEN, new_figure, short_name, tidy
from unrelu.report.summaries import labels
from unrelu.shapes import Normal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_COLUMNS = 6
_BINS = 50
_WIDE = 30.0  # largest over smallest value from which an axis is logarithmic


@dataclass(frozen=True, eq=False)
class FilledColumn:
    """One column of some rows: its values, which of them were filled in, its limits, and its uncut law.

    ``below``: the share of the rows that the law has below a value.
    """

    name: str
    values: FloatArray
    filled: BoolArray
    limits: FloatArray
    below: Callable[[FloatArray], FloatArray]


def filled_columns(
    model: RectifiedGaussian, cells: Cells, completed: FloatArray, filled: BoolArray | None = None
) -> list[FilledColumn]:
    """The columns with cells that were ``filled`` in, the hidden ones by default, those with most of them first."""
    hidden = cells.hidden if filled is None else filled
    shapes = model.shapes or (Normal(),) * model.n_features
    order = np.argsort(-hidden.sum(axis=0), kind="stable")[:_MOST_COLUMNS]
    names, found = labels(model), []
    for j in [j for j in order.tolist() if hidden[:, j].any()]:
        limits = np.unique(cells.given[cells.beyond[:, j] != 0, j])
        known = ~np.isnan(completed[:, j])  # what is missing may stay so
        law = _law(model, j, shapes[j].to_latent)
        found.append(FilledColumn(names[j], completed[known, j], hidden[known, j], limits, law))
    return found


def _law(
    model: RectifiedGaussian, j: int, to_latent: Callable[[FloatArray], FloatArray]
) -> Callable[[FloatArray], FloatArray]:
    from scipy.special import ndtr

    def below(x: FloatArray) -> FloatArray:
        return np.asarray(ndtr((to_latent(x) - model.bias[j]) / max(model.row_norms[j], 1e-300)))

    return below


def imputation_picture(columns: list[FilledColumn], n_rows: int, filling: str) -> Figure:
    """A histogram for each column: seen values, filled-in ones on top, the limit, and what the model says."""
    wide = 2 if len(columns) == 4 else min(max(len(columns), 1), 3)
    high = max(-(-len(columns) // wide), 1)
    figure = new_figure((4.6 * wide, 3.5 * high + 0.8))
    title = "Columns with most hidden cells" if columns else "No cell is hidden: nothing was filled in"
    figure.suptitle(f"{title}, filled by {filling} ({n_rows:,} rows)" if columns else title, fontsize=13, color=INK)
    axes = list(figure.subplots(high, wide, squeeze=False).ravel())
    for spare in axes[len(columns) :]:
        spare.set_axis_off()
    for each, column in zip(axes, columns, strict=False):
        _draw(each, column, legend=column is columns[0])
    return figure


def bin_edges(values: FloatArray, limits: FloatArray) -> FloatArray:
    """Edges of bins over all values, one of them at a lone limit; of equal ratios where positive values span so much.

    >>> bin_edges(np.array([0.01, 100.0]), np.array([1.0]))[[0, 25, 50]].round(3)
    array([1.e-02, 1.e+00, 1.e+02])
    """
    ratios = _spans_much(values)
    low, high, *others = (
        np.log([values.min(), values.max(), *limits]) if ratios else [values.min(), values.max(), *limits]
    )
    width = (high - low) / _BINS if high > low else 1.0
    start = others[0] if len(others) == 1 and low < others[0] < high else low
    below, above = int(np.ceil((start - low) / width - 1e-9)), int(np.ceil((high - start) / width - 1e-9))
    edges = start + width * np.arange(-below, max(above, 1) + 1)
    return np.asarray(np.exp(edges) if ratios else edges)


def _spans_much(values: FloatArray) -> bool:
    return bool(values.min() > 0.0 and values.max() > _WIDE * values.min())


def _draw(axes: Axes, column: FilledColumn, legend: bool) -> None:
    edges = bin_edges(column.values, column.limits)
    seen, filled = (np.histogram(column.values[which], edges)[0] for which in (~column.filled, column.filled))
    axes.stairs(seen + filled, edges, baseline=seen, fill=True, color=NAIVE, alpha=0.75, label="filled in")
    axes.stairs(seen, edges, fill=True, color=SEEN, label="seen")
    expected = len(column.values) * np.diff(column.below(edges))
    axes.stairs(expected, edges, color=LEARNED, linewidth=1.5, label="the model, not cut off")
    for limit in column.limits[:1] if len(column.limits) > 3 else column.limits:
        axes.axvline(limit, color=INK, linestyle="--", linewidth=1.2)
    if len(column.limits):
        axes.plot([], [], color=INK, linestyle="--", linewidth=1.2, label="limit")
    if _spans_much(column.values):
        axes.set_xscale("log")
    # Means of cells that nothing tells apart lie in one place: they must not flatten everything else.
    top = 1.15 * max(float(seen.max()), float(expected.max()), 1.0)
    tallest = float((seen + filled).max())
    if tallest > 2.0 * top:
        axes.annotate(f"up to {tallest:,.0f}", (0.02, 0.94), xycoords="axes fraction", color=INK, fontsize=8)
    axes.set_ylim(0.0, min(1.1 * tallest, 2.0 * top) if tallest > top else top)
    tidy(axes, f"{short_name(column.name, 24)}: {column.filled.mean():.0%} hidden", "", "rows")
    if legend:
        axes.legend(framealpha=0.9, edgecolor=HIDDEN, fontsize=8, loc="upper right")
