"""95 % intervals of partial correlations, without a penalty: how often they hold the truth."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.graphs.tables import KINDS, Cell, table
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu import RectifiedGaussianGraph
from unrelu.errors import UnreluWarning

TABLES = 25
LEAST, MOST = 0.93, 0.97


def run(most: int = 10**9) -> list[Claim]:
    rows, claims, every = [], [], []
    upper = np.triu_indices(10, 1)
    for cell in [Cell(kind, 10, 2000, floored) for floored in (0.3, 0.6) for kind in KINDS]:
        inside, ratio, wrong = [], [], []
        for seed in range(min(TABLES, most)):
            t = table(cell, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnreluWarning)
                graph = RectifiedGaussianGraph("fdr").fit(t.floored)
            low, high = graph.confidence_intervals()["partial_correlation"][upper].T
            truth = t.partial[upper]
            inside.append((low < truth) & (truth < high))
            ratio.append((graph.partial_correlation_ - t.partial)[upper] / graph.partial_correlation_stderr_[upper])
            found = graph.adjacency_[upper]
            wrong.append(np.sum(found & ~t.edges[upper]) / max(np.sum(found), 1))
        every += inside
        rows.append([str(cell), f"{np.mean(inside):.3f}", f"{np.mean(np.square(ratio)):.2f}", f"{np.mean(wrong):.3f}"])
    claims.append(Claim("coverage of 95% intervals, d=10, n=2,000", float(np.mean(every)), least=LEAST, most=MOST))
    show("Partial correlations without a penalty", ["", "coverage", "mean squared z", "false discoveries"], rows)
    return print_claims(*claims)
