"""RectifiedGaussianLearner: scikit-learn's way to the learned model."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from unrelu.contracts import Assumptions, FloatArray, LearningReport
from unrelu.distribution import RectifiedGaussian
from unrelu.engines.local import LocalEngine
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.evidence import RecordedEvidence, SampleEvidence
from unrelu.learning import Learned
from unrelu.methods import Method, method_named
from unrelu.samples import ArraySamples
from unrelu.statistics.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.validation import column_label, floor_per_column, listed

_LARGEST_WEIGHT = 1e100


class RectifiedGaussianLearner(BaseEstimator):
    """Learn x = max(y, floor), y ~ N(bias, covariance), from rows of x.

    Parameters
    ----------
    method : str or object from :mod:`unrelu.methods`, default="one_pass"
        How to learn.
    floor : float or one per column, default=0.0
        Values at the floor are cut off there; values below it are an error. NaN means not observed.
    nonnegative_bias : bool, default=False
        Assume every bias at or above its floor, as Wu et al. 2019 and Bulusu et al. 2022 do.
    n_components : int or None, default=None
        Number k of latent inputs: the covariance W W' then has rank at most k.
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    random_state : int, Generator or None, default=None
        Used by :meth:`sample` and by methods that draw; "one_pass" does not.

    Attributes
    ----------
    bias_, covariance_, correlation_, row_norms_ : arrays
        The learned latent mean, covariance W W', its correlations, and norms of the rows of W.
    bias_stderr_, row_norms_stderr_, correlation_stderr_ : arrays
        Standard errors; those of the correlations are before the assembly into one semidefinite matrix.
    distribution_ : RectifiedGaussian
        The learned model: sample from it, save it.
    report_ : LearningReport
        How the learning went.
    row_weights_ : array
        With method="robust": one number per row, from 1 for a genuine row to 0 for an outlier.

    Notes
    -----
    ``sample_weight`` gives the same model as repeating rows. Standard errors use Kish's effective number of rows,
    (sum w)^2 / sum w^2: right for weights that say how much to trust a row, too large by the root of the mean weight
    for counts of identical rows. Weights that say how much to trust a row should have a mean near 1.
    Standard errors of correlations beyond .998 between columns with different shares of floored values are too small:
    they leave out what is quadratic in the error of the marginals.

    Examples
    --------
    >>> import unrelu
    >>> truth = unrelu.synthetic.random_model(4, random_state=0)
    >>> X = truth.sample(20_000, random_state=1)
    >>> learner = unrelu.RectifiedGaussianLearner().fit(X)
    >>> bool(unrelu.metrics.parameter_errors(learner.distribution_, truth)["bias"] < 0.02)
    True
    """

    _learned: Learned | None
    _record: PairMoments | None

    def __init__(
        self,
        method: str | Method = "one_pass",
        *,
        floor: ArrayLike = 0.0,
        nonnegative_bias: bool = False,
        n_components: int | None = None,
        floor_tolerance: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.floor = floor
        self.nonnegative_bias = nonnegative_bias
        self.n_components = n_components
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn from the rows of X, forgetting any earlier rows."""
        self._record, self._learned = None, None
        samples = self._samples(X, sample_weight, reset=True)
        method = method_named(self.method)
        assumptions = self._assumptions()
        evidence = SampleEvidence(samples, LocalEngine())
        self._learned = method.learn(evidence, assumptions)
        question = method.question(assumptions)
        self._record = None if question is None else evidence.collect(question)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Add the rows of X to those seen before. The model is solved when an attribute is next asked for.

        >>> import numpy as np
        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
        >>> whole = unrelu.RectifiedGaussianLearner().fit(X)
        >>> parts = unrelu.RectifiedGaussianLearner().partial_fit(X[:300]).partial_fit(X[300:])
        >>> bool(np.allclose(parts.bias_, whole.bias_, rtol=1e-10))
        True
        """
        before: PairMoments | None = getattr(self, "_record", None)
        samples = self._samples(X, sample_weight, reset=before is None, smallest=1)
        assumptions = self._assumptions()
        question = self._question(assumptions)
        record = SampleEvidence(samples, LocalEngine()).collect(question)
        # Bad cells must not enter the sums: check before merging, so that the rows seen so far stay usable.
        record.screening.check(assumptions.lowest, samples.feature_names)
        self._record = record if before is None else before.merge(record)
        self._learned = None
        return self

    def _samples(
        self, X: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool, smallest: int = 2
    ) -> ArraySamples:
        values = _numeric(self, X, reset=reset, smallest=smallest)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, values, dtype=np.float64, ensure_non_negative=True)
            if weights.max() > _LARGEST_WEIGHT or weights[weights > 0.0].min() < 1.0 / _LARGEST_WEIGHT:
                raise InvalidDataError("sample_weight leaves the range of squares: rescale it to a mean near 1.")
        # Questions work through a block in tiles, so an array that needs no conversion can be one block.
        whole = max(len(values), 1) if values.dtype in (np.float32, np.float64) else None
        return ArraySamples(values, weights=weights, feature_names=self._names(), block_rows=whole)

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names.tolist())

    def _assumptions(self) -> Assumptions:
        d = self.n_features_in_
        k = self.n_components
        if k is not None and not (isinstance(k, Integral) and 1 <= k <= d):
            raise InvalidParameterError(f"n_components must be None or between 1 and {d} (the columns), got {k!r}.")
        tolerance = self.floor_tolerance
        if not (isinstance(tolerance, Real) and 0.0 <= tolerance < np.inf):
            raise InvalidParameterError(f"floor_tolerance must be a number of 0 or more, got {tolerance!r}.")
        if not isinstance(self.nonnegative_bias, bool | np.bool_):
            raise InvalidParameterError(f"nonnegative_bias must be True or False, got {self.nonnegative_bias!r}.")
        floor = tuple(floor_per_column(self.floor, d).tolist())
        return Assumptions(floor, bool(self.nonnegative_bias), None if k is None else int(k), float(tolerance))

    def _question(self, assumptions: Assumptions) -> PairMomentsQuestion:
        method = method_named(self.method)
        question = method.question(assumptions)
        if question is None:
            raise InvalidParameterError(
                f"{type(method).__name__} reads the rows more than once: use fit, or method='one_pass'."
            )
        return question

    # --- what was learned -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_learned", None) is not None or getattr(self, "_record", None) is not None

    def _result(self) -> Learned:
        check_is_fitted(self)
        if self._learned is None:
            assumptions = self._assumptions()
            question = self._question(assumptions)
            assert self._record is not None
            if tuple(self._record.floor.tolist()) != question.floor:
                raise InvalidParameterError("The floor was changed after rows were learned: fit them again.")
            evidence = RecordedEvidence(question, self._record, self._names())
            self._learned = method_named(self.method).learn(evidence, assumptions)
        return self._learned

    @property
    def distribution_(self) -> RectifiedGaussian:
        return self._result().distribution

    @property
    def report_(self) -> LearningReport:
        return self._result().report

    @property
    def bias_(self) -> FloatArray:
        return self.distribution_.bias

    @property
    def covariance_(self) -> FloatArray:
        return self.distribution_.covariance

    @property
    def correlation_(self) -> FloatArray:
        return self.distribution_.correlation

    @property
    def row_norms_(self) -> FloatArray:
        return self.distribution_.row_norms

    @property
    def bias_stderr_(self) -> FloatArray:
        return self._result().rows.bias_stderr

    @property
    def row_norms_stderr_(self) -> FloatArray:
        return self._result().rows.scale_stderr

    @property
    def correlation_stderr_(self) -> FloatArray:
        return self._result().pairs.stderr

    @property
    def row_weights_(self) -> FloatArray:
        learned = self._result()
        weights: FloatArray | None = getattr(learned, "row_weights", None)
        if weights is None:
            raise AttributeError(f"Only method='robust' gives row_weights_, not {learned.report.method!r}.")
        return weights

    def sample(self, n_samples: int = 1) -> FloatArray:
        """Draw rows from the learned model."""
        return self.distribution_.sample(n_samples, random_state=self.random_state)

    def _floor_is_nonnegative(self) -> bool:
        try:
            return bool(np.min(np.asarray(self.floor, dtype=np.float64)) >= 0.0)
        except (TypeError, ValueError):  # fit will say what is wrong with it
            return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.positive_only = self._floor_is_nonnegative()
        return tags


def merge(parts: Sequence[RectifiedGaussianLearner | PairMoments]) -> Any:
    """Join what was learned from disjoint rows, as if all rows had been read together.

    Learners give a learner (they must agree in parameters and columns), records give a record.

    >>> import numpy as np
    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
    >>> parts = [unrelu.RectifiedGaussianLearner().fit(rows) for rows in (X[:400], X[400:])]
    >>> whole = unrelu.RectifiedGaussianLearner().fit(X)
    >>> bool(np.allclose(unrelu.merge(parts).covariance_, whole.covariance_, rtol=1e-10))
    True
    """
    parts = [parts] if isinstance(parts, RectifiedGaussianLearner | PairMoments) else list(parts)
    if not parts:
        raise InvalidParameterError("merge needs at least one learner or record.")
    records = [_record_of(part) for part in parts]
    learners = [part for part in parts if isinstance(part, RectifiedGaussianLearner)]
    _require_agreement(learners)
    merged = records[0]
    for record in records[1:]:
        if record.n_features != merged.n_features:
            raise InvalidParameterError(
                f"Cannot merge: {merged.n_features} columns in one part, {record.n_features} in another."
            )
        merged = merged.merge(record)
    return _with_record(learners[0], merged) if learners else merged


def _record_of(part: RectifiedGaussianLearner | PairMoments) -> PairMoments:
    if isinstance(part, PairMoments):
        return part
    if not isinstance(part, RectifiedGaussianLearner):
        raise InvalidParameterError(f"merge takes learners and records, got {type(part).__name__}.")
    check_is_fitted(part)
    if part._record is None:
        raise InvalidParameterError(
            f"A learner with method {part.method!r} keeps no record to merge: use method='one_pass'."
        )
    return part._record


def _require_agreement(learners: list[RectifiedGaussianLearner]) -> None:
    """Learners that differ in what they assume or call their columns cannot become one."""
    for other in learners[1:]:
        model = learners[0]
        if model.n_features_in_ == other.n_features_in_:
            same = model._assumptions() == other._assumptions()
            if not same or method_named(model.method) != method_named(other.method):
                raise InvalidParameterError(f"Cannot merge learners with different parameters: {model} and {other}.")
            if other._names() != model._names():
                raise InvalidParameterError("Cannot merge learners with different column names.")


def _with_record(model: RectifiedGaussianLearner, record: PairMoments) -> RectifiedGaussianLearner:
    merged: RectifiedGaussianLearner = clone(model)
    merged.n_features_in_ = model.n_features_in_
    if model._names() is not None:
        merged.feature_names_in_ = model.feature_names_in_
    merged._record, merged._learned = record, None
    return merged


def _numeric(estimator: BaseEstimator, X: Any, *, reset: bool, smallest: int) -> Any:
    """X as a 2-d numeric array, without a copy where it is one; infinite values are judged while reading."""
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    _refuse_times(X)
    options = {"dtype": "numeric", "ensure_all_finite": False, "ensure_min_samples": smallest}
    try:
        values = validate_data(estimator, X, reset=reset, **options)
    except (ValueError, TypeError) as error:
        cell = _text_cell(X)
        if cell is None:
            raise
        raise InvalidDataError(cell) from error
    if values.dtype == object:
        raise InvalidDataError(_text_cell(X) or "The table holds something other than numbers.")
    return values


def _refuse_times(X: Any) -> None:
    """Dates would pass as huge integers."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return
    kinds = [str(kind).lower() for kind in dtypes]
    times = [f"{name!r}" for name, kind in zip(X.columns, kinds, strict=True) if "date" in kind or "time" in kind]
    if times:
        raise InvalidDataError(f"Dates or times, not numbers: column {listed(times)}. Leave it out.")


def _text_cell(X: Any) -> str | None:
    """Which cell is not a number, if one is not."""
    try:
        cells = np.asarray(X, dtype=object)
    except (TypeError, ValueError):
        return None
    if cells.ndim != 2:
        return None
    names = [str(c) for c in X.columns] if hasattr(X, "columns") else None
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if isinstance(cell, str) and not _reads_as_number(cell):
                label = column_label(j, names)
                return f"Row {i}, {label}: {cell!r} is not a number. Correct the cell or leave the column out."
    return None


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
