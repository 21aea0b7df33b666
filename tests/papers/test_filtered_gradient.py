"""Bulusu et al. 2022's gradient method as written and as read: steps, batches, their order, one value a step."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.warned import refuse, warns
from unrelu import RectifiedGaussian, RectifiedGaussianLearner
from unrelu.contracts import Assumptions, Block, Evidence, RowParameters
from unrelu.errors import InvalidDataError, InvalidParameterError, NotSemidefiniteError, about
from unrelu.methods import FilteredGradient, TruncatedSGD
from unrelu.papers.batches import count_exceedances, sum_columns
from unrelu.papers.learners import exceedance_angles
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples

TRUTH = RectifiedGaussian([0.4, 1.0], [[1.0, 0.3], [0.3, 0.8]])
ASSUMPTIONS = Assumptions((0.0, 0.0), nonnegative_mean=True)
X = TRUTH.sample(6000, random_state=0)


def learned(method, x=X, seed=0):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", about("row-order"))
        return method.learn(Evidence(ArraySamples(x, block_rows=1500), LocalEngine()), ASSUMPTIONS, seed)


def marginals(method, x=X, seed=0):
    rows = learned(method, x, seed).rows
    return np.stack([rows.mean, rows.std])


def descended(gradients, steps, radius=3.0):
    """Algorithm 2 with scipy's truncated moments, one gradient a step or the same for all."""
    v = np.array([1.0 / radius, 0.0])
    for t in range(1, steps + 1):
        mu, sigma = v[1] / v[0], v[0] ** -0.5
        distribution = stats.truncnorm(-mu / sigma, np.inf, mu, sigma)
        half_square, minus_mean = gradients[min(t, len(gradients)) - 1]
        gradient = np.array(
            [half_square - 0.5 * (distribution.var() + distribution.mean() ** 2), minus_mean + distribution.mean()]
        )
        v = v - gradient / (0.1 * t)
        v = np.array([np.clip(v[0], 1.0 / radius, radius), np.clip(v[1], -radius, radius)])
    return np.array([max(v[1] / v[0], 0.0), v[0] ** -0.5])


def batch_vectors(values, number):
    """(7), for batches in the order of the rows."""
    cuts = np.ceil(np.arange(1, number) * len(values) / number).astype(int)
    return np.array([[np.mean(part**2) / 2, -np.mean(part)] for part in np.split(values, cuts)])


@pytest.mark.parametrize("filter", [None, "median", "trimmed_mean"])
def test_gradient_descent_against_algorithm_2_by_hand(filter):
    """Consecutive batches of 50 values, T = positives / 100: the defaults of the paper where it gives them."""
    found = marginals(FilteredGradient(filter, trim=0.2, order="consecutive", batch_size=50))
    by_name = {None: np.mean, "median": np.median, "trimmed_mean": lambda x, axis: stats.trim_mean(x, 0.2, axis)}
    for j in range(2):
        values = X[:, j][X[:, j] > 0.0]
        vectors = batch_vectors(values, len(values) // 50)
        expected = descended(by_name[filter](vectors, axis=0)[None], len(values) // 100)
        np.testing.assert_allclose(found[:, j], expected, rtol=1e-8)


def test_default_steps_and_batches():
    """T = positives/100 and batches of ten; of one value where steps are stochastic."""
    above = np.count_nonzero(X > 0.0, axis=0)
    for j in range(2):
        column = X[:, [j, j]]
        for plain, explicit in (
            (FilteredGradient(), FilteredGradient(steps=int(above[j]) // 100, batches=int(above[j]) // 10)),
            (FilteredGradient(), FilteredGradient(batch_size=10)),
            (FilteredGradient(None, True), FilteredGradient(None, True, batch_size=1, drawn=1)),
            (FilteredGradient(stochastic=True), FilteredGradient(stochastic=True, batches=int(above[j]), drawn=10)),
        ):
            np.testing.assert_array_equal(marginals(plain, column), marginals(explicit, column))
        more = FilteredGradient(steps=int(above[j]) // 100 + 1)
        assert not np.array_equal(marginals(FilteredGradient(), column), marginals(more, column))
    few = X[:70]  # less than a hundred values: one step
    np.testing.assert_array_equal(marginals(FilteredGradient(), few), marginals(FilteredGradient(steps=1), few))


@pytest.mark.parametrize(("filter", "drawn"), [(None, 1), ("median", 10)])
def test_one_value_a_step_against_algorithm_2_by_hand(filter, drawn):
    """Steps take values drawn at random, which order="consecutive" numbers by their place in the column."""
    method = FilteredGradient(filter, stochastic=True, order="consecutive")
    found = marginals(method, seed=5)
    for j in range(2):
        values = X[:, j][X[:, j] > 0.0]
        steps = len(values) // 100
        taken = values[np.random.default_rng([5, j]).integers(0, len(values), (steps, drawn))]
        gradients = np.median(np.stack([taken**2 / 2, -taken], axis=2), axis=1)
        np.testing.assert_allclose(found[:, j], descended(gradients, steps), rtol=1e-8)


def test_steps_of_one_value_approach_the_descent_on_all():
    """The more steps the nearer; another seed draws other values."""
    exact = marginals(FilteredGradient(None, steps=20_000))
    errors = {}
    for steps in (None, 20_000):
        method = FilteredGradient(None, stochastic=True, steps=steps)
        errors[steps] = np.mean([np.abs(marginals(method, seed=s) - exact) for s in range(8)], axis=0)
    assert (errors[20_000] < 0.5 * errors[None]).all()
    assert errors[20_000].max() < 0.12
    assert errors[None].max() > 0.2  # positives/100 steps of one value are few


def test_blocks_do_not_change_what_is_drawn():
    method = FilteredGradient(None, stochastic=True)
    whole = method.learn(Evidence(ArraySamples(X, block_rows=6000), LocalEngine()), ASSUMPTIONS, 3)
    np.testing.assert_allclose(learned(method, seed=3).rows.mean, whole.rows.mean, rtol=1e-10)


def test_filters_at_every_step():
    """Consecutive batches are the same at every step; scattered ones are not, and their filtered means are averaged."""
    for filter in ("median", "trimmed_mean", None):
        once, every = (
            marginals(FilteredGradient(filter, order="consecutive", every_step=e), X[:3000]) for e in (False, True)
        )
        np.testing.assert_array_equal(once, every)
    scattered = [marginals(FilteredGradient(every_step=e), X[:3000]) for e in (False, True)]
    assert not np.array_equal(*scattered)
    np.testing.assert_allclose(*scattered, atol=0.1)
    np.testing.assert_allclose(
        marginals(FilteredGradient(None, every_step=True), X[:3000]),
        marginals(FilteredGradient(None), X[:3000]),
        atol=0.02,
    )


# --- the order of the rows ----------------------------------------------------------------------


def with_outliers(rows, share=0.15, block=True):
    x = TRUTH.sample(rows, random_state=1)
    count = int(share * rows)
    where = np.arange(rows - count, rows) if block else np.random.default_rng(2).permutation(rows)[:count]
    x[where] = np.random.default_rng(3).normal(5.0, 1.0, (count, 2))
    return x


def test_consecutive_batches_resist_outliers_that_sit_together():
    """They give nearly what the inlier rows alone give; scattered ones, or outliers anywhere, do not."""
    block, anywhere = with_outliers(20_000), with_outliers(20_000, block=False)
    scattered, consecutive = (FilteredGradient(order=order, batch_size=100) for order in ("scattered", "consecutive"))
    inlier = marginals(consecutive, block[:17_000])
    assert np.abs(marginals(consecutive, block) - inlier).max() < 0.1
    for method, x in ((scattered, block), (scattered, anywhere), (consecutive, anywhere)):
        assert np.abs(marginals(method, x) - inlier).max() > 0.5


def fit_consecutively(x, **options):
    method = FilteredGradient(order="consecutive", allow_partial=True, **options)
    return method.learn(Evidence(ArraySamples(x), LocalEngine()), ASSUMPTIONS, 0)


def test_an_order_without_information_is_warned_of():
    for x in (X, with_outliers(6000, block=False)):
        with warns("row-order", match="the order of these rows gives no sign of that.*use order='scattered'"):
            fit_consecutively(x)


def test_sorted_rows_are_warned_of():
    x = X[np.argsort(X[:, 1])]
    with warns("row-order", match=r"do not agree in column 1: the rows are sorted or drift"):
        fit_consecutively(x, batch_size=50)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [10, 100])
def test_a_block_of_outliers_is_no_reason_to_warn(size, seed):
    x = RectifiedGaussian([0.0, 1.5], np.eye(2)).sample(8000, random_state=seed)
    x[2000:3000] = np.random.default_rng(seed).normal(5.0, 1.0, (1000, 2))
    with warnings.catch_warnings():
        refuse("row-order")
        fit_consecutively(x, batch_size=size)


def test_scattered_batches_never_warn():
    with warnings.catch_warnings():
        refuse("row-order")
        FilteredGradient().learn(Evidence(ArraySamples(X[np.argsort(X[:, 1])]), LocalEngine()), ASSUMPTIONS, 0)


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": "consecutve"}, "Unknown order 'consecutve'. Did you mean 'consecutive'"),
        ({"order": "random"}, "There are: scattered, consecutive"),
        ({"batches": 5, "batch_size": 5}, "both say how large a batch is"),
        ({"batches": 0}, "batches must be a whole number"),
        ({"batches": 2.5}, "batches must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"drawn": 3}, "has no effect without stochastic=True"),
        ({"stochastic": True, "drawn": 0}, "drawn must be a whole number"),
        ({"stochastic": True, "drawn": 1}, "leaves a filter nothing to choose from"),
        ({"stochastic": True, "every_step": True}, "every_step=True has no effect with stochastic=True"),
        ({"steps": 0}, "steps must be a whole number"),
    ],
)
def test_options_that_make_no_sense(options, words):
    with pytest.raises(InvalidParameterError, match=words):
        RectifiedGaussianLearner(method=FilteredGradient(**options)).fit(X)


def test_a_batch_larger_than_a_column():
    x = X[:300].copy()
    x[60:, 1] = 0.0
    with pytest.raises(InvalidDataError, match=r"than one batch of batch_size=100 in column 1 \(\d+\)"):
        RectifiedGaussianLearner(method=FilteredGradient(batch_size=100, allow_partial=True)).fit(x)


# --- Algorithm 1 to the letter ------------------------------------------------------------------


def counted_angles(x, bias, scale):
    """(2) and (14) by hand."""
    above = (x > bias).astype(float)
    theta = math.pi - 2.0 * math.pi * (above.T @ above) / len(x)
    matrix = np.outer(scale, scale) * np.cos(theta)
    np.fill_diagonal(matrix, scale**2)
    return matrix


@pytest.mark.parametrize("method", [FilteredGradient(None, steps=3000), TruncatedSGD()])
def test_the_matrix_of_algorithm_1_as_it_is(method):
    literal, default = learned(replace(method, project=False)), learned(method)
    expected = counted_angles(X, literal.rows.mean, literal.rows.std)
    np.testing.assert_allclose(literal.distribution.covariance, expected, rtol=1e-9)
    np.testing.assert_allclose(default.distribution.covariance, expected, rtol=1e-6)  # a covariance already


def test_a_matrix_that_is_no_covariance_is_refused_and_kept():
    """Biases far too high for five columns: cosines near -.6 everywhere."""
    truth = RectifiedGaussian(np.full(5, 0.5), np.eye(5))
    x = truth.sample(3000, random_state=0)
    method = FilteredGradient(None, radius=1.3, steps=1, project=False)
    evidence = Evidence(ArraySamples(x), LocalEngine())
    assumptions = Assumptions((0.0,) * 5, nonnegative_mean=True)
    with pytest.raises(NotSemidefiniteError, match=r"an eigenvalue of -\d") as caught:
        method.learn(evidence, assumptions, 0)
    found = caught.value
    np.testing.assert_allclose(
        found.covariance, counted_angles(x, found.mean, np.sqrt(np.diagonal(found.covariance))), rtol=1e-9
    )
    projected = FilteredGradient(None, radius=1.3, steps=1).learn(evidence, assumptions, 0).distribution
    assert np.linalg.eigvalsh(projected.covariance)[0] > -1e-9
    assert np.abs(projected.covariance - found.covariance).max() > 0.1
    with pytest.raises(InvalidParameterError, match="n_components means a matrix of lower rank"):
        method.learn(evidence, Assumptions((0.0,) * 5, n_components=2), 0)


def test_angles_are_clipped_by_default_alone():
    """A pair above both biases in more than half of the rows: an angle of 0 by default, below 0 in the papers."""
    x = np.full((1000, 2), 2.0)
    x[:400, 0] = 0.0
    rows = RowParameters(np.ones(2), np.ones(2), np.zeros(2), np.full((2, 2, 2), np.nan), np.zeros((2, 2, 3)))
    column_sums, counts = sum_columns(np.zeros(2), (0.0, 0.0), Block(x)), count_exceedances(np.ones(2), Block(x)).values
    default, literal = (
        exceedance_angles(column_sums, counts, rows, None, project=p).correlation[0, 1] for p in (True, False)
    )
    assert default == 1.0
    assert literal == pytest.approx(math.cos(-0.2 * math.pi))
