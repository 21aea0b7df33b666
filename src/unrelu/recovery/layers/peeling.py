"""Peeling: a network x = ReLU(A_L ... ReLU(A_1 c + b_1) ... + b_L), from rows of x, layer by layer.

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
from typing import Any

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Watch, unwatched
from unrelu.errors import (
    CannotPeelError,
    InvalidDataError,
)
from unrelu.estimators import Columns
from unrelu.methods import Method
from unrelu.passes import map_in_threads, one_blas_thread
from unrelu.recovery.layers.decoding import FoundLayer, LayerReport, Subspace
from unrelu.recovery.layers.facets import Clock, TimeIsUp
from unrelu.recovery.layers.inputs import InnerLayer, inputs_near, inputs_of, standard_layer
from unrelu.recovery.layers.peeled import Peeled, PeeledLayer, heights_of
from unrelu.recovery.layers.units import (
    ROWS_PER_UNIT,
    check_explained,
    check_range,
    ended_early,
    find_units,
    hidden_law,
    warn_of,
    warn_of_inputs,
    why_missing,
)
from unrelu.recovery.matrix.factors import Cells, Factors, singular_start, tiles
from unrelu.recovery.matrix.floor_cells import packed_products, unpacked
from unrelu.recovery.matrix.matrix import MatrixFit, MatrixReport, recover_matrix
from unrelu.validation import listed, warn

INEXACT = 1e-6  # relative residual from where on there is noise, or worse
ROUNDED = 1e-9  # from where on it is more than rounding of double precision

_SINGLE, _DOUBLE = 1e-6, 1e-8  # errors of T, of its root mean square, that rounding explains
_ON = 2  # times the unknowns of an output: rows in which it must be on
_WORST = 1e4  # condition of an output's equations
_FEW = 25  # rows a unit that undo its rectifier first
_SECONDS = 60.0  # for networks of three layers, unless said otherwise
_DEEP_RESIDUAL = 1e-9  # from where on faces are not told from rows near them
_AGAIN = 8
_VAGUE = 0.1  # standard error of an output's weights, relative, that is too large
_FLAT = 1e-6  # of root mean squares
_MORE = 8.0  # times the noise that a network may leave
_MANY = 0.05  # share of the rows without units from where on the law of the inputs is a guess

# of undoing a rectifier
_TOLERANCE, _ITERATIONS = 1e-11, 100  # facets need exact zeros
_SMALL = 3e7  # products for a round of all rows: no need to begin with some
_ROWS_PER_UNIT = 50  # rows whose factors are found first
_LONG = 0.9  # quantile of the rows' lengths; longer ones are not among those
_ON_PER_UNKNOWN = 4  # rows among them in which an output must be on
_MORE_OUTPUTS = 1.3  # times the units: outputs that must be on so often
_KEPT = 0.85  # share of the rows that a concentration step keeps
_STEPS = 6
_SHORT = 40  # iterations of such a step
_APART = 6.0  # times the median of the rows' residuals: rows that fit far worse than most
_ROUNDING = 1e-7  # of the table's root mean square
_SLOW = 1e-4  # relative residual that outlier rows would not leave: rare units take their time
_LEVEL = 1e-7  # of the largest entry of T: directions that vary less are not there
_MOST = 0.9  # share of the rows
_HOPELESS = 0.25  # relative residual of a fit that no other start will better
_BAD = 0.05  # relative residual of a fit that another start may better
_ON_PER_UNIT = 20  # rows in which an output must be on, where there is noise


def peel_layers(
    values: Any,
    columns: Columns,
    widths: Sequence[int | str],
    n_inputs: int | str | None,
    max_seconds: float | None,
    hidden_method: Method,
    seed: int = 0,
    watch: Watch = unwatched,
) -> Peeled:
    """Peel layers off screened rows, then learn what is inside; :func:`unrelu.peel` says what the arguments mean."""
    heights, level = heights_of(values, columns)
    floor, rounding = np.array(columns.assumptions.floor), _SINGLE if values.dtype.itemsize < 8 else _DOUBLE
    # Three layers: one of more units than the one below it, with the inputs of that one.
    numbers = [width for width in widths if not isinstance(width, str)]
    deep = n_inputs is not None and len(widths) == len(numbers) == 2 and numbers[1] < numbers[0]
    rng = np.random.default_rng(seed)
    clock = Clock(_SECONDS if max_seconds is None and deep else max_seconds, watch)
    peeled = Peeled((), heights, np.zeros(len(heights), dtype=bool), None, columns.names)
    threshold = np.zeros(heights.shape[1])
    for depth, width in enumerate(widths, start=1):
        where, innermost, above = f"Layer {depth}: ", depth == len(widths), peeled.hidden
        told = replace(clock, stage=f"{where}undoing the rectifier")
        undone, space = _unrectified(peeled, width, deep, rounding, seed, told)
        told = replace(clock, stage=f"{where}finding units")
        if deep:
            from unrelu.recovery.layers.deepening import decode_deepening  # only such networks need it

            found = decode_deepening(undone.T, space, numbers[1], n_inputs or "auto", rng, told)
        else:
            clear, amplified = undone.determined, 1.0
            if undone.report.residual > ROUNDED:  # rows to search in: those that noise disturbs least
                clear = clear & (undone.amplified <= np.median(undone.amplified[clear]))
                amplified = float(np.median(undone.amplified[clear]))
            inputs = n_inputs if innermost else None
            found = find_units(undone.T, space, True, inputs, innermost, rng, told, clear, amplified)
        ended = None if deep else found.ended
        found = replace(found, report=replace(found.report, n_features=len(undone.outputs), ended=ended))
        _judge(found, undone.report, n_inputs, innermost or deep, peeled)
        peeled, lengths = _with_layer(peeled, undone, level, floor, found)
        if found.ended is not None:
            return peeled
        if found.inner is not None:
            inner = found.inner.scaled(lengths)
            if found.below is not None and found.below_report is not None:
                return _with_both_layers(peeled, inner, found.below, found.below_report, seed)
            return with_inputs(peeled, inner, above[~peeled.outlier_rows] if depth == 1 else peeled.hidden, seed)
        threshold, rounding = found.layer.threshold * lengths, _DOUBLE
        level = floor = np.zeros(len(lengths))
    try:
        law = hidden_law(peeled.hidden, threshold, hidden_method, seed, clock)
    except (InvalidDataError, TimeIsUp) as error:
        why = "the time was up" if isinstance(error, TimeIsUp) else error
        raise CannotPeelError(f"The law of the innermost units cannot be learned: {why}", peeled) from error
    return replace(peeled, hidden_distribution=law)


def _unrectified(
    so_far: Peeled, width: int | str, deep: bool, rounding: float, seed: int, clock: Clock
) -> tuple[Unrectified, Subspace]:
    """The next layer's outputs T without their rectifier, and their space, or the reason why not.

    Errors of T are taken for noise: those of x, larger where fewer outputs are on.
    """
    where, X, report = f"Layer {len(so_far.layers) + 1}: ", so_far.hidden, None
    try:
        if not isinstance(width, str) and width >= X.shape[1]:
            raise InvalidDataError(
                f"{width} hidden units behind {X.shape[1]} outputs. Undoing the rectifier needs more outputs than"
                " hidden units."
            )
        if not isinstance(width, str) and len(X) < ROWS_PER_UNIT * width:
            raise InvalidDataError(
                f"{len(X):,} rows are too few for {width} hidden units; {ROWS_PER_UNIT * width} are needed, and"
                " hundreds are better. Lower the width, or add rows."
            )
        check_range(X)
        undone = undo_rectifier(X, width, seed, clock, _FEW if deep else _ROWS_PER_UNIT)
        report, rows = undone.report, undone.T[undone.determined]
        p = report.n_components
        if len(rows) < ROWS_PER_UNIT * p:
            raise InvalidDataError(
                f"{len(rows):,} of {len(X):,} rows have enough outputs above the floor to determine {p} hidden units;"
                f" {ROWS_PER_UNIT * p} such rows are needed. Lower the width, or add rows."
            )
        if (rank := dimensions_of(rows)) < p:
            raise _too_few(rank, p)
        if deep and report.residual > _DEEP_RESIDUAL:
            raise InvalidDataError(
                f"the rectifier could be undone only up to a relative residual of {report.residual:.1g}. Networks of"
                " three layers are found from exact outputs alone: those in double precision, without noise."
            )
    except InvalidDataError as error:
        raise CannotPeelError(f"{where}{error}", so_far, report) from error
    except TimeIsUp as error:
        raise CannotPeelError(
            f"{where}the time was up before the rectifier was undone. Raise max_seconds, or use fewer rows.", so_far
        ) from error
    center = rows.mean(axis=0)
    basis = np.linalg.svd(rows - center, full_matrices=False)[2][:p].T
    size = float(np.sqrt((rows**2).mean()))
    noise = report.residual * size / math.sqrt(max(1.0 - report.share_floored, 0.05))
    return undone, Subspace(center, basis, max(noise, rounding * size), undone.determined)


def _judge(
    found: FoundLayer, matrix: MatrixReport, n_inputs: int | str | None, innermost: bool, so_far: Peeled
) -> None:
    """Refuse a layer with units missing, and say why; warn of what is not to be relied on in another one."""
    report, where = found.report, f"Layer {len(so_far.layers) + 1}: "
    if found.ended is not None:
        ended_early(found, so_far, where)
        return
    noisy = f"the rectifier could be undone only up to a relative residual of {matrix.residual:.1g}: the outputs have"
    if not report.converged:
        said = f"{report.units_found} of {report.n_hidden} hidden units were found"
        if matrix.residual > INEXACT:
            why = f"{said}, and {noisy} noise that hides the units, or there are more units than that, or there is no"
            why = f"{why} such network."
        elif report.method != "facets" and n_inputs is not None:
            why = why_missing(found, n_inputs)
        else:
            why = (
                f"{said}. The others are hardly ever off, or hardly ever on, or off only where another one is: their"
                " weights cannot be told. If there are fewer inputs than units, say how many (n_inputs, or 'auto');"
                " otherwise try another width, or add rows."
            )
        raise CannotPeelError(where + why, so_far, report)
    warn_of(found, where)
    if not innermost:
        # The units of the next layer are this one's inputs, and undoing its rectifier takes more outputs than units.
        warn(
            f"{where}it has more units than inputs, since the next layer has fewer. Planes can then hold many rows by"
            " coincidence, and what was found may not be the layer's units.",
            "doubtful-units",
        )
    if matrix.residual > INEXACT:
        warn(
            f"{where}{noisy} noise, or another number of units, and weights are no more exact than that, those of units"
            " that are rarely on or off far less.",
            "doubtful-units",
        )


def _with_layer(
    so_far: Peeled, undone: Unrectified, level: FloatArray, floor: FloatArray, found: FoundLayer
) -> tuple[Peeled, FloatArray]:
    """What was peeled so far with the next layer, and what its units were multiplied by to give columns length 1.

    A layer with units missing has no weights.
    """
    outliers, layer = so_far.outlier_rows.copy(), found.layer
    outliers[~outliers] = ~found.genuine
    hidden = layer.hidden(undone.T[found.genuine])
    known, (d, p) = undone.outputs.copy(), (len(undone.outputs), found.report.n_hidden)
    weights, bias, lengths = np.full((d, p), np.nan), np.full(d, np.nan), np.ones(layer.encoder.shape[0])
    if found.report.converged:
        weights[known], bias[known] = layer.weights, layer.bias
        # Outputs that are not known yet, by least squares over the rows in which they are on.
        heights, extended = so_far.hidden[found.genuine], np.column_stack([hidden, np.ones(len(hidden))])
        scale = np.sqrt((extended**2).mean(axis=0))
        for output in np.flatnonzero(~known):
            on = heights[:, output] > 0.0
            if np.count_nonzero(on) < _ON * extended.shape[1]:
                continue
            seen = heights[on, output]
            row, _, rank, values = np.linalg.lstsq(extended[on] / scale, seen)
            left = np.sqrt(((extended[on] / scale @ row - seen) ** 2).mean() / (seen**2).mean())
            told = left <= max(INEXACT, 3.0 * undone.report.residual)
            if rank == extended.shape[1] and values[0] < _WORST * values[-1] and told:
                weights[output], bias[output] = (row / scale)[:-1], (row / scale)[-1]
        known = np.isfinite(bias)
        lengths = np.linalg.norm(weights[known], axis=0)
        weights, hidden = weights / lengths, hidden * lengths
    else:
        known[:] = False
    placed = PeeledLayer(weights, bias + level, floor, known, found.report, undone.report)
    return replace(so_far, layers=(*so_far.layers, placed), hidden=hidden, outlier_rows=outliers), lengths


# --- down to the inputs ---------------------------------------------------------------------------


def with_inputs(peeled: Peeled, inner: InnerLayer, heights: FloatArray, seed: int) -> Peeled:
    """The network down to its inputs, scaled so that they have mean 0 and covariance I; warns where that is a guess.

    With noise the inputs come from the rows (``heights`` above the floor) themselves, and units from the inputs.
    """
    found = None
    if peeled.layers[-1].matrix_report.residual > ROUNDED:
        peeled, inner, found = _settled(peeled, inner, heights)
    else:
        check_explained(inner, peeled.hidden, peeled)
    layer = standard_layer(inner, peeled.hidden, seed, found)
    inputs = layer.inputs(peeled.hidden)
    warn_of_inputs(layer, inputs, peeled.hidden)
    return replace(peeled, inner=layer, inputs=inputs, hidden_distribution=layer.law)


def _settled(peeled: Peeled, inner: InnerLayer, heights: FloatArray) -> tuple[Peeled, InnerLayer, FloatArray]:
    """With noise: inputs from the rows, units from the inputs, and outputs' weights from the units, again and again.

    Units that come from the inputs have hardly any noise left, those that weights were found with have. Outputs whose
    standard errors are not small against their weights become NaN at the end, and a network that leaves more of its
    rows than noise does is refused.
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
            "weak-columns",
        )
        weights, bias = outer.weights.copy(), outer.bias.copy()
        weights[vague] = bias[vague] = np.nan
        lengths = np.linalg.norm(weights[better], axis=0)
        outer = replace(outer, weights=weights / lengths, bias=bias, column_identifiable=better)
        hidden, inner = hidden * lengths, inner.scaled(lengths)
    peeled = replace(peeled, layers=(*peeled.layers[:-1], outer), hidden=hidden)
    told, noise = outer.column_identifiable, outer.matrix_report.residual
    seen, rebuilt = heights[known][:, told], (outer.output(inner.units(found[known])) - outer.floor)[:, told]
    size = float(np.linalg.norm(seen))
    left = float(np.linalg.norm(seen - rebuilt)) / size if size > 0.0 else 1.0
    if not left <= _MORE * noise:
        raise CannotPeelError(
            f"The {inner.weights.shape[0]} units and {inner.n_inputs} inputs found leave a relative error of"
            f" {left:.1g}, where {noise:.1g} is noise: they are not the network's. The noise is too large, or rows are"
            " too few.",
            peeled,
            outer.report,
        )
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


def _with_both_layers(peeled: Peeled, outer: InnerLayer, below: InnerLayer, report: LayerReport, seed: int) -> Peeled:
    """The network x <- h <- g <- z: ``outer`` is h = ReLU(A g + b) of the hidden units so far, ``below`` g's layer."""
    lengths, h = np.linalg.norm(outer.weights, axis=0), peeled.hidden
    A, b, below = outer.weights / lengths, outer.bias, below.scaled(lengths)
    g = inputs_near(h, A, b, below)[1]
    below = standard_layer(below, g[np.isfinite(g[:, 0])], seed)
    z, g = inputs_near(h, A, b, below)
    sure = np.isfinite(g[:, 0])
    lifted = np.column_stack([g[sure], np.ones(np.count_nonzero(sure))])
    ranks = [np.linalg.matrix_rank(lifted[on], tol=_FLAT * np.sqrt(len(lifted))) for on in (h[sure] > 0.0).T]
    told = np.array(ranks) == lifted.shape[1]
    left = float(np.linalg.norm(np.maximum(lifted[:, :-1] @ A.T + b, 0.0) - h[sure]) / np.linalg.norm(h[sure]))
    off = tuple(int(count) for count in (g[sure] == 0.0).sum(axis=0))
    n, (p, k), lost, weak = len(h), A.shape, int(np.count_nonzero(~sure)), tuple(np.flatnonzero(~told).tolist())
    placed = replace(report, n_rows=n, n_features=p, rows_off=off, residual=left, n_outlier_rows=0)
    matrix = MatrixReport("chart", "free", n, p, k, 0, left, True, float((h == 0.0).mean()), 0.0, weak, lost, None)
    layers = (*peeled.layers, PeeledLayer(A, b, np.zeros(p), told, placed, matrix))
    if lost > _MANY * n:
        warn(
            f"{lost:,} of {n:,} rows have too few hidden units on to tell the units behind them, which are NaN there;"
            " the law of the inputs was learned without these rows, and samples differ from the table by that.",
            "doubtful-inputs",
        )
    if weak:
        warn(
            f"Layer 2: hidden units {listed(map(str, weak))} of layer 1 are on in too few kinds of rows to tell their"
            " weights. Theirs are right in every row of the table, but may not be elsewhere (column_identifiable).",
            "doubtful-units",
        )
    return replace(peeled, layers=layers, hidden=g, inner=below, inputs=z, hidden_distribution=below.law)


# --- undoing a rectifier ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Unrectified:
    """T over the outputs that are known (``outputs`` marks them), and the rows that ``determined`` theirs.

    ``amplified`` is the standard deviation of noise in a row of T, in its space, against that of one output: it is
    larger where fewer outputs are on. ``report`` is that of the fit of all these rows.
    """

    T: FloatArray
    outputs: BoolArray
    determined: BoolArray
    amplified: FloatArray
    report: MatrixReport


def undo_rectifier(
    X: FloatArray, width: int | str, seed: int = 0, watch: Watch = unwatched, rows_per_unit: int = _ROWS_PER_UNIT
) -> Unrectified:
    """T behind rows X >= 0 (n x d), with so many units behind them ("auto": to be found).

    The factors of A need far fewer rows than a table has: they are found from ``rows_per_unit`` rows, over the outputs
    that are on often enough there (half as many are quicker where units have rectified inputs). Every other row then
    follows by least squares over its outputs that are on, and all rows together are where a last fit begins.
    """
    rng = np.random.default_rng(seed)
    options: dict[str, Any] = {"tolerance": _TOLERANCE, "max_iterations": _ITERATIONS, "watch": watch}
    for per_unit in [] if isinstance(width, str) else sorted({rows_per_unit, _ROWS_PER_UNIT}):
        width = int(width)
        some = per_unit * (width + 1)
        if len(X) <= 2 * some or X.size * width**2 < _SMALL:
            break
        lengths = np.linalg.norm(X, axis=1)  # outliers are among the longest
        usual = np.flatnonzero(lengths <= np.quantile(lengths, _LONG))
        rows = np.sort(rng.choice(usual, some, replace=False))
        outputs: BoolArray = np.count_nonzero(X[rows] > 0.0, axis=0) >= _ON_PER_UNKNOWN * (width + 1)
        if outputs.sum() < _MORE_OUTPUTS * width:
            continue
        first = _concentrated(np.ascontiguousarray(X[np.ix_(rows, outputs)]), width, options)
        if np.count_nonzero(first.conditions.column_identifiable) < _MORE_OUTPUTS * width:
            continue
        if first.report.residual <= _TOLERANCE:
            _check_some(first, width, X, outputs, seed, watch)
        continued = _continued(X, outputs, first, options)
        if continued is not None:
            return continued
    fit = recover_matrix(Cells(X), width, seed=seed, **options)
    known = _known_outputs(X, fit)
    T, determined = fit.factors.matrix()[:, known], fit.conditions.row_identifiable
    return Unrectified(T, known, determined, _amplified(X[:, known], fit.factors.loadings[known]), fit.report)


def dimensions_of(T: FloatArray) -> int:
    """In how many dimensions rows without a rectifier vary."""
    return int(np.linalg.matrix_rank(T - T.mean(axis=0), tol=_LEVEL * np.abs(T).max(initial=0.0)))


def _too_few(rank: int, width: int) -> InvalidDataError:
    return InvalidDataError(
        f"what is behind the outputs varies in {rank} dimensions, fewer than the {width} hidden units asked for."
        " Columns of its weights are dependent, or units are never on: lower the width."
    )


def _check_some(first: MatrixFit, width: int, X: FloatArray, outputs: BoolArray, seed: int, watch: Watch) -> None:
    """The same where some rows do, if so many dimensions explain all rows: with too many it takes minutes to tell."""
    sure = first.conditions
    T = first.factors.matrix()[np.ix_(sure.row_identifiable, sure.column_identifiable)]
    rank = dimensions_of(T)
    if 0 < rank < width:
        fewer = undo_rectifier(X, rank, seed, watch)
        explained = min(fewer.determined.mean(), fewer.outputs[outputs].mean())
        if fewer.report.residual <= ROUNDED and explained > _MOST:
            raise _too_few(rank, width)


def _amplified(table: FloatArray, loadings: FloatArray) -> FloatArray:
    """sqrt(tr((A'A) (A_on'A_on)^-1) / p) of every row, A_on the loadings of its outputs that are on."""
    if len(loadings) < loadings.shape[1]:
        return np.full(len(table), np.inf)
    basis = np.linalg.svd(loadings, full_matrices=False)[0]
    products = packed_products(np.ascontiguousarray(basis))

    def at(rows: slice) -> FloatArray:
        gram = unpacked((table[rows] > 0.0).astype(np.float64) @ products, basis.shape[1])
        values = np.maximum(np.linalg.eigvalsh(gram), 1e-300)
        amplified: FloatArray = np.sqrt((1.0 / values).mean(axis=1))
        return amplified

    with one_blas_thread():
        return np.concatenate(map_in_threads(at, tiles(table.shape)))


def _known_outputs(X: FloatArray, fit: MatrixFit) -> BoolArray:
    """Outputs that a fit determines; where there is noise, of those only the ones that are on often."""
    known = fit.conditions.column_identifiable
    if fit.report.residual <= INEXACT:
        return known
    often: BoolArray = np.count_nonzero(X > 0.0, axis=0) >= _ON_PER_UNIT * (fit.report.n_components + 1)
    return known & often


def _continued(X: FloatArray, outputs: BoolArray, first: MatrixFit, options: dict[str, Any]) -> Unrectified | None:
    """All rows, from the factors of some; None where these explain fewer rows than they were found from."""
    known, outputs = first.conditions.column_identifiable, outputs.copy()
    outputs[outputs] = known
    table = np.ascontiguousarray(X[:, outputs])
    start, amplified, _, apart = _through(table, first.factors.of(slice(None), known))
    used = np.isfinite(amplified) & ~apart
    if np.count_nonzero(used) < len(first.factors.latent):
        return None
    cells = Cells(np.ascontiguousarray(table[used]))
    fit = recover_matrix(cells, start.rank, start=start.of(used, slice(None)), **options)
    kept = _known_outputs(table, fit)
    T = start.matrix()
    T[used] = fit.factors.matrix()
    determined = used.copy()
    determined[used] = fit.conditions.row_identifiable
    outputs[outputs] = kept
    n, d = X.shape
    weak, lost = tuple(np.flatnonzero(~outputs).tolist()), int(np.count_nonzero(~determined))
    report = replace(fit.report, n_rows=n, n_features=d, weak_columns=weak, weak_rows=lost)
    amplified = _amplified(table[:, kept], fit.factors.loadings[kept])
    return Unrectified(np.ascontiguousarray(T[:, kept]), outputs, determined, amplified, report)


def _concentrated(table: FloatArray, width: int, options: dict[str, Any]) -> MatrixFit:
    """The fit of most rows, without those that fit far worse: outlier rows spoil factors.

    It goes on without the worst rows until those that are left fit alike (concentration steps, as in least trimmed
    squares).
    """
    kept, step = np.ones(len(table), dtype=bool), {**options, "max_iterations": _SHORT}
    fit = recover_matrix(Cells(table), width, start=singular_start(Cells(table), width, True), **step)
    for _ in range(_STEPS):
        if fit.report.residual <= _TOLERANCE:
            return fit
        if fit.report.residual < _SLOW:
            break
        start, _, left, apart = _through(table, fit.factors)
        most = left <= np.quantile(left, _KEPT)
        if not apart.any() or (most == kept).all():
            break
        kept = most
        cells = Cells(np.ascontiguousarray(table[kept]))
        fit = recover_matrix(cells, width, start=start.of(kept, slice(None)), **step)
    if fit.report.residual > _HOPELESS:
        raise InvalidDataError(
            f"{width} units leave a relative residual of {fit.report.residual:.1g} of the outputs of {len(table):,}"
            " rows, which are not such a network's. Perhaps it has more units: raise the width."
        )
    if fit.report.residual > _BAD:
        return recover_matrix(Cells(table), width, **options)
    return recover_matrix(Cells(np.ascontiguousarray(table[kept])), width, start=fit.factors, **options)


def _through(table: FloatArray, factors: Factors) -> tuple[Factors, FloatArray, FloatArray, BoolArray]:
    """All rows under the columns of factors: with their latent vectors, by how much noise is amplified in each, the
    root mean square of what is left of each row's outputs, and rows that fit far worse than most, or than rounding."""
    assert factors.bias is not None
    latent, amplified = inputs_of(table, factors.loadings, factors.bias)
    factors = replace(factors, latent=latent)
    T = factors.matrix()
    left = np.sqrt((np.where(table > 0.0, table - T, np.maximum(T, 0.0)) ** 2).mean(axis=1))
    apart = left > max(_APART * float(np.median(left)), _ROUNDING * float(np.sqrt((table**2).mean())))
    return factors, amplified, left, apart
