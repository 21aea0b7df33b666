"""The conductor: p-values against a slow bootstrap, false alarms, power, and tables that are hard to judge."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import unrelu
from tests.references import fit_check as reference
from unrelu.checks.fit_check import Rows, Simulations, check_fit
from unrelu.contracts import Assumptions, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError

CORRELATION = np.array([[1.0, 0.5, 0.3], [0.5, 1.0, -0.2], [0.3, -0.2, 1.0]])
NORMAL = unrelu.RectifiedGaussian([0.3, 0.0, 0.6], CORRELATION)


def checked(x, n_simulations=39, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unrelu.errors.UnreluWarning)
        return unrelu.RectifiedGaussianLearner(**parameters).fit(x).check(x, n_simulations=n_simulations)


def test_p_values_are_those_of_a_slow_bootstrap():
    """The same simulated tables, fitted by the learner and measured by loops."""
    x = NORMAL.sample(80, random_state=3)[:, :1]
    found = checked(x, n_simulations=19)

    def number(rows):
        distribution = unrelu.RectifiedGaussianLearner().fit(rows).distribution_
        return distribution, reference.anderson_darling(
            rows[:, 0], 0.0, np.inf, distribution.mean[0], distribution.std[0]
        )

    distribution, own = number(x)
    others = [number(distribution.sample(80, np.random.default_rng([0, b, 0])))[1] for b in range(1, 20)]
    assert found.column_statistic[0] == pytest.approx(own, rel=1e-8)
    assert found.column_p_value[0] == (1 + sum(other >= own for other in others)) / 20
    assert found.p_value == found.columns_p_value == found.column_p_value[0]
    assert np.isnan(found.pairs_p_value)


def test_few_false_alarms_and_sure_ones():
    """Of 12 normal tables at most 3 have p <= .05 (chance .002 of more); lognormal columns are found and named."""
    alarms = sum(not checked(NORMAL.sample(200, random_state=seed), 19, random_state=seed).fits for seed in range(12))
    assert alarms <= 3
    x = NORMAL.sample(500, random_state=1)
    x[:, 1] = np.expm1(x[:, 1])
    assert checked(x).fits  # by default the column is no normal one
    found = checked(x, margins="normal")
    assert not found.fits
    assert found.misfits == ([1], [])
    assert found.worst_columns(1) == [1]
    assert found.column_p_value[1] == found.p_value == 1 / 40
    assert found.column_distance[1] > 2.0 * found.column_distance[[0, 2]].max()


def test_pairs_that_no_normal_distribution_has_are_named():
    rng = np.random.default_rng(0)
    x = NORMAL.sample(800, random_state=rng)
    z = rng.standard_normal((800, 2))
    x[:, 0], x[:, 1] = np.maximum(z[:, 0], 0.0), np.maximum(np.where(rng.random(800) < 0.5, z[:, 0], z[:, 1]), 0.0)
    found = checked(x)
    assert found.misfits == ([], [(0, 1)])
    assert (
        "RectifiedGaussianMixture(2) was tried and helps" in found.verdict
    )  # half of the rows are of another distribution
    assert found.pair_p_value[0, 1] == found.pair_p_value[1, 0] == 1 / 40


def test_a_given_model_is_not_fitted():
    x = NORMAL.sample(400, random_state=4)
    assert unrelu.check_model(NORMAL, x, n_simulations=39).fits
    shifted = unrelu.RectifiedGaussian(NORMAL.mean + 0.3, NORMAL.covariance)
    found = unrelu.check_model(shifted, x, n_simulations=39)
    assert not found.refitted
    assert not found.fits
    assert checked(x).fits


def test_ceilings_are_the_mirror_image_of_floors():
    x = NORMAL.sample(300, random_state=6)
    upright, turned = checked(x), checked(2.0 - x, floor=None, ceiling=2.0)
    np.testing.assert_allclose(turned.column_statistic, upright.column_statistic, rtol=1e-6)
    np.testing.assert_allclose(turned.share_at_limit, upright.share_at_limit)
    assert abs(turned.p_value - upright.p_value) < 0.5
    assert (np.nanmax(turned.quantiles, axis=1) <= 2.0).all()


def test_cells_missing_in_the_table_are_missing_in_its_simulations():
    x = NORMAL.sample(400, random_state=7)
    x[np.random.default_rng(0).random(x.shape) < 0.3] = np.nan
    seen = []

    def fit(values, at):
        seen.append(np.isnan(values))
        return unrelu.RectifiedGaussianLearner().fit(values).distribution_

    rows = Rows(x, 400, Assumptions((0.0,) * 3), ("a", "b", "c"))
    check_fit(rows, fit, Simulations(19), no_progress)
    assert len(seen) == 20
    assert all((each == np.isnan(x)).all() for each in seen)


def test_a_rounded_normal_column_fits_and_ties_alone_are_no_alarm():
    x = NORMAL.sample(3000, random_state=8)
    x = np.where(x > 0.0, np.maximum(np.round(x, 1), 0.1), 0.0)  # about 30 different values
    found = checked(x)
    assert found.fits
    assert found.column_statistic.min() > 2.5  # which would reject continuous columns
    assert all(found.coarse)


@pytest.mark.parametrize("n_rows", [5000, 6000])
def test_at_most_5000_rows_are_read(n_rows):
    x = NORMAL.sample(n_rows, random_state=9)[:, :2]
    found = checked(x, n_simulations=19)
    assert (found.n_rows, found.n_looked_at) == (n_rows, 5000)


def test_columns_of_which_nothing_can_be_said_are_left_out():
    x = np.column_stack([NORMAL.sample(200, random_state=0), np.full(200, 2.0), np.zeros(200), np.zeros(200)])
    x[:5, 4], x[:20, 5] = [1.0, 2.0, 3.0, 1.5, 0.5], 1.0
    found = checked(x)
    assert [j for j, _ in found.left_out] == [3, 4, 5]
    assert ["constant" in found.left_out[0][1], "5 values" in found.left_out[1][1]] == [True, True]
    assert "1 different" in found.left_out[2][1]
    assert np.isnan(found.column_p_value[3:]).all()
    assert np.isnan(found.pair_p_value[3:]).all()
    np.testing.assert_array_equal(found.column_p_value[:3], checked(x[:, :3]).column_p_value)


def test_columns_without_a_floor_and_a_tolerance():
    x = NORMAL.sample(300, random_state=2)
    x[:, 1] = np.random.default_rng(1).standard_normal(300)
    assert checked(x, floor=[0.0, None, 0.0]).expected_share_at_limit[1] == 0.0
    noisy = x + np.where(x == 0.0, np.random.default_rng(2).uniform(-0.05, 0.05, x.shape), 0.0)
    found = checked(noisy, floor=[0.0, None, 0.0], floor_tolerance=0.05)
    assert found.fits
    assert found.share_at_limit[0] > 0.3


def test_the_robust_method_leaves_its_outliers_out():
    x = NORMAL.sample(400, random_state=3)
    x[:30] += 9.0
    found = checked(x, n_simulations=19, method="robust")
    assert (found.n_outlier_rows, found.n_looked_at) == (30, 370)
    assert found.fits
    assert not checked(x, n_simulations=19).fits


def test_a_rank_that_is_too_low_is_a_misfit():
    found = checked(NORMAL.sample(800, random_state=5), n_components=1)
    assert not found.fits
    assert "A model without n_components was tried and helps: the model then fits" in found.verdict


def test_the_seed_determines_everything_and_the_progress_ends_it():
    x = NORMAL.sample(100, random_state=0)
    first, again, other = (checked(x, 19, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.pair_p_value, again.pair_p_value)
    assert not np.array_equal(first.pair_p_value, other.pair_p_value, equal_nan=True)
    steps = []

    def stop(step):
        steps.append(step)
        if step.stage == "Simulating tables" and step.done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unrelu.RectifiedGaussianLearner().fit(x).with_progress(stop).check(x)
    assert steps[-1].total == 199


# --- bad input ------------------------------------------------------------------------------------


def test_what_cannot_be_checked_is_refused():
    x = NORMAL.sample(50, random_state=0)
    learner = unrelu.RectifiedGaussianLearner().fit(x)
    with pytest.raises(InvalidDataError, match="12 rows: a check needs at least 20"):
        learner.check(x[:12])
    with pytest.raises(ValueError, match="2 features"):
        learner.check(x[:, :2])
    with pytest.raises(InvalidDataError, match="Negative values"):
        learner.check(-x)
    with pytest.raises(InvalidDataError, match=r"No column can be checked: x0 \(0 values off its limit"):
        learner.check(np.zeros((30, 3)))
    weighted = unrelu.tables.ArraySamples(x, weights=np.arange(1.0, 51.0))
    with pytest.raises(InvalidParameterError, match="sample weights"):
        learner.check(weighted)
    for wrong in ({"n_simulations": 5}, {"n_simulations": 2.5}, {"level": 0.0}, {"level": 1.0}):
        with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
            learner.check(x, **wrong)
