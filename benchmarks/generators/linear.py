"""Outputs without a rectifier, x = A2 h + b2, by :class:`unrelu.TwoLayerReLULearner`."""

from __future__ import annotations

from benchmarks.generators.networks import SIZES, drawn
from benchmarks.generators.recovered import recover, warm_up
from benchmarks.generators.sizes import HEADER, as_asked, figures
from benchmarks.studies import show, told
from benchmarks.table import Claim

SEEDS = 5


def run(most: int = 10**9) -> list[Claim]:
    warm_up()
    rows, claims = [], []
    for size in SIZES:
        fits = [recover(drawn(size, seed, rectified=False), size.q) for seed in range(min(SEEDS, most))]
        rows.append([str(size), *figures(fits)])
        claims += as_asked(f"{size}, no outer rectifier", fits, seconds=None)
    show("outputs without a rectifier", HEADER, rows)
    return told(*claims)
