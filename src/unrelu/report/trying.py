"""Results of ``unrelu demo``, a learned layer beside the truth, and ``unrelu reproduce``, a paper's figure again."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.stats import norm, skew

from unrelu.contracts import FloatArray
from unrelu.estimators import RectifiedGaussianLearner
from unrelu.model import RectifiedGaussian
from unrelu.notebook import Table
from unrelu.papers.study import Curve, Measure, Panel, SeriesOf, Study
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, SEEN, diagonal, new_figure, tidy
from unrelu.tables import ArraySamples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAIVE, _LEARNED, _IDEAL = "np.mean, np.cov", "unrelu", "unrelu, on exactly normal rows"
# Okabe and Ito's colours; blue is ours in every picture.
_PAPER_COLOURS = (NAIVE, "#E69F00", "#009E73", "#CC79A7", INK, "#8B5A2B")
_MARKERS = "osD^vP*X"
_LINES = ("-", "--", ":", "-.")
_GREY = "#777777"

Errors: TypeAlias = Mapping[str, Mapping[str, float]]
# How one curve of one measure is drawn: both, what the legend calls it, and matplotlib's names for its style.
Stroke: TypeAlias = tuple[Curve, Measure, str, dict[str, Any]]


# --- the demo -----------------------------------------------------------------------------------------


def trained_layer(units: int = 32, seed: int = 0) -> tuple[FloatArray, float]:
    """The pre-activations of a hidden layer, and its network's training accuracy.

    The network is trained on the digits: centred pixels, 60 rounds, about a second.
    """
    from sklearn.datasets import load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    images, digits = load_digits(return_X_y=True)
    pixels = images / 16.0
    pixels -= pixels.mean(axis=0)
    network = MLPClassifier((units,), activation="relu", max_iter=60, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 60 rounds are plenty for a demo
        network.fit(pixels, digits)
    before = pixels @ network.coefs_[0] + network.intercepts_[0]
    return np.asarray(before), float(network.score(pixels, digits))


def moments_of_rows(rows: FloatArray) -> RectifiedGaussian:
    """The plain sample moments, by np.mean and np.cov."""
    return RectifiedGaussian(rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False)))


def moment_errors(estimate: RectifiedGaussian, true: RectifiedGaussian) -> dict[str, float]:
    """Root mean squared errors: mean and std in units of each column's true std; a pair's correlation counts once."""
    off = {
        "mean": (estimate.mean - true.mean) / true.std,
        "std": (estimate.std - true.std) / true.std,
        "correlation": (estimate.correlation - true.correlation)[np.triu_indices(true.n_features, 1)],
    }
    return {name: float(np.sqrt(np.mean(values**2))) if len(values) else 0.0 for name, values in off.items()}


def mean_absolute_skewness(rows: FloatArray) -> float:
    """The mean over columns of the absolute skewness; 0 for normal columns."""
    return float(np.mean(np.abs(skew(rows))))


def learned_layer(
    pre_activations: FloatArray, names: tuple[str, ...], seed: int
) -> tuple[RectifiedGaussianLearner, RectifiedGaussian, RectifiedGaussian, Errors, dict[str, float]]:
    """The learner of the activations; true and plain moments; errors of the plain, the learned, and those that unrelu
    learns of exactly normal rows; and how long the first two took."""
    seen = np.maximum(pre_activations, 0.0)
    RectifiedGaussianLearner().fit(seen)  # loads (the first time: compiles) the kernels, which is not timed
    start = time.perf_counter()
    naive = moments_of_rows(seen)
    between = time.perf_counter()
    learner = RectifiedGaussianLearner().fit(ArraySamples(seen, feature_names=names))
    seconds = {_NAIVE: between - start, _LEARNED: time.perf_counter() - between}
    true = moments_of_rows(pre_activations)
    repeated = RectifiedGaussianLearner().fit(true.sample(len(seen), random_state=seed))
    estimates = {_NAIVE: naive, _LEARNED: learner.distribution_, _IDEAL: repeated.distribution_}
    return learner, true, naive, {name: moment_errors(each, true) for name, each in estimates.items()}, seconds


def comparison_table(errors: Errors, seconds: Mapping[str, float]) -> Table:
    """Errors of several estimates of the same moments, side by side."""
    lines = []
    for name, error in errors.items():
        took = f"{1e3 * seconds[name]:.1f} ms" if name in seconds else ""
        lines.append((name, *(f"{error[what]:.3f}" for what in ("mean", "std", "correlation")), took))
    return Table(("error (RMS) of", ">mean", ">std", ">correlation", ">time"), lines)


def layer_picture(
    pre_activations: FloatArray,
    names: tuple[str, ...],
    moments: tuple[RectifiedGaussian, RectifiedGaussian, RectifiedGaussian],
    mean_stderr: FloatArray,
) -> Figure:
    """Four panels: correlations and means against the truth, and two units with their values below the floor.

    ``moments``: true ones, and two estimates of them from the activations, plain and learned.
    """
    from matplotlib.lines import Line2D

    true, naive, learned = moments
    title = f"Undoing the ReLU: {len(names)} hidden units, learned from their activations alone"
    figure = new_figure((11.0, 10.0), title, 15.0)
    (of_pairs, of_means), below = figure.subplots(2, 2)
    errors = [moment_errors(each, true) for each in (naive, learned)]
    r = [each.correlation[np.triu_indices(len(names), 1)] for each in moments]
    for values, colour, order in ((r[1], NAIVE, 2), (r[2], LEARNED, 3)):
        of_pairs.scatter(r[0], values, color=colour, s=14, alpha=0.55, edgecolors="none", zorder=order)
    diagonal(of_pairs, r)
    truth, estimate = "true (pre-activations)", "estimated from activations"
    tidy(of_pairs, f"Correlations of {len(r[0]):,} pairs of units", truth, estimate)
    _note(of_pairs, [f"RMS error {error['correlation']:.3f}" for error in errors])
    bar = 2.0 * mean_stderr
    of_means.scatter(true.mean, naive.mean, color=NAIVE, s=22, zorder=2)
    style: Any = {"fmt": "o", "color": LEARNED, "markersize": 4.5, "elinewidth": 1.0}
    of_means.errorbar(true.mean, learned.mean, bar, zorder=3, **style)
    diagonal(of_means, [true.mean, naive.mean, learned.mean - bar, learned.mean + bar])
    tidy(of_means, "Means, with ± 2 standard errors", truth, estimate)
    _note(of_means, [f"RMS error {error['mean']:.3f} of a unit's std" for error in errors])
    shares = np.mean(pre_activations <= 0.0, axis=0)
    by_share = np.argsort(shares, kind="stable").tolist()
    shown = (by_share[len(by_share) // 2], "typical"), (by_share[-1], "floored most")  # chosen by the data alone
    for panel, (unit, why) in zip(below, shown, strict=True):
        title = f"{names[unit].capitalize()} ({why}): {shares[unit]:.0%} of its values at or below 0"
        tidy(panel, title, "pre-activation", "density")
        _draw_unit(panel, pre_activations[:, unit], [(each.mean[unit], each.std[unit]) for each in moments[1:]])
    # One legend for all panels: dots above, normal curves below.
    dots: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 2}
    handles = [Line2D([], [], color=NAIVE, linestyle="--", **dots), Line2D([], [], color=LEARNED, **dots)]
    words = ["np.mean, np.cov of the activations", "unrelu, from the same activations"]
    figure.legend(handles, words, loc="outside lower center", ncols=2, frameon=False, handlelength=3.5)
    return figure


def _draw_unit(axes: Axes, y: FloatArray, estimates: list[tuple[float, float]]) -> None:
    width = np.ptp(y) / 40.0
    # Whole multiples of the width, so that one edge is the floor.
    edges = np.arange(np.floor(y.min() / width), np.ceil(y.max() / width) + 1.0) * width
    density = np.histogram(y, edges)[0] / (len(y) * width)
    middles = 0.5 * (edges[:-1] + edges[1:])
    hidden = middles < 0.0
    for part, colour, label in ((hidden, HIDDEN, "hidden by the ReLU"), (~hidden, SEEN, "seen")):
        axes.bar(middles[part], density[part], 0.92 * width, color=colour, label=label)
    x = np.linspace(edges[0], edges[-1], 400)
    for (mean, std), colour, dashes in zip(estimates, (NAIVE, LEARNED), ("--", "-"), strict=True):
        axes.plot(x, norm.pdf(x, mean, std), color=colour, linestyle=dashes, linewidth=2)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.legend(frameon=False, fontsize=9, loc="upper right")


def _note(axes: Axes, lines: list[str]) -> None:
    """The errors of both estimates, in the lower right corner: flooring pushes means up, away from it."""
    for row, (line, colour) in enumerate(zip(reversed(lines), (LEARNED, NAIVE), strict=True)):
        axes.text(0.98, 0.03 + 0.065 * row, line, transform=axes.transAxes, color=colour, ha="right")


# --- figures and tables of the papers -----------------------------------------------------------------


def reproduction_picture(study: Study, results: SeriesOf) -> Figure:
    """A finished study as one picture: panels of curves with error bars, or a table."""
    experiment, panels = study.experiment, study.panels
    size = (4.4 * len(panels), 1.6 + 3.4 * len(experiment.layout))
    title = f"{experiment.title} ({'reproduced in brief' if study.quick else 'reproduced'})"
    figure = new_figure((10.5, 1.9 + 0.75 * len(experiment.table)) if experiment.table else size, title)
    (_draw_table if experiment.table else _draw_panels)(figure, study, results)
    return figure


# --- panels -------------------------------------------------------------------------------------


def strokes(curves: tuple[Curve, ...], measures: tuple[Measure, ...]) -> list[Stroke]:
    """One stroke for every curve and measure: colours distinguish curves, lines the measures or else the oracles."""
    paper = [curve for curve in curves if not curve.ours]
    drawn = []
    for number, curve in enumerate(curves):
        colour = LEARNED if curve.ours else _PAPER_COLOURS[paper.index(curve) % len(_PAPER_COLOURS)]
        alone = [(_LINES[int(curve.oracle)], _MARKERS[number % len(_MARKERS)], measures[0])]
        for line, marker, measure in alone if len(measures) == 1 else zip(_LINES, _MARKERS, measures, strict=False):
            style: dict[str, Any] = {"color": colour, "linestyle": line, "marker": marker}
            # An open marker on top shows a curve below it.
            style |= {"markerfacecolor": "white" if curve.oracle else colour, "markersize": 5.5, "linewidth": 1.6}
            label = curve.name if len(measures) == 1 else f"{curve.name}: {measure.short}"
            drawn.append((curve, measure, label, style))
    return drawn


def _draw_panels(figure: Figure, study: Study, results: SeriesOf) -> None:
    from matplotlib.lines import Line2D

    experiment, panels = study.experiment, study.panels
    groups = experiment.layout
    grid = figure.subplots(len(groups), len(panels), sharey="row", sharex="col", squeeze=False)
    for row, measures in enumerate(groups):
        drawn = strokes(experiment.curves, measures)
        for axes, panel in zip(grid[row], panels, strict=True):
            _draw_panel(axes, results, panel, drawn)
            first, last = panel is panels[0], row == len(groups) - 1
            title = panel.fixed if row == 0 else ""
            label = measures[0].label if len(measures) == 1 else "error, or divergence"
            tidy(axes, title, panel.axis.label if last else "", label if first else "")
    drawn = strokes(experiment.curves, groups[0])
    figure.legend(  # one for all panels, below them, with what the bars are
        [Line2D([], [], **style) for *_, style in drawn],
        [label for _, _, label, _ in drawn],
        title=f"means ± standard deviations of {study.runs_in_words} runs",
        loc="outside lower center",
        ncols=min(4, (len(drawn) + 1) // 2),
        frameon=False,
        handlelength=3.5,
    )


def _draw_panel(axes: Axes, results: SeriesOf, panel: Panel, drawn: list[Stroke]) -> None:
    """Curves with error bars, a sign of infinity where a mean is infinite; ticks at the points themselves."""
    axes.set_yscale("log", nonpositive="clip")
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(y=0.12)  # room for signs of infinity
    for order, (curve, measure, _, style) in enumerate(drawn):
        series = results(panel.axis, curve, measure)
        finite = np.isfinite(series.mean)
        mean, std = np.where(finite, series.mean, np.nan), np.where(finite, series.std, np.nan)
        _, caps, bars = axes.errorbar(series.x, mean, std, zorder=3 + order, elinewidth=0.9, capsize=2.0, **style)
        for artist in (*caps, *bars):  # a bar down to 0 or below has no end here: the layout must not look for it
            artist.set_in_layout(False)
        infinite = series.x[~finite]
        signs: dict[str, Any] = {"linestyle": "", "marker": r"$\infty$", "markersize": 10, "color": style["color"]}
        axes.plot(infinite, np.full(len(infinite), 0.96), transform=axes.get_xaxis_transform(), **signs)
    if panel.axis.logarithmic:
        axes.set_xscale("log")
    points = results(panel.axis, *drawn[0][:2]).x
    axes.set_xticks(points, [f"{x / 1e3:g}k" if x >= 1e3 else f"{x:g}" for x in points])
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="x", labelbottom=True)


# --- tables -------------------------------------------------------------------------------------


def _draw_table(figure: Figure, study: Study, results: SeriesOf) -> None:
    experiment, columns, table = study.experiment, study.experiment.columns, study.experiment.table
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0.0, len(columns) + 1.0)
    axes.set_ylim(len(table) + 0.75, -0.5)
    for place, name in enumerate(columns):
        axes.text(place + 1.5, 0.0, name, ha="center", va="center", weight="bold", color=INK)
    for number, (name, curves, in_paper) in enumerate(table, start=1):
        axes.axhline(number - 0.5, color=HIDDEN, linewidth=0.8)
        colour = LEARNED if any(curve is not None and curve.ours for curve in curves) else INK
        axes.text(0.05, number, name, va="center", weight="bold", color=colour)
        for place, (curve, printed) in enumerate(zip(curves, in_paper, strict=True), start=1):
            if curve is not None:
                series = results(study.panels[0].axis, curve, experiment.measures[0])
                text = f"{_seconds(series.mean[0])} ± {_seconds(series.std[0])}"
                height = number if printed is None else number - 0.16
                axes.text(place + 0.5, height, text, ha="center", va="center", color=colour)
            if printed is not None:
                style: Any = {"ha": "center", "va": "center", "color": _GREY, "fontsize": 9}
                axes.text(place + 0.5, number + 0.2, f"{printed:.2f} s", **style)
    axes.axhline(len(table) + 0.5, color=HIDDEN, linewidth=0.8)
    panel, runs = study.panels[0], study.runs_in_words
    setting = f"{panel.axis.text(panel.settings[0])}, {panel.fixed}"
    note = f"{setting}. Above: mean ± standard deviation of {runs} runs here. Below, grey: the paper's."
    axes.text(0.0, len(table) + 0.75, note, va="center", fontsize=9, color=_GREY)


def _seconds(value: float) -> str:
    return f"{1e3 * value:.2g} ms" if value < 0.1 else f"{value:.2g} s"
