"""Rows of latent values: every column by its shape, after its cells were screened in the user's units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, BoolArray, FloatArray, Samples
from unrelu.errors import InvalidDataError
from unrelu.kernels.columns import interpolate
from unrelu.limits import Limits
from unrelu.passes.engine import map_in_threads
from unrelu.passes.rows import RowsOf
from unrelu.passes.tiles import ScreeningQuestion, reachable, seen_above, without_absent
from unrelu.shapes import Free, Shape, Shapes, latent_limits, refuse_outside
from unrelu.validation import column_label

_SMALLEST_LOG = 1e-290  # what a logarithm is taken of in full
_STEEPEST_LINE = 1e300  # slope: 0 times infinity is no number
_STEEPEST = 1e5  # log slope: whatever a shape makes of huge numbers
_COLUMNS, _ROWS = 8, 2**14  # of a table that are turned at a time: a cache line of doubles, a core's cache


@dataclass(frozen=True, eq=False)
class Shaped:
    """Shapes of the columns, and their limits in the user's units."""

    shapes: Shapes
    limits: Limits

    @property
    def latent_limits(self) -> tuple[FloatArray, FloatArray]:
        return latent_limits(self.shapes, self.limits.floor, self.limits.ceiling)

    def latent(self, x: NDArray[np.floating[Any]]) -> FloatArray:
        """Rows of latent values; a cell at its limit or beyond, up to rounding, holds the latent limit."""
        limits = (*self.latent_limits, seen_above(self.limits.floor, x), -seen_above(-self.limits.ceiling, x))
        columns, y = list(zip(self.shapes, *limits, strict=True)), np.empty(x.shape)

        def fill(at: tuple[slice, slice]) -> None:
            some = np.array(x[at].T, dtype=np.float64, order="C")
            for values, column in zip(some, columns[at[1]], strict=True):
                values[:] = _latent(values, *column)
            y[at] = some.T

        n, d = x.shape
        map_in_threads(
            fill,
            [
                (slice(row, row + _ROWS), slice(column, column + _COLUMNS))
                for row in range(0, n, _ROWS)
                for column in range(0, d, _COLUMNS)
            ],
        )
        return y

    def _between(self, x: NDArray[np.floating[Any]]) -> BoolArray:
        floor, ceiling = self.limits.floor, self.limits.ceiling
        return np.asarray((x > seen_above(floor, x)) & (x < -seen_above(-ceiling, x)))

    def refuse_outside(self, x: NDArray[np.floating[Any]], names: Sequence[str] | None) -> None:
        """Raise InvalidDataError for a cell that its column's shape is not defined for."""
        smallest = np.min(x, axis=0, where=self._between(x), initial=np.inf)
        for j, shape in enumerate(self.shapes):
            limits = (float(self.limits.floor[j]), float(self.limits.ceiling[j]))
            if shape.kind == "log" and 0.0 < smallest[j] < _SMALLEST_LOG:
                raise InvalidDataError(
                    f"shape='log' of {column_label(j, names)}: a value of {smallest[j]:g} is too small. Multiply the"
                    " column by a constant."
                )
            refuse_outside(shape, limits, float(smallest[j]), column_label(j, names), by_parts=True)

    def log_slopes(self, x: NDArray[np.floating[Any]]) -> FloatArray:
        """Per row, the sum of log dy/dx over the cells between their limits."""
        total, between = np.zeros(len(x)), self._between(x)
        for j, shape in enumerate(self.shapes):
            at = between[:, j]
            total[at] += finite_slopes(shape, x[at, j])
        return total


def finite_slopes(shape: Shape, x: NDArray[np.floating[Any]]) -> FloatArray:
    """log dy/dx of values of any size, as numbers.

    >>> finite_slopes(Free(np.array([0.0, 1.0]), np.array([0.0, 1.0])), np.array([1e300]))
    array([0.])
    """
    with np.errstate(over="ignore"):
        return np.clip(shape.log_slope(x), -_STEEPEST, _STEEPEST)


def _latent(x: FloatArray, shape: Shape, low: float, high: float, seen_above: float, seen_below: float) -> FloatArray:
    """A column's values; what is not seen between its limits holds one."""
    with np.errstate(over="ignore"):
        y = np.clip(_between_knots(shape, x) if isinstance(shape, Free) else shape.to_latent(x), low, high)
    np.copyto(y, low, where=x <= seen_above)
    np.copyto(y, high, where=x >= seen_below)
    return y


def _between_knots(shape: Free, x: FloatArray) -> FloatArray:
    """``shape.to_latent(x)``, bit by bit, by a kernel."""
    y = np.empty(len(x))
    slopes = np.minimum(np.diff(shape.scores) / np.diff(shape.values), _STEEPEST_LINE)
    interpolate(x, shape.values, shape.scores, slopes, y)
    return shape.continued(x, y)


class ShapedSamples(RowsOf):
    """The rows of ``samples``, whose columns with a ceiling are upside down, as latent values, still upside down.

    ``assumptions`` are in the user's units: cells beyond a limit, infinite or huge, are refused there. Without
    ``shaped`` the rows are the user's own, upright. Values that a shape is not defined for are refused where they would
    be learned from (``learning``); where they are judged they are as far away as can be. ``looked_at``: the same rows
    have been read before, and nothing of this need be done again.
    """

    def __init__(
        self,
        samples: Samples,
        assumptions: Assumptions,
        shaped: Shaped | None = None,
        *,
        learning: bool = False,
        looked_at: bool = False,
    ) -> None:
        super().__init__(samples)
        self._assumptions, self._shaped, self._learning = assumptions, shaped, learning
        self._looked_at, self._judging = looked_at, shaped is not None and not (learning or looked_at)
        self._sign = np.where(assumptions.mirrored or [False] * samples.n_features, -1.0, 1.0)

    @property
    def turned(self) -> Samples:
        """The rows that these are made of, in the user's units."""
        return self._samples

    def log_slopes(self) -> FloatArray:
        """One number per row: what its log density gains in the user's units."""
        assert self._shaped is not None
        rows = ShapedSamples(self._samples, self._assumptions)
        rows._judging = self._judging
        return np.concatenate([self._shaped.log_slopes(_seen(block)) for block in rows.blocks()])

    def total_log_slope(self) -> float:
        """What the log-likelihood of all rows, weighted as they are, gains in the user's units."""
        weights = [np.ones(len(b.values)) if b.weights is None else b.weights for b in self._samples.blocks()]
        return float(np.nansum(self.log_slopes() * np.concatenate(weights)))

    def blocks(self) -> Iterator[Block]:
        question, upright = ScreeningQuestion(self._assumptions.lowest), (self._sign > 0.0).all()
        for block in self._samples.blocks():
            present = replace(block, values=without_absent(block.values, block.weights))
            if not self._looked_at:
                screening = question(present)
                if self._judging and screening.large_count.any():
                    present = replace(present, values=reachable(present.values))
                    screening = question(present)
                screening.check(self._assumptions, self.feature_names)
            x = present.values if upright else present.values * self._sign.astype(present.values.dtype)
            if self._shaped is None and block.beyond is not None:
                block = replace(block, beyond=block.beyond * self._sign.astype(np.int8))
            if self._shaped is not None:
                if self._learning:
                    self._shaped.refuse_outside(x, self.feature_names)
                x = self._shaped.latent(x) if upright else self._shaped.latent(x) * self._sign
                x = reachable(x) if self._judging else x
            yield replace(block, values=x)


def _seen(block: Block) -> NDArray[np.floating[Any]]:
    """Values without the cells that only say "at most" or "at least"."""
    return block.values if block.beyond is None else np.where(block.beyond == 0, block.values, np.nan)


class KeptRows(RowsOf):
    """The rows of ``samples``, those that are not ``kept`` with a weight of 0; or their cells, others missing.

    >>> from unrelu.tables import ArraySamples
    >>> rows = KeptRows(ArraySamples([[1.0], [9.0]]), np.array([True, False]))
    >>> [block.weights.tolist() for block in rows.blocks()]
    [[1.0, 0.0]]
    """

    def __init__(self, samples: Samples, kept: BoolArray) -> None:
        super().__init__(samples)
        self._kept = kept

    def blocks(self) -> Iterator[Block]:
        for block in self._samples.blocks():
            kept = self._kept[block.first_row : block.first_row + len(block.values)]
            if kept.ndim == 2:
                yield replace(block, values=np.where(kept, block.values, block.values.dtype.type(np.nan)))
                continue
            weights = np.ones(len(kept)) if block.weights is None else block.weights
            yield replace(block, weights=np.where(kept, weights, 0.0))
