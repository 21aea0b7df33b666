"""Rows recovered through a known layer, in plain numbers, tables and a picture: outliers, noise, what is not told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from rich.table import Table

from unrelu.contracts import BoolArray, FloatArray, Samples
from unrelu.limits import floor_per_column
from unrelu.recovery.latent_rows import LatentRows
from unrelu.report import pictures
from unrelu.report.pictures import HIDDEN, INK, LEARNED, MOST_CELLS, MOST_NAMES, NAIVE, SEEN, name_columns, tidy
from unrelu.report.tables import fact_table
from unrelu.report.tables import rows as rows_shown
from unrelu.tables.write import names_or_numbers
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_COLUMNS = 10  # with most outliers
_BRIGHTEST = 98.0  # percentile of the clean heights from which on colours are full
_COLOURS = "Blues"
_WIDEST, _BINS = 10.0, 40  # noise scales that the histogram shows; what is beyond stands in its outer bins


def column_shares(rows: LatentRows) -> FloatArray:
    """Per column, the share of its values that are outliers; 0 where it has no value."""
    seen = (~np.isnan(rows.outliers)).sum(axis=0)
    shares: FloatArray = rows.flagged.sum(axis=0) / np.maximum(seen, 1)
    return shares


def _strangest_columns(rows: LatentRows, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """The columns with most outliers, if they have any, and the share of each."""
    shares = column_shares(rows)
    labels = names_or_numbers(names, len(shares))
    order = np.argsort(-shares, kind="stable")[:_MOST_COLUMNS].tolist()
    return [{"column": labels[j], "share": float(shares[j])} for j in order if shares[j] > 0.0]


def recovery_facts(rows: LatentRows, names: Sequence[str] | None) -> dict[str, Any]:
    """All of it, for JSON; of the rows, counted from 1, only those that are ambiguous, or could not be recovered."""
    report = rows.report
    ambiguous, bad = [row + 1 for row in report.ambiguous_rows], [(row + 1, why) for row, why in report.bad_rows]
    return {
        "report": {**asdict(report), "ambiguous_rows": ambiguous, "bad_rows": bad},
        "columns": _strangest_columns(rows, names),
        "ambiguous": [{"row": i + 1, "latent": rows.latent[i], "rival": rows.rivals[i]} for i in report.ambiguous_rows],
        "bad_rows": [{"row": row, "reason": why} for row, why in bad],
    }


def recovery_shown(rows: LatentRows, names: Sequence[str] | None, by: str) -> list[str | Table]:
    """All of it, for the terminal; ``by``: through what, and how long it took."""
    report = rows.report
    n_missing = int(np.isnan(rows.outliers[rows.done]).sum())
    missing = f"; {counted(n_missing, 'missing cell')} filled in" if n_missing else ""
    prior = "" if report.method == "lasso" else f", prior {report.prior}"
    scale = "not known" if report.noise_scale is None else f"{report.noise_scale:.4g} (median over the rows)"
    facts = {
        "table": f"{report.n_rows:,} x {report.n_features:,}",
        "latent numbers": f"{report.n_components:,} per row",
        "method": f"{report.method}{prior}",
        "outliers": f"{report.share_outliers:.1%} of the values{missing}",
        "noise scale": scale,
        **({"ambiguous rows": _rows_in_words(report.ambiguous_rows)} if report.ambiguous_rows else {}),
        **({"skipped rows": _rows_in_words([row for row, _ in report.bad_rows])} if report.bad_rows else {}),
    }
    first = f"Recovered {counted(int(rows.done.sum()), 'row')} through {by}."
    lines = [(each["column"], f"{each['share']:.1%}") for each in _strangest_columns(rows, names)]
    most = [rows_shown(("columns with most outliers", ">outliers"), lines)] if lines else []
    return [first, fact_table(facts), *most]


def _rows_in_words(rows: Sequence[int]) -> str:
    return f"{len(rows):,}: row{'s' if len(rows) > 1 else ''} {listed((str(row + 1) for row in rows), most=8)}"


# --- the picture ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RecoverResult:
    """What the picture shows.

    ``given`` and ``clean`` are heights over the floor in the rows and columns shown, evenly thinned out if there are
    many, NaN where missing; ``flagged`` marks the outliers among them. ``shares`` are those of outliers in all columns,
    ``sizes`` all residuals in noise scales, but for values at the floor that are clean there as well.
    """

    given: FloatArray
    clean: FloatArray
    flagged: BoolArray
    shares: FloatArray
    sizes: FloatArray
    names: tuple[str, ...]
    n_rows: int
    n_bad: int
    share_outliers: float

    @classmethod
    def of(
        cls, rows: LatentRows, floor: ArrayLike, table: Samples, names: Sequence[str] | None, most: int = MOST_CELLS
    ) -> RecoverResult:
        """From what was recovered over a floor, and the table itself."""
        (n, d), report = rows.clean.shape, rows.report
        floor = floor_per_column(floor, d)
        given = pictures.cells_of(table, np.arange(n), np.arange(d))
        differences = given - rows.clean
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = differences / rows.noise_scale[:, None]
        told = ~np.isnan(sizes) & ((rows.clean > floor) | (differences != 0.0))
        shown = np.ix_(pictures.evenly(n, most), pictures.evenly(d, most))
        return cls(
            (given - floor)[shown],
            (rows.clean - floor)[shown],
            rows.flagged[shown],
            column_shares(rows),
            sizes[told],
            names_or_numbers(names, d),
            n,
            len(report.bad_rows),
            report.share_outliers,
        )


def recover_picture(result: RecoverResult) -> Figure:
    """The table beside the clean one, and below them the outliers by column and the sizes of the residuals."""
    figure = pictures.new_figure((11.5, 8.2))
    skipped = f" ({result.n_bad:,} skipped)" if result.n_bad else ""
    size = f"{result.n_rows:,} rows{skipped} of {len(result.names):,} values"
    figure.suptitle(f"{size}, {result.share_outliers:.1%} of them outliers", fontsize=14, color=INK)
    above, below = cast("list[SubFigure]", figure.subfigures(2, 1, height_ratios=[4.6, 3.0]))
    _draw_tables(above, result)
    left, right = below.subplots(1, 2)
    _draw_shares(left, result)
    _draw_sizes(right, result)
    return figure


def _draw_tables(figure: SubFigure, result: RecoverResult) -> None:
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgba

    spread = _spread(result.clean)
    heights = result.clean / spread
    known = heights[~np.isnan(heights)]
    limit = (float(np.percentile(known, _BRIGHTEST)) if len(known) else 0.0) or 1.0
    norm, colours = Normalize(0.0, limit), matplotlib.colormaps[_COLOURS]

    def image(values: FloatArray) -> Any:
        coloured = colours(norm(values))
        coloured[np.isnan(values)] = to_rgba(HIDDEN)
        return coloured

    given = image(result.given / spread)
    given[result.flagged] = to_rgba(NAIVE)
    left, right = figure.subplots(1, 2)
    missing = ", grey: missing" if np.isnan(result.given).any() else ""
    skipped = " (grey: skipped rows)" if result.n_bad else ""
    _draw_image(left, given, result, f"Given: the table (orange: outliers{missing})")
    _draw_image(right, image(heights), result, f"Clean: as recovered{skipped}")
    left.set_ylabel("rows, in the order of the table")
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=[left, right], shrink=0.85, extend="max", pad=0.02)
    bar.set_label("height over the floor,\nin units of the column's root mean square", fontsize=9)


def _spread(clean: FloatArray) -> FloatArray:
    """Root mean square of every column's clean heights, 1 where they are 0."""
    known = ~np.isnan(clean)
    squares = np.where(known, clean, 0.0) ** 2
    spread: FloatArray = np.sqrt(squares.sum(axis=0) / np.maximum(known.sum(axis=0), 1))
    spread[spread == 0.0] = 1.0
    return spread


def _draw_image(axes: Axes, image: Any, result: RecoverResult, title: str) -> None:
    d = len(result.names)
    # The axes count all rows (from 1) and columns, also where not all of them are shown.
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(-0.5, d - 0.5, result.n_rows + 0.5, 0.5))
    tidy(axes, title, "" if d <= MOST_NAMES else "column", "")
    axes.spines[:].set_visible(False)
    name_columns(axes, result.names)


def _draw_shares(axes: Axes, result: RecoverResult) -> None:
    d = len(result.names)
    axes.bar(range(d), 100.0 * result.shares, color=NAIVE, width=0.8 if d <= 2 * MOST_NAMES else 1.0)
    axes.axhline(100.0 * result.share_outliers, color=INK, linestyle="--", linewidth=1.0, label="all columns")
    axes.set_xlim(-0.6, d - 0.4)
    axes.set_ylim(0.0, max(1.15 * 100.0 * float(result.shares.max()), 1.0))
    tidy(axes, "Outliers by column", "" if d <= MOST_NAMES else "column", "% of its values")
    name_columns(axes, result.names)
    axes.legend(frameon=False, fontsize=9, loc="upper right")


def _draw_sizes(axes: Axes, result: RecoverResult) -> None:
    edges = np.linspace(-_WIDEST, _WIDEST, _BINS + 1)
    sizes = np.clip(result.sizes, -_WIDEST, _WIDEST)
    counts = np.histogram(sizes, edges)[0]
    genuine = int((np.abs(result.sizes) <= 3.0).sum())
    centers = 0.5 * (edges[1:] + edges[:-1])
    expected = genuine * (edges[1] - edges[0]) * np.exp(-0.5 * centers**2) / np.sqrt(2.0 * np.pi)
    axes.stairs(counts, edges, fill=True, color=SEEN, label="values")
    near = np.abs(centers) < 4.0
    axes.plot(centers[near], expected[near], color=LEARNED, linewidth=2, label="normal noise")
    axes.set_yscale("log")
    axes.set_ylim(0.5, 10.0 * max(float(counts.max(initial=0)), float(expected.max(initial=0.0)), 1.0))
    beyond = int((np.abs(result.sizes) > _WIDEST).sum())
    words = f" ({beyond:,} beyond ±{_WIDEST:g}, in the outer bins)" if beyond else ""
    tidy(axes, f"Given minus clean{words}", "in units of the row's noise scale", "values")
    axes.legend(frameon=False, fontsize=9, loc="upper right")
