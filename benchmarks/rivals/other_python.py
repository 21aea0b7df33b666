"""Rivals that cannot live in this environment: tables go to a function in another Python, and tables come back."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unrelu.contracts import FloatArray

RUNNER = """
import sys, warnings
import numpy as np
warnings.simplefilter("ignore")
with np.load(sys.argv[1]) as given:
    tables = [given[str(k)] for k in range(len(given.files))]
np.savez(sys.argv[2], **{str(k): solve(table) for k, table in enumerate(tables)})
"""


def python_for(package: str, variable: str) -> str | None:
    """The Python that ``variable`` names, or this one; None, with the reason on stderr, where it lacks the package."""
    python = os.environ.get(variable, sys.executable)
    command = [python, "-c", f"import {package}"]
    if subprocess.run(command, capture_output=True, check=False, env=_alone()).returncode == 0:
        return python
    print(f"{package} is not installed; ${variable} may name a Python that has it: left out.", file=sys.stderr)
    return None


def answer(python: str, code: str, tables: Sequence[FloatArray]) -> list[FloatArray]:
    """``solve(table)`` of each table, where ``code`` defines it."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, **{str(k): table for k, table in enumerate(tables)})
        subprocess.run([python, "-W", "ignore", "-c", code + RUNNER, given, found], check=True, env=_alone())
        with np.load(found) as file:
            return [file[str(k)] for k in range(len(tables))]


def _alone() -> dict[str, str]:
    """The environment without the path of this tree."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
