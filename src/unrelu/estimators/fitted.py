"""What an estimator with one learned model says: attributes, densities of rows, draws, and whether it fits."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unrelu import registry
from unrelu.contracts import Assumptions, Censoring, FloatArray, LearningReport, Samples
from unrelu.estimators.base import FloorEstimator, ScoresByDensity, Table
from unrelu.estimators.fits import Fit
from unrelu.fit.jackknife import intervals
from unrelu.fit.one_pass import Learned
from unrelu.margins import Margins
from unrelu.model import RectifiedGaussian
from unrelu.passes.tiles import censoring_of
from unrelu.posterior.density import Density
from unrelu.tables.prepared import prepared
from unrelu.validation import RandomState

if TYPE_CHECKING:
    from unrelu.checks.fit_check import FitCheck
    from unrelu.storage import FilePath

OF_THE_MODEL = (
    "distribution_", "margins_", "floor_", "ceiling_", "mean_", "covariance_", "correlation_", "scoring_covariance_",
    "std_",
)  # fmt: skip
_OF_THE_FIT = (
    "report_", "mean_stderr_", "std_stderr_", "correlation_stderr_", "row_weights_", "cell_weights_", "record_",
)  # fmt: skip


def every_learned() -> Any:
    """What any method gives, with the reports of all: files may hold each of them."""
    from unrelu.fit.likelihood.learning import LikelihoodReport  # noqa: F401 - a report is one of those that are known
    from unrelu.fit.robust_cells.learn import CellsLearned
    from unrelu.fit.robust_rows.learn import RobustLearned

    return Learned | RobustLearned | CellsLearned


class FittedModel(ScoresByDensity, FloorEstimator):
    """The learner, and what holds one: the attributes and methods that speak of the learned model.

    Attributes are set when a fit is done; matrices that take work are made when they are first asked for, and kept.
    """

    _takes_sparse = True
    floor: Any
    ceiling: Any
    distribution_: RectifiedGaussian
    margins_: Margins | None
    report_: LearningReport
    mean_: Any  # arrays, of the device that the rows were on where scikit-learn is told so
    covariance_: Any
    std_: Any
    mean_stderr_: Any
    std_stderr_: Any
    correlation_stderr_: Any
    row_weights_: FloatArray
    cell_weights_: NDArray[np.float32]
    _derived: ClassVar[tuple[str, ...]] = (*OF_THE_MODEL, *_OF_THE_FIT)  # from what files hold

    @abstractmethod
    def _result(self) -> Learned:
        """What was learned, of latent values, columns with a ceiling negated."""

    @abstractmethod
    def held_learner(self) -> Any:
        """The learner whose fit this is."""

    def _distribution(self) -> RectifiedGaussian:
        """The distribution of latent values, columns with a ceiling negated."""
        return self._result().distribution

    # --- attributes -------------------------------------------------------------------------------

    def _publish(self, model: RectifiedGaussian, fit: Fit | None = None) -> None:
        """Set the attributes that speak of a model in the user's units, and of its fit, if there was one."""
        self._forget()
        self.distribution_, self.margins_ = model, self._columns.margins
        self.floor_, self.ceiling_ = model.floor, model.ceiling
        arrays: dict[str, Any] = {"mean_": model.mean, "covariance_": model.covariance, "std_": model.std}
        if fit is not None:
            learned, self.report_ = fit.learned, fit.report
            arrays["mean_stderr_"], arrays["std_stderr_"] = learned.rows.mean_stderr, learned.rows.std_stderr
            arrays["correlation_stderr_"] = learned.pairs.stderr
            if (row_weights := getattr(learned, "row_weights", None)) is not None:
                self.row_weights_ = row_weights
            if (cell_weights := getattr(learned, "cell_weights", None)) is not None:
                self.cell_weights_ = cell_weights
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
        """The same as ``mean_``, by the name that scikit-learn's covariance estimators have."""
        return self.mean_

    @cached_property
    def scoring_covariance_(self) -> Any:
        """What rows are scored by: the covariance, shrunken as far as it is uncertain."""
        return self._handed_out(self.distribution_.scoring.covariance)

    def _solve(self, name: str) -> None:
        """Publish what was learned, if that has not been done; a name that there will not be is an AttributeError."""
        learned = self._result()
        if "distribution_" not in vars(self):
            fit = Fit(self._columns, learned)
            self._publish(fit.distribution, fit)
        if name == "row_weights_" and name not in vars(self):
            raise AttributeError(
                f"Only method='robust' and 'robust_cells' give row_weights_, not {learned.report.method!r}."
            )
        if name == "cell_weights_" and name not in vars(self):
            raise AttributeError(f"Only method='robust_cells' gives cell_weights_, not {learned.report.method!r}.")

    @property
    def n_parameters_(self) -> int:
        """How many numbers were learned: means, covariances (loadings and noise of a factor model), margins."""
        d, k = int(np.count_nonzero(self.distribution_.std)), getattr(self, "n_components", None)
        k = getattr(getattr(self, "report_", None), "n_components", k)  # where it was found
        covariances = d * (d + 1) // 2 if k is None else min(d * (d + 1) // 2, d * (k + 1) - k * (k - 1) // 2)
        return d + covariances + sum(margin.n_parameters for margin in self.margins_ or ())

    # --- what it says of rows ---------------------------------------------------------------------

    def _table(self, X: Any, sample_weight: Any = None, **how: Any) -> Samples:
        return super()._table(X, sample_weight, floor=self.floor, ceiling=self.ceiling, **how)

    def _turned_rows(self, X: Any, by_cell: bool = False) -> tuple[Samples, Assumptions]:
        """Later rows in the user's units, columns with a ceiling negated, and what is assumed of such rows."""
        samples = self._table(X, reset=False, smallest=1, by_cell=by_cell)
        plain = replace(self._assumptions(), floor=self._columns.plain.floor)
        return prepared(samples, replace(self._columns, margins=None)), plain

    def confidence_intervals(self, level: float = 0.95) -> dict[str, FloatArray]:
        """Low and high ends for "mean", "std" (d x 2) and "correlation" (d x d x 2).

        From the standard errors, with Student's quantiles where these are the jackknife's. Norms go through their
        logarithm, correlations through Fisher's z.

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
        """Log density of each row: density of the values above the floor, probability of the others to be at it.

        NaN cells are integrated over. A column that is constant in the model adds 0, or -10,000 where a cell differs.
        """
        model, floor = self._distribution(), np.array(self._assumptions().censored_at)
        distribution = Density.of(model)
        distribution.warn_if_singular()

        def density(x: NDArray[Any], censoring: Censoring | None = None) -> FloatArray:
            return distribution.log_density(*censoring_of(x, censoring, floor))

        return self._log_densities(X, density, [model], by_cell=True)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw rows from the learned model."""
        rows: FloatArray = self.distribution_.sample(n_samples, random_state)
        return rows

    def check(self, X: Table, n_simulations: int = 199, level: float = 0.05) -> FitCheck:
        """Does a model of this kind fit the rows of X, those that were learned? Which columns and pairs do not?

        A model is fitted to X (to 5,000 of its rows, if there are more) and compared with it; p-values come from tables
        that this model gives, each fitted anew. A model that was not fitted to X: :func:`unrelu.check_model`.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.5, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> X = model.sample(500, random_state=1)
        >>> unrelu.RectifiedGaussianLearner().fit(X).check(X).fits
        True
        """
        from unrelu.estimators.checking import check_learner  # fits need not wait for it

        check_is_fitted(self)
        wanted = {"number": n_simulations, "seed": self._seed(), "level": level}
        return check_learner(self.held_learner(), *self._turned_rows(X), wanted, self._progress)

    def write_html(
        self, path: FilePath, X: Table | None = None, *, title: str = "", n_simulations: int | None = None
    ) -> None:
        """Write one page for a browser about the table X that was learned: columns, fit, correlations, odd rows.

        Without X the page has what the model alone can say. ``n_simulations``: of :meth:`check`, 0 for none; by default
        as many as the number of columns allows. Needs ``pip install "unrelu[report]"``.

        >>> import pathlib, tempfile, unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
        >>> page = pathlib.Path(tempfile.mkdtemp()) / "report.html"
        >>> unrelu.RectifiedGaussianLearner().fit(X).write_html(page, X, n_simulations=19)
        >>> page.read_text().startswith("<!doctype html>")
        True
        """
        check_is_fitted(self)
        wanted = {"title": title or type(self).__name__, "n_simulations": n_simulations}
        # Pages stand above the estimators: whoever makes them has said so to the registry, as the papers' methods do.
        registry.find("page", "report_of")(self, path, X, {**wanted, "seed": self._seed(), "progress": self._progress})
