"""From a start to the end: exact where the table is, stationary where it is not, and nothing depends on how."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

from tests.references import matrix as reference
from unrelu.recovery.matrix import factors as cells_module
from unrelu.recovery.matrix.descent import CensoredALS, Task, free_parameters, noise_left, own_start, prior_ridge
from unrelu.recovery.matrix.factors import Cells, Factors, singular_start, sizes_of, tiles
from unrelu.recovery.matrix.newton import Descent


def truth(seed, n=200, d=30, k=3, bias=0.5):
    """T with enough positive cells in every row and column to be determined."""
    rng = np.random.default_rng(seed)
    while True:
        T = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + bias * rng.standard_normal(d)
        if min((T > 0.0).sum(axis=0).min(), (T > 0.0).sum(axis=1).min()) > k + 2:
            return T


def noisy(seed, noise, **margin):
    T = truth(seed, **margin)
    return np.maximum(T + noise * np.random.default_rng(seed + 1000).standard_normal(T.shape), 0.0)


def recover(X, rank=3, **options):
    return CensoredALS().recover(Task(Cells(X), rank, **options))


@pytest.mark.parametrize(("seed", "n", "d", "k"), [(0, 200, 30, 2), (1, 300, 40, 3), (2, 300, 60, 5), (3, 80, 60, 3)])
def test_exact_tables_are_fitted_exactly_without_a_penalty(seed, n, d, k):
    T = truth(seed, n, d, k)
    found = recover(np.maximum(T, 0.0), k)
    assert found.converged
    assert found.residual <= 1e-12
    assert found.ridge == 0.0
    assert found.iterations < 40
    np.testing.assert_allclose(found.factors.matrix(), T, atol=1e-8)


def test_the_residual_is_its_definition():
    X = noisy(0, 0.3)
    found = recover(X)
    T = found.factors.matrix()
    R = np.where(X > 0.0, X - T, np.maximum(T, 0.0))
    assert found.residual == pytest.approx(np.linalg.norm(R) / np.linalg.norm(X), rel=1e-10)


@pytest.mark.parametrize("seed", range(2))
def test_with_noise_the_end_is_a_minimum_of_the_penalized_objective(seed):
    """No direction gains: the gradient by differences vanishes against the curvature along it."""
    X = noisy(seed, 0.3, n=60, d=12, k=2)
    found = recover(X, 2)
    assert found.converged
    assert found.ridge > 0.0
    C, A, b = found.factors.latent, found.factors.loadings, found.factors.bias
    least = reference.objective(X, C, A, b, found.ridge)
    rng = np.random.default_rng(seed)
    for _ in range(6):
        dC, dA, db = (rng.standard_normal(part.shape) for part in (C, A, b))
        at = {t: reference.objective(X, C + t * dC, A + t * dA, b + t * db, found.ridge) for t in (-1e-3, 1e-3)}
        slope, bend = (at[1e-3] - at[-1e-3]) / 2e-3, (at[1e-3] + at[-1e-3] - 2.0 * least) / 1e-6
        assert bend > 0.0
        assert slope**2 / (2.0 * bend) < 1e-7 * least


def test_nothing_is_left_to_gain_at_the_end():
    X = noisy(1, 0.5)
    found = recover(X)
    descent = Descent(Cells(X), ridge=found.ridge)
    state = first = descent.start(found.factors)
    for _ in range(20):
        state = descent.join(descent.alternate(state), 1e-3, 100)[0]
    assert first.objective - state.objective < 1e-6 * first.objective
    np.testing.assert_allclose(state.factors.matrix(), first.factors.matrix(), atol=1e-2)


def test_the_penalty_is_that_of_the_noise_left():
    X = noisy(1, 0.3)
    found = recover(X)
    state = Descent(Cells(X), ridge=found.ridge).start(found.factors)
    wanted = prior_ridge(own_start(Task(Cells(X), 3)), noise_left(state))
    assert 0.5 * wanted <= found.ridge <= 2.0 * wanted


def test_free_parameters_are_the_dimension_of_the_set_of_tables():
    """The rank of the Jacobian of (C, A, b) -> T."""
    rng = np.random.default_rng(0)
    for bias in (True, False):
        n, d, k = 7, 5, 2
        factors = Factors(
            rng.standard_normal((n, k)), rng.standard_normal((d, k)), rng.standard_normal(d) if bias else None
        )
        columns = []
        for part in ("latent", "loadings", "bias") if bias else ("latent", "loadings"):
            values = getattr(factors, part)
            for index in np.ndindex(*values.shape):
                moved = values.copy()
                moved[index] += 1.0
                columns.append((replace(factors, **{part: moved}).matrix() - factors.matrix()).ravel())
        assert free_parameters(factors) == np.linalg.matrix_rank(np.stack(columns))


def test_the_prior_ridge_is_n_noise_squared_over_singular_values():
    """The table's own, whatever the fit begins with."""
    X = np.abs(np.random.default_rng(1).standard_normal((50, 2)) @ np.random.default_rng(2).standard_normal((2, 8)))
    mean = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:2].mean()
    task = Task(Cells(X), 2)
    assert prior_ridge(own_start(task), 0.3) == pytest.approx(0.5 * 50 * 0.09 / mean, rel=1e-4)
    other = replace(task, start=singular_start(Cells(X), 2, True).rescale(5.0))
    assert prior_ridge(own_start(other), 0.3) == pytest.approx(prior_ridge(own_start(task), 0.3), rel=1e-12)
    assert prior_ridge(own_start(Task(Cells(np.zeros((9, 4))), 2)), 0.3) == 0.0


def test_the_objective_only_falls_while_the_penalty_stays():
    X = noisy(2, 0.3)
    reported = []
    recover(X, progress=reported.append)
    seen = [(step.done, step.state.residual, step.state.factors) for step in reported if step.state is not None]
    assert [iteration for iteration, _, _ in seen] == list(range(1, len(seen) + 1))
    descent = Descent(Cells(X))
    before_the_penalty = [descent.start(factors).objective for _, _, factors in seen[:4]]
    assert all(b <= a * (1.0 + 1e-12) for a, b in pairwise(before_the_penalty))


def test_max_iterations_keeps_what_was_reached():
    X = np.maximum(truth(3), 0.0)
    short, longer = recover(X, max_iterations=1), recover(X, max_iterations=5)
    assert (short.iterations, short.converged) == (1, False)
    assert longer.residual < short.residual < 1.0
    norm = np.linalg.norm(X)
    squares = Descent(Cells(X)).start(short.factors).squares
    assert short.residual == pytest.approx(math.sqrt(squares) / norm, rel=1e-12)


def test_a_start_is_gone_on_from():
    X = np.maximum(truth(4), 0.0)
    half = recover(X, max_iterations=6)
    rest = recover(X, start=half.factors)
    assert rest.converged
    assert rest.iterations < recover(X).iterations
    np.testing.assert_allclose(rest.factors.matrix(), recover(X).factors.matrix(), atol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_tiles_and_storage_do_not_matter(monkeypatch, noise):
    X = noisy(5, noise)
    whole = recover(X)
    sparse = CensoredALS().recover(Task(Cells(scipy.sparse.csr_array(X)), 3))
    np.testing.assert_array_equal(whole.factors.matrix(), sparse.factors.matrix())
    monkeypatch.setattr(cells_module, "_LEAST_CELLS", 1000)
    assert len(tiles(X.shape)) > 1
    np.testing.assert_allclose(recover(X).factors.matrix(), whole.factors.matrix(), atol=1e-3 if noise else 1e-8)


def test_column_norms_leave_out_what_is_missing():
    X = np.array([[3.0, np.nan], [4.0, 2.0]])
    np.testing.assert_array_equal(sizes_of(Cells(X))[0], [5.0, 2.0])


def test_without_a_bias():
    T = truth(6, bias=0.0)
    found = recover(np.maximum(T, 0.0), free_bias=False)
    assert found.factors.bias is None
    np.testing.assert_allclose(found.factors.matrix(), T, atol=1e-8)
