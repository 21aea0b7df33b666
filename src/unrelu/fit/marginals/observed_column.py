"""One column as the choice of its shape sees it: its values with their weights, and what is cut off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.passes.columns import ColumnMargin, Margins
from unrelu.passes.tiles import seen_above
from unrelu.shapes import Seen

_MOST_ROUNDS, _SETTLED = 400, 1e-9  # of the empirical law of cells with limits of their own


@dataclass(frozen=True, eq=False)
class Column:
    """A column's different values (or runs of them), their weights, and which of them are above floor, below ceiling.

    ``rows``: the effective number of all cells, cut-off ones included. ``at_most`` and ``at_least``: limits of cells
    that have limits of their own, and their weights (2 x number). ``unreached``: a floor that no value is at.
    """

    low: FloatArray
    high: FloatArray
    weights: FloatArray
    above: BoolArray
    floor: float
    ceiling: float
    rows: float
    seen: Seen
    at_most: FloatArray = field(default_factory=lambda: np.empty((2, 0)))
    at_least: FloatArray = field(default_factory=lambda: np.empty((2, 0)))
    unreached: float = -np.inf

    @classmethod
    def of(cls, margins: Margins, j: int, floor: float, ceiling: float) -> Column:
        margin, like = margins.columns[j], np.empty(0, dtype=margins.stored_as)
        low, high = margin.runs
        lowest, edge = seen_above(np.array([floor]), like)[0], -seen_above(np.array([-ceiling]), like)[0]
        unreached = -np.inf
        if margin.ends[0] > lowest:
            # A floor that no value reaches is no floor; one at 0 or below, of positive values, not even a limit.
            floor, unreached = -np.inf, -np.inf if floor <= 0.0 < margin.ends[0] else floor
        at_most, at_least = (_levels(each[j]) for each in (margins.at_most, margins.at_least))
        seen = _seen(margin, np.finfo(margins.stored_as).eps)
        if at_most.size or at_least.size:  # what was cut off may lie anywhere below, or above
            seen = Seen(-np.inf if at_most.size else seen.low, max([seen.high, *at_least[0]]), seen.step)
        above = (low > lowest) & (high < edge)
        given = low, high, margin.weights, above, floor, ceiling, float(margins.rows[j]), seen, at_most, at_least
        return cls(*given, unreached)

    @cached_property
    def total(self) -> float:
        return float(self.weights.sum() + self.at_most[1].sum() + self.at_least[1].sum())

    @property
    def varies(self) -> bool:
        """Whether there is anything to learn of its shape."""
        return len(self.low) > 1 or self.has_own_limits

    @cached_property
    def is_positive(self) -> bool:
        """Whether nothing that is known of it is 0 or below, limits included."""
        return bool(np.concatenate([[self.lowest], self.at_most[0], self.at_least[0]]).min() > 0.0)

    @property
    def lowest(self) -> float:
        """The floor, or the smallest value where there is none."""
        return self.floor if np.isfinite(self.floor) else float(self.low[self.above].min(initial=np.inf))

    @cached_property
    def levels(self) -> FloatArray:
        """The empirical distribution function at the values above the floor, at the middle of each jump; of runs of
        values, at their upper ends."""
        jump = 0.5 if self.has_single_values else 1.0
        if not self.has_own_limits or self._is_cut_outside:
            up = self.at_most[1].sum() + np.cumsum(self.weights) - (1.0 - jump) * self.weights
            return np.asarray(up[self.above] / self.total)
        before, mass = empirical_law(self)
        return np.asarray(before + jump * mass)

    @property
    def _is_cut_outside(self) -> bool:
        """Whether no limit of single cells is among the values seen."""
        x = self.x
        return bool(len(x) and (self.at_most[0] <= x[0]).all() and (self.at_least[0] >= x[-1]).all())

    def without_extremes(self, share: float) -> Column:
        """The same with the largest values, and the smallest unless they are cut off already, cut off where that share
        of the rows is: how far out they lie then says nothing."""
        if self.has_own_limits or len(self.low) < 2:
            return self
        up = np.cumsum(self.weights) / self.total
        first = 0 if self.is_cut else int(np.searchsorted(up, share))
        last = len(up) - 1 if self.is_mirrored else int(np.searchsorted(up, 1.0 - share))
        if first >= last or not self.above[first : last + 1].any():
            return self
        kept = slice(first, last + 1)
        below, above = self.weights[:first].sum(), self.weights[last + 1 :].sum()
        trimmed = replace(
            self,
            low=self.low[kept],
            high=self.high[kept],
            weights=self.weights[kept],
            above=self.above[kept],
            at_most=np.array([[self.low[first]], [below]]) if below > 0.0 else self.at_most,
            at_least=np.array([[self.high[last]], [above]]) if above > 0.0 else self.at_least,
        )
        trimmed.__dict__.update(is_positive=self.is_positive, is_cut=self.is_cut)  # as all of its values have it
        return trimmed

    @property
    def has_single_values(self) -> bool:
        return bool((self.low == self.high).all())

    @property
    def has_own_limits(self) -> bool:
        return bool(self.at_most.size or self.at_least.size)

    def cut(self, y: Callable[[FloatArray], FloatArray]) -> list[tuple[FloatArray, FloatArray]]:
        """Limits of the cut-off cells as ``y`` has them, and their weights: at most, at least."""
        weight = self.weights.sum() - self.w.sum()
        at_most, at_least = (*self.at_most,), (*self.at_least,)
        if self.is_mirrored and weight > 0.0:
            at_least = np.array([self.ceiling]), np.array([weight])
        elif np.isfinite(self.floor) and weight > 0.0:
            at_most = np.array([self.floor]), np.array([weight])
        return [(y(limits), weights) for limits, weights in (at_most, at_least)]

    @cached_property
    def x(self) -> FloatArray:
        """The middle of each run above the floor."""
        return np.asarray(0.5 * (self.low + self.high)[self.above])

    @cached_property
    def w(self) -> FloatArray:
        return self.weights[self.above]

    @property
    def is_mirrored(self) -> bool:
        return self.ceiling < np.inf

    @property
    def distinct(self) -> int:
        return int(np.count_nonzero(self.above))

    @cached_property
    def is_cut(self) -> bool:
        return bool(np.isfinite(self.floor) or self.at_most.size)

    @property
    def is_cut_above(self) -> bool:
        return self.is_mirrored or bool(self.at_least.size)

    @property
    def rows_above(self) -> float:
        return self.rows * float(self.w.sum() / self.total) if len(self.weights) else 0.0


def _levels(margin: ColumnMargin) -> FloatArray:
    """The values of a margin, the middle of each run, and their weights."""
    low, high = margin.runs
    return np.stack([0.5 * (low + high), margin.weights])


def empirical_law(column: Column) -> tuple[FloatArray, FloatArray]:
    """(mass below, mass at) each value seen, where cells have limits of their own: Turnbull's (1976) estimate.

    The most likely masses by self-consistency: a cell "at most l" counts for the values up to l, and for what is below
    all of them, as the masses say.
    """
    x, w, n = column.x, column.w, column.total
    places = [np.searchsorted(x, column.at_most[0], side="right"), np.searchsorted(x, column.at_least[0], side="left")]
    mass = np.full(len(x) + 2, 1.0 / (len(x) + 2))  # below all values, at each, above all
    mass[0] *= float(column.at_most.size > 0)
    mass[-1] *= float(column.at_least.size > 0)
    for _ in range(_MOST_ROUNDS):
        up = np.cumsum(mass)
        counted = np.concatenate([[0.0], w, [0.0]])
        if column.at_most.size:
            each = np.bincount(places[0], column.at_most[1] / np.maximum(up[places[0]], 1e-300), len(mass))
            counted += mass * np.cumsum(each[::-1])[::-1]
        if column.at_least.size:
            left = np.maximum(up[-1] - np.concatenate([[0.0], up])[places[1] + 1], 1e-300)
            counted += mass * np.cumsum(np.bincount(places[1] + 1, column.at_least[1] / left, len(mass)))
        counted /= n
        moved, mass = float(np.abs(counted - mass).max()), counted
        if moved < _SETTLED:
            break
    return np.cumsum(mass)[:-2], mass[1:-1]


def _seen(margin: ColumnMargin, precision: Any) -> Seen:
    """Range and step: 1, or the power of ten down to 1e-4 that all values are multiples of, up to their precision."""
    values, sizes = margin.runs[0], np.abs(margin.runs[0])
    if len(values) == 0:
        return Seen()
    step = 1.0 if margin.whole else 0.0
    if margin.shift == 0:
        least = float(np.diff(values).min()) if len(values) > 1 else 0.0
        for tried in (_rounded(least), 1.0, 0.1, 0.01, 1e-3, 1e-4):
            if tried <= 100.0 * precision * sizes.max():  # finer than what the numbers resolve
                continue
            if (np.abs(values - np.rint(values / tried) * tried) <= 2.0 * precision * sizes).all():
                step = tried
                break
    return Seen(*margin.ends, step)


def _rounded(step: float) -> float:
    """The step as a whole number, or one over a whole number, where it is either up to rounding; 0 elsewhere.

    >>> _rounded(0.30000000000000004 - 0.2), _rounded(0.25), _rounded(0.3)
    (0.1, 0.25, 0.0)
    """
    for value, turned in ((step, False), (1.0 / step if step > 0.0 else 0.0, True)):
        whole = np.rint(value)
        if whole >= 1.0 and abs(value - whole) < 1e-6 * whole:
            return float(1.0 / whole if turned else whole)
    return 0.0
