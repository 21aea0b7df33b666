"""Against all eigenvalues by LAPACK, below and above the width from which Lanczos' method is used."""

import numpy as np
import pytest

from unrelu.eigenvalues import is_definite, largest_eigenpairs, largest_eigenvalue, smallest_eigenvalue

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
