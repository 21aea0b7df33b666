"""StARS's choice."""

import numpy as np

from unrelu.networks.stability import instability, most_stable


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
