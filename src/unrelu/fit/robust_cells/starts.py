"""Where to start: middle and spread of every column from two quantiles, which a tenth of bad cells hardly moves.

Of a column in two parts, far from each other, from quantiles of the larger one.

At the end, too: are cells taken for bad ones, or only the tails of a table that is heavier than a normal one?

A bad cell knows nothing of its row, or stands clearly apart from what the row says. The far cells of heavy tails do
neither: they lie where the row says, only farther out, and where they begin nobody can tell. So two numbers, over the
cells above their floor with the weights 1 - w of being bad, u their values in standard units and m what the rest of
the row predicts:

    r = corr(u, m),          doubt = sum w (1 - w) / sum (1 - w).

Of cells replaced by N(0, 9), shifted by 6 and 4, or of other rows, r is -.1 to .2 or doubt below .12; of t
distributions with 3 and 5 degrees of freedom r is .3 to .8 and doubt .16 to .36 (docs/research/034).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from unrelu.contracts import BoolArray, FloatArray
from unrelu.fit.robust_cells.law import CellLaw, Judged, Look
from unrelu.fit.robust_rows.table import middle_and_spread, spreads
from unrelu.passes.tiles import seen_above
from unrelu.posterior.cells import Values

_LOW, _HIGH = 0.25, 0.75  # quantiles, where both are above the floor
_ABOVE = 0.02  # the lower one is so much above the share at the floor
_PART = 0.45  # of what is above the lower one lies below the higher one, in a column that is mostly floored
_NEAR = 3.0
_PART_OF_TWO = 0.2
# Of heavy tails
_LEAST_CORRELATION, _LEAST_DOUBT = 0.25, 0.15
_SURE = 4.0  # standard errors of the correlation
_FARTHEST = 10.0  # standard units: one cell farther out must not speak for all


def column_starts(values: Values, floor: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """(middle, spread, whether cells can be judged by the column), one each per column."""
    d = values.shape[1]
    middle, spread, judged = np.empty(d), np.ones(d), np.zeros(d, dtype=np.bool_)
    for j in range(d):
        x = values[:, j].astype(np.float64)
        x = np.maximum(x[~np.isnan(x)], floor[j])
        middle[j] = float(np.median(x)) if len(x) else 0.0
        if len(x) and spreads(x, floor[j]):
            found = _by_quantiles(_main_part(x, floor[j]), floor[j])
            if not found[1] > 0.0:
                found = middle_and_spread(x, floor[j])
            middle[j], spread[j] = found
            judged[j] = True
    return middle, spread, judged


def _by_quantiles(x: FloatArray, floor: float) -> tuple[float, float]:
    """Of the normal with two quantiles of what is seen: x_q = middle + spread z_q."""
    low = max(float(np.mean(x <= floor)) + _ABOVE, _LOW)
    if low > 0.95:
        return 0.0, 0.0
    high = max(_HIGH, low + _PART * (1.0 - low))
    at = np.quantile(x, [low, high])
    z = ndtri([low, high])
    spread = float((at[1] - at[0]) / (z[1] - z[0]))
    return float(at[0] - spread * z[0]), spread


def _main_part(x: FloatArray, floor: float) -> FloatArray:
    """The larger part of a column in two, each of a fifth of the values at least, with a gap between them that is wider
    than the larger one: quantiles of both together would be those of neither.

    >>> len(_main_part(np.concatenate([np.linspace(-1, 1, 55), np.linspace(39, 41, 45)]), -9.0))
    55
    """
    ordered = np.sort(x)
    fewest = int(_PART_OF_TWO * len(x))
    gaps = np.diff(ordered)[fewest : len(x) - fewest]
    if fewest == 0 or len(gaps) == 0:
        return x
    widest = int(np.argmax(gaps))
    end = fewest + widest + 1
    main = ordered[:end] if 2 * end >= len(x) else ordered[end:]
    low, high = np.quantile(main, [0.05, 0.95])
    apart = ordered[end - 1] > floor and 0.0 < high - low < gaps[widest]  # zeros below a gap are a matter of the floor
    return main if apart else x


def near_middle(values: Values, middle: FloatArray, spread: FloatArray, judged: BoolArray) -> FloatArray:
    """Weights of cells to begin with: 1 within three spreads of the middle, 0 beyond and where missing."""
    near = np.abs(values - middle) <= _NEAR * spread
    return np.where(np.isnan(values), 0.0, near | ~judged)


def tails_for_bad(law: CellLaw, values: Values, look: Look, judged: Judged, weights: FloatArray) -> bool:
    """Whether cells that are taken for bad follow their rows as those of heavy tails do."""
    scale = np.where(law.normal.varying, law.normal.scale, 1.0)
    counted = (values > seen_above(law.floor, values)) & law.normal.varying
    bad = np.where(counted, (1.0 - judged.genuine) * weights[:, None], 0.0)
    total = float(bad.sum())
    if total < _SURE**2:
        return False
    doubt = float(np.sum(bad * judged.genuine)) / total
    u = np.clip(np.where(counted, (values - law.normal.bias) / scale, 0.0), -_FARTHEST, _FARTHEST)
    m = np.clip(look.predicted[0], -_FARTHEST, _FARTHEST)
    u, m = u - np.sum(bad * u) / total, m - np.sum(bad * m) / total
    of_both = math.sqrt(float(np.sum(bad * u * u)) * float(np.sum(bad * m * m)))
    r = float(np.sum(bad * u * m)) / of_both if of_both > 0.0 else 0.0
    return doubt > _LEAST_DOUBT and r > max(_LEAST_CORRELATION, _SURE / math.sqrt(total))
