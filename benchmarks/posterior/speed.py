"""Seconds for a table of 100,000 rows and 20 columns, half of its cells at the floor, in latent units and with logs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import unrelu
from benchmarks.speed import seconds
from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

N, D, ROUNDS, MOST = 100_000, 20, 3, 10.0


def model(log: bool) -> unrelu.RectifiedGaussian:
    """Correlations of random rows of weights; the median of every column is its floor."""
    drawn = unrelu.synthetic.random_model(D, condition_number=10, random_state=0)
    margins = [unrelu.margins.Log()] * D if log else None
    return unrelu.RectifiedGaussian(np.zeros(D), drawn.correlation, 1.0 if log else 0.0, margins=margins)


TASKS: dict[str, Callable[[unrelu.RectifiedGaussian, FloatArray], object]] = {
    "impute": lambda distribution, rows: distribution.impute(rows),
    "log_prob": lambda distribution, rows: distribution.log_prob(rows),
    "one draw of every row": lambda distribution, rows: distribution.sample_latent(rows, random_state=0),
}


def run(most: int = 10**9) -> list[Claim]:
    claims = []
    for words, distribution in (("margins='normal'", model(log=False)), ("margins='log'", model(log=True))):
        x = distribution.sample(N, random_state=1)
        share = float(np.mean(x <= distribution.floor))
        for name, task in TASKS.items():
            task(distribution, x[:500])  # compiled or loaded from the cache
            times = [seconds(partial(task, distribution, x)) for _ in range(min(ROUNDS, most))]
            label = f"seconds of {name}, n={N:,}, d={D}, {share:.0%} floored, {words}"
            spent = ", ".join(f"{each:.1f}" for each in times)
            claims.append(Claim(label, min(times), MOST, note=f"rounds: {spent} s"))
    return print_claims(*claims)
