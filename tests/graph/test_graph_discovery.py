"""False discovery rates, against scipy's."""

import numpy as np
import pytest
from scipy import stats

from unrelu.graph.edges import q_values


@pytest.mark.parametrize("degrees", [19.0, np.inf])
def test_they_are_benjamini_and_hochbergs(degrees):
    rng = np.random.default_rng(0)
    partial = np.clip(np.triu(rng.normal(0.0, 0.1, (8, 8)), 1), -0.9, 0.9)
    partial += partial.T + np.eye(8)
    stderr = np.full((8, 8), 0.06)
    first, second = np.triu_indices(8, 1)
    rho = partial[first, second]
    z = np.arctanh(rho) / (0.06 / (1.0 - rho**2))
    distribution = stats.norm() if np.isinf(degrees) else stats.t(degrees)
    expected = stats.false_discovery_control(2.0 * distribution.sf(np.abs(z)))
    found = q_values(partial, stderr, degrees)
    np.testing.assert_allclose(found[first, second], expected)
    np.testing.assert_array_equal(found, found.T)
    assert np.isnan(np.diagonal(found)).all()


def test_pairs_without_an_error_are_not_counted():
    stderr = np.array([[0.0, 0.1, np.nan], [0.1, 0.0, np.nan], [np.nan, np.nan, 0.0]])
    partial = np.full((3, 3), 0.3) + 0.7 * np.eye(3)
    found = q_values(partial, stderr, np.inf)
    assert found[0, 1] == pytest.approx(2.0 * stats.norm.sf(np.arctanh(0.3) * 0.91 / 0.1))
    assert np.isnan(found[0, 2])
