"""The moments of :mod:`unrelu.kernels.pair_model` for many pairs at once, in the Python array API standard.

One array of pairs stands where the kernels have one number: the same equations, for a device that wants thousands of
pairs at a time. Names are those of the kernels; ``m[p][q]`` is M_pq.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrelu.passes.device import Place

_LARGE = 0.925  # beyond this |r| the expansion around |r| = 1 is the accurate one
_NODES, _WEIGHTS = (part.tolist() for part in np.polynomial.legendre.leggauss(20))
_TWO_PI = 2.0 * math.pi
_JOINT = ((0, 0), (1, 1), (1, 0), (0, 1), (2, 0), (0, 2))  # exponents of the six statistics of both coordinates
N_MARGINAL = 6

Row = list[Any]


@dataclass(frozen=True)
class Normal:
    """The normal law on a device."""

    place: Place

    def density(self, x: Any) -> Any:
        return self.place.xp.exp(-0.5 * x * x) * (1.0 / math.sqrt(_TWO_PI))

    def distribution(self, x: Any) -> Any:
        return 0.5 * self.place.erfc(x * -math.sqrt(0.5))

    def upper_orthant(self, h: Any, k: Any, r: Any) -> Any:
        """P(X > h, Y > k) for standard normals with correlation r (:mod:`unrelu.kernels.normal`)."""
        xp = self.place.xp
        large = xp.abs(r) >= _LARGE
        near = xp.where(large, xp.zeros_like(r), r)
        p = self.distribution(-h) * self.distribution(-k) + self._plackett_integral(h, k, near)
        if bool(xp.any(large)):
            p = xp.where(large, self._beside_one(h, k, xp.where(large, r, xp.full_like(r, 0.95))), p)
        return xp.clip(p, 0.0, 1.0)

    def _plackett_integral(self, h: Any, k: Any, r: Any) -> Any:
        xp = self.place.xp
        half_square, product, half_angle = 0.5 * (h * h + k * k), h * k, 0.5 * xp.asin(r)
        total = xp.zeros_like(r)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            s = xp.sin(half_angle * (1.0 + node))
            total = total + weight * xp.exp((s * product - half_square) / (1.0 - s * s))
        return total * half_angle / _TWO_PI

    def _beside_one(self, h: Any, k: Any, r: Any) -> Any:
        xp = self.place.xp
        sign = xp.sign(r)
        integral = self._integral_to_one(h, sign * k, xp.abs(r))
        positive = self.distribution(-xp.maximum(h, k)) - integral
        falling = xp.where(
            h < 0.0,
            self.distribution(-k) - self.distribution(h),
            self.distribution(-h) - self.distribution(k),
        )
        negative = xp.where(h >= -k, xp.zeros_like(h), falling) + integral
        return xp.where(r > 0.0, positive, negative)

    def _integral_to_one(self, h: Any, k: Any, r: Any) -> Any:
        """Integral of phi2(h, k; s) ds from r to 1."""
        xp = self.place.xp
        product, gap2 = h * k, (1.0 - r) * (1.0 + r)
        gap, distance2 = xp.sqrt(gap2), (h - k) * (h - k)
        c, d = (4.0 - product) / 8.0, (12.0 - product) / 16.0
        zero = xp.zeros_like(h)
        exponent = -0.5 * (distance2 / gap2 + product)
        series = 1.0 - c * (distance2 - gap2) * (1.0 - d * distance2 / 5.0) / 3.0 + c * d * gap2 * gap2 / 5.0
        total = xp.where(exponent > -100.0, gap * xp.exp(exponent) * series, zero)
        distance = xp.sqrt(distance2)
        tail = math.sqrt(_TWO_PI) * self.distribution(-distance / gap)
        leading = tail * distance * (1.0 - c * distance2 * (1.0 - d * distance2 / 5.0) / 3.0)
        total = total - xp.where(product > -100.0, xp.exp(-0.5 * product) * leading, zero)
        half = 0.5 * gap
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            x2 = (half * (1.0 + node)) ** 2
            exponent = -0.5 * (distance2 / x2 + product)
            root = xp.sqrt(1.0 - x2)
            exact = xp.exp(-product * x2 / (2.0 * (1.0 + root) * (1.0 + root))) / root
            term = half * weight * xp.exp(exponent) * (exact - (1.0 + c * x2 * (1.0 + d * x2)))
            total = total + xp.where(exponent > -100.0, term, zero)
        return total / _TWO_PI


@dataclass(frozen=True)
class PairMoments12:
    """What the model says of pairs: mean and covariance of the twelve statistics, and their slope in r."""

    d1: Row
    d2: Row
    m: list[Row]
    mean: Row
    covariance: list[Row]
    gradient: Row


@dataclass(frozen=True)
class PairModel:
    """Pairs of columns with a1, a2 and their own moments (five each), all arrays of one length."""

    normal: Normal
    a1: Any
    a2: Any
    moments1: Row
    moments2: Row

    def of(self, at: Any) -> PairModel:
        """Some of the pairs."""
        take = self.normal.place.xp.take
        moments = ([take(each, at) for each in some] for some in (self.moments1, self.moments2))
        return PairModel(self.normal, take(self.a1, at), take(self.a2, at), *moments)

    def centres(self) -> tuple[Any, Any]:
        clip = self.normal.place.xp.clip
        return clip(-self.a1, 0.0, None), clip(-self.a2, 0.0, None)

    def at(self, r: Any) -> PairMoments12:
        (c1, c2), a1, a2 = self.centres(), self.a1, self.a2
        l1, l2 = -a1 - c1, -a2 - c2
        d1, d2 = self._boundary(a1, a2, c2, l2, r), self._boundary(a2, a1, c1, l1, r)
        m = self._joint(r, d1, d2, (c1, c2), (l1, l2))
        mean = [*self.moments1[:3], *self.moments2[:3], *(m[p][q] for p, q in _JOINT)]
        return PairMoments12(d1, d2, m, mean, self._covariance(m, mean), self._gradient(r, d1, d2, m, (l1, l2)))

    def cross_moment(self, r: Any) -> tuple[Any, Any]:
        """M_11 and its derivative in r, without the other moments."""
        normal, xp = self.normal, self.normal.place.xp
        (c1, c2), a1, a2 = self.centres(), self.a1, self.a2
        l1, l2 = -a1 - c1, -a2 - c2
        gap = xp.sqrt((1.0 - r) * (1.0 + r))
        z2, z1 = (a2 - r * a1) / gap, (a1 - r * a2) / gap
        edge = normal.density(a1) * normal.density(z2)
        d1_0, d2_0 = normal.density(a1) * normal.distribution(z2), normal.density(a2) * normal.distribution(z1)
        d1_1 = (-r * a1 - c2) * d1_0 + gap * edge
        m00 = normal.upper_orthant(-a1, -a2, r)
        m01 = -c2 * m00 + d2_0 + r * d1_0
        return -c1 * m01 + d1_1 + r * (m00 + l2 * d2_0), m00 + l1 * d1_0 + l2 * d2_0 + l1 * l2 * edge / gap

    def marginal_gradient(self, moments: PairMoments12, second: bool) -> list[tuple[Any, Any]]:
        """d/d(bias, scale) of the twelve expectations, for one coordinate in units of its scale."""
        a, own, edge = (self.a2, self.moments2, moments.d2) if second else (self.a1, self.moments1, moments.d1)
        c = self.centres()[second]
        floor, at_floor, zero = -a - c, self.normal.density(a), 0.0 * a
        alone, power = [], zero + 1.0
        for p in range(3):
            bias, scale = power * at_floor, -a * power * at_floor
            if p > 0:
                bias, scale = bias + p * own[p - 1], scale + p * (own[p] + c * own[p - 1])
            alone.append((bias, scale))
            power = power * floor
        none = [(zero, zero)] * 3
        joint, m = [], moments.m
        for exponents in _JOINT:
            p, q = exponents[::-1] if second else exponents
            boundary = edge[q] * floor**p
            bias, scale = boundary, -a * boundary
            if p > 0:
                below, same = (m[q][p - 1], m[q][p]) if second else (m[p - 1][q], m[p][q])
                bias, scale = bias + p * below, scale + p * (same + c * below)
            joint.append((bias, scale))
        return [*none, *alone, *joint] if second else [*alone, *none, *joint]

    def _boundary(self, a: Any, other: Any, c: Any, floor: Any, r: Any) -> Row:
        """D_q = phi(a) E[v^q 1{v > l} | u = -a] of the other coordinate, q = 0..3."""
        normal, xp = self.normal, self.normal.place.xp
        gap2 = (1.0 - r) * (1.0 + r)
        gap = xp.sqrt(gap2)
        mean, z, weight = -r * a - c, (other - r * a) / gap, normal.density(a)
        edge = weight * gap * normal.density(z)
        d = [weight * normal.distribution(z)]
        d.append(mean * d[0] + edge)
        for q in range(2, 4):
            edge = edge * floor
            d.append(mean * d[q - 1] + (q - 1) * gap2 * d[q - 2] + edge)
        return d

    def _joint(self, r: Any, d1: Row, d2: Row, c: tuple[Any, Any], floors: tuple[Any, Any]) -> list[Row]:
        """M_pq for p + q <= 4."""
        (c1, c2), (l1, l2) = c, floors
        first = [self.normal.upper_orthant(-self.a1, -self.a2, r)]
        power: Any = 1.0
        for q in range(1, 5):
            value = -c2 * first[q - 1] + power * d2[0] + r * d1[q - 1]
            first.append(value + (q - 1) * first[q - 2] if q >= 2 else value)
            power = power * l2
        m, edge1 = [first], 1.0
        for p in range(1, 5):
            row: Row = []
            edge2: Any = 1.0
            for q in range(5 - p):
                value = -c1 * m[p - 1][q] + edge1 * d1[q] + r * edge2 * d2[p - 1]
                value = value + (p - 1) * m[p - 2][q] if p >= 2 else value
                row.append(value + r * q * m[p - 1][q - 1] if q >= 1 else value)
                edge2 = edge2 * l2
            m.append(row)
            edge1 = edge1 * l1
        return m

    def _covariance(self, m: list[Row], mean: Row) -> list[Row]:
        """Lower triangle: products of statistics are moments again."""
        rows: list[Row] = []
        for p in range(3):
            rows.append([self.moments1[p + q] - mean[p] * mean[q] for q in range(p + 1)])
        for q in range(3):
            across = [m[p][q] - mean[3 + q] * mean[p] for p in range(3)]
            rows.append(across + [self.moments2[q + k] - mean[3 + q] * mean[3 + k] for k in range(q + 1)])
        for k, (p, q) in enumerate(_JOINT):
            own = mean[N_MARGINAL + k]
            row = [m[p + i][q] - own * mean[i] for i in range(3)] + [m[p][q + i] - own * mean[3 + i] for i in range(3)]
            rows.append(
                row + [m[p + s][q + t] - own * mean[N_MARGINAL + j] for j, (s, t) in enumerate(_JOINT[: k + 1])]
            )
        return rows

    def _gradient(self, r: Any, d1: Row, d2: Row, m: list[Row], floors: tuple[Any, Any]) -> Row:
        """d/dr of the six joint expectations, by Price's theorem; the others do not depend on r."""
        (l1, l2), normal = floors, self.normal
        gap = normal.place.xp.sqrt((1.0 - r) * (1.0 + r))
        phi2 = normal.density(self.a1) * normal.density((self.a2 - r * self.a1) / gap) / gap
        return [
            phi2,
            m[0][0] + l1 * d1[0] + l2 * d2[0] + l1 * l2 * phi2,
            d2[0] + l1 * phi2,
            d1[0] + l2 * phi2,
            2.0 * d2[1] + l1 * l1 * phi2,
            2.0 * d1[1] + l2 * l2 * phi2,
        ]
