"""One covariance from pairwise estimates: semidefinite, of the asked rank, as close as the errors allow.

Correlations estimated pair by pair need not fit together. We look for the correlation matrix X (semidefinite, unit
diagonal, rank at most k) with least sum of w_ij (R_ij - X_ij)^2, w_ij = 1/stderr_ij^2, by alternating directions
(ADMM, in the form of Douglas and Rachford; convex, but for a rank constraint): X is semidefinite, Z fits R entry by
entry, and V moves until they agree,

    X = project( V ),     Z = ( w R + 2 X - V ) / ( w + 1 ), unit diagonal,     V <- V + Z - X.

Projection keeps the (k largest) positive eigenvalues. V is then mixed with those before (Anderson's acceleration),
which takes a sixth of the rounds. The last X is rescaled to unit diagonal, which keeps it semidefinite. Under a rank
constraint the problem is not convex: there V is not mixed, and X only a start for a descent on its factor.

Wide matrices begin at V = R - t I, where X has the trace that a unit diagonal has: with equal weights and a diagonal
that comes out even that is the solution. Where few eigenvalues of V are positive (of fewer rows than columns, one less
than rows), rounds follow their vectors instead of finding all (:class:`unrelu.fit.eigenvalues.PositivePart`). A
solution so found counts if V - X has no eigenvalue beyond the tolerance, so that no entry can move further.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assembly, FloatArray, PairCorrelations
from unrelu.fit.eigenvalues import Floats, PositivePart, is_definite, largest_eigenpairs, smallest_eigenvalue
from unrelu.passes.engine import blas_threads_for

_ROUNDING = 1e-10  # an eigenvalue above -this, relative to a unit diagonal, is zero
_TOLERANCE = 0.005  # in typical standard errors: further rounds would move nothing that the data can tell
_FEWEST_ROUNDS, _MOST_ROUNDS = 8, 200
_WORK = 6.4e10  # rounds x d^3: keeps the assembly of thousands of columns within minutes
_FOLLOWED = 0.75  # of a round, that one in which vectors are followed counts; it takes half
_FOUND_ROUND = 3  # in which they are found once more: V has then come most of its way
_SINGLE = 1e-5  # a tolerance that rounds in single precision reach; the last X is in double precision
_NARROW = 200  # columns for which double precision costs nothing
_WORTH_A_DEVICE = 500  # columns
_DEPTH = 5  # steps that are mixed
_RIDGE = 1e-9  # of their squares in all: keeps shares of steps that are nearly alike from growing without bound
_ASTRAY = 2.0  # times the least step so far: mixing did not help
_WEIGHT_RANGE = (1e-2, 1e2)  # around that of a typical pair


def assemble(
    scale: FloatArray, pairs: PairCorrelations, rank: int | None = None, place: Any = None
) -> tuple[FloatArray, Assembly]:
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
    r = np.nan_to_num(_part(pairs.correlation, varying))  # not recovered: 0, with no weight to defend it
    d = len(r)
    covariance = np.zeros_like(pairs.correlation)
    if d == 0:
        return covariance, Assembly(smallest_eigenvalue=1.0)
    x, rounds, converged = r, 0, True
    with blas_threads_for(d):
        smallest = smallest_eigenvalue(r, place)
        if smallest < -_ROUNDING or (rank is not None and rank < d):
            stderr = _part(pairs.stderr, varying)
            x, rounds, converged = nearest_correlation(r, stderr, d if rank is None else min(rank, d), place)
    moved = x - r  # 0 on the diagonal
    shift = _largest(moved), float(np.sqrt(np.vdot(moved, moved) / max(d * (d - 1), 1)))
    np.outer(scale[varying], scale[varying], out=moved)  # a product that is exactly symmetric, as X is
    moved *= x
    covariance[np.ix_(varying, varying)] = moved
    return covariance, Assembly(smallest, *shift, rounds, converged)


def nearest_correlation(
    r: FloatArray, stderr: FloatArray, rank: int, place: Any = None
) -> tuple[FloatArray, int, bool]:
    """(X, rounds, whether it settled): the weighted projection of the module's text."""
    weights, typical = _weights(stderr)
    if rank == len(r) and place is not None and rank >= _WORTH_A_DEVICE:
        from unrelu.fit.assembly_on_device import alternate_on  # only here, for the sake of a fast start

        return alternate_on(place, r, weights, _TOLERANCE * typical)
    if rank == len(r):
        return _alternate(r, weights, typical, rank)
    x, rounds, _ = _alternate(r, weights, typical, rank, place)
    # With a rank constraint ADMM may end anywhere: descend from its result and from plain truncation, keep the better.
    truncated = _factor(r, rank, place)
    candidates = [_descend(start, r, weights, rank) for start in (x, _unit_diagonal(truncated @ truncated.T))]
    return min(candidates, key=lambda candidate: _loss(candidate, r, weights)), rounds, True


def _alternate(
    r: FloatArray, weights: FloatArray, typical: float, rank: int, place: Any = None
) -> tuple[FloatArray, int, bool]:
    tolerance, d = _TOLERANCE * typical, len(r)
    kind = np.float32 if d > _NARROW and rank == d and tolerance > _SINGLE else np.float64
    most = int(np.clip(_WORK / d**3, _FEWEST_ROUNDS, _MOST_ROUNDS))
    target: Floats = r.astype(kind)
    share: Floats = (1.0 / (weights + 1.0)).astype(kind)
    del weights  # of thousands of columns there is no more memory than needed
    wide = rank == d and d > _NARROW
    v: Floats = target.copy() if wide else target
    x: Floats = target
    mixing, part = _Mixing(_DEPTH if rank == d else 0), PositivePart()
    converged, anew, rounds, left = False, False, 0, float(most)
    while True:
        rounds += 1
        found_anew = anew or rounds == _FOUND_ROUND
        factor = part.factor(v, found_anew, rounds == 1) if wide else _factor(v, rank, place)
        left -= _FOLLOWED if part.followed else 1.0
        before, x = x, factor @ factor.T
        step: Floats = 2.0 * x  # to become Z - X
        step -= v
        step -= target
        step *= share
        step += target
        np.fill_diagonal(step, 1.0)
        step -= x
        converged = max(_largest(step), _largest(before - x)) < tolerance
        anew = converged and part.followed and not _reaches(x, v, tolerance)
        converged &= not anew
        if converged or left <= 0.0:
            break
        v = mixing.next(v + step, step)
    exact = factor.astype(np.float64)  # semidefinite in double precision, whatever the factor's
    return _unit_diagonal(exact @ exact.T), rounds, converged


class _Mixing:
    """Anderson's acceleration of V <- V + F: of the last V + F the mixture whose F, were it linear, would be least.

    Rounds by themselves never lengthen the step. Where a mixture did, the shortest step so far is taken up again.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._reached: list[Floats] = []  # V + F of the last rounds, the latest last
        self._steps: list[Floats] = []
        self._products = np.empty((0, 0))  # of each step with each
        self._least = np.inf
        self._best: Floats = np.zeros((0, 0))

    def next(self, reached: Floats, step: Floats) -> Floats:
        if self._depth == 0:
            return reached
        size = float(np.linalg.norm(step))
        if size > _ASTRAY * self._least:
            self._reached, self._steps, self._products = [], [], np.empty((0, 0))
            return self._best
        if size < self._least:
            self._least, self._best = size, reached
        for kept, new in ((self._reached, reached), (self._steps, step)):
            kept.append(new)
            del kept[: -self._depth - 1]
        count = len(self._steps)
        gram = np.empty((count, count))
        gram[:-1, :-1] = self._products[1 - count :, 1 - count :] if count > 1 else 0.0
        gram[-1] = gram[:, -1] = [np.vdot(step, other) for other in self._steps]
        self._products = gram.copy()
        # Shares c of sum 1 with least |sum c_k F_k|^2 = c' G c.
        gram[np.diag_indices(len(gram))] += _RIDGE * np.trace(gram)
        shares = np.linalg.solve(gram, np.ones(len(gram)))
        mixed = np.zeros_like(reached)
        for each, part in zip(shares / shares.sum(), self._reached, strict=True):
            mixed += reached.dtype.type(each) * part
        return mixed


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

    values, vectors = largest_eigenpairs(x, rank)
    start = vectors * np.sqrt(np.maximum(values, 0.0)) + 1e-12
    tight = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(loss_and_gradient, start.ravel(), jac=True, method="L-BFGS-B", options=tight)  # type: ignore[call-overload]
    v, _ = rows(found.x)
    return _unit_diagonal(v @ v.T)


def _loss(x: FloatArray, r: FloatArray, weights: FloatArray) -> float:
    return float(np.sum((weights * (r - x) ** 2)[~np.eye(len(r), dtype=bool)]))


def _factor(x: Floats, rank: int, place: Any = None) -> Floats:
    """F, with F F' the part of the ``rank`` largest positive eigenvalues."""
    if rank == len(x):
        return PositivePart().factor(x)
    values, vectors = largest_eigenpairs(np.asarray(x, dtype=np.float64), rank, place=place)
    positive = values > 0.0
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive]))


def _reaches(x: Floats, v: Floats, tolerance: float) -> bool:
    """Whether X has all of V that is above 0: what it may lack has no eigenvalue, so no entry, beyond the tolerance."""
    lacks_none = x - v
    lacks_none[np.diag_indices(len(x))] += lacks_none.dtype.type(tolerance)
    return is_definite(lacks_none)


def _largest(x: Floats) -> float:
    """The largest absolute value."""
    return float(max(x.max(), -x.min()))


def _unit_diagonal(x: FloatArray) -> FloatArray:
    size = np.sqrt(np.maximum(np.diagonal(x), 1e-300))
    result = x / np.outer(size, size)
    np.fill_diagonal(result, 1.0)
    return np.asarray(result)


def _weights(stderr: FloatArray) -> tuple[FloatArray, float]:
    """Weights relative to a typical pair's, and the typical standard error."""
    known = stderr[stderr > 0.0]
    typical = float(np.median(known, overwrite_input=True)) if known.size else 1.0
    # A constant column (NaN) has nothing to defend, an exact pair (0) as much as is allowed.
    weights = np.maximum(stderr, 1e-6 * typical)
    np.nan_to_num(weights, copy=False, nan=np.inf)
    np.divide(typical, weights, out=weights)
    weights *= weights
    return np.clip(weights, *_WEIGHT_RANGE, out=weights), typical


def _part(matrix: FloatArray, columns: NDArray[np.int64]) -> FloatArray:
    """Rows and columns of a matrix; itself where they are all."""
    return matrix if len(columns) == len(matrix) else np.asarray(matrix[np.ix_(columns, columns)])
