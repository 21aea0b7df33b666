"""Limits that cells state, in real files: one a column, or refused with the way out."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unrelu.contracts import CellLimits
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.tables import open_samples, read_frame, write_table

NAN = np.nan


@pytest.fixture
def opened(tmp_path, all_rows):
    """(rows, limits, notes) of a csv file with that content."""

    def read(content: str, **options):
        (tmp_path / "x.csv").write_text(content)
        samples = open_samples(tmp_path / "x.csv", **options)
        return all_rows(samples).tolist(), samples.limits, samples.notes

    return read


@pytest.mark.parametrize("cell", ["<0.25", "< 0.25", " <.25", "<0.250"])
def test_one_limit_is_the_floor_of_its_column(opened, cell):
    rows, limits, notes = opened(f"As,Pb\n1,2\n{cell},3\n0.5,4\n{cell},5\n")
    assert rows == [[1, 2], [0.25, 3], [0.5, 4], [0.25, 5]]
    assert limits == CellLimits(((0, 0.25),))
    assert notes == ["As: 2 cells <0.25 censored at the floor 0.25"]


def test_limits_among_whole_numbers_and_ceilings(opened):
    rows, limits, _ = opened("a,b\n3,>100\n<0.25,7\n1,99\n")
    assert rows == [[3, 100], [0.25, 7], [1, 99]]
    assert limits == CellLimits(((0, 0.25),), ((1, 100.0),))


def test_several_limits_are_refused_with_the_way_out(opened):
    content = "As,Pb\n<0.1,1\n<0.5,2\n0.3,3\n2,4\n"
    with pytest.raises(
        InvalidDataError, match=r"column 'As': 2 different limits, <0\.1, <0\.5, but .* one floor"
    ) as said:
        opened(content, limits="one")
    assert "limits='cell'" in str(said.value)
    assert "limits='highest'" in str(said.value)
    assert "limits='missing'" in str(said.value)
    assert opened(content, limits="highest")[:2] == ([[0.5, 1], [0.5, 2], [0.5, 3], [2, 4]], CellLimits(((0, 0.5),)))
    np.testing.assert_array_equal(opened(content, limits="missing")[0], [[NAN, 1], [NAN, 2], [0.3, 3], [2, 4]])


def test_numbers_below_the_limit_are_refused_with_the_way_out(opened):
    content = "As\n<0.5\n0.3\n2\n"
    with pytest.raises(InvalidDataError, match=r"column 'As': <0\.5 beside 0\.3, but limits='one' means one floor"):
        opened(content, limits="one")
    assert opened(content, limits="highest")[0] == [[0.5], [0.5], [2]]
    with pytest.raises(InvalidDataError, match=r"column 'b': >5 beside 9, but limits='one' means one ceiling"):
        opened("b\n>5\n9\n", limits="one")
    assert opened("b\n>5\n9\n>7\n1\n", limits="highest")[0] == [[5], [5], [5], [1]]


def test_limits_that_contradict_each_other_are_refused(opened):
    with pytest.raises(InvalidDataError, match="contradict"):
        opened("a\n<5\n>2\n", limits="highest")


def test_nondetects_are_missing_by_default_with_a_warning(opened):
    rows, limits, notes = opened("As,Pb\nND,1\n0.5,BDL\n2,3\nNA,<LOD\n")
    np.testing.assert_array_equal(rows, [[NAN, 1], [0.5, NAN], [2, 3], [NAN, NAN]])
    assert limits is None
    assert notes == ["As: 1 cell 'ND' read as missing", "Pb: 2 cells '<LOD', 'BDL' read as missing"]


def test_what_was_not_detected_can_be_floored(opened):
    content = "As,Pb\nND,1\n0.5,n.d.\n<0.25,3\nNA,2\n"
    rows, limits, notes = opened(content, nondetect="floor")
    np.testing.assert_array_equal(rows, [[0.25, 1], [0.5, 1], [0.25, 3], [NAN, 2]])
    assert limits == CellLimits(((0, 0.25), (1, 1.0)))  # the limit stated, or else the smallest number
    assert "As: 1 cell <0.25 censored at the floor 0.25, 1 cell 'ND' censored at the floor 0.25" in notes
    rows, limits, _ = opened(content, nondetect={"Pb": 0.8})
    assert (rows[1], limits) == ([0.5, 0.8], CellLimits(((0, 0.25), (1, 0.8))))
    assert opened(content, nondetect=0.1)[1] == CellLimits(((0, 0.25), (1, 0.1)))
    with pytest.raises(InvalidDataError, match="2 different limits"):
        opened(content, nondetect={"As": 0.1}, limits="one")
    with pytest.raises(InvalidDataError, match="'Pb': not detected anywhere"):
        opened("As,Pb\n1,ND\n2,ND\n", nondetect="floor")


@pytest.mark.parametrize("options", [{"limits": "lowest"}, {"nondetect": "zero"}, {"decimal": ";"}])
def test_unknown_choices_are_refused(opened, options):
    with pytest.raises(InvalidParameterError, match="Unknown"):
        opened("a\n1\n", **options)


def test_limits_of_several_files_are_one(tmp_path, all_rows):
    (tmp_path / "1.csv").write_text("a,b\n<1,2\n3,4\n")
    (tmp_path / "2.csv").write_text("b,a\n5,6\n7,<1\n")
    samples = open_samples(tmp_path / "*.csv")
    assert samples.limits == CellLimits(((0, 1.0),))
    np.testing.assert_array_equal(all_rows(samples), [[1, 2], [3, 4], [6, 5], [1, 7]])
    assert samples.notes == ["a: 2 cells <1 censored at the floor 1"]
    (tmp_path / "2.csv").write_text("b,a\n5,6\n7,<2\n")
    with pytest.raises(InvalidDataError, match="2 different limits, <1, <2"):
        open_samples(tmp_path / "*.csv", limits="one")
    samples = open_samples(tmp_path / "*.csv")
    assert (samples.limits, samples.limits_by_cell) == (None, (0,))
    np.testing.assert_array_equal(all_rows(samples), [[1, 2], [3, 4], [6, 5], [2, 7]])


def test_limits_of_a_file_of_text_hold_in_files_of_numbers(tmp_path, all_rows):
    (tmp_path / "a.csv").write_text("As,Pb\n<0.3,1\n0.5,2\n")
    write_table(tmp_path / "b.npz", np.array([[0.1, 2.0], [0.7, 3.0]]), ["As", "Pb"])
    samples = open_samples([tmp_path / "a.csv", tmp_path / "b.npz"], limits="highest", block_rows=2)
    np.testing.assert_array_equal(all_rows(samples), [[0.3, 1.0], [0.5, 2.0], [0.3, 2.0], [0.7, 3.0]])


def test_a_limit_far_down_is_found_before_rows_are_used(opened):
    rows, limits, _ = opened("a,b\n" + "0.123456789,2.5\n" * 100_000 + "<0.1,3\n")
    assert limits == CellLimits(((0, 0.1),))
    assert rows[-1] == [0.1, 3]


# --- limits of single cells -----------------------------------------------------------------------

CELLS = "As,Pb\n<0.1,1\n<0.5,2\n0.3,>9\n2,ND\n,9.5\n"


@pytest.mark.parametrize("block_rows", [2, None])
def test_cells_keep_their_own_limits(tmp_path, block_rows):
    (tmp_path / "x.csv").write_text(CELLS)
    samples = open_samples(tmp_path / "x.csv", limits="cell", nondetect="missing", block_rows=block_rows)
    blocks = list(samples.blocks())
    values, censoring = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("values", "censoring"))
    np.testing.assert_array_equal(values, [[0.1, 1], [0.5, 2], [0.3, 9], [2, NAN], [NAN, 9.5]])
    np.testing.assert_array_equal(censoring, [[-1, 0], [-1, 0], [0, 1], [0, 0], [0, 0]])
    assert (values.dtype, censoring.dtype) == (np.float64, np.int8)
    assert (samples.limits, samples.limits_by_cell) == (None, (0, 1))
    assert samples.notes == [
        "As: 2 cells <0.1, <0.5 censored, each at its own limit",
        "Pb: 1 cell >9 censored, each at its own limit, 1 cell 'ND' read as missing",
    ]


@pytest.mark.parametrize(
    ("nondetect", "limit"), [("floor", 0.1), ({"As": 0.05}, 0.05), (0.05, 0.1)]
)  # one for all is for columns without a limit
def test_what_was_not_detected_is_at_a_limit_of_its_column(tmp_path, nondetect, limit):
    (tmp_path / "x.csv").write_text("As,Pb\n<0.2,1\n<0.1,2\nND,3\n1,4\n")
    samples = open_samples(tmp_path / "x.csv", limits="cell", nondetect=nondetect)
    block = next(samples.blocks())
    np.testing.assert_array_equal(block.values[:, 0], [0.2, 0.1, limit, 1])
    np.testing.assert_array_equal(block.censoring[:, 0], [-1, -1, -1, 0])
    assert samples.limits_by_cell == (0,)
    assert f"1 cell 'ND' censored at {limit:g}" in samples.notes[0]


def test_cells_that_were_not_detected_alone(tmp_path):
    (tmp_path / "x.csv").write_text("As,Pb\nND,1\n0.4,2\n")
    samples = open_samples(tmp_path / "x.csv", limits="cell", nondetect="floor")
    assert next(samples.blocks()).values[0, 0] == 0.4  # the smallest number
    samples = open_samples(tmp_path / "x.csv", limits="cell", nondetect="missing")
    assert samples.limits_by_cell == ()
    assert next(samples.blocks()).censoring is None
    (tmp_path / "x.csv").write_text("As,Pb\nND,1\nND,2\n")
    with pytest.raises(InvalidDataError, match="'As': not detected anywhere"):
        open_samples(tmp_path / "x.csv", limits="cell", nondetect="floor")


def test_files_of_several_laboratories(tmp_path, all_rows):
    """Also where one of them states no limit, and where another is no text at all."""
    (tmp_path / "1.csv").write_text("a,b\n<1,2\n3,4\n")
    (tmp_path / "2.csv").write_text("b,a\n5,0.5\n7,<2\n")
    (tmp_path / "3.csv").write_text("b,a\n8,9\n")
    pd.DataFrame({"a": ["<0.5", "7"], "b": np.float32([1, 2])}).to_parquet(tmp_path / "4.parquet")
    write_table(tmp_path / "5.npz", np.float32([[6, 6]]), ["a", "b"])
    files = [tmp_path / "*.csv", tmp_path / "4.parquet", tmp_path / "5.npz"]
    for block_rows, limits in ((1, "cell"), (2, "cell"), (None, "cell"), (None, None)):
        samples = open_samples(files, limits=limits, block_rows=block_rows)
        rows = [[1, 2], [3, 4], [0.5, 5], [2, 7], [9, 8], [0.5, 1], [7, 2], [6, 6]]
        np.testing.assert_array_equal(all_rows(samples), rows)
        censoring = np.concatenate([block.censoring for block in samples.blocks()])
        np.testing.assert_array_equal(censoring[:, 0], [-1, 0, 0, -1, 0, -1, 0, 0])
        assert not censoring[:, 1].any()
    with pytest.raises(InvalidDataError, match="limits='cell' keeps"):
        open_samples(files, limits="one")


def test_standard_input_keeps_the_limits_of_cells(monkeypatch, all_rows):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"As,Pb\n<0.1,1\n<0.5,2\n0.3,3\n")))
    samples = open_samples("-")
    assert (samples.limits, samples.limits_by_cell) == (None, (0,))
    np.testing.assert_array_equal(all_rows(samples), [[0.1, 1], [0.5, 2], [0.3, 3]])


def test_limits_far_down_in_a_packed_file_beside_limits_of_cells(tmp_path, all_rows):
    (tmp_path / "1.csv").write_text("a,b\n<1,2\n<2,4\n")
    rows = "0.123456789,2.5\n" * 100_000
    (tmp_path / "2.csv.gz").write_bytes(gzip.compress(f"a,b\n{rows}<0.1,3\n".encode()))
    samples = open_samples([tmp_path / "1.csv", tmp_path / "2.csv.gz"])
    assert [block.censoring[-1].tolist() for block in samples.blocks()][-1] == [-1, 0]
    assert all_rows(samples)[-1].tolist() == [0.1, 3.0]


@pytest.mark.parametrize("nondetect", ["missing", "floor"])
@pytest.mark.parametrize("limits", ["highest", "missing"])
def test_conditions_compare_limits_as_they_are_read(tmp_path, nondetect, limits):
    (tmp_path / "x.csv").write_text("As,Pb\n<0.1,1\nND,2\n0.3,3\n0.5,4\n")
    samples = open_samples(tmp_path / "x.csv", where="As < 0.4", limits=limits, nondetect=nondetect)
    met = [limits == "highest", nondetect == "floor", True, False]
    read = np.concatenate([block.values[:, 1] for block in samples.blocks()])
    np.testing.assert_array_equal(read, np.arange(1.0, 5.0)[met])


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_the_limits_of_cells(frame_of):
    frame = frame_of({"As": ["<0.1", "<0.5", "0.3", "ND", ">7"], "Pb": [1.0, 2.0, 3.0, 4.0, 5.0]})
    samples = read_frame(frame, limits="cell", nondetect={"As": 0.2})
    block = next(samples.blocks())
    np.testing.assert_array_equal(block.values[:, 0], [0.1, 0.5, 0.3, 0.2, 7.0])
    np.testing.assert_array_equal(block.censoring, [[-1, 0], [-1, 0], [0, 0], [-1, 0], [1, 0]])
    assert (samples.feature_names, samples.limits_by_cell) == (("As", "Pb"), (0,))
