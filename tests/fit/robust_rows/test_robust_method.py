"""The robust method as its user sees it: what the inlier rows alone would give, whatever the others are."""

import warnings

import numpy as np
import pytest

from tests.warned import warns
from unrelu import RectifiedGaussian, RectifiedGaussianLearner, metrics, synthetic
from unrelu.contracts import Assumptions, Evidence
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.methods import Robust
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples, open_samples, write_table

D, N = 4, 3000
TRUTH = synthetic.random_model(D, condition_number=4.0, mean="signed", random_state=3)


def fit(x, sample_weight=None, method="robust", **options):
    return RectifiedGaussianLearner(method=method, **options).fit(x, sample_weight=sample_weight)


def one_pass(x, sample_weight=None, **options):
    return fit(x, sample_weight, method="one_pass", **options)


def distance(learner, other):
    """The largest difference of a mean, standard deviation or correlation, in the other's standard errors."""
    off = ~np.eye(learner.n_features_in_, dtype=bool)
    return max(
        np.max(np.abs(learner.mean_ - other.mean_) / other.mean_stderr_),
        np.max(np.abs(learner.std_ - other.std_) / other.std_stderr_),
        np.max(np.abs(learner.correlation_ - other.correlation_)[off] / other.correlation_stderr_[off]),
    )


def contaminated(kind, fraction, n=N, seed=0):
    x = TRUTH.sample(n, random_state=seed)
    rng = np.random.default_rng(seed + 500)
    outlier = np.zeros(n, dtype=bool)
    outlier[rng.choice(n, round(fraction * n), replace=False)] = True
    count = np.count_nonzero(outlier)
    if kind == "one coordinate":
        x[outlier, 0] += 6.0
    else:
        x[outlier] = {
            "normal": lambda: np.maximum(rng.normal(5.0, 1.0, (count, D)), 0.0),
            "near": lambda: np.maximum(rng.normal(2.0, 1.0, (count, D)), 0.0),
            "point": lambda: np.full((count, D), 10.0),
            "zeros": lambda: np.zeros((count, D)),
            "cauchy": lambda: np.abs(3.0 * rng.standard_cauchy((count, D))),
        }[kind]()
    return x, outlier


@pytest.fixture(scope="module")
def clean():
    return TRUTH.sample(N, random_state=1)


@pytest.fixture(scope="module")
def near():
    """Outliers that overlap with the inlier rows, and the fit: shared, for it takes a while."""
    x, outlier = contaminated("near", 0.2)
    return x, outlier, fit(x)


# --- what is learned ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_a_clean_table_gives_the_one_pass_fit(seed):
    """A row's probability to be unexplained is about 1e-4 at most: no estimate moves by a tenth of its error."""
    x = TRUTH.sample(N, random_state=seed)
    learner = fit(x)
    assert distance(learner, one_pass(x)) < 0.1
    assert learner.report_.share_downweighted == 0.0
    assert learner.report_.cut_p_value == 0.0


@pytest.mark.parametrize(
    ("kind", "fraction"),
    [
        ("normal", 0.2),
        pytest.param("normal", 0.35, marks=pytest.mark.slow),
        pytest.param("near", 0.2, marks=pytest.mark.slow),
        pytest.param("one coordinate", 0.2, marks=pytest.mark.slow),
        ("point", 0.2),
        pytest.param("zeros", 0.2, marks=pytest.mark.slow),
        ("cauchy", 0.1),
    ],
)
@pytest.mark.slow  # a study of errors over tables
def test_errors_are_those_of_the_inlier_rows(kind, fraction):
    x, outlier = contaminated(kind, fraction)
    learner, oracle = fit(x), one_pass(x[~outlier])
    got, best = (metrics.parameter_errors(one.distribution_, TRUTH) for one in (learner, oracle))
    # An oracle that was lucky is no bound: half of the error it should have had is allowed on top.
    size = np.sqrt(np.trace(TRUTH.covariance))
    expected_bias = np.linalg.norm(oracle.mean_stderr_) / size
    variance_errors = 2.0 * oracle.std_ * oracle.std_stderr_
    products = np.outer(oracle.std_, oracle.std_) * np.nan_to_num(oracle.correlation_stderr_)
    expected_weights = np.sqrt(np.sum(variance_errors**2) + np.sum(products**2)) / size**2
    assert got["bias"] < 1.5 * best["bias"] + 0.5 * expected_bias
    assert got["weights"] < 1.5 * best["weights"] + 0.5 * expected_weights
    # Without the robust method all of these spoil the fit, else there is nothing to resist; columns that may bend take
    # up some.
    spoiled = metrics.parameter_errors(one_pass(x, margins="normal").distribution_, TRUTH)
    assert spoiled["weights"] > 3.0 * got["weights"]


@pytest.mark.parametrize("size", [30.0, *(pytest.param(far, marks=pytest.mark.slow) for far in (1e3, 1e5))])
def test_outliers_at_any_distance(clean, size):
    x = clean.copy()
    outlier = np.random.default_rng(0).random(N) < 0.1
    x[outlier] = size * np.random.default_rng(1).exponential(size=(np.count_nonzero(outlier), D))
    assert distance(fit(x), one_pass(x[~outlier])) < 0.5


@pytest.mark.parametrize("value", [1e6, pytest.param(1e10, marks=pytest.mark.slow)])
def test_a_single_far_row_does_no_harm(clean, value):
    x = clean.copy()
    x[17] = value
    learner = fit(x)
    assert learner.row_weights_[17] < 1e-6
    # What it took from the inlier rows is the probability of some to be unexplained too: about a row's worth.
    assert distance(learner, one_pass(np.delete(x, 17, axis=0))) < 0.1


@pytest.mark.parametrize("value", [1e4, pytest.param(1e8, marks=pytest.mark.slow)])
def test_a_far_row_does_not_hide_other_outliers(value):
    x, outlier = contaminated("one coordinate", 0.2)
    x[17], outlier[17] = value, True
    assert distance(fit(x), one_pass(x[~outlier])) < 0.5


@pytest.mark.slow
def test_more_rows_than_the_sample_on_which_the_mixture_is_chosen():
    x, outlier = contaminated("near", 0.2, n=21_000)
    learner, oracle = fit(x), one_pass(x[~outlier])
    assert learner.row_weights_.shape == (21_000,)
    # Overlapping rows are told apart by their probabilities only, which costs some of the information.
    assert distance(learner, oracle) < 3.0
    assert learner.row_weights_[outlier].mean() < 0.1


def test_missing_cells():
    x, outlier = contaminated("normal", 0.2)
    x[np.random.default_rng(0).random(x.shape) < 0.15] = np.nan
    learner = fit(x)
    assert learner.report_.share_missing == pytest.approx(np.isnan(x).mean())
    assert distance(learner, one_pass(x[~outlier])) < 0.5
    seen = ~np.isnan(x).all(axis=1)
    assert learner.row_weights_[outlier & seen].max() < 0.5


def test_a_column_that_was_measured_later_on(clean):
    x = clean.copy()
    x[:1600, 1] = np.nan
    assert distance(fit(x), one_pass(x)) < 0.1


# --- what is said of the rows ---------------------------------------------------------------------


def test_row_weights(near):
    x, outlier, learner = near
    weights = learner.row_weights_
    assert weights.shape == (N,)
    assert ((weights >= 0.0) & (weights <= 1.0)).all()
    # The sum of an inlier row's latent values is N(1, 2^2) at most, that of an outlier N(8, 2^2).
    far = outlier & (x.sum(axis=1) > 10.0)
    assert np.count_nonzero(far) > 50
    assert weights[far].max() < 0.01
    assert np.median(weights[~outlier]) > 0.999
    # Calibrated: the weights add up to the number of inlier rows, within a few times the error of a count.
    assert abs(weights.sum() - np.count_nonzero(~outlier)) < 5.0 * 3.0 * np.sqrt(N * 0.2 * 0.8)


def test_report(near):
    _, outlier, learner = near
    report = learner.report_
    assert report.method == "robust"
    assert report.groups[0].kind == "gaussian"
    assert sum(group.share for group in report.groups) == pytest.approx(1.0)
    assert report.groups[0].share == max(group.share for group in report.groups if group.kind == "gaussian")
    assert report.share_downweighted == pytest.approx(np.mean(learner.row_weights_ < 0.5))
    assert report.share_downweighted == pytest.approx(outlier.mean(), abs=0.05)
    assert report.effective_rows < np.count_nonzero(~outlier) + 100
    assert report.n_rows == N
    assert report.rounds > 0


def test_standard_errors_are_those_of_the_inlier_rows(near):
    x, outlier, learner = near
    oracle = one_pass(x[~outlier])
    np.testing.assert_allclose(learner.mean_stderr_, oracle.mean_stderr_, rtol=0.1)
    np.testing.assert_allclose(learner.std_stderr_, oracle.std_stderr_, rtol=0.1)


def test_rows_at_a_point_are_a_group_of_their_own():
    x, _ = contaminated("point", 0.2)
    report = fit(x).report_
    point = [group.share for group in report.groups if group.kind == "repeated row"]
    assert point == [pytest.approx(0.2, abs=0.001)]


def test_two_groups_of_about_the_same_size(clean):
    x = clean.copy()
    x[: N // 2] = np.maximum(np.random.default_rng(0).normal(5.0, 1.0, (N // 2, D)), 0.0)
    with warns("ambiguous-majority", match=r"groups of about 1,(49|50)\d and 1,(49|50)\d that"):
        fit(x)


def test_a_clear_majority_needs_no_warning():
    x, _ = contaminated("normal", 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(x)


@pytest.mark.slow  # a study
def test_rows_of_no_model_at_all():
    """Every row an outlier of its own kind: numbers come out, and a warning says that they are no majority's."""
    x = np.maximum(np.random.default_rng(0).standard_cauchy((600, D)), 0.0)
    with warns("ambiguous-majority"):
        learner = fit(x)
    assert np.isfinite(learner.covariance_).all()
    assert learner.report_.groups[0].share < 0.6


# --- the same model ------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model(near):
    x, _, learner = near
    again = fit(x)
    np.testing.assert_array_equal(again.covariance_, learner.covariance_)
    np.testing.assert_array_equal(again.row_weights_, learner.row_weights_)


@pytest.mark.slow
def test_other_seeds_agree(near):
    """They start elsewhere, and simulate other rows, but a settled mixture is the same: .15 standard errors each."""
    x, _, learner = near
    assert distance(fit(x, method="robust", random_state=1), learner) < 0.5


@pytest.mark.slow  # of every method in contracts/test_methods.py
def test_blocks_and_files_do_not_matter(near, tmp_path):
    x, _, learner = near
    write_table(tmp_path / "x.parquet", x)
    for samples in (ArraySamples(x, block_rows=311), open_samples(tmp_path / "x.parquet", block_rows=1000)):
        learned = Robust().learn(Evidence(samples, LocalEngine()), Assumptions((0.0,) * D))
        np.testing.assert_allclose(learned.distribution.mean, learner.mean_, atol=1e-8)
        np.testing.assert_allclose(learned.distribution.covariance, learner.covariance_, atol=1e-8)
        np.testing.assert_allclose(learned.row_weights, learner.row_weights_, atol=1e-6)


def test_sample_weights_are_repetitions():
    x, outlier = contaminated("normal", 0.2, n=1500)
    times = np.random.default_rng(0).integers(1, 3, 1500)
    weighted = fit(x, sample_weight=times.astype(float))
    oracle = one_pass(x[~outlier], sample_weight=times[~outlier].astype(float))
    assert distance(weighted, oracle) < 0.1
    np.testing.assert_allclose(weighted.row_weights_[outlier], 0.0, atol=1e-6)
    np.testing.assert_allclose(weighted.row_weights_[~outlier].mean(), 1.0, atol=0.01)


@pytest.fixture(scope="module")
def with_absent_rows(near):
    x, _, learner = near
    spoiled = np.vstack([np.full((500, D), 40.0), x, np.full((500, D), np.nan)])
    return learner, fit(spoiled, sample_weight=np.repeat([0.0, 1.0, 0.0], [500, N, 500]))


class TestRowsOfWeightZero:
    def test_are_absent_from_the_model(self, with_absent_rows):
        learner, other = with_absent_rows
        assert distance(other, learner) < 0.2  # rows have other numbers, so another random start
        np.testing.assert_allclose(other.row_weights_[500:-500], learner.row_weights_, atol=0.05)

    def test_are_absent_from_the_report(self, with_absent_rows):
        learner, other = with_absent_rows
        assert other.report_.share_missing == 0.0
        assert other.report_.share_downweighted == pytest.approx(learner.report_.share_downweighted, abs=0.01)


# --- parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": Robust(max_groups=0)}, "max_groups must be a whole number of at least 1, got 0"),
        ({"method": Robust(max_groups=1.5)}, "max_groups must be a whole number"),
        ({"random_state": -1}, "random_state must be"),
        ({"random_state": 0.5}, "random_state must be"),
    ],
)
def test_bad_parameters(clean, parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        fit(clean[:100], **parameters)


def test_one_component_leaves_outliers_to_the_unexplained():
    x, outlier = contaminated("normal", 0.2)
    learner = fit(x, method=Robust(max_groups=1))
    assert [group.kind for group in learner.report_.groups] == ["gaussian", "unexplained"]
    assert learner.row_weights_[outlier].max() < 0.01


@pytest.mark.slow  # a study: two robust fits of rank two
def test_rank_is_honoured():
    truth = synthetic.random_model(5, k=2, mean="signed", random_state=6)
    x = truth.sample(N, random_state=0)
    outlier = np.arange(N) < 450
    x[outlier] = np.maximum(np.random.default_rng(0).normal(5.0, 1.0, (450, 5)), 0.0)
    learner, oracle = fit(x, n_components=2), one_pass(x[~outlier], n_components=2)
    assert np.linalg.matrix_rank(learner.covariance_, tol=1e-6) == 2
    np.testing.assert_allclose(learner.mean_, oracle.mean_, atol=0.2 * oracle.mean_stderr_.max())
    np.testing.assert_allclose(learner.covariance_, oracle.covariance_, atol=0.2 * oracle.std_stderr_.max())


def test_nonnegative_means_are_honoured():
    x, outlier = contaminated("normal", 0.2)
    learner, oracle = fit(x, nonnegative_mean=True), one_pass(x[~outlier], nonnegative_mean=True)
    assert (learner.mean_ >= 0.0).all()
    assert (learner.mean_ == 0.0).any()
    np.testing.assert_allclose(learner.mean_, oracle.mean_, atol=0.1 * oracle.mean_stderr_.max())


def test_floors_and_tolerances():
    x, outlier = contaminated("normal", 0.2)
    floor = np.array([5.0, -1.0, 0.5, 100.0])
    noise = np.random.default_rng(0).uniform(-0.04, 0.04, x.shape) * (x == 0.0)
    learner = fit(x + floor + noise, floor=floor, floor_tolerance=0.05)
    oracle = one_pass((x + floor + noise)[~outlier], floor=floor, floor_tolerance=0.05)
    assert distance(learner, oracle) < 0.1


# --- tables that cannot be learned from ---------------------------------------------------------------


def test_more_than_half_of_the_rows_identical(clean):
    x = clean.copy()
    x[:1600] = [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(InvalidDataError, match="53% of the rows are identical"):
        fit(x)


def test_fewer_than_two_rows_a_column(clean):
    with pytest.raises(InvalidDataError, match=r"Only 7 rows for 4 columns"):
        fit(clean[:7])


def test_a_table_of_ones_and_zeros(clean):
    with pytest.raises(InvalidDataError, match="Nearly all rows are copies"):
        fit((clean > 0.0).astype(float))


def test_a_constant_column_is_kept_among_outliers():
    x, outlier = contaminated("normal", 0.2)
    x = np.c_[x, np.full(N, 2.5)]
    with pytest.warns(UserWarning, match="Constant: column 4"):
        learner = fit(x)
    assert (learner.mean_[4], learner.std_[4]) == (2.5, 0.0)
    oracle = one_pass(x[~outlier, :D])
    np.testing.assert_allclose(learner.mean_[:D], oracle.mean_, atol=0.1 * oracle.mean_stderr_.max())


def test_a_small_table():
    """Fifty rows, ten of them far out."""
    model = RectifiedGaussian([1.0, 0.5, 0.2], np.eye(3))
    x = model.sample(50, random_state=0)
    x[:10] += 12.0
    learner = fit(x)
    assert learner.row_weights_[:10].max() < 0.05
    assert learner.row_weights_[10:].mean() > 0.9
    assert distance(learner, one_pass(x[10:])) < 0.5
