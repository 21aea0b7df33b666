"""TwoLayerReLULearner and peel: x = A ReLU(W z + b) + a, perhaps rectified once more, from samples of x alone.

The mathematics is in :mod:`unrelu.recovery.layers`. The hidden units are a RectifiedGaussian of the core: its mean is
b, its covariance W W', and the length of a row of W the standard deviation (std) of its unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unrelu.contracts import FloatArray, Progress, Step, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.estimators import Columns, FloorEstimator, Table, learn_columns, prepare, screened_floats
from unrelu.limits import refuse_none
from unrelu.methods import Method, method_named
from unrelu.passes import all_values
from unrelu.recovery.layers.decoding import ROUNDING, OutputLayer, decode_separably, find_subspace, rank_of
from unrelu.recovery.layers.facets import Clock
from unrelu.recovery.layers.peeled import Peeled, PeeledLayer, heights_of, refuse_gaps
from unrelu.recovery.layers.peeling import peel_layers
from unrelu.recovery.layers.units import (
    TwoLayers,
    check_explained,
    check_found,
    check_range,
    check_rows,
    find_units,
    hidden_distribution,
    with_standard_inputs,
)
from unrelu.validation import RandomState, check_choice, check_positive, refuse_old_names, seed_from

_NAMES = ("facets", "separable")
_OF_INPUTS = ("input_weights_", "input_bias_", "n_inputs_", "input_choice_")
_SINGLE = 1e-6  # errors of rows in single precision, of their root mean square, that rounding explains
_DEPENDENT = 1e-10  # of the largest singular value
_ROUNDED = 1e-6  # of the rows' root mean square: less noise than that is rounding


class TwoLayerReLULearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FloorEstimator):
    """Learn x = A h + a, or x = max(A h + a, floor), with h = ReLU(W z + b), z ~ N(0, I), from rows of x.

    Parameters
    ----------
    n_hidden : int or "auto"
        Number p of hidden units. "auto" is the dimension of the space that the rows vary in.
    method : {"facets", "separable"}, default="facets"
        "facets": A of any sign, found from the facets {h_i = 0} of the cone of all rows. "separable": A >= 0, from rows
        that show one unit alone, as Wu et al. 2019 suggests; needs such rows, so few units.
    n_inputs : int, "auto" or None, default=None
        Number q of inputs z, where it is below the number of units, as in generators: units and inputs are then found
        together, exactly ("facets" only), and ``transform`` gives the inputs. None: the inputs are not recovered.
    max_seconds : float or None, default=None
        Time for the search. Units found until then are kept, with a warning of the kind "unfinished".
    output_bias : bool, default=False
        Whether there is an a to be found too ("facets" only). Rectified outputs always have one.
    floor : None, float or one per column, default=None
        None: the outputs have no floor. A number: they are cut off there, and the rectifier is undone first, as
        :func:`unrelu.peel` does ("facets" only). Values below the floor are an error.
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    hidden_method : str or object from :mod:`unrelu.methods`, default="one_pass"
        How the distribution of the hidden layer is learned.
    random_state : int, Generator or None, default=0
        Seeds the search for facets.

    Attributes
    ----------
    output_weights_ : array of shape (d, p)
        A, its columns of length 1; they come in order of their units' variance. NaN where units are missing, and for
        outputs that the table does not determine.
    output_bias_ : array of shape (d,)
        a, measured from zero.
    column_identifiable_ : array of bool
        Outputs whose weights the table determines.
    hidden_distribution_ : RectifiedGaussian
        The distribution of h: mean b and covariance W W', in the units of A's columns.
    input_weights_, input_bias_ : arrays of shape (p, q) and (p,)
        W and b, for inputs of mean 0 and covariance I; only where ``n_inputs`` is given.
    input_choice_ : pairs (int, float)
        Numbers of inputs that were tried, and the relative residual that each leaves of the units found until then.
    outlier_rows_ : array of bool
        Rows that the layer does not explain; they were left out.
    report_ : LayerReport
        How many units were found, the rows in which each is off, noise, residual; ``converged`` if all were found.

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
    >>> rectified = unrelu.TwoLayerReLULearner(4, floor=0.0).fit(np.maximum(X, 0.0))
    >>> rectified.report_.units_found, int(rectified.column_identifiable_.sum())
    (4, 11)
    """

    _derived = (
        "output_weights_", "output_bias_", "column_identifiable_", "hidden_distribution_", "outlier_rows_", "report_",
        "n_hidden_", *_OF_INPUTS,
    )  # fmt: skip
    _no_weights = (
        "units are found from facets that rows lie on exactly, not from averages over rows. Leave out rows of weight 0."
    )
    _learned: TwoLayers | Peeled | None = None

    def __init__(
        self,
        n_hidden: int | str = "auto",
        method: str = "facets",
        *,
        n_inputs: int | str | None = None,
        max_seconds: float | None = None,
        output_bias: bool = False,
        floor: ArrayLike | None = None,
        floor_tolerance: float = 0.0,
        hidden_method: str | Method = "one_pass",
        random_state: Any = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.method = method
        self.n_inputs = n_inputs
        self.max_seconds = max_seconds
        self.output_bias = output_bias
        self.floor = floor
        self.floor_tolerance = floor_tolerance
        self.hidden_method = hidden_method
        self.random_state = random_state

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Table, y: Any = None) -> Self:  # noqa: ARG002
        """Learn A, a and the distribution of the hidden layer from rows of X."""
        self._learned = None
        self._forget()
        check_choice("method", self.method, _NAMES)
        separable, distribution_by = self.method == "separable", method_named(self.hidden_method)
        if not isinstance(self.output_bias, bool | np.bool_):
            raise InvalidParameterError(f"output_bias must be True or False, got {self.output_bias!r}.")
        width, limits = check_width("n_hidden", self.n_hidden), check_limits(self.n_inputs, self.max_seconds)
        for given, problem in (
            (self.n_inputs is not None, "finds no inputs: use method='facets', or n_inputs=None"),
            (self.output_bias, "finds no output bias: use method='facets'"),
            (self.floor is not None, "undoes no rectifier: use method='facets', or floor=None"),
        ):
            if separable and given:
                raise InvalidParameterError(f"method='separable' {problem}.")
        if self.floor is None:
            self._learned = self._two_layers(X, width, distribution_by, *limits)
        else:
            values = self._floats(X, reset=True)
            peeled = peel_layers(values, self._columns, [width], *limits, distribution_by, self._seed(), self._progress)
            # Units and inputs are as large as the table, and transform finds them again.
            self._learned = replace(peeled, hidden=peeled.hidden[:0], inputs=None)
        self._solve("report_")
        return self

    def _two_layers(
        self,
        X: Any,
        n_hidden: int | str,
        distribution_by: Method,
        n_inputs: int | str | None,
        max_seconds: float | None,
    ) -> TwoLayers:
        """The number of units, the space of the rows, the units, the rows that they explain, their distribution."""
        values = all_values(self._whole(X, reset=True))
        none = np.full(self.n_features_in_, np.inf)
        self._columns = Columns(-none, none, self._names())
        table, with_bias = _complete(values, self._names()), bool(self.output_bias)
        if self.method == "separable" and (table < 0.0).any():
            raise InvalidDataError(
                "method='separable' needs weights and rows that are not negative, but the table has negative values."
                " Use method='facets'."
            )
        rounding = _SINGLE if values.dtype in (np.float32, np.float16) else ROUNDING
        p, seed = _n_units(table, n_hidden, with_bias), self._seed()
        clock, rng = Clock(max_seconds, self._progress), np.random.default_rng(seed)
        clock.progress(Step("Finding the space of the rows"))
        space = find_subspace(table, p, with_bias, rng, rounding)
        if self.method == "separable":
            found = decode_separably(table, space)
        else:
            found = find_units(table, space, with_bias, n_inputs, True, rng, clock)
        check_found(found, n_inputs)
        layer, outliers, report = found.layer, ~found.inlier, found.report
        hidden = layer.hidden(table[found.inlier])
        if found.inner is None:
            distribution = hidden_distribution(hidden, layer.threshold, distribution_by, seed, self._progress)
            return TwoLayers(layer, report, outliers, distribution)
        if report.noise <= _ROUNDED * float(np.sqrt((table**2).mean())):
            check_explained(found.inner, hidden)
        inner, _ = with_standard_inputs(found.inner, hidden, seed)
        return TwoLayers(layer, report, outliers, inner.distribution, inner if n_inputs is not None else None)

    # --- what was learned -------------------------------------------------------------------------

    def _result(self) -> TwoLayers | Peeled:
        check_is_fitted(self)
        assert self._learned is not None
        return self._learned

    @classmethod
    def stored(cls) -> dict[str, Any]:
        return {**super().stored(), "_learned": TwoLayers | Peeled}

    def check_loaded(self) -> None:
        """Raise InvalidDataError if a file's layer is not one of its columns."""
        super().check_loaded()
        if len(self.output_bias_) != self.n_features_in_:
            raise InvalidDataError(f"its layer has {len(self.output_bias_)} outputs, not {self.n_features_in_}")
        inner = self._result().inner
        if inner is not None and len(inner.bias) != self.n_hidden_:
            raise InvalidDataError(f"the layer of its inputs has {len(inner.bias)} units, not {self.n_hidden_}")

    def _output_layer(self) -> OutputLayer | PeeledLayer:
        learned = self._result()
        return learned.layers[0] if isinstance(learned, Peeled) else learned.layer

    def _solve(self, name: str) -> None:
        learned, layer = self._result(), self._output_layer()
        self.report_ = learned.layers[0].report if isinstance(learned, Peeled) else learned.report
        self.output_weights_, self.output_bias_ = layer.weights, layer.bias
        self.column_identifiable_, self.n_hidden_ = ~np.isnan(layer.bias), self.report_.n_hidden
        self.outlier_rows_ = learned.outlier_rows
        if learned.hidden_distribution is not None:  # a whole fit has one
            self.hidden_distribution_ = learned.hidden_distribution
        if (inner := learned.inner) is not None:
            self.input_weights_, self.input_bias_ = inner.weights, inner.bias
            self.n_inputs_, self.input_choice_ = inner.n_inputs, inner.choice
        elif name in _OF_INPUTS:
            raise AttributeError("The inputs were not recovered: give n_inputs, a number or 'auto', below the units'.")

    # --- using it ---------------------------------------------------------------------------------

    def transform(self, X: Table) -> FloatArray:
        """Inputs of rows where the fit has them (NaN in rows that do not determine them), else hidden units."""
        learned = self._result()
        if learned.inner is None:
            return self.hidden_units(X)
        if not isinstance(learned, Peeled):
            return learned.inner.inputs(self.hidden_units(X))
        heights, _ = heights_of(self._floats(X, reset=False, smallest=1), self._columns)
        return learned.layers[0].inputs_behind(heights, learned.inner)

    def _table_of(self, X: Table) -> FloatArray:
        return _complete(all_values(self._whole(X, reset=False, smallest=1)), self._names())

    def hidden_units(self, X: Table) -> FloatArray:
        """Hidden units of rows, 0 where a unit is off.

        With a floor, each row's units are found from its outputs above it, robustly: some may be outliers. They are NaN
        in rows that do not determine them.
        """
        learned = self._result()
        if not isinstance(learned, Peeled):
            return learned.layer.hidden(self._table_of(X))
        heights, level = heights_of(self._floats(X, reset=False, smallest=1), self._columns)
        return learned.layers[0].units_of(heights, level, self._seed(), self._progress)

    def inverse_transform(self, H: ArrayLike) -> FloatArray:
        """Rows of inputs, where they were recovered, else of hidden units; NaN for outputs that are not determined."""
        self._complete()
        given, inner = np.asarray(H, dtype=np.float64), self._result().inner
        what, width = ("hidden units", self.n_hidden_) if inner is None else ("inputs", inner.n_inputs)
        if given.ndim != 2 or given.shape[1] != width:
            raise InvalidDataError(f"There are {width} {what}; got an array of shape {given.shape}.")
        if not np.isfinite(given).all():
            raise InvalidDataError(f"{what.capitalize()} must be finite, but some are NaN or infinite.")
        return self._output_layer().output(given if inner is None else inner.units(given))

    def relative_error(self, X: Table) -> float:
        """|x - x rebuilt| / |x| over rows X: x rebuilt from what ``transform`` finds, where it finds something."""
        found = self.transform(X)
        determined = np.isfinite(found).all(axis=1)
        rebuilt, outputs = self.inverse_transform(found[determined]), self.column_identifiable_
        learned, seen = self._result(), self._table_of(X)[determined][:, outputs]
        base = learned.layers[0].floor[outputs] if isinstance(learned, Peeled) else 0.0
        return float(np.linalg.norm(seen - rebuilt[:, outputs]) / max(float(np.linalg.norm(seen - base)), 1e-300))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Rows drawn from the model."""
        self._complete()
        distribution = self._result().inner or self.hidden_distribution_
        return self._output_layer().output(distribution.sample(n_samples, random_state))

    def _complete(self) -> None:
        report = self.report_
        if not report.converged:
            raise InvalidDataError(
                f"Only {report.units_found} of {report.n_hidden} hidden units were found, so the output weights are not"
                " determined: rows cannot be made from hidden units."
            )

    @property
    def _n_features_out(self) -> int:
        inner = self._result().inner
        return self.report_.units_found if inner is None else inner.n_inputs

    def __sklearn_is_fitted__(self) -> bool:
        return self._learned is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.input_tags.positive_only = self.floor is not None and tags.input_tags.positive_only
        return tags


def _complete(values: Any, names: Sequence[str] | None) -> FloatArray:
    """The table as doubles, none of them missing."""
    table = np.asarray(values, dtype=np.float64)
    refuse_gaps("NaN or infinity", ~np.isfinite(table), names)
    return table


def _n_units(table: FloatArray, n_hidden: int | str, output_bias: bool) -> int:
    """The number of units to find; InvalidDataError where the rows cannot determine so many."""
    n, d = table.shape
    largest = float(np.abs(table).max())
    if largest == 0.0 or ((n_hidden == "auto" or output_bias) and np.ptp(table, axis=0).max() <= 1e-12 * largest):
        raise InvalidDataError("The table does not vary: there is nothing to learn.")
    check_range(table)
    p = rank_of(table) if isinstance(n_hidden, str) else n_hidden
    if p > d:
        raise InvalidParameterError(
            f"n_hidden is {p}, but rows have {d} columns: the table does not determine more units than columns."
        )
    check_rows(n, p)
    values = np.linalg.svd(table - table.mean(axis=0) if output_bias else table, compute_uv=False)
    rank = int(np.count_nonzero(values > _DEPENDENT * max(float(values[0]), 1e-300)))
    if rank < p:
        raise InvalidDataError(
            f"The rows vary in {rank} dimensions, fewer than the {p} hidden units: columns of the output weights"
            f" are dependent, or units are never on. Ask for n_hidden={rank}."
        )
    return p


@refuse_old_names
def peel(
    X: Table,
    widths: Sequence[int | str],
    *,
    n_inputs: int | str | None = None,
    max_seconds: float | None = None,
    floor: ArrayLike = 0.0,
    floor_tolerance: float = 0.0,
    hidden_method: str | Method = "one_pass",
    random_state: Any = 0,
    progress: Progress = no_progress,
) -> Peeled:
    """Peel layers x = max(A h + b, floor) off a table; ``widths`` are their numbers of hidden units, outermost first.

    A width may be "auto". ``floor`` is that of the outermost layer, one number or one per column; values within
    ``floor_tolerance`` of it count as floored. ``hidden_method`` is how the distribution of the innermost units is
    learned.

    Where the innermost layer has fewer inputs than units, as generators have, say how many: ``n_inputs`` is their
    number, or "auto". The network is then recovered down to its inputs, h = ReLU(A z + b) with z ~ N(0, I): ``inner``,
    ``inputs``, and :meth:`Peeled.transform <unrelu.Peeled.transform>`. With None, or as many inputs as units, units are
    found from the facets of the rows alone. After ``max_seconds``, or an interrupt of the search for units, what was
    found so far, if anything, is returned with a warning of the kind "unfinished".

    ``widths=[p, p0]`` with p0 < p and ``n_inputs`` are three layers, x <- h <- g <- z, where g has p0 units. They are
    found from exact outputs in double precision, if most units are often on and often off; ``max_seconds`` is 60 unless
    given. ``hidden`` is then g, NaN in rows that do not determine it.

    A layer that cannot be peeled is refused with the reason, :class:`unrelu.errors.CannotPeelError`, which holds what
    was found until then. ``progress`` is called with every :class:`unrelu.contracts.Step`; what it raises ends the
    work.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(1)
    >>> A2, A1 = rng.standard_normal((30, 4)), rng.standard_normal((4, 4))
    >>> h = np.maximum(rng.standard_normal((1500, 4)) @ A1.T + 0.2, 0.0)
    >>> X = np.maximum(h @ A2.T + 0.5, 0.0)
    >>> peeled = unrelu.peel(X, widths=[4])
    >>> layer = peeled.layers[0]
    >>> cosines = np.abs(layer.weights.T @ (A2 / np.linalg.norm(A2, axis=0)))
    >>> bool(layer.column_identifiable.all()), bool(np.allclose(cosines.max(axis=0), 1.0))
    (True, True)
    """
    if isinstance(widths, str | Integral) or not isinstance(widths, Sequence | np.ndarray) or len(widths) == 0:
        raise InvalidParameterError(
            f"widths must be a list with one number per layer, such as [8], got {widths!r}.", parameter="widths"
        )
    plan, distribution_by = [check_width("Every width", width) for width in widths], method_named(hidden_method)
    limits = check_limits(n_inputs, max_seconds)
    rows = prepare(X, tolerance=floor_tolerance, smallest=2, whole=no_progress)
    columns = learn_columns(rows, floor, None, floor_tolerance, no_progress, without_ceilings="peel")
    refuse_none(columns.floor, columns.names)
    values, seed = screened_floats(rows, columns), seed_from(random_state)
    return peel_layers(values, columns, plan, *limits, distribution_by, seed, progress)


def check_width(name: str, width: int | str) -> int | str:
    """A number of hidden units, or "auto"; InvalidParameterError for anything else."""
    if isinstance(width, str) and width == "auto":
        return width
    if isinstance(width, Integral) and not isinstance(width, bool) and width >= 1:
        return int(width)
    raise InvalidParameterError(f"{name} must be a whole number of 1 or more, or 'auto', got {width!r}.")


def check_limits(n_inputs: int | str | None, max_seconds: float | None) -> tuple[int | str | None, float | None]:
    """A number of inputs, "auto", or None for no fewer than units; a number of seconds, or None for no bound."""
    if n_inputs is not None:
        n_inputs = check_width("n_inputs", n_inputs)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    return n_inputs, None if max_seconds is None else float(max_seconds)
