"""Results as notebooks show them, one compact table, escaped, and as JSON holds them: plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

_MOST_FACTS, _MOST_COLUMNS, _LONGEST = 14, 10, 300
_STYLE = "text-align:left;vertical-align:top;font-weight:normal"


class Shown:
    """A record that notebooks show as a table of its plain fields."""

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, plain_fields(self))


def plain_fields(record: Any) -> dict[str, Any]:
    """Numbers and words of a dataclass, doubts by their kinds; arrays and long lists are left out.

    >>> from unrelu.contracts import Assembly, LearningReport
    >>> report = LearningReport("one_pass", 9, 1, 9.0, 0.25, (0.25,), 0.0, 0, Assembly(1, 0.0, True))
    >>> list(plain_fields(report))[:3]
    ['method', 'n_rows', 'n_features']
    """
    found = {field.name: getattr(record, field.name) for field in fields(record)}
    if "doubts" in found:
        found["doubts"] = ", ".join(doubt.kind for doubt in found["doubts"]) or "none"
    if getattr(record, "converged", None) is not None:
        found["converged"] = record.converged
    return {name: value for name, value in found.items() if isinstance(value, str | bool | int | float)}


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """Names and values, line by line.

    >>> facts_html("Check", {"<b>": 0.25})[:60]
    '<table><caption style="text-align:left"><b>Check</b></captio'
    >>> "&lt;b&gt;" in facts_html("Check", {"<b>": 0.25})
    True
    """
    lines = [
        f'<tr><th style="{_STYLE}">{_text(name)}</th><td style="{_STYLE}">{_text(value)}</td></tr>'
        for name, value in list(facts.items())[:_MOST_FACTS]
    ]
    return _table(title, lines)


def model_html(names: Sequence[str] | None, numbers: Mapping[str, Any]) -> str:
    """A model's columns, the first of them: names, or places where they have none, and some numbers each.

    >>> model_html(["As", "Pb"], {"bias": [0.5, 1.0]}).count("<tr>")
    3
    """
    d = len(next(iter(numbers.values())))
    lines = ["<tr>" + "".join(f"<th>{_text(head)}</th>" for head in ("column", *numbers)) + "</tr>"]
    for j in range(min(d, _MOST_COLUMNS)):
        row = [j if names is None else names[j], *(float(values[j]) for values in numbers.values())]
        lines.append("<tr>" + "".join(f"<td>{_text(value)}</td>" for value in row) + "</tr>")
    if d > _MOST_COLUMNS:
        lines.append(f'<tr><td colspan="{1 + len(numbers)}">... and {d - _MOST_COLUMNS:,} more</td></tr>')
    return _table(f"RectifiedGaussian of {d:,} column{'s' * (d != 1)}", lines)


def learned_html(estimator: Any) -> str:
    """What a fitted estimator has learned, as tables.

    >>> import unrelu
    >>> learner = unrelu.RectifiedGaussianLearner().fit([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0], [0.5, 0.0]])
    >>> "one_pass" in learned_html(learner)
    True
    """
    report, model = getattr(estimator, "report_", None), getattr(estimator, "distribution_", None)
    told = facts_html("report_", plain_fields(report)) if is_dataclass(report) else ""
    if model is None:
        return told
    return told + model_html(model.feature_names, {"floor": model.floor, "bias": model.bias, "norm": model.row_norms})


def _table(title: str, lines: Iterable[str]) -> str:
    return f'<table><caption style="text-align:left"><b>{_text(title)}</b></caption>{"".join(lines)}</table>'


def _text(value: Any) -> str:
    if isinstance(value, float):
        value = "" if math.isnan(value) else f"{value:.4g}"
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:,}"
    text = str(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def few(names: tuple[str, ...]) -> str:
    """The first of some names, and how many there are.

    >>> few(("a", "b"))
    "'a', 'b'"
    """
    return ", ".join(map(repr, names[:4])) + (f", ... ({len(names)} in all)" if len(names) > 4 else "")


def plain(value: Any) -> Any:
    """What JSON can hold: lists for arrays and tuples, null for numbers that are not finite.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
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
