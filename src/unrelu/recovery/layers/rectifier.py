"""Undoing a layer's rectifier: T = A h + b behind x = ReLU(T), by matrix recovery of some rows, then of all.

The factors of A need far fewer rows than a table has: they are found from some dozens a unit, over the outputs that are
on often enough there. Every other row then follows by least squares over its outputs that are on, and all rows together
are where a last fit begins. Outputs that are rarely on are left for later: they follow from rows that are known.

Outlier rows spoil factors. Where some rows fit far worse than most, the recovery of the dozens goes on without the
worst of them, until those that are left fit alike (concentration steps, as in least trimmed squares).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Watch, unwatched
from unrelu.errors import InvalidDataError
from unrelu.kernels.floor_cells import packed_products, unpacked
from unrelu.passes.local import map_in_threads, one_blas_thread
from unrelu.recovery.layers.inputs import inputs_of
from unrelu.recovery.matrix.factors import Cells, Factors, singular_start, tiles
from unrelu.recovery.matrix.matrix import MatrixFit, MatrixReport, MatrixRequest, recover_matrix

INEXACT = 1e-6  # relative residual from where on there is noise, or worse
ROUNDED = 1e-9  # from where on it is more than rounding of double precision

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
_FLAT = 1e-7  # of the largest entry of T: directions that vary less are not there
_MOST = 0.9  # share of the rows
_HOPELESS = 0.25  # relative residual of a fit that no other start will better
_BAD = 0.05  # relative residual of a fit that another start may better
_ON_PER_UNIT = 20  # rows in which an output must be on, where there is noise


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

    Factors are found from ``rows_per_unit`` rows first. Half as many are quicker where units have rectified inputs.

    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 12)) + 0.3
    >>> undone = undo_rectifier(np.maximum(T, 0.0), 2)
    >>> bool(np.abs(undone.T - T[:, undone.outputs]).max() < 1e-8), undone.report.converged
    (True, True)
    """
    rng = np.random.default_rng(seed)
    request = MatrixRequest(width, tolerance=_TOLERANCE, max_iterations=_ITERATIONS)
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
        first = _concentrated(np.ascontiguousarray(X[np.ix_(rows, outputs)]), request, seed, watch)
        if np.count_nonzero(first.conditions.column_identifiable) < _MORE_OUTPUTS * width:
            continue
        if first.report.residual <= _TOLERANCE:
            _check_some(first, width, X, outputs, seed, watch)
        continued = _continued(X, outputs, first, request, watch)
        if continued is not None:
            return continued
    fit = recover_matrix(Cells(X), request, seed, watch=watch)
    known = fit.conditions.column_identifiable & _often_on(X, fit)
    T, determined = fit.hidden()[:, known], fit.conditions.row_identifiable
    return Unrectified(T, known, determined, _amplified(X[:, known], fit.factors.loadings[known]), fit.report)


def check_dimensions(T: FloatArray, width: int) -> None:
    """Refuse rows without a rectifier that vary in fewer dimensions than there are to be units."""
    rank = _dimensions(T)
    if rank < width:
        raise InvalidDataError(
            f"what is behind the outputs varies in {rank} dimensions, fewer than the {width} hidden units asked for."
            " Columns of its weights are dependent, or units are never on: lower the width."
        )


def _dimensions(T: FloatArray) -> int:
    return int(np.linalg.matrix_rank(T - T.mean(axis=0), tol=_FLAT * np.abs(T).max(initial=0.0)))


def _check_some(first: MatrixFit, width: int, X: FloatArray, outputs: BoolArray, seed: int, watch: Watch) -> None:
    """The same where some rows do, if so many dimensions explain all rows: with too many it takes minutes to tell."""
    sure = first.conditions
    T = first.hidden()[np.ix_(sure.row_identifiable, sure.column_identifiable)]
    rank = _dimensions(T)
    if 0 < rank < width:
        fewer = undo_rectifier(X, rank, seed, watch)
        explained = min(fewer.determined.mean(), fewer.outputs[outputs].mean())
        if fewer.report.residual <= ROUNDED and explained > _MOST:
            check_dimensions(T, width)


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


def _often_on(X: FloatArray, fit: MatrixFit) -> BoolArray:
    """Outputs that noise leaves known: those that are on often."""
    if fit.report.residual <= INEXACT:
        return np.ones(X.shape[1], dtype=bool)
    often: BoolArray = np.count_nonzero(X > 0.0, axis=0) >= _ON_PER_UNIT * (fit.report.n_components + 1)
    return often


def _continued(
    X: FloatArray, outputs: BoolArray, first: MatrixFit, request: MatrixRequest, watch: Watch
) -> Unrectified | None:
    """All rows, from the factors of some; None where these explain fewer rows than they were found from."""
    known = first.conditions.column_identifiable
    outputs = outputs.copy()
    outputs[outputs] = known
    bias = first.factors.bias
    assert bias is not None
    loadings, bias = np.ascontiguousarray(first.factors.loadings[known]), np.ascontiguousarray(bias[known])
    table = np.ascontiguousarray(X[:, outputs])
    latent, amplified = inputs_of(table, loadings, bias)
    start = Factors(latent, loadings, bias)
    used = np.isfinite(amplified) & ~_apart(_row_residuals(table, start), table)
    if np.count_nonzero(used) < len(first.factors.latent):
        return None
    cells = Cells(np.ascontiguousarray(table[used]))
    fit = recover_matrix(cells, request, start=replace(start, latent=latent[used]), watch=watch)
    kept = fit.conditions.column_identifiable & _often_on(table, fit)
    T = start.matrix()
    T[used] = fit.hidden()
    determined = used.copy()
    determined[used] = fit.conditions.row_identifiable
    outputs[outputs] = kept
    n, d = X.shape
    weak = tuple(np.flatnonzero(~outputs).tolist())
    report = replace(
        fit.report, n_rows=n, n_features=d, weak_columns=weak, weak_rows=int(np.count_nonzero(~determined))
    )
    amplified = _amplified(table[:, kept], fit.factors.loadings[kept])
    return Unrectified(np.ascontiguousarray(T[:, kept]), outputs, determined, amplified, report)


def _concentrated(table: FloatArray, request: MatrixRequest, seed: int, watch: Watch) -> MatrixFit:
    """The fit of most rows, without those that fit far worse."""
    kept = np.ones(len(table), dtype=bool)
    step = replace(request, max_iterations=_SHORT)
    start = singular_start(Cells(table), int(request.n_components), True)
    fit = recover_matrix(Cells(table), step, seed, start, watch)
    for _ in range(_STEPS):
        if fit.report.residual <= _TOLERANCE:
            return fit
        if fit.report.residual < _SLOW:
            break
        loadings, bias = fit.factors.loadings, fit.factors.bias
        assert bias is not None
        start = Factors(inputs_of(table, loadings, bias)[0], loadings, bias)
        left = _row_residuals(table, start)
        most = left <= np.quantile(left, _KEPT)
        if not _apart(left, table).any() or (most == kept).all():
            break
        kept = most
        cells = Cells(np.ascontiguousarray(table[kept]))
        fit = recover_matrix(cells, step, seed, replace(start, latent=start.latent[kept]), watch)
    if fit.report.residual > _HOPELESS:
        raise InvalidDataError(
            f"{request.n_components} units leave a relative residual of {fit.report.residual:.1g} of the outputs of"
            f" {len(table):,} rows, which are not such a network's. Perhaps it has more units: raise the width."
        )
    if fit.report.residual > _BAD:
        return recover_matrix(Cells(table), request, seed, watch=watch)
    return recover_matrix(Cells(np.ascontiguousarray(table[kept])), request, seed, fit.factors, watch)


def _row_residuals(table: FloatArray, factors: Factors) -> FloatArray:
    """Root mean square of what factors leave of each row's outputs."""
    T = factors.matrix()
    left = np.where(table > 0.0, table - T, np.maximum(T, 0.0))
    size: FloatArray = np.sqrt((left**2).mean(axis=1))
    return size


def _apart(left: FloatArray, table: FloatArray) -> BoolArray:
    """Rows that fit far worse than most, and than rounding explains."""
    apart: BoolArray = left > max(_APART * float(np.median(left)), _ROUNDING * float(np.sqrt((table**2).mean())))
    return apart
