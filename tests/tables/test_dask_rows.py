"""Dask's arrays and frames without a cluster: chunk by chunk in this process."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask", reason='needs Dask: pip install "unrelu[dask]"')

import dask.array as da
import dask.dataframe as dd

import unrelu
from unrelu import RectifiedGaussianLearner
from unrelu.contracts import Samples
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.tables.dask_rows import DaskSamples

X = unrelu.synthetic.random_model(3, random_state=0).sample(500, random_state=1)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


def read(rows: DaskSamples) -> np.ndarray:
    blocks = list(rows.blocks())
    ends = np.cumsum([len(block.values) for block in blocks])
    assert [block.first_row for block in blocks] == [0, *ends[:-1]]
    assert all(len(block.values) for block in blocks)
    return np.concatenate([block.values for block in blocks])


@pytest.mark.parametrize(
    "table",
    [
        da.from_array(X, chunks=(200, 2)),
        da.from_array(X, chunks=((0, 499, 0, 1), 3)),
        da.from_array(X, chunks=(200, 3))[da.from_array(X, chunks=(200, 3))[:, 0] >= 0.0],
        dd.from_pandas(FRAME, npartitions=4),
        dd.from_pandas(FRAME, npartitions=4).clear_divisions(),
        dd.concat([dd.from_pandas(FRAME, npartitions=2).query("a < 0"), dd.from_pandas(FRAME, npartitions=3)]),
    ],
    ids=["array", "empty chunks", "unknown chunks", "frame", "unknown divisions", "empty partitions"],
)
def test_rows_come_in_order(table):
    rows = DaskSamples(table)
    assert isinstance(rows, Samples)
    assert (rows.n_rows, rows.n_features) == (500, 3)
    np.testing.assert_array_equal(read(rows), X)


def test_types_of_numbers():
    single = DaskSamples(dd.from_pandas(FRAME.astype(np.float32), npartitions=2))
    assert read(single).dtype == np.float32
    mixed = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    rows = DaskSamples(dd.from_pandas(mixed, npartitions=2))
    assert rows.feature_names == ("a", "b")
    np.testing.assert_array_equal(read(rows), [[1.0, 1.0], [np.nan, 0.0], [3.0, 1.0]])
    assert read(DaskSamples(da.arange(6, chunks=3).reshape(3, 2))).dtype == np.float64


def test_long_chunks_are_cut(monkeypatch):
    monkeypatch.setattr(unrelu.tables.dask_rows, "_BLOCK_CELLS", 300)
    rows = DaskSamples(da.from_array(X, chunks=(400, 3)))
    assert [len(block.values) for block in rows.blocks()] == [100] * 5
    np.testing.assert_array_equal(read(rows), X)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (da.ones(5), "2 dimensions"),
        (da.from_array(np.array([["a"]]), chunks=1), "Expected numbers"),
        (dd.from_pandas(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), npartitions=1), "Not numbers: column 'a'"),
        (dd.from_pandas(pd.DataFrame({"t": pd.to_datetime(["2020-01-01"])}), npartitions=1), "dates or times"),
    ],
    ids=["one dimension", "text", "column of text", "times"],
)
def test_what_is_no_table_of_numbers(table, words):
    with pytest.raises(InvalidDataError, match=words):
        RectifiedGaussianLearner().fit(table)


def test_a_fit_without_a_cluster():
    local = RectifiedGaussianLearner("one_pass").fit(FRAME)
    learner = RectifiedGaussianLearner().fit(dd.from_pandas(FRAME, npartitions=3))
    assert list(learner.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(learner.covariance_, local.covariance_, rtol=1e-10)
    sites = FRAME.assign(site=np.where(np.arange(500) % 4, "b", "a"))
    apart = RectifiedGaussianLearner(stderr="jackknife").fit(dd.from_pandas(sites, npartitions=3), groups="site")
    assert apart.report_.stderr_degrees == 1


def test_weights():
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 500)
    local = RectifiedGaussianLearner("one_pass").fit(FRAME, sample_weight=weights)
    table = dd.from_pandas(FRAME.assign(w=weights), npartitions=3)
    for given in (weights, table["w"], table["w"].to_dask_array(lengths=True)):
        learner = RectifiedGaussianLearner().fit(table[["a", "b", "c"]], sample_weight=given)
        np.testing.assert_allclose(learner.covariance_, local.covariance_, rtol=1e-10)


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        (-np.ones(500), InvalidDataError, "negative"),
        (np.full(500, np.nan), InvalidDataError, "missing"),
        (np.zeros(500), InvalidDataError, "no positive"),
        (np.full(500, 1e200), InvalidDataError, "range of squares"),
        (np.ones(499), InvalidParameterError, "give one weight per row"),
    ],
)
def test_weights_that_cannot_be_used(weights, error, words):
    with pytest.raises(error, match=words):
        RectifiedGaussianLearner().fit(
            da.from_array(X, chunks=(250, 3)), sample_weight=da.from_array(weights, chunks=250)
        )
