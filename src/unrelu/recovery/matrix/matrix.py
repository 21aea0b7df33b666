"""From a table to factors, on one screen: the core, a method, a gauge, what the core leaves out, what is identified."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.engines.local import one_blas_thread
from unrelu.recovery.matrix.cells import Cells, observed
from unrelu.recovery.matrix.contracts import MatrixMethod, MatrixReport, Recovered, Task
from unrelu.recovery.matrix.descent import table_norm
from unrelu.recovery.matrix.factors import Factors, in_gauge
from unrelu.recovery.matrix.filling import Filling
from unrelu.recovery.matrix.identifiability import Conditions, Core, conditions, find_core
from unrelu.recovery.matrix.rank import RankChoice
from unrelu.recovery.matrix.uncertainty import StandardErrors, standard_errors

_USUAL = 1e6  # root mean squares between this and its inverse need no change of units


@dataclass(frozen=True)
class MatrixFit:
    """Factors of the whole table in their gauge, and how they came about."""

    factors: Factors
    latent_mean: FloatArray  # of the core's rows
    core: Core
    conditions: Conditions
    recovered: Recovered
    filling: Filling
    errors: StandardErrors | None

    def report(self, cells: Cells, method: str, gauge: str, choice: RankChoice) -> MatrixReport:
        (n, d), seen = cells.shape, observed(cells)
        return MatrixReport(
            method=method,
            gauge=gauge,
            n_rows=n,
            n_features=d,
            rank=self.factors.rank,
            iterations=self.recovered.iterations,
            residual=self.recovered.residual,
            converged=self.recovered.converged,
            share_floored=1.0 - float(self.core.row_positives.sum()) / max(seen, 1.0),
            share_missing=1.0 - seen / (n * d),
            weak_columns=tuple(np.flatnonzero(~self.conditions.column_identifiable).tolist()),
            weak_rows=int(np.count_nonzero(~self.conditions.row_identifiable)),
            noise=self.recovered.noise,
            rank_errors=choice.errors,
        )


def recover_matrix(task: Task, method: MatrixMethod, gauge: str) -> MatrixFit:
    """Fit the core, put it into its gauge, fill in the other rows and columns, and say what is identified."""
    with one_blas_thread():
        core = find_core(task.cells, task.rank, task.free_bias)
    table = task.cells if core.is_everything else task.cells.part(core.rows, core.columns)
    recovered = _in_usual_units(_core_task(task, table, core), method)
    with one_blas_thread():
        return _completed(task.cells, recovered, core, gauge)


def _completed(cells: Cells, recovered: Recovered, core: Core, gauge: str) -> MatrixFit:
    """The whole table from the factors of its core."""
    standard = recovered.factors.standard()
    filling = Filling.after(standard, recovered.noise, recovered.ridge)
    whole = _whole(cells, standard, core, filling)
    found = conditions(cells, whole)
    weak = core.columns & ~found.column_identifiable
    if weak.any():
        whole = _refilled(cells, whole, weak, filling)
    errors = None if recovered.noise is None else standard_errors(cells, whole, recovered.noise)
    shift = _shift_to(recovered, standard, gauge)
    return MatrixFit(whole.shifted(shift), -shift, core, found, recovered, filling, errors)


def _shift_to(recovered: Recovered, standard: Factors, gauge: str) -> FloatArray:
    """v that takes centred factors to the gauge."""
    placed = in_gauge(recovered.factors, "kept" if recovered.fixed_bias else gauge)
    shift: FloatArray = (standard.latent - placed.latent)[0]
    return shift


def _in_usual_units(task: Task, method: MatrixMethod) -> Recovered:
    """Recover in units in which the table's values are neither huge nor tiny, as some sums are in single precision."""
    size = table_norm(task.cells) / math.sqrt(observed(task.cells))
    if 1.0 / _USUAL < size < _USUAL:
        return method.recover(task)
    unit = 2.0 ** round(math.log2(size))
    start = None if task.start is None else task.start.scaled(1.0 / unit)

    def watch(iteration: int, residual: float, factors: Factors) -> None:
        task.watch(iteration, residual, factors.scaled(unit))

    found = method.recover(replace(task, cells=task.cells.scaled(1.0 / unit), start=start, watch=watch))
    noise = None if found.noise is None else found.noise * unit
    return replace(found, factors=found.factors.scaled(unit), noise=noise, ridge=found.ridge * unit)


def _core_task(task: Task, table: Cells, core: Core) -> Task:
    """The task of the core's table: a start is cut to it, and whoever watches sees factors of the whole table, with
    zeros outside the core."""
    if core.is_everything:
        return task
    start = task.start
    if start is not None:
        bias = None if start.bias is None else start.bias[core.columns]
        start = Factors(start.latent[core.rows], start.loadings[core.columns], bias)

    def watch(iteration: int, residual: float, factors: Factors) -> None:
        task.watch(iteration, residual, _placed(factors, core))

    return replace(task, cells=table, start=start, watch=watch)


def _placed(factors: Factors, core: Core) -> Factors:
    bias = None if factors.bias is None else _spread(factors.bias, core.columns)
    return Factors(_spread(factors.latent, core.rows), _spread(factors.loadings, core.columns), bias)


def _whole(cells: Cells, factors: Factors, core: Core, filling: Filling) -> Factors:
    """Factors of the whole table from those of its core."""
    if core.is_everything:
        return factors
    whole = _placed(factors, core)
    if not core.rows.all():
        whole.latent[~core.rows] = filling.latent_of(cells.part(~core.rows, core.columns), factors)
    return whole if core.columns.all() else _refilled(cells, whole, ~core.columns, filling)


def _spread(values: FloatArray, where: BoolArray) -> FloatArray:
    full = np.zeros((len(where), *values.shape[1:]))
    full[where] = values
    return full


def _refilled(cells: Cells, factors: Factors, columns: BoolArray, filling: Filling) -> Factors:
    """The same with the marked columns set anew from the latent vectors."""
    every_row = np.ones(len(factors.latent), dtype=bool)
    extended = factors.extended.copy()
    extended[columns] = filling.columns_of(cells.part(every_row, columns), factors)
    return factors.with_extended(extended)
