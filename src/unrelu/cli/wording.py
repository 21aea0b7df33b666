"""What the library says of its parameters, said of options: the only place where words are changed."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Mapping
from contextvars import ContextVar

OPTIONS = {
    "below": "--below",
    "ceiling": "--ceiling",
    "checkpoint": "--checkpoint",
    "columns": "--columns",
    "decimal": "--decimal",
    "drop": "--drop",
    "false_alarm_rate": "--false-alarm-rate",
    "fill": "--fill",
    "floor": "--floor",
    "floor_tolerance": "--floor-tolerance",
    "gauge": "--gauge",
    "groups": "--groups",
    "header": "--header",
    "hidden_method": "--hidden-method",
    "id": "--id",
    "intercept": "--intercept",
    "limits": "--limits",
    "max_iter": "--max-iter",
    "max_seconds": "--max-seconds",
    "method": "--method",
    "n_components": "--components",
    "n_hidden": "--widths",
    "n_inputs": "--inputs",
    "noise_scale": "--noise-scale",
    "nondetect": "--nondetect",
    "n_draws": "--draws",
    "n_simulations": "--simulations",
    "nonnegative_bias": "--nonnegative-bias",
    "output_bias": "--output-bias",
    "parameters": "--parameters",
    "penalty": "--penalty",
    "prior": "--prior",
    "random_state": "--seed",
    "record": "--record",
    "round_counts": "--round-counts",
    "scheduler": "--scheduler",
    "selection": "--selection",
    "shape": "--shape",
    "sheet": "--sheet",
    "skip_bad_files": "--skip-bad-files",
    "skip_bad_rows": "--skip-bad-rows",
    "stderr": "--stderr",
    "tol": "--tol",
    "where": "--where",
    "widths": "--widths",
}

_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_VALUE = rf"{_TEXT}|True|False|{_NUMBER}|\[(?:{_TEXT}|{_NUMBER}|,\s*)+\]"


def one_line(message: str, says: Mapping[str, str] | None = None) -> str:
    """A message for one line of the terminal, naming options where the library names parameters.

    ``says`` are a command's own words for phrases of the library, and its own options for parameters.

    >>> one_line("If the floor is lower,\\npass it as floor= (say floor=-1).")
    'If the floor is lower, pass it as --floor (say --floor=-1).'
    >>> print(one_line("Leave it out with drop='Fe, total', or use method='facets'."))
    Leave it out with --drop '"Fe, total"', or use --method facets.
    >>> print(one_line("Leave them out with drop=['site', 'Fe, total']."))
    Leave them out with --drop 'site,"Fe, total"'.
    >>> one_line("Add rows, or wait.", {"or wait": "or give --model"}), one_line("k is 3", {"k": "--components"})
    ('Add rows, or give --model.', '--components is 3')
    """
    text = " ".join(message.splitlines())
    own = dict(says or {})
    for phrase in [phrase for phrase in own if not phrase.isidentifier()]:
        text = text.replace(phrase, own.pop(phrase))
    options = {**OPTIONS, **own}
    return _ROWS.sub(_counted_from_one, _pattern(options).sub(lambda match: _option(options, match), text))


ROW_LABEL: ContextVar[Callable[[int], str] | None] = ContextVar("ROW_LABEL", default=None)
"""What the table that a command reads calls a row that is counted from 0."""
_ROWS = re.compile(r"([Rr])ows? (\d[\d,]*(?:, \d[\d,]*)*)( and \d+ more)? \(the first is 0\)")


def _counted_from_one(match: re.Match[str]) -> str:
    """Rows on the command line are counted from 1; a single one also has its line in the file."""
    rows = [int(row.replace(",", "")) for row in match[2].split(", ")]
    label = ROW_LABEL.get()
    if len(rows) > 1 or match[3]:
        return f"{match[1]}ows {', '.join(f'{row + 1:,}' for row in rows)}{match[3] or ''}"
    return match[1] + (f"row {rows[0] + 1:,}" if label is None else label(rows[0]))[1:]


def _pattern(options: Mapping[str, str]) -> re.Pattern[str]:
    """Parameters before an equals sign; elsewhere a word is one if it cannot be English, or where a message starts."""
    every = "|".join(options)
    certain = "|".join(name for name in options if "_" in name)
    return re.compile(
        rf"(?<![\w.'\"-])(?:(?P<name>{every})=(?:(?P<value>{_VALUE})|(?=[\s.,;:)]|$))"
        rf"|(?P<certain>{certain})\b(?![('\"=])"
        rf"|(?:(?<=^)|(?<=: ))(?P<first>{every})(?=:| of column\b| (?:must|is)\b))"
    )


def _option(options: Mapping[str, str], match: re.Match[str]) -> str:
    option = options[match["name"] or match["certain"] or match["first"]]
    value = match["value"]
    if value is None or value == "True":
        return option
    if value == "False":
        return option.replace("--", "--no-")
    if value[0] in "'\"[":
        read = ast.literal_eval(value)
        return f"{option} " + shlex.quote(",".join(map(_item, read if isinstance(read, list) else [read])))
    return option + ("=" if value.startswith("-") else " ") + value


def _item(value: object) -> str:
    """An item of a list in which commas separate columns."""
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if "," in text or text.startswith('"') else text
