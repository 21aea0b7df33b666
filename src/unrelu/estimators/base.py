"""The base of all estimators: tables to rows, columns learned or checked, seeds, files, and scikit-learn's interface.

``fit`` turns the table into rows, calls a method of the core, and stores its result. ``stored`` names the attributes
that files hold, so that every fitted estimator can be saved.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from unrelu import storage
from unrelu.contracts import Assumptions, FloatArray, Progress, Samples, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.estimators.preparation import checked_tolerance, learn_columns, learn_margins, prepare, screened_floats
from unrelu.limits import refuse_none
from unrelu.model import RectifiedGaussian
from unrelu.notebook import learned_html
from unrelu.passes.device import Place
from unrelu.passes.tiles import censoring_of
from unrelu.posterior.density import SMALLEST_LOG_DENSITY, scored_rows
from unrelu.renamed import hint, refuse
from unrelu.tables.prepared import Columns, prepared
from unrelu.validation import Line, noting_warnings, require_reachable, seed_from, warn_of_noted

if TYPE_CHECKING:
    from unrelu.storage import FilePath

F = TypeVar("F", bound=Callable[..., Any])
Table: TypeAlias = ArrayLike | Samples
"""An array, a data frame, or rows that are read block by block, such as those of files."""


def in_one_warning(method: F) -> F:
    """A method whose warnings are issued as one when it ends; sample_weight is refused if it is no parameter."""
    parameters = signature(method).parameters

    @wraps(method)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        if "sample_weight" not in parameters and options.pop("sample_weight", None) is not None:
            raise InvalidParameterError(f"{type(self).__name__} takes no sample_weight: {self._no_weights}")
        noted: list[Line] = []
        try:
            with noting_warnings() as noted:
                return method(self, *args, **options)
        finally:
            warn_of_noted(noted)

    return run  # type: ignore[return-value]


class FloorEstimator(BaseEstimator):
    """Base of all estimators of left-censored data. Subclasses name their parameters in ``__init__``.

    A table is an array, a data frame, or :class:`unrelu.contracts.Samples`, such as files that are read block by block.
    Where an estimator has no parameter ``ceiling`` or ``margins``, every column has a floor, and is normal.
    """

    _takes_sparse: ClassVar[bool] = False
    _no_weights: ClassVar[str] = "no row counts more than another in its fit."
    _progress: ClassVar[Any] = staticmethod(no_progress)
    floor: Any
    floor_tolerance: float
    random_state: Any
    _columns: Columns  # of the table learned
    _place: Place | None = None  # the device that held the rows; files and copies have none
    _answers_on: Place | None = None  # the same, where scikit-learn's ``array_api_dispatch`` was set

    def with_progress(self, progress: Progress) -> Self:
        """Have ``progress`` called with every :class:`unrelu.contracts.Step` of long work; an exception ends the work.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
        >>> stages = []
        >>> learner = unrelu.RectifiedGaussianLearner()
        >>> _ = learner.with_progress(lambda step: stages.append(step.stage)).fit(X)
        >>> stages[0], stages[-1]
        ("Looking at the columns' margins", 'Reading rows')
        """
        self.__dict__["_progress"] = progress
        return self

    def __init_subclass__(cls, **options: Any) -> None:
        for name in vars(cls).keys() & {"fit", "partial_fit"}:
            setattr(cls, name, in_one_warning(vars(cls)[name]))
        super().__init_subclass__(**options)

    def __new__(cls, *_: Any, **given: Any) -> Self:
        refuse(cls.__name__, given, signature(cls.__init__).parameters)
        made: Self = super().__new__(cls)
        return made

    # --- fitted attributes --------------------------------------------------------------------------
    # ``fit`` sets them. After ``partial_fit``, of merged records and of a loaded file they are set when one is first
    # needed.

    _derived: ClassVar[tuple[str, ...]] = ()

    if not TYPE_CHECKING:  # names that are not there are errors for type checkers

        def __getattr__(self, name: str) -> Any:
            if name in self._derived:
                check_is_fitted(self)
                in_one_warning(type(self)._solve)(self, name)
                if name in self.__dict__:
                    return self.__dict__[name]
            offered = {*dir(type(self)), *self._derived}
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint(name, offered)}")

    def _solve(self, name: str) -> None:
        """Set an attribute and those beside it; AttributeError, with the reason, where the fit does not have it."""

    def _forget(self) -> None:
        for name in self._derived:
            self.__dict__.pop(name, None)

    # --- files --------------------------------------------------------------------------------------

    def save(self, path: FilePath, details: Mapping[str, Any] | None = None) -> None:
        """Write parameters and what was learned to ``path``, exactly that name: a NumPy .npz without pickle.

        ``details`` are facts of your own for the file's header. A parameter that no file can hold, such as a generator
        or an object of your own, is left out: the loaded estimator can be used, but not fitted again.
        """
        check_is_fitted(self)
        storage.write(path, self, details)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read an estimator that :meth:`save` wrote."""
        return storage.read(path, cls)

    @classmethod
    def stored(cls) -> dict[str, Any]:
        """The attributes that files hold beside the parameters, and their types."""
        return {"_columns": Columns}

    def check_loaded(self) -> None:
        """Raise InvalidDataError if a file held attributes that no fit can have set."""
        columns = vars(self).get("_columns")
        if columns is not None:
            if not hasattr(self, "n_features_in_"):
                raise InvalidDataError("it does not say how many columns it has")
            if np.isnan([columns.floor, columns.ceiling]).any():
                raise InvalidDataError("its limits are not numbers")
            checked_tolerance(columns.tolerance)
            require_reachable(columns.margins or ())
            self._assumptions()
        checked_tolerance(self.floor_tolerance)
        check_is_fitted(self, msg="it holds no fit")

    # --- tables to rows -----------------------------------------------------------------------------

    def _table(
        self, X: Any, sample_weight: Any = None, *, reset: bool, smallest: int = 2, by_cell: bool = False, **beside: Any
    ) -> Samples:
        """The rows of a table in the user's units; its columns are to be learned (``reset``) or are checked.

        ``by_cell``: the caller uses ``Block.censoring``, so that single cells may have limits. ``beside``: other
        arguments of :func:`unrelu.estimators.preparation.prepare`.
        """
        samples = prepare(
            X,
            self,
            None if reset else self._columns,
            sample_weight=sample_weight,
            tolerance=self.floor_tolerance,
            by_cell=by_cell,
            smallest=smallest,
            sparse=self._takes_sparse,
            **beside,
        )
        place = samples.source.place
        if reset:
            self._place = self._answers_on = None
        if place is not None:
            self._place = place
            config: dict[str, Any] = sklearn.get_config()  # type: ignore[attr-defined]
            if config["array_api_dispatch"]:
                self._answers_on = place
        return samples

    def _rows(self, X: Any, by_cell: bool = False) -> Samples:
        """The rows of a later table, of latent values."""
        return prepared(self._table(X, reset=False, smallest=1, by_cell=by_cell), self._columns)

    def _whole(self, X: Any, *, reset: bool, smallest: int = 2, by_cell: bool = True, tolerance: Any = 0.0) -> Samples:
        """All rows in memory, in the user's units, before limits and margins."""
        return prepare(
            X,
            self,
            None if reset else self._columns,
            tolerance=tolerance,
            by_cell=by_cell,
            smallest=smallest,
            sparse=self._takes_sparse,
            whole=self._progress,
        )

    def _floats(self, X: Any, *, reset: bool, smallest: int = 2, **look: Any) -> Any:
        """All rows as floats after a check that no cell is infinite, or below its floor."""
        rows = self._whole(X, reset=reset, smallest=smallest, by_cell=False, tolerance=self.floor_tolerance)
        if reset:
            self._learn_columns(rows, **look)
        return screened_floats(rows, self._columns)

    # --- columns ------------------------------------------------------------------------------------

    def _learn_columns(self, samples: Samples, *, part: bool = False, cells: bool = False, **look: Any) -> None:
        """Learn limits and margins of the columns of a table.

        ``part``: the table has a part of the rows to be learned from; ``cells``: limits may be of single cells.
        ``look``: options of :func:`unrelu.estimators.preparation.learn_margins`.
        """
        has_ceilings = hasattr(self, "ceiling")
        self._columns = learn_columns(
            samples,
            self.floor,
            getattr(self, "ceiling", None),
            self.floor_tolerance,
            self._progress,
            without_ceilings=None if has_ceilings else type(self).__name__,
            cells=cells,
            exact=part,
        )
        margins = self._wanted_margins()
        if not (isinstance(margins, str) and margins == "normal"):
            self._columns = learn_margins(margins, samples, self._columns, self._progress, by_parts=part, **look)
        if not has_ceilings:
            refuse_none(self._columns.floor, self._columns.names)

    def _wanted_margins(self) -> Any:
        """``margins=``, or what "auto" means for the method."""
        return getattr(self, "margins", "normal")

    def _assumptions(self, columns: Columns | None = None) -> Assumptions:
        """The assumptions about latent rows of some columns, by default the columns learned."""
        return (self._columns if columns is None else columns).assumptions

    def _names(self) -> tuple[str, ...] | None:
        names = vars(self).get("feature_names_in_")
        return None if names is None else tuple(names.tolist())

    # --- numbers of rows ----------------------------------------------------------------------------

    def _of_rows(self, X: Any, score: Callable[..., FloatArray], by_cell: bool = False) -> FloatArray:
        """Numbers of every row, from those of latent rows."""
        return scored_rows(self._rows(X, by_cell), score, self._assumptions(), self._progress)

    def _with_censoring(self, score: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
        """A score of latent values and their censoring as a score of rows, with or without censoring of cells."""
        at = np.array(self._assumptions().censored_at)
        return lambda x, censoring=None: score(*censoring_of(x, censoring, at))

    def _log_densities(
        self,
        X: Any,
        density: Callable[..., FloatArray],
        distributions: Sequence[RectifiedGaussian],
        by_cell: bool = False,
    ) -> FloatArray:
        """Log densities in the user's units from those of latent rows; a warning names rows without a chance."""
        samples = self._rows(X, by_cell=by_cell)
        found = scored_rows(samples, density, self._assumptions(), self._progress, distributions)
        return np.asarray(np.maximum(found + samples.log_slopes(), SMALLEST_LOG_DENSITY))

    @classmethod
    def _made_from(cls, model: Any, floor_tolerance: float, **options: Any) -> tuple[Self, RectifiedGaussian]:
        """An estimator with the columns of a model, without rows, and the model."""
        distribution, columns = columns_of(model, floor_tolerance)
        margins = "normal" if distribution.margins is None else distribution.margins
        made = cls(
            floor=distribution.floor,
            ceiling=distribution.ceiling,
            margins=margins,
            floor_tolerance=floor_tolerance,
            **options,
        )
        made.n_features_in_, made._columns = distribution.n_features, columns
        if columns.names is not None:
            made.feature_names_in_ = np.array(columns.names, dtype=object)
        return made, distribution

    def _seed(self) -> int:
        return seed_from(self.random_state)

    # --- for scikit-learn ---------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._takes_sparse
        try:
            above = bool(np.min(np.asarray(self.floor, dtype=np.float64)) >= 0.0)
        except (TypeError, ValueError):  # fit raises the error
            above = True
        tags.input_tags.positive_only = above and getattr(self, "ceiling", None) is None
        return tags

    def _html_repr(self) -> str:
        """For notebooks: scikit-learn's diagram, and below it the fitted model, if there is one."""
        diagram: str = super()._html_repr()
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return diagram + learned_html(self)


class ScoresByDensity:
    """Scores of a whole table by the log densities of its rows: larger = more typical."""

    score_samples: Callable[[Any], FloatArray]

    @property
    @abstractmethod
    def n_parameters_(self) -> int:
        """The number of parameters learned."""

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

    def bic(self, X: Table) -> float:
        """Bayes's information criterion of the model on X, as scikit-learn has it: lower is better.

        >>> import numpy as np
        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
        >>> X = np.vstack([X, X[:400] + 3.0])
        >>> one, two = (unrelu.RectifiedGaussianMixture(k, random_state=0).fit(X) for k in (1, 2))
        >>> two.bic(X) < one.bic(X)
        True
        """
        densities = self.score_samples(X)
        return float(-2.0 * densities.sum() + self.n_parameters_ * np.log(len(densities)))

    def aic(self, X: Table) -> float:
        """Akaike's information criterion of the model on X, as scikit-learn has it: lower is better."""
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self.n_parameters_)


def columns_of(model: Any, floor_tolerance: float = 0.0) -> tuple[RectifiedGaussian, Columns]:
    """A model and its columns; ``model`` may also be an estimator with the model as ``distribution_``."""
    distribution = getattr(model, "distribution_", model)
    if not isinstance(distribution, RectifiedGaussian):
        raise InvalidParameterError(
            f"model must be a RectifiedGaussian, or have one as distribution_; got {type(model).__name__}."
        )
    names = None if distribution.feature_names is None else tuple(distribution.feature_names)
    return distribution, Columns(
        distribution.floor, distribution.ceiling, names, checked_tolerance(floor_tolerance), distribution.margins
    )
