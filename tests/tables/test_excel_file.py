"""Excel sheets, as openpyxl writes them."""

from __future__ import annotations

import builtins
import datetime

import numpy as np
import pytest

from unrelu.contracts import CellLimits
from unrelu.errors import InputFileError, MissingDependencyError
from unrelu.tables import open_samples

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")


@pytest.fixture
def book(tmp_path):
    """Two sheets: limits, words, dates and whole numbers; and a plain one."""
    made = openpyxl.Workbook()
    sheet = made.active
    sheet.title = "soil"
    for row in [
        ["site", "day", "As", 1990],
        [7, datetime.date(2020, 1, 31), 0.3, 5],
        ["two\nlines", None, "<0.25", "1,234.5"],
        [None, None, None, None],
        ["x", None, "ND", None],
    ]:
        sheet.append(row)
    other = made.create_sheet("rain")
    other.append(["mm"])
    other.append([3.5])
    made.create_sheet("nothing")
    path = tmp_path / "book.xlsx"
    made.save(path)
    return path


def test_the_first_sheet_is_read_as_text_tables_are(book, all_rows):
    samples = open_samples(book, id=["site", "day"])
    assert samples.feature_names == ("As", "1990")
    np.testing.assert_array_equal(all_rows(samples), [[0.3, 5], [0.25, 1234.5], [np.nan, np.nan]])
    assert samples.limits == CellLimits(((0, 0.25),))
    assert samples.ids() == {"site": ["7", "two lines", "x"], "day": ["2020-01-31", "", ""]}
    assert samples.row_label(2) == "row 3 (line 5)"  # as Excel counts


def test_other_sheets_by_name_or_number(book, all_rows):
    for sheet in ("rain", 1):
        np.testing.assert_array_equal(all_rows(open_samples(book, sheet=sheet)), [[3.5]])
    for sheet, said in [("rian", "Did you mean 'rain'"), (5, "no sheet number 5; it has 3"), ("nothing", "is nothing")]:
        with pytest.raises(InputFileError, match=said):
            open_samples(book, sheet=sheet)


def test_text_in_a_sheet_is_named_by_its_row(book):
    with pytest.raises(InputFileError, match=r"book.xlsx: column 'site' holds text \(row 2 \(line 3\): 'two lines'\)"):
        open_samples(book, drop="day")


def test_no_excel_file_and_no_reader_for_them(tmp_path, book, monkeypatch):
    (tmp_path / "x.xlsx").write_text("x")
    with pytest.raises(InputFileError, match=r"x.xlsx: not a whole Excel file"):
        open_samples(tmp_path / "x.xlsx")
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "python_calamine":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r'pip install "unrelu\[xlsx\]"'):
        open_samples(book)
