"""Peeling: a network x = ReLU(A_L ... ReLU(A_1 c + b_1) ... + b_L), from rows of x, layer by layer.

Mazumdar and Rawat 2019 propose this peeling decoder and leave it as future work. A layer x = ReLU(A h + b) comes off in
two steps: matrix recovery undoes the rectifier, T = A h + b (Mazumdar and Rawat 2018, section 3), and the facets {h_i =
0} of T's rows, which need not meet in the origin because of b, give A, b and h. Then h is the next x. The innermost
units are rectified Gaussian: their distribution (the core's mean is b, its covariance W W') is learned. Where there are
fewer inputs than innermost units, units and inputs are found together (:mod:`unrelu.recovery.layers.widening`), and the
network is recovered down to its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray, Progress, no_progress
from unrelu.errors import CannotPeelError, InvalidDataError
from unrelu.estimators import Columns
from unrelu.methods import Method
from unrelu.recovery.layers.decoding import FoundLayer, Subspace
from unrelu.recovery.layers.facets import Clock, TimeIsUp
from unrelu.recovery.layers.inputs import InnerLayer, relative_error
from unrelu.recovery.layers.peeled import Peeled, PeeledLayer, heights_of
from unrelu.recovery.layers.rectifier import (
    FIRST_ROWS_PER_UNIT,
    INEXACT,
    ROUNDED,
    Unrectified,
    check_dimensions,
    undo_rectifier,
)
from unrelu.recovery.layers.units import (
    ROWS_PER_UNIT,
    check_explained,
    check_found,
    check_range,
    check_rows,
    find_units,
    hidden_distribution,
    with_standard_inputs,
)
from unrelu.validation import listed, warn

_UNDOING, _FINDING = "undoing the rectifier", "finding units"
_SINGLE, _DOUBLE = 1e-6, 1e-8  # errors of T, of its root mean square, that rounding explains
_ON = 2  # times the unknowns of an output: rows in which it must be on
_WORST = 1e4  # condition of an output's equations
_AGAIN = 8
_VAGUE = 0.1  # standard error of an output's weights, relative, that is too large
_MORE = 8.0  # times the noise that a network may leave


def peel_layers(
    values: Any,
    columns: Columns,
    widths: Sequence[int | str],
    n_inputs: int | str | None,
    max_seconds: float | None,
    hidden_method: Method,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Peeled:
    """Peel layers off screened rows, then learn the distribution inside; :func:`unrelu.peel` explains the arguments."""
    heights, level = heights_of(values, columns)
    floor, rounding = np.array(columns.assumptions.floor), _SINGLE if values.dtype.itemsize < 8 else _DOUBLE
    peeled = Peeled((), heights, np.zeros(len(heights), dtype=bool), None, columns.names)
    clock = Clock(max_seconds, progress)
    # Three layers: one of more units than the one below it, with the inputs of that one.
    match widths:
        case [int(p), int(p0)] if n_inputs is not None and p0 < p:
            return _three_layers(peeled, level, floor, p, p0, n_inputs, rounding, seed, clock)
    rng, threshold = np.random.default_rng(seed), np.zeros(heights.shape[1])
    for depth, width in enumerate(widths, start=1):
        where, innermost, above = f"Layer {depth}: ", depth == len(widths), peeled.hidden
        undone, space = _undo_rectifier(peeled, width, rounding, seed, replace(clock, stage=f"{where}{_UNDOING}"))
        clear, amplified = undone.determined, 1.0
        if undone.report.residual > ROUNDED:  # rows to search in: those that noise disturbs least
            clear = clear & (undone.amplified <= np.median(undone.amplified[clear]))
            amplified = float(np.median(undone.amplified[clear]))
        inputs, own_clock = n_inputs if innermost else None, replace(clock, stage=f"{where}{_FINDING}")
        found = find_units(undone.T, space, True, inputs, innermost, rng, own_clock, clear, amplified)
        found = replace(found, report=replace(found.report, n_features=len(undone.outputs)))
        check_found(found, n_inputs, where, peeled, undone.report, innermost)
        peeled, lengths = _with_layer(peeled, undone, level, floor, found)
        if found.report.ended is not None:
            return peeled
        if found.inner is not None:
            rows = above[~peeled.outlier_rows] if depth == 1 else peeled.hidden
            return with_inputs(peeled, found.inner.rescale(lengths), rows, seed)
        threshold, rounding = found.layer.threshold * lengths, _DOUBLE
        level = floor = np.zeros(len(lengths))
    try:
        distribution = hidden_distribution(peeled.hidden, threshold, hidden_method, seed, clock)
    except (InvalidDataError, TimeIsUp) as error:
        why = "the time was up" if isinstance(error, TimeIsUp) else error
        raise CannotPeelError(f"The distribution of the innermost units cannot be learned: {why}", peeled) from error
    return replace(peeled, hidden_distribution=distribution)


def _three_layers(
    peeled: Peeled,
    level: FloatArray,
    floor: FloatArray,
    p: int,
    p0: int,
    n_inputs: int | str,
    rounding: float,
    seed: int,
    clock: Clock,
) -> Peeled:
    """The network x <- h <- g <- z of p units h and p0 units g."""
    from unrelu.recovery.layers.experimental import three_layers as deep  # only such networks need it

    where, clock = "Layer 1: ", replace(clock, seconds=deep.SECONDS if clock.seconds is None else clock.seconds)
    own_clock = replace(clock, stage=f"{where}{_UNDOING}")
    undone, space = _undo_rectifier(peeled, p, rounding, seed, own_clock, deep.ROWS_PER_UNIT)
    if undone.report.residual > deep.RESIDUAL:
        raise CannotPeelError(
            f"{where}the rectifier could be undone only up to a relative residual of {undone.report.residual:.1g}."
            " Networks of three layers are found from exact outputs alone: those in double precision, without noise.",
            peeled,
            undone.report,
        )
    own_clock, rng = replace(clock, stage=f"{where}{_FINDING}"), np.random.default_rng(seed)
    found, below, report = deep.decode_deepening(undone.T, space, p0, n_inputs, rng, own_clock)
    found = replace(found, report=replace(found.report, n_features=len(undone.outputs)))
    check_found(found, n_inputs, where, peeled, undone.report)
    peeled, lengths = _with_layer(peeled, undone, level, floor, found)
    if found.inner is None or below is None or report is None:
        return peeled
    parts, below, g, z = deep.second_layer(peeled.hidden, found.inner.rescale(lengths), below, report, seed)
    layers = (*peeled.layers, PeeledLayer(*parts))
    return replace(peeled, layers=layers, hidden=g, inner=below, inputs=z, hidden_distribution=below.distribution)


def _undo_rectifier(
    so_far: Peeled,
    width: int | str,
    rounding: float,
    seed: int,
    clock: Clock,
    rows_per_unit: Sequence[int] = FIRST_ROWS_PER_UNIT,
) -> tuple[Unrectified, Subspace]:
    """The next layer's outputs T without their rectifier, and their space; else CannotPeelError with the reason."""
    where, X, report = f"Layer {len(so_far.layers) + 1}: ", so_far.hidden, None
    try:
        if not isinstance(width, str) and width >= X.shape[1]:
            raise InvalidDataError(
                f"{width} hidden units behind {X.shape[1]} outputs. Undoing the rectifier needs more outputs than"
                " hidden units."
            )
        check_rows(len(X), 0 if isinstance(width, str) else width)
        check_range(X)
        undone = undo_rectifier(X, width, seed, clock, rows_per_unit)
        report, rows = undone.report, undone.T[undone.determined]
        p = report.n_components
        if len(rows) < ROWS_PER_UNIT * p:
            raise InvalidDataError(
                f"{len(rows):,} of {len(X):,} rows have enough outputs above the floor to determine {p} hidden units;"
                f" {ROWS_PER_UNIT * p} such rows are needed. Lower the width, or add rows."
            )
        check_dimensions(rows, p)
    except InvalidDataError as error:
        raise CannotPeelError(f"{where}{error}", so_far, report) from error
    except TimeIsUp as error:
        raise CannotPeelError(
            f"{where}the time was up before the rectifier was undone. Raise max_seconds, or use fewer rows.", so_far
        ) from error
    center = rows.mean(axis=0)
    basis = np.linalg.svd(rows - center, full_matrices=False)[2][:p].T
    size = float(np.sqrt((rows**2).mean()))
    # Errors of T are taken for noise: those of x, larger where fewer outputs are on.
    noise = report.residual * size / math.sqrt(max(1.0 - report.share_floored, 0.05))
    return undone, Subspace(center, basis, max(noise, rounding * size), undone.determined)


def _with_layer(
    so_far: Peeled, undone: Unrectified, level: FloatArray, floor: FloatArray, found: FoundLayer
) -> tuple[Peeled, FloatArray]:
    """The layers peeled so far with the next one, and the factors of its units that give columns length 1."""
    outliers, layer = so_far.outlier_rows.copy(), found.layer
    outliers[~outliers] = ~found.inlier
    hidden = layer.hidden(undone.T[found.inlier])
    identified, (d, p) = undone.outputs.copy(), (len(undone.outputs), found.report.n_hidden)
    weights, bias, lengths = np.full((d, p), np.nan), np.full(d, np.nan), np.ones(layer.encoder.shape[0])
    if found.report.converged:
        weights[identified], bias[identified] = layer.weights, layer.bias
        # Outputs that are not identified yet, by least squares over the rows in which they are on.
        heights, extended = so_far.hidden[found.inlier], np.column_stack([hidden, np.ones(len(hidden))])
        scale = np.sqrt((extended**2).mean(axis=0))
        for output in np.flatnonzero(~identified):
            on = heights[:, output] > 0.0
            if np.count_nonzero(on) < _ON * extended.shape[1]:
                continue
            seen = heights[on, output]
            row, _, rank, values = np.linalg.lstsq(extended[on] / scale, seen)
            left = np.sqrt(((extended[on] / scale @ row - seen) ** 2).mean() / (seen**2).mean())
            exact = left <= max(INEXACT, 3.0 * undone.report.residual)
            if rank == extended.shape[1] and values[0] < _WORST * values[-1] and exact:
                weights[output], bias[output] = (row / scale)[:-1], (row / scale)[-1]
        identified = np.isfinite(bias)
        lengths = np.linalg.norm(weights[identified], axis=0)
        weights, hidden = weights / lengths, hidden * lengths
    else:
        identified[:] = False
    peeled_layer = PeeledLayer(weights, bias + level, floor, identified, found.report, undone.report)
    return replace(so_far, layers=(*so_far.layers, peeled_layer), hidden=hidden, outlier_rows=outliers), lengths


# --- down to the inputs ---------------------------------------------------------------------------


def with_inputs(peeled: Peeled, inner: InnerLayer, heights: FloatArray, seed: int) -> Peeled:
    """The network down to its inputs, scaled so that they have mean 0 and covariance I; warns where that is a guess.

    With noise the inputs come from the rows (``heights`` above the floor) themselves, and units from the inputs.
    """
    found = None
    if peeled.layers[-1].matrix_report.residual > ROUNDED:
        peeled, inner, found = _refine(peeled, inner, heights)
    else:
        check_explained(inner, peeled.hidden, peeled, peeled.layers[-1].report)
    layer, inputs = with_standard_inputs(inner, peeled.hidden, seed, found)
    return replace(peeled, inner=layer, inputs=inputs, hidden_distribution=layer.distribution)


def _refine(peeled: Peeled, inner: InnerLayer, heights: FloatArray) -> tuple[Peeled, InnerLayer, FloatArray]:
    """With noise: inputs from the rows, units from the inputs, and outputs' weights from the units, again and again.

    Units that come from the inputs have hardly any noise left; the units that gave the first weights have. Outputs
    whose standard errors are not small against their weights become NaN at the end, and a network that leaves more of
    its rows than noise does is refused.
    """
    outer, hidden = peeled.layers[-1], peeled.hidden
    for _ in range(_AGAIN):
        found = outer.inputs_behind(heights, inner)
        determined = np.isfinite(found[:, 0])
        hidden = np.where(determined[:, None], inner.units(np.nan_to_num(found)), hidden)
        rows, bias, errors = _outputs_of(hidden[determined], heights[determined])
        better = outer.column_identifiable & (errors < _VAGUE)
        weights = np.where(better[:, None], rows, outer.weights)
        outer = replace(outer, weights=weights, bias=np.where(better, bias + outer.floor, outer.bias))
        outer, hidden, inner = _normalize(outer, hidden, inner)
    vague = np.flatnonzero(outer.column_identifiable & ~better)
    if len(vague):
        warn(
            f"Outputs {listed(map(str, vague))} are on in too few rows to determine their weights, with noise: NaN.",
            "weak-columns",
        )
        weights, bias = np.where(better[:, None], outer.weights, np.nan), np.where(better, outer.bias, np.nan)
        outer = replace(outer, weights=weights, bias=bias, column_identifiable=better)
        outer, hidden, inner = _normalize(outer, hidden, inner)
    peeled = replace(peeled, layers=(*peeled.layers[:-1], outer), hidden=hidden)
    outputs, noise = outer.column_identifiable, outer.matrix_report.residual
    rebuilt = outer.output(inner.units(found[determined])) - outer.floor
    left = relative_error(rebuilt[:, outputs], heights[determined][:, outputs])
    if not left <= _MORE * noise:
        raise CannotPeelError(
            f"The {inner.weights.shape[0]} units and {inner.n_inputs} inputs found leave a relative error of"
            f" {left:.1g}, where {noise:.1g} is noise: they are not the network's. The noise is too large, or rows are"
            " too few.",
            peeled,
            outer.report,
        )
    return peeled, inner, found


def _normalize(outer: PeeledLayer, hidden: FloatArray, inner: InnerLayer) -> tuple[PeeledLayer, FloatArray, InnerLayer]:
    """The same network, columns of the outer weights of length 1."""
    lengths = np.linalg.norm(outer.weights[outer.column_identifiable], axis=0)
    return replace(outer, weights=outer.weights / lengths), hidden * lengths, inner.rescale(lengths)


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
