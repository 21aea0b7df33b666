"""Single bad cells: the error of "robust_cells" over the oracle's, beside its rivals', and its cost.

    python -m benchmarks.cells                      everything; some 25 minutes on two cores
    python -m benchmarks.cells cells --seeds 2      fewer draws
    python -m benchmarks.cells cost                 n = 200,000, d = 50, beside one_pass: on an idle machine

The oracle is the one-pass fit with the bad cells missing (and without the outlier rows). Errors are the mean of the
mean and the weight error of :mod:`unrelu.metrics`, averaged over the draws.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cells.accuracy import measure
from benchmarks.cells.cost import cost
from benchmarks.studies import run_each
from benchmarks.table import Claim

STUDIES = {"cells": measure, "cost": cost}


def run(chosen: Sequence[str] = (), most: int = 2) -> list[Claim]:
    return run_each("cells", STUDIES, chosen, most)
