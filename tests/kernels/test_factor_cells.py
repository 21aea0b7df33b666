"""Factors plus noise against the same distribution as a covariance, and scores against differences."""

import numpy as np
import pytest

from tests.kernels.test_covariance_scores import scored
from unrelu.kernels.factor_density import factor_scores


def factor_scored(values, censoring, theta, k):
    n, d = values.shape
    densities, corrections, scores = np.empty(n), np.empty(n), np.empty((n, d * (k + 2)))
    mean, weights, noise = theta[:d], theta[d : d + d * k].reshape(d, k), np.exp(theta[d + d * k :])
    factor_scores(values, censoring, mean, weights, noise, densities, corrections, scores)
    return densities, corrections, scores


@pytest.fixture(scope="module", params=[0, 1, 3])
def rows(request):
    k, d = request.param, 7
    rng = np.random.default_rng(k)
    weights, noise, mean = rng.standard_normal((d, k)), rng.uniform(0.2, 1.0, d), 0.5 * rng.standard_normal(d)
    y = mean + rng.standard_normal((60, k)) @ weights.T + rng.standard_normal((60, d)) * np.sqrt(noise)
    low = np.where(rng.random(y.shape) < 0.5, -0.2, 0.3)
    censoring = np.where(y < low, -1, np.where(y > 1.2, 1, 0)).astype(np.int8)
    values = np.clip(y, low, 1.2)
    gone = rng.random(y.shape) < 0.1
    values[gone], censoring[gone] = np.nan, 0
    return values, censoring, np.concatenate([mean, weights.ravel(), np.log(noise)]), k


def test_the_distribution_is_that_of_its_covariance(rows):
    values, censoring, theta, k = rows
    d = values.shape[1]
    weights, noise = theta[d : d + d * k].reshape(d, k), np.exp(theta[d + d * k :])
    dense, dense_corrections, _ = scored(values, censoring, theta[:d], weights @ weights.T + np.diag(noise))
    pairs = np.count_nonzero(censoring, axis=1) == 2  # done exactly where the covariance is known
    found, corrections, _ = factor_scored(values, censoring, theta, k)
    np.testing.assert_allclose(found[~pairs], dense[~pairs], atol=1e-8)
    np.testing.assert_allclose((found + corrections)[pairs], dense[pairs], atol=4e-3)
    np.testing.assert_allclose(corrections[~pairs], dense_corrections[~pairs], atol=1e-6)


def test_scores_are_derivatives(rows):
    values, censoring, theta, k = rows
    scores = factor_scored(values, censoring, theta, k)[2].sum(axis=0)
    step = 1e-5
    for j, e in enumerate(step * np.eye(len(theta))):
        ends = [factor_scored(values, censoring, theta + sign * e, k)[0].sum() for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2.0 * step) == pytest.approx(scores[j], abs=1e-4)
