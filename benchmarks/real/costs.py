"""Time of the pass with the sums of columns that diagnostics need, over that of the pass without."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.table import Claim
from unrelu.contracts import Block
from unrelu.passes.engine import one_blas_thread
from unrelu.passes.pair_moments import PairMomentsQuestion

REPEATS = 25


def ratio(n: int, d: int) -> Claim:
    x = np.maximum(np.random.default_rng(0).standard_normal((n, d)), 0.0)
    questions, block = [PairMomentsQuestion((0.0,) * d, (0.0,) * d, margins=each) for each in (True, False)], Block(x)
    times: list[list[float]] = [[], []]
    with one_blas_thread():
        for _ in range(REPEATS):
            for question, seconds in zip(questions, times, strict=True):
                start = time.process_time()
                question(block)
                seconds.append(time.process_time() - start)
    with_it, without = (float(np.median(seconds)) for seconds in times)
    most = 1.05 if n >= 100_000 else None
    return Claim(
        f"pass with the sums for diagnostics / without, n={n:,}, d={d}",
        with_it / without,
        most,
        note=f"{1e3 * without:.1f} ms without",
    )


def run() -> list[Claim]:
    return [ratio(200_000, 50), ratio(200_000, 10), ratio(20_000, 20)]
