"""One covariance from pairwise estimates: semidefinite, of the asked rank, as close as the errors allow.

Correlations estimated pair by pair need not fit together. We look for the correlation matrix X (semidefinite, unit
diagonal, rank at most k) with least sum of w_ij (R_ij - X_ij)^2, w_ij = 1/stderr_ij^2, by alternating directions
(ADMM; convex, but for a rank constraint): Z fits R entry by entry, X is semidefinite, U makes them agree,

    Z <- ( w R + X + U ) / ( w + 1 ), unit diagonal,     X <- project( Z - U ),     U <- U + X - Z.

Projection keeps the (k largest) positive eigenvalues. The last X is rescaled to unit diagonal, which keeps it
semidefinite.
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
    r = np.nan_to_num(pairs.correlation)  # not recovered: taken as 0, with no weight to defend it
    d = len(r)
    smallest = float(eigh(r, eigvals_only=True, subset_by_index=[0, 0])[0])
    if smallest >= -_ROUNDING and (rank is None or rank >= d):
        return _scaled(r, scale), Assembly(smallest_eigenvalue=smallest)
    x, rounds = nearest_correlation(r, pairs.stderr, d if rank is None else rank)
    off = np.abs(x - r)[np.triu_indices(d, 1)]
    assembly = Assembly(smallest, float(off.max()), float(np.sqrt(np.mean(off**2))), rounds)
    return _scaled(x, scale), assembly


def nearest_correlation(r: FloatArray, stderr: FloatArray, rank: int) -> tuple[FloatArray, int]:
    """(X, rounds): the weighted projection of the module's text."""
    weights, typical = _weights(stderr)
    most = int(np.clip(_WORK / len(r) ** 3, 5, _MOST_ROUNDS))
    x = _semidefinite(r, rank)
    u = np.zeros_like(r)
    rounds = 0
    while rounds < most:
        rounds += 1
        z = (weights * r + x + u) / (weights + 1.0)
        np.fill_diagonal(z, 1.0)
        before, x = x, _semidefinite(z - u, rank)
        u += x - z
        if max(np.max(np.abs(x - z)), np.max(np.abs(x - before))) < _TOLERANCE * typical:
            break
    return _unit_diagonal(x), rounds


def _semidefinite(x: FloatArray, rank: int) -> FloatArray:
    """The part of the ``rank`` largest positive eigenvalues."""
    d = len(x)
    values, vectors = eigh(x, subset_by_index=[d - rank, d - 1])
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(factor @ factor.T)


def _unit_diagonal(x: FloatArray) -> FloatArray:
    size = np.sqrt(np.diagonal(x))
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


def _scaled(r: FloatArray, scale: FloatArray) -> FloatArray:
    return np.outer(scale, scale) * r
