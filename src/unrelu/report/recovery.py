"""Recovered matrices, and rows recovered through a given layer, in numbers, tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import BoolArray, FloatArray, Samples
from unrelu.limits import floor_per_column
from unrelu.margins import latent_limits, to_latent
from unrelu.notebook import Table, fact_table
from unrelu.recovery.latent_rows import LatentRows
from unrelu.recovery.matrix.matrix import MatrixReport
from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery
from unrelu.report.pictures import (
    BOTH_SIGNS,
    HIDDEN,
    INK,
    LEARNED,
    MOST_CELLS,
    MOST_NAMES,
    NAIVE,
    SEEN,
    Numbers,
    brightest,
    cells_of,
    draw_signed,
    evenly,
    name_columns,
    new_figure,
    parts_of,
    tidy,
)
from unrelu.report.tables import Facts, Rows, facts, margin_words, numbered, rows, table_of
from unrelu.tables.write import names_or_numbers
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_COMPONENTS = 20
# T = C A' + 1 b' determines C, A and b only up to a shift of C that b takes back: the gauge chooses one.
_GAUGES = {
    "centered": "latent vectors have mean 0, the bias is T's column mean",
    "orthogonal": "the bias is orthogonal to the components",
    "bayes": "between centered and orthogonal",
    "zero": "there is no bias",
}
_WEAK = "too seldom above the floor to be determined: filled in by a guess"
_MOST_BARS, _MOST_BAR_PANELS = 60, 5
_COMPONENTS = "Components: loadings of the columns, and share of the variance"
_MOST_COLUMNS = 10  # with most outliers
_BRIGHTEST = 98.0  # percentile of the heights from which on colours are full
_WIDEST, _BINS = 10.0, 40  # noise scales that the histogram shows; larger residuals stand in its outer bins
_HEIGHTS = "height over the floor,\nin units of the column's root mean square"


# --- a matrix ---------------------------------------------------------------------------------------


def _names_of(recovery: ReLUMatrixRecovery) -> tuple[str, ...]:
    return names_or_numbers(getattr(recovery, "feature_names_in_", None), recovery.n_features_in_)


def _variance_shares(recovery: ReLUMatrixRecovery) -> FloatArray:
    """Per component, the share of the variance of T's columns: as A'A is diagonal, they add up to 1."""
    variance = recovery.latent_.var(axis=0) * (recovery.components_**2).sum(axis=1)
    return np.asarray(variance / (float(variance.sum()) or 1.0))


@facts.register
def _(recovery: ReLUMatrixRecovery) -> Facts:
    """The components, the strongest first: the share of each, and its columns with the largest loadings."""
    report, names, shares, components = recovery.report_, _names_of(recovery), _variance_shares(recovery), []
    for name, share, row in zip(numbered("c", len(shares)), shares, recovery.components_, strict=True):
        strongest = np.argsort(-np.abs(row), kind="stable")[:3].tolist()
        loadings = [{"column": names[j], "loading": float(row[j])} for j in strongest]
        components.append({"name": name, "share": float(share), "strongest": loadings})
    return {
        "report": asdict(report),
        "weak_columns": [names[j] for j in report.weak_columns],
        "components": components,
        **({} if recovery.margins_ is None else {"margins": [margin_words(margin) for margin in recovery.margins_]}),
    }


@rows.register
def _(recovery: ReLUMatrixRecovery, before: Mapping[str, str] = {}) -> Rows:
    """How the recovery went, name by name, below the lines ``before``; the ranks tried; the components."""
    report, names, entries = recovery.report_, _names_of(recovery), facts(recovery)
    chosen = f", chosen of {len(report.component_errors)} by held-out cells" if report.component_errors else ""
    missing = f"; {report.share_missing:.1%} of the cells missing" if report.share_missing else ""
    described = {
        **before,
        "table": f"{report.n_rows:,} x {report.n_features:,}",
        "components": f"{report.n_components:,}{chosen}",
        "method": report.method,
        "gauge": f"{report.gauge} ({_GAUGES[report.gauge]})" if report.gauge in _GAUGES else report.gauge,
        "iterations": f"{report.iterations:,}",
        "relative residual": f"{report.residual:.3g}{'' if report.converged else ', not converged'}",
        "at the floor": f"{report.share_floored:.1%} of the values{missing}",
    }
    if report.noise is not None:
        described["noise"] = f"{report.noise:.4g} (standard deviation inside the rectifier)"
    if entries["weak_columns"]:
        described["weak columns"] = f"{listed(entries['weak_columns'], most=8)} ({_WEAK})"
    if report.weak_rows:
        described["weak rows"] = f"{report.weak_rows:,} ({_WEAK})"
    if recovery.margins_ is not None:
        margins = listed([f"{name} {words}" for name, words in zip(names, entries["margins"], strict=True)], most=8)
        described["margins"] = f"{margins} (components and bias are of latent values)"
    tables: Rows = [fact_table(described)]
    if report.component_errors:
        tried = [
            (f"{count}", f"{error:.3g}", "chosen" if count == report.n_components else "")
            for count, error in report.component_errors
        ]
        tables.append(Table((">components", ">error on held-out cells", ""), tried))
    for component in entries["components"]:
        component["loadings"] = ", ".join(f"{each['column']} {each['loading']:+.3g}" for each in component["strongest"])
    columns = (
        ("<component", "{name}"),
        (">variance", "{share:.1%}"),
        ("strongest columns, and their loadings", "{loadings}"),
    )
    return [*tables, table_of(entries["components"], *columns, most=_MOST_COMPONENTS)]


def factor_cells(recovery: ReLUMatrixRecovery, table: Samples) -> tuple[FloatArray, FloatArray, BoolArray, Numbers]:
    """Heights over the floor (latent ones, with margins) in the table, NaN where missing, and in T; cells at the floor;
    and all columns in the order shown.

    Rows are sorted by their part in the first component, columns by its share in them, so that T changes smoothly. Of
    many rows or columns evenly spread ones are shown.
    """
    floor = recovery.floor_
    if recovery.margins_ is not None:
        floor = latent_limits(recovery.margins_, floor, np.full(len(floor), np.inf))[0]
    size = np.sqrt((recovery.components_**2).sum(axis=0) + (recovery.bias_ - floor) ** 2)
    share = recovery.components_[0] / np.where(size > 0.0, size, 1.0)
    row_order, order = (np.argsort(each, kind="stable") for each in (recovery.latent_[:, 0], share))
    rows, columns = row_order[evenly(len(row_order), MOST_CELLS)], order[evenly(len(order), MOST_CELLS)]
    cells = cells_of(table, rows, columns)
    if recovery.margins_ is not None:
        chosen = tuple(recovery.margins_[j] for j in columns.tolist())
        cells = to_latent(chosen, cells, recovery.floor_[columns], np.full(len(columns), np.inf))
    heights = cells - floor[columns]
    hidden = recovery.latent_[rows] @ recovery.components_[:, columns] + recovery.bias_[columns] - floor[columns]
    return heights, hidden, heights <= float(recovery.floor_tolerance), order


# --- rows through a given layer ---------------------------------------------------------------------


def column_shares(rows: LatentRows) -> FloatArray:
    """Per column, the share of its values that are outliers; 0 where it has no value."""
    seen = (~np.isnan(rows.outliers)).sum(axis=0)
    return np.asarray(rows.flagged.sum(axis=0) / np.maximum(seen, 1))


@facts.register
def _(found: LatentRows, names: Sequence[str] | None) -> Facts:
    """The report, columns with most outliers, and rows (from 1) that are ambiguous or could not be recovered."""
    report, shares = found.report, column_shares(found)
    ambiguous, bad = [row + 1 for row in report.ambiguous_rows], [(row + 1, why) for row, why in report.bad_rows]
    labels = names_or_numbers(names, len(shares))
    worst = np.argsort(-shares, kind="stable")[:_MOST_COLUMNS].tolist()
    return {
        "report": {**asdict(report), "ambiguous_rows": ambiguous, "bad_rows": bad},
        "columns": [{"column": labels[j], "share": float(shares[j])} for j in worst if shares[j] > 0.0],
        "ambiguous": [
            {"row": i + 1, "latent": found.latent[i], "rival": found.rivals[i]} for i in report.ambiguous_rows
        ],
        "bad_rows": [{"row": row, "reason": why} for row, why in bad],
    }


@rows.register
def _(found: LatentRows, by: str, names: Sequence[str] | None) -> Rows:
    """``by``: the file of the layer, and the time it took."""
    report = found.report
    n_missing = int(np.isnan(found.outliers[found.done]).sum())
    missing = f"; {counted(n_missing, 'missing cell')} filled in" if n_missing else ""
    prior = "" if report.method == "lasso" else f", prior {report.prior}"
    described = {
        "table": f"{report.n_rows:,} x {report.n_features:,}",
        "latent numbers": f"{report.n_components:,} per row",
        "method": f"{report.method}{prior}",
        "outliers": f"{report.share_outliers:.1%} of the values{missing}",
        "noise scale": "unknown" if report.noise_scale is None else f"{report.noise_scale:.4g} (median over the rows)",
    }
    for what, which in (("ambiguous", report.ambiguous_rows), ("skipped", [row for row, _ in report.bad_rows])):
        if which:
            named = listed((str(row + 1) for row in which), most=8)
            described[f"{what} rows"] = f"{len(which):,}: row{'s' if len(which) > 1 else ''} {named}"
    shown: Rows = [f"Recovered {counted(int(found.done.sum()), 'row')} through {by}.", fact_table(described)]
    if columns := facts(found, names)["columns"]:
        shown.append(table_of(columns, ("columns with most outliers", "{column}"), (">outliers", "{share:.1%}")))
    return shown


def recovered_cells(
    rows: LatentRows, floor: FloatArray, table: Samples, most: int = MOST_CELLS
) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
    """Heights over the floor in the table and in the clean one, of evenly spread rows and columns, NaN where missing;
    the outliers; and all residuals in noise scales, but for values that are at the floor in both."""
    n, d = rows.clean.shape
    given = cells_of(table, np.arange(n), np.arange(d))
    differences = given - rows.clean
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = differences / rows.noise_scale[:, None]
    counts = ~np.isnan(sizes) & ((rows.clean > floor) | (differences != 0.0))
    shown = np.ix_(evenly(n, most), evenly(d, most))
    return (given - floor)[shown], (rows.clean - floor)[shown], rows.flagged[shown], sizes[counts]


# --- pictures ---------------------------------------------------------------------------------------


def _draw_beside(
    figure: SubFigure,
    heights: tuple[FloatArray, FloatArray],
    marked: tuple[BoolArray, str],
    missing: str,
    signed: bool,
    place: dict[str, Any],
) -> tuple[Axes, Axes]:
    """Two tables of heights beside each other, in the scale of the second; cells of the first that are ``marked``."""
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgba

    there = ~np.isnan(heights[1])
    squares = np.where(there, heights[1], 0.0) ** 2
    spread = np.sqrt(squares.sum(axis=0) / np.maximum(there.sum(axis=0), 1))  # root mean squares
    spread[spread == 0.0] = 1.0
    limit = brightest(heights[1] / spread, _BRIGHTEST)
    norm = Normalize(-limit if signed else 0.0, limit)
    colours = matplotlib.colormaps[BOTH_SIGNS if signed else "Blues"]
    axes = tuple(figure.subplots(1, 2))
    for number, values in enumerate(heights):
        image = colours(norm(values / spread))
        image[np.isnan(values)] = to_rgba(missing)
        if number == 0:
            image[marked[0]] = to_rgba(marked[1])
        axes[number].imshow(image, aspect="auto", interpolation="nearest", **place)
    extend = "both" if signed else "max"
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=list(axes), shrink=0.85, extend=extend, pad=0.02)
    bar.set_label(_HEIGHTS, fontsize=9)
    return axes


def factor_picture(recovery: ReLUMatrixRecovery, table: Samples) -> Figure:
    """The table beside T, and below them the components and, where it was chosen, the rank."""
    report, (rank, d) = recovery.report_, recovery.components_.shape
    panels = rank if d <= _MOST_BARS and rank <= _MOST_BAR_PANELS else 0  # of bars, where there are few enough
    below_height = max(1.9, 0.75 * panels)
    title = f"Rank {report.n_components:,} behind {report.n_rows:,} x {report.n_features:,} values,"
    title += f" {report.share_floored:.0%} of them hidden at the floor"
    figure = new_figure((11.5, 6.2 + below_height), title)
    above, below = parts_of(figure, heights=[4.6, below_height])
    _draw_table_and_hidden(above, recovery, table)
    if report.component_errors:
        below, right = parts_of(below, widths=[2.2, 1.0])
        _draw_ranks(right.subplots(), report)
    _draw_components(below, recovery, bars=panels > 0)
    return figure


def _draw_table_and_hidden(figure: SubFigure, recovery: ReLUMatrixRecovery, table: Samples) -> None:
    report, names = recovery.report_, _names_of(recovery)
    heights, hidden, floored, order = factor_cells(recovery, table)
    # The axis counts all columns, also where not all of them are shown.
    place = {"extent": (-0.5, len(order) - 0.5, len(heights), 0.0)}
    left, right = _draw_beside(figure, (heights, hidden), (floored, HIDDEN), "white", True, place)
    missing = ", white: missing" if np.isnan(heights).any() else ""
    titles = f"Seen: the table (grey: at the floor{missing})", "Recovered: T (blue: what the floor hid)"
    for axes, title in zip((left, right), titles, strict=True):
        tidy(axes, title, "columns, by component c0", "", frame=False)
        axes.set_title(title, loc="left", fontsize=11, color=INK, pad=14 if report.weak_columns else None)
        axes.set_xticks([])
        axes.set_yticks([])
        name_columns(axes, tuple(names[j] for j in order.tolist()))
    left.set_ylabel("rows, by component c0")
    weak = np.flatnonzero(np.isin(order, report.weak_columns))
    if len(weak):  # arrows over the columns that the table does not determine, and what they mean
        right.plot(weak, np.zeros(len(weak)), "v", color=NAIVE, markersize=7, clip_on=False, zorder=3)
        words = counted(len(weak), "column")
        right.set_xlabel(f"▼ {words} that the table does not determine: filled in", color=NAIVE)


def _draw_components(figure: SubFigure, recovery: ReLUMatrixRecovery, bars: bool) -> None:
    """Loadings of the columns: bars, a panel for every component, or all of them as one image."""
    components, names, shares = recovery.components_, _names_of(recovery), _variance_shares(recovery)
    labels = [f"{name} ({share:.0%})" for name, share in zip(numbered("c", len(shares)), shares, strict=True)]
    weak, column = np.array(recovery.report_.weak_columns), "column" if len(names) > MOST_NAMES else ""
    if not bars:
        axes = figure.subplots()
        image = draw_signed(axes, components, brightest(components, 99.5), aspect="auto")
        step = max(1, -(-len(labels) // 12))
        tidy(axes, _COMPONENTS, column, "", frame=False)
        axes.set_yticks(range(0, len(labels), step), labels[::step], fontsize=8)
        name_columns(axes, names)
        axes.plot(weak, np.full(len(weak), -0.5), "v", color=NAIVE, markersize=6, clip_on=False)
        figure.colorbar(image, ax=axes, pad=0.02, extend="both")
        return
    every = figure.subplots(len(components), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    colour = [NAIVE if j in weak else LEARNED for j in range(len(names))]
    for axes, row, label in zip(every, components, labels, strict=True):
        axes.bar(range(len(names)), row, color=colour, width=0.8)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        tidy(axes, "", column if axes is every[-1] else "", "")
        axes.spines["bottom"].set_visible(False)
        axes.set_ylabel(label, rotation=0, ha="right", va="center")
        axes.tick_params(axis="x", length=0)
    every[0].plot(weak, np.zeros(len(weak)), "v", color=NAIVE, markersize=6)
    every[0].set_title(_COMPONENTS, loc="left", fontsize=11, color=INK)
    every[-1].set_xlim(-0.6, len(names) - 0.4)
    name_columns(every[-1], names)


def _draw_ranks(axes: Axes, report: MatrixReport) -> None:
    from matplotlib.ticker import MaxNLocator

    ranks, errors = np.array(report.component_errors).T
    axes.plot(ranks, errors, "o-", color=HIDDEN, markerfacecolor=INK, markeredgecolor=INK, markersize=5)
    chosen = ranks == report.n_components
    axes.plot(ranks[chosen], errors[chosen], "o", color=LEARNED, markersize=11)
    axes.annotate(
        f"chosen: {report.n_components}", (ranks[chosen][0], errors[chosen][0]), (8, 8), textcoords="offset points",
        color=LEARNED, fontsize=10,
    )  # fmt: skip
    if errors.min() > 0.0 and errors.max() > 10.0 * errors.min():
        axes.set_yscale("log")
    axes.margins(0.15)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    tidy(axes, "Choice of the rank", "rank", "relative error\non held-out cells")


def recover_picture(rows: LatentRows, floor: ArrayLike, table: Samples, names: Sequence[str] | None) -> Figure:
    """The table beside the clean one, and below them the outliers by column and the sizes of the residuals."""
    report, (n, d) = rows.report, rows.clean.shape
    given, clean, flagged, sizes = recovered_cells(rows, floor_per_column(floor, d), table)
    labels, n_bad = names_or_numbers(names, d), len(report.bad_rows)
    skipped = f" ({n_bad:,} skipped)" if n_bad else ""
    title = f"{n:,} rows{skipped} of {d:,} values, {report.share_outliers:.1%} of them outliers"
    figure = new_figure((11.5, 8.2), title)
    above, below = parts_of(figure, heights=[4.6, 3.0])
    # The axes count all rows (from 1) and columns, also where not all of them are shown.
    place = {"extent": (-0.5, d - 0.5, n + 0.5, 0.5)}
    panels = _draw_beside(above, (given, clean), (flagged, NAIVE), HIDDEN, False, place)
    missing = ", grey: missing" if np.isnan(given).any() else ""
    skipped = " (grey: skipped rows)" if n_bad else ""
    titles = f"Given: the table (orange: outliers{missing})", f"Clean: as recovered{skipped}"
    for axes, title in zip(panels, titles, strict=True):
        tidy(axes, title, "" if d <= MOST_NAMES else "column", "", frame=False)
        name_columns(axes, labels)
    panels[0].set_ylabel("rows, in the order of the table")
    left, right = below.subplots(1, 2)
    _draw_shares(left, column_shares(rows), report.share_outliers, labels)
    _draw_sizes(right, sizes)
    return figure


def _draw_shares(axes: Axes, shares: FloatArray, of_all: float, names: tuple[str, ...]) -> None:
    d = len(names)
    axes.bar(range(d), 100.0 * shares, color=NAIVE, width=0.8 if d <= 2 * MOST_NAMES else 1.0)
    axes.axhline(100.0 * of_all, color=INK, linestyle="--", linewidth=1.0, label="all columns")
    axes.set_xlim(-0.6, d - 0.4)
    axes.set_ylim(0.0, max(1.15 * 100.0 * float(shares.max()), 1.0))
    tidy(axes, "Outliers by column", "" if d <= MOST_NAMES else "column", "% of its values")
    name_columns(axes, names)
    axes.legend(frameon=False, fontsize=9, loc="upper right")


def _draw_sizes(axes: Axes, sizes: FloatArray) -> None:
    edges = np.linspace(-_WIDEST, _WIDEST, _BINS + 1)
    counts = np.histogram(np.clip(sizes, -_WIDEST, _WIDEST), edges)[0]
    inlier = int((np.abs(sizes) <= 3.0).sum())
    centers = 0.5 * (edges[1:] + edges[:-1])
    expected = inlier * (edges[1] - edges[0]) * np.exp(-0.5 * centers**2) / np.sqrt(2.0 * np.pi)
    axes.stairs(counts, edges, fill=True, color=SEEN, label="values")
    near = np.abs(centers) < 4.0
    axes.plot(centers[near], expected[near], color=LEARNED, linewidth=2, label="normal noise")
    axes.set_yscale("log")
    axes.set_ylim(0.5, 10.0 * max(float(counts.max(initial=0)), float(expected.max(initial=0.0)), 1.0))
    far = int((np.abs(sizes) > _WIDEST).sum())
    words = f" ({far:,} outside ±{_WIDEST:g}, in the outer bins)" if far else ""
    tidy(axes, f"Given minus clean{words}", "in units of the row's noise scale", "values")
    axes.legend(frameon=False, fontsize=9, loc="upper right")
