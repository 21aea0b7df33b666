"""FloorOutlierDetector: which rows do not belong, how surely, and which of their cells say so.

The mathematics is in :mod:`unrelu.robust.detection`.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from unrelu.contracts import FloatArray, LearningReport
from unrelu.distribution import RectifiedGaussian, generator
from unrelu.engines.local import LocalEngine
from unrelu.errors import InvalidParameterError
from unrelu.estimators.learner import RectifiedGaussianLearner, _numeric
from unrelu.methods import Method, Robust
from unrelu.robust.detection import OutlierScores
from unrelu.robust.scoring import ScoreQuestion, score_threshold
from unrelu.samples import ArraySamples
from unrelu.statistics.screening import ScreeningQuestion


class FloorOutlierDetector(OutlierMixin, BaseEstimator):
    """Find rows that do not fit x = max(y, floor), y ~ N(bias, covariance), learned from the same table or another.

    The default method learns the model of the genuine rows while up to nearly half of the table are outliers. A row's
    score is its log density under that model (and the probability that it is genuine, where outliers form groups of
    their own); its p-value is the share of the model's own rows that score as low.

    Parameters
    ----------
    method : str or object from :mod:`unrelu.methods`, default="robust"
        How to learn the model. "one_pass" is right for a table known to be clean, or with too few rows for "robust".
    contamination : "auto" or float, default="auto"
        "auto": a row is an outlier when its p-value is below ``false_alarm_rate``. A number in (0, 0.5]: that share
        of the rows given to :meth:`fit`, those with the lowest scores, are outliers.
    false_alarm_rate : float, default=0.01
        With contamination="auto", the share of the rows of a clean table that are flagged all the same.
    floor : float or one per column, default=0.0
        Values at the floor are cut off there; values below it are an error. NaN means not observed.
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    random_state : int, Generator or None, default=0
        Seeds method="robust" and the simulated rows behind the p-values.

    Attributes
    ----------
    offset_ : float
        Rows with a score below it are outliers: ``decision_function(X) = score_samples(X) - offset_``.
    distribution_ : RectifiedGaussian
        The learned model of the genuine rows.
    report_ : LearningReport
        How the learning went.
    row_weights_ : array
        With method="robust": one number per row of the table, from 1 for a genuine row to 0 for an outlier.
    n_features_in_, feature_names_in_ : int, array
        The columns seen by :meth:`fit`, and their names where they have any.

    Notes
    -----
    Missing cells are integrated out, so that a row is judged by the cells it has. Its p-value still compares it with
    complete rows, and is only approximate where many cells are missing.

    Examples
    --------
    >>> import numpy as np
    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(2000, random_state=1)
    >>> X[:200, 1] += 6.0
    >>> detector = unrelu.FloorOutlierDetector().fit(X)
    >>> flagged = detector.predict(X) == -1
    >>> float(flagged[:200].mean()), bool(flagged[200:].mean() < 0.03)
    (1.0, True)
    >>> np.argmax(np.abs(detector.cell_residuals(X[:3])), axis=1)  # the column at fault
    array([1, 1, 1])
    """

    offset_: float
    _learner: RectifiedGaussianLearner
    _scores: OutlierScores | None
    _lowest: tuple[float, ...]

    def __init__(
        self,
        method: str | Method = "robust",
        *,
        contamination: str | float = "auto",
        false_alarm_rate: float = 0.01,
        floor: ArrayLike = 0.0,
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.contamination = contamination
        self.false_alarm_rate = false_alarm_rate
        self.floor = floor
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn the model of the genuine rows of X, and from which score on a row is one of them."""
        self._scores = None
        check_false_alarm_rate("false_alarm_rate", self.false_alarm_rate)
        share = self._contamination()
        seed = self._seed()
        values = _numeric(self, X, reset=True, smallest=2)
        method = Robust(seed=seed) if isinstance(self.method, str) and self.method == "robust" else self.method
        learner = RectifiedGaussianLearner(method, floor=self.floor, floor_tolerance=self.floor_tolerance)
        learner.fit(X, sample_weight=sample_weight)
        scores = OutlierScores.of(learner._result(), float(self.floor_tolerance), seed)
        self._learner, self._lowest = learner, learner._assumptions().lowest
        if share is None:
            self.offset_ = score_threshold(scores, float(self.false_alarm_rate))
        else:
            self.offset_ = self._training_quantile(scores, values, sample_weight, share)
        self._scores = scores
        return self

    def _contamination(self) -> float | None:
        """The share of outliers, or None for "auto"."""
        share = self.contamination
        if isinstance(share, str) and share == "auto":
            return None
        if isinstance(share, bool) or not (isinstance(share, Real) and 0.0 < share <= 0.5):
            raise InvalidParameterError(f"contamination must be 'auto' or a number in (0, 0.5], got {share!r}.")
        return float(share)

    def _seed(self) -> int:
        """A seed is used as it is, so that it means the same as in methods.Robust(seed=...)."""
        state = self.random_state
        if isinstance(state, Integral) and int(state) >= 0:
            return int(state)
        return int(generator(state).integers(2**31))

    def _training_quantile(
        self, scores: OutlierScores, values: NDArray[Any], sample_weight: ArrayLike | None, share: float
    ) -> float:
        if sample_weight is None:
            return float(np.quantile(self._scored(scores, values), share))
        # The learner has checked them. Rows of weight 0 are as good as absent, whatever they hold.
        weights = np.broadcast_to(np.asarray(sample_weight, dtype=np.float64), (len(values),))
        present = weights > 0.0
        found = self._scored(scores, values[present])
        return float(np.quantile(found, share, weights=weights[present], method="inverted_cdf"))

    # --- judging rows -----------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """-1 for outliers, +1 for genuine rows."""
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Distance of the score from the threshold: negative for outliers."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """One number per row, lower for stranger rows: the log density in units of what each cell usually has."""
        return self._scored(self._fitted(), self._values(X))

    def p_values(self, X: ArrayLike) -> FloatArray:
        """The share of the model's own rows that are at least as strange as each row of X.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(2000, random_state=1)
        >>> X[0] = [0.0, 9.0, 0.0]
        >>> bool(unrelu.FloorOutlierDetector().fit(X).p_values(X[:1])[0] < 1e-6)
        True
        """
        return self._fitted().p_value(self.score_samples(X))

    def cell_residuals(self, X: ArrayLike) -> FloatArray:
        """Per cell, its signed distance from what the row's other cells predict, in standard deviations.

        For a floored cell, the distance of the floor: -5 says that so low a value was as unlikely as 5 standard
        deviations, a positive number that it was to be expected. NaN where missing or in a constant column.
        """
        scores, samples = self._fitted(), self._samples(self._values(X))
        LocalEngine().collect(samples, ScreeningQuestion(self._lowest)).check(self._lowest, self._names())
        return np.concatenate([scores.residuals(block.values) for block in samples.blocks()])

    def _fitted(self) -> OutlierScores:
        check_is_fitted(self)
        assert self._scores is not None
        return self._scores

    def _values(self, X: ArrayLike) -> NDArray[Any]:
        values: NDArray[Any] = _numeric(self, X, reset=False, smallest=1)
        return values

    def _samples(self, values: NDArray[Any]) -> ArraySamples:
        return ArraySamples(values, feature_names=self._names())

    def _scored(self, scores: OutlierScores, values: NDArray[Any]) -> FloatArray:
        found = LocalEngine().collect(self._samples(values), ScoreQuestion(scores, self._lowest))
        found.screening.check(self._lowest, self._names())
        return found.scores

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names.tolist())

    # --- what was learned -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_scores", None) is not None

    @property
    def distribution_(self) -> RectifiedGaussian:
        check_is_fitted(self)
        return self._learner.distribution_

    @property
    def report_(self) -> LearningReport:
        check_is_fitted(self)
        return self._learner.report_

    @property
    def row_weights_(self) -> FloatArray:
        check_is_fitted(self)
        return self._learner.row_weights_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.positive_only = RectifiedGaussianLearner(floor=self.floor)._floor_is_nonnegative()
        return tags


def check_false_alarm_rate(name: str, rate: float) -> None:
    """Raise InvalidParameterError unless the rate lies strictly between 0 and 1."""
    if isinstance(rate, bool) or not (isinstance(rate, Real) and 0.0 < rate < 1.0):
        raise InvalidParameterError(f"{name} must be a number between 0 and 1, such as 0.01; got {rate!r}.")
