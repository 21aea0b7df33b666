"""The two methods side by side: robust, and program (47) of Mazumdar and Rawat (2018) as written."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.recovery.latent.contracts import LatentMethod, LatentResult, Layer
from unrelu.recovery.latent.lasso import mean_slope, penalty_rule, solve_lasso
from unrelu.recovery.latent.priors import NoPrior, Prior, prior_name, prior_named
from unrelu.recovery.latent.robust import recover_robustly
from unrelu.validation import check_choice, check_positive

_OFF = 1e-6  # share of outputs that are on
_NAMES = ("robust", "lasso")


@dataclass(frozen=True)
class RobustLatent:
    """The default: the lowest optimum of a bounded loss, then least squares on what agrees with it.

    ``prior`` says what is known of c; ``noise_scale`` is the standard deviation of w where it is known.

    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b, c = rng.standard_normal((60, 3)), rng.standard_normal(60), np.array([0.6, -0.8, 0.1])
    >>> v = np.maximum(A @ c + b, 0.0)
    >>> v[:20] += 5.0
    >>> result = unrelu.recover_latent(A, b, v)
    >>> result.latent.round(6), result.inliers[:20].any()
    (array([ 0.6, -0.8,  0.1]), np.False_)
    """

    prior: Prior = field(default_factory=NoPrior)
    noise_scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", prior_named(self.prior))
        if self.noise_scale is not None:
            check_positive("noise_scale", self.noise_scale)

    def check(self, layer: Layer) -> None:
        d, k = layer.weights.shape
        if self.prior.proper:
            return
        if d < k:
            raise InvalidParameterError(
                f"weights has fewer rows ({d}) than columns ({k}): that many latent numbers cannot be told from so few"
                " outputs. Give a prior, such as prior='gaussian'."
            )
        rank = int(np.linalg.matrix_rank(layer.weights))
        if rank < k:
            raise InvalidParameterError(
                f"weights has rank {rank}, less than its {k} columns: latent vectors that differ give the same output."
                " Drop dependent columns, or give a prior, such as prior='gaussian'."
            )

    def least_entries(self, layer: Layer) -> int:
        return 1 if self.prior.proper else layer.weights.shape[1]

    def recover(self, layer: Layer, v: FloatArray, seed: int) -> LatentResult:
        found = recover_robustly(layer.weights, layer.bias, v, self.prior, self.noise_scale, seed)
        clean = layer.output(found.latent)
        outliers = np.where(np.isnan(v), np.nan, np.where(found.inliers, 0.0, v - clean))
        return LatentResult(
            found.latent,
            clean,
            outliers,
            found.inliers,
            found.noise_scale,
            found.covariance,
            found.rival is None,
            found.rival,
        )


@dataclass(frozen=True)
class LatentLasso:
    """Program (47) of Mazumdar and Rawat, as written: the layer taken for a linear one, c found up to the factor mu.

    ``penalty`` is lambda, by default the rule of Theorem 4 for entries of A that are standard normal, |c| = ``norm``
    and noise of at most ``noise_bound``. ``intercept`` takes the mean of ReLU(A c + b) - mu A c out of the outliers.

    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b, c = rng.standard_normal((2000, 3)), rng.standard_normal(2000), np.array([0.6, 0.0, 0.8])
    >>> result = unrelu.recover_latent(A, b, np.maximum(A @ c + b, 0.0), method="lasso")
    >>> bool(np.abs(result.latent - c).max() < 0.15)
    True
    """

    penalty: float | None = None
    intercept: bool = False
    norm: float = 1.0
    noise_bound: float = 0.0

    def __post_init__(self) -> None:
        check_positive("norm", self.norm)
        if self.penalty is not None:
            check_positive("penalty", self.penalty)
        if not (isinstance(self.noise_bound, Real) and 0.0 <= float(self.noise_bound) < math.inf):
            raise InvalidParameterError(f"noise_bound must be a finite number of 0 or more, got {self.noise_bound!r}.")

    def check(self, layer: Layer) -> None:
        RobustLatent().check(layer)

    def least_entries(self, layer: Layer) -> int:  # noqa: ARG002 - it does not depend on the layer
        return 1

    def recover(self, layer: Layer, v: FloatArray, seed: int) -> LatentResult:  # noqa: ARG002 - nothing is drawn
        seen = ~np.isnan(v)
        weights, bias = layer.weights[seen], layer.bias[seen]
        slope = mean_slope(bias, self.norm)
        if np.linalg.matrix_rank(weights) < weights.shape[1]:
            raise InvalidDataError(
                f"The {seen.sum()} entries that are seen do not determine {weights.shape[1]} numbers."
            )
        if slope < _OFF:
            raise InvalidDataError("The layer is off nearly everywhere: its outputs say nothing of c to a linear fit.")
        penalty = self.penalty or penalty_rule(bias, self.norm, self.noise_bound)
        solved = solve_lasso(weights, v[seen], penalty, self.intercept)
        latent = solved.c / slope
        outliers = np.full(len(v), np.nan)
        outliers[seen] = solved.e
        inliers = seen & (outliers == 0.0)
        clean = layer.output(latent)
        left = (v[seen] - weights @ solved.c - solved.intercept)[solved.e == 0.0]
        scale = float(np.sqrt((left**2).mean())) if len(left) else math.nan
        gram = weights[solved.e == 0.0].T @ weights[solved.e == 0.0]
        covariance = (scale / slope) ** 2 * np.linalg.pinv(gram, hermitian=True)
        return LatentResult(latent, clean, outliers, inliers, scale, np.asarray(covariance), True, None)


def latent_method(method: str | LatentMethod, prior: str | Prior | None = None) -> LatentMethod:
    """The method of that name with this prior, or the object itself, which has its own."""
    known = prior_named(prior)
    if not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "recover"):
            raise InvalidParameterError(
                f"method must be one of {', '.join(_NAMES)} or an object of unrelu.recovery, got {method!r}."
            )
        if prior is not None:
            raise InvalidParameterError("Give the prior to the method's object, as RobustLatent(prior), not beside it.")
        return method
    check_choice("method", method, _NAMES)
    if method == "robust":
        return RobustLatent(known)
    if prior is not None:
        raise InvalidParameterError("method='lasso' takes no prior: leave it out, or use method='robust'.")
    return LatentLasso()


def method_name(method: LatentMethod) -> str:
    """What reports call a method: its name, or its class's."""
    names = {RobustLatent: "robust", LatentLasso: "lasso"}
    return names.get(type(method), type(method).__name__.lower())


def prior_of(method: LatentMethod) -> str:
    """The name of a method's prior."""
    return prior_name(getattr(method, "prior", None))
