"""FloorImputer: tables whose non-detects, zeros and missing cells are filled in, with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unrelu.contracts import BoolArray, Censoring, FloatArray, Step
from unrelu.errors import InvalidParameterError
from unrelu.estimators.base import Table
from unrelu.estimators.fits import Fit
from unrelu.estimators.learner import HoldsLearner
from unrelu.fit.one_pass import Learned
from unrelu.methods import Method
from unrelu.model import RectifiedGaussian
from unrelu.passes.tiles import censoring_of, reachable, screening_of
from unrelu.posterior.cells import Cells, Filling
from unrelu.posterior.density import naming_gross
from unrelu.posterior.draws import drawn_parts, models_from_errors, number_of, seed_of
from unrelu.posterior.marginals import imputed
from unrelu.validation import RandomState, check_choice

_LEVELS: dict[str, tuple[float, ...]] = {"mean": (), "median": (0.5,)}
_STRATEGIES = ("mean", "median", "draw")
_PARAMETERS = ("drawn", "fitted")


class FloorImputer(OneToOneFeatureMixin, TransformerMixin, HoldsLearner):
    """Fill in cells at their floor (non-detects, zeros) and missing cells, given the rest of their row.

    It learns x = max(y, floor), y ~ N(mean, covariance). Floored cells get a value below their floor; missing cells get
    any value, but none below a floor of 0, unless ``fill`` or ``below`` say otherwise. Seen cells stay as they are.

    Parameters
    ----------
    method : str or object from :mod:`unrelu.methods`, default="auto"
        How to learn, as for :class:`unrelu.RectifiedGaussianLearner`; "robust" where rows may be outliers.
    strategy : "mean", "median" or "draw", default="mean"
        What :meth:`transform` fills in. Means are nearest to the truth, but a table of means has too little spread and
        too strong correlations; draws have the right ones (:meth:`draw` gives several).
    fill : "both", "hidden" or "missing", default="both"
        Which cells are filled in: those at a limit ("hidden"), those that are NaN ("missing"), or both.
    below : "auto", "latent" or "floor", default="auto"
        What is filled in where a value is below its floor: the value before the floor cut it off ("latent"), or what
        the table would show, max(y, floor), so that cells at their floor stay there ("floor"; ceilings likewise).
        "auto": cells at a limit get the value before it; missing ones as well where limits are those of detection, and
        what the table would show where the floor is 0, as of rain, spending or counts.
    add_indicator : bool, default=False
        :meth:`transform` appends a column of 0 and 1 for every column with cells that were filled in at :meth:`fit`: 1
        marks a cell that is filled in, be it at a limit or missing. Such columns are called
        ``missingindicator_<name>``, as those of scikit-learn's imputers. From a model, or merged, every column has one.
    floor, ceiling, margins, n_components, floor_tolerance, random_state
        As for :class:`unrelu.RectifiedGaussianLearner`; ``random_state`` also seeds the draws.

    Attributes
    ----------
    distribution_ : RectifiedGaussian
        The learned model. The imputer has all attributes and methods of :class:`unrelu.RectifiedGaussianLearner` for a
        learned model as well: ``mean_``, ``location_``, ``covariance_``, ``report_``, ``score(X)``, ``mahalanobis(X)``.

    Examples
    --------
    >>> import unrelu
    >>> model = unrelu.RectifiedGaussian([0.5, 0.0], [[1.0, 0.8], [0.8, 1.0]])
    >>> X = model.sample(2000, random_state=0)
    >>> imputer = unrelu.FloorImputer().fit(X)
    >>> filled = imputer.transform(X)
    >>> bool((filled[X == 0] < 0).all()), bool((filled[X > 0] == X[X > 0]).all())
    (True, True)
    """

    _model: RectifiedGaussian | None = None  # that the imputer was made from, if it has learned from no rows
    _indicated: NDArray[np.bool_] | None = None  # columns with cells that were filled in at fit

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        strategy: str = "mean",
        fill: str = "both",
        below: str = "auto",
        add_indicator: bool = False,
        floor: Any = 0.0,
        ceiling: Any = None,
        margins: Any = "auto",
        n_components: int | str | None = None,
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.strategy = strategy
        self.fill = fill
        self.below = below
        self.add_indicator = add_indicator
        self.floor = floor
        self.ceiling = ceiling
        self.margins = margins
        self.n_components = n_components
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn the model from the rows of X, as :meth:`unrelu.RectifiedGaussianLearner.fit` does."""
        self._model = self._learner = self._indicated = None
        self._hold(self._own_learner().fit(X, sample_weight=sample_weight))
        return self._with_indicators_of(X)

    def partial_fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Add the rows of X to those seen before, as :meth:`unrelu.RectifiedGaussianLearner.partial_fit` does."""
        learner = self._going_on(X)
        self._model = None
        self._hold(learner.partial_fit(X, sample_weight=sample_weight))
        return self._with_indicators_of(X)

    def _with_indicators_of(self, X: Table) -> Self:
        if self.add_indicator:
            filled = self.mask(X) if self._indicated is None else np.vstack([self._indicated, self.mask(X)])
            self._indicated = np.asarray(filled.any(axis=0))
        return self

    @classmethod
    def from_model(
        cls,
        model: Any,
        *,
        strategy: str = "mean",
        fill: str = "both",
        below: str = "auto",
        add_indicator: bool = False,
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
    ) -> Self:
        """A fitted imputer without rows: ``model`` is a RectifiedGaussian, or anything with a ``distribution_``.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> unrelu.FloorImputer.from_model(model).transform([[0.0, 1.0]]).round(3)
        array([[-0.463,  1.   ]])
        """
        options: dict[str, Any] = {"strategy": strategy, "fill": fill, "below": below, "add_indicator": add_indicator}
        imputer, distribution = cls._made_from(model, floor_tolerance, random_state=random_state, **options)
        imputer._model = distribution
        return imputer

    @classmethod
    def stored(cls) -> dict[str, Any]:
        indicated = Annotated[NDArray[np.bool_], "bools d"] | None
        return {**super().stored(), "_model": RectifiedGaussian | None, "_indicated": indicated}

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None or super().__sklearn_is_fitted__()

    def _distribution(self) -> RectifiedGaussian:
        return super()._distribution() if self._model is None else self._model.latent.negated(self._columns.negated)

    def _result(self) -> Learned:
        if self._model is not None:
            raise AttributeError("An imputer made from a model has learned from no rows: no report_, no errors.")
        return super()._result()

    def _solve(self, name: str) -> None:
        if self._model is not None and "distribution_" not in vars(self):
            self._publish(self._model)
        super()._solve(name)

    # --- filling in -------------------------------------------------------------------------------

    def transform(self, X: Table) -> NDArray[Any]:
        """X with its hidden cells filled in, as ``strategy`` says, and with indicators if ``add_indicator``."""
        check_choice("strategy", self.strategy, _STRATEGIES)
        filled = self.draw(X)[0] if self.strategy == "draw" else self._filled(X, _LEVELS[self.strategy])
        if not self.add_indicator:
            return filled
        return np.hstack([filled, self.mask(X)[:, self._with_indicator()]], dtype=filled.dtype)

    def _with_indicator(self) -> BoolArray:
        """The columns that :meth:`transform` appends an indicator of."""
        if self.add_indicator and self._indicated is not None:
            return self._indicated
        return np.full(self.n_features_in_, self.add_indicator)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the columns that :meth:`transform` gives: those of X, then those of the indicators.

        >>> import unrelu
        >>> unrelu.FloorImputer(add_indicator=True).fit([[0.0, 1.0], [2.0, 4.0], [1.0, 3.0]]).get_feature_names_out()
        array(['x0', 'x1', 'missingindicator_x0'], dtype=object)
        """
        names: NDArray[Any] = super().get_feature_names_out(input_features)
        indicators = [f"missingindicator_{name}" for name in names[self._with_indicator()]]
        return np.array([*names, *indicators], dtype=object)

    def quantile(self, X: Table, level: float) -> NDArray[Any]:
        """X with its hidden cells filled in by a quantile of their posterior.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.5, 0.0], [[1.0, 0.8], [0.8, 1.0]])
        >>> X = model.sample(2000, random_state=0)
        >>> imputer = unrelu.FloorImputer().fit(X)
        >>> bool((imputer.quantile(X, 0.05) <= imputer.quantile(X, 0.95)).all())
        True
        """
        return self._filled(X, (level,))

    def std(self, X: Table) -> NDArray[Any]:
        """Standard deviations of the cells that :meth:`transform` fills in; 0 for seen cells."""
        return self._filled(X, (), 1)

    def mask(self, X: Table) -> BoolArray:
        """Which cells of X are filled in.

        >>> import unrelu
        >>> X = [[0.0, 1.0], [2.0, float("nan")], [1.0, 3.0], [0.5, 0.0]]
        >>> [unrelu.FloorImputer(fill=fill).fit(X).mask(X).sum() for fill in ("both", "missing")]
        [np.int64(3), np.int64(1)]
        """
        filled = self.filling.filled
        return np.concatenate([filled(Cells(values, values, censoring)) for values, censoring in self._marked(X)])

    def draw(
        self, X: Table, n_draws: int = 1, random_state: RandomState = None, *, parameters: str | None = None
    ) -> FloatArray:
        """Multiple imputation: completed tables, n_draws x n x d, their hidden cells drawn from the posterior.

        With ``parameters="drawn"`` each table comes from a model of its own, drawn from the uncertainty of the fit, so
        that estimates pooled by Rubin's rules have honest intervals; with "fitted" all come from the fitted model.
        None: "drawn" where the fit has standard errors. Draws depend on ``random_state`` (the imputer's own by default)
        and on a row's place in X, not on other rows.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.5, 0.0], [[1.0, 0.8], [0.8, 1.0]])
        >>> X = model.sample(100, random_state=0)
        >>> imputer = unrelu.FloorImputer().fit(X)
        >>> drawn, fitted = (imputer.draw(X, 20, parameters=kind) for kind in ("drawn", "fitted"))
        >>> drawn[:, :, 0].mean(axis=1).std() > fitted[:, :, 0].mean(axis=1).std()
        np.True_
        """
        seed = seed_of(self.random_state if random_state is None else random_state)
        models = self.drawn_models(n_draws, seed, parameters)
        parts = drawn_parts(models, naming_gross(self.distribution_, self.cells(X)), n_draws, seed, self.filling)
        return np.concatenate([part for _, part in parts], axis=1)

    def drawn_models(
        self, n_draws: int, seed: int, parameters: str | None = None
    ) -> RectifiedGaussian | list[RectifiedGaussian]:
        """The models that draws come from: one drawn anew for each draw, or the fitted model for all."""
        number = number_of(n_draws)
        if parameters is not None:
            check_choice("parameters", parameters, _PARAMETERS)
        if parameters == "fitted" or (parameters is None and self._model is not None):
            return self.distribution_
        if self._model is not None:
            raise InvalidParameterError(
                "An imputer made from a model has no standard errors to draw from: use parameters='fitted', or fit"
                " it to rows."
            )
        learned = self._result()
        errors = learned.rows.mean_std_covariance, learned.pairs.stderr
        streams = (np.random.default_rng([seed, k, 1]) for k in range(number))
        models = models_from_errors(learned.distribution, *errors, learned.report.effective_rows, streams)
        if models is not None:
            fit = Fit(self._columns, learned)
            return [fit.in_user_units(distribution) for distribution in models]
        if parameters is None:
            return self.distribution_
        raise InvalidParameterError(
            f"method={learned.report.method!r} gives no standard errors to draw from: use parameters='fitted', or"
            " method='full_likelihood'."
        )

    @property
    def filling(self) -> Filling:
        """Which cells are filled in, and by which value."""
        return Filling(self.fill, self.below, float(self.floor_tolerance))

    def cells(self, X: Table) -> Iterator[Cells]:
        """The rows of X, block by block, in the user's units and as latent values."""
        model = self.distribution_
        return (Cells.marked(model, values, censoring) for values, censoring in self._marked(X))

    def _marked(self, X: Table) -> Iterator[tuple[FloatArray, Censoring]]:
        """The rows of X, block by block, in the user's units, and which of their cells are at a limit."""
        check_is_fitted(self)
        samples, assumptions = self._negated_rows(X, by_cell=True)
        sign, floor = self._columns.sign, np.array(assumptions.censored_at)
        for block in samples.blocks():
            self._progress(Step("Filling in cells", block.first_row, samples.n_rows, f"{block.first_row:,} rows"))
            screening = screening_of(block, assumptions.lowest)
            if screening.large_count.any():  # a row of any size is filled in
                screening = screening_of(replace(block, values=reachable(block.values)), assumptions.lowest)
            screening.check(assumptions, self._columns.names)
            values, censoring = censoring_of(block.values, block.censoring, floor)
            yield values * sign, (censoring * sign).astype(np.int8)

    def _filled(self, X: Table, levels: tuple[float, ...], which: int = 0) -> NDArray[Any]:
        """Values filled in by a quantile, or by means where there is no level, or standard deviations (which=1).

        Single precision stays single.
        """
        model, filling, at = self.distribution_, self.filling, 2 if levels else which
        parts = [imputed(model, cells, levels, filling)[at] for cells in naming_gross(model, self.cells(X))]
        found: NDArray[Any] = np.concatenate(parts)
        return found.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else found
