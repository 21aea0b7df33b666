"""method="full_likelihood": the maximum of the exact likelihood, its errors, and tables that are hard."""

import warnings

import numpy as np
import pytest

import unrelu
from tests.references import full_likelihood as exact
from tests.warned import warns
from unrelu import RectifiedGaussianLearner
from unrelu.contracts import Assumptions
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.fit.likelihood import maximizing as curvature
from unrelu.fit.likelihood.learning import LikelihoodReport
from unrelu.margins import Log
from unrelu.posterior.density import Density

PAIR = unrelu.RectifiedGaussian([0.2, -0.3], [[1.0, 0.8], [0.8, 1.44]])
TRIPLE = unrelu.RectifiedGaussian([0.2, -0.3, 0.0], [[1.0, 0.8, 0.4], [0.8, 1.44, 0.3], [0.4, 0.3, 1.0]])
FIVE = unrelu.RectifiedGaussian(np.zeros(5), 0.5 * np.eye(5) + 0.5)


def fit(x, **options):
    return RectifiedGaussianLearner(method="full_likelihood", **options).fit(x)


def learned(evidence, d, **options):
    return unrelu.methods.FullLikelihood().learn(evidence, Assumptions((-np.inf,) * d, **options))


def distances(mean, covariance, values, censoring):
    """From the exact maximum, in its own standard errors; and those standard errors."""
    best, inverse = exact.maximum(values, censoring, exact.parameters(mean, covariance) + 0.02)
    stderr = np.sqrt(np.diagonal(inverse))
    return (exact.parameters(mean, covariance) - best) / stderr, stderr


def test_finds_the_exact_maximum_for_two_columns():
    x = PAIR.sample(400, random_state=0)
    learner = fit(x)
    away, stderr = distances(learner.mean_, learner.covariance_, x, np.where(x == 0.0, -1, 0))
    assert np.abs(away).max() < 0.03  # a prior of one row and the tolerance of the climb
    np.testing.assert_allclose(learner.mean_stderr_, stderr[:2], rtol=0.15)  # outer products of 400 rows
    np.testing.assert_allclose(learner.std_stderr_ / learner.std_, stderr[2:4], rtol=0.15)
    r = learner.correlation_[0, 1]
    assert learner.correlation_stderr_[0, 1] / (1.0 - r**2) == pytest.approx(stderr[4], rel=0.15)


def test_finds_the_exact_maximum_where_cells_state_their_limits(laboratories, marked_evidence):
    values, censoring, _ = laboratories(PAIR, 300)
    found = learned(marked_evidence(values, censoring), 2)
    away, _ = distances(found.distribution.mean, found.distribution.covariance, values, censoring)
    assert np.abs(away).max() < 0.03


@pytest.mark.slow
def test_finds_the_exact_maximum_for_three_columns_with_gaps():
    """Where the exact likelihood is flat: its slopes, each times a standard error, bound the way to the maximum."""
    x = TRIPLE.sample(120, random_state=0)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    learner, marks, upper = fit(x), np.where(x == 0.0, -1, 0), np.triu_indices(3, 1)
    at = exact.parameters(learner.mean_, learner.covariance_)
    ends = [[exact.log_likelihood(at + sign * e, x, marks) for sign in (1, -1)] for e in 0.01 * np.eye(9)]
    slope = (np.array(ends) @ [1.0, -1.0]) / 0.02
    log_scale, z = (
        learner.std_stderr_ / learner.std_,
        learner.correlation_stderr_ / (1.0 - learner.correlation_**2 + np.eye(3)),
    )
    stderr = np.concatenate([learner.mean_stderr_, log_scale, z[upper]])
    assert np.abs(slope * stderr).sum() < 0.3


def test_limits_stated_by_cells_are_floors():
    """The same rows, with the columns' floors as marks: another start leads to the same maximum."""
    from tests.fit.likelihood.conftest import MarkedRows
    from unrelu.contracts import Evidence
    from unrelu.passes.engine import LocalEngine

    x = FIVE.sample(1500, random_state=0)
    marks = np.where(x == 0.0, -1, 0).astype(np.int8)
    plain, found = fit(x), learned(Evidence(MarkedRows(x, marks), LocalEngine()), 5)
    assert np.abs((found.distribution.mean - plain.mean_) / plain.mean_stderr_).max() < 0.01
    apart = (found.distribution.correlation - plain.correlation_)[np.triu_indices(5, 1)]
    assert np.abs(apart / plain.correlation_stderr_[np.triu_indices(5, 1)]).max() < 0.01
    assert found.report.share_floored == pytest.approx(plain.report_.share_floored)
    assert found.report.log_likelihood == pytest.approx(plain.report_.log_likelihood, abs=0.01)


def test_limits_per_cell_and_factors_recover_the_model(laboratories, marked_evidence):
    values, censoring, _ = laboratories(FIVE, 4000)
    for options in ({}, {"n_components": 1}):
        found = learned(marked_evidence(values, censoring), 5, **options)
        assert np.abs(found.distribution.mean / found.rows.mean_stderr).max() < 4.0
        assert np.abs((found.rows.std - 1.0) / found.rows.std_stderr).max() < 4.0
        upper = np.triu_indices(5, 1)
        assert np.abs((found.distribution.correlation[upper] - 0.5) / found.pairs.stderr[upper]).max() < 4.0
    assert found.report.n_parameters == 15  # the last one: mean, one loading and noise of each column
    assert np.linalg.eigvalsh(found.distribution.covariance)[0] > 0.1


def test_blocks_of_marked_rows_give_the_same_model(laboratories, marked_evidence):
    values, censoring, _ = laboratories(FIVE, 300)
    whole, parts = (learned(marked_evidence(values, censoring, size), 5).distribution for size in (10**9, 7))
    np.testing.assert_allclose(parts.covariance, whole.covariance, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_strong_correlations_are_not_biased_by_expectation_propagation(monkeypatch):
    x = unrelu.RectifiedGaussian(np.full(4, -0.3), 0.9 + 0.1 * np.eye(4)).sample(20_000, random_state=0)
    upper = np.triu_indices(4, 1)

    def mean_error(learner):
        return abs(np.mean(learner.correlation_[upper] - 0.9)) / np.mean(learner.correlation_stderr_[upper])

    corrected = fit(x)
    monkeypatch.setattr(curvature, "_MOST_COORDINATES", 0)
    plain = fit(x)
    assert mean_error(corrected) < 1.5
    assert mean_error(plain) > 2.5
    assert corrected.report_.log_likelihood > plain.report_.log_likelihood + 1.0


def test_the_report_tells_the_likelihood_of_the_model():
    x = TRIPLE.sample(500, random_state=0)
    learner = fit(x)
    report = learner.report_
    assert isinstance(report, LikelihoodReport)
    model = Density(learner.mean_, learner.std_, learner.correlation_)
    exactly = model.log_density(x, np.where(x == 0.0, -1, 0).astype(np.int8)).sum()
    assert report.log_likelihood == pytest.approx(exactly, abs=0.01)
    assert (report.n_parameters, report.n_components, report.converged) == (9, None, True)
    assert fit(1000.0 * x).report_.log_likelihood == pytest.approx(
        report.log_likelihood - np.log(1000.0) * np.count_nonzero(x), abs=0.01
    )


def test_weights_are_repeated_rows():
    x = TRIPLE.sample(300, random_state=0)
    times = np.arange(300) % 3
    weighted = RectifiedGaussianLearner("full_likelihood").fit(x, sample_weight=times)
    repeated = fit(np.repeat(x, times, axis=0))
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, atol=0.002)
    assert weighted.report_.log_likelihood == pytest.approx(repeated.report_.log_likelihood, abs=0.01)


def test_a_column_hardly_ever_seen_is_said_and_wide():
    x = FIVE.sample(2000, random_state=0)
    x[:, 1] = np.maximum(x[:, 1] - np.quantile(x[:, 1], 0.99), 0.0)
    with warns("few-positives", match="column 1"):
        learner = fit(x)
    assert learner.mean_stderr_[1] > 5.0 * learner.mean_stderr_[0]


def test_a_column_twice_is_an_image_of_itself():
    x = FIVE.sample(500, random_state=0)
    twice = np.column_stack([x, 3.0 * x[:, 1]])
    with warns("perfect-correlation"):
        learner = fit(twice)
    plain = fit(x)
    np.testing.assert_allclose(learner.covariance_[:5, :5], plain.covariance_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(learner.mean_[5], 3.0 * plain.mean_[1], atol=1e-3)
    np.testing.assert_allclose(learner.covariance_[5, :5], 3.0 * plain.covariance_[1], rtol=1e-3, atol=1e-3)
    assert learner.mean_stderr_[5] == pytest.approx(3.0 * learner.mean_stderr_[1])
    assert learner.correlation_stderr_[1, 5] == 0.0


@pytest.mark.parametrize("n_components", [None, 2])
def test_fewer_rows_than_columns_are_learned(n_components):
    model = unrelu.RectifiedGaussian(np.full(15, 0.3), 0.6 * np.eye(15) + 0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = fit(model.sample(12, random_state=0), n_components=n_components)
    assert np.linalg.eigvalsh(learner.covariance_)[0] > 0.0
    assert np.isfinite(learner.correlation_stderr_).all()
    assert np.isfinite(learner.score(model.sample(50, random_state=1)))


def test_what_it_does_not_do_is_said(laboratories, marked_evidence):
    x = PAIR.sample(100, random_state=0)
    with pytest.raises(InvalidParameterError, match="leave out nonnegative_mean"):
        fit(x, nonnegative_mean=True)
    with pytest.raises(InvalidParameterError, match="use method='full_likelihood'"):
        RectifiedGaussianLearner("one_pass", n_components="auto").fit(x)
    with pytest.raises(InvalidParameterError, match="max_rounds"):
        RectifiedGaussianLearner(unrelu.methods.FullLikelihood(max_rounds=0)).fit(x)
    with warns("not-converged", match="after 1 rounds"):
        assert not RectifiedGaussianLearner(unrelu.methods.FullLikelihood(max_rounds=1)).fit(x).report_.converged
    values, censoring, _ = laboratories(PAIR, 50)
    censoring[:, 1] = -1
    with pytest.raises(InvalidDataError, match="Every cell is cut off at a limit in column 1"):
        learned(marked_evidence(values, censoring), 2)


def test_rounds_are_reported_and_files_keep_the_report(tmp_path):
    x = TRIPLE.sample(300, random_state=0)
    words = []
    learner = RectifiedGaussianLearner("full_likelihood", n_components="auto").with_progress(
        lambda step: words.append(step.words)
    )
    learner.fit(x).save(tmp_path / "learner")
    assert any("log-likelihood" in each for each in words)
    assert unrelu.load(tmp_path / "learner").report_ == learner.report_
    assert learner.report_.n_components == 1


def test_a_floor_for_every_cell_of_a_table(laboratories):
    """Limits per cell by the learner's own door: the marks and the fit are those of the samples with marks."""
    values, censoring, _ = laboratories(PAIR, 500)
    floor = np.where(censoring == -1, values, -np.inf)
    ceiling = np.where(censoring == 1, values, np.inf)
    learner = fit(values, floor=floor, ceiling=ceiling)
    assert np.abs((learner.mean_ - PAIR.mean) / learner.mean_stderr_).max() < 4.0
    assert learner.report_.share_floored == pytest.approx(np.mean(censoring != 0))
    assert np.isneginf(learner.floor_).all()


def test_parameters_that_were_found_are_counted():
    x = FIVE.sample(300, random_state=0)
    learner = fit(x, n_components="auto")
    assert learner.n_parameters_ == learner.report_.n_parameters == 15
    assert np.isfinite(learner.bic(x))


def test_the_likelihood_is_reported_in_the_users_units():
    truth = unrelu.RectifiedGaussian([0.3, 0.0], [[1.0, 0.5], [0.5, 1.0]], 0.5, margins=[Log(), Log()])
    X = truth.sample(400, random_state=0)
    weights = np.random.default_rng(1).integers(0, 3, 400).astype(float)
    for w in (None, weights):
        learner = unrelu.RectifiedGaussianLearner("full_likelihood", floor=0.5, margins="log").fit(X, sample_weight=w)
        expected = np.sum((1.0 if w is None else w) * learner.score_samples(X))
        assert learner.report_.log_likelihood == pytest.approx(expected, abs=0.02)


def test_a_column_hardly_seen_does_not_spoil_the_scores():
    """Its correlations are uncertain, but were learned with the others: nothing need be shrunken for scores."""
    mean, r = np.array([0.2, -1.9, 0.5, 0.0]), 0.5 * np.ones((4, 4)) + 0.5 * np.eye(4)
    X = unrelu.RectifiedGaussian(mean, r).sample(3000, random_state=1)
    assert np.mean(X[:, 1] == 0.0) > 0.96
    learner = RectifiedGaussianLearner("full_likelihood").fit(X)
    assert learner.report_.shrinkage.amount < 0.1
    assert learner.score_samples(X).sum() == pytest.approx(learner.report_.log_likelihood, abs=0.5)
    assert learner.score(X) >= RectifiedGaussianLearner().fit(X).score(X) - 1e-4
