import numpy as np
import pytest

from unrelu.kernels.columns import copy_columns


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 37])
@pytest.mark.parametrize("shift", [0, 1])
def test_columns_anywhere_in_memory(kind, n, shift):
    size = np.dtype(kind).itemsize
    values = np.random.default_rng(n).standard_normal((3, n)).astype(kind)
    memory = [np.frombuffer(bytearray(shift) + bytearray(column.tobytes()) + b"\0", np.uint8) for column in values]
    table = np.full((n + 2, 3), 7.0, kind)
    copy_columns(np.array([each.ctypes.data + shift for each in memory], np.uintp), table[1 : n + 1])
    np.testing.assert_array_equal(table[1 : n + 1], values.T)
    assert np.all(table[[0, -1]] == 7.0)
    assert all(len(each) == n * size + shift + 1 for each in memory)
