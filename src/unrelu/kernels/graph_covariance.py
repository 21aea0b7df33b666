"""Covariances on a graph: one that agrees with R on the edges, and what it leaves to pairs given common neighbours.

A graph is ``near[starts[j] : starts[j + 1]]``, the neighbours of every column j in order.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray


@njit(cache=True, nogil=True)
def agree_on_edges(
    correlation: FloatArray, starts: NDArray[np.int64], near: NDArray[np.int64], rounds: int, settled: float
) -> FloatArray:
    """W of :mod:`unrelu.graph.refit`: rounds over the columns until no entry moves by ``settled``."""
    d = len(correlation)
    covariance = correlation.copy()
    for j in range(d):
        if starts[j] == starts[j + 1]:
            covariance[j, :] = 0.0
            covariance[:, j] = 0.0
            covariance[j, j] = correlation[j, j]
    column = np.empty(d)
    for _ in range(rounds):
        moved = 0.0
        for j in range(d):
            some = near[starts[j] : starts[j + 1]]
            if len(some) == 0:
                continue
            beta = regression(covariance, correlation, some, j)
            column[:] = 0.0
            for k in range(len(some)):
                for i in range(d):
                    column[i] += covariance[some[k], i] * beta[k]
            column[j] = correlation[j, j]
            for i in range(d):
                moved = max(moved, abs(column[i] - covariance[j, i]))
                covariance[j, i] = column[i]
                covariance[i, j] = column[i]
        if moved < settled:
            break
    return covariance


@njit(cache=True, nogil=True)
def regression(covariance: FloatArray, correlation: FloatArray, some: NDArray[np.int64], j: int) -> FloatArray:
    """W_NN^-1 R_Nj of the columns N ``some``."""
    m = len(some)
    among, target = np.empty((m, m)), np.empty(m)
    for a in range(m):
        target[a] = correlation[some[a], j]
        for b in range(m):
            among[a, b] = covariance[some[a], some[b]]
    return np.linalg.solve(among, target)  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def left_by_common_neighbours(covariance: FloatArray, graph: BoolArray) -> tuple[FloatArray, FloatArray]:
    """(variance of i, covariance of i and j) for all pairs ij, given the columns tied to both."""
    d = len(covariance)
    own, both = np.empty((d, d)), covariance.copy()
    common = np.empty(d, dtype=np.int64)
    for i in range(d):
        own[i, i] = covariance[i, i]
        for j in range(i):
            own[i, j], own[j, i] = covariance[i, i], covariance[j, j]
            m = 0
            for k in range(d):
                if graph[i, k] and graph[j, k]:
                    common[m] = k
                    m += 1
            if m == 0:
                continue
            among, across = np.empty((m, m)), np.empty((m, 2))
            for a in range(m):
                across[a, 0], across[a, 1] = covariance[common[a], i], covariance[common[a], j]
                for b in range(m):
                    among[a, b] = covariance[common[a], common[b]]
            told = np.linalg.solve(among, across)
            for a in range(m):
                own[i, j] -= across[a, 0] * told[a, 0]
                own[j, i] -= across[a, 1] * told[a, 1]
                both[i, j] -= across[a, 0] * told[a, 1]
            both[j, i] = both[i, j]
    return own, both
