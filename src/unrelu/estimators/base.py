"""What all estimators share: tables in, columns learned or checked, seeds, files, and what scikit-learn asks for.

``fit`` turns the table into rows, asks a method of the core, and stores what it gives. ``stored`` says what of it files
hold, so that every fitted estimator can be saved.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

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
from unrelu.posterior.density import SMALLEST_LOG_DENSITY, scored_rows
from unrelu.renamed import hint, refuse
from unrelu.tables.prepared import Columns, prepared
from unrelu.validation import require_reachable, seed_from

if TYPE_CHECKING:
    from unrelu.storage import FilePath

Table: TypeAlias = ArrayLike | Samples
"""An array, a data frame, or rows that are read block by block, such as those of files."""


class FloorEstimator(BaseEstimator):
    """Base of all estimators of data with a floor. Subclasses name their parameters in ``__init__``.

    A table is an array, a data frame, or :class:`unrelu.contracts.Samples`, such as files that are read block by block.
    Estimators without a parameter ``ceiling`` or ``margins`` have columns with a floor each, all of them normal.
    """

    _takes_sparse: ClassVar[bool] = False
    _progress: ClassVar[Any] = staticmethod(no_progress)
    floor: Any
    floor_tolerance: float
    random_state: Any
    _columns: Columns  # what was learned of the table's columns
    _place: Place | None = None  # the device that the rows were on; files and copies do not know it
    _answers_on: Place | None = None  # the same, where scikit-learn's ``array_api_dispatch`` was set

    def with_progress(self, progress: Progress) -> Self:
        """Have ``progress`` called with every :class:`unrelu.contracts.Step` of long work; what it raises ends the
        work.

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

    def __new__(cls, *_: Any, **given: Any) -> Self:
        refuse(cls.__name__, given, signature(cls.__init__).parameters)
        made: Self = super().__new__(cls)
        return made

    # --- fitted attributes --------------------------------------------------------------------------
    # ``fit`` sets them. Where no more is known than what files hold (after ``partial_fit``, of merged records, of a
    # loaded file) they are set when one is first asked for.

    _derived: ClassVar[tuple[str, ...]] = ()

    if not TYPE_CHECKING:  # names that are not there are errors for type checkers

        def __getattr__(self, name: str) -> Any:
            if name in self._derived:
                check_is_fitted(self)
                self._solve(name)
                if name in self.__dict__:
                    return self.__dict__[name]
            offered = {*dir(type(self)), *self._derived}
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint(name, offered)}")

    def _solve(self, name: str) -> None:
        """Set an attribute and those beside it; AttributeError, with the reason, for one that the fit does not give."""

    def _forget(self) -> None:
        for name in self._derived:
            self.__dict__.pop(name, None)

    # --- files --------------------------------------------------------------------------------------

    def save(self, path: FilePath, details: Mapping[str, Any] | None = None) -> None:
        """Write parameters and what was learned to ``path``, exactly that name: a NumPy .npz without pickle.

        ``details`` are facts of your own for the file's header. A parameter that no file can hold, such as a generator
        or an object of your own, is left out: what was learned can be used after loading, but not fitted again.
        """
        check_is_fitted(self)
        storage.write(path, self, details)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read what :meth:`save` wrote."""
        return storage.read(path, cls)

    @classmethod
    def stored(cls) -> dict[str, Any]:
        """What was learned, as files hold it beside the parameters: attributes and their types."""
        return {"_columns": Columns}

    def check_loaded(self) -> None:
        """Raise InvalidDataError if a file held what no fit can have given."""
        columns = vars(self).get("_columns")
        if columns is not None:
            if not hasattr(self, "n_features_in_"):
                raise InvalidDataError("it does not say of how many columns it is")
            if np.isnan([columns.floor, columns.ceiling]).any():
                raise InvalidDataError("its limits are no numbers")
            checked_tolerance(columns.tolerance)
            require_reachable(columns.margins or ())
            self._assumptions()
        checked_tolerance(self.floor_tolerance)
        check_is_fitted(self, msg="it holds nothing that was learned")

    # --- tables to rows -----------------------------------------------------------------------------

    def _table(
        self, X: Any, sample_weight: Any = None, *, reset: bool, smallest: int = 2, by_cell: bool = False, **beside: Any
    ) -> Samples:
        """The rows of a table as the user has them; its columns are to be learned (``reset``) or are checked.

        ``by_cell``: who reads them heeds ``Block.censoring``, so that single cells may have limits. ``beside``:
        what else :func:`unrelu.estimators.preparation.prepare` puts beside the rows.
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
        """All rows in memory, as the user has them; their limits and margins are nobody's matter yet."""
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
        """All rows as floats that were screened: none is infinite, or below its floor."""
        rows = self._whole(X, reset=reset, smallest=smallest, by_cell=False, tolerance=self.floor_tolerance)
        if reset:
            self._learn_columns(rows, **look)
        return screened_floats(rows, self._columns)

    # --- columns ------------------------------------------------------------------------------------

    def _learn_columns(self, samples: Samples, *, part: bool = False, cells: bool = False, **look: Any) -> None:
        """Find out what the columns of a table are like.

        ``part``: of the rows to be learned from; ``cells``: limits may be of single cells. ``look``: how the rows are
        looked at for margins, as :func:`unrelu.estimators.preparation.learn_margins` has it.
        """
        has_ceilings = hasattr(self, "ceiling")
        self._columns = learn_columns(
            samples,
            self.floor,
            getattr(self, "ceiling", None),
            self.floor_tolerance,
            self._progress,
            who=None if has_ceilings else type(self).__name__,
            cells=cells,
            exact=part,
        )
        margins = self._wanted_margins()
        if not (isinstance(margins, str) and margins == "normal"):
            self._columns = learn_margins(margins, samples, self._columns, self._progress, by_parts=part, **look)
        if not has_ceilings:
            refuse_none(self._columns.floor, self._columns.names)

    def _wanted_margins(self) -> Any:
        """``margins=`` as it is meant for the method."""
        return getattr(self, "margins", "normal")

    def _assumptions(self, columns: Columns | None = None) -> Assumptions:
        """What is assumed of latent rows of such columns, by default of those learned."""
        return (self._columns if columns is None else columns).assumptions

    def _names(self) -> tuple[str, ...] | None:
        names = vars(self).get("feature_names_in_")
        return None if names is None else tuple(names.tolist())

    # --- numbers of rows ----------------------------------------------------------------------------

    def _of_rows(self, X: Any, score: Callable[..., FloatArray]) -> FloatArray:
        """Numbers of every row, from those of latent rows."""
        return scored_rows(self._rows(X), score, self._assumptions(), self._progress)

    def _log_densities(
        self,
        X: Any,
        density: Callable[..., FloatArray],
        distributions: Sequence[RectifiedGaussian],
        by_cell: bool = False,
    ) -> FloatArray:
        """Of every row, in the user's units, from that of latent rows (and marks); names those without a chance."""
        samples = self._rows(X, by_cell=by_cell)
        found = scored_rows(samples, density, self._assumptions(), self._progress, distributions)
        return np.asarray(np.maximum(found + samples.log_slopes(), SMALLEST_LOG_DENSITY))

    @classmethod
    def _made_from(cls, model: Any, floor_tolerance: float, **options: Any) -> tuple[Self, RectifiedGaussian]:
        """An estimator that knows the columns of a model, without rows, and the model."""
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
        except (TypeError, ValueError):  # fit will say what is wrong with it
            above = True
        tags.input_tags.positive_only = above and getattr(self, "ceiling", None) is None
        return tags

    def _html_repr(self) -> str:
        """For notebooks: scikit-learn's diagram, and below it, once it is fitted, what was learned."""
        diagram: str = super()._html_repr()
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return diagram + learned_html(self)


class ScoresByDensity:
    """Scores of a whole table by the log densities of its rows."""

    score_samples: Callable[[Any], FloatArray]

    @property
    @abstractmethod
    def n_parameters_(self) -> int:
        """How many numbers were learned."""

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
    """The distribution of what is made from a model, and its columns; ``model`` may also have the distribution as
    ``distribution_``."""
    distribution = getattr(model, "distribution_", model)
    if not isinstance(distribution, RectifiedGaussian):
        raise InvalidParameterError(
            f"model must be a RectifiedGaussian, or have one as distribution_; got {type(model).__name__}."
        )
    names = None if distribution.feature_names is None else tuple(distribution.feature_names)
    return distribution, Columns(
        distribution.floor, distribution.ceiling, names, checked_tolerance(floor_tolerance), distribution.margins
    )
