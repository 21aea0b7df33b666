"""A judged table in plain numbers and tables: how many rows are flagged, the strangest ones, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from unrelu.contracts import FloatArray, LearningReport
from unrelu.estimators import FloorOutlierDetector
from unrelu.report.summaries import labels
from unrelu.report.tables import doubts_shown, new_table
from unrelu.robust.scoring import Verdict
from unrelu.validation import counted

_ROWS_AT_A_TIME = 100_000
_MANY = (
    "Take them for outliers only if the others are normal above their floors: of skewed columns, which unrelu fit"
    " names, the tail is flagged; shape='auto' learns how they are skewed."
)
_FLAGGED = (
    "Flagged: the p-value is below the false alarm rate, as it is for {:.3g} % of the genuine rows. Weight: how much"
    " the row counted in the fit; a flagged row of weight 1.00 is strange, but no stranger than some genuine rows are."
)


@dataclass(frozen=True, eq=False)
class Judged:
    """A verdict, the columns' names, and what only a fit to the same rows can tell: their weights, and its report.

    ``ids`` are columns of text that say which row is which. Rows are counted from 1.
    """

    verdict: Verdict
    false_alarm_rate: float
    names: tuple[str, ...]
    weights: FloatArray | None
    report: LearningReport | None
    ids: Mapping[str, Sequence[str]]

    @classmethod
    def by(
        cls, detector: FloorOutlierDetector, verdict: Verdict, ids: Mapping[str, Sequence[str]] | None = None
    ) -> Judged:
        """The verdict of a detector on the table that it was fitted to, or of one that was made from a model."""
        weights, report = getattr(detector, "row_weights_", None), getattr(detector, "report_", None)
        return cls(verdict, detector.false_alarm_rate, labels(detector.distribution_), weights, report, ids or {})

    def words(self, row: int) -> str:
        """A row's strangest cells as people read them, "As +7.2, Pb -4.1"."""
        return ", ".join(f"{self.names[column]} {size:+.1f}" for column, size in self.verdict.drivers(row))

    def columns(self) -> Iterator[dict[str, Any]]:
        """One line per row: its number, score, p-value, whether it is flagged, its weight in the fit, strangest cells.

        The cells of all flagged rows must have been looked at.
        """
        flagged = self.verdict.flagged
        for start in range(0, len(flagged), _ROWS_AT_A_TIME):
            at = slice(start, start + _ROWS_AT_A_TIME)
            rows = np.arange(start, start + len(flagged[at]))
            yield {
                "row": rows + 1,
                **{name: list(texts[at]) for name, texts in self.ids.items()},
                "score": self.verdict.scores[at],
                "p_value": self.verdict.p_values[at],
                "outlier": flagged[at].astype(np.int8),
                **({} if self.weights is None else {"weight": self.weights[at]}),
                "drivers": [self.words(row) if flagged[row] else None for row in rows.tolist()],
            }

    def facts(self) -> dict[str, Any]:
        """All of it, for JSON; of the rows only the strangest."""
        verdict = self.verdict
        return {
            "rows": len(verdict.scores),
            "flagged": int(verdict.flagged.sum()),
            "expected_if_clean": len(verdict.scores) * self.false_alarm_rate,
            "false_alarm_rate": self.false_alarm_rate,
            "threshold": verdict.threshold,
            "strangest": [self._row(row) for row in verdict.top.tolist()],
            "report": None if self.report is None else asdict(self.report),
        }

    def _row(self, row: int) -> dict[str, Any]:
        return {
            "row": row + 1,
            **({"id": {name: texts[row] for name, texts in self.ids.items()}} if self.ids else {}),
            "score": float(self.verdict.scores[row]),
            "p_value": float(self.verdict.p_values[row]),
            "outlier": bool(self.verdict.flagged[row]),
            **({} if self.weights is None else {"weight": float(self.weights[row])}),
            "drivers": [{"column": self.names[j], "residual": size} for j, size in self.verdict.drivers(row)],
        }

    def shown(self, judge: str, seconds: float, words: Callable[[str], str]) -> list[str | Table]:
        """All of it, for the terminal; ``judge`` is who judged, ``words`` turns parameters into options."""
        facts = self.facts()
        n, found, expected = facts["rows"], facts["flagged"], facts["expected_if_clean"]
        return [
            f"Scored {counted(n, 'row')} of {counted(len(self.names), 'column')} by {judge} in {seconds:.2f} s.",
            *doubts_shown(self.report, self.names, words),
            f"Flagged {counted(found, 'row')} ({found / n:.2%}); a clean table of that size that the model"
            f" fits would have about {expected:,.{0 if expected >= 10 else 1}f}"
            f" (false alarm rate {self.false_alarm_rate:g}).",
            *([words(_MANY)] if found > 2.0 * expected + 3.0 * expected**0.5 else []),
            *(
                []
                if self.weights is None or not facts["strangest"]
                else [_FLAGGED.format(100.0 * self.false_alarm_rate)]
            ),
            *([self._table(facts["strangest"])] if facts["strangest"] else []),
        ]

    def _table(self, strangest: list[dict[str, Any]]) -> Table:
        weight = [] if self.weights is None else ["weight"]
        table = new_table(numbers=("row", *self.ids, "score", "p-value", "flagged", *weight))
        table.add_column("strangest cells, in standard deviations given the others", overflow="fold")
        for row in strangest:
            p = row["p_value"]
            table.add_row(
                f"{row['row']:,}",
                *map(Text, row.get("id", {}).values()),
                f"{row['score']:.4g}",
                f"{p:.2g}" if p >= 1e-99 else "< 1e-99",
                "yes" if row["outlier"] else "no",
                *([f"{row['weight']:.2f}"] if weight else []),
                Text(self.words(row["row"] - 1)),
            )
        return table
