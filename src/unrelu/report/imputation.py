"""Completed tables and predicted columns: rows, means of columns before and after, the error of predictions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.special import ndtr

from unrelu.contracts import BoolArray, FloatArray, Samples
from unrelu.estimators import FloorImputer
from unrelu.margins import Normal
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import Cells, SampledCells
from unrelu.posterior.density import naming_gross
from unrelu.posterior.draws import drawn, drawn_parts
from unrelu.posterior.marginals import Prediction, imputed, predicted
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, SEEN, new_figure, panels_of, short_name, tidy
from unrelu.report.tables import Facts, Rows, check_names, labels, level_name, table_of, write_rows
from unrelu.tables.write import write_columns
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_IN_MEMORY = 2**26  # bytes of an output that waits in memory until the one before it is written; more lie on disk
_PICTURED, _MOST_PICTURED = 5000, 6  # rows, columns
_BINS = 50
_WIDE = 30.0  # largest over smallest value from which an axis is logarithmic
_MOST_COLUMNS = 20
_MOST_NAMED = 6
_SHOWN = (
    "Missing cells of {}: filled as the table would show them, within its limits (--below latent: before censoring)."
)
_MEANS = (
    "Filled in by {}: nearest to the truth cell by cell, but the completed table has too little spread and too strong"
    " correlations. For statistics of it use --draws."
)


class Completion:
    """A table completed by medians or means, with further quantiles (``levels``), or by a number of draws.

    All outputs come from one pass over the table, which also adds up counts and sums of columns. The first output
    makes that pass; the others, which ``kept`` names ("std", "mask", and "rows", for the picture), wait in memory
    while they are small, else on disk.
    """

    def __init__(
        self,
        imputer: FloorImputer,
        table: Samples,
        median: bool = False,
        levels: tuple[float, ...] = (),
        draws: int | None = None,
        parameters: str | None = None,
        seed: int = 0,
        kept: Collection[str] = (),
    ) -> None:
        self._imputer, self._table, self._ids = imputer, table, table.ids()
        self._median, self._levels, self._filling = median, levels, imputer.filling
        self._model, self._draws, self._seed = imputer.distribution_, draws, seed
        self._models: RectifiedGaussian | list[RectifiedGaussian] = self._model
        if draws:
            self._models = imputer.drawn_models(draws, seed, parameters)
        self._filled_by = "draws" if draws else "medians" if median else "means"
        self._names = labels(self._model)
        self._further = [f"{name}_{level_name(level)}" for level in levels for name in self._names]
        check_names([*(["draw"] if draws else []), *self._ids, *self._names, *self._further])
        # Files of blocks, one behind the other.
        self._kept = {name: SpooledTemporaryFile(max_size=_IN_MEMORY) for name in kept}  # noqa: SIM115
        self._blocks = self._rows = self._rows_missing = 0
        d = len(self._names)
        self._counts = np.zeros((5, d), dtype=np.int64)  # seen, at a floor, at a ceiling, missing, filled
        self._left = np.zeros(3, dtype=np.int64)  # as they are: at a floor, at a ceiling, missing
        self._sums = np.zeros((3, d))  # of what is seen, of the limits, of the completed rows

    def _pass(self) -> Iterator[tuple[Cells, FloatArray]]:
        """Cells, and the same rows completed, block by block; later outputs are kept on the way.

        Completed rows are draws x rows x columns, a few at a time, or rows with their quantiles beside them.
        """
        for cells, completed, std in self._completed(naming_gross(self._model, self._imputer.cells(self._table))):
            filled = self._filling.filled(cells)
            self._add(cells, completed[..., : len(self._names)], filled)
            made: dict[str, Any] = {"rows": completed, "std": std, "mask": filled.astype(np.float32)}
            for name, file in self._kept.items():
                np.save(file, made[name])
            self._blocks += 1
            yield cells, completed

    def _completed(self, blocks: Iterator[Cells]) -> Iterator[tuple[Cells, FloatArray, FloatArray]]:
        """The same, with the standard deviations of cells."""
        if self._draws:
            for cells, part in drawn_parts(self._models, blocks, self._draws, self._seed, self._filling):
                std = imputed(self._model, cells, (), self._filling)[1] if "std" in self._kept else np.empty(0)
                yield cells, part, std
            return
        middle = (0.5,) if self._median else ()
        for cells in blocks:  # one posterior gives all of these
            mean, std, *others = imputed(self._model, cells, (*middle, *self._levels), self._filling)
            yield cells, np.hstack(others if self._median else [mean, *others]), std

    def _add(self, cells: Cells, completed: FloatArray, filled: BoolArray) -> None:
        missing, seen = np.isnan(cells.given), ~cells.hidden
        self._rows += len(seen)
        self._rows_missing += int(np.count_nonzero(missing.all(axis=1)))
        kinds = (cells.censoring < 0, cells.censoring > 0, missing)
        for count, which in zip(self._counts, (seen, *kinds, filled), strict=True):
            count += np.count_nonzero(which, axis=0)
        self._left += [np.count_nonzero(kind & ~filled) for kind in kinds]
        mean = np.nan_to_num(completed.mean(axis=0) if completed.ndim == 3 else completed)
        limits = np.where(seen | missing, 0.0, cells.given)
        for total, values in zip(self._sums, (np.where(seen, cells.given, 0.0), limits, mean), strict=True):
            total += values.sum(axis=0)

    def _kept_blocks(self, name: str) -> Iterator[FloatArray]:
        self._kept[name].seek(0)
        for _ in range(self._blocks):
            yield np.load(self._kept[name])

    # --- outputs ----------------------------------------------------------------------------------

    def picture(self) -> Figure:
        """The picture of a random sample of the rows. It comes before the rows, as it makes the pass."""
        sample = SampledCells.of((cells for cells, _ in self._pass()), _PICTURED, self._seed)
        cells, d = sample.cells, len(self._names)
        if self._draws:
            completed = drawn(self._model, cells, 1, self._seed, self._filling)[0]
        else:
            chosen, first = [], 0
            for block in self._kept_blocks("rows"):
                here = (sample.rows >= first) & (sample.rows < first + len(block))
                chosen.append(block[sample.rows[here] - first, :d])
                first += len(block)
            completed = np.vstack(chosen)
        columns = filled_columns(self._model, cells, completed, self._filling.filled(cells))
        return imputation_picture(columns, len(completed), self._filled_by)

    def write(self, path: Path) -> None:
        """Write the completed table, or tables."""
        made = self._kept_blocks("rows") if "rows" in self._kept else (rows for _, rows in self._pass())
        if self._draws:
            write_columns(path, self._stacked(made, self._draws))
        else:
            write_rows(path, made, [*self._names, *self._further], self._ids)

    def _stacked(self, made: Iterator[FloatArray], number: int) -> Iterator[dict[str, Any]]:
        """The draws of a few rows below each other, then those of the next rows."""
        first = 0
        for part in made:
            rows = part.shape[1]
            ids = {name: list(texts[first : first + rows]) * number for name, texts in self._ids.items()}
            values = part.reshape(number * rows, -1)
            counts = {"draw": np.repeat(np.arange(1, number + 1, dtype=np.int32), rows)}
            yield {**counts, **ids, **{name: values[:, j] for j, name in enumerate(self._names)}}
            first += rows

    def write_kept(self, name: str, path: Path) -> None:
        """Write standard deviations or the mask, after the completed table."""
        write_rows(path, self._kept_blocks(name), self._names, self._ids)

    # --- the answer -------------------------------------------------------------------------------

    def facts(self) -> Facts:
        """``mean_at_limits`` takes cells at a limit for that limit, and leaves missing cells out; ``mean_of_model`` is
        the mean of the distribution whose values are filled in. ``missing_as_seen``: missing cells get what the table
        would show, no value below the floor."""
        seen, floored, ceiled, missing, filled = self._counts
        of_all = "latent" if self._filling.below == "auto" and self._filling.fill != "missing" else self._filling.below
        with np.errstate(invalid="ignore", divide="ignore"):
            columns = {
                "floored": floored,
                "at_ceiling": ceiled,
                "missing": missing,
                "share_hidden": (self._rows - seen) / self._rows,
                "mean_seen": self._sums[0] / seen,
                "mean_at_limits": (self._sums[0] + self._sums[1]) / (self._rows - missing),
                "mean_completed": self._sums[2] / (self._rows - (missing if self._left[2] else 0)),
                "mean_of_model": np.array([each["mean"] for each in self._model.column_summary(below=of_all)]),
                "missing_as_seen": self._filling.as_seen(self._model),
            }
        lists = {name: values.tolist() for name, values in columns.items()}
        drawn_from = {"parameters": "drawn" if isinstance(self._models, list) else "fitted"} if self._draws else {}
        return {
            "filled_by": self._filled_by,
            **drawn_from,
            "rows": self._rows,
            "n_features": len(self._names),
            "cells_floored": int(floored.sum()),
            "cells_at_ceiling": int(ceiled.sum()),
            "cells_missing": int(missing.sum()),
            "cells_filled": int(filled.sum()),
            "rows_all_missing": self._rows_missing,
            "columns": [
                {"name": name, **{key: values[j] for key, values in lists.items()}}
                for j, name in enumerate(self._names)
            ],
        }

    def rows(self, by: str) -> Rows:
        """``by``: the model in use, and the time it took."""
        entries = self.facts()
        kinds = [entries["cells_floored"], entries["cells_at_ceiling"], entries["cells_missing"]]
        floored, ceiled, missing = (np.array(kinds) - self._left).tolist()
        ceilings = f", {ceiled:,} at their ceiling" if entries["cells_at_ceiling"] else ""
        words = zip(self._left.tolist(), ("at their floor", "at their ceiling", "missing"), strict=True)
        left = " and ".join(f"{number:,} {kind}" for number, kind in words if number)
        left = f" Left as they are: {left}." if left else ""
        cells, filled = self._rows * len(self._names), entries["cells_filled"]
        shown: Rows = [
            f"Filled in {filled:,} of {counted(cells, 'cell')} ({filled / cells:.1%}) in"
            f" {counted(self._rows, 'row')} of {counted(len(self._names), 'column')} by {by}:"
            f" {floored:,} at their floor{ceilings}, {missing:,} missing.{left}"
        ]
        if self._rows_missing and not self._left[2]:
            prior = "no value, filled in by the model alone"
            shown.append(f"{counted(self._rows_missing, 'row')} with {prior}.")
        as_seen = [c["name"] for c in entries["columns"] if c["missing_as_seen"] and c["missing"] and not self._left[2]]
        if as_seen:
            shown.append(_SHOWN.format(listed(as_seen, most=_MOST_NAMED)))
        if filled and not self._draws:
            shown.append(_MEANS.format(self._filled_by))
        columns = [("mean of", "{name}"), (">hidden", "{share_hidden:.1%}"), (">seen cells", "{mean_seen:.4g}")]
        columns += [(">limits for hidden", "{mean_at_limits:.4g}"), (">completed", "{mean_completed:.4g}")]
        columns += [(">the model", "{mean_of_model:.4g}")]
        return [*shown, table_of(entries["columns"], *columns, most=_MOST_COLUMNS)]


# --- one column predicted --------------------------------------------------------------------------


class PredictedColumn:
    """Predictions of a column given the others, and their errors where the table has the column."""

    def __init__(self, distribution: RectifiedGaussian, j: int, levels: tuple[float, ...]) -> None:
        self._rows = self._values = 0
        self._distribution, self._column, self._levels = distribution, j, levels
        self._origin = 0.0  # about which squares are summed: near the mean, for their digits
        self._sums = np.zeros(7)

    def lines(self, imputer: FloorImputer, table: Samples, *, uncut: bool) -> Iterator[dict[str, Any]]:
        """One line per row, block by block: predictions of the table's value, or of the ``uncut`` one."""
        j, levels, distribution, ids, first = self._column, self._levels, self._distribution, table.ids(), 0
        check_names(["row", *ids, "mean", "std", "probability_floored", *map(level_name, levels)])
        own_limits, lacks = bool(getattr(table, "limits_by_cell", ())), distribution.n_features > imputer.n_features_in_
        for given in imputer.cells(table):
            cells = given.widened(j) if lacks else given
            rest = cells.without(j)
            found = predicted(distribution, rest, j, levels)
            self.add(
                rest if own_limits else cells, found
            )  # a cell with a limit of its own has no value to compare with
            if uncut:
                found = predicted(distribution, rest, j, levels, hidden=True)
            rows = slice(first, first + len(found.mean))
            first = rows.stop
            yield {
                "row": np.arange(rows.start, rows.stop) + 1,
                **{name: list(texts[rows]) for name, texts in ids.items()},
                "mean": found.mean,
                "std": found.std,
                **{level_name(level): found.quantiles[:, k] for k, level in enumerate(found.levels)},
                "probability_floored": found.probability_floored,
            }

    def add(self, cells: Cells, found: Prediction) -> None:
        """Add some rows; a cell at its limit counts as that limit."""
        x, at_limit = cells.given[:, self._column], cells.censoring[:, self._column] != 0
        seen = ~np.isnan(x)
        self._rows += len(x)
        if not seen.any():
            return
        if not self._values:
            self._origin = float(x[seen].mean())
        self._values += int(seen.sum())
        # The model's own probability of the closed interval: where an end is a limit, all censored values are in it.
        low, high = self._levels[0], self._levels[-1]
        first, last = found.quantiles[:, 0], found.quantiles[:, -1]
        floor, ceiling = self._distribution.floor[self._column], self._distribution.ceiling[self._column]
        one = np.where(first <= floor, high, np.where(last >= ceiling, 1.0 - low, high - low))
        parts = (
            x - self._origin,
            (x - self._origin) ** 2,
            (x - found.mean) ** 2,
            (first <= x) & (x <= last),
            np.where((last <= floor) | (first >= ceiling), found.probability_floored, one),
            at_limit,
            found.probability_floored,
        )
        self._sums += [float(np.sum(part[seen])) for part in parts]

    def facts(self) -> Facts:
        """The errors of the predictions, where the table has the column."""
        if not self._values:
            return {"rows": self._rows, "values": 0}
        total, square, error, within, expected, floored, predicted = self._sums / self._values
        variance = square - total**2
        return {
            "rows": self._rows,
            "values": self._values,
            "share_explained": 1.0 - error / variance if variance > 0.0 else None,
            "root_mean_square_error": float(np.sqrt(error)),
            "share_within": within,
            "expected_share_within": expected,
            "share_floored": floored,
            "predicted_share_floored": predicted,
        }

    def rows(self, by: str, name: str) -> Rows:
        """``by``: the model in use, and the time it took; ``name``: that of the column."""
        entries, low, high = self.facts(), self._levels[0], self._levels[-1]
        others, rows = counted(self._distribution.n_features - 1, "other column"), counted(self._rows, "row")
        lines: Rows = [f"Predicted {name} from {others} in {rows} by {by}."]
        if not self._values:
            return lines
        explained = entries["share_explained"]
        share = "nothing" if explained is None or explained <= 0.0 else f"{explained:.1%}"
        lines.append(
            f"Explained: {share} of the variance of the column's {counted(self._values, 'value')} in the table; root"
            f" mean square error {entries['root_mean_square_error']:.4g}."
        )
        if low < high:
            lines.append(
                f"Between the {100.0 * low:g} and the {100.0 * high:g} % quantile: {entries['share_within']:.1%} of"
                f" them; the model expects {entries['expected_share_within']:.1%}."
            )
        floored, predicted = entries["share_floored"], entries["predicted_share_floored"]
        if floored or predicted > 0.0005:
            lines.append(f"At the limit: {floored:.1%} of them; the model expects {predicted:.1%}.")
        return lines


# --- the picture ----------------------------------------------------------------------------------


# A column of some rows: its name and values, which of these were filled in, its limits, and the distribution function
# of its values before censoring.
FilledColumn: TypeAlias = tuple[str, FloatArray, BoolArray, FloatArray, Callable[[FloatArray], FloatArray]]


def filled_columns(
    model: RectifiedGaussian, cells: Cells, completed: FloatArray, filled: BoolArray | None = None
) -> list[FilledColumn]:
    """The columns with cells that were ``filled`` in, the hidden ones by default, those with most of them first."""
    hidden = cells.hidden if filled is None else filled
    margins = model.margins or (Normal(),) * model.n_features
    order = np.argsort(-hidden.sum(axis=0), kind="stable")[:_MOST_PICTURED]
    names = labels(model)
    found: list[FilledColumn] = []
    for j in [j for j in order.tolist() if hidden[:, j].any()]:
        limits = np.unique(cells.given[cells.censoring[:, j] != 0, j])
        there = ~np.isnan(completed[:, j])  # missing cells may stay so

        def below(x: FloatArray, j: int = j) -> FloatArray:
            return np.asarray(ndtr((margins[j].to_latent(x) - model.mean[j]) / max(model.std[j], 1e-300)))

        found.append((names[j], completed[there, j], hidden[there, j], limits, below))
    return found


def imputation_picture(columns: list[FilledColumn], n_rows: int, filling: str) -> Figure:
    """A histogram for each column: seen values, filled-in ones on top, the limit, and the model's distribution."""
    wide = 2 if len(columns) == 4 else min(max(len(columns), 1), 3)
    high = max(-(-len(columns) // wide), 1)
    title = f"Columns with most hidden cells, filled by {filling} ({n_rows:,} rows)"
    title = title if columns else "No cell is hidden: nothing was filled in"
    figure = new_figure((4.6 * wide, 3.5 * high + 0.8), title, 13.0)
    for axes, column in zip(panels_of(figure, high, wide, len(columns)), columns, strict=True):
        _draw(axes, column, legend=column is columns[0])
    return figure


def bin_edges(values: FloatArray, limits: FloatArray) -> FloatArray:
    """Edges of bins over all values, one of them at a lone limit; of equal ratios where positive values span much."""
    ratios = bool(values.min() > 0.0 and values.max() > _WIDE * values.min())
    places = np.array([values.min(), values.max(), *limits])
    low, high, *others = np.log(places) if ratios else places
    width = (high - low) / _BINS if high > low else 1.0
    start = others[0] if len(others) == 1 and low < others[0] < high else low
    below, above = int(np.ceil((start - low) / width - 1e-9)), int(np.ceil((high - start) / width - 1e-9))
    edges = start + width * np.arange(-below, max(above, 1) + 1)
    return np.asarray(np.exp(edges) if ratios else edges)


def _draw(axes: Axes, column: FilledColumn, legend: bool) -> None:
    name, values, were_filled, limits, below = column
    edges = bin_edges(values, limits)
    seen, filled = (np.histogram(values[which], edges)[0] for which in (~were_filled, were_filled))
    axes.stairs(seen + filled, edges, baseline=seen, fill=True, color=NAIVE, alpha=0.75, label="filled in")
    axes.stairs(seen, edges, fill=True, color=SEEN, label="seen")
    expected = len(values) * np.diff(below(edges))
    axes.stairs(expected, edges, color=LEARNED, linewidth=1.5, label="the model, before censoring")
    for limit in limits[:1] if len(limits) > 3 else limits:
        axes.axvline(limit, color=INK, linestyle="--", linewidth=1.2)
    if len(limits):
        axes.plot([], [], color=INK, linestyle="--", linewidth=1.2, label="limit")
    if values.min() > 0.0 and values.max() > _WIDE * values.min():
        axes.set_xscale("log")
    # Means of cells in rows that are alike lie in one place: they must not flatten everything else.
    top = 1.15 * max(float(seen.max()), float(expected.max()), 1.0)
    tallest = float((seen + filled).max())
    if tallest > 2.0 * top:
        axes.annotate(f"up to {tallest:,.0f}", (0.02, 0.94), xycoords="axes fraction", color=INK, fontsize=8)
    axes.set_ylim(0.0, min(1.1 * tallest, 2.0 * top) if tallest > top else top)
    tidy(axes, f"{short_name(name, 24)}: {were_filled.mean():.0%} hidden", "", "rows")
    if legend:
        axes.legend(framealpha=0.9, edgecolor=HIDDEN, fontsize=8, loc="upper right")
