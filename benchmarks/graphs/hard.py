"""Outlier rows with method="robust", and lognormal margins with margins="monotone": F1 beside that of the clean table.

A tenth of the rows are outliers: N(5, 1) in every cell, as in Bulusu et al. 2022; N(1, 16) cut off at 0; or rows with
all columns high together, many of which lie among the inlier rows. No bound is promised for the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from benchmarks.graphs.recipes import default, plain_correlations
from benchmarks.graphs.tables import KINDS, Cell, f1, table
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import FloatArray
from unrelu.synthetic import contaminate

TABLES, SHARE, BEHIND, WIDTH = 10, 0.1, 0.02, 20
CELLS = [Cell(kind, WIDTH, n, 0.4) for n in (500, 2000) for kind in KINDS]


def run(most: int = 10**9) -> list[Claim]:
    rows, claims = [], []
    for cell in CELLS:
        found: dict[str, list[float]] = {}
        for seed in range(min(TABLES, most)):
            t = table(cell, seed)
            bent = np.expm1(t.floored)
            graphs = {"clean": default(t.floored)}
            for kind in OUTLIERS:
                dirty = with_outliers(t.floored, kind, seed)
                graphs |= {kind: default(dirty, method="robust"), f"corrcoef, {kind}": plain_correlations(dirty)}
            graphs |= {"lognormal": default(bent, margins="monotone"), "corrcoef, lognormal": plain_correlations(bent)}
            for name, graph in graphs.items():
                found.setdefault(name, []).append(f1(graph, t.edges))
        rows.append([str(cell), *(f"{np.mean(values):.3f}" for values in found.values())])
        for name in (*OUTLIERS, "lognormal"):
            lost = np.subtract(found["clean"], found[name])
            note = f"standard error {np.std(lost, ddof=1) / np.sqrt(len(lost)):.3f}" if len(lost) > 1 else ""
            bound = None if name == "overlapping" else BEHIND
            claims.append(Claim(f"F1 behind the clean table's, {name}, {cell}", float(lost.mean()), bound, note=note))
        header = ["", *found]
    show(f"Hard tables, {min(TABLES, most)} each: robust with outliers, monotone margins with lognormals", header, rows)
    return print_claims(*claims)


def with_outliers(X: FloatArray, kind: str, seed: int) -> FloatArray:
    """A tenth of the rows from elsewhere."""
    return contaminate(X, SHARE, OUTLIERS[kind], random_state=seed, fixed=True)[0]


def _overlapping(n: int, rng: np.random.Generator) -> FloatArray:
    """All columns high together, by a factor of the row: many are no more outlying than inlier rows."""
    return np.asarray(rng.exponential(4.0, (n, 1)) * rng.uniform(0.5, 1.5, (n, WIDTH)))


OUTLIERS: dict[str, Any] = {
    "N(5, 1) rows": stats.norm(5.0, 1.0),
    "scattered rows": lambda n, rng: np.maximum(rng.normal(1.0, 4.0, (n, WIDTH)), 0.0),
    "overlapping": _overlapping,
}
