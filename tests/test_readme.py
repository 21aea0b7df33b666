"""Every example in the README, and in pages of docs/ that have some, runs as printed."""

import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from tests.references.commands import invoke

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
# Not run as they are: pieces that begin in the middle, a cluster's address, and the entries of tests/docs.
_NOT_RUN = ("check.md", "scale.md", "troubleshooting.md")
PAGES = {"README.md": README, **{path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}}


def examples(language: str) -> list[object]:
    """Every block of that language, named by page and number."""
    found = []
    for name, text in PAGES.items():
        if name not in _NOT_RUN:
            blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
            found += [pytest.param(code, id=f"{name} {number}") for number, code in enumerate(blocks)]
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty one but for the table that examples speak of."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "samples.csv", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("code", examples("python"))
def test_python_examples(code, folder):
    exec(compile(code, "README.md", "exec"), {})


@pytest.mark.parametrize("script", examples("console"))
def test_console_examples(script, folder):
    """In this process: tests of the command line start the real program."""
    lines = script.strip().splitlines()
    assert all(line.startswith("$ unrelu ") for line in lines)
    promised = set()
    for line in lines:
        arguments = shlex.split(line.removeprefix("$ unrelu "))
        promised |= {name for option, name in pairwise(arguments) if option in ("-o", "--truth")}
        done = invoke(*arguments)
        assert done.exit_code == 0, f"{line}\n{done.stderr}"
    assert promised
    assert promised <= {path.name for path in folder.iterdir()}


def test_the_opening_commands_exist():
    assert README.index("make demo") < README.index("make test") < README.index("```python")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "setup", "bench", "docs", "test-all"} <= set(targets)


def test_the_readme_is_short_and_says_what_the_field_says():
    assert README.count("\n") <= 105  # two screens: what it is, who calls what, an example each, figures, where not
    assert README.count("![") == 1


@pytest.mark.parametrize("page", ["README.md", "getting_started.md"])
def test_first_pages_have_the_words_that_people_search_for(page):
    words = "left-censored", "non-detect", "detection limit", "Tobit", "Gaussian copula", "multiple imputation"
    text = " ".join(PAGES[page].replace("**", "").split())
    assert [word for word in (*words, "missing not at random") if word not in text] == []
