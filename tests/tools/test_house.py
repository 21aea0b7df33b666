"""The tool that counts the package: the faults that it finds in a small package."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path):
    """A tree without faults."""
    source = tmp_path / "src" / "unrelu"
    source.mkdir(parents=True)
    (source / "a.py").write_text('"""One."""\n')
    (tmp_path / "docs").mkdir()
    for page in ("CONTRIBUTING.md", "docs/papers.md", "docs/architecture.md"):
        (tmp_path / page).write_text("See `a.py`.\n")
    return tmp_path


def test_its_examples_are_true(house):
    assert doctest.testmod(house).failed == 0


def test_a_package_without_faults(house, package):
    assert list(house.faults(package)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"""One."""\n' + "x = 1\n" * 600, ": 601 lines, at most 600 are wanted"),
        ("x = 1\n", ":1: no docstring that says what it is for"),
        ('"""One."""\n\n\ndef f():\n' + "    x = 1\n" * 61, ":4: the body of f has 61 lines, at most 60 are wanted"),
        (
            '"""One."""\n\n\ndef f(learner):\n    return learner._record\n',
            ":5: takes _record, which is private to another module",
        ),
    ],
)
def test_faults_of_a_module_are_found(house, package, text, fault):
    (package / "src" / "unrelu" / "b.py").write_text(text)
    assert list(house.faults(package)) == [f"src/unrelu/b.py{fault}"]


def test_faults_of_the_whole_are_found(house, package, monkeypatch):
    monkeypatch.setattr(house, "MOST_IN_ALL", 0)
    (package / "docs" / "papers.md").write_text("`gone.py`, `robust/`, `a.py`\n")
    whole, *pages = house.faults(package)
    assert whole == "src/unrelu without papers/: 1 lines, at most 0 are wanted; remove some first"
    assert pages == [f"docs/papers.md: names {name}, which is not there" for name in ("gone.py", "robust/")]


def test_links_and_pages_that_are_gone_are_found(house, package):
    (package / "docs" / "papers.md").write_text(
        "[a](../CONTRIBUTING.md#x) [b](gone.md) [c](https://example.org) [d](#e)\n"
    )
    (package / "docs" / "research").mkdir()
    (package / "docs" / "research" / "011-why.md").write_text("[up](../papers.md) [b](gone.md)\n")
    text = '"""Why: docs/research/011, docs/papers.md, docs/research/012, docs/gone.md."""\n'
    (package / "src" / "unrelu" / "b.py").write_text(text)
    assert list(house.faults(package)) == [
        "docs/papers.md: no file gone.md",
        "docs/research/011-why.md: no file gone.md",
        "src/unrelu/b.py: no page docs/gone.md",
        "src/unrelu/b.py: no page docs/research/012",
    ]


def test_names_of_a_class_and_its_base_are_its_own(house):
    own = "class A:\n    def f(self, other):\n        self._x = other._x\n        return super()._y"
    assert list(house.borrowed(ast.parse(own))) == []


def test_lines_are_counted_by_package(house):
    assert house.by_package({"a.py": "x\n", "b/c.py": "x\ny\n", "b/d/e.py": "x\n"}) == {"(top level)": 1, "b/": 3}


def test_visits_are_counted_in_all_threads_and_nowhere_else(house, tmp_path):
    (tmp_path / "a.py").write_text("def f(call):\n    return g(call)\n\n\ndef g(call):\n    return call()\n")
    (tmp_path / "b.py").write_text("def h():\n    return [x for x in range(3)]\n")
    spaces = {}
    for name in ("a", "b"):
        path = tmp_path / f"{name}.py"
        exec(compile(path.read_text(), str(path), "exec"), spaces)

    def in_thread():
        worker = threading.Thread(target=spaces["h"])
        worker.start()
        worker.join()

    assert house.visits(lambda: spaces["f"](in_thread), tmp_path) == (2, 3, 2)


def test_history_has_one_row_for_a_commit(house, tmp_path, monkeypatch):
    class Done:
        stdout = "abc1234\n"

    monkeypatch.setattr(house.subprocess, "run", lambda *_, **__: Done)
    monkeypatch.setattr(house, "modules", lambda _: {"a.py": "class A:\n    x = 1\n"})
    history = tmp_path / "history.csv"
    history.write_text("date,commit,files,lines,classes\n")
    house.record(history)
    assert history.read_text().splitlines()[1].endswith(",abc1234,1,2,1")
    with pytest.raises(SystemExit, match="has a row for abc1234"):
        house.record(history)
    assert len(history.read_text().splitlines()) == 2
