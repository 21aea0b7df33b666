"""The table before it is learned from: what must be said of it, rows that repeat, and a prior worth one row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, FloatArray
from unrelu.errors import DuplicatedRowsWarning, InvalidDataError
from unrelu.robust.components import Atom
from unrelu.robust.reweighting import Columns
from unrelu.statistics.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.statistics.subsample import Subsample
from unrelu.validation import warn

_PRIOR_ROWS = 256
_ATOM_SHARE, _ATOM_ROWS, _MOST_ATOMS = 0.004, 5, 8
_MANY_COPIES = 0.1


def check_table(subsample: Subsample, assumptions: Assumptions, names: tuple[str, ...] | None) -> Columns:
    """The columns that vary, after clear words about a table that cannot be learned from."""
    subsample.screening.check(assumptions.lowest, names)
    n, d = len(subsample.rows), len(assumptions.floor)
    if n < 2 * d:
        raise InvalidDataError(
            f"Only {n:,} rows for {d:,} columns: telling outlier rows from genuine ones takes at least two rows a"
            " column. Add rows, drop columns, or use method='one_pass'."
        )
    x = np.maximum(subsample.values, np.array(assumptions.censoring).astype(subsample.values.dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a column without values, which the learner names
        varying = np.nanmax(x, axis=0) > np.nanmin(x, axis=0)
    if not varying.any():
        raise InvalidDataError("No column varies: there is nothing to learn.")
    return np.flatnonzero(varying)


def find_atoms(values: NDArray[Any], assumptions: Assumptions) -> tuple[list[Atom], NDArray[Any]]:
    """Rows repeated so often that they may be atoms, and the rows without them."""
    floor = np.array(assumptions.censoring)
    x = np.maximum(values, floor.astype(values.dtype))
    complete = ~np.isnan(x).any(axis=1)
    keys = np.ascontiguousarray(x).view(np.dtype((np.void, x.dtype.itemsize * x.shape[1]))).ravel()
    _, first, which, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    n = len(x)
    if counts.max() > n / 2 and complete[first[np.argmax(counts)]]:
        share = counts.max() / n
        raise InvalidDataError(
            f"{share:.0%} of the rows are identical, row {int(first[np.argmax(counts)])} of the sample looked at:"
            " no method can tell genuine rows from that. Drop the copies if they are an artefact."
        )
    often = [k for k in np.argsort(-counts, kind="stable") if counts[k] >= max(_ATOM_ROWS, _ATOM_SHARE * n)]
    often = [k for k in often if complete[first[k]]][:_MOST_ATOMS]
    resolution = column_resolution(x, floor)
    atoms = [Atom(x[first[k]].astype(np.float64), floor, _log_mass(x[first[k]], floor, resolution)) for k in often]
    repeated = np.isin(which.ravel(), often)
    copies = int(np.sum(counts[(counts > 1) & (np.count_nonzero(x[first] > floor, axis=1) > 1)] - 1))
    copies -= sum(int(counts[k]) - 1 for k in often if np.count_nonzero(x[first[k]] > floor) > 1)
    if copies > _MANY_COPIES * n:
        warn(
            f"{copies / n:.0%} of the rows looked at are exact copies of another row: standard errors take them for"
            " independent. Drop the copies, or give counts as sample_weight, if they are one observation each.",
            DuplicatedRowsWarning,
        )
    return atoms, x[~repeated]


def column_resolution(x: NDArray[Any], floor: FloatArray) -> FloatArray:
    """The smallest step between values of each column: tiny for continuous ones, 0.01 for two decimals."""
    steps = []
    for j in range(x.shape[1]):
        distinct = np.unique(x[x[:, j] > floor[j], j].astype(np.float64))
        steps.append(float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0)
    return np.array(steps)


def _log_mass(row: FloatArray, floor: FloatArray, resolution: FloatArray) -> float:
    return -float(np.log(resolution[row > floor]).sum())


def prior_record(values: NDArray[Any], assumptions: Assumptions, rng: np.random.Generator) -> PairMoments:
    """A record worth one row: columns shuffled against each other, and cut at their upper quartile's double."""
    floor = np.array(assumptions.censoring)
    drawn = np.empty((_PRIOR_ROWS, values.shape[1]))
    for j in range(values.shape[1]):
        x = values[~np.isnan(values[:, j]), j].astype(np.float64)
        most = floor[j] + 2.0 * (np.quantile(x[x > floor[j]], 0.75) - floor[j]) if (x > floor[j]).any() else 1.0
        drawn[:, j] = np.minimum(rng.choice(x, _PRIOR_ROWS), most)
        drawn[0, j] = np.median(x[x > floor[j]]) if (x > floor[j]).any() else floor[j] + 1.0
    record = PairMomentsQuestion.under(assumptions)(Block(drawn))
    return record.scaled(1.0 / record.weight)
