import numpy as np
import pytest
from scipy.optimize import minimize

from unrelu.contracts import PairCorrelations
from unrelu.fit import nearest as covariance
from unrelu.fit.nearest import nearest_correlation, nearest_covariance

INDEFINITE = np.array([[1.0, 0.9, -0.7], [0.9, 1.0, 0.6], [-0.7, 0.6, 1.0]])


def weighted_loss(x, r, stderr):
    upper = np.triu_indices(len(r), 1)
    return float(np.sum(((x - r)[upper] / stderr[upper]) ** 2))


def best_by_general_optimizer(r, stderr, rank):
    """Rows of a factor on the unit sphere, from many starts."""
    d = len(r)

    def loss(theta):
        u = theta.reshape(d, rank)
        u = u / np.linalg.norm(u, axis=1, keepdims=True)
        return weighted_loss(u @ u.T, r, stderr)

    rng = np.random.default_rng(0)
    results = [minimize(loss, rng.standard_normal(d * rank), method="BFGS") for _ in range(12)]
    return min(result.fun for result in results)


def test_a_semidefinite_matrix_is_kept_exactly():
    r = np.array([[1.0, 0.3], [0.3, 1.0]])
    covariance, nearest = nearest_covariance(np.array([2.0, 3.0]), PairCorrelations(r, np.full((2, 2), 0.1)))
    np.testing.assert_allclose(covariance, [[4.0, 1.8], [1.8, 9.0]], rtol=1e-15)
    assert (nearest.shift_max, nearest.rounds) == (0.0, 0)


@pytest.mark.parametrize("stderr", [[0.1, 0.1, 0.1], [0.01, 0.1, 0.05], [0.2, 0.02, 0.02]])
def test_projection_reaches_the_weighted_optimum(stderr):
    errors = np.zeros((3, 3))
    errors[np.triu_indices(3, 1)] = stderr
    errors += errors.T
    x, _, _ = nearest_correlation(INDEFINITE, errors, 3)
    assert np.linalg.eigvalsh(x)[0] > -1e-12
    np.testing.assert_allclose(np.diag(x), 1.0)
    best = best_by_general_optimizer(INDEFINITE, errors, 3)
    assert weighted_loss(x, INDEFINITE, errors) < 1.1 * best


def test_precise_entries_move_less():
    errors = np.full((3, 3), 0.2)
    errors[0, 1] = errors[1, 0] = 0.02
    x, _, _ = nearest_correlation(INDEFINITE, errors, 3)
    moved = np.abs(x - INDEFINITE)
    assert 5 * moved[0, 1] < min(moved[0, 2], moved[1, 2])


@pytest.mark.slow  # a study
def test_the_rank_is_the_given_one_and_nearly_optimal():
    rng = np.random.default_rng(1)
    w = rng.standard_normal((8, 2))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    noise = 0.03 * rng.standard_normal((8, 8))
    r = w @ w.T + (noise + noise.T) / np.sqrt(2)
    np.fill_diagonal(r, 1.0)
    errors = np.full((8, 8), 0.03)
    covariance, nearest = nearest_covariance(np.ones(8), PairCorrelations(r, errors), rank=2)
    values = np.linalg.eigvalsh(covariance)
    assert np.all(np.abs(values[:-2]) < 1e-12)
    assert values[-2] > 0.1
    assert weighted_loss(covariance, r, errors) < 1.1 * best_by_general_optimizer(r, errors, 2)
    # The rank is true, so the projection removes noise.
    assert np.linalg.norm(covariance - w @ w.T) < np.linalg.norm(r - w @ w.T)
    assert nearest.shift_max > 0


def test_report_says_how_far_it_moved():
    errors = np.full((3, 3), 0.1)
    covariance, nearest = nearest_covariance(np.ones(3), PairCorrelations(INDEFINITE, errors))
    off = np.abs(covariance - INDEFINITE)[np.triu_indices(3, 1)]
    assert nearest.shift_max == pytest.approx(off.max())
    assert nearest.shift_rms == pytest.approx(np.sqrt(np.mean(off**2)))
    assert nearest.smallest_eigenvalue == pytest.approx(np.linalg.eigvalsh(INDEFINITE)[0])


def test_constant_and_exact_columns_do_not_break_the_weights():
    errors = np.full((4, 4), 0.1)
    r = np.eye(4)
    r[:3, :3] = INDEFINITE
    errors[3] = errors[:, 3] = np.nan
    errors[0, 1] = errors[1, 0] = 0.0
    covariance, _ = nearest_covariance(np.array([1.0, 1.0, 1.0, 0.0]), PairCorrelations(r, errors))
    assert np.isfinite(covariance).all()
    assert np.linalg.eigvalsh(covariance)[0] > -1e-12
    assert covariance[0, 1] == pytest.approx(0.9, abs=0.02)


def test_one_column():
    covariance, _ = nearest_covariance(np.array([3.0]), PairCorrelations(np.eye(1), np.zeros((1, 1))))
    np.testing.assert_array_equal(covariance, [[9.0]])


@pytest.mark.parametrize("rank", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_rank_below_the_true_one_is_still_nearly_optimal(rank):
    rng = np.random.default_rng(3)
    w = rng.standard_normal((7, 3))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    r, errors = w @ w.T, np.full((7, 7), 0.05)
    x, _, _ = nearest_correlation(r, errors, rank)
    assert np.linalg.matrix_rank(x, tol=1e-8) == rank
    assert weighted_loss(x, r, errors) < 1.05 * best_by_general_optimizer(r, errors, rank)


@pytest.mark.parametrize("constants", [1, 2])
def test_constant_columns_do_not_disturb_a_rank_constraint(constants):
    rng = np.random.default_rng(4)
    w = rng.standard_normal((5, 2))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    d = 5 + constants
    r, errors = np.eye(d), np.full((d, d), np.nan)
    r[:5, :5], errors[:5, :5] = w @ w.T, 0.05
    scale = np.r_[np.ones(5), np.zeros(constants)]
    covariance, _ = nearest_covariance(scale, PairCorrelations(r, errors), rank=2)
    np.testing.assert_allclose(covariance[:5, :5], w @ w.T, atol=1e-6)
    assert not covariance[5:].any()


def contradictory(d, n, seed=5):
    """Correlations of n rows with errors of their own, and standard errors that differ by pair."""
    rng = np.random.default_rng(seed)
    r = np.corrcoef((rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + rng.standard_normal((n, d))).T)
    stderr = np.triu(rng.uniform(0.05, 0.2, (d, d)), 1)
    noise = stderr * np.triu(rng.standard_normal((d, d)), 1)
    return np.clip(r + noise + noise.T, -1.0, 1.0), stderr + stderr.T


@pytest.mark.parametrize(("d", "n"), [(40, 40), (230, 230), (230, 60)])  # double, single precision; vectors followed
def test_the_optimum_is_certified_by_its_multipliers(d, n):
    """The gradient is a semidefinite S with S X = 0, but for its diagonal, which S X = 0 settles: X has ones there."""
    r, stderr = contradictory(d, n)
    x, rounds, converged = nearest_correlation(r, stderr, d)
    assert converged
    assert rounds < 40
    assert np.linalg.eigvalsh(x)[0] > -1e-12
    s = (x - r) * (np.median(stderr[stderr > 0.0]) / np.where(stderr > 0.0, stderr, np.inf)) ** 2
    s -= np.diag(np.sum(s * x, axis=1))
    values = np.linalg.eigvalsh(s)
    assert values[0] > -0.01 * values[-1]
    assert np.linalg.norm(s @ x) < 0.01 * np.linalg.norm(s)


def test_what_a_followed_solution_lacks_is_noticed():
    """Directions that V gained while others were followed; without the last look they would stay out of X."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((6, 2))
    x = loadings @ loadings.T
    below = np.linalg.qr(np.hstack([loadings, rng.standard_normal((6, 4))]))[0][:, 2:]
    v = x - below @ below.T
    assert covariance._reaches(x, v, 1e-6)
    assert not covariance._reaches(x, v + 1.1 * np.outer(below[:, 0], below[:, 0]), 1e-2)


def test_mixed_rounds_that_go_astray_are_taken_back():
    mixing, rng = covariance.Mixing(), np.random.default_rng(0)
    steps = [scale * rng.standard_normal((4, 4)) for scale in (1.0, 0.5, 3.0, 0.4)]
    places = [rng.standard_normal((4, 4)) for _ in steps]
    np.testing.assert_allclose(mixing.next(places[0], steps[0]), places[0])
    mixing.next(places[1], steps[1])
    assert mixing.next(places[2], steps[2]) is places[1]  # the shortest step led there
    np.testing.assert_allclose(mixing.next(places[3], steps[3]), places[3])  # nothing is left to mix with
