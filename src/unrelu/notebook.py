"""Results for people and programs: tables for terminals and notebooks, and plain values for JSON.

A result gives its facts (a dictionary) and its tables; this file alone makes text, HTML and JSON of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_MOST_FACTS, _MOST_COLUMNS, _LONGEST = 14, 10, 300
_STYLE = "text-align:left;vertical-align:top;font-weight:normal"


@dataclass(frozen=True)
class Table:
    """Lines below heads; facts, names and values, have no heads. Texts are data: never read as markup.

    A head of ">share" is of numbers, which do not break, at the right; "<unit" of words that do not break, at the left;
    any other of text. A first column without a head names its lines. ``most``: of more lines it is said how many.
    """

    heads: Sequence[str]
    lines: Sequence[Sequence[Any]]
    title: str = ""
    most: int | None = None

    @property
    def omitted(self) -> str:
        """How many lines are not shown, in words."""
        left = 0 if self.most is None else len(self.lines) - self.most
        return f"... and {left:,} more" if left > 0 else ""

    def on_terminal(self) -> RichTable:
        """For rich to print."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        if not self.heads:
            table = RichTable(box=None, show_header=False, pad_edge=False)
            table.add_column(style="bold", no_wrap=True)
            table.add_column(overflow="fold")
        else:
            table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=self.title or None, title_justify="left")
        for place, head in enumerate(self.heads):
            style = "bold" if place == 0 and head in ("", "<") else None
            if head[:1] in ("<", ">"):
                side: Any = "right" if head[0] == ">" else "left"
                table.add_column(head[1:], justify=side, style=style, no_wrap=True)
            else:
                table.add_column(head, style=style, overflow="fold")
        for line in self.lines[: self.most]:
            table.add_row(*map(Text, line))
        if self.omitted:
            table.add_row(Text(self.omitted))
        return table

    def _repr_html_(self) -> str:
        heads = [f"<th>{_text(head.lstrip('<>'))}</th>" for head in self.heads]
        lines = [f"<tr>{''.join(heads)}</tr>"] * bool(heads)
        for line in self.lines[: self.most]:
            if heads:
                lines.append("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in line) + "</tr>")
            else:
                name, value = map(_text, line)
                lines.append(f'<tr><th style="{_STYLE}">{name}</th><td style="{_STYLE}">{value}</td></tr>')
        if self.omitted and heads:
            lines.append(f'<tr><td colspan="{len(heads)}">{self.omitted}</td></tr>')
        return f'<table><caption style="text-align:left"><b>{_text(self.title)}</b></caption>{"".join(lines)}</table>'


def fact_table(facts: Mapping[str, Any], title: str = "", most: int | None = None) -> Table:
    """Names and values, line by line."""
    return Table((), list(facts.items()), title, most)


class Shown:
    """A record that notebooks show as a table of its plain fields."""

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, plain_fields(self))


def plain_fields(record: Any) -> dict[str, Any]:
    """Numbers and words of a dataclass, diagnostics by their kinds; arrays and long lists are left out."""
    found = {field.name: getattr(record, field.name) for field in fields(record)}
    if "diagnostics" in found:
        found["diagnostics"] = ", ".join(diagnostic.kind for diagnostic in found["diagnostics"]) or "none"
    if getattr(record, "converged", None) is not None:
        found["converged"] = record.converged
    return {name: value for name, value in found.items() if isinstance(value, str | bool | int | float)}


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """Names and values for a notebook, the first of them."""
    return fact_table(facts, title, _MOST_FACTS)._repr_html_()


def model_html(names: Sequence[str] | None, numbers: Mapping[str, Any]) -> str:
    """A model's columns, the first of them: names, or places where they have none, and some numbers each."""
    d = len(next(iter(numbers.values())))
    first = range(d) if names is None else names
    lines = [[first[j], *(float(values[j]) for values in numbers.values())] for j in range(d)]
    title = f"RectifiedGaussian of {d:,} column{'s' * (d != 1)}"
    return Table(("column", *numbers), lines, title, _MOST_COLUMNS)._repr_html_()


def learned_html(estimator: Any) -> str:
    """What a fitted estimator has learned, as tables."""
    report, model = getattr(estimator, "report_", None), getattr(estimator, "distribution_", None)
    facts = facts_html("report_", plain_fields(report)) if is_dataclass(report) else ""
    if model is None:
        return facts
    return facts + model_html(model.feature_names, {"floor": model.floor, "mean": model.mean, "sd": model.std})


def _text(value: Any) -> str:
    if isinstance(value, float):
        value = "" if math.isnan(value) else f"{value:.4g}"
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:,}"
    text = str(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def few(names: tuple[str, ...]) -> str:
    """The first of some names, and how many there are."""
    return ", ".join(map(repr, names[:4])) + (f", ... ({len(names)} in all)" if len(names) > 4 else "")


def plain(value: Any) -> Any:
    """What JSON can hold: lists for arrays and tuples, null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str | int) or value is None:
        return value
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers, without importing it
        return plain(value.tolist())
    return str(value)
