"""Wu, Dimakis and Sanghavi (2019): samples needed where every row comes from D(W, b), b >= 0.

Symbols as in the paper: epsilon the error, delta the probability to miss it, d columns, kappa the condition number of
W W', theta_ij the angle between the rows W(i,:) and W(j,:). O~ and Omega hide constants (O~ also logarithms) that the
paper does not give. They are the parameter ``constant``: with its default, 1, only the shape means something, how the
number grows with epsilon, delta, d and kappa. Lemma 4 and the probabilities are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.model import RectifiedGaussian
from unrelu.papers.guarantees.arguments import between_0_and_1, number, positive, samples, whole


@dataclass(frozen=True)
class Complexity:
    """Samples, and the orders of time (operations) and space (numbers kept) that Algorithm 1 takes for them.

    >>> parameter_complexity(0.1, 0.05, d=20).samples
    600
    """

    samples: int
    time: float
    space: float


# --- parameters: Theorems 1 and 2 ---------------------------------------------------------------


def parameter_samples(epsilon: float, delta: float, d: int, *, constant: float = 1.0) -> int:
    """Theorem 1: n = O~( 1/epsilon^2 ln(d/delta) ) samples for the parameters.

    From so many samples Algorithm 1 has, with probability 1 - delta (15),

        |S^ - W W'|_F <= epsilon |W|_F^2   and   |b^ - b|_2 <= epsilon |W|_F,

    "weights" and "bias" of :func:`unrelu.metrics.parameter_errors`. ``constant`` is the one that O~ hides, along with
    further logarithms; the paper gives neither. For the rows that our learner needs see :func:`rows_needed`.

    >>> parameter_samples(0.1, 0.05, d=20)
    600
    >>> round(parameter_samples(0.05, 0.05, d=20) / 600, 2)
    4.0
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
    Theorem 1 cannot be improved but for logarithms. The paper does not give ``constant``.

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

    They are :func:`sgd_batches` runs of :func:`sgd_steps`, but for logarithms. The paper does not give ``constant``.

    >>> norm_bias_samples(0.1, 0.05, d=20)
    600
    """
    return parameter_samples(epsilon, delta, d, constant=constant)


def sgd_radius(alpha: float, *, constant: float = 1.0) -> float:
    """r(alpha) = O( ln(1/alpha)/alpha^2 ), after (8): the domain D_r of Algorithm 3, which holds the true v.

    ``alpha`` is the probability to be above the floor, 1/2 or more where b >= 0. The paper does not give ``constant``;
    with 1 it is 2.8 at alpha = 1/2, and the authors take r = 3. Towards alpha = 1 the order says 0, while D_r needs
    r > 1 and v = (1, 0) of rescaled values: there take 3 as well.

    >>> round(sgd_radius(0.5), 2)
    2.77
    """
    alpha = between_0_and_1("alpha", alpha)
    return positive("constant", constant) * math.log(1.0 / alpha) / alpha**2


def sgd_batches(delta: float, d: int, *, constant: float = 1.0) -> int:
    """B = O( ln(d/delta) ), Algorithm 2: the runs of ProjSGD of which the most central one is kept.

    One run succeeds with a constant probability, so many fail in no column with probability 1 - delta. The paper does
    not give ``constant``; its experiments take B = 1. It is ``batches`` of :class:`unrelu.methods.TruncatedSGD`.

    >>> sgd_batches(0.05, d=20)
    6
    """
    delta, d = between_0_and_1("delta", delta), whole("d", d)
    return samples(positive("constant", constant) * math.log(d / delta))


def sgd_steps(epsilon: float, delta: float, d: int, *, constant: float = 1.0) -> int:
    """T = O~( ln(d/delta)/epsilon^2 ), Algorithm 3: the steps of one run of ProjSGD, a value each.

    The paper does not give ``constant``, nor the logarithms that O~ hides.

    >>> sgd_steps(0.1, 0.05, d=20)
    600
    """
    return parameter_samples(epsilon, delta, d, constant=constant)


# --- the distribution: Corollary 1 and Theorem 3 ------------------------------------------------


def distribution_samples(
    epsilon: float, delta: float, d: int, condition_number: float = 1.0, *, constant: float = 1.0
) -> int:
    """Corollary 1: n = O~( kappa^2 d^2/epsilon^2 ln(d/delta) ) samples for the distribution.

    From so many samples the learned law is, with probability 1 - delta, within total variation distance epsilon of the
    true one (16); 0 < epsilon <= 1/2, and W is square and of full rank. ``condition_number`` is kappa, of W W'.
    The paper does not give ``constant``, nor the logarithms that O~ hides.

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
    does not give ``constant``, and thinks that d^2 may be the truth, as for a Gaussian that is not cut off.

    >>> distribution_samples_lower_bound(0.1, d=20)
    2000
    """
    epsilon, d = between_0_and_1("epsilon", epsilon), whole("d", d)
    return samples(positive("constant", constant) * d / epsilon / epsilon)


# --- negative biases: Claim 2 -------------------------------------------------------------------


def negative_bias_samples(bias: float, scale: float = 1.0, *, constant: float = 1.0) -> int:
    """Claim 2: Omega( exp(b^2/2) ) samples to tell D(1, b), b < 0, from D(1, b') with b' < b.

    At least one positive value must be seen, and P(x > 0) = Phi(b) <= exp(-b^2/2). ``scale`` is |W(i,:)|, 1 in the
    paper: what counts is b / scale. The paper does not give ``constant``, but its proof does: exp(b^2/2) is a lower
    bound on the average wait for a positive value, 1/Phi(b), and with ``constant`` q on the samples that show one
    with probability q.

    >>> [negative_bias_samples(b) for b in (-1.0, -2.0, -4.0)]
    [2, 8, 2981]
    """
    b = number("bias", bias, "below 0 (Claim 2 is about negative ones)", above=-math.inf, below=0.0)
    a = b / positive("scale", scale)
    return samples(positive("constant", constant) * _exp(a * a / 2.0))


# --- angles: Fact 1, Lemmas 2 to 4 --------------------------------------------------------------


def both_positive_probability(u: ArrayLike, v: ArrayLike) -> float:
    """Fact 1 (10): P[u'z > 0 and v'z > 0] = (pi - theta) / (2 pi), z ~ N(0, I), theta the angle between u and v.

    >>> both_positive_probability([1.0, 0.0], [0.0, 2.0])  # a right angle: a quarter of the plane
    0.25
    """
    first, second = _direction("u", u), _direction("v", v)
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
    if (pair.row_norms == 0.0).any():
        raise InvalidParameterError("Lemma 2 needs rows W(i,:) that are not zero: a constant column has no angle.")
    if (pair.bias < pair.floor).any():
        raise InvalidParameterError(
            f"Lemma 2 holds for biases at or above their floors; those of {i!r} and {j!r} are {pair.bias[0]:g} and"
            f" {pair.bias[1]:g}, with floors {pair.floor[0]:g} and {pair.floor[1]:g}. The default learner needs no such"
            " assumption."
        )
    r = float(pair.correlation[0, 1])
    return (math.pi - math.acos(r)) / (2.0 * math.pi)


def probability_shift(epsilon: float) -> float:
    """Lemma 3 (13): how far P[x(i) > b^(i) and x(j) > b^(j)] may be from the probability of Lemma 2.

    If b^ >= 0 and |b^(i) - b(i)| <= epsilon |W(i,:)| for both, by at most epsilon. The bound is vacuous, 1, from
    epsilon = 1. (The proof gives a little more: each coordinate contributes at most the largest normal density times
    epsilon, sqrt(2/pi) epsilon = .80 epsilon in all.)

    >>> probability_shift(0.01)
    0.01
    """
    return min(positive("epsilon", epsilon), 1.0)


@dataclass(frozen=True)
class AngleSamples:
    """``samples`` for an angle, given the biases to within ``bias_error`` |W(i,:)|.

    >>> angle_samples(0.1, 0.05).samples
    29512
    """

    samples: int
    bias_error: float


def angle_samples(epsilon: float, delta: float) -> AngleSamples:
    """Lemma 4: 80 ln(2/delta) / epsilon^2 samples for the cosine of one angle; the constant is the paper's.

    From so many samples |cos(theta^_ij) - cos(theta_ij)| <= epsilon with probability 1 - delta, by the angle rule (14).
    The lemma asks that the biases be known as in Lemma 3 and does not say how well. Its constant tells: by Hoeffding's
    inequality 8 pi^2 ln(2/delta) / epsilon^2 samples, 8 pi^2 = 79, keep the angle's sampling error within epsilon/2;
    the other half is left for the biases, whose errors epsilon' |W(i,:)| move the angle by 2 pi epsilon' (Lemma 3), so
    that epsilon' = epsilon / (4 pi). That is ``bias_error`` of the result, our reading.

    >>> angle_samples(0.1, 0.05)
    AngleSamples(samples=29512, bias_error=0.007957747154594767)
    """
    epsilon, delta = between_0_and_1("epsilon", epsilon), between_0_and_1("delta", delta)
    return AngleSamples(samples(80.0 * math.log(2.0 / delta) / epsilon / epsilon), epsilon / (4.0 * math.pi))


def _direction(name: str, value: ArrayLike) -> FloatArray:
    vector: FloatArray = np.asarray(value, dtype=np.float64)
    norm = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
    if not 0.0 < norm < math.inf:
        raise InvalidParameterError(f"{name} must be a finite vector that is not zero, got {value!r}.")
    return vector / norm


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
