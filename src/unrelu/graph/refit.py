"""The most likely precision with zeros where a graph has no edge.

W is the covariance that agrees with R on the edges and the diagonal and whose inverse is zero elsewhere (Dempster
1972). Column by column, with N(j) the neighbours of j (Hastie, Tibshirani and Friedman 2009, algorithm 17.1),

    beta = W_NN^-1 R_Nj,     W_oj = W_oN beta,     until nothing moves;
    K_jj = 1 / (R_jj - W_jN beta),     K_Nj = -beta K_jj.
"""

from __future__ import annotations

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.kernels.graph_covariance import agree_on_edges

_MOST_ROUNDS = 200
ROUGHLY = 1e-5  # settles a comparison of graphs, or an error


def refitted_precision(correlation: FloatArray, adjacency: BoolArray, settled: float = 1e-9) -> FloatArray:
    """K of the graph; ``correlation`` must have an inverse. No W moves by more than ``settled`` at the end.

    >>> chain = np.array([[1.0, 0.5, 0.4], [0.5, 1.0, 0.5], [0.4, 0.5, 1.0]])
    >>> edges = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    >>> np.linalg.inv(refitted_precision(chain, edges)).round(9)  # the pair without an edge follows from the others
    array([[1.  , 0.5 , 0.25],
           [0.5 , 1.  , 0.5 ],
           [0.25, 0.5 , 1.  ]])
    """
    d = len(correlation)
    if np.count_nonzero(adjacency) == d * (d - 1):
        return np.asarray(np.linalg.inv(correlation))
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(adjacency, axis=1))])
    near = np.nonzero(adjacency)[1]
    covariance = agree_on_edges(np.ascontiguousarray(correlation), starts, near, _MOST_ROUNDS, settled)
    precision = np.zeros((d, d))
    for j in range(d):
        some = near[starts[j] : starts[j + 1]]
        beta = np.linalg.solve(covariance[np.ix_(some, some)], correlation[some, j])
        precision[j, j] = 1.0 / (correlation[j, j] - covariance[j, some] @ beta)
        precision[some, j] = -beta * precision[j, j]
    return np.asarray((precision + precision.T) / 2.0)


def partial_correlations(precision: FloatArray) -> FloatArray:
    """rho_ij = -K_ij / sqrt(K_ii K_jj), and 1 on the diagonal.

    >>> partial_correlations(np.array([[2.0, -1.0], [-1.0, 2.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    scale = np.sqrt(np.diagonal(precision))
    partial = -precision / np.outer(scale, scale)
    np.fill_diagonal(partial, 1.0)
    return np.asarray(partial)
