"""--help fits one screen, --help-all has every option, and both name only what the commands accept."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from unrelu.cli.app import app
from unrelu.cli.help import EXAMPLES
from unrelu.errors import InvalidParameterError
from unrelu.methods import method_named
from unrelu.recovery.latent_methods import latent_method
from unrelu.recovery.matrix.descent import matrix_method
from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner

SAMPLES = Path(__file__).parents[2] / "examples" / "samples.csv"
COMMANDS = get_command(app).commands
PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
LINES, WIDTH = 45, 80


def options_of(command: str) -> dict[str, str]:
    """The metavars of a command's options, by their longest names."""
    params = [param for param in COMMANDS[command].params if param.param_type_name == "option"]
    return {max(param.opts, key=len): param.metavar or "" for param in params}


def rare_options_of(command: str) -> set[str]:
    return {max(param.opts, key=len) for param in COMMANDS[command].params if param.rich_help_panel}


def words_of(text: str) -> str:
    """A text without its line ends."""
    return " ".join(text.split())


# --- the screen -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_one_screen(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    lines = run(*filter(None, [command]), "--help").stdout.splitlines()
    assert 10 < len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert lines[-1] == (f"More: unrelu {command} --help-all" if command else "More: unrelu COMMAND --help")
    assert run(*filter(None, [command]), "-h").stdout.splitlines() == lines


@pytest.mark.parametrize("command", COMMANDS)
def test_help_leaves_rare_options_to_help_all_and_this_has_everything(run, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    short, whole = run(command, "--help").stdout, run(command, "--help-all").stdout
    assert max(map(len, whole.splitlines())) <= WIDTH
    for name in options_of(command):
        term = re.compile(rf"^  (-\w, )?{name}\b(?!-)", re.MULTILINE)
        assert term.search(whole)
        assert (term.search(short) is None) == (name in rare_options_of(command))
    for param in COMMANDS[command].params:
        assert words_of(param.help).removesuffix(".") in words_of(whole)
    for paragraph in COMMANDS[command].help.split("\n\n"):
        assert words_of(paragraph) in words_of(short)


def test_required_options_stand_in_the_usage(run):
    assert run("predict", "--help").stdout.startswith("Usage: unrelu predict PATHS... --column NAME [OPTIONS]\n")
    assert run("check", "--help").stdout.startswith("Usage: unrelu check TABLE [MODEL] [OPTIONS]\n")


@pytest.mark.parametrize("without", [True, False])
def test_headings_are_bold_on_a_terminal_unless_no_color_is_set(without, folder):
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm"} | ({"NO_COLOR": "1"} if without else {})
    program = [sys.executable, "-m", "unrelu", "sample", "--help"]
    with subprocess.Popen(program, stdout=theirs, env=environment) as started:
        drawn = b""
        os.close(theirs)
        try:
            while piece := os.read(ours, 10_000):
                drawn += piece
        except OSError:  # how a terminal ends
            pass
    os.close(ours)
    assert started.returncode == 0
    assert b"Options:" in drawn
    assert (b"\x1b[" not in drawn) == without


# --- examples -------------------------------------------------------------------------------------


def test_every_command_has_examples_and_these_can_be_parsed(run):
    named = [shlex.split(line) for line in EXAMPLES.split("\n") if line]
    assert Counter(name for name, *_ in named).keys() == COMMANDS.keys()
    for name, *arguments in named:
        assert COMMANDS[name].make_context(name, list(arguments)).params["as_json"] is False
        assert f"  {shlex.join(['unrelu', name, *arguments])}\n" in run(name, "--help").stdout


@pytest.mark.slow  # fits a table two dozen times
def test_examples_run(run, folder):
    for name in ("samples.csv", "new.csv", "corrupted.csv"):
        Path(name).write_text(SAMPLES.read_text())
    for name, first in (("north", 2), ("south", 150)):
        half = SAMPLES.read_text().splitlines()
        del half[1:first]
        Path(f"{name}.csv").write_text("\n".join(half))
        assert (
            run("fit", f"{name}.csv", "--id", "site", "--limits", "highest", "--record", f"{name}.npz").exit_code == 0
        )
    left_out = ("peel", "reproduce", "factor", "recover")  # of generated outputs, or minutes
    for name, *arguments in (shlex.split(line) for line in EXAMPLES.split("\n") if line):
        if name not in left_out:
            result = run(name, *arguments)
            assert result.exit_code == 0, (name, arguments, result.stderr)


# --- the page of the command line -----------------------------------------------------------------


def test_every_option_of_the_page_is_one():
    every = {
        name
        for command in COMMANDS
        for param in COMMANDS[command].params
        for name in (*param.opts, *param.secondary_opts)
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert {"--help-all", "--margins", "--floor", "--draws"} <= named
    assert named - every == {"--help", "--help-all", "--install-completion", "--show-completion"}


@pytest.mark.parametrize("name", ["--margins", "--limits", "--nondetect"])
def test_values_on_the_page_are_those_of_help(name):
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}"))
    values = set(re.findall(r"[a-z]+", row.split("|")[1].replace(name, ""))) - {"or"}
    assert values == set(options_of("fit")[name].split("|"))


# --- what is named is accepted --------------------------------------------------------------------


NAMED = [
    (command, name, metavar.split("|"))
    for command in COMMANDS
    for name, metavar in options_of(command).items()
    if "|" in metavar and metavar != ".|,"
]


@pytest.mark.parametrize(("command", "name", "values"), NAMED, ids=[f"{command} {name}" for command, name, _ in NAMED])
def test_the_named_values_are_those_that_are_accepted(run, folder, model, command, name, values):
    Path("samples.csv").write_text(SAMPLES.read_text())
    tables = {
        "simulate": ["-n", 5, "-d", 2, "-o", "x.csv"],
        "recover": [model, "samples.csv"],
        "info": [model, "--table", "samples.csv"],
        "predict": ["samples.csv", "--column", "Pb"],
    }
    linear = ["--linear"] * (command == "peel" and name == "--method")
    drawn = ["--draws", 2] * (name == "--parameters")
    reading = ["--id", "site"] * ("--id" in options_of(command))
    result = run(command, *tables.get(command, ["samples.csv"]), *reading, *linear, *drawn, name, "?")
    assert result.exit_code == 2
    words = result.stderr.partition("There are: ")[2].rstrip(".\n").split(", ")
    if words == [""]:  # one word beside numbers
        assert values == ["N", "auto"]
        assert "or auto; got '?'" in result.stderr
    else:
        of_python = {"likelihood"} if command == "factor" else set()  # it needs a density
        assert set(words) - of_python == {value for value in values if value != "NUMBER"}


def test_margins_are_named_in_every_command_that_fits():
    fitting = [command for command in COMMANDS if "--margins" in options_of(command)]
    assert len(fitting) == 9
    for command in fitting:
        assert options_of(command)["--margins"].split("|") == ["auto", "normal", "log", "boxcox", "monotone"]


@pytest.mark.parametrize("value", ["auto", "normal", "log", "boxcox", "monotone"])
def test_named_margins_are_fitted(run, folder, value):
    Path("samples.csv").write_text(SAMPLES.read_text())
    result = run("fit", "samples.csv", "--id", "site", "--floor", "none", "--method", "one_pass", "--margins", value)
    assert result.exit_code == 0, result.stderr


def test_help_all_explains_every_method_of_a_fit(run, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    text = words_of(run("fit", "--help-all").stdout).partition("--method METHOD ")[2].partition(" --floor ")[0]
    with pytest.raises(InvalidParameterError) as refused:
        method_named("?")
    there_are = str(refused.value).split("There are: ")[1].rstrip(".").split(", ")
    assert re.findall(r"(?:[.;]) (\w+): ", text) == there_are


@pytest.mark.parametrize(
    ("command", "refuse"),
    [
        ("factor", lambda: matrix_method("?")),
        ("recover", lambda: latent_method("?", None)),
        ("peel", lambda: TwoLayerReLULearner(2, "?").fit(np.eye(3))),
    ],
)
def test_the_methods_are_those_that_the_library_takes(command, refuse):
    with pytest.raises(InvalidParameterError) as refused:
        refuse()
    there_are = str(refused.value).split("There are: ")[1].rstrip(".").split(", ")
    in_python_only = ["likelihood"] if command == "factor" else []  # it needs a density
    assert there_are == [*options_of(command)["--method"].split("|"), *in_python_only]
