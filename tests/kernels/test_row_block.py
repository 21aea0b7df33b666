import numpy as np
import pytest

from unrelu.kernels.row_block import LARGEST, add_joint_counts, centre_block, scan_block


@pytest.mark.parametrize(("n", "d"), [(1, 1), (63, 3), (64, 5), (65, 2), (1000, 7)])
def test_joint_counts_are_exact(n, d):
    above = (np.random.default_rng(n).random((n, d)) < 0.4).astype(float)
    count = np.ones((d, d))
    add_joint_counts(above, np.empty((16, d), dtype=np.uint64), count)
    np.testing.assert_array_equal(count, 1 + above.T @ above)


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
