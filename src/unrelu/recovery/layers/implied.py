"""Units known in some rows, and what that implies for the others: a unit is a linear functional w of rows H.

Values in some rows determine w up to the null space N of these rows, and the unit wherever a row is orthogonal to N.
More follows where many rows turn out to be off: t in w + N t is where the sum of |H (w + N t)| is least, with a heavy
price on rows below 0, as for planes (:mod:`unrelu.recovery.layers.planes`); rows at 0 that the others confirm count as
off. A unit that is off wherever another one is remains open by multiples of that one, and has NaN in rows where both
are on: no table of outputs tells it there, only its inputs do.
"""

from __future__ import annotations

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.recovery.layers.faces import Chart, maps_on, not_alone
from unrelu.recovery.layers.kinks import descend

_FITS = 1e-6  # relative error of values that agree
_OFF = 1e-7  # of the largest value
_OPEN = 1e-7
_NULL = 1e-8  # of the largest singular value
_RANK = 1e-9
_TRIES = 4
_STARTS, _PATIENCE, _ROUNDS = 40, 12, 60  # of a search for units on a face
_FOUND = 1e-14  # squared share of a unit that is not in the column space
_BOTH_SIDES = 3  # rows that are on, and off
_PRICE = 10.0
_BEYOND = 12  # rows of a face beyond its rank


def closure(H: FloatArray, known: FloatArray) -> FloatArray | None:
    """All values of a unit that those known (not NaN) imply, of mean square 1 where on; None if they contradict."""
    seen = np.isfinite(known)
    rows, top = H[seen], float(known[seen].max(initial=0.0))
    if top <= 0.0:
        return None
    w = np.linalg.lstsq(rows, known[seen], rcond=_RANK)[0]
    if np.abs(rows @ w - known[seen]).max() > _FITS * top:
        return None
    values: FloatArray = H @ w
    values[np.abs(values) < _OFF * top] = 0.0
    values[np.abs(H @ _null_space(rows)).max(axis=1, initial=0.0) > _OPEN] = np.nan
    if (values < 0.0).any():
        return None
    scaled: FloatArray = values / np.sqrt(np.nanmean(values[values > 0.0] ** 2))
    return scaled


def implied(H: FloatArray, chart: Chart, heights: FloatArray, rng: np.random.Generator) -> FloatArray | None:
    """Values of a unit with these heights on a chart, wherever they are implied; None where there is none."""
    known = np.full(len(H), np.nan)
    known[chart.rows] = heights
    best = closure(H, known)
    if best is None or np.isfinite(best).all():
        return best
    rows = H[chart.rows]
    w, open_ = np.linalg.lstsq(rows, heights, rcond=_RANK)[0], H @ _null_space(rows)
    size = float(heights[heights > 0.0].mean())
    for number in range(_TRIES):
        weights = rng.exponential(size=len(H)) if number else np.ones(len(H))
        left = H @ w / size
        left = left + open_ @ _shift(open_, left, weights)
        near = np.abs(left) < 1e-5
        near[chart.rows] = False
        off = np.flatnonzero(near)
        guess = known.copy()
        guess[off[not_alone(open_[off])]] = 0.0
        values = closure(H, guess)
        if values is not None and np.isfinite(values).sum() > np.isfinite(best).sum():
            best = values
        if np.isfinite(best).all():
            break
    return best


def _shift(open_: FloatArray, left: FloatArray, weights: FloatArray) -> FloatArray:
    """t with the least sum of weights |left + open t|, rows below 0 at a heavy price."""
    width, price = 1.0, weights
    t: FloatArray = np.zeros(open_.shape[1])
    while width > _OFF:
        scaled = open_ * price[:, None]
        gram = scaled.T @ open_
        gram[np.diag_indices(len(gram))] += 1e-13 * np.trace(gram)
        t = np.asarray(np.linalg.lstsq(gram, -scaled.T @ left)[0], dtype=np.float64)
        r = left + open_ @ t
        price = np.where(r < -0.5 * width, _PRICE / width**2, weights / np.maximum(np.abs(r), width))
        width *= 0.8
    return t


def joined(H: FloatArray, values: FloatArray, column: FloatArray) -> FloatArray:
    """``values`` with one unit more, merged with the column of the same unit where there is one."""
    for j in range(values.shape[1]):
        factor = _ratio(values[:, j], column)
        if factor is None:
            continue
        old = values[:, j]
        both = None if np.isfinite(old).all() else closure(H, np.where(np.isfinite(old), old, factor * column))
        return values if both is None else joined(H, np.delete(values, j, axis=1), both)
    return np.column_stack([values, column])


def _ratio(one: FloatArray, other: FloatArray) -> float | None:
    """The factor between two columns of one unit, or None where they are of two."""
    both = np.isfinite(one) & np.isfinite(other)
    on = both & (one > 0.0)
    if np.count_nonzero(on) < 3 or np.count_nonzero(both) < 10 or ((one > 0.0) != (other > 0.0))[both].any():
        return None
    factor = float(one[on] @ other[on] / (other[on] @ other[on]))
    return factor if np.abs(one[on] - factor * other[on]).max() < _FITS * one[on].max() else None


def completed(H: FloatArray, values: FloatArray, chart: Chart) -> FloatArray:
    """``values`` with partly known units filled in by their maps on a chart."""
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
    if len(kept) < basis.shape[1] + _BEYOND:
        return values
    outside = Z - basis @ (basis.T @ Z)
    linear = Z @ _null_space(outside) if np.linalg.norm(outside) > _OPEN * np.linalg.norm(Z) else Z
    here = values[chart.rows]
    known = _range(np.column_stack([linear, np.ones(len(Z)), here[:, np.isfinite(here).all(axis=0)]]))
    since = 0
    for _ in range(_STARTS):
        if since >= _PATIENCE or known.shape[1] >= basis.shape[1]:
            break
        slope = rng.standard_normal(Z.shape[1] - 1)
        a = np.append(slope, -float(chart.z[rng.integers(len(Z))] @ slope))
        a, ratio = descend(Z, basis, known, a / np.linalg.norm(a), _ROUNDS)
        line = Z @ a
        since += 1
        if ratio < _FOUND and min((line > 0.0).sum(), (line < 0.0).sum()) >= _BOTH_SIDES:
            known, since = _range(np.column_stack([known, np.maximum(line, 0.0)])), 0
            # Where affine functions are in the column space, the other side is a solution, too.
            sides = [implied(H, chart, np.maximum(side, 0.0), rng) for side in (line, -line)]
            found = [side for side in sides if side is not None]
            if found:
                values = joined(H, values, max(found, key=lambda side: int(np.isfinite(side).sum())))
    return values


def rank_of(rows: FloatArray) -> int:
    """The number of dimensions that rows span."""
    return int(rows.shape[1] - _null_space(rows).shape[1])


def _range(rows: FloatArray) -> FloatArray:
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    basis: FloatArray = left[:, sizes > _RANK * sizes[0]]
    return basis


def _null_space(rows: FloatArray) -> FloatArray:
    _, sizes, turn = np.linalg.svd(rows, full_matrices=len(rows) < rows.shape[1])
    null: FloatArray = turn[np.count_nonzero(sizes > _NULL * sizes[0]) :].T
    return null
