"""The law of a squared error: a sum of chi-squares, known by its first three cumulants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri

from unrelu.contracts import FloatArray

Influences: TypeAlias = tuple[FloatArray, FloatArray]
"""Of n rows on some parameters, n x q, and their q exact variances."""


_LEVELS = 10_000
_TINY = 1e-300  # instead of 0, where a parameter has no error


@dataclass(frozen=True)
class SquaredError:
    """The law of n error^2 = |Z|^2, Z ~ N(0, C): ``trace``, ``square`` and ``cube`` are tr C, tr C^2 and tr C^3.

    The cumulants are tr C, 2 tr C^2 and 8 tr C^3. A chi-square of f degrees, shifted and scaled, has the same three
    (Pearson's approximation, in Imhof 1961):

        tr C + (tr C^3 / tr C^2) (chi^2_f - f),    f = (tr C^2)^3 / (tr C^3)^2,

    exact where C's nonzero eigenvalues are equal, else right to 3 % from the .7-quantile on (6 % at the median).

    >>> law = SquaredError(1.0, 1.0, 1.0)  # one eigenvalue, 1
    >>> round(float(law.quantile(0.95)), 3), round(law.mean_root(), 3)
    (3.841, 0.798)
    """

    trace: float
    square: float
    cube: float

    @classmethod
    def of_influences(cls, batches: Iterable[Influences], weight: FloatArray) -> SquaredError:
        """From the influences of independent rows with importance weights, and each influence's exact variance.

        With G_kl = H_k'H_l of rows k, l, E[G_kl^2] = tr C^2 and E[G_kl G_lm G_mk] = tr C^3 for distinct k, l, m:
        averages whatever the number of parameters. The draws are used for correlations only, every influence scaled to
        its exact variance; and what C's diagonal contributes is exact, sum C_aa^2 and sum C_aa^3. So rare and large
        influences count even where the draws have missed them.
        """
        n = len(weight)
        pairs, triples = n * (n - 1), n * (n - 1) * (n - 2)
        gram = np.zeros((n, n))
        trace = exact2 = exact3 = drawn2 = drawn3 = 0.0
        for influences, variances in batches:
            h = influences * np.sqrt(variances / np.maximum(weight @ influences**2 / n, _TINY))
            gram += h @ h.T
            trace += float(np.sum(variances))
            exact2 += float(np.sum(variances**2))
            exact3 += float(np.sum(variances**3))
            h2 = h**2 * weight[:, None]
            p1, p2, p3 = h2.sum(axis=0), (h2**2).sum(axis=0), (h2**3).sum(axis=0)
            drawn2 += float(np.sum(p1**2 - p2)) / pairs  # sums over distinct rows, from power sums
            drawn3 += float(np.sum(p1**3 - 3.0 * p1 * p2 + 2.0 * p3)) / triples
        gram *= np.sqrt(np.outer(weight, weight))
        np.fill_diagonal(gram, 0.0)
        square = exact2 + max(float(np.sum(gram**2)) / pairs - drawn2, 0.0)
        cube = exact3 + float(np.sum((gram @ gram) * gram)) / triples - drawn3
        # Any C keeps to these bounds (Cauchy-Schwarz); averages over draws may miss them by a little.
        square = min(square, trace**2)
        return cls(trace, square, min(max(cube, square**2 / trace), square**1.5))

    def with_trace(self, trace: float) -> SquaredError:
        """The law of the same shape with another mean."""
        k = trace / self.trace
        return SquaredError(trace, k**2 * self.square, k**3 * self.cube)

    def quantile(self, probability: ArrayLike) -> FloatArray:
        degrees = self.square**3 / self.cube**2
        unit = self.cube / self.square
        chi2 = chdtri(degrees, 1.0 - np.asarray(probability, dtype=np.float64))
        return np.asarray(np.maximum(self.trace + unit * (chi2 - degrees), 0.0))  # below 0 by rounding only

    def mean_root(self, n: float = 1.0, fixed: float = 0.0) -> float:
        """E[error] at n rows, error^2 = |Z|^2 / n + fixed: the average of the quantiles' roots."""
        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        return float(np.mean(np.sqrt(self.quantile(levels) / n + fixed)))
