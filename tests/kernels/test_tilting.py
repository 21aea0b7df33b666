"""The tilted proposal: its weights integrate to the probability, its bound is a bound, and the lowest."""

import numpy as np
import pytest
from numba import njit
from scipy.optimize import minimize
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

from unrelu.kernels.hidden_draws import propose, tilt
from unrelu.kernels.random_numbers import seed_stream


def limits(seed, n, shift=0.0):
    """(low, base) of a random covariance: low has a unit diagonal."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((n, n))
    root = np.linalg.cholesky(w @ w.T + 0.3 * np.eye(n))
    own = root.diagonal()
    return root / own[:, None], rng.normal(shift, 1.0, n)


def saddle(low, base):
    n = len(base)
    mu = np.empty(n)
    return tilt(n, low, base, np.empty((2, n, n)), np.empty((6, n)), mu), mu


@njit
def proposals(n, low, base, mu, z, psi):
    stream = np.empty(4, np.uint64)
    seed_stream(3, n, stream)
    for i in range(len(psi)):
        psi[i] = propose(n, low, base, mu, z[i], stream)


def psi_of(z, low, base, mu):
    room = base - low @ z + z
    return np.sum(0.5 * mu**2 - mu * z + log_ndtr(room - mu))


def highest(low, base, mu):
    """The maximum of psi over z."""
    found = minimize(lambda z: -psi_of(z, low, base, mu), np.zeros(len(mu)), method="BFGS", options={"gtol": 1e-7})
    return -found.fun


@pytest.mark.parametrize(("n", "shift"), [(1, 0.0), (2, 0.0), (3, -2.0), (5, 0.5), (8, -1.0)])
def test_the_bound_is_the_lowest_maximum(n, shift):
    low, base = limits(n, n, shift)
    bound, mu = saddle(low, base)
    assert bound == pytest.approx(highest(low, base, mu), abs=1e-6)
    for step in np.random.default_rng(0).normal(0.0, 0.05, (3, n)):
        step[-1] = 0.0  # the last mu is 0: another would let psi grow without end
        assert highest(low, base, mu + step) >= bound - 1e-9


@pytest.mark.parametrize(("n", "shift"), [(2, 0.0), (3, -1.0), (5, 0.0)])
def test_weights_integrate_to_the_probability(n, shift):
    low, base = limits(10 + n, n, shift)
    bound, mu = saddle(low, base)
    z, psi = np.empty((20_000, n)), np.empty(20_000)
    proposals(n, low, base, mu, z, psi)
    assert (z @ low.T <= base + 1e-12).all()
    assert psi.max() <= bound + 1e-9
    np.testing.assert_allclose(psi[:50], [psi_of(row, low, base, mu) for row in z[:50]], rtol=1e-9)
    exact = multivariate_normal.cdf(base, cov=low @ low.T, abseps=1e-7, releps=1e-6)
    weight = np.exp(psi)
    assert weight.mean() == pytest.approx(exact, abs=4.0 * weight.std() / np.sqrt(len(psi)) + 1e-6)


@pytest.mark.parametrize("base", [-1000.0, -30.0, 30.0, 1e6])
def test_limits_far_out(base):
    """The equations hold to rounding wherever the limits are, and for nearly dependent cells."""
    for r in (0.0, 0.99, -0.99):
        root = np.linalg.cholesky([[1.0, r], [r, 1.0]])
        low, scaled = root / root.diagonal()[:, None], base / root.diagonal()
        bound, mu = saddle(low, scaled)
        z, psi = np.empty((300, 2)), np.empty(300)
        proposals(2, low, scaled, mu, z, psi)
        assert np.isfinite(bound)
        assert psi.max() <= bound + 1e-9 * max(1.0, abs(bound))
        assert np.exp(psi - bound).mean() > 0.5
