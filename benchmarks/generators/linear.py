"""Outputs without a rectifier, x = A2 h + b2, by :class:`unrelu.TwoLayerReLULearner`."""

from __future__ import annotations

from benchmarks.generators.networks import SIZES, draw
from benchmarks.generators.recovered import recover, warm_up
from benchmarks.generators.sizes import HEADER, figures, size_claims
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim

SEEDS = 5


def run(most: int = 10**9) -> list[Claim]:
    warm_up()
    rows, claims = [], []
    for size in SIZES:
        fits = [recover(draw(size, seed, rectified=False), size.q) for seed in range(min(SEEDS, most))]
        rows.append([str(size), *figures(fits)])
        claims += size_claims(f"{size}, no outer rectifier", fits, seconds=None)
    show("outputs without a rectifier", HEADER, rows)
    return print_claims(*claims)
