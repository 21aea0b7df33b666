"""The number of components: the smallest whose error on cells it has not seen is as good as the best one's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Step, Watch
from unrelu.engines.local import map_in_threads
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.recovery.matrix.cells import Cells, DenseCells, tiles
from unrelu.recovery.matrix.contracts import CHOOSING, ComponentChoice, Task
from unrelu.recovery.matrix.factors import Factors
from unrelu.statistics.subsample import row_keys

_SHARE = 0.1
_PATIENCE = 3  # numbers beyond the best one that must be worse before the search ends
_EXACT = 1e-12  # of the squares of the cells: such an error is rounding
_MOST_ITERATIONS = 60  # a number is judged long before the last digits
_ENOUGH = 3e-5  # share of the objective: an iteration that gains less moves no held-out error that matters
_TOLD = 4  # errors that one line tells of


@dataclass(frozen=True)
class HeldOut:
    """Another table with a share of its observed cells hidden, chosen by a hash of their positions and the seed."""

    table: Cells
    share: float
    seed: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.shape

    def rows(self, start: int, stop: int) -> FloatArray:
        return np.where(self.hidden(start, stop), np.nan, self.table.rows(start, stop))

    def hidden(self, start: int, stop: int) -> BoolArray:
        """Which cells of rows ``start`` to ``stop`` are hidden."""
        width = self.shape[1]
        keys = row_keys(self.seed, np.arange(start * width, stop * width)).reshape(stop - start, width)
        chosen: BoolArray = keys < np.uint64(self.share * float(2**63)) * np.uint64(2)
        return chosen

    def part(self, rows: BoolArray, columns: BoolArray) -> DenseCells:
        return DenseCells(self.rows(0, self.shape[0])[np.ix_(rows, columns)])

    def scaled(self, factor: float) -> HeldOut:
        return HeldOut(self.table.scaled(factor), self.share, self.seed)


def choose_components(task: Task, fit: Callable[[Task], Factors], seed: int) -> ComponentChoice:
    """Fit 1, 2, ... components to 90 % of the cells; each row's squared errors on the rest say which numbers differ.

    The best number has the lowest error; the smallest whose rows are worse by at most one standard error of that
    difference is chosen, so that noise does not buy components. ``task.watch`` hears of every number tried.
    """
    n, d = task.cells.shape
    if min(n, d) < 2:
        raise InvalidParameterError(
            f"No n_components is below both n_samples = {n} and n_features = {d}: at least two rows and two columns are"
            " needed."
        )
    table = HeldOut(task.cells, _SHARE, seed)
    shown: Cells = DenseCells(table.rows(0, n)) if isinstance(task.cells, DenseCells) else table
    trial = replace(task, cells=shown, max_iterations=_MOST_ITERATIONS, start=None, enough=_ENOUGH)
    losses: list[FloatArray] = []
    errors: list[tuple[int, float]] = []
    tried: list[Factors] = []
    norm = _held_out_squares(table)
    for number in range(1, max(1, min(n, d) // 2) + 1):
        try:
            factors = fit(replace(trial, n_components=number, watch=_told(task, number)))
        except InvalidDataError:
            break
        trial = replace(trial, fewer=factors)  # where the next number begins
        tried.append(factors)
        losses.append(_row_losses(table, factors))
        errors.append((number, float(np.sqrt(losses[-1].sum() / norm))))
        task.watch(_step(errors))
        best = int(np.argmin([loss.sum() for loss in losses]))
        if losses[-1].sum() <= _EXACT * norm or number - (best + 1) >= _PATIENCE:
            break
    if not losses:
        raise InvalidDataError("No component can be fitted: too few values above the floor.")
    number = _smallest_as_good(losses, norm)
    fewer = tried[number - 2].scaled(task.unit) if number > 1 else None
    return ComponentChoice(number, tuple(errors), fewer)


def _told(task: Task, number: int) -> Watch:
    """Iterations on the way to a choice are no state to go on from."""
    return lambda step: task.watch(Step(CHOOSING, number, words=f"{number} components, {step.words}"))


def _step(errors: list[tuple[int, float]]) -> Step:
    words = ", ".join(f"{number}: {error:.2g}" for number, error in errors[-_TOLD:])
    return Step(CHOOSING, errors[-1][0], words=f"held-out error by number {words}", state=errors[-1])


def _smallest_as_good(losses: list[FloatArray], norm: float) -> int:
    totals = np.array([loss.sum() for loss in losses])
    best = int(np.argmin(totals))
    for index, loss in enumerate(losses):
        difference = loss - losses[best]
        error = float(difference.std(ddof=1)) * np.sqrt(len(difference)) if len(difference) > 1 else 0.0
        if difference.sum() <= max(error, _EXACT * norm):
            return index + 1
    return best + 1


def _held_out_squares(table: HeldOut) -> float:
    def at(rows: slice) -> float:
        values = table.table.rows(rows.start, rows.stop)
        return float(np.nansum(np.where(table.hidden(rows.start, rows.stop), values * values, 0.0)))

    return sum(map_in_threads(at, tiles(table.shape))) or 1.0


def _row_losses(table: HeldOut, factors: Factors) -> FloatArray:
    """Per row, the squared errors of ReLU(T) over its held-out cells."""

    def at(rows: slice) -> FloatArray:
        values = table.table.rows(rows.start, rows.stop)
        fitted = factors.extend(factors.latent[rows]) @ factors.extended.T
        misses = np.where(table.hidden(rows.start, rows.stop), values - np.maximum(fitted, 0.0), 0.0)
        squares: FloatArray = np.nansum(misses**2, axis=1)
        return squares

    return np.concatenate(map_in_threads(at, tiles(table.shape)))
