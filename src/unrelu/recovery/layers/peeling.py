"""Peeling on one screen: a network x = ReLU(A_L ... ReLU(A_1 c + b_1) ... + b_L), from rows of x, layer by layer.

Mazumdar and Rawat 2019 propose this peeling decoder and leave it as future work. A layer x = ReLU(A h + b) comes off in
two steps: matrix recovery undoes the rectifier, T = A h + b (Mazumdar and Rawat 2018, section 3), and the facets
{h_i = 0} of T's rows, which need not meet in the origin because of b, give A, b and h. Then h is the next x. The
innermost units are rectified Gaussian: their law is learned. Where there are fewer inputs than innermost units, units
and inputs are found together (:mod:`unrelu.recovery.layers.widening`), and the network is known down to its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Watch, unwatched
from unrelu.errors import CannotPeelError, DoubtfulUnitsWarning, InvalidDataError
from unrelu.methods import Method
from unrelu.recovery.layers.clock import TIME_WAS_UP, Clock, TimeIsUp
from unrelu.recovery.layers.decoding import DecodedLayer, FoundLayer, decode_by_facets
from unrelu.recovery.layers.peeled import Outputs, Peeled, PeeledLayer
from unrelu.recovery.layers.rectifier import INEXACT, ROUNDED, Unrectified, check_dimensions, undo_rectifier
from unrelu.recovery.layers.subspace import Subspace
from unrelu.recovery.layers.units import ROWS_PER_UNIT, check_range, hidden_law, warn_of
from unrelu.recovery.matrix.matrix import MatrixReport
from unrelu.validation import warn

_ON = 2  # times the unknowns of an output: rows in which it must be on
_WORST = 1e4  # condition of an output's equations
_FEW = 25  # rows a unit that undo its rectifier first
_SECONDS = 60.0  # for networks of three layers, unless said otherwise
_DEEP_RESIDUAL = 1e-9  # from where on faces are not told from rows near them


@dataclass(frozen=True)
class PeelRequest:
    """What is asked of outputs: a width for each layer, outermost first ("auto": to be found), and how.

    ``n_inputs`` is the number of inputs of the innermost layer ("auto": to be found), or None where there are as many
    as units or the inputs do not matter. ``hidden_method`` learns the law of the innermost units in that case.
    """

    widths: Sequence[int | str]
    n_inputs: int | str | None = None
    max_seconds: float | None = None
    hidden_method: str | Method = "one_pass"

    @property
    def deepens(self) -> bool:
        """Whether a layer of more units than the one below it is asked for, with the inputs of that one."""
        widths = self.widths
        if self.n_inputs is None or len(widths) != 2:
            return False
        return all(not isinstance(width, str) for width in widths) and widths[1] < widths[0]  # type: ignore[operator]

    @property
    def seconds(self) -> float | None:
        """The time there is; networks of three layers have some in any case."""
        return _SECONDS if self.max_seconds is None and self.deepens else self.max_seconds


def peel_layers(outputs: Outputs, request: PeelRequest, seed: int = 0, watch: Watch = unwatched) -> Peeled:
    """Peel layers off finite outputs, then learn what is inside.

    >>> rng = np.random.default_rng(0)
    >>> h, A = np.maximum(rng.standard_normal((500, 2)), 0.0), rng.standard_normal((12, 2))
    >>> peeled = peel_layers(Outputs.of(np.maximum(h @ A.T + 0.3, 0.0)), PeelRequest([2]))
    >>> bool(np.abs(peeled.layers[0].bias - 0.3).max() < 1e-6)
    True
    """
    rng, clock = np.random.default_rng(seed), Clock(request.seconds, watch)
    peeled = Peeled((), outputs.heights, np.zeros(len(outputs.heights), dtype=bool), None, outputs.feature_names)
    threshold, first = np.zeros(outputs.heights.shape[1]), outputs.heights
    widths = request.widths
    for depth, width in enumerate(widths, start=1):
        innermost = depth == len(widths)
        undone = _unrectified(
            peeled, width, request.deepens, seed, clock.staged(f"Layer {depth}: undoing the rectifier")
        )
        told = clock.staged(f"Layer {depth}: finding units")
        if request.deepens:
            found = _deepened(undone, peeled, outputs.rounding, request, rng, told)
        else:
            inputs = request.n_inputs if innermost else None
            found = _decoded(undone, peeled, outputs.rounding, inputs, innermost, rng, told)
        _judge(found, undone.report, request.n_inputs, peeled)
        peeled, lengths = _with_layer(peeled, undone, outputs, found.decoded)
        if found.ended is not None:
            return peeled
        _warn(found, undone.report, f"Layer {depth}: ", innermost or request.deepens)
        threshold, outputs = found.decoded.layer.threshold * lengths, Outputs.of(peeled.hidden)
        if found.inner is not None and found.below is not None and found.below_report is not None:
            from unrelu.recovery.layers.ending import with_both_layers

            return with_both_layers(peeled, found.inner.scaled(lengths), found.below, found.below_report, seed)
        if found.inner is not None:
            from unrelu.recovery.layers.ending import with_inputs

            rows = first[~peeled.outlier_rows] if depth == 1 else peeled.hidden
            return with_inputs(peeled, found.inner.scaled(lengths), rows, seed)
    try:
        law = hidden_law(peeled.hidden, threshold, request.hidden_method, seed, clock)
    except (InvalidDataError, TimeIsUp) as error:
        why = "the time was up" if isinstance(error, TimeIsUp) else error
        raise CannotPeelError(f"The law of the innermost units cannot be learned: {why}", peeled) from error
    return replace(peeled, hidden_distribution=law)


def _unrectified(so_far: Peeled, width: int | str, few: bool, seed: int, clock: Clock) -> Unrectified:
    """The next layer's outputs without their rectifier, from ``few`` rows first or not, or the reason why not."""
    depth, X = len(so_far.layers) + 1, so_far.hidden
    if not isinstance(width, str) and width >= X.shape[1]:
        raise CannotPeelError(
            f"Layer {depth}: {width} hidden units behind {X.shape[1]} outputs. Undoing the rectifier needs more outputs"
            " than hidden units.",
            so_far,
        )
    if not isinstance(width, str) and len(X) < ROWS_PER_UNIT * width:
        raise CannotPeelError(
            f"Layer {depth}: {len(X):,} rows are too few for {width} hidden units; {ROWS_PER_UNIT * width} are needed,"
            " and hundreds are better. Lower the width, or add rows.",
            so_far,
        )
    try:
        check_range(X)
        return undo_rectifier(X, width, seed, clock, _FEW) if few else undo_rectifier(X, width, seed, clock)
    except InvalidDataError as error:
        raise CannotPeelError(f"Layer {depth}: {error}", so_far) from error
    except TimeIsUp as error:
        raise CannotPeelError(
            f"Layer {depth}: the time was up before the rectifier was undone. Raise max_seconds, or use fewer rows.",
            so_far,
        ) from error


def _decoded(
    undone: Unrectified,
    so_far: Peeled,
    rounding: float,
    n_inputs: int | str | None,
    innermost: bool,
    rng: np.random.Generator,
    clock: Clock,
) -> FoundLayer:
    """The units behind T, with their inputs where these are fewer and asked for."""
    p = undone.report.n_components
    space = _space(undone, so_far, rounding, f"Layer {len(so_far.layers) + 1}: ")
    few = n_inputs is not None and (isinstance(n_inputs, str) or n_inputs < p)
    if not few:
        decoded = decode_by_facets(undone.T, space, True, innermost, rng, clock)
        found = FoundLayer(decoded, ended=None if decoded.report.converged or not clock.is_up else TIME_WAS_UP)
    if few or (n_inputs is None and innermost and not clock.is_up and found.decoded.report.needs_inputs):
        from unrelu.recovery.layers.widening import decode_widening

        space = replace(space, noise=space.noise * _usual_noise(undone))
        widened = decode_widening(undone.T, space, True, n_inputs or "auto", rng, clock, _clear_rows(undone))
        found = widened if few or widened.inner is not None else found
    report = replace(found.decoded.report, n_features=len(undone.outputs), ended=found.ended)
    return replace(found, decoded=replace(found.decoded, report=report))


def _deepened(
    undone: Unrectified,
    so_far: Peeled,
    rounding: float,
    request: PeelRequest,
    rng: np.random.Generator,
    clock: Clock,
) -> FoundLayer:
    """The units behind T, and the two layers behind them."""
    from unrelu.recovery.layers.deepening import decode_deepening

    space = _space(undone, so_far, rounding, "Layer 1: ")
    if undone.report.residual > _DEEP_RESIDUAL:
        raise CannotPeelError(
            f"Layer 1: the rectifier could be undone only up to a relative residual of {undone.report.residual:.1g}."
            " Networks of three layers are found from exact outputs alone: those in double precision, without noise.",
            so_far,
            undone.report,
        )
    inner_width, n_inputs = int(request.widths[1]), request.n_inputs
    assert n_inputs is not None
    found = decode_deepening(undone.T, space, inner_width, n_inputs, rng, clock)
    report = replace(found.decoded.report, n_features=len(undone.outputs))
    return replace(found, decoded=replace(found.decoded, report=report))


def _clear_rows(undone: Unrectified) -> BoolArray:
    """Rows of T to search in: those that noise disturbs least, if there is noise."""
    if undone.report.residual <= ROUNDED:
        return undone.determined
    clear: BoolArray = undone.determined & (undone.amplified <= np.median(undone.amplified[undone.determined]))
    return clear


def _usual_noise(undone: Unrectified) -> float:
    """The noise of the rows to search in, against that of one output; 1 where there is none."""
    return 1.0 if undone.report.residual <= ROUNDED else float(np.median(undone.amplified[_clear_rows(undone)]))


def _space(undone: Unrectified, so_far: Peeled, rounding: float, where: str) -> Subspace:
    """The space of T, with the errors of T as noise: those of x, larger where fewer outputs are on."""
    T, report = undone.T, undone.report
    p, rows = report.n_components, T[undone.determined]
    if len(rows) < ROWS_PER_UNIT * p:
        raise CannotPeelError(
            f"{where}{len(rows):,} of {len(T):,} rows have enough outputs above the floor to determine {p} hidden"
            f" units; {ROWS_PER_UNIT * p} such rows are needed. Lower the width, or add rows.",
            so_far,
            report,
        )
    try:
        check_dimensions(rows, p)
    except InvalidDataError as error:
        raise CannotPeelError(f"{where}{error}", so_far, report) from error
    center = rows.mean(axis=0)
    basis = np.linalg.svd(rows - center, full_matrices=False)[2][:p].T
    size = float(np.sqrt((rows**2).mean()))
    noise = report.residual * size / math.sqrt(max(1.0 - report.share_floored, 0.05))
    return Subspace(center, basis, max(noise, rounding * size), undone.determined)


def _with_layer(
    so_far: Peeled, undone: Unrectified, outputs: Outputs, decoded: DecodedLayer
) -> tuple[Peeled, FloatArray]:
    """What was peeled so far with the next layer, and what its units were multiplied by to give columns length 1.

    A layer with units missing has no weights.
    """
    outliers = so_far.outlier_rows.copy()
    outliers[~outliers] = ~decoded.genuine
    layer = decoded.layer
    hidden = layer.hidden(undone.T[decoded.genuine])
    known, (d, p) = undone.outputs.copy(), (len(undone.outputs), decoded.report.n_hidden)
    weights, bias, lengths = np.full((d, p), np.nan), np.full(d, np.nan), np.ones(layer.encoder.shape[0])
    if decoded.report.converged:
        weights[known], bias[known] = layer.weights, layer.bias
        _add_rare(weights, bias, hidden, outputs.heights[decoded.genuine], undone.report.residual)
        known = np.isfinite(bias)
        lengths = np.linalg.norm(weights[known], axis=0)
        weights, hidden = weights / lengths, hidden * lengths
    else:
        known[:] = False
    placed = PeeledLayer(weights, bias + outputs.level, outputs.floor, known, decoded.report, undone.report)
    return replace(so_far, layers=(*so_far.layers, placed), hidden=hidden, outlier_rows=outliers), lengths


def _add_rare(weights: FloatArray, bias: FloatArray, hidden: FloatArray, heights: FloatArray, noise: float) -> None:
    """Weights of outputs that are not known yet, by least squares over the rows in which they are on."""
    extended = np.column_stack([hidden, np.ones(len(hidden))])
    scale = np.sqrt((extended**2).mean(axis=0))
    for output in np.flatnonzero(np.isnan(bias)):
        on = heights[:, output] > 0.0
        if np.count_nonzero(on) < _ON * extended.shape[1]:
            continue
        seen = heights[on, output]
        found, _, rank, values = np.linalg.lstsq(extended[on] / scale, seen)
        left = np.sqrt(((extended[on] / scale @ found - seen) ** 2).mean() / (seen**2).mean())
        if rank == extended.shape[1] and values[0] < _WORST * values[-1] and left <= max(INEXACT, 3.0 * noise):
            weights[output], bias[output] = (found / scale)[:-1], (found / scale)[-1]


def _judge(found: FoundLayer, matrix: MatrixReport, n_inputs: int | str | None, so_far: Peeled) -> None:
    """Refuse a layer with units missing, and say why; warn of it where the search was ended."""
    report, where = found.decoded.report, f"Layer {len(so_far.layers) + 1}: "
    if found.ended is not None:
        from unrelu.recovery.layers.ending import ended_early

        ended_early(found, so_far, where)
        return
    if report.converged:
        return
    why = (
        f"{report.units_found} of {report.n_hidden} hidden units were found. The others are hardly ever off, or hardly"
        " ever on, or off only where another one is: their weights cannot be told. If there are fewer inputs than"
        " units, say how many (n_inputs, or 'auto'); otherwise try another width, or add rows."
    )
    if matrix.residual > INEXACT:
        why = (
            f"{report.units_found} of {report.n_hidden} hidden units were found, and the rectifier could be undone only"
            f" up to a relative residual of {matrix.residual:.1g}: the outputs have noise that hides the units, or"
            " there are more units than that, or there is no such network."
        )
    elif report.method != "facets" and n_inputs is not None:
        from unrelu.recovery.layers.ending import why_missing

        why = why_missing(found, n_inputs)
    raise CannotPeelError(where + why, so_far, report)


def _warn(found: FoundLayer, matrix: MatrixReport, where: str, innermost: bool) -> None:
    report = found.decoded.report
    if found.inner is None:
        warn_of(report, where)
    else:
        from unrelu.recovery.layers.ending import warn_of_widened

        warn_of_widened(report, where)
    if not innermost:
        # The units of the next layer are this one's inputs, and undoing its rectifier takes more outputs than units.
        warn(
            f"{where}it has more units than inputs, since the next layer has fewer. Planes can then hold many rows by"
            " coincidence, and what was found may not be the layer's units.",
            DoubtfulUnitsWarning,
        )
    if matrix.residual > INEXACT:
        warn(
            f"{where}the rectifier could be undone only up to a relative residual of {matrix.residual:.1g}: the outputs"
            " have noise, or another number of units, and weights are no more exact than that, those of units that are"
            " rarely on or off far less.",
            DoubtfulUnitsWarning,
        )
