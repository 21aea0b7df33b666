"""TwoLayerReLULearner: x = A ReLU(W z + b) + a, from samples of x alone.

The mathematics is in :mod:`unrelu.recovery.layers`.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unrelu.contracts import BoolArray, FloatArray
from unrelu.distribution import RectifiedGaussian, generator
from unrelu.errors import DoubtfulUnitsWarning, InvalidDataError, InvalidParameterError, UnitsNotFoundWarning
from unrelu.estimators import two_layer_file
from unrelu.estimators.learner import RectifiedGaussianLearner
from unrelu.methods import Method
from unrelu.recovery.layers.decoding import DecodedLayer, LayerReport, OutputLayer, decode_by_facets, decode_separably
from unrelu.recovery.layers.facets import Told
from unrelu.recovery.layers.subspace import ROUNDING, find_subspace, rank_of
from unrelu.storage import FilePath
from unrelu.validation import check_choice, listed, warn

_NAMES = ("facets", "separable")
ROWS_PER_UNIT = 6  # a facet needs three times as many rows as there are units, and about half of the rows are on it
_DEPENDENT = 1e-10  # of the largest singular value
_SINGLE = 1e-6  # relative size of rounding in single precision
_ROWS_PER_THIN_UNIT = 150
_MANY = 0.15  # share of the rows from where on outliers are no longer a few
_RANGE = 1e100  # of values whose squares and products are safe


class TwoLayerReLULearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn x = A h + a, h = ReLU(W z + b), z ~ N(0, I), from rows of x.

    Parameters
    ----------
    n_hidden : int or "auto"
        Number p of hidden units. "auto" is the dimension of the space that the rows vary in.
    method : {"facets", "separable"}, default="facets"
        "facets": A of any sign, found from the facets {h_i = 0} of the cone of all rows. "separable": A >= 0, from rows
        that show one unit alone, as Wu et al. 2019 suggests; needs such rows, so few units.
    output_bias : bool, default=False
        Whether there is an a to be found too ("facets" only).
    hidden_method : str or object from :mod:`unrelu.methods`, default="one_pass"
        How the distribution of the hidden layer is learned.
    random_state : int, Generator or None, default=0
        Seeds the search for facets, and :meth:`sample`.

    Attributes
    ----------
    output_weights_ : array of shape (d, p)
        A, its columns of length 1; they come in order of their units' variance. NaN where units are missing.
    output_bias_ : array of shape (d,)
        a.
    hidden_distribution_ : RectifiedGaussian
        The law of h: bias b and covariance W W', in the units of A's columns.
    outlier_rows_ : array of bool
        Rows that the layer does not explain; they were left out.
    report_ : LayerReport
        How many units were found, the rows in which each is off, noise, residual.

    Examples
    --------
    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A, W = rng.standard_normal((12, 4)), rng.standard_normal((4, 4))
    >>> X = np.maximum(rng.standard_normal((1000, 4)) @ W.T + 0.3, 0.0) @ A.T
    >>> learner = unrelu.TwoLayerReLULearner(4).fit(X)
    >>> cosines = np.abs(learner.output_weights_.T @ (A / np.linalg.norm(A, axis=0)))
    >>> bool(np.allclose(cosines.max(axis=0), 1.0))
    True
    """

    output_weights_: FloatArray
    output_bias_: FloatArray
    hidden_distribution_: RectifiedGaussian
    outlier_rows_: BoolArray
    report_: LayerReport
    n_hidden_: int
    _layer: OutputLayer

    def __init__(
        self,
        n_hidden: int | str = "auto",
        method: str = "facets",
        *,
        output_bias: bool = False,
        hidden_method: str | Method = "one_pass",
        random_state: Any = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.method = method
        self.output_bias = output_bias
        self.hidden_method = hidden_method
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:  # noqa: ARG002
        """Learn A, a and the distribution of the hidden layer from rows of X."""
        return self._fit_told(X, None)

    def _fit_told(self, X: Any, told: Told | None) -> Self:
        """:meth:`fit`, with someone who hears of facets found and starts used."""
        single = getattr(X, "dtype", None) in (np.float32, np.float16)
        table = validate_data(self, X, dtype=np.float64, ensure_min_samples=2, reset=True)
        self._check_parameters(table)
        decoded = self._decode(table, self._units(table), _SINGLE if single else ROUNDING, told)
        self._store(decoded, table)
        return self

    def _check_parameters(self, table: FloatArray) -> None:
        check_choice("method", self.method, _NAMES)
        if not isinstance(self.output_bias, bool | np.bool_):
            raise InvalidParameterError(f"output_bias must be True or False, got {self.output_bias!r}.")
        if self.method == "separable":
            if self.output_bias:
                raise InvalidParameterError("method='separable' finds no output bias: use method='facets'.")
            if (table < 0.0).any():
                raise InvalidDataError(
                    "method='separable' needs weights and rows that are not negative, but the table has negative"
                    " values. Use method='facets'."
                )

    def _units(self, table: FloatArray) -> int:
        n, d = table.shape
        centered = bool(self.output_bias)
        largest = float(np.abs(table).max())
        if largest == 0.0 or (centered and np.ptp(table, axis=0).max() <= 1e-12 * largest):
            raise InvalidDataError("The table does not vary: there is nothing to learn.")
        if not 1.0 / _RANGE < largest < _RANGE:
            raise InvalidDataError(f"Values as large as {largest:.0e} leave the range of squares: rescale the table.")
        p = rank_of(table) if isinstance(self.n_hidden, str) and self.n_hidden == "auto" else self.n_hidden
        if isinstance(p, bool) or not isinstance(p, Integral) or p < 1:
            raise InvalidParameterError(f"n_hidden must be a whole number of 1 or more, or 'auto', got {p!r}.")
        if p > d:
            raise InvalidParameterError(
                f"n_hidden is {p}, but rows have {d} columns: more units than columns cannot be told apart."
            )
        if n < ROWS_PER_UNIT * p:
            raise InvalidDataError(
                f"{n} rows are too few for {p} hidden units: at least {ROWS_PER_UNIT * p} are needed, and hundreds are"
                " better."
            )
        values = np.linalg.svd(table - table.mean(axis=0) if centered else table, compute_uv=False)
        rank = int(np.count_nonzero(values > _DEPENDENT * max(float(values[0]), 1e-300)))
        if rank < p:
            raise InvalidDataError(
                f"The rows vary in {rank} dimensions, fewer than the {p} hidden units asked for: columns of the output"
                f" weights are dependent, or units are never on. Ask for n_hidden={rank}."
            )
        return int(p)

    def _decode(self, table: FloatArray, p: int, rounding: float, told: Told | None) -> DecodedLayer:
        rng = generator(self.random_state)
        lifted = bool(self.output_bias)
        space = find_subspace(table, p, lifted, rng, rounding)
        if self.method == "separable":
            return decode_separably(table, space)
        return decode_by_facets(table, space, lifted, True, rng, told)

    def _store(self, decoded: DecodedLayer, table: FloatArray) -> None:
        layer, report = decoded.layer, decoded.report
        self._layer, self.report_ = layer, report
        self.n_hidden_ = report.n_hidden
        self.output_weights_, self.output_bias_ = layer.weights, layer.bias
        self.outlier_rows_ = ~decoded.genuine
        self.__dict__.pop("hidden_distribution_", None)
        if report.units_found == 0:
            raise InvalidDataError(
                f"None of {report.n_hidden} hidden units was found: no facet of the rows holds more of them than chance"
                " explains. Perhaps no unit is ever off, the number of units is wrong, there is an output bias"
                " (output_bias=True), or too much noise; with as many units as columns noise is not allowed for."
            )
        warn_of(report)
        if report.thin and report.n_rows < _ROWS_PER_THIN_UNIT * report.n_hidden:
            warn(
                f"There are fewer inputs than {report.n_hidden} hidden units. Planes can then hold many rows by"
                f" coincidence, and {report.n_rows:,} rows may be too few to tell: perhaps these are not the units.",
                DoubtfulUnitsWarning,
            )
        hidden = layer.hidden(table[decoded.genuine])
        self.hidden_distribution_ = hidden_law(hidden, layer.threshold, self.hidden_method)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Hidden units of rows, 0 where a unit is off."""
        check_is_fitted(self)
        table = validate_data(self, X, dtype=np.float64, reset=False)
        return self._layer.hidden(table)

    def inverse_transform(self, H: ArrayLike) -> FloatArray:
        """Rows of hidden units: A h + a."""
        self._complete()
        hidden = np.asarray(H, dtype=np.float64)
        if hidden.ndim != 2 or hidden.shape[1] != self.n_hidden_:
            raise InvalidDataError(f"There are {self.n_hidden_} hidden units; got an array of shape {hidden.shape}.")
        if not np.isfinite(hidden).all():
            raise InvalidDataError("Hidden units must be finite, but some are NaN or infinite.")
        return self._layer.output(hidden)

    def sample(self, n_samples: int = 1) -> FloatArray:
        """Rows drawn from the model."""
        self._complete()
        return self._layer.output(self.hidden_distribution_.sample(n_samples, self.random_state))

    def save(self, path: FilePath) -> None:
        """Write the model to ``path``: a NumPy .npz without pickle.

        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import unrelu
        >>> X = np.maximum(np.random.default_rng(0).standard_normal((500, 2)), 0.0) @ [[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]
        >>> learner = unrelu.TwoLayerReLULearner(2).fit(X)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "layers.unrelu"
        >>> learner.save(path)
        >>> bool((unrelu.TwoLayerReLULearner.load(path).transform(X) == learner.transform(X)).all())
        True
        """
        check_is_fitted(self)
        two_layer_file.write(self, path)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read a model that :meth:`save` wrote; the example is there."""
        return two_layer_file.read(cls, path)

    def _complete(self) -> None:
        check_is_fitted(self)
        if not self.report_.complete:
            raise InvalidDataError(
                f"Only {self.report_.units_found} of {self.n_hidden_} hidden units were found, so the output weights"
                " are not determined: rows cannot be made from hidden units."
            )

    @property
    def _n_features_out(self) -> int:
        return len(self._layer.offset)

    def __sklearn_is_fitted__(self) -> bool:
        return "hidden_distribution_" in self.__dict__


def warn_of(report: LayerReport, where: str = "") -> None:
    """Say what is not to be relied on in a layer."""
    if not report.complete:
        warn(
            f"{where}{report.units_found} of {report.n_hidden} hidden units were found; the others are hardly ever off,"
            " or hardly ever on, or one is off only where another is. Hidden units found can be used, but the output"
            " weights are not determined and are NaN. Add rows, or lower the number of units.",
            UnitsNotFoundWarning,
        )
    if report.doubtful_units:
        warn(
            f"{where}hidden units {listed(str(unit) for unit in report.doubtful_units)} do not look like rectified"
            " Gaussians. If the inputs are Gaussian they are not units but coincidences of several, and columns of the"
            " weights are wrong. Add rows, or lower the number of units.",
            DoubtfulUnitsWarning,
        )
    if report.outlier_rows > _MANY * report.n_rows:
        warn(
            f"{where}{report.outlier_rows:,} of {report.n_rows:,} rows do not fit {report.n_hidden} hidden units and"
            " were left out. Perhaps there are more units than that, or a bias.",
            DoubtfulUnitsWarning,
        )


def hidden_law(hidden: FloatArray, threshold: FloatArray, method: str | Method) -> RectifiedGaussian:
    """The law of hidden units.

    Units below the threshold that noise sets are cut off there instead of at 0: rectified Gaussians are learned from
    any floor, so that small units taken for 0 do no harm.
    """
    law = RectifiedGaussianLearner(method, floor=threshold).fit(np.maximum(hidden, threshold)).distribution_
    return RectifiedGaussian(law.bias, law.covariance)
