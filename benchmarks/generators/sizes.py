"""Ten networks of each size: units found, weights, inputs and seconds; the smallest size also with an unknown q."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.generators.networks import SIZES, Size, draw
from benchmarks.generators.recovered import RIGHT, Recovered, of_first_size, recover, warm_up
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

SEEDS = 10
SECONDS = dict(zip(SIZES, (60.0, 120.0, 240.0), strict=True))
HEADER = ["", "draws", "all units", "units", "wrong", "unnamed", "A2 sine", "z error", "rows", "A1 affine", "A1"]
HEADER += ["A1, true z", "s", "slowest", "warnings"]


def run(most: int = 10**9) -> list[Claim]:
    warm_up()
    rows, claims = [], []
    for size in SIZES:
        fits = [fit_of(size, seed) for seed in range(min(SEEDS, most))]
        rows.append([str(size), *figures(fits)])
        claims += size_claims(f"{size}", fits, SECONDS[size])
    smallest = SIZES[0]
    fits = [recover(draw(smallest, seed), "auto") for seed in range(min(SEEDS, most))]
    rows.append([f'{smallest}, n_inputs="auto"', *figures(fits)])
    claims += size_claims(f'{smallest}, n_inputs="auto"', fits, SECONDS[smallest])
    chosen = [inputs_chosen(fit) for fit in fits]
    right = sum(q == smallest.q for q in chosen)
    claims.append(Claim(f"  q={smallest.q} chosen, of {len(fits)}", right, least=nine_of_ten(fits), note=f"{chosen}"))
    show("networks that widen: medians over draws with all units, and the slowest", HEADER, rows)
    return print_claims(*claims)


def fit_of(size: Size, seed: int) -> Recovered:
    return of_first_size(seed) if size == SIZES[0] else recover(draw(size, seed), size.q)


def inputs_chosen(fit: Recovered) -> int:
    inner = getattr(fit.model, "inner", None)
    return 0 if inner is None else inner.n_inputs


def nine_of_ten(fits: Sequence[Recovered]) -> int:
    return math.floor(0.9 * len(fits) + 0.5)


def size_claims(what: str, fits: Sequence[Recovered], seconds: float | None) -> list[Claim]:
    """The claims of every size: exactness in draws with all units, and the number of these draws.

    Without a bound on seconds only wrong units have a bound.
    """
    bound = None if seconds is None else RIGHT
    whole = [fit for fit in fits if fit.complete]
    slow = [fit.seconds for fit in fits]
    return [
        Claim(
            f"draws with all units, {what}, of {len(fits)}",
            len(whole),
            least=None if seconds is None else nine_of_ten(fits),
            note=missing(fits),
        ),
        Claim("  sine of A2's worst column, largest", max((fit.sine for fit in whole), default=1.0), most=bound),
        Claim("  error of z, largest", max((fit.inputs_error for fit in whole), default=1.0), most=bound),
        Claim("  wrong units not named", sum(fit.wrong_unnamed() for fit in fits), most=0, note=wrong(fits)),
        Claim("  seconds, slowest", max(slow), most=seconds, note=f"median {np.median(slow):.0f}"),
    ]


def figures(fits: Sequence[Recovered]) -> list[str]:
    whole = [fit for fit in fits if fit.complete]
    units = fits[0].truth.H.shape[1]
    inner = np.array([fit.input_weight_errors for fit in whole]).reshape(-1, 3)
    warned = sorted({fit.words for fit in fits})
    return [
        f"{len(fits)}",
        f"{len(whole)}",
        f"{np.mean([fit.right() for fit in fits]):.1f} of {units}",
        f"{sum(len(fit.unit_sines) - fit.right() for fit in fits)}",
        f"{sum(fit.wrong_unnamed() for fit in fits)}",
        median([fit.sine for fit in whole]),
        median([fit.inputs_error for fit in whole]),
        f"{np.mean([fit.rows_determined for fit in fits]):.1%}",
        *(median(inner[:, column]) for column in range(3)),
        f"{np.median([fit.seconds for fit in fits]):.1f}",
        f"{max(fit.seconds for fit in fits):.1f}",
        "; ".join(warned)[:60],
    ]


def median(values: Sequence[float] | np.ndarray) -> str:
    return f"{np.median(values):.1e}" if len(values) else ""


def missing(fits: Sequence[Recovered]) -> str:
    """Draws in which units were not found, and their warnings."""
    short = [(seed, fit) for seed, fit in enumerate(fits) if not fit.complete]
    return "; ".join(f"seed {seed}: {fit.right()} right of {fit.units_found}, {fit.words}" for seed, fit in short)


def wrong(fits: Sequence[Recovered]) -> str:
    return f"of {sum(len(fit.unit_sines) - fit.right() for fit in fits)} wrong ones"
