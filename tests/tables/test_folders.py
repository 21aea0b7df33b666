"""Globs and folders, and files among them that are bad."""

from __future__ import annotations

import os

import numpy as np
import pytest

import unrelu
from tests.warned import warns
from unrelu.errors import InputFileError
from unrelu.tables import open_samples, write_table
from unrelu.tables.files import files_of

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

X = unrelu.synthetic.random_model(2, random_state=0).sample(3000, random_state=1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def damage(name: str, group: int) -> None:
    """Spoil the middle of a row group's first column."""
    chunk = parquet.ParquetFile(name).metadata.row_group(group).column(0)
    with open(name, "r+b") as file:
        file.seek(chunk.data_page_offset + chunk.total_compressed_size // 2)
        file.write(b"\xa5" * 64)


def three_files() -> None:
    for number in range(3):
        part = X[1000 * number : 1000 * (number + 1)]
        table = pa.table({"a": part[:, 0], "b": part[:, 1]})
        parquet.write_table(
            table, f"{number}.parquet", row_group_size=250, compression="snappy", use_dictionary=False,
            write_page_checksum=True,
        )  # fmt: skip


def test_a_folder_stands_for_all_tables_in_it_and_below(folder, all_rows):
    for name in ("sub/b", "a", "sub/deep/c"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        write_table(f"{name}.csv", np.array([[float(len(name))]]), ["v"])
    for name in ("_SUCCESS.csv", ".hidden.csv", "notes.md"):
        (folder / name).write_text("no table")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "d.csv").write_text("no table")
    assert files_of(".") == ["./a.csv", "./sub/b.csv", "./sub/deep/c.csv"]
    assert all_rows(open_samples(folder)).ravel().tolist() == [1, 5, 10]


def test_a_folder_of_several_kinds_is_refused(folder):
    write_table("a.csv", X[:5])
    write_table("a.parquet", X[:5])
    with pytest.raises(InputFileError, match=r"several kinds \(.csv, .parquet\). Name those to read"):
        open_samples(".")


def test_files_without_rows_do_no_harm_beside_others(folder, all_rows):
    three_files()
    parquet.write_table(parquet.read_table("0.parquet").slice(0, 0), "empty.parquet")
    (folder / "header.csv").write_text("a,b\n")
    samples = open_samples(["header.csv", "empty.parquet", "*.parquet"])
    np.testing.assert_array_equal(all_rows(samples), X)
    assert samples.n_rows == 3000
    with pytest.raises(InputFileError, match=r"header.csv: has columns but no rows"):
        open_samples(["header.csv", "empty.parquet"])


def test_a_damaged_file_is_named_with_its_row_group():
    three_files()
    damage("1.parquet", 2)
    with pytest.raises(InputFileError, match=r"1.parquet, row group 2: not a whole parquet file"):
        list(open_samples("*.parquet").blocks())


def test_bad_files_are_left_out_wholly(folder, all_rows):
    three_files()
    damage("1.parquet", 3)  # its first rows are sound, and must not count either
    (folder / "3.parquet").write_bytes(b"")
    (folder / "4.parquet").write_bytes(b"PAR1 no more")
    os.symlink("nowhere", "5.parquet")
    parquet.write_table(pa.table({"a": ["x"], "b": [1.0]}), "6.parquet")
    with warns("skipped-files", match=r"^5 bad files left out\. .*1.parquet, row group 3: not a whole"):
        samples = open_samples("*.parquet", skip_bad_files=True)
    np.testing.assert_array_equal(all_rows(samples), np.concatenate([X[:1000], X[2000:]]))
    assert sorted(samples.skipped_files) == [f"{k}.parquet" for k in (1, 3, 4, 5, 6)]
    assert "the file is empty" in samples.skipped_files["3.parquet"]
    assert "holds text (row 1: 'x'), not numbers" in samples.skipped_files["6.parquet"]


@pytest.mark.filterwarnings(r"error:(?s).*\[skipped-files\]")
def test_no_warning_where_all_files_are_sound(all_rows):
    three_files()
    samples = open_samples("*.parquet", skip_bad_files=True)
    assert (dict(samples.skipped_files), len(all_rows(samples))) == ({}, 3000)


def test_a_csv_file_with_a_bad_cell_far_down_is_left_out(folder, all_rows):
    (folder / "a.csv").write_text("a,b\n" + "1,2\n" * 5000 + "1,oops\n")
    (folder / "b.csv").write_text("b,a\n" + "4,3\n" * 5)
    with pytest.raises(InputFileError, match=r"a.csv: .*line 5,002"):
        list(open_samples("*.csv").blocks())
    with warns("skipped-files", match="line 5,002"):
        samples = open_samples("*.csv", skip_bad_files=True)
    np.testing.assert_array_equal(all_rows(samples), np.tile([4.0, 3.0], (5, 1)))  # the first sound file's order


def test_all_bad_is_an_error(folder):
    (folder / "a.csv").write_text("")
    (folder / "b.csv").write_text("a\noops\n")
    with pytest.raises(InputFileError, match=r"all 2 are bad. a.csv: the file is empty"):
        open_samples("*.csv", skip_bad_files=True)


def test_a_missing_column_is_no_damage():
    write_table("a.csv", X[:5], ["a", "b"])
    write_table("b.csv", X[:5, :1], ["a"])
    with pytest.raises(InputFileError, match=r"b.csv: has no column 'b', but a.csv has"):
        open_samples("*.csv", skip_bad_files=True)
