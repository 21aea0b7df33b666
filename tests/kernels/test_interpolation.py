"""Lines between knots, against np.interp."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.kernels.interpolation import interpolate


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
