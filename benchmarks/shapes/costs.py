"""Time of a fit with shapes over that of a plain one, and where it goes; the best of several, in alternation."""

from __future__ import annotations

import time
import warnings

import unrelu
from benchmarks.speed import floored, seconds
from benchmarks.studies import told
from benchmarks.table import Claim
from unrelu.contracts import Assumptions, Block, FloatArray
from unrelu.fit.margins import fit_shapes
from unrelu.limits import limits_of
from unrelu.passes.columns import margins_of
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables.prepared import Columns

ROUNDS, N, D = 9, 200_000, 50
MOST = {"free": 2.5, "power": 3.0, "auto": None}


def parts(x: FloatArray, shape: str) -> dict[str, float]:
    """Seconds of each step, the best of several."""
    limits = limits_of(0.0, None, D)
    question, pairs = margins_of, PairMomentsQuestion.under(Assumptions((0.0,) * D))
    margins = question(Block(x))
    shaped = Columns(limits.floor, limits.ceiling, shapes=fit_shapes([shape] * D, margins, limits, None))
    steps = {
        "margins": lambda: question(Block(x)),
        "shapes": lambda: fit_shapes([shape] * D, margins, limits, None),
        "latent values": lambda: shaped.latent(x),
        "pair moments": lambda: pairs(Block(x)),
    }
    return {name: min(seconds(step) for _ in range(ROUNDS)) for name, step in steps.items()}


def run(most: int = 10**9) -> list[Claim]:
    x = floored(N, D)
    learners = {shape: unrelu.RectifiedGaussianLearner(shape=shape) for shape in ("normal", *MOST)}
    times: dict[str, list[float]] = {shape: [] for shape in learners}
    cores: dict[str, list[float]] = {shape: [] for shape in learners}  # what all cores spent, whoever else used them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for learner in learners.values():
            learner.fit(x[:5000])  # compiled or loaded from the cache
        for _ in range(min(ROUNDS, most)):
            for shape, learner in learners.items():
                start = time.process_time()
                times[shape].append(seconds(lambda learner=learner: learner.fit(x)))  # type: ignore[misc]
                cores[shape].append(time.process_time() - start)
    plain = min(times["normal"])
    claims = []
    for shape, bound in MOST.items():
        spent = ", ".join(f"{name} {1e3 * each:.0f} ms" for name, each in parts(x, shape).items())
        note = f"{1e3 * min(times[shape]):.0f} ms against {1e3 * plain:.0f} ms; {spent};"
        note += f" time of all cores {min(cores[shape]) / min(cores['normal']):.2f}"
        name = f"time of shape={shape!r} / of the plain fit, n={N:,}, d={D} (best of {ROUNDS})"
        claims.append(Claim(name, min(times[shape]) / plain, bound, note=note))
        print(f"  {name}: {claims[-1].figure:.2f} ({note})")
    return told(*claims)
