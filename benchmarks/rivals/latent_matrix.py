"""X = ReLU(Theta) with a latent Z beside Theta: the parts that A-NMD, 3B-NMD and eBCD share.

They minimise |Z - Theta| over Theta of rank r and Z that agrees with X: Z = X where X > 0, Z <= 0 where X = 0, and
anything where nothing was observed. Given Theta, the best Z is a projection, cell by cell,

    P(Theta) = X where X > 0,   min(0, Theta) where X = 0,   Theta where X is missing,

and |P(Theta) - Theta| / |X| is the relative residual of a `Task`. The model has no bias: for a model with one, the
fit has rank k + 1 and the bias is read off afterwards (`read_off`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.rivals.latent_cells import gap_cells, projected_cells
from unrelu.contracts import FloatArray, no_progress
from unrelu.recovery.matrix.descent import Iterate, Recovered, Task
from unrelu.recovery.matrix.factors import Cells, Factors

_OVERSAMPLED = 10  # directions beyond the rank, and steps, of the subspace iteration that starts a fit
_STEPS = 2
_WINDOW = 10  # iterations over which a fit has to get better


@dataclass(frozen=True)
class LatentMatrix:
    """The table, dense, NaN where missing, and its norm.

    >>> from unrelu.recovery.matrix.factors import Cells
    >>> table = LatentMatrix.of(Cells(np.array([[3.0, 0.0, 0.0, np.nan]])))
    >>> table.project(np.array([[1.0, 2.0, -4.0, 5.0]]))
    array([[ 3.,  0., -4.,  5.]])
    """

    values: FloatArray
    norm: float

    @classmethod
    def of(cls, cells: Cells) -> LatentMatrix:
        values = np.ascontiguousarray(cells.rows(0, cells.shape[0]), dtype=np.float64)
        norm = float(np.linalg.norm(values))
        if np.isnan(norm):
            norm = float(np.linalg.norm(np.nan_to_num(values)))
        return cls(values, norm or 1.0)

    def residual(self, theta: FloatArray, out: FloatArray) -> float:
        """|P(Theta) - Theta| / |X|; ``out`` holds the difference afterwards."""
        gap_cells(self.values, theta, out)
        return float(np.linalg.norm(out)) / self.norm

    def project(self, theta: FloatArray) -> FloatArray:
        """P(Theta)."""
        out = np.empty_like(theta)
        projected_cells(self.values, theta, 0.0, theta, out)
        return out

    def start(self, task: Task) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Z, W, H: the projection of the factors to go on from, or X itself, and about its best fit of the rank."""
        latent = self._filled() if task.start is None else self.project(task.start.matrix())
        left, right = low_rank_fit(latent, task.n_components + (1 if task.free_bias else 0))
        return latent, left, right

    def _filled(self) -> FloatArray:
        """X with the mean of a column's observed cells where one is missing."""
        missing = np.isnan(self.values)
        if not missing.any():
            return self.values.copy()
        filled = np.where(missing, 0.0, self.values)
        means = filled.sum(axis=0) / np.maximum(len(filled) - missing.sum(axis=0), 1)
        return np.where(missing, means, filled)


def low_rank_fit(matrix: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """W (orthonormal columns) and H with W H about the best fit of a rank: subspace iteration, then Rayleigh-Ritz.

    It starts from directions drawn with a fixed seed, so that the same table has the same start.
    """
    rows = np.random.default_rng(0).standard_normal((rank + _OVERSAMPLED, matrix.shape[1]))
    for _ in range(_STEPS):
        left = orthonormal(matrix @ rows.T)
        rows = left.T @ matrix
    u, singular, vt = np.linalg.svd(rows, full_matrices=False)
    return left @ u[:, :rank], singular[:rank, None] * vt[:rank]


def orthonormal(matrix: FloatArray) -> FloatArray:
    """An orthonormal basis of the span of a matrix's columns."""
    basis: FloatArray = np.linalg.qr(matrix)[0]
    return basis


class Course:
    """The course of a fit: it keeps the best iterate, calls the task's progress callback, and decides when to stop.

    A fit is over when its residual is within the task's tolerance, that of the factors with the bias read off
    included, or when ten iterations changed the residual by no more than a tenth of the tolerance (the authors' rule).
    """

    def __init__(self, task: Task, table: LatentMatrix, left: FloatArray, right: FloatArray, residual: float) -> None:
        self._task, self._table = task, table
        self._best = Factors(left, right.T, None)
        self._residuals = [residual]
        self._lowest = residual
        self._converged = self._within_tolerance(self._best, residual)

    @property
    def goes_on(self) -> bool:
        return not self._converged and len(self._residuals) <= self._task.max_iterations

    def add(self, left: FloatArray, right: FloatArray, residual: float) -> None:
        """The factors W, H after one more iteration and their relative residual."""
        factors = Factors(left, right.T, None)
        if self._task.progress is not no_progress:
            finished = self._finished(factors)
            shown = self._residual(finished) if self._task.free_bias else residual
            self._task.progress(Iterate(len(self._residuals), shown, finished).step())
        self._residuals.append(residual)
        reached = self._within_tolerance(factors, residual)
        if reached or residual < self._lowest:
            self._best, self._lowest = factors, residual
        self._converged = reached or self._stands_still()

    def recovered(self) -> Recovered:
        factors = self._finished(self._best)
        residual = self._residual(factors)
        return Recovered(factors, len(self._residuals) - 1, residual, self._converged)

    def _stands_still(self) -> bool:
        if len(self._residuals) <= _WINDOW:
            return False
        return abs(self._residuals[-1] - self._residuals[-1 - _WINDOW]) <= 0.1 * self._task.tolerance

    def _within_tolerance(self, factors: Factors, residual: float) -> bool:
        if residual > self._task.tolerance:
            return False
        return not self._task.free_bias or self._residual(self._finished(factors)) <= self._task.tolerance

    def _residual(self, factors: Factors) -> float:
        return self._table.residual(factors.matrix(), np.empty_like(self._table.values))

    def _finished(self, factors: Factors) -> Factors:
        if self._task.free_bias:
            return read_off(factors, self._task.n_components)
        return Factors(factors.latent, np.ascontiguousarray(factors.loadings), None)


def read_off(factors: Factors, rank: int) -> Factors:
    """Theta = C A' + 1 b' with C centred: b is the mean of Theta's columns, C A' the rest, cut to a rank.

    Nothing is lost where Theta has that form exactly.

    >>> one = Factors(np.array([[1.0, 1.0], [3.0, 1.0]]), np.array([[2.0, 5.0]]), None)
    >>> read_off(one, 1).bias
    array([9.])
    """
    centred = Factors(factors.latent, factors.loadings, np.zeros(len(factors.loadings))).balance()
    return Factors(centred.latent[:, :rank], centred.loadings[:, :rank], centred.bias)
