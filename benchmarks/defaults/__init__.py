"""The default call, no options, on twelve kinds of table: beside its own options and beside other tools.

kinds.py      the tables: values before they are hidden, the user's table, and its inlier cells
answers.py    correlations, means and filled cells as the default, its own options and its rivals give them
matrix.py     errors over the best of its own options and over its rivals'; wrong answers, warnings, absurd values
intervals.py  90 % intervals of filled cells
rubin.py      95 % intervals of completed tables, pooled by Rubin's rules
seconds.py    time of the default

    python -m benchmarks.defaults                   everything; some 25 minutes on one core
    python -m benchmarks.defaults matrix --quick    half of the cells hidden only, few tables a place: two minutes
    python -m benchmarks.defaults | tee matrix.txt  for docs/benchmarks.md
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.defaults import intervals, matrix, rubin, seconds
from benchmarks.studies import run_each
from benchmarks.table import Claim

STUDIES = {"matrix": matrix.run, "intervals": intervals.run, "rubin": rubin.run, "time": seconds.run}


def run(chosen: Sequence[str] = (), most: int = matrix.QUICK) -> list[Claim]:
    return run_each("defaults", STUDIES, chosen, most)
