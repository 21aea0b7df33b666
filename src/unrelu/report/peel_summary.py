"""Layers learned from their outputs, in plain numbers and tables: how each was found, and the innermost units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from unrelu.contracts import FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.estimators.two_layer import TwoLayerReLULearner
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.recovery.layers.peeled import Peeled
from unrelu.report.tables import new_table
from unrelu.samples.columns import names_or_numbers
from unrelu.validation import listed

_MOST_UNITS = 20


@dataclass(frozen=True)
class LayerSummary:
    """One layer. ``share_off`` has, for each unit found, the share of the rows used in which it is off.

    ``undetermined`` names the outputs whose weights the table does not determine; ``doubtful_units`` may be no units.
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
class Network:
    """Layers from the outermost inwards, their weights (d x p), the columns' names, and the law of the innermost units.

    ``law`` is None where layers were peeled and the one below them could not be.
    """

    layers: tuple[LayerSummary, ...]
    weights: tuple[FloatArray, ...]
    names: tuple[str, ...]
    law: RectifiedGaussian | None

    @classmethod
    def of_peeled(cls, peeled: Peeled) -> Network:
        """From what :func:`unrelu.peel` found."""
        labels = names_or_numbers(peeled.feature_names, len(peeled.layers[0].bias))
        layers, outputs = [], labels
        for depth, layer in enumerate(peeled.layers, start=1):
            unknown = [outputs[j] for j in np.flatnonzero(~layer.column_identifiable)]
            layers.append(LayerSummary.of(layer.report, len(layer.bias), unknown))
            outputs = tuple(f"{name} of layer {depth}" for name in unit_names(layer.report.n_hidden))
        return cls(tuple(layers), tuple(each.weights for each in peeled.layers), labels, peeled.hidden_distribution)

    @classmethod
    def of_learner(cls, learner: TwoLayerReLULearner) -> Network:
        """From a fitted estimator of x = A h + a."""
        labels = names_or_numbers(getattr(learner, "feature_names_in_", None), learner.n_features_in_)
        unknown = [labels[j] for j in np.flatnonzero(~learner.column_identifiable_)]
        layer = LayerSummary.of(learner.report_, learner.n_features_in_, unknown if learner.report_.converged else ())
        return cls((layer,), (learner.output_weights_,), labels, learner.hidden_distribution_)

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


def network_facts(network: Network) -> dict[str, Any]:
    """All of it, for JSON."""
    return {
        "layers": [asdict(layer) for layer in network.layers],
        "units": [asdict(unit) for unit in network.units],
    }


def network_tables(network: Network) -> list[Table]:
    """All of it, for the terminal."""
    units = network.units
    return [layer_table(network.layers), *([unit_table(units)] if units else [])]
