"""The site's own tools: what is checked of built pages, and what is said of a missing extra. `make docs` builds it."""

from __future__ import annotations

import doctest
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_names import WIDEST

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def check_site():
    spec = importlib.util.spec_from_file_location("check_site", ROOT / "tools" / "check_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_example_is_true(check_site):
    assert doctest.testmod(check_site).failed == 0


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="#nowhere">', "a.html: no place #nowhere"),
        ('<a href="b.html#nowhere">', "a.html: no place b.html#nowhere"),
        ('<img src="gone.png">', "a.html: no file gone.png"),
        ('<script src="https://cdn.example/x.js"></script>', "a.html: loads https://cdn.example/x.js from a network"),
        ('<link rel="stylesheet" href="gone.css">', "a.html: no file gone.css"),
        ('<a href="b.html#there"><a href="https://example.org/x"><link rel="canonical" href="https://e.org">', None),
    ],
)
def test_faults_are_found(check_site, page, fault, tmp_path):
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<h2 id="there">')
    assert list(check_site.faults(tmp_path)) == ([] if fault is None else [fault])


def test_an_empty_folder_is_no_site(tmp_path):
    command = [sys.executable, str(ROOT / "tools" / "check_site.py"), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "no pages in" in result.stderr


def test_a_missing_extra_is_told_first(tmp_path):
    """With Sphinx, but without its theme."""
    pytest.importorskip("sphinx")
    hidden = "import sys, importlib.util as u; real = u.find_spec; "
    hidden += "u.find_spec = lambda name, *a: None if name == 'pydata_sphinx_theme' else real(name, *a); "
    hidden += f"from sphinx.cmd.build import main; sys.exit(main(['-q', {str(ROOT / 'docs')!r}, {str(tmp_path)!r}]))"
    result = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert result.stderr.startswith('The site needs pydata_sphinx_theme: pip install ".[docs]"')


EXAMPLES = """
import ast, doctest, json, sys
from pathlib import Path

sys.path.insert(0, "docs")
import conf

wide, broken, count = [], [], 0
for path in sorted(Path("src/unrelu").rglob("*.py")):
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) or not ast.get_docstring(node):
            continue
        lines = ast.get_docstring(node).splitlines()
        conf.readable(None, "", "", None, None, lines)
        shown = [line for line in lines if line.lstrip().startswith((">>> ", "... "))]
        wide += [line for line in shown if len(line) > conf.WIDEST]
        for example in doctest.DocTestParser().get_examples("\\n".join(lines)):
            count += 1
            try:
                compile(example.source, str(path), "single")
            except SyntaxError as error:
                broken.append(f"{path}: {error.text}")
print(json.dumps([count, wide, broken]))
"""


def test_examples_in_the_reference_fit_the_page_and_are_code():
    """Longer lines of docstrings are broken where the reference shows them; what results must still run."""
    pytest.importorskip("sphinx")
    result = subprocess.run([sys.executable, "-c", EXAMPLES], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    count, wide, broken = json.loads(result.stdout)
    assert count > 500
    assert wide == []
    assert broken == []


def test_the_site_breaks_lines_where_the_tests_of_pages_do():
    conf = (ROOT / "docs" / "conf.py").read_text()
    assert f"WIDEST = {WIDEST}  #" in conf
    assert f"line-length = {WIDEST}\n" in (ROOT / "docs" / "ruff.toml").read_text()
