"""The distribution of bad cells against sums over all patterns, densities of rows, and what it must say of plain
cases."""

from dataclasses import replace

import numpy as np
import pytest

import unrelu
from tests.references.cell_patterns import exact_bad_probabilities
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_cells.cell_model import CellModel, bad_probability
from unrelu.posterior.density import Density


@pytest.fixture(scope="module")
def model():
    truth = unrelu.synthetic.random_model(4, condition_number=10.0, random_state=3)
    return unrelu.RectifiedGaussian(truth.mean + 5.0, truth.covariance)  # hardly ever floored


def _densities(distribution, x):
    bins, log_bin = distribution.background.places(x, distribution.floor)
    share = distribution.bad_share / distribution.bad_by_column[distribution.background.columns]
    return share[bins] * np.exp(log_bin)


def test_probabilities_are_those_of_all_patterns(model):
    """A cell is judged by the likeliest pattern of the others and its rivals: near the sum over all patterns."""
    distribution = replace(CellModel.of_model(model), bad_share=5.0 * CellModel.of_model(model).bad_share)
    x = model.sample(60, random_state=1)
    rng = np.random.default_rng(2)
    bad = rng.random(x.shape) < 0.15
    x = np.where(bad, x + rng.choice([-5.0, 3.5, 6.0], x.shape) * model.std, x)
    densities, told, log_rows = (
        _densities(distribution, x),
        distribution.probabilities(x).cells,
        distribution.densities(x).log_row,
    )
    given = (model.mean, model.covariance, distribution.bad_by_column)
    found = [exact_bad_probabilities(row, *given, density) for row, density in zip(x, densities, strict=True)]
    exact, totals = np.array([bad for bad, _ in found]), np.array([total for _, total in found])
    off = np.abs(1.0 - told - exact)
    assert off.mean() < 0.02
    assert off.max() < 0.25
    sure = np.abs(exact - 0.5) > 0.4
    assert sure.mean() > 0.9
    np.testing.assert_array_equal((told < 0.5)[sure], (exact > 0.5)[sure])
    assert np.abs(log_rows - np.log(totals)).mean() < 0.05


@pytest.mark.parametrize("d", [3, 8])
def test_rows_without_bad_cells_have_the_density_of_the_model(d):
    model = unrelu.synthetic.random_model(d, condition_number=10.0, mean="signed", random_state=d)
    x = model.sample(300, random_state=1)
    x[::7, 1] = np.nan
    distribution = CellModel.of_model(model)
    never = replace(distribution, bad_share=1e-14 * distribution.bad_share)
    # Both replace truncated normals by normals, in different ways; converged, both by expectation propagation, but for
    # what the density corrects.
    off = np.abs(never.densities(x).log_row - Density.of(model).log_density(x, converged=False))
    assert off.mean() < 0.005
    assert off.max() < 0.06
    off = np.abs(never.densities(x, converged=True).log_row - Density.of(model).log_density(x))
    assert off.mean() < 0.002
    assert off.max() < 0.01


def test_a_floored_cell_can_be_bad():
    r = np.full((4, 4), 0.9) + 0.1 * np.eye(4)
    model = unrelu.RectifiedGaussian(np.full(4, 2.0), r)
    distribution = CellModel.of_model(model)
    cells = distribution.probabilities(np.array([[0.0, 4.0, 4.0, 4.0], [0.0, 0.0, 0.1, 0.0]])).cells
    assert cells[0, 0] < 1e-3
    assert (cells[0, 1:] > 0.9).all()
    assert (cells[1] > 0.9).all()


def test_of_two_cells_that_disagree_both_are_named():
    model = unrelu.RectifiedGaussian([5.0, 5.0], [[1.0, 0.99], [0.99, 1.0]])
    distribution = CellModel.of_model(model)
    x = np.array([[4.0, 6.0], [5.0, 5.1], [5.0, 12.0]])
    bad = distribution.probabilities(x).cells < 0.5
    np.testing.assert_array_equal(bad, [[True, True], [False, False], [False, True]])


def test_missing_cells_and_constants(model):
    distribution = CellModel.of_model(unrelu.RectifiedGaussian([1.0, 2.0], [[1.0, 0.0], [0.0, 0.0]]))
    scores = Density(
        distribution.normal.mean, distribution.normal.scale, distribution.normal.correlation, distribution.floor
    )
    bad = bad_probability(distribution, scores, np.array([[np.nan, 2.0], [1.0, 3.0], [1e30, 2.0]]))
    np.testing.assert_allclose(bad, [[np.nan, 0.0], [0.0, 1.0], [1.0, 0.0]], atol=0.02)


def test_broken_distributions_are_refused(model):
    distribution = CellModel.of_model(model)
    with pytest.raises(InvalidDataError, match="bins"):
        replace(distribution, bad_share=distribution.bad_share[:-1])
    with pytest.raises(InvalidDataError, match="no probabilities"):
        replace(distribution, row_share=1.5)


def test_columns_that_are_left_are_inlier_whatever_their_cells_and_rows_are():
    model = unrelu.RectifiedGaussian(np.ones(3), 0.8 + 0.2 * np.eye(3))
    distribution = replace(CellModel.of_model(model), row_share=0.1)
    x = np.array([[1e6, 1.2, 0.9], [40.0, 40.0, -3.0], [np.nan, 1.0, 1.0]])
    assert (distribution.probabilities(x).inlier[:2, 0] < 1e-3).all()
    left = replace(distribution, left=(0,)).probabilities(x)
    np.testing.assert_array_equal(left.inlier[:, 0], [1.0, 1.0, 0.0])  # missing cells weigh nothing
    assert (left.log_odds[:2, 0] > 0.0).all()
    np.testing.assert_allclose(left.inlier[:, 1:], distribution.probabilities(x).inlier[:, 1:])
