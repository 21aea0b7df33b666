"""What the papers leave open: curvature of the truncated likelihood, radius, batches and steps, Proposition 1."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from unrelu import guarantees
from unrelu.errors import InvalidParameterError
from unrelu.papers.batches import truncated_moments
from unrelu.papers.guarantees.learning import curvatures


def covariance_by_quadrature(first: float, second: float) -> np.ndarray:
    """Cov(-z^2/2, z) of z ~ N(mu, sigma^2) above 0, v = (1/sigma^2, mu/sigma^2), from raw moments."""
    mode = max(second / first, 0.0)
    width = 1.0 / math.sqrt(first)
    ends = [0.0, *(x for x in (mode - 4 * width, mode, mode + 4 * width) if x > 0.0), mode + 14 * width]

    def moment(k: int) -> float:
        def density(z: float) -> float:
            return float(z**k * math.exp(second * (z - mode) - 0.5 * first * (z * z - mode * mode)))

        return sum(quad(density, a, b, epsabs=0.0, epsrel=1e-12)[0] for a, b in pairwise(ends))

    m = np.array([moment(k) for k in range(5)]) / moment(0)
    between = -0.5 * (m[3] - m[1] * m[2])
    return np.array([[0.25 * (m[4] - m[2] ** 2), between], [between, m[2] - m[1] ** 2]])


@pytest.mark.parametrize("v", [(1 / 3, 3.0), (3.0, -3.0), (1.0, 0.0), (1 / 3, -3.0), (3.0, 3.0), (0.8, 1.7)])
def test_curvatures_are_eigenvalues_of_the_covariance(v):
    np.testing.assert_allclose(curvatures(*v), np.linalg.eigvalsh(covariance_by_quadrature(*v)), rtol=1e-7)


def test_the_covariance_is_the_derivative_of_the_gradient():
    """H is the Jacobian of the closed-form half of the gradient, which Algorithm 2 descends by."""

    def gradient(v: np.ndarray) -> np.ndarray:
        mean, square = truncated_moments(v[1] / v[0], math.sqrt(1.0 / v[0]))
        return np.array([-0.5 * square, mean])

    v, h = np.array([0.7, 0.9]), 1e-5
    jacobian = np.array([(gradient(v + h * e) - gradient(v - h * e)) / (2 * h) for e in np.eye(2)])
    np.testing.assert_allclose(np.linalg.eigvalsh(jacobian), curvatures(*v), rtol=1e-7)


@pytest.mark.parametrize("radius", [1.2, 3.0, 7.0])
def test_convexity_and_smoothness_bound_every_point_of_the_domain(radius):
    """Against brute force: no point of D_r goes beyond them, and the best of many comes close."""
    rng = np.random.default_rng(0)
    first = np.append(np.exp(rng.uniform(-math.log(radius), math.log(radius), 1500)), [radius, 1 / radius] * 2)
    second = np.append(rng.uniform(-radius, radius, 1500), [-radius, -radius, radius, radius])
    both = np.array([curvatures(a, b) for a, b in zip(first, second, strict=True)])
    eta, big_l = guarantees.convexity(radius), guarantees.smoothness(radius)
    assert eta * (1.0 - 1e-9) <= both[:, 0].min() <= 1.001 * eta
    assert 0.999 * big_l <= both[:, 1].max() <= big_l * (1.0 + 1e-9)


def test_their_orders_for_large_domains():
    assert guarantees.convexity(1000.0) * 1e12 == pytest.approx(1.0, abs=0.02)
    assert guarantees.smoothness(1000.0) / 1e15 == pytest.approx(1.0, rel=1e-6)


def test_gradient_descent_converges_as_they_say():
    """With a step of 1/L the distance to the minimum falls by sqrt(1 - eta/L) a step, or more."""
    eta, big_l = guarantees.convexity(2.0), guarantees.smoothness(2.0)
    best, v = np.array([1.0, 0.5]), np.array([0.6, -1.0])

    def gradient(v: np.ndarray) -> np.ndarray:
        (mean, square), (m, s) = (truncated_moments(x[1] / x[0], math.sqrt(1.0 / x[0])) for x in (v, best))
        return np.array([0.5 * (s - square), mean - m])

    for _ in range(200):
        moved = v - gradient(v) / big_l
        assert np.linalg.norm(moved - best) <= math.sqrt(1.0 - eta / big_l) * np.linalg.norm(v - best)
        v = moved


@pytest.mark.parametrize("radius", [1.0, 0.5, math.nan, math.inf, 2000.0])
def test_a_domain_needs_a_radius(radius):
    for function in (guarantees.convexity, guarantees.smoothness):
        with pytest.raises(InvalidParameterError, match="radius must be above 1"):
            function(radius)


def test_radius_batches_and_steps_are_the_papers_orders():
    """Wu et al. 2019, after (8), Algorithms 2 and 3, Lemma 1: by their ratios, whatever the constants."""
    for alpha in (0.5, 0.6, 0.9):
        assert guarantees.sgd_radius(alpha, constant=2.0) == pytest.approx(-2.0 * math.log(alpha) / alpha**2)
    assert 2.5 < guarantees.sgd_radius(0.5) < 3.0  # the authors take 3
    assert guarantees.sgd_batches(0.01, 100) == math.ceil(math.log(1e4))
    assert guarantees.sgd_batches(0.01, 100, constant=3.0) == math.ceil(3 * math.log(1e4))
    for function in (guarantees.sgd_steps, guarantees.norm_bias_samples):
        assert function(0.05, 0.01, 100) == math.ceil(400 * math.log(1e4))
        assert function(0.05, 0.01, 100) / function(0.1, 0.01, 100) == pytest.approx(4.0, rel=1e-3)
        assert function(0.05, 0.01, 100, constant=0.5) == math.ceil(200 * math.log(1e4))
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(InvalidParameterError, match="alpha"):
            guarantees.sgd_radius(wrong)
        with pytest.raises(InvalidParameterError, match="delta"):
            guarantees.sgd_batches(wrong, 5)


def test_batches_make_failure_rare():
    """What B is for: most of B runs, each good with probability 2/3, are good in all d columns, nearly always."""
    rng = np.random.default_rng(1)
    d, delta = 20, 0.05
    runs = guarantees.sgd_batches(delta, d, constant=18.0)  # Hoeffding: exp(-B/18) <= delta/d
    wins = rng.binomial(runs, 2 / 3, size=(4000, d))
    failed = np.mean((wins <= runs / 2).any(axis=1))
    assert failed <= delta


def test_one_bit_completion_by_its_terms():
    """(22), written out for a grid of sizes."""
    for rank, d, n, observed, alpha in ((1, 10, 20, 100.0, 1.0), (3, 50, 50, 2500, 2.0), (2, 400, 30, 999.5, 0.1)):
        total = d + n
        variance = rank * total / observed
        logs = total * (math.log(d) + math.log(n)) / observed
        expected = alpha * math.exp(0.5 * math.log(variance) + 0.5 * math.log1p(logs))
        found = guarantees.one_bit_completion_error(rank, d, n, observed, alpha=alpha)
        assert found == pytest.approx(expected, rel=1e-12)
        assert guarantees.one_bit_completion_error(rank, d, n, observed, alpha=alpha, constant=7.0) == pytest.approx(
            7.0 * expected
        )
    with pytest.raises(InvalidParameterError, match="rank must be at most 10"):
        guarantees.one_bit_completion_error(11, 10, 20, 100)
    with pytest.raises(InvalidParameterError, match="observed must be above 0 and at most d n = 200"):
        guarantees.one_bit_completion_error(1, 10, 20, 201)
