"""Bulusu et al. 2022's learners under each reading of the paper: one value a step, and two kinds of batches.

``python -m benchmarks papers``. `unrelu reproduce` draws the figures; this is the part of them that decides between the
readings, at n = 20,000, d = 5. Bias is the papers' b, the core's mean.
"""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.table import Claim
from unrelu.errors import UnreluWarning
from unrelu.papers.experiments import GD, GD_MEDIAN, GD_MEDIAN_BLOCK, SGD_ORACLE
from unrelu.papers.runner import draw, fit_errors
from unrelu.papers.study import Curve, Setting

RUNS = 50


def errors(curve: Curve, p: float) -> tuple[float, float]:
    """Mean errors of bias and weights."""
    found = []
    for run in range(RUNS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreluWarning)
            one = fit_errors(curve, draw(Setting(20_000, 5, inlier=p), (run,)))
        found.append((one["bias"], one["weights"]))
    bias, weights = np.mean(found, axis=0)
    return float(bias), float(weights)


def run() -> list[Claim]:
    claims = []
    for name, error in zip(("bias", "weights"), errors(SGD_ORACLE, 1.0), strict=True):
        what = f"oracle SGD of one value a step, error in {name}, p=1"
        claims.append(Claim(what, error, least=0.3, most=0.4, note=f"n=20,000, d=5; mean of {RUNS}"))
    for curve in (GD, GD_MEDIAN, GD_MEDIAN_BLOCK):
        for p in (0.8, 0.95, 1.0):
            bias, weights = errors(curve, p)
            claims.append(Claim(f"{curve.name}, error in bias, p={p:g}", bias, note=f"in weights {weights:.3f}"))
    return claims
