"""What subsets and halves of the rows agree on."""

import numpy as np

from unrelu.graph.learning import agreement, common_edges, instability, most_agreed, most_stable, without_many_unstable


def test_instability_is_the_chance_that_two_subsets_disagree():
    rng = np.random.default_rng(0)
    graphs = rng.random((40, 3, 6, 6)) < np.array([0.02, 0.1, 0.5])[:, None, None]
    graphs = np.triu(graphs, 1)
    graphs = graphs | graphs.swapaxes(-1, -2)
    first, second = np.triu_indices(6, 1)
    pairs = graphs[..., first, second]
    disagree = (pairs[:, None] != pairs[None]).mean(axis=(0, 1, 3))  # of two subsets, drawn with replacement
    np.testing.assert_allclose(instability(graphs.mean(axis=0)), np.maximum.accumulate(disagree))


def test_a_graph_after_an_unstable_one_is_not_taken():
    full, half, none = np.ones((2, 2)), np.full((2, 2), 0.5), np.zeros((2, 2))
    assert most_stable(instability(np.array([none, half, full]))) == 0
    assert most_stable(instability(np.array([none, full, full]))) == 2


def test_where_none_is_stable_the_sparsest_is_taken():
    assert most_stable(np.array([0.2, 0.3])) == 0


# --- halves of the rows ---------------------------------------------------------------------------------


def drawn(n_halves, probability, rng):
    """Graphs whose edges come and go by chance, each pair with its own probability."""
    upper = np.triu(rng.random((n_halves, *probability.shape)) < probability, 1)
    return upper | upper.swapaxes(-1, -2)


def test_common_edges_are_counted_pair_by_pair():
    rng = np.random.default_rng(1)
    halves = drawn(6, np.full((5, 5), 0.4), rng)
    edges = [{tuple(pair) for pair in np.argwhere(np.triu(graph))} for graph in halves]
    common = np.mean([len(edges[k] & edges[k + 1]) for k in (0, 2, 4)])
    assert common_edges(halves) == (common, np.mean([len(each) for each in edges]))
    assert agreement(halves) == common / common_edges(halves)[1]
    assert np.isnan(agreement(np.zeros((2, 3, 3), dtype=bool)))


def test_more_common_edges_are_taken_where_a_third_is_common_and_else_the_larger_share():
    rng, d = np.random.default_rng(2), 30
    few = np.where(np.eye(d, k=1), 0.8, 0.0)  # 29 pairs, halves share four fifths
    more = np.maximum(few, np.where(np.eye(d, k=2), 0.6, 0.0))
    chance = np.full((d, d), 0.3)  # halves share 40 of 130 edges, by chance
    few, more, chance = (drawn(20, each, rng) for each in (few, more, chance))
    assert agreement(chance) < 1 / 3 < agreement(more) < agreement(few)
    assert common_edges(chance)[0] > common_edges(few)[0]
    assert most_agreed(np.array([few, more, chance])) == 1
    assert most_agreed(np.array([chance, few])) == 1
    rare = drawn(20, np.full((d, d), 0.05), rng)
    assert most_agreed(np.array([rare, chance])) == 1
    assert most_agreed(np.zeros((2, 4, 3, 3), dtype=bool)) == 0


def test_unstable_edges_stay_unless_they_are_most_and_more_than_the_columns():
    graph = ~np.eye(8, dtype=bool)
    first, second = np.triu_indices(8, 1)

    def stability(unstable):
        shares = np.ones((8, 8))
        shares[first[:unstable], second[:unstable]] = shares[second[:unstable], first[:unstable]] = 0.45
        return shares

    for unstable, kept in ((8, 28), (14, 28), (15, 13), (28, 0)):
        assert np.count_nonzero(np.triu(without_many_unstable(graph, stability(unstable)))) == kept
    sparse = np.eye(8, k=1, dtype=bool) | np.eye(8, k=-1, dtype=bool)
    np.testing.assert_array_equal(without_many_unstable(sparse, np.zeros((8, 8))), sparse)
