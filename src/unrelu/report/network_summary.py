"""A network in plain numbers and tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from unrelu.networks.contracts import EDGE_COLUMNS, Edge
from unrelu.networks.stability import STABLE
from unrelu.report.tables import new_table
from unrelu.samples.columns import names_or_numbers
from unrelu.validation import counted, listed

if TYPE_CHECKING:
    from unrelu.estimators import RectifiedGaussianNetwork

_MOST = 15  # edges in a table for people


def labelled_edges(network: RectifiedGaussianNetwork) -> tuple[tuple[Edge, ...], tuple[str, ...]]:
    """(edges, columns) by name; x0, x1, ... where columns have none."""
    names = names_or_numbers(network.distribution_.feature_names, network.n_features_in_)
    return network.network_.edges(names), names


def network_facts(network: RectifiedGaussianNetwork) -> dict[str, Any]:
    """All of it, for JSON."""
    edges, names = labelled_edges(network)
    found, path = network.network_, network.path_
    degree = found.adjacency.sum(axis=1)
    return {
        "selection": network.selection,
        "rule": found.rule,
        "n_edges": len(edges),
        "n_stable": _n_stable(edges),
        "n_left_out": found.n_left_out,
        "agreement": found.agreement,
        "n_rows": network.report_.n_rows,
        "effective_rows": found.effective_rows,
        "penalty": None if path is None else path.penalty,
        "stderr_degrees": found.degrees if np.isfinite(found.degrees) else None,
        "n_subsets": found.n_subsets,
        "edges": [dict(zip(EDGE_COLUMNS, edge, strict=True)) for edge in edges],
        "columns": [{"name": name, "degree": int(degree[j])} for j, name in enumerate(names)],
        "path": None if path is None else {k: v for k, v in asdict(path).items() if v is not None},
        "report": asdict(network.report_),
    }


def network_shown(network: RectifiedGaussianNetwork, seconds: float) -> list[str | Table]:
    """All of it, for the terminal."""
    edges, names = labelled_edges(network)
    report, found, path = network.report_, network.network_, network.path_
    alone = [name for name, row in zip(names, found.adjacency, strict=True) if not row.any()]
    penalty = "no penalty" if path is None else f"penalty {path.penalty:.3g}"
    penalty += " to start with" if found.rule == "likely" else ""
    shown: list[str | Table] = [
        f"{counted(len(edges), 'edge')} between {counted(len(names), 'column')}, from {report.n_rows:,} rows in"
        f" {seconds:.2f} s ({report.share_floored:.1%} of the values at the floor: as much is known as from"
        f" {found.effective_rows:,.0f} rows without; {penalty}).",
    ]
    if found.n_subsets and edges:
        shown.append(
            f"{_n_stable(edges):,} of them are stable: at least half of {found.n_subsets} halves of the rows have them"
            f" by the same rule ({found.rule}). Two halves without a common row share {found.agreement:.0%} of theirs."
        )
    if alone:
        shown.append(f"Without an edge: {listed(alone, 12)}.")
    if edges:
        shown.append(_edge_table(edges))
    return shown


def _n_stable(edges: tuple[Edge, ...]) -> int | None:
    """None where halves of the rows were not asked."""
    if edges and np.isnan(edges[0].stability):
        return None
    return sum(edge.stability >= STABLE for edge in edges)


def _edge_table(edges: tuple[Edge, ...]) -> Table:
    title = "strongest edges" if len(edges) > _MOST else "edges"
    tested = not np.isnan(edges[0].q_value)
    last = ("stability", "q-value") if tested else ("stability",)
    table = new_table(title, "", numbers=("partial correlation", "error", *last))
    for edge in edges[:_MOST]:
        told = (edge.stability, edge.q_value)[: len(last)]
        table.add_row(
            Text(str(edge.first)),
            Text(str(edge.second)),
            f"{edge.partial_correlation:+.3f}",
            f"{edge.stderr:.3f}",
            *("" if np.isnan(number) else f"{number:.2g}" for number in told),
        )
    return table
