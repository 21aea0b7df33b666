"""The picture of a reproduced figure or table, laid out like the paper's, with our curves beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.papers.experiments.design import Curve, Measure, Panel, Results, Study, TableLayout
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours; blue is ours in every picture.
_PAPER_COLOURS = (NAIVE, "#E69F00", "#009E73", "#CC79A7", INK, "#8B5A2B")
_MARKERS = "osD^vP*X"
_LINES = ("-", "--", ":", "-.")
_GREY = "#777777"


def reproduction_picture(study: Study, results: Results) -> Figure:
    """A finished study as one picture: panels of curves with error bars, or a table."""
    layout = study.experiment.layout
    if isinstance(layout, TableLayout):
        return _table_picture(study, results, layout)
    return _panel_picture(study, results, layout)


def _draw_title(figure: Figure, study: Study) -> None:
    how = "reproduced in brief" if study.quick else "reproduced"
    figure.suptitle(f"{study.experiment.title} ({how})", fontsize=14, color=INK)


# --- panels -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stroke:
    """How one curve of one measure is drawn, and what the legend calls it."""

    curve: Curve
    measure: Measure
    label: str
    colour: str
    line: str
    marker: str

    @property
    def style(self) -> dict[str, Any]:
        # An open marker on top shows a curve below it.
        face = "white" if self.curve.oracle else self.colour
        size = {"markersize": 5.5, "linewidth": 1.6, "elinewidth": 0.9, "capsize": 2.0}
        return {"color": self.colour, "linestyle": self.line, "marker": self.marker, "markerfacecolor": face, **size}


def strokes(curves: tuple[Curve, ...], measures: tuple[Measure, ...]) -> list[Stroke]:
    """One stroke for every curve and measure: colours tell curves apart, lines the measures or else the oracles."""
    paper = [curve for curve in curves if not curve.ours]
    drawn = []
    for number, curve in enumerate(curves):
        colour = LEARNED if curve.ours else _PAPER_COLOURS[paper.index(curve) % len(_PAPER_COLOURS)]
        if len(measures) == 1:
            line = _LINES[int(curve.oracle)]
            drawn.append(Stroke(curve, measures[0], curve.name, colour, line, _MARKERS[number % len(_MARKERS)]))
            continue
        for line, marker, measure in zip(_LINES, _MARKERS, measures, strict=False):
            drawn.append(Stroke(curve, measure, f"{curve.name}: {measure.short}", colour, line, marker))
    return drawn


def _panel_picture(study: Study, results: Results, groups: tuple[tuple[Measure, ...], ...]) -> Figure:
    experiment, panels = study.experiment, study.plan.panels
    figure = new_figure((4.4 * len(panels), 1.6 + 3.4 * len(groups)))
    _draw_title(figure, study)
    grid = figure.subplots(len(groups), len(panels), sharey="row", sharex="col", squeeze=False)
    for row, measures in enumerate(groups):
        drawn = strokes(experiment.curves, measures)
        for axes, panel in zip(grid[row], panels, strict=True):
            _draw_panel(axes, results, panel, drawn)
            first, last = panel is panels[0], row == len(groups) - 1
            title = panel.fixed if row == 0 else ""
            label = measures[0].label if len(measures) == 1 else "error, or divergence"
            tidy(axes, title, panel.axis.label if last else "", label if first else "")
    _draw_legend(figure, strokes(experiment.curves, groups[0]), study)
    return figure


def _draw_panel(axes: Axes, results: Results, panel: Panel, drawn: list[Stroke]) -> None:
    """Curves with error bars, a sign of infinity where a mean is beyond all numbers; ticks at the points themselves."""
    axes.set_yscale("log", nonpositive="clip")
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(y=0.12)  # room for signs of infinity
    for order, stroke in enumerate(drawn):
        series = results.series(panel.axis, stroke.curve, stroke.measure)
        finite = np.isfinite(series.mean)
        mean, std = np.where(finite, series.mean, np.nan), np.where(finite, series.std, np.nan)
        _, caps, bars = axes.errorbar(series.x, mean, std, zorder=3 + order, **stroke.style)
        for artist in (*caps, *bars):  # a bar down to 0 or below has no end here: the layout must not look for it
            artist.set_in_layout(False)
        beyond = series.x[~finite]
        signs: dict[str, Any] = {"linestyle": "", "marker": r"$\infty$", "markersize": 10, "color": stroke.colour}
        axes.plot(beyond, np.full(len(beyond), 0.96), transform=axes.get_xaxis_transform(), **signs)
    if panel.axis.logarithmic:
        axes.set_xscale("log")
    points = results.series(panel.axis, drawn[0].curve, drawn[0].measure).x
    axes.set_xticks(points, [_short(x) for x in points])
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="x", labelbottom=True)


def _short(x: float) -> str:
    return f"{x / 1e3:g}k" if x >= 1e3 else f"{x:g}"


def _draw_legend(figure: Figure, drawn: list[Stroke], study: Study) -> None:
    """One legend for all panels, below them, with what the bars are."""
    from matplotlib.lines import Line2D

    style = [{key: value for key, value in s.style.items() if key not in ("elinewidth", "capsize")} for s in drawn]
    handles = [Line2D([], [], **given) for given in style]
    figure.legend(
        handles,
        [stroke.label for stroke in drawn],
        title=f"means ± standard deviations of {study.plan.runs_in_words} runs",
        loc="outside lower center",
        ncols=min(4, (len(drawn) + 1) // 2),
        frameon=False,
        handlelength=3.5,
    )


# --- tables -------------------------------------------------------------------------------------


def _table_picture(study: Study, results: Results, layout: TableLayout) -> Figure:
    figure = new_figure((10.5, 1.9 + 0.75 * len(layout.rows)))
    _draw_title(figure, study)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0.0, len(layout.columns) + 1.0)
    axes.set_ylim(len(layout.rows) + 0.75, -0.5)
    for place, name in enumerate(layout.columns):
        axes.text(place + 1.5, 0.0, name, ha="center", va="center", weight="bold", color=INK)
    for number in range(1, len(layout.rows) + 1):
        axes.axhline(number - 0.5, color=HIDDEN, linewidth=0.8)
        _draw_row(axes, study, results, layout, number)
    axes.axhline(len(layout.rows) + 0.5, color=HIDDEN, linewidth=0.8)
    panel = study.plan.panels[0]
    setting = f"{panel.axis.text(panel.settings[0])}, {panel.fixed}"
    runs = study.plan.runs_in_words
    note = f"{setting}. Above: mean ± standard deviation of {runs} runs here. Below, grey: the paper's."
    axes.text(0.0, len(layout.rows) + 0.75, note, va="center", fontsize=9, color=_GREY)
    return figure


def _draw_row(axes: Axes, study: Study, results: Results, layout: TableLayout, number: int) -> None:
    name, curves, in_paper = layout.rows[number - 1]
    ours = any(curve is not None and curve.ours for curve in curves)
    colour = LEARNED if ours else INK
    axes.text(0.05, number, name, va="center", weight="bold", color=colour)
    axis = study.plan.panels[0].axis
    for place, (curve, printed) in enumerate(zip(curves, in_paper, strict=True)):
        if curve is not None:
            series = results.series(axis, curve, layout.measure)
            text = f"{_seconds(series.mean[0])} ± {_seconds(series.std[0])}"
            height = number if printed is None else number - 0.16
            axes.text(place + 1.5, height, text, ha="center", va="center", color=colour)
        if printed is not None:
            axes.text(place + 1.5, number + 0.2, f"{printed:.2f} s", ha="center", va="center", color=_GREY, fontsize=9)


def _seconds(value: float) -> str:
    return f"{1e3 * value:.2g} ms" if value < 0.1 else f"{value:.2g} s"
