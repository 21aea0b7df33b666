"""Do 90 % intervals of filled cells cover 90 %? On tables of the model with margins learned by default, and on others.

Coverage is of all hidden cells of all tables of a place. Where columns do not follow the model (t5, quadratic), it need
not be right, but there must be a warning where it is not.
"""

from __future__ import annotations

import warnings

import numpy as np

import unrelu
from benchmarks.defaults.kinds import NAMED, SHARES, draw
from benchmarks.defaults.matrix import QUICK, WARNED, Place
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.errors import UnreluError, UnreluWarning

TABLES = {200: 60, 2000: 10}
LEAST, MOST = 87.0, 93.0
MODEL, OTHERS = ("normal", "lognormal"), ("t5", "quadratic")


def count_covered(place: Place, seed: int) -> tuple[int, int, bool]:
    """(hidden cells within their interval, hidden cells, whether there was a warning)."""
    table = draw(place.kind, place.n, place.share, seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            imputer = unrelu.FloorImputer(**table.options).fit(table.x)
            low, high = imputer.quantile(table.x, 0.05), imputer.quantile(table.x, 0.95)
        except UnreluError:
            return 0, int(table.scored.sum()), True
    inside = ((table.behind >= low) & (table.behind <= high))[table.scored]
    warned = any(issubclass(each.category, UnreluWarning) for each in caught) or bool(imputer.report_.diagnostics)
    return int(inside.sum()), inside.size, warned


def run(most: int) -> list[Claim]:
    rows, claims = [], []
    wrong: list[bool] = []
    for name in (*MODEL, *OTHERS):
        for n, tables in TABLES.items():
            for share in SHARES:
                place = Place(NAMED[name], n, share)
                few = tables if most > QUICK else tables // 4
                found = np.array([count_covered(place, seed) for seed in range(min(few, most))])
                coverage, warned = 100.0 * found[:, 0].sum() / found[:, 1].sum(), found[:, 2].mean()
                rows.append([place.name, f"{coverage:.1f}", f"{warned:.0%}"])
                if name in MODEL:
                    note = f"{len(found)} tables"
                    claims.append(Claim(f"90 % intervals of filled cells, {place.name}", coverage, MOST, LEAST, note))
                elif not LEAST <= coverage <= MOST:
                    wrong += [bool(each) for each in found[:, 2]]
    show(
        "90 % intervals of filled cells: coverage (%), and tables with a warning", ["", "coverage (%)", "warned"], rows
    )
    share = float(np.mean(wrong)) if wrong else 1.0
    claims.append(
        Claim(
            "t5, quadratic: share of tables with a warning, where intervals do not cover 87 to 93 %",
            share,
            least=WARNED,
        )
    )
    return print_claims(*claims)
