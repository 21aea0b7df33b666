"""Is a column above its floor the upper part of a normal? A test from four sums.

With u = (x - b)/s above the floor and P = 1{x > floor}, the mean of u^3 P over all rows is compared with what the
fitted cut-off normal has. What the constant and the two scores of (b, s) explain is taken off first,

    h = u^3 P - projection on 1, score_b, score_s:    a cubic in u above the floor, a constant below it,

so that the mean of h over n rows, of which n_h were summed, has variance E[h^2]/n_h whatever the errors of (b, s).
Its tail is not normal where few values are above the floor; E[h^3] is known as well, and the transformation that
Anscombe and Glynn (1983) gave for kurtosis, which needs no more than the skewness, makes it so. The same statistic of
u^4 would see heavy tails, but its own tail is too heavy to be calibrated from sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from unrelu.contracts import FloatArray, RowParameters
from unrelu.kernels.pair_model import LARGEST_A
from unrelu.passes.columns import ColumnShapes

_HIGHEST = 9  # of the powers of u whose moments are needed, those of h^3


@dataclass(frozen=True, eq=False)
class Skewness:
    """Per column: ``z``, standard normal if the column is what the model says; the ``skewness`` of the latent normal
    that would explain it, and by how much the latent mean is then off, in latent standard deviations (first order)."""

    z: FloatArray
    skewness: FloatArray
    shift: FloatArray


@dataclass(frozen=True, eq=False)
class _Cubic:
    """A function of a cell, for every column: a polynomial of u above the floor (degree x d), a constant at it."""

    above: FloatArray
    floored: FloatArray

    def times(self, other: _Cubic) -> _Cubic:
        product = np.zeros((len(self.above) + len(other.above) - 1, self.above.shape[1]))
        for power, coefficient in enumerate(self.above):
            product[power : power + len(other.above)] += coefficient * other.above
        return _Cubic(product, self.floored * other.floored)

    def minus(self, factor: FloatArray, other: _Cubic) -> _Cubic:
        above = np.zeros((max(len(self.above), len(other.above)), self.above.shape[1]))
        above[: len(self.above)] += self.above
        above[: len(other.above)] -= factor * other.above
        return _Cubic(above, self.floored - factor * other.floored)


def skewness_of(shapes: ColumnShapes, rows: RowParameters) -> Skewness:
    """The test for every column; z is 0 where nothing can be said (constant columns, fewer than 8 values)."""
    can = (rows.scale > 0.0) & (shapes.sums[0] >= 8.0)
    scale = np.where(can, rows.scale, 1.0)
    a = np.where(can, np.minimum((rows.bias - rows.floor) / scale, LARGEST_A), 0.0)
    moments = truncated_moments(a, _HIGHEST)
    hidden = ndtr(-a)

    def mean(of: _Cubic) -> FloatArray:
        return np.asarray((of.above * moments[: len(of.above)]).sum(axis=0) + of.floored * hidden)

    zero, one = np.zeros_like(a), np.ones_like(a)
    hazard = moments[1] / np.maximum(hidden, 1e-300) * (hidden > 0.0)
    score_b = _Cubic(np.stack([zero, one]), -hazard)
    score_s = _Cubic(np.stack([-one, zero, one]), a * hazard)
    basis = [_Cubic(one[None], one)]
    for function in (score_b, score_s, _Cubic(np.stack([zero, zero, zero, one]), zero)):
        for other in basis:
            function = function.minus(mean(function.times(other)) / mean(other.times(other)), other)
        basis.append(function)
    h = basis[3]
    square = h.times(h)
    variance = np.maximum(mean(square), 1e-300)

    u = shapes.about(np.where(can, rows.bias, shapes.origin), np.where(can, scale, shapes.unit)).sums
    total = np.maximum(shapes.observed, 1e-300)
    observed = ((h.above * u).sum(axis=0) + h.floored * (shapes.observed - shapes.sums[0])) / total
    z = observed * np.sqrt(total / variance)
    skew = mean(square.times(h)) / variance**1.5 / np.sqrt(total)

    # Density phi(u) (1 + g He3(u) / 6) to first order in the skewness g: E[h He3] g / 6 is what was observed.
    hermite = np.stack([zero, -3.0 * one, zero, one])
    below = -(hermite * moments[:4]).sum(axis=0)  # E[He3 (1 - P)], as E[He3] = 0

    def with_hermite(of: _Cubic) -> FloatArray:
        product = _Cubic(of.above, zero).times(_Cubic(hermite, zero))
        return np.asarray(mean(product) + of.floored * below)

    latent = 6.0 * observed / _away_from_zero(with_hermite(h))
    b_part, s_part = basis[1], basis[2]
    cross = mean(score_s.times(score_b)) / mean(b_part.times(b_part))
    s_shift = latent / 6.0 * with_hermite(s_part) / mean(s_part.times(s_part))
    b_shift = latent / 6.0 * with_hermite(b_part) / mean(b_part.times(b_part)) - cross * s_shift
    return Skewness(np.where(can, normalized(z, skew), 0.0), np.where(can, latent, 0.0), np.where(can, b_shift, 0.0))


def truncated_moments(a: FloatArray, highest: int) -> FloatArray:
    """E[u^k 1{u > -a}] for k = 0..highest: m_k = (k - 1) m_{k-2} + (-a)^{k-1} phi(a)."""
    edge = np.exp(-0.5 * a**2) / np.sqrt(2.0 * np.pi)
    moments = [ndtr(a), edge]
    for k in range(2, highest + 1):
        moments.append((k - 1) * moments[k - 2] + (-a) ** (k - 1) * edge)
    return np.stack(moments)


def normalized(z: FloatArray, skewness: FloatArray) -> FloatArray:
    """A standardized number with that skewness as a standard normal one (Anscombe and Glynn 1983).

    >>> normalized(np.array([3.0, 3.0]), np.array([0.0, 0.5])).round(1)
    array([3. , 2.5])
    """
    sign = np.where(skewness < 0.0, -1.0, 1.0)
    size = np.maximum(np.abs(skewness), 1e-6)
    a = 6.0 + 8.0 / size * (2.0 / size + np.sqrt(1.0 + 4.0 / size**2))
    distance = np.maximum(1.0 + sign * z * np.sqrt(2.0 / (a - 4.0)), 1e-9)
    moved = (1.0 - 2.0 / (9.0 * a) - np.cbrt((1.0 - 2.0 / a) / distance)) / np.sqrt(2.0 / (9.0 * a))
    return np.asarray(sign * moved)


def _away_from_zero(x: FloatArray) -> FloatArray:
    return np.where(np.abs(x) > 1e-12, x, np.copysign(1e-12, x))
