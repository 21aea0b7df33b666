"""Bins cover the line once, with densities that integrate to 1."""

import numpy as np
import pytest

from unrelu.errors import InvalidDataError
from unrelu.fit.robust_cells.cell_model import Background


@pytest.mark.parametrize("floor", [0.0, -np.inf])
def test_the_density_of_every_bin_integrates_to_one(floor):
    background = Background.about(np.array([1.0]), np.array([0.5]), np.array([floor]))
    x = np.concatenate(
        [-np.geomspace(1e6, 1e-3, 200_000), np.linspace(-1e-3, 1e-3, 2001), np.geomspace(1e-3, 1e6, 200_000)]
    )
    x = x[x > floor]
    bins, log_density = background.places(x[:, None], np.array([floor]))
    width = np.gradient(x)
    mass = np.bincount(bins[:, 0], weights=np.exp(log_density[:, 0]) * width, minlength=background.n_bins)
    used = mass > 0.0
    np.testing.assert_allclose(mass[used], 1.0, atol=0.01)
    assert used.sum() == background.n_bins - (2 if np.isfinite(floor) else 1)  # the floor, and nothing below it


def test_floored_and_missing_cells():
    background = Background.about(np.array([1.0, 1.0]), np.ones(2), np.zeros(2))
    bins, log_density = background.places(np.array([[0.0, np.nan]]), np.zeros(2))
    assert bins.tolist() == [[0, -1]]
    assert log_density[0, 0] == 0.0  # an atom has a probability


def test_far_bins():
    middle, spread = np.array([5.0]), np.array([1.0])
    background = Background.about(middle, spread, np.array([-np.inf]))
    far = background.far_bins(middle, spread)
    bins, _ = background.places(np.array([[5.5], [9.5], [40.0], [-40.0], [7.5]]), np.array([-np.inf]))
    assert far[bins[:, 0]].tolist() == [False, True, True, True, False]


def test_edges_that_do_not_rise_are_refused():
    with pytest.raises(InvalidDataError, match="do not rise"):
        Background((np.array([1.0, 1.0]),))
