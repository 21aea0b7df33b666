"""The most likely precision of a graph, against the likelihood itself."""

import numpy as np
import pytest
from scipy.optimize import minimize

from unrelu.graph.edges import partial_correlations, refitted_precision


def a_graph(d, share, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((d, d)) < share, 1)
    return upper | upper.T, np.corrcoef(rng.standard_normal((50, d)), rowvar=False)


@pytest.mark.parametrize(("d", "share", "seed"), [(5, 0.4, 0), (12, 0.2, 1), (12, 0.6, 2), (20, 0.1, 3)])
def test_zeros_off_the_graph_and_agreement_on_it(d, share, seed):
    graph, r = a_graph(d, share, seed)
    precision = refitted_precision(r, graph)
    on = graph | np.eye(d, dtype=bool)
    np.testing.assert_array_equal(precision[~on], 0.0)
    np.testing.assert_allclose(np.linalg.inv(precision)[on], r[on], atol=1e-7)
    assert np.linalg.eigvalsh(precision)[0] > 0.0


def test_no_other_precision_of_the_graph_is_more_likely():
    graph, r = a_graph(4, 0.6, 7)
    at = np.nonzero(np.triu(graph | np.eye(4, dtype=bool)))

    def unlikely(entries):
        precision = np.zeros((4, 4))
        precision[at] = entries
        precision = np.triu(precision) + np.triu(precision, 1).T
        values = np.linalg.eigvalsh(precision)
        return np.inf if values[0] <= 0.0 else np.sum(r * precision) - np.log(values).sum()

    best = minimize(
        unlikely, np.eye(4)[at], method="Nelder-Mead", options={"maxiter": 20_000, "xatol": 1e-7, "fatol": 1e-12}
    )
    np.testing.assert_allclose(refitted_precision(r, graph)[at], best.x, atol=1e-4)


def test_all_edges_give_the_inverse_and_none_the_identity():
    _, r = a_graph(6, 0.5, 4)
    every = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(refitted_precision(r, every), np.linalg.inv(r))
    np.testing.assert_allclose(refitted_precision(r, np.zeros((6, 6), dtype=bool)), np.eye(6), rtol=1e-12)


def test_partial_correlations_are_those_of_residuals():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 4))
    rows -= rows.mean(axis=0)
    partial = partial_correlations(np.linalg.inv(np.cov(rows, rowvar=False)))
    others = rows[:, 2:]
    left = rows[:, :2] - others @ np.linalg.lstsq(others, rows[:, :2], rcond=None)[0]
    assert partial[0, 1] == pytest.approx(np.corrcoef(left, rowvar=False)[0, 1])
