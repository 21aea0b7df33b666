"""Rows recovered through a known layer, in plain numbers and tables: outliers, noise, what could not be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from unrelu.contracts import FloatArray
from unrelu.recovery.latent.recover import LatentRows
from unrelu.report.tables import new_table
from unrelu.samples.columns import names_or_numbers
from unrelu.validation import counted, listed

_MOST_COLUMNS = 10


@dataclass(frozen=True)
class ColumnOutliers:
    """How often a column disagrees with what the other ones tell."""

    column: str
    share: float


def column_shares(rows: LatentRows) -> FloatArray:
    """Per column, the share of its values that are outliers; 0 where it has no value."""
    seen = (~np.isnan(rows.outliers)).sum(axis=0)
    shares: FloatArray = rows.flagged.sum(axis=0) / np.maximum(seen, 1)
    return shares


def strangest_columns(rows: LatentRows, names: Sequence[str] | None, most: int = _MOST_COLUMNS) -> list[ColumnOutliers]:
    """The columns with most outliers, if they have any."""
    shares = column_shares(rows)
    labels = names_or_numbers(names, len(shares))
    order = np.argsort(-shares, kind="stable")[:most].tolist()
    return [ColumnOutliers(labels[j], float(shares[j])) for j in order if shares[j] > 0.0]


def recovery_json(rows: LatentRows, columns: Sequence[ColumnOutliers]) -> dict[str, Any]:
    """All of it, for JSON; of the rows, counted from 1, only those that are ambiguous, or could not be recovered."""
    report = rows.report
    ambiguous, bad = [row + 1 for row in report.ambiguous_rows], [(row + 1, why) for row, why in report.bad_rows]
    return {
        "report": {**asdict(report), "ambiguous_rows": ambiguous, "bad_rows": bad},
        "columns": [asdict(column) for column in columns],
        "ambiguous": [{"row": i + 1, "latent": rows.latent[i], "rival": rows.rivals[i]} for i in report.ambiguous_rows],
        "bad_rows": [{"row": row, "reason": why} for row, why in bad],
    }


def recovery_facts(rows: LatentRows) -> dict[str, str]:
    """How it went, name by name."""
    report = rows.report
    n_missing = int(np.isnan(rows.outliers[rows.done]).sum())
    missing = f"; {counted(n_missing, 'missing cell')} filled in" if n_missing else ""
    prior = "" if report.method == "lasso" else f", prior {report.prior}"
    scale = "not known" if report.noise_scale is None else f"{report.noise_scale:.4g} (median over the rows)"
    return {
        "table": f"{report.n_rows:,} x {report.n_features:,}",
        "latent numbers": f"{report.n_components:,} per row",
        "method": f"{report.method}{prior}",
        "outliers": f"{report.share_outliers:.1%} of the values{missing}",
        "noise scale": scale,
        **({"ambiguous rows": _rows_in_words(report.ambiguous_rows)} if report.ambiguous_rows else {}),
        **({"skipped rows": _rows_in_words([row for row, _ in report.bad_rows])} if report.bad_rows else {}),
    }


def outlier_table(columns: Sequence[ColumnOutliers]) -> Table:
    """Columns and their shares of outliers."""
    table = new_table("columns with most outliers", numbers=("outliers",))
    for column in columns:
        table.add_row(Text(column.column), f"{column.share:.1%}")
    return table


def _rows_in_words(rows: Sequence[int]) -> str:
    return f"{len(rows):,}: row{'s' if len(rows) > 1 else ''} {listed((str(row + 1) for row in rows), most=8)}"
