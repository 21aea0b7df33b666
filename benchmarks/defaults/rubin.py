"""Completed tables pooled by Rubin's rules: do 95 % intervals of a mean, a slope and a correlation cover 95 %?

Normal tables, as the default call draws them; Barnard and Rubin's degrees of freedom; correlations by Fisher's z.
"""

from __future__ import annotations

import warnings

import numpy as np

import unrelu
from benchmarks.defaults.kinds import NAMED, R, draw
from benchmarks.defaults.matrix import QUICK
from benchmarks.rubin import pool
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

ROWS, DRAWS, TABLES, FEW = 100, 20, 600, 150
FLOORED = (0.6, 0.8)
ESTIMANDS = ("mean", "slope", "correlation")
LEAST, MOST = 93.0, 97.0


def answers(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean of y, slope of y on x, Fisher's z of their correlation: (estimates, variances) of one complete table."""
    n, r = len(x), np.corrcoef(x, y)[0, 1]
    slope = r * y.std() / x.std()
    left = np.sum((y - y.mean() - slope * (x - x.mean())) ** 2) / (n - 2)
    variances = [y.var(ddof=1) / n, left / np.sum((x - x.mean()) ** 2), 1.0 / (n - 3)]
    return np.array([y.mean(), slope, np.arctanh(r)]), np.array(variances)


def covers(share: float, seed: int) -> FloatArray:
    table = draw(NAMED["normal"], ROWS, share, seed)
    truth = np.array([table.mean[1], R, np.arctanh(R)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        several = unrelu.FloorImputer(**table.options).fit(table.x).draw(table.x, DRAWS, random_state=seed)
    found = [answers(each[:, 0], each[:, 1]) for each in several]
    centre, reach = pool(np.array([a for a, _ in found]), np.array([b for _, b in found]), ROWS - 2)
    return np.abs(centre - truth) <= reach


def run(most: int) -> list[Claim]:
    tables = FEW if most <= QUICK else TABLES
    rows, claims = [], []
    for share in FLOORED:
        found = 100.0 * np.mean([covers(share, seed) for seed in range(tables)], axis=0)
        rows.append([f"{share:.0%} floored", *(f"{each:.1f}" for each in found)])
        note = f"{tables} tables, standard error {100.0 * np.sqrt(0.05 * 0.95 / tables):.1f}"
        for name, each in zip(ESTIMANDS, found, strict=True):
            claims.append(Claim(f"Rubin's rules, {share:.0%} floored, {name}", float(each), MOST, LEAST, note))
    show(f"Coverage (%) of 95 % intervals, {DRAWS} draws, n = {ROWS}", ["", *ESTIMANDS], rows)
    return print_claims(*claims)
