"""What the library says of parameters, said of options."""

from __future__ import annotations

import shlex

import pytest

from unrelu.cli.outcome import OPTIONS, one_line


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("consider n_components= to learn", "consider --components to learn"),
        ("pass it as floor= (say floor=-2)", "pass it as --floor (say --floor=-2)"),
        ("A sparse table needs floor=0, as", "A sparse table needs --floor 0, as"),
        ("the floor is 0, my_floor=1, 'floor=2'", "the floor is 0, my_floor=1, 'floor=2'"),
        ("Use method='facets'.", "Use --method facets."),
        ("Ask for n_hidden=3.", "Ask for --widths 3."),
        ("skip_bad_rows=True leaves such rows empty", "--skip-bad-rows leaves such rows empty"),
        ("tol must be a finite number", "--tol must be a finite number"),
        ("w.npz: floor must be finite", "w.npz: --floor must be finite"),
        ("every prior must be known", "every prior must be known"),
        ("Lower n_components, or raise max_iter.", "Lower --components, or raise --max-iter."),
        ("row_weights_ and output_bias_ are attributes", "row_weights_ and output_bias_ are attributes"),
        ("give method=unrelu.papers.Likelihood(norm)", "give method=unrelu.papers.Likelihood(norm)"),
        ("two\nlines", "two lines"),
    ],
)
def test_parameters_are_named_as_options(message, expected):
    assert one_line(message) == expected


def test_columns_to_leave_out_can_be_pasted_into_a_shell():
    from unrelu.cli.options import listed_items

    names = ["As", "site name", "Fe, total", "it's", 'a "b"', '"c"', "$x", "[d]"]
    words = shlex.split(one_line(f"Leave them out with drop={names!r}, or wait. Say id=[0, 12]."))
    assert listed_items([words[words.index("--drop") + 1].rstrip(",")]) == names
    assert listed_items([words[words.index("--id") + 1].rstrip(".")]) == ["0", "12"]


@pytest.mark.parametrize("name", ["As", "site name", "Fe, total", "it's", 'a "b"', "$x"])
def test_a_column_to_leave_out_can_be_pasted_into_a_shell(name):
    from unrelu.cli.options import listed_items

    words = shlex.split(one_line(f"Leave it out with drop={name!r}."))
    assert words[-2] == "--drop"
    assert listed_items([words[-1].removesuffix(".")]) == [name]


def test_a_command_has_words_of_its_own():
    says = {"use method='one_pass'": "give --model", "k": "--components"}
    assert one_line("Add rows, or use method='one_pass'.", says) == "Add rows, or give --model."
    assert one_line("k must be at most 3", says) == "--components must be at most 3"
    assert one_line("k must be at most 3") == "k must be at most 3"


def test_every_option_named_exists(run):
    """A translation to an option that no command has would mislead."""
    import typer

    from unrelu.cli.app import app

    every = {
        option for command in typer.main.get_command(app).commands.values() for p in command.params for option in p.opts
    }
    assert set(OPTIONS.values()) <= every
