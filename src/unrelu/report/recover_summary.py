"""Rows recovered through a known layer, in plain numbers and tables: outliers, noise, what could not be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from unrelu.contracts import BoolArray, FloatArray
from unrelu.recovery.latent.recover import LatentResult
from unrelu.samples.columns import names_or_numbers
from unrelu.validation import listed

_MOST_COLUMNS = 10


@dataclass(frozen=True, eq=False)
class RecoveredRows:
    """What was recovered from a table, row by row; a row that could not be is NaN everywhere.

    ``outliers`` is e, 0 at inliers and NaN where the table is missing; ``flagged`` marks the entries that do not agree.
    ``rivals`` has the second latent vector of ambiguous rows, ``failed`` why a row could not be recovered.
    """

    latent: FloatArray
    clean: FloatArray
    outliers: FloatArray
    flagged: BoolArray
    noise_scale: FloatArray
    rivals: dict[int, FloatArray] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @classmethod
    def empty(cls, n: int, d: int, k: int) -> RecoveredRows:
        """Nothing recovered yet.

        >>> RecoveredRows.empty(2, 3, 1).clean.shape
        (2, 3)
        """
        latent, clean, outliers = (np.full((n, width), np.nan) for width in (k, d, d))
        return cls(latent, clean, outliers, np.zeros((n, d), dtype=bool), np.full(n, np.nan))

    def keep(self, row: int, result: LatentResult) -> None:
        """Put one row's result in its place."""
        self.latent[row], self.clean[row], self.outliers[row] = result.latent, result.clean, result.outliers
        self.flagged[row] = ~(result.inliers | np.isnan(result.outliers))
        self.noise_scale[row] = result.noise_scale
        if result.rival is not None:
            self.rivals[row] = result.rival

    @property
    def done(self) -> BoolArray:
        """The rows that were recovered."""
        done: BoolArray = ~np.isnan(self.clean[:, 0])
        return done


@dataclass(frozen=True)
class RecoveryReport:
    """How it went. Shares are of the rows that were recovered; ``noise_scale`` is the median over them."""

    n_rows: int
    n_features: int
    n_latent: int
    method: str
    prior: str
    share_outliers: float
    share_missing: float
    n_missing: int
    noise_scale: float
    n_ambiguous: int
    n_bad: int


@dataclass(frozen=True)
class ColumnOutliers:
    """How often a column disagrees with what the other ones tell."""

    column: str
    share: float


def recovery_report(rows: RecoveredRows, method: str, prior: str) -> RecoveryReport:
    """The facts about all rows together."""
    done, (n, d) = rows.done, rows.clean.shape
    missing = np.isnan(rows.outliers[done])
    seen = max(int(missing.size - missing.sum()), 1)
    scales = rows.noise_scale[done & ~np.isnan(rows.noise_scale)]
    return RecoveryReport(
        n_rows=n,
        n_features=d,
        n_latent=rows.latent.shape[1],
        method=method,
        prior=prior,
        share_outliers=float(rows.flagged.sum() / seen),
        share_missing=float(missing.mean()) if missing.size else 0.0,
        n_missing=int(missing.sum()),
        noise_scale=float(np.median(scales)) if len(scales) else float("nan"),
        n_ambiguous=len(rows.rivals),
        n_bad=len(rows.failed),
    )


def column_shares(rows: RecoveredRows) -> FloatArray:
    """Per column, the share of its values that are outliers; 0 where it has no value."""
    seen = (~np.isnan(rows.outliers)).sum(axis=0)
    shares: FloatArray = rows.flagged.sum(axis=0) / np.maximum(seen, 1)
    return shares


def strangest_columns(
    rows: RecoveredRows, names: Sequence[str] | None, most: int = _MOST_COLUMNS
) -> list[ColumnOutliers]:
    """The columns with most outliers, if they have any."""
    shares = column_shares(rows)
    labels = names_or_numbers(names, len(shares))
    order = np.argsort(-shares, kind="stable")[:most].tolist()
    return [ColumnOutliers(labels[j], float(shares[j])) for j in order if shares[j] > 0.0]


def recovery_facts(rows: RecoveredRows, report: RecoveryReport) -> dict[str, str]:
    """How it went, name by name."""
    cells = "cell" if report.n_missing == 1 else "cells"
    missing = f"; {report.n_missing:,} missing {cells} filled in" if report.n_missing else ""
    prior = "" if report.method == "lasso" else f", prior {report.prior}"
    return {
        "table": f"{report.n_rows:,} x {report.n_features:,}",
        "latent numbers": f"{report.n_latent:,} per row",
        "method": f"{report.method}{prior}",
        "outliers": f"{report.share_outliers:.1%} of the values{missing}",
        "noise scale": f"{report.noise_scale:.4g} (median over the rows)",
        **({"ambiguous rows": _rows_in_words(sorted(rows.rivals))} if rows.rivals else {}),
        **({"skipped rows": _rows_in_words(sorted(rows.failed))} if rows.failed else {}),
    }


def outlier_table(columns: Sequence[ColumnOutliers]) -> Table:
    """Columns and their shares of outliers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("columns with most outliers", overflow="fold")
    table.add_column("outliers", justify="right", no_wrap=True)
    for column in columns:
        table.add_row(Text(column.column), f"{column.share:.1%}")
    return table


def _rows_in_words(rows: Sequence[int]) -> str:
    return f"{len(rows):,}: row{'s' if len(rows) > 1 else ''} {listed(map(str, rows), most=8)} (counted from 0)"
