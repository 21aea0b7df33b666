"""Estimates of latent moments against the true ones, in numbers without units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.distribution import RectifiedGaussian


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and standard deviation per column, and correlations."""

    mean: FloatArray
    std: FloatArray
    correlation: FloatArray

    @classmethod
    def of_rows(cls, rows: FloatArray) -> Moments:
        """The plain sample moments, by np.mean and np.cov."""
        covariance = np.atleast_2d(np.cov(rows, rowvar=False))
        std = np.sqrt(covariance.diagonal())
        return cls(rows.mean(axis=0), std, covariance / std[:, None] / std)

    @classmethod
    def of_model(cls, model: RectifiedGaussian) -> Moments:
        """The latent moments: those of y, where the model is of x = max(y, floor)."""
        return cls(model.bias, model.row_norms, model.correlation)


@dataclass(frozen=True)
class MomentErrors:
    """Root mean squared errors. Those of mean and std are in units of each column's true std."""

    mean: float
    std: float
    correlation: float


def moment_errors(estimate: Moments, true: Moments) -> MomentErrors:
    """How far ``estimate`` is from ``true``; correlations count once per pair (0 for a single column).

    >>> true = Moments(np.zeros(2), np.full(2, 2.0), np.eye(2))
    >>> moment_errors(Moments(np.ones(2), np.ones(2), np.full((2, 2), 0.3)), true)
    MomentErrors(mean=0.5, std=0.5, correlation=0.3)
    """
    pairs = np.triu_indices(len(true.mean), 1)
    return MomentErrors(
        _rms((estimate.mean - true.mean) / true.std),
        _rms((estimate.std - true.std) / true.std),
        _rms((estimate.correlation - true.correlation)[pairs]) if len(pairs[0]) else 0.0,
    )


def mean_absolute_skewness(rows: FloatArray) -> float:
    """How lopsided the columns are on average; 0 for a normal distribution."""
    centred = rows - rows.mean(axis=0)
    third, second = np.mean(centred**3, axis=0), np.mean(centred**2, axis=0)
    return float(np.mean(np.abs(third / second**1.5)))


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))
