import numpy as np

from unrelu.contracts import Samples
from unrelu.tables import ArraySamples
from unrelu.tables.limited import LimitedSamples, cell_limits
from unrelu.tables.turned import TurnedSamples


def test_rows_are_those_of_the_table_with_columns_upside_down():
    table = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    table[3, 1] = np.nan
    weights = np.arange(6.0)
    rows = TurnedSamples(ArraySamples(table, weights, ["a", "b"], block_rows=4), np.array([False, True]), {0: (2, 3.5)})
    assert isinstance(rows, Samples)
    assert (rows.n_rows, rows.n_features, rows.feature_names, rows.mirrored) == (6, 2, ("a", "b"), (False, True))
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
    rows = TurnedSamples(limited, np.array([False, True, False]), floor=np.array([-np.inf, -4.0, 0.7]))
    block = next(rows.blocks())
    # The second column is upside down, with a ceiling of 4; .5 is below the floor .7 of the third: others say so.
    np.testing.assert_array_equal(block.values, [[1.0, 3.0, 0.7], [1.0, -2.0, 0.7], [0.0, -4.0, 0.5]])
    np.testing.assert_array_equal(block.beyond, [[0, 1, -1], [-1, -1, -1], [0, -1, 0]])
