"""Limits of single cells beside a table: which cells are at them, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from unrelu.contracts import Block, CellLimits, Samples
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.tiles import tiles
from unrelu.tables import ArraySamples, open_samples
from unrelu.tables.groups import LabelledRows, row_labels
from unrelu.tables.limited import LimitedSamples, cell_limits

NAN, INF = np.nan, np.inf
NAMES = ("As", "Pb")
X = np.array([[0.5, 9.0], [0.3, 2.0], [NAN, 9.0], [0.2, 1.0]])
FLOOR = np.array([[0.5, NAN], [0.1, NAN], [0.5, NAN], [0.2, 1.0]])
CEILING = np.array([[NAN, 9.0], [NAN, 8.0], [NAN, 9.0], [7.0, NAN]])
MARKS = [[-1, 1], [0, 0], [0, 1], [-1, -1]]


def limited(X=X, floor=FLOOR, ceiling=CEILING, names=NAMES, **options) -> LimitedSamples:
    samples = ArraySamples(X, feature_names=names, **options)
    return LimitedSamples(samples, *cell_limits(floor, ceiling, X.shape, names))


def whole(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    blocks = list(samples.blocks())
    return np.concatenate([b.values for b in blocks]), np.concatenate([b.censoring for b in blocks])


@pytest.mark.parametrize("block_rows", [1, 3, None])
def test_cells_at_their_limits_are_marked(block_rows):
    samples = limited(block_rows=block_rows)
    assert isinstance(samples, Samples)
    values, censoring = whole(samples)
    assert_array_equal(values, X)
    assert_array_equal(censoring, MARKS)
    assert censoring.dtype == np.int8
    assert (samples.limits, samples.limits_by_cell) == (None, (0, 1))


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame])
def test_frames_of_limits_go_by_name(frame_of):
    frame = frame_of({"Pb": FLOOR[:, 1], "As": FLOOR[:, 0]})
    assert_array_equal(cell_limits(frame, None, X.shape, NAMES)[0], np.where(np.isnan(FLOOR), -INF, FLOOR))
    with pytest.raises(InvalidParameterError, match="floor: no column 'Pb' in the frame"):
        cell_limits(frame_of({"As": FLOOR[:, 0]}), None, X.shape, NAMES)
    with pytest.raises(InvalidParameterError, match=r"floor: no column 'as'\. Did you mean 'As'"):
        cell_limits(frame_of({"As": FLOOR[:, 0], "Pb": FLOOR[:, 1], "as": FLOOR[:, 0]}), None, X.shape, NAMES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_is_equal_up_to_the_table_s_rounding(dtype):
    level = np.log10(0.1) / np.log10(np.e)  # log(0.1), off by rounding
    table = np.array([[np.log(0.1)], [0.7], [np.log(0.1) + 1e-3]], dtype=dtype)
    values, censoring = whole(limited(table, np.array([[level], [0.5], [level]]), None, None))
    assert_array_equal(censoring, [[-1], [0], [0]])
    assert values.dtype == dtype
    assert values[0, 0] == dtype(level)


def test_zeros_beyond_a_limit_say_that_nothing_was_found():
    """As with one floor a column."""
    values, censoring = whole(
        limited(np.array([[0.0, 0.0], [1.0, -2.0]]), [[0.4, NAN], [0.5, NAN]], [[9, -1], [9, -1.5]])
    )
    assert_array_equal(values, [[0.4, -1.0], [1.0, -2.0]])
    assert_array_equal(censoring, [[-1, 1], [0, 0]])


def test_one_limit_in_all_rows_is_the_column_s():
    samples = limited(X[:2], np.array([[0.3, NAN], [0.3, -1.0]]), None)
    assert (samples.limits, samples.limits_by_cell) == (CellLimits(((0, 0.3),)), (1,))
    samples = limited(X[:2], None, np.array([[3.0, NAN], [3.0, NAN]]))
    assert (samples.limits, samples.limits_by_cell) == (CellLimits((), ((0, 3.0),)), ())
    samples = limited(X[:2], np.array([[0.3, NAN], [0.3, NAN]]), np.array([[3.0, NAN], [3.0, NAN]]))
    assert (samples.limits, samples.limits_by_cell) == (None, (0,))  # a column has one of both


def test_numbers_for_all_leave_out_columns_with_limits_on_the_other_side():
    ceiling = np.array([[NAN, 9.0], [NAN, NAN]])
    assert_array_equal(cell_limits(0.5, ceiling, (2, 2), NAMES)[0], [[0.5, -INF], [0.5, -INF]])
    assert_array_equal(cell_limits({"Pb": 0.5}, ceiling, (2, 2), NAMES)[0], [[0.0, 0.5], [0.0, 0.5]])
    with pytest.raises(InvalidParameterError, match="floor must be numbers beside limits by cell"):
        cell_limits("min", ceiling, (2, 2), NAMES)


@pytest.mark.parametrize(
    ("floor", "ceiling", "words"),
    [
        (FLOOR + 0.25, None, r"Row 0 .*column 0 \('As'\): the value 0.5 is below its floor 0.75 \(and 3 more such"),
        (None, CEILING - 1.0, r"Row 0 .*column 1 \('Pb'\): the value 9.0 is above its ceiling 8.0 .* limit to NaN"),
    ],
)
def test_values_beyond_their_limit_are_named(floor, ceiling, words):
    with pytest.raises(InvalidDataError, match=words):
        whole(limited(floor=floor, ceiling=ceiling))
    with pytest.raises(InvalidDataError, match=r"Row 3 \(the first is 0\), column 0 .*below its floor 0\.9"):
        whole(limited(floor=np.array([[NAN, NAN]] * 3 + [[0.9, NAN]]), ceiling=None, block_rows=2))


def test_rows_of_weight_zero_may_hold_anything():
    values, censoring = whole(limited(floor=FLOOR + 9.0 * np.eye(4)[:, :1], ceiling=None, weights=[0.0, 1.0, 1.0, 1.0]))
    assert np.isnan(values[0]).all()
    assert_array_equal(censoring[:, 0], [0, 0, 0, -1])


@pytest.mark.parametrize(
    ("floor", "words"),
    [
        (FLOOR[:3], r"floor has shape \(3, 2\), the table \(4, 2\).*set_params\(floor=\.\.\.\)"),
        (FLOOR[:, :1], r"floor has shape \(4, 1\), the table \(4, 2\)"),
        (np.full(X.shape, "low"), "floor must hold numbers"),
        (np.full(X.shape, INF), "floor of a cell cannot be inf"),
        (CEILING + 1.0, r"Row 0 .*column 1 \('Pb'\): its floor 10 is not below its ceiling 9"),
    ],
)
def test_limits_that_cannot_be(floor, words):
    with pytest.raises(InvalidParameterError, match=words):
        limited(floor=floor)


def test_files_whose_rows_are_not_counted_yet(tmp_path):
    (tmp_path / "x.csv").write_text("As,Pb\n" + "\n".join(f"{a},{b}" for a, b in np.nan_to_num(X, nan=3.0)) + "\n")
    samples = open_samples(tmp_path / "x.csv")
    assert_array_equal(whole(LimitedSamples(samples, *cell_limits(FLOOR, CEILING, (None, 2), NAMES)))[1], MARKS)
    for rows, words in ((3, r"\(3, 2\), the table \(at least 4, 2\)"), (5, r"\(5, 2\), the table \(4, 2\)")):
        limits = cell_limits(np.full((rows, 2), -1.0), None, (None, 2), NAMES)
        with pytest.raises(InvalidParameterError, match=words):
            list(LimitedSamples(samples, *limits).blocks())


def test_limits_are_not_given_twice(tmp_path):
    (tmp_path / "x.csv").write_text("a\n<1\n2\n")
    for limits in ("one", "cell"):
        with pytest.raises(InvalidParameterError, match="state limits themselves"):
            LimitedSamples(open_samples(tmp_path / "x.csv", limits=limits), *cell_limits([[0.5], [NAN]], None, (2, 1)))


def test_marks_go_along_with_rows():
    samples = limited(block_rows=2)
    assert_array_equal(whole(LabelledRows(samples, long=True))[1], MARKS)
    grouped = LabelledRows(samples, row_labels([1, 2, 1, 2]))
    assert_array_equal(whole(grouped)[1], MARKS)
    assert grouped.limits_by_cell == samples.limits_by_cell
    assert_array_equal(whole(samples.weighted([1.0, 2.0, 1.0, 1.0]))[1], MARKS)
    marks = np.random.default_rng(0).integers(-1, 2, (5000, 2), dtype=np.int8)
    many = Block(np.ones((5000, 2)), censoring=marks)
    assert_array_equal(np.concatenate([tile.censoring for tile in tiles(many)]), marks)
