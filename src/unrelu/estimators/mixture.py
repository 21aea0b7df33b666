"""RectifiedGaussianMixture: groups of rows, each a left-censored Gaussian, with scikit-learn's interface.

The mathematics is in :mod:`unrelu.fit.robust_rows.clustering`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from unrelu.contracts import FloatArray, Samples
from unrelu.errors import InvalidParameterError
from unrelu.estimators.base import FloorEstimator, ScoresByDensity, Table
from unrelu.estimators.fits import Fit, evidence_of
from unrelu.estimators.preparation import checked_weights
from unrelu.fit.robust_rows.clustering import FittedMixture, fit_mixture
from unrelu.model import RectifiedGaussian
from unrelu.passes.rows import ArraySamples, all_values, as_rows
from unrelu.passes.tiles import without_absent
from unrelu.validation import RandomState, check_count, generator, warn

Labels = NDArray[np.int64]


class RectifiedGaussianMixture(ScoresByDensity, DensityMixin, FloorEstimator):
    """Rows from several groups: x = max(y, floor), y ~ N(mean_k, covariance_k) with probability weight_k.

    Where many values are at the floor, the table has spikes and edges that a mixture of ordinary Gaussians takes for
    groups; here they are the effect of the floor on a Gaussian.

    Parameters
    ----------
    n_components : int, default=2
        Number of groups. :meth:`bic` helps to choose it.
    n_init : int, default=3
        Random starts, beside one that adds a group at a time. The most likely fit is kept.
    max_iter : int, default=300
        Most rounds of EM, each one pass over the rows.
    floor : float or one per column, default=0.0
        Detection limits: values at the floor are left-censored; values below it are an error. NaN means not observed.
    ceiling : float or one per column, default=None
        Upper limits, as for :class:`unrelu.RectifiedGaussianLearner`.
    margins : str, object of :mod:`unrelu.margins`, one per column, or dict by name, default="auto"
        The function x = f(y) of each column, as for :class:`unrelu.RectifiedGaussianLearner`, the same for all groups.
        Means and covariances are then of latent values.
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    random_state : int, Generator or None, default=0
        Seeds the starts.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
        Shares of the groups, from the largest down.
    distributions_ : tuple of RectifiedGaussian
        The groups: sample from them, save them.
    means_, covariances_ : arrays of shape (n_components, d) and (n_components, d, d)
        Means and covariances of the latent Gaussians.
    converged_, n_iter_ : bool, int
        Whether EM converged, and its rounds, those of its start included.
    lower_bound_ : float
        Mean log-likelihood of the rows learned from, weighted.
    report_ : MixtureReport
        How the fit went.
    n_features_in_, feature_names_in_ : int, array
        The columns seen by :meth:`fit`, and their names where they have any.

    Notes
    -----
    Where a group is (almost) never above the floor of a column, its mean and standard deviation there rest on a prior
    worth one row. Correlations are shrunken by the share of them that is sampling error.

    ``sample_weight`` acts as repeated rows do, as far as starts on a sample of the rows allow; weights with a mean
    below 1 are scaled to a mean of 1.

    Examples
    --------
    >>> import numpy as np
    >>> import unrelu
    >>> one = unrelu.RectifiedGaussian([0.0, 2.0], [[1.0, 0.6], [0.6, 1.0]])
    >>> other = unrelu.RectifiedGaussian([3.0, 0.0], [[1.0, -0.5], [-0.5, 1.0]])
    >>> X = np.vstack([one.sample(1400, random_state=0), other.sample(600, random_state=1)])
    >>> mixture = unrelu.RectifiedGaussianMixture(2, random_state=0).fit(X)
    >>> bool(np.abs(mixture.means_ - [[0.0, 2.0], [3.0, 0.0]]).max() < 0.2)
    True
    >>> mixture.predict([[0.0, 2.5], [3.0, 0.0]])
    array([0, 1])
    """

    _derived = ("report_", "weights_", "means_", "covariances_", "converged_", "n_iter_", "lower_bound_")
    distributions_: tuple[RectifiedGaussian, ...]
    _fitted: FittedMixture | None = None

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_init: int = 3,
        max_iter: int = 300,
        floor: Any = 0.0,
        ceiling: Any = None,
        margins: Any = "auto",
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.floor = floor
        self.ceiling = ceiling
        self.margins = margins
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn the groups of the rows of X.

        X is an array, a data frame, or rows that are read block by block (:func:`unrelu.tables.open_samples`).
        """
        self._fitted = None
        self._forget()
        for name in ("n_components", "n_init", "max_iter"):
            check_count(name, getattr(self, name))
        samples = self._weighted_rows(X, sample_weight)
        self._learn_columns(samples, tested=False)  # a monotone margin would make groups look like one normal column
        if samples.n_rows is not None and self.n_components > samples.n_rows:
            raise InvalidParameterError(
                f"n_components={self.n_components} is more than the {samples.n_rows:,} rows (n_samples): lower it or"
                " add rows."
            )
        assumptions, counts = self._assumptions(), (self.n_components, self.n_init, self._seed(), self.max_iter)
        evidence = evidence_of(samples, self._columns, self._progress)
        fitted, distributions = fit_mixture(evidence, assumptions, *counts, self._progress)
        self.distributions_ = tuple(map(Fit(self._columns, fitted).in_user_units, distributions))
        self._fitted = fitted
        self._solve("report_")
        if not self.converged_:
            warn(
                f"No convergence of EM after max_iter={self.max_iter} rounds: raise max_iter, or lower n_components.",
                "not-converged",
            )
        return self

    def _weighted_rows(self, X: Table, sample_weight: ArrayLike | None) -> Samples:
        """The rows to be learned from; rows of arrays with weight 0, which may hold anything, become missing."""
        if sample_weight is None or isinstance(as_rows(X), Samples) or hasattr(X, "__dask_graph__"):
            return self._table(X, sample_weight, reset=True)
        rows = self._whole(X, reset=True)
        weights = checked_weights(sample_weight, rows.n_rows or 0)
        # Weights that are measures of trust, such as shares that sum to one, are scaled so that a row counts as a row.
        # Larger weights stay, since they may be numbers of rows.
        mean = weights.sum() / max(np.count_nonzero(weights), 1)
        weights = weights / mean if 0.0 < mean < 1.0 else weights
        values = without_absent(all_values(rows), weights)
        return ArraySamples(values, weights, rows.feature_names, max(len(values), 1), rows.limits)

    def fit_predict(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> Labels:
        """Learn the groups, and return the most likely group of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    # --- rows ---------------------------------------------------------------------------------------

    def predict(self, X: Table) -> Labels:
        """The most likely group of each row: 0 is the largest group."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1))

    def predict_proba(self, X: Table) -> FloatArray:
        """Probability of each group, n x n_components."""
        return self._of_rows(X, self._result().probabilities)

    def score_samples(self, X: Table) -> FloatArray:
        """Log density of each row, larger = more typical: density of seen cells, probability of censored cells.

        NaN cells are integrated over.
        """
        fitted = self._result()
        distributions = [distribution.latent.negated(self._columns.negated) for distribution in self.distributions_]
        return self._log_densities(X, fitted.log_density, distributions)

    @property
    def n_parameters_(self) -> int:
        """The number of parameters learned."""
        return self._result().n_parameters

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[FloatArray, Labels]:
        """Draw rows from the learned groups, group after group, and the group of each row."""
        self._result()
        check_count("n_samples", n_samples)
        rng = generator(random_state)
        counts = rng.multinomial(n_samples, self.weights_)
        rows = [model.sample(int(count), rng) for model, count in zip(self.distributions_, counts, strict=True)]
        return np.concatenate(rows), np.repeat(np.arange(len(counts)), counts)

    # --- what was learned -------------------------------------------------------------------------

    @classmethod
    def stored(cls) -> dict[str, Any]:
        return {**super().stored(), "_fitted": FittedMixture, "distributions_": tuple[RectifiedGaussian, ...]}

    def _result(self) -> FittedMixture:
        check_is_fitted(self)
        assert self._fitted is not None
        return self._fitted

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    def _solve(self, name: str) -> None:  # noqa: ARG002 - all of them at once
        fitted = self._result()
        report = self.report_ = fitted.report
        self.weights_ = fitted.mixture.shares.copy()
        self.means_ = np.stack([model.mean for model in self.distributions_])
        self.covariances_ = np.stack([model.covariance for model in self.distributions_])
        self.converged_, self.n_iter_ = report.converged, report.rounds
        self.lower_bound_ = report.log_likelihood / report.weight
