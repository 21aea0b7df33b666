"""Against all eigenvalues by LAPACK, below and above the width from which Lanczos' method is used."""

import numpy as np
import pytest

from unrelu.fit.nearest import (
    PositivePart,
    is_definite,
    largest_eigenpairs,
    largest_eigenvalue,
    smallest_eigenvalue,
    water_level,
)

WIDTHS = (30, 260)


def matrix(d, rows, seed=0):
    """A correlation matrix with three factors: of rank ``rows`` where that is below d."""
    rng = np.random.default_rng(seed)
    x = np.corrcoef((rng.standard_normal((rows, 3)) @ rng.standard_normal((3, d)) + rng.standard_normal((rows, d))).T)
    return 0.5 * (x + x.T)


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("scaled", [False, True])
def test_the_largest_with_their_vectors(d, scaled):
    x, scale = matrix(d, 3 * d), np.random.default_rng(1).uniform(0.3, 1.0, d) if scaled else None
    whole = x if scale is None else x / np.outer(scale, scale)
    values, vectors = largest_eigenpairs(x, 4, scale)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(whole)[-4:], rtol=1e-9)
    np.testing.assert_allclose(whole @ vectors, vectors * values, atol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-9)
    assert largest_eigenvalue(lambda v: whole @ v, d) == pytest.approx(values[-1], rel=1e-9)


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize(("rows", "lowered"), [(3.0, 0.0), (1.2, 0.0), (1.2, 0.5), (0.4, 0.0), (0.4, 0.02)])
def test_the_smallest_of_definite_singular_and_indefinite_ones(d, rows, lowered):
    x = matrix(d, int(rows * d)) - lowered * np.eye(d)
    expected = np.linalg.eigvalsh(x)[0]
    assert smallest_eigenvalue(x) == pytest.approx(expected, rel=1e-7, abs=1e-12)
    if abs(expected) > 1e-12:
        assert is_definite(x) == (expected > 0.0)


def settling(d, rows, count, seed=0):
    """Symmetric matrices of unit size on the diagonal that settle, with about ``rows`` eigenvalues above 0."""
    rng = np.random.default_rng(seed)
    v, change = matrix(d, rows, seed) - 0.3 * np.eye(d), rng.standard_normal((d, d)) / d
    for k in range(count):
        yield v + 0.4**k * (change + change.T)


@pytest.mark.parametrize("rows", [30, 260])  # few above 0: followed; too many: found each time
def test_positive_parts_of_matrices_that_converge(rows):
    part, misses = PositivePart(), []
    for v in settling(260, rows, 8):
        factor = part.factor(v)
        values, vectors = np.linalg.eigh(v)
        exact = (vectors * np.maximum(values, 0.0)) @ vectors.T
        misses.append(np.abs(factor @ factor.T - exact).max())
    assert part.followed == (rows == 30)
    assert misses[0] < 1e-12
    assert misses[-1] < 1e-6
    assert max(misses) < 0.02


def test_an_eigenvalue_that_comes_above_0_is_found():
    """More than there are spare vectors for."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((260, 260)))[0]
    values = np.concatenate([np.linspace(1.0, 2.0, 20), np.linspace(-2.0, -0.2, 240)])
    part = PositivePart()
    part.factor((turn * values) @ turn.T)
    values[-20:] = 0.5
    v = (turn * values) @ turn.T
    factor = part.factor(v)
    assert not part.followed
    np.testing.assert_allclose(factor @ factor.T, (turn * np.maximum(values, 0.0)) @ turn.T, atol=1e-10)


def test_level_gives_the_trace_of_a_unit_diagonal():
    v = matrix(50, 20) - 0.1 * np.eye(50)
    plain = v.copy()
    factor = PositivePart().factor(v, level=True)
    assert np.sum(factor**2) == pytest.approx(50.0)
    shift = plain - v
    np.testing.assert_allclose(shift, shift[0, 0] * np.eye(50), atol=1e-15)
    assert shift[0, 0] == pytest.approx(water_level(np.linalg.eigvalsh(plain), 50.0))
