"""The likelihood of columns and pairs whose cells are censored at limits that differ by cell, from sums of one pass.

A column y ~ N(b, s^2) with n+ values seen and n_k cells known to lie in (l_k, h_k) has, with t = 1/s and g = b/s,

    log L = sum n_k log( Phi(t h_k - g) - Phi(t l_k - g) ) + n+ log t - sum (t y - g)^2 / 2,

which is concave in (t, g): each term is the logarithm of the integral of a density that is log-concave in all of its
arguments (Prekopa 1973). Newton's steps with halving reach its maximum; the inverse of the curvature there is the
covariance of the estimates. One floor a column is the special case of :mod:`unrelu.fit.columns`.

Pairs are solved one by one given their columns (:mod:`unrelu.kernels.limit_pairs`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from numpy.typing import NDArray
from scipy.special import factorial, log_ndtr

from unrelu.contracts import FloatArray, RowParameters
from unrelu.kernels.limit_pairs import N_HERMITE, solve_limit_pairs
from unrelu.passes.engine import map_in_threads
from unrelu.passes.limit_sums import LimitSums
from unrelu.passes.pair_moments import PairMoments

Columns = NDArray[np.integer[Any]]  # positions of some columns

_MOST_ROUNDS, _MOST_HALVINGS = 100, 40
_STILL = 1e-12  # gain of a step, of the number of cells
_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_FARTHEST = 8.0
_PAIRS_PER_TASK = 64


def log_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """log(Phi(high) - Phi(low)), with its digits in both tails.

    >>> np.exp(log_between(np.array([-np.inf, -1.0]), np.array([0.0, 1.0]))).round(4)
    array([0.5   , 0.6827])
    """
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    top = log_ndtr(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(top + np.log1p(-np.exp(np.minimum(log_ndtr(a) - top, -1e-300))))


def fit_limited_columns(
    seen: FloatArray, mean: FloatArray, variance: FloatArray, limits: LimitSums, at: Columns
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(mean, standard deviation, covariance of the two per unit of weight) of the columns ``at``.

    ``seen``, ``mean`` and ``variance``: of the values seen in these columns. Limits are in the table's units.
    """
    censored = _Censored(seen, mean, variance, limits, at)
    t, g = np.ones(len(at)), np.zeros(len(at))
    here, everything = censored.level(t, g), seen + censored.total
    for _ in range(_MOST_ROUNDS):
        gradient, curvature = censored.slopes(t, g)
        step = np.linalg.solve(curvature, gradient.T[:, :, None])[:, :, 0].T
        still = np.sum(step * gradient, axis=0) < _STILL * everything
        if still.all():
            break
        length = np.where(still, 0.0, 1.0)  # of the step; t stays above 0
        length = np.where(step[0] < 0.0, np.minimum(length, -0.9 * t / np.minimum(step[0], -1e-300)), length)
        for _ in range(_MOST_HALVINGS):
            there = censored.level(t + length * step[0], g + length * step[1])
            worse = ~(there >= here) & (length > 0.0)
            if not worse.any():
                break
            length = np.where(worse, 0.5 * length, length)
        length = np.where(there >= here, length, 0.0)
        t, g = t + length * step[0], g + length * step[1]
        here = np.where(length > 0.0, there, here)
    _, curvature = censored.slopes(t, g)
    # From (t, g) to (g/t, 1/t), in the columns' units.
    jacobian = np.zeros((len(at), 2, 2))
    jacobian[:, 0, 0], jacobian[:, 0, 1], jacobian[:, 1, 0] = -g / t**2, 1.0 / t, -1.0 / t**2
    jacobian *= censored.unit[:, None, None]
    covariance = jacobian @ np.linalg.inv(curvature) @ jacobian.swapaxes(1, 2)
    return mean + censored.unit * g / t, censored.unit / t, covariance


class _Censored:
    """The log likelihood of some columns, each in (t, g), where the values seen have mean 0."""

    def __init__(
        self, seen: FloatArray, mean: FloatArray, variance: FloatArray, limits: LimitSums, at: Columns
    ) -> None:
        which = np.full(limits.powers.shape[2], -1)
        which[at] = np.arange(len(at))
        mine = which[limits.column] >= 0
        self._column, self._number, self._seen = which[limits.column[mine]], limits.total[mine], seen
        # In units that reach to the limits: values may lie close together far above them, or be all the same.
        ends = np.stack([limits.lower[mine], limits.upper[mine]]) - mean[self._column]
        far = np.where(np.isfinite(ends), ends, 0.0)
        reach = self._by_column((far**2).max(axis=0)) / (seen + self._by_column(np.ones(len(self._column))))
        self.unit = np.sqrt(np.maximum(variance + reach, 1e-300))
        self._spread = variance / self.unit**2
        self._low, self._high = ends / self.unit[self._column]
        self.total = self._by_column(np.ones(len(self._column)))

    def _by_column(self, terms: FloatArray) -> FloatArray:
        """Sums of what the limits of a column say, by how many cells are at them."""
        return np.asarray(np.bincount(self._column, self._number * terms, len(self._seen)), dtype=np.float64)

    def _ends(self, t: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray]:
        t, g = t[self._column], g[self._column]
        return t * self._low - g, t * self._high - g

    def level(self, t: FloatArray, g: FloatArray) -> FloatArray:
        own = self._seen * (np.log(t) - 0.5 * (g * g + t * t * self._spread))
        return np.asarray(own + self._by_column(log_between(*self._ends(t, g))))

    def slopes(self, t: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(gradient, 2 x k; minus the second derivative, k x 2 x 2)."""
        zl, zh = self._ends(t, g)
        log_p = log_between(zl, zh)
        at_low, at_high = (np.where(np.isinf(z), 0.0, np.exp(-0.5 * z * z - _LOG_SQRT_2PI - log_p)) for z in (zl, zh))
        low, high, zl, zh = (np.where(np.isinf(each), 0.0, each) for each in (self._low, self._high, zl, zh))
        dg, dt = at_low - at_high, high * at_high - low * at_low
        gradient = np.stack(
            [
                self._by_column(dt) + self._seen * (1.0 / t - t * self._spread),
                self._by_column(dg) - self._seen * g,
            ]
        )
        curvature = np.empty((len(t), 2, 2))
        bend = low**2 * zl * at_low - high**2 * zh * at_high - dt * dt
        curvature[:, 0, 0] = self._seen * (1.0 / t**2 + self._spread) - self._by_column(bend)
        curvature[:, 1, 1] = self._seen - self._by_column(zl * at_low - zh * at_high - dg * dg)
        both = high * zh * at_high - low * zl * at_low - dg * dt
        curvature[:, 0, 1] = curvature[:, 1, 0] = -self._by_column(both)
        return gradient, curvature


def score_series(rows: RowParameters, limits: LimitSums, weight: FloatArray) -> FloatArray:
    """d x 2 x N_HERMITE: the scores of (mean, scale), in units of 1/scale, as functions of the latent value.

    In a cell at a limit the score is its mean in the limit's interval; which share of cells has a limit is told by how
    many are censored there.
    """
    d = len(rows.mean)
    series = np.zeros((d, 2, N_HERMITE))
    series[:, 0, 0], series[:, 1, 1] = 1.0, np.sqrt(2.0)  # u, and u^2 - 1
    scale = np.where(rows.std > 0.0, rows.std, 1.0)
    root = np.sqrt(factorial(np.arange(1, N_HERMITE + 1)))
    with np.errstate(invalid="ignore"):
        ends = [(end - rows.mean[limits.column]) / scale[limits.column] for end in (limits.lower, limits.upper)]
    low, high = (np.clip(end, -_FARTHEST, _FARTHEST) for end in ends)
    share = limits.total / np.maximum(weight[limits.column], 1e-300) / np.exp(log_between(*ends))
    for j, a, b, part in zip(limits.column, low, high, np.clip(share, 0.0, 1.0), strict=True):
        if not b > a:
            continue
        u = 0.5 * (a + b) + 0.5 * (b - a) * _NODES
        mass = 0.5 * (b - a) * _WEIGHTS * np.exp(-0.5 * u * u - _LOG_SQRT_2PI)
        scores = np.stack([u, u * u - 1.0])
        mean = (scores @ mass) / max(mass.sum(), 1e-300)
        polynomials = hermevander(u, N_HERMITE)[:, 1:] / root
        series[j] -= part * ((scores - mean[:, None]) * mass) @ polynomials
    return series


def solve_limited_pairs(
    pairs: tuple[Columns, Columns],
    record: PairMoments,
    rows: RowParameters,
    near: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """(correlations, standard errors) of pairs of columns that vary, of which one at least has limits of its own."""
    limits = record.limits
    assert limits is not None, "the pairs are of columns with limits"
    i, j = (np.ascontiguousarray(side, dtype=np.int64) for side in pairs)
    o, d = record.observed, record.n_features
    centre, scale = rows.mean - record.origin, np.where(rows.std > 0.0, rows.std, 1.0)
    begin = np.searchsorted(limits.column, np.arange(d + 1))
    ends = np.stack([limits.lower, limits.upper], axis=1) - record.origin[limits.column][:, None]
    both = record.count[i, j]
    if o is None:
        seen_by, factor = np.full(len(i), record.weight), np.full(len(i), record.squared_weight / record.weight)
    else:
        seen_by = o.count[i, j]
        factor = np.divide(o.squared_weight[i, j], seen_by, out=np.ones(len(i)), where=seen_by > 0.0)
    sums = (
        both, record.masked_sum[i, j], record.masked_sum[j, i], record.masked_square[i, j], record.masked_square[j, i],
        record.cross[i, j], seen_by, factor,
    )  # fmt: skip
    series = score_series(rows, limits, record.column_weight)
    covariance = rows.mean_std_covariance
    of_columns = np.column_stack(
        [centre, scale, covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1], series.reshape(d, -1)]
    )
    found = np.zeros((2, len(i)))
    found[0] = _starts(both, sums[1:6]) if near is None else np.nan_to_num(near[i, j])
    of_pairs, of_limits = np.stack(sums, axis=1), (begin, np.ascontiguousarray(ends), limits.powers, limits.joint)

    def solve(start: int) -> None:
        some = slice(start, start + _PAIRS_PER_TASK)
        into = np.ascontiguousarray(found[:, some])
        solve_limit_pairs(i[some], j[some], of_pairs[some], of_columns, *of_limits, near is None, into)
        found[:, some] = into

    map_in_threads(solve, range(0, len(i), _PAIRS_PER_TASK))
    return found[0], found[1] if near is None else np.full(len(i), np.nan)


def _starts(n: FloatArray, sums: tuple[FloatArray, ...]) -> FloatArray:
    """The correlation of the rows that see both."""
    safe = np.maximum(n, 1.0)
    x, y, xx, yy, xy = (each / safe for each in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = (xy - x * y) / np.sqrt((xx - x * x) * (yy - y * y))
    return np.where(n > 3.0, np.clip(np.nan_to_num(r, posinf=0.0, neginf=0.0), -0.9, 0.9), 0.0)
