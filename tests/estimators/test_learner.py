"""The scikit-learn skin: its conventions, and what it does with good and bad tables."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import unrelu
from tests.warned import warns
from unrelu import RectifiedGaussianLearner, metrics, synthetic
from unrelu.errors import InvalidDataError, InvalidParameterError


@parametrize_with_checks(
    [RectifiedGaussianLearner(), RectifiedGaussianLearner(floor=-1e6), RectifiedGaussianLearner(nonnegative_mean=True)]
)
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def truth():
    return synthetic.random_model(4, condition_number=5.0, mean="signed", random_state=3)


@pytest.fixture
def table(truth):
    return truth.sample(3000, random_state=4)


def one_pass(**options):
    """Learners of one pass, whose parts are those of a whole; the full likelihood keeps no record."""
    return RectifiedGaussianLearner("one_pass", margins="normal", **options)


def same_model(first, second, rtol=1e-10):
    scale = np.abs(second.covariance_).max()
    np.testing.assert_allclose(first.mean_, second.mean_, rtol=rtol, atol=rtol * np.sqrt(scale))
    np.testing.assert_allclose(first.covariance_, second.covariance_, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(first.correlation_stderr_, second.correlation_stderr_, rtol=max(rtol, 1e-8))


# --- accuracy -------------------------------------------------------------------------------------


def test_learns_every_parameter_within_its_errors(truth, table):
    learner = RectifiedGaussianLearner().fit(table)
    upper = np.triu_indices(4, 1)
    z = np.concatenate(
        [
            (learner.mean_ - truth.mean) / learner.mean_stderr_,
            (learner.std_ - truth.std) / learner.std_stderr_,
            ((learner.correlation_ - truth.correlation)[upper]) / learner.correlation_stderr_[upper],
        ]
    )
    assert np.all(np.abs(z) < 4.0)  # 14 z-scores: one beyond 4 has probability .001
    assert np.mean(z**2) < 2.2


def test_errors_fall_with_the_root_of_the_rows(truth):
    errors = [
        np.mean(
            [
                metrics.parameter_errors(
                    RectifiedGaussianLearner().fit(truth.sample(n, random_state=seed)).distribution_, truth
                )["weights"]
                for seed in range(12)
            ]
        )
        for n in (250, 4000)
    ]
    assert 3.0 < errors[0] / errors[1] < 5.3  # sqrt(16) = 4; each mean is known to about 8 %


def test_rank_is_respected_and_helps_where_it_is_true():
    rng = np.random.default_rng(1)
    model = unrelu.RectifiedGaussian.from_weights(rng.standard_normal((6, 2)), 0.5 * rng.standard_normal(6))
    learner = one_pass(n_components=2).fit(model.sample(5000, random_state=1))
    assert np.linalg.matrix_rank(learner.covariance_, tol=1e-8) == 2
    weights = learner.distribution_.weights(2)
    np.testing.assert_allclose(weights @ weights.T, learner.covariance_, atol=1e-10)
    free = one_pass().fit(model.sample(5000, random_state=1))

    def error(fitted):
        return metrics.parameter_errors(fitted.distribution_, model)["weights"]

    assert error(learner) < error(free)


def test_nonnegative_bias_is_never_below_the_floor(table):
    assert RectifiedGaussianLearner().fit(table).mean_.min() < 0
    learner = RectifiedGaussianLearner(nonnegative_mean=True).fit(table)
    assert learner.mean_.min() == 0.0


def test_floor_shifts_everything_with_it(table):
    plain = one_pass().fit(table)
    shift = np.array([1.0, -2.0, 0.5, 10.0])
    moved = one_pass(floor=shift).fit(table + shift)
    np.testing.assert_allclose(moved.mean_ - shift, plain.mean_, atol=1e-8)
    np.testing.assert_allclose(moved.covariance_, plain.covariance_, atol=1e-8)
    np.testing.assert_array_equal(moved.distribution_.floor, shift)


def test_noise_before_the_floor_only_adds_to_the_covariance(truth):
    rng = np.random.default_rng(0)
    latent = rng.multivariate_normal(truth.mean, truth.covariance, 20_000) + 0.5 * rng.standard_normal((20_000, 4))
    learner = RectifiedGaussianLearner().fit(np.maximum(latent, 0.0))
    expected = np.sqrt(np.diag(truth.covariance) + 0.25)
    assert np.all(np.abs(learner.std_ - expected) < 4 * learner.std_stderr_)


# --- ways to bring the rows -----------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[1], [1500], [10, 11, 2000], list(range(100, 3000, 100))])
def test_partial_fit_equals_fit(table, cuts):
    parts = one_pass()
    for rows in np.split(table, cuts):
        parts.partial_fit(rows)
    same_model(parts, one_pass().fit(table))


def test_partial_fit_adds_to_rows_that_were_learned_by_the_full_likelihood(table):
    learner = RectifiedGaussianLearner().fit(table[:1000])
    assert learner.report_.method == "full_likelihood"
    same_model(learner.partial_fit(table[1000:]), one_pass().fit(table))
    assert learner.record_.n_rows == 3000


def test_few_rows_first_tell_nothing_of_floors(table):
    """One row, or ten, above 0 in a column: zeros come later, and the floor is theirs."""
    first = table[(table > 0.0).all(axis=1)]
    for n in (1, 10):
        rows = np.vstack([first[:n], table])
        same_model(RectifiedGaussianLearner().partial_fit(rows[:n]).partial_fit(rows[n:]), one_pass().fit(rows))


def test_partial_fit_may_start_with_rows_that_teach_nothing(table):
    learner = one_pass().partial_fit(np.zeros((5, 4)))
    with pytest.raises(InvalidDataError, match="Never above its floor"):
        _ = learner.mean_
    learner.partial_fit(table)
    same_model(learner, one_pass().fit(np.vstack([np.zeros((5, 4)), table])))


def test_bad_rows_leave_partial_fit_as_it_was(table):
    learner = one_pass().partial_fit(table)
    before = learner.mean_
    with pytest.raises(InvalidDataError, match="below the floor"):
        learner.partial_fit(-table - 1)
    np.testing.assert_array_equal(learner.mean_, before)
    same_model(learner.partial_fit(table[:7]), one_pass().fit(np.vstack([table, table[:7]])))


def test_merge_equals_fit(table):
    parts = [one_pass().fit(rows) for rows in np.split(table, [100, 1700])]
    merged = unrelu.merge(parts)
    same_model(merged, one_pass().fit(table))
    same_model(unrelu.merge(parts[::-1]), merged)
    same_model(merged.partial_fit(table[:50]), unrelu.merge([merged]))


def test_merge_of_records_is_a_record(table):
    first, second = (one_pass().fit(rows)._record for rows in (table[:100], table[100:]))
    assert unrelu.merge([first, second]).n_rows == 3000


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda a, b: [], "at least one"),
        (lambda a, b: [a, "model"], "learners and records"),
        (lambda a, b: [a, one_pass(floor=-1.0).fit(b)], "different parameters"),
        (lambda a, b: [a, one_pass().fit(b[:, :3])], "4 columns in one part, 3 in another"),
    ],
)
def test_merge_refuses_what_does_not_fit_together(table, parts, message):
    with pytest.raises(InvalidParameterError, match=message):
        unrelu.merge(parts(one_pass().fit(table), table))


def test_integer_weights_are_repeated_rows(table):
    weights = np.random.default_rng(0).integers(0, 4, len(table))
    weighted = RectifiedGaussianLearner(margins="normal").fit(table, sample_weight=weights)
    repeated = RectifiedGaussianLearner(margins="normal").fit(np.repeat(table, weights, axis=0))
    np.testing.assert_allclose(weighted.mean_, repeated.mean_, rtol=1e-9)
    np.testing.assert_allclose(weighted.covariance_, repeated.covariance_, rtol=1e-8, atol=1e-10)


def test_weights_in_partial_fit_and_merge(table):
    weights = np.random.default_rng(1).gamma(2.0, size=len(table))
    whole = one_pass().fit(table, sample_weight=weights)
    parts = one_pass()
    for rows, w in zip(np.split(table, 5), np.split(weights, 5), strict=True):
        parts.partial_fit(rows, sample_weight=w)
    same_model(parts, whole)
    effective = weights.sum() ** 2 / (weights**2).sum()
    assert whole.report_.effective_rows == pytest.approx(effective)


@pytest.mark.parametrize(
    "change",
    [np.asfortranarray, lambda x: x[:, ::-1][:, ::-1], lambda x: np.repeat(x, 2, axis=0)[::2], lambda x: x.tolist()],
    ids=["fortran", "reversed view", "strided view", "lists"],
)
def test_layout_does_not_matter(table, change):
    same_model(RectifiedGaussianLearner().fit(change(table)), RectifiedGaussianLearner().fit(table))


def test_read_only_memmap(table, tmp_path):
    np.save(tmp_path / "x.npy", table)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    same_model(RectifiedGaussianLearner().fit(mapped), RectifiedGaussianLearner().fit(table))


def test_float32_and_integers(table):
    """Products of float32 tables are float32: rounding of 6e-8 a term, summed over 256 rows, beside errors of 2e-2."""
    single = table.astype(np.float32)
    double = single.astype(np.float64)
    same_model(RectifiedGaussianLearner().fit(single), RectifiedGaussianLearner().fit(double), rtol=1e-6)
    counts = (10 * table).astype(np.int64)
    same_model(RectifiedGaussianLearner().fit(counts), RectifiedGaussianLearner().fit(counts.astype(np.float64)))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_feature_names(table, frame):
    names = ["As", "Pb", "Cd", "Hg"]
    data = {name: table[:, k] for k, name in enumerate(names)}
    learner = RectifiedGaussianLearner().fit(frame(data))
    assert learner.feature_names_in_.tolist() == names
    assert learner.distribution_.feature_names == tuple(names)
    same_model(learner, RectifiedGaussianLearner().fit(table))
    data["Cd"] = data["Cd"] - 9.0
    with pytest.raises(InvalidDataError, match=r"column 2 \('Cd'\)"):
        RectifiedGaussianLearner().fit(frame(data))


def test_missing_values_are_not_zeros(table):
    holes = table.copy()
    holes[np.random.default_rng(0).random(table.shape) < 0.3] = np.nan
    learner = one_pass().fit(holes)
    whole = one_pass().fit(table)
    assert np.all(np.abs(learner.mean_ - whole.mean_) < 4 * learner.mean_stderr_)
    assert learner.report_.share_missing == pytest.approx(0.3, abs=0.02)
    parts = one_pass()
    for rows in np.split(holes, [2, 900]):
        parts.partial_fit(rows)
    same_model(parts, learner)


# --- skin -----------------------------------------------------------------------------------------


def test_sample_draws_from_the_learned_model(table):
    learner = RectifiedGaussianLearner().fit(table)
    np.testing.assert_array_equal(learner.sample(5, 7), learner.distribution_.sample(5, random_state=7))
    assert not np.array_equal(learner.sample(5), learner.sample(5))  # fresh draws, whatever seeds the fit


def test_the_random_state_reaches_the_methods(table):
    first, again, other = (
        RectifiedGaussianLearner("sgd", random_state=seed).fit(np.abs(table) + 0.1).mean_ for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_unfitted_learners_say_so():
    with pytest.raises(NotFittedError):
        _ = RectifiedGaussianLearner().mean_


def test_refit_forgets_and_clone_starts_afresh(table):
    learner = one_pass().partial_fit(table)
    same_model(learner.fit(table[:500]), one_pass().fit(table[:500]))
    with pytest.raises(NotFittedError):
        _ = clone(learner).mean_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "between 1 and 4"),
        ({"n_components": 5}, "between 1 and 4"),
        ({"n_components": 1.5}, "between 1 and 4"),
        ({"floor": [0.0, 1.0]}, "4 columns"),
        ({"floor": np.nan}, "floor of column 0 .*must be a number"),
        ({"floor": "low"}, "number"),
        ({"method": "one_pas"}, "Did you mean 'one_pass'"),
        ({"method": 3}, "a name"),
    ],
)
def test_parameters_out_of_range(table, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        RectifiedGaussianLearner(**options).fit(table)


# --- bad tables -----------------------------------------------------------------------------------


def with_column(table, values):
    changed = table.copy()
    changed[:, 1] = values
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:0], "0 sample"),
        (lambda x: x[:1], "1 sample"),
        (lambda x: with_column(x, np.nan), "No value at all in column 1"),
        (
            lambda x: with_column(x, np.where(np.arange(len(x)) == 5, np.inf, x[:, 1])),
            r"column 1 \(1, first in row 5 \(the first is 0\)\)",
        ),
        (lambda x: with_column(x, np.where(np.arange(len(x)) == 5, -np.inf, x[:, 1])), "infinite"),
        (lambda x: with_column(x, -1.0), r"3,000 values are below the floor 0.*The smallest is -1\.0"),
        (lambda x: with_column(x, 0.0), "Never above its floor in 3,000 rows: column 1"),
        (lambda x: x * 1e300, "beyond 1e\\+140"),
        (lambda x: x * 1e-300, "too small to square"),
        (
            lambda x: with_column(x.astype(object), "trace"),
            r"Column number 1 .* holds text \(row 0 .*: 'trace'\), not numbers. Leave it out: np.delete\(",
        ),
        (lambda x: with_column(x, np.where(np.arange(len(x)) == 0, 1.0, np.nan)), "Only 1 sample"),
    ],
    ids=["empty", "one row", "all NaN", "inf", "-inf", "negative", "never", "1e300", "1e-300", "text", "seen once"],
)
def test_tables_that_cannot_be_learned(table, change, message):
    with pytest.raises(ValueError, match=message):
        RectifiedGaussianLearner().fit(change(table))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda x: with_column(x, np.where(np.arange(len(x)) == 5, 2.0, 0.0)), "few-positives"),
        (lambda x: with_column(x, 2.5), "constant-column"),
        (lambda x: with_column(x, 3.0 * x[:, 0]), "perfect-correlation"),
        (lambda x: x[:3] + 1.0, "more-columns-than-rows"),
    ],
    ids=["one positive", "constant", "duplicated", "more columns than rows"],
)
def test_doubtful_tables_are_learned_with_a_named_warning(table, change, kind):
    with warns(kind):
        learner = RectifiedGaussianLearner().fit(change(table))
    assert np.isfinite(learner.mean_).all()
    assert np.linalg.eigvalsh(learner.correlation_)[0] > -1e-8


def test_a_bad_column_does_not_disturb_the_others(table):
    """A constant column, or one with a single positive, leaves the other pairs as they were."""
    expected = RectifiedGaussianLearner().fit(table[:, [0, 2, 3]])
    with warns("constant-column"):
        learner = RectifiedGaussianLearner().fit(with_column(table, 2.5))
    others = np.ix_([0, 2, 3], [0, 2, 3])
    np.testing.assert_allclose(learner.covariance_[others], expected.covariance_, rtol=1e-10)


def test_anticorrelated_columns():
    y = np.random.default_rng(0).standard_normal(500)
    with warns("perfect-correlation", match=r"\(-1\)"):
        learner = RectifiedGaussianLearner().fit(np.maximum(np.c_[y + 1.0, 1.0 - 2.0 * y], 0.0))
    assert learner.correlation_[0, 1] == pytest.approx(-1.0)
    never_together = RectifiedGaussianLearner().fit(np.maximum(np.c_[y, -y], 0.0))
    assert never_together.correlation_[0, 1] < -0.99
    assert never_together.report_.pairs_never_above_together == 1


def test_one_column(table):
    learner = RectifiedGaussianLearner().fit(table[:, :1])
    assert learner.covariance_.shape == (1, 1)


def test_tiny_values_beside_ordinary_ones(table):
    changed = table.copy()
    changed[0, 0] = 1e-300
    learner = RectifiedGaussianLearner().fit(changed)
    assert learner.mean_[0] == pytest.approx(RectifiedGaussianLearner().fit(table).mean_[0], abs=0.01)


def test_zero_weights_everywhere(table):
    with pytest.raises(ValueError, match="non-zero"):
        RectifiedGaussianLearner().fit(table, sample_weight=np.zeros(len(table)))


# --- noise after the floor ------------------------------------------------------------------------


def test_noise_after_the_floor_is_handled_by_the_tolerance(truth):
    """Readings of a floored signal that jitter by .02: without tolerance half of the zeros would be errors."""
    rng = np.random.default_rng(0)
    clean = truth.sample(5000, random_state=1)
    noisy = clean + rng.uniform(-0.02, 0.02, clean.shape)
    with pytest.raises(InvalidDataError, match="below the floor"):
        RectifiedGaussianLearner().fit(noisy)
    learner = RectifiedGaussianLearner(floor_tolerance=0.02).fit(noisy)
    np.testing.assert_array_equal(learner.distribution_.floor, 0.0)
    z = (learner.mean_ - truth.mean) / learner.mean_stderr_
    assert np.all(np.abs(z) < 4)
    # Taking the jitter for signal instead spoils the mean by far more than its error.
    naive = RectifiedGaussianLearner().fit(np.maximum(noisy, 0.0))
    assert np.abs((naive.mean_ - truth.mean) / naive.mean_stderr_).max() > 6


def test_tolerance_of_zero_changes_nothing_and_a_negative_one_is_refused(table):
    same_model(RectifiedGaussianLearner(floor_tolerance=0.0).fit(table), RectifiedGaussianLearner().fit(table))
    for tolerance in (-0.1, np.inf, "small"):
        with pytest.raises(InvalidParameterError, match="floor_tolerance"):
            RectifiedGaussianLearner(floor_tolerance=tolerance).fit(table)


def test_tolerance_in_streams_and_bounds(table):
    whole = RectifiedGaussianLearner(floor_tolerance=0.1, nonnegative_mean=True).fit(table)
    parts = RectifiedGaussianLearner(floor_tolerance=0.1, nonnegative_mean=True)
    for rows in np.split(table, 3):
        parts.partial_fit(rows)
    same_model(parts, whole)
    assert whole.mean_.min() >= -1e-9
