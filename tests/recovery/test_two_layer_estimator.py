"""TwoLayerReLULearner: exact without noise, as good as an oracle with it, files, bad input, and no silent mistakes."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.references import generators
from tests.references import layers as reference
from tests.warned import refuse, warns
from unrelu import RectifiedGaussianLearner, TwoLayerReLULearner
from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError, UnreluWarning, about

EXACT = 1e-7  # rounding of 1e-16, noise of 1e-9 that bands are wide, and condition numbers below 100


def seeded(seed=0):
    return np.random.default_rng(seed)


# What scikit-learn's checks feed are tables of 20 to 100 random rows that no layer made: they have no facets.
NO_FACETS = "random tables have no facets: fit refuses them"
REFUSED = dict.fromkeys(
    [
        "check_dict_unchanged",
        "check_dont_overwrite_attributes",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_estimators_nan_inf",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_transformer_preserve_dtypes",
    ],
    NO_FACETS,
)


@parametrize_with_checks([TwoLayerReLULearner(1)])
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks(estimator, check):
    name = check.func.__name__
    if name in REFUSED:
        pytest.skip(
            REFUSED[name]
        )  # a search in vain takes a second; the distributions are tested below, with tables of layers
    check(estimator)


@pytest.fixture(scope="module")
def drawn():
    return reference.draw(seeded(1))


@pytest.fixture(scope="module")
def fitted(drawn):
    return TwoLayerReLULearner(4).fit(drawn[0])


# --- distributions that the checks of random tables cannot reach -------------------------------------------


def test_parameters_and_input_are_left_alone(drawn, fitted):
    X = drawn[0].copy()
    X.setflags(write=False)
    learner = TwoLayerReLULearner(4)
    before = learner.get_params()
    assert learner.fit(X) is learner
    assert learner.get_params() == before
    assert clone(learner).get_params() == before
    assert learner.n_features_in_ == 12
    np.testing.assert_array_equal(learner.output_weights_, fitted.output_weights_)


def test_kinds_of_arrays_do_not_matter(drawn, fitted):
    for X in (np.asfortranarray(drawn[0]), drawn[0].astype(object), drawn[0].tolist()):
        np.testing.assert_allclose(TwoLayerReLULearner(4).fit(X).output_weights_, fitted.output_weights_, atol=1e-12)


def test_rows_are_transformed_one_by_one(drawn, fitted):
    X = drawn[0][:50]
    whole = fitted.transform(X)
    np.testing.assert_allclose(np.vstack([fitted.transform(row[None]) for row in X]), whole, atol=1e-12)
    np.testing.assert_allclose(fitted.transform(X[::-1]), whole[::-1], atol=1e-12)  # BLAS may sum in another order
    np.testing.assert_array_equal(TwoLayerReLULearner(4).fit_transform(drawn[0])[:50], whole)


def test_pickled(drawn, fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(drawn[0]), fitted.transform(drawn[0]))


def test_units_have_names(drawn, fitted):
    assert fitted.get_feature_names_out()[0] == "twolayerrelulearner0"
    assert isinstance(TwoLayerReLULearner(4).set_output(transform="pandas").fit_transform(drawn[0]), pd.DataFrame)


# --- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("output_bias", [False, True])
@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize(("d", "p"), [(8, 3), (5, 5), (20, 8)])
def test_exact_without_noise(d, p, nonnegative, output_bias):
    X, A, h, a = reference.draw(seeded(2), d, p, 1000, nonnegative=nonnegative, output_bias=output_bias)
    learner = TwoLayerReLULearner(p, output_bias=output_bias).fit(X)
    order = reference.matched(learner.output_weights_, A)
    np.testing.assert_allclose(learner.output_weights_[:, order], reference.unit_columns(A), atol=EXACT)
    np.testing.assert_allclose(learner.output_bias_, a, atol=1e-6)
    np.testing.assert_allclose(learner.transform(X)[:, order], h * np.linalg.norm(A, axis=0), atol=1e-6)
    np.testing.assert_allclose(learner.inverse_transform(learner.transform(X)), X, atol=1e-6)
    assert not learner.outlier_rows_.any()
    assert learner.report_.converged


def test_the_hidden_distribution_is_that_of_the_true_units(drawn, fitted):
    _, A, h, _ = drawn
    order = reference.matched(fitted.output_weights_, A)
    learner = RectifiedGaussianLearner("one_pass", margins="normal")
    expected = learner.fit(h * np.linalg.norm(A, axis=0)).distribution_
    found = fitted.hidden_distribution_
    np.testing.assert_allclose(found.mean[order], expected.mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance[np.ix_(order, order)], expected.covariance, atol=1e-5)


def test_auto_counts_the_units(drawn, fitted):
    learner = TwoLayerReLULearner().fit(drawn[0])
    assert learner.n_hidden_ == 4
    np.testing.assert_allclose(learner.output_weights_, fitted.output_weights_, atol=EXACT)


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_units_of_measurement_do_not_matter(drawn, fitted, unit):
    learner = TwoLayerReLULearner(4).fit(drawn[0] * unit)
    np.testing.assert_allclose(learner.output_weights_, fitted.output_weights_, atol=EXACT)
    np.testing.assert_allclose(learner.hidden_distribution_.mean, unit * fitted.hidden_distribution_.mean, rtol=1e-6)


def test_units_of_very_different_size():
    rng = seeded(4)
    _, A, h, _ = reference.draw(rng)
    A = A * [1e-3, 1e-1, 1e1, 1e3]
    learner = TwoLayerReLULearner(4).fit(h @ A.T)
    # Rounding of the largest unit, 1e-16 times 1e3, is 1e-10 of the smallest; noise is assumed to be more.
    assert reference.column_error(learner.output_weights_, A) < 1e-5


def test_rows_of_zeros_and_rows_twice_change_nothing(drawn, fitted):
    X = np.vstack([drawn[0], np.zeros((200, 12))])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", about("doubtful-units"))
        learner = TwoLayerReLULearner(4).fit(X)
        twice = TwoLayerReLULearner(4).fit(np.repeat(drawn[0], 2, axis=0))
    np.testing.assert_allclose(learner.output_weights_, fitted.output_weights_, atol=EXACT)
    np.testing.assert_allclose(twice.output_weights_, fitted.output_weights_, atol=EXACT)
    assert not learner.outlier_rows_.any()


def test_whole_numbers():
    rng = seeded(3)
    A = rng.integers(-3, 4, (12, 4))
    with warns("doubtful-units"):  # counts are no rectified Gaussians
        learner = TwoLayerReLULearner(4).fit(rng.poisson(0.7, (1000, 4)) @ A.T)
    assert reference.column_error(learner.output_weights_, A) < EXACT


def test_heavy_tails_are_found_and_named():
    rng = seeded(3)
    A = rng.standard_normal((12, 4))
    h = np.maximum(rng.standard_t(1.5, (1000, 4)) + 0.3, 0.0)
    with warns("doubtful-units", match="do not look like rectified"):
        learner = TwoLayerReLULearner(4).fit(h @ A.T)
    assert reference.column_error(learner.output_weights_, A) < 1e-5


def test_a_small_number_of_rows():
    X, A, *_ = reference.draw(seeded(5), 8, 3, 150)
    assert reference.column_error(TwoLayerReLULearner(3).fit(X).output_weights_, A) < EXACT


def test_a_unit_that_is_hardly_ever_on():
    rng = seeded(7)
    A = rng.standard_normal((12, 4))
    h = np.maximum(rng.standard_normal((1500, 4)) + np.array([-2.0, 0.3, 0.3, 0.3]), 0.0)
    X = h @ A.T
    assert 20 < np.count_nonzero(h[:, 0]) < 60  # 2.3 % of 1,500 are 34
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        assert reference.column_error(TwoLayerReLULearner(4).fit(X).output_weights_, A) < EXACT


# --- noise and outliers ---------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.003, 0.01])
def test_as_accurate_as_someone_who_knows_which_units_are_on(noise):
    ratios = []
    for seed in (0, 2, 3, 4):
        X, A, h, _ = reference.draw(seeded(seed), 10, 3, 400, noise=noise)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", about("doubtful-units"))
            learner = TwoLayerReLULearner(3).fit(X)
        order, truth = reference.matched(learner.output_weights_, A), reference.unit_columns(A)
        best = np.linalg.norm(reference.unit_columns(reference.oracle(X, A, h, 60)) - truth)
        ratios.append(np.linalg.norm(learner.output_weights_[:, order] - truth) / best)
        # A standard deviation from 400 * 7 numbers has a standard error of 1/sqrt(5600) = 1.3 %.
        assert learner.report_.noise == pytest.approx(noise, rel=0.06)
    # Few units are below 4 noise, about 1 %, and the others are the same. Ratios spread by some tenths.
    assert np.median(ratios) < 1.2


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_outlier_rows_are_left_out(share):
    rng = seeded(8)
    X, A, *_ = reference.draw(rng, n=500, noise=0.005)
    bad = rng.random(500) < share
    X[bad] = 20.0 * rng.standard_normal((np.count_nonzero(bad), 12))
    learner = TwoLayerReLULearner(4).fit(X)
    np.testing.assert_array_equal(learner.outlier_rows_, bad)
    assert learner.report_.n_outlier_rows == np.count_nonzero(bad)
    assert reference.column_error(learner.output_weights_, A) < 0.005


def test_much_noise_is_refused():
    X, *_ = reference.draw(seeded(9), n=400, noise=1.0)
    with pytest.raises(InvalidDataError, match="None of 4 hidden units was found"):
        TwoLayerReLULearner(4).fit(X)


# --- separable ------------------------------------------------------------------------------------


def test_separable_with_pure_rows():
    X, A, _, _ = reference.draw(seeded(10), 8, 3, 400, nonnegative=True)
    learner = TwoLayerReLULearner(3, "separable").fit(X)
    assert learner.report_.method == "separable"
    assert reference.column_error(learner.output_weights_, A) < EXACT


# --- samples and files ----------------------------------------------------------------------------


def test_samples_have_the_moments_of_the_rows(drawn):
    X = drawn[0]
    learner = TwoLayerReLULearner(4).fit(X)
    sample = learner.sample(800, random_state=5)
    spread = X.std(axis=0) * np.sqrt(2 / 800)
    assert (np.abs(sample.mean(axis=0) - X.mean(axis=0)) < 5 * spread).all()
    np.testing.assert_array_equal(sample, learner.sample(800, random_state=5))
    np.testing.assert_allclose(learner.inverse_transform(learner.transform(sample)), sample, atol=1e-6)
    assert learner.sample(0).shape == (0, 12)
    with pytest.raises(InvalidParameterError):
        learner.sample(-1)


@pytest.mark.parametrize("output_bias", [False, True])
def test_files_give_back_what_was_saved(tmp_path, output_bias):
    X, *_ = reference.draw(seeded(13), 6, 3, 300, output_bias=output_bias)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    learner = TwoLayerReLULearner(3, output_bias=output_bias).fit(frame)
    assert list(learner.feature_names_in_) == list("abcdef")
    learner.save(tmp_path / "model")
    loaded = TwoLayerReLULearner.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(frame), learner.transform(frame))
    np.testing.assert_array_equal(loaded.sample(5, 0), learner.sample(5, 0))
    np.testing.assert_array_equal(loaded.outlier_rows_, learner.outlier_rows_)
    np.testing.assert_array_equal(loaded.output_bias_, learner.output_bias_)
    assert loaded.report_ == learner.report_
    assert list(loaded.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame[list("fedcba")])


def test_other_files_are_refused(tmp_path, fitted):
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ModelFileError):
        TwoLayerReLULearner.load(tmp_path / "text")
    fitted.hidden_distribution_.save(tmp_path / "distribution")
    with pytest.raises(ModelFileError):
        TwoLayerReLULearner.load(tmp_path / "distribution")


# --- partial results ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def partial():
    _, A, h, _ = reference.draw(seeded(12), 8, 3, 300)
    X = (h + np.eye(3)[0]) @ A.T
    with warns("units-not-found", match="2 of 3 hidden units"):
        return X, h, TwoLayerReLULearner(3).fit(X)


def test_units_that_are_never_off_leave_a_partial_result(partial):
    X, h, learner = partial
    assert np.isnan(learner.output_weights_).all()
    assert learner.report_.units_found == 2
    hidden = learner.transform(X)
    assert hidden.shape == (300, 2)
    assert learner.hidden_distribution_.mean.shape == (2,)
    for unit in hidden.T:
        assert max(np.corrcoef(unit, true)[0, 1] for true in h.T) > 1.0 - 1e-9
    with pytest.raises(InvalidDataError, match="Only 2 of 3"):
        learner.sample(3)
    with pytest.raises(InvalidDataError, match="Only 2 of 3"):
        learner.inverse_transform(np.zeros((1, 3)))


def test_partial_results_are_saved(partial, tmp_path):
    X, _, learner = partial
    learner.save(tmp_path / "model")
    loaded = TwoLayerReLULearner.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(X), learner.transform(X))
    assert np.isnan(loaded.output_weights_).all()
    assert loaded.report_.units_found == 2
    with pytest.raises(InvalidDataError):
        loaded.sample(1)


def test_a_refused_table_leaves_nothing_fitted(drawn):
    learner = TwoLayerReLULearner(3).fit(reference.draw(seeded(11), 6, 3, 300)[0])
    with pytest.raises(InvalidDataError, match="None of 3"):
        learner.fit(seeded().standard_normal((100, 3)))
    with pytest.raises(NotFittedError):
        learner.transform(drawn[0])


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_hidden", [0, -1, True, "x", 2.5, None, [4], float("nan")])
def test_numbers_of_units_that_are_none(drawn, n_hidden):
    with pytest.raises(InvalidParameterError, match="n_hidden must be a whole number"):
        TwoLayerReLULearner(n_hidden).fit(drawn[0])


def test_more_units_than_columns(drawn):
    with pytest.raises(InvalidParameterError, match="13, but rows have 12 columns"):
        TwoLayerReLULearner(13).fit(drawn[0])


def test_too_few_rows(drawn):
    with pytest.raises(InvalidDataError, match="23 rows are too few for 4"):
        TwoLayerReLULearner(4).fit(drawn[0][:23])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "facet"}, "Did you mean 'facets'"),
        ({"method": "separable", "output_bias": True}, "no output bias"),
        ({"output_bias": "yes"}, "output_bias must be"),
        ({"random_state": "a"}, "random_state"),
        ({"hidden_method": "zz"}, "Unknown method"),
    ],
)
def test_bad_options(drawn, options, match):
    with pytest.raises(InvalidParameterError, match=match):
        TwoLayerReLULearner(4, **options).fit(drawn[0])


def test_separable_refuses_negative_values(drawn):
    with pytest.raises(InvalidDataError, match="negative"):
        TwoLayerReLULearner(4, "separable").fit(drawn[0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers(drawn, value):
    X = drawn[0].copy()
    X[3, 2] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        TwoLayerReLULearner(4).fit(X)


def test_tables_that_do_not_vary():
    with pytest.raises(InvalidDataError, match="does not vary"):
        TwoLayerReLULearner(2).fit(np.zeros((50, 3)))
    with pytest.raises(InvalidDataError, match="does not vary"):
        TwoLayerReLULearner(1, output_bias=True).fit(np.ones((50, 3)))
    with pytest.raises(InvalidDataError, match="vary in 1 dimensions"):
        TwoLayerReLULearner(2).fit(np.ones((50, 3)))
    with pytest.raises(InvalidDataError, match="does not vary"):
        TwoLayerReLULearner(2, "separable").fit(np.zeros((50, 3)))


def test_dependent_columns_and_units_never_on(drawn):
    _, A, h, _ = drawn
    A = np.column_stack([A[:, :3], A[:, 0] + A[:, 1]])
    with pytest.raises(InvalidDataError, match="vary in 3 dimensions, fewer than the 4"):
        TwoLayerReLULearner(4).fit(h @ A.T)
    with pytest.raises(InvalidDataError, match="Ask for n_hidden=3"):
        TwoLayerReLULearner(4).fit((h * [0.0, 1.0, 1.0, 1.0]) @ drawn[1].T)


def test_rows_for_another_model(fitted):
    with pytest.raises(ValueError, match="3 features"):
        fitted.transform(np.ones((2, 3)))
    with pytest.raises(InvalidDataError, match="There are 4 hidden units"):
        fitted.inverse_transform(np.ones((2, 3)))
    with pytest.raises(NotFittedError):
        TwoLayerReLULearner().transform(np.ones((2, 3)))
    with pytest.raises(NotFittedError):
        TwoLayerReLULearner().save("nowhere")


# --- rectified outputs ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network():
    """(learned from, held out, A, b, hidden units of the latter) of a layer with a floor of its own in every column."""
    X, [(A, b)], h = reference.network(seeded(0), [4, 30], n=900)
    floor = np.linspace(-1.0, 1.0, 30)
    return X[:600] + floor, X[600:] + floor, A, b, h, floor


@pytest.fixture(scope="module")
def rectified(network):
    frame = pd.DataFrame(network[0], columns=[f"x{i}" for i in range(30)])
    return TwoLayerReLULearner(4, floor=network[-1]).fit(frame)


def _in_order(learner, A):
    """(order of the true units, lengths of the true columns over identified outputs)"""
    determined = learner.column_identifiable_
    return reference.matched(learner.output_weights_[determined], A[determined]), np.linalg.norm(A[determined], axis=0)


def test_the_layer_below_a_rectifier_is_learned(network, rectified):
    _, _, A, b, h, floor = network
    determined = rectified.column_identifiable_
    assert 20 < np.count_nonzero(determined) < 30
    order, lengths = _in_order(rectified, A)
    np.testing.assert_allclose(rectified.output_weights_[determined][:, order], (A / lengths)[determined], atol=1e-6)
    np.testing.assert_allclose(rectified.output_bias_[determined], (b + floor)[determined], atol=1e-6)
    assert np.isnan(rectified.output_weights_[~determined]).all()
    assert np.isnan(rectified.output_bias_[~determined]).all()
    assert rectified.report_.converged
    assert (rectified.report_.n_rows, rectified.report_.n_features, rectified.n_hidden_) == (600, 30, 4)
    assert rectified.outlier_rows_.shape == (600,)
    learner = RectifiedGaussianLearner("one_pass", margins="normal")
    expected = learner.fit((h[:600] * lengths)[~rectified.outlier_rows_]).distribution_
    np.testing.assert_allclose(rectified.hidden_distribution_.mean[order], expected.mean, atol=1e-5)


def test_units_of_rows_held_out(network, rectified):
    _, X, A, _, h, floor = network
    order, lengths = _in_order(rectified, A)
    with pytest.warns(UserWarning, match="feature names"):  # scikit-learn's: fitted with names
        units = rectified.transform(X)
    np.testing.assert_allclose(units[:, order], h[600:] * lengths, atol=1e-6)
    np.testing.assert_array_equal(units[:, order] == 0.0, h[600:] == 0.0)
    determined = rectified.column_identifiable_
    rows = rectified.inverse_transform(units)
    np.testing.assert_allclose(rows[:, determined], X[:, determined], atol=1e-6)
    assert (rows[:, determined] == floor[determined]).any()
    sample = rectified.sample(500, random_state=1)[:, determined]
    assert (sample >= floor[determined]).all()
    spread = network[0][:, determined].std(axis=0) * np.sqrt(1 / 500 + 1 / 600)
    assert (np.abs(sample.mean(axis=0) - network[0][:, determined].mean(axis=0)) < 5 * spread).all()


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_outlier_cells_do_not_move_a_row(network, rectified):
    _, X, A, _, h, _ = network
    spoiled = X[:40].copy()
    spoiled[:, ::10] += 50.0  # three outputs of thirty
    order, lengths = _in_order(rectified, A)
    # A row has 12 to 17 outputs on, of which it needs 4: those spoiled are outvoted.
    np.testing.assert_allclose(rectified.transform(spoiled)[:, order], (h[600:] * lengths)[:40], atol=1e-6)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_rows_that_do_not_determine_their_units_are_nan(network, rectified):
    _, X, _, _, _, floor = network
    rows = np.vstack([X[:2], floor])
    with warns("weak-rows", match="1 of 3 rows"):
        units = rectified.transform(rows)
    assert np.isnan(units[2]).all()
    assert np.isfinite(units[:2]).all()


def test_a_rectified_layer_in_a_file(network, rectified, tmp_path):
    rectified.save(tmp_path / "model")
    loaded = TwoLayerReLULearner.load(tmp_path / "model")
    frame = pd.DataFrame(network[1][:20], columns=rectified.feature_names_in_)
    np.testing.assert_array_equal(loaded.transform(frame), rectified.transform(frame))
    np.testing.assert_array_equal(loaded.sample(5, 0), rectified.sample(5, 0))
    np.testing.assert_array_equal(loaded.outlier_rows_, rectified.outlier_rows_)
    np.testing.assert_array_equal(loaded.floor, network[-1])
    assert loaded.report_ == rectified.report_
    assert list(loaded.feature_names_in_) == [f"x{i}" for i in range(30)]


def test_auto_and_a_tolerance(network, rectified):
    X, floor = network[0], network[-1]
    noisy = np.where(floor == X, floor + 1e-3 * seeded(6).uniform(-1.0, 1.0, X.shape), X)
    learner = TwoLayerReLULearner(floor=floor, floor_tolerance=1e-3).fit(noisy)
    assert learner.n_hidden_ == 4
    np.testing.assert_allclose(learner.output_weights_, rectified.output_weights_, atol=1e-6)
    np.testing.assert_allclose(learner.output_bias_, rectified.output_bias_, atol=1e-6)
    frame = pd.DataFrame(network[1][:20], columns=rectified.feature_names_in_)
    np.testing.assert_allclose(learner.transform(network[1][:20]), rectified.transform(frame), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"floor": 0.0, "method": "separable"}, "undoes no rectifier"),
        ({"floor": [0.0, 1.0]}, "floor must be a number or one number per column"),
        ({"floor": 0.0, "floor_tolerance": -1.0}, "floor_tolerance"),
        ({"floor": -1.0, "n_hidden": 0}, "n_hidden must be a whole number"),
        ({"floor": -1.0, "n_hidden": "x"}, "n_hidden must be a whole number"),
        ({"floor": 0.0}, "Negative values"),
        ({"floor": -1.0, "n_hidden": 40}, "needs more outputs than hidden units"),
    ],
)
def test_rectified_outputs_that_are_none(network, options, match):
    learner = TwoLayerReLULearner(**{"n_hidden": 4} | options)
    with pytest.raises((InvalidDataError, InvalidParameterError), match=match):
        learner.fit(network[0])
    with pytest.raises(NotFittedError):
        learner.transform(network[0])


def test_only_a_floor_of_zero_or_more_asks_for_such_tables():
    assert not get_tags(TwoLayerReLULearner()).input_tags.positive_only
    assert not get_tags(TwoLayerReLULearner(floor=-1.0)).input_tags.positive_only
    assert get_tags(TwoLayerReLULearner(floor=0.0)).input_tags.positive_only
    assert not get_tags(TwoLayerReLULearner()).input_tags.allow_nan


def test_someone_hears_of_every_step(drawn):
    reported = []
    TwoLayerReLULearner(4).with_progress(reported.append).fit(drawn[0])
    stages = list(dict.fromkeys(step.stage for step in reported))
    assert stages == ["Finding the space of the rows", "Finding units", "Learning the distribution of the units"]


# --- mistakes found, to be mended -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["standard_normal", "random"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_tables_that_no_layer_made_are_refused(kind):
    X = getattr(seeded(), kind)((300, 8))
    with pytest.raises(InvalidDataError):
        TwoLayerReLULearner(3).fit(X)


def test_one_row_four_standard_deviations_below_a_facet():
    X, *_ = reference.draw(seeded(1), 10, 3, 400, noise=0.003)
    with warnings.catch_warnings():
        refuse("units-not-found")
        TwoLayerReLULearner(3).fit(X)


def test_exact_with_an_output_bias_from_few_rows():
    X, *_ = reference.draw(seeded(11), 6, 3, 300, output_bias=True)
    assert TwoLayerReLULearner(3, output_bias=True).fit(X).report_.converged


def test_one_unit():
    X, A, *_ = reference.draw(seeded(0), 5, 1, 300)
    assert reference.column_error(TwoLayerReLULearner(1).fit(X).output_weights_, A) < EXACT


def test_one_unit_and_a_bias():
    X, A, *_ = reference.draw(seeded(0), 5, 1, 300)
    assert reference.column_error(TwoLayerReLULearner(1, output_bias=True).fit(X).output_weights_, A) < EXACT


def test_single_precision():
    X, A, *_ = reference.draw(seeded(8), n=1000)
    learner = TwoLayerReLULearner(4).fit(X.astype(np.float32))
    assert learner.report_.converged
    assert reference.column_error(learner.output_weights_, A) < 1e-4


def test_too_small_a_number_of_units_is_refused():
    X, *_ = reference.draw(seeded(14), n=500)
    with warns("doubtful-units", match="of 500 rows do not fit 3 hidden units"):
        TwoLayerReLULearner(3).fit(X)


@pytest.mark.slow
def test_too_large_a_number_of_units_with_noise():
    X, *_ = reference.draw(seeded(14), n=600, noise=0.01)
    with pytest.raises(InvalidDataError, match="None of 5 hidden units was found"):
        TwoLayerReLULearner(5).fit(X)


@pytest.mark.parametrize(("p", "noise", "common"), [(2, 0.0, 1.5), (4, 0.1, 0.0)])
def test_true_units_are_not_doubtful(p, noise, common):
    rng = seeded(4)
    h = np.maximum(rng.standard_normal((2000, p)) + common * rng.standard_normal((2000, 1)) + 0.3, 0.0)
    X = h @ rng.standard_normal((12, p)).T + noise * rng.standard_normal((2000, 12))
    with warnings.catch_warnings():
        refuse("doubtful-units")
        TwoLayerReLULearner(p).fit(X)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_of_measurement_beyond_squares(drawn, unit):
    with pytest.raises(InvalidDataError, match="leave the range of squares: rescale the table"):
        TwoLayerReLULearner(4).fit(drawn[0] * unit)


def test_auto_of_a_table_of_zeros():
    with pytest.raises(InvalidDataError, match="does not vary"):
        TwoLayerReLULearner().fit(np.zeros((50, 3)))


def test_fewer_inputs_than_units_are_not_silently_wrong():
    X, A, *_ = reference.draw(seeded(101), 8, 4, 300, k=2)
    with warns("doubtful-units", match="fewer inputs than 4 hidden units"):
        learner = TwoLayerReLULearner(4).fit(X)
    assert reference.column_error(learner.output_weights_, A) > 0.1  # or there would be nothing to warn of


def test_an_interrupt_of_a_search_for_inputs_without_n_inputs_ends_the_fit():
    """It was swallowed, and the facets found before counted as if the search had ended."""

    def interrupted(step):
        if step.stage == "Finding planes":
            raise KeyboardInterrupt

    net = generators.draw(1, 12, 6, 2, 600, output_bias=False)
    with pytest.raises(KeyboardInterrupt):
        TwoLayerReLULearner(6).with_progress(interrupted).fit(net.T)
