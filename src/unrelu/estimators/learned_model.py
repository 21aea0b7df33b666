"""What a learner knows once it has learned: the model, its errors, densities of rows, draws, and whether it fits."""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unrelu.contracts import FloatArray, LearningReport, Marks
from unrelu.estimators.base import FloorEstimator, Table
from unrelu.fit.jackknife import intervals
from unrelu.fit.one_pass import Learned
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import marks_of
from unrelu.posterior.density import Density
from unrelu.shapes import Shapes
from unrelu.validation import RandomState

if TYPE_CHECKING:
    from unrelu.checks.fit_check import FitCheck
    from unrelu.storage import FilePath

_PAGES = "unrelu.report.page.making"


class LearnedModel(FloorEstimator):
    """The part of a learner that speaks of its result."""

    @abstractmethod
    def _result(self) -> Learned:
        """What was learned, of latent values, columns with a ceiling upside down."""

    def _law(self) -> RectifiedGaussian:
        """The law of latent values, columns with a ceiling upside down."""
        return self._result().distribution

    @property
    def distribution_(self) -> RectifiedGaussian:
        return self._in_user_units(self._law())

    @property
    def shapes_(self) -> Shapes | None:
        self._law()
        return self._shapes

    @property
    def floor_(self) -> FloatArray:
        """The floors that were used, -inf for a column without one."""
        return self.distribution_.floor

    @property
    def ceiling_(self) -> FloatArray:
        """The ceilings that were used, inf for a column without one."""
        return self.distribution_.ceiling

    @property
    def report_(self) -> LearningReport:
        report: LearningReport = self._told(self._result().report)
        return report

    @property
    def bias_(self) -> Any:
        return self._handed_out(self.distribution_.bias)

    @property
    def covariance_(self) -> Any:
        return self._handed_out(self.distribution_.covariance)

    @property
    def correlation_(self) -> Any:
        return self._handed_out(self.distribution_.correlation)

    @property
    def scoring_covariance_(self) -> Any:
        return self._handed_out(self.distribution_.scoring.covariance)

    @property
    def row_norms_(self) -> Any:
        return self._handed_out(self.distribution_.row_norms)

    @property
    def bias_stderr_(self) -> Any:
        return self._handed_out(self._result().rows.bias_stderr)

    @property
    def row_norms_stderr_(self) -> Any:
        return self._handed_out(self._result().rows.scale_stderr)

    @property
    def correlation_stderr_(self) -> Any:
        return self._handed_out(self._result().pairs.stderr)

    def confidence_intervals(self, level: float = 0.95) -> dict[str, FloatArray]:
        """Low and high ends for "bias", "row_norms" (d x 2) and "correlation" (d x d x 2).

        From the standard errors, with Student's quantiles where these are the jackknife's. Norms go through their
        logarithm, correlations through Fisher's z.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
        >>> learner = unrelu.RectifiedGaussianLearner(stderr="jackknife").fit(X)
        >>> low, high = learner.confidence_intervals()["bias"][0]
        >>> bool(low < learner.bias_[0] < high)
        True
        """
        law, rows = self.distribution_, self._result().rows
        return intervals(
            (law.bias, rows.bias_stderr),
            (law.row_norms, rows.scale_stderr),
            (law.correlation, self._result().pairs.stderr),
            level,
            self.report_.stderr_degrees,
        )

    @property
    def row_weights_(self) -> FloatArray:
        learned = self._result()
        weights: FloatArray | None = getattr(learned, "row_weights", None)
        if weights is None:
            raise AttributeError(
                f"Only method='robust' and 'robust_cells' give row_weights_, not {learned.report.method!r}."
            )
        return weights

    @property
    def cell_weights_(self) -> NDArray[np.float32]:
        learned = self._result()
        weights: NDArray[np.float32] | None = getattr(learned, "cell_weights", None)
        if weights is None:
            raise AttributeError(f"Only method='robust_cells' gives cell_weights_, not {learned.report.method!r}.")
        return weights

    def score_samples(self, X: Table) -> FloatArray:
        """Log density of each row: density of the values above the floor, probability of the others to be at it.

        NaN cells are integrated over. A column that is constant in the model adds 0, or -10,000 where a cell differs.
        """
        law, floor = Density.of(self._law()), np.array(self._assumptions().censoring)
        law.warn_if_singular()

        def density(x: NDArray[Any], beyond: Marks | None = None) -> FloatArray:
            return law.log_density(*marks_of(x, beyond, floor))

        return self._log_densities(X, density, [self._law()], True)

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

    @property
    def n_parameters_(self) -> int:
        """How many numbers were learned: means, covariances (loadings and noise of a factor model), shapes."""
        d, k = int(np.count_nonzero(self.distribution_.row_norms)), getattr(self, "n_components", None)
        k = getattr(getattr(self, "report_", None), "n_components", k)  # where it was found
        covariances = d * (d + 1) // 2 if k is None else min(d * (d + 1) // 2, d * (k + 1) - k * (k - 1) // 2)
        return d + covariances + sum(shape.n_parameters for shape in self._shapes or ())

    def bic(self, X: Table) -> float:
        """Bayes's information criterion of the model on X, as scikit-learn has it: lower is better.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
        >>> learner = unrelu.RectifiedGaussianLearner().fit(X)
        >>> learner.aic(X) < learner.bic(X)
        True
        """
        densities = self.score_samples(X)
        return float(-2.0 * densities.sum() + self.n_parameters_ * np.log(len(densities)))

    def aic(self, X: Table) -> float:
        """Akaike's information criterion of the model on X, as scikit-learn has it: lower is better."""
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self.n_parameters_)

    def check(self, X: Table, n_simulations: int = 199, level: float = 0.05) -> FitCheck:
        """Does a model of this kind fit the rows of X, those that were learned? Which columns and pairs do not?

        A model is fitted to X (to 5,000 of its rows, if there are more) and compared with it; p-values come from tables
        that this model gives, each fitted anew. A model that was not fitted to X: :func:`unrelu.check_model`.

        >>> import unrelu
        >>> X = unrelu.RectifiedGaussian([0.5, 0.0], [[1.0, 0.6], [0.6, 1.0]]).sample(500, random_state=1)
        >>> unrelu.RectifiedGaussianLearner().fit(X).check(X).fits
        True
        """
        from unrelu.estimators.checking import check_learner  # fits need not wait for it

        check_is_fitted(self)
        wanted = {"number": n_simulations, "seed": self._seed(), "level": level}
        return check_learner(self, *self._rows_in_user_units(X), wanted, self._watch)

    def report(
        self, path: FilePath, X: Table | None = None, *, title: str = "", n_simulations: int | None = None
    ) -> None:
        """Write one page for a browser about the table X that was learned: columns, fit, correlations, odd rows.

        Without X the page has what the model alone can say. ``n_simulations``: of :meth:`check`, 0 for none; by default
        as many as the number of columns allows. Needs ``pip install "unrelu[report]"``.

        >>> import pathlib, tempfile, unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
        >>> page = pathlib.Path(tempfile.mkdtemp()) / "report.html"
        >>> unrelu.RectifiedGaussianLearner().fit(X).report(page, X, n_simulations=19)
        >>> page.read_text().startswith("<!doctype html>")
        True
        """
        check_is_fitted(self)
        # Pages stand above the estimators: whoever makes them is found by name, as the kinds of files are.
        wanted = {"title": title or type(self).__name__, "n_simulations": n_simulations}
        import_module(_PAGES).report_of(self, path, X, {**wanted, "seed": self._seed(), "watch": self._watch})

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw rows from the learned model."""
        rows: FloatArray = self.distribution_.sample(n_samples, random_state)
        return rows
