"""Trajectories between walls: they stay inside, keep energy and distribution, and can be walked back."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.references.hidden_draws import rejection_draws
from unrelu.kernels.hidden_draws import bounce

QUARTER = np.pi / 2


def problem(seed, n):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((n, n))
    v = w @ w.T + 0.3 * np.eye(n)
    return rng, v, rng.normal(-0.3, 0.5, n)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_one_trajectory(n):
    rng, v, gap = problem(n, n)
    inverse, root, bounced = np.linalg.inv(v), np.linalg.cholesky(v), 0
    for c in rejection_draws(np.zeros(n), v, gap, 50, rng):
        s, end = root @ rng.standard_normal(n), np.empty(n)
        begin, energy = c.copy(), c @ inverse @ c + s @ inverse @ s
        free = begin * np.cos(1.2) + s * np.sin(1.2)
        assert bounce(n, v, gap, 1.2, c, s, end)
        assert (c <= gap + 1e-12).all()
        assert c @ inverse @ c + s @ inverse @ s == pytest.approx(energy, rel=1e-9)
        bounced += not np.allclose(c, free)
        back = -s
        assert bounce(n, v, gap, 1.2, c, back, end)
        np.testing.assert_allclose(c, begin, atol=1e-8)
    assert bounced > 5


def test_the_distribution_stays():
    rng, v, gap = problem(7, 3)
    before = rejection_draws(np.zeros(3), v, gap, 5000, rng)
    after, root, end = before.copy(), np.linalg.cholesky(v), np.empty(3)
    for c in after:
        bounce(3, v, gap, 0.7, c, root @ rng.standard_normal(3), end)
    other = rejection_draws(np.zeros(3), v, gap, 20_000, rng)
    assert min(ks_2samp(after[:, j], other[:, j]).pvalue for j in range(3)) > 1e-3
    difference = np.cov(after.T) - np.cov(other.T)
    assert np.abs(difference).max() < 4.0 * np.sqrt(2.0 * (1 / 5000 + 1 / 20_000)) * np.cov(other.T).max()


def test_too_many_bounces_leave_it_where_it_was():
    """y_2 = -y_1 between walls that are 1e-6 apart."""
    v, gap = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([0.0, 1e-6])
    c = np.array([-4e-7, 4e-7])
    assert not bounce(2, v, gap, QUARTER, c, np.array([1.0, -1.0]), np.empty(2))
    np.testing.assert_array_equal(c, [-4e-7, 4e-7])
    assert bounce(2, v, gap, 1e-5, c, np.array([1.0, -1.0]), np.empty(2))
    assert c[0] + c[1] == pytest.approx(0.0, abs=1e-16)
