"""How commands start and end: imports, exit codes, interruptions, progress."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import pytest

import unrelu
from unrelu.cli import main
from unrelu.validation import warn_together

HEAVY = {"numpy", "scipy", "numba", "sklearn", "pyarrow", "matplotlib", "pandas"}


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(folder, arguments):
    script = (
        "import sys\nfrom unrelu.cli import main\n"
        f"sys.argv = ['unrelu', *{arguments!r}]\n"
        "try:\n    main()\nfinally:\n    sys.stderr.write(' '.join(sys.modules))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    assert result.stdout
    assert not HEAVY & set(result.stderr.split())


def test_the_installed_command_answers(folder):
    command = os.path.join(os.path.dirname(sys.executable), "unrelu")
    result = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60)
    assert result.stdout == f"unrelu {unrelu.__version__}\n"


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_line_says_how_to_install_it(folder, missing):
    script = f"import sys; sys.modules[{missing!r}] = None; from unrelu.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert 'pip install "unrelu[cli]"' in result.stderr


def _fail(*_: object, **__: object) -> None:
    warnings.warn("two\nlines", unrelu.errors.UnreluWarning, stacklevel=1)
    raise ZeroDivisionError("of a kind\nnobody expected")


def test_an_internal_error_is_one_line(run, model, monkeypatch):
    import unrelu.storage.format

    monkeypatch.setattr(unrelu.storage.format, "read_header", _fail)
    result = run("info", model, "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "Warning: two lines\n"
        "Internal error: ZeroDivisionError: of a kind nobody expected; please report it;"
        " set UNRELU_DEBUG=1 for the traceback\n"
    )
    monkeypatch.setenv("UNRELU_DEBUG", "1")
    result = run("info", model)
    assert result.exit_code == 1
    assert "Traceback" in result.stderr


def test_too_little_memory_is_one_line(run, refused, model, monkeypatch):
    import unrelu.model
    import unrelu.storage.format

    def exhausted(*_: object) -> None:
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(unrelu.storage.format, "read_header", exhausted)
    assert refused(run("info", model)) == "Error: Not enough memory. Unable to allocate 9 TiB"


def test_warnings_of_other_libraries_are_not_shown(run, model, monkeypatch):
    import unrelu.storage.format

    original = unrelu.storage.format.read_header

    def noisy(*given_args: Any) -> object:
        warnings.warn("internal noise", DeprecationWarning, stacklevel=1)
        return original(*given_args)

    monkeypatch.setattr(unrelu.storage.format, "read_header", noisy)
    assert run("info", model).stderr == ""


def test_a_warning_of_several_findings_has_a_line_for_each(run, model, monkeypatch):
    import unrelu.storage.format

    original = unrelu.storage.format.read_header

    def doubtful(*given_args: Any) -> object:
        warn_together([("Columns are skewed: floor='min'.", "skewed"), ("Ties.", "ties")])
        return original(*given_args)

    monkeypatch.setattr(unrelu.storage.format, "read_header", doubtful)
    lines = ["Columns are skewed: --floor min. [skewed]", "Ties. [ties]"]
    assert run("info", model).stderr == "".join(f"Warning: {line}\n" for line in lines)
    assert json.loads(run("info", model, "--json").stdout)["warnings"] == lines


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [(signal.SIGINT, 130, "Interrupted: nothing half-written is left.\n"), (signal.SIGTERM, 143, "Terminated.\n")],
)
def test_a_signal_ends_the_program_and_leaves_nothing(folder, model, number, code, line):
    command = [sys.executable, "-m", "unrelu", "sample", str(model), "-n", "500000000", "-o", "rows.csv"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not any(p.name.endswith(".part") and p.stat().st_size > 2e6 for p in folder.iterdir()):
            assert time.monotonic() < deadline, "nothing is being written"
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()  # where that went wrong, it would write until the disk is full
    assert process.returncode == code
    assert err == line
    assert out == ""
    assert os.listdir(folder) == [model.name]


def test_progress_is_drawn_on_a_terminal_only(run, on_terminal, table):
    command = ("fit", table, "--method", "one_pass", "-o", "out.npz")
    assert run(*command).stderr == ""
    drawn, printed = on_terminal(*command)
    assert "Learning" in drawn
    assert "Learning" not in printed
    assert "out.npz" in printed


def test_text_that_the_terminal_lacks_is_replaced(folder, table, monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        patch.setattr(sys, "argv", ["unrelu", "fit", str(table), "--method", "one_pass", "-o", "out.npz"])
        patch.setattr(signal, "signal", lambda number, action: None)  # this process keeps its own
        with pytest.raises(SystemExit) as end:
            main()
    assert end.value.code == 0
    assert b"?" in terminal.buffer.getvalue()
