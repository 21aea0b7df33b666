"""Factors plus noise: y = b + W z + e, z ~ N(0, I_k), independent e_j ~ N(0, psi_j).

Coordinates are (b, W row by row, log psi). W is told up to a rotation only: scores are 0 along W A, A' = -A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np

from unrelu.contracts import FloatArray, Marks
from unrelu.fit.likelihood.scores import definite_inverse
from unrelu.kernels.factor_cells import factor_scores


@dataclass(frozen=True, eq=False)
class FactorLaw:
    """N(mean, weights weights' + diag noise)."""

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

    @property
    def gauge(self) -> FloatArray:
        """Directions in which nothing changes, a column each."""
        d, k = self.weights.shape
        found = np.zeros((self.n_coordinates, k * (k - 1) // 2))
        for at, (i, j) in enumerate(combinations(range(k), 2)):
            turned = np.zeros((d, k))
            turned[:, i], turned[:, j] = -self.weights[:, j], self.weights[:, i]
            found[d : d + d * k, at] = turned.ravel()
        return found

    def inverse(self, information: FloatArray) -> FloatArray:
        # Rotations are held where they are; whatever else the rows leave open keeps its wide error.
        gauge = self.gauge * np.sqrt(np.trace(information) / len(information))
        return definite_inverse(information + gauge @ gauge.T)

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
