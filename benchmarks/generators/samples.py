"""Samples of the recovered generator against fresh rows of the true one: energy distance, permuted labels.

A permutation test has its level exactly where both samples have one law. The recovered law is learned from n rows,
which a test of m rows on each side does not see as long as m is well below 2 n: the errors of z's mean and covariance
are those of n rows. That the test sees errors at all is shown by generators with a wrong A1.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom
from sklearn.metrics import pairwise_distances

from benchmarks.generators.networks import SIZES, Network
from benchmarks.generators.recovered import of_first_size
from benchmarks.studies import show, told
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

SEEDS, SPLITS, ROWS, PERMUTATIONS = 10, 5, 1500, 199
LEVEL, OUTSIDE = 0.05, 0.01  # of a test; chance of a share outside of its band
LONGER, UNEVEN = 1.05, 0.1


def run(most: int = 10**9) -> list[Claim]:
    tables = min(SEEDS, most)
    p_values: dict[str, list[float]] = {}
    unfit = []
    for seed in range(tables):
        fit = of_first_size(seed)
        if not fit.complete:
            unfit.append(seed)
            continue
        network = fit.truth.network
        for split in range(SPLITS):
            fresh = network.rows(ROWS, seed, split, 1).X
            others = {"recovered": fit.model.sample(ROWS, random_state=[seed, split, 2])}
            others |= {name: net.rows(ROWS, seed, split, 3).X for name, net in controls(network, seed).items()}
            for k, (name, sample) in enumerate(others.items()):
                p = energy_test(fresh, sample, np.random.default_rng([seed, split, k]))
                p_values.setdefault(name, []).append(p)
    return report(p_values, f"not recovered: seeds {unfit}" if unfit else "")


def controls(network: Network, seed: int) -> dict[str, Network]:
    """The true network, and two with a wrong A1."""
    noise = np.random.default_rng([seed, 4]).standard_normal(network.A1.shape)
    wrong = {
        "the network itself": network.A1,
        f"A1 {LONGER - 1.0:.0%} longer": LONGER * network.A1,
        f"A1's entries off by {UNEVEN:.0%}": network.A1 * (1.0 + UNEVEN * noise),
    }
    return {name: Network(A1, network.b1, network.A2, network.b2) for name, A1 in wrong.items()}


def report(p_values: dict[str, list[float]], note: str) -> list[Claim]:
    rows, claims = [], []
    for name, ps in p_values.items():
        low, high = (float(binom.ppf(at, len(ps), LEVEL)) / len(ps) for at in (OUTSIDE / 2.0, 1.0 - OUTSIDE / 2.0))
        share = float(np.mean(np.array(ps) <= LEVEL))
        rows.append([name, f"{len(ps)}", f"{share:.1%}", f"{low:.1%} to {high:.1%}", f"{np.median(ps):.3f}"])
        what = f"share of rejections at {LEVEL:.0%}, {len(ps)} tests: {name}"
        if name.startswith("A1"):
            claims.append(Claim(what, share, least=2.0 * high, note=f"twice the band's end {high:.1%}"))
        else:
            claims.append(Claim(what, share, most=high, least=low, note=note))
    title = f"samples against fresh rows, {SIZES[0]}, {ROWS:,} rows on each side, energy distance"
    show(title, ["sample", "tests", "rejected", "binomial band", "median p"], rows)
    return told(*claims)


def energy_test(first: FloatArray, second: FloatArray, rng: np.random.Generator, n: int = PERMUTATIONS) -> float:
    """p-value of 2 E|x - y| - E|x - x'| - E|y - y'| for samples of one size, among permutations of the labels."""
    distances = pairwise_distances(np.vstack([first, second]))
    labels = np.ones((n + 1, len(distances)))
    labels[:, len(first) :] = -1.0
    labels[1:] = rng.permuted(labels[1:], axis=1)
    energy = -((labels @ distances) * labels).sum(axis=1)
    return float(np.mean(energy >= energy[0]))
