"""The jackknife against refits to rows sliced by hand, through every way to its record; intervals."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import unrelu
from tests.warned import warns
from unrelu import RectifiedGaussianLearner, synthetic
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.fit.jackknife import intervals
from unrelu.tables import open_samples

TRUTH = synthetic.random_model(3, condition_number=4.0, mean="signed", random_state=3)
N = 500


def table(missing=False):
    x = TRUTH.sample(N, random_state=4)
    if missing:
        x[np.random.default_rng(5).random(x.shape) < 0.15] = np.nan
    return x


def days(n_days=8):
    """Groups of unequal size."""
    return np.random.default_rng(6).choice(n_days, size=N, p=np.arange(1, n_days + 1) / np.arange(1, n_days + 1).sum())


def one_pass(**more):
    """One pass over normal columns, whose records a jackknife leaves groups out of."""
    return RectifiedGaussianLearner(**{"method": "one_pass", "margins": "normal", **more})


def learner(**more):
    return one_pass(stderr="jackknife", **more)


def errors(fitted):
    return fitted.mean_stderr_, fitted.std_stderr_, fitted.correlation_stderr_


def slow_error(theta, thetas, sizes):
    """Of one number: the pseudo-values of groups with these sizes, one after the other."""
    kept = [(moved, size) for moved, size in zip(thetas, sizes, strict=True) if size > 0]
    total = sum(size for _, size in kept)
    pseudo = [(total / size) * theta - (total / size - 1) * moved for moved, size in kept]
    centre = sum(value * size / total for value, (_, size) in zip(pseudo, kept, strict=True))
    terms = [(value - centre) ** 2 / (total / size - 1) for value, (_, size) in zip(pseudo, kept, strict=True)]
    return np.sqrt(sum(terms) / len(terms))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_refits_without_each_group(missing, weighted):
    x, groups = table(missing), days()
    if missing:
        x[groups == 1, 2] = np.nan  # a group that a column and its pairs know nothing of
    weights = np.random.default_rng(7).gamma(3.0, size=N) if weighted else np.ones(N)
    given = weights if weighted else None
    fitted = learner().fit(x, sample_weight=given, groups=groups)
    plain = one_pass().fit(x, sample_weight=given)
    np.testing.assert_allclose(fitted.covariance_, plain.covariance_, rtol=1e-9)
    others = []
    for group in range(8):
        rows = groups != group
        others.append(one_pass().fit(x[rows], sample_weight=given[rows] if weighted else None))
    seen = ~np.isnan(x) * weights[:, None]
    for i in range(3):
        own = [seen[groups == group, i].sum() for group in range(8)]
        mean = slow_error(plain.mean_[i], [each.mean_[i] for each in others], own)
        norm = slow_error(plain.std_[i], [each.std_[i] for each in others], own)
        np.testing.assert_allclose([fitted.mean_stderr_[i], fitted.std_stderr_[i]], [mean, norm], rtol=1e-7)
        for j in range(i):
            both = [(seen[:, i] * (seen[:, j] > 0))[groups == group].sum() for group in range(8)]
            r = slow_error(plain.correlation_[i, j], [each.correlation_[i, j] for each in others], both)
            np.testing.assert_allclose(fitted.correlation_stderr_[i, j], r, rtol=1e-6)
            assert fitted.correlation_stderr_[j, i] == fitted.correlation_stderr_[i, j]
    assert (fitted.report_.stderr, fitted.report_.stderr_degrees) == ("jackknife", 7)
    assert (plain.report_.stderr, plain.report_.stderr_degrees) == ("model", None)


@pytest.mark.parametrize("grouped", [False, True])
def test_every_way_to_the_rows_gives_the_same_errors(tmp_path, grouped):
    x, groups = table(), days()
    frame = pd.DataFrame(x, columns=["As", "Pb", "Fe"]).assign(day=[f"day {day}" for day in groups])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    named = "day" if grouped else None
    whole = learner().fit(frame if grouped else frame.drop(columns="day"), groups=named)
    assert list(whole.feature_names_in_) == ["As", "Pb", "Fe"]
    parts = learner()
    for rows in (slice(None, 150), slice(150, 160), slice(160, None)):
        parts.partial_fit(frame[rows] if grouped else frame.drop(columns="day")[rows], groups=named)
    files = learner().fit(open_samples(tmp_path / "rows.csv", drop="day", block_rows=64), groups=named)
    parts.save(tmp_path / "learner")
    loaded = unrelu.load(tmp_path / "learner")
    ways = [parts, files, loaded]
    if grouped:
        halves = [learner().fit(frame[rows], groups="day") for rows in (slice(None, 150), slice(150, None))]
        ways += [unrelu.merge(halves), learner().fit(x, groups=groups)]
    for way in ways:
        for first, second in zip(errors(whole), errors(way), strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-8)
    loaded.partial_fit(frame[:50] if grouped else frame.drop(columns="day")[:50], groups=named)
    assert loaded.report_.n_rows == N + 50


def test_merged_learners_without_labels_have_errors_of_all_rows():
    x = table()
    both = unrelu.merge([learner().fit(x[:250]), learner().fit(x[250:])])
    assert both.report_.stderr_degrees == 19
    np.testing.assert_allclose(both.mean_stderr_, one_pass().fit(x).mean_stderr_, rtol=0.6)


def test_a_ceiling_is_the_mirror_image():
    x, groups = table(), days()
    below, above = learner().fit(x, groups=groups), learner(floor=None, ceiling=0.0).fit(-x, groups=groups)
    for first, second in zip(errors(below), errors(above), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-9)
    ends, turned = below.confidence_intervals()["mean"], above.confidence_intervals()["mean"]
    np.testing.assert_allclose(ends, -turned[:, ::-1], rtol=1e-9)


def test_clusters_are_seen():
    """Rows of a day share an effect of variance 1/4 on each column: the model errors of the mean miss most of it."""
    rng = np.random.default_rng(8)
    groups = np.repeat(np.arange(40), 25)
    x = np.maximum(rng.standard_normal((1000, 3)) + 0.5 * rng.standard_normal((40, 3))[groups], 0.0)
    model, day = one_pass().fit(x), learner().fit(x, groups=groups)
    scattered = learner().fit(x)
    assert (day.mean_stderr_ > 1.6 * model.mean_stderr_).all()
    np.testing.assert_allclose(scattered.mean_stderr_, model.mean_stderr_, rtol=0.55)
    # The mean effect of 40 days of 25 rows; an estimate from 39 degrees of freedom has a relative error of 1/sqrt(78).
    np.testing.assert_allclose(day.mean_stderr_, np.sqrt((0.25 + 1.0 / 25) / 40), rtol=4.0 / np.sqrt(78.0))


def test_constant_columns_and_perfect_pairs_have_the_errors_they_had():
    x = table()
    x = np.column_stack([x, np.full(N, 2.0), 3.0 * x[:, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unrelu.errors.UnreluWarning)
        model, jackknife = one_pass().fit(x), learner().fit(x)
    assert jackknife.mean_stderr_[3] == jackknife.std_stderr_[3] == 0.0
    np.testing.assert_array_equal(np.isnan(jackknife.correlation_stderr_), np.isnan(model.correlation_stderr_))
    assert jackknife.correlation_stderr_[0, 4] == 0.0
    ends = jackknife.confidence_intervals()
    np.testing.assert_array_equal(ends["correlation"][0, 4], [1.0, 1.0])
    np.testing.assert_array_equal(ends["std"][3], [0.0, 0.0])


def test_diagnostics_are_said_once():
    x = np.column_stack([table(), np.full(N, 2.0)])
    with warns("constant-column") as said:
        learner().fit(x)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(N), "All 500 rows are in one group ('0'): a jackknife needs two"),
        (np.zeros(N - 1), "groups has 499 labels, the table 500 rows"),
        (np.where(np.arange(N) == 3, np.nan, 1.0), "The group of 1 row is missing, first in row 3"),
    ],
)
def test_bad_groups(groups, words):
    with pytest.raises((InvalidDataError, InvalidParameterError), match=re.escape(words)):
        learner().fit(table(), groups=groups)


def test_a_column_that_hangs_on_one_group():
    x, groups = table(), np.arange(N) % 10
    x[groups != 3, 1] = np.nan
    with pytest.raises(InvalidDataError, match=r"without group '3' \(50 rows\).*No value at all in column 1 \('b'\)"):
        learner().fit(pd.DataFrame(x, columns=list("abc")), groups=groups)
    x = table()
    x[groups != 3, 1] = 1.0
    with pytest.raises(InvalidDataError, match=r"without group '3' \(50 rows\).*Constant: column 1"):
        learner().fit(x, groups=groups)


def test_pairs_that_one_group_alone_sees_have_no_error():
    x, groups = table(), np.arange(N) % 10
    x[(groups != 3) & (np.arange(N) % 20 < 10), 0] = np.nan
    x[(groups != 3) & (np.arange(N) % 20 >= 10), 1] = np.nan
    fitted = learner().fit(x, groups=groups)
    assert np.isnan(fitted.correlation_stderr_[0, 1])
    assert np.isfinite(fitted.correlation_stderr_[[0, 1], 2]).all()
    assert np.isfinite(fitted.mean_stderr_).all()


def test_few_or_unequal_groups_give_a_warning():
    with warns("few-groups", match=r"The 3 groups of rows count as 3.0 of equal size"):
        learner().fit(table(), groups=np.arange(N) % 3)
    with warns("few-groups", match=r"The 10 groups of rows count as 1\.\d"):
        learner().fit(table(), groups=np.maximum(np.arange(N) - N + 10, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner().fit(table(), groups=np.arange(N) % 5)


def test_an_estimator_without_groups_refuses_them(tmp_path):
    x = table()
    with pytest.raises(InvalidParameterError, match="use it with stderr='jackknife', or leave it out"):
        one_pass().fit(x, groups=days())
    with pytest.raises(InvalidParameterError, match="Robust reads the rows more than once: use stderr='model'"):
        learner(method="robust").fit(x)
    with pytest.raises(InvalidParameterError, match=r"Unknown stderr 'jacknife'\. Did you mean 'jackknife'"):
        one_pass(stderr="jacknife").fit(x)
    model, jackknife = one_pass().fit(x), learner().fit(x)
    with pytest.raises(InvalidParameterError, match="different parameters"):
        unrelu.merge([model, jackknife])
    with pytest.raises(InvalidParameterError, match="by groups of rows with one that has none"):
        unrelu.merge([model.record_, jackknife.record_])
    with pytest.raises(InvalidParameterError, match="stderr was changed"):
        jackknife.set_params(stderr="model").partial_fit(x)
    np.testing.assert_allclose(jackknife.mean_, model.mean_, rtol=1e-9)
    streamed = one_pass().partial_fit(x).set_params(stderr="jackknife")
    with pytest.raises(InvalidParameterError, match="stderr was changed"):
        _ = streamed.mean_


@pytest.mark.parametrize("degrees", [None, 19])
def test_intervals(degrees):
    value, error = np.array([0.4, 0.0, -0.9]), np.array([0.1, 0.2, 0.05])
    distribution = stats.norm if degrees is None else stats.t(degrees)
    reach = distribution.ppf(0.95)
    ends = intervals((value, error), (value + 1.0, error), (value, error), 0.9, degrees)
    np.testing.assert_allclose(ends["mean"], np.column_stack([value - reach * error, value + reach * error]))
    for sign, k in ((-1.0, 0), (1.0, 1)):
        stds = (value + 1.0) * np.exp(sign * reach * error / (value + 1.0))
        np.testing.assert_allclose(ends["std"][:, k], stds)
        z = np.arctanh(value) + sign * reach * error / (1.0 - value**2)
        np.testing.assert_allclose(ends["correlation"][:, k], np.tanh(z))
    with pytest.raises(InvalidParameterError, match="level must be between 0 and 1, got 95"):
        intervals((value, error), (value, error), (value, error), 95, degrees)


@pytest.mark.slow
def test_mean_squared_z_on_skewed_columns():
    """Root-gamma columns, which are no normal ones: z against the fit to many rows, for 19 degrees of freedom."""

    def rows(n, seed):
        rng = np.random.default_rng(seed)
        shared = rng.gamma(1.0, size=(n, 1))
        return np.maximum(np.sqrt(shared + rng.gamma(1.0, size=(n, 3))) - 1.0, 0.0)

    truth = one_pass().fit(rows(1_000_000, 0))
    z = []
    for seed in range(1, 101):
        fitted = learner().fit(rows(1000, seed))
        z.append((fitted.mean_ - truth.mean_) / fitted.mean_stderr_)
    assert np.mean(np.square(z)) == pytest.approx(19 / 17, abs=4 * np.sqrt(3.0 / 100))
