"""The table as tiles: what holds it and how it is cut change nothing."""

import numpy as np
import pytest
import scipy.sparse

from unrelu.recovery.matrix import factors as module
from unrelu.recovery.matrix.factors import Cells, sizes_of, tiles


@pytest.fixture
def values():
    rng = np.random.default_rng(0)
    values = np.maximum(rng.standard_normal((50, 8)), 0.0)
    values[rng.random(values.shape) < 0.1] = np.nan
    return values


@pytest.mark.parametrize("margins", [(1, 1), (7, 3), (1000, 300), (3, 400_000), (131_073, 1), (40_000, 70)])
def test_tiles_cover_every_row_once(margins):
    parts = tiles(margins)
    np.testing.assert_array_equal(np.concatenate([np.arange(p.start, p.stop) for p in parts]), np.arange(margins[0]))
    assert all(p.stop - p.start == 1 or (p.stop - p.start) * margins[1] <= module._MOST_CELLS for p in parts)


def test_kinds_of_tables_agree(values):
    dense, sparse = Cells(values), Cells(scipy.sparse.csr_array(values))
    assert dense.shape == sparse.shape == (50, 8)
    for start, stop in [(0, 50), (10, 11), (45, 50)]:
        np.testing.assert_array_equal(dense.rows(start, stop), sparse.rows(start, stop))
    rows, columns = np.arange(50) % 3 == 0, np.arange(8) > 2
    wanted = values[rows][:, columns]
    np.testing.assert_array_equal(dense.part(rows, columns).rows(0, len(wanted)), wanted)
    np.testing.assert_array_equal(sparse.part(rows, columns).rows(0, len(wanted)), wanted)
    np.testing.assert_array_equal(dense.rescale(3.0).rows(0, 50), 3.0 * values)
    np.testing.assert_array_equal(sparse.rescale(3.0).rows(0, 50), 3.0 * values)


def test_observed_counts_what_is_not_missing(values, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_CELLS", 64)
    assert len(tiles(values.shape)) > 1
    count = np.isfinite(values).sum()
    assert sizes_of(Cells(values))[1] == sizes_of(Cells(scipy.sparse.csr_array(values)))[1] == count


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_held_out_cells_are_about_their_share(share):
    held = Cells(np.ones((2000, 30)), (share, 7))
    hidden = held.hidden(0, 2000)
    error = np.sqrt(share * (1.0 - share) / hidden.size)
    assert abs(hidden.mean() - share) < 4.0 * error
    by_column = hidden.mean(axis=0) - share
    assert np.abs(by_column).max() < 5.0 * error * np.sqrt(30)
    assert hidden.sum(axis=1).var() == pytest.approx(30 * share * (1.0 - share), rel=5.0 * np.sqrt(2.0 / 2000))


def test_held_out_cells_do_not_depend_on_how_the_table_is_read(values):
    held = Cells(values, (0.3, 11))
    whole = held.rows(0, 50)
    pieces = np.concatenate([held.rows(start, min(start + 7, 50)) for start in range(0, 50, 7)])
    np.testing.assert_array_equal(whole, pieces)
    np.testing.assert_array_equal(np.isnan(whole), held.hidden(0, 50) | np.isnan(values))
    np.testing.assert_array_equal(Cells(scipy.sparse.csr_array(values), (0.3, 11)).rows(0, 50), whole)


def test_held_out_seeds_differ_and_parts_keep_their_cells(values):
    held = Cells(values, (0.3, 11))
    assert (held.hidden(0, 50) != Cells(values, (0.3, 12)).hidden(0, 50)).mean() > 0.2
    rows, columns = np.arange(50) % 2 == 0, np.arange(8) != 3
    np.testing.assert_array_equal(held.part(rows, columns).rows(0, 25), held.rows(0, 50)[rows][:, columns])
    np.testing.assert_array_equal(held.rescale(2.0).rows(0, 50), 2.0 * held.rows(0, 50))
