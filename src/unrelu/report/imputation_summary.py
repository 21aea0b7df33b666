"""A table with its hidden cells filled in, in plain numbers: how many cells, and what became of every column's mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from unrelu.contracts import BoolArray, FloatArray, LearningReport
from unrelu.posterior.cells import Cells
from unrelu.report.tables import doubts_shown, new_table
from unrelu.validation import counted, listed

_MOST_COLUMNS = 20
_MOST_NAMED = 6
_SHOWN = (
    "Missing cells of {}: filled as the table would show them, not beyond its limits (--below latent: before these)."
)
_MEANS = (
    "Filled by {}: near the truth cell by cell, but such a table has too little spread and too strong correlations. For"
    " statistics of the completed table use --draws."
)


class Tally:
    """Counts and sums of columns, added up while the rows are filled in.

    ``as_seen``: the columns whose missing cells are filled in as the table would show them.
    """

    def __init__(self, names: Sequence[str], model_means: Sequence[float], as_seen: BoolArray) -> None:
        self.names, self._model_means, self._as_seen = tuple(names), list(model_means), as_seen
        self.rows = self.rows_missing = 0
        self._counts = np.zeros((5, len(names)), dtype=np.int64)  # seen, at a floor, at a ceiling, missing, filled
        self._left = np.zeros(3, dtype=np.int64)  # as they are: at a floor, at a ceiling, missing
        self._sums = np.zeros((3, len(names)))  # of what is seen, of the limits, of the completed rows

    def add(self, cells: Cells, completed: FloatArray, filled: BoolArray) -> None:
        """Some rows, and the same filled in, rows x d, or draws x rows x d; and which of the cells were."""
        missing, seen = np.isnan(cells.given), ~cells.hidden
        self.rows += len(seen)
        self.rows_missing += int(np.count_nonzero(missing.all(axis=1)))
        kinds = (cells.beyond < 0, cells.beyond > 0, missing)
        for count, which in zip(self._counts, (seen, *kinds, filled), strict=True):
            count += np.count_nonzero(which, axis=0)
        self._left += [np.count_nonzero(kind & ~filled) for kind in kinds]
        mean = np.nan_to_num(completed.mean(axis=0) if completed.ndim == 3 else completed)
        limits = np.where(seen | missing, 0.0, cells.given)
        for total, values in zip(self._sums, (np.where(seen, cells.given, 0.0), limits, mean), strict=True):
            total += values.sum(axis=0)

    def facts(self) -> dict[str, Any]:
        """All of it, for JSON. ``mean_at_limits`` has the limit in place of what it hides, missing cells left out;
        ``mean_of_model`` is that of any row, of the law whose values are filled in, in cells at a limit if these are.
        ``missing_as_seen``: missing cells get what the table would show, no value before the floor."""
        seen, floored, ceiled, missing, filled = self._counts
        hidden, empty = self.rows - seen, missing if self._left[2] else 0
        with np.errstate(invalid="ignore", divide="ignore"):
            means = {
                "mean_seen": self._sums[0] / seen,
                "mean_at_limits": (self._sums[0] + self._sums[1]) / (self.rows - missing),
                "mean_completed": self._sums[2] / (self.rows - empty),
            }
        parts = {"floored": floored, "at_ceiling": ceiled, "missing": missing, "share_hidden": hidden / self.rows}
        columns = {name: values.tolist() for name, values in {**parts, **means}.items()}
        columns["mean_of_model"] = self._model_means
        columns["missing_as_seen"] = self._as_seen.tolist()
        return {
            "rows": self.rows,
            "n_features": len(self.names),
            "cells_floored": int(floored.sum()),
            "cells_at_ceiling": int(ceiled.sum()),
            "cells_missing": int(missing.sum()),
            "cells_filled": int(filled.sum()),
            "rows_all_missing": self.rows_missing,
            "columns": [
                {"name": name, **{key: values[j] for key, values in columns.items()}}
                for j, name in enumerate(self.names)
            ],
        }

    def shown(
        self, by: str, filling: str, report: LearningReport | None, one_line: Callable[[str], str]
    ) -> list[str | Table]:
        """All of it, for the terminal; ``filling``: "means", "medians" or empty for draws, ``by``: who and how long."""
        facts = self.facts()
        kinds = [facts["cells_floored"], facts["cells_at_ceiling"], facts["cells_missing"]]
        floored, ceiled, missing = (np.array(kinds) - self._left).tolist()
        ceilings = f", {ceiled:,} at their ceiling" if facts["cells_at_ceiling"] else ""
        words = zip(self._left.tolist(), ("at their floor", "at their ceiling", "missing"), strict=True)
        left = " and ".join(f"{number:,} {kind}" for number, kind in words if number)
        left = f" Left as they are: {left}." if left else ""
        cells = self.rows * len(self.names)
        shown = [c["name"] for c in facts["columns"] if c["missing_as_seen"] and c["missing"] and not self._left[2]]
        prior = "nothing in it, filled by what the model says of any row"
        return [
            f"Filled in {facts['cells_filled']:,} of {counted(cells, 'cell')} ({facts['cells_filled'] / cells:.1%}) in"
            f" {counted(self.rows, 'row')} of {counted(len(self.names), 'column')} by {by}:"
            f" {floored:,} at their floor{ceilings}, {missing:,} missing.{left}",
            *doubts_shown(report, self.names, one_line),
            *(
                [f"{counted(self.rows_missing, 'row')} with {prior}."]
                if self.rows_missing and not self._left[2]
                else []
            ),
            *([_SHOWN.format(listed(shown, most=_MOST_NAMED))] if shown else []),
            *([_MEANS.format(filling)] if filling and facts["cells_filled"] else []),
            _column_table(facts["columns"]),
        ]


def _column_table(columns: list[dict[str, Any]], most: int = _MOST_COLUMNS) -> Table:
    table = new_table("mean of", numbers=("hidden", "seen cells", "limits for hidden", "completed", "the model"))
    for column in columns[:most]:
        means = (column[name] for name in ("mean_seen", "mean_at_limits", "mean_completed", "mean_of_model"))
        shown = ("" if np.isnan(mean) else f"{mean:.4g}" for mean in means)
        table.add_row(Text(column["name"]), f"{column['share_hidden']:.1%}", *shown)
    if len(columns) > most:
        table.add_row(Text(f"... and {len(columns) - most:,} more"))
    return table


def report_facts(report: LearningReport | None) -> dict[str, Any]:
    """The report of a fit, for JSON; None where a model was given."""
    return {"report": None if report is None else asdict(report)}
