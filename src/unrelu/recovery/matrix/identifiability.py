"""What the positive cells determine: a column's (a_j, b_j) given C, a row's c_i given A.

X tells T exactly only where it is positive. So column j is determined if [C 1], restricted to the rows where X_ij > 0,
has full and well-conditioned rank, which takes at least k + 1 such rows; row i likewise with A and k columns. Rows and
columns with no more positive cells than unknowns cannot help to determine anything else either: the factors are fitted
on the others, the core, and these are filled in at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.engines.local import map_in_threads
from unrelu.errors import InvalidDataError
from unrelu.kernels.floor_cells import packed_products, unpacked
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.factors import Factors

WORST_CONDITION = 1e4  # beyond it a column amplifies errors so much that its values are a guess

_NOTHING = 1e-11  # of the largest component's size: below it a component is rounding


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
    first: tuple[FloatArray, FloatArray] | None = None
    while True:
        row_count, column_count = _positives(cells, rows, columns)
        first = first or (row_count, column_count)
        kept_rows = rows & (row_count > n_components)
        kept_columns = columns & (column_count > n_components + int(free_bias))
        if (kept_rows == rows).all() and (kept_columns == columns).all():
            break
        rows, columns = kept_rows, kept_columns
    rows, columns = _linked(cells, rows, columns)
    if min(rows.sum(), columns.sum()) <= n_components:
        raise InvalidDataError(
            f"Too few values above the floor for n_components={n_components}: after leaving out rows with at most"
            f" {n_components} of them and columns with at most {n_components + int(free_bias)}, {rows.sum():,} rows and"
            f" {columns.sum():,} columns are left, and more than {n_components} of each are needed. Lower n_components"
            " or add rows."
        )
    return Core(rows, columns, *first)


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
    parts = tiles(cells.shape)

    def positive(rows: slice) -> FloatArray:
        return (cells.rows(rows.start, rows.stop) > 0.0).astype(np.float64)

    rows = np.concatenate(map_in_threads(lambda part: _condition(positive(part) @ products, width), parts))
    known = (rows <= WORST_CONDITION).astype(np.float64)

    def column_gram(part: slice) -> FloatArray:
        extended = factors.extend(latent[part]) * known[part, None]
        gram: FloatArray = positive(part).T @ packed_products(extended)
        return gram

    gram = np.add.reduce(map_in_threads(column_gram, parts))
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


def _linked(cells: Cells, rows: BoolArray, columns: BoolArray) -> tuple[BoolArray, BoolArray]:
    """The marked rows and columns that positive cells link to the column with most of them."""
    counts = np.where(columns, _positives(cells, rows, columns)[1], -1.0)
    reached = np.zeros(len(columns), dtype=bool)
    reached[int(np.argmax(counts))] = True
    reached &= columns
    while True:
        reached_rows = rows & (_positives(cells, rows, reached)[0] > 0.0)
        further = columns & (_positives(cells, reached_rows, columns)[1] > 0.0)
        if (further == reached).all():
            return reached_rows, reached
        reached = further


def _positives(cells: Cells, rows: BoolArray, columns: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Positive cells per row among the marked columns, and per column among the marked rows."""

    def at(part: slice) -> tuple[FloatArray, FloatArray]:
        positive = (cells.rows(part.start, part.stop) > 0.0).astype(np.float64)
        return positive @ columns.astype(np.float64), rows[part].astype(np.float64) @ positive

    results = map_in_threads(at, tiles(cells.shape))
    return np.concatenate([result[0] for result in results]), np.add.reduce([result[1] for result in results])
