"""How far a table is from a model, in numbers, and their p-values.

With u = (y - b)/s in latent units, seen between the limits l and h of its column (-inf, inf where there is none):

    column: the Anderson-Darling statistic of F = (Phi(u) - Phi(l)) / (Phi(h) - Phi(l)) over the n+ values seen, plus
            the square of (observed - expected number at the limit), in standard deviations;
    pair:   above thresholds t_k, the observed less the expected mean of (1{u_i > t_ki} - p_ki)(1{u_j > t_kj} - p_kj),
            for k = 0, 1: the four quadrants' counts, less what their margins explain; and Fisher's z of the
            correlation within the joint upper part (both above t_0), less that of the model's.

Thresholds are the model's quantiles (:data:`LEVELS`) of what is seen of a column.

p-values come from simulated tables. Row 0 of an array of statistics is the table's, the others are of B simulated
tables. If the model holds, all B + 1 come from one distribution (up to the error of the fit, which refitting repeats),
so that the table's rank is uniform: so is that of any number computed from all rows alike, such as the largest of many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from unrelu.contracts import BoolArray, FloatArray
from unrelu.kernels.pair_solver import upper_parts
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
            finite = [np.where(np.isfinite(end), end, 0.0)[None] for end in (below, above)]
            ends = [np.where(np.isfinite(at), model.to_latent(x)[0], at) for x, at in zip(finite, ends, strict=True)]
        unit = np.where(latent.std > 0.0, latent.std, 1.0)
        low, high = ((end - latent.mean) / unit for end in ends)
        u = (model.to_latent(values) - latent.mean) / unit
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
    """3 x pairs (i < j): the two quadrant residuals and that of the correlation; NaN where there are too few rows."""
    d = table.u.shape[1]
    observed_cells = ~np.isnan(table.u)
    t = table.thresholds()
    expected, within = np.zeros((2, d, d)), np.zeros((d, d))
    upper_parts(t, table.correlation, expected, within)
    together = observed_cells.T.astype(np.float64) @ observed_cells
    parts = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for level, joint in zip(t, expected, strict=True):
            p = ndtr(-level)
            centred = np.where(observed_cells, (table.u > level) - p, 0.0)
            parts.append(centred.T @ centred / together - (joint - np.outer(p, p)))
        # The correlation of columns where both are above; NaN for too few such rows.
        v = np.where(observed_cells, table.u - t[0], -1.0)
        above = (v > 0.0).astype(np.float64)
        v = v * above
        n, total, square = above.T @ above, v.T @ above, (v * v).T @ above
        n = np.where(n >= _FEW, n, np.nan)
        mean = total / n
        variance = np.maximum(square / n - mean**2, 0.0)
        r = (v.T @ v / n - mean * mean.T) / np.sqrt(variance * variance.T)
        observed = np.clip(r, -0.999999, 0.999999)
        parts.append(np.arctanh(observed) - np.arctanh(within))
    return np.stack(parts)[:, *np.triu_indices(d, 1)]


def quadrants(table: Standardized) -> tuple[FloatArray, FloatArray]:
    """Observed and expected counts of rows, 2 x 2 x 2 x d x d: threshold, first above, second above; NaN diagonals."""
    d = table.u.shape[1]
    t = table.thresholds()
    both, _ = np.zeros((2, d, d)), np.zeros((d, d))
    upper_parts(t, table.correlation, both, _)
    observed_cells = ~np.isnan(table.u)
    together = observed_cells.T.astype(np.float64) @ observed_cells
    observed, expected = np.empty((2, 2, 2, d, d)), np.empty((2, 2, 2, d, d))
    for k, level in enumerate(t):
        above = observed_cells & (table.u > level)
        sides = [(observed_cells & ~above).astype(np.float64), above.astype(np.float64)]
        p = ndtr(-level)
        for first in (0, 1):
            for second in (0, 1):
                observed[k, first, second] = sides[first].T @ sides[second]
        one, other = p[:, None], p[None, :]
        expected[k, 1, 1], expected[k, 1, 0], expected[k, 0, 1] = both[k], one - both[k], other - both[k]
        expected[k, 0, 0] = 1.0 - one - other + both[k]
    observed[..., np.arange(d), np.arange(d)] = expected[..., np.arange(d), np.arange(d)] = np.nan
    return observed, np.maximum(expected, 0.0) * together


# --- p-values from simulated tables -------------------------------------------------------------------


def p_values_of(statistics: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(p-values one by one, adjusted for there being many, largest statistic of every table in standard deviations).

    From (B + 1) x K statistics of one kind, large where a table does not fit; NaN where there is none.
    """
    observed_cells = ~np.isnan(statistics)
    size = standardized(np.log(np.maximum(statistics, 1e-12)))  # log: their right tails are long
    largest = np.where(observed_cells, size, -np.inf).max(axis=1, initial=-np.inf)
    p_values, adjusted = (
        (np.count_nonzero(others >= own, axis=0) + 1.0) / len(statistics)
        for others, own in (
            (np.where(observed_cells, statistics, -np.inf)[1:], statistics[0]),
            (largest[1:, None], size[0]),
        )
    )
    nothing = ~observed_cells[0]
    p_values[nothing] = adjusted[nothing] = np.nan
    return p_values, adjusted, np.full(len(statistics), np.nan) if nothing.all() else largest


def overall(*largest: FloatArray) -> float:
    """One p-value of several kinds of statistics: of the largest of any, each kind in its own units; those of NaN
    aside."""
    usable = [each for each in largest if not np.isnan(each).any()]
    if not usable:
        return float("nan")
    most = standardized(np.stack(usable, axis=1)).max(axis=1)
    return float(np.mean(most >= most[0]))


def standardized(numbers: FloatArray) -> FloatArray:
    """Every column about its mean, in its standard deviation; NaN stays."""
    observed_cells = ~np.isnan(numbers)
    count = np.maximum(observed_cells.sum(axis=0), 1)
    centred = numbers - np.where(observed_cells, numbers, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.where(observed_cells, centred**2, 0.0).sum(axis=0) / count)
    return np.asarray(centred / np.where(spread > 0.0, spread, 1.0))
