"""The densest graph that subsets of the rows agree on: StARS (Liu, Roeder and Wasserman 2010).

A pair that is tied in the share t of the subsets is unstable by 2 t (1 - t): the chance that two subsets disagree. The
smallest penalty is taken down to which the mean over all pairs has never been above 0.05.
"""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray

UNSTABLE = 0.05


def instability(shares: FloatArray) -> FloatArray:
    """The mean of 2 t (1 - t) over all pairs, the largest so far; ``shares`` t are p x d x d, sparse graphs first.

    >>> instability(np.array([[[0.0, 0.5], [0.5, 0.0]], [[0.0, 1.0], [1.0, 0.0]]]))
    array([0.5, 0.5])
    """
    first, second = np.triu_indices(shares.shape[1], 1)
    t = shares[:, first, second]
    return np.asarray(np.maximum.accumulate(np.mean(2.0 * t * (1.0 - t), axis=1)))


def most_stable(unstable: FloatArray) -> int:
    """The position of the densest graph that is stable; 0, the empty one, where none is.

    >>> most_stable(np.array([0.0, 0.01, 0.04, 0.2]))
    2
    """
    return max(int(np.count_nonzero(unstable <= UNSTABLE)) - 1, 0)
