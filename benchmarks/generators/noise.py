"""Noise inside the rectifier, outlier rows and single precision, with and without the outer rectifier: measured.

With noise a unit counts as right where its heights' sine is at most ten times the noise's share, and a fit as silent
where a unit is wrong, or missing, without a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.generators.networks import SIZES, Rows, Size, draw
from benchmarks.generators.recovered import RIGHT, Recovered, recover, warm_up
from benchmarks.generators.sizes import median
from benchmarks.rivals.layers import OUTLIERS
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

SEEDS, OUTLYING, SECONDS = 3, 0.05, 120.0
HEADER = ["", "", "draws", "units found", "right", "unnamed", "silent", "A2 sine", "largest", "z error", "rows", "s"]


@dataclass(frozen=True)
class Case:
    """A kind of noise or outliers, and the largest sine of a right unit under it."""

    name: str
    spoil: Callable[[Rows, int], Rows]
    tolerance: float = RIGHT
    single: bool = False


def noise_of(share: float) -> Case:
    return Case(f"noise {100 * share:g} %", lambda rows, seed: rows.noisy(share, seed), 10.0 * share)


def outliers_of(kind: str) -> Case:
    name = f"{OUTLYING:.0%} rows {kind}"
    return Case(name, lambda rows, seed: rows.with_outliers(kind, OUTLYING, seed))


CASES = (
    Case("clean", lambda rows, _: rows),
    Case("single precision", lambda rows, _: rows, 1e-5, single=True),
    noise_of(0.001),
    noise_of(0.01),
    *(outliers_of(kind) for kind in OUTLIERS),
)


def run(most: int = 10**9, size: Size = SIZES[0]) -> list[Claim]:
    warm_up()
    rows, claims = [], []
    for rectified in (True, False):
        outer = "rectified" if rectified else "not rectified"
        for case in CASES:
            fits = [fit_case(case, size, seed, rectified) for seed in range(min(SEEDS, most))]
            rows.append([outer, case.name, *figures(fits, case.tolerance)])
            claims += claims_of(f"{case.name}, {outer}, {size}", fits, case.tolerance)
    show(f"{size}, at most {SECONDS:.0f} s a fit", [*HEADER, "warnings"], rows)
    return print_claims(*claims)


def fit_case(case: Case, size: Size, seed: int, rectified: bool) -> Recovered:
    rows = case.spoil(draw(size, seed, rectified), seed)
    return recover(rows, size.q, rows.X.astype(np.float32) if case.single else None, max_seconds=SECONDS)


def figures(fits: Sequence[Recovered], tolerance: float) -> list[str]:
    whole = [fit for fit in fits if fit.sine < 1.0]
    return [
        f"{len(fits)}",
        f"{np.mean([fit.units_found for fit in fits]):.1f} of {fits[0].truth.H.shape[1]}",
        f"{np.mean([fit.right(tolerance) for fit in fits]):.1f}",
        f"{sum(fit.wrong_unnamed(tolerance) for fit in fits)}",
        f"{sum(is_silent(fit, tolerance) for fit in fits)}",
        median([fit.sine for fit in whole]),
        f"{max(fit.sine for fit in fits):.1e}",
        median([fit.inputs_error for fit in whole]),
        f"{np.mean([fit.rows_determined for fit in fits]):.1%}",
        f"{np.median([fit.seconds for fit in fits]):.0f}",
        "; ".join(sorted({fit.words for fit in fits}))[:80],
    ]


def is_silent(fit: Recovered, tolerance: float) -> bool:
    return not fit.warned and fit.right(tolerance) < fit.truth.H.shape[1]


def claims_of(what: str, fits: Sequence[Recovered], tolerance: float) -> list[Claim]:
    share = np.mean([fit.right(tolerance) for fit in fits]) / fits[0].truth.H.shape[1]
    worst = f"A2's worst sine {max(fit.sine for fit in fits):.1e}, z {max(fit.inputs_error for fit in fits):.1e}"
    return [
        Claim(f"share of units found within {tolerance:g}, {what}", float(share), note=worst),
        Claim("  fits with wrong or missing units without a warning", sum(is_silent(fit, tolerance) for fit in fits)),
        Claim("  seconds, slowest", max(fit.seconds for fit in fits)),
    ]
