"""DetectDeviatingCells, written from its description (Rousseeuw and Van den Bossche 2018, Technometrics 60, section 2).

Columns are standardized robustly; cells beyond a quantile are set aside; every column is predicted by those that
correlate with it, slopes and correlations robust; cells whose residual is beyond the same quantile are flagged. It
has no floors: a column without spread about its median takes the spread of what differs from it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

Floats = NDArray[np.float64]

_QUANTILE = 0.99
_CUT = float(np.sqrt(chi2.ppf(_QUANTILE, 1)))
_CONNECTED = 0.5  # least correlation of columns that predict each other
_MAD = 1.4826


def flagged_cells(x: Floats) -> NDArray[np.bool_]:
    """True for cells that deviate; missing ones do not.

    >>> x = np.random.default_rng(0).normal(size=(500, 1)) + 0.1 * np.random.default_rng(1).normal(size=(500, 3))
    >>> x[3, 1] += 5.0
    >>> np.argwhere(flagged_cells(x))[:, 0].tolist().count(3) >= 1
    True
    """
    z = (x - np.nanmedian(x, axis=0)) / _scale(x - np.nanmedian(x, axis=0))
    u = np.where(np.abs(z) > _CUT, np.nan, z)
    correlation, slope = _relations(u)
    seen = ~np.isnan(u)
    weight = np.where(np.abs(correlation) >= _CONNECTED, np.abs(correlation), 0.0)
    np.fill_diagonal(weight, 0.0)
    total = seen @ weight
    predicted = (np.where(seen, u, 0.0) @ (weight * slope)) / np.where(total > 0.0, total, 1.0)
    predicted = np.where(total > 0.0, predicted, 0.0)
    for j in range(x.shape[1]):  # predictions are shrunken towards 0: as steep as the column itself
        if weight[:, j].any():
            predicted[:, j] *= _slope(predicted[:, j], z[:, j])
    residual = z - predicted
    return np.asarray(np.abs(residual) > _CUT * _scale(residual))


def _scale(x: Floats) -> Floats:
    """Median absolute deviations; of what is not 0 where they vanish."""
    found = _MAD * np.nanmedian(np.abs(x), axis=0)
    for j in np.flatnonzero(found == 0.0):
        rest = np.abs(x[(x[:, j] != 0.0) & ~np.isnan(x[:, j]), j])
        found[j] = _MAD * np.median(rest) if len(rest) else 1.0
    return np.asarray(found)


def _slope(x: Floats, y: Floats) -> float:
    """Through the origin: the median of ratios, then least squares of the pairs near that line."""
    at = ~np.isnan(x) & ~np.isnan(y) & (np.abs(x) > 1e-9)
    if at.sum() < 3:
        return 1.0
    x, y = x[at], y[at]
    start = float(np.median(y / x))
    off = np.abs(y - start * x)
    near = off <= _CUT * max(_MAD * float(np.median(off)), 1e-12)
    square = float(x[near] @ x[near])
    return float(x[near] @ y[near]) / square if square > 0.0 else start


def _relations(u: Floats) -> tuple[Floats, Floats]:
    """(robust correlations, slopes[h, j] of column j by column h)."""
    d = u.shape[1]
    correlation, slope = np.eye(d), np.eye(d)
    for h in range(d):
        for j in range(h):
            at = ~np.isnan(u[:, h]) & ~np.isnan(u[:, j])
            a, b = u[at, h], u[at, j]
            first = _correlation(a, b)
            # Once more of the pairs within the ellipse that the first estimate has.
            distance = (a * a - 2.0 * first * a * b + b * b) / max(1.0 - first * first, 1e-6)
            inside = distance <= chi2.ppf(_QUANTILE, 2)
            correlation[h, j] = correlation[j, h] = _correlation(a[inside], b[inside])
            if abs(correlation[h, j]) >= _CONNECTED:
                slope[h, j], slope[j, h] = _slope(u[:, h], u[:, j]), _slope(u[:, j], u[:, h])
    return correlation, slope


def _correlation(a: Floats, b: Floats) -> float:
    return float(np.corrcoef(a, b)[0, 1]) if len(a) > 2 and a.std() > 0.0 and b.std() > 0.0 else 0.0
