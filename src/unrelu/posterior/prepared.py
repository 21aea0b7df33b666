"""A normal of latent values, prepared for many rows: the columns that vary, and the inverse of their correlations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import eigvalsh
from scipy.linalg.lapack import dpotrf, dpotri

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import SingularCovarianceWarning
from unrelu.passes.engine import available_cores
from unrelu.validation import warn

RIDGE = 1e-8  # on the correlation scale: a singular matrix gets an inverse, a regular one does not notice
IMPOSSIBLE = -1e4  # log density of a cell that differs from a column without variance
_FEWEST_SHARED, _MOST_SHARED = 256, 16_384  # rows worth a thread, and rows worth a copy in C order


@dataclass(frozen=True, eq=False)
class PreparedNormal:
    """y ~ N(bias, diag(scale) correlation diag(scale)); a column of scale 0 is constant."""

    bias: FloatArray
    scale: FloatArray
    correlation: FloatArray

    @property
    def is_singular(self) -> bool:
        """Whether columns determine each other up to rounding; the determinant says quickly that they do not."""
        at = np.flatnonzero(self.varying)
        if len(at) == 0 or self.inverse[1] > np.log(10.0 * RIDGE):
            return False
        return bool(eigvalsh(self.correlation[np.ix_(at, at)], subset_by_index=[0, 0])[0] < 10.0 * RIDGE)

    def warn_if_singular(self) -> None:
        """Densities of a singular model are those of one with a little noise: say so."""
        if self.is_singular:
            warn(
                "The model's covariance has no inverse: rows are scored as if every column had noise of its own, of"
                f" {RIDGE**0.5:g} of its standard deviation, and whatever strays further from the others is flagged."
                " A fit to rows brings an inverse with it; a model made by hand may be given more noise.",
                SingularCovarianceWarning,
            )

    @cached_property
    def varying(self) -> BoolArray:
        return self.scale > 0.0

    @cached_property
    def inverse(self) -> tuple[FloatArray, float]:
        """(Q, log det R) of the columns that vary."""
        at = np.flatnonzero(self.varying)
        if len(at) == 0:
            return np.empty((0, 0)), 0.0
        r = self.correlation[np.ix_(at, at)] + RIDGE * np.eye(len(at))
        root, failed = dpotrf(r, lower=True)
        if failed:  # indefinite by more than the ridge: pairs estimated one by one
            values, vectors = np.linalg.eigh(r)
            values = np.maximum(values, RIDGE)
            return np.ascontiguousarray((vectors / values) @ vectors.T), float(np.log(values).sum())
        lower, _ = dpotri(root, lower=True)
        precision = np.tril(lower) + np.tril(lower, -1).T
        return precision, 2.0 * float(np.log(np.diagonal(root)).sum())

    @cached_property
    def log_scale(self) -> FloatArray:
        """Per column; 0 for a constant, which has a probability and no density."""
        return np.log(np.where(self.varying, self.scale, 1.0))


def row_shares(n: int) -> list[slice]:
    """The rows in parts of equal size, at least two per core where that is worth it.

    >>> row_shares(100)
    [slice(0, 100, None)]
    """
    parts = max(1, min(2 * available_cores(), n // _FEWEST_SHARED), n // _MOST_SHARED)
    edges = np.linspace(0, n, parts + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(edges.tolist())]
