"""Where to begin: halves of the rows that fit together, found by concentration from many seeds.

Concentration (Rousseeuw and Van Driessen 1999): fit a half of the rows, take the half that the fit finds most likely,
again. Each step raises the mean log density of the half. Seeds are random rows with their nearest sixth, and the rows
nearest to the medians; the first steps are those of plain covariances, which are cheap, and the best few go on with
the rectified Gaussian, whose density prices zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from unrelu.contracts import Block, FloatArray
from unrelu.fit.robust_rows.components import GaussianComponent, Setting, gaussian_from
from unrelu.fit.robust_rows.selection import RowIndex
from unrelu.fit.robust_rows.table import standardized
from unrelu.posterior.row_scores import Values

_MOST_SEEDS, _FEWEST_SEEDS, _SEED_COLUMNS = 60, 20, 3000  # so many random rows over the columns
_PLAIN_STEPS = 3
_PROMISING, _PROMISING_STEPS = 8, 2
_FINAL, _FINAL_STEPS = 3, 12
_DISTINCT = 0.98  # halves that share more are the same start
_ALIKE = 0.8  # halves that share less lead to other rows
_START_ROWS, _ROWS_PER_COLUMN = 1500, 5  # at least, to begin on
_RIDGE = 0.05  # of a column's squared spread: keeps columns of zeros from deciding everything


@dataclass(frozen=True, eq=False)
class Start:
    """A half of the rows, its fit, and the mean log density of the half under it."""

    half: RowIndex
    component: GaussianComponent
    objective: float

    def overlap(self, other: Start) -> float:
        """The share of rows in common."""
        return len(np.intersect1d(self.half, other.half, assume_unique=True)) / max(len(self.half), 1)


def rows_to_start_on(values: Values, rng: np.random.Generator) -> Values:
    """Enough of the rows, which come in table order."""
    most = max(_START_ROWS, _ROWS_PER_COLUMN * values.shape[1])
    some = rng.permutation(len(values))[:most]
    return values[np.sort(some)]


def concentrated_starts(values: Values, setting: Setting, rng: np.random.Generator) -> list[Start]:
    """Starts from the best down, distinct from each other. ``values`` holds no repeated rows to collapse on."""
    standard = standardized(values, setting.floor)
    halves = _plain_halves(standard, rng)
    promising = [_concentrate(values, half, setting, _PROMISING_STEPS) for half in halves]
    promising.sort(key=lambda start: -start.objective)
    final = [_concentrate(values, start.half, setting, _FINAL_STEPS) for start in promising[:_FINAL]]
    final.sort(key=lambda start: -start.objective)
    distinct: list[Start] = []
    for start in final:
        if all(start.overlap(other) < _DISTINCT for other in distinct):
            distinct.append(start)
    return distinct


def disagree(starts: list[Start]) -> bool:
    """Whether another start than the best has led to other rows."""
    return any(start.overlap(starts[0]) < _ALIKE for start in starts[1:])


def _plain_halves(z: FloatArray, rng: np.random.Generator) -> list[RowIndex]:
    """Distinct halves from plain concentration, by the determinant of their covariance from small to large."""
    n, d = z.shape
    half = max(n // 2, 1)
    ridge = _RIDGE * (0.1 + np.quantile(np.abs(z), 0.75, axis=0)) ** 2
    seeds = [_nearest(np.sum(z**2, axis=1), half), _nearest(np.sum(np.minimum(np.abs(z), 3.0), axis=1), half)]
    size = np.sqrt(1.0 + z**2)
    n_seeds = int(np.clip(_SEED_COLUMNS // d, _FEWEST_SEEDS, _MOST_SEEDS))
    for row in rng.choice(n, size=min(n_seeds, n), replace=False):
        # Differences count relative to the size of the values, lest a heavy tail makes all rows equally far.
        seeds.append(_nearest(np.sum(((z - z[row]) / np.maximum(size, size[row])) ** 2, axis=1), max(n // 6, d + 1)))
    found = []
    for seed in seeds:
        rows, size_of_half = seed, np.inf
        for _ in range(_PLAIN_STEPS):
            rows, size_of_half = _plain_step(z, rows, ridge, half)
        found.append((size_of_half, rows))
    kept = [found[0], found[1]]  # the rows nearest to the medians go on in any case
    for size_of_half, rows in sorted(found[2:], key=lambda pair: pair[0]):
        if len(kept) == _PROMISING:
            break
        if all(len(np.intersect1d(rows, other, assume_unique=True)) < _DISTINCT * half for _, other in kept):
            kept.append((size_of_half, rows))
    return [rows for _, rows in kept]


def _nearest(distance: FloatArray, count: int) -> RowIndex:
    return np.sort(np.argpartition(distance, min(count, len(distance) - 1))[:count])


def _plain_step(z: FloatArray, rows: RowIndex, ridge: FloatArray, half: int) -> tuple[RowIndex, float]:
    """One step with mean and covariance; also the log determinant of the covariance used."""
    centre = z[rows].mean(axis=0)
    about = z[rows] - centre
    covariance = about.T @ about / max(len(rows) - 1, 1) + np.diag(ridge)  # of one row the ridge is all there is
    root = np.linalg.cholesky(covariance)
    distance = np.sum(solve_triangular(root, (z - centre).T, lower=True, check_finite=False) ** 2, axis=0)
    return _nearest(distance, half), 2.0 * float(np.log(np.diagonal(root)).sum())


def _concentrate(values: Values, half: RowIndex, setting: Setting, steps: int) -> Start:
    count = max(len(values) // 2, 1)
    for _ in range(steps):
        component = gaussian_from(setting.question(Block(values[half])), setting)
        density = component.log_density(values)
        before, half = half, _nearest(-density, count)
        objective = float(density[half].mean())
        if np.array_equal(before, half):
            break
    return Start(half, component, objective)
