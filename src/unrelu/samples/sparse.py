"""Rows of a scipy sparse matrix, and what its columns are called, which scipy does not know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from unrelu.contracts import Block
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.samples.blocks import rows_per_block


class SparseSamples:
    """The rows of a scipy sparse matrix as dense blocks; who can work with it as it is takes ``matrix``.

    >>> import scipy.sparse
    >>> samples = SparseSamples(scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]), ["a", "b"])
    >>> samples.n_rows, samples.feature_names, next(samples.blocks()).values.tolist()
    (2, ('a', 'b'), [[0.0, 2.0], [1.0, 0.0]])
    """

    def __init__(self, matrix: Any, feature_names: Sequence[str] | None = None) -> None:
        is_sparse: bool = scipy.sparse.issparse(matrix)
        if not is_sparse or len(matrix.shape) != 2:
            raise InvalidDataError(f"Expected rows and columns of a scipy sparse matrix, got {type(matrix).__name__}.")
        if feature_names is not None and len(feature_names) != matrix.shape[1]:
            raise InvalidParameterError(
                f"{len(feature_names)} feature names for {matrix.shape[1]} columns: give one name per column."
            )
        self.matrix: Any = matrix.tocsr()
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def n_rows(self) -> int:
        return int(self.matrix.shape[0])

    def blocks(self) -> Iterator[Block]:
        size = rows_per_block(self.n_rows, self.n_features)
        for first in range(0, self.n_rows, size):
            yield Block(self.matrix[first : first + size].toarray().astype(np.float64), first)
