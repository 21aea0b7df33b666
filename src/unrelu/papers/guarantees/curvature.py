"""eta(r) and L(r) of Bulusu et al. 2022, Proposition 4.1: how curved the truncated likelihood is on the domain D_r.

The negative log-likelihood of N(mu, sigma^2) above 0, in v = (1/sigma^2, mu/sigma^2), is that of an exponential family
with statistics (-z^2/2, z). Its second derivative is their covariance, whatever the data:

    H(v) = Cov( (-z^2/2, z) ),   z ~ N(mu, sigma^2) above 0.

eta and L are the least and the largest eigenvalue of H over D_r = {1/r <= v(1) <= r, |v(2)| <= r}. The paper says that
they depend on r alone and does not give them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from unrelu.contracts import FloatArray
from unrelu.papers.guarantees.checks import number

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_FALL = 45.0  # by how much the log density falls towards the ends of the integrals
_GRID = 25


def convexity(radius: float) -> float:
    """Proposition 4.1: eta(r), the least eigenvalue of H(v) over D_r; the likelihood is eta-strongly convex there.

    Taken at v = (r, -r), where z is most concentrated; towards large r it is 1/r^4. At the paper's r = 3 it makes Xi of
    :func:`gradient_error` at least 2 epsilon/eta = 1876 epsilon: vacuous but for errors of a gradient below .0006.

    >>> f"{convexity(3.0):.4g}"
    '0.001066'
    """
    return math.exp(_least(_radius(radius), lambda v: math.log(curvatures(*v)[0])))


def smoothness(radius: float) -> float:
    """Proposition 4.1: L(r), the largest eigenvalue of H(v) over D_r; the likelihood is L-smooth there.

    Taken at v = (1/r, r), where z is largest and widest; towards large r it is r^5.

    >>> f"{smoothness(3.0):.4g}"
    '250.4'
    """
    return math.exp(-_least(_radius(radius), lambda v: -math.log(curvatures(*v)[1])))


def curvatures(first: float, second: float) -> tuple[float, float]:
    """The two eigenvalues of H at v = (``first``, ``second``), the smaller first.

    With u = z - E z, V = E u^2 and c = E u^3: Cov(z^2/2, z) = V E z + c/2, and the determinant is V times the variance
    that (u^2 - V)/2 keeps when u is regressed out. Taken by Gauss' quadrature where the density is not negligible.
    """
    mu, sigma = second / first, 1.0 / math.sqrt(first)
    reach = sigma * math.sqrt(2.0 * _FALL)
    low = max(mu - reach, 0.0)
    # where the log density has fallen from its largest value: that at mu, or at 0
    high = mu + reach if mu > 0.0 else 2.0 * _FALL / (math.sqrt(second**2 + 2.0 * _FALL * first) - second)
    z = low + 0.5 * (high - low) * (_NODES + 1.0)
    exponent = second * z - 0.5 * first * z * z
    share = _WEIGHTS * np.exp(exponent - exponent.max())
    share /= share.sum()
    mean = float(share @ z)
    u = z - mean
    spread, third = float(share @ u**2), float(share @ u**3)
    rest = 0.5 * (u**2 - spread) - 0.5 * third / spread * u
    determinant = spread * float(share @ rest**2)
    of_square = float(share @ (mean * u + 0.5 * (u**2 - spread)) ** 2)
    # ((a - b)^2 + 4 c^2)^(1/2) is the eigenvalues' difference: no cancellation
    between = mean * spread + 0.5 * third
    largest = 0.5 * (of_square + spread + math.hypot(of_square - spread, 2.0 * between))
    return determinant / largest, largest


def _least(r: float, of: Callable[[FloatArray], float]) -> float:
    """The least value over D_r: the best points of a grid, each followed downhill."""
    bounds = [(-math.log(r), math.log(r)), (-r, r)]

    def value(place: FloatArray) -> float:
        return of(np.array([math.exp(place[0]), place[1]]))

    grid = [np.array([a, b]) for a in np.linspace(*bounds[0], _GRID) for b in np.linspace(*bounds[1], _GRID)]
    starts = sorted(grid, key=value)[:3]
    ends = [minimize(value, start, bounds=bounds, method="L-BFGS-B").fun for start in starts]
    return float(min([*ends, value(starts[0])]))


def _radius(value: float) -> float:
    return number("radius", value, "above 1 and at most 1000 (D_r holds no other v)", above=1.0, below=1e3, closed=True)
