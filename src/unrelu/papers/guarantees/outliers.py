"""The paper on arbitrary outliers (Propositions 4.1 and 4.2, Theorem 4.3): errors of gradient descent with a median.

Rows are true with probability p, else arbitrary. Symbols as in the paper: V the distance of the first v to the true
one, T the number of steps, eta and L the strong convexity and smoothness of the likelihood on the domain D_r (functions
of r that the paper does not give: :func:`convexity` and :func:`smoothness`), epsilon the error of the gradient,
Psi_epsilon in [1/(2p), 1] the probability that a true sample is within epsilon, and

    Xi = V ( 1 - L/(eta + L) )^T + 2 epsilon (L + eta) / (L eta).

The formulas were put together again from a text whose typesetting is lost; where it left a choice, other sentences of
the paper decide, and the docstrings say so. The proofs are not in the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.papers.guarantees.arguments import between_0_and_1, number, positive, samples, whole

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_FALL = 45.0  # by how much the log density falls towards the ends of the integrals
_GRID = 25


@dataclass(frozen=True)
class ErrorBound:
    """A bound on an error, and the ``trivial`` one that needs no data; ``vacuous`` if it says no more than that.

    >>> ErrorBound(0.3, 1.0).vacuous, ErrorBound(3.0, 1.0).vacuous
    (False, True)
    """

    value: float
    trivial: float

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than the trivial bound."""
        return self.value >= self.trivial


def gradient_error(
    epsilon: float,
    *,
    distance: float,
    steps: int,
    convexity: float,
    smoothness: float,
    step_size: float | None = None,
) -> float:
    """Proposition 4.1 (12): Xi, which bounds the errors of one norm and one bias.

    |S^(i,i) - |W(i,:)|^2| <= Xi |W(i,:)|^2 and |b^(i) - b(i)| <= Xi |W(i,:)|, with V = ``distance``, T = ``steps``,
    eta = ``convexity`` <= L = ``smoothness`` and the error ``epsilon`` of the gradient. The first bound is vacuous
    from Xi = 1: S^ = 0 does as well. The paper says only that eta and L depend on r:
    they are :func:`convexity` and :func:`smoothness`.

    As printed the first term is V (1 - L/(eta + L))^T = V (eta/(eta + L))^T, which the paper confirms by the number of
    steps it derives from it (:func:`gradient_steps`); the second, 2 epsilon (L + eta) / (L eta), is printed thrice.
    But the usual argument contracts by 1 - gamma L eta / (eta + L) for a ``step_size`` gamma <= 2/(eta + L): the
    printed factor for gamma = 1/eta, a step too long unless eta = L, and 1 - eta/(eta + L) for gamma = 1/L. The
    default, None, is the printed formula; give ``step_size`` for the usual one.

    >>> gradient_error(0.01, distance=1.0, steps=10, convexity=1.0, smoothness=1.0)
    0.0409765625
    >>> round(gradient_error(0.01, distance=1.0, steps=10, convexity=0.5, smoothness=2.0, step_size=0.5), 4)
    0.1574
    """
    epsilon, distance = between_0_and_1("epsilon", epsilon), positive("distance", distance)
    factor = _contraction(convexity, smoothness, step_size)
    steps = whole("steps", steps, least=0)
    return distance * factor**steps + 2.0 * epsilon * (smoothness + convexity) / (smoothness * convexity)


def gradient_steps(
    error: float, *, distance: float, convexity: float, smoothness: float, step_size: float | None = None
) -> int:
    """After Proposition 4.1: T = (log Omega - log V) / log( eta/(eta + L) ) steps for a first term of at most Omega.

    Omega = ``error``; the other arguments are those of :func:`gradient_error`.

    >>> gradient_steps(0.001, distance=1.0, convexity=1.0, smoothness=1.0)
    10
    """
    ratio = positive("error", error) / positive("distance", distance)
    factor = _contraction(convexity, smoothness, step_size)
    return max(math.ceil(math.log(ratio) / math.log(factor)), 0)


def deviation_range(
    epsilon: float, p: float, *, lower_constant: float = 1.0, upper_constant: float = 1.0
) -> tuple[float, float]:
    """Where Psi_epsilon may lie: in [1/(2p), 1], between O(epsilon^3) and O(sqrt(epsilon)).

    The paper says that the order constants depend on r only and does not give them. Where the two ranges do not meet,
    the propositions say nothing about this epsilon: it is too small for p. They also ask for epsilon > O(p^(-1/3)),
    not checked here: with a constant of 1 no epsilon below 1 would do.

    >>> deviation_range(0.64, p=0.8)
    (0.625, 0.8)
    """
    epsilon, p = between_0_and_1("epsilon", epsilon), _true_share(p)
    low = max(1.0 / (2.0 * p), positive("lower_constant", lower_constant) * epsilon**3)
    high = min(1.0, positive("upper_constant", upper_constant) * math.sqrt(epsilon))
    if low > high:
        raise InvalidParameterError(
            f"No Psi: it must be at least {low:.3g} (for p = {p:g}) and at most {high:.3g} (for epsilon = {epsilon:g})."
            " Take a larger epsilon or p, or another constant."
        )
    return low, high


def filtered_samples(psi: float, p: float, delta: float) -> int:
    """Propositions 4.1 and 4.2: n >= 1 / ( p^2 (p Psi - 1/2)^2 ) log(1/delta) samples for one column, or one angle.

    With probability 1 - delta the errors are then within :func:`gradient_error` and :func:`filtered_angle_error`.
    p in (1/2, 1]: more than half of the rows must be true, or the median is lost. 1/(2p) < Psi <= 1; towards the lower
    end the samples grow without bound. That the fraction is read rightly, (13) confirms: see there.

    >>> filtered_samples(0.9, p=0.95, delta=0.05)
    27
    """
    p, delta = _true_share(p), between_0_and_1("delta", delta)
    return samples(math.log(1.0 / delta) / (p * _margin(psi, p)) ** 2)


def filtered_angle_error(xi: float, *, psi: float, p: float) -> ErrorBound:
    """Proposition 4.2 (13): |cos(theta^_ij) - cos(theta_ij)| < sqrt(2) pi p (p Psi - 1/2) + 3 pi (1-p) + 2 pi (2-p) Xi.

    ``xi`` is :func:`gradient_error`. The root is over 2 alone: the n of :func:`filtered_samples` puts a share of rows
    within t = p (p Psi - 1/2) / sqrt(2) of its probability (Hoeffding: n = log(1/delta) / (2 t^2)), and an angle is
    2 pi times a share. Vacuous from 2, the largest difference of cosines: for p below 1 - 2/(3 pi) = .788 always.

    >>> filtered_angle_error(0.01, psi=0.6, p=0.95)
    ErrorBound(value=0.8326640591513862, trivial=2.0)
    """
    p, xi = _true_share(p), positive("xi", xi)
    value = math.sqrt(2.0) * math.pi * p * _margin(psi, p) + 3.0 * math.pi * (1.0 - p) + 2.0 * math.pi * (2.0 - p) * xi
    return ErrorBound(value, trivial=2.0)


def filtered_weight_error(xi: float, *, psi: float, p: float) -> ErrorBound:
    """Theorem 4.3 (14): |S^ - W W'|_F <= ( sqrt(2) pi p (p Psi - 1/2) + pi (2-p)(3 + 2 Xi) ) |W|_F^2.

    The value is the factor of |W|_F^2. It is always vacuous: 3 pi (2-p) alone, which the paper names as a term of it,
    is 9.4 or more, and S^ = 0 has an error of at most 1. (The 3 pi (1-p) of (13), which vanishes without outliers, has
    become 3 pi (2-p) here; nothing in the text says why.)

    >>> bound = filtered_weight_error(0.01, psi=0.6, p=0.95)
    >>> round(bound.value, 2), bound.vacuous
    (10.26, True)
    """
    p, xi = _true_share(p), positive("xi", xi)
    value = math.sqrt(2.0) * math.pi * p * _margin(psi, p) + math.pi * (2.0 - p) * (3.0 + 2.0 * xi)
    return ErrorBound(value, trivial=1.0)


def filtered_parameter_samples(epsilon: float, delta: float, d: int, p: float, *, constant: float = 1.0) -> int:
    """Theorem 4.3: n = Omega( 1/(epsilon p^4) log(d/delta) ) samples for all parameters.

    With probability 1 - delta then (14), :func:`filtered_weight_error`, and (15), |b^ - b|_2 <= Xi |W|_F with Xi of
    :func:`gradient_error`. Omega here says what suffices. It is :func:`filtered_samples` with Psi of order
    sqrt(epsilon), the 1/2 left out, and delta/d for each column; the paper does not give ``constant``. Neither error
    goes to 0 with epsilon, so that this is not comparable with Theorem 1 of Wu et al. 2019, as the paper itself says.

    >>> filtered_parameter_samples(0.1, 0.05, d=20, p=1.0)
    60
    >>> filtered_parameter_samples(0.1, 0.05, d=20, p=0.8)
    147
    """
    epsilon, delta, d = between_0_and_1("epsilon", epsilon), between_0_and_1("delta", delta), whole("d", d)
    return samples(positive("constant", constant) / (epsilon * _true_share(p) ** 4) * math.log(d / delta))


def _contraction(convexity: float, smoothness: float, step_size: float | None) -> float:
    """By how much a step shortens the distance to the true v: printed for None, else the usual result."""
    eta, big_l = positive("convexity", convexity), positive("smoothness", smoothness)
    if eta > big_l:
        raise InvalidParameterError(f"convexity must be at most smoothness, got {eta:g} and {big_l:g}.")
    if step_size is None:
        return eta / (eta + big_l)  # 1 - L/(eta + L)
    gamma = positive("step_size", step_size)
    if gamma > 2.0 / (eta + big_l):
        raise InvalidParameterError(
            f"step_size must be at most 2/(convexity + smoothness) = {2.0 / (eta + big_l):g} for the steps to converge,"
            f" got {gamma:g}."
        )
    return 1.0 - gamma * big_l * eta / (eta + big_l)


def _true_share(p: float) -> float:
    return number("p", p, "above 1/2 and at most 1 (most rows are true)", above=0.5, below=1.0, closed=True)


def _margin(psi: float, p: float) -> float:
    """p Psi - 1/2, by how much the true and typical samples are a majority."""
    domain = f"above 1/(2p) = {1.0 / (2.0 * p):.4g} and at most 1"
    return p * number("psi", psi, domain, above=1.0 / (2.0 * p), below=1.0, closed=True) - 0.5


# --- eta(r) and L(r) of Proposition 4.1 ---------------------------------------------------------
#
# The negative log-likelihood of N(mu, sigma^2) above 0, in v = (1/sigma^2, mu/sigma^2), is that of an exponential
# family with statistics (-z^2/2, z). Its second derivative is their covariance, whatever the data:
#
#     H(v) = Cov( (-z^2/2, z) ),   z ~ N(mu, sigma^2) above 0.
#
# eta and L are the least and the largest eigenvalue of H over D_r = {1/r <= v(1) <= r, |v(2)| <= r}.


def convexity(radius: float) -> float:
    """Proposition 4.1: eta(r), the least eigenvalue of H(v) over D_r; the likelihood is eta-strongly convex there.

    Taken at v = (r, -r), where z is most concentrated; towards large r it is 1/r^4. At the paper's r = 3 it makes Xi of
    :func:`gradient_error` at least 2 epsilon/eta = 1876 epsilon: vacuous but for errors of a gradient below .0006.

    >>> f"{convexity(3.0):.4g}"
    '0.001066'
    """
    return math.exp(_least(radius, lambda v: math.log(curvatures(*v)[0])))


def smoothness(radius: float) -> float:
    """Proposition 4.1: L(r), the largest eigenvalue of H(v) over D_r; the likelihood is L-smooth there.

    Taken at v = (1/r, r), where z is largest and widest; towards large r it is r^5.

    >>> f"{smoothness(3.0):.4g}"
    '250.4'
    """
    return math.exp(-_least(radius, lambda v: -math.log(curvatures(*v)[1])))


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


def _least(radius: float, of: Callable[[FloatArray], float]) -> float:
    """The least value over D_r: the best points of a grid, each followed downhill."""
    domain = "above 1 and at most 1000 (D_r holds no other v)"
    r = number("radius", radius, domain, above=1.0, below=1e3, closed=True)
    bounds = [(-math.log(r), math.log(r)), (-r, r)]

    def value(place: FloatArray) -> float:
        return of(np.array([math.exp(place[0]), place[1]]))

    grid = [np.array([a, b]) for a in np.linspace(*bounds[0], _GRID) for b in np.linspace(*bounds[1], _GRID)]
    starts = sorted(grid, key=value)[:3]
    ends = [minimize(value, start, bounds=bounds, method="L-BFGS-B").fun for start in starts]
    return float(min([*ends, value(starts[0])]))
