"""One cell's text, and columns of such cells against reading them one by one."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unrelu.tables.arrow_files import read_texts
from unrelu.tables.cells import Reading, UnreadableCell, at_limits, decimal_vote, read_cell


@pytest.mark.parametrize(
    ("text", "decimal", "kind", "value"),
    [
        ("0.25", ".", "number", 0.25),
        ("0,25", ",", "number", 0.25),
        (" 1e-3 ", ".", "number", 1e-3),
        ("-inf", ".", "number", -math.inf),
        ("1,234.5", ".", "grouped", 1234.5),
        ("1,234,567", ".", "grouped", 1234567.0),
        ("1.234,5", ",", "grouped", 1234.5),
        ("1.234", ",", "grouped", 1234.0),
        ("1 234,5", ",", "grouped", 1234.5),
        ("1'234.5", ".", "grouped", 1234.5),
        ("<0.25", ".", "below", 0.25),
        ("< 0,25", ",", "below", 0.25),
        ("<=.5", ".", "below", 0.5),
        ("≤ 5", ".", "below", 5.0),
        (">100", ".", "above", 100.0),
        ("> 1,000", ".", "above", 1000.0),
        ("0.5 U", ".", "below", 0.5),
        ("0.5UJ", ".", "below", 0.5),
        ("0,5 (U)", ",", "below", 0.5),
        ("<0.5 U", ".", "below", 0.5),
        ("0.5 ND", ".", "below", 0.5),
        ("ND(0.5)", ".", "below", 0.5),
        ("nd (<0.5)", ".", "below", 0.5),
        ("ND<50", ".", "below", 50.0),
        ("n.n. (0,5)", ",", "below", 0.5),
        ("0.5 J", ".", "estimated", 0.5),
        ("0.5J+", ".", "estimated", 0.5),
        ("[0.1, 0.5]", ".", "between", 0.1),
        ("[0,1; 0,5]", ",", "between", 0.1),
    ],
)
def test_cells_that_say_a_number(text, decimal, kind, value):
    assert read_cell(text, decimal) == (kind, value)


@pytest.mark.parametrize(
    "text",
    ["ND", "n.d.", "nd", "BDL", "<LOD", "< LOD", "<DL", "<loq", "Not  Detected", "n.n.", "< BG", "U", "Non détecté"],
)
def test_words_for_not_detected(text):
    assert read_cell(text)[0] == "nondetect"


@pytest.mark.parametrize("text", ["", " ", "nan", "NA", "n/a", "N/A", "-", "null", "None", "#N/A", "."])
def test_words_for_missing(text):
    assert read_cell(text)[0] == "missing"


@pytest.mark.parametrize(
    "text", ["abc", "<", "<x", "<inf", "1,23", "0,123", "1,234,56", "1 2", "12%", "0x10", "1;5", "U5", "5X", "[5, 1]"]
)
def test_what_says_nothing(text):
    assert read_cell(text) is None


@pytest.mark.parametrize(
    ("text", "mark"), [("0,5", ","), ("0.5", "."), ("1,234", None), ("1.234", None), ("<0,5", ","), ("x,5", None)]
)
def test_decimal_marks_that_cells_show(text, mark):
    assert decimal_vote(text) == mark


TEXTS = st.sampled_from(
    [
        "1",
        "-2.5",
        "+.5",
        "3.",
        "1e3",
        " 7 ",
        "<0.25",
        "> 9",
        "ND",
        "NA",
        "-",
        "1,234.5",
        "inf",
        None,
        "nan",
        "abc",
        "0,5",
        "0.5 U",
        "0.6 J",
        "[1, 2]",
    ]
)


@given(st.lists(TEXTS, max_size=12), st.sampled_from(["missing", "floor"]), st.sampled_from([None, "missing"]))
@settings(max_examples=150, deadline=None)
def test_columns_are_read_as_their_cells_one_by_one(texts, nondetect, limits):
    reading = Reading(nondetect=nondetect, limits=limits)
    cells = [read_cell("" if text is None else text) for text in texts]
    if any(cell is None or cell[0] == "between" for cell in cells):
        with pytest.raises(UnreadableCell):
            read_texts(pa.array(texts, pa.string()), ".")
        return
    values, seen = read_texts(pa.array(texts, pa.string()), ".")
    expected = [
        -math.inf
        if kind == "nondetect" and nondetect == "floor"
        else math.nan
        if kind in ("below", "above") and limits == "missing"
        else value
        for kind, value in cells
    ]
    rows, _ = at_limits(values[:, np.newaxis], None, {0: -math.inf}, reading)
    np.testing.assert_array_equal(rows[:, 0], expected)
    assert seen.below.total() == sum(cell[0] == "below" for cell in cells)
    assert seen.above.total() == sum(cell[0] == "above" for cell in cells)
    assert seen.n_not_detected == sum(cell[0] == "nondetect" for cell in cells)
    numbers = [cell[1] for cell in cells if cell[0] in ("number", "grouped", "estimated")]
    assert (seen.smallest, seen.largest) == (min(numbers, default=math.inf), max(numbers, default=-math.inf))
