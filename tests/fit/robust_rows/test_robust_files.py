"""What the robust method, the detector and the mixture have learned, written to files and read again."""

import numpy as np
import pandas as pd
import pytest

import unrelu
from unrelu import FloorOutlierDetector, RectifiedGaussian, RectifiedGaussianLearner, RectifiedGaussianMixture
from unrelu.contracts import RobustReport
from unrelu.errors import InvalidParameterError, ModelFileError
from unrelu.methods import Robust

# A constant column and groups of about equal size are what these tables are for.
pytestmark = pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")

MODEL = RectifiedGaussian([0.5, -0.3, 1.0], [[1.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 0.8]])


@pytest.fixture(scope="module")
def table():
    """Groups of all kinds: inlier rows, a second Gaussian, one row repeated, scattered ones; and a constant column."""
    rng = np.random.default_rng(0)
    x = MODEL.sample(1600, random_state=1)
    x[rng.random(x.shape) < 0.03] = np.nan
    x[:250] = np.maximum(rng.normal(5.0, 0.5, (250, 3)), 0.0)
    x[250:330] = [9.0, 0.0, 2.0]
    x[330:580] = np.abs(3.0 * rng.standard_cauchy((250, 3)))
    return np.c_[x, np.full(len(x), 2.5)]


@pytest.fixture(scope="module")
def fresh(table):
    return np.r_[table[::5], [[1.0, 12.0, 0.0, 2.5], [1.0, 1.0, 1.0, 2.0], [np.nan] * 4]]


@pytest.fixture(scope="module")
def learner(table):
    return RectifiedGaussianLearner(Robust(max_groups=5)).fit(table)


@pytest.fixture(scope="module")
def detector(table):
    return FloorOutlierDetector(Robust(max_groups=5)).fit(table)


@pytest.fixture(scope="module")
def mixture(table):
    return RectifiedGaussianMixture(2, n_init=1).fit(table)


def again(estimator, path):
    estimator.save(path)
    loaded = unrelu.load(path)
    assert type(loaded) is type(estimator)
    assert type(estimator).load(path).get_params() == loaded.get_params() == estimator.get_params()
    return loaded


def equal(one, other, *methods):
    for method in methods:
        np.testing.assert_array_equal(method(one), method(other))


def test_a_robust_learner_comes_back_whole(learner, fresh, tmp_path):
    kinds = {group.kind for group in learner.report_.groups}
    assert kinds == {"gaussian", "independent", "repeated row", "unexplained"}  # else the file is not put to the test
    loaded = again(learner, tmp_path / "learner")
    assert isinstance(loaded.report_, RobustReport)
    assert loaded.report_ == learner.report_
    equal(
        loaded,
        learner,
        lambda one: one.row_weights_,
        lambda one: one.covariance_,
        lambda one: one.mean_stderr_,
        lambda one: one.correlation_stderr_,
        lambda one: one.score_samples(fresh),
        lambda one: one.sample(5, random_state=0),
    )


def test_a_detector_comes_back_whole(detector, fresh, tmp_path):
    loaded = again(detector, tmp_path / "detector")
    assert loaded.offset_ == detector.offset_
    assert loaded.report_ == detector.report_
    equal(
        loaded,
        detector,
        lambda one: one.predict(fresh),
        lambda one: one.score_samples(fresh),
        lambda one: one.p_values(fresh),
        lambda one: one.cell_residuals(fresh),
        lambda one: one.row_weights_,
        lambda one: one.distribution_.covariance,
        lambda one: one.score_table(fresh).top,
    )
    judged, before = (one.score_table(fresh, cells_of="flagged") for one in (loaded, detector))
    for row in np.flatnonzero(before.flagged):
        assert judged.drivers(row) == before.drivers(row)


def test_a_detector_made_from_a_model_comes_back_whole(fresh, tmp_path):
    model = RectifiedGaussian(MODEL.mean, MODEL.covariance, [0.0, -1.0, 0.5], ("As", "Pb", "Cd"))
    given = FloorOutlierDetector.from_model(model, false_alarm_rate=0.05, floor_tolerance=0.1, random_state=4)
    path = tmp_path / "detector"
    given.save(path)
    loaded = unrelu.load(path)
    assert loaded.feature_names_in_.tolist() == ["As", "Pb", "Cd"]
    rows = pd.DataFrame(model.sample(200, random_state=0), columns=model.feature_names)
    equal(loaded, given, lambda one: one.p_values(rows), lambda one: one.predict(rows), lambda one: one.floor)
    assert not hasattr(loaded, "report_")
    assert not hasattr(loaded, "row_weights_")


def test_a_mixture_comes_back_whole(mixture, fresh, tmp_path):
    loaded = again(mixture, tmp_path / "mixture")
    assert loaded.report_ == mixture.report_
    assert (loaded.converged_, loaded.n_iter_, loaded.lower_bound_) == (
        mixture.converged_,
        mixture.n_iter_,
        mixture.lower_bound_,
    )
    equal(
        loaded,
        mixture,
        lambda one: one.weights_,
        lambda one: one.means_,
        lambda one: one.covariances_,
        lambda one: one.predict_proba(fresh),
        lambda one: one.score_samples(fresh),
        lambda one: one.bic(fresh),
        lambda one: one.sample(20, random_state=2)[0],
        lambda one: one.sample(20, random_state=2)[1],
    )


def test_files_hold_no_priors(learner, detector, mixture, tmp_path):
    """A prior is six d x d arrays for each component, which only a fit needs."""
    for estimator in (learner, detector, mixture):
        estimator.save(tmp_path / "file")
        with np.load(tmp_path / "file") as archive:
            assert not [name for name in archive.files if "prior" in name]


# --- damage ---------------------------------------------------------------------------------------


def shorter(values):
    return values[:-1]


def spoiled(values):
    values = values.copy()
    values.flat[0] = np.nan
    return values


def shifted(values):
    return values + 9


@pytest.mark.parametrize(
    ("kind", "array", "change", "message"),
    [
        ("learner", "learned.row_weights", spoiled, "row_weights holds values that are not finite"),
        ("learner", "learned.mixture.shares", shorter, "shares has shape"),
        ("learner", "learned.mixture.shares", spoiled, "shares holds values that are not finite"),
        ("learner", "learned.mixture.components.0.correlation", shorter, "correlation has shape"),
        ("learner", "learned.columns", shifted, "columns holds"),
        ("learner", "learned.columns", shorter, "columns holds"),
        ("learner", "independent.edges.0", spoiled, "edges.0 holds values that are not finite"),
        ("learner", "independent.log_mass.1", shorter, "log_mass has shape"),
        ("detector", "scores.scores.scale", spoiled, "scale holds values that are not finite"),
        ("detector", "scores.tail.scores", spoiled, "scores holds values that are not finite"),
        ("detector", "scores.columns", shifted, "columns holds"),
        ("detector", "scores.mixture.components.0.mean", shorter, "has shape"),
        ("detector", "row_weights", spoiled, "row_weights holds values that are not finite"),
        ("mixture", "fitted.mixture.components.1.mean", shorter, "has shape"),
        ("mixture", "fitted.shared.mean", spoiled, "mean holds values that are not finite"),
        ("mixture", "fitted.shared.columns", shifted, "columns and shared columns are not the 4 columns"),
        ("mixture", "fitted.columns", shifted, "columns"),
        ("mixture", "distributions.0.covariance", spoiled, "covariance holds values that are not finite"),
    ],
)
def test_damaged_arrays_are_named(request, kind, array, change, message, tmp_path):
    estimator, path = request.getfixturevalue(kind), tmp_path / "file.npz"
    estimator.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    name = next(name for name in arrays if name == array or name.endswith(array.removeprefix("independent")))
    np.savez(path, **{**arrays, name: change(arrays[name])})
    with pytest.raises(ModelFileError, match=f"is damaged: .*{message}"):
        unrelu.load(path)


def test_nothing_is_saved_before_it_is_learned(tmp_path):
    for estimator in (FloorOutlierDetector(), RectifiedGaussianMixture()):
        with pytest.raises(ValueError, match="not fitted"):
            estimator.save(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidParameterError, match="model must be a RectifiedGaussian"):
        FloorOutlierDetector.from_model("model.npz")
