"""Rows of a scipy sparse matrix, in memory or from files of scipy.sparse.save_npz, and what its columns are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from unrelu.contracts import Block, FloatArray
from unrelu.errors import InputFileError, InvalidDataError, InvalidParameterError
from unrelu.passes.rows import MOST_CELLS, Rows, SparseBlock, holds_numbers, rows_per_block
from unrelu.tables.columns import ColumnChoice, match_columns


class SparseSamples(Rows):
    """The rows of a scipy sparse matrix; who can work with it, or with a block's part of it, takes ``matrix``.

    >>> import scipy.sparse
    >>> samples = SparseSamples(scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]), ["a", "b"])
    >>> samples.n_rows, samples.feature_names, next(samples.blocks()).values.tolist()
    (2, ('a', 'b'), [[0.0, 2.0], [1.0, 0.0]])
    """

    in_memory = True

    def __init__(
        self, matrix: Any, feature_names: Sequence[str] | None = None, weights: FloatArray | None = None
    ) -> None:
        is_sparse: bool = scipy.sparse.issparse(matrix)
        if not is_sparse or len(matrix.shape) != 2:
            raise InvalidDataError(f"Expected rows and columns of a scipy sparse matrix, got {type(matrix).__name__}.")
        if feature_names is not None and len(feature_names) != matrix.shape[1]:
            raise InvalidParameterError(
                f"{len(feature_names)} feature names for {matrix.shape[1]} columns: give one name per column."
            )
        self.matrix = matrix.tocsr()
        if not self.matrix.has_canonical_format:  # several numbers for one cell
            self.matrix = self.matrix.copy()
            self.matrix.sum_duplicates()
        self._weights = weights
        self.n_features = int(self.matrix.shape[1])
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))

    @property
    def n_rows(self) -> int:
        return int(self.matrix.shape[0])

    def weighted(self, weights: FloatArray) -> SparseSamples:
        """The same rows with a weight each."""
        return SparseSamples(self.matrix, self.feature_names, weights)

    def blocks(self) -> Iterator[Block]:
        size = max(rows_per_block(self.n_rows, self.n_features), MOST_CELLS // self.n_features)
        for first in range(0, self.n_rows, size):
            rows = slice(first, first + size)
            weights = None if self._weights is None else self._weights[rows]
            yield SparseBlock(matrix=self.matrix[rows], first_row=first, weights=weights)


def read_sparse(paths: Sequence[str], choice: ColumnChoice) -> SparseSamples:
    """The rows of all files, one after the other; their columns go by numbers, as the files have no names."""
    if choice.ids:
        raise InputFileError(
            f"{paths[0]}: a sparse table holds numbers only, and no column to keep as text: leave id= out."
        )
    files = [_SparseFile(path) for path in paths]
    parts: list[Any] = [file.matrix[:, at] for file, at in zip(files, match_columns(files, choice), strict=True)]
    return SparseSamples(parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr"))


class _SparseFile:
    """One file of scipy.sparse.save_npz, read whole."""

    column_names = None

    def __init__(self, path: str) -> None:
        self.name, self.matrix = path, _loaded(path)
        self.n_columns = int(self.matrix.shape[1])


def _loaded(path: str) -> Any:
    try:
        given: Any = scipy.sparse.load_npz(path)
        loaded: Any = scipy.sparse.csr_array(given)
    except MemoryError:
        raise
    except Exception as error:  # the zip and array readers meet foreign bytes with a dozen exception types
        raise InputFileError(f"{path}: is not a whole file of scipy.sparse.save_npz. Save it again.") from error
    if not holds_numbers(loaded.dtype):
        raise InputFileError(f"{path}: the sparse table holds values of type {loaded.dtype}, not numbers.")
    if len(loaded.shape) != 2 or 0 in loaded.shape:
        raise InputFileError(f"{path}: the sparse table has shape {loaded.shape}, but rows and columns are needed.")
    loaded = loaded.astype(np.float64)
    loaded.sum_duplicates()
    return loaded
