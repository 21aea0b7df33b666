"""Layers learned from their outputs, in plain numbers and tables: how each was found, units and inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from unrelu.contracts import FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.estimators.two_layer import TwoLayerReLULearner
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.recovery.layers.peeled import Peeled
from unrelu.report.tables import fact_table, new_table
from unrelu.samples.columns import names_or_numbers
from unrelu.validation import listed

_MOST_UNITS, _MOST_INPUTS = 20, 6


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


@dataclass(frozen=True)
class UnitSummary:
    """One of the innermost units: how often it is off, and the Gaussian before its rectifier."""

    unit: str
    share_off: float
    bias: float
    norm: float
    doubtful: bool


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
    def units(self) -> list[UnitSummary]:
        """The innermost units found; none where their law was not learned."""
        if self.law is None:
            return []
        layer, names = self.layers[-1], unit_names(self.law.n_features)
        facts = zip(names, layer.share_off, self.law.bias.tolist(), self.law.row_norms.tolist(), strict=True)
        return [UnitSummary(*values, doubtful=i in layer.doubtful_units) for i, values in enumerate(facts)]


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
    """Facts line by line, a column for every layer."""
    table = new_table()
    table.add_column("", style="bold", no_wrap=True)
    for depth in range(1, len(layers) + 1):
        table.add_column(f"layer {depth}" + (" (outermost)" if depth == 1 < len(layers) else ""), overflow="fold")
    for what, words in _LINES.items():
        shown = [words(layer) for layer in layers]
        if any(shown):
            table.add_row(what, *map(Text, shown))
    return table


def _rows_off(layer: LayerSummary) -> str:
    if not layer.share_off:
        return ""
    low, middle, high = (f"{share:.1%}" for share in np.percentile(layer.share_off, [0, 50, 100]))
    return f"{low} to {high}, median {middle}"


def _doubtful(layer: LayerSummary) -> str:
    return listed((f"h{unit}" for unit in layer.doubtful_units), most=8)


_LINES: dict[str, Callable[[LayerSummary], str]] = {
    "table": lambda layer: f"{layer.n_rows:,} x {layer.n_outputs:,}",
    "units found": lambda layer: f"{layer.units_found:,} of {layer.n_hidden:,}",
    "rows off, per unit": _rows_off,
    "noise": lambda layer: f"{layer.noise:.3g}",
    "relative residual": lambda layer: "not known" if np.isnan(layer.residual) else f"{layer.residual:.3g}",
    "outlier rows": lambda layer: f"{layer.outlier_rows:,} ({layer.outlier_rows / layer.n_rows:.1%})",
    "outputs not determined": lambda layer: listed(layer.undetermined, most=8),
    "doubtful units": _doubtful,
    "search": lambda layer: layer.ended or "",
}


def unit_table(units: Sequence[UnitSummary], most: int = _MOST_UNITS) -> Table:
    """The first units, and how many more there are."""
    table = new_table()
    table.add_column("innermost unit", no_wrap=True)
    for name in ("rows off", "latent mean (bias)", "latent sd (norm)"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for unit in units[:most]:
        facts = f"{unit.share_off:.1%}", f"{unit.bias:.4g}", f"{unit.norm:.4g}"
        table.add_row(unit.unit, *facts, "doubtful" if unit.doubtful else "")
    if len(units) > most:
        table.add_row(Text(f"... and {len(units) - most:,} more"))
    return table


def inner_tables(inner: InnerSummary, most: int = _MOST_UNITS) -> list[Table]:
    """How many inputs there are and why, and the weights of the first of them on the first units."""
    facts = {"inputs": f"{inner.n_inputs:,}"}
    if inner.choice:
        tried = (f"{q} leaves {left:.2g}" for q, left in inner.choice)
        facts["relative residual"] = listed(tried, most=_MOST_UNITS)
    if inner.rows_without_inputs is not None:
        facts["rows without inputs"] = f"{inner.rows_without_inputs:,}"
    shown = min(inner.n_inputs, _MOST_INPUTS)
    table = new_table("weights of inputs", numbers=(*input_names(shown), *["..."] * (inner.n_inputs > shown)))
    for name, row in zip(unit_names(min(len(inner.bias), most)), inner.weights.tolist(), strict=False):
        table.add_row(name, *(f"{weight:.4g}" for weight in row[:shown]))
    if len(inner.bias) > most:
        table.add_row(Text(f"... and {len(inner.bias) - most:,} more"))
    return [fact_table(facts), table]


def network_facts(network: Network) -> dict[str, Any]:
    """All of it, for JSON."""
    inner = network.inner
    return {
        "layers": [asdict(layer) for layer in network.layers],
        "units": [asdict(unit) for unit in network.units],
        "inner": None if inner is None else {"n_inputs": inner.n_inputs, **asdict(inner)},
    }


def network_tables(network: Network) -> list[Table]:
    """All of it, for the terminal."""
    units, inner = network.units, network.inner
    tables = [layer_table(network.layers), *([unit_table(units)] if units else [])]
    return tables if inner is None else [*tables, *inner_tables(inner)]
