"""The papers' own ways to bias and norm: filters, parameters out of range, and what each must reach."""

import numpy as np
import pytest
from scipy import stats

from unrelu import RectifiedGaussian, RectifiedGaussianLearner
from unrelu.contracts import Assumptions, Evidence
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.methods import FilteredGradient, MedianBias, TruncatedSGD
from unrelu.papers.batches import find_filter, sampled_descent
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples

ASSUMPTIONS = Assumptions((0.0, 0.0))
TRUTH = RectifiedGaussian([0.4, 1.0], [[1.0, 0.3], [0.3, 0.8]])


@pytest.fixture(scope="module")
def evidence():
    return Evidence(ArraySamples(TRUTH.sample(100_000, random_state=0)), LocalEngine())


def test_filters_against_scipy():
    vectors = np.random.default_rng(0).standard_cauchy((101, 2))
    trimmed = find_filter("trimmed_mean", 0.2)
    np.testing.assert_allclose(find_filter(None, 0.2)(vectors), vectors.mean(axis=0))
    np.testing.assert_allclose(find_filter("median", 0.2)(vectors), np.median(vectors, axis=0))
    np.testing.assert_allclose(trimmed(vectors), stats.trim_mean(vectors, 0.2, axis=0))
    stacked = np.stack([vectors, 2 * vectors])
    np.testing.assert_allclose(trimmed(stacked)[1], 2 * stats.trim_mean(vectors, 0.2, axis=0))


@pytest.mark.parametrize("method", ["sgd", "filtered_gradient", "median"])
def test_values_too_small_to_square(method):
    """Their variance is 0, and yet they are not constant."""
    with pytest.raises(InvalidDataError, match="too small to square in double precision in column 1"):
        RectifiedGaussianLearner(method).fit(TRUTH.sample(500, random_state=0) * [1.0, 1e-200])


def test_a_filter_of_another_name():
    with pytest.raises(InvalidParameterError, match="Did you mean 'median'"):
        find_filter("meidan", 0.1)


@pytest.mark.parametrize("trim", [-0.1, 0.5, np.nan])
def test_trim_out_of_range(trim):
    with pytest.raises(InvalidParameterError, match=r"\[0, 0.5\)"):
        find_filter("trimmed_mean", trim)


@pytest.mark.parametrize("method", [TruncatedSGD, FilteredGradient])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 1.0}, "radius must be a finite number above 1"),
        ({"radius": np.inf}, "radius"),
        ({"step": 0.0}, "step must be a finite number above 0"),
        ({"step": np.nan}, "step"),
        ({"step": True}, "step"),
    ],
)
def test_parameters_out_of_range(evidence, method, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        method(**options).learn(evidence, ASSUMPTIONS)


@pytest.mark.parametrize("method", [TruncatedSGD(batches=50), FilteredGradient(batches=50)])
def test_more_batches_than_values_above_the_floor(method):
    x = TRUTH.sample(60, random_state=1)
    x[20:, 1] = 0.0
    with pytest.raises(
        InvalidDataError, match=r"Fewer values above the floor than the 50 batches in .*column 1 \(\d+\)"
    ):
        RectifiedGaussianLearner(method=method).fit(x)


def test_sgd_reaches_the_truth(evidence):
    rows = TruncatedSGD().learn(evidence, ASSUMPTIONS).rows
    np.testing.assert_allclose(rows.mean, TRUTH.mean, atol=0.08)
    np.testing.assert_allclose(rows.std, TRUTH.std, atol=0.05)
    assert np.isnan(rows.mean_stderr).all()


def test_sgd_batches_keep_the_most_central_run():
    """Step 5 of Algorithm 2: the run with the least sum of distances to all others, one batch being wild."""
    rng = np.random.default_rng(0)
    means = rng.normal(0.0, [[0.3], [0.3], [0.3], [0.3], [2.0]], (5, 400)).reshape(-1)
    sums = np.stack([np.full(2000, 10.0), 10 * means, 5 * (means**2 + 0.6)], axis=1)
    runs = np.empty((5, 2))
    for run in range(5):
        stream = np.random.default_rng([2, 7, run])
        sampled_descent(sums[400 * run : 400 * (run + 1)].copy(), -1.5, 0.1, 3.0, 3, stream, runs[run])
    totals = [sum(np.hypot(*(one - other)) for other in runs) for one in runs]
    chosen = TruncatedSGD(batches=5).most_central_run(sums, -1.5, [2, 7])
    np.testing.assert_array_equal(chosen, runs[int(np.argmin(totals))])
    assert int(np.argmax(totals)) == 4  # the wild batch is the farthest, and not chosen


def test_seeds_matter_and_repeat(evidence):
    first, again, other = (TruncatedSGD().learn(evidence, ASSUMPTIONS, s).rows.mean for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_gradient_descent_without_filter_is_the_truncated_maximum_likelihood(evidence):
    rows = FilteredGradient(None, steps=5000).learn(evidence, ASSUMPTIONS).rows
    np.testing.assert_allclose(rows.mean, TRUTH.mean, atol=0.05)
    np.testing.assert_allclose(rows.std, TRUTH.std, atol=0.03)


@pytest.mark.parametrize(("outliers", "filter"), [(1000, "median"), (200, "median"), (200, "trimmed_mean")])
def test_filters_dampen_outliers_and_the_plain_mean_does_not(outliers, filter):
    """One row in a hundred reaches a tenth of the batches of ten; one in twenty four tenths, too many to trim."""
    x = TRUTH.sample(20_000, random_state=2)
    x[:outliers] = np.random.default_rng(3).normal(5.0, 1.0, (outliers, 2))
    dirty = Evidence(ArraySamples(x), LocalEngine())
    error, plain = (
        np.abs(FilteredGradient(f, trim=0.2).learn(dirty, ASSUMPTIONS).rows.mean - TRUTH.mean).max()
        for f in (filter, None)
    )
    assert error < 0.7 * plain


def test_median_of_the_samples_is_exact(evidence):
    x = TRUTH.sample(100_000, random_state=0)
    rows = MedianBias().learn(evidence, ASSUMPTIONS).rows
    np.testing.assert_allclose(rows.mean, np.median(x, axis=0), atol=1e-4)
    upper = np.where(x > rows.mean, x - rows.mean, 0.0)
    np.testing.assert_allclose(rows.std, np.sqrt(2 * np.mean(upper**2, axis=0)), rtol=1e-9)
    # The median of n normal values has standard error s sqrt(pi/(2n)).
    assert np.all(np.abs(rows.mean - TRUTH.mean) < 4 * TRUTH.std * np.sqrt(np.pi / 2 / 100_000))
