"""Any covariance: coordinates are the mean and the covariance's lower triangle, row by row.

Steps theta = (a, lower triangle of B) go to mean + L a and L exp(B) L with L the symmetric root of the covariance: no
step leaves the definite matrices, and a complete row's information is 1 for a_i and B_ij, 1/2 for B_ii.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import eigh

from unrelu.contracts import FloatArray, Marks
from unrelu.fit.likelihood.scores import definite_inverse
from unrelu.kernels.covariance_scores import covariance_scores


@dataclass(frozen=True, eq=False)
class CovarianceLaw:
    """N(mean, covariance)."""

    mean: FloatArray
    covariance: FloatArray

    @property
    def n_coordinates(self) -> int:
        d = len(self.mean)
        return d + d * (d + 1) // 2

    @property
    def n_components(self) -> None:
        return None

    @property
    def n_free(self) -> int:
        return self.n_coordinates

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        values, vectors = eigh(self.covariance)
        return np.maximum(values, 1e-300), vectors

    @cached_property
    def _precision(self) -> FloatArray:
        values, vectors = self._spectrum
        return np.ascontiguousarray((vectors / values) @ vectors.T)

    @cached_property
    def _root(self) -> FloatArray:
        values, vectors = self._spectrum
        return np.asarray((vectors * np.sqrt(values)) @ vectors.T)

    def scores(
        self,
        u: FloatArray,
        beyond: Marks,
        corrected: bool = False,  # noqa: ARG002 - they are always there
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        n, log_det = len(u), float(np.log(self._spectrum[0]).sum())
        found = np.empty(n), np.empty(n), np.empty((n, self.n_coordinates))
        covariance_scores(u, beyond, self.mean, self._precision, log_det, *found, np.empty((2, 0, len(self.mean))))
        return found

    def moved(self, theta: FloatArray) -> tuple[Self, Callable[[FloatArray], FloatArray]]:
        d, root = len(self.mean), self._root
        values, vectors = np.linalg.eigh(unpacked(theta[d:], d))
        grown = np.exp(values)
        law = type(self)(self.mean + root @ theta[:d], symmetric(root @ ((vectors * grown) @ vectors.T) @ root))
        # The derivative of exp at B: divided differences of exp between the eigenvalues of B.
        gap = values[:, None] - values[None]
        near = np.abs(gap) < 1e-6
        mean_growth = np.exp(0.5 * (values[:, None] + values[None]))
        divided = np.where(near, mean_growth, (grown[:, None] - grown[None]) / np.where(near, 1.0, gap))

        def pulled(score: FloatArray) -> FloatArray:
            inner = vectors.T @ (root @ halved(score[d:], d) @ root) @ vectors
            return np.concatenate([root @ score[:d], doubled(vectors @ (divided * inner) @ vectors.T)])

        return law, pulled

    @cached_property
    def jacobian(self) -> FloatArray:
        d, root = len(self.mean), self._root
        i, j = np.tril_indices(d)
        # Column (i, j): the lower triangle of L (E_ij + E_ji) L, or of L E_ii L.
        moved = root[i][:, i] * root[j][:, j] + root[i][:, j] * root[j][:, i]
        moved[:, i == j] *= 0.5
        jacobian = np.zeros((self.n_coordinates, self.n_coordinates))
        jacobian[:d, :d], jacobian[d:, d:] = root, moved
        return jacobian

    def metric(self, outer: FloatArray) -> FloatArray:
        return np.asarray(self.jacobian.T @ outer @ self.jacobian)

    def complete_metric(self) -> FloatArray:
        i, j = np.tril_indices(len(self.mean))
        return np.concatenate([np.ones(len(self.mean)), np.where(i == j, 0.5, 1.0)])

    def from_covariance(self, derivative: FloatArray) -> FloatArray:
        return np.concatenate([np.zeros(len(self.mean)), doubled(derivative)])

    def inverse(self, information: FloatArray) -> FloatArray:
        return definite_inverse(information)

    def errors(self, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        d = len(self.mean)
        at = np.zeros((d, d), dtype=np.int64)
        at[np.tril_indices(d)] = d + np.arange(d * (d + 1) // 2)
        at = np.maximum(at, at.T)
        own, scale = np.diagonal(at), np.sqrt(np.diagonal(self.covariance))
        both = np.empty((d, 2, 2))
        both[:, 0, 0] = np.diagonal(spread)[:d]
        both[:, 0, 1] = both[:, 1, 0] = spread[np.arange(d), own] / (2.0 * scale)
        both[:, 1, 1] = spread[own, own] / (4.0 * scale**2)
        # dr_ij = dS_ij / (s_i s_j) - r_ij (dS_ii / S_ii + dS_jj / S_jj) / 2.
        unit = np.outer(scale, scale)
        r = self.covariance / unit
        mine = -0.5 * r / (scale**2)[:, None]  # of S_ii, for row i
        cross = spread[at, own[:, None]] * mine / unit
        variance = np.diagonal(spread)[at] / unit**2 + 2.0 * (cross + cross.T)
        alone = mine**2 * spread[own, own][:, None]
        variance += alone + alone.T + 2.0 * mine * mine.T * spread[np.ix_(own, own)]
        np.fill_diagonal(variance, 0.0)
        return both, np.asarray(variance)


def unpacked(lower: FloatArray, d: int) -> FloatArray:
    """The symmetric matrix of a lower triangle.

    >>> unpacked(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    full = np.zeros((d, d))
    full[np.tril_indices(d)] = lower
    return full + np.tril(full, -1).T


def halved(score: FloatArray, d: int) -> FloatArray:
    """The derivative as a matrix, from that in the lower triangle, where an entry beside the diagonal counts twice."""
    full = unpacked(score, d)
    return np.asarray(0.5 * (full + np.diag(np.diagonal(full))))


def doubled(derivative: FloatArray) -> FloatArray:
    """The reverse."""
    i, j = np.tril_indices(len(derivative))
    return np.asarray(np.where(i == j, 1.0, 2.0) * derivative[i, j])


def symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (matrix + matrix.T))
