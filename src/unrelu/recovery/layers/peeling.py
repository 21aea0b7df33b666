"""Peeling on one screen: a network x = ReLU(A_L ... ReLU(A_1 c + b_1) ... + b_L), from rows of x, layer by layer.

Mazumdar and Rawat 2019 propose this peeling decoder and leave it as future work. A layer x = ReLU(A h + b) comes off in
two steps: matrix recovery undoes the rectifier, T = A h + b (Mazumdar and Rawat 2018, section 3), and the facets
{h_i = 0} of T's rows, which need not meet in the origin because of b, give A, b and h. Then h is the next x. The
innermost units are rectified Gaussian: their law is learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Watch, unwatched
from unrelu.errors import CannotPeelError, DoubtfulUnitsWarning, InvalidDataError
from unrelu.methods import Method
from unrelu.recovery.layers.decoding import LayerReport, OutputLayer, decode_by_facets
from unrelu.recovery.layers.peeled import Outputs, Peeled, PeeledLayer
from unrelu.recovery.layers.subspace import Subspace
from unrelu.recovery.layers.units import ROWS_PER_UNIT, as_stage, check_range, hidden_law, warn_of
from unrelu.recovery.matrix.cells import DenseCells
from unrelu.recovery.matrix.contracts import MatrixReport
from unrelu.recovery.matrix.matrix import MatrixFit, MatrixRequest, recover_matrix
from unrelu.validation import warn

_ON_PER_UNIT = 20  # rows in which an output must be on, where there is noise
_INEXACT = 1e-6  # relative residual of matrix recovery from where on there is noise
_TOLERANCE, _ITERATIONS = 1e-11, 100  # of matrix recovery: facets need exact zeros
_LEAST = 1e-8  # of the root mean square of T: errors of T below this are rounding
_FLAT = 1e-7  # of the largest entry of T: directions that vary less are not there


def peel_layers(
    outputs: Outputs,
    widths: Sequence[int | str],
    hidden_method: str | Method = "one_pass",
    seed: int = 0,
    watch: Watch = unwatched,
) -> Peeled:
    """Peel a layer of each width ("auto": to be found) off finite outputs, then learn the law of what is inside.

    >>> rng = np.random.default_rng(0)
    >>> h, A = np.maximum(rng.standard_normal((500, 2)), 0.0), rng.standard_normal((12, 2))
    >>> peeled = peel_layers(Outputs.of(np.maximum(h @ A.T + 0.3, 0.0)), [2])
    >>> bool(np.abs(peeled.layers[0].bias - 0.3).max() < 1e-6)
    True
    """
    rng = np.random.default_rng(seed)
    peeled = Peeled((), outputs.heights, np.zeros(len(outputs.heights), dtype=bool), None, outputs.feature_names)
    threshold = np.zeros(outputs.heights.shape[1])
    for depth, width in enumerate(widths, start=1):
        undoing, finding = (f"Layer {depth}: {doing}" for doing in ("undoing the rectifier", "finding units"))
        fit = _unrectified(peeled, width, seed, as_stage(undoing, watch))
        peeled, layer = _with_units(peeled, fit, outputs, depth == len(widths), rng, as_stage(finding, watch))
        threshold, outputs = layer.threshold, Outputs.of(peeled.hidden)
    try:
        law = hidden_law(peeled.hidden, threshold, hidden_method, seed, watch)
    except InvalidDataError as error:
        raise CannotPeelError(f"The law of the innermost units cannot be learned: {error}", peeled) from error
    return replace(peeled, hidden_distribution=law)


def _unrectified(so_far: Peeled, width: int | str, seed: int, watch: Watch) -> MatrixFit:
    """Matrix recovery of the next layer's outputs, or the reason why not."""
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
    request = MatrixRequest(width, tolerance=_TOLERANCE, max_iterations=_ITERATIONS)
    try:
        check_range(X)
        return recover_matrix(DenseCells(X), request, seed, watch=watch)
    except InvalidDataError as error:
        raise CannotPeelError(f"Layer {depth}: {error}", so_far) from error


def _with_units(
    so_far: Peeled, fit: MatrixFit, outputs: Outputs, innermost: bool, rng: np.random.Generator, watch: Watch
) -> tuple[Peeled, OutputLayer]:
    """What was peeled so far with the next layer, and that layer without its rectifier, over the outputs known."""
    where = f"Layer {len(so_far.layers) + 1}: "
    known = _known_outputs(fit, outputs.heights)
    T = fit.hidden()[:, known]
    decoded = decode_by_facets(T, _space(fit, T, so_far, where), True, innermost, rng, watch)
    report, layer = replace(decoded.report, n_features=len(known)), decoded.layer
    if not report.converged:
        raise CannotPeelError(
            f"{where}{report.units_found} of {report.n_hidden} hidden units were found. The others are hardly ever off,"
            " or hardly ever on, or off only where another one is: their weights cannot be told. Try another width, or"
            " add rows.",
            so_far,
            report,
        )
    _warn(report, fit.report, where, innermost)
    outliers = so_far.outlier_rows.copy()
    outliers[~outliers] = ~decoded.genuine
    found = _placed(layer, known, outputs, report, fit.report)
    peeled = replace(
        so_far, layers=(*so_far.layers, found), hidden=layer.hidden(T[decoded.genuine]), outlier_rows=outliers
    )
    return peeled, layer


def _known_outputs(fit: MatrixFit, X: FloatArray) -> BoolArray:
    """Outputs whose part of T is to be relied on."""
    known = fit.conditions.column_identifiable
    if fit.report.residual > _INEXACT:  # with noise, outputs that are rarely on are not known well enough
        known = known & (np.count_nonzero(X > 0.0, axis=0) >= _ON_PER_UNIT * (fit.report.n_components + 1))
    return known


def _space(fit: MatrixFit, T: FloatArray, so_far: Peeled, where: str) -> Subspace:
    """The space of T, with the errors of T as noise: those of x, larger where fewer outputs are on."""
    p, determined = fit.report.n_components, fit.conditions.row_identifiable
    rows = T[determined]
    if len(rows) < ROWS_PER_UNIT * p:
        raise CannotPeelError(
            f"{where}{len(rows):,} of {len(T):,} rows have enough outputs above the floor to determine {p} hidden"
            f" units; {ROWS_PER_UNIT * p} such rows are needed. Lower the width, or add rows.",
            so_far,
            fit.report,
        )
    center = rows.mean(axis=0)
    rank = int(np.linalg.matrix_rank(rows - center, tol=_FLAT * np.abs(T).max(initial=0.0)))
    if rank < p:
        raise CannotPeelError(
            f"{where}what is behind the outputs varies in {rank} dimensions, fewer than the {p} hidden units asked for."
            " Columns of its weights are dependent, or units are never on: lower the width.",
            so_far,
            fit.report,
        )
    basis = np.linalg.svd(rows - center, full_matrices=False)[2][:p].T
    size = float(np.sqrt((rows**2).mean()))
    noise = fit.report.residual * size / math.sqrt(max(1.0 - fit.report.share_floored, 0.05))
    return Subspace(center, basis, max(noise, _LEAST * size), determined)


def _placed(
    layer: OutputLayer, known: BoolArray, outputs: Outputs, report: LayerReport, matrix: MatrixReport
) -> PeeledLayer:
    """The layer with NaN for outputs that are not known; its bias measured from zero."""
    weights, bias = np.full((len(known), report.n_hidden), np.nan), np.full(len(known), np.nan)
    weights[known], bias[known] = layer.weights, layer.bias + outputs.level[known]
    return PeeledLayer(weights, bias, outputs.floor, known, report, matrix)


def _warn(report: LayerReport, matrix: MatrixReport, where: str, innermost: bool) -> None:
    warn_of(report, where)
    if not innermost:
        # The units of the next layer are this one's inputs, and undoing its rectifier takes more outputs than units.
        warn(
            f"{where}it has more units than inputs, since the next layer has fewer. Planes can then hold many rows by"
            " coincidence, and what was found may not be the layer's units.",
            DoubtfulUnitsWarning,
        )
    if matrix.residual > _INEXACT:
        warn(
            f"{where}the rectifier could be undone only up to a relative residual of {matrix.residual:.1g}: the outputs"
            " have noise, or another number of units, and weights are no more exact than that.",
            DoubtfulUnitsWarning,
        )
