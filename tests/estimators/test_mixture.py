"""The mixture estimator: scikit-learn's conventions, what it recovers, and what it does with bad tables."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.references.mixture import mixture_log_density
from tests.warned import warns
from unrelu import (
    FloorOutlierDetector,
    RectifiedGaussian,
    RectifiedGaussianLearner,
    RectifiedGaussianMixture,
    synthetic,
)
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.tables import open_samples, write_table

A = RectifiedGaussian([0.3, 2.5, 1.0], [[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 1.0]])
B = RectifiedGaussian([4.5, -0.5, 0.2], [[1.2, -0.4, 0.0], [-0.4, 0.8, 0.3], [0.0, 0.3, 1.0]])
C = RectifiedGaussian([0.5, 0.3, 5.5], [[0.8, 0.3, 0.3], [0.3, 1.0, 0.1], [0.3, 0.1, 1.5]])
TWO, THREE = ((A, B), (0.6, 0.4)), ((A, B, C), (0.5, 0.3, 0.2))


@parametrize_with_checks([RectifiedGaussianMixture(1), RectifiedGaussianMixture(1, floor=-1e6)])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow  # the same distributions; two groups take twenty times as long
@parametrize_with_checks([RectifiedGaussianMixture(n_init=1)])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks_of_two_groups(estimator, check):
    check(estimator)


def draw(models, shares, n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(models), n, p=shares)
    rows = np.stack([model.sample(n, rng) for model in models])
    return rows[labels, np.arange(n)], labels


def fit(x, n_components=2, sample_weight=None, **options):
    mixture = RectifiedGaussianMixture(n_components, random_state=0, **options)
    return mixture.fit(x, sample_weight=sample_weight)


@pytest.fixture(scope="module")
def table():
    return draw(*TWO, 800, 1)[0]


@pytest.fixture(scope="module")
def fitted(table):
    return fit(table)


def same(one, other, tolerance):
    np.testing.assert_allclose(one.weights_, other.weights_, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(one.means_, other.means_, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(one.covariances_, other.covariances_, rtol=tolerance, atol=tolerance)


def numbers(model):
    return np.concatenate([model.mean, model.std, model.correlation[np.triu_indices(model.n_features, 1)]])


def standard_errors(learner):
    upper = np.triu_indices(learner.n_features_in_, 1)
    return np.concatenate([learner.mean_stderr_, learner.std_stderr_, learner.correlation_stderr_[upper]])


# --- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("models", "shares"), [TWO, THREE], ids=["two", "three"])
def test_separated_groups_are_learned_as_if_their_labels_were_known(models, shares):
    x, labels = draw(models, shares, 3000, 0)
    mixture = fit(x, len(models))
    known, true = [], []
    for k, model in enumerate(models):
        learner = RectifiedGaussianLearner().fit(x[labels == k])
        found, error = numbers(mixture.distributions_[k]), standard_errors(learner)
        known.append((found - numbers(learner.distribution_)) / error)
        true.append((found - numbers(model)) / error)
    assert np.abs(true).max() < 4.0  # up to 27 z-scores: one beyond 4 has probability .002
    # Labels of all but 1 % of the rows are clear, so not knowing them costs a fraction of the sampling error.
    assert np.sqrt(np.mean(np.square(known))) < 0.6
    assert np.abs(known).max() < 4.0
    assert np.all(np.abs(mixture.weights_ - shares) < 4 * np.sqrt(np.array(shares) / 3000))
    assert adjusted_rand_score(labels, mixture.predict(x)) > 0.95
    assert mixture.converged_


def overlapping_groups(seed):
    """Two groups of four columns, 30 to 60 % of the values at the floor, neither of them hidden below it."""
    rng = np.random.default_rng(seed)
    models = [
        RectifiedGaussian(
            rng.uniform(-0.8, 1.2, 4), synthetic.random_model(4, condition_number=5.0, random_state=rng).covariance
        )
        for _ in range(2)
    ]
    return models, *draw(models, (0.6, 0.4), 3000, seed)


def latent_errors(means, covariances, models):
    """Root mean squared error of the means and of the covariances, groups matched by their means."""
    true = np.stack([model.mean for model in models])
    _, order = linear_sum_assignment(np.sum((means[:, None] - true) ** 2, axis=2))
    gap = covariances - np.stack([models[k].covariance for k in order])
    return np.sqrt(np.mean((means - true[order]) ** 2)), np.sqrt(np.mean(gap**2))


@pytest.mark.slow
def test_overlapping_groups_are_closer_to_the_truth_than_those_of_ordinary_gaussians():
    ours, theirs, agreement = [], [], []
    for seed in range(3):
        models, x, labels = overlapping_groups(seed)
        assert 0.3 < np.mean(x == 0.0) < 0.6
        mixture = fit(x)
        plain = GaussianMixture(2, n_init=3, random_state=0).fit(x)
        ours.append(latent_errors(mixture.means_, mixture.covariances_, models))
        theirs.append(latent_errors(plain.means_, plain.covariances_, models))
        agreement.append([adjusted_rand_score(labels, found.predict(x)) for found in (mixture, plain)])
    # An ordinary Gaussian has no parameters that fit: its error does not fall with the rows, ours does.
    assert np.all(np.mean(ours, axis=0) < 0.5 * np.mean(theirs, axis=0))
    assert np.mean(agreement, axis=0)[0] > np.mean(agreement, axis=0)[1] + 0.1


@pytest.mark.parametrize("groups", [1, *(pytest.param(groups, marks=pytest.mark.slow) for groups in (2, 3))])
def test_bic_prefers_the_true_number_of_groups(groups):
    models, shares = THREE[0][:groups], np.array(THREE[1][:groups])
    x, _ = draw(models, shares / shares.sum(), 400, 3)
    found = [fit(x, k, n_init=1).bic(x) for k in range(1, groups + 2)]
    assert np.argmin(found) == groups - 1


# --- what is said of rows -------------------------------------------------------------------------


def test_probabilities_and_densities_are_those_of_the_model(table, fitted):
    x = table[:200]
    density, posterior = mixture_log_density(x, fitted.weights_, fitted.means_, fitted.covariances_)
    proba = fitted.predict_proba(x)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    # Approximate probabilities of several floored cells are the only difference
    # (tests/fit/robust_rows/test_clustering.py).
    np.testing.assert_allclose(proba, posterior, atol=0.05)
    exact = np.count_nonzero(x == 0.0, axis=1) < 2
    np.testing.assert_allclose(fitted.score_samples(x)[exact], density[exact], atol=1e-6)
    np.testing.assert_array_equal(fitted.predict(x), proba.argmax(axis=1))


def test_scores_and_criteria(table, fitted):
    total = fitted.score_samples(table).sum()
    assert fitted.score(table) == pytest.approx(total / len(table))
    assert fitted.lower_bound_ == pytest.approx(fitted.score(table))
    parameters = 2 * (3 + 6) + 1
    assert fitted.bic(table) == pytest.approx(-2.0 * total + parameters * np.log(len(table)))
    assert fitted.aic(table) == pytest.approx(-2.0 * total + 2.0 * parameters)


def test_attributes_agree_with_each_other(table, fitted):
    assert fitted.weights_.sum() == pytest.approx(1.0)
    assert fitted.weights_[0] > fitted.weights_[1]
    assert fitted.n_features_in_ == 3
    for k, model in enumerate(fitted.distributions_):
        np.testing.assert_array_equal(fitted.means_[k], model.mean)
        np.testing.assert_array_equal(fitted.covariances_[k], model.covariance)


def test_sample_has_the_moments_of_the_model(fitted):
    n = 20_000
    x, labels = fitted.sample(n, random_state=0)
    share = fitted.weights_
    assert np.all(np.diff(labels) >= 0)
    assert np.all(np.abs(np.bincount(labels) / n - share) < 4 * np.sqrt(share * (1 - share) / n))
    for k, model in enumerate(fitted.distributions_):
        rows = x[labels == k]
        g = model.mean / model.std
        mean = model.mean * norm.cdf(g) + model.std * norm.pdf(g)  # of max(y, 0)
        assert np.all(np.abs(rows.mean(axis=0) - mean) < 4 * rows.std(axis=0) / np.sqrt(len(rows)))
        floored = norm.cdf(-g)
        error = np.sqrt(floored * (1.0 - floored) / len(rows))
        assert np.all(np.abs(np.mean(rows == 0.0, axis=0) - floored) < 4 * error + 1e-12)
    assert len(fitted.sample()[0]) == 1
    np.testing.assert_array_equal(fitted.sample(10, random_state=3)[0], fitted.sample(10, random_state=3)[0])
    assert not np.array_equal(fitted.sample(10)[0], fitted.sample(10)[0])  # new rows without a seed


def test_rows_with_missing_cells_are_judged_by_the_others(fitted):
    rows = np.array([[4.5, np.nan, np.nan], [np.nan, 3.0, np.nan], [np.nan, np.nan, np.nan]])
    proba = fitted.predict_proba(rows)
    assert proba[0, 1] > 0.95
    assert proba[1, 0] > 0.95
    np.testing.assert_allclose(proba[2], fitted.weights_)
    assert fitted.score_samples(rows)[2] == pytest.approx(0.0)


# --- ways to bring the rows -----------------------------------------------------------------------


def test_fit_predict_and_seeds(table, fitted):
    again = RectifiedGaussianMixture(2, random_state=0)
    np.testing.assert_array_equal(again.fit_predict(table), fitted.predict(table))
    np.testing.assert_array_equal(again.means_, fitted.means_)
    other = RectifiedGaussianMixture(2, random_state=np.random.default_rng(5)).fit(table)
    # Other starts settle in the same place, to about .3 standard errors (1/sqrt(300) each) and a prior drawn anew.
    np.testing.assert_allclose(other.means_, fitted.means_, atol=0.02)


def test_missing_cells_are_not_zeros():
    x, labels = draw(*TWO, 3000, 5)
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    mixture = fit(x)
    for k, model in enumerate(TWO[0]):
        error = RectifiedGaussianLearner().fit(x[labels == k]).mean_stderr_
        # Rows that miss the column that tells the groups apart say less: twice the error where labels are known.
        assert np.all(np.abs(mixture.means_[k] - model.mean) < 4 * 2 * error)


def test_weights_are_repeated_rows(table, fitted):
    weights = np.random.default_rng(0).integers(0, 3, len(table))
    assert weights.min() == 0
    same(fit(table, sample_weight=weights), fit(np.repeat(table, weights, axis=0)), 1e-6)
    same(fit(table, sample_weight=np.full(len(table), 1.0 / len(table))), fitted, 1e-8)


def test_rows_of_weight_zero_may_hold_anything(table, fitted):
    spoiled = np.vstack([table, [[np.inf, -1.0, np.nan]]])
    same(fit(spoiled, sample_weight=np.append(np.ones(len(table)), 0.0)), fitted, 1e-8)


def test_float32_and_integers(table):
    single = table.astype(np.float32)
    same(fit(single), fit(single.astype(np.float64)), 1e-6)
    counts = np.round(10 * table).astype(np.int64)
    same(fit(counts), fit(counts.astype(np.float64)), 1e-10)


def test_floors_and_units_carry_through(table, fitted):
    shift, units = np.array([1.0, -2.0, 10.0]), np.array([1e-3, 1.0, 40.0])
    moved = fit(table * units + shift, floor=shift, margins="normal")
    np.testing.assert_allclose((moved.means_ - shift) / units, fitted.means_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moved.covariances_ / np.outer(units, units), fitted.covariances_, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(moved.distributions_[0].floor, shift)
    gap = moved.score_samples(table * units + shift) - fitted.score_samples(table)
    np.testing.assert_allclose(gap, -np.sum((table > 0) * np.log(units), axis=1), atol=1e-3)


def test_tolerance_takes_jitter_at_the_floor_for_the_floor(table, fitted):
    jitter = np.random.default_rng(0).uniform(-0.05, 0.05, table.shape)
    noisy = table + np.where(table == 0.0, jitter, 0.0)
    with pytest.raises(InvalidDataError, match="below the floor"):
        fit(noisy)
    tolerant = fit(noisy, floor_tolerance=0.05)
    # Values up to .05 count as floored: little is lost, and no mean is added (errors are about 1/sqrt(300)).
    np.testing.assert_allclose(tolerant.means_, fitted.means_, atol=4 / np.sqrt(300))
    assert tolerant.score(noisy) == pytest.approx(tolerant.lower_bound_)


def test_frames_give_names(table, fitted):
    frame = pd.DataFrame(table.copy(), columns=["As", "Pb", "Cd"])
    named = fit(frame)
    assert named.distributions_[0].feature_names == ("As", "Pb", "Cd")
    np.testing.assert_array_equal(named.predict(frame), fitted.predict(table))
    frame.loc[3, "Pb"] = -1.0
    with pytest.raises(InvalidDataError, match=r"column 1 \('Pb'\)"):
        named.predict(frame)


def test_rows_read_block_by_block(table, fitted, tmp_path):
    write_table(tmp_path / "table.csv", table, ["As", "Pb", "Cd"])
    rows = open_samples(tmp_path / "table.csv", block_rows=300)
    mixture = fit(rows)
    assert mixture.distributions_[0].feature_names == ("As", "Pb", "Cd")
    same(mixture, fitted, 1e-6)
    for ask in ("predict", "predict_proba", "score_samples", "bic", "score"):
        np.testing.assert_allclose(getattr(mixture, ask)(rows), getattr(fitted, ask)(table), rtol=1e-4, atol=1e-6)


def test_the_report_counts(table):
    holes = table.copy()
    holes[np.random.default_rng(0).random(table.shape) < 0.1] = np.nan
    weights = np.r_[np.zeros(100), np.full(len(table) - 100, 2.0)]
    mixture = fit(holes, sample_weight=weights)
    report, kept = mixture.report_, holes[100:]
    assert (report.n_rows, report.n_features, report.n_components) == (800, 3, 2)
    assert report.shares == tuple(mixture.weights_)
    assert report.converged
    assert report.weight == weights.sum()
    assert report.log_likelihood == pytest.approx(2.0 * mixture.score_samples(kept).sum())
    assert report.share_missing == pytest.approx(np.isnan(kept).mean())
    seen = ~np.isnan(kept)
    np.testing.assert_allclose(report.share_floored_by_column, 1.0 - (kept > 0.0).sum(axis=0) / seen.sum(axis=0))
    assert report.share_floored == pytest.approx(1.0 - (kept > 0.0).sum() / seen.sum())


def test_a_progress_hears_of_every_stage_and_may_end_the_work(table):
    steps = []
    mixture = RectifiedGaussianMixture(2).with_progress(steps.append).fit(table)
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages == ["Looking at the columns' margins", "Reading rows", "Comparing starts", "Reading all rows"]
    for stage in stages:

        def interrupted(step, stage=stage):
            if step.stage == stage:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            mixture.with_progress(interrupted).fit(table)
        with pytest.raises(NotFittedError):
            _ = mixture.report_


def test_the_default_seed_is_a_number(table, fitted):
    np.testing.assert_array_equal(RectifiedGaussianMixture(2).fit(table).means_, fitted.means_)


# --- bad input ------------------------------------------------------------------------------------


def test_a_constant_column_is_named_and_kept(table, fitted):
    with warns("constant-column", match="column 3"):
        mixture = fit(np.c_[table, np.full(len(table), 2.5)])
    np.testing.assert_array_equal(mixture.means_[:, 3], 2.5)
    np.testing.assert_array_equal(mixture.covariances_[:, 3, 3], 0.0)
    np.testing.assert_allclose(mixture.means_[:, :3], fitted.means_, rtol=1e-10)
    np.testing.assert_array_equal(mixture.sample(5, random_state=0)[0][:, 3], 2.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"n_components": 1.5}, "n_components must be a whole number"),
        ({"n_components": 900}, "more than the 800 rows"),
        ({"n_init": 0}, "n_init must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"floor": [0.0, 1.0]}, "3 columns"),
        ({"floor_tolerance": -1.0}, "floor_tolerance must be"),
        ({"random_state": "chance"}, "random_state must be"),
    ],
)
def test_parameters_out_of_range(table, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        RectifiedGaussianMixture(**options).fit(table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:1], "1 sample"),
        (lambda x: x[:3], "Only 3 rows"),
        (lambda x: np.tile(x[:1], (50, 1)), "identical"),
        (lambda x: np.where(np.arange(len(x))[:, None] == 5, np.inf, x), "infinite"),
        (lambda x: x - 1.0, "below the floor"),
        (lambda x: np.where([True, True, False], x, np.nan), "No value at all in column 2"),
    ],
    ids=["one row", "three rows", "identical", "infinite", "below", "all NaN"],
)
def test_tables_that_cannot_be_learned(table, change, message):
    with pytest.raises(ValueError, match=message):
        fit(change(table))


def test_rows_to_judge_are_checked_too(fitted):
    with pytest.raises(InvalidDataError, match="infinite"):
        fitted.predict([[1.0, np.inf, 1.0]])
    with pytest.raises(ValueError, match="2 features"):
        fitted.score_samples([[1.0, 1.0]])
    with pytest.raises(InvalidParameterError, match="n_samples"):
        fitted.sample(0)
    with pytest.raises(NotFittedError):
        RectifiedGaussianMixture().sample(3)


@pytest.mark.slow  # a study
def test_em_that_has_not_settled_says_so(table):
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        mixture = fit(table[:150], 3, max_iter=2, n_init=1)
    assert not mixture.converged_


@pytest.mark.parametrize("n", [1000, 3000])
def test_a_mixture_of_one_scores_as_the_learner_does(n):
    """One density for both: at d = 8, r = .9 and 58 % floored a sweep over the floored cells is off by .046 a row. Of
    1,000 rows both score by shrunken correlations, which is half of the way to the truth in new rows."""
    model = RectifiedGaussian(np.full(8, -0.2), np.full((8, 8), 0.9) + 0.1 * np.eye(8))
    X, new = model.sample(n, random_state=1), model.sample(3000, random_state=2)
    assert 0.54 < np.mean(X == 0.0) < 0.61
    learner, mixture = RectifiedGaussianLearner().fit(X), RectifiedGaussianMixture(1).fit(X)
    assert mixture.score(X) == pytest.approx(learner.score(X), abs=0.002)
    assert mixture.score(new) == pytest.approx(learner.score(new), abs=0.002)
    assert mixture.score(new) == pytest.approx(mixture.distributions_[0].log_prob(new).mean(), abs=1e-9)
    if n == 3000:  # known so well that rows are scored by the correlations as they are
        assert mixture.lower_bound_ == pytest.approx(mixture.score(X), abs=1e-9)
    else:
        plain = mixture.distributions_[0].with_parts(scoring_covariance=None)
        assert mixture.score(new) > plain.log_prob(new).mean() + 0.003
    assert mixture.score(X) == pytest.approx(model.log_prob(X).mean(), abs=0.02)
    assert mixture.bic(X) == pytest.approx(learner.bic(X), abs=12.0)


def test_a_detector_scores_by_the_same_density():
    """A score is the log density per unit of each seen cell: what it adds is the same for the same cells."""
    model = RectifiedGaussian(np.full(8, -0.2), np.full((8, 8), 0.9) + 0.1 * np.eye(8))
    X = model.sample(200, random_state=1)
    added = FloorOutlierDetector.from_model(model).score_samples(X) - model.log_prob(X)
    seen = (X > 0.0).astype(float)
    units = np.linalg.lstsq(seen, added, rcond=None)[0]
    np.testing.assert_allclose(seen @ units, added, atol=1e-9)
