"""What a model says about rows: densities, hidden values, strange cells, predictions. Part of RectifiedGaussian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.parameters import RandomState

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian
    from unrelu.posterior.cells import Cells
    from unrelu.posterior.filling import Filling
    from unrelu.posterior.prediction import Prediction
    from unrelu.posterior.row_scores import RowScores


class Answers:
    """Questions about rows of a table X (n x d; a frame's columns by name), answered from the posterior.

    A cell at the model's floor says "at most that", one at its ceiling "at least that", NaN nothing. ``floor`` and
    ``ceiling`` may be given where the rows have limits of their own: one per column, or one per cell (NaN: none).
    """

    def log_prob(self, X: ArrayLike, floor: ArrayLike | None = None, ceiling: ArrayLike | None = None) -> FloatArray:
        """Log density of each row: of the values that are seen, times the probability of the others.

        Exact to .002 for each cell at a limit (by simulation; correlations up to .9), exactly for up to two of them.
        Rows of any size have finite ones, down to -1e300; a warning names those that the model gives no chance.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> model.log_prob([[0.0, 0.0]]).round(4)  # log(1/4 + asin(.6)/(2 pi))
        array([-1.0429])
        """
        from unrelu.posterior.gross import SMALLEST_LOG_DENSITY, warn_of_gross
        from unrelu.posterior.hidden import HiddenCells
        from unrelu.tables.prepared import finite_slopes

        model, cells = _read(self, X, floor, ceiling)
        hidden = HiddenCells.of(model)
        hidden.warn_if_singular()
        warn_of_gross(model, cells)
        found = hidden.log_density(cells.latent, cells.beyond)
        for j, shape in enumerate(model.shapes or ()):
            seen = ~cells.hidden[:, j]
            found[seen] += finite_slopes(shape, cells.given[seen, j])
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
        """X with hidden cells filled in by their mean given the rest of the row, or by a ``quantile`` of it.

        Floored cells get a value below their floor; seen cells are returned as they are. With ``return_std`` also the
        standard deviations of what is filled in (0 for seen cells). In your units: the mean of f(y), not f of the mean.
        For completed tables with the right spread and correlations take draws, :meth:`sample_latent`.

        ``fill``: only "hidden" cells, those at a limit, only "missing" ones, or "both". ``below``: "latent", the value
        before it was cut off, or "floor", what the table would show, max(f(y), floor), where cells at a limit stay.
        "auto": "latent" for cells at a limit; missing ones get what the table would show where their column's floor is
        0, as of rain or spending, and "latent" elsewhere, where limits are those of detection.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
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
        from unrelu.posterior.gross import warn_of_gross
        from unrelu.posterior.imputation import imputed

        model, cells = _read(self, X, floor, ceiling)
        warn_of_gross(model, cells)
        filling = _filling(model, cells, fill, below, (floor, ceiling))
        mean, std, *filled = imputed(model, cells, () if quantile is None else (quantile,), filling)
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

        Independent draws, exact in law, in your units. A row's draws depend on ``random_state`` and on its place in X,
        not on other rows. Where they do not fit into memory, ask for a part of the rows at a time, or use
        ``unrelu impute --draws``, which writes as it goes. ``fill`` and ``below``: see :meth:`impute`. All draws are of
        this one model; :meth:`unrelu.FloorImputer.draw` also draws the parameters of a fit.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> draws = model.sample_latent([[0.0, 1.0]], n_draws=4000, random_state=0)
        >>> draws.shape, bool((draws[:, 0, 0] <= 0.0).all()), round(draws[:, 0, 0].mean(), 1)
        ((4000, 1, 2), True, np.float64(-0.5))
        """
        from unrelu.posterior.draws import drawn
        from unrelu.posterior.gross import warn_of_gross

        model, cells = _read(self, X, floor, ceiling)
        warn_of_gross(model, cells)
        return drawn(model, cells, n_draws, random_state, _filling(model, cells, fill, below, (floor, ceiling)))

    def score_rows(self, X: ArrayLike) -> FloatArray:
        """How strange each row is, larger = stranger: minus its log density, per unit of the spread of each seen cell.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]])
        >>> common, rare = model.score_rows([[1.0, 1.0], [0.1, 2.0]])
        >>> bool(common < rare)
        True
        """
        scores, values = _scored(self, X)
        return np.negative(scores.score(values))

    def score_cells(self, X: ArrayLike) -> FloatArray:
        """How strange each cell is given the rest of its row, in standard deviations, larger = stranger.

        A cell at its floor is strange where the others say that it should be above, one off its column's constant
        infinitely; NaN where missing.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
        >>> model.score_cells([[0.0, 3.0], [1.0, 1.0]]).round(1)
        array([[4. , 4.7],
               [0.3, 0.3]])
        """
        scores, values = _scored(self, X)
        return np.abs(scores.strange(values, scores.cell_residuals(values)))

    def condition(self, given: Mapping[int | str, float]) -> RectifiedGaussian:
        """The law of the other columns where some have known values, in your units.

        A value at its floor says "at most that": the others' law is then the normal of their mean and covariance.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 1.0], [[1.0, 0.6], [0.6, 1.0]], feature_names=["As", "Pb"])
        >>> model.condition({"As": 1.0})
        RectifiedGaussian(n_features=1, bias=[1.6], row_norms=[0.8], floor=0, names=['Pb'])
        """
        from unrelu.posterior.gross import warn_of_gross
        from unrelu.posterior.hidden import HiddenCells

        model = cast("RectifiedGaussian", self)
        row = np.full((1, model.n_features), np.nan)
        for feature, value in given.items():
            if not np.isfinite(value):
                raise InvalidParameterError(f"condition needs a finite value for {feature!r}, got {value!r}.")
            row[0, model.index_of(feature)] = value
        rest = np.flatnonzero(np.isnan(row[0])).tolist()
        if not given or not rest:
            raise InvalidParameterError("condition needs values for some of the columns, and not for all of them.")
        _, cells = _read(self, row, None, None)
        warn_of_gross(model, cells)
        hidden, kept = HiddenCells.of(model), model.marginal(rest)
        bias, covariance = hidden.joint(cells.latent, cells.beyond)
        return kept.with_parts(bias=bias[rest], covariance=covariance[np.ix_(rest, rest)], scoring_covariance=None)

    def predict(
        self, X: ArrayLike, feature: int | str, quantiles: Sequence[float] = (0.05, 0.5, 0.95), hidden: bool = False
    ) -> Prediction:
        """A column given the others: mean, standard deviation, quantiles, and the probability to be at its floor.

        Its own cells in X are not looked at. Values are those that the table would show, at least the floor; with
        ``hidden`` those of the uncut column.

        >>> import unrelu
        >>> model = unrelu.RectifiedGaussian([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
        >>> found = model.predict([[float("nan"), 0.5]], 0)
        >>> found.mean.round(3), found.quantiles.round(3), found.probability_floored.round(3)
        (array([0.491]), array([[0.   , 0.3  , 1.616]]), array([0.354]))
        """
        from unrelu.posterior.gross import warn_of_gross
        from unrelu.posterior.prediction import predicted

        levels = tuple(float(level) for level in quantiles)
        if not all(0.0 < level < 1.0 for level in levels):
            raise InvalidParameterError(f"quantiles must be between 0 and 1, got {quantiles!r}.")
        model = cast("RectifiedGaussian", self)
        j = model.index_of(feature)
        cells = _read(self, _without(model, X, j), None, None)[1]
        warn_of_gross(model, cells)
        return predicted(model, cells, j, levels, hidden)


def _read(asked: Answers, X: Any, floor: Any, ceiling: Any) -> tuple[RectifiedGaussian, Cells]:
    from unrelu.posterior.cells import Cells

    model = cast("RectifiedGaussian", asked)
    return model, Cells.of(model, X, floor, ceiling)


def _filling(model: RectifiedGaussian, cells: Cells, fill: str, below: str, limits: tuple[Any, Any]) -> Filling:
    """What is filled in; ``limits``: the floors and ceilings that were given for the rows, None for the model's."""
    from unrelu.posterior.filling import Filling
    from unrelu.tables.limited import cell_limits

    if limits[0] is None:
        return Filling(fill, below)
    ceiling = model.ceiling if limits[1] is None else limits[1]
    low = cell_limits(limits[0], ceiling, cells.given.shape, model.feature_names)[0]
    return Filling(fill, below, limited=tuple(np.flatnonzero((low != 0.0).any(axis=0)).tolist()))


def _without(model: RectifiedGaussian, X: Any, j: int) -> FloatArray:
    """The table with a column that nobody has seen."""
    from unrelu.posterior.cells import table_of

    x = np.array(table_of(model, X), dtype=np.float64)
    x[:, j] = np.nan
    return x


def _scored(asked: Answers, X: Any) -> tuple[RowScores, FloatArray]:
    """(what scores rows, latent rows): columns with a ceiling upside down."""
    from unrelu.posterior.row_scores import RowScores

    model, cells = _read(asked, X, None, None)
    turned = model.ceiling < np.inf
    return RowScores.of(model.latent.reflected(turned)), cells.latent * np.where(turned, -1.0, 1.0)
