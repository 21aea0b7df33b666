"""Are cells taken for bad ones, or only the tails of a table that is heavier than a normal one?

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

from unrelu.contracts import FloatArray
from unrelu.fit.robust_cells.law import CellLaw, Judged, Look
from unrelu.passes.tiles import seen_above
from unrelu.posterior.row_scores import Values

_LEAST_CORRELATION, _LEAST_DOUBT = 0.25, 0.15
_SURE = 4.0  # standard errors of the correlation
_FARTHEST = 10.0  # standard units: one cell farther out must not speak for all


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
