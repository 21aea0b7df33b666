"""Units of some rows: faces, charts, and what values in some rows imply in others.

Faces: rows in which only units of a set S of g are on lie, in any units of h that are on, in one flat of |S|
dimensions, or of as many as there are inputs if these are fewer and the rows have one pattern. Neighbours of a row span
it, and any other row either lies in it, up to rounding, or does not. Affine maps from a face's coordinates to units of
h follow by regression, and with them the coordinates of more rows. A chart is the same for all of g: as many units of h
as g has, on together and independent there, are coordinates of g up to an affine map. Units are given as ``values``
(n x m), 0 where off and NaN where they are not determined.

What is implied: a unit is a linear functional w of rows H. Values in some rows determine w up to the null space N of
these rows, and the unit wherever a row is orthogonal to N. More follows where many rows turn out to be off: t in
w + N t is where the sum of |H (w + N t)| is least, with a heavy price on rows below 0, as for planes; rows at 0 that
the others confirm count as off. A unit that is off wherever another one is remains open by multiples of that one, and
has NaN in rows where both are on: no table of outputs determines it there, only its inputs do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError
from unrelu.recovery.layers.inputs import inputs_of
from unrelu.recovery.layers.planes import descend
from unrelu.recovery.matrix.factors import Cells, Factors
from unrelu.recovery.matrix.matrix import recover_matrix

_MEMBER = 1e-8  # standard deviations from a flat
_SPARE = 8  # rows beyond those that span a flat
_EXACT = 1e-7  # relative error of a map
_FACES = 12
_JOINTLY = (3e-2, 1e-2, 3e-3, 1e-3)  # least singular value of units that are to be coordinates
_ALONE = 1.0 - 1e-6  # leverage of a row without which the others span less
_FITS = 1e-6  # relative error of values that agree
_ZERO = 1e-7  # of the largest value
_OPEN = 1e-7
_RANK = 1e-9
_FACE_STARTS, _PATIENCE, _DESCENTS = 40, 12, 60  # of a search for units on a face
_FOUND = 1e-14  # squared share of a unit that is not in the column space


class Chart(NamedTuple):
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
        alone = (left[:, sizes > 1e-7 * sizes[0]] ** 2).sum(axis=1) > _ALONE
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
        if np.count_nonzero(on) < Z.shape[1] + 3:
            continue
        found, _, rank, _ = np.linalg.lstsq(Z[on], column[on], rcond=1e-9)
        if rank == Z.shape[1] and np.abs(Z[on] @ found - column[on]).max() < exact * column[on].max():
            maps[j] = found
    return maps


def chart_of_maps(values: FloatArray, maps: FloatArray, spare: int, exact: float = _EXACT) -> Chart | None:
    """The chart of every row that maps explain, with ``spare`` units on beyond its coordinates."""
    mapped = np.isfinite(maps[:, 0])
    k = maps.shape[1] - 1
    if np.count_nonzero(mapped) < k + spare:
        return None
    size = np.linalg.norm(maps[mapped], axis=1)
    seen, weights, bias = values[:, mapped] / size, maps[mapped, :-1] / size[:, None], maps[mapped, -1] / size
    rows = np.flatnonzero(np.count_nonzero(seen > 0.0, axis=1) >= k + spare)
    if len(rows) <= k:
        return None
    z, amplified = inputs_of(np.nan_to_num(seen[rows]), weights, bias)
    left = np.abs(np.maximum(z @ weights.T + bias, 0.0) - seen[rows])
    fits = np.nanmax(left, axis=1) < exact * (1.0 + np.nanmax(seen[rows], axis=1))
    fits &= amplified < 100.0  # beyond, coordinates are too coarse
    return Chart.of(rows[fits], z[fits])


def _grown(values: FloatArray, chart: Chart | None, spare: int) -> Chart | None:
    """A chart with all rows that its maps explain, again and again."""
    for _ in range(8):
        more = None if chart is None else chart_of_maps(values, maps_on(values, chart), spare)
        if chart is None or more is None or len(more.rows) <= len(chart.rows):
            break
        chart = more
    return chart


def find_faces(values: FloatArray, least: int, most: int, rng: np.random.Generator) -> list[Chart]:
    """Faces of some ``least`` to ``most`` dimensions, largest first, around random rows that are in none yet."""
    found: list[Chart] = []
    free = np.ones(len(values), dtype=bool)
    on = np.count_nonzero(values > 0.0, axis=1)
    for row in rng.permutation(np.flatnonzero(on >= least + 2))[:240]:
        if len(found) >= _FACES:
            break
        if free[row]:
            k = int(rng.integers(least, min(on[row] - 2, most) + 1))
            face = _grown(values, _flat_through(values, row, k, rng), 2)
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
    picks = np.stack([moved[rng.choice(near, k, replace=False)] for _ in range(30)])
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
    for number in range(8):
        chart = _grown(values, _jointly_on(values, k, _JOINTLY[number % 4], 0.2 * (number > 0), rng), 1)
        if chart is not None and (best is None or len(chart.rows) > len(best.rows)):
            best = chart
        if best is not None and len(best.rows) > 0.9 * most:
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


def polish_chart(values: FloatArray, chart: Chart) -> Chart:
    """A chart made exact by matrix recovery that starts from it, with every row that it then explains."""
    k, maps = chart.z.shape[1], maps_on(values, chart, 1e-4)
    often = np.count_nonzero(values[chart.rows] > 0.0, axis=0) >= 4 * k
    units = np.flatnonzero(np.isfinite(maps[:, 0]) & often)
    if len(units) <= k:
        return chart
    part = np.linspace(0, len(chart.rows) - 1, min(2000, len(chart.rows))).astype(int)
    table = values[np.ix_(chart.rows[part], units)]
    size = np.sqrt(np.nansum(table**2, axis=0) / np.maximum((table > 0.0).sum(axis=0), 1))
    start = Factors(chart.z[part], maps[units, :-1] / size[:, None], maps[units, -1] / size)
    cells = Cells(np.ascontiguousarray(table / size))
    try:
        fit = recover_matrix(cells, k, tolerance=1e-13, max_iterations=15, start=start)
    except InvalidDataError:
        return chart
    better, sure = np.full_like(maps, np.nan), fit.conditions.column_identifiable
    better[units[sure]] = (fit.factors.extended * size[:, None])[sure]
    more = chart_of_maps(values, better, 1, 1e-6)
    return chart if more is None or len(more.rows) < 0.5 * len(chart.rows) else more


# --- what values in some rows imply ---------------------------------------------------------------


def closure(H: FloatArray, given: FloatArray) -> FloatArray | None:
    """All values of a unit that given ones (not NaN) imply, of mean square 1 where on; None if they contradict."""
    seen = np.isfinite(given)
    rows, top = H[seen], float(given[seen].max(initial=0.0))
    if top <= 0.0:
        return None
    w = np.linalg.lstsq(rows, given[seen], rcond=_RANK)[0]
    if np.abs(rows @ w - given[seen]).max() > _FITS * top:
        return None
    values: FloatArray = H @ w
    values[np.abs(values) < _ZERO * top] = 0.0
    values[np.abs(H @ _null_space(rows)).max(axis=1, initial=0.0) > _OPEN] = np.nan
    if (values < 0.0).any():
        return None
    return np.asarray(values / np.sqrt(np.nanmean(values[values > 0.0] ** 2)))


def imply_values(H: FloatArray, chart: Chart, heights: FloatArray, rng: np.random.Generator) -> FloatArray | None:
    """Values of a unit with these heights on a chart, wherever these imply them; None where there is no such unit."""
    given = np.full(len(H), np.nan)
    given[chart.rows] = heights
    best = closure(H, given)
    if best is None or np.isfinite(best).all():
        return best
    rows = H[chart.rows]
    w, open_ = np.linalg.lstsq(rows, heights, rcond=_RANK)[0], H @ _null_space(rows)
    size = float(heights[heights > 0.0].mean())
    for number in range(4):
        weights = rng.exponential(size=len(H)) if number else np.ones(len(H))
        left = H @ w / size
        width, price, t = 1.0, weights, np.zeros(open_.shape[1])
        while width > _ZERO:  # t with the least sum of weights |left + open t|, rows below 0 at a heavy price
            scaled = open_ * price[:, None]
            gram = scaled.T @ open_
            gram[np.diag_indices(len(gram))] += 1e-13 * np.trace(gram)
            t = np.asarray(np.linalg.lstsq(gram, -scaled.T @ left)[0], dtype=np.float64)
            r = left + open_ @ t
            price = np.where(r < -0.5 * width, 10.0 / width**2, weights / np.maximum(np.abs(r), width))
            width *= 0.8
        left = left + open_ @ t
        near = np.abs(left) < 1e-5
        near[chart.rows] = False
        off = np.flatnonzero(near)
        guess = given.copy()
        guess[off[not_alone(open_[off])]] = 0.0
        values = closure(H, guess)
        if values is not None and np.isfinite(values).sum() > np.isfinite(best).sum():
            best = values
        if np.isfinite(best).all():
            break
    return best


def join_unit(H: FloatArray, values: FloatArray, column: FloatArray) -> FloatArray:
    """``values`` with one unit more, merged with the column of the same unit where there is one."""
    for j in range(values.shape[1]):
        factor = _ratio(values[:, j], column)
        if factor is None:
            continue
        old = values[:, j]
        both = None if np.isfinite(old).all() else closure(H, np.where(np.isfinite(old), old, factor * column))
        return values if both is None else join_unit(H, np.delete(values, j, axis=1), both)
    return np.column_stack([values, column])


def _ratio(one: FloatArray, other: FloatArray) -> float | None:
    """The factor between two columns of one unit, or None where they are of two."""
    both = np.isfinite(one) & np.isfinite(other)
    on = both & (one > 0.0)
    if np.count_nonzero(on) < 3 or np.count_nonzero(both) < 10 or ((one > 0.0) != (other > 0.0))[both].any():
        return None
    factor = float(one[on] @ other[on] / (other[on] @ other[on]))
    return factor if np.abs(one[on] - factor * other[on]).max() < _FITS * one[on].max() else None


def complete_units(H: FloatArray, values: FloatArray, chart: Chart) -> FloatArray:
    """``values`` whose incomplete units are filled in by their maps on a chart."""
    values, maps = values.copy(), maps_on(values, chart)
    for j in np.flatnonzero(np.isfinite(maps[:, 0]) & np.isnan(values[chart.rows]).any(axis=0)):
        line = chart.lifted @ maps[j]
        seen = np.isfinite(values[chart.rows, j])
        if np.abs(np.maximum(line, 0.0) - values[chart.rows, j])[seen].max() > _FITS * line.max():
            continue
        column = values[:, j].copy()
        column[chart.rows] = np.where(line > 1e-9 * line.max(), line, 0.0)
        more = closure(H, column)
        if more is not None:
            values[:, j] = more
    return values


def units_on(H: FloatArray, values: FloatArray, chart: Chart, rng: np.random.Generator) -> FloatArray:
    """``values`` with the units that are bent on a chart: rectified affine functions in the column space of H there."""
    kept = not_alone(H[chart.rows])
    chart = Chart(chart.rows[kept], chart.z[kept])
    basis, Z = _range(H[chart.rows]), chart.lifted
    if len(kept) < basis.shape[1] + 12:
        return values
    outside = Z - basis @ (basis.T @ Z)
    linear = Z @ _null_space(outside) if np.linalg.norm(outside) > _OPEN * np.linalg.norm(Z) else Z
    here = values[chart.rows]
    old = _range(np.column_stack([linear, np.ones(len(Z)), here[:, np.isfinite(here).all(axis=0)]]))
    since = 0
    for _ in range(_FACE_STARTS):
        if since >= _PATIENCE or old.shape[1] >= basis.shape[1]:
            break
        slope = rng.standard_normal(Z.shape[1] - 1)
        a = np.append(slope, -float(chart.z[rng.integers(len(Z))] @ slope))
        a, ratio = descend(Z, basis, old, a / np.linalg.norm(a), _DESCENTS)
        line = Z @ a
        since += 1
        if ratio < _FOUND and min((line > 0.0).sum(), (line < 0.0).sum()) >= 3:
            old, since = _range(np.column_stack([old, np.maximum(line, 0.0)])), 0
            # Where affine functions are in the column space, the other side is a solution, too.
            sides = [imply_values(H, chart, np.maximum(side, 0.0), rng) for side in (line, -line)]
            found = [side for side in sides if side is not None]
            if found:
                values = join_unit(H, values, max(found, key=lambda side: int(np.isfinite(side).sum())))
    return values


def rank_of(rows: FloatArray) -> int:
    """The number of dimensions that rows span."""
    return int(rows.shape[1] - _null_space(rows).shape[1])


def _range(rows: FloatArray) -> FloatArray:
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    return left[:, sizes > _RANK * sizes[0]]


def _null_space(rows: FloatArray) -> FloatArray:
    _, sizes, directions = np.linalg.svd(rows, full_matrices=len(rows) < rows.shape[1])
    return directions[np.count_nonzero(sizes > 1e-8 * sizes[0]) :].T
