"""The command line: what commands ask for, read, write and tell; no mathematics, and no picture.

    app.py      the commands, listed
    frame.py    what every command shares: outputs declared, checked and written, progress, the answer
    outcome.py  how every command ends: exit codes, one-line errors, warnings, --json, in words of options
    options.py  shared options, and texts of the command line turned into columns and floors
    inputs.py   models and layers from files, and their columns found in a table
    fit.py (fit, merge)  check.py (check, report, info)  impute.py (impute, predict)  score.py (score, clean)
    sample.py (sample, simulate)  factor.py  network.py  recover.py  peel.py  demo.py  reproduce.py

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
        import rich  # noqa: F401 - each command needs it later; its absence is told at once

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
