"""Sums over batches of the values above the floor, for the papers' gradient methods."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_batch_sums(
    values: np.ndarray,
    floor: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    rank: np.ndarray,
    total: np.ndarray,
    batches: np.ndarray,
    multiplier: np.ndarray,
    shift: np.ndarray,
    chosen: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[j, batch] += (1, t, t^2/2), t = (x - centre)/scale, for every x above the floor of column j.

    The k-th such value of a column, k = rank[j] (advanced here), goes to batch (place * batches) // total with
    place = (multiplier * k + shift) mod total: equal batches, in order of the rows for multiplier 1 and shift 0,
    scattered for a multiplier without common factor with the total. ``chosen`` (d x m, each row rising): the batches
    that are wanted, out[j, k] being that of chosen[j, k]; all of them where m is 0.
    """
    n, d = values.shape
    for i in range(n):
        for j in range(d):
            x = values[i, j]
            if x > floor[j]:
                place = (multiplier[j] * rank[j] + shift[j]) % total[j]
                rank[j] += 1
                batch = (place * batches[j]) // total[j]
                if chosen.shape[1] > 0:
                    wanted = batch
                    batch = np.searchsorted(chosen[j], wanted)
                    if batch == chosen.shape[1] or chosen[j, batch] != wanted:
                        continue
                t = (x - centre[j]) / scale[j]
                out[j, batch, 0] += 1.0
                out[j, batch, 1] += t
                out[j, batch, 2] += 0.5 * t * t
