"""The methods compared, each from rows to a graph."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.covariance import GraphicalLassoCV
from sklearn.exceptions import ConvergenceWarning

import unrelu
from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import UnreluWarning
from unrelu.graph.learning import correlations_of_rows, learn_graph


def default(X: FloatArray, **learner: Any) -> BoolArray:
    """unrelu's default."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        return unrelu.RectifiedGaussianGraph(**learner).fit(X).adjacency_


def stars(X: FloatArray) -> BoolArray:
    """unrelu with selection="stars"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        return unrelu.RectifiedGaussianGraph("stars").fit(X).adjacency_


def plain_correlations(X: FloatArray, rows: float | None = None) -> BoolArray:
    """np.corrcoef with the selection of the default where rows are many."""
    return learn_graph(correlations_of_rows(np.corrcoef(X, rowvar=False), rows or len(X)), "likely").adjacency


def graphical_lasso_cv(X: FloatArray) -> BoolArray:
    """scikit-learn's cross-validated graphical lasso on standardized columns."""
    with warnings.catch_warnings():
        for remark in (ConvergenceWarning, RuntimeWarning):  # on small penalties
            warnings.simplefilter("ignore", remark)
        fitted = GraphicalLassoCV().fit((X - X.mean(axis=0)) / X.std(axis=0))
    return np.asarray((fitted.precision_ != 0.0) & ~np.eye(X.shape[1], dtype=bool))
