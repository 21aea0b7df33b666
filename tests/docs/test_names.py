"""What pages mention is there: commands, options, names, parameters, files, targets; and their lines of code fit.

The changelog tells of earlier names, and research notes of those of their day: both are left out. Where links lead
`tools/house.py` and `tools/check_site.py` see to, and `tests/test_readme.py` runs the examples.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401

import unrelu
from benchmarks.__main__ import NAMES
from tests.references.commands import app, built
from unrelu import errors, methods
from unrelu.checks.fit_check import FitCheck

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "unrelu"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
WIDEST = 84  # characters of a line of code that the site shows without a bar to scroll by
FENCE = re.compile(r"^```[^\n]*\n.*?^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FILE = re.compile(r"[\w./*-]*(?:/|\.(?:py|md|csv|tsv|png|npz|npy|html|json|toml|parquet|feather|xlsx|gz|zip|graphml))")
every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


def spans(page: str) -> list[str]:
    """What a page shows as code within its sentences and tables."""
    return SPAN.findall(FENCE.sub("", page).replace("\\|", "|"))


def code(page: str) -> Iterator[str]:
    """The lines of its fenced and indented blocks."""
    inside = False
    for line in page.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside or line.startswith("    "):
            yield line if inside else line[4:]


# --- lines of code ----------------------------------------------------------------------------------


@every_page
def test_lines_of_code_fit(page):
    assert [line for line in code(page) if len(line) > WIDEST] == []


def test_lines_of_code_are_found():
    assert list(code("Words.\n\n    indented\n\n```python\nfenced\n```\n\nMore words.\n")) == ["indented", "fenced"]
    assert sum(1 for page in PAGES.values() for _ in code(page)) > 500


# --- commands ---------------------------------------------------------------------------------------


@functools.cache
def options() -> dict[str, set[str]]:
    """The options of every command, and under '' those of the program itself."""
    program = built(app)
    groups = {"": program, **program.commands}
    return {
        name: {
            "--help",
            "--help-all",
            *(option for each in group.params for option in (*each.opts, *each.secondary_opts)),
        }
        for name, group in groups.items()
    }


def commands(page: str) -> list[str]:
    """What a page has its reader type, and the options that it mentions by themselves."""
    typed = [re.split(r"\s+#\s", line.removeprefix("$ "))[0] for line in code(page)]
    return [
        *(line for line in typed if line.startswith("unrelu ")),
        *(span for span in spans(page) if re.match(r"unrelu [a-z-]|--[a-z]", span)),
    ]


def wrong_command(text: str) -> str | None:
    words = shlex.split(text)
    used = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    if words[0] != "unrelu":
        return next(
            (f"no command has {each}" for each in used if all(each not in of for of in options().values())), None
        )
    command = "" if words[1].startswith("-") else words[1]
    if command not in options():
        return f"no command {command}"
    return next((f"{command} has no {each}" for each in used if each not in options()[command]), None)


@every_page
def test_commands_and_options_are_there(page):
    assert [f"{text}: {fault}" for text in commands(page) if (fault := wrong_command(text))] == []


@pytest.mark.parametrize(
    ("page", "faults"),
    [
        ("    unrelu fit rows.csv --shape log   # no more\n", ["fit has no --shape"]),
        ("```console\n$ unrelu network rows.csv\n```\n", ["no command network"]),
        ("Say `--beyond-rnage`, or `unrelu fit --method robust`.\n", ["no command has --beyond-rnage"]),
        ("Say `--limits highest`, or `unrelu --version`.\n", []),
    ],
)
def test_wrong_commands_are_found(page, faults):
    assert [fault for text in commands(page) if (fault := wrong_command(text))] == faults


# --- names ------------------------------------------------------------------------------------------

# What pages call an object, and its class.
CALLED = {
    "check": "FitCheck",
    "detector": "FloorOutlierDetector",
    "graph": "RectifiedGaussianGraph",
    "imputer": "FloorImputer",
    "learner": "RectifiedGaussianLearner",
    "mixture": "RectifiedGaussianMixture",
    "model": "RectifiedGaussian",
    "peeled": "Peeled",
    "recovery": "ReLUMatrixRecovery",
}
VALUES = {
    "margins": {"auto", "normal", "log", "boxcox", "monotone"},
    "method": {*methods.method_names(), "censored_als", "tobit_em", "lasso", "facets", "separable"},
}
KINDS = {kind for kinds in errors.KINDS.values() for kind in kinds}
# Of other packages: parameters that pages mention, and modules whose names they mention.
OF_OTHERS = {"array_api_dispatch", "parallel", "site", "year"}
OTHERS = (
    "numpy",
    "pandas",
    "scipy.sparse",
    "sklearn",
    "sklearn.covariance",
    "sklearn.impute",
    "sklearn.model_selection",
)


@functools.cache
def identifiers() -> frozenset[str]:
    """Every name that the package's own code uses or defines."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            found |= {getattr(node, field) for field in ("id", "attr", "arg", "name") if hasattr(node, field)}
    return frozenset(str(each) for each in found)


@functools.cache
def parameters() -> frozenset[str]:
    """The parameters of everything public."""
    modules = [unrelu, *(getattr(unrelu, name) for name in unrelu.__all__ if inspect.ismodule(getattr(unrelu, name)))]
    things = [
        getattr(of, name) for of in modules for name in getattr(of, "__all__", dir(of)) if not name.startswith("_")
    ]
    members = [getattr(thing, name) for thing in things if inspect.isclass(thing) for name in dir(thing)]
    found: set[str] = set()
    for each in filter(callable, [*things, *members]):
        try:
            found |= set(inspect.signature(each).parameters)
        except (TypeError, ValueError):  # of C
            continue
    return frozenset(found)


@functools.cache
def members(name: str) -> frozenset[str]:
    """What objects of a class have: in the class, and what its methods and those of its bases set."""
    kind = getattr(unrelu, name, None) or FitCheck
    found = set(dir(kind))
    for base in inspect.getmro(kind):
        if base.__module__.startswith("unrelu"):
            text = inspect.getsource(base)
            found |= set(re.findall(r"self\.(\w+)", text)) | set(re.findall(r"^    (\w+):", text, re.MULTILINE))
    return frozenset(found)


@functools.cache
def known_elsewhere(name: str) -> bool:
    """Is it a name of a package that pages speak of?"""
    return any(hasattr(importlib.import_module(of), name) for of in OTHERS)


def resolves(dotted: str) -> bool:
    """Does ``unrelu.a.b`` lead somewhere?"""
    thing: object = unrelu
    for k, part in enumerate(parts := dotted.split(".")[1:], 1):
        if not hasattr(thing, part):
            if importlib.util.find_spec(".".join(["unrelu", *parts[:k]])) is None:
                return False
            importlib.import_module(".".join(["unrelu", *parts[:k]]))
        thing = getattr(thing, part)
    return True


def wrong_names(span: str) -> Iterator[str]:
    """What of a span of code is not there: dotted names, classes, members, parameters, values."""
    if re.match(r"unrelu |--|@", span) or FILE.fullmatch(span):
        return  # commands, options, decorators and files
    for dotted in re.findall(r"\bunrelu(?:\.\w+)+", span):
        if not resolves(dotted):
            yield dotted
    for name, value in re.findall(r"(?<![\w.])([a-z_]\w*)=(?!=)(?:\"(\w+)\")?", span):
        if name not in parameters() | OF_OTHERS:
            yield f"{name}="
        elif value and value not in VALUES.get(name, {value}):
            yield f'{name}="{value}"'
    bare = re.sub(r"\"[^\"]*\"", "", span)
    for name in set(re.findall(r"(?<![\w.])[A-Z][a-z]\w*(?=\(|$)", bare)) - {"True", "False", "None"}:
        if not (name in identifiers() or known_elsewhere(name)):
            yield name
    for of, name in re.findall(r"\b([a-z]+)\.([a-z]\w*)", bare):
        if of in CALLED and name not in members(CALLED[of]):
            yield f"{of}.{name}"
    for name in re.findall(r"\b[a-z]\w*_(?![\w*])", bare):
        if name not in identifiers():
            yield name
    if re.fullmatch(r"[a-z]+(-[a-z]+)+", span) and span not in KINDS:
        yield span


@every_page
def test_names_are_there(page):
    assert [f"{span}: no {name}" for span in spans(page) for name in wrong_names(span)] == []
    # Not all blocks are run: those that need a cluster or a GPU, and pieces, are not.
    assert [
        f"{line}: no {name}" for line in code(page) for name in wrong_names(line) if name.startswith("unrelu.")
    ] == []


@pytest.mark.parametrize(
    ("span", "wrong"),
    [
        ("unrelu.samples.open_samples(path)", ["unrelu.samples.open_samples"]),
        ("RectifiedGaussianNetwork()", ["RectifiedGaussianNetwork"]),
        ("learner.report", ["learner.report"]),
        ("model.score_rows(X)", ["model.score_rows"]),
        ("row_norms_", ["row_norms_"]),
        ('RectifiedGaussianLearner(shape="log")', ["shape="]),
        ('margins="free"', ['margins="free"']),
        ("heavy-tail", ["heavy-tail"]),
        ('unrelu.tables.open_samples(where=), MinCovDet().fit(X), learner.mean_, "min", heavy-tails', []),
    ],
)
def test_wrong_names_are_found(span, wrong):
    assert list(wrong_names(span)) == wrong


# --- files, targets, benchmarks ---------------------------------------------------------------------


def benchmark_is_there(module: str, name: str) -> bool:
    """``python -m benchmarks NAME``, or ``python -m benchmarks.MODULE [STUDY]``."""
    if module == "benchmarks":
        return name in ("", *NAMES)
    found = importlib.util.find_spec(module) is not None
    return found and (not name or name in importlib.import_module(module).STUDIES)


def wrong_places(page: str) -> Iterator[str]:
    """Files, targets of make, benchmarks and scripts that are not there."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = [*spans(page), *code(page)]
    for text in shown:
        if (made := re.match(r"make ([a-z-]+)", text)) and made[1] not in targets:
            yield made[0]
        if (ran := re.search(r"python -m (benchmarks[\w.]*)(?: ([a-z_]+)\b(?!\.))?", text)) and not benchmark_is_there(
            ran[1], ran[2] or ""
        ):
            yield ran[0]
        if (ran := re.search(r"python ((?:examples|tools|docs)/\S+\.py)", text)) and not (ROOT / ran[1]).exists():
            yield ran[0]
    files = {path.name for folder in (SOURCE, ROOT / "docs") for path in folder.rglob("*.*")}
    for span in spans(page):
        if re.fullmatch(r"[\w./-]+(?:\.py|\.md|\.toml|\w/)", span):
            bases = (ROOT, ROOT / "docs", SOURCE)
            if not (span in files or any((base / span).exists() for base in bases)):
                yield span


@every_page
def test_files_and_targets_are_there(page):
    assert list(wrong_places(page)) == []


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("Run `make documents`.\n", ["make documents"]),
        ("By `python -m benchmarks networks`.\n", ["python -m benchmarks networks"]),
        ("    python -m benchmarks.scale clusters\n", ["python -m benchmarks.scale clusters"]),
        ("    python examples/gone.py picture.png\n", ["python examples/gone.py"]),
        ("See `fit/pairs.py` and `samples/`.\n", ["fit/pairs.py", "samples/"]),
        ("`make docs`, `python -m benchmarks.scale cluster`, `fit/one_pass.py`, `one_pass.py`, `kernels/`\n", []),
    ],
)
def test_wrong_places_are_found(page, wrong):
    assert list(wrong_places(page)) == wrong
