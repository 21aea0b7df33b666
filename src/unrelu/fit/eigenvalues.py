"""The few eigenvalues that are wanted of a wide symmetric matrix, without all others.

LAPACK first makes the whole matrix tridiagonal, for one eigenvalue as for all. Lanczos' method (ARPACK) asks for
products with vectors alone, some dozens where what is wanted stands out at the upper end. At the lower end of a
definite matrix nothing does: there products with the inverse, from a Cholesky factor, make the smallest stand out.

In a sequence of matrices that settles, eigenvectors are nearly those of the matrix before (:class:`PositivePart`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh, solve_triangular

from unrelu.contracts import FloatArray
from unrelu.passes.device import all_eigenvalues, multiplier

Floats: TypeAlias = NDArray[np.floating[Any]]

_NARROW = 200  # columns up to which LAPACK is as fast
_MOST_SHARE = 0.05  # of all eigenvalues, for which Lanczos' method is worth its while
_TOLERANCE = 1e-10  # relative
_FOLLOWED_SHARE = 0.4  # of all eigenvectors, which are followed in half the time of finding them
_SPARE, _FEWEST_SPARE = 0.02, 4  # eigenvectors below 0 that are followed, too: some may come to lie above
_LEAST_GAP = 0.05  # of eigenvalues, relative to a unit diagonal: nearer ones are left as they are mixed
_TURNED_BACK = 2.0  # times the least turn since vectors were found: those kept no longer serve


def largest_eigenpairs(
    x: FloatArray, k: int, scale: FloatArray | None = None, place: Any = None
) -> tuple[FloatArray, FloatArray]:
    """(values, vectors) of the ``k`` largest eigenvalues of D^-1 X D^-1, D = diag(``scale``), in rising order.

    >>> values, vectors = largest_eigenpairs(np.diag([1.0, 3.0, 2.0]), 2)
    >>> values, np.abs(vectors[:, 1]).round(9)
    (array([2., 3.]), array([0., 1., 0.]))
    """
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
    """Of a symmetric d x d matrix that is known by its ``product`` with a vector.

    >>> round(largest_eigenvalue(lambda v: np.array([2.0, 3.0]) * v, 2), 9)
    3.0
    """
    if d <= _NARROW:
        dense = np.column_stack([product(row) for row in np.eye(d)])
        return float(eigh(dense, eigvals_only=True, subset_by_index=[d - 1, d - 1])[0])
    return float(_lanczos(lambda v: product(v.ravel()), d, 1, "LA")[0][0])


def smallest_eigenvalue(x: FloatArray, place: Any = None) -> float:
    """Of a symmetric matrix.

    >>> round(smallest_eigenvalue(np.array([[2.0, 1.0], [1.0, 2.0]])), 9)
    1.0
    """
    d = len(x)
    if d <= _NARROW:
        return _smallest_by_lapack(x)
    if place is not None:
        return float(all_eigenvalues(x.copy(), place)[0])
    from scipy.sparse.linalg import ArpackNoConvergence  # only here, for the sake of a fast start

    try:
        factor = cholesky(x, lower=True, check_finite=False), True
    except LinAlgError:
        try:
            return float(_lanczos(lambda v: x @ v.ravel(), d, 1, "SA", most_restarts=20)[0][0])
        except ArpackNoConvergence:  # hardly below 0, among many others
            return _smallest_by_lapack(x)
    return float(1.0 / _lanczos(lambda v: cho_solve(factor, v.ravel(), check_finite=False), d, 1, "LA")[0][0])


def _smallest_by_lapack(x: FloatArray) -> float:
    return float(eigh(x, eigvals_only=True, subset_by_index=[0, 0])[0])


def is_definite(x: FloatArray) -> bool:
    """Whether a Cholesky factor exists, which is far sooner known than an eigenvalue.

    >>> is_definite(np.eye(2)), is_definite(-np.eye(2))
    (True, False)
    """
    try:
        cholesky(x, lower=True, check_finite=False)
    except LinAlgError:
        return False
    return True


class PositivePart:
    """The positive part of each of a sequence of symmetric matrices V that settles.

    Where few eigenvalues are above 0, only their vectors Q are followed from matrix to matrix, with those below, N and
    their values c, as the first matrix had them. With Q'V Q made diagonal, a, one step of Davidson's (1975) method,

        Q <- Q + N C,     C_ij = (N'V Q - N'Q a)_ij / (a_j - c_i),     made orthonormal,

    has errors of second order, and errors shrink from matrix to matrix as long as N serves.

    >>> part = PositivePart()
    >>> factor = part.factor(np.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> (factor @ factor.T).round(9)
    array([[1., 1.],
           [1., 1.]])
    """

    def __init__(self) -> None:
        self.followed = False  # not found anew, the last time
        self._above: Floats | None = None  # Q
        self._below: Floats = np.empty((0, 0))  # N
        self._below_values: Floats = np.empty(0)  # c
        self._least_turn = np.inf

    def factor(self, v: Floats, anew: bool = False, level: bool = False) -> Floats:
        """F, with F F' the positive part of V. ``anew``: all vectors are found, not followed.

        ``level``: of V - t I instead, t such that it has the trace of a unit diagonal, found on the way; V is shifted.
        """
        if self._above is None or anew or level:
            return self._found(v, level)
        return self._turned(v, self._above)

    def _found(self, v: Floats, level: bool) -> Floats:
        self.followed, self._above, self._least_turn = False, None, np.inf
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

    def _turned(self, v: Floats, q: Floats) -> Floats:
        self.followed = True
        image = v @ q
        values, turn = eigh(q.T @ image, driver="evd", check_finite=False)
        if values[0] > 0.0:  # no spare vector left
            return self._found(v, False)
        q, image = q @ turn, image @ turn
        image -= q * values
        change = self._below.T @ image
        gap = values - self._below_values[:, None]
        change *= gap > _LEAST_GAP
        change /= np.maximum(gap, _LEAST_GAP)
        q += self._below @ change
        root = cholesky(q.T @ q, lower=True, check_finite=False)
        q = np.ascontiguousarray(solve_triangular(root, q.T, lower=True, check_finite=False).T)
        size = float(np.abs(change).max())
        self._above = q if size < _TURNED_BACK * self._least_turn else None
        self._least_turn = min(size, self._least_turn)
        return _root(values, q)


def _root(values: Floats, vectors: Floats) -> Floats:
    positive = values > 0.0
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive]))


def water_level(values: Floats, total: float) -> float:
    """t with sum of max(values - t, 0) = ``total``.

    >>> water_level(np.array([5.0, 3.0, -2.0]), 4.0)
    2.0
    """
    falling = np.sort(values.astype(np.float64))[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    return float(levels[np.flatnonzero(falling > levels)[-1]])


def _lanczos(
    product: Any, d: int, k: int, which: str, most_restarts: int | None = None
) -> tuple[FloatArray, FloatArray]:
    from scipy.sparse.linalg import LinearOperator, eigsh

    start = np.random.default_rng(0).standard_normal(d)  # the same for the same matrix
    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    options: dict[str, Any] = {"v0": start, "tol": _TOLERANCE, "ncv": min(d, 2 * k + 10), "which": which}
    values, vectors = eigsh(operator, k, maxiter=most_restarts, **options)
    return values, vectors
