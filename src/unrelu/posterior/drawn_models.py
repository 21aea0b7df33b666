"""Models drawn from the uncertainty of a fit: what proper imputations (Rubin 1987) are drawn from.

A fit gives every column a covariance of its mean and scale, every pair a standard error of its correlation. Were all
cells seen, n rows would leave, in units of the scales and with R^(1/2) the symmetric root of the correlations,

    R^(1/2) g / sqrt(n)            for the means, g independent standard normals,
    R^(1/2) G R^(1/2) / sqrt(n)    for the covariances, G symmetric and normal, its diagonal twice as variable.

Hidden cells add to that. Correlations are drawn as those of R^(1/2) exp(D^(1/2) G D^(1/2) / sqrt(n)) R^(1/2), which is
definite wherever R is, and for two columns is a normal step of Fisher's z; D makes the first-order errors of a column's
correlations, on average over its pairs, those of the fit. Means and log scales take from the draw of complete rows as
much as these explain of their error, and the rest from normals of their own, so that they have the fit's covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import BoolArray, FloatArray

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian

_ROUNDS, _SETTLED = 30, 1e-3
_MOST = 0.5  # d D / n: what is less certain than that says nothing, and exp would go astray
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class UncertainModel:
    """A model of latent values, learned from ``n_rows`` rows, and its errors.

    ``bias_scale_covariance`` is d x 2 x 2, of (bias, scale); ``correlation_stderr`` is d x d, NaN where nothing is
    known of a pair.

    >>> from unrelu.model import RectifiedGaussian
    >>> model = RectifiedGaussian([0.0, 1.0], [[1.0, 0.5], [0.5, 1.0]])
    >>> errors = np.array([np.diag([0.01, 0.005])] * 2), np.array([[0.0, 0.075], [0.075, 0.0]])
    >>> uncertain = UncertainModel(model, *errors, n_rows=100.0)
    >>> draws = [uncertain.drawn(np.random.default_rng(seed)) for seed in range(400)]
    >>> np.std([draw.correlation[0, 1] for draw in draws]).round(2), np.std([draw.bias[0] for draw in draws]).round(1)
    (np.float64(0.08), np.float64(0.1))
    """

    model: RectifiedGaussian
    bias_scale_covariance: FloatArray
    correlation_stderr: FloatArray
    n_rows: float

    @property
    def is_known(self) -> bool:
        """Whether every column has errors."""
        return bool(np.isfinite(self.bias_scale_covariance[self._varying]).all())

    def drawn(self, rng: np.random.Generator) -> RectifiedGaussian:
        """One model, whose rows are completed by its own covariance."""
        at, n = self._varying, self.n_rows
        d = int(at.sum())
        if d == 0:
            return self.model
        g = rng.standard_normal((d, d))
        step = (g + g.T) * np.sqrt(np.outer(self._inflation, self._inflation) / (2.0 * n))
        values, vectors = np.linalg.eigh(step)
        covariance = self._root @ ((vectors * np.exp(values)) @ vectors.T) @ self._root
        size = np.sqrt(np.diagonal(covariance))
        correlation = covariance / np.outer(size, size)
        mean, spread = self._root @ rng.standard_normal(d), np.diagonal(self._root @ step @ self._root)
        spread = spread / (np.diagonal(self._spread) * np.sqrt(2.0 / n))
        own = rng.standard_normal((2, d))
        shared = self._shared
        u = np.sqrt(shared) * np.stack([mean, spread]) + np.sqrt(1.0 - shared) * own
        (a, c), b = self._errors
        bias, scale = self.model.bias.copy(), self.model.row_norms.copy()
        bias[at] += a * u[0] + b * u[1]
        scale[at] *= np.exp(c * u[1])
        whole = np.zeros_like(self.model.covariance)
        whole[np.ix_(at, at)] = correlation * np.outer(scale[at], scale[at])
        return self.model.with_parts(bias=bias, covariance=whole, scoring_covariance=None)

    @cached_property
    def _varying(self) -> BoolArray:
        return np.asarray(self.model.row_norms > 0.0)

    @cached_property
    def _correlation(self) -> FloatArray:
        """Of the columns that vary, as rows are completed by them."""
        at = self._varying
        return self.model.scoring.correlation[np.ix_(at, at)]

    @cached_property
    def _root(self) -> FloatArray:
        values, vectors = np.linalg.eigh(self._correlation)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    @cached_property
    def _errors(self) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
        """((a, c), b): bias + a u + b v and scale exp(c v) of independent standard normals have the fit's errors."""
        at = self._varying
        v, scale = self.bias_scale_covariance[at], self.model.row_norms[at]
        c = np.sqrt(v[:, 1, 1]) / scale
        b = np.divide(v[:, 0, 1] / scale, c, out=np.zeros_like(c), where=c > 0.0)
        return (np.sqrt(np.maximum(v[:, 0, 0] - b * b, 0.0)), c), b

    @cached_property
    def _shared(self) -> FloatArray:
        """2 x d: how much of the variances of mean and log scale complete rows would have."""
        at = self._varying
        variance = self.bias_scale_covariance[at]
        complete = self.model.row_norms[at] ** 2 / self.n_rows
        parts = complete / np.maximum(variance[:, 0, 0], _LEAST * complete)
        scales = 0.5 * complete / np.maximum(variance[:, 1, 1], _LEAST * complete)
        return np.minimum(np.stack([parts, scales]), 1.0)

    @property
    def _spread(self) -> FloatArray:
        """R^(1/2) D R^(1/2): covariances of R^(1/2) D^(1/2) G D^(1/2) R^(1/2) are those of a Wishart matrix of it."""
        return np.asarray(self._root @ (self._inflation[:, None] * self._root))

    @cached_property
    def _inflation(self) -> FloatArray:
        """D, one number per column."""
        at, r = self._varying, self._correlation
        d, inflation = len(r), np.ones(len(r))
        if d == 1:
            return inflation
        wanted = self.n_rows * np.nan_to_num(self.correlation_stderr[np.ix_(at, at)], nan=1.0) ** 2
        for _ in range(_ROUNDS):
            n = self._root @ (inflation[:, None] * self._root)
            own, other = np.diagonal(n)[:, None], np.diagonal(n)[None]
            # Of H_ij - r_ij (H_ii + H_jj) / 2, with covariances N_ik N_jl + N_il N_jk of H_ij and H_kl.
            variance = (
                own * other + n * n + 0.5 * r * r * (own**2 + other**2 + 2.0 * n * n) - 2.0 * r * n * (own + other)
            )
            ratio = np.log(np.maximum(wanted, _LEAST) / np.maximum(variance, _LEAST))
            np.fill_diagonal(ratio, 0.0)
            change = 0.5 * ratio.sum(axis=1) / (d - 1)
            inflation *= np.exp(np.clip(change, -1.0, 1.0))
            if np.abs(change).max() < _SETTLED:
                break
        return np.asarray(np.minimum(inflation, max(_MOST * self.n_rows / d, _LEAST)))
