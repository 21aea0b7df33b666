"""What users of scikit-learn look for: precision_, mahalanobis, signs of scores, indicators, one warning of a fit."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.covariance import EmpiricalCovariance
from sklearn.impute import SimpleImputer

import unrelu
from tests.warned import kinds_of, warns
from unrelu import (
    FloorImputer,
    FloorOutlierDetector,
    RectifiedGaussian,
    RectifiedGaussianGraph,
    RectifiedGaussianLearner,
    RectifiedGaussianMixture,
)
from unrelu.errors import AssumptionWarning, CheckpointWarning, DataWarning, InvalidDataError
from unrelu.margins import Log
from unrelu.validation import noting_warnings, warn, warn_of_noted

NAN = np.nan
TRUTH = unrelu.synthetic.random_model(4, mean="signed", random_state=0)
HOLDERS = (RectifiedGaussianLearner, FloorImputer, RectifiedGaussianGraph)


@pytest.fixture(scope="module")
def table():
    x = TRUTH.sample(1500, random_state=1)
    x[::9, 2] = NAN
    return x


@pytest.fixture(scope="module")
def complete():
    return TRUTH.latent.with_parts(floor=-np.inf).sample(400, random_state=2)


# --- mean, precision, distances -------------------------------------------------------------------


def as_of_scikit_learn(mean, covariance):
    found = EmpiricalCovariance(store_precision=False)
    found.location_, found.covariance_ = mean, covariance
    return found


@pytest.mark.parametrize("kind", [*HOLDERS, FloorOutlierDetector])
def test_distances_of_a_complete_table_are_those_of_scikit_learn(kind, complete):
    options = {"method": "one_pass"} if kind is FloorOutlierDetector else {}
    fitted = kind(floor=None, margins="normal", **options).fit(complete)
    model = fitted.distribution_
    expected = as_of_scikit_learn(model.mean, model.covariance)
    for found in (fitted.mahalanobis(complete), model.mahalanobis(complete)):
        assert_allclose(found, expected.mahalanobis(complete), rtol=1e-9)
    assert_allclose(fitted.mahalanobis(complete), EmpiricalCovariance().fit(complete).mahalanobis(complete), rtol=0.02)


@pytest.mark.parametrize("kind", HOLDERS)
def test_location_is_the_mean_and_precision_the_inverse_of_the_covariance(kind, table):
    fitted = kind().fit(table)
    assert fitted.location_ is fitted.mean_
    if kind is not RectifiedGaussianGraph:  # whose precision has the zeros of the graph
        expected = as_of_scikit_learn(fitted.mean_, fitted.covariance_).get_precision()
        assert_allclose(fitted.precision_, expected, rtol=1e-8, atol=1e-8)
        assert fitted.precision_ is fitted.precision_
    again = unrelu.FloorImputer.from_model(fitted)
    assert_allclose(again.precision_, np.linalg.inv(fitted.covariance_), rtol=1e-8, atol=1e-8)


def test_distances_of_hidden_cells_are_expected_ones():
    """By exact draws of the hidden cells: floored, missing, at a ceiling and none seen."""
    model = RectifiedGaussian(TRUTH.mean, TRUTH.covariance, [0.0, 0.0, 0.0, -np.inf], None, [np.inf] * 3 + [0.5])
    x = model.sample(12, random_state=3)
    x[0], x[1, 1], x[2, 2:] = NAN, NAN, NAN
    assert (x[:, :3] == 0.0).any()
    assert (x[:, 3] == 0.5).any()
    draws = model.sample_latent(x, 20_000, random_state=4, below="latent") - model.mean
    drawn = np.einsum("kij,jl,kil->ki", draws, np.linalg.inv(model.covariance), draws)
    found = model.mahalanobis(x)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert_allclose(found, drawn.mean(axis=0), atol=0.03 + 5.0 * error.max())
    assert found[0] == pytest.approx(4.0)
    assert_allclose(FloorImputer.from_model(model).mahalanobis(x), found, rtol=1e-9)
    assert_allclose(FloorOutlierDetector.from_model(model).mahalanobis(x), found, rtol=1e-9)


def test_the_mean_distance_of_a_models_rows_is_the_number_of_columns():
    x = TRUTH.sample(20_000, random_state=5)
    x[np.random.default_rng(6).random(x.shape) < 0.3] = NAN
    found = TRUTH.mahalanobis(x)
    assert found.mean() == pytest.approx(4.0, abs=5.0 * found.std() / np.sqrt(len(found)) + 0.02)
    assert found.var() < 8.0  # of chi-square numbers: what is hidden takes their spread


def test_distances_do_not_depend_on_units_blocks_and_margins(table):
    by_log = TRUTH.with_margins([Log()] * 4, floor=1.0)
    assert_allclose(by_log.mahalanobis(np.exp(table)), TRUTH.mahalanobis(table), rtol=1e-9)
    learner = RectifiedGaussianLearner(margins="normal").fit(table)
    negated = RectifiedGaussianLearner(margins="normal", floor=None, ceiling=0.0).fit(-table)
    assert_allclose(negated.mahalanobis(-table), learner.mahalanobis(table), rtol=1e-6)
    rows = unrelu.tables.ArraySamples(table, block_rows=37)
    assert_allclose(learner.mahalanobis(rows), learner.mahalanobis(table), rtol=1e-9)
    assert np.isfinite(learner.mahalanobis([[1e300, 0.0, 0.0, NAN]])).all()


def test_a_covariance_without_an_inverse_has_no_precision():
    x = np.random.default_rng(0).standard_normal((200, 1)) @ [[1.0, 2.0]]
    learner = RectifiedGaussianLearner("one_pass", floor=None, margins="normal").fit(x)
    assert not hasattr(learner, "precision_")
    with pytest.raises(AttributeError, match="has no inverse: leave out columns"):
        _ = learner.precision_
    assert np.isfinite(learner.mahalanobis(x)).all()  # by the covariance that scores rows
    by_hand = RectifiedGaussian([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(InvalidDataError, match="has no inverse"):
        _ = by_hand.precision
    with warns("singular"):
        by_hand.mahalanobis([[1.0, 1.0]])


def test_constant_columns_count_nothing():
    model = RectifiedGaussian([1.0, 2.0], [[4.0, 0.0], [0.0, 0.0]], -np.inf)
    assert_array_equal(model.precision, [[0.25, 0.0], [0.0, 0.0]])
    assert_allclose(model.mahalanobis([[5.0, 2.0], [NAN, NAN]]), [4.0, 1.0])


# --- signs ----------------------------------------------------------------------------------------


def test_scores_are_larger_for_typical_rows_and_outlier_scores_for_outlying_ones(table):
    x = table.copy()
    x[7] = [9.0, 0.0, 9.0, 0.0]
    learner, detector = RectifiedGaussianLearner("robust").fit(x), FloorOutlierDetector().fit(x)
    mixture = RectifiedGaussianMixture(1).fit(table)
    typical = learner.score_samples, detector.score_samples, detector.decision_function, detector.p_values
    typical += mixture.score_samples, learner.distribution_.log_prob
    outlying = detector.outlier_score, detector.mahalanobis, learner.mahalanobis, learner.distribution_.outlier_score
    for score in typical:
        assert np.argmin(score(x)) == 7
    for score in outlying:
        assert np.argmax(score(x)) == 7
    assert_array_equal(detector.outlier_score(x), -detector.score_samples(x))
    assert_array_equal(detector.predict(x) == -1, detector.decision_function(x) < 0.0)
    assert detector.decision_function(x)[7] < 0.0


def test_cells_have_larger_scores_where_they_are_outlying(table):
    detector = FloorOutlierDetector("one_pass").fit(table)
    x = np.array([[9.0, 1.0, 1.0, 1.0], [0.0, 0.0, NAN, 0.0]])
    found, signed = detector.cell_outlier_score(x), detector.cell_outlier_score(x, signed=True)
    assert_array_equal(found, np.abs(signed))
    assert_array_equal(np.isnan(found), np.isnan(x))
    assert np.argmax(found[0]) == 0
    assert signed[0, 0] > 0.0
    assert (np.nan_to_num(signed[1]) <= 0.0).all()  # what is floored can only be too low
    assert_allclose(found, detector.distribution_.cell_outlier_score(x), rtol=1e-7, atol=1e-7)


# --- indicators -----------------------------------------------------------------------------------


def test_indicators_of_missing_cells_are_those_of_scikit_learn(complete):
    x = pd.DataFrame(complete, columns=["As", "Pb", "Zn", "Cu"])
    x.iloc[::5, 1] = x.iloc[3:9, 3] = NAN
    own, theirs = (
        imputer.set_output(transform="pandas").fit(x)
        for imputer in (FloorImputer(floor=None, add_indicator=True), SimpleImputer(add_indicator=True))
    )
    assert list(own.get_feature_names_out()) == list(theirs.get_feature_names_out())
    pd.testing.assert_frame_equal(own.transform(x).iloc[:, 4:], theirs.transform(x).iloc[:, 4:])
    later = x.fillna(0.0)
    later.iloc[0] = NAN  # of columns that had no missing cells, too
    pd.testing.assert_frame_equal(own.transform(later).iloc[:, 4:], theirs.transform(later).iloc[:, 4:])


@pytest.mark.parametrize("strategy", ["mean", "median", "draw"])
def test_indicators_mark_the_cells_that_are_filled_in(strategy, table, tmp_path):
    plain = FloorImputer(strategy=strategy).fit(table)
    imputer = FloorImputer(strategy=strategy, add_indicator=True).fit(table)
    found = imputer.transform(table)
    assert_array_equal(found, np.hstack([plain.transform(table), imputer.mask(table)]))
    assert imputer.transform(table.astype(np.float32)).dtype == (np.float64 if strategy == "draw" else np.float32)
    imputer.save(tmp_path / "imputer")
    again = unrelu.load(tmp_path / "imputer")
    assert_array_equal(again.transform(table), found)
    assert list(again.get_feature_names_out()[4:]) == [f"missingindicator_x{j}" for j in range(4)]


def test_indicators_are_of_columns_with_cells_that_were_filled_in():
    x = TRUTH.sample(300, random_state=7) + 1.0
    imputer = FloorImputer("one_pass", floor=1.0, fill="missing", add_indicator=True)
    assert list(imputer.partial_fit(x).get_feature_names_out()) == ["x0", "x1", "x2", "x3"]
    later = x.copy()
    later[0, 3] = NAN
    assert list(imputer.partial_fit(later).get_feature_names_out()[4:]) == ["missingindicator_x3"]
    assert_array_equal(imputer.transform(later)[:2, 4], [1.0, 0.0])
    from_model = FloorImputer.from_model(imputer, add_indicator=True)
    assert len(from_model.get_feature_names_out()) == from_model.transform(later).shape[1] == 8


# --- one warning ----------------------------------------------------------------------------------


def several(*rows):
    warn("Constant.", "constant-column", rows=rows)
    warn("Skewed.", "skewed")
    warn("Constant.", "constant-column")


def given(noted):
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        warn_of_noted(noted)
    return issued


def test_noted_warnings_are_issued_once_as_one_the_most_harmful_first():
    with warnings.catch_warnings(record=True) as early:
        warnings.simplefilter("always")
        with noting_warnings() as noted:
            several(3, 1)
            warn("No room.", "not-saved")
    assert kinds_of(early) == ["not-saved"]  # work goes on for long: it is issued at once
    assert early[0].category is CheckpointWarning
    issued = given(noted)
    assert len(issued) == 1
    assert issued[0].category is AssumptionWarning
    assert str(issued[0].message) == "Skewed. [skewed]\nConstant. [constant-column]"
    assert issued[0].message.rows == (1, 3)
    with noting_warnings() as outer:
        warn_of_noted(noted)
    assert given(outer)[0].message.kinds == ("skewed", "constant-column")
    assert given([]) == []


def test_filters_hold_for_every_line():
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DataWarning)
        with noting_warnings() as noted:
            several()
        assert kinds_of(given(noted)) == ["skewed"]
        warnings.filterwarnings("ignore", unrelu.errors.about("skewed"))
        with noting_warnings() as noted:
            several()
        assert noted == []
        warnings.simplefilter("error", DataWarning)
        with noting_warnings() as noted:
            several()  # an error when it is issued, which it may never be
            warn("Tied.", "ties")
        with pytest.raises(DataWarning, match=r"^Constant\. \[constant-column\]$"):
            warn_of_noted(noted)
