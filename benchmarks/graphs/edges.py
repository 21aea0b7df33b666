"""F1 of the edges in every cell, beside the same recipe on the unfloored rows.

"As many unfloored rows" are the first of them, as many as estimate the correlations as well as all floored ones do
(``graph_.effective_rows``): the rest of the difference to all unfloored rows is information that the floor hides.
"""

from __future__ import annotations

import numpy as np

import unrelu
from benchmarks.graphs.recipes import default, plain_correlations
from benchmarks.graphs.tables import KINDS, Cell, f1, table
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.graph.learning import rows_that_would_do

TABLES = 10
MAIN = [Cell(kind, 20, 500, 0.4) for kind in KINDS]
GRID = [Cell(k, d, n, floored) for floored in (0.3, 0.6) for d in (20, 60) for n in (300, 500, 2000) for k in KINDS]
LEAST, BEHIND = 0.96, 0.02


def run(most: int = 10**9) -> list[Claim]:
    rows, claims, main = [], [], []
    for cell in [*MAIN, *GRID]:
        found = {"floored": [], "unfloored": [], "as many": [], "strength": [], "rows": []}  # type: ignore[var-annotated]
        for seed in range(min(TABLES, most)):
            t = table(cell, seed)
            enough = effective_rows(t.floored)
            found["floored"].append(f1(default(t.floored), t.edges))
            found["unfloored"].append(f1(plain_correlations(t.latent), t.edges))
            found["as many"].append(f1(plain_correlations(t.latent[: round(enough)]), t.edges))
            found["strength"].append(t.strength)
            found["rows"].append(enough)
        mean = {name: float(np.mean(values)) for name, values in found.items()}
        behind = mean["unfloored"] - mean["floored"]
        rows.append(
            [
                str(cell),
                f"{mean['strength']:.2f}",
                f"{mean['floored']:.3f}",
                f"{mean['unfloored']:.3f}",
                f"{mean['rows']:.0f}",
                f"{mean['as many']:.3f}",
            ]
        )
        if cell in MAIN:
            main.append(mean["floored"])
        noise = float(np.std(np.subtract(found["unfloored"], found["floored"]), ddof=1) / np.sqrt(len(found["rows"])))
        information = mean["unfloored"] - mean["as many"]
        note = f"standard error {noise:.3f}; {information:.3f} of it is hidden by the floor"
        claims.append(Claim(f"F1 behind the unfloored rows', {cell}", behind, most=BEHIND, note=note))
    header = ["", "partial", "F1", "unfloored rows", "effective rows", "as many unfloored rows"]
    show(f"Edges found, {min(TABLES, most)} tables each", header, rows)
    claims.insert(0, Claim("F1, d=20, n=500, 40% floored, mean of four kinds", float(np.mean(main)), least=LEAST))
    return print_claims(*claims)


def effective_rows(X: np.ndarray) -> float:
    import warnings

    from unrelu.contracts import PairCorrelations
    from unrelu.errors import UnreluWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        learner = unrelu.RectifiedGaussianLearner("one_pass", margins="normal").fit(X)
    return rows_that_would_do(PairCorrelations(learner.correlation_, learner.correlation_stderr_), len(X))[0]
