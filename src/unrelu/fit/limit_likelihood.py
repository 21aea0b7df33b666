"""The likelihood of columns and pairs whose cells are censored at limits that differ by cell, from sums of one pass.

A column y ~ N(b, s^2) with n+ values seen and n_k cells known to lie in (l_k, h_k) has, with t = 1/s and g = b/s,

    log L = sum n_k log( Phi(t h_k - g) - Phi(t l_k - g) ) + n+ log t - sum (t y - g)^2 / 2,

which is concave in (t, g): each term is the logarithm of the integral of a density that is log-concave in all of its
arguments (Prekopa 1973). Newton's steps with halving reach its maximum; the inverse of the curvature there is the
covariance of the estimates. One floor a column is the special case of :mod:`unrelu.fit.columns`.

Pairs are solved one by one given their columns (:mod:`unrelu.kernels.limit_pairs`).
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from scipy.special import factorial, log_ndtr

from unrelu.contracts import FloatArray, RowParameters
from unrelu.kernels.limit_pairs import N_HERMITE, solve_limit_pairs
from unrelu.passes.engine import map_in_threads
from unrelu.passes.limit_sums import LimitSums
from unrelu.passes.pair_moments import PairMoments

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


def _edge_terms(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(log P, phi(low)/P, phi(high)/P) of intervals; 0 at an infinite end."""
    log_p = log_between(low, high)
    return (log_p, *(np.exp(np.where(np.isinf(x), -np.inf, -0.5 * x * x - _LOG_SQRT_2PI - log_p)) for x in (low, high)))


def fit_limited_columns(
    seen: FloatArray, mean: FloatArray, variance: FloatArray, limits: LimitSums, at: np.ndarray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(mean, standard deviation, covariance of the two per unit of weight) of the columns ``at``.

    ``seen``, ``mean`` and ``variance``: of the values seen in these columns. Limits are in the table's units.
    """
    unit = np.where(variance > 0.0, np.sqrt(variance), np.maximum(np.abs(mean), 1.0) * 1e-8)
    which = np.full(limits.powers.shape[2], -1)
    which[at] = np.arange(len(at))
    mine = which[limits.column] >= 0
    column, number = which[limits.column[mine]], limits.total[mine]
    with np.errstate(invalid="ignore"):
        low, high = ((end[mine] - mean[column]) / unit[column] for end in (limits.lower, limits.upper))
    # A column whose values are all the same has a spread that its limits alone tell.
    spread = np.where(variance > 0.0, 1.0, 0.0)
    everything = seen + np.bincount(column, number, len(at))

    def level(t: FloatArray, g: FloatArray) -> FloatArray:
        censored = number * log_between(t[column] * low - g[column], t[column] * high - g[column])
        own = seen * (np.log(t) - 0.5 * (g * g + t * t * spread))
        return np.asarray(own + np.bincount(column, censored, len(at)))

    def slopes(t: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(gradient 2 x k, curvature k x 2 x 2, minus the second derivative) in (t, g)."""
        zl, zh = t[column] * low - g[column], t[column] * high - g[column]
        _, at_low, at_high = _edge_terms(zl, zh)
        finite_low, finite_high = (np.where(np.isinf(x), 0.0, x) for x in (low, high))
        zl, zh = (np.where(np.isinf(x), 0.0, x) for x in (zl, zh))
        dg = at_low - at_high
        dt = finite_high * at_high - finite_low * at_low
        bend_g = zl * at_low - zh * at_high - dg * dg
        bend_t = finite_low**2 * zl * at_low - finite_high**2 * zh * at_high - dt * dt
        bend_both = finite_high * zh * at_high - finite_low * zl * at_low - dg * dt
        into = lambda terms: np.bincount(column, number * terms, len(at))  # noqa: E731
        gradient = np.stack([into(dt) + seen * (1.0 / t - t * spread), into(dg) - seen * g])
        curvature = np.empty((len(at), 2, 2))
        curvature[:, 0, 0] = seen * (1.0 / t**2 + spread) - into(bend_t)
        curvature[:, 1, 1] = seen - into(bend_g)
        curvature[:, 0, 1] = curvature[:, 1, 0] = -into(bend_both)
        return gradient, curvature

    t, g = np.ones(len(at)), np.zeros(len(at))
    here = level(t, g)
    for _ in range(_MOST_ROUNDS):
        gradient, curvature = slopes(t, g)
        step = np.linalg.solve(curvature, gradient.T[:, :, None])[:, :, 0].T
        promise = np.sum(step * gradient, axis=0)
        if (promise < _STILL * everything).all():
            break
        length = np.where(promise < _STILL * everything, 0.0, 1.0)
        length = np.where(step[0] < 0.0, np.minimum(length, -0.9 * t / np.minimum(step[0], -1e-300)), length)
        for _ in range(_MOST_HALVINGS):
            there = level(t + length * step[0], g + length * step[1])
            worse = ~(there >= here) & (length > 0.0)
            if not worse.any():
                break
            length = np.where(worse, 0.5 * length, length)
        length = np.where(there >= here, length, 0.0)
        t, g = t + length * step[0], g + length * step[1]
        here = np.where(length > 0.0, there, here)
    _, curvature = slopes(t, g)
    # From (t, g) to (g/t, 1/t), in the columns' units.
    jacobian = np.zeros((len(at), 2, 2))
    jacobian[:, 0, 0], jacobian[:, 0, 1], jacobian[:, 1, 0] = -g / t**2, 1.0 / t, -1.0 / t**2
    jacobian *= unit[:, None, None]
    covariance = jacobian @ np.linalg.inv(curvature) @ jacobian.swapaxes(1, 2)
    return mean + unit * g / t, unit / t, covariance


def score_series(rows: RowParameters, limits: LimitSums, weight: FloatArray) -> FloatArray:
    """d x 2 x N_HERMITE: the scores of (mean, scale), in units of 1/scale, as functions of the latent value.

    In a cell at a limit the score is its mean in the limit's interval; which share of cells has a limit is told by how
    many are censored there.
    """
    d = len(rows.mean)
    series = np.zeros((d, 2, N_HERMITE))
    series[:, 0, 0], series[:, 1, 1] = 1.0, np.sqrt(2.0)  # u, and u^2 - 1
    scale = np.where(rows.scale > 0.0, rows.scale, 1.0)
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
    pairs: tuple[np.ndarray, np.ndarray],
    record: PairMoments,
    rows: RowParameters,
    near: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """(correlations, standard errors) of pairs of columns that vary, of which one at least has limits of its own."""
    limits = record.limits
    assert limits is not None, "the pairs are of columns with limits"
    i, j = (np.ascontiguousarray(side, dtype=np.int64) for side in pairs)
    o, d = record.observed, record.n_features
    centre, scale = rows.mean - record.origin, np.where(rows.scale > 0.0, rows.scale, 1.0)
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
    arrays = (np.stack(sums, axis=1), of_columns, begin, ends, limits.powers, limits.joint)
    given = [np.ascontiguousarray(each) for each in arrays]

    def solve(start: int) -> None:
        some = slice(start, start + _PAIRS_PER_TASK)
        into = np.ascontiguousarray(found[:, some])
        solve_limit_pairs(i[some], j[some], given[0][some], *given[1:], near is None, into)
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
