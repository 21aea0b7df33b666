"""The commands, listed, and the start of the program."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

import typer

from unrelu._version import __version__
from unrelu.cli.help import Command, Commands
from unrelu.cli.learning import check, fit, info, merge, report
from unrelu.cli.reading import read
from unrelu.cli.recovering import factor, graph, peel, recover
from unrelu.cli.trying import demo, reproduce
from unrelu.cli.using import clean, impute, predict, sample, score, simulate
from unrelu.renamed import COMMANDS, OPTIONS

app = typer.Typer(
    name="unrelu",
    cls=Commands,
    help="Learn the joint distribution behind left-censored tables: detection limits, zeros, outputs of a ReLU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # no command ends in a traceback: see frame.py
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help", "--help-all"]},
)
# By task, in the order in which --help lists them.
TASKS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Fit a model and check it": (fit, report, check, info, merge),
    "Use a model": (impute, predict, score, clean, sample),
    "Recover what is behind a table": (factor, graph, recover, peel),
    "Look at a table": (read,),
    "Try it out": (demo, simulate, reproduce),
}
for task, bodies in TASKS.items():
    for body in bodies:
        app.command(cls=Command, rich_help_panel=task)(body)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unrelu {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    # Without its own docstring, typer keeps the help text given above.
    return


def run() -> None:
    """Parse the arguments and run the command; never returns."""
    # A terminal that lacks a character (±, a column's name) gets a question mark, not an error.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # A polite kill unwinds like Ctrl-C, so that files written aside are removed.
    signal.signal(signal.SIGTERM, _terminate)
    for place, word in enumerate(sys.argv[1:]):
        old = word.partition("=")[0]
        if new := COMMANDS.get(old) if place == 0 else OPTIONS.get(old):
            sys.stderr.write(f"Error: {old} is now {new}.{os.linesep}")
            sys.exit(2)
    app(prog_name="unrelu")


def _terminate(number: int, frame: FrameType | None) -> None:
    sys.stderr.write("Terminated." + os.linesep)
    sys.exit(128 + number)
