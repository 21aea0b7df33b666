"""Program (34) with Davenport's constraint (21), |M|_* <= nuclear_norm, by Douglas-Rachford splitting (ADMM).

    minimise f(M) + g(Z)  subject to  M = Z

with f minus the likelihood (33) on the set (29), and g the indicator of the nuclear-norm ball. Both are convex where p
is log-concave. One round takes a state S to S + alpha (M - Z), with penalty rho and over-relaxation alpha:

    Z = the point of the ball next to S                      singular values projected on the simplex
    M = argmin f(M) + rho/2 |M - (2 Z - S)|^2                a one-dimensional problem per column, in b_j

which is ADMM with scaled multipliers S - Z. Where M = Z, rho (S - Z) is a normal of the ball and minus a subgradient of
f: M is the solution. Anderson mixing of the last states shortens the way; rho keeps |S - Z| at a tenth of |M|, where
the rounds were found to be fewest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Watch
from unrelu.papers.likelihood.columns import FeasibleSet, Split, factors_of, relative_residual
from unrelu.papers.likelihood.density import BiasDensity
from unrelu.recovery.matrix.descent import Iterate

_RELAXATION = 1.6
_PULL = 0.1  # |S - Z| beside |M| that rho aims at
_LEAST_PULL = 0.1  # multipliers smaller than this share of that are as good as none
_ADAPT = (5, 10, 20, 40, 80)  # rounds after which rho is set anew
_MEMORY, _REGULARISATION = 20, 1e-12
_SQUARE_ROOT = 1e-5  # share of the largest singular value above which those of a Gram have digits enough
_ROOT_ROUNDS, _ROOT_TOLERANCE = 100, 1e-10  # the density's slope has this many digits

_Slope = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class NuclearProgram:
    """The table, (29), p, and the radius of the ball."""

    values: FloatArray
    feasible: FeasibleSet
    density: BiasDensity
    nuclear_norm: float

    def solve(
        self, start: Split, rank: int, tolerance: float, max_iterations: int, watch: Watch
    ) -> tuple[Split, int, bool]:
        """M of (29), next to the ball by ``tolerance`` where the flag says converged, and the number of rounds."""
        side = LikelihoodSide.of(self)
        rho = 1.0 / (len(self.values) * self.density.spread**2)
        split, state, done = start, start.matrix, False
        mixing = _Mixing()
        for iteration in range(1, max_iterations + 1):
            left, singular, right = project_on_ball(state, self.nuclear_norm)
            z = (left * singular) @ right
            split = side.nearest(2.0 * z - state, rho, split.bias)
            factors = factors_of(left, singular, right, rank, split.bias)
            watch(Iterate(iteration, relative_residual(self.values, factors), factors).step())
            step = split.matrix - z
            gap, size, pull = (float(np.linalg.norm(each)) for each in (step, split.matrix, state - z))
            if gap <= tolerance * min(size, max(pull / _PULL, _LEAST_PULL * size)):
                done = True
                break
            if iteration in _ADAPT:
                factor = min(max(pull / (_PULL * size), 0.1), 10.0) if size > 0.0 else 1.0
                rho, state, mixing = rho * factor, z + (state - z) / factor + _RELAXATION * step, _Mixing()
            else:
                state = mixing.next(state, _RELAXATION * step)
        return split, iteration, done


class _Mixing:
    """Anderson's mixing of the last states of a fixed-point iteration, kept while the steps it leads to get shorter.

    Of all combinations of the last states with weights that sum to 1 it takes the one whose steps combine to the
    shortest. A mixed state with a longer step than before is given up for the plain one: a plain round never
    lengthens the step, since the iteration is an averaged contraction.
    """

    def __init__(self) -> None:
        self._states: list[FloatArray] = []
        self._steps: list[FloatArray] = []
        self._plain: FloatArray | None = None
        self._norm = np.inf

    def next(self, state: FloatArray, step: FloatArray) -> FloatArray:
        """The state of the next round, given this one's and the step that it asks for."""
        norm = float(np.linalg.norm(step))
        if self._plain is not None and norm > self._norm:
            state, self._plain = self._plain, None
            self._states, self._steps = [], []
            return state
        self._states = [*self._states[-_MEMORY:], state.ravel()]
        self._steps = [*self._steps[-_MEMORY:], step.ravel()]
        plain: FloatArray = state + step
        if len(self._states) == 1:
            return plain
        self._plain, self._norm = plain, norm
        moves, changes = np.diff(self._states, axis=0), np.diff(self._steps, axis=0)
        gram = changes @ changes.T
        gram += _REGULARISATION * np.trace(gram) * np.eye(len(gram))
        weights = np.linalg.lstsq(gram, changes @ step.ravel(), rcond=None)[0]
        return plain - (weights @ (moves + changes)).reshape(state.shape)


@dataclass(frozen=True)
class LikelihoodSide:
    """f: everything that stays the same while M moves."""

    density: BiasDensity
    values: FloatArray
    positive: BoolArray
    at_floor: BoolArray
    caps: FloatArray
    low: FloatArray
    high: FloatArray
    gamma: float
    never: BoolArray

    @classmethod
    def of(cls, program: NuclearProgram) -> LikelihoodSide:
        feasible, density = program.feasible, program.density
        low, high = feasible.bounds
        never = feasible.columns.never
        low = np.maximum(low, density.lowest)
        high = np.where(never, high, np.minimum(high, density.highest))
        positive = program.values > 0.0
        at_floor = program.values <= 0.0
        values = np.where(positive, program.values, 0.0)
        return cls(density, values, positive, at_floor, feasible.caps, low, high, feasible.gamma, never)

    def nearest(self, v: FloatArray, rho: float, bias: FloatArray) -> Split:
        """argmin over M of f(M) + rho/2 |M - V|^2, and its b.

        Given b_j the cells of column j are X_ij - b_j (positive), V_ij clipped to [-gamma, cap_j - b_j] (at the floor)
        or to [-gamma, gamma] (missing), so that b_j is the root of an increasing function,

            -d term(b)/db + rho (sum_P (b + V_ij - X_ij) + sum_Z max(0, V_ij + b - cap_j)).
        """
        gap = np.where(self.positive, v - self.values, 0.0).sum(axis=0)
        count = self.positive.sum(axis=0)
        height = np.where(self.at_floor, v - self.caps, -np.inf)

        def slope(b: FloatArray) -> tuple[FloatArray, FloatArray]:
            above = height + b
            reached = above > 0.0
            pull = gap + count * b + np.where(reached, above, 0.0).sum(axis=0)
            rise, bend = self.density.derivatives(b, self.never)
            return rho * pull - rise, rho * (count + reached.sum(axis=0)) + bend

        b = increasing_root(slope, np.clip(bias, self.low, self.high), self.low, self.high, self.density.spread)
        at_floor = np.clip(v, -self.gamma, np.where(self.at_floor, self.caps - b, self.gamma))
        return Split(np.where(self.positive, self.values - b, at_floor), b)


def increasing_root(
    function: _Slope, start: FloatArray, low: FloatArray, high: FloatArray, spread: float
) -> FloatArray:
    """Where increasing functions cross 0 between ``low`` and ``high``, or the end next to it: one root per column.

    ``function`` gives values and slopes at one point per column. Newton steps of bounded growth; once the root lies
    between two points, steps that leave the interval or shrink too slowly are replaced by its middle.

    >>> low, high = np.full(3, -5.0), np.full(3, 4.0)
    >>> increasing_root(lambda x: (x**3 - [8.0, -1.0, 99.0], 3.0 * x**2), np.ones(3), low, high, 1.0)
    array([ 2., -1.,  4.])
    """
    x, left, right = start, low, high
    below, above = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
    last = spread + np.abs(x)
    for _ in range(_ROOT_ROUNDS):
        value, slope = function(x)
        below, above = below | (value < 0.0), above | (value > 0.0)
        left, right = np.where(value < 0.0, x, left), np.where(value > 0.0, x, right)
        step = np.clip(-value / np.maximum(slope, np.finfo(float).tiny), -4.0 * last, 4.0 * last)
        slow = (x + step <= left) | (x + step >= right) | (np.abs(step) > 0.5 * last)
        step = np.where(below & above & slow & (value != 0.0), 0.5 * (left + right) - x, step)
        moved = np.clip(x + step, left, right)
        x, last = moved, np.abs(moved - x)
        if (last <= _ROOT_TOLERANCE * (spread + np.abs(x))).all():
            break
    return x


def project_on_ball(matrix: FloatArray, radius: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The matrix of nuclear norm ``radius`` or less next to a matrix, as U, its positive singular values, V'.

    They come from the eigenvectors of the smaller Gram, several times faster than a full decomposition, unless
    singular values that small matter that squaring would lose their digits.

    >>> u, singular, vt = project_on_ball(np.diag([3.0, 1.0, 0.1]), 3.0)
    >>> singular
    array([2.5, 0.5])
    """
    if matrix.shape[0] < matrix.shape[1]:
        u, singular, vt = project_on_ball(matrix.T, radius)
        return vt.T, singular, u.T
    eigenvalues, vectors = np.linalg.eigh(matrix.T @ matrix)
    singular, v = np.sqrt(np.maximum(eigenvalues[::-1], 0.0)), vectors[:, ::-1]
    cut = _cut(singular, radius)
    if cut > _SQUARE_ROOT * singular[0]:
        kept = singular > cut
        v = v[:, kept]
        return matrix @ (v / singular[kept]), singular[kept] - cut, v.T
    u, singular, vt = np.linalg.svd(matrix, full_matrices=False)
    cut = _cut(singular, radius)
    kept = singular > cut
    return u[:, kept], singular[kept] - cut, vt[kept]


def _cut(singular: FloatArray, radius: float) -> float:
    """What to take off descending singular values, down to 0 at the least, for a sum of ``radius``; 0 inside."""
    if singular.sum() <= radius:
        return 0.0
    excess = (np.cumsum(singular) - radius) / np.arange(1, len(singular) + 1)
    return float(excess[np.flatnonzero(singular > excess)[-1]])
