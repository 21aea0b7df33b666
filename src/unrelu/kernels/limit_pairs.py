"""The correlation of a pair of columns whose cells are censored at limits of their own: the likelihood of the pair.

In standard units u, v of the two columns, with correlation r and q^2 = 1 - r^2, rows are of four kinds, and each has
its derivative of log likelihood in r:

    both seen                 r/q^2 + (u v (1 + r^2) - r (u^2 + v^2)) / q^4
    u seen, v in (l, h)       (phi(z_h) (r h - u) - phi(z_l) (r l - u)) / (q^3 P)
    u in (l, h), v seen       likewise
    both censored             (phi2 at the rectangle's corners, signed) / (its probability)         (Plackett)

with z_h = (h - r u)/q, z_l = (l - r u)/q and P = Phi(z_h) - Phi(z_l).

The first and the last need sums and counts alone. The second is a function of u that is summed over rows: in its place
stands its projection on polynomials of u, in the least squares of the density that the model gives u in such rows,

    f(u) ~ phi(u) P(u) S(u),     S(u): the share of rows in which u would have been seen.

What a projection leaves out has the mean 0 under that density, so that the equation is right on average whatever the
degree, and the power sums of the rows tell it. S needs the share of rows whose limits in both columns are a
given two; the rows in which both are censored tell that: their number is the share times the rectangle's probability.

Standard errors: the pair's score is not correlated with the scores of the columns by themselves (its mean given one of
them is 0), so that with A the curvature and g the derivative of the score in the four marginal parameters, of
covariance V,

    var(r) = 1/A + g' V g / A^2.

V between the columns is a sum over Hermite polynomials (Mehler): with f_p the coefficients of a column's scores as a
function of its latent value, their covariance is the sum of r^p f_p f_p'.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.kernels.compiling import helper, kernel
from unrelu.kernels.limit_rows import N_POWERS
from unrelu.kernels.normal import bivariate_density, density, distribution, upper_orthant

Array = NDArray[Any]

N_HERMITE = 12
LARGEST_Z = 7.0  # atanh of the largest correlation considered, 1 - 1.7e-6
_FARTHEST = 7.5  # standard deviations: beyond it there is no probability worth a node
_NOWHERE = 40.0  # standard deviations: nothing is beyond it
_LEAST = 1e-290  # a probability
_SHARE = 1e-6  # of rows, below which a piece of the line counts as never seen
_MOST_ROUNDS = 60
_TOLERANCE = 1e-9  # on atanh(r)
_DIFFERENCE = 1e-4
_RIDGE = 1e-10
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


@helper
def _between(low: float, high: float) -> float:
    """P(low < x < high) of a standard normal, with its digits in both tails."""
    if low > 0.0:
        low, high = -high, -low
    return distribution(high) - distribution(low)


@helper
def _rectangle(l1: float, h1: float, l2: float, h2: float, r: float) -> float:
    """P(l1 < u < h1, l2 < v < h2)."""
    h1, h2 = min(h1, _NOWHERE), min(h2, _NOWHERE)
    p = upper_orthant(-h1, -h2, r)  # P(u < h1, v < h2), which is so for -u and -v
    if l1 > -np.inf:
        p -= upper_orthant(-l1, -h2, r)
    if l2 > -np.inf:
        p -= upper_orthant(-h1, -l2, r)
        if l1 > -np.inf:
            p += upper_orthant(-l1, -l2, r)
    return max(p, 0.0)


@helper
def _corners(l1: float, h1: float, l2: float, h2: float, r: float) -> float:
    """The derivative of that probability in r."""
    total = 0.0
    for s1 in range(2):
        a = h1 if s1 == 0 else l1
        if math.isinf(a):
            continue
        for s2 in range(2):
            b = h2 if s2 == 0 else l2
            if not math.isinf(b):
                total += bivariate_density(a, b, r) * (1.0 if s1 == s2 else -1.0)
    return total


@helper
def shifted_powers(sums: Array, centre: float, scale: float, out: Array) -> None:
    """Power sums of (t - centre)/scale, from those of t: the binomial theorem, one factor at a time."""
    for p in range(N_POWERS):
        out[p] = sums[p]
    for first in range(1, N_POWERS):
        for p in range(N_POWERS - 1, first - 1, -1):
            out[p] -= centre * out[p - 1]
    unit = 1.0
    for p in range(N_POWERS):
        out[p] /= unit
        unit *= scale


@helper
def _edges(low: float, high: float, r: float, ends: Array, room: Array) -> int:
    """Where the density of u bends, in order: limits of u, and where the limits of v pass. Their number."""
    q = math.sqrt((1.0 - r) * (1.0 + r))
    room[0], room[1] = -_FARTHEST, _FARTHEST
    cuts = 2
    for k in range(len(ends)):
        for side in range(2):
            if abs(ends[k, side]) < _FARTHEST:
                room[cuts] = ends[k, side]
                cuts += 1
    if abs(r) > 0.1:
        for side in range(2):
            end = low if side == 0 else high
            if math.isinf(end):
                continue
            for step in range(-1, 2):
                at = (end + 3.0 * step * q) / r
                if abs(at) < _FARTHEST:
                    room[cuts] = at
                    cuts += 1
    room[:cuts] = np.sort(room[:cuts])
    return cuts


@helper
def _add_nodes(
    edges: Array, low: float, high: float, r: float, ends: Array, shares: Array, place: tuple[float, float],
    gram: Array, with_score: Array,
) -> None:  # fmt: skip
    """Add the integrals of x^k and of x^k score under the density of u, x = (u - centre)/spread, for ``place``."""
    q2 = (1.0 - r) * (1.0 + r)
    q = math.sqrt(q2)
    for piece in range(len(edges) - 1):
        half, middle = 0.5 * (edges[piece + 1] - edges[piece]), 0.5 * (edges[piece + 1] + edges[piece])
        seen = 1.0
        for k in range(len(ends)):
            if ends[k, 0] < middle < ends[k, 1]:
                seen -= shares[k]
        if seen < _SHARE or half <= 0.0:
            continue
        for node in range(len(_NODES)):
            u = middle + half * _NODES[node]
            zh, zl = (high - r * u) / q, (low - r * u) / q
            p = _between(zl, zh)
            if p < _LEAST:
                continue
            score = 0.0
            if not math.isinf(high):
                score += density(zh) * (r * high - u)
            if not math.isinf(low):
                score -= density(zl) * (r * low - u)
            score /= q2 * q * p
            x = (u - place[0]) / place[1]
            power = _WEIGHTS[node] * half * density(u) * p * seen
            for k in range(2 * N_POWERS - 1):
                gram[k] += power
                if k < N_POWERS:
                    with_score[k] += power * score
                power *= x


@helper
def _projected(low: float, high: float, r: float, moments: Array, ends: Array, shares: Array, room: Array) -> float:
    """The sum over rows of the score of ``v in (low, high)`` given u, by the power sums ``moments`` of u.

    ``ends``, ``shares``: intervals in which u is not seen, and in which share of such rows.
    """
    edges = room[: _edges(low, high, r, ends, room)]
    gram, with_score, own = np.zeros(2 * N_POWERS - 1), np.zeros(N_POWERS), np.empty(N_POWERS)
    _add_nodes(edges, low, high, r, ends, shares, (0.0, 1.0), gram, with_score)
    if gram[0] <= _LEAST:
        return 0.0
    centre = gram[1] / gram[0]
    spread = math.sqrt(max(gram[2] / gram[0] - centre * centre, 1e-12))
    gram[:], with_score[:] = 0.0, 0.0
    _add_nodes(edges, low, high, r, ends, shares, (centre, spread), gram, with_score)
    shifted_powers(moments, centre, spread, own)
    # G c = H by Cholesky, G the matrix of the integrals of x^(i + j); the answer is c' own.
    root, half_score, half_own = np.zeros((N_POWERS, N_POWERS)), np.empty(N_POWERS), np.empty(N_POWERS)
    total = 0.0
    for i in range(N_POWERS):
        for j in range(i + 1):
            value = gram[i + j] / gram[0] + (_RIDGE if i == j else 0.0)
            for k in range(j):
                value -= root[i, k] * root[j, k]
            root[i, j] = math.sqrt(max(value, _RIDGE)) if i == j else value / root[j, j]
        score, sums = with_score[i] / gram[0], own[i]
        for k in range(i):
            score -= root[i, k] * half_score[k]
            sums -= root[i, k] * half_own[k]
        half_score[i], half_own[i] = score / root[i, i], sums / root[i, i]
        total += half_score[i] * half_own[i]
    return total


@helper
def _score(
    r: float,
    place: Array,
    both: Array,
    ends1: Array,
    ends2: Array,
    powers1: Array,
    powers2: Array,
    joint: Array,
    room: Array,
) -> float:
    """The derivative of the pair's log likelihood in r, less that of the prior.

    ``place``: centre and scale of the first column, and of the second, measured from where t is. ``both``: count, sums
    of t1, t2, t1^2, t2^2, t1 t2 over the rows that see both. ``ends``: a column's limits. ``powers1``: of t2, for every
    limit of the first column; ``powers2`` of t1.
    """
    c1, s1, c2, s2 = place[0], place[1], place[2], place[3]
    k1, k2 = len(ends1), len(ends2)
    n = both[0]
    uu = (both[3] - 2.0 * c1 * both[1] + c1 * c1 * n) / (s1 * s1)
    vv = (both[4] - 2.0 * c2 * both[2] + c2 * c2 * n) / (s2 * s2)
    uv = (both[5] - c1 * both[2] - c2 * both[1] + c1 * c2 * n) / (s1 * s2)
    q2 = (1.0 - r) * (1.0 + r)
    total: float = n * r / q2 + (uv * (1.0 + r * r) - r * (uu + vv)) / (q2 * q2)
    e1, e2 = (ends1 - c1) / s1, (ends2 - c2) / s2
    # Rows with both cells censored, and which limits go together: shares[a, b] of all rows.
    together = np.zeros((k1, k2))
    for a in range(k1):
        for b in range(k2):
            if joint[a, b] <= 0.0:
                continue
            p = max(_rectangle(e1[a, 0], e1[a, 1], e2[b, 0], e2[b, 1], r), _LEAST)
            together[a, b] = joint[a, b] / p
            total += joint[a, b] * _corners(e1[a, 0], e1[a, 1], e2[b, 0], e2[b, 1], r) / p
    moments, shares = np.empty(N_POWERS), np.empty(max(k1, k2))
    for side in range(2):
        ends, own = (e2, e1) if side == 0 else (e1, e2)
        powers, n_other, n_own = (powers2, k2, k1) if side == 0 else (powers1, k1, k2)
        for b in range(n_other):
            if powers[b, 0] <= 0.0:
                continue
            number = powers[b, 0]
            for a in range(n_own):
                number += joint[a, b] if side == 0 else joint[b, a]
            rows = number / max(_between(ends[b, 0], ends[b, 1]), _LEAST)
            gone = 0.0
            for a in range(n_own):
                shares[a] = min((together[a, b] if side == 0 else together[b, a]) / rows, 1.0)
                gone += shares[a]
            if gone > 1.0:
                for a in range(n_own):
                    shares[a] /= gone
            c, s = (c1, s1) if side == 0 else (c2, s2)
            shifted_powers(powers[b], c, s, moments)
            total += _projected(ends[b, 0], ends[b, 1], r, moments, own, shares[:n_own], room)
    return total - r / q2


@helper
def _at(z: float, place: Array, both: Array, ends1: Array, ends2: Array, p1: Array, p2: Array, joint: Array,
        room: Array) -> float:  # fmt: skip
    """The same in atanh(r)."""
    r = math.tanh(z)
    return _score(r, place, both, ends1, ends2, p1, p2, joint, room) * (1.0 - r) * (1.0 + r)


@helper
def _root(start: float, place: Array, both: Array, ends1: Array, ends2: Array, p1: Array, p2: Array, joint: Array,
          room: Array) -> float:  # fmt: skip
    """atanh(r) where the score is 0: a bracket from the start, then false position in it (the Illinois rule)."""
    z = min(max(start, -LARGEST_Z), LARGEST_Z)
    value = _at(z, place, both, ends1, ends2, p1, p2, joint, room)
    if value == 0.0:
        return z
    step = 0.1 if value > 0.0 else -0.1
    low, f_low, high, f_high = z, value, z, value
    while True:
        further = min(max(z + step, -LARGEST_Z), LARGEST_Z)
        f = _at(further, place, both, ends1, ends2, p1, p2, joint, room)
        if (f > 0.0) != (value > 0.0) or f == 0.0:
            break
        if abs(further) >= LARGEST_Z:
            return further
        z, value = further, f
        step *= 2.0
    low, f_low, high, f_high = (z, value, further, f) if z < further else (further, f, z, value)
    side = 0
    for _ in range(_MOST_ROUNDS):
        if high - low < _TOLERANCE:
            break
        middle = (low * f_high - high * f_low) / (f_high - f_low)
        if not low < middle < high:
            middle = 0.5 * (low + high)
        f = _at(middle, place, both, ends1, ends2, p1, p2, joint, room)
        if f == 0.0:
            return middle
        moved = min(middle - low, high - middle)
        if (f > 0.0) == (f_low > 0.0):
            low, f_low = middle, f
            if side == -1:
                f_high *= 0.5
            side = -1
        else:
            high, f_high = middle, f
            if side == 1:
                f_low *= 0.5
            side = 1
        if moved < _TOLERANCE:
            return middle
    return 0.5 * (low + high)


@helper
def _marginal_spread(i: int, j: int, r: float, rows: float, of_columns: Array, spread: Array) -> None:
    """The covariance of (mean, scale) of both columns, which have so many rows in common."""
    cross = np.empty((2, 2))
    for side in range(2):
        column = i if side == 0 else j
        spread[2 * side, 2 * side] = of_columns[column, 2]
        spread[2 * side, 2 * side + 1] = spread[2 * side + 1, 2 * side] = of_columns[column, 3]
        spread[2 * side + 1, 2 * side + 1] = of_columns[column, 4]
    for a in range(2):
        for b in range(2):
            total, power = 0.0, 1.0
            for p in range(N_HERMITE):
                power *= r
                total += power * of_columns[i, 5 + a * N_HERMITE + p] * of_columns[j, 5 + b * N_HERMITE + p]
            cross[a, b] = total * rows / (of_columns[i, 1] * of_columns[j, 1])
    for a in range(2):
        for b in range(2):
            total = 0.0
            for c in range(2):
                for d in range(2):
                    total += spread[a, c] * cross[c, d] * spread[2 + d, 2 + b]
            spread[a, 2 + b] = spread[2 + b, a] = total


@kernel
def solve_limit_pairs(
    first: Array,
    second: Array,
    of_pairs: Array,
    of_columns: Array,
    begin: Array,
    ends: Array,
    powers: Array,
    joint: Array,
    wanted: bool,
    found: Array,
) -> None:
    """Correlations (found[0], which holds starts) and, if ``wanted``, standard errors (found[1]) of some pairs.

    ``of_pairs``: the six sums over rows that see both, the weight of the rows that observe both, and the factor
    by which weights make a variance larger. ``of_columns``: centre, scale, the covariance of mean and scale (3), and
    twice N_HERMITE coefficients. A column j has the limits begin[j] to begin[j + 1] of ``ends``, with ``powers`` of all
    columns and the numbers ``joint``; all measured from where t is.
    """
    room = np.empty(256)
    place, moved, g = np.empty(4), np.empty(4), np.empty(4)
    spread = np.zeros((4, 4))
    for pair in range(len(first)):
        i, j = first[pair], second[pair]
        if of_pairs[pair, 6] <= 0.0:
            found[0, pair] = 0.0
            found[1, pair] = 1.0
            continue
        place[0], place[1] = of_columns[i, 0], of_columns[i, 1]
        place[2], place[3] = of_columns[j, 0], of_columns[j, 1]
        both = of_pairs[pair, :6]
        at1, at2 = slice(begin[i], begin[i + 1]), slice(begin[j], begin[j + 1])
        e1, e2 = ends[at1], ends[at2]
        p1, p2 = powers[at1, :, j].copy(), powers[at2, :, i].copy()
        n12 = joint[at1, at2].copy()
        start = found[0, pair]
        if not abs(start) < 1.0:
            start = 0.0
        z = _root(math.atanh(start), place, both, e1, e2, p1, p2, n12, room)
        r = math.tanh(z)
        found[0, pair] = r
        if not wanted:
            continue
        step = _DIFFERENCE * max(1.0, abs(z))
        above = _at(z + step, place, both, e1, e2, p1, p2, n12, room)
        below = _at(z - step, place, both, e1, e2, p1, p2, n12, room)
        curvature = (below - above) / (2.0 * step)
        if not curvature > 0.0:
            found[1, pair] = 1.0
            continue
        here = _at(z, place, both, e1, e2, p1, p2, n12, room)
        for k in range(4):
            moved[:] = place
            scale = place[1] if k < 2 else place[3]
            moved[k] += _DIFFERENCE * scale
            g[k] = (_at(z, moved, both, e1, e2, p1, p2, n12, room) - here) / (_DIFFERENCE * scale)
        _marginal_spread(i, j, r, of_pairs[pair, 6] / of_pairs[pair, 7], of_columns, spread)
        through = 0.0
        for a in range(4):
            for b in range(4):
                through += g[a] * spread[a, b] * g[b]
        variance = of_pairs[pair, 7] / curvature + max(through, 0.0) / (curvature * curvature)
        found[1, pair] = min(math.sqrt(variance) * (1.0 - r) * (1.0 + r), 1.0)
