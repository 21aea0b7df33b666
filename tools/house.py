"""``python tools/house.py``: the size of the package, how far its calls run, and whether it keeps to its bounds.

    python tools/house.py            counts, visits and waits together; --base COMMIT: those of a commit beside them
    python tools/house.py --counts   files, lines, classes, functions, lengths, lines by package
    python tools/house.py --visits   files and functions that calls pass through, warm, on a table of 2,000 x 5
    python tools/house.py --waits    CPU seconds of an import and of a first command, microseconds of an attribute
    python tools/house.py --answers  CPU seconds of calls of public functions, and a number made of their results
    python tools/house.py --check    exit 1, a line for each bound or rule that is broken; ``make lint`` runs it
    python tools/house.py --record   appends today's counts to docs/research/house_history.csv

The bounds are limits, not goals: a file of 600 lines that reads well is fine, and so is one of 40.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "unrelu"
HISTORY = ROOT / "docs" / "research" / "house_history.csv"
MOST_LINES, MOST_BODY, MOST_IN_ALL = 600, 60, 45_800  # of a file, of a function's body, of all files but the papers'
PAGES = ("CONTRIBUTING.md", "docs/papers.md", "docs/architecture.md")  # pages whose files must be there
COMPREHENSIONS = ("<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # not counted as functions

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
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return any(getattr(each, "id", getattr(each, "attr", None)) == "dataclass" for each in decorators)


def docstring_lines(tree: ast.AST) -> int:
    """Lines of all docstrings in a tree."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [
        node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and ast.get_docstring(node) is not None
    ]
    return sum((each.end_lineno or 0) - each.lineno + 1 for each in docstrings)


def counts(texts: dict[str, str]) -> dict[str, float]:
    """Counts of the package, by name.

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
    """Broken bounds and rules, a line each."""
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
        name = page.relative_to(root).as_posix()
        yield from (f"{name}: no file {link}" for link in gone_links(page))
    for name, text in texts.items():
        yield from (f"src/unrelu/{name}: no page {page}" for page in gone_pages(root, text))


def faults_of(name: str, text: str) -> Iterator[str]:
    """The faults of one module, each as the text after its path.

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
    """Pages of docs/ that a module names and that do not exist; docs/research/011 is the page with that number."""
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
def visits(call: Callable[[], Any], folder: Path | None = None) -> tuple[int, int, int]:
    """Files and functions of ours that a call passes through, in all threads that it starts, and how deep they nest.

    The call is made once before it is traced, so that imports, compiling and caches are not counted.
    """
    own = str(folder or SOURCE)
    seen: set[CodeType] = set()
    deepest = 0

    def trace(frame: FrameType, event: str, _: Any) -> None:
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
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    functions = [code for code in seen if code.co_name not in COMPREHENSIONS]
    return len({code.co_filename for code in functions}), len(functions), deepest


def margins(kind: str, unrelu: Any) -> dict[str, str]:
    """A margin for all columns, by the name of the parameter; before the names of the field it was "shape"."""
    return {"margins" if hasattr(unrelu, "margins") else "shape": kind}


def calls_of_users(folder: Path) -> dict[str, Callable[[], Any]]:
    """Frequent calls of users, on a table of 2,000 x 5, and on a network's outputs for ``peel``."""
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
        'RectifiedGaussianLearner("one_pass", margins="normal").fit(X)': lambda: unrelu.RectifiedGaussianLearner(
            "one_pass", **margins("normal", unrelu)
        ).fit(X),
        'RectifiedGaussianLearner("robust").fit(X)': lambda: unrelu.RectifiedGaussianLearner("robust").fit(X),
        "FloorImputer().fit_transform(X)": lambda: unrelu.FloorImputer().fit_transform(X),
        "unrelu fit rows.csv": command("fit", str(table)),
        "unrelu impute rows.csv": command("impute", str(table)),
        "unrelu.peel(X, widths=[2])": lambda: unrelu.peel(outputs, widths=[2]),
    }


# --- waits and answers ------------------------------------------------------------------------------------------------
def waits() -> dict[str, str]:
    """Waiting times of a new user and of a loop, and whether two estimators give the same score."""

    def cpu_seconds(command: list[str], times: int, cache: str) -> float:
        spent = []
        for _ in range(times):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, capture_output=True, env={**os.environ, "NUMBA_CACHE_DIR": cache})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(spent)

    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        table = str(ROOT / "examples" / "samples.csv")
        fit = [sys.executable, "-m", "unrelu", "fit", table, "--id", "site", "-o", f"{folder}/model.npz"]
        figures["first `unrelu fit`, s of CPU"] = f"{cpu_seconds(fit, 1, folder):.2f}"
        figures["a later `unrelu fit`, s of CPU"] = f"{cpu_seconds(fit, 3, folder):.2f}"
        figures["import unrelu, s of CPU"] = f"{cpu_seconds([sys.executable, '-c', 'import unrelu'], 5, folder):.2f}"
    return figures | attributes() | two_scores()


def attributes() -> dict[str, str]:
    """Microseconds of one access to an attribute of a learner of 300 columns with margins of their own."""
    import numpy as np

    import unrelu

    X = np.exp(unrelu.synthetic.random_model(300, random_state=0).sample(1000, random_state=1))
    learner = unrelu.RectifiedGaussianLearner("one_pass", floor=1.0, **margins("log", unrelu)).fit(X)
    times = {
        name: timeit.timeit(lambda name=name: getattr(learner, name), number=200)
        for name in ("mean_" if hasattr(learner, "mean_") else "bias_", "covariance_")
    }
    figures = {f"learner.{name}, microseconds": f"{1e6 * spent / 200:.2f}" for name, spent in times.items()}
    return figures | {"learner.covariance_ is learner.covariance_": str(learner.covariance_ is learner.covariance_)}


def two_scores() -> dict[str, str]:
    """The score of a learner, and that of a mixture of one component: d = 8, r = .9, 58 % of all cells at the floor."""
    import numpy as np

    import unrelu

    covariance = np.full((8, 8), 0.9) + 0.1 * np.eye(8)
    X = unrelu.RectifiedGaussian(np.full(8, -0.2), covariance).sample(4000, random_state=0)
    plain = {"floor": 0.0, **margins("normal", unrelu)}
    one = unrelu.RectifiedGaussianLearner("full_likelihood", **plain).fit(X).score(X)
    mixture = unrelu.RectifiedGaussianMixture(1, **plain).fit(X).score(X)
    return {"score: learner, mixture of one": f"{one:.5f}, {mixture:.5f}", "apart by": f"{abs(one - mixture):.5f}"}


def answers() -> dict[str, str]:
    """The least CPU seconds of five calls, and the sum of a result: a change of the code should move neither."""
    import numpy as np

    import unrelu

    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, call in public_calls(np, unrelu, Path(folder)).items():
            found, spent = call(), []
            for _ in range(5):
                start = time.process_time()
                call()
                spent.append(time.process_time() - start)
            figures[name] = f"{min(spent):.3f} s  {float(np.nansum(np.asarray(found, dtype=float))):.9g}"
    return figures


def public_calls(np: Any, unrelu: Any, folder: Path) -> dict[str, Callable[[], Any]]:
    """Calls by name; each answers an array."""
    import pyarrow
    import pyarrow.parquet

    model = unrelu.synthetic.random_model(5, condition_number=10.0, random_state=0)
    X, long = model.sample(2000, random_state=1), model.sample(300_000, random_state=2)
    bad_rows, bad_cells = X.copy(), X.copy()
    bad_rows[:300] = 4.0 + np.abs(X[:300, ::-1])
    bad_cells[np.random.default_rng(0).random(X.shape) < 0.03] = 9.0
    wide = unrelu.synthetic.random_model(60, random_state=0).sample(20_000, random_state=1)
    rng = np.random.default_rng(4)
    hidden = np.maximum(rng.standard_normal((2000, 2)) @ rng.standard_normal((2, 2)) + 0.2, 0.0)
    outputs = np.maximum(hidden @ rng.standard_normal((2, 5)) + 0.5, 0.0)
    low_rank = np.maximum(rng.standard_normal((500, 3)) @ rng.standard_normal((3, 60)) + 0.2, 0.0)
    layer = rng.standard_normal((60, 3)), np.full(60, 0.3)
    clean = np.maximum(rng.standard_normal((200, 3)) @ layer[0].T + layer[1], 0.0)
    clean[rng.random(clean.shape) < 0.1] = 5.0
    np.savetxt(folder / "long.csv", long, delimiter=",", header="a,b,c,d,e", comments="", fmt="%.6g")
    pyarrow.parquet.write_table(pyarrow.table(dict(zip("abcde", long.T, strict=True))), folder / "long.parquet")
    rows_of = (unrelu.tables if hasattr(unrelu, "tables") else unrelu.samples).open_samples
    plain = {"floor": 0.0, **margins("normal", unrelu)}
    fitted = unrelu.RectifiedGaussianLearner(**plain).fit(X)
    imputer = unrelu.FloorImputer(**plain).fit(X)
    graph = getattr(unrelu, "RectifiedGaussianGraph" if hasattr(unrelu, "margins") else "RectifiedGaussianNetwork")

    def correlation(method: str, rows: Any, **options: Any) -> Any:
        return unrelu.RectifiedGaussianLearner(method, **options).fit(rows).correlation_

    return {
        "fit, no options, 2,000 x 5": lambda: correlation("auto", X),
        "fit, one_pass, 20,000 x 60": lambda: correlation("one_pass", wide, **plain),
        "fit, full_likelihood": lambda: correlation("full_likelihood", X, **plain),
        "fit, robust": lambda: correlation("robust", bad_rows, **plain),
        "fit, robust_cells": lambda: correlation("robust_cells", bad_cells, **plain),
        "fit, one_pass, csv of 300,000 rows": lambda: correlation("one_pass", rows_of(folder / "long.csv"), **plain),
        "fit, one_pass, parquet of 300,000 rows": lambda: correlation(
            "one_pass", rows_of(folder / "long.parquet"), **plain
        ),
        "mixture of two": lambda: unrelu.RectifiedGaussianMixture(2, **plain).fit(bad_rows).means_,
        "outlier detector": lambda: unrelu.FloorOutlierDetector(**plain).fit(bad_rows).score_samples(bad_rows),
        "graph": lambda: graph("ebic", **plain).fit(X).precision_,
        "score_samples": lambda: fitted.score_samples(X),
        "impute": lambda: imputer.transform(X),
        "draw 5 completed tables": lambda: imputer.draw(X, 5),
        "sample": lambda: model.sample(100_000, random_state=3),
        "matrix recovery, 500 x 60": lambda: unrelu.ReLUMatrixRecovery(3).fit(low_rank).hidden(),
        "latent recovery, 200 x 60": lambda: unrelu.ReLULatentRecovery(*layer).fit().transform(clean),
        "peel": lambda: unrelu.peel(outputs, widths=[2]).layers[0].weights,
    }


# --- output -----------------------------------------------------------------------------------------------------------
def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def figures_of_counts() -> dict[str, str]:
    texts = modules(SOURCE)
    whole = {name: f"{value:,}" for name, value in counts(texts).items()}
    return whole | {f"    {name}": f"{lines:,}" for name, lines in by_package(texts).most_common()}


def figures_of_visits() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        calls = calls_of_users(Path(folder))
        return {f"visits of {name}": " / ".join(map(str, visits(call))) for name, call in calls.items()}


FIGURES: dict[str, Callable[[], dict[str, str]]] = {
    "counts": figures_of_counts,
    "visits": figures_of_visits,
    "waits": waits,
    "answers": answers,
}


def write_figures(chosen: list[str], base: str | None) -> None:
    """A line for each figure; with ``base`` that of the commit first, by this tool in a process of its own."""
    now = {name: value for each in chosen for name, value in FIGURES[each]().items()}
    before = {} if base is None else of_commit(base, chosen)
    for name in dict.fromkeys([*now, *before]):
        earlier = f"{before.get(name, '-'):>24}" if base is not None else ""
        write(f"{name:64}{earlier}{now.get(name, '-'):>24}")


def of_commit(commit: str, chosen: list[str]) -> dict[str, str]:
    """The figures of another commit's package."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        source = Path(folder) / "src"
        command = [
            sys.executable,
            __file__,
            "--json",
            "--source",
            str(source / "unrelu"),
            *(f"--{each}" for each in chosen),
        ]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(source)})
    if done.returncode != 0:
        sys.exit(f"{commit} cannot be measured:\n{done.stderr}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def check() -> None:
    found = list(faults(ROOT))
    for fault in found:
        write(fault)
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
    write(f"{history.name}: {row}")


def main(arguments: list[str]) -> None:
    global SOURCE
    parser = argparse.ArgumentParser(description="The size of src/unrelu, and whether it keeps to its bounds.")
    for name in FIGURES:
        parser.add_argument(f"--{name}", action="store_true", help=f"{name} alone")
    parser.add_argument("--base", metavar="COMMIT", help="the same of this commit, beside it")
    parser.add_argument("--check", action="store_true", help="exit 1 if a bound is broken")
    parser.add_argument("--record", action="store_true", help="append to the history")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)  # for of_commit
    parser.add_argument("--source", type=Path, default=SOURCE, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    SOURCE = given.source
    chosen = [name for name in FIGURES if getattr(given, name)] or list(FIGURES)
    if given.check:
        check()
    elif given.record:
        record()
    elif given.json:
        write(json.dumps({name: value for each in chosen for name, value in FIGURES[each]().items()}))
    else:
        warnings.simplefilter("ignore")  # about the tables made here
        write_figures(chosen, given.base)


if __name__ == "__main__":
    main(sys.argv[1:])
