"""Weights of a column's different values, in a hash table of fixed size that coarsens as values grow many.

A double's bits, those of negative numbers turned round, are whole numbers in the order of the doubles. Such a key
without its last ``shift`` bits stands for a run of neighbouring doubles. The table starts with every double by itself;
whenever it would hold more than ``most`` keys, each key loses one more bit. So the shift is the least that leaves at
most ``most`` keys, whatever the order of the values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrelu.kernels.compiling import kernel

EMPTY = np.iinfo(np.int64).min
_MIX = np.int64(-7046029254386353131)  # odd, its bits well mixed
_BEHIND_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@kernel
def _add(
    bits: np.ndarray,
    row_weights: np.ndarray,
    first: int,
    most: int,
    keys: np.ndarray,
    weights: np.ndarray,
    state: np.ndarray,
) -> int:
    """Add cells from the ``first`` on, until the table holds more than ``most`` keys; returns the next cell."""
    mask, shift, held = len(keys) - 1, state[0], state[1]
    for i in range(first, len(bits)):
        b = bits[i]
        key = (b if b >= 0 else b ^ _BEHIND_SIGN) >> shift
        at = ((key * _MIX) >> np.int64(40)) & mask
        while keys[at] != key and keys[at] != EMPTY:
            at = (at + 1) & mask
        if keys[at] == EMPTY:
            keys[at] = key
            held += 1
        weights[at] += row_weights[i]
        if held > most:
            state[1] = held
            return i + 1
    state[1] = held
    return len(bits)


def count_values(
    bits: NDArray[np.int64],
    row_weights: NDArray[np.float64],
    most: int,
    keys: NDArray[np.int64],
    weights: NDArray[np.float64],
    state: NDArray[np.int64],
) -> None:
    """Add a column's cells, as the bits of doubles without NaN. ``state`` = [shift, keys held], gone on from.

    ``keys`` (EMPTY where free) and ``weights`` are the table; its length is a power of 2, at least twice ``most``.
    """
    done = 0
    while done < len(bits):
        done = _add(bits, row_weights, done, most, keys, weights, state)
        while state[1] > most:
            _coarsen(most, keys, weights, state)


def _coarsen(most: int, keys: NDArray[np.int64], weights: NDArray[np.float64], state: NDArray[np.int64]) -> None:
    """Take one more bit off every key, or as many as tell nothing apart where none was taken yet: some thirty."""
    at = keys != EMPTY
    held, sums = keys[at], weights[at]
    runs = held << state[0]
    state[0] += _bits_apart(held) if state[0] == 0 else 1
    state[1] = 0
    keys[:] = EMPTY
    weights[:] = 0.0
    _add(np.where(runs >= 0, runs, runs ^ _BEHIND_SIGN), sums, 0, most, keys, weights, state)


def _bits_apart(held: NDArray[np.int64]) -> int:
    """The fewest bits whose loss makes two of the keys one."""
    ordered = np.sort(held)
    differing = ordered[1:] ^ ordered[:-1]
    differing = differing[differing > 0]  # else one of the two is negative
    return int(differing.min(initial=np.iinfo(np.int64).max)).bit_length()
