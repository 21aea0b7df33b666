"""What the library says of parameters, said of options."""

from __future__ import annotations

import shlex

import pytest

import unrelu.cli.app  # noqa: F401 - fills the table of options
from unrelu.cli.frame import OPTIONS as EVERY
from unrelu.cli.frame import one_line
from unrelu.errors import InvalidDataError, InvalidParameterError


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("consider n_components= to learn", "consider --components to learn"),
        ("pass it as floor= (say floor=-2)", "pass it as --floor (say --floor=-2)"),
        ("A sparse table needs floor=0, as", "A sparse table needs --floor 0, as"),
        ("the floor is 0, my_floor=1, 'floor=2'", "the floor is 0, my_floor=1, 'floor=2'"),
        ("Use method='facets'.", "Use --method facets."),
        ("say floor=None or n_components=None", "say --floor none or n_components=None"),
        ("Ask for n_hidden=3.", "Ask for --widths 3."),
        ("skip_bad_rows=True leaves such rows empty", "--skip-bad-rows leaves such rows empty"),
        ("every prior must be known", "every prior must be known"),
        ("Lower n_components, or raise max_iter.", "Lower --components, or raise --max-iter."),
        ("row_weights_ and output_bias_ are attributes", "row_weights_ and output_bias_ are attributes"),
        ("give method=unrelu.papers.Likelihood(norm)", "give method=unrelu.papers.Likelihood(norm)"),
        ("at least 1/(n_simulations + 1) = 0.05, or so", "at least 1/(--simulations + 1) = 0.05, or so"),
        ("not settled after max_iter=nan rounds", "not settled after max_iter=nan rounds"),
        ("drop=['a b=3', 'c'] and id='d'", "--drop 'a b=3,c' and --id d"),
        ("two\nlines", "two lines"),
    ],
)
def test_parameters_are_named_as_options(message, expected):
    assert one_line(message, EVERY) == expected


def test_the_parameter_at_fault_is_named_as_an_option():
    for message, expected in (
        ("tol must be a finite number", "--tol must be a finite number"),
        ("tol.npz: tol must be finite", "tol.npz: --tol must be finite"),
    ):
        assert one_line(InvalidParameterError(message, parameter="tol"), EVERY) == expected
        assert one_line(InvalidParameterError(message), EVERY) == message


def test_rows_are_counted_from_one():
    for rows, message, expected in (
        ([35], "Infinite in row 35 (the first is 0).", "Infinite in row 36."),
        ([35], "Row 35 (the first is 0) is off.", "Row 36 is off."),
        ([3, 1200], "CellDensities at rows 3, 1,200 (the first is 0).", "CellDensities at rows 4, 1,201."),
    ):
        assert one_line(InvalidDataError(message, rows=rows), {}) == expected


def test_columns_to_leave_out_can_be_pasted_into_a_shell():
    from unrelu.cli.options import listed_items

    names = ["As", "site name", "Fe, total", "it's", 'a "b"', '"c"', "$x", "[d]"]
    words = shlex.split(one_line(f"Leave them out with drop={names!r}, or wait. Say id=[0, 12].", EVERY))
    assert listed_items([words[words.index("--drop") + 1].rstrip(",")]) == names
    assert listed_items([words[words.index("--id") + 1].rstrip(".")]) == ["0", "12"]


@pytest.mark.parametrize("name", ["As", "site name", "Fe, total", "it's", 'a "b"', "$x"])
def test_a_column_to_leave_out_can_be_pasted_into_a_shell(name):
    from unrelu.cli.options import listed_items

    words = shlex.split(one_line(f"Leave it out with drop={name!r}.", EVERY))
    assert words[-2] == "--drop"
    assert listed_items([words[-1].removesuffix(".")]) == [name]
