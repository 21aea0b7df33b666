"""Draws of the hidden cells of many rows, each row from a stream of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.hidden_cells import MU, TURN, hide, settle, workspaces
from unrelu.kernels.hidden_draws import draw_hidden, draw_workspace
from unrelu.kernels.random_numbers import seed_stream
from unrelu.kernels.row_density import LIMIT, MEAN, ORDER, SCALE


@njit(cache=True, nogil=True)
def draw_rows(
    values: Any,
    beyond: Any,
    bias: FloatArray,
    scale: FloatArray,
    precision: FloatArray,
    rounding: float,
    seed: int,
    first_row: int,
    out: FloatArray,
) -> int:
    """``out`` (n x draws x d): the rows with their hidden cells drawn, in the units of ``values``.

    ``rounding`` is taken off the variances in standard units: what the inverse of a singular matrix has added to them.
    Returns how many draws come from a walk (:mod:`unrelu.kernels.hidden_draws`).
    """
    n, d = values.shape
    n_draws = out.shape[1]
    cells, index, squares = workspaces(d)
    v, s, m, limit = squares[0], squares[1], cells[MEAN], cells[LIMIT]
    for j in range(d):
        cells[SCALE, j] = 1.0 / scale[j]
    work, stream, start = draw_workspace(d), np.empty(4, dtype=np.uint64), np.empty(d)
    walked = 0
    for row in range(n):
        _, cut, hidden, _ = hide(values, beyond, row, bias, precision, 2.0 * max(d, 1), cells, index, v)
        for draw in range(n_draws):
            for j in range(d):
                out[row, draw, j] = values[row, j]
        if hidden == 0:
            continue
        settle(cut, hidden, cells, v, s)
        covariance, drawn = np.empty((hidden, hidden)), np.empty((n_draws, hidden))
        for i in range(hidden):
            start[i] = cells[MU, i] * cells[TURN, i]
            limit[i] = limit[i] + m[i] if i < cut else np.inf
            for j in range(i + 1):
                covariance[i, j] = covariance[j, i] = -v[i, j]
            covariance[i, i] = max(covariance[i, i] - rounding, 0.0)
        seed_stream(seed, first_row + row, stream)
        walked += draw_hidden(m[:hidden], covariance, limit[:hidden], cut, start[:hidden], stream, work, drawn)
        for draw in range(n_draws):
            for i in range(hidden):
                at = index[ORDER, i]
                y = drawn[draw, i] if np.isfinite(drawn[draw, i]) else start[i]  # the mean of what cannot be drawn
                out[row, draw, at] = bias[at] + scale[at] * cells[TURN, i] * y
    return walked
