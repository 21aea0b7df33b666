"""A network for other programs: networkx, GraphML, tables of edges."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.errors import MissingDependencyError
from unrelu.graph.contracts import EDGE_COLUMNS, Edge
from unrelu.storage import atomic_write
from unrelu.tables.write import check_table, write_columns

if TYPE_CHECKING:
    import networkx

GRAPHML = ".graphml"


def networkx_graph(edges: Sequence[Edge], nodes: Sequence[str | int]) -> networkx.Graph:
    """Every column a node, whether tied or not; edges have what an :class:`Edge` has, and ``weight``, the size of the
    partial correlation."""
    graph = networkx_module().Graph()
    graph.add_nodes_from(nodes)
    for edge in edges:
        told = zip(EDGE_COLUMNS[2:], edge[2:], strict=True)
        known = {name: value for name, value in told if not math.isnan(value)}
        graph.add_edge(edge.first, edge.second, weight=abs(edge.partial_correlation), **known)
    return graph


def networkx_module() -> Any:
    """networkx, which few need."""
    try:
        import networkx
    except ImportError as error:
        raise MissingDependencyError('Graphs need networkx: pip install "unrelu[network]".') from error
    return networkx


def check_edges_file(path: str | os.PathLike[str]) -> None:
    """Raise unless edges can be written under that name: before the long work, not after it."""
    if Path(path).suffix.lower() == GRAPHML:
        networkx_module()
    else:
        check_table(path, columns=True)


def write_edges(path: str | os.PathLike[str], edges: Sequence[Edge], nodes: Sequence[str | int]) -> None:
    """One line per edge (csv, tsv, parquet, feather, arrow), or a .graphml file; whole or not at all."""
    if Path(path).suffix.lower() == GRAPHML:
        graph = networkx_graph(edges, nodes)
        with atomic_write(path) as stream:
            networkx_module().write_graphml(graph, stream)
        return
    write_columns(path, [edge_columns(edges)])


def edge_columns(edges: Sequence[Edge]) -> dict[str, Any]:
    """The edges column by column; what was not asked is missing."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for k, name in enumerate(EDGE_COLUMNS):
        cells = [edge[k] for edge in edges]
        names = name in ("first", "second")
        columns[name] = list(map(str, cells)) if names else pa.array(np.array(cells, dtype=float), from_pandas=True)
    return columns
