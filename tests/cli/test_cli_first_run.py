"""The first run after an installation compiles, and says so; a run whose kernels are compiled does not."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "unrelu", "fit", "rows.csv", "--method", "one_pass"]


def drawn(cache: Path, *options: str) -> tuple[str, str]:
    """What a fit in a program of its own draws on its terminal, without the words' places, and what it prints."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "TERM": "xterm", "COLUMNS": "140"}
    pieces: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 10_000):
                pieces.append(piece)
        except OSError:  # how a terminal ends
            pass

    reader = threading.Thread(target=read)
    reader.start()
    result = subprocess.run([*COMMAND, *options], stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment)
    os.close(theirs)
    reader.join(20.0)
    os.close(ours)
    assert result.returncode == 0
    return b"".join(pieces).decode(errors="replace"), result.stdout


@pytest.mark.slow  # compiles every kernel of a fit
def test_a_first_run_says_that_it_compiles(table, tmp_path):
    first, printed = drawn(tmp_path / "cache")
    assert "Compiling" in first
    assert "once after an installation, for about" in first
    assert "Compiling" not in printed
    second, _ = drawn(tmp_path / "cache")
    assert "Learning" in second
    assert "Compiling" not in second


@pytest.mark.slow  # the same
def test_a_progress_in_python_hears_of_it_and_files_do_not(table, tmp_path):
    script = (
        "import sys, unrelu\nsteps = []\nX = unrelu.synthetic.random_model(3, random_state=0).sample(200, 1)\n"
        "unrelu.RectifiedGaussianLearner('one_pass').with_progress(lambda step: steps.append(step.stage)).fit(X)\n"
        "print('Compiling' in steps)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for expected in ("True\n", "False\n"):
        result = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
        )
        assert result.stdout == expected
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "another")
    result = subprocess.run([*COMMAND, "--json"], capture_output=True, text=True, env=environment, check=True)
    assert "Compiling" not in result.stdout + result.stderr
