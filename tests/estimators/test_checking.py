"""The check as learners and models offer it: tables of every kind, names, and what is passed on to the fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import unrelu
from unrelu.errors import InvalidDataError, InvalidParameterError

NAMES = ["As", "Pb"]
MODEL = unrelu.RectifiedGaussian([0.5, 0.2], [[1.0, 0.6], [0.6, 1.0]], feature_names=NAMES)
X = MODEL.sample(150, random_state=0)


def test_every_kind_of_table_gives_the_same_check():
    learner = unrelu.RectifiedGaussianLearner().fit(X)
    whole = learner.check(X, n_simulations=19)
    blocks = learner.check(unrelu.tables.ArraySamples(X, block_rows=40), n_simulations=19)
    np.testing.assert_array_equal(blocks.pair_p_value, whole.pair_p_value)
    assert blocks.p_value == whole.p_value
    assert whole.names == ("x0", "x1")
    frame = pd.DataFrame(X, columns=NAMES)
    assert unrelu.RectifiedGaussianLearner().fit(frame).check(frame, n_simulations=19).names == ("As", "Pb")


def test_numbers_stored_with_fewer_digits_are_at_the_same_floor():
    x = MODEL.sample(150, random_state=1) + 0.1
    single, double = (
        unrelu.RectifiedGaussianLearner(floor=0.1).fit(rows).check(rows, n_simulations=19)
        for rows in (x.astype(np.float32), x)
    )
    np.testing.assert_array_equal(single.share_at_limit, double.share_at_limit)
    np.testing.assert_allclose(single.column_statistic, double.column_statistic, rtol=1e-4)


def test_a_floor_from_the_table_is_kept_for_simulated_ones():
    found = unrelu.RectifiedGaussianLearner(floor="min").fit(X).check(X, n_simulations=19)
    np.testing.assert_array_equal(
        found.column_statistic, unrelu.RectifiedGaussianLearner().fit(X).check(X, n_simulations=19).column_statistic
    )


def test_other_methods_are_fitted_as_they_are():
    """Numbers are those of the learner's own model, whatever its method."""
    quick = unrelu.RectifiedGaussianLearner("one_pass").fit(X).check(X, n_simulations=19)
    median = unrelu.RectifiedGaussianLearner("median").fit(X)
    expected = unrelu.check_model(median, X, n_simulations=19).column_statistic
    np.testing.assert_allclose(median.check(X, n_simulations=19).column_statistic, expected)
    assert not np.allclose(quick.column_statistic, expected)
    own = unrelu.check_model(unrelu.RectifiedGaussianLearner("one_pass").fit(X), X, n_simulations=19)
    np.testing.assert_allclose(quick.column_statistic, own.column_statistic)
    # The full likelihood's model is that of one pass but for errors of learning, and is checked by it.
    likely = unrelu.RectifiedGaussianLearner().fit(X)
    assert likely.report_.method == "full_likelihood"
    np.testing.assert_array_equal(likely.check(X, n_simulations=19).column_statistic, quick.column_statistic)


def test_a_learner_must_be_fitted():
    with pytest.raises(NotFittedError):
        unrelu.RectifiedGaussianLearner().check(X)


def test_a_given_model_reads_its_own_columns():
    frame = pd.DataFrame(X, columns=NAMES)
    assert unrelu.check_model(MODEL, frame, n_simulations=19).names == ("As", "Pb")
    assert unrelu.check_model(MODEL, X, n_simulations=19).names == ("As", "Pb")
    learner = unrelu.RectifiedGaussianLearner().fit(frame)
    assert not unrelu.check_model(learner, X, n_simulations=19).refitted
    with pytest.raises(InvalidDataError, match="are not those"):
        unrelu.check_model(MODEL, frame[["Pb", "As"]])
    with pytest.raises(InvalidDataError, match="has 3 columns, but the model has 2"):
        unrelu.check_model(MODEL, np.ones((30, 3)))
    with pytest.raises(InvalidDataError, match="are not those"):
        unrelu.check_model(MODEL, unrelu.tables.ArraySamples(X, feature_names=["a", "b"]))
    with pytest.raises(InvalidParameterError, match="model must be a RectifiedGaussian"):
        unrelu.check_model("model.npz", X)


def test_an_imputer_is_checked_like_a_learner():
    found = unrelu.FloorImputer().fit(X).check(X, n_simulations=19)
    assert found.p_value == unrelu.RectifiedGaussianLearner().fit(X).check(X, n_simulations=19).p_value


def test_a_column_that_is_constant_in_the_model_is_left_out():
    distribution = unrelu.RectifiedGaussian([0.5, 0.2], [[1.0, 0.0], [0.0, 0.0]])
    assert unrelu.check_model(distribution, X, n_simulations=19).left_out == ((1, "constant in the model"),)
