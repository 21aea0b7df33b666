"""The commands as a whole: --help by task, shell completion, ``python -m unrelu``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unrelu
from unrelu.cli.app import TASKS, app

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
COMMANDS = [body.__name__ for bodies in TASKS.values() for body in bodies]


def test_help_lists_every_command_under_its_task(run):
    shown = run("--help").stdout
    places = [shown.index(f"\n{task}:\n") for task in TASKS]
    assert places == sorted(places)
    for (_, bodies), start, end in zip(TASKS.items(), places, [*places[1:], len(shown)], strict=True):
        listed = re.findall(r"^  (\w+)  ", shown[start:end], re.MULTILINE)
        assert listed == [body.__name__ for body in bodies]
    assert len(COMMANDS) == len(set(COMMANDS)) == len(app.registered_commands)


def test_the_page_of_the_command_line_names_every_task_and_command():
    for task, bodies in TASKS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| {task} |"))
        assert re.findall(r"`(\w+)`", row.split("|")[2]) == [body.__name__ for body in bodies]


def test_python_m_unrelu_is_the_command(tmp_path):
    command = [sys.executable, "-m", "unrelu", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert result.stdout == f"unrelu {unrelu.__version__}\n"


def test_python_m_unrelu_without_the_extra_says_how_to_install_it(tmp_path):
    script = "import runpy, sys; sys.modules['typer'] = None; runpy.run_module('unrelu', run_name='__main__')"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == 'Error: the command line needs typer: pip install "unrelu[cli]".\n'


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("unrelu im", "impute"),
        ("unrelu fit --floor-", "--floor-tolerance"),
        ("unrelu fit --help-", "--help-all"),
        ("unrelu re", "report\nrecover\nread\nreproduce"),
    ],
)
def test_the_shell_completes_commands_and_options(words, wanted, tmp_path):
    completion = {"_UNRELU_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    command = [os.path.join(os.path.dirname(sys.executable), "unrelu")]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=tmp_path, env={**os.environ, **completion}
    )
    assert result.stdout.strip() == wanted


def test_the_page_says_how_to_switch_completion_on():
    assert "unrelu --install-completion" in PAGE
