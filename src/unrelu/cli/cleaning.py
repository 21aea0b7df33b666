"""What `clean` writes, block of rows by block of rows, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from unrelu.bad_cells.shares import left_columns, too_many
from unrelu.cli.inputs import ids_of
from unrelu.cli.outputs import check_names, write_rows
from unrelu.contracts import BoolArray, FloatArray, Samples
from unrelu.errors import ManyBadCellsWarning
from unrelu.estimators import FloorImputer, FloorOutlierDetector
from unrelu.posterior.filling import Filling
from unrelu.posterior.imputation import imputed
from unrelu.report.bad_cell_picture import bad_cell_picture
from unrelu.report.summaries import labels
from unrelu.report.tables import doubts_shown, new_table
from unrelu.samples.tables import write_columns
from unrelu.validation import counted, warn

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

_MOST_SHOWN = 10


class Cleaning:
    """A table, the detector of its bad cells, and what becomes of them."""

    def __init__(self, detector: FloorOutlierDetector, table: Samples, impute: bool, level: float) -> None:
        self._detector, self._table, self._impute = detector, table, impute
        self._model, self._ids = detector.distribution_, ids_of(table)
        self._names = labels(self._model)
        check_names([*self._ids, *self._names])
        self._probability = detector.cell_probabilities(table)
        self._bad = self._without_columns_in_doubt(self._probability > level)
        self._old, self._new = np.empty(0), np.empty(0)

    def _without_columns_in_doubt(self, bad: BoolArray) -> BoolArray:
        """Bad cells, but for columns of which more than a third would be: these are named and left."""
        tolerance, n_bad, there, first = self._detector.floor_tolerance, [], [], 0
        for block in self._table.blocks():
            with np.errstate(invalid="ignore"):
                off = (block.values > self._model.floor + tolerance) & (block.values < self._model.ceiling - tolerance)
            here = bad[first : first + len(off)]
            n_bad.append([here.sum(axis=0), (here & off).sum(axis=0)])
            there.append([np.count_nonzero(~np.isnan(block.values), axis=0), off.sum(axis=0)])
            first += len(off)
        left = too_many(np.sum(n_bad, axis=0), np.sum(there, axis=0))
        if left.any():
            warn(left_columns(left, self._names), ManyBadCellsWarning)
        return np.asarray(bad & ~left)

    @property
    def _report(self) -> Any:
        return getattr(self._detector, "report_", None)

    def write(self, path: Path) -> None:
        """The table without its bad cells; what was and what became of them is kept."""
        write_rows(path, self._cleaned(), self._names, self._ids)

    def _cleaned(self) -> Iterator[FloatArray]:
        old, new, first = [], [], 0
        imputer = FloorImputer.from_model(self._model, floor_tolerance=self._detector.floor_tolerance)
        blocks = imputer.cells(self._table) if self._impute else iter(())
        for block in self._table.blocks():
            bad = self._bad[first : first + len(block.values)]
            cleaned = np.array(block.values, dtype=np.float64)
            old.append(cleaned[bad])
            cleaned[bad] = np.nan
            if self._impute:
                filled = imputed(self._model, next(blocks).without_cells(bad), (), Filling("missing", "floor"))[0]
                cleaned[bad] = filled[bad]  # what the row would have shown
            new.append(cleaned[bad])
            first += len(bad)
            yield cleaned
        self._old, self._new = np.concatenate(old), np.concatenate(new)

    def write_changes(self, path: Path) -> None:
        write_columns(path, iter([self._changes()]))

    def _changes(self) -> dict[str, Any]:
        """A line for every changed cell, in the order of the table."""
        import pyarrow as pa

        rows, columns = np.nonzero(self._bad)
        return {
            "row": rows + 1,
            **{name: [texts[row] for row in rows.tolist()] for name, texts in self._ids.items()},
            "column": [self._names[j] for j in columns.tolist()],
            "old": self._old,
            "new": pa.array(self._new, from_pandas=True),  # nothing, where it was made missing
            "bad_probability": self._probability[rows, columns],
        }

    def picture(self) -> Figure:
        return bad_cell_picture(self._detector.strangeness(self._table), self._probability, self._names)

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        by_column = dict(zip(self._names, self._bad.sum(axis=0).tolist(), strict=True))
        return {
            "rows": len(self._bad),
            "cells": int(np.count_nonzero(~np.isnan(self._probability))),
            "changed": int(self._bad.sum()),
            "changed_by_column": by_column,
            "changed_to": "imputed" if self._impute else "missing",
            "report": None if self._report is None else asdict(self._report),
        }

    def shown(self, by: str, words: Callable[[str], str]) -> list[str | Table]:
        """For the terminal; ``by``: by whom, and how long it took."""
        facts = self.facts()
        what = "imputed" if self._impute else "made missing"
        told: list[str | Table] = [
            f"{counted(facts['changed'], 'cell')} of {facts['cells']:,} in {counted(facts['rows'], 'row')} {what}, by"
            f" {by}.",
            *doubts_shown(self._report, self._names, words),
        ]
        most = sorted(facts["changed_by_column"].items(), key=lambda each: -each[1])
        table = new_table("column", numbers=("changed", "share"))
        for name, count in [each for each in most if each[1] > 0][:_MOST_SHOWN]:
            table.add_row(Text(name), f"{count:,}", f"{count / max(len(self._bad), 1):.2%}")
        return [*told, table] if facts["changed"] else told
