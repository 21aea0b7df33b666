"""Censored maximum likelihood, from four numbers per column.

A column x = max(y, floor), y ~ N(b, s^2), seen n times, n+ of them above the floor with mean m (measured from
the floor) and variance v, and n0 = n - n+ at the floor. With t = 1/s and g = (b - floor)/s (Olsen 1978)

    log L = n0 log Phi(-g) + n+ ( log t - ((t m - g)^2 + t^2 v)/2 )

is concave in (t, g). Unlike the truncated fits of Wu et al. 2019 and Bulusu et al. 2022, (3), it uses the zeros, and
needs no assumption on the sign of the mean. Given g the best t is the positive root of (m^2 + v) t^2 - m g t - 1 = 0,
so one dimension remains:

    f(g) = -n0 kappa(g) + n+ (t(g) m - g) = 0,   kappa = phi(g)/Phi(-g),   f decreasing.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri

from unrelu.contracts import Assumptions, BoolArray, FloatArray, RowParameters
from unrelu.errors import InvalidDataError
from unrelu.kernels.pair_solver import LARGEST_A, moments_of_columns
from unrelu.passes.pair_moments import PairMoments
from unrelu.validation import label_columns, warn

_MOST_ROUNDS = 200
_MOST_HALVINGS = 40
_FEW = 5  # values above the floor, of a column that has floored ones
_RARE = 0.01  # share of values above the floor below which all that is learned rests on their tail
_CONSTANT = 8.0 * np.finfo(np.float64).eps  # spread relative to size that rounding alone produces


def hazard(g: FloatArray) -> FloatArray:
    """kappa(g) = phi(g) / Phi(-g), accurate for any g: Phi(-g) = phi(g) sqrt(pi/2) erfcx(g/sqrt(2))."""
    return np.asarray(np.sqrt(2.0 / np.pi) / erfcx(g / np.sqrt(2.0)))


def fit_columns(record: PairMoments, assumptions: Assumptions, names: tuple[str, ...] | None = None) -> RowParameters:
    """Maximum likelihood of each column; if the assumptions say so, under the constraint b >= floor."""
    floor = np.array(assumptions.censored_at)
    record.screening.check(assumptions, names)
    weight, rows = record.column_weight, record.column_rows
    positive, expected, variance = record.positive_moments()
    distance = expected - floor
    floored = np.maximum(weight - positive, 0.0)
    # Weighted sums of the same rows may differ by rounding; that is no floored row.
    floored[floored < 1e-12 * weight] = 0.0
    _refuse_empty(record, assumptions, names, positive)
    refuse_tiny(positive > 0.0, distance, variance, names)
    own = limited_columns(record)
    floored[own] = 0.0
    never = positive == 0.0
    constant = never | (floored == 0.0) & (variance <= (_CONSTANT * expected) ** 2)
    constant &= ~own | never  # limits tell that a column varies
    warn_of_constants(constant, names)
    share = positive / weight
    censored = (floored > 0.0) | own & (share < 1.0)
    if (few := ((share * rows < _FEW - 0.5) | (share <= _RARE)) & censored & ~never).any():
        warn(
            f"Fewer than {_FEW} values above the floor, or {_RARE:.0%} of them, in {label_columns(few, names)}:"
            " mean, standard deviation and correlations are barely determined; look at their standard errors.",
            "few-positives",
        )
    mean, std = np.where(positive > 0.0, expected, assumptions.floor), np.zeros_like(expected)
    covariance = np.zeros((len(expected), 2, 2))

    whole = ~constant & (floored == 0.0) & ~own  # never floored: an ordinary normal sample
    std[whole] = np.sqrt(variance[whole])
    covariance[whole, 0, 0] = variance[whole] / rows[whole]
    covariance[whole, 1, 1] = variance[whole] / (2.0 * rows[whole])

    cut = ~constant & (floored > 0.0)
    size = np.sqrt(distance[cut] ** 2 + variance[cut])
    share, location = share[cut], distance[cut] / size
    g, t = maximize(share, location)
    bound = np.zeros(len(expected), dtype=bool)
    if assumptions.nonnegative_mean:
        depth = assumptions.floor_tolerance / size  # of the floor below the point of censoring
        low = g < -depth * t
        t[low] = inverse_std_at_bound(share[low], location[low], depth[low])
        g[low] = -depth[low] * t[low]
        bound[cut] = low
    mean[cut] = floor[cut] + size * g / t
    mean[bound] = np.array(assumptions.floor)[bound]
    std[cut] = size / t
    per_row = inverse_information(share, location, g, t, bound[cut])
    covariance[cut] = per_row * (size**2 / rows[cut])[:, None, None]
    if own.any():
        from unrelu.fit.limit_likelihood import fit_limited_columns  # most tables do without

        assert record.limits is not None, "columns with limits of their own have some"
        values, at = (positive[own], expected[own], variance[own]), np.flatnonzero(own)
        mean[own], std[own], per_weight = fit_limited_columns(*values, record.limits, at)
        covariance[own] = per_weight * (weight / rows)[own, None, None]
    influence = np.zeros((len(expected), 2, 3))
    influence[~constant & ~own] = row_influence(
        (mean - floor)[~constant & ~own] / std[~constant & ~own], bound[~constant & ~own]
    )
    return RowParameters(mean, std, floor, covariance, influence)


def limited_columns(record: PairMoments) -> BoolArray:
    """Columns whose cells have limits of their own, and no floor."""
    own = np.zeros(record.n_features, dtype=np.bool_)
    if record.limits is not None:
        own[record.limits.column] = True
    return np.asarray(own & (record.floor == -np.inf))


def _refuse_empty(
    record: PairMoments, assumptions: Assumptions, names: tuple[str, ...] | None, positive: FloatArray
) -> None:
    """Raise for columns that cannot be learned."""
    rows = record.column_rows
    if (unseen := rows == 0.0).any():
        raise InvalidDataError(
            f"No value at all in {label_columns(unseen, names)}: every row is missing (NaN) or has weight 0. Drop it."
        )
    if (once := rows < 1.5).any():
        raise InvalidDataError(
            f"Only 1 sample (row), weights considered, has a value in {label_columns(once, names)}: at least two"
            " are needed. Add rows or drop it."
        )
    if (never := positive == 0.0).any() and not assumptions.nonnegative_mean:
        raise InvalidDataError(
            f"Never above its floor in {record.n_rows:,} rows: {label_columns(never, names)}. Its mean and standard"
            " deviation cannot be learned. Drop it or add rows."
        )


def maximize(share: FloatArray, location: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(g, t) for columns scaled so that m^2 + v = 1: ``share`` = n+/n, 0 < share < 1, and ``location`` = m. Newton on f
    with bisection as the safeguard; each column stops where rounding does."""
    g = ndtri(share)
    low, high = np.full_like(g, -np.inf), np.full_like(g, np.inf)
    moving = np.ones(g.shape, dtype=bool)
    for _ in range(_MOST_ROUNDS):
        # The positive root of t^2 - m g t - 1 = 0, without cancellation for negative g.
        half = 0.5 * location * g
        root = np.sqrt(half**2 + 1.0)
        t = np.where(half >= 0.0, half + root, 1.0 / (root - half))
        if not moving.any():
            break
        kappa = hazard(g)
        value = -(1.0 - share) * kappa + share * (t * location - g)
        slope = -(1.0 - share) * kappa * (kappa - g) + share * (location**2 * t / (2.0 * t - location * g) - 1.0)
        low, high = np.where(value > 0.0, g, low), np.where(value > 0.0, high, g)
        step = np.clip(-value / slope, -1.0 - np.abs(g), 1.0 + np.abs(g))
        proposal = g + step
        outside = (proposal <= low) | (proposal >= high)
        proposal = np.where(outside & np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), proposal)
        moved = np.where(moving, proposal, g)
        moving = moving & (np.abs(moved - g) > 4.0 * np.finfo(float).eps * np.maximum(1.0, np.abs(g)))
        g = moved
    return g, t


def inverse_std_at_bound(share: FloatArray, location: FloatArray, depth: FloatArray) -> FloatArray:
    """t = 1/s where the mean is held at the floor, g = -depth t: the likelihood is concave along that line, too. Its
    derivative n0 depth phi(depth t)/Phi(depth t) + n+ (1/t - t ((m + depth)^2 + v)) falls in t; without tolerance
    (depth 0) its root is 1, the scaled second moment being 1."""
    moment = (location + depth) ** 2 + 1.0 - location**2
    low, high = np.full_like(share, 1e-6), np.full_like(share, 1e6)
    for _ in range(200):
        t = np.sqrt(low * high)
        slope = (1.0 - share) * depth * hazard(-depth * t) + share * (1.0 / t - t * moment)
        low, high = np.where(slope > 0.0, t, low), np.where(slope > 0.0, high, t)
    return np.asarray(np.sqrt(low * high))


def inverse_information(
    share: FloatArray, location: FloatArray, g: FloatArray, t: FloatArray, at_bound: BoolArray
) -> FloatArray:
    """Covariance of (b, s) per row, in units of the scaled column: the inverse Hessian of -log L / n. Taken in (b, s),
    since the (t, g) Hessian is ill-conditioned for a column far above its floor. Times s^2, a value above the floor
    with u = (y - b)/s adds (1, 2u, 3u^2 - 1) to the entries (bb, bs, ss); a floored one adds (h, -kappa - g h, 2 g
    kappa + g^2 h) with h = kappa (kappa - g). A mean held at its bound has no error."""
    s = 1.0 / t
    kappa = hazard(g)
    floored = 1.0 - share
    mean_u = location * t - g
    spread = np.maximum(1.0 - location**2, 0.0)
    mean_u2 = mean_u**2 + spread * t**2
    h = kappa * (kappa - g)
    bb = share + floored * h
    bs = 2.0 * share * mean_u - floored * (kappa + g * h)
    ss = share * (3.0 * mean_u2 - 1.0) + floored * (2.0 * g * kappa + g**2 * h)
    information = np.stack([bb, bs, bs, ss], axis=-1).reshape(-1, 2, 2) / (s**2)[:, None, None]
    inverse = np.zeros_like(information)
    inverse[~at_bound] = np.linalg.inv(information[~at_bound])
    inverse[at_bound, 1, 1] = 1.0 / information[at_bound, 1, 1]
    return inverse


def row_influence(a: FloatArray, at_bound: BoolArray) -> FloatArray:
    """d x 2 x 3: how a row's statistics (p, v, v^2) move (mean, std), in units of std; a = (b - floor)/s.

    The score of a row is linear in them: with u = v + c and kappa = phi(a)/Phi(-a),
      d/dmean:  -kappa (1 - p) + u p,     d/dstd:  a kappa (1 - p) + (u^2 - 1) p,
    and the influence is the inverse information times the score, the information being the score's covariance.
    A mean held at its bound does not move.
    """
    a = np.minimum(a, LARGEST_A)
    moments = moments_of_columns(a)
    c = np.maximum(-a, 0.0)
    kappa = hazard(a)
    zero, one = np.zeros_like(a), np.ones_like(a)
    score = np.stack(
        [np.stack([kappa + c, one, zero], -1), np.stack([c**2 - 1.0 - a * kappa, 2.0 * c, one], -1)], axis=1
    )
    second = np.stack([moments[:, p : p + 3] for p in range(3)], axis=1)
    mean = moments[:, :3]
    covariance = second - mean[:, :, None] * mean[:, None, :]
    information = score @ covariance @ score.transpose(0, 2, 1)
    influence = np.asarray(np.linalg.solve(information, score))
    influence[at_bound, 0] = 0.0
    influence[at_bound, 1] = score[at_bound, 1] / information[at_bound, 1, 1, None]
    return influence


def maximize_censored(
    weight: FloatArray, low: FloatArray, low_weight: FloatArray, high: FloatArray, high_weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(g, t, log-likelihood) of columns with any number of limits, in units in which their seen values have mean 0 and
    variance 1 and the total ``weight``; limits that cells are at most, or at least, one row a column.

        log L = n+ ( log t - (t^2 + g^2)/2 ) + sum log Phi(t l - g) + sum log Phi(g - t u),     g = b/s, t = 1/s,

    is concave (Olsen 1978): Newton's steps, halved where they do not rise.
    """

    def derivatives(g: FloatArray, t: FloatArray) -> tuple[FloatArray, ...]:
        level = weight * (np.log(t) - 0.5 * (t * t + g * g))
        dg, dt = -weight * g, weight * (1.0 / t - t)
        gg, gt, tt = -weight, np.zeros_like(weight), -weight * (1.0 + 1.0 / (t * t))
        for limit, w, sign in ((low, low_weight, 1.0), (high, high_weight, -1.0)):
            if limit.shape[1] == 0:
                continue
            z = sign * (t[:, None] * limit - g[:, None])
            kappa = hazard(-z)
            bend = -w * kappa * (z + kappa)
            level = level + np.sum(w * log_ndtr(z), axis=1)
            dg, dt = dg - sign * np.sum(w * kappa, axis=1), dt + sign * np.sum(w * kappa * limit, axis=1)
            gg = gg + bend.sum(axis=1)
            gt = gt - np.sum(bend * limit, axis=1)
            tt = tt + np.sum(bend * limit**2, axis=1)
        return level, dg, dt, gg, gt, tt

    g, t = np.zeros_like(weight), np.ones_like(weight)
    here = derivatives(g, t)
    for _ in range(_MOST_ROUNDS):
        level, dg, dt, gg, gt, tt = here
        determinant = gg * tt - gt * gt
        step_g, step_t = (gt * dt - tt * dg) / determinant, (gt * dg - gg * dt) / determinant
        gain = dg * step_g + dt * step_t
        if (gain <= 1e-12 * np.maximum(weight, 1e-300)).all():
            break
        length = np.minimum(1.0, 0.9 * t / np.maximum(-step_t, 1e-300))
        for _ in range(_MOST_HALVINGS):
            there = derivatives(g + length * step_g, t + length * step_t)
            worse = there[0] < level
            if not worse.any():
                break
            length = np.where(worse, 0.5 * length, length)
        length = np.where(there[0] < level, 0.0, length)
        g, t = g + length * step_g, t + length * step_t
        here = derivatives(g, t)
    return g, t, here[0]


_SMALLEST_SQUARE = 1e-280  # below it squares of the spread underflow


def warn_of_constants(constant: BoolArray, names: tuple[str, ...] | None) -> None:
    """A zero row of W (Wu et al. 2019, footnote 3): always the same value, the mean itself."""
    if constant.any():
        warn(
            f"Constant: {label_columns(constant, names)}. The learned standard deviation is 0 and the correlations"
            " with other columns are set to 0.",
            "constant-column",
        )


def refuse_tiny(seen: BoolArray, distance: FloatArray, variance: FloatArray, names: tuple[str, ...] | None) -> None:
    """Raise for columns so near to the floor that squares underflow: whether they vary is lost to rounding."""
    tiny = seen & (distance**2 + variance < _SMALLEST_SQUARE)
    if tiny.any():
        raise InvalidDataError(
            f"Values too small to square in double precision in {label_columns(tiny, names)}. Multiply such a column by"
            " a constant."
        )
