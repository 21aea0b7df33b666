from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unrelu.errors import InvalidParameterError, OutputError
from unrelu.tables import open_samples, write, write_table
from unrelu.tables.write import check_table, write_columns

EXTENSIONS = ["csv", "csv.gz", "tsv", "tsv.gz", "parquet", "feather", "arrow", "npy", "npz"]
NAMES = ["As, total", "Pb", 'ß "quoted"']


@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_round_trip(tmp_path, table, all_rows, extension, dtype):
    path = tmp_path / f"x.{extension}"
    write_table(path, table.astype(dtype), NAMES)
    samples = open_samples(path)
    assert samples.feature_names == (None if extension == "npy" else tuple(NAMES))
    rows = all_rows(samples)
    assert rows.dtype == (np.float64 if "sv" in extension else dtype)
    np.testing.assert_array_equal(rows.astype(dtype), table.astype(dtype))
    assert [other.name for other in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_blocks_are_written_like_the_whole(tmp_path, monkeypatch, table, extension):
    monkeypatch.setattr(write, "CELLS_PER_CHUNK", 600)
    write_table(tmp_path / f"x.{extension}", table, NAMES)
    write_table(tmp_path / f"y.{extension}", (part for part in np.array_split(table, 7)), NAMES)
    # an npz carries the time of writing
    one, other = (open_samples(tmp_path / f"{name}.{extension}", block_rows=9999) for name in "xy")
    np.testing.assert_array_equal(next(one.blocks()).values, next(other.blocks()).values)
    if extension != "npz":
        assert (tmp_path / f"x.{extension}").read_bytes() == (tmp_path / f"y.{extension}").read_bytes()


@pytest.mark.parametrize("extension", ["csv", "csv.gz", "parquet", "feather"])
def test_rows_are_written_as_they_come(tmp_path, monkeypatch, extension):
    """Never more than one chunk is held: a block is read only once those before it are written."""
    monkeypatch.setattr(write, "CELLS_PER_CHUNK", 10)
    batches = 0
    original = write._write_arrow

    def counting(stream, kind, schema, rows):
        def counted():
            nonlocal batches
            for batch in rows:
                batches += 1
                yield batch

        original(stream, kind, schema, counted())

    monkeypatch.setattr(write, "_write_arrow", counting)

    def blocks():
        for number in range(20):
            assert batches >= number - 1
            yield np.full((5, 2), float(number))

    write_table(tmp_path / f"x.{extension}", blocks())
    assert batches == 20


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 3))))
@settings(max_examples=60, deadline=None)
def test_csv_numbers_read_back_exactly(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "round.csv"
    write_table(path, values)
    (block,) = open_samples(path).blocks()
    np.testing.assert_array_equal(block.values, values)
    lines = path.read_text().splitlines()[1:]
    others = [[float(cell or "nan") for cell in line.split(",")] for line in lines]
    np.testing.assert_array_equal(others, values)


def test_csv_text_is_short_and_plain(tmp_path):
    values = np.array([[0.1, 0.0, 1 / 3], [np.nan, 2.5, 1e-300]])
    write_table(tmp_path / "x.csv", values, ["a", "b c", "d,e"])
    expected = 'a,b c,"d,e"\n0.1,0,0.3333333333333333\n,2.5,1e-300\n'
    assert (tmp_path / "x.csv").read_bytes() == expected.encode()
    write_table(tmp_path / "x.csv", np.array([[0.1, 0.7]], np.float32))
    assert (tmp_path / "x.csv").read_text() == "x0,x1\n0.1,0.7\n"


def test_gzip_holds_no_time_of_writing(tmp_path):
    write_table(tmp_path / "x.csv.gz", np.zeros((1, 2)))
    assert (tmp_path / "x.csv.gz").read_bytes()[4:8] == bytes(4)


def test_missing_in_a_single_column_stays_a_row(tmp_path, all_rows):
    write_table(tmp_path / "x.csv", np.array([[1.0], [np.nan], [2.0]]))
    np.testing.assert_array_equal(all_rows(open_samples(tmp_path / "x.csv")), [[1], [np.nan], [2]])


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_integers_booleans_and_fortran_order(tmp_path, all_rows, extension):
    path = tmp_path / f"x.{extension}"
    for values in (
        np.array([[1, 2], [3, 4]]),
        np.array([[True, False]]),
        np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]),
        np.arange(8.0).reshape(2, 4)[:, ::2],
    ):
        write_table(path, values)
        np.testing.assert_array_equal(all_rows(open_samples(path)), values)


def test_made_up_names(tmp_path):
    for extension in ("csv", "parquet", "feather"):
        write_table(tmp_path / f"x.{extension}", np.zeros((1, 2)))
        assert open_samples(tmp_path / f"x.{extension}").feature_names == ("x0", "x1")
    write_table(tmp_path / "x.npz", np.zeros((1, 2)))
    assert open_samples(tmp_path / "x.npz").feature_names is None


def test_no_rows_but_names(tmp_path):
    write_table(tmp_path / "x.csv", iter([]), ["a", "b"])
    assert (tmp_path / "x.csv").read_text() == "a,b\n"
    write_table(tmp_path / "x.parquet", iter([]), ["a", "b"])
    assert pd.read_parquet(tmp_path / "x.parquet").shape == (0, 2)


def test_standard_output(capfdbinary):
    write_table("-", iter([np.array([[1.0, 2.5]]), np.array([[np.nan, 4.0]])]), ["a", "b"])
    assert capfdbinary.readouterr().out == b"a,b\n1,2.5\n,4\n"


def test_standard_output_of_which_more_is_wanted(capsys):
    write_table("-", np.array([[1.0, 2.5]]), ["a", "b"])
    write_table("-", np.array([[1.0, 2.5]]), ["a", "b"])
    assert capsys.readouterr().out == "a,b\n1,2.5\na,b\n1,2.5\n"


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_nothing_half_written_is_left(tmp_path, extension):
    path = tmp_path / f"x.{extension}"
    path.write_bytes(b"as it was")

    def blocks():
        yield np.zeros((1000, 3))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(path, blocks())
    assert path.read_bytes() == b"as it was"
    assert [other.name for other in tmp_path.iterdir()] == [path.name]


def test_where_one_cannot_write(tmp_path):
    with pytest.raises(OutputError, match=r"unknown kind of file\. Known are \.csv, .*\.npz\."):
        write_table(tmp_path / "x.xlsx", np.zeros((1, 1)))
    with pytest.raises(OutputError, match="does not exist"):
        write_table(tmp_path / "none" / "x.csv", np.zeros((1, 1)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "names", "said"),
    [
        (np.zeros(3), None, r"shape \(3,\)"),
        (np.zeros((3, 2)), ["a"], "1 feature names for 2 columns"),
        (iter([]), None, "Expected rows and columns"),
        (iter([np.zeros((1, 2)), np.zeros((1, 3))]), None, "all must have 2 columns"),
    ],
)
def test_what_is_no_table(tmp_path, values, names, said):
    with pytest.raises(InvalidParameterError, match=said):
        write_table(tmp_path / "x.csv", values, names)
    assert list(tmp_path.iterdir()) == []


# --- columns of any kind --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.csv", "x.tsv.gz", "x.parquet", "x.feather"])
def test_columns_of_several_kinds_come_part_by_part(tmp_path, name):
    parts = [
        {"row": np.array([0, 1]), "score": np.array([0.5, np.inf]), "why": [None, None]},  # no text yet
        {"row": np.array([2]), "score": np.array([-1.0]), "why": ["As, Pb"]},
    ]
    write_columns(tmp_path / name, iter(parts))
    if name.endswith((".parquet", ".feather")):
        read = pyarrow.parquet.read_table if name.endswith(".parquet") else pyarrow.feather.read_table
        assert read(tmp_path / name).to_pydict() == {
            "row": [0, 1, 2],
            "score": [0.5, np.inf, -1.0],
            "why": [None, None, "As, Pb"],
        }
        return
    data = (tmp_path / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode().replace("\t", ",")
    assert text == 'row,score,why\n0,0.5,\n1,inf,\n2,-1,"As, Pb"\n'


def test_columns_need_a_kind_that_holds_them(tmp_path):
    with pytest.raises(OutputError, match=r"x\.npy: unknown kind of file\. Known are \.csv, .*\.arrow\."):
        write_columns(tmp_path / "x.npy", [{"row": np.array([0])}])
    with pytest.raises(OutputError, match=r"Did you mean '\.parquet'\?"):
        check_table(tmp_path / "x.parqet")
