"""The posterior of hidden cells against integrals and rejection sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

from tests.references.hidden import exact_log_density, rejection_draws
from unrelu.kernels.hidden_cells import hidden_rows
from unrelu.posterior.density import Density

NAN = np.nan
PER_CELL = 2e-3  # error of a log probability for each cell that is cut off


def model(d, seed=0, noise=0.4, factors=2):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((d, factors))
    covariance = w @ w.T + noise * np.eye(d)
    return rng.standard_normal(d) * 0.5, covariance


def prepared(mean, covariance):
    scale = np.sqrt(np.diagonal(covariance))
    return Density(mean, scale, covariance / np.outer(scale, scale))


def marks(*signs):
    return np.array(signs, dtype=np.int8)


ROWS = {
    "all seen": ([0.3, -1.0, 2.0, 0.5, 0.0], marks(0, 0, 0, 0, 0)),
    "missing": ([0.3, NAN, 2.0, NAN, 0.0], marks(0, 0, 0, 0, 0)),
    "one at most": ([0.3, -1.0, 2.0, 0.5, 0.0], marks(0, -1, 0, 0, 0)),
    "one at least, one missing": ([0.3, 1.0, NAN, 0.5, 0.0], marks(0, 1, 0, 0, 0)),
    "a pair and a missing cell": ([0.3, 1.0, NAN, 0.5, 0.0], marks(-1, 1, 0, 0, 0)),
    "three": ([0.3, 1.0, 0.2, 0.5, 0.0], marks(-1, 1, 0, -1, 0)),
    "four and a missing cell": ([0.3, 1.0, 0.2, NAN, 0.0], marks(-1, -1, 1, 0, -1)),
    "all at most": ([0.3, 0.0, -0.5, 0.5, 0.0], marks(-1, -1, -1, -1, -1)),
    "all missing": ([NAN] * 5, marks(0, 0, 0, 0, 0)),
}


@pytest.mark.parametrize("name", ROWS)
def test_against_scipy_and_rejection(name):
    mean, covariance = model(5)
    row, censoring = np.array(ROWS[name][0]), ROWS[name][1]
    cells = prepared(mean, covariance)
    few = np.count_nonzero(censoring)
    expected = exact_log_density(row, censoring, mean, covariance)
    found = cells.log_density(row[None], censoring[None])[0]
    assert found == pytest.approx(expected, abs=1e-6 if few <= 2 else few * PER_CELL)
    if name == "all seen":
        return
    hidden, draws = rejection_draws(row, censoring, mean, covariance, 400_000)
    means, stds, *_ = cells.marginals(row[None], censoring[None])
    expected, std = draws.mean(axis=0), draws.std(axis=0)
    error = 4.0 / np.sqrt(len(draws))
    exact = few <= 2
    np.testing.assert_allclose((means[0, hidden] - expected) / std, 0.0, atol=error + (0.0 if exact else 0.02))
    np.testing.assert_allclose(stds[0, hidden] / std, 1.0, atol=error + (0.0 if exact else 0.04))
    np.testing.assert_allclose(means[0, ~hidden], row[~hidden], atol=1e-12)
    joint_mean, joint = cells.joint(row[None], censoring[None])
    np.testing.assert_allclose(joint_mean, means[0])
    correlation = joint[np.ix_(hidden, hidden)] / np.outer(std, std)
    found = np.atleast_2d(np.corrcoef(draws.T))
    np.testing.assert_allclose(correlation, found, atol=2.0 * error + (0.0 if exact else 0.08))


@pytest.mark.parametrize("d", [3, 6, 12, 30, 50])
@pytest.mark.parametrize("r", [0.5, 0.9])
def test_log_probability_of_equally_correlated_cells(d, r):
    """All cells below limits that differ: one integral over the common factor is exact."""
    rng = np.random.default_rng(d)
    limit = rng.standard_normal(d) * 0.7
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    log_terms = log_ndtr((limit - np.sqrt(r) * nodes[:, None]) / np.sqrt(1.0 - r)).sum(axis=1)
    peak = log_terms.max()
    expected = peak + np.log(weights @ np.exp(log_terms - peak) / np.sqrt(2.0 * np.pi))
    cells = Density(np.zeros(d), np.ones(d), np.full((d, d), r) + (1.0 - r) * np.eye(d))
    found = cells.log_density(limit[None], -np.ones((1, d), dtype=np.int8))[0]
    assert abs(found - expected) <= d * PER_CELL


def test_a_pair_in_every_orthant():
    mean, covariance = np.array([0.2, -0.4]), np.array([[1.0, -0.9 * 2.0], [-0.9 * 2.0, 4.0]])
    cells, row = prepared(mean, covariance), np.array([[0.5, 0.1]])
    signs = [marks(a, b) for a in (-1, 1) for b in (-1, 1)]
    total = sum(np.exp(cells.log_density(row, each[None])[0]) for each in signs)
    assert total == pytest.approx(1.0, abs=1e-12)
    # The distribution of total expectation, and of total second moments.
    parts = [(np.exp(cells.log_density(row, each[None])[0]), *cells.joint(row, each[None])) for each in signs]
    np.testing.assert_allclose(sum(p * expected for p, expected, _ in parts), mean, atol=1e-9)
    second = sum(p * (spread + np.outer(expected - mean, expected - mean)) for p, expected, spread in parts)
    np.testing.assert_allclose(second, covariance, atol=1e-6)  # the ridge


@pytest.mark.parametrize("distance", [5.0, 20.0, 38.0])
def test_far_tails_are_finite_and_right(distance):
    """Independent cells factor exactly, however unlikely."""
    d = 3
    cells = Density(np.zeros(d), np.ones(d), np.eye(d))
    row, censoring = np.full((1, d), -distance), -np.ones((1, d), dtype=np.int8)
    # EP is exact here but for its tolerance; the ridge of 1e-8 moves a tail by distance^2 1e-8 / 2.
    assert cells.log_density(row, censoring)[0] == pytest.approx(d * log_ndtr(-distance), rel=1e-7)
    means, stds, *_ = cells.marginals(row, censoring)
    assert (means < row).all()
    assert (stds > 0.0).all()


def test_far_tails_of_correlated_cells_are_finite():
    cells = Density(np.zeros(4), np.ones(4), np.full((4, 4), 0.9) + 0.1 * np.eye(4))
    row, censoring = np.full((1, 4), -38.0), -np.ones((1, 4), dtype=np.int8)
    found = cells.log_density(row, censoring)[0]
    assert -800.0 < found < -700.0
    assert np.isfinite(cells.marginals(row, censoring)[0]).all()


def test_rows_do_not_depend_on_their_batch():
    mean, covariance = model(6)
    cells, rng = prepared(mean, covariance), np.random.default_rng(5)
    values = rng.multivariate_normal(mean, covariance, size=700)
    censoring = rng.integers(-1, 2, size=values.shape).astype(np.int8)
    values[rng.random(values.shape) < 0.1] = NAN
    censoring[np.isnan(values)] = 0
    whole, expected = cells.log_density(values, censoring), cells.marginals(values, censoring)[0]
    order = rng.permutation(700)
    np.testing.assert_array_equal(cells.log_density(values[order], censoring[order]), whole[order])
    np.testing.assert_array_equal(cells.marginals(values[30:31], censoring[30:31])[0], expected[30:31])


def test_the_kernel_leaves_its_rows_alone():
    mean, covariance = model(5)
    cells = prepared(mean, covariance)
    row = np.array([[0.3, 1.0, 0.2, NAN, 0.0]])
    censoring = marks(-1, -1, 1, 0, -1)[None]
    before, marked = row.copy(), censoring.copy()
    moments, spread = np.empty((4, 1, 5)), np.zeros((5, 5))
    hidden_rows(row, censoring, mean, cells.scale, cells.inverse[0], True, np.empty(1), moments, spread)
    np.testing.assert_array_equal(row, before)
    np.testing.assert_array_equal(censoring, marked)
    np.testing.assert_allclose(np.diagonal(spread), moments[1, 0])
