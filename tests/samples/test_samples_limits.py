"""Limits that cells state, in real files: one a column, or refused with the way out."""

from __future__ import annotations

import numpy as np
import pytest

from unrelu.contracts import CellLimits
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.samples import open_samples

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
    assert notes == ["As: 2 cells <0.25 put at the floor 0.25"]


def test_limits_among_whole_numbers_and_ceilings(opened):
    rows, limits, _ = opened("a,b\n3,>100\n<0.25,7\n1,99\n")
    assert rows == [[3, 100], [0.25, 7], [1, 99]]
    assert limits == CellLimits(((0, 0.25),), ((1, 100.0),))


def test_several_limits_are_refused_with_the_way_out(opened):
    content = "As,Pb\n<0.1,1\n<0.5,2\n0.3,3\n2,4\n"
    with pytest.raises(
        InvalidDataError, match=r"column 'As': 2 different limits, <0\.1, <0\.5, but .* one floor"
    ) as said:
        opened(content)
    assert "limits='highest'" in str(said.value)
    assert "limits='missing'" in str(said.value)
    assert opened(content, limits="highest")[:2] == ([[0.5, 1], [0.5, 2], [0.5, 3], [2, 4]], CellLimits(((0, 0.5),)))
    np.testing.assert_array_equal(opened(content, limits="missing")[0], [[NAN, 1], [NAN, 2], [0.3, 3], [2, 4]])


def test_numbers_below_the_limit_are_refused_with_the_way_out(opened):
    content = "As\n<0.5\n0.3\n2\n"
    with pytest.raises(InvalidDataError, match=r"column 'As': <0\.5 beside 0\.3, but a column has one floor"):
        opened(content)
    assert opened(content, limits="highest")[0] == [[0.5], [0.5], [2]]
    with pytest.raises(InvalidDataError, match=r"column 'b': >5 beside 9, but a column has one ceiling"):
        opened("b\n>5\n9\n")
    assert opened("b\n>5\n9\n>7\n1\n", limits="highest")[0] == [[5], [5], [5], [1]]


def test_limits_that_contradict_each_other_are_refused(opened):
    with pytest.raises(InvalidDataError, match="contradict"):
        opened("a\n<5\n>2\n", limits="highest")


def test_what_was_not_detected_is_missing_by_default_and_told(opened):
    rows, limits, notes = opened("As,Pb\nND,1\n0.5,BDL\n2,3\nNA,<LOD\n")
    np.testing.assert_array_equal(rows, [[NAN, 1], [0.5, NAN], [2, 3], [NAN, NAN]])
    assert limits is None
    assert notes == ["As: 1 cell 'ND' read as missing", "Pb: 2 cells '<LOD', 'BDL' read as missing"]


def test_what_was_not_detected_can_be_floored(opened):
    content = "As,Pb\nND,1\n0.5,n.d.\n<0.25,3\nNA,2\n"
    rows, limits, notes = opened(content, nondetect="floor")
    np.testing.assert_array_equal(rows, [[0.25, 1], [0.5, 1], [0.25, 3], [NAN, 2]])
    assert limits == CellLimits(((0, 0.25), (1, 1.0)))  # the limit stated, or else the smallest number
    assert "As: 1 cell <0.25 put at the floor 0.25, 1 cell 'ND' put at the floor 0.25" in notes
    rows, limits, _ = opened(content, nondetect={"Pb": 0.8})
    assert (rows[1], limits) == ([0.5, 0.8], CellLimits(((0, 0.25), (1, 0.8))))
    assert opened(content, nondetect=0.1)[1] == CellLimits(((0, 0.25), (1, 0.1)))
    with pytest.raises(InvalidDataError, match="2 different limits"):
        opened(content, nondetect={"As": 0.1})
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
    assert samples.notes == ["a: 2 cells <1 put at the floor 1"]
    (tmp_path / "2.csv").write_text("b,a\n5,6\n7,<2\n")
    with pytest.raises(InvalidDataError, match="2 different limits, <1, <2"):
        open_samples(tmp_path / "*.csv")


def test_a_limit_far_down_is_found_before_rows_are_used(opened):
    rows, limits, _ = opened("a,b\n" + "0.123456789,2.5\n" * 100_000 + "<0.1,3\n")
    assert limits == CellLimits(((0, 0.1),))
    assert rows[-1] == [0.1, 3]
