"""Standard errors against the whole information matrix, and against how estimates scatter."""

import numpy as np
import pytest
import scipy.sparse

from tests.references import matrix as reference
from unrelu.recovery.matrix import factors as cells_module
from unrelu.recovery.matrix.descent import Task, TobitEM
from unrelu.recovery.matrix.factors import Cells, Factors, standard_errors, tiles
from unrelu.recovery.matrix.matrix import fit_task


def draw(seed, noise, n, d, k=2):
    rng = np.random.default_rng(seed)
    factors = Factors(rng.standard_normal((n, k)), rng.standard_normal((d, k)), 0.5 * rng.standard_normal(d))
    return factors, np.maximum(factors.matrix() + noise * rng.standard_normal((n, d)), 0.0)


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_standard_errors_are_those_of_the_whole_information(missing):
    factors, X = draw(0, 0.4, 20, 12)
    X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
    factors = factors.standard()
    latent, loadings, bias = reference.standard_errors(X, factors.latent, factors.loadings, factors.bias, 0.4)
    got = standard_errors(Cells(X), factors, 0.4)
    np.testing.assert_allclose(got.latent, latent, rtol=1e-8)
    np.testing.assert_allclose(got.loadings, loadings, rtol=1e-8)
    np.testing.assert_allclose(got.bias, bias, rtol=1e-8)


def test_without_a_bias_there_is_no_error_of_it():
    factors, X = draw(2, 0.4, 30, 12)
    bare = Factors(factors.latent, factors.loadings, None)
    got = standard_errors(Cells(X), bare, 0.4)
    assert got.bias is None
    assert got.loadings.shape == (12, 2)


def test_no_information_is_an_infinite_error():
    factors, X = draw(3, 0.4, 30, 12)
    X[4], X[:, 5] = np.nan, np.nan
    got = standard_errors(Cells(X), factors.standard(), 0.4)
    assert np.isinf(got.latent[4]).all()
    assert np.isinf(got.loadings[5]).all()
    assert np.isinf(got.bias[5])
    assert np.isfinite(np.delete(got.latent, 4, axis=0)).all()
    assert np.isfinite(np.delete(got.bias, 5)).all()


def test_tiles_and_storage_do_not_matter(monkeypatch):
    factors, X = draw(4, 0.4, 60, 20)
    whole = standard_errors(Cells(X), factors, 0.4)
    sparse = standard_errors(Cells(scipy.sparse.csr_array(X)), factors, 0.4)
    np.testing.assert_array_equal(whole.loadings, sparse.loadings)
    monkeypatch.setattr(cells_module, "_LEAST_CELLS", 200)
    assert len(tiles(X.shape)) > 1
    cut = standard_errors(Cells(X), factors, 0.4)
    np.testing.assert_allclose(cut.loadings, whole.loadings, rtol=1e-9)
    np.testing.assert_allclose(cut.latent, whole.latent, rtol=1e-9)


@pytest.mark.slow
def test_estimates_scatter_as_their_standard_errors_say():
    """Mean squared z, aligned on the truth by least squares, which takes up k (k + 1) of d (n) degrees of freedom.

    z of one table are nearly independent, so that their mean square has a relative error of sqrt(2/count).
    """
    n, d, k, seeds = 150, 150, 2, 4
    squares = {"loadings": [], "bias": [], "latent": []}
    for seed in range(seeds):
        true, X = draw(seed, 0.3, n, d)
        fit = fit_task(Task(Cells(X), k), TobitEM(), "centered")
        found, errors = fit.factors, fit.errors
        z = {
            "loadings": residual(true.loadings, found.loadings) / errors.loadings,
            "bias": residual(true.loadings, (found.bias - true.bias)[:, None])[:, 0] / errors.bias,
            "latent": residual(np.column_stack([true.latent, np.ones(n)]), found.latent) / errors.latent,
        }
        for name, values in z.items():
            squares[name].append((values**2).ravel())
    for name, values in squares.items():
        values = np.concatenate(values)
        assert abs(values.mean() - 1.0) < 3.5 * np.sqrt(2.0 / len(values)), name


def residual(design, target):
    """What is left, as large as if nothing had been taken up by the fit."""
    rows, columns = design.shape
    return (target - design @ np.linalg.lstsq(design, target)[0]) * np.sqrt(rows / (rows - columns))


def test_errors_of_the_bias_are_those_of_its_gauge():
    """b off a centre v is b + A v: its error is that of a regression on C - v and 1."""
    rng = np.random.default_rng(5)
    true = Factors(2.0 + rng.standard_normal((60, 2)), rng.standard_normal((15, 2)), np.zeros(15))
    X = np.maximum(true.matrix() + 0.3 * rng.standard_normal((60, 15)), 0.0)
    fit = fit_task(Task(Cells(X), 2), TobitEM(), "orthogonal")
    assert np.abs(fit.factors.latent.mean(axis=0)).max() > 0.5
    parts = fit.factors.latent, fit.factors.loadings, fit.factors.bias
    wanted = reference.standard_errors(X, *parts, fit.report.noise)[2]
    np.testing.assert_allclose(fit.errors.bias, wanted, rtol=1e-3)
