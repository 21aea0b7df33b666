"""Separable non-negative factorization by successive projection, as Wu et al. 2019 suggests for two layers.

If for every hidden unit some row has that unit on and all others off, these rows are the columns of A, up to scale, and
the extreme ones among rows scaled to sum 1. Successive projection (Araujo et al. 2001; Gillis and Vavasis 2014) takes
the longest row, projects it out of all rows, and so on. With p units such rows have a probability of about 2^-p: this
is for few units.
"""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.recovery.layers.decoding import DecodedLayer, LayerReport, OutputLayer, residual_of
from unrelu.recovery.layers.subspace import Subspace


def decode_separably(X: FloatArray, space: Subspace) -> DecodedLayer:
    """The layer whose columns are the rows with one unit on; h = A^+ x."""
    p = space.basis.shape[1]
    weights = X[pure_rows(X, p)].T
    weights = weights / np.linalg.norm(weights, axis=0)
    encoder = np.linalg.pinv(weights)
    noise = space.noise * np.linalg.norm(encoder, axis=1)
    layer = OutputLayer(weights, np.zeros(X.shape[1]), encoder, np.zeros(p), noise)
    hidden = layer.hidden(X)
    off = tuple(int(count) for count in (hidden == 0.0).sum(axis=0))
    residual = residual_of(X, layer, hidden)
    report = LayerReport("separable", len(X), X.shape[1], p, p, off, float(space.noise), residual, 0, (), False, 0)
    return DecodedLayer(layer, report, np.ones(len(X), dtype=bool))


def pure_rows(X: FloatArray, p: int) -> list[int]:
    """Indices of p rows that successive projection takes for pure.

    >>> pure_rows(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]), 2)
    [0, 2]
    """
    sums = X.sum(axis=1)
    rows = np.flatnonzero(sums > 1e-9 * sums.max(initial=0.0))
    left = X[rows] / sums[rows, None]
    chosen: list[int] = []
    for _ in range(p):
        lengths = (left**2).sum(axis=1)
        longest = int(lengths.argmax())
        chosen.append(int(rows[longest]))
        direction = left[longest] / np.sqrt(max(float(lengths[longest]), 1e-300))
        left = left - np.outer(left @ direction, direction)
    return chosen
