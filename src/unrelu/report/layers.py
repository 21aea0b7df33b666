"""Layers learned from their outputs, in plain numbers, tables and a picture: how each was found, units and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.stats import norm

from unrelu.contracts import FloatArray
from unrelu.model import RectifiedGaussian
from unrelu.notebook import Table, fact_table
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.recovery.layers.peeled import Peeled
from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner
from unrelu.report.pictures import (
    INK,
    LEARNED,
    MOST_NAMES,
    NAIVE,
    SEEN,
    evenly,
    name_columns,
    new_figure,
    tidy,
    weight_image,
)
from unrelu.tables.write import names_or_numbers
from unrelu.validation import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_UNITS, _MOST_INPUTS = 20, 6  # in a table
_MOST_HISTOGRAMS, _BINS = 4, 30
_MOST_UNIT_NAMES, _MOST_INPUT_NAMES = 24, 12  # that are all written in a picture
_LEAST = 1e-17  # residual that is drawn


@dataclass(frozen=True)
class LayerSummary:
    """One layer. ``share_off`` has, for each unit found, the share of the rows used in which it is off.

    ``undetermined`` names the outputs whose weights the table does not determine; ``doubtful_units`` may be no units.
    ``ended`` says why the search for units was ended before it was over, if it was.
    """

    n_rows: int
    n_outputs: int
    n_hidden: int
    units_found: int
    share_off: tuple[float, ...]
    noise: float
    residual: float
    outlier_rows: int
    undetermined: tuple[str, ...]
    doubtful_units: tuple[int, ...]
    ended: str | None = None

    @classmethod
    def of(cls, report: LayerReport, n_outputs: int, undetermined: Sequence[str]) -> LayerSummary:
        used = max(report.n_rows - report.n_outlier_rows, 1)
        return cls(
            report.n_rows,
            n_outputs,
            report.n_hidden,
            report.units_found,
            tuple(count / used for count in report.rows_off),
            report.noise,
            report.residual,
            report.n_outlier_rows,
            tuple(undetermined),
            report.doubtful_units,
            report.ended,
        )


@dataclass(frozen=True, eq=False)
class InnerSummary:
    """The layer of the inputs: weights (p x q), bias, and the numbers of inputs tried with the residual of each.

    ``rows_without_inputs`` counts the rows used that do not determine theirs; None where that is not known, as files do
    not hold the rows' inputs.
    """

    weights: FloatArray
    bias: FloatArray
    choice: tuple[tuple[int, float], ...]
    rows_without_inputs: int | None = None


@dataclass(frozen=True, eq=False)
class Network:
    """Layers from the outermost inwards, their weights (d x p), the columns' names, and the law of the innermost units.

    ``law`` is None where layers were peeled and the one below them could not be; ``inner`` is the layer of the inputs,
    where it was found.
    """

    layers: tuple[LayerSummary, ...]
    weights: tuple[FloatArray, ...]
    names: tuple[str, ...]
    law: RectifiedGaussian | None
    inner: InnerSummary | None = None

    @classmethod
    def of_peeled(cls, peeled: Peeled) -> Network:
        """From what :func:`unrelu.peel` found."""
        labels = names_or_numbers(peeled.feature_names, len(peeled.layers[0].bias))
        layers, outputs = [], labels
        for depth, layer in enumerate(peeled.layers, start=1):
            unknown = [outputs[j] for j in np.flatnonzero(~layer.column_identifiable)]
            layers.append(LayerSummary.of(layer.report, len(layer.bias), unknown))
            outputs = tuple(f"{name} of layer {depth}" for name in numbered("h", layer.report.n_hidden))
        weights, inner = tuple(each.weights for each in peeled.layers), peeled.inner
        found = None if inner is None else InnerSummary(inner.weights, inner.bias, inner.choice)
        return cls(tuple(layers), weights, labels, peeled.hidden_distribution, found)

    @classmethod
    def of_learner(cls, learner: TwoLayerReLULearner) -> Network:
        """From a fitted estimator of x = A h + a."""
        labels = names_or_numbers(getattr(learner, "feature_names_in_", None), learner.n_features_in_)
        unknown = [labels[j] for j in np.flatnonzero(~learner.column_identifiable_)]
        layer = LayerSummary.of(learner.report_, learner.n_features_in_, unknown if learner.report_.converged else ())
        inner = None
        if hasattr(learner, "input_weights_"):
            inner = InnerSummary(learner.input_weights_, learner.input_bias_, learner.input_choice_)
        return cls((layer,), (learner.output_weights_,), labels, learner.hidden_distribution_, inner)

    def with_inputs(self, inputs: FloatArray) -> Network:
        """The same, with the inputs of the table's rows known: NaN where they are not determined, or a row not used."""
        if self.inner is None:
            return self
        used = self.layers[0].n_rows - self.layers[0].outlier_rows
        without = used - int(np.count_nonzero(np.isfinite(inputs).all(axis=1)))
        return replace(self, inner=replace(self.inner, rows_without_inputs=without))

    @property
    def units(self) -> list[dict[str, Any]]:
        """How often each of the innermost units is off, and the Gaussian before its rectifier, where that is known."""
        if self.law is None:
            return []
        layer, names = self.layers[-1], numbered("h", self.law.n_features)
        facts = zip(names, layer.share_off, self.law.bias.tolist(), self.law.row_norms.tolist(), strict=True)
        return [
            {"unit": unit, "share_off": off, "bias": bias, "norm": size, "doubtful": i in layer.doubtful_units}
            for i, (unit, off, bias, size) in enumerate(facts)
        ]


def numbered(letter: str, count: int) -> tuple[str, ...]:
    """What tables call hidden units (h0, h1, ...) and inputs (z0, z1, ...)."""
    return tuple(f"{letter}{index}" for index in range(count))


def layer_table(layers: Sequence[LayerSummary]) -> Table:
    """Facts line by line, a column for every layer; a line that says nothing of any layer is left out."""
    told = []
    for layer in layers:
        off = ""
        if layer.share_off:
            low, middle, high = (f"{share:.1%}" for share in np.percentile(layer.share_off, [0, 50, 100]))
            off = f"{low} to {high}, median {middle}"
        told.append(
            {
                "table": f"{layer.n_rows:,} x {layer.n_outputs:,}",
                "units found": f"{layer.units_found:,} of {layer.n_hidden:,}",
                "rows off, per unit": off,
                "noise": f"{layer.noise:.3g}",
                "relative residual": "not known" if np.isnan(layer.residual) else f"{layer.residual:.3g}",
                "outlier rows": f"{layer.outlier_rows:,} ({layer.outlier_rows / layer.n_rows:.1%})",
                "outputs not determined": listed(layer.undetermined, most=8),
                "doubtful units": listed((f"h{unit}" for unit in layer.doubtful_units), most=8),
                "search": layer.ended or "",
            }
        )
    lines = [(what, *(words[what] for words in told)) for what in told[0] if any(words[what] for words in told)]
    outermost = " (outermost)" if len(layers) > 1 else ""
    heads = (f"layer {depth}" + outermost * (depth == 1) for depth in range(1, len(layers) + 1))
    return Table(("<", *heads), lines)


def unit_table(units: Sequence[Mapping[str, Any]]) -> Table:
    """The first units, and how many more there are."""
    lines = []
    for unit in units:
        numbers = f"{unit['share_off']:.1%}", f"{unit['bias']:.4g}", f"{unit['norm']:.4g}"
        lines.append((unit["unit"], *numbers, "doubtful" * unit["doubtful"]))
    heads = ("<innermost unit", ">rows off", ">latent mean (bias)", ">latent sd (norm)", "")
    return Table(heads, lines, most=_MOST_UNITS)


def inner_tables(inner: InnerSummary) -> list[Table]:
    """How many inputs there are and why, and the weights of the first of them on the first units."""
    n_units, n_inputs = inner.weights.shape
    facts = {"inputs": f"{n_inputs:,}"}
    if inner.choice:
        tried = (f"{q} leaves {left:.2g}" for q, left in inner.choice)
        facts["relative residual"] = listed(tried, most=_MOST_UNITS)
    if inner.rows_without_inputs is not None:
        facts["rows without inputs"] = f"{inner.rows_without_inputs:,}"
    shown = min(n_inputs, _MOST_INPUTS)
    more = n_inputs > shown
    lines = [
        (name, *(f"{weight:.4g}" for weight in row[:shown]), *[""] * more)
        for name, row in zip(numbered("h", n_units), inner.weights.tolist(), strict=True)
    ]
    heads = ("weights of inputs", *(f">{name}" for name in numbered("z", shown)), *[">..."] * more)
    return [fact_table(facts), Table(heads, lines, most=_MOST_UNITS)]


def network_facts(network: Network) -> dict[str, Any]:
    """All of it, for JSON."""
    inner = network.inner
    return {
        "layers": [asdict(layer) for layer in network.layers],
        "units": network.units,
        "inner": None if inner is None else {"n_inputs": int(inner.weights.shape[1]), **asdict(inner)},
    }


def network_tables(network: Network) -> list[Table]:
    """All of it, for the terminal."""
    units, inner = network.units, network.inner
    tables = [layer_table(network.layers), *([unit_table(units)] if units else [])]
    return tables if inner is None else [*tables, *inner_tables(inner)]


# --- the picture ----------------------------------------------------------------------------------


def peel_picture(
    network: Network,
    units: FloatArray,
    beside: tuple[FloatArray, FloatArray] | None = None,
) -> Figure:
    """A row for every layer, its weights beside its units' shares of rows off; below, a few of the innermost units.

    ``units`` are the innermost ones in rows of the table, NaN where the layers do not explain the row. With inputs, two
    more: their weights, and what chose their number; ``beside``, rows of the table and as many samples of the network.
    """
    heights = [min(5.0, 1.7 + 0.17 * layer.n_hidden) for layer in network.layers]
    heights += [2.8, *([min(5.0, 2.2 + 0.17 * network.inner.weights.shape[1])] if network.inner is not None else [])]
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
        names = numbered("h", layer.n_hidden)
    explained, panels = units[~np.isnan(units).any(axis=1)], parts[depth].subplots(1, _MOST_HISTOGRAMS)
    shown = evenly(units.shape[1], _MOST_HISTOGRAMS).tolist()
    for axes, unit in zip(panels, shown, strict=False):
        _draw_unit(axes, unit, explained[:, unit], network)
    for spare in panels[len(shown) :]:
        spare.set_axis_off()
    panels[0].set_ylabel("density")
    if network.inner is not None:
        _draw_inner(parts[depth + 1], network.inner)
        if beside is not None:
            _draw_generated(parts[depth + 2], *beside)
    return figure


def _draw_layer(
    figure: SubFigure, number: int, layer: LayerSummary, weights: FloatArray, names: tuple[str, ...]
) -> None:
    """Its weights, and beside their rows bars of how often units are off."""
    left, right = figure.subplots(1, 2, width_ratios=[2.6, 1.0])
    d, p = weights.shape
    image = weight_image(left, weights)
    grey = " (grey: not determined)" if np.isnan(weights).any() else ""
    below = f"unit of layer {number - 1}" if number > 1 else "output" if d > MOST_NAMES else ""
    tidy(left, f"Layer {number}: weights of {d:,} outputs{grey}", below, "hidden unit")
    left.spines[:].set_visible(False)
    name_columns(left, names)
    _name_units(left, p)
    if layer.units_found < layer.n_hidden:
        words = f"{layer.units_found} of {layer.n_hidden} units found:\nthe weights are not determined"
        left.text(0.5, 0.5, words, transform=left.transAxes, ha="center", va="center", color=INK)
    else:
        figure.colorbar(image, ax=left, pad=0.02, extend="both")
    shares = 100.0 * np.array(layer.share_off)
    colours = [NAIVE if unit in layer.doubtful_units else LEARNED for unit in range(len(shares))]
    right.barh(range(len(shares)), shares, color=colours, height=0.8)
    right.set_xlim(0.0, 100.0)
    right.set_ylim(max(layer.n_hidden, 1) - 0.5, -0.5)
    doubtful = " (orange: doubtful)" if layer.doubtful_units else ""
    tidy(right, f"Units off{doubtful}", "% of the rows", "")
    _name_units(right, layer.n_hidden)


def _name_units(axes: Axes, count: int) -> None:
    shown = evenly(count, _MOST_UNIT_NAMES).tolist()
    axes.set_yticks(shown, [numbered("h", count)[unit] for unit in shown], fontsize=8)
    axes.tick_params(axis="y", length=0)


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
        bias, size = float(network.law.bias[unit]), float(network.law.row_norms[unit])
        implied = float(norm.cdf(-bias / size)) if size > 0.0 else float(bias <= 0.0)
        curve = norm.pdf(edges, bias, size) if size > 0.0 else np.zeros(len(edges))
        axes.plot(edges, curve, color=LEARNED, linewidth=2, label="learned")
        off += f", learned {implied:.0%}"
    doubtful = " (doubtful)" if unit in network.layers[-1].doubtful_units else ""
    tidy(axes, f"Innermost h{unit}{doubtful}", off, "")
    axes.title.set_color(NAIVE if doubtful else INK)
    axes.set_xlim(0.0, top)
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, fontsize=8, loc="upper right")


# --- inputs, and samples beside the table ----------------------------------------------------------


def _draw_inner(figure: SubFigure, inner: InnerSummary) -> None:
    """The weights of the inputs, and the residuals that chose their number."""
    left, right = figure.subplots(1, 2, width_ratios=[2.6, 1.0])
    figure.colorbar(weight_image(left, inner.weights), ax=left, pad=0.02, extend="both")
    tidy(left, f"Inputs: weights on {len(inner.bias):,} units", "hidden unit", "input")
    left.spines[:].set_visible(False)
    name_columns(left, numbered("h", len(inner.bias)))
    shown, names = evenly(inner.weights.shape[1], _MOST_INPUT_NAMES).tolist(), numbered("z", inner.weights.shape[1])
    left.set_yticks(shown, [names[i] for i in shown], fontsize=8)
    left.tick_params(axis="y", length=0)
    if not inner.choice:
        right.set_axis_off()
        return
    tried, residuals = np.array(inner.choice).T
    residuals = np.maximum(residuals, _LEAST)
    right.plot(tried, residuals, color=INK, linewidth=0.8, zorder=1)
    right.scatter(tried, residuals, c=[LEARNED if q == inner.weights.shape[1] else SEEN for q in tried], s=40, zorder=2)
    right.set_yscale("log")
    right.set_xticks(tried[evenly(len(tried), _MOST_INPUT_NAMES)])
    tidy(right, "Residual by inputs tried", "inputs (dark: chosen)", "relative residual")


def _draw_generated(figure: SubFigure, rows: FloatArray, samples: FloatArray) -> None:
    """Samples beside rows of the table, in the first three principal components of these; NaN columns are left out."""
    panels = figure.subplots(1, 3)
    known = np.isfinite(samples).all(axis=0)
    center = rows[:, known].mean(axis=0)
    directions = np.linalg.svd(rows[:, known] - center, full_matrices=False)[2][:3].T
    scores, drawn = ((values[:, known] - center) @ directions for values in (rows, samples))
    pairs = [pair for pair in ((0, 1), (0, 2), (1, 2)) if max(pair) < scores.shape[1]]
    for axes, (x, y) in zip(panels, pairs, strict=False):
        for values, colour, size, label in ((scores, SEEN, 30, "table"), (drawn, LEARNED, 4, "samples")):
            axes.scatter(values[:, x], values[:, y], s=size, color=colour, linewidths=0, label=label)
        title = "Samples of the network" if axes is panels[0] else ""
        tidy(axes, title, f"principal component {x + 1}", f"component {y + 1}")
    panels[0].legend(frameon=False, fontsize=8)
    for axes in panels[len(pairs) :]:
        axes.set_axis_off()
