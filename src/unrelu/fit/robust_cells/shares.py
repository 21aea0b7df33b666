"""How many cells are bad, bin by bin, and how many rows are outliers: EM while the densities stand.

A bin is believed where it earns its keep: a share of p_k gains sum log(1 + odds) - n p_k of log-likelihood over n rows,
and bins that gain less than ``LEAST_GAIN`` are taken for chance. What is left of them is so little that only a cell no
normal column ever has counts as bad: a clean table is learned as if nothing had been looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray
from unrelu.fit.robust_cells.at_floor import floor_shares
from unrelu.fit.robust_cells.background import Bins
from unrelu.fit.robust_cells.law import LEAST_GAIN, MOST_BAD, CellLaw, Look
from unrelu.kernels.cell_shares import bin_posteriors
from unrelu.posterior.row_scores import Values
from unrelu.validation import label_columns

_OPEN_ROUNDS, _ROUNDS, _TRIES, _ROW_ROUNDS = 10, 20, 3, 10
_SEED = 0.05  # bad cells of a column to start from
_HALF_A_CELL = 0.5  # less of each bin: a bin that explains no cell vanishes (Figueiredo and Jain 2002)
_LEFT = 1e-4  # cells, of a bin that is not believed
MOST_OF_A_COLUMN = 1.0 / 3.0  # that may be bad: beyond, the column is in doubt, not its cells


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bins in which cells may be bad, and whether rows may."""

    allowed: BoolArray
    rows: bool = True


def updated(law: CellLaw, look: Look, values: Values, weights: FloatArray, bounds: Bounds, choosing: bool) -> CellLaw:
    """The law with the shares that fit what was seen in ``values``; ``choosing``: only bins, and rows, that earn their
    keep."""
    outliers, share, mass = _outlier_rows(law, look, weights, bounds, choosing)
    weights, at_floor, allowed = weights * (1.0 - outliers), law.background.first_bins, bounds.allowed.copy()
    if choosing:
        allowed[at_floor] = False
    bad = _bad_cells(law, look, weights, allowed, choosing)
    if choosing:
        floored = floor_shares(law, look, values, weights, bad, bounds.allowed[at_floor])
        bad[at_floor] = np.maximum(bad[at_floor], floored)
    return replace(law, bad_share=bad, row_share=share, row_mass=mass)


def _bad_cells(law: CellLaw, look: Look, weights: FloatArray, allowed: BoolArray, choosing: bool) -> FloatArray:
    """Shares of the bins that are ``allowed``; ``choosing``: of those that earn their keep."""
    columns, n_bins = law.background.columns, law.background.n_bins
    genuine = np.exp(np.clip(look.log_genuine - look.log_bin, -700.0, 700.0))
    in_bin = _in_bins(look.bins, weights, n_bins)
    n = np.maximum(law.background.in_column(in_bin), 1.0)[columns]
    shares = _SEED / law.background.in_column(np.ones(n_bins))[columns] * allowed
    for _ in range(_TRIES if choosing else 1):
        for left_to_do in range(_ROUNDS if choosing else _OPEN_ROUNDS, 0, -1):
            total = law.background.in_column(shares)
            shares = shares * np.minimum(1.0, MOST_BAD / np.maximum(total, 1e-300))[columns]
            sums = np.zeros((2 if left_to_do == 1 else 1, n_bins))
            left = 1.0 - law.background.in_column(shares)[columns]
            bin_posteriors(look.bins, genuine, weights, np.stack([shares, left]), sums)
            shares = np.maximum(sums[0] - _HALF_A_CELL, 0.0) / n * allowed
        if not choosing or not (poor := (shares > 0.0) & (sums[1] - n * shares < LEAST_GAIN)).any():
            break
        allowed = allowed & ~poor
        shares = shares * allowed
    total = law.background.in_column(shares)
    shares = shares * np.minimum(1.0, MOST_BAD / np.maximum(total, 1e-300))[columns]
    return np.maximum(shares, _LEFT / n)


def _in_bins(bins: Bins, weights: FloatArray, n_bins: int) -> FloatArray:
    """Weight of the cells in every bin."""
    seen = bins >= 0
    each = np.broadcast_to(weights[:, None], seen.shape)[seen]
    return np.asarray(np.bincount(bins[seen], weights=each, minlength=n_bins), dtype=np.float64)


def _masses(law: CellLaw, in_bin: FloatArray) -> FloatArray:
    """Shares of a column's bins, with half a row spread evenly over them."""
    columns, every = law.background.columns, np.ones(law.background.n_bins)
    mass = in_bin + 0.5 / law.background.in_column(every)[columns]
    return np.asarray(mass / law.background.in_column(mass)[columns])


def with_outlier_rows(law: CellLaw, values: Values, weights: FloatArray, outliers: BoolArray) -> CellLaw:
    """The law that takes these rows for outliers."""
    bins = law.background.places(values, law.floor)[0]
    mass = _masses(law, _in_bins(bins, weights * outliers, law.background.n_bins))
    share = float(weights @ outliers / weights.sum())
    return replace(law, row_share=min(max(law.row_share, share), MOST_BAD), row_mass=mass)


def _outlier_rows(
    law: CellLaw, look: Look, weights: FloatArray, bounds: Bounds, choosing: bool
) -> tuple[FloatArray, float, FloatArray]:
    """(probability of every row to be an outlier, their share, masses of their cells)."""
    n, none = float(weights.sum()), np.zeros(len(weights))
    share = law.row_share
    if share <= 0.0 or not bounds.rows:
        return none, 0.0, law.row_mass
    for _ in range(_ROW_ROUNDS):
        outliers = replace(law, row_share=share).outlier_probability(look)
        share = min((float(weights @ outliers) - 1.0) / n, MOST_BAD)
        if share <= 0.0:
            return none, 0.0, law.row_mass
    in_bin = _in_bins(look.bins, weights * outliers, law.background.n_bins)
    mass = _masses(law, in_bin)
    if choosing:
        gain = float(weights @ np.logaddexp(np.log1p(-share), np.log(share) + look.log_outlier - look.log_row))
        # As many numbers as there are bins in use, but no more than half of the outliers' cells.
        numbers = min(float(np.count_nonzero(in_bin > 1.0)), 0.5 * share * n * len(law.floor))
        if gain < 0.5 * np.log(n) * numbers:
            return none, 0.0, mass
    return outliers, share, mass


def too_many(bad: NDArray[Any], there: NDArray[Any]) -> BoolArray:
    """Columns of which more than a third would be bad: of all cells, or of those off their limit.

    Counts are 2 x d, of all cells that are not missing and of those off their limit.

    >>> too_many(np.array([[9, 20, 34], [9, 20, 34]]), np.array([[100, 100, 100], [90, 50, 100]]))
    array([False,  True,  True])
    """
    return np.asarray((bad > MOST_OF_A_COLUMN * there).any(axis=0))


def left_columns(left: BoolArray, names: Sequence[str] | None) -> str:
    """One sentence on columns of which too much would be bad."""
    return (
        f"More than a third of the cells, or of those off their limit, would be bad in {label_columns(left, names)}:"
        " rather the column is not what the model says than so many cells are bad, and all of them are left as they"
        " are."
    )
