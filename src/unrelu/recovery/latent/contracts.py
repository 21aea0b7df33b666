"""What recovery of latent vectors is given and gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.notebook import Shown


@dataclass(frozen=True)
class LatentResult:
    """What was recovered from one v.

    ``latent`` is c; ``clean`` is ReLU(A c + b), the signal without noise and outliers; ``outliers`` is e, 0 at inliers
    and NaN where v is missing; ``inliers`` marks entries that agree with c; ``noise_scale`` is the standard deviation
    of w; ``covariance`` that of c's error. ``unambiguous`` is False where another vector, ``rival``, explains v as
    well.

    >>> import unrelu
    >>> A = np.random.default_rng(0).standard_normal((30, 2))
    >>> v = np.maximum(A @ [1.0, -2.0], 0.0)
    >>> v[3] = 50.0
    >>> result = unrelu.recover_latent(A, np.zeros(30), v)
    >>> result.latent.round(6), np.flatnonzero(~result.inliers), result.unambiguous
    (array([ 1., -2.]), array([3]), True)
    """

    latent: FloatArray
    clean: FloatArray
    outliers: FloatArray
    inliers: BoolArray
    noise_scale: float
    covariance: FloatArray
    unambiguous: bool
    rival: FloatArray | None


@dataclass(frozen=True)
class Layer:
    """A layer x = ReLU(A c + b): ``weights`` A (d x k) and ``bias`` b (d)."""

    weights: FloatArray
    bias: FloatArray

    def output(self, latent: FloatArray) -> FloatArray:
        """ReLU(A c + b) of one latent vector, or of rows of them."""
        clean: FloatArray = np.maximum(latent @ self.weights.T + self.bias, 0.0)
        return clean


class LatentMethod(Protocol):
    """A way to recover c from v."""

    def check(self, layer: Layer) -> None:
        """Refuse layers that it cannot invert."""
        ...

    def least_entries(self, layer: Layer) -> int:
        """How many entries above the floor a v must have."""
        ...

    def recover(self, layer: Layer, v: FloatArray, seed: int) -> LatentResult: ...


@dataclass(frozen=True, eq=False)
class LatentRows(Shown):
    """What was recovered from a table, row by row: the arrays of :class:`LatentResult`, stacked.

    A row that could not be recovered is NaN everywhere, and among the ``faults``, pairs of its number and the reason.
    ``rivals`` is NaN where there is none.
    """

    latent: FloatArray
    clean: FloatArray
    outliers: FloatArray
    inliers: BoolArray
    noise_scale: FloatArray
    covariance: FloatArray
    rivals: FloatArray
    faults: tuple[tuple[int, str], ...] = ()

    @classmethod
    def empty(cls, n: int, layer: Layer) -> Self:
        """Nothing recovered yet."""
        d, k = layer.weights.shape
        latent, clean, outliers, noise, covariance, rivals = (
            np.full((n, *shape), np.nan) for shape in [(k,), (d,), (d,), (), (k, k), (k,)]
        )
        return cls(latent, clean, outliers, np.zeros((n, d), dtype=bool), noise, covariance, rivals)

    def keep(self, row: int, result: LatentResult) -> None:
        """Put one row's result in its place."""
        self.latent[row], self.clean[row], self.outliers[row] = result.latent, result.clean, result.outliers
        self.inliers[row], self.noise_scale[row] = result.inliers, result.noise_scale
        self.covariance[row] = result.covariance
        if result.rival is not None:
            self.rivals[row] = result.rival

    @property
    def done(self) -> BoolArray:
        """The rows that were recovered."""
        done: BoolArray = ~np.isnan(self.latent[:, 0])
        return done

    @property
    def ambiguous(self) -> BoolArray:
        """The rows that another latent vector explains as well."""
        ambiguous: BoolArray = ~np.isnan(self.rivals[:, 0])
        return ambiguous

    @property
    def flagged(self) -> BoolArray:
        """The entries that do not agree with their row's latent vector."""
        flagged: BoolArray = ~(self.inliers | np.isnan(self.outliers))
        return flagged

    def results(self) -> list[LatentResult | None]:
        """One result for each row; None where there is none."""
        return [self._result(row) if done else None for row, done in enumerate(self.done.tolist())]

    def _result(self, row: int) -> LatentResult:
        sure = not self.ambiguous[row]
        return LatentResult(
            self.latent[row],
            self.clean[row],
            self.outliers[row],
            self.inliers[row],
            float(self.noise_scale[row]),
            self.covariance[row],
            sure,
            None if sure else self.rivals[row],
        )


@dataclass(frozen=True)
class LatentReport(Shown):
    """How it went, in plain numbers. Shares, and the median ``noise_scale``, are of the rows that were recovered.

    ``ambiguous_rows`` have another latent vector that explains them as well; ``bad_rows`` are pairs of a row that
    could not be recovered and the reason.
    """

    method: str
    prior: str
    n_rows: int
    n_features: int
    n_components: int
    share_outliers: float
    share_missing: float
    noise_scale: float | None
    ambiguous_rows: tuple[int, ...]
    bad_rows: tuple[tuple[int, str], ...]

    @property
    def converged(self) -> bool:
        """Whether every row has one latent vector, and no other."""
        return not (self.ambiguous_rows or self.bad_rows)
