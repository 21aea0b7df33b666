"""A page made part by part, with a progress callback, and written: one file that needs no other.

Template, style, program and chart library go into it; every text from a table is escaped. A part whose facts are
missing, because there are no rows or too many columns, is left out.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from importlib import resources
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu._version import __version__
from unrelu.checks.fit_check import FitCheck
from unrelu.contracts import Progress, Step, no_progress
from unrelu.errors import MissingDependencyError
from unrelu.estimators import FloorImputer, check_model
from unrelu.estimators.preparation import prepare
from unrelu.limits import is_by_cell
from unrelu.model import RectifiedGaussian
from unrelu.notebook import plain
from unrelu.report.page import facts
from unrelu.report.tables import diagnostic_words, labels, with_error
from unrelu.storage import FilePath, atomic_write
from unrelu.tables.frames import collected, holds_text
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from jinja2 import Environment

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "plotly")
_NEEDS = 'A report page needs {}: pip install "unrelu[report]".'
_SHOWN_AT_FIRST = 100  # columns; a button shows all
_MOST_FILLED = 25
LONGEST_NAME = 60  # characters of a column's name that the page shows; the numbers to download have all of it


def write_report(
    learner: Any,
    path: FilePath,
    X: Any,
    *,
    title: str,
    command: str = "",
    n_simulations: int | None = None,
    seed: int = 0,
    ids: Mapping[str, Sequence[str]] | None = None,
    words: Callable[[str], str] = str,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Write a page about the model and X, if it is given, whole or not at all; return its facts.

    ``learner`` is fitted, or an imputer made from a model. ``command``: the command line, if it was one;
    ``n_simulations`` of the check of the fit, 0 for none, None for as many as the number of columns allows; ``words``
    turns the library's parameters into options of the command line.
    """
    check_report()
    begin, model, table = time.perf_counter(), learner.distribution_, X
    fitted = learner if getattr(learner, "report_", None) is not None else None
    tolerance = float(learner.floor_tolerance)
    if table is not None:
        table = collected(table)
        if is_by_cell(learner.floor, learner.ceiling) or holds_text(table):
            table = prepare(table, floor=learner.floor, ceiling=learner.ceiling, by_cell=True)
    number = facts.simulations(model.n_features, n_simulations)
    sample, imputer = None, learner
    if not isinstance(learner, FloorImputer):
        imputer = FloorImputer.from_model(model, floor_tolerance=tolerance)
    if table is not None:
        progress(Step("Sampling the rows"))
        sample = facts.sampled(imputer.cells(table), model.n_features, seed)
    progress(Step("Drawing columns"))
    mean_stderr, r_stderr = (None, None) if fitted is None else (fitted.mean_stderr_, fitted.correlation_stderr_)
    pictures = [facts.picture(model, j, sample) for j in range(model.n_features)]
    found: dict[str, Any] = {
        "title": title,
        "table": None if sample is None else facts.table_facts(sample),
        "columns": facts.column_lists(model, sample, mean_stderr),
        **dict.fromkeys(("pairs", "scatter", "components", "check", "outliers", "filling")),
        "left_out": [] if sample is not None else ["everything that needs the rows"],
        "diagnostics": [
            {
                "kind": diagnostic.kind,
                "columns": listed([labels(model)[j][:LONGEST_NAME] for j in diagnostic.columns], 8),
                "text": diagnostic_words(diagnostic, words),
            }
            for diagnostic in (() if fitted is None else fitted.report_.diagnostics)
        ],
    }
    if model.n_features > 1:
        naive = None if sample is None else facts.pairwise_correlation(sample[0].cells.given)
        found["pairs"] = facts.pair_facts(model, naive, r_stderr)
        found["scatter"] = None if sample is None else facts.scatter_facts(model, sample)
        found["components"] = facts.component_facts(model.correlation, naive)
    if sample is not None:
        how: dict[str, Any] = {"floor_tolerance": tolerance, "random_state": seed}
        check = (
            partial(check_model, model, **how, progress=progress)
            if fitted is None
            else fitted.with_progress(progress).check
        )
        checked = partial(check, table, n_simulations=number) if number else None
        found |= _of_rows(model, imputer, table, sample, checked, how, ids or {}, words, progress)
    found["made"] = {**_made(fitted, command, seed), "seconds": round(time.perf_counter() - begin, 2)}
    page = rendered(found, pictures)
    with atomic_write(path) as stream:
        stream.write(page)
    return found


def report_of(learner: Any, path: FilePath, X: Any, wanted: dict[str, Any]) -> None:
    """The page of a fitted learner, for its method ``write_html``."""
    write_report(learner, path, X, **wanted)


def page_rows(found: dict[str, Any], size: int, seconds: float) -> list[str]:
    """A page of so many bytes in a few lines, for the terminal."""
    table, checked, outliers = found["table"], found["check"], found["outliers"]
    kinds = ", ".join(diagnostic["kind"] for diagnostic in found["diagnostics"])
    lines = [
        f"A page of {size / 1e6:.1f} MB about {counted(table['n_rows'], 'row')} of"
        f" {counted(table['n_columns'], 'column')}, {percent(table['share_floored'])} of the cells at their floor, in"
        f" {seconds:.2f} s.",
        checked and checked["verdict"],
        outliers and f"Flagged {counted(outliers['flagged'], 'row')} as outlying.",
        found["left_out"] and f"Left out: {'; '.join(found['left_out'])}.",
        kinds and f"Warnings on the page: {kinds}.",
    ]
    return [line for line in lines if line]


def _of_rows(
    model: RectifiedGaussian,
    imputer: FloorImputer,
    table: Any,
    sample: facts.Sample,
    check: Callable[[], FitCheck] | None,
    how: dict[str, Any],
    ids: Mapping[str, Sequence[str]],
    words: Callable[[str], str],
    progress: Progress,
) -> dict[str, Any]:
    """The parts about rows: does the model fit, outlying rows and cells, values below the floor; parts left out."""
    found: dict[str, Any] = {}
    left_out = []
    if check is not None:
        found["check"] = facts.check_facts(check, words)
    else:
        left_out.append("the check of the fit (unrelu check)")
    few = model.n_features <= facts.MOST_COLUMNS
    if few and not getattr(table, "limits_by_cell", ()):
        found["outliers"] = facts.outlier_facts(model, table, imputer.cells(table), ids, how, progress)
    else:
        left_out.append("outlying rows (unrelu score)")
    if few:
        progress(Step("Filling in cells"))
        found["filling"] = facts.filling_facts(model, sample)
    else:
        left_out.append("values below the floor, cell by cell (unrelu impute)")
    return {**found, "left_out": left_out}


def _made(learner: Any, command: str, seed: int) -> dict[str, Any]:
    parameters = {}
    for name, value in ({} if learner is None else learner.get_params(False)).items():
        text = repr(value)
        if isinstance(value, np.ndarray | list | tuple) and np.size(value) > 6:
            text = f"{counted(int(np.size(value)), 'value')}"
        parameters[name] = text if len(text) <= 120 else f"{text[:119]}…"
    return {
        "method": None if learner is None else learner.report_.method,
        "parameters": parameters,
        "command": command,
        "seed": seed,
        "time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": {"unrelu": __version__, "python": platform.python_version(), **{n: version(n) for n in _LIBRARIES}},
    }


# --- the file -------------------------------------------------------------------------------------


def check_report() -> None:
    """Raise MissingDependencyError unless pages can be made: before the long work, not after it."""
    _environment()
    _chart_script()


def rendered(found: dict[str, Any], pictures: list[dict[str, Any] | None]) -> bytes:
    """The page of these facts and pictures of columns."""
    chart, program = _chart_script(), _part("page.js")
    policy = (
        f"default-src 'none'; script-src {script_hash(program)} {script_hash(chart)}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    environment = _environment()
    from markupsafe import Markup

    text: str = environment.get_template("page.html").render(
        **found,
        pictures=pictures,
        policy=policy,
        style=Markup(_part("page.css")),
        program=Markup(program),
        chart=Markup(_packed_chart()),
        data=Markup(script_json(found)),
        shown_at_first=_SHOWN_AT_FIRST,
        most_filled=_MOST_FILLED,
    )
    return text.encode("utf-8", "replace")


def _part(name: str) -> str:
    return (resources.files("unrelu.report.page") / name).read_text("utf-8")


def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingDependencyError(_NEEDS.format("Jinja2")) from error
    environment = Environment(
        loader=PackageLoader("unrelu.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "fixed": fixed,
        "name": page_text,
        "middle": middle_cut,
        "error": with_error,
    }
    return environment


@cache
def _chart_script() -> str:
    """Plotly's script, from its Python package: neither making nor reading a page needs a network."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingDependencyError(_NEEDS.format("Plotly")) from error
    return str(get_plotlyjs())


@cache
def _packed_chart() -> str:
    """A third of its size; the page unpacks it."""
    return base64.b64encode(gzip.compress(_chart_script().encode(), 9, mtime=0)).decode()


def number(value: float | None, digits: int = 4) -> str:
    """A number as a table shows it; a dash where there is none.

    >>> number(0.51234), number(12345.6), number(None), number(-0.25), number(3e9)
    ('0.5123', '12,346', '–', '−0.25', '3e+09')
    """
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    text = f"{value:,.0f}" if 1e4 <= size < 1e7 else f"{value:.{digits}g}"
    return text.replace("-", "−", 1) if value < 0.0 else text


def fixed(value: float | None) -> str:
    """A number of standard deviations, signed, to two decimals."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:+.2f}" if abs(value) < 1e4 else f"{value:+.1e}"
    return "0.00" if text in ("+0.00", "-0.00") else text.replace("-", "−", 1)


def percent(share: float | None) -> str:
    """A share as a table shows it."""
    if share is None or not math.isfinite(share):
        return "–"
    if share == 0.0 or share == 1.0:
        return f"{100.0 * share:.0f} %"
    return "< 0.1 %" if share < 0.001 else "> 99.9 %" if share > 0.999 else f"{100.0 * share:.1f} %"


# --- names and numbers: every text from a table is escaped -----------------------------------------


def page_text(text: str, longest: int = LONGEST_NAME) -> str:
    """A name as it is shown: cut, no lone surrogates, which no file can hold.

    >>> page_text("arsenic"), page_text("x" * 99, 5), page_text("a" + chr(0xd800))
    ('arsenic', 'xxxx…', 'a?')
    """
    text = text[: longest + 1].encode("utf-8", "replace").decode()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def middle_cut(text: str, longest: int = 22) -> str:
    """A name without its middle where it is long: names of one table often differ at their ends only.

    >>> middle_cut("whole_set1_tech1", 11), middle_cut("As")
    ('whole…tech1', 'As')
    """
    if len(text) <= longest:
        return page_text(text)
    end = (longest - 1) // 2
    return page_text(f"{text[: longest - 1 - end]}…{text[-end:]}")


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: it holds no character that ends one, nor a line separator.

    >>> script_json({"</script>": [1.0, float("nan")]})
    '{"\\\\u003c/script\\\\u003e":[1.0,null]}'
    """
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))  # ASCII: other characters are escaped
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def script_hash(script: str) -> str:
    """The name of a script that may run, in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
