"""Derivatives of log densities in mean and covariance, against differences, and densities against scipy's integral."""

import numpy as np
import pytest

from tests.references.hidden import exact_log_density
from unrelu.kernels.likelihood_scores import covariance_scores


def scored(values, censoring, mean, covariance):
    n, d = values.shape
    found = np.empty(n), np.empty(n), np.empty((n, d + d * (d + 1) // 2)), np.empty((2, 0, d))
    log_det = np.linalg.slogdet(covariance)[1]
    covariance_scores(values, censoring, mean, np.ascontiguousarray(np.linalg.inv(covariance)), log_det, *found)
    return found[:3]


@pytest.fixture(scope="module")
def rows():
    """Rows with limits of their own, cells at most and at least them, and missing ones; a model of them."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((6, 2))
    covariance, mean = weights @ weights.T + np.diag(rng.uniform(0.2, 1.0, 6)), 0.5 * rng.standard_normal(6)
    y = rng.multivariate_normal(mean, covariance, size=40)
    low, high = np.where(rng.random(y.shape) < 0.5, -0.2, 0.3), 1.2
    censoring = np.where(y < low, -1, np.where(y > high, 1, 0)).astype(np.int8)
    values = np.clip(y, low, high)
    gone = rng.random(y.shape) < 0.1
    values[gone], censoring[gone] = np.nan, 0
    return values, censoring, mean, covariance


def test_scores_are_derivatives(rows):
    values, censoring, mean, covariance = rows
    scores = scored(*rows)[2].sum(axis=0)
    step, expected = 1e-5, []
    for e in step * np.eye(6):
        ends = [scored(values, censoring, mean + sign * e, covariance)[0].sum() for sign in (1, -1)]
        expected.append((ends[0] - ends[1]) / (2.0 * step))
    for i in range(6):
        for j in range(i + 1):
            e = np.zeros((6, 6))
            e[i, j] = e[j, i] = step
            ends = [scored(values, censoring, mean, covariance + sign * e)[0].sum() for sign in (1, -1)]
            expected.append((ends[0] - ends[1]) / (2.0 * step))
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.slow
def test_corrected_densities_are_those_of_the_integral(rows):
    values, censoring, mean, covariance = rows
    densities, corrections, _ = scored(*rows)
    for k in range(8):
        cut = max(np.count_nonzero(censoring[k]), 1)
        exact = exact_log_density(values[k], censoring[k], mean, covariance)
        assert abs(densities[k] + corrections[k] - exact) < 2e-3 * cut


def test_cut_off_cells_given_the_rest_of_their_row():
    """With one cut-off cell: the conditional normal of a seen row."""
    r = 0.6
    values, censoring = np.array([[0.3, 1.0], [0.3, -1.0]]), np.array([[-1, 0], [-1, 0]], dtype=np.int8)
    cavities = np.ones((2, 2, 2))
    covariance = np.array([[1.0, r], [r, 1.0]])
    rest = np.empty(2), np.empty(2), np.empty((2, 5)), cavities
    covariance_scores(values, censoring, np.array([0.5, 0.0]), np.linalg.inv(covariance), 0.0, *rest)
    np.testing.assert_allclose(cavities[0, :, 0], [0.5 + r, 0.5 - r])
    np.testing.assert_allclose(cavities[1, :, 0], 1.0 - r**2)
    np.testing.assert_array_equal(cavities[:, :, 1], 1.0)  # left as they were
