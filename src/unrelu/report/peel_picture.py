"""The picture of learned layers: weights, how often units are off, how the innermost units are distributed, inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.stats import norm

from unrelu.contracts import FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.report.generator_picture import TrueWeights, draw_generated, draw_inner
from unrelu.report.peel_summary import LayerSummary, Network, unit_names
from unrelu.report.pictures import INK, LEARNED, NAIVE, SEEN, new_figure, tidy
from unrelu.report.table_image import MOST_NAMES, evenly, name_columns, weight_image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_HISTOGRAMS, _BINS = 4, 30
_MOST_UNITS = 24  # units whose names are all written


def peel_picture(
    network: Network,
    units: FloatArray,
    beside: tuple[FloatArray, FloatArray] | None = None,
    truth: TrueWeights | None = None,
) -> Figure:
    """A row for every layer, its weights beside its units' shares of rows off; below, a few of the innermost units.

    ``units`` are the innermost ones in rows of the table, NaN where the layers do not explain the row. With inputs, two
    more: their weights, and what chose their number; ``beside``, rows of the table and as many samples of the network,
    with its ``truth``, if that is known.
    """
    heights = [min(5.0, 1.7 + 0.17 * layer.n_hidden) for layer in network.layers]
    heights += [2.8, *([min(5.0, 2.2 + 0.17 * network.inner.n_inputs)] if network.inner is not None else [])]
    heights += [3.4] * (network.inner is not None and beside is not None)
    figure = new_figure((11.5, sum(heights) + 0.6))
    first, depth = network.layers[0], len(network.layers)
    figure.suptitle(
        f"{depth} {'layer' if depth == 1 else 'layers'} learned from {first.n_rows:,} x {first.n_outputs:,} outputs",
        fontsize=14,
        color=INK,
    )
    parts = cast("list[SubFigure]", figure.subfigures(len(heights), 1, height_ratios=heights))
    names = network.names
    for number, (part, layer, weights) in enumerate(zip(parts, network.layers, network.weights, strict=False), start=1):
        _draw_layer(part, number, layer, weights, names)
        names = unit_names(layer.n_hidden)
    _draw_units(parts[depth], network, units)
    if network.inner is not None:
        draw_inner(parts[depth + 1], network.inner)
        if beside is not None:
            draw_generated(parts[depth + 2], network, *beside, truth)
    return figure


# --- a layer --------------------------------------------------------------------------------------


def _draw_layer(
    figure: SubFigure, number: int, layer: LayerSummary, weights: FloatArray, names: tuple[str, ...]
) -> None:
    left, right = figure.subplots(1, 2, width_ratios=[2.6, 1.0])
    _draw_weights(figure, left, number, layer, weights, names)
    _draw_shares(right, layer)


def _draw_weights(
    figure: SubFigure, axes: Axes, number: int, layer: LayerSummary, weights: FloatArray, names: tuple[str, ...]
) -> None:
    d, p = weights.shape
    image = weight_image(axes, weights)
    grey = " (grey: not determined)" if np.isnan(weights).any() else ""
    below = f"unit of layer {number - 1}" if number > 1 else "output" if d > MOST_NAMES else ""
    tidy(axes, f"Layer {number}: weights of {d:,} outputs{grey}", below, "hidden unit")
    axes.spines[:].set_visible(False)
    name_columns(axes, names)
    _name_units(axes, p)
    if layer.units_found < layer.n_hidden:
        words = f"{layer.units_found} of {layer.n_hidden} units found:\nthe weights are not determined"
        axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=INK)
    else:
        figure.colorbar(image, ax=axes, pad=0.02, extend="both")


def _draw_shares(axes: Axes, layer: LayerSummary) -> None:
    """Bars beside the rows of the weights."""
    shares = 100.0 * np.array(layer.share_off)
    colours = [NAIVE if unit in layer.doubtful_units else LEARNED for unit in range(len(shares))]
    axes.barh(range(len(shares)), shares, color=colours, height=0.8)
    axes.set_xlim(0.0, 100.0)
    axes.set_ylim(max(layer.n_hidden, 1) - 0.5, -0.5)
    doubtful = " (orange: doubtful)" if layer.doubtful_units else ""
    tidy(axes, f"Units off{doubtful}", "% of the rows", "")
    _name_units(axes, layer.n_hidden)


def _name_units(axes: Axes, count: int) -> None:
    shown = evenly(count, _MOST_UNITS).tolist()
    axes.set_yticks(shown, [unit_names(count)[unit] for unit in shown], fontsize=8)
    axes.tick_params(axis="y", length=0)


# --- the innermost units --------------------------------------------------------------------------


def _draw_units(figure: SubFigure, network: Network, units: FloatArray) -> None:
    explained = units[~np.isnan(units).any(axis=1)]
    shown = evenly(units.shape[1], _MOST_HISTOGRAMS).tolist()
    for axes, unit in zip(figure.subplots(1, _MOST_HISTOGRAMS), [*shown, *[None] * _MOST_HISTOGRAMS], strict=False):
        if unit is None:
            axes.set_axis_off()
        else:
            _draw_unit(axes, unit, explained[:, unit], network)
    figure.axes[0].set_ylabel("density")


def _draw_unit(axes: Axes, unit: int, values: FloatArray, network: Network) -> None:
    """Values above 0, and the Gaussian that they are the upper part of: both have the mass of the rows in which the
    unit is on."""
    on = values[values > 0.0]
    top = float(on.max(initial=0.0)) or 1.0
    edges = np.linspace(0.0, top, _BINS + 1)
    density = np.histogram(on, edges)[0] / max(len(values), 1) / (edges[1] - edges[0])
    axes.stairs(density, edges, fill=True, color=SEEN, label="rows")
    off = f"off in {1.0 - len(on) / max(len(values), 1):.0%}"
    if network.law is not None:
        implied, curve = _law_of(network.law, unit, edges)
        axes.plot(edges, curve, color=LEARNED, linewidth=2, label="learned")
        off += f", learned {implied:.0%}"
    doubtful = " (doubtful)" if unit in network.layers[-1].doubtful_units else ""
    tidy(axes, f"Innermost {unit_names(unit + 1)[unit]}{doubtful}", off, "")
    axes.title.set_color(NAIVE if doubtful else INK)
    axes.set_xlim(0.0, top)
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def _law_of(law: RectifiedGaussian, unit: int, at: FloatArray) -> tuple[float, FloatArray]:
    """(share of rows off, density above 0) that the law of the units implies."""
    bias, size = float(law.bias[unit]), float(law.row_norms[unit])
    if size == 0.0:
        return float(bias <= 0.0), np.zeros(len(at))
    return float(norm.cdf(-bias / size)), np.asarray(norm.pdf(at, bias, size))
