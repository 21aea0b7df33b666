"""The table before it is learned from: its checks, spreads, repeated rows, a prior worth one row, starts.

Concentration (Rousseeuw and Van Driessen 1999): fit a half of the rows, take the half that the fit finds most likely,
again. Each step raises the mean log density of the half. Seeds are random rows with their nearest sixth, and the rows
nearest to the medians; the first steps are those of plain covariances, which are cheap, and the best few go on with
the rectified Gaussian, whose density prices zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from unrelu.contracts import Assumptions, Block, BoolArray, Evidence, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_rows.mixture import (
    ColumnIndex,
    GaussianComponent,
    RepeatedRowComponent,
    RowIndex,
    Setting,
    gaussian_from,
)
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.passes.tiles import Subsample, SubsampleQuestion, as_stored
from unrelu.posterior.cells import Values
from unrelu.validation import row_label, warn

_PRIOR_ROWS, _PRIOR_REACH = 256, 3.0
_FARTHEST = 1e60  # spreads: rows farther out are as far, and squares of it are numbers
_NEAR = 10.0  # spreads: rows farther out do not say whether columns repeat each other
_OFTEN_SHARE, _OFTEN_ROWS, _MOST_REPEATED = 0.004, 5, 8
_MANY_COPIES = 0.1
_RARELY = 0.01  # of the rows differ
_FEWEST_ROWS, _MOST_ROWS, _CELLS = 4_000, 20_000, 200_000  # of the sample on which components are chosen
# of starts
_MOST_SEEDS, _FEWEST_SEEDS, _SEED_COLUMNS = 60, 20, 3000  # so many random rows over the columns
_PLAIN_STEPS = 3
_PROMISING, _PROMISING_STEPS = 8, 2
_FINAL, _FINAL_STEPS = 3, 12
_DISTINCT = 0.98  # halves that share more are the same start
_RIDGE = 0.05  # of a column's squared spread: keeps columns of zeros from deciding everything


def sampled_table(evidence: Evidence, assumptions: Assumptions, seed: int) -> Subsample:
    """The rows on which components are chosen, and what all rows were like."""
    size = int(np.clip(_CELLS // len(assumptions.floor), _FEWEST_ROWS, _MOST_ROWS))
    return evidence.collect(SubsampleQuestion.under(assumptions, size, seed))


def check_table(subsample: Subsample, assumptions: Assumptions, names: tuple[str, ...] | None) -> ColumnIndex:
    """The columns that separate rows; InvalidDataError for a table that cannot be learned from."""
    subsample.screening.check(assumptions, names)
    n, d = len(subsample.rows), len(assumptions.floor)
    if n < 2 * d:
        raise InvalidDataError(
            f"Only {n:,} rows for {d:,} columns: separating outlier rows from inliers takes at least two rows a"
            " column. Add rows, drop columns, or take a model that is not robust (one_pass)."
        )
    floor = np.array(assumptions.censored_at).astype(subsample.values.dtype)
    x = at_least(subsample.values, floor)
    first, _, counts = distinct_rows(x)
    most = int(np.argmax(counts))
    row, at = x[first[most]], int(subsample.rows[first[most]])
    # All at the floor the rows may be: models have those.
    if counts[most] > len(x) / 2 and not np.isnan(row).any() and (row > floor).any():
        raise InvalidDataError(
            f"{counts[most] / len(x):.0%} of the rows are identical, such as {row_label(at)}: no method can"
            " separate inlier rows from those. Drop the copies if they are an artefact, or take a model that is not"
            " robust (one_pass).",
            rows=[at],
        )
    varying = [spreads(column[~np.isnan(column)], low) for column, low in zip(subsample.values.T, floor, strict=True)]
    if not any(varying):
        raise InvalidDataError(
            "No column varies: in each of them most values are the same one, above the floor. If values are cut off"
            " there, say so with floor='min'."
        )
    columns = np.flatnonzero(varying)
    return columns[~linear_image(np.ascontiguousarray(subsample.values[:, columns]), floor[columns])]


def varying_columns(
    subsample: Subsample, assumptions: Assumptions, n_components: int, names: tuple[str, ...] | None
) -> ColumnIndex:
    """The columns that vary in the sample; InvalidDataError for a table that cannot be learned from."""
    subsample.screening.check(assumptions, names)
    n = len(subsample.rows)  # all rows of positive weight, where they are few
    if n < 2 * n_components:
        raise InvalidDataError(
            f"Only {n:,} rows (samples) for n_components={n_components}: a component takes at least two rows. Add rows"
            " or lower n_components."
        )
    floor = np.array(assumptions.censored_at).astype(subsample.values.dtype)
    x = np.maximum(subsample.values, floor)
    columns = []
    for j, low in enumerate(floor):
        there = x[~np.isnan(x[:, j]), j]
        if len(there) == 0 or there.min() == there.max():
            continue
        # Hardly any may differ from one value above the floor: such rows say little about the others, but a component
        # of them alone would have the highest likelihood.
        middle = np.median(there)
        if middle <= low or np.mean(there != middle) > _RARELY:
            columns.append(j)
    if not columns:
        raise InvalidDataError("All rows are identical, or nearly all: no groups can be separated.")
    return np.array(columns)


def standardized(values: Values, floor: FloatArray) -> FloatArray:
    """Columns about their median in units of their spread; a missing cell is at the median."""
    x = np.maximum(values.astype(np.float64), floor)
    middle, spread = np.empty(x.shape[1]), np.empty(x.shape[1])
    for j, column in enumerate(x.T):
        middle[j], spread[j] = middle_and_spread(column[~np.isnan(column)], floor[j])
    with np.errstate(over="ignore"):
        z = np.nan_to_num((x - middle) / spread, nan=0.0)
    return np.clip(z, -_FARTHEST, _FARTHEST)


def middle_and_spread(x: FloatArray, floor: float) -> tuple[float, float]:
    """Median, and a standard deviation from the quantiles near it that lie above the floor.

    Quantiles about the median stay among the inlier rows while these are the majority, and do not collapse where
    about half of the column is floored, as absolute deviations from the median do. Of a column that is mostly floored
    the lower quartile of what is seen, for outliers may be most of the rest.
    """
    if len(x) == 0:
        return floor, 1.0
    middle = float(np.median(x))
    if middle > floor:
        for tail, deviations in ((0.35, 0.3853), (0.2, 0.8416), (0.05, 1.6449)):  # wider where values repeat
            low, high = np.quantile(x, [tail, 1.0 - tail])
            spread = (high - low) / (2.0 * deviations) if low > floor else (high - middle) / deviations
            if spread > 0.0:
                return middle, float(spread)
    seen = x[x > floor]
    return middle, float((np.quantile(seen, 0.25) - floor) / 0.3186) if len(seen) else 1.0


def linear_image(values: NDArray[Any], floor: FloatArray) -> BoolArray:
    """True for a column that repeats an earlier one, in whatever units: it says nothing more about a row.

    Two columns are compared by the rows above both floors, as :mod:`unrelu.passes.pair_moments` sums them.
    """
    levels = tuple(floor.astype(np.float64).tolist())
    near = (np.abs(standardized(values, floor)) < _NEAR).all(axis=1)
    if not near.any():
        return np.zeros(values.shape[1], dtype=np.bool_)
    record = PairMomentsQuestion(levels, levels)(Block(values[near]))
    count = np.where(record.count > 2.0, record.count, np.nan)
    mean = record.masked_sum / count
    variance = record.masked_square / count - mean**2
    covariance = record.cross / count - mean * mean.T
    with np.errstate(invalid="ignore"):
        product = np.sqrt(variance) * np.sqrt(variance.T)  # squares of covariances may leave double precision
        same = (np.abs(covariance) >= (1.0 - 5e-11) * product) & (product > 0.0)
    return np.asarray(np.triu(same, 1).any(axis=0))


def spreads(column: NDArray[Any], floor: float) -> bool:
    """Whether a column separates rows: not where most of its values are one and the same above the floor."""
    values, counts = np.unique(np.maximum(column, floor), return_counts=True)
    if len(values) < 2:
        return False
    most = int(np.argmax(counts))
    return bool(values[most] <= floor or counts[most] <= len(column) / 2)


def at_least(values: NDArray[Any], floor: FloatArray) -> NDArray[Any]:
    """Cells below the floor raised to it; 0.0 and -0.0 made the same."""
    return np.asarray(np.maximum(values, floor.astype(values.dtype)) + values.dtype.type(0.0))


def distinct_rows(x: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """(where each distinct row first is, which of them each row is, how often each is)."""
    keys = np.ascontiguousarray(x).view(np.dtype((np.void, x.dtype.itemsize * x.shape[1]))).ravel()
    _, first, which, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return first, which.ravel(), counts


def find_repeated_rows(
    values: NDArray[Any], assumptions: Assumptions
) -> tuple[list[RepeatedRowComponent], NDArray[Any]]:
    """Rows repeated so often that they may be components of their own, and the rows without them."""
    floor = as_stored(np.array(assumptions.censored_at), values)
    x = at_least(values, floor)
    n = len(x)
    first, which, counts = distinct_rows(x)
    often = _often(x, first, counts)
    repeats, resolution = [], column_resolution(x, floor)
    for row in x[first[often]]:
        log_mass = -float(np.log(resolution[row > floor]).sum())
        repeats.append(RepeatedRowComponent(row.astype(np.float64), floor, log_mass))
    repeated = np.isin(which, often)
    if n - np.count_nonzero(repeated) < 2 * x.shape[1]:
        raise InvalidDataError(
            f"Nearly all rows are copies of {len(often)} rows: too few others are left to learn from. Drop the copies"
            " if they are an artefact, or take a model that is not robust (one_pass)."
        )
    seen = np.count_nonzero(x[first] > floor, axis=1) > 1
    seen[often] = False
    copies = int(np.sum(counts[seen] - 1))
    if copies > _MANY_COPIES * n:
        warn(
            f"{copies / n:.0%} of the sampled rows are exact copies of another row: standard errors take them for"
            " independent. Drop the copies, or give counts as sample_weight, if they are one observation each.",
            "duplicated-rows",
        )
    return repeats, x[~repeated]


def often_repeated(values: NDArray[Any], floor: FloatArray) -> BoolArray:
    """Rows that are so often the same that they may be no draws of the model; those of nothing but floors are, too."""
    x = at_least(values, as_stored(floor, values))
    first, which, counts = distinct_rows(x)
    return np.isin(which, _often(x, first, counts))


def _often(x: NDArray[Any], first: NDArray[np.intp], counts: NDArray[np.intp]) -> list[int]:
    """Of the distinct rows, those without gaps that are repeated most."""
    least = max(_OFTEN_ROWS, _OFTEN_SHARE * len(x))
    often = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k] >= least]
    return [k for k in often if not np.isnan(x[first[k]]).any()][:_MOST_REPEATED]


def column_resolution(x: NDArray[Any], floor: FloatArray) -> FloatArray:
    """The smallest step between values of each column: tiny for continuous ones, 0.01 for two decimals."""
    steps = []
    for j in range(x.shape[1]):
        distinct = np.unique(x[x[:, j] > floor[j], j].astype(np.float64))
        steps.append(float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0)
    return np.array(steps)


def prior_record(
    values: Values, assumptions: Assumptions, rng: np.random.Generator, outliers: bool = True
) -> PairMoments:
    """A record worth one row: columns shuffled against each other. With ``outliers`` about, values are cut where these
    may begin; else columns are without their outer percents, and hold a low and a high value, so that a component
    always has values above the floor, and spread."""
    floor = np.array(assumptions.censored_at)
    drawn = np.empty((_PRIOR_ROWS, values.shape[1]))
    for j in range(values.shape[1]):
        x = values[~np.isnan(values[:, j]), j].astype(np.float64)
        if outliers:
            middle, spread = middle_and_spread(x, floor[j])
            drawn[:, j] = np.minimum(rng.choice(x, _PRIOR_ROWS), middle + _PRIOR_REACH * spread)
            drawn[0, j] = max(middle, floor[j]) + spread  # seen at least once
        else:
            low, high = np.quantile(x, [0.01, 0.99])
            if low == high:
                low, high = x.min(), x.max()
            drawn[:, j] = np.clip(rng.choice(x, _PRIOR_ROWS), low, high)
            drawn[:2, j] = low, high
    record = PairMomentsQuestion.under(assumptions)(Block(drawn))
    return record.scaled(1.0 / record.weight)


# --- where to begin -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Start:
    """A half of the rows, its fit, and the mean log density of the half under it."""

    half: RowIndex
    component: GaussianComponent
    objective: float

    def overlap(self, other: Start) -> float:
        """The share of rows in common."""
        return len(np.intersect1d(self.half, other.half, assume_unique=True)) / max(len(self.half), 1)


def concentrated_starts(values: Values, setting: Setting, rng: np.random.Generator) -> list[Start]:
    """Starts from the best down, distinct from each other. ``values`` holds no repeated rows to collapse on."""
    halves, count = _plain_halves(standardized(values, setting.floor), rng), max(len(values) // 2, 1)
    found: list[Start] = []
    for most, steps in ((_PROMISING, _PROMISING_STEPS), (_FINAL, _FINAL_STEPS)):
        found = []
        for half in halves[:most]:
            for _ in range(steps):
                component = gaussian_from(setting.question(Block(values[half])), setting)
                density = component.log_density(values)
                before, half = half, _nearest(-density, count)
                if np.array_equal(before, half):
                    break
            found.append(Start(half, component, float(density[half].mean())))
        found.sort(key=lambda start: -start.objective)
        halves = [start.half for start in found]
    distinct: list[Start] = []
    for start in found:
        if all(start.overlap(other) < _DISTINCT for other in distinct):
            distinct.append(start)
    return distinct


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
    for rows in seeds:
        for _ in range(_PLAIN_STEPS):
            centre = z[rows].mean(axis=0)
            about = z[rows] - centre
            # Of one row the ridge is all there is.
            root = np.linalg.cholesky(about.T @ about / max(len(rows) - 1, 1) + np.diag(ridge))
            distance = np.sum(solve_triangular(root, (z - centre).T, lower=True, check_finite=False) ** 2, axis=0)
            rows = _nearest(distance, half)
        found.append((2.0 * float(np.log(np.diagonal(root)).sum()), rows))
    kept = [found[0], found[1]]  # the rows nearest to the medians go on in any case
    for log_size, rows in sorted(found[2:], key=lambda pair: pair[0]):
        if len(kept) == _PROMISING:
            break
        if all(len(np.intersect1d(rows, other, assume_unique=True)) < _DISTINCT * half for _, other in kept):
            kept.append((log_size, rows))
    return [rows for _, rows in kept]


def _nearest(distance: FloatArray, count: int) -> RowIndex:
    return np.sort(np.argpartition(distance, min(count, len(distance) - 1))[:count])
