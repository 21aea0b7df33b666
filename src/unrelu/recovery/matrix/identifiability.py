"""What the positive cells determine: a column's (a_j, b_j) given C, a row's c_i given A; and with which errors.

X tells T exactly only where it is positive. So column j is determined if [C 1], restricted to the rows where X_ij > 0,
has full and well-conditioned rank, which takes at least k + 1 such rows; row i likewise with A and k columns. Rows and
columns with no more positive cells than unknowns cannot help to determine anything else either: the factors are fitted
on the others, the core, and these are filled in at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.floor_cells import packed_products, unpacked
from unrelu.recovery.matrix.cells import Cells, tile_by_tile
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.newton import Tobit

WORST_CONDITION = 1e4  # beyond it a column amplifies errors so much that its values are a guess

_NOTHING = 1e-11  # of the largest component's size: below it a component is rounding
_SINGULAR = 1e-12  # of the largest eigenvalue of an information matrix


@dataclass(frozen=True)
class Core:
    """Rows and columns that determine each other, and the positive cells per row and column of the whole table."""

    rows: BoolArray
    columns: BoolArray
    row_positives: FloatArray
    column_positives: FloatArray

    @property
    def is_everything(self) -> bool:
        return bool(self.rows.all() and self.columns.all())


@dataclass(frozen=True)
class Conditions:
    """Per column (row), the condition number of its equations over the positive cells; inf where rank is missing."""

    columns: FloatArray
    rows: FloatArray

    @property
    def column_identifiable(self) -> BoolArray:
        return self.columns <= WORST_CONDITION

    @property
    def row_identifiable(self) -> BoolArray:
        return self.rows <= WORST_CONDITION


@dataclass(frozen=True)
class StandardErrors:
    """Of C (n x k), A (d x k) and b; infinite where the cells carry no information."""

    latent: FloatArray
    loadings: FloatArray
    bias: FloatArray | None


def find_core(cells: Cells, n_components: int, free_bias: bool) -> Core:
    """Peel off rows with at most k and columns with at most k + 1 positive cells among the others, until none is left.

    Of parts of the rest that no positive cell links, only the one with the fullest column is kept: their latent spaces
    have nothing to do with each other.

    >>> from unrelu.recovery.matrix.cells import DenseCells
    >>> X = np.ones((5, 4)); X[0, 1:] = 0.0; X[1:, 3] = 0.0
    >>> core = find_core(DenseCells(X), 1, free_bias=True)
    >>> core.rows, core.columns
    (array([False,  True,  True,  True,  True]), array([ True,  True,  True, False]))
    """
    n, d = cells.shape
    rows, columns = np.ones(n, dtype=bool), np.ones(d, dtype=bool)
    first = row_count, column_count = _positives(cells, rows, columns)
    while True:
        kept_rows = rows & (row_count > n_components)
        kept_columns = columns & (column_count > n_components + int(free_bias))
        if (kept_rows == rows).all() and (kept_columns == columns).all():
            break
        rows, columns = kept_rows, kept_columns
        row_count, column_count = _positives(cells, rows, columns)
    linked = np.zeros(d, dtype=bool)
    linked[int(np.argmax(np.where(columns, column_count, -1.0)))] = True
    linked &= columns
    while True:  # further rows and columns that positive cells link to the fullest one
        linked_rows = rows & (_positives(cells, rows, linked)[0] > 0.0)
        further = columns & (_positives(cells, linked_rows, columns)[1] > 0.0)
        if (further == linked).all():
            break
        linked = further
    if min(linked_rows.sum(), linked.sum()) <= n_components:
        raise InvalidDataError(
            f"Too few values above the floor for n_components={n_components}: after leaving out rows with at most"
            f" {n_components} of them and columns with at most {n_components + int(free_bias)},"
            f" {linked_rows.sum():,} rows and {linked.sum():,} columns are left, and more than {n_components} of each"
            " are needed. Lower n_components or add rows."
        )
    return Core(linked_rows, linked, *first)


def _positives(cells: Cells, rows: BoolArray, columns: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Positive cells per row among the marked columns, and per column among the marked rows."""

    def at(values: FloatArray, part: slice) -> tuple[FloatArray, FloatArray]:
        positive = (values > 0.0).astype(np.float64)
        return positive @ columns.astype(np.float64), rows[part].astype(np.float64) @ positive

    by_row, by_column = zip(*tile_by_tile(cells, at), strict=True)
    return np.concatenate(by_row), np.add.reduce(by_column)


def conditions(cells: Cells, factors: Factors, core: Core | None = None) -> Conditions:
    """Condition numbers of every column's and row's equations, with C and A scaled to unit sizes.

    Only what is itself determined counts: for rows the columns of the core, for columns the rows that those determine.
    Components that are zero, where there are more than T needs, are left out.
    """
    used = effective_components(factors)
    latent, loadings = _unit_size(factors.latent[:, used]), _unit_size(factors.loadings[:, used])
    if core is not None:
        loadings = np.where(core.columns[:, None], loadings, 0.0)
    products, width = packed_products(loadings), int(used.sum())
    by_tile = tile_by_tile(cells, lambda values, _: _condition((values > 0.0).astype(np.float64) @ products, width))
    rows = np.concatenate(by_tile)
    known = (rows <= WORST_CONDITION).astype(np.float64)

    def column_gram(values: FloatArray, part: slice) -> FloatArray:
        extended = factors.extend(latent[part]) * known[part, None]
        gram: FloatArray = (values > 0.0).astype(np.float64).T @ packed_products(extended)
        return gram

    gram = np.add.reduce(tile_by_tile(cells, column_gram))
    return Conditions(_condition(gram, width + int(factors.bias is not None)), rows)


def effective_components(factors: Factors) -> BoolArray:
    """Components of factors in standard form that are more than rounding."""
    size = (factors.loadings**2).sum(axis=0)
    effective: BoolArray = size > _NOTHING**2 * size.max(initial=0.0)
    return effective


def _unit_size(vectors: FloatArray) -> FloatArray:
    scale = np.sqrt((vectors**2).mean(axis=0))
    return vectors / np.where(scale > 0.0, scale, 1.0)


def _condition(packed: FloatArray, width: int) -> FloatArray:
    """Square root of the ratio of the extreme eigenvalues of each packed Gram."""
    if width == 0:
        return np.ones(len(packed))
    eigenvalues = np.linalg.eigvalsh(unpacked(packed, width))
    smallest, largest = eigenvalues[:, 0], eigenvalues[:, -1]
    resolved = smallest > 1e-14 * largest
    ratio = np.full(len(packed), np.inf)
    ratio[resolved] = np.sqrt(largest[resolved] / smallest[resolved])
    return ratio


def standard_errors(cells: Cells, factors: Factors, noise: float) -> StandardErrors:
    """At factors that maximize the likelihood under normal noise inside the rectifier, from its curvature.

    A column's information is sum_i w_ij c_i c_i' / sigma^2, if C were known, with w_ij the weight of the cell: 1 where
    X > 0, lambda (lambda - t/sigma) at the floor. As row i's own equations, with G_i = sum_j w_ij a_j a_j', have used a
    share w_ij a_j' G_i^-1 a_j of that cell, so much of it is lost: w_ij (1 - w_ij a_j' G_i^-1 a_j) remains. Rows
    likewise. The errors are those of a_j and b_j relative to the latent axes as the other columns fix them: a common
    rotation is no error.
    """
    k, extended = factors.rank, factors.extended
    width = extended.shape[1]
    loading_products = packed_products(factors.loadings)

    def weights(values: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        own = factors.extend(factors.latent[rows])
        fitted = own @ extended.T
        weight = np.empty(fitted.shape)
        Tobit(noise).cells(values, fitted, weight, np.zeros(len(values)), np.zeros(values.shape[1]))
        return weight, packed_products(own)

    def column_gram(values: FloatArray, rows: slice) -> FloatArray:
        weight, products = weights(values, rows)
        gram: FloatArray = weight.T @ products
        return gram

    column_inverse = _quadratic_inverse(np.add.reduce(tile_by_tile(cells, column_gram)), width)

    def remaining(values: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        weight, products = weights(values, rows)
        used_by_rows = weight * (_quadratic_inverse(weight @ loading_products, k) @ loading_products.T)
        used_by_columns = weight * (products @ column_inverse.T)
        column_part: FloatArray = (weight * np.clip(1.0 - used_by_rows, 0.0, 1.0)).T @ products
        row_part: FloatArray = (weight * np.clip(1.0 - used_by_columns, 0.0, 1.0)) @ loading_products
        return column_part, _deviations(row_part, k, noise)

    column_parts, latent = zip(*tile_by_tile(cells, remaining), strict=True)
    columns = _deviations(np.add.reduce(column_parts), width, noise)
    return StandardErrors(np.concatenate(latent), columns[:, :k], None if factors.bias is None else columns[:, k])


def _quadratic_inverse(packed: FloatArray, width: int) -> FloatArray:
    """Packed inverses, off-diagonal entries twice, so that a product with v v' packed is the quadratic form in v.

    Of a singular matrix, the inverse on what it resolves.
    """
    inverse = np.linalg.pinv(unpacked(packed, width), rcond=_SINGULAR, hermitian=True)
    first, second = np.triu_indices(width)
    doubled: FloatArray = inverse[:, first, second] * np.where(first == second, 1.0, 2.0)
    return doubled


def _deviations(packed: FloatArray, width: int, noise: float) -> FloatArray:
    """Square roots of the diagonals of sigma^2 times the inverses; inf where a matrix is singular."""
    eigenvalues, vectors = np.linalg.eigh(unpacked(packed, width))
    resolved = eigenvalues[:, :1] > _SINGULAR * eigenvalues[:, -1:]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        variance = noise * noise * ((vectors**2) / eigenvalues[:, None, :]).sum(axis=2)
    deviation: FloatArray = np.sqrt(np.where(resolved, variance, np.inf))
    return deviation
