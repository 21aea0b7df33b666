"""A check of a model in plain numbers and tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from unrelu.checks.result import FitCheck
from unrelu.contracts import FloatArray
from unrelu.report.tables import new_table
from unrelu.validation import counted, listed

_MOST = 10  # columns and pairs in a table for people
_MOST_PAIRS = 100  # in JSON
_LEGEND = (
    "Off by: the largest difference of the shares of rows below a value. High: above the model's median of what is seen"
    " of the column; higher: above its 80 % quantile. Adjusted: p-values that allow for the number of columns or pairs."
)


def check_facts(check: FitCheck) -> dict[str, Any]:
    """All of it, for JSON; of the pairs those that fit worst."""
    numbers, why = _numbers(check), dict(check.left_out)
    alone = ("fits", "verdict", "level", "p_value", "columns_p_value", "pairs_p_value")
    counts = ("n_rows", "n_looked_at", "n_outlier_rows", "n_simulations", "refitted")
    return {
        **{name: getattr(check, name) for name in (*alone, *counts)},
        "columns": [
            {"name": name, "shape": check.shapes[j], "left_out": why.get(j), **{k: v[j] for k, v in numbers.items()}}
            for j, name in enumerate(check.names)
        ],
        "worst_pairs": [_pair(check, i, j) for i, j in check.worst_pairs(_MOST_PAIRS)],
        "tried": [asdict(remedy) for remedy in check.tried],
    }


def check_columns(check: FitCheck) -> dict[str, Any]:
    """One line per column, for a table."""
    return {"column": list(check.names), "shape": list(check.shapes), **_numbers(check)}


def _numbers(check: FitCheck) -> dict[str, FloatArray]:
    return {
        "statistic": check.column_statistic,
        "p_value": check.column_p_value,
        "adjusted_p_value": check.column_adjusted,
        "largest_difference": check.column_distance,
        "share_at_limit": check.share_at_limit,
        "expected_share_at_limit": check.expected_share_at_limit,
    }


def _pair(check: FitCheck, i: int, j: int) -> dict[str, Any]:
    return {
        "first": check.names[i],
        "second": check.names[j],
        "statistic": check.pair_statistic[i, j],
        "p_value": check.pair_p_value[i, j],
        "adjusted_p_value": check.pair_adjusted[i, j],
        "observed": check.observed[..., i, j],
        "expected": check.expected[..., i, j],
    }


def check_shown(check: FitCheck, seconds: float, words: Callable[[str], str]) -> list[str | Table]:
    """All of it, for the terminal; ``words`` turns parameters into options."""
    whole = "" if check.n_looked_at + check.n_outlier_rows == check.n_rows else f" of {check.n_rows:,}"
    taken = "" if check.refitted else " The model is taken as given: nothing was fitted."
    outliers = f" {counted(check.n_outlier_rows, 'outlier row')} left out." if check.n_outlier_rows else ""
    free = [name for name, shape in zip(check.names, check.shapes, strict=True) if shape == "free"]
    return [
        f"Checked {check.n_looked_at:,}{whole} rows of {counted(len(check.names), 'column')} against"
        f" {counted(check.n_simulations, 'simulated table')} in {seconds:.2f} s.{taken}{outliers}",
        words(check.verdict),
        *([f"Free shapes fit their columns always: {listed(free, 8)}."] if free else []),
        *([f"Left out: {listed(f'{check.names[j]} ({why})' for j, why in check.left_out)}."] if check.left_out else []),
        *([_LEGEND] if check.worst_columns(1) else []),
        *([_column_table(check)] if check.worst_columns(1) else []),
        *([_pair_table(check)] if check.worst_pairs(1) else []),
    ]


def _column_table(check: FitCheck) -> Table:
    table = new_table("worst columns", "shape", numbers=("at limit", "expected", "off by", "p-value", "adjusted"))
    for j in check.worst_columns(_MOST):
        shares = (check.share_at_limit[j], check.expected_share_at_limit[j], check.column_distance[j])
        table.add_row(
            Text(check.names[j]),
            check.shapes[j],
            *(f"{share:.1%}" for share in shares),
            *(f"{p:.3g}" for p in (check.column_p_value[j], check.column_adjusted[j])),
        )
    return table


def _pair_table(check: FitCheck) -> Table:
    table = new_table("worst pairs", numbers=("both high", "expected", "higher", "expected", "p-value", "adjusted"))
    for i, j in check.worst_pairs(_MOST):
        high = np.stack([check.observed, check.expected])[:, :, 1, 1, i, j]
        table.add_row(
            Text(f"{check.names[i]} – {check.names[j]}"),
            *(f"{count:,.{digits}f}" for k in (0, 1) for count, digits in zip(high[:, k], (0, 1), strict=True)),
            *(f"{p:.3g}" for p in (check.pair_p_value[i, j], check.pair_adjusted[i, j])),
        )
    return table
