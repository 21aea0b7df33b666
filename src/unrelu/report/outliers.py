"""A judged table in plain numbers, tables and a picture: how many rows are flagged, the strangest ones, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from unrelu.contracts import FloatArray
from unrelu.estimators import FloorOutlierDetector
from unrelu.fit.robust_rows.detection import Verdict
from unrelu.report.model import labels
from unrelu.report.pictures import BOTH_SIGNS, HIDDEN, INK, LEARNED, NAIVE, Numbers, new_figure, short_name, tidy
from unrelu.report.tables import rows
from unrelu.validation import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROWS_AT_A_TIME = 100_000
_MANY = (
    "Take them for outliers only if the others are normal above their floors: of skewed columns, which unrelu fit"
    " names, the tail is flagged; --shape auto learns how they are skewed."
)
_FLAGGED = (
    "Flagged: the p-value is below the false alarm rate, as it is for {:.3g} % of the genuine rows. Weight: how much"
    " the row counted in the fit; a flagged row of weight 1.00 is strange, but no stranger than some genuine rows are."
)
_BINS = 60
_DEPTH = 3.0  # the axis shows scores this many times as far below the typical one as the threshold is
_CALM = 3.0  # standard deviations up to which colours are about linear, and logarithmic beyond
_MOST_ROWS, _MOST_COLUMNS = 25, 30
_MOST_NUMBERS, _MOST_WIDE = 150, 12  # cells, and columns of them, that can be read
_FEW_ROWS = 8


@dataclass(frozen=True, eq=False)
class Judged:
    """A verdict, the columns' names, and what only a fit to the same rows can tell: their weights.

    ``ids`` are columns of text that say which row is which. Rows are counted from 1.
    """

    verdict: Verdict
    false_alarm_rate: float
    names: tuple[str, ...]
    weights: FloatArray | None
    ids: Mapping[str, Sequence[str]]

    @classmethod
    def by(
        cls, detector: FloorOutlierDetector, verdict: Verdict, ids: Mapping[str, Sequence[str]] | None = None
    ) -> Judged:
        """The verdict of a detector on the table that it was fitted to, or of one that was made from a model."""
        weights = getattr(detector, "row_weights_", None)
        return cls(verdict, detector.false_alarm_rate, labels(detector.distribution_), weights, ids or {})

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

    def shown(self, judge: str, seconds: float) -> list[str | Table]:
        """All of it, for the terminal; ``judge`` is who judged."""
        facts = self.facts()
        n, found, expected, strangest = (facts[name] for name in ("rows", "flagged", "expected_if_clean", "strangest"))
        shown: list[str | Table] = [
            f"Scored {counted(n, 'row')} of {counted(len(self.names), 'column')} by {judge} in {seconds:.2f} s.",
            f"Flagged {counted(found, 'row')} ({found / n:.2%}); a clean table of that size that the model"
            f" fits would have about {expected:,.{0 if expected >= 10 else 1}f}"
            f" (false alarm rate {self.false_alarm_rate:g}).",
        ]
        if found > 2.0 * expected + 3.0 * expected**0.5:
            shown.append(_MANY)
        if not strangest:
            return shown
        if self.weights is not None:
            shown.append(_FLAGGED.format(100.0 * self.false_alarm_rate))
        lines = []
        for row in strangest:
            p = row["p_value"]
            lines.append(
                (
                    f"{row['row']:,}",
                    *row.get("id", {}).values(),
                    f"{row['score']:.4g}",
                    f"{p:.2g}" if p >= 1e-99 else "< 1e-99",
                    "yes" if row["outlier"] else "no",
                    *([f"{row['weight']:.2f}"] if "weight" in row else []),
                    self.words(row["row"] - 1),
                )
            )
        weight = [] if self.weights is None else [">weight"]
        heads = (">row", *(f">{name}" for name in self.ids), ">score", ">p-value", ">flagged", *weight)
        return [*shown, rows((*heads, "strangest cells, in standard deviations given the others"), lines)]


# --- the picture ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OutlierResult:
    """Scores of a table's rows, and the strangest of them cell by cell.

    ``simulated``: scores of rows drawn from the model. ``rows``: numbers of the strangest rows, strangest first.
    ``strangeness``: one row of the table's columns for each of them, in signed standard deviations; NaN where missing.
    """

    scores: FloatArray
    simulated: FloatArray
    threshold: float
    false_alarm_rate: float
    rows: Numbers
    strangeness: FloatArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, judged: Judged) -> OutlierResult:
        """From the verdict on a table."""
        verdict, d = judged.verdict, len(judged.names)
        whole = [verdict.cells.whole[row] for row in verdict.top.tolist()]
        return cls(
            verdict.scores,
            verdict.model_scores,
            verdict.threshold,
            judged.false_alarm_rate,
            verdict.top,
            np.array(whole).reshape(len(whole), d),
            judged.names,
        )


def outlier_picture(result: OutlierResult) -> Figure:
    """Two panels: how many rows score how low, and where the strangest rows are strange (if any are given)."""
    shown = len(result.rows) > 0
    figure = new_figure((13.0, 5.8) if shown else (7.5, 5.8))
    flagged = int(np.count_nonzero(result.scores < result.threshold))
    figure.suptitle(f"{flagged:,} of {len(result.scores):,} rows flagged as outliers", fontsize=14, color=INK)
    panels: Any = figure.subplots(1, 2, width_ratios=[1.0, 1.15]) if shown else [figure.subplots()]
    _draw_scores(panels[0], result)
    if shown:
        _draw_cells(figure, panels[1], result)
    return figure


def score_edges(result: OutlierResult) -> FloatArray:
    """Edges of the bins; scores below the first are gathered in the first bin, or one far row would hide the others.

    >>> scores, simulated = np.array([-1e6, -1.0]), np.arange(-4.0, 1.0)
    >>> edges = score_edges(OutlierResult(scores, simulated, -4.0, 0.01, np.array([0]), np.zeros((1, 1)), ("a",)))
    >>> float(edges[0]), float(edges[-1])
    (-8.0, 0.0)
    """
    typical = float(np.median(result.simulated))
    lowest = typical - _DEPTH * (typical - min(result.threshold, typical))
    lowest = max(lowest, min(float(result.scores.min()), float(result.simulated.min())))
    highest = max(float(result.scores.max()), float(result.simulated.max()))
    return np.linspace(lowest, max(highest, lowest + 1e-9), _BINS + 1)


def _draw_scores(axes: Axes, result: OutlierResult) -> None:
    edges = score_edges(result)
    table, model = (np.histogram(np.maximum(s, edges[0]), edges)[0] for s in (result.scores, result.simulated))
    expected = model * (len(result.scores) / len(result.simulated))
    axes.stairs(table, edges, fill=True, color=HIDDEN, label="rows of the table")
    axes.stairs(expected, edges, color=LEARNED, linewidth=2, label="as many clean rows of the model")
    label = f"threshold, with {100.0 * result.false_alarm_rate:.3g} % of clean rows left of it"
    axes.axvline(result.threshold, color=NAIVE, linestyle="--", linewidth=1.5, label=label)
    axes.set_yscale("log")
    axes.set_ylim(0.5, 3.0 * max(float(table.max()), float(expected.max()), 1.0))
    tidy(axes, "Scores: outliers are left of the dashed line", "score (log density of a row)", "rows")
    beyond = int(np.count_nonzero(result.scores < edges[0]))
    if beyond:
        words = f"← {beyond:,} row{'s' if beyond > 1 else ''}, down to {result.scores.min():.3g}"
        axes.annotate(words, (0.09, 0.74), xycoords="axes fraction", color=INK, fontsize=9)
    # An opaque legend: the dashed line must not run through its words.
    axes.legend(framealpha=1.0, edgecolor="none", fontsize=9, loc="upper left")


def _draw_cells(figure: Figure, axes: Axes, result: OutlierResult) -> None:
    import matplotlib
    from matplotlib.colors import AsinhNorm

    rows, columns = result.rows[:_MOST_ROWS], shown_columns(result.strangeness[:_MOST_ROWS])
    values = result.strangeness[:_MOST_ROWS][:, columns]
    known = np.abs(values[np.isfinite(values)])
    limit = max(float(known.max(initial=0.0)), 2.0 * _CALM)
    colours = matplotlib.colormaps[BOTH_SIGNS].with_extremes(bad="#E4E4E4")
    norm = AsinhNorm(linear_width=_CALM, vmin=-limit, vmax=limit)
    mesh = axes.pcolormesh(np.clip(values, -limit, limit), cmap=colours, norm=norm, edgecolors="white", linewidth=1.0)
    axes.invert_yaxis()
    left_out = result.strangeness.shape[1] - len(columns)
    title = f"The {len(rows)} strangest rows" if len(rows) > 1 else "The strangest row"
    tidy(axes, title + (f" ({left_out:,} calmer columns left out)" if left_out else ""), "", "row of the table")
    names = [short_name(result.names[column]) for column in columns]
    # Where they fit they lie flat: a reader need not tilt the head.
    flat = len(names) * max(map(len, names)) <= 60
    axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=0 if flat else 90, fontsize=8)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [f"{row + 1:,}" for row in rows.tolist()], fontsize=8)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    if len(rows) < _FEW_ROWS:
        # A few rows are not blown up to the height of the picture.
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


def shown_columns(strangeness: FloatArray, most: int = _MOST_COLUMNS) -> Numbers:
    """The columns with the strangest cells, in table order.

    >>> shown_columns(np.array([[0.0, 5.0, -9.0], [np.nan, 0.0, 0.0]]), most=2)
    array([1, 2])
    """
    size = np.nanmax(np.abs(strangeness), axis=0, initial=0.0)
    return np.sort(np.argsort(-size, kind="stable")[:most])
