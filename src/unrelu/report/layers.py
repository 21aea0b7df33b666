"""The layers of a network in plain numbers, tables and a picture: how each was found, units and inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from unrelu.contracts import FloatArray
from unrelu.model import RectifiedGaussian
from unrelu.notebook import Table, fact_table
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.recovery.layers.peeled import Peeled
from unrelu.report.pictures import (
    INK,
    LEARNED,
    MOST_NAMES,
    NAIVE,
    SEEN,
    brightest,
    draw_signed,
    evenly,
    name_columns,
    new_figure,
    panels_of,
    parts_of,
    tidy,
)
from unrelu.report.tables import Facts, Rows, numbered, table_of
from unrelu.tables.write import names_or_numbers
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_UNITS, _MOST_INPUTS = 20, 6  # in a table
_MOST_HISTOGRAMS, _BINS = 4, 30
_MOST_UNIT_NAMES, _MOST_INPUT_NAMES = 24, 12  # that are all written in a picture
_LEAST = 1e-17  # residual that is drawn
_BRIGHTEST = 99.0  # percentile of the weights' sizes from which on colours are full


@dataclass(frozen=True, eq=False)
class Network:
    """Layers from the outermost inwards, weights (d x p), columns' names, the innermost units' distribution.

    ``undetermined`` names, for each layer, the outputs whose weights the table does not determine. ``distribution`` is
    None where the next layer could not be peeled off. Where inputs were found: their weights (p x q) and bias, the
    numbers of inputs tried with the residual of each, and the number of rows that do not determine theirs (None where
    the inputs come from a file, which does not hold them).
    """

    layers: tuple[LayerReport, ...]
    weights: tuple[FloatArray, ...]
    names: tuple[str, ...]
    undetermined: tuple[tuple[str, ...], ...]
    distribution: RectifiedGaussian | None
    input_weights: FloatArray | None = None
    input_bias: FloatArray | None = None
    input_choice: tuple[tuple[int, float], ...] = ()
    rows_without_inputs: int | None = None

    @classmethod
    def of(cls, content: Any) -> Network:
        """From what :func:`unrelu.peel` found, or a fitted estimator of x = A h + a."""
        if isinstance(content, Peeled):
            labels = outputs = names_or_numbers(content.feature_names, len(content.layers[0].bias))
            undetermined = []
            for depth, layer in enumerate(content.layers, start=1):
                undetermined.append(tuple(outputs[j] for j in np.flatnonzero(~layer.column_identifiable)))
                outputs = tuple(f"{name} of layer {depth}" for name in numbered("h", layer.report.n_hidden))
            reports, weights = zip(*((each.report, each.weights) for each in content.layers), strict=True)
            network = cls(reports, weights, labels, tuple(undetermined), content.hidden_distribution)
            if (inner := content.inner) is None:
                return network
            return replace(network, input_weights=inner.weights, input_bias=inner.bias, input_choice=inner.choice)
        labels = names_or_numbers(getattr(content, "feature_names_in_", None), content.n_features_in_)
        unknown = np.flatnonzero(~content.column_identifiable_) if content.report_.converged else ()
        return cls(
            (content.report_,),
            (content.output_weights_,),
            labels,
            (tuple(labels[j] for j in unknown),),
            content.hidden_distribution_,
            getattr(content, "input_weights_", None),
            getattr(content, "input_bias_", None),
            getattr(content, "input_choice_", ()),
        )

    def with_inputs(self, inputs: FloatArray) -> Network:
        """Count the rows without inputs: these are NaN where a row does not determine them, or was not used."""
        if self.input_weights is None:
            return self
        used = self.layers[0].n_rows - self.layers[0].n_outlier_rows
        return replace(self, rows_without_inputs=used - int(np.count_nonzero(np.isfinite(inputs).all(axis=1))))

    def units(self) -> list[dict[str, Any]]:
        """How often each of the innermost units is off, and the Gaussian before its rectifier, if there is one."""
        if self.distribution is None:
            return []
        layer, names = self.layers[-1], numbered("h", self.distribution.n_features)
        facts = zip(
            names, _share_off(layer), self.distribution.mean.tolist(), self.distribution.std.tolist(), strict=True
        )
        return [
            {"unit": unit, "share_off": off, "mean": mean, "std": std, "doubtful": i in layer.doubtful_units}
            for i, (unit, off, mean, std) in enumerate(facts)
        ]

    def facts(self) -> Facts:
        """``share_off``: for each unit found, the share of the rows in which it is off."""
        layers = [
            {
                "n_rows": layer.n_rows,
                "n_outputs": layer.n_features,
                "n_hidden": layer.n_hidden,
                "units_found": layer.units_found,
                "share_off": _share_off(layer),
                "noise": layer.noise,
                "residual": layer.residual,
                "outlier_rows": layer.n_outlier_rows,
                "undetermined": unknown,
                "doubtful_units": layer.doubtful_units,
                "ended": layer.ended,
            }
            for layer, unknown in zip(self.layers, self.undetermined, strict=True)
        ]
        inner = None
        if self.input_weights is not None:
            inner = {
                "n_inputs": self.input_weights.shape[1],
                "weights": self.input_weights,
                "bias": self.input_bias,
                "choice": self.input_choice,
                "rows_without_inputs": self.rows_without_inputs,
            }
        return {"layers": layers, "units": self.units(), "inner": inner}

    def rows(self) -> Rows:
        """A column for every layer, the first units, and the first inputs."""
        tables: Rows = [self._layer_table()]
        if units := [{**unit, "note": "doubtful" * unit["doubtful"]} for unit in self.units()]:
            columns = [("<innermost unit", "{unit}"), (">rows off", "{share_off:.1%}")]
            columns += [(">latent mean", "{mean:.4g}"), (">latent sd", "{std:.4g}"), ("", "{note}")]
            tables.append(table_of(units, *columns, most=_MOST_UNITS))
        if self.input_weights is None:
            return tables
        n_units, n_inputs = self.input_weights.shape
        facts = {"inputs": f"{n_inputs:,}"}
        if self.input_choice:
            tried = (f"{q} leaves {left:.2g}" for q, left in self.input_choice)
            facts["relative residual"] = listed(tried, most=_MOST_UNITS)
        if self.rows_without_inputs is not None:
            facts["rows without inputs"] = f"{self.rows_without_inputs:,}"
        shown = min(n_inputs, _MOST_INPUTS)
        more = n_inputs > shown
        of_units = [
            (name, *(f"{weight:.4g}" for weight in row[:shown]), *[""] * more)
            for name, row in zip(numbered("h", n_units), self.input_weights.tolist(), strict=True)
        ]
        heads = ("weights of inputs", *(f">{name}" for name in numbered("z", shown)), *[">..."] * more)
        return [*tables, fact_table(facts), Table(heads, of_units, most=_MOST_UNITS)]

    def _layer_table(self) -> Table:
        """Facts line by line, without lines that are empty for all layers."""
        columns = []
        for layer, unknown in zip(self.layers, self.undetermined, strict=True):
            off = ""
            if layer.rows_off:
                low, middle, high = (f"{share:.1%}" for share in np.percentile(_share_off(layer), [0, 50, 100]))
                off = f"{low} to {high}, median {middle}"
            columns.append(
                {
                    "table": f"{layer.n_rows:,} x {layer.n_features:,}",
                    "units found": f"{layer.units_found:,} of {layer.n_hidden:,}",
                    "rows off, per unit": off,
                    "noise": f"{layer.noise:.3g}",
                    "relative residual": "unknown" if np.isnan(layer.residual) else f"{layer.residual:.3g}",
                    "outlier rows": f"{layer.n_outlier_rows:,} ({layer.n_outlier_rows / layer.n_rows:.1%})",
                    "outputs not determined": listed(unknown, most=8),
                    "doubtful units": listed((f"h{unit}" for unit in layer.doubtful_units), most=8),
                    "search": layer.ended or "",
                }
            )
        lines = [
            (what, *(words[what] for words in columns)) for what in columns[0] if any(words[what] for words in columns)
        ]
        outermost = " (outermost)" if len(columns) > 1 else ""
        heads = (f"layer {depth}" + outermost * (depth == 1) for depth in range(1, len(columns) + 1))
        return Table(("<", *heads), lines)


def _share_off(layer: LayerReport) -> list[float]:
    """For each unit found, the share of the rows used in which it is off."""
    used = max(layer.n_rows - layer.n_outlier_rows, 1)
    return [count / used for count in layer.rows_off]


# --- the picture ----------------------------------------------------------------------------------


def peel_picture(network: Network, units: FloatArray, beside: tuple[FloatArray, FloatArray] | None = None) -> Figure:
    """A row for every layer, its weights beside its units' shares of rows off; below, a few of the innermost units.

    ``units`` are the innermost ones in rows of the table, NaN where the layers do not explain the row. With inputs, two
    more: their weights, and what chose their number; ``beside``, rows of the table and as many samples of the network.
    """
    inputs = network.input_weights
    heights = [*(min(5.0, 1.7 + 0.17 * layer.n_hidden) for layer in network.layers), 2.8]
    if inputs is not None:
        heights += [min(5.0, 2.2 + 0.17 * inputs.shape[1]), *([] if beside is None else [3.4])]
    first, depth = network.layers[0], len(network.layers)
    title = f"{counted(depth, 'layer')} learned from {first.n_rows:,} x {first.n_features:,} outputs"
    parts = parts_of(figure := new_figure((11.5, sum(heights) + 0.6), title), heights=heights)
    names = network.names
    for number, (part, layer, weights) in enumerate(zip(parts, network.layers, network.weights, strict=False), start=1):
        _draw_layer(part, number, layer, weights, names)
        names = numbered("h", layer.n_hidden)
    explained, shown = units[~np.isnan(units).any(axis=1)], evenly(units.shape[1], _MOST_HISTOGRAMS).tolist()
    panels = panels_of(parts[depth], 1, _MOST_HISTOGRAMS, len(shown))
    for axes, unit in zip(panels, shown, strict=True):
        _draw_unit(axes, unit, explained[:, unit], network)
    for axes in panels[:1]:
        axes.set_ylabel("density")
    if inputs is not None:
        _draw_inputs(parts[depth + 1], inputs, network.input_choice)
        if beside is not None:
            _draw_generated(parts[depth + 2], *beside)
    return figure


def _draw_layer(
    figure: SubFigure, number: int, layer: LayerReport, weights: FloatArray, names: tuple[str, ...]
) -> None:
    left, right = figure.subplots(1, 2, width_ratios=[2.6, 1.0])
    d, p = weights.shape
    grey = " (grey: not determined)" if np.isnan(weights).any() else ""
    below = f"unit of layer {number - 1}" if number > 1 else "output" if d > MOST_NAMES else ""
    scale = layer.units_found == layer.n_hidden
    _draw_weights(left, weights, names, numbered("h", p), _MOST_UNIT_NAMES, scale=scale)
    tidy(left, f"Layer {number}: weights of {d:,} outputs{grey}", below, "hidden unit")
    if not scale:
        words = f"{layer.units_found} of {layer.n_hidden} units found:\nthe weights are not determined"
        left.text(0.5, 0.5, words, transform=left.transAxes, ha="center", va="center", color=INK)
    shares = 100.0 * np.array(_share_off(layer))
    colours = [NAIVE if unit in layer.doubtful_units else LEARNED for unit in range(len(shares))]
    right.barh(range(len(shares)), shares, color=colours, height=0.8)
    right.set_xlim(0.0, 100.0)
    right.set_ylim(max(layer.n_hidden, 1) - 0.5, -0.5)
    doubtful = " (orange: doubtful)" if layer.doubtful_units else ""
    tidy(right, f"Units off{doubtful}", "% of the rows", "")
    _name_lines(right, numbered("h", layer.n_hidden), _MOST_UNIT_NAMES)


def _draw_weights(
    axes: Axes, weights: FloatArray, columns: tuple[str, ...], lines: tuple[str, ...], most: int, *, scale: bool
) -> None:
    """Weights (outputs x units), a row for every unit: white is 0, grey undetermined."""
    image = draw_signed(axes, weights.T, brightest(weights, _BRIGHTEST), aspect="auto")
    if scale:
        axes.figure.colorbar(image, ax=axes, pad=0.02, extend="both")
    axes.spines[:].set_visible(False)
    name_columns(axes, columns)
    _name_lines(axes, lines, most)


def _name_lines(axes: Axes, names: tuple[str, ...], most: int) -> None:
    shown = evenly(len(names), most).tolist()
    axes.set_yticks(shown, [names[place] for place in shown], fontsize=8)
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
    if network.distribution is not None:
        mean, std = float(network.distribution.mean[unit]), float(network.distribution.std[unit])
        implied = float(norm.cdf(-mean / std)) if std > 0.0 else float(mean <= 0.0)
        curve = norm.pdf(edges, mean, std) if std > 0.0 else np.zeros(len(edges))
        axes.plot(edges, curve, color=LEARNED, linewidth=2, label="learned")
        off += f", learned {implied:.0%}"
    doubtful = " (doubtful)" if unit in network.layers[-1].doubtful_units else ""
    tidy(axes, f"Innermost h{unit}{doubtful}", off, "")
    axes.title.set_color(NAIVE if doubtful else INK)
    axes.set_xlim(0.0, top)
    axes.set_ylim(bottom=0.0)
    axes.legend(frameon=False, fontsize=8, loc="upper right")


# --- inputs, and samples beside the table ----------------------------------------------------------


def _draw_inputs(figure: SubFigure, weights: FloatArray, choice: tuple[tuple[int, float], ...]) -> None:
    left, right = figure.subplots(1, 2, width_ratios=[2.6, 1.0])
    n_units, n_inputs = weights.shape
    _draw_weights(left, weights, numbered("h", n_units), numbered("z", n_inputs), _MOST_INPUT_NAMES, scale=True)
    tidy(left, f"Inputs: weights on {n_units:,} units", "hidden unit", "input")
    if not choice:
        right.set_axis_off()
        return
    tried, residuals = np.array(choice).T
    residuals = np.maximum(residuals, _LEAST)
    right.plot(tried, residuals, color=INK, linewidth=0.8, zorder=1)
    right.scatter(tried, residuals, c=[LEARNED if q == n_inputs else SEEN for q in tried], s=40, zorder=2)
    right.set_yscale("log")
    right.set_xticks(tried[evenly(len(tried), _MOST_INPUT_NAMES)])
    tidy(right, "Residual by inputs tried", "inputs (dark: chosen)", "relative residual")


def _draw_generated(figure: SubFigure, rows: FloatArray, samples: FloatArray) -> None:
    """Samples beside rows of the table, in the first three principal components of these; NaN columns are left out."""
    full = np.isfinite(samples).all(axis=0)
    center = rows[:, full].mean(axis=0)
    directions = np.linalg.svd(rows[:, full] - center, full_matrices=False)[2][:3].T
    scores, drawn = ((values[:, full] - center) @ directions for values in (rows, samples))
    pairs = [pair for pair in ((0, 1), (0, 2), (1, 2)) if max(pair) < scores.shape[1]]
    panels = panels_of(figure, 1, 3, len(pairs))
    for axes, (x, y) in zip(panels, pairs, strict=True):
        for values, colour, size, label in ((scores, SEEN, 30, "table"), (drawn, LEARNED, 4, "samples")):
            axes.scatter(values[:, x], values[:, y], s=size, color=colour, linewidths=0, label=label)
        title = "Samples of the network" if axes is panels[0] else ""
        tidy(axes, title, f"principal component {x + 1}", f"component {y + 1}")
    for axes in panels[:1]:
        axes.legend(frameon=False, fontsize=8)
