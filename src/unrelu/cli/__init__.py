"""The command line: what commands read, write and print; no mathematics, and no picture.

    app.py         the commands, listed
    learning.py    fit, merge, check, report, info
    using.py       impute, predict, score, clean, sample, simulate
    recovering.py  factor, graph, recover, peel
    reading.py     read
    trying.py      demo, reproduce
    options.py     what the annotations of a command declare: options, the files that it reads and writes
    help.py        --help and --help-all: examples, and the layout of both
    frame.py       the frame of all commands: files checked and written, progress, the answer, exit codes
    inputs.py      models and layers from files, their columns found in a table, fitted and loaded estimators

A command is one function: its signature declares options, inputs and outputs, its docstring is the help. Of an option
--help shows the first sentence of its text, and nothing of one that is declared ``rare``.
Only typer and rich are imported at the start; everything heavier waits for the command that needs it, so that
``unrelu --help`` answers at once.
"""

from __future__ import annotations

import sys

_EXTRAS = {"typer", "click", "rich"}


def main() -> None:
    """Run the command line and exit: 0 done, 2 bad input or usage, 130 interrupted, 1 an internal error (of
    ``check --strict``: a model that does not fit)."""
    try:
        import rich  # noqa: F401 - each command needs it later; its absence is reported at once

        from unrelu.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRAS:
            raise
        sys.stderr.write(f'Error: the command line needs {error.name}: pip install "unrelu[cli]".\n')
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
    run()
