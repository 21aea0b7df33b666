"""A recovered matrix in plain numbers, tables and a picture: its components, the numbers tried, how it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.table import Table

from unrelu.contracts import BoolArray, FloatArray, Samples
from unrelu.recovery.matrix.matrix import MatrixReport
from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery
from unrelu.report.model import shape_words
from unrelu.report.pictures import (
    BOTH_SIGNS,
    HIDDEN,
    INK,
    LEARNED,
    MOST_CELLS,
    MOST_NAMES,
    NAIVE,
    Numbers,
    cells_of,
    evenly,
    name_columns,
    new_figure,
    tidy,
)
from unrelu.report.tables import fact_table, rows
from unrelu.shapes import latent_limits, to_latent
from unrelu.tables.write import names_or_numbers
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_COMPONENTS = 20
# T = C A' + 1 b' tells C, A and b only up to a shift of C that b takes back: the gauge says which of them is meant.
_GAUGES = {
    "centered": "latent vectors have mean 0, the bias is T's column mean",
    "orthogonal": "the bias is orthogonal to the components",
    "bayes": "between centered and orthogonal",
    "zero": "there is no bias",
}
_WEAK = "too seldom above the floor to be determined: filled in, a guess"
_MOST_BARS, _MOST_BAR_PANELS = 60, 5
_BRIGHTEST = 98.0  # percentile of the heights from which on colours are full
_COMPONENTS = "Components: loadings of the columns, and share of the variance"


def column_labels(recovery: ReLUMatrixRecovery) -> tuple[str, ...]:
    """The columns' names; x0, x1, ... where they have none, as in tables written."""
    return names_or_numbers(getattr(recovery, "feature_names_in_", None), recovery.n_features_in_)


def component_names(count: int) -> tuple[str, ...]:
    """What tables call the components.

    >>> component_names(2)
    ('c0', 'c1')
    """
    return tuple(f"c{index}" for index in range(count))


def variance_shares(recovery: ReLUMatrixRecovery) -> FloatArray:
    """Per component, the share of the variance of T's columns: as A'A is diagonal, they add up to 1."""
    variance = recovery.latent_.var(axis=0) * (recovery.components_**2).sum(axis=1)
    total = float(variance.sum())
    shares: FloatArray = variance / total if total > 0.0 else np.zeros(len(variance))
    return shares


def _components(recovery: ReLUMatrixRecovery, most: int = 3) -> list[dict[str, Any]]:
    """One for each component, the strongest first: its own share of the variance of T, the columns it moves most."""
    names, shares = column_labels(recovery), variance_shares(recovery)
    found = []
    for name, share, row in zip(component_names(len(shares)), shares, recovery.components_, strict=True):
        strongest = np.argsort(-np.abs(row), kind="stable")[:most].tolist()
        loadings = [{"column": names[j], "loading": float(row[j])} for j in strongest]
        found.append({"name": name, "share": float(share), "strongest": loadings})
    return found


def _described(report: MatrixReport, names: Sequence[str]) -> dict[str, str]:
    """How the recovery went, name by name."""
    chosen = f", chosen of {len(report.component_errors)} by held-out cells" if report.component_errors else ""
    missing = f"; {report.share_missing:.1%} of the cells missing" if report.share_missing else ""
    ended = "" if report.converged else ", not converged"
    weak = [names[j] for j in report.weak_columns]
    return {
        "table": f"{report.n_rows:,} x {report.n_features:,}",
        "components": f"{report.n_components:,}{chosen}",
        "method": report.method,
        "gauge": f"{report.gauge} ({_GAUGES[report.gauge]})" if report.gauge in _GAUGES else report.gauge,
        "iterations": f"{report.iterations:,}",
        "relative residual": f"{report.residual:.3g}{ended}",
        "at the floor": f"{report.share_floored:.1%} of the values{missing}",
        **({} if report.noise is None else {"noise": f"{report.noise:.4g} (standard deviation inside the rectifier)"}),
        **({"weak columns": f"{listed(weak, most=8)} ({_WEAK})"} if weak else {}),
        **({"weak rows": f"{report.weak_rows:,} ({_WEAK})"} if report.weak_rows else {}),
    }


def factor_facts(recovery: ReLUMatrixRecovery) -> dict[str, Any]:
    """All of it, for JSON."""
    report, names = recovery.report_, column_labels(recovery)
    return {
        "report": asdict(report),
        "weak_columns": [names[j] for j in report.weak_columns],
        "components": _components(recovery),
        **({} if recovery.shapes_ is None else {"shapes": [shape_words(shape) for shape in recovery.shapes_]}),
    }


def factor_tables(recovery: ReLUMatrixRecovery, more: Mapping[str, str] | None = None) -> list[Table]:
    """All of it, for the terminal; ``more`` are facts to begin with."""
    report, names = recovery.report_, column_labels(recovery)
    facts = {**(more or {}), **_described(report, names)}
    if recovery.shapes_ is not None:
        told = zip(names, map(shape_words, recovery.shapes_), strict=True)
        shapes = listed([f"{name} {words}" for name, words in told], most=8)
        facts["shapes"] = f"{shapes} (components and bias are of latent values)"
    tables = [fact_table(facts)]
    if report.component_errors:
        tried = [
            (f"{count}", f"{error:.3g}", "chosen" if count == report.n_components else "")
            for count, error in report.component_errors
        ]
        tables.append(rows((">components", ">error on held-out cells", ""), tried))
    lines = []
    for component in _components(recovery):
        strongest = ", ".join(f"{item['column']} {item['loading']:+.3g}" for item in component["strongest"])
        lines.append((component["name"], f"{component['share']:.1%}", strongest))
    heads = ("<component", ">variance", "strongest columns, and their loadings")
    return [*tables, rows(heads, lines, _MOST_COMPONENTS)]


# --- the picture ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FactorResult:
    """What the picture shows: cells of the table and of T, and the components of all columns.

    ``table`` and ``hidden`` are heights over the floor (latent ones, with shapes), NaN where missing, with rows and
    columns in the order of the first component and evenly thinned out if there are many; ``order`` are all columns in
    that order. ``floored`` marks the cells of the table that are at the floor.
    """

    table: FloatArray
    hidden: FloatArray
    floored: BoolArray
    order: Numbers
    components: FloatArray
    shares: FloatArray
    names: tuple[str, ...]
    report: MatrixReport

    @classmethod
    def of(cls, recovery: ReLUMatrixRecovery, table: Samples, most: int = MOST_CELLS) -> FactorResult:
        """From what was recovered, and the table itself."""
        row_order, order = component_order(recovery)
        rows, columns = row_order[evenly(len(row_order), most)], order[evenly(len(order), most)]
        floor, cells = latent_floor(recovery)[columns], cells_of(table, rows, columns)
        if recovery.shapes_ is not None:
            chosen = tuple(recovery.shapes_[j] for j in columns.tolist())
            cells = to_latent(chosen, cells, recovery.floor_[columns], np.full(len(columns), np.inf))
        heights = cells - floor
        hidden = recovery.latent_[rows] @ recovery.components_[:, columns] + recovery.bias_[columns] - floor
        return cls(
            heights,
            hidden,
            heights <= float(recovery.floor_tolerance),
            order,
            recovery.components_,
            variance_shares(recovery),
            column_labels(recovery),
            recovery.report_,
        )


def latent_floor(recovery: ReLUMatrixRecovery) -> FloatArray:
    """Where T is cut off: the floors themselves, or those of latent values where columns have shapes."""
    if recovery.shapes_ is None:
        return recovery.floor_
    return latent_limits(recovery.shapes_, recovery.floor_, np.full(len(recovery.floor_), np.inf))[0]


def component_order(recovery: ReLUMatrixRecovery) -> tuple[Numbers, Numbers]:
    """Rows by their part in the first component, columns by its share in them: so sorted, T changes smoothly."""
    height = recovery.bias_ - latent_floor(recovery)
    size = np.sqrt((recovery.components_**2).sum(axis=0) + height**2)
    share = recovery.components_[0] / np.where(size > 0.0, size, 1.0)
    return np.argsort(recovery.latent_[:, 0], kind="stable"), np.argsort(share, kind="stable")


def factor_picture(result: FactorResult) -> Figure:
    """The table beside T, and below them the components and, where it was chosen, the rank."""
    report = result.report
    panels = _bar_panels(result)
    figure = new_figure((11.5, 6.2 + max(1.9, 0.75 * panels)))
    figure.suptitle(
        f"Rank {report.n_components:,} behind {report.n_rows:,} x {report.n_features:,} values,"
        f" {report.share_floored:.0%} of them hidden at the floor",
        fontsize=14,
        color=INK,
    )
    above, below = cast("list[SubFigure]", figure.subfigures(2, 1, height_ratios=[4.6, max(1.9, 0.75 * panels)]))
    _draw_tables(above, result)
    if not report.component_errors:
        _draw_components(below, result)
        return figure
    left, right = cast("list[SubFigure]", below.subfigures(1, 2, width_ratios=[2.2, 1.0]))
    _draw_components(left, result)
    _draw_ranks(right.subplots(), report)
    return figure


def _draw_tables(figure: SubFigure, result: FactorResult) -> None:
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    spread = np.sqrt((result.hidden**2).mean(axis=0))
    spread[spread == 0.0] = 1.0
    heights = result.hidden / spread
    limit = float(np.percentile(np.abs(heights), _BRIGHTEST)) or 1.0
    norm, colours = Normalize(-limit, limit), matplotlib.colormaps[BOTH_SIGNS]
    seen = colours(norm(result.table / spread))
    seen[result.floored] = matplotlib.colors.to_rgba(HIDDEN)
    seen[np.isnan(result.table)] = 1.0
    left, right = figure.subplots(1, 2)
    missing = ", white: missing" if np.isnan(result.table).any() else ""
    _draw_image(left, seen, result, f"Seen: the table (grey: at the floor{missing})")
    _draw_image(right, colours(norm(heights)), result, "Recovered: T (blue: what the floor hid)")
    left.set_ylabel("rows, by component c0")
    weak = np.flatnonzero(np.isin(result.order, result.report.weak_columns))
    if len(weak):  # arrows over the columns that the table does not determine, and what they mean
        right.plot(weak, np.zeros(len(weak)), "v", color=NAIVE, markersize=7, clip_on=False, zorder=3)
        words = counted(len(weak), "column")
        right.set_xlabel(f"▼ {words} that the table does not determine: filled in", color=NAIVE)
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=[left, right], shrink=0.85, extend="both", pad=0.02)
    bar.set_label("height over the floor,\nin units of the column's root mean square", fontsize=9)


def _draw_image(axes: Axes, image: Any, result: FactorResult, title: str) -> None:
    d = len(result.order)
    # The axis counts all columns, also where not all of them are shown.
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(-0.5, d - 0.5, len(image), 0.0))
    tidy(axes, title, "columns, by component c0", "")
    axes.set_title(title, loc="left", fontsize=11, color=INK, pad=14 if result.report.weak_columns else None)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    name_columns(axes, tuple(result.names[j] for j in result.order.tolist()))


def _bar_panels(result: FactorResult) -> int:
    """Panels of bars; 0 where there are too many columns or components for bars."""
    rank, d = result.components.shape
    return rank if d <= _MOST_BARS and rank <= _MOST_BAR_PANELS else 0


def _draw_components(figure: SubFigure, result: FactorResult) -> None:
    panels = _bar_panels(result)
    if not panels:
        _draw_component_image(figure, result)
        return
    every = figure.subplots(panels, 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    d = len(result.names)
    colour = [NAIVE if j in result.report.weak_columns else LEARNED for j in range(d)]
    for axes, row, label in zip(every, result.components, _component_labels(result), strict=True):
        axes.bar(range(d), row, color=colour, width=0.8)
        axes.axhline(0.0, color=INK, linewidth=0.8)
        tidy(axes, "", "", "")
        axes.spines["bottom"].set_visible(False)
        axes.set_ylabel(label, rotation=0, ha="right", va="center")
        axes.tick_params(axis="x", length=0)
    weak = np.array(result.report.weak_columns)
    every[0].plot(weak, np.zeros(len(weak)), "v", color=NAIVE, markersize=6)
    every[0].set_title(_COMPONENTS, loc="left", fontsize=11, color=INK)
    every[-1].set_xlim(-0.6, d - 0.4)
    name_columns(every[-1], result.names)
    if d > MOST_NAMES:
        every[-1].set_xlabel("column")


def _draw_component_image(figure: SubFigure, result: FactorResult) -> None:
    axes = figure.subplots()
    limit = float(np.percentile(np.abs(result.components), 99.5)) or 1.0
    image = axes.imshow(
        result.components, cmap=BOTH_SIGNS, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    labels = _component_labels(result)
    step = max(1, -(-len(labels) // 12))
    tidy(axes, _COMPONENTS, "column" if len(result.names) > MOST_NAMES else "", "")
    axes.set_yticks(range(0, len(labels), step), labels[::step], fontsize=8)
    axes.spines[:].set_visible(False)
    name_columns(axes, result.names)
    weak = np.array(result.report.weak_columns)
    axes.plot(weak, np.full(len(weak), -0.5), "v", color=NAIVE, markersize=6, clip_on=False)
    figure.colorbar(image, ax=axes, pad=0.02, extend="both")


def _component_labels(result: FactorResult) -> list[str]:
    names = component_names(len(result.components))
    return [f"{name} ({share:.0%})" for name, share in zip(names, result.shares, strict=True)]


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
