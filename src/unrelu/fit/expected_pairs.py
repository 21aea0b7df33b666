"""The information that rows of a model have on the correlation of two columns, before there are rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.fit.columns import row_influence
from unrelu.kernels import pair_solver
from unrelu.kernels.pair_solver import N_STATISTICS, Columns, moments_of_columns

_PERFECT = 1.0 - 1e-9  # the learner sees that such a pair lies on a line: its correlation has no error
_LEAST_INFORMATION = 1e-14  # of a row on r: below it rounding decides, and no table has so many rows


def pair_influence(a: FloatArray, correlation: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, bool]]:
    """Of every pair i < j: E[m], w, Cov(m) and whether r is hidden. An estimate of r errs by the mean of w'(m - E[m]).

    ``a`` is (mean - floor)/std of every column, m the statistics of :mod:`unrelu.kernels.pair_solver`. r is hidden
    where two columns are never above their floors together. There, and of a perfect pair, w is 0.

    >>> [(mean, w, covariance, hidden)] = pair_influence(np.array([9.0, 9.0]), np.array([[1.0, 0.6], [0.6, 1.0]]))
    >>> round(float(w @ covariance @ w), 6), hidden  # nothing is floored: (1 - r^2)^2, as of a sample correlation
    (0.4096, False)
    """
    columns, unused = _columns(a, 1.0), np.zeros(N_STATISTICS)
    for i, j in np.argwhere(np.triu(np.ones_like(correlation), 1)).tolist():
        r = float(correlation[i, j])
        inner = min(max(r, -_PERFECT), _PERFECT)  # the moments have no limit at 1 that could be computed
        work = pair_solver.workspace((i, j), columns, unused)
        _, information = pair_solver.evaluate(a[i], a[j], inner, work)
        mean, w = work[pair_solver.MEAN].copy(), np.zeros(N_STATISTICS)
        hidden = information < _LEAST_INFORMATION
        if inner == r and not hidden:  # leaves its linear form
            pair_solver.sampling_variance(a[i], a[j], 1.0, 1.0, 1.0, information, work)
            w = work[pair_solver.WEIGHTS : pair_solver.THROUGH + 2].sum(axis=0)
        lower = np.tril(work[pair_solver.V : pair_solver.V + N_STATISTICS])
        yield mean, w, lower + np.tril(lower, -1).T, inner == r and hidden


def expected_correlations(pairs: Any, mean: FloatArray, a: FloatArray, n: float) -> tuple[FloatArray, FloatArray]:
    """What one pass makes of ``n`` rows whose pairs have the statistics ``mean``: correlations and standard errors.

    >>> a = np.array([9.0, 9.0])
    >>> [(mean, *_)] = pair_influence(a, np.array([[1.0, 0.6], [0.6, 1.0]]))
    >>> r, stderr = expected_correlations((np.array([0]), np.array([1])), mean[None], a, 10_000)
    >>> r.round(3), stderr.round(4)
    (array([0.6]), array([0.0064]))
    """
    r, stderr, rows = np.empty(len(mean)), np.empty(len(mean)), np.full(len(mean), n)
    pair_solver.solve_pairs(pairs, mean, rows, rows, _columns(a, n), r, stderr)
    return r, stderr


def _columns(a: FloatArray, n: float) -> Columns:
    influence = row_influence(a, at_bound=np.zeros(len(a), dtype=np.bool_))
    return Columns(a, moments_of_columns(a), influence, np.full(len(a), n))
