"""A simple random sample of the rows: the same rows however the table is cut into blocks.

Row i gets the key hash(seed, i); the sample is the rows of the smallest keys. So samples merge: the smallest keys of
two parts are among the smallest keys of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, FloatArray
from unrelu.passes.screening import Screening, survey
from unrelu.passes.tiles import as_stored, least_allowed, seen_above, tiles

Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Subsample:
    """``values`` (m x d) and ``weights`` of the sampled rows in table order, and what all rows were like.

    Rows of weight 0 are not sampled and count only in ``n_rows``, not in ``n_present``, ``above`` and ``observed``: per
    column, the rows above the floor and the rows not missing.
    """

    size: int
    keys: Keys
    rows: NDArray[np.int64]
    values: NDArray[np.floating[Any]]
    weights: FloatArray
    n_rows: int
    n_present: int
    above: NDArray[np.int64]
    observed: NDArray[np.int64]
    screening: Screening

    @property
    def effective_weights(self) -> FloatArray:
        """The weights, scaled so that their sum is Kish's effective number of rows."""
        return np.asarray(self.weights * (self.weights.sum() / np.sum(self.weights**2)))

    def merge(self, other: Self) -> Self:
        keys = np.concatenate([self.keys, other.keys])
        rows = np.concatenate([self.rows, other.rows])
        chosen = smallest(keys, rows, self.size)
        return type(self)(
            size=self.size,
            keys=keys[chosen],
            rows=rows[chosen],
            values=np.concatenate([self.values, other.values])[chosen],
            weights=np.concatenate([self.weights, other.weights])[chosen],
            n_rows=self.n_rows + other.n_rows,
            n_present=self.n_present + other.n_present,
            above=self.above + other.above,
            observed=self.observed + other.observed,
            screening=self.screening.merge(other.screening),
        )


@dataclass(frozen=True)
class SubsampleQuestion:
    """Ask for ``size`` rows (all, if there are no more), chosen by ``seed``."""

    size: int
    seed: int
    floor: tuple[float, ...]
    lowest: tuple[float, ...]

    @classmethod
    def under(cls, assumptions: Assumptions, size: int, seed: int) -> Self:
        return cls(size, seed, assumptions.censoring, assumptions.lowest)

    def __call__(self, block: Block) -> Subsample:
        n, d = block.values.shape
        weights = np.ones(n) if block.weights is None else block.weights
        rows = np.arange(block.first_row, block.first_row + n, dtype=np.int64)
        keys = row_keys(self.seed, rows)
        present = np.flatnonzero(weights > 0.0)
        chosen = present[smallest(keys[present], rows[present], self.size)]
        above, observed = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.int64)
        screening: Screening | None = None
        for tile in tiles(block):
            seen = survey(tile, least_allowed(np.array(self.lowest), tile.values)).screening
            screening = seen if screening is None else screening.merge(seen)
            above += np.count_nonzero(tile.values > seen_above(np.array(self.floor), tile.values), axis=0)
            observed += np.count_nonzero(~np.isnan(tile.values), axis=0)
        assert screening is not None, "a block has at least one row"
        return Subsample(
            size=self.size,
            keys=keys[chosen],
            rows=rows[chosen],
            values=_exact_floors(np.array(block.values[chosen], order="C"), np.array(self.floor)),
            weights=weights[chosen],
            n_rows=n,
            n_present=len(present),
            above=above,
            observed=observed,
            screening=screening,
        )


def _exact_floors(values: NDArray[Any], floor: FloatArray) -> NDArray[Any]:
    """Cells that are at their floor but for rounding, put exactly there."""
    stored = as_stored(floor, values)
    near = (values > stored) & (values <= seen_above(floor, values))
    return np.where(near, stored.astype(values.dtype), values) if near.any() else values


def smallest(keys: Keys, rows: NDArray[np.int64], size: int) -> NDArray[np.intp]:
    """Positions of the ``size`` smallest keys, in the order of their rows."""
    chosen = np.argpartition(keys, size)[:size] if len(keys) > size else np.arange(len(keys))
    return chosen[np.argsort(rows[chosen])]


def row_keys(seed: int, rows: NDArray[np.int64]) -> Keys:
    """A uniform 64-bit key per row: the finalizer of SplitMix64 (Steele, Lea and Flood 2014) on seed and row."""
    with np.errstate(over="ignore"):
        step = np.uint64(0x9E3779B97F4A7C15)
        key = (rows.astype(np.uint64) + np.uint64(1)) * step + np.uint64(seed % 2**63) * np.uint64(0xD1342543DE82EF95)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(key ^ (key >> np.uint64(31)))
