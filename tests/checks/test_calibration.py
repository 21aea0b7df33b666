"""p-values from ranks: right one by one, for the largest of many, and for two kinds together."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.checks.statistics import overall, p_values_of, standardized


def test_a_p_value_is_one_plus_the_number_as_large_over_all():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 6, (40, 3)).astype(float) + 1.0  # with ties
    p_values, _, _ = p_values_of(numbers)
    expected = [(1 + np.count_nonzero(numbers[1:, k] >= numbers[0, k])) / 40 for k in range(3)]
    np.testing.assert_allclose(p_values, expected)


def test_adjusted_p_values_compare_with_the_largest_of_each_table():
    rng = np.random.default_rng(1)
    numbers = rng.chisquare(2, (60, 4))
    numbers[0, 2] = 50.0
    p_values, adjusted, largest = p_values_of(numbers)
    logs = standardized(np.log(numbers))
    expected = [(1 + sum(row.max() >= logs[0, k] for row in logs[1:])) / 60 for k in range(4)]
    np.testing.assert_allclose(adjusted, expected)
    assert overall(largest) == adjusted[2] == 1 / 60
    assert (adjusted >= p_values - 1e-12).all()


@pytest.mark.parametrize("columns", [1, 12])
def test_the_table_is_rejected_as_often_as_promised_however_many_columns(columns):
    """All tables alike: p <= .1 in a tenth of 400 draws, within 3 standard errors."""
    rng = np.random.default_rng(columns)
    found = []
    for _ in range(400):
        largest = [p_values_of(rng.chisquare(1 + k, (20, columns)))[2] for k in range(2)]
        found.append([overall(*largest), overall(largest[0])])
    np.testing.assert_allclose(np.mean(np.array(found) <= 0.1, axis=0), 0.1, atol=3 * np.sqrt(0.09 / 400))


def test_missing_cells_count_for_nothing():
    numbers = np.random.default_rng(2).chisquare(1, (20, 3))
    numbers[:, 1] = np.nan
    p_values, _, largest = p_values_of(numbers)
    assert np.isnan(p_values[1])
    np.testing.assert_array_equal(largest, p_values_of(numbers[:, [0, 2]])[2])
    nothing = p_values_of(np.full((20, 2), np.nan))[2]
    assert np.isnan(overall(nothing))
    assert overall(largest, nothing) == overall(largest)
    assert np.isnan(overall(nothing, nothing))
    assert np.isnan(overall(p_values_of(np.ones((20, 0)))[2]))


def test_what_is_far_off_in_one_kind_has_the_least_p_value_overall():
    rng = np.random.default_rng(3)
    first, second = rng.chisquare(2, (2, 20, 5))
    first[0, 1] = 80.0
    assert overall(p_values_of(first)[2], p_values_of(second)[2]) == 1 / 20
