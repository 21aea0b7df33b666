from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unrelu.contracts import Block, CellLimits, Samples, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.estimators.preparation import learn_columns, prepare
from unrelu.passes.rows import SparseBlock, regroup
from unrelu.tables import ArraySamples, rows_per_block


def test_obeys_the_contract():
    samples = ArraySamples(np.zeros((3, 2)), feature_names=["a", "b"])
    assert isinstance(samples, Samples)
    assert (samples.n_rows, samples.n_features, samples.feature_names) == (3, 2, ("a", "b"))
    assert ArraySamples(np.zeros((3, 2))).feature_names is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_float_blocks_are_views(dtype, order, table, all_rows):
    values = np.asarray(table, dtype=dtype, order=order)
    values.flags.writeable = False
    samples = ArraySamples(values)
    blocks = list(samples.blocks())
    assert [len(block.values) for block in blocks] == [512, 512, 76]
    assert all(np.shares_memory(block.values, values) and block.values.dtype == dtype for block in blocks)
    np.testing.assert_array_equal(all_rows(samples), values)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.int32, "f8"), (np.uint8, "f8"), (bool, "f8"), (np.float16, "f4"), (">f8", "f8"), (">f4", "f4")],
)
def test_other_numbers_are_converted_block_by_block(dtype, expected, all_rows):
    values = np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype)
    rows = all_rows(ArraySamples(values, block_rows=2))
    assert rows.dtype == np.dtype(expected)
    np.testing.assert_array_equal(rows, values.astype(float))


def test_read_only_memory_map(tmp_path, table, all_rows):
    np.save(tmp_path / "x.npy", table)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    samples = ArraySamples(mapped)
    assert all(type(block.values) is np.ndarray for block in samples.blocks())
    assert all(np.shares_memory(block.values, mapped) for block in samples.blocks())
    np.testing.assert_array_equal(all_rows(samples), table)


def test_weights_follow_their_rows():
    weights = np.arange(5)
    blocks = ArraySamples(np.zeros((5, 1)), weights, block_rows=2).blocks()
    assert [block.weights.tolist() for block in blocks] == [[0.0, 1.0], [2.0, 3.0], [4.0]]


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=20)), st.integers(1, 25))
@settings(max_examples=50, deadline=None)
def test_any_block_size_gives_the_same_rows(values, block_rows):
    blocks = list(ArraySamples(values, block_rows=block_rows).blocks())
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), values)
    assert all(len(block.values) == block_rows for block in blocks[:-1])


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_regrouping_keeps_rows_and_order_however_they_are_cut(sizes, rows):
    values = np.arange(2 * sum(sizes)).reshape(-1, 2)
    pieces = np.split(values, np.cumsum(sizes)[:-1]) if sizes else []
    blocks = list(regroup(pieces, rows))
    np.testing.assert_array_equal(np.concatenate([values[:0], *blocks]), values)
    assert [len(block) for block in blocks[:-1]] == [rows] * (len(blocks) - 1)
    assert all(0 < len(block) <= rows for block in blocks)


def test_rows_per_block():
    assert rows_per_block(1, 1) == 512
    assert rows_per_block(24 * 1000, 100) == 1000
    assert rows_per_block(10**7, 100) == 41943
    assert rows_per_block(10**7, 1000) == 4194
    assert rows_per_block(10**6, 20) == 41666
    assert rows_per_block(None, 1000) == 4194
    assert rows_per_block(10**7, 16384) == 1024
    assert rows_per_block(10**7, 10**7) == 512


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.array([["a"]]), "<U1"),
        (np.array([[None]]), "object"),
        (np.zeros((2, 2), complex), "complex128"),
    ],
)
def test_refuses_what_is_no_table_of_numbers(values, said):
    with pytest.raises(InvalidDataError, match=said):
        ArraySamples(values)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"weights": [1.0]}, "one weight per row"),
        ({"feature_names": ["a"]}, "1 feature names for 2 columns"),
        ({"block_rows": 0}, "at least 1 row"),
    ],
)
def test_refuses_parameters_that_do_not_fit(arguments, said):
    with pytest.raises(InvalidParameterError, match=said):
        ArraySamples(np.zeros((3, 2)), **arguments)


def test_arrays_do_not_pay_for_pyarrow():
    code = "import sys, unrelu.tables; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Own(Samples):
    """Rows of somebody who derives from Samples: what differs beside what every class needs is the limit."""

    n_features, n_rows, limits = 2, 3, CellLimits(floor=((1, 0.5),))

    def blocks(self):
        yield Block(np.array([[1.0, 0.5], [2.0, 3.0], [4.0, 0.5]]))


def test_rows_of_ones_own_have_the_other_answers_and_give_their_limits():
    rows = Own()
    assert (rows.feature_names, rows.limits_by_cell, rows.notes, rows.ids()) == (None, (), [], {})
    assert [block.values.tolist() for block in rows.blocks_from(3)] == []
    assert learn_columns(prepare(rows), 0.0, None, 0.0, no_progress).floor.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("block", [Block(np.eye(3)), SparseBlock(matrix=scipy.sparse.csr_array(np.eye(3)))])
def test_blocks_give_some_of_their_rows(block):
    assert block.n_rows == 3
    np.testing.assert_array_equal(block.some_rows(np.array([0, 2])), [[1, 0, 0], [0, 0, 1]])
    assert ("values" in vars(block)) == (type(block) is Block)  # sparse rows are not made dense
