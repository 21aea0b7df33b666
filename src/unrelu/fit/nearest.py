"""One covariance from pairwise estimates: semidefinite, of a given rank, as close as the errors allow.

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
than rows), rounds follow their vectors instead of finding all (:class:`PositivePart`). A solution so found counts if
V - X has no eigenvalue beyond the tolerance, so that no entry can move further. A device finds all eigenvectors sooner
than the host finds some, so that none is followed there, and far more rounds can be afforded.

Of few eigenvalues alone: LAPACK first makes the whole matrix tridiagonal, for one eigenvalue as for all. Lanczos'
method (ARPACK) asks for products with vectors alone, some dozens where what is wanted stands out at the upper end. At
the lower end of a definite matrix nothing does: there products with the inverse make the smallest stand out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh, solve_triangular

from unrelu.contracts import FloatArray, NearestCovariance, PairCorrelations
from unrelu.passes.device import Place, all_eigenvalues, multiplier
from unrelu.passes.engine import blas_threads_for

Floats: TypeAlias = NDArray[np.floating[Any]]

_ROUNDING = 1e-10  # an eigenvalue above -this, relative to a unit diagonal, is zero
_TOLERANCE = 0.005  # in typical standard errors: further rounds would move nothing that the data can tell
_FEWEST_ROUNDS, _MOST_ROUNDS = 8, 200
_WORK = 6.4e10  # rounds x d^3: keeps thousands of columns within minutes
_MOST_ROUNDS_THERE, _WORK_THERE = 60, 1.2e12  # the same on a device
_FOLLOWED = 0.75  # of a round, that one in which vectors are followed counts; it takes half
_FOUND_ROUND = 3  # in which they are found once more: V has then come most of its way
_SINGLE = 1e-5  # a tolerance that rounds in single precision reach; the last X is in double precision
_NARROW = 200  # columns for which double precision costs nothing, and up to which LAPACK is as fast
_WORTH_A_DEVICE = 500  # columns
_DEPTH = 5  # steps that are mixed
_RIDGE = 1e-9  # of their squares in all: keeps shares of steps that are nearly alike from growing without bound
_ASTRAY = 2.0  # times the least step so far: mixing did not help
_WEIGHT_RANGE = (1e-2, 1e2)  # around that of a typical pair

_MOST_SHARE = 0.05  # of all eigenvalues, for which Lanczos' method is worth its while
_LANCZOS_TOLERANCE = 1e-10  # relative
_FOLLOWED_SHARE = 0.4  # of all eigenvectors, which are followed in half the time of finding them
_SPARE, _FEWEST_SPARE = 0.02, 4  # eigenvectors below 0 that are followed, too: some may come to lie above
_LEAST_GAP = 0.05  # of eigenvalues, relative to a unit diagonal: nearer ones are left as they are mixed
_LOST = 2.0  # times the least change since vectors were found: those kept no longer serve


def nearest_covariance(
    std: FloatArray, pairs: PairCorrelations, rank: int | None = None, place: Place | None = None
) -> tuple[FloatArray, NearestCovariance]:
    """(covariance, how far R was moved). Where R is already semidefinite and there is no rank, R is kept."""
    varying = np.flatnonzero(std > 0.0)  # a constant column has no correlations to fit together
    square: Any = np.ix_(varying, varying) if len(varying) < len(std) else np.s_[:]
    r = np.nan_to_num(pairs.correlation[square])  # not recovered: 0, with no weight to defend it
    d = len(r)
    covariance = np.zeros_like(pairs.correlation)
    if d == 0:
        return covariance, NearestCovariance(smallest_eigenvalue=1.0)
    x, rounds, converged = r, 0, True
    with blas_threads_for(d):
        smallest = smallest_eigenvalue(r, place)
        if smallest < -_ROUNDING or (rank is not None and rank < d):
            x, rounds, converged = nearest_correlation(
                r, pairs.stderr[square], d if rank is None else min(rank, d), place
            )
    moved = x - r  # 0 on the diagonal
    shift = _largest(moved), float(np.sqrt(np.vdot(moved, moved) / max(d * (d - 1), 1)))
    np.outer(std[varying], std[varying], out=moved)  # a product that is exactly symmetric, as X is
    moved *= x
    covariance[square] = moved
    return covariance, NearestCovariance(smallest, *shift, rounds, converged)


def nearest_correlation(
    r: FloatArray, stderr: FloatArray, rank: int, place: Place | None = None
) -> tuple[FloatArray, int, bool]:
    """(X, rounds, whether it converged): the weighted projection of the module's text; ``place``: a device to use."""
    weights, typical = _weights(stderr)
    if rank == len(r) and place is not None and rank >= _WORTH_A_DEVICE:
        return alternate_on(place, r, weights, _TOLERANCE * typical)
    if rank == len(r):
        return _alternate(r, weights, typical, rank)
    x, rounds, _ = _alternate(r, weights, typical, rank, place)
    # With a rank constraint ADMM may end anywhere: descend from its result and from plain truncation, keep the better.
    truncated = _factor(r, rank, place)
    candidates = [_descend(start, r, weights, rank) for start in (x, _unit_diagonal(truncated @ truncated.T))]
    return min(candidates, key=lambda candidate: _loss(candidate, r, weights)), rounds, True


def _alternate(
    r: FloatArray, weights: FloatArray, typical: float, rank: int, place: Place | None = None
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
    mixing, part = Mixing() if rank == d else None, PositivePart()
    converged, anew, rounds, left = False, False, 0, float(most)
    while True:
        rounds += 1
        factor = (
            part.factor(v, anew or rounds == _FOUND_ROUND, wide and rounds == 1) if wide else _factor(v, rank, place)
        )
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
        v = v + step if mixing is None else mixing.next(v + step, step)
    exact = factor.astype(np.float64)  # semidefinite in double precision, whatever the factor's
    return _unit_diagonal(exact @ exact.T), rounds, converged


def alternate_on(place: Place, r: FloatArray, weights: FloatArray, tolerance: float) -> tuple[FloatArray, int, bool]:
    """(X, rounds, whether it converged): the same at any rank, on a device, in the Python array API standard."""
    xp = place.xp
    kind = xp.float32 if tolerance > _SINGLE else xp.float64
    target = xp.astype(place.array(r), kind)
    share = xp.astype(place.array(1.0 / (weights + 1.0)), kind)
    unit = xp.eye(len(r), dtype=xp.bool, device=place.device)
    one = xp.ones((), dtype=kind, device=place.device)
    v = x = target
    mixing = Mixing(lambda a, b: float(xp.sum(a * b)))
    most = int(np.clip(_WORK_THERE / len(r) ** 3, _FEWEST_ROUNDS, _MOST_ROUNDS_THERE))
    converged, rounds = False, 0
    while not converged and rounds < most:
        rounds += 1
        values, vectors = xp.linalg.eigh(v)  # values rise
        first = int(xp.sum(xp.astype(values <= 0.0, xp.int64)))
        factor = vectors[:, first:] * xp.sqrt(values[first:])
        before, x = x, factor @ factor.T
        step = xp.where(unit, one, (2.0 * x - v - target) * share + target) - x
        converged = max(float(xp.max(xp.abs(moved))) for moved in (step, before - x)) < tolerance
        if not converged:
            v = mixing.next(v + step, step)
    exact = place.double(factor)
    size = xp.sqrt(xp.maximum(xp.sum(exact * exact, axis=1), xp.asarray(1e-300, dtype=xp.float64, device=place.device)))
    exact = exact / size[:, None]
    found = place.host(exact @ exact.T)
    np.fill_diagonal(found, 1.0)
    return found, rounds, converged


class Mixing:
    """Anderson's acceleration of V <- V + F: of the last V + F the mixture whose F, were it linear, would be least.
    Rounds by themselves never lengthen the step. Where a mixture did, the shortest step so far is taken up again.
    ``dot``: the sum of the products of two matrices' entries."""

    def __init__(self, dot: Callable[[Any, Any], float] = np.vdot) -> None:
        self._dot = dot
        self._reached: list[Any] = []  # V + F of the last rounds, the latest last
        self._steps: list[Any] = []
        self._products = np.empty((0, 0))  # of each step with each
        self._least, self._best = np.inf, None

    def next(self, reached: Any, step: Any) -> Any:
        own = [self._dot(step, other) for other in (*self._steps, step)]
        size = float(own[-1]) ** 0.5
        if size > _ASTRAY * self._least:
            self._reached, self._steps, self._products = [], [], np.empty((0, 0))
            return self._best
        if size < self._least:
            self._least, self._best = size, reached
        for kept, new in ((self._reached, reached), (self._steps, step)):
            kept.append(new)
            del kept[: -_DEPTH - 1]
        count = len(self._steps)
        gram = np.empty((count, count))
        gram[:-1, :-1] = self._products[1 - count :, 1 - count :] if count > 1 else 0.0
        gram[-1] = gram[:, -1] = own[-count:]
        self._products = gram.copy()
        # Shares c of sum 1 with least |sum c_k F_k|^2 = c' G c.
        gram[np.diag_indices(count)] += _RIDGE * np.trace(gram)
        shares = np.linalg.solve(gram, np.ones(count))
        return sum(float(each) * part for each, part in zip(shares / shares.sum(), self._reached, strict=True))


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


def _factor(x: Floats, rank: int, place: Place | None = None) -> Floats:
    """F, with F F' the part of the ``rank`` largest positive eigenvalues."""
    if rank == len(x):
        return PositivePart().factor(x)
    return _root(*largest_eigenpairs(np.asarray(x, dtype=np.float64), rank, place=place))


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
    positive = stderr[stderr > 0.0]
    typical = float(np.median(positive, overwrite_input=True)) if positive.size else 1.0
    # A constant column (NaN) has nothing to defend, an exact pair (0) as much as is allowed.
    weights = np.maximum(stderr, 1e-6 * typical)
    np.nan_to_num(weights, copy=False, nan=np.inf)
    np.divide(typical, weights, out=weights)
    weights *= weights
    return np.clip(weights, *_WEIGHT_RANGE, out=weights), typical


# --- few of all eigenvalues ---------------------------------------------------------------------------


def largest_eigenpairs(
    x: FloatArray, k: int, scale: FloatArray | None = None, place: Place | None = None
) -> tuple[FloatArray, FloatArray]:
    """(values, vectors) of the ``k`` largest eigenvalues of D^-1 X D^-1, D = diag(``scale``), in rising order."""
    d = len(x)
    if d <= _NARROW or k > _MOST_SHARE * d:
        values, vectors = eigh(x if scale is None else x / np.outer(scale, scale), subset_by_index=[d - k, d - 1])
        return values, vectors
    unit = np.ones(d) if scale is None else scale
    times = multiplier(x, place)
    values, vectors = _lanczos(lambda v: times(v.ravel() / unit) / unit, d, k, "LA")
    order = np.argsort(values)
    return values[order], vectors[:, order]


def largest_eigenvalue(product: Any, d: int) -> float:
    """Of a symmetric d x d matrix, given its ``product`` with a vector."""
    if d <= _NARROW:
        dense = np.column_stack([product(row) for row in np.eye(d)])
        return float(eigh(dense, eigvals_only=True, subset_by_index=[d - 1, d - 1])[0])
    return float(_lanczos(lambda v: product(v.ravel()), d, 1, "LA")[0][0])


def smallest_eigenvalue(x: FloatArray, place: Place | None = None) -> float:
    """Of a symmetric matrix."""
    d = len(x)
    if d <= _NARROW:
        return float(eigh(x, eigvals_only=True, subset_by_index=[0, 0])[0])
    if place is not None:
        return float(all_eigenvalues(x.copy(), place)[0])
    from scipy.sparse.linalg import ArpackNoConvergence  # only here, for the sake of a fast start

    try:
        factor = cholesky(x, lower=True, check_finite=False), True
    except LinAlgError:
        try:
            return float(_lanczos(lambda v: x @ v.ravel(), d, 1, "SA", most_restarts=20)[0][0])
        except ArpackNoConvergence:  # hardly below 0, among many others
            return float(eigh(x, eigvals_only=True, subset_by_index=[0, 0])[0])
    return float(1.0 / _lanczos(lambda v: cho_solve(factor, v.ravel(), check_finite=False), d, 1, "LA")[0][0])


def is_definite(x: FloatArray) -> bool:
    """Whether a Cholesky factor exists, which takes far less time than an eigenvalue."""
    try:
        cholesky(x, lower=True, check_finite=False)
    except LinAlgError:
        return False
    return True


class PositivePart:
    """The positive part of each of a sequence of symmetric matrices V that converges.

    Where few eigenvalues are above 0, only their vectors Q are followed from matrix to matrix, with those below, N and
    their values c, as the first matrix had them. With Q'V Q made diagonal, a, one step of Davidson's (1975) method,

        Q <- Q + N C,     C_ij = (N'V Q - N'Q a)_ij / (a_j - c_i),     made orthonormal,

    has errors of second order, and errors shrink from matrix to matrix as long as N serves.
    """

    def __init__(self) -> None:
        self.followed = False  # not found anew, the last time
        self._above: Floats | None = None  # Q
        self._below: Floats = np.empty((0, 0))  # N
        self._below_values: Floats = np.empty(0)  # c
        self._least_change = np.inf

    def factor(self, v: Floats, anew: bool = False, level: bool = False) -> Floats:
        """F, with F F' the positive part of V. ``anew``: all vectors are found, not followed. ``level``: of V - t I
        instead, t such that it has the trace of a unit diagonal, found on the way; V is shifted."""
        if self._above is None or anew or level:
            return self._decompose(v, level)
        return self._follow(v, self._above)

    def _decompose(self, v: Floats, level: bool) -> Floats:
        self.followed, self._above, self._least_change = False, None, np.inf
        values, vectors = eigh(v, driver="evd", check_finite=False)
        if level:
            shift = values.dtype.type(water_level(values, len(v)))
            values -= shift
            v[np.diag_indices(len(v))] -= shift
        positive = int(np.count_nonzero(values > 0.0))
        kept = positive + max(_FEWEST_SPARE, int(_SPARE * len(v)))
        if kept <= _FOLLOWED_SHARE * len(v):
            self._above = np.ascontiguousarray(vectors[:, -kept:])
            self._below, self._below_values = np.ascontiguousarray(vectors[:, :-kept]), values[:-kept]
        return _root(values, vectors)

    def _follow(self, v: Floats, q: Floats) -> Floats:
        self.followed = True
        image = v @ q
        values, rotation = eigh(q.T @ image, driver="evd", check_finite=False)
        if values[0] > 0.0:  # no spare vector left
            return self._decompose(v, False)
        q, image = q @ rotation, image @ rotation
        image -= q * values
        change = self._below.T @ image
        gap = values - self._below_values[:, None]
        change *= gap > _LEAST_GAP
        change /= np.maximum(gap, _LEAST_GAP)
        q += self._below @ change
        root = cholesky(q.T @ q, lower=True, check_finite=False)
        q = np.ascontiguousarray(solve_triangular(root, q.T, lower=True, check_finite=False).T)
        size = float(np.abs(change).max())
        self._above = q if size < _LOST * self._least_change else None
        self._least_change = min(size, self._least_change)
        return _root(values, q)


def _root(values: Floats, vectors: Floats) -> Floats:
    positive = values > 0.0
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive]))


def water_level(values: Floats, total: float) -> float:
    """t with sum of max(values - t, 0) = ``total``."""
    falling = np.sort(values.astype(np.float64))[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    return float(levels[np.flatnonzero(falling > levels)[-1]])


def _lanczos(
    product: Any, d: int, k: int, which: str, most_restarts: int | None = None
) -> tuple[FloatArray, FloatArray]:
    from scipy.sparse.linalg import LinearOperator, eigsh

    start = np.random.default_rng(0).standard_normal(d)  # the same for the same matrix
    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    options: dict[str, Any] = {"v0": start, "tol": _LANCZOS_TOLERANCE, "ncv": min(d, 2 * k + 10), "which": which}
    values, vectors = eigsh(operator, k, maxiter=most_restarts, **options)
    return values, vectors
