"""Recovery of T = C A' + 1 b' by the book: cell by cell, subset by subset, dense matrices inverted whole.

``sigma`` is None for least squares, else the standard deviation of normal noise inside the rectifier. A zero is a cell
at the floor, NaN one that was not observed.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr
from scipy.stats import norm

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


def hazard(s: float) -> float:
    """phi(s)/Phi(-s)."""
    return s + excess_hazard(s) if s > 5.0 else math.exp(-0.5 * s * s - _LOG_ROOT_2PI - log_ndtr(-s))


def excess_hazard(s: float) -> float:
    """phi(s)/Phi(-s) - s: in the tail by Laplace's continued fraction, where the difference would have no digits."""
    if s <= 5.0:
        return hazard(s) - s
    tail = s
    for m in range(400, 1, -1):
        tail = s + m / tail
    return 1.0 / tail


def cell(x: float, t: float, sigma: float | None = None, cap: float = 0.0) -> tuple[float, float, float, float]:
    """(residual, weight, loss, expected squared noise) of one cell."""
    if np.isnan(x):
        return 0.0, 0.0, 0.0, 0.0
    if x > 0.0:
        return x - t, 1.0, 0.5 * (x - t) ** 2, (x - t) ** 2
    if sigma is None:
        over = max(t - cap, 0.0)
        return -over, float(over > 0.0), 0.5 * over**2, over**2
    s = t / sigma
    h = hazard(s)
    square = sigma**2 * (1.0 + s * h)  # E[noise^2 | noise <= -t], noise of standard deviation sigma
    return -sigma * h, h * excess_hazard(s), -(sigma**2) * float(log_ndtr(-s)), square


def objective(X, C, A, b=None, ridge=0.0, sigma=None):
    """F + ridge/2 (|C|^2 + |A|^2); times 1/sigma^2 it is minus the Tobit log-likelihood but for constants."""
    T = C @ A.T + (0.0 if b is None else b)
    total = 0.5 * ridge * (np.sum(C**2) + np.sum(A**2))
    for i, j in np.ndindex(*X.shape):
        total += cell(X[i, j], T[i, j], sigma)[2]
    return total


def tobit_log_likelihood(X, T, sigma):
    """Of the table: densities of the values seen, probabilities of the zeros."""
    seen, zero = X > 0.0, X == 0.0
    return norm.logpdf(X[seen], T[seen], sigma).sum() + norm.logcdf(0.0, T[zero], sigma).sum()


def difference_quotient(function, at, step=1e-6):
    """The gradient of ``function`` at an array, by central differences."""
    gradient = np.empty(at.shape)
    for index in np.ndindex(*at.shape):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2.0 * step)
    return gradient


def row_optimum(x, A, b, ridge, sigma=None):
    """argmin over c of the row's convex objective; ``ridge`` is one number per component.

    Least squares: one of the subsets of zeros is the one above the floor; each one's solution is tried. Noise: BFGS.
    """
    targets = np.where(np.isnan(x), 0.0, x) - b

    def cost(c):
        losses = [cell(value, t, sigma)[2] for value, t in zip(x, A @ c + b, strict=True)]
        return sum(losses) + 0.5 * np.sum(ridge * c**2)

    if sigma is not None:

        def slope(c):
            residual = np.array([cell(value, t, sigma)[0] for value, t in zip(x, A @ c + b, strict=True)])
            return ridge * c - A.T @ residual

        return minimize(cost, np.zeros(A.shape[1]), jac=slope, method="BFGS", options={"gtol": 1e-11}).x
    seen, zeros = np.flatnonzero(x > 0.0), np.flatnonzero(x == 0.0)
    best, least = np.zeros(A.shape[1]), np.inf
    for size in range(len(zeros) + 1):
        for active in itertools.combinations(zeros, size):
            rows = np.concatenate([seen, np.array(active, dtype=int)])
            gram = A[rows].T @ A[rows] + np.diag(ridge)
            c = np.linalg.lstsq(gram, A[rows].T @ targets[rows])[0]
            if cost(c) < least:
                best, least = c, cost(c)
    return best


def column_condition(X, C, j, bias=True):
    """cond([C 1][X_j > 0]) with C of unit variance; inf with fewer positive cells than unknowns."""
    design = np.column_stack([C, np.ones(len(C))]) if bias else C
    return _condition(design[X[:, j] > 0.0])


def row_condition(X, A, i):
    """cond(A[X_i > 0]), components scaled to mean square 1; inf with fewer positive cells than unknowns."""
    return _condition((A / np.sqrt((A**2).mean(axis=0)))[X[i] > 0.0])


def _condition(design):
    rows, unknowns = design.shape
    return np.inf if rows < unknowns else float(np.linalg.cond(design))


def standard_errors(X, C, A, b, sigma):
    """Of C, A and b, by the whole dense information matrix of all parameters.

    With the other side profiled out, the information of a column (row) is its own block of a Schur complement, the axes
    being those that the other columns (rows) fix.
    """
    (n, k), d = C.shape, len(A)
    T = C @ A.T + b
    width = k + 1
    rows = np.zeros((n * k, n * k))
    columns = np.zeros((d * width, d * width))
    mixed = np.zeros((n * k, d * width))
    for i, j in np.ndindex(n, d):
        weight = cell(X[i, j], T[i, j], sigma)[1] / sigma**2
        r, c = slice(i * k, (i + 1) * k), slice(j * width, (j + 1) * width)
        extended = np.append(C[i], 1.0)
        rows[r, r] += weight * np.outer(A[j], A[j])
        columns[c, c] += weight * np.outer(extended, extended)
        mixed[r, c] += weight * np.outer(A[j], extended)
    of_columns = _block_errors(columns - mixed.T @ np.linalg.solve(rows, mixed), width)
    of_rows = _block_errors(rows - mixed @ np.linalg.solve(columns, mixed.T), k)
    return of_rows, of_columns[:, :k], of_columns[:, k]


def _block_errors(information, width):
    count = len(information) // width
    blocks = (information[m * width : (m + 1) * width, m * width : (m + 1) * width] for m in range(count))
    return np.stack([np.sqrt(np.diag(np.linalg.inv(block))) for block in blocks])
