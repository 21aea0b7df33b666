"""Orders, naive correlations and what a heat map of many columns shows."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import unrelu
from unrelu.report.check import column_order as clustered
from unrelu.report.page.facts import pair_facts, pairwise_correlation, sampled, scatter_facts, shown_pairs


def test_pairs_are_correlated_over_the_rows_that_have_both():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[:, 3] = 1.0
    found = pairwise_correlation(1e200 * x)
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        both = ~np.isnan(x[:, [i, j]]).any(axis=1)
        assert found[i, j] == pytest.approx(np.corrcoef(x[both][:, [i, j]].T)[0, 1])
    assert np.isnan(found[3, :3]).all()


def test_alike_columns_stand_together():
    block = 0.9 * np.kron(np.eye(3), np.ones((4, 4))) + 0.1 * np.eye(12)
    mixed = np.random.default_rng(1).permutation(12)
    order = clustered(block[np.ix_(mixed, mixed)])
    groups = mixed[order] // 4
    assert np.count_nonzero(np.diff(groups)) == 2


def test_packed_numbers_are_the_correlations():
    model = unrelu.synthetic.random_model(5, random_state=0)
    facts = pair_facts(model, None, None)
    kept = np.frombuffer(base64.b64decode(facts["latent"]), "<i2") / 10_000
    at = np.triu_indices(5, 1)
    np.testing.assert_allclose(kept, model.correlation[np.ix_(facts["order"], facts["order"])][at], atol=6e-5)
    assert "naive" not in facts
    assert "first" not in facts
    best = facts["strongest"][0]
    assert best["latent"] == pytest.approx(model.correlation[best["first"], best["second"]], abs=1e-4)
    assert abs(best["latent"]) == pytest.approx(np.abs(model.correlation[at]).max(), abs=1e-4)


def test_a_cell_of_many_columns_shows_its_strongest_pair():
    d = 620
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((d, 3))
    covariance = loadings @ loadings.T + np.eye(d)
    model = unrelu.RectifiedGaussian(np.zeros(d), covariance)
    first, second, lines = shown_pairs(model.correlation, clustered(model.correlation))
    assert lines == 200
    assert len(first) == 200 * 201 // 2
    assert (first != second).all()
    shown = np.abs(model.correlation[first, second])
    assert shown.max() == pytest.approx(np.abs(model.correlation - np.eye(d)).max())


def test_scatter_plots_hold_few_rows():
    model = unrelu.synthetic.random_model(3, random_state=0)
    X = model.sample(5000, random_state=1)
    X[0] = np.nan
    sample = sampled(unrelu.FloorImputer.from_model(model).cells(X), 3, 0)
    facts = scatter_facts(model, sample)
    assert (facts["rows"], facts["of"], len(facts["values"][2])) == (600, 5000, 600)
    marks = np.array([list(letters) for letters in facts["marks"]])
    assert np.mean(marks == "f") == pytest.approx(np.mean(X[1:] == 0.0), abs=0.05)
