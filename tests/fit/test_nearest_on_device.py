"""Pairs made one semidefinite matrix on a device: the solution that the host finds."""

import array_api_strict as strict
import numpy as np
import pytest

import unrelu
from unrelu.fit.nearest import alternate_on, nearest_correlation
from unrelu.passes.device import place_of


def weighted_distance(x, r, stderr):
    off = ~np.eye(len(r), dtype=bool)
    return np.sum(((x - r) / stderr)[off] ** 2)


@pytest.mark.parametrize("rough", [1.0, 1e-4])  # in single and in double precision
def test_the_nearest_semidefinite_matrix_is_that_of_the_host(rough):
    rng = np.random.default_rng(0)
    d = 60
    true = unrelu.synthetic.random_model(d, k=5, random_state=0).correlation
    stderr = 0.1 * rough * rng.uniform(0.5, 2.0, size=(d, d))
    stderr = np.triu(stderr, 1) + np.triu(stderr, 1).T
    noise = np.triu(stderr * rng.normal(size=(d, d)), 1)
    r = true + noise + noise.T
    assert np.linalg.eigvalsh(r)[0] < -1e-3 * rough
    typical = np.median(stderr[stderr > 0.0])
    weights = np.where(stderr > 0.0, (typical / np.where(stderr > 0.0, stderr, 1.0)) ** 2, 1.0)
    x, _, converged = alternate_on(place_of(strict.zeros(1)), r, weights, 0.005 * typical)
    host, *_ = nearest_correlation(r, stderr, d)
    assert converged
    np.testing.assert_allclose(x, host, atol=0.05 * typical)  # both are within .005 of a typical error of the solution
    assert np.linalg.eigvalsh(x)[0] > -1e-12
    np.testing.assert_array_equal(np.diagonal(x), 1.0)
    errors = np.where(stderr > 0.0, stderr, 1.0)
    assert weighted_distance(x, r, errors) < 1.001 * weighted_distance(host, r, errors)
