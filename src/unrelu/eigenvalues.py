"""The few eigenvalues that are wanted of a wide symmetric matrix, without all others.

LAPACK first makes the whole matrix tridiagonal, for one eigenvalue as for all. Lanczos' method (ARPACK) asks for
products with vectors alone, some dozens where what is wanted stands out at the upper end. At the lower end of a
definite matrix nothing does: there products with the inverse, from a Cholesky factor, make the smallest stand out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh

from unrelu.contracts import FloatArray
from unrelu.engines.device import all_eigenvalues, device_at_hand, multiplier

_NARROW = 200  # columns up to which LAPACK is as fast
_MOST_SHARE = 0.05  # of all eigenvalues, for which Lanczos' method is worth its while
_TOLERANCE = 1e-10  # relative


def largest_eigenpairs(x: FloatArray, k: int, scale: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
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
    times = multiplier(x)
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


def smallest_eigenvalue(x: FloatArray) -> float:
    """Of a symmetric matrix.

    >>> round(smallest_eigenvalue(np.array([[2.0, 1.0], [1.0, 2.0]])), 9)
    1.0
    """
    d = len(x)
    if d <= _NARROW:
        return _smallest_by_lapack(x)
    if device_at_hand() is not None:
        return float(all_eigenvalues(x.copy())[0])
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


def _lanczos(
    product: Any, d: int, k: int, which: str, most_restarts: int | None = None
) -> tuple[FloatArray, FloatArray]:
    from scipy.sparse.linalg import LinearOperator, eigsh

    start = np.random.default_rng(0).standard_normal(d)  # the same for the same matrix
    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    options: dict[str, Any] = {"v0": start, "tol": _TOLERANCE, "ncv": min(d, 2 * k + 10), "which": which}
    values, vectors = eigsh(operator, k, maxiter=most_restarts, **options)
    return values, vectors
