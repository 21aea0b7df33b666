"""The graph of a path with the least extended Bayesian information criterion (Foygel and Drton 2010),

    EBIC = -n (log det K - tr R K) + edges (log n + 4 gamma log d),     gamma = 1/2,

of its most likely K, without a penalty: penalized ones are too small, and their EBIC takes too many edges. n is the
number of rows without floors and gaps that would know the correlations as well: each edge gains by chance what so few
rows let it, not what all rows would.
"""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.graph.contracts import Graphs
from unrelu.graph.refit import ROUGHLY, refitted_precision

_GAMMA = 0.5
_RISING = 4  # graphs in a row with a larger criterion than the least: denser ones are not looked at


def criteria(correlation: FloatArray, graphs: Graphs, effective_rows: float) -> FloatArray:
    """EBIC of every graph, NaN for those that are far denser than the best.

    >>> chain = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    >>> graphs = np.array([np.zeros((3, 3)), chain == 0.5, chain < 1.0], dtype=bool)
    >>> int(np.argmin(criteria(chain, graphs, 100.0)))  # the chain
    1
    """
    found = np.full(len(graphs), np.nan)
    least, since = np.inf, 0
    before: tuple[int, float] | None = None
    for k, graph in enumerate(graphs):
        edges = int(np.count_nonzero(graph)) // 2
        if before is not None and edges == before[0] and np.array_equal(graph, graphs[k - 1]):
            found[k] = before[1]
            continue
        found[k] = _criterion(correlation, refitted_precision(correlation, graph, ROUGHLY), edges, effective_rows)
        before = edges, float(found[k])
        least, since = (found[k], 0) if found[k] < least else (least, since + 1)
        if since >= _RISING:
            break
    return found


def _criterion(correlation: FloatArray, precision: FloatArray, edges: int, n: float) -> float:
    sign, log_det = np.linalg.slogdet(precision)
    if sign <= 0.0:
        return np.inf
    fit = log_det - float(np.sum(correlation * precision))
    return float(-n * fit + edges * (np.log(max(n, 1.0)) + 4.0 * _GAMMA * np.log(len(correlation))))
