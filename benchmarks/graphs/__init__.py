"""Graphs: edges found behind a floor, beside rivals; outlier rows, skewed margins, coverage, seconds.

edges.py      chains, hubs, random and scale-free graphs: F1 of the edges, beside the same recipe on the unfloored rows
rivals.py     np.corrcoef with the same selection, and scikit-learn's GraphicalLassoCV, on the floored rows
hard.py       10 % outlier rows with method="robust"; lognormal margins with margins="monotone"
coverage.py   95 % intervals of partial correlations
speed.py      seconds and memory of a fit
tables.py     graphs, and tables of them
recipes.py    the methods compared

    python -m benchmarks.graphs [STUDY ...] [--seeds N]

Partial correlations of the edges are .25 to .45 in size, of either sign, made smaller where a graph with such does not
exist (hubs, scale-free): every table says how large they are. Floors hide a share of every column that is within .15 of
the one named. Figures of SPRING and cglasso are not measured here: they were measured once, on the same five tables as
unrelu's (d=20, n=500, 40 % floored; docs/graphs.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies import run_modules
from benchmarks.table import Claim

STUDIES = ("edges", "rivals", "hard", "coverage", "speed")


def run(chosen: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    return run_modules("graphs", STUDIES, chosen, most)
