"""The references and rivals of benchmarks/posterior are right where the answer is known."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import unrelu
from benchmarks.margins.contaminated import far
from benchmarks.posterior import STUDIES
from benchmarks.posterior.densities import log_orthant, model_of, one_factor, separate
from benchmarks.posterior.draws import case, p_values
from benchmarks.posterior.rivals import RIVALS
from benchmarks.posterior.tables import lognormal, with_outliers


def test_every_study_is_found():
    assert {"densities", "draws", "imputation", "speed"} <= set(STUDIES)


def test_an_orthant_of_two():
    v = np.array([[1.0, 0.6], [0.6, 1.0]])
    found, error = log_orthant(v, np.zeros(2))
    assert found == pytest.approx(np.log(0.25 + np.arcsin(0.6) / (2.0 * np.pi)), abs=max(6.0 * error, 1e-6))


def test_one_factor_with_seen_cells():
    loading, mean, row = np.array([0.9, 0.5]), np.array([0.2, -0.3]), np.array([0.0, 0.7])
    v = np.array([[1.0, 0.45], [0.45, 1.0]])
    centre = mean[0] + 0.45 * (row[1] - mean[1])
    wanted = norm.logpdf(row[1], mean[1]) + norm.logcdf(-centre / np.sqrt(1.0 - 0.45**2))
    assert one_factor(mean, loading, row) == pytest.approx(wanted, abs=1e-10)
    assert separate(unrelu.RectifiedGaussian(mean, v), row)[0] == pytest.approx(wanted, abs=1e-6)


def test_a_row_above_its_floors_has_a_normal_density():
    model, reference = model_of("correlations .9 and -.9", 4, 0)
    row = np.full(4, 0.8)
    wanted = multivariate_normal(model.mean, model.covariance).logpdf(row)
    assert reference(model, row)[0] == pytest.approx(wanted, abs=1e-9)
    assert separate(model, row) == (pytest.approx(wanted, abs=1e-9), 0.0)


def test_draws_of_another_distribution_are_noticed():
    of = case(5)
    theirs = of.rejection(4000, np.random.default_rng(0))
    assert p_values(of.rejection(4000, np.random.default_rng(1)), theirs).min() > 1e-3
    shuffled = np.column_stack([np.random.default_rng(j).permutation(column) for j, column in enumerate(theirs.T)])
    assert p_values(shuffled, theirs).min() < 1e-6  # the same margins without correlations
    assert p_values(theirs + 0.2 * theirs.std(axis=0), theirs).min() < 1e-6


def test_rivals_fill_in_floored_cells_below_their_limits():
    table = lognormal(0.3, 0)
    floored, limit = table.x <= table.limit, np.log(table.limit)
    for name, fill in RIVALS.items():
        logs = fill(table.x, table.limit)
        assert np.array_equal(logs[~floored], np.log(table.x)[~floored]), name
        assert (logs <= limit + 1e-12)[floored].all(), name
    mean = RIVALS["regression on order statistics"](table.x, table.limit).mean(axis=0)
    assert np.abs(mean - np.log(table.truth).mean(axis=0)).max() < 0.1  # as a column's estimate it is good


def test_only_inlier_rows_are_judged():
    table = with_outliers(lognormal(0.6, 1), far, 1)
    assert table.inlier.sum() == 450
    assert not table.floored[~table.inlier].any()
    ours, best = table.squared_errors(np.log(table.x) - 0.5)
    assert ours > best
