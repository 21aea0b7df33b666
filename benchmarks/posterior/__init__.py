"""Behind the floor: densities, draws, imputed cells and full likelihood, beside slow references and rivals.

densities.py    log_prob against exact integrals and quasi-Monte-Carlo; far tails
draws.py        draws against rejection sampling; posterior means and intervals
imputation.py   a lognormal table with limits: imputed cells beside the optimum and rivals, and completed tables
speed.py        seconds for 100,000 rows
learning.py     full_likelihood against one pass and the Cramer-Rao bound
tables.py       the lognormal tables, with limits and outlier rows
rivals.py       values that other tools put into floored cells

    python -m benchmarks.posterior [STUDY ...] [--seeds N]
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from benchmarks.studies import run_modules
from benchmarks.table import Claim

STUDIES = tuple(
    name
    for name in ("densities", "draws", "imputation", "speed", "learning")
    if find_spec(f"benchmarks.posterior.{name}") is not None
)


def run(chosen: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    return run_modules("posterior", STUDIES, chosen, most)
