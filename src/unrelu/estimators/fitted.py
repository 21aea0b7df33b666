"""Estimators with one learned model: attributes, densities and distances of rows, draws, and whether it fits."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unrelu import registry
from unrelu.contracts import Assumptions, FloatArray, LearningReport, Samples
from unrelu.errors import InvalidDataError
from unrelu.estimators.base import FloorEstimator, ScoresByDensity, Table
from unrelu.estimators.fits import Fit
from unrelu.fit.jackknife import intervals
from unrelu.fit.one_pass import Learned
from unrelu.margins import Margins
from unrelu.model import RectifiedGaussian
from unrelu.posterior.density import Density
from unrelu.tables.prepared import prepared
from unrelu.validation import RandomState

if TYPE_CHECKING:
    from unrelu.checks.fit_check import FitCheck
    from unrelu.storage import FilePath


def every_learned() -> Any:
    """The results of all methods, and their reports: files may hold each of them."""
    from unrelu.fit.likelihood.learning import LikelihoodReport  # noqa: F401 - imported so that files may hold it
    from unrelu.fit.robust_cells.learn import CellsLearned
    from unrelu.fit.robust_rows.learn import RobustLearned

    return Learned | RobustLearned | CellsLearned


class FittedModel(ScoresByDensity, FloorEstimator):
    """Base of the learner, and of estimators that hold a learner: attributes and methods of the learned model.

    Attributes are set when a fit is done; matrices that take work are made when they are first needed, and kept.
    """

    _takes_sparse = True
    floor: Any
    ceiling: Any
    distribution_: RectifiedGaussian
    margins_: Margins | None
    report_: LearningReport
    mean_: Any  # arrays, on the device of the rows where scikit-learn's ``array_api_dispatch`` is set
    covariance_: Any
    precision_: Any
    std_: Any
    mean_stderr_: Any
    std_stderr_: Any
    correlation_stderr_: Any
    row_weights_: FloatArray
    cell_weights_: NDArray[np.float32]
    _derived: ClassVar[tuple[str, ...]] = (
        "distribution_", "margins_", "floor_", "ceiling_", "mean_", "covariance_", "precision_", "correlation_",
        "scoring_covariance_", "std_", "report_", "mean_stderr_", "std_stderr_", "correlation_stderr_", "row_weights_",
        "cell_weights_", "record_",
    )  # fmt: skip

    @abstractmethod
    def _result(self) -> Learned:
        """The result of the method, of latent values, columns with a ceiling negated."""

    @abstractmethod
    def held_learner(self) -> Any:
        """The learner whose fit this is."""

    def _distribution(self) -> RectifiedGaussian:
        """The distribution of latent values, columns with a ceiling negated."""
        return self._result().distribution

    # --- attributes -------------------------------------------------------------------------------

    def _publish(self, model: RectifiedGaussian, fit: Fit | None = None) -> None:
        """Set the attributes of a model in the user's units, and of its fit, if there was one."""
        self._forget()
        self.distribution_, self.margins_ = model, self._columns.margins
        self.floor_, self.ceiling_ = model.floor, model.ceiling
        arrays: dict[str, Any] = {"mean_": model.mean, "covariance_": model.covariance, "std_": model.std}
        if fit is not None:
            learned, self.report_ = fit.learned, fit.report
            arrays["mean_stderr_"], arrays["std_stderr_"] = learned.rows.mean_stderr, learned.rows.std_stderr
            arrays["correlation_stderr_"] = learned.pairs.stderr
            for name in ("row_weights", "cell_weights"):
                if hasattr(learned, name):
                    setattr(self, f"{name}_", getattr(learned, name))
        for name, array in arrays.items():
            setattr(self, name, array if self._answers_on is None else self._answers_on.array(array))

    def _handed_out(self, array: FloatArray) -> Any:
        return array if self._answers_on is None else self._answers_on.array(array)

    @cached_property
    def correlation_(self) -> Any:
        """Correlations of the latent values."""
        return self._handed_out(self.distribution_.correlation)

    @property
    def location_(self) -> Any:
        """The same as ``mean_``: its name in scikit-learn's covariance estimators."""
        return self.mean_

    @cached_property
    def scoring_covariance_(self) -> Any:
        """The covariance that scores rows, shrunken as far as it is uncertain."""
        return self._handed_out(self.distribution_.scoring.covariance)

    def _solve(self, name: str) -> None:
        """Set what was learned, if that has not been done; AttributeError with the reason for what there is not."""
        if "distribution_" not in vars(self):
            fit = Fit(self._columns, self._result())
            self._publish(fit.distribution, fit)
        if name == "precision_":
            try:
                self.precision_ = self._handed_out(self.distribution_.precision)
            except InvalidDataError as error:
                raise AttributeError(str(error)) from error
        elif name not in vars(self):
            method = self._result().report.method
            if name == "row_weights_":
                raise AttributeError(f"Only method='robust' and 'robust_cells' give row_weights_, not {method!r}.")
            if name == "cell_weights_":
                raise AttributeError(f"Only method='robust_cells' gives cell_weights_, not {method!r}.")

    @property
    def n_parameters_(self) -> int:
        """The number of parameters: means, covariances (loadings and noise of a factor model), margins."""
        d, k = int(np.count_nonzero(self.distribution_.std)), getattr(self, "n_components", None)
        k = getattr(getattr(self, "report_", None), "n_components", k)  # where "auto" chose it
        covariances = d * (d + 1) // 2 if k is None else min(d * (d + 1) // 2, d * (k + 1) - k * (k - 1) // 2)
        return d + covariances + sum(margin.n_parameters for margin in self.margins_ or ())

    # --- rows ---------------------------------------------------------------------------------------

    def _table(self, X: Any, sample_weight: Any = None, **how: Any) -> Samples:
        return super()._table(X, sample_weight, floor=self.floor, ceiling=self.ceiling, **how)

    def _negated_rows(self, X: Any, by_cell: bool = False) -> tuple[Samples, Assumptions]:
        """Later rows in the user's units, columns with a ceiling negated, and the assumptions about such rows."""
        samples = self._table(X, reset=False, smallest=1, by_cell=by_cell)
        plain = replace(self._assumptions(), floor=self._columns.plain.floor)
        return prepared(samples, replace(self._columns, margins=None)), plain

    def confidence_intervals(self, level: float = 0.95) -> dict[str, FloatArray]:
        """Low and high ends for "mean", "std" (d x 2) and "correlation" (d x d x 2).

        From the standard errors, with Student's quantiles where these are the jackknife's. Intervals of standard
        deviations are symmetric on a log scale, intervals of correlations on the scale of Fisher's z.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
        >>> learner = unrelu.RectifiedGaussianLearner(stderr="jackknife").fit(X)
        >>> low, high = learner.confidence_intervals()["mean"][0]
        >>> bool(low < learner.mean_[0] < high)
        True
        """
        distribution, learned = self.distribution_, self._result()
        return intervals(
            (distribution.mean, learned.rows.mean_stderr),
            (distribution.std, learned.rows.std_stderr),
            (distribution.correlation, learned.pairs.stderr),
            level,
            self.report_.stderr_degrees,
        )

    def score_samples(self, X: Table) -> FloatArray:
        """Log density of each row, larger = more typical: density of seen cells, probability of censored cells.

        NaN cells are integrated over. A column that is constant in the model adds 0, or -10,000 where a cell differs.
        """
        model = self._distribution()
        density = Density.of(model)
        density.warn_if_singular()
        return self._log_densities(X, self._with_censoring(density.log_density), [model], by_cell=True)

    def mahalanobis(self, X: Table) -> FloatArray:
        """Squared Mahalanobis distance of each row from ``mean_``, by ``precision_``, as scikit-learn has it.

        Of a row with values below their floor or missing cells it is the expected distance of the latent row y, given
        what the row shows: E[(y - mean_)' precision_ (y - mean_) | row]. A missing cell adds 1 to the distance of the
        seen ones. The mean over rows of the model is the number of columns, whatever is hidden; where cells are hidden
        distances vary less than chi-square numbers, so that :class:`unrelu.FloorOutlierDetector` has the p-values.
        Columns of zero variance count nothing. ``scoring_covariance_`` serves where ``covariance_`` has no inverse.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(2000, random_state=1)
        >>> round(float(unrelu.RectifiedGaussianLearner().fit(X).mahalanobis(X).mean()), 1)
        3.0
        """
        density = Density.for_distances(self._distribution())
        return self._of_rows(X, self._with_censoring(density.mahalanobis), by_cell=True)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw rows from the learned model."""
        rows: FloatArray = self.distribution_.sample(n_samples, random_state)
        return rows

    def check(self, X: Table, n_simulations: int = 199, level: float = 0.05) -> FitCheck:
        """Does a model of this kind fit the rows of X that were learned? Which columns and pairs does it not fit?

        A model is fitted to X (to 5,000 of its rows, if there are more) and compared with X; p-values come from tables
        drawn from this model, each fitted anew. For a model that was not fitted to X: :func:`unrelu.check_model`.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.5, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> X = model.sample(500, random_state=1)
        >>> unrelu.RectifiedGaussianLearner().fit(X).check(X).fits
        True
        """
        from unrelu.estimators.checking import check_learner  # not imported by a fit

        check_is_fitted(self)
        wanted = {"number": n_simulations, "seed": self._seed(), "level": level}
        return check_learner(self.held_learner(), *self._negated_rows(X), wanted, self._progress)

    def write_html(
        self, path: FilePath, X: Table | None = None, *, title: str = "", n_simulations: int | None = None
    ) -> None:
        """Write one page for a browser about the table X that was learned: columns, fit, correlations, outliers.

        Without X the page describes the model alone. ``n_simulations``: of :meth:`check`, 0 for none; by default as
        many as the number of columns allows. Needs ``pip install "unrelu[report]"``.

        >>> import pathlib, tempfile, unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
        >>> page = pathlib.Path(tempfile.mkdtemp()) / "report.html"
        >>> unrelu.RectifiedGaussianLearner().fit(X).write_html(page, X, n_simulations=19)
        >>> page.read_text().startswith("<!doctype html>")
        True
        """
        check_is_fitted(self)
        wanted = {"title": title or type(self).__name__, "n_simulations": n_simulations}
        # Pages stand above the estimators: their maker is in the registry, as the papers' methods are.
        registry.find("page", "report_of")(self, path, X, {**wanted, "seed": self._seed(), "progress": self._progress})
