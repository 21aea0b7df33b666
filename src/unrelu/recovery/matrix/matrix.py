"""The conductor of matrix recovery, on one screen: how many components, their factors, what is identified, a report.

It takes heights above the floor (:mod:`unrelu.recovery.matrix.cells`) and gives a record. :func:`warn_of` says what a
user should know of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from unrelu.contracts import FloatArray, Watch, unwatched
from unrelu.engines.local import map_in_threads
from unrelu.errors import (
    InvalidDataError,
    InvalidParameterError,
    RankDeficientWarning,
    WeakColumnsWarning,
    WeakRowsWarning,
)
from unrelu.recovery.matrix.cells import Cells, observed, tiles
from unrelu.recovery.matrix.contracts import ComponentChoice, MatrixMethod, MatrixReport, Task
from unrelu.recovery.matrix.descent import CensoredALS
from unrelu.recovery.matrix.factors import GAUGES, Factors
from unrelu.recovery.matrix.filling import Filling
from unrelu.recovery.matrix.fitting import TaskFit, fit_task, usual_unit
from unrelu.recovery.matrix.identifiability import Conditions, effective_components
from unrelu.recovery.matrix.methods import method_name
from unrelu.validation import check_choice, check_count, check_positive, label_columns, warn

if TYPE_CHECKING:
    from unrelu.recovery.matrix.uncertainty import StandardErrors


@dataclass(frozen=True)
class MatrixRequest:
    """What is asked of a table; :class:`unrelu.ReLUMatrixRecovery` says what its fields mean."""

    n_components: int | str = "auto"
    method: MatrixMethod = field(default_factory=CensoredALS)
    gauge: str = "centered"
    tolerance: float = 1e-12
    max_iterations: int = 500

    def __post_init__(self) -> None:
        check_choice("gauge", self.gauge, GAUGES)
        check_positive("tol", self.tolerance)
        check_count("max_iter", self.max_iterations)
        k = self.n_components
        if not (isinstance(k, str) and k == "auto") and (isinstance(k, bool) or not isinstance(k, Integral)):
            raise InvalidParameterError(f"n_components must be a whole number or 'auto', got {k!r}.")


@dataclass(frozen=True)
class MatrixFit:
    """Factors of the whole table in their gauge, what is identified, and how they came about.

    ``latent_mean`` is the mean of C over the rows that the fit rests on. ``filling`` finds latent vectors of further
    rows. ``errors`` are standard errors, where the method has a noise.
    """

    factors: Factors
    conditions: Conditions
    report: MatrixReport
    latent_mean: FloatArray
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
        said = (self.report.n_rows, self.report.n_features, self.report.n_components)
        fits = said == (n, d, k) and (self.errors is None) == (self.report.noise is None)
        if not fits or any(array.shape != shape for array, shape in expected):
            raise InvalidDataError("its parts do not belong together")

    def hidden(self) -> FloatArray:
        """T = C A' + 1 b', as heights above the floor."""
        return self.factors.matrix()


def recover_matrix(
    cells: Cells, request: MatrixRequest, seed: int = 0, start: Factors | None = None, watch: Watch = unwatched
) -> MatrixFit:
    """Choose the number of components where that is asked for, fit them, and report.

    ``seed`` chooses the cells that are held out for the choice. ``start`` are factors to go on from, used where their
    shapes are those of the fit.

    >>> from unrelu.recovery.matrix.cells import DenseCells
    >>> T = np.outer(np.linspace(-1.0, 2.0, 40), [1.0, 2.0, -1.0, 0.5]) + 0.3
    >>> fit = recover_matrix(DenseCells(np.maximum(T, 0.0)), MatrixRequest(n_components=1))
    >>> bool(np.abs(fit.hidden() - T).max() < 1e-8), fit.report.converged
    (True, True)
    """
    free_bias = request.gauge != "zero"
    task = Task(cells, 1, free_bias, float(request.tolerance), int(request.max_iterations), None, watch)
    choice = _choice(task, request, seed)
    fits = start is not None and _shapes(start) == (*cells.shape, choice.n_components, free_bias)
    first = (start, None) if fits else (None, choice.fewer)
    task = replace(task, n_components=choice.n_components, start=first[0], fewer=first[1])
    fitted = fit_task(task, request.method, request.gauge)
    report = _report(cells, fitted, request, choice)
    return MatrixFit(fitted.factors, fitted.conditions, report, fitted.latent_mean, fitted.filling, fitted.errors)


def _choice(task: Task, request: MatrixRequest, seed: int) -> ComponentChoice:
    if request.n_components == "auto":
        from unrelu.recovery.matrix.rank import choose_components

        unit = usual_unit(task.cells)  # errors are squared
        scaled = task if unit == 1.0 else replace(task, cells=task.cells.scaled(1.0 / unit), unit=unit)
        return choose_components(scaled, lambda trial: fit_task(trial, request.method, request.gauge).factors, seed)
    k, (n, d) = int(request.n_components), task.cells.shape
    if k < 1:
        raise InvalidParameterError(f"n_components must be at least 1, got {k}.")
    if k >= min(n, d):
        raise InvalidParameterError(
            f"n_components={k} is not below both n_samples = {n} and n_features = {d}: any table has such a"
            " factorization. Lower n_components."
        )
    return ComponentChoice(k)


def _shapes(factors: Factors) -> tuple[int, int, int, bool]:
    return len(factors.latent), len(factors.loadings), factors.rank, factors.bias is not None


def _report(cells: Cells, fitted: TaskFit, request: MatrixRequest, choice: ComponentChoice) -> MatrixReport:
    (n, d), seen, recovered = cells.shape, observed(cells), fitted.recovered
    return MatrixReport(
        method=method_name(request.method),
        gauge=request.gauge,
        n_rows=n,
        n_features=d,
        n_components=choice.n_components,
        iterations=recovered.iterations,
        residual=recovered.residual,
        converged=recovered.converged,
        share_floored=1.0 - float(fitted.core.row_positives.sum()) / max(seen, 1.0),
        share_missing=1.0 - seen / (n * d),
        weak_columns=tuple(np.flatnonzero(~fitted.conditions.column_identifiable).tolist()),
        weak_rows=int(np.count_nonzero(~fitted.conditions.row_identifiable)),
        noise=recovered.noise,
        component_errors=choice.errors,
    )


def warn_of(fit: MatrixFit, names: Sequence[str] | None) -> None:
    """Warn of what is not identified, not needed or not finished; ``names`` are the columns'."""
    report = fit.report
    if report.weak_columns:
        weak = label_columns(~fit.conditions.column_identifiable, names)
        warn(
            f"Not determined by their values above the floor: {weak}. What components_, bias_ and hidden() say of them"
            " is filled in. Lower n_components, add rows or leave them out.",
            WeakColumnsWarning,
        )
    if report.weak_rows:
        warn(
            f"{report.weak_rows:,} of {report.n_rows:,} rows have too few values above the floor to determine their"
            " latent vector: row_identifiable_ marks them, and latent_ holds a guess there.",
            WeakRowsWarning,
        )
    zero = int(np.count_nonzero(~effective_components(fit.factors)))
    if zero:
        warn(
            f"{zero} of {report.n_components} components are zero: the table needs no more than"
            f" {report.n_components - zero}. Lower n_components.",
            RankDeficientWarning,
        )
    if not report.converged:
        warn(
            f"Not converged after {report.iterations:,} iterations: relative residual {report.residual:.3g}. The best"
            " state is kept: raise max_iter, or go on from it with warm_start=True.",
            ConvergenceWarning,
        )


def lifted_cells(cells: Cells, factors: Factors) -> NDArray[np.int64]:
    """Cells at the floor that the factors put above it, as row x columns + column, rising."""
    d = cells.shape[1]

    def found(rows: slice) -> NDArray[np.int64]:
        fitted = replace(factors, latent=factors.latent[rows]).matrix()
        above = (cells.rows(rows.start, rows.stop) <= 0.0) & (fitted > 0.0)
        return np.asarray(np.flatnonzero(above) + rows.start * d, dtype=np.int64)

    lifted: NDArray[np.int64] = np.concatenate(map_in_threads(found, tiles(cells.shape)))
    return lifted
