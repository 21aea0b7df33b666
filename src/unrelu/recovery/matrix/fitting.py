"""Factors of one table, their number given: core, method, gauge, what the core leaves out, what is identified."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.engines.local import map_in_threads, one_blas_thread
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.contracts import MatrixMethod, Recovered, Task
from unrelu.recovery.matrix.factors import Factors, in_gauge
from unrelu.recovery.matrix.filling import Filling
from unrelu.recovery.matrix.identifiability import Conditions, Core, conditions, find_core

if TYPE_CHECKING:
    from unrelu.recovery.matrix.uncertainty import StandardErrors

_SMALL = 200_000  # cells: threads cost more than they give to products of such tables
_USUAL = 1e6  # largest values between this and its inverse need no change of units


@dataclass(frozen=True)
class TaskFit:
    """Factors of the whole table in their gauge, and how they came about."""

    factors: Factors
    latent_mean: FloatArray  # of the core's rows
    core: Core
    conditions: Conditions
    recovered: Recovered
    filling: Filling
    errors: StandardErrors | None

    def in_units(self, unit: float) -> TaskFit:
        """The same fit of a table ``unit`` times as large."""
        noise, errors = self.recovered.noise, self.errors
        recovered = replace(
            self.recovered,
            factors=self.recovered.factors.scaled(unit),
            noise=None if noise is None else noise * unit,
        )
        return replace(
            self,
            factors=self.factors.scaled(unit),
            recovered=recovered,
            filling=replace(self.filling, unit=unit),
            errors=None if errors is None else errors.scaled(unit),
        )


def fit_task(task: Task, method: MatrixMethod, gauge: str) -> TaskFit:
    """Fit the core, fill in the other rows and columns, choose the gauge, and say what is identified.

    All in units in which the largest value is neither huge nor tiny: squares are summed, some in single precision.
    """
    unit = usual_unit(task.cells)
    if unit == 1.0:
        return _recovered(task, method, gauge)
    watch = task.watched_through(lambda factors: factors.scaled(unit))
    start, fewer = task.changed(lambda factors: factors.scaled(1.0 / unit))
    scaled = replace(task, cells=task.cells.scaled(1.0 / unit), start=start, fewer=fewer, watch=watch, unit=unit)
    return _recovered(scaled, method, gauge).in_units(unit)


def _recovered(task: Task, method: MatrixMethod, gauge: str) -> TaskFit:
    with one_blas_thread():
        core = find_core(task.cells, task.n_components, task.free_bias)
    table = task.cells if core.is_everything else task.cells.part(core.rows, core.columns)
    with one_blas_thread() if math.prod(table.shape) < _SMALL else nullcontext():
        recovered = method.recover(_core_task(task, table, core))
    with one_blas_thread():
        return _completed(task.cells, recovered, core, gauge)


def _completed(cells: Cells, recovered: Recovered, core: Core, gauge: str) -> TaskFit:
    """The whole table from the factors of its core."""
    standard = recovered.factors.standard()
    filling = Filling.after(standard, recovered.noise, recovered.ridge)
    whole = _placed(standard, core)
    if not core.rows.all():
        whole.latent[~core.rows] = filling.latent_of(cells.part(~core.rows, core.columns), standard)
    found = conditions(cells, whole, core)
    guessed = ~(core.columns & found.column_identifiable)
    if guessed.any():
        whole = _refilled(cells, whole, guessed, found.row_identifiable, filling)
    placed = in_gauge(recovered.factors, "kept" if recovered.fixed_bias else gauge)
    mean: FloatArray = (placed.latent - standard.latent)[0]  # of the core's rows
    whole = whole.shifted(-mean)
    errors = _errors(cells, whole, recovered.noise)
    return TaskFit(whole, mean, core, found, recovered, filling, errors)


def _errors(cells: Cells, factors: Factors, noise: float | None) -> StandardErrors | None:
    if noise is None:
        return None
    from unrelu.recovery.matrix.uncertainty import standard_errors

    return standard_errors(cells, factors, noise)


def usual_unit(cells: Cells) -> float:
    """A power of two near the largest value, or 1 where that is of a usual size."""

    def largest(rows: slice) -> float:
        return float(np.nanmax(cells.rows(rows.start, rows.stop), initial=0.0))

    size = max(map_in_threads(largest, tiles(cells.shape)))
    return 1.0 if size == 0.0 or 1.0 / _USUAL < size < _USUAL else 2.0 ** round(math.log2(size))


def _core_task(task: Task, table: Cells, core: Core) -> Task:
    """The task of the core's table: given factors are cut to it, and whoever watches sees factors of the whole table,
    with zeros outside the core."""
    if core.is_everything:
        return task

    def cut(factors: Factors) -> Factors:
        bias = None if factors.bias is None else factors.bias[core.columns]
        return Factors(factors.latent[core.rows], factors.loadings[core.columns], bias)

    start, fewer = task.changed(cut)
    watch = task.watched_through(lambda factors: _placed(factors, core))
    return replace(task, cells=table, start=start, fewer=fewer, watch=watch)


def _placed(factors: Factors, core: Core) -> Factors:
    bias = None if factors.bias is None else _spread(factors.bias, core.columns)
    return Factors(_spread(factors.latent, core.rows), _spread(factors.loadings, core.columns), bias)


def _spread(values: FloatArray, where: BoolArray) -> FloatArray:
    full = np.zeros((len(where), *values.shape[1:]))
    full[where] = values
    return full


def _refilled(cells: Cells, factors: Factors, columns: BoolArray, known_rows: BoolArray, filling: Filling) -> Factors:
    """The same with the marked columns set anew from the latent vectors that are known, or from all if none is."""
    rows = known_rows if known_rows.any() else np.ones(len(known_rows), dtype=bool)
    extended = factors.extended.copy()
    extended[columns] = filling.columns_of(cells.part(rows, columns), replace(factors, latent=factors.latent[rows]))
    return factors.with_extended(extended)
