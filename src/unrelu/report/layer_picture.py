"""The picture of a network layer: what was learned from its activations, against what they hid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.report.comparison import Moments, moment_errors
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, SEEN, diagonal, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class LayerResult:
    """True pre-activations of a layer (n x d), and two estimates of their moments from max(0, ·) of them."""

    pre_activations: FloatArray
    names: tuple[str, ...]
    true: Moments
    naive: Moments
    learned: Moments
    learned_mean_stderr: FloatArray

    @property
    def shares_floored(self) -> FloatArray:
        return np.asarray(np.mean(self.pre_activations <= 0.0, axis=0))


def layer_picture(result: LayerResult) -> Figure:
    """Four panels: correlations and means against the truth, and two units with what the floor hid."""
    figure = new_figure((11.0, 10.0))
    figure.suptitle(
        f"Undoing the ReLU: {len(result.names)} hidden units, learned from their activations alone",
        fontsize=15,
        color=INK,
    )
    axes = figure.subplots(2, 2)
    _draw_correlations(axes[0, 0], result)
    _draw_means(axes[0, 1], result)
    for panel, (unit, why) in zip(axes[1], shown_units(result.shares_floored), strict=True):
        _draw_unit(panel, result, unit, why)
    _draw_legend(figure)
    return figure


def shown_units(shares: FloatArray) -> tuple[tuple[int, str], tuple[int, str]]:
    """The unit floored as often as the middle one, and the one floored most: chosen by the data alone.

    >>> shown_units(np.array([0.9, 0.1, 0.5]))
    ((2, 'typical'), (0, 'floored most'))
    """
    order = np.argsort(shares, kind="stable")
    return (int(order[len(order) // 2]), "typical"), (int(order[-1]), "floored most")


def _draw_correlations(axes: Axes, result: LayerResult) -> None:
    pairs = np.triu_indices(len(result.names), 1)
    true, naive, learned = (m.correlation[pairs] for m in (result.true, result.naive, result.learned))
    axes.scatter(true, naive, color=NAIVE, s=14, alpha=0.55, edgecolors="none", zorder=2)
    axes.scatter(true, learned, color=LEARNED, s=14, alpha=0.55, edgecolors="none", zorder=3)
    diagonal(axes, [true, naive, learned])
    title = f"Correlations of {len(true):,} pairs of units"
    tidy(axes, title, "true (pre-activations)", "estimated from activations")
    errors = [moment_errors(m, result.true).correlation for m in (result.naive, result.learned)]
    _note(axes, [f"RMS error {error:.3f}" for error in errors])


def _draw_means(axes: Axes, result: LayerResult) -> None:
    true, learned, bar = result.true.mean, result.learned.mean, 2.0 * result.learned_mean_stderr
    axes.scatter(true, result.naive.mean, color=NAIVE, s=22, zorder=2)
    axes.errorbar(true, learned, bar, fmt="o", color=LEARNED, markersize=4.5, elinewidth=1.0, zorder=3)
    diagonal(axes, [true, result.naive.mean, learned - bar, learned + bar])
    title = "Means (biases), with ± 2 standard errors"
    tidy(axes, title, "true (pre-activations)", "estimated from activations")
    errors = [moment_errors(m, result.true).mean for m in (result.naive, result.learned)]
    _note(axes, [f"RMS error {error:.3f} of a unit's std" for error in errors])


def _draw_unit(axes: Axes, result: LayerResult, unit: int, why: str) -> None:
    y = result.pre_activations[:, unit]
    width = np.ptp(y) / 40.0
    # Whole multiples of the width, so that one edge is the floor.
    edges = np.arange(np.floor(y.min() / width), np.ceil(y.max() / width) + 1.0) * width
    density = np.histogram(y, edges)[0] / (len(y) * width)
    middles = 0.5 * (edges[:-1] + edges[1:])
    hidden = middles < 0.0
    for part, colour, label in ((hidden, HIDDEN, "hidden by the ReLU"), (~hidden, SEEN, "seen")):
        axes.bar(middles[part], density[part], 0.92 * width, color=colour, label=label)
    x = np.linspace(edges[0], edges[-1], 400)
    for moments, colour, dashes in ((result.naive, NAIVE, "--"), (result.learned, LEARNED, "-")):
        curve = _normal(x, moments.mean[unit], moments.std[unit])
        axes.plot(x, curve, color=colour, linestyle=dashes, linewidth=2)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    share = result.shares_floored[unit]
    title = f"{result.names[unit].capitalize()} ({why}): {share:.0%} of its values at or below 0"
    tidy(axes, title, "pre-activation", "density")
    axes.legend(frameon=False, fontsize=9, loc="upper right")


def _draw_legend(figure: Figure) -> None:
    """One legend for all panels: dots above, normal curves below."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=NAIVE, marker="o", markersize=5, linestyle="--", linewidth=2),
        Line2D([], [], color=LEARNED, marker="o", markersize=5, linestyle="-", linewidth=2),
    ]
    names = ["np.mean, np.cov of the activations", "unrelu, from the same activations"]
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, handlelength=3.5)


def _normal(x: FloatArray, mean: float, std: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2.0 * np.pi)))


def _note(axes: Axes, lines: list[str]) -> None:
    """The errors of both estimates, in the lower right corner: flooring pushes means up, away from it."""
    for row, (line, colour) in enumerate(zip(reversed(lines), (LEARNED, NAIVE), strict=True)):
        axes.text(0.98, 0.03 + 0.065 * row, line, transform=axes.transAxes, color=colour, ha="right")
