"""A network on one screen: a path of graphs, the choice of one, its refit without a penalty, errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray, PairCorrelations, Step, Watch, unwatched
from unrelu.errors import InvalidDataError, InvalidParameterError, TrivialNetworkWarning
from unrelu.fit.shrinkage import rows_by_errors, rows_of_pairs
from unrelu.graph.contracts import Network, NetworkPath
from unrelu.graph.discovery import FALSE_DISCOVERIES, q_values
from unrelu.graph.errors import model_errors, partial_errors
from unrelu.graph.information import criteria
from unrelu.graph.likely import likely_edges
from unrelu.graph.path import invertible, neighbourhood_graphs, penalties_for
from unrelu.graph.refit import partial_correlations, refitted_precision
from unrelu.graph.row_groups import RowGroups
from unrelu.graph.stability import agreement, instability, most_agreed, most_stable, without_many_unstable
from unrelu.passes.local import blas_threads_for
from unrelu.validation import counted, suggestion, warn

SELECTIONS = ("auto", "likely", "ebic", "stars", "fdr")
_BY_INFORMATION = ("likely", "ebic")
CHOOSING = "Choosing edges"
_CERTAIN = 4.0  # standard errors of a correlation
_ROWS_A_COLUMN = 2.0  # with fewer, and no halves to ask, the sparser rule


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of the columns that vary: latent correlations R, semidefinite, and how many rows without floors
    and gaps would know a typical one, or that of each pair, as well; ``groups`` where subsets of the rows can be
    asked."""

    correlation: FloatArray
    effective_rows: float
    pair_rows: FloatArray
    groups: RowGroups | None = None


def known_of_rows(correlation: FloatArray, n_rows: float) -> Known:
    """What ``n_rows`` without floors and gaps know."""
    return Known(correlation, n_rows, np.full_like(correlation, n_rows))


def rows_that_would_do(pairs: PairCorrelations, n_rows: float) -> tuple[float, FloatArray]:
    """How many rows without floors and gaps would know a typical pair, and each, as well as these ``n_rows`` do."""
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


def learn_network(known: Known, selection: str | float, seed: int = 0, watch: Watch = unwatched) -> Network:
    """The graph that ``selection`` takes, and the partial correlations on it.

    >>> chain = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    >>> learn_network(known_of_rows(chain, 400.0), "auto").adjacency.astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    check_selection(selection)
    known = replace(known, correlation=invertible(known.correlation))
    watch(Step(CHOOSING))
    with blas_threads_for(len(known.correlation)):
        if selection == "fdr":
            return _by_discoveries(known, seed, watch)
        if selection in ("auto", *_BY_INFORMATION):
            return _by_information(known, str(selection), seed, watch)
        return _by_path(known, selection, seed, watch)


def _by_information(known: Known, selection: str, seed: int, watch: Watch) -> Network:
    """The edges of one rule, or of that which halves of the rows agree on."""
    rules = _BY_INFORMATION if selection == "auto" else (selection,)
    path, graphs = _informed(known, rules)
    halves = _halves(known, lambda half: _informed(half, rules)[1], seed, watch)
    if halves is not None:
        best = most_agreed(halves)
        graph, halves = graphs[best], halves[best]
        if selection == "auto":
            graph = without_many_unstable(graph, np.mean(halves, axis=0))
    else:
        best = int(known.effective_rows < _ROWS_A_COLUMN * len(known.correlation)) if selection == "auto" else 0
        graph = graphs[best]
    network = _on_graph(known, graph, path, rules[best], halves, watch)
    return replace(network, n_left_out=int(np.count_nonzero(graphs[best] & ~graph)) // 2)


def _informed(known: Known, rules: tuple[str, ...]) -> tuple[NetworkPath, BoolArray]:
    """A path with the least EBIC chosen, and the edges of every rule."""
    penalties = penalties_for(known.correlation, known.effective_rows)
    graphs = _graphs(known.correlation, penalties)
    found = criteria(known.correlation, graphs, known.effective_rows)
    path = NetworkPath(penalties, _n_edges(graphs), int(np.nanargmin(found)), criterion=found)
    start = graphs[path.chosen]
    every = [start if rule == "ebic" else likely_edges(known.correlation, known.pair_rows, start) for rule in rules]
    return path, np.array(every)


def _by_path(known: Known, selection: str | float, seed: int, watch: Watch) -> Network:
    """The graph with a penalty that is given, or that StARS takes."""
    penalties = penalties_for(known.correlation, known.effective_rows)
    if not isinstance(selection, str):
        penalties = np.unique([*penalties, float(selection)])[::-1]
    graphs = _graphs(known.correlation, penalties)
    path = NetworkPath(penalties, _n_edges(graphs), 0)
    if isinstance(selection, str):
        path = _most_stable(known, path, seed, watch)
    else:
        path = replace(path, chosen=int(np.flatnonzero(penalties == float(selection))[0]))
        _warn_of_trivial(path, len(graphs[0]))
    penalty, halves = np.array([path.penalty]), None
    if path.penalty > 0.0:
        halves = _halves(known, lambda half: _graphs(half.correlation, penalty), seed, watch)
    rule = selection if isinstance(selection, str) else "penalty"
    return _on_graph(known, graphs[path.chosen], path, rule, None if halves is None else halves[0], watch)


def _n_edges(graphs: BoolArray) -> NDArray[np.int64]:
    return np.asarray(np.count_nonzero(graphs, axis=(1, 2)) // 2)


def _graphs(correlation: FloatArray, penalties: FloatArray) -> BoolArray:
    """Neighbourhood selection; without a penalty every pair is tied."""
    graphs = np.empty((len(penalties), *correlation.shape), dtype=bool)
    graphs[:] = ~np.eye(len(correlation), dtype=bool)
    positive = penalties > 0.0
    graphs[positive] = neighbourhood_graphs(correlation, penalties[positive])
    return graphs


def _most_stable(known: Known, path: NetworkPath, seed: int, watch: Watch) -> NetworkPath:
    """The path with StARS's choice."""
    if known.groups is None:
        raise InvalidParameterError(
            "selection='stars' looks at subsets of the rows, and none are known: a learner or record must have been"
            " made with stderr='jackknife', and the method be 'one_pass' or 'robust'. Otherwise use selection='auto'."
        )
    found = known.groups.subsets(lambda r: neighbourhood_graphs(invertible(r), path.penalties), seed, watch)
    unstable = instability(np.mean(found, axis=0))
    chosen = most_stable(unstable)
    if path.n_edges[chosen] == 0 and path.penalties[0] > _CERTAIN / np.sqrt(known.effective_rows):
        warn(
            "selection='stars' leaves no edge though some columns are clearly correlated: subsets of the rows never"
            " agree on average, as happens where columns are few. Use selection='auto'.",
            TrivialNetworkWarning,
        )
    return replace(path, instability=unstable, chosen=chosen)


def _halves(known: Known, graphs_of: Callable[[Known], BoolArray], seed: int, watch: Watch) -> BoolArray | None:
    """Graphs of random halves of the rows, r x 2k x d x d for r graphs of each; None where there can be none."""

    def of_half(correlation: FloatArray, share: float) -> BoolArray:
        rows, pair_rows = share * known.effective_rows, share * known.pair_rows
        return graphs_of(Known(invertible(correlation), rows, pair_rows))

    found = [] if known.groups is None else known.groups.halves(of_half, seed, watch)
    return np.stack(found, axis=1) if found else None


def _on_graph(
    known: Known, graph: BoolArray, path: NetworkPath, rule: str, halves: BoolArray | None, watch: Watch
) -> Network:
    """The most likely partial correlations with zeros where there is no edge."""
    precision = refitted_precision(known.correlation, graph)
    partial = partial_correlations(precision)
    stderr, degrees = _errors(known, partial, graph, watch)
    stderr = np.where(graph, stderr, np.nan)
    np.fill_diagonal(stderr, 0.0)
    q = np.full_like(partial, np.nan)
    network = Network(graph, precision, partial, stderr, degrees, q, q, known.effective_rows, 0, path, rule)
    return _stated(network, halves)


def _stated(network: Network, halves: BoolArray | None) -> Network:
    """With what halves of the rows say of the edges."""
    if halves is None:
        return network
    return replace(network, stability=np.mean(halves, axis=0), agreement=agreement(halves), n_subsets=len(halves))


def _by_discoveries(known: Known, seed: int, watch: Watch) -> Network:
    """All partial correlations without a penalty, and as edges those that are not 0."""
    d = len(known.correlation)
    if known.effective_rows < 2 * d:
        raise InvalidParameterError(
            f"selection='fdr' tests partial correlations without a penalty, which takes many more rows than columns:"
            f" here {known.effective_rows:,.0f} (as many without floors would know as much) for {d:,} columns. Use"
            " selection='auto', 'likely', 'ebic' or 'stars'."
        )
    every = ~np.eye(d, dtype=bool)
    precision = refitted_precision(known.correlation, every)
    partial = partial_correlations(precision)
    stderr, degrees = _errors(known, partial, every, watch)
    np.fill_diagonal(stderr, 0.0)
    q = q_values(partial, stderr, degrees)
    without = np.full_like(partial, np.nan)

    def discovered(half: Known) -> BoolArray:
        larger = np.sqrt((known.effective_rows - d + 1.0) / max(half.effective_rows - d + 1.0, 1.0))
        found = partial_correlations(refitted_precision(half.correlation, every))
        return _discoveries(q_values(found, larger * stderr, degrees))[None]

    network = Network(
        _discoveries(q), precision, partial, stderr, degrees, without, q, known.effective_rows, 0, None, "fdr"
    )
    halves = _halves(known, discovered, seed, watch)
    return _stated(network, None if halves is None else halves[0])


def _discoveries(q: FloatArray) -> BoolArray:
    return np.asarray(np.nan_to_num(q, nan=1.0) <= FALSE_DISCOVERIES)


def _errors(known: Known, partial: FloatArray, graph: BoolArray, watch: Watch) -> tuple[FloatArray, float]:
    if known.groups is None:
        return model_errors(partial, known.effective_rows), np.inf
    return partial_errors(known.groups, partial, graph, known.effective_rows, watch)


def _warn_of_trivial(path: NetworkPath, d: int) -> None:
    """Say so where a penalty leaves no edge, or every one."""
    edges, largest = path.n_edges[path.chosen], float(path.penalties[path.n_edges > 0].max(initial=0.0))
    if edges == 0:
        warn(
            f"The penalty {path.penalty:g} leaves no edge: the first comes below {largest:.3g}.", TrivialNetworkWarning
        )
    elif edges == d * (d - 1) // 2 and d > 2:
        warn(
            f"The penalty {path.penalty:g} leaves all {counted(int(edges), 'edge')}: larger ones, up to {largest:.3g},"
            " leave fewer.",
            TrivialNetworkWarning,
        )


def in_columns(network: Network, columns: NDArray[np.intp], scale: FloatArray) -> Network:
    """The network of all columns, with norms ``scale``, from that of the correlations of ``columns``, the others
    without edges."""
    d, square = len(scale), np.ix_(columns, columns)

    def spread(part: FloatArray, others: float) -> FloatArray:
        whole = np.full((d, d), others)
        whole[square] = part
        return whole

    partial = spread(network.partial_correlation, 0.0)
    np.fill_diagonal(partial, 1.0)
    return replace(
        network,
        adjacency=spread(network.adjacency.astype(np.float64), 0.0) > 0.0,
        precision=spread(network.precision / np.outer(scale[columns], scale[columns]), 0.0),
        partial_correlation=partial,
        stderr=spread(network.stderr, np.nan),
        stability=spread(network.stability, np.nan),
        q_value=spread(network.q_value, np.nan),
    )


def check_rows(n_rows: int, n_columns: int, varying: int) -> None:
    """Raise where no pair of columns varies."""
    if n_columns < 2:
        raise InvalidDataError(
            "A network needs at least two columns, and the table has one (n_features = 1): add the columns that it may"
            " be tied to."
        )
    if varying < 2:
        raise InvalidDataError(
            f"A network needs at least two columns that vary, and of {n_columns} in {n_rows:,} rows"
            f" {counted(varying, 'column')} does."
        )
