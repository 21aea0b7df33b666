"""Program (34): the literal one against brute force, the gauge against other optimisers, the ball against SLSQP."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.optimize import LinearConstraint, linprog, minimize
from sklearn.exceptions import ConvergenceWarning

from tests.warned import warns
from unrelu.errors import InvalidParameterError
from unrelu.papers.likelihood import BiasDensity, FeasibleSet, literal_program
from unrelu.papers.program import (
    Likelihood,
    increasing_root,
    likeliest_gauge,
    likelihood_side,
    project_on_ball,
    solve_nuclear,
)
from unrelu.recovery.matrix.descent import Task
from unrelu.recovery.matrix.factors import Cells, Factors

NORMAL = stats.norm(0.0, 1.0)
TWO_HILLS = stats.rv_histogram((np.array([3.0, 1.0, 5.0, 2.0]), np.array([-2.0, -1.0, 0.0, 1.0, 2.0])), density=False)
TINY = np.array([[2.0, 0.0, 0.0, 1.5], [0.5, 1.0, 0.0, 0.7], [0.0, 0.2, 0.0, 2.5], [0.0, 0.0, 0.0, 0.9]])


def truth(seed, n=200, d=30, k=3, density=NORMAL, mean=0.0, least=8):
    """Factors of a table that determines them: every column has ``least`` positive cells, and as many zeros."""
    rng = np.random.default_rng(seed)
    while True:
        factors = Factors(
            mean + rng.standard_normal((n, k)),
            rng.standard_normal((d, k)),
            density.rvs(d, random_state=rng.integers(2**31)),
        )
        positives = (factors.matrix() > 0.0).sum(axis=0)
        if least <= positives.min() and positives.max() <= n - least:
            return factors


def rectified(factors):
    return np.maximum(factors.matrix(), 0.0)


def low_rank(factors):
    return factors.latent @ factors.loadings.T


def task_of(X, rank=3, **options):
    return Task(Cells(X), rank, **options)


def feasible_of(X, gamma=np.inf, nu=0.0):
    return FeasibleSet.of(Cells(X), gamma, nu)


def in_set_29(M, X, gamma=np.inf, nu=0.0, tolerance=1e-9):
    """The definition, cell by cell."""
    if not (np.abs(M) <= gamma + tolerance).all():
        return False
    for m, x in zip(M.T, X.T, strict=True):
        up, down = m[x > 0.0], m[x <= 0.0]
        if len(up) and np.ptp(x[x > 0.0] - up) > tolerance:
            return False
        if len(up) and len(down) and up.min() < down.max() + nu - tolerance:
            return False
    return True


def log_likelihood(M, X, p):
    """(33), column by column."""
    total = 0.0
    for m, x in zip(M.T, X.T, strict=True):
        up = x > 0.0
        total += p.logpdf((x - m)[up][0]) if up.any() else p.logcdf(-m[x <= 0.0].max())
    return total


class TestDensity:
    @pytest.mark.parametrize(
        "p", [NORMAL, stats.gamma(3.0, loc=-1.0), stats.laplace(1.0, 2.0), TWO_HILLS, stats.arcsine(-2.0, 4.0)]
    )
    def test_the_largest_value_on_an_interval(self, p):
        density = BiasDensity.of(p)
        rng = np.random.default_rng(0)
        low = rng.uniform(-1.9, 1.5, size=40)
        high = low + rng.uniform(0.0, 1.9 - low)
        found = density.argmax(low, high)
        assert ((found >= low) & (found <= high)).all()
        best = p.logpdf(low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 5001)).max(axis=1)
        assert (p.logpdf(found) >= best - 1e-9).all()

    def test_intervals_without_an_end(self):
        density = BiasDensity.of(NORMAL)
        found = density.argmax(np.array([-np.inf, -np.inf, 40.0]), np.array([np.inf, -30.0, np.inf]))
        np.testing.assert_allclose(found, [0.0, -30.0, 40.0], atol=1e-7)

    def test_of_equally_likely_biases_the_middle(self):
        density = BiasDensity.of(stats.uniform(1.0, 4.0))
        np.testing.assert_allclose(density.argmax(np.array([-9.0, 4.0]), np.array([9.0, 9.0])), [3.0, 4.0], atol=1e-2)

    def test_scipys_newer_distributions_are_as_good(self):
        new = BiasDensity.of(stats.Normal(mu=0.5, sigma=2.0))
        assert new.mode == pytest.approx(0.5, abs=1e-6)

    @pytest.mark.parametrize("at", [-3.0, 0.4, 50.0])
    def test_derivatives(self, at):
        """Of log p and log P(B <= b) for the logistic distribution: -tanh(b/2), and 1 - F = 1/(1 + e^b)."""
        density = BiasDensity.of(stats.logistic())
        slope, bend = density.derivatives(np.array([at, at]), np.array([False, True]))
        tail = 1.0 / (1.0 + np.exp(at))
        np.testing.assert_allclose(slope, [-np.tanh(at / 2.0), tail], atol=1e-8)
        np.testing.assert_allclose(bend, [0.5 / np.cosh(at / 2.0) ** 2, tail * (1.0 - tail)], atol=1e-4)

    def test_derivatives_at_the_end_of_the_support(self):
        density = BiasDensity.of(stats.expon())
        slope, _ = density.derivatives(np.array([0.0, 1.0]), np.zeros(2, dtype=bool))
        np.testing.assert_allclose(slope, -1.0, rtol=1e-8)

    def test_beyond_the_support_searches_are_led_back(self):
        density = BiasDensity.of(stats.uniform(0.0, 1.0))
        outside = density.term(np.array([-2.0, -1.0, 0.5, 3.0, 4.0]), np.zeros(5, dtype=bool))
        assert outside[0] < outside[1] < outside[2] > outside[3] > outside[4]


class TestLiteralProgram:
    @pytest.mark.parametrize("p", [NORMAL, stats.gamma(2.0, loc=-2.0), TWO_HILLS])
    @pytest.mark.parametrize(("gamma", "nu"), [(1.5, 0.0), (1.4, 0.3), (4.0, 0.0)])
    def test_against_brute_force(self, p, gamma, nu):
        """Every column by itself: all b on a grid, and zero cells on a grid; nothing in (29) is likelier."""
        matrix, _ = literal_program(TINY, feasible_of(TINY, gamma, nu), BiasDensity.of(p))
        assert in_set_29(matrix, TINY, gamma, nu)
        for j in range(4):
            x, m = TINY[:, [j]], matrix[:, [j]]
            best = -np.inf
            for b in np.linspace(-5.0, 5.0, 401):
                for zero in np.linspace(-gamma, gamma, 5):
                    tried = np.where(x > 0.0, x - b, zero)
                    if in_set_29(tried, x, gamma, nu, 1e-12):
                        best = max(best, log_likelihood(tried, x, p))
            ours = log_likelihood(m, x, p)
            assert ours >= best - 1e-9
            assert ours <= best + 0.1  # the grid's step times the largest slope of log p here

    def test_zero_cells_are_next_to_0_where_the_table_lets_them(self):
        """With b = 1.5 from the mode: T = M + b <= 0 there, and nu below the positive cells."""
        X = np.array([[3.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
        for nu, expected in [(0.0, [-1.5, -1.5, -1.5]), (2.0, [-1.5, -2.5, -2.5])]:
            matrix, _ = literal_program(X, feasible_of(X, 9.0, nu), BiasDensity.of(stats.norm(1.5, 1.0)))
            np.testing.assert_allclose(matrix[1], expected, atol=1e-6)
        negative, _ = literal_program(X, feasible_of(X, 9.0), BiasDensity.of(stats.norm(-2.0, 1.0)))
        np.testing.assert_array_equal(negative[1], 0.0)

    def test_a_column_that_is_never_positive(self):
        gamma = 2.0
        matrix, _ = literal_program(TINY, feasible_of(TINY, gamma), BiasDensity.of(NORMAL))
        np.testing.assert_array_equal(matrix[:, 2], -gamma)
        bounded, highest = literal_program(TINY, feasible_of(TINY), BiasDensity.of(stats.uniform(-1.0, 2.5)))
        np.testing.assert_array_equal(bounded[:, 2], -1.5)  # any lower value is as likely
        assert highest[2] <= 1.5
        with pytest.raises(InvalidParameterError, match=r"no maximum without gamma: column 2 never"):
            literal_program(TINY, feasible_of(TINY), BiasDensity.of(NORMAL))

    def test_missing_cells_are_nobodys(self):
        X = TINY.copy()
        X[0, 0], X[2, 1], X[:, 3] = np.nan, np.nan, np.nan
        matrix, bias = literal_program(X, feasible_of(X, 2.0, 0.1), BiasDensity.of(stats.norm(0.3, 1.0)))
        np.testing.assert_array_equal(matrix[np.isnan(X)], 0.0)
        alone, _ = literal_program(X[1:, [0]], feasible_of(X[1:, [0]], 2.0, 0.1), BiasDensity.of(stats.norm(0.3, 1.0)))
        np.testing.assert_array_equal(matrix[1:, [0]], alone)
        assert bias[3] == pytest.approx(0.3, abs=1e-6)

    def test_recovered_factors_are_its_leading_singular_vectors(self):
        X = rectified(truth(0))
        reported = []
        recovered = Likelihood(NORMAL, gamma=9.0, constraint="none").recover(
            task_of(X, progress=lambda step: reported.append(step.state))
        )
        matrix, bias = literal_program(X, feasible_of(X, 9.0), BiasDensity.of(NORMAL))
        u, s, vt = np.linalg.svd(matrix, full_matrices=False)
        np.testing.assert_allclose(low_rank(recovered.factors), (u[:, :3] * s[:3]) @ vt[:3], atol=1e-10)
        np.testing.assert_array_equal(recovered.factors.bias, bias)
        assert recovered.fixed_bias
        assert recovered.converged
        T = recovered.factors.matrix()
        residual = np.where(X > 0.0, X - T, np.maximum(T, 0.0))
        assert recovered.residual == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(X), rel=1e-12)
        assert [(one.iterations, one.residual) for one in reported] == [(1, recovered.residual)]


class TestRank:
    """T from the table, then the gauge from p."""

    @pytest.mark.parametrize("p", [NORMAL, stats.logistic(0.5, 0.7), stats.t(4.0, 0.5, 0.5), stats.expon(-1.0, 1.0)])
    def test_hidden_table_is_exact_and_the_gauge_likelier_than_any_other(self, p):
        true = truth(1, density=p)
        X = rectified(true)
        recovered = Likelihood(p).recover(task_of(X))
        found = recovered.factors
        assert recovered.fixed_bias
        np.testing.assert_allclose(found.matrix(), true.matrix(), atol=1e-8)
        np.testing.assert_allclose(low_rank(found) + found.bias, true.matrix(), atol=1e-8)
        best = p.logpdf(found.bias).sum()
        assert np.isfinite(best)
        assert best >= p.logpdf(true.bias).sum()
        rng = np.random.default_rng(2)
        for size in (1e-4, 1e-2, 1.0):
            for v in size * rng.standard_normal((300, 3)):
                assert p.logpdf(found.shift(v).bias).sum() <= best + 1e-7

    def test_stationary(self):
        """A' d log p(b)/db = 0: the score of the logistic distribution is -tanh(b/2)."""
        found = Likelihood(stats.logistic()).recover(task_of(rectified(truth(3)))).factors
        score = -np.tanh(found.bias / 2.0)
        np.testing.assert_allclose(found.loadings.T @ score, 0.0, atol=1e-5 * np.abs(found.loadings).sum())

    def test_another_optimiser_finds_the_same(self):
        p = stats.t(3.0, 0.4, 0.8)
        true = truth(4, density=p)
        found = likeliest_gauge(true.balance(), BiasDensity.of(p), np.inf, np.ones(30, dtype=bool))
        start = true.balance()
        ends = [
            minimize(
                lambda v: -p.logpdf(start.shift(v).bias).sum(),
                v0,
                method="Nelder-Mead",
                options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000},
            )
            for v0 in np.random.default_rng(5).standard_normal((5, 3))
        ]
        best = min(ends, key=lambda end: end.fun)
        assert p.logpdf(found.bias).sum() == pytest.approx(-best.fun, abs=1e-9)
        np.testing.assert_allclose(found.bias, start.shift(best.x).bias, atol=1e-5)

    def test_the_better_of_two_hills(self):
        """Four biases agree near the gauge given, six at another: with heavy tails both are local maxima."""
        p = stats.cauchy(0.0, 0.1)
        bias = np.array([0.0, 0.02, -0.03, 0.01, 5.0, 5.02, 4.97, 5.05, 4.98, 5.01])
        given = Factors(np.array([[-1.0], [1.0]]), np.ones((10, 1)), bias)
        found = likeliest_gauge(given, BiasDensity.of(p), np.inf, np.ones(10, dtype=bool))
        best = max(p.logpdf(bias + v).sum() for v in np.linspace(-7.0, 2.0, 9001))
        assert p.logpdf(found.bias).sum() >= best - 1e-9

    def test_normal_biases_become_orthogonal_to_the_loadings(self):
        """sum b_j^2 is least where A'b = 0: program (34) with this p is the orthogonal gauge."""
        found = Likelihood(stats.norm(0.0, 2.0)).recover(task_of(rectified(truth(6)))).factors
        np.testing.assert_allclose(found.loadings.T @ found.bias, 0.0, atol=1e-8 * np.abs(found.loadings).sum())

    def test_error_of_the_gauge(self):
        """b + A v loses its part along A, so that |A v|^2 is chi-squared with k degrees: mean 4, variance 8."""
        k, repeats = 4, 60
        p = BiasDensity.of(NORMAL)
        squares = []
        for seed in range(repeats):
            true = truth(100 + seed, n=50, d=40, k=k, least=0)
            found = likeliest_gauge(true, p, np.inf, np.ones(40, dtype=bool))
            squares.append(((found.bias - true.bias) ** 2).sum())
        assert abs(np.mean(squares) - k) < 4.0 * np.sqrt(2.0 * k / repeats)

    def test_exponential_biases_by_linear_programming(self):
        """log p = -(b + 1) on b >= -1: the most likely gauge solves a linear program."""
        true = truth(7, density=stats.expon(-1.0, 1.0))
        found = likeliest_gauge(true.balance(), BiasDensity.of(stats.expon(-1.0, 1.0)), np.inf, np.ones(30, dtype=bool))
        program = linprog(true.loadings.sum(axis=0), A_ub=-true.loadings, b_ub=true.bias + 1.0, bounds=(None, None))
        assert found.bias.min() >= -1.0
        assert found.bias.sum() == pytest.approx(true.bias.sum() + program.fun, abs=1e-6)

    def test_gamma_bounds_every_entry(self):
        """Against trust-constr, with a bound that is active: the gauge without it has a larger |M|."""
        plain = truth(8)
        true = replace(plain, bias=plain.bias + 1.5 * plain.loadings[:, 0]).balance()
        every = np.ones(30, dtype=bool)
        unbounded = likeliest_gauge(true, BiasDensity.of(NORMAL), np.inf, every)
        centred = np.abs(low_rank(true)).max()
        gamma = 0.5 * (centred + np.abs(low_rank(unbounded)).max())
        assert centred < gamma < np.abs(low_rank(unbounded)).max()
        found = likeliest_gauge(true, BiasDensity.of(NORMAL), gamma, every)
        M = low_rank(true)
        assert np.abs(low_rank(found)).max() <= gamma * (1.0 + 1e-9)
        np.testing.assert_allclose(found.matrix(), true.matrix(), atol=1e-12)
        bounds = LinearConstraint(true.loadings, M.max(axis=0) - gamma, M.min(axis=0) + gamma)
        other = minimize(
            lambda v: 0.5 * (true.shift(v).bias ** 2).sum(),
            np.zeros(3),
            jac=lambda v: true.loadings.T @ true.shift(v).bias,
            hess=lambda v: true.loadings.T @ true.loadings,
            method="trust-constr",
            constraints=[bounds],
            options={"gtol": 1e-10, "xtol": 1e-14, "maxiter": 3000},
        )
        assert 0.5 * (found.bias**2).sum() == pytest.approx(other.fun, abs=1e-5)

    def test_bounded_support_holds_every_bias(self):
        p = stats.uniform(-1.0, 2.0)
        true = truth(9, density=p)
        found = Likelihood(p).recover(task_of(rectified(true))).factors
        assert np.abs(found.bias).max() <= 1.0
        np.testing.assert_allclose(found.matrix(), true.matrix(), atol=1e-8)

    def test_columns_without_enough_positive_cells_have_no_say(self):
        true = truth(10)
        counted = np.arange(30) < 28
        wild = replace(true, bias=np.where(counted, true.bias, 1e3))
        p = BiasDensity.of(NORMAL)
        one, other = (likeliest_gauge(each, p, np.inf, counted) for each in (true, wild))
        np.testing.assert_allclose(one.latent, other.latent, atol=1e-9)

    def test_loadings_that_do_not_span(self):
        """A direction of C that no column sees is centred; no column at all: the centred gauge."""
        rng = np.random.default_rng(11)
        flat = Factors(rng.standard_normal((40, 3)) + 2.0, rng.standard_normal((9, 3)), rng.standard_normal(9))
        flat.loadings[:, 2] = 0.0
        found = likeliest_gauge(flat, BiasDensity.of(NORMAL), np.inf, np.ones(9, dtype=bool))
        np.testing.assert_allclose(found.latent[:, 2].mean(), 0.0, atol=1e-12)
        np.testing.assert_allclose(found.loadings.T @ found.bias, 0.0, atol=1e-8)
        no_column = likeliest_gauge(flat, BiasDensity.of(NORMAL), np.inf, np.zeros(9, dtype=bool))
        np.testing.assert_allclose(no_column.latent.mean(axis=0), 0.0, atol=1e-12)

    def test_a_column_that_is_never_positive_is_its_bias(self):
        true = truth(12)
        X = rectified(true)
        X[:, 4] = 0.0
        p = stats.norm(0.5, 1.0)
        recovered = Likelihood(p, gamma=50.0).recover(task_of(X))
        assert recovered.residual < 1e-9
        np.testing.assert_array_equal(recovered.factors.loadings[4], 0.0)
        assert recovered.factors.bias[4] == 0.0  # the most likely bias of at most 0
        others = np.arange(30) != 4
        np.testing.assert_allclose(recovered.factors.matrix()[:, others], true.matrix()[:, others], atol=1e-8)
        with pytest.raises(InvalidParameterError, match=r"positive biases only, and column 4 never"):
            Likelihood(stats.expon(0.5)).recover(task_of(X))

    def test_sparse_tables_and_given_starts(self):
        true = truth(13)
        X = rectified(true)
        dense = Likelihood(NORMAL).recover(task_of(X)).factors
        other = Likelihood(NORMAL).recover(Task(Cells(sparse.csr_matrix(X)), 3, start=dense)).factors
        np.testing.assert_allclose(other.bias, dense.bias, atol=1e-8)
        np.testing.assert_allclose(other.matrix(), dense.matrix(), atol=1e-8)

    def test_a_margin_that_holds_changes_nothing(self, recwarn):
        true = truth(14)
        T = true.matrix()
        X = rectified(true)
        margins = [column[column > 0.0].min() - column[column <= 0.0].max() for column in T.T]
        recovered = Likelihood(NORMAL, nu=0.99 * min(margins)).recover(task_of(X))
        assert in_set_29(low_rank(recovered.factors), X, nu=0.99 * min(margins), tolerance=1e-7)
        np.testing.assert_allclose(recovered.factors.matrix(), T, atol=1e-8)
        assert not recwarn.list

    def test_a_margin_that_no_matrix_keeps(self):
        X = rectified(truth(14))
        with warns("partial-recovery", match=r"rank 3 with the margin nu=0.5 .* relative residual of 0\.0"):
            recovered = Likelihood(NORMAL, nu=0.5).recover(task_of(X))
        assert recovered.residual > 1e-3


def solved(X, radius, p=NORMAL, gamma=np.inf, nu=0.0, tolerance=1e-7, rounds=4000):
    """(M, b) of the nuclear program, before any truncation."""
    feasible, density = feasible_of(X, gamma, nu), BiasDensity.of(p)
    feasible.check(density)
    start = np.zeros_like(X), np.zeros(X.shape[1])
    task = task_of(X, 2, tolerance=tolerance, max_iterations=rounds)
    *found, _, done = solve_nuclear(task, X, feasible, density, radius, start)
    assert done
    return found


def by_slsqp(X, radius, p, gamma, nu):
    """The same in the variables b_j and zero cells, all constraints as they are written; a slow reference."""
    d = X.shape[1]
    zero = X <= 0.0
    never = zero.all(axis=0)

    def matrix(theta):
        M = X - theta[:d]
        M[zero] = theta[d:]
        return M

    def linear(theta):
        M = matrix(theta)
        lowest = [-theta[j] if never[j] else M[~zero[:, j], j].min() - nu for j in range(d)]
        margins = (lowest - M)[zero]
        return np.concatenate([margins, (gamma - M).ravel(), (gamma + M).ravel()])

    def ball_slope(theta):
        u, _, vt = np.linalg.svd(matrix(theta), full_matrices=False)
        normal = -u @ vt
        return np.concatenate([np.where(zero, 0.0, -normal).sum(axis=0), normal[zero]])

    def cost(theta):
        return -np.where(never, p.logcdf(theta[:d]), p.logpdf(theta[:d])).sum()

    def cost_slope(theta):
        step = 1e-6
        ends = theta[:d] + step, theta[:d] - step
        up, down = (np.where(never, p.logcdf(b), p.logpdf(b)) for b in ends)
        return np.concatenate([(down - up) / (2.0 * step), np.zeros(int(zero.sum()))])

    start = np.zeros(d + int(zero.sum()))
    slopes = np.stack([linear(start + unit) - linear(start) for unit in np.eye(len(start))], axis=1)
    constraints = [
        {"type": "ineq", "fun": linear, "jac": lambda theta: slopes},
        {"type": "ineq", "fun": lambda theta: radius - np.linalg.norm(matrix(theta), "nuc"), "jac": ball_slope},
    ]
    options = {"maxiter": 500, "ftol": 1e-11}
    end = minimize(cost, start, jac=cost_slope, method="SLSQP", constraints=constraints, options=options)
    return matrix(end.x), -end.fun


class TestNuclear:
    @pytest.fixture
    def tiny(self):
        """6 x 5, rank 2, with one column that is never positive; the widest column spans 2."""
        rng = np.random.default_rng(3)
        X = np.maximum(rng.standard_normal((6, 2)) @ rng.standard_normal((2, 5)) + 0.7 * rng.standard_normal(5), 0.0)
        X[:, 3] = 0.0
        return X * 2.0 / max(np.ptp(x[x > 0.0]) for x in X.T if x.any())

    @pytest.mark.parametrize(("gamma", "nu"), [(3.0, 0.0), (1.2, 0.2)])
    @pytest.mark.parametrize("p", [stats.norm(-1.0, 1.0), stats.logistic(-0.5, 0.6), stats.norm(1.5, 0.4)])
    def test_against_slsqp(self, tiny, p, gamma, nu):
        literal, _ = literal_program(tiny, feasible_of(tiny, gamma, nu), BiasDensity.of(p))
        radius = 0.7 * np.linalg.norm(literal, "nuc")
        matrix, _ = solved(tiny, radius, p, gamma, nu)
        assert in_set_29(matrix, tiny, gamma, nu)
        assert np.linalg.norm(matrix, "nuc") <= radius * (1.0 + 1e-5)
        other, reference = by_slsqp(tiny, radius, p, gamma, nu)
        np.testing.assert_allclose(matrix[tiny > 0.0], other[tiny > 0.0], atol=3e-3)
        ours = log_likelihood(matrix, tiny, p)
        assert ours < log_likelihood(literal, tiny, p) - 1e-3  # the ball is felt
        assert ours == pytest.approx(reference, abs=2e-5)

    def test_a_wider_ball_is_likelier_and_a_wide_one_is_no_constraint(self, tiny):
        p, gamma = stats.norm(-1.0, 1.0), 3.0
        literal, _ = literal_program(tiny, feasible_of(tiny, gamma), BiasDensity.of(p))
        norm = np.linalg.norm(literal, "nuc")
        values = [log_likelihood(solved(tiny, share * norm, p, gamma)[0], tiny, p) for share in (0.5, 0.6, 0.7)]
        best = log_likelihood(literal, tiny, p)
        assert values[0] < values[1] - 1e-3
        assert values[1] < values[2] - 1e-3
        assert values[2] < best - 1e-3
        recovered = Likelihood(p, gamma=gamma, constraint="nuclear", nuclear_norm=1.01 * norm).recover(task_of(tiny, 2))
        same = Likelihood(p, gamma=gamma, constraint="none").recover(task_of(tiny, 2))
        np.testing.assert_allclose(recovered.factors.matrix(), same.factors.matrix(), atol=1e-6)

    @pytest.mark.parametrize("p", [NORMAL, stats.laplace(0.0, 1.0), stats.uniform(-3.0, 6.0)])
    def test_no_feasible_neighbour_is_likelier(self, p):
        """The set is convex: towards every other matrix in it, the concave likelihood must fall."""
        true = truth(20, n=40, d=12, k=2)
        X = rectified(true)
        radius = np.linalg.norm(low_rank(true), "nuc")
        matrix, _ = solved(X, radius, p, tolerance=1e-6)
        assert in_set_29(matrix, X)
        assert np.linalg.norm(matrix, "nuc") <= radius * (1.0 + 1e-5)
        ours = log_likelihood(matrix, X, p)
        others = [low_rank(true)]
        others += [solved(X, radius, stats.norm(m, s), tolerance=1e-6)[0] for m, s in [(-1, 1), (0.2, 0.3), (1, 1)]]
        for other in others:
            assert in_set_29(other, X)
            for share in (0.001, 0.1, 1.0):
                nearby = matrix + share * (other - matrix)
                assert log_likelihood(nearby, X, p) <= ours + 1e-4

    def test_rounds(self):
        """166 for 1e-5 when this was written, and 1014 without mixing."""
        true = truth(20, n=60, d=20, k=2)
        solved(rectified(true), np.linalg.norm(low_rank(true), "nuc"), tolerance=1e-5, rounds=300)

    def test_missing_cells(self):
        """A missing cell has no constraint: hiding zero cells can only raise the likelihood."""
        true = truth(21, n=40, d=12, k=2)
        X = rectified(true)
        hidden = X.copy()
        hidden[::5, ::2] = np.nan
        radius = np.linalg.norm(low_rank(true), "nuc")
        seen, unbounded = solved(X, radius, tolerance=1e-6)[0], solved(hidden, radius, tolerance=1e-6)[0]
        assert np.isfinite(unbounded).all()
        assert in_set_29(unbounded, hidden)
        assert log_likelihood(unbounded, hidden, NORMAL) > log_likelihood(seen, X, NORMAL) + 1e-3

    def test_the_method_watches_and_returns_the_truncation(self, tiny):
        reported = []
        p = stats.norm(-1.0, 1.0)
        method = Likelihood(p, gamma=3.0, constraint="nuclear", nuclear_norm=5.0)
        recovered = method.recover(
            task_of(tiny, 2, progress=lambda step: reported.append(step.state), max_iterations=2000)
        )
        assert recovered.converged
        assert recovered.fixed_bias
        assert [one.iterations for one in reported] == list(range(1, recovered.iterations + 1))
        assert all(one.factors.loadings.shape == (5, 2) and one.residual >= 0.0 for one in reported)
        matrix, bias = solved(tiny, 5.0, p, 3.0)
        u, s, vt = np.linalg.svd(matrix)
        np.testing.assert_allclose(low_rank(recovered.factors), (u[:, :2] * s[:2]) @ vt[:2], atol=2e-3)
        seen = (tiny > 0.0).any(axis=0)
        np.testing.assert_allclose(recovered.factors.bias[seen], bias[seen], atol=2e-3)
        # Of the biases that keep a column at its floor, the most likely: here the mode.
        assert recovered.factors.bias[3] == pytest.approx(-1.0, abs=1e-6)
        reported.clear()
        again = task_of(
            tiny, 2, start=recovered.factors, progress=lambda step: reported.append(step.state), max_iterations=2000
        )
        going_on = method.recover(again)
        np.testing.assert_allclose(low_rank(reported[0].factors), low_rank(recovered.factors), atol=1e-9)
        np.testing.assert_allclose(going_on.factors.bias[seen], recovered.factors.bias[seen], atol=5e-3)

    def test_without_gamma_a_column_that_is_never_positive_stays_finite(self, tiny):
        norm = np.linalg.norm(np.where(tiny > 0.0, tiny + 1.0, 0.0), "nuc")
        method = Likelihood(stats.norm(-1.0, 1.0), constraint="nuclear", nuclear_norm=0.9 * norm)
        recovered = method.recover(task_of(tiny, 2, max_iterations=3000))
        assert recovered.converged
        assert np.isfinite(recovered.factors.matrix()).all()

    @pytest.mark.parametrize(("radius", "rounds"), [(1.0, 300), (5.0, 3)])
    def test_warns_when_it_has_not_converged(self, tiny, radius, rounds):
        method = Likelihood(stats.norm(-1.0, 1.0), gamma=3.0, constraint="nuclear", nuclear_norm=radius)
        with pytest.warns(ConvergenceWarning, match=f"max_iterations={rounds}: .*nuclear_norm={radius:g} is the bound"):
            recovered = method.recover(task_of(tiny, 2, max_iterations=rounds))
        assert not recovered.converged


class TestPieces:
    @pytest.mark.parametrize("rho", [0.02, pytest.param(1.0, marks=pytest.mark.slow)])
    def test_nearest_point_of_the_likelihoods_side(self, rho):
        """No member of (29) has a lower f(M) + rho/2 |M - V|^2; V leaves the box on both sides, one cell is missing."""
        rng = np.random.default_rng(1)
        gamma, nu, p = 1.6, 0.2, stats.logistic(0.3, 0.5)
        X = TINY.copy()
        X[3, 0] = np.nan
        V = rng.uniform(-3.0, 3.0, size=X.shape)
        nearest = likelihood_side(X, feasible_of(X, gamma, nu), BiasDensity.of(p))
        matrix, best_bias = nearest(V, rho, np.zeros(4))

        def cost(M):
            return -log_likelihood(M, X, p) + 0.5 * rho * ((M - V) ** 2).sum()

        assert in_set_29(matrix, X, gamma, nu)
        assert (matrix == -gamma).any()
        others = 0
        for size in (1e-3, 1e-2, 0.1, 1.0):
            for _ in range(400):
                one = rng.integers(4) == np.arange(4)  # one column's b moves, and zero cells, or they are V itself
                bias = best_bias + size * rng.standard_normal() * one
                zeros = rng.choice([V, matrix + size * rng.standard_normal((4, 4)) * one])
                M = np.where(X > 0.0, X - bias, np.clip(zeros, -gamma, gamma))
                ceiling = np.where(X > 0.0, M, np.inf).min(axis=0) - nu
                M = np.where(X <= 0.0, np.minimum(M, ceiling), M)
                if in_set_29(M, X, gamma, nu):
                    others += 1
                    assert cost(matrix) <= cost(M) + 1e-9
        assert others > 100

    def test_projection_on_the_ball(self):
        """Inside, and at an angle of at least 90 degrees from every other point of the ball."""
        rng = np.random.default_rng(0)
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        steep = turn @ np.diag([3.0, 1e-4, 1e-6]) @ turn.T
        for matrix in (rng.standard_normal((7, 4)), rng.standard_normal((4, 7)), steep):
            for radius in np.array([0.4, 0.999999]) * np.linalg.norm(matrix, "nuc"):
                u, s, vt = project_on_ball(matrix, radius)
                projected = (u * s) @ vt
                np.testing.assert_allclose(u.T @ u, np.eye(len(s)), atol=1e-10)
                assert s.sum() == pytest.approx(radius, rel=1e-12)
                for _ in range(200):
                    other = rng.standard_normal((len(matrix), 1)) @ rng.standard_normal((1, matrix.shape[1]))
                    other *= radius / np.linalg.norm(other, "nuc")
                    assert ((matrix - projected) * (other - projected)).sum() <= 1e-12
            u, s, vt = project_on_ball(matrix, 1e3)
            np.testing.assert_allclose((u * s) @ vt, matrix, atol=1e-12)

    def test_roots(self):
        """Steep, flat, kinked, at either end, and from far away: x = sinh(y), a step, |x|."""

        def function(x):
            value = [
                np.sinh(x[0] - 3.0),
                (x[1] - 1.0) ** 3,
                np.sign(x[2] - 0.3) + 1e-3 * x[2],
                x[3] + 10.0,
                x[4] - 10.0,
            ]
            slope = [np.cosh(x[0] - 3.0), 3.0 * (x[1] - 1.0) ** 2, 1e-3, 1.0, 1.0]
            return np.array([*value, x[5] - 1e6]), np.array([*slope, 1.0])

        low, high = (
            np.array([-np.inf, -np.inf, -5.0, -5.0, -5.0, -np.inf]),
            np.array([np.inf, np.inf, 5.0, 5.0, 5.0, np.inf]),
        )
        roots = increasing_root(function, np.zeros(6), low, high, 1.0)
        np.testing.assert_allclose(roots, [3.0, 1.0, 0.3, -5.0, 5.0, 1e6], atol=1e-8, rtol=1e-9)


class TestBadInput:
    X = rectified(truth(30))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"bias_density": stats.poisson(3.0)}, "bias_density is discrete and has no density"),
            (
                {"bias_density": lambda b: -(b**2)},
                r"frozen continuous distribution .* such as scipy.stats.norm\(0, 1\)",
            ),
            ({"bias_density": "normal"}, "frozen continuous distribution .* got 'normal'"),
            ({"bias_density": None}, "frozen continuous distribution .* got None"),
            ({"bias_density": stats.gamma}, "frozen continuous distribution"),
            ({"bias_density": stats.multivariate_normal([0.0, 1.0])}, "frozen continuous distribution"),
            ({"bias_density": stats.norm([0.0, 1.0], 1.0)}, "with scalar parameters"),
            ({"bias_density": stats.norm(0.0, -1.0)}, "invalid parameters: its quartiles are nan"),
            ({"gamma": 0.0}, "gamma must be a finite number above 0"),
            ({"gamma": -2.0}, "gamma must be a finite number above 0"),
            ({"gamma": np.inf}, "gamma must be a finite number above 0"),
            ({"nu": -0.1}, "nu must be a finite number of at least 0, got -0.1"),
            ({"nu": np.nan}, "nu must be a finite number of at least 0"),
            ({"nu": "0"}, "nu must be a finite number of at least 0"),
            ({"constraint": "nuclar"}, "Unknown constraint 'nuclar'. Did you mean 'nuclear'?"),
            ({"constraint": "nuclear"}, "constraint='nuclear' needs nuclear_norm"),
            ({"constraint": "nuclear", "nuclear_norm": 0.0}, "nuclear_norm must be a finite number above 0"),
            ({"nuclear_norm": 3.0}, "no effect with constraint='rank'"),
        ],
    )
    def test_parameters(self, options, message):
        with pytest.raises(InvalidParameterError, match=message):
            Likelihood(**{"bias_density": NORMAL, **options})

    @pytest.mark.parametrize("constraint", ["rank", "none", "nuclear"])
    def test_a_model_without_bias(self, constraint):
        method = Likelihood(NORMAL, 9.0, 0.0, constraint, 5.0 if constraint == "nuclear" else None)
        with pytest.raises(InvalidParameterError, match="cannot fit a model without them: ask for a bias"):
            method.recover(task_of(self.X, free_bias=False))

    @pytest.mark.parametrize("constraint", ["rank", "none", "nuclear"])
    def test_gamma_smaller_than_a_columns_span(self, constraint):
        """2 gamma - nu where the column has zeros, 2 gamma where it has none: just enough is no error."""
        X = np.array([[5.0, 1.0], [1.0, 1.5], [2.0, 0.0]])
        feasible_of(X, 2.0, 0.5).check(BiasDensity.of(NORMAL))
        method = Likelihood(NORMAL, 1.9, 0.5, constraint, 5.0 if constraint == "nuclear" else None)
        with pytest.raises(
            InvalidParameterError,
            match=r"gamma=1.9 is too small for column 0: .* span 4, .* 2 gamma = 3.8. .* least 2\.",
        ):
            method.recover(task_of(X, 1))
        with pytest.raises(
            InvalidParameterError, match=r"of column 1 span 0.5, .* 2 gamma - nu = 0.4. .* least 0.55 or lower nu"
        ):
            Likelihood(NORMAL, 0.5, 0.6, constraint, method.nuclear_norm).recover(
                task_of(X[:, [1, 1]][:, ::-1] * [0, 1], 1)
            )

    @pytest.mark.parametrize("constraint", ["rank", "none", "nuclear"])
    def test_support_that_misses_what_gamma_asks_for(self, constraint):
        """Column 0 needs a bias in [5 - 2.5, 1 + 2.5]."""
        X = np.array([[5.0, 1.0], [1.0, 1.5], [0.0, 0.0]])
        method = Likelihood(stats.uniform(-1.0, 2.0), 2.5, 0.0, constraint, 5.0 if constraint == "nuclear" else None)
        with pytest.raises(
            InvalidParameterError, match=r"in \[-1, 1\] only, and gamma=2.5 .* \[2.5, 3.5\] in column 0"
        ):
            method.recover(task_of(X, 1))
        feasible_of(X, 4.5).check(BiasDensity.of(stats.uniform(-1.0, 2.0)))

    def test_support_above_what_keeps_a_column_at_its_floor(self):
        X = np.array([[5.0, 0.0], [6.0, 0.0]])
        with pytest.raises(
            InvalidParameterError, match=r"in \[3, 4\] only, and gamma=2 asks for one in \[-2, 2\] in column 1"
        ):
            Likelihood(stats.uniform(3.0, 1.0), 2.0, constraint="none").recover(task_of(X, 1))

    def test_gamma_that_no_gauge_meets(self):
        """The least |M|_inf of any split is named, and just enough."""
        with pytest.raises(InvalidParameterError, match=r"every way to split .* an .M._inf of at least") as error:
            Likelihood(NORMAL, gamma=0.55 * self.X.max()).recover(task_of(self.X))
        least = float(str(error.value).split("at least ")[1].split(". Raise")[0])
        found = Likelihood(NORMAL, gamma=least * (1.0 + 1e-5)).recover(task_of(self.X)).factors
        assert np.abs(low_rank(found)).max() <= least * (1.0 + 1e-5) * (
            1.0 + 1e-9
        )  # the optimiser meets a bound to rounding

    def test_support_that_no_gauge_meets(self):
        with pytest.raises(InvalidParameterError, match=r"biases in \[0, 0.1\] only, and no way .* misses by") as error:
            Likelihood(stats.uniform(0.0, 0.1)).recover(task_of(self.X))
        miss = float(str(error.value).split("misses by ")[1].split(". Give")[0]) + 1e-5
        wide = stats.uniform(-miss, 0.1 + 2.0 * miss)
        assert Likelihood(wide).recover(task_of(self.X)).converged

    def test_gamma_and_support_that_cannot_both_hold(self):
        """Rows with mean 1 and biases within 0.1 of 0: gamma alone would centre the rows, the support forbids it."""
        narrow = stats.uniform(-0.1, 0.2)
        true = truth(31, n=300, density=narrow, mean=1.0)
        X = rectified(true)
        gamma = max(X.max() + 0.1, 1.01 * np.abs(low_rank(true.balance())).max())  # no column objects by itself
        for options in ({"bias_density": narrow}, {"bias_density": NORMAL, "gamma": gamma}):
            np.testing.assert_allclose(
                Likelihood(**options).recover(task_of(X)).factors.matrix(), true.matrix(), atol=1e-8
            )
        with pytest.raises(InvalidParameterError, match=r"support \[-0.1, 0.1\] cannot both hold"):
            Likelihood(narrow, gamma=gamma).recover(task_of(X))
