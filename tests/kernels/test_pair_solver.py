import numpy as np
import pytest

from tests.references import weighted_moments as reference
from unrelu.fit.columns import row_influence
from unrelu.kernels import pair_solver
from unrelu.kernels.pair_solver import moments_of_columns


def solve(mhat, n, a1, a2, n1=None, n2=None):
    a = np.array([a1, a2])
    moments = moments_of_columns(a)
    r, se = np.empty(1), np.empty(1)
    rows = np.array([n1 or n, n2 or n], dtype=float)
    columns = pair_solver.Columns(a, moments, row_influence(a, np.zeros(2, dtype=bool)), rows)
    pair, size = (np.array([0]), np.array([1])), np.array([float(n)])
    pair_solver.solve_pairs(pair, mhat[None, :], size, size, columns, r, se)
    return r[0], se[0]


def simulate_latent(rng, n, a1, a2, r):
    z = rng.standard_normal((n, 2))
    return np.array([a1, a2]) + np.c_[z[:, 0], r * z[:, 0] + np.sqrt(1 - r * r) * z[:, 1]]


@pytest.mark.parametrize(
    ("a1", "a2", "r"), [(0.0, 0.0, 0.5), (-1.0, 1.0, 0.5), (0.5, 0.5, -0.9), (-1.28, -1.28, 0.3), (1.5, -0.5, 0.9)]
)
def test_solves_the_quasi_score_equation(a1, a2, r):
    x = np.maximum(simulate_latent(np.random.default_rng(3), 3000, a1, a2, r), 0.0)
    mhat = reference.pair_rows(x[:, 0], x[:, 1], (a1, a2), (1.0, 1.0)).mean(axis=0)
    expected, _ = reference.estimate(mhat, 3000, a1, a2, near=r)
    estimate, _ = solve(mhat, 3000, a1, a2)
    assert estimate == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("a1", "a2", "r"), [(0.0, 0.0, 0.5), (-1.0, 1.0, 0.5), (0.5, 0.5, -0.8)])
def test_standard_error_is_the_sandwich_of_row_influences(a1, a2, r):
    """At the true parameters: variance of w'(row) minus the effect of both estimated marginals, over many rows."""
    n = 400_000
    y = simulate_latent(np.random.default_rng(5), n, a1, a2, r)
    x = np.maximum(y, 0.0)
    u = y - np.array([a1, a2])
    rows = reference.pair_rows(x[:, 0], x[:, 1], (a1, a2), (1.0, 1.0))
    mean, v, g = reference.expectations(a1, a2, r)
    w = np.linalg.solve(v, g) / (g @ np.linalg.solve(v, g))
    influence = (rows - mean) @ w
    for k, a in enumerate((a1, a2)):
        own, floored = u[:, k], x[:, k] == 0.0
        kappa = np.exp(-0.5 * a * a) / np.sqrt(2 * np.pi) / reference.bivariate.marginal_moment(-a, 0)
        score = np.stack([np.where(floored, -kappa, own), np.where(floored, a * kappa, own**2 - 1.0)])
        # d mean / d(mean, scale) = Cov(statistics, score of the latent pair)
        pull = (own - r * u[:, 1 - k]) / (1 - r * r)
        effect = np.stack([pull, pull * own - 1.0]) @ (rows - mean) / n
        influence -= (effect @ w) @ np.linalg.solve(score @ score.T / n, score)
    _, se = solve(mean, 1000, a1, a2)
    # A sample variance of 400,000 light-tailed terms is known to about .5 %.
    assert se == pytest.approx(influence.std() / np.sqrt(1000), rel=0.01)


def test_missing_rows_elsewhere_reduce_the_error_through_the_marginals():
    mean, _, _ = reference.expectations(0.2, -0.3, 0.6)
    _, nested = solve(mean, 500, 0.2, -0.3, n1=5000, n2=5000)
    _, alone = solve(mean, 500, 0.2, -0.3)
    _, information = reference.estimate(mean, 500, 0.2, -0.3, near=0.6)
    assert 1.0 / np.sqrt(500 * information) < nested < alone


def test_never_above_together_gives_a_wide_error_not_a_crash():
    x = np.maximum(simulate_latent(np.random.default_rng(0), 200, -2.2, -2.2, 0.0), 0.0)
    x[x[:, 0] > 0, 1] = 0.0
    mhat = reference.pair_rows(x[:, 0], x[:, 1], (-2.2, -2.2), (1.0, 1.0)).mean(axis=0)
    r, se = solve(mhat, 200, -2.2, -2.2)
    assert -1.0 < r < 0.0
    assert 0.2 < se <= 1.0


def test_without_common_rows_the_standard_error_is_one():
    assert solve(np.zeros(12), 0, 0.3, 0.4, 10, 10) == (0.0, 1.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rows_on_a_line_give_exactly_one(sign):
    y = np.random.default_rng(1).standard_normal(300)
    x1, x2 = np.maximum(y + 0.8, 0), np.maximum(sign * 2.0 * y + 1.6, 0)
    mhat = reference.pair_rows(x1, x2, (0.8, 1.6), (1.0, 2.0)).mean(axis=0)
    assert solve(mhat, 300, 0.8, 0.8) == (sign, 0.0)


def test_rows_almost_on_a_line_do_not():
    rng = np.random.default_rng(1)
    y = rng.standard_normal(300)
    x1, x2 = np.maximum(y + 0.8, 0), np.maximum(y + 0.8 + 1e-3 * rng.standard_normal(300), 0)
    mhat = reference.pair_rows(x1, x2, (0.8, 0.8), (1.0, 1.0)).mean(axis=0)
    r, se = solve(mhat, 300, 0.8, 0.8)
    assert 0.999 < r < 1.0
    assert se > 0.0


def test_the_root_is_found_also_where_the_model_fits_badly():
    """True marginals stand in for fitted ones, down to 20 rows: the score must change sign within 1e-8 of r."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        n, r, a = float(rng.choice([20, 100, 1000])), np.tanh(rng.normal()), 1.2 * rng.normal(size=2)
        x = np.maximum(simulate_latent(rng, int(n), *a, r), 0.0)
        mhat = reference.pair_rows(x[:, 0], x[:, 1], a, (1.0, 1.0)).mean(axis=0)
        columns = pair_solver.Columns(a, moments_of_columns(a), np.zeros((2, 2, 3)), np.full(2, n))
        work = pair_solver.workspace((0, 1), columns, mhat)
        found, _, _ = pair_solver.find_root(*a, n, np.nan, work)

        def score(r, n=n, a=a, work=work):
            per_row, _ = pair_solver.evaluate(*a, r, work)
            return n * per_row - r / (1.0 - r * r)

        margin = 1e-8 * (1.0 - found * found)
        assert score(found - margin) > 0.0 > score(found + margin)
