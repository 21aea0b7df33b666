"""The model: x = max(y, floor), or min(y, ceiling), with y ~ N(mean, covariance): a frozen value.

With a floor of zero and covariance = W W' it is D(W, b) of Wu, Dimakis and Sanghavi (2019), Definition 1: x = ReLU(W z
+ b), z ~ N(0, I). W and W Q give the same distribution for every rotation Q, so that the covariance determines the
model, and :meth:`RectifiedGaussian.weights` picks one W.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from unrelu import storage
from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.margins import Margin, Margins, cut_from_latent, is_margin, latent_limits, to_latent
from unrelu.notebook import few, model_html
from unrelu.passes.device import place_of
from unrelu.posterior.cells import Cells, Filling, table_of
from unrelu.posterior.density import SMALLEST_LOG_DENSITY, Density, warn_of_gross
from unrelu.posterior.draws import drawn, square_root
from unrelu.posterior.marginals import Prediction, column_distributions, imputed, predicted
from unrelu.renamed import hint
from unrelu.tables.prepared import finite_slopes
from unrelu.validation import (
    RandomState,
    distinct,
    finite,
    generator,
    integer,
    limit,
    refuse_old_names,
    require_reachable,
    require_semidefinite,
    scaled,
    symmetric,
)

if TYPE_CHECKING:
    from unrelu.storage import FilePath


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RectifiedGaussian:
    """The distribution of x = max(y, floor), y ~ N(mean, covariance): frozen, compared by value.

    ``mean`` has length d and is measured from zero, not from the floor; ``covariance`` is d x d, positive semidefinite
    up to rounding; ``floor`` is one number or one per column (kept as d numbers), -inf for a column without one;
    ``feature_names`` is None or d distinct strings. A zero variance makes a constant coordinate, max(mean, floor). A
    column may have a ``ceiling`` instead of a floor: x = min(y, ceiling). The arrays are copies and read-only.

    ``margins``: for columns that are not normal, x = max(f(y), floor) with one increasing f per column
    (:mod:`unrelu.margins`), a Gaussian copula; mean and covariance are those of y, floor and ceiling those of x. None:
    f(y) = y.

    ``scoring_covariance`` scores rows where the covariance itself is too uncertain to be inverted
    (:mod:`unrelu.fit.shrinkage`); None where the covariance serves for both. Learners set it.

    >>> model = RectifiedGaussian([0.5, -1.0], [[4.0, 1.0], [1.0, 1.0]], feature_names=["As", "Pb"])
    >>> model.correlation[0, 1]
    np.float64(0.5)
    >>> model
    RectifiedGaussian(n_features=2, mean=[ 0.5, -1. ], std=[2., 1.], floor=0, names=['As', 'Pb'])
    """

    mean: FloatArray
    covariance: FloatArray
    floor: FloatArray
    feature_names: tuple[str, ...] | None
    ceiling: FloatArray = field(default_factory=lambda: np.array(np.inf))
    scoring_covariance: FloatArray | None = None
    margins: Margins | None = None

    @refuse_old_names
    def __init__(
        self,
        mean: ArrayLike,
        covariance: ArrayLike,
        floor: ArrayLike = 0.0,
        feature_names: Iterable[str] | None = None,
        ceiling: ArrayLike = np.inf,
        scoring_covariance: ArrayLike | None = None,
        margins: Iterable[Margin] | None = None,
    ) -> None:
        b = finite("mean", mean)
        d = b.size
        if b.ndim != 1 or d == 0:
            raise InvalidParameterError(f"mean must be a vector of at least one number, got shape {b.shape}.")
        low, high = limit("floor", floor, d, -np.inf), limit("ceiling", ceiling, d, np.inf)
        if (crossed := np.flatnonzero(low >= high)).size:
            raise InvalidParameterError(f"The ceiling must be above the floor, but is not at index {crossed[0]}.")
        s, names = symmetric(finite("covariance", covariance), d), distinct(feature_names, d)
        scoring = None if scoring_covariance is None else finite("scoring_covariance", scoring_covariance)
        forms = None if margins is None else tuple(margins)
        if forms is not None and (len(forms) != d or not all(map(is_margin, forms))):
            raise InvalidParameterError(f"margins must be {d} objects of unrelu.margins, one each, got {margins!r}.")
        require_reachable(forms or ())
        state = {"mean": b, "covariance": s, "floor": low, "feature_names": names, "ceiling": high, "margins": forms}
        self.__setstate__({**state, "scoring_covariance": None if scoring is None else symmetric(scoring, d)})
        for given in (self.covariance, self.scoring_covariance):
            if given is not None:
                require_semidefinite(scaled(given))

    if not TYPE_CHECKING:  # names that are not there are errors for type checkers

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"a RectifiedGaussian has no attribute {name!r}{hint(name, [*dir(self), 'mean'])}")

    @classmethod
    @refuse_old_names
    def from_weights(
        cls, weights: ArrayLike, mean: ArrayLike, floor: ArrayLike = 0.0, feature_names: Iterable[str] | None = None
    ) -> RectifiedGaussian:
        """The distribution of max(W z + b, floor), z ~ N(0, I_k), for ``weights`` W of shape d x k.

        >>> RectifiedGaussian.from_weights([[1.0, 0.0], [1.0, 1.0]], [0.0, 0.0]).covariance
        array([[1., 1.],
               [1., 2.]])
        """
        w = finite("weights", weights)
        if w.ndim != 2 or 0 in w.shape:
            raise InvalidParameterError(f"weights must be a d x k matrix, got shape {w.shape}.")
        return cls(mean, w @ w.T, floor, feature_names)

    @property
    def n_features(self) -> int:
        return self.mean.size

    @property
    def std(self) -> FloatArray:
        """|W(i,:)|, the standard deviation of y_i: the square root of the covariance's diagonal."""
        return np.sqrt(np.diagonal(self.covariance))

    @cached_property
    def correlation(self) -> FloatArray:
        """Correlations of y: unit diagonal, 0 beside it for coordinates of zero variance."""
        return _read_only(np.clip(scaled(self.covariance), -1.0, 1.0))

    @cached_property
    def precision(self) -> FloatArray:
        """The inverse of the covariance of y, 0 for columns of zero variance; InvalidDataError where there is none.

        >>> RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]]).precision
        array([[ 1.5625, -0.9375],
               [-0.9375,  1.5625]])
        """
        density = Density.by_covariance(self)
        if density.is_singular:
            raise InvalidDataError("The covariance has no inverse: leave out columns that others determine.")
        return _read_only(density.inverse_covariance)

    @property
    def scoring(self) -> RectifiedGaussian:
        """The model that scores rows: this one, or the same with its scoring covariance."""
        if self.scoring_covariance is None:
            return self
        return self.with_parts(covariance=self.scoring_covariance, scoring_covariance=None)

    def with_parts(self, **changed: Any) -> RectifiedGaussian:
        """The same model with other parts."""
        return RectifiedGaussian(**{**self.__getstate__(), **changed})

    @cached_property
    def latent(self) -> RectifiedGaussian:
        """The distribution of y itself, cut off where x is: the model without its margins.

        >>> from unrelu.margins import Log
        >>> RectifiedGaussian([0.0], [[1.0]], floor=1.0, margins=[Log()]).latent
        RectifiedGaussian(n_features=1, mean=[0.], std=[1.], floor=0)
        """
        if self.margins is None:
            return self
        floor, ceiling = latent_limits(self.margins, self.floor, self.ceiling)
        return self.with_parts(floor=floor, ceiling=ceiling, margins=None)

    def with_margins(
        self, margins: Iterable[Margin], floor: ArrayLike, ceiling: ArrayLike = np.inf
    ) -> RectifiedGaussian:
        """The distribution of x = f(y), cut off at limits of x, where this is the distribution of y.

        >>> from unrelu.margins import Log
        >>> RectifiedGaussian([0.0], [[1.0]]).with_margins([Log()], floor=1.0)
        RectifiedGaussian(n_features=1, mean=[0.], std=[1.], floor=1, margins=['log'])
        """
        return self.with_parts(floor=floor, ceiling=ceiling, margins=margins)

    def to_latent(self, X: ArrayLike) -> FloatArray:
        """Rows of x as rows of y; a cell at its floor or below holds the latent floor.

        >>> from unrelu.margins import Log
        >>> RectifiedGaussian([0], [[1]], floor=1, margins=[Log()]).to_latent([[1], [10]]).round(3)
        array([[0.   ],
               [2.303]])
        """
        x = np.clip(np.asarray(X, dtype=np.float64), self.floor, self.ceiling)
        return x if self.margins is None else to_latent(self.margins, x, self.floor, self.ceiling)

    def column_summary(self, below: str = "auto") -> list[dict[str, Any]]:
        """Per column, in the user's units: margin, share beyond its limit, and mean, sd and quartiles.

        These are "as seen", of values that :meth:`sample` draws, where the floor is 0, as of rain or spending;
        elsewhere, where limits are those of detection, "before the floor", of censored values as well.
        ``below="floor"`` or "latent" gives all columns the one or the other.

        >>> round(RectifiedGaussian([0.0], [[1.0]]).column_summary()[0]["mean"], 4)  # 1 / sqrt(2 pi)
        0.3989
        >>> found = RectifiedGaussian([0.0], [[1.0]], floor=0.5).column_summary()[0]
        >>> found["distribution"], found["mean"], round(found["lower_quartile"], 4)
        ('before the floor', 0.0, -0.6745)
        """
        return column_distributions(self, below)

    def weights(self, k: int | None = None) -> FloatArray:
        """A d x k matrix W with W W' = covariance, or as near as rank k allows (Frobenius norm).

        W = V sqrt(L) from the k largest eigenvalues L and eigenvectors V, columns in falling order of length; the
        largest entry of each is positive, which determines the sign. ``k=None`` means d.

        >>> RectifiedGaussian([0.0, 0.0], [[1.0, -1.0], [-1.0, 1.0]]).weights(1).round(9)
        array([[ 1.],
               [-1.]])
        """
        d = self.n_features
        k = d if k is None else integer("k", k)
        if not 1 <= k <= d:
            raise InvalidParameterError(f"k must be from 1 to the number of features, {d}; got {k}.")
        values, vectors = scipy.linalg.eigh(self.covariance, subset_by_index=(d - k, d - 1))
        w = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
        largest = w[np.argmax(np.abs(w), axis=0), np.arange(k)]
        return np.where(largest < 0.0, -w, w) + 0.0  # + 0.0 turns -0.0 into 0.0

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None, as_seen: bool = True, like: Any = None
    ) -> Any:
        """Draw rows, n_samples x d; a floored cell holds exactly its floor.

        Columns whose margin was learned stay within the range that was seen and keep their step, such as whole numbers,
        unless ``as_seen`` is False. ``like``: an array of torch or CuPy, on whose device rows are drawn.

        >>> X = RectifiedGaussian([0.0, 0.0], [[1.0, -1.0], [-1.0, 1.0]]).sample(100, random_state=0)
        >>> X.shape, bool(((X == 0).sum(axis=1) == 1).all())  # y_2 = -y_1: always one of them floored
        ((100, 2), True)
        """
        n, place = integer("n_samples", n_samples), place_of(like)
        if n < 0:
            raise InvalidParameterError(f"n_samples, the number of rows to draw, must be 0 or more; got {n}.")
        if place is not None and self.margins is None:
            root, seed = self.std[:, None] * self._correlation_root, int(generator(random_state).integers(2**31))
            return place.rows(n, seed, root, self.mean, (self.floor, self.ceiling))
        y = generator(random_state).standard_normal((n, self.n_features)) @ self._correlation_root.T
        y *= self.std
        y += self.mean
        rows = np.clip(y, self.latent.floor, self.latent.ceiling, out=y)
        if self.margins is not None:
            rows = cut_from_latent(self.margins, rows, self.floor, self.ceiling, as_seen)
        return rows if place is None else place.array(rows)

    @cached_property
    def _correlation_root(self) -> FloatArray:
        return square_root(self.correlation)

    def marginal(self, features: int | str | Iterable[int | str]) -> RectifiedGaussian:
        """The distribution of some of the columns, by index or name, in the order given.

        >>> RectifiedGaussian([1, 2], [[1, 0.5], [0.5, 4]], feature_names=["As", "Pb"]).marginal("Pb")
        RectifiedGaussian(n_features=1, mean=[2.], std=[2.], floor=0, names=['Pb'])
        """
        chosen = [features] if isinstance(features, int | str | np.integer) else list(features)
        at = [self.index_of(feature) for feature in chosen]
        if not at:
            raise InvalidParameterError("marginal needs at least one feature, got none.")
        if len(set(at)) < len(at):
            twice = next(feature for n, feature in enumerate(chosen) if at[n] in at[:n])
            raise InvalidParameterError(f"marginal: feature {twice!r} is given more than once.")
        square = np.ix_(at, at)
        return RectifiedGaussian(
            self.mean[at],
            self.covariance[square],
            self.floor[at],
            None if self.feature_names is None else [self.feature_names[i] for i in at],
            self.ceiling[at],
            None if self.scoring_covariance is None else self.scoring_covariance[square],
            None if self.margins is None else [self.margins[i] for i in at],
        )

    def negated(self, columns: ArrayLike) -> RectifiedGaussian:
        """The distribution of x with some columns negated, -x: floors become ceilings, and the reverse.

        >>> RectifiedGaussian([2.0], [[1.0]], -np.inf, ceiling=3.0).negated([True])
        RectifiedGaussian(n_features=1, mean=[-2.], std=[1.], floor=-3)
        """
        sign = np.where(np.asarray(columns, dtype=bool), -1.0, 1.0)
        if (sign > 0.0).all():
            return self
        if self.margins is not None:
            raise InvalidParameterError("A model with margins cannot be negated: take its latent part.")
        floor, ceiling = np.where(sign < 0.0, (-self.ceiling, -self.floor), (self.floor, self.ceiling))
        signs, scoring = np.outer(sign, sign), self.scoring_covariance
        parts = {"mean": sign * self.mean, "covariance": signs * self.covariance, "floor": floor, "ceiling": ceiling}
        return self.with_parts(**parts, scoring_covariance=None if scoring is None else signs * scoring)

    def index_of(self, feature: int | str) -> int:
        """The position of a column, given by name or position."""
        if isinstance(feature, str):
            if self.feature_names is None:
                raise InvalidParameterError(f"No feature {feature!r}: the model has no names. Give indices.")
            if feature not in self.feature_names:
                raise InvalidParameterError(f"No feature {feature!r}: there are {few(self.feature_names)}.")
            return self.feature_names.index(feature)
        index = integer("A feature", feature)
        if not 0 <= index < self.n_features:
            raise InvalidParameterError(f"No feature {index}: indices run from 0 to {self.n_features - 1}.")
        return index

    # --- rows: a cell at the model's floor is left-censored, a cell at its ceiling right-censored, NaN is missing;
    # ``floor`` and ``ceiling`` where the rows have limits of their own, per column or per cell (NaN: none).

    def log_prob(self, X: ArrayLike, floor: ArrayLike | None = None, ceiling: ArrayLike | None = None) -> FloatArray:
        """Log density of each row, larger = more typical: of seen cells, times the probability of censored cells.

        Exact to .002 for each cell at a limit (by simulation; correlations up to .9), exact for up to two such cells.
        Log densities are finite, down to -1e300; a warning names rows that the model gives no chance.

        >>> model = RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> model.log_prob([[0.0, 0.0]]).round(4)  # log(1/4 + asin(.6)/(2 pi))
        array([-1.0429])
        """
        cells, density = Cells.of(self, X, floor, ceiling), Density.of(self)
        density.warn_if_singular()
        warn_of_gross(self, cells)
        found = density.log_density(cells.latent, cells.censoring)
        for j, margin in enumerate(self.margins or ()):
            seen = ~cells.hidden[:, j]
            found[seen] += finite_slopes(margin, cells.given[seen, j])
        return np.maximum(found, SMALLEST_LOG_DENSITY)

    def impute(
        self,
        X: ArrayLike,
        return_std: bool = False,
        *,
        quantile: float | None = None,
        fill: str = "both",
        below: str = "auto",
        floor: ArrayLike | None = None,
        ceiling: ArrayLike | None = None,
    ) -> Any:
        """X with hidden cells filled in by their mean given the rest of the row, or by a ``quantile``.

        Floored cells get a value below their floor; seen cells stay as they are. With ``return_std`` also the standard
        deviations of filled cells (0 for seen cells). In your units: the mean of f(y), not f of the mean. For completed
        tables with the right spread and correlations take draws, :meth:`sample_latent`.

        ``fill``: only "hidden" cells, those at a limit, only "missing" cells, or "both". ``below``: "latent", the value
        before it was cut off, or "floor", what the table would show, max(f(y), floor), so that cells at a limit stay.
        "auto": "latent" for cells at a limit; missing cells get what the table would show where their column's floor is
        0, as of rain or spending, and "latent" elsewhere, where limits are those of detection.

        >>> model = RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> model.impute([[0.0, 1.0], [0.0, float("nan")]]).round(3)
        array([[-0.463,  1.   ],
               [-0.798,  0.162]])
        >>> model.impute([[0.0, 1.0], [0.0, float("nan")]], below="latent").round(3)
        array([[-0.463,  1.   ],
               [-0.798, -0.479]])
        >>> model.impute([[0.0, 1.0], [0.0, float("nan")]], below="floor").round(3)
        array([[0.   , 1.   ],
               [0.   , 0.162]])
        """
        cells = Cells.of(self, X, floor, ceiling)
        warn_of_gross(self, cells)
        filling = Filling.of(self, cells, fill, below, (floor, ceiling))
        mean, std, *filled = imputed(self, cells, () if quantile is None else (quantile,), filling)
        chosen = filled[0] if filled else mean
        return (chosen, std) if return_std else chosen

    def sample_latent(
        self,
        X: ArrayLike,
        n_draws: int = 1,
        random_state: RandomState = None,
        *,
        fill: str = "both",
        below: str = "auto",
        floor: ArrayLike | None = None,
        ceiling: ArrayLike | None = None,
    ) -> FloatArray:
        """Completed tables, n_draws x n x d: hidden cells drawn from their posterior, jointly; seen cells as they are.

        Independent draws, exact in distribution, in your units. A row's draws depend on ``random_state`` and on its
        place in X, not on other rows. Where the draws do not fit into memory, draw a part of the rows at a time, or use
        ``unrelu impute --draws``, which writes as it goes. ``fill`` and ``below``: see :meth:`impute`. All draws are of
        this one model; for multiple imputation :meth:`unrelu.FloorImputer.draw` also draws the parameters of a fit.

        >>> model = RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> draws = model.sample_latent([[0.0, 1.0]], n_draws=4000, random_state=0)
        >>> draws.shape, bool((draws[:, 0, 0] <= 0.0).all()), round(draws[:, 0, 0].mean(), 1)
        ((4000, 1, 2), True, np.float64(-0.5))
        """
        cells = Cells.of(self, X, floor, ceiling)
        warn_of_gross(self, cells)
        return drawn(self, cells, n_draws, random_state, Filling.of(self, cells, fill, below, (floor, ceiling)))

    def outlier_score(self, X: ArrayLike) -> FloatArray:
        """How outlying each row is, larger = more outlying: minus its log density, in units of its cells' spreads.

        >>> model = RectifiedGaussian([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]])
        >>> common, rare = model.outlier_score([[1.0, 1.0], [0.1, 2.0]])
        >>> bool(common < rare)
        True
        """
        density, values = self._scored(X)
        return np.negative(density.score(values))

    def cell_outlier_score(self, X: ArrayLike) -> FloatArray:
        """How outlying each cell is given the rest of its row, in standard deviations, larger = more outlying.

        A cell at its floor is outlying where the others predict that it is above; a cell off its column's constant is
        infinitely outlying; NaN where missing.

        >>> model = RectifiedGaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
        >>> model.cell_outlier_score([[0.0, 3.0], [1.0, 1.0]]).round(1)
        array([[4. , 4.7],
               [0.3, 0.3]])
        """
        density, values = self._scored(X)
        return np.abs(density.cell_outlier_score(values))

    def mahalanobis(self, X: ArrayLike, floor: ArrayLike | None = None, ceiling: ArrayLike | None = None) -> FloatArray:
        """Squared Mahalanobis distances of the rows of y from the mean: (y - mean)' precision (y - mean).

        Of a row with cells at a limit or missing ones it is the expected distance, given what the row shows: a missing
        cell adds 1 to the distance of the seen ones, and the mean over rows of the model is the number of columns.

        >>> model = RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]], floor=-1.0)
        >>> model.mahalanobis([[2.0, 1.0], [2.0, float("nan")], [2.0, -1.0]]).round(2)
        array([ 4.06,  5.  , 13.39])
        """
        cells = Cells.of(self, X, floor, ceiling)
        return Density.for_distances(self).mahalanobis(cells.latent, cells.censoring)

    def condition(self, given: Mapping[int | str, float]) -> RectifiedGaussian:
        """The distribution of the other columns where some columns have given values, in your units.

        A value at its floor is left-censored: the distribution is then the normal of the others' mean and covariance.

        >>> model = RectifiedGaussian([0.0, 1.0], [[1.0, 0.6], [0.6, 1.0]], feature_names=["As", "Pb"])
        >>> model.condition({"As": 1.0})
        RectifiedGaussian(n_features=1, mean=[1.6], std=[0.8], floor=0, names=['Pb'])
        """
        row = np.full((1, self.n_features), np.nan)
        for feature, value in given.items():
            if not np.isfinite(value):
                raise InvalidParameterError(f"condition needs a finite value for {feature!r}, got {value!r}.")
            row[0, self.index_of(feature)] = value
        rest = np.flatnonzero(np.isnan(row[0])).tolist()
        if not given or not rest:
            raise InvalidParameterError("condition needs values for some of the columns, and not for all of them.")
        cells = Cells.of(self, row)
        warn_of_gross(self, cells)
        mean, covariance = Density.of(self).joint(cells.latent, cells.censoring)
        parts = {"mean": mean[rest], "covariance": covariance[np.ix_(rest, rest)], "scoring_covariance": None}
        return self.marginal(rest).with_parts(**parts)

    def predict(
        self, X: ArrayLike, feature: int | str, quantiles: Sequence[float] = (0.05, 0.5, 0.95), hidden: bool = False
    ) -> Prediction:
        """A column given the others: mean, standard deviation, quantiles, and the probability to be at its floor.

        Its own cells in X are not used. Values are those that the table would show, at least the floor; with ``hidden``
        those before the floor.

        >>> model = RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> found = model.predict([[float("nan"), 0.5]], 0)
        >>> found.mean.round(3), found.quantiles.round(3), found.probability_floored.round(3)
        (array([0.491]), array([[0.   , 0.3  , 1.616]]), array([0.354]))
        """
        levels = tuple(float(level) for level in quantiles)
        if not all(0.0 < level < 1.0 for level in levels):
            raise InvalidParameterError(f"quantiles must be between 0 and 1, got {quantiles!r}.")
        j, x = self.index_of(feature), np.array(table_of(self, X), dtype=np.float64)
        x[:, j] = np.nan
        warn_of_gross(self, cells := Cells.of(self, x))
        return predicted(self, cells, j, levels, hidden)

    def _scored(self, X: ArrayLike) -> tuple[Density, FloatArray]:
        """(density that scores rows, latent rows), columns with a ceiling negated."""
        cells, negated = Cells.of(self, X), self.ceiling < np.inf
        density = Density.of(self.latent.negated(negated))
        density.warn_if_singular()
        return density, cells.latent * np.where(negated, -1.0, 1.0)

    # --- a value, and a file ----------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RectifiedGaussian):
            return NotImplemented
        mine, theirs = self.__getstate__(), other.__getstate__()
        arrays = all(np.array_equal(mine[name], theirs[name]) for name in mine if name != "margins")
        return arrays and self.margins == other.margins

    def __hash__(self) -> int:
        return hash((self.feature_names, tuple(self.mean.tolist()), tuple(self.floor.tolist())))

    def _repr_html_(self) -> str:
        return model_html(self.feature_names, {"floor": self.floor, "mean": self.mean, "sd": self.std})

    def __repr__(self) -> str:
        names = "" if self.feature_names is None else f", names=[{few(self.feature_names)}]"
        ceiling = f", ceiling={_short(self.ceiling, one=True)}" if np.isfinite(self.ceiling).any() else ""
        if self.margins is not None:
            ceiling += f", margins=[{few(tuple(margin.kind for margin in self.margins))}]"
        return (
            f"RectifiedGaussian(n_features={self.n_features}, mean={_short(self.mean)}, "
            f"std={_short(self.std)}, floor={_short(self.floor, one=True)}{ceiling}{names})"
        )

    def __getstate__(self) -> dict[str, Any]:
        names = ("feature_names", "mean", "floor", "covariance", "ceiling", "scoring_covariance", "margins")
        return {name: self.__dict__.get(name) for name in names}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        # Pickling drops that an array is read-only, so all fields are set here.
        self.__dict__["ceiling"] = _read_only(np.full(len(state["mean"]), np.inf))
        for name, value in state.items():
            self.__dict__[name] = _read_only(value) if isinstance(value, np.ndarray) else value

    def save(self, path: FilePath, details: Mapping[str, Any] | None = None) -> None:
        """Write the model to ``path``, exactly that name: a NumPy .npz without pickle.

        The file holds the arrays mean, covariance and floor, ceiling and scoring_covariance where there are some, and
        ``header``, UTF-8 JSON as bytes, with the names and margins of the columns. ``details`` are facts about the fit
        for the header; :func:`unrelu.model.read_header` reads them.

        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.unrelu"
        >>> RectifiedGaussian([1.0], [[2.0]]).save(path, details={"n_rows": 500})
        >>> RectifiedGaussian.load(path)
        RectifiedGaussian(n_features=1, mean=[1.], std=[1.4142], floor=0)
        """
        storage.write(path, self, details)

    @classmethod
    def load(cls, path: FilePath) -> RectifiedGaussian:
        """Read a model that :meth:`save` wrote; the example is there."""
        return storage.read(path, cls)

    STATE: ClassVar[dict[str, Any]] = {
        "n_features": Annotated[int, "size d"],
        "feature_names": Annotated[tuple[str, ...], "d"] | None,
        "mean": Annotated[FloatArray, "floats d"],
        "covariance": Annotated[FloatArray, "floats d d"],
        "floor": Annotated[FloatArray, "unbounded floats d"],
        "ceiling": Annotated[FloatArray, "unbounded floats d"] | None,
        "scoring_covariance": Annotated[FloatArray, "floats d d"] | None,
        "margins": Annotated[Margins, "d"] | None,
    }

    def to_state(self) -> dict[str, Any]:
        """The state that a file holds; ``STATE`` has its types (:mod:`unrelu.storage.format`)."""
        ceiling = self.ceiling if np.isfinite(self.ceiling).any() else None
        return {"n_features": self.n_features, **self.__getstate__(), "ceiling": ceiling}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RectifiedGaussian:
        """The model that a file holds, checked as any other."""
        given = {name: each for name, each in state.items() if name != "n_features" and each is not None}
        return cls(**given)


def read_header(path: FilePath) -> dict[str, Any]:
    """The facts a model file states about itself: format, versions, features and ``details``.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.unrelu"
    >>> RectifiedGaussian([1.0], [[2.0]], feature_names=["As"]).save(path)
    >>> read_header(path)["feature_names"]
    ['As']
    """
    return storage.read_header(path, "RectifiedGaussian")


def _read_only(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array


def _short(a: FloatArray, one: bool = False) -> str:
    """A few numbers of an array; ``one``: a single number where all are the same."""
    if one and (a == a[0]).all():
        return f"{a[0]:g}"
    return np.array2string(a, precision=4, threshold=6, edgeitems=2, separator=", ", max_line_width=10**6)
