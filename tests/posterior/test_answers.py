"""What a model says about rows, against exact integrals, simulation and the plain formulas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from tests.references.hidden import exact_log_density, rejection_draws
from tests.warned import warns
from unrelu import RectifiedGaussian
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.margins import BoxCox, Log, Monotone, Normal

NAN = np.nan
COVARIANCE = np.array([[1.0, 0.7, -0.3], [0.7, 2.0, 0.2], [-0.3, 0.2, 0.5]])
MODEL = RectifiedGaussian([0.3, -0.2, 0.4], COVARIANCE, feature_names=["As", "Pb", "Zn"])
LOGS = RectifiedGaussian([0.3, -0.2, 0.4], COVARIANCE, [1.0, 0.5, -np.inf], margins=[Log(), Log(), Normal()])


def censoring_of(model, X):
    return (model.ceiling <= X).astype(np.int8) - (model.floor >= X).astype(np.int8)


def test_log_prob_is_the_density_times_the_probability():
    X = MODEL.sample(40, random_state=0)
    X[3, 1] = X[7] = NAN
    expected = [
        exact_log_density(row, mark, MODEL.mean, COVARIANCE)
        for row, mark in zip(X, censoring_of(MODEL, X), strict=True)
    ]
    np.testing.assert_allclose(MODEL.log_prob(X), expected, atol=2e-3 * 3)
    assert MODEL.log_prob(X)[7] == 0.0


def test_log_prob_integrates_to_one():
    """Over a grid of two columns: the seen plane, two edges, and the corner."""
    model = RectifiedGaussian([0.3, -0.2], COVARIANCE[:2, :2], ceiling=[np.inf, np.inf])
    step = 0.02
    grid = np.arange(step / 2, 9.0, step)
    x, y = np.meshgrid(grid, grid)
    plane = np.exp(model.log_prob(np.column_stack([x.ravel(), y.ravel()]))).sum() * step**2
    edges = sum(np.exp(model.log_prob(np.insert(grid[:, None], at, 0.0, axis=1))).sum() * step for at in (0, 1))
    corner = np.exp(model.log_prob([[0.0, 0.0]]))[0]
    assert plane + edges + corner == pytest.approx(1.0, abs=1e-4)


def test_log_prob_in_the_users_units():
    """The density of x = exp(y) is that of y over x."""
    X = LOGS.sample(30, random_state=1)
    inner = LOGS.latent.log_prob(LOGS.to_latent(X))
    slopes = np.where(X[:, :2] > LOGS.floor[:2], np.log(X[:, :2]), 0.0).sum(axis=1)
    np.testing.assert_allclose(LOGS.log_prob(X), inner - slopes, atol=1e-10)


@pytest.mark.parametrize("row", [[0.0, 1.0, 0.6], [0.0, 0.0, 0.6], [0.0, NAN, 0.6], [0.0, 0.0, 0.0], [NAN, NAN, NAN]])
def test_imputed_means_are_those_of_draws(row):
    X = np.array([row])
    hidden, draws = rejection_draws(X[0], censoring_of(MODEL, X)[0], MODEL.mean, COVARIANCE, 300_000)
    filled, std = MODEL.impute(X, return_std=True, below="latent")
    spread, error = draws.std(axis=0), 4.0 / np.sqrt(len(draws))
    # Three floored cells are approximated: within .02 of the posterior's standard deviation, .04 for the latter.
    few = np.count_nonzero(X == 0.0) <= 2
    np.testing.assert_allclose((filled[0, hidden] - draws.mean(axis=0)) / spread, 0.0, atol=error + 0.02 * (not few))
    np.testing.assert_allclose(std[0, hidden] / spread, 1.0, atol=error + 0.04 * (not few))
    np.testing.assert_array_equal(filled[0, ~hidden], X[0, ~hidden])
    np.testing.assert_array_equal(std[0, ~hidden], 0.0)


def test_means_are_of_values_in_the_users_units():
    """E exp(y), not exp E y; and quantiles go through f."""
    X = np.array([[1.0, 2.0, 0.6]])
    _, draws = rejection_draws(np.array([0.0, np.log(2.0), 0.6]), np.array([-1, 0, 0]), LOGS.mean, COVARIANCE, 400_000)
    values = np.exp(draws[:, 0])
    filled, std = LOGS.impute(X, return_std=True)
    error = 4.0 * values.std() / np.sqrt(len(values))
    assert filled[0, 0] == pytest.approx(values.mean(), abs=error)
    assert std[0, 0] == pytest.approx(values.std(), abs=error)
    assert abs(np.exp(draws.mean()) - values.mean()) > 5.0 * error  # what it is not
    for level in (0.05, 0.5, 0.95):
        below = np.mean(values <= LOGS.impute(X, quantile=level)[0, 0])
        assert below == pytest.approx(level, abs=4.0 * np.sqrt(level * (1.0 - level) / len(values)))


def test_intervals_cover_what_was_hidden():
    truth = RectifiedGaussian(MODEL.mean, COVARIANCE, -np.inf).sample(20_000, random_state=3)
    X = np.maximum(truth, 0.0)
    X[np.random.default_rng(0).random(X.shape) < 0.05] = NAN
    hidden = ~(X > 0.0)
    low, high = (MODEL.impute(X, quantile=level, below="latent") for level in (0.05, 0.95))
    covered = ((low <= truth) & (truth <= high))[hidden].mean()
    assert covered == pytest.approx(0.9, abs=0.01 + 4.0 * np.sqrt(0.09 / hidden.sum()))
    floored = X == 0.0
    assert (MODEL.impute(X)[floored] < 0.0).all()
    assert (high[floored] <= 0.0).all()


def test_ceilings_are_mirror_images():
    X = MODEL.sample(50, random_state=4)
    X[2, 1] = NAN
    upside_down = MODEL.negated([True, False, True])
    sign = np.array([-1.0, 1.0, -1.0])
    np.testing.assert_allclose(upside_down.log_prob(X * sign), MODEL.log_prob(X), atol=1e-10)
    np.testing.assert_allclose(upside_down.impute(X * sign) * sign, MODEL.impute(X), atol=1e-9)
    np.testing.assert_allclose(
        upside_down.impute(X * sign, quantile=0.3)[:, 0] * -1.0, MODEL.impute(X, quantile=0.7)[:, 0], atol=1e-9
    )
    np.testing.assert_allclose(upside_down.outlier_score(X * sign), MODEL.outlier_score(X), atol=1e-9)
    np.testing.assert_allclose(upside_down.cell_outlier_score(X * sign), MODEL.cell_outlier_score(X), atol=1e-9)


def test_limits_of_cells_override_the_models():
    X = np.array([[0.5, 1.0, 0.6], [0.5, 1.0, 0.6]])
    floor = np.array([[0.5, NAN, NAN], [NAN, NAN, NAN]])
    filled = MODEL.impute(X, floor=floor)
    assert filled[0, 0] < 0.5
    np.testing.assert_array_equal(filled[1], X[1])
    ceiling = np.full((2, 3), NAN)
    ceiling[1, 1] = 1.0
    assert MODEL.impute(X, floor=floor, ceiling=ceiling)[1, 1] > 1.0
    raised = MODEL.with_parts(floor=0.5)
    np.testing.assert_allclose(MODEL.log_prob(X[:1], floor=0.5), raised.log_prob(X[:1]), atol=1e-12)


def test_answers_do_not_depend_on_the_batch_or_its_order():
    X = LOGS.sample(300, random_state=5)
    order = np.random.default_rng(0).permutation(300)
    for ask in (LOGS.log_prob, LOGS.impute, LOGS.outlier_score, LOGS.cell_outlier_score):
        whole = ask(X)
        np.testing.assert_array_equal(ask(X[order]), whole[order])
        np.testing.assert_array_equal(ask(X[17:18]), whole[17:18])


def test_frames_are_matched_by_name():
    X = MODEL.sample(5, random_state=6)
    frame = pd.DataFrame(X, columns=MODEL.feature_names).assign(note="x")[["Zn", "note", "Pb", "As"]]
    np.testing.assert_array_equal(MODEL.log_prob(frame), MODEL.log_prob(X))
    with pytest.raises(InvalidDataError, match="no column 'Pb'"):
        MODEL.log_prob(frame.drop(columns="Pb"))


def test_condition_is_the_textbooks():
    known = MODEL.condition({"As": 1.0})
    gain = COVARIANCE[1:, 0] / COVARIANCE[0, 0]
    np.testing.assert_allclose(known.mean, MODEL.mean[1:] + gain * 0.7, atol=1e-6)
    np.testing.assert_allclose(known.covariance, COVARIANCE[1:, 1:] - np.outer(gain, COVARIANCE[0, 1:]), atol=1e-6)
    assert known.feature_names == ("Pb", "Zn")
    # One of them at its floor: the moments of rejection.
    floored = MODEL.condition({"As": 0.0, 2: 0.6})
    _, draws = rejection_draws(np.array([0.0, NAN, 0.6]), np.array([-1, 0, 0]), MODEL.mean, COVARIANCE, 400_000)
    pb = draws[:, 1]
    assert floored.mean[0] == pytest.approx(pb.mean(), abs=4.0 * pb.std() / np.sqrt(len(pb)))
    assert floored.std[0] == pytest.approx(pb.std(), rel=4.0 / np.sqrt(len(pb)))
    logs = LOGS.condition({0: 2.0})
    assert logs.floor.tolist() == [0.5, -np.inf]
    assert logs.mean[0] == pytest.approx(-0.2 + 0.7 * (np.log(2.0) - 0.3), abs=1e-6)
    for given, match in (({}, "some of the columns"), ({"As": NAN}, "finite"), ({"Cd": 1.0}, "No feature 'Cd'")):
        with pytest.raises(InvalidParameterError, match=match):
            MODEL.condition(given)


def test_predict_is_what_a_regression_on_the_truth_gives():
    truth = RectifiedGaussian(MODEL.mean, COVARIANCE, -np.inf).sample(40_000, random_state=8)
    X = np.maximum(truth, 0.0)
    found = MODEL.predict(X, "Pb", quantiles=(0.1, 0.9))
    share = np.mean(X[:, 1] == 0.0)
    assert found.probability_floored.mean() == pytest.approx(share, abs=4.0 * np.sqrt(share / len(X)))
    # Calibrated, and no function of the others predicts the error.
    error = X[:, 1] - found.mean
    for by in (X[:, 0], X[:, 2], found.mean):
        assert abs(np.corrcoef(error, by)[0, 1]) < 4.0 / np.sqrt(len(X)) + 0.005
    assert error.mean() == pytest.approx(0.0, abs=4.0 * error.std() / np.sqrt(len(X)))
    assert np.sqrt(np.mean(found.std**2)) == pytest.approx(error.std(), rel=0.02)
    assert np.mean(truth[:, 1] <= MODEL.predict(X, 1, (0.9,), hidden=True).quantiles[:, 0]) == pytest.approx(
        0.9, abs=0.008
    )
    assert (found.quantiles >= 0.0).all()
    hidden = MODEL.predict(X, "Pb", hidden=True)
    assert (hidden.mean <= found.mean).all()
    # Its own cells are not looked at, not even those that are below the floor.
    spoiled = X.copy()
    spoiled[:, 1] = -7.0
    np.testing.assert_array_equal(MODEL.predict(spoiled, "Pb", (0.1, 0.9)).mean, found.mean)


def test_predict_with_a_ceiling_and_a_margin():
    model = RectifiedGaussian(
        [0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], -np.inf, ceiling=[2.0, np.inf], margins=[Log(), Log()]
    )
    found = model.predict([[NAN, 1.0]], 0)
    y = norm(0.0, np.sqrt(0.75)).ppf((np.arange(100_000) + 0.5) / 100_000)
    x = np.minimum(np.exp(y), 2.0)
    assert found.mean[0] == pytest.approx(x.mean(), abs=1e-4)
    assert found.std[0] == pytest.approx(x.std(), abs=1e-4)
    assert found.probability_floored[0] == pytest.approx(np.mean(x == 2.0), abs=1e-4)


def test_outlier_cells_and_rows():
    X = MODEL.sample(500, random_state=9)
    cells = MODEL.cell_outlier_score(X)
    X[0, 1] += 9.0
    assert np.argmax(MODEL.cell_outlier_score(X)[0]) == 1
    assert MODEL.outlier_score(X)[0] > MODEL.outlier_score(X)[1:].max()
    expected = cells[X == 0.0]
    assert (expected >= 0.0).all()
    X[5, 2] = NAN
    assert np.isnan(MODEL.cell_outlier_score(X)[5, 2])


def test_monotone_margins_go_on_below_their_floor():
    """By simulation: the mean of f(y) below the floor, f falling by ``below`` on a log scale."""
    free = Monotone(np.array([1.0, 2.0, 4.0, 9.0]), np.array([-0.5, 0.0, 0.5, 1.5]), below=0.8)
    model = RectifiedGaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], 1.0, margins=[free, BoxCox(0.5, 0.0, 2.0)])
    filled = model.impute([[1.0, 3.0]])
    given = float(BoxCox(0.5, 0.0, 2.0).to_latent(3.0))
    y = 0.5 * given + np.sqrt(0.75) * np.random.default_rng(0).standard_normal(2_000_000)
    below = np.exp(0.8 * (y[y < -0.5] + 0.5))
    assert abs(filled[0, 0] - below.mean()) < 4.0 * below.std() / np.sqrt(len(below))


def test_singular_models_impute_and_warn_only_of_densities():
    twice = RectifiedGaussian([0.0, 0.0], [[1.0, -1.0], [-1.0, 1.0]])
    rows = [[0.0, 1.5], [NAN, 2.0]]
    np.testing.assert_allclose(twice.impute(rows, below="latent"), [[-1.5, 1.5], [-2.0, 2.0]], atol=1e-4)
    np.testing.assert_allclose(twice.impute(rows), [[-1.5, 1.5], [0.0, 2.0]], atol=1e-4)
    with warns("singular"):
        twice.log_prob([[0.0, 1.5]])


def test_a_constant_column():
    model = RectifiedGaussian([2.0, 0.0], [[0.0, 0.0], [0.0, 1.0]])
    assert model.log_prob([[2.0, 0.0]])[0] == pytest.approx(np.log(0.5))
    assert model.log_prob([[2.5, 0.0]])[0] < -9000.0
    np.testing.assert_allclose(model.impute([[NAN, 1.0]]), [[2.0, 1.0]])
    assert model.cell_outlier_score([[2.0, 1.0], [2.5, 1.0]])[1, 0] == np.inf
    assert model.condition({0: 2.0}).mean.tolist() == [0.0]
    assert model.condition({1: 1.0}).std.tolist() == [0.0]


@pytest.mark.parametrize(
    ("X", "limits", "match"),
    [
        ([[-1.0, 0.0, 0.0]], {}, r"Row 0 .*column 0 \('As'\): the value -1.0 is below its floor"),
        ([[1.0, 0.0]], {}, "3 columns, but the table has shape"),
        ([1.0, 0.0, 2.0], {}, "shape"),
        ([[np.inf, 0.0, 0.0]], {}, "infinite value in column 0"),
        ([["a", 0.0, 0.0]], {}, "numbers"),
        ([[1.0, 1.0, 1.0]], {"floor": np.zeros((2, 3))}, r"floor has shape \(2, 3\), the table \(1, 3\)"),
        ([[1.0, 1.0, 1.0]], {"ceiling": 0.5}, "is above its ceiling"),
    ],
)
def test_bad_input(X, limits, match):
    with pytest.raises((InvalidDataError, InvalidParameterError), match=match):
        MODEL.impute(X, **limits)


def test_bad_levels():
    with pytest.raises(InvalidParameterError, match="quantile must be between 0 and 1"):
        MODEL.impute([[1.0, 1.0, 1.0]], quantile=1.0)
    with pytest.raises(InvalidParameterError, match="quantiles must be between 0 and 1"):
        MODEL.predict([[1.0, 1.0, 1.0]], 0, quantiles=(0.5, 2.0))
