"""``python tools/house.py``: how large the package is, how far its calls run, and whether it keeps to its bounds.

    python tools/house.py            counts: files, lines, classes, functions, lengths, lines by package
    python tools/house.py --visits   files and functions that six calls pass through, warm, on a table of 2,000 x 5
    python tools/house.py --check    exit 1, a line for each bound or rule that is broken; ``make lint`` runs it
    python tools/house.py --record   appends today's counts to docs/research/house_history.csv

The bounds are limits, not goals: a file of 600 lines that reads well is fine, and so is one of 40.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "unrelu"
HISTORY = ROOT / "docs" / "research" / "house_history.csv"
MOST_LINES, MOST_BODY, MOST_IN_ALL = 600, 60, 52_500  # of a file, of a function's body, of all files but the papers'
PAGES = ("CONTRIBUTING.md", "docs/papers.md", "docs/architecture.md")  # pages whose files must be there
COMPREHENSIONS = ("<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # run, but nobody opens them

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(folder: Path) -> dict[str, str]:
    """The text of every module below a folder, by its path."""
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.py"))}


# --- counts -----------------------------------------------------------------------------------------------------------
def body_lines(node: Function) -> int:
    """Lines of a function's body without its docstring.

    >>> body_lines(ast.parse("def f(x):\\n    'Doubled.'\\n    y = x\\n\\n    return y + x").body[0])
    3
    """
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def is_dataclass(node: ast.ClassDef) -> bool:
    """Is a class made by ``@dataclass``, with or without arguments?"""
    made_by = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return any(getattr(each, "id", getattr(each, "attr", None)) == "dataclass" for each in made_by)


def docstring_lines(tree: ast.AST) -> int:
    """Lines of all docstrings in a tree."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    told = [node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and ast.get_docstring(node) is not None]
    return sum((each.end_lineno or 0) - each.lineno + 1 for each in told)


def counts(texts: dict[str, str]) -> dict[str, float]:
    """What there is, by name.

    >>> text = 'class A:\\n    # A remark.\\n    def f(self):\\n        return 1\\n'
    >>> found = counts({"a.py": text})
    >>> [found[name] for name in ("files", "lines", "classes", "functions", "comment lines, %")]
    [1, 4, 1, 1, 25.0]
    """
    trees = [ast.parse(text) for text in texts.values()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    functions = [node for node in nodes if isinstance(node, Function)]
    lengths = sorted(text.count("\n") for text in texts.values())
    lines = [line for text in texts.values() for line in text.splitlines() if line.strip()]
    comments = sum(line.lstrip().startswith("#") for line in lines)
    return {
        "files": len(texts),
        "lines": sum(lengths),
        "classes": len(classes),
        "dataclasses": sum(map(is_dataclass, classes)),
        "functions": len(functions),
        "file length, median": statistics.median(lengths),
        "file length, 90 %": lengths[int(0.9 * len(lengths))],
        "file length, most": lengths[-1],
        "line length, median": statistics.median(map(len, lines)),
        "comment lines, %": round(100.0 * comments / len(lines), 1),
        "docstring lines, %": round(100.0 * sum(map(docstring_lines, trees)) / sum(lengths), 1),
        f"bodies over {MOST_BODY} lines": sum(body_lines(node) > MOST_BODY for node in functions),
    }


def by_package(texts: dict[str, str]) -> Counter[str]:
    """Lines of every package, and of the modules that are in none."""
    lines: Counter[str] = Counter()
    for name, text in texts.items():
        lines[name.split("/")[0] + "/" if "/" in name else "(top level)"] += text.count("\n")
    return lines


# --- bounds and rules -------------------------------------------------------------------------------------------------
def faults(root: Path) -> Iterator[str]:
    """What breaks a bound or a rule, a line each."""
    source = root / "src" / "unrelu"
    texts = modules(source)
    for name, text in texts.items():
        yield from (f"src/unrelu/{name}{fault}" for fault in faults_of(name, text))
    in_all = sum(text.count("\n") for name, text in texts.items() if not name.startswith("papers/"))
    if in_all > MOST_IN_ALL:
        yield f"src/unrelu without papers/: {in_all:,} lines, at most {MOST_IN_ALL:,} are wanted; remove some first"
    for page in PAGES:
        yield from (f"{page}: names {name}, which is not there" for name in gone_files(root, page))
    for page in sorted([*root.glob("*.md"), *(root / "docs").glob("*.md"), *(root / "docs" / "research").glob("*.md")]):
        told = page.relative_to(root).as_posix()
        yield from (f"{told}: no file {link}" for link in gone_links(page))
    for name, text in texts.items():
        yield from (f"src/unrelu/{name}: no page {page}" for page in gone_pages(root, text))


def faults_of(name: str, text: str) -> Iterator[str]:
    """What is wrong with one module, each from behind its path.

    >>> list(faults_of("a.py", "from unrelu.storage.format import _packed"))
    [':1: no docstring that says what it is for', ':1: takes _packed, which is private to another module']
    """
    tree = ast.parse(text)
    if (lines := text.count("\n")) > MOST_LINES:
        yield f": {lines} lines, at most {MOST_LINES} are wanted"
    if not ast.get_docstring(tree) and name != "_version.py":
        yield ":1: no docstring that says what it is for"
    for node in ast.walk(tree):
        if isinstance(node, Function) and (lines := body_lines(node)) > MOST_BODY:
            yield f":{node.lineno}: the body of {node.name} has {lines} lines, at most {MOST_BODY} are wanted"
    for line, private_name in borrowed(tree):
        yield f":{line}: takes {private_name}, which is private to another module"


def gone_files(root: Path, page: str) -> list[str]:
    """Files in a page's code quotes that are nowhere: paths from the root, the package or the tests, or bare names."""
    source, tests = root / "src" / "unrelu", root / "tests"
    every = {path.name for place in (source, tests, root / "benchmarks") for path in place.rglob("*.py")}
    named = re.findall(r"`([\w/]+(?:\.py|\.md|/))`", (root / page).read_text())
    there = [name for name in named if any((place / name).exists() for place in (root, source, tests))]
    return sorted({name for name in named if name not in there and ("/" in name or name not in every)})


def gone_links(page: Path) -> list[str]:
    """Links of a page to files that are nowhere; those of the built site are checked by ``make docs``."""
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    return sorted({link for link in links if not (page.parent / link).exists()})


def gone_pages(root: Path, text: str) -> list[str]:
    """Pages of docs/ that a module speaks of and that are nowhere; docs/research/011 is the one with that number."""
    named = set(re.findall(r"\bdocs/[\w/-]+(?:\.[a-z]+)?", text))
    return sorted(name for name in named if not any(root.glob(f"{name}*")))


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.AST) -> set[str]:
    """Everything that a module defines or assigns, as a name or an attribute."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def borrowed(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Private names of other modules that a module imports or reaches for, with their lines."""
    own = own_names(tree) | {"_getframe"}  # sys._getframe is documented
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unrelu"):
            taken = [alias.name for alias in node.names if private(alias.name) and alias.name != "_version"]
            yield from ((node.lineno, name) for name in taken)
        elif isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            whose = node.value
            of_itself = isinstance(whose, ast.Name) and whose.id in ("self", "cls")
            of_its_base = isinstance(whose, ast.Call) and isinstance(whose.func, ast.Name) and whose.func.id == "super"
            if not (of_itself or of_its_base):
                yield node.lineno, node.attr


# --- visits -----------------------------------------------------------------------------------------------------------
def visits(call: Callable[[], Any], folder: Path = SOURCE) -> tuple[int, int, int]:
    """Files and functions of ours that a call passes through, in all threads that it starts, and how deep they nest.

    The call is made once before it is looked at, so that imports, compiling and caches are not counted.
    """
    own = str(folder)
    seen: set[CodeType] = set()
    deepest = 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal deepest
        if event != "call" or not frame.f_code.co_filename.startswith(own):
            return
        if frame.f_code not in seen:
            depth, above = 0, frame
            while above is not None:
                depth, above = depth + above.f_code.co_filename.startswith(own), above.f_back
            deepest = max(deepest, depth)
        seen.add(frame.f_code)

    call()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    functions = [code for code in seen if code.co_name not in COMPREHENSIONS]
    return len({code.co_filename for code in functions}), len(functions), deepest


def six_calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """What users call most, on a table of 2,000 x 5, and on a network's outputs for ``peel``."""
    import numpy as np
    from typer.testing import CliRunner

    import unrelu
    from unrelu.cli.app import app

    X = unrelu.synthetic.random_model(5, condition_number=10.0, random_state=0).sample(2000, random_state=1)
    rng = np.random.default_rng(4)
    hidden = np.maximum(rng.standard_normal((2000, 2)) @ rng.standard_normal((2, 2)) + 0.2, 0.0)
    outputs = np.maximum(hidden @ rng.standard_normal((2, 5)) + 0.5, 0.0)
    table = folder / "rows.csv"
    np.savetxt(table, X, delimiter=",", header="a,b,c,d,e", comments="")

    def command(*arguments: str) -> Callable[[], Any]:
        def run() -> None:
            result = CliRunner().invoke(app, [*arguments, "-o", str(folder / f"made_by_{arguments[0]}.csv")])
            if result.exit_code != 0:
                sys.exit(f"unrelu {' '.join(arguments)}: {result.output}")

        return run

    return {
        "RectifiedGaussianLearner().fit(X)": lambda: unrelu.RectifiedGaussianLearner().fit(X),
        'RectifiedGaussianLearner("robust").fit(X)': lambda: unrelu.RectifiedGaussianLearner("robust").fit(X),
        "FloorImputer().fit_transform(X)": lambda: unrelu.FloorImputer().fit_transform(X),
        "unrelu fit rows.csv": command("fit", str(table)),
        "unrelu impute rows.csv": command("impute", str(table)),
        "unrelu.peel(X, widths=[2])": lambda: unrelu.peel(outputs, widths=[2]),
    }


# --- what is told -----------------------------------------------------------------------------------------------------
def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def tell_counts() -> None:
    texts = modules(SOURCE)
    for name, value in counts(texts).items():
        tell(f"{name:24} {value:>8,}")
    for name, lines in by_package(texts).most_common():
        tell(f"    {name:20} {lines:>8,}")


def tell_visits() -> None:
    tell(f"{'files / functions / depth of':48}")
    with tempfile.TemporaryDirectory() as folder:
        for name, call in six_calls(Path(folder)).items():
            tell(f"    {name:44} {' / '.join(map(str, visits(call)))}")


def check() -> None:
    found = list(faults(ROOT))
    for fault in found:
        tell(fault)
    if found:
        sys.exit(1)


def record(history: Path = HISTORY) -> None:
    """Append a row for the commit that is checked out, unless its row is there."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    if f",{commit}," in history.read_text():
        sys.exit(f"{history.name} has a row for {commit}: commit first, then record.")
    found = counts(modules(SOURCE))
    row = f"{datetime.date.today()},{commit},{found['files']},{found['lines']},{found['classes']}"
    with history.open("a") as file:
        file.write(f"{row}\n")
    tell(f"{history.name}: {row}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="How large src/unrelu is, and whether it keeps to its bounds.")
    tasks = parser.add_mutually_exclusive_group()
    tasks.add_argument("--visits", dest="task", action="store_const", const=tell_visits, help="how far calls run")
    tasks.add_argument("--check", dest="task", action="store_const", const=check, help="exit 1 if a bound is broken")
    tasks.add_argument("--record", dest="task", action="store_const", const=record, help="append to the history")
    (parser.parse_args(arguments).task or tell_counts)()


if __name__ == "__main__":
    main(sys.argv[1:])
