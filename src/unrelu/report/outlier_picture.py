"""The picture of a table's outliers: its scores against those of the model's own rows, and the strangest cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.report.outlier_summary import Judged
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, new_figure, short_name, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 60
_DEPTH = 3.0  # the axis shows scores this many times as far below the typical one as the threshold is
_CALM = 3.0  # standard deviations up to which colours are about linear, and logarithmic beyond
_MOST_ROWS, _MOST_COLUMNS = 25, 30
_MOST_NUMBERS, _MOST_WIDE = 150, 12  # cells, and columns of them, that can be read
_FEW_ROWS = 8


@dataclass(frozen=True, eq=False)
class OutlierResult:
    """Scores of a table's rows, and the strangest of them cell by cell.

    ``simulated``: scores of rows drawn from the model. ``rows``: numbers of the strangest rows, strangest first.
    ``strangeness``: one row of the table's columns for each of them, in signed standard deviations; NaN where missing.
    """

    scores: FloatArray
    simulated: FloatArray
    threshold: float
    false_alarm_rate: float
    rows: NDArray[np.intp]
    strangeness: FloatArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, judged: Judged) -> OutlierResult:
        """From the verdict on a table."""
        verdict, d = judged.verdict, len(judged.names)
        whole = [verdict.cells.whole[row] for row in verdict.top.tolist()]
        return cls(
            verdict.scores,
            verdict.model_scores,
            verdict.threshold,
            judged.false_alarm_rate,
            verdict.top,
            np.array(whole).reshape(len(whole), d),
            judged.names,
        )


def outlier_picture(result: OutlierResult) -> Figure:
    """Two panels: how many rows score how low, and where the strangest rows are strange (if any are given)."""
    shown = len(result.rows) > 0
    figure = new_figure((13.0, 5.8) if shown else (7.5, 5.8))
    flagged = int(np.count_nonzero(result.scores < result.threshold))
    figure.suptitle(f"{flagged:,} of {len(result.scores):,} rows flagged as outliers", fontsize=14, color=INK)
    panels: Any = figure.subplots(1, 2, width_ratios=[1.0, 1.15]) if shown else [figure.subplots()]
    _draw_scores(panels[0], result)
    if shown:
        _draw_cells(figure, panels[1], result)
    return figure


def score_edges(result: OutlierResult) -> FloatArray:
    """Edges of the bins; scores below the first are gathered in the first bin, or one far row would hide the others.

    >>> scores, simulated = np.array([-1e6, -1.0]), np.arange(-4.0, 1.0)
    >>> edges = score_edges(OutlierResult(scores, simulated, -4.0, 0.01, np.array([0]), np.zeros((1, 1)), ("a",)))
    >>> float(edges[0]), float(edges[-1])
    (-8.0, 0.0)
    """
    typical = float(np.median(result.simulated))
    lowest = typical - _DEPTH * (typical - min(result.threshold, typical))
    lowest = max(lowest, min(float(result.scores.min()), float(result.simulated.min())))
    highest = max(float(result.scores.max()), float(result.simulated.max()))
    return np.linspace(lowest, max(highest, lowest + 1e-9), _BINS + 1)


def _draw_scores(axes: Axes, result: OutlierResult) -> None:
    edges = score_edges(result)
    table, model = (np.histogram(np.maximum(s, edges[0]), edges)[0] for s in (result.scores, result.simulated))
    expected = model * (len(result.scores) / len(result.simulated))
    axes.stairs(table, edges, fill=True, color=HIDDEN, label="rows of the table")
    axes.stairs(expected, edges, color=LEARNED, linewidth=2, label="as many clean rows of the model")
    axes.axvline(result.threshold, color=NAIVE, linestyle="--", linewidth=1.5, label=_threshold_label(result))
    axes.set_yscale("log")
    axes.set_ylim(0.5, 3.0 * max(float(table.max()), float(expected.max()), 1.0))
    tidy(axes, "Scores: outliers are left of the dashed line", "score (log density of a row)", "rows")
    beyond = int(np.count_nonzero(result.scores < edges[0]))
    if beyond:
        words = f"← {beyond:,} row{'s' if beyond > 1 else ''}, down to {result.scores.min():.3g}"
        axes.annotate(words, (0.09, 0.74), xycoords="axes fraction", color=INK, fontsize=9)
    # An opaque legend: the dashed line must not run through its words.
    axes.legend(framealpha=1.0, edgecolor="none", fontsize=9, loc="upper left")


def _threshold_label(result: OutlierResult) -> str:
    return f"threshold, with {100.0 * result.false_alarm_rate:.3g} % of clean rows left of it"


def _draw_cells(figure: Figure, axes: Axes, result: OutlierResult) -> None:
    import matplotlib
    from matplotlib.colors import AsinhNorm

    rows, columns = result.rows[:_MOST_ROWS], shown_columns(result.strangeness[:_MOST_ROWS])
    values = result.strangeness[:_MOST_ROWS][:, columns]
    known = np.abs(values[np.isfinite(values)])
    limit = max(float(known.max(initial=0.0)), 2.0 * _CALM)
    colours = matplotlib.colormaps["RdBu_r"].with_extremes(bad="#E4E4E4")
    norm = AsinhNorm(linear_width=_CALM, vmin=-limit, vmax=limit)
    mesh = axes.pcolormesh(np.clip(values, -limit, limit), cmap=colours, norm=norm, edgecolors="white", linewidth=1.0)
    axes.invert_yaxis()
    _name_cells(axes, result, rows, columns)
    if values.size <= _MOST_NUMBERS and len(columns) <= _MOST_WIDE:
        _write_numbers(axes, values, norm)
    steps = [step for step in (0.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6) if step <= limit]
    bar = figure.colorbar(mesh, ax=axes, shrink=0.85, ticks=[-step for step in steps[:0:-1]] + steps)
    bar.ax.set_yticklabels([f"{tick:+g}" if tick else "0" for tick in bar.get_ticks()])
    bar.ax.minorticks_off()
    bar.set_label("standard deviations from what\nthe row's other cells predict (grey: missing)", fontsize=9)


def _name_cells(axes: Axes, result: OutlierResult, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> None:
    left_out = result.strangeness.shape[1] - len(columns)
    title = f"The {len(rows)} strangest rows" if len(rows) > 1 else "The strangest row"
    tidy(axes, title + (f" ({left_out:,} calmer columns left out)" if left_out else ""), "", "row of the table")
    names = [short_name(result.names[column]) for column in columns]
    # Where they fit they lie flat: a reader need not tilt the head.
    flat = len(names) * max(map(len, names)) <= 60
    axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=0 if flat else 90, fontsize=8)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [f"{row + 1:,}" for row in rows.tolist()], fontsize=8)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    if len(rows) < _FEW_ROWS:
        # A few rows are not blown up to the height of the picture.
        axes.set_box_aspect(0.1 * len(rows))
        axes.set_anchor("N")


def shown_columns(strangeness: FloatArray, most: int = _MOST_COLUMNS) -> NDArray[np.intp]:
    """The columns with the strangest cells, in table order.

    >>> shown_columns(np.array([[0.0, 5.0, -9.0], [np.nan, 0.0, 0.0]]), most=2)
    array([1, 2])
    """
    size = np.nanmax(np.abs(strangeness), axis=0, initial=0.0)
    return np.sort(np.argsort(-size, kind="stable")[:most])


def _write_numbers(axes: Axes, values: FloatArray, norm: Any) -> None:
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value) or abs(value) < 0.05:
            continue
        text = f"{value:+.1f}" if abs(value) < 99.95 else f"{value:+.0f}" if abs(value) < 1e4 else f"{value:+.0e}"
        dark = not 0.2 < norm(np.clip(value, norm.vmin, norm.vmax)) < 0.8
        axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=7.5, color="white" if dark else INK)
