"""Gauges by their definitions: every one gives the same T, and one property of its own."""

import numpy as np
import pytest

from unrelu.recovery.matrix.factors import GAUGES, Factors, in_gauge


def random_factors(seed, n=60, d=12, k=3, bias=True):
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((n, k)) @ rng.standard_normal((k, k)) + rng.standard_normal(k)
    return Factors(latent, rng.standard_normal((d, k)), rng.standard_normal(d) if bias else None)


def off_diagonal(gram):
    return np.abs(gram - np.diag(np.diag(gram))).max()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gauge", ["centered", "orthogonal", "bayes", "kept"])
def test_gauges_leave_the_matrix_alone(seed, gauge):
    factors = random_factors(seed)
    np.testing.assert_allclose(in_gauge(factors, gauge).matrix(), factors.matrix(), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bias", [True, False])
def test_balanced_and_standard(seed, bias):
    factors = random_factors(seed, bias=bias)
    for made in (factors.balance(), factors.standard()):
        np.testing.assert_allclose(made.matrix(), factors.matrix(), atol=1e-12)
        if bias:
            np.testing.assert_allclose(made.latent.mean(axis=0), 0.0, atol=1e-13)
            np.testing.assert_allclose(made.bias, factors.matrix().mean(axis=0), atol=1e-12)
        gram = made.loadings.T @ made.loadings
        assert off_diagonal(gram) < 1e-12 * gram.max()
        assert (np.diff(np.diag(gram)) < 0.0).all()
        largest = made.loadings[np.abs(made.loadings).argmax(axis=0), np.arange(3)]
        assert (largest > 0.0).all()
    balanced, standard = factors.balance(), factors.standard()
    np.testing.assert_allclose(balanced.latent.T @ balanced.latent, balanced.loadings.T @ balanced.loadings, atol=1e-11)
    np.testing.assert_allclose(standard.latent.T @ standard.latent / 60, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_definitions(seed):
    factors = random_factors(seed)
    T = factors.matrix()
    centered, orthogonal, bayes, kept = (in_gauge(factors, g) for g in ("centered", "orthogonal", "bayes", "kept"))
    np.testing.assert_allclose(centered.latent.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(centered.bias, T.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(orthogonal.loadings.T @ orthogonal.bias, 0.0, atol=1e-11)
    np.testing.assert_array_equal(kept.bias, factors.bias)
    for made in (centered, orthogonal, bayes, kept):
        np.testing.assert_allclose(np.cov(made.latent.T, ddof=0), np.eye(3), atol=1e-12)
    # "bayes" is where n |mean of C|^2 + |b|^2 / s^2 is least, s^2 the variance of the part of b off A.
    spread = np.sum(orthogonal.bias**2) / (12 - 3)

    def cost(made):
        return 60 * np.sum(made.latent.mean(axis=0) ** 2) + np.sum(made.bias**2) / spread

    for step in 1e-3 * np.concatenate([np.eye(3), -np.eye(3)]):
        assert cost(bayes) < cost(bayes.shift(step))
    assert cost(bayes) < min(cost(centered), cost(orthogonal))


def test_without_a_bias_every_gauge_is_the_standard_form():
    factors = random_factors(0, bias=False)
    for gauge in GAUGES:
        made = in_gauge(factors, gauge)
        assert made.bias is None
        np.testing.assert_array_equal(made.latent, factors.standard().latent)


def test_scaled_and_shifted():
    factors = random_factors(1)
    np.testing.assert_allclose(factors.rescale(4.0).matrix(), 4.0 * factors.matrix(), rtol=1e-14)
    shift = np.array([1.0, -2.0, 0.5])
    moved = factors.shift(shift)
    np.testing.assert_allclose(moved.latent, factors.latent - shift)
    np.testing.assert_allclose(moved.matrix(), factors.matrix(), atol=1e-12)
    bare = random_factors(1, bias=False)
    assert bare.shift(shift) is bare


def test_extended_round_trip():
    factors = random_factors(2)
    again = factors.with_extended(factors.extended)
    np.testing.assert_array_equal(again.loadings, factors.loadings)
    np.testing.assert_array_equal(again.bias, factors.bias)
    np.testing.assert_allclose(factors.extend(factors.latent) @ factors.extended.T, factors.matrix(), atol=1e-13)


def test_gauges_of_random_factors_are_ordered_as_measured():
    """Given exact T with C, A, b ~ N(0, 1): the error of M is smallest in "bayes", then "centered", "orthogonal"."""
    errors = {gauge: [] for gauge in ("bayes", "centered", "orthogonal")}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        true = Factors(rng.standard_normal((500, 5)), rng.standard_normal((100, 5)), rng.standard_normal(100))
        M = true.latent @ true.loadings.T
        for gauge, found in errors.items():
            made = in_gauge(true, gauge)
            found.append(np.linalg.norm(made.latent @ made.loadings.T - M) / np.linalg.norm(M))
    mean = {gauge: np.mean(found) for gauge, found in errors.items()}
    assert mean["bayes"] < mean["centered"] < mean["orthogonal"] < 0.2


def test_degenerate_factors_stay_finite():
    flat = Factors(np.zeros((6, 2)), np.zeros((4, 2)), np.full(4, 3.0))
    for gauge in ("centered", "orthogonal", "bayes", "kept"):
        made = in_gauge(flat, gauge)
        np.testing.assert_allclose(made.matrix(), 3.0)
