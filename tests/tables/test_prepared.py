"""Rows as latent values: limits, missing cells, negated columns, densities in the user's units."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unrelu.contracts import Assumptions, CellLimits, Samples
from unrelu.errors import InvalidDataError
from unrelu.margins import BoxCox, Log, Monotone, Normal
from unrelu.tables import ArraySamples
from unrelu.tables.limited import LimitedSamples, cell_limits
from unrelu.tables.prepared import Columns, PreparedRows

NAMES = ("As", "Pb", "Zn")
FREE = Monotone(np.array([0.0, 1.0, 9.0]), np.array([-0.3, 0.1, 2.0]))
SHAPES = (Log(), FREE, BoxCox(0.5, 0.0, 2.0))
X = np.array([[0.5, 0.0, 3.0], [2.0, 5.0, np.nan], [np.nan, 1.0, 4.0], [0.7, 0.5, 2.0]])


def with_margins(floor=(0.5, 0.0, -np.inf), ceiling=(np.inf, np.inf, 4.0)):
    return Columns(np.array(floor), np.array(ceiling), NAMES, margins=SHAPES)


def rows(samples):
    return np.concatenate([block.values for block in samples.blocks()])


def given(X, weights=None, block_rows=None):
    return ArraySamples(X, weights=weights, feature_names=NAMES, block_rows=block_rows)


def test_columns_with_a_ceiling_are_negated():
    assert with_margins().plain == Assumptions((0.5, 0.0, -4.0), negated=(False, False, True))


def test_latent_rows():
    y = with_margins().latent(X)
    assert_allclose(y[:, 0], np.log(X[:, 0]))
    assert_allclose(y[:, 1], np.interp(X[:, 1], FREE.values, FREE.scores))
    assert_allclose(y[:, 2], 2.0 * (2.0 * np.sqrt(X[:, 2] / 2.0) - 1.0))
    low, high = with_margins().latent_limits
    assert (y[0, 0], y[0, 1], y[2, 2]) == (low[0], low[1], high[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_limit_is_one_up_to_rounding(dtype):
    form = Columns(np.array([0.1, -np.inf]), np.array([np.inf, 0.7]), margins=(Log(), BoxCox(0.3)))
    x = np.array([[0.1, 0.7], [np.nextafter(0.1, 1.0), 0.7]], dtype=dtype)
    low, high = form.latent_limits
    assert_array_equal(form.latent(x), [[low[0], high[1]]] * 2)
    assert_array_equal(form.log_slopes(x), [0.0, 0.0])


def test_slopes_are_of_cells_between_their_limits():
    expected = np.zeros(4)
    for j, margin in enumerate(SHAPES):
        inside = (X[:, j] > [0.5, 0.0, -np.inf][j]) & (X[:, j] < [np.inf, np.inf, 4.0][j])
        expected[inside] += margin.log_slope(X[inside, j])
    assert_allclose(with_margins().log_slopes(X), expected)


@pytest.mark.parametrize("block_rows", [1, 3, 100])
@pytest.mark.parametrize("order", ["C", "F"])
def test_samples_are_latent_and_negated(block_rows, order):
    samples = PreparedRows(given(np.array(X, order=order), block_rows=block_rows), with_margins())
    assert_allclose(rows(samples), with_margins().latent(X) * [1.0, 1.0, -1.0])
    assert_allclose(samples.log_slopes(), with_margins().log_slopes(X))
    assert_allclose(rows(PreparedRows(given(X), with_margins(), "original")), X)
    assert (samples.n_features, samples.n_rows, samples.feature_names) == (3, 4, NAMES)


def test_values_beyond_a_limit_are_named_in_the_users_numbers():
    below = X.copy()
    below[3, 0] = 0.4
    with pytest.raises(InvalidDataError, match=r"below the floor 0.5, in column 0 \('As'\).*row 3.*smallest is 0.4"):
        rows(PreparedRows(given(below), with_margins()))
    above = X.copy()
    above[1, 2] = 17.5
    with pytest.raises(InvalidDataError, match=r"above the ceiling 4, in column 2 \('Zn'\).*largest is 17.5"):
        rows(PreparedRows(given(above), with_margins()))
    infinite = X.copy()
    infinite[1, 1] = np.inf
    with pytest.raises(InvalidDataError, match=r"infinite or beyond .* in column 1 \('Pb'\) \(1, first in row 1"):
        rows(PreparedRows(given(infinite), with_margins()))


def test_rows_of_no_weight_may_hold_anything():
    wild, weights = X.copy(), np.array([1.0, 0.0, 1.0, 2.0])
    wild[1] = [-np.inf, -5.0, 1e200]
    samples = PreparedRows(given(wild, weights), with_margins(), learning=True)
    assert_allclose(rows(samples)[[0, 2, 3]], (with_margins().latent(X) * [1.0, 1.0, -1.0])[[0, 2, 3]])
    assert np.isnan(rows(samples)[1]).all()


def test_values_for_which_a_margin_is_not_defined():
    x = np.array([[1.0, 2.0], [-3.0, 1.0]])
    none = np.full(2, np.inf)
    form, samples = Columns(-none, none, ("As", "Pb"), margins=(Log(), Normal())), ArraySamples(x)
    with pytest.raises(InvalidDataError, match=r"'log' of column 0 \('As'\): a value of -3 has no logarithm"):
        rows(PreparedRows(samples, form, learning=True))
    scored = rows(PreparedRows(samples, form))
    assert scored[1, 0] < -600.0  # as far away as can be
    assert np.isfinite(scored).all()


def test_marked_cells_have_latent_units_like_any_value():
    floor = np.array([[0.5, np.nan, 3.0], [2.0, np.nan, np.nan], [9.0, np.nan, np.nan], [0.1, np.nan, 2.0]])
    limited = LimitedSamples(ArraySamples(X, feature_names=NAMES), *cell_limits(floor, None, X.shape, NAMES))
    columns = with_margins(floor=(-np.inf, 0.0, -np.inf))
    found = PreparedRows(limited, columns)
    block = next(found.blocks())
    assert_allclose(block.values[:, 0], np.log(X[:, 0]))
    assert_allclose(block.values[:, 2], -SHAPES[2].to_latent(X[:, 2]))
    marks = [[-1, -1, 1], [-1, 0, 0], [0, 0, -1], [0, 0, 1]]
    assert_array_equal(block.censoring, marks)
    original = next(PreparedRows(limited, columns, "original").blocks())
    assert_array_equal(original.censoring, marks * np.array([1, 1, -1]))
    assert_allclose(original.values[:, 2], X[:, 2])
    # Only cells that were seen have a density in the user's units.
    seen = np.where(np.array(marks) == 0, X, np.nan)
    slopes = [margin.log_slope(seen[:, j]) for j, margin in enumerate(SHAPES)]
    assert_allclose(found.log_slopes(), np.nansum(slopes, axis=0))


def test_rows_are_those_of_the_table_with_columns_negated():
    table = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    table[3, 1] = np.nan
    weights = np.arange(6.0)
    given = ArraySamples(table, weights, ["a", "b"], block_rows=4, limits=CellLimits(floor=((0, 2.0),)))
    rows = PreparedRows(given, Columns(np.array([3.5, -np.inf]), np.array([np.inf, 99.0])), "negated")
    assert isinstance(rows, Samples)
    assert (rows.n_rows, rows.n_features, rows.feature_names) == (6, 2, ("a", "b"))
    blocks = list(rows.blocks())
    assert [block.first_row for block in blocks] == [0, 4]
    np.testing.assert_array_equal(np.concatenate([block.weights for block in blocks]), weights)
    values = np.concatenate([block.values for block in blocks])
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values[:, 1], -table[:, 1])
    np.testing.assert_array_equal(values[:, 0], [3.5, 3.5, 4.0, 6.0, 8.0, 10.0])
    np.testing.assert_array_equal(table[:, 0], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])  # the table is as it was


def test_marks_turn_with_their_columns_and_are_complete():
    table = np.array([[1.0, -3.0, 0.0], [1.0, 2.0, 0.7], [0.0, 4.0, 0.5]])
    floor = np.array([[np.nan, -3.0, np.nan], [1.0, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    ceiling = np.array([[np.nan, np.nan, np.nan], [np.nan, 2.0, np.nan], [np.nan, np.nan, np.nan]])
    limited = LimitedSamples(ArraySamples(table), *cell_limits(floor, ceiling, table.shape))
    columns = Columns(np.array([-np.inf, -np.inf, 0.7]), np.array([np.inf, 4.0, np.inf]))
    rows = PreparedRows(limited, columns, "negated")
    block = next(rows.blocks())
    # The second column is negated, with a ceiling of 4; .5 is below the floor .7 of the third: others say so.
    np.testing.assert_array_equal(block.values, [[1.0, 3.0, 0.7], [1.0, -2.0, 0.7], [0.0, -4.0, 0.5]])
    np.testing.assert_array_equal(block.censoring, [[0, 1, -1], [-1, -1, -1], [0, -1, 0]])
