"""The number of factors: the one under which rows that were held out are most likely."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unrelu.contracts import Evidence, Step, Watch, unwatched
from unrelu.fit.likelihood.cells import Fold
from unrelu.fit.likelihood.climbing import climb
from unrelu.fit.likelihood.scores import Law, ScoreQuestion
from unrelu.fit.likelihood.starts import Start

CHOOSING = "Choosing the number of factors"
_FOLDS = 3
_TO_GAIN = 1e-3  # a parameter: little beside what a factor too many costs, half a unit each
_PATIENCE = 2  # numbers of factors in a row that are worse than the best


def choose_components(evidence: Evidence, start: Start, rows: tuple[float, float], watch: Watch = unwatched) -> int:
    """The best number of factors, from one up to where the held-out likelihood falls."""
    most = max(1, len(start.correlation) // 2)
    best, best_level = 1, -np.inf
    for k in range(1, most + 1):
        law, level = start.law(k), 0.0
        for index in range(_FOLDS):
            law, held_out = _held_out(evidence, start, law, Fold(index, _FOLDS, True), rows)
            level += held_out
        watch(Step(CHOOSING, k, most, f"{k} factors: held-out log-likelihood {level:,.1f}"))
        if level > best_level:
            best, best_level = k, level
        elif k - best >= _PATIENCE:
            break
    return best


def _held_out(evidence: Evidence, start: Start, law: Law, fold: Fold, rows: tuple[float, float]) -> tuple[Law, float]:
    """(the factors of all other folds, from ``law`` on, log-likelihood of this one under them)."""
    kept = 1.0 - 1.0 / _FOLDS
    weight, effective = kept * rows[0], kept * rows[1]
    others = replace(start.cells, rows=replace(fold, held_out=False))
    law = climb(evidence, others, law, start.prior(weight), (weight, effective), to_gain=_TO_GAIN).law
    held = ScoreQuestion(replace(start.cells, rows=fold), law)
    return law, evidence.collect(held, remember=False).log_likelihood
