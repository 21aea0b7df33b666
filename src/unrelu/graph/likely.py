"""Pairs that are more likely tied than not: a graph, revised until it comes again.

Of a graph with the most likely precision K and W = K^-1, what is left for pair ij alone is the partial correlation

    x_ij = (R_ij - W_ij) / sqrt(c_i c_j)                   without an edge,
    x_ij = -K_ij (c_i c_j - c_ij^2) / sqrt(c_i c_j)        with one,

c_i, c_j, c_ij the variances and the covariance that W leaves i and j given the columns tied to both. Rows know it
better than the partial correlation given all columns: the graph has told which of them matter. z = atanh(x) is of one
of two groups (Efron 2008),

    z_ij ~ N(0, 1/n_ij)  if not tied,     z_ij ~ N(+-m, t^2 + 1/n_ij)  if tied,

n_ij the number of rows without floors and gaps that would know R_ij as well. The share of tied pairs, m and t are
learned from all pairs, and one more that is not tied: a table with many edges asks less of each than one with few, and
pairs of columns that are mostly floored must differ more from 0. Pairs tied with a probability above one half are the
next graph.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from unrelu.contracts import BoolArray, FloatArray
from unrelu.graph.refit import ROUGHLY, refitted_precision
from unrelu.kernels.graph_covariance import left_by_common_neighbours

_MOST_GRAPHS = 10
_MOST_ROUNDS, _SETTLED = 500, 1e-4  # of the probabilities
_NONE = 1e-6  # edges: there are none
_LARGEST = 0.999  # partial correlation
_LEAST = 1e-12  # product of two variances


def likely_edges(correlation: FloatArray, pair_rows: FloatArray, graph: BoolArray) -> BoolArray:
    """The edges, from a graph to start with; ``pair_rows`` are n. From none there follow none.

    >>> chain = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    >>> start = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    >>> likely_edges(chain, np.full((3, 3), 200.0), start).astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    upper = np.triu_indices(len(correlation), 1)
    seen: list[BoolArray] = []
    while len(seen) < _MOST_GRAPHS and not any(np.array_equal(graph, before) for before in seen):
        seen.append(graph)
        z = np.arctanh(left_to_pairs(correlation, graph))
        half = np.zeros_like(graph)
        half[upper] = tied_probability(z[upper], pair_rows[upper], graph[upper]) > 0.5
        graph = half | half.T
    return graph


def left_to_pairs(correlation: FloatArray, graph: BoolArray) -> FloatArray:
    """x of the module's text.

    >>> chain = np.array([[1.0, 0.5, 0.3], [0.5, 1.0, 0.5], [0.3, 0.5, 1.0]])
    >>> edges = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    >>> left_to_pairs(chain, edges).round(3)[0]  # (0.3 - 0.5 0.5) / (1 - 0.5 0.5) is left to the ends
    array([0.   , 0.5  , 0.067])
    """
    precision = refitted_precision(correlation, graph, ROUGHLY)
    covariance = np.linalg.inv(precision).astype(np.float64, copy=False)
    own, both = left_by_common_neighbours(covariance, np.ascontiguousarray(graph))
    product = np.maximum(own * own.T, _LEAST)
    excess = np.where(graph, -precision * (product - both * both), correlation - covariance)
    np.fill_diagonal(excess, 0.0)
    return np.asarray(np.clip(excess / np.sqrt(product), -_LARGEST, _LARGEST))


def tied_probability(z: FloatArray, rows: FloatArray, tied: BoolArray) -> FloatArray:
    """The probability of every pair, from those that are ``tied`` for a start.

    m and t are weighted moments of the sizes |z|, weighted by the probabilities and by what rows know of each.

    >>> z = np.array([0.31, 0.02, -0.05, 0.28, 0.01, -0.33, 0.07, 0.0, -0.03, 0.04])
    >>> tied_probability(z, np.full(10, 400.0), np.abs(z) > 0.3).round(2)
    array([1., 0., 0., 1., 0., 1., 0., 0., 0., 0.])
    """
    size, noise = np.abs(z), 1.0 / rows
    probability, spread = tied.astype(np.float64), 0.0
    for _ in range(_MOST_ROUNDS):
        if probability.sum() < _NONE:
            return np.zeros_like(size)
        weight = probability / (spread + noise)
        centre = float(weight @ size / weight.sum())
        weight /= spread + noise
        spread = max(float(weight @ ((size - centre) ** 2 - noise) / weight.sum()), 0.0)
        variance = spread + noise
        either = size * centre / variance  # log cosh of it: of either sign
        gain = either + np.log1p(np.exp(-2.0 * either)) - np.log(2.0) - (size**2 + centre**2) / (2.0 * variance)
        gain += (np.log(noise / variance) + size**2 / noise) / 2.0
        before, probability = probability, expit(gain + logit(probability.sum() / (len(size) + 1)))
        if np.max(np.abs(probability - before)) < _SETTLED:
            break
    return np.asarray(probability)
