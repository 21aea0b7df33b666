"""Facts into one file that needs no other: template, style, program and chart library; hostile text made harmless."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.errors import MissingDependencyError
from unrelu.notebook import plain
from unrelu.report.tables import with_error

if TYPE_CHECKING:
    from jinja2 import Environment

_NEEDS = 'A report page needs {}: pip install "unrelu[report]".'
_SHOWN_AT_FIRST = 100  # columns; a button shows all
_MOST_FILLED = 25
LONGEST_NAME = 60  # characters of a column's name that the page shows; the numbers to download have all of it
_STEPS = 10_000  # a correlation is kept to four digits
_UNKNOWN = 32_767


def check_report() -> None:
    """Raise MissingDependencyError unless pages can be made: before the long work, not after it."""
    _environment()
    _chart_script()


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


# --- names and numbers: everything from a table is taken for hostile ------------------------------


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


def rounded(values: FloatArray | Iterable[float], digits: int = 4) -> list[float | None]:
    """Numbers to a few significant digits, None where there is none: they take less room.

    >>> rounded([1.23456, float("nan"), 1e300])
    [1.235, None, 1e+300]
    """
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in np.asarray(values).tolist()]


def packed_correlations(values: FloatArray) -> str:
    """Numbers from -2 to 2 as base64 of 16-bit integers, little end first; NaN is the largest.

    >>> packed_correlations(np.array([0.5, np.nan]))
    'iBP/fw=='
    """
    steps = np.where(np.isnan(values), _UNKNOWN, np.round(values * _STEPS)).astype("<i2")
    return base64.b64encode(steps.tobytes()).decode()


def packed_script(script: str) -> str:
    """A script, compressed: a third of its size, which the page unpacks."""
    return base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode()


def script_hash(script: str) -> str:
    """What a content security policy calls a script that may run.

    >>> script_hash("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
