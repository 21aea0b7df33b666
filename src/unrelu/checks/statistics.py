"""How far a table is from a model: a number for every column and three for every pair.

With u = (y - b)/s in latent units, seen between the limits l and h of its column (-inf, inf where there is none):

    column: the Anderson-Darling statistic of F = (Phi(u) - Phi(l)) / (Phi(h) - Phi(l)) over the n+ values seen, plus
            the square of (observed - expected number at the limit), in standard deviations;
    pair:   above thresholds t_k, the observed less the expected mean of (1{u_i > t_ki} - p_ki)(1{u_j > t_kj} - p_kj),
            for k = 0, 1: the four quadrants' counts, less what their margins explain; and Fisher's z of the
            correlation within the joint upper part (both above t_0), less that of the model's.

Thresholds are the model's quantiles (:data:`LEVELS`) of what is seen of a column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from unrelu.contracts import BoolArray, FloatArray
from unrelu.kernels.pair_model import upper_parts
from unrelu.model import RectifiedGaussian

LEVELS = np.array([[0.5], [0.8]])
_LEAST = 1e-12  # of probabilities whose logarithms are taken
_FEW = 10  # rows of a joint upper part, for a correlation


@dataclass(frozen=True, eq=False)
class Standardized:
    """A table in the units of a model: ``u`` (n x d), NaN where missing; ``seen``: cells off their limits."""

    u: FloatArray
    seen: BoolArray
    low: FloatArray
    high: FloatArray
    correlation: FloatArray

    @classmethod
    def of(cls, values: FloatArray, model: RectifiedGaussian, tolerance: float) -> Standardized:
        """``values`` in the user's units; what is within ``tolerance`` of a limit is at it."""
        latent = model.latent
        below, above = model.floor + tolerance, model.ceiling - tolerance
        ends = [latent.floor, latent.ceiling]
        if tolerance > 0.0:
            known = [np.where(np.isfinite(end), end, 0.0)[None] for end in (below, above)]
            ends = [np.where(np.isfinite(at), model.to_latent(x)[0], at) for x, at in zip(known, ends, strict=True)]
        unit = np.where(latent.row_norms > 0.0, latent.row_norms, 1.0)
        low, high = ((end - latent.bias) / unit for end in ends)
        u = (model.to_latent(values) - latent.bias) / unit
        with np.errstate(invalid="ignore"):
            seen = (values > below) & (values < above)
        return cls(u, seen, low, high, latent.correlation)

    @property
    def share_seen(self) -> FloatArray:
        """What the model expects; from the tail that has digits to lose."""
        return np.asarray(
            np.where(self.low > 0.0, ndtr(-self.low) - ndtr(-self.high), ndtr(self.high) - ndtr(self.low))
        )

    def thresholds(self) -> FloatArray:
        """2 x d."""
        above = ndtr(-self.low) - LEVELS * self.share_seen
        return np.asarray(-ndtri(np.clip(above, _LEAST, 1.0 - 1e-12)))


def column_statistics(table: Standardized) -> FloatArray:
    """The number for every column; NaN where nothing is seen."""
    u = np.sort(np.where(table.seen, table.u, np.inf).T, axis=1)
    n = np.count_nonzero(table.seen, axis=0)
    u = u[:, : n.max(initial=0)]
    rank = np.arange(1, u.shape[1] + 1)
    inside = rank <= n[:, None]
    share = np.maximum(table.share_seen, _LEAST)
    upper = (ndtr(-u) - ndtr(-table.high)[:, None]) / share[:, None]
    logs = np.log(np.maximum(1.0 - upper, _LEAST)) * (2 * rank - 1)
    logs += np.log(np.maximum(upper, _LEAST)) * (2 * n[:, None] + 1 - 2 * rank)
    distance = -n - np.where(inside, logs, 0.0).sum(axis=1) / np.maximum(n, 1)
    observed = np.count_nonzero(~np.isnan(table.u), axis=0)
    spread = observed * share * np.maximum(1.0 - share, _LEAST)
    limited = np.isfinite(table.low) | np.isfinite(table.high)
    off = np.where(limited, (n - observed * share) ** 2 / np.maximum(spread, 1.0), 0.0)
    return np.asarray(np.where(n > 0, distance + off, np.nan))


def pair_statistics(table: Standardized) -> FloatArray:
    """3 x pairs (i < j): the two quadrant residuals and that of the correlation; NaN where nothing can be said."""
    d = table.u.shape[1]
    known = ~np.isnan(table.u)
    t = table.thresholds()
    expected, within = np.zeros((2, d, d)), np.zeros((d, d))
    upper_parts(t, table.correlation, expected, within)
    together = known.T.astype(np.float64) @ known
    parts = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for level, joint in zip(t, expected, strict=True):
            p = ndtr(-level)
            centred = np.where(known, (table.u > level) - p, 0.0)
            parts.append(centred.T @ centred / together - (joint - np.outer(p, p)))
        observed = _within(np.where(known, table.u - t[0], -1.0))
        parts.append(np.arctanh(observed) - np.arctanh(within))
    return np.stack(parts)[:, *np.triu_indices(d, 1)]


def _within(v: FloatArray) -> FloatArray:
    """d x d: the correlation of columns where both are positive; NaN for fewer than :data:`_FEW` such rows."""
    above = (v > 0.0).astype(np.float64)
    v = v * above
    n, total, square = above.T @ above, v.T @ above, (v * v).T @ above
    n = np.where(n >= _FEW, n, np.nan)
    mean = total / n
    variance = np.maximum(square / n - mean**2, 0.0)
    return np.asarray(np.clip((v.T @ v / n - mean * mean.T) / np.sqrt(variance * variance.T), -0.999999, 0.999999))


def quadrants(table: Standardized) -> tuple[FloatArray, FloatArray]:
    """Observed and expected counts of rows, 2 x 2 x 2 x d x d: threshold, first above, second above; NaN diagonals."""
    d = table.u.shape[1]
    t = table.thresholds()
    both, _ = np.zeros((2, d, d)), np.zeros((d, d))
    upper_parts(t, table.correlation, both, _)
    known = ~np.isnan(table.u)
    together = known.T.astype(np.float64) @ known
    observed, expected = np.empty((2, 2, 2, d, d)), np.empty((2, 2, 2, d, d))
    for k, level in enumerate(t):
        above = known & (table.u > level)
        sides = [(known & ~above).astype(np.float64), above.astype(np.float64)]
        p = ndtr(-level)
        for first in (0, 1):
            for second in (0, 1):
                observed[k, first, second] = sides[first].T @ sides[second]
        one, other = p[:, None], p[None, :]
        expected[k, 1, 1], expected[k, 1, 0], expected[k, 0, 1] = both[k], one - both[k], other - both[k]
        expected[k, 0, 0] = 1.0 - one - other + both[k]
    observed[..., np.arange(d), np.arange(d)] = expected[..., np.arange(d), np.arange(d)] = np.nan
    return observed, np.maximum(expected, 0.0) * together
