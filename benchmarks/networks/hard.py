"""Outlier rows with method="robust", and lognormal margins with shape="free": F1 beside that of the clean table."""

from __future__ import annotations

import numpy as np

from benchmarks.networks.recipes import default, plain_correlations
from benchmarks.networks.tables import KINDS, Cell, f1, table
from benchmarks.studies import show, told
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

TABLES, OUTLIERS, BEHIND = 10, 0.1, 0.02
CELLS = [Cell(kind, 20, n, 0.4) for n in (500, 2000) for kind in KINDS]


def run(most: int = 10**9) -> list[Claim]:
    rows, claims = [], []
    for cell in CELLS:
        found: dict[str, list[float]] = {}
        for seed in range(min(TABLES, most)):
            t = table(cell, seed)
            dirty, bent = with_outliers(t.floored, seed), np.expm1(t.floored)
            for name, graph in {
                "clean": default(t.floored),
                "robust": default(dirty, method="robust"),
                "not robust": default(dirty),
                "corrcoef of outliers": plain_correlations(dirty),
                "free": default(bent, shape="free"),
                "not free": default(bent),
                "corrcoef of lognormals": plain_correlations(bent),
            }.items():
                found.setdefault(name, []).append(f1(graph, t.edges))
        mean = {name: float(np.mean(values)) for name, values in found.items()}
        rows.append([str(cell), *(f"{value:.3f}" for value in mean.values())])
        for name, words in (("robust", "10% outlier rows, robust"), ("free", "lognormal margins, free")):
            lost = np.subtract(found["clean"], found[name])
            note = f"standard error {np.std(lost, ddof=1) / np.sqrt(len(lost)):.3f}" if len(lost) > 1 else ""
            claims.append(
                Claim(f"F1 behind the clean table's, {words}, {cell}", float(lost.mean()), most=BEHIND, note=note)
            )
    header = ["", "clean", "outliers: robust", "one_pass", "np.corrcoef", "lognormal: free", "normal", "np.corrcoef"]
    show(f"Hard tables, {min(TABLES, most)} each", header, rows)
    return told(*claims)


def with_outliers(X: FloatArray, seed: int) -> FloatArray:
    """A tenth of the rows from elsewhere: all columns high together, by a factor of their own."""
    rng = np.random.default_rng([seed, 99])
    dirty = X.copy()
    at = rng.choice(len(X), round(OUTLIERS * len(X)), replace=False)
    dirty[at] = rng.exponential(4.0, (len(at), 1)) * rng.uniform(0.5, 1.5, (len(at), X.shape[1]))
    return dirty
