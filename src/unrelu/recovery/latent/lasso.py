"""Program (47) of Mazumdar and Rawat: the nonlinear layer treated as a linear one, outliers as a sparse vector.

    minimize over c, e   1/(2d) |v - A c - e|^2 + lambda |e|_1                                                   (47)

e is soft(v - A c, d lambda), so that c minimizes Huber's loss of v - A c with threshold d lambda. That is convex and
piecewise quadratic: Newton's method on the entries within the threshold ends after finitely many steps. For A with
standard normal entries and |c| = 1 the minimizer is near mu c (Plan and Vershynin 2016; Theorem 4), with

    mu = E[ReLU(g + b) g] = E[Phi(b)]                                       (Stein's identity; Phi(b/|c|) in general)

averaged over the layer's own biases. The theorem asks for lambda >= 2 |z + w|_inf / d, z = ReLU(A c + b) - mu A c: the
rule takes the level that max_i |ReLU(g_i + b_i) - mu g_i| stays below with probability .95, and adds the noise's bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from unrelu.contracts import FloatArray

_ROUNDS = 200
_CONFIDENCE = 0.95
_SHRINKS = 40
_FALL = 0.3
_FARTHEST = 1e6  # of an outlier, in thresholds or median entries


@dataclass(frozen=True)
class LassoSolution:
    """(47)'s minimizers, before c is divided by mu."""

    c: FloatArray
    e: FloatArray
    intercept: float
    penalty: float


def mean_slope(b: FloatArray, norm: float) -> float:
    """mu: the mean of Phi(b_i / |c|).

    >>> mean_slope(np.array([0.0, 0.0]), 1.0)
    0.5
    """
    return float(ndtr(b / norm).mean())


def penalty_rule(b: FloatArray, norm: float, noise: float) -> float:
    """lambda = 2 (q + noise) / d, with P(max_i |ReLU(|c| g_i + b_i) - mu |c| g_i| <= q) = .95."""
    mu = mean_slope(b, norm)
    low, high = 0.0, float(np.abs(b).max(initial=0.0)) + 10.0 * norm
    for _ in range(60):
        q = 0.5 * (low + high)
        if float(_log_probability(b, norm, mu, q).sum()) < math.log(_CONFIDENCE):
            low = q
        else:
            high = q
    return 2.0 * (high + noise) / len(b)


def _log_probability(b: FloatArray, norm: float, mu: float, q: float) -> FloatArray:
    """log P(|ReLU(|c| g + b) - mu |c| g| <= q): with x = |c| g, (1 - mu) x + b where x > -b and -mu x elsewhere."""
    edge = -b
    # On the side where the layer is on: -q <= (1 - mu) x + b <= q. Where it is off: -q <= -mu x <= q.
    slope = max(1.0 - mu, 1e-12)
    on = _between(np.maximum(edge, (-q - b) / slope), (q - b) / slope, norm)
    reach = q / max(mu, 1e-12)
    off = _between(np.full(len(b), -reach), np.minimum(edge, reach), norm)
    return np.log(np.maximum(on + off, 1e-300))


def _between(low: FloatArray, high: FloatArray, norm: float) -> FloatArray:
    return np.maximum(ndtr(high / norm) - ndtr(low / norm), 0.0)


def solve_lasso(A: FloatArray, v: FloatArray, penalty: float, intercept: bool) -> LassoSolution:
    """(47) to rounding: Newton's method on Huber's loss, for thresholds that fall towards d lambda.

    A small threshold leaves Newton's method few entries to see; from the solution for a larger one it starts next to
    its own.
    """
    d, k = A.shape
    design = np.column_stack([A, np.ones(d)]) if intercept else A
    threshold = d * penalty
    # Beyond the threshold an entry only says on which side it is; if it is huge, the loss shows no other any more.
    farthest = _FARTHEST * max(threshold, float(np.median(np.abs(v))))
    near = np.clip(v, -farthest, farthest)
    solution = np.asarray(np.linalg.lstsq(design, near)[0], dtype=np.float64)
    level = float(np.abs(near - design @ solution).max(initial=0.0))
    while level > threshold:
        solution = _newton(design, near, solution, level)
        level *= _FALL
    solution = _newton(design, near, solution, threshold)
    residual = v - design @ solution
    e = np.sign(residual) * np.maximum(np.abs(residual) - threshold, 0.0)
    return LassoSolution(solution[:k], e, float(solution[k]) if intercept else 0.0, penalty)


def _newton(design: FloatArray, v: FloatArray, solution: FloatArray, threshold: float) -> FloatArray:
    """The minimizer of Huber's loss, from a point near it.

    Where Newton's step, from the few entries within the threshold, does not lower the loss, a step of reweighted least
    squares from all entries does.
    """
    value = _huber(v - design @ solution, threshold)
    damping = 1e-13 * max(float((design**2).sum()), 1e-300) / design.shape[1] * np.eye(design.shape[1])
    for _ in range(_ROUNDS):
        residual = v - design @ solution
        gradient = design.T @ np.clip(residual, -threshold, threshold)
        newton = (np.abs(residual) <= threshold).astype(np.float64)
        moved, tried = solution, value
        for weights in (newton, threshold / np.maximum(np.abs(residual), threshold)):
            step = np.linalg.solve(design.T @ (weights[:, None] * design) + damping, gradient)
            moved, tried = _shortened(design, v, solution, step, threshold, value)
            if tried < value:
                break
        if not tried < value or np.abs(moved - solution).max() <= 1e-15 * max(float(np.abs(solution).max()), 1e-300):
            break
        solution, value = moved, tried
    return solution


def _shortened(
    design: FloatArray, v: FloatArray, solution: FloatArray, step: FloatArray, threshold: float, value: float
) -> tuple[FloatArray, float]:
    """(point, loss) after the longest of the steps 1, 1/2, 1/4, ... that does not raise the loss."""
    moved, tried = solution, value
    for _ in range(_SHRINKS):
        moved = solution + step
        tried = _huber(v - design @ moved, threshold)
        if tried <= value:
            break
        step = 0.5 * step
    return moved, tried


def _huber(residual: FloatArray, threshold: float) -> float:
    size = np.abs(residual)
    inside = np.minimum(size, threshold)  # outliers may be too large to square
    return float((inside * (size - 0.5 * inside)).sum())
