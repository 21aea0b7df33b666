"""Edges that are more likely than not: single edges against the likelihood, groups against draws of them."""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.graphs.tables import f1
from tests.graph.tables import chain_edges
from unrelu.graph.edges import left_to_pairs, likely_edges, refitted_precision, tied_probability
from unrelu.graph.learning import correlations_of_rows, learn_graph


def a_tree(d, seed):
    rng = np.random.default_rng(seed)
    tree = np.zeros((d, d), dtype=bool)
    for new in range(1, d):
        tree[new, rng.integers(new)] = True
    return tree | tree.T, np.corrcoef(rng.standard_normal((30, d)), rowvar=False)


def log_likelihood(r, graph):
    precision = refitted_precision(r, graph)
    return np.linalg.slogdet(precision)[1] - np.sum(r * precision)


def with_pair(graph, i, j, tied):
    changed = graph.copy()
    changed[i, j] = changed[j, i] = tied
    return changed


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_to_a_pair_is_what_its_edge_gains(seed):
    """-log(1 - x^2) is the likelihood ratio of one edge in a tree, and of one that closes a triangle there."""
    tree, r = a_tree(8, seed)
    left = left_to_pairs(r, tree)
    near = tree | (tree @ tree)
    for i, j in np.argwhere(np.triu(near, 1)):
        gained = log_likelihood(r, with_pair(tree, i, j, True)) - log_likelihood(r, with_pair(tree, i, j, False))
        assert -np.log1p(-(left[i, j] ** 2)) == pytest.approx(gained, abs=1e-4)
    np.testing.assert_allclose(left, left.T, atol=1e-12)


def test_an_edge_among_common_neighbours_is_conditional_on_them():
    """All pairs of four columns tied: what is left is the partial correlation given the two others."""
    r = np.corrcoef(np.random.default_rng(1).standard_normal((40, 4)), rowvar=False)
    precision = np.linalg.inv(r)
    scale = np.sqrt(np.diagonal(precision))
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(left_to_pairs(r, off)[off], (-precision / np.outer(scale, scale))[off], atol=1e-9)


def two_groups(n_pairs, share, seed):
    """(z, rows, tied) with sizes N(.25, .05^2) of tied pairs, known by 100 to 400 rows."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(100.0, 400.0, n_pairs)
    tied = rng.random(n_pairs) < share
    z = np.where(tied, rng.normal(0.25, 0.05, n_pairs) * rng.choice([-1.0, 1.0], n_pairs), 0.0)
    return z + rng.standard_normal(n_pairs) / np.sqrt(rows), rows, tied


def test_probabilities_are_those_of_the_groups_that_drew():
    z, rows, tied = two_groups(20_000, 0.05, 0)
    found = tied_probability(z, rows, np.abs(z) > 0.25)
    noise, wide = 1.0 / np.sqrt(rows), np.sqrt(0.05**2 + 1.0 / rows)
    one = 0.05 * (norm.pdf(z, 0.25, wide) + norm.pdf(z, -0.25, wide)) / 2.0
    np.testing.assert_allclose(found, one / (one + 0.95 * norm.pdf(z, 0.0, noise)), atol=0.06)
    some = (found > 0.3) & (found < 0.7)
    assert some.sum() > 100
    assert np.mean(tied[some]) == pytest.approx(np.mean(found[some]), abs=4.0 * 0.5 / np.sqrt(some.sum()))


def test_the_fewer_rows_know_a_pair_the_more_it_must_differ_from_zero():
    z, rows, tied = two_groups(400, 0.1, 1)
    rows[0], z[0] = 400.0, 0.2
    known = tied_probability(z, rows, tied)[0]
    rows[0] = 30.0
    assert known > 0.7
    assert tied_probability(z, rows, tied)[0] < 0.3


def test_no_edges_follow_from_none_and_a_lone_pair_stays():
    r = np.array([[1.0, 0.5], [0.5, 1.0]])
    tied, rows = ~np.eye(2, dtype=bool), np.full((2, 2), 50.0)
    assert not likely_edges(r, rows, np.zeros((2, 2), dtype=bool)).any()
    np.testing.assert_array_equal(likely_edges(r, rows, tied), tied)


def test_of_all_pairs_those_without_a_tie_are_dropped():
    chain = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    found = likely_edges(chain, np.full((3, 3), 200.0), ~np.eye(3, dtype=bool))
    np.testing.assert_array_equal(found, chain_edges(3))


def test_noise_is_dropped_and_what_was_missed_is_found():
    wrong = chain_edges(10)
    wrong[[0, 5, 2, 3], [5, 0, 3, 2]] = [True, True, False, False]
    truth = np.linalg.inv(np.eye(10) - 0.4 * chain_edges(10))
    rows = np.random.default_rng(0).multivariate_normal(np.zeros(10), truth, 400)
    found = likely_edges(np.corrcoef(rows, rowvar=False), np.full((10, 10), 400.0), wrong)
    np.testing.assert_array_equal(found, chain_edges(10))


def test_where_edges_are_many_and_weak_more_are_found_than_by_ebic():
    """Groups of four columns, all of them tied by partial correlations of -.25, from 200 rows."""
    cliques = np.kron(np.eye(5, dtype=bool), np.ones((4, 4), dtype=bool)) & ~np.eye(20, dtype=bool)
    distribution = np.linalg.inv(np.eye(20) + 0.25 * cliques)
    ahead = []
    for seed in range(4):
        rows = np.random.default_rng(seed).multivariate_normal(np.zeros(20), distribution, 200)
        known = correlations_of_rows(np.corrcoef(rows, rowvar=False), 200)
        ahead.append(
            f1(learn_graph(known, "likely").adjacency, cliques) - f1(learn_graph(known, "ebic").adjacency, cliques)
        )
    assert np.mean(ahead) > 0.2
