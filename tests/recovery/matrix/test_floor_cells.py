"""Cells and small systems against definitions: residuals, weights, losses; packed Grams, also singular ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_ndtr

from tests.references import matrix as reference
from unrelu.recovery.matrix.floor_cells import (
    careful_rows,
    factor_grams,
    floor_cells,
    packed_products,
    solve_grams,
    tobit_cells,
    weigh,
)


def run(kernel, values, fitted, option, precision=np.float64):
    """(residual, weight, row losses, column losses, returned)"""
    out, weight = fitted.copy(), np.full(values.shape, np.nan, dtype=precision)
    row_loss, column_loss = np.zeros(len(values)), np.zeros(values.shape[1])
    returned = kernel(values, out, option, weight, row_loss, column_loss)
    return out, weight, row_loss, column_loss, returned


def expected(values, fitted, **options):
    cells = np.array([reference.cell(x, t, **options) for x, t in zip(values.ravel(), fitted.ravel(), strict=True)])
    return [cells[:, m].reshape(values.shape) for m in range(4)]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    values = np.maximum(rng.standard_normal((30, 7)), 0.0)
    values[rng.random(values.shape) < 0.2] = np.nan
    return values, 2.0 * rng.standard_normal(values.shape)


def test_least_squares_cells(table):
    values, fitted = table
    residual, weight, loss, _ = expected(values, fitted)
    got = run(floor_cells, values, fitted, np.zeros(7))
    np.testing.assert_array_equal(got[0], residual)
    np.testing.assert_array_equal(got[1], weight)
    np.testing.assert_allclose(got[2], loss.sum(axis=1), rtol=1e-14)
    np.testing.assert_allclose(got[3], loss.sum(axis=0), rtol=1e-14)
    assert 0 < (weight == 0.0).sum() < weight.size


def test_caps_are_what_zeros_may_reach():
    values, fitted = np.zeros((3, 2)), np.array([[0.4, 0.4], [0.6, 0.6], [-2.0, 2.0]])
    residual, weight, row_loss, column_loss, _ = run(floor_cells, values, fitted, np.array([0.5, 0.0]))
    np.testing.assert_allclose(residual, [[0.0, -0.4], [-0.1, -0.6], [0.0, -2.0]], rtol=1e-14)
    np.testing.assert_array_equal(weight, [[0.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(row_loss, [0.08, 0.185, 2.0], rtol=1e-14)
    np.testing.assert_allclose(column_loss, [0.005, 2.26], rtol=1e-14)


def test_a_cap_does_not_touch_seen_or_missing_cells():
    values, fitted = np.array([[1.0, np.nan]]), np.array([[3.0, 3.0]])
    residual, weight, *_ = run(floor_cells, values, fitted, np.array([0.5, 0.5]))
    np.testing.assert_array_equal(residual, [[-2.0, 0.0]])
    np.testing.assert_array_equal(weight, [[1.0, 0.0]])


@pytest.mark.parametrize("sigma", [1e-3, 0.7, 30.0])
def test_tobit_cells(table, sigma):
    values, fitted = table[0] * sigma, table[1] * sigma
    residual, weight, loss, square = expected(values, fitted, sigma=sigma)
    got = run(tobit_cells, values, fitted, sigma)
    np.testing.assert_allclose(got[0], residual, rtol=1e-12)
    np.testing.assert_allclose(got[1], weight, rtol=1e-11)
    np.testing.assert_allclose(got[2], loss.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(got[3], loss.sum(axis=0), rtol=1e-12)
    assert got[4] == pytest.approx(square.sum(), rel=1e-12)


@pytest.mark.parametrize("s", [-300.0, -40.0, -8.0, 5.0, 6.0, 9.0, 14.0, 25.0, 38.0, 39.0, 300.0, 1e5, 1e9])
def test_deep_tails_of_tobit(s):
    """A zero far below T pulls like a seen 0; far above, it has no weight. Weights stay within [0, 1]."""
    sigma = 0.3
    values, fitted = np.zeros((1, 1)), np.array([[s * sigma]])
    residual, weight, loss, square = expected(values, fitted, sigma=sigma)
    got = run(tobit_cells, values, fitted, sigma)
    np.testing.assert_allclose(got[0], residual, rtol=1e-7, atol=1e-300)
    np.testing.assert_allclose(got[2], loss[0], rtol=1e-9, atol=1e-16)
    assert 0.0 <= got[1][0, 0] <= 1.0
    np.testing.assert_allclose(got[1], weight, atol=3e-5)
    assert got[4] == pytest.approx(square.sum(), rel=1e-7)


def test_residual_and_weight_of_tobit_are_derivatives_of_the_loss():
    t = np.linspace(-4.0, 12.0, 81)[None]
    zero = np.zeros_like(t)
    step, sigma = 1e-4, 0.8

    def at(shift):
        return run(tobit_cells, zero, t + shift, sigma)

    slope = (at(step)[3] - at(-step)[3]) / (2.0 * step)
    np.testing.assert_allclose(at(0.0)[0][0], -slope, atol=1e-6)
    bend = -(at(step)[0] - at(-step)[0])[0] / (2.0 * step)
    np.testing.assert_allclose(at(0.0)[1][0], bend, atol=1e-6)


@pytest.mark.parametrize("precision", [np.float32, np.uint8])
def test_weigh_takes_any_precision(precision):
    weight = np.array([[0, 1, 3]], dtype=precision)
    product = np.array([[5.0, 6.0, 7.0]])
    weigh(product, weight)
    np.testing.assert_array_equal(product, [[0.0, 6.0, 21.0]])


# --- packed systems -------------------------------------------------------------------------------


def solve(grams, vectors, ridge=None, damping=1e-13):
    k = vectors.shape[1]
    first, second = np.triu_indices(k)
    factor, pivot = np.empty((len(grams), len(first))), np.empty(len(grams))
    factor_grams(grams[:, first, second], np.zeros(k) if ridge is None else ridge, damping, factor, pivot)
    out = vectors.copy()
    solve_grams(factor, out)
    return out, pivot


def test_packed_order_is_the_upper_triangle_row_by_row():
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((5, 4))
    packed = packed_products(vectors)
    for v, row in zip(vectors, packed, strict=True):
        outer = np.outer(v, v)
        np.testing.assert_array_equal(row, [outer[i, j] for i in range(4) for j in range(i, 4)])


@given(st.integers(1, 8), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=40, deadline=None)
def test_solutions_are_those_of_dense_algebra(k, seed, penalized):
    rng = np.random.default_rng(seed)
    design = rng.standard_normal((3, k + 20, k))
    grams = np.swapaxes(design, 1, 2) @ design
    ridge = rng.random(k) * 10.0 if penalized else np.zeros(k)
    vectors = rng.standard_normal((3, k))
    got, pivot = solve(grams, vectors, ridge)
    wanted = np.linalg.solve(grams + np.diag(ridge), vectors[..., None])[..., 0]
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
    assert ((pivot > 0.0) & (pivot <= 1.0)).all()


def test_damping_is_relative_to_each_diagonal_entry():
    gram = np.array([[[4.0, 1.0], [1.0, 100.0]]])
    got, _ = solve(gram, np.array([[1.0, 1.0]]), damping=0.5)
    wanted = np.linalg.solve(gram[0] + np.diag([2.0, 50.0]), [1.0, 1.0])
    np.testing.assert_allclose(got[0], wanted, rtol=1e-14)


def test_least_pivot_is_that_of_the_cholesky_factor():
    rng = np.random.default_rng(2)
    design = rng.standard_normal((9, 5))
    gram = design.T @ design
    _, pivot = solve(gram[None], np.zeros((1, 5)))
    wanted = (np.diag(np.linalg.cholesky(gram)) ** 2 / np.diag(gram)).min()
    assert pivot[0] == pytest.approx(wanted, rel=1e-10)


def test_directions_without_curvature_are_not_stepped_along():
    gram = np.zeros((2, 3, 3))
    gram[0] = np.diag([2.0, 0.0, 5.0])
    got, pivot = solve(gram, np.ones((2, 3)))
    np.testing.assert_allclose(got, [[0.5, 0.0, 0.2], [0.0, 0.0, 0.0]], rtol=1e-12)
    assert np.isfinite(pivot).all()


def test_a_singular_system_is_flagged_and_still_solved_where_it_can_be():
    """Two equal columns: G has rank 2 of 3; the solution satisfies the equations that hold."""
    rng = np.random.default_rng(3)
    design = rng.standard_normal((10, 2))[:, [0, 1, 1]]
    gram, right = design.T @ design, design.T @ rng.standard_normal(10)
    got, pivot = solve(gram[None], right[None], damping=1e-9)
    assert pivot[0] < 1e-6
    np.testing.assert_allclose(gram @ got[0], right, rtol=1e-5)
    assert np.abs(got).max() < 10.0


def test_a_ridge_makes_a_singular_system_regular():
    design = np.random.default_rng(4).standard_normal((10, 2))[:, [0, 1, 1]]
    gram, ridge = design.T @ design, np.array([0.1, 0.2, 0.3])
    got, pivot = solve(gram[None], np.ones((1, 3)), ridge)
    np.testing.assert_allclose(got[0], np.linalg.solve(gram + np.diag(ridge), np.ones(3)), rtol=1e-10)
    assert pivot[0] > 1e-3


@pytest.mark.parametrize("sigma", [0.0, 0.4])
def test_careful_steps_end_at_each_rows_minimum(sigma):
    rng = np.random.default_rng(5)
    n, d, k = 40, 12, 3
    loadings, offset = rng.standard_normal((d, k)), 0.3 * rng.standard_normal(d) - 1.5
    x = np.maximum(rng.standard_normal((n, k)) @ loadings.T + offset + 0.3 * rng.standard_normal((n, d)), 0.0)
    x[rng.random(x.shape) < 0.1] = np.nan
    ridge = np.array([0.001, 0.002, 0.003])  # few cells are seen, so that a step may lead far

    def objective(c, row):
        t = loadings @ c + offset
        seen, zero = row > 0.0, row == 0.0
        if sigma:
            floored = -(sigma**2) * log_ndtr(-t[zero] / sigma).sum()
        else:
            floored = 0.5 * (np.maximum(t[zero], 0.0) ** 2).sum()
        return 0.5 * ((row[seen] - t[seen]) ** 2).sum() + floored + 0.5 * (ridge * c * c).sum()

    reached = 4.0 * rng.standard_normal((n, k))  # far off, where full steps carry cells across the floor
    before = [objective(c, row) for c, row in zip(reached, x, strict=True)]
    for _ in range(8):
        careful_rows(x, reached, offset, loadings, (ridge, np.zeros(d), sigma), 1e-13, 0.0)
        after = [objective(c, row) for c, row in zip(reached, x, strict=True)]
        assert all(a <= b * (1.0 + 1e-12) for a, b in zip(after, before, strict=True))
        before = after
    best = [minimize(objective, c, (row,), options={"gtol": 1e-9}).fun for c, row in zip(reached, x, strict=True)]
    np.testing.assert_allclose(before, best, rtol=1e-8)
