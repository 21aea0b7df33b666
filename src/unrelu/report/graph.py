"""A graph in plain numbers, tables and pictures: the graph itself, and the path of graphs it was chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.estimators import RectifiedGaussianGraph
from unrelu.graph.learning import EDGE_COLUMNS, STABLE, Edge, GraphPath, networkx_graph, networkx_module
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, new_figure, short_name, tidy
from unrelu.report.tables import Facts, Rows, facts, rows, table_of
from unrelu.tables.write import names_or_numbers
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 15  # edges in a table for people
_COMMUNITIES = ("#A6CEE3", "#B2DF8A", "#FDBF6F", "#CAB2D6", "#FB9A99", "#FFFF99", "#80CDC1", "#E5C494", "#D9D9D9")
_FEWEST_TOGETHER = 3  # columns of a community with a colour
_MOST_NAMES, _MOST_HUBS = 70, 40  # columns that are all named; of more, those with most edges
_MOST_EXACT = 120  # columns of a part that is laid out by the lengths of all its paths
_FAINT, _FAINT_WIDTH = 0.3, 0.5  # lines of unstable edges
_ROOM = 1.25  # between parts, in units of a typical distance of neighbours

Places = dict[Any, FloatArray]


def labelled_edges(graph: RectifiedGaussianGraph) -> tuple[tuple[Edge, ...], tuple[str, ...]]:
    """(edges, columns) by name; x0, x1, ... where columns have none."""
    names = names_or_numbers(graph.distribution_.feature_names, graph.n_features_in_)
    return graph.graph_.edges(names), names


@facts.register
def _(graph: RectifiedGaussianGraph) -> Facts:
    edges, names = labelled_edges(graph)
    found, path = graph.graph_, graph.path_
    degree = found.adjacency.sum(axis=1)
    by_halves = not (edges and np.isnan(edges[0].stability))
    return {
        "selection": graph.selection,
        "rule": found.rule,
        "n_edges": len(edges),
        "n_stable": sum(edge.stability >= STABLE for edge in edges) if by_halves else None,
        "n_left_out": found.n_left_out,
        "agreement": found.agreement,
        "n_rows": graph.report_.n_rows,
        "effective_rows": found.effective_rows,
        "penalty": None if path is None else path.penalty,
        "stderr_degrees": found.degrees if np.isfinite(found.degrees) else None,
        "n_subsets": found.n_subsets,
        "edges": [dict(zip(EDGE_COLUMNS, edge, strict=True)) for edge in edges],
        "columns": [{"name": name, "degree": int(degree[j])} for j, name in enumerate(names)],
        "path": None if path is None else {k: v for k, v in asdict(path).items() if v is not None},
    }


@rows.register
def _(graph: RectifiedGaussianGraph, took: str) -> Rows:
    edges, names = labelled_edges(graph)
    report, found, path = graph.report_, graph.graph_, graph.path_
    alone = [name for name, row in zip(names, found.adjacency, strict=True) if not row.any()]
    penalty = "no penalty" if path is None else f"penalty {path.penalty:.3g}"
    penalty += " to start with" if found.rule == "likely" else ""
    shown: Rows = [
        f"{counted(len(edges), 'edge')} between {counted(len(names), 'column')}, from {report.n_rows:,} rows in"
        f" {took} ({report.share_floored:.1%} of the values at the floor, so that they are worth"
        f" {found.effective_rows:,.0f} rows without; {penalty})."
    ]
    if found.n_subsets and edges:
        n_stable = sum(edge.stability >= STABLE for edge in edges)
        shown.append(
            f"{n_stable:,} of them are stable: at least half of {found.n_subsets} halves of the rows have them"
            f" by the same rule ({found.rule}). Two halves without a common row share {found.agreement:.0%} of their"
            " edges."
        )
    if alone:
        shown.append(f"Without an edge: {listed(alone, 12)}.")
    if not edges:
        return shown
    title = "strongest edges" if len(edges) > _MOST else "edges"
    columns = [(title, "{first}"), ("", "{second}"), (">partial correlation", "{partial_correlation:+.3f}")]
    columns += [(">error", "{stderr:.3f}"), (">stability", "{stability:.2g}")]
    columns += [(">q-value", "{q_value:.2g}")] * (not np.isnan(edges[0].q_value))
    return [*shown, table_of((dict(zip(EDGE_COLUMNS, edge, strict=True)) for edge in edges[:_MOST]), *columns)]


# --- the graph ------------------------------------------------------------------------------------


def graph_picture(edges: Sequence[Edge], nodes: Sequence[str | int]) -> Figure:
    """Columns as dots, larger with more edges, in the colour of their community; edges by sign and strength, those that
    fewer than half of the halves of the rows have faintly behind the others.

    Stable edges decide where columns lie; one that has none lies beside the column of its most stable edge.
    """
    stable = [edge for edge in edges if not edge.stability < STABLE]
    held = {node for edge in stable for node in edge[:2]}
    others = [edge for edge in sorted(edges, key=lambda edge: edge.stability) if not held.issuperset(edge[:2])]
    beside = {node: edge for edge in others for node in edge[:2] if node not in held}
    graph = networkx_graph(stable or edges, nodes)
    laid_out = networkx_graph([*stable, *beside.values()], nodes)
    alone = [node for node in laid_out if laid_out.degree(node) == 0]
    places = _places(laid_out)
    size = float(np.clip(5.5 + 0.03 * len(places), 6.0, 11.5))  # larger for more columns, as wide and tall as they lie
    extent = np.ptp(list(places.values()), axis=0) + 1.0 if places else np.ones(2)
    aspect = float(np.clip(np.sqrt(extent[0] / extent[1]), 0.9, 1.4))
    figure = new_figure((size * aspect, size / aspect + 0.8))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_aspect("equal")
    if places:
        _draw_edges(axes, edges, places)
        _draw_nodes(axes, graph, places)
        axes.margins(0.06)
    title = f"{counted(len(edges), 'edge')} between {counted(len(nodes), 'column')}"
    axes.set_title(title, loc="left", fontsize=13, color=INK)
    below = []
    if unstable := sum(edge.stability < STABLE for edge in edges):
        below.append(f"Faint lines: {unstable} of the edges, found in fewer than half of the halves of the rows")
    if alone:
        below.append(f"Without an edge: {listed([short_name(str(node), 12) for node in alone], 12)}")
    if below:
        figure.supxlabel("\n".join(below), fontsize=9, color=INK, x=0.02, ha="left")
    return figure


# --- where the columns are drawn ----------------------------------------------------------------------


def _places(graph: Any) -> Places:
    """Every connected part by itself, the parts side by side in rows, the largest first."""
    networkx = networkx_module()
    parts = sorted((part for part in networkx.connected_components(graph) if len(part) > 1), key=_by_size)
    boxes = [_laid_out(networkx, graph.subgraph(sorted(part, key=str))) for part in parts]
    extents = [np.ptp(list(box.values()), axis=0) + _ROOM for box in boxes]
    wide = max(1.3 * np.sqrt(sum(float(np.prod(extent)) for extent in extents)), *(e[0] for e in extents), 0.0)
    places: Places = {}
    corner, tall = np.zeros(2), 0.0
    for box, extent in zip(boxes, extents, strict=True):
        if corner[0] > 0.0 and corner[0] + extent[0] > wide:
            corner, tall = np.array([0.0, corner[1] - tall]), 0.0
        low, high = np.min(list(box.values()), axis=0), np.max(list(box.values()), axis=0)
        shift = corner - np.array([low[0], high[1]])
        places |= {node: place + shift for node, place in box.items()}
        corner, tall = corner + np.array([extent[0], 0.0]), max(tall, float(extent[1]))
    return places


def _by_size(part: set[Any]) -> tuple[int, str]:
    return -len(part), min(map(str, part))


def _laid_out(networkx: Any, part: Any) -> Places:
    """A connected part, rotated to be wide, with neighbours about 1 apart."""
    plain = networkx.Graph(part.edges)  # the lengths of edges do not depend on their strength
    if len(part) == 2:
        return {node: np.array([float(k), 0.0]) for k, node in enumerate(plain)}
    if len(part) <= _MOST_EXACT:
        raw = networkx.kamada_kawai_layout(plain)
    else:
        start = networkx.kamada_kawai_layout(plain) if len(part) <= 3 * _MOST_EXACT else None
        raw = networkx.spring_layout(plain, pos=start, k=1.6 / np.sqrt(len(part)), iterations=120, seed=0)
    points = np.array([raw[node] for node in plain])
    points -= points.mean(axis=0)
    points = points @ np.linalg.svd(points, full_matrices=False)[2].T
    at = {node: k for k, node in enumerate(plain)}
    lengths = [np.linalg.norm(points[at[a]] - points[at[b]]) for a, b in plain.edges]
    return dict(zip(plain, points / np.median(lengths), strict=True))


# --- edges and nodes ------------------------------------------------------------------------------


def _draw_edges(axes: Axes, edges: Sequence[Edge], places: Places) -> None:
    """Lines, the weakest first, and what the width of the strongest stands for."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    weakest_first = sorted(edges, key=lambda edge: (not edge.stability < STABLE, abs(edge.partial_correlation)))
    strength = np.array([abs(edge.partial_correlation) for edge in weakest_first])
    faint = np.array([edge.stability < STABLE for edge in weakest_first])
    # Thinner where many stable ones are drawn.
    width = 7.0 * min(1.0, 12.0 / np.sqrt(max(int(np.count_nonzero(~faint)), 1)))
    axes.add_collection(
        LineCollection(
            [(places[edge.first], places[edge.second]) for edge in weakest_first],
            colors=[LEARNED if edge.partial_correlation > 0.0 else NAIVE for edge in weakest_first],
            linewidths=np.where(faint, _FAINT_WIDTH, 0.5 + width * strength),
            alpha=np.where(faint, _FAINT, 0.8),
            zorder=1,
        )
    )
    lines = [
        Line2D([], [], color=colour, linewidth=0.5 + width * strength.max(), label=f"{sign} {strength.max():.2f}")
        for colour, sign in ((LEARNED, "+"), (NAIVE, "−"))
    ]
    axes.legend(
        handles=lines, title="partial correlation", frameon=False, fontsize=9, title_fontsize=9, loc="lower right",
        bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.0,
    )  # fmt: skip


def _draw_nodes(axes: Axes, graph: Any, places: Places) -> None:
    from matplotlib.patheffects import withStroke

    degree = dict(graph.degree())
    most, shown = max(degree.values()), list(places)
    small = float(np.clip(40.0 / len(places), 0.35, 1.0))
    sizes = {node: (50.0 + 450.0 * degree[node] / most) * small for node in shown}
    colours, at = _colours(graph), np.array([places[node] for node in shown])
    axes.scatter(
        at[:, 0], at[:, 1], s=list(sizes.values()), c=[colours[node] for node in shown], edgecolors=INK,
        linewidths=0.6, zorder=2,
    )  # fmt: skip
    named = shown if len(shown) <= _MOST_NAMES else sorted(shown, key=lambda node: -degree[node])[:_MOST_HUBS]
    font = float(np.clip(11.0 - 0.05 * len(shown), 7.0, 10.0))
    for node in named:
        axes.annotate(
            short_name(str(node), 14), tuple(places[node]), xytext=(0.0, 0.5 * np.sqrt(sizes[node]) + 1.0),
            textcoords="offset points", ha="center", va="bottom", fontsize=font, color="black", zorder=3,
            path_effects=[withStroke(linewidth=2.0, foreground="white")],
        )  # fmt: skip


def _colours(graph: Any) -> dict[Any, str]:
    """By community (Louvain's), where that has several columns."""
    found = networkx_module().community.louvain_communities(graph, weight="weight", seed=0)
    found = sorted((each for each in found if len(each) >= _FEWEST_TOGETHER), key=_by_size)
    colours = dict.fromkeys(graph, "white")
    for k, community in enumerate(found):
        colours |= dict.fromkeys(community, _COMMUNITIES[k % len(_COMMUNITIES)])
    return colours


def path_picture(path: GraphPath) -> Figure:
    """The number of edges along the path and, where there is one, the criterion of the choice."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    edges = f"{counted(int(path.n_edges[path.chosen]), 'edge')} at the penalty {path.penalty:.3g}"
    curves: list[tuple[Any, str, str]] = [(path.n_edges, edges, "edges")]
    if path.criterion is not None:
        curves.append(
            (path.criterion - np.nanmin(path.criterion), "Extended BIC of the refits, less the least", "EBIC")
        )
    if path.instability is not None:
        curves.append((path.instability, "Disagreement of subsets of the rows", "instability"))
    figure = new_figure((6.5, 3.0 * len(curves)))
    axes: list[Axes] = list(figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0])
    for panel, (values, title, name) in zip(axes, curves, strict=True):
        panel.plot(path.penalties, values, "o-", color=LEARNED, markersize=3)
        if name == "instability":
            panel.axhline(0.05, color=NAIVE, linewidth=0.8)
        tidy(panel, title, "", name)
    for panel in axes:
        panel.axvline(path.penalty, color=HIDDEN, linewidth=4.0, zorder=0)
    axes[-1].set_xlabel("penalty, from sparse to dense graphs")
    if path.penalties.min() > 0.0 and len(path.penalties) > 1:
        axes[-1].set_xscale("log")
        axes[-1].xaxis.set_major_locator(LogLocator(base=10.0, subs=(1.0, 2.0, 5.0)))
        axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes[-1].xaxis.set_minor_formatter(NullFormatter())
    if len(path.penalties) > 1:
        axes[-1].set_xlim(path.penalties.max(), path.penalties.min())
    return figure
