"""The cost of "robust_cells" over that of one_pass: processor time of both in one run."""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner, synthetic

ROWS, COLUMNS, TIMES = 200_000, 50, 5


def cost(most: int) -> list[Claim]:  # noqa: ARG001 - one table is enough
    truth = synthetic.random_model(COLUMNS, condition_number=10.0, random_state=0)
    x = truth.sample(ROWS, random_state=1)
    bad = np.random.default_rng(2).random(x.shape) < 0.05
    x = np.where(bad, x + 6.0 * truth.std, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = {name: _seconds(name, x) for name in ("one_pass", "robust_cells")}
    print(f"  n={ROWS:,}, d={COLUMNS}: " + ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items()))
    ratio = seconds["robust_cells"] / seconds["one_pass"]
    return print_claims(
        Claim(f"n={ROWS:,}, d={COLUMNS}: processor time of robust_cells over one_pass", ratio, most=40.0)
    )


def _seconds(method: str, x: np.ndarray) -> float:
    """The least of some runs: the first one of one_pass takes up to three times as long as those after it."""
    RectifiedGaussianLearner(method, margins="normal").fit(x[:2000])  # compiles
    taken = []
    for _ in range(TIMES):
        start = time.process_time()
        RectifiedGaussianLearner(method, margins="normal").fit(x)
        taken.append(time.process_time() - start)
    return min(taken)
