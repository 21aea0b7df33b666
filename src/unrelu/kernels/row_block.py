"""One block of rows: scan every cell once, lay out what the matrix products need, and sum what margins need.

Blocks of few cells are left to NumPy, which has done with them before a kernel is loaded, let alone compiled.

Weights of a column's different values, in a hash table of fixed size that coarsens as values grow many.

A double's bits, those of negative numbers complemented, are whole numbers in the order of the doubles. Such a key
without its last ``shift`` bits stands for a run of neighbouring doubles. The table starts with every double by itself;
whenever it would hold more than ``most`` keys, each key loses one more bit. So the shift is the least that leaves at
most ``most`` keys, whatever the order of the values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.kernels.compiling import kernel

_SPARSE_ROWS = 2048  # a batch
LARGEST = 1e140  # beyond this magnitude squares and their sums leave double precision
FEW_CELLS = 2**15

Array = NDArray[Any]


def scan_block(values: Array, allowed: Array, counts: Array, first: Array, below: Array) -> None:
    """The cells that are missing or out of place, per column. ``allowed`` is the least value a cell may have; an exact
    0 below it, which says that nothing was found, is in place. counts[0..2] = cells missing, below what is allowed, too
    large (infinite among them); first[0..1] = first row below, too large (-1 if none); below = the smallest value below
    (what is allowed if none)."""
    if values.size > FEW_CELLS or len(values) == 0:
        _scan_block(values, allowed, counts, first, below)
        return
    found, first[:], below[:] = scanned(np, values, allowed, np.float64(LARGEST))
    counts += np.stack(found)


def scanned(xp: Any, x: Any, allowed: Any, most: Any) -> tuple[list[Any], list[Any], Any]:
    """(counts, first, below) of :func:`scan_block`, by array operations of NumPy or of a device."""
    low = (x < allowed) & (x >= -most) & ~((x == 0.0) & (allowed > 0.0))
    large = (x > most) | ((x < allowed) & (x < -most))
    counts = [xp.sum(xp.astype(which, xp.int64), axis=0) for which in (xp.isnan(x), low, large)]
    places = [xp.argmax(xp.astype(which, xp.int8), axis=0) for which in (low, large)]
    first = [xp.where(n > 0, place, xp.full_like(n, -1)) for n, place in zip(counts[1:], places, strict=True)]
    return counts, first, xp.min(xp.where(low, x, allowed), axis=0)


@kernel
def _scan_block(values: Array, allowed: Array, counts: Array, first: Array, below: Array) -> None:
    """:func:`scan_block` of many cells."""
    n, d = values.shape
    for j in range(d):
        below[j] = allowed[j]
        first[0, j] = -1
        first[1, j] = -1
    for i in range(n):
        for j in range(d):
            x = values[i, j]
            if allowed[j] <= x <= LARGEST:
                continue
            if math.isnan(x):
                counts[0, j] += 1
            elif x == 0.0 and allowed[j] > 0.0:
                continue
            elif -LARGEST <= x < allowed[j]:
                counts[1, j] += 1
                below[j] = min(below[j], x)
                if first[0, j] < 0:
                    first[0, j] = i
            else:
                counts[2, j] += 1
                if first[1, j] < 0:
                    first[1, j] = i


def out_of_place(values: Array, allowed: Array, most: Any) -> int:
    """Cells that are missing, below what is allowed, or above ``most``: where there are none, no scan is needed."""
    if values.size > FEW_CELLS:
        return int(_out_of_place(values, allowed, most))
    return int(values.size - np.count_nonzero((values >= allowed) & (values <= most)))


@kernel
def _out_of_place(values: Array, allowed: Array, most: float) -> int:
    """:func:`out_of_place` of many cells."""
    n, d = values.shape
    found = 0
    for i in range(n):
        row = values[i]
        for j in range(d):
            found += 0 if (row[j] >= allowed[j]) & (row[j] <= most) else 1
    return found


def centre_block(values: Array, floor: Array, origin: Array, most: Any, powers: Array, above: Array) -> None:
    """powers = [t, t^2] with t = x - origin where floor < x <= most and 0 elsewhere; above = 1 there. ``floor`` and
    ``most`` have the type of the values, ``origin`` that of the powers."""
    if values.size > FEW_CELLS:
        _centre_block(values, floor, origin, most, powers, above)
        return
    n = len(values)
    seen = (values > floor) & (values <= most)
    above[:n] = seen
    with np.errstate(over="ignore"):  # of single precision: what did not fit is summed again
        powers[0, :n] = np.where(seen, values - origin, 0.0)
        np.multiply(powers[0, :n], powers[0, :n], out=powers[1, :n])


@kernel
def _centre_block(values: Array, floor: Array, origin: Array, most: float, powers: Array, above: Array) -> None:
    """:func:`centre_block` of many cells."""
    n, d = values.shape
    nothing = powers.dtype.type(0.0)
    # One output a loop, or the compiler keeps off the vector unit: it cannot prove that so many arrays are disjoint.
    for i in range(n):
        row, centred, squared, ones = values[i], powers[0, i], powers[1, i], above[i]
        for j in range(d):
            shifted = row[j] - origin[j]
            seen = (row[j] > floor[j]) & (row[j] <= most)
            centred[j] = shifted if seen else nothing
        for j in range(d):
            squared[j] = centred[j] * centred[j]
        for j in range(d):
            ones[j] = 1 if (row[j] > floor[j]) & (row[j] <= most) else 0


@njit(cache=True, nogil=True, inline="always")
def _bits_set(v: np.uint64) -> float:
    """Number of ones, by adding neighbouring fields of 1, 2 and 4 bits and then all bytes at once."""
    v = v - ((v >> np.uint64(1)) & np.uint64(0x5555555555555555))
    v = (v & np.uint64(0x3333333333333333)) + ((v >> np.uint64(2)) & np.uint64(0x3333333333333333))
    v = (v + (v >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.float64((v * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def pack_rows(above: Array, words: Array) -> None:
    """64 rows of zeros and ones, of any type, to a row of d words."""
    n, d = above.shape
    words[:] = 0
    for i in range(n):
        word = words[i >> 6]
        bit = np.uint64(1) << np.uint64(i & 63)
        for j in range(d):
            word[j] |= bit if above[i, j] else np.uint64(0)


@kernel
def add_upper_counts(words: Array, first: int, last: int, count: Array) -> None:
    """count[i, j] += bits set in both columns' words, exactly, for first <= i < last and j >= i."""
    d = words.shape[1]
    for w in range(len(words)):
        word = words[w]
        for i in range(first, last):
            own, others, out = word[i], word[i:d], count[i, i:d]
            for j in range(d - i):
                out[j] += _bits_set(own & others[j])


def add_stack(parts: Array, into: Array) -> None:
    """into[k] += the sum of parts[k], in the precision of ``into``."""
    with np.errstate(invalid="ignore"):  # of infinite ones: what single precision did not hold is summed again
        for part in range(parts.shape[1]):
            into += parts[:, part]


@kernel
def add_sparse_rows(
    ends: Array, columns: Array, values: Array, floor: Array, origin: Array, weights: Array, sums: Array
) -> None:
    """sums[i, j] += w (1, t_i, t_i^2, t_i t_j) for every row and every two of its cells above their floors. Row r has
    the cells ends[r] to ends[r + 1]; those that are not stored are not above their floors."""
    n, d = len(ends) - 1, len(origin)
    # A batch of rows goes column by column i, so that the sums of i stay in the nearest cache.
    for start in range(0, n, _SPARSE_ROWS):
        last = min(start + _SPARSE_ROWS, n)
        most = ends[last] - ends[start]
        at, t, row_ends = np.empty(most, np.int64), np.empty(most), np.zeros(last - start + 1, np.int64)
        column_ends = np.zeros(d + 1, np.int64)
        found = 0
        for r in range(start, last):
            for k in range(ends[r], ends[r + 1]):
                j = columns[k]
                if values[k] > floor[j]:
                    at[found], t[found] = j, values[k] - origin[j]
                    column_ends[j + 1] += 1
                    found += 1
            row_ends[r - start + 1] = found
        column_ends = np.cumsum(column_ends)
        of_column, rows, filled = np.empty(found, np.int64), np.empty(found, np.int64), column_ends.copy()
        for r in range(last - start):
            for k in range(row_ends[r], row_ends[r + 1]):
                of_column[filled[at[k]]], rows[filled[at[k]]] = k, r
                filled[at[k]] += 1
        for i in range(d):
            out = sums[i]
            for e in range(column_ends[i], column_ends[i + 1]):
                w = weights[start + rows[e]]
                first = w * t[of_column[e]]
                second = first * t[of_column[e]]
                for k in range(row_ends[rows[e]], row_ends[rows[e] + 1]):
                    pair = out[at[k]]
                    pair[0] += w
                    pair[1] += first
                    pair[2] += second
                    pair[3] += first * t[k]


def add_powers(
    values: Array, floor: Array, origin: Array, unit: Array, weights: Array, sums: Array, ends: Array
) -> None:
    """sums[p] += sum of w t^p, t = (x - origin)/unit, p = 0..3; sums[4] += the weight of cells that are not missing.
    ends[0..3] = smallest value, its weight, largest value, its weight. All but sums[4] are over x above the floor."""
    if values.size > FEW_CELLS:
        _add_powers(values, floor, origin, unit, weights, sums, ends)
        return
    x = values.astype(np.float64)
    found = power_sums(np, x, (x > floor) & (x <= LARGEST), x <= floor, (origin, unit), weights[:, None])
    sums += found[:5]
    ends[:] = found[5:]


def power_sums(xp: Any, x: Any, seen: Any, below: Any, place: tuple[Any, Any], weights: Any) -> Any:
    """The nine sums and ends of :func:`add_powers`, by array operations of NumPy or of a device."""
    (origin, unit), zero = place, xp.zeros_like(x)
    t = (xp.where(seen, x, origin) - origin) / unit
    power, found = xp.where(seen, weights, zero), []
    for _ in range(4):
        found.append(xp.sum(power, axis=0))
        power = power * t
    found.append(xp.sum(xp.where(seen | below, weights, zero), axis=0))
    for end, extreme in ((np.inf, xp.min), (-np.inf, xp.max)):
        here = extreme(xp.where(seen, x, xp.full_like(x, end)), axis=0)
        found += [here, xp.sum(xp.where(seen & (x == here), weights, zero), axis=0)]
    return xp.stack(found)


@kernel
def _add_powers(
    values: Array, floor: Array, origin: Array, unit: Array, weights: Array, sums: Array, ends: Array
) -> None:
    """:func:`add_powers` of many cells."""
    n, d = values.shape
    # Column by column: all sums of a column stay in registers, which is worth more than reading row by row.
    for j in range(d):
        count = first = second = third = observed = 0.0
        smallest, at_smallest, largest, at_largest = np.inf, 0.0, -np.inf, 0.0
        low, middle, per_unit = floor[j], origin[j], 1.0 / unit[j]
        for i in range(n):
            x = np.float64(values[i, j])
            w = weights[i]
            if low < x <= LARGEST:
                t = (x - middle) * per_unit
                wt = w * t
                observed += w
                count += w
                first += wt
                second += wt * t
                third += wt * t * t
                if x <= smallest:
                    at_smallest = w if x < smallest else at_smallest + w
                    smallest = x
                if x >= largest:
                    at_largest = w if x > largest else at_largest + w
                    largest = x
            elif x <= low:
                observed += w
        for p, total in enumerate((count, first, second, third, observed)):
            sums[p, j] += total
        for p, end in enumerate((smallest, at_smallest, largest, at_largest)):
            ends[p, j] = end


EMPTY = np.iinfo(np.int64).min
_MIX = np.int64(-7046029254386353131)  # odd, its bits well mixed
_BEHIND_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@kernel
def _add(bits: Array, row_weights: Array, first: int, most: int, keys: Array, weights: Array, state: Array) -> int:
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
    """Add a column's cells, as the bits of doubles without NaN. ``state`` = [shift, keys held], gone on from. ``keys``
    (EMPTY where free) and ``weights`` are the table; its length is a power of 2, at least twice ``most``."""
    done = 0
    while done < len(bits):
        done = _add(bits, row_weights, done, most, keys, weights, state)
        while state[1] > most:
            _coarsen(most, keys, weights, state)


def _coarsen(most: int, keys: NDArray[np.int64], weights: NDArray[np.float64], state: NDArray[np.int64]) -> None:
    """Take one more bit off every key, or as many as separate no two keys where none was taken yet: some thirty."""
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
