"""Time of the default: on a table of usual size, and on a large one over that of one pass with normal margins."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner, synthetic

TIMES = 3


def floored(n: int, d: int) -> np.ndarray:
    """Half of each column at 0."""
    model = synthetic.random_model(d, condition_number=10.0, random_state=0)
    x = model.with_parts(mean=np.zeros(d)).sample(n, random_state=1)
    return np.asarray(x)


def least(x: np.ndarray, **options: Any) -> float:
    """Seconds of a fit, the least of some after one that compiles."""
    RectifiedGaussianLearner(**options).fit(x[:500])
    taken = []
    for _ in range(TIMES):
        start = time.perf_counter()
        RectifiedGaussianLearner(**options).fit(x)
        taken.append(time.perf_counter() - start)
    return min(taken)


def run(most: int) -> list[Claim]:  # noqa: ARG001 - one table of each size is enough
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small, large = least(floored(1000, 10)), floored(100_000, 50)
        plain, ours = least(large, method="one_pass", margins="normal"), least(large)
    return print_claims(
        Claim("seconds of the default, 1,000 x 10, half floored", small, most=0.5),
        Claim(
            "default / one_pass with normal margins, 100,000 x 50",
            ours / plain,
            most=3.0,
            note=f"{ours:.2f} s against {plain:.2f} s",
        ),
    )
