"""One step from the maximum as expectation propagation has it towards that of the corrected likelihood.

Moments of expectation propagation are slightly off where few cut-off cells are strongly correlated: at correlations of
.9 the maximum is .7 standard errors off. The leading correction kappa of a row's log density (:mod:`hidden_cells
<unrelu.kernels.hidden_cells>`) mends densities; its derivative comes from differences. With A the information,

    theta = A^-1 sum dkappa/dtheta

is where the corrected likelihood has its maximum, to first order in the correction. The step is taken as far as the
corrected likelihood rises by it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import solve

from unrelu.contracts import Evidence, FloatArray
from unrelu.fit.likelihood.cells import Cells
from unrelu.fit.likelihood.climbing import Climbed, Prior
from unrelu.fit.likelihood.curvature import Curvature, curvature, is_small
from unrelu.fit.likelihood.scores import ScoreQuestion

_RIDGE = 0.003  # of complete rows, for what rows leave open
_LONGEST = 0.25  # change of a coordinate: a longer step says that first order is not enough
_LENGTHS, _ENOUGH = (1.0, 0.5, 0.25), 0.25  # of the step, and the share of the slope's promise that it must keep


def corrected(
    evidence: Evidence, cells: Cells, climbed: Climbed, prior: Prior, rows: tuple[float, float]
) -> tuple[Climbed, FloatArray, Curvature | None]:
    """(the same climb a step further, with the corrected log-likelihood; the step; how the likelihood bends)."""
    law, stay = climbed.law, np.zeros(climbed.law.n_coordinates)
    small = is_small(law, rows)
    record = evidence.collect(ScoreQuestion(cells, law, outer=small, corrected=True), remember=False)
    here = replace(climbed, log_likelihood=record.log_likelihood)
    if record.outer is None:
        return here, stay, None
    around = curvature(evidence, cells, law, prior, rows, record.outer)
    if not around.slope.any():
        return here, stay, around
    metric = around.outer + np.diag(_RIDGE * rows[0] * law.complete_metric())
    step = solve(metric, around.slope, assume_a="pos")
    step *= min(1.0, _LONGEST / float(np.max(np.abs(step))))
    for length in _LENGTHS:
        moved = law.moved(length * step)[0]
        level = evidence.collect(ScoreQuestion(cells, moved, corrected=True), remember=False).log_likelihood
        gain = level + prior.level(moved) - record.log_likelihood - prior.level(law)
        if gain > _ENOUGH * length * float(around.slope @ step):
            return replace(climbed, law=moved, log_likelihood=level), length * step, around
    return here, stay, around
