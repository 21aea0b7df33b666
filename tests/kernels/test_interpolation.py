"""Lines between knots, against np.interp."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.kernels.columns import interpolate


@pytest.mark.parametrize("knots", [2, 3, 17, 512, 5000])
@pytest.mark.parametrize("spread", [0.5, 30.0])
def test_it_is_numpys_bit_by_bit(knots: int, spread: float) -> None:
    """Even knots, and ones of which nearly all are in the first cell of the grid."""
    rng = np.random.default_rng(knots)
    values = np.unique(np.exp(spread * rng.standard_normal(knots)))
    scores = np.sort(rng.standard_normal(len(values)))
    x = np.concatenate(
        [
            np.exp(spread * rng.standard_normal(4000)),
            values,
            np.nextafter(values, 0.0),
            [np.nan, -1.0, 0.0, np.inf, -np.inf],
        ]
    )
    y = np.empty(len(x))
    interpolate(x, values, scores, np.diff(scores) / np.diff(values), y)
    np.testing.assert_array_equal(y, np.interp(x, values, scores))


@pytest.mark.parametrize("spread", [1e-323, 1e-310, 2e-308, 1e-306, 1e-300, 1e-150, 1e300, 1.7e308])
def test_knots_of_any_spread_stay_within_the_grid(spread: float) -> None:
    values = np.unique(np.linspace(-0.9, 0.9, 301) * spread)
    scores = np.linspace(-2.0, 2.0, len(values))
    x = np.concatenate([values, 0.5 * values[1:] + 0.5 * values[:-1], [-2.0 * spread, np.nan, np.inf, -np.inf]])
    with np.errstate(over="ignore"):
        slopes = np.minimum(np.diff(scores) / np.diff(values), 1e300)
    y = np.empty(len(x))
    interpolate(x, values, scores, slopes, y)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    known = np.argsort(x)[:-1]
    assert (np.diff(y[known]) >= -1e-12).all()
    np.testing.assert_array_equal(y[: len(values)], scores)


def test_a_grid_between_the_ends_of_all_numbers() -> None:
    values, scores = np.array([-1.7e308, -1.0, 1.0, 1.7e308]), np.array([-2.0, -1.0, 1.0, 2.0])
    y = np.empty(3)
    interpolate(np.array([0.0, 1e300, 1.6e308]), values, scores, np.array([1e-308, 1.0, 1e-308]), y)
    np.testing.assert_allclose(y, [0.0, 1.0, 2.6], rtol=1e-6)
