"""What `impute` writes, block of rows by block of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.cli.inputs import ids_of
from unrelu.cli.outputs import check_names, level_name, write_rows
from unrelu.contracts import FloatArray, LearningReport, Samples
from unrelu.distribution import RectifiedGaussian
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


@dataclass(frozen=True)
class Draws:
    """How many tables are drawn, None for none, and from which models."""

    number: int | None = None
    seed: int = 0
    parameters: str | None = None


class Completion:
    """A table and what fills it in: medians or means, further quantiles, or draws."""

    def __init__(
        self,
        imputer: FloorImputer,
        table: Samples,
        median: bool = False,
        levels: tuple[float, ...] = (),
        draws: Draws = Draws(),
    ) -> None:
        self._imputer, self._table, self._seed = imputer, table, draws.seed
        self._median, self._levels, self._filling = median, levels, imputer.filling
        self._model, self._ids, self._draws = imputer.distribution_, ids_of(table), draws.number
        self._models: RectifiedGaussian | list[RectifiedGaussian] = self._model
        if draws.number:
            self._models = imputer.drawn_models(draws.number, draws.seed, draws.parameters)
        self._names = labels(self._model)
        of_all = "latent" if imputer.below == "auto" and imputer.fill != "missing" else imputer.below
        law = self._model.column_summary(below=of_all)
        self.tally = Tally(self._names, [column["mean"] for column in law], self._filling.as_seen(self._model))
        check_names([*(["draw"] if self._draws else []), *self._ids, *self._names, *self._further()])

    @property
    def report(self) -> LearningReport | None:
        """Of the fit, if there was one."""
        return getattr(self._imputer, "report_", None)

    @property
    def told(self) -> str:
        """What the cells are filled by, where there is something to be said of it."""
        return "" if self._draws else "medians" if self._median else "means"

    def facts(self) -> dict[str, Any]:
        drawn_from = {"parameters": "drawn" if isinstance(self._models, list) else "fitted"} if self._draws else {}
        return {
            "filled_by": self.told or "draws",
            **drawn_from,
            **self.tally.facts(),
            **report_facts(self.report),
        }

    def write(self, path: Path) -> None:
        """The completed table, or tables."""
        if self._draws:
            write_columns(path, self._drawn(self._draws))
        else:
            write_rows(path, self._completed(), [*self._names, *self._further()], self._ids)

    def write_std(self, path: Path) -> None:
        write_rows(
            path, (imputed(self._model, cells, (), self._filling)[1] for cells in self._cells()), self._names, self._ids
        )

    def write_mask(self, path: Path) -> None:
        write_rows(
            path, (self._filling.filled(cells).astype(np.float32) for cells in self._cells()), self._names, self._ids
        )

    def picture(self) -> Figure:
        """Of some of the rows, chosen by chance."""
        cells = SampledCells.of(self._cells(), _PICTURED, self._seed).cells
        if self._draws:
            completed = drawn(self._model, cells, 1, self._seed, self._filling)[0]
        else:
            completed = self._filled(cells)[0]
        columns = filled_columns(self._model, cells, completed, self._filling.filled(cells))
        return imputation_picture(columns, len(completed), self.told or "draws")

    def _further(self) -> list[str]:
        """Names of the columns of quantiles."""
        return [f"{name}_{level_name(level)}" for level in self._levels for name in self._names]

    def _cells(self) -> Iterator[Cells]:
        return self._imputer.cells(self._table)

    def _filled(self, cells: Cells) -> Sequence[FloatArray]:
        """The cells filled in, and as the quantiles have them."""
        middle = (0.5,) if self._median else ()
        mean, _, *others = imputed(self._model, cells, (*middle, *self._levels), self._filling)
        return others if self._median else [mean, *others]

    def _completed(self) -> Iterator[FloatArray]:
        for cells in naming_gross(self._model, self._cells()):
            filled = self._filled(cells)
            self.tally.add(cells, filled[0], self._filling.filled(cells))
            yield np.hstack(filled)

    def _drawn(self, number: int) -> Iterator[dict[str, Any]]:
        """A few rows at a time, as often as there are draws: memory is set by them, not by the table."""
        first = 0
        cells_named = naming_gross(self._model, self._cells())
        for cells, part in drawn_parts(self._models, cells_named, number, self._seed, self._filling):
            self.tally.add(cells, part, self._filling.filled(cells))
            rows = part.shape[1]
            ids = {name: list(texts[first : first + rows]) * number for name, texts in self._ids.items()}
            values = part.reshape(number * rows, -1)
            counts = {"draw": np.repeat(np.arange(1, number + 1, dtype=np.int32), rows)}
            yield {**counts, **ids, **{name: values[:, j] for j, name in enumerate(self._names)}}
            first += rows
