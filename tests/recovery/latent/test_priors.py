"""What is known of c: a normal distribution gives the posterior mean, a Laplace distribution zeros, a sign no
negative entry."""

import numpy as np
import pytest
from scipy.optimize import nnls

import unrelu
from tests.references import latent as reference
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.recovery import GaussianPrior, NonnegativePrior, RobustLatent, SparsePrior


def bounded_noise(seed, d=80, k=5, size=0.05):
    """Noise within 1.7 size, so that every entry agrees with c; every entry on."""
    rng = np.random.default_rng(seed)
    A, c = rng.standard_normal((d, k)), rng.standard_normal(k)
    b = np.full(d, 20.0)
    return A, b, c, A @ c + b + size * rng.uniform(-1.7, 1.7, d)


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_gaussian_is_the_posterior_mean(scale):
    A, b, _, v = bounded_noise(0)
    result = unrelu.recover_latent(A, b, v, RobustLatent(GaussianPrior(scale), noise_scale=0.05))
    precision = A.T @ A / 0.05**2 + np.eye(5) / scale**2
    assert result.inliers.all()
    assert np.abs(result.latent - np.linalg.solve(precision, A.T @ (v - b) / 0.05**2)).max() < 1e-9
    assert np.allclose(result.covariance, np.linalg.inv(precision))


def test_gaussian_shields_from_outliers():
    for seed in range(5):
        A, b, c, v, _ = reference.draw(np.random.default_rng(seed), 60, 8, share=0.4, noise=0.02)
        result = unrelu.recover_latent(A, b, v, prior="gaussian")
        assert np.linalg.norm(result.latent - c) < 0.1


@pytest.mark.filterwarnings("ignore::unrelu.errors.RecoveryWarning")
def test_gaussian_with_fewer_outputs_than_latent_numbers():
    rng = np.random.default_rng(1)
    A, b, c = rng.standard_normal((6, 10)), np.full(6, 20.0), rng.standard_normal(10)
    v = A @ c + b + 0.01 * rng.uniform(-1.7, 1.7, 6)
    result = unrelu.recover_latent(A, b, v, RobustLatent(GaussianPrior(), noise_scale=0.01))
    precision = A.T @ A / 0.01**2 + np.eye(10)
    assert np.abs(result.latent - np.linalg.solve(precision, A.T @ (v - b) / 0.01**2)).max() < 1e-4
    assert np.allclose(result.covariance, np.linalg.inv(precision), atol=1e-9)
    result = unrelu.recover_latent(A, b, v, prior="gaussian")
    assert np.isfinite(result.latent).all()
    assert np.abs(A @ result.latent + b - v).max() < 0.5
    assert np.linalg.norm(result.latent) < 1.5 * np.linalg.norm(c)


def test_gaussian_with_dependent_columns_and_few_active_entries():
    result = unrelu.recover_latent(np.ones((9, 2)), np.ones(9), np.full(9, 2.0), prior="gaussian")
    assert result.latent == pytest.approx([0.5, 0.5], abs=1e-3)
    A, b, _, v, _ = reference.draw(np.random.default_rng(2), 30, 5)
    v[3:] = 0.0
    assert np.isfinite(unrelu.recover_latent(A, b, v, prior="gaussian").latent).all()


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_is_exact_where_c_is(seed):
    rng = np.random.default_rng(seed)
    A, b, c = rng.standard_normal((100, 8)), rng.standard_normal(100), np.abs(rng.standard_normal(8))
    c[:4] = 0.0
    v = np.maximum(A @ c + b, 0.0)
    v[:30] += np.abs(10.0 * rng.standard_normal(30))
    result = unrelu.recover_latent(A, b, v, prior="nonnegative")
    assert (result.latent >= 0.0).all()
    assert np.abs(result.latent - c).max() < 1e-6


def test_nonnegative_is_nonnegative_least_squares():
    A, b, c, v = bounded_noise(3, size=0.5)
    assert (c < 0.0).any()
    result = unrelu.recover_latent(A, b, v, RobustLatent(NonnegativePrior(), noise_scale=5.0))
    assert result.inliers.all()
    assert np.abs(result.latent - nnls(A, v - b)[0]).max() < 1e-8


def test_sparse_gives_zeros():
    rng = np.random.default_rng(4)
    A, b, c = rng.standard_normal((200, 12)), np.full(200, 30.0), np.zeros(12)
    c[:3] = 1.0, -0.5, 1.0
    v = A @ c + b + 0.3 * rng.uniform(-1.7, 1.7, 200)
    prior = SparsePrior(0.01)
    result = unrelu.recover_latent(A, b, v, RobustLatent(prior, noise_scale=0.3))
    expected = reference.penalized(A.T @ A / 0.09, A.T @ (v - b) / 0.09, 100.0, False)
    assert np.abs(result.latent - expected).max() < 1e-5
    assert (result.latent[3:] == 0.0).sum() >= 7
    assert (result.latent[:3] != 0.0).all()


def test_sparse_with_fewer_outputs_than_latent_numbers():
    rng = np.random.default_rng(5)
    A, b, c = rng.standard_normal((40, 60)), np.full(40, 20.0), np.zeros(60)
    c[[3, 30]] = 2.0, -2.0
    result = unrelu.recover_latent(A, b, A @ c + b, RobustLatent(SparsePrior(0.5), noise_scale=0.05))
    assert np.abs(result.latent - c).max() < 0.05


def test_improper_priors_need_enough_entries():
    A, b, *_ = reference.draw(np.random.default_rng(6), 30, 5)
    with pytest.raises(InvalidDataError, match="only 3 entries"):
        unrelu.recover_latent(A, b, np.concatenate([np.ones(3), np.zeros(27)]), prior="nonnegative")
    with pytest.raises(InvalidParameterError, match="fewer rows"):
        unrelu.recover_latent(A[:3], b[:3], np.ones(3), prior="nonnegative")


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, "x", None])
@pytest.mark.parametrize("prior", [GaussianPrior, SparsePrior])
def test_bad_scales(prior, scale):
    with pytest.raises(InvalidParameterError, match="scale"):
        prior(scale)


def test_unknown_priors():
    A, b, _, v, _ = reference.draw(np.random.default_rng(7), 20, 2)
    with pytest.raises(InvalidParameterError, match="Did you mean 'gaussian'"):
        unrelu.recover_latent(A, b, v, prior="gausian")
    with pytest.raises(InvalidParameterError, match="Names: gaussian, sparse, nonnegative"):
        unrelu.recover_latent(A, b, v, prior=5)


def test_a_class_is_no_prior():
    A, b, _, v, _ = reference.draw(np.random.default_rng(7), 20, 2)
    with pytest.raises(InvalidParameterError, match="prior"):
        unrelu.recover_latent(A, b, v, prior=GaussianPrior)


def test_a_name_given_to_the_method():
    A, b, _, v, _ = reference.draw(np.random.default_rng(7), 20, 2)
    found = unrelu.recover_latent(A, b, v, RobustLatent("gaussian")).latent
    assert np.array_equal(found, unrelu.recover_latent(A, b, v, prior="gaussian").latent)
