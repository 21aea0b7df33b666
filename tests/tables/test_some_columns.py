"""Some columns of any samples, with what stands beside the rows."""

from __future__ import annotations

import numpy as np

from unrelu.passes.rows import SomeColumns
from unrelu.tables import ArraySamples
from unrelu.tables.limited import LimitedSamples, cell_limits


def test_marks_go_with_their_columns():
    table = np.array([[0.5, 3.0, 0.0], [0.1, 2.0, 1.0]])
    limits = cell_limits([[0.5, np.nan, 0.0], [0.1, np.nan, 0.5]], None, table.shape)
    rows = SomeColumns(LimitedSamples(ArraySamples(table), *limits), np.array([1, 2]))
    assert (rows.n_features, rows.n_rows, rows.feature_names, rows.limits_by_cell) == (2, 2, None, (1,))
    (block,) = rows.blocks()
    np.testing.assert_array_equal(block.values, table[:, 1:])
    np.testing.assert_array_equal(block.censoring, [[0, -1], [0, 0]])
    assert block.values.flags.c_contiguous


def test_weights_stay():
    rows = SomeColumns(ArraySamples(np.ones((3, 2))).weighted(np.array([1.0, 2.0, 3.0])), np.array([1]))
    assert [block.weights.tolist() for block in rows.blocks()] == [[1.0, 2.0, 3.0]]
    assert [len(block.values) for block in rows.over(ArraySamples(np.zeros((2, 2)))).blocks()] == [2]
