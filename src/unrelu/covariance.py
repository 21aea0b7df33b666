"""One covariance from pairwise estimates: semidefinite, of the asked rank, as close as the errors allow.

Correlations estimated pair by pair need not fit together. We look for the correlation matrix X (semidefinite, unit
diagonal, rank at most k) with least sum of ((R_ij - X_ij)/stderr_ij)^2, by majorization: with weights
w_ij = (smallest stderr / stderr_ij)^2 <= 1, the step

    X <- project( X + w * (R - X) )

never increases the objective when the projection is exact. Projection: keep the (k largest) positive
eigenvalues, then rescale to unit diagonal, which keeps the matrix semidefinite.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from unrelu.contracts import Assembly, FloatArray, PairCorrelations

_ROUNDING = 1e-10  # an eigenvalue above -this, relative to a unit diagonal, is zero
_TOLERANCE = 0.01  # in typical standard errors: further rounds would move nothing that the data can tell
_MOST_ROUNDS = 200
_WORK = 4e10  # rounds x d^3: keeps the assembly of thousands of columns within minutes
_LARGEST_WEIGHT_RATIO = 100.0


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
    r = pairs.correlation
    d = len(r)
    smallest = float(eigh(r, eigvals_only=True, subset_by_index=[0, 0])[0])
    if smallest >= -_ROUNDING and (rank is None or rank >= d):
        return _scaled(r, scale), Assembly(smallest_eigenvalue=smallest)
    x, rounds = nearest_correlation(r, pairs.stderr, d if rank is None else rank)
    off = np.abs(x - r)[np.triu_indices(d, 1)]
    assembly = Assembly(smallest, float(off.max()), float(np.sqrt(np.mean(off**2))), rounds)
    return _scaled(x, scale), assembly


def nearest_correlation(r: FloatArray, stderr: FloatArray, rank: int) -> tuple[FloatArray, int]:
    """(X, rounds): the weighted projection of the module's text, with Nesterov's acceleration and restarts."""
    weights, typical = _weights(stderr)
    most = int(np.clip(_WORK / len(r) ** 3, 5, _MOST_ROUNDS))
    best = current = project(r, rank)
    best_loss = _loss(best, r, weights)
    ahead, momentum = current, 1.0
    rounds = 1
    for rounds in range(1, most + 1):
        following = project(ahead + weights * (r - ahead), rank)
        loss = _loss(following, r, weights)
        moved = float(np.max(np.abs(following - current)))
        if loss < best_loss:
            best, best_loss = following, loss
            larger = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            ahead = following + (momentum - 1.0) / larger * (following - current)
            momentum = larger
        elif momentum == 1.0:
            break  # a plain step from the best point did not help: rounding, or the nonconvex rank constraint
        else:
            following = ahead = best
            momentum = 1.0
        current = following
        if moved < _TOLERANCE * typical:
            break
    return best, rounds


def project(x: FloatArray, rank: int) -> FloatArray:
    """The part of the ``rank`` largest positive eigenvalues, rescaled to unit diagonal."""
    d = len(x)
    # With full rank only the sign matters, so the smaller invariant subspace could do; eigh gives all at one price.
    values, vectors = eigh(x, subset_by_index=[d - rank, d - 1])
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    norms = np.linalg.norm(factor, axis=1)
    lost = norms < 1e-12  # orthogonal to everything kept: any unit vector of the span serves
    factor[lost, -1] = norms[lost] = 1.0
    factor /= norms[:, None]
    result = factor @ factor.T
    np.fill_diagonal(result, 1.0)
    return result


def _weights(stderr: FloatArray) -> tuple[FloatArray, float]:
    """Weights in (0, 1] and the typical standard error."""
    off = ~np.eye(len(stderr), dtype=bool)
    known = stderr[off & (stderr > 0.0)]
    typical = float(np.median(known)) if known.size else 1.0
    least = typical / np.sqrt(_LARGEST_WEIGHT_RATIO)
    # A constant column has no correlations to defend (NaN); an exact pair weighs as much as the best other.
    safe = np.maximum(np.where(np.isnan(stderr), np.inf, stderr), least)
    weights = np.where(off, (safe[off].min() / safe) ** 2 if known.size else 1.0, 1.0)
    return np.asarray(weights), typical


def _loss(x: FloatArray, r: FloatArray, weights: FloatArray) -> float:
    return float(np.sum(weights * (r - x) ** 2))


def _scaled(r: FloatArray, scale: FloatArray) -> FloatArray:
    return np.asarray(scale[:, None] * r * scale[None, :])
