"""Weights of a column's different values, in a hash table of fixed size that coarsens as values grow many.

A double's bits, those of negative numbers turned round, are whole numbers in the order of the doubles. Such a key
without its last ``shift`` bits stands for a run of neighbouring doubles. The table starts with every double by itself;
whenever it would hold more than ``most`` keys, each key loses one more bit. So the shift is the least that leaves at
most ``most`` keys, whatever the order of the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

EMPTY = np.iinfo(np.int64).min
_MIX = np.int64(-7046029254386353131)  # odd, its bits well mixed
_BEHIND_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@njit(cache=True, nogil=True, inline="always")
def _slot(keys: np.ndarray, key: Any) -> Any:
    """Where a key is, or may be put."""
    mask = len(keys) - 1
    at = ((key * _MIX) >> np.int64(40)) & mask
    while keys[at] != key and keys[at] != EMPTY:
        at = (at + 1) & mask
    return at


@njit(cache=True, nogil=True)
def _bits_apart(keys: np.ndarray) -> int:
    """The fewest bits whose loss makes two keys of the table one."""
    held = np.sort(keys[keys != EMPTY])
    apart = np.iinfo(np.int64).max
    for k in range(1, len(held)):
        differing = held[k] ^ held[k - 1]
        if differing > 0:  # else one of them is negative
            apart = min(apart, differing)
    bits = 0
    while apart > 0:
        apart >>= 1
        bits += 1
    return bits


@njit(cache=True, nogil=True)
def _coarsened(keys: np.ndarray, weights: np.ndarray, bits: int) -> int:
    """The table with every key so many bits shorter; returns how many keys it holds."""
    old_keys, old_weights = keys.copy(), weights.copy()
    keys[:] = EMPTY
    weights[:] = 0.0
    held = 0
    for k in range(len(old_keys)):
        if old_keys[k] != EMPTY:
            key = old_keys[k] >> np.int64(bits)
            at = _slot(keys, key)
            if keys[at] == EMPTY:
                keys[at] = key
                held += 1
            weights[at] += old_weights[k]
    return held


@njit(cache=True, nogil=True)
def count_values(
    bits: np.ndarray, row_weights: np.ndarray, most: int, keys: np.ndarray, weights: np.ndarray, state: np.ndarray
) -> None:
    """Add a column's cells, as the bits of doubles without NaN. ``state`` = [shift, keys held], gone on from.

    ``keys`` (EMPTY where free) and ``weights`` are the table; its length is a power of 2, at least twice ``most``.
    """
    for i in range(len(bits)):
        b = bits[i]
        key = (b if b >= 0 else b ^ _BEHIND_SIGN) >> state[0]
        at = _slot(keys, key)
        if keys[at] == EMPTY:
            keys[at] = key
            state[1] += 1
        weights[at] += row_weights[i]
        while state[1] > most:
            lost = _bits_apart(keys) if state[0] == 0 else 1  # the first bits, some thirty, tell nothing apart
            state[1] = _coarsened(keys, weights, lost)
            state[0] += lost
