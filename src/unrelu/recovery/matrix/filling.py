"""One side given the other: latent vectors of rows under known columns, and columns under known latent vectors.

Both are convex. Where the fit had noise, its penalty ridge/2 (|C|^2 + |A|^2), for C'C = A'A, holds here as well: with C
of unit variance, component m of a row pays ridge |A_m|/sqrt(n), that of a column ridge sqrt(n)/|A_m|. Without noise a
faint penalty settles what the cells leave open, and is then taken off: what they do determine they determine exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.engines.local import one_blas_thread
from unrelu.errors import InvalidDataError
from unrelu.recovery.matrix.cells import Cells, DenseCells
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.losses import LeastSquares, Loss, Tobit
from unrelu.recovery.matrix.newton import Descent

_FAINT = 1e-10  # of the curvature


@dataclass(frozen=True)
class Filling:
    """The noise of a fit (None: least squares), and what a row's and a column's components cost, in standard form."""

    noise: float | None
    row_ridge: FloatArray
    column_ridge: FloatArray
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
            cells, start = cells.scaled(1.0 / self.unit), start.scaled(1.0 / self.unit)
        return self._settled(cells, start, self.row_ridge)

    def columns_of(self, cells: Cells, factors: Factors) -> FloatArray:
        """[a_j b_j] for every column of a table, given C: they are the rows of the transposed table."""
        n, d = cells.shape
        transposed = DenseCells(np.ascontiguousarray(cells.rows(0, n).T))
        extended = factors.extend(factors.latent)
        return self._settled(transposed, Factors(np.zeros((d, extended.shape[1])), extended, None), self.column_ridge)

    def _settled(self, cells: Cells, start: Factors, ridge: FloatArray) -> FloatArray:
        loss: Loss = LeastSquares(np.zeros(cells.shape[1])) if self.noise is None else Tobit(self.noise)
        with one_blas_thread():
            settled = Descent(cells, loss, row_ridge=ridge).settle_rows(start)
            if self.exact:
                settled = Descent(cells, loss).settle_rows(settled)
            return settled.latent
