"""Facts into one file that needs no other: the template, its style and program, and the chart library's script."""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from unrelu.errors import MissingDependencyError
from unrelu.report.page.making import Asked, Order, page_facts
from unrelu.report.page.packing import middle_cut, packed_script, page_text, script_hash, script_json
from unrelu.report.tables import with_error
from unrelu.storage import FilePath, atomic_write

if TYPE_CHECKING:
    from jinja2 import Environment

_NEEDS = 'A report page needs {}: pip install "unrelu[report]".'
_SHOWN_AT_FIRST = 100  # columns; a button shows all
_MOST_FILLED = 25


def check_report() -> None:
    """Raise MissingDependencyError unless pages can be made: before the long work, not after it."""
    _environment()
    _chart_script()


def write_report(path: FilePath, asked: Asked, order: Order) -> dict[str, Any]:
    """Make a page and write it, whole or not at all; its facts."""
    check_report()
    made = page_facts(asked, order)
    page = rendered(made)
    with atomic_write(path) as stream:
        stream.write(page)
    facts: dict[str, Any] = made["facts"]
    return facts


def report_of(learner: Any, path: FilePath, X: Any, wanted: dict[str, Any]) -> None:
    """The page of a fitted learner, for its method ``report``; ``wanted`` are parts of an order."""
    write_report(path, Asked.of(learner, X), Order(**wanted))


def rendered(made: dict[str, Any]) -> bytes:
    """The page of :func:`unrelu.report.page.making.page_facts`."""
    chart, program = _chart_script(), _part("page.js")
    policy = (
        f"default-src 'none'; script-src {script_hash(program)} {script_hash(chart)}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    environment = _environment()
    from markupsafe import Markup

    text: str = environment.get_template("page.html").render(
        **made,
        **made["facts"],
        policy=policy,
        style=Markup(_part("page.css")),
        program=Markup(program),
        chart=Markup(_packed_chart()),
        data=Markup(script_json(made["facts"])),
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
    """Plotly's script, from its Python package: there is no request to a network, when the page is made or read."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingDependencyError(_NEEDS.format("Plotly")) from error
    return str(get_plotlyjs())


@cache
def _packed_chart() -> str:
    return packed_script(_chart_script())


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
    """A number of standard deviations, signed, to two decimals.

    >>> fixed(-1.234), fixed(1e-9), fixed(None)
    ('−1.23', '0.00', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:+.2f}" if abs(value) < 1e4 else f"{value:+.1e}"
    return "0.00" if text in ("+0.00", "-0.00") else text.replace("-", "−", 1)


def percent(share: float | None) -> str:
    """A share as a table shows it.

    >>> percent(0.3456), percent(0.0), percent(0.00001), percent(None)
    ('34.6 %', '0 %', '< 0.1 %', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    if share == 0.0 or share == 1.0:
        return f"{100.0 * share:.0f} %"
    return "< 0.1 %" if share < 0.001 else "> 99.9 %" if share > 0.999 else f"{100.0 * share:.1f} %"
