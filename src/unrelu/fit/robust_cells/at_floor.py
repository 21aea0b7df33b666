"""How many cells are bad and at their floor: zeros that stand for a failure, not for a low value.

By itself a column hardly tells them from low values: with more zeros its mean is lower, and explains them. So the share
p_j of a column is asked together with its bias and norm, in the likelihood of its cells given the others of their rows,

    sum_i w_i log m_ij,     m = (1 - p_j - others) P(y_j <= floor | rest of row i) + p_j                  at the floor,

and one share for all columns. Near its top the log-likelihood of column j is t_j p - S_j p^2/2 once bias and norm have
followed (sums of scores and of their products; S_j is what p_j keeps of its information), so that

    p = sum t_j / sum S_j     gains     (sum t_j)^2 / (2 sum S_j),

and a column leaves the others where a share of its own gains much more.
"""

from __future__ import annotations

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.fit.robust_cells.law import LEAST_GAIN, MOST_BAD, CellLaw, Look
from unrelu.kernels.cell_shares import floor_scores
from unrelu.passes.tiles import seen_above
from unrelu.posterior.row_scores import Values, plain

_START = 0.005  # of the cells, to begin with: at none at all, few cells would speak for all
_LEAST = 1e-4  # where scores are taken: at 0 one cell that cannot be genuine has no finite one
_STEPS = 4
_LEAST_OWN_GAIN = 10.0
_FARTHEST = 0.3  # norms that a bias moves in a step, and the log of a norm
_LITTLE = 1e-9


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

    >>> _together(np.full(4, 1e6), np.array([50_000.0, 51_000.0, 49_000.0, 400_000.0])).round(3)
    array([0.05, 0.05, 0.05, 0.4 ])
    >>> _together(np.full(4, 1e4), np.array([300.0, 310.0, 290.0, 310.0])).round(3)  # 18 nats: of .03 there stay .024
    array([0.024, 0.024, 0.024, 0.024])
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
