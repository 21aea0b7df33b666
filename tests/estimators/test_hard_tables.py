"""Tables that once gave wrong numbers: each is a trap with a known right answer."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import unrelu
from unrelu import RectifiedGaussian, RectifiedGaussianLearner
from unrelu.errors import InvalidDataError, InvalidParameterError

TRUTH = RectifiedGaussian([0.3, -0.5, 1.0], [[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 1.0]])


@pytest.fixture
def table():
    return TRUTH.sample(2000, random_state=0)


def fit(x, sample_weight=None, **options):
    return RectifiedGaussianLearner(**options).fit(x, sample_weight=sample_weight)


def one_pass(**options):
    return RectifiedGaussianLearner("one_pass", margins="normal", **options)


@pytest.mark.parametrize(("value", "weight"), [(1e12, 0.0), (np.inf, 0.0), (-5.0, 0.0), (1e9, 1e-30)])
def test_rows_without_weight_are_as_good_as_absent(table, value, weight):
    wild = np.vstack([np.full((1, 3), value), table])
    learner, plain = fit(wild, np.r_[weight, np.ones(len(table))]), fit(table)
    np.testing.assert_allclose(learner.mean_, plain.mean_, rtol=1e-6)
    np.testing.assert_allclose(learner.covariance_, plain.covariance_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("floor", [0.1, 0.7])
def test_a_floor_that_float32_cannot_hold(table, floor):
    """0.1 as float32 is a little above 0.1: it must still count as floored."""
    floored = np.maximum(table, floor)
    single, double = fit(floored.astype(np.float32), floor=floor), fit(floored, floor=floor)
    assert single.report_.share_floored == double.report_.share_floored > 0.2
    np.testing.assert_allclose(single.mean_, double.mean_, atol=1e-5)


@pytest.mark.parametrize("r", [0.99999, -0.99999])
def test_correlations_extremely_close_to_one(r):
    z = np.random.default_rng(0).standard_normal((1000, 2))
    y = np.c_[z[:, 0], r * z[:, 0] + np.sqrt(1 - r * r) * z[:, 1]] + 20.0
    learner = fit(y, margins="normal")
    sample = np.corrcoef(y.T)[0, 1]
    error = (1 - sample**2) / np.sqrt(1000)
    assert abs(learner.correlation_[0, 1] - sample) < 2 * error
    assert learner.correlation_stderr_[0, 1] == pytest.approx(error, rel=0.15)


def test_points_that_repeat_are_not_a_line():
    x = np.zeros((100, 2))
    x[:50, 0] = np.random.default_rng(0).gamma(2.0, size=50)
    x[60:90, 1] = np.random.default_rng(1).gamma(2.0, size=30)
    x[:3] = [[1.0, 1.0], [1.0, 1.0], [4.0, 2.0]]
    assert abs(fit(x).correlation_[0, 1]) < 0.95


def test_nested_binary_columns_are_not_a_line():
    rng = np.random.default_rng(0)
    for _ in range(20):
        b = rng.random(200) < 0.6
        a = b & (rng.random(200) < 0.7)
        learner = fit(np.c_[a * rng.random(), b * rng.random()])
        assert learner.correlation_[0, 1] < 0.999


def test_at_the_bound_a_bias_has_no_error_and_the_norm_has_one():
    x = np.maximum(np.random.default_rng(0).standard_normal((2000, 2)) - 1.5, 0.0)
    learner = fit(x, nonnegative_mean=True)
    np.testing.assert_array_equal(learner.mean_, 0.0)
    np.testing.assert_array_equal(learner.mean_stderr_, 0.0)
    positives = np.count_nonzero(x, axis=0)
    # Given b = 0 the positives are a half-normal sample: s^2 = mean square, error s / sqrt(2 n+).
    np.testing.assert_allclose(learner.std_, np.sqrt((x**2).sum(axis=0) / positives), rtol=1e-9)
    np.testing.assert_allclose(learner.std_stderr_, learner.std_ / np.sqrt(2 * positives), rtol=1e-9)


def test_at_the_bound_with_a_tolerance():
    x = np.maximum(np.random.default_rng(0).normal(-1.0, 1.0, (3000, 1)), 0.0)
    learner = fit(x, nonnegative_mean=True, floor_tolerance=0.1)
    assert learner.mean_[0] == 0.0
    assert np.isfinite(learner.std_stderr_).all()


@pytest.mark.parametrize("floor", [-1e3, -1e80, -1e130])
def test_a_floor_far_below_is_no_floor(floor):
    x = np.random.default_rng(0).multivariate_normal([1.0, 2.0], [[1.0, 0.4], [0.4, 2.0]], 3000)
    learner = fit(x, floor=floor)
    np.testing.assert_allclose(learner.covariance_, np.cov(x.T, ddof=0), rtol=2e-3)
    assert np.isfinite(learner.correlation_stderr_).all()


def test_errors_count_the_weights_of_the_rows_that_see_a_column():
    """Half of the rows weigh ten times as much, but a column is only seen in the light half."""
    z = []
    weights = np.r_[np.ones(500), np.full(500, 10.0)]
    for seed in range(60):
        x = TRUTH.sample(1000, random_state=seed)
        x[500:, 0] = np.nan
        learner = fit(x, weights, method="one_pass")
        z.append((learner.mean_[0] - TRUTH.mean[0]) / learner.mean_stderr_[0])
        z.append((learner.correlation_[0, 1] - TRUTH.correlation[0, 1]) / learner.correlation_stderr_[0, 1])
    assert np.mean(np.square(z)) == pytest.approx(1.0, abs=0.4)  # 120 z-scores: standard error .13


def test_the_floor_belongs_to_the_record(table):
    learner = RectifiedGaussianLearner().partial_fit(table)
    learner.set_params(floor=-5.0)
    with pytest.raises(InvalidParameterError, match="floor was changed"):
        _ = learner.mean_
    with pytest.raises(InvalidParameterError, match="floor was changed"):
        learner.partial_fit(table)
    other = RectifiedGaussianLearner(floor=-5.0).partial_fit(table)
    with pytest.raises(InvalidParameterError, match="different floors"):
        unrelu.merge([one_pass().fit(table)._record, other._record])


def test_merge_compares_parameters_by_value(table):
    wide = np.abs(np.random.default_rng(0).normal(size=(30, 1100))) + 1.0
    floors = np.zeros(1100)
    changed = floors.copy()
    changed[700] = 0.5
    for learner in (RectifiedGaussianLearner, one_pass):
        first, second = (learner(floor=f).partial_fit(wide) for f in (floors, changed))
        with pytest.raises(InvalidParameterError, match="different"):
            unrelu.merge([first, second])
    seeded = [one_pass(random_state=np.random.default_rng(k)).fit(table) for k in range(2)]
    assert unrelu.merge(seeded).report_.n_rows == 4000


def test_a_failed_fit_leaves_nothing_behind(table):
    learner = RectifiedGaussianLearner().fit(table)
    with pytest.raises(InvalidDataError):
        learner.fit(-table[:, :2] - 1.0)
    learner.partial_fit(table[:, :2])
    np.testing.assert_array_equal(learner.mean_, fit(table[:, :2], method="one_pass").mean_)


def test_masked_cells_are_missing(table):
    hidden = table > 1.5
    masked = np.ma.masked_array(np.where(hidden, 99.0, table), hidden)
    np.testing.assert_array_equal(fit(masked).mean_, fit(np.where(hidden, np.nan, table)).mean_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_text_or_dates(frame):
    with pytest.raises(
        InvalidDataError, match=r"Row 1 \(the first is 0\), column 'site': 'north' is not a number. Correct the cell"
    ):
        fit(frame({"As": [1.0, 2.0, 3.0], "site": ["1", "north", "2"]}))
    days = [datetime.datetime(2020, 1, day) for day in (1, 2, 3)]
    with pytest.raises(
        InvalidDataError, match=r"Column 'day' holds dates or times, not numbers. Leave it out: X.drop\("
    ):
        fit(frame({"As": [1.0, 2.0, 3.0], "day": days}))


def test_what_is_advised_for_a_lower_floor_works(table):
    """The table's zeros are now at -1.2345: the smallest value, as it repeats."""
    low = table - 1.2345612345
    with pytest.raises(InvalidDataError, match="take floor='min'"):
        fit(low)
    learned, expected = fit(low, floor="min"), fit(table)
    np.testing.assert_array_equal(learned.floor_, low.min(axis=0))
    assert learned.report_.share_floored == expected.report_.share_floored > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nonnegative_mean": "no"}, "True or False"),
        ({"floor": "low"}, "floor of column 0 .*must be a number"),
        ({"method": unrelu.methods.OnePass}, "an object from unrelu.methods"),
    ],
)
def test_parameters_of_the_wrong_kind(table, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        fit(table, **options)


@pytest.mark.parametrize("size", [1e160, 1e-300])
def test_weights_out_of_range(table, size):
    with pytest.raises(InvalidDataError, match="rescale"):
        fit(table, np.full(len(table), size))
