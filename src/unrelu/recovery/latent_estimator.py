"""recover_latent, ReLULatentRecovery and denoise: latent vectors of corrupted outputs of a given layer.

The mathematics is in :mod:`unrelu.recovery.latent_methods`. The bias b is the mean of a model of the core.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.estimators import Columns, FloorEstimator, Table, checked_tolerance
from unrelu.limits import floor_per_column
from unrelu.model import RectifiedGaussian
from unrelu.passes import all_values
from unrelu.recovery.latent_methods import LatentMethod, LatentResult, Prior, latent_method, names_of
from unrelu.recovery.latent_rows import LatentReport, LatentRows, recover_rows
from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery
from unrelu.validation import generator, row_labels, warn


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
    >>> A, b = rng.standard_normal((80, 4)), rng.standard_normal(80)
    >>> c = np.array([0.5, -0.5, 0.5, 0.5])
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
    result = recovery.recover(vector[None])[0]
    assert result is not None  # the only row is not skipped
    return result


class ReLULatentRecovery(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FloorEstimator):
    """Latent vectors of many corrupted outputs of one layer: v = max(floor, A c + b) + e + w, row by row.

    Parameters
    ----------
    weights : array of shape (d, k) or None, default=None
        A: one row per output. None: :meth:`fit` learns A and b from a table of clean outputs.
    bias : array of shape (d,) or None, default=None
        b, measured from zero as the outputs are.
    method : str or object from :mod:`unrelu.recovery`, default="robust"
        "robust": outliers up to nearly half of the entries, as accurate as least squares on the others alone.
        "lasso": program (47) of Mazumdar and Rawat, as written.
    prior : None, "gaussian", "sparse", "nonnegative" or object, default=None
        The prior distribution of c. "gaussian" is c ~ N(0, I), as for the layers that RectifiedGaussianLearner learns.
    n_components : int or "auto", default="auto"
        Latent numbers of a layer that is learned, as for :class:`unrelu.ReLUMatrixRecovery`.
    floor : float or one per output, default=0.0
        What the outputs are cut off at.
    floor_tolerance : float, default=0.0
        Entries within it of the floor, above or below, count as floored; 0 leaves it to the noise's scale.
    random_state : int, Generator or None, default=0
        Seeds the search for starts; every row uses the same.

    Attributes
    ----------
    weights_, bias_ : arrays of shape (d, k) and (d,)
        The layer, given or learned. One that is given needs no :meth:`fit`.
    report_ : LatentReport
        What is used, and the size of the table that was seen by :meth:`fit`, which recovers no row.
    n_features_in_, feature_names_in_ : int, array
        The outputs, and their names where they have any.

    Examples
    --------
    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b, C = rng.standard_normal((60, 3)), rng.standard_normal(60), rng.standard_normal((5, 3))
    >>> X = np.maximum(C @ A.T + b, 0.0)
    >>> V = np.where(rng.random(X.shape) < 0.2, 9.0, X)
    >>> memory = unrelu.ReLULatentRecovery(A, b)
    >>> np.allclose(memory.transform(V), C, atol=1e-6), np.allclose(memory.denoise(V), X, atol=1e-6)
    (True, True)
    """

    _no_weights = "every row is recovered by itself. Leave out rows that are not to be recovered."
    weights_: FloatArray
    bias_: FloatArray
    report_: LatentReport

    def __init__(
        self,
        weights: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        method: str | LatentMethod = "robust",
        *,
        prior: str | Prior | None = None,
        n_components: int | str = "auto",
        floor: ArrayLike = 0.0,
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.weights = weights
        self.bias = bias
        self.method = method
        self.prior = prior
        self.n_components = n_components
        self.floor = floor
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    @classmethod
    def from_model(
        cls,
        model: Any,
        method: str | LatentMethod = "robust",
        *,
        n_components: int | None = None,
        prior: str | Prior | None = "gaussian",
        random_state: Any = 0,
    ) -> Self:
        """The layer that a model describes: a RectifiedGaussian, a fitted learner of one, or a ReLUMatrixRecovery.

        ``n_components`` cuts the former to that many latent dimensions; ``prior`` is for method="robust" only.

        >>> import numpy as np
        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian.from_weights(np.eye(3), np.ones(3))
        >>> unrelu.ReLULatentRecovery.from_model(model).weights.shape
        (3, 3)
        """
        own_prior = prior if method == "robust" else None
        distribution = getattr(model, "distribution_", model)
        holder, name = (distribution, "margins") if isinstance(distribution, RectifiedGaussian) else (model, "margins_")
        if getattr(holder, name, None) is not None:
            raise InvalidParameterError(
                "The columns of this model have margins of their own, and a layer has none: give the latent part of a"
                " RectifiedGaussian, model.latent, and rows as model.to_latent(X)."
            )
        if isinstance(model, ReLUMatrixRecovery):
            weights = model.components_.T.copy()
            return cls(weights, model.bias_, method, prior=own_prior, floor=model.floor_, random_state=random_state)
        if not isinstance(distribution, RectifiedGaussian):
            raise InvalidParameterError(
                f"No layer in {type(model).__name__}: give a RectifiedGaussian, a fitted RectifiedGaussianLearner or a"
                " fitted ReLUMatrixRecovery."
            )
        weights = distribution.weights(n_components)
        options: dict[str, Any] = {"prior": own_prior, "floor": distribution.floor, "random_state": random_state}
        return cls(weights, distribution.mean, method, **options)

    def fit(self, X: Table | None = None, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's
        """Check the layer and the other parameters, and X where given, or learn the layer from X.

        >>> import numpy as np
        >>> import unrelu
        >>> T = np.outer(np.linspace(-1.0, 2.0, 40), [1.0, 2.0, -1.0, 0.5, 1.5]) + 0.3
        >>> memory = unrelu.ReLULatentRecovery(n_components=1).fit(np.maximum(T, 0.0))
        >>> memory.denoise([[1.3, 2.3, 0.0, 9.0, 1.8]]).round(6)
        array([[1.3, 2.3, 0. , 0.8, 1.8]])
        """
        method = latent_method(self.method, self.prior)
        generator(self.random_state)
        if (self.weights is None) != (self.bias is None):
            raise InvalidParameterError("weights and bias are one layer: give both, or neither and let fit learn it.")
        if self.weights is not None:
            self.weights_, self.bias_ = check_layer(self.weights, self.bias)
            self.n_features_in_ = len(self.bias_)
        elif X is None:
            raise InvalidDataError("No layer to check: give weights and bias, or fit a table to learn them from.")
        else:  # A and b behind clean outputs, up to the convention for C: mean 0 and covariance I
            options = {name: getattr(self, name) for name in ("floor", "floor_tolerance", "random_state")}
            learned = ReLUMatrixRecovery(self.n_components, **options).with_progress(self._progress).fit(X)
            self.weights_, self.bias_ = np.ascontiguousarray(learned.components_.T), learned.bias_
            self.n_features_in_ = learned.n_features_in_
        self._columns = self._own_columns()
        method.check(self.weights_)
        (d, k), (name, prior), n, missing = self.weights_.shape, names_of(method), 0, 0.0
        if X is not None:
            rows = self._whole(X, reset=True, smallest=1)
            if self.n_features_in_ != d:
                raise InvalidDataError(f"Outputs of this layer have {d} entries; got {self.n_features_in_} columns.")
            values = all_values(rows)
            n, missing = len(values), float(np.isnan(values).mean())
            self._columns = replace(self._columns, names=self._names())
        self.report_ = LatentReport(name, prior, n, d, k, 0.0, missing, None, (), ())
        return self

    def _own_columns(self) -> Columns:
        """The outputs of the layer, as the parameters have them."""
        floor = floor_per_column(self.floor, self.n_features_in_, self._names())
        return Columns(floor, np.full(len(floor), np.inf), self._names(), checked_tolerance(self.floor_tolerance))

    def _fitted(self) -> Self:
        """This object, or a copy of it that has checked its parameters: a given layer needs no table."""
        check_is_fitted(self)
        return self if "weights_" in vars(self) else copy(self).fit()

    # --- using it ---------------------------------------------------------------------------------

    def transform(self, V: Table, skip_bad_rows: bool = False) -> FloatArray:
        """Latent vectors, one row per row of V; NaN for rows that are skipped."""
        return self.recover_rows(V, skip_bad_rows).latent

    def denoise(self, V: Table, skip_bad_rows: bool = False) -> FloatArray:
        """The outputs without noise and outliers: max(floor, A c + b); NaN for rows that are skipped."""
        return self.recover_rows(V, skip_bad_rows).clean

    def inverse_transform(self, C: ArrayLike) -> FloatArray:
        """The outputs of latent vectors."""
        fitted, latent = self._fitted(), _numbers("C", C)
        k = fitted.weights_.shape[1]
        if latent.ndim != 2 or latent.shape[1] != k:
            raise InvalidDataError(f"Latent vectors of this layer have {k} entries; got shape {latent.shape}.")
        floor = fitted._columns.floor
        return np.maximum(latent @ fitted.weights_.T + (fitted.bias_ - floor), 0.0) + floor

    def recover(self, V: Table, skip_bad_rows: bool = False) -> list[LatentResult | None]:
        """One result for each row of V, an array, a data frame or rows read in blocks.

        Rows from which nothing can be recovered are an error. With ``skip_bad_rows`` they have no result, as long as
        there are others; :meth:`recover_rows` says why.
        """
        return self.recover_rows(V, skip_bad_rows).results()

    def recover_rows(self, V: Table, skip_bad_rows: bool = False) -> LatentRows:
        """The results of all rows as arrays, with a ``report``.

        >>> import unrelu
        >>> memory = unrelu.ReLULatentRecovery([[1.0], [2.0], [3.0]], [0.0, 0.0, 0.0])
        >>> rows = memory.recover_rows([[2.0, 4.0, 6.0], [0.0, 0.0, 0.0]], skip_bad_rows=True)
        >>> rows.results()[1] is None, rows.report.bad_rows[0][1][:21]
        (True, 'has no positive entry')
        """
        if "weights_" not in vars(self):
            return self._fitted().recover_rows(V, skip_bad_rows)
        method = latent_method(self.method, self.prior)
        weights, bias, floor = self.weights_, self.bias_, self._columns.floor
        read_in_blocks = hasattr(V, "blocks") and hasattr(V, "n_features")
        named = read_in_blocks or (self._names() is not None and hasattr(V, "columns"))
        table = _numbers("V", all_values(self._whole(V, reset=False, smallest=1)) if named else V)
        if table.ndim != 2 or table.shape[1] != len(bias) or len(table) == 0:
            raise InvalidDataError(
                f"Outputs of this layer have {len(bias)} entries; got an array of shape {table.shape}."
            )
        heights = table - floor
        heights[np.abs(heights) <= self._columns.tolerance] = 0.0
        rows = recover_rows(weights, bias - floor, heights, method, self._seed(), self._progress, skip_bad_rows)
        if rows.ambiguous.any():
            numbers = np.flatnonzero(rows.ambiguous).tolist()
            which = "v" if len(table) == 1 else row_labels(numbers)
            warn(
                f"Two latent vectors explain {which} about equally well: the better one is used, the other is its"
                " rival.",
                "ambiguous-optimum",
                rows=numbers,
            )
        return replace(rows, clean=rows.clean + floor)

    @property
    def _n_features_out(self) -> int:
        return int(self._fitted().weights_.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return "weights_" in vars(self) or self.weights is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False  # noise may be below the floor
        return tags

    @classmethod
    def stored(cls) -> dict[str, Any]:
        return {
            "_columns": Columns | None,
            "weights_": Annotated[FloatArray, "floats d k"] | None,
            "bias_": Annotated[FloatArray, "floats d"] | None,
            "report_": LatentReport | None,
        }

    def check_loaded(self) -> None:
        """Raise InvalidParameterError or InvalidDataError if a file held what no layer can have given."""
        super().check_loaded()
        given = copy(self)
        if (self.weights is None) != (self.bias is None):
            raise InvalidDataError("it holds weights or a bias, not both")
        if self.weights is not None:
            given.weights_, given.bias_ = check_layer(self.weights, self.bias)
            given.n_features_in_ = len(given.bias_)
        if "weights_" in vars(self):
            shape = (len(self.bias_), self.report_.n_components)
            if not self.weights_.shape == given.weights_.shape == shape:
                raise InvalidDataError("its layer is not that of its report")
        given._own_columns()


def denoise(
    model: Any,
    V: Table,
    method: str | LatentMethod = "robust",
    *,
    n_components: int | None = None,
    prior: str | Prior | None = "gaussian",
    random_state: Any = 0,
) -> FloatArray:
    """Associative memory: the rows of V as the model would have them, corrupted entries corrected, missing ones filled.

    ``model`` is what was learned from clean or slightly dirty rows: a RectifiedGaussian, a fitted learner of one, or a
    ReLUMatrixRecovery; ``n_components`` cuts the former to that many latent dimensions.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, b = rng.standard_normal((3, 40)), 0.3 * rng.standard_normal(40)
    >>> X = np.maximum(rng.standard_normal((300, 3)) @ A + b, 0.0)
    >>> memory = unrelu.ReLUMatrixRecovery(3).fit(X[:290])
    >>> V = np.where(rng.random((10, 40)) < 0.2, 8.0, X[290:])
    >>> bool(np.abs(unrelu.denoise(memory, V) - X[290:]).max() < 0.01)
    True
    """
    memory = ReLULatentRecovery.from_model(
        model, method, n_components=n_components, prior=prior, random_state=random_state
    )
    return memory.denoise(V)


def check_layer(weights: Any, bias: Any) -> tuple[FloatArray, FloatArray]:
    """A (d x k) and b (d) of a layer as arrays of finite numbers; InvalidParameterError for anything else."""
    weights, bias = _numbers("weights", weights), _numbers("bias", bias)
    if weights.ndim != 2 or 0 in weights.shape:
        raise InvalidParameterError(f"weights must be a d x k array, got shape {weights.shape}.")
    if bias.shape != (len(weights),):
        raise InvalidParameterError(f"bias must have one number per row of weights ({len(weights)}), got {bias.shape}.")
    for name, values in (("weights", weights), ("bias", bias)):
        if not np.isfinite(values).all():
            raise InvalidParameterError(f"{name} must be finite, but holds NaN or infinite values.")
    return np.ascontiguousarray(weights), bias


def _numbers(name: str, values: Any) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidDataError(f"{name} must be an array of numbers: {error}.") from error
