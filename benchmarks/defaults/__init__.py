"""The default call, no options, on twelve kinds of table: beside its own options and beside what others do.

kinds.py      the tables: values before they are hidden, what the user gets, which cells are genuine
answers.py    correlations, means and filled cells as the default, its own options and its rivals give them
matrix.py     errors over the best of its own options and over its rivals'; was it off, was it said; absurd values
intervals.py  90 % intervals of filled cells
rubin.py      95 % intervals of completed tables, pooled by Rubin's rules
seconds.py    what the default takes

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
