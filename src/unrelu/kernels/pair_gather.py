"""From the sums of a record to the twelve sample statistics of a batch of pairs."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def gather_statistics(
    pairs: tuple[np.ndarray, np.ndarray],
    centre: np.ndarray,
    scale: np.ndarray,
    sums: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    observed: tuple[np.ndarray, np.ndarray, np.ndarray],
    weight: np.ndarray,
    statistics: np.ndarray,
) -> None:
    """Means of (p, v, v^2) of each column and of the six joint products, v = (t - centre)/scale above the floor.

    ``pairs`` are the first and second columns, ``sums`` the record's (count, cross, masked_sum, masked_square).
    ``centre`` is measured from the record's origin; ``weight`` is that of the rows that see the pair. ``observed`` =
    (above, total, square) holds the sums of column i over the rows that see column j, and is empty where nothing is
    missing: they are the diagonals of the other matrices then.
    """
    count, cross, masked_sum, masked_square = sums
    above, total, square = observed
    complete = above.shape[0] == 0
    for pair in range(weight.shape[0]):
        i = pairs[0][pair]
        j = pairs[1][pair]
        n = weight[pair]
        out = statistics[pair]
        if n <= 0.0:
            out[:] = 0.0
            continue
        for side in range(2):
            own = i if side == 0 else j
            other = j if side == 0 else i
            if complete:
                s0 = count[own, own]
                s1 = masked_sum[own, own]
                s2 = masked_square[own, own]
            else:
                s0 = above[own, other]
                s1 = total[own, other]
                s2 = square[own, other]
            c = centre[own]
            s = scale[own]
            out[3 * side] = s0 / n
            out[3 * side + 1] = (s1 - c * s0) / (s * n)
            out[3 * side + 2] = (s2 - 2.0 * c * s1 + c * c * s0) / (s * s * n)
            s0 = count[i, j]
            s1 = masked_sum[own, other]
            s2 = masked_square[own, other]
            out[8 + side] = (s1 - c * s0) / (s * n)
            out[10 + side] = (s2 - 2.0 * c * s1 + c * c * s0) / (s * s * n)
        out[6] = count[i, j] / n
        product = (
            cross[i, j]
            - centre[i] * masked_sum[j, i]
            - centre[j] * masked_sum[i, j]
            + centre[i] * centre[j] * count[i, j]
        )
        out[7] = product / (scale[i] * scale[j] * n)
