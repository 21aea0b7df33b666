"""The model as a value, its samples against closed forms. Its file is in test_storage.py."""

from __future__ import annotations

import copy
import dataclasses
import doctest
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

import unrelu.model
from unrelu.errors import InvalidParameterError
from unrelu.model import RectifiedGaussian
from unrelu.validation import generator

BIAS = np.array([0.5, -1.0, 2.0])
COVARIANCE = np.array([[4.0, 1.0, -0.3], [1.0, 1.0, 0.2], [-0.3, 0.2, 0.25]])
NAMES = ("As", "Pb", "Zn")


@pytest.fixture
def model() -> RectifiedGaussian:
    return RectifiedGaussian(BIAS, COVARIANCE, floor=[0.0, -0.5, 1.5], feature_names=NAMES)


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(unrelu.model).failed == 0


# --- a frozen value -------------------------------------------------------------------------------


def test_attributes(model: RectifiedGaussian) -> None:
    assert model.n_features == 3
    assert model.feature_names == NAMES
    assert_array_equal(model.mean, BIAS)
    assert_array_equal(model.covariance, COVARIANCE)
    assert_array_equal(model.floor, [0.0, -0.5, 1.5])
    assert_array_equal(model.std, [2.0, 1.0, 0.5])
    assert_allclose(model.correlation, [[1.0, 0.5, -0.3], [0.5, 1.0, 0.4], [-0.3, 0.4, 1.0]], rtol=1e-15)
    assert model.mean.dtype == model.covariance.dtype == model.floor.dtype == np.float64


def test_a_scalar_floor_is_one_per_column() -> None:
    floor = RectifiedGaussian(BIAS, COVARIANCE, floor=-2).floor
    assert floor.dtype == np.float64
    assert_array_equal(floor, [-2.0, -2.0, -2.0])
    assert_array_equal(RectifiedGaussian(BIAS, COVARIANCE).floor, np.zeros(3))


def test_arrays_are_read_only_copies() -> None:
    b, s, a = BIAS.copy(), COVARIANCE.copy(), np.zeros(3)
    model = RectifiedGaussian(b, s, a)
    b[0] = s[0, 0] = a[0] = 99.0
    assert model == RectifiedGaussian(BIAS, COVARIANCE)
    for array in (model.mean, model.covariance, model.floor, model.correlation):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.mean = b  # type: ignore[misc]


def test_equality_is_by_value(model: RectifiedGaussian) -> None:
    same = RectifiedGaussian(BIAS.tolist(), COVARIANCE.tolist(), [0.0, -0.5, 1.5], list(NAMES))
    assert model == same
    assert hash(model) == hash(same)
    assert model != "model"
    for change in (
        {"mean": BIAS + 1e-12},
        {"covariance": COVARIANCE * (1 + 1e-12)},
        {"floor": 0.0},
        {"feature_names": None},
        {"feature_names": ("As", "Pb", "Cd")},
    ):
        assert dataclasses.replace(model, **change) != model


def test_minus_zero_equals_zero_and_hashes_alike() -> None:
    plus, minus = RectifiedGaussian([0.0], [[1.0]]), RectifiedGaussian([-0.0], [[1.0]], floor=-0.0)
    assert plus == minus
    assert hash(plus) == hash(minus)


@pytest.mark.parametrize("clone", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy])
def test_clones_are_equal_and_still_read_only(model: RectifiedGaussian, clone: Any) -> None:
    model.sample(1, 0)  # fills what is cached
    twin = clone(model)
    assert twin == model
    assert not twin.mean.flags.writeable
    assert not twin.covariance.flags.writeable
    assert_array_equal(twin.sample(3, 1), model.sample(3, 1))


def test_repr_is_one_short_line(model: RectifiedGaussian) -> None:
    text = repr(model)
    assert "n_features=3" in text
    assert "floor=[ 0. , -0.5,  1.5]" in text
    assert "'Pb'" in text
    many = repr(RectifiedGaussian(np.zeros(2000), np.eye(2000), feature_names=[f"f{i}" for i in range(2000)]))
    assert "\n" not in many
    assert len(many) < 250
    assert "2000 in all" in many


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, [[1.0]]), r"mean must be a vector .* shape \(\)"),
        (([], np.zeros((0, 0))), r"mean must be a vector .* shape \(0,\)"),
        ((["a"], [[1.0]]), "mean must be an array of real numbers"),
        (([1j], [[1.0]]), "mean must be an array of real numbers: it holds complex"),
        (([0.0, np.nan], np.eye(2)), r"mean must be finite, but holds nan at index \[1\]"),
        (([0.0], [[np.inf]]), r"covariance must be finite, but holds inf at index \[0, 0\]"),
        (([0.0], [[1.0]], np.inf), r"floor must be finite"),
        (([0.0], [[1.0]], np.nan), r"floor must be finite"),
        (([0.0], [[1.0]], 0.0, None, -np.inf), r"ceiling must be finite"),
        (([0.0], [[1.0]], 1.0, None, 0.5), r"ceiling must be above the floor, but is not at index 0"),
        (([0.0, 0.0], [[1.0]]), r"covariance must be 2 x 2 to fit the mean, got shape \(1, 1\)"),
        (([0.0, 0.0], [1.0, 1.0]), r"covariance must be 2 x 2 .* shape \(2,\)"),
        (([0.0, 0.0], np.eye(2), [0.0]), r"floor must be one number or one per column \(2\), got shape \(1,\)"),
        (([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]]), r"symmetric, but entry \(0, 1\) is 0.5 and \(1, 0\) is 0.4"),
        (([0.0, 0.0], [[1.0, 0.0], [0.0, -2.0]]), "negative variance, -2, at index 1"),
        (([0.0], [[-2.0]]), "negative variance, -2, at index 0"),
        (([0.0, 0.0], [[1.0, 0.1], [0.1, 0.0]]), "gives index 1 no variance, but a covariance with 0"),
        (([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
        (([0.0], [[1.0]], 0.0, ["a", "b"]), "feature_names has 2 names for 1 features"),
        (([0.0, 0.0], np.eye(2), 0.0, ["a", "a"]), "distinct, but 'a' occurs more than once"),
        (([0.0, 0.0], np.eye(2), 0.0, ["a", 1]), "feature_names must be a list of strings"),
        (([0.0, 0.0], np.eye(2), 0.0, "ab"), "feature_names must be a list of strings, got 'ab'"),
        (([0.0, 0.0], np.eye(2), 0.0, 5), "feature_names must be a list of strings, got 5"),
    ],
)
def test_bad_parameters_are_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        RectifiedGaussian(*arguments)


def _equicorrelated(d: int, smallest: float) -> np.ndarray:
    """Unit diagonal, eigenvalues ``smallest`` (d - 1 times) and d - (d - 1) smallest."""
    return np.full((d, d), 1.0 - smallest) + smallest * np.eye(d)


@pytest.mark.parametrize("units", [np.ones(3), np.array([1e-9, 1.0, 1e9])])
def test_semidefinite_up_to_rounding_whatever_the_units(units: np.ndarray) -> None:
    scale = np.outer(units, units)
    RectifiedGaussian(np.zeros(3), _equicorrelated(3, -5e-9) * scale)
    RectifiedGaussian(np.zeros(3), _equicorrelated(3, 0.0) * scale)
    with pytest.raises(InvalidParameterError, match=r"smallest eigenvalue, .*, is -1e-06"):
        RectifiedGaussian(np.zeros(3), _equicorrelated(3, -1e-6) * scale)


def test_asymmetry_is_measured_by_the_scale_of_the_pair() -> None:
    def nearly_symmetric(variance: float) -> np.ndarray:
        return np.array([[variance, 1e-13], [1.5e-13, variance]])

    RectifiedGaussian([0.0, 0.0], nearly_symmetric(1.0))
    with pytest.raises(InvalidParameterError, match="symmetric"):
        RectifiedGaussian([0.0, 0.0], nearly_symmetric(1e-12))
    s = RectifiedGaussian([0.0, 0.0], nearly_symmetric(1.0)).covariance
    assert s[0, 1] == s[1, 0] == pytest.approx(1.25e-13, rel=1e-12)


def test_a_zero_variance_is_a_constant_coordinate() -> None:
    s = np.array([[1.0, 1e-17, 0.0], [1e-17, 0.0, 0.0], [0.0, 0.0, -1e-17]])
    model = RectifiedGaussian([0.0, 3.0, -3.0], s, floor=[0.0, 1.0, 1.0])
    assert_array_equal(model.covariance, np.diag([1.0, 0.0, 0.0]))
    assert_array_equal(model.correlation, np.eye(3))
    assert_array_equal(model.std, [1.0, 0.0, 0.0])
    assert_array_equal(model.sample(50, 0)[:, 1:], np.tile([3.0, 1.0], (50, 1)))
    constant = RectifiedGaussian([2.0, -2.0], np.zeros((2, 2)))
    assert_array_equal(constant.sample(2, 0), [[2.0, 0.0], [2.0, 0.0]])
    assert_array_equal(constant.weights(), np.zeros((2, 2)))


# --- weights --------------------------------------------------------------------------------------


def test_from_weights() -> None:
    w = np.random.default_rng(0).standard_normal((4, 2))
    model = RectifiedGaussian.from_weights(w, np.arange(4.0), floor=1.0, feature_names=["a", "b", "c", "d"])
    expected = [[sum(w[i, m] * w[j, m] for m in range(2)) for j in range(4)] for i in range(4)]
    assert_allclose(model.covariance, expected, rtol=1e-12)
    assert_allclose(model.std, [math.hypot(*row) for row in w], rtol=1e-12)
    assert_array_equal(model.mean, np.arange(4.0))
    assert_array_equal(model.floor, np.ones(4))
    assert model.feature_names == ("a", "b", "c", "d")
    for bad in (np.ones(4), np.ones((4, 0)), [[np.nan]]):
        with pytest.raises(InvalidParameterError, match="weights must be"):
            RectifiedGaussian.from_weights(bad, np.zeros(4))


@pytest.mark.parametrize("k", [1, 2, 3, 5, None])
def test_weights_are_the_best_factor_of_rank_k(k: int | None) -> None:
    s = np.cov(np.random.default_rng(1).standard_normal((5, 12)))
    w = RectifiedGaussian(np.zeros(5), s).weights(k)
    assert w.shape == (5, k or 5)
    dropped = np.linalg.svd(s, compute_uv=False)[w.shape[1] :]  # Eckart and Young
    assert np.linalg.norm(w @ w.T - s) == pytest.approx(np.linalg.norm(dropped), abs=1e-12)
    assert (w[np.abs(w).argmax(axis=0), np.arange(w.shape[1])] > 0).all()
    lengths = np.linalg.norm(w, axis=0)
    assert (np.diff(lengths) < 0).all()


def test_weights_of_a_singular_covariance() -> None:
    factor = np.random.default_rng(2).standard_normal((6, 2))
    model = RectifiedGaussian.from_weights(factor, np.zeros(6))
    assert_allclose(model.weights(2) @ model.weights(2).T, factor @ factor.T, atol=1e-13)
    assert_allclose(model.weights()[:, 2:], 0.0, atol=1e-7)
    assert np.isfinite(model.weights()).all()


@pytest.mark.parametrize("k", [0, 4, -1, 1.5, True, "2"])
def test_weights_refuses_an_impossible_k(model: RectifiedGaussian, k: Any) -> None:
    with pytest.raises(InvalidParameterError, match="k must be"):
        model.weights(k)


# --- samples --------------------------------------------------------------------------------------


def _mean_and_floored(b: float, s: float, a: float) -> tuple[float, float]:
    """E max(y, a) by quadrature, and P(y <= a)."""
    y = stats.norm(b, s)
    above, _ = integrate.quad(lambda t: (t - a) * y.pdf(t), a, b + 12 * s)
    return a + above, float(y.cdf(a))


def _mean_product(b: Any, s: Any, a: Any) -> float:
    """E max(y_1, a_1) max(y_2, a_2): over y_1 by quadrature, over y_2 given y_1 by quadrature too."""
    rest = math.sqrt(s[1][1] - s[0][1] ** 2 / s[0][0])

    def given_first(t: float) -> float:
        return _mean_and_floored(b[1] + s[0][1] / s[0][0] * (t - b[0]), rest, a[1])[0]

    first = stats.norm(b[0], math.sqrt(s[0][0]))
    edges = (first.ppf(1e-9), a[0], first.isf(1e-9))
    return sum(
        integrate.quad(lambda t: max(t, a[0]) * given_first(t) * first.pdf(t), lo, hi, epsrel=1e-5)[0]
        for lo, hi in itertools.pairwise(edges)
    )


def test_samples_have_the_moments_of_the_distribution(model: RectifiedGaussian) -> None:
    n = 100_000
    x = model.sample(n, random_state=7)
    assert x.shape == (n, 3)
    assert x.dtype == np.float64
    for i in range(3):
        mean, floored = _mean_and_floored(BIAS[i], model.std[i], model.floor[i])
        assert x[:, i].mean() == pytest.approx(mean, abs=4 * x[:, i].std() / math.sqrt(n))
        seen = (x[:, i] == model.floor[i]).mean()  # exactly the floor
        assert seen == pytest.approx(floored, abs=4 * math.sqrt(floored * (1 - floored) / n))
        assert x[:, i].min() == model.floor[i]
    for pair in ([0, 1], [0, 2], [1, 2]):
        product = x[:, pair[0]] * x[:, pair[1]]
        expected = _mean_product(BIAS[pair], COVARIANCE[np.ix_(pair, pair)], model.floor[pair])
        assert product.mean() == pytest.approx(expected, abs=4 * product.std() / math.sqrt(n))


def test_samples_above_the_floor_follow_the_normal_tail() -> None:
    x = RectifiedGaussian([1.0], [[4.0]], floor=0.5).sample(20_000, random_state=3)[:, 0]
    tail = stats.truncnorm((0.5 - 1.0) / 2.0, np.inf, loc=1.0, scale=2.0)
    assert stats.kstest(x[x > 0.5], tail.cdf).pvalue > 0.01


def test_samples_of_a_singular_model_stay_in_its_plane() -> None:
    w = np.random.default_rng(4).standard_normal((5, 2))
    model = RectifiedGaussian.from_weights(w, np.full(5, 100.0))  # never floored
    x = model.sample(4000, random_state=5) - 100.0
    assert np.linalg.svd(x, compute_uv=False)[2] < 1e-10
    # The standard error of a sample covariance entry: sqrt((s_ii s_jj + s_ij^2) / n).
    s = w @ w.T
    standard_error = np.sqrt((np.outer(np.diag(s), np.diag(s)) + s**2) / 4000)
    assert (np.abs(x.T @ x / 4000 - s) < 4.5 * standard_error).all()


def test_samples_do_not_hang_on_the_rounding_of_a_singular_model() -> None:
    exact, rounded = ([[1.0, r], [r, 1.0]] for r in (1.0, 1.0 - 1e-15))
    first = RectifiedGaussian([9.0, 9.0], exact).sample(20, random_state=6)
    assert_allclose(RectifiedGaussian([9.0, 9.0], rounded).sample(20, random_state=6), first, atol=1e-6)


def test_samples_keep_columns_of_very_different_units() -> None:
    units = np.array([1e-8, 1.0, 1e8])
    plain = RectifiedGaussian(np.zeros(3), _equicorrelated(3, 0.0), floor=-100.0)
    scaled = RectifiedGaussian(np.zeros(3), _equicorrelated(3, 0.0) * np.outer(units, units), floor=-1e10)
    assert_allclose(scaled.sample(20, 0) / units, plain.sample(20, 0), rtol=1e-6)


def test_random_state() -> None:
    model = RectifiedGaussian(BIAS, COVARIANCE, floor=-100.0)
    first = model.sample(4, random_state=11)
    assert_array_equal(model.sample(4, random_state=11), first)
    assert_array_equal(model.sample(4, random_state=np.int64(11)), first)
    assert_array_equal(model.sample(4, random_state=np.random.default_rng(11)), first)
    assert not np.array_equal(model.sample(4, random_state=12), first)
    assert not np.array_equal(model.sample(4), model.sample(4))
    for rng in (np.random.default_rng(1), np.random.RandomState(1)):
        assert not np.array_equal(model.sample(4, rng), model.sample(4, rng))  # moves on
    assert_array_equal(model.sample(4, np.random.RandomState(1)), model.sample(4, np.random.RandomState(1)))
    assert_allclose(model.sample(9, random_state=11)[:4], first, rtol=1e-12)  # more rows, same beginning


@pytest.mark.parametrize("state", ["seed", -1, 1.5])
def test_random_state_must_make_sense(state: Any) -> None:
    with pytest.raises(InvalidParameterError, match="random_state must be"):
        generator(state)


def test_sample_checks_n(model: RectifiedGaussian) -> None:
    assert model.sample(0, 0).shape == (0, 3)
    for bad in (-1, 2.0, "3", None, True):
        with pytest.raises(InvalidParameterError, match=r"^n_samples\b.*must be"):
            model.sample(bad)  # type: ignore[arg-type]


# --- marginals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [["Zn", "As"], [2, 0], np.array([2, 0]), (2, "As"), np.array(["Zn", "As"])])
def test_marginal_keeps_the_order_given(model: RectifiedGaussian, features: Any) -> None:
    expected = RectifiedGaussian([2.0, 0.5], [[0.25, -0.3], [-0.3, 4.0]], [1.5, 0.0], ["Zn", "As"])
    assert model.marginal(features) == expected


def test_marginal_of_one_feature(model: RectifiedGaussian) -> None:
    expected = RectifiedGaussian([-1.0], [[1.0]], -0.5, ["Pb"])
    assert model.marginal("Pb") == model.marginal(1) == model.marginal(np.int64(1)) == expected


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["As", "Cd"], "No feature 'Cd': there are 'As', 'Pb', 'Zn'"),
        ([3], "No feature 3: indices run from 0 to 2"),
        ([-1], "No feature -1"),
        ([0, "As"], "feature 'As' is given more than once"),
        ([1, 1], "feature 1 is given more than once"),
        ([], "at least one feature"),
        ([0.5], "A feature must be an integer, got 0.5"),
        (np.array([True, False, True]), "A feature must be an integer, got .*True"),
    ],
)
def test_marginal_names_what_it_cannot_find(model: RectifiedGaussian, features: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        model.marginal(features)


def test_marginal_by_name_needs_names() -> None:
    unnamed = RectifiedGaussian(BIAS, COVARIANCE)
    assert unnamed.marginal([1]).feature_names is None
    with pytest.raises(InvalidParameterError, match="No feature 'As': the model has no names"):
        unnamed.marginal(["As"])
