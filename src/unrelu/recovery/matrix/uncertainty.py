"""Standard errors under normal noise inside the rectifier, from the curvature of the likelihood.

A column's information is sum_i w_ij c_i c_i' / sigma^2, if C were known, with w_ij the weight of the cell: 1 where
X > 0, lambda (lambda - t/sigma) at the floor. As row i's own equations, with G_i = sum_j w_ij a_j a_j', have used a
share w_ij a_j' G_i^-1 a_j of that cell, so much of it is lost: w_ij (1 - w_ij a_j' G_i^-1 a_j) remains. Rows likewise.
The errors are those of a_j and b_j relative to the latent axes as the other columns fix them: a common rotation is no
error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.engines.local import map_in_threads
from unrelu.kernels.floor_cells import packed_products, unpacked
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.losses import Tobit


@dataclass(frozen=True)
class StandardErrors:
    """Of C (n x k), A (d x k) and b; infinite where the cells carry no information."""

    latent: FloatArray
    loadings: FloatArray
    bias: FloatArray | None

    def scaled(self, unit: float) -> StandardErrors:
        """For a table ``unit`` times as large."""
        return StandardErrors(self.latent, self.loadings * unit, None if self.bias is None else self.bias * unit)


def standard_errors(cells: Cells, factors: Factors, noise: float) -> StandardErrors:
    """At factors that maximize the likelihood."""
    k, extended = factors.rank, factors.extended
    width = extended.shape[1]
    loading_products = packed_products(factors.loadings)
    parts = tiles(cells.shape)

    def weights(rows: slice) -> FloatArray:
        values = cells.rows(rows.start, rows.stop)
        fitted = factors.extend(factors.latent[rows]) @ extended.T
        weight = np.empty(fitted.shape)
        Tobit(noise).cells(values, fitted, weight, np.zeros(len(values)), np.zeros(values.shape[1]))
        return weight

    def column_gram(rows: slice) -> FloatArray:
        gram: FloatArray = weights(rows).T @ packed_products(factors.extend(factors.latent[rows]))
        return gram

    column_inverse = _inverse(np.add.reduce(map_in_threads(column_gram, parts)), width)

    def remaining(rows: slice) -> tuple[FloatArray, FloatArray]:
        weight = weights(rows)
        products = packed_products(factors.extend(factors.latent[rows]))
        row_inverse = _inverse(weight @ loading_products, k)
        used_by_rows = weight * (_doubled(row_inverse, k) @ loading_products.T)
        used_by_columns = weight * (products @ _doubled(column_inverse, width).T)
        column_part: FloatArray = (weight * np.clip(1.0 - used_by_rows, 0.0, 1.0)).T @ products
        row_part: FloatArray = (weight * np.clip(1.0 - used_by_columns, 0.0, 1.0)) @ loading_products
        return column_part, _deviations(row_part, k, noise)

    results = map_in_threads(remaining, parts)
    columns = _deviations(np.add.reduce([result[0] for result in results]), width, noise)
    latent = np.concatenate([result[1] for result in results])
    return StandardErrors(latent, columns[:, :k], None if factors.bias is None else columns[:, k])


def _inverse(packed: FloatArray, width: int) -> FloatArray:
    """Packed inverses; of a singular matrix, the inverse on what it resolves."""
    inverse = np.asarray(np.linalg.pinv(unpacked(packed, width), rcond=1e-12, hermitian=True), dtype=np.float64)
    first, second = np.triu_indices(width)
    chosen: FloatArray = inverse[:, first, second]
    return chosen


def _doubled(packed: FloatArray, width: int) -> FloatArray:
    """With off-diagonal entries twice, so that a product with v v' packed is the quadratic form in v."""
    first, second = np.triu_indices(width)
    return packed * np.where(first == second, 1.0, 2.0)


def _deviations(packed: FloatArray, width: int, noise: float) -> FloatArray:
    """Square roots of the diagonals of sigma^2 times the inverses; inf where a matrix is singular."""
    full = unpacked(packed, width)
    eigenvalues, vectors = np.linalg.eigh(full)
    resolved = eigenvalues[:, :1] > 1e-12 * eigenvalues[:, -1:]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        variance = noise * noise * ((vectors**2) / eigenvalues[:, None, :]).sum(axis=2)
    deviation: FloatArray = np.sqrt(np.where(resolved, variance, np.inf))
    return deviation
