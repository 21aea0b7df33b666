import numpy as np
import pytest
from scipy import integrate, stats

from unrelu.papers import batches as kernel


@pytest.mark.parametrize(("low", "mean", "sd"), [(0.0, 1.0, 1.0), (-0.7, 0.2, 2.0), (1.0, 0.0, 1.0), (5.0, 0.0, 0.8)])
def test_draws_follow_the_truncated_normal(low, mean, sd):
    rng = np.random.default_rng(0)
    draws = np.array([kernel.draw_above(rng, low, mean, sd) for _ in range(20_000)])
    distribution = stats.truncnorm((low - mean) / sd, np.inf, mean, sd)
    assert stats.kstest(draws, distribution.cdf).pvalue > 1e-3
    assert draws.min() > low


@pytest.mark.parametrize(("mu", "sigma"), [(1.0, 1.0), (0.0, 2.0), (-1.5, 0.7), (6.0, 1.0)])
def test_truncated_moments_are_the_integrals(mu, sigma):
    distribution = stats.norm(mu, sigma)
    mass, _ = integrate.quad(distribution.pdf, 0, mu + 12 * sigma)
    expected = [integrate.quad(lambda z, k=k: z**k * distribution.pdf(z) / mass, 0, mu + 12 * sigma)[0] for k in (1, 2)]
    np.testing.assert_allclose(kernel.truncated_moments(mu, sigma), expected, rtol=1e-8)


def test_projection():
    for v, expected in [([9.0, -9.0], [3, -3]), ([0.1, 0.5], [1 / 3, 0.5]), ([1.0, 1.0], [1, 1])]:
        array = np.array(v)
        kernel.project(array, 3.0)
        np.testing.assert_allclose(array, expected)


def test_closed_descent_ends_where_the_gradient_vanishes():
    """Given the exact moments of a truncated normal, the only stationary point is that normal."""
    mean, square = kernel.truncated_moments(0.8, 1.1)
    v = np.empty(2)
    kernel.closed_descent(np.array([[0.5 * square, -mean]]), 400_000, 0.1, 3.0, v)  # steps 10/t converge slowly
    assert v[1] / v[0] == pytest.approx(0.8, abs=2e-3)
    assert 1 / np.sqrt(v[0]) == pytest.approx(1.1, abs=2e-3)


def test_sampled_descent_is_the_truncated_maximum_likelihood():
    rng = np.random.default_rng(1)
    x = stats.truncnorm.rvs(-0.8, np.inf, 0.8, 1.0, size=200_000, random_state=rng)
    centred = (x - x.mean()) / x.std()
    sums = np.stack(
        [np.full(20_000, 10.0), *(f.reshape(-1, 10).sum(axis=1) for f in (centred, centred**2 / 2))], axis=1
    )
    v = np.empty(2)
    kernel.sampled_descent(sums, -x.mean() / x.std(), 0.1, 3.0, 3, np.random.default_rng(2), v)
    mu, sigma = x.mean() + x.std() * v[1] / v[0], x.std() / np.sqrt(v[0])
    # Fisher information of the truncated normal in (mu, sigma), by simulation of its score.
    u = x - 0.8
    ratio = stats.norm.pdf(0.8) / stats.norm.cdf(0.8)
    score = np.stack([u - ratio, u**2 - 1 + 0.8 * ratio])
    error = np.sqrt(np.diag(np.linalg.inv(np.cov(score))) / len(x))
    # One z a value would double the variance; three make it 4/3, and the averaging of early iterates adds a little.
    assert abs(mu - 0.8) < 5 * error[0]
    assert abs(sigma - 1.0) < 5 * error[1]
