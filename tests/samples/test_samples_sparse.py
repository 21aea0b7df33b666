"""Rows of a scipy sparse matrix: the same rows as its dense form, with names."""

import numpy as np
import pytest
import scipy.sparse

from unrelu.contracts import Samples
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.samples import SparseSamples, sparse


@pytest.fixture
def table():
    return np.maximum(np.random.default_rng(0).standard_normal((50, 4)), 0.0)


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array"])
def test_blocks_are_the_dense_rows(table, kind, monkeypatch):
    monkeypatch.setattr(sparse, "rows_per_block", lambda n, d: 20)
    samples = SparseSamples(getattr(scipy.sparse, kind)(table), list("abcd"))
    assert isinstance(samples, Samples)
    assert (samples.n_rows, samples.n_features, samples.feature_names) == (50, 4, ("a", "b", "c", "d"))
    for _ in range(2):
        blocks = list(samples.blocks())
        assert [block.first_row for block in blocks] == [0, 20, 40]
        np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), table)
    np.testing.assert_array_equal(samples.matrix.toarray(), table)


def test_integers_become_floats():
    block = next(SparseSamples(scipy.sparse.csr_array(np.eye(3, dtype=np.int64))).blocks())
    assert block.values.dtype == np.float64


def test_what_is_no_sparse_table(table):
    with pytest.raises(InvalidDataError, match="got ndarray"):
        SparseSamples(table)
    with pytest.raises(InvalidParameterError, match="1 feature names for 4 columns"):
        SparseSamples(scipy.sparse.csr_array(table), ["a"])
