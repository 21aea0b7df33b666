"""From correlations to a graph."""

from dataclasses import replace

import numpy as np
import pytest

from tests.graph.tables import chain, chain_edges
from unrelu.contracts import PairCorrelations
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.graph.learning import (
    check_rows,
    correlations_of_rows,
    diagnostics_of_edges,
    in_columns,
    learn_graph,
    rows_that_would_do,
)

CHAIN = chain(6).correlation


def test_exact_correlations_give_the_exact_graph():
    for selection in ("auto", "likely", "ebic", "fdr", 0.1):
        graph = learn_graph(correlations_of_rows(CHAIN, 2000.0), selection)
        np.testing.assert_array_equal(graph.adjacency, chain_edges(6))
        np.testing.assert_allclose(graph.partial_correlation[chain_edges(6)], 0.4, atol=1e-6)


def test_the_path_lists_the_graphs_that_were_fitted():
    path = learn_graph(correlations_of_rows(CHAIN, 500.0), "likely").path
    assert path.n_edges[path.chosen] == 5
    assert path.criterion[path.chosen] == np.nanmin(path.criterion)
    assert path.instability is None
    assert path.penalty == path.penalties[path.chosen]
    assert learn_graph(correlations_of_rows(CHAIN, 500.0), "fdr").path is None


def test_a_pair_that_rows_hardly_know_is_not_tied():
    known = correlations_of_rows(CHAIN, 500.0)
    pairs = known.pair_rows.copy()
    pairs[4, 5] = pairs[5, 4] = 8.0
    found = learn_graph(replace(known, pair_rows=pairs), "likely").adjacency
    assert not found[4, 5]
    np.testing.assert_array_equal(found[:5, :5], chain_edges(5))


def test_the_rows_of_pairs_are_those_of_their_errors():
    stderr = np.array([[0.0, 0.05, np.nan], [0.05, 0.0, 0.1], [np.nan, 0.1, 0.0]])
    typical, pairs = rows_that_would_do(PairCorrelations(np.eye(3), stderr), 300.0)
    np.testing.assert_allclose(pairs, [[300.0, 300.0, 1.0], [300.0, 300.0, 100.0], [1.0, 100.0, 300.0]])
    assert typical == pytest.approx(100.0)


def test_a_penalty_is_used_as_given():
    assert learn_graph(correlations_of_rows(CHAIN, 500.0), 0.123).path.penalty == 0.123


def test_penalties_that_leave_nothing_or_everything_give_a_warning():
    graph = learn_graph(correlations_of_rows(CHAIN, 500.0), 0.9)
    assert graph.n_edges == 0
    (diagnostic,) = diagnostics_of_edges(graph)
    assert (diagnostic.kind, diagnostic.words) == ("trivial-graph", "the penalty 0.9 leaves no edge.")
    assert diagnostic.remedy.startswith("The first edge comes below 0.")
    graph = learn_graph(correlations_of_rows(CHAIN, 500.0), 0)
    (diagnostic,) = diagnostics_of_edges(graph)
    assert (diagnostic.kind, diagnostic.words) == ("trivial-graph", "the penalty 0 leaves all 15 edges.")
    assert diagnostics_of_edges(learn_graph(correlations_of_rows(CHAIN, 500.0), 0.1)) == []
    np.testing.assert_allclose(graph.precision, np.linalg.inv(CHAIN), rtol=1e-9)


@pytest.mark.parametrize("selection", ["strs", -0.1, 1.5, None, True, "0.1", np.nan])
def test_other_selections_are_refused(selection):
    with pytest.raises(
        InvalidParameterError, match=r"selection must be 'auto', 'likely', 'ebic', 'stars', 'fdr' or a penalty"
    ):
        learn_graph(correlations_of_rows(CHAIN, 500.0), selection)


def test_stars_needs_groups_and_fdr_rows():
    with pytest.raises(InvalidParameterError, match=r"subsets of the rows.*stderr='jackknife'.*'auto'"):
        learn_graph(correlations_of_rows(CHAIN, 500.0), "stars")
    with pytest.raises(
        InvalidParameterError,
        match=r"many more rows than columns: here 11 .*6 columns.*'auto', 'likely', 'ebic' or 'stars'",
    ):
        learn_graph(correlations_of_rows(CHAIN, 11.0), "fdr")


def test_columns_that_do_not_vary_have_no_edges():
    graph = learn_graph(correlations_of_rows(CHAIN, 500.0), "ebic")
    scale = np.array([2.0, 0.0, 1.0, 1.0, 1.0, 1.0, 3.0])
    columns = np.flatnonzero(scale)
    spread = in_columns(graph, columns, scale)
    assert not spread.adjacency[1].any()
    assert spread.n_edges == 5
    units = np.outer(scale[columns], scale[columns])
    np.testing.assert_allclose(spread.precision[np.ix_(columns, columns)] * units, graph.precision)
    assert spread.edges(tuple("abcdefg"))[0].first in "abcdefg"


def test_one_column_is_no_graph():
    with pytest.raises(InvalidDataError, match="at least two columns, and the table has one"):
        check_rows(100, 1, 1)
    with pytest.raises(InvalidDataError, match="at least two columns that vary"):
        check_rows(100, 3, 1)
