"""Distances between a learned model and the true one, as the papers measure them.

Wu, Dimakis and Sanghavi (2019), section 6, with Theorem 1 (15) and Corollary 1 (16); the paper on arbitrary outliers,
section 5, uses the first two of the same measures. A hat marks estimates:

    bias      |b^ - b|_2 / |W|_F                  the left side of (15), relative
    weights   |S^ - S|_F / |W|_F^2,  S = W W'     the right side of (15), relative; |W|_F^2 = trace S
    kl        of the latent Gaussians             the smaller of KL(learned || true) and its reverse
    tv_bound  sqrt(kl / 2), at most 1             bounds the total variation distance of x^ and x (16)

Of a matrix M = C A' only the column space of A can be determined (Mazumdar and Rawat 2018, section 3.2).
:func:`subspace_distance` is the sine of the largest angle between a learned space and the true one, or the norm of all
sines as in (71); :func:`basis_distance` is the distance of their orthonormal bases after the best rotation, as in (72).
Theorem 5 bounds the latter two (:func:`unrelu.guarantees.column_space_bound`).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.model import RectifiedGaussian
from unrelu.validation import check_choice


def parameter_errors(learned: RectifiedGaussian, true: RectifiedGaussian) -> dict[str, float]:
    """The errors "bias", "weights", "kl" and "tv_bound" of ``learned`` against ``true``.

    ``kl`` is the smaller of both directions: Pinsker's inequality holds for each. It is infinite where either
    covariance is singular, as the papers compare full-rank models only.

    ``tv_bound`` rests on two steps. The maximum with the floor does not move distributions apart, so TV(x^, x) <=
    TV(y^, y) for the latent y; and Pinsker's inequality gives TV(y^, y) <= sqrt(kl / 2). The paper's display can be
    read as sqrt(KL) / 2, but that is no bound: for N(h, 1) against N(0, 1) and small h it is 0.35 h where the distance
    is 0.40 h. The first step needs a common floor; where the floors differ the bound is the trivial one, 1.

    >>> true = RectifiedGaussian([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]])
    >>> learned = RectifiedGaussian([0.2, 1.0], [[1.0, 0.1], [0.1, 1.0]])
    >>> {name: round(error, 4) for name, error in parameter_errors(learned, true).items()}
    {'bias': 0.1414, 'weights': 0.0707, 'kl': 0.025, 'tv_bound': 0.1119}
    """
    _require_comparable(learned, true)
    w_squared = float(np.trace(true.covariance))  # |W|_F^2
    if w_squared == 0.0:
        raise InvalidParameterError("The true model is constant (W = 0): errors relative to |W| are undefined.")
    kl = min(_gaussian_kl(learned, true), _gaussian_kl(true, learned))
    same_floor = np.array_equal(learned.floor, true.floor)
    return {
        "bias": float(np.linalg.norm(learned.mean - true.mean)) / w_squared**0.5,
        "weights": float(np.linalg.norm(learned.covariance - true.covariance)) / w_squared,
        "kl": kl,
        "tv_bound": min(1.0, (kl / 2.0) ** 0.5) if same_floor else 1.0,
    }


def subspace_distance(
    first: ArrayLike, second: ArrayLike, norm: Literal["spectral", "frobenius"] = "spectral"
) -> float:
    """The sine of the largest principal angle between the column spaces of two matrices with as many rows.

    The sine is 0 for equal spaces, and 1 where a direction of one space is at right angles to the other. Columns must
    be independent, but neither orthogonal nor of length 1. With k and m <= k columns there are m angles, and the sine
    is the largest distance of a unit vector of the smaller space from the larger space. The order of the two does not
    matter. For spaces of the same dimension the sine is the spectral norm of the difference of the projections, and of
    sin Theta in Mazumdar and Rawat 2018 (70). ``norm="frobenius"`` is |sin Theta|_F, the root of the sum of all squared
    sines, at most sqrt(m): the distance that the paper bounds in (71).

    It is computed as |(I - Q Q') U|, with orthonormal bases U of the smaller space and Q of the larger: small angles
    keep their digits, which a cosine of 1 - 1e-24 has lost.

    >>> round(subspace_distance([[1.0], [1.0]], [[5.0], [0.0]]), 6)  # an angle of 45 degrees
    0.707107
    >>> f"{subspace_distance([[1.0], [0.0]], [[1.0], [1e-12]]):.3e}"
    '1.000e-12'
    >>> line, plane = [[1.0], [1.0], [0.0]], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    >>> f"{subspace_distance(line, plane):.3f}"
    '0.000'
    >>> eye = np.eye(4)
    >>> round(subspace_distance(eye[:, :2], eye[:, 2:], norm="frobenius"), 6)  # two right angles
    1.414214
    """
    check_choice("norm", norm, ("spectral", "frobenius"))
    sines = _sines(first, second)
    return float(sines.max() if norm == "spectral" else np.linalg.norm(sines))


def basis_distance(first: ArrayLike, second: ArrayLike) -> float:
    """min over orthogonal O of |U - U^ O|_F for orthonormal bases U, U^ of the column spaces of two matrices.

    The left side of (45) and (72) in Mazumdar and Rawat 2018, where both matrices have as many columns. With the
    principal angles theta_i it is 2 (sum of sin^2(theta_i / 2))^(1/2): between |sin Theta|_F and sqrt(2) times that.

    >>> round(basis_distance([[1.0], [1.0]], [[5.0], [0.0]]), 6)  # 2 sin(22.5 degrees)
    0.765367
    """
    sines = _sines(first, second)
    if np.shape(first)[1] != np.shape(second)[1]:
        raise InvalidParameterError(
            f"first has {np.shape(first)[1]} columns and second {np.shape(second)[1]}: bases can be rotated into each"
            " other only where both have as many columns. Use subspace_distance."
        )
    # 4 sin^2(theta/2) = 2 (1 - cos) = 2 sin^2 / (1 + cos), which keeps the digits of small angles
    return float(np.sqrt(np.sum(2.0 * sines**2 / (1.0 + np.sqrt(1.0 - sines**2)))))


def _sines(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """The sines of the principal angles, from the largest down."""
    larger, smaller = _basis("first", first), _basis("second", second)
    if len(larger) != len(smaller):
        raise InvalidParameterError(
            f"first has {len(larger)} rows and second {len(smaller)}: both must have as many rows. Transpose one if its"
            " columns are its rows."
        )
    if larger.shape[1] < smaller.shape[1]:
        larger, smaller = smaller, larger
    residual = smaller - larger @ (larger.T @ smaller)
    return np.asarray(np.minimum(np.linalg.svd(residual, compute_uv=False), 1.0))


def _basis(name: str, matrix: ArrayLike) -> FloatArray:
    """An orthonormal basis of the column space, whose dimension is the number of columns."""
    try:
        columns = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError(f"{name} must be a matrix of real numbers, rows of equal length.") from None
    if columns.ndim != 2 or columns.size == 0:
        raise InvalidParameterError(
            f"{name} must be a matrix with at least one row and column, got shape {columns.shape}."
            " Give a single vector as a matrix of one column, v[:, None]."
        )
    if not np.isfinite(columns).all():
        i, j = np.argwhere(~np.isfinite(columns))[0]
        raise InvalidParameterError(f"{name} has {columns[i, j]} in row {i}, column {j}: its entries must be finite.")
    d, k = columns.shape
    columns /= np.where(columns.any(axis=0), np.abs(columns).max(axis=0), 1.0)  # units must not matter
    columns /= np.maximum(np.linalg.norm(columns, axis=0), np.finfo(float).tiny)
    basis, singular, _ = np.linalg.svd(columns, full_matrices=False)
    rank = int(np.sum(singular > max(d, k) * np.finfo(float).eps * singular[0]))
    if rank < k:
        raise InvalidParameterError(
            f"The {k} columns of {name} span a space of {rank} dimensions only. Leave out columns that are combinations"
            " of others, or take the leading left singular vectors."
        )
    return np.asarray(basis, dtype=np.float64)


def _require_comparable(learned: RectifiedGaussian, true: RectifiedGaussian) -> None:
    if learned.n_features != true.n_features:
        raise InvalidParameterError(
            f"The learned model has {learned.n_features} features and the true one {true.n_features}: "
            "take the common ones with marginal()."
        )
    names, true_names = learned.feature_names, true.feature_names
    if names is not None and true_names is not None and names != true_names and set(names) == set(true_names):
        raise InvalidParameterError(
            "The two models name the same features in different orders: compare learned.marginal(true.feature_names)."
        )


def _gaussian_kl(p: RectifiedGaussian, q: RectifiedGaussian) -> float:
    """KL(p || q) = 1/2 [ tr(Sq^-1 Sp) - d - ln det(Sq^-1 Sp) + (bp - bq)' Sq^-1 (bp - bq) ].

    With Sp = Lp Lp', Sq = Lq Lq' (Cholesky) and M = Lq^-1 Lp, lower triangular, the first three terms are
    sum_i (M_ii^2 - 1 - ln M_ii^2) + sum_{i>j} M_ij^2: all of them positive, so that nearly equal models lose no digits.
    """
    p_root, q_root = _cholesky(p), _cholesky(q)
    if p_root is None or q_root is None:
        return float("inf")
    m = scipy.linalg.solve_triangular(q_root, p_root, lower=True)
    shift = scipy.linalg.solve_triangular(q_root, p.mean - q.mean, lower=True)
    excess = np.diagonal(m) ** 2 - 1.0
    below = np.tril(m, -1)
    return 0.5 * float(np.sum(excess - np.log1p(excess)) + np.sum(below**2) + shift @ shift)


def _cholesky(model: RectifiedGaussian) -> FloatArray | None:
    """The covariance's Cholesky factor, or None where it has no inverse in double precision.

    The correlations decide, as columns in different units can make a covariance look singular.
    """
    if (model.std == 0.0).any():
        return None
    try:
        lower: FloatArray = scipy.linalg.cholesky(model.correlation, lower=True)
    except scipy.linalg.LinAlgError:
        return None
    singular = np.diagonal(lower).min() ** 2 <= 10.0 * model.n_features * np.finfo(float).eps
    return None if singular else model.std[:, None] * lower
