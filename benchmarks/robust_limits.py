"""The robust learner where it is hardest: many columns with few rows, and single cells replaced instead of rows.

The method is not made for cell-wise contamination: with d columns a share e of bad cells spoils the share
1 - (1 - e)^d of the rows. The figures show the error then; there is no bound.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks.table import Claim
from benchmarks.zoo import KINDS, error
from unrelu import RectifiedGaussian, RectifiedGaussianLearner, synthetic

REPETITIONS = 2


def run() -> list[Claim]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more columns than rows, unclear majorities: the figures show it
        wide = [many_columns(d, n, kind) for d, n in ((100, 2000), (300, 1500)) for kind in ("N(5,1)", "Cauchy x 3")]
        return [*wide, *(single_cells(d, share) for d in (5, 20) for share in (0.01, 0.02, 0.05))]


def many_columns(d: int, n: int, kind: str) -> Claim:
    truth = synthetic.random_model(d, condition_number=10.0, random_state=0)
    inlier = truth.sample(n, random_state=1)
    rows, is_outlier = synthetic.contaminate(
        inlier, 0.2, lambda count, rng: np.maximum(KINDS[kind](truth, count, rng), 0.0), random_state=2, fixed=True
    )
    start = time.perf_counter()
    robust = RectifiedGaussianLearner("robust", margins="normal").fit(rows)
    seconds = time.perf_counter() - start
    oracle, naive = (
        RectifiedGaussianLearner("one_pass", margins="normal").fit(x).distribution_ for x in (rows[~is_outlier], rows)
    )
    best = error(oracle, truth)
    return Claim(
        f"robust / oracle's error, {kind}, p=0.8, d={d}, n={n:,}",
        error(robust.distribution_, truth) / best,
        most=1.25,
        note=f"one_pass {error(naive, truth) / best:.3g}; {seconds:.0f} s",
    )


def single_cells(d: int, share: float) -> Claim:
    """Every cell is increased by 6 with the given probability, independently."""
    ratios, naive = [], []
    for seed in range(REPETITIONS):
        truth: RectifiedGaussian = synthetic.random_model(d, condition_number=10.0, random_state=seed)
        clean = truth.sample(20_000, random_state=seed)
        hit = np.random.default_rng(seed).random(clean.shape) < share
        rows = clean + 6.0 * hit
        best = error(RectifiedGaussianLearner("one_pass", margins="normal").fit(clean).distribution_, truth)
        ratios.append(error(RectifiedGaussianLearner("robust", margins="normal").fit(rows).distribution_, truth) / best)
        naive.append(
            error(RectifiedGaussianLearner("one_pass", margins="normal").fit(rows).distribution_, truth) / best
        )
    return Claim(
        f"robust / clean table's error, {share:.0%} of the cells +6, d={d}",
        float(np.mean(ratios)),
        note=f"{1.0 - (1.0 - share) ** d:.0%} of the rows hit; one_pass {np.mean(naive):.3g}; mean of {REPETITIONS}",
    )
