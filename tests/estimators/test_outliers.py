"""The outlier detector: scikit-learn's distributions, thresholds that mean what they say, and cells named rightly."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_outliers_fit_predict, check_outliers_train, parametrize_with_checks

from unrelu import FloorOutlierDetector, RectifiedGaussian, RectifiedGaussianLearner, methods, synthetic
from unrelu.contracts import Block
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.fit.robust_rows.detection import OutlierScores, outlying_cells, score_threshold
from unrelu.posterior.density import block_scores
from unrelu.tables import ArraySamples, open_samples, write_table

NEGATIVE = "feeds negative numbers whatever the tags say; run below with a lower floor"
REFUSED = {
    "check_outliers_fit_predict": NEGATIVE,
    "check_outliers_train": NEGATIVE,
    "check_sample_weight_equivalence_on_dense_data": "feeds 15 rows of 30 columns, too few to tell outliers by",
    "check_sample_weight_equivalence_on_sparse_data": "feeds 15 rows of 30 columns, too few to tell outliers by",
}


@parametrize_with_checks([FloorOutlierDetector("one_pass")], expected_failed_checks=lambda estimator: REFUSED)
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow  # the same distributions; the robust fit takes ten times as long
@parametrize_with_checks([FloorOutlierDetector()], expected_failed_checks=lambda estimator: REFUSED)
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks_of_the_robust_fit(estimator, check):
    check(estimator)


@pytest.mark.slow  # the robust fit takes ten times as long
@pytest.mark.parametrize("check", [check_outliers_fit_predict, check_outliers_train])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks_of_outliers(check):
    check("FloorOutlierDetector", FloorOutlierDetector(floor=-1e6))


@pytest.fixture(scope="module")
def truth():
    """Correlations of .3, so that every partial correlation is .3/1.6: what is outlying in one cell stays there."""
    scale = np.array([1.0, 2.0, 0.5, 1.5])
    correlation = 0.3 + 0.7 * np.eye(4)
    mean = np.array([0.5, -0.3, 1.0, 0.6])
    return RectifiedGaussian(mean, scale[:, None] * correlation * scale)


@pytest.fixture(scope="module")
def table(truth):
    return truth.sample(3000, random_state=4)


@pytest.fixture(scope="module")
def detector(table):
    return FloorOutlierDetector().fit(table)


# --- thresholds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e-6, 0.001, 0.01, 0.05, 0.3])
def test_predictions_decisions_and_p_values_agree(table, truth, rate):
    """To the last bit, also at the level where simulated p-values end and the continued tail begins (.01)."""
    detector = FloorOutlierDetector("one_pass", false_alarm_rate=rate).fit(table)
    X = np.concatenate([truth.sample(20_000, random_state=9), table + np.linspace(0.0, 8.0, len(table))[:, None]])
    flagged = detector.predict(X) == -1
    assert 0 < flagged.sum() < len(X)
    np.testing.assert_array_equal(flagged, detector.decision_function(X) < 0.0)
    np.testing.assert_array_equal(flagged, detector.p_values(X) < rate)
    np.testing.assert_array_equal(detector.decision_function(X), detector.score_samples(X) - detector.offset_)
    at_threshold = np.array([detector.offset_, np.nextafter(detector.offset_, -np.inf)])
    np.testing.assert_array_equal(detector._scores.tail.p_value(at_threshold) < rate, [False, True])


@pytest.mark.parametrize(
    ("method", "rate", "tolerance"),
    [("robust", 0.05, 0.0), ("robust", 0.01, 0.1), ("one_pass", 0.01, 0.0), ("one_pass", 0.2, 0.1)],
)
def test_clean_rows_are_flagged_at_the_false_alarm_rate(table, method, rate, tolerance):
    detector = FloorOutlierDetector(method, false_alarm_rate=rate, floor_tolerance=tolerance).fit(table)
    n, simulated = 40_000, len(detector._scores.tail.scores)
    share = np.mean(detector.predict(detector.distribution_.sample(n, random_state=11)) == -1)
    # Errors of a share of n rows, and of a threshold that is a quantile of the simulated rows.
    error = np.sqrt(rate * (1.0 - rate) * (1.0 / n + 1.0 / simulated))
    assert abs(share - rate) < 4.0 * error


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_contamination_is_the_share_of_training_rows_flagged(table, share):
    detector = FloorOutlierDetector("one_pass", contamination=share).fit(table)
    scores = detector.score_samples(table)
    assert detector.offset_ == np.quantile(scores, share)
    assert np.sum(detector.predict(table) == -1) == pytest.approx(share * len(table), abs=1)


@pytest.mark.parametrize("share", [0.0, -0.1, 0.51, 1, np.nan, True, "some", None])
def test_contamination_out_of_range(table, share):
    with pytest.raises(InvalidParameterError, match=r"contamination must be 'auto' or a number in \(0, 0.5\]"):
        FloorOutlierDetector(contamination=share).fit(table)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, np.nan, "low", True])
def test_false_alarm_rate_out_of_range(table, rate):
    with pytest.raises(InvalidParameterError, match="false_alarm_rate must be a number between 0 and 1"):
        FloorOutlierDetector(false_alarm_rate=rate).fit(table)


def test_a_lower_false_alarm_rate_is_a_lower_threshold(detector):
    thresholds = [score_threshold(detector._scores, rate) for rate in (1e-300, 1e-9, 0.001, 0.01, 0.02, 0.5, 0.999)]
    assert thresholds == sorted(thresholds)
    assert len(set(thresholds)) == len(thresholds)


# --- what is found --------------------------------------------------------------------------------


def test_planted_outliers_are_found_and_their_column_is_named(truth, table):
    dirty, planted = table.copy(), np.arange(300)
    dirty[planted, 3] += 6.0 * truth.std[3]
    detector = FloorOutlierDetector().fit(dirty)
    # A shift of 6 standard deviations, 6.6 given the other cells, is missed where the row's own deviation is below
    # -2.9, as chi-square (4) leaves 1 % beyond 13.3 = 3.65^2: at most .2 % of 300 rows, 4 with 4 standard errors.
    assert np.sum(detector.predict(dirty[planted]) == 1) <= 4
    cells = detector._scores.scores.cell_outlier_score(dirty[planted])
    # Another cell is more outlying where deviations outweigh 6.6 (1 - .19) = 5.3, which have errors of about 1.4 each.
    assert np.mean(np.argmax(np.abs(cells), axis=1) == 3) > 0.98
    assert detector.cell_residuals(dirty[planted])[:, 3].min() > 0.0
    assert detector.row_weights_[planted].mean() < 0.05
    # Clean rows are flagged at the rate: 27 of 2,700, known to 5.2 (binomial), the model's own error small beside it.
    false_alarms = np.sum(detector.predict(dirty[300:]) == -1)
    assert abs(false_alarms - 27) < 4 * 5.2


def test_an_impossible_zero_is_found():
    """A zero is no proof of innocence: the other columns, correlated .98, say that the value was about 4."""
    model = RectifiedGaussian([2.0, 2.0, 2.0], 0.98 + 0.02 * np.eye(3))
    X = model.sample(3000, random_state=0)
    X[7] = [4.0, 4.0, 0.0]
    X[8] = [0.0, 0.0, 0.0]
    detector = FloorOutlierDetector().fit(X)
    assert detector.predict(X[7:8])[0] == -1
    assert detector.p_values(X[7:8])[0] < 1e-12
    impossible, possible = detector.cell_residuals(X[7:9])
    # Given y1 = y2 = 4, y3 has mean 2 + 2 * 2 * .98 / 1.98 = 3.98 and standard deviation .173: the floor is -23.
    # A standard deviation learned from n rows is known to 1/sqrt(2 n) = 1.3 %; four of those.
    assert impossible[2] == pytest.approx(-23.0, rel=0.052)
    assert np.argmax(np.abs(impossible)) == 2
    assert possible.min() > -2.0


def test_a_model_learned_elsewhere_judges_new_rows(detector, truth):
    fresh = truth.sample(5, random_state=1)
    fresh[2, 0] += 9.0
    np.testing.assert_array_equal(detector.predict(fresh) == -1, [False, False, True, False, False])


# --- residuals against independent references -----------------------------------------------------


def conditioned(model, x, cell, given):
    """Mean and standard deviation of y[cell] given the cells ``given``, by the textbook formula."""
    s = model.covariance
    k = np.linalg.solve(s[np.ix_(given, given)], s[given, cell])
    return model.mean[cell] + k @ (x[given] - model.mean[given]), np.sqrt(s[cell, cell] - k @ s[given, cell])


def test_residuals_of_rows_above_the_floor_are_conditional_normals(detector, table):
    model = detector.distribution_
    rows = table[(table > 0.0).all(axis=1)][:50]
    holes = rows.copy()
    holes[::2, 1] = np.nan
    for X in (rows, holes):
        expected = np.full(X.shape, np.nan)
        for i, x in enumerate(X):
            seen = np.flatnonzero(~np.isnan(x))
            for cell in seen:
                mean, deviation = conditioned(model, x, cell, seen[seen != cell])
                expected[i, cell] = (x[cell] - mean) / deviation
        # The kernel adds 1e-8 to the correlations' diagonal, which the inverse of .7 and residuals of 3 leave at 4e-8.
        np.testing.assert_allclose(detector.cell_residuals(X), expected, atol=1e-7)


def test_residuals_beside_a_floored_cell_are_by_quadrature(detector):
    """y1 is only known to be below 0; given it and the seen ones, y0 has the mean and variance of an integral."""
    model = detector.distribution_
    x = np.array([1.7, 0.0, 1.2, 2.5])
    mean1, deviation1 = conditioned(model, x, 1, np.array([2, 3]))
    others = np.array([1, 2, 3])

    def at(y1):
        return conditioned(model, np.array([x[0], y1, x[2], x[3]]), 0, others)

    def integral(f):
        low, high = mean1 - 12.0 * deviation1, min(0.0, mean1 + 12.0 * deviation1)
        return quad(lambda y1: f(y1) * norm.pdf(y1, mean1, deviation1), low, high, epsabs=1e-13)[0]

    mass = integral(lambda y1: 1.0)
    mean = integral(lambda y1: at(y1)[0]) / mass
    variance = integral(lambda y1: at(y1)[1] ** 2 + (at(y1)[0] - mean) ** 2) / mass
    found = detector.cell_residuals(x[None])[0]
    assert found[0] == pytest.approx((x[0] - mean) / np.sqrt(variance), abs=1e-6)
    # The floored cell's own residual is where the floor lies.
    mean, deviation = conditioned(model, x, 1, np.array([0, 2, 3]))
    assert found[1] == pytest.approx((0.0 - mean) / deviation, abs=1e-6)


def test_scores_of_rows_above_the_floor_are_log_densities(table):
    """In cell units, sqrt(2 pi e) times the spread a cell has given all others; a missing cell is integrated out."""
    detector = FloorOutlierDetector("one_pass").fit(table)
    model = detector.distribution_
    rows = table[(table > 0.0).all(axis=1)][:20]
    log_unit = 0.5 * np.log(2.0 * np.pi * np.e / np.diagonal(np.linalg.inv(model.covariance)))
    whole = multivariate_normal(model.mean, model.covariance).logpdf(rows) + log_unit.sum()
    np.testing.assert_allclose(detector.score_samples(rows), whole, atol=1e-6)
    rows[:, 2] = np.nan
    part = model.marginal([0, 1, 3])
    left = multivariate_normal(part.mean, part.covariance).logpdf(rows[:, [0, 1, 3]]) + log_unit[[0, 1, 3]].sum()
    np.testing.assert_allclose(detector.score_samples(rows), left, atol=1e-6)


def test_expected_zeros_count_nothing_and_cells_off_a_constant_count_infinitely():
    model = RectifiedGaussian([-2.0, 3.0, 5.0], np.diag([1.0, 1.0, 0.0]))
    scorer = OutlierScores.of_model(model)
    X = np.array([[0.0, 0.0, 5.0], [0.0, 3.5, 6.0], [np.nan, 3.5, 4.0]])
    cells = scorer.scores.cell_outlier_score(X)
    np.testing.assert_allclose(cells, [[0.0, -3.0, np.nan], [0.0, 0.5, np.inf], [np.nan, 0.5, -np.inf]], atol=1e-6)
    found = outlying_cells(scorer, np.arange(3), frozenset({1}), (), Block(X))
    assert [[column for column, _ in found.drivers[row]] for row in range(3)] == [[1], [2], [2]]
    np.testing.assert_array_equal(found.whole[1], cells[1])


# --- ways to bring the rows -----------------------------------------------------------------------


def test_frames_give_names_and_must_keep_them(table):
    frame = pd.DataFrame(table.copy(), columns=["As", "Pb", "Cd", "Hg"])
    detector = FloorOutlierDetector("one_pass").fit(frame)
    assert detector.feature_names_in_.tolist() == ["As", "Pb", "Cd", "Hg"]
    assert detector.distribution_.feature_names == ("As", "Pb", "Cd", "Hg")
    assert detector.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names should match"):
        detector.predict(frame[["Pb", "As", "Cd", "Hg"]])
    frame.loc[6, "Cd"] = -1.0
    for judge in (detector.predict, detector.p_values, detector.cell_residuals):
        with pytest.raises(
            InvalidDataError, match=r"below the floor 0, in column 2 \('Cd'\) \(1, first in row 6 \(the first is 0\)\)"
        ):
            judge(frame)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_cells_are_named(detector, table, bad):
    X = table[:100].copy()
    X[42, 1] = bad
    for judge in (detector.predict, detector.score_samples, detector.cell_residuals):
        with pytest.raises(InvalidDataError, match=r"column 1 \(1, first in row 42 \(the first is 0\)\)"):
            judge(X)


@pytest.mark.parametrize("gross", [1e5, 1e100, 1e300])
def test_gross_cells_are_judged(detector, table, gross):
    X = table[:100].copy()
    X[42, 1] = gross
    assert detector.predict(X)[42] == -1
    assert detector.p_values(X)[42] == 0.0
    for found in (detector.score_samples(X), detector.cell_residuals(X), detector.cell_probabilities(X)):
        assert np.isfinite(found).all()
    assert np.argmax(np.abs(detector.cell_residuals(X)[42])) == 1


def test_missing_cells_are_left_out_of_the_judgement(detector, table):
    holes = table.copy()
    holes[np.random.default_rng(0).random(table.shape) < 0.2] = np.nan
    learned = FloorOutlierDetector().fit(holes)
    assert np.isfinite(learned.score_samples(holes)).all()
    np.testing.assert_array_equal(np.isnan(learned.cell_residuals(holes)), np.isnan(holes))
    strange = np.array([[np.nan, 12.0, np.nan, np.nan], [np.nan, np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(learned.predict(strange), [-1, 1])


def test_float32_and_integers(table, truth):
    single = table.astype(np.float32)
    exact = FloorOutlierDetector("one_pass").fit(single.astype(np.float64))
    learned = FloorOutlierDetector("one_pass").fit(single)
    np.testing.assert_allclose(learned.score_samples(single), exact.score_samples(single), rtol=1e-5, atol=1e-5)
    assert learned.score_samples(single).dtype == np.float64
    counts = (10 * table).astype(np.int64)
    detector = FloorOutlierDetector("one_pass").fit(counts)
    np.testing.assert_array_equal(detector.predict(counts), detector.predict(counts.astype(np.float64)))


def test_weights_are_repetitions(table):
    X, weights = table[:600], np.random.default_rng(0).integers(0, 4, 600)
    weighted = FloorOutlierDetector("one_pass").fit(X, sample_weight=weights)
    repeated = FloorOutlierDetector("one_pass").fit(X.repeat(weights, axis=0))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-6, atol=1e-6)


def test_rows_of_weight_zero_may_hold_anything(table):
    X, weights = table.copy(), np.ones(len(table))
    X[:50], weights[:50] = -7.0, 0.0
    detector = FloorOutlierDetector("one_pass", contamination=0.1).fit(X, sample_weight=weights)
    assert np.sum(detector.predict(X[50:]) == -1) == pytest.approx(295, abs=1)
    with pytest.raises(InvalidDataError, match="below the floor"):
        detector.predict(X)


def test_floor_and_tolerance_reach_the_judgement(table):
    detector = FloorOutlierDetector("one_pass", floor=[1.0, -2.0, 0.0, 0.5], floor_tolerance=0.1)
    X = table + np.array([1.0, -2.0, 0.0, 0.5])
    jitter = np.random.default_rng(0).uniform(-0.1, 0.1, X.shape)
    X = np.where(table == 0.0, X + jitter, X)
    detector.fit(X)
    np.testing.assert_array_equal(detector.distribution_.floor, [1.0, -2.0, 0.0, 0.5])
    floored = np.where(table == 0.0, X - jitter, X)
    np.testing.assert_array_equal(detector.score_samples(X), detector.score_samples(floored))


def test_rows_read_block_by_block_are_judged_alike(detector, table, tmp_path):
    X = table.copy()
    X[2500:2510, 3] += 9.0
    write_table(tmp_path / "table.csv", X, ["As", "Pb", "Cd", "Hg"])
    rows = open_samples(tmp_path / "table.csv", block_rows=700)
    learned, whole = (FloorOutlierDetector("one_pass", contamination=0.1).fit(one) for one in (rows, X))
    assert learned.feature_names_in_.tolist() == ["As", "Pb", "Cd", "Hg"]
    assert learned.offset_ == pytest.approx(whole.offset_, rel=1e-9)
    for ask in ("predict", "score_samples", "p_values", "cell_residuals"):
        np.testing.assert_allclose(getattr(learned, ask)(rows), getattr(whole, ask)(X), rtol=1e-6, atol=1e-8)
    one, other = (found.score_table(given, top=4) for found, given in ((learned, rows), (whole, X)))
    np.testing.assert_array_equal(one.top, other.top)
    with pytest.raises(InvalidParameterError, match="sample_weight goes with a table in memory"):
        FloorOutlierDetector("one_pass").fit(rows, sample_weight=np.ones(len(X)))


def test_weights_of_rows_in_blocks_count_in_the_threshold(table):
    weights = np.random.default_rng(0).integers(0, 3, len(table)).astype(float)
    blocks = ArraySamples(table, weights, block_rows=700)
    detector = FloorOutlierDetector("one_pass", contamination=0.2).fit(blocks)
    repeated = np.repeat(detector.score_samples(table), weights.astype(int))
    assert detector.offset_ == np.quantile(repeated, 0.2, method="inverted_cdf")
    assert detector.offset_ != np.quantile(detector.score_samples(table), 0.2)


# --- a table judged at once, and models without rows ----------------------------------------------


def test_a_verdict_is_what_the_parts_say(detector, table):
    X = table.copy()
    X[[5, 1700], 2] += [9.0, 12.0]
    verdict = detector.score_table(X, top=3)
    np.testing.assert_array_equal(verdict.scores, detector.score_samples(X))
    np.testing.assert_array_equal(verdict.p_values, detector.p_values(X))
    np.testing.assert_array_equal(verdict.flagged, detector.predict(X) == -1)
    assert verdict.threshold == detector.offset_
    np.testing.assert_array_equal(verdict.top, np.argsort(verdict.scores)[:3])
    assert verdict.top[:2].tolist() == [1700, 5]
    column, size = verdict.drivers(1700)[0]
    assert (column, size) == (2, detector.cell_residuals(X[[1700]])[0, 2])
    np.testing.assert_array_equal(np.flatnonzero(verdict.cells.whole[5] == size), [])
    np.testing.assert_array_equal(verdict.model_scores, np.sort(verdict.model_scores))
    other = next(row for row in np.flatnonzero(verdict.flagged) if row not in verdict.top)
    with pytest.raises(LookupError, match="have no scores"):
        verdict.drivers(other)
    assert detector.score_table(X, top=0, cells_of="flagged").drivers(other)
    with pytest.raises(LookupError, match="have no scores"):
        detector.score_table(X, top=0).drivers(5)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"top": -1}, "top must be"), ({"top": 1.5}, "top must be"), ({"cells_of": "flaged"}, "Did you mean 'flagged'")],
)
def test_judging_wants_sensible_parameters(detector, table, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        detector.score_table(table, **options)


def test_a_model_alone_makes_a_detector(truth, table):
    given = FloorOutlierDetector.from_model(truth, false_alarm_rate=0.05, random_state=3)
    expected = OutlierScores.of_model(truth, seed=3)
    np.testing.assert_array_equal(given.score_samples(table), expected.score(table))
    np.testing.assert_array_equal(given.p_values(table), expected.tail.p_value(expected.score(table)))
    assert given.offset_ == score_threshold(expected, 0.05)
    assert given.distribution_ is truth
    # 3,000 rows of the model itself, and a threshold from as many simulated rows as fit: 4 standard errors.
    error = np.sqrt(0.05 * 0.95 * (1.0 / len(table) + 1.0 / len(expected.tail.scores)))
    assert abs(np.mean(given.predict(table) == -1) - 0.05) < 4.0 * error
    learner = RectifiedGaussianLearner().fit(table)
    learned = FloorOutlierDetector.from_model(learner)
    assert learned.distribution_ is learner.distribution_
    assert clone(learned).fit(table).offset_ is not None
    with pytest.raises(AttributeError, match="no rows"):
        _ = given.report_
    with pytest.raises(InvalidDataError, match="below the floor"):
        given.predict(table - 1.0)
    for options in ({"false_alarm_rate": 0.0}, {"floor_tolerance": -1.0}, {"random_state": "x"}):
        with pytest.raises(InvalidParameterError, match=f"{next(iter(options))} must be"):
            FloorOutlierDetector.from_model(truth, **options)


def test_floors_and_tolerance_of_a_given_model(table):
    model = RectifiedGaussian([1.0, 2.0], np.eye(2), [0.5, -1.0])
    given = FloorOutlierDetector.from_model(model, floor_tolerance=0.1)
    low = np.array([[0.45, -1.05], [0.55, -0.95]])
    assert np.ptp(given.score_samples(low)) == 0.0  # all within the tolerance of the floor
    with pytest.raises(InvalidDataError, match="below"):
        given.score_samples(low - 0.2)


def test_a_progress_hears_of_every_stage_and_may_end_the_work(table):
    table, steps = table[:800], []
    detector = FloorOutlierDetector().with_progress(steps.append).fit(table)
    stages = list(dict.fromkeys(step.stage for step in steps))
    assert stages == [
        "Looking at the columns' margins",
        "Reading rows",
        "Choosing groups of rows",
        "Reweighting rows",
        "Simulating rows of the model",
    ]
    steps.clear()
    detector.score_table(table)
    assert [step.stage for step in steps if step.done == len(table)] == [
        "Scoring rows",
        "Scoring the cells of the most outlying rows",
    ]
    for stage in stages:

        def interrupted(step, stage=stage):
            if step.stage == stage:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            detector.with_progress(interrupted).fit(table)
        with pytest.raises(NotFittedError):
            detector.predict(table)


# --- seeds, states, refusals ----------------------------------------------------------------------


@pytest.mark.slow  # several fits
def test_the_same_seed_gives_the_same_judgement(table):
    X = table[:500]
    first, again = (FloorOutlierDetector(random_state=3).fit(X) for _ in range(2))
    assert again.offset_ == first.offset_
    np.testing.assert_array_equal(again.score_samples(X), first.score_samples(X))
    assert FloorOutlierDetector(methods.Robust(), random_state=3).fit(X).offset_ == first.offset_
    assert FloorOutlierDetector().fit(X).offset_ != first.offset_


def test_random_states_of_every_kind(table):
    for state in (None, np.random.default_rng(0), np.random.RandomState(0)):
        FloorOutlierDetector("one_pass", random_state=state).fit(table)
    for state in (-1, "seed"):
        with pytest.raises(InvalidParameterError, match="random_state must be"):
            FloorOutlierDetector("one_pass", random_state=state).fit(table)


def test_scores_do_not_depend_on_blocks_and_questions_travel(detector, table):
    question = pickle.loads(pickle.dumps(partial(block_scores, detector._scores.score, (0.0,) * 4, ())))
    parts = [question(Block(table[a:b], a)) for a, b in ((0, 1), (1, 1000), (1000, 3000))]
    merged = parts[2].merge(parts[0]).merge(parts[1])
    np.testing.assert_allclose(merged.scores, detector.score_samples(table), rtol=1e-12)


def test_only_the_robust_method_weighs_rows(detector, table):
    assert detector.row_weights_.shape == (len(table),)
    assert detector.report_.method == "robust"
    assert not hasattr(FloorOutlierDetector("one_pass").fit(table), "row_weights_")


def test_unfitted_detectors_say_so(table):
    for attempt in (lambda d: d.predict(table), lambda d: d.distribution_, lambda d: d.row_weights_):
        with pytest.raises(NotFittedError):
            attempt(FloorOutlierDetector())
    detector = FloorOutlierDetector("one_pass").fit(table)
    with pytest.raises(InvalidDataError):
        detector.fit(-table)
    with pytest.raises(NotFittedError):
        detector.predict(table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:7], "Only 7 rows for 4 columns"),
        (lambda x: np.where(np.arange(len(x))[:, None] < 0.6 * len(x), x[0], x), "60% of the rows are identical"),
        (lambda x: x[:1], "minimum of 2 is required by FloorOutlierDetector"),
    ],
)
def test_tables_that_cannot_be_judged(table, change, message):
    with pytest.raises(ValueError, match=message):
        FloorOutlierDetector().fit(change(table))


def test_bad_cells_by_what_was_learned_and_by_a_model_alone(tmp_path):
    truth = synthetic.random_model(4, condition_number=10.0, random_state=0)
    x = truth.sample(1500, random_state=1)
    bad = np.random.default_rng(2).random(x.shape) < 0.03
    x = np.where(bad, x + 7.0 * truth.std, x)
    detector = FloorOutlierDetector("robust_cells").fit(x)
    told = detector.cell_probabilities(x)
    np.testing.assert_allclose(1.0 - told, detector.cell_weights_, atol=1e-6)
    by_model = FloorOutlierDetector.from_model(truth)
    for probability in (told, by_model.cell_probabilities(x)):
        assert (probability > 0.5)[bad].mean() > 0.98
        assert (probability > 0.5)[~bad].mean() < 0.003
    detector.save(tmp_path / "d.npz")
    np.testing.assert_array_equal(FloorOutlierDetector.load(tmp_path / "d.npz").cell_probabilities(x[:5]), told[:5])
    with pytest.raises(AttributeError, match="robust_cells"):
        _ = by_model.cell_weights_
