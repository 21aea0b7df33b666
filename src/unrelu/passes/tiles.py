"""Blocks in tiles: a block may be a whole array in memory, a tile's working copies stay in cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, FloatArray

_TILE_ROWS, _TILE_CELLS = 1024, 2**19  # at most
_NARROW_ROWS, _NARROW_CELLS = 4096, 2**14  # of a narrow table, whose tiles would hold little for what a tile costs
_ROUNDINGS = 4  # units in the last place between two ways to compute the same number
_NOISE = 1e-12  # relative: the same where one of the steps had a larger number, as a logarithm near 0 has


def tiles(block: Block, height: int | None = None, of: slice | None = None) -> Iterator[Block]:
    """The block's rows (``of`` them) a tile at a time, in C order and writeable: what the kernels are compiled for.

    Rows of weight 0 are as good as absent: their values are shown as missing.

    >>> [len(tile.values) for tile in tiles(Block(np.zeros((2500, 20))))]
    [1024, 1024, 452]
    """
    n, d = block.values.shape
    if height is None:
        height = int(np.clip(_TILE_CELLS // max(d, 1), 64, _TILE_ROWS))
        height = max(height, min(_NARROW_CELLS // max(d, 1), _NARROW_ROWS))
    begin, end, _ = (of or slice(0, n)).indices(n)
    for start in range(begin, end, height):
        rows = slice(start, min(start + height, end))
        weights = None if block.weights is None else block.weights[rows]
        beyond = None if block.beyond is None else block.beyond[rows]
        values = without_absent(_plain(block.values[rows]), weights)
        yield Block(values, block.first_row + start, weights, beyond=beyond)


def without_absent(values: NDArray[np.floating[Any]], weights: FloatArray | None) -> NDArray[np.floating[Any]]:
    """Rows of weight 0 are as good as absent: their values are shown as missing.

    >>> without_absent(np.array([[1.0], [2.0]]), np.array([0.0, 1.0]))
    array([[nan],
           [ 2.]])
    """
    return values if weights is None or weights.all() else np.where(weights[:, None] > 0.0, values, np.nan)


def as_stored(levels: FloatArray, values: NDArray[np.floating[Any]]) -> FloatArray:
    """Floors as the table's own float type holds them: 0.1 in a float32 table is not 0.1.

    >>> as_stored(np.array([0.1]), np.array([[0.1]], dtype=np.float32)) == np.float32(0.1)
    array([ True])
    """
    return levels.astype(values.dtype).astype(np.float64)


def seen_above(levels: FloatArray, values: NDArray[np.floating[Any]]) -> FloatArray:
    """Values above this are above the level: a level, or a value, computed in another way may be off by rounding.

    >>> values = np.array([[np.log(0.1)]])
    >>> bool((values > seen_above(np.array([np.log10(0.1) / np.log10(np.e)]), values)).any())
    False
    """
    return as_stored(levels, values) + _roundings(levels, values)


def least_allowed(levels: FloatArray, values: NDArray[np.floating[Any]]) -> FloatArray:
    """Values below this are below the level, for the same reason."""
    return as_stored(levels, values) - _roundings(levels, values)


def _roundings(levels: FloatArray, values: NDArray[np.floating[Any]]) -> FloatArray:
    stored = np.where(np.isfinite(levels), levels, 0.0).astype(values.dtype)
    return np.maximum(_ROUNDINGS * np.abs(np.spacing(stored)).astype(np.float64), _NOISE * np.abs(stored))


def _plain(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    plain = values.flags.c_contiguous and values.flags.writeable
    return values if plain else np.array(values, order="C")
