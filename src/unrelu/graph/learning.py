"""A graph on one screen: a path of graphs, the choice of one, its refit without a penalty, errors; what comes out.

Halves. A rule gives its graphs of random halves of the rows, in pairs that have no row in common. The stability
of an edge is the share of the halves that have it (Meinshausen and Buehlmann 2010; in pairs: Shah and Samworth 2013).
Of several rules that is taken which has most edges in common between the two halves of a pair, among those where these
are a third of what a half has, and if there is none, that with the largest share (docs/research/036).

StARS (Liu, Roeder and Wasserman 2010): the densest graph of a path that subsets of the rows agree on. A pair that is
tied in the share t of the subsets is unstable by 2 t (1 - t): the chance that two subsets disagree. The smallest
penalty is taken down to which the mean over all pairs has never been above 0.05.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, Diagnostic, FloatArray, PairCorrelations, Progress, Step, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError, MissingDependencyError
from unrelu.fit.shrinkage import rows_by_errors, rows_of_pairs
from unrelu.graph.edges import (
    criteria,
    invertible,
    likely_edges,
    neighbourhood_graphs,
    partial_correlations,
    penalties_for,
    q_values,
    refitted_precision,
)
from unrelu.graph.subsets import RowGroups, partial_errors
from unrelu.passes.engine import blas_threads_for
from unrelu.storage import atomic_write
from unrelu.tables.write import check_table, write_columns
from unrelu.validation import counted, suggestion

if TYPE_CHECKING:
    import networkx

SELECTIONS = ("auto", "likely", "ebic", "stars", "fdr")
_BY_INFORMATION = ("likely", "ebic")
CHOOSING = "Choosing edges"
_CERTAIN = 4.0  # standard errors of a correlation
_ROWS_A_COLUMN = 2.0  # with fewer, and without halves, the sparser rule
FALSE_DISCOVERIES = 0.1
UNSTABLE = 0.05
OF_EDGES = ("trivial-graph", "unstable-edges")  # kinds of diagnostics
STABLE = 0.5  # share of the halves that have a stable edge
_COMMON = 1.0 / 3.0  # of the edges of a half: so many common ones are enough
_FEW = 10  # unstable edges without a diagnostic: each has its own error and stability
_GRAPHML = ".graphml"


class Edge(NamedTuple):
    """Two columns that are tied directly, by name (by position where columns have none).

    ``stability``: the share of random halves of the rows in which they are; ``q_value``: the least false discovery rate
    at which they are. NaN where that was not computed.
    """

    first: str | int
    second: str | int
    partial_correlation: float
    stderr: float
    stability: float
    q_value: float


EDGE_COLUMNS = tuple(Edge.__annotations__)


@dataclass(frozen=True, eq=False)
class GraphPath:
    """Graphs from sparse to dense: penalty, number of edges and the criteria of the choice, if any.

    ``instability``: 2 t (1 - t) of a pair that is tied in the share t of StARS's subsets, averaged over all pairs,
    and its largest value so far. ``criterion``: the EBIC of the refits, NaN where it was clear before. ``chosen`` is
    the position of the graph that was taken or, with "likely", started from.
    """

    penalties: Annotated[FloatArray, "floats p"]
    n_edges: Annotated[NDArray[np.int64], "ints p"]
    chosen: int
    instability: Annotated[FloatArray, "floats p"] | None = None
    criterion: Annotated[FloatArray, "unbounded floats p"] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.chosen < len(self.penalties):
            raise InvalidDataError(f"there is no graph {self.chosen!r:.40} among its {len(self.penalties)}")

    @property
    def penalty(self) -> float:
        return float(self.penalties[self.chosen])


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph with the partial correlations on it; matrices are d x d.

    ``precision`` and ``partial_correlation`` are the most likely ones with zeros where there is no edge, or, where
    edges are chosen by their false discovery rate, those of all pairs. ``stderr`` is NaN where nothing was estimated;
    ``degrees`` of freedom of these errors, inf for the model's own. ``effective_rows``: how many rows without floors
    would have as small errors of the correlations. ``path`` is None where there was no penalty.

    ``rule``: how the edges were found, "likely", "ebic", "stars", "fdr" or "penalty". From its graphs of ``n_subsets``
    random halves of the rows, ``stability`` is the share of them that tie a pair, ``agreement`` the share of a half's
    edges that the half without its rows has, too. ``n_left_out``: edges of the rule that fewer than half of the halves
    have, left out because most of its edges are such.
    """

    adjacency: Annotated[BoolArray, "bools d d"]
    precision: Annotated[FloatArray, "floats d d"]
    partial_correlation: Annotated[FloatArray, "floats d d"]
    stderr: Annotated[FloatArray, "unbounded floats d d"]
    degrees: float
    stability: Annotated[FloatArray, "unbounded floats d d"]
    q_value: Annotated[FloatArray, "unbounded floats d d"]
    effective_rows: float
    n_subsets: int
    path: GraphPath | None
    rule: str = ""
    agreement: float = float("nan")
    n_left_out: int = 0

    @property
    def n_edges(self) -> int:
        return int(np.count_nonzero(self.adjacency)) // 2

    def negated(self, sign: FloatArray) -> Self:
        """The graph of columns of which some, with sign -1, are negated."""
        both = np.outer(sign, sign)
        return replace(self, precision=self.precision * both, partial_correlation=self.partial_correlation * both)

    def edges(self, names: tuple[str, ...] | None) -> tuple[Edge, ...]:
        """The edges, the strongest first."""
        first, second = np.nonzero(np.triu(self.adjacency, 1))
        order = np.argsort(-np.abs(self.partial_correlation[first, second]), kind="stable")
        found = []
        for i, j in zip(first[order].tolist(), second[order].tolist(), strict=True):
            numbers: Any = [
                float(each[i, j]) for each in (self.partial_correlation, self.stderr, self.stability, self.q_value)
            ]
            found.append(Edge(i if names is None else names[i], j if names is None else names[j], *numbers))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class LatentCorrelations:
    """Latent correlations R of the columns that vary, semidefinite, and how many rows without floors and gaps would
    have as small an error of a typical one, or of each; ``groups`` where there are records of groups of rows."""

    correlation: FloatArray
    effective_rows: float
    pair_rows: FloatArray
    groups: RowGroups | None = None


def correlations_of_rows(correlation: FloatArray, n_rows: float) -> LatentCorrelations:
    """Those of ``n_rows`` without floors and gaps."""
    return LatentCorrelations(correlation, n_rows, np.full_like(correlation, n_rows))


def rows_that_would_do(pairs: PairCorrelations, n_rows: float) -> tuple[float, FloatArray]:
    """How many rows without floors and gaps would have as small errors of a typical pair, and of each, as ``n_rows``
    do."""
    r, variance = np.nan_to_num(pairs.correlation), np.nan_to_num(pairs.stderr, nan=1.0) ** 2
    n_rows = max(n_rows, 1.0)
    return rows_by_errors(r, variance, n_rows), rows_of_pairs(r, variance, n_rows)


def check_selection(selection: str | float) -> None:
    """Raise InvalidParameterError unless it is a name or a penalty."""
    if isinstance(selection, str) and selection in SELECTIONS:
        return
    if isinstance(selection, Real) and not isinstance(selection, bool) and 0.0 <= selection <= 1.0:
        return
    advice = suggestion(selection, SELECTIONS) if isinstance(selection, str) else ""
    raise InvalidParameterError(
        "selection must be 'auto', 'likely', 'ebic', 'stars', 'fdr' or a penalty between 0 and 1, got"
        f" {selection!r}. {advice}".strip(),
        parameter="selection",
    )


def learn_graph(
    given: LatentCorrelations, selection: str | float, seed: int = 0, progress: Progress = no_progress
) -> Graph:
    """The graph that ``selection`` takes, and the partial correlations on it."""
    check_selection(selection)
    given = replace(given, correlation=invertible(given.correlation))
    progress(Step(CHOOSING))
    with blas_threads_for(len(given.correlation)):
        if selection == "fdr":
            return _by_discoveries(given, seed, progress)
        if selection in ("auto", *_BY_INFORMATION):
            return _by_information(given, str(selection), seed, progress)
        return _by_path(given, selection, seed, progress)


def _by_information(given: LatentCorrelations, selection: str, seed: int, progress: Progress) -> Graph:
    """The edges of one rule, or of that which halves of the rows agree on."""
    rules = _BY_INFORMATION if selection == "auto" else (selection,)

    def informed(given: LatentCorrelations) -> tuple[GraphPath, BoolArray]:
        """A path with the least EBIC chosen, and the edges of every rule."""
        penalties = penalties_for(given.correlation, given.effective_rows)
        graphs = _graphs(given.correlation, penalties)
        found = criteria(given.correlation, graphs, given.effective_rows)
        path = GraphPath(penalties, _edges_of(graphs), int(np.nanargmin(found)), criterion=found)
        edges = {"ebic": graphs[path.chosen]}
        if "likely" in rules:
            edges["likely"] = likely_edges(given.correlation, given.pair_rows, edges["ebic"])
        return path, np.array([edges[rule] for rule in rules])

    path, graphs = informed(given)
    halves, best = _halves(given, lambda half: informed(half)[1], seed, progress), 0
    if halves is not None:
        best = most_agreed(halves)
    elif selection == "auto" and given.effective_rows < _ROWS_A_COLUMN * len(given.correlation):
        best = _BY_INFORMATION.index("ebic")
    graph = graphs[best]
    if selection == "auto" and halves is not None:
        graph = without_many_unstable(graph, np.mean(halves[best], axis=0))
    learned = _with_halves(_on_graph(given, graph, path, rules[best], progress), halves, best)
    return replace(learned, n_left_out=int(_edges_of(graphs[best] & ~graph)))


def _by_path(given: LatentCorrelations, selection: str | float, seed: int, progress: Progress) -> Graph:
    """The graph with a penalty that is given, or that StARS takes."""
    if selection == "stars" and given.groups is None:
        raise InvalidParameterError(
            "selection='stars' takes subsets of the rows, and there are none: a learner or record must have been"
            " made with stderr='jackknife', and the method be 'one_pass' or 'robust'. Otherwise use selection='auto'."
        )
    penalties, unstable = penalties_for(given.correlation, given.effective_rows), None
    if selection != "stars":
        penalties = np.unique([*penalties, float(selection)])[::-1]
    graphs = _graphs(given.correlation, penalties)
    n_edges = _edges_of(graphs)
    if selection == "stars" and given.groups is not None:
        found = given.groups.subsets(lambda r: neighbourhood_graphs(invertible(r), penalties), seed, progress)
        unstable = instability(np.mean(found, axis=0))
        chosen = most_stable(unstable)
    else:
        chosen = int(np.flatnonzero(penalties == float(selection))[0])
    path, penalty, halves = GraphPath(penalties, n_edges, chosen, unstable), penalties[[chosen]], None
    if path.penalty > 0.0:
        halves = _halves(given, lambda half: _graphs(half.correlation, penalty), seed, progress)
    rule = "stars" if selection == "stars" else "penalty"
    return _with_halves(_on_graph(given, graphs[chosen], path, rule, progress), halves)


def _by_discoveries(given: LatentCorrelations, seed: int, progress: Progress) -> Graph:
    """All partial correlations without a penalty, and as edges those that are not 0."""
    d = len(given.correlation)
    if given.effective_rows < 2 * d:
        raise InvalidParameterError(
            f"selection='fdr' tests partial correlations without a penalty, which takes many more rows than columns:"
            f" here {given.effective_rows:,.0f} (as many without floors would have as small errors) for {d:,} columns."
            " Use selection='auto', 'likely', 'ebic' or 'stars'."
        )
    every = ~np.eye(d, dtype=bool)
    graph = _on_graph(given, every, None, "fdr", progress)
    q = q_values(graph.partial_correlation, graph.stderr, graph.degrees)
    graph = replace(graph, adjacency=q <= FALSE_DISCOVERIES, q_value=q)  # NaN is none

    def discovered(half: LatentCorrelations) -> BoolArray:
        larger = np.sqrt((given.effective_rows - d + 1.0) / max(half.effective_rows - d + 1.0, 1.0))
        found = partial_correlations(refitted_precision(half.correlation, every))
        return np.asarray(q_values(found, larger * graph.stderr, graph.degrees) <= FALSE_DISCOVERIES)[None]

    return _with_halves(graph, _halves(given, discovered, seed, progress))


def _edges_of(graphs: BoolArray) -> Any:
    """How many edges each has."""
    return np.count_nonzero(graphs, axis=(-2, -1)) // 2


def _graphs(correlation: FloatArray, penalties: FloatArray) -> BoolArray:
    """Neighbourhood selection; without a penalty every pair is tied."""
    graphs = np.empty((len(penalties), *correlation.shape), dtype=bool)
    graphs[:] = ~np.eye(len(correlation), dtype=bool)
    positive = penalties > 0.0
    graphs[positive] = neighbourhood_graphs(correlation, penalties[positive])
    return graphs


def _halves(
    given: LatentCorrelations, graphs_of: Callable[[LatentCorrelations], BoolArray], seed: int, progress: Progress
) -> BoolArray | None:
    """Graphs of random halves of the rows, r x 2k x d x d for r graphs of each; None where there can be none."""

    def of_half(correlation: FloatArray, share: float) -> BoolArray:
        rows, pair_rows = share * given.effective_rows, share * given.pair_rows
        return graphs_of(LatentCorrelations(invertible(correlation), rows, pair_rows))

    found = [] if given.groups is None else given.groups.halves(of_half, seed, progress)
    return np.stack(found, axis=1) if found else None


def _on_graph(
    given: LatentCorrelations, graph: BoolArray, path: GraphPath | None, rule: str, progress: Progress
) -> Graph:
    """The most likely partial correlations with zeros where there is no edge, and their errors."""
    precision = refitted_precision(given.correlation, graph)
    partial = partial_correlations(precision)
    stderr, degrees = partial_errors(given.groups, partial, graph, given.effective_rows, progress)
    stderr, unknown = np.where(graph, stderr, np.nan), np.full_like(partial, np.nan)
    np.fill_diagonal(stderr, 0.0)
    return Graph(graph, precision, partial, stderr, degrees, unknown, unknown, given.effective_rows, 0, path, rule)


def _with_halves(graph: Graph, halves: BoolArray | None, rule: int = 0) -> Graph:
    """With what halves of the rows say of its edges, by the rule at that place."""
    if halves is None:
        return graph
    found = halves[rule]
    return replace(graph, stability=np.mean(found, axis=0), agreement=agreement(found), n_subsets=len(found))


def in_columns(graph: Graph, columns: NDArray[np.intp], std: FloatArray) -> Graph:
    """The graph of all columns, with standard deviations ``std``, from that of the correlations of ``columns``,
    the others without edges."""
    d, square = len(std), np.ix_(columns, columns)

    def spread(part: FloatArray, others: float) -> FloatArray:
        whole = np.full((d, d), others)
        whole[square] = part
        return whole

    partial = spread(graph.partial_correlation, 0.0)
    np.fill_diagonal(partial, 1.0)
    return replace(
        graph,
        adjacency=spread(graph.adjacency.astype(np.float64), 0.0) > 0.0,
        precision=spread(graph.precision / np.outer(std[columns], std[columns]), 0.0),
        partial_correlation=partial,
        stderr=spread(graph.stderr, np.nan),
        stability=spread(graph.stability, np.nan),
        q_value=spread(graph.q_value, np.nan),
    )


def check_rows(n_rows: int, n_columns: int, varying: int) -> None:
    """Raise where no pair of columns varies."""
    if n_columns < 2:
        raise InvalidDataError(
            "A graph needs at least two columns, and the table has one (n_features = 1): add the columns that it may"
            " be tied to."
        )
    if varying < 2:
        raise InvalidDataError(
            f"A graph needs at least two columns that vary, and of {n_columns} in {n_rows:,} rows"
            f" {counted(varying, 'column')} does."
        )


# --- what subsets of the rows agree on ---------------------------------------------------------------


def common_edges(halves: BoolArray) -> tuple[float, float]:
    """(edges that the two halves of a pair have in common, edges of a half), means over pairs. ``halves`` are 2k x d x
    d, each followed by the one that has none of its rows."""
    first, second = np.triu_indices(halves.shape[-1], 1)
    pairs = halves[:, first, second]
    common = pairs[0::2] & pairs[1::2]
    return float(common.sum(axis=1).mean()), float(pairs.sum(axis=1).mean())


def agreement(halves: BoolArray) -> float:
    """Common edges as a share of those of a half; NaN where no half has one."""
    common, found = common_edges(halves)
    return common / found if found > 0.0 else float("nan")


def most_agreed(rules: BoolArray) -> int:
    """The position of the rule to take; ``rules`` are r x 2k x d x d. Where they are even, the first."""
    common = [common_edges(halves)[0] for halves in rules]
    shares = np.nan_to_num([agreement(halves) for halves in rules])
    enough = shares >= _COMMON
    return int(np.argmax(np.where(enough, common, -1.0) if enough.any() else shares))


def without_many_unstable(graph: BoolArray, stability: FloatArray) -> BoolArray:
    """The graph, or its stable edges alone where most are not, and those more than there are columns. A graph that rows
    determine has some edges a column. Where so many come and go with half of the rows, there is none."""
    stable = graph & (stability >= STABLE)
    unstable = np.count_nonzero(graph & ~stable) // 2
    return stable if 2 * unstable > np.count_nonzero(graph) // 2 and unstable > len(graph) else graph


def diagnostics_of_edges(graph: Graph) -> list[Diagnostic]:
    """What to say where the graph has no edge, or all; and where most edges are unstable, left out or not."""
    found = graph.n_edges + graph.n_left_out
    diagnostics, path, d = [], graph.path, len(graph.adjacency)
    if path is not None and graph.rule == "stars":
        if found == 0 and path.penalties[0] > _CERTAIN / np.sqrt(graph.effective_rows):
            words = (
                "the rule 'stars' leaves no edge though some columns are clearly correlated: subsets of the rows never"
                " agree on average, as happens where columns are few."
            )
            diagnostics.append(Diagnostic("trivial-graph", (), words, "Use selection='auto'."))
    elif path is not None and graph.rule == "penalty":
        largest = float(path.penalties[path.n_edges > 0].max(initial=0.0))
        words = f"the penalty {path.penalty:g} leaves"
        if found == 0:
            remedy = f"The first edge comes below {largest:.3g}."
            diagnostics.append(Diagnostic("trivial-graph", (), f"{words} no edge.", remedy))
        elif found == d * (d - 1) // 2 and d > 2:
            remedy = f"Larger ones, up to {largest:.3g}, leave fewer."
            diagnostics.append(Diagnostic("trivial-graph", (), f"{words} all {counted(found, 'edge')}.", remedy))
    edges = np.triu(graph.adjacency, 1)
    unstable = int(np.count_nonzero(graph.stability[edges] < STABLE)) + graph.n_left_out
    if graph.n_subsets == 0 or 2 * unstable <= found or unstable < _FEW:
        return diagnostics
    share = "none" if np.isnan(graph.agreement) else f"{graph.agreement:.0%}"
    words = (
        f"of {found:,} edges by {graph.rule!r} {unstable:,} are found in fewer than half of {graph.n_subsets}"
        f" halves of the rows, and two halves without a common row share {share} of theirs:"
    )
    if graph.n_left_out:
        words += f" those {unstable:,} are left out."
        remedy = f"More rows find more edges; selection={graph.rule!r} gives all of these."
    else:
        words += " they may be chance."
        remedy = f"Take the {found - unstable:,} with a stability of {STABLE} and more, or add rows."
    return [*diagnostics, Diagnostic("unstable-edges", (), words, remedy)]


def instability(shares: FloatArray) -> FloatArray:
    """The mean of 2 t (1 - t) over all pairs, the largest so far; ``shares`` t are p x d x d, sparse graphs first."""
    first, second = np.triu_indices(shares.shape[1], 1)
    t = shares[:, first, second]
    return np.asarray(np.maximum.accumulate(np.mean(2.0 * t * (1.0 - t), axis=1)))


def most_stable(unstable: FloatArray) -> int:
    """The position of the densest graph that is stable; 0, the empty one, where none is."""
    return max(int(np.count_nonzero(unstable <= UNSTABLE)) - 1, 0)


# --- for other programs -------------------------------------------------------------------------------


def networkx_graph(edges: Sequence[Edge], nodes: Sequence[str | int]) -> networkx.Graph:
    """Every column a node, whether tied or not; edges have what an :class:`Edge` has, and ``weight``, the size of the
    partial correlation."""
    graph = networkx_module().Graph()
    graph.add_nodes_from(nodes)
    for edge in edges:
        numbers = {name: each for name, each in zip(EDGE_COLUMNS[2:], edge[2:], strict=True) if not math.isnan(each)}
        graph.add_edge(edge.first, edge.second, weight=abs(edge.partial_correlation), **numbers)
    return graph


def networkx_module() -> Any:
    """networkx, which few need."""
    try:
        import networkx
    except ImportError as error:
        raise MissingDependencyError('Graphs need networkx: pip install "unrelu[graph]".') from error
    return networkx


def check_edges_file(path: str | os.PathLike[str]) -> None:
    """Raise unless edges can be written under that name: before the long work, not after it."""
    if Path(path).suffix.lower() == _GRAPHML:
        networkx_module()
    else:
        check_table(path, columns=True)


def write_edges(path: str | os.PathLike[str], edges: Sequence[Edge], nodes: Sequence[str | int]) -> None:
    """One line per edge (csv, tsv, parquet, feather, arrow), or a .graphml file; whole or not at all."""
    if Path(path).suffix.lower() == _GRAPHML:
        graph = networkx_graph(edges, nodes)
        with atomic_write(path) as stream:
            networkx_module().write_graphml(graph, stream)
        return
    check_table(path)
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for k, name in enumerate(EDGE_COLUMNS):
        cells = [edge[k] for edge in edges]
        names = name in ("first", "second")
        columns[name] = list(map(str, cells)) if names else pa.array(np.array(cells, dtype=float), from_pandas=True)
    write_columns(path, [columns])  # what was not computed is missing
