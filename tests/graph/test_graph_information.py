"""The extended BIC of graphs."""

import numpy as np
from scipy.stats import multivariate_normal

from unrelu.graph.edges import criteria, refitted_precision


def test_the_criterion_is_that_of_the_rows_likelihood():
    """Up to what is the same for all graphs: differences are compared."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((80, 5)) @ np.linalg.cholesky(np.eye(5) + 0.4 * np.eye(5, k=1) + 0.4 * np.eye(5, k=-1)).T
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    r = rows.T @ rows / 80
    graphs = np.array([np.abs(r) > level for level in (0.9, 0.3, 0.1)]) & ~np.eye(5, dtype=bool)

    def written_out(graph):
        distribution = multivariate_normal(np.zeros(5), np.linalg.inv(refitted_precision(r, graph)))
        edges = graph.sum() / 2
        return -2.0 * distribution.logpdf(rows).sum() + edges * (np.log(80) + 2.0 * np.log(5))

    expected = np.array([written_out(graph) for graph in graphs])
    np.testing.assert_allclose(np.diff(criteria(r, graphs, 80.0)), np.diff(expected), atol=1e-6)


def test_graphs_far_denser_than_the_best_are_not_fitted():
    rng = np.random.default_rng(0)
    r = np.corrcoef(rng.standard_normal((50, 12)), rowvar=False)
    graphs = np.array([np.abs(r) > level for level in np.linspace(0.9, 0.0, 12)]) & ~np.eye(12, dtype=bool)
    found = criteria(r, graphs, 50.0)
    assert np.isnan(found[-1])
    assert np.nanargmin(found) < 6


def test_the_same_graph_has_the_same_criterion():
    r = np.array([[1.0, 0.5], [0.5, 1.0]])
    tied = np.array([[False, True], [True, False]])
    found = criteria(r, np.array([tied, tied, tied]), 30.0)
    assert found[0] == found[1] == found[2]
