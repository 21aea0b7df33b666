"""Models drawn from the uncertainty of a fit: their spread, and tables drawn from them."""

from __future__ import annotations

import numpy as np
import pytest

import unrelu
from benchmarks.rubin import coverage, pool
from unrelu import FloorImputer, RectifiedGaussian
from unrelu.errors import InvalidParameterError
from unrelu.posterior.draws import models_from_errors

NUMBER = 4000


def draws_of(*fit, number=NUMBER):
    return models_from_errors(*fit, (np.random.default_rng([7, k]) for k in range(number)))


def test_complete_rows_give_what_samples_of_them_scatter():
    """All errors and their correlations, against means and covariances of simulated tables."""
    n, r = 200, np.array([[1.0, 0.8, 0.3], [0.8, 1.0, -0.2], [0.3, -0.2, 1.0]])
    scale = np.array([1.0, 2.0, 0.5])
    model = RectifiedGaussian([0.0, 1.0, -2.0], r * np.outer(scale, scale), -np.inf)
    both = np.array([np.diag([s * s / n, s * s / (2 * n)]) for s in scale])
    rows = np.random.default_rng(0).multivariate_normal(model.mean, model.covariance, (NUMBER, n))
    upper = np.triu_indices(3, 1)

    def parts(mean, covariance):
        s = np.sqrt(np.diagonal(covariance))
        return np.concatenate([mean, np.log(s), np.arctanh((covariance / np.outer(s, s))[upper])])

    tables = np.array([parts(each.mean(axis=0), np.cov(each.T)) for each in rows])
    drawn = np.array(
        [parts(each.mean, each.covariance) for each in draws_of(model, both, (1.0 - r * r) / np.sqrt(n), n)]
    )
    np.testing.assert_allclose(drawn.mean(axis=0), parts(model.mean, model.covariance), atol=0.01)
    np.testing.assert_allclose(drawn.std(axis=0) / tables.std(axis=0), 1.0, atol=6.0 / np.sqrt(2 * NUMBER))
    np.testing.assert_allclose(np.corrcoef(drawn.T), np.corrcoef(tables.T), atol=6.0 / np.sqrt(NUMBER))


def test_errors_are_those_of_the_fit():
    """Columns that are hidden to different degrees: of means, standard deviations and their correlation exactly, of
    pairs nearly."""
    r, n = np.array([[1.0, 0.5, 0.4], [0.5, 1.0, 0.6], [0.4, 0.6, 1.0]]), 100
    both = np.array([[[0.01, 0.0], [0.0, 0.005]], [[0.02, -0.007], [-0.007, 0.012]], [[0.08, -0.03], [-0.03, 0.04]]])
    share = np.array([1.0, 0.7, 0.4])
    stderr = (1.0 - r * r) / np.sqrt(n * np.outer(share, share))
    draws = draws_of(RectifiedGaussian([0.0] * 3, r), both, stderr, n)
    for j in range(3):
        pair = np.array([[each.mean[j], np.log(each.std[j])] for each in draws])
        np.testing.assert_allclose(np.cov(pair.T), both[j], rtol=0.15, atol=3e-4)
    upper = np.triu_indices(3, 1)
    z = np.array([np.arctanh(each.correlation[upper]) for each in draws])
    np.testing.assert_allclose(z.std(axis=0), stderr[upper] / (1.0 - r * r)[upper], rtol=0.06)


def test_draws_are_definite_whatever_the_errors():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(30, 2))
    distribution = RectifiedGaussian(np.zeros(30), w @ w.T)  # singular
    both = np.array([np.diag([0.5, 0.4 * s]) for s in distribution.std])
    stderr = np.full((30, 30), 0.9)
    stderr[0, 1] = stderr[1, 0] = np.nan
    for each in draws_of(distribution, both, stderr, 20.0, number=20):  # which the model's own checks pass
        assert np.isfinite(each.covariance).all()
        assert np.linalg.matrix_rank(each.correlation, tol=1e-6) == 2
    constant = RectifiedGaussian([1.0, 2.0], [[0.0, 0.0], [0.0, 1.0]])
    (drawn,) = models_from_errors(constant, np.array([np.zeros((2, 2)), np.eye(2)]), np.zeros((2, 2)), 10.0, [rng])
    assert (drawn.mean[0], drawn.covariance[0, 0]) == (1.0, 0.0)
    assert drawn.mean[1] != 2.0


@pytest.fixture(scope="module")
def table():
    return unrelu.synthetic.random_model(3, mean="signed", random_state=0).sample(300, random_state=1)


def test_a_rows_draws_do_not_depend_on_other_rows_or_the_number_of_draws(table, monkeypatch):
    imputer = FloorImputer("one_pass", margins="normal").fit(table)
    draws = imputer.draw(table, 4, 3)
    np.testing.assert_array_equal(imputer.draw(table[:50], 4, 3), draws[:, :50])
    np.testing.assert_array_equal(imputer.draw(table, 2, 3), draws[:2])
    np.testing.assert_array_equal(imputer.set_params(random_state=3, strategy="draw").transform(table), draws[0])
    monkeypatch.setattr("unrelu.posterior.draws._NUMBERS", 100)
    np.testing.assert_array_equal(imputer.draw(table, 4, 3), draws)
    hidden = imputer.mask(table)
    assert (draws[:, hidden] < 0.0).all()
    mean, std = imputer.distribution_.impute(table, return_std=True)
    first, second = ((draws[k, hidden] - mean[hidden]) / std[hidden] for k in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4.0 / np.sqrt(300)  # each draw has streams of its own


def test_draws_follow_ceilings_margins_and_files(table, tmp_path):
    X = np.exp(-table)  # at most 1
    imputer = FloorImputer("one_pass", floor=None, ceiling=1.0, margins="log").fit(X)
    draws = imputer.draw(X, 3, 0)
    assert (draws[:, X == 1.0] > 1.0).all()
    plain = FloorImputer("one_pass", margins="normal").fit(table).draw(table, 3, 0)
    np.testing.assert_allclose(-np.log(draws), np.maximum(plain, -np.log(10.0)), atol=1e-6)  # ten times the largest
    imputer.save(tmp_path / "i.unrelu")
    np.testing.assert_array_equal(unrelu.load(tmp_path / "i.unrelu").draw(X, 3, 0), draws)


def test_without_errors_models_are_fitted_ones(table):
    made = FloorImputer.from_model(FloorImputer("one_pass", margins="normal").fit(table))
    np.testing.assert_array_equal(made.draw(table, 2, 0), made.draw(table, 2, 0, parameters="fitted"))
    with pytest.raises(InvalidParameterError, match="no standard errors"):
        made.draw(table, parameters="drawn")
    with pytest.raises(InvalidParameterError, match="Did you mean 'drawn'"):
        made.draw(table, parameters="draw")
    rows = RectifiedGaussian([0.5, 0.5], [[1.0, 0.5], [0.5, 1.0]]).sample(300, random_state=0)
    papers = FloorImputer("median", margins="normal").fit(rows)
    assert np.isfinite(papers.draw(rows, 2)).all()
    with pytest.raises(InvalidParameterError, match="gives no standard errors"):
        papers.draw(rows, parameters="drawn")


def test_pooling_by_rubins_rules():
    """Against Barnard and Rubin's formulas for one number, by hand."""
    estimates, variances = np.array([[1.0], [2.0], [3.0]]), np.full((3, 1), 0.5)
    mean, reach = pool(estimates, variances, 20.0)
    total = 0.5 + (4.0 / 3.0) * 1.0
    share = (4.0 / 3.0) / total
    degrees = 1.0 / (share**2 / 2.0 + 1.0 / (21.0 / 23.0 * 20.0 * (1.0 - share)))
    from scipy.stats import t

    assert mean[0] == 2.0
    assert reach[0] == pytest.approx(t.ppf(0.975, degrees) * np.sqrt(total))


def test_pooled_intervals_cover():
    """60 % floored, 40 tables: 95 % within 3 standard errors of the count, and more than fitted parameters give."""
    drawn, fitted = coverage(0.6, 40), coverage(0.6, 40, parameters="fitted")
    assert all(share > 0.846 for share in drawn.values()), drawn
    assert fitted["mean"] < drawn["mean"]
