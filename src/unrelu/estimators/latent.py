"""recover_latent, ReLULatentRecovery and recall: latent vectors of corrupted outputs of a known layer.

The mathematics is in :mod:`unrelu.recovery.latent`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unrelu.contracts import BoolArray, FloatArray
from unrelu.distribution import RectifiedGaussian, generator
from unrelu.errors import AmbiguousOptimumWarning, InvalidDataError, InvalidParameterError
from unrelu.estimators.matrix import ReLUMatrixRecovery
from unrelu.recovery.latent.priors import Prior, prior_named
from unrelu.recovery.latent.recover import LatentLasso, LatentMethod, LatentResult, Layer, RobustLatent, recover_rows
from unrelu.validation import check_choice, floor_per_column, listed, warn

_NAMES = ("robust", "lasso")


def recover_latent(
    weights: ArrayLike,
    bias: ArrayLike,
    v: ArrayLike,
    method: str | LatentMethod = "robust",
    *,
    prior: str | Prior | None = None,
    floor: float = 0.0,
    random_state: Any = 0,
) -> LatentResult:
    """Recover c from v = max(floor, A c + b) + e + w, e sparse and large, w small.

    ``weights`` is A (d x k), ``bias`` is b, ``v`` one output of length d with NaN where it is missing. ``method`` is
    "robust", "lasso" (program (47) of Mazumdar and Rawat) or an object of :mod:`unrelu.recovery`; ``prior`` for the
    robust one None, "gaussian", "sparse", "nonnegative" or an object. Where another vector explains v as well, a
    warning says so and the result has both.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b, c = rng.standard_normal((80, 4)), rng.standard_normal(80), np.array([0.5, -0.5, 0.5, 0.5])
    >>> v = np.maximum(A @ c + b, 0.0) + 0.01 * rng.standard_normal(80)
    >>> v[:16] = 7.0
    >>> result = unrelu.recover_latent(A, b, v)
    >>> bool(np.abs(result.latent - c).max() < 0.02), bool(result.inliers[:16].any())
    (True, False)
    """
    recovery = ReLULatentRecovery(weights, bias, method, prior=prior, floor=floor, random_state=random_state)
    vector = _numbers("v", v)
    if vector.ndim != 1:
        raise InvalidDataError(
            f"v must be one vector, got an array of shape {vector.shape}: ReLULatentRecovery takes tables."
        )
    return recovery.recover(vector[None])[0]


class ReLULatentRecovery(TransformerMixin, BaseEstimator):
    """Latent vectors of many corrupted outputs of one layer: v = max(floor, A c + b) + e + w, row by row.

    Parameters
    ----------
    weights : array of shape (d, k)
        A: one row per output.
    bias : array of shape (d,)
        b, measured from zero as the outputs are.
    method : str or object from :mod:`unrelu.recovery`, default="robust"
        "robust": outliers up to nearly half of the entries, at the accuracy of someone who knows which they are.
        "lasso": program (47) of Mazumdar and Rawat, as written.
    prior : None, "gaussian", "sparse", "nonnegative" or object, default=None
        What is known of c. "gaussian" is c ~ N(0, I), as for the layers that RectifiedGaussianLearner learns.
    floor : float or one per output, default=0.0
        What the outputs are cut off at.
    random_state : int, Generator or None, default=0
        Seeds the search for starts; every row uses the same.

    Attributes
    ----------
    results_ : list of LatentResult
        Of the last table given to :meth:`transform` or :meth:`denoise`: everything about each row.
    outliers_ : array of bool
        Entries of that table that do not agree with their row's latent vector.

    Examples
    --------
    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b, C = rng.standard_normal((60, 3)), rng.standard_normal(60), rng.standard_normal((5, 3))
    >>> X = np.maximum(C @ A.T + b, 0.0)
    >>> V = np.where(rng.random(X.shape) < 0.2, 9.0, X)
    >>> memory = unrelu.ReLULatentRecovery(A, b)
    >>> bool(np.abs(memory.transform(V) - C).max() < 1e-6), bool(np.abs(memory.denoise(V) - X).max() < 1e-6)
    (True, True)
    """

    results_: list[LatentResult]
    outliers_: BoolArray

    def __init__(
        self,
        weights: ArrayLike,
        bias: ArrayLike,
        method: str | LatentMethod = "robust",
        *,
        prior: str | Prior | None = None,
        floor: ArrayLike = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.weights = weights
        self.bias = bias
        self.method = method
        self.prior = prior
        self.floor = floor
        self.random_state = random_state

    @classmethod
    def from_model(
        cls,
        model: Any,
        method: str | LatentMethod = "robust",
        *,
        rank: int | None = None,
        prior: str | Prior | None = "gaussian",
        random_state: Any = 0,
    ) -> Self:
        """The layer that a model describes: a RectifiedGaussian, a fitted learner of one, or a ReLUMatrixRecovery.

        ``rank`` cuts the former to that many latent dimensions; ``prior`` is for method="robust" only.

        >>> import numpy as np
        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian.from_weights(np.eye(3), np.ones(3))
        >>> unrelu.ReLULatentRecovery.from_model(model).weights.shape
        (3, 3)
        """
        known = prior if method == "robust" else None
        if isinstance(model, ReLUMatrixRecovery):
            check_is_fitted(model)
            floor, weights = np.array(model._assumptions().floor), model.components_.T.copy()
            return cls(weights, model.bias_, method, prior=known, floor=floor, random_state=random_state)
        law = getattr(model, "distribution_", model)
        if not isinstance(law, RectifiedGaussian):
            raise InvalidParameterError(
                f"No layer in {type(model).__name__}: give a RectifiedGaussian, a fitted RectifiedGaussianLearner or a"
                " fitted ReLUMatrixRecovery."
            )
        return cls(law.weights(rank), law.bias, method, prior=known, floor=law.floor, random_state=random_state)

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002 - nothing is learned
        """Check the parameters; nothing is learned from X."""
        self._checked_method().check(self._layer())
        return self

    def transform(self, V: ArrayLike) -> FloatArray:
        """Latent vectors, one row per row of V."""
        return np.stack([result.latent for result in self.recover(V)])

    def denoise(self, V: ArrayLike) -> FloatArray:
        """The outputs without noise and outliers: max(floor, A c + b)."""
        return np.stack([result.clean for result in self.recover(V)])

    def inverse_transform(self, C: ArrayLike) -> FloatArray:
        """The outputs of latent vectors."""
        layer, latent = self._layer(), _numbers("C", C)
        if latent.ndim != 2 or latent.shape[1] != layer.weights.shape[1]:
            raise InvalidDataError(
                f"Latent vectors of this layer have {layer.weights.shape[1]} entries; got shape {latent.shape}."
            )
        return layer.output(latent) + self._floor()

    def recover(self, V: ArrayLike) -> list[LatentResult]:
        """Everything about each row of V; also kept as :attr:`results_`."""
        layer, method, floor = self._layer(), self._checked_method(), self._floor()
        method.check(layer)
        table = _numbers("V", V)
        if table.ndim != 2 or table.shape[1] != len(layer.bias) or len(table) == 0:
            raise InvalidDataError(
                f"Outputs of this layer have {len(layer.bias)} entries; got an array of shape {table.shape}."
            )
        seed = int(generator(self.random_state).integers(2**31))
        found = recover_rows(layer, table - floor, method, seed)
        results = [replace(result, clean=result.clean + floor) for result in found]
        self.results_ = results
        self.outliers_ = np.stack(
            [~(result.inliers | np.isnan(row)) for result, row in zip(results, table, strict=True)]
        )
        _warn(results)
        return results

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _layer(self) -> Layer:
        weights, bias = _numbers("weights", self.weights), _numbers("bias", self.bias)
        if weights.ndim != 2 or 0 in weights.shape:
            raise InvalidParameterError(f"weights must be a d x k array, got shape {weights.shape}.")
        if bias.shape != (len(weights),):
            raise InvalidParameterError(
                f"bias must have one number per row of weights ({len(weights)}), got {bias.shape}."
            )
        for name, values in (("weights", weights), ("bias", bias)):
            if not np.isfinite(values).all():
                raise InvalidParameterError(f"{name} must be finite, but holds NaN or infinite values.")
        return Layer(np.ascontiguousarray(weights), bias - floor_per_column(self.floor, len(bias)))

    def _floor(self) -> FloatArray:
        return floor_per_column(self.floor, len(_numbers("bias", self.bias)))

    def _checked_method(self) -> LatentMethod:
        prior = prior_named(self.prior)
        if not isinstance(self.method, str):
            if isinstance(self.method, type) or not hasattr(self.method, "recover"):
                raise InvalidParameterError(
                    f"method must be one of {', '.join(_NAMES)} or an object of unrelu.recovery, got {self.method!r}."
                )
            if self.prior is not None:
                raise InvalidParameterError(
                    "Give the prior to the method's object, as RobustLatent(prior), not beside it."
                )
            return self.method
        check_choice("method", self.method, _NAMES)
        if self.method == "lasso":
            if self.prior is not None:
                raise InvalidParameterError("method='lasso' takes no prior: leave it out, or use method='robust'.")
            return LatentLasso()
        return RobustLatent(prior)


def recall(
    model: Any,
    V: ArrayLike,
    method: str | LatentMethod = "robust",
    *,
    rank: int | None = None,
    prior: str | Prior | None = "gaussian",
    random_state: Any = 0,
) -> FloatArray:
    """Associative memory: the rows of V as the model would have them, corrupted entries corrected, missing ones filled.

    ``model`` is what was learned from clean or slightly dirty rows: a RectifiedGaussian, a fitted learner of one, or a
    ReLUMatrixRecovery; ``rank`` cuts the former to that many latent dimensions.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b = rng.standard_normal((3, 40)), 0.3 * rng.standard_normal(40)
    >>> X = np.maximum(rng.standard_normal((300, 3)) @ A + b, 0.0)
    >>> memory = unrelu.ReLUMatrixRecovery(3).fit(X[:290])
    >>> V = np.where(rng.random((10, 40)) < 0.2, 8.0, X[290:])
    >>> bool(np.abs(unrelu.recall(memory, V) - X[290:]).max() < 0.01)
    True
    """
    memory = ReLULatentRecovery.from_model(model, method, rank=rank, prior=prior, random_state=random_state)
    return memory.denoise(V)


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidDataError(f"{name} must be an array of numbers: {error}.") from error


def _warn(results: list[LatentResult]) -> None:
    unsure = [i for i, result in enumerate(results) if not result.unambiguous]
    if unsure:
        rows = "v" if len(results) == 1 else f"rows {listed([str(i) for i in unsure])}"
        warn(
            f"Two latent vectors explain {rows} about equally well: the result has both, as latent and rival.",
            AmbiguousOptimumWarning,
        )
