"""Summaries as tables for the terminal. Names of columns are data: they are never read as markup."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from unrelu.contracts import Doubt, LearningReport
from unrelu.distribution import RectifiedGaussian
from unrelu.report.comparison import MomentErrors
from unrelu.report.summaries import ColumnSummary, CorrelationSummary, labels, shape_words
from unrelu.validation import counted, listed

_MOST_COLUMNS = 20


def with_error(value: float, stderr: float | None) -> str:
    """A value and its standard error, to the digits the error deserves.

    >>> with_error(0.51234, 0.0123), with_error(-1234.5, 20.0), with_error(2.0, None)
    ('0.512 ± 0.012', '-1234 ± 20', '2')
    """
    if stderr is None or not math.isfinite(stderr):
        return f"{value:.4g}"
    if stderr == 0.0:
        return f"{value:.4g} ± 0"
    decimals = 1 - math.floor(math.log10(stderr))
    if decimals > 6 or abs(value) >= 1e7 or stderr >= 1e7:
        return f"{value:.4g} ± {stderr:.2g}"
    decimals = max(decimals, 0)
    return f"{value:.{decimals}f} ± {stderr:.{decimals}f}"


def column_table(columns: Sequence[ColumnSummary], most: int = _MOST_COLUMNS) -> Table:
    """Bias and norm of the first columns, and how many more there are: the mean and the sd of y, before the floor."""
    known = any(column.share_floored is not None for column in columns)
    table = new_table("column", numbers=(*["floored"] * known, "latent mean (bias)", "latent sd (norm)"))
    floors_differ = len({column.limit for column in columns}) > 1
    if floors_differ:
        table.add_column("floor", justify="right")
    for column in columns[:most]:
        share = "" if column.share_floored is None else f"{column.share_floored:.1%}"
        shares = [share] if known else []
        bias, norm = (
            with_error(column.bias, column.bias_stderr),
            with_error(column.norm, column.norm_stderr),
        )
        floor = [column.limit] if floors_differ else []
        table.add_row(Text(column.name), *shares, bias, norm, *floor)
    if len(columns) > most:
        table.add_row(Text(f"... and {len(columns) - most:,} more"))
    return table


def shape_tables(model: RectifiedGaussian, most: int = _MOST_COLUMNS) -> list[Table]:
    """Where columns have shapes, what the model says in the units of the user's table: one table for each law."""
    if model.shapes is None:
        return []
    told, tables = ("mean", "lower_quartile", "median", "upper_quartile"), []
    columns = list(zip(labels(model), model.shapes, model.column_summary(), strict=True))
    for law in dict.fromkeys(column["law"] for *_, column in columns):
        table = new_table("column", numbers=("shape", "floored", "mean", "25 %", "median", "75 %"))
        table.title, table.title_justify = f"in the units of the table, {law}:", "left"
        found = [each for each in columns if each[2]["law"] == law]
        for name, shape, column in found[:most]:
            error = getattr(shape, "exponent_stderr", math.nan)
            words = shape_words(shape) + (f" ± {error:.1g}" if math.isfinite(error) else "")
            numbers = (f"{column[key]:.4g}" for key in told)
            table.add_row(Text(name), words, f"{column['share_floored']:.1%}", *numbers)
        if len(found) > most:
            table.add_row(Text(f"... and {len(found) - most:,} more"))
        tables.append(table)
    return tables


def correlation_table(pairs: Sequence[CorrelationSummary]) -> Table:
    """Pairs of columns with their correlations."""
    table = new_table("strongest correlations", numbers=("",))
    for pair in pairs:
        table.add_row(Text(f"{pair.first} – {pair.second}"), with_error(pair.correlation, pair.stderr))
    return table


def doubt_table(doubts: Sequence[Doubt], names: Sequence[str], words: Callable[[str], str], most: int = 8) -> Table:
    """What the table shows and the model does not expect, kind by kind; ``words`` turns parameters into options."""
    table = new_table("doubt", "columns", "what was seen, and what to do")
    for doubt in doubts:
        shown = [names[j] for j in doubt.columns]
        if doubt.values:
            shown = [f"{name} ({value:.4g})" for name, value in zip(shown, doubt.values, strict=True)]
        text = words(f"{doubt.words[0].upper()}{doubt.words[1:]} {doubt.remedy}")
        table.add_row(Text(doubt.kind), Text(listed(shown, most)), Text(text))
    return table


def doubt_line(doubts: Sequence[Doubt]) -> str:
    """The doubts on one line.

    >>> doubt_line([Doubt("skewed", (0, 3), "", ""), Doubt("few rows", (), "", "")])
    'Doubtful, so that the answer may be wrong: skewed (2 columns), few rows.'
    """
    told = [f"{each.kind} ({counted(len(each.columns), 'column')})" if each.columns else each.kind for each in doubts]
    return f"Doubtful, so that the answer may be wrong: {', '.join(told)}."


def trust_line(doubts: Sequence[Doubt]) -> str:
    """Whether an answer can be trusted, in one sentence.

    >>> trust_line([])
    'Nothing seen in the table speaks against the answer.'
    """
    return doubt_line(doubts) if doubts else "Nothing seen in the table speaks against the answer."


def doubts_shown(report: LearningReport | None, names: Sequence[str], words: Callable[[str], str]) -> list[str | Table]:
    """The doubts of a fit, a line and a table; nothing where there are none, or no fit."""
    doubts = () if report is None else report.doubts
    return [doubt_line(doubts), doubt_table(doubts, names, words)] if doubts else []


def comparison_table(errors: Mapping[str, MomentErrors], seconds: Mapping[str, float]) -> Table:
    """Errors of several estimates of the same moments, side by side."""
    table = new_table("error (RMS) of", numbers=("mean", "std", "correlation", "time"))
    for name, error in errors.items():
        time = f"{1e3 * seconds[name]:.1f} ms" if name in seconds else ""
        table.add_row(Text(name), f"{error.mean:.3f}", f"{error.std:.3f}", f"{error.correlation:.3f}", time)
    return table


def fact_table(facts: Mapping[str, str]) -> Table:
    """Names and values, line by line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(Text(name), Text(value))
    return table


def new_table(*texts: str, numbers: Sequence[str] = ()) -> Table:
    """A table in our style: columns of text, which may break, then columns of numbers, which do not."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table
