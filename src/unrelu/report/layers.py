"""Layers learned from their outputs, in plain numbers, tables and a picture: how each was found, units and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.table import Table
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

from unrelu.contracts import FloatArray
from unrelu.model import RectifiedGaussian
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.recovery.layers.peeled import Peeled
from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner
from unrelu.report.pictures import (
    INK,
    LEARNED,
    MOST_NAMES,
    NAIVE,
    SEEN,
    diagonal,
    evenly,
    name_columns,
    new_figure,
    tidy,
    weight_image,
)
from unrelu.report.tables import fact_table, rows
from unrelu.tables.write import names_or_numbers
from unrelu.validation import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_UNITS, _MOST_INPUTS = 20, 6  # in a table
_MOST_HISTOGRAMS, _BINS = 4, 30
_MOST_UNIT_NAMES, _MOST_INPUT_NAMES = 24, 12  # that are all written in a picture
_PAIRS = ((0, 1), (0, 2), (1, 2))  # principal components of a panel
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
    def of(cls, report: LayerReport, n_outputs: int, undetermined: Sequence[str] = ()) -> LayerSummary:
        """From a layer's report."""
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

    @property
    def n_inputs(self) -> int:
        """q."""
        return int(self.weights.shape[1])


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
            outputs = tuple(f"{name} of layer {depth}" for name in unit_names(layer.report.n_hidden))
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
        layer, names = self.layers[-1], unit_names(self.law.n_features)
        facts = zip(names, layer.share_off, self.law.bias.tolist(), self.law.row_norms.tolist(), strict=True)
        return [
            {"unit": unit, "share_off": off, "bias": bias, "norm": size, "doubtful": i in layer.doubtful_units}
            for i, (unit, off, bias, size) in enumerate(facts)
        ]


def unit_names(count: int) -> tuple[str, ...]:
    """What tables call hidden units.

    >>> unit_names(2)
    ('h0', 'h1')
    """
    return tuple(f"h{index}" for index in range(count))


def input_names(count: int) -> tuple[str, ...]:
    """What tables call inputs.

    >>> input_names(2)
    ('z0', 'z1')
    """
    return tuple(f"z{index}" for index in range(count))


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
    table = rows(("<", *heads), lines)
    table.columns[0].style = "bold"
    return table


def unit_table(units: Sequence[Mapping[str, Any]], most: int = _MOST_UNITS) -> Table:
    """The first units, and how many more there are."""
    lines = [
        (
            unit["unit"],
            f"{unit['share_off']:.1%}",
            f"{unit['bias']:.4g}",
            f"{unit['norm']:.4g}",
            "doubtful" * unit["doubtful"],
        )
        for unit in units
    ]
    return rows(("<innermost unit", ">rows off", ">latent mean (bias)", ">latent sd (norm)", ""), lines, most)


def inner_tables(inner: InnerSummary, most: int = _MOST_UNITS) -> list[Table]:
    """How many inputs there are and why, and the weights of the first of them on the first units."""
    facts = {"inputs": f"{inner.n_inputs:,}"}
    if inner.choice:
        tried = (f"{q} leaves {left:.2g}" for q, left in inner.choice)
        facts["relative residual"] = listed(tried, most=_MOST_UNITS)
    if inner.rows_without_inputs is not None:
        facts["rows without inputs"] = f"{inner.rows_without_inputs:,}"
    shown = min(inner.n_inputs, _MOST_INPUTS)
    more = inner.n_inputs > shown
    lines = [
        (name, *(f"{weight:.4g}" for weight in row[:shown]), *[""] * more)
        for name, row in zip(unit_names(len(inner.bias)), inner.weights.tolist(), strict=True)
    ]
    heads = ("weights of inputs", *(f">{name}" for name in input_names(shown)), *[">..."] * more)
    return [fact_table(facts), rows(heads, lines, most)]


def network_facts(network: Network) -> dict[str, Any]:
    """All of it, for JSON."""
    inner = network.inner
    return {
        "layers": [asdict(layer) for layer in network.layers],
        "units": network.units,
        "inner": None if inner is None else {"n_inputs": inner.n_inputs, **asdict(inner)},
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
            _draw_generated(parts[depth + 2], network, *beside, truth)
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
    axes.set_yticks(shown, [unit_names(count)[unit] for unit in shown], fontsize=8)
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


# --- inputs, and samples beside the table ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TrueWeights:
    """The weights that a network was made with: of the outputs (d x p), and of the inputs (p x q)."""

    outer: FloatArray
    inner: FloatArray

    def matched(self, network: Network) -> tuple[TrueWeights, TrueWeights]:
        """(true, found) weights made comparable; outputs that are not determined are left out.

        A unit is known up to its place and scale: columns of the outer weights have length 1, in the order of those
        found. Inputs are known up to a linear map: the found ones are given the one nearest to the true weights.

        >>> A2, A1 = np.array([[0.0, 3.0], [2.0, 0.0]]), np.array([[1.0], [2.0]])
        >>> inner = InnerSummary(np.array([[-6.0], [-2.0]]), np.zeros(2), ())
        >>> true, found = TrueWeights(A2, A1).matched(Network((), (np.eye(2),), ("a", "b"), None, inner))
        >>> bool(np.allclose(true.outer, found.outer) and np.allclose(true.inner, found.inner))
        True
        """
        inner = network.inner
        assert inner is not None, "a generator has inputs"
        known = np.isfinite(network.weights[0]).all(axis=1)
        found, true = network.weights[0][known], self.outer[known]
        sizes, lengths = np.linalg.norm(found, axis=0), np.linalg.norm(true, axis=0)
        found, true = found / sizes, true / lengths
        order = linear_sum_assignment(-found.T @ true)[1]
        of_inputs, own = inner.weights * sizes[:, None], (self.inner * lengths[:, None])[order]
        turned = of_inputs @ np.linalg.lstsq(of_inputs, own)[0]
        return TrueWeights(true[:, order], own), TrueWeights(found, turned)


def _draw_inner(figure: SubFigure, inner: InnerSummary) -> None:
    """The weights of the inputs, and the residuals that chose their number."""
    left, right = figure.subplots(1, 2, width_ratios=[2.6, 1.0])
    figure.colorbar(weight_image(left, inner.weights), ax=left, pad=0.02, extend="both")
    tidy(left, f"Inputs: weights on {len(inner.bias):,} units", "hidden unit", "input")
    left.spines[:].set_visible(False)
    name_columns(left, unit_names(len(inner.bias)))
    shown, names = evenly(inner.n_inputs, _MOST_INPUT_NAMES).tolist(), input_names(inner.n_inputs)
    left.set_yticks(shown, [names[i] for i in shown], fontsize=8)
    left.tick_params(axis="y", length=0)
    if not inner.choice:
        right.set_axis_off()
        return
    tried, residuals = np.array(inner.choice).T
    residuals = np.maximum(residuals, _LEAST)
    right.plot(tried, residuals, color=INK, linewidth=0.8, zorder=1)
    right.scatter(tried, residuals, c=[LEARNED if q == inner.n_inputs else SEEN for q in tried], s=40, zorder=2)
    right.set_yscale("log")
    right.set_xticks(tried[evenly(len(tried), _MOST_INPUT_NAMES)])
    tidy(right, "Residual by inputs tried", "inputs (dark: chosen)", "relative residual")


def _draw_generated(
    figure: SubFigure, network: Network, rows: FloatArray, samples: FloatArray, truth: TrueWeights | None
) -> None:
    """Samples beside rows of the table, in principal components; true against found weights where they are known."""
    panels = figure.subplots(1, 3)
    scores, drawn = _components(rows, samples)
    pairs = [pair for pair in _PAIRS[: 1 if truth is not None else 3] if max(pair) < scores.shape[1]]
    for axes, (x, y) in zip(panels, pairs, strict=False):
        for values, colour, size, label in ((scores, SEEN, 30, "table"), (drawn, LEARNED, 4, "samples")):
            axes.scatter(values[:, x], values[:, y], s=size, color=colour, linewidths=0, label=label)
        title = "Samples of the network" if axes is panels[0] else ""
        tidy(axes, title, f"principal component {x + 1}", f"component {y + 1}")
    panels[0].legend(frameon=False, fontsize=8)
    for axes in panels[len(pairs) :]:
        axes.set_axis_off()
    if truth is not None:
        true, found = truth.matched(network)
        for axes, title, ours, theirs in (
            (panels[1], "Layer 1", found.outer, true.outer),
            (panels[2], "Inputs", found.inner, true.inner),
        ):
            axes.set_axis_on()
            axes.scatter(theirs.ravel(), ours.ravel(), s=8, color=LEARNED, alpha=0.6, linewidths=0, zorder=2)
            diagonal(axes, [theirs, ours])
            tidy(axes, f"{title}: found against true weights", "true", "found")


def _components(rows: FloatArray, samples: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The first three principal components of rows, and samples along the same directions; NaN columns are left out."""
    known = np.isfinite(samples).all(axis=0)
    center = rows[:, known].mean(axis=0)
    directions = np.linalg.svd(rows[:, known] - center, full_matrices=False)[2][:3].T
    return (rows[:, known] - center) @ directions, (samples[:, known] - center) @ directions
