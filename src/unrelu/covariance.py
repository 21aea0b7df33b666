"""One covariance from pairwise estimates: semidefinite, of the asked rank, as close as the errors allow.

Correlations estimated pair by pair need not fit together. We look for the correlation matrix X (semidefinite, unit
diagonal, rank at most k) with least sum of w_ij (R_ij - X_ij)^2, w_ij = 1/stderr_ij^2, by alternating directions
(ADMM; convex, but for a rank constraint): Z fits R entry by entry, X is semidefinite, U makes them agree,

    Z <- ( w R + X + U ) / ( w + 1 ), unit diagonal,     X <- project( Z - U ),     U <- U + X - Z.

Projection keeps the (k largest) positive eigenvalues. The last X is rescaled to unit diagonal, which keeps it
semidefinite. Under a rank constraint the problem is not convex: there X is only a start for a descent on its factor.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from unrelu.contracts import Assembly, FloatArray, PairCorrelations

_ROUNDING = 1e-10  # an eigenvalue above -this, relative to a unit diagonal, is zero
_TOLERANCE = 0.01  # in typical standard errors: further rounds would move nothing that the data can tell
_MOST_ROUNDS = 200
_WORK = 4e10  # rounds x d^3: keeps the assembly of thousands of columns within minutes
_WEIGHT_RANGE = (1e-2, 1e2)  # around that of a typical pair


def assemble(scale: FloatArray, pairs: PairCorrelations, rank: int | None = None) -> tuple[FloatArray, Assembly]:
    """(covariance, how it was assembled). Where R is already semidefinite and no rank is asked, R is kept.

    >>> pairs = PairCorrelations(np.array([[1.0, 0.5], [0.5, 1.0]]), np.full((2, 2), 0.1))
    >>> covariance, assembly = assemble(np.array([1.0, 2.0]), pairs)
    >>> covariance
    array([[1., 1.],
           [1., 4.]])
    >>> assembly.shift_max
    0.0
    """
    varying = np.flatnonzero(scale > 0.0)  # a constant column has no correlations to fit together
    r = np.nan_to_num(pairs.correlation[np.ix_(varying, varying)])  # not recovered: 0, with no weight to defend it
    d = len(r)
    covariance = np.zeros_like(pairs.correlation)
    if d == 0:
        return covariance, Assembly(smallest_eigenvalue=1.0)
    smallest = float(eigh(r, eigvals_only=True, subset_by_index=[0, 0])[0])
    x, rounds, converged = r, 0, True
    if smallest < -_ROUNDING or (rank is not None and rank < d):
        stderr = pairs.stderr[np.ix_(varying, varying)]
        x, rounds, converged = nearest_correlation(r, stderr, d if rank is None else min(rank, d))
    covariance[np.ix_(varying, varying)] = np.outer(scale[varying], scale[varying]) * x
    off = np.abs(x - r)[np.triu_indices(d, 1)] if d > 1 else np.zeros(1)
    shift = float(off.max()), float(np.sqrt(np.mean(off**2)))
    return covariance, Assembly(smallest, *shift, rounds, converged)


def nearest_correlation(r: FloatArray, stderr: FloatArray, rank: int) -> tuple[FloatArray, int, bool]:
    """(X, rounds, whether it settled): the weighted projection of the module's text."""
    weights, typical = _weights(stderr)
    x, rounds, converged = _alternate(r, weights, typical, rank)
    if rank == len(r):
        return x, rounds, converged
    # With a rank constraint ADMM may end anywhere: descend from its result and from plain truncation, keep the better.
    candidates = [_descend(start, r, weights, rank) for start in (x, _unit_diagonal(_semidefinite(r, rank)))]
    return min(candidates, key=lambda candidate: _loss(candidate, r, weights)), rounds, True


def _alternate(r: FloatArray, weights: FloatArray, typical: float, rank: int) -> tuple[FloatArray, int, bool]:
    most = int(np.clip(_WORK / len(r) ** 3, 5, _MOST_ROUNDS))
    x = _semidefinite(r, rank)
    u = np.zeros_like(r)
    for rounds in range(1, most + 1):
        z = (weights * r + x + u) / (weights + 1.0)
        np.fill_diagonal(z, 1.0)
        before, x = x, _semidefinite(z - u, rank)
        u += x - z
        if max(np.max(np.abs(x - z)), np.max(np.abs(x - before))) < _TOLERANCE * typical:
            return _unit_diagonal(x), rounds, True
    return _unit_diagonal(x), most, False


def _descend(x: FloatArray, r: FloatArray, weights: FloatArray, rank: int) -> FloatArray:
    """A local minimum over factors with unit rows, X = V V', by L-BFGS from x."""
    from scipy.optimize import minimize  # only here, for the sake of a fast start

    d = len(r)

    def rows(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        u = theta.reshape(d, rank)
        size = np.linalg.norm(u, axis=1, keepdims=True)
        return u / size, size

    def loss_and_gradient(theta: FloatArray) -> tuple[float, FloatArray]:
        v, size = rows(theta)
        misfit = weights * (v @ v.T - r)
        np.fill_diagonal(misfit, 0.0)
        gradient = 4.0 * misfit @ v
        gradient -= np.sum(gradient * v, axis=1, keepdims=True) * v  # the length of a row does not matter
        return _loss(v @ v.T, r, weights), (gradient / size).ravel()

    values, vectors = eigh(x, subset_by_index=[d - rank, d - 1])
    start = vectors * np.sqrt(np.maximum(values, 0.0)) + 1e-12
    tight = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(loss_and_gradient, start.ravel(), jac=True, method="L-BFGS-B", options=tight)  # type: ignore[call-overload]
    v, _ = rows(found.x)
    return _unit_diagonal(v @ v.T)


def _loss(x: FloatArray, r: FloatArray, weights: FloatArray) -> float:
    return float(np.sum((weights * (r - x) ** 2)[~np.eye(len(r), dtype=bool)]))


def _semidefinite(x: FloatArray, rank: int) -> FloatArray:
    """The part of the ``rank`` largest positive eigenvalues."""
    d = len(x)
    values, vectors = eigh(x, subset_by_index=[d - rank, d - 1])
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(factor @ factor.T)


def _unit_diagonal(x: FloatArray) -> FloatArray:
    size = np.sqrt(np.maximum(np.diagonal(x), 1e-300))
    result = x / np.outer(size, size)
    np.fill_diagonal(result, 1.0)
    return np.asarray(result)


def _weights(stderr: FloatArray) -> tuple[FloatArray, float]:
    """Weights relative to a typical pair's, and the typical standard error."""
    known = stderr[stderr > 0.0]
    typical = float(np.median(known)) if known.size else 1.0
    # A constant column (NaN) has nothing to defend, an exact pair (0) as much as is allowed.
    errors = np.where(np.isnan(stderr), np.inf, np.maximum(stderr, 1e-6 * typical))
    return np.clip((typical / errors) ** 2, *_WEIGHT_RANGE), typical
