"""Are neighbouring rows alike? Correlations of rows with those k rows further on, over all columns together.

Under independent rows the sum over columns of mean(e_t e_(t+1)) / mean(e_t^2), e the posterior means of the cells, has
mean 0 and variance sum_ij r_ij^2 / m over m pairs of rows. With r_k, a column's correlation at distance k, errors of
its mean are too small by sqrt(1 + 2 (r_1 + r_2 + ...)), as far as the r_k stay positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrelu.checks.rows import Look
from unrelu.contracts import FloatArray

_FARTHEST = 4.0
_MOST_LAGS = 15
_FEWEST_PAIRS = 20
_SORTED = 0.95  # of the steps to the next row that go one way


@dataclass(frozen=True)
class Neighbours:
    """``z``: standard normal for independent rows. ``correlation``: of neighbours; ``factor``: of standard errors."""

    z: float
    correlation: float
    factor: float


def neighbours_of(rows: NDArray[np.int64], means: FloatArray) -> Neighbours:
    """``means`` (n x d) of the cells of the rows, in standard units."""
    e = np.clip(means, -_FARTHEST, _FARTHEST)
    e = e - e.mean(axis=0)
    e = e / np.maximum(np.sqrt((e**2).mean(axis=0)), 1e-12)
    pairs = np.flatnonzero(np.diff(rows) == 1)
    if len(pairs) < _FEWEST_PAIRS:
        return Neighbours(0.0, 0.0, 1.0)
    products = (e[pairs] * e[pairs + 1]).mean(axis=0)
    spread = np.sqrt(((e.T @ e / len(e)) ** 2).sum() / len(pairs))
    factor = float(np.sqrt(inflation(rows, e).mean()))
    return Neighbours(float(products.sum() / spread), float(products.mean()), factor)


def inflation(rows: NDArray[np.int64], numbers: FloatArray) -> FloatArray:
    """1 + 2 (r_1 + r_2 + ...) of every column of the rows' numbers; at least 1."""
    x = numbers - numbers.mean(axis=0)
    square = np.maximum((x**2).mean(axis=0), 1e-300)
    total = np.ones(x.shape[1])
    going = np.ones_like(total, dtype=np.bool_)
    for k in range(1, min(_MOST_LAGS, len(x) // 4) + 1):
        at = np.flatnonzero(rows[k:] - rows[:-k] == k)
        if len(at) < _FEWEST_PAIRS:
            break
        r = (x[at] * x[at + k]).mean(axis=0) / square
        going &= r > 0.0
        total += 2.0 * np.where(going, r, 0.0)
    return total


def is_sorted(look: Look) -> bool:
    """Whether some column goes up, or down, from row to row: whoever sorted a table made neighbours alike."""
    steps = np.diff(look.values, axis=0)[np.diff(look.rows) == 1]
    up, down = np.count_nonzero(steps > 0.0, axis=0), np.count_nonzero(steps < 0.0, axis=0)
    return bool(np.any((up + down >= _FEWEST_PAIRS) & (np.maximum(up, down) > _SORTED * (up + down))))
