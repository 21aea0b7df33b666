"""The models that accuracy and calibration are measured on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from unrelu import RectifiedGaussian

D = 20
N = 5000


def signed_means(rng: np.random.Generator) -> RectifiedGaussian:
    """Random directions and standard deviations; means N(0, 1) in standard deviations, cut at two so that every
    column is sometimes seen."""
    weights = rng.standard_normal((D, D)) / np.sqrt(D)
    mean = np.clip(rng.standard_normal(D), -2.0, 2.0) * np.linalg.norm(weights, axis=1)
    return RectifiedGaussian.from_weights(weights, mean)


def strong_correlations(rng: np.random.Generator) -> RectifiedGaussian:
    """Every correlation is .9 or -.9; means of both signs, as above."""
    sign = rng.choice([-1.0, 1.0], D)
    correlation = 0.9 * np.outer(sign, sign) + 0.1 * np.eye(D)
    return RectifiedGaussian(np.clip(rng.standard_normal(D), -2.0, 2.0), correlation)


def many_zeros(rng: np.random.Generator) -> RectifiedGaussian:
    """Nine values in ten are floored."""
    weights = rng.standard_normal((D, D))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return RectifiedGaussian.from_weights(weights, np.full(D, norm.ppf(0.1)))


SETTINGS: dict[str, Callable[[np.random.Generator], RectifiedGaussian]] = {
    "signed means": signed_means,
    "|correlation| .9": strong_correlations,
    "90 % zeros": many_zeros,
}


def draw(name: str, repetition: int) -> tuple[RectifiedGaussian, NDArray[np.float64]]:
    """A true model and N rows of it."""
    rng = np.random.default_rng([repetition, *name.encode()])
    truth = SETTINGS[name](rng)
    return truth, truth.sample(N, random_state=rng)
