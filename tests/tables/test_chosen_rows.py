"""Rows that meet a condition, in every kind of file, and keys in the names of folders."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import unrelu
from unrelu.contracts import Part
from unrelu.errors import InputFileError, InvalidDataError, InvalidParameterError
from unrelu.tables import open_samples, write_table

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

X = unrelu.synthetic.random_model(2, random_state=0).sample(2000, random_state=1)
SITE = np.array(["A", "B", "C"])[np.random.default_rng(0).integers(0, 3, 2000)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(extension: str) -> str:
    table = pa.table({"site": SITE, "a": X[:, 0], "b": X[:, 1]})
    if extension == "parquet":
        parquet.write_table(table, "x.parquet", row_group_size=130)
    elif extension == "feather":
        feather.write_feather(table, "x.feather", chunksize=170)
    else:
        with open("x.csv", "w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["site", "a", "b"])
            writer.writerows([site, *map(repr, row)] for site, row in zip(SITE, X.tolist(), strict=True))
    return f"x.{extension}"


@pytest.mark.parametrize("extension", ["parquet", "feather", "csv"])
def test_only_rows_that_meet_the_condition(extension, all_rows):
    name, kept = write(extension), (SITE == "A") & (X[:, 1] > 0.5)
    samples = open_samples(name, drop="site", where="site == 'A' and b > 0.5", block_rows=64)
    np.testing.assert_array_equal(all_rows(samples), X[kept])
    assert samples.n_rows is None
    alone = open_samples(name, columns="a", id="site", where="site == 'A' and b > 0.5")
    np.testing.assert_array_equal(all_rows(alone), X[kept, :1])
    assert alone.ids() == {"site": ["A"] * kept.sum()}
    row = int(np.flatnonzero(kept)[7])
    assert samples.row_label(7) == (f"row 8 (line {row + 2})" if extension == "csv" else "row 8")
    rest, labels = open_samples(name, drop="site", where="a > 0").split_column("site")
    assert labels.tolist() == SITE[X[:, 0] > 0].tolist()
    np.testing.assert_array_equal(all_rows(rest), X[X[:, 0] > 0])


@pytest.mark.parametrize("extension", ["parquet", "csv"])
def test_parts_for_others_to_read(extension, all_rows):
    samples = open_samples(write(extension), drop="site", where="site != 'B'")
    parts = samples.parts(lambda function, items: [function(item) for item in items])
    assert all(isinstance(part, Part) for part in parts)
    rows = np.concatenate([block.values for part in parts for block in part.read()])
    np.testing.assert_array_equal(rows, X[SITE != "B"])
    assert sum(part.n_rows for part in parts) == len(rows)


def test_numbers_without_names():
    write_table("x.npy", X)
    rows = np.concatenate([block.values for block in open_samples("x.npy", where="`1` > 1").blocks()])
    np.testing.assert_array_equal(rows, X[X[:, 1] > 1])


def test_conditions_that_cannot_be_met(all_rows):
    name = write("parquet")
    with pytest.raises(InvalidDataError, match="No row meets where='a < -1'"):
        all_rows(open_samples(name, drop="site", where="a < -1"))
    with pytest.raises(InputFileError, match=r"x.parquet: no column 'sit', which where= compares. Did you mean 'site'"):
        open_samples(name, drop="site", where="sit == 'A'")
    with pytest.raises(InputFileError, match=r"column 'site' holds text \(row 1: 'C'\), not numbers"):
        all_rows(open_samples(name, drop="site", where="site > 3"))
    with pytest.raises(InvalidParameterError, match="cannot be read"):
        open_samples(name, where="a >")


def partitioned(folder) -> None:
    table = pa.table({"site": SITE, "year": np.where(X[:, 0] > 1, 2024, 2023), "a": X[:, 0], "b": X[:, 1]})
    parquet.write_to_dataset(table, folder / "data", partition_cols=["site", "year"])


def test_a_partitioned_data_set(folder, all_rows):
    partitioned(folder)
    assert open_samples("data").feature_names == ("a", "b")
    samples = open_samples("data", where="site == 'B' and year == 2024", id="site")
    kept = (SITE == "B") & (X[:, 0] > 1)
    np.testing.assert_array_equal(np.sort(all_rows(samples), axis=0), np.sort(X[kept], axis=0))
    assert samples.ids() == {"site": ["B"] * kept.sum()}
    with_year = all_rows(open_samples("data", columns=["year", "a"]))
    np.testing.assert_array_equal(with_year[:, 0], np.where(with_year[:, 1] > 1, 2024, 2023))
    assert sorted(open_samples("data").split_column("site")[1].tolist()) == sorted(SITE.tolist())
    with pytest.raises(InputFileError, match=r"column 'site', of the folders' names, holds the text 'A'"):
        open_samples("data", columns=["site", "a"])


def test_files_that_their_folder_rules_out_are_not_read(folder, all_rows):
    partitioned(folder)
    for path in (folder / "data" / "site=A").rglob("*.parquet"):
        content = path.read_bytes()
        path.write_bytes(content[:4] + b"\xa5" * 200 + content[204:])
    with pytest.raises(InputFileError, match=r"site=A.*, row group 0"):
        all_rows(open_samples("data"))
    assert len(all_rows(open_samples("data", where="site != 'A'"))) == (SITE != "A").sum()


def test_a_fit_of_some_rows_and_the_cell_at_fault(folder):
    write("csv")
    learner = unrelu.RectifiedGaussianLearner().fit(open_samples("x.csv", drop="site", where="site == 'C'"))
    assert learner.report_.n_rows == (SITE == "C").sum()
