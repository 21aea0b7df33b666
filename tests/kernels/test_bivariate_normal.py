import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.references import bivariate
from unrelu.kernels.normal import bivariate_density, upper_orthant

CORRELATIONS = [-1.0, -0.999999, -0.99, -0.93, -0.92, -0.8, -0.74, -0.31, -0.1, 0.0]
CORRELATIONS += [-r for r in CORRELATIONS if r != 0.0]


@pytest.mark.parametrize("r", CORRELATIONS)
def test_agrees_with_quadrature(r):
    rng = np.random.default_rng(7)
    for h, k in rng.normal(scale=1.8, size=(5, 2)):
        assert upper_orthant(h, k, r) == pytest.approx(bivariate.upper_orthant(h, k, r), abs=2e-14)


def test_orthant_of_zero_thresholds_is_sheppards_formula():
    for r in CORRELATIONS:
        assert upper_orthant(0.0, 0.0, r) == pytest.approx(0.25 + np.arcsin(r) / (2 * np.pi), abs=1e-15)


@given(h=st.floats(-6, 6), k=st.floats(-6, 6), r=st.floats(-1, 1))
def test_is_symmetric_and_adds_up(h, k, r):
    p = upper_orthant(h, k, r)
    assert 0.0 <= p <= 1.0
    assert p == pytest.approx(upper_orthant(k, h, r), abs=1e-14)
    # P(X > h, Y > k) + P(X > h, Y < k) = P(X > h)
    assert p + upper_orthant(h, -k, -r) == pytest.approx(upper_orthant(h, -40.0, 0.0), abs=1e-14)


def test_density_is_the_derivative_in_r():
    for h, k, r in [(0.3, -0.7, 0.4), (-1.2, 0.5, -0.8), (2.0, 1.0, 0.95)]:
        step = 1e-6
        slope = (upper_orthant(h, k, r + step) - upper_orthant(h, k, r - step)) / (2 * step)
        assert bivariate_density(h, k, r) == pytest.approx(slope, rel=1e-6)
