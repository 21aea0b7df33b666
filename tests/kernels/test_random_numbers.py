"""Streams of rows against plain integers, and their normals against the normal distribution."""

import numpy as np
import pytest
from numba import njit
from scipy.special import log_ndtr
from scipy.stats import kstest

from tests.references import hidden_draws as reference
from unrelu.kernels.random_numbers import normal, normal_below, seed_stream, uniform


@njit
def uniforms(seed, row, out):
    stream = np.empty(4, np.uint64)
    seed_stream(seed, row, stream)
    for i in range(len(out)):
        out[i] = uniform(stream)


@njit
def normals(limit, out):
    stream = np.empty(4, np.uint64)
    seed_stream(1, 2, stream)
    for i in range(len(out)):
        out[i] = normal(stream) if limit == np.inf else normal_below(limit, stream)


def first(seed, row, n):
    out = np.empty(n)
    uniforms(seed, row, out)
    return out


@pytest.mark.parametrize(("seed", "row"), [(0, 0), (0, 1), (1, 0), (2**62, 10**9)])
def test_the_generator_in_plain_integers(seed, row):
    np.testing.assert_array_equal(first(seed, row, 200), reference.uniforms(seed, row, 200))


def test_rows_have_streams_of_their_own():
    """Neighbouring rows and seeds: uniform across streams, and uncorrelated with the next one."""
    across = np.array([first(seed, row, 2) for seed in range(3) for row in range(2000)])
    assert kstest(across.ravel(), "uniform").pvalue > 1e-3
    n = len(across) - 1
    for a, b in [(across[:-1, 0], across[1:, 0]), (across[:, 0], across[:, 1])]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 4.0 / np.sqrt(n)


@pytest.mark.parametrize("limit", [np.inf, 8.0, 0.7, 0.0, -0.49, -0.51, -3.0, -30.0, -1e4])
def test_normals_below_a_limit(limit):
    """Phi(x)/Phi(limit) is uniform; nine limits, so the level is 1e-3/9."""
    x = np.empty(20_000)
    normals(limit, x)
    assert (x <= limit).all()
    assert kstest(np.exp(log_ndtr(x) - log_ndtr(limit)), "uniform").pvalue > 1e-4
