"""What all estimators share: tables in, floors, names, seeds, files, and what scikit-learn asks for.

An estimator is a skin. ``fit`` turns the table into rows, asks a conductor, and stores what it gives. Whatever is
stored is a record of :mod:`unrelu.storage.kinds`, so that every fitted estimator can be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from unrelu import storage
from unrelu.contracts import Assumptions, CellLimits, FloatArray, Samples, Watch, unwatched
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.estimators.placing import OnDevice
from unrelu.estimators.reading import (
    check_use,
    check_weights,
    found_limits,
    limited,
    read_all,
    readable,
    refuse_apart,
    refuse_ceilings,
    text_cell,
    weighted,
    weights_beside,
)
from unrelu.limits import Limits, is_by_cell, lifts, limits_of, refuse_none
from unrelu.model import RectifiedGaussian
from unrelu.notebook import learned_html
from unrelu.passes.blocks import as_floats
from unrelu.passes.engine import LocalEngine
from unrelu.passes.rows import ArraySamples, Rows
from unrelu.passes.tiles import ScreeningQuestion
from unrelu.shapes import Shapes, latent_limits, shape_requests
from unrelu.validation import generator, listed

if TYPE_CHECKING:
    from unrelu.storage import FilePath

Table: TypeAlias = ArrayLike | Samples
"""An array, a data frame, or rows that are read block by block, such as those of files."""


class FloorEstimator(OnDevice, BaseEstimator):
    """Base of all estimators of data with a floor. Subclasses name their parameters in ``__init__``.

    A table is an array, a data frame, or :class:`unrelu.contracts.Samples`, such as files that are read block by block.
    """

    _watch: ClassVar[Any] = staticmethod(unwatched)
    _has_ceilings: ClassVar[bool] = False  # and columns without a floor
    _has_standard_scores: ClassVar[bool] = False  # of free columns: results would depend on the units of these
    _takes_cells: ClassVar[bool] = False  # limits of single cells, as floor= or ceiling=
    _takes_sparse: ClassVar[bool] = False
    floor: Any = 0.0
    shape: Any = "normal"  # of what has no such parameter
    ceiling: Any = None
    floor_tolerance: float = 0.0
    random_state: Any = 0
    _found_limits: dict[str, dict[str, float]]  # floors and ceilings that the table itself has told, by column
    _stated_limits: CellLimits | None = None  # that cells of the table stated themselves
    _shapes: Shapes | None = None  # of the columns, where one is not normal

    def _html_repr(self) -> str:
        """For notebooks: scikit-learn's diagram, and below it, once it is fitted, what was learned."""
        diagram: str = super()._html_repr()
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return diagram + learned_html(self)

    def watched_by(self, watch: Watch) -> Self:
        """Have ``watch`` called with every :class:`unrelu.contracts.Step` of long work; what it raises ends the work.

        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
        >>> stages = []
        >>> learner = unrelu.RectifiedGaussianLearner().watched_by(lambda step: stages.append(step.stage)).fit(X)
        >>> stages[0], stages[-1]
        ("Looking at the columns' shapes", 'Reading rows')
        """
        self.__dict__["_watch"] = watch
        return self

    # --- files ------------------------------------------------------------------------------------

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

    # --- tables -----------------------------------------------------------------------------------

    def _rows(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        *,
        reset: bool,
        smallest: int = 2,
        part: bool = False,
        by_cell: bool = False,
    ) -> Samples:
        """Rows to be read again and again, a ``part`` of those learned; columns are learned (``reset``) or checked.

        ``by_cell``: whoever reads them heeds ``Block.beyond``, so that single cells may have limits.
        """
        X = self._as_rows(X, reset, by_cell)
        place = X.place if isinstance(X, Rows) else None
        self._found_at(place, reset)
        sample_weight = weights_beside(sample_weight, place)
        if isinstance(X, Rows):
            samples = X if sample_weight is None else weighted(X, sample_weight, self._weights)
            self._check_columns(samples, reset)
            kind = X.stored_as
            return self._turned(self._limited(samples, reset, by_cell, kind), reset, kind, part)
        values = self._values(X, reset=reset, smallest=smallest)
        weights = None if sample_weight is None else self._weights(sample_weight, values)
        # Questions work through a block in tiles, so an array that needs no conversion can be one block.
        whole = max(len(values), 1) if values.dtype in (np.float32, np.float64) else None
        samples = ArraySamples(values, weights=weights, feature_names=self._names(), block_rows=whole)
        kind = getattr(X, "dtype", None)
        return self._turned(self._limited(samples, reset, by_cell, kind), reset, kind, part)

    def _limited(self, samples: Samples, reset: bool, by_cell: bool, stored_as: Any = None) -> Samples:
        """The rows with the limits of single cells, where floor= or ceiling= gives such."""
        if self._takes_cells and is_by_cell(self.floor, self.ceiling):
            samples = limited(samples, self.floor, self.ceiling, stored_as, tell=reset)
            self._stated_limits = samples.limits if reset else self._stated_limits
        return check_use(samples, by_cell, self.floor_tolerance, InvalidParameterError)

    def _values(self, X: Any, *, reset: bool, smallest: int = 2) -> NDArray[Any]:
        """The table as an array of numbers, no copy where it is one; infinite values are judged while reading."""
        X = self._as_rows(X, reset)
        if isinstance(X, Rows):
            self._check_columns(X, reset)
            refuse_apart(X, type(self).__name__)
            return read_all(X, smallest, self._watch)
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        if isinstance(X, np.ndarray) and X.dtype.name == "bfloat16":
            X = as_floats(X)
        options = {"dtype": "numeric", "ensure_all_finite": False, "ensure_min_samples": smallest}
        try:
            values: NDArray[Any] = validate_data(self, X, reset=reset, **options)
        except (ValueError, TypeError) as error:
            cell = text_cell(X)
            if cell is None:
                raise
            raise InvalidDataError(cell) from error
        if values.dtype == object:
            raise InvalidDataError(text_cell(X) or "The table holds something other than numbers.")
        return values

    def _as_rows(self, X: Any, reset: bool, by_cell: bool = False) -> Any:
        """What NumPy cannot read as rows that it can; the limits that cells state are learned (``reset``)."""
        if self._takes_sparse and issparse(X):
            from unrelu.tables.numpy_files import SparseSamples

            X = SparseSamples(X)
        X = check_use(readable(X), by_cell, self.floor_tolerance, InvalidDataError)
        if reset:
            self.__dict__["_stated_limits"] = X.limits if isinstance(X, Rows) else None
        return X

    def _floats(self, X: Any, *, reset: bool, smallest: int = 2) -> NDArray[Any]:
        """The same as floats that were screened: none is infinite, or below its floor."""
        values = as_floats(self._values(X, reset=reset, smallest=smallest))
        samples = ArraySamples(values, feature_names=self._names())
        if reset:
            self._shapes = None
            self._find_limits(samples, getattr(X, "dtype", None))
        limits = self._limits()
        for column, (limit, floor) in lifts(self._stated_limits, limits, self._names()).items():
            values[values[:, column] <= limit, column] = floor
        plain = self._plain_assumptions(limits)
        self._screen(samples, plain)
        if reset:
            self._learn_shapes(samples)
            limits = self._limits()
        if self._shapes is None:
            return values
        from unrelu.tables.shaped import Shaped

        return Shaped(self._shapes, limits).latent(values)

    def _screen(self, samples: Samples, assumptions: Assumptions) -> None:
        """Raise InvalidDataError for cells that are infinite, huge or below their floor."""
        LocalEngine().collect(samples, ScreeningQuestion(assumptions.lowest)).check(assumptions, self._names())

    def _weights(self, sample_weight: ArrayLike, values: NDArray[Any]) -> FloatArray:
        weights: FloatArray = _check_sample_weight(sample_weight, values, dtype=np.float64, ensure_non_negative=True)
        check_weights(0.0, float(weights.max()), float(np.min(weights, where=weights > 0.0, initial=np.inf)))
        return weights

    def _check_columns(self, samples: Samples, reset: bool) -> None:
        """Take number and names of the columns from rows that are no array, or compare them with those learned."""
        if reset:
            self.n_features_in_ = samples.n_features
            self.__dict__.pop("feature_names_in_", None)
            if samples.feature_names is not None:
                self.feature_names_in_ = np.array(samples.feature_names, dtype=object)
            return
        if samples.n_features != self.n_features_in_:
            raise InvalidDataError(
                f"The table has {samples.n_features} columns, but {type(self).__name__} was fitted to"
                f" {self.n_features_in_}."
            )
        if None not in (samples.feature_names, self._names()) and samples.feature_names != self._names():
            raise InvalidDataError(
                f"The table's columns ({listed(samples.feature_names or ())}) are not those that"
                f" {type(self).__name__} was fitted to ({listed(self._names() or ())}), in that order."
            )

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names.tolist())

    # --- parameters -------------------------------------------------------------------------------

    def _assumptions(self) -> Assumptions:
        """Floors, one for each of the columns seen, and their tolerance; a ceiling is a mirrored column's floor."""
        limits = self._limits()
        if not self._has_ceilings:
            refuse_none(limits.floor, self._names())
        if self._shapes is None:
            return self._plain_assumptions(limits)
        floor, ceiling = latent_limits(self._shapes, limits.floor, limits.ceiling)
        latent = replace(limits, floor=floor, ceiling=ceiling)
        return replace(self._plain_assumptions(latent), shapes=self._shapes)

    def _plain_assumptions(self, limits: Limits) -> Assumptions:
        """What is assumed of rows in the units of these limits."""
        mirrored = limits.mirrored
        tolerance = self.floor_tolerance
        if not (isinstance(tolerance, Real) and 0.0 <= tolerance < np.inf):
            raise InvalidParameterError(f"floor_tolerance must be a number of 0 or more, got {tolerance!r}.")
        return Assumptions(
            tuple(np.where(mirrored, -limits.ceiling, limits.floor).tolist()),
            floor_tolerance=float(tolerance),
            mirrored=tuple(mirrored.tolist()) if mirrored.any() else (),
        )

    def _limits(self) -> Limits:
        """Floors and ceilings: as given, or as the table has told when its columns were learned."""
        limits = self._given_limits()
        found = getattr(self, "_found_limits", {})
        for name, levels in (("floor", limits.floor), ("ceiling", limits.ceiling)):
            for column, level in found.get(name, {}).items():
                levels[int(column)] = level
        limits.floor[limits.mirrored] = -np.inf
        return limits

    def _given_limits(self) -> Limits:
        """Floors and ceilings of the columns as given; those of single cells are the rows' matter."""
        by_cell = self._takes_cells and is_by_cell(self.floor, self.ceiling)
        floor, ceiling = (None, None) if by_cell else (self.floor, self.ceiling)
        return limits_of(floor, ceiling, self.n_features_in_, self._names())

    def _find_limits(self, samples: Samples, stored_as: Any = None, part: bool = False) -> None:
        """What only the table can tell of its limits."""
        self._found_limits = {}
        stated = self._stated_limits or CellLimits()
        if not self._has_ceilings:
            refuse_ceilings(stated, self._names(), type(self).__name__)
        self._found_limits = found_limits(
            self._given_limits(), stated, samples, stored_as, self._watch, exact=part or self.floor_tolerance != 0.0
        )

    def _turned(self, samples: Samples, reset: bool, stored_as: Any = None, part: bool = False) -> Samples:
        """The rows with columns that have a ceiling upside down, and those with a shape as latent values."""
        if reset:
            self._shapes = None
            self._find_limits(samples, stored_as, part)
        limits = self._limits()
        mirrored, lifted = limits.mirrored, lifts(samples.limits, limits, self._names())
        plain = self._plain_assumptions(limits)
        if mirrored.any() or lifted or samples.limits_by_cell:
            from unrelu.tables.turned import TurnedSamples

            samples = TurnedSamples(samples, mirrored, lifted, np.array(plain.floor))
        if reset:
            self._learn_shapes(samples, part, "unknown" if self._shapes_come_of_kept_rows() else "none")
        return self._shaped(samples, learning=part, looked_at=reset and not part)

    def _shapes_come_of_kept_rows(self) -> bool:
        """Whether shapes are learned again once outliers are known."""
        return False

    def _wanted_shape(self) -> Any:
        """``shape=`` as it is meant for the method."""
        return self.shape

    def _tests_shapes(self) -> bool:
        """Whether columns may reject the law that "auto" takes first: rows of several groups must not bend them."""
        return True

    def _learn_shapes(self, samples: Samples, part: bool = False, outliers: str = "none") -> None:
        """The columns' shapes, from a look at the rows; None where all are normal. A floor of 0 that no value of a
        column reaches is then no floor."""
        shape = self._wanted_shape()
        if isinstance(shape, str) and shape == "normal":
            return
        from unrelu.estimators.shaping import learned_shapes

        limits = self._limits()
        found = learned_shapes(
            shape,
            samples,
            self._plain_assumptions(limits),
            limits,
            self._watch,
            by_parts=part,
            tested=self._tests_shapes(),
            outliers=outliers,
            standard=self._has_standard_scores,
        )
        self._shapes = found.shapes
        if found.without_floor:
            none = {str(column): -np.inf for column in found.without_floor}
            self._found_limits["floor"] = self._found_limits.get("floor", {}) | none

    def _by_shapes_of_kept(self, samples: Samples, learn: Callable[[Samples], Any]) -> Any:
        """What ``learn`` gives; where it leaves out rows or cells, by the shapes that the others have."""
        if not self._shapes_are_learned():
            return learn(samples)
        from unrelu.estimators.reshaping import Reshaping, ShapedBy

        def shaped(turned: Samples, by: ShapedBy) -> Samples:
            self._shapes, self._found_limits = by.shapes, {name: dict(each) for name, each in by.limits.items()}
            return self._shaped(turned, looked_at=True)

        def shapes_of(turned: Samples, by: ShapedBy) -> ShapedBy:
            shaped(turned, by)
            self._learn_shapes(turned, outliers="out")
            return ShapedBy(self._shapes, self._found_limits)

        turned = samples.turned
        start = ShapedBy(self._shapes, self._found_limits)
        return Reshaping(learn, shapes_of, shaped, self._watch).learned(turned, start)

    def _shaped(self, turned: Samples, learning: bool = False, looked_at: bool = False) -> Samples:
        """Rows with columns that have a ceiling upside down, as latent values by the columns' shapes."""
        if self._shapes is None:
            return turned
        from unrelu.tables.shaped import Shaped, ShapedSamples

        limits = self._limits()
        shaped = Shaped(self._shapes, limits)
        return ShapedSamples(turned, self._plain_assumptions(limits), shaped, learning=learning, looked_at=looked_at)

    def _shapes_are_learned(self) -> bool:
        """Whether other rows would have told other shapes."""
        requests = shape_requests(self._wanted_shape(), self.n_features_in_, self._names())
        return any(isinstance(each, str) and each in ("power", "free", "auto") for each in requests)

    def _in_user_units(self, law: RectifiedGaussian) -> RectifiedGaussian:
        """A law that was learned of latent values, some of them upside down, as the user knows it."""
        upright, limits = law.reflected(self._sign < 0.0), self._limits()
        return upright if self._shapes is None else upright.shaped(self._shapes, limits.floor, limits.ceiling)

    def _told(self, report: Any) -> Any:
        """A report with the limits in the user's units."""
        if self._shapes is None:
            return report
        return replace(report, **self._plain_assumptions(self._limits()).limits)

    def _rows_in_user_units(self, X: Any, by_cell: bool = False) -> tuple[Samples, Assumptions]:
        """The rows without their shapes, columns with a ceiling still upside down, and what is assumed of such rows."""
        samples, assumptions = self._rows(X, reset=False, smallest=1, by_cell=by_cell), self._assumptions()
        if self._shapes is None:
            return samples, assumptions
        plain = self._plain_assumptions(self._limits())
        return samples.turned, replace(assumptions, floor=plain.floor)

    def _log_densities(
        self, X: Any, density: Callable[..., FloatArray], laws: Sequence[RectifiedGaussian] = (), by_cell: bool = False
    ) -> FloatArray:
        """Of every row, in the user's units, from that of latent rows (and marks); names those without a chance."""
        from unrelu.posterior.scores import SMALLEST_LOG_DENSITY, scored_rows

        samples = self._rows(X, reset=False, smallest=1, by_cell=by_cell)
        found = scored_rows(samples, density, self._assumptions(), self._watch, laws)
        return np.asarray(np.maximum(found + samples.log_slopes(), SMALLEST_LOG_DENSITY))

    @property
    def _sign(self) -> FloatArray:
        """-1 for the columns that are learned upside down, 1 for the others."""
        return np.where(self._limits().mirrored, -1.0, 1.0)

    def _seed(self) -> int:
        """A seed is used as it is, so that it means the same everywhere; a generator moves on."""
        state = self.random_state
        if isinstance(state, Integral) and not isinstance(state, bool) and int(state) >= 0:
            return int(state)
        return int(generator(state).integers(2**31))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.positive_only = self._floor_is_nonnegative()
        return tags

    def _floor_is_nonnegative(self) -> bool:
        try:
            return self.ceiling is None and bool(np.min(np.asarray(self.floor, dtype=np.float64)) >= 0.0)
        except (TypeError, ValueError):  # fit will say what is wrong with it
            return True
