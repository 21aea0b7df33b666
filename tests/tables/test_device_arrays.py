"""Rows of an array on a device."""

from dataclasses import replace

import array_api_strict as strict
import numpy as np

from unrelu.tables.device import DeviceSamples


def test_blocks_are_the_rows():
    x = np.arange(6000.0).reshape(3000, 2)
    samples = DeviceSamples(strict.asarray(x)).weighted(np.arange(3000.0))
    blocks = list(samples.blocks())
    assert len(blocks) > 1
    assert [block.first_row for block in blocks] == np.cumsum([0, *(block.n_rows for block in blocks[:-1])]).tolist()
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), x)
    np.testing.assert_array_equal(np.concatenate([block.weights for block in blocks]), np.arange(3000.0))


def test_a_block_with_other_values_is_no_longer_on_the_device():
    block = next(DeviceSamples(strict.asarray([[1.0], [2.0]])).blocks())
    other = replace(block, values=-block.values[:1])
    assert (other.array, other.n_rows, other.values.tolist()) == (None, 1, [[-1.0]])


def test_floors_as_the_table_holds_them():
    samples = DeviceSamples(strict.asarray([[0.1]], dtype=strict.float32))
    assert samples.stored_as(np.array([0.1])) == np.float64(np.float32(0.1))
