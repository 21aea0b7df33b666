"""FloorOutlierDetector: which rows are outliers, with p-values, and which of their cells are outlying.

The mathematics is in :mod:`unrelu.fit.robust_rows.detection`.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from unrelu.checks.findings import warn_of
from unrelu.contracts import FloatArray, LearningReport, Samples, Step
from unrelu.errors import InvalidParameterError
from unrelu.estimators.base import FloorEstimator, Table
from unrelu.estimators.fits import Learning, evidence_of
from unrelu.estimators.fitted import every_learned
from unrelu.fit.robust_cells.cell_model import CellModel, bad_probability
from unrelu.fit.robust_rows.detection import OutlierScores, Verdict, judge_rows, score_threshold
from unrelu.methods import Method, expects_outliers, method_named
from unrelu.model import RectifiedGaussian
from unrelu.posterior.density import Density, scored_rows
from unrelu.tables.prepared import prepared
from unrelu.validation import check_choice


class FloorOutlierDetector(OutlierMixin, FloorEstimator):
    """Find rows that do not fit x = max(y, floor), y ~ N(mean, covariance), learned from the same table or another.

    The default method learns the model of the inlier rows where up to nearly half of the rows are outliers. A row's
    score is its log density under that model (plus the log probability that it is an inlier, where outliers form groups
    of their own); its p-value is the share of the model's own rows that score as low. ``score_samples`` and
    ``decision_function`` are larger for more typical rows, as in scikit-learn; ``outlier_score``, ``mahalanobis`` and
    ``cell_outlier_score`` are larger for more outlying ones.

    Parameters
    ----------
    method : str or object from :mod:`unrelu.methods`, default="robust"
        How to learn the model. "one_pass" is right for a clean table, or one with too few rows for "robust".
    contamination : "auto" or float, default="auto"
        "auto": a row is an outlier when its p-value is below ``false_alarm_rate``. A number in (0, 0.5]: that share of
        the rows given to :meth:`fit`, those with the lowest scores, are outliers.
    false_alarm_rate : float, default=0.01
        With contamination="auto", the share of the rows of a clean table that are flagged all the same, if the model
        fits that table; of other tables more rows are flagged.
    floor : float or one per column, default=0.0
        Detection limits: values at the floor are left-censored; values below it are an error. NaN means not observed.
    ceiling : float or one per column, default=None
        Upper limits, as for :class:`unrelu.RectifiedGaussianLearner`.
    margins : str, object of :mod:`unrelu.margins`, one per column, or dict by name, default="auto"
        The function x = f(y) of each column, as for :class:`unrelu.RectifiedGaussianLearner`.
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    random_state : int, Generator or None, default=0
        Seeds method="robust" and the simulated rows behind the p-values.

    Attributes
    ----------
    offset_ : float
        Rows that score below ``offset_`` are outliers: ``decision_function(X) = score_samples(X) - offset_``.
    distribution_ : RectifiedGaussian
        The learned model of the inlier rows.
    report_ : LearningReport
        How the learning went.
    row_weights_ : array
        With method="robust": one number per row of the table, from 1 for an inlier row to 0 for an outlier.
    cell_weights_ : array
        With method="robust_cells": the same for every cell; :meth:`cell_probabilities` takes any table.
    n_features_in_, feature_names_in_ : int, array
        The columns seen by :meth:`fit`, and their names where they have any.

    Notes
    -----
    Missing cells are integrated over, so that a row is scored by the cells that it has. Its p-value still compares it
    with complete rows, and is only approximate where many cells are missing.

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

    _takes_sparse = True
    _derived = ("distribution_", "report_", "row_weights_", "cell_weights_")
    offset_: float
    distribution_: RectifiedGaussian
    report_: LearningReport
    row_weights_: FloatArray
    cell_weights_: NDArray[np.float32]
    _scores: OutlierScores | None = None
    _cell_distribution: CellModel | None = None  # what was learned of bad cells

    def __init__(
        self,
        method: str | Method = "robust",
        *,
        contamination: str | float = "auto",
        false_alarm_rate: float = 0.01,
        floor: Any = 0.0,
        ceiling: Any = None,
        margins: Any = "auto",
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.contamination = contamination
        self.false_alarm_rate = false_alarm_rate
        self.floor = floor
        self.ceiling = ceiling
        self.margins = margins
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    @classmethod
    def stored(cls) -> dict[str, Any]:
        every_learned()  # report_ is of any method's class: all must be imported before a file is read
        return {
            **super().stored(),
            "distribution_": RectifiedGaussian,
            "report_": LearningReport | None,
            "offset_": float,
            "row_weights_": Annotated[FloatArray, "floats n"] | None,
            "cell_weights_": Annotated[FloatArray, "floats n d"] | None,
            "_scores": OutlierScores,
            "_cell_distribution": CellModel | None,
        }

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn the model of the inlier rows of X, and the score below which a row is an outlier.

        X is an array, a data frame, or rows that are read block by block (:func:`unrelu.tables.open_samples`).
        """
        self._scores = None
        self._forget()
        check_false_alarm_rate("false_alarm_rate", self.false_alarm_rate)
        share = self.contamination
        auto = isinstance(share, str) and share == "auto"
        if not auto and (isinstance(share, bool) or not (isinstance(share, Real) and 0.0 < share <= 0.5)):
            raise InvalidParameterError(f"contamination must be 'auto' or a number in (0, 0.5], got {share!r}.")
        method, seed = method_named(self.method), self._seed()
        outliers = "unknown" if expects_outliers(method) else "none"
        samples = self._table(X, sample_weight, reset=True)
        self._learn_columns(samples, outliers=outliers)
        learning = Learning(method, self._wanted_margins(), self._assumptions, seed, self._progress)
        fit = learning.fit(samples, self._columns, evidence_of(samples, self._columns, self._progress))
        self._columns, learned = fit.columns, fit.learned
        self._progress(Step("Simulating rows of the model"))
        scores = OutlierScores.of(learned, float(self.floor_tolerance), seed)
        self.distribution_, self.report_ = fit.distribution, fit.report
        for name in ("row_weights", "cell_weights"):
            if hasattr(learned, name):
                setattr(self, f"{name}_", getattr(learned, name))
        self._cell_distribution = getattr(learned, "cell_model", None)
        if isinstance(share, str):
            self.offset_ = score_threshold(scores, float(self.false_alarm_rate))
        else:
            self.offset_ = self._training_quantile(scores, prepared(samples, self._columns), float(share))
        self._scores = scores
        warn_of(learned.report.diagnostics, self._names())
        return self

    @classmethod
    def from_model(
        cls, model: Any, *, false_alarm_rate: float = 0.01, floor_tolerance: float = 0.0, random_state: Any = 0
    ) -> Self:
        """A fitted detector without rows: ``model`` is a RectifiedGaussian, or anything with a ``distribution_``.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([1.0, 1.0], [[1.0, 0.9], [0.9, 1.0]])
        >>> unrelu.FloorOutlierDetector.from_model(model).predict([[2.0, 2.0], [2.0, 0.0]])
        array([ 1, -1])
        """
        check_false_alarm_rate("false_alarm_rate", false_alarm_rate)
        options = {"false_alarm_rate": false_alarm_rate, "random_state": random_state}
        detector, distribution = cls._made_from(model, floor_tolerance, **options)
        return detector._scoring_by(distribution)

    def _scoring_by(self, distribution: RectifiedGaussian) -> Self:
        self.distribution_ = distribution
        self._scores = OutlierScores.of_model(self._distribution(), self._columns.tolerance, self._seed())
        self.offset_ = score_threshold(self._scores, float(self.false_alarm_rate))
        return self

    def _distribution(self) -> RectifiedGaussian:
        """The distribution of latent values, columns with a ceiling negated."""
        return self.distribution_.latent.negated(self._columns.negated)

    def _training_quantile(self, scores: OutlierScores, samples: Samples, share: float) -> float:
        found = scored_rows(samples, scores.score, self._assumptions(), self._progress)
        given = [block.weights for block in samples.blocks()]
        if any(part is None for part in given):
            return float(np.quantile(found, share))
        weights = np.concatenate([part for part in given if part is not None])
        present = weights > 0.0
        return float(np.quantile(found[present], share, weights=weights[present], method="inverted_cdf"))

    # --- scores -----------------------------------------------------------------------------------

    def predict(self, X: Table) -> NDArray[np.int64]:
        """-1 for outliers, +1 for inlier rows."""
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def decision_function(self, X: Table) -> FloatArray:
        """``score_samples(X) - offset_``, as scikit-learn has it: negative for outliers."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def score_samples(self, X: Table) -> FloatArray:
        """Log density of each row, in units of what each of its cells usually has: larger = more typical."""
        return self._of_rows(X, self._fitted().score)

    def outlier_score(self, X: Table) -> FloatArray:
        """``-score_samples(X)``: larger = more outlying."""
        return np.negative(self.score_samples(X))

    def mahalanobis(self, X: Table) -> FloatArray:
        """Squared Mahalanobis distance of each row from the inlier rows' mean, larger = more outlying.

        The expected one where cells are hidden, as :meth:`unrelu.RectifiedGaussianLearner.mahalanobis` has it.
        """
        check_is_fitted(self)
        density = Density.for_distances(self._distribution())
        return self._of_rows(X, self._with_censoring(density.mahalanobis))

    def p_values(self, X: Table) -> FloatArray:
        """The share of the model's own rows that are at least as outlying as each row of X.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(2000, random_state=1)
        >>> X[0] = [0.0, 9.0, 0.0]
        >>> bool(unrelu.FloorOutlierDetector().fit(X).p_values(X[:1])[0] < 1e-6)
        True
        """
        return self._fitted().tail.p_value(self.score_samples(X))

    def cell_residuals(self, X: Table) -> FloatArray:
        """Per cell, its signed distance from the prediction of the row's other cells, in standard deviations.

        For a floored cell it is the distance of the floor: with -5 so low a value was as unlikely as 5 standard
        deviations, with a positive number it was to be expected. NaN where missing or in a constant column.
        """
        return self._of_rows(X, self._fitted().scores.cell_residuals) * self._columns.sign

    def cell_outlier_score(self, X: Table, *, signed: bool = False) -> FloatArray:
        """How outlying each cell is given the rest of its row, in standard deviations: larger = more outlying.

        0 where a floored cell was to be expected, infinite off a column's constant, NaN where missing. ``signed``:
        negative for cells that are too low.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([-1.0, 1.0], [[1.0, 0.8], [0.8, 1.0]])
        >>> detector = unrelu.FloorOutlierDetector.from_model(model)
        >>> detector.cell_outlier_score([[0.0, 1.0], [0.0, 5.0]]).round(1)
        array([[0. , 0.3],
               [3.7, 4.8]])
        """
        scores = self._of_rows(X, self._fitted().scores.cell_outlier_score)
        return scores * self._columns.sign if signed else np.abs(scores)

    def cell_probabilities(self, X: Table) -> FloatArray:
        """Per cell, the probability of being bad; NaN where missing.

        After method="robust_cells" by the learned distribution of bad cells and outlier rows, elsewhere as if one cell
        in a hundred were bad, anywhere in its column.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(4, random_state=0).sample(2000, random_state=1)
        >>> X[:100, 1] += 8.0
        >>> detector = unrelu.FloorOutlierDetector("robust_cells").fit(X)
        >>> detector.cell_probabilities(X[:2]).round(3)
        array([[0., 1., 0., 0.],
               [0., 1., 0., 0.]])
        """
        scores, distribution = self._fitted().scores, self._cell_distribution
        if distribution is None:
            distribution = CellModel.of_model(self._distribution(), self._columns.tolerance)
        return self._of_rows(X, lambda values: bad_probability(distribution, scores, values))

    def score_table(self, X: Table, top: int = 10, cells_of: str = "top") -> Verdict:
        """Score all rows of a table at once: scores, p-values, which rows are flagged, and by which cells.

        ``top``: the number of the most outlying rows whose cells are scored. ``cells_of="flagged"`` scores the cells of
        all flagged rows, too; each such row costs as many scores as there are columns.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(2000, random_state=1)
        >>> X[7, 1] += 9.0
        >>> scored = unrelu.FloorOutlierDetector().fit(X).score_table(X, top=1)
        >>> scored.top, bool(scored.flagged[7]), [column for column, size in scored.drivers(7)]
        (array([7]), True, [1])
        """
        scores = self._fitted()
        check_choice("cells_of", cells_of, ["top", "flagged"])
        if isinstance(top, bool) or not (isinstance(top, Integral) and top >= 0):
            raise InvalidParameterError(f"top must be a whole number of at least 0, got {top!r}.")
        samples, assumptions = self._rows(X), self._assumptions()
        return judge_rows(samples, scores, assumptions, self.offset_, int(top), cells_of == "flagged", self._progress)

    def _fitted(self) -> OutlierScores:
        check_is_fitted(self)
        assert self._scores is not None
        return self._scores

    # --- what was learned -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return self._scores is not None

    def _solve(self, name: str) -> None:
        if name == "report_":
            raise AttributeError("A detector made from a model has learned from no rows: it has no report_.")
        if name == "row_weights_":
            raise AttributeError("Only a fit with method='robust' or 'robust_cells' gives row_weights_.")
        if name == "cell_weights_":
            raise AttributeError("Only a fit with method='robust_cells' gives cell_weights_.")


def check_false_alarm_rate(name: str, rate: float) -> None:
    """Raise InvalidParameterError unless the rate lies strictly between 0 and 1."""
    if isinstance(rate, bool) or not (isinstance(rate, Real) and 0.0 < rate < 1.0):
        raise InvalidParameterError(f"{name} must be a number between 0 and 1, such as 0.01; got {rate!r}.")
