from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unrelu.contracts import Samples
from unrelu.errors import InputFileError, InvalidParameterError
from unrelu.tables import ArraySamples, open_samples, write_table
from unrelu.tables.table_file import damage_reported

EXTENSIONS = ["csv", "csv.gz", "tsv", "parquet", "feather", "arrow", "npy", "npz"]


def refusal(paths, **options) -> str:
    with pytest.raises(InputFileError) as caught:
        open_samples(paths, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_obeys_the_contract(folder):
    write_table("x.npy", np.zeros((2, 2)))
    assert isinstance(open_samples("x.npy"), Samples)


def test_a_glob_is_read_in_sorted_order(folder, all_rows):
    for name, value in (("b", 2.0), ("a", 1.0), ("c", 3.0)):
        write_table(f"{name}.csv", np.array([[value]]), ["v"])
    (folder / "notes.md").write_text("not a table")
    samples = open_samples("*.csv")
    assert all_rows(samples).ravel().tolist() == [1, 2, 3]
    assert all_rows(samples).ravel().tolist() == [1, 2, 3]
    assert all_rows(open_samples(["c.csv", Path("a.csv")])).ravel().tolist() == [3, 1]
    assert samples.n_bytes == sum(path.stat().st_size for path in folder.glob("*.csv"))


def test_a_name_with_brackets_is_no_glob(folder, all_rows):
    write_table("x[1].csv", np.array([[5.0]]), ["v"])
    assert all_rows(open_samples("x[1].csv")).tolist() == [[5]]


def test_files_of_several_kinds_matched_by_name(folder, all_rows):
    write_table("1.csv", np.array([[1.0, 2.0]]), ["a", "b"])
    write_table("2.parquet", np.array([[20.0, 10.0]], dtype=np.float32), ["b", "a"])
    write_table("3.npz", np.array([[300.0, 100.0, 200.0]]), ["c", "a", "b"])
    samples = open_samples(["1.csv", "2.parquet", "3.npz"], drop="c")
    assert (samples.feature_names, samples.n_rows) == (("a", "b"), None)
    np.testing.assert_array_equal(all_rows(samples), [[1, 2], [10, 20], [100, 200]])
    samples = open_samples(["2.parquet", "3.npz"], columns=["a"])
    assert samples.n_rows == 2
    np.testing.assert_array_equal(all_rows(samples), [[10], [100]])


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_splitting_a_file_changes_no_block(folder, table, extension):
    write_table(f"whole.{extension}", table, ["a", "b", "c"])
    for i, part in enumerate(np.split(table, [100, 101, 900])):
        write_table(f"part{i}.{extension}", part, ["a", "b", "c"])
    in_memory = list(ArraySamples(table, block_rows=256).blocks())
    for path in (f"whole.{extension}", f"part*.{extension}"):
        blocks = list(open_samples(path, block_rows=256).blocks())
        assert [block.first_row for block in blocks] == [block.first_row for block in in_memory]
        for block, expected in zip(blocks, in_memory, strict=True):
            np.testing.assert_array_equal(block.values, expected.values)


@given(st.sampled_from(EXTENSIONS), st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_any_block_size_gives_the_same_rows(extension, block_rows, seed):
    values = np.random.default_rng(seed).normal(size=(30, 2)).clip(0)
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, f"x.{extension}")
        write_table(path, values)
        blocks = [block.values for block in open_samples(path, block_rows=block_rows).blocks()]
        np.testing.assert_array_equal(np.concatenate(blocks), values)
    assert all(len(block) == block_rows for block in blocks[:-1])


def test_default_block_sizes(folder):
    write_table("x.npy", np.zeros((24 * 600, 1)))
    write_table("x.csv", np.zeros((5000, 1)))
    assert len(next(open_samples("x.npy").blocks()).values) == 600
    assert len(next(open_samples("x.csv").blocks()).values) == 5000  # of one column, up to 2^21
    with pytest.raises(InvalidParameterError, match="at least 1 row"):
        open_samples("x.npy", block_rows=0)


def test_reading_two_passes_at_once(folder):
    write_table("x.csv", np.arange(3000.0).reshape(-1, 1))
    samples = open_samples("x.csv", block_rows=100)
    for one, other in zip(samples.blocks(), samples.blocks(), strict=True):
        np.testing.assert_array_equal(one.values, other.values)


# --- which columns ------------------------------------------------------------------------------


def test_columns_to_keep_and_to_leave_out(folder, all_rows):
    write_table("x.csv", np.array([[1.0, 2.0, 3.0]]), ["a", "b", "c"])
    assert all_rows(open_samples("x.csv", columns=["c", "a"])).tolist() == [[3, 1]]
    assert all_rows(open_samples("x.csv", columns=["c", "a", "c"])).tolist() == [[3, 1]]
    assert all_rows(open_samples("x.csv", columns="b")).tolist() == [[2]]
    assert all_rows(open_samples("x.csv", drop=["b"])).tolist() == [[1, 3]]
    assert all_rows(open_samples("x.csv", columns=["a", "b"], drop=["a", "c"])).tolist() == [[2]]
    assert all_rows(open_samples("x.csv", columns=[1], drop=[])).tolist() == [[2]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"columns": ["arsenic"]},
            "x.csv: no column 'arsenic'. Did you mean 'Arsenic'? Its columns are Arsenic, Lead.",
        ),
        (
            {"columns": ["ARSENIC"]},
            "x.csv: no column 'ARSENIC'. Did you mean 'Arsenic'? Its columns are Arsenic, Lead.",
        ),
        ({"drop": ["Laed"]}, "x.csv: no column 'Laed'. Did you mean 'Lead'? Its columns are Arsenic, Lead."),
        ({"drop": ["zzz"]}, "x.csv: no column 'zzz'. Its columns are Arsenic, Lead."),
        ({"columns": [2]}, "x.csv: no column number 2; it has 2, counted from 0."),
        ({"drop": ["Lead", "Arsenic"]}, "x.csv: no column is left to read. Drop fewer columns."),
    ],
)
def test_columns_that_are_not_there(folder, options, said):
    write_table("x.csv", np.zeros((1, 2)), ["Arsenic", "Lead"])
    assert refusal("x.csv", **options) == said


def test_a_long_list_of_columns_is_cut(folder):
    write_table("x.csv", np.zeros((1, 12)), [f"m{i}" for i in range(12)])
    assert refusal("x.csv", drop="zzz").endswith("m6, m7 and 4 more.")


# --- files that do not belong together -------------------------------------------------------------


def test_a_column_too_few_or_too_many(folder, all_rows):
    write_table("1.csv", np.zeros((1, 2)), ["a", "b"])
    write_table("2.parquet", np.zeros((1, 3)), ["b", "extra one", "a"])
    assert refusal(["1.csv", "2.parquet"]) == (
        "2.parquet: has column 'extra one', but 1.csv has not. Leave it out with drop='extra one'."
    )
    assert refusal(["2.parquet", "1.csv"]) == (
        "1.csv: has no column 'extra one', but 2.parquet has. Add it, or leave it out everywhere with drop='extra one'."
    )
    for paths in (["1.csv", "2.parquet"], ["2.parquet", "1.csv"]):
        assert open_samples(paths, drop="extra one").n_features == 2
        assert open_samples(paths, columns=["a", "b"]).n_features == 2


def test_names_here_but_not_there(folder):
    write_table("1.csv", np.zeros((1, 2)), ["a", "b"])
    np.save("2.npy", np.zeros((1, 2)))
    for paths in (["1.csv", "2.npy"], ["2.npy", "1.csv"]):
        assert refusal(paths).startswith("2.npy: has no column names, but 1.csv has.")


def test_other_number_of_columns_without_names(folder):
    np.save("1.npy", np.zeros((1, 2)))
    np.save("2.npy", np.zeros((1, 3)))
    assert "2.npy: has column number 2 (the first is 0), but 1.npy has not" in refusal(["1.npy", "2.npy"])
    assert "1.npy: has no column number 2 (the first is 0), but 2.npy has" in refusal(["2.npy", "1.npy"])


def test_single_floats_only_if_all_files_are(folder, all_rows):
    np.save("1.npy", np.zeros((1, 2), np.float32))
    np.save("2.npy", np.zeros((1, 2)))
    assert all_rows(open_samples("1.npy")).dtype == np.float32
    samples = open_samples(["1.npy", "2.npy"], block_rows=1)
    assert [block.values.dtype for block in samples.blocks()] == [np.float64, np.float64]


# --- files that are not there ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ("none.csv", "none.csv: no such file."),
        ("none*.csv", "none*.csv: no file matches."),
        (["x.npy", "none.csv"], "none.csv: no such file."),
        ([], "No file given. Name at least one, or - for csv on standard input."),
        (
            "sub",
            "sub: is a folder without tables. Known are files that end in .csv, .csv.gz, .csv.bz2, .csv.zst, .csv.zip, "
            ".tsv, .tsv.gz, .tsv.bz2, .tsv.zst, .tsv.zip, .zip, .xlsx, .parquet, .feather, .arrow, .npy, .npz.",
        ),
        (
            "x.sqlite",
            "x.sqlite: unknown kind of file. Known are .csv, .csv.gz, .csv.bz2, .csv.zst, .csv.zip, .tsv, .tsv.gz, "
            ".tsv.bz2, .tsv.zst, .tsv.zip, .txt, .zip, .xlsx, .parquet, .feather, .arrow, .npy, .npz.",
        ),
        ("nowhere*.csv", "nowhere.csv: cannot be read (No such file or directory)."),
    ],
)
def test_paths_that_lead_nowhere(folder, paths, said):
    np.save("x.npy", np.zeros((1, 2)))
    (folder / "sub").mkdir()
    (folder / "x.sqlite").write_text("x")
    (folder / "nowhere.csv").symlink_to("gone.csv")
    assert refusal(paths) == said


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_one_may_not_read(folder, extension):
    write_table(f"x.{extension}", np.zeros((1, 2)))
    (folder / f"x.{extension}").chmod(0)
    assert refusal(f"x.{extension}") == f"x.{extension}: no permission to read it."


def test_a_file_that_goes_away_between_passes(folder):
    write_table("x.csv", np.zeros((1, 2)))
    samples = open_samples("x.csv")
    (folder / "x.csv").unlink()
    with pytest.raises(InputFileError, match=r"x\.csv: no such file, or not any more"):
        list(samples.blocks())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError("no"), "x: no permission to read it."),
        (MemoryError("malloc of size 7 failed"), "x: damaged, or too large for memory (malloc of size 7 failed)."),
        (OSError("bad\nsector"), "x: not a whole npy file, it is damaged, cut short, or of another kind (bad)."),
        (EOFError(), "x: not a whole npy file, it is damaged, cut short, or of another kind (EOFError)."),
        (InputFileError("as it is"), "as it is"),
    ],
)
def test_what_readers_raise_becomes_one_line(error, said):
    with pytest.raises(InputFileError) as caught, damage_reported("x", "npy"):
        raise error
    assert str(caught.value) == said
