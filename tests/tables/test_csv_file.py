from __future__ import annotations

import gc
import gzip
import io
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unrelu.errors import InputFileError
from unrelu.tables import open_samples
from unrelu.tables.cells import read_cell

NAN = np.nan


def refusal(path: str, **options) -> str:
    with pytest.raises(InputFileError) as caught:
        list(open_samples(path, **options).blocks())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_reads_names_and_numbers(written, all_rows):
    samples = open_samples(written("As,Pb\n0.5,0\n1e-3,+2\n-1,.5\n"))
    assert (samples.feature_names, samples.n_features, samples.n_rows) == (("As", "Pb"), 2, None)
    assert samples.n_bytes == 26
    np.testing.assert_array_equal(all_rows(samples), [[0.5, 0], [1e-3, 2], [-1, 0.5]])


@pytest.mark.parametrize("word", ["", "NA", "NaN", "nan", "null", "N/A", " NA", "  ", "NA  ", '""', '"NA"'])
def test_words_for_missing(written, all_rows, word):
    rows = all_rows(open_samples(written(f"a,b\n1,{word}\n{word},2\n")))
    np.testing.assert_array_equal(rows, [[1, NAN], [NAN, 2]])


def test_infinite_values_pass(written, all_rows):
    rows = all_rows(open_samples(written("a,b\ninf,-inf\n1e999,1\n")))
    np.testing.assert_array_equal(rows, [[np.inf, -np.inf], [np.inf, 1]])


def test_spaces_around_names_and_numbers_do_not_count(written, all_rows):
    samples = open_samples(written("a, b\n1, 2\n 3 ,4\n"))
    assert samples.feature_names == ("a", "b")
    np.testing.assert_array_equal(all_rows(samples), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "content",
    [
        "a,b\r\n1,2\r\n3,4\r\n",
        "a,b\r1,2\r3,4",
        "\n\na,b\n\n1,2\n\n3,4\n\n",
        "\ufeffa,b\n1,2\n3,4\n",
        '"a","b"\n"1","2"\n"3","4"',
    ],
    ids=["windows", "old mac", "blank lines", "byte order mark", "quoted"],
)
def test_ways_to_write_the_same_table(written, all_rows, content):
    samples = open_samples(written(content))
    assert samples.feature_names == ("a", "b")
    np.testing.assert_array_equal(all_rows(samples), [[1, 2], [3, 4]])


@pytest.mark.parametrize("content", ["1,2\n3,4\n", "\ufeff1,2\n3,4\n", "\n1,2\n3,4\n"])
def test_first_line_of_numbers_is_data(written, all_rows, content):
    samples = open_samples(written(content))
    assert samples.feature_names is None
    np.testing.assert_array_equal(all_rows(samples), [[1, 2], [3, 4]])


def test_first_line_of_numbers_may_have_missing_cells(written, all_rows):
    np.testing.assert_array_equal(all_rows(open_samples(written("NA,2\n3,4\n"))), [[NAN, 2], [3, 4]])


def test_header_of_words_for_missing_is_a_header(written):
    assert open_samples(written("NA,null\n3,4\n")).feature_names == ("NA", "null")


def test_header_cells_with_commas_quotes_and_line_breaks(written, all_rows):
    samples = open_samples(written('"As, total","Pb\n(mg/l)","5"" pipe"\n1,2,3\n'))
    assert samples.feature_names == ("As, total", "Pb\n(mg/l)", '5" pipe')
    np.testing.assert_array_equal(all_rows(samples), [[1, 2, 3]])


def test_tsv_and_gzip(written, all_rows):
    for name, content in [
        ("a.tsv", b"a\tb\n1\t2\n"),
        ("b.csv.gz", gzip.compress(b"a,b\n1,2\n")),
        ("c.TSV.gz", gzip.compress(b"a\tb\n1\t2\n")),
    ]:
        samples = open_samples(written(content, name))
        assert samples.feature_names == ("a", "b")
        np.testing.assert_array_equal(all_rows(samples), [[1, 2]])


def test_columns_left_out_may_hold_anything(written, all_rows):
    content = 'site,a,note\nÄ,1,x\nB,2,"two\nlines"\n'.encode("latin-1")
    samples = open_samples(written(content), drop=["site", "note"])
    np.testing.assert_array_equal(all_rows(samples), [[1], [2]])


@pytest.mark.slow  # a large file
def test_more_columns_than_fit_a_usual_block(written, all_rows):
    values = np.random.default_rng(0).normal(size=(2, 30_000))
    text = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    np.testing.assert_array_equal(all_rows(open_samples(written(text))), values)


@given(st.integers(1, 9))
@settings(max_examples=9, deadline=None)
def test_any_block_size_gives_the_same_rows(block_rows):
    text = "a,b\n" + "".join(f"{i},{i / 7}\n" for i in range(8))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.csv")
        with open(path, "w") as stream:
            stream.write(text)
        blocks = [block.values for block in open_samples(path, block_rows=block_rows).blocks()]
    np.testing.assert_array_equal(np.concatenate(blocks), [[i, i / 7] for i in range(8)])
    assert all(len(block) == block_rows for block in blocks[:-1])


# --- faults -------------------------------------------------------------------------------------


def test_text_in_a_number_column(written):
    rows = "".join(f"{i},{i}\n" for i in range(16))
    assert refusal(written(f"Pb,As\n{rows}1,abc\n1,def\n")) == (
        "data.csv: row 17 (line 18), column 'As': 'abc' is not a number, nor is 1 more cell in it. Correct the"
        " cells, or empty those whose value is missing."
    )


def test_all_columns_of_text_are_named_in_one_message(written, all_rows):
    rows = "".join(f"A,{i},2020-01-0{i},mg,{i}\n" for i in range(1, 9))
    said = refusal(written(f"site,As,date,unit,Pb\n{rows}"))
    assert said == (
        "data.csv: columns 'site' (text, row 1 (line 2): 'A'), 'date' (text, row 1 (line 2): '2020-01-01'), 'unit'"
        " (text, row 1 (line 2): 'mg') hold no numbers. Leave them out with drop=['site', 'date', 'unit'], or keep them"
        " as text with id=['site', 'date', 'unit']."
    )
    assert all_rows(open_samples("data.csv", drop=["site", "date", "unit"])).shape == (8, 2)
    assert open_samples("data.csv", id=["site", "date", "unit"]).ids()["unit"] == ["mg"] * 8


def test_a_bad_cell_is_named_beside_columns_of_text(written):
    rows = "".join(f"{i},s{i},{i}\n" for i in range(1, 9))
    said = refusal(written(f",site,As\n{rows}9,s9,trace\n"))
    assert "columns 'column 1' (no name, is it a row index?), 'site' (text, row 1 (line 2): 's1') hold no" in said
    assert "drop=['column 1', 'site']" in said
    assert said.endswith("Row 9 (line 10), column 'As': 'trace' is not a number. Correct the cell, or empty it if its"
                         " value is missing.")  # fmt: skip


def test_a_header_that_was_denied_is_offered(written):
    written("As,Pb\n1,2\n3,4\n")
    with pytest.raises(InputFileError, match=r"nor is 1 more cell in columns number 0, number 1. .* give header=True;"):
        open_samples("data.csv", header=False)
    with pytest.raises(InputFileError, match="No column of numbers is left"):
        open_samples(written("site\nA\nB\n"))


@pytest.mark.slow  # a large file
def test_text_far_down_is_found_after_good_blocks(written):
    rows = "".join(f"{i},{i / 3}\n" for i in range(100_000))
    path = written(f"a,b c\n{rows}1;5,2\n7,x\n")
    assert os.path.getsize(path) > 2**21
    said = refusal(path)
    assert said.startswith(
        "data.csv: row 100,001 (line 100,002), column 'a': '1;5' is not a number, nor is 1 more cell"
    )
    assert "row 100,002 (line 100,003), column 'b c': 'x'" in refusal(path, drop="a")


@pytest.mark.parametrize("cell", ["1_000", '"1,00,000"', '"0,5 "', "0x10", "12%", "1e", "one", "true", "- 5", "١"])
def test_what_is_no_number(written, cell):
    assert "row 2 (line 3), column 'b'" in refusal(written(f"a,b\n1.5,1\n1.5,{cell}\n"))


def test_text_where_columns_have_no_names(written):
    said = refusal(written("1,2\n3,x\n"))
    assert "row 2 (line 2), column number 1 (the first is 0): 'x' is not a number" in said
    assert said.endswith("Correct the cell, or empty it if its value is missing.")
    said = refusal(written("1,2\n3,x\n4,y\n"))
    assert said.endswith(
        "holds text (row 2 (line 2): 'x'), not numbers. Leave it out with drop=1, or keep it as text with id=1."
    )
    assert open_samples("data.csv", drop="1").n_features == 1


@pytest.mark.parametrize(("row", "n"), [("5", "1 cell"), ("5,6,7", "3 cells")])
def test_ragged_row(written, row, n):
    said = refusal(written(f"a,b\n1,2\n\n{row}\n3,4\n"))
    assert said == f"data.csv: row 2 (line 4) has {n}, but the header has 2. Give all rows as many cells."
    assert "row 2 (line 2) has" in refusal(written(f"1,2\n{row}\n"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "data.csv: the file is empty."),
        ("\n\n", "data.csv: there is nothing in it"),
        ("a,b\n", "data.csv: has columns but no rows."),
        ("a,b\n\n\n", "data.csv: has columns but no rows."),
        ("a,b,a\n1,2,3\n", "the column name 'a' occurs twice (columns 1 and 3 from the left)"),
        (",a\n0,1\n", "column 1 from the left has no name (is it a row index?)"),
        ("a,\n0,\n", "drop='column 2'"),
        ('a,b\n1,"2\n' + "3,4\n" * 50_000, "Is a quotation mark not closed?"),
    ],
)
def test_faulty_files(written, content, said):
    assert said in refusal(written(content))


def test_index_column_without_a_name_can_be_left_out(written, all_rows):
    written(",a\n0,1\n")
    np.testing.assert_array_equal(all_rows(open_samples("data.csv", drop="column 1")), [[1]])
    np.testing.assert_array_equal(all_rows(open_samples("data.csv", columns=["a"])), [[1]])


def test_damaged_gzip(written):
    packed = gzip.compress("".join(f"{i},{i / 7}\n" for i in range(9999)).encode())
    assert "not a whole gzipped csv file" in refusal(written(packed[: len(packed) // 2], "x.csv.gz"))
    assert "not a whole gzipped csv file" in refusal(written(b"a,b\n1,2\n", "y.csv.gz"))


@given(st.text(alphabet="0123456789.+-eEinfa N/<", max_size=7))
@settings(max_examples=200, deadline=None)
def test_the_diagnosis_and_the_reader_agree_on_what_a_number_is(cell):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.csv")
        with open(path, "w") as stream:
            stream.write(f"a,b\n1,{cell}\n")
        if read_cell(cell) is not None:
            (block,) = open_samples(path).blocks()
            assert block.values.shape == (1, 2)
        else:
            assert "column 'b' holds text (row 1 (line 2)" in refusal(path) or "row 1 (line 2), column 'b'" in refusal(
                path
            )


# --- standard input -----------------------------------------------------------------------------


def test_standard_input_is_read_more_than_once_and_cleaned_up(monkeypatch, tmp_path, all_rows):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n3,4\n")))
    samples = open_samples("-")
    np.testing.assert_array_equal(all_rows(samples), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(all_rows(samples), [[1, 2], [3, 4]])
    assert len(list(tmp_path.iterdir())) == 1
    del samples
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "a,b\n", "a,a\n1,2\n", "a,b\n1,x\n"])
def test_faulty_standard_input_is_named_and_cleaned_up(monkeypatch, tmp_path, content):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.StringIO(content))
    assert refusal("-").startswith("standard input: ")
    gc.collect()  # the exception, and with it the table, may hang in a cycle
    assert list(tmp_path.iterdir()) == []


def test_standard_input_of_a_real_pipe(tmp_path):
    code = (
        "from unrelu.tables import open_samples; samples = open_samples('-'); "
        "print([block.values.sum() for block in samples.blocks()])"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"a,b\n1,2\n", capture_output=True, env=environment, check=True
    )
    assert b"3.0" in done.stdout
    assert list(tmp_path.iterdir()) == []
