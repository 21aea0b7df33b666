"""The two kinds of model that a likelihood is climbed in: any covariance, or factors and noise.

A law has ``n_coordinates`` of its own, in which ``scores`` are derivatives, and ``n_free`` parameters that rows can
tell apart. Steps are taken in coordinates theta around it, in which complete rows would give (nearly) independent
estimates: ``moved`` gives the law at theta and what turns its score into the derivative in theta; ``jacobian`` is that
of the own coordinates in theta, ``metric`` takes outer products of scores there, and ``complete_metric`` is the
diagonal of a complete row's information. ``scores`` of rows are (log densities as expectation propagation has them,
what brings these closer, scores n x n_coordinates); the second need only be there if ``corrected``.
``from_covariance`` is the score of something that depends on the covariance alone, from its derivative there.
``inverse`` of an information is without what the rows cannot tell, a LinAlgError where it is not definite; ``errors``
makes of the covariance of the estimated coordinates (covariance d x 2 x 2 of mean and standard deviation, variance d x
d of the correlations).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Self, TypeAlias

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from unrelu.contracts import FloatArray, Marks
from unrelu.kernels.factor_density import factor_scores
from unrelu.kernels.likelihood_scores import covariance_scores


@dataclass(frozen=True, eq=False)
class CovarianceLaw:
    """N(mean, covariance): coordinates are the mean and the covariance's lower triangle, row by row. Steps theta = (a,
    lower triangle of B) go to mean + L a and L exp(B) L with L the symmetric root of the covariance: no step leaves the
    definite matrices, and a complete row's information is 1 for a_i and B_ij, 1/2 for B_ii."""

    mean: FloatArray
    covariance: FloatArray

    @property
    def n_coordinates(self) -> int:
        d = len(self.mean)
        return d + d * (d + 1) // 2

    n_components = None  # factors

    @property
    def n_free(self) -> int:
        return self.n_coordinates

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        values, vectors = eigh(self.covariance)
        return np.maximum(values, 1e-300), vectors

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
        n, (values, vectors) = len(u), self._spectrum
        precision, log_det = np.ascontiguousarray((vectors / values) @ vectors.T), float(np.log(values).sum())
        found = np.empty(n), np.empty(n), np.empty((n, self.n_coordinates))
        covariance_scores(u, beyond, self.mean, precision, log_det, *found, np.empty((2, 0, len(self.mean))))
        return found

    def moved(self, theta: FloatArray) -> tuple[Self, Callable[[FloatArray], FloatArray]]:
        d, root = len(self.mean), self._root
        values, vectors = np.linalg.eigh(_unpacked(theta[d:], d))
        grown = np.exp(values)
        covariance = root @ ((vectors * grown) @ vectors.T) @ root
        law = type(self)(self.mean + root @ theta[:d], 0.5 * (covariance + covariance.T))
        # The derivative of exp at B: divided differences of exp between the eigenvalues of B.
        gap = values[:, None] - values[None]
        near = np.abs(gap) < 1e-6
        mean_growth = np.exp(0.5 * (values[:, None] + values[None]))
        divided = np.where(near, mean_growth, (grown[:, None] - grown[None]) / np.where(near, 1.0, gap))

        def pulled(score: FloatArray) -> FloatArray:
            full = _unpacked(score[d:], d)  # in which an entry beside the diagonal counts twice
            inner = vectors.T @ (root @ (0.5 * (full + np.diag(np.diagonal(full)))) @ root) @ vectors
            return np.concatenate([root @ score[:d], _doubled(vectors @ (divided * inner) @ vectors.T)])

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
        return np.concatenate([np.zeros(len(self.mean)), _doubled(derivative)])

    def inverse(self, information: FloatArray) -> FloatArray:
        return _definite_inverse(information)

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


def _unpacked(lower: FloatArray, d: int) -> FloatArray:
    """The symmetric matrix of a lower triangle."""
    full = np.zeros((d, d))
    full[np.tril_indices(d)] = lower
    return full + np.tril(full, -1).T


def _doubled(derivative: FloatArray) -> FloatArray:
    """The derivative in the lower triangle, where an entry beside the diagonal counts twice."""
    i, j = np.tril_indices(len(derivative))
    return np.asarray(np.where(i == j, 1.0, 2.0) * derivative[i, j])


@dataclass(frozen=True, eq=False)
class FactorLaw:
    """Factors plus noise: y = b + W z + e, z ~ N(0, I_k), independent e_j ~ N(0, psi_j). Coordinates are (b, W row by
    row, log psi). W is told up to a rotation only: scores are 0 along W A, A' = -A."""

    mean: FloatArray
    weights: FloatArray
    noise: FloatArray

    @property
    def n_coordinates(self) -> int:
        d, k = self.weights.shape
        return int(d * (k + 2))

    @property
    def n_components(self) -> int:
        return int(self.weights.shape[1])

    @property
    def n_free(self) -> int:
        d, k = self.weights.shape
        return int(min(self.n_coordinates - k * (k - 1) // 2, d + d * (d + 1) // 2))

    @property
    def covariance(self) -> FloatArray:
        return np.asarray(self.weights @ self.weights.T + np.diag(self.noise))

    def scores(
        self, u: FloatArray, beyond: Marks, corrected: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        n = len(u)
        found = np.empty(n), np.empty(n if corrected else 0), np.empty((n, self.n_coordinates))
        factor_scores(u, beyond, self.mean, self.weights, self.noise, *found)
        return found

    def moved(self, theta: FloatArray) -> tuple[Self, Callable[[FloatArray], FloatArray]]:
        d, k = self.weights.shape
        mean, weights, noise = np.split(theta, [d, d + d * k])
        law = type(self)(self.mean + mean, self.weights + weights.reshape(d, k), self.noise * np.exp(noise))
        return law, lambda score: score

    @property
    def jacobian(self) -> FloatArray:
        return np.eye(self.n_coordinates)

    def metric(self, outer: FloatArray) -> FloatArray:
        return outer

    def complete_metric(self) -> FloatArray:
        d, k = self.weights.shape
        return np.concatenate([1.0 / self.noise, np.repeat(1.0 / self.noise, k), np.full(d, 0.5)])

    def from_covariance(self, derivative: FloatArray) -> FloatArray:
        along = (2.0 * derivative @ self.weights).ravel()
        return np.concatenate([np.zeros(len(self.mean)), along, np.diagonal(derivative) * self.noise])

    def inverse(self, information: FloatArray) -> FloatArray:
        d, k = self.weights.shape
        gauge = np.zeros((self.n_coordinates, k * (k - 1) // 2))  # directions in which nothing changes, a column each
        for at, (i, j) in enumerate(combinations(range(k), 2)):
            turned = np.zeros((d, k))
            turned[:, i], turned[:, j] = -self.weights[:, j], self.weights[:, i]
            gauge[d : d + d * k, at] = turned.ravel()
        # Rotations are held where they are; whatever else the rows leave open keeps its wide error.
        gauge *= np.sqrt(np.trace(information) / len(information))
        return _definite_inverse(information + gauge @ gauge.T)

    def errors(self, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        d, k = self.weights.shape
        # Per column (w_j, log psi_j), which scale and correlations depend on.
        at = np.hstack([d + np.arange(d * k).reshape(d, k), d + d * k + np.arange(d)[:, None]])
        blocks = spread[at[:, :, None, None], at[None, None]]  # d x q x d x q
        scale = np.sqrt(np.sum(self.weights**2, axis=1) + self.noise)
        to_scale = np.hstack([self.weights, 0.5 * self.noise[:, None]]) / scale[:, None]
        own = np.arange(d)
        both = np.empty((d, 2, 2))
        both[:, 0, 0] = spread[own, own]
        both[:, 0, 1] = both[:, 1, 0] = np.einsum("jq,jq->j", spread[own[:, None], at], to_scale)
        both[:, 1, 1] = np.einsum("jq,jqr,jr->j", to_scale, blocks[own, :, own], to_scale)
        # slope[i, j]: of r_ij in column i's parameters; r_ij = w_i'w_j / (s_i s_j).
        r = self.weights @ self.weights.T / np.outer(scale, scale)
        slope = np.zeros((d, d, k + 1))
        slope[:, :, :k] = self.weights[None] / (scale[:, None] * scale[None])[:, :, None]
        slope -= r[:, :, None] * (to_scale / scale[:, None])[:, None]
        alone = np.einsum("ijq,iqr,ijr->ij", slope, blocks[own, :, own], slope)
        cross = np.einsum("ijq,iqjr,jir->ij", slope, blocks, slope)
        return both, np.asarray(alone + alone.T + 2.0 * cross)


Law: TypeAlias = CovarianceLaw | FactorLaw


def _definite_inverse(matrix: FloatArray) -> FloatArray:
    """That of a definite matrix; any other is a LinAlgError."""
    return np.asarray(cho_solve(cho_factor(matrix, check_finite=False), np.eye(len(matrix))))
