"""Networks that widen, x = max(A2 h + b2, 0), h = ReLU(A1 z + b1), fewer inputs z than units h; oracles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment


@dataclass(frozen=True)
class Network:
    """A network, its rows ``X`` with a rectifier and ``T`` without."""

    A1: np.ndarray
    b1: np.ndarray
    A2: np.ndarray
    b2: np.ndarray
    z: np.ndarray
    noise: float = 0.0
    seed: int = 0

    @property
    def h(self):
        return np.maximum(self.z @ self.A1.T + self.b1, 0.0)

    @property
    def T(self):
        clean = self.h @ self.A2.T + self.b2
        return clean + self.noise * np.random.default_rng(self.seed).standard_normal(clean.shape)

    @property
    def X(self):
        return np.maximum(self.T, 0.0)


def draw(seed, d, p, q, n, *, spread=0.5, shift=0.0, noise=0.0, output_bias=True):
    """Weights standard normal, biases of that spread; those of the units around ``shift``."""
    rng = np.random.default_rng(seed)
    A1, b1 = rng.standard_normal((p, q)), shift + spread * rng.standard_normal(p)
    A2, b2 = rng.standard_normal((d, p)), spread * rng.standard_normal(d) * output_bias
    return Network(A1, b1, A2, b2, rng.standard_normal((n, q)), noise, seed)


def sines(found, truth):
    """Sines of the angles between columns, those of ``found`` in the order that fits best, and that order."""
    found, truth = (M / np.linalg.norm(M, axis=0) for M in (found, truth))
    order = linear_sum_assignment(-np.abs(truth.T @ found))[1]
    return np.linalg.norm(found[:, order] * np.sign((found[:, order] * truth).sum(axis=0)) - truth, axis=0), order


def nearest_sine(columns, truth):
    """Sine between each column and the column of ``truth`` nearest to it."""
    columns, truth = (M / np.linalg.norm(M, axis=0) for M in (columns, truth))
    nearest = truth[:, (truth.T @ columns).argmax(axis=0)]
    return np.linalg.norm(columns - nearest, axis=0)


def affine_error(found, truth):
    """What the best affine map of ``found`` leaves of ``truth``, relative."""
    extended = np.column_stack([found, np.ones(len(found))])
    left = truth - extended @ np.linalg.lstsq(extended, truth)[0]
    return float(np.linalg.norm(left) / np.linalg.norm(truth))


def inputs_by_row(heights, weights, bias, worst=1e4):
    """z row by row, by least squares over the units that are on; NaN where these do not determine it."""
    scale = np.sqrt((weights**2).mean(axis=0))
    z = np.full((len(heights), weights.shape[1]), np.nan)
    for i, row in enumerate(heights):
        on = row > 0.0
        values = np.linalg.svd(weights[on] / scale, compute_uv=False) if on.any() else np.zeros(0)
        if len(values) == len(scale) and values[-1] > values[0] / worst:
            z[i] = np.linalg.lstsq(weights[on] / scale, row[on] - bias[on])[0] / scale
    return z


def nearest_inputs(row, network, start):
    """z whose outputs are nearest to a row, as SciPy's least squares finds it from ``start``."""

    def left(z):
        T = np.maximum(z @ network.A1.T + network.b1, 0.0) @ network.A2.T + network.b2
        return np.where(row > 0.0, row - T, -np.maximum(T, 0.0))

    return least_squares(left, start, xtol=1e-14, ftol=1e-14, gtol=1e-14).x
