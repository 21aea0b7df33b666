"""Covariances on a graph, against the same steps in NumPy, row by row."""

import numpy as np
import pytest

from unrelu.graph.edges import agree_on_edges, left_by_common_neighbours, regression


def a_graph(d, share, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((d, d)) < share, 1)
    return upper | upper.T, np.corrcoef(rng.standard_normal((60, d)), rowvar=False)


def neighbours(graph):
    return np.concatenate([[0], np.cumsum(graph.sum(axis=1))]), np.nonzero(graph)[1]


def slowly_agreeing(r, graph, rounds):
    """Algorithm 17.1 of Hastie, Tibshirani and Friedman (2009), from R with untied columns apart."""
    w = np.where(graph.any(axis=1)[:, None] & graph.any(axis=1)[None], r, np.diag(np.diagonal(r)))
    for _ in range(rounds):
        for j in range(len(r)):
            near, others = np.flatnonzero(graph[j]), np.arange(len(r)) != j
            if len(near):
                beta = np.linalg.inv(w[np.ix_(near, near)]) @ r[near, j]
                w[others, j] = w[j, others] = w[np.ix_(others, near)] @ beta
    return w


@pytest.mark.parametrize(("d", "share"), [(2, 1.0), (7, 0.4), (15, 0.15), (15, 0.9), (6, 0.0)])
def test_rounds_are_those_of_the_algorithm(d, share):
    graph, r = a_graph(d, share, d)
    for rounds in (1, 3, 40):
        found = agree_on_edges(r, *neighbours(graph), rounds, 0.0)
        np.testing.assert_allclose(found, slowly_agreeing(r, graph, rounds), atol=1e-12)
    np.testing.assert_allclose(found[graph], r[graph], atol=1e-6)


def test_it_stops_where_nothing_moves():
    graph, r = a_graph(10, 0.3, 1)
    rough, fine = (agree_on_edges(r, *neighbours(graph), 200, settled) for settled in (1e-2, 1e-12))
    assert 0.0 < np.abs(rough - fine).max() < 0.02


def test_a_regression_is_that_of_some_columns():
    _, r = a_graph(6, 0.5, 2)
    some = np.array([1, 4, 5])
    np.testing.assert_allclose(regression(r, r, some, 0), np.linalg.solve(r[np.ix_(some, some)], r[some, 0]))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_pairs_are_left_the_covariance_given_their_common_neighbours(share):
    graph, r = a_graph(9, share, 3)
    own, both = left_by_common_neighbours(r, graph)
    for i in range(9):
        for j in range(9):
            common = np.flatnonzero(graph[i] & graph[j]) if i != j else np.array([], dtype=int)
            pair, inverse = [i, j], np.linalg.inv(r[np.ix_(common, common)])
            left = r[np.ix_(pair, pair)] - r[np.ix_(pair, common)] @ inverse @ r[np.ix_(common, pair)]
            assert [own[i, j], own[j, i], both[i, j]] == pytest.approx([left[0, 0], left[1, 1], left[0, 1]], abs=1e-10)
