"""Cells in standard units, and their tally."""

import numpy as np
import pytest

from unrelu.contracts import Block
from unrelu.fit.likelihood.climbing import Cells
from unrelu.fit.likelihood.learning import CellTallyQuestion

VALUES = np.array([[0.0, 2.0, 7.0], [4.0, np.nan, 7.0], [2.0, 5.0, 7.0], [9.0, 9.0, 9.0]])
MARKS = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]], dtype=np.int8)
BLOCK = Block(VALUES, 0, np.array([1.0, 2.0, 1.0, 0.0]), beyond=MARKS)


def test_floors_and_marks_together():
    cells = Cells(np.array([0, 1]), np.array([1.0, 0.0]), np.array([2.0, 1.0]), np.array([0.5, -np.inf]))
    u, beyond, weights = cells.of(BLOCK)
    np.testing.assert_array_equal(u, [[-0.25, 2.0], [1.5, np.nan], [0.5, 5.0]])
    np.testing.assert_array_equal(beyond, [[-1, -1], [1, 0], [0, 0]])
    np.testing.assert_array_equal(weights, [1.0, 2.0, 1.0])


def test_the_tally_counts_by_weight_and_merges():
    question = CellTallyQuestion((0.5, -np.inf, -np.inf), (0.5, -np.inf, -np.inf))
    tally = question(BLOCK)
    np.testing.assert_array_equal(tally.seen, [1.0, 1.0, 4.0])
    np.testing.assert_array_equal(tally.below, [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(tally.above, [2.0, 0.0, 0.0])
    np.testing.assert_array_equal(tally.ends, [[0.5, 2.0, 7.0], [4.0, 5.0, 7.0]])
    assert tally.marked
    assert (tally.n_rows, tally.effective_rows) == (4, pytest.approx(16.0 / 6.0))
    x = np.random.default_rng(0).normal(5.0, 1.0, (20, 3))
    whole, parts = question(Block(x)), question(Block(x[:7])).merge(question(Block(x[7:], 7)))
    np.testing.assert_allclose(parts.mean, whole.mean)
    np.testing.assert_allclose(parts.square / parts.seen, x.var(axis=0))
    assert not whole.marked
