"""Tables of several laboratories as one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from unrelu.contracts import CellLimits
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.tables import joined

NAN = np.nan
NORTH = {"As": [0.5, 2.0], "Pb": [1.0, 3.0]}
SOUTH = {"Zn": [5.0, 1.0], "Pb": [0.2, 0.7]}


@pytest.mark.parametrize("frame_of", [pd.DataFrame, pl.DataFrame, lambda data: pl.DataFrame(data).lazy()])
@pytest.mark.parametrize(
    "south",
    [
        {"Pb": 0.2, "Zn": None},
        [None, 0.2],
        pd.Series({"Pb": 0.2, "Zn": -np.inf}),
        np.array([[NAN, 0.2], [NAN, 0.2]]),
        pd.DataFrame({"Pb": [0.2, 0.2], "Zn": [NAN, NAN]}),
    ],
)
def test_frames_with_floors_of_every_kind(frame_of, south, all_rows):
    samples = joined([frame_of(NORTH), frame_of(SOUTH)], floor=[{"As": 0.5, "Pb": 1.0}, south])
    assert samples.feature_names == ("As", "Pb", "Zn")
    assert_array_equal(all_rows(samples), [[0.5, 1, NAN], [2, 3, NAN], [NAN, 0.2, 5], [NAN, 0.7, 1]])
    assert_array_equal(next(samples.blocks()).censoring, [[-1, -1, 0], [0, 0, 0], [0, -1, 0], [0, 0, 0]])
    # As has one limit wherever it was measured; 0.7 was seen, though below the other laboratory's limit.
    assert (samples.limits, samples.limits_by_cell) == (CellLimits(((0, 0.5),)), (1,))


def test_the_same_limits_everywhere_are_the_columns_own():
    samples = joined([pd.DataFrame(NORTH), pd.DataFrame(SOUTH)], ceiling=[{"Pb": 3.0}, {"Pb": 3.0}])
    assert (samples.limits, samples.limits_by_cell) == (CellLimits((), ((1, 3.0),)), ())
    assert joined([pd.DataFrame(NORTH), pd.DataFrame(SOUTH)]).limits is None


def test_arrays_go_by_position(all_rows):
    first, second = np.array([[1.0, 2.0]]), np.array([[0.5, 3.0]])
    samples = joined([first, second], floor=[1.0, [0.5, None]])
    assert samples.feature_names is None
    assert_array_equal(all_rows(samples), [[1, 2], [0.5, 3]])
    assert_array_equal(next(samples.blocks()).censoring, [[-1, 0], [-1, 0]])


def test_cells_of_text_have_their_limits():
    text = pd.DataFrame({"Pb": ["<0.3", "0.1", ">9"], "As": [1.0, 2.0, 3.0]})
    samples = joined([pd.DataFrame(NORTH), text], floor=[{"Pb": 1.0, "As": None}, None])
    block = next(samples.blocks())
    assert_array_equal(block.values[:, 1], [1.0, 3.0, 0.3, 0.1, 9.0])
    assert_array_equal(block.censoring[:, 1], [-1, 0, -1, 0, 1])
    with pytest.raises(InvalidParameterError, match="has its limits in them"):
        joined([text], floor=[0.1])


@pytest.mark.parametrize(
    ("tables", "floor", "error", "words"),
    [
        ([], None, InvalidParameterError, "No tables to join"),
        ([np.ones((2, 2))], [0.1, 0.2], InvalidParameterError, "one item for each of the 1 table"),
        ([np.ones((2, 2))], 0.1, InvalidParameterError, "floor must be a list"),
        ([np.ones((2, 2)), np.ones((2, 3))], None, InvalidParameterError, "have 2, 3 columns.*Give frames"),
        ([np.ones((2, 2)), pd.DataFrame(NORTH)], None, InvalidParameterError, "1 of them have names"),
        ([np.ones(2)], None, InvalidDataError, "2 dimensions"),
        ([pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])], None, InvalidDataError, "'a' occurs twice"),
        ([pd.DataFrame(NORTH)], [{"as": 1.0}], InvalidParameterError, "Did you mean 'As'"),
    ],
)
def test_what_cannot_be_joined(tables, floor, error, words):
    with pytest.raises(error, match=words):
        joined(tables, floor=floor)


def test_values_below_their_laboratory_s_floor_are_named():
    samples = joined([pd.DataFrame(NORTH), pd.DataFrame(SOUTH)], floor=[None, {"Pb": 0.5}])
    with pytest.raises(InvalidDataError, match=r"Row 2 .*column 1 \('Pb'\): the value 0\.2 is below its floor 0\.5"):
        list(samples.blocks())
