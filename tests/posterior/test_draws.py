"""Completed tables: the distribution of draws, rows of their own, degenerate models, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.references.hidden import rejection_draws
from tests.warned import warns
from unrelu import FloorImputer, RectifiedGaussian
from unrelu.errors import InvalidParameterError
from unrelu.margins import Log
from unrelu.posterior.cells import Cells
from unrelu.posterior.draws import drawn, drawn_parts

NAN = np.nan
COVARIANCE = np.array([[1.0, 0.7, -0.3, 0.5], [0.7, 2.0, 0.2, 0.9], [-0.3, 0.2, 0.5, 0.0], [0.5, 0.9, 0.0, 1.0]])
BIAS = np.array([0.3, -0.2, 0.4, 0.1])
MODEL = RectifiedGaussian(BIAS, COVARIANCE, [0.0, 0.0, -np.inf, -np.inf], ceiling=[np.inf, np.inf, np.inf, 0.5])


@pytest.mark.parametrize(
    ("row", "marks"),
    [
        ([0.0, 0.0, 0.6, 0.5], [-1, -1, 0, 1]),
        ([0.0, 1.0, NAN, 0.2], [-1, 0, 0, 0]),
        ([NAN, 0.0, NAN, 0.5], [0, -1, 0, 1]),
        ([NAN, NAN, NAN, NAN], [0, 0, 0, 0]),
    ],
)
def test_the_distribution_of_draws(row, marks):
    hidden, expected = rejection_draws(np.array(row), np.array(marks), BIAS, COVARIANCE, 400_000)
    expected = expected[:4000]
    draws = MODEL.sample_latent([row] * 4, 1000, random_state=0, below="latent").reshape(4000, 4)
    np.testing.assert_array_equal(draws[:, ~hidden], np.tile(np.array(row)[~hidden], (4000, 1)))
    found = draws[:, hidden]
    # Eleven tests of margins and eight of pairs in all, at the 1e-3 level.
    for k in range(found.shape[1]):
        assert ks_2samp(found[:, k], expected[:, k]).pvalue > 1e-3 / 11
    gap = np.arctanh(np.triu(np.corrcoef(found.T), 1)) - np.arctanh(np.triu(np.corrcoef(expected.T), 1))
    assert np.abs(gap).max() < 4.0 * np.sqrt(2.0 / 4000)


def test_a_row_has_its_own_draws_wherever_it_is():
    X = MODEL.sample(600, random_state=1)
    whole = MODEL.sample_latent(X, 3, random_state=5)
    np.testing.assert_array_equal(MODEL.sample_latent(X, 3, random_state=5), whole)
    assert not np.array_equal(MODEL.sample_latent(X, 3, random_state=6), whole)
    np.testing.assert_array_equal(MODEL.sample_latent(X[:40], 3, random_state=5), whole[:, :40])
    # Equal rows are drawn apart, and so are the draws of one row.
    same = MODEL.sample_latent(np.tile([0.0, 0.0, 0.6, 0.5], (50, 1)), 2, random_state=5)
    assert len(np.unique(same[:, :, 0])) == 100
    generator = np.random.default_rng(0)
    first, second = (MODEL.sample_latent(X, random_state=generator) for _ in range(2))
    assert not np.array_equal(first, second)


def test_completed_tables_have_the_spread_and_correlations_of_the_truth():
    truth = RectifiedGaussian(BIAS, COVARIANCE, -np.inf).sample(20_000, random_state=3)
    X = np.maximum(truth, [0.0, 0.0, -np.inf, -np.inf])
    X[:, 3] = np.minimum(X[:, 3], 0.5)
    completed = MODEL.sample_latent(X, random_state=0)[0]
    np.testing.assert_allclose(completed.std(axis=0), truth.std(axis=0), rtol=4.0 / np.sqrt(2.0 * 20_000))
    np.testing.assert_allclose(np.corrcoef(completed.T), np.corrcoef(truth.T), atol=4.0 / np.sqrt(20_000))
    means = MODEL.impute(X)
    assert (means.std(axis=0)[[0, 1, 3]] < 0.97 * truth.std(axis=0)[[0, 1, 3]]).all()  # what draws are for


def test_draws_of_margins_are_in_the_users_units():
    model = RectifiedGaussian(BIAS[:2], COVARIANCE[:2, :2], 1.0, margins=[Log(), Log()])
    X = np.array([[1.0, 3.0]])
    draws = model.sample_latent(X, 5000, random_state=0)[:, 0, 0]
    assert ((draws > 0.0) & (draws <= 1.0)).all()
    mean, std = model.impute(X, return_std=True)
    assert draws.mean() == pytest.approx(mean[0, 0], abs=4.0 * std[0, 0] / np.sqrt(5000))
    assert draws.std() == pytest.approx(std[0, 0], rel=4.0 / np.sqrt(5000))


def test_degenerate_directions_stay_so():
    r = np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, -0.5], [0.5, -0.5, 1.0]])
    model = RectifiedGaussian(np.zeros(3), r)
    X = [[NAN, NAN, 0.0], [0.0, 1.5, NAN], [0.0, NAN, NAN], [NAN, NAN, NAN]]
    draws = model.sample_latent(X, 200, random_state=0, below="latent")
    np.testing.assert_allclose(draws[:, :, 0], -draws[:, :, 1], atol=1e-6)
    assert draws[:, 2, 0].max() <= 0.0
    assert draws[:, 3, 2].std() == pytest.approx(1.0, rel=0.2)


def test_constant_columns_and_seen_rows():
    model = RectifiedGaussian([2.0, 0.0], [[0.0, 0.0], [0.0, 1.0]])
    draws = model.sample_latent([[NAN, 0.0], [2.0, 1.0]], 5, random_state=0)
    np.testing.assert_array_equal(draws[:, :, 0], 2.0)
    np.testing.assert_array_equal(draws[:, 1, 1], 1.0)
    assert (draws[:, 0, 1] <= 0.0).all()


def test_walks_are_reported():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((120, 60))
    model = RectifiedGaussian(np.zeros(120), w @ w.T + 0.3 * np.eye(120))
    with warns("dependent-draws", match="1 of 1 draws"):
        draws = model.sample_latent(np.zeros((1, 120)), random_state=0)
    assert (draws <= 0.0).all()


def test_the_imputer_draws_block_by_block():
    X = MODEL.with_parts(ceiling=np.inf).sample(5000, random_state=2)
    imputer = FloorImputer(floor=[0.0, 0.0, None, None], random_state=3).fit(X)
    fitted = imputer.draw(X, 2, parameters="fitted")
    np.testing.assert_array_equal(fitted, imputer.distribution_.sample_latent(X, 2, random_state=3))
    draws = imputer.draw(X, 2)
    np.testing.assert_array_equal(imputer.draw(X, 2), draws)
    imputer.set_params(strategy="draw")
    np.testing.assert_array_equal(imputer.transform(X), imputer.draw(X)[0])
    # A generator moves on from call to call, and does not give blocks the same draws.
    rng = np.random.default_rng(0)
    other = imputer.draw(np.tile(X[:1] * 0.0, (9000, 1)), random_state=rng)[0]
    assert len(np.unique(other[:, 0])) == 9000


@pytest.mark.parametrize("number", [0, -1, 2.5, None])
def test_bad_numbers_of_draws(number):
    with pytest.raises(InvalidParameterError, match="n_draws"):
        MODEL.sample_latent([[0.0, 0.0, 0.0, 0.0]], number)


def test_parts_of_rows_have_the_same_draws(monkeypatch):
    cells = Cells.of(MODEL, MODEL.sample(50, random_state=1))
    whole = drawn(MODEL, cells, 3, 7)
    monkeypatch.setattr("unrelu.posterior.draws._NUMBERS", 100)  # eight rows at a time
    given = [cells.of_rows(slice(0, 20)), cells.of_rows(slice(20, 50))]
    parts = [part for _, part in drawn_parts(MODEL, given, 3, 7)]
    assert max(part.shape[1] for part in parts) == 8
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
