"""All units of a layer whose inputs z are known: directions a with ReLU([z 1] a) in the column space of rows H.

With P_H the projection on that space and P_K that on the units known so far and the constant, minimize

    |(I - P_H) r|^2 / |(I - P_K) r|^2,    r = ReLU([z 1] a)

by Levenberg and Marquardt's steps. Units are isolated exact zeros. Known ones are 0/0 and attract nothing, so that
nearly every start leads to another unit. A solution counts if it holds in all rows, and rows are on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.optimize import linprog

from unrelu.contracts import FloatArray

_ROWS = 16  # a unknown that a search uses
_ROUNDS, _TRIES = 60, 8
_DAMPING = 1e-2
_DONE = 1e-20
_FLAT = 1e-7  # of the largest singular value of rows in which a unit is on
_NEW, _LINEAR = 1e-6, 1e-8  # shares of a line that known units do not make up, and that is rounding
_ABOVE = 0.1  # standard deviations that a unit that is never off is above 0
_STUCK, _FAR = 1e-6, 1e-6  # gain of a round that is none, for ratios that are far from 0


@dataclass(frozen=True)
class Kinked:
    """A unit h = ReLU(Z a), the direction w of the rows with H w = h, and what is left of it over all rows.

    ``size`` is the root mean square of Z a where the unit is on, or where it is off if that is smaller: a function that
    is linear but for a few rows is not a unit, however small |H w - h| is against |h|.
    """

    direction: FloatArray
    functional: FloatArray
    residual: float  # root mean square of H w - h
    size: float
    on: int
    off: int


class KinkSearch:
    """Looks for units among rows Z = [z 1] and H."""

    def __init__(self, inputs: FloatArray, rows: FloatArray, rng: np.random.Generator) -> None:
        self._mean = inputs.mean(axis=0)
        _, values, turn = np.linalg.svd(inputs - self._mean, full_matrices=False)
        self._root = turn.T / (values / np.sqrt(len(inputs)))
        self._Z = np.column_stack([(inputs - self._mean) @ self._root, np.ones(len(inputs))])
        self._H, self._rng = rows, rng
        self._basis, self._triangle = np.linalg.qr(rows)
        most = _ROWS * (rows.shape[1] + self._Z.shape[1])
        self._part = rng.choice(len(rows), most, replace=False) if len(rows) > most else np.arange(len(rows))
        self._part_basis = np.linalg.qr(rows[self._part])[0]

    def unit(self, known: FloatArray) -> Kinked:
        """What a random start leads to; ``known`` has a column for each unit that is known."""
        known = np.column_stack([np.ones(len(known)), known])
        part = self._part
        a, _ = descend(self._Z[part], self._part_basis, np.linalg.qr(known[part])[0], self._start(), _ROUNDS)
        if len(part) < len(self._Z):
            a, _ = descend(self._Z, self._basis, np.linalg.qr(known)[0], a, _TRIES)
        return self._judged(a)

    def of_heights(self, heights: FloatArray, functional: FloatArray | None = None) -> Kinked:
        """The unit whose heights these are, if they are a unit's; ``functional`` is w of a plane that shows them.

        Rows in which it is on may leave its direction open. One that is off in all others is as good as any then. A
        plane's unit may be off in none of these rows.
        """
        on = heights > 0.0
        a, _, rank, _ = np.linalg.lstsq(self._Z[on], heights[on], rcond=_FLAT)
        if rank < len(a):
            free = np.linalg.svd(self._Z[on])[2][rank:].T
            a = a + free @ _off_in(self._Z[~on] @ free, self._Z[~on] @ a, float(np.linalg.norm(a)))
        judged = self._judged(a)
        if functional is None or not on.all():
            return judged
        residual, size = (float(np.sqrt((part**2).mean())) for part in (self._Z @ a - heights, heights))
        return replace(judged, functional=functional, residual=residual, size=size)

    def _start(self) -> FloatArray:
        """A random direction through a random row."""
        slope = self._rng.standard_normal(self._Z.shape[1] - 1)
        a = np.append(slope, -float(self._Z[self._rng.choice(self._part), :-1] @ slope))
        start: FloatArray = a / np.linalg.norm(a)
        return start

    def _judged(self, a: FloatArray) -> Kinked:
        line = self._Z @ a
        heights = np.maximum(line, 0.0)
        on = int(np.count_nonzero(heights))
        functional = self._solve(heights)
        residual = float(np.sqrt(((self._H @ functional - heights) ** 2).mean()))
        size = float(np.sqrt(min((heights**2).mean(), (np.minimum(line, 0.0) ** 2).mean())))
        return Kinked(self._in_inputs(a), functional, residual, size, on, len(heights) - on)

    def linear(self, known: FloatArray, bound: float, rows: FloatArray) -> list[Kinked]:
        """Units that are never off: linear functions of the inputs in the column space that no known units make up.

        Their bias cannot be told from that of the outputs, nor can several be told apart: any that are positive in all
        ``rows`` do, those without inputs too.
        """
        Z = self._Z[:, :-1]
        old = np.linalg.qr(np.column_stack([np.ones(len(known)), known]))[0]
        new = Z - old @ (old.T @ Z)
        values, turn = np.linalg.eigh(new.T @ new / len(Z))
        turn = turn[:, values > _NEW]
        left = Z @ turn
        left = left - self._basis @ (self._basis.T @ left)
        values, inner = np.linalg.eigh(left.T @ left / len(Z))
        found = []
        for v in (turn @ inner[:, values < max(bound, _LINEAR) ** 2]).T:
            line = Z @ v
            a = np.append(v, _ABOVE * float(line.std()) - float((rows @ self._solve(line)).min()))
            heights = self._Z @ a
            functional = self._solve(heights)
            residual = float(np.sqrt(((self._H @ functional - heights) ** 2).mean()))
            found.append(Kinked(self._in_inputs(a), functional, residual, float(line.std()), len(Z), 0))
        return found

    def _solve(self, heights: FloatArray) -> FloatArray:
        return np.asarray(scipy.linalg.solve_triangular(self._triangle, self._basis.T @ heights), dtype=np.float64)

    def _in_inputs(self, a: FloatArray) -> FloatArray:
        """(A_j, b_j) of the inputs as they were given."""
        weights = self._root @ a[:-1]
        return np.append(weights, a[-1] - float(self._mean @ weights))


def _off_in(free: FloatArray, lines: FloatArray, size: float) -> FloatArray:
    """t for which lines + free t are as far below 0 as may be, none more than 0 by much; 0 where there is none."""
    k = free.shape[1]
    limits = [(None, None)] * k + [(None, 0.1 * size)]
    best = linprog(np.append(np.zeros(k), -1.0), np.column_stack([free, np.ones(len(free))]), -lines, bounds=limits)
    t: FloatArray = best.x[:k] if best.x is not None else np.zeros(k)
    return t


def descend(
    Z: FloatArray, basis: FloatArray, known: FloatArray, a: FloatArray, rounds: int
) -> tuple[FloatArray, float]:
    """Levenberg and Marquardt's steps for a on the unit sphere; (a, the ratio)."""

    def ratio(a: FloatArray) -> float:
        r = np.maximum(Z @ a, 0.0)
        size = float(r @ r)
        left, new = r - basis @ (basis.T @ r), r - known @ (known.T @ r)
        return float(left @ left) / (float(new @ new) + 1e-14 * size) if size > 0.0 else 1.0

    value, damping = ratio(a), _DAMPING
    for _ in range(rounds):
        on = Z * (Z @ a > 0.0)[:, None]
        squares = on.T @ on
        inside, old = basis.T @ on, known.T @ on
        curvature = squares - inside.T @ inside
        slope = curvature @ a - value * (squares @ a - old.T @ (old @ a))
        size = float(np.trace(curvature)) / len(a) + 1e-300
        for _ in range(_TRIES):
            damped = curvature + (damping + 1e-14) * size * np.eye(len(a))
            moved = a - np.linalg.lstsq(damped, slope)[0]
            moved = moved / np.linalg.norm(moved)
            tried = ratio(moved)
            if tried < value:
                break
            damping *= 4.0
        else:
            break
        before, a, value, damping = value, moved, tried, max(0.2 * damping, 1e-12)
        if value < _DONE or (value > (1.0 - _STUCK) * before and value > _FAR):
            break
    return a, value
