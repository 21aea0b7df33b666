"""The strangest cells of a table: how surely each is bad, and how far from what the rest of its row predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text
from scipy.special import ndtr

from unrelu.contracts import FloatArray, LearningReport
from unrelu.distribution import RectifiedGaussian
from unrelu.posterior.cells import Cells
from unrelu.posterior.prediction import predicted
from unrelu.report.summaries import labels
from unrelu.report.tables import doubts_shown, new_table
from unrelu.validation import counted

_ROWS_AT_A_TIME = 100_000
_FAR = 4.0  # standard deviations that a clean table hardly has
_LEGEND = (
    "Score: standard deviations between a cell and what the rest of its row predicts, for a cell at its limit as far as"
    " it should have been beyond; predicted: mean ± standard deviation of the uncut value, in the table's units."
    " Bad: the probability that a cell is none of its row's, by which they are sorted."
)


@dataclass(frozen=True, eq=False)
class StrangestCells:
    """Cells from the strangest on: rows and columns (from 0), probabilities of being bad, scores, values, and what the
    rest of each row predicts.

    ``n_cells``: all that were looked at, ``n_far`` those beyond 4 standard deviations, ``n_bad`` those that are rather
    bad than not. ``ids`` say which row is which.
    """

    names: tuple[str, ...]
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    bad: FloatArray
    scores: FloatArray
    values: FloatArray
    mean: FloatArray
    std: FloatArray
    n_rows: int
    n_cells: int
    n_far: int
    n_bad: int
    ids: Mapping[str, Sequence[str]]

    @classmethod
    def of(
        cls,
        model: RectifiedGaussian,
        judged: tuple[FloatArray, FloatArray],
        blocks: Iterable[Cells],
        top: int | None,
        ids: Mapping[str, Sequence[str]],
    ) -> StrangestCells:
        """The ``top`` of them, or all.

        ``judged``: of all cells, signed standard deviations and probabilities of being bad, NaN where missing.
        """
        strangeness, probability = judged
        size, bad = np.abs(strangeness).ravel(), probability.ravel()
        known = np.flatnonzero(~np.isnan(size))
        near = known
        if top is not None and 0 < top < len(known):  # no need to sort them all
            near = known[bad[known] >= np.partition(bad[known], -top)[-top]]
        order = near[np.lexsort((-size[near], -bad[near]))][:top]
        rows, columns = np.divmod(order, strangeness.shape[1])
        looked_at = _looked_at(model, blocks, rows, columns)
        far, n_bad = (int(np.count_nonzero(each)) for each in (size[known] > _FAR, bad[known] > 0.5))
        given = (probability[rows, columns], strangeness[rows, columns], *looked_at)
        return cls(labels(model), rows, columns, *given, len(strangeness), len(known), far, n_bad, ids)

    def lines(self, size: int = _ROWS_AT_A_TIME) -> Iterator[dict[str, Any]]:
        """One line per cell, for a file, so many at a time."""
        for start in range(0, max(len(self.rows), 1), max(size, 1)):
            at = slice(start, start + size)
            rows = self.rows[at].tolist()
            yield {
                "row": self.rows[at] + 1,
                **{name: [texts[row] for row in rows] for name, texts in self.ids.items()},
                "column": [self.names[j] for j in self.columns[at].tolist()],
                "value": self.values[at],
                "predicted_mean": self.mean[at],
                "predicted_std": self.std[at],
                "score": self.scores[at],
                "bad_probability": self.bad[at],
            }

    def facts(self, most: int, report: LearningReport | None) -> dict[str, Any]:
        """For JSON."""
        names = ("row", "column", "value", "predicted_mean", "predicted_std", "score", "bad_probability")
        first = next(self.lines(most))
        lines = zip(*(np.asarray(first[name]).tolist() for name in names), strict=True)
        cells = [dict(zip(names, line, strict=True)) for line in lines]
        for cell in cells if self.ids else ():
            cell["id"] = {name: texts[cell["row"] - 1] for name, texts in self.ids.items()}
        return {
            "rows": self.n_rows,
            "cells_scored": self.n_cells,
            "cells_bad": self.n_bad,
            "cells_beyond_4": self.n_far,
            "expected_beyond_4": self._expected,
            "strangest_cells": cells,
            "report": None if report is None else asdict(report),
        }

    @property
    def _expected(self) -> float:
        return 2.0 * float(ndtr(-_FAR)) * self.n_cells

    def shown(
        self, judge: str, most: int, report: LearningReport | None, words: Callable[[str], str]
    ) -> list[str | Table]:
        """For the terminal; ``judge``: by whom, and how long it took."""
        cells = self.facts(most, report)["strangest_cells"]
        told: list[str | Table] = [_LEGEND, self._table(cells)] if cells else []
        return [
            f"Scored {counted(self.n_cells, 'cell')} in {counted(self.n_rows, 'row')} of"
            f" {counted(len(self.names), 'column')} by {judge}.",
            *doubts_shown(report, self.names, words),
            f"{counted(self.n_bad, 'cell')} rather bad than not.",
            f"{counted(self.n_far, 'cell')} beyond 4 standard deviations; a clean table of that size that the model"
            f" fits would have at most about {self._expected:,.{0 if self._expected >= 10 else 1}f}.",
            *told,
        ]

    def _table(self, cells: list[dict[str, Any]]) -> Table:
        table = new_table(numbers=("row", *self.ids))
        table.add_column("column", overflow="fold")
        for name in ("value", "predicted", "score", "bad"):
            table.add_column(name, justify="right", no_wrap=True)
        for cell in cells:
            table.add_row(
                f"{cell['row']:,}",
                *map(Text, cell.get("id", {}).values()),
                Text(cell["column"]),
                f"{cell['value']:.4g}",
                f"{cell['predicted_mean']:.4g} ± {cell['predicted_std']:.2g}",
                f"{cell['score']:+.1f}",
                f"{cell['bad_probability']:.3f}",
            )
        return table


def _looked_at(
    model: RectifiedGaussian, blocks: Iterable[Cells], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(values, means, standard deviations) of cells: the uncut value of each given the rest of its row."""
    found, first = np.full((3, len(rows)), np.nan), 0
    for block in blocks:
        inside = np.flatnonzero((rows >= first) & (rows < first + len(block.given)))
        for j in np.unique(columns[inside]).tolist():
            at = inside[columns[inside] == j]
            part = block.of_rows(rows[at] - first)
            law = predicted(model, part.without(j), j, (), hidden=True)
            found[:, at] = part.given[:, j], law.mean, law.std
        first += len(block.given)
    return found[0], found[1], found[2]
