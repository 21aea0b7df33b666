"""What reports share: names, numbers with errors, diagnostics in words, tables in files beside columns of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from unrelu.contracts import Diagnostic, FloatArray
from unrelu.errors import OutputError
from unrelu.margins import BoxCox, Margin
from unrelu.model import RectifiedGaussian
from unrelu.notebook import Table
from unrelu.tables.write import names_or_numbers, write_columns, write_table
from unrelu.validation import counted, listed

Facts: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[str | Table]

ROWS_AT_A_TIME = 100_000  # of a table that is written line by line


# Every result is shown by these two, whatever its class: classes of this package have methods of the same names, those
# of the core are registered where their pictures are.


@singledispatch
def facts(result: Any, *about: Any, **known: Any) -> Facts:
    """All that a result says, for JSON: by names, numbers as they are."""
    entries: Facts = result.facts(*about, **known)
    return entries


@singledispatch
def rows(result: Any, *about: Any) -> Rows:
    """The same for people: lines of text and tables. ``about`` begins with the model in use, and the time it took."""
    lines: Rows = result.rows(*about)
    return lines


def table_of(
    records: Iterable[Mapping[str, Any]], *columns: tuple[str, str], title: str = "", most: int | None = None
) -> Table:
    """A line for every record; a column is a head and the form of a record's cell below it: ("mean", "{mean:.4g}").

    A missing number, NaN, is left out.

    >>> table_of([{"name": "As", "mean": 0.25}], ("column", "{name}"), (">mean", "{mean:.2f}")).lines
    [['As', '0.25']]
    """
    heads = [head for head, _ in columns]
    lines = []
    for record in records:
        texts = [text.format_map(record) for _, text in columns]
        lines.append(["" if h[:1] == ">" and t in ("nan", "nan%") else t for h, t in zip(heads, texts, strict=True)])
    return Table(heads, lines, title, most)


def labels(model: RectifiedGaussian) -> tuple[str, ...]:
    """The columns' names; x0, x1, ... where they have none, as in tables written from the model."""
    return names_or_numbers(model.feature_names, model.n_features)


def numbered(letter: str, count: int) -> tuple[str, ...]:
    """Names of components (c0, c1, ...), hidden units (h0, ...) and inputs (z0, ...) in tables."""
    return tuple(f"{letter}{index}" for index in range(count))


def with_error(value: float, stderr: float | None) -> str:
    """A value and its standard error, to the digits the error deserves."""
    if stderr is None or not math.isfinite(stderr):
        return f"{value:.4g}"
    if stderr == 0.0:
        return f"{value:.4g} ± 0"
    decimals = 1 - math.floor(math.log10(stderr))
    if decimals > 6 or abs(value) >= 1e7 or stderr >= 1e7:
        return f"{value:.4g} ± {stderr:.2g}"
    decimals = max(decimals, 0)
    return f"{value:.{decimals}f} ± {stderr:.{decimals}f}"


def margin_words(margin: Margin) -> str:
    """A margin's name, and the exponent of a Box-Cox transformation."""
    return f"boxcox {margin.exponent:.2f}" if isinstance(margin, BoxCox) else margin.kind


def diagnostic_words(diagnostic: Diagnostic, words: Callable[[str], str]) -> str:
    """What the table shows, and what to do; ``words`` turns parameters into options."""
    return words(f"{diagnostic.words[0].upper()}{diagnostic.words[1:]} {diagnostic.remedy}")


def diagnostic_rows(diagnostics: Sequence[Diagnostic], names: Sequence[str], words: Callable[[str], str]) -> Rows:
    """What the table shows and the model does not expect, kind by kind, with one remedy each.

    >>> diagnostic_rows([], (), str)
    ['No warnings about the fit.']
    """
    if not diagnostics:
        return ["No warnings about the fit."]
    lines, kinds = [], []
    for diagnostic in diagnostics:
        shown = [names[j] for j in diagnostic.columns]
        if diagnostic.values:
            shown = [f"{name} ({value:.4g})" for name, value in zip(shown, diagnostic.values, strict=True)]
        where = f" ({listed(shown, most=8)})" if shown else ""
        lines.append(f"{diagnostic.kind}{where}: {diagnostic_words(diagnostic, words)}")
        kinds.append(diagnostic.kind + (f" ({counted(len(shown), 'column')})" if shown else ""))
    summary = f"The answer may be wrong: {', '.join(kinds)}."
    if [each.kind for each in diagnostics] == ["left-out"]:
        where = counted(len(diagnostics[0].columns), "column")
        summary = f"The answer is that of the rows and cells that belong together: others were left out ({where})."
    return [summary, *lines]


# --- in files -------------------------------------------------------------------------------------


def check_names(names: Sequence[str]) -> None:
    """Raise OutputError if a table to be written would have two columns of one name."""
    for name in [name for name in names if names.count(name) > 1]:
        raise OutputError(f"The table to be written would have two columns {name!r}: rename that of the input.")


def level_name(level: float) -> str:
    """The name of a column of quantiles."""
    percent = f"{100.0 * level:g}"
    return f"q{percent.zfill(2)}" if "." not in percent else f"q{percent}"


def write_rows(
    path: Path, values: FloatArray | Iterable[FloatArray], names: Sequence[str] | None, ids: Mapping[str, Sequence[str]]
) -> None:
    """Write a table, its rows or blocks of them, with columns of text (``ids``) before its own."""
    if not ids:
        write_table(path, values, names)
        return

    def parts() -> Iterator[dict[str, Any]]:
        import pyarrow as pa

        first = 0
        for block in [values] if isinstance(values, np.ndarray) else values:
            texts = {name: list(cells[first : first + len(block)]) for name, cells in ids.items()}
            found = names_or_numbers(names, block.shape[1])
            yield {**texts, **{name: pa.array(block[:, j], from_pandas=True) for j, name in enumerate(found)}}
            first += len(block)

    write_columns(path, parts())
