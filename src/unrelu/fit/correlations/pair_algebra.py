"""Systems of twelve statistics for many pairs at once: the algebra of :mod:`unrelu.kernels.pair_solver`.

Matrices are lists of rows of arrays, one number of every pair in each; None stands for 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unrelu.fit.correlations.pair_arrays import N_MARGINAL, PairModel, PairMoments12, Row

_SMALLEST_PIVOT = 1e-12  # a statistic explained to this share by the others adds only rounding
_SMALLEST_VARIANCE = 1e-12  # relative: a statistic that hardly varies (never floored) likewise


@dataclass(frozen=True, eq=False)
class Solved:
    """The model at r, V factorized: Cholesky's factor of V in unit diagonal, 1/pivots on its own."""

    moments: PairMoments12
    size: Row
    chol: list[Row]
    half_gradient: Row
    score: Any
    information: Any

    @classmethod
    def at(cls, model: PairModel, mhat: Row, r: Any) -> Solved:
        xp = model.normal.place.xp
        moments = model.at(r)
        size, chol = _factorized(xp, moments.covariance, moments.mean)
        residual = [seen - mean for seen, mean in zip(mhat, moments.mean, strict=True)]
        half_gradient = _forward(chol, size, [None] * N_MARGINAL + moments.gradient)
        half_residual = _forward(chol, size, residual)
        joint = range(N_MARGINAL, len(residual))
        score = sum(half_gradient[k] * half_residual[k] for k in joint)
        information = sum(half_gradient[k] * half_gradient[k] for k in joint)
        return cls(moments, size, chol, half_gradient, score, information)

    def back(self, vector: Row) -> Row:
        """Scaled L^-T vector, so that forward then back gives V^-1."""
        out: Row = [None] * len(vector)
        for k in range(len(vector) - 1, -1, -1):
            total = 0.0 if vector[k] is None else vector[k]
            for i in range(k + 1, len(vector)):
                total = total - self.chol[i][k] * out[i]
            out[k] = total * self.chol[k][k]
        return [each * size for each, size in zip(out, self.size, strict=True)]


def _factorized(xp: Any, v: list[Row], mean: Row) -> tuple[Row, list[Row]]:
    """(1/size, L) of V scaled to unit diagonal; L[k][k] holds 1/pivot, 0 for a statistic left out."""
    size: Row = []
    chol: list[Row] = []
    for k, row in enumerate(v):
        keep = row[k] > _SMALLEST_VARIANCE * (row[k] + mean[k] * mean[k])
        size.append(xp.where(keep, 1.0 / xp.sqrt(xp.where(keep, row[k], xp.ones_like(row[k]))), xp.zeros_like(row[k])))
    for k, row in enumerate(v):
        scale = size[k]
        lower: Row = []
        pivot = xp.astype(scale > 0.0, scale.dtype)
        for j in range(k):
            total = row[j] * scale * size[j]
            for i in range(j):
                total = total - lower[i] * chol[j][i]
            lower.append(total * chol[j][j])
            pivot = pivot - lower[j] * lower[j]
        kept = pivot > _SMALLEST_PIVOT
        lower.append(xp.where(kept, 1.0 / xp.sqrt(xp.where(kept, pivot, xp.ones_like(pivot))), xp.zeros_like(pivot)))
        chol.append(lower)
    return size, chol


def _forward(chol: list[Row], size: Row, vector: Row) -> Row:
    """L^-1 of the scaled vector; entries that are None are 0, as are those that follow from them alone."""
    out: Row = []
    for k, entry in enumerate(vector):
        if entry is None:
            out.append(None)
            continue
        total = entry * size[k]
        for i in range(k):
            total = total if out[i] is None else total - chol[k][i] * out[i]
        out.append(total * chol[k][k])
    return out


def quadratic(v: list[Row], x: Row, y: Row) -> Any:
    """x' V y from the lower triangle of V; entries that are None are 0."""
    total: Any = 0.0
    for k, row in enumerate(v):
        for j in range(k + 1):
            for one, other in ((k, j), (j, k)) if j < k else ((k, k),):
                if x[one] is not None and y[other] is not None:
                    total = total + row[j] * x[one] * y[other]
    return total
