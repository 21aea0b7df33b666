"""Tables x = f(y) cut off at a floor, y normal with the covariance of a few factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri, stdtrit

from unrelu.contracts import FloatArray

D, FACTORS = 14, 3
FLOORED = (0.2, 0.6)  # shares of the columns, from the first to the last before they are shuffled

MARGINS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "lognormal": lambda y: np.exp(0.8 * y),
    "gamma-like": lambda y: gammaincinv(2.0, ndtr(y)),  # a gamma distribution with shape parameter 2
    "bounded": lambda y: ndtr(1.5 * y),  # within 0 and 1, dense at both ends
    "heavy-tailed": lambda y: stdtrit(3.0, ndtr(y)),  # Student's t with 3 degrees of freedom
}


@dataclass(frozen=True, eq=False)
class Table:
    """Latent values before the cut, the level of each column's cut, and the true correlations."""

    y: FloatArray
    level: FloatArray
    correlation: FloatArray

    @property
    def latent(self) -> FloatArray:
        return np.maximum(self.y, self.level)

    def with_margins(self, names: list[str]) -> tuple[FloatArray, FloatArray]:
        """(table in the user's units, its floors), each column by the margin of that name."""
        x = np.column_stack([MARGINS[name](self.latent[:, j]) for j, name in enumerate(names)])
        floor = np.array([MARGINS[name](self.level[j : j + 1])[0] for j, name in enumerate(names)])
        return np.maximum(x, floor), floor


def draw(n: int, seed: int, d: int = D) -> Table:
    rng = np.random.default_rng([seed, n, d])
    loadings = rng.standard_normal((d, FACTORS)) * rng.uniform(0.3, 1.0, (d, 1))
    covariance = loadings @ loadings.T + np.diag(rng.uniform(0.3, 1.5, d))
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    level = ndtri(rng.permutation(np.linspace(*FLOORED, d)))
    return Table(rng.standard_normal((n, d)) @ np.linalg.cholesky(correlation).T, level, correlation)
