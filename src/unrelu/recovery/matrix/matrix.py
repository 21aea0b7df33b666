"""Matrix recovery in the order of its steps: how many components, their factors, what is identified, a report.

A fit is made on the core of the table and completed: rows and columns outside it follow, one side given the other. Both
are convex. Where the fit had noise, its penalty ridge/2 (|C|^2 + |A|^2), for C'C = A'A, holds there as well: with C of
unit variance, component m of a row pays ridge |A_m|/sqrt(n), that of a column ridge sqrt(n)/|A_m|. Without noise a
faint penalty fixes what the cells leave open, and is then removed: so cells determine exactly what they determine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray, Progress, Step, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.notebook import Shown
from unrelu.passes import one_blas_thread
from unrelu.recovery.matrix.descent import CensoredALS, MatrixMethod, Task, method_name
from unrelu.recovery.matrix.factors import (
    Cells,
    Conditions,
    Factors,
    StandardErrors,
    conditions,
    effective_components,
    find_core,
    in_gauge,
    sizes_of,
    standard_errors,
    tile_by_tile,
)
from unrelu.recovery.matrix.newton import Descent
from unrelu.validation import label_columns, warn

CHOOSING = "Choosing the number of components"  # a stage of the work

_SMALL = 200_000  # cells: threads cost more than they give to products of such tables
_USUAL = 1e6  # largest values between this and its inverse need no change of units
_FAINT = 1e-10  # of the curvature
_SHARE = 0.1  # of the cells, held out for the choice of a number
_PATIENCE = 3  # numbers beyond the best one that must be worse before the search ends
_EXACT = 1e-12  # of the squares of the cells: such an error is rounding
_MOST_ITERATIONS = 60  # numbers of components can be compared long before the last digits
_ENOUGH = 3e-5  # share of the objective: an iteration that gains less moves no held-out error that matters
_SHOWN = 4  # errors in one line of progress


@dataclass(frozen=True)
class MatrixReport(Shown):
    """How the recovery went, in plain numbers.

    ``residual`` is relative (see :class:`unrelu.recovery.matrix.descent.Task`). ``weak_columns`` are not determined by
    their values above the floor, ``weak_rows`` counts the rows of that kind. ``component_errors`` are pairs of a number
    of components tried and its relative error on held-out cells, for n_components="auto". ``resumed`` is (iterations,
    residual) of the state that was gone on from; ``iterations`` counts those as well.
    """

    method: str
    gauge: str
    n_rows: int
    n_features: int
    n_components: int
    iterations: int
    residual: float
    converged: bool
    share_floored: float
    share_missing: float
    weak_columns: tuple[int, ...]
    weak_rows: int
    noise: float | None
    component_errors: tuple[tuple[int, float], ...] = ()
    resumed: tuple[int, float] | None = None


@dataclass(frozen=True)
class Filling:
    """One side given the other: latent vectors of rows under given columns, columns under given latent vectors.

    The noise of a fit (None: least squares), and what a row's and a column's components cost, in standard form.
    """

    noise: float | None
    row_ridge: Annotated[FloatArray, "floats k"]
    column_ridge: Annotated[FloatArray, "floats p"]
    exact: bool
    unit: float = 1.0  # of the table, in which the fit was made

    def __post_init__(self) -> None:
        if not (0.0 < self.unit < np.inf and (self.noise is None or 0.0 < self.noise < np.inf)):
            raise InvalidDataError("the unit or the noise of a fit is out of range")

    @classmethod
    def after(cls, standard: Factors, noise: float | None, ridge: float) -> Filling:
        """As the fit of these factors, in standard form, was penalized."""
        n = len(standard.latent)
        size = np.sqrt((standard.loadings**2).sum(axis=0))
        curvature = float((size**2).mean()) or 1.0
        size[size == 0.0] = np.sqrt(curvature)
        per_row = np.maximum(ridge * size / np.sqrt(n), _FAINT * curvature)
        per_column = np.maximum(ridge * np.sqrt(n) / size, _FAINT * n)
        if standard.bias is not None:
            per_column = np.append(per_column, per_column.mean())
        return cls(noise, per_row, per_column, exact=ridge == 0.0)

    def latent_of(self, cells: Cells, factors: Factors) -> FloatArray:
        """c_i for every row of a table, given A and b."""
        start = replace(factors, latent=np.zeros((cells.shape[0], factors.rank)))
        if self.unit != 1.0:
            cells, start = cells.rescale(1.0 / self.unit), start.rescale(1.0 / self.unit)
        return self._solve_rows(cells, start, self.row_ridge)

    def columns_of(self, cells: Cells, factors: Factors) -> FloatArray:
        """[a_j b_j] for every column of a table, given C: they are the rows of the transposed table."""
        n, d = cells.shape
        transposed = Cells(np.ascontiguousarray(cells.rows(0, n).T))
        extended = factors.extend(factors.latent)
        return self._solve_rows(
            transposed, Factors(np.zeros((d, extended.shape[1])), extended, None), self.column_ridge
        )

    def _solve_rows(self, cells: Cells, start: Factors, ridge: FloatArray) -> FloatArray:
        descent = Descent(cells, self.noise or 0.0, row_ridge=ridge)
        with one_blas_thread():
            solution = descent.converge_rows(start)
            if self.exact:
                solution = replace(descent, row_ridge=None).converge_rows(solution)
            return solution.latent


@dataclass(frozen=True)
class MatrixFit:
    """Factors of the whole table in their gauge, what is identified, and the report.

    ``latent_mean`` is the mean of C over the rows that the fit rests on. ``filling`` finds latent vectors of further
    rows. ``errors`` are there where the method has a noise.
    """

    factors: Factors
    conditions: Conditions
    report: MatrixReport
    latent_mean: Annotated[FloatArray, "floats k"]
    filling: Filling
    errors: StandardErrors | None

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together, as a damaged file may hold them."""
        (n, k), d = self.factors.latent.shape, len(self.factors.loadings)
        width = k + int(self.factors.bias is not None)
        expected: list[tuple[FloatArray, tuple[int, ...]]] = [
            (self.conditions.rows, (n,)),
            (self.conditions.columns, (d,)),
            (self.latent_mean, (k,)),
            (self.filling.row_ridge, (k,)),
            (self.filling.column_ridge, (width,)),
        ]
        if self.errors is not None:
            expected += [(self.errors.latent, (n, k)), (self.errors.loadings, (d, k))]
        reported = (self.report.n_rows, self.report.n_features, self.report.n_components)
        fits = reported == (n, d, k) and (self.errors is None) == (self.report.noise is None)
        if not fits or any(array.shape != shape for array, shape in expected):
            raise InvalidDataError("its parts do not belong together")


def recover_matrix(
    cells: Cells,
    n_components: int | str = "auto",
    method: MatrixMethod | None = None,
    gauge: str = "centered",
    *,
    tolerance: float = 1e-12,
    max_iterations: int = 500,
    seed: int = 0,
    start: Factors | None = None,
    progress: Progress = no_progress,
) -> MatrixFit:
    """Choose the number of components where it is "auto", fit them, and report.

    ``seed`` chooses the cells that are held out for the choice. ``start`` are factors to go on from, used where their
    shapes are those of the fit.
    """
    (n, d), k, free_bias, method = cells.shape, n_components, gauge != "zero", method or CensoredALS()
    # Squares are summed, some in single precision: in units in which the largest value is neither huge nor tiny.
    stored = cells.values.data if hasattr(cells.values, "toarray") else cells.values
    size = float(np.nanmax(stored, initial=0.0))
    unit = 1.0 if size == 0.0 or 1.0 / _USUAL < size < _USUAL else 2.0 ** round(math.log2(size))
    table = cells if unit == 1.0 else cells.rescale(1.0 / unit)
    task = Task(table, 1, free_bias, tolerance, max_iterations, None, progress, unit)
    errors: tuple[tuple[int, float], ...] = ()
    fewer: Factors | None = None
    if isinstance(k, str) and k == "auto":
        k, errors, fewer = choose_components(task, lambda trial: fit_task(trial, method, gauge).factors, seed)
    elif int(k) < 1:
        raise InvalidParameterError(f"n_components must be at least 1, got {k}.")
    elif int(k) >= min(n, d):
        raise InvalidParameterError(
            f"n_components={k} is not below both n_samples = {n} and n_features = {d}: any table has such a"
            " factorization. Lower n_components."
        )
    if start is not None:
        shapes = start.latent.shape, start.loadings.shape, start.bias is not None
        fits = shapes == ((n, k), (d, k), free_bias)
        start, fewer = (start.rescale(1.0 / unit), None) if fits else (None, fewer)
    task = replace(task, n_components=int(k), start=start, fewer=fewer)
    if unit != 1.0:
        task = replace(task, progress=task.progress_of_part(lambda factors: factors.rescale(unit)))
    fit = fit_task(task, method, gauge)
    fit = replace(fit, report=replace(fit.report, component_errors=errors))
    return fit if unit == 1.0 else _in_unit(fit, unit)


def _in_unit(fit: MatrixFit, unit: float) -> MatrixFit:
    """The fit of the table multiplied by ``unit``."""
    noise, errors = fit.report.noise, fit.errors
    if errors is not None:
        bias = None if errors.bias is None else errors.bias * unit
        errors = replace(errors, loadings=errors.loadings * unit, bias=bias)
    report = replace(fit.report, noise=None if noise is None else noise * unit)
    filling = replace(fit.filling, unit=unit)
    return replace(fit, factors=fit.factors.rescale(unit), report=report, filling=filling, errors=errors)


def warn_of(fit: MatrixFit, names: Sequence[str] | None) -> None:
    """Warn of what is not identified, not needed or not finished; ``names`` are the columns'."""
    report = fit.report
    if report.weak_columns:
        weak = label_columns(~fit.conditions.column_identifiable, names)
        warn(
            f"Not determined by their values above the floor: {weak}. Their loadings and bias"
            " are filled in. Lower n_components, add rows or leave these columns out (drop=).",
            "weak-columns",
        )
    if report.weak_rows:
        warn(
            f"{report.weak_rows:,} of {report.n_rows:,} rows have too few values above the floor to determine their"
            " latent vector: these are filled in.",
            "weak-rows",
        )
    zero = int(np.count_nonzero(~effective_components(fit.factors)))
    if zero:
        warn(
            f"{zero} of {report.n_components} components are zero: the table needs no more than"
            f" {report.n_components - zero}. Lower n_components.",
            "rank-deficient",
        )
    if not report.converged:
        warn(
            f"Not converged after {report.iterations:,} iterations: relative residual {report.residual:.3g}. The best"
            " state is kept: raise max_iter, or go on from it (warm_start; state= keeps it in a file).",
            "not-converged",
        )


def lifted_cells(cells: Cells, factors: Factors) -> NDArray[np.int64]:
    """Cells at the floor that the factors put above it, as row x columns + column, rising."""
    d = cells.shape[1]

    def found(values: FloatArray, rows: slice) -> NDArray[np.int64]:
        above = (values <= 0.0) & (factors.of(rows, slice(None)).matrix() > 0.0)
        return np.asarray(np.flatnonzero(above) + rows.start * d, dtype=np.int64)

    return np.concatenate(tile_by_tile(cells, found))


# --- factors, their number given ------------------------------------------------------------------


def fit_task(task: Task, method: MatrixMethod, gauge: str) -> MatrixFit:
    """Fit the core, fill in the other rows and columns, choose the gauge, and say what is identified."""
    cells, (n, d) = task.cells, task.cells.shape
    with one_blas_thread():
        rows, columns, positives = find_core(cells, task.n_components, task.free_bias)

    def embed(factors: Factors) -> Factors:
        """Factors of the core as those of the whole table, 0 outside the core."""
        k, bias = factors.rank, None if factors.bias is None else np.zeros(d)
        whole = Factors(np.zeros((n, k)), np.zeros((d, k)), bias)
        whole.latent[rows], whole.loadings[columns] = factors.latent, factors.loadings
        if whole.bias is not None:
            whole.bias[columns] = factors.bias
        return whole

    if not (rows.all() and columns.all()):
        start, fewer = (None if given is None else given.of(rows, columns) for given in (task.start, task.fewer))
        part, progress = cells.part(rows, columns), task.progress_of_part(embed)
        task = replace(task, cells=part, start=start, fewer=fewer, progress=progress)
    with one_blas_thread() if math.prod(task.cells.shape) < _SMALL else nullcontext():
        recovered = method.recover(task)
    with one_blas_thread():
        standard = recovered.factors.standard()
        filling = Filling.after(standard, recovered.noise, recovered.ridge)
        whole = embed(standard)
        if not rows.all():
            whole.latent[~rows] = filling.latent_of(cells.part(~rows, columns), standard)
        found = conditions(cells, whole, columns)
        guessed = ~(columns & found.column_identifiable)
        if guessed.any():  # fitted again from the latent vectors that are determined, or from all if none is
            sure = found.row_identifiable
            sure = sure if sure.any() else np.ones(n, dtype=bool)
            extended = whole.extended.copy()
            extended[guessed] = filling.columns_of(cells.part(sure, guessed), whole.of(sure, slice(None)))
            whole = whole.with_extended(extended)
        moved = in_gauge(recovered.factors, "kept" if recovered.fixed_bias else gauge)
        mean: FloatArray = (moved.latent - standard.latent)[0]  # of the core's rows
        whole = whole.shift(-mean)
        errors = None if recovered.noise is None else standard_errors(cells, whole, recovered.noise)
        seen = sizes_of(cells)[1]
    report = MatrixReport(
        method=method_name(method),
        gauge=gauge,
        n_rows=n,
        n_features=d,
        n_components=task.n_components,
        iterations=recovered.iterations,
        residual=recovered.residual,
        converged=recovered.converged,
        share_floored=1.0 - positives / max(seen, 1.0),
        share_missing=1.0 - seen / (n * d),
        weak_columns=tuple(np.flatnonzero(~found.column_identifiable).tolist()),
        weak_rows=int(np.count_nonzero(~found.row_identifiable)),
        noise=recovered.noise,
    )
    return MatrixFit(whole, found, report, mean, filling, errors)


# --- the number of components ---------------------------------------------------------------------


def choose_components(
    task: Task, fit: Callable[[Task], Factors], seed: int
) -> tuple[int, tuple[tuple[int, float], ...], Factors | None]:
    """The smallest number of components whose error on cells it has not seen is as good as the best one's.

    With it, per number tried, the relative error |X - ReLU(T)|/|X| over the held-out cells, and the factors of one
    component less that were found on the way. The best number has the lowest error; the smallest whose rows are worse
    by at most one standard error of that difference is chosen, so that noise does not buy components.
    """
    n, d = task.cells.shape
    if min(n, d) < 2:
        raise InvalidParameterError(
            f"No n_components is below both n_samples = {n} and n_features = {d}: at least two rows and two columns are"
            " needed."
        )
    table = replace(task.cells, held_out=(_SHARE, seed))
    shown = table if hasattr(table.values, "toarray") else Cells(table.rows(0, n))

    def row_losses(factors: Factors | None) -> FloatArray:
        """Per row, the squared errors of ReLU(T) over its held-out cells; of 0 without factors."""

        def at(values: FloatArray, rows: slice) -> FloatArray:
            if factors is not None:
                fitted = factors.extend(factors.latent[rows]) @ factors.extended.T
                values = values - np.maximum(fitted, 0.0)
            return np.asarray(np.nansum(np.where(table.hidden(rows.start, rows.stop), values, 0.0) ** 2, axis=1))

        return np.concatenate(tile_by_tile(task.cells, at))

    def forward(step: Step) -> None:  # iterations on the way to a choice are no state to go on from
        task.progress(Step(CHOOSING, number, words=f"{number} components, {step.words}"))

    trial = replace(task, cells=shown, max_iterations=_MOST_ITERATIONS, start=None, enough=_ENOUGH, progress=forward)
    losses: list[FloatArray] = []
    errors: list[tuple[int, float]] = []
    tried: list[Factors] = []
    total = float(row_losses(None).sum()) or 1.0
    for number in range(1, max(1, min(n, d) // 2) + 1):
        try:
            factors = fit(replace(trial, n_components=number))
        except InvalidDataError:
            break
        trial = replace(trial, fewer=factors)  # where the next number begins
        tried.append(factors)
        losses.append(row_losses(factors))
        errors.append((number, float(np.sqrt(losses[-1].sum() / total))))
        words = ", ".join(f"{number}: {error:.2g}" for number, error in errors[-_SHOWN:])
        task.progress(Step(CHOOSING, number, words=f"held-out error by number {words}", state=errors[-1]))
        best = int(np.argmin([loss.sum() for loss in losses]))
        if losses[-1].sum() <= _EXACT * total or number - (best + 1) >= _PATIENCE:
            break
    if not losses:
        raise InvalidDataError("No component can be fitted: too few values above the floor.")
    chosen = _smallest_as_good(losses, total)
    return chosen, tuple(errors), tried[chosen - 2] if chosen > 1 else None


def _smallest_as_good(losses: list[FloatArray], total: float) -> int:
    totals = np.array([loss.sum() for loss in losses])
    best = int(np.argmin(totals))
    for index, loss in enumerate(losses):
        difference = loss - losses[best]
        error = float(difference.std(ddof=1)) * np.sqrt(len(difference)) if len(difference) > 1 else 0.0
        if difference.sum() <= max(error, _EXACT * total):
            return index + 1
    return best + 1
