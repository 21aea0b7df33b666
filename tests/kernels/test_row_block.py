import numpy as np
import pytest
import scipy.sparse

from unrelu.kernels import row_block
from unrelu.kernels.row_block import (
    LARGEST,
    add_sparse_rows,
    add_stack,
    add_upper_counts,
    centre_block,
    out_of_place,
    pack_rows,
    scan_block,
)


@pytest.fixture(autouse=True, params=[0, row_block.FEW_CELLS], ids=["kernel", "NumPy"])
def few_cells(request, monkeypatch):
    """Every block by the kernels, and every block by NumPy."""
    monkeypatch.setattr(row_block, "FEW_CELLS", request.param)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (63, 3), (64, 5), (65, 2), (1000, 7)])
def test_joint_counts_are_exact(n, d):
    above = (np.random.default_rng(n).random((n, d)) < 0.4).astype(float)
    count, words = np.ones((d, d)), np.empty((16, d), dtype=np.uint64)
    pack_rows(above, words)
    add_upper_counts(words, 0, d, count)
    np.testing.assert_array_equal(np.triu(count), np.triu(1 + above.T @ above))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_centre_block_lays_out_powers_and_indicators(dtype):
    values = np.array([[0.0, 3.0], [2.0, np.nan], [np.inf, -np.inf], [0.5, 1.0]], dtype=dtype)
    floor, origin = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    powers, above = np.empty((2, 4, 2), dtype), np.empty((4, 2), dtype)
    most = values.dtype.type(min(LARGEST, float(np.finfo(dtype).max)))
    centre_block(values, floor.astype(dtype), origin.astype(dtype), most, powers, above)
    np.testing.assert_array_equal(above, [[0, 1], [1, 0], [0, 0], [1, 0]])
    np.testing.assert_array_equal(powers[0], [[0, 1], [1, 0], [0, 0], [-0.5, 0]])
    np.testing.assert_array_equal(powers[1], powers[0] ** 2)


def scan(values, allowed):
    d = values.shape[1]
    counts, first, below = np.zeros((3, d), dtype=np.int64), np.empty((2, d), dtype=np.int64), np.empty(d)
    scan_block(values, np.full(d, allowed), counts, first, below)
    return counts, first, below


def test_scan_block_counts_what_is_out_of_place():
    values = np.array([[0.0, 1.0, np.nan], [-1.0, np.inf, 2.0], [-3.0, 4.0, 2 * LARGEST], [5.0, -np.inf, np.nan]])
    counts, first, below = scan(values, 0.0)
    np.testing.assert_array_equal(counts, [[0, 0, 2], [2, 0, 0], [0, 2, 1]])
    np.testing.assert_array_equal(first, [[1, -1, -1], [-1, 1, 2]])
    np.testing.assert_array_equal(below, [-3, 0, 0])


def test_scan_block_allows_what_lies_within_the_tolerance():
    counts, first, below = scan(np.array([[-0.1], [0.05], [-0.3], [0.5]]), -0.2)
    assert counts[:, 0].tolist() == [0, 1, 0]
    assert (first[0, 0], below[0]) == (2, -0.3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("cell", "found"), [(1.0, 0), (0.5, 0), (0.25, 1), (np.nan, 1), (np.inf, 1), (-np.inf, 1)])
def test_cells_out_of_place_are_noticed(dtype, cell, found):
    values = np.ones((9, 7), dtype)
    values[4, 5] = cell
    assert out_of_place(values, np.full(7, 0.5, dtype), dtype(1e30)) == found


def test_short_parts_are_added_in_double_precision():
    parts = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
    into = np.ones((2, 4, 8))
    add_stack(parts, into[:, :, 2:7])
    np.testing.assert_allclose(into[:, :, 2:7], 1.0 + parts.astype(float).sum(axis=1), rtol=1e-15)
    assert (into[:, :, :2] == 1.0).all()


def test_sparse_rows_add_up_over_several_batches():
    rng = np.random.default_rng(0)
    x = np.where(rng.random((5000, 6)) < 0.3, rng.standard_normal((5000, 6)) + 1.0, 0.0)
    matrix, w, origin, floor = scipy.sparse.csr_array(x), rng.random(5000), rng.random(6), np.full(6, 0.2)
    sums = np.zeros((6, 6, 4))
    add_sparse_rows(matrix.indptr, matrix.indices, matrix.data, floor, origin, w, sums)
    p = (x > floor).astype(float)
    t = p * (x - origin)
    for k, (left, right) in enumerate([(p, p), (t, p), (t * t, p), (t, t)]):
        np.testing.assert_allclose(sums[..., k], left.T @ (w[:, None] * right), rtol=1e-11)
