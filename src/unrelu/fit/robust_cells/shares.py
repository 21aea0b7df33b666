"""How many cells are bad, bin by bin, and how many rows are outliers: EM while the densities stand.

A bin is believed where it earns its keep: a share of p_k gains sum log(1 + odds) - n p_k of log-likelihood over n rows,
and bins that gain less than ``LEAST_GAIN`` are taken for chance. What is left of them is so little that only a cell no
normal column ever has counts as bad: a clean table is learned as if nothing had been looked for.

Cells that are bad and at their floor are zeros that stand for a failure, not for a low value.
By itself a column hardly tells them from low values: with more zeros its mean is lower, and explains them. So the share
p_j of a column is asked together with its bias and norm, in the likelihood of its cells given the others of their rows,

    sum_i w_i log m_ij,     m = (1 - p_j - others) P(y_j <= floor | rest of row i) + p_j                  at the floor,

and one share for all columns. Near its top the log-likelihood of column j is t_j p - S_j p^2/2 once bias and norm have
followed (sums of scores and of their products; S_j is what p_j keeps of its information), so that

    p = sum t_j / sum S_j     gains     (sum t_j)^2 / (2 sum S_j),

and a column leaves the others where a share of its own gains much more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray
from unrelu.fit.robust_cells.law import LEAST_GAIN, MOST_BAD, Bins, CellLaw, Look
from unrelu.kernels.cell_shares import bin_posteriors, floor_scores
from unrelu.passes.tiles import seen_above
from unrelu.posterior.cells import Values
from unrelu.posterior.density import plain
from unrelu.validation import label_columns

_OPEN_ROUNDS, _ROUNDS, _TRIES, _ROW_ROUNDS = 10, 20, 3, 10
_SEED = 0.05  # bad cells of a column to start from
_HALF_A_CELL = 0.5  # less of each bin: a bin that explains no cell vanishes (Figueiredo and Jain 2002)
_LEFT = 1e-4  # cells, of a bin that is not believed
# Of cells at the floor
_START = 0.005  # of the cells, to begin with: at none at all, few cells would speak for all
_LEAST = 1e-4  # where scores are taken: at 0 one cell that cannot be genuine has no finite one
_STEPS = 4
_LEAST_OWN_GAIN = 10.0
_FARTHEST = 0.3  # norms that a bias moves in a step, and the log of a norm
_LITTLE = 1e-9
MOST_OF_A_COLUMN = 1.0 / 3.0  # that may be bad: beyond, the column is in doubt, not its cells


def updated(
    law: CellLaw,
    look: Look,
    values: Values,
    weights: FloatArray,
    bins: BoolArray,
    rows: bool = True,
    choosing: bool = True,
) -> CellLaw:
    """The law with the shares that fit what was seen in ``values``.

    ``bins`` in which cells may be bad, and whether ``rows`` may; ``choosing``: only bins and rows that earn their keep.
    """
    outliers, share, mass = _outlier_rows(law, look, weights, rows, choosing)
    weights, at_floor, allowed = weights * (1.0 - outliers), law.background.first_bins, bins.copy()
    if choosing:
        allowed[at_floor] = False
    bad = _bad_cells(law, look, weights, allowed, choosing)
    if choosing:
        floored = floor_shares(law, look, values, weights, bad, bins[at_floor])
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
    law: CellLaw, look: Look, weights: FloatArray, allowed: bool, choosing: bool
) -> tuple[FloatArray, float, FloatArray]:
    """(probability of every row to be an outlier, their share, masses of their cells)."""
    n, none = float(weights.sum()), np.zeros(len(weights))
    share = law.row_share
    if share <= 0.0 or not allowed:
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
    """
    return np.asarray((bad > MOST_OF_A_COLUMN * there).any(axis=0))


def left_columns(left: BoolArray, names: Sequence[str] | None) -> str:
    """One sentence on columns of which too much would be bad."""
    return (
        f"More than a third of the cells, or of those off their limit, would be bad in {label_columns(left, names)}:"
        " rather the column is not what the model says than so many cells are bad, and all of them are left as they"
        " are."
    )


# --- cells at the floor ----------------------------------------------------------------------------


def floor_shares(
    law: CellLaw, look: Look, values: Values, weights: FloatArray, others: FloatArray, open_columns: BoolArray
) -> FloatArray:
    """Of every column the share of its cells that are bad and at the floor, 0 unless in ``open_columns``.

    ``others``: shares of all bins, of which those of floors do not count.
    """
    at_floor = law.background.first_bins
    model = np.stack([law.normal.bias, np.where(law.normal.varying, law.normal.scale, 1.0)])
    asked = np.flatnonzero(open_columns & law.normal.varying & np.isfinite(law.floor))
    found = np.zeros(len(law.floor))
    if len(asked) == 0:
        return found
    shares = others.copy()
    shares[at_floor] = 0.0
    room = np.maximum(MOST_BAD - law.background.in_column(shares)[asked], 0.0)
    found[asked] = np.minimum(np.maximum(law.bad_share[at_floor[asked]], _START), room)
    for _ in range(_STEPS):
        found[asked] = np.maximum(found[asked], _LEAST)
        shares[at_floor] = found
        gradient, information = np.zeros((len(found), 3)), np.zeros((len(found), 3, 3))
        floor_scores(
            plain(values), seen_above(law.floor, values), look.bins, look.log_bin, look.predicted, weights,
            model, shares, 1.0 - law.background.in_column(shares), gradient, information,
        )  # fmt: skip
        gradient, information = gradient[asked], information[asked]
        both = information[:, :2, :2] + _LITTLE * np.eye(2)
        follow = np.linalg.solve(both, np.stack([information[:, :2, 2], gradient[:, :2]], axis=2))
        s = np.maximum(information[:, 2, 2] - np.einsum("jk,jk->j", information[:, 2, :2], follow[:, :, 0]), _LITTLE)
        t = gradient[:, 2] - np.einsum("jk,jk->j", information[:, 2, :2], follow[:, :, 1]) + s * found[asked]
        new = np.minimum(_together(s, t), room)
        step = follow[:, :, 1] - follow[:, :, 0] * (new - found[asked])[:, None]
        by_bias, by_norm = np.clip(step, -_FARTHEST, _FARTHEST).T
        model[:, asked] = model[0, asked] + model[1, asked] * by_bias, model[1, asked] * np.exp(by_norm)
        found[asked] = new
    return found


def _together(s: FloatArray, t: FloatArray) -> FloatArray:
    """One share for all columns, and for those that gain by it one of their own; t p - s p^2/2 is what p gains.

    What is little more than chance is drawn towards 0, and is 0 where it gains no more than ``LEAST_GAIN``.
    """
    own = np.zeros(len(s), dtype=np.bool_)
    while True:
        share = 0.0
        if not own.all():
            total, pull = float(s[~own].sum()), float(t[~own].sum())
            gained = 0.5 * pull**2 / total
            if pull > 0.0 and gained > LEAST_GAIN:
                share = pull / total * (1.0 - LEAST_GAIN / gained)
        alone = np.maximum(t / s, 0.0)
        gain = np.where(own, 0.0, 0.5 * s * ((share - t / s) ** 2 - (alone - t / s) ** 2))
        if gain.max() < _LEAST_OWN_GAIN:
            return np.where(own, alone, share)
        own[int(np.argmax(gain))] = True
