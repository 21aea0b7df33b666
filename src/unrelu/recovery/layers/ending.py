"""How a search for a layer with few inputs ends: the inputs of the rows, or what is missing and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.errors import (
    CannotPeelError,
    DoubtfulInputsWarning,
    DoubtfulUnitsWarning,
    UnfinishedWarning,
    WeakColumnsWarning,
)
from unrelu.recovery.layers.clock import INTERRUPTED, TIME_WAS_UP
from unrelu.recovery.layers.decoding import FoundLayer, LayerReport
from unrelu.recovery.layers.facet_fit import misfit
from unrelu.recovery.layers.facets import MISFIT
from unrelu.recovery.layers.inputs import UNEXPLAINED, InnerLayer, inputs_near, standard_layer
from unrelu.recovery.layers.peeled import Peeled, PeeledLayer
from unrelu.recovery.layers.rectifier import ROUNDED
from unrelu.recovery.matrix.matrix import MatrixReport
from unrelu.validation import listed, warn

_MANY = 0.05  # share of the rows without inputs from where on their law is a guess
_AGAIN = 8
_VAGUE = 0.1  # standard error of an output's weights, relative, that is too large
_FLAT = 1e-6  # of root mean squares
_STRANGE = 1.5 * MISFIT  # of a unit's law, among as many units as a network has
_MORE = 8.0  # times the noise that a network may leave
_EXPLAINED = 1e-6  # relative residual


def with_inputs(peeled: Peeled, inner: InnerLayer, heights: FloatArray, seed: int) -> Peeled:
    """The network down to its inputs, scaled so that they have mean 0 and covariance I; warns where that is a guess.

    With noise the inputs come from the rows (``heights`` above the floor) themselves, and units from the inputs.
    """
    found = None
    if peeled.layers[-1].matrix_report.residual > ROUNDED:
        peeled, inner, found = _settled(peeled, inner, heights)
    else:
        check_explained(inner, peeled.hidden, peeled)
    hidden = peeled.hidden
    layer = standard_layer(inner, hidden, seed, found)
    inputs = layer.inputs(hidden)
    warn_of_inputs(layer, inputs, hidden)
    return replace(peeled, hidden=hidden, inner=layer, inputs=inputs, hidden_distribution=layer.law)


def _settled(peeled: Peeled, inner: InnerLayer, heights: FloatArray) -> tuple[Peeled, InnerLayer, FloatArray]:
    """With noise: inputs from the rows, units from the inputs, and outputs' weights from the units, again and again.

    Units that come from the inputs have hardly any noise left, those that weights were found with have. Outputs whose
    standard errors are not small against their weights become NaN at the end.
    """
    outer, hidden = peeled.layers[-1], peeled.hidden
    for _ in range(_AGAIN):
        found = outer.inputs_behind(heights, inner)
        known = np.isfinite(found[:, 0])
        hidden = np.where(known[:, None], inner.units(np.nan_to_num(found)), hidden)
        rows, bias, errors = _outputs_of(hidden[known], heights[known])
        better = outer.column_identifiable & (errors < _VAGUE)
        weights = np.where(better[:, None], rows, outer.weights)
        lengths = np.linalg.norm(weights[outer.column_identifiable], axis=0)
        outer = replace(outer, weights=weights / lengths, bias=np.where(better, bias + outer.floor, outer.bias))
        hidden, inner = hidden * lengths, inner.scaled(lengths)
    vague = np.flatnonzero(outer.column_identifiable & ~better)
    if len(vague):
        warn(
            f"Outputs {listed(map(str, vague))} are on in too few rows for their noise to tell their weights: NaN.",
            WeakColumnsWarning,
        )
        weights, bias = outer.weights.copy(), outer.bias.copy()
        weights[vague] = bias[vague] = np.nan
        lengths = np.linalg.norm(weights[better], axis=0)
        outer = replace(outer, weights=weights / lengths, bias=bias, column_identifiable=better)
        hidden, inner = hidden * lengths, inner.scaled(lengths)
    peeled = replace(peeled, layers=(*peeled.layers[:-1], outer), hidden=hidden)
    _check_fit(peeled, inner, heights[known], found[known])
    return peeled, inner, found


def _outputs_of(hidden: FloatArray, heights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights and bias of outputs by least squares over the rows in which they are on, and errors relative to them."""
    lifted = np.column_stack([hidden, np.ones(len(hidden))])
    rows, errors = np.zeros((heights.shape[1], lifted.shape[1])), np.full(heights.shape[1], np.inf)
    for output, seen in enumerate(heights.T):
        on = seen > 0.0
        row, _, rank, _ = np.linalg.lstsq(lifted[on], seen[on])
        if rank == len(row) < np.count_nonzero(on):
            left, inverse = seen[on] - lifted[on] @ row, np.linalg.inv(lifted[on].T @ lifted[on])
            spread = float(left @ left) / (len(left) - rank) * np.trace(inverse[:-1, :-1])
            rows[output], errors[output] = row, np.sqrt(spread) / np.linalg.norm(row[:-1])
    return rows[:, :-1], rows[:, -1], errors


def check_explained(inner: InnerLayer, hidden: FloatArray, peeled: Peeled | None = None) -> None:
    """Refuse inputs that do not give the units of the rows, which have no noise."""
    left, known = inner.left_of(hidden)
    if known <= inner.weights.size or left > UNEXPLAINED:
        raise CannotPeelError(
            f"The {inner.n_inputs} inputs found leave a relative error of {left:.1g} of {hidden.shape[1]} units, and"
            f" {known:,} of {len(hidden):,} rows determine them: they are not the network's. Add rows,"
            " or try another width or number of inputs.",
            peeled,
            None if peeled is None else peeled.layers[-1].report,
        )


def _check_fit(peeled: Peeled, inner: InnerLayer, heights: FloatArray, inputs: FloatArray) -> None:
    """Refuse a network that leaves more of its rows than noise does."""
    outer = peeled.layers[-1]
    known, noise = outer.column_identifiable, outer.matrix_report.residual
    rebuilt = (outer.output(inner.units(inputs)) - outer.floor)[:, known]
    size = float(np.linalg.norm(heights[:, known]))
    left = float(np.linalg.norm(heights[:, known] - rebuilt)) / size if size > 0.0 else 1.0
    if not left <= _MORE * noise:
        raise CannotPeelError(
            f"The {inner.weights.shape[0]} units and {inner.n_inputs} inputs found leave a relative error of"
            f" {left:.1g}, where {noise:.1g} is noise: they are not the network's. The noise is too large, or rows are"
            " too few.",
            peeled,
            outer.report,
        )


def with_both_layers(peeled: Peeled, outer: InnerLayer, below: InnerLayer, report: LayerReport, seed: int) -> Peeled:
    """The network x <- h <- g <- z: ``outer`` is h = ReLU(A g + b) of the hidden units so far, ``below`` g's layer."""
    lengths, h = np.linalg.norm(outer.weights, axis=0), peeled.hidden
    A, b, below = outer.weights / lengths, outer.bias, below.scaled(lengths)
    g = inputs_near(h, A, b, below)[1]
    sure = np.isfinite(g[:, 0])
    below = standard_layer(below, g[sure], seed)
    z, g = inputs_near(h, A, b, below)
    sure = np.isfinite(g[:, 0])
    lost = int(np.count_nonzero(~sure))
    lifted = np.column_stack([g[sure], np.ones(np.count_nonzero(sure))])
    ranks = [np.linalg.matrix_rank(lifted[on], tol=_FLAT * np.sqrt(len(lifted))) for on in (h[sure] > 0.0).T]
    told = np.array(ranks) == lifted.shape[1]
    left = float(np.linalg.norm(np.maximum(lifted[:, :-1] @ A.T + b, 0.0) - h[sure]) / np.linalg.norm(h[sure]))
    off = tuple(int(count) for count in (g[sure] == 0.0).sum(axis=0))
    n, (p, k) = len(h), A.shape
    placed = replace(report, n_rows=n, n_features=p, rows_off=off, residual=left, n_outlier_rows=0)
    weak = tuple(np.flatnonzero(~told).tolist())
    matrix = MatrixReport("chart", "free", n, p, k, 0, left, True, float((h == 0.0).mean()), 0.0, weak, lost, None)
    layer = PeeledLayer(A, b, np.zeros(p), told, placed, matrix)
    _warn_of_both(lost, n, weak)
    return replace(
        peeled, layers=(*peeled.layers, layer), hidden=g, inner=below, inputs=z, hidden_distribution=below.law
    )


def _warn_of_both(lost: int, n: int, weak: tuple[int, ...]) -> None:
    if lost > _MANY * n:
        warn(
            f"{lost:,} of {n:,} rows have too few hidden units on to tell the units behind them, which are NaN there;"
            " the law of the inputs was learned without these rows, and samples differ from the table by that.",
            DoubtfulInputsWarning,
        )
    if weak:
        warn(
            f"Layer 2: hidden units {listed(map(str, weak))} of layer 1 are on in too few kinds of rows to tell their"
            " weights. Theirs are right in every row of the table, but may not be elsewhere (column_identifiable).",
            DoubtfulUnitsWarning,
        )


def warn_of_inputs(layer: InnerLayer, inputs: FloatArray, hidden: FloatArray) -> None:
    """Say where the law of the inputs is not to be relied on."""
    unknown = int(np.count_nonzero(np.isnan(inputs[:, 0])))
    if unknown > _MANY * len(inputs):
        warn(
            f"{unknown:,} of {len(inputs):,} rows have too few units on to determine their {layer.n_inputs} inputs,"
            " which are NaN there; they count as a normal law fills them in.",
            DoubtfulInputsWarning,
        )
    strange = [unit for unit in range(hidden.shape[1]) if misfit(hidden[:, unit]) > _STRANGE]
    if strange:
        warn(
            f"Hidden units {listed(map(str, strange))} do not look like rectified Gaussians, so the inputs are not"
            " normal. Weights and inputs are right, but samples of the network will differ from the table.",
            DoubtfulInputsWarning,
        )


def warn_of_widened(report: LayerReport, where: str = "") -> None:
    """Say which units of a layer with few inputs are not to be relied on."""
    if report.doubtful_units:
        warn(
            f"{where}hidden units {listed(map(str, report.doubtful_units))} are never off: their bias cannot be told"
            " from that of the outputs, and if there are several, nor can they from each other. The network as a whole"
            " is right.",
            DoubtfulUnitsWarning,
        )


def ended_early(found: FoundLayer, so_far: Peeled | None = None, where: str = "") -> None:
    """Warn that the search was ended, ``hidden`` has the units found; where there are none, end as it was ended."""
    report = found.decoded.report
    if not report.units_found:
        if found.ended == INTERRUPTED:
            raise KeyboardInterrupt
        raise CannotPeelError(
            f"{where}{found.ended} before a hidden unit was found. Raise max_seconds.", so_far, report
        )
    doubt = " They are planes whose inputs were not found yet, so may not be units." if report.doubtful_units else ""
    more = " Raise max_seconds." if found.ended == TIME_WAS_UP else ""
    warn(
        f"{where}{found.ended} after {report.units_found} of {report.n_hidden} hidden units were found.{doubt} Hidden"
        f" units found can be used, but the output weights are not determined and are NaN.{more}",
        UnfinishedWarning,
    )


def why_missing(found: FoundLayer, n_inputs: int | str) -> str:
    """Why not every unit was found."""
    report = found.decoded.report
    if found.verdict:
        return found.verdict
    said = f"{report.units_found} of {report.n_hidden} hidden units were found."
    if isinstance(n_inputs, str) or n_inputs not in dict(found.choice):
        tried = ", ".join(f"{q}: {left:.1g}" for q, left in found.choice)
        tried = f" Numbers of inputs tried, and the relative residual of each: {tried}." if tried else ""
        return (
            f"{said} Too few of them are on together to find the inputs behind them, or there are no fewer inputs than"
            f" units.{tried} Add rows, or leave n_inputs out."
        )
    left = dict(found.choice)[n_inputs]
    if left > _EXPLAINED and not report.units_found - len(report.doubtful_units):
        return (
            f"{said} n_inputs={n_inputs} leaves a relative residual of {left:.1g} of the units known, so there are more"
            " inputs than that, or noise. Raise n_inputs, or let 'auto' find it."
        )
    return (
        f"{said} The others are hardly ever off, or hardly ever on, or the number of units is another. Add rows, or"
        " try another width."
    )
