"""One side given the other: exact without noise, the fit's own optimum with it."""

import numpy as np
import pytest

from tests.references import matrix as reference
from unrelu.recovery.matrix.descent import CensoredALS, Task, TobitEM
from unrelu.recovery.matrix.factors import Cells, Factors
from unrelu.recovery.matrix.matrix import Filling


def known(seed=0, n=120, d=10, k=2):
    rng = np.random.default_rng(seed)
    return Factors(rng.standard_normal((n, k)), rng.standard_normal((d, k)), rng.random(d)).standard()


def test_without_noise_what_is_determined_comes_back_exactly():
    factors = known()
    X = np.maximum(factors.matrix(), 0.0)
    filling = Filling.after(factors, None, 0.0)
    latent = filling.latent_of(Cells(X), factors)
    determined = [np.isfinite(reference.row_condition(X, factors.loadings, i)) for i in range(120)]
    assert np.count_nonzero(determined) > 100
    np.testing.assert_allclose(latent[determined], factors.latent[determined], atol=1e-10)
    columns = filling.columns_of(Cells(X), factors)
    np.testing.assert_allclose(columns, factors.extended, atol=1e-10)


@pytest.mark.parametrize("angle", [1e-1, 1e-2, 1e-3])
def test_ill_conditioned_rows_come_back_too(angle):
    """Two values, of columns whose loadings are nearly parallel: the condition number is 2/angle."""
    factors = known(8)
    rotated = factors.loadings[0] @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    factors = factors.with_extended(np.vstack([[*factors.loadings[0], 9.0], [*rotated, 9.0], factors.extended[2:]]))
    X = factors.matrix()
    X[:, 2:] = np.nan
    assert (X[:, :2] > 0.0).all()
    latent = Filling.after(factors, None, 0.0).latent_of(Cells(X), factors)
    np.testing.assert_allclose(latent, factors.latent, atol=1e-13 / angle**2)


@pytest.mark.parametrize("noise", [None, 0.4])
def test_rows_are_at_the_optimum_with_the_penalty_of_the_fit(noise):
    """In balanced factors the penalty is ridge |c|^2/2: standard form only scales it."""
    factors, ridge = known(1, d=8), 0.7
    rng = np.random.default_rng(2)
    X = np.maximum(factors.matrix() + 0.3 * rng.standard_normal((120, 8)), 0.0)[:10]
    latent = Filling.after(factors, noise, ridge).latent_of(Cells(X), factors)
    balanced = factors.balance()
    for x, c in zip(X, latent, strict=True):
        in_balance = reference.row_optimum(x, balanced.loadings, balanced.bias, np.full(2, ridge), noise)
        np.testing.assert_allclose(factors.loadings @ c, balanced.loadings @ in_balance, atol=1e-6)


@pytest.mark.parametrize("method", [CensoredALS(), TobitEM()])
def test_rows_of_the_fit_come_back(method):
    rng = np.random.default_rng(3)
    X = np.maximum(known(2, 200, 30).matrix() + 0.3 * rng.standard_normal((200, 30)), 0.0)
    found = method.recover(Task(Cells(X), 2))
    standard = found.factors.standard()
    filling = Filling.after(standard, found.noise, found.ridge)
    assert not filling.exact
    np.testing.assert_allclose(filling.latent_of(Cells(X), standard), standard.latent, atol=1e-3)
    columns = filling.columns_of(Cells(X), standard)
    # Their bias pays too, which it does not in the fit.
    np.testing.assert_allclose(columns, standard.extended, atol=0.02)


def test_nothing_seen_is_filled_with_the_mean():
    factors = known(4)
    filling = Filling.after(factors, None, 0.0)
    latent = filling.latent_of(Cells(np.full((2, 10), np.nan)), factors)
    np.testing.assert_array_equal(latent, 0.0)
    columns = filling.columns_of(Cells(np.full((120, 1), np.nan)), factors)
    np.testing.assert_array_equal(columns, 0.0)


def test_a_row_at_the_floor_stays_at_or_below_it():
    factors = known(5)
    latent = Filling.after(factors, None, 0.0).latent_of(Cells(np.zeros((1, 10))), factors)
    losses = sum(max(t, 0.0) ** 2 for t in (latent @ factors.loadings.T + factors.bias)[0])
    best = reference.row_optimum(np.zeros(10), factors.loadings, factors.bias, np.full(2, 1e-10))
    assert losses <= sum(max(t, 0.0) ** 2 for t in factors.loadings @ best + factors.bias) + 1e-10


def test_components_of_no_size_have_a_finite_price():
    factors = known(6)
    flat = Factors(factors.latent, factors.loadings * [1.0, 0.0], factors.bias)
    for ridge in (0.0, 1.0):
        filling = Filling.after(flat, None, ridge)
        assert np.isfinite(filling.row_ridge).all()
        assert np.isfinite(filling.column_ridge).all()
        assert (filling.row_ridge > 0.0).all()
