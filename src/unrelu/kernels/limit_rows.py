"""Rows with censored cells and the sums of their limits: which limit a cell is at, and what its row adds to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.kernels.compiling import kernel

MOST_LIMITS = 64  # of a column that are kept apart
N_POWERS = 6  # sums of 1, t, t^2, ... of what other columns show
SEEN, MISSING = -1, -2  # places of cells that are at no limit

Array = NDArray[Any]


@kernel
def mark_cells(values: Array, limits: Array, mark: int, near: float, marks: Array) -> tuple[int, int, int]:
    """Add ``mark`` for cells at their floors (-1) or ceilings (1), up to a relative rounding of ``near``.

    Returns (row, column, number) of the values beyond their limits, the first of them; a 0 below a limit says that
    nothing was found, and is none of them.
    """
    n, d = values.shape
    row = column = wrong = 0
    for i in range(n):
        for j in range(d):
            x, level = -mark * np.float64(values[i, j]), -mark * limits[i, j]
            if math.isinf(level):
                continue
            slack = near * abs(level)
            if x <= level + slack:
                if x >= level - slack or (x == 0.0 and level > 0.0):
                    marks[i, j] += mark
                    continue
                if wrong == 0:
                    row, column = i, j
                wrong += 1
    return row, column, wrong


@kernel
def find_limits(values: Array, upper: Array, marks: Array, ends: Array, counts: Array, place: Array) -> None:
    """Which of its column's limits every cell is at. New limits are added to ``ends`` (d x most x 2) and counted; a
    count beyond ``most`` says that they are too many. Marks: -1 below its number, 1 above it, 2 between two numbers."""
    n, d = values.shape
    most = ends.shape[1]
    for i in range(n):
        for j in range(d):
            x, mark = values[i, j], marks[i, j]
            if mark == 0:
                place[i, j] = -1 if x == x else -2
                continue
            low = -np.inf if mark == -1 else x
            high = np.inf if mark == 1 else (x if mark == -1 else upper[i, j])
            found = -1
            for k in range(min(counts[j], most)):
                if ends[j, k, 0] == low and ends[j, k, 1] == high:
                    found = k
                    break
            if found < 0:
                if counts[j] < most:
                    found = counts[j]
                    ends[j, found, 0] = low
                    ends[j, found, 1] = high
                else:
                    found = most - 1
                counts[j] = min(counts[j] + 1, most + 1)
            place[i, j] = found


@kernel
def add_limit_rows(
    values: Array,
    seen: Array,
    place: Array,
    origin: Array,
    weights: Array,
    total: Array,
    powers: Array,
    joint: Array,
) -> None:
    """Every row's cells at limits: their weight, the powers of t = x - origin of the cells seen (limits x
    N_POWERS d), and each other, on and below the diagonal."""
    n, d = values.shape
    at = np.empty(d, np.int64)
    # A row's terms w (1, t, t^2, ...), 0 where nothing was seen: the sums below then run over whole rows.
    term = np.empty(N_POWERS * d)
    for i in range(n):
        w = weights[i]
        if w == 0.0:
            continue
        hidden = 0
        for j in range(d):
            if place[i, j] >= 0:
                at[hidden] = place[i, j]
                hidden += 1
        if hidden == 0:
            continue
        for j in range(d):
            here = w if seen[i, j] else 0.0
            t = values[i, j] - origin[j] if seen[i, j] else 0.0
            for p in range(N_POWERS):
                term[p * d + j] = here
                here *= t
        for k in range(hidden):
            a = at[k]
            total[a] += w
            into = powers[a]
            for j in range(N_POWERS * d):
                into[j] += term[j]
            pair = joint[a]
            for m in range(k + 1):
                pair[at[m]] += w
