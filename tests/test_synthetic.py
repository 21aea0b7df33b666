"""Random models have the spectrum and mean asked for; contamination replaces what it says it does."""

from __future__ import annotations

import doctest
import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import unrelu.synthetic
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.model import RectifiedGaussian
from unrelu.synthetic import contaminate, random_model


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(unrelu.synthetic).failed == 0


# --- random models --------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "k"), [(6, None), (6, 6), (6, 3), (5, 2)])
def test_the_spectrum_falls_geometrically_from_one(d: int, k: int | None) -> None:
    model = random_model(d, k, condition_number=100.0, random_state=0)
    values = np.linalg.svd(model.covariance, compute_uv=False)
    rank = k or d
    assert_allclose(values[:rank], [100.0 ** (-i / (rank - 1)) for i in range(rank)], rtol=1e-10)
    assert_allclose(values[rank:], 0.0, atol=1e-14)
    assert_array_equal(model.floor, np.zeros(d))


def test_condition_number_one_is_an_orthonormal_w() -> None:
    assert_allclose(random_model(5, random_state=0).covariance, np.eye(5), atol=1e-14)
    projection = random_model(5, 2, random_state=0).covariance
    assert_allclose(projection @ projection, projection, atol=1e-14)
    assert np.trace(projection) == pytest.approx(2.0)
    assert random_model(1, random_state=0).covariance == pytest.approx(1.0)


def test_the_column_space_has_no_preferred_direction() -> None:
    """Of a uniformly random unit vector u in d dimensions u_i^2 has mean 1/d and u_i u_j mean 0."""
    n, d = 3000, 4
    rng = np.random.default_rng(1)
    covariances = np.array([random_model(d, 1, random_state=rng).covariance for _ in range(n)])
    deviation = np.abs(covariances.mean(axis=0) - np.eye(d) / d)
    assert (deviation < 4.5 * covariances.std(axis=0) / math.sqrt(n)).all()


def test_the_mean_is_standard_normal_or_its_positive_part() -> None:
    signed = random_model(2000, 1, mean="signed", random_state=2).mean
    assert stats.kstest(signed, "norm").pvalue > 0.01
    positive = random_model(2000, 1, random_state=2).mean
    assert_array_equal(positive, np.where(signed > 0, signed, 0.0))


def test_random_models_follow_their_seed() -> None:
    assert random_model(3, random_state=5) == random_model(3, random_state=np.random.default_rng(5))
    assert random_model(3, random_state=5) != random_model(3, random_state=6)
    assert random_model(3, mean="signed") != random_model(3, mean="signed")
    rng = np.random.RandomState(0)
    assert random_model(3, random_state=rng) != random_model(3, random_state=rng)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d": 0}, "d must be an integer of 1 or more, got 0"),
        ({"d": 2.0}, r"d must be an integer of 1 or more, got 2\.0"),
        ({"d": 3, "k": 0}, "k must be an integer of 1 or more, got 0"),
        ({"d": 3, "k": 4}, r"k must be at most d = 3.*got 4"),
        ({"d": 3, "condition_number": 0.5}, "condition_number must be 1 or more"),
        ({"d": 3, "condition_number": math.inf}, "condition_number must be 1 or more and finite"),
        ({"d": 3, "condition_number": math.nan}, "condition_number must be 1 or more"),
        ({"d": 3, "k": 1, "condition_number": 2.0}, "one column has condition_number 1"),
        ({"d": 3, "mean": "negative"}, 'mean must be "nonnegative" or "signed", got \'negative\''),
        ({"d": 3, "random_state": "x"}, "random_state must be"),
    ],
)
def test_random_model_names_bad_parameters(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        random_model(**arguments)


# --- contamination --------------------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((200, 3)).clip(min=0.0)


def _constant_rows(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.full((n, 3), -7.0)


@pytest.mark.parametrize(("fraction", "count"), [(0.0, 0), (0.05, 10), (0.57, 114), (0.002, 0), (0.999, 200)])
def test_exactly_the_given_fraction_is_replaced(fraction: float, count: int) -> None:
    before = X.copy()
    table, is_outlier = contaminate(X, fraction, _constant_rows, random_state=0, fixed=True)
    assert is_outlier.dtype == np.bool_
    assert is_outlier.shape == (200,)
    assert is_outlier.sum() == count
    assert_array_equal(table[is_outlier], np.full((count, 3), -7.0))  # not raised to the floor
    assert_array_equal(table[~is_outlier], before[~is_outlier])
    assert_array_equal(X, before)
    assert not np.shares_memory(table, X)


@pytest.mark.parametrize("fixed", [True, False])
def test_every_row_is_as_likely_to_be_replaced(fixed: bool) -> None:
    rng = np.random.default_rng(3)
    hits = sum(contaminate(X, 0.1, _constant_rows, rng, fixed)[1] for _ in range(2000))
    # hits of a row are binomial(2000, 0.1); 200 rows, so five standard errors
    assert np.abs(hits - 200).max() < 5 * math.sqrt(2000 * 0.1 * 0.9)


def test_the_number_of_outliers_is_binomial() -> None:
    """Definition 2.1 of Bulusu et al. 2022: every row by itself. A fixed share has no variance."""
    rng = np.random.default_rng(5)
    masks = np.array([contaminate(X, 0.1, _constant_rows, rng)[1] for _ in range(2000)])
    counts = masks.sum(axis=1)
    variance = 200 * 0.1 * 0.9
    assert abs(counts.mean() - 20.0) < 4 * math.sqrt(variance / 2000)
    # the variance of a sample variance of nearly normal counts is 2 / (n - 1), relative
    assert abs(counts.var(ddof=1) / variance - 1.0) < 4 * math.sqrt(2 / 1999)
    neighbours = np.mean(masks[:, :-1] & masks[:, 1:])
    assert abs(neighbours - 0.01) < 4 * math.sqrt(0.01 / masks[:, 1:].size) * 1.1


def test_outliers_from_rows_are_used_evenly() -> None:
    pool = np.arange(12.0).reshape(4, 3) + 100
    table, is_outlier = contaminate(X, 0.05, pool, random_state=1, fixed=True)
    rows, counts = np.unique(table[is_outlier], axis=0, return_counts=True)
    assert_array_equal(rows, pool)
    assert sorted(counts) == [2, 2, 3, 3]
    few, is_outlier = contaminate(X, 0.01, pool.tolist(), random_state=1, fixed=True)
    assert len(np.unique(few[is_outlier], axis=0)) == 2
    firsts = {float(contaminate(X, 0.005, pool, seed, fixed=True)[0].max()) for seed in range(40)}
    assert len(firsts) == 4  # in random order, not always from the first
    one, is_outlier = contaminate(X, 0.05, pool[0], random_state=1, fixed=True)
    assert_array_equal(one[is_outlier], np.tile(pool[0], (10, 1)))


def test_outliers_from_a_model() -> None:
    far = RectifiedGaussian([50.0, 60.0, 70.0], np.eye(3))
    table, is_outlier = contaminate(X, 0.5, far, random_state=2, fixed=True)
    assert_allclose(table[is_outlier].mean(axis=0), [50.0, 60.0, 70.0], atol=4.5 / math.sqrt(100))
    assert len(np.unique(table[is_outlier][:, 0])) == 100


def test_outliers_from_scipy() -> None:
    table, is_outlier = contaminate(X, 0.9, stats.norm(5, 1), random_state=4)
    assert stats.kstest(table[is_outlier].ravel(), stats.norm(5, 1).cdf).pvalue > 0.01


def test_outliers_from_a_function_draw_from_the_seed() -> None:
    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.exponential(size=(n, 3))

    for outliers in (draw, stats.norm(5, 1), RectifiedGaussian(np.ones(3), np.eye(3)), X[:9] + 10):
        first, mask = contaminate(X, 0.1, outliers, random_state=8)
        again, same_mask = contaminate(X, 0.1, outliers, random_state=np.random.default_rng(8))
        other, other_mask = contaminate(X, 0.1, outliers, random_state=9)
        assert_array_equal(first, again)
        assert_array_equal(mask, same_mask)
        assert not np.array_equal(mask, other_mask)
        assert not np.array_equal(first, other)


@pytest.mark.parametrize(("given", "kept"), [(np.float32, np.float32), (np.int64, np.float64), (object, np.float64)])
def test_tables_of_other_types(given: Any, kept: Any) -> None:
    table, is_outlier = contaminate(np.round(X).astype(given), 0.1, stats.norm(5, 1), random_state=0)
    assert table.dtype == kept
    assert (table[is_outlier] % 1 != 0).all()
    assert_array_equal(table[~is_outlier], np.round(X)[~is_outlier])


def test_missing_cells_stay_missing() -> None:
    holes = X.copy()
    holes[0] = np.nan
    table, is_outlier = contaminate(holes, 0.0, _constant_rows)
    assert np.isnan(table[0]).all()
    assert not is_outlier.any()


@pytest.mark.parametrize(
    ("outliers", "message"),
    [
        (np.ones((5, 2)), r"array of outliers gives rows of shape \(20, 2\); needed is \(20, 3\)"),
        (7.0, r"array of outliers gives rows of shape \(20, 1\)"),
        (np.ones((0, 3)), "array of outliers holds no rows"),
        ([["a", "b", "c"]], "array of outliers gives .* values; needed are real numbers"),
        (lambda n, rng: np.ones(3), r"outlier function gives rows of shape \(3,\)"),
        (lambda n, rng: np.ones((n, 3)) * 1j, "outlier function gives complex128 values"),
        (RectifiedGaussian([0.0], [[1.0]]), r"outlier model gives rows of shape \(20, 1\)"),
        (stats.multivariate_normal(np.zeros(3)), r"outlier distribution gives rows of shape \(20, 3, 3\)"),
    ],
)
def test_outliers_must_fit_the_table(outliers: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        contaminate(X, 0.1, outliers, random_state=0, fixed=True)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2, math.nan])
def test_fraction_is_below_one(fraction: float) -> None:
    with pytest.raises(InvalidParameterError, match="fraction must be at least 0 and below 1"):
        contaminate(X, fraction, _constant_rows)


@pytest.mark.parametrize("table", [np.ones(3), np.ones((2, 2, 2)), [["a"]], [[1j]]])
def test_contaminate_needs_a_table_of_numbers(table: Any) -> None:
    with pytest.raises(InvalidDataError, match="X must be a table"):
        contaminate(table, 0.1, _constant_rows)
