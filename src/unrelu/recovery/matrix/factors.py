"""T = C A' + 1 b': the table, the factors, where they begin and what determines them.

X equals T only where it is positive. So column j is determined if [C 1], restricted to the rows where X_ij > 0,
has full and well-conditioned rank, which takes at least k + 1 such rows; row i likewise with A and k columns. Rows and
columns with no more positive cells than unknowns cannot help to determine anything else either: the factors are fitted
on the others, the core, and these are filled in at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.passes import LARGEST, map_in_threads, row_keys
from unrelu.recovery.matrix.floor_cells import packed_products, tobit_cells, unpacked

GAUGES = ("centered", "orthogonal", "bayes", "zero")
WORST_CONDITION = 1e4  # beyond it a column amplifies errors so much that its values are a guess

U = TypeVar("U")
_LEAST_CELLS, _MOST_CELLS = 1 << 14, 1 << 18  # per tile: worth a call, and small enough for a core's cache
_FEWEST_TILES = 4
_OVERSAMPLING, _PASSES = 8, 4  # of subspace iteration
_NOTHING = 1e-11  # of the largest component's size: below it a component is rounding
_SINGULAR = 1e-12  # of the largest eigenvalue of an information matrix


# --- the table --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """Values above the floor as their height over it, 0 at the floor, NaN where nothing was observed.

    ``values`` is an array, or a scipy matrix in CSR form: what that does not store is at the floor. With ``held_out``,
    a share and a seed, that share of the cells, chosen by a hash of their positions, counts as not observed.
    """

    values: Any
    held_out: tuple[float, int] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def rows(self, start: int, stop: int) -> FloatArray:
        """Rows ``start`` to ``stop`` as a dense array, which the caller does not write to."""
        part = self.values[start:stop]
        dense: FloatArray = part.toarray() if hasattr(part, "toarray") else part
        return dense if self.held_out is None else np.where(self.hidden(start, stop), np.nan, dense)

    def hidden(self, start: int, stop: int) -> BoolArray:
        """Which cells of rows ``start`` to ``stop`` are held out."""
        share, seed = (0.0, 0) if self.held_out is None else self.held_out
        width = self.shape[1]
        keys = row_keys(seed, np.arange(start * width, stop * width)).reshape(stop - start, width)
        return keys < np.uint64(share * float(2**63)) * np.uint64(2)

    def part(self, rows: BoolArray, columns: BoolArray) -> Cells:
        """The table of the rows and columns marked True."""
        if hasattr(self.values, "toarray") and self.held_out is None:
            return Cells(self.values[np.flatnonzero(rows)][:, np.flatnonzero(columns)])
        return Cells(self.rows(0, self.shape[0])[np.ix_(rows, columns)])

    def rescale(self, factor: float) -> Cells:
        """The table with every value multiplied by ``factor``."""
        return replace(self, values=self.values * factor)


def tiles(shape: tuple[int, int]) -> list[slice]:
    """Row ranges, which depend on the table's shape alone: a few even for a small table, so that cores share them."""
    n_rows, n_columns = shape
    cells = min(max(n_rows * n_columns // _FEWEST_TILES, _LEAST_CELLS), _MOST_CELLS)
    height = max(1, cells // max(n_columns, 1))
    count = -(-n_rows // height)
    height = -(-n_rows // max(count, 1))
    return [slice(start, min(start + height, n_rows)) for start in range(0, n_rows, height)]


def tile_by_tile(cells: Cells, work: Callable[[FloatArray, slice], U]) -> list[U]:
    """What ``work`` makes of each tile, its values and its rows, on all cores and in order."""
    return map_in_threads(lambda rows: work(cells.rows(rows.start, rows.stop), rows), tiles(cells.shape))


def sizes_of(cells: Cells) -> tuple[FloatArray, float]:
    """|X_j| of every column, and the number of cells that are not missing."""

    def at(values: FloatArray, _: slice) -> tuple[FloatArray, float]:
        return np.nansum(values * values, axis=0), float(np.count_nonzero(~np.isnan(values)))

    squares, seen = zip(*tile_by_tile(cells, at), strict=True)
    return np.sqrt(np.add.reduce(squares)), sum(seen)


def check_stored(table: Any, tolerance: float) -> None:
    """Raise InvalidDataError where a stored value of a sparse table is infinite or below the floor of 0."""
    data: FloatArray = table.data
    for wrong, what, advice in (
        (
            np.abs(data) > LARGEST,
            f"infinite or beyond {LARGEST:g},",
            "Replace infinite values or mark them as missing with NaN; divide huge numbers by a constant",
        ),
        (data < -tolerance, "negative, below the floor of 0,", "Set them to 0 if they are noise around it"),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            row = int(np.searchsorted(table.indptr, at, side="right")) - 1
            raise InvalidDataError(
                f"Stored values of the sparse table ({int(wrong.sum()):,}) are {what} the first {data[at]:g} in row"
                f" {row}, column {table.indices[at]}. {advice}."
            )


# --- the factors ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Factors:
    """``latent`` C (n x k), ``loadings`` A (d x k) and ``bias`` b (d), or None for a model without one."""

    latent: Annotated[FloatArray, "floats n k"]
    loadings: Annotated[FloatArray, "floats d k"]
    bias: Annotated[FloatArray, "floats d"] | None

    @property
    def rank(self) -> int:
        return int(self.latent.shape[1])

    @cached_property
    def extended(self) -> FloatArray:
        """[A b], or A: the parameters of the columns, one row each."""
        return self.loadings if self.bias is None else np.column_stack([self.loadings, self.bias])

    @cached_property
    def loading_products(self) -> FloatArray:
        """Per column a_j, the upper triangle of a_j a_j', packed: rows' Grams are sums of these."""
        return packed_products(self.loadings)

    @cached_property
    def single_loading_products(self) -> NDArray[np.float32]:
        """The same in single precision."""
        return self.loading_products.astype(np.float32)

    def extend(self, latent: FloatArray) -> FloatArray:
        """[C 1], or C: what rows contribute to a column's equations."""
        return latent if self.bias is None else np.column_stack([latent, np.ones(len(latent))])

    def with_extended(self, extended: FloatArray) -> Factors:
        k = self.rank
        bias = None if self.bias is None else np.ascontiguousarray(extended[:, k])
        return replace(self, loadings=np.ascontiguousarray(extended[:, :k]), bias=bias)

    def of(self, rows: Any, columns: Any) -> Factors:
        """The factors of some rows and columns."""
        bias = None if self.bias is None else self.bias[columns]
        return Factors(self.latent[rows], self.loadings[columns], bias)

    def matrix(self) -> FloatArray:
        """T."""
        low_rank: FloatArray = self.latent @ self.loadings.T
        return low_rank if self.bias is None else low_rank + self.bias

    def balance(self) -> Factors:
        """The same T with C centred (where there is a bias) and C'C = A'A, diagonal and descending.

        By the singular values of C A' from two thin QRs; each column of A has its largest entry positive.
        """
        latent, bias = self.latent, self.bias
        if bias is not None:
            mean = latent.mean(axis=0)
            latent, bias = latent - mean, bias + self.loadings @ mean
        q_latent, r_latent = np.linalg.qr(latent)
        q_loadings, r_loadings = np.linalg.qr(self.loadings)
        u, singular, vt = np.linalg.svd(r_latent @ r_loadings.T)
        left, right = q_latent @ u, q_loadings @ vt.T
        sign = np.where(np.take_along_axis(right, np.abs(right).argmax(axis=0)[None], axis=0)[0] < 0.0, -1.0, 1.0)
        root = np.sqrt(singular)
        return Factors(left * sign * root, right * sign * root, bias)

    def standard(self) -> Factors:
        """The same T with C centred (where there is a bias), C'C/n = I, and A'A diagonal and descending."""
        centred = self.balance()
        scale = np.sqrt((centred.latent**2).mean(axis=0))
        scale[scale == 0.0] = 1.0
        return Factors(centred.latent / scale, centred.loadings * scale, centred.bias)

    def rescale(self, factor: float) -> Factors:
        """The factors of ``factor`` T."""
        return replace(self, loadings=self.loadings * factor, bias=None if self.bias is None else self.bias * factor)

    def shift(self, shift: FloatArray) -> Factors:
        """The same T with C - 1 v' in place of C, and b + A v in place of b; without a bias, itself."""
        if self.bias is None:
            return self
        return replace(self, latent=self.latent - shift, bias=self.bias + self.loadings @ shift)


def in_gauge(factors: Factors, gauge: str) -> Factors:
    """The factors of the same T under a convention for b, in standard form but for C's mean.

    "centered": C has mean 0, b is the column mean of T. "orthogonal": b is orthogonal to the columns of A. "bayes":
    between the two, as the mean of C and the part of b along A are both taken for random, of unit variance and of the
    variance of the rest of b: |v|^2 n + |b + A v|^2 / s^2 is least. "kept": b stays what it is.
    """
    standard = factors.standard()
    if standard.bias is None or gauge == "centered":
        return standard
    loadings, bias = standard.loadings, standard.bias
    own = factors.bias if gauge == "kept" else None
    towards = np.asarray(np.linalg.lstsq(loadings, bias if own is None else own - bias)[0], dtype=np.float64)
    if own is not None:
        return replace(standard.shift(towards), bias=own)
    if gauge == "orthogonal":
        return standard.shift(-towards)
    n, (d, k) = len(standard.latent), loadings.shape
    spread = float(((bias - loadings @ towards) ** 2).sum()) / max(d - k, 1)
    return standard.shift(-np.linalg.solve(n * spread * np.eye(k) + loadings.T @ loadings, loadings.T @ bias))


def singular_start(cells: Cells, n_components: int, free_bias: bool) -> Factors:
    """Rank-k SVD of X - 1 mean' by subspace iteration; a missing cell counts as its column's mean."""

    def sums(values: FloatArray, _: slice) -> FloatArray:
        seen = ~np.isnan(values)
        return np.stack([np.where(seen, values, 0.0).sum(axis=0), seen.sum(axis=0)])

    total, count = np.add.reduce(tile_by_tile(cells, sums))
    fill = total / np.maximum(count, 1.0)
    mean = fill if free_bias else np.zeros(cells.shape[1])

    def centred(values: FloatArray) -> FloatArray:
        missing = np.isnan(values)
        return (np.where(missing, fill, values) if missing.any() else values) - mean

    def image(values: FloatArray, _: slice) -> FloatArray:
        moved = centred(values)
        return np.asarray(moved.T @ (moved @ basis))

    width = min(n_components + _OVERSAMPLING, cells.shape[1])
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((cells.shape[1], width)))[0]
    for _ in range(_PASSES):
        basis = np.linalg.qr(np.add.reduce(tile_by_tile(cells, image)))[0]
    # Rayleigh-Ritz: the best rank-k part of X within the subspace.
    product = np.add.reduce(tile_by_tile(cells, image))
    loadings = basis @ np.linalg.eigh(basis.T @ product)[1][:, ::-1][:, :n_components]
    latent = np.concatenate(tile_by_tile(cells, lambda values, _: centred(values) @ loadings))
    return Factors(latent, loadings, mean if free_bias else None)


# --- what positive cells determine ------------------------------------------------------------------


@dataclass(frozen=True)
class Conditions:
    """Per column (row), the condition number of its equations over the positive cells; inf where rank is missing."""

    columns: Annotated[FloatArray, "unbounded floats d"]
    rows: Annotated[FloatArray, "unbounded floats n"]

    @property
    def column_identifiable(self) -> BoolArray:
        return self.columns <= WORST_CONDITION

    @property
    def row_identifiable(self) -> BoolArray:
        return self.rows <= WORST_CONDITION


@dataclass(frozen=True)
class StandardErrors:
    """Of C (n x k), A (d x k) and b; infinite where the cells carry no information."""

    latent: Annotated[FloatArray, "unbounded floats n k"]
    loadings: Annotated[FloatArray, "unbounded floats d k"]
    bias: Annotated[FloatArray, "unbounded floats d"] | None


def find_core(cells: Cells, n_components: int, free_bias: bool) -> tuple[BoolArray, BoolArray, float]:
    """The rows and columns that determine each other, and the number of positive cells of the whole table.

    Rows with at most k and columns with at most k + 1 positive cells among the others are peeled off, until none is
    left. Of parts of the rest that no positive cell links, only the one with the fullest column is kept: their latent
    spaces have nothing to do with each other.
    """

    def positives(rows: BoolArray, columns: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Positive cells per row among the marked columns, and per column among the marked rows."""

        def at(values: FloatArray, part: slice) -> tuple[FloatArray, FloatArray]:
            positive = (values > 0.0).astype(np.float64)
            return positive @ columns.astype(np.float64), rows[part].astype(np.float64) @ positive

        by_row, by_column = zip(*tile_by_tile(cells, at), strict=True)
        return np.concatenate(by_row), np.add.reduce(by_column)

    n, d = cells.shape
    rows, columns = np.ones(n, dtype=bool), np.ones(d, dtype=bool)
    row_count, column_count = positives(rows, columns)
    total = float(row_count.sum())
    while True:
        kept_rows = rows & (row_count > n_components)
        kept_columns = columns & (column_count > n_components + int(free_bias))
        if (kept_rows == rows).all() and (kept_columns == columns).all():
            break
        rows, columns = kept_rows, kept_columns
        row_count, column_count = positives(rows, columns)
    linked = np.zeros(d, dtype=bool)
    linked[int(np.argmax(np.where(columns, column_count, -1.0)))] = True
    linked &= columns
    while True:  # further rows and columns that positive cells link to the fullest one
        linked_rows = rows & (positives(rows, linked)[0] > 0.0)
        further = columns & (positives(linked_rows, columns)[1] > 0.0)
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
    return linked_rows, linked, total


def conditions(cells: Cells, factors: Factors, columns: BoolArray | None = None) -> Conditions:
    """Condition numbers of every column's and row's equations, with C and A scaled to unit sizes.

    Only determined factors count: for rows the ``columns`` of the core, for columns the rows that those determine.
    Components that are zero, where there are more than T needs, are left out.
    """

    def condition(packed: FloatArray, width: int) -> FloatArray:
        """Square root of the ratio of the extreme eigenvalues of each packed Gram."""
        if width == 0:
            return np.ones(len(packed))
        eigenvalues = np.linalg.eigvalsh(unpacked(packed, width))
        smallest, largest = eigenvalues[:, 0], eigenvalues[:, -1]
        resolved = smallest > 1e-14 * largest
        ratio = np.full(len(packed), np.inf)
        ratio[resolved] = np.sqrt(largest[resolved] / smallest[resolved])
        return ratio

    used = effective_components(factors)
    sides = []
    for vectors in (factors.latent[:, used], factors.loadings[:, used]):
        scale = np.sqrt((vectors**2).mean(axis=0))
        sides.append(vectors / np.where(scale > 0.0, scale, 1.0))
    latent, loadings = sides
    if columns is not None:
        loadings = np.where(columns[:, None], loadings, 0.0)
    products, width = packed_products(loadings), int(used.sum())
    by_tile = tile_by_tile(cells, lambda values, _: condition((values > 0.0).astype(np.float64) @ products, width))
    rows = np.concatenate(by_tile)
    determined = (rows <= WORST_CONDITION).astype(np.float64)

    def column_gram(values: FloatArray, part: slice) -> FloatArray:
        extended = factors.extend(latent[part]) * determined[part, None]
        return np.asarray((values > 0.0).astype(np.float64).T @ packed_products(extended))

    gram = np.add.reduce(tile_by_tile(cells, column_gram))
    return Conditions(condition(gram, width + int(factors.bias is not None)), rows)


def effective_components(factors: Factors) -> BoolArray:
    """Components of factors in standard form that are more than rounding."""
    size = (factors.loadings**2).sum(axis=0)
    return np.asarray(size > _NOTHING**2 * size.max(initial=0.0))


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

    def quadratic_inverse(packed: FloatArray, width: int) -> FloatArray:
        """Packed inverses, off-diagonal entries twice: a product with v v' packed is the quadratic form in v."""
        inverse = np.linalg.pinv(unpacked(packed, width), rcond=_SINGULAR, hermitian=True)
        first, second = np.triu_indices(width)
        return inverse[:, first, second] * np.where(first == second, 1.0, 2.0)

    def deviations(packed: FloatArray, width: int) -> FloatArray:
        """Square roots of the diagonals of sigma^2 times the inverses; inf where a matrix is singular."""
        eigenvalues, vectors = np.linalg.eigh(unpacked(packed, width))
        resolved = eigenvalues[:, :1] > _SINGULAR * eigenvalues[:, -1:]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            variance = noise * noise * ((vectors**2) / eigenvalues[:, None, :]).sum(axis=2)
        return np.sqrt(np.where(resolved, variance, np.inf))

    def weights(values: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        own = factors.extend(factors.latent[rows])
        fitted = own @ extended.T
        weight = np.empty(fitted.shape)
        tobit_cells(values, fitted, noise, weight, np.zeros(len(values)), np.zeros(values.shape[1]))
        return weight, packed_products(own)

    def column_gram(values: FloatArray, rows: slice) -> FloatArray:
        weight, products = weights(values, rows)
        return weight.T @ products

    column_inverse = quadratic_inverse(np.add.reduce(tile_by_tile(cells, column_gram)), width)

    def remaining(values: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        weight, products = weights(values, rows)
        used_by_rows = weight * (quadratic_inverse(weight @ loading_products, k) @ loading_products.T)
        used_by_columns = weight * (products @ column_inverse.T)
        column_part: FloatArray = (weight * np.clip(1.0 - used_by_rows, 0.0, 1.0)).T @ products
        row_part: FloatArray = (weight * np.clip(1.0 - used_by_columns, 0.0, 1.0)) @ loading_products
        return column_part, deviations(row_part, k)

    column_parts, latent = zip(*tile_by_tile(cells, remaining), strict=True)
    columns = deviations(np.add.reduce(column_parts), width)
    return StandardErrors(np.concatenate(latent), columns[:, :k], None if factors.bias is None else columns[:, k])
