"""The kernels of latent recovery: J and its pieces against plain sums, descent that never rises, the optimum found."""

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.references import latent as reference
from unrelu.recovery.latent_search import (
    descend,
    half_normal_scale,
    least_deviations,
    objective,
    penalized_minimum,
    residual_sizes,
    search,
)

NO_PENALTY = np.zeros(3)
PENALTIES = pytest.mark.parametrize("penalty", [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 1.0)])


@pytest.mark.parametrize("scale", [1e-3, 0.05, 1.0, 50.0])
def test_objective_is_the_sum_by_the_book(scale):
    A, b, c, v, _ = reference.draw(np.random.default_rng(0), 30, 4, share=0.3, noise=0.05)
    for penalty in ((0.0, 0.0, 0.0), (2.0, 0.7, 0.0)):
        expected = reference.tukey_objective(A, b, v, c, scale, *penalty[:2])
        assert objective(A, b, v, c, scale, np.array(penalty)) == pytest.approx(expected, rel=1e-12)


@PENALTIES
@pytest.mark.parametrize("scale", [0.03, 0.3, 2.0])
def test_descent_never_rises_and_returns_its_end(penalty, scale):
    rng, penalty = np.random.default_rng(1), np.array(penalty)
    fell = 0
    for _ in range(20):
        A, b, _, v, _ = reference.draw(rng, 40, 5, share=0.4, noise=0.05)
        c = rng.standard_normal(5)
        c = np.abs(c) if penalty[2] else c
        values = [objective(A, b, v, c, scale, penalty)]
        for _ in range(15):
            found = descend(A, b, v, c, scale, penalty, 1)
            values.append(objective(A, b, v, c, scale, penalty))
            assert found == pytest.approx(values[-1], rel=1e-12)
        assert (np.diff(values) <= 1e-12 * values[0]).all()
        fell += values[-1] < values[0]
        assert not penalty[2] or (c >= 0.0).all()
    assert fell >= 8


def test_descent_ends_where_the_gradient_vanishes():
    A, b, c, v, _ = reference.draw(np.random.default_rng(2), 60, 4, share=0.2, noise=0.05)
    end = c.copy()
    value = descend(A, b, v, end, 0.05, np.array([1.0, 0.0, 0.0]), 500)
    for j in range(4):
        for step in (1e-4, -1e-4):
            near = end + step * np.eye(4)[j]
            assert objective(A, b, v, near, 0.05, np.array([1.0, 0.0, 0.0])) >= value - 1e-9


def test_descent_stays_put_where_nothing_is_on():
    A, b, v = np.eye(3), np.full(3, -100.0), np.ones(3)
    c = np.zeros(3)
    assert descend(A, b, v, c, 1.0, NO_PENALTY, 5) == pytest.approx(objective(A, b, v, np.zeros(3), 1.0, NO_PENALTY))
    assert (c == 0.0).all()


@pytest.mark.parametrize("seed", range(6))
def test_search_finds_what_brute_force_finds(seed):
    rng = np.random.default_rng(seed)
    A, b, _, v, _ = reference.draw(rng, 30, 2 + seed % 3, share=0.35, noise=0.05, outliers="one-sided")
    lowest, where = reference.brute_force(A, b, v, 0.05, rng)
    c, value, _, other, _ = search(A, b, v, 0.05, NO_PENALTY, 40, 6, 3)
    assert value == pytest.approx(reference.tukey_objective(A, b, v, c, 0.05), rel=1e-12)
    assert value <= lowest + 1e-6 * lowest
    assert other >= value
    assert value >= lowest - 1e-6 * lowest  # brute force missed nothing either
    assert np.abs(c - where).max() < 1e-3


def test_search_is_a_function_of_its_seed():
    A, b, _, v, _ = reference.draw(np.random.default_rng(3), 40, 4, share=0.45, noise=0.05)
    one, again = (search(A, b, v, 0.05, NO_PENALTY, 3, 6, 9) for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(one, again, strict=True))


@pytest.mark.parametrize(("sparsity", "nonnegative"), [(0.0, False), (0.7, False), (0.0, True), (0.7, True)])
def test_penalized_minimum_against_scipy(sparsity, nonnegative):
    rng = np.random.default_rng(4)
    for k in (1, 3, 8):
        B, right = rng.standard_normal((4 * k, k)), 3.0 * rng.standard_normal(k)
        gram = B.T @ B
        found = np.zeros(k)
        penalized_minimum(np.tril(gram), right, sparsity, nonnegative, found)
        assert np.abs(found - reference.penalized(gram, right, sparsity, nonnegative)).max() < 1e-6
        if not sparsity and not nonnegative:
            assert np.abs(found - np.linalg.solve(gram, right)).max() < 1e-10


def test_penalized_minimum_of_nearly_dependent_columns():
    rng = np.random.default_rng(5)
    B = rng.standard_normal((60, 1)) + 0.01 * rng.standard_normal((60, 4))
    gram, right, found = B.T @ B, B.T @ rng.standard_normal(60), np.zeros(4)
    penalized_minimum(np.tril(gram), right, 0.0, False, found)
    assert np.allclose(found, np.linalg.solve(gram, right), rtol=1e-6)


@pytest.mark.parametrize(("sparsity", "nonnegative"), [(0.03, False), (0.0, True), (0.03, True)])
def test_optimality_for_nearly_dependent_columns(sparsity, nonnegative):
    """Where an entry is not 0 its gradient balances the penalty; where it is 0 the penalty holds it there."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        B = rng.standard_normal((60, 1)) + 0.01 * rng.standard_normal((60, 5))
        gram, right, found = B.T @ B, B.T @ rng.standard_normal(60), np.zeros(5)
        penalized_minimum(np.tril(gram), right, sparsity, nonnegative, found)
        slope, on = right - gram @ found, found != 0.0
        assert np.abs(slope - sparsity * np.sign(found))[on].max(initial=0.0) < 1e-7
        assert (slope if nonnegative else np.abs(slope))[~on].max(initial=0.0) < sparsity + 1e-7
        assert not nonnegative or found.min() >= 0.0


def test_a_sparse_coordinate_without_data_is_zero():
    found = np.array([5.0, 5.0])
    penalized_minimum(np.diag([1.0, 0.0]), np.array([3.0, 0.0]), 1.0, False, found)
    assert found == pytest.approx([2.0, 0.0])


def test_least_deviations_shrug_off_outliers():
    for seed in range(5):
        A, b, c, v, _ = reference.draw(np.random.default_rng(seed), 200, 4, share=0.1, outliers="one-sided")
        found = np.zeros(4)
        least_deviations(A, b, v, found, 1e-6, np.ones(200, dtype=bool), 0.0, float(np.median(np.abs(v))))
        assert np.abs(found - c).max() < 0.02


def test_least_deviations_near_the_linear_program():
    """min sum_{v > tau} |v - b - A c| + sum_{|v| <= tau} (A c + b)_+ by linprog; entries below -tau are dropped."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A, b, c = rng.standard_normal((80, 4)), rng.standard_normal(80) - 0.5, rng.standard_normal(4)
        v = np.maximum(A @ c + b, 0.0) + 0.01 * rng.standard_normal(80)
        v[:30], v[30:35] = 8.0 * rng.random(30), -5.0
        on, off = v > 0.03, np.abs(v) <= 0.03
        found = np.zeros(4)
        least_deviations(A, b, v, found, 0.03, np.ones(80, dtype=bool), 0.0, float(np.median(np.abs(v))))
        value = np.abs((v - b - A @ found)[on]).sum() + np.maximum((A @ found + b)[off], 0.0).sum()
        n, m = on.sum(), off.sum()
        program = linprog(
            np.concatenate([np.zeros(4), np.ones(n + m)]),
            A_ub=np.block(
                [
                    [A[on], -np.eye(n), np.zeros((n, m))],
                    [-A[on], -np.eye(n), np.zeros((n, m))],
                    [A[off], np.zeros((m, n)), -np.eye(m)],
                ]
            ),
            b_ub=np.concatenate([(v - b)[on], (b - v)[on], -b[off]]),
            bounds=[(None, None)] * 4 + [(0.0, None)] * (n + m),
        )
        assert program.fun * (1.0 - 1e-9) <= value <= 1.003 * program.fun


def test_half_normal_scale():
    rng = np.random.default_rng(7)
    sizes = np.abs(np.concatenate([0.2 * rng.standard_normal(20000), 2.0 * rng.random(20000)]))
    assert half_normal_scale(sizes, 1.0, 1e-9, 2.0) == pytest.approx(0.2, rel=0.03)  # about 4 standard errors
    assert half_normal_scale(np.zeros(5), 1.0, 1e-9, 1.0) == 1e-9


def test_residual_sizes():
    A, b, c, v, _ = reference.draw(np.random.default_rng(8), 20, 3, share=0.3)
    assert np.allclose(residual_sizes(A, b, v, c), np.abs(v - np.maximum(A @ c + b, 0.0)))
