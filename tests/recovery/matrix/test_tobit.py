"""Noise inside the rectifier: the likelihood's maximum, the noise's size, and what least squares loses."""

import numpy as np
import pytest

from tests.references import matrix as reference
from unrelu.recovery.matrix.descent import CensoredALS, Task, TobitEM, free_parameters
from unrelu.recovery.matrix.factors import Cells
from unrelu.recovery.matrix.newton import Descent


def draw(seed, noise, n=200, d=60, k=2):
    rng = np.random.default_rng(seed)
    T = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + 0.5 * rng.standard_normal(d)
    return T, np.maximum(T + noise * rng.standard_normal(T.shape), 0.0)


def test_the_objective_is_the_log_likelihood():
    T, X = draw(0, 0.4, n=12, d=6)
    X[0, 0] = np.nan
    sigma = 0.4
    shifted = T + 0.1 * np.random.default_rng(1).standard_normal(T.shape)

    def objective(matrix):
        return sum(reference.cell(x, t, sigma)[2] for x, t in zip(X.ravel(), matrix.ravel(), strict=True))

    gain = reference.tobit_log_likelihood(X, T, sigma) - reference.tobit_log_likelihood(X, shifted, sigma)
    assert (objective(shifted) - objective(T)) / sigma**2 == pytest.approx(gain, rel=1e-10)


@pytest.mark.parametrize("seed", range(2))
def test_the_end_is_stationary(seed):
    """Minus the penalized log-likelihood, by differences along random directions; and sigma at EM's fixed point."""
    _, X = draw(seed, 0.4, n=50, d=14)
    found = TobitEM().recover(Task(Cells(X), 2))
    assert found.converged
    C, A, b = found.factors.latent, found.factors.loadings, found.factors.bias
    penalty = found.ridge / found.noise**2

    def cost(t, dC, dA, db):
        moved = C + t * dC, A + t * dA, b + t * db
        squares = np.sum(moved[0] ** 2) + np.sum(moved[1] ** 2)
        return 0.5 * penalty * squares - reference.tobit_log_likelihood(
            X, moved[0] @ moved[1].T + moved[2], found.noise
        )

    rng = np.random.default_rng(seed)
    for _ in range(4):
        direction = [rng.standard_normal(part.shape) for part in (C, A, b)]
        least, up, down = (cost(t, *direction) for t in (0.0, 1e-3, -1e-3))
        slope, bend = (up - down) / 2e-3, (up + down - 2.0 * least) / 1e-6
        assert bend > 0.0
        assert slope**2 / (2.0 * bend) < 1e-3  # far below the half unit of log-likelihood that is one standard error
    squares = Descent(Cells(X), found.noise).start(found.factors).squares
    # The noise that parameters have fitted is put back: all of them, or what the penalty leaves of them.
    parameters = free_parameters(found.factors)
    assert squares / (X.size - 0.7 * parameters) < found.noise**2 < squares / (X.size - 1.001 * parameters)


def test_the_noise_is_found_and_the_matrix_is_better_than_by_least_squares():
    """Over seeds: the error of sigma is that of its information, of which a zero carries less than a value."""
    noise, errors, wins = 0.5, [], []
    for seed in range(6):
        T, X = draw(seed, noise)
        found = TobitEM().recover(Task(Cells(X), 2))
        plain = CensoredALS().recover(Task(Cells(X), 2))
        assert found.converged
        positive = (X > 0.0).sum() - free_parameters(found.factors)
        errors.append((found.noise / noise - 1.0) * np.sqrt(2.0 * positive))
        wins.append(np.linalg.norm(found.factors.matrix() - T) / np.linalg.norm(plain.factors.matrix() - T))
    assert np.abs(errors).max() < 4.0
    assert abs(np.mean(errors)) < 3.0 / np.sqrt(6)
    assert max(wins) < 0.6


def test_the_noise_is_found_with_half_as_many_components_as_columns():
    ratios = []
    for seed in range(3):
        _, X = draw(seed, 0.3, n=400, d=8, k=4)
        X = X[(X > 0.0).sum(axis=1) > 4]
        ratios.append(TobitEM().recover(Task(Cells(X), 4)).noise / 0.3)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.12)


def test_missing_cells_are_ignored():
    T, X = draw(7, 0.3)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    found = TobitEM().recover(Task(Cells(X), 2))
    assert found.noise == pytest.approx(0.3, rel=4.0 / np.sqrt(X.size))
    assert np.linalg.norm(found.factors.matrix() - T) < 0.15 * np.linalg.norm(T)


def test_without_noise_the_fit_is_as_good_as_exact():
    T, X = draw(8, 0.0)
    found = TobitEM().recover(Task(Cells(X), 2))
    assert found.converged
    assert found.noise < 1e-5
    np.testing.assert_allclose(found.factors.matrix(), T, atol=1e-6)


def test_units_do_not_matter():
    _, X = draw(9, 0.5, n=100, d=30)
    one, other = (TobitEM().recover(Task(Cells(X * unit), 2)) for unit in (1.0, 1024.0))
    assert other.noise == pytest.approx(1024.0 * one.noise, rel=1e-6)
    assert other.iterations == one.iterations
    assert other.residual == pytest.approx(one.residual, rel=1e-6)


def test_max_iterations_keeps_what_was_reached():
    _, X = draw(10, 0.5, n=100, d=30)
    found = TobitEM().recover(Task(Cells(X), 2, max_iterations=1))
    assert (found.iterations, found.converged) == (1, False)
    assert 0.2 < found.noise < 1.0


def test_the_noise_stays_finite_with_few_cells():
    """30 rows with four values each, of 12 columns: 120 values, 126 parameters."""
    _, X = draw(1, 0.3, n=3000, d=12, k=3)
    hidden = np.random.default_rng(0).permuted(np.tile(np.arange(12) >= 4, (3000, 1)), axis=1)
    X[hidden] = np.nan
    X = X[(X > 0.0).sum(axis=1) == 4][:30]
    assert ((X > 0.0).sum(axis=0) > 4).all()
    found = TobitEM().recover(Task(Cells(X), 3))
    assert found.noise < 2.0
    assert np.linalg.norm(found.factors.latent) > 0.1
