"""T = C A' + 1 b': the factors, where they begin, and the conventions that split one T into them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.kernels.floor_cells import packed_products
from unrelu.recovery.matrix.cells import Cells, tile_by_tile

GAUGES = ("centered", "orthogonal", "bayes", "zero")

_OVERSAMPLING, _PASSES = 8, 4  # of subspace iteration


@dataclass(frozen=True)
class Factors:
    """``latent`` C (n x k), ``loadings`` A (d x k) and ``bias`` b (d), or None for a model without one."""

    latent: FloatArray
    loadings: FloatArray
    bias: FloatArray | None

    @property
    def rank(self) -> int:
        return int(self.latent.shape[1])

    @cached_property
    def extended(self) -> FloatArray:
        """[A b], or A: what a column owns."""
        return self.loadings if self.bias is None else np.column_stack([self.loadings, self.bias])

    @cached_property
    def loading_products(self) -> FloatArray:
        """Per column a_j, the upper triangle of a_j a_j', packed: what rows' Grams are sums of."""
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

    def matrix(self) -> FloatArray:
        """T."""
        low_rank: FloatArray = self.latent @ self.loadings.T
        return low_rank if self.bias is None else low_rank + self.bias

    def balanced(self) -> Factors:
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
        centred = self.balanced()
        scale = np.sqrt((centred.latent**2).mean(axis=0))
        scale[scale == 0.0] = 1.0
        return Factors(centred.latent / scale, centred.loadings * scale, centred.bias)

    def scaled(self, factor: float) -> Factors:
        """The factors of ``factor`` T."""
        return replace(self, loadings=self.loadings * factor, bias=None if self.bias is None else self.bias * factor)

    def shifted(self, shift: FloatArray) -> Factors:
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
        return replace(standard.shifted(towards), bias=own)
    if gauge == "orthogonal":
        return standard.shifted(-towards)
    n, (d, k) = len(standard.latent), loadings.shape
    spread = float(((bias - loadings @ towards) ** 2).sum()) / max(d - k, 1)
    return standard.shifted(-np.linalg.solve(n * spread * np.eye(k) + loadings.T @ loadings, loadings.T @ bias))


def singular_start(cells: Cells, n_components: int, free_bias: bool) -> Factors:
    """Rank-k SVD of X - 1 mean' by subspace iteration; a missing cell counts as its column's mean.

    >>> from unrelu.recovery.matrix.cells import DenseCells
    >>> X = np.outer([1.0, 2.0, 3.0], [1.0, 0.0])
    >>> singular_start(DenseCells(X), 1, free_bias=False).matrix().round(6) + 0.0
    array([[1., 0.],
           [2., 0.],
           [3., 0.]])
    """

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
        power: FloatArray = moved.T @ (moved @ basis)
        return power

    width = min(n_components + _OVERSAMPLING, cells.shape[1])
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((cells.shape[1], width)))[0]
    for _ in range(_PASSES):
        basis = np.linalg.qr(np.add.reduce(tile_by_tile(cells, image)))[0]
    # Rayleigh-Ritz: the best rank-k part of X within the subspace.
    power = np.add.reduce(tile_by_tile(cells, image))
    loadings = basis @ np.linalg.eigh(basis.T @ power)[1][:, ::-1][:, :n_components]
    latent = np.concatenate(tile_by_tile(cells, lambda values, _: centred(values) @ loadings))
    return Factors(latent, loadings, mean if free_bias else None)
