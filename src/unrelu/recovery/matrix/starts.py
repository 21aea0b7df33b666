"""Where to begin: the leading singular vectors of the table itself, centred where there is a bias."""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.engines.local import map_in_threads
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.factors import Factors

_OVERSAMPLING = 8
_PASSES = 4


def singular_start(cells: Cells, n_components: int, free_bias: bool) -> Factors:
    """Rank-k SVD of X - 1 mean' by subspace iteration; a missing cell counts as its column's mean.

    >>> from unrelu.recovery.matrix.cells import DenseCells
    >>> X = np.outer([1.0, 2.0, 3.0], [1.0, 0.0])
    >>> singular_start(DenseCells(X), 1, free_bias=False).matrix().round(6) + 0.0
    array([[1., 0.],
           [2., 0.],
           [3., 0.]])
    """
    parts = tiles(cells.shape)
    mean = _column_means(cells, parts) if free_bias else np.zeros(cells.shape[1])
    fill = mean if free_bias else _column_means(cells, parts)

    def centred(rows: slice) -> FloatArray:
        values = cells.rows(rows.start, rows.stop)
        missing = np.isnan(values)
        return (np.where(missing, fill, values) if missing.any() else values) - mean

    def image(rows: slice) -> FloatArray:
        values = centred(rows)
        power: FloatArray = values.T @ (values @ basis)
        return power

    width = min(n_components + _OVERSAMPLING, cells.shape[1])
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((cells.shape[1], width)))[0]
    power = np.zeros_like(basis)
    for _ in range(_PASSES):
        power = np.add.reduce(map_in_threads(image, parts))
        basis = np.linalg.qr(power)[0]
    # Rayleigh-Ritz: the best rank-k part of X within the subspace.
    power = np.add.reduce(map_in_threads(image, parts))
    eigenvectors = np.linalg.eigh(basis.T @ power)[1][:, ::-1][:, :n_components]
    loadings = basis @ eigenvectors
    latent = np.concatenate(map_in_threads(lambda rows: centred(rows) @ loadings, parts))
    return Factors(latent, loadings, mean if free_bias else None)


def _column_means(cells: Cells, parts: list[slice]) -> FloatArray:
    def sums(rows: slice) -> FloatArray:
        values = cells.rows(rows.start, rows.stop)
        seen = ~np.isnan(values)
        return np.stack([np.where(seen, values, 0.0).sum(axis=0), seen.sum(axis=0)])

    total, count = np.add.reduce(map_in_threads(sums, parts))
    means: FloatArray = total / np.maximum(count, 1.0)
    return means
