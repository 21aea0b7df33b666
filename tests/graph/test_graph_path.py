"""Neighbourhood selection on correlations, against a lasso written out."""

import numpy as np
import pytest

from unrelu.graph.edges import invertible, neighbourhood_graphs, penalties_for


def slow_lasso(gram, cross, penalty):
    """Proximal gradient steps, until nothing moves."""
    step, beta = 1.0 / np.linalg.eigvalsh(gram)[-1], np.zeros(len(cross))
    for _ in range(20_000):
        v = beta - step * (gram @ beta - cross)
        beta, before = np.sign(v) * np.maximum(np.abs(v) - step * penalty, 0.0), beta
        if np.max(np.abs(beta - before)) < 1e-12:
            break
    return beta


def random_correlation(d, seed, n=60):
    return np.corrcoef(np.random.default_rng(seed).standard_normal((n, d)), rowvar=False)


@pytest.mark.parametrize("seed", range(3))
def test_graphs_are_those_of_lassos_written_out(seed):
    r = random_correlation(7, seed)
    penalties = np.array([0.3, 0.15, 0.05])
    found = neighbourhood_graphs(r, penalties)
    for k, penalty in enumerate(penalties):
        chosen = np.zeros((7, 7), dtype=bool)
        for j in range(7):
            o = np.arange(7) != j
            chosen[j, o] = np.abs(slow_lasso(r[np.ix_(o, o)], r[o, j], penalty)) > 1e-9
        np.testing.assert_array_equal(found[k], chosen | chosen.T)


def test_the_first_penalty_leaves_no_edge_and_the_next_one_does():
    r = random_correlation(9, 5)
    penalties = penalties_for(r, 60.0)
    edges = neighbourhood_graphs(r, penalties).sum(axis=(1, 2)) // 2
    assert edges[0] == 0
    assert edges[2] > 0
    assert np.all(np.diff(penalties) < 0.0)


def test_columns_without_any_correlation_have_a_path_too():
    assert penalties_for(np.eye(3), 50.0).tolist() == [1.0]
    assert not neighbourhood_graphs(np.eye(3), np.ones(1)).any()


def test_singular_correlations_get_an_inverse_and_others_stay():
    r = random_correlation(5, 1)
    assert invertible(r) is r
    ones = np.ones((3, 3))
    assert np.linalg.eigvalsh(invertible(ones))[0] == pytest.approx(1e-3)
    assert np.diagonal(invertible(ones)) == pytest.approx(1.0)
