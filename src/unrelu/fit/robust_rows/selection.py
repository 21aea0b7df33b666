"""Some of the columns, some of the rows: index arrays, and evidence on part of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, Evidence, Question, R
from unrelu.posterior.row_scores import Values

ColumnIndex = NDArray[np.intp]  # positions of columns in the table
RowIndex = NDArray[np.intp]  # positions of rows


def selected(values: Values, columns: ColumnIndex) -> Values:
    """Some of the columns; the table itself, not a copy, where they are all."""
    return values if len(columns) == values.shape[1] else values[:, columns]


@dataclass(frozen=True, eq=False)
class SelectedQuestion:
    """A question about some of the columns."""

    question: Any
    columns: ColumnIndex

    def __call__(self, block: Block) -> Any:
        return self.question(Block(selected(block.values, self.columns), block.first_row, block.weights))


class ColumnEvidence:
    """Evidence on some of the columns."""

    def __init__(self, evidence: Evidence, columns: ColumnIndex) -> None:
        self._evidence, self._columns, self.place = evidence, columns, evidence.place

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        names = self._evidence.feature_names
        return None if names is None else tuple(names[j] for j in self._columns)

    def collect(self, question: Question[R], remember: bool = True) -> R:
        record: R = self._evidence.collect(SelectedQuestion(question, self._columns), remember)
        return record
