"""Helpers that run the command line in this process, or as the real program."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unrelu
from tests.references.commands import invoke
from unrelu.cli.app import app

COMMAND = [sys.executable, "-m", "unrelu"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Callable[..., Any]:
    """Run a command in this process."""
    return invoke


@pytest.fixture
def program(folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real program."""

    def start(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
        given = {"capture_output": True} if "stdout" not in options else {"stderr": subprocess.PIPE}
        command = [*COMMAND, *map(str, args)]
        return subprocess.run(command, text=True, timeout=120, **given, **options)

    return start


@pytest.fixture
def on_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, str]]:
    """Run a command in this process with standard error on a terminal: what was drawn there, what was printed."""

    def read(terminal: int, drawn: bytearray) -> None:  # meanwhile: the writer waits for a terminal that is full
        with contextlib.suppress(OSError):  # how a terminal ends
            while piece := os.read(terminal, 10_000):
                drawn.extend(piece)

    def start(*args: object) -> tuple[str, str]:
        ours, theirs = pty.openpty()
        drawn = bytearray()
        reader = threading.Thread(target=read, args=(ours, drawn))
        reader.start()
        with os.fdopen(theirs, "w") as screen, monkeypatch.context() as patch:
            patch.setenv("TERM", "xterm")
            patch.setenv("COLUMNS", "140")
            patch.setattr(sys, "stderr", screen)
            with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as end:
                app([str(arg) for arg in args])
        reader.join(20.0)
        os.close(ours)
        assert end.value.code == 0
        return drawn.decode(errors="replace"), printed.getvalue()

    return start


@pytest.fixture(scope="session")
def truth() -> unrelu.RectifiedGaussian:
    model = unrelu.synthetic.random_model(3, condition_number=5.0, random_state=0)
    return unrelu.RectifiedGaussian(model.mean, model.covariance, feature_names=["As", "Pb", "Fe"])


@pytest.fixture(scope="session")
def rows(truth: unrelu.RectifiedGaussian) -> np.ndarray:
    drawn = truth.sample(3000, random_state=1)
    drawn.flags.writeable = False  # many tests look at them
    return drawn


@pytest.fixture
def table(folder: Path, rows: np.ndarray) -> Path:
    """The rows as a csv file."""
    from unrelu.tables import write_table

    path = folder / "rows.csv"
    write_table(path, rows, ["As", "Pb", "Fe"])
    return path


@pytest.fixture(scope="session")
def skewed_rows() -> np.ndarray:
    """Logs above .5, a shifted power with zeros, counts: what margins are for."""
    y = np.random.default_rng(3).multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), size=800)
    columns = np.exp(y[:, 0]), np.expm1(y[:, 1]), np.round(np.exp(1.0 + y[:, 2]) - 1.0)
    drawn = np.maximum(np.column_stack(columns), [0.5, 0.0, 0.0])
    drawn.flags.writeable = False
    return drawn


@pytest.fixture
def skewed(folder: Path, skewed_rows: np.ndarray) -> Path:
    """The same as a csv file."""
    from unrelu.tables import write_table

    write_table(folder / "skewed.csv", skewed_rows, ["As", "rain", "count"])
    return folder / "skewed.csv"


@pytest.fixture
def model(folder: Path, truth: unrelu.RectifiedGaussian) -> Path:
    """The true model as a file."""
    path = folder / "truth.npz"
    truth.save(path)
    return path


@pytest.fixture
def refused(folder: Path) -> Callable[..., str]:
    """Check that a result is a clean refusal, with nothing left behind, and give its one line."""
    before: set[str] = set()

    def check(result: Any, allowed: set[str] | None = None) -> str:
        code = result.returncode if hasattr(result, "returncode") else result.exit_code
        assert code == 2, (result.stdout, result.stderr)
        lines = [line for line in result.stderr.splitlines() if not line.startswith("Warning: ")]
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("Error: ")
        assert "Traceback" not in result.stderr
        assert not result.stdout
        left = {name for name in os.listdir(folder) if name.endswith(".part") or name == "out.npz"}
        assert left == (allowed or before)
        return lines[0]

    return check
