"""Graphs from sparse to dense: neighbourhood selection (Meinshausen and Buehlmann 2006) on correlations alone.

Column j is regressed on all others with a lasso, which needs only the correlations R,

    beta_j = argmin  beta' R_oo beta / 2 - beta' R_oj + penalty |beta|_1,     o: all columns but j,

and i, j are tied if either regression takes up the other column. The same penalties serve for every column and every
subset of the rows.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn import config_context  # type: ignore[attr-defined]
from sklearn.exceptions import ConvergenceWarning

from unrelu.contracts import FloatArray
from unrelu.fit.eigenvalues import smallest_eigenvalue
from unrelu.graph.contracts import Graphs

_LEAST_EIGENVALUE = 1e-3
_PENALTIES = 30
_WEAK = 0.5  # standard errors of a correlation: penalties below that let in noise alone
_RANGE = 1e-3, 0.1  # the smallest penalty, as a share of the largest
_TOLERANCE = 1e-7  # of the lasso's duality gap


def invertible(correlation: FloatArray) -> FloatArray:
    """R, or as little of the identity mixed in as gives it an inverse that is not all rounding.

    >>> invertible(np.array([[1.0, 1.0], [1.0, 1.0]])).round(4)
    array([[1.   , 0.999],
           [0.999, 1.   ]])
    """
    smallest = smallest_eigenvalue(correlation)
    if smallest >= _LEAST_EIGENVALUE:
        return correlation
    share = (_LEAST_EIGENVALUE - smallest) / (1.0 - smallest)
    return np.asarray((1.0 - share) * correlation + share * np.eye(len(correlation)))


def penalties_for(correlation: FloatArray, effective_rows: float) -> FloatArray:
    """From the one that leaves no edge down to one that lets in noise.

    >>> penalties_for(np.array([[1.0, 0.5], [0.5, 1.0]]), 100.0)[[0, -1]]
    array([0.5 , 0.05])
    """
    largest = float(np.max(np.abs(correlation - np.eye(len(correlation))), initial=0.0))
    if largest == 0.0:
        return np.ones(1)
    smallest = np.clip(_WEAK / np.sqrt(effective_rows), _RANGE[0] * largest, _RANGE[1] * largest)
    return np.asarray(np.geomspace(largest, smallest, _PENALTIES))


def neighbourhood_graphs(correlation: FloatArray, penalties: FloatArray) -> Graphs:
    """One graph for every penalty, these from large to small; R must have an inverse.

    >>> chain = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    >>> neighbourhood_graphs(chain, np.array([0.6, 0.1])).sum(axis=(1, 2)) // 2
    array([0, 2])
    """
    from sklearn.linear_model import lasso_path  # takes its time

    d = len(correlation)
    # Any X with X'X/d = R stands for the rows.
    rows = np.linalg.cholesky(correlation).T * np.sqrt(d)
    chosen = np.zeros((len(penalties), d, d), dtype=bool)
    # The arrays are ours: to check each of them would cost more than the regressions of few columns.
    with warnings.catch_warnings(), config_context(skip_parameter_validation=True):
        # Regressions on columns that nearly determine each other settle late; which are zero, long before.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for j in range(d):
            o = np.arange(d) != j
            _, coefficients, _ = lasso_path(
                np.asfortranarray(rows[:, o]),
                rows[:, j],
                alphas=penalties,
                precompute=np.ascontiguousarray(correlation[np.ix_(o, o)] * d),
                Xy=correlation[o, j] * d,
                tol=_TOLERANCE,
                check_input=False,
            )
            chosen[:, j, o] = coefficients.T != 0.0
    return np.asarray(chosen | chosen.swapaxes(1, 2))
