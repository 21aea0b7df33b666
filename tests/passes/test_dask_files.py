"""Files that the workers of a cluster read: shared out, with the same rows in the same order."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed", reason='the cluster tests need Dask: pip install "unrelu[dask]"')

import unrelu
from tests.passes.cluster_questions import RowsQuestion, in_order, same_models
from unrelu import RectifiedGaussianLearner
from unrelu.errors import InputFileError
from unrelu.passes.engine import engine_for
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables import open_samples
from unrelu.tables.write import write_table

X = unrelu.synthetic.random_model(4, random_state=0).sample(3000, random_state=1)


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy", "feather", "npz"])
def test_files_are_read_by_the_workers(client, tmp_path, kind):
    for k in range(3):
        write_table(tmp_path / f"{k}.{kind}", X[1000 * k : 1000 * (k + 1)], None if kind == "npy" else list("abcd"))
    rows = open_samples(tmp_path / f"*.{kind}", scheduler=client)
    in_order(X, engine_for(rows).collect(rows, RowsQuestion()))
    assert rows.n_rows == 3000
    same_models(RectifiedGaussianLearner().fit(rows), RectifiedGaussianLearner("one_pass").fit(X))


def test_what_a_file_is_stored_in_is_parts(client, tmp_path, monkeypatch):
    """Row groups, record batches and rows; where a batch of a stream starts only those before it tell."""
    import pyarrow as pa
    from pyarrow import parquet

    monkeypatch.setattr(unrelu.tables.arrow_files, "SHARE_CELLS", 1600)
    monkeypatch.setattr(unrelu.tables.numpy_files, "SHARE_CELLS", 1600)
    table = pa.table(dict(zip("abcd", X.T, strict=True)))
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=250)
    np.save(tmp_path / "x.npy", X)
    for name, kind in (("x.feather", pa.ipc.new_file), ("x.arrow", pa.ipc.new_stream)):
        with kind(tmp_path / name, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
            out.write_table(table.slice(0, 0))
            out.write_table(table, max_chunksize=250)
    kinds = {"parquet": [500] * 6, "feather": [500] * 6, "npy": [400] * 7 + [200], "arrow": [3000]}
    for kind, lengths in kinds.items():
        rows = open_samples(tmp_path / f"x.{kind}", scheduler=client)
        assert [part.n_rows for part in rows.parts(lambda *_: [])] == lengths
        in_order(X, engine_for(rows).collect(rows, RowsQuestion()))


def test_a_corrupt_row_group_is_named(client, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    table = pa.table(dict(zip("abcd", X.T, strict=True)))
    parquet.write_table(table, path, row_group_size=1000, write_page_checksum=True, compression="none")
    content = bytearray(path.read_bytes())
    at = parquet.ParquetFile(path).metadata.row_group(1).column(2).data_page_offset + 600
    content[at : at + 8] = b"\xff" * 8
    path.write_bytes(content)
    rows = open_samples(path, scheduler=client)
    with pytest.raises(InputFileError, match=r"x\.parquet, row group 1: not a whole parquet file"):
        engine_for(rows).collect(rows, RowsQuestion())


def test_files_that_only_this_process_sees(client, tmp_path):
    write_table(tmp_path / "x.npy", X)
    rows = open_samples(tmp_path / "x.npy", scheduler=client)
    os.rename(tmp_path / "x.npy", tmp_path / "y.npy")
    with pytest.raises(InputFileError, match=r"x\.npy: no such file.*The worker on"):
        engine_for(rows).collect(rows, RowsQuestion())


def test_what_was_put_aside_is_read_here(client, tmp_path, monkeypatch):
    import io

    text = pd.DataFrame(X, columns=list("abcd")).to_csv(index=False)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    rows = open_samples("-", scheduler=client)
    in_order(X, engine_for(rows).collect(rows, RowsQuestion()))


def test_words_that_workers_met_are_in_the_message(client, tmp_path):
    """The first megabyte of a csv is looked at where it is opened; what comes later, by who reads it."""
    path = tmp_path / "long.csv"
    with open(path, "w") as file:
        file.write("a,b\n" + "1.5,2.25\n" * 150_000 + "ND,1\n")
    rows = open_samples(path, scheduler=client)
    assert rows.notes == []
    engine_for(rows).collect(rows, PairMomentsQuestion((0.0,) * 2, (0.0,) * 2))
    assert rows.n_rows == 150_001
    assert "ND" in rows.notes[0]
