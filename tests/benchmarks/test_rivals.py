"""A-NMD, 3B-NMD and eBCD: what they find, against their equations written out, and when they stop."""

import numpy as np
import pytest
import scipy.sparse

from benchmarks.rivals.a_nmd import ANMD, _Pace
from benchmarks.rivals.ebcd import EBCD
from benchmarks.rivals.latent_matrix import LatentMatrix, low_rank_fit, read_off
from benchmarks.rivals.three_block import ThreeBlock
from unrelu.recovery.matrix.descent import Task
from unrelu.recovery.matrix.factors import Cells, Factors

METHODS = [ANMD(), ThreeBlock(), EBCD()]
every_method = pytest.mark.parametrize("method", METHODS, ids=["a_nmd", "three_block", "ebcd"])


def latent_matrix(seed, n=200, d=60, k=4, bias=False):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((n, k)) @ rng.standard_normal((k, d))
    return theta + 0.5 + 0.3 * rng.standard_normal(d) if bias else theta


def table(theta, missing=0.0):
    values = np.maximum(theta, 0.0)
    values[np.random.default_rng(9).random(values.shape) < missing] = np.nan
    return values


def task_of(values, rank=4, free_bias=False, **others):
    return Task(Cells(values), rank, free_bias=free_bias, **others)


def history(method, **task):
    """What a watcher hears: iteration, residual and Theta."""
    heard = []
    progress = lambda step: heard.append((step.done, step.state.residual, step.state.factors.matrix()))  # noqa: E731
    found = method.recover(task_of(progress=progress, **task))
    return found, heard


# --- the equations, written out -----------------------------------------------------------------


def projection(values, theta):
    z = theta.copy()
    for i, j in np.ndindex(*values.shape):
        if values[i, j] > 0.0:
            z[i, j] = values[i, j]
        elif values[i, j] == 0.0:
            z[i, j] = min(0.0, theta[i, j])
    return z


def relative_residual(values, theta):
    seen = ~np.isnan(values)
    misfit = np.where(values > 0.0, values - theta, np.maximum(theta, 0.0))
    return np.linalg.norm(misfit[seen]) / np.linalg.norm(values[seen])


def truncated_svd(z, rank):
    u, s, vt = np.linalg.svd(z, full_matrices=False)
    return u[:, :rank] @ np.diag(s[:rank]) @ vt[:rank]


def literal_a_nmd(values, z_old, theta_old, rank, iterations):
    b, b_before, bound, before = 0.9, 0.9, 1.0, np.inf
    fits, kept = [], []
    for _ in range(iterations):
        z = projection(values, theta_old)
        z = z + b * (z - z_old)
        fit = truncated_svd(z, rank)
        fits.append(fit)
        theta = fit + b * (fit - theta_old)
        distance = np.linalg.norm(z - theta)
        kept.append(distance < before)
        if kept[-1]:
            b_new = min(bound, 1.1 * b)
            bound = min(1.0, 1.05 * b_new)
            z_old, theta_old = z, theta
        else:
            b_new, bound = 0.4 * b, b_before
        b, b_before, before = b_new, b, distance
    return fits, kept


def literal_three_block(values, z_old, w, h, b, iterations):
    theta_old = theta = w @ h
    fits = []
    for _ in range(iterations):
        z = projection(values, theta)
        z = z + b * (z - z_old)
        w = np.linalg.lstsq(h.T, z.T, rcond=None)[0].T
        h = np.linalg.lstsq(w, z, rcond=None)[0]
        fits.append(w @ h)
        theta = w @ h + b * (w @ h - theta_old)
        z_old, theta_old = z, theta
    return fits


def literal_ebcd(values, w, h, iterations, alpha=1.0):
    mu, z = 0.3, projection(values, w @ h)
    fits, alphas = [], []
    for _ in range(iterations):
        alphas.append(alpha)
        extrapolated = alpha * z + (1.0 - alpha) * (w @ h)
        q = np.linalg.qr(extrapolated @ h.T)[0]
        g = q.T @ extrapolated
        ratio = np.linalg.norm(projection(values, q @ g) - q @ g) / np.linalg.norm(z - w @ h)
        if ratio < 1.0:
            w, h, z = q, g, projection(values, q @ g)
            if ratio > 0.8:
                mu = max(mu, (alpha - 1.0) / 4.0)
                alpha = min(alpha + mu, 4.0)
                alpha = 1.0 if alpha == 4.0 else alpha
        else:
            alpha = 1.0
        fits.append(w @ h)
    return fits, alphas


def start_of(values, rank):
    return LatentMatrix.of(Cells(values)).start(task_of(values, rank))


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_nmd_is_its_equations(missing):
    values = table(latent_matrix(0, 40, 25, 3), missing)
    z, w, h = start_of(values, 3)
    fits, kept = literal_a_nmd(values, z, w @ h, 3, 30)
    assert 1 <= kept.count(False) < 10  # the momentum was restarted
    _, heard = history(ANMD(accuracy=1e-12), values=values, rank=3, max_iterations=30)
    for fit, (_, _, theta) in zip(fits, heard, strict=True):
        np.testing.assert_allclose(theta, fit, atol=1e-7)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_three_block_is_its_equations(missing):
    values = table(latent_matrix(1, 40, 25, 3), missing)
    fits = literal_three_block(values, *start_of(values, 3), 0.6, 30)
    _, heard = history(ThreeBlock(momentum=0.6), values=values, rank=3, max_iterations=30)
    for fit, (_, _, theta) in zip(fits, heard, strict=True):
        np.testing.assert_allclose(theta, fit, atol=1e-10)


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("alpha", [1.0, 30.0])
def test_ebcd_is_its_equations(missing, alpha):
    values = table(latent_matrix(2, 40, 25, 3), missing)
    _, w, h = start_of(values, 3)
    fits, alphas = literal_ebcd(values, w, h, 40, alpha)
    assert max(alphas[1:]) > 3.0  # it grew
    assert 1.0 in alphas[2:]  # and went back
    _, heard = history(EBCD(extrapolation=alpha), values=values, rank=3, max_iterations=40)
    for fit, (_, _, theta) in zip(fits, heard, strict=True):
        np.testing.assert_allclose(theta, fit, atol=1e-10)


# --- what they find -----------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_theta_is_recovered_where_it_fits_exactly(method, bias, seed):
    theta = latent_matrix(seed, bias=bias)
    found = method.recover(task_of(table(theta), free_bias=bias, tolerance=1e-10, max_iterations=2000))
    assert found.converged
    assert np.abs(found.factors.matrix() - theta).max() < 1e-7
    assert found.factors.rank == 4
    if bias:
        np.testing.assert_allclose(found.factors.bias, theta.mean(axis=0), atol=1e-7)
    else:
        assert found.factors.bias is None


@every_method
@pytest.mark.parametrize("bias", [False, True])
def test_missing_cells_are_filled_in(method, bias):
    theta = latent_matrix(3, bias=bias)
    values = table(theta, missing=0.1)
    found = method.recover(task_of(values, free_bias=bias, tolerance=1e-10, max_iterations=3000))
    assert found.residual <= 1e-10
    assert np.abs(found.factors.matrix() - theta).max() < 1e-6
    assert np.isnan(values).any()  # the table was left alone


@every_method
def test_sparse_cells_are_the_same_table(method):
    values = table(latent_matrix(4, 60, 30, 3))
    dense = method.recover(task_of(values, 3, max_iterations=20))
    sparse = method.recover(Task(Cells(scipy.sparse.csr_array(values)), 3, free_bias=False, max_iterations=20))
    np.testing.assert_array_equal(sparse.factors.matrix(), dense.factors.matrix())


@every_method
@pytest.mark.parametrize("free_bias", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_residual_is_that_of_the_factors(method, free_bias, missing):
    theta = latent_matrix(5) + 0.3 * np.random.default_rng(6).standard_normal((200, 60))  # no exact fit
    values = table(theta, missing)
    found, heard = history(method, values=values, free_bias=free_bias, max_iterations=15)
    assert found.residual == pytest.approx(relative_residual(values, found.factors.matrix()), rel=1e-12)
    for _, residual, fitted in heard:
        assert residual == pytest.approx(relative_residual(values, fitted), rel=1e-9)


@every_method
def test_a_table_of_zeros_needs_no_iteration(method):
    found = method.recover(task_of(np.zeros((6, 5)), 2))
    assert (found.iterations, found.residual, found.converged) == (0, 0.0, True)


@every_method
def test_a_rank_above_the_true_one_still_fits(method):
    values = table(latent_matrix(6, k=2))
    found, heard = history(method, values=values, rank=5, max_iterations=300)
    assert found.residual < 0.2 * heard[0][1]  # slowly: many matrices of that rank fit
    assert np.isfinite(found.factors.matrix()).all()


# --- when they stop -----------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_the_tolerance_is_kept_and_not_overdone(method, bias, tolerance):
    found, heard = history(method, values=table(latent_matrix(7, bias=bias)), free_bias=bias, tolerance=tolerance)
    assert found.converged
    assert found.residual <= tolerance
    assert [iteration for iteration, _, _ in heard] == list(range(1, found.iterations + 1))
    if not bias:
        assert all(residual > tolerance for _, residual, _ in heard[:-1])


@every_method
def test_one_iteration_is_not_convergence(method):
    found, heard = history(method, values=table(latent_matrix(8)), max_iterations=1)
    assert (found.iterations, found.converged, len(heard)) == (1, False, 1)


@every_method
def test_no_progress_in_ten_iterations_ends_the_fit(method):
    theta = latent_matrix(9) + 0.5 * np.random.default_rng(6).standard_normal((200, 60))
    found, heard = history(method, values=table(theta), tolerance=1e-4, max_iterations=2000)
    residuals = np.array([residual for _, residual, _ in heard])
    assert found.converged
    assert found.residual > 1e-4
    change = np.abs(residuals[10:] - residuals[:-10])
    assert change[-1] <= 1e-5
    assert (change[:-1] > 1e-5).all()


def test_the_best_factors_are_given_back():
    found, heard = history(ThreeBlock(momentum=0.95), values=table(latent_matrix(10)), max_iterations=40)
    residuals = [residual for _, residual, _ in heard]
    assert residuals[-1] > 1.01 * min(residuals)  # the last were not the best
    assert found.residual == pytest.approx(min(residuals), rel=1e-9)


def test_ebcd_never_rises():
    _, heard = history(EBCD(), values=table(latent_matrix(11)), max_iterations=300)
    residuals = np.array([residual for _, residual, _ in heard])
    assert (np.diff(residuals) <= 0.0).all()
    assert residuals[-1] < 1e-4 * residuals[0]


def test_ebcd_refuses_a_step_that_does_not_help():
    values = table(latent_matrix(12))
    _, w, h = start_of(values, 4)
    _, heard = history(EBCD(extrapolation=30.0), values=values, max_iterations=2)
    assert heard[0][1] == pytest.approx(relative_residual(values, w @ h), rel=1e-12)
    assert heard[1][1] < heard[0][1]


def test_a_nmd_momentum_grows_while_it_helps_and_restarts():
    pace = _Pace(ANMD(momentum=0.5))
    seen = []
    for distance in [9.0, 8.0, 7.0, 7.5, 7.2, 7.0]:
        seen.append((pace.keeps(distance), pace.momentum))
    # grows by 1.1 at first, then by its bound's 1.05; after a rise 0.4 of it, and 1.1 up to the one before the rise
    expected = [0.55, 0.55 * 1.05, 0.55 * 1.05**2, 0.55 * 1.05**2 * 0.4]
    expected += [expected[-1] * 1.1, expected[-1] * 1.1 * 1.05]
    assert [kept for kept, _ in seen] == [True, True, True, False, True, True]
    np.testing.assert_allclose([momentum for _, momentum in seen], expected, rtol=1e-12)


def test_a_nmd_momentum_stays_below_one_that_did_not_help():
    pace = _Pace(ANMD(momentum=0.5, growth=1.6, bound_growth=1.2, shrinkage=0.9))
    kept = [pace.keeps(distance) for distance in [9.0, 8.0, 10.0, 9.0]]
    # 0.5 and 0.8 helped, 0.96 (the bound, not 1.28) did not: 0.864 is tried, and 0.8 bounds what follows
    assert kept == [True, True, False, True]
    assert pace.momentum == pytest.approx(0.8)


# --- where they start, and the bias ---------------------------------------------------------------


@every_method
@pytest.mark.parametrize("free_bias", [False, True])
def test_given_factors_are_gone_on_from(method, free_bias):
    values = table(latent_matrix(13, bias=free_bias))
    first = method.recover(task_of(values, free_bias=free_bias, tolerance=1e-6, max_iterations=1000))
    done = method.recover(task_of(values, free_bias=free_bias, tolerance=1e-5, start=first.factors))
    assert (done.iterations, done.converged) == (0, True)
    _, heard = history(method, values=values, free_bias=free_bias, max_iterations=1, start=first.factors)
    assert heard[0][1] <= first.residual


@every_method
def test_given_factors_may_have_another_rank(method):
    theta = latent_matrix(14)
    start = Factors(*(np.ones((size, 1)) for size in theta.shape), np.ones(60))
    found = method.recover(task_of(table(theta), tolerance=1e-10, max_iterations=2000, start=start))
    assert np.abs(found.factors.matrix() - theta).max() < 1e-7


def test_missing_cells_start_at_the_mean_of_their_column():
    values = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    start, _, _ = start_of(values, 1)
    np.testing.assert_array_equal(start, [[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])


def test_the_start_is_about_the_truncated_svd():
    values = table(latent_matrix(15))
    _, w, h = start_of(values, 4)
    best = np.linalg.norm(values - truncated_svd(values, 4))
    assert best <= np.linalg.norm(values - w @ h) < 1.01 * best
    np.testing.assert_allclose(w.T @ w, np.eye(4), atol=1e-12)
    narrow = values[:, :3]
    np.testing.assert_allclose(np.matmul(*low_rank_fit(narrow, 4)), narrow, atol=1e-10)


def test_the_bias_is_read_off_without_loss():
    theta = latent_matrix(16, bias=True)
    u, s, vt = np.linalg.svd(theta, full_matrices=False)
    factors = read_off(Factors(u[:, :5] * s[:5], vt[:5].T, None), 4)
    assert factors.rank == 4
    np.testing.assert_allclose(factors.matrix(), theta, atol=1e-12)
    np.testing.assert_allclose(factors.bias, theta.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(factors.latent.mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("method", [ANMD(), ThreeBlock(), EBCD()])
def test_whoever_watches_sees_factors_that_a_fit_can_go_on_from(method):
    """Not those of rank k + 1 that hold the bias as one more component."""
    seen = []
    values = table(latent_matrix(5, 60, 30, 3, bias=True))
    task = Task(Cells(values), n_components=3, max_iterations=4, progress=lambda step: seen.append(step.state.factors))
    method.recover(task)
    assert len(seen) == 4
    assert all(factors.rank == 3 and factors.bias is not None for factors in seen)


def test_deviating_cells_are_flagged_in_correlated_columns():
    from benchmarks.rivals.deviating_cells import flagged_cells

    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 1)) + 0.3 * rng.normal(size=(2000, 4))
    bad = rng.random(x.shape) < 0.02
    flagged = flagged_cells(np.where(bad, x + 4.0, x))
    assert flagged[bad].mean() > 0.95
    assert flagged[~bad].mean() < 0.03  # its quantile is 1 %
