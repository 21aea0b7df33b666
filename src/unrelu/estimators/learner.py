"""RectifiedGaussianLearner: scikit-learn's way to the learned model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from unrelu.contracts import Assumptions, FloatArray, LearningReport
from unrelu.distribution import RandomState, RectifiedGaussian
from unrelu.engines.local import LocalEngine
from unrelu.errors import InvalidParameterError
from unrelu.estimators.base import FloorEstimator, Table
from unrelu.evidence import RecordedEvidence, SampleEvidence
from unrelu.learning import Learned
from unrelu.methods import Method, method_named
from unrelu.posterior.row_scores import RowScores
from unrelu.posterior.scored_rows import scored_rows
from unrelu.statistics.pair_moments import PairMoments, PairMomentsQuestion


class RectifiedGaussianLearner(FloorEstimator):
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
    random_state : int, Generator or None, default=0
        Seeds the methods that draw; "one_pass" does not.

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

    _takes_sparse = True

    def __init__(
        self,
        method: str | Method = "one_pass",
        *,
        floor: ArrayLike = 0.0,
        nonnegative_bias: bool = False,
        n_components: int | None = None,
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.floor = floor
        self.nonnegative_bias = nonnegative_bias
        self.n_components = n_components
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn from the rows of X, forgetting any earlier rows.

        X is an array, a data frame, or rows that are read block by block (:func:`unrelu.samples.open_samples`).
        """
        self._record, self._learned = None, None
        samples = self._rows(X, sample_weight, reset=True)
        method = method_named(self.method)
        assumptions = self._assumptions()
        evidence = SampleEvidence(samples, LocalEngine(self._watch))
        learned = method.learn(evidence, assumptions, self._seed(), self._watch)
        question = method.question(assumptions)
        self._record = None if question is None else evidence.collect(question)
        self._learned = learned
        return self

    def partial_fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
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
        samples = self._rows(X, sample_weight, reset=before is None, smallest=1)
        assumptions = self._assumptions()
        question = self._question(assumptions)
        record = LocalEngine(self._watch).collect(samples, question)
        # Bad cells must not enter the sums: check before merging, so that the rows seen so far stay usable.
        record.screening.check(assumptions.lowest, samples.feature_names)
        self._record = record if before is None else before.merge(record)
        self._learned = None
        return self

    def _assumptions(self) -> Assumptions:
        d = self.n_features_in_
        k = self.n_components
        if k is not None and not (isinstance(k, Integral) and 1 <= k <= d):
            raise InvalidParameterError(f"n_components must be None or between 1 and {d} (the columns), got {k!r}.")
        if not isinstance(self.nonnegative_bias, bool | np.bool_):
            raise InvalidParameterError(f"nonnegative_bias must be True or False, got {self.nonnegative_bias!r}.")
        return replace(
            super()._assumptions(),
            nonnegative_bias=bool(self.nonnegative_bias),
            n_components=None if k is None else int(k),
        )

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
            self._learned = method_named(self.method).learn(evidence, assumptions, self._seed(), self._watch)
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

    @property
    def record_(self) -> PairMoments:
        """What one pass over the rows kept: it merges with others, and stands for the rows."""
        check_is_fitted(self)
        if self._record is None:
            raise AttributeError(f"A learner with method {self.method!r} keeps no record: use method='one_pass'.")
        return self._record

    def score_samples(self, X: Table) -> FloatArray:
        """Log density of each row: density of the values above the floor, probability of the others to be at it.

        NaN cells are integrated over. A column that is constant in the model adds 0, or -10,000 where a cell differs.
        """
        model, assumptions = RowScores.of(self.distribution_, float(self.floor_tolerance)), self._assumptions()
        samples = self._rows(X, reset=False, smallest=1)
        return scored_rows(samples, model.table_log_density, assumptions.lowest, self._watch)

    def score(self, X: Table, y: Any = None) -> float:  # noqa: ARG002 - scikit-learn's
        """Mean log density of the rows.

        >>> import unrelu
        >>> truth = unrelu.synthetic.random_model(3, random_state=0)
        >>> learner = unrelu.RectifiedGaussianLearner().fit(truth.sample(2000, random_state=1))
        >>> fresh = truth.sample(1000, random_state=2)
        >>> learner.score(fresh) > learner.score(fresh[:, ::-1])
        True
        """
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw rows from the learned model."""
        return self.distribution_.sample(n_samples, random_state)

    def with_record(self, record: PairMoments) -> RectifiedGaussianLearner:
        """A learner with the same parameters and columns, of the rows that ``record`` is of."""
        check_is_fitted(self)
        learner: RectifiedGaussianLearner = clone(self)
        learner.n_features_in_ = self.n_features_in_
        if self._names() is not None:
            learner.feature_names_in_ = self.feature_names_in_
        learner._record, learner._learned = record, None
        return learner

    def agrees_with(self, other: RectifiedGaussianLearner) -> None:
        """Raise InvalidParameterError if the two assume different things, or call their columns differently."""
        if self.n_features_in_ != other.n_features_in_:
            return  # their records will say so
        same = self._assumptions() == other._assumptions()
        if not same or method_named(self.method) != method_named(other.method):
            raise InvalidParameterError(f"Cannot merge learners with different parameters: {self} and {other}.")
        names, others = (list(getattr(each, "feature_names_in_", ())) for each in (self, other))
        if names != others:
            raise InvalidParameterError("Cannot merge learners with different column names.")


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
    for part in parts:
        if not isinstance(part, RectifiedGaussianLearner | PairMoments):
            raise InvalidParameterError(f"merge takes learners and records, got {type(part).__name__}.")
    merged, *records = [part if isinstance(part, PairMoments) else _record_of(part) for part in parts]
    learners = [part for part in parts if isinstance(part, RectifiedGaussianLearner)]
    for other in learners[1:]:
        learners[0].agrees_with(other)
    for record in records:
        if record.n_features != merged.n_features:
            raise InvalidParameterError(
                f"Cannot merge: {merged.n_features} columns in one part, {record.n_features} in another."
            )
        merged = merged.merge(record)
    return learners[0].with_record(merged) if learners else merged


def _record_of(learner: RectifiedGaussianLearner) -> PairMoments:
    try:
        return learner.record_
    except AttributeError as error:
        raise InvalidParameterError(f"Cannot merge: {error}") from error
