"""Rows under a model: which cells are seen, censored at a limit or missing, and which of them are to be filled in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, Censoring, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.limits import is_by_cell
from unrelu.passes.tiles import row_keys, smallest
from unrelu.tables.limited import cell_limits, censoring_at_limits, limits_of_data
from unrelu.validation import check_choice, column_label, listed, row_label, suggestion

Values = NDArray[np.floating[Any]]
Model = Any  # a :class:`unrelu.RectifiedGaussian`, whose module imports this one
_ROWS = 8192  # at a time: four numbers a cell
_FARTHEST = 1e250  # latent values: margins may map huge numbers beyond it
FILL, BELOW = ("both", "hidden", "missing"), ("auto", "latent", "floor")


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows in the user's units and as latent values, and their censoring (:mod:`unrelu.kernels.hidden_cells`).

    A cell at its limit holds exactly that limit in both.
    """

    given: FloatArray
    latent: FloatArray
    censoring: Censoring

    @classmethod
    def of(cls, model: Model, X: Any, floor: Any = None, ceiling: Any = None) -> Self:
        """The rows of X; other limits than the model's may be given: one number, one per column or one per cell."""
        x, names = table_of(model, X), model.feature_names
        given = model.floor if floor is None else floor, model.ceiling if ceiling is None else ceiling
        low, high = cell_limits(*given, x.shape, names)
        own = low, high
        if is_by_cell(*given):
            own = low, high = limits_of_data(x, low, high, names)
        elif len(x):  # limits and cells that differ by rounding alone, as of logarithms, are the same
            floors, ceilings = limits_of_data(x, low[0], high[0], names, fewest=1)
            own = np.broadcast_to(floors, x.shape), np.broadcast_to(ceilings, x.shape)
        censoring = censoring_at_limits(x, *own, names)
        held = np.where(censoring < 0, low, high)
        return cls.marked(model, np.where(censoring == 0, x, held).astype(np.float64), censoring)

    @classmethod
    def marked(cls, model: Model, values: FloatArray, censoring: Censoring) -> Self:
        """Rows in the user's units whose censoring is given."""
        if model.margins is None:
            return cls(values, values, censoring)
        with np.errstate(over="ignore"):
            latent = np.column_stack([margin.to_latent(values[:, j]) for j, margin in enumerate(model.margins)])
        return cls(values, np.clip(latent, -_FARTHEST, _FARTHEST), censoring)

    @property
    def hidden(self) -> BoolArray:
        """The cells that are censored or missing."""
        return np.asarray((self.censoring != 0) | np.isnan(self.latent))

    def parts(self, size: int = _ROWS) -> Iterator[tuple[slice, Cells]]:
        """A part of the rows at a time."""
        for start in range(0, len(self.given), size):
            rows = slice(start, start + size)
            yield rows, self.of_rows(rows)

    def of_rows(self, rows: Any) -> Cells:
        """Some of the rows."""
        return Cells(self.given[rows], self.latent[rows], self.censoring[rows])

    def joined(self, other: Cells) -> Cells:
        """These rows and those."""
        given, latent = np.concatenate([self.given, other.given]), np.concatenate([self.latent, other.latent])
        return Cells(given, latent, np.concatenate([self.censoring, other.censoring]))

    def without(self, j: int) -> Cells:
        """The same rows with column j missing."""
        return self.without_cells(np.arange(self.given.shape[1]) == j)

    def without_cells(self, left_out: BoolArray) -> Cells:
        """The same rows with some cells missing."""
        given, latent = (np.where(left_out, np.nan, each) for each in (self.given, self.latent))
        return Cells(given, latent, np.where(left_out, np.int8(0), self.censoring))

    def widened(self, j: int) -> Cells:
        """The same rows with one more column, at place j, all missing."""
        given, latent = (np.insert(each, j, np.nan, axis=1) for each in (self.given, self.latent))
        return Cells(given, latent, np.insert(self.censoring, j, 0, axis=1))


@dataclass(frozen=True, eq=False)
class SampledCells:
    """Some rows of a table in its order, chosen by chance, their numbers from 0, and the number of all rows."""

    cells: Cells
    rows: NDArray[np.int64]
    n_rows: int

    @classmethod
    def of(cls, blocks: Iterable[Cells], most: int, seed: int) -> Self:
        """At most so many rows, those of the smallest keys, as in :mod:`unrelu.passes.tiles`."""
        kept, keys, rows, first = None, np.empty(0, np.uint64), np.empty(0, np.int64), 0
        for cells in blocks:
            own = np.arange(first, first + len(cells.given))
            first += len(own)
            keys, rows = np.concatenate([keys, row_keys(seed, own)]), np.concatenate([rows, own])
            chosen = smallest(keys, rows, most)
            kept = (cells if kept is None else kept.joined(cells)).of_rows(chosen)
            keys, rows = keys[chosen], rows[chosen]
        assert kept is not None, "a table has at least one row"
        return cls(kept, rows, first)


@dataclass(frozen=True)
class Filling:
    """Which cells are filled in, and by which value.

    ``fill``: "hidden" cells, which are at a limit, "missing" cells, or "both". ``below``: "latent", f(y) itself, or
    "floor", what the table would show, max(f(y), floor), so that cells at a limit stay there. "auto": latent, but what
    the table would show in missing cells of columns whose floor is 0, as of rain; other floors are detection limits.
    ``tolerance``: the distance between a cell's limit and the model's own. ``limited``: columns whose floor in these
    rows is not the model's, but a detection limit.
    """

    fill: str = "both"
    below: str = "auto"
    tolerance: float = 0.0
    limited: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_choice("fill", self.fill, FILL)
        check_choice("below", self.below, BELOW)
        if self.fill == "hidden" and self.below == "floor":
            raise InvalidParameterError(
                "fill='hidden' and below='floor' leave every cell as it is: use below='latent' for values beyond the"
                " limits, or fill='missing' to fill in the others."
            )

    @classmethod
    def of(cls, model: Model, cells: Cells, fill: str, below: str, limits: tuple[Any, Any]) -> Self:
        """For rows whose floors and ceilings were given as ``limits``, None where the model's hold."""
        if limits[0] is None:
            return cls(fill, below)
        ceiling = model.ceiling if limits[1] is None else limits[1]
        low = cell_limits(limits[0], ceiling, cells.given.shape, model.feature_names)[0]
        return cls(fill, below, limited=tuple(np.flatnonzero((low != 0.0).any(axis=0)).tolist()))

    def as_seen(self, model: Model) -> BoolArray:
        """The columns whose missing cells get values cut off at their limits, as the table has them."""
        if self.below != "auto":
            return np.full(model.n_features, self.below == "floor")
        return np.asarray((model.floor == 0.0) & ~np.isin(np.arange(model.n_features), self.limited))

    def filled(self, cells: Cells) -> BoolArray:
        """The cells that are filled in."""
        if self.fill == "missing" or self.below == "floor":
            return np.isnan(cells.given)
        return cells.hidden if self.fill == "both" else np.asarray(cells.censoring != 0)

    def groups(self, model: Model, cells: Cells) -> Iterator[tuple[int, BoolArray, bool]]:
        """Cells that are filled in alike: their column, their rows, and whether their values are cut off at limits."""
        filled, as_seen = self.filled(cells), self.as_seen(model)
        for j in np.flatnonzero(filled.any(axis=0)).tolist():
            shown = filled[:, j] & np.isnan(cells.given[:, j]) & as_seen[j]
            for at, cut in ((shown, True), (filled[:, j] & ~shown, False)):
                if at.any():
                    yield j, at, cut

    def start(self, model: Model, cells: Cells) -> FloatArray:
        """The rows before anything is filled in: cells at a limit of the model hold that limit."""
        limited = np.isfinite(np.where(cells.censoring < 0, model.floor, model.ceiling)) & (cells.censoring != 0)
        return np.where(limited, cells.given + cells.censoring * self.tolerance, cells.given)


EVERYTHING = Filling()


def table_of(model: Model, X: Any) -> FloatArray:
    """X as numbers, n x d; a frame's columns are found by name where the model has names."""
    names, d = model.feature_names, model.n_features
    if names is not None and hasattr(X, "columns"):
        there = [str(name) for name in X.columns]
        missing = [name for name in names if name not in there]
        if missing:
            raise InvalidDataError(
                f"The table has no column {listed(map(repr, missing))}. {suggestion(missing[0], there, 'It has')}"
            )
        X = X[list(names)]
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        x = np.asarray(X)
        x = x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)
    except (TypeError, ValueError) as error:
        from unrelu.tables.frames import frame_fault

        fault = frame_fault(X) if hasattr(X, "columns") else None
        raise InvalidDataError(fault or f"The table must hold numbers: {error}.") from error
    if x.ndim != 2 or x.shape[1] != d:
        raise InvalidDataError(f"The model has {d} columns, but the table has shape {x.shape}: give n x {d} numbers.")
    if np.isinf(x).any():
        i, j = np.argwhere(np.isinf(x))[0].tolist()
        raise InvalidDataError(
            f"An infinite value in {column_label(j, names)}, {row_label(i)}: mark it as missing with NaN.", rows=[i]
        )
    return x
