"""Seconds of a whole fit, stability and standard errors included. For an idle machine; CPU seconds stand beside."""

from __future__ import annotations

import time
import warnings

from benchmarks.graphs.tables import Cell, f1, table
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu import RectifiedGaussianGraph
from unrelu.errors import UnreluWarning

SIZES = ((Cell("random", 20, 500, 0.4), 0.5), (Cell("random", 200, 2000, 0.4), 60.0))


def run(most: int = 10**9) -> list[Claim]:  # noqa: ARG001 - one table of each size
    rows, claims = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        for selection in ("auto", "ebic", "stars", "fdr"):
            RectifiedGaussianGraph(selection).fit(table(SIZES[0][0], 1).floored)  # compiles
            for cell, seconds in SIZES:
                t = table(cell, 0)
                start, used = time.perf_counter(), time.process_time()
                graph = RectifiedGaussianGraph(selection).fit(t.floored)
                took, used = time.perf_counter() - start, time.process_time() - used
                rows.append(
                    [str(cell), selection, f"{took:.2f}", f"{used:.2f}", f"{f1(graph.adjacency_, t.edges):.3f}"]
                )
                bound = seconds if selection == "auto" else None
                claims.append(Claim(f"seconds, {selection}, {cell}", took, most=bound, note=f"CPU {used:.2f} s"))
    show("Seconds of a fit", ["", "selection", "seconds", "CPU seconds", "F1"], rows)
    return print_claims(*claims)
