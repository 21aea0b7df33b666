"""The gauge that a bias density chooses: T = C A' + 1 b' is given, and C -> C - 1 v', b -> b + A v leaves it as it is.

The likelihood (33) of b + A v is maximised over v in R^k,

    maximise sum_j log p(b_j + a_j'v)    subject to    max_i M_ij - gamma <= a_j'v <= min_i M_ij + gamma,

and b_j + a_j'v in the support of p. It is concave where p is log-concave, and then v is its only maximiser. In
coordinates u with A v = Q u, Q'Q = I, the problem is well conditioned whatever the factors' scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize

from unrelu.contracts import BoolArray, FloatArray
from unrelu.engines.local import map_in_threads
from unrelu.errors import InvalidParameterError
from unrelu.papers.likelihood.density import BiasDensity
from unrelu.recovery.matrix.cells import tiles
from unrelu.recovery.matrix.factors import Factors

_RANK_TOLERANCE = 1e-10
_SLACK_TOLERANCE = 1e-9  # of the spread of p: constraints missed by less are rounding of T
_INSIDE = 1e-9  # of the spread: how far from the ends of the support biases keep
_ITERATIONS = 300


@dataclass(frozen=True)
class GaugeProblem:
    """``basis`` Q, ``bias`` b and the bounds on Q u, for the columns that have a say."""

    density: BiasDensity
    basis: FloatArray
    bias: FloatArray
    low: FloatArray
    high: FloatArray

    def negative(self, u: FloatArray) -> tuple[float, FloatArray]:
        """Minus the mean log-likelihood per column, and its gradient."""
        b = self.bias + self.basis @ u
        sure = np.zeros(len(b), dtype=bool)
        count = len(b)
        return (
            -float(self.density.term(b, sure).sum()) / count,
            -(self.density.derivatives(b, sure)[0] @ self.basis) / count,
        )

    def centre(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, float]:
        """The u whose smallest slack is largest, and that slack: negative where no u is feasible."""
        floor, roof = np.isfinite(low), np.isfinite(high)
        k = self.basis.shape[1]
        if not (floor.any() or roof.any()):
            return np.zeros(k), np.inf
        rows = np.concatenate([-self.basis[floor], self.basis[roof]])
        limits = np.concatenate([-low[floor], high[roof]])
        result = linprog(
            np.append(np.zeros(k), -1.0),
            A_ub=np.column_stack([rows, np.ones(len(rows))]),
            b_ub=limits,
            bounds=[(None, None)] * k + [(None, self.density.spread)],
            method="highs",
        )
        best = np.asarray(result.x, dtype=np.float64)
        return best[:k], float(best[k])

    def pulled(self, u: FloatArray, centre: FloatArray) -> FloatArray:
        """The point of the way from a feasible centre to u where the first bound is met, or u."""
        start, step = self.basis @ centre, self.basis @ (u - centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(
                step > 0.0, (self.high - start) / step, np.where(step < 0.0, (self.low - start) / step, 1.0)
            )
        share = float(np.clip(np.nan_to_num(room, nan=1.0), 0.0, 1.0).min(initial=1.0))
        return centre + share * (u - centre)

    def ascend(self, start: FloatArray) -> FloatArray:
        """A local maximiser of the likelihood, by sequential least squares."""
        floor, roof = np.isfinite(self.low), np.isfinite(self.high)
        constraints: list[Any] = []
        if floor.any() or roof.any():
            rows = np.concatenate([self.basis[floor], -self.basis[roof]])
            limits = np.concatenate([self.low[floor], -self.high[roof]])
            constraints.append({"type": "ineq", "fun": lambda u: rows @ u - limits, "jac": lambda _: rows})
        options: Any = {"maxiter": _ITERATIONS, "ftol": 1e-15}
        with np.errstate(all="ignore"):
            result = minimize(self.negative, start, jac=True, method="SLSQP", constraints=constraints, options=options)
        return np.asarray(result.x, dtype=np.float64)


def likeliest_gauge(factors: Factors, density: BiasDensity, gamma: float, counted: BoolArray) -> Factors:
    """The factors of the same T whose bias is likeliest; only ``counted`` columns have a say.

    >>> from scipy.stats import norm
    >>> rng = np.random.default_rng(0)
    >>> C, A, b = rng.standard_normal((50, 2)), rng.standard_normal((40, 2)), rng.standard_normal(40)
    >>> every = np.ones(40, dtype=bool)
    >>> moved = Factors(C + 3.0, A, b - A @ [3.0, 3.0])
    >>> chosen = likeliest_gauge(moved, BiasDensity.checked(norm(0, 1)), np.inf, every)
    >>> bool(np.abs(A.T @ chosen.bias).max() < 1e-6)  # under a normal density, b is orthogonal to A
    True
    """
    left, singular, right = np.linalg.svd(factors.loadings[counted], full_matrices=False)
    kept = singular > _RANK_TOLERANCE * singular.max(initial=0.0)
    basis, to_shift = left[:, kept], (right[kept] / singular[kept, None]).T
    mean = factors.latent.mean(axis=0)
    if not kept.any():
        return factors.shifted(mean)
    bottom, top = (ends[counted] for ends in _ends(factors))
    b = np.asarray(factors.bias)[counted]
    inset = _INSIDE * density.spread
    low, high = density.lowest + inset - b, density.highest - inset - b
    problem = GaugeProblem(density, basis, b, np.maximum(low, top - gamma), np.minimum(high, bottom + gamma))
    centre, slack = problem.centre(problem.low, problem.high)
    if slack < -_SLACK_TOLERANCE * density.spread:
        _refuse(problem, (top - gamma, bottom + gamma), (low, high), gamma)
    starts = [centre, basis.T @ (factors.loadings[counted] @ mean), -(basis.T @ b)]
    ends = [problem.pulled(problem.ascend(problem.pulled(u, centre)), centre) for u in starts]
    best = min([*ends, *(problem.pulled(u, centre) for u in starts)], key=lambda u: problem.negative(u)[0])
    return factors.shifted(to_shift @ best + _unmoved(mean, right[kept]))


def _unmoved(mean: FloatArray, directions: FloatArray) -> FloatArray:
    """The part of the centred gauge's shift along which no counted column's bias moves."""
    rest: FloatArray = mean - directions.T @ (directions @ mean)
    return rest


def _ends(factors: Factors) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest entry of each column of M = C A'."""

    def part(rows: slice) -> tuple[FloatArray, FloatArray]:
        matrix = factors.latent[rows] @ factors.loadings.T
        return matrix.min(axis=0), matrix.max(axis=0)

    parts = map_in_threads(part, tiles((len(factors.latent), len(factors.loadings))))
    return np.min([low for low, _ in parts], axis=0), np.max([high for _, high in parts], axis=0)


def _refuse(
    problem: GaugeProblem, box: tuple[FloatArray, FloatArray], support: tuple[FloatArray, FloatArray], gamma: float
) -> None:
    """Say which constraint cannot be met: gamma, the support of p, or both at once."""
    density = problem.density
    tolerance = _SLACK_TOLERANCE * density.spread
    ends = f"[{density.lowest:g}, {density.highest:g}]"
    room = problem.centre(*box)[1]
    if room < -tolerance:
        raise InvalidParameterError(
            f"gamma={gamma:g} is too small: every way to split the recovered T into M + 1 b' has an |M|_inf of at"
            f" least {gamma - room:.6g}. Raise gamma to that, or leave it out."
        )
    if problem.centre(*support)[1] < -tolerance:
        raise InvalidParameterError(
            f"bias_density allows biases in {ends} only, and no way to split the recovered T into M + 1 b' puts all"
            f" {len(problem.bias)} of them there: the best one misses by {-problem.centre(*support)[1]:.6g}. Give a"
            " density with a wider support."
        )
    raise InvalidParameterError(
        f"gamma={gamma:g} and bias_density's support {ends} cannot both hold: no way to split the recovered T into"
        " M + 1 b' meets the two. Raise gamma or give a density with a wider support."
    )
