"""FloorImputer: scikit-learn's checks, what is filled in, draws, files, and tables that do not fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import unrelu
from unrelu import FloorImputer, RectifiedGaussian, RectifiedGaussianLearner
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.tables import open_samples

NAN = np.nan
TRUTH = unrelu.synthetic.random_model(4, mean="signed", random_state=0)


@pytest.fixture(scope="module")
def table():
    return TRUTH.sample(1500, random_state=1)


@pytest.fixture(scope="module")
def hidden():
    return RectifiedGaussian(TRUTH.mean, TRUTH.covariance, -np.inf).sample(1500, random_state=1)


def two_pairs():
    """Columns of which the first two go together, and the other two."""
    pair = np.array([[1.0, 0.8], [0.8, 1.0]])
    return RectifiedGaussian(np.zeros(4), np.kron(np.eye(2), pair)).sample(1500, random_state=1)


@parametrize_with_checks([FloorImputer()])
def test_sklearn(estimator, check):
    check(estimator)


@pytest.mark.slow  # the same distributions, of tables with values below 0
@parametrize_with_checks([FloorImputer(floor=-1e6, strategy="median")])
def test_sklearn_below_zero(estimator, check):
    check(estimator)


def test_fills_hidden_cells_and_no_others(table):
    X = table.copy()
    X[::7, 2] = NAN
    imputer = FloorImputer().fit(X)
    filled, mask = imputer.transform(X), imputer.mask(X)
    np.testing.assert_array_equal(mask, ~(X > 0.0))
    np.testing.assert_array_equal(filled[~mask], X[~mask])
    assert (filled[X == 0.0] < 0.0).all()
    assert np.isfinite(filled).all()
    std = imputer.std(X)
    assert (std[mask] > 0.0).all()
    assert (std[~mask] == 0.0).all()
    np.testing.assert_allclose(filled, imputer.distribution_.impute(X), atol=1e-12)
    median = FloorImputer(strategy="median").fit(X).transform(X)
    np.testing.assert_allclose(median, imputer.quantile(X, 0.5))
    assert not np.allclose(median[mask], filled[mask])


def test_is_near_the_optimum(table, hidden):
    """Root mean square error in floored cells, over that of the true model: learning costs little."""
    np.testing.assert_array_equal(np.maximum(hidden, 0.0), table)
    floored = table == 0.0
    error = np.sqrt(np.mean((FloorImputer().fit_transform(table) - hidden)[floored] ** 2))
    best = np.sqrt(np.mean((TRUTH.impute(table) - hidden)[floored] ** 2))
    assert error < 1.02 * best
    assert error < 0.75 * np.sqrt(np.mean(hidden[floored] ** 2))  # the floor itself, which is 0


def test_frames_and_reordered_columns(table):
    frame = pd.DataFrame(table, columns=list("abcd"))
    imputer = FloorImputer().fit(frame).set_output(transform="pandas")
    filled = imputer.transform(frame)
    assert list(filled.columns) == list("abcd")
    np.testing.assert_allclose(filled.to_numpy(), FloorImputer().fit_transform(table))
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.transform(frame[list("badc")])
    with pytest.raises(ValueError, match="unseen at fit time"):
        imputer.transform(frame.rename(columns={"a": "z"}))


def test_pipelines_and_searches(table):
    y = table[:, 3]
    assert make_pipeline(FloorImputer(), LinearRegression()).fit(table[:, :3], y).score(table[:, :3], y) > 0.0
    scores = cross_val_score(RectifiedGaussianLearner(), table, cv=3)
    assert np.isfinite(scores).all()
    search = GridSearchCV(RectifiedGaussianLearner(), {"n_components": [1, None]}, cv=3).fit(two_pairs())
    assert search.best_params_ == {"n_components": None}


def test_aic_and_bic():
    table = two_pairs()
    learner = RectifiedGaussianLearner().fit(table)
    total = learner.distribution_.log_prob(table).sum()
    assert learner.n_parameters_ == 4 + 10
    assert learner.aic(table) == pytest.approx(-2.0 * total + 28.0)
    assert learner.bic(table) == pytest.approx(-2.0 * total + 14.0 * np.log(1500))
    # One factor cannot explain two pairs.
    other = RectifiedGaussianLearner(n_components=1).fit(table)
    assert learner.bic(table) < other.bic(table)
    assert other.n_parameters_ == 4 + 8


def test_single_precision_single_rows_and_files(table, tmp_path):
    imputer = FloorImputer().fit(table)
    single = imputer.transform(table.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, imputer.transform(table), atol=1e-5)
    np.testing.assert_array_equal(imputer.transform(table[5:6]), imputer.transform(table)[5:6])
    pd.DataFrame(table, columns=list("abcd")).to_csv(tmp_path / "t.csv", index=False)
    rows = open_samples(tmp_path / "t.csv")
    by_file = FloorImputer().fit(rows)
    np.testing.assert_allclose(by_file.transform(rows), imputer.transform(table), atol=1e-9)
    by_file.save(tmp_path / "i.unrelu")
    again = unrelu.load(tmp_path / "i.unrelu")
    assert isinstance(again, FloorImputer)
    np.testing.assert_array_equal(again.transform(table), by_file.transform(table))


def test_margins_ceilings_and_tolerance(table):
    X = np.maximum(np.exp(RectifiedGaussian(TRUTH.mean, TRUTH.covariance, -np.inf).sample(800, random_state=2)), 1.0)
    imputer = FloorImputer(floor=1.0, margins="log").fit(X)
    filled = imputer.transform(X)
    assert ((filled > 0.0) & (filled < 1.0))[X == 1.0].all()
    upside_down = FloorImputer(floor=None, ceiling=0.0).fit(-table)
    np.testing.assert_allclose(upside_down.transform(-table), -FloorImputer().fit(table).transform(table), atol=1e-8)
    noisy = np.where(table == 0.0, np.random.default_rng(0).uniform(-0.05, 0.05, table.shape), table)
    tolerant = FloorImputer(floor_tolerance=0.05).fit(noisy)
    assert (tolerant.transform(noisy)[table == 0.0] <= 0.05).all()
    np.testing.assert_array_equal(tolerant.mask(noisy), noisy <= 0.05)


def test_robust_fits_impute_by_the_inlier_rows(table, hidden):
    X = table.copy()
    X[:150] = 9.0
    floored = X == 0.0
    robust = FloorImputer("robust").fit_transform(X)
    plain = FloorImputer().fit_transform(X)
    errors = [np.sqrt(np.mean((filled - hidden)[floored] ** 2)) for filled in (robust, plain)]
    best = np.sqrt(np.mean((TRUTH.impute(X) - hidden)[floored] ** 2))
    assert errors[0] < 1.03 * best < errors[1]


def test_a_row_with_nothing_seen_gets_the_prior():
    model = RectifiedGaussian([1.0, 2.0], [[1.0, 0.5], [0.5, 4.0]])
    filled, std = model.impute([[NAN, NAN]], return_std=True, below="latent")
    np.testing.assert_allclose(filled, [[1.0, 2.0]])
    np.testing.assert_allclose(std, [[1.0, 2.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("imputer", "change", "match"),
    [
        (FloorImputer(floor=100.0), lambda X: X, "below the floor"),
        (FloorImputer(strategy="men"), lambda X: X, "Did you mean 'mean'"),
        (FloorImputer(), lambda X: X - 1.0, "Negative values"),
        (FloorImputer(floor=np.zeros((2, 4))), lambda X: X, r"\(2, 4\)"),
    ],
)
def test_bad_input(imputer, change, match, table):
    with pytest.raises((InvalidDataError, InvalidParameterError), match=match):
        imputer.fit(change(table)).transform(table)


def test_an_imputer_of_a_known_model(tmp_path, table):
    distribution = TRUTH.with_parts(feature_names=("a", "b", "c", "d"))
    imputer = FloorImputer.from_model(distribution)
    np.testing.assert_allclose(imputer.transform(table), distribution.impute(table), rtol=1e-12)
    np.testing.assert_allclose(imputer.score_samples(table), distribution.log_prob(table), rtol=1e-12)
    assert imputer.n_parameters_ == 4 + 10
    with pytest.raises(AttributeError, match="has learned from no rows"):
        imputer.report_  # noqa: B018
    imputer.save(tmp_path / "imputer.npz")
    loaded = FloorImputer.load(tmp_path / "imputer.npz")
    np.testing.assert_array_equal(loaded.transform(table), imputer.transform(table))
    learned = imputer.fit(table)  # its floors stay
    assert learned.report_.n_rows == 1500
    np.testing.assert_allclose(learned.mean_, FloorImputer(margins="normal").fit(table).mean_)
    with pytest.raises(InvalidParameterError, match="must be a RectifiedGaussian"):
        FloorImputer.from_model(3)


def test_an_imputer_of_a_known_model_with_ceilings_and_margins():
    y = np.random.default_rng(1).multivariate_normal([0.2, 1.0, 0.0], 0.5 + 0.5 * np.eye(3), 600)
    X = np.column_stack([np.maximum(np.exp(y[:, 0]), 0.8), np.minimum(y[:, 1], 1.5), np.maximum(y[:, 2], 0.0)])
    fitted = FloorImputer(floor=[0.8, None, 0.0], ceiling=[None, 1.5, None], margins=["log", "normal", "normal"]).fit(X)
    made = FloorImputer.from_model(fitted)
    np.testing.assert_allclose(made.transform(X), fitted.transform(X), rtol=1e-10)
    np.testing.assert_allclose(made.score_samples(X), fitted.score_samples(X), rtol=1e-10)
    assert [margins.kind for margins in made.margins_] == ["log", "normal", "normal"]


def test_levels_must_be_probabilities(table):
    with pytest.raises(InvalidParameterError, match="between 0 and 1"):
        FloorImputer.from_model(TRUTH).quantile(table, 1.5)
