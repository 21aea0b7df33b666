"""What benchmarks/graphs judges by is right where the answer is known."""

import numpy as np
import pytest

from benchmarks.__main__ import NAMES
from benchmarks.graphs import STUDIES
from benchmarks.graphs.edges import GRID, MAIN, effective_rows
from benchmarks.graphs.hard import OUTLIERS, with_outliers
from benchmarks.graphs.recipes import default, plain_correlations
from benchmarks.graphs.tables import KINDS, Cell, f1, table


def test_it_is_one_of_the_benchmarks():
    assert "graphs" in NAMES
    assert set(STUDIES) == {"edges", "rivals", "hard", "coverage", "speed"}
    assert len(GRID) == 48
    assert {cell.floored for cell in MAIN} == {0.4}


@pytest.mark.parametrize("kind", KINDS)
def test_tables_have_the_edges_and_floors_that_they_say(kind):
    t = table(Cell(kind, 20, 20_000, 0.4), 0)
    precision = np.linalg.inv(np.corrcoef(t.latent, rowvar=False))
    scale = np.sqrt(np.diagonal(precision))
    found = -precision / np.outer(scale, scale)
    off = ~np.eye(20, dtype=bool)
    assert np.abs((found - t.partial)[off]).max() < 5.0 / np.sqrt(20_000)
    np.testing.assert_array_equal(t.partial[off] != 0.0, t.edges[off])
    assert np.mean(t.floored == 0.0) == pytest.approx(0.4, abs=0.08)
    assert t.edges.sum() // 2 == {"chain": 19, "hub": 18, "random": 27, "scale-free": 19}[kind]
    assert 0.15 < t.strength < 0.4


def test_f1():
    edges, found = np.zeros((4, 4), dtype=bool), np.zeros((4, 4), dtype=bool)
    edges[[0, 1, 1, 2], [1, 0, 2, 1]] = True
    found[[0, 1, 0, 3], [1, 0, 3, 0]] = True
    assert f1(found, edges) == 0.5
    assert f1(edges, edges) == 1.0


def test_unfloored_rows_are_their_plain_correlations():
    t = table(Cell("chain", 12, 500, 0.4), 1)
    np.testing.assert_array_equal(plain_correlations(t.latent), default(t.latent, floor=None))
    assert effective_rows(t.floored) < 480


def test_a_tenth_of_the_rows_become_outliers():
    t = table(Cell("chain", 20, 500, 0.4), 1)
    for kind in OUTLIERS:
        assert np.sum(np.any(with_outliers(t.floored, kind, 0) != t.floored, axis=1)) == 50
