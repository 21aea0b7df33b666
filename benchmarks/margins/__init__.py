"""Columns that are not normal: accuracy and cost of learned margins, and tables drawn from them.

correlations.py  correlations under unknown margins, beside an oracle with the true ones and beside rivals
price.py         margins="auto" on tables that are normal
contaminated.py  the robust method on lognormal tables with outliers
costs.py         time of a fit with margins over that of a fit with normal ones
synthetic.py     synthetic tables beside those of Copulas, on two files of real data
tables.py        the margins, and tables with them

Copulas (it needs a pandas below 3) and latentcor (its fast method needs a SciPy of before 1.10) run in environments of
their own: UNRELU_COPULAS and UNRELU_LATENTCOR name a Python that has them. Without, they are left out.

    python -m benchmarks.margins [STUDY ...] [--seeds N]
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.studies import run_modules
from benchmarks.table import Claim

STUDIES = ("correlations", "price", "contaminated", "costs", "synthetic")


def run(chosen: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    return run_modules("margins", STUDIES, chosen, most)
