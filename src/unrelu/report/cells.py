"""The strangest cells of a table, how surely each is bad, a picture of them, and the table without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from scipy.special import ndtr

from unrelu.contracts import BoolArray, FloatArray, Samples
from unrelu.errors import ManyBadCellsWarning
from unrelu.estimators import FloorImputer, FloorOutlierDetector
from unrelu.fit.robust_cells.shares import left_columns, too_many
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import Cells, Filling
from unrelu.posterior.marginals import imputed, predicted
from unrelu.report.model import labels
from unrelu.report.pictures import BOTH_SIGNS, HIDDEN, INK, MOST_CELLS, Numbers, name_columns, new_figure
from unrelu.report.tables import check_names, write_rows
from unrelu.report.tables import rows as rows_shown
from unrelu.tables.tables import write_columns
from unrelu.validation import counted, warn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_SHOWN = 10  # columns whose cells were changed
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
    rows: Numbers
    columns: Numbers
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

    def facts(self, most: int) -> dict[str, Any]:
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
        }

    @property
    def _expected(self) -> float:
        return 2.0 * float(ndtr(-_FAR)) * self.n_cells

    def shown(self, judge: str, most: int) -> list[str | Table]:
        """For the terminal; ``judge``: by whom, and how long it took."""
        shown: list[str | Table] = [
            f"Scored {counted(self.n_cells, 'cell')} in {counted(self.n_rows, 'row')} of"
            f" {counted(len(self.names), 'column')} by {judge}.",
            f"{counted(self.n_bad, 'cell')} rather bad than not.",
            f"{counted(self.n_far, 'cell')} beyond 4 standard deviations; a clean table of that size that the model"
            f" fits would have at most about {self._expected:,.{0 if self._expected >= 10 else 1}f}.",
        ]
        lines = [
            (
                f"{cell['row']:,}",
                *cell.get("id", {}).values(),
                cell["column"],
                f"{cell['value']:.4g}",
                f"{cell['predicted_mean']:.4g} ± {cell['predicted_std']:.2g}",
                f"{cell['score']:+.1f}",
                f"{cell['bad_probability']:.3f}",
            )
            for cell in self.facts(most)["strangest_cells"]
        ]
        heads = (">row", *(f">{name}" for name in self.ids), "column", ">value", ">predicted", ">score", ">bad")
        return [*shown, _LEGEND, rows_shown(heads, lines)] if lines else shown


def _looked_at(
    model: RectifiedGaussian, blocks: Iterable[Cells], rows: Numbers, columns: Numbers
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


# --- their picture --------------------------------------------------------------------------------


def worst_rows(bad: FloatArray, most: int = MOST_CELLS) -> Numbers:
    """At most so many rows, from that with most bad cells down.

    >>> worst_rows(np.array([[0.0, 0.1], [0.9, 0.8], [0.0, np.nan]]), 2)
    array([1, 0])
    """
    return np.argsort(-np.nansum(bad, axis=1), kind="stable")[:most]


def bad_cell_picture(strangeness: FloatArray, bad: FloatArray, names: tuple[str, ...]) -> Figure:
    """Red for a cell that is bad and too high, blue for one too low, as strong as that is certain; grey is missing."""
    import matplotlib

    rows = worst_rows(bad)
    shown = np.where(strangeness[rows] < 0.0, -1.0, 1.0) * bad[rows]
    figure = new_figure((min(4.0 + 0.25 * len(names), 12.0), 6.5))
    axes = figure.subplots()
    colours: Any = matplotlib.colormaps[BOTH_SIGNS].with_extremes(bad=HIDDEN)
    drawn = axes.imshow(shown, cmap=colours, vmin=-1.0, vmax=1.0, aspect="auto", interpolation="nearest")
    count = int(np.count_nonzero(bad > 0.5))
    some = f"the worst {len(rows):,} of {len(bad):,} rows" if len(rows) < len(bad) else counted(len(bad), "row")
    axes.set_title(f"{counted(count, 'bad cell')}; {some}, the worst first", loc="left", fontsize=11, color=INK)
    axes.set_ylabel("rows, by bad cells")
    name_columns(axes, names)
    bar = figure.colorbar(drawn, ax=axes, ticks=[-1.0, 0.0, 1.0], fraction=0.04)
    bar.ax.set_yticklabels(["too low", "genuine", "too high"])
    return figure


# --- the table without them -----------------------------------------------------------------------


class Cleaning:
    """A table, the detector of its bad cells, and what becomes of them."""

    def __init__(
        self,
        detector: FloorOutlierDetector,
        table: Samples,
        ids: Mapping[str, Sequence[str]],
        impute: bool,
        level: float,
    ) -> None:
        self._detector, self._table, self._impute = detector, table, impute
        self._model, self._ids = detector.distribution_, ids
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
        """A line for every changed cell, in the order of the table."""
        import pyarrow as pa

        rows, columns = np.nonzero(self._bad)
        changes = {
            "row": rows + 1,
            **{name: [texts[row] for row in rows.tolist()] for name, texts in self._ids.items()},
            "column": [self._names[j] for j in columns.tolist()],
            "old": self._old,
            "new": pa.array(self._new, from_pandas=True),  # nothing, where it was made missing
            "bad_probability": self._probability[rows, columns],
        }
        write_columns(path, iter([changes]))

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
        }

    def shown(self, by: str) -> list[str | Table]:
        """For the terminal; ``by``: by whom, and how long it took."""
        facts = self.facts()
        what = "imputed" if self._impute else "made missing"
        told = f"{counted(facts['changed'], 'cell')} of {facts['cells']:,} in {counted(facts['rows'], 'row')} {what}"
        if not facts["changed"]:
            return [f"{told}, by {by}."]
        most = sorted(facts["changed_by_column"].items(), key=lambda each: -each[1])
        lines = [(name, f"{n:,}", f"{n / max(len(self._bad), 1):.2%}") for name, n in most[:_MOST_SHOWN] if n > 0]
        return [f"{told}, by {by}.", rows_shown(("column", ">changed", ">share"), lines)]
