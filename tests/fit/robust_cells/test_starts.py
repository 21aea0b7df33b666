"""Starts that a tenth of bad cells hardly moves, floored columns included."""

import numpy as np
import pytest
from scipy.stats import norm

from unrelu.fit.robust_cells.learn import column_starts, near_middle


@pytest.mark.parametrize("floored", [0.0, 0.5, 0.8])
def test_middle_and_spread_of_a_dirty_column(floored):
    rng = np.random.default_rng(0)
    y = rng.normal(-norm.ppf(floored) if floored else 5.0, 1.0, 20_000)
    clean = np.maximum(y, 0.0)
    x = np.where(rng.random(20_000) < 0.05, clean + 10.0, clean)
    middle, spread, judged = column_starts(x[:, None], np.zeros(1))
    assert judged[0]
    assert spread[0] == pytest.approx(1.0, abs=0.35)
    assert middle[0] == pytest.approx(y.mean(), abs=0.5)


def test_columns_without_a_spread_have_no_bad_cells():
    x = np.column_stack([np.full(100, 3.0), np.where(np.arange(100) % 5, 1.0, 2.0), np.arange(100.0)])
    x = np.column_stack([x, np.full(100, np.nan)])
    middle, spread, judged = column_starts(x, np.full(4, -np.inf))
    np.testing.assert_array_equal(judged, [False, False, True, False])
    assert (spread > 0.0).all()
    weights = near_middle(x, middle, spread, judged)
    assert weights[:, 0].all()
    assert not weights[:, 3].any()


def test_a_column_in_two_parts_starts_from_the_larger_one():
    rng = np.random.default_rng(1)
    x = rng.normal(5.0, 1.0, 2000) + np.where(np.arange(2000) % 20 < 9, 40.0, 0.0)
    middle, spread, _ = column_starts(x[:, None], np.zeros(1))
    assert middle[0] == pytest.approx(5.0, abs=0.5)
    assert spread[0] == pytest.approx(1.0, abs=0.1)
    zeros = np.where(
        np.arange(2000) % 20 < 7, 0.0, rng.normal(30.0, 1.0, 2000)
    )  # below a gap, at the floor: not a part
    with_floor, without = (column_starts(zeros[:, None], np.array([low]))[0][0] for low in (0.0, -1.0))
    assert with_floor < 29.0
    assert without == pytest.approx(30.0, abs=0.5)
