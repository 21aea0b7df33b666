"""The smallest and the largest value of every column, and how often each occurs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, BoolArray, FloatArray
from unrelu.passes.tiles import as_stored, tiles, without_absent

_CELLS = 2**22  # that tell what the floors of the data are
_NOISE, _ROUNDINGS = 1e-9, 4.0  # relative, and in units of the last place: one number, computed in two ways
_FEWEST_DIGITS, _TRUNCATED = 3, 4  # of a floor that was typed, and of one that may have been cut off, not rounded
_SHARE, _ALONE = 0.005, 3.0  # of the values that are at a floor, and how many times those just above it


@dataclass(frozen=True, eq=False)
class Extremes:
    """Per column; inf, -inf and 0 of a column without values. Infinite cells are left out."""

    smallest: FloatArray
    smallest_count: FloatArray
    largest: FloatArray
    largest_count: FloatArray

    def merge(self, other: Self) -> Self:
        low, high = np.minimum(self.smallest, other.smallest), np.maximum(self.largest, other.largest)
        return type(self)(
            low,
            (self.smallest == low) * self.smallest_count + (other.smallest == low) * other.smallest_count,
            high,
            (self.largest == high) * self.largest_count + (other.largest == high) * other.largest_count,
        )


@dataclass(frozen=True)
class ExtremesQuestion:
    """Ask a block for its :class:`Extremes`.

    >>> found = ExtremesQuestion()(Block(np.array([[0.25], [0.25], [3.0], [np.nan]])))
    >>> found.smallest, found.smallest_count, found.largest, found.largest_count
    (array([0.25]), array([2.]), array([3.]), array([1.]))
    """

    def __call__(self, block: Block) -> Extremes:
        whole: Extremes | None = None
        for tile in tiles(block):
            seen = np.isfinite(tile.values)
            low = np.where(seen, tile.values, np.inf).min(axis=0).astype(np.float64)
            high = np.where(seen, tile.values, -np.inf).max(axis=0).astype(np.float64)
            part = Extremes(low, _count(tile.values == low), high, _count(tile.values == high))
            whole = part if whole is None else whole.merge(part)
        assert whole is not None, "a block has at least one row"
        return whole


def _count(cells: np.ndarray) -> FloatArray:
    return np.asarray(np.count_nonzero(cells, axis=0), dtype=np.float64)


Typed = tuple[int, float, float]  # a column, its floor as it was given, and as the data have it


@dataclass(frozen=True, eq=False)
class DataFloors:
    """Floors as the data have them; ``typed`` where another one was given, with a few digits of the same number."""

    floor: FloatArray
    typed: BoolArray


def first_values(blocks: Iterable[Block], n_features: int) -> NDArray[np.floating[Any]]:
    """Some million cells, as many as tell the floors of the columns."""
    most, held, rows = max(_CELLS // max(n_features, 1), 1), [], 0
    for block in blocks:
        part = slice(most - rows)
        weights = None if block.weights is None else block.weights[part]
        held.append(without_absent(block.values[part], weights))
        rows += len(held[-1])
        if rows >= most:
            break
    return held[0] if len(held) == 1 else np.concatenate(held)


def floors_of_data(values: NDArray[np.floating[Any]], floor: FloatArray, fewest: int = 2) -> DataFloors:
    """The floors of the columns of ``values``, where a given one is that of the data but for rounding.

    The smallest value of a column takes the place of the floor if it repeats (occurs ``fewest`` times) and is the same
    but for the rounding of a computation, or rounds to the floor as that was typed, with three digits or more, and
    repeats as no value just above it does. A floor of 0 is exact.

    >>> values = np.maximum(np.random.default_rng(0).normal(size=(500, 1)), np.log(0.5))
    >>> found = floors_of_data(values, np.array([-0.6931]))
    >>> found.floor == np.log(0.5), found.typed
    (array([ True]), array([ True]))
    """
    new, typed = floor.copy(), np.zeros(len(floor), dtype=bool)
    finite = np.isfinite(floor) & (floor != 0.0)
    if not (finite.any() and len(values)):
        return DataFloors(new, typed)
    smallest = np.fmin.reduce(values, axis=0).astype(np.float64)
    near = _is_near(smallest, floor, as_stored(floor, values)) & finite
    noise = _noise(values)
    for j in np.flatnonzero(near).tolist():
        column, low = values[:, j], float(smallest[j])
        count, gap = int(np.count_nonzero(column == low)), abs(low - float(floor[j]))
        if count < fewest:
            continue
        if gap <= noise * abs(low):
            new[j] = low
            continue
        digits, unit = _digits(float(floor[j]))
        above = np.count_nonzero(column <= low + unit) - count
        often = count >= max(2.0, _SHARE * np.count_nonzero(~np.isnan(column)), _ALONE * above)
        if often and digits >= _FEWEST_DIGITS and gap <= unit * (1.0 if digits >= _TRUNCATED else 0.5) * (1.0 + _NOISE):
            new[j], typed[j] = low, True
    return DataFloors(new, typed)


def cell_floors_of_data(values: NDArray[np.floating[Any]], floor: FloatArray) -> tuple[FloatArray, list[Typed]]:
    """The same of cells with floors of their own (n x d; ``values`` are of the first rows), and which were typed.

    Cells of a column that have one floor are judged as a column is that has it.

    >>> floor = np.tile([[0.25], [0.6931]], (250, 1))
    >>> values = np.maximum(np.random.default_rng(0).normal(size=(500, 1)), np.tile([[0.25], [np.log(2.0)]], (250, 1)))
    >>> new, typed = cell_floors_of_data(values, floor)
    >>> np.unique(new) == [0.25, np.log(2.0)], typed
    (array([ True,  True]), [(0, 0.6931, 0.6931471805599453)])
    """
    new, typed = floor.copy(), []
    for j in range(floor.shape[1]):
        column, own = values[:, j], floor[: len(values), j]
        rows = np.flatnonzero(np.isfinite(own) & (own != 0.0) & ~np.isnan(column))
        if not len(rows):
            continue
        rows = rows[np.argsort(own[rows], kind="stable")]
        levels, starts = np.unique(own[rows], return_index=True)
        smallest = np.minimum.reduceat(column[rows], starts).astype(np.float64)
        near = _is_near(smallest, levels, as_stored(levels, values))
        same = near & (np.abs(smallest - levels) <= _noise(values) * np.abs(smallest))
        taken, groups = np.where(same, smallest, levels), np.split(column[rows], starts[1:])
        for k in np.flatnonzero(near & ~same).tolist():
            found = floors_of_data(groups[k][:, None], levels[k : k + 1])
            if found.typed[0]:
                taken[k] = found.floor[0]
                typed.append((j, float(levels[k]), float(taken[k])))
        place = np.minimum(np.searchsorted(levels, floor[:, j]), len(levels) - 1)
        new[:, j] = np.where(levels[place] == floor[:, j], taken[place], floor[:, j])
    return new, typed


def _noise(values: NDArray[np.floating[Any]]) -> float:
    """By how much, relatively, two ways to compute a number may differ."""
    return max(_NOISE, _ROUNDINGS * float(np.finfo(values.dtype).eps))


def _is_near(smallest: FloatArray, floor: FloatArray, stored: FloatArray) -> BoolArray:
    """Whether smallest values are no floors, but may be these with other digits."""
    with np.errstate(invalid="ignore"):
        near = np.abs(smallest - stored) <= 0.5 * 10.0 ** (1 - _FEWEST_DIGITS) * np.abs(floor)
    return np.asarray(near & (smallest != stored))


def _digits(number: float) -> tuple[int, float]:
    """How many digits a number was typed with, and one unit of the last.

    >>> _digits(-0.6931), _digits(1250.0)
    ((4, 0.0001), (3, 10.0))
    """
    _, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int), "a floor is finite"
    return len(digits), float(Decimal(1).scaleb(exponent))
