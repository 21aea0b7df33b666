"""Every example in the README, and in pages of docs/ that have some, runs as printed."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unrelu.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
_PAGES = ("shapes.md", "imputation.md", "generators.md", "command_line.md", "networks.md")
PAGES = README + "".join((ROOT / "docs" / page).read_text() for page in _PAGES)
PYTHON = re.findall(r"```python\n(.*?)```", PAGES, re.DOTALL)
CONSOLE = re.findall(r"```console\n(.*?)```", PAGES, re.DOTALL)


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_examples(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


@pytest.mark.parametrize("script", CONSOLE, ids=range(len(CONSOLE)))
def test_console_examples(script, tmp_path, monkeypatch):
    """In this process: tests of the command line start the real program."""
    monkeypatch.chdir(tmp_path)
    lines = script.strip().splitlines()
    assert all(line.startswith("$ unrelu ") for line in lines)
    promised = set()
    for line in lines:
        arguments = shlex.split(line.removeprefix("$ unrelu "))
        promised |= {name for option, name in pairwise(arguments) if option in ("-o", "--truth")}
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{line}\n{done.stderr}"
    assert promised
    assert promised <= {path.name for path in tmp_path.iterdir()}


def test_the_opening_commands_exist():
    assert README.index("make demo") < README.index("make test") < README.index("```python")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "setup", "bench", "test-all"} <= set(targets)


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) >= 5
    assert [link for link in links if not (ROOT / link).exists()] == []
