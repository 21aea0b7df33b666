"""Cells in standard units, and their tally."""

import numpy as np
import pytest

from unrelu.contracts import Block
from unrelu.fit.likelihood.learning import CellCountsQuestion
from unrelu.fit.likelihood.maximizing import Cells

VALUES = np.array([[0.0, 2.0, 7.0], [4.0, np.nan, 7.0], [2.0, 5.0, 7.0], [9.0, 9.0, 9.0]])
MARKS = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]], dtype=np.int8)
BLOCK = Block(VALUES, 0, np.array([1.0, 2.0, 1.0, 0.0]), censoring=MARKS)


def test_floors_and_marks_together():
    cells = Cells(np.array([0, 1]), np.array([1.0, 0.0]), np.array([2.0, 1.0]), np.array([0.5, -np.inf]))
    u, censoring, weights = cells.of(BLOCK)
    np.testing.assert_array_equal(u, [[-0.25, 2.0], [1.5, np.nan], [0.5, 5.0]])
    np.testing.assert_array_equal(censoring, [[-1, -1], [1, 0], [0, 0]])
    np.testing.assert_array_equal(weights, [1.0, 2.0, 1.0])


def test_the_tallied_counts_by_weight_and_merges():
    question = CellCountsQuestion((0.5, -np.inf, -np.inf), (0.5, -np.inf, -np.inf))
    tallied = question(BLOCK)
    np.testing.assert_array_equal(tallied.seen, [1.0, 1.0, 4.0])
    np.testing.assert_array_equal(tallied.below, [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(tallied.above, [2.0, 0.0, 0.0])
    np.testing.assert_array_equal(tallied.ends, [[0.5, 2.0, 7.0], [4.0, 5.0, 7.0]])
    assert tallied.marked
    assert (tallied.n_rows, tallied.effective_rows) == (4, pytest.approx(16.0 / 6.0))
    x = np.random.default_rng(0).normal(5.0, 1.0, (20, 3))
    whole, parts = question(Block(x)), question(Block(x[:7])).merge(question(Block(x[7:], 7)))
    np.testing.assert_allclose(parts.mean, whole.mean)
    np.testing.assert_allclose(parts.square / parts.seen, x.var(axis=0))
    assert not whole.marked
