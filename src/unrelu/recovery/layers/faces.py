"""Coordinates of rows whose units are rectified affine functions of rectified inputs: h = ReLU(A g + b), g = ReLU(...).

Rows in which only units of a set S of g are on lie, in any units of h that are on, in one flat of |S| dimensions, or of
as many as there are inputs if these are fewer and the rows have one pattern: a face. Neighbours of a row span it, and
any other row either lies in it, up to rounding, or does not. Affine maps from a face's coordinates to units of h follow
by regression, and with them the coordinates of more rows. A chart is the same for all of g: as many units of h as g
has, on together and independent there, are coordinates of g up to an affine map.

Units are given as ``values`` (n x m), 0 where off and NaN where not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError
from unrelu.recovery.layers.inputs import inputs_of
from unrelu.recovery.matrix.cells import DenseCells
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.matrix import MatrixRequest, recover_matrix

_MEMBER = 1e-8  # standard deviations from a flat
_PICKS = 30  # of neighbours that may span it
_SPARE = 8  # rows beyond those that span a flat
_EXACT = 1e-7  # relative error of a map
_MAP_ROWS = 3  # rows beyond its unknowns that a map needs
_ROUNDS = 8
_WORST = 100.0  # amplification beyond which coordinates are too coarse
_SEEDS, _FACES = 60, 12
_JOINTLY = (3e-2, 1e-2, 3e-3, 1e-3)  # least singular value of units that are to be coordinates
_CHARTS = 8
_ENOUGH = 0.9  # share of the rows with enough units on that ends the search for a chart
_POLISHED = 2000  # rows that polish a chart
_ALONE = 1.0 - 1e-6  # leverage of a row without which the others span less
_FLAT = 1e-7


@dataclass(frozen=True, eq=False)
class Chart:
    """Coordinates (rows x k) of some rows, of mean 0 and covariance I."""

    rows: NDArray[np.int64]
    z: FloatArray

    @classmethod
    def of(cls, rows: NDArray[np.int64], coordinates: FloatArray) -> Chart | None:
        """A chart in standard coordinates; None where they do not vary in all dimensions."""
        if len(rows) <= coordinates.shape[1]:
            return None
        left, sizes, _ = np.linalg.svd(coordinates - coordinates.mean(axis=0), full_matrices=False)
        return cls(rows, left * np.sqrt(len(rows))) if sizes[-1] > _MEMBER * sizes[0] else None

    @property
    def lifted(self) -> FloatArray:
        """[z 1]."""
        return np.column_stack([self.z, np.ones(len(self.z))])


def not_alone(rows: FloatArray) -> NDArray[np.int64]:
    """Rows that are left when, again and again, those without which the others span less are taken away."""
    kept = np.arange(len(rows))
    while len(kept):
        left, sizes, _ = np.linalg.svd(rows[kept], full_matrices=False)
        alone = (left[:, sizes > _FLAT * sizes[0]] ** 2).sum(axis=1) > _ALONE
        if not alone.any():
            break
        kept = kept[~alone]
    return kept


def maps_on(values: FloatArray, chart: Chart, exact: float = _EXACT) -> FloatArray:
    """(A_j, b_j) of units (m x k + 1) by regression over the rows in which they are on; NaN where that does not fit."""
    Z = chart.lifted
    maps = np.full((values.shape[1], Z.shape[1]), np.nan)
    for j, column in enumerate(values[chart.rows].T):
        on = column > 0.0
        if np.count_nonzero(on) < Z.shape[1] + _MAP_ROWS:
            continue
        found, _, rank, _ = np.linalg.lstsq(Z[on], column[on], rcond=1e-9)
        if rank == Z.shape[1] and np.abs(Z[on] @ found - column[on]).max() < exact * column[on].max():
            maps[j] = found
    return maps


def explained(values: FloatArray, maps: FloatArray, spare: int, exact: float = _EXACT) -> Chart | None:
    """Every row that maps explain, with so many units on beyond its coordinates."""
    known = np.isfinite(maps[:, 0])
    k = maps.shape[1] - 1
    if np.count_nonzero(known) < k + spare:
        return None
    size = np.linalg.norm(maps[known], axis=1)
    seen, weights, bias = values[:, known] / size, maps[known, :-1] / size[:, None], maps[known, -1] / size
    rows = np.flatnonzero(np.count_nonzero(seen > 0.0, axis=1) >= k + spare)
    if len(rows) <= k:
        return None
    z, amplified = inputs_of(np.nan_to_num(seen[rows]), weights, bias)
    left = np.abs(np.maximum(z @ weights.T + bias, 0.0) - seen[rows])
    fits = np.nanmax(left, axis=1) < exact * (1.0 + np.nanmax(seen[rows], axis=1))
    fits &= amplified < _WORST
    return Chart.of(rows[fits], z[fits])


def _grown(values: FloatArray, chart: Chart | None, spare: int) -> Chart | None:
    """A chart with all rows that its maps explain, and so on."""
    for _ in range(_ROUNDS):
        more = None if chart is None else explained(values, maps_on(values, chart), spare)
        if chart is None or more is None or len(more.rows) <= len(chart.rows):
            break
        chart = more
    return chart


def find_faces(values: FloatArray, least: int, most: int, rng: np.random.Generator) -> list[Chart]:
    """Faces of some ``least`` to ``most`` dimensions, largest first, around random rows that are in none yet."""
    found: list[Chart] = []
    free = np.ones(len(values), dtype=bool)
    on = np.count_nonzero(values > 0.0, axis=1)
    for row in rng.permutation(np.flatnonzero(on >= least + 2))[: 4 * _SEEDS]:
        if len(found) >= _FACES:
            break
        if free[row]:
            face = _grown(
                values, _flat_through(values, row, int(rng.integers(least, min(on[row] - 2, most) + 1)), rng), 2
            )
            if face is not None:
                free[face.rows] = False
                found.append(face)
    return sorted(found, key=lambda face: -len(face.rows))


def _flat_through(values: FloatArray, row: int, k: int, rng: np.random.Generator) -> Chart | None:
    """Rows in a flat of k dimensions through a row, in k + 2 units that are on; None where there are too few."""
    on = values > 0.0
    units = np.flatnonzero(on[row])
    common = on[:, units].mean(axis=0) + 0.3 * rng.random(len(units))
    units = units[np.argsort(-common)[: k + 2]]
    rows = np.flatnonzero(on[:, units].all(axis=1))
    if len(rows) < 3 * k + 2:
        return None
    seen = values[np.ix_(rows, units)]
    moved = (seen - values[row, units]) / seen.std(axis=0)
    near = np.argsort((moved**2).sum(axis=1))[1 : 4 * k]
    picks = np.stack([moved[rng.choice(near, k, replace=False)] for _ in range(_PICKS)])
    normals = np.linalg.svd(picks)[2][:, k:]
    inside = (np.abs(np.einsum("ni,tji->tnj", moved, normals)) < _MEMBER).all(axis=2)
    best = np.flatnonzero(inside[inside.sum(axis=1).argmax()])
    if len(best) < k + 1 + max(_SPARE, k):
        return None
    best = best[not_alone(np.column_stack([moved[best], np.ones(len(best))]))]
    if len(best) < k + _SPARE:
        return None
    left, sizes, _ = np.linalg.svd(moved[best] - moved[best].mean(axis=0), full_matrices=False)
    return Chart.of(rows[best], left[:, sizes > _MEMBER * sizes[0]])


def find_chart(values: FloatArray, k: int, rng: np.random.Generator) -> Chart | None:
    """Coordinates of all of g for the rows with more than k units on, or for most of them."""
    best: Chart | None = None
    most = np.count_nonzero(np.count_nonzero(values > 0.0, axis=1) > k)
    for number in range(_CHARTS):
        chart = _grown(values, _jointly_on(values, k, _JOINTLY[number % 4], 0.2 * (number > 0), rng), 1)
        if chart is not None and (best is None or len(chart.rows) > len(best.rows)):
            best = chart
        if best is not None and len(best.rows) > _ENOUGH * most:
            break
    return best if best is not None and len(best.rows) >= _SPARE * k else None


def _jointly_on(values: FloatArray, k: int, least: float, jitter: float, rng: np.random.Generator) -> Chart | None:
    """k units that are on together in many rows and independent there, as coordinates of these rows."""
    units: list[int] = []
    on, rows = values > 0.0, np.ones(len(values), dtype=bool)
    for _ in range(k):
        count = (on[rows].sum(axis=0) + 1.0) * np.exp(jitter * rng.standard_normal(values.shape[1]))
        count[units] = -1.0
        for j in np.argsort(-count):
            both = rows & on[:, j]
            if count[j] < 0.0 or np.count_nonzero(both) < 3 * k:
                return None
            seen = values[both][:, [*units, j]]
            lifted = np.column_stack([seen / seen.std(axis=0), np.ones(len(seen))])
            if np.linalg.svd(lifted, compute_uv=False)[-1] > least * np.sqrt(len(seen)):
                units.append(int(j))
                rows = both
                break
        else:
            return None
    return Chart.of(np.flatnonzero(rows), values[rows][:, units])


def polished(values: FloatArray, chart: Chart) -> Chart:
    """A chart made exact by matrix recovery that starts from it, with every row that it then explains."""
    k, maps = chart.z.shape[1], maps_on(values, chart, 1e-4)
    often = np.count_nonzero(values[chart.rows] > 0.0, axis=0) >= 4 * k
    units = np.flatnonzero(np.isfinite(maps[:, 0]) & often)
    if len(units) <= k:
        return chart
    part = np.linspace(0, len(chart.rows) - 1, min(_POLISHED, len(chart.rows))).astype(int)
    table = values[np.ix_(chart.rows[part], units)]
    size = np.sqrt(np.nansum(table**2, axis=0) / np.maximum((table > 0.0).sum(axis=0), 1))
    start = Factors(chart.z[part], maps[units, :-1] / size[:, None], maps[units, -1] / size)
    request = MatrixRequest(k, tolerance=1e-13, max_iterations=15)
    try:
        fit = recover_matrix(DenseCells(np.ascontiguousarray(table / size)), request, start=start)
    except InvalidDataError:
        return chart
    assert fit.factors.bias is not None
    better, sure = np.full_like(maps, np.nan), fit.conditions.column_identifiable
    better[units[sure]] = (np.column_stack([fit.factors.loadings, fit.factors.bias]) * size[:, None])[sure]
    more = explained(values, better, 1, 1e-6)
    return chart if more is None or len(more.rows) < 0.5 * len(chart.rows) else more
