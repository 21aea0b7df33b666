"""Steps of the descent against definitions: they never raise the objective, and they solve what they claim to solve."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import unrelu
from tests.references import matrix as reference
from unrelu.recovery.matrix import factors as cells_module
from unrelu.recovery.matrix.factors import Cells, Factors, tiles
from unrelu.recovery.matrix.floor_cells import solve_grams
from unrelu.recovery.matrix.newton import Descent


def problem(seed, n=40, d=10, k=2, noise=0.3, missing=0.1, bias=True):
    """A noisy table with gaps, and factors that have nothing to do with it."""
    rng = np.random.default_rng(seed)
    T = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + 0.5 * rng.standard_normal(d)
    X = np.maximum(T + noise * rng.standard_normal(T.shape), 0.0)
    X[rng.random(X.shape) < missing] = np.nan
    return X, Factors(
        rng.standard_normal((n, k)), rng.standard_normal((d, k)), rng.standard_normal(d) if bias else None
    )


def objective(X, factors, ridge, sigma):
    return reference.objective(X, factors.latent, factors.loadings, factors.bias, ridge, sigma)


LOSSES = pytest.mark.parametrize("sigma", [None, 0.5])


# --- sums -----------------------------------------------------------------------------------------


@LOSSES
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_start_knows_the_objective_and_its_gradient(sigma, bias, ridge):
    X, factors = problem(0, n=15, d=6, bias=bias)
    descent = Descent(Cells(X), sigma or 0.0, ridge)
    state = descent.start(factors)
    assert state.objective == pytest.approx(objective(X, factors, ridge, sigma), rel=1e-12)

    def of_columns(extended):
        return objective(X, factors.with_extended(extended), 0.0, sigma)

    slope = reference.difference_quotient(of_columns, factors.extended)
    np.testing.assert_allclose(state.gradient, -slope, atol=2e-6)
    of_each, gradient, _, _ = descent._evaluate(descent.start(factors))

    def of_rows(latent):
        return objective(X, Factors(latent, factors.loadings, factors.bias), ridge, sigma)

    np.testing.assert_allclose(gradient, -reference.difference_quotient(of_rows, factors.latent), atol=2e-6)
    assert of_each.sum() + 0.5 * ridge * np.sum(factors.loadings**2) == pytest.approx(state.objective)


@LOSSES
def test_sums_of_squares_and_weights(sigma):
    X, factors = problem(1, n=15, d=6)
    sums = Descent(Cells(X), sigma or 0.0).start(factors)
    cells = [reference.cell(x, t, sigma) for x, t in zip(X.ravel(), factors.matrix().ravel(), strict=True)]
    assert sums.squares == pytest.approx(sum(c[3] for c in cells), rel=1e-12)
    assert sums.weight == pytest.approx(sum(c[1] for c in cells), rel=1e-6)
    extended = factors.extend(factors.latent)
    weights = np.reshape([c[1] for c in cells], X.shape)
    first, second = np.triu_indices(3)
    gram = weights.T @ (extended[:, first] * extended[:, second])
    np.testing.assert_allclose(sums.gram, gram, rtol=2e-5, atol=1e-4)


# --- alternation ----------------------------------------------------------------------------------


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 0.05, 1.0]),
    st.sampled_from([0.0, 0.1, 5.0]),
    st.sampled_from([1e-2, 1.0, 30.0]),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_alternation_and_joint_steps_never_raise_the_objective(seed, sigma, ridge, far, bias):
    X, factors = problem(seed % 1000, n=25, d=8, bias=bias)
    factors = Factors(factors.latent * far, factors.loadings, factors.bias)
    descent = Descent(Cells(X), sigma or 0.0, ridge)
    state = descent.start(factors)
    for step in range(6):
        if step % 3 == 2:
            after, fell = descent.join(state, 0.03, 40)
            assert fell == (after.objective < state.objective)
        else:
            after = descent.alternate(state)
        assert after.objective <= state.objective * (1.0 + 1e-12)
        state = after
    assert state.objective == pytest.approx(objective(X, state.factors, ridge, sigma), rel=1e-10, abs=1e-20)


@pytest.mark.parametrize(("seed", "sigma"), [(355, None), (355, 0.05)])
def test_columns_that_would_lose_by_their_step_step_back(seed, sigma):
    """Full steps carry so many cells across the floor that the rows cannot make up for it."""
    X, factors = problem(seed, n=25, d=6, k=3, missing=0.0)
    factors = Factors(factors.latent * 0.01, factors.loadings, factors.bias)
    descent = Descent(Cells(X), sigma or 0.0)
    state = descent.alternate(descent.start(factors))
    step = descent._column_gradient(state)
    solve_grams(descent._column_factor(state), step)
    full = state.factors.with_extended(state.factors.extended + step)
    rows_after = descent._row_step(full, slice(0, 25))[0]
    assert descent.start(replace(full, latent=rows_after)).objective > 2.0 * state.objective
    after = descent.alternate(state)
    assert after.objective < state.objective
    assert not np.array_equal(after.factors.loadings, state.factors.loadings)


@LOSSES
def test_rows_converge_to_their_optimum(sigma):
    X, factors = problem(3, n=12, d=9, k=2)
    ridge = np.array([0.05, 0.2])
    descent = Descent(Cells(X), sigma or 0.0, row_ridge=ridge)
    solution = descent.converge_rows(factors)
    np.testing.assert_array_equal(solution.loadings, factors.loadings)
    for i, x in enumerate(X):
        wanted = reference.row_optimum(x, factors.loadings, factors.bias, ridge, sigma)
        np.testing.assert_allclose(solution.latent[i], wanted, atol=1e-10 if sigma is None else 1e-7)


def test_rows_converge_from_far_away():
    X, factors = problem(4, n=30, d=9, k=2)
    descent = Descent(Cells(X), 0.2, ridge=0.1)
    near, far = descent.converge_rows(factors), descent.converge_rows(Factors(factors.latent * 1e3, *list_of(factors)))
    np.testing.assert_allclose(near.latent, far.latent, atol=1e-9)


def list_of(factors):
    return [factors.loadings, factors.bias]


def test_a_row_without_cells_stays_where_its_penalty_is_least():
    X, factors = problem(5, n=6, d=5)
    X[2] = np.nan
    solution = Descent(Cells(X), ridge=0.1).converge_rows(factors)
    np.testing.assert_allclose(solution.latent[2], 0.0, atol=1e-12)
    without_ridge = Descent(Cells(X)).converge_rows(factors)
    np.testing.assert_array_equal(without_ridge.latent[2], factors.latent[2])


# --- joint steps ----------------------------------------------------------------------------------


@LOSSES
@pytest.mark.parametrize("bias", [True, False])
def test_products_with_the_gauss_newton_matrix(sigma, bias):
    """J' W J v + ridge v, J the Jacobian of T by differences, W the cells' weights (kept to 1/255)."""
    X, factors = problem(6, n=9, d=5, bias=bias)
    ridge, k = 0.3, 2
    width = k + int(bias)
    descent = Descent(Cells(X), sigma or 0.0, ridge)
    weights_kept = descent._evaluate(descent.start(factors))[3]
    at = np.concatenate([factors.latent.ravel(), factors.extended.ravel()])

    def matrix_of(parameters):
        latent = parameters[: 9 * k].reshape(9, k)
        return Factors(latent, *list_of(factors)).with_extended(parameters[9 * k :].reshape(5, width)).matrix().ravel()

    jacobian = np.stack([(matrix_of(at + e) - matrix_of(at - e)) / 2e-6 for e in 1e-6 * np.eye(len(at))], axis=1)
    pairs = zip(X.ravel(), factors.matrix().ravel(), strict=True)
    weights = np.round(255.0 * np.array([reference.cell(x, t, sigma)[1] for x, t in pairs])) / 255.0
    penalty = np.concatenate([np.full(9 * k, ridge), np.tile([ridge] * k + [0.0] * int(bias), 5)])
    direction = np.random.default_rng(0).standard_normal(len(at))
    wanted = jacobian.T @ (weights * (jacobian @ direction)) + penalty * direction
    parts = [direction[: 9 * k].reshape(9, k), direction[9 * k :].reshape(5, width)]
    got = descent._hessian(factors, weights_kept, parts)
    np.testing.assert_allclose(np.concatenate([part.ravel() for part in got]), wanted, atol=1e-6)


def test_the_direction_solves_the_gauss_newton_system():
    X, factors = problem(7, n=30, d=8)
    descent = Descent(Cells(X), ridge=0.5)
    state = descent.start(factors)
    rows, columns = descent._direction(state, *descent._evaluate(state)[1:], 1e-10, 40)
    _, row_gradient, _, weights = descent._evaluate(state)  # conjugate gradients use up the gradient
    image = descent._hessian(factors, weights, [rows, columns])
    np.testing.assert_allclose(image[0], row_gradient, atol=1e-4)
    gradient = state.gradient.copy()
    gradient[:, :2] -= 0.5 * factors.loadings
    np.testing.assert_allclose(image[1], gradient, atol=1e-4)
    assert np.abs(gradient).min() > 1e-2


def test_joint_steps_are_fast_where_the_fit_is_exact():
    """Digits double, where alternation gains a constant share a round."""
    rng = np.random.default_rng(8)
    true = Factors(rng.standard_normal((80, 2)), rng.standard_normal((20, 2)), 0.5 * rng.standard_normal(20))
    near = true.with_extended(true.extended + 1e-2 * rng.standard_normal((20, 3)))
    descent = Descent(Cells(np.maximum(true.matrix(), 0.0)))
    joint = alternating = descent.start(near)
    for _ in range(4):
        joint, fell = descent.join(joint, 1e-4, 100)
        assert fell
        alternating = descent.alternate(alternating)
    assert np.sqrt(joint.objective) < 1e-11
    assert np.sqrt(alternating.objective) > 1e-6


# --- how the table is held and cut ----------------------------------------------------------------


@LOSSES
def test_tiles_and_storage_do_not_matter(monkeypatch, sigma):
    X, factors = problem(9, n=70, d=10)
    filled = np.where(np.isnan(X), 0.0, X)

    def walk(cells):
        descent = Descent(cells, sigma or 0.0, 0.2)
        state = descent.start(factors)
        for _ in range(3):
            state = descent.join(descent.alternate(state), 0.03, 40)[0]
        return state

    whole, sparse = walk(Cells(filled)), walk(Cells(scipy.sparse.csr_array(filled)))
    assert whole.objective == sparse.objective
    np.testing.assert_array_equal(whole.factors.latent, sparse.factors.latent)
    monkeypatch.setattr(cells_module, "_LEAST_CELLS", 200)
    assert len(tiles(X.shape)) > 1
    cut = walk(Cells(filled))
    assert cut.objective == pytest.approx(whole.objective, rel=1e-6)
    np.testing.assert_allclose(cut.factors.matrix(), whole.factors.matrix(), atol=1e-3)
    solution = Descent(Cells(X), sigma or 0.0, 0.2).converge_rows(factors).latent
    monkeypatch.undo()
    again = Descent(Cells(X), sigma or 0.0, 0.2).converge_rows(factors).latent
    np.testing.assert_allclose(solution, again, atol=1e-11)


# --- components that nothing determines -----------------------------------------------------------


@LOSSES
@pytest.mark.parametrize("size", [1e-12, 1e-22, 1e-40])
def test_a_component_without_curvature_does_not_carry_rows_off(sigma, size):
    """A row's step along it is rounding over rounding; its square would leave single precision."""
    X, factors = problem(3)
    loadings = factors.loadings.copy()
    loadings[:, 1] *= size
    factors = replace(factors, loadings=loadings)
    solution = Descent(Cells(X), sigma or 0.0).converge_rows(factors, 3)
    assert np.isfinite(solution.latent).all()
    assert objective(X, solution, 0.0, sigma) <= objective(X, factors, 0.0, sigma)


@pytest.mark.parametrize(
    ("rows", "columns", "rank", "gauge"),
    [
        ([1, 2, 2, 2, 1], [1, 2, 3, 0, 3, 1], 3, "zero"),
        ([3, 1, 2, 0, 1], [1, 3, 3, 1, 0, 1], 3, "zero"),
        ([1, 1, 0, 3, 1, 1, 1, 2], [3, 2, 0, 3, 2, 2], 4, "centered"),
    ],
)
@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_counts_of_a_lower_rank_than_n_components(rows, columns, rank, gauge):
    X = np.outer(rows, columns).astype(float)
    recovery = unrelu.ReLUMatrixRecovery(rank, gauge=gauge).fit(X)
    np.testing.assert_allclose(np.maximum(recovery.hidden(), 0.0), X, atol=1e-9)
    assert np.isfinite(recovery.transform(X)).all()
