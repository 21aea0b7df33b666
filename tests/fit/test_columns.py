import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import unrelu
from tests.references import likelihood
from tests.warned import kinds_of, warns
from unrelu.contracts import Assumptions, Block
from unrelu.errors import InvalidDataError
from unrelu.fit.columns import fit_columns, hazard
from unrelu.passes.pair_moments import PairMomentsQuestion


def estimate(x, floor=0.0, weights=None, **options):
    x = np.asarray(x, dtype=float).reshape(len(x), -1)
    assumptions = Assumptions((floor,) * x.shape[1], **options)
    return fit_columns(PairMomentsQuestion.under(assumptions)(Block(x, 0, weights)), assumptions)


@pytest.mark.parametrize("mean", [-2.0, -1.0, 0.0, 0.7, 2.5])
@pytest.mark.parametrize("floor", [0.0, 3.0])
def test_maximizes_the_exact_likelihood(mean, floor):
    x = np.maximum(np.random.default_rng(0).normal(mean, 1.7, 800), 0.0) + floor
    rows = estimate(x, floor)
    expected_bias, expected_scale = likelihood.fit_marginal(x, floor)
    assert rows.mean[0] == pytest.approx(expected_bias, abs=2e-6)
    assert rows.std[0] == pytest.approx(expected_scale, abs=2e-6)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000), n=st.integers(3, 60), mean=st.floats(-2.5, 4.0), size=st.sampled_from([1e-6, 1.0, 1e6])
)
def test_the_score_vanishes_whatever_the_sample(seed, n, mean, size):
    x = np.maximum(np.random.default_rng(seed).normal(mean, 1.0, n), 0.0) * size
    if np.count_nonzero(x) < 5 or np.ptp(x) == 0.0:
        x = np.concatenate([x, size * np.array([0.5, 1.0, 1.5, 2.0, 3.0])])
    rows = estimate(x)
    b, s = rows.mean[0], rows.std[0]
    seen = x > 0
    kappa = float(hazard(np.array(b / s)))
    u = (x[seen] - b) / s
    floored = np.count_nonzero(~seen)
    terms = np.array([np.abs(u).sum() + floored * kappa, np.sum(u**2) + floored * kappa * abs(b / s) + len(u)])
    score = np.array([u.sum() - floored * kappa, np.sum(u**2 - 1) + floored * kappa * b / s])
    assert np.all(np.abs(score) < 1e-8 * terms)


def test_standard_errors_are_the_inverse_hessian_of_the_exact_likelihood():
    x = np.maximum(np.random.default_rng(1).normal(0.4, 2.0, 500), 0.0)
    rows = estimate(x)
    theta, h = np.array([rows.mean[0], rows.std[0]]), 1e-3
    hessian = np.empty((2, 2))
    for i in range(2):
        for j in range(2):
            ei, ej = h * np.eye(2)[i], h * np.eye(2)[j]
            hessian[i, j] = sum(
                si * sj * likelihood.marginal_log_likelihood(x, *(theta + si * ei + sj * ej))
                for si in (1, -1)
                for sj in (1, -1)
            ) / (4 * h * h)
    np.testing.assert_allclose(rows.mean_std_covariance[0], np.linalg.inv(-hessian), rtol=1e-4)


def test_without_floored_values_it_is_the_sample_mean_and_deviation():
    x = np.random.default_rng(2).normal(1e7, 3.0, 1000)
    rows = estimate(x)
    assert rows.mean[0] == pytest.approx(x.mean(), rel=1e-15)
    assert rows.std[0] == pytest.approx(x.std(), rel=1e-7)
    assert rows.mean_stderr[0] == pytest.approx(x.std() / np.sqrt(1000), rel=1e-7)
    assert rows.std_stderr[0] == pytest.approx(x.std() / np.sqrt(2000), rel=1e-7)


def test_a_nonnegative_mean_is_the_constrained_maximum():
    x = np.maximum(np.random.default_rng(3).normal(-0.8, 1.0, 600), 0.0)
    assert estimate(x).mean[0] < 0
    rows = estimate(x, nonnegative_mean=True)
    assert rows.mean[0] == 0.0
    best = max((likelihood.marginal_log_likelihood(x, 0.0, s), s) for s in np.linspace(0.5, 2.0, 3001))[1]
    assert rows.std[0] == pytest.approx(best, abs=1e-3)


def test_integer_weights_are_repeated_rows():
    rng = np.random.default_rng(4)
    x, w = np.maximum(rng.normal(0.2, 1.0, 80), 0.0), rng.integers(0, 4, 80)
    weighted, repeated = estimate(x, weights=w.astype(float)), estimate(np.repeat(x, w))
    assert weighted.mean[0] == pytest.approx(repeated.mean[0], rel=1e-12)
    assert weighted.std[0] == pytest.approx(repeated.std[0], rel=1e-12)


def test_one_positive_value_is_learned_with_a_warning():
    x = np.zeros(50)
    x[7] = 2.0
    with warns("few-positives", match="column 0"):
        rows = estimate(x)
    expected_bias, expected_scale = likelihood.fit_marginal(x)
    assert rows.mean[0] == pytest.approx(expected_bias, rel=1e-4)
    assert rows.std[0] == pytest.approx(expected_scale, rel=1e-4)
    assert rows.mean_stderr[0] > 1.0


def test_constant_column():
    with warns("constant-column", match="column 0"):
        rows = estimate(np.full(20, 0.1))
    assert (rows.mean[0], rows.std[0]) == (0.1, 0.0)


def test_never_above_the_floor():
    with pytest.raises(InvalidDataError, match="Never above its floor in 20 rows: column 0"):
        estimate(np.zeros(20))
    with warns("constant-column"):
        rows = estimate(np.zeros(20), nonnegative_mean=True)  # Wu et al. 2019, footnote 3: W(i,:) = 0 and b = 0
    assert (rows.mean[0], rows.std[0]) == (0.0, 0.0)


@pytest.mark.parametrize("lowest", [0.0, 1.0, 3.0])  # floored, never floored, and constant for all that squares tell
def test_values_too_small_to_square(lowest):
    with pytest.raises(InvalidDataError, match="too small to square"):
        estimate(1e-200 * np.array([lowest, 1.0, 2.0, lowest, 3.0]))


@pytest.mark.parametrize(("share", "warned"), [(0.008, True), (0.02, False)])
def test_columns_that_are_nearly_all_floor_are_named(share, warned):
    """However many values that is: 160 of 20,000 still say nothing of what is below."""
    x = np.maximum(np.random.default_rng(0).standard_normal(20_000) + norm.ppf(share), 0.0)[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = unrelu.RectifiedGaussianLearner().fit(x)
    assert ("few-positives" in kinds_of(caught)) is warned
    assert learner.mean_stderr_[0] > 0.05  # against .007 for a column without a floor
