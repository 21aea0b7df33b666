"""The command line: one small file per command, no mathematics.

    app.py            the commands, listed
    frame.py          what every command shares: outputs declared, checked and written, progress, the answer
    outcome.py        how every command ends: exit codes, one-line errors, warnings, --json
    wording.py        what the library says of its parameters, said of options
    options.py        shared options, and texts of the command line turned into columns and floors
    inputs.py         models from files, and their columns found in a table
    outputs.py        outputs checked before the long work
    progress.py       the watch that shows progress on a terminal, and is silent in a pipe
    completing.py     what `impute` writes, block by block
    cleaning.py       what `clean` writes, block by block
    recover_layer.py  the layer that `recover` is given
    fit.py  merge.py  check.py  info.py  sample.py  score.py  clean.py  impute.py  predict.py  factor.py  recover.py
    peel.py  simulate.py  demo.py  reproduce.py

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
