"""Tables and clusters that are not as they should be: the same answer, or the same words, as without a cluster."""

from __future__ import annotations

import socket
import time
from functools import partial

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed", reason='the cluster tests need Dask: pip install "unrelu[dask]"')

import dask
import dask.array as da
import dask.dataframe as dd
from distributed import Client, LocalCluster

import unrelu
from tests.passes.cluster_questions import RowsQuestion, in_order, same_models
from unrelu import RectifiedGaussianLearner
from unrelu.errors import ClusterError, InputFileError, InvalidDataError, InvalidParameterError, UnreluWarning
from unrelu.passes import dask_engine
from unrelu.passes.dask_engine import DaskEngine
from unrelu.passes.engine import engine_for
from unrelu.tables import open_samples

X = unrelu.synthetic.random_model(3, random_state=0).sample(900, random_state=1)
FRAME = pd.DataFrame(X, columns=list("abc"))
one_pass = partial(RectifiedGaussianLearner, "one_pass")  # the default is another for a table that is in memory here


@pytest.fixture(params=["here", "apart"])
def where(request):
    """The options of open_samples: read by this process, or by the workers."""
    return {} if request.param == "here" else {"scheduler": request.getfixturevalue("client")}


def written(folder, kind, *frames):
    for k, frame in enumerate(frames):
        path = folder / f"{k}.{kind}"
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return folder / f"*.{kind}"


# --- files in one glob ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_in_another_order_are_matched_by_name(where, tmp_path, kind):
    glob = written(tmp_path, kind, FRAME[:300], FRAME[300:500][["c", "a", "b"]], FRAME[500:][["b", "c", "a"]])
    rows = open_samples(glob, **where)
    in_order(X, engine_for(rows).collect(rows, RowsQuestion()))
    same_models(one_pass().fit(rows), one_pass().fit(X))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_missing_column_is_named_with_its_file(where, tmp_path, kind):
    glob = written(tmp_path, kind, FRAME[:300], FRAME[300:][["c", "a"]])
    with pytest.raises(InputFileError, match=rf"1\.{kind}.*'b'"):
        open_samples(glob, **where)


def test_numbers_of_several_types(where, tmp_path):
    whole = FRAME.round()
    glob = written(tmp_path, "parquet", whole[:300].astype(np.int32), whole[300:500].astype(np.float32), whole[500:])
    rows = open_samples(glob, **where)
    in_order(whole.to_numpy(), engine_for(rows).collect(rows, RowsQuestion()))


def test_text_in_one_file(where, tmp_path):
    other = FRAME[300:].astype({"b": object})
    other.loc[700, "b"] = "much"
    glob = written(tmp_path, "csv", FRAME[:300], FRAME, other)
    with pytest.raises(InputFileError, match=r"2\.csv.*line 402.*'b'.*'much'"):
        open_samples(glob, **where)
    glob = written(tmp_path, "parquet", FRAME[:300], other.astype({"b": str}))
    with pytest.raises(
        InputFileError, match=r"1\.parquet: row 401, column 'b': 'much' is not a number\. Correct the cell"
    ):
        open_samples(glob, **where)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_without_rows_or_with_nothing(where, tmp_path, kind):
    glob = written(tmp_path, kind, FRAME[:0], FRAME[:600], FRAME[:0], FRAME[600:])
    rows = open_samples(glob, **where)
    in_order(X, engine_for(rows).collect(rows, RowsQuestion()))
    (tmp_path / f"4.{kind}").write_bytes(b"")
    with pytest.raises(InputFileError, match=rf"4\.{kind}"):
        open_samples(glob, **where)
    with pytest.warns(UnreluWarning, match=rf"4\.{kind}"):
        rows = open_samples(glob, skip_bad_files=True, **where)
    in_order(X, engine_for(rows).collect(rows, RowsQuestion()))


def test_no_file_has_rows(where, tmp_path):
    with pytest.raises(InputFileError, match="has columns but no rows"):
        open_samples(written(tmp_path, "csv", FRAME[:0], FRAME[:0]), **where)


def test_a_checkpoint_is_for_this_process(client, tmp_path):
    glob = written(tmp_path, "csv", FRAME)
    with pytest.raises(InvalidParameterError, match="leave it out with a cluster"):
        open_samples(glob, checkpoint=tmp_path / "c", scheduler=client)


# --- Dask's tables --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [
        lambda: dd.from_pandas(FRAME, npartitions=4).clear_divisions(),
        lambda: dd.concat([dd.from_pandas(FRAME[k : k + 300], npartitions=1) for k in (0, 300, 600)]).clear_divisions(),
        lambda: dd.concat([dd.from_pandas(part, npartitions=2) for part in (FRAME, FRAME[:0])]),
        lambda: (lambda frame: frame[frame["a"] >= 0.0])(dd.from_pandas(FRAME, npartitions=4)),
        lambda: (lambda array: array[array[:, 0] >= 0.0])(da.from_array(X, chunks=(250, 3))),
        lambda: da.concatenate([da.zeros((0, 3), chunks=(1, 3)), da.from_array(X, chunks=(400, 2))]),
    ],
    ids=["unknown divisions", "joined", "no rows at the end", "frame, filtered", "array, filtered", "no rows first"],
)
def test_unknown_lengths_and_divisions(client, table):
    local = one_pass().fit(X)
    same_models(one_pass().fit(table()), local)
    with client.as_current():
        same_models(one_pass().fit(table()), local)


@pytest.mark.filterwarnings("ignore::unrelu.errors.UnreluWarning")
def test_partitions_that_a_filter_empties(client):
    """Sorted by a column, so that all but one of the partitions are empty."""
    ordered = FRAME.sort_values("a", ignore_index=True)
    few = ordered[ordered["a"] > ordered["a"][800]]
    table = dd.from_pandas(ordered, npartitions=9)
    table = table[table["a"] > ordered["a"][800]]
    with client.as_current():
        same_models(one_pass().fit(table), one_pass().fit(few))
        with pytest.raises(InvalidDataError, match="no rows"):
            RectifiedGaussianLearner().fit(table[table["a"] < 0.0])


def test_a_partition_with_other_columns(client):
    parts = [dask.delayed(FRAME[:300]), dask.delayed(FRAME[300:].rename(columns={"b": "z"}))]
    table = dd.from_delayed(parts, meta=FRAME[:0], verify_meta=False)
    with client.as_current(), pytest.raises(InvalidDataError, match="A partition of the frame has the columns a, z, c"):
        RectifiedGaussianLearner().fit(table)


def test_text_in_a_frame(client):
    table = dd.from_pandas(FRAME.astype({"c": str}), npartitions=2)
    with client.as_current(), pytest.raises(InvalidDataError, match=r"Not numbers: column 'c'"):
        RectifiedGaussianLearner().fit(table)


# --- clusters -------------------------------------------------------------------------------------


def test_a_machine_that_takes_calls_and_says_nothing(monkeypatch):
    monkeypatch.setattr(dask_engine, "_CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        with pytest.raises(ClusterError, match="No Dask scheduler answers"):
            DaskEngine(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        assert time.monotonic() - began < 9.0


def test_workers_that_cannot_import_unrelu(tmp_path):
    """Real processes, to which the name stands for nothing."""
    (tmp_path / "without.py").write_text("import sys\nsys.modules['unrelu'] = None\n")
    with (
        dask.config.set({"distributed.worker.preload": [str(tmp_path / "without.py")]}),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as found,
        pytest.raises(ClusterError, match=r"lack unrelu .*: tcp://127\S+ \(none\)\. Install that version"),
    ):
        DaskEngine(found)
