"""Where bad cells lie: bins of every column, an atom at its floor, tails that fall as 1/x^2."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.cell_shares import find_bins
from unrelu.passes.tiles import seen_above
from unrelu.posterior.row_scores import Values, plain

Bins = NDArray[np.int64]

# Of a normal column, in standard deviations: a bin is as wide as the column's own spread, lest it follows every value.
_EDGES = np.array([-15.0, -10.0, -7.5, *range(-6, 7), 7.5, 10.0, 15.0])
_NARROWEST = 0.3
_FAR = 3.99


@dataclass(frozen=True, eq=False)
class Background:
    """``edges`` of every column, the first at its floor. A column of e edges has e + 2 bins: at the floor, between
    neighbouring edges, above the last, below the first. Bins of all columns are counted through."""

    edges: tuple[FloatArray, ...]

    def __post_init__(self) -> None:
        for edge in self.edges:
            if edge.ndim != 1 or len(edge) < 2 or not (np.isfinite(edge).all() and (np.diff(edge) > 0.0).all()):
                raise InvalidDataError("the edges of a column's background do not rise")

    @classmethod
    def about(cls, middle: FloatArray, spread: FloatArray, floor: FloatArray) -> Self:
        """Bins of columns with that middle and spread."""
        edges = []
        for centre, unit, low in zip(middle, spread, floor, strict=True):
            start = (low - centre) / unit
            inner = _EDGES[start + _NARROWEST < _EDGES] if np.isfinite(low) else _EDGES
            edges.append(centre + unit * (np.concatenate([[start], inner]) if np.isfinite(low) else inner))
        return cls(tuple(np.unique(edge) for edge in edges))

    @cached_property
    def starts(self) -> Bins:
        """Where each column's edges begin in all columns' edges."""
        return np.cumsum([0, *(len(edge) for edge in self.edges)])

    @cached_property
    def columns(self) -> Bins:
        """The column of every bin."""
        return np.repeat(np.arange(len(self.edges)), [len(edge) + 2 for edge in self.edges])

    @cached_property
    def first_bins(self) -> Bins:
        """The bin at the floor, of every column."""
        return self.starts[:-1] + 2 * np.arange(len(self.edges))

    @property
    def n_bins(self) -> int:
        return len(self.columns)

    def places(self, values: Values, floor: FloatArray) -> tuple[Bins, FloatArray]:
        """Per cell: its bin, -1 where missing, and its log density in a bin of mass 1."""
        bins, log_density = np.empty(values.shape, np.int64), np.empty(values.shape)
        find_bins(plain(values), seen_above(floor, values), np.concatenate(self.edges), self.starts, bins, log_density)
        return bins, log_density

    def in_column(self, per_bin: FloatArray) -> FloatArray:
        """Sums over the bins of every column."""
        return np.asarray(np.bincount(self.columns, weights=per_bin, minlength=len(self.edges)), dtype=np.float64)

    def far_bins(self, middle: FloatArray, spread: FloatArray) -> BoolArray:
        """Bins beyond four standard deviations, where no cell is genuine."""
        parts = []
        for centre, unit, edge in zip(middle, spread, self.edges, strict=True):
            z = (edge - centre) / unit
            far = (z[:-1] >= _FAR) | (z[1:] <= -_FAR)
            parts.append(np.concatenate([[False], far, [z[-1] >= _FAR, z[0] <= -_FAR]]))
        return np.concatenate(parts).astype(np.bool_)
