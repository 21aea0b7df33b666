"""What `impute` writes, block of rows by block of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.cli.inputs import ids_of
from unrelu.cli.outputs import check_names, level_name, write_rows
from unrelu.contracts import FloatArray, LearningReport, Samples
from unrelu.estimators import FloorImputer
from unrelu.posterior.cells import Cells, SampledCells
from unrelu.posterior.draws import drawn, drawn_parts
from unrelu.posterior.gross import naming_gross
from unrelu.posterior.imputation import imputed
from unrelu.report.imputation_picture import filled_columns, imputation_picture
from unrelu.report.imputation_summary import Tally, report_facts
from unrelu.report.summaries import labels
from unrelu.samples.tables import write_columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PICTURED = 5000  # rows


class Completion:
    """A table and what fills it in: medians or means, further quantiles, or draws."""

    def __init__(
        self,
        imputer: FloorImputer,
        table: Samples,
        median: bool = False,
        levels: tuple[float, ...] = (),
        draws: int | None = None,
        seed: int = 0,
    ) -> None:
        self._imputer, self._table, self._draws, self._seed = imputer, table, draws, seed
        self._median, self._levels = median, levels
        self._model, self._ids = imputer.distribution_, ids_of(table)
        self._names = labels(self._model)
        self.tally = Tally(self._names)
        check_names([*(["draw"] if draws else []), *self._ids, *self._names, *self._further()])

    @property
    def report(self) -> LearningReport | None:
        """Of the fit, if there was one."""
        return getattr(self._imputer, "report_", None)

    @property
    def told(self) -> str:
        """What the cells are filled by, where there is something to be said of it."""
        return "" if self._draws else "medians" if self._median else "means"

    def facts(self) -> dict[str, Any]:
        return {"filled_by": self.told or "draws", **self.tally.facts(), **report_facts(self.report)}

    def write(self, path: Path) -> None:
        """The completed table, or tables."""
        if self._draws:
            write_columns(path, self._drawn(self._draws))
        else:
            write_rows(path, self._completed(), [*self._names, *self._further()], self._ids)

    def write_std(self, path: Path) -> None:
        write_rows(path, (imputed(self._model, cells)[1] for cells in self._cells()), self._names, self._ids)

    def write_mask(self, path: Path) -> None:
        write_rows(path, (cells.hidden.astype(np.float32) for cells in self._cells()), self._names, self._ids)

    def picture(self) -> Figure:
        """Of some of the rows, chosen by chance."""
        cells = SampledCells.of(self._cells(), _PICTURED, self._seed).cells
        completed = drawn(self._model, cells, 1, self._seed)[0] if self._draws else self._filled(cells)[0]
        return imputation_picture(filled_columns(self._model, cells, completed), len(completed), self.told or "draws")

    def _further(self) -> list[str]:
        """Names of the columns of quantiles."""
        return [f"{name}_{level_name(level)}" for level in self._levels for name in self._names]

    def _cells(self) -> Iterator[Cells]:
        return self._imputer.cells(self._table)

    def _filled(self, cells: Cells) -> Sequence[FloatArray]:
        """The cells filled in, and as the quantiles have them."""
        middle = (0.5,) if self._median else ()
        mean, _, *others = imputed(self._model, cells, (*middle, *self._levels))
        return others if self._median else [mean, *others]

    def _completed(self) -> Iterator[FloatArray]:
        for cells in naming_gross(self._model, self._cells()):
            filled = self._filled(cells)
            self.tally.add(cells, filled[0])
            yield np.hstack(filled)

    def _drawn(self, number: int) -> Iterator[dict[str, Any]]:
        """A few rows at a time, as often as there are draws: memory is set by them, not by the table."""
        first = 0
        for cells, part in drawn_parts(self._model, naming_gross(self._model, self._cells()), number, self._seed):
            self.tally.add(cells, part)
            rows = part.shape[1]
            ids = {name: list(texts[first : first + rows]) * number for name, texts in self._ids.items()}
            values = part.reshape(number * rows, -1)
            counts = {"draw": np.repeat(np.arange(1, number + 1, dtype=np.int32), rows)}
            yield {**counts, **ids, **{name: values[:, j] for j, name in enumerate(self._names)}}
            first += rows
