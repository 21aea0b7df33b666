"""T behind rows X = ReLU(T) of a layer's outputs, for any T of low rank: matrix recovery for tables of many rows.

The factors of A need far fewer rows than a table has: they are found from some, without outlier rows among them. Every
other row then follows by least squares over its outputs that are on, and all rows together are where a last fit begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Progress, no_progress
from unrelu.errors import InvalidDataError
from unrelu.passes import map_in_threads, one_blas_thread
from unrelu.recovery.layers.inputs import inputs_of
from unrelu.recovery.matrix.factors import Cells, Factors, singular_start, tiles
from unrelu.recovery.matrix.floor_cells import packed_products, unpacked
from unrelu.recovery.matrix.matrix import MatrixFit, MatrixReport, recover_matrix

INEXACT = 1e-6  # relative residual from where on there is noise, or worse
ROUNDED = 1e-9  # from where on it is more than rounding of double precision
FIRST_ROWS_PER_UNIT = (50,)  # whose factors are found first, tried in turn

_TOLERANCE, _ITERATIONS = 1e-11, 100  # facets need exact zeros
_SMALL = 3e7  # products for a round of all rows: no need to begin with some
_LONG = 0.9  # quantile of the rows' lengths; longer rows are not among the first
_ON_PER_UNKNOWN = 4  # of the first rows, those in which an output must be on, for each unknown
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


@dataclass(frozen=True)
class Unrectified:
    """T over the outputs that are identified (``outputs`` marks them), and the rows that determine theirs.

    ``amplified`` is the standard deviation of noise in a row of T, in its space, against that of one output: it is
    larger where fewer outputs are on. ``report`` is that of the fit of all these rows.
    """

    T: FloatArray
    outputs: BoolArray
    determined: BoolArray
    amplified: FloatArray
    report: MatrixReport


def undo_rectifier(
    X: FloatArray,
    width: int | str,
    seed: int = 0,
    progress: Progress = no_progress,
    rows_per_unit: Sequence[int] = FIRST_ROWS_PER_UNIT,
) -> Unrectified:
    """T behind rows X >= 0 (n x d), with so many units behind them ("auto": to be found).

    The first factors are of ``rows_per_unit`` rows, and of the outputs that are on often enough there.
    """
    rng = np.random.default_rng(seed)
    options: dict[str, Any] = {"tolerance": _TOLERANCE, "max_iterations": _ITERATIONS, "progress": progress}
    for per_unit in () if isinstance(width, str) else rows_per_unit:
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
        first = _concentrate(np.ascontiguousarray(X[np.ix_(rows, outputs)]), width, options)
        if np.count_nonzero(first.conditions.column_identifiable) < _MORE_OUTPUTS * width:
            continue
        if first.report.residual <= _TOLERANCE:
            _check_some(first, width, X, outputs, seed, progress)
        continued = _continue_on_all(X, outputs, first, options)
        if continued is not None:
            return continued
    fit = recover_matrix(Cells(X), width, seed=seed, **options)
    outputs = _identified_outputs(X, fit)
    T, determined = fit.factors.matrix()[:, outputs], fit.conditions.row_identifiable
    return Unrectified(T, outputs, determined, _amplification(X[:, outputs], fit.factors.loadings[outputs]), fit.report)


def check_dimensions(T: FloatArray, width: int, fewer_do: Callable[[int], bool] = lambda _: True) -> None:
    """Raise InvalidDataError where rows of T vary in fewer dimensions than units, and ``fewer_do`` agrees."""
    rank = int(np.linalg.matrix_rank(T - T.mean(axis=0), tol=_LEVEL * np.abs(T).max(initial=0.0)))
    if rank < width and fewer_do(rank):
        raise InvalidDataError(
            f"what is behind the outputs varies in {rank} dimensions, fewer than the {width} hidden units."
            " Columns of its weights are dependent, or units are never on: lower the width."
        )


def _check_some(first: MatrixFit, width: int, X: FloatArray, outputs: BoolArray, seed: int, progress: Progress) -> None:
    """Raise it where some rows vary in fewer dimensions that explain all rows: with too many, fits take minutes."""

    def explain_all(rank: int) -> bool:
        if rank == 0:
            return False
        fewer = undo_rectifier(X, rank, seed, progress)
        explained = min(fewer.determined.mean(), fewer.outputs[outputs].mean())
        return bool(fewer.report.residual <= ROUNDED and explained > _MOST)

    sure = first.conditions
    T = first.factors.matrix()[np.ix_(sure.row_identifiable, sure.column_identifiable)]
    check_dimensions(T, width, explain_all)


def _amplification(table: FloatArray, loadings: FloatArray) -> FloatArray:
    """sqrt(tr((A'A) (A_on'A_on)^-1) / p) of every row, A_on the loadings of its outputs that are on."""
    if len(loadings) < loadings.shape[1]:
        return np.full(len(table), np.inf)
    basis = np.linalg.svd(loadings, full_matrices=False)[0]
    products = packed_products(np.ascontiguousarray(basis))

    def at(rows: slice) -> FloatArray:
        gram = unpacked((table[rows] > 0.0).astype(np.float64) @ products, basis.shape[1])
        values = np.maximum(np.linalg.eigvalsh(gram), 1e-300)
        return np.asarray(np.sqrt((1.0 / values).mean(axis=1)))

    with one_blas_thread():
        return np.concatenate(map_in_threads(at, tiles(table.shape)))


def _identified_outputs(X: FloatArray, fit: MatrixFit) -> BoolArray:
    """Outputs that a fit identifies; where there is noise, only those that are on often."""
    identified = fit.conditions.column_identifiable
    if fit.report.residual <= INEXACT:
        return identified
    often: BoolArray = np.count_nonzero(X > 0.0, axis=0) >= _ON_PER_UNIT * (fit.report.n_components + 1)
    return identified & often


def _continue_on_all(
    X: FloatArray, outputs: BoolArray, first: MatrixFit, options: dict[str, Any]
) -> Unrectified | None:
    """All rows, from the factors of some; None where these explain fewer rows than they were found from."""
    identified, outputs = first.conditions.column_identifiable, outputs.copy()
    outputs[outputs] = identified
    table = np.ascontiguousarray(X[:, outputs])
    start, amplified, _, apart = _through(table, first.factors.of(slice(None), identified))
    used = np.isfinite(amplified) & ~apart
    if np.count_nonzero(used) < len(first.factors.latent):
        return None
    cells = Cells(np.ascontiguousarray(table[used]))
    fit = recover_matrix(cells, start.rank, start=start.of(used, slice(None)), **options)
    kept = _identified_outputs(table, fit)
    T = start.matrix()
    T[used] = fit.factors.matrix()
    determined = used.copy()
    determined[used] = fit.conditions.row_identifiable
    outputs[outputs] = kept
    n, d = X.shape
    weak, lost = tuple(np.flatnonzero(~outputs).tolist()), int(np.count_nonzero(~determined))
    report = replace(fit.report, n_rows=n, n_features=d, weak_columns=weak, weak_rows=lost)
    amplified = _amplification(table[:, kept], fit.factors.loadings[kept])
    return Unrectified(np.ascontiguousarray(T[:, kept]), outputs, determined, amplified, report)


def _concentrate(table: FloatArray, width: int, options: dict[str, Any]) -> MatrixFit:
    """The fit of most rows, without those that fit far worse: outlier rows spoil factors.

    It leaves out the worst rows until the others fit alike (concentration steps, as in least trimmed squares).
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
    """All rows under the columns of factors: (factors with the rows' latent vectors, the amplification of noise in each
    row, the root mean square of its residuals, a mask of rows that fit far worse than most, or than rounding)."""
    assert factors.bias is not None
    latent, amplified = inputs_of(table, factors.loadings, factors.bias)
    factors = replace(factors, latent=latent)
    T = factors.matrix()
    left = np.sqrt((np.where(table > 0.0, table - T, np.maximum(T, 0.0)) ** 2).mean(axis=1))
    apart = left > max(_APART * float(np.median(left)), _ROUNDING * float(np.sqrt((table**2).mean())))
    return factors, amplified, left, apart
