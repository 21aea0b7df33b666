"""Program (47): its minimizers against a general solver, the factor mu, the rule for lambda, and bad input."""

import numpy as np
import pytest
from scipy.stats import norm

import unrelu
from tests.references import latent as reference
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.recovery import LatentLasso
from unrelu.recovery.latent_methods import mean_slope, penalty_rule, solve_lasso

SIZES = pytest.mark.parametrize(("d", "k"), [(30, 1), (40, 3), (120, 10)])


@SIZES
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("threshold", [0.05, 0.5, 3.0, 1e3])
def test_minimizers_of_47(d, k, intercept, threshold):
    A, _, _, v, _ = reference.draw(np.random.default_rng(d), d, k, share=0.3, noise=0.1)
    found, sparse, offset = solve_lasso(A, v, threshold / d, intercept)
    c, e, level = reference.program_47(A, v, threshold / d, intercept)
    assert np.abs(found - c).max() < 1e-6
    assert np.abs(sparse - e).max() < 1e-6
    assert offset == pytest.approx(level, abs=1e-6)
    lowest = reference.value_47(A, v, found, sparse, threshold / d, offset)
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-1):
        near = found + size * rng.standard_normal(k), sparse + size * rng.standard_normal(d)
        assert reference.value_47(A, v, *near, threshold / d, offset) > lowest


@pytest.mark.parametrize("threshold", [1e-9, 1e-6, 1e-3, 0.01])
def test_optimality_where_hardly_any_entry_is_within_the_threshold(threshold):
    """The gradient A'clip(r, t) vanishes at the minimum; lambda -> 0 is least absolute deviations."""
    for seed in range(10):
        A, _, _, v, _ = reference.draw(np.random.default_rng(seed), 60, 5, share=0.3, noise=0.1)
        residual = v - A @ solve_lasso(A, v, threshold / 60, False)[0]
        assert np.abs(A.T @ np.clip(residual / threshold, -1.0, 1.0)).max() < 1e-4


def test_e_is_what_is_left_beyond_the_threshold():
    A, b, _, v, _ = reference.draw(np.random.default_rng(0), 80, 4, share=0.2)
    result = unrelu.recover_latent(A, b, v, LatentLasso(penalty=1.0 / 80))
    found, sparse, _ = solve_lasso(A, v, 1.0 / 80, False)
    assert np.array_equal(result.outliers, sparse)
    assert np.array_equal(result.inliers, sparse == 0.0)
    assert np.allclose(result.latent, found / norm.cdf(b).mean())


@pytest.mark.parametrize("size", [1.0, 2.0])
def test_c_is_found_up_to_the_papers_error(size):
    A, b, c, v, _ = reference.draw(np.random.default_rng(1), 20000, 4, share=0.01, norm=size)
    found = unrelu.recover_latent(A, b, v, LatentLasso(norm=size)).latent
    # z has standard deviation below size; 6 standard errors of 4 coefficients over mu = 1/2
    assert np.linalg.norm(found - c) < 6 * size * np.sqrt(4 / 20000) / 0.5


@pytest.mark.parametrize("size", [1e8, 1e30, 1e200])
def test_an_outlier_of_any_size(size):
    """Beyond the threshold only the sign of an entry counts, whatever its size."""
    A, b, _, v, _ = reference.draw(np.random.default_rng(3), 100, 5)
    v[7] = 1e3
    expected = unrelu.recover_latent(A, b, v, "lasso").latent
    v[7] = size
    np.testing.assert_allclose(unrelu.recover_latent(A, b, v, "lasso").latent, expected, atol=1e-6)


def test_a_wrong_norm_is_wrong():
    """So that the test above is one of ``norm``, which only matters with a bias."""
    A, b, c, *_ = reference.draw(np.random.default_rng(1), 20000, 4, norm=2.0)
    v = np.maximum(A @ c + b + 1.0, 0.0)
    errors = {
        size: np.linalg.norm(unrelu.recover_latent(A, b + 1.0, v, LatentLasso(norm=size)).latent - c)
        for size in (0.1, 2.0)
    }
    assert errors[2.0] < 6 * 2.0 * np.sqrt(4 / 20000) / 0.5
    assert errors[0.1] > 2 * errors[2.0]


def test_mean_slope_is_stein_s():
    rng = np.random.default_rng(2)
    b, size = np.array([-1.0, 0.0, 2.0]), 2.0
    g = rng.standard_normal(400_000)
    drawn = np.mean([np.maximum(size * g + x, 0.0) * g / size for x in b], axis=0)
    assert mean_slope(b, size) == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(len(g)))


@pytest.mark.parametrize(("size", "shift"), [(1.0, 0.0), (2.0, 0.0), (1.0, -1.5), (0.5, 2.0)])
def test_the_rule_for_lambda(size, shift):
    rng = np.random.default_rng(3)
    b = rng.standard_normal(50) + shift
    mu = norm.cdf(b / size).mean()
    x = size * rng.standard_normal((20000, 50))
    largest = np.abs(np.maximum(x + b, 0.0) - mu * x).max(axis=1)
    q = 50 * penalty_rule(b, size, 0.0) / 2
    assert np.mean(largest <= q) == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 20000))
    assert 50 * penalty_rule(b, size, 0.3) / 2 == pytest.approx(q + 0.3, rel=1e-9)


def test_the_intercept_takes_the_mean():
    A, b, c, *_ = reference.draw(np.random.default_rng(4), 4000, 3)
    b = b + 3.0
    v = np.maximum(A @ c + b, 0.0)
    v[:80] += 20.0
    errors = [
        np.linalg.norm(unrelu.recover_latent(A, b, v, LatentLasso(intercept=intercept)).latent - c)
        for intercept in (True, False)
    ]
    assert errors[0] < 0.1
    assert errors[0] < errors[1]


def test_missing_entries_are_left_out():
    rng = np.random.default_rng(5)
    A, b, _, v, _ = reference.draw(rng, 90, 3, share=0.2)
    missing = rng.random(90) < 0.3
    result = unrelu.recover_latent(A, b, np.where(missing, np.nan, v), "lasso")
    alone = unrelu.recover_latent(A[~missing], b[~missing], v[~missing], "lasso")
    assert np.array_equal(result.latent, alone.latent)
    assert np.isnan(result.outliers[missing]).all()
    assert not result.inliers[missing].any()


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, "x"])
def test_bad_parameters(wrong):
    with pytest.raises(InvalidParameterError, match="penalty"):
        LatentLasso(penalty=wrong)
    with pytest.raises(InvalidParameterError, match="norm"):
        LatentLasso(norm=wrong)
    if wrong != 0.0:
        with pytest.raises(InvalidParameterError, match="noise_bound"):
            LatentLasso(noise_bound=wrong)


def test_bad_layers_and_priors():
    with pytest.raises(InvalidParameterError, match="fewer rows"):
        unrelu.recover_latent(np.ones((3, 5)), np.ones(3), np.ones(3), "lasso")
    with pytest.raises(InvalidParameterError, match="takes no prior"):
        unrelu.recover_latent(np.ones((3, 1)), np.ones(3), np.ones(3), "lasso", prior="gaussian")


def test_a_layer_that_is_off():
    A, _, _, v, _ = reference.draw(np.random.default_rng(6), 30, 2)
    with pytest.raises(InvalidDataError, match="The layer is off nearly everywhere"):
        unrelu.recover_latent(A, np.full(30, -50.0), v, "lasso")


def test_fewer_entries_seen_than_numbers():
    A, b, _, v, _ = reference.draw(np.random.default_rng(7), 30, 4)
    v[2:], v[:2] = np.nan, 1.0
    with pytest.raises(InvalidDataError):
        unrelu.recover_latent(A, b, v, "lasso")
