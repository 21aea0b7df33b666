"""The normalized log-likelihood of (33), Mazumdar and Rawat 2018; (8) of Mazumdar and Rawat 2019."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.papers.likelihood.density import BiasDensity, FrozenDistribution
from unrelu.validation import label_columns


def normalized_log_likelihood(X: ArrayLike, matrix: ArrayLike, bias_density: FrozenDistribution) -> float:
    """(33): log P(X | M) - log P(X | 0) of a table X = ReLU(M + 1 b'), its biases drawn from ``bias_density``.

    A column with s positive cells adds log p( X_(s) - M_(s) ) - log p( X_(s) ), where _(s) is the s-th largest entry of
    the column: for M in the set (29) every positive cell gives the same bias. A column without any adds
    log P(B <= -max M) - log P(B <= 0). Rows are samples here, columns in the paper. -inf where M asks for a bias that
    p does not allow. This is what program (34), :class:`unrelu.papers.Likelihood`, maximises.

    >>> from scipy.stats import norm
    >>> M = [[1.0, -2.0], [0.5, -3.0]]
    >>> X = [[1.5, 0.0], [1.0, 0.0]]  # biases .5, and below 2
    >>> expected = norm.logpdf(0.5) - norm.logpdf(1.0) + norm.logcdf(2.0) - norm.logcdf(0.0)
    >>> round(normalized_log_likelihood(X, M, norm(0, 1)), 9) == round(float(expected), 9)
    True
    """
    values, latent = _matrix("X", X), _matrix("matrix", matrix)
    if values.shape != latent.shape:
        raise InvalidParameterError(f"X is {values.shape} and matrix {latent.shape}: they must be of the same shape.")
    if (values < 0.0).any():
        raise InvalidDataError("X has negative cells, and ReLU(M + 1 b') has none.")
    density = BiasDensity.checked(bias_density)
    count = np.count_nonzero(values > 0.0, axis=0)
    seen, place = count > 0, np.maximum(count - 1, 0)[None, :]
    at = np.take_along_axis(-np.sort(-values, axis=0), place, axis=0)[0]
    below = np.take_along_axis(-np.sort(-latent, axis=0), place, axis=0)[0]  # the largest, where none is positive
    with np.errstate(all="ignore"):
        given = np.where(seen, density.log(at - below), density.distribution.logcdf(-below))
        without = np.where(seen, density.log(at), density.distribution.logcdf(np.zeros_like(at)))
    if (impossible := ~np.isfinite(without)).any():
        raise InvalidParameterError(
            f"bias_density does not allow M = 0 in {label_columns(impossible, None)}, from which (33) is measured: give"
            " a density with a wider support."
        )
    return float(np.sum(given - without))


def _matrix(name: str, given: ArrayLike) -> FloatArray:
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 2 or values.size == 0 or not np.isfinite(values).all():
        raise InvalidParameterError(f"{name} must be a matrix of finite numbers, got shape {values.shape}.")
    return values
