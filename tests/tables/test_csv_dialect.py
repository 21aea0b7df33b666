"""Text tables as they come: separators, decimal commas, byte-order marks, headers of numbers, packed files."""

from __future__ import annotations

import bz2
import gzip
import io
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pytest

from tests.warned import warns
from unrelu.contracts import CellLimits
from unrelu.errors import InputFileError
from unrelu.tables import open_samples

NUMBERS = np.random.default_rng(0).gamma(2.0, 3.0, (40, 4)).round(3)


def text_of(header: list[str] | None, values: np.ndarray) -> str:
    lines = [] if header is None else [",".join(header)]
    return "\n".join([*lines, *(",".join(f"{cell:g}" for cell in row) for row in values)]) + "\n"


@pytest.mark.parametrize(
    "content",
    [
        "a;b\n1,5;2,25\n3;<0,5\n",
        "a\tb\n1.5\t2.25\n3\t<0.5\n",
        "a\tb\n1,5\t2,25\n3\t<0,5\n",
        "a|b\n1.5|2.25\n3|< 0.5\n",
        '"a","b"\n"1,5","2,25"\n"3","<0,5"\n',
        "\ufeffa;b\r\n1,5;2,25\r\n3;<0,5\r\n",
        "a;b\n1,5;2,25\n3;<0,5\n".encode("utf-16"),
        "\ufeffa,b\n1.5,2.25\n3,<0.5\n".encode("utf-16-be"),
    ],
    ids=["semicolons", "tabs", "tabs and commas", "bars", "quoted commas", "BOM", "utf-16", "utf-16 be"],
)
def test_separators_decimal_marks_and_encodings_are_detected(written, all_rows, content):
    samples = open_samples(written(content))
    assert samples.feature_names == ("a", "b")
    np.testing.assert_array_equal(all_rows(samples), [[1.5, 2.25], [3, 0.5]])
    assert samples.limits == CellLimits(((1, 0.5),))


@pytest.mark.parametrize(
    "content",
    ['a,b\n"1,234.5",7\n"12,345,678",8\n', "a;b\n1.234,5;7\n12.345.678;8\n", "a;b\n1 234,5;7\n12 345 678;8\n"],
    ids=["points", "commas", "spaces"],
)
def test_thousands_separators_are_read_and_noted(written, all_rows, content):
    samples = open_samples(written(content))
    np.testing.assert_array_equal(all_rows(samples), [[1234.5, 7], [12345678, 8]])
    assert "read with thousands separators" in samples.notes[0]


def test_headerless_semicolons_with_decimal_commas(written, all_rows):
    samples = open_samples(written("1,5;2,5\n3,5;4,5\n"))
    assert samples.feature_names is None
    np.testing.assert_array_equal(all_rows(samples), [[1.5, 2.5], [3.5, 4.5]])


def test_a_decimal_mark_can_be_given(written, all_rows):
    written("a;b\n1.234;2\n")
    np.testing.assert_array_equal(all_rows(open_samples("data.csv")), [[1.234, 2]])
    np.testing.assert_array_equal(all_rows(open_samples("data.csv", decimal=",")), [[1234, 2]])
    written("a;b\n0,5;1\n0,25;1.5\n")
    with pytest.raises(InputFileError, match=r"row 1 \(line 2\), column 'a': '0,5' .* decimal=','"):
        open_samples("data.csv")


def test_a_comma_in_a_text_column_changes_nothing(written, all_rows):
    samples = open_samples(written('site,a\n"x; y",1.5\n"z; w",2.5\n'), id="site")
    np.testing.assert_array_equal(all_rows(samples), [[1.5], [2.5]])
    assert samples.ids() == {"site": ["x; y", "z; w"]}


# --- headers of numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        ["1", "2", "3", "4"],
        ["0", "1", "2", "3"],
        ["1990", "1991", "1992", "1993"],
        ["1", "3", "2", "10"],  # neither rising by ones nor of another magnitude
    ],
)
def test_a_header_of_numbers_is_found_with_a_warning(written, all_rows, header):
    path = written(text_of(header, NUMBERS))
    with warns("guessed-header", match=r"data.csv: the first line \(.*\) was read as column names: .* header=False"):
        samples = open_samples(path)
    assert samples.feature_names == tuple(header)
    np.testing.assert_array_equal(all_rows(samples), NUMBERS)


def test_a_header_of_other_magnitudes_is_found(written):
    path = written(text_of(["105", "2230", "318", "47"], (10 * NUMBERS).round() % 9))
    with warns("guessed-header"):
        assert open_samples(path).feature_names == ("105", "2230", "318", "47")


def test_header_can_be_given(written, all_rows):
    path = written(text_of(["1", "2", "3", "4"], NUMBERS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_samples(path, header=True).feature_names == ("1", "2", "3", "4")
        assert len(all_rows(open_samples(path, header=False))) == 41
        assert open_samples(written("5.5,6\n1,2\n"), header=True).feature_names == ("5.5", "6")
        with pytest.raises(InputFileError, match=r"row 1 \(line 1\), column number 0 .*: 'As' is not a number"):
            open_samples(written("As,Pb\n1,2\n"), header=False)


def test_an_open_case_is_read_as_data_with_a_warning(written):
    counts = np.random.default_rng(1).poisson(3.0, (40, 4))
    with warns("guessed-header", match="was read as data, .* Give header=True if it names the columns"):
        assert open_samples(written(text_of(["1", "2", "3", "4"], counts))).feature_names is None


def test_an_open_case_may_rise_by_any_step(written):
    counts = np.random.default_rng(1).poisson(40.0, (40, 4))
    with warns("guessed-header", match=r"\(20, 30, 40, 50\) was read as data, though it rises by a constant"):
        assert open_samples(written(text_of(["20", "30", "40", "50"], counts))).feature_names is None


def test_station_numbers_above_rain_are_names(written):
    """Most cells are 0, a whole number, and one column of counts is among the fractions."""
    rng = np.random.default_rng(4)
    rain = np.where(rng.random((60, 6)) < 0.6, 0.0, rng.gamma(1.0, 5.0, (60, 6)).round(1))
    rain[:, 5] = rng.poisson(8.0, 60)
    with warns("guessed-header", match="was read as column names"):
        samples = open_samples(written(text_of(["7", "2", "11", "4", "1", "9"], rain)))
    assert samples.feature_names == ("7", "2", "11", "4", "1", "9")


def test_whole_numbers_that_come_together_in_data_are_data_in_silence(written):
    """Numbers of three digits: a row of large values has whole numbers alone."""
    rng = np.random.default_rng(5)
    values = np.exp(3.0 + 2.0 * (rng.normal(size=(60, 1)) + 0.4 * rng.normal(size=(60, 4))))
    rows = [[np.format_float_positional(float(f"{v:.3g}"), trim="-") for v in row] for row in values]
    whole = [k for k, row in enumerate(rows) if not any("." in cell for cell in row)]
    assert len(whole) > 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in whole:
            text = "\n".join(",".join(row) for row in [rows[k], *rows[:k], *rows[k + 1 :]])
            assert open_samples(written(text + "\n")).feature_names is None


def test_wide_tables_have_rows_enough_to_find_a_header(written):
    values = np.random.default_rng(6).gamma(2.0, size=(12, 8000)).round(3)
    with warns("guessed-header"):
        assert open_samples(written(text_of([str(100 + j) for j in range(8000)], values))).n_features == 8000


def test_ordinary_tables_without_a_header_are_data_in_silence(written):
    rng = np.random.default_rng(2)
    tables = [
        rng.normal(size=(30, 3)).clip(0),
        rng.poisson(5.0, (30, 4)),
        np.arange(60).reshape(30, 2),
        np.arange(60).reshape(30, 2) / 4,
        rng.gamma(1.0, 100.0, (30, 2)).round(),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in tables:
            for first in range(10):
                path = written(text_of(None, np.roll(values, -first, axis=0)[: 30 - first]))
                assert open_samples(path).feature_names is None, values[first]


def test_a_first_line_with_limits_is_data(written):
    samples = open_samples(written("1.5,<0.5,ND\n2,3,4\n"))
    assert samples.feature_names is None
    assert samples.limits == CellLimits(((1, 0.5),))


# --- packed files ---------------------------------------------------------------------------------


def zipped(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "."), text)
    return packed.getvalue()


CSV, TSV = "a,b\n1.5,2\n<0.5,4\n", "a\tb\n1.5\t2\n<0.5\t4\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv.gz", gzip.compress(CSV.encode())),
        ("x.csv.bz2", bz2.compress(CSV.encode())),
        ("x.tsv.bz2", bz2.compress(TSV.encode())),
        ("x.csv.zst", pa.compress(CSV.encode(), "zstd", asbytes=True)),
        ("x.csv.zip", zipped(any__csv=CSV)),
        ("x.zip", zipped(any__tsv=TSV, readme__txt="x")),
    ],
    ids=["gz", "bz2", "tsv", "zst", "zip of csv", "zip of several"],  # packed bytes hold the time, which differs
)
def test_packed_files(written, all_rows, name, content):
    samples = open_samples(written(content, name))
    assert samples.feature_names == ("a", "b")
    assert samples.limits == CellLimits(((0, 0.5),))
    for _ in range(2):
        np.testing.assert_array_equal(all_rows(samples), [[1.5, 2], [0.5, 4]])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.zip", zipped(a__csv=CSV, b__csv=CSV), r"holds 2 tables \(a.csv, b.csv\)"),
        ("x.zip", zipped(a__txt=CSV), "holds no csv or tsv file"),
        ("x.zip", b"PK nothing", "not a whole packed csv file"),
        ("x.csv.zst", b"nothing", "not a whole packed csv file"),
        ("x.csv.bz2", bz2.compress(CSV.encode() * 99)[:60], "not a whole packed csv file"),
    ],
)
def test_damaged_or_unclear_packed_files(written, name, content, said):
    with pytest.raises(InputFileError, match=said):
        list(open_samples(written(content, name)).blocks())


def long_text(last: str) -> bytes:
    return gzip.compress(("a,b\n" + "1.25,2.5\n" * 150_000 + f"{last},3\n").encode(), 1)


def test_limits_far_down_in_a_packed_file_are_refused_unless_it_is_looked_through(written, all_rows):
    path = written(long_text("<0.5"), "x.csv.gz")
    with pytest.raises(
        InputFileError, match=r"row 150,001 \(line 150,002\), column 'a': the first limit '<0.5'.*'one'"
    ):
        list(open_samples(path).blocks())
    samples = open_samples(path, limits="one")
    assert samples.limits == CellLimits(((0, 0.5),))
    assert all_rows(samples)[-1].tolist() == [0.5, 3]


def test_words_far_down_are_read_and_noted(written, all_rows):
    samples = open_samples(written(long_text("ND"), "x.csv.gz"))
    rows = all_rows(samples)
    assert rows.shape == (150_001, 2)
    np.testing.assert_array_equal(rows[[0, -1]], [[1.25, 2.5], [np.nan, 3]])
    assert not np.isnan(rows[:-1]).any()
    assert samples.notes == ["a: 1 cell 'ND' read as missing"]


# --- ids, rows and lines --------------------------------------------------------------------------


def test_ids_are_kept_as_they_are_written(written, all_rows):
    written("site,day,a\nNA,2020-01-31,1\n007,,2\n", "1.csv")
    written("a,day,site\n3,x,Å\n".encode("latin-1"), "2.csv")
    samples = open_samples(["1.csv", "2.csv"], id=["site", "day"])
    assert samples.feature_names == ("a",)
    assert tuple(samples.ids()) == ("site", "day")
    assert samples.ids() == {"site": ["NA", "007", "Å"], "day": ["2020-01-31", "", "x"]}
    np.testing.assert_array_equal(all_rows(samples), [[1], [2], [3]])


def test_ids_of_columns_without_names(written, tmp_path):
    assert open_samples(written("7,0.5\n8,1.5\n"), id=0).ids() == {"id0": ["7", "8"]}
    np.save(tmp_path / "x.npy", np.array([[7, 1], [8, 2]]))
    assert open_samples("x.npy", id=0).ids() == {"id0": ["7", "8"]}


def test_an_id_that_is_also_a_feature_or_is_not_there_is_refused(written):
    written("site,a\nx,1\n")
    with pytest.raises(InputFileError, match="column 'site' is among columns= and id="):
        open_samples("data.csv", columns=["site", "a"], id="site")
    with pytest.raises(InputFileError, match=r"no column 'sit'. Did you mean 'site'"):
        open_samples("data.csv", id="sit")


def test_rows_have_labels_that_find_them_in_the_file(written):
    written('a,b\n\n1,2\n"3\n",4\n5,6\n', "1.csv")
    written("7,8\n9,10\n", "2.csv")
    samples = open_samples("1.csv")
    assert [samples.row_label(row) for row in (0, 1, 2)] == ["row 1 (line 3)", "row 2 (line 5)", "row 3 (line 6)"]
    written("a,b\n7,8\n9,10\n", "2.csv")
    assert open_samples(["1.csv", "2.csv"]).row_label(4) == "row 5 (line 3 of 2.csv)"
    np.save("x.npy", np.ones((3, 2)))
    assert open_samples("x.npy").row_label(2) == "row 3"
