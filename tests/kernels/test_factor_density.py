"""Against the kernel for any correlations, which takes the same steps with all of them, and against quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from unrelu.passes.tiles import censoring_of
from unrelu.posterior.density import Density


def factor_model(d, k, seed=0):
    """(mean, scale, correlation, loadings), 10 to 90 % of every column in common."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((d, k))
    if k:
        loadings *= np.sqrt(rng.uniform(0.1, 0.9, (d, 1))) / np.linalg.norm(loadings, axis=1, keepdims=True)
    correlation = loadings @ loadings.T
    np.fill_diagonal(correlation, 1.0)
    return rng.normal(0.2, 0.4, d), rng.uniform(0.5, 2.0, d), correlation, loadings


def rows_of(mean, scale, correlation, n=60, seed=1):
    """Rows of the model with some cells missing; the first is all floored, the second all seen, the third missing."""
    rng = np.random.default_rng(seed)
    x = np.maximum(mean + scale * rng.multivariate_normal(np.zeros(len(mean)), correlation, n), 0.0)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[0], x[1], x[2] = 0.0, 1.5, np.nan
    return x


@pytest.mark.parametrize(("d", "k"), [(1, 0), (4, 1), (12, 3), (40, 5), (60, 0)])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_as_with_all_correlations(d, k, kind):
    mean, scale, correlation, loadings = factor_model(d, k)
    x = rows_of(mean, scale, correlation).astype(kind)
    floor = np.zeros(d)
    dense = Density(mean, scale, correlation, floor)
    few = Density(mean, scale, correlation, floor, loadings)
    swept = [each.log_density(x, converged=False) for each in (few, dense)]
    np.testing.assert_allclose(*swept, rtol=1e-9, atol=1e-9)
    # Both are expectation propagation, corrected; where two cells are floored the one is exact.
    pairs = np.count_nonzero(x == 0.0, axis=1) == 2
    settled = [each.log_density(x) for each in (few, dense)]
    np.testing.assert_allclose(settled[0][~pairs], settled[1][~pairs], rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(settled[0][pairs], settled[1][pairs], atol=4e-3)
    np.testing.assert_array_equal(few.score(x) - settled[0], dense.score(x) - settled[1])


def test_a_column_without_variance():
    mean, scale, correlation, loadings = factor_model(5, 2)
    scale[3] = 0.0
    x = rows_of(mean, np.where(scale > 0.0, scale, 0.0), correlation)
    x[5, 3] = 7.0
    floor = np.zeros(5)
    few, dense = Density(mean, scale, correlation, floor, loadings), Density(mean, scale, correlation, floor)
    swept = [each.log_density(x, converged=False) for each in (few, dense)]
    np.testing.assert_allclose(*swept, rtol=1e-9, atol=1e-12)


def test_one_floored_cell_is_exact():
    """By quadrature over the one factor: the filter's normal is exact where one cell is floored."""
    loadings = np.array([[0.8], [0.6], [-0.7]])
    correlation = loadings @ loadings.T
    np.fill_diagonal(correlation, 1.0)
    x = np.array([[0.9, 0.0, 0.4]])
    noise = 1.0 - loadings[:, 0] ** 2

    def joint(f):
        seen = norm.pdf(x[0, [0, 2]], loadings[[0, 2], 0] * f, np.sqrt(noise[[0, 2]])).prod()
        return norm.pdf(f) * seen * norm.cdf(-loadings[1, 0] * f / np.sqrt(noise[1]))

    scores = Density(np.zeros(3), np.ones(3), correlation, np.zeros(3), loadings)
    assert scores.log_density(x)[0] == pytest.approx(np.log(quad(joint, -9.0, 9.0, epsabs=1e-13)[0]), abs=1e-6)


def test_at_least_is_at_most_negated():
    mean, scale, correlation, loadings = factor_model(12, 3)
    x = rows_of(mean, scale, correlation)
    x, marks = censoring_of(x, None, np.zeros(12))
    sign = np.where(np.arange(12) % 3 == 0, -1.0, 1.0)
    upright = Density(mean, scale, correlation, loadings=loadings)
    turned = Density(sign * mean, scale, correlation * np.outer(sign, sign), loadings=loadings * sign[:, None])
    for converged in (False, True):
        given = x * sign, (marks * sign).astype(np.int8), converged
        np.testing.assert_allclose(turned.log_density(*given), upright.log_density(x, marks, converged), rtol=1e-10)
