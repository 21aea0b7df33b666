"""Seconds for a table of 100,000 rows and 20 columns, half of its cells at the floor, in latent units and with logs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import unrelu
from benchmarks.speed import seconds
from benchmarks.studies import told
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

N, D, ROUNDS, MOST = 100_000, 20, 3, 10.0


def model(shape: bool) -> unrelu.RectifiedGaussian:
    """Correlations of random rows of weights; the median of every column is its floor."""
    drawn = unrelu.synthetic.random_model(D, condition_number=10, random_state=0)
    shapes = [unrelu.shapes.Log()] * D if shape else None
    return unrelu.RectifiedGaussian(np.zeros(D), drawn.correlation, 1.0 if shape else 0.0, shapes=shapes)


def run(most: int = 10**9) -> list[Claim]:
    claims = []
    for shape in (False, True):
        law = model(shape)
        x = law.sample(N, random_state=1)
        tasks: dict[str, Callable[[FloatArray], object]] = {
            "impute": lambda rows, law=law: law.impute(rows),
            "log_prob": lambda rows, law=law: law.log_prob(rows),
            "one draw of every row": lambda rows, law=law: law.sample_latent(rows, random_state=0),
        }
        for name, task in tasks.items():
            task(x[:500])  # compiled or loaded from the cache
            times = [seconds(lambda task=task, x=x: task(x)) for _ in range(min(ROUNDS, most))]  # type: ignore[misc]
            spent = ", ".join(f"{each:.1f}" for each in times)
            share, words = float(np.mean(x <= law.floor)), "shape='log'" if shape else "no shape"
            label = f"seconds of {name}, n={N:,}, d={D}, {share:.0%} floored, {words}"
            claims.append(Claim(label, min(times), MOST, note=f"rounds: {spent} s"))
    return told(*claims)
