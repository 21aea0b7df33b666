"""Edges by their false discovery rate: every pair is tested, and Benjamini and Hochberg (1995) say which to keep."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, stdtr

from unrelu.contracts import FloatArray

FALSE_DISCOVERIES = 0.1


def q_values(partial: FloatArray, stderr: FloatArray, degrees: float) -> FloatArray:
    """For every pair the least rate at which it is taken; NaN on the diagonal and where there is no error.

    Partial correlations go through Fisher's z = atanh(rho), whose error is that of rho over 1 - rho^2.

    >>> partial = np.array([[1.0, 0.5, 0.02], [0.5, 1.0, -0.01], [0.02, -0.01, 1.0]])
    >>> q_values(partial, np.full((3, 3), 0.03), np.inf)[0, 1] < 0.001
    np.True_
    """
    d = len(partial)
    first, second = np.triu_indices(d, 1)
    rho = np.clip(partial[first, second], -1.0 + 1e-12, 1.0 - 1e-12)
    z = np.abs(np.arctanh(rho)) * (1.0 - rho * rho) / stderr[first, second]
    p = 2.0 * (ndtr(-z) if np.isinf(degrees) else stdtr(degrees, -z))
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    q = np.full(len(p), np.nan)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    found = np.full((d, d), np.nan)
    found[first, second] = found[second, first] = q
    return found
