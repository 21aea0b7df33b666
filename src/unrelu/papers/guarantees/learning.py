"""Samples that learning takes, as proved: Wu et al. 2019 for clean rows, Bulusu et al. 2022 for rows with outliers.

Symbols as in the papers: epsilon the error, delta the probability to miss it, d columns, kappa the condition number of
W W', theta_ij the angle between the rows W(i,:) and W(j,:). O~ and Omega hide constants (O~ also logarithms) that the
papers do not give. They are the parameter ``constant``: with its default, 1, only the growth with epsilon, delta, d and
kappa means something. Lemma 4 and the probabilities are exact.

With outliers, rows are true with probability p, else arbitrary; V is the distance of the first v to the true one, T the
number of steps, eta and L the strong convexity and smoothness of the likelihood on the domain D_r, epsilon the error of
the gradient, Psi_epsilon in [1/(2p), 1] the probability that a true sample is within epsilon, and

    Xi = V ( 1 - L/(eta + L) )^T + 2 epsilon (L + eta) / (L eta).

The source text of these formulas has lost its typesetting: docs/papers.md says how it is read here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from unrelu import RectifiedGaussian
from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.papers.guarantees.arguments import between_0_and_1, number, positive, samples, whole

__all__ = [
    "Complexity",
    "ErrorBound",
    "angle_samples",
    "both_positive_probability",
    "convexity",
    "deviation_range",
    "distribution_complexity",
    "distribution_samples",
    "distribution_samples_lower_bound",
    "exceedance_probability",
    "filtered_angle_error",
    "filtered_parameter_samples",
    "filtered_samples",
    "filtered_weight_error",
    "gradient_error",
    "gradient_steps",
    "negative_bias_samples",
    "norm_bias_samples",
    "parameter_complexity",
    "parameter_samples",
    "parameter_samples_lower_bound",
    "probability_shift",
    "sgd_batches",
    "sgd_radius",
    "sgd_steps",
    "smoothness",
]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_FALL = 45.0  # by how much the log density falls towards the ends of the integrals
_GRID = 25


# --- Wu et al. 2019: parameters, Theorems 1 and 2 -------------------------------------------------


@dataclass(frozen=True)
class Complexity:
    """Samples, and the orders of time (operations) and space (numbers kept) that Algorithm 1 takes for them.

    >>> parameter_complexity(0.1, 0.05, d=20).samples
    600
    """

    samples: int
    time: float
    space: float


def parameter_samples(epsilon: float, delta: float, d: int, *, constant: float = 1.0) -> int:
    """Theorem 1: n = O~( 1/epsilon^2 ln(d/delta) ) samples for the parameters.

    From so many samples Algorithm 1 has, with probability 1 - delta (15),

        |S^ - W W'|_F <= epsilon |W|_F^2   and   |b^ - b|_2 <= epsilon |W|_F,

    "weights" and "bias" of :func:`unrelu.metrics.parameter_errors`. For our learner's needs see :func:`rows_needed`.

    >>> parameter_samples(0.1, 0.05, d=20)
    600
    """
    epsilon, delta, d = between_0_and_1("epsilon", epsilon), between_0_and_1("delta", delta), whole("d", d)
    return samples(positive("constant", constant) / epsilon / epsilon * math.log(d / delta))


def parameter_complexity(epsilon: float, delta: float, d: int, *, constant: float = 1.0) -> Complexity:
    """Theorem 1 with its time O~( d^2/epsilon^2 ln(d/delta) ) and space O~( d/epsilon^2 ln(d/delta) + d^2 ).

    ``constant``, which the paper does not give, is taken to be the same in all three.

    >>> parameter_complexity(0.1, 0.05, d=20)
    Complexity(samples=600, time=240000.0, space=12400.0)
    """
    n = parameter_samples(epsilon, delta, d, constant=constant)
    return Complexity(n, time=float(n * d**2), space=float(n * d + constant * d**2))


def parameter_samples_lower_bound(epsilon: float, *, constant: float = 1.0) -> int:
    """Theorem 2: any algorithm needs Omega( 1/epsilon^2 ) samples for the bias.

    To have |b^ - b|_2 <= epsilon |W|_F with probability 2/3 for every b >= 0, even where W = sigma I is known. So
    Theorem 1 cannot be improved but for logarithms.

    >>> parameter_samples_lower_bound(0.1)
    100
    """
    epsilon = between_0_and_1("epsilon", epsilon)
    return samples(positive("constant", constant) / epsilon / epsilon)


# --- norms and biases: Lemma 1, Algorithms 2 and 3 ----------------------------------------------


def norm_bias_samples(epsilon: float, delta: float, d: int, *, constant: float = 1.0) -> int:
    """Lemma 1: n = O~( 1/epsilon^2 ln(d/delta) ) samples for every norm and bias, each by itself.

    From so many samples, with probability 1 - delta, for all i (9),

        |S^(i,i) - |W(i,:)|^2| <= epsilon |W(i,:)|^2   and   |b^(i) - b(i)| <= epsilon |W(i,:)|.

    They are :func:`sgd_batches` runs of :func:`sgd_steps`, but for logarithms.

    >>> norm_bias_samples(0.1, 0.05, d=20)
    600
    """
    return parameter_samples(epsilon, delta, d, constant=constant)


def sgd_radius(alpha: float, *, constant: float = 1.0) -> float:
    """r(alpha) = O( ln(1/alpha)/alpha^2 ), after (8): the domain D_r of Algorithm 3, which holds the true v.

    ``alpha`` is the probability to be above the floor, 1/2 or more where b >= 0. At 1/2 it is 2.8, and the authors take
    r = 3. Towards alpha = 1 the order says 0, while D_r needs r > 1: there take 3 as well.

    >>> round(sgd_radius(0.5), 2)
    2.77
    """
    alpha = between_0_and_1("alpha", alpha)
    return positive("constant", constant) * math.log(1.0 / alpha) / alpha**2


def sgd_batches(delta: float, d: int, *, constant: float = 1.0) -> int:
    """B = O( ln(d/delta) ), Algorithm 2: the runs of ProjSGD of which the most central one is kept.

    One run succeeds with a constant probability, so many fail in no column with probability 1 - delta. The paper's
    experiments take B = 1. It is ``batches`` of :class:`unrelu.methods.TruncatedSGD`.

    >>> sgd_batches(0.05, d=20)
    6
    """
    delta, d = between_0_and_1("delta", delta), whole("d", d)
    return samples(positive("constant", constant) * math.log(d / delta))


def sgd_steps(epsilon: float, delta: float, d: int, *, constant: float = 1.0) -> int:
    """T = O~( ln(d/delta)/epsilon^2 ), Algorithm 3: the steps of one run of ProjSGD, a value each.

    >>> sgd_steps(0.1, 0.05, d=20)
    600
    """
    return parameter_samples(epsilon, delta, d, constant=constant)


# --- the distribution: Corollary 1 and Theorem 3 ------------------------------------------------


def distribution_samples(
    epsilon: float, delta: float, d: int, condition_number: float = 1.0, *, constant: float = 1.0
) -> int:
    """Corollary 1: n = O~( kappa^2 d^2/epsilon^2 ln(d/delta) ) samples for the distribution.

    From so many samples the learned distribution is, with probability 1 - delta, within total variation distance
    epsilon of the true one (16); 0 < epsilon <= 1/2, and W is square and of full rank. ``condition_number`` is kappa,
    of W W'.

    >>> distribution_samples(0.1, 0.05, d=20)
    239659
    >>> distribution_samples(0.1, 0.05, d=20, condition_number=10.0)
    23965859
    """
    epsilon = number("epsilon", epsilon, "above 0 and at most 1/2", above=0.0, below=0.5, closed=True)
    delta, d = between_0_and_1("delta", delta), whole("d", d)
    kappa = positive("condition_number", condition_number)
    if kappa < 1.0:
        raise InvalidParameterError(f"condition_number must be 1 or more and finite, got {condition_number!r}.")
    ratio = kappa * d / epsilon
    return samples(positive("constant", constant) * ratio * ratio * math.log(d / delta))


def distribution_complexity(
    epsilon: float, delta: float, d: int, condition_number: float = 1.0, *, constant: float = 1.0
) -> Complexity:
    """Corollary 1 with its time O~( kappa^2 d^4/epsilon^2 ln(d/delta) ), and space the same with d^3.

    ``constant``, which the paper does not give, is taken to be the same in all three.

    >>> distribution_complexity(0.5, 0.05, d=2)
    Complexity(samples=60, time=240.0, space=120.0)
    """
    n = distribution_samples(epsilon, delta, d, condition_number, constant=constant)
    return Complexity(n, time=float(n * d**2), space=float(n * d))


def distribution_samples_lower_bound(epsilon: float, d: int, *, constant: float = 1.0) -> int:
    """Theorem 3: any algorithm needs Omega( d/epsilon^2 ) samples for the distribution.

    To be within total variation distance epsilon of D(W, 0) with probability 2/3, for every W of full rank. The paper
    suspects that d^2 is the truth, as for a Gaussian that is not cut off.

    >>> distribution_samples_lower_bound(0.1, d=20)
    2000
    """
    epsilon, d = between_0_and_1("epsilon", epsilon), whole("d", d)
    return samples(positive("constant", constant) * d / epsilon / epsilon)


# --- negative biases: Claim 2 -------------------------------------------------------------------


def negative_bias_samples(bias: float, scale: float = 1.0, *, constant: float = 1.0) -> int:
    """Claim 2: Omega( exp(b^2/2) ) samples to distinguish D(1, b), b < 0, from D(1, b') with b' < b.

    At least one positive value must be seen, and P(x > 0) = Phi(b) <= exp(-b^2/2). ``scale`` is |W(i,:)|, 1 in the
    paper: what counts is b / scale. By the proof exp(b^2/2) is a lower bound on the average wait for a positive value,
    1/Phi(b), and with ``constant`` q on the samples that show one with probability q.

    >>> [negative_bias_samples(b) for b in (-1.0, -2.0, -4.0)]
    [2, 8, 2981]
    """
    b = number("bias", bias, "below 0 (Claim 2 is about negative ones)", above=-math.inf, below=0.0)
    a = b / positive("scale", scale)
    with np.errstate(over="ignore"):
        return samples(positive("constant", constant) * float(np.exp(a * a / 2.0)))


# --- angles: Fact 1, Lemmas 2 to 4 --------------------------------------------------------------


def both_positive_probability(u: ArrayLike, v: ArrayLike) -> float:
    """Fact 1 (10): P[u'z > 0 and v'z > 0] = (pi - theta) / (2 pi), z ~ N(0, I), theta the angle between u and v.

    >>> both_positive_probability([1.0, 0.0], [0.0, 2.0])  # a right angle: a quarter of the plane
    0.25
    """
    directions = []
    for name, value in (("u", u), ("v", v)):
        vector: FloatArray = np.asarray(value, dtype=np.float64)
        norm = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
        if not 0.0 < norm < math.inf:
            raise InvalidParameterError(f"{name} must be a finite vector that is not zero, got {value!r}.")
        directions.append(vector / norm)
    first, second = directions
    if first.shape != second.shape:
        raise InvalidParameterError(f"u and v must have the same length, got {len(first)} and {len(second)}.")
    # theta from the half-angle: accurate for parallel vectors too, where arccos is not.
    theta = 2.0 * math.atan2(float(np.linalg.norm(first - second)), float(np.linalg.norm(first + second)))
    return (math.pi - theta) / (2.0 * math.pi)


def exceedance_probability(model: RectifiedGaussian, i: int, j: int) -> float:
    """Lemma 2 (11): P[x(i) > b(i) and x(j) > b(j)] = (pi - theta_ij) / (2 pi), for biases at or above their floors.

    It depends on the angle alone: theta_ij = pi - 2 pi P is how Wu et al. 2019 and Bulusu et al. 2022 learn the angles
    (14). For a bias below its floor x(i) > b(i) is certain and the lemma false: that is refused.

    >>> model = RectifiedGaussian([0.0, 3.0], [[1.0, 1.0], [1.0, 4.0]])  # cos(theta) = 1/2
    >>> round(exceedance_probability(model, 0, 1), 6)
    0.333333
    """
    pair = model.marginal([i, j])
    if (pair.std == 0.0).any():
        raise InvalidParameterError("Lemma 2 needs rows W(i,:) that are not zero: a constant column has no angle.")
    if (pair.mean < pair.floor).any():
        raise InvalidParameterError(
            f"Lemma 2 holds for biases at or above their floors; those of {i!r} and {j!r} are {pair.mean[0]:g} and"
            f" {pair.mean[1]:g}, with floors {pair.floor[0]:g} and {pair.floor[1]:g}. The default learner needs no such"
            " assumption."
        )
    r = float(pair.correlation[0, 1])
    return (math.pi - math.acos(r)) / (2.0 * math.pi)


def probability_shift(epsilon: float) -> float:
    """Lemma 3 (13): how far P[x(i) > b^(i) and x(j) > b^(j)] may be from the probability of Lemma 2.

    If b^ >= 0 and |b^(i) - b(i)| <= epsilon |W(i,:)| for both, by at most epsilon; vacuous, 1, from epsilon = 1. (The
    proof gives a little more: sqrt(2/pi) epsilon = .80 epsilon.)

    >>> probability_shift(0.01)
    0.01
    """
    return min(positive("epsilon", epsilon), 1.0)


def angle_samples(epsilon: float, delta: float) -> tuple[int, float]:
    """Lemma 4: (samples, bias error) for the cosine of one angle; the constant 80 is the paper's.

    From 80 ln(2/delta) / epsilon^2 samples |cos(theta^_ij) - cos(theta_ij)| <= epsilon with probability 1 - delta, by
    the angle rule (14), if the biases have errors of at most epsilon / (4 pi) times |W(i,:)|: our reading
    (docs/papers.md).

    >>> samples, bias_error = angle_samples(0.1, 0.05)
    >>> samples, round(bias_error, 6)
    (29512, 0.007958)
    """
    epsilon, delta = between_0_and_1("epsilon", epsilon), between_0_and_1("delta", delta)
    return samples(80.0 * math.log(2.0 / delta) / epsilon / epsilon), epsilon / (4.0 * math.pi)


# --- Bulusu et al. 2022: errors of gradient descent with a median ---------------------------------


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
        return self.value >= self.trivial


def gradient_error(
    epsilon: float, *, distance: float, steps: int, convexity: float, smoothness: float, step_size: float | None = None
) -> float:
    """Proposition 4.1 (12): Xi, which bounds the errors of one norm and one bias.

    |S^(i,i) - |W(i,:)|^2| <= Xi |W(i,:)|^2 and |b^(i) - b(i)| <= Xi |W(i,:)|, with V = ``distance``, T = ``steps``,
    eta = ``convexity`` <= L = ``smoothness`` of r (functions of the same names) and the error ``epsilon`` of the
    gradient. The first bound is vacuous from Xi = 1: S^ = 0 does as well. With a ``step_size`` gamma <= 2/(eta + L) the
    first term is that of the usual argument, which contracts by 1 - gamma L eta / (eta + L); else it is as printed.

    >>> gradient_error(0.01, distance=1.0, steps=10, convexity=1.0, smoothness=1.0)
    0.0409765625
    >>> r = {"convexity": 0.5, "smoothness": 2.0}
    >>> error = gradient_error(0.01, distance=1.0, steps=10, step_size=0.5, **r)
    >>> round(error, 4)
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

    The order constants depend on r only. Where the two ranges do not meet, the propositions say nothing about this
    epsilon: it is too small for p. They also ask for epsilon > O(p^(-1/3)), not checked here: with a constant of 1 no
    epsilon below 1 would do.

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
    end the samples grow without bound. (13) confirms this reading of the fraction: :func:`filtered_angle_error`.

    >>> filtered_samples(0.9, p=0.95, delta=0.05)
    27
    """
    p, delta = _true_share(p), between_0_and_1("delta", delta)
    return samples(math.log(1.0 / delta) / (p * _margin(psi, p)) ** 2)


def filtered_angle_error(xi: float, *, psi: float, p: float) -> ErrorBound:
    """Proposition 4.2 (13): |cos(theta^_ij) - cos(theta_ij)| < sqrt(2) pi p (p Psi - 1/2) + 3 pi (1-p) + 2 pi (2-p) Xi.

    ``xi`` is :func:`gradient_error`. Vacuous from 2, the largest difference of cosines: for p below 1 - 2/(3 pi) = .788
    always.

    >>> filtered_angle_error(0.01, psi=0.6, p=0.95)
    ErrorBound(value=0.8326640591513862, trivial=2.0)
    """
    p, xi = _true_share(p), positive("xi", xi)
    value = math.sqrt(2.0) * math.pi * p * _margin(psi, p) + 3.0 * math.pi * (1.0 - p) + 2.0 * math.pi * (2.0 - p) * xi
    return ErrorBound(value, trivial=2.0)


def filtered_weight_error(xi: float, *, psi: float, p: float) -> ErrorBound:
    """Theorem 4.3 (14): |S^ - W W'|_F <= ( sqrt(2) pi p (p Psi - 1/2) + pi (2-p)(3 + 2 Xi) ) |W|_F^2.

    The value is the factor of |W|_F^2. It is always vacuous: 3 pi (2-p) alone is 9.4 or more, and S^ = 0 has an error
    of at most 1.

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
    :func:`gradient_error`. Omega here says what suffices. Neither error goes to 0 with epsilon, so that this is not
    comparable with Theorem 1 of Wu et al. 2019, as the paper itself says.

    >>> filtered_parameter_samples(0.1, 0.05, d=20, p=0.8)
    147
    """
    epsilon, delta, d = between_0_and_1("epsilon", epsilon), between_0_and_1("delta", delta), whole("d", d)
    return samples(positive("constant", constant) / (epsilon * _true_share(p) ** 4) * math.log(d / delta))


def _contraction(convexity: float, smoothness: float, step_size: float | None) -> float:
    """The factor by which a step shortens the distance to the true v: as printed for None, else the usual result."""
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
