"""Samples of the recovered generator against fresh rows of the true one: energy distance, permuted labels.

A permutation test has its level exactly where both samples have one distribution. In a recovered generator z is
standard by the moments of its n rows. m rows on each side show little of that as long as m is well below 2 n; "its z
made standard" is the true network after the same, the best that n rows allow. That the test sees errors is shown by a
wrong A1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.stats import binom
from sklearn.metrics import pairwise_distances

from benchmarks.generators.networks import SIZES, Network
from benchmarks.generators.recovered import of_first_size
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

Sampler = Callable[[int, np.random.Generator], FloatArray]

SEEDS, SPLITS, ROWS, PERMUTATIONS = 10, 5, 1000, 199
LEVEL, OUTSIDE = 0.05, 0.01  # of a test; chance of a share outside of its band
LONGER, UNEVEN = 1.05, 0.1
ENOUGH = 20  # tests that show power


def run(most: int = 10**9) -> list[Claim]:
    tables = min(SEEDS, most)
    p_values: dict[str, list[float]] = {}
    unfit = []
    for seed in range(tables):
        fit = of_first_size(seed)
        if fit.parts is None or not fit.complete:
            unfit.append(seed)
            continue
        network, outputs = (
            fit.truth.network,
            fit.parts.identified,
        )  # outputs that are hardly ever on may have no weights
        samplers = {"recovered": fit.model.sample} | controls(network, fit.truth.z, seed)
        for k, split in np.ndindex(len(samplers), SPLITS):
            name, sampler = list(samplers.items())[k]
            rng = np.random.default_rng([seed, split, k])
            fresh, sample = network.rows(ROWS, seed, split, k).X, sampler(ROWS, rng)
            p_values.setdefault(name, []).append(energy_test(fresh[:, outputs], sample[:, outputs], rng))
    return report(p_values, f"not recovered: seeds {unfit}" if unfit else "")


def controls(network: Network, z: FloatArray, seed: int) -> dict[str, Sampler]:
    """Samples of the true network, of the best that its rows' inputs allow, and of two with a wrong A1."""
    A1, noise = network.A1, np.random.default_rng([seed, 4]).standard_normal(network.A1.shape)
    root = np.linalg.cholesky(np.cov(z.T, bias=True))
    others = {
        "the network itself": network,
        "its z made standard": replace(network, A1=A1 @ root, b1=network.b1 + A1 @ z.mean(axis=0)),
        f"A1 {LONGER - 1.0:.0%} longer": replace(network, A1=LONGER * A1),
        f"A1's entries off by {UNEVEN:.0%}": replace(network, A1=A1 * (1.0 + UNEVEN * noise)),
    }
    return {name: partial(rows_of, other) for name, other in others.items()}


def rows_of(network: Network, n: int, rng: np.random.Generator) -> FloatArray:
    return network.rows(n, int(rng.integers(2**31))).X


def report(p_values: dict[str, list[float]], note: str) -> list[Claim]:
    rows, claims = [], []
    for name, ps in p_values.items():
        low, high = (float(binom.ppf(at, len(ps), LEVEL)) / len(ps) for at in (OUTSIDE / 2.0, 1.0 - OUTSIDE / 2.0))
        share = float(np.mean(np.array(ps) <= LEVEL))
        rows.append([name, f"{len(ps)}", f"{share:.1%}", f"{low:.1%} to {high:.1%}", f"{np.median(ps):.3f}"])
        what = f"share of rejections at {LEVEL:.0%}, {len(ps)} tests: {name}"
        if name.startswith("A1"):
            least = 2.0 * high if len(ps) >= ENOUGH else None
            claims.append(Claim(what, share, least=least, note=f"twice the band's end {high:.1%}"))
        else:
            bound = None if name.startswith("its") else high
            claims.append(Claim(what, share, bound, note=note))
    title = f"samples against fresh rows, {SIZES[0]}, {ROWS:,} rows on each side, energy distance"
    show(title, ["sample", "tests", "rejected", "binomial band", "median p"], rows)
    return print_claims(*claims)


def energy_test(first: FloatArray, second: FloatArray, rng: np.random.Generator, n: int = PERMUTATIONS) -> float:
    """p-value of 2 E|x - y| - E|x - x'| - E|y - y'| for samples of one size, among permutations of the labels."""
    distances = pairwise_distances(np.vstack([first, second]))
    labels = np.ones((n + 1, len(distances)))
    labels[:, len(first) :] = -1.0
    labels[1:] = rng.permuted(labels[1:], axis=1)
    energy = -((labels @ distances) * labels).sum(axis=1)
    return float(np.mean(energy >= energy[0]))
