"""Alternatives of a user on the same floored rows: F1 of the edges where 40 % and more are floored."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.graphs.edges import GRID, MAIN
from benchmarks.graphs.recipes import default, graphical_lasso_cv, plain_correlations, stars
from benchmarks.graphs.tables import f1, table
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

TABLES = 10
WAYS = {"unrelu": default, "corrcoef": plain_correlations, "GraphicalLassoCV": graphical_lasso_cv, "stars": stars}


def run(most: int = 10**9) -> list[Claim]:
    rows, claims = [], []
    for cell in [*MAIN, *(cell for cell in GRID if cell.floored >= 0.4)]:
        found: dict[str, list[float]] = {name: [] for name in WAYS}
        seconds = dict.fromkeys(WAYS, 0.0)
        for seed in range(min(TABLES, most)):
            t = table(cell, seed)
            for name, way in WAYS.items():
                start = time.process_time()
                found[name].append(f1(way(t.floored), t.edges))
                seconds[name] += time.process_time() - start
        mean = {name: float(np.mean(values)) for name, values in found.items()}
        cost = [f"{seconds[name] / len(found[name]):.2f}" for name in WAYS]
        rows.append([str(cell), *(f"{mean[name]:.3f}" for name in WAYS), " ".join(cost)])
        for name in ("corrcoef", "GraphicalLassoCV"):
            claims.append(Claim(f"F1 ahead of {name}, {cell}", mean["unrelu"] - mean[name], least=0.0))
    header = ["", "unrelu", "np.corrcoef, same selection", "GraphicalLassoCV", "unrelu, stars", "CPU s of each"]
    show(f"Edges found on floored rows, {min(TABLES, most)} tables each, beside rivals", header, rows)
    return print_claims(*claims)
