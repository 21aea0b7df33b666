"""Errors of a learned model and angles of spaces, against formulas written another way, quadrature and scipy."""

from __future__ import annotations

import doctest
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.linalg import subspace_angles

import unrelu.metrics
from unrelu import guarantees
from unrelu.errors import InvalidParameterError
from unrelu.metrics import basis_distance, parameter_errors, subspace_distance
from unrelu.model import RectifiedGaussian


def _random_pair(d: int, seed: int) -> tuple[RectifiedGaussian, RectifiedGaussian]:
    rng = np.random.default_rng(seed)
    models = (RectifiedGaussian.from_weights(rng.standard_normal((d, d + 2)), rng.standard_normal(d)) for _ in "ab")
    return next(models), next(models)


def _kl_by_inverse(p: RectifiedGaussian, q: RectifiedGaussian) -> float:
    """The textbook formula, with an explicit inverse and determinants."""
    inverse, shift = np.linalg.inv(q.covariance), q.mean - p.mean
    log_determinants = np.linalg.slogdet(q.covariance)[1] - np.linalg.slogdet(p.covariance)[1]
    trace = np.trace(inverse @ p.covariance)
    return float(trace - p.n_features + log_determinants + shift @ inverse @ shift) / 2


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(unrelu.metrics).failed == 0


def test_relative_errors_of_bias_and_weights() -> None:
    learned, true = _random_pair(4, seed=0)
    errors = parameter_errors(learned, true)
    assert list(errors) == ["bias", "weights", "kl", "tv_bound"]
    assert all(type(error) is float for error in errors.values())
    w = true.weights()
    frobenius = math.sqrt(sum(entry**2 for entry in w.flat))
    gap = learned.mean - true.mean
    assert errors["bias"] == pytest.approx(math.sqrt(sum(g**2 for g in gap)) / frobenius, rel=1e-12)
    gap = learned.covariance - w @ w.T
    assert errors["weights"] == pytest.approx(math.sqrt(sum(g**2 for g in gap.flat)) / frobenius**2, rel=1e-12)


def test_the_true_model_sets_the_scale() -> None:
    small, large = RectifiedGaussian([0.0], [[1.0]]), RectifiedGaussian([1.0], [[100.0]])
    assert parameter_errors(small, large)["bias"] == pytest.approx(0.1)
    assert parameter_errors(large, small)["bias"] == pytest.approx(1.0)
    assert parameter_errors(small, large)["weights"] == pytest.approx(0.99)
    assert parameter_errors(large, small)["weights"] == pytest.approx(99.0)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_kl_is_the_textbook_formula_in_the_smaller_direction(d: int) -> None:
    learned, true = _random_pair(d, seed=d)
    directions = _kl_by_inverse(learned, true), _kl_by_inverse(true, learned)
    assert directions[0] != pytest.approx(directions[1], rel=0.01)
    assert parameter_errors(learned, true)["kl"] == pytest.approx(min(directions), rel=1e-9)
    assert parameter_errors(true, learned)["kl"] == pytest.approx(min(directions), rel=1e-9)


def test_kl_is_the_integral_it_stands_for() -> None:
    learned, true = RectifiedGaussian([0.3], [[1.5]]), RectifiedGaussian([1.0], [[0.7]])
    p, q = stats.norm(0.3, math.sqrt(1.5)), stats.norm(1.0, math.sqrt(0.7))
    # The true distribution is the narrower one, so the divergence from it is the smaller.
    expected, _ = integrate.quad(lambda y: q.pdf(y) * (q.logpdf(y) - p.logpdf(y)), -15.0, 15.0)
    assert parameter_errors(learned, true)["kl"] == pytest.approx(expected, rel=1e-8)


def test_an_equal_model_has_no_error() -> None:
    model, _ = _random_pair(5, seed=3)
    errors = parameter_errors(model, model)
    assert errors["bias"] == errors["weights"] == 0.0
    assert errors["kl"] == pytest.approx(0.0, abs=1e-28)


def test_kl_of_nearly_equal_models_keeps_its_digits() -> None:
    true, _ = _random_pair(5, seed=4)
    e = 1e-7
    learned = RectifiedGaussian(true.mean, true.covariance * (1.0 + e))
    # 1/2 d (e - ln(1 + e)) = d e^2 / 4 - ..., far below the rounding of the terms of the usual formula
    assert parameter_errors(learned, true)["kl"] == pytest.approx(5 * e**2 / 4, rel=1e-5)


def test_kl_does_not_depend_on_the_units() -> None:
    learned, true = _random_pair(3, seed=5)
    units = np.array([1e-7, 1.0, 1e7])

    def scaled(model: RectifiedGaussian) -> RectifiedGaussian:
        return RectifiedGaussian(model.mean * units, model.covariance * np.outer(units, units))

    expected = parameter_errors(learned, true)["kl"]
    assert parameter_errors(scaled(learned), scaled(true))["kl"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "singular",
    [RectifiedGaussian([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]]), RectifiedGaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])],
)
def test_a_singular_model_is_infinitely_far(singular: RectifiedGaussian) -> None:
    regular = RectifiedGaussian([0.0, 0.0], np.eye(2))
    for pair in ((singular, regular), (regular, singular)):
        errors = parameter_errors(*pair)
        assert errors["kl"] == math.inf
        assert errors["tv_bound"] == 1.0
        assert math.isfinite(errors["weights"])


def test_low_rank_is_singular_whatever_the_rounding() -> None:
    rng = np.random.default_rng(6)
    low = RectifiedGaussian.from_weights(rng.standard_normal((40, 3)), np.zeros(40))
    assert parameter_errors(low, RectifiedGaussian(np.zeros(40), np.eye(40)))["kl"] == math.inf
    regular = RectifiedGaussian([0.0, 0.0], np.eye(2))
    for r, expected in ((1.0 - 1e-15, math.inf), (1.0 - 1e-10, -math.log(2e-10) / 2)):
        nearly = RectifiedGaussian([0.0, 0.0], [[1.0, r], [r, 1.0]])
        assert parameter_errors(nearly, regular)["kl"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("b", "s"), [(0.05, 1.0), (0.4, 1.3), (-0.5, 0.8), (3.0, 1.0)])
def test_tv_bound_bounds_the_distance_of_the_rectified_distributions(b: float, s: float) -> None:
    learned, true = RectifiedGaussian([b], [[s**2]]), RectifiedGaussian([0.0], [[1.0]])
    p, q = stats.norm(b, s), stats.norm(0.0, 1.0)
    # max(y, 0) has an atom at 0 and the normal density above it
    above, _ = integrate.quad(lambda y: abs(p.pdf(y) - q.pdf(y)), 0.0, 20.0, limit=200)
    distance = (abs(p.cdf(0.0) - q.cdf(0.0)) + above) / 2
    bound = parameter_errors(learned, true)["tv_bound"]
    assert distance < bound <= 1.0
    kl = min(_kl_by_inverse(learned, true), _kl_by_inverse(true, learned))
    assert bound == pytest.approx(min(1.0, math.sqrt(kl / 2)), rel=1e-9)


def test_half_the_root_of_kl_is_no_bound() -> None:
    """Why sqrt(KL / 2) and not sqrt(KL) / 2, as the paper's display may be read."""
    h = 0.05
    distance = 2 * stats.norm.cdf(h / 2) - 1  # of N(h, 1) and N(0, 1)
    errors = parameter_errors(RectifiedGaussian([h], [[1.0]]), RectifiedGaussian([0.0], [[1.0]]))
    assert math.sqrt(errors["kl"]) / 2 < distance < errors["tv_bound"]


def test_different_floors_have_only_the_trivial_bound() -> None:
    true = RectifiedGaussian([0.0], [[1.0]])
    errors = parameter_errors(RectifiedGaussian([0.0], [[1.0]], floor=0.1), true)
    assert errors["kl"] == 0.0
    assert errors["tv_bound"] == 1.0


def test_models_must_be_comparable() -> None:
    one, two = RectifiedGaussian([0.0], [[1.0]]), RectifiedGaussian([0.0, 0.0], np.eye(2))
    with pytest.raises(InvalidParameterError, match="learned model has 1 features and the true one 2"):
        parameter_errors(one, two)
    ab = RectifiedGaussian([0.0, 0.0], np.eye(2), feature_names=["a", "b"])
    with pytest.raises(InvalidParameterError, match="same features in different orders"):
        parameter_errors(ab.marginal(["b", "a"]), ab)
    assert parameter_errors(two, ab)["bias"] == 0.0
    with pytest.raises(InvalidParameterError, match="true model is constant"):
        parameter_errors(one, RectifiedGaussian([1.0], [[0.0]]))


# --- the angle of two spaces --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "k", "m"), [(5, 2, 2), (40, 7, 7), (6, 1, 3), (9, 4, 2), (3, 3, 3), (4, 4, 1), (8, 7, 7)]
)
def test_subspace_distance_is_the_sine_of_the_largest_principal_angle(d: int, k: int, m: int) -> None:
    rng = np.random.default_rng(d * k + m)
    first = rng.standard_normal((d, k)) * 10.0 ** rng.integers(-3, 4, k)
    second = rng.standard_normal((d, m))
    expected = math.sin(subspace_angles(first, second).max())
    assert subspace_distance(first, second) == pytest.approx(expected, rel=1e-10, abs=1e-14)
    assert subspace_distance(second, first) == pytest.approx(expected, rel=1e-10, abs=1e-14)


def test_subspace_distance_is_that_of_the_projections() -> None:
    rng = np.random.default_rng(8)
    first, second = rng.standard_normal((2, 10, 3))
    projections = [a @ np.linalg.inv(a.T @ a) @ a.T for a in (first, second)]
    expected = np.linalg.norm(projections[0] - projections[1], ord=2)
    assert subspace_distance(first, second) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("angle", [1e-13, 1e-12, 1e-9, 1e-5, 0.7, math.pi / 2 - 1e-6])
def test_small_angles_keep_their_digits(angle: float) -> None:
    rng = np.random.default_rng(9)
    basis = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    turned = basis[:, :3].copy()
    turned[:, 2] = math.cos(angle) * basis[:, 2] + math.sin(angle) * basis[:, 3]
    mixed = turned @ (np.eye(3) + 0.3 * rng.standard_normal((3, 3)))
    assert subspace_distance(basis[:, :3], mixed) == pytest.approx(math.sin(angle), rel=1e-8, abs=3e-15)


@pytest.mark.parametrize(("d", "k", "m"), [(6, 2, 2), (9, 4, 4), (9, 5, 2), (5, 1, 3)])
def test_frobenius_distance_is_the_norm_of_all_sines(d: int, k: int, m: int) -> None:
    rng = np.random.default_rng(d + 10 * k + m)
    first, second = rng.standard_normal((d, k)), rng.standard_normal((d, m))
    expected = np.linalg.norm(np.sin(subspace_angles(first, second)))
    assert subspace_distance(first, second, norm="frobenius") == pytest.approx(expected, rel=1e-10)
    if k == m:  # |P - Q|_F = sqrt(2) |sin Theta|_F for projections P, Q
        one, two = (x @ np.linalg.pinv(x) for x in (first, second))
        assert subspace_distance(first, second, "frobenius") == pytest.approx(
            np.linalg.norm(one - two) / math.sqrt(2.0), rel=1e-10
        )


@pytest.mark.parametrize("tilt", [1.0, 1e-3, 1e-9])
def test_basis_distance_is_that_after_the_best_turn(tilt: float) -> None:
    """(72): Procrustes' problem, solved by the singular vectors of U^'U; and no other turn does better."""
    rng = np.random.default_rng(3)
    first = rng.standard_normal((8, 3))
    second = first @ rng.standard_normal((3, 3)) + tilt * rng.standard_normal((8, 3))
    u, v = (np.linalg.qr(x)[0] for x in (first, second))
    left, _, right = np.linalg.svd(v.T @ u)
    found = basis_distance(first, second)
    assert found == pytest.approx(np.linalg.norm(u - v @ (left @ right)), rel=1e-5)
    for _ in range(50):
        turn = np.linalg.qr(left @ right + 0.1 * rng.standard_normal((3, 3)))[0]
        assert np.linalg.norm(u - v @ turn) >= found * (1.0 - 1e-5)
    sines = subspace_distance(first, second, "frobenius")
    assert sines <= found * (1.0 + 1e-12) <= math.sqrt(2.0) * sines * (1.0 + 1e-12)


def test_theorem_5_bounds_both_distances() -> None:
    """(71) and (72), for perturbed matrices of low rank: the bounds hold, and are not far off for small errors."""
    rng = np.random.default_rng(7)
    for error in (1e-3, 0.05):
        matrix = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 30))
        noise = error * rng.standard_normal((20, 30))
        singular = np.linalg.svd(matrix, compute_uv=False)
        bound = guarantees.column_space_bound(
            singular[0], singular[2] ** 2, np.linalg.norm(noise, 2), float(np.linalg.norm(noise)), 3
        )
        one, two = (np.linalg.svd(x)[0][:, :3] for x in (matrix, matrix + noise))
        assert subspace_distance(one, two, "frobenius") <= bound.sine
        assert basis_distance(one, two) <= bound.basis


def test_subspace_norms_and_bases_that_do_not_fit() -> None:
    with pytest.raises(InvalidParameterError, match="Did you mean 'frobenius'"):
        subspace_distance(np.eye(3)[:, :1], np.eye(3)[:, :1], norm="frobenus")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="first has 2 columns and second 1: bases"):
        basis_distance(np.eye(3)[:, :2], np.eye(3)[:, :1])


def test_subspace_distance_depends_on_the_spaces_alone() -> None:
    rng = np.random.default_rng(10)
    first, second = rng.standard_normal((2, 12, 4))
    expected = subspace_distance(first, second)
    assert type(expected) is float
    mixed = first @ rng.standard_normal((4, 4))
    assert subspace_distance(mixed, second) == pytest.approx(expected, rel=1e-12)
    assert subspace_distance(first * [1e-200, 1.0, -1e200, 1e300], second) == pytest.approx(expected, rel=1e-12)
    assert subspace_distance(first, mixed) < 1e-14
    assert subspace_distance(first[:, :2], mixed) < 1e-14  # contained
    assert subspace_distance(np.eye(4)[:, :2], np.eye(4)[:, :3]) == 0.0
    assert subspace_distance(np.eye(4)[:, :2], np.eye(4)[:, 1:3]) == 1.0


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ([1.0, 2.0, 3.0], r"first must be a matrix with at least one row and column, got shape \(3,\).*v\[:, None\]"),
        (np.empty((3, 0)), "at least one row and column"),
        (np.ones((3, 1, 1)), "at least one row and column"),
        ([[1.0], [math.nan], [0.0]], "first has nan in row 1, column 0"),
        ([[1.0], [0.0], [-math.inf]], "first has -inf in row 2, column 0"),
        ([[1.0, 2.0], [3.0], [4.0]], "first must be a matrix of real numbers"),
        ([["a"], ["b"], ["c"]], "first must be a matrix of real numbers"),
        (np.ones((3, 2)), "The 2 columns of first span a space of 1 dimensions only"),
        (np.zeros((3, 1)), "The 1 columns of first span a space of 0 dimensions"),
        (np.random.default_rng(0).standard_normal((3, 4)), "The 4 columns of first span a space of 3"),
        (np.ones((4, 1)), "first has 4 rows and second 3"),
    ],
)
def test_what_subspace_distance_refuses(first: Any, words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        subspace_distance(first, [[1.0], [2.0], [4.0]])
    with pytest.raises(InvalidParameterError, match="second"):
        subspace_distance([[1.0], [2.0], [4.0]], first)
