"""Outlying rows and cells in numbers, tables and pictures, and the table without its bad cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from unrelu.contracts import BoolArray, FloatArray, Samples
from unrelu.estimators import FloorImputer, FloorOutlierDetector
from unrelu.fit.robust_cells.cell_model import too_many
from unrelu.fit.robust_rows.detection import Verdict
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import Cells, Filling
from unrelu.posterior.marginals import imputed, predicted
from unrelu.report.pictures import (
    BOTH_SIGNS,
    HIDDEN,
    INK,
    LEARNED,
    MOST_CELLS,
    NAIVE,
    Numbers,
    draw_signed,
    name_columns,
    new_figure,
    tidy,
)
from unrelu.report.tables import ROWS_AT_A_TIME, Facts, Rows, check_names, facts, labels, rows, table_of, write_rows
from unrelu.tables.write import write_columns
from unrelu.validation import counted, label_columns, warn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MANY = (
    "That is more than chance has it. They are outliers only if the other rows fit the model: the tail of a skewed"
    " column is flagged as well, unless --margins auto fits it."
)
_FLAGGED = (
    "Cells: standard deviations from the value that the row's other cells predict. Weight: how much the row counted in"
    " the fit; a flagged row of weight 1.00 is no more outlying than some inlier rows are."
)
_CELLS = (
    "Residual: standard deviations from the value that the row's other cells predict. Predicted: mean ± standard"
    " deviation of the value before censoring, in the table's units. Bad: the probability that the cell does not belong"
    " to its row, by which cells are sorted."
)
_MOST_SHOWN = 10  # columns whose cells were changed
_FAR = 4.0  # standard deviations that few cells of a clean table have
_BINS = 60
_DEPTH = 3.0  # the axis shows scores this many times as far below the typical one as the threshold is
_LINEAR = 3.0  # standard deviations up to which colours are about linear; then they are logarithmic
_MOST_ROWS, _MOST_COLUMNS = 25, 30
_MOST_NUMBERS, _MOST_WIDE = 150, 12  # cells, and columns of them, that can be read
_FEW_ROWS = 8


# --- rows -----------------------------------------------------------------------------------------


def _drivers_in_words(scored: Verdict, names: Sequence[str], row: int) -> str:
    """A row's most outlying cells, "As +7.2, Pb -4.1"."""
    return ", ".join(f"{names[column]} {size:+.1f}" for column, size in scored.drivers(row))


def score_lines(
    detector: FloorOutlierDetector, scored: Verdict, ids: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Any]]:
    """One line per row, for a file: its ``ids``, columns of text, its score, p-value and most outlying cells.

    ``scored`` must have the cells of all flagged rows. Lines have a weight where the detector was fitted to the same
    rows; rows are counted from 1.
    """
    flagged, names = scored.flagged, labels(detector.distribution_)
    weights: FloatArray | None = getattr(detector, "row_weights_", None)
    for start in range(0, len(flagged), ROWS_AT_A_TIME):
        at = slice(start, start + ROWS_AT_A_TIME)
        rows = np.arange(start, start + len(flagged[at]))
        yield {
            "row": rows + 1,
            **{name: list(texts[at]) for name, texts in ids.items()},
            "score": scored.scores[at],
            "p_value": scored.p_values[at],
            "outlier": flagged[at].astype(np.int8),
            **({} if weights is None else {"weight": weights[at]}),
            "drivers": [_drivers_in_words(scored, names, row) if flagged[row] else None for row in rows.tolist()],
        }


@facts.register
def _(scored: Verdict, detector: FloorOutlierDetector, ids: Mapping[str, Sequence[str]]) -> Facts:
    names, most_outlying = labels(detector.distribution_), []
    weights: FloatArray | None = getattr(detector, "row_weights_", None)
    for row in scored.top.tolist():
        drivers = [{"column": names[j], "residual": size} for j, size in scored.drivers(row)]
        most_outlying.append(
            {
                "row": row + 1,
                **({"id": {name: texts[row] for name, texts in ids.items()}} if ids else {}),
                "score": float(scored.scores[row]),
                "p_value": float(scored.p_values[row]),
                "outlier": bool(scored.flagged[row]),
                **({} if weights is None else {"weight": float(weights[row])}),
                "drivers": drivers,
            }
        )
    return {
        "rows": len(scored.scores),
        "flagged": int(scored.flagged.sum()),
        "expected_if_clean": len(scored.scores) * detector.false_alarm_rate,
        "false_alarm_rate": detector.false_alarm_rate,
        "threshold": scored.threshold,
        "most_outlying": most_outlying,
    }


@rows.register
def _(scored: Verdict, by: str, detector: FloorOutlierDetector, ids: Mapping[str, Sequence[str]]) -> Rows:
    entries, names = facts(scored, detector, ids), labels(detector.distribution_)
    n, found, expected, most_outlying = (
        entries[name] for name in ("rows", "flagged", "expected_if_clean", "most_outlying")
    )
    shown: Rows = [
        f"Scored {counted(n, 'row')} of {counted(len(names), 'column')} by {by}.",
        f"Flagged {counted(found, 'row')} ({found / n:.2%}); a clean table of that size that the model"
        f" fits would have about {expected:,.{0 if expected >= 10 else 1}f}"
        f" (false alarm rate {detector.false_alarm_rate:g}).",
    ]
    if found > 2.0 * expected + 3.0 * expected**0.5:
        shown.append(_MANY)
    if not most_outlying:
        return shown
    weighted = "weight" in most_outlying[0]
    if weighted:
        shown.append(_FLAGGED)
    for row in most_outlying:
        row["p"] = f"{row['p_value']:.2g}" if row["p_value"] >= 1e-99 else "< 1e-99"
        row["flagged"] = "yes" if row["outlier"] else "no"
        row["cells"] = _drivers_in_words(scored, names, row["row"] - 1)
    columns = [(">score", "{score:.4g}"), (">p-value", "{p}"), (">flagged", "{flagged}")]
    columns += [(">weight", "{weight:.2f}")] * weighted
    columns += [("most outlying cells", "{cells}")]
    return [*shown, table_of(most_outlying, *_row_columns(ids), *columns)]


def _row_columns(ids: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The first columns of a table for people: the row's number, and its ids."""
    return [(">row", "{row:,}"), *((f">{name}", f"{{id[{name}]}}") for name in ids)]


# --- cells ----------------------------------------------------------------------------------------


class OutlyingCells:
    """The ``top`` most outlying cells, or all in this order, each with its prediction by the rest of its row.

    ``scores``: signed standard deviations and probabilities of being bad of all cells, NaN where missing. ``blocks``
    are the same rows, ``numbers`` theirs in the table if they are only some; ``ids`` are the table's columns of text.
    """

    def __init__(
        self,
        model: RectifiedGaussian,
        scores: tuple[FloatArray, FloatArray],
        blocks: Iterable[Cells],
        top: int | None,
        ids: Mapping[str, Sequence[str]],
        numbers: Numbers | None = None,
    ) -> None:
        outlier_score, probability = scores
        size, bad = np.abs(outlier_score).ravel(), probability.ravel()
        seen = np.flatnonzero(~np.isnan(size))
        near = seen
        if top is not None and 0 < top < len(seen):  # no need to sort them all
            near = seen[bad[seen] >= np.partition(bad[seen], -top)[-top]]
        order = near[np.lexsort((-size[near], -bad[near]))][:top]
        rows, columns = np.divmod(order, outlier_score.shape[1])
        found, first = np.full((3, len(rows)), np.nan), 0  # values, means, standard deviations given the rest of a row
        for block in blocks:
            inside = np.flatnonzero((rows >= first) & (rows < first + len(block.given)))
            for j in np.unique(columns[inside]).tolist():
                at = inside[columns[inside] == j]
                part = block.of_rows(rows[at] - first)
                distribution = predicted(model, part.without(j), j, (), hidden=True)
                found[:, at] = part.given[:, j], distribution.mean, distribution.std
            first += len(block.given)
        self.names, self._ids, self._columns = labels(model), ids, columns
        self._rows = rows if numbers is None else numbers[rows]
        self._numbers = {
            "value": found[0],
            "predicted_mean": found[1],
            "predicted_std": found[2],
            "residual": outlier_score[rows, columns],
            "bad_probability": probability[rows, columns],
        }
        n_far = int(np.count_nonzero(size[seen] > _FAR))
        self._counts = {
            "rows": len(outlier_score),
            "cells_scored": len(seen),
            "cells_bad": int(np.count_nonzero(bad[seen] > 0.5)),
            "cells_beyond_4": n_far,
            "expected_beyond_4": 2.0 * float(ndtr(-_FAR)) * len(seen),
        }

    def lines(self, size: int = ROWS_AT_A_TIME) -> Iterator[dict[str, Any]]:
        """One line per cell, for a file, ``size`` of them at a time."""
        for start in range(0, max(len(self._rows), 1), max(size, 1)):
            at = slice(start, start + size)
            rows = self._rows[at].tolist()
            yield {
                "row": self._rows[at] + 1,
                **{name: [texts[row] for row in rows] for name, texts in self._ids.items()},
                "column": [self.names[j] for j in self._columns[at].tolist()],
                **{name: values[at] for name, values in self._numbers.items()},
            }

    def facts(self, most: int) -> Facts:
        """Counts, and the most outlying cells."""
        names, first = ("row", "column", *self._numbers), next(self.lines(most))
        lines = zip(*(np.asarray(first[name]).tolist() for name in names), strict=True)
        cells = [dict(zip(names, line, strict=True)) for line in lines]
        for cell in cells if self._ids else ():
            cell["id"] = {name: texts[cell["row"] - 1] for name, texts in self._ids.items()}
        return {**self._counts, "most_outlying_cells": cells}

    def rows(self, by: str, most: int) -> Rows:
        """``by``: the model in use, and the time it took."""
        entries = self.facts(most)
        expected = entries["expected_beyond_4"]
        shown: Rows = [
            f"Scored {counted(entries['cells_scored'], 'cell')} in {counted(entries['rows'], 'row')} of"
            f" {counted(len(self.names), 'column')} by {by}.",
            f"{counted(entries['cells_bad'], 'cell')} bad with a probability above 0.5.",
            f"{counted(entries['cells_beyond_4'], 'cell')} with a residual above 4 or below -4; a clean table of that"
            f" size that the model fits would have at most about {expected:,.{0 if expected >= 10 else 1}f}.",
        ]
        if not entries["most_outlying_cells"]:
            return shown
        columns = [*_row_columns(self._ids), ("column", "{column}"), (">value", "{value:.4g}")]
        columns += [(">predicted", "{predicted_mean:.4g} ± {predicted_std:.2g}"), (">residual", "{residual:+.1f}")]
        return [*shown, _CELLS, table_of(entries["most_outlying_cells"], *columns, (">bad", "{bad_probability:.3f}"))]


class Cleaning:
    """A table whose bad cells become missing, or are imputed.

    A warning names columns of which more than a third would be bad; these stay as they are.
    """

    def __init__(self, detector: FloorOutlierDetector, table: Samples, impute: bool, level: float) -> None:
        self._detector, self._table, self._impute = detector, table, impute
        self._model, self._ids = detector.distribution_, table.ids()
        self._names = labels(self._model)
        check_names([*self._ids, *self._names])
        self._probability = detector.cell_probabilities(table)
        self._bad = self._probability > level
        self._old, self._new = np.empty(0), np.empty(0)
        tolerance, n_bad, there, first = detector.floor_tolerance, [], [], 0
        for block in table.blocks():
            with np.errstate(invalid="ignore"):
                off = (block.values > self._model.floor + tolerance) & (block.values < self._model.ceiling - tolerance)
            here = self._bad[first : first + len(off)]
            n_bad.append([here.sum(axis=0), (here & off).sum(axis=0)])
            there.append([np.count_nonzero(~np.isnan(block.values), axis=0), off.sum(axis=0)])
            first += len(off)
        left: BoolArray = too_many(np.sum(n_bad, axis=0), np.sum(there, axis=0))
        if left.any():
            warn(
                "More than a third of the cells, or of those between their limits, would be bad in"
                f" {label_columns(left, self._names)}: the model does not fit such a column, and its cells stay as they"
                " are. Try other --margins, or leave it out.",
                "not-cleaned",
            )
        self._bad &= ~left

    def write(self, path: Path) -> None:
        """Write the table without its bad cells, and keep their old and new values for ``write_changes``."""
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
        """Write a line for every changed cell, in the order of the table."""
        import pyarrow as pa

        rows, columns = np.nonzero(self._bad)
        changes = {
            "row": rows + 1,
            **{name: [texts[row] for row in rows.tolist()] for name, texts in self._ids.items()},
            "column": [self._names[j] for j in columns.tolist()],
            "old": self._old,
            "new": pa.array(self._new, from_pandas=True),  # empty where it was made missing
            "bad_probability": self._probability[rows, columns],
        }
        write_columns(path, iter([changes]))

    def picture(self) -> Figure:
        return bad_cell_picture(
            self._detector.cell_outlier_score(self._table, signed=True), self._probability, self._names
        )

    def facts(self) -> Facts:
        """How many cells were changed, column by column."""
        return {
            "rows": len(self._bad),
            "cells": int(np.count_nonzero(~np.isnan(self._probability))),
            "changed": int(self._bad.sum()),
            "changed_by_column": dict(zip(self._names, self._bad.sum(axis=0).tolist(), strict=True)),
            "changed_to": "imputed" if self._impute else "missing",
        }

    def rows(self, by: str) -> Rows:
        """``by``: the model in use, and the time it took."""
        entries, what = self.facts(), "imputed" if self._impute else "made missing"
        n, rows = entries["changed"], entries["rows"]
        shown: Rows = [f"{counted(n, 'cell')} of {entries['cells']:,} in {counted(rows, 'row')} {what}, by {by}."]
        most = sorted(entries["changed_by_column"].items(), key=lambda each: -each[1])[:_MOST_SHOWN]
        changed = [{"name": name, "n": n, "share": n / rows} for name, n in most if n > 0]
        columns = ("column", "{name}"), (">changed", "{n:,}"), (">share", "{share:.2%}")
        return [*shown, table_of(changed, *columns)] if changed else shown


# --- pictures -------------------------------------------------------------------------------------


def bad_cell_picture(outlier_score: FloatArray, bad: FloatArray, names: tuple[str, ...]) -> Figure:
    """Red for a cell that is bad and too high, blue for one too low, as strong as that is certain; grey is missing."""
    rows = np.argsort(-np.nansum(bad, axis=1), kind="stable")[:MOST_CELLS]  # from that with most bad cells down
    shown = np.where(outlier_score[rows] < 0.0, -1.0, 1.0) * bad[rows]
    figure = new_figure((min(4.0 + 0.25 * len(names), 12.0), 6.5))
    axes = figure.subplots()
    drawn = draw_signed(axes, shown, 1.0, aspect="auto")
    count = int(np.count_nonzero(bad > 0.5))
    some = f"the worst {len(rows):,} of {len(bad):,} rows" if len(rows) < len(bad) else counted(len(bad), "row")
    axes.set_title(f"{counted(count, 'bad cell')}; {some}, the worst first", loc="left", fontsize=11, color=INK)
    axes.set_ylabel("rows, by bad cells")
    name_columns(axes, names)
    bar = figure.colorbar(drawn, ax=axes, ticks=[-1.0, 0.0, 1.0], fraction=0.04)
    bar.ax.set_yticklabels(["too low", "inlier", "too high"])
    return figure


def outlier_picture(scored: Verdict, names: Sequence[str], false_alarm_rate: float) -> Figure:
    """Two panels: the distribution of the scores, and the cells of the most outlying rows, if there are any."""
    shown = len(scored.top) > 0
    flagged = int(np.count_nonzero(scored.scores < scored.threshold))
    title = f"{flagged:,} of {len(scored.scores):,} rows flagged as outliers"
    figure = new_figure((13.0, 5.8) if shown else (7.5, 5.8), title)
    panels: Any = figure.subplots(1, 2, width_ratios=[1.0, 1.15]) if shown else [figure.subplots()]
    _draw_scores(panels[0], scored, false_alarm_rate)
    if shown:
        _draw_cells(figure, panels[1], scored, names)
    return figure


def score_edges(scored: Verdict) -> FloatArray:
    """Edges of the bins; scores below the first are gathered in the first bin, or one far row would hide the others."""
    simulated, scores = scored.model_scores, scored.scores
    typical = float(np.median(simulated))
    lowest = typical - _DEPTH * (typical - min(scored.threshold, typical))
    lowest = max(lowest, min(float(scores.min()), float(simulated.min())))
    highest = max(float(scores.max()), float(simulated.max()))
    return np.linspace(lowest, max(highest, lowest + 1e-9), _BINS + 1)


def _draw_scores(axes: Axes, scored: Verdict, false_alarm_rate: float) -> None:
    edges = score_edges(scored)
    table, model = (np.histogram(np.maximum(s, edges[0]), edges)[0] for s in (scored.scores, scored.model_scores))
    expected = model * (len(scored.scores) / len(scored.model_scores))
    axes.stairs(table, edges, fill=True, color=HIDDEN, label="rows of the table")
    axes.stairs(expected, edges, color=LEARNED, linewidth=2, label="as many clean rows of the model")
    label = f"threshold: {100.0 * false_alarm_rate:.3g} % of clean rows are left of it"
    axes.axvline(scored.threshold, color=NAIVE, linestyle="--", linewidth=1.5, label=label)
    axes.set_yscale("log")
    axes.set_ylim(0.5, 3.0 * max(float(table.max()), float(expected.max()), 1.0))
    tidy(axes, "Scores: outliers are left of the dashed line", "score (log density of a row)", "rows")
    farther = int(np.count_nonzero(scored.scores < edges[0]))
    if farther:
        words = f"← {counted(farther, 'row')}, down to {scored.scores.min():.3g}"
        axes.annotate(words, (0.09, 0.74), xycoords="axes fraction", color=INK, fontsize=9)
    # An opaque legend: the dashed line must not run through its words.
    axes.legend(framealpha=1.0, edgecolor="none", fontsize=9, loc="upper left")


def _draw_cells(figure: Figure, axes: Axes, scored: Verdict, every_name: Sequence[str]) -> None:
    import matplotlib
    from matplotlib.colors import AsinhNorm

    rows, d = scored.top[:_MOST_ROWS], len(every_name)
    outlier_score = np.array([scored.cells.whole[row] for row in rows.tolist()]).reshape(len(rows), d)
    largest = np.nanmax(np.abs(outlier_score), axis=0, initial=0.0)
    columns = np.sort(np.argsort(-largest, kind="stable")[:_MOST_COLUMNS])  # those with the most outlying cells
    values = outlier_score[:, columns]
    limit = max(float(np.abs(values[np.isfinite(values)]).max(initial=0.0)), 2.0 * _LINEAR)
    colours = matplotlib.colormaps[BOTH_SIGNS].with_extremes(bad="#E4E4E4")
    norm = AsinhNorm(linear_width=_LINEAR, vmin=-limit, vmax=limit)
    mesh = axes.pcolormesh(np.clip(values, -limit, limit), cmap=colours, norm=norm, edgecolors="white", linewidth=1.0)
    axes.invert_yaxis()
    left_out = d - len(columns)
    title = f"The {len(rows)} most outlying rows" if len(rows) > 1 else "The most outlying row"
    title += f" ({left_out:,} less outlying columns left out)" if left_out else ""
    tidy(axes, title, "", "row of the table", frame=False)
    name_columns(axes, [every_name[column] for column in columns], longest=16, room=60, first=0.5)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [f"{row + 1:,}" for row in rows.tolist()], fontsize=8)
    axes.tick_params(length=0)
    if len(rows) < _FEW_ROWS:
        # A few rows would fill the height of the picture.
        axes.set_box_aspect(0.1 * len(rows))
        axes.set_anchor("N")
    if values.size <= _MOST_NUMBERS and len(columns) <= _MOST_WIDE:
        for (i, j), value in np.ndenumerate(values):
            if np.isnan(value) or abs(value) < 0.05:
                continue
            text = f"{value:+.1f}" if abs(value) < 99.95 else f"{value:+.0f}" if abs(value) < 1e4 else f"{value:+.0e}"
            dark = not 0.2 < norm(np.clip(value, -limit, limit)) < 0.8
            axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=7.5, color="white" if dark else INK)
    steps = [step for step in (0.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e6) if step <= limit]
    bar = figure.colorbar(mesh, ax=axes, shrink=0.85, ticks=[-step for step in steps[:0:-1]] + steps)
    bar.ax.set_yticklabels([f"{tick:+g}" if tick else "0" for tick in bar.get_ticks()])
    bar.ax.minorticks_off()
    bar.set_label("standard deviations from what\nthe row's other cells predict (grey: missing)", fontsize=9)
