"""Time of a fit with margins over that of normal ones, and its parts; the best of several, in alternation."""

from __future__ import annotations

import time
import warnings

import unrelu
from benchmarks.speed import floored, seconds
from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu.contracts import Assumptions, Block, FloatArray
from unrelu.fit.margins import fit_margins
from unrelu.limits import limits_of
from unrelu.passes.columns import margins_of
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables.prepared import Columns

ROUNDS, N, D = 9, 200_000, 50
MOST = {"monotone": 2.5, "boxcox": 3.0, "auto": None}


def parts(x: FloatArray, margin: str) -> dict[str, float]:
    """Seconds of each step, the best of several."""
    limits = limits_of(0.0, None, D)
    count_values, pairs = margins_of, PairMomentsQuestion.under(Assumptions((0.0,) * D))
    values = count_values(Block(x))
    with_margins = Columns(limits.floor, limits.ceiling, margins=fit_margins([margin] * D, values, limits, None))
    steps = {
        "value counts": lambda: count_values(Block(x)),
        "margins": lambda: fit_margins([margin] * D, values, limits, None),
        "latent values": lambda: with_margins.latent(x),
        "pair moments": lambda: pairs(Block(x)),
    }
    return {name: min(seconds(step) for _ in range(ROUNDS)) for name, step in steps.items()}


def run(most: int = 10**9) -> list[Claim]:
    x = floored(N, D)
    learners = {margin: unrelu.RectifiedGaussianLearner(margins=margin) for margin in ("normal", *MOST)}
    times: dict[str, list[float]] = {margin: [] for margin in learners}
    cores: dict[str, list[float]] = {
        margin: [] for margin in learners
    }  # time of all cores, without that of other processes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for learner in learners.values():
            learner.fit(x[:5000])  # compiled or loaded from the cache
        for _ in range(min(ROUNDS, most)):
            for margin, learner in learners.items():
                start = time.process_time()
                times[margin].append(seconds(lambda learner=learner: learner.fit(x)))  # type: ignore[misc]
                cores[margin].append(time.process_time() - start)
    plain = min(times["normal"])
    claims = []
    for margin, bound in MOST.items():
        spent = ", ".join(f"{name} {1e3 * each:.0f} ms" for name, each in parts(x, margin).items())
        note = f"{1e3 * min(times[margin]):.0f} ms against {1e3 * plain:.0f} ms; {spent};"
        note += f" time of all cores {min(cores[margin]) / min(cores['normal']):.2f}"
        name = f"time of margins={margin!r} / of margins='normal', n={N:,}, d={D} (best of {ROUNDS})"
        claims.append(Claim(name, min(times[margin]) / plain, bound, note=note))
        print(f"  {name}: {claims[-1].figure:.2f} ({note})")
    return print_claims(*claims)
